//! Deferred tools: foreign tools whose schemas would take too much of the window. The model is not told of them one by
//! one. It finds them with [`SEARCH`] and calls them with [`CALL`].
//!
//! The search is BM25 over names and descriptions ([`SearchIndex`]). A call through [`CALL`] is checked against the tool's
//! schema and becomes a call of the tool itself ([`DeferredTools::resolve`]): everything behind it, approvals and history
//! included, sees the real name. A request says it the other way round ([`wrap_calls`]), because its list of tools has
//! only the two.

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
pub use self::check::check_arguments;

/// The name of the tool that finds deferred tools.
pub const SEARCH: &str = "tool_search";

/// The name of the tool that calls a deferred tool.
pub const CALL: &str = "tool_call";

/// Tools that one search returns, unless the call says otherwise.
const DEFAULT_HITS: usize = 5;

/// Tools that one search returns at most.
const MAX_HITS: usize = 20;

/// Tokens that the names of deferred tools take at most in the description of [`SEARCH`]. Names help a model to know
/// what to look for; more of them would eat what deferral saves.
const MAX_NAMES_TOKENS: u64 = 600;

/// Names that are given where a search finds nothing, or a call names no tool.
const MAX_NEAR_NAMES: usize = 12;

/// Tools that the model is not told of one by one.
///
/// ```
/// use longhaul_core::deferral::DeferredTools;
/// use longhaul_core::message::{RawJson, ToolSpec};
/// let spec = ToolSpec {
///     name: "tracker__create_issue".into(),
///     description: "Open a new issue.".into(),
///     parameters: RawJson(r#"{"type":"object","properties":{"title":{"type":"string"}},"required":["title"]}"#.into()),
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

impl PartialEq for DeferredTools {
    fn eq(&self, other: &Self) -> bool {
        self.specs == other.specs
    }
}

impl Eq for DeferredTools {}

/// A call of a deferred tool, as the tool itself is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeferredToolCall {
    /// The tool.
    pub name: String,
    /// Its arguments: one JSON object, byte for byte as the model wrote it.
    pub arguments: String,
}

impl DeferredTools {
    /// Indexes tools. Their order is the order in which equal hits are named.
    pub fn new(specs: Vec<ToolSpec>) -> Self {
        let mut index = SearchIndex::of_separate_texts();
        specs.iter().for_each(|spec| _ = index.add(&searched_text(spec)));
        Self { specs, index }
    }

    /// Returns the number of tools.
    pub fn len(&self) -> usize {
        self.specs.len()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.specs.is_empty()
    }

    /// Returns the tool of that name.
    pub fn get(&self, name: &str) -> Option<&ToolSpec> {
        self.specs.iter().find(|spec| spec.name == name)
    }

    /// Returns the two tools that stand for all of these. `names_tools`: whether the description names them as far as
    /// there is room; a small window has none for that.
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

    /// Returns where the tools come from and how many each source has: `48 of github, 12 of jira`.
    fn sources(&self) -> String {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        self.specs.iter().for_each(|spec| *counts.entry(spec.source.as_str()).or_default() += 1);
        let said = counts.iter().map(|(source, count)| format!("{count} of {source}"));
        said.collect::<Vec<_>>().join(", ")
    }

    /// Returns the names of the tools, as many as there is room for.
    fn names(&self) -> String {
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

    /// Returns the answer to a call of [`SEARCH`]: one tool a line with its schema, the best first, as many as the limit
    /// has room for.
    ///
    /// # Errors
    /// A sentence for the model, if the call asks for nothing.
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

    /// Returns the tools that a query means, the best first.
    pub fn find(&self, query: &str, hits: usize) -> Vec<&ToolSpec> {
        let within = self.index.len();
        let query = self.index.query(&words_of(query), within);
        let mut found = self.index.best_candidates(&query, within, hits, |_| 1.0);
        // Equal hits are named in the tools' own order.
        found.sort_by(|one, other| other.score.total_cmp(&one.score).then(one.at.cmp(&other.at)));
        found.iter().filter_map(|candidate| self.specs.get(candidate.at)).collect()
    }

    /// Returns the call that the arguments of a call of [`CALL`] make.
    ///
    /// # Errors
    /// An answer for the model: no such tool, with the nearest; or arguments that the schema does not allow, with the
    /// schema.
    pub fn resolve(&self, arguments: &str) -> Result<DeferredToolCall, String> {
        let DeferredCallArguments { name, arguments } = DeferredCallArguments::read(arguments)?;
        let spec = self.named(&name).ok_or_else(|| self.unknown(&name))?;
        match check_arguments(spec.parameters.as_str(), &arguments) {
            Ok(()) => Ok(DeferredToolCall { name: spec.name.clone(), arguments }),
            Err(why) => Err(format!(
                "Error: `{}` was not called: {why}. The schema of its arguments: {}",
                spec.name,
                spec.parameters.as_str()
            )),
        }
    }

    /// Returns the call of a tool that a call of [`CALL`] makes, or the call as it is: one that cannot be resolved is
    /// answered with the reason when it runs. `is_told`: whether the model could have called a tool by itself; models use
    /// [`CALL`] for those as well.
    pub fn unwrap_call(&self, call: ToolCall, is_told: impl Fn(&str) -> bool) -> ToolCall {
        if call.name != CALL {
            return call;
        }
        let told = read_call(&call.arguments).ok().filter(|made| is_told(&made.name));
        match told.map_or_else(|| self.resolve(&call.arguments), Ok) {
            Ok(DeferredToolCall { name, arguments }) => ToolCall { name, arguments, ..call },
            Err(_) => call,
        }
    }

    /// Returns the tool that a model means. Models drop the prefix of a name, and write it in other letters.
    fn named(&self, name: &str) -> Option<&ToolSpec> {
        let exact = self.get(name);
        let only = |is_meant: &dyn Fn(&str) -> bool| {
            let mut meant = self.specs.iter().filter(|spec| is_meant(&spec.name));
            meant.next().filter(|_| meant.next().is_none())
        };
        exact
            .or_else(|| only(&|known| known.eq_ignore_ascii_case(name)))
            .or_else(|| only(&|known| known.strip_suffix(name).is_some_and(|rest| rest.ends_with("__"))))
    }

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

/// Returns the call that the arguments of [`CALL`] describe, of whatever tool.
///
/// # Errors
/// A sentence for the model, if they describe none.
pub fn read_call(arguments: &str) -> Result<DeferredToolCall, String> {
    let DeferredCallArguments { name, arguments } = DeferredCallArguments::read(arguments)?;
    Ok(DeferredToolCall { name, arguments })
}

/// Replaces calls of tools that are not in a request's list of tools by calls of [`CALL`]. The provider's own items stay:
/// they say what the model said.
pub fn wrap_calls(messages: &mut [Message], is_listed: impl Fn(&str) -> bool) {
    for part in messages.iter_mut().flat_map(|message| &mut message.parts) {
        if let Part::ToolCall(call) = part
            && !is_listed(&call.name)
        {
            call.arguments = wrapped_arguments(&call.name, &call.arguments);
            call.name = CALL.to_owned();
        }
    }
}

/// Returns whether tools are deferred: all that a request carries take more than the share of the window, and fewer tokens
/// where some are deferred.
pub fn is_worth_deferring(all_tokens: u64, deferred_tokens: u64, window_tokens: u64, share: f64) -> bool {
    all_tokens as f64 > window_tokens as f64 * share && deferred_tokens < all_tokens
}

/// Returns tools as lines of JSON, as many as there is room for; the first in any case.
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
        let chars = (text.chars().count() + line.chars().count()) as u64;
        if at > 0 && (tokens > limit.max_tokens || chars > limit.max_chars) {
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

/// Returns what a tool is found by: its name as it stands and in words, and its description.
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
        words.push(if matches!(char, '_' | '-' | '.') { ' ' } else { char });
    }
    words
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
