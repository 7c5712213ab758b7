//! Everything that was said, page by page, as the log has it: nothing is left out, what the model no longer
//! sees in full is marked.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use longhaul_core::event::{Cut, Event, EventBody, ViewOp};
use longhaul_core::history::{EditState, Entry, EntryKind, History};
use longhaul_core::ids::{CallId, Millis, Seq, SessionId};
use longhaul_core::message::{Message, Part, ToolCall};
use longhaul_core::run::Run;
use longhaul_core::usage::Usage;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use utoipa::{IntoParams, ToSchema};

use crate::app::App;
use crate::extract::{Named, Params};
use crate::openapi::answer;
use crate::problem::Problem;

/// Messages on a page unless the request says otherwise, and at most.
const PAGE: usize = 100;
const LARGEST_PAGE: usize = 500;

/// Text of a page that is rendered, in bytes.
const RENDERED_BYTES: usize = 2 << 20;

/// Events read from the store at a time.
const EVENTS: usize = 1_000;

#[derive(Clone, Copy, Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct Wanted {
    /// Behind this position; not with `before`.
    #[param(value_type = Option<u64>)]
    after: Option<Seq>,
    /// Before this position.
    #[param(value_type = Option<u64>)]
    before: Option<Seq>,
    /// 100 unless it is said, at most 500.
    #[param(minimum = 1)]
    limit: Option<usize>,
    /// Puts `html` beside the texts of models.
    render: Option<Form>,
}

/// A form that texts are given in besides their own.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[schema(as = RenderForm)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Form {
    Html,
}

/// A page before the store was asked for times and usage.
struct Page {
    messages: Vec<Shown>,
    more: bool,
}

/// A message and what is still to be looked up.
struct Shown {
    seq: Seq,
    message_id: String,
    /// What the step is named after that said the last of it.
    said_in: String,
    fields: Map<String, Value>,
    /// The edits that took it from the view: the field that says when, and where.
    edited: Option<(&'static str, Seq)>,
    /// The call that it is the result of.
    answers: Option<CallId>,
}

/// Everything that was said, page by page
#[utoipa::path(get, path = "/api/sessions/{id}/messages", operation_id = "listMessages", tag = "messages", params(("id" = String, Path), Wanted), 
    responses((status = 200, body = answer::Messages, description = "A page")))]
pub(crate) async fn page(
    State(app): State<App>,
    Named(id): Named<String>,
    Params(wanted): Params<Wanted>,
) -> Result<Json<Value>, Problem> {
    if wanted.after.is_some() && wanted.before.is_some() {
        return Err(Problem::invalid("Give `after` or `before`, not both."));
    }
    if wanted.limit == Some(0) {
        return Err(Problem::invalid("`limit` is at least 1."));
    }
    let session = app.open(&id).await?;
    let page = session.look(move |run| of_history(run, wanted)).await?;
    let known = Known::read(&app, session.id(), &page.messages).await?;
    let (first, last) = (page.messages.first().map(|one| one.seq), page.messages.last().map(|one| one.seq));
    let mut messages: Vec<Value> = page.messages.into_iter().map(|shown| known.complete(shown)).collect();
    if let Some(Form::Html) = wanted.render {
        render(&app, &mut messages).await?;
    }
    let backwards = wanted.before.is_some();
    let next = last.filter(|_| page.more && !backwards);
    let previous = first.filter(|_| page.more && backwards);
    Ok(Json(json!({ "messages": messages, "hasMore": page.more, "after": next, "before": previous })))
}

/// Puts markup beside what models have written, as far as it is not too much.
async fn render(app: &App, messages: &mut [Value]) -> Result<(), Problem> {
    let is_of_model = |message: &&mut Value| message["role"] == "assistant" || message["isSummary"] == true;
    let of_model = messages.iter_mut().filter(is_of_model);
    let parts = of_model.filter_map(|message| message["parts"].as_array_mut()).flatten();
    let mut left = RENDERED_BYTES;
    let mut written: Vec<&mut Map<String, Value>> = Vec::new();
    let mut texts = Vec::new();
    for part in parts.filter_map(Value::as_object_mut) {
        let Some(text) = part.get("text").and_then(Value::as_str).filter(|_| part["type"] == "text") else {
            continue;
        };
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

fn of_history(run: &Run, wanted: Wanted) -> Page {
    let history = run.history();
    let limit = wanted.limit.unwrap_or(PAGE).min(LARGEST_PAGE);
    // An answer that was paused is shown as a whole, where it ends.
    let entries = history.entries().iter().filter(|entry| !history.is_continued(entry));
    let mut all: Vec<(Seq, Item<'_>)> = entries.map(|entry| (entry.seq, Item::Entry(entry))).collect();
    all.extend(summaries(history));
    all.sort_by_key(|(seq, _)| *seq);
    all.retain(|(seq, _)| {
        wanted.after.is_none_or(|after| *seq > after) && wanted.before.is_none_or(|before| *seq < before)
    });
    let more = all.len() > limit;
    if wanted.before.is_some() {
        all.drain(..all.len().saturating_sub(limit));
    } else {
        all.truncate(limit);
    }
    let messages = all.into_iter().map(|(seq, item)| match item {
        Item::Entry(entry) => of_entry(entry, history, run),
        Item::Summary(state, parts) => of_summary(seq, state, parts),
    });
    Page { messages: messages.collect(), more }
}

enum Item<'a> {
    Entry(&'a Entry),
    Summary(&'a EditState, &'a [Part]),
}

fn summaries(history: &History) -> impl Iterator<Item = (Seq, Item<'_>)> {
    let active = history.edits().iter().filter(|state| state.active);
    active.flat_map(|state| {
        state.edit.ops.iter().filter_map(move |op| match op {
            ViewOp::Replace { parts, summary: true, .. } => Some((state.seq, Item::Summary(state, parts))),
            _ => None,
        })
    })
}

fn of_summary(seq: Seq, state: &EditState, parts: &[Part]) -> Shown {
    let mut fields = Map::new();
    fields.insert("role".to_owned(), "user".into());
    fields.insert("parts".to_owned(), json!(parts));
    fields.insert("isSummary".to_owned(), true.into());
    let message_id = state.edit.id.to_string();
    Shown { seq, said_in: message_id.clone(), message_id, fields, edited: None, answers: None }
}

fn of_entry(entry: &Entry, history: &History, run: &Run) -> Shown {
    let message = &history.whole(entry);
    let mut fields = Map::new();
    fields.insert("role".to_owned(), json!(message.role));
    fields.insert("parts".to_owned(), json!(message.parts));
    match &entry.kind {
        EntryKind::Typed => {}
        EntryKind::Note => drop(fields.insert("isNote".to_owned(), true.into())),
        EntryKind::Assistant(cut) => of_assistant(message, *cut, history, run, &mut fields),
        EntryKind::Result { tool } => of_result(message, tool, &mut fields),
    }
    let is_result = matches!(entry.kind, EntryKind::Result { .. });
    let field = if is_result { "compactedAt" } else { "summarizedAt" };
    let edited = taken_by(entry.seq, history).map(|seq| (field, seq));
    let said_in = entry.message.id.to_string();
    let answers = match message.parts.first() {
        Some(Part::ToolResult(result)) if is_result => Some(result.call_id.clone()),
        _ => None,
    };
    Shown { seq: entry.seq, message_id: message.id.to_string(), said_in, fields, edited, answers }
}

/// The oldest edit that still applies and hides the message.
fn taken_by(seq: Seq, history: &History) -> Option<Seq> {
    let mut active = history.edits().iter().filter(|state| state.active && seq < state.seq);
    active.find(|state| state.edit.ops.iter().any(|op| op.range().contains(seq))).map(|state| state.seq)
}

fn of_assistant(
    message: &Message,
    cut: Option<Cut>,
    history: &History,
    run: &Run,
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
    let calls: Vec<Value> = message.tool_calls().map(|call| of_call(call, history, run)).collect();
    if !calls.is_empty() {
        fields.insert("toolCalls".to_owned(), calls.into());
    }
}

fn of_call(call: &ToolCall, history: &History, run: &Run) -> Value {
    let open = history.open_calls().iter().find(|open| open.call.call_id == call.call_id);
    let status = match open {
        Some(open) if open.started && !run.is_idle() => json!("running"),
        Some(_) => json!("pending"),
        None => result_status(call, history).unwrap_or(Value::Null),
    };
    json!({ "callId": call.call_id, "toolName": call.name, "args": call.arguments, "status": status })
}

fn result_status(call: &ToolCall, history: &History) -> Option<Value> {
    let results = history.entries().iter().rev().filter_map(|entry| match entry.message.parts.first() {
        Some(Part::ToolResult(result)) => Some(result),
        _ => None,
    });
    results.into_iter().find(|result| result.call_id == call.call_id).map(|result| json!(result.status))
}

fn of_result(message: &Message, tool: &str, fields: &mut Map<String, Value>) {
    let Some(Part::ToolResult(result)) = message.parts.first() else { return };
    fields.insert("toolName".to_owned(), tool.into());
    fields.insert("callId".to_owned(), json!(result.call_id));
    fields.insert("status".to_owned(), json!(result.status));
    fields.insert("truncated".to_owned(), result.truncated.is_some().into());
}

/// What the events around the messages say.
#[derive(Default)]
struct Known {
    at: BTreeMap<Seq, Millis>,
    /// By message.
    usage: BTreeMap<String, Usage>,
    /// Why a call gave no answer, by the message that it began.
    failures: BTreeMap<String, Value>,
    /// When tools began to run, by call.
    started: BTreeMap<CallId, Millis>,
}

impl Known {
    async fn read(app: &App, id: &SessionId, messages: &[Shown]) -> Result<Self, Problem> {
        let mut known = Self::default();
        let (Some(first), Some(last)) = (messages.first(), messages.last()) else { return Ok(known) };
        // A step's usage is stored right behind its message.
        let (mut after, until) = (first.seq - 1, last.seq + 1);
        while after < until {
            let limit = EVENTS.min(usize::try_from(until - after).unwrap_or(EVENTS));
            let events = app.runtime().store().read(id, after, limit).await?;
            let Some(newest) = events.last() else { break };
            after = newest.seq;
            events.iter().for_each(|event| known.note(event));
        }
        for (_, seq) in messages.iter().filter_map(|shown| shown.edited) {
            if !known.at.contains_key(&seq) {
                app.runtime().store().read(id, seq - 1, 1).await?.iter().for_each(|event| known.note(event));
            }
        }
        Ok(known)
    }

    fn note(&mut self, event: &Event) {
        self.at.insert(event.seq, event.at);
        if let EventBody::StepFinished { step_id, usage: Some(usage), .. } = &event.body {
            self.usage.insert(format!("m-{step_id}"), usage.clone());
        }
        if let EventBody::StepFailed { step_id, code, message, .. } = &event.body {
            self.failures.insert(format!("m-{step_id}"), json!({ "code": code, "message": message }));
        }
        if let EventBody::ToolStarted { call_id } = &event.body {
            self.started.insert(call_id.clone(), event.at);
        }
    }

    fn complete(&self, shown: Shown) -> Value {
        let mut message = Map::new();
        message.insert("id".to_owned(), shown.message_id.as_str().into());
        message.insert("seq".to_owned(), shown.seq.into());
        message.insert("at".to_owned(), json!(self.at.get(&shown.seq)));
        message.extend(shown.fields);
        if let Some(usage) = self.usage.get(&shown.said_in) {
            message.insert("tokenUsage".to_owned(), longhaul::announce::token_usage(usage));
        }
        if let Some(failure) = self.failures.get(&shown.said_in).filter(|_| message["interrupted"] == "lost")
        {
            message.insert("error".to_owned(), failure.clone());
        }
        if let Some(started) = shown.answers.and_then(|call_id| self.started.get(&call_id)) {
            message.insert("startedAt".to_owned(), json!(started));
        }
        if let Some((field, seq)) = shown.edited {
            message.insert(field.to_owned(), json!(self.at.get(&seq)));
        }
        Value::Object(message)
    }
}
