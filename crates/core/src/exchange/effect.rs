//! The effects of an exchange: the work that the gateway has to do.

/// An effect of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExchangeEffect {
    /// Prepare the request for an upstream: find its conversation and make it fit. Ends with
    /// [`Prepared`](super::ExchangeInput::Prepared) or [`NotPrepared`](super::ExchangeInput::NotPrepared).
    Prepare {
        /// The index of the upstream.
        upstream: usize,
    },
    /// Prepare the request for the same upstream on a wire that it speaks.
    PrepareTranslated,
    /// Send the prepared request. Ends with [`Responded`](super::ExchangeInput::Responded) or
    /// [`NoResponse`](super::ExchangeInput::NoResponse).
    Send,
    /// Wait. Ends with [`WaitOver`](super::ExchangeInput::WaitOver).
    Wait {
        /// The time in milliseconds.
        ms: u64,
    },
    /// Look whether the request fits with a lower output limit. Ends with
    /// [`OutputLowered`](super::ExchangeInput::OutputLowered).
    LowerOutput,
    /// Shorten the conversation, and take back what was left out on a guess. Ends with
    /// [`Shortened`](super::ExchangeInput::Shortened).
    Shorten,
    /// Leave out the part that the upstream refuses. Ends with [`PartOmitted`](super::ExchangeInput::PartOmitted).
    OmitPart,
    /// Account for the response as one that the client does not get.
    DiscardResponse,
    /// Note that the answer may rest on a part of the request.
    ReportDoubt,
    /// Learn from the answer to a shortened request how the upstream counts.
    LearnCount,
    /// Note whether the upstream can be reached.
    NoteReachable(bool),
    /// Take the response for the client. Ends with [`Relayed`](super::ExchangeInput::Relayed).
    Relay,
    /// Give the client what was relayed.
    Deliver,
    /// Give the client the response of the upstream in the client's wire: the translated request failed, too.
    DeliverFirst,
    /// Give the client an error.
    Fail(ExchangeFailure),
    /// Leave the present stream, and keep what a next one needs.
    LeaveStream,
    /// Make room for the rest of the answer. Ends with
    /// [`RoomMadeForRest`](super::ExchangeInput::RoomMadeForRest).
    MakeRoomForRest {
        /// The number of times that the upstream has refused the rest for its length.
        refusals: u32,
    },
    /// Answer the hidden calls of the model.
    AnswerHiddenCalls {
        /// `true` if the results go along.
        has_results: bool,
    },
    /// Ask the upstream for the rest of the answer. Ends with [`Continued`](super::ExchangeInput::Continued).
    AskForRest,
    /// Account for a refused request for the rest.
    NoteRefusal,
    /// Read the next stream.
    GoOn {
        /// `true` if the answer was stopped at the end of the window.
        is_restart: bool,
        /// `true` if the answer is not stopped again.
        is_last: bool,
    },
    /// End the answer as complete.
    End,
    /// End the answer for its length, because the window is full.
    EndForWindow,
    /// End the answer with an error.
    BreakOff,
}

/// The reason of an error for the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExchangeFailure {
    /// The newest failure of an upstream is the reason.
    Newest,
    /// The upstream refused the request for its length, and nothing can be left out.
    TooLong,
    /// No upstream has the model.
    NoUpstream,
}
