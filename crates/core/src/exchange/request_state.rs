//! The first half of an exchange: until the client receives something.

use super::{
    Exchange, ExchangeEffect, ExchangeFailure, ExchangeInput, ExchangePhase, OverflowFacts, RelayOutcome,
    ResponseFacts, ShorteningOutcome, SmallUpstream, UpstreamFailure,
};
use crate::attempt::{BareRefusal, BrokenAnswer, BrokenAnswerAction, MAX_LENGTH_RETRIES, UnnamedRefusal};

/// The findings of the attempts at one upstream so far.
#[derive(Clone, Debug)]
pub(super) struct RequestState {
    /// The number of times that the request was made shorter.
    length_retries: u32,
    /// `true` while an answer may be taken as a sign of a silent truncation.
    may_suspect: bool,
    /// `true` if the newest request followed a suspected silent truncation.
    is_after_cut: bool,
    /// The number of parts or groups of parts that were left out.
    omissions: u32,
    /// The number of times that the request was made shorter after a refusal that names nothing.
    unnamed_retries: u32,
    /// `true` if the request was repeated, unchanged, after a refusal without any reason.
    has_repeated_refused: bool,
}

/// The most times that a request is made shorter after refusals that name nothing. Such a refusal may have any cause, and
/// each retry leaves something out.
const MAX_UNNAMED_RETRIES: u32 = 2;

impl RequestState {
    pub(super) fn new(can_shorten: bool) -> Self {
        // With compaction off the client owns the conversation, so a refusal for length goes to the client.
        let length_retries = if can_shorten { 0 } else { MAX_LENGTH_RETRIES };
        Self {
            length_retries,
            may_suspect: can_shorten,
            is_after_cut: false,
            omissions: 0,
            unnamed_retries: 0,
            has_repeated_refused: false,
        }
    }

    pub(super) fn may_shorten(&self) -> bool {
        self.length_retries < MAX_LENGTH_RETRIES
    }

    /// Returns whether a shorter request may follow such a sign.
    fn may_act_on(&self, overflow: OverflowFacts) -> bool {
        // A suspicion rests on counts that may be wrong, so it costs the client one repetition at most.
        if overflow.is_said { self.may_shorten() } else { self.may_suspect }
    }
}

impl Exchange {
    /// Handles an input while the client has received nothing.
    pub(super) fn handle_request(&mut self, input: ExchangeInput) -> Vec<ExchangeEffect> {
        match (self.phase, input) {
            (ExchangePhase::New, ExchangeInput::Begin) if self.limits.upstreams == 0 => {
                self.phase = ExchangePhase::Ended;
                vec![ExchangeEffect::Fail(ExchangeFailure::NoUpstream)]
            }
            (ExchangePhase::New, ExchangeInput::Begin) => self.prepare(),
            (ExchangePhase::Preparing, ExchangeInput::Prepared { can_shorten }) => {
                // Each upstream has a window and counts of its own, so nothing of the last one applies.
                self.request = RequestState::new(can_shorten);
                self.send()
            }
            (ExchangePhase::Preparing, ExchangeInput::NotPrepared(failure)) => self.fail_at_upstream(failure),
            (ExchangePhase::Sending, ExchangeInput::Read { can_shorten }) => {
                // The request went out unread. Only now is it known whether the conversation may be shortened.
                self.request = RequestState::new(can_shorten);
                Vec::new()
            }
            (ExchangePhase::Sending, ExchangeInput::Responded(facts)) => self.judge(facts),
            (ExchangePhase::Sending, ExchangeInput::NoResponse { failure, broke_off: true, asked_ms }) => {
                self.repeat_or_fail(failure, asked_ms, ExchangePhase::Waiting)
            }
            (ExchangePhase::Sending, ExchangeInput::NoResponse { failure, .. }) => {
                self.fail_at_upstream(failure)
            }
            (ExchangePhase::Waiting, ExchangeInput::WaitOver) => self.send(),
            (ExchangePhase::WaitingToPrepare, ExchangeInput::WaitOver) => self.prepare(),
            (ExchangePhase::LoweringOutput(_), ExchangeInput::OutputLowered(true)) => self.discard_and_send(),
            (ExchangePhase::LoweringOutput(facts), ExchangeInput::OutputLowered(false)) => {
                self.shorten(facts)
            }
            (ExchangePhase::Shortening(facts), ExchangeInput::Shortened(outcome)) => {
                self.after_shortening(facts, outcome)
            }
            // A refusal has cost nothing. An answer that a filter withheld is billed where its part is left out.
            (ExchangePhase::OmittingPart(_), ExchangeInput::PartOmitted(true)) => {
                self.request.omissions += 1;
                self.send()
            }
            (ExchangePhase::OmittingPart(facts), ExchangeInput::PartOmitted(false)) => {
                match self.is_taken_for_overflow(facts) {
                    true => self.shorten_unnamed(facts),
                    false => self.repeat_or_relay(facts),
                }
            }
            (ExchangePhase::Relaying, ExchangeInput::Relayed(outcome)) => self.after_relay(outcome),
            _ => Vec::new(),
        }
    }

    fn prepare(&mut self) -> Vec<ExchangeEffect> {
        self.phase = ExchangePhase::Preparing;
        vec![ExchangeEffect::Prepare { upstream: self.upstream }]
    }

    fn send(&mut self) -> Vec<ExchangeEffect> {
        self.phase = ExchangePhase::Sending;
        vec![ExchangeEffect::Send]
    }

    fn discard_and_send(&mut self) -> Vec<ExchangeEffect> {
        self.phase = ExchangePhase::Sending;
        vec![ExchangeEffect::DiscardResponse, ExchangeEffect::Send]
    }

    /// Decides what follows a response.
    fn judge(&mut self, facts: ResponseFacts) -> Vec<ExchangeEffect> {
        if self.may_pass(facts) {
            self.request.has_repeated_refused = true;
            self.phase = ExchangePhase::Waiting;
            let ms = self.limits.retry.delay_ms(1, None);
            return vec![ExchangeEffect::DiscardResponse, ExchangeEffect::Wait { ms }];
        }
        match facts.overflow.filter(|overflow| self.request.may_act_on(*overflow)) {
            // A shorter answer is tried before a shorter conversation, because it loses nothing.
            Some(_) => {
                self.phase = ExchangePhase::LoweringOutput(facts);
                vec![ExchangeEffect::LowerOutput]
            }
            // No part is left out on a guess where the length is the likelier reason.
            None if self.may_fill_window(facts) => self.shorten_unnamed(facts),
            // A part was left out already, and did not explain the refusal.
            None if self.request.omissions > 0
                && (self.is_taken_for_overflow(facts) || self.may_be_too_long(facts)) =>
            {
                self.shorten_unnamed(facts)
            }
            None => self.omit_or_relay(facts),
        }
    }

    /// Returns whether a refusal that names nothing is taken for an overflow, as in a session.
    fn is_taken_for_overflow(&self, facts: ResponseFacts) -> bool {
        let has_grown = facts.unnamed_refusal.is_some_and(UnnamedRefusal::has_clearly_grown);
        has_grown && self.may_shorten_unnamed()
    }

    /// Returns whether a refusal without any reason is suspected to be one of the length, as in a session.
    fn may_fill_window(&self, facts: ResponseFacts) -> bool {
        let is_near = facts.unnamed_refusal.is_some_and(UnnamedRefusal::may_fill_window);
        is_near && self.may_shorten_unnamed()
    }

    /// Returns whether the length is suspected before a group of results. Older messages are a smaller loss than all
    /// results, and a wrong suspicion costs a refused request.
    fn may_be_too_long(&self, facts: ResponseFacts) -> bool {
        let is_large = facts.unnamed_refusal.is_some_and(UnnamedRefusal::may_be_too_long);
        facts.has_tried_singles && is_large && self.may_shorten_unnamed()
    }

    fn may_shorten_unnamed(&self) -> bool {
        self.request.may_shorten() && self.request.unnamed_retries < MAX_UNNAMED_RETRIES
    }

    /// Returns whether the same request is sent once more, because it was refused without any reason.
    fn may_pass(&self, facts: ResponseFacts) -> bool {
        let refusal = BareRefusal {
            gives_no_reason: facts.unnamed_refusal.is_some_and(|refusal| refusal.gives_no_reason),
            names_part: false,
            has_answer: facts.is_whole_answer,
            was_repeated: self.request.has_repeated_refused,
        };
        facts.overflow.is_none() && refusal.may_pass(self.limits.retry.patience_ms)
    }

    fn shorten(&mut self, facts: ResponseFacts) -> Vec<ExchangeEffect> {
        // Counted before the outcome is known, so that a shortening that fails is not tried without end.
        self.request.length_retries += 1;
        self.request.may_suspect = false;
        self.phase = ExchangePhase::Shortening(facts);
        vec![ExchangeEffect::Shorten]
    }

    fn shorten_unnamed(&mut self, facts: ResponseFacts) -> Vec<ExchangeEffect> {
        self.request.unnamed_retries += 1;
        self.shorten(facts)
    }

    fn after_shortening(&mut self, facts: ResponseFacts, outcome: ShorteningOutcome) -> Vec<ExchangeEffect> {
        let overflow = facts.overflow.unwrap_or_default();
        // A refusal that names nothing may have another cause than the length.
        let is_unnamed = facts.overflow.is_none();
        let is_acceptable = match outcome {
            ShorteningOutcome::Shorter => {
                self.request.is_after_cut = overflow.is_truncation;
                return self.discard_and_send();
            }
            ShorteningOutcome::NothingLeft => facts.is_for_client || is_unnamed,
            // A doubtful answer is better than none.
            ShorteningOutcome::Failed(_) => overflow.is_usable || is_unnamed,
        };
        if is_acceptable {
            // A second attempt would find as little to leave out.
            self.request.unnamed_retries = MAX_UNNAMED_RETRIES;
            let mut effects = vec![ExchangeEffect::ReportDoubt];
            effects.extend(self.omit_or_relay(facts));
            return effects;
        }
        match outcome {
            ShorteningOutcome::Failed(failure) => self.fail_at_upstream(failure),
            _ if self.has_untried_upstream() => self.ask_after_overflow(),
            _ => {
                self.phase = ExchangePhase::Ended;
                vec![ExchangeEffect::Fail(ExchangeFailure::TooLong)]
            }
        }
    }

    fn omit_or_relay(&mut self, facts: ResponseFacts) -> Vec<ExchangeEffect> {
        // The client is told of a full window, and a part is left out for it, only if no other upstream has room.
        if facts.overflow.is_some_and(|overflow| overflow.is_said) && self.has_untried_upstream() {
            return self.ask_after_overflow();
        }
        if facts.is_refusal {
            self.phase = ExchangePhase::OmittingPart(facts);
            return vec![ExchangeEffect::OmitPart];
        }
        self.repeat_or_relay(facts)
    }

    /// Repeats a request with a passing error in the answer's place, or relays the response.
    fn repeat_or_relay(&mut self, facts: ResponseFacts) -> Vec<ExchangeEffect> {
        let passing = facts.passing_failure;
        match passing.and_then(|failure| self.repetition(failure.asked_ms, ExchangePhase::Waiting)) {
            Some(wait) => vec![ExchangeEffect::DiscardResponse, wait],
            None => self.relay(facts),
        }
    }

    fn relay(&mut self, facts: ResponseFacts) -> Vec<ExchangeEffect> {
        self.phase = ExchangePhase::Relaying;
        // The repetition fitted, so its count shows how this upstream counts.
        let learns = self.request.is_after_cut && facts.is_whole_answer;
        let learn = learns.then_some(ExchangeEffect::LearnCount);
        learn.into_iter().chain([ExchangeEffect::Relay]).collect()
    }

    fn after_relay(&mut self, outcome: RelayOutcome) -> Vec<ExchangeEffect> {
        match outcome {
            RelayOutcome::HiddenCalls => self.send(),
            RelayOutcome::Ready { lacks_path: true, .. } if !self.is_wire_fallback => {
                // The upstream may only lack this wire's path. The first answer is kept: if the translated request
                // fails, too, it was the better explanation.
                self.is_wire_fallback = true;
                self.phase = ExchangePhase::Preparing;
                vec![ExchangeEffect::PrepareTranslated]
            }
            RelayOutcome::Ready { is_stream, failure, .. } => {
                let next = failure.and_then(|failure| Some((self.next_after(failure)?, failure)));
                if let Some((next, failure)) = next {
                    return self.ask(next, failure);
                }
                self.phase = if is_stream { ExchangePhase::Answering } else { ExchangePhase::Ended };
                vec![ExchangeEffect::NoteReachable(true), ExchangeEffect::Deliver]
            }
            RelayOutcome::Failed(failure) => self.fail_at_upstream(failure),
            RelayOutcome::BrokeOff { failure, asked_ms } => {
                self.repeat_or_fail(failure, asked_ms, ExchangePhase::WaitingToPrepare)
            }
        }
    }

    /// Repeats a request whose answer broke off, or gives the upstream up.
    fn repeat_or_fail(
        &mut self,
        failure: UpstreamFailure,
        asked_ms: Option<u64>,
        waiting: ExchangePhase,
    ) -> Vec<ExchangeEffect> {
        match self.repetition(asked_ms, waiting) {
            Some(wait) => vec![wait],
            None => self.fail_at_upstream(failure),
        }
    }

    /// Returns the wait before the same request is made again; `None` if it is not.
    fn repetition(&mut self, asked_ms: Option<u64>, waiting: ExchangePhase) -> Option<ExchangeEffect> {
        let broken = BrokenAnswer {
            broke_before: self.broken_answers,
            ends_in_text: false,
            can_continue: false,
            // Another upstream answers sooner than a repetition at this one.
            can_take_back: !self.has_untried_upstream(),
        };
        // A client that is told of a long wait can do something else meanwhile.
        let is_long = asked_ms.is_some_and(|asked_ms| asked_ms > self.limits.retry.max_delay_ms);
        if is_long || broken.next(self.limits.retry.stream_attempts) == BrokenAnswerAction::GiveUp {
            return None;
        }
        self.broken_answers += 1;
        self.phase = waiting;
        Some(ExchangeEffect::Wait { ms: self.limits.retry.delay_ms(self.broken_answers, asked_ms) })
    }

    /// Gives an upstream up, and asks the next one if it may do better.
    fn fail_at_upstream(&mut self, failure: UpstreamFailure) -> Vec<ExchangeEffect> {
        self.note_small_window(failure);
        let is_too_small = matches!(failure, UpstreamFailure::TooSmall { .. });
        // The failure of the translated request would hide what the upstream said to the client's own. A lack of room
        // has nothing to do with the wire.
        let next = self.next_after(failure).filter(|_| is_too_small || !self.is_wire_fallback);
        if let Some(next) = next {
            return self.ask(next, failure);
        }
        self.phase = ExchangePhase::Ended;
        if self.is_wire_fallback {
            return vec![ExchangeEffect::NoteReachable(true), ExchangeEffect::DeliverFirst];
        }
        // The newest failure is the answer if no other upstream does better.
        vec![note_reachable(failure), ExchangeEffect::Fail(ExchangeFailure::Newest)]
    }

    /// Remembers the upstream with the largest window among those without room.
    fn note_small_window(&mut self, failure: UpstreamFailure) {
        let UpstreamFailure::TooSmall { window_tokens } = failure else { return };
        // Of equal windows the first one stays, because the upstreams are in the order of preference.
        if self.largest.is_none_or(|largest| largest.window_tokens < window_tokens) {
            self.largest = Some(SmallUpstream { upstream: self.upstream, window_tokens });
        }
    }

    /// Returns whether an upstream is left that was not asked yet.
    fn has_untried_upstream(&self) -> bool {
        !self.is_last_resort && self.upstream + 1 < self.limits.upstreams
    }

    /// Returns the upstream to ask after a failure. After the last one it is that with the largest window of those
    /// without room: an answer to a part of the newest message is better than none.
    fn next_after(&self, failure: UpstreamFailure) -> Option<usize> {
        if failure == UpstreamFailure::Final || self.is_last_resort {
            return None;
        }
        if self.has_untried_upstream() {
            return Some(self.upstream + 1);
        }
        self.largest.map(|largest| largest.upstream)
    }

    /// Asks another upstream after a failure.
    fn ask(&mut self, upstream: usize, failure: UpstreamFailure) -> Vec<ExchangeEffect> {
        self.is_last_resort = upstream <= self.upstream;
        self.upstream = upstream;
        (self.is_wire_fallback, self.broken_answers) = (false, 0);
        let prepare = self.prepare();
        [note_reachable(failure)].into_iter().chain(prepare).collect()
    }

    /// Asks the next upstream in place of one that refuses the request for its length.
    fn ask_after_overflow(&mut self) -> Vec<ExchangeEffect> {
        let next = self.ask(self.upstream + 1, UpstreamFailure::Temporary);
        [ExchangeEffect::DiscardResponse].into_iter().chain(next).collect()
    }
}

/// Returns the note about an upstream after a failure. An upstream that answers with an error is there.
fn note_reachable(failure: UpstreamFailure) -> ExchangeEffect {
    ExchangeEffect::NoteReachable(failure != UpstreamFailure::Unreachable)
}
