//! Insertion of the gateway's messages into a client's list, with roles that alternate as in that list.
//! Anthropic-compatible servers
//! and the chat templates of many models refuse two user messages in a row.

use std::ops::Range;

use super::patch::ItemListWriter;
use super::{ParseError, RequestEnvelope};

/// One entry of the list.
#[derive(Debug)]
pub(crate) enum MessageListEntry {
    /// The client's messages, unchanged.
    Keep(Range<usize>),
    /// A message of the client in another form.
    Change(usize, String),
    /// A message of ours.
    Own(String),
    /// User-role text of ours, to become part of a message.
    Say(String),
}

/// The author of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MessageSpeaker {
    /// A person, or the tool that answers calls.
    Person,
    /// Instructions in the middle of a conversation.
    System,
    /// Any other author.
    Other,
}

/// The rules of a dialect for its messages.
pub(crate) trait RolePolicy {
    /// Returns the author of a message; `index` is for errors.
    ///
    /// # Errors
    /// [`ParseError`] if the text is no message.
    fn speaker(&self, message: &str, index: usize) -> Result<MessageSpeaker, ParseError>;

    /// Returns a person's message with the texts in `said` added, before its own text or behind it.
    ///
    /// # Errors
    /// [`ParseError`] if the dialect cannot express that.
    fn with(&self, message: &str, index: usize, said: &[String], before: bool) -> Result<String, ParseError>;

    /// Returns two messages of a person as one.
    ///
    /// # Errors
    /// [`ParseError`] if the dialect cannot express that.
    fn join_user_messages(&self, first: &str, second: &str, index: usize) -> Result<String, ParseError>;

    /// Returns two messages of the model as one, of which the first has only text; `None` if they stay two.
    fn join_model_messages(&self, _first: &str, _second: &str) -> Option<String> {
        None
    }

    /// Returns a message of a person with the texts in `said`.
    fn own(&self, said: &[String]) -> String;

    /// Reports whether instructions may only follow a person's message.
    fn system_follows_person(&self) -> bool;
}

/// Merges our texts into messages, and merges messages of one author that were no neighbours before. A text of ours
/// joins the next message if the next message is a person's, else a person's message before, else becomes a separate
/// message.
///
/// # Errors
/// [`ParseError`] if a message cannot be read.
pub(crate) fn insert_and_merge(
    envelope: &RequestEnvelope,
    slots: Vec<MessageListEntry>,
    manners: &dyn RolePolicy,
) -> Result<Vec<MessageListEntry>, ParseError> {
    let mut settling = MessageListBuilder {
        envelope,
        manners,
        settled: Vec::with_capacity(slots.len()),
        waiting: Vec::new(),
        held: Vec::new(),
    };
    for slot in slots {
        settling.take(slot)?;
    }
    settling.finish()
}

struct MessageListBuilder<'e> {
    envelope: &'e RequestEnvelope,
    manners: &'e dyn RolePolicy,
    settled: Vec<MessageListEntry>,
    /// The texts to add next.
    waiting: Vec<String>,
    /// Instructions that must follow a person's message.
    held: Vec<(usize, String)>,
}

impl MessageListBuilder<'_> {
    fn take(&mut self, slot: MessageListEntry) -> Result<(), ParseError> {
        match slot {
            MessageListEntry::Say(text) => {
                self.waiting.push(text);
                Ok(())
            }
            // Only a change or a gap can create neighbours that the client's list did not have.
            slot if self.waiting.is_empty() && self.held.is_empty() && self.follows(&slot) => {
                self.settled.push(slot);
                Ok(())
            }
            slot => {
                // Only the first message of a range can have a new neighbour, so the rest is looked at by itself.
                let (first, rest) = split_first(self.envelope, slot);
                match first {
                    MessageListEntry::Change(index, text) => self.place(index, text)?,
                    other => self.settled.push(other),
                }
                rest.map_or(Ok(()), |rest| self.take(rest))
            }
        }
    }

    /// Reports whether the entry follows the same neighbour as in the client's list.
    fn follows(&self, slot: &MessageListEntry) -> bool {
        let first = match slot {
            MessageListEntry::Keep(range) => range.start,
            MessageListEntry::Change(index, _) => *index,
            MessageListEntry::Own(_) | MessageListEntry::Say(_) => return true,
        };
        self.next_in_list() == Some(first)
    }

    /// Returns the message that follows the newest settled one in the client's list.
    fn next_in_list(&self) -> Option<usize> {
        match self.settled.last() {
            None => Some(0),
            Some(MessageListEntry::Keep(range)) => Some(range.end),
            Some(MessageListEntry::Change(index, _)) => Some(index + 1),
            Some(MessageListEntry::Own(_) | MessageListEntry::Say(_)) => None,
        }
    }

    fn place(&mut self, index: usize, text: String) -> Result<(), ParseError> {
        match self.manners.speaker(&text, index)? {
            MessageSpeaker::System if self.manners.system_follows_person() => self.held.push((index, text)),
            MessageSpeaker::Person => {
                let said = std::mem::take(&mut self.waiting);
                let text =
                    if said.is_empty() { text } else { self.manners.with(&text, index, &said, true)? };
                // Two user messages that the client itself put side by side stay two: its server accepts them.
                let before = if self.next_in_list() == Some(index) { None } else { self.pop_person()? };
                let settled = match before {
                    Some((first, before)) => MessageListEntry::Change(
                        first,
                        self.manners.join_user_messages(&before, &text, index)?,
                    ),
                    None => MessageListEntry::Change(index, text),
                };
                self.settled.push(settled);
            }
            _ => {
                self.say_behind()?;
                // Held instructions now follow a person's message, as the dialect wants.
                self.release();
                // Only answers that became neighbours here are joined. Neighbours in the client's own list stay two.
                let text = if self.next_in_list() == Some(index) { text } else { self.spoken_on(text) };
                self.settled.push(MessageListEntry::Change(index, text));
            }
        }
        Ok(())
    }

    /// Returns a message with the text of the newest settled message before the message's own text, if the settled
    /// message is the model's and has only text. The messages between the two are gone.
    fn spoken_on(&mut self, text: String) -> String {
        match pop(self.envelope, &mut self.settled) {
            Some(MessageListEntry::Change(first, before)) => {
                match self.manners.join_model_messages(&before, &text) {
                    Some(joined) => return joined,
                    None => self.settled.push(MessageListEntry::Change(first, before)),
                }
            }
            other => self.settled.extend(other),
        }
        text
    }

    fn release(&mut self) {
        self.settled.extend(self.held.drain(..).map(|(index, text)| MessageListEntry::Change(index, text)));
    }

    /// Takes the newest settled message, if it is a person's. Instructions between it and the next message are
    /// held back.
    fn pop_person(&mut self) -> Result<Option<(usize, String)>, ParseError> {
        let mut after = Vec::new();
        let found = loop {
            match pop(self.envelope, &mut self.settled) {
                Some(MessageListEntry::Change(index, text)) => match self.manners.speaker(&text, index)? {
                    MessageSpeaker::Person => break Some((index, text)),
                    MessageSpeaker::System if self.manners.system_follows_person() => {
                        after.push((index, text))
                    }
                    _ => {
                        self.settled.push(MessageListEntry::Change(index, text));
                        break None;
                    }
                },
                other => {
                    self.settled.extend(other);
                    break None;
                }
            }
        };
        // They were taken from the end, so their order is turned round again.
        after.reverse();
        match found {
            Some(_) => after.append(&mut self.held),
            None => {
                self.settled
                    .extend(after.drain(..).map(|(index, text)| MessageListEntry::Change(index, text)));
                return Ok(None);
            }
        }
        self.held = after;
        Ok(found)
    }

    /// Adds the waiting texts to the person's message before, or makes a separate message of the texts.
    fn say_behind(&mut self) -> Result<(), ParseError> {
        let said = std::mem::take(&mut self.waiting);
        if said.is_empty() {
            return Ok(());
        }
        let settled = match self.pop_person()? {
            Some((index, text)) => {
                MessageListEntry::Change(index, self.manners.with(&text, index, &said, false)?)
            }
            None => MessageListEntry::Own(self.manners.own(&said)),
        };
        self.settled.push(settled);
        Ok(())
    }

    fn finish(mut self) -> Result<Vec<MessageListEntry>, ParseError> {
        // Texts of ours may be left when the list ends.
        self.say_behind()?;
        self.release();
        Ok(self.settled)
    }
}

/// Splits an entry into its first message, as a change without effect, and the others.
fn split_first(
    envelope: &RequestEnvelope,
    slot: MessageListEntry,
) -> (MessageListEntry, Option<MessageListEntry>) {
    match slot {
        MessageListEntry::Keep(range) => {
            let first = MessageListEntry::Change(range.start, envelope.item(range.start).to_owned());
            let rest = range.start + 1..range.end;
            (first, (!rest.is_empty()).then_some(MessageListEntry::Keep(rest)))
        }
        other => (other, None),
    }
}

/// Takes the newest message out of the list.
pub(crate) fn pop(envelope: &RequestEnvelope, slots: &mut Vec<MessageListEntry>) -> Option<MessageListEntry> {
    match slots.pop()? {
        MessageListEntry::Keep(range) => {
            let newest = range.end - 1;
            if range.start < newest {
                slots.push(MessageListEntry::Keep(range.start..newest));
            }
            Some(MessageListEntry::Change(newest, envelope.item(newest).to_owned()))
        }
        other => Some(other),
    }
}

/// Returns the list, with the client's own bytes wherever nothing was changed.
pub(crate) fn write(envelope: &RequestEnvelope, slots: Vec<MessageListEntry>) -> String {
    let mut list = ItemListWriter::new(envelope);
    for slot in slots {
        match slot {
            MessageListEntry::Keep(range) => list.keep(range),
            MessageListEntry::Change(index, text) => list.change(index, &text),
            MessageListEntry::Own(text) | MessageListEntry::Say(text) => list.insert(&text),
        }
    }
    list.finish()
}
