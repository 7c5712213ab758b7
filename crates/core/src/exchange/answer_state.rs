//! The second half of an exchange: the client receives the answer, which can only be continued.

use super::{
    ContinuationCause, ContinuationOutcome, Exchange, ExchangeEffect, ExchangeInput, ExchangePhase,
    StreamBreak,
};
use crate::attempt::{BrokenAnswer, BrokenAnswerAction, MAX_LENGTH_RETRIES};

/// The maximum number of compactions before one answer.
// The number of pauses that a session allows one answer (decision 0018).
const MAX_RESTARTS: u32 = 3;

/// The maximum number of continuations from the answer's own end. Such a continuation costs no summary, but an endless
/// model must be stopped somewhere.
const MAX_CONTINUATIONS: u32 = 12;

/// The course of the answer so far.
#[derive(Clone, Debug, Default)]
pub(super) struct AnswerState {
    /// The number of times that the answer was stopped at the end of the window.
    pub(super) restarts: u32,
    /// The number of these with only the answer's own beginning left out.
    continuations: u32,
    /// The number of streams that broke off.
    pub(super) broken_streams: u32,
    /// `true` if no more room can be made.
    pub(super) is_window_exhausted: bool,
    /// The outage that is waited out, if there is one.
    outage: Option<OutageWait>,
    /// The number of refusals of the rest for its length.
    refusals: u32,
    /// `true` if no room was made for the rest.
    is_without_room: bool,
}

/// A wait for an upstream that is down.
#[derive(Clone, Copy, Debug)]
struct OutageWait {
    began_ms: u64,
    attempt: u32,
}

impl Exchange {
    /// Returns what would follow a stream broken at this point.
    pub fn action_after_break(&self, broken: StreamBreak) -> BrokenAnswerAction {
        if !broken.is_joinable {
            return BrokenAnswerAction::GiveUp;
        }
        let broken = BrokenAnswer {
            broke_before: self.answer.broken_streams,
            ends_in_text: broken.ends_in_text,
            can_continue: true,
            can_take_back: broken.is_blank,
        };
        broken.next(self.limits.retry.stream_attempts)
    }

    /// Handles an input after the client has received the beginning of the answer.
    pub(super) fn handle_answer(&mut self, input: ExchangeInput) -> Vec<ExchangeEffect> {
        match (self.phase, input) {
            (ExchangePhase::Answering, ExchangeInput::StreamBroke(broken)) => self.reconnect(broken),
            (ExchangePhase::Answering, ExchangeInput::WindowFilled) => {
                self.answer.restarts += 1;
                (self.answer.refusals, self.answer.outage) = (0, None);
                self.phase = ExchangePhase::MakingRoom;
                vec![ExchangeEffect::LeaveStream, ExchangeEffect::MakeRoomForRest { refusals: 0 }]
            }
            (ExchangePhase::Answering, ExchangeInput::HiddenCallsMade) => self.answer_hidden_calls(true),
            // The end of the stream was judged by the shell, which alone knows the finish reason.
            (ExchangePhase::Answering, ExchangeInput::AnswerEnded) => self.end_with(ExchangeEffect::End),
            (ExchangePhase::MakingRoom, ExchangeInput::RoomMadeForRest(is_made)) => {
                // Without room the answer runs to the real limit.
                self.answer.is_without_room = !is_made;
                self.ask_for_rest(ContinuationCause::Stop)
            }
            (ExchangePhase::WaitingToContinue(cause), ExchangeInput::WaitOver) => self.ask_for_rest(cause),
            (ExchangePhase::Continuing(cause), ExchangeInput::Continued(outcome)) => {
                self.after_continuation(cause, outcome)
            }
            _ => Vec::new(),
        }
    }

    /// Asks the upstream to go on after a break, or ends the answer.
    fn reconnect(&mut self, broken: StreamBreak) -> Vec<ExchangeEffect> {
        if self.action_after_break(broken) == BrokenAnswerAction::GiveUp {
            return self.end_with(ExchangeEffect::BreakOff);
        }
        self.answer.broken_streams += 1;
        let outage = OutageWait { began_ms: broken.now_ms, attempt: self.answer.broken_streams };
        self.answer.outage = Some(outage);
        // A request at once would meet the same failure.
        vec![
            ExchangeEffect::LeaveStream,
            self.wait_to_continue(ContinuationCause::Break, outage, broken.asked_ms),
        ]
    }

    fn wait_to_continue(
        &mut self,
        cause: ContinuationCause,
        outage: OutageWait,
        asked_ms: Option<u64>,
    ) -> ExchangeEffect {
        self.phase = ExchangePhase::WaitingToContinue(cause);
        ExchangeEffect::Wait { ms: self.limits.retry.delay_ms(outage.attempt, asked_ms) }
    }

    fn ask_for_rest(&mut self, cause: ContinuationCause) -> Vec<ExchangeEffect> {
        self.phase = ExchangePhase::Continuing(cause);
        vec![ExchangeEffect::AskForRest]
    }

    fn answer_hidden_calls(&mut self, has_results: bool) -> Vec<ExchangeEffect> {
        let answer = ExchangeEffect::AnswerHiddenCalls { has_results };
        let ask = self.ask_for_rest(ContinuationCause::HiddenCalls { has_results });
        [answer].into_iter().chain(ask).collect()
    }

    fn after_continuation(
        &mut self,
        cause: ContinuationCause,
        outcome: ContinuationOutcome,
    ) -> Vec<ExchangeEffect> {
        match (cause, outcome) {
            // The client has all that it wants, so a failure does not matter.
            (_, ContinuationOutcome::LimitReached) => self.end_with(ExchangeEffect::End),
            // A step between two answers is like a request: its client learns of the outage, and can ask again.
            (ContinuationCause::HiddenCalls { .. }, ContinuationOutcome::Outage { .. }) => {
                self.end_with(ExchangeEffect::BreakOff)
            }
            // The client cannot go on in the middle of a text, so an outage is waited out.
            (_, ContinuationOutcome::Outage { asked_ms, now_ms }) => match self.outage_at(now_ms) {
                Some(outage) => vec![self.wait_to_continue(cause, outage, asked_ms)],
                None => self.end_with(ExchangeEffect::BreakOff),
            },
            // Without more room another attempt would be the same request.
            (ContinuationCause::Stop, ContinuationOutcome::TooLong)
                if !self.answer.is_without_room && self.answer.refusals < MAX_LENGTH_RETRIES =>
            {
                self.answer.refusals += 1;
                self.phase = ExchangePhase::MakingRoom;
                let refusals = self.answer.refusals;
                vec![ExchangeEffect::NoteRefusal, ExchangeEffect::MakeRoomForRest { refusals }]
            }
            (ContinuationCause::HiddenCalls { has_results: true }, ContinuationOutcome::TooLong) => {
                self.answer_hidden_calls(false)
            }
            // A refusal of the rest is final. The client keeps the answer so far, with the finish reason `length`.
            (ContinuationCause::Stop, ContinuationOutcome::TooLong | ContinuationOutcome::Refused) => {
                self.answer.is_window_exhausted = true;
                self.end_with(ExchangeEffect::EndForWindow)
            }
            (_, ContinuationOutcome::Started { is_from_own_end }) => self.go_on(cause, is_from_own_end),
            _ => self.end_with(ExchangeEffect::BreakOff),
        }
    }

    fn go_on(&mut self, cause: ContinuationCause, is_from_own_end: bool) -> Vec<ExchangeEffect> {
        let is_restart = cause == ContinuationCause::Stop;
        if is_restart {
            self.answer.continuations += u32::from(is_from_own_end);
            // Restarts from the answer's own end cost no summary and have a limit of their own (decision 0050).
            let is_spent = self.answer.restarts - self.answer.continuations >= MAX_RESTARTS;
            self.answer.is_window_exhausted |=
                self.answer.is_without_room || is_spent || self.answer.continuations >= MAX_CONTINUATIONS;
        }
        self.phase = ExchangePhase::Answering;
        vec![ExchangeEffect::GoOn { is_restart, is_last: self.answer.is_window_exhausted }]
    }

    /// Returns the outage with one more attempt, if the patience is not at its end.
    fn outage_at(&mut self, now_ms: u64) -> Option<OutageWait> {
        // After a stop the outage begins with the first failed request, not with the stop.
        let begun = OutageWait { began_ms: now_ms, attempt: 0 };
        let outage = self.answer.outage.get_or_insert(begun);
        let waited_ms = now_ms.saturating_sub(outage.began_ms);
        outage.attempt += 1;
        let is_patient = self.limits.retry.patience_ms.is_none_or(|patience_ms| waited_ms < patience_ms);
        Some(*outage).filter(|_| is_patient)
    }

    fn end_with(&mut self, effect: ExchangeEffect) -> Vec<ExchangeEffect> {
        self.phase = ExchangePhase::Ended;
        vec![effect]
    }
}
