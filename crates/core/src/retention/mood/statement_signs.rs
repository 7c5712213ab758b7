//! Signs of a statement, where a command has no form of its own.
//!
//! A clause counts as a command if its beginning is nothing else. In Turkish the verb stands at the end. In Vietnamese
//! and Indonesian a noun without an article begins a statement, and nothing tells it from a verb. So these languages are
//! recognised by letters and words of their own, and a statement by its ending, its time or its aspect.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use super::{PhraseSet, has_phrase, is_lead_in, is_subordinator};
use crate::retention::lexicon::{
    INDONESIAN_COMMAND_VERBS, INDONESIAN_PREPOSITIONS, INDONESIAN_STATEMENT_PHRASES, INDONESIAN_WORDS,
    PAST_TIMES, SLAVIC_IMPERATIVE_ENDINGS, SLAVIC_NOUNS, TURKISH_COMMAND_VERBS, TURKISH_STATEMENT_ENDINGS,
    TURKISH_STATEMENT_WORDS, TURKISH_WORDS, VIETNAMESE_COMMAND_VERBS, VIETNAMESE_COMMAND_WORDS,
    VIETNAMESE_STATEMENT_PHRASES,
};

/// The word "every" of Turkish, which is another word in English.
const TURKISH_EACH: &str = "her";

/// English words that stand beside the pronoun "her", and not beside the Turkish word.
const ENGLISH_NEIGHBOURS: &[&str] = &[
    "a", "an", "and", "are", "at", "by", "did", "for", "from", "had", "has", "he", "i", "in", "is", "it",
    "my", "not", "of", "on", "she", "that", "the", "they", "to", "was", "we", "were", "will", "with", "you",
    "your",
];

fn set_of(words: &'static str) -> BTreeSet<&'static str> {
    words.split_whitespace().collect()
}

/// Returns whether a clause is a command by the grammar of Turkish, Vietnamese or Indonesian; `None` if the clause is in
/// another language, or has no sign.
pub(super) fn command_of_language(clause: &[&str]) -> Option<bool> {
    let is_told_by_time = tells_of_past(clause);
    if is_turkish(clause) {
        return if ends_like_turkish_statement(clause) {
            Some(false)
        } else {
            (has_turkish_each(clause) || is_told_by_time).then_some(!is_told_by_time)
        };
    }
    if clause.iter().any(|word| is_vietnamese(word)) {
        return vietnamese_command(clause);
    }
    if is_indonesian(clause) {
        return is_indonesian_statement(clause).then_some(false);
    }
    is_told_by_time.then_some(false)
}

/// Returns whether words have the Turkish "every": "her cevapta kaynak göster".
pub(super) fn has_turkish_each(words: &[&str]) -> bool {
    words.contains(&TURKISH_EACH) && is_turkish(words)
}

/// Returns whether a clause tells of a past time: "yesterday", "two years ago".
fn tells_of_past(clause: &[&str]) -> bool {
    static TIMES: LazyLock<BTreeSet<&'static str>> = LazyLock::new(|| set_of(PAST_TIMES));
    clause.iter().any(|word| TIMES.contains(word))
}

fn is_turkish(words: &[&str]) -> bool {
    static WORDS: LazyLock<BTreeSet<&'static str>> = LazyLock::new(|| set_of(TURKISH_WORDS));
    static VERBS: LazyLock<BTreeSet<&'static str>> = LazyLock::new(|| set_of(TURKISH_COMMAND_VERBS));
    if words.iter().any(|word| word.contains(['ı', 'ş', 'ğ']) || WORDS.contains(word)) {
        return true;
    }
    // "Testler geçti": a plural and a verb in the past.
    let is_plural = |word: &&&str| word.ends_with("ler") || word.ends_with("lar");
    if words.first().filter(is_plural).is_some() && ends_like_turkish_statement(words) {
        return true;
    }
    let is_present = |word: &&&str| word.len() > 5 && (word.ends_with("yor") || word.ends_with("yorlar"));
    if words.last().filter(is_present).is_some() {
        return true;
    }
    let has_letter = |word: &&str| word.contains(['ç', 'ö', 'ü']);
    // "Hata düzeltildi" has both in its verb.
    if words.last().is_some_and(|last| has_letter(&last)) && ends_like_turkish_statement(words) {
        return true;
    }
    words.contains(&TURKISH_EACH)
        && !words.iter().any(|word| ENGLISH_NEIGHBOURS.contains(word))
        && (words.iter().any(has_letter) || words.last().is_some_and(|last| VERBS.contains(last)))
}

/// Returns whether a clause ends like a Turkish statement: "Sunucu dün gece çöktü", "Kahve çok sıcak".
fn ends_like_turkish_statement(clause: &[&str]) -> bool {
    static WORDS: LazyLock<BTreeSet<&'static str>> = LazyLock::new(|| set_of(TURKISH_STATEMENT_WORDS));
    let [.., before, last] = clause else { return false };
    let has_ending = |word: &str| {
        let mut endings = TURKISH_STATEMENT_ENDINGS.split_whitespace();
        endings.any(|ending| word.len() > ending.len() + 1 && word.ends_with(ending))
    };
    // A place is no verb: "üçüncü katta".
    let is_place = ["da", "de", "ta", "te"].iter().any(|ending| last.len() > 4 && last.ends_with(ending));
    WORDS.contains(last) || *before == "çok" || has_ending(last) || is_place && *last != "iste"
}

fn is_vietnamese(word: &str) -> bool {
    word.chars().any(|char| matches!(char, '\u{1ea0}'..='\u{1ef9}' | 'ơ' | 'ư'))
}

/// Returns whether a Vietnamese clause is a command; `None` if nothing tells.
fn vietnamese_command(clause: &[&str]) -> Option<bool> {
    static COMMANDS: LazyLock<BTreeSet<&'static str>> = LazyLock::new(|| set_of(VIETNAMESE_COMMAND_WORDS));
    static STATEMENTS: LazyLock<PhraseSet> =
        LazyLock::new(|| PhraseSet::of([VIETNAMESE_STATEMENT_PHRASES].into_iter()));
    static VERBS: LazyLock<BTreeSet<&'static str>> = LazyLock::new(|| set_of(VIETNAMESE_COMMAND_VERBS));
    let has_command = |word: &&str| COMMANDS.contains(*word);
    if clause.iter().any(|word| has_command(&word)) {
        return None;
    }
    // "Too", "very" and "well" stand at the end.
    let is_judged = matches!(clause, [.., "quá" | "lắm" | "rồi" | "tốt" | "xong"]);
    let begins_with_verb = clause.first().is_some_and(|first| VERBS.contains(first));
    (is_judged || !begins_with_verb || has_phrase(&STATEMENTS, clause)).then_some(false)
}

fn is_indonesian(clause: &[&str]) -> bool {
    static WORDS: LazyLock<BTreeSet<&'static str>> = LazyLock::new(|| set_of(INDONESIAN_WORDS));
    // "-nya" is an ending of nouns.
    clause.iter().any(|word| WORDS.contains(word) || word.len() > 5 && word.ends_with("nya"))
}

/// Returns whether an Indonesian clause is a statement: "Rapat dimulai jam tiga", "Kopi ini enak".
fn is_indonesian_statement(clause: &[&str]) -> bool {
    static STATEMENTS: LazyLock<PhraseSet> =
        LazyLock::new(|| PhraseSet::of([INDONESIAN_STATEMENT_PHRASES].into_iter()));
    static PREPOSITIONS: LazyLock<BTreeSet<&'static str>> = LazyLock::new(|| set_of(INDONESIAN_PREPOSITIONS));
    static VERBS: LazyLock<BTreeSet<&'static str>> = LazyLock::new(|| set_of(INDONESIAN_COMMAND_VERBS));
    if clause.iter().any(|word| ["jangan", "tolong", "mohon", "harap"].contains(word)) {
        return false;
    }
    // An imperative has no prefix, and mostly an ending.
    let commands = |word: &str| {
        VERBS.contains(word) || word.len() > 5 && ["kan", "lah"].iter().any(|ending| word.ends_with(ending))
    };
    let verb = clause.iter().find(|word| !is_lead_in(word));
    let is_shown = clause
        .windows(2)
        .take(3)
        .any(|pair| ["ini", "itu"].contains(&pair[0]) && !PREPOSITIONS.contains(pair[1]));
    let tells = is_shown || clause.last() == Some(&"sekali") || has_phrase(&STATEMENTS, clause);
    tells || !verb.is_some_and(|verb| commands(verb) || is_subordinator(verb))
}

/// The least length of a word with the ending of an imperative, in characters.
const MIN_IMPERATIVE_CHARS: usize = 5;

/// Returns whether a clause has a verb with an ending of the imperative behind a phrase without a comma: "Перед удалением
/// спрашивай меня", "Przed usunięciem zapytaj mnie", "قبل الحذف اسألني".
pub(super) fn has_marked_imperative(clause: &[&str]) -> bool {
    static NOUNS: LazyLock<BTreeSet<&'static str>> = LazyLock::new(|| set_of(SLAVIC_NOUNS));
    let is_slavic = |word: &str| {
        let mut endings = SLAVIC_IMPERATIVE_ENDINGS.split_whitespace();
        word.chars().nth(MIN_IMPERATIVE_CHARS - 1).is_some()
            && endings.any(|ending| word.ends_with(ending))
            && !NOUNS.contains(word)
    };
    // "Me" behind a verb that begins with the vowel of the imperative.
    let asks_me =
        |word: &str| word.starts_with(['ا', 'أ']) && word.ends_with("ني") && word.chars().nth(4).is_some();
    // A person before the verb tells of the person.
    !tells_of_past(clause) && clause.iter().skip(1).any(|word| is_slavic(word) || asks_me(word))
}
