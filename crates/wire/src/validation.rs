//! The rules that every real provider enforces on a request, as one pure function.
//!
//! The scripted provider refuses requests that break the rules. The property tests of the layers above use the
//! rules as their oracle: a real provider would have answered such a view with 400.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use longhaul_core::message::{Message, Part, Role, ToolCall};
use serde::de::IgnoredAny;

use crate::ModelRequest;

/// A rule that a request breaks. `index` counts the messages of the request from 0.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RequestViolation {
    /// The request has no message.
    #[error("messages: at least one message is required")]
    NoMessages,
    /// The conversation does not begin with a user message.
    #[error("messages.0: first message must have role user, not {0:?}")]
    FirstNotUser(Role),
    /// The conversation ends with the model's own words.
    #[error("messages.{index}: last message must be from the user or a tool")]
    LastNotInput {
        /// The index of the message.
        index: usize,
    },
    /// Two messages of one author in a row.
    #[error("messages.{index}: two {role:?} messages in a row must be merged")]
    NotMerged {
        /// The index of the second message.
        index: usize,
        /// The author of both messages.
        role: Role,
    },
    /// A message without content.
    #[error("messages.{index}: content must not be empty")]
    Empty {
        /// The index of the message.
        index: usize,
    },
    /// A part that this role may not have.
    #[error("messages.{index}: a {role:?} message must not hold a part of type {part}")]
    WrongPart {
        /// The index of the message.
        index: usize,
        /// The author of the message.
        role: Role,
        /// The part's type.
        part: &'static str,
    },
    /// Two calls of one message have one id.
    #[error("messages.{index}: call ids must be unique, found `{call}` twice")]
    DuplicateCall {
        /// The index of the message.
        index: usize,
        /// The id.
        call: String,
    },
    /// A call without a tool name.
    #[error("messages.{index}: call `{call}` names no tool")]
    NamelessCall {
        /// The index of the message.
        index: usize,
        /// The id.
        call: String,
    },
    /// A call's arguments are not one JSON object.
    #[error("messages.{index}: arguments of call `{call}` must be a JSON object")]
    Arguments {
        /// The index of the message.
        index: usize,
        /// The id.
        call: String,
    },
    /// A call without an answer.
    #[error("messages.{index}: call `{call}` was found without a result directly after it")]
    Unanswered {
        /// The index of the assistant message.
        index: usize,
        /// The id.
        call: String,
    },
    /// An answer without a call in the assistant message before it.
    #[error("messages.{index}: result `{call}` answers no call of the message before it")]
    Unasked {
        /// The index of the tool message.
        index: usize,
        /// The id.
        call: String,
    },
    /// An answer whose position differs from its call's position.
    #[error("messages.{index}: result `{found}` is out of order, expected `{expected}`")]
    OutOfOrder {
        /// The index of the tool message.
        index: usize,
        /// The id of the call whose turn it was.
        expected: String,
        /// The id of the call that was answered.
        found: String,
    },
    /// A picture or file whose bytes are not part of the request.
    #[error("messages.{index}: no bytes for media {hash}")]
    MissingMedia {
        /// The index of the message.
        index: usize,
        /// The blob's hash.
        hash: String,
    },
    /// A tool without a name, or two of one name.
    #[error("tools.{index}: name `{name}` is empty or used twice")]
    ToolName {
        /// The tool's position, from 0.
        index: usize,
        /// The tool's name.
        name: String,
    },
    /// A tool whose parameters are not a JSON object.
    #[error("tools.{index}: parameters of `{name}` must be a JSON object")]
    ToolParameters {
        /// The tool's position, from 0.
        index: usize,
        /// The tool's name.
        name: String,
    },
    /// The output limit is 0.
    #[error("max_output_tokens: must be at least 1")]
    NoOutput,
}

impl RequestViolation {
    /// Returns the index of the message with the violation, from 0, if one message has it.
    pub fn index(&self) -> Option<usize> {
        match self {
            Self::NoMessages | Self::ToolName { .. } | Self::ToolParameters { .. } | Self::NoOutput => None,
            Self::FirstNotUser(_) => Some(0),
            Self::LastNotInput { index }
            | Self::NotMerged { index, .. }
            | Self::Empty { index }
            | Self::WrongPart { index, .. }
            | Self::DuplicateCall { index, .. }
            | Self::NamelessCall { index, .. }
            | Self::Arguments { index, .. }
            | Self::Unanswered { index, .. }
            | Self::Unasked { index, .. }
            | Self::OutOfOrder { index, .. }
            | Self::MissingMedia { index, .. } => Some(*index),
        }
    }
}

/// Checks every rule.
///
/// # Errors
/// The first [`RequestViolation`], in message order.
pub fn check(request: &ModelRequest) -> Result<(), RequestViolation> {
    check_prefill(request)?;
    match request.messages.iter().enumerate().next_back() {
        Some((index, last)) if last.role == Role::Assistant => Err(RequestViolation::LastNotInput { index }),
        _ => Ok(()),
    }
}

/// Checks every rule but one: the last message may be the beginning of the model's own answer. Some providers
/// continue such a message (assistant prefill).
///
/// # Errors
/// The first [`RequestViolation`], in message order.
pub fn check_prefill(request: &ModelRequest) -> Result<(), RequestViolation> {
    // Anthropic and most chat templates refuse a conversation that the model begins.
    let first = request.messages.first().ok_or(RequestViolation::NoMessages)?;
    if first.role != Role::User {
        return Err(RequestViolation::FirstNotUser(first.role));
    }
    let mut open = UnansweredToolCalls::default();
    let mut before = None;
    for (index, message) in request.messages.iter().enumerate() {
        check_message(index, message, request)?;
        // Before the check of merged messages: a missing result is the cause, and two messages in a row may follow from
        // it.
        open.pass(index, message)?;
        check_merged(index, message.role, before)?;
        before = Some(message.role);
    }
    // The calls of the last answer need their results too, even if nothing follows.
    open.close()?;
    check_tools(request)?;
    if request.max_output_tokens == Some(0) { Err(RequestViolation::NoOutput) } else { Ok(()) }
}

fn check_merged(index: usize, role: Role, before: Option<Role>) -> Result<(), RequestViolation> {
    // Each result may be a message of its own, so several tool messages may follow each other.
    if role != Role::Tool && before == Some(role) {
        return Err(RequestViolation::NotMerged { index, role });
    }
    Ok(())
}

fn check_message(index: usize, message: &Message, request: &ModelRequest) -> Result<(), RequestViolation> {
    // Anthropic refuses a message without content, and one with nothing but blanks.
    if message.parts.iter().all(is_empty) {
        return Err(RequestViolation::Empty { index });
    }
    for part in &message.parts {
        if !allowed(message.role, part) {
            return Err(RequestViolation::WrongPart { index, role: message.role, part: type_of(part) });
        }
        check_media(index, part, request)?;
    }
    check_calls(index, message)
}

fn check_calls(index: usize, message: &Message) -> Result<(), RequestViolation> {
    let mut seen = BTreeSet::new();
    for call in message.tool_calls() {
        // Results name their call by its id alone.
        if !seen.insert(&call.call_id) {
            return Err(RequestViolation::DuplicateCall { index, call: call.call_id.to_string() });
        }
        if call.name.is_empty() {
            return Err(RequestViolation::NamelessCall { index, call: call.call_id.to_string() });
        }
        // Providers parse the arguments of earlier calls again. Text that is no object is refused with every later
        // request.
        if !is_object(&call.arguments) {
            return Err(RequestViolation::Arguments { index, call: call.call_id.to_string() });
        }
    }
    Ok(())
}

fn check_media(index: usize, part: &Part, request: &ModelRequest) -> Result<(), RequestViolation> {
    match part {
        Part::Image(media) | Part::File(media)
            if !request.media.contains_key(&media.blob.hash)
                && !request.links.contains_key(&media.blob.hash) =>
        {
            Err(RequestViolation::MissingMedia { index, hash: media.blob.hash.clone() })
        }
        // Pictures may stand inside a result, and need their bytes there as well.
        Part::ToolResult(result) => check_result_content(index, &result.content, request),
        _ => Ok(()),
    }
}

fn check_result_content(
    index: usize,
    content: &[Part],
    request: &ModelRequest,
) -> Result<(), RequestViolation> {
    for part in content {
        if !matches!(part, Part::Text(_) | Part::Image(_) | Part::File(_)) {
            return Err(RequestViolation::WrongPart { index, role: Role::Tool, part: type_of(part) });
        }
        check_media(index, part, request)?;
    }
    Ok(())
}

fn check_tools(request: &ModelRequest) -> Result<(), RequestViolation> {
    let mut seen = BTreeSet::new();
    for (index, tool) in request.tools.iter().enumerate() {
        if tool.name.is_empty() || !seen.insert(&tool.name) {
            return Err(RequestViolation::ToolName { index, name: tool.name.clone() });
        }
        if !is_object(tool.parameters.as_str()) {
            return Err(RequestViolation::ToolParameters { index, name: tool.name.clone() });
        }
    }
    Ok(())
}

/// The calls that wait for their results, in order.
#[derive(Default)]
struct UnansweredToolCalls<'a> {
    /// The assistant message that made them.
    index: usize,
    calls: Vec<&'a ToolCall>,
    answered: usize,
}

impl<'a> UnansweredToolCalls<'a> {
    fn pass(&mut self, index: usize, message: &'a Message) -> Result<(), RequestViolation> {
        if message.role == Role::Tool {
            return message.parts.iter().try_for_each(|part| self.answer(index, part));
        }
        self.close()?;
        *self = Self { index, calls: message.tool_calls().collect(), answered: 0 };
        Ok(())
    }

    fn answer(&mut self, index: usize, part: &Part) -> Result<(), RequestViolation> {
        let Part::ToolResult(result) = part else { return Ok(()) };
        // A result of a later call is only out of order. A result of no open call answers nothing.
        let known = self.calls.iter().skip(self.answered).any(|call| call.call_id == result.call_id);
        match self.calls.get(self.answered) {
            Some(next) if next.call_id == result.call_id => {
                self.answered += 1;
                Ok(())
            }
            Some(next) if known => Err(RequestViolation::OutOfOrder {
                index,
                expected: next.call_id.to_string(),
                found: result.call_id.to_string(),
            }),
            _ => Err(RequestViolation::Unasked { index, call: result.call_id.to_string() }),
        }
    }

    fn close(&self) -> Result<(), RequestViolation> {
        match self.calls.get(self.answered) {
            Some(call) => {
                Err(RequestViolation::Unanswered { index: self.index, call: call.call_id.to_string() })
            }
            None => Ok(()),
        }
    }
}

fn allowed(role: Role, part: &Part) -> bool {
    match part {
        Part::Reasoning(_) | Part::ToolCall(_) => role == Role::Assistant,
        Part::ToolResult(_) => role == Role::Tool,
        // Content of a tool stands inside its result, which names the call.
        _ => role != Role::Tool,
    }
}

fn is_empty(part: &Part) -> bool {
    match part {
        // An item of the provider's own goes back as it came, and may have no text.
        Part::Text(text) => text.text.trim().is_empty() && text.native.is_none(),
        Part::Reasoning(reasoning) => reasoning.text.is_empty() && reasoning.native.is_none(),
        _ => false,
    }
}

/// Returns the part's type as the store names it.
pub(crate) fn type_of(part: &Part) -> &'static str {
    match part {
        Part::Text(_) => "text",
        Part::Reasoning(_) => "reasoning",
        Part::ToolCall(_) => "tool-call",
        Part::ToolResult(_) => "tool-result",
        Part::Image(_) => "image",
        Part::File(_) => "file",
        Part::Opaque(_) => "opaque",
        _ => "part",
    }
}

fn is_object(json: &str) -> bool {
    // A map of ignored values checks the whole text without keeping it.
    serde_json::from_str::<BTreeMap<Cow<'_, str>, IgnoredAny>>(json).is_ok()
}

#[cfg(test)]
mod tests;
