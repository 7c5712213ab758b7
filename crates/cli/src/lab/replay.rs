//! Replays a recording under a policy: the requests, their bill, and the items that the agent would have had
//! in view.
//!
//! Each recorded answer is one request. Its messages come from the policy; the answer stays the recorded one,
//! whatever the agent was shown. Three things are modelled and not measured: the prompt cache (`cache`), the
//! prices, and the time of a model call ([`ReplayOptions`]).

use longhaul_core::budget::Budget;

use crate::lab::needed_later;
use crate::lab::outcome::ReplayOutcome;
use crate::lab::policy::{ContextPolicy, PolicyInput, PolicyRequest, SideCall, ViewSegment};
use crate::lab::price::PriceTable;
use crate::lab::recording::SessionRecording;

mod bill;
mod cache;
mod many;
mod survived;

pub(crate) use bill::ModelCallBill;
pub(crate) use cache::{FIXED_ID, PromptCacheModel};
pub(crate) use many::{MakePolicy, ReplayWindow, run};
use survived::RetentionTracker;

/// The assumptions of a replay.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ReplayOptions {
    /// `true` if the provider's cache holds the answer to the previous request, as on servers that keep the
    /// state of a conversation. Otherwise an answer is new input when it is sent back.
    pub(crate) answers_are_cached: bool,
    /// The speed at which a model reads uncached input, in tokens a second.
    pub(crate) prefill_tokens_per_second: f64,
    /// The speed at which a model writes, in tokens a second.
    pub(crate) decode_tokens_per_second: f64,
    /// The fixed time of each call, in milliseconds.
    pub(crate) latency_ms: f64,
    /// The window as a share of the recording's peak, if it was chosen so: only noted in the outcome.
    pub(crate) window_percent: Option<u32>,
}

impl Default for ReplayOptions {
    /// Returns round figures of a hosted model: 2,000 tokens a second read, 60 written, half a second for
    /// each call.
    fn default() -> Self {
        Self {
            answers_are_cached: true,
            prefill_tokens_per_second: 2_000.0,
            decode_tokens_per_second: 60.0,
            latency_ms: 500.0,
            window_percent: None,
        }
    }
}

impl ReplayOptions {
    /// Returns the modelled time of a model call, in milliseconds.
    pub(crate) fn call_ms(&self, fresh_tokens: u64, output_tokens: u64) -> f64 {
        let seconds = fresh_tokens as f64 / self.prefill_tokens_per_second
            + output_tokens as f64 / self.decode_tokens_per_second;
        self.latency_ms + seconds * 1_000.0
    }
}

/// Replays a recording under a policy in a window of so many tokens, at prices.
pub(crate) fn replay(
    recording: &SessionRecording,
    policy: &mut dyn ContextPolicy,
    window: u64,
    prices: &PriceTable,
    options: &ReplayOptions,
) -> ReplayOutcome {
    let mut replay = PolicyReplay::new(recording, policy, Budget::new(window, None), prices, options);
    for next in recording.answers() {
        replay.step(next);
    }
    replay.outcome()
}

struct PolicyReplay<'a> {
    recording: &'a SessionRecording,
    policy: &'a mut dyn ContextPolicy,
    budget: Budget,
    prices: &'a PriceTable,
    options: &'a ReplayOptions,
    cache: PromptCacheModel,
    bill: ModelCallBill<'a>,
    survived: RetentionTracker,
    /// The id and tokens of each part of the previous request, the fixed part first.
    sent: Vec<(u64, u64)>,
    last_input: u64,
    last_output: u64,
    waiting_ms: f64,
    outcome: ReplayOutcome,
}

impl<'a> PolicyReplay<'a> {
    fn new(
        recording: &'a SessionRecording,
        policy: &'a mut dyn ContextPolicy,
        budget: Budget,
        prices: &'a PriceTable,
        options: &'a ReplayOptions,
    ) -> Self {
        let outcome = ReplayOutcome {
            recording: recording.name.clone(),
            group: recording.group.clone(),
            synthetic: recording.synthetic,
            policy: policy.name().to_owned(),
            window: budget.window,
            window_percent: options.window_percent,
            prices: prices.name.clone(),
            ..ReplayOutcome::default()
        };
        Self {
            cache: PromptCacheModel::new(prices),
            bill: ModelCallBill::new(prices),
            survived: RetentionTracker::default(),
            sent: Vec::new(),
            last_input: 0,
            last_output: 0,
            waiting_ms: 0.0,
            recording,
            policy,
            budget,
            prices,
            options,
            outcome,
        }
    }

    fn step(&mut self, next: usize) {
        let at = self.recording.asked_at(next);
        let now = PolicyInput {
            budget: self.budget,
            prices: self.prices.clone(),
            last_input: self.last_input,
            last_output: self.last_output,
            cache_is_warm: self.cache.is_warm(at),
            at,
        };
        let request = self.policy.request(self.recording, next, &now);
        // Billed before the request: their prefix is that of the previous request, which is still in the cache.
        self.side_calls(&request.side_calls, now.cache_is_warm);
        let sent = self.sent_of(&request);
        let input: u64 = sent.iter().map(|(_, tokens)| tokens).sum();
        // Noted before the size: `edits` holds the index that this request is about to get.
        self.note_edit(&request, next);
        self.note_size(input);
        // The first request has no predecessor, so it cannot break a prefix.
        if !self.sent.is_empty() && !sent.starts_with(&self.sent) {
            self.outcome.prefix_breaks += 1;
        }
        let output = self.recording.output_tokens(next);
        let recalled = self.look_up(&request, next, input);
        self.bill_request(&sent, input, output, at, recalled.as_deref());
        // The answer follows the request in the provider's cache, so the next request can read it from there.
        if self.options.answers_are_cached {
            self.cache.add(self.recording.id(next), self.recording.entries[next].tokens);
        }
        (self.sent, self.last_input, self.last_output) = (sent, input, output);
    }

    /// Returns the segments of a request by id and tokens. The part that never changes is first.
    fn sent_of(&self, request: &PolicyRequest) -> Vec<(u64, u64)> {
        let fixed = (FIXED_ID, self.recording.overhead_tokens());
        let view = request.view.iter().map(|segment| (segment.id, segment.tokens));
        std::iter::once(fixed).chain(view).collect()
    }

    fn side_calls(&mut self, calls: &[SideCall], cache_is_warm: bool) {
        for call in calls {
            // A call that the agent does not wait for was made during the work, right after the last answer.
            let warm = if call.waits { cache_is_warm } else { self.cache.is_warm(None) };
            let cached = if warm { self.cache.readable_tokens(call.cached_tokens) } else { 0 };
            // What the cache does not hold any more is read again at the full price.
            let fresh = call.fresh_tokens + call.cached_tokens - cached;
            self.bill.once(cached, fresh, call.output_tokens);
            if call.waits {
                self.waiting_ms += self.options.call_ms(fresh, call.output_tokens);
            }
            self.outcome.side_calls += 1;
        }
    }

    fn note_edit(&mut self, request: &PolicyRequest, next: usize) {
        if let Some(edit) = &request.edit {
            self.outcome.edits.push(self.outcome.context.len());
            *(if edit.compaction { &mut self.outcome.compactions } else { &mut self.outcome.prunes }) += 1;
        }
        let reach = self.policy.has_recall();
        self.survived.note(self.recording, request, next, reach);
    }

    fn note_size(&mut self, input: u64) {
        self.outcome.requests += 1;
        self.outcome.context.push(input);
        self.outcome.peak_tokens = self.outcome.peak_tokens.max(input);
        self.outcome.overflows += u64::from(input > self.budget.usable);
    }

    /// Counts the items that the answer needs, and returns the text of a recall if necessary for
    /// them. A tool's result has the room left, or a quarter of the window.
    fn look_up(&mut self, request: &PolicyRequest, next: usize, input: u64) -> Option<String> {
        let usable = self.budget.usable;
        // A full view leaves no room, but a tool would still return something. Its least is a quarter.
        let room = usable.saturating_sub(input).max(usable / 4);
        let found =
            needed_later::look_up(self.recording, next, &request.view, self.policy.has_recall(), room);
        let needs = &mut self.outcome.needs;
        needs.in_view += found.in_view;
        needs.recalled += found.recalled;
        needs.lost += found.lost;
        needs.recalls += u64::from(found.recall.is_some());
        found.recall
    }

    /// Bills the request. A recall is a call of its own: the model asks instead of answering, and the request
    /// is sent again with the found text. Then the recorded answer follows.
    fn bill_request(
        &mut self,
        sent: &[(u64, u64)],
        input: u64,
        output: u64,
        at: Option<longhaul_core::ids::Millis>,
        recalled: Option<&str>,
    ) {
        let mut input = input;
        let mut read = self.cache.send(sent, at);
        if let Some(text) = recalled {
            // The call that asks for the recall is billed like any other request.
            self.bill.request(read, input - read, input, needed_later::RECALL_OUTPUT_TOKENS);
            let found = ViewSegment::new(text, self.recall_tokens(text));
            self.cache.add(found.id, found.tokens);
            let known = input;
            // The second call has the found text behind the first request.
            input += found.tokens;
            // The first call has just put the whole request into the cache.
            read = self.cache.readable_tokens(known);
            self.waiting_ms += self.options.call_ms(input - read, needed_later::RECALL_OUTPUT_TOKENS);
        }
        self.bill.request(read, input - read, input, output);
    }

    /// Returns the tokens of the call and its result in the request of this step.
    fn recall_tokens(&self, text: &str) -> u64 {
        let framing = self.recording.counter.framing();
        needed_later::RECALL_OUTPUT_TOKENS
            + self.recording.counter.text(text)
            + framing.result
            + 2 * framing.message
    }

    fn outcome(self) -> ReplayOutcome {
        let billed = self.bill.billed;
        let input = billed.uncached + billed.cache_read + billed.cache_write;
        ReplayOutcome {
            billed,
            cost: self.bill.cost(),
            prefix_hit_ratio: if input == 0 { 0.0 } else { billed.cache_read as f64 / input as f64 },
            waiting_ms: self.waiting_ms.round() as u64,
            survival: self.survived.classes,
            ..self.outcome
        }
    }
}
