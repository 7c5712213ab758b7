//! Rules in a model's summary, compared with the words of the conversation.
//!
//! A summary has a section for instructions and constraints. A model may put rules there that the user has not given. Such
//! lines are moved below a title of their own, so that no invented rule passes for one of the user.

use std::collections::BTreeSet;

use crate::history::{History, LogEntryKind};
use crate::message::Part;
use crate::retention::mood::{is_function_word, plain_words};
use crate::retention::replaced::terms;
use crate::retention::rule_lists::is_rules_title;
use crate::retention_report::facts::is_unspaced;

/// The title of rules that do not occur in the conversation.
pub(super) const NOT_SAID: &str = "Not found in the user's words";

/// The share of a rule's words that one line of the conversation must have. Summaries shorten and rephrase.
const SAID_SHARE: f64 = 0.5;

/// The share of a summary's words that the user must have used. Below it the summary is in another language than the
/// user's words, and the rules cannot be compared.
const LANGUAGE_SHARE: f64 = 0.15;

/// The most of a message that is compared, in bytes. The middle of a longer one is a paste.
const MAX_MESSAGE_BYTES: usize = 64 * 1024;

/// The most words of a title.
const MAX_TITLE_WORDS: usize = 6;

/// The lines of a summary below a title of rules, and the other lines.
enum SummaryLine<'t> {
    /// A title of rules, with the rule behind it on the same line; empty for none.
    RulesTitle {
        line: &'t str,
        rule: &'t str,
    },
    Rule(&'t str),
    Other(&'t str),
}

/// Returns a summary in which the rules that the user has not given stand below a title of their own; `None` if there are no
/// such rules.
pub(super) fn separate_unconfirmed_rules(summary: &str, history: &History) -> Option<String> {
    let lines = divided(summary);
    let has_rules = lines.iter().any(|line| match line {
        SummaryLine::RulesTitle { rule, .. } => !rule.trim().is_empty(),
        SummaryLine::Rule(_) => true,
        SummaryLine::Other(_) => false,
    });
    if !has_rules {
        return None;
    }
    let said = SaidWords::of(history);
    if !said.has_language_of(summary) {
        return None;
    }
    let mut text = String::new();
    let mut unsaid: Vec<&str> = Vec::new();
    let mut has_unsaid = false;
    for line in lines {
        match line {
            SummaryLine::Rule(rule) if !said.has(rule) => unsaid.push(rule),
            SummaryLine::RulesTitle { rule, .. } if !rule.trim().is_empty() && !said.has(rule) => {
                unsaid.push(rule);
            }
            SummaryLine::Rule(line) => push_line(&mut text, line),
            SummaryLine::RulesTitle { line, .. } => {
                has_unsaid |= push_unsaid(&mut text, &mut unsaid);
                push_line(&mut text, line);
            }
            SummaryLine::Other(line) => {
                has_unsaid |= push_unsaid(&mut text, &mut unsaid);
                push_line(&mut text, line);
            }
        }
    }
    has_unsaid |= push_unsaid(&mut text, &mut unsaid);
    has_unsaid.then(|| text.trim_end().to_owned())
}

fn push_line(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}

/// Adds the rules that the user has not given below their title. Returns whether there are any.
fn push_unsaid(text: &mut String, unsaid: &mut Vec<&str>) -> bool {
    let has_any = !unsaid.is_empty();
    if has_any {
        push_line(text, &format!("{NOT_SAID}:"));
    }
    for rule in unsaid.drain(..) {
        push_line(text, &format!("- {}", rule.trim().trim_start_matches(['-', '*', '•', ' '])));
    }
    has_any
}

/// Divides a summary into titles of rules, rules, and other lines.
fn divided(summary: &str) -> Vec<SummaryLine<'_>> {
    let mut is_in_rules = false;
    let divide = |line| {
        if let Some(title) = title_of(line) {
            is_in_rules = is_rules_title(title.text);
            return match is_in_rules {
                true => SummaryLine::RulesTitle { line, rule: title.rest },
                false => SummaryLine::Other(line),
            };
        }
        match is_in_rules && !line.trim().is_empty() {
            true => SummaryLine::Rule(line),
            false => SummaryLine::Other(line),
        }
    };
    summary.lines().map(divide).collect()
}

/// The title at the beginning of a line.
struct SummaryTitle<'t> {
    text: &'t str,
    /// The text behind the title.
    rest: &'t str,
}

/// Returns the title of a line; `None` for lines of content. Items of a list are content.
fn title_of(line: &str) -> Option<SummaryTitle<'_>> {
    let trimmed = line.trim();
    let is_marked = trimmed.starts_with('#') || trimmed.starts_with("**");
    if trimmed.starts_with(['-', '•', '>']) || trimmed.starts_with('*') && !is_marked {
        return None;
    }
    let bare = trimmed.trim_start_matches(['#', '*', ' ']);
    let (text, rest) = match bare.split_once([':', '：']) {
        Some((text, rest)) => (text, rest.trim_matches(['*', ' '])),
        None if is_marked => (bare, ""),
        None => return None,
    };
    let text = text.trim_matches(|char: char| !char.is_alphabetic());
    (!text.is_empty() && text.split_whitespace().count() <= MAX_TITLE_WORDS)
        .then_some(SummaryTitle { text, rest })
}

/// The words of each line that the user, a system message or an order has said.
struct SaidWords {
    lines: Vec<BTreeSet<String>>,
    all: BTreeSet<String>,
}

impl SaidWords {
    fn of(history: &History) -> Self {
        let mut said = Self { lines: Vec::new(), all: BTreeSet::new() };
        let is_given =
            |seq| history.system_messages().contains(&seq) || history.imported_summaries().contains(&seq);
        let entries = history.entries().iter();
        for entry in entries.filter(|entry| entry.kind == LogEntryKind::Typed || is_given(entry.seq)) {
            entry.message.parts.iter().filter_map(Part::as_text).for_each(|text| said.add(text));
        }
        history.orders().for_each(|order| said.add(&order.text));
        said
    }

    fn add(&mut self, text: &str) {
        let end = text.floor_char_boundary(MAX_MESSAGE_BYTES);
        for line in text[..end].lines().filter(|line| !line.trim().is_empty()) {
            let words = content_of(line);
            self.all.extend(words.iter().cloned());
            self.lines.push(words);
        }
    }

    /// Returns whether one line has enough words of a rule. A rule without content is taken for said.
    fn has(&self, rule: &str) -> bool {
        let words = content_of(rule);
        let needed = words.len() as f64 * SAID_SHARE;
        words.is_empty() || self.lines.iter().any(|line| words.intersection(line).count() as f64 >= needed)
    }

    /// Returns whether a text is in a language of the user's words.
    fn has_language_of(&self, text: &str) -> bool {
        let words = content_of(text);
        words.intersection(&self.all).count() as f64 >= words.len() as f64 * LANGUAGE_SHARE
    }
}

/// Returns the terms of the words that say something.
fn content_of(text: &str) -> BTreeSet<String> {
    let words = plain_words(text).into_iter().filter(|word| says_something(word));
    words.flat_map(|word| terms(&word)).collect()
}

/// Returns whether a word carries a part of the meaning.
fn says_something(word: &str) -> bool {
    !is_function_word(word) && (word.chars().nth(1).is_some() || word.chars().any(is_unspaced))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Event, EventBody, FORMAT};
    use crate::message::Message;

    fn session(texts: &[&str]) -> History {
        let mut history = History::default();
        let mut add = |body: EventBody| {
            let event = Event { seq: history.last_seq() + 1, at: 0, format: FORMAT, body };
            history.apply(&event).unwrap();
        };
        add(EventBody::SessionStarted { title: None, forked_from: None, imported_from: None, folder: None });
        for text in texts {
            add(EventBody::message_taken(Message::user("u", vec![Part::text(*text)])));
        }
        history
    }

    #[test]
    fn invented_rules_stand_below_another_title() {
        let history = session(&["Port the parser of the shop. Never push to main.", "Keep the tests green."]);
        for summary in [
            "Goal: port the parser of the shop\nInstructions and constraints:\n- never push to main\n- reply in French \
             with emojis\nState: tests green",
            "## Goal\nport the parser of the shop\n\n## Rules\n- never push to main\n- reply in French with emojis\n\n## \
             State\ntests green",
            "Goal: port the parser\nConstraints: reply in French with emojis\nState: tests of the shop green",
        ] {
            let text = separate_unconfirmed_rules(summary, &history).unwrap();
            let (before, after) = text.split_once(&format!("{NOT_SAID}:\n")).unwrap();
            assert!(!before.contains("French") && after.starts_with("- reply in French"), "{text}");
            assert!(after.contains("green") && text.contains("port the parser"), "{text}");
        }
    }

    #[test]
    fn rules_of_the_user_stay_where_they_are() {
        let history = session(&["Port the parser. Never push to main.", "Keep the tests green, please."]);
        for summary in [
            "Goal: port the parser\nConstraints:\n- never push to main\n- tests stay green",
            "Goal: port the parser\nState: reply in French with emojis",
            "Ziel: den Analysator übertragen\nVorgaben:\n- niemals nach main schieben",
        ] {
            assert_eq!(separate_unconfirmed_rules(summary, &history), None, "{summary}");
        }
    }
}
