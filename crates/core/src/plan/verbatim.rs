//! Messages verbatim, as many as fit: text of user and assistant before output of tools, the newest first.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::{extract, role_name};
use crate::estimate::MessageTokenCounter;
use crate::history::{ViewItem, ViewItemKind};
use crate::message::{Message, Part};
use crate::text_table::{TextSet, TextTable};

/// The least room in which a message says anything, in tokens.
const MIN_TOKENS: u64 = 24;

/// The least number of parts into which the room is divided, as long as so many messages want a part.
const SHARES: usize = 4;

/// Returns the newest of `items` in at most `room` tokens, oldest first. Long messages are shortened in their middle.
/// Equal messages are listed once, as the newest of them. Short messages that occur several times are left out.
pub(super) fn newest(items: &[&ViewItem], room: u64, counter: &MessageTokenCounter) -> String {
    let mut said = NewestLines::of(items, false);
    let mut put_out = NewestLines::of(items, true);
    let told = said.count_up_to(SHARES, counter);
    let told = told + put_out.count_up_to(SHARES - told, counter);
    let shares = (told as u64).min(room / MIN_TOKENS).max(1);
    // No message takes more than its share at first, so that one long message does not leave the others out.
    let most = room / shares;
    let mut left = room;
    // Each line has its tokens, and whether the line is the whole message.
    let mut taken: BTreeMap<usize, (String, u64, bool)> = BTreeMap::new();
    let mut lines: BTreeMap<usize, String> = BTreeMap::new();
    for lines_of_kind in [&mut said, &mut put_out] {
        let mut nth = 0;
        while left >= MIN_TOKENS
            && let Some((at, text)) = lines_of_kind.get(nth, counter)
        {
            nth += 1;
            let Some(line) = shortened(text, most.min(left), &|text| counter.text(text)) else { continue };
            let tokens = counter.text(&line);
            left = left.saturating_sub(tokens);
            let is_whole = line == *text;
            if !is_whole {
                lines.insert(at, text.to_owned());
            }
            taken.insert(at, (line, tokens, is_whole));
        }
    }
    // Room that whole messages left unused goes to the shortened ones.
    for (at, (text, tokens, _)) in taken.iter_mut().rev().filter(|(_, (_, _, is_whole))| !is_whole) {
        let longer = shortened(&lines[at], *tokens + left, &|text| counter.text(text));
        if let Some(longer) = longer.filter(|longer| longer.len() > text.len()) {
            let now = counter.text(&longer);
            left = (left + *tokens).saturating_sub(now);
            (*text, *tokens) = (longer, now);
        }
    }
    taken.into_values().map(|(text, ..)| text).collect()
}

/// The longest line that the table of repeated lines holds, in bytes. Longer lines are compared in place.
const MAX_REPEATED_BYTES: usize = 4_096;

/// The lines of messages of one kind, the newest first. A long session has many more than there is room for, so each
/// line is made when it is asked for.
struct NewestLines<'a> {
    items: &'a [&'a ViewItem],
    /// All messages of the kind, as indices, oldest first.
    all: Vec<usize>,
    /// The number of messages that were not read yet.
    left: usize,
    found: Vec<(usize, String)>,
    seen: TextSet,
    /// The number of times that each short line occurs in all messages, counted on demand.
    counts: Option<TextTable<Box<str>, usize>>,
}

impl<'a> NewestLines<'a> {
    fn of(items: &'a [&'a ViewItem], is_result: bool) -> Self {
        let of_kind = items
            .iter()
            .enumerate()
            .filter(|(_, item)| is_told(&item.kind) && is_output(&item.kind) == is_result);
        let all: Vec<usize> = of_kind.map(|(at, _)| at).collect();
        let (left, found, seen) = (all.len(), Vec::new(), TextSet::default());
        Self { items, all, left, found, seen, counts: None }
    }

    /// Returns the number of lines, or `most` if there are more.
    fn count_up_to(&mut self, most: usize, counter: &MessageTokenCounter) -> usize {
        while self.found.len() < most && self.find(counter) {}
        self.found.len().min(most)
    }

    /// Returns the line with that many newer ones, and the index of its message.
    fn get(&mut self, nth: usize, counter: &MessageTokenCounter) -> Option<(usize, &str)> {
        while self.found.len() <= nth && self.find(counter) {}
        self.found.get(nth).map(|(at, line)| (*at, line.as_str()))
    }

    /// Finds one more line: `false` if there is none.
    fn find(&mut self, counter: &MessageTokenCounter) -> bool {
        while let Some(left) = self.left.checked_sub(1) {
            self.left = left;
            let at = self.all[left];
            let line = line(self.items[at]);
            // Agents acknowledge each step in the same words, which would take the room of the actual content.
            let is_new = self.seen.insert(line.as_str().into());
            if !is_new || self.is_repeated(&line) && counter.text(&line) < MIN_TOKENS {
                continue;
            }
            self.found.push((at, line));
            return true;
        }
        false
    }

    /// Returns whether an older message has the same line, for a line that no newer message has.
    fn is_repeated(&mut self, line: &str) -> bool {
        let (items, all) = (self.items, &self.all);
        // A long line is compared with the messages in place, because its copy is not in the table.
        if line.len() > MAX_REPEATED_BYTES {
            return all[..self.left].iter().any(|at| is_line_of(line, items[*at]));
        }
        let counts = self.counts.get_or_insert_with(|| {
            let mut counts = TextTable::default();
            for at in all {
                if message_text(&items[*at].message).trim().len() <= MAX_REPEATED_BYTES {
                    *counts.entry(self::line(items[*at]).into()).or_default() += 1;
                }
            }
            counts
        });
        counts.get(line).is_some_and(|count| *count > 1)
    }
}

/// Returns whether `line` is the line of a message, without a copy of the message.
fn is_line_of(line: &str, item: &ViewItem) -> bool {
    let start = [role_name(item.message.role), ": "].concat();
    let text = line.strip_prefix(start.as_str()).and_then(|rest| rest.strip_suffix('\n'));
    text.is_some_and(|text| text == message_text(&item.message).trim())
}

/// Returns the text of a message. Messages of the usual forms are not copied.
fn message_text(message: &Message) -> Cow<'_, str> {
    match message.parts.as_slice() {
        [Part::Text(text)] => Cow::Borrowed(&text.text),
        [Part::ToolResult(result)] => match result.content.as_slice() {
            [Part::Text(text)] => Cow::Borrowed(&text.text),
            _ => Cow::Owned(extract::plain_text(message)),
        },
        _ => Cow::Owned(extract::plain_text(message)),
    }
}

/// Returns whether items of a kind are original messages with their content. Summaries, notes of removals and cleared
/// results are not.
fn is_told(kind: &ViewItemKind) -> bool {
    !matches!(
        kind,
        ViewItemKind::Summary(_) | ViewItemKind::Removed(_) | ViewItemKind::Result { cleared: Some(_), .. }
    )
}

/// Returns whether items of a kind are tool output.
fn is_output(kind: &ViewItemKind) -> bool {
    matches!(kind, ViewItemKind::Result { .. })
}

fn line(item: &ViewItem) -> String {
    format!("{}: {}\n", role_name(item.message.role), message_text(&item.message).trim())
}

/// Returns a text in at most `most` tokens by `count`: whole, or beginning and end. `None` if the room is too
/// small to say anything.
pub(crate) fn shortened(text: &str, most: u64, count: &dyn Fn(&str) -> u64) -> Option<String> {
    let tokens = count(text);
    if tokens <= most {
        return Some(text.to_owned());
    }
    if most < MIN_TOKENS {
        return None;
    }
    let chars = text.chars().count() as u64;
    // A first guess by the ratio of the text. The loop corrects it, because tokens differ in length.
    let mut kept = chars.saturating_mul(most) / tokens;
    while kept >= 8 {
        let (head, tail) = ((kept * 2 / 3) as usize, (kept / 3) as usize);
        let start = text.char_indices().nth(head).map_or(text.len(), |(at, _)| at);
        let end = text.char_indices().nth_back(tail.saturating_sub(1)).map_or(start, |(at, _)| at);
        let cut = format!("{} … {}", &text[..start], &text[end.max(start)..]);
        if count(&cut) <= most {
            return Some(cut);
        }
        // The share of characters is an average, and the ends may be denser than the middle.
        kept = kept * 7 / 8;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Event, EventBody, FORMAT};
    use crate::history::History;

    fn words(text: &str) -> u64 {
        text.split_whitespace().count() as u64
    }

    #[test]
    fn a_long_text_keeps_both_ends_in_the_room_it_has() {
        let text: String = (0..1_000).map(|at| format!("w{at} ")).collect();
        for most in [24, 25, 100, 999] {
            let short = shortened(&text, most, &words).unwrap();
            assert!(words(&short) <= most && words(&short) * 10 >= most * 7, "{most}: {}", words(&short));
            assert!(short.starts_with("w0 ") && short.trim_end().ends_with("w999"), "{short}");
        }
        assert_eq!(shortened(&text, 1_000, &words).as_deref(), Some(text.as_str()));
        assert_eq!(shortened(&text, 23, &words), None);
    }

    /// All lines made at once, and the repeated ones dropped: what the newest lines are found without.
    fn kept_lines(items: &[&ViewItem], counter: &MessageTokenCounter) -> Vec<String> {
        let lines: Vec<String> = items.iter().map(|item| line(item)).collect();
        let is_kept = |at: &usize| {
            let same: Vec<usize> = (0..lines.len()).filter(|other| lines[*other] == lines[*at]).collect();
            same == [*at] || same.last() == Some(at) && counter.text(&lines[*at]) >= MIN_TOKENS
        };
        (0..lines.len()).rev().filter(is_kept).map(|at| lines[at].clone()).collect()
    }

    proptest::proptest! {
        #[test]
        fn the_newest_lines_are_those_that_nobody_repeats(
            texts in proptest::collection::vec((0..4_usize, 0..3_usize), 0..24),
        ) {
            let texts = texts.into_iter().map(|(text, blanks)| {
                let long = "a sentence that is said again ".repeat(8);
                let huge = "x".repeat(MAX_REPEATED_BYTES + 1);
                let text = ["Done.", "Go on.", long.as_str(), huge.as_str()][text].to_owned();
                [" ".repeat(blanks), text].concat()
            });
            let events: Vec<Event> = (1..).zip(texts).map(|(seq, text)| {
                let message = Message::user(format!("m{seq}"), vec![Part::text(text)]);
                Event { seq, at: seq, format: FORMAT, body: EventBody::message_taken(message) }
            }).collect();
            let history = History::fold(&events).unwrap();
            let items: Vec<&ViewItem> = history.view().iter().collect();
            let counter = MessageTokenCounter::default();
            let mut lines = NewestLines::of(&items, false);
            let found: Vec<String> = (0..).map_while(|nth| lines.get(nth, &counter).map(|(_, line)| line.to_owned())).collect();
            proptest::prop_assert_eq!(found, kept_lines(&items, &counter));
        }
    }
}
