//! The tools of one server: the list that the model was shown, which stays, and the difference to the server's current
//! list.
//!
//! The tool list stands at the start of every request. If the list followed the server, one notification could
//! invalidate the provider's cache of a whole conversation. Tools could also disappear while a model is using them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use longhaul_core::message::RawJson;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::name;
use super::secrets::McpSecrets;

/// One tool of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct McpToolDefinition {
    /// The tool's name in the model's list.
    pub(super) name: String,
    /// The tool's name on the server.
    pub(super) own_name: String,
    /// The description, in the server's words.
    pub(super) description: String,
    /// The schema of the arguments, byte for byte as the server wrote it; `null` if there is none.
    pub(super) schema: RawJson,
    /// True if the server declares that the tool changes nothing.
    pub(super) read_only: bool,
}

impl McpToolDefinition {
    /// Returns the definition with secrets removed from the description. The schema stays, because a change would break
    /// it.
    pub(super) fn without(self, secrets: &McpSecrets) -> Self {
        Self { description: secrets.redact(self.description), ..self }
    }
}

/// One page of a list.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct McpToolPage {
    pub(super) tools: Vec<McpToolDefinition>,
    pub(super) next: Option<String>,
}

#[derive(Default, Deserialize)]
struct McpToolPageJson<'a> {
    /// The tools; `null` for none.
    #[serde(borrow)]
    tools: Option<&'a RawValue>,
    #[serde(rename = "nextCursor")]
    next_cursor: Option<Value>,
}

/// Returns the text of each tool of a page.
///
/// # Errors
/// The text is no list.
fn tool_texts(tools: &str) -> serde_json::Result<Vec<&str>> {
    // PHP writes a list with a gap in its keys as an object.
    if let Ok(tools) = serde_json::from_str::<BTreeMap<String, &RawValue>>(tools) {
        return Ok(tools.into_values().map(RawValue::get).collect());
    }
    let tools: Vec<&RawValue> = serde_json::from_str(tools)?;
    Ok(tools.into_iter().map(RawValue::get).collect())
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct McpToolJson {
    name: String,
    title: Option<Value>,
    description: Option<Value>,
    /// The schema. Some servers send none for a tool without arguments.
    input_schema: Option<Box<RawValue>>,
    annotations: Option<Value>,
}

impl McpToolPage {
    /// Reads the result of `tools/list`. A tool that cannot be read is left out with a warning.
    ///
    /// # Errors
    /// The text is no list of tools.
    pub(super) fn read(server: &str, text: &str) -> serde_json::Result<Self> {
        // A result that is `null` is a list without tools.
        let page: McpToolPageJson<'_> = serde_json::from_str::<Option<_>>(text)?.unwrap_or_default();
        let tools = page.tools.map_or(Ok(Vec::new()), |tools| tool_texts(tools.get()))?;
        let tools = tools.into_iter().filter_map(|tool| listed(server, tool));
        let next = page.next_cursor.and_then(|cursor| match cursor {
            Value::String(cursor) => Some(cursor).filter(|cursor| !cursor.is_empty()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        });
        Ok(Self { tools: tools.collect(), next })
    }
}

fn warn_of_passed_over(server: &str, text: &str, why: &str) {
    let start: String = text.chars().take(80).collect();
    tracing::warn!("a tool of the MCP server `{server}` is passed over: {why}: {start}");
}

fn listed(server: &str, text: &str) -> Option<McpToolDefinition> {
    // Each tool is read by itself: one that is broken must not take the others with it.
    let tool: McpToolJson = match serde_json::from_str(text) {
        Ok(tool) => tool,
        Err(error) => {
            warn_of_passed_over(server, text, &error.to_string());
            return None;
        }
    };
    if tool.name.is_empty() {
        warn_of_passed_over(server, text, "it has no name");
        return None;
    }
    // Some servers describe their tools by the title only.
    let words = [&tool.description, &tool.title].into_iter().flatten().filter_map(Value::as_str);
    let description = words.map(str::to_owned).find(|text| !text.trim().is_empty());
    // A wrong hint must not take the tool with it: without a hint the tool may change something.
    let read_only = tool.annotations.and_then(|hints| hints.get("readOnlyHint")?.as_bool());
    Some(McpToolDefinition {
        name: name::of_tool(server, &tool.name),
        description: description.unwrap_or_else(|| format!("{} of {server}", tool.name)),
        own_name: tool.name,
        schema: RawJson(
            tool.input_schema.map_or_else(|| "null".to_owned(), |schema| schema.get().to_owned()),
        ),
        read_only: read_only.unwrap_or(false),
    })
}

/// Sorts a list by name and keeps one tool per name, because some servers change their order every time.
pub(super) fn ordered(mut tools: Vec<McpToolDefinition>) -> Vec<McpToolDefinition> {
    tools.sort_by(|one, other| one.name.cmp(&other.name));
    tools.dedup_by(|one, other| one.name == other.name);
    tools
}

/// The difference between a server's tools and those that the model was shown. Names are those in the model's list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[doc(hidden)]
pub struct ToolListChange {
    /// The server.
    pub server: String,
    /// Tools that are offered now and unknown to the model.
    pub added: Vec<String>,
    /// Tools that are known to the model and no longer offered.
    pub removed: Vec<String>,
    /// Tools whose description or schema differs from the one that the model was shown.
    pub changed: Vec<String>,
}

impl ToolListChange {
    fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty() && self.changed.is_empty()
    }
}

impl fmt::Display for ToolListChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the tools of the MCP server `{}` have changed", self.server)?;
        let parts = [("new", &self.added), ("gone", &self.removed), ("different", &self.changed)];
        for (index, (what, names)) in parts.iter().filter(|(_, names)| !names.is_empty()).enumerate() {
            write!(f, "{}{what}: {}", if index == 0 { ": " } else { "; " }, names.join(", "))?;
        }
        f.write_str(". The model keeps the old list until the agent is started again")
    }
}

/// The current status of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum McpToolStatus {
    Same,
    Changed,
    Gone,
}

/// The list that stays, and the current difference.
#[derive(Debug)]
pub(super) struct McpToolList {
    pub(super) server: String,
    pub(super) tools: Vec<McpToolDefinition>,
    change: Mutex<ToolListChange>,
}

impl McpToolList {
    pub(super) fn new(server: String, tools: Vec<McpToolDefinition>) -> Self {
        let change = ToolListChange { server: server.clone(), ..ToolListChange::default() };
        Self { server, tools: ordered(tools), change: Mutex::new(change) }
    }

    /// Compares the server's current tools with the list and logs a difference once.
    pub(super) fn compare(&self, now: Vec<McpToolDefinition>) {
        let now = ordered(now);
        let change = self.difference(&now);
        let mut known = self.change.lock().unwrap_or_else(PoisonError::into_inner);
        // Servers may notify again and again; the same difference is logged only once.
        if *known == change {
            return;
        }
        if change.is_empty() {
            tracing::info!(server = %self.server, "the tools are those of the start again");
        } else {
            tracing::warn!("{change}");
        }
        *known = change;
    }

    fn difference(&self, now: &[McpToolDefinition]) -> ToolListChange {
        let mut change = ToolListChange { server: self.server.clone(), ..ToolListChange::default() };
        for tool in &self.tools {
            match now.iter().find(|other| other.name == tool.name) {
                None => change.removed.push(tool.name.clone()),
                Some(other) if other != tool => change.changed.push(tool.name.clone()),
                Some(_) => {}
            }
        }
        let new = now.iter().filter(|tool| !self.tools.iter().any(|known| known.name == tool.name));
        change.added = new.map(|tool| tool.name.clone()).collect();
        change
    }

    /// Returns the difference, if there is one.
    pub(super) fn change(&self) -> Option<ToolListChange> {
        let change = self.change.lock().unwrap_or_else(PoisonError::into_inner);
        (!change.is_empty()).then(|| change.clone())
    }

    /// Returns the current status of a tool.
    pub(super) fn fate(&self, name: &str) -> McpToolStatus {
        let change = self.change.lock().unwrap_or_else(PoisonError::into_inner);
        if change.removed.iter().any(|removed| removed == name) {
            McpToolStatus::Gone
        } else if change.changed.iter().any(|changed| changed == name) {
            McpToolStatus::Changed
        } else {
            McpToolStatus::Same
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(tools: &str) -> Vec<McpToolDefinition> {
        McpToolPage::read("s", &format!(r#"{{"tools":[{tools}]}}"#)).unwrap().tools
    }

    #[test]
    fn a_page_keeps_the_schemas_bytes() {
        let schema = r#"{ "type":"object",  "maximum": 1.0e3, "d":"\u00e9\/", "big":12345678901234567890123, "a":1, "a":2 }"#;
        let text = format!(
            r#"{{"tools":[{{"name":"a/b","inputSchema":{schema},"annotations":{{"readOnlyHint":true}},"new":1}},{{"name":"x"}},{{"name":"y","inputSchema":3}}],"nextCursor":"c"}}"#
        );
        let page = McpToolPage::read("s", &text).unwrap();
        assert_eq!(page.next.as_deref(), Some("c"));
        let [tool, without, number] = &page.tools[..] else { panic!("{page:?}") };
        assert_eq!((without.schema.as_str(), number.schema.as_str()), ("null", "3"));
        assert_eq!(tool.schema.as_str(), schema);
        assert!(tool.read_only && tool.name.starts_with("s__a_b_"), "{tool:?}");
        assert_eq!((tool.own_name.as_str(), tool.description.as_str()), ("a/b", "a/b of s"));
    }

    #[test]
    fn a_page_with_nulls_is_a_page() {
        for none in
            ["null", "{}", r#"{"tools":null}"#, r#"{"tools":[],"nextCursor":null}"#, r#"{"tools":{}}"#]
        {
            assert_eq!(
                McpToolPage::read("s", none).unwrap(),
                McpToolPage { tools: Vec::new(), next: None },
                "{none}"
            );
        }
        let tool = r#"{"name":"a","title":null,"description":7,"inputSchema":null,"annotations":{"readOnlyHint":"yes"}}"#;
        for tools in [format!("[null,{tool},3]"), format!(r#"{{"1":{tool}}}"#)] {
            let page = McpToolPage::read("s", &format!(r#"{{"tools":{tools},"nextCursor":7}}"#)).unwrap();
            assert_eq!(page.next.as_deref(), Some("7"));
            let [tool] = &page.tools[..] else { panic!("{page:?}") };
            assert_eq!((tool.name.as_str(), tool.schema.as_str(), tool.read_only), ("s__a", "null", false));
        }
        assert!(McpToolPage::read("s", "[1]").is_err());
    }

    #[test]
    fn the_list_stays_and_the_difference_is_told() {
        let one = r#"{"name":"one","inputSchema":{}}"#;
        let two = r#"{"name":"two","inputSchema":{}}"#;
        let roster = McpToolList::new("s".into(), page(&format!("{two},{one},{one}")));
        let names: Vec<&str> = roster.tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(names, ["s__one", "s__two"]);
        roster.compare(page(&format!("{one},{two}")));
        assert_eq!(roster.change(), None, "another order is no change");
        roster.compare(page(r#"{"name":"one","inputSchema":{ }},{"name":"three","inputSchema":{}}"#));
        let change = roster.change().unwrap();
        assert_eq!(
            change.to_string(),
            "the tools of the MCP server `s` have changed: new: s__three; gone: s__two; different: s__one. \
             The model keeps the old list until the agent is started again"
        );
        assert_eq!(
            (roster.fate("s__one"), roster.fate("s__two")),
            (McpToolStatus::Changed, McpToolStatus::Gone)
        );
        roster.compare(page(&format!("{one},{two}")));
        assert_eq!((roster.change(), roster.fate("s__two")), (None, McpToolStatus::Same));
    }
}
