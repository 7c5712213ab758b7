//! Tools that a provider's own servers run, and that no other server can run.

use crate::edit::Dialect;
use crate::raw_json::{elements, field, fields, text_field};

/// A tool that has no place at another maker's server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerTool {
    /// The tool's index in `tools`.
    pub index: usize,
    /// The tool's name in calls of the model.
    pub name: String,
}

/// Returns the server tools of a list. A tool that the client runs has a schema of its own, or (Responses) takes
/// a text.
pub fn server_tools(dialect: Dialect, tools: &str) -> Vec<ServerTool> {
    let tools = elements(tools).unwrap_or_default();
    let known = tools.into_iter().enumerate().filter_map(|(index, tool)| {
        let fields = fields(tool)?;
        let kind = text_field(&fields, "type");
        let is_clients = match dialect {
            Dialect::Chat => matches!(kind.as_deref(), None | Some("function" | "custom")),
            Dialect::Responses => matches!(kind.as_deref(), Some("function" | "custom" | "namespace")),
            // A client's tool without arguments may have no schema. Its type decides then: every tool of
            // Anthropic's servers has a versioned one.
            Dialect::Messages => {
                field(&fields, "input_schema").is_some() || matches!(kind.as_deref(), None | Some("custom"))
            }
        };
        let name = text_field(&fields, "name").or(kind).unwrap_or_default();
        (!is_clients).then_some(ServerTool { index, name })
    });
    known.collect()
}
