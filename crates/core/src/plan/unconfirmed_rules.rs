//! Rules in a model's summary, compared with the words of the conversation.
//!
//! A summary has a section for instructions and constraints. A model may put rules there that the user has not given. Such
//! lines are moved below a title of their own, so that no invented rule passes for one of the user.
//!
//! Words cannot be compared across languages. So a rule counts as said if it shares a number, a name or a path with an
//! order that the user gave in another language than the summary's. If it shares nothing, no check is possible, and the
//! title says so.

use std::collections::BTreeSet;

use crate::history::{History, LogEntryKind};
use crate::message::Part;
use crate::retention::languages::TextLanguage;
use crate::retention::mood::{ORDER_SCORE, is_function_word, order_score, plain_words};
use crate::retention::replaced::terms;
use crate::retention::rule_lists::is_rules_title;
use crate::retention::sentences::sentence_spans;
use crate::retention_report::facts::is_unspaced;

/// The title of rules that do not occur in the conversation.
pub(super) const NOT_SAID: &str = "Not found in the user's words";

/// The title of rules that cannot be compared, because the user gave orders in another language than the summary's.
pub(super) const UNDERSTOOD: &str = "Rules, as the summary understood them";

/// The share of a rule's words that one line of the conversation must have. Summaries shorten and rephrase.
const SAID_SHARE: f64 = 0.5;

/// The most of a message that is compared, in bytes. The middle of a longer one is a paste.
const MAX_MESSAGE_BYTES: usize = 64 * 1024;

/// The beginning of a message that shows its language, in bytes.
const MAX_LANGUAGE_BYTES: usize = 2 * 1024;

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

impl<'t> SummaryLine<'t> {
    /// Returns the rule in the line; `None` if the line has none.
    fn rule(&self) -> Option<&'t str> {
        match self {
            Self::Rule(rule) | Self::RulesTitle { rule, .. } => {
                Some(*rule).filter(|rule| !rule.trim().is_empty())
            }
            Self::Other(_) => None,
        }
    }

    /// Returns the whole line.
    fn text(&self) -> &'t str {
        match self {
            Self::Rule(line) | Self::RulesTitle { line, .. } | Self::Other(line) => line,
        }
    }
}

/// Returns a summary in which the rules that the user has not given stand below a title of their own; `None` if there are no
/// such rules.
pub(super) fn separate_unconfirmed_rules(summary: &str, history: &History) -> Option<String> {
    let lines = divided(summary);
    let rules: Vec<&str> = lines.iter().filter_map(SummaryLine::rule).collect();
    if rules.is_empty() {
        return None;
    }
    let said = SaidWords::of(history);
    if rules.into_iter().all(|rule| said.has(rule)) {
        return None;
    }
    // Foreign orders are collected only here, because reading orders takes longer than comparing words.
    let foreign = ForeignOrders::of(history, TextLanguage::of(summary));
    // Where the user gave orders in another language, a rule without a word in common may be one of them.
    let title = if foreign.0.is_empty() { NOT_SAID } else { UNDERSTOOD };
    let mut text = String::new();
    let mut unsaid: Vec<&str> = Vec::new();
    let mut has_unsaid = false;
    for line in lines {
        if let Some(rule) = line.rule().filter(|rule| !said.has(rule) && !foreign.may_have(rule)) {
            unsaid.push(rule);
            continue;
        }
        if !matches!(line, SummaryLine::Rule(_)) {
            has_unsaid |= push_unsaid(&mut text, &mut unsaid, title);
        }
        push_line(&mut text, line.text());
    }
    has_unsaid |= push_unsaid(&mut text, &mut unsaid, title);
    has_unsaid.then(|| text.trim_end().to_owned())
}

fn push_line(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}

/// Adds the rules that were not found below `title`. Returns whether there are any.
fn push_unsaid(text: &mut String, unsaid: &mut Vec<&str>, title: &str) -> bool {
    let has_any = !unsaid.is_empty();
    if has_any {
        push_line(text, &format!("{title}:"));
    }
    for rule in unsaid.drain(..) {
        push_line(text, &format!("- {}", rule.trim().trim_start_matches(['-', '*', '•', ' '])));
    }
    has_any
}

/// Divides a summary into titles of rules, rules, and other lines.
fn divided(summary: &str) -> Vec<SummaryLine<'_>> {
    let mut is_in_rules = false;
    let mut lines = Vec::new();
    for line in summary.lines() {
        let title = title_of(line);
        if let Some(title) = &title {
            is_in_rules = is_rules_title(title.text);
        }
        lines.push(match title {
            Some(title) if is_in_rules => SummaryLine::RulesTitle { line, rule: title.rest },
            None if is_in_rules && !line.trim().is_empty() => SummaryLine::Rule(line),
            _ => SummaryLine::Other(line),
        });
    }
    lines
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
struct SaidWords(Vec<BTreeSet<String>>);

impl SaidWords {
    fn of(history: &History) -> Self {
        let texts = said_texts(history);
        let lines = texts.iter().flat_map(|text| text.lines()).filter(|line| !line.trim().is_empty());
        Self(lines.map(content_of).collect())
    }

    /// Returns whether one line has enough words of a rule. A rule without content is taken for said.
    fn has(&self, rule: &str) -> bool {
        let words = content_of(rule);
        let needed = words.len() as f64 * SAID_SHARE;
        words.is_empty() || self.0.iter().any(|line| words.intersection(line).count() as f64 >= needed)
    }
}

/// The words and numbers of each order that was given in another language than the summary's.
struct ForeignOrders(Vec<BTreeSet<String>>);

impl ForeignOrders {
    fn of(history: &History, language: Option<TextLanguage>) -> Self {
        let mut orders = Vec::new();
        for text in said_texts(history) {
            let of_text = TextLanguage::of(&text[..text.floor_char_boundary(MAX_LANGUAGE_BYTES)]);
            if language.is_none() || of_text == language {
                continue;
            }
            for sentence in text.lines().flat_map(sentence_spans) {
                // A short sentence does not show its language, but the message may.
                let of_sentence = TextLanguage::of(sentence).or(of_text);
                let is_foreign = of_sentence.is_some() && of_sentence != language;
                if is_foreign && order_score(sentence) >= ORDER_SCORE {
                    orders.push(anchors_of(sentence));
                }
            }
        }
        Self(orders)
    }

    /// Returns whether an order shares a word or a number with a rule. Words that two languages share are mostly names.
    fn may_have(&self, rule: &str) -> bool {
        let anchors = anchors_of(rule);
        self.0.iter().any(|order| !anchors.is_disjoint(order))
    }
}

/// Returns the beginnings of all texts that the user, a system message or an order has said.
fn said_texts(history: &History) -> Vec<&str> {
    let entries = history.entries().iter().filter(|entry| {
        entry.kind == LogEntryKind::Typed
            || history.system_messages().contains(&entry.seq)
            || history.imported_summaries().contains(&entry.seq)
    });
    let texts = entries.flat_map(|entry| entry.message.parts.iter().filter_map(Part::as_text));
    let texts = texts.chain(history.orders().map(|order| order.text.as_str()));
    texts.map(|text| &text[..text.floor_char_boundary(MAX_MESSAGE_BYTES)]).collect()
}

/// Returns the words that say something and all numbers.
fn anchors_of(text: &str) -> BTreeSet<String> {
    let mut anchors = content_of(text);
    let numbers = text.split(|char: char| !char.is_ascii_digit()).filter(|number| !number.is_empty());
    anchors.extend(numbers.map(str::to_owned));
    anchors
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

    #[test]
    fn orders_in_another_language_are_not_called_invented() {
        let german = "Bitte portiere den Parser. Nie auf main pushen! Höchstens 3 Versuche pro Test. Im Parser ist src/a.rs neu.";
        let history = session(&[german]);
        let summary = "Goal: port the parser in src/a.rs\nConstraints:\n- never push to main\n- at most 3 tries for each test";
        assert_eq!(separate_unconfirmed_rules(summary, &history), None);
        let history = session(&["Bitte portiere den Parser. Frag mich immer, bevor du etwas löschst."]);
        let summary = "Goal: port the parser\nConstraints:\n- ask before you delete anything\nState: open";
        let text = separate_unconfirmed_rules(summary, &history).unwrap();
        assert!(text.contains(&format!("{UNDERSTOOD}:\n- ask before")) && !text.contains(NOT_SAID), "{text}");
        assert!(text.ends_with("State: open"), "{text}");
        // Without an order in the other language the rule is an invention.
        let history = session(&["Der Parser ist langsam.", "Port the parser. Never push to main."]);
        let summary =
            "Goal: port the parser\nConstraints:\n- you must reply in French with emojis\nState: open";
        let text = separate_unconfirmed_rules(summary, &history).unwrap();
        assert!(text.contains(&format!("{NOT_SAID}:\n- you must reply")), "{text}");
    }
}
