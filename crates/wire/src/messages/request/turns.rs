//! The conversation, turn by turn: user and assistant alternate, tool results open a user turn.

use longhaul_core::message::{Message, Part, Role};
use serde::Serialize;

use super::super::MessagesConfig;
use super::assistant::{self, Manner, Said};
use super::names::Names;
use super::server_tools::Answered;
use super::user::{Block, Content, Shown};
use super::{Mark, Stale, invalid, thinking};
use crate::raw_json;
use crate::{ProviderError, Request, UNSUPPORTED};

/// The user turns that end with a mark: the one that was last in the request before, whose prefix is read from
/// the cache, and the last one, whose prefix is written.
const MARKED_TURNS: usize = 2;

/// A turn as it is written.
#[derive(Debug, Serialize)]
#[serde(tag = "role", rename_all = "lowercase")]
pub(super) enum Turn<'a> {
    User { content: Vec<Block<'a>> },
    Assistant { content: Vec<Said<'a>> },
}

/// All turns.
///
/// # Errors
/// `invalid-request` for a tool result whose call is not in the request, or which an assistant message holds.
pub(super) fn encode<'a>(
    request: &'a Request,
    config: &MessagesConfig,
    stale: Stale,
    mark: Option<Mark>,
) -> Result<Vec<Turn<'a>>, ProviderError> {
    let mut writer = Writer {
        shown: Shown::of(request, config),
        config,
        without_reasoning: thinking::leaves_reasoning_out(config, stale),
        answered: Answered::of(request),
        names: Names::default(),
        turns: Vec::new(),
        results: Vec::new(),
        others: Vec::new(),
    };
    let last = request.messages.len().saturating_sub(1);
    for (at, message) in request.messages.iter().enumerate() {
        match message.role {
            Role::Assistant => writer.assistant(message, at == last)?,
            Role::User | Role::Tool => writer.user(message)?,
        }
    }
    writer.flush();
    mark_last(&mut writer.turns, mark);
    Ok(writer.turns)
}

struct Writer<'a, 'c> {
    shown: Shown<'a>,
    config: &'c MessagesConfig,
    without_reasoning: bool,
    answered: Answered,
    names: Names<'a>,
    turns: Vec<Turn<'a>>,
    /// The user turn that is being put together: its tool results, and what follows those.
    results: Vec<Block<'a>>,
    others: Vec<Block<'a>>,
}

impl<'a> Writer<'a, '_> {
    fn user(&mut self, message: &'a Message) -> Result<(), ProviderError> {
        for part in &message.parts {
            if let Part::ToolResult(result) = part {
                let name = self.names.of(&result.call_id).ok_or_else(|| {
                    invalid(format!("the result of call `{}` has no call before it", result.call_id))
                })?;
                self.results.push(Block::new(self.shown.tool_result(name, result)));
            }
        }
        let others = message.parts.iter().filter(|part| !matches!(part, Part::ToolResult(_)));
        let mut contents = self.shown.contents(others);
        if contents.is_empty() && message.role == Role::User {
            contents.push(Content::Text { text: UNSUPPORTED.into() });
        }
        self.others.extend(contents.into_iter().map(Block::new));
        Ok(())
    }

    /// A message of which nothing can be sent leaves no turn: those around it are one.
    fn assistant(&mut self, message: &'a Message, last: bool) -> Result<(), ProviderError> {
        let own = raw_json::is_own(message, &self.config.origin());
        let manner = Manner { own, last, without_reasoning: self.without_reasoning };
        let parts = message.parts.iter().filter(|part| last || self.answered.allows(part));
        let mut said = assistant::blocks(parts, manner, &mut self.names)?;
        if said.is_empty() {
            return Ok(());
        }
        self.flush();
        match self.turns.last_mut() {
            Some(Turn::Assistant { content }) => content.append(&mut said),
            _ => self.turns.push(Turn::Assistant { content: said }),
        }
        Ok(())
    }

    /// Writes what waits as one user turn.
    fn flush(&mut self) {
        let mut content = std::mem::take(&mut self.results);
        content.append(&mut self.others);
        if !content.is_empty() {
            self.turns.push(Turn::User { content });
        }
    }
}

fn mark_last(turns: &mut [Turn<'_>], mark: Option<Mark>) {
    let ends = turns.iter_mut().rev().filter_map(|turn| match turn {
        Turn::User { content } => content.last_mut(),
        Turn::Assistant { .. } => None,
    });
    ends.take(MARKED_TURNS).for_each(|end| end.mark(mark));
}
