//! Rendering of pinned facts as text: sections in order of importance, cut to a number of tokens.

use super::{PinnedFacts, line};
use crate::estimate::MessageTokenCounter;

/// The number of sections that come before all others: open todos, files changed, files read.
const FIRST: usize = 3;

/// The title of the number of calls of each tool.
pub(crate) const TOOLS_TITLE: &str = "Tools called:";

/// The beginnings of all titles. Some titles end with a number.
const TITLES: [&str; 9] = [
    "Open todos",
    "Files changed, newest last",
    "Files read, newest last",
    "Facts in tool output, newest first",
    "Errors, newest first",
    "Commands, newest first",
    "Identifiers",
    "Values, the latest of each",
    "Tools called",
];

/// Returns whether a line is the title of a section of pinned facts.
pub(crate) fn is_facts_title(line: &str) -> bool {
    line.ends_with(':') && TITLES.iter().any(|title| line.starts_with(title))
}

/// The length after which a todo is cut, in characters.
const MAX_CHARS: usize = 400;

/// The lines of one class.
#[derive(Debug)]
pub(super) struct FactSection {
    title: String,
    items: Vec<String>,
    /// The number of entries that were removed before the rendering.
    evicted: u64,
    /// The end of the list that stays if there is too little room.
    stays: SectionEnd,
    /// `true` if the reading model can get omitted items with `recall`.
    has_recall: bool,
}

/// An end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SectionEnd {
    First,
    Last,
}

/// A section with the token counts of the lines.
struct MeasuredSection<'a> {
    section: &'a FactSection,
    title: u64,
    items: Vec<u64>,
    /// The tokens of the line that counts omitted items.
    more: u64,
}

/// Returns the sections with at least one item, the most important first. The first [`FIRST`] sections may be empty.
pub(super) fn sections(ledger: &PinnedFacts) -> Vec<FactSection> {
    let (commands, errors) = ledger.outcomes.evicted();
    let changed = ledger.changed_files();
    let changed = changed.map(|(path, verb)| format!("{} ({})", line::name(path, 1_000), verb.as_str()));
    let read = ledger.read_files().map(|path| line::name(path, 1_000));
    let evicted_reads = ledger.files.evicted() - ledger.evicted_changes;
    let todos = ledger.todos.open().map(|(text, begun)| {
        let text = line::quoted_line(text, MAX_CHARS);
        if begun { format!("{text} (begun)") } else { text }
    });
    let todos: Vec<String> = todos.collect();
    // Most evicted todos are finished. Their number says something only beside open todos.
    let evicted_todos = if todos.is_empty() { 0 } else { ledger.todos.evicted() };
    let todos_title = match ledger.todos.finished() {
        0 => "Open todos".to_owned(),
        finished => format!("Open todos ({finished} finished)"),
    };
    let errors_title = match ledger.outcomes.resolved() {
        0 => "Errors, newest first".to_owned(),
        resolved => format!("Errors, newest first ({resolved} resolved since)"),
    };
    let mut sections = vec![
        section(&todos_title, todos, evicted_todos, SectionEnd::First),
        section("Files changed, newest last", changed.collect(), ledger.evicted_changes, SectionEnd::Last),
        section("Files read, newest last", read.collect(), evicted_reads, SectionEnd::Last),
        section(
            "Facts in tool output, newest first",
            ledger.facts.newest_first().collect(),
            ledger.facts.evicted(),
            SectionEnd::First,
        ),
        section(&errors_title, ledger.outcomes.errors().collect(), errors, SectionEnd::First),
        section("Commands, newest first", ledger.outcomes.commands().collect(), commands, SectionEnd::First),
        section("Identifiers", ledger.names.kept().collect(), ledger.names.evicted(), SectionEnd::First),
        section(
            "Values, the latest of each",
            ledger.values.latest().collect(),
            ledger.values.evicted(),
            SectionEnd::First,
        ),
        section("Tools called", tool_counts(ledger), 0, SectionEnd::First),
    ];
    // The first sections stay even if they are empty, so that their number is fixed.
    let rest = sections.split_off(FIRST);
    sections.extend(rest.into_iter().filter(|section| !section.items.is_empty()));
    debug_assert!(sections.iter().all(|section| is_facts_title(section.title.trim_end())));
    sections.iter_mut().for_each(|section| section.has_recall = !ledger.without_recall);
    sections
}

fn section(title: &str, items: Vec<String>, evicted: u64, stays: SectionEnd) -> FactSection {
    FactSection {
        title: format!("{title}:\n"),
        items: items.iter().map(|item| format!("- {item}\n")).collect(),
        evicted,
        stays,
        has_recall: true,
    }
}

/// Returns one item with the number of calls of each tool; none if no tool was called.
fn tool_counts(ledger: &PinnedFacts) -> Vec<String> {
    let counts = ledger.tools.iter().map(|(tool, count)| match count {
        1 => format!("{} once", line::name(tool, 64)),
        _ => format!("{} {count} times", line::name(tool, 64)),
    });
    let counts: Vec<String> = counts.collect();
    if counts.is_empty() { counts } else { vec![counts.join(", ")] }
}

/// Renders as much of the sections as fits. The first [`FIRST`] sections are whole if they fit alone.
pub(super) fn fit(sections: &[FactSection], limit_tokens: u64, counter: &MessageTokenCounter) -> String {
    let measured: Vec<MeasuredSection<'_>> =
        sections.iter().map(|section| MeasuredSection::new(section, counter)).collect();
    let (first, rest) = measured.split_at(FIRST.min(measured.len()));
    let whole = fill(first, u64::MAX);
    // Todos and files come first: published comparisons find agents weakest at the files that they have touched
    // (decision 0017).
    let used = counter.text(&whole);
    if used <= limit_tokens {
        return within(&whole, rest, limit_tokens, limit_tokens - used, counter);
    }
    within("", &measured, limit_tokens, limit_tokens, counter)
}

/// Returns the sections that come before all others.
pub(super) fn first(sections: &[FactSection]) -> &[FactSection] {
    &sections[..FIRST.min(sections.len())]
}

/// The beginning of the line of names.
const NAMES: &str = "Names in use: ";

/// Returns the text with a line of at most `room` tokens of the names that the text does not contain yet.
pub(super) fn with_names(text: String, names: &[&str], room: u64, counter: &MessageTokenCounter) -> String {
    let mut line = String::from(NAMES);
    let mut used = counter.text(NAMES) + 2;
    for name in names.iter().filter(|name| !text.contains(**name)) {
        let name = super::line::name(name, 100);
        let cost = counter.text(&name) + 1;
        if used + cost > room {
            break;
        }
        used += cost;
        line.push_str(&name);
        line.push(' ');
    }
    if line.len() == NAMES.len() { text } else { format!("{text}{}\n", line.trim_end()) }
}

/// Renders sections behind `start` so that the whole text has at most `limit` tokens.
fn within(
    start: &str,
    sections: &[MeasuredSection<'_>],
    limit: u64,
    mut room: u64,
    counter: &MessageTokenCounter,
) -> String {
    // The tokens of a text are not exactly the sum of its lines' tokens, so the room shrinks until the text fits. Steps
    // of at least 1/32 bound the number of rounds.
    loop {
        let text = [start, &fill(sections, room)].concat();
        let over = counter.text(&text).saturating_sub(limit);
        if over == 0 {
            return text;
        }
        if room == 0 {
            return start.to_owned();
        }
        room = room.saturating_sub(over.max(room / 32));
    }
}

/// Renders sections into about `room` tokens, with room reserved for the counts of later sections.
fn fill(sections: &[MeasuredSection<'_>], mut room: u64) -> String {
    let mut taken = vec![(String::new(), 0); sections.len()];
    let mut later: u64 = sections.iter().map(MeasuredSection::least).sum();
    for (at, section) in sections.iter().enumerate() {
        later -= section.least();
        let least = section.least().min(room);
        let share = room.saturating_sub(later);
        taken[at] = section.take(share.max(least));
        room = room.saturating_sub(taken[at].1);
    }
    // Room that later sections did not use goes to the sections whose share was too small.
    for at in 0..sections.len() {
        let used = taken[at].1;
        if used < sections[at].all() {
            taken[at] = sections[at].take(used + room);
            room -= taken[at].1 - used;
        }
    }
    taken.into_iter().map(|(text, _)| text).collect()
}

impl<'a> MeasuredSection<'a> {
    fn new(section: &'a FactSection, counter: &MessageTokenCounter) -> Self {
        Self {
            section,
            // The line of omissions is measured with the largest count, so that it fits with any other.
            title: counter.text(&section.title),
            items: section.items.iter().map(|item| counter.text(item)).collect(),
            more: counter.text(&section.more(section.items.len() as u64 + section.evicted)),
        }
    }

    /// Returns the tokens of the section with only its title and the number of items.
    fn least(&self) -> u64 {
        if self.section.is_empty() { 0 } else { self.title + self.more }
    }

    /// Returns the tokens of the section with all items.
    fn all(&self) -> u64 {
        self.title + self.items.iter().sum::<u64>()
    }

    /// Renders the section in at most `room` tokens. Returns the text and its tokens.
    fn take(&self, room: u64) -> (String, u64) {
        let (items, evicted) = (&self.section.items, self.section.evicted);
        let all = self.all();
        if self.section.is_empty() {
            return (String::new(), 0);
        }
        if all <= room && evicted == 0 {
            return ([self.section.title.as_str(), &items.concat()].concat(), all);
        }
        let least = self.least();
        let Some(room) = room.checked_sub(least) else { return (String::new(), 0) };
        let (taken, used) = match self.section.stays {
            SectionEnd::First => count_fitting(self.items.iter(), room),
            SectionEnd::Last => count_fitting(self.items.iter().rev(), room),
        };
        let omitted = items.len() - taken;
        let more = self.section.more(omitted as u64 + evicted);
        let text = match self.section.stays {
            SectionEnd::First => items[..taken].concat() + &more,
            SectionEnd::Last => more + &items[omitted..].concat(),
        };
        ([self.section.title.as_str(), &text].concat(), least + used)
    }
}

/// Returns how many items fit into `room` tokens one after the other, and the sum of their tokens.
fn count_fitting<'t>(items: impl Iterator<Item = &'t u64>, room: u64) -> (usize, u64) {
    let (mut count, mut used) = (0, 0);
    for tokens in items {
        if used + tokens > room {
            break;
        }
        count += 1;
        used += tokens;
    }
    (count, used)
}

impl FactSection {
    /// Returns whether the section has nothing to show, not even a number of removed entries.
    fn is_empty(&self) -> bool {
        self.items.is_empty() && self.evicted == 0
    }

    /// Returns the line that counts omitted items.
    fn more(&self, count: u64) -> String {
        let how = if self.has_recall { ", by recall" } else { "" };
        format!("- … and {count} more{how}\n")
    }
}
