//! Completion of an answer's parts, and their final form.

use longhaul_core::message::{Part, ReasoningPart, TextPart};

use super::{ChatStreamDecoder, PartialChatPart};
use crate::{ModelEvent, ProviderError};

impl ChatStreamDecoder {
    /// Opens a slot and completes the earlier slots.
    ///
    /// # Errors
    /// An error if the answer has too many parts.
    pub(super) fn begin(
        &mut self,
        slot: PartialChatPart,
        events: &mut Vec<ModelEvent>,
    ) -> Result<(), ProviderError> {
        match slot {
            PartialChatPart::Call(_) => self.size.add_call().map(|_| ())?,
            _ => self.size.add_part()?,
        }
        self.report_done(false, events);
        if matches!(slot, PartialChatPart::Reasoning(_)) {
            self.first_reasoning.get_or_insert(self.slots.len());
        }
        self.open.push(self.slots.len());
        self.slots.push(slot);
        Ok(())
    }

    /// Ends the stream at `[DONE]`.
    pub(super) fn close(&mut self, events: &mut Vec<ModelEvent>) {
        self.closed = true;
        self.report_done(false, events);
    }

    /// Reports every open slot as done. Before the model itself has stopped (`all`), a call is done only with
    /// complete arguments.
    pub(super) fn report_done(&mut self, all: bool, events: &mut Vec<ModelEvent>) {
        for index in std::mem::take(&mut self.open) {
            let is_open = matches!(self.slots[index], PartialChatPart::Call(call) if !all && !self.calls.is_complete(call));
            if is_open {
                // Pieces of several calls may be mixed, so a call stays open until its arguments are whole.
                self.open.push(index);
            } else {
                events.push(ModelEvent::PartDone(self.part(index)));
            }
        }
    }

    /// Returns all parts in order. Proof without readable reasoning is a separate part.
    pub(super) fn parts(&self) -> Vec<Part> {
        let proof = self.details.native().filter(|_| self.first_reasoning.is_none());
        let lone =
            proof.map(|native| Part::Reasoning(ReasoningPart { text: String::new(), native: Some(native) }));
        lone.into_iter().chain((0..self.slots.len()).map(|index| self.part(index))).collect()
    }

    fn part(&self, index: usize) -> Part {
        match &self.slots[index] {
            PartialChatPart::Text(text) => Part::Text(TextPart { text: text.clone(), native: None }),
            PartialChatPart::Call(call) => Part::ToolCall(self.calls.part(*call)),
            PartialChatPart::Opaque(block) => Part::Opaque(block.clone()),
            PartialChatPart::Reasoning(text) => {
                // The details belong to the answer as a whole. A copy beside each part would be sent back several
                // times.
                let is_first = self.first_reasoning == Some(index);
                let native = is_first.then(|| self.details.native()).flatten();
                Part::Reasoning(ReasoningPart { text: text.clone(), native })
            }
        }
    }
}
