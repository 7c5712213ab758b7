//! What people typed: the goal, the rules they set, everything else they asked for.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use super::kept::Kept;
use super::line;
use crate::message::Message;
use crate::plan::MARK;
use crate::survival::facts;

/// The most rules and the most messages kept.
const MOST_RULES: usize = 256;
const MOST_MESSAGES: usize = 128;

/// The most rules of one message: who pastes a manual sets no more.
const MOST_RULES_OF_ONE: usize = 64;

/// Longer ones are cut; the survival report compares the first 400 bytes of a rule. In characters.
const MOST_CHARS: usize = 400;

/// The most of one typed message that is searched for rules, in bytes.
const MOST_READ_BYTES: usize = 256 << 10;

/// What makes a sentence a rule, beside the marks of [`facts::CONSTRAINT_WORDS`].
const MORE_RULE_WORDS: &[&str] = &[
    "dont",
    "cant",
    "mustn't",
    "won't",
    "prefer",
    "not allowed",
    "from now on",
    "no longer",
    "stick to",
    "not touch",
];

/// What people typed.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Said {
    goal: Option<String>,
    rules: Kept<String>,
    messages: Kept<String>,
}

impl Default for Said {
    fn default() -> Self {
        Self { goal: None, rules: Kept::new(MOST_RULES), messages: Kept::new(MOST_MESSAGES) }
    }
}

impl Said {
    pub(super) fn read(&mut self, message: &Message) {
        let text = message.text();
        // A summary that was imported speaks in the user's place but was not typed.
        if text.trim_start().starts_with(MARK) || text.trim().is_empty() {
            return;
        }
        let line = line::said(&text, MOST_CHARS);
        if self.goal.is_none() {
            self.goal = Some(line);
        } else if line.contains(' ') && self.messages.get(&line).is_none() {
            self.messages.put(&line, line.clone());
        }
        let sentences = facts::sentences(line::head(&text, MOST_READ_BYTES));
        for rule in sentences.filter_map(rule).take(MOST_RULES_OF_ONE) {
            let key = rule.to_lowercase();
            if self.rules.get(&key).is_none() {
                self.rules.put(&key, rule);
            }
        }
    }

    /// What was typed first.
    pub(super) fn goal(&self) -> Option<&str> {
        self.goal.as_deref()
    }

    /// Oldest first.
    pub(super) fn rules(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.rules.iter().map(|(_, rule)| rule.as_str())
    }

    /// Messages after the first that say more than one rule does, newest first.
    pub(super) fn messages(&self) -> impl Iterator<Item = &str> {
        let is_rule =
            |line: &str| self.rules.get(&line.trim_end_matches(['.', '!', '?']).to_lowercase()).is_some();
        self.messages.iter().rev().map(|(_, line)| line.as_str()).filter(move |line| !is_rule(line))
    }

    /// How many rules and messages went because there were too many.
    pub(super) fn evicted(&self) -> (u64, u64) {
        (self.rules.evicted(), self.messages.evicted())
    }
}

/// The sentence as a rule, if it is one.
fn rule(sentence: &str) -> Option<String> {
    let binds = |marks| facts::has_any(sentence, marks);
    if !may_bind(sentence) || is_code(sentence) || !(binds(facts::CONSTRAINT_WORDS) || binds(MORE_RULE_WORDS))
    {
        return None;
    }
    Some(line::said(without_bullet(sentence), MOST_CHARS)).filter(|rule| rule.contains(' '))
}

/// Whether it was pasted from a program: a numbered line, an assignment, an open block.
fn is_code(sentence: &str) -> bool {
    let text = sentence.trim();
    let after_number = text.trim_start_matches(|char: char| char.is_ascii_digit());
    let is_numbered = after_number.len() < text.len() && after_number.starts_with(':');
    let is_name = |char: char| char.is_alphanumeric() || matches!(char, '_' | '.');
    let after_name = text.trim_start_matches(is_name);
    let is_assignment = after_name.len() < text.len() && after_name.starts_with(" = ");
    is_numbered || is_assignment || text.ends_with(['{', ';'])
}

/// Whether a word of the sentence begins a mark: most sentences need no closer look.
fn may_bind(sentence: &str) -> bool {
    static BEGINNINGS: LazyLock<BTreeSet<[u8; 4]>> = LazyLock::new(|| {
        facts::CONSTRAINT_WORDS.iter().chain(MORE_RULE_WORDS).map(|mark| beginning(mark.as_bytes())).collect()
    });
    let words = sentence.as_bytes().split(|byte| !byte.is_ascii_alphanumeric()).filter(|word| word.len() > 1);
    words.map(beginning).any(|word| BEGINNINGS.contains(&word))
}

/// The first letters of a word, in lower case.
fn beginning(word: &[u8]) -> [u8; 4] {
    let mut first = [b' '; 4];
    let letters = word.iter().take_while(|byte| byte.is_ascii_alphanumeric());
    first.iter_mut().zip(letters).for_each(|(first, letter)| *first = letter.to_ascii_lowercase());
    first
}

/// The sentence without the mark of its place in a list.
fn without_bullet(sentence: &str) -> &str {
    let text = sentence.trim_start();
    let number = text.trim_start_matches(|char: char| char.is_ascii_digit());
    let numbered =
        number.strip_prefix(". ").or(number.strip_prefix(") ")).filter(|_| number.len() < text.len());
    let bullet = ["- ", "* ", "+ ", "• ", "> "].iter().find_map(|mark| text.strip_prefix(mark));
    let text = numbered.or(bullet).unwrap_or(text).trim_start();
    ["[ ] ", "[x] "].iter().find_map(|mark| text.strip_prefix(mark)).unwrap_or(text)
}
