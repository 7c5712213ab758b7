//! The section of a shortened view that quotes the system messages in the part that is no longer shown.
//!
//! Clients put system and developer messages into the middle of a conversation, and these bind the model from there
//! on. Each message is quoted verbatim and in order. Equal messages appear once, as the newest of them. If all together
//! are longer than their room, each of the longest is cut to both ends.

use crate::estimate::MessageTokenCounter;
use crate::history::{History, LogEntry};
use crate::ids::LogHandle;
use crate::message::Part;
use crate::plan::{MARK, shortened};

/// The title of the section.
pub(crate) const TITLE: &str = "System messages given in the conversation, still in force; later ones win:";

/// The line below the section. The messages may have blank lines, so a blank line does not end the section.
pub(crate) const END: &str = "(end of the system messages)";

/// The largest part of the window that the section may take: one in four.
pub(crate) const WINDOW_SHARE: u64 = 4;

/// The size of the marks around a message, in tokens.
const MARK_TOKENS: u64 = 3;

/// The size of the mark of a cut, in tokens.
const CUT_TOKENS: u64 = 6;

/// The system messages in a part of the log.
#[derive(Debug)]
pub(crate) struct SystemMessages {
    counter: MessageTokenCounter,
    messages: Vec<SystemMessage>,
}

#[derive(Debug)]
struct SystemMessage {
    text: String,
    tokens: u64,
}

impl SystemMessages {
    /// Reads the system messages that `handles` lead to.
    pub(crate) fn of(history: &History, handles: &[LogHandle]) -> Self {
        let counter = history.counter().clone();
        let mut messages: Vec<SystemMessage> = Vec::new();
        let covered = history
            .system_messages()
            .iter()
            .filter(|seq| handles.iter().any(|LogHandle(range)| range.contains(**seq)));
        for entry in covered.filter_map(|seq| history.entry(*seq)) {
            let text = text_of(entry);
            if text.is_empty() {
                continue;
            }
            // Some clients repeat their instructions in every turn.
            messages.retain(|message| message.text != text);
            let tokens = counter.text(&text) + MARK_TOKENS;
            messages.push(SystemMessage { text, tokens });
        }
        Self { counter, messages }
    }

    /// Returns the most tokens of each message with which all together take at most `max_tokens`. Room that short
    /// messages leave goes to the long ones.
    pub(crate) fn share(&self, max_tokens: u64) -> u64 {
        let mut sizes: Vec<u64> = self.messages.iter().map(|message| message.tokens).collect();
        sizes.sort_unstable();
        let mut left = max_tokens.saturating_sub(self.frame_tokens());
        for (at, size) in sizes.iter().enumerate() {
            let share = left / (sizes.len() - at) as u64;
            if *size > share {
                return share;
            }
            left -= size;
        }
        u64::MAX
    }

    /// Returns the section with at most `each_tokens` of each message; an empty text if there is nothing to quote.
    pub(crate) fn list(&self, each_tokens: u64) -> String {
        let items: String =
            self.messages.iter().filter_map(|message| self.item(message, each_tokens)).collect();
        if items.is_empty() { items } else { format!("{TITLE}\n{items}{END}\n") }
    }

    /// Returns the estimated tokens of a section in at most `max_tokens`.
    pub(crate) fn tokens(&self, max_tokens: u64) -> u64 {
        if self.messages.is_empty() {
            return 0;
        }
        let each = self.share(max_tokens);
        let quoted: u64 = self.messages.iter().map(|message| message.tokens.min(each)).sum();
        quoted + self.frame_tokens()
    }

    fn frame_tokens(&self) -> u64 {
        self.counter.text(TITLE) + self.counter.text(END) + 2
    }

    /// Returns a message in at most `max_tokens`: whole, or its beginning and end. `None` if the room is too small to
    /// say anything.
    fn item(&self, message: &SystemMessage, max_tokens: u64) -> Option<String> {
        if message.tokens <= max_tokens {
            return Some(format!("- {}\n", message.text));
        }
        let room = max_tokens.saturating_sub(MARK_TOKENS + CUT_TOKENS);
        let ends = shortened(&message.text, room, &|text| self.counter.text(text))?;
        // The handle in the first line of the replacement leads to the whole message.
        Some(format!("- {} (shortened)\n", ends.trim_end()))
    }
}

/// Returns the system messages of a history behind `handles` as a section in at most `max_tokens`.
pub(crate) fn system_message_list(history: &History, handles: &[LogHandle], max_tokens: u64) -> String {
    let messages = SystemMessages::of(history, handles);
    messages.list(messages.share(max_tokens))
}

/// Returns whether a text is a summary of this program with quotes of system messages. Clients that compact a
/// conversation send such a summary back as a message.
#[doc(hidden)]
pub fn quotes_system_messages(text: &str) -> bool {
    quoted_in(text).is_some()
}

/// Returns the system messages that a summary quotes.
fn quoted_in(text: &str) -> Option<&str> {
    let text = text.trim_start();
    let (_, section) = text.strip_prefix(MARK)?.split_once(TITLE)?;
    section.split_once(END).map(|(messages, _)| messages.trim())
}

fn text_of(entry: &LogEntry) -> String {
    let texts: Vec<&str> = entry.message.parts.iter().filter_map(Part::as_text).collect();
    let text = texts.join("\n");
    match quoted_in(&text) {
        // The section's own mark of its first message makes way for the mark of the next section.
        Some(messages) => messages.strip_prefix("- ").unwrap_or(messages).to_owned(),
        None => text.trim().to_owned(),
    }
}

#[cfg(test)]
mod tests;
