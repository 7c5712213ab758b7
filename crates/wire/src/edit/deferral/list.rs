//! The list of tools of a request, tool by tool.

use longhaul_core::estimate::{text_tokens, tool_tokens};
use longhaul_core::message::{RawJson, ToolSpec};
use serde_json::Value;

use super::ClientToolName;
use crate::edit::Dialect;
use crate::raw_json::{elements, field, fields, quote, string, with_field};
use crate::responses::edit as responses;

/// The clients' prefix before the name of an MCP server's tool.
const MCP_PREFIX: &str = "mcp__";

/// The source of a tool without a source in the name.
const CLIENT: &str = "the client";

/// One element of the list.
#[derive(Debug, Default)]
pub(super) struct ListedTool {
    /// The element with the client's bytes.
    pub(super) raw: String,
    /// The functions in the element, by their names in calls. A tool of the model's server has no function; a
    /// namespace has several.
    pub(super) specs: Vec<ToolSpec>,
    /// The client's names of functions in a namespace, by the names in `specs`.
    pub(super) namespaced: Vec<(String, ClientToolName)>,
    pub(super) tokens: u64,
    /// `true` if the tool looks like an MCP server's tool.
    pub(super) is_foreign: bool,
    /// The cache mark of the element, as JSON.
    pub(super) cache_mark: Option<String>,
    /// `true` if the client has the provider defer this tool.
    pub(super) is_deferred_by_client: bool,
    /// `true` if the tool is the provider's own search among deferred tools.
    pub(super) is_provider_search: bool,
}

/// Returns the tools of a list; `None` if it is no list.
pub(super) fn read(dialect: Dialect, list: &str) -> Option<Vec<ListedTool>> {
    elements(list)?.into_iter().map(|raw| tool(dialect, raw)).collect()
}

fn tool(dialect: Dialect, raw: &str) -> Option<ListedTool> {
    let said = fields(raw)?;
    let kind = field(&said, "type").and_then(string).unwrap_or_default();
    let listed = ListedTool {
        raw: raw.to_owned(),
        cache_mark: field(&said, "cache_control").filter(|mark| *mark != "null").map(str::to_owned),
        is_deferred_by_client: field(&said, "defer_loading").is_some_and(|value| value == "true"),
        is_provider_search: kind.starts_with("tool_search"),
        // A tool that the model's server runs is shown to the model in an unknown form. Its JSON is the best
        // estimate.
        tokens: text_tokens(raw),
        ..ListedTool::default()
    };
    if dialect == Dialect::Responses
        && let Some((namespace, members)) = responses::namespace_members(raw)
    {
        return Some(of_namespace(listed, &namespace, &members));
    }
    let spec = match (dialect, kind.as_str()) {
        (Dialect::Chat, "function") => {
            field(&said, "function").and_then(|function| spec(function, "parameters"))
        }
        (Dialect::Responses, "function") => spec(raw, "parameters"),
        // The tools that Anthropic runs have a versioned type, such as `web_search_20250305`.
        (Dialect::Messages, "" | "custom") => spec(raw, "input_schema"),
        _ => None,
    };
    let Some(spec) = spec else { return Some(listed) };
    let is_foreign = spec.source != CLIENT;
    Some(ListedTool { tokens: tool_tokens(&spec), specs: vec![spec], is_foreign, ..listed })
}

fn of_namespace(listed: ListedTool, namespace: &str, members: &[&str]) -> ListedTool {
    let (mut specs, mut namespaced) = (Vec::new(), Vec::new());
    for member in members {
        let Some(spec) = spec(member, "parameters") else { continue };
        let flat = responses::flat_name(namespace, &spec.name);
        namespaced.push((
            flat.clone(),
            ClientToolName { namespace: namespace.to_owned(), name: spec.name.clone() },
        ));
        specs.push(ToolSpec { name: flat, source: namespace.to_owned(), ..spec });
    }
    let tokens = specs.iter().map(tool_tokens).sum();
    // A member that is no function cannot be called through another tool, so the whole namespace stays.
    if specs.len() != members.len() {
        return listed;
    }
    ListedTool { specs, namespaced, tokens, is_foreign: true, ..listed }
}

fn spec(function: &str, schema: &str) -> Option<ToolSpec> {
    let said = fields(function)?;
    let name = field(&said, "name").and_then(string)?;
    let parameters = field(&said, schema).filter(|schema| *schema != "null");
    Some(ToolSpec {
        source: source_of(&name).unwrap_or(CLIENT).to_owned(),
        description: field(&said, "description").and_then(string).unwrap_or_default(),
        parameters: RawJson(parameters.unwrap_or(r#"{"type":"object","properties":{}}"#).to_owned()),
        read_only: false,
        poll: false,
        name,
    })
}

/// Returns the server in a name like `mcp__github__create_issue` or `github__create_issue`.
fn source_of(name: &str) -> Option<&str> {
    let name = name.strip_prefix(MCP_PREFIX).unwrap_or(name);
    name.split_once("__").map(|(server, _)| server).filter(|server| !server.is_empty())
}

/// Returns a tool of ours in the dialect's form. The cache mark is from the last deferred tool with a mark.
pub(super) fn stand_in(dialect: Dialect, spec: &ToolSpec, cache_mark: Option<&str>) -> String {
    let (name, description) = (quote(&spec.name), quote(&spec.description));
    let schema = spec.parameters.as_str();
    let tool = match dialect {
        Dialect::Chat => format!(
            r#"{{"type":"function","function":{{"name":{name},"description":{description},"parameters":{schema}}}}}"#
        ),
        Dialect::Responses => format!(
            r#"{{"type":"function","name":{name},"description":{description},"parameters":{schema},"strict":false}}"#
        ),
        Dialect::Messages => {
            format!(r#"{{"name":{name},"description":{description},"input_schema":{schema}}}"#)
        }
    };
    match cache_mark {
        Some(mark) => with_field(&tool, "cache_control", mark).unwrap_or(tool),
        None => tool,
    }
}

/// Returns an object without a field.
pub(super) fn without_field(object: &str, name: &str) -> Option<String> {
    let kept: Vec<String> = fields(object)?
        .iter()
        .filter(|(key, _)| key != name)
        .map(|(key, value)| format!("{}:{value}", Value::from(key.as_ref())))
        .collect();
    Some(format!("{{{}}}", kept.join(",")))
}
