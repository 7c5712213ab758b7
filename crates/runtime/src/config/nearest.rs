//! The valid word a mistyped one was probably meant to be.

/// Returns the likeliest of `words`, if one is like enough.
///
/// ```
/// use longhaul::config::nearest;
/// assert_eq!(nearest("qwen3-3b", ["gpt-4o", "qwen3-30b"]), Some("qwen3-30b"));
/// assert_eq!(nearest("mistral", ["gpt-4o", "qwen3-30b"]), None);
/// ```
pub fn nearest<'a>(typed: &str, words: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let typed = plain(typed);
    words
        .into_iter()
        .map(|word| (likeness(&typed, &plain(word)), word))
        .filter(|(likeness, _)| *likeness >= 0.6)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, word)| word)
}

fn likeness(typed: &str, word: &str) -> f64 {
    // A shortened word is far from the whole one by edits, and still the likeliest meaning.
    let begins = typed.len() >= 3 && word.starts_with(typed);
    strsim::normalized_damerau_levenshtein(typed, word).max(if begins { 0.7 } else { 0.0 })
}

/// `max_steps`, `max-steps` and `maxSteps` are the same word to a person.
fn plain(word: &str) -> String {
    // The comparison takes quadratic time, and a key of the file may be of any length.
    word.chars().filter(|c| !matches!(c, '_' | '-')).flat_map(char::to_lowercase).take(64).collect()
}
