//! Signs of a statement, where a command has no form of its own.
//!
//! A clause counts as a command if its beginning is nothing else. In Turkish the verb stands at the end. In Vietnamese
//! and Indonesian a noun without an article begins a statement, and nothing tells it from a verb. So these languages are
//! recognised by letters and words of their own, and a statement by its ending, its time or its aspect.

use std::collections::{BTreeMap, BTreeSet};
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

/// English words that stand in no clause of the languages here. A clause may have a foreign name.
const ENGLISH_WORDS: &[&str] = &[
    "a", "and", "are", "for", "from", "has", "he", "i", "in", "is", "it", "my", "of", "she", "that", "the",
    "they", "to", "was", "we", "were", "with", "you", "your",
];

fn set_of(words: &'static str) -> BTreeSet<&'static str> {
    words.split_whitespace().collect()
}

/// The signs of a language or a time in a clause.
#[derive(Clone, Copy, Debug, Default)]
struct ClauseSigns {
    /// `true` if a word tells of the past: "yesterday".
    tells_of_past: bool,
    is_turkish: bool,
    is_indonesian: bool,
    /// The number of words with letters that only Vietnamese has.
    vietnamese_words: usize,
    /// The number of words with letters beyond ASCII.
    accented_words: usize,
    is_english: bool,
}

/// The classes of words that are signs.
#[derive(Clone, Copy, PartialEq)]
enum SignClass {
    Past,
    Turkish,
    Indonesian,
    English,
}

/// Returns the words of a list, each with their class.
fn words_in_class(words: &'static str, class: SignClass) -> impl Iterator<Item = (&'static str, SignClass)> {
    words.split_whitespace().map(move |word| (word, class))
}

/// Returns whether a letter stands in no other language than Vietnamese.
fn is_vietnamese_letter(char: char) -> bool {
    matches!(char, '\u{1ea0}'..='\u{1ef9}' | 'ơ' | 'ư')
}

impl ClauseSigns {
    fn of(clause: &[&str]) -> Self {
        // One table for all classes: every word of every statement is looked up.
        static CLASSES: LazyLock<BTreeMap<&'static str, SignClass>> = LazyLock::new(|| {
            let english = ENGLISH_WORDS.iter().map(|word| (*word, SignClass::English));
            // Words of the past come last: "dün" is Turkish by its other words too.
            english
                .chain(words_in_class(TURKISH_WORDS, SignClass::Turkish))
                .chain(words_in_class(INDONESIAN_WORDS, SignClass::Indonesian))
                .chain(words_in_class(PAST_TIMES, SignClass::Past))
                .collect()
        });
        let mut signs = Self::default();
        for word in clause {
            match CLASSES.get(word) {
                Some(SignClass::Past) => signs.tells_of_past = true,
                Some(SignClass::Turkish) => signs.is_turkish = true,
                Some(SignClass::Indonesian) => signs.is_indonesian = true,
                Some(SignClass::English) => signs.is_english = true,
                None => {}
            }
            if !word.is_ascii() {
                signs.accented_words += 1;
                signs.is_turkish |= word.contains(['ı', 'ş', 'ğ']);
                signs.vietnamese_words += usize::from(word.contains(is_vietnamese_letter));
            } else if word.len() > 5 && word.ends_with("nya") {
                // "-nya" is an ending of nouns.
                signs.is_indonesian = true;
            }
        }
        signs.is_turkish = !signs.is_english && (signs.is_turkish || has_turkish_form(clause));
        signs.is_indonesian &= !signs.is_english;
        signs
    }
}

/// Returns whether a clause is a command by the grammar of Turkish, Vietnamese or Indonesian; `None` if the clause is in
/// another language, or has no sign.
pub(super) fn command_of_language(clause: &[&str]) -> Option<bool> {
    let signs = ClauseSigns::of(clause);
    if signs.is_turkish {
        if ends_like_turkish_statement(clause) || signs.tells_of_past {
            return Some(false);
        }
        return clause.contains(&TURKISH_EACH).then_some(true);
    }
    // A single word may be a name.
    if signs.vietnamese_words > 0 && signs.accented_words > 1 {
        return vietnamese_command(clause);
    }
    if signs.is_indonesian {
        return is_indonesian_statement(clause).then_some(false);
    }
    signs.tells_of_past.then_some(false)
}

/// Returns whether words have the Turkish "every": "her cevapta kaynak göster".
pub(super) fn has_turkish_each(words: &[&str]) -> bool {
    words.contains(&TURKISH_EACH) && ClauseSigns::of(words).is_turkish
}

/// Returns whether a clause without a word of its own is Turkish by the form of its words.
fn has_turkish_form(words: &[&str]) -> bool {
    static VERBS: LazyLock<BTreeSet<&'static str>> = LazyLock::new(|| set_of(TURKISH_COMMAND_VERBS));
    let (Some(first), Some(last)) = (words.first(), words.last()) else { return false };
    let is_plural = first.ends_with("ler") || first.ends_with("lar");
    let is_present = last.len() > 5 && (last.ends_with("yor") || last.ends_with("yorlar"));
    // "Testler geçti" is a plural and a verb in the past. "Hata düzeltildi" has a letter and an ending in its verb.
    is_present
        || (is_plural || has_turkish_letter(last)) && words.len() > 1 && ends_like_turkish_verb(last)
        || words.contains(&TURKISH_EACH)
            && (words.iter().any(|word| has_turkish_letter(word)) || VERBS.contains(last))
}

/// Returns whether a word has a letter that Turkish shares with few languages.
fn has_turkish_letter(word: &str) -> bool {
    word.contains(['ç', 'ö', 'ü'])
}

/// Returns whether a word has the ending of a Turkish verb that tells.
fn ends_like_turkish_verb(word: &str) -> bool {
    let mut endings = TURKISH_STATEMENT_ENDINGS.split_whitespace();
    endings.any(|ending| word.len() > ending.len() + 1 && word.ends_with(ending))
}

/// Returns whether a clause ends like a Turkish statement: "Sunucu dün gece çöktü", "Kahve çok sıcak".
fn ends_like_turkish_statement(clause: &[&str]) -> bool {
    static WORDS: LazyLock<BTreeSet<&'static str>> = LazyLock::new(|| set_of(TURKISH_STATEMENT_WORDS));
    let [.., before, last] = clause else { return false };
    // A place is no verb: "üçüncü katta".
    let is_place = ["da", "de", "ta", "te"].iter().any(|ending| last.len() > 4 && last.ends_with(ending));
    WORDS.contains(last) || *before == "çok" || ends_like_turkish_verb(last) || is_place && *last != "iste"
}

/// Returns whether a Vietnamese clause is a command; `None` if nothing tells.
fn vietnamese_command(clause: &[&str]) -> Option<bool> {
    static COMMANDS: LazyLock<BTreeSet<&'static str>> = LazyLock::new(|| set_of(VIETNAMESE_COMMAND_WORDS));
    static STATEMENTS: LazyLock<PhraseSet> =
        LazyLock::new(|| PhraseSet::of([VIETNAMESE_STATEMENT_PHRASES].into_iter()));
    static VERBS: LazyLock<BTreeSet<&'static str>> = LazyLock::new(|| set_of(VIETNAMESE_COMMAND_VERBS));
    if clause.iter().any(|word| COMMANDS.contains(*word)) {
        return None;
    }
    // "Too", "very" and "well" stand at the end.
    let is_judged = matches!(clause, [.., "quá" | "lắm" | "rồi" | "tốt" | "xong"]);
    let begins_with_verb = clause.first().is_some_and(|first| VERBS.contains(first));
    (is_judged || !begins_with_verb || has_phrase(&STATEMENTS, clause)).then_some(false)
}

/// Returns whether an Indonesian clause is a statement: "Rapat dimulai jam tiga", "Kopi ini enak".
fn is_indonesian_statement(clause: &[&str]) -> bool {
    static STATEMENTS: LazyLock<PhraseSet> =
        LazyLock::new(|| PhraseSet::of([INDONESIAN_STATEMENT_PHRASES].into_iter()));
    static PREPOSITIONS: LazyLock<BTreeSet<&'static str>> = LazyLock::new(|| set_of(INDONESIAN_PREPOSITIONS));
    if clause.iter().any(|word| ["jangan", "tolong", "mohon", "harap"].contains(word)) {
        return false;
    }
    let verb = clause.iter().find(|word| !is_lead_in(word));
    let is_shown = clause
        .windows(2)
        .take(3)
        .any(|pair| ["ini", "itu"].contains(&pair[0]) && !PREPOSITIONS.contains(pair[1]));
    let tells = is_shown || clause.last() == Some(&"sekali") || has_phrase(&STATEMENTS, clause);
    tells || !verb.is_some_and(|verb| is_indonesian_imperative(verb) || is_subordinator(verb))
}

/// Returns whether an Indonesian word is an imperative: it has no prefix, and mostly an ending.
fn is_indonesian_imperative(word: &str) -> bool {
    static VERBS: LazyLock<BTreeSet<&'static str>> = LazyLock::new(|| set_of(INDONESIAN_COMMAND_VERBS));
    VERBS.contains(word) || word.len() > 5 && ["kan", "lah"].iter().any(|ending| word.ends_with(ending))
}

/// The least length of a word with the ending of an imperative, in characters.
const MIN_IMPERATIVE_CHARS: usize = 5;

/// Returns whether a clause has a verb with an ending of the imperative behind a phrase without a comma: "Перед удалением
/// спрашивай меня", "Przed usunięciem zapytaj mnie", "قبل الحذف اسألني".
pub(super) fn has_marked_imperative(clause: &[&str]) -> bool {
    // A person before the verb tells of the person.
    clause.iter().skip(1).any(|word| is_slavic_imperative(word) || is_arabic_imperative(word))
        && !ClauseSigns::of(clause).tells_of_past
}

/// Returns whether a word has the ending of a Slavic imperative, and is no noun with that ending.
fn is_slavic_imperative(word: &str) -> bool {
    static NOUNS: LazyLock<BTreeSet<&'static str>> = LazyLock::new(|| set_of(SLAVIC_NOUNS));
    // The last letters come first, because most words end with others.
    if !word.ends_with(['й', 'ь', 'е', 'j', 'e']) {
        return false;
    }
    let mut endings = SLAVIC_IMPERATIVE_ENDINGS.split_whitespace();
    word.chars().nth(MIN_IMPERATIVE_CHARS - 1).is_some()
        && endings.any(|ending| word.ends_with(ending))
        && !NOUNS.contains(word)
}

/// Returns whether a word is an Arabic imperative with "me" at its end: a verb that begins with the imperative's vowel.
fn is_arabic_imperative(word: &str) -> bool {
    word.starts_with(['ا', 'أ']) && word.ends_with("ني") && word.chars().nth(4).is_some()
}
