//! The demo's final questions: lines of files that were seen only before the first compaction.

use std::collections::BTreeMap;

use longhaul_core::event::EditKind;
use longhaul_core::history::{LogEntry, LogEntryKind};
use longhaul_core::message::{Message, Part};
use longhaul_core::run::Run;

/// The number of lines that are asked for.
pub(super) const QUESTIONS: usize = 3;

const ASK: &str = "Early on you read a line that begins: «";

/// A line of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DemoFact {
    /// The whole line, without its number.
    pub(super) line: String,
    /// The first half of the line.
    pub(super) half: String,
}

impl DemoFact {
    /// Returns the question.
    pub(super) fn question(&self) -> String {
        format!("{ASK}{}». Quote the whole line exactly.", self.half)
    }
}

/// Returns the half line that a question asks for.
pub(super) fn asked_for(question: &str) -> Option<String> {
    // The newest question counts. Earlier ones may be in the same text.
    let start = question.rfind(ASK)? + ASK.len();
    let end = question[start..].find('»')?;
    Some(question[start..start + end].to_owned())
}

/// Returns lines from results before the first compaction, from as many results as possible. Each occurs nowhere
/// else in the conversation and is not in view now.
pub(super) fn choose(run: &Run) -> Vec<DemoFact> {
    let history = run.history();
    let Some(first_read) = history.entries().iter().find(|entry| is_read(entry)) else { return Vec::new() };
    let mut later = history.edits().iter().filter(|state| state.seq > first_read.seq);
    let compaction = later.clone().find(|state| state.edit.kind == EditKind::Compaction);
    // In a large window only prunes may have happened.
    let Some(first) = compaction.or_else(|| later.next()).map(|state| state.seq) else { return Vec::new() };
    let texts: Vec<String> = history.entries().iter().map(|entry| text_of(&entry.message)).collect();
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for line in texts.iter().flat_map(|text| text.lines()) {
        *seen.entry(content(line)).or_default() += 1;
    }
    let early = history.entries().iter().zip(&texts);
    let early = early.filter(|(entry, _)| entry.seq < first && is_read(entry));
    let mut facts = Vec::new();
    for (_, text) in early {
        let candidates = text.lines().map(content).filter(|line| seen.get(line) == Some(&1));
        let found =
            candidates.filter_map(fact).filter(|fact| is_rare(&texts, fact) && !is_in_view(run, fact));
        facts.extend(found.take(QUESTIONS).zip(0..));
    }
    // The first line of every result comes before the second ones, so that the questions cover many files.
    facts.sort_by_key(|(_, rank)| *rank);
    facts.into_iter().map(|(fact, _)| fact).collect()
}

fn is_read(entry: &LogEntry) -> bool {
    matches!(&entry.kind, LogEntryKind::Result { tool } if tool == "read")
}

fn is_rare(texts: &[String], fact: &DemoFact) -> bool {
    texts.iter().filter(|text| text.contains(&fact.half)).count() == 1
}

/// Returns a fact for a line that makes a good question: a sentence of some length.
fn fact(line: &str) -> Option<DemoFact> {
    let words: Vec<&str> = line.split(' ').collect();
    // The question puts the half line between these marks. Halves of ASCII text never tear a character.
    let plain = !line.contains(['«', '»']) && line.is_ascii();
    if !(40..=120).contains(&line.len()) || words.len() < 6 || !plain {
        return None;
    }
    let half = words[..words.len() / 2].join(" ");
    let spoken =
        half.split_whitespace().filter(|word| word.chars().filter(|c| c.is_alphabetic()).count() > 2);
    // Punctuation and short words alone occur in many lines, and `recall` would find the wrong one.
    (spoken.count() >= 3).then(|| DemoFact { line: line.to_owned(), half })
}

/// Returns a line as it is in the file: without the number that `read` puts before it.
pub(super) fn content(line: &str) -> &str {
    let digits = line.trim_start().trim_start_matches(|c: char| c.is_ascii_digit());
    match digits.strip_prefix(['\t', '→', '|', ':']) {
        Some(rest) => rest.trim(),
        None => line.trim(),
    }
}

/// Returns whether the line is in what the model is shown.
pub(super) fn is_in_view(run: &Run, fact: &DemoFact) -> bool {
    run.history().view().iter().any(|item| text_of(&item.message).contains(&fact.line))
}

/// Returns the readable text of a message, tool results included.
pub(super) fn text_of(message: &Message) -> String {
    let mut text = String::new();
    for part in &message.parts {
        match part {
            Part::Text(part) => text.push_str(&part.text),
            Part::ToolResult(result) => text.extend(result.content.iter().filter_map(Part::as_text)),
            _ => {}
        }
    }
    text
}
