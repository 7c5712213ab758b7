//! Questions that ask the model for something: "Could you always answer in French?", "Would you mind adding a title?"

use std::sync::LazyLock;

use super::lexicon::{
    HABIT_ENDS, MIND_REQUESTS, REQUEST_PHRASES, UNSPACED_NEGATIONS, UNSPACED_REQUESTS, UNSPACED_SCOPE,
};
use super::mood::{
    MAX_REQUEST_START, MOOD_SCORE, PhraseSet, SCOPE_SCORE, has_phrase, has_standing_scope, has_unspaced,
    is_each, plain_words, without_elision,
};
use super::polite::{ANSWERS, is_plea_word};
use super::subjects::subject_of;

/// Words at the beginning of a request that forbid something.
const FORBIDDING: &[&str] = &[
    "not", "never", "nicht", "keine", "kein", "keinen", "pas", "no", "não", "non", "не", "niet", "geen",
    "nie", "inte",
];

/// Forms of the Turkish question to somebody about an action.
const TURKISH_REQUEST_ENDS: &[&str] =
    &["misin", "mısın", "musun", "müsün", "misiniz", "mısınız", "musunuz", "müsünüz"];

/// Returns the score of a question that asks for something that holds from now on: "Could you always answer in French?"
/// `None` for other questions.
pub(super) fn request_score(sentence: &str) -> Option<i32> {
    static REQUESTS: LazyLock<PhraseSet> =
        LazyLock::new(|| PhraseSet::of([REQUEST_PHRASES, MIND_REQUESTS].into_iter()));
    if has_unspaced(sentence, UNSPACED_REQUESTS) {
        let (scope, ends) = (UNSPACED_SCOPE, UNSPACED_NEGATIONS);
        return (has_unspaced(sentence, scope) || has_unspaced(sentence, ends))
            .then_some(MOOD_SCORE + SCOPE_SCORE);
    }
    let words = plain_words(sentence);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let start = &words[..words.len().min(MAX_REQUEST_START)];
    // Turkish asks by its last word.
    let asks_at_end = words.last().is_some_and(|last| TURKISH_REQUEST_ENDS.contains(last));
    if !has_phrase(&REQUESTS, start) && !asks_at_end {
        return None;
    }
    // "Can you show me every file" is about one answer. "Every answer" is not.
    let is_of_each_answer =
        words.windows(2).any(|pair| is_each(pair[0]) && subject_of(pair[1]) == Some(ANSWERS));
    if has_standing_scope(&words) || is_of_each_answer || ends_habit(&words) {
        return Some(MOOD_SCORE + SCOPE_SCORE);
    }
    let is_courteous = words.iter().any(|word| is_plea_word(word));
    let is_about_answers = words.iter().any(|word| subject_of(word) == Some(ANSWERS));
    // "Would you please not use tables" forbids, and "please see why it does not work" does not.
    let forbids = is_courteous && start.iter().any(|word| FORBIDDING.contains(word));
    (minds_action(&words) || forbids || is_courteous && is_about_answers).then_some(MOOD_SCORE)
}

/// Returns whether a request asks to end a habit: "stop using emojis", "dejar de usar tablas".
fn ends_habit(words: &[&str]) -> bool {
    static HABITS: LazyLock<PhraseSet> = LazyLock::new(|| PhraseSet::of([HABIT_ENDS].into_iter()));
    // "Stop the server" is a task.
    words.windows(2).any(stops_action) || has_phrase(&HABITS, &without_elision(words))
}

/// Returns whether two words name the end of an action: "stop using".
fn stops_action(pair: &[&str]) -> bool {
    ["stop", "quit", "cease"].contains(&pair[0]) && pair[1].ends_with("ing")
}

/// Returns whether a question asks for an action by its bother: "Would you mind answering in French?"
fn minds_action(words: &[&str]) -> bool {
    static MINDS: LazyLock<PhraseSet> = LazyLock::new(|| PhraseSet::of([MIND_REQUESTS].into_iter()));
    (0..words.len().min(MAX_REQUEST_START)).any(|at| {
        let behind = &words[at + MINDS.prefix_len(&words[at..])..];
        // "Do you mind if I smoke" and "do you mind the noise" ask for no action.
        let is_english = words[at..].first().is_some_and(|word| ["would", "do"].contains(word));
        behind.len() < words.len() - at
            && (!is_english || behind.iter().take(2).any(|word| word.ends_with("ing")))
    })
}
