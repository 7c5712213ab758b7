//! Scores of sentences as standing orders: instructions that hold beyond the next answer.
//!
//! Two signs show an order in any language. One is the mood: a command or an obligation. The other is the scope: a word
//! for the time or the frequency with which the order holds. Both are closed word classes
//! ([`lexicon`](super::lexicon)); the subject of the order does not matter. Questions and statements in the first
//! person are no orders. Two forms of an order have no imperative: a prohibition without a verb ("No emojis."), and a
//! polite question with a scope ("Could you always answer in French?").

mod noun_subjects;
mod statement_signs;
mod unspaced;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use self::noun_subjects::begins_with_noun;
use self::statement_signs::{command_of_language, has_marked_imperative, has_turkish_each};
use self::unspaced::has_unspaced_command;
use super::lexicon::{
    CHOOSING_VERBS, DISCOURSE_MARKERS, EACH, HINDI_COMMAND_ENDINGS, HINDI_COMMANDS, LASTING_VERBS, LEXICONS,
    MODAL_VERBS, NEGATIONS, NO_PROHIBITIONS, OPENING_NEGATIONS, PROHIBITING_DETERMINERS, SLIGHT_WORDS,
    STANDING_SCOPES, UNSPACED_NEGATIONS, UNSPACED_QUESTIONS, UNSPACED_SCOPE, UNSPACED_STANDING,
};
use super::obligation::{is_general_truth, obliges_model, obliges_things, speaks_of_thing};
use super::polite::{is_plea, is_plea_part, is_plea_word, is_wish};
use super::requests::request_score;
use super::rule_lists::without_stress;
use super::withdrawal;
use crate::retention_report::facts::{binds, is_unspaced};

/// The lowest score of a standing order.
pub(crate) const ORDER_SCORE: i32 = 2;

/// The lowest score of a sentence with both a mood and a scope. In the middle of a paste only such sentences are
/// orders.
pub(crate) const CLEAR_ORDER_SCORE: i32 = 4;

/// The longest sentence that can be an order, in words. Longer ones are data or prose, in which a part may be an order.
pub(super) const MAX_ORDER_WORDS: usize = 60;

/// The most words of a label in capitals, such as `HARD CONSTRAINT: …`.
const MAX_LABEL_WORDS: usize = 4;

/// The part of the score that a label in capitals adds to all sentences of the line.
const LABEL_SCORE: i32 = 3;

/// The part of the score that a command or an obligation adds.
pub(super) const MOOD_SCORE: i32 = 2;

/// The part of the score that a scope adds.
pub(super) const SCOPE_SCORE: i32 = 2;

/// The part of the score that a scope without an end adds to a command, beside [`SCOPE_SCORE`].
const STANDING_SCORE: i32 = 4;

/// The part of the score that a prohibition without a verb adds. It holds for all answers, unlike a single command.
const PROHIBITION_SCORE: i32 = 3;

/// The score of a question that asks for no lasting change.
const QUESTION_SCORE: i32 = -3;

/// The most words of a prohibition without a verb. Longer sentences have a verb.
const MAX_PROHIBITION_WORDS: usize = 8;

/// The place in a question, in words, before which a request begins: "And by the way, could you".
pub(super) const MAX_REQUEST_START: usize = 6;

/// The levels of log lines. `WARNING` and `CRITICAL` are none of them: people begin orders with these words.
const LOG_LEVELS: &[&str] = &["TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL", "PANIC"];

/// Returns the score of a later sentence on a line that begins with a label in capitals. The label speaks for the whole
/// line: "HARD CONSTRAINT: Only Python 3.11. No network." A question there stays a question.
pub(crate) fn order_score_below_label(sentence: &str) -> i32 {
    if is_question(sentence) { order_score(sentence) } else { order_score(sentence).max(0) + LABEL_SCORE }
}

/// Returns the score of a sentence in a list of rules. The heading makes an order of each item: "- tabs, not spaces".
pub(crate) fn order_score_in_rules(sentence: &str) -> i32 {
    let score = order_score(sentence);
    if is_question(sentence) { score } else { score.max(ORDER_SCORE) + 1 }
}

/// Returns whether a line begins with a label in capitals, such as `HARD CONSTRAINT:`.
pub(crate) fn has_label(line: &str) -> bool {
    let line = line.trim();
    split_label(line).0 && !is_log_line(line)
}

/// Returns whether a line is one of a pasted log: a level with a mark behind it, or behind a time.
fn is_log_line(line: &str) -> bool {
    let mut words = line.split_whitespace().map(|word| word.trim_start_matches(['[', '(']));
    let begins_with_digit = |word: &&str| word.starts_with(|char: char| char.is_ascii_digit());
    let times = words.clone().take_while(begins_with_digit).count();
    let Some(word) = words.nth(times) else { return false };
    let end = word.find(|char: char| !char.is_ascii_alphabetic()).unwrap_or(word.len());
    let (level, mark) = word.split_at(end);
    LOG_LEVELS.contains(&level) && (times > 0 || mark.starts_with([':', ']', ')', '|']))
}

/// Returns the score of a sentence as a standing order; [`ORDER_SCORE`] or more for an order.
pub(crate) fn order_score(sentence: &str) -> i32 {
    let sentence = without_list_mark(sentence.trim());
    if is_question(sentence) {
        return request_score(sentence).unwrap_or(QUESTION_SCORE);
    }
    if is_log_line(sentence) {
        return 0;
    }
    let (label, body) = split_label(sentence);
    let body = if label { body } else { without_stress(body) };
    let words = words_of(body);
    if words.is_empty() || words.len() > MAX_ORDER_WORDS {
        return 0;
    }
    let plain: Vec<&str> = words.iter().map(String::as_str).filter(|word| *word != CLAUSE).collect();
    if !label && is_general_truth(&plain) {
        return 0;
    }
    let is_wish = is_wish(&plain);
    // "From now on every function must have a docstring" has its subject behind the scope.
    let scope = WORD_CLASSES.standing.prefix_len(&plain);
    let obliges = obliges_things(&plain) || scope > 0 && obliges_things(&plain[scope..]);
    let is_asked = is_command(&words)
        || is_wish
        || is_plea(&words)
        || obliges
        || obliges_model(&plain)
        || has_unspaced_command(body)
        || is_return(body)
        || withdrawal::is_told(body);
    let mut score = 0;
    if label {
        score += LABEL_SCORE;
    }
    score += match absence(&words) {
        Some(Absence::Forbidden) => PROHIBITION_SCORE,
        // "No" may stand before an imperative in Spanish, but not in "no problem at all".
        Some(Absence::Remarked) => 0,
        None if is_asked => MOOD_SCORE,
        None => 0,
    };
    if has_scope(&plain) || has_unspaced(body, UNSPACED_SCOPE) {
        score += SCOPE_SCORE;
    }
    // "Check every crate" names a task of today. "From now on" names none.
    if is_asked && (has_standing_scope(&plain) || has_unspaced(body, UNSPACED_STANDING)) {
        score += STANDING_SCORE;
    }
    if binds(body) {
        score += 1;
    }
    if plain.iter().any(|word| WORD_CLASSES.second_person.contains(word)) {
        score += 1;
    }
    // "I always forget the date" has a scope, but tells of the speaker. A label in capitals outweighs that.
    let is_of_speaker = plain.first().is_some_and(|word| WORD_CLASSES.first_person.contains(word));
    let is_directed = label || is_wish || (obliges && speaks_of_thing(&plain));
    if is_of_speaker && !is_directed {
        score -= 2;
    }
    score
}

/// Returns whether an order holds for more than one task by its verb alone: a prohibition ("do not edit generated files"),
/// or a choice of means ("use snake_case", "keep functions short").
pub(crate) fn is_lasting(order: &str) -> bool {
    static LASTING: LazyLock<BTreeSet<&'static str>> = LazyLock::new(|| {
        [CHOOSING_VERBS, LASTING_VERBS].into_iter().flat_map(str::split_whitespace).collect()
    });
    static DENYING: LazyLock<BTreeSet<&'static str>> = LazyLock::new(|| {
        [NEGATIONS, OPENING_NEGATIONS].into_iter().flat_map(str::split_whitespace).collect()
    });
    let words = plain_words(order);
    let denies = |word: &String| DENYING.contains(word.as_str()) || word.starts_with("n'");
    let verb = words.iter().find(|word| !is_lead_in(word));
    verb.is_some_and(|verb| LASTING.contains(verb.as_str()))
        || words.iter().take(MAX_REQUEST_START).any(denies)
        || has_unspaced(order, UNSPACED_NEGATIONS)
}

/// Returns whether a sentence has the form of a question.
pub(crate) fn is_question(sentence: &str) -> bool {
    // Chinese, Japanese and Korean mark a question by a last particle, often without a question mark.
    let end = sentence.trim_end().trim_end_matches(['"', '\'', '”', '»', ')', ' ']);
    // The marks are the Latin, the full-width, the Arabic and the Greek one, which only looks like a semicolon.
    end.ends_with(['?', '\u{ff1f}', '\u{61f}', '\u{37e}'])
        || UNSPACED_QUESTIONS.split(' ').any(|mark| end.trim_end_matches(['。', '.']).ends_with(mark))
}

/// Returns whether a word is one for each thing of a kind.
pub(super) fn is_each(word: &str) -> bool {
    static EACH_SET: LazyLock<BTreeSet<&'static str>> = LazyLock::new(|| EACH.split_whitespace().collect());
    EACH_SET.contains(word)
}

/// Returns whether a sentence allows something again: "You may use tables again."
fn is_return(sentence: &str) -> bool {
    withdrawal::permits(sentence) && withdrawal::returns(sentence)
}

/// Returns whether words have a scope that holds beyond the next answer.
pub(super) fn has_standing_scope(words: &[&str]) -> bool {
    has_phrase(&WORD_CLASSES.standing, words)
}

/// The meaning of a sentence without a verb for a thing that it names as absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Absence {
    /// A prohibition: "No emojis", "Bitte keine Tabellen".
    Forbidden,
    /// A remark: "No problem at all", "No tests failed".
    Remarked,
}

/// Returns what words say of an absent thing; `None` if they begin with no such word as "no".
fn absence(words: &[String]) -> Option<Absence> {
    static DETERMINERS: LazyLock<BTreeSet<&'static str>> =
        LazyLock::new(|| PROHIBITING_DETERMINERS.split_whitespace().collect());
    static EXCEPTIONS: LazyLock<BTreeSet<&'static str>> =
        LazyLock::new(|| NO_PROHIBITIONS.split_whitespace().collect());
    let is_before = |word: &String| {
        word == CLAUSE
            || is_plea_word(word)
            || is_plea_part(word)
            || BEFORE_PROHIBITIONS.contains(&word.as_str())
    };
    let start = words.iter().position(|word| !is_before(word))?;
    let clause: Vec<&str> =
        words[start..].iter().map(String::as_str).take_while(|word| *word != CLAUSE).collect();
    // "Pas de tableaux" has a preposition between. "Pas mal" is no prohibition.
    let (determiner, rest) = match clause[..] {
        ["pas", "de" | "du", ref rest @ ..] => ("pas", rest),
        ["pas", noun, ..] if !noun.starts_with("d'") => return None,
        // "Nada de tablas", "not a single table", "not one table"
        ["nada", "de", ref rest @ ..] => ("no", rest),
        ["not", "a", "single", ref rest @ ..] | ["not", "one", ref rest @ ..] => ("no", rest),
        [determiner, ref rest @ ..] => (determiner, rest),
        [] => return None,
    };
    let [noun, others @ ..] = rest else { return None };
    if !DETERMINERS.contains(determiner) || is_function_word(noun) {
        return None;
    }
    if rest.len() > MAX_PROHIBITION_WORDS {
        return None;
    }
    // "No tests failed" and "no backups were made" tell of something.
    let is_modal = |word: &str| MODAL_VERBS.split_whitespace().any(|modal| modal == word);
    let tells =
        |word: &&str| is_auxiliary(word) && !is_modal(word) || word.ends_with("ed") && *word != "allowed";
    let is_remark = others.first().is_some_and(tells) || EXCEPTIONS.contains(noun.trim_start_matches("d'"));
    Some(if is_remark { Absence::Remarked } else { Absence::Forbidden })
}

/// Words that may stand before a prohibition: conjunctions, and words that stress it.
const BEFORE_PROHIBITIONS: &[&str] = &[
    "and",
    "also",
    "absolutely",
    "definitely",
    "strictly",
    "really",
    "just",
    "but",
    "und",
    "auch",
    "aber",
    "bloß",
    "ja",
    "absolut",
    "wirklich",
    "y",
    "et",
    "e",
    "surtout",
    "absolument",
    "absolutamente",
    "assolutamente",
    "и",
    "абсолютно",
    "absoluut",
    "absolutnie",
];

/// Returns a sentence without the number of an item in a list.
fn without_list_mark(sentence: &str) -> &str {
    let text = sentence.trim_start_matches(|char: char| char.is_ascii_digit());
    let body = text.strip_prefix(['.', ')']).and_then(|body| body.strip_prefix(' '));
    body.filter(|_| text.len() < sentence.len()).unwrap_or(sentence)
}

/// Returns whether a sentence only says that the work goes on: `go on with step 45`.
pub(crate) fn is_slight(sentence: &str) -> bool {
    static SLIGHT: LazyLock<BTreeSet<&'static str>> =
        LazyLock::new(|| SLIGHT_WORDS.split_whitespace().collect());
    let words = plain_words(sentence);
    let is_number = |word: &str| word.bytes().all(|byte| byte.is_ascii_digit());
    words.iter().all(|word| is_number(word) || SLIGHT.contains(word.as_str()))
}

/// Returns the words of a text in lower case, without punctuation.
pub(crate) fn plain_words(text: &str) -> Vec<String> {
    let mut words = words_of(text);
    words.retain(|word| word != CLAUSE);
    words
}

/// Returns whether a word belongs to a closed class of any language.
pub(crate) fn is_function_word(word: &str) -> bool {
    WORD_CLASSES.openers.contains(word)
        || WORD_CLASSES.auxiliaries.contains(word)
        || WORD_CLASSES.subordinators.contains(word)
        || WORD_CLASSES.lead_ins.contains(word)
        || WORD_CLASSES.second_person.contains(word)
}

/// Returns whether a word is a form of an auxiliary verb in any language.
pub(super) fn is_auxiliary(word: &str) -> bool {
    WORD_CLASSES.auxiliaries.contains(word)
}

/// Returns whether a word may stand before an imperative in any language.
pub(super) fn is_lead_in(word: &str) -> bool {
    WORD_CLASSES.lead_ins.contains(word)
}

/// Returns whether a word may open a subordinate clause in any language.
fn is_subordinator(word: &str) -> bool {
    WORD_CLASSES.subordinators.contains(word)
}

/// Returns whether one of the phrases occurs in `words`.
pub(crate) fn has_phrase(phrases: &PhraseSet, words: &[&str]) -> bool {
    (0..words.len()).any(|at| {
        let rests = phrases.0.get(words[at]);
        rests.is_some_and(|rests| rests.iter().any(|rest| starts_with(&words[at + 1..], rest)))
    })
}

/// Returns whether one of the marks occurs in a text. `marks` are separated by blanks.
pub(crate) fn has_unspaced(text: &str, marks: &str) -> bool {
    // No mark is ASCII, and most texts are: the check spares them the search for each mark.
    !text.is_ascii() && marks.split(' ').any(|mark| text.contains(mark))
}

/// Phrases by their first words, for a search in one pass over a text.
pub(crate) struct PhraseSet(BTreeMap<&'static str, Vec<Vec<&'static str>>>);

impl PhraseSet {
    /// Collects phrases that are separated by commas.
    pub(crate) fn of(lists: impl Iterator<Item = &'static str>) -> Self {
        let mut by_first: BTreeMap<&'static str, Vec<Vec<&'static str>>> = BTreeMap::new();
        for phrase in lists.flat_map(|list| list.split(',')) {
            let mut words = phrase.split_whitespace();
            if let Some(first) = words.next() {
                by_first.entry(first).or_default().push(words.collect());
            }
        }
        Self(by_first)
    }

    /// Returns the number of words of the longest phrase that `words` begin with; 0 if there is none.
    pub(super) fn prefix_len(&self, words: &[&str]) -> usize {
        let [first, others @ ..] = words else { return 0 };
        let rests = self.0.get(first).into_iter().flatten();
        rests.filter(|rest| starts_with(others, rest)).map(|rest| rest.len() + 1).max().unwrap_or(0)
    }
}

/// The union of the closed word classes of all languages. A text may mix languages, and a short sentence does not show
/// its own.
struct WordClasses {
    openers: BTreeSet<&'static str>,
    auxiliaries: BTreeSet<&'static str>,
    subordinators: BTreeSet<&'static str>,
    lead_ins: BTreeSet<&'static str>,
    first_person: BTreeSet<&'static str>,
    second_person: BTreeSet<&'static str>,
    scope: PhraseSet,
    standing: PhraseSet,
    discourse: PhraseSet,
}

static WORD_CLASSES: LazyLock<WordClasses> = LazyLock::new(|| {
    let union = |list: fn(&super::lexicon::LanguageLexicon) -> &'static str| -> BTreeSet<&'static str> {
        LEXICONS.iter().flat_map(|lexicon| list(lexicon).split_whitespace()).collect()
    };
    WordClasses {
        openers: union(|lexicon| lexicon.openers),
        auxiliaries: union(|lexicon| lexicon.auxiliaries),
        subordinators: union(|lexicon| lexicon.subordinators),
        lead_ins: union(|lexicon| lexicon.lead_ins),
        first_person: union(|lexicon| lexicon.first_person),
        second_person: union(|lexicon| lexicon.second_person),
        scope: PhraseSet::of(LEXICONS.iter().map(|lexicon| lexicon.scope)),
        standing: PhraseSet::of([STANDING_SCOPES].into_iter()),
        discourse: PhraseSet::of([DISCOURSE_MARKERS].into_iter()),
    }
});

/// The mark between clauses in a list of words.
pub(super) const CLAUSE: &str = "|";

/// Returns the words of a text in lower case, with [`CLAUSE`] between clauses.
pub(super) fn words_of(text: &str) -> Vec<String> {
    let mut spaced = String::with_capacity(text.len() + 8);
    for char in text.chars() {
        match char {
            '’' | '\'' => spaced.push('\''),
            ',' | ':' | ';' | '(' | ')' | '–' | '—' | '，' | '、' | '：' | '،' | '؛' => {
                spaced.push_str(" | ")
            }
            // The Turkish capital would leave a dot of its own behind.
            'İ' => spaced.push('i'),
            _ if char.is_alphanumeric() || is_combining(char) || char == '-' || char == '_' => {
                spaced.extend(char.to_lowercase());
            }
            _ => spaced.push(' '),
        }
    }
    let words = spaced.split_whitespace().map(|word| word.trim_matches(['\'', '-']));
    words.filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// Returns words without the French elision before a vowel: "arrêter d'utiliser" is "arrêter de utiliser".
pub(super) fn without_elision<'w>(words: &[&'w str]) -> Vec<&'w str> {
    let parts = words.iter().flat_map(|word| match word.strip_prefix("d'") {
        Some(rest) => [Some("de"), Some(rest)],
        None => [Some(*word), None],
    });
    parts.flatten().collect()
}

/// Returns whether a character joins the letters of a word without being a letter: accents of decomposed text, and the
/// signs of Indic and Arabic scripts.
fn is_combining(char: char) -> bool {
    matches!(
        char,
        '\u{300}'..='\u{36f}' | '\u{93c}' | '\u{94d}' | '\u{9bc}' | '\u{9cd}' | '\u{a4d}' | '\u{acd}' | '\u{bcd}'
            | '\u{c4d}' | '\u{ccd}' | '\u{d4d}' | '\u{64b}'..='\u{652}' | '\u{200c}' | '\u{200d}'
    )
}

/// Splits a label in capitals from the text behind it: `HARD CONSTRAINT: only Python`.
fn split_label(sentence: &str) -> (bool, &str) {
    let text = sentence.trim_start_matches(['-', '*', '#', '>', ' ']);
    let Some((label, body)) = text.split_once(':') else { return (false, text) };
    let letters = label.chars().filter(|char| char.is_alphabetic()).count();
    let is_label = letters >= 3
        && label.split_whitespace().count() <= MAX_LABEL_WORDS
        && label.chars().all(|char| !char.is_lowercase())
        && !body.trim().is_empty()
        && label.chars().any(char::is_uppercase);
    if is_label { (true, body) } else { (false, text) }
}

/// Returns whether a clause is an imperative: the first one, or one after a subordinate clause.
fn is_command(words: &[String]) -> bool {
    let clauses: Vec<Vec<&str>> = words
        .split(|word| word == CLAUSE)
        .map(|clause| clause.iter().map(String::as_str).collect::<Vec<&str>>())
        .skip_while(|clause| is_before_command(clause))
        .filter(|clause| !clause.is_empty())
        .collect();
    let Some(first) = clauses.first() else { return false };
    if is_imperative(first)
        || is_negated_infinitive(first)
        || is_imperative_behind_scope(first)
        || has_marked_imperative(first)
    {
        return true;
    }
    // "If it fails then stop" has no comma before its command.
    let then = first.iter().position(|word| THEN.contains(word)).map_or(first.len(), |at| at + 1);
    // "When you deploy, tell me" has its command after the subordinate clause. "Should it fail, stop" is one, too.
    let is_inverted = INVERTED.contains(&first[0]) && clauses.len() > 1;
    let is_condition = CONDITIONS.contains(&first[0]) || is_inverted;
    let is_main = |clause: &[&str]| is_imperative(clause) || is_condition && is_single_command(clause);
    (WORD_CLASSES.subordinators.contains(first[0]) || is_inverted)
        && (clauses[1..].iter().any(|clause| is_main(clause)) || is_main(&first[then..]))
}

/// Returns whether a clause is an imperative behind a scope: "from now on answer in French".
fn is_imperative_behind_scope(clause: &[&str]) -> bool {
    // "So please, and from now on never push" has connectives before its scope.
    let start = clause.iter().take_while(|word| WORD_CLASSES.lead_ins.contains(*word)).count();
    [0, start].into_iter().any(|start| {
        let scope = WORD_CLASSES.standing.prefix_len(&clause[start..]);
        scope > 0 && is_imperative(&clause[start + scope..])
    })
}

/// Returns whether a clause only leads to the command behind it: "Please, answer in French", "By the way, no tables".
fn is_before_command(clause: &[&str]) -> bool {
    clause.iter().all(|word| WORD_CLASSES.lead_ins.contains(*word))
        || [&WORD_CLASSES.discourse, &WORD_CLASSES.standing]
            .iter()
            .any(|phrases| phrases.prefix_len(clause) == clause.len())
}

/// Words between a condition and its consequence.
const THEN: &[&str] = &["then", "dann", "alors", "entonces", "então", "allora", "то", "dan", "wtedy"];

/// Words that open a condition or a moment. Other subordinate clauses are short phrases: "for dinner, pasta".
const CONDITIONS: &[&str] = &[
    "if",
    "when",
    "whenever",
    "unless",
    "once",
    "before",
    "after",
    "wenn",
    "falls",
    "sobald",
    "bevor",
    "ehe",
    "si",
    "dès",
    "avant",
    "antes",
    "prima",
    "прежде",
    "перед",
    "zanim",
    "przed",
    "innan",
    "när",
    "voordat",
    "nếu",
    "khi",
    "jika",
    "sebelum",
    "eğer",
    "lorsque",
    "quand",
    "cuando",
    "se",
    "quando",
    "если",
    "когда",
    "als",
    "zodra",
    "wanneer",
    "jeśli",
    "gdy",
    "kiedy",
];

/// Verbs that open a condition by standing first: "Should a test fail, stop."
const INVERTED: &[&str] = &["should", "sollte", "sollten", "mocht", "mochten", "gdyby"];

/// Returns whether a clause behind a condition is a verb alone: "If in doubt, ask."
fn is_single_command(clause: &[&str]) -> bool {
    let start = clause.iter().take_while(|word| WORD_CLASSES.lead_ins.contains(*word)).count();
    let [verb] = clause[start..] else { return false };
    let is_remark = is_slight(verb) || verb.ends_with("ly");
    !is_remark && !is_function_word(verb) && !verb.bytes().any(|byte| byte.is_ascii_digit())
}

/// Returns whether a clause forbids by an infinitive: "Nicht auf main pushen", "Niet naar main pushen".
fn is_negated_infinitive(clause: &[&str]) -> bool {
    match clause {
        // Of two words the second may be an adjective: "nicht vorhanden".
        ["nicht" | "niet", .., verb] => clause.len() > 2 && verb.ends_with("en"),
        _ => false,
    }
}

/// Returns whether a clause is an imperative. Imperatives are an open class, so that a clause is one if its beginning
/// is nothing else.
fn is_imperative(clause: &[&str]) -> bool {
    let start = clause.iter().take_while(|word| WORD_CLASSES.lead_ins.contains(*word)).count();
    // "do" is among the openers, because it begins questions too. "Do not" begins a command.
    if let ["don't" | "dont", _, ..] | ["do", "not", _, ..] = clause[start..] {
        return true;
    }
    if let Some(is_command) = is_command_of_script(clause) {
        return is_command;
    }
    // Lead-ins such as "please", "always" or "niemals" may precede the verb of a command.
    let [first, rest @ ..] = &clause[start..] else { return false };
    if WORD_CLASSES.openers.contains(first) || WORD_CLASSES.subordinators.contains(first) {
        return false;
    }
    // "Running the tests takes long", "Usually it works": such forms begin statements.
    let is_verbal_noun = first.ends_with("ing") || first.ends_with("ly");
    let is_number = first.chars().all(|char| char.is_ascii_digit());
    let is_subject = begins_with_auxiliary(rest);
    !is_verbal_noun && !is_number && !is_subject && !rest.is_empty() && !begins_with_noun(&clause[start..])
}

/// Returns whether a clause is a command by the grammar of its script; `None` for scripts whose commands begin with
/// their verb.
fn is_command_of_script(clause: &[&str]) -> Option<bool> {
    let (first, last) = (clause.first()?, clause.last()?);
    // Marks tell the commands of Chinese, Japanese and Korean.
    if clause.iter().any(|word| word.chars().any(is_unspaced)) {
        return Some(false);
    }
    // Hindi has the verb at the end.
    if last.chars().any(|char| matches!(char, '\u{900}'..='\u{97f}')) {
        let has_word =
            clause.iter().any(|word| HINDI_COMMANDS.split_whitespace().any(|command| command == *word));
        return Some(has_word || HINDI_COMMAND_ENDINGS.iter().any(|ending| last.ends_with(ending)));
    }
    if !first.chars().any(|char| matches!(char, '\u{620}'..='\u{64a}')) {
        return command_of_language(clause);
    }
    // Arabic forbids by a form of the second person, and a noun has the article.
    let start = clause.iter().take_while(|word| WORD_CLASSES.lead_ins.contains(*word)).count();
    match clause[start..] {
        ["لا", verb, ..] => Some(verb.starts_with('ت')),
        [noun, ..] if noun.starts_with("ال") && !noun.starts_with("الت") => Some(false),
        _ => None,
    }
}

/// Returns whether words begin with a form of an auxiliary verb, so that the word before them is a subject.
fn begins_with_auxiliary(words: &[&str]) -> bool {
    match words {
        // "Marie a compté" has the auxiliary, and "cite a source" the article.
        ["a", next, ..] => next.ends_with('é') || SHORT_PARTICIPLES.contains(next),
        [word, ..] => WORD_CLASSES.auxiliaries.contains(word),
        [] => false,
    }
}

/// French participles that do not end in "é".
const SHORT_PARTICIPLES: &[&str] =
    &["eu", "fait", "dit", "mis", "pris", "vu", "fini", "reçu", "lu", "pu", "dû", "voulu", "écrit", "ouvert"];

/// Returns whether words have a scope: the time or the frequency with which an order holds.
fn has_scope(words: &[&str]) -> bool {
    has_phrase(&WORD_CLASSES.scope, words) || has_turkish_each(words)
}

fn starts_with(words: &[&str], phrase: &[&str]) -> bool {
    phrase.len() <= words.len() && phrase.iter().zip(words).all(|(wanted, word)| wanted == word)
}

#[cfg(test)]
mod tests;
