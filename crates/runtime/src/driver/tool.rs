//! The effect of running a tool: the call, the live output, the result within the limits.

mod hooks;

use std::sync::Arc;
use std::time::Duration;

use longhaul_core::deferral::{self, DeferredTools};
use longhaul_core::history::History;
use longhaul_core::message::{MediaPart, OutputTruncation, Part, RawJson, ToolCall, ToolResult, ToolStatus};
use longhaul_core::orders::tool::{self as pin, PinArguments};
use longhaul_core::readability;
use longhaul_core::run::RunLoopInput;
use longhaul_core::truncate::{self, TextLimit, TruncatedText};
use longhaul_store::{BlobError, BlobStore};
use serde_json::json;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use self::hooks::HookAddition;
use super::SharedSessionState;
use super::context::DriverContext;
use crate::agent::Agent;
use crate::api_events::ApiEvent;
use crate::picture;
use crate::recall::{self, RecallSource};
use crate::tools::{PreservedEnd, ToolContext, ToolInput, ToolOutput, ToolOutputPart, ToolProgress};

/// The time beyond a tool's own grace until the tool's future is dropped.
const LAST_GRACE: Duration = Duration::from_secs(3);

/// The maximum room for the marker of a truncation.
const MARKER_CHARS: u64 = 200;
const MARKER_TOKENS: u64 = 60;

/// The tool calls of a run, and the token that stops them.
#[derive(Default)]
pub(super) struct ToolCalls {
    stop: CancellationToken,
}

impl ToolCalls {
    /// Runs a tool; the result is the loop's next input.
    pub(super) fn start(&self, context: &mut DriverContext, call: ToolCall, limit: TextLimit) {
        let (run, agent) = (&context.run, &context.agent);
        // A call of `recall` is served even before the tool is offered: a model may know it from elsewhere.
        let is_recall = call.name == recall::NAME && agent.tools.has_recall();
        let source =
            is_recall.then(|| RecallSource::with(run.history(), context.shared.search_index.clone()));
        let is_pin = call.name == pin::NAME && agent.offers_pin();
        let is_stand_in = [deferral::SEARCH, deferral::CALL].contains(&call.name.as_str());
        let deferred = run.settings().fixed.deferred.clone().filter(|_| is_stand_in);
        let task = ToolTask {
            agent: Arc::clone(agent),
            shared: Arc::clone(&context.shared),
            // A child token: a tool that cancels its token must not stop the tools beside it.
            stop: self.stop.child_token(),
            limit,
            source,
            is_pin,
            deferred,
            // Tools that run at the same time do not see each other's outputs here, so together they may exceed the
            // quota.
            stored_bytes: stored_output_bytes(run.history()),
        };
        tracing::debug!(
            tool = call.name,
            call = call.call_id.as_str(),
            argument_bytes = call.arguments.len(),
            max_chars = limit.max_chars,
            max_tokens = limit.max_tokens,
            "a tool call starts"
        );
        let scope = context.trace.tool_scope(&call.call_id);
        context.spawn_input(scope.around(async move { task.run(call).await }));
    }

    /// Asks the running tools to stop.
    pub(super) fn stop(&self) {
        self.stop.cancel();
    }

    /// Replaces the stop token after a run: a cancelled token stays cancelled, and the next run's tools need a fresh
    /// token.
    pub(super) fn renew_stop(&mut self) {
        self.stop = CancellationToken::new();
    }
}

/// Returns the bytes of a session's tool outputs in blobs.
fn stored_output_bytes(history: &History) -> u64 {
    let parts = history.entries().iter().flat_map(|entry| &entry.message.parts);
    let truncated = parts.filter_map(|part| match part {
        Part::ToolResult(result) => result.truncated.as_ref(),
        _ => None,
    });
    truncated.map(|truncation| truncation.blob.bytes).sum()
}

struct ToolTask {
    agent: Arc<Agent>,
    shared: Arc<SharedSessionState>,
    stop: CancellationToken,
    limit: TextLimit,
    /// For `recall` only.
    source: Option<RecallSource>,
    /// True for a call of our own `pin`, which the loop decides.
    is_pin: bool,
    /// For `tool_search` and `tool_call` only.
    deferred: Option<Arc<DeferredTools>>,
    stored_bytes: u64,
}

impl ToolTask {
    async fn run(&self, mut call: ToolCall) -> RunLoopInput {
        // Logs of earlier releases, and hosts' own providers, may have empty arguments.
        call.settle_arguments();
        // A refused call gets a result like any other, because providers reject a conversation with a call that has
        // none.
        if let Err(refusal) = self.before(&mut call).await {
            let nothing = HookAddition { text: None, limit: self.limit };
            return RunLoopInput::ToolEnded(self.result(&call, refusal, nothing).await);
        }
        let request = self.is_pin.then(|| PinArguments::read(&call.arguments));
        // The call of `pin` runs no tool: the loop stores the order together with the result (decision 0036).
        let output = match &request {
            Some(Ok(request)) => ToolOutput::text(request.text.clone()),
            Some(Err(text)) => ToolOutput::error(text.clone()),
            None => self.execute(&call).await,
        };
        // The hook is asked before the output is cut, because it judges the whole output.
        let added = self.after(&call, &output).await;
        let result = self.result(&call, output, added).await;
        match request {
            Some(Ok(request)) => RunLoopInput::PinEnded { result, request },
            Some(Err(_)) | None => RunLoopInput::ToolEnded(result),
        }
    }

    async fn execute(&self, call: &ToolCall) -> ToolOutput {
        if let Some(deferred) = &self.deferred {
            return self.find_tools(deferred, call);
        }
        match &self.source {
            Some(source) => {
                match recall::recall(&call.arguments, source, &self.shared.blobs, &self.limit).await {
                    Ok(text) => ToolOutput::text(text),
                    Err(text) => ToolOutput::error(text),
                }
            }
            None => match serde_json::from_str(&call.arguments) {
                Ok(arguments) => self.run_within_grace(call, arguments).await,
                Err(error) => {
                    tracing::info!(
                        tool = call.name,
                        call = call.call_id.as_str(),
                        argument_bytes = call.arguments.len(),
                        line = error.line(),
                        column = error.column(),
                        "a tool call did not run: its arguments are not valid JSON"
                    );
                    ToolOutput::error(format!("The arguments are not valid JSON: {error}"))
                }
            },
        }
    }

    /// Answers a search for tools. A still unresolved call of `tool_call` gets the reason.
    fn find_tools(&self, deferred: &DeferredTools, call: &ToolCall) -> ToolOutput {
        let answer = match call.name.as_str() {
            deferral::SEARCH => {
                tracing::debug!(deferred_tools = deferred.len(), "the model searches the deferred tools");
                deferred.search(&call.arguments, &self.limit)
            }
            _ => deferred.resolve(&call.arguments).and_then(|found| {
                Err(format!(
                    "Error: the call was not made. Call `{}` through `{}` again.",
                    found.name, call.name
                ))
            }),
        };
        answer.map_or_else(ToolOutput::error, ToolOutput::text)
    }

    /// Runs a tool. A stopped tool ends by itself within the grace; otherwise the tool is dropped, which kills the
    /// tool's processes.
    async fn run_within_grace(&self, call: &ToolCall, arguments: serde_json::Value) -> ToolOutput {
        let (progress, received) = mpsc::channel(64);
        let context = ToolContext {
            workspace: Arc::clone(&self.agent.workspace),
            sandbox: Arc::clone(&self.agent.sandbox),
            cancel: self.stop.clone(),
            progress,
            limits: self.agent.tool_limits.clone(),
        };
        // A tool that stops its processes waits `kill_grace` for them itself, so the tool is given longer.
        let grace = self.agent.tool_limits.kill_grace + LAST_GRACE;
        let give_up = async {
            self.stop.cancelled().await;
            tokio::time::sleep(grace).await;
        };
        let running = self
            .agent
            .tools
            .run(&call.name, ToolInput { arguments, written: RawJson(call.arguments.clone()), context });
        let relay = self.relay(call, received);
        // Both futures are joined, so that all live output is announced before the result. The channel closes with the
        // tool.
        let both = async { tokio::join!(running, relay).0 };
        tokio::select! {
            output = both => output,
            () = give_up => {
                tracing::warn!(tool = call.name, ?grace, "a tool did not stop in time and is dropped");
                ToolOutput::cancelled()
            }
        }
    }

    async fn relay(&self, call: &ToolCall, mut received: mpsc::Receiver<ToolProgress>) {
        while let Some(ToolProgress { offset, text }) = received.recv().await {
            let payload = json!({ "callId": call.call_id, "text": text, "offset": offset });
            let announcement = ApiEvent::passing("tool:output", &self.shared.session_id, payload);
            self.shared.bus.publish_passing(announcement);
        }
    }

    async fn result(&self, call: &ToolCall, output: ToolOutput, added: HookAddition) -> ToolResult {
        let status = match (output.cancelled, output.is_error) {
            (true, _) => ToolStatus::Cancelled,
            (_, true) => ToolStatus::Error,
            _ => ToolStatus::Completed,
        };
        let keep = match output.keep {
            PreservedEnd::Head => truncate::TruncationMode::Head,
            PreservedEnd::Tail => truncate::TruncationMode::Tail,
            PreservedEnd::Both => truncate::TruncationMode::Both,
        };
        let mut result =
            ToolResult { call_id: call.call_id.clone(), status, content: Vec::new(), truncated: None };
        let (mut stored, mut unstored) = (0_usize, 0_usize);
        for piece in output.content {
            match piece {
                ToolOutputPart::Text(text) => {
                    self.add_text(text, &added.limit, keep, output.lost_bytes, &mut result).await;
                }
                // Each attachment is flushed to disk, and there may be many: a stop skips the others.
                ToolOutputPart::Media { .. } if stored > 0 && self.stop.is_cancelled() => unstored += 1,
                ToolOutputPart::Media { bytes, media_type, name } => {
                    result.content.push(media(&self.shared.blobs, bytes, media_type, name).await);
                    stored += 1;
                }
            }
        }
        if unstored > 0 {
            tracing::info!(stored, unstored, "attachments of a cancelled tool call were not stored");
            let note = format!("[{unstored} attachments were not stored: the run was cancelled.]");
            result.content.push(Part::text(note));
        }
        if result.content.is_empty() {
            // A provider may refuse a result without content, and the model could not tell it from a lost one.
            result.content.push(Part::text("(no output)"));
        }
        result.content.extend(added.text.map(Part::text));
        result
    }

    async fn add_text(
        &self,
        text: String,
        limit: &TextLimit,
        keep: truncate::TruncationMode,
        lost_bytes: u64,
        result: &mut ToolResult,
    ) {
        // A result records one truncation. Text after a truncated piece therefore stays whole.
        let cut = match result.truncated {
            None => self.cut(&text, limit, keep),
            Some(_) => None,
        };
        let Some(cut) = cut else {
            let text = if text.is_empty() { "(no output)".to_owned() } else { text };
            return result.content.push(Part::text(text));
        };
        match self.store_whole(text, &cut.kept).await {
            Ok((blob, lost)) => {
                tracing::debug!(
                    total_chars = cut.total_chars,
                    omitted_chars = cut.omitted_chars,
                    max_chars = limit.max_chars,
                    max_tokens = limit.max_tokens,
                    stored_bytes = blob.bytes,
                    lost_bytes = lost,
                    "the output of a tool is over its limit and was shortened"
                );
                result.truncated = Some(OutputTruncation {
                    head_bytes: cut.head_bytes,
                    omitted_chars: cut.omitted_chars,
                    total_chars: cut.total_chars,
                    blob,
                    lost_bytes: lost_bytes + lost,
                });
                result.content.push(Part::text(cut.kept));
            }
            Err(error) => {
                tracing::warn!(
                    %error,
                    omitted_chars = cut.omitted_chars,
                    "the whole output of a tool could not be stored; the model cannot recall the rest"
                );
                let note = format!("{}\n[{} characters are lost: {error}]", cut.kept, cut.omitted_chars);
                result.content.push(Part::text(note));
            }
        }
    }

    /// Returns the shortened form of an unreadable or too long text; `None` if the text stays whole.
    fn cut(&self, text: &str, limit: &TextLimit, keep: truncate::TruncationMode) -> Option<TruncatedText> {
        // The model asked for recalled text unchanged.
        let legible = match self.source {
            None => readability::shorten(text, self.agent.tool_limits.read_max_line_chars),
            Some(_) => None,
        };
        let Some(legible) = legible else {
            return truncate::truncate(text, limit, keep, &self.agent.counter);
        };
        // The marker is added to the shortened text, so its room is kept free.
        let limit = TextLimit {
            max_chars: limit.max_chars.saturating_sub(MARKER_CHARS),
            max_tokens: limit.max_tokens.saturating_sub(MARKER_TOKENS),
        };
        let mut cut = match truncate::truncate(&legible, &limit, keep, &self.agent.counter) {
            Some(cut) => cut,
            None => {
                TruncatedText { head_bytes: legible.len(), kept: legible, omitted_chars: 0, total_chars: 0 }
            }
        };
        cut.total_chars = text.chars().count() as u64;
        cut.omitted_chars = cut.total_chars.saturating_sub(cut.kept.chars().count() as u64);
        Some(cut)
    }

    /// Stores the whole output, or, over the session's quota, only the part in the model's view.
    async fn store_whole(
        &self,
        text: String,
        kept: &str,
    ) -> Result<(longhaul_core::message::BlobRef, u64), BlobError> {
        let bytes = text.len() as u64;
        let has_room = self.stored_bytes + bytes <= self.agent.rules.session_quota_bytes;
        if has_room {
            match self.shared.blobs.put(text).await {
                // A blob above the size limit is treated like one above the quota.
                Err(BlobError::TooLarge { .. }) => {
                    tracing::info!(bytes, "an output is too large for a blob; only its shown part is stored");
                }
                stored => return stored.map(|blob| (blob, 0)),
            }
        }
        if !has_room {
            tracing::warn!(
                bytes,
                stored_bytes = self.stored_bytes,
                quota_bytes = self.agent.rules.session_quota_bytes,
                "the session's blob quota is used up: only the shown part of an output is stored; \
                 blobs.sessionQuotaBytes sets the quota"
            );
        }
        let blob = self.shared.blobs.put(kept.to_owned()).await?;
        Ok((blob, bytes - kept.len() as u64))
    }
}

/// Returns a picture or a file as a part, with stored content.
pub(crate) async fn media(
    blobs: &BlobStore,
    bytes: bytes::Bytes,
    media_type: String,
    name: Option<String>,
) -> Part {
    // The size is checked before the blob is stored: a picture that exhausts memory when decoded must not enter a
    // session.
    let size = match picture::size(&bytes) {
        Ok(size) => size,
        Err(too_large) => {
            tracing::info!(media_type, bytes = bytes.len(), reason = %too_large, "media was refused");
            return Part::text(format!("[media not stored: {too_large}]"));
        }
    };
    match blobs.put(bytes).await {
        Ok(blob) => {
            let is_image = media_type.starts_with("image/");
            let media = MediaPart {
                blob,
                media_type,
                name,
                width: size.map(|(width, _)| width),
                height: size.map(|(_, height)| height),
            };
            if is_image { Part::Image(media) } else { Part::File(media) }
        }
        Err(error) => {
            tracing::warn!(media_type, %error, "media could not be stored; the model is told so");
            Part::text(format!("[media not stored: {error}]"))
        }
    }
}
