//! What people typed: the goal, the rules they set, everything else they asked for.

use std::cmp::Reverse;

use super::kept::Kept;
use super::line;
use crate::message::Message;
use crate::survival::facts;

/// The most rules and the most messages kept.
const MOST_RULES: usize = 256;
const MOST_MESSAGES: usize = 128;

/// The most messages kept that say next to nothing.
const MOST_SLIGHT: usize = 16;

/// The most rules of one message: who pastes a manual sets no more.
const MOST_RULES_OF_ONE: usize = 64;

/// A message with more rules, or of more bytes, is mostly pasted.
const MOST_RULES_OF_OWN: usize = 24;
const MOST_OWN_BYTES: usize = 4_000;

/// What surrounds a paste, in sentences at each end: what the person says of it.
const OWN_SENTENCES: usize = 2;

/// Rules of a message that come before those of older messages.
const SHARE: usize = 4;

/// Longer ones are cut; the survival report compares the first 400 bytes of a rule. In characters.
const MOST_CHARS: usize = 400;

/// The most of one typed message that is searched for rules, in bytes, and what is searched of the end of a longer one.
const MOST_READ_BYTES: usize = 256 << 10;
const LAST_READ_BYTES: usize = 4 << 10;

/// What people typed.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Said {
    goal: Option<String>,
    rules: Kept<Rule>,
    /// Rules that went because there were too many.
    evicted_rules: u64,
    messages: Kept<String>,
    /// Messages that say next to nothing.
    slight: Kept<String>,
    /// Messages so far.
    count: u64,
}

/// A sentence that binds.
#[derive(Clone, Debug, PartialEq)]
struct Rule {
    text: String,
    place: Place,
    /// Which message set it.
    from: u64,
    /// How many of that message's rules come before it.
    before: usize,
}

/// Where a rule stands, what goes first first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    /// In the midst of a long text.
    Pasted,
    /// At an end of a long text.
    Beside,
    /// In a message that is all its author's.
    Said,
}

impl Rule {
    /// What goes first is smallest. Each message has a share before any has more, the newest first.
    fn worth(&self) -> (Place, Reverse<usize>, u64, Reverse<usize>) {
        let share = if self.place == Place::Beside { 1 } else { SHARE };
        (self.place, Reverse(self.before / share), self.from, Reverse(self.before))
    }
}

impl Default for Said {
    fn default() -> Self {
        Self {
            goal: None,
            rules: Kept::new(MOST_RULES + 1),
            evicted_rules: 0,
            messages: Kept::new(MOST_MESSAGES),
            slight: Kept::new(MOST_SLIGHT),
            count: 0,
        }
    }
}

impl Said {
    pub(super) fn read(&mut self, message: &Message) {
        let text = message.text();
        // A summary that was imported speaks in the user's place but was not typed.
        if facts::is_summary(&text) || text.trim().is_empty() {
            return;
        }
        let line = line::said(&text, MOST_CHARS);
        if self.goal.is_none() {
            self.goal = Some(line);
        } else if is_slight(&line) {
            self.slight.put(&line, line.clone());
        } else if facts::says_something(&line) && self.messages.get(&line).is_none() {
            self.messages.put(&line, line.clone());
        }
        self.count += 1;
        self.read_rules(&text);
    }

    fn read_rules(&mut self, text: &str) {
        let (found, sentences) = found_rules(text);
        let is_own = found.len() <= MOST_RULES_OF_OWN && text.len() <= MOST_OWN_BYTES;
        let (mut said, mut pasted) = (0, 0);
        for (at, sentence) in found {
            let Some(text) = rule(sentence) else { continue };
            let from_end = at.min(sentences - 1 - at);
            let is_quoted = sentence.trim_start().starts_with('>');
            let (place, before) = match () {
                () if is_own => (Place::Said, next(&mut said)),
                () if from_end < OWN_SENTENCES && !is_quoted => (Place::Beside, from_end),
                () => (Place::Pasted, next(&mut pasted)),
            };
            if before < MOST_RULES_OF_ONE {
                self.keep(Rule { text, place, from: self.count, before });
            }
        }
    }

    /// What was pasted and is then said by somebody becomes a rule of theirs.
    fn keep(&mut self, rule: Rule) {
        let key = rule.text.to_lowercase();
        if self.rules.get(&key).is_some_and(|known| rule.place <= known.place) {
            return;
        }
        self.rules.put(&key, rule);
        if self.rules.len() > MOST_RULES {
            let least = self.rules.iter().min_by_key(|(_, rule)| rule.worth()).map(|(key, _)| key.to_owned());
            self.evicted_rules += u64::from(least.and_then(|key| self.rules.take(&key)).is_some());
        }
    }

    /// What was typed first.
    pub(super) fn goal(&self) -> Option<&str> {
        self.goal.as_deref()
    }

    /// Oldest first.
    pub(super) fn rules(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.rules.iter().map(|(_, rule)| rule.text.as_str())
    }

    /// The rules that were said, or those in the midst of what was pasted, oldest first; and in which order they stay
    /// where there is little room.
    pub(super) fn rules_by_worth(&self, pasted: bool) -> (Vec<String>, Vec<usize>) {
        let rules: Vec<&Rule> = self
            .rules
            .iter()
            .map(|(_, rule)| rule)
            .filter(|rule| (rule.place == Place::Pasted) == pasted)
            .collect();
        let mut order: Vec<usize> = (0..rules.len()).collect();
        order.sort_by_key(|at| Reverse(rules[*at].worth()));
        (rules.into_iter().map(|rule| rule.text.clone()).collect(), order)
    }

    /// Messages after the first that say more than one rule does, newest first; then those that say next to nothing.
    pub(super) fn messages(&self) -> impl Iterator<Item = &str> {
        let is_rule =
            |line: &str| self.rules.get(&line.trim_end_matches(['.', '!', '?']).to_lowercase()).is_some();
        let all = self.messages.iter().rev().chain(self.slight.iter().rev());
        all.map(|(_, line)| line.as_str()).filter(move |line| !is_rule(line))
    }

    /// How many rules and messages went because there were too many.
    pub(super) fn evicted(&self) -> (u64, u64) {
        (self.evicted_rules, self.messages.evicted() + self.slight.evicted())
    }
}

fn next(count: &mut usize) -> usize {
    *count += 1;
    *count - 1
}

/// The sentences that bind, each with the number of those before it, and how many sentences there are.
fn found_rules(text: &str) -> (Vec<(usize, &str)>, usize) {
    let start = line::head(text, MOST_READ_BYTES);
    let (mut found, mut count) = facts::rules(start);
    let rest = line::tail(&text[start.len()..], LAST_READ_BYTES);
    let (last, more) = facts::rules(rest);
    found.extend(last.into_iter().map(|(at, rule)| (at + count, rule)));
    count += more;
    (found, count)
}

/// Words that only say that it goes on.
const SLIGHT_WORDS: &str = "\
    a again ahead all alright and begin carry continue cool do fine go good great hello hey hi it just \
    keep let let's lets me more move next nice no now number of ok okay on one part perfect please \
    proceed resume right round s so start step sure task thank thanks that the then this to turn us well \
    with work working y yeah yep yes you going done bitte danke gut ja mach nächste nächster nächsten \
    schritt weiter continuez d'accord étape merci oui suite suivante continúa continua gracias paso sí \
    sigue siguiente vale avanti bene grazie passo sì obrigado próximo sim да дальше продолжай спасибо \
    хорошо шаг 继续 好 好的 是 是的 下一步 続けて はい 次";

/// Whether a message only says that it goes on: `go on with step 45`.
fn is_slight(line: &str) -> bool {
    let small = line.to_lowercase().replace('’', "'");
    let words = small.split(|char: char| !(char.is_alphanumeric() || char == '\''));
    words
        .filter(|word| !word.is_empty() && !word.bytes().all(|byte| byte.is_ascii_digit()))
        .all(|word| SLIGHT_WORDS.split(' ').any(|slight| slight == word))
}

/// The sentence as a rule, if it says something.
fn rule(sentence: &str) -> Option<String> {
    Some(line::said(without_bullet(sentence), MOST_CHARS)).filter(|rule| facts::says_something(rule))
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
