//! Edits of a client's requests and answers in place, behind one interface for all dialects.
//!
//! A *dialect* is a wire that the gateway's clients may speak: Chat Completions, Responses or Messages. The gateway
//! works with a [`WireCodec`] and need not know which one it is.
//!
//! A request's bytes are read once into a [`RequestEnvelope`] of ranges. New messages are read item by item into
//! [`ItemSegment`]s. [`WireCodec::render_request`] writes a changed request with as many of the client's own bytes as
//! possible. A [`StreamParser`] reads a stream event by event, and a [`StreamMerger`] makes an answer of two streams.

use std::ops::Range;

use bytes::Bytes;
use longhaul_core::message::{ModelStopReason, Part, ToolSpec};
use longhaul_core::usage::Usage;

pub(crate) mod canonical;
pub mod deferral;
pub mod envelope;
pub mod ephemeral;
mod error_form;
mod gateway_error;
pub mod hidden;
pub(crate) mod insertion;
pub mod media;
pub(crate) mod openai_error;
pub(crate) mod overlap;
pub mod patch;
pub(crate) mod repetition_filter;
pub mod request_parts;
pub mod tool_parameters;

pub use crate::messages::PromptCacheTtl;
pub use crate::sse::{SseEvent, SseReader};
pub use envelope::RequestEnvelope;
pub use error_form::{error_in_answer, is_error_event_of, is_error_of};
pub use gateway_error::{GatewayError, GatewayErrorKind};
pub use hidden::{AnsweredToolCall, HiddenCallReplay, ModelStep};

/// A wire that the gateway's clients may speak.
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
    /// Returns the dialect's name in [`ModelOrigin::api`](longhaul_core::message::ModelOrigin::api).
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Chat => "openai-chat",
            Self::Responses => "openai-responses",
            Self::Messages => "anthropic-messages",
        }
    }

    /// Returns the path below an upstream's base URL (which ends with `/v1` as a rule).
    pub fn path(self) -> &'static str {
        match self {
            Self::Chat => "/chat/completions",
            Self::Responses => "/responses",
            Self::Messages => "/messages",
        }
    }
}

/// The codec of a dialect: its requests, answers and errors. Each function depends on the arguments only.
pub trait WireCodec: Send + Sync {
    /// Returns the dialect of this codec.
    fn dialect(&self) -> Dialect;

    /// Parses a request into the ranges of its fields. Messages are not parsed.
    ///
    /// # Errors
    /// [`ParseError`] if the request is not a JSON object or a needed field has another form.
    fn parse_request(&self, bytes: Bytes) -> Result<RequestEnvelope, ParseError>;

    /// Parses a request that continues the earlier request `known`, without reading the common beginning again. `None`
    /// if the request does not continue `known`: [`parse_request`](Self::parse_request) must read it whole.
    fn parse_continued_request(&self, bytes: &Bytes, known: &RequestEnvelope) -> Option<RequestEnvelope>;

    /// Parses items into segments, in order. The outer list is as long as `items`; the model is not shown an item
    /// without a segment. `items` are the client's JSON texts; `before` is the number of earlier items.
    ///
    /// # Errors
    /// [`ParseError`] for an item outside of the dialect.
    fn parse_segments(&self, items: &[&str], before: usize) -> Result<Vec<Vec<ItemSegment>>, ParseError>;

    /// Returns the fixed content: the system prompt outside of the items, and the tools.
    ///
    /// # Errors
    /// [`ParseError`] if the system prompt or the tools have another form.
    fn fixed_content(&self, envelope: &RequestEnvelope) -> Result<FixedContent, ParseError>;

    /// Appends the canonical form of an item to `out`: the form stays the same when a client sends the item again.
    /// The form has no whitespace, sorted keys, no cache marks, and nothing of [`ephemeral`]. `index` is the item's
    /// position.
    ///
    /// # Errors
    /// [`ParseError`] if the item is no JSON.
    fn write_canonical_item(&self, item: &str, index: usize, out: &mut Vec<u8>) -> Result<(), ParseError>;

    /// Returns the request with `edited`'s changes. Every other byte is the client's, and nothing before the
    /// first change differs. Without a change the result is the request.
    ///
    /// # Errors
    /// [`ParseError`] if a change cannot be expressed.
    fn render_request(&self, envelope: &RequestEnvelope, edited: &RequestEdit) -> Result<Bytes, ParseError>;

    /// Returns a parser for a stream in the dialect.
    fn stream_parser(&self) -> Box<dyn StreamParser>;

    /// Returns a merger of several streams into one.
    fn stream_merger(&self) -> Box<dyn StreamMerger>;

    /// Parses a whole answer (not a stream); `None` for other content.
    fn parse_answer(&self, body: &[u8]) -> Option<PartialResponse>;

    /// Returns the whole answer of a stream's events, with every field of an unstreamed answer. `None` if the events
    /// end before the answer does.
    fn collect_answer(&self, events: &[Bytes]) -> Option<Bytes>;

    /// Returns a whole answer as the events of a stream. `None` if `body` is no answer.
    fn write_answer_events(&self, body: &[u8]) -> Option<AnswerEvents>;

    /// Returns the model's step in a whole answer, in the form of a request. `None` if `answer` is no answer.
    fn parse_model_step(&self, answer: &[u8]) -> Option<ModelStep>;

    /// Returns a model's item with `text` before the item's own text. `None` if the dialect cannot express the
    /// change.
    fn prepend_text(&self, item: &str, text: &str) -> Option<String>;

    /// Returns the items of a model's step with `calls` in place of the step's own calls, in order: ids and
    /// arguments. Arguments are objects in a request, whatever the model wrote.
    fn replace_calls(&self, items: Vec<String>, calls: &[PartialToolCall]) -> Vec<String>;

    /// Returns the items with the results of calls.
    fn write_tool_results(&self, answered: &[AnsweredToolCall]) -> Vec<String>;

    /// Returns a whole answer without the calls of a tool. `None` if the answer has no list of calls.
    fn remove_calls(&self, answer: &[u8], tool: &str) -> Option<Bytes>;

    /// Returns an error as the body of an answer.
    fn error_body(&self, fault: &GatewayError) -> Bytes;

    /// Returns an error inside a begun stream, with every event at the end of the stream.
    fn error_event(&self, fault: &GatewayError) -> Bytes;

    /// Returns an error inside a stream whose content so far is known. A dialect with the answer's name in errors
    /// uses the answer's id.
    fn error_event_after(&self, fault: &GatewayError, _seen: &PartialResponse) -> Bytes {
        self.error_event(fault)
    }
}

/// An unreadable request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ParseError {
    /// The mistake, worded for the client.
    pub message: String,
    /// The field with the mistake, if the mistake is in a single field: `messages`, `messages[3].content`.
    pub param: Option<String>,
}

impl ParseError {
    /// Creates an error about the request as a whole.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), param: None }
    }

    /// Creates an error about a single field.
    pub fn field(param: impl Into<String>, message: impl Into<String>) -> Self {
        Self { message: message.into(), param: Some(param.into()) }
    }

    pub(crate) fn inexpressible_tool_choice() -> Self {
        Self::field("tool_choice", "this `tool_choice` cannot be expressed for this model's server")
    }
}

/// A part of a client's item, to be kept or left out separately. As a rule an item is a single segment. An item of
/// the Messages dialect with results and text has a segment for each result and another for the text.
#[derive(Clone, Debug, PartialEq)]
pub enum ItemSegment {
    /// A system prompt among the items. Always kept.
    System(Vec<Part>),
    /// A person's typed text.
    Typed(Vec<Part>),
    /// User-role content not typed by a person: reminders of the client, our own summaries from earlier requests.
    Note(Vec<Part>),
    /// A summary in place of all earlier content, which the client has received from another server and sends back. The
    /// wire has a form of its own for it, so no text of a person can pass for one.
    Summary(Vec<Part>),
    /// Content of the model. Tool calls have the client's ids as `call_id` and `provider_id`.
    Assistant(Vec<Part>),
    /// A tool's answer.
    Result {
        /// The call of the result, under the client's id.
        call: String,
        /// `true` if the result reports an error.
        failed: bool,
        /// The content of the result.
        content: Vec<Part>,
    },
}

/// The content of every request of a conversation beside the items.
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
    /// The model's new name, if changed.
    pub model: Option<String>,
    /// The new output limit in tokens, if changed.
    pub max_output: Option<u64>,
    /// The new value of `stream`, if changed.
    pub stream: Option<bool>,
    /// `true` if the server is asked to report usage in the stream although the client did not ask.
    pub include_usage: bool,
    /// The operations for the new list of items, if the items change.
    pub steps: Option<Vec<RenderOp>>,
    /// The beginning of the answer, for the model to continue.
    pub prefill: Option<AnswerPrefill>,
    /// `true` if a message asks the model to continue the prefill, because the server does not continue by itself.
    pub asks_to_go_on: bool,
    /// A tool of ours, beside the client's.
    pub tool: Option<ToolSpec>,
    /// `true` if the model must call no tool, whatever the request says about tools.
    pub forbids_calls: bool,
    /// Calls hidden from the client. The calls are put back into the client's copies of the model's steps.
    pub replays: Vec<HiddenCallReplay>,
    /// The conversation's `prompt_cache_key`, if the client set none and the server takes one.
    pub cache_key: Option<String>,
    /// The life of the prompt cache, for a mark on the whole request in the Messages dialect. Only for a client that
    /// set no mark.
    pub cache_mark: Option<PromptCacheTtl>,
    /// Items of this dialect behind all others: the model's hidden steps, with their results.
    pub rounds: Vec<String>,
}

/// The message to a model to go on with an answer.
pub const GO_ON: &str = "Your answer above was cut off to make room. Go on with it exactly where it ends, in the \
    middle of a sentence if need be. Repeat nothing of it, do not begin anew, and say nothing about the interruption.";

impl RequestEdit {
    /// Reports whether the edit changes nothing.
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    /// Reports whether the edit changes the list of items.
    pub(crate) fn changes_items(&self) -> bool {
        let adds = !self.replays.is_empty() || !self.rounds.is_empty();
        self.steps.is_some() || self.prefill.is_some() || adds
    }
}

/// An operation for writing the list of items again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RenderOp {
    /// Items with the client's bytes.
    Keep(Range<usize>),
    /// An item in another form.
    Rewrite {
        /// The index of the item.
        item: usize,
        /// The item.
        text: String,
    },
    /// An item with edited segments: an edit for each segment of [`WireCodec::parse_segments`]. At least one segment is
    /// kept or shown.
    Change {
        /// The index of the item.
        item: usize,
        /// The edit of each segment.
        fates: Vec<SegmentEdit>,
    },
    /// A user-role message of our own: a summary or a note. Where roles must alternate, the message is merged with
    /// the next user-role item, else with the item before.
    Say(String),
}

/// The edit of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SegmentEdit {
    /// The segment keeps the client's bytes.
    Keep,
    /// The segment is left out.
    Drop,
    /// The segment stays with the text as the only content.
    Show(String),
}

/// The beginning of an answer, as streamed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AnswerPrefill {
    /// The text of the beginning.
    pub text: String,
    /// `true` if the upstream continues a last assistant message only on request (vLLM:
    /// `continue_final_message`).
    pub must_be_told: bool,
}

/// The parsed part of an answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PartialResponse {
    /// The upstream's id of the answer.
    pub id: Option<String>,
    /// The text so far.
    pub text: String,
    /// The readable reasoning so far.
    pub reasoning: String,
    /// The begun tool calls, with the name and arguments so far.
    pub calls: Vec<PartialToolCall>,
    /// `true` if the model sent content of another kind: a picture, sound, a search, a second choice.
    pub has_other: bool,
    /// The position of the stream.
    pub position: StreamPosition,
    /// The model's stop reason, once reported.
    pub finish: Option<ModelStopReason>,
    /// The newest report of usage.
    pub usage: Option<Usage>,
    /// An error inside the stream, as JSON text.
    pub error: Option<String>,
    /// `true` once the stream's end has been read (`[DONE]`, `message_stop`, `response.completed`).
    pub over: bool,
    /// The number of the newest event, where the dialect numbers events.
    pub number: Option<u64>,
}

impl PartialResponse {
    /// Returns the number of bytes of the model's whole output.
    pub fn written_bytes(&self) -> usize {
        let calls = self.calls.iter().map(|call| call.name.len() + call.arguments.len());
        self.text.len() + self.reasoning.len() + calls.sum::<usize>()
    }

    /// Reports whether the model has sent nothing so far.
    pub fn is_empty(&self) -> bool {
        self.written_bytes() == 0 && self.calls.is_empty() && !self.has_other
    }

    /// Returns the answer so far as parts of a message, in the form of a client's next request.
    pub fn parts(&self) -> Vec<Part> {
        // Reasoning is left out, because many clients do not send it back.
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

/// A whole answer as the events of a stream, for a [`StreamMerger`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AnswerEvents {
    /// The events of the content, from the beginning of the answer on.
    pub content: Vec<Bytes>,
    /// The events that end the answer, with its stop reason and its usage.
    pub end: Vec<Bytes>,
}

/// A tool call with the pieces so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartialToolCall {
    /// The id of the call.
    pub id: String,
    /// The name of the tool.
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
    /// In the text: the only place for cutting an answer.
    Text,
    /// In reasoning.
    Reasoning,
    /// In a tool call, or after a call. An answer with a begun call cannot be continued.
    Call,
}

/// A parser of a passing stream. The parser ignores unknown events.
pub trait StreamParser: Send {
    /// Parses an event.
    fn read(&mut self, event: &SseEvent<'_>);

    /// Returns the part parsed so far.
    fn seen(&self) -> &PartialResponse;
}

/// A merger of several upstream streams into a single answer: a single id, start and finish, indices without gaps, no
/// repeated text.
///
/// Every event of a stream is passed in order; between two streams the caller calls
/// [`begin_next_stream`](Self::begin_next_stream). The first stream's events come out unchanged, except for the end
/// of the answer. The end is held back until the caller confirms the end of the answer ([`end`](Self::end)).
pub trait StreamMerger: Send {
    /// Passes an event of the present stream, with the empty line (`raw`). Appends to `out` the bytes for the client.
    fn pass_event(&mut self, raw: &[u8], out: &mut Vec<u8>);

    /// Leaves the present stream, ended or not, and forgets the held-back end. `prefill` is the text for the next
    /// stream to continue, without whitespace at the end. If the next stream begins by repeating `prefill`, the
    /// repetition is left out.
    fn begin_next_stream(&mut self, prefill: &str);

    /// Leaves the present stream if a message asks the model to continue `said`. `gap` is the whitespace due next. A
    /// repetition of the end of `said` is left out. The first text is held back until a repetition is ruled out or
    /// complete.
    fn begin_requested_stream(&mut self, said: &str, gap: &str);

    /// Writes a notice of ours into the open text, if a text is open. The client is shown the notice;
    /// [`seen`](Self::seen) does not contain the notice.
    fn notice(&mut self, text: &str, out: &mut Vec<u8>);

    /// Hides calls of `tool`, too, from the client and from [`seen`](Self::seen), from now on.
    fn hide_tool(&mut self, tool: &'static str);

    /// Reports whether the present stream has begun a hidden call.
    fn has_hidden(&self) -> bool;

    /// Ends the present stream but not the answer: the next stream begins another step of the answer. Appends the
    /// held-back events, except for the end.
    fn next_step(&mut self, out: &mut Vec<u8>);

    /// Ends the answer with `text`, because hidden calls of the present stream stay unanswered. The client sees an
    /// answer with `text` and without calls. [`end`](Self::end) follows.
    fn end_with_text(&mut self, text: &str, out: &mut Vec<u8>);

    /// Ends the answer. Appends the held-back end. If the stream was left and has none, appends an end with the
    /// finish reason for an output limit. The usage at the end has the input of the newest stream and the output of
    /// all streams. Of the output, `output_tokens_before` were counted in earlier streams.
    fn end(&mut self, output_tokens_before: u64, out: &mut Vec<u8>);

    /// Returns the parsed part of the whole answer.
    fn seen(&self) -> &PartialResponse;
}
