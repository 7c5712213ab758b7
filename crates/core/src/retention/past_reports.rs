//! Reports about the past: "we deployed on Friday instead". A report says what happened, and changes no order.
//!
//! The tense decides, clause by clause. A clause is a report if it has a verb of the past and no verb of the present.
//! Closed word classes hold the auxiliary and the irregular verbs, and endings show the regular ones. An ending alone is
//! a weak sign, so its place in the clause counts too: "use named arguments" has no verb of the past.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use super::lexicon::{
    CHOOSING_VERBS, HAVE_VERBS, NO_PAST_VERBS, PAST_TIMES, PAST_VERBS, PRESENT_VERBS, UNSPACED_PAST,
    UNSPACED_PAST_ENDS,
};
use super::mood::{has_unspaced, is_function_word, is_lead_in};

/// The last place of the verb in a clause without an article or a pronoun at its beginning: "Bob actually left".
const MAX_BARE_PLACE: usize = 2;

/// The most words between "have" and the participle behind it.
const MAX_PERFECT_WORDS: usize = 6;

/// The fewest characters of a word whose ending is a sign.
const MIN_CHARS: usize = 4;

/// The meaning of a word for the tense of its clause.
#[derive(Clone, Copy, PartialEq)]
enum TenseSign {
    Past,
    Present,
    /// A form of "have", which makes a report with a participle behind it.
    Have,
    /// A word with an ending of the past that is no verb.
    NoVerb,
}

static SIGNS: LazyLock<BTreeMap<&'static str, TenseSign>> = LazyLock::new(|| {
    let listed = |words: &'static str, sign| words.split_whitespace().map(move |word| (word, sign));
    listed(NO_PAST_VERBS, TenseSign::NoVerb)
        .chain(listed(PAST_TIMES, TenseSign::Past))
        .chain(listed(PAST_VERBS, TenseSign::Past))
        .chain(listed(HAVE_VERBS, TenseSign::Have))
        .chain(listed(PRESENT_VERBS, TenseSign::Present))
        .collect()
});

/// Returns whether a clause tells of the past.
pub(super) fn is_past(clause: &[&str]) -> bool {
    let is_present = clause.iter().any(|word| SIGNS.get(word) == Some(&TenseSign::Present));
    !is_present && (0..clause.len()).any(|at| is_past_at(clause, at))
}

/// Returns whether a clause has a verb of the present.
pub(super) fn is_present(clause: &[&str]) -> bool {
    clause.iter().any(|word| SIGNS.get(word) == Some(&TenseSign::Present))
}

/// Returns whether a text in Chinese, Japanese or Korean tells of the past.
pub(super) fn is_unspaced_past(text: &str) -> bool {
    if text.is_ascii() {
        return false;
    }
    let text = text.trim_end().trim_end_matches(['。', '.', '！', '!']);
    // Behind a verb within a sentence the Chinese particle tells of the past. At the end it tells of a new state.
    let has_particle = text.char_indices().any(|(at, char)| {
        let next = text[at + char.len_utf8()..].chars().next();
        char == '了' && next.is_some_and(char::is_alphanumeric)
    });
    let ends = |ending: &str| text.ends_with(ending);
    has_particle || has_unspaced(text, UNSPACED_PAST) || UNSPACED_PAST_ENDS.split(' ').any(ends)
}

/// Returns whether the word at a place of a clause shows the past.
fn is_past_at(clause: &[&str], at: usize) -> bool {
    let word = clause[at];
    match SIGNS.get(word) {
        Some(TenseSign::Past) => true,
        Some(TenseSign::Have) => {
            let behind = clause[at + 1..].iter().take(MAX_PERFECT_WORDS);
            behind.into_iter().any(|next| is_participle(word, next))
        }
        Some(_) => false,
        None => has_past_ending(word) && is_verb_place(clause, at),
    }
}

/// Returns whether an ending may belong to a verb at a place: behind its subject, and not before its own noun.
fn is_verb_place(clause: &[&str], at: usize) -> bool {
    static CHOICES: LazyLock<BTreeSet<&'static str>> =
        LazyLock::new(|| CHOOSING_VERBS.split_whitespace().collect());
    let start = clause.iter().take_while(|word| is_lead_in(word)).count();
    if at < start || !clause[at].is_ascii() {
        // Endings of other letters than English ones are rare in other words.
        return !clause[at].is_ascii();
    }
    let is_bare = !is_function_word(clause[start]);
    if is_bare {
        // "Use named arguments" is a command, and "Bob committed the file" tells of Bob.
        let is_before_noun = clause.get(at + 1).is_some_and(|next| {
            !is_function_word(next)
                && !BARE_PREPOSITIONS.contains(next)
                && !next.bytes().all(|byte| byte.is_ascii_digit())
        });
        return at > start
            && at - start <= MAX_BARE_PLACE
            && !is_before_noun
            && !CHOICES.contains(clause[start]);
    }
    // "The updated page" has the article before the participle.
    at > start && (!is_function_word(clause[at - 1]) || is_subject(clause[at - 1]))
}

/// Prepositions and adverbs that stand behind a verb, and not before its object.
pub(super) const BARE_PREPOSITIONS: &[&str] =
    &["without", "against", "again", "late", "early", "out", "off", "up", "down", "back"];

/// Returns whether a word is a verb of the past by its list or by its English ending.
pub(super) fn is_past_verb(word: &str) -> bool {
    match SIGNS.get(word) {
        Some(sign) => *sign == TenseSign::Past,
        None => word.len() >= MIN_CHARS && word.ends_with("ed") && !word.starts_with("un"),
    }
}

/// Returns whether a word of a closed class may be the subject right before a verb, or an adverb there.
fn is_subject(word: &str) -> bool {
    const SUBJECTS: &[&str] = &[
        "i", "we", "they", "he", "she", "it", "you", "who", "which", "that", "this", "everyone", "someone",
        "nobody", "somebody", "just", "then", "also", "actually", "really", "still", "never", "always",
        "maybe", "ich", "wir", "er", "es", "je", "on", "il", "elle", "nous", "ils", "ik", "wij", "hij", "ze",
    ];
    SUBJECTS.contains(&word)
}

/// Returns whether a word has an ending of the past.
fn has_past_ending(word: &str) -> bool {
    // Most words end with another letter.
    let Some(last) = word.chars().next_back() else { return false };
    if !matches!(
        last,
        'd' | 'e' | 'n' | 'ó' | 'u' | 'm' | 'a' | 'o' | 'л' | 'и' | 'я' | 'ь' | 'ł' | 'i' | 'y' | 'а' | 'о'
    ) || word.chars().nth(MIN_CHARS - 1).is_none()
    {
        return false;
    }
    const ENDINGS: &[&str] = &[
        // English, German and Swedish.
        "ed", "ierte", "ierten", "erte", "elte", "tete", "igte", "chte", "ade",
        // Spanish and Portuguese.
        "ó", "aron", "ieron", "aba", "aban", "ou", "aram", "iram", "avam", // Italian.
        "avano", "evano", // Russian and Ukrainian.
        "л", "ла", "ло", "ли", "лся", "лась", "лось", "лись", // Polish.
        "ał", "ił", "ył", "ął", "ała", "iła", "yła", "ęła", "ało", "iło", "yło", "słali", "ęli", "ały",
        "iły", "liśmy", "łyśmy", "łem", "łam",
    ];
    !word.starts_with("un") && ENDINGS.iter().any(|ending| word.ends_with(ending) && word != *ending)
}

/// Returns whether a word is a participle behind a form of "have".
fn is_participle(have: &str, word: &str) -> bool {
    if word.chars().nth(2).is_none() || is_function_word(word) {
        return false;
    }
    let ends = |endings: &[&str]| endings.iter().any(|ending| word.ends_with(ending));
    match have {
        "has" | "have" | "i've" | "we've" | "they've" | "haven't" | "hasn't" => {
            ends(&["ed"]) || is_listed_past(word)
        }
        "hat" | "haben" | "habe" | "habt" | "hast" => ends(&["t"]) || ends(&["en"]) && word.contains("ge"),
        // The Dutch participle begins with "ge".
        "heeft" | "hebben" | "heb" | "hebt" => word.contains("ge") && ends(&["d", "t", "en"]),
        // French, Italian and Spanish have forms in common, so all their participles count. English has "a", too.
        "a" => ends(&["é", "ée", "és", "ées", "ndu", "rdu"]),
        _ => ends(&[
            "é", "ée", "és", "ées", "du", "ado", "ido", "ato", "uto", "ito", "sto", "tto", "ati", "ate",
            "ite", "is", "it", "echo", "erto",
        ]),
    }
}

fn is_listed_past(word: &str) -> bool {
    SIGNS.get(word) == Some(&TenseSign::Past)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::retention::mood::{CLAUSE, words_of};

    fn tells_of_past(text: &str) -> bool {
        let words = words_of(text);
        words.split(|word| word == CLAUSE).any(|clause| {
            let clause: Vec<&str> = clause.iter().map(String::as_str).collect();
            is_past(&clause)
        })
    }

    #[test]
    fn verbs_of_the_past_make_a_report() {
        for text in [
            "We deployed on Friday instead.",
            "Bob committed without the linter.",
            "The server was slow after the update.",
            "Wir haben am Freitag deployt.",
            "Der Server lieferte ein altes Zertifikat.",
            "On a déployé le vendredi.",
            "El equipo desplegó en viernes.",
            "Мы задеплоили в пятницу.",
            "Il server ha restituito un errore.",
            "Wdrożyliśmy w piątek.",
        ] {
            assert!(tells_of_past(text), "{text}");
        }
        assert!(
            is_unspaced_past("代わりに金曜日にデプロイしました。")
                && is_unspaced_past("服务器返回了旧证书。")
        );
    }

    #[test]
    fn commands_and_the_present_make_none() {
        for text in [
            "Use named arguments.",
            "Never edit generated files.",
            "Keep generated files unchanged.",
            "All dates must be written as YYYY-MM-DD.",
            "The updated page is on port 9090.",
            "The limit is 50 words.",
            "Die Frist ist Freitag.",
            "Nutze die letzte Karte.",
            "Le budget est de 500 euros.",
            "El servidor usa el puerto 8080.",
            "Если тест падает, скажи мне.",
        ] {
            assert!(!tells_of_past(text), "{text}");
        }
        assert!(!is_unspaced_past("现在可以用表格了。") && !is_unspaced_past("英語で答えてください。"));
    }
}
