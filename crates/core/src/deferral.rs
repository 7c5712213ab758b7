//! Deferred tools: foreign tools whose schemas would take too much of the window. Requests do not list these tools. The
//! model finds them with [`SEARCH`] and calls them with [`CALL`].
//!
//! The search is BM25 over names and descriptions ([`SearchIndex`]). A call through [`CALL`] is checked against the
//! tool's schema and becomes a call of the tool itself ([`DeferredTools::resolve`]). Approvals, history and all other
//! code behind this module see the real name. A request turns such calls back ([`wrap_calls`]), because its list of
//! tools has only these two.

mod arguments;
mod check;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use crate::estimate::text_tokens;
use crate::message::{Message, Part, RawJson, ToolCall, ToolSpec};
use crate::recall::SearchIndex;
use crate::truncate::TextLimit;

pub use self::arguments::wrapped_arguments;
use self::arguments::{DeferredCallArguments, read_query};
pub(crate) use self::check::check_arguments;

/// The name of the tool that finds deferred tools.
pub const SEARCH: &str = "tool_search";

/// The name of the tool that calls a deferred tool.
pub const CALL: &str = "tool_call";

/// The number of tools that one search returns by default.
const DEFAULT_HITS: usize = 5;

/// The maximum number of tools that one search returns.
const MAX_HITS: usize = 20;

/// The maximum size of all names in the description of [`SEARCH`], in tokens. Names show a model the words to search
/// for, but too many would use up the tokens that deferral saves.
const MAX_NAMES_TOKENS: u64 = 600;

/// The number of names in the answer to a search without a hit.
const MAX_NEAR_NAMES: usize = 12;

/// Tools that requests do not list, with an index for their search.
///
/// ```
/// use longhaul_core::deferral::DeferredTools;
/// use longhaul_core::message::{RawJson, ToolSpec};
/// let spec = ToolSpec {
///     name: "tracker__create_issue".into(),
///     description: "Open a new issue.".into(),
///     parameters: RawJson(
///         r#"{"type":"object","properties":{"title":{"type":"string"}},"required":["title"]}"#.into(),
///     ),
///     read_only: false,
///     poll: false,
///     source: "tracker".into(),
/// };
/// let deferred = DeferredTools::new(vec![spec]);
/// let call = deferred.resolve(r#"{"name":"tracker__create_issue","arguments":{"title":"Leak"}}"#).unwrap();
/// assert_eq!((call.name.as_str(), call.arguments.as_str()), ("tracker__create_issue", r#"{"title":"Leak"}"#));
/// assert!(deferred.resolve(r#"{"name":"tracker__create_issue"}"#).unwrap_err().contains("`title`"));
/// ```
#[derive(Clone, Debug, Default)]
pub struct DeferredTools {
    specs: Vec<ToolSpec>,
    index: SearchIndex,
}

// The index follows from the specifications, so comparing these is enough.
impl PartialEq for DeferredTools {
    fn eq(&self, other: &Self) -> bool {
        self.specs == other.specs
    }
}

impl Eq for DeferredTools {}

/// A call of a deferred tool under its own name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeferredToolCall {
    /// The name of the tool.
    pub name: String,
    /// The arguments of the tool: one JSON object, byte for byte as the model wrote it.
    pub arguments: String,
}

impl DeferredTools {
    /// Indexes tools. Hits with equal scores keep the order of `specs`.
    pub fn new(specs: Vec<ToolSpec>) -> Self {
        // Neighbours in a list of tools are unrelated, unlike neighbours in a conversation: a hit must not raise them.
        let mut index = SearchIndex::of_separate_texts();
        specs.iter().for_each(|spec| _ = index.add(&searched_text(spec)));
        Self { specs, index }
    }

    /// Returns the number of tools.
    pub fn len(&self) -> usize {
        self.specs.len()
    }

    /// Returns whether there are no tools.
    pub fn is_empty(&self) -> bool {
        self.specs.is_empty()
    }

    /// Returns the tool with exactly this name.
    pub fn get(&self, name: &str) -> Option<&ToolSpec> {
        self.specs.iter().find(|spec| spec.name == name)
    }

    /// Returns the two tools that a request lists in the place of these. With `names_tools` the description of the
    /// search contains as many names as have room. A small window has no room for names.
    pub fn stand_ins(&self, names_tools: bool) -> [ToolSpec; 2] {
        [self.search_spec(names_tools), call_spec()]
    }

    fn search_spec(&self, names_tools: bool) -> ToolSpec {
        let names = if names_tools { self.names() } else { String::new() };
        spec(
            SEARCH,
            format!(
                "Finds tools by words and returns their schemas. {} more tools than you see here can be called with \
                 `{CALL}`: {}.{names}",
                self.len(),
                self.sources()
            ),
            r#"{"type":"object","properties":{"query":{"type":"string","description":"What the tool is to do, or its name."},"limit":{"type":"integer"}},"required":["query"]}"#,
        )
    }

    /// Returns the sources of the tools with their numbers of tools: `48 of github, 12 of jira`.
    fn sources(&self) -> String {
        // A sorted map, because the description is a part of every request: another order would void the provider's
        // prompt cache.
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        self.specs.iter().for_each(|spec| *counts.entry(spec.source.as_str()).or_default() += 1);
        let said = counts.iter().map(|(source, count)| format!("{count} of {source}"));
        said.collect::<Vec<_>>().join(", ")
    }

    /// Returns a sentence with the names of the tools, as far as [`MAX_NAMES_TOKENS`] allows.
    fn names(&self) -> String {
        // The order of the list and not of use (decision 0052): a description that changes within a session would void
        // the cache.
        let mut names = String::from(" Their names: ");
        let mut tokens = text_tokens(&names);
        for (at, spec) in self.specs.iter().enumerate() {
            tokens += text_tokens(&spec.name) + 1;
            if tokens > MAX_NAMES_TOKENS {
                names.push_str(" and more.");
                return names;
            }
            names.push_str(if at == 0 { "" } else { ", " });
            names.push_str(&spec.name);
        }
        names.push('.');
        names
    }

    /// Returns the answer to a call of [`SEARCH`]: one line for each tool with its schema, the best hit first, as far
    /// as `limit` allows.
    ///
    /// # Errors
    /// A sentence for the model, if the call has no query.
    pub fn search(&self, arguments: &str, limit: &TextLimit) -> Result<String, String> {
        let (query, hits) = read_query(arguments)?;
        let found = self.find(&query, hits.unwrap_or(DEFAULT_HITS).clamp(1, MAX_HITS));
        if found.is_empty() {
            let names: Vec<&str> = self.specs.iter().take(MAX_NEAR_NAMES).map(|spec| &*spec.name).collect();
            return Ok(format!(
                "No tool matches `{}`. Of the {} tools some are: {}. Try other words.",
                query.chars().take(200).collect::<String>(),
                self.len(),
                names.join(", ")
            ));
        }
        Ok(listing(&found, limit))
    }

    /// Returns at most `hits` tools that match a query, the best first.
    pub fn find(&self, query: &str, hits: usize) -> Vec<&ToolSpec> {
        let within = self.index.len();
        let query = self.index.query(&words_of(query), within);
        // The index puts the last of equal hits first, as it suits a conversation. Tools keep the order of their list,
        // so all candidates are sorted before the list is cut: else the last of many equal tools would stay.
        let mut found = self.index.best_candidates(&query, within, within, |_| 1.0);
        found.sort_by(|one, other| other.score.total_cmp(&one.score).then(one.at.cmp(&other.at)));
        found.iter().take(hits).filter_map(|candidate| self.specs.get(candidate.at)).collect()
    }

    /// Returns the call of a deferred tool that the arguments of [`CALL`] describe.
    ///
    /// # Errors
    /// An answer for the model. For an unknown tool the answer contains the nearest names, for wrong arguments
    /// the mistake and the schema.
    pub fn resolve(&self, arguments: &str) -> Result<DeferredToolCall, String> {
        let DeferredCallArguments { name, arguments } = DeferredCallArguments::read(arguments)?;
        let spec = self.named(&name).ok_or_else(|| self.unknown(&name))?;
        // Arguments are checked before anybody is asked for an approval (decision 0052), so that a person never judges
        // a call that cannot be made.
        match check_arguments(spec.parameters.as_str(), &arguments) {
            Ok(()) => Ok(DeferredToolCall { name: spec.name.clone(), arguments }),
            Err(why) => Err(format!(
                "Error: `{}` was not called: {why}. The schema of its arguments: {}",
                spec.name,
                spec.parameters.as_str()
            )),
        }
    }

    /// Returns the call that a call of [`CALL`] describes. Any other call, and one that cannot be resolved, is returned
    /// unchanged. An unresolved call is answered with the reason when it runs.
    ///
    /// `is_told` returns whether the request lists a tool. Models use [`CALL`] for listed tools as well.
    pub fn unwrap_call(&self, call: ToolCall, is_told: impl Fn(&str) -> bool) -> ToolCall {
        if call.name != CALL {
            return call;
        }
        // A listed tool has no schema here. Its call is taken over as if the model had called the tool itself.
        let told = read_call(&call.arguments).ok().filter(|made| is_told(&made.name));
        match told.map_or_else(|| self.resolve(&call.arguments), Ok) {
            Ok(DeferredToolCall { name, arguments }) => ToolCall { name, arguments, ..call },
            Err(_) => call,
        }
    }

    /// Returns the tool of a name that a model wrote. Models often drop a prefix or change capitals.
    fn named(&self, name: &str) -> Option<&ToolSpec> {
        self.get(name).or_else(|| self.only_tool(|known| known.eq_ignore_ascii_case(name))).or_else(|| {
            self.only_tool(|known| known.strip_suffix(name).is_some_and(|rest| rest.ends_with("__")))
        })
    }

    /// Returns the tool whose name `is_meant` accepts, if there is only one.
    fn only_tool(&self, is_meant: impl Fn(&str) -> bool) -> Option<&ToolSpec> {
        // A name that several tools match is refused, because a call of the wrong tool may do harm.
        let mut meant = self.specs.iter().filter(|spec| is_meant(&spec.name));
        meant.next().filter(|_| meant.next().is_none())
    }

    /// Returns the answer to a call of an unknown tool, with the nearest names.
    fn unknown(&self, name: &str) -> String {
        let near: Vec<&str> = self.find(name, 3).iter().map(|spec| spec.name.as_str()).collect();
        let near = match near.as_slice() {
            [] => String::new(),
            near => format!(" The nearest are: {}.", near.join(", ")),
        };
        let name: String = name.chars().take(80).collect();
        format!("Error: there is no tool named `{name}`.{near} `{SEARCH}` finds tools by words.")
    }
}

/// Returns the call that the arguments of [`CALL`] describe, without regard to the tools that exist.
///
/// # Errors
/// A sentence for the model, if the arguments describe no call.
pub fn read_call(arguments: &str) -> Result<DeferredToolCall, String> {
    let DeferredCallArguments { name, arguments } = DeferredCallArguments::read(arguments)?;
    Ok(DeferredToolCall { name, arguments })
}

/// Replaces calls of tools that a request does not list by calls of [`CALL`]. The provider's own items stay, because
/// they contain the call as the model wrote it.
pub fn wrap_calls(messages: &mut [Message], is_listed: impl Fn(&str) -> bool) {
    // Some servers refuse a conversation with a call of a tool that its list does not have (decision 0052).
    for part in messages.iter_mut().flat_map(|message| &mut message.parts) {
        if let Part::ToolCall(call) = part
            && !is_listed(&call.name)
        {
            call.arguments = wrapped_arguments(&call.name, &call.arguments);
            call.name = CALL.to_owned();
        }
    }
}

/// Returns whether tools are deferred: all listed tools take more than `share` of the window, and deferral
/// makes the list smaller. `deferred_tokens` is the size of the list with deferred tools.
pub fn is_worth_deferring(all_tokens: u64, deferred_tokens: u64, window_tokens: u64, share: f64) -> bool {
    // A few tools with short schemas can be smaller than the two tools that would replace them.
    all_tokens as f64 > window_tokens as f64 * share && deferred_tokens < all_tokens
}

/// Returns tools as lines of JSON, as far as `limit` allows. The first tool is always there.
fn listing(found: &[&ToolSpec], limit: &TextLimit) -> String {
    let mut text = format!("Call one of these with `{CALL}` {{\"name\": …, \"arguments\": {{…}}}}:");
    let mut tokens = text_tokens(&text);
    for (at, spec) in found.iter().enumerate() {
        let line = format!(
            "\n{{\"name\":{},\"description\":{},\"parameters\":{}}}",
            quoted(&spec.name),
            quoted(&spec.description),
            spec.parameters.as_str()
        );
        tokens += text_tokens(&line);
        // An answer without any schema would be of no use, so the first tool ignores the limit.
        let chars = (text.chars().count() + line.chars().count()) as u64;
        if at > 0 && (tokens > limit.max_tokens || chars > limit.max_chars) {
            // The names alone let the model ask for one of them.
            let names: Vec<&str> = found[at..].iter().map(|spec| spec.name.as_str()).collect();
            text.push_str(&format!("\nNot shown for want of room: {}.", names.join(", ")));
            break;
        }
        text.push_str(&line);
    }
    text
}

fn call_spec() -> ToolSpec {
    spec(
        CALL,
        format!(
            "Calls a tool that `{SEARCH}` has found, by its name and with arguments that fit its schema."
        ),
        r#"{"type":"object","properties":{"name":{"type":"string"},"arguments":{"type":"object"}},"required":["name","arguments"]}"#,
    )
}

fn spec(name: &str, description: String, parameters: &str) -> ToolSpec {
    ToolSpec {
        name: name.to_owned(),
        description,
        parameters: RawJson(parameters.to_owned()),
        // The search changes nothing; a call of `tool_call` that is left under this name is an answered mistake.
        read_only: true,
        poll: false,
        source: "builtin".to_owned(),
    }
}

/// Returns the text by which a tool is found: the name, the words of the name, and the description.
fn searched_text(spec: &ToolSpec) -> String {
    format!("{}: {}\n{}", words_of(&spec.name), spec.name, spec.description)
}

/// Returns a text whose identifiers are cut into words: `createIssue` is found by `issue`.
fn words_of(text: &str) -> String {
    let mut words = String::with_capacity(text.len() + 8);
    let mut was_lower = false;
    for char in text.chars() {
        if was_lower && char.is_uppercase() {
            words.push(' ');
        }
        was_lower = char.is_lowercase() || char.is_ascii_digit();
        // Names and queries are cut alike, so that `create_issue`, `createIssue` and `create issue` match.
        words.push(if matches!(char, '_' | '-' | '.') { ' ' } else { char });
    }
    words
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
