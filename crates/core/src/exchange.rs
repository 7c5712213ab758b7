//! One proxied request as a pure state machine: [`Exchange::handle`] takes an input and returns the effects to
//! perform.
//!
//! A gateway creates one `Exchange` for each request of a client. The exchange decides which upstream is asked, what
//! follows a refusal, a failure or a broken answer, and when an answer is stopped at the end of the window and goes on.
//! The gateway performs the effects in order and feeds the outcomes back. It decides nothing that a later attempt
//! depends on.
//!
//! An exchange has two halves. Until the client has received something, a response may be discarded and the request
//! sent again with less (`requesting`). After that the answer can only be continued (`answering`). Both halves share
//! their rules with a session's [`Run`](crate::run::Run) through [`attempt`](crate::attempt).
//!
//! Requests on the client's wire and translated requests take the same way: the exchange knows facts about a response,
//! and no wire.

mod answer_state;
mod effect;
mod input;
mod request_state;
#[cfg(test)]
mod tests;

pub use effect::{ExchangeEffect, ExchangeFailure};
pub use input::{
    ContinuationOutcome, ExchangeInput, OverflowFacts, PassingFailure, RelayOutcome, ResponseFacts,
    ShorteningOutcome, StreamBreak, UpstreamFailure,
};

use answer_state::AnswerState;
use request_state::RequestState;

use crate::attempt::RetryPolicy;

/// The limits of one exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExchangeLimits {
    /// The number of upstreams with the requested model, the preferred one first.
    pub upstreams: usize,
    /// The limits for repetitions.
    pub retry: RetryPolicy,
}

/// The state machine of one proxied request.
#[derive(Clone, Debug)]
pub struct Exchange {
    limits: ExchangeLimits,
    phase: ExchangePhase,
    /// The index of the upstream that is asked now.
    upstream: usize,
    /// The upstream with the largest window among those that were too small.
    largest: Option<SmallUpstream>,
    /// `true` if no other upstream is left, so that this one must do with the room that it has.
    is_last_resort: bool,
    /// `true` while the request is translated because the upstream seemed to lack the path of the client's wire.
    is_wire_fallback: bool,
    /// The number of answers of the present upstream that failed before the client had received anything.
    broken_answers: u32,
    request: RequestState,
    answer: AnswerState,
}

/// An upstream without room for the parts of a request that must stay whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SmallUpstream {
    /// The index of the upstream.
    upstream: usize,
    /// The window in tokens.
    window_tokens: u64,
}

/// The phases of an exchange. Each phase but the last waits for one kind of input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExchangePhase {
    /// Nothing has happened yet.
    New,
    /// The request is prepared for the upstream.
    Preparing,
    /// The request is on its way.
    Sending,
    /// A response may mean that the request was too long. A lower output limit is tried first.
    LoweringOutput(ResponseFacts),
    /// The conversation is shortened.
    Shortening(ResponseFacts),
    /// The part that the upstream refuses is looked for.
    OmittingPart(ResponseFacts),
    /// The request waits before it is repeated.
    Waiting,
    /// The request waits before it is prepared again, because its attempt is used up.
    WaitingToPrepare,
    /// The response goes to the client.
    Relaying,
    /// The client receives the answer.
    Answering,
    /// Room is made for the rest of an answer.
    MakingRoom,
    /// The upstream is given time before it is asked for the rest.
    WaitingToContinue(ContinuationCause),
    /// The upstream is asked for the rest.
    Continuing(ContinuationCause),
    /// The exchange is over.
    Ended,
}

/// The reason why an answer goes on in another stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ContinuationCause {
    /// The stream broke off.
    Break,
    /// The answer was stopped at the end of the window.
    Stop,
    /// The model called tools that the gateway answers.
    HiddenCalls {
        /// `true` if the results go along. Where they have no room the model is told so instead.
        has_results: bool,
    },
}

impl Exchange {
    /// Creates an exchange before its first input.
    pub fn new(limits: ExchangeLimits) -> Self {
        Self {
            limits,
            phase: ExchangePhase::New,
            upstream: 0,
            largest: None,
            // A single upstream has no other beside it.
            is_last_resort: limits.upstreams < 2,
            is_wire_fallback: false,
            broken_answers: 0,
            request: RequestState::new(false),
            answer: AnswerState::default(),
        }
    }

    /// Returns whether the exchange is over.
    pub fn is_over(&self) -> bool {
        self.phase == ExchangePhase::Ended
    }

    /// Returns whether the request may still be repeated with a shorter conversation.
    ///
    /// A gateway holds the first bytes of a stream back only while this is so.
    pub fn may_shorten(&self) -> bool {
        self.request.may_shorten()
    }

    /// Returns whether the newest message may be cut for the present upstream.
    ///
    /// The message stays whole while another upstream may have room for it. A gateway then fails the preparation
    /// with [`UpstreamFailure::TooSmall`].
    pub fn may_cut_newest(&self) -> bool {
        self.is_last_resort
    }

    /// Returns the number of compactions in the middle of the answer.
    pub fn restarts(&self) -> u32 {
        self.answer.restarts
    }

    /// Returns the number of the answer's streams that broke off.
    pub fn broken_streams(&self) -> u32 {
        self.answer.broken_streams
    }

    /// Returns whether no more room can be made for the answer.
    pub fn is_window_exhausted(&self) -> bool {
        self.answer.is_window_exhausted
    }

    /// Takes an input and returns the effects to perform, in order.
    ///
    /// An input that does not belong to the present phase changes nothing and returns no effect.
    pub fn handle(&mut self, input: ExchangeInput) -> Vec<ExchangeEffect> {
        match self.phase {
            ExchangePhase::Answering
            | ExchangePhase::MakingRoom
            | ExchangePhase::WaitingToContinue(_)
            | ExchangePhase::Continuing(_) => self.handle_answer(input),
            // The outcome of an effect may arrive after the client has left.
            ExchangePhase::Ended => Vec::new(),
            _ => self.handle_request(input),
        }
    }
}
