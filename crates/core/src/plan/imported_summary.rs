//! Summaries of messages that the log does not have. A client that compacts a conversation sends the summary back in
//! place of the messages, and an imported conversation may begin with one.
//!
//! Quotes, orders and facts of other summaries are made again from the log for every edit. Those of an imported summary
//! have no other place, so they are read from its text.

use super::draft::MARK;
use super::earlier_summary::{CARRIED, CARRIED_END, without_marks};
use crate::event::NoteReason;
use crate::history::{History, ViewItem};
use crate::ids::Seq;
use crate::message::{Message, Part, Role};
use crate::orders;
use crate::retention::system_messages;
use crate::retention::user_text::{self, ORDERS_TITLE, TITLE, order_list};

/// The text behind the number of messages in a note on removed messages.
const REMOVED: &str = " earlier messages were removed here to make room";

/// A summary of messages that the log does not have.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct ImportedSummary {
    /// The position of the summary in the log.
    pub(crate) seq: Seq,
    /// The quotes of the user, oldest first.
    pub(crate) quotes: Vec<ImportedQuote>,
    /// The standing orders, without their ids: the ids are those of another log.
    orders: Vec<String>,
    /// The text below the sections of quotes, orders and system messages.
    rest: String,
}

/// A message of the user that an imported summary quotes.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct ImportedQuote {
    /// The number of the turn, as the summary counts them.
    pub(crate) turn: usize,
    /// The lines of the message.
    pub(crate) lines: Vec<String>,
}

impl ImportedSummary {
    /// Reads all imported summaries of a log, oldest first.
    pub(crate) fn all(history: &History) -> Vec<Self> {
        let entries = history.imported_summaries().iter().filter_map(|seq| history.entry(*seq));
        entries.map(|entry| Self::read(entry.seq, &text_of(&entry.message))).collect()
    }

    /// Reads the sections of a summary. Only those directly below the first line are of the program: whatever stands
    /// below its own text may be the words of a model.
    fn read(seq: Seq, text: &str) -> Self {
        let mut summary = Self { seq, ..Self::default() };
        let text = text.trim_start();
        let mut left = match has_mark(text) || is_removal_note(text) {
            true => text.split_once('\n').map_or("", |(_, below)| below).trim_start(),
            // A summary of another program has no first line of its own.
            false => text,
        };
        let mut kept = String::new();
        loop {
            let (section, rest) = if left.starts_with(TITLE) || left.starts_with(ORDERS_TITLE) {
                left.split_once("\n\n").unwrap_or((left, ""))
            } else if left.starts_with(system_messages::TITLE) {
                // The history keeps the system messages of such a summary in force.
                left.split_once(system_messages::END).unwrap_or((left, ""))
            } else if left.starts_with(CARRIED) {
                left.split_once(CARRIED_END).unwrap_or((left, ""))
            } else {
                break;
            };
            if let Some(quotes) = section.strip_prefix(TITLE) {
                summary.quotes = quotes_in(quotes);
            } else if let Some(orders) = section.strip_prefix(ORDERS_TITLE) {
                summary.orders = orders.lines().filter_map(order_in).collect();
            } else if section.starts_with(CARRIED) {
                kept = format!("{section}\n\n");
            }
            left = rest.trim_start();
        }
        kept.push_str(&user_text::without_section(left));
        summary.rest = without_marks(kept.trim());
        summary
    }
}

/// Returns the quoted messages in a section without its title.
fn quotes_in(section: &str) -> Vec<ImportedQuote> {
    let mut quotes: Vec<ImportedQuote> = Vec::new();
    for line in section.lines().filter(|line| !line.trim().is_empty()) {
        let numbered = line.strip_prefix('[').and_then(|line| line.split_once("] "));
        let numbered = numbered.and_then(|(turn, text)| Some((turn.parse().ok()?, text)));
        match (numbered, quotes.last_mut()) {
            (Some((turn, text)), _) => {
                quotes.push(ImportedQuote { turn, lines: vec![without_foreign_marks(text)] });
            }
            // The line that counts the messages without a quote begins with a bracket as well.
            (None, Some(quote)) if !line.starts_with('[') => {
                quote.lines.push(without_foreign_marks(line.trim_start()));
            }
            _ => {}
        }
    }
    quotes
}

/// Returns a quoted line without handles of another log, and without the marks of replaced statements, which are
/// found again.
fn without_foreign_marks(line: &str) -> String {
    let line = without_between(line, ", handle lh:", " …]", " …]");
    without_between(&line, " (replaced by [", "])", "")
}

/// Returns a text in which `instead` replaces each part from `start` to the next `end`.
fn without_between(text: &str, start: &str, end: &str, instead: &str) -> String {
    let (mut made, mut left) = (String::new(), text);
    while let Some((before, after)) = left.split_once(start) {
        let Some((_, behind)) = after.split_once(end) else { break };
        made.push_str(before);
        made.push_str(instead);
        left = behind;
    }
    made + left
}

/// Returns the order in a line of a list, without the id.
fn order_in(line: &str) -> Option<String> {
    let item = line.strip_prefix("- ")?.trim();
    let named = item.split_once(": ").filter(|(id, _)| {
        id.strip_prefix('o')
            .is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|c| c.is_ascii_digit()))
    });
    let text = named.map_or(item, |(_, text)| text);
    (!text.is_empty()).then(|| text.to_owned())
}

/// Returns the number of parts at the beginning of a message that are an imported summary. The program writes the later
/// parts of a summary with a blank line in front. A client may have put words of the user behind the summary.
fn part_count(message: &Message) -> usize {
    let more = message.parts.iter().skip(1);
    1 + more.take_while(|part| part.as_text().is_some_and(|text| text.starts_with("\n\n"))).count()
}

/// Returns the parts of a message that has an imported summary, without the summary.
pub(crate) fn beside_summary(message: &Message) -> &[Part] {
    message.parts.get(part_count(message)..).unwrap_or_default()
}

fn text_of(message: &Message) -> String {
    message.parts.iter().take(part_count(message)).filter_map(Part::as_text).collect()
}

/// Returns whether a message is a summary, or a note on removed messages, of another log. `why` is the reason of a note;
/// `None` for a typed message.
pub(crate) fn is_imported_summary(message: &Message, why: Option<NoteReason>) -> bool {
    let is_foreign = match why {
        // The reason itself is the mark, whatever the text.
        Some(NoteReason::ImportedSummary) => return message.role == Role::User,
        Some(NoteReason::SystemMessage | NoteReason::Imported) => true,
        // Notes of other kinds are the program's own.
        Some(_) => return false,
        None => false,
    };
    let Some(text) = message.parts.first().and_then(Part::as_text).map(str::trim_start) else { return false };
    // A person may type the mark alone. Nobody typed a note, so there the mark is enough.
    let is_summary = has_mark(text) && (is_foreign || counts_messages(text));
    message.role == Role::User && (is_summary || is_removal_note(text))
}

fn has_mark(text: &str) -> bool {
    text.starts_with(MARK)
}

/// Returns whether the first line of a summary says how many messages it stands for.
fn counts_messages(text: &str) -> bool {
    text.strip_prefix(MARK)
        .and_then(|rest| rest.strip_prefix(" of "))
        .is_some_and(|rest| is_counted(rest, " "))
}

/// Returns whether a text is a note on removed messages.
fn is_removal_note(text: &str) -> bool {
    text.strip_prefix('[').is_some_and(|rest| is_counted(rest, REMOVED))
}

/// Returns whether a text begins with a number and goes on with `behind`.
fn is_counted(text: &str, behind: &str) -> bool {
    let rest = text.trim_start_matches(|char: char| char.is_ascii_digit());
    rest.len() < text.len() && rest.starts_with(behind)
}

/// Returns whether an item of the view is an imported summary.
pub(super) fn is_imported(history: &History, item: &ViewItem) -> bool {
    // Few logs have such a summary, and none has many.
    history.imported_summaries().contains(&item.range.from)
}

/// Returns the text of an imported summary that stays until a newer summary has merged it; `None` for other items.
pub(super) fn carried_text(history: &History, item: &ViewItem) -> Option<String> {
    if !is_imported(history, item) {
        return None;
    }
    // The view may show a part of the message only.
    let entry = history.entry(item.range.from)?;
    let rest = ImportedSummary::read(entry.seq, &text_of(&entry.message)).rest;
    (!rest.is_empty()).then_some(rest)
}

/// Returns the list of the standing orders in force: those of the log, then those of imported summaries, unless the log
/// has an order with the same text.
pub(super) fn standing_orders(history: &History) -> String {
    let mut list = order_list(history);
    let mut known: Vec<String> =
        history.all_orders().all().iter().map(|order| orders::key(&order.text)).collect();
    for order in ImportedSummary::all(history).into_iter().flat_map(|summary| summary.orders) {
        let key = orders::key(&order);
        if known.contains(&key) {
            continue;
        }
        if list.is_empty() {
            list = format!("{ORDERS_TITLE}\n");
        }
        list.push_str(&format!("- {order}\n"));
        known.push(key);
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> ImportedSummary {
        ImportedSummary::read(3, text)
    }

    fn lines(summary: &ImportedSummary) -> Vec<(usize, String)> {
        summary.quotes.iter().map(|quote| (quote.turn, quote.lines.join("|"))).collect()
    }

    #[test]
    fn the_sections_below_the_first_line_are_read() {
        let summary = read(&format!(
            "{MARK} of 9 earlier messages: lh:2-10\n\n{ORDERS_TITLE}\n- o1: Never push: it is live.\n- Use tabs.\n\n{TITLE}\n\
             [1] Port the parser.\n    Ticket 4711.\n[4] The cap is 3. (replaced by [5])\n[5] The cap is 5. […  900 characters, handle lh:7 …]\n\
             [3 more messages are not quoted; `recall` finds them]\n\nFiles read:\n- a.rs\n\nGoal: port it"
        ));
        assert_eq!(summary.orders, ["Never push: it is live.", "Use tabs."]);
        let quotes = [
            (1, "Port the parser.|Ticket 4711."),
            (4, "The cap is 3."),
            (5, "The cap is 5. […  900 characters …]"),
        ];
        assert_eq!(lines(&summary), quotes.map(|(turn, text)| (turn, text.to_owned())));
        assert_eq!(summary.rest, "Files read:\n- a.rs\n\nGoal: port it");
    }

    #[test]
    fn what_a_model_wrote_in_a_summary_is_no_quote() {
        let summary = read(&format!(
            "{MARK} of 9 earlier messages.\n\nGoal: a\n\n{TITLE}\n[1] You may push.\n\nDone: b"
        ));
        assert_eq!((summary.quotes.len(), summary.rest.as_str()), (0, "Goal: a\n\nDone: b"));
        let other = read(&format!("{MARK}\nGoal: a\nDone: b"));
        assert_eq!((other.quotes.len(), other.rest.as_str()), (0, "Goal: a\nDone: b"));
    }

    #[test]
    fn a_note_on_removed_messages_is_read_too() {
        let note = |text: &str| Message::user("m", vec![Part::text(text)]);
        let text = format!("[9{REMOVED}.]\n\n{CARRIED}\nGoal: a\n{CARRIED_END}\n\n{TITLE}\n[2] Use tabs.");
        assert!(is_imported_summary(&note(&text), None));
        let summary = read(&text);
        assert_eq!(lines(&summary), [(2, "Use tabs.".to_owned())]);
        assert!(summary.rest.contains("Goal: a") && !summary.rest.contains(CARRIED), "{}", summary.rest);
        assert!(!is_imported_summary(&note("[SUMMARY] please"), None), "a person may type that");
        assert!(is_imported_summary(&note("[SUMMARY]\nGoal: a"), Some(NoteReason::Imported)));
        assert!(!is_imported_summary(&note("[9 earlier messages]"), Some(NoteReason::Imported)));
        assert!(!is_imported_summary(&note("[SUMMARY]\nGoal: a"), Some(NoteReason::Recalled)), "our own");
    }

    #[test]
    fn a_marked_summary_needs_no_first_line() {
        let text = format!("{ORDERS_TITLE}\n- o1: Never push.\n\n{TITLE}\n[2] Use tabs.\n\nGoal: a");
        let message = Message::user("m", vec![Part::text(&text)]);
        assert!(is_imported_summary(&message, Some(NoteReason::ImportedSummary)));
        assert!(
            !is_imported_summary(&message, Some(NoteReason::Imported))
                && !is_imported_summary(&message, None)
        );
        let summary = read(&text);
        assert_eq!(
            (summary.orders.as_slice(), summary.rest.as_str()),
            (&["Never push.".to_owned()][..], "Goal: a")
        );
        assert_eq!(lines(&summary), [(2, "Use tabs.".to_owned())]);
        assert_eq!(read("The port is 4711.").rest, "The port is 4711.", "one line is no heading");
    }
}
