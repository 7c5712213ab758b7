//! Assembly of tool calls from their pieces.

use longhaul_core::ids::CallId;
use longhaul_core::message::{RawJson, ToolCall};

use super::super::response::ChatResponseToolCall;
use super::arguments::PartialArguments;
use crate::answer_size::MAX_TOOL_NAME_BYTES;
use crate::{AnswerTooLarge, ModelEvent, surrogates};

/// The calls of an answer, in the order of their beginnings.
#[derive(Debug, Default)]
pub(super) struct ChatCallAssembler(Vec<PartialChatCall>);

#[derive(Debug)]
struct PartialChatCall {
    /// The server's index. Servers give several calls the same index, or none.
    index: Option<i64>,
    id: Option<String>,
    name: String,
    arguments: PartialArguments,
    extra: Option<String>,
}

impl ChatCallAssembler {
    /// Adds a piece to the right call. Returns the call's index, and `true` if the call just began.
    ///
    /// # Errors
    /// [`AnswerTooLarge::ToolName`].
    pub(super) fn add(&mut self, piece: &ChatResponseToolCall<'_>) -> Result<(usize, bool), AnswerTooLarge> {
        let found = self.find(piece);
        let at = found.unwrap_or_else(|| {
            self.0.push(PartialChatCall {
                index: piece.index,
                id: None,
                name: String::new(),
                arguments: PartialArguments::default(),
                extra: None,
            });
            self.0.len() - 1
        });
        self.0[at].extend(piece)?;
        Ok((at, found.is_none()))
    }

    /// Returns the progress of a call added by [`add`](Self::add). `None` before the arguments begin: more of the
    /// name may come.
    pub(super) fn event(&self, index: usize, delta: String) -> Option<ModelEvent> {
        let PartialChatCall { name, arguments, .. } = &self.0[index];
        let name = Some(name.clone()).filter(|name| !name.is_empty());
        (!arguments.is_empty()).then_some(ModelEvent::ToolInput { index, name, delta })
    }

    /// Reports whether the arguments of a call are JSON already.
    pub(super) fn is_complete(&self, index: usize) -> bool {
        self.0[index].is_complete()
    }

    /// Reports whether the arguments of every call are JSON already.
    pub(super) fn are_complete(&self) -> bool {
        self.0.iter().all(PartialChatCall::is_complete)
    }

    /// Reports whether no call is in the form of today.
    pub(super) fn are_deprecated(&self) -> bool {
        self.0.iter().all(|call| call.index == Some(ChatResponseToolCall::DEPRECATED_INDEX))
    }

    pub(super) fn part(&self, index: usize) -> ToolCall {
        let call = &self.0[index];
        // Some servers give no ids, but a result must refer to its call.
        let id = call.id.clone().unwrap_or_else(|| format!("call_{index}"));
        ToolCall {
            call_id: CallId::new(id),
            name: call.name.clone(),
            arguments: surrogates::in_arguments(call.arguments.as_str().to_owned()),
            provider_id: call.id.clone(),
            native: call.extra.as_ref().map(|extra| RawJson(format!("{{\"extra_content\":{extra}}}"))),
        }
    }

    /// Returns the call continued by a piece; `None` if the piece begins another call.
    fn find(&self, piece: &ChatResponseToolCall<'_>) -> Option<usize> {
        let id = piece.id();
        let candidate = match (piece.index, &id) {
            // Without an index only the id tells the calls apart.
            (None, Some(id)) => return self.0.iter().rposition(|call| call.id.as_ref() == Some(id)),
            // A piece with neither index nor id can only continue the newest call.
            (None, None) => self.0.len().checked_sub(1),
            (Some(_), _) => self.0.iter().rposition(|call| call.index == piece.index),
        }?;
        let call = &self.0[candidate];
        let other_id = id.is_some() && call.id.is_some() && call.id != id;
        // Some servers give several calls one index. A name behind complete arguments begins a new call.
        let begins_again =
            id.is_none() && piece.name().is_some() && (call.is_complete() || piece.index.is_none());
        (!other_id && !begins_again).then_some(candidate)
    }
}

impl PartialChatCall {
    /// Adds a piece. Pieces may repeat the id and the name, or bring the name in parts; the arguments never
    /// repeat.
    fn extend(&mut self, piece: &ChatResponseToolCall<'_>) -> Result<(), AnswerTooLarge> {
        if self.id.is_none() {
            self.id = piece.id();
        }
        // Some servers send the name in parts, some repeat it with every piece.
        if let Some(more) = piece.name().filter(|more| self.arguments.is_empty() && *more != self.name) {
            self.name.push_str(&more);
        }
        // A hostile server could send a name without end.
        if self.name.len() > MAX_TOOL_NAME_BYTES {
            return Err(AnswerTooLarge::ToolName);
        }
        if let Some(extra) = piece.extra_content {
            self.extra = Some(extra.get().to_owned());
        }
        self.arguments.push(&piece.arguments());
        Ok(())
    }

    fn is_complete(&self) -> bool {
        self.arguments.is_complete()
    }
}

#[cfg(test)]
impl ChatCallAssembler {
    /// Returns the number of argument bytes examined so far.
    pub(super) fn scanned_bytes(&self) -> usize {
        self.0.iter().map(|call| call.arguments.scanned_bytes).sum()
    }
}
