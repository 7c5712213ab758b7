//! What the three dialects have in common, for everybody who does not care which it is.
//!
//! A request's bytes are read once into an [`RequestEnvelope`], ranges only; what is not known yet of its messages is read
//! item by item into [`ItemSegment`]s; [`WireCodec::render`] writes a request again with as many of the client's own bytes as
//! possible. Streams are read event by event by a [`StreamParser`], and two of them made one by a [`StreamMerger`].

use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use longhaul_core::message::{ModelStopReason, Part, ToolSpec};
use longhaul_core::usage::Usage;

pub mod canonical;
pub mod deferral;
pub mod envelope;
pub mod ephemeral;
pub mod hidden;
pub mod insertion;
pub mod media;
pub mod overlap;
pub mod patch;
pub mod repetition_filter;
pub mod request_parts;

pub use crate::sse::{SseEvent, SseReader};
pub use envelope::RequestEnvelope;
pub use hidden::{AnsweredToolCall, HiddenCallReplay, ModelStep};

/// A wire that clients of the gateway speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dialect {
    /// OpenAI's Chat Completions: `/v1/chat/completions`.
    Chat,
    /// OpenAI's Responses: `/v1/responses`.
    Responses,
    /// Anthropic's Messages: `/v1/messages`.
    Messages,
}

impl Dialect {
    /// As it is named in [`ModelOrigin::api`](longhaul_core::message::ModelOrigin::api).
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Chat => "openai-chat",
            Self::Responses => "openai-responses",
            Self::Messages => "anthropic-messages",
        }
    }

    /// The path below an upstream's base URL (which ends with `/v1` as a rule).
    pub fn path(self) -> &'static str {
        match self {
            Self::Chat => "/chat/completions",
            Self::Responses => "/responses",
            Self::Messages => "/messages",
        }
    }
}

/// The functions of one dialect. Each depends on its arguments only.
pub trait WireCodec: Send + Sync {
    /// Which one.
    fn dialect(&self) -> Dialect;

    /// Parses a request into the ranges of its fields. Messages are not parsed.
    ///
    /// # Errors
    /// [`ParseError`] if it is no JSON object or a field that is needed has another form.
    fn read(&self, bytes: Bytes) -> Result<RequestEnvelope, ParseError>;

    /// Parses a request that begins like one that was parsed before; `None` if it must be read whole.
    fn parse_continued_request(&self, bytes: &Bytes, known: &RequestEnvelope) -> Option<RequestEnvelope>;

    /// Parses items into segments, in order: the outer list is as long as `items`, an item without any segment is one that the
    /// model is not shown. `items` are JSON texts as the client wrote them; `before` is how many items precede them.
    ///
    /// # Errors
    /// [`ParseError`] if one is no item of this dialect.
    fn segments(&self, items: &[&str], before: usize) -> Result<Vec<Vec<ItemSegment>>, ParseError>;

    /// The system prompt that stands outside of the items, and the tools: what counts as fixed.
    ///
    /// # Errors
    /// [`ParseError`] if one of them has another form.
    fn fixed_content(&self, envelope: &RequestEnvelope) -> Result<FixedContent, ParseError>;

    /// The form of an item that stays the same when a client sends it again: no whitespace, keys in order, no cache
    /// marks, nothing of [`ephemeral`]. `index` is its place among the items. Appends to `out`.
    ///
    /// # Errors
    /// [`ParseError`] if it is no JSON.
    fn write_canonical_item(&self, item: &str, index: usize, out: &mut Vec<u8>) -> Result<(), ParseError>;

    /// The request with `edited`'s changes: everything else is the client's bytes, and nothing before the first
    /// change differs. Without any change it is the request.
    ///
    /// # Errors
    /// [`ParseError`] if a change cannot be expressed.
    fn render(&self, envelope: &RequestEnvelope, edited: &RequestEdit) -> Result<Bytes, ParseError>;

    /// A reader for a stream in this dialect.
    fn stream_parser(&self) -> Box<dyn StreamParser>;

    /// Returns a merger that makes one stream of several.
    fn stream_merger(&self) -> Box<dyn StreamMerger>;

    /// Parses a whole answer (not a stream); `None` if it is no answer.
    fn answer(&self, body: &[u8]) -> Option<PartialResponse>;

    /// The whole answer that a stream's events make, and what else a client that asked for no stream would have been
    /// told. `None` if they end before the answer does.
    fn collect(&self, events: &[Bytes]) -> Option<Bytes>;

    /// The model's step in a whole answer, as a request has it. `None` if it is no answer.
    fn step(&self, answer: &[u8]) -> Option<ModelStep>;

    /// An item of the model's with text before its own. `None` if that cannot be expressed.
    fn with_text_before(&self, item: &str, text: &str) -> Option<String>;

    /// Items of a step of the model's with its calls, in order, as they are given here: ids and arguments, which are
    /// objects in a request whatever the model wrote.
    fn with_calls_of(&self, items: Vec<String>, calls: &[PartialToolCall]) -> Vec<String>;

    /// The items that answer calls.
    fn results(&self, answered: &[AnsweredToolCall]) -> Vec<String>;

    /// A whole answer without the calls of a tool. `None` if it has no list of calls.
    fn without_calls(&self, answer: &[u8], tool: &str) -> Option<Bytes>;

    /// An error as the body of an answer.
    fn error(&self, fault: &GatewayError) -> Bytes;

    /// An error inside a stream that has begun, with everything that ends the stream.
    fn error_event(&self, fault: &GatewayError) -> Bytes;

    /// Writes an error inside a stream whose content so far is known: a dialect that names its answer names it in the error too.
    fn error_event_after(&self, fault: &GatewayError, _seen: &PartialResponse) -> Bytes {
        self.error_event(fault)
    }
}

/// A request that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ParseError {
    /// The mistake, in words for the client.
    pub message: String,
    /// The field, if it is one: `messages`, `messages[3].content`.
    pub param: Option<String>,
}

impl ParseError {
    /// The request as a whole.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), param: None }
    }

    /// Creates an error about one field.
    pub fn field(param: impl Into<String>, message: impl Into<String>) -> Self {
        Self { message: message.into(), param: Some(param.into()) }
    }
}

/// A part of a client's item that can be kept or left out by itself. As a rule an item is one piece; an item of the
/// Messages dialect with results and text is one piece for each result and one for the text.
#[derive(Clone, Debug, PartialEq)]
pub enum ItemSegment {
    /// A system prompt among the items. Always kept.
    System(Vec<Part>),
    /// Text that a person typed.
    Typed(Vec<Part>),
    /// User-role content that no person typed: reminders of the client, our own summaries that come back.
    Note(Vec<Part>),
    /// Content of the model. Tool calls have the client's ids as `call_id` and `provider_id`.
    Assistant(Vec<Part>),
    /// A tool's answer.
    Result {
        /// The call it answers, as the client names it.
        call: String,
        /// Whether it reports an error.
        failed: bool,
        /// The content of the result.
        content: Vec<Part>,
    },
}

/// The content that every request of a conversation carries beside its items.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FixedContent {
    /// The system prompt outside of the items; empty for none.
    pub system: String,
    /// The tools.
    pub tools: Vec<ToolSpec>,
}

/// The changes to make in a request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RequestEdit {
    /// The model's name, if it is another.
    pub model: Option<String>,
    /// The output limit in tokens, if it is another.
    pub max_output: Option<u64>,
    /// The new value of `stream`, if it changes.
    pub stream: Option<bool>,
    /// Whether the server is asked to report usage in the stream although the client did not ask.
    pub include_usage: bool,
    /// The items, if they are others.
    pub steps: Option<Vec<RenderOp>>,
    /// The beginning of the answer that the model is to go on with.
    pub prefill: Option<AnswerPrefill>,
    /// Whether the model is asked in words to go on with it: its server does not by itself.
    pub asks_to_go_on: bool,
    /// A tool of ours, beside the client's.
    pub tool: Option<ToolSpec>,
    /// Whether the model may call no tool at all, whatever the request says of that.
    pub forbids_calls: bool,
    /// Calls that the client was not shown, put back into the steps of the model's that it has.
    pub replays: Vec<HiddenCallReplay>,
    /// The conversation's `prompt_cache_key`, where the client set none and the server takes one.
    pub cache_key: Option<String>,
    /// Items of this dialect behind all others: steps of the model's that the client is not shown, with their results.
    pub rounds: Vec<String>,
}

/// The message that asks a model to go on with an answer.
pub const GO_ON: &str = "Your answer above was cut off to make room. Go on with it exactly where it ends, in the \
    middle of a sentence if need be. Repeat nothing of it, do not begin anew, and say nothing about the interruption.";

impl RequestEdit {
    /// Returns whether nothing changes.
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    /// Returns whether the list of items is another.
    pub(crate) fn changes_items(&self) -> bool {
        let adds = !self.replays.is_empty() || !self.rounds.is_empty();
        self.steps.is_some() || self.prefill.is_some() || adds
    }
}

/// One operation that writes the list of items again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RenderOp {
    /// These items as the client wrote them.
    Keep(Range<usize>),
    /// This item in another form.
    Rewrite {
        /// Which item.
        item: usize,
        /// The item.
        text: String,
    },
    /// This item with edited segments: one edit for each that [`WireCodec::segments`] gave. At least one is kept or shown.
    Change {
        /// Which item.
        item: usize,
        /// The edit of each segment.
        fates: Vec<SegmentEdit>,
    },
    /// A user-role message of our own: a summary, a note. Merged with an item in a person's place that follows, else
    /// with one that precedes, where roles must alternate.
    Say(String),
}

/// The edit of one segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SegmentEdit {
    /// It stays as it is.
    Keep,
    /// It goes.
    Drop,
    /// It stays, but this is its only content.
    Show(String),
}

/// The beginning of an answer, as it was streamed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AnswerPrefill {
    /// Its text.
    pub text: String,
    /// The upstream goes on with a last assistant message only when told so (vLLM: `continue_final_message`).
    pub must_be_told: bool,
}

/// The part of an answer that has been parsed so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PartialResponse {
    /// The upstream's name of the answer.
    pub id: Option<String>,
    /// The text, all of it.
    pub text: String,
    /// The readable reasoning, all of it.
    pub reasoning: String,
    /// The tool calls that were begun: name and arguments as far as they came.
    pub calls: Vec<PartialToolCall>,
    /// Whether the model gave anything that is none of these: a picture, sound, a search, a second choice.
    pub has_other: bool,
    /// The position of the stream.
    pub position: StreamPosition,
    /// Why the model stopped, once that was said.
    pub finish: Option<ModelStopReason>,
    /// The newest report of usage.
    pub usage: Option<Usage>,
    /// An error inside the stream, as JSON text.
    pub error: Option<String>,
    /// Whether the stream's own end has been read (`[DONE]`, `message_stop`, `response.completed`).
    pub over: bool,
    /// The number of the newest event, where the dialect numbers them.
    pub number: Option<u64>,
}

impl PartialResponse {
    /// Bytes of everything that the model wrote.
    pub fn written_bytes(&self) -> usize {
        let calls = self.calls.iter().map(|call| call.name.len() + call.arguments.len());
        self.text.len() + self.reasoning.len() + calls.sum::<usize>()
    }

    /// Returns whether the model has given nothing, so far.
    pub fn is_empty(&self) -> bool {
        self.written_bytes() == 0 && self.calls.is_empty() && !self.has_other
    }

    /// The answer as parts of a message: what a client sends back, as far as it was said.
    pub fn parts(&self) -> Vec<Part> {
        let text = (!self.text.is_empty()).then(|| Part::text(self.text.as_str()));
        let calls = self.calls.iter().map(|call| {
            Part::ToolCall(longhaul_core::message::ToolCall {
                call_id: call.id.as_str().into(),
                name: call.name.clone(),
                arguments: call.arguments.clone(),
                provider_id: Some(call.id.clone()),
                native: None,
            })
        });
        text.into_iter().chain(calls).collect()
    }
}

/// A tool call as far as it was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartialToolCall {
    /// Its id.
    pub id: String,
    /// The tool.
    pub name: String,
    /// The arguments so far.
    pub arguments: String,
}

/// The position of a stream in an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StreamPosition {
    /// Before the first word, or between blocks.
    #[default]
    Nothing,
    /// In the text: the one place where an answer may be cut.
    Text,
    /// In reasoning.
    Reasoning,
    /// In a tool call, or after one: what was begun with it cannot be continued.
    Call,
}

/// A parser that reads a stream as it passes. It ignores unknown events.
pub trait StreamParser: Send {
    /// Parses one event.
    fn read(&mut self, event: &SseEvent<'_>);

    /// Returns the part that was parsed so far.
    fn seen(&self) -> &PartialResponse;
}

/// A merger that makes one answer of several upstream streams: one id, one start, indices without gaps, one finish, no repeated text.
///
/// Of each stream every event is passed through in order; between two streams [`begin_next_stream`](Self::begin_next_stream) is called. The
/// first stream's events come out as they went in, except that the end of the answer is held back until it is known
/// that the answer really ends there ([`end`](Self::end)).
pub trait StreamMerger: Send {
    /// Passes one event of the present stream, as it came with its empty line (`raw`): appends to `out` what the client is
    /// shown of it.
    fn pass_event(&mut self, raw: &[u8], out: &mut Vec<u8>);

    /// The present stream was left, whether it had ended or not. What was held back of its end is forgotten. `prefill`
    /// is what the next stream was told to go on with, but for whitespace at its end: if it begins by repeating that, the
    /// repetition is left out.
    fn begin_next_stream(&mut self, prefill: &str);

    /// Leaves the present stream where the model was only asked to go on with `said`; `gap` is the whitespace that was about to come. What
    /// it repeats of the end is left out, and what comes first is held back as long as that is not known.
    fn begin_requested_stream(&mut self, said: &str, gap: &str);

    /// Says something of ours in the text that is open, if one is: the client is shown it, [`seen`](Self::seen) has it
    /// not.
    fn notice(&mut self, text: &str, out: &mut Vec<u8>);

    /// From now on calls of this tool, too, are neither shown nor seen.
    fn hide_tool(&mut self, tool: &'static str);

    /// Returns whether the present stream has begun a call that is not shown.
    fn has_hidden(&self) -> bool;

    /// The present stream is over and the answer is not: the next one begins another step of it. Appends what was held
    /// back of this one but its end.
    fn next_step(&mut self, out: &mut Vec<u8>);

    /// The present stream is over, and calls of it that are not shown are not answered: the answer ends with this text,
    /// as if the model had said it and called nothing. [`end`](Self::end) follows.
    fn end_with_text(&mut self, text: &str, out: &mut Vec<u8>);

    /// The answer is over. Appends what was held back of its end, or if there is none (the stream was left) an end
    /// with the finish reason for an output limit. Usage in it: input as the newest stream reported, output the sum of
    /// all streams, of which `output_tokens_before` were counted in streams that were left.
    fn end(&mut self, output_tokens_before: u64, out: &mut Vec<u8>);

    /// Returns the part of the whole answer that was parsed.
    fn seen(&self) -> &PartialResponse;
}

/// An error of the gateway, before it is written in a dialect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayError {
    /// The status of an answer that is only this error.
    pub status: StatusCode,
    /// The kind of error.
    pub kind: GatewayErrorKind,
    /// The message for the client: plain, with numbers.
    pub message: String,
    /// The field it is about.
    pub param: Option<String>,
    /// When the upstream wants to be asked again, if it said so.
    pub retry_after: Option<Duration>,
}

/// Kinds of errors, as far as the dialects tell them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GatewayErrorKind {
    /// The request has a mistake.
    Invalid,
    /// It cannot be made to fit the window.
    ContextOverflow,
    /// Nothing can be left out to make the request fit. Clients that shorten by themselves and try again must not take it
    /// for [`ContextOverflow`](Self::ContextOverflow): they would do so without end.
    DoesNotFit,
    /// No credential, or a wrong one.
    Auth,
    /// Whoever it is may not ask that here.
    Forbidden,
    /// No such model.
    NotFound,
    /// Something else that the request names is not there.
    Absent,
    /// No such path.
    NoSuchPath,
    /// The path takes another method.
    WrongMethod,
    /// The body comes in a form that is not read.
    Unsupported,
    /// Whoever goes on from an answer goes on from one that is not known.
    NoSuchAnswer,
    /// The body is too large.
    TooLarge,
    /// The body came to a stop.
    TooSlow,
    /// Too many requests.
    RateLimit,
    /// The upstream cannot be reached, or broke off.
    Unreachable,
    /// The upstream did not answer in time.
    Timeout,
    /// The upstream's answer makes no sense.
    Upstream,
    /// It cannot be done here now, and may be soon.
    Unavailable,
    /// The fault is ours.
    Internal,
}

impl GatewayErrorKind {
    /// The usual status.
    pub fn status(self) -> StatusCode {
        match self {
            Self::Invalid | Self::ContextOverflow | Self::DoesNotFit | Self::NoSuchAnswer => {
                StatusCode::BAD_REQUEST
            }
            Self::Auth => StatusCode::UNAUTHORIZED,
            Self::Forbidden => StatusCode::FORBIDDEN,
            Self::NotFound | Self::Absent | Self::NoSuchPath => StatusCode::NOT_FOUND,
            Self::WrongMethod => StatusCode::METHOD_NOT_ALLOWED,
            Self::Unsupported => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::TooSlow => StatusCode::REQUEST_TIMEOUT,
            Self::RateLimit => StatusCode::TOO_MANY_REQUESTS,
            Self::Unreachable | Self::Upstream => StatusCode::BAD_GATEWAY,
            Self::Timeout => StatusCode::GATEWAY_TIMEOUT,
            Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// Our own stable name of it, `code` where a dialect has one. Clients of OpenAI know `context_length_exceeded`.
    pub fn code(self) -> &'static str {
        match self {
            Self::Invalid => "invalid_request",
            Self::ContextOverflow => "context_length_exceeded",
            Self::DoesNotFit => "prompt_does_not_fit",
            Self::Auth => "invalid_api_key",
            Self::Forbidden => "permission_denied",
            Self::NotFound => "model_not_found",
            Self::Absent => "not_found",
            Self::NoSuchPath => "unknown_url",
            Self::WrongMethod => "method_not_supported",
            Self::Unsupported => "unsupported_media_type",
            Self::NoSuchAnswer => "previous_response_not_found",
            Self::TooLarge => "request_too_large",
            Self::TooSlow => "request_timeout",
            Self::RateLimit => "rate_limit_exceeded",
            Self::Unreachable => "upstream_unreachable",
            Self::Timeout => "upstream_timeout",
            Self::Upstream => "upstream_error",
            Self::Unavailable => "unavailable",
            Self::Internal => "internal_error",
        }
    }
}

impl GatewayError {
    /// With the usual status.
    pub fn new(kind: GatewayErrorKind, message: impl Into<String>) -> Self {
        Self { status: kind.status(), kind, message: message.into(), param: None, retry_after: None }
    }
}

impl From<ParseError> for GatewayError {
    fn from(bad: ParseError) -> Self {
        Self { param: bad.param, ..Self::new(GatewayErrorKind::Invalid, bad.message) }
    }
}
