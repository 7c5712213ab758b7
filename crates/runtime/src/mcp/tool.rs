//! One tool of an MCP server as a tool of the agent.

use std::sync::Arc;

use async_trait::async_trait;
use longhaul_core::message::{RawJson, ToolSpec};
use longhaul_core::tool_schema::{NormalizedSchema, ToolSchemaError, normalize};
use serde_json::Value;

use super::connection::McpOutgoingCall;
use super::result;
use super::server::{McpCallError, McpServerState};
use super::tool_list::{McpToolDefinition, McpToolStatus};
use super::wire::{McpExchange, McpProgressSink};
use crate::tools::{Tool, ToolInput, ToolOutput, ToolOutputPart};

/// A tool of a server.
#[derive(Debug)]
pub(super) struct McpTool {
    server: Arc<McpServerState>,
    listed: McpToolDefinition,
    /// The schema in the form that every provider accepts, and the property names that were changed for that form.
    normalized: NormalizedSchema,
}

impl McpTool {
    /// Makes the tool with a normalized schema.
    ///
    /// # Errors
    /// The tool's schema cannot be brought into a form that every provider takes.
    pub(super) fn new(
        server: Arc<McpServerState>,
        listed: McpToolDefinition,
    ) -> Result<Self, ToolSchemaError> {
        let normalized = normalize(Some(listed.schema.as_str()))?;
        Ok(Self { server, listed, normalized })
    }

    /// Builds the call from the model's input.
    fn call(&self, input: &ToolInput) -> Result<McpOutgoingCall, ToolOutput> {
        let names = &self.normalized.names;
        let (arguments, written) = match &input.arguments {
            // Without renamed properties, the model's bytes are sent unchanged.
            Value::Object(fields) if names.is_empty() => {
                (Some(fields.clone()), Some(input.written.as_str().to_owned()))
            }
            Value::Object(_) => {
                let written = names.restore(input.written.as_str());
                (serde_json::from_str(&written).ok(), Some(written))
            }
            Value::Null => (None, None),
            _ => {
                let name = &self.listed.name;
                return Err(ToolOutput::error(format!("Error: `{name}` takes one JSON object as arguments")));
            }
        };
        let written = written.map(RawJson);
        let exchange = McpExchange {
            arguments: written,
            watcher: Some(McpProgressSink::new(input.context.progress.clone())),
            ..McpExchange::default()
        };
        Ok(McpOutgoingCall { tool: self.listed.own_name.clone(), arguments, exchange: Arc::new(exchange) })
    }

    fn gone(&self) -> ToolOutput {
        let (server, tool) = (self.server.name(), &self.listed.own_name);
        ToolOutput::error(format!(
            "Error: the MCP server `{server}` no longer offers `{tool}`; the list of tools is that of the agent's \
             start. Do without it."
        ))
    }

    fn answered(&self, answer: &str) -> ToolOutput {
        let mut output = result::read(answer).unwrap_or_else(|error| {
            ToolOutput::error(format!("Error: the server's answer is not a result of a tool: {error}"))
        });
        // A changed tool is called all the same; only a failure may come from the old description.
        if output.is_error && self.server.fate(&self.listed) == McpToolStatus::Changed {
            let note = "[The server has changed this tool since the agent was started; its description here is the \
                        old one.]";
            match output.content.first_mut() {
                Some(ToolOutputPart::Text(text)) => text.push_str(&format!("\n{note}")),
                _ => output.content.insert(0, ToolOutputPart::Text(note.to_owned())),
            }
        }
        for piece in &mut output.content {
            if let ToolOutputPart::Text(text) = piece {
                *text = self.server.without_secrets(std::mem::take(text));
            }
        }
        output
    }

    fn failed(&self, failure: McpCallError) -> ToolOutput {
        let server = self.server.name();
        let unknown = "Whether the call had an effect is unknown: look before you repeat it.";
        let words = match failure {
            McpCallError::Cancelled => return ToolOutput::cancelled(),
            McpCallError::TimedOut => format!(
                "Error: the MCP server `{server}` did not answer within {} ms, and the call was called off. {unknown}",
                self.server.call_timeout().as_millis()
            ),
            McpCallError::Refused(why) => format!("Error: the MCP server `{server}` refused the call: {why}"),
            McpCallError::Unreadable(why) => {
                format!(
                    "Error: the MCP server `{server}` answered, but the answer cannot be read: {why}. {unknown}"
                )
            }
            McpCallError::NotRun(why) => {
                format!("Error: the call was not made. The MCP server `{server}`: {why}")
            }
            McpCallError::Lost(how) => format!(
                "Error: the connection to the MCP server `{server}` was lost in the middle of the call: {how}. \
                 {unknown} The next call connects again."
            ),
        };
        ToolOutput::error(self.server.without_secrets(words))
    }
}

#[async_trait]
impl Tool for McpTool {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: self.listed.name.clone(),
            description: self.listed.description.clone(),
            parameters: self.normalized.schema.clone(),
            read_only: self.listed.read_only,
            poll: false,
            source: self.server.name().to_owned(),
        }
    }

    async fn run(&self, input: ToolInput) -> ToolOutput {
        // The list stays as it was, so the model may still call a tool that the server has removed.
        if self.server.fate(&self.listed) == McpToolStatus::Gone {
            return self.gone();
        }
        let call = match self.call(&input) {
            Ok(call) => call,
            Err(refusal) => return refusal,
        };
        match self.server.call(call, &input.context.cancel).await {
            Ok(answer) => self.answered(&answer),
            Err(failure) => self.failed(failure),
        }
    }

    fn is_vouched_for(&self) -> bool {
        // `readOnlyHint` is the server's own claim; approval follows the agent's rules alone (decision 11).
        false
    }

    fn is_foreign(&self) -> bool {
        true
    }

    async fn close(&self) {
        self.server.close().await;
    }
}
