//! Plain versions of serde's error messages, without the names of Rust types.

use longhaul::io_error::json_error_text;

/// Serde's words before the name of a type, with their plain replacement.
const KINDS: [(&str, &str); 9] = [
    ("internally tagged enum ", KNOWN),
    ("adjacently tagged enum ", KNOWN),
    ("untagged enum ", KNOWN),
    ("enum ", KNOWN),
    ("tuple struct ", "a list"),
    ("newtype struct ", "a value"),
    ("unit struct ", "null"),
    // Before `struct`, with which it begins.
    ("struct variant ", "an object"),
    ("struct ", "an object"),
];

const KNOWN: &str = "one of the forms it may have";

const WHOLE: [&str; 12] =
    ["u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i32", "i64", "i128", "isize"];

/// Returns serde's message in plain words.
pub(crate) fn plain(error: &str) -> String {
    let error = error.strip_prefix("Failed to deserialize query string: ").unwrap_or(error);
    let error = &json_error_text(error);
    // Serde words this case differently. In the common form the type's name is removed below.
    let error = error.replace("data did not match any variant of untagged enum ", "expected enum ");
    let Some((before, expected)) = error.split_once("expected ") else { return error };
    for (kind, meant) in KINDS {
        if let Some(rest) = expected.strip_prefix(kind) {
            let (_, rest) = name(rest);
            return format!("{before}expected {meant}{rest}");
        }
    }
    match name(expected) {
        (number, rest) if WHOLE.contains(&number) => format!("{before}expected a whole number{rest}"),
        ("f32" | "f64", rest) => format!("{before}expected a number{rest}"),
        _ => error,
    }
}

/// Returns whether a text is empty, or only whitespace and characters without width.
pub(crate) fn is_blank(text: &str) -> bool {
    text.chars().all(|c| c.is_whitespace() || c.is_control() || has_no_width(c))
}

/// Returns whether a character is in Unicode's `Default_Ignorable_Code_Point`, as far as assigned.
fn has_no_width(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
        | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// Splits a text behind the name at its beginning.
fn name(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | ':' | '<' | '>')));
    text.split_at(end.unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    use super::{is_blank, plain};

    #[test]
    fn signs_without_width_say_nothing() {
        for text in
            ["", " \n\t", "\u{200b}", "\u{feff} \u{2060}\u{200d}", "\u{0}\u{3164}\u{e0041}", "\u{3000}"]
        {
            assert!(is_blank(text), "{text:?}");
        }
        for text in ["a", "\u{200b}.", "👍", "é", "\u{202e}x"] {
            assert!(!is_blank(text), "{text:?}");
        }
    }

    #[derive(Debug, Deserialize)]
    struct Secretive {
        _limit: Option<u64>,
        _share: Option<f64>,
        _blob: Option<Untagged>,
        _kind: Option<Tagged>,
        _word: Option<Word>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(untagged)]
    enum Untagged {
        _Text { _text: String },
    }

    #[derive(Debug, Deserialize)]
    #[serde(tag = "type")]
    enum Tagged {
        _One,
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Word {
        Allow,
        Deny,
    }

    fn said<T: DeserializeOwned + std::fmt::Debug>(value: &Value) -> String {
        plain(&serde_json::from_value::<T>(value.clone()).unwrap_err().to_string())
    }

    #[test]
    fn no_type_of_ours_is_named() {
        for (value, expected) in [
            (json!({ "_limit": "x" }), "invalid type: string \"x\", expected a whole number"),
            (json!({ "_limit": -1 }), "invalid value: integer `-1`, expected a whole number"),
            (json!({ "_share": "x" }), "invalid type: string \"x\", expected a number"),
            (json!({ "_blob": 1 }), "expected one of the forms it may have"),
            (json!({ "_kind": 1 }), "invalid type: integer `1`, expected one of the forms it may have"),
            (json!("x"), "invalid type: string \"x\", expected an object"),
        ] {
            assert_eq!(said::<Secretive>(&value), expected, "{value}");
        }
    }

    #[test]
    fn what_is_plain_stays() {
        let word = json!({ "_word": "maybe" });
        assert_eq!(said::<Secretive>(&word), "unknown variant `maybe`, expected `allow` or `deny`");
        assert!([Word::Allow, Word::Deny].len() == 2);
        for text in [
            "missing field `decision` at line 1 column 2",
            "unknown field `x`, expected `title` at line 1 column 4",
            "expected value at line 1 column 1",
        ] {
            assert_eq!(plain(text), text);
        }
        let query = "Failed to deserialize query string: limit: invalid digit found in string";
        assert_eq!(plain(query), "limit: invalid digit found in string");
    }
}
