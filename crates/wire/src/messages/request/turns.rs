//! The encoder of the conversation, turn by turn: user and assistant alternate, and tool results open a user
//! turn.

use longhaul_core::message::{Message, Part, Role};
use serde::Serialize;

use super::super::MessagesConfig;
use super::assistant::{self, AssistantEncodeOptions, MessagesAssistantBlock};
use super::names::MessagesCallIdMap;
use super::server_tools::AnsweredServerCalls;
use super::user::{MessagesUserBlock, MessagesUserContent, MessagesUserEncoder};
use super::{MessagesCacheControl, StaleReasoningPolicy, invalid, thinking};
use crate::raw_json;
use crate::{ModelRequest, ProviderError, UNSUPPORTED};

/// The number of user turns with a mark at the end. The older mark ended the request before: the prefix up to there
/// is read from the cache. The newer mark ends the present request: the prefix up to there is written.
const MARKED_TURNS: usize = 2;

/// The text between two text blocks that become one text.
const BETWEEN_TEXTS: &str = "\n\n";

/// A turn in the request.
#[derive(Debug, Serialize)]
#[serde(tag = "role", rename_all = "lowercase")]
pub(super) enum MessagesRequestTurn<'a> {
    User {
        content: Vec<MessagesUserBlock<'a>>,
    },
    Assistant {
        content: Vec<MessagesAssistantBlock<'a>>,
    },
    /// A user turn of nothing but text, for servers that take no lists of text blocks.
    #[serde(rename = "user")]
    PlainUser {
        content: String,
    },
    /// An assistant turn of nothing but text, for the same servers.
    #[serde(rename = "assistant")]
    PlainAssistant {
        content: String,
    },
}

/// Returns all turns.
///
/// # Errors
/// `invalid-request` for a tool result without a call in the request, or in an assistant message.
pub(super) fn encode<'a>(
    request: &'a ModelRequest,
    config: &MessagesConfig,
    stale: StaleReasoningPolicy,
    mark: Option<MessagesCacheControl>,
) -> Result<Vec<MessagesRequestTurn<'a>>, ProviderError> {
    let mut writer = MessagesInputEncoder {
        shown: MessagesUserEncoder::of(request, config),
        config,
        without_reasoning: thinking::leaves_reasoning_out(config, stale),
        answered: AnsweredServerCalls::of(request),
        names: MessagesCallIdMap::default(),
        turns: Vec::new(),
        results: Vec::new(),
        others: Vec::new(),
    };
    // Saturating, because a request without messages is possible here and has no last one.
    let last = request.messages.len().saturating_sub(1);
    for (at, message) in request.messages.iter().enumerate() {
        match message.role {
            Role::Assistant => writer.assistant(message, at == last)?,
            Role::User | Role::Tool => writer.user(message)?,
        }
    }
    writer.flush();
    if config.adaptations.has_plain_texts {
        return Ok(writer.turns.into_iter().map(MessagesRequestTurn::into_plain).collect());
    }
    mark_last(&mut writer.turns, mark);
    Ok(writer.turns)
}

impl MessagesRequestTurn<'_> {
    /// Returns a turn of nothing but text as a plain turn, and any other turn unchanged.
    fn into_plain(self) -> Self {
        let plain = match &self {
            Self::User { content } => {
                let texts: Option<Vec<String>> = content.iter().map(MessagesUserBlock::plain_text).collect();
                texts.map(|texts| Self::PlainUser { content: texts.join(BETWEEN_TEXTS) })
            }
            Self::Assistant { content } => {
                let texts: Option<Vec<String>> =
                    content.iter().map(MessagesAssistantBlock::plain_text).collect();
                texts.map(|texts| Self::PlainAssistant { content: texts.join(BETWEEN_TEXTS) })
            }
            Self::PlainUser { .. } | Self::PlainAssistant { .. } => None,
        };
        plain.unwrap_or(self)
    }
}

struct MessagesInputEncoder<'a, 'c> {
    shown: MessagesUserEncoder<'a>,
    config: &'c MessagesConfig,
    without_reasoning: bool,
    answered: AnsweredServerCalls,
    names: MessagesCallIdMap<'a>,
    turns: Vec<MessagesRequestTurn<'a>>,
    /// The tool results of the unfinished user turn, and the blocks behind the results.
    results: Vec<MessagesUserBlock<'a>>,
    others: Vec<MessagesUserBlock<'a>>,
}

impl<'a> MessagesInputEncoder<'a, '_> {
    fn user(&mut self, message: &'a Message) -> Result<(), ProviderError> {
        for part in &message.parts {
            if let Part::ToolResult(result) = part {
                // The API knows a call by its own id, and refuses a result whose call it cannot find.
                let name = self.names.of(&result.call_id).ok_or_else(|| {
                    invalid(format!("the result of call `{}` has no call before it", result.call_id))
                })?;
                self.results.push(MessagesUserBlock::new(self.shown.tool_result(name, result)));
            }
        }
        let others = message.parts.iter().filter(|part| !matches!(part, Part::ToolResult(_)));
        let mut contents = self.shown.contents(others);
        // A user message without sendable content keeps its turn, so that roles still alternate.
        if contents.is_empty() && message.role == Role::User {
            contents.push(MessagesUserContent::Text { text: UNSUPPORTED.into() });
        }
        self.others.extend(contents.into_iter().map(MessagesUserBlock::new));
        Ok(())
    }

    /// Writes an assistant message. A message without anything to send leaves no turn, so the neighbours become a
    /// single turn.
    fn assistant(&mut self, message: &'a Message, last: bool) -> Result<(), ProviderError> {
        let own = raw_json::is_own(message, &self.config.origin());
        let manner = AssistantEncodeOptions { own, last, without_reasoning: self.without_reasoning };
        // In the last message a server's call may still await its result. Anywhere else the API refuses it.
        let parts = message.parts.iter().filter(|part| last || self.answered.allows(part));
        let mut said = assistant::blocks(parts, manner, &mut self.names)?;
        if said.is_empty() {
            return Ok(());
        }
        self.flush();
        // Roles alternate in this API, so the blocks join the assistant turn before.
        match self.turns.last_mut() {
            Some(MessagesRequestTurn::Assistant { content }) => content.append(&mut said),
            _ => self.turns.push(MessagesRequestTurn::Assistant { content: said }),
        }
        Ok(())
    }

    /// Writes the waiting blocks as a single user turn.
    fn flush(&mut self) {
        let mut content = std::mem::take(&mut self.results);
        // The API takes tool results only at the beginning of a user turn.
        content.append(&mut self.others);
        if !content.is_empty() {
            self.turns.push(MessagesRequestTurn::User { content });
        }
    }
}

fn mark_last(turns: &mut [MessagesRequestTurn<'_>], mark: Option<MessagesCacheControl>) {
    // Only user turns have marks, because a request ends with one, and the next request begins with the same.
    let ends = turns.iter_mut().rev().filter_map(|turn| match turn {
        MessagesRequestTurn::User { content } => content.last_mut(),
        _ => None,
    });
    ends.take(MARKED_TURNS).for_each(|end| end.mark(mark));
}
