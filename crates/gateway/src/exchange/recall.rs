//! The tool `recall`, which `gateway.recall: inject` adds: which requests get it, its results, and the hiding
//! of its calls from the client. The results come from the request itself, because the client sends its whole
//! history.

use std::collections::BTreeSet;
use std::ops::Range;

use bytes::Bytes;
use longhaul_core::history::{History, LogEntry};
use longhaul_core::ids::Seq;
use longhaul_core::message::{ModelAnswer, ModelStopReason, Part};
use longhaul_core::recall::tool::{
    RecallRequest, RecallSnippet, extent, hits_text, is_own, nothing_found, plain_text, span_text, speaker,
    wrong_handle,
};
use longhaul_core::recall::{SHOWN_WEIGHT, SearchIndex, search};
use longhaul_core::truncate::TextLimit;

use super::conversation::{ConversationState, chain};
use super::memo_lookup::ConversationMemo;
use super::prepare::OutboundRequest;
use super::render_ops;
use super::targeted_request::TargetedRequest;
use super::view_editor::ViewEditor;
use longhaul_wire::edit::{
    AnsweredToolCall, GatewayError, HiddenCallReplay, ModelStep, PartialResponse, PartialToolCall, RenderOp,
    RequestEnvelope, WireCodec,
};
use longhaul_wire::raw_json::{fields, quote};
use longhaul_wire::response_writer;

mod handles;
mod hidden_calls;
mod output_division;

pub(super) use handles::moved;
pub(crate) use hidden_calls::HiddenToolCalls;
pub(super) use output_division::{OutputDivision, replay_tokens};

/// The number of steps in which a model may recall before the tool refuses.
// The limit is that of decision 0029: a model that still asks on is told that there is no more.
const MOST_ROUNDS: u32 = 5;

/// The number of items in which the calls of one step are searched.
const MOST_ITEMS: usize = 256;

/// The maximum size of all results of one step, in tokens.
const MOST_TOKENS: u64 = 10_000;

/// The minimum room for a recall, in tokens.
const LEAST_TOKENS: u64 = 64;

/// The result after too many calls of the tool. The name of the tool precedes it.
const NO_MORE: &str = "no more can be recalled for this answer. Go on with what you have.";

/// The client's text if the model ends without words of its own.
pub(super) const NO_ANSWER: &str =
    "(No answer: the model only looked up what was said earlier in this conversation.)";

/// The result for a call whose arguments cannot be read.
const UNREADABLE: &str = "recall: the arguments of this call are no JSON object and could not be read. Nothing was \
    looked up; the call stands here with `{}`.";

/// The result for a call when the window is full. The name of the tool precedes it.
const NO_ROOM: &str = "there is no room for what this would return. Go on with what you have.";

/// The steps of an answer that the client is not shown.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct RecallRounds {
    /// The steps with their results, as items of the client's dialect.
    pub(super) items: Vec<String>,
    /// The text of the steps, for counting.
    pub(super) text: String,
    /// The number of leading items whose text the client has not received either.
    pub(super) unshown: usize,
    /// The number of steps.
    pub(super) answered: u32,
}

impl RecallRounds {
    /// Returns whether the model may look something up.
    fn may_look_up(&self) -> bool {
        self.answered < MOST_ROUNDS
    }

    /// Returns whether the model went on calling after the refusal. Then a last request forbids all calls.
    pub(super) fn must_answer(&self) -> bool {
        // The tools stay in the last request: without them the upstream's prompt cache would be lost (decision
        // 0029).
        self.answered > MOST_ROUNDS + 1
    }
}

/// The decision about a complete answer.
pub(super) enum WholeAnswerAction {
    /// The answer goes to the client unchanged.
    AsItIs,
    /// The answer goes to the client without the hidden calls.
    Without { answer: Bytes, division: OutputDivision },
    /// The model is asked to continue.
    Again(Box<OutboundRequest>),
}

impl WholeAnswerAction {
    /// Returns an answer that leaves no hidden part to restore later.
    fn without(answer: Bytes) -> Self {
        Self::Without { answer, division: OutputDivision::default() }
    }
}

/// Returns whether any part of an item is sent.
fn has(steps: &[RenderOp], item: usize) -> bool {
    steps.iter().any(|step| match step {
        RenderOp::Keep(range) => range.contains(&item),
        RenderOp::Rewrite { item: at, .. } | RenderOp::Change { item: at, .. } => *at == item,
        RenderOp::Say(_) => false,
    })
}

/// Returns whether an item is sent unchanged.
fn keeps(steps: &[RenderOp], item: usize) -> bool {
    steps.iter().any(|step| match step {
        RenderOp::Keep(range) => range.contains(&item),
        RenderOp::Rewrite { item: rewritten, .. } => *rewritten == item,
        RenderOp::Change { .. } | RenderOp::Say(_) => false,
    })
}

/// Returns whether one of these items contains an id as a JSON string.
fn contains_id(envelope: &RequestEnvelope, mut items: Range<usize>, id: &str) -> bool {
    let quoted = quote(id);
    items.any(|at| envelope.item(at).contains(&quoted))
}

/// Returns whether a call is of one of the tools.
fn is_call_of(tools: &[&str], call: &PartialToolCall) -> bool {
    tools.contains(&call.name.as_str())
}

/// Returns a complete answer without the calls of the tools.
fn without_calls_of(wire: &dyn WireCodec, tools: &[&str], answer: &Bytes) -> Bytes {
    tools.iter().fold(answer.clone(), |answer, tool| wire.remove_calls(&answer, tool).unwrap_or(answer))
}

/// Returns the reason for a refused call, as the model reads it.
fn said_of(call: &PartialToolCall, why: &str) -> String {
    format!("{}: {why}", call.name)
}

fn refused(call: &PartialToolCall, why: &str) -> AnsweredToolCall {
    AnsweredToolCall { call: call.clone(), result: why.to_owned(), failed: true }
}

/// The client's complete history without edits, to which handles refer.
struct OriginalHistory {
    history: History,
    /// The positions in the model's view anyway.
    shown: BTreeSet<Seq>,
}

impl OriginalHistory {
    fn answer(&self, call: &PartialToolCall, limit: &TextLimit) -> AnsweredToolCall {
        // Some servers write an empty argument object as an empty string.
        let arguments = if call.arguments.trim().is_empty() { "{}" } else { &call.arguments };
        if fields(arguments).is_none() {
            return refused(call, UNREADABLE);
        }
        let found = RecallRequest::read(arguments).and_then(|asked| self.find(&asked, limit));
        let failed = found.is_err();
        AnsweredToolCall { call: call.clone(), result: found.unwrap_or_else(|why| why), failed }
    }

    fn find(&self, asked: &RecallRequest, limit: &TextLimit) -> Result<String, String> {
        let entries = self.history.entries();
        let hit =
            |entry: &LogEntry, snippet| RecallSnippet { seq: entry.seq, speaker: speaker(entry), snippet };
        match asked {
            RecallRequest::Span { handle, span, range } => {
                let found = entries.iter().filter(|entry| span.is_some_and(|span| span.contains(entry.seq)));
                let found: Vec<RecallSnippet> =
                    found.map(|entry| hit(entry, plain_text(&entry.message))).collect();
                if found.is_empty() {
                    let away = entries.iter().map(|entry| entry.seq).filter(|seq| !self.shown.contains(seq));
                    return Err(wrong_handle(handle, *span, away));
                }
                span_text(handle, *range, &found, limit)
            }
            RecallRequest::Words { query, hits } => {
                let texts: Vec<String> = entries.iter().map(|entry| plain_text(&entry.message)).collect();
                let mut index = SearchIndex::default();
                texts.iter().for_each(|text| _ = index.add(text));
                let found = search(
                    &index,
                    query,
                    texts.len(),
                    extent(*hits, limit),
                    |at| entries.get(at).map_or(1.0, |entry| self.search_weight(entry)),
                    |at| texts[at].as_str(),
                );
                let found: Vec<RecallSnippet> = found
                    .into_iter()
                    .filter_map(|found| Some(hit(entries.get(found.at)?, found.snippet)))
                    .collect();
                Ok(if found.is_empty() { nothing_found(query) } else { hits_text(&found, limit) })
            }
        }
    }

    /// Returns the factor of an entry's score in a search. Entries that the model is shown anyway count less.
    fn search_weight(&self, entry: &LogEntry) -> f64 {
        if is_own(entry) {
            0.0
        } else if self.shown.contains(&entry.seq) {
            SHOWN_WEIGHT
        } else {
            1.0
        }
    }
}

impl ConversationMemo {
    /// Returns the replays for the request's steps that the client knows only in part.
    pub(super) fn replays_in(&self, state: &ConversationState) -> Vec<HiddenCallReplay> {
        // A translated request has no client items into which calls could be put back.
        let mut replays = if self.request.needs_translation() { Vec::new() } else { self.replays() };
        if replays.is_empty() {
            return replays;
        }
        let envelope = &self.request.proxied.envelope;
        let steps = render_ops::steps(&state.log, state.log.items);
        replays.retain(|replay| {
            let is_there = steps.as_deref().is_none_or(|steps| has(steps, replay.at));
            let end = envelope.items.len().min(replay.at + MOST_ITEMS);
            // An answer that the client had made anew is another step, and stays as it is.
            is_there && replay.shown.iter().all(|id| contains_id(envelope, replay.at..end, id))
        });
        replays
    }

    /// Returns the known replays for the request.
    fn replays(&self) -> Vec<HiddenCallReplay> {
        let withheld = &self.request.proxied.inner.hidden_tool_calls;
        // Most gateways hide no calls, so the names of the items are not hashed for nothing.
        if withheld.is_empty() || self.conversation.is_none() {
            return Vec::new();
        }
        let (scope, items) = (self.scope(), self.request.proxied.envelope.items.len());
        let before = chain(&self.names(items));
        // A hidden step stands before an item, so the names of everything before each item are looked up.
        let found = before.iter().zip(1..items).filter_map(|(before, at)| withheld.find(&scope, before, at));
        found.collect()
    }
}

/// One answer's steps hidden from the client.
pub(super) struct HiddenSteps<'a> {
    pub(super) request: &'a TargetedRequest,
    pub(super) editor: &'a ViewEditor,
}

impl HiddenSteps<'_> {
    /// Keeps the hidden part of a step that also calls the client's tools, for the completion of the client's
    /// next request. Returns how the step's output divides into shown and hidden.
    pub(super) async fn store_hidden_calls(
        &self,
        prepared: &OutboundRequest,
        (text, calls): (&str, &[PartialToolCall]),
        output_tokens: u64,
    ) -> OutputDivision {
        let tools = self.request.tools().hidden_tools(&prepared.report);
        let (ours, theirs): (Vec<PartialToolCall>, Vec<PartialToolCall>) =
            calls.iter().cloned().partition(|call| is_call_of(&tools, call));
        let taken: Vec<&str> = theirs.iter().map(|call| call.id.as_str()).collect();
        // The calls come back in the next request, where ids must be unique.
        let ours = self.named_apart(prepared, ours, &taken);
        let mut answered = self.answers(prepared, &ours, output_tokens).await.into_iter();
        let (mut hidden, mut before) = (Vec::new(), 0);
        for call in calls {
            match is_call_of(&tools, call) {
                true => hidden.extend(answered.next().map(|answered| (before, answered))),
                false => before += 1,
            }
        }
        let names = chain(&self.editor.memo.names(self.request.proxied.envelope.items.len()));
        let division = self.division(text, &theirs, &ours);
        // A step is found again by the names of everything before it.
        let Some(last) = names.last() else { return division };
        let shown: Vec<String> = theirs.into_iter().map(|call| call.id).collect();
        let tokens = self.added_tokens(&hidden, &prepared.rounds);
        tracing::debug!(
            hidden = hidden.len(),
            shown = shown.len(),
            tokens,
            "hidden tool calls beside the client's own are kept for its next request"
        );
        let RecallRounds { items: rounds, unshown, .. } = prepared.rounds.clone();
        let replay = HiddenCallReplay { at: 0, shown, hidden, rounds, unshown, tokens };
        self.request.proxied.inner.hidden_tool_calls.keep(&self.editor.memo.scope(), last, replay);
        division
    }

    /// Returns the calls with ids that are unique in the request: some servers repeat ids or send none.
    fn named_apart(
        &self,
        prepared: &OutboundRequest,
        mut calls: Vec<PartialToolCall>,
        taken: &[&str],
    ) -> Vec<PartialToolCall> {
        let envelope = &self.request.proxied.envelope;
        let items = envelope.text(&envelope.items_at);
        let mut known: BTreeSet<String> = taken.iter().map(|id| (*id).to_owned()).collect();
        // Calls that were put back are not in the client's bytes, but they are in the request.
        let hidden = prepared.replays.iter().flat_map(|replay| &replay.hidden);
        known.extend(hidden.map(|(_, answered)| answered.call.id.clone()));
        let put_back = prepared.replays.iter().flat_map(|replay| &replay.rounds);
        let others: Vec<&String> = put_back.chain(&prepared.rounds.items).collect();
        for call in &mut calls {
            let id = quote(&call.id);
            // A search in the text may find an id in another place. Then a new id costs nothing.
            let is_said = items.contains(&id) || others.iter().any(|item| item.contains(&id));
            if call.id.is_empty() || is_said || known.contains(&call.id) {
                call.id = format!("call_{}", (self.request.proxied.inner.parts.new_id)());
            }
            known.insert(call.id.clone());
        }
        calls
    }

    /// Returns a step in a form that can be sent back: unique call ids and valid arguments.
    fn mended(&self, prepared: &OutboundRequest, step: ModelStep) -> ModelStep {
        let calls = self.named_apart(prepared, step.calls.clone(), &[]);
        // Servers refuse a history in which the arguments of a call are no JSON object.
        let has_invalid = calls.iter().any(|call| fields(&call.arguments).is_none());
        let items = match calls != step.calls || has_invalid {
            true => self.request.proxied.wire.replace_calls(step.items, &calls),
            false => step.items,
        };
        ModelStep { items, calls }
    }

    /// Returns the request with a step of recalls only, and with the results.
    pub(super) async fn next_round(
        &self,
        old: OutboundRequest,
        step: ModelStep,
        output_tokens: u64,
    ) -> OutboundRequest {
        let step = self.mended(&old, step);
        let answered = self.answers(&old, &step.calls, output_tokens).await;
        self.with_round(old, step, &answered, output_tokens)
    }

    /// Returns the request with a step whose calls are all refused for lack of room.
    pub(super) fn empty_round(
        &self,
        old: OutboundRequest,
        step: ModelStep,
        output_tokens: u64,
    ) -> OutboundRequest {
        let step = self.mended(&old, step);
        let answered: Vec<AnsweredToolCall> =
            step.calls.iter().map(|call| refused(call, &said_of(call, NO_ROOM))).collect();
        self.with_round(old, step, &answered, output_tokens)
    }

    /// Returns the request with one more hidden step and its results.
    fn with_round(
        &self,
        old: OutboundRequest,
        step: ModelStep,
        answered: &[AnsweredToolCall],
        output: u64,
    ) -> OutboundRequest {
        let counter = self.request.counter();
        let mut rounds = old.rounds.clone();
        let results: String = answered.iter().map(|one| format!("{}\n", one.result)).collect();
        let tokens = output + counter.text(&results);
        // The model's raw items are sent back: models that sign their reasoning refuse a rewritten step.
        rounds.items.extend(step.items);
        rounds.items.extend(self.request.proxied.wire.write_tool_results(answered));
        let said = step.calls.iter().map(|call| call.arguments.as_str());
        said.chain([results.as_str()]).for_each(|text| rounds.text.push_str(text));
        rounds.answered += 1;
        tracing::debug!(
            step = rounds.answered,
            results = answered.len(),
            failed = answered.iter().filter(|one| one.failed).count(),
            tokens,
            "hidden tool calls were answered, and the model is asked to go on"
        );
        OutboundRequest { input: old.input + tokens, bound: old.bound + tokens, rounds, ..old }
    }

    /// Returns the results of calls, fitted to the room behind the model's output.
    async fn answers(
        &self,
        prepared: &OutboundRequest,
        calls: &[PartialToolCall],
        output_tokens: u64,
    ) -> Vec<AnsweredToolCall> {
        if calls.is_empty() {
            return Vec::new();
        }
        if !prepared.rounds.may_look_up() {
            tracing::info!(
                calls = calls.len(),
                steps = prepared.rounds.answered,
                "the model has looked up enough for one answer and is refused more"
            );
            return calls.iter().map(|call| refused(call, &said_of(call, NO_MORE))).collect();
        }
        // Half of the answer's reserve stays free. The answer may continue in a shortened view, and the results serve
        // the answer.
        let used = prepared.bound + output_tokens + self.editor.budget.token_budget().reserve / 2;
        let room = (self.editor.budget.window.tokens.saturating_sub(used) / 2).min(MOST_TOKENS);
        // The calls of one step share the room, since their results go into one request.
        let room = room / calls.len() as u64;
        if room < LEAST_TOKENS {
            tracing::info!(
                calls = calls.len(),
                used,
                window = self.editor.budget.window.tokens,
                "there is no room for what the model wants to look up"
            );
            return calls.iter().map(|call| refused(call, &said_of(call, NO_ROOM))).collect();
        }
        let limit = TextLimit { max_chars: u64::from(u32::MAX), max_tokens: room };
        let about_tools = calls.iter().map(|call| self.request.tools().answer_about_tools(call, &limit));
        let about_tools: Vec<Option<AnsweredToolCall>> = about_tools.collect();
        // Searches among deferred tools need no history, and reading one may take long.
        if about_tools.iter().all(Option::is_some) {
            return about_tools.into_iter().flatten().collect();
        }
        tracing::info!(
            calls = calls.len(),
            room_tokens = room,
            step = prepared.rounds.answered + 1,
            "something is looked up for the model"
        );
        self.editor.totals.recalled();
        self.request.work(|| self.look_up(prepared, calls, about_tools, &limit)).await
    }

    /// Returns the results of calls from the client's history. Calls with a result in `answered` keep it.
    fn look_up(
        &self,
        prepared: &OutboundRequest,
        calls: &[PartialToolCall],
        answered: Vec<Option<AnsweredToolCall>>,
        limit: &TextLimit,
    ) -> Vec<AnsweredToolCall> {
        let originals = self.originals(prepared);
        let answers = answered.into_iter().zip(calls).map(|(answer, call)| match (answer, &originals) {
            (Some(answer), _) => answer,
            (None, Ok(originals)) => originals.answer(call, limit),
            (None, Err(fault)) => refused(call, &fault.message),
        });
        answers.collect()
    }

    /// Decides about a complete answer with possible calls of hidden tools.
    pub(super) async fn after_whole(
        &self,
        prepared: &OutboundRequest,
        answer: &Bytes,
        seen: &PartialResponse,
    ) -> WholeAnswerAction {
        let wire = self.request.proxied.wire;
        let output = seen.usage.as_ref().map_or(0, |usage| usage.output_tokens);
        let tools = self.request.tools().hidden_tools(&prepared.report);
        let has_theirs = seen.calls.iter().any(|call| !is_call_of(&tools, call));
        let is_silent = !has_theirs && seen.text.trim().is_empty();
        let asks = seen.calls.iter().any(|call| is_call_of(&tools, call));
        let Some(step) = asks.then(|| wire.parse_model_step(answer)).flatten() else {
            if prepared.rounds.answered > 0 && is_silent {
                return WholeAnswerAction::without(self.concluded(prepared, seen));
            }
            if prepared.rounds.answered > 0 && has_theirs {
                // The client was shown only this last step. The hidden steps before it come back with its next
                // request.
                self.store_hidden_calls(prepared, (&seen.text, &seen.calls), output).await;
            }
            return WholeAnswerAction::AsItIs;
        };
        // A call that was cut off or filtered is incomplete, so answering it would be wrong.
        if matches!(seen.finish, Some(ModelStopReason::Length | ModelStopReason::ContentFilter)) {
            return WholeAnswerAction::without(if is_silent {
                self.concluded(prepared, seen)
            } else {
                without_calls_of(wire, &tools, answer)
            });
        }
        if has_theirs {
            let division = self.store_hidden_calls(prepared, (&seen.text, &step.calls), output).await;
            return WholeAnswerAction::Without { answer: without_calls_of(wire, &tools, answer), division };
        }
        if prepared.rounds.must_answer() {
            return WholeAnswerAction::without(self.concluded(prepared, seen));
        }
        self.editor.totals.add(seen.usage.as_ref(), || self.request.counted(prepared, seen, 0));
        let mut next = self.next_round(prepared.clone(), step, output).await;
        // The client receives no stream here, so it has no words of the hidden steps.
        next.rounds.unshown = next.rounds.items.len();
        WholeAnswerAction::Again(Box::new(next))
    }

    /// Returns a complete answer with the gateway's notice at the end and without calls.
    fn concluded(&self, prepared: &OutboundRequest, seen: &PartialResponse) -> Bytes {
        let said = seen.text.trim_end();
        let no_answer = self.request.tools().no_answer();
        // A step that said something is an answer, but without the notice the end would look like the model's own.
        let text = if said.is_empty() { no_answer.to_owned() } else { format!("{said}\n\n{no_answer}") };
        // `Stop` and not `Length` for a step that only recalled: clients try again after `length`, and would pay for
        // all hidden steps once more.
        let finish = seen
            .finish
            // The client never sees the hidden calls, so the answer must not end because of calls.
            .filter(|finish| *finish != ModelStopReason::ToolCalls)
            .unwrap_or(ModelStopReason::Stop);
        let parts = vec![Part::text(text)];
        let answer = ModelAnswer { parts, finish, usage: seen.usage.clone(), envelope: None };
        response_writer::whole(self.request.proxied.wire.dialect(), &self.request.head(prepared), &answer)
    }

    /// Returns the whole history of the client, without edits.
    ///
    /// # Errors
    /// [`GatewayError`] if an item cannot be read.
    fn originals(&self, prepared: &OutboundRequest) -> Result<OriginalHistory, GatewayError> {
        // A new state without the stored edits: handles refer to the client's originals.
        let mut state = self.request.reader().new_state();
        self.request.reader().append_new_items(&mut state)?;
        let shown = state.log.placed.iter().filter(|placed| {
            // Without operations the request has all items unchanged.
            let Some(steps) = prepared.steps.as_deref() else { return true };
            placed.pieces.iter().all(|(item, _)| keeps(steps, *item))
        });
        let shown = shown.map(|placed| placed.seq).collect();
        Ok(OriginalHistory { history: state.log.history, shown })
    }
}
