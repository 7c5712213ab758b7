//! The steps of a run around its window. Only this module of the lab asks for plans and carries them out. The
//! order is the one of `longhaul_core::run`, with the stand-in instead of a summariser and no hooks.

use longhaul_core::error::ErrorCode;
use longhaul_core::event::{EditKind, EventBody, ViewEdit, ViewOperation};
use longhaul_core::history::{LogEntryKind, ViewItem, ViewItemKind};
use longhaul_core::ids::{EditId, Millis};
use longhaul_core::message::{Message, ModelAnswer, ModelStopReason, Part, Role};
use longhaul_core::meter;
use longhaul_core::plan::{self, Plan, PlanTrigger, SummaryDraft, SummaryForm, SummaryRequest};
use longhaul_core::strategy;

use super::PolicyLog;
use crate::lab::policy::{PolicyEdit, PolicyInput, SideCall};
use crate::lab::price::PriceTable;
use crate::lab::recording::{RecordedMessage, text_of};
use crate::lab::replay::ReplayOptions;
use crate::lab::score::{ScriptedSummariser, SummaryTask};
use crate::lab::summary::{length_tokens, recorded_summary, stand_in_summary};

/// The maximum number of plans for one step. As in a run, a second plan is made only if the first was of no
/// use.
const MOST_PLANS: usize = 3;

/// The result of a pass.
#[derive(Default)]
pub(crate) struct WindowPassResult {
    pub(crate) side_calls: Vec<SideCall>,
    pub(crate) edit: Option<PolicyEdit>,
}

/// An edit of the view as it was committed, with what the summariser answered for it.
pub(crate) struct CommittedEdit {
    pub(crate) edit: ViewEdit,
    pub(crate) answers: Vec<String>,
}

impl CommittedEdit {
    /// Returns whether messages were replaced, not only tool results cleared.
    pub(crate) fn is_compaction(&self) -> bool {
        self.edit.kind == EditKind::Compaction
    }

    /// Returns the text shown by the edit in place of the replaced messages.
    pub(crate) fn shown_text(&self) -> String {
        let texts = self.edit.ops.iter().filter_map(|op| match op {
            ViewOperation::Replace { parts, .. } => {
                Some(parts.iter().filter_map(Part::as_text).collect::<String>())
            }
            _ => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }
}

/// The answers of a summariser to all requests of a draft.
struct SummaryAnswers {
    calls: Vec<SideCall>,
    texts: Vec<String>,
    /// `true` if the draft accepted the answer to every request.
    is_complete: bool,
}

/// A background summary in progress.
pub(crate) struct PendingSummaryDraft {
    draft: Box<SummaryDraft>,
    /// The time at which the summary is done, if times are known. Otherwise the step after the next finds it
    /// done.
    ready_at: Option<Millis>,
    ready_step: u64,
    /// `true` if the summary will never be done.
    void: bool,
    /// The edit with the fallback extract that is shown until the summary is done.
    stand_in: Option<EditId>,
}

impl PendingSummaryDraft {
    fn is_ready(&self, log: &PolicyLog) -> bool {
        !self.void && self.ready_at.map_or(log.steps >= self.ready_step, |at| log.at >= at)
    }

    /// Returns whether the draft can still be committed to a view.
    fn is_about(&self, view: &[ViewItem]) -> bool {
        match &self.stand_in {
            Some(edit) => !self.void && self.draft.is_stood_in_by(edit, view),
            None => self.draft.is_about(view),
        }
    }
}

/// Returns the default policy with the strategy of a name.
pub(crate) fn usual_policy(strategy: &str) -> Option<plan::CompactionPolicy> {
    strategy::by_name(strategy).map(plan::CompactionPolicy::new)
}

/// Returns the prices of a table in the planner's form.
pub(crate) fn known(prices: &PriceTable) -> plan::TokenPrices {
    plan::TokenPrices {
        input: prices.input,
        cache_read: prices.cache_read,
        cache_write: prices.cache_write,
        output: prices.output,
        cache_life_ms: prices.cache_life_ms,
    }
}

/// Makes and executes a plan as a run does before a step.
pub(crate) fn before_step(
    log: &mut PolicyLog,
    policy: &plan::CompactionPolicy,
    now: &PolicyInput,
) -> WindowPassResult {
    plan_and_edit(log, policy, now, &PlanTrigger::Routine)
}

/// Compacts the view as a user's request does.
pub(crate) fn compact_on_request(
    log: &mut PolicyLog,
    policy: &plan::CompactionPolicy,
    now: &PolicyInput,
) -> WindowPassResult {
    plan_and_edit(log, policy, now, &PlanTrigger::Requested { instructions: None })
}

fn plan_and_edit(
    log: &mut PolicyLog,
    policy: &plan::CompactionPolicy,
    now: &PolicyInput,
    trigger: &PlanTrigger,
) -> WindowPassResult {
    // A compaction on request does not use a background summary: the user may have given instructions.
    let is_routine = *trigger == PlanTrigger::Routine;
    let fixed = log.fixed_tokens;
    let mut passed = WindowPassResult::default();
    // One edit for a request: after a swap, the next request plans with the new view.
    if let Some(edit) = swap_extract_for_summary(log, policy, now) {
        commit(log, edit, &mut passed);
        return passed;
    }
    for _ in 0..MOST_PLANS {
        let bound = meter::read(&log.history, fixed).bound();
        let ahead = log.ahead.as_ref().filter(|ahead| is_routine && ahead.stand_in.is_none());
        let ready = ahead.filter(|ahead| ahead.is_ready(log)).map(|ahead| &*ahead.draft);
        let on_its_way = ahead.is_some_and(|ahead| !ahead.void) && ready.is_none();
        // The plan may count on the summary, but must not show text that is still being written.
        let unwritten = ahead.filter(|_| on_its_way).map(|ahead| ahead.draft.unwritten());
        let coming = ready.or(unwritten.as_ref());
        let planned = plan::plan_with(&log.history, fixed, &now.budget, policy, trigger, coming);
        let edit = match planned {
            // As long as the request fits, the background summary is worth the wait.
            Plan::Edit(_) | Plan::Summarise(_) if on_its_way && bound <= now.budget.usable => break,
            Plan::Edit(edit) => Some(*edit),
            // A user who asks for a compaction waits for its summary.
            Plan::Summarise(draft) if policy.strategy.waits_for_summary() || !is_routine => {
                complete_draft(log, policy, draft, now, &mut passed)
            }
            // A strategy that does not wait for its summary gets an extract instead.
            Plan::Summarise(draft) => draft.finish_extractive(&log.history).ok(),
            _ => break,
        };
        match edit {
            Some(edit) => {
                commit(log, edit, &mut passed);
                break;
            }
            // The recorded failure makes the next plan do without a summary.
            None => give_up(log, policy),
        }
    }
    passed
}

fn give_up(log: &mut PolicyLog, policy: &plan::CompactionPolicy) {
    log.add(EventBody::CompactionFailed {
        strategy: policy.strategy.name().to_owned(),
        code: ErrorCode::ThirdParty,
        reason: "no summary fits".to_owned(),
        usage: None,
    });
}

fn commit(log: &mut PolicyLog, edit: ViewEdit, passed: &mut WindowPassResult) {
    passed.edit = Some(PolicyEdit {
        compaction: edit.kind == EditKind::Compaction,
        before_tokens: edit.original_tokens,
        after_tokens: edit.compressed_tokens,
        why: edit.why.clone(),
    });
    // The edit may be the extract of a draft whose summary is still being written. Then the summary is kept for
    // the later swap.
    let id = edit.id.clone();
    let coming = log.ahead.take().filter(|ahead| {
        !ahead.void && ahead.stand_in.is_none() && !ahead.is_ready(log) && ahead.draft.became(&edit)
    });
    log.ahead = coming.map(|ahead| PendingSummaryDraft { stand_in: Some(id), ..ahead });
    // Answers belong to the compaction that they were written for. A prune leaves them for the next one.
    let answers = match edit.kind {
        EditKind::Compaction => std::mem::take(&mut log.answers),
        _ => Vec::new(),
    };
    log.edits.push(CommittedEdit { edit: edit.clone(), answers });
    log.add(EventBody::ViewEdited(Box::new(edit)));
}

/// Returns the edit that replaces an extract with its summary, once the summary is done.
fn swap_extract_for_summary(
    log: &PolicyLog,
    policy: &plan::CompactionPolicy,
    now: &PolicyInput,
) -> Option<ViewEdit> {
    let ahead = log.ahead.as_ref().filter(|ahead| ahead.is_ready(log))?;
    let stand_in = ahead.stand_in.as_ref()?;
    plan::swap(&log.history, log.fixed_tokens, &now.budget, policy, &ahead.draft, stand_in)
}

/// Begins a background summary if the view is near the trigger after an answer.
pub(crate) fn look_ahead(
    log: &mut PolicyLog,
    policy: &plan::CompactionPolicy,
    now: &PolicyInput,
) -> Vec<SideCall> {
    let view = log.history.view();
    // A summary of messages that have left the view since can no longer be committed.
    log.ahead = log.ahead.take().filter(|ahead| ahead.is_about(view));
    // One background summary at a time, as in a run.
    if log.ahead.is_some() {
        return Vec::new();
    }
    let Some(mut draft) = plan::plan_in_background(&log.history, log.fixed_tokens, &now.budget, policy)
    else {
        return Vec::new();
    };
    // The newest step has no results yet: the request ends before it.
    let open = !log.history.open_calls().is_empty();
    let newest = view.iter().rposition(|item| item.message.role == Role::Assistant);
    let end = newest.filter(|_| open).unwrap_or(view.len());
    let SummaryAnswers { calls, texts, is_complete } =
        answer_requests(log, &mut draft, &log.history.view()[..end], now, false);
    log.answers.extend(texts);
    let model = ReplayOptions::default();
    let ms: f64 = calls.iter().map(|call| model.call_ms(call.fresh_tokens, call.output_tokens)).sum();
    log.ahead = Some(PendingSummaryDraft {
        draft,
        ready_at: (log.at > 0).then(|| log.at + ms as Millis),
        ready_step: log.steps + 2,
        void: !is_complete,
        stand_in: None,
    });
    calls
}

/// Returns the draft's edit: with the stand-in's summary, or without a model's, or nothing.
fn complete_draft(
    log: &mut PolicyLog,
    policy: &plan::CompactionPolicy,
    mut draft: Box<SummaryDraft>,
    now: &PolicyInput,
    passed: &mut WindowPassResult,
) -> Option<ViewEdit> {
    // No call is open before a step, so the whole view can be in the request.
    let SummaryAnswers { calls, texts, is_complete } =
        answer_requests(log, &mut draft, log.history.view(), now, true);
    log.answers.extend(texts);
    passed.side_calls.extend(calls);
    let edit = draft.finish(&log.history).ok().filter(|_| is_complete);
    // A strategy may refuse a summary that lacks a part it asked for.
    let edit = edit.filter(|edit| policy.strategy.validate(&log.history, edit).is_ok());
    // A run never fails for lack of a summary, so an extract takes its place.
    edit.or_else(|| draft.finish_extractive(&log.history).ok())
}

/// Answers all of the draft's requests.
fn answer_requests(
    log: &PolicyLog,
    draft: &mut SummaryDraft,
    view: &[ViewItem],
    now: &PolicyInput,
    waits: bool,
) -> SummaryAnswers {
    let counter = log.history.counter();
    let (mut calls, mut texts, mut so_far) = (Vec::new(), Vec::new(), None);
    // A long range is summarised in several requests, and each may show the summary so far.
    while let Some(request) = draft.request(view, &now.budget) {
        let text = match pruned_conversation(&request) {
            conversation if log.summariser != ScriptedSummariser::StandIn => {
                let material = summary_source_messages(log, draft, &request, so_far.as_deref());
                log.summariser.answer(&SummaryTask {
                    material: &material,
                    order: request.messages.last().map(Message::text).unwrap_or_default(),
                    limit_tokens: request.max_output_tokens,
                    is_pruning: conversation.is_some(),
                    counter,
                })
            }
            Some(conversation) => pruned_text(log, &conversation, request.max_output_tokens),
            None => summary_text(log, draft, &request, so_far.as_deref()),
        };
        let input: u64 = request.messages.iter().map(|message| counter.message(message)).sum();
        let call = match request.form {
            // With the live system prompt and tools: all of the last request is in the cache.
            SummaryForm::Riding => {
                let input = input + log.fixed_tokens + counter.framing().reply;
                // A request cannot read more from the cache than the last request put there.
                let cached = now.last_input.min(input);
                SideCall { cached_tokens: cached, fresh_tokens: input - cached, ..SideCall::default() }
            }
            SummaryForm::Flattened => SideCall { fresh_tokens: input, ..SideCall::default() },
        };
        calls.push(SideCall { output_tokens: counter.text(&text), waits, ..call });
        let parts = vec![Part::text(text.as_str())];
        let answer = ModelAnswer { parts, finish: ModelStopReason::Stop, usage: None, envelope: None };
        texts.push(text.clone());
        // A refused answer ends the draft. Its calls were made and are billed all the same.
        if draft.take(answer).is_err() {
            return SummaryAnswers { calls, texts, is_complete: false };
        }
        so_far = Some(text);
    }
    SummaryAnswers { calls, texts, is_complete: draft.is_written() }
}

/// Returns the stand-in's summary of the removed messages, as far as the model would have been shown them.
fn summary_text(
    log: &PolicyLog,
    draft: &SummaryDraft,
    request: &SummaryRequest,
    so_far: Option<&str>,
) -> String {
    let counter = log.history.counter();
    let material = summary_source_messages(log, draft, request, so_far);
    let covered = material.iter().map(|entry| entry.tokens).sum();
    let texts: Vec<&RecordedMessage> = material.iter().collect();
    stand_in_summary(&texts, length_tokens(covered, Some(request.max_output_tokens)), counter)
}

/// Returns the messages that a summary is about and that its writer is shown. For a request of its own these
/// are the messages whose text it has, and the earlier summary if it has one.
fn summary_source_messages(
    log: &PolicyLog,
    draft: &SummaryDraft,
    request: &SummaryRequest,
    so_far: Option<&str>,
) -> Vec<RecordedMessage> {
    let (counter, handles) = (log.history.counter(), draft.what_goes().1);
    let shown: String = request.messages.iter().map(Message::text).collect();
    let gone = log
        .history
        .view()
        .iter()
        .filter(|item| handles.iter().any(|handle| handle.0.overlaps(&item.range)))
        .filter(|item| match request.form {
            SummaryForm::Riding => true,
            // A request of its own may leave messages out for lack of room. They cannot be in its summary.
            SummaryForm::Flattened => shown.contains(start_of(&item.message)),
        })
        .map(|item| recorded(item, log));
    let so_far =
        // The earlier summary counts only if this request shows it.
        so_far.filter(|text| shown.contains(text)).map(|text| recorded_summary(text, Role::User, counter));
    so_far.into_iter().chain(gone).collect()
}

/// Returns the messages for a pruning agent's decision, if this request is for a pruning agent.
fn pruned_conversation(request: &SummaryRequest) -> Option<Vec<serde_json::Value>> {
    let text = request.messages.last()?.text();
    // The order's words come first, and the JSON follows them.
    let start = text.find("{\"conversation\":")?;
    let asked: serde_json::Value = serde_json::from_str(&text[start..]).ok()?;
    asked.get("conversation")?.as_array().cloned()
}

/// Returns the answer of an honest pruning agent: people's messages stay, the rest is in the stand-in's
/// summary.
fn pruned_text(log: &PolicyLog, conversation: &[serde_json::Value], limit_tokens: u64) -> String {
    // The agent names messages by their index in the view.
    let (counter, view) = (log.history.counter(), log.history.view());
    let indices = conversation.iter().filter_map(|message| message["index"].as_u64());
    let items = indices.filter_map(|index| view.get(index as usize).map(|item| (index, item)));
    let (typed, rest): (Vec<_>, Vec<_>) = items.partition(|(_, item)| item.kind == ViewItemKind::Typed);
    let rest: Vec<RecordedMessage> = rest.into_iter().map(|(_, item)| recorded(item, log)).collect();
    let covered = rest.iter().map(|entry| entry.tokens).sum();
    let texts: Vec<&RecordedMessage> = rest.iter().collect();
    let summary = stand_in_summary(&texts, length_tokens(covered, Some(limit_tokens)), counter);
    let kept: Vec<_> = typed.into_iter().map(|(index, _)| serde_json::json!({ "keep": index })).collect();
    serde_json::json!({ "prunedConversation": kept, "summary": summary }).to_string()
}

/// Returns enough of a message's text to tell whether a transcript has the message.
fn start_of(message: &Message) -> &str {
    const BYTES: usize = 60;
    let texts = message.parts.iter().flat_map(|part| match part {
        Part::ToolResult(result) => result.content.as_slice(),
        part => std::slice::from_ref(part),
    });
    // The first part may be reasoning or an image, which no transcript shows as text.
    let mut starts = texts.map(|part| match part {
        Part::Text(said) => said.text.trim(),
        Part::ToolCall(call) => call.name.as_str(),
        _ => "",
    });
    let start = starts.find(|text| !text.is_empty()).unwrap_or_default();
    let line = start.lines().next().unwrap_or_default();
    // A message may be cut in a transcript, so only its beginning is compared.
    &line[..line.floor_char_boundary(BYTES)]
}

fn recorded(item: &ViewItem, log: &PolicyLog) -> RecordedMessage {
    let text = text_of(&item.message);
    let kind = match &item.kind {
        ViewItemKind::Summary(_) => return recorded_summary(&text, Role::User, log.history.counter()),
        ViewItemKind::Typed => LogEntryKind::Typed,
        ViewItemKind::Assistant => LogEntryKind::Assistant(None),
        ViewItemKind::Result { tool, .. } => LogEntryKind::Result { tool: tool.clone() },
        _ => LogEntryKind::Note,
    };
    let message = item.message.clone();
    RecordedMessage { seq: item.range.from, at: None, message, kind, tokens: item.tokens, text: text.into() }
}
