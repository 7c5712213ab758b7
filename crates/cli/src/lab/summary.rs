//! The stand-in for a model's summary, equal for every policy.
//!
//! A replay has no model. If a policy asks for a summary, [`stand_in_summary`] takes verbatim lines of the
//! texts that a model would have been shown. That is an honest summary, neither clever nor careless, and
//! equal for equal input. Its length follows [`length_tokens`], unless the policy has its own limit.

use std::collections::{BTreeMap, BTreeSet};

use longhaul_core::estimate::MessageTokenCounter;
use longhaul_core::history::LogEntryKind;
use longhaul_core::message::{Message, Part, Role, ToolStatus};

use crate::lab::recording::RecordedMessage;

#[cfg(test)]
mod tests;

/// The length of a summary without a limit, in tokens. This is an assumption: the two summaries that pi wrote
/// of 175,004 and 185,014 tokens (recorded session in badlogic/pi-mono, December 2025) have 1,101 and 953.
pub(crate) const TYPICAL_TOKENS: u64 = 1_000;

/// The divisor of a source's length that gives the longest summary. It is an assumption: no model writes a summary as
/// long as its source.
const LEAST_RATIO: u64 = 4;

/// The minimum tokens of a summary, however short the conversation. It is an assumption.
const LEAST_TOKENS: u64 = 64;

/// The maximum length of a line, in characters.
const LINE_CHARS: usize = 400;

/// The id of messages that are earlier summaries.
const ID: &str = "stand-in-summary";

/// Words of a constraint in a line of a user.
const CONSTRAINT_MARKS: [&str; 14] = [
    "must",
    "never",
    "always",
    "only",
    "don't",
    "do not",
    "cannot",
    "should not",
    "avoid",
    "required",
    "without",
    "make sure",
    "ensure",
    "need to",
];

/// Words of a decision in a line of the model.
const DECISION_MARKS: [&str; 10] = [
    "decide",
    "decision",
    "chose",
    "going with",
    "settled on",
    "agreed",
    "i'll use",
    "i will use",
    "instead of",
    "rather than",
];

/// Words of an error line in a tool's output.
const ERROR_MARKS: [&str; 6] = ["error", "panicked", "exception", "traceback", "failed", "fatal"];

/// The sections, in their written order.
const TITLES: [&str; 6] = ["Goal", "Constraints", "Files", "Errors", "Decisions", "State"];

/// Returns the length of a summary of `covered_tokens`, in tokens: [`TYPICAL_TOKENS`], but never more than
/// `limit_tokens`, and never more than a quarter of the covered tokens.
pub(crate) fn length_tokens(covered_tokens: u64, limit_tokens: Option<u64>) -> u64 {
    let room = limit_tokens.unwrap_or(u64::MAX).min(TYPICAL_TOKENS);
    room.min((covered_tokens / LEAST_RATIO).max(LEAST_TOKENS))
}

/// Returns a summary as a message of the conversation. A later summary continues its lines.
pub(crate) fn recorded_summary(text: &str, role: Role, counter: &MessageTokenCounter) -> RecordedMessage {
    let message = Message { id: ID.into(), role, parts: vec![Part::text(text)], origin: None };
    let tokens = counter.message(&message);
    RecordedMessage {
        seq: 0,
        at: None,
        message: message.into(),
        kind: LogEntryKind::Note,
        tokens,
        text: text.into(),
    }
}

/// Returns the stand-in for a model's summary of `texts`, oldest first, in at most `limit_tokens`.
///
/// The summary has goal, constraints, files, errors, decisions and the last state, all in lines of the conversation.
/// The sections take turns, the newest line first, until the room is used up. So long conversations lose old details.
pub(crate) fn stand_in_summary(
    texts: &[&RecordedMessage],
    limit_tokens: u64,
    counter: &MessageTokenCounter,
) -> String {
    let sections = SummarySections::of(texts);
    let mut chosen: Vec<Vec<&str>> = vec![Vec::new(); TITLES.len()];
    let mut room = limit_tokens;
    let longest = sections.newest_first.iter().map(Vec::len).max().unwrap_or(0);
    // One line of each section in turn, so that one long section does not take the room of all others.
    'turns: for turn in 0..longest {
        for (at, lines) in sections.newest_first.iter().enumerate() {
            let Some(line) = lines.get(turn) else { continue };
            // 2 tokens are for the colon and the line end; below, for the bullet and the line end.
            let title = if chosen[at].is_empty() { counter.text(TITLES[at]) + 2 } else { 0 };
            let cost = counter.text(line) + 2 + title;
            if cost > room {
                break 'turns;
            }
            room -= cost;
            chosen[at].push(line);
        }
    }
    within(chosen, limit_tokens, counter)
}

/// Drops lines until the whole text fits. The counts of pieces do not always add up to the count of the
/// whole.
fn within(mut chosen: Vec<Vec<&str>>, limit_tokens: u64, counter: &MessageTokenCounter) -> String {
    loop {
        let text = written(&chosen);
        if counter.text(&text) <= limit_tokens {
            return text;
        }
        let Some(longest) = chosen.iter_mut().max_by_key(|lines| lines.len()) else { return String::new() };
        longest.pop();
    }
}

fn written(chosen: &[Vec<&str>]) -> String {
    let mut text = String::new();
    for (title, lines) in TITLES.iter().zip(chosen).filter(|(_, lines)| !lines.is_empty()) {
        text.push_str(&format!("{title}:\n"));
        // The lines were chosen newest first, but a summary reads from old to new.
        lines.iter().rev().for_each(|line| text.push_str(&format!("- {line}\n")));
    }
    text
}

/// The candidates of each section, without repetitions.
struct SummarySections {
    newest_first: [Vec<String>; 6],
    seen: BTreeSet<(usize, String)>,
}

const GOAL: usize = 0;
const CONSTRAINTS: usize = 1;
const FILES: usize = 2;
const ERRORS: usize = 3;
const DECISIONS: usize = 4;
const STATE: usize = 5;

impl SummarySections {
    fn of(texts: &[&RecordedMessage]) -> Self {
        let mut sections = Self { newest_first: Default::default(), seen: BTreeSet::new() };
        let last_words = texts.iter().rposition(|text| says_something(text));
        for (at, text) in texts.iter().enumerate().rev() {
            match &text.kind {
                // First, because a summary has the kind of a note, and notes are left out.
                _ if is_summary(text) => sections.read_summary(&text.text),
                LogEntryKind::Typed => sections.read_typed(&text.text),
                LogEntryKind::Assistant(_) => sections.read_assistant(text, Some(at) == last_words),
                LogEntryKind::Result { .. } => sections.read_result(text),
                _ => {}
            }
        }
        sections
    }

    fn add(&mut self, section: usize, line: &str) {
        let line: Vec<&str> = line.split_whitespace().collect();
        let line = line.join(" ");
        let end = line.char_indices().nth(LINE_CHARS).map_or(line.len(), |(end, _)| end);
        let line = line[..end].to_owned();
        if !line.is_empty() && self.seen.insert((section, line.clone())) {
            self.newest_first[section].push(line);
        }
    }

    /// Reads an earlier summary: each of its sections continues before the newer one. Lines in no section are
    /// state.
    fn read_summary(&mut self, text: &str) {
        let mut lines: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
        let mut section = STATE;
        for line in text.lines() {
            match TITLES.iter().position(|title| line.strip_suffix(':') == Some(*title)) {
                Some(title) => section = title,
                None => lines.entry(section).or_default().push(line.strip_prefix("- ").unwrap_or(line)),
            }
        }
        for (section, lines) in lines {
            lines.into_iter().rev().for_each(|line| self.add(section, line));
        }
    }

    fn read_typed(&mut self, text: &str) {
        if let Some(line) = text.lines().find(|line| !line.trim().is_empty()) {
            self.add(GOAL, line);
        }
        text.lines()
            .rev()
            .filter(|line| has_any(line, &CONSTRAINT_MARKS))
            .for_each(|line| self.add(CONSTRAINTS, line));
    }

    fn read_assistant(&mut self, text: &RecordedMessage, is_last: bool) {
        let said = text.message.text();
        if is_last {
            said.lines().rev().for_each(|line| self.add(STATE, line));
        }
        said.lines()
            .rev()
            .filter(|line| has_any(line, &DECISION_MARKS))
            .for_each(|line| self.add(DECISIONS, line));
        for call in text.message.tool_calls() {
            for path in paths(&call.arguments) {
                self.add(FILES, &format!("{path} ({})", call.name));
            }
        }
    }

    fn read_result(&mut self, text: &RecordedMessage) {
        let failed =
            text.message.parts.iter().any(
                |part| matches!(part, Part::ToolResult(result) if result.status != ToolStatus::Completed),
            );
        // A failed call may say why without one of the marks, so its first line counts too.
        let first = text.text.lines().find(|line| !line.trim().is_empty()).filter(|_| failed);
        let marked = text.text.lines().rev().filter(|line| has_any(line, &ERROR_MARKS)).take(3);
        marked.chain(first).for_each(|line| self.add(ERRORS, line));
    }
}

fn is_summary(text: &RecordedMessage) -> bool {
    text.message.id.as_str() == ID
}

fn says_something(text: &RecordedMessage) -> bool {
    matches!(text.kind, LogEntryKind::Assistant(_)) && !text.message.text().trim().is_empty()
}

fn has_any(line: &str, marks: &[&str]) -> bool {
    let lower = line.to_lowercase();
    marks.iter().any(|mark| lower.contains(mark))
}

/// Returns string arguments in the form of paths.
fn paths(arguments: &str) -> Vec<String> {
    // A model may send arguments that are no JSON object; such a call names no files.
    let Ok(serde_json::Value::Object(fields)) = serde_json::from_str(arguments) else { return Vec::new() };
    let texts = fields.values().filter_map(serde_json::Value::as_str);
    let is_path =
        |text: &&str| text.len() < 200 && !text.contains(char::is_whitespace) && text.contains(['/', '.']);
    texts.filter(is_path).map(str::to_owned).collect()
}
