//! Messages of any type: conversion to messages of this crate and back.

use std::collections::BTreeMap;
use std::ops::Range;

use super::{CallNames, FittedMessages, MessagePlace};
use crate::history::{History, ViewItem, ViewItemKind};
use crate::ids::Seq;
use crate::message::Message;

/// A type of message that [`fit`](super::fit) takes: [`Message`], or the program's own.
///
/// ```
/// use longhaul_core::message::{Message, Part};
/// use longhaul_core::{FittableContent, FittableMessage, Window, fit};
///
/// #[derive(Clone)]
/// struct ChatLine {
///     author: String,
///     text: String,
/// }
///
/// impl FittableMessage for ChatLine {
///     fn to_content(&self) -> FittableContent {
///         FittableContent::Messages(vec![Message::user("", vec![Part::text(&self.text)])])
///     }
///     fn from_messages(shown: &[Message], original: Option<&Self>) -> Self {
///         let author = original.map_or_else(|| "system".to_owned(), |line| line.author.clone());
///         Self { author, text: shown.iter().map(Message::text).collect() }
///     }
/// }
///
/// let line = |at| ChatLine { author: "ada".to_owned(), text: format!("{at} is a number. ").repeat(100) };
/// let lines: Vec<_> = (0..100).map(line).collect();
/// let fitted = fit(&lines, &Window::tokens(16_000))?;
/// assert_eq!(fitted.messages[0].author, "system");
/// assert_eq!(fitted.messages.last().unwrap().text, lines[99].text);
/// # Ok::<(), longhaul_core::plan::ContextOverflow>(())
/// ```
pub trait FittableMessage: Clone {
    /// Returns the content of the message for the planner.
    fn to_content(&self) -> FittableContent;

    /// Returns the message that shows `shown` in the place of `original`.
    ///
    /// A part of the original is left out: `shown` has a placeholder for a tool's output, the beginning and end of a
    /// text, or fewer messages. Without an original, `shown` is an extract with the user's role that replaces other
    /// messages. Call ids are those of [`to_content`](Self::to_content).
    fn from_messages(shown: &[Message], original: Option<&Self>) -> Self;
}

/// The content of a message as the planner reads it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum FittableContent {
    /// Instructions for the model, such as a system prompt. Instructions are always sent.
    Instructions(String),
    /// One message, or several that one message combines. Each tool result is a message of its own, with
    /// [`Role::Tool`](crate::message::Role::Tool) and one part. Ids may be empty.
    Messages(Vec<Message>),
}

impl FittableMessage for Message {
    fn to_content(&self) -> FittableContent {
        FittableContent::Messages(vec![self.clone()])
    }

    fn from_messages(shown: &[Message], original: Option<&Self>) -> Self {
        let shown = shown.first().cloned().unwrap_or_else(|| Self::user("", Vec::new()));
        match original {
            Some(original) => Self { id: original.id.clone(), ..shown },
            None => shown,
        }
    }
}

/// The format of a message type: reader and writer.
pub(super) struct MessageFormat<M> {
    pub(super) read: fn(&M) -> FittableContent,
    pub(super) write: fn(&[Message], Option<&M>) -> M,
}

/// The content of one message to send.
struct ShownMessage<'a> {
    /// The index of the given message; `None` for an extract.
    given: Option<usize>,
    /// The index of the first given message that this one shows or replaces.
    first: usize,
    messages: Vec<&'a Message>,
}

/// The writer of messages to send, with all that is known of the given ones.
struct MessageWriter<'a, M> {
    given: &'a [M],
    places: &'a [MessagePlace],
    /// The messages of the unedited view. The given ones are compared in this form, because a history gives some
    /// messages ids of its own.
    before: BTreeMap<Seq, &'a Message>,
    names: &'a CallNames,
    format: &'a MessageFormat<M>,
}

impl<M: Clone> MessageWriter<'_, M> {
    /// Returns whether `shown` is all of a given message.
    fn is_whole(&self, at: usize, shown: &[&Message]) -> bool {
        match &self.places[at] {
            MessagePlace::Fixed => true,
            MessagePlace::Log(seqs) => {
                let all: Option<Vec<&Message>> =
                    seqs.iter().map(|seq| self.before.get(seq.as_ref()?).copied()).collect();
                all.is_some_and(|all| all == shown)
            }
        }
    }

    fn write(&self, shown: &[&Message], original: Option<&M>) -> M {
        let shown: Vec<Message> =
            shown.iter().map(|message| self.names.restored(Message::clone(message))).collect();
        (self.format.write)(&shown, original)
    }

    /// Returns the messages in a range that are instructions, which are always sent.
    fn instructions(&self, range: Range<usize>) -> impl Iterator<Item = M> {
        range.filter(|at| matches!(self.places[*at], MessagePlace::Fixed)).map(|at| self.given[at].clone())
    }
}

/// Returns the messages that a view shows, without their tokens.
pub(super) fn fitted_messages<M: Clone>(
    given: &[M],
    places: &[MessagePlace],
    (whole, history): (&History, &History),
    names: &CallNames,
    format: &MessageFormat<M>,
) -> FittedMessages<M> {
    let mut fitted =
        FittedMessages { messages: Vec::new(), left_out: Vec::new(), shortened: Vec::new(), tokens: 0 };
    let before = whole.view().iter().map(|item| (item.range.from, &*item.message)).collect();
    let writer = MessageWriter { given, places, before, names, format };
    let mut is_sent: Vec<bool> = places.iter().map(|place| matches!(place, MessagePlace::Fixed)).collect();
    let mut next = 0;
    for ShownMessage { given: at, first, messages } in shown_messages(places, history.view()) {
        // Instructions keep their place among the other messages.
        fitted.messages.extend(writer.instructions(next..first));
        // `first` can lie before `next`, and instructions must not be sent twice.
        next = next.max(first);
        let Some(at) = at else {
            fitted.messages.push(writer.write(&messages, None));
            continue;
        };
        is_sent[at] = true;
        if writer.is_whole(at, &messages) {
            fitted.messages.push(given[at].clone());
        } else {
            fitted.shortened.push(at);
            fitted.messages.push(writer.write(&messages, Some(&given[at])));
        }
    }
    fitted.messages.extend(writer.instructions(next..given.len()));
    fitted.left_out = (0..given.len()).filter(|at| !is_sent[*at]).collect();
    fitted.shortened.sort_unstable();
    fitted
}

/// Returns the items of a view grouped by the given messages, in the order of these.
fn shown_messages<'a>(places: &[MessagePlace], view: &'a [ViewItem]) -> Vec<ShownMessage<'a>> {
    let mut given_at: BTreeMap<Seq, usize> = BTreeMap::new();
    for (at, place) in places.iter().enumerate() {
        if let MessagePlace::Log(seqs) = place {
            given_at.extend(seqs.iter().flatten().map(|seq| (*seq, at)));
        }
    }
    let mut shown: Vec<ShownMessage<'a>> = Vec::with_capacity(view.len());
    let mut shown_at: BTreeMap<usize, usize> = BTreeMap::new();
    // A view has results in the order of their calls. Sorting by position restores the order in which they were given.
    let mut items: Vec<&ViewItem> = view.iter().collect();
    items.sort_by_key(|item| item.range.from);
    for item in items {
        let first = given_at.get(&item.range.from).copied();
        let given = first.filter(|_| stands_for_itself(item));
        if let Some(place) = given.and_then(|at| shown_at.get(&at)) {
            shown[*place].messages.push(&item.message);
            continue;
        }
        if let Some(at) = given {
            shown_at.insert(at, shown.len());
        }
        // A range may begin at a position without a given message. The item then follows the message before.
        let first = first.unwrap_or_else(|| shown.last().map_or(0, |last| last.first));
        shown.push(ShownMessage { given, first, messages: vec![&item.message] });
    }
    shown
}

/// Returns whether an item shows a message of the log, whole or in part, and not a replacement of several.
fn stands_for_itself(item: &ViewItem) -> bool {
    !matches!(item.kind, ViewItemKind::Summary(_) | ViewItemKind::Removed(_))
}
