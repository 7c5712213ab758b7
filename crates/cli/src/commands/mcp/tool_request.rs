//! The tools, and what a call of one asks for.

use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// A tool as it is offered.
#[derive(Debug)]
pub(super) struct McpToolSpec {
    pub(super) name: &'static str,
    title: &'static str,
    description: &'static str,
    schema: &'static str,
    read_only: bool,
}

/// The specifications of all tools.
pub(super) const TOOLS: &[McpToolSpec] = &[
    McpToolSpec {
        name: "recall",
        title: "Recall",
        description: "Returns the exact original of anything a session ever contained, also what was pruned, cut \
            or compacted since: by `handle` (lh:12, lh:12-40), optionally only a `range` of its characters, \
            or by `query` (words to search for in that session).",
        schema: r#"{"type":"object","properties":{"session":{"type":"string","description":"Its id, the start of it, or `last` (default: the newest)"},"handle":{"type":"string","description":"For example lh:12 or lh:12-40"},"range":{"type":"string","description":"Characters START-END of the original, for example 30000-42000"},"query":{"type":"string","description":"Words to search for"},"limit":{"type":"integer","minimum":1,"maximum":50,"description":"Most hits of a search (default 5)"}},"additionalProperties":false}"#,
        read_only: true,
    },
    McpToolSpec {
        name: "context_status",
        title: "Context status",
        description: "Says what fills a session's context window, in tokens: the total and its parts, the window, \
            what is free, where compaction sets in, and how far the figures can be trusted.",
        schema: r#"{"type":"object","properties":{"session":{"type":"string","description":"Its id, the start of it, or `last` (default: the newest)"}},"additionalProperties":false}"#,
        read_only: true,
    },
    McpToolSpec {
        name: "compact",
        title: "Compact",
        description: "Makes room in a session's context window now, or with `dryRun` says what that would do. Nothing \
            is deleted: what goes stays in the log, and `recall` returns it. `longhaul undo` brings it back into the \
            view, if the window has room for it. Not possible while another longhaul has the data folder open.",
        schema: r#"{"type":"object","properties":{"session":{"type":"string","description":"Its id, the start of it, or `last` (default: the newest)"},"instructions":{"type":"string","maxLength":4000,"description":"What the summary should mind"},"dryRun":{"type":"boolean","description":"Change nothing, call no model (default false)"}},"additionalProperties":false}"#,
        read_only: false,
    },
    McpToolSpec {
        name: "search_history",
        title: "Search history",
        description: "Searches everything that was said, and every tool output, in all sessions. Each hit names its \
            session and a handle: `recall` with both returns the whole original.",
        schema: r#"{"type":"object","properties":{"query":{"type":"string","minLength":1,"description":"Words to search for"},"limit":{"type":"integer","minimum":1,"maximum":20,"description":"Most hits (default 5)"}},"required":["query"],"additionalProperties":false}"#,
        read_only: true,
    },
];

/// Returns a tool in the protocol's form.
pub(super) fn described(tool: &McpToolSpec) -> Tool {
    // A test reads every schema, so the default is never taken.
    let schema: JsonObject = serde_json::from_str(tool.schema).unwrap_or_default();
    // Not even `compact` is destructive: what goes stays in the log.
    let annotations = ToolAnnotations::with_title(tool.title)
        .read_only(tool.read_only)
        .destructive(false)
        .idempotent(tool.read_only)
        .open_world(false);
    Tool::new(tool.name, tool.description, schema).with_title(tool.title).with_annotations(annotations)
}

/// The request in a tool call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum McpToolRequest {
    Recall(McpRecallArgs),
    Status(McpStatusArgs),
    Compact(McpCompactArgs),
    Search(McpSearchArgs),
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct McpRecallArgs {
    pub(super) session: Option<String>,
    pub(super) handle: Option<String>,
    pub(super) range: Option<String>,
    pub(super) query: Option<String>,
    pub(super) limit: Option<usize>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct McpStatusArgs {
    pub(super) session: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct McpCompactArgs {
    pub(super) session: Option<String>,
    pub(super) instructions: Option<String>,
    #[serde(default)]
    pub(super) dry_run: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct McpSearchArgs {
    pub(super) query: String,
    pub(super) limit: Option<usize>,
}

/// The fault of a tool call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum McpRequestError {
    /// There is no such tool.
    Tool,
    /// The arguments are not as the schema says.
    Arguments(String),
}

impl McpToolRequest {
    /// Reads a call.
    ///
    /// # Errors
    /// The fault of the call.
    pub(super) fn of(tool: &str, arguments: Value) -> Result<Self, McpRequestError> {
        match tool {
            "recall" => {
                let recall: McpRecallArgs = read(tool, arguments)?;
                // The schema states the limits, but clients need not follow it.
                limited(recall.limit, 50)?;
                match (&recall.handle, &recall.query) {
                    (None, None) => {
                        Err(McpRequestError::Arguments("recall: give a `handle` or a `query`".to_owned()))
                    }
                    _ => Ok(Self::Recall(recall)),
                }
            }
            "context_status" => Ok(Self::Status(read(tool, arguments)?)),
            "compact" => Ok(Self::Compact(read(tool, arguments)?)),
            "search_history" => {
                let search: McpSearchArgs = read(tool, arguments)?;
                limited(search.limit, 20)?;
                match search.query.trim() {
                    "" => Err(McpRequestError::Arguments("search_history: the `query` is empty".to_owned())),
                    _ => Ok(Self::Search(search)),
                }
            }
            _ => Err(McpRequestError::Tool),
        }
    }
}

fn read<T: DeserializeOwned>(tool: &str, arguments: Value) -> Result<T, McpRequestError> {
    serde_json::from_value(arguments).map_err(|error| McpRequestError::Arguments(format!("{tool}: {error}")))
}

fn limited(limit: Option<usize>, most: usize) -> Result<(), McpRequestError> {
    match limit {
        Some(limit) if limit == 0 || limit > most => {
            Err(McpRequestError::Arguments(format!("`limit` is between 1 and {most}, not {limit}")))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_schema_is_one_and_names_what_is_read() {
        for tool in TOOLS {
            let schema: Value = serde_json::from_str(tool.schema).unwrap();
            let mut arguments = json!({});
            for (key, about) in schema["properties"].as_object().unwrap() {
                let value = match about["type"].as_str().unwrap() {
                    "integer" => json!(1),
                    "boolean" => json!(true),
                    _ => json!("x"),
                };
                arguments[key] = value;
            }
            assert!(McpToolRequest::of(tool.name, arguments.clone()).is_ok(), "{} {arguments}", tool.name);
            arguments["other"] = json!(1);
            let refused = McpToolRequest::of(tool.name, arguments).unwrap_err();
            assert!(
                matches!(&refused, McpRequestError::Arguments(why) if why.contains("other")),
                "{refused:?}"
            );
        }
    }

    #[test]
    fn only_what_changes_nothing_says_so() {
        let changing: Vec<_> = TOOLS.iter().filter(|tool| !tool.read_only).map(|tool| tool.name).collect();
        assert_eq!(changing, ["compact"]);
        let hints = described(&TOOLS[2]).annotations.unwrap();
        assert_eq!((hints.read_only_hint, hints.destructive_hint), (Some(false), Some(false)));
    }

    #[test]
    fn wrong_arguments_are_said_in_a_sentence() {
        for (tool, arguments, expected) in [
            ("recall", json!({}), "give a `handle` or a `query`"),
            ("recall", json!({ "query": "x", "limit": 51 }), "between 1 and 50"),
            ("search_history", json!({ "query": " " }), "is empty"),
            ("search_history", json!({ "query": "x", "limit": 0 }), "between 1 and 20"),
            ("search_history", json!({}), "query"),
            ("compact", json!({ "dryRun": "yes" }), "boolean"),
        ] {
            let Err(McpRequestError::Arguments(why)) = McpToolRequest::of(tool, arguments.clone()) else {
                panic!("{tool} {arguments}")
            };
            assert!(why.contains(expected), "{why}");
        }
        assert_eq!(McpToolRequest::of("forget", json!({})), Err(McpRequestError::Tool));
    }
}
