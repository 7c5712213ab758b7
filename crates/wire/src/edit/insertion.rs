//! A list of messages with changes, in which roles alternate as they did in the client's own: Anthropic's successors
//! and the chat templates of many models refuse two messages of a person in a row.

use std::ops::Range;

use super::patch::ItemListWriter;
use super::{ParseError, RequestEnvelope};

/// What stands at one place of the list.
#[derive(Debug)]
pub enum MessageListEntry {
    /// The client's messages as they are.
    Keep(Range<usize>),
    /// One of the client's in another form.
    Change(usize, String),
    /// One of ours.
    Own(String),
    /// Words in a person's place that are to become part of a message.
    Say(String),
}

/// Who speaks in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageSpeaker {
    /// A person, or what answers calls in their place.
    Person,
    /// Instructions in the midst of a conversation.
    System,
    /// Anybody else.
    Other,
}

/// What a dialect knows of its messages.
pub trait RolePolicy {
    /// Who speaks; `index` is for errors.
    ///
    /// # Errors
    /// [`ParseError`] if it is no message.
    fn speaker(&self, message: &str, index: usize) -> Result<MessageSpeaker, ParseError>;

    /// A person's message with more said in it, before its own words or behind them.
    ///
    /// # Errors
    /// [`ParseError`] if that cannot be expressed.
    fn with(&self, message: &str, index: usize, said: &[String], before: bool) -> Result<String, ParseError>;

    /// Two messages of a person as one.
    ///
    /// # Errors
    /// [`ParseError`] if that cannot be expressed.
    fn join_user_messages(&self, first: &str, second: &str, index: usize) -> Result<String, ParseError>;

    /// Two messages of the model's as one, the first of which only says something; `None` if they stay two.
    fn join_model_messages(&self, _first: &str, _second: &str) -> Option<String> {
        None
    }

    /// A message of a person.
    fn own(&self, said: &[String]) -> String;

    /// Returns whether instructions may stand only behind a person's message.
    fn system_follows_person(&self) -> bool;
}

/// Puts what is said into messages, and messages of a person, or of the model, that were not neighbours before into one:
/// what we say becomes part of the person's message that follows, else of one that precedes, else it is a message of its
/// own.
///
/// # Errors
/// [`ParseError`] if a message cannot be read.
pub fn insert_and_merge(
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
    /// What is to be said next.
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
            // Only where something was changed or left out can it be otherwise than in the client's list.
            slot if self.waiting.is_empty() && self.held.is_empty() && self.follows(&slot) => {
                self.settled.push(slot);
                Ok(())
            }
            slot => {
                let (first, rest) = split_first(self.envelope, slot);
                match first {
                    MessageListEntry::Change(index, text) => self.place(index, text)?,
                    other => self.settled.push(other),
                }
                rest.map_or(Ok(()), |rest| self.take(rest))
            }
        }
    }

    /// Returns whether its neighbour is who it was.
    fn follows(&self, slot: &MessageListEntry) -> bool {
        let first = match slot {
            MessageListEntry::Keep(range) => range.start,
            MessageListEntry::Change(index, _) => *index,
            MessageListEntry::Own(_) | MessageListEntry::Say(_) => return true,
        };
        self.next_in_list() == Some(first)
    }

    /// The message that follows the newest settled one in the client's list.
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
                let text = match said.is_empty() {
                    true => text,
                    false => self.manners.with(&text, index, &said, true)?,
                };
                // Two that the client itself put side by side stay two.
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
                self.release();
                let text = if self.next_in_list() == Some(index) { text } else { self.spoken_on(text) };
                self.settled.push(MessageListEntry::Change(index, text));
            }
        }
        Ok(())
    }

    /// A message with what the model says in the newest settled one, if that is no more than words before it: what stood
    /// between them is gone.
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

    /// The newest settled message, if it is a person's. Instructions between it and the next one are held back.
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

    /// What waits becomes part of the person's message before, else it is one of its own.
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
        self.say_behind()?;
        self.release();
        Ok(self.settled)
    }
}

/// The first message of a slot as a change that changes nothing, and the others.
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
pub fn pop(envelope: &RequestEnvelope, slots: &mut Vec<MessageListEntry>) -> Option<MessageListEntry> {
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

/// The list in the client's own bytes wherever nothing was changed.
pub fn write(envelope: &RequestEnvelope, slots: Vec<MessageListEntry>) -> String {
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
