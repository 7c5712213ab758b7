//! What providers report, folded: the anchor, the calibration, the errors of earlier estimates.

use super::{History, LearnedWindow, SentView, view};
use crate::estimate::{CountAccuracy, TokensByScript};
use crate::ids::Seq;
use crate::meter::{MAX_OVERHEAD_TOKENS, UsageAnchor};
use crate::usage::Usage;

/// Smaller windows are no windows, whatever an error text seems to say. In tokens.
const SMALLEST_WINDOW: u64 = 512;

/// Returns whether a provider can have counted so many tokens for what we count as `counted`. Servers report nothing,
/// the uncached part only, or nonsense: such a number is no anchor.
fn is_plausible(reported: u64, fixed_tokens: u64, sent: &TokensByScript) -> bool {
    let counted = fixed_tokens.saturating_add(sent.total());
    // Vocabularies of bytes spend more than four times what others do.
    let most = most_plausible(counted, MAX_UNSEEN_INPUT).max(sent.bytes().saturating_add(MAX_UNSEEN_INPUT));
    reported > 0 && (counted / 4..=most).contains(&reported)
}

fn most_plausible(counted: u64, unseen: u64) -> u64 {
    counted.saturating_mul(4).saturating_add(unseen)
}

/// What a request may carry that we never see: hidden prompts, templates. In tokens.
const MAX_UNSEEN_INPUT: u64 = 16_000;

/// What an answer may carry that we never see, its reasoning apart. In tokens.
const MAX_UNSEEN_OUTPUT: u64 = 1_000;

/// An error is gross beyond this, in thousandths of what was reported.
const GROSS_PER_MILLE: i64 = 100;

/// No vocabulary is so far from the estimate: such an error is a report's own, in thousandths of what was reported.
const BEYOND_ANY_PER_MILLE: i64 = -750;

/// By so much a request must have grown before a report that stays the same, to the token, is no chance.
const MIN_GROWN_TOKENS: u64 = 64;

/// So many reports in a row that cannot be true are no accident.
const MAX_FALSE_REPORTS: u32 = 2;

/// What a server's own count leaves out, as the reports of counted calls show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CountOffset {
    /// Report less count, in tokens.
    tokens: i64,
    /// How often in a row it was another one.
    changes: u32,
    is_known: bool,
}

impl CountOffset {
    /// Differences from one call to the next that are no change: a stable offset, in tokens and as a share of the report.
    const STEADY_TOKENS: u64 = 64;
    const STEADY_SHARE: u64 = 50;

    fn learn(&mut self, counted: u64, reported: u64) {
        let tokens = i64::try_from(i128::from(reported) - i128::from(counted)).unwrap_or(0);
        let is_steady = tokens.abs_diff(self.tokens) <= Self::STEADY_TOKENS + reported / Self::STEADY_SHARE;
        self.changes = if is_steady || !self.is_known { 0 } else { self.changes.saturating_add(1) };
        (self.tokens, self.is_known) = (tokens, true);
    }

    /// The count with what it leaves out; `None` if it leaves out something else each time.
    fn correct(self, counted: u64) -> Option<u64> {
        (self.changes < 2).then(|| counted.saturating_add_signed(self.tokens))
    }
}

/// A view that the server has counted before the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CountedView {
    pub(super) tokens: u64,
    pub(super) fixed_tokens: u64,
    pub(super) view_changed_at: Seq,
}

/// What an estimate missed a report by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EstimateDeviation {
    /// Estimate less report, in tokens.
    tokens: i64,
    per_mille: i64,
    /// Whether it is among the errors.
    counts: bool,
}

impl EstimateDeviation {
    fn of(estimated: u64, actual: u64, counts: bool) -> Self {
        let error = i128::from(estimated) - i128::from(actual);
        let per_mille = (error * 1000 / i128::from(actual.max(1))).clamp(-1_000_000, 1_000_000) as i64;
        let tokens = error.clamp(i128::from(i64::MIN / 2), i128::from(i64::MAX / 2)) as i64;
        Self { tokens, per_mille, counts }
    }

    /// Returns whether the next report takes back what this one said: the estimate rests on it, and is now as far
    /// off to the other side. After an edit only what cannot be is told from what the edit left out.
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

/// No call has so many tokens: such a report would only spoil the sums.
const NO_CALLS_TOKENS: u64 = 1 << 32;

impl History {
    /// A count by the server is as good as a report, and comes before the call. What it leaves out, as the reports of counted
    /// calls have shown, is added; one that contradicts a report is not used.
    pub(super) fn count(&mut self, counted: u64, fixed_tokens: u64) {
        let tokens = match self.count_offset.correct(counted) {
            Some(tokens) if is_plausible(counted, fixed_tokens, &self.view_groups) => tokens,
            _ => return,
        };
        let view_changed_at = self.view_changed_at;
        self.counted = Some(CountedView { tokens: counted, fixed_tokens, view_changed_at });
        let expected = crate::meter::read(self, fixed_tokens).total;
        let miss = EstimateDeviation::of(expected, tokens, false);
        let is_taken_back = self.takes_back(&miss);
        if !is_taken_back && self.extends_anchor(fixed_tokens) && tokens < self.anchored_input() {
            return;
        }
        self.calibrate(fixed_tokens, self.view_groups, tokens);
        self.set_anchor(fixed_tokens, tokens, 0);
        self.sent = Some(SentView { before: self.last_seq, hash: self.view_hash() });
    }

    /// Returns whether the next request begins with the one that the anchor's call has counted.
    fn extends_anchor(&self, fixed_tokens: u64) -> bool {
        let is_same = |anchor: &UsageAnchor| anchor.fixed == fixed_tokens;
        self.anchor.as_ref().is_some_and(is_same) && !self.is_edited()
    }

    /// Input tokens that were reported of the anchor's call; 0 without one.
    fn anchored_input(&self) -> u64 {
        self.anchor.as_ref().map_or(0, |anchor| anchor.input)
    }

    /// Returns whether a report cannot be one of this request: it has not grown with it, or says less than was
    /// reported of its beginning and less than half of what was sent. Servers report what no cache had, a constant,
    /// or nothing of the tools.
    fn contradicts(&self, reported: u64, sent: &TokensByScript, fixed_tokens: u64) -> bool {
        if !self.extends_anchor(fixed_tokens) {
            return false;
        }
        let grown = sent.without(&self.kept_groups).total();
        let stands_still = grown >= MIN_GROWN_TOKENS && reported == self.anchored_input();
        let whole = self.calibration.whole(sent, fixed_tokens);
        stands_still || (reported < self.anchored_input() && reported < whole / 2)
    }

    /// One more report that cannot be true: after a few in a row that server's reports are set aside.
    fn doubt_report(&mut self) {
        self.false_reports = self.false_reports.saturating_add(1);
        self.usage_is_unreliable |= self.false_reports >= MAX_FALSE_REPORTS;
    }

    pub(super) fn finish_step(&mut self, usage: Option<&Usage>, estimated: u64) {
        let start = self.run.as_mut().and_then(|run| run.calling.take());
        self.recoveries = 0;
        self.add_usage(usage);
        let (Some(usage), Some(start)) = (usage, start) else { return };
        let sent_view = self.answered.and_then(|answer| self.entry(answer.seq)).map(|piece| {
            // What it goes on with is in one message with it now.
            let hash = match piece.goes_on() {
                true => view::hash(self.view.iter().filter(|item| item.range.to < piece.begins)),
                false => start.view_hash.clone(),
            };
            SentView { before: piece.begins, hash }
        });
        let answered = self.answered.map(|answer| answer.groups).unwrap_or_default();
        let sent = self.view_groups.without(&answered);
        // A call that was answered was not longer than the window.
        let is_beyond = start.window_tokens.is_some_and(|window| usage.input_tokens > window);
        if is_beyond || self.usage_is_unreliable || usage.input_tokens == 0 {
            return;
        }
        let miss = EstimateDeviation::of(estimated, usage.input_tokens, self.anchor.is_some());
        let takes_back = self.last_miss.is_some_and(|last| last.is_taken_back_by(&miss, self.is_edited()));
        let is_false = !is_plausible(usage.input_tokens, start.fixed_tokens, &sent)
            || (!takes_back && self.contradicts(usage.input_tokens, &sent, start.fixed_tokens));
        if is_false {
            return self.doubt_report();
        }
        self.false_reports = 0;
        self.reports_grow |= self.anchor.as_ref().is_some_and(|anchor| usage.input_tokens > anchor.input);
        if let Some(view) = self.counted_call.take() {
            self.count_offset.learn(view.tokens, usage.input_tokens);
        }
        self.learn_error(estimated, usage.input_tokens);
        if self.anchor.is_none() {
            self.calibration.see_first(&sent, start.fixed_tokens, usage.input_tokens);
        }
        // A difference to a report that was false says nothing.
        if !takes_back {
            self.calibrate(start.fixed_tokens, sent, usage.input_tokens);
        }
        let before = self.answered.map_or(self.last_seq, |answer| answer.seq - 1);
        let Some(sent_back) = self.output_sent_back(usage, answered.total()) else {
            self.set_anchor_at(before, sent, start.fixed_tokens, usage.input_tokens, 0);
            self.sent = sent_view;
            return;
        };
        self.largest_call = self.largest_call.max(usage.total_tokens());
        // More was read than it is said to hold: it is not true. With the answer it was more: it holds that.
        let total = usage.total_tokens();
        self.learned_window = self
            .learned_window
            .filter(|learned| usage.input_tokens <= learned.limit)
            .map(|learned| LearnedWindow { limit: learned.limit.max(total), ..learned });
        if self.anchor.is_some() && sent_back == usage.output_tokens {
            self.learn(&answered, usage.output_tokens);
        }
        self.set_anchor(start.fixed_tokens, usage.input_tokens, sent_back);
        self.sent = sent_view;
    }

    pub(super) fn add_usage(&mut self, usage: Option<&Usage>) {
        let Some(usage) = usage.filter(|usage| usage.total_tokens() < NO_CALLS_TOKENS) else { return };
        self.cumulative.add(usage);
        if let Some(run) = &mut self.run {
            run.usage.add(usage);
        }
    }

    /// A provider that refuses a request for its length often says how long it was: that is a count.
    pub(super) fn fail_step(&mut self, used: Option<u64>, limit: Option<u64>) {
        let start = self.run.as_mut().and_then(|run| run.calling.take());
        let Some(start) = start else { return };
        if let Some(limit) = limit.filter(|limit| *limit >= SMALLEST_WINDOW) {
            let known = start.window_tokens;
            let lower = self.learned_window.filter(|learned| learned.known == known && learned.limit < limit);
            self.learned_window = Some(lower.unwrap_or(LearnedWindow { limit, known }));
        }
        let counted = start.fixed_tokens.saturating_add(self.view_tokens());
        let sent = self.view_groups;
        if let Some(used) = used.filter(|used| is_plausible(*used, start.fixed_tokens, &sent)) {
            self.calibrate(start.fixed_tokens, self.view_groups, used);
            if self.overhead_tokens.is_none() {
                // Of a first request that is as long as the window most of the difference is in how its content is counted.
                let beyond = used.saturating_sub(counted + counted / 2);
                self.overhead_tokens = Some(beyond.min(MAX_OVERHEAD_TOKENS)).filter(|overhead| *overhead > 0);
            }
            let overhead = self.overhead_tokens;
            self.set_anchor(start.fixed_tokens, used, 0);
            self.overhead_tokens = overhead;
            self.sent = Some(SentView { before: self.last_seq, hash: start.view_hash });
        }
    }

    /// All of the view is in the count.
    fn set_anchor(&mut self, fixed: u64, input: u64, output: u64) {
        self.set_anchor_at(self.last_seq, self.view_groups, fixed, input, output);
    }

    /// What the view held up to `seq`, `kept` by our estimate, is in the count.
    fn set_anchor_at(&mut self, seq: Seq, kept: TokensByScript, fixed: u64, input: u64, output: u64) {
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

    /// What a call differs from the one before is known exactly, also where an edit took something away.
    fn calibrate(&mut self, fixed_tokens: u64, sent: TokensByScript, input_tokens: u64) {
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

    /// An exact count has nothing to learn.
    fn learn(&mut self, estimated: &TokensByScript, actual: u64) {
        if self.counter.kind() != CountAccuracy::Exact {
            self.calibration.learn(estimated, actual);
        }
    }

    /// Tokens of the answer, estimated at `answered`, that later requests carry: not its reasoning, if no part goes
    /// back with a native item. `None` if the report cannot be true.
    fn output_sent_back(&self, usage: &Usage, answered: u64) -> Option<u64> {
        let said = self.answered.and_then(|answer| self.entry(answer.seq));
        let Some(message) = said.map(|entry| &entry.message) else { return Some(0) };
        let dropped = view::unsent_reasoning(message, &self.counter).total();
        // A token that goes back has a byte at least.
        let hidden = usage.reasoning_tokens.min(view::native_bytes(message));
        let (unsent, unseen) = match usage.reasoning_tokens {
            _ if dropped == 0 && hidden > 0 => (0, hidden),
            0 => (dropped, 0),
            reasoning => (reasoning, 0),
        };
        let sent_back = usage.output_tokens.saturating_sub(unsent);
        let most = most_plausible(answered, MAX_UNSEEN_OUTPUT).saturating_add(unseen);
        // A call that was stopped may have reported its first word only.
        (answered / 4..=most).contains(&sent_back).then_some(sent_back)
    }

    /// The first call of a session says nothing about the counter: its unknown overhead is learned apart. Nor do a
    /// report that the next one takes back, and what that one seems to err by.
    fn learn_error(&mut self, estimated: u64, actual: u64) {
        let miss = EstimateDeviation::of(estimated, actual, self.anchor.is_some());
        self.last_error_per_mille = Some(miss.per_mille);
        if self.takes_back(&miss) {
            return;
        }
        self.last_miss = Some(miss);
        if !miss.counts {
            return;
        }
        if self.errors_per_mille.len() == 100 {
            self.errors_per_mille.pop_front();
        }
        self.errors_per_mille.push_back(miss.per_mille);
    }

    /// Returns whether the report before was false, and is forgotten.
    fn takes_back(&mut self, miss: &EstimateDeviation) -> bool {
        let Some(before) =
            self.last_miss.take().filter(|before| before.is_taken_back_by(miss, self.is_edited()))
        else {
            return false;
        };
        if before.counts {
            self.errors_per_mille.pop_back();
        }
        true
    }

    /// Returns whether what the anchor has counted is not shown as it was then.
    fn is_edited(&self) -> bool {
        self.anchor.as_ref().is_some_and(|anchor| anchor.view_tokens != self.kept_groups.total())
    }
}
