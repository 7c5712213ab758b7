//! The methods of the protocol.

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use crate::failure::Outcome;

use super::answer::McpToolAnswer;
use super::tool_request::{McpRequestError, McpToolRequest, TOOLS};

const INSTRUCTIONS: &str = "The sessions of longhaul, an agent runtime that keeps every message: `search_history` \
    finds what was said in any session, `recall` returns the exact original of anything one session ever contained, \
    `context_status` says what fills its context window, `compact` makes room in it.";

/// A job, and the client that waits for it.
pub(super) struct McpJob {
    pub(super) asked: McpToolRequest,
    pub(super) reply: oneshot::Sender<Outcome<McpToolAnswer>>,
}

/// The server's side of the connection. It passes each call on as an [`McpJob`].
pub(super) struct McpToolServer {
    jobs: mpsc::UnboundedSender<McpJob>,
}

impl McpToolServer {
    pub(super) fn new() -> (Self, mpsc::UnboundedReceiver<McpJob>) {
        let (jobs, queue) = mpsc::unbounded_channel();
        (Self { jobs }, queue)
    }

    async fn perform(&self, asked: McpToolRequest) -> Result<CallToolResult, ErrorData> {
        // The work is done by the command's own task, which finishes it even if the client leaves.
        let (reply, done) = oneshot::channel();
        self.jobs.send(McpJob { asked, reply }).map_err(|_| ending_error())?;
        // The sender is dropped without an answer only if the command ends.
        Ok(match done.await.map_err(|_| ending_error())? {
            Ok(answer) => {
                let mut result =
                    CallToolResult::success(answer.texts.into_iter().map(ContentBlock::text).collect());
                result.structured_content = answer.structured;
                result
            }
            Err(failure) => failed(failure.message()),
        })
    }
}

fn ending_error() -> ErrorData {
    ErrorData::internal_error("the server is ending", None)
}

impl ServerHandler for McpToolServer {
    fn get_info(&self) -> ServerConfig {
        let me = Implementation::new("longhaul", env!("CARGO_PKG_VERSION")).with_title("Longhaul");
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(me)
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(TOOLS.iter().map(super::tool_request::described).collect()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        TOOLS.iter().find(|tool| tool.name == name).map(super::tool_request::described)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        // Arguments are not logged: they may quote a conversation.
        tracing::debug!(tool = %request.name, "a client calls a tool");
        match McpToolRequest::of(&request.name, arguments) {
            Ok(asked) => Ok(self.perform(asked).await?.into()),
            Err(McpRequestError::Tool) => {
                Err(ErrorData::invalid_params(format!("there is no tool `{}`", request.name), None))
            }
            // A result, not a protocol error: clients show results to the model, and the model can correct the call.
            Err(McpRequestError::Arguments(why)) => Ok(failed(&why).into()),
        }
    }
}

fn failed(why: &str) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(why)])
}
