//! The events of a session as a typed enum.
//!
//! [`SessionEvent::from_announcement`] is the one translation from [`ApiEvent`]s, the names and JSON objects of the
//! API, to types.

use longhaul_core::event::{EditReason, ErrorInfo, PartialAnswerReason, RunEnd};
use longhaul_core::ids::{
    ApprovalId, CallId, EditId, MessageId, Millis, OrderId, QueueId, RunId, Seq, StepId,
};
use longhaul_core::message::{ModelOrigin, Part, Role, ToolStatus};
use longhaul_core::queue::QueuedMessage;
use longhaul_core::usage::Usage;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::api_events::ApiEvent;

/// An event of a session. The JSON form is an object with the field `type`, for example
/// `{"type":"text-delta","text":"Hel","stepId":"…","messageId":"…","offset":0}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "kebab-case", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum SessionEvent {
    /// A run began: the model works until it is done.
    RunStarted {
        /// The run.
        run_id: RunId,
    },
    /// A run ended.
    RunFinished {
        /// The run.
        run_id: RunId,
        /// The reason why the run ended.
        end: RunEnd,
        /// The number of model calls in the run.
        steps: u32,
        /// The usage of all model calls of the run together.
        usage: Option<Usage>,
        /// The error at the end of the run.
        error: Option<ErrorInfo>,
    },
    /// The model's server cannot be used now and is asked again later.
    Waiting {
        /// The kind of failure: `outage`, `rate-limit`, `broken-answer` or `refusal`.
        reason: String,
        /// The number of the next attempt, from 1 for the first repetition.
        attempt: u32,
        /// The time of the attempt, in milliseconds since 1970.
        next_attempt_at: Millis,
        /// The newest failure.
        error: ErrorInfo,
    },
    /// The session was parked: crashes interrupted the session too often. A message begins a new run.
    Parked {
        /// The reason.
        reason: String,
    },

    /// A message waits in the queue.
    MessageQueued {
        /// The message's entry in the queue.
        queue_id: QueueId,
        /// The position among the waiting messages, from 1.
        position: u64,
    },
    /// A waiting message was changed.
    QueuedMessageEdited {
        /// The message's entry in the queue.
        queue_id: QueueId,
    },
    /// A waiting message was removed.
    QueuedMessageRemoved {
        /// The message's entry in the queue.
        queue_id: QueueId,
    },
    /// The waiting messages at the arrival of a watcher.
    QueueSnapshot {
        /// The messages, oldest first.
        messages: Vec<QueuedMessage>,
    },
    /// Waiting messages entered the conversation as a single message.
    MessagesTaken {
        /// The messages' entries in the queue, oldest first.
        queue_ids: Vec<QueueId>,
    },
    /// A message is in the conversation: typed text, a note of the runtime, or a whole answer of the model.
    MessageAdded {
        /// The message.
        message_id: MessageId,
        /// The role of the author.
        role: Role,
        /// The author.
        source: MessageSource,
        /// The content.
        parts: Vec<Part>,
        /// The reason for a partial answer.
        interrupted: Option<PartialAnswerReason>,
        /// The continued message, for the rest of an answer after a pause for making room.
        continues: Option<MessageId>,
    },

    /// More text of the answer in flight.
    TextDelta {
        /// The text.
        text: String,
        /// The model call.
        step_id: StepId,
        /// The message around the text.
        message_id: MessageId,
        /// The number of characters of text before the piece.
        offset: u64,
    },
    /// More readable reasoning of the answer in flight.
    ReasoningDelta {
        /// The reasoning.
        text: String,
        /// The model call.
        step_id: StepId,
        /// The message around the reasoning.
        message_id: MessageId,
        /// The number of characters of reasoning before the piece.
        offset: u64,
    },
    /// The answer in flight at the arrival of a watcher.
    AnswerSnapshot {
        /// The model call.
        step_id: StepId,
        /// The message around the text.
        message_id: MessageId,
        /// The text and the readable reasoning so far, in order.
        parts: Vec<Part>,
    },
    /// More of the arguments of a tool call in the answer in flight.
    ToolInputDelta {
        /// The model call.
        step_id: StepId,
        /// The position among the answer's tool calls, from 0.
        index: u64,
        /// The tool, once known.
        tool_name: Option<String>,
        /// The piece of the arguments.
        delta: String,
    },
    /// The model asks for a tool.
    ToolCall {
        /// The call.
        call_id: CallId,
        /// The tool.
        tool_name: String,
        /// The arguments: an empty object if the model wrote none, and `null` for text other than JSON.
        arguments: Value,
        /// The arguments as written by the model.
        arguments_text: String,
        /// The asking model call.
        step_id: StepId,
    },
    /// A tool call needs approval.
    ApprovalRequested {
        /// The question, by the name for use beyond the session.
        approval_id: ApprovalId,
        /// The call.
        call_id: CallId,
        /// The tool.
        tool_name: Option<String>,
        /// The arguments, as in [`SessionEvent::ToolCall`].
        arguments: Value,
        /// The arguments as written by the model.
        arguments_text: Option<String>,
    },
    /// A tool call was allowed or denied.
    ApprovalResolved {
        /// The question, by the name for use beyond the session.
        approval_id: ApprovalId,
        /// The decision: whether the call may run.
        is_allowed: bool,
    },
    /// A tool runs.
    ToolStarted {
        /// The call.
        call_id: CallId,
    },
    /// Output of a running tool.
    ToolProgress {
        /// The call.
        call_id: CallId,
        /// The piece of output.
        text: String,
        /// The number of characters of output before the piece.
        offset: u64,
    },
    /// A tool call is over.
    ToolResult {
        /// The call.
        call_id: CallId,
        /// The tool.
        tool_name: String,
        /// The call's final status.
        status: ToolStatus,
        /// The result in the model's view.
        content: Vec<Part>,
        /// True if the output was too long and the model sees the beginning or end.
        is_truncated: bool,
        /// The number of characters left out of `content`; 0 for a whole result.
        #[serde(default)]
        omitted_chars: u64,
        /// The number of characters of the whole output, if some are left out; else 0.
        #[serde(default)]
        total_chars: u64,
    },
    /// A model call is over and gave an answer.
    StepFinished {
        /// The model call.
        step_id: StepId,
        /// The answer's text, from the beginning of an answer that went on after a break or a pause.
        text: String,
        /// The answer's readable reasoning.
        reasoning: Option<String>,
        /// The usage reported by the server; `None` without a report.
        usage: Option<Usage>,
    },
    /// A model call failed, or the model's server reports a problem.
    ModelError {
        /// The error of the attempt.
        error: ErrorInfo,
        /// True if the work continues all the same.
        is_recoverable: bool,
    },
    /// Pictures or files were left out of a request, because the model does not take such input.
    InputUnsupported {
        /// The omitted parts and the reasons, a sentence each.
        errors: Vec<String>,
    },
    /// The session has another model from here on.
    ModelSwitched {
        /// The model.
        to: ModelOrigin,
    },

    /// The state of the context window. Tokens throughout.
    ContextUsage {
        /// The next request's tokens.
        total_tokens: u64,
        /// The window.
        window_tokens: u64,
        /// The tokens kept free for the answer.
        reserve_tokens: u64,
        /// The expected error of `total_tokens`, as a share of the total.
        expected_error: f64,
        /// The number of compactions so far.
        compactions: u64,
    },
    /// The accuracy of the estimate of a request.
    InputEstimated {
        /// The estimate, in tokens.
        estimated_tokens: u64,
        /// The server's count, in tokens.
        actual_tokens: u64,
    },
    /// A compaction began, and a summary is being written.
    Compacting {
        /// The strategy.
        strategy: String,
        /// The reason.
        reason: EditReason,
        /// The reached threshold, in tokens.
        trigger_tokens: u64,
    },
    /// Old messages gave way to a summary or a note.
    Compacted {
        /// The compaction, for [`Session::undo`](crate::session::Session::undo).
        edit_id: EditId,
        /// The strategy.
        strategy: String,
        /// The reason.
        reason: EditReason,
        /// The request before, in tokens.
        original_tokens: u64,
        /// The request after, in tokens.
        compressed_tokens: u64,
        /// Messages before.
        original_messages: u64,
        /// Messages after.
        compressed_messages: u64,
        /// The strategy's choice in words, for people.
        #[serde(default)]
        note: String,
    },
    /// Old tool results gave way to placeholders.
    Pruned {
        /// The edit, for [`Session::undo`](crate::session::Session::undo).
        edit_id: EditId,
        /// The strategy.
        #[serde(default)]
        strategy: String,
        /// The number of results.
        results: u64,
        /// The request before, in tokens.
        original_tokens: u64,
        /// The request after, in tokens.
        compressed_tokens: u64,
        /// The strategy's choice in words, for people.
        #[serde(default)]
        note: String,
    },
    /// A compaction was not made.
    CompactionFailed {
        /// The strategy.
        strategy: String,
        /// The error of the compaction.
        error: ErrorInfo,
    },
    /// A compaction, a prune or an omission was undone.
    Restored {
        /// The edit.
        edit_id: EditId,
        /// The request after, in tokens.
        total_tokens: u64,
    },
    /// Parts were left out of the view after a refusal by the model's server.
    Omitted {
        /// The edit, for [`Session::undo`](crate::session::Session::undo).
        edit_id: EditId,
        /// The reason.
        reason: String,
    },

    /// A standing order of the user was pinned.
    OrderPinned {
        /// The order.
        order_id: OrderId,
        /// The order's text.
        text: String,
    },
    /// A standing order was changed.
    OrderEdited {
        /// The order.
        order_id: OrderId,
        /// The order's text.
        text: String,
    },
    /// A standing order was removed.
    OrderRemoved {
        /// The order.
        order_id: OrderId,
    },

    /// Events were lost because the reader was slow. The durable events are in the log.
    Lagged {
        /// The number of events.
        missed: u64,
    },
    /// Events of the log were not shown to a watcher: the log is unreadable there, or ends before the watcher's
    /// position.
    StreamGap {
        /// The first position of the gap.
        from: Seq,
        /// The last position of the gap.
        to: Seq,
    },
    /// An event of the API without a type.
    Other {
        /// The event's name in the API.
        name: String,
        /// The event's fields.
        payload: Map<String, Value>,
    },
}

/// The author of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum MessageSource {
    /// A person.
    Typed,
    /// The model.
    Model,
    /// The runtime, for the model.
    Note,
    /// An imported summary.
    Summary,
}

impl SessionEvent {
    /// Returns the JSON Schema of an event in its JSON form. `docs/events.schema.json` has the same text.
    ///
    /// ```
    /// use longhaul::SessionEvent;
    /// assert_eq!(SessionEvent::json_schema()["title"], "SessionEvent");
    /// ```
    pub fn json_schema() -> Value {
        let mut schema = schemars::schema_for!(Self).to_value();
        remove_links(&mut schema);
        schema
    }

    /// Returns the typed form of an announcement. The result is `None` for an announcement that repeats another, such
    /// as the empty piece that ends a text.
    #[doc(hidden)]
    pub fn from_announcement(announcement: &ApiEvent) -> Option<Self> {
        let fields = EventFields(&announcement.payload);
        match announcement.name {
            "llm:thinking" => None,
            // The empty last chunk only marks the end of the text, which `StepFinished` reports.
            "llm:chunk" if announcement.text("content").is_empty() => None,
            // An unknown name or field must not lose the event: readers get the raw form.
            name => Some(translate(name, &fields).unwrap_or_else(|| Self::Other {
                name: name.to_owned(),
                payload: announcement.payload.clone(),
            })),
        }
    }
}

/// Removes the links of doc comments from a schema's descriptions. They lead nowhere outside of Rust's documentation.
fn remove_links(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            if let Some(Value::String(description)) = fields.get_mut("description") {
                *description = without_links(description);
            }
            fields.values_mut().for_each(remove_links);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_links),
        _ => {}
    }
}

/// Returns a doc comment with the names of its links alone: ``[`Session`](crate::Session)`` becomes `` `Session` ``.
fn without_links(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, link)) = rest.split_once("[`") {
        let Some((name, after)) = link.split_once("`]") else { break };
        plain.extend([before, "`", name, "`"]);
        let target = after.strip_prefix('(').and_then(|target| target.split_once(')'));
        rest = target.map_or(after, |(_, after)| after);
    }
    plain.push_str(rest);
    plain
}

/// The fields of an announcement.
struct EventFields<'a>(&'a Map<String, Value>);

impl EventFields<'_> {
    /// Returns a field; `None` if the field is missing or of another type.
    fn get<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        T::deserialize(self.0.get(name)?).ok()
    }

    /// Returns an optional field; `None` for a value of another type.
    fn optional<T: DeserializeOwned>(&self, name: &str) -> Option<Option<T>> {
        self.0.get(name).map_or(Some(None), |value| Option::deserialize(value).ok())
    }

    /// Returns an error with its text and code, from the fields of these names.
    fn error(&self, message: &str) -> Option<ErrorInfo> {
        Some(ErrorInfo { code: self.get("code")?, message: self.get(message)? })
    }
}

/// Returns the typed form; `None` if the name or a field is unknown.
fn translate(name: &str, fields: &EventFields<'_>) -> Option<SessionEvent> {
    run_event(name, fields)
        .or_else(|| message_event(name, fields))
        .or_else(|| answer_event(name, fields))
        .or_else(|| tool_event(name, fields))
        .or_else(|| context_event(name, fields))
        .or_else(|| order_event(name, fields))
}

fn run_event(name: &str, fields: &EventFields<'_>) -> Option<SessionEvent> {
    Some(match name {
        "run:started" => SessionEvent::RunStarted { run_id: fields.get("runId")? },
        "run:complete" => SessionEvent::RunFinished {
            run_id: fields.get("runId")?,
            end: fields.get("finishReason")?,
            steps: fields.get("steps")?,
            usage: fields.optional("usage")?,
            error: fields.optional("error")?,
        },
        "run:waiting" => SessionEvent::Waiting {
            reason: fields.get("reason")?,
            attempt: fields.get("attempt")?,
            next_attempt_at: fields.get("nextAttemptAt")?,
            error: fields.get("lastError")?,
        },
        "session:parked" => SessionEvent::Parked { reason: fields.get("reason")? },
        "stream:gap" => SessionEvent::StreamGap { from: fields.get("from")?, to: fields.get("to")? },
        _ => return None,
    })
}

fn message_event(name: &str, fields: &EventFields<'_>) -> Option<SessionEvent> {
    Some(match name {
        "message:queued" => {
            SessionEvent::MessageQueued { queue_id: fields.get("id")?, position: fields.get("position")? }
        }
        "message:edited" => SessionEvent::QueuedMessageEdited { queue_id: fields.get("id")? },
        "message:removed" => SessionEvent::QueuedMessageRemoved { queue_id: fields.get("id")? },
        "queue:snapshot" => SessionEvent::QueueSnapshot { messages: fields.get("entries")? },
        "message:dequeued" => SessionEvent::MessagesTaken { queue_ids: fields.get("ids")? },
        "message:added" => SessionEvent::MessageAdded {
            message_id: fields.get("messageId")?,
            role: fields.get("role")?,
            source: fields.get("source")?,
            parts: fields.get("parts")?,
            interrupted: fields.optional("interrupted")?,
            continues: fields.optional("continues")?,
        },
        _ => return None,
    })
}

fn answer_event(name: &str, fields: &EventFields<'_>) -> Option<SessionEvent> {
    Some(match name {
        "llm:chunk" => {
            let (text, step_id) = (fields.get("content")?, fields.get("stepId")?);
            let (message_id, offset) = (fields.get("messageId")?, fields.get("offset")?);
            match fields.get::<String>("chunkType")?.as_str() {
                "text" => SessionEvent::TextDelta { text, step_id, message_id, offset },
                "reasoning" => SessionEvent::ReasoningDelta { text, step_id, message_id, offset },
                _ => return None,
            }
        }
        "llm:snapshot" => SessionEvent::AnswerSnapshot {
            step_id: fields.get("stepId")?,
            message_id: fields.get("messageId")?,
            parts: fields.get("parts")?,
        },
        "llm:response" => SessionEvent::StepFinished {
            step_id: fields.get("stepId")?,
            text: fields.get("content")?,
            reasoning: fields.optional("reasoning")?,
            usage: fields.optional("tokenUsage")?,
        },
        "llm:error" => SessionEvent::ModelError {
            error: fields.error("error")?,
            is_recoverable: fields.get("recoverable")?,
        },
        "llm:unsupported-input" => SessionEvent::InputUnsupported { errors: fields.get("errors")? },
        "llm:switched" => SessionEvent::ModelSwitched { to: fields.get("newConfig")? },
        _ => return None,
    })
}

fn tool_event(name: &str, fields: &EventFields<'_>) -> Option<SessionEvent> {
    Some(match name {
        "llm:tool-input" => SessionEvent::ToolInputDelta {
            step_id: fields.get("stepId")?,
            index: fields.get("index")?,
            tool_name: fields.optional("toolName")?,
            delta: fields.get("delta")?,
        },
        "llm:tool-call" => SessionEvent::ToolCall {
            call_id: fields.get("callId")?,
            tool_name: fields.get("toolName")?,
            arguments: fields.get("args")?,
            arguments_text: fields.get("argsText")?,
            step_id: fields.get("stepId")?,
        },
        "tool:approval-request" => SessionEvent::ApprovalRequested {
            approval_id: fields.get("approvalId")?,
            call_id: fields.get("callId")?,
            tool_name: fields.optional("toolName")?,
            arguments: fields.get("args")?,
            arguments_text: fields.optional("argsText")?,
        },
        "tool:approval-response" => SessionEvent::ApprovalResolved {
            approval_id: fields.get("approvalId")?,
            is_allowed: fields.get::<String>("decision")? == "allow",
        },
        "tool:started" => SessionEvent::ToolStarted { call_id: fields.get("callId")? },
        "tool:output" => SessionEvent::ToolProgress {
            call_id: fields.get("callId")?,
            text: fields.get("text")?,
            offset: fields.get("offset")?,
        },
        "llm:tool-result" => SessionEvent::ToolResult {
            call_id: fields.get("callId")?,
            tool_name: fields.get("toolName")?,
            status: fields.get("status")?,
            content: fields.get("sanitized")?,
            is_truncated: fields.get("truncated")?,
            omitted_chars: fields.optional("omittedChars")?.unwrap_or(0),
            total_chars: fields.optional("totalChars")?.unwrap_or(0),
        },
        _ => return None,
    })
}

fn context_event(name: &str, fields: &EventFields<'_>) -> Option<SessionEvent> {
    Some(match name {
        "context:usage" => SessionEvent::ContextUsage {
            total_tokens: fields.get("total")?,
            window_tokens: fields.get("window")?,
            reserve_tokens: fields.get("outputReserve")?,
            expected_error: fields.get("expectedError")?,
            compactions: fields.get("compactionCount")?,
        },
        "context:estimate" => SessionEvent::InputEstimated {
            estimated_tokens: fields.get("estimated")?,
            actual_tokens: fields.get("actual")?,
        },
        "context:compacting" => SessionEvent::Compacting {
            strategy: fields.get("strategy")?,
            reason: fields.get("reason")?,
            trigger_tokens: fields.get("trigger")?,
        },
        "context:compressed" => SessionEvent::Compacted {
            edit_id: fields.get("compactionId")?,
            strategy: fields.get("strategy")?,
            reason: fields.get("reason")?,
            original_tokens: fields.get("originalTokens")?,
            compressed_tokens: fields.get("compressedTokens")?,
            original_messages: fields.get("originalMessages")?,
            compressed_messages: fields.get("compressedMessages")?,
            note: fields.get("costNote")?,
        },
        "context:pruned" => SessionEvent::Pruned {
            edit_id: fields.get("compactionId")?,
            strategy: fields.get("strategy")?,
            results: fields.get("prunedCount")?,
            original_tokens: fields.get("originalTokens")?,
            compressed_tokens: fields.get("compressedTokens")?,
            note: fields.get("costNote")?,
        },
        "context:compact-failed" => SessionEvent::CompactionFailed {
            strategy: fields.get("strategy")?,
            error: fields.error("reason")?,
        },
        "context:restored" => SessionEvent::Restored {
            edit_id: fields.get("compactionId")?,
            total_tokens: fields.get("tokens")?,
        },
        "context:omitted" => {
            SessionEvent::Omitted { edit_id: fields.get("compactionId")?, reason: fields.get("reason")? }
        }
        _ => return None,
    })
}

fn order_event(name: &str, fields: &EventFields<'_>) -> Option<SessionEvent> {
    Some(match name {
        "order:pinned" => {
            SessionEvent::OrderPinned { order_id: fields.get("orderId")?, text: fields.get("text")? }
        }
        "order:edited" => {
            SessionEvent::OrderEdited { order_id: fields.get("orderId")?, text: fields.get("text")? }
        }
        "order:removed" => SessionEvent::OrderRemoved { order_id: fields.get("orderId")? },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event(name: &'static str, payload: Value) -> SessionEvent {
        SessionEvent::from_announcement(&ApiEvent::passing(name, &"s".into(), payload)).unwrap()
    }

    #[test]
    fn a_description_names_what_its_doc_comment_links_to() {
        for (written, plain) in [
            ("For [`Session::undo`](crate::session::Session::undo).", "For `Session::undo`."),
            ("As in [`A`] and [`B`](b::B), [1].", "As in `A` and `B`, [1]."),
            ("No link: [`open", "No link: [`open"),
        ] {
            assert_eq!(without_links(written), plain);
        }
        assert!(!SessionEvent::json_schema().to_string().contains("[`"));
    }

    #[test]
    fn a_shortened_result_tells_how_much_is_left_out() {
        let mut payload = json!({
            "callId": "c", "toolName": "bash", "status": "completed", "sanitized": [], "truncated": true,
            "omittedChars": 1_200, "totalChars": 2_000,
        });
        let SessionEvent::ToolResult { omitted_chars, total_chars, .. } =
            event("llm:tool-result", payload.clone())
        else {
            panic!()
        };
        assert_eq!((omitted_chars, total_chars), (1_200, 2_000));
        payload.as_object_mut().unwrap().retain(|key, _| !key.ends_with("Chars"));
        payload["truncated"] = false.into();
        let whole = event("llm:tool-result", payload);
        assert!(
            matches!(whole, SessionEvent::ToolResult { omitted_chars: 0, total_chars: 0, .. }),
            "{whole:?}"
        );
    }

    #[test]
    fn a_prune_names_its_strategy_and_its_choice() {
        let payload = json!({
            "compactionId": "e", "strategy": "adaptive", "prunedCount": 2, "originalTokens": 9,
            "compressedTokens": 4, "costNote": "2 results left out, because they are old",
        });
        let SessionEvent::Pruned { strategy, note, .. } = event("context:pruned", payload) else { panic!() };
        assert_eq!(
            (strategy.as_str(), note.as_str()),
            ("adaptive", "2 results left out, because they are old")
        );
    }
}
