//! The inputs of an exchange: outcomes of its effects, and events of the upstream's stream.

use crate::attempt::UnnamedRefusal;

/// An input of an exchange: the outcome of an effect, or something that the upstream did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExchangeInput {
    /// The exchange starts.
    Begin,
    /// The request is ready for the upstream.
    Prepared {
        /// `true` if the conversation may be shortened. With compaction off the client owns it.
        can_shorten: bool,
    },
    /// The request cannot be prepared for the upstream.
    NotPrepared(UpstreamFailure),
    /// The conversation of a request that was sent unread is known.
    Read {
        /// `true` if the conversation may be shortened.
        can_shorten: bool,
    },
    /// The upstream responded.
    Responded(ResponseFacts),
    /// The upstream did not respond, or its response broke off before the client received any part.
    NoResponse {
        /// The kind of the failure.
        failure: UpstreamFailure,
        /// `true` if the answer had begun.
        broke_off: bool,
        /// The wait that the upstream asks for, in milliseconds.
        asked_ms: Option<u64>,
    },
    /// Tells whether a lower output limit makes the request fit.
    OutputLowered(bool),
    /// The conversation was shortened, or not.
    Shortened(ShorteningOutcome),
    /// Tells whether a part was found that the upstream may have refused.
    PartOmitted(bool),
    /// A wait is over.
    WaitOver,
    /// The response was taken for the client.
    Relayed(RelayOutcome),
    /// The answer's stream broke off.
    StreamBroke(StreamBreak),
    /// The answer has reached the end of the window, and the client wants more.
    WindowFilled,
    /// The model has called only tools that the gateway answers.
    HiddenCallsMade,
    /// Tells whether room was made for the rest of the answer.
    RoomMadeForRest(bool),
    /// The request for the rest of the answer has an outcome.
    Continued(ContinuationOutcome),
    /// The answer has ended as its upstream ended it.
    AnswerEnded,
}

/// The kind of an upstream's failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpstreamFailure {
    /// There is no connection.
    Unreachable,
    /// The upstream is overloaded, broken or silent. Another one may do better.
    Temporary,
    /// The upstream's window has no room for the parts of the request that must stay whole. Another one may have room.
    TooSmall {
        /// The window of the upstream, in tokens.
        window_tokens: u64,
    },
    /// Every upstream would fail in the same way.
    Final,
}

/// The facts about a response that decide what follows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResponseFacts {
    /// The sign of an overlong request, if there is one.
    pub overflow: Option<OverflowFacts>,
    /// `true` if the response is a refusal in which a part of the request may be at fault.
    pub is_refusal: bool,
    /// `true` if a client can be given the response.
    pub is_for_client: bool,
    /// `true` if the response is a complete answer.
    pub is_whole_answer: bool,
    /// The error that stands in the answer's place, if the same request may succeed a little later.
    pub passing_failure: Option<PassingFailure>,
    /// The sizes of the requests, if the response is a refusal that names neither a part nor a limit. A refusal without
    /// any reason is one of them.
    pub unnamed_refusal: Option<UnnamedRefusal>,
    /// `true` if the request was refused without each single suspect, so that the next guess has several results.
    pub has_tried_singles: bool,
}

/// An error inside an answer that may be gone when the request is sent again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PassingFailure {
    /// The wait that the upstream asks for, in milliseconds.
    pub asked_ms: Option<u64>,
}

/// The facts about a sign of an overlong request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OverflowFacts {
    /// `true` if the upstream says so. Otherwise the counts of an answer suggest it.
    pub is_said: bool,
    /// `true` if the response is an answer that the client can have if nothing can be left out.
    pub is_usable: bool,
    /// `true` if the upstream seems to have read only a part of the request.
    pub is_truncation: bool,
}

/// The outcome of a shortening.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShorteningOutcome {
    /// The request is shorter.
    Shorter,
    /// Nothing can be left out.
    NothingLeft,
    /// The shortening failed.
    Failed(UpstreamFailure),
}

/// The outcome of taking a response for the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelayOutcome {
    /// The model called only tools that the gateway answers, so it is asked once more.
    HiddenCalls,
    /// A response or the beginning of a stream is ready for the client.
    Ready {
        /// `true` if the answer's stream goes on.
        is_stream: bool,
        /// The failure that the response reports, if it is no answer.
        failure: Option<UpstreamFailure>,
        /// `true` if the upstream may lack the path of the client's wire, and has not been asked in another one.
        lacks_path: bool,
    },
    /// The response turned out to be no answer.
    Failed(UpstreamFailure),
    /// A collected answer broke off. The client waits for the whole answer, and has received nothing.
    BrokeOff {
        /// The kind of the failure.
        failure: UpstreamFailure,
        /// The wait that the upstream asks for, in milliseconds.
        asked_ms: Option<u64>,
    },
}

/// The facts about a broken stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamBreak {
    /// `true` if a further stream can be joined to the answer: it has no call, no second choice and no end.
    pub is_joinable: bool,
    /// `true` if the answer ends in visible text.
    pub ends_in_text: bool,
    /// `true` if the answer has neither text nor reasoning yet.
    pub is_blank: bool,
    /// The wait that the upstream asks for, in milliseconds.
    pub asked_ms: Option<u64>,
    /// The present time, in milliseconds.
    pub now_ms: u64,
}

/// The outcome of a request for the rest of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContinuationOutcome {
    /// The next stream has begun.
    Started {
        /// `true` if only the answer's own beginning was left out for it.
        is_from_own_end: bool,
    },
    /// The client's output limit is reached.
    LimitReached,
    /// The upstream refuses the request for its length.
    TooLong,
    /// The upstream refuses to continue.
    Refused,
    /// The upstream is unreachable or too busy for now.
    Outage {
        /// The wait that the upstream asks for, in milliseconds.
        asked_ms: Option<u64>,
        /// The present time, in milliseconds.
        now_ms: u64,
    },
    /// The upstream failed in another way.
    Failed,
}

impl RelayOutcome {
    /// Returns the outcome of a stream that begins like an answer.
    pub fn stream() -> Self {
        Self::Ready { is_stream: true, failure: None, lacks_path: false }
    }
}
