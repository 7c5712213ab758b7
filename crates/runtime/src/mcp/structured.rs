//! The check whether `structuredContent` repeats the texts of `content`.

use std::collections::BTreeSet;

use serde_json::Value;

/// The maximum work of the search for one answer: values times the characters of the texts.
const MAX_SEARCHED: usize = 200 << 20;

/// Replaces every picture or file that `content` holds, too, by a reference. `encoded` has the hashes of their base64.
/// The result tells whether there was one.
pub(super) fn replace_media(value: &mut Value, encoded: &[blake3::Hash]) -> bool {
    match value {
        Value::String(text) => {
            let data = text
                .strip_prefix("data:")
                .and_then(|url| url.split_once(";base64,"))
                .map_or(&**text, |it| it.1);
            let hash = blake3::hash(data.as_bytes());
            let Some(at) = encoded.iter().position(|known| *known == hash) else { return false };
            *text = attachment(at + 1);
            true
        }
        // Every item is replaced, also after the first match.
        Value::Array(items) => items.iter_mut().fold(false, |any, item| replace_media(item, encoded) | any),
        Value::Object(fields) => {
            fields.values_mut().fold(false, |any, item| replace_media(item, encoded) | any)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

fn attachment(number: usize) -> String {
    format!("[Attachment {number}]")
}

/// Reports whether the texts repeat the whole value. One text is the value as JSON, or each word and number of the
/// value occurs in the texts or names an attachment. Numbers alone mean nothing without their names.
pub(super) fn is_told(value: &Value, texts: &[String], attachments: usize) -> bool {
    let parsed: Vec<Value> = texts.iter().filter_map(|text| serde_json::from_str(text).ok()).collect();
    if parsed.contains(value) {
        return true;
    }
    let (mut words, mut others) = (BTreeSet::new(), BTreeSet::new());
    leaves(value, &mut words, &mut others);
    let mut known = (BTreeSet::new(), BTreeSet::new());
    parsed.iter().for_each(|value| leaves(value, &mut known.0, &mut known.1));
    let chars: usize = texts.iter().map(String::len).sum();
    // A large answer with many values would take long to compare. It is then shown twice, which costs tokens only.
    if words.is_empty() || (words.len() + others.len()).saturating_mul(chars) > MAX_SEARCHED {
        return false;
    }
    known.0.extend((1..=attachments).map(attachment));
    let has_words =
        words.iter().all(|word| known.0.contains(word) || texts.iter().any(|text| text.contains(word)));
    has_words
        && others
            .iter()
            .all(|other| known.1.contains(other) || texts.iter().any(|text| contains_word(text, other)))
}

/// Collects the texts of a value, and its numbers and flags as they are written.
fn leaves(value: &Value, words: &mut BTreeSet<String>, others: &mut BTreeSet<String>) {
    match value {
        Value::Null => {}
        Value::String(text) => {
            words.insert(text.clone());
        }
        Value::Bool(_) | Value::Number(_) => {
            others.insert(value.to_string());
        }
        Value::Array(items) => items.iter().for_each(|item| leaves(item, words, others)),
        Value::Object(fields) => fields.values().for_each(|item| leaves(item, words, others)),
    }
}

/// Reports whether a text contains a number or a flag that is not part of a longer word.
fn contains_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| {
        let before = text.get(..at).and_then(|before| before.chars().next_back());
        let after = text.get(at + word.len()..).and_then(|after| after.chars().next());
        ![before, after].into_iter().flatten().any(|c| c.is_alphanumeric() || c == '_')
    })
}
