//! Reports of the provider, folded into the anchor, the calibration and the errors of earlier estimates.

use std::collections::VecDeque;

use super::ViewItem;
use super::log::SessionLog;
use super::view::{self, SessionView};
use crate::estimate::{CountAccuracy, MessageTokenCounter, TokensByScript};
use crate::event::StepStart;
use crate::ids::Seq;
use crate::meter::{CountAttribution, MAX_OVERHEAD_TOKENS, TokenCalibration, UsageAnchor};
use crate::usage::Usage;

/// Returns whether a provider can have counted `reported` tokens for a request of `sent` and `fixed_tokens`. Servers
/// report zero, only the uncached part, or nonsense. Such a number is no anchor.
fn is_plausible(reported: u64, fixed_tokens: u64, sent: &TokensByScript) -> bool {
    let counted = fixed_tokens.saturating_add(sent.total());
    // Vocabularies of bytes spend more than four times the tokens of other vocabularies.
    let most = most_plausible(counted, MAX_UNSEEN_INPUT).max(sent.bytes().saturating_add(MAX_UNSEEN_INPUT));
    reported > 0 && (counted / 4..=most).contains(&reported)
}

/// Returns whether no vocabulary explains a report of so many tokens.
fn is_gross(reported: u64, fixed_tokens: u64, sent: &TokensByScript) -> bool {
    reported > most_plausible(fixed_tokens.saturating_add(sent.total()), 0).max(sent.bytes())
}

fn most_plausible(counted: u64, unseen: u64) -> u64 {
    // Four times: vocabularies differ by less, and a wrong report is usually wrong by more (decision 0008).
    counted.saturating_mul(4).saturating_add(unseen)
}

/// The largest part of a request that we cannot see, in tokens: hidden prompts and chat templates.
// Reports of a server with a longer hidden prompt may not be believed (decision 0008).
const MAX_UNSEEN_INPUT: u64 = 16_000;

/// The largest part of an answer that we cannot see, in tokens, beside reasoning.
const MAX_UNSEEN_OUTPUT: u64 = 1_000;

/// The smallest gross error, in thousandths of the report.
const GROSS_PER_MILLE: i64 = 100;

/// The lowest error that a vocabulary can explain, in thousandths of the report. A lower error is a wrong report.
const BEYOND_ANY_PER_MILLE: i64 = -750;

/// Tokens by which a request must grow before an unchanged report is suspicious.
const MIN_GROWN_TOKENS: u64 = 64;

/// Number of implausible reports in a row after which all of the server's reports are ignored.
const MAX_FALSE_REPORTS: u32 = 2;

/// The usual difference between the server's reports and the server's own counts before the call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct CountOffset {
    /// The newest difference, report less count, in tokens.
    tokens: i64,
    /// Number of changes of the difference in a row.
    changes: u32,
    is_known: bool,
}

impl CountOffset {
    /// The largest difference between two offsets that still counts as the same offset, in tokens.
    const STEADY_TOKENS: u64 = 64;
    /// Divisor of the report: the quotient is added to [`Self::STEADY_TOKENS`].
    const STEADY_SHARE: u64 = 50;

    /// Learns the offset from the report of a counted call.
    fn learn(&mut self, counted: u64, reported: u64) {
        let tokens = i64::try_from(i128::from(reported) - i128::from(counted)).unwrap_or(0);
        let is_steady = tokens.abs_diff(self.tokens) <= Self::STEADY_TOKENS + reported / Self::STEADY_SHARE;
        self.changes = if is_steady || !self.is_known { 0 } else { self.changes.saturating_add(1) };
        (self.tokens, self.is_known) = (tokens, true);
    }

    /// Returns the count with the usual offset added; `None` if the offset changes from call to call.
    fn correct(self, counted: u64) -> Option<u64> {
        (self.changes < 2).then(|| counted.saturating_add_signed(self.tokens))
    }
}

/// A view that the server has counted before the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CountedView {
    tokens: u64,
    fixed_tokens: u64,
    view_changed_at: Seq,
}

/// The difference between an estimate and a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct EstimateDeviation {
    /// The estimate less the report, in tokens.
    tokens: i64,
    per_mille: i64,
    /// `true` if the difference is among the errors that the margin rests on.
    counts: bool,
}

impl EstimateDeviation {
    fn of(estimated: u64, actual: u64, counts: bool) -> Self {
        let error = i128::from(estimated) - i128::from(actual);
        let per_mille = (error * 1000 / i128::from(actual.max(1))).clamp(-1_000_000, 1_000_000) as i64;
        let tokens = error.clamp(i128::from(i64::MIN / 2), i128::from(i64::MAX / 2)) as i64;
        Self { tokens, per_mille, counts }
    }

    /// Returns whether the next report contradicts this deviation: the next estimate rests on this report, and
    /// deviates as far to the other side. After an edit only an error that no vocabulary explains proves a wrong
    /// report.
    fn is_taken_back_by(&self, next: &Self, edited: bool) -> bool {
        if edited {
            return self.per_mille < BEYOND_ANY_PER_MILLE && next.per_mille >= 1_000;
        }
        let (before, after) = (self.tokens.unsigned_abs(), next.tokens.unsigned_abs());
        self.tokens.signum() == -next.tokens.signum()
            && next.per_mille.abs() >= GROSS_PER_MILLE
            && before.abs_diff(after) * 4 <= before.max(after)
    }
}

/// The errors of the newest estimates, on which the meter's margin rests.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct EstimateErrors {
    /// The signed errors of the newest 100 estimates, in thousandths of the actual input.
    pub(super) per_mille: VecDeque<i64>,
    /// The signed error of the newest estimate, the first call's too.
    pub(super) newest_per_mille: Option<i64>,
    /// The newest report's distance from the estimate.
    newest: Option<EstimateDeviation>,
}

impl EstimateErrors {
    /// Records the error of an estimate. The first call of a session counts for nothing here, because its overhead is
    /// unknown. A report that the next report contradicts counts for nothing either.
    fn learn(&mut self, miss: EstimateDeviation, edited: bool) {
        self.newest_per_mille = Some(miss.per_mille);
        if self.take_back(&miss, edited) {
            return;
        }
        self.newest = Some(miss);
        if !miss.counts {
            return;
        }
        if self.per_mille.len() == 100 {
            self.per_mille.pop_front();
        }
        self.per_mille.push_back(miss.per_mille);
    }

    /// Returns whether `miss` proves the report before to be wrong.
    fn are_taken_back_by(&self, miss: &EstimateDeviation, edited: bool) -> bool {
        self.newest.is_some_and(|newest| newest.is_taken_back_by(miss, edited))
    }

    /// Returns whether `miss` proves the report before to be wrong, and forgets that report's error.
    fn take_back(&mut self, miss: &EstimateDeviation, edited: bool) -> bool {
        let Some(before) = self.newest.take().filter(|before| before.is_taken_back_by(miss, edited)) else {
            return false;
        };
        if before.counts {
            self.per_mille.pop_back();
        }
        true
    }
}

/// The view that a call carried.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SentView {
    /// The position at which the view ended, exclusive.
    pub(super) before: Seq,
    pub(super) hash: String,
}

/// The answer of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct AnsweredStep {
    pub(super) seq: Seq,
    /// Tokens that the answer, or the piece of an answer, added to the view.
    pub(super) groups: TokensByScript,
}

impl SentView {
    /// Returns whether `view` up to the call's position equals the view that was sent. After an undo the count holds
    /// again.
    pub(super) fn is_shown_by(&self, view: &[ViewItem]) -> bool {
        self.hash == view::hash(view.iter().filter(|item| item.range.to < self.before))
    }
}

/// A server's count of the next request, in tokens.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServerCount {
    /// The count as the server gave it.
    pub(super) counted: u64,
    /// The count with the server's usual offset.
    pub(super) tokens: u64,
    /// The meter's reading before the count.
    pub(super) expected: u64,
    /// The estimated tokens of system prompt and tools.
    pub(super) fixed_tokens: u64,
}

/// The provider's counts of the view, and the lessons of these counts for the estimate.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct MeterState {
    pub(super) counter: MessageTokenCounter,
    pub(super) calibration: TokenCalibration,
    pub(super) anchor: Option<UsageAnchor>,
    /// The view that the anchor's call carried.
    pub(super) sent: Option<SentView>,
    /// The answer of the newest step.
    pub(super) answered: Option<AnsweredStep>,
    /// The part of the present view that the anchor's call has counted.
    pub(super) kept_groups: TokensByScript,
    /// The view's tokens at the anchor's call.
    anchor_groups: TokensByScript,
    /// The share of each kind of content in the anchor's count.
    pub(super) apportionment: Option<CountAttribution>,
    pub(super) overhead_tokens: Option<u64>,
    pub(super) errors: EstimateErrors,
    /// The server's count of the view for the next call.
    counted: Option<CountedView>,
    /// The server's count of the view that the open call carries.
    counted_call: Option<CountedView>,
    /// The usual difference between the server's reports and the server's counts.
    count_offset: CountOffset,
    /// Number of implausible usage reports in a row.
    false_reports: u32,
    pub(super) usage_is_unreliable: bool,
    pub(super) reports_grow: bool,
}

impl MeterState {
    /// Returns the state before the first report.
    pub(super) fn new(counter: MessageTokenCounter) -> Self {
        let calibration = match counter.prior() {
            Some(prior) => TokenCalibration::new(prior.clone()),
            None => TokenCalibration::unknown(counter.kind()),
        };
        let usage_is_unreliable = counter.has_unreliable_usage();
        Self { counter, calibration, usage_is_unreliable, ..Self::default() }
    }

    /// Forgets what the reports of another model have taught. The answer of the newest step stays.
    pub(super) fn forget_model(&mut self) {
        self.anchor = None;
        self.sent = None;
        self.calibration = TokenCalibration::unknown(self.counter.kind());
        self.anchor_groups = TokensByScript::default();
        self.apportionment = None;
        self.overhead_tokens = None;
        self.errors = EstimateErrors::default();
        (self.counted, self.counted_call, self.count_offset) = (None, None, CountOffset::default());
        (self.false_reports, self.reports_grow) = (0, false);
        // The counter belongs to the model that the session has now.
        self.usage_is_unreliable = self.counter.has_unreliable_usage();
        self.kept_groups = TokensByScript::default();
    }

    /// Folds the start of a step whose request carries the view of `view_changed_at`.
    pub(super) fn begin_step(&mut self, start: &StepStart, view_changed_at: Seq) {
        self.answered = None;
        let is_sent = |view: &CountedView| {
            (view.view_changed_at, view.fixed_tokens) == (view_changed_at, start.fixed_tokens)
        };
        // A count of another view, or of other tools, is not a count of the request that goes out now.
        self.counted_call = self.counted.take().filter(is_sent);
    }

    /// Returns the server's count of the next request with the server's usual offset added; `None` if the count cannot
    /// be believed.
    pub(super) fn corrected_count(&self, counted: u64, fixed_tokens: u64, view: &SessionView) -> Option<u64> {
        let is_believed = is_plausible(counted, fixed_tokens, &view.groups);
        self.count_offset.correct(counted).filter(|_| is_believed)
    }

    /// Folds the server's own count of the next request, which serves as a report before the call. A count that
    /// contradicts a report is not used.
    pub(super) fn fold_count(&mut self, count: &ServerCount, last_seq: Seq, view: &SessionView) {
        let ServerCount { counted, tokens, expected, fixed_tokens } = *count;
        let view_changed_at = view.changed_at;
        self.counted = Some(CountedView { tokens: counted, fixed_tokens, view_changed_at });
        let miss = EstimateDeviation::of(expected, tokens, false);
        let is_taken_back = self.errors.take_back(&miss, self.is_edited());
        // A longer request cannot have fewer tokens than its beginning: the count misses a part that the report has.
        if !is_taken_back && self.extends_anchor(fixed_tokens) && tokens < self.anchored_input() {
            return;
        }
        self.calibrate(fixed_tokens, view.groups, tokens);
        self.set_anchor(last_seq, view.groups, fixed_tokens, tokens, 0);
        self.sent = Some(SentView { before: last_seq, hash: view.hash() });
    }

    /// Returns whether the next request begins with the request that the anchor's call has counted.
    fn extends_anchor(&self, fixed_tokens: u64) -> bool {
        self.anchor.as_ref().is_some_and(|anchor| anchor.fixed == fixed_tokens) && !self.is_edited()
    }

    /// Returns the reported input tokens of the anchor's call; 0 without an anchor.
    fn anchored_input(&self) -> u64 {
        self.anchor.as_ref().map_or(0, |anchor| anchor.input)
    }

    /// Returns whether `reported` cannot be the input of the request. A report is wrong if the count stands
    /// still while the request grows. A report is wrong too if it is below the anchor's and below half of the
    /// estimate. Some servers report the uncached part, a constant, or no tools.
    fn contradicts(&self, reported: u64, sent: &TokensByScript, fixed_tokens: u64) -> bool {
        if !self.extends_anchor(fixed_tokens) {
            return false;
        }
        let grown = sent.without(&self.kept_groups).total();
        let stands_still = grown >= MIN_GROWN_TOKENS && reported == self.anchored_input();
        let whole = self.calibration.whole(sent, fixed_tokens);
        stands_still || (reported < self.anchored_input() && reported < whole / 2)
    }

    /// Counts a wrong report. After [`MAX_FALSE_REPORTS`] in a row the server's reports are ignored.
    fn doubt_report(&mut self) {
        self.false_reports = self.false_reports.saturating_add(1);
        self.usage_is_unreliable |= self.false_reports >= MAX_FALSE_REPORTS;
    }

    /// Sets the server's reports aside. What the earlier ones have taught is as wrong as the newest one.
    fn set_reports_aside(&mut self) {
        self.forget_model();
        self.usage_is_unreliable = true;
    }

    /// Folds the report of a completed step. Returns whether input and output are both believed.
    pub(super) fn fold_report(
        &mut self,
        usage: &Usage,
        estimated: u64,
        start: &StepStart,
        log: &SessionLog,
        view: &SessionView,
    ) -> bool {
        let sent_view = self.answered.and_then(|answer| log.entry(answer.seq)).map(|piece| {
            // A continued answer is one message with its earlier pieces now, so the hash from the step's start is
            // stale.
            let hash = match piece.goes_on() {
                true => view::hash(view.items.iter().filter(|item| item.range.to < piece.begins)),
                false => start.view_hash.clone(),
            };
            SentView { before: piece.begins, hash }
        });
        let answered = self.answered.map(|answer| answer.groups).unwrap_or_default();
        let sent = view.groups.without(&answered);
        // A call that was answered was not longer than the window.
        let is_beyond = start.window_tokens.is_some_and(|window| usage.input_tokens > window);
        if is_beyond && is_gross(usage.input_tokens, start.fixed_tokens, &sent) {
            self.set_reports_aside();
            return false;
        }
        if is_beyond || self.usage_is_unreliable || usage.input_tokens == 0 {
            return false;
        }
        let miss = EstimateDeviation::of(estimated, usage.input_tokens, self.anchor.is_some());
        let takes_back = self.errors.are_taken_back_by(&miss, self.is_edited());
        let is_false = !is_plausible(usage.input_tokens, start.fixed_tokens, &sent)
            || (!takes_back && self.contradicts(usage.input_tokens, &sent, start.fixed_tokens));
        if is_false {
            self.doubt_report();
            return false;
        }
        self.false_reports = 0;
        self.reports_grow |= self.anchor.as_ref().is_some_and(|anchor| usage.input_tokens > anchor.input);
        if let Some(view) = self.counted_call.take() {
            self.count_offset.learn(view.tokens, usage.input_tokens);
        }
        self.errors.learn(miss, self.is_edited());
        // A first report holds an unknown overhead, so no ratio is learned from the report.
        if self.anchor.is_none() {
            self.calibration.see_first(&sent, start.fixed_tokens, usage.input_tokens);
        }
        // The difference to a report that was wrong is no cost of content.
        if !takes_back {
            self.calibrate(start.fixed_tokens, sent, usage.input_tokens);
        }
        let before = self.answered.map_or(log.last_seq, |answer| answer.seq - 1);
        // An implausible output does not spoil the input: the anchor stands before the answer, and the answer is
        // estimated.
        let Some(sent_back) = self.output_sent_back(log, usage, answered.total()) else {
            self.set_anchor(before, sent, start.fixed_tokens, usage.input_tokens, 0);
            self.sent = sent_view;
            return false;
        };
        // An answer's own length teaches ratios only if the report is for exactly the parts that later requests
        // carry.
        if self.anchor.is_some() && sent_back == usage.output_tokens {
            self.learn(&answered, usage.output_tokens);
        }
        self.set_anchor(log.last_seq, view.groups, start.fixed_tokens, usage.input_tokens, sent_back);
        self.sent = sent_view;
        true
    }

    /// Folds the length of a refused request. A provider that refuses a request for its length often names the length,
    /// which serves as a count.
    pub(super) fn fold_refusal(
        &mut self,
        used: Option<u64>,
        start: StepStart,
        last_seq: Seq,
        view: &SessionView,
    ) {
        let counted = start.fixed_tokens.saturating_add(view.tokens());
        let sent = view.groups;
        if let Some(used) = used.filter(|used| is_plausible(*used, start.fixed_tokens, &sent)) {
            self.calibrate(start.fixed_tokens, view.groups, used);
            if self.overhead_tokens.is_none() {
                // A first request near the window's size differs from the estimate mostly by the cost of its content,
                // not by overhead.
                let beyond = used.saturating_sub(counted + counted / 2);
                self.overhead_tokens = Some(beyond.min(MAX_OVERHEAD_TOKENS)).filter(|overhead| *overhead > 0);
            }
            let overhead = self.overhead_tokens;
            // `set_anchor` would take the whole difference for overhead.
            self.set_anchor(last_seq, view.groups, start.fixed_tokens, used, 0);
            self.overhead_tokens = overhead;
            self.sent = Some(SentView { before: last_seq, hash: start.view_hash });
        }
    }

    /// Sets the anchor to a count of the view up to `seq`, whose estimate is `kept`.
    fn set_anchor(&mut self, seq: Seq, kept: TokensByScript, fixed: u64, input: u64, output: u64) {
        let view_tokens = kept.total();
        if self.overhead_tokens.is_none() {
            let unexplained = input.saturating_add(output).saturating_sub(fixed.saturating_add(view_tokens));
            self.overhead_tokens = Some(unexplained.min(MAX_OVERHEAD_TOKENS));
        }
        self.anchor = Some(UsageAnchor { seq, fixed, input, output, view_tokens });
        self.apportionment = Some(self.calibration.share_out(&kept, fixed, input.saturating_add(output)));
        self.anchor_groups = kept;
        self.kept_groups = kept;
        self.sent = None;
    }

    /// Learns from the difference between two calls, which is known exactly, also where an edit removed content.
    fn calibrate(&mut self, fixed_tokens: u64, sent: TokensByScript, input_tokens: u64) {
        // Other tools or another system prompt would be taken for the price of messages.
        let Some(anchor) = self.anchor.as_ref().filter(|anchor| anchor.fixed == fixed_tokens) else { return };
        let before = anchor.input.saturating_add(anchor.output);
        let difference = i128::from(input_tokens) - i128::from(before);
        let (more, less) = (sent.without(&self.kept_groups), self.anchor_groups.without(&self.kept_groups));
        if let Ok(difference) = i64::try_from(difference)
            && self.counter.kind() != CountAccuracy::Exact
        {
            self.calibration.learn_difference(&more, &less, difference);
        }
    }

    /// Learns the tokens of known content, unless the counter is exact.
    fn learn(&mut self, estimated: &TokensByScript, actual: u64) {
        if self.counter.kind() != CountAccuracy::Exact {
            self.calibration.learn(estimated, actual);
        }
    }

    /// Returns the output tokens that later requests carry, for an answer estimated at `answered` tokens. Reasoning
    /// does not count unless a native item carries it back. `None` if the report is implausible.
    fn output_sent_back(&self, log: &SessionLog, usage: &Usage, answered: u64) -> Option<u64> {
        let said = self.answered.and_then(|answer| log.entry(answer.seq));
        let Some(message) = said.map(|entry| &entry.message) else { return Some(0) };
        let dropped = view::unsent_reasoning(message, &self.counter).total();
        // A token in a native item has at least one byte.
        let hidden = usage.reasoning_tokens.min(view::native_bytes(message));
        // Servers that do not report reasoning apart count it all the same, so our own estimate is subtracted.
        let (unsent, unseen) = match usage.reasoning_tokens {
            _ if dropped == 0 && hidden > 0 => (0, hidden),
            0 => (dropped, 0),
            reasoning => (reasoning, 0),
        };
        let sent_back = usage.output_tokens.saturating_sub(unsent);
        let most = most_plausible(answered, MAX_UNSEEN_OUTPUT).saturating_add(unseen);
        // The report of a stopped call may cover the first word only.
        (answered / 4..=most).contains(&sent_back).then_some(sent_back)
    }

    /// Returns whether the content that the anchor has counted is no longer shown in the same form.
    fn is_edited(&self) -> bool {
        self.anchor.as_ref().is_some_and(|anchor| anchor.view_tokens != self.kept_groups.total())
    }
}
