//! The complete message history, page by page, according to the log. Nothing is left out; messages outside the
//! model's full view are marked.
//!
//! A page is read from the store instead of the open session. The cost does not grow with the log, nothing is opened,
//! and a session that is compacting or damaged elsewhere can still be read.

mod fragment;
mod log_window;
mod selection;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use longhaul::api_events::{call_arguments, metadata_fields};
use longhaul::session::SessionError;
use longhaul_core::event::{Event, EventBody, PartialAnswerReason, RunEnd, ViewEdit};
use longhaul_core::history::LogEntryKind;
use longhaul_core::ids::{CallId, Millis, Seq, SessionId};
use longhaul_core::message::{Message, Part, Role, ToolCall, ToolResult};
use longhaul_core::run::RunStatus;
use longhaul_core::truncate::shown_content;
use longhaul_core::usage::Usage;
use longhaul_store::{SessionRecord, StoreError};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use utoipa::{IntoParams, ToSchema};

use self::fragment::{LogFragment, LogFragmentCallState, LogFragmentEntry};
use crate::app::AppState;
use crate::extract::{PathParams, QueryParams};
use crate::openapi::answer;
use crate::problem::ApiProblem;

/// The default and the maximum number of messages on a page.
const PAGE: usize = 100;
const LARGEST_PAGE: usize = 500;

/// The maximum size of the rendered text of a page, in bytes.
const RENDERED_BYTES: usize = 2 << 20;

#[derive(Clone, Copy, Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct MessagePageParams {
    /// Only messages after this position. Not together with `before`.
    #[param(value_type = Option<u64>)]
    after: Option<Seq>,
    /// Only messages before this position.
    #[param(value_type = Option<u64>)]
    before: Option<Seq>,
    /// The most messages of the page: 100 by default, at most 500.
    #[param(minimum = 1)]
    limit: Option<usize>,
    /// `html` adds safe HTML to the texts of models.
    render: Option<RenderForm>,
}

/// An additional format of texts.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[schema(as = RenderForm)]
#[serde(rename_all = "lowercase")]
pub(crate) enum RenderForm {
    Html,
}

/// The requested range of messages.
#[derive(Clone, Copy)]
struct MessagePageRange {
    after: Option<Seq>,
    before: Option<Seq>,
    limit: usize,
}

/// A page of messages.
#[derive(Default)]
struct MessagePage {
    messages: Vec<MessagePageEntry>,
    has_more: bool,
    /// The positions of damaged events among the messages.
    damaged: Vec<Seq>,
    /// The ends of runs among the messages, except of runs that ended with their answer.
    run_ends: Vec<Value>,
    known: MessagePageDetails,
}

/// A message, with the facts from later events.
struct MessagePageEntry {
    seq: Seq,
    message_id: String,
    /// The message id of the last part's step.
    said_in: String,
    fields: Map<String, Value>,
    /// The field for the time when an edit took the message from the view; `None` for a summary.
    taken_field: Option<&'static str>,
    /// The time of the oldest active edit of the message.
    taken_at: Option<Millis>,
    /// The call whose result the message is.
    answers: Option<CallId>,
}

impl MessagePageEntry {
    /// Returns whether an edit may still take the message.
    fn can_be_taken(&self) -> bool {
        self.taken_field.is_some() && self.taken_at.is_none()
    }
}

/// List all messages of the log, page by page
#[utoipa::path(get, path = "/api/sessions/{id}/messages", operation_id = "listMessages", tag = "messages", params(("id" = String, Path), MessagePageParams), 
    responses((status = 200, body = answer::MessagePageResponse, description = "A page")))]
pub(crate) async fn page(
    State(app): State<AppState>,
    PathParams(id): PathParams<String>,
    QueryParams(wanted): QueryParams<MessagePageParams>,
) -> Result<Json<Value>, ApiProblem> {
    if wanted.after.is_some() && wanted.before.is_some() {
        return Err(ApiProblem::invalid("Give `after` or `before`, not both."));
    }
    if wanted.limit == Some(0) {
        return Err(ApiProblem::invalid("`limit` must be at least 1, not 0."));
    }
    let limit = wanted.limit.unwrap_or(PAGE).min(LARGEST_PAGE);
    let range = MessagePageRange { after: wanted.after, before: wanted.before, limit };
    let id = SessionId::from(id);
    let (record, is_running) = look_at(&app, &id).await?;
    let store = app.runtime().store();
    let page = selection::read_page(store, &id, record.last_seq, range, is_running).await?;
    let (first, last) = (page.messages.first().map(|one| one.seq), page.messages.last().map(|one| one.seq));
    let known = page.known;
    let mut messages: Vec<Value> = page.messages.into_iter().map(|shown| known.complete(shown)).collect();
    if let Some(RenderForm::Html) = wanted.render {
        render(&app, &mut messages).await?;
    }
    let backwards = wanted.before.is_some();
    let next = last.filter(|_| page.has_more && !backwards);
    let previous = first.filter(|_| page.has_more && backwards);
    let mut answer =
        json!({ "messages": messages, "hasMore": page.has_more, "after": next, "before": previous });
    if !page.run_ends.is_empty() {
        answer["runEnds"] = page.run_ends.into();
    }
    if !page.damaged.is_empty() {
        answer["damaged"] = json!(page.damaged);
    }
    Ok(Json(answer))
}

/// Reports whether an open session has an active run; `None` if the session is not open here.
fn is_running(app: &AppState, id: &SessionId) -> Option<bool> {
    let open = app.runtime().opened().into_iter().find(|session| session.id() == id);
    open.map(|session| !matches!(*session.status().borrow(), RunStatus::Idle | RunStatus::Parked))
}

/// Returns the record of a session, and whether a run is active. The state that a crash left open is repaired first if
/// the log can be read.
async fn look_at(app: &AppState, id: &SessionId) -> Result<(SessionRecord, bool), ApiProblem> {
    let store = app.runtime().store();
    // The order matters: a result that arrives between the two reads is then included.
    let (known, record) = (is_running(app, id), store.session(id).await?);
    if known.is_some() || !record.running {
        return Ok((record, known.unwrap_or(false)));
    }
    match app.runtime().open(id).await {
        Ok(_) => Ok((store.session(id).await?, is_running(app, id).unwrap_or(false))),
        // The session cannot be repaired, so it is shown as it was left.
        Err(SessionError::Store(
            StoreError::Damaged { .. } | StoreError::Storage(_) | StoreError::ReadOnly,
        )) => Ok((record, false)),
        Err(error) => Err(error.into()),
    }
}

/// Adds HTML to the texts of models, up to the byte limit.
async fn render(app: &AppState, messages: &mut [Value]) -> Result<(), ApiProblem> {
    let of_model =
        messages.iter_mut().filter(|message| message["role"] == "assistant" || message["isSummary"] == true);
    let parts = of_model.filter_map(|message| message["parts"].as_array_mut()).flatten();
    let mut left = RENDERED_BYTES;
    let mut written: Vec<&mut Map<String, Value>> = Vec::new();
    let mut texts = Vec::new();
    for part in parts.filter_map(Value::as_object_mut) {
        let Some(text) = part.get("text").and_then(Value::as_str).filter(|_| part["type"] == "text") else {
            continue;
        };
        // A text that is too long is skipped, and shorter ones behind it may still be rendered.
        if text.len() <= left {
            left -= text.len();
            texts.push(text.to_owned());
            written.push(part);
        }
    }
    for (part, html) in written.into_iter().zip(app.rendered(texts).await?) {
        part.insert("html".to_owned(), html.into());
    }
    Ok(())
}

fn show_summary(seq: Seq, edit: &ViewEdit, parts: &[Part]) -> MessagePageEntry {
    let mut fields = Map::new();
    fields.insert("role".to_owned(), "user".into());
    fields.insert("parts".to_owned(), json!(parts));
    fields.insert("isSummary".to_owned(), true.into());
    let message_id = edit.id.to_string();
    let said_in = message_id.clone();
    MessagePageEntry { seq, message_id, said_in, fields, taken_field: None, taken_at: None, answers: None }
}

/// Returns the end of a run without its answer; `None` for any other event.
fn show_run_end(event: &Event) -> Option<Value> {
    let EventBody::RunFinished { run_id, reason, error } = &event.body else { return None };
    let mut shown = json!({ "seq": event.seq, "at": event.at, "runId": run_id, "finishReason": reason });
    if let Some(error) = error {
        shown["error"] = json!(error);
    }
    (*reason != RunEnd::Stop).then_some(shown)
}

fn show_entry(
    entry: &LogFragmentEntry<'_>,
    fragment: &LogFragment<'_>,
    is_running: bool,
) -> MessagePageEntry {
    let message = &fragment.shown(entry);
    let mut fields = Map::new();
    fields.insert("role".to_owned(), json!(message.role));
    fields.insert("parts".to_owned(), json!(with_markers(entry.seq, &message.parts)));
    if let Some(begun) = fragment.attempted(entry) {
        fields.insert("continues".to_owned(), json!(begun));
    }
    let mut answers = None;
    match &entry.kind {
        Some(LogEntryKind::Typed) => {}
        Some(LogEntryKind::Assistant(cut)) => {
            let calls = message
                .tool_calls()
                .map(|call| show_call(call, fragment.call_state(entry, &call.call_id), is_running));
            of_assistant(message, *cut, calls.collect(), &mut fields);
        }
        Some(LogEntryKind::Result { tool }) => answers = of_result(message, Some(tool), &mut fields),
        // The call of this result is damaged.
        None => answers = of_result(message, None, &mut fields),
        Some(_) => drop(fields.insert("isNote".to_owned(), true.into())),
    }
    let field = if message.role == Role::Tool { "compactedAt" } else { "summarizedAt" };
    let said_in = entry.message.id.to_string();
    let message_id = message.id.to_string();
    MessagePageEntry {
        seq: entry.seq,
        message_id,
        said_in,
        fields,
        taken_field: Some(field),
        taken_at: None,
        answers,
    }
}

/// Returns the parts of the message at `seq`; a truncated result gets its marker.
fn with_markers(seq: Seq, parts: &[Part]) -> Vec<Part> {
    let shown = parts.iter().map(|part| match part {
        Part::ToolResult(result) if result.truncated.is_some() => {
            Part::ToolResult(ToolResult { content: shown_content(result, seq), ..result.clone() })
        }
        other => other.clone(),
    });
    shown.collect()
}

fn of_assistant(
    message: &Message,
    cut: Option<PartialAnswerReason>,
    calls: Vec<Value>,
    fields: &mut Map<String, Value>,
) {
    if let Some(origin) = &message.origin {
        fields.insert("model".to_owned(), json!(origin));
    }
    if let Some(cut) = cut {
        fields.insert("interrupted".to_owned(), json!(cut));
    }
    let reasoning = message.parts.iter().filter_map(|part| match part {
        Part::Reasoning(reasoning) => Some(reasoning),
        _ => None,
    });
    let text: String = reasoning.clone().map(|reasoning| reasoning.text.as_str()).collect();
    let native: Vec<&str> =
        reasoning.filter_map(|reasoning| reasoning.native.as_ref()).map(|native| native.as_str()).collect();
    if !text.is_empty() {
        fields.insert("reasoning".to_owned(), text.into());
    }
    if !native.is_empty() {
        fields.insert("reasoningMetadata".to_owned(), json!(native));
    }
    if !calls.is_empty() {
        fields.insert("toolCalls".to_owned(), calls.into());
    }
}

fn show_call(call: &ToolCall, state: LogFragmentCallState, is_running: bool) -> Value {
    let status = match state {
        LogFragmentCallState::Ended(status) => json!(status),
        // Without an active run nothing executes the tool, although its result is missing.
        LogFragmentCallState::Open { started: true } if is_running => json!("running"),
        LogFragmentCallState::Open { .. } => json!("pending"),
        LogFragmentCallState::Void => Value::Null,
    };
    json!({
        "callId": call.call_id, "toolName": call.name, "args": call_arguments(call), "argsText": call.arguments,
        "status": status,
    })
}

fn of_result(message: &Message, tool: Option<&str>, fields: &mut Map<String, Value>) -> Option<CallId> {
    let Some(Part::ToolResult(result)) = message.parts.first() else { return None };
    if let Some(tool) = tool {
        fields.insert("toolName".to_owned(), tool.into());
    }
    fields.insert("callId".to_owned(), json!(result.call_id));
    fields.insert("status".to_owned(), json!(result.status));
    fields.insert("truncated".to_owned(), result.truncated.is_some().into());
    Some(result.call_id.clone())
}

/// The facts of events around the messages.
#[derive(Default)]
struct MessagePageDetails {
    at: BTreeMap<Seq, Millis>,
    /// The usage of each step, by message.
    usage: BTreeMap<String, Usage>,
    /// The reason for a call's missing answer, by the call's message.
    failures: BTreeMap<String, Value>,
    /// The time at which each tool began to run, by call.
    started: BTreeMap<CallId, Millis>,
    /// The fields with the metadata of clients.
    metadata: BTreeMap<Seq, Vec<(&'static str, Value)>>,
}

impl MessagePageDetails {
    fn note(&mut self, event: &Event) {
        self.at.insert(event.seq, event.at);
        let metadata = metadata_fields(&event.body);
        if !metadata.is_empty() {
            self.metadata.insert(event.seq, metadata);
        }
        if let EventBody::StepFinished { step_id, usage: Some(usage), .. } = &event.body {
            // The answer of a step has the step's id in its own.
            self.usage.insert(format!("m-{step_id}"), usage.clone());
        }
        if let EventBody::StepFailed { step_id, code, message, .. } = &event.body {
            self.failures.insert(format!("m-{step_id}"), json!({ "code": code, "message": message }));
        }
        if let EventBody::ToolStarted { call_id } = &event.body {
            self.started.insert(call_id.clone(), event.at);
        }
    }

    fn complete(&self, shown: MessagePageEntry) -> Value {
        let mut message = Map::new();
        message.insert("id".to_owned(), shown.message_id.as_str().into());
        message.insert("seq".to_owned(), shown.seq.into());
        message.insert("at".to_owned(), json!(self.at.get(&shown.seq)));
        message.extend(shown.fields);
        let metadata = self.metadata.get(&shown.seq).into_iter().flatten();
        message.extend(metadata.map(|(field, value)| ((*field).to_owned(), value.clone())));
        if let Some(usage) = self.usage.get(&shown.said_in) {
            message.insert("tokenUsage".to_owned(), longhaul::api_events::token_usage(usage));
        }
        // A cancelled answer was cut off by a person, so a failure of its step is not the reason.
        let is_broken = message.get("interrupted").is_some_and(|cut| *cut == "lost" || *cut == "paused");
        if let Some(failure) = self.failures.get(&shown.said_in).filter(|_| is_broken) {
            message.insert("error".to_owned(), failure.clone());
        }
        if let Some(started) = shown.answers.and_then(|call_id| self.started.get(&call_id)) {
            message.insert("startedAt".to_owned(), json!(started));
        }
        if let (Some(field), Some(at)) = (shown.taken_field, shown.taken_at) {
            message.insert(field.to_owned(), json!(at));
        }
        Value::Object(message)
    }
}
