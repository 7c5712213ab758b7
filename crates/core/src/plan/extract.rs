//! The extract, a summary without any model: the pinned facts and the last words, all lines verbatim, as many as fit.

use super::draft::{MARK, WRITTEN, defused};
use super::earlier_summary::written_in;
use super::imported_summary::is_imported;
use super::verbatim;
use crate::estimate::MessageTokenCounter;
use crate::history::{History, ViewItem, ViewItemKind};
use crate::ids::LogHandle;
use crate::message::{Message, Part};
use crate::pinned_facts::{TOOLS_TITLE, is_facts_title};
use crate::retention::user_text;

/// The title of the assistant's last words, below the pinned facts.
const STATE: &str = "State (last words of the assistant)";
/// The title of lines from earlier extracts.
const EARLIER: &str = "Earlier summary";

/// The title of the newest messages in full.
const SAID: &str = "What was said last, word for word (… where something is left out)";

/// The text of an extract in which nothing fits.
const NOTHING_SAID: &str = "(older messages; recall them by their handle)";

/// The text of an extract in which nothing fits, for a model without the tool `recall`.
const NOTHING_SAID_ALONE: &str = "(older messages)";

/// Returns the pinned facts of the messages that `handles` lead to, in at most `limit_tokens`.
pub(super) fn ledger(history: &History, handles: &[LogHandle], limit_tokens: u64) -> String {
    let ledger = history.ledger_of(handles.iter().map(|LogHandle(range)| *range));
    ledger.render_with_names(limit_tokens, history.counter())
}

/// Returns the open todos and the files in the messages that `handles` lead to, in at most `limit_tokens`.
pub(super) fn files_and_todos(history: &History, handles: &[LogHandle], limit_tokens: u64) -> String {
    let ledger = history.ledger_of(handles.iter().map(|LogHandle(range)| *range));
    ledger.render_files_and_todos(limit_tokens, history.counter())
}

/// Returns the extract of the messages that `handles` lead to, in at most `limit_tokens`.
///
/// An extract has the pinned facts, unless the text `above` holds them already, lines of earlier extracts, and the
/// assistant's last words. With `room_tokens` the newest messages stand verbatim in place of those last words.
pub(super) fn summary(
    history: &History,
    handles: &[LogHandle],
    limit_tokens: u64,
    room_tokens: Option<u64>,
    above: &str,
) -> String {
    let counter = history.counter();
    let items = history.view().iter();
    // An imported summary is carried on as an earlier summary, beside the extract.
    let items: Vec<&ViewItem> = items
        .filter(|item| handles.iter().any(|LogHandle(range)| range.overlaps(&item.range)))
        .filter(|item| !is_imported(history, item))
        .collect();
    // A third of the room stays for the words of the conversation.
    let own = if above.is_empty() { ledger(history, handles, limit_tokens * 2 / 3) } else { String::new() };
    // Lines of earlier extracts often repeat the facts, which are derived from the log for every edit.
    let mut earlier = earlier(history, &items);
    earlier.retain(|line| !above.contains(line) && !own.contains(line));
    let used = counter.text(&own);
    let rest = match room_tokens {
        Some(room) => spacious(&items, earlier, room.saturating_sub(used), counter),
        None => {
            let sections = [(STATE, last_words(&items)), (EARLIER, earlier)];
            fill(&sections, limit_tokens.saturating_sub(used), counter)
        }
    };
    match (own.is_empty(), rest.is_empty()) {
        (true, true) if history.has_recall() => NOTHING_SAID.to_owned(),
        (true, true) => NOTHING_SAID_ALONE.to_owned(),
        (true, false) => rest,
        (false, _) => format!("{}\n{rest}", own.trim_end()),
    }
}

/// Returns lines of earlier extracts in at most half of the room, and the newest messages in the rest.
fn spacious(items: &[&ViewItem], earlier: Vec<String>, room: u64, counter: &MessageTokenCounter) -> String {
    // The older lines have no other place, but they must not push out the newest messages.
    // The other half is for the newest of what goes, word for word (decision 0035).
    let before = fill(&[(EARLIER, earlier)], room / 2, counter);
    let left = room.saturating_sub(counter.text(&before));
    before + &newest_verbatim(items, left, counter)
}

/// Returns the newest of some messages verbatim below their title, in at most `room` tokens; an empty text if none
/// fits.
pub(super) fn newest_verbatim(items: &[&ViewItem], room: u64, counter: &MessageTokenCounter) -> String {
    let left = room.saturating_sub(counter.text(SAID) + 3);
    // Quotes of the user stand in their own section. Only long messages are shortened there, so their text is shown here
    // too.
    let others = items.iter().copied();
    let others: Vec<&ViewItem> = others
        .filter(|item| item.kind != ViewItemKind::Typed || item.tokens > user_text::LONG_TOKENS)
        .collect();
    let said = verbatim::newest(&others, left, counter);
    if said.is_empty() { said } else { format!("{SAID}:\n{}", defused(&said)) }
}

/// Returns sections of equal shares of the room. Unused room goes to the next section.
fn fill(sections: &[(&str, Vec<String>)], limit_tokens: u64, counter: &MessageTokenCounter) -> String {
    let mut text = String::new();
    let mut room = limit_tokens;
    for (index, (title, lines)) in sections.iter().enumerate() {
        let share = room / (sections.len() - index) as u64;
        // Three tokens are for the colon and the line end of a title, two for the mark and the line end of an item.
        let mut used = counter.text(title) + 3;
        let mut taken = Vec::new();
        for line in lines {
            let cost = counter.text(line) + 2;
            if used + cost > share {
                break;
            }
            used += cost;
            taken.push(format!("- {line}\n"));
        }
        if !taken.is_empty() {
            text.push_str(&format!("{title}:\n{}", taken.concat()));
            room = room.saturating_sub(used);
        }
    }
    text
}

/// Returns lines of earlier extracts. Text of a model is [carried on](super::earlier_summary) unchanged and is not
/// among them.
fn earlier(history: &History, items: &[&ViewItem]) -> Vec<String> {
    let extracts = items
        .iter()
        .filter(|item| matches!(item.kind, ViewItemKind::Summary(_)) && written_in(history, item).is_none());
    let mut lines: Vec<String> = Vec::new();
    for item in extracts {
        let text = plain_text(&item.message);
        for line in
            words_of(&user_text::without_section(&text)).lines().filter(|line| !line.starts_with(MARK))
        {
            let line = clip(line.trim_start_matches("- "), 300);
            // The lines that count omitted facts belong to an older state, and the new facts have their own.
            if !line.is_empty() && !line.starts_with("… and ") && !lines.contains(&line) {
                lines.push(line);
            }
        }
    }
    lines
}

/// Returns the words of a summary without its pinned facts, which every edit derives from the messages again. Headings
/// of nested extracts are dropped.
fn words_of(summary: &str) -> String {
    if let Some((_, written)) = summary.split_once(WRITTEN) {
        return written.to_owned();
    }
    match summary.lines().position(is_heading) {
        Some(at) => {
            let words = summary.lines().skip(at).filter(|line| !is_heading(line));
            words.collect::<Vec<_>>().join("\n")
        }
        None => without_counts(&summary.replace(NOTHING_SAID, "").replace(NOTHING_SAID_ALONE, "")),
    }
}

/// Returns a summary without the number of calls and without the titles of pinned facts. The new pinned facts have those
/// again, but may lack room for all older facts.
fn without_counts(summary: &str) -> String {
    let mut is_counts = false;
    let kept = summary.lines().filter(|line| {
        if !line.starts_with("- ") {
            is_counts = *line == TOOLS_TITLE;
        }
        !is_counts && !is_facts_title(line)
    });
    kept.collect::<Vec<_>>().join("\n")
}

/// Returns whether a line is a title, also one that an extract of extracts has taken as an item of its list.
fn is_heading(line: &str) -> bool {
    is_section_title(line.trim_start_matches("- "))
}

/// Returns whether a line is the title of a section that an extract has below its ledger.
pub(super) fn is_section_title(line: &str) -> bool {
    let title = line.trim().strip_suffix(':');
    title.is_some_and(|title| [STATE, EARLIER, SAID].contains(&title))
}

/// Returns the two newest texts of the assistant, each on one line.
fn last_words(items: &[&ViewItem]) -> Vec<String> {
    let words = items.iter().rev().filter(|item| item.kind == ViewItemKind::Assistant);
    words
        .map(|item| defused(&clip(&item.message.text(), 500)))
        .filter(|line| !line.is_empty())
        .take(2)
        .collect()
}

/// Returns a text on one line of at most `limit` characters.
fn clip(text: &str, limit: usize) -> String {
    let line: Vec<&str> = text.split_whitespace().collect();
    let line = line.join(" ");
    match line.char_indices().nth(limit) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    }
}

/// Returns a message as text, for summarisers that get the conversation as data.
pub(crate) fn plain_text(message: &Message) -> String {
    let mut text = String::new();
    for part in &message.parts {
        match part {
            Part::Text(part) => text.push_str(&part.text),
            Part::ToolCall(call) => text.push_str(&format!("\n[call {} {}]", call.name, call.arguments)),
            Part::ToolResult(result) => {
                text.extend(result.content.iter().filter_map(Part::as_text));
            }
            Part::Image(media) | Part::File(media) => {
                text.push_str(&format!("[{} {}]", media.media_type, media.blob))
            }
            // A provider's own items are sent back only to that provider.
            Part::Reasoning(_) | Part::Opaque(_) => {}
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_extract_took_from_earlier_ones_is_not_nested() {
        let first = format!(
            "{MARK} of 9 messages\n\nTools: read 9 times\n\n{STATE}:\n- all read\n{EARLIER}:\n- go on\n"
        );
        assert_eq!(words_of(&first), "- all read\n- go on");
        let nested = format!("{MARK} of 3\n\nTools: read 12 times\n{EARLIER}:\n- {EARLIER}:\n- go on\n");
        assert_eq!(words_of(&nested), "- go on");
        let written = format!("{MARK} of 3\n\nTools: read 12 times\n\n{WRITTEN}\nWe go on.");
        assert_eq!(words_of(&written).trim(), "We go on.");
        assert_eq!(words_of(&format!("{MARK} of 3\n\n{NOTHING_SAID}")).trim(), format!("{MARK} of 3"));
        assert_eq!(words_of("plain words"), "plain words");
        let facts =
            "Files read, newest last:\n- a.txt\nTools called:\n- read 4 times\nErrors, newest first:\n- E7";
        assert_eq!(words_of(facts), "- a.txt\n- E7");
    }
}
