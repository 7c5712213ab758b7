//! What a scripted model is told to say, and how it is told to fail.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use longhaul_core::error::ErrorCode;
use longhaul_core::message::{ModelStopReason, Part};
use longhaul_core::usage::Usage;

use super::ScriptedSummaries;
use crate::{ModelRequest, ProviderError};

/// Which turn of the script, from 0.
pub type CallIndex = u64;

type Closure = dyn Fn(&ModelRequest, CallIndex) -> Option<ScriptedAnswer> + Send + Sync;

/// What a scripted model says: a list of turns, or a closure.
#[derive(Clone)]
pub struct ModelScript(ScriptSource);

#[derive(Clone)]
enum ScriptSource {
    Turns(Arc<[ScriptedAnswer]>),
    Closure(Arc<Closure>),
}

impl ModelScript {
    /// One answer after the other. When all are used, calls fail with `third-party`.
    pub fn turns<A: Into<ScriptedAnswer>>(turns: impl IntoIterator<Item = A>) -> Self {
        Self(ScriptSource::Turns(turns.into_iter().map(Into::into).collect()))
    }

    /// Asks `answer` for each call. It returns a [`ScriptedAnswer`], or an `Option` of one: `None` leaves
    /// the request to the default summariser.
    pub fn closure<A: Into<Option<ScriptedAnswer>>>(
        answer: impl Fn(&ModelRequest, CallIndex) -> A + Send + Sync + 'static,
    ) -> Self {
        Self(ScriptSource::Closure(Arc::new(move |request, index| answer(request, index).into())))
    }

    /// The same answer for ever.
    pub fn always(answer: impl Into<ScriptedAnswer>) -> Self {
        let answer = answer.into();
        Self::closure(move |_, _| answer.clone())
    }

    pub(super) fn answer(&self, request: &ModelRequest, index: CallIndex) -> Option<ScriptedAnswer> {
        match &self.0 {
            ScriptSource::Turns(turns) => turns.get(usize::try_from(index).ok()?).cloned(),
            ScriptSource::Closure(answer) => answer(request, index),
        }
    }

    pub(super) fn is_list(&self) -> bool {
        matches!(self.0, ScriptSource::Turns(_))
    }

    pub(super) fn default_summaries(&self) -> Option<&'static ScriptedSummaries> {
        self.is_list().then_some(&ScriptedSummaries::Extract)
    }
}

impl fmt::Debug for ModelScript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            ScriptSource::Turns(turns) => f.debug_tuple("Turns").field(&turns.len()).finish(),
            ScriptSource::Closure(_) => f.write_str("Closure"),
        }
    }
}

/// One answer: what is said, how it ends, what is reported.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScriptedAnswer {
    /// What is said, in order.
    pub say: Vec<ScriptedPart>,
    /// Why the model stops; `None`: `tool-calls` if it calls tools, else `stop`. Running out of room is
    /// always `length`.
    pub finish: Option<ModelStopReason>,
    /// How it fails, if it does.
    pub fault: Option<ScriptedFault>,
    /// Time before each event.
    pub pace: Duration,
    /// What it reports as its usage.
    pub usage: ScriptedUsage,
}

/// A piece of an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum ScriptedPart {
    /// Text, streamed in pieces of words.
    Text(String),
    /// Reasoning, streamed in pieces of words.
    Reasoning(String),
    /// A tool call, its arguments streamed in pieces.
    Call {
        /// The tool.
        name: String,
        /// The arguments, sent as they are.
        arguments: String,
        /// The provider's id; `None`: one that is unique for this model.
        id: Option<String>,
    },
    /// A part as it is, at once.
    Part(Part),
}

/// What an answer reports as its usage.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum ScriptedUsage {
    /// What the model counted.
    #[default]
    Counted,
    /// Nothing.
    Missing,
    /// These numbers, right or wrong.
    Exactly(Usage),
}

/// A way to fail. `after` counts events; a fault always comes before the closing event.
#[derive(Clone, Debug, PartialEq)]
pub enum ScriptedFault {
    /// An HTTP error instead of a stream.
    Status {
        /// The HTTP status.
        status: u16,
        /// Its `Retry-After`.
        retry_after: Option<Duration>,
    },
    /// Any error instead of a stream.
    Refuse(Box<ProviderError>),
    /// The window is said to be too small, with the numbers that the error shall name.
    Overflow {
        /// Input tokens.
        used: Option<u64>,
        /// The window.
        limit: Option<u64>,
    },
    /// An error inside the stream.
    InBand {
        /// Events before it.
        after: usize,
        /// Its code.
        code: ErrorCode,
        /// Its text.
        message: String,
    },
    /// The stream ends without its closing event.
    Truncated {
        /// Events before it.
        after: usize,
    },
    /// The connection breaks.
    Disconnect {
        /// Events before it.
        after: usize,
    },
    /// Something arrives that is no event.
    Garbage {
        /// Events before it.
        after: usize,
    },
    /// Nothing more arrives, and the stream does not end.
    Stall {
        /// Events before it.
        after: usize,
    },
    /// A proper answer without any part.
    Empty,
    /// The answer is cut off and ends with `length`.
    Length {
        /// Tokens that are written before it.
        tokens: u64,
    },
    /// The answer ends with `length` in the middle of the arguments of its first tool call.
    CutArguments,
}

impl ScriptedAnswer {
    /// An answer that begins with text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::default().say(ScriptedPart::Text(text.into()))
    }

    /// An answer that begins with reasoning.
    pub fn reasoning(text: impl Into<String>) -> Self {
        Self::default().say(ScriptedPart::Reasoning(text.into()))
    }

    /// An answer that begins with a tool call.
    pub fn calling(name: impl Into<String>, arguments: impl Into<String>) -> Self {
        Self::default().call(name, arguments)
    }

    /// Goes on with `what`.
    #[must_use]
    pub fn say(mut self, what: ScriptedPart) -> Self {
        self.say.push(what);
        self
    }

    /// Goes on with text.
    #[must_use]
    pub fn then(self, text: impl Into<String>) -> Self {
        self.say(ScriptedPart::Text(text.into()))
    }

    /// Goes on with a tool call.
    #[must_use]
    pub fn call(self, name: impl Into<String>, arguments: impl Into<String>) -> Self {
        self.say(ScriptedPart::Call { name: name.into(), arguments: arguments.into(), id: None })
    }

    /// Goes on with a tool call that has this provider id, unique or not.
    #[must_use]
    pub fn call_as(
        self,
        id: impl Into<String>,
        name: impl Into<String>,
        arguments: impl Into<String>,
    ) -> Self {
        self.say(ScriptedPart::Call { name: name.into(), arguments: arguments.into(), id: Some(id.into()) })
    }

    /// Goes on with a part as it is.
    #[must_use]
    pub fn part(self, part: Part) -> Self {
        self.say(ScriptedPart::Part(part))
    }

    /// Ends for this reason.
    #[must_use]
    pub fn finish(mut self, finish: ModelStopReason) -> Self {
        self.finish = Some(finish);
        self
    }

    /// Fails this way.
    #[must_use]
    pub fn fail(mut self, fault: ScriptedFault) -> Self {
        self.fault = Some(fault);
        self
    }

    /// Waits this long before each event.
    #[must_use]
    pub fn pace(mut self, pace: Duration) -> Self {
        self.pace = pace;
        self
    }

    /// Reports this usage.
    #[must_use]
    pub fn usage(mut self, usage: ScriptedUsage) -> Self {
        self.usage = usage;
        self
    }

    /// The error that comes instead of a stream, if that is its fault.
    pub(super) fn refusal(&self) -> Option<ProviderError> {
        match self.fault.as_ref()? {
            ScriptedFault::Status { status, retry_after } => Some(from_status(*status, *retry_after)),
            ScriptedFault::Refuse(error) => Some((**error).clone()),
            ScriptedFault::Overflow { used, limit } => Some(super::overflow(*used, *limit, None)),
            _ => None,
        }
    }
}

impl From<&str> for ScriptedAnswer {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

impl From<String> for ScriptedAnswer {
    fn from(text: String) -> Self {
        Self::text(text)
    }
}

impl ScriptedFault {
    /// An HTTP error without `Retry-After`.
    pub fn status(status: u16) -> Self {
        Self::Status { status, retry_after: None }
    }

    /// The events before it and the error, for faults inside the stream.
    pub(super) fn in_stream(&self) -> Option<(usize, ProviderError)> {
        match self {
            Self::InBand { after, code, message } => Some((*after, ProviderError::new(*code, message))),
            Self::Truncated { after } => Some((
                *after,
                ProviderError::new(ErrorCode::TruncatedStream, "the stream ended without its closing event"),
            )),
            Self::Disconnect { after } => {
                Some((*after, ProviderError::new(ErrorCode::Network, "connection reset by peer")))
            }
            Self::Garbage { after } => Some((
                *after,
                ProviderError {
                    body: Some("<html>\u{fffd}\u{0}</htm".into()),
                    ..ProviderError::new(ErrorCode::ThirdParty, "the provider sent an event that is not JSON")
                },
            )),
            _ => None,
        }
    }
}

fn from_status(status: u16, retry_after: Option<Duration>) -> ProviderError {
    let code = match status {
        401 | 403 => ErrorCode::Auth,
        404 => ErrorCode::NotFound,
        408 | 504 => ErrorCode::Timeout,
        429 => ErrorCode::RateLimitExceeded,
        400..=499 => ErrorCode::InvalidRequest,
        _ => ErrorCode::ThirdParty,
    };
    let message = format!("scripted failure with status {status}");
    let body = super::error_body(&message, "scripted", None);
    ProviderError { status: Some(status), retry_after, body: Some(body), ..ProviderError::new(code, message) }
}
