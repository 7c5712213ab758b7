//! Scripts of a scripted model: answers and faults.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use longhaul_core::error::ErrorCode;
use longhaul_core::message::{ModelStopReason, Part};
use longhaul_core::usage::Usage;

use super::ScriptedSummaries;
use crate::{ModelRequest, ProviderError};

/// The index of a turn of the script, from 0.
pub type CallIndex = u64;

type Closure = dyn Fn(&ModelRequest, CallIndex) -> Option<ScriptedAnswer> + Send + Sync;

/// The source of a scripted model's answers: a list of turns, or a closure.
#[derive(Clone)]
pub struct ModelScript(ScriptSource);

#[derive(Clone)]
enum ScriptSource {
    Turns(Arc<[ScriptedAnswer]>),
    Closure(Arc<Closure>),
}

impl ModelScript {
    /// Creates a script of successive answers. After the last answer, calls fail with `third-party`.
    pub fn turns<A: Into<ScriptedAnswer>>(turns: impl IntoIterator<Item = A>) -> Self {
        Self(ScriptSource::Turns(turns.into_iter().map(Into::into).collect()))
    }

    /// Creates a script with the closure `answer` for each call. The closure returns a [`ScriptedAnswer`] or an
    /// `Option<ScriptedAnswer>`: `None` leaves the request to the default summariser.
    pub fn closure<A: Into<Option<ScriptedAnswer>>>(
        answer: impl Fn(&ModelRequest, CallIndex) -> A + Send + Sync + 'static,
    ) -> Self {
        Self(ScriptSource::Closure(Arc::new(move |request, index| answer(request, index).into())))
    }

    /// Creates a script with the same answer for every call.
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
        // A closure sees requests for summaries itself. A list would spend one of its turns on them.
        self.is_list().then_some(&ScriptedSummaries::Extract)
    }
}

impl fmt::Debug for ModelScript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            // A script may have thousands of turns, and each has whole answers.
            ScriptSource::Turns(turns) => f.debug_tuple("Turns").field(&turns.len()).finish(),
            ScriptSource::Closure(_) => f.write_str("Closure"),
        }
    }
}

/// An answer: content, end and reported usage.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ScriptedAnswer {
    /// The content, in order.
    pub say: Vec<ScriptedPart>,
    /// The stop reason; `None`: `tool-calls` if the answer calls tools, else `stop`. An answer without enough room
    /// always ends with `length`.
    pub finish: Option<ModelStopReason>,
    /// The fault of the answer, if any.
    pub fault: Option<ScriptedFault>,
    /// Time before each event.
    pub pace: Duration,
    /// The reported usage.
    pub usage: ScriptedUsage,
}

/// A piece of an answer.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ScriptedPart {
    /// Text, streamed in pieces of words.
    Text(String),
    /// Reasoning, streamed in pieces of words.
    Reasoning(String),
    /// A tool call, with arguments streamed in pieces.
    Call {
        /// The tool.
        name: String,
        /// The arguments, sent unchanged.
        arguments: String,
        /// The provider's id; `None`: a unique id within the model.
        id: Option<String>,
    },
    /// A finished part, sent at once.
    Part(Part),
}

/// The reported usage of an answer.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum ScriptedUsage {
    /// The usage counted by the model.
    #[default]
    Counted,
    /// No usage.
    Missing,
    /// The given numbers, right or wrong.
    Exactly(Usage),
}

/// A way to fail. `after` counts events; a fault always comes before the closing event.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ScriptedFault {
    /// An HTTP error instead of a stream.
    Status {
        /// The HTTP status.
        status: u16,
        /// The value of `Retry-After`.
        retry_after: Option<Duration>,
    },
    /// Any error instead of a stream.
    Refuse(Box<ProviderError>),
    /// An overflow error, with numbers.
    Overflow {
        /// Input tokens.
        used: Option<u64>,
        /// The window.
        limit: Option<u64>,
    },
    /// An error inside the stream.
    InBand {
        /// The number of events before the fault.
        after: usize,
        /// The code of the error.
        code: ErrorCode,
        /// The message of the error.
        message: String,
    },
    /// The stream ends without a closing event.
    Truncated {
        /// The number of events before the fault.
        after: usize,
    },
    /// The connection breaks.
    Disconnect {
        /// The number of events before the fault.
        after: usize,
    },
    /// The stream delivers other bytes than events.
    Garbage {
        /// The number of events before the fault.
        after: usize,
    },
    /// Nothing more arrives, and the stream does not end.
    Stall {
        /// The number of events before the fault.
        after: usize,
    },
    /// A proper answer without any part.
    Empty,
    /// The answer is cut off and ends with `length`.
    Length {
        /// The number of tokens before the cut.
        tokens: u64,
    },
    /// The answer ends with `length` in the middle of the arguments of the first tool call.
    CutArguments,
}

impl ScriptedAnswer {
    /// Creates an answer with text at the beginning.
    pub fn text(text: impl Into<String>) -> Self {
        Self::default().say(ScriptedPart::Text(text.into()))
    }

    /// Creates an answer with reasoning at the beginning.
    pub fn reasoning(text: impl Into<String>) -> Self {
        Self::default().say(ScriptedPart::Reasoning(text.into()))
    }

    /// Creates an answer with a tool call at the beginning.
    pub fn calling(name: impl Into<String>, arguments: impl Into<String>) -> Self {
        Self::default().call(name, arguments)
    }

    /// Appends a piece of an answer.
    #[must_use]
    pub fn say(mut self, what: ScriptedPart) -> Self {
        self.say.push(what);
        self
    }

    /// Appends text.
    #[must_use]
    pub fn then(self, text: impl Into<String>) -> Self {
        self.say(ScriptedPart::Text(text.into()))
    }

    /// Appends a tool call.
    #[must_use]
    pub fn call(self, name: impl Into<String>, arguments: impl Into<String>) -> Self {
        self.say(ScriptedPart::Call { name: name.into(), arguments: arguments.into(), id: None })
    }

    /// Appends a tool call with the provider's id `id`, unique or not.
    #[must_use]
    pub fn call_as(
        self,
        id: impl Into<String>,
        name: impl Into<String>,
        arguments: impl Into<String>,
    ) -> Self {
        self.say(ScriptedPart::Call { name: name.into(), arguments: arguments.into(), id: Some(id.into()) })
    }

    /// Appends a finished part.
    #[must_use]
    pub fn part(self, part: Part) -> Self {
        self.say(ScriptedPart::Part(part))
    }

    /// Sets the stop reason.
    #[must_use]
    pub fn finish(mut self, finish: ModelStopReason) -> Self {
        self.finish = Some(finish);
        self
    }

    /// Sets the fault.
    #[must_use]
    pub fn fail(mut self, fault: ScriptedFault) -> Self {
        self.fault = Some(fault);
        self
    }

    /// Sets the time before each event.
    #[must_use]
    pub fn pace(mut self, pace: Duration) -> Self {
        self.pace = pace;
        self
    }

    /// Sets the reported usage.
    #[must_use]
    pub fn usage(mut self, usage: ScriptedUsage) -> Self {
        self.usage = usage;
        self
    }

    /// Returns the error in place of a stream, for faults before the stream.
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
    /// Creates an HTTP error without `Retry-After`.
    pub fn status(status: u16) -> Self {
        Self::Status { status, retry_after: None }
    }

    /// Returns the number of events before the fault and the error, for faults inside the stream.
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
