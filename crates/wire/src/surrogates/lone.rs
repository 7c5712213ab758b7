//! Replacement of lone surrogate halves, which occur in texts that were cut in UTF-16.

use std::borrow::Cow;

/// The length of one escape: `\ud800`.
const LENGTH: usize = 6;

/// Replaces each lone half by `\ufffd`. Returns the JSON and the number of replaced halves.
pub fn replace_lone_halves(json: &[u8]) -> (Cow<'_, [u8]>, usize) {
    let lone = lone(json);
    if lone.is_empty() {
        return (Cow::Borrowed(json), 0);
    }
    let mut mended = json.to_vec();
    for at in &lone {
        // Both escapes are six bytes long, so nothing moves.
        mended[*at..at + LENGTH].copy_from_slice(b"\\ufffd");
    }
    (Cow::Owned(mended), lone.len())
}

/// Returns the arguments of a call with each lone half replaced. The arguments are JSON inside JSON, so the join of the
/// outer text does not reach their escapes.
pub(crate) fn in_arguments(arguments: String) -> String {
    if !super::is_suspect(&arguments) {
        return arguments;
    }
    let mended = match replace_lone_halves(arguments.as_bytes()).0 {
        Cow::Owned(mended) => String::from_utf8(mended).ok(),
        Cow::Borrowed(_) => None,
    };
    mended.unwrap_or(arguments)
}

fn lone(json: &[u8]) -> Vec<usize> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(next) = json[at..].iter().position(|byte| *byte == b'\\') {
        at += next;
        at += match unit(json, at) {
            // An escape of one letter: `\n`, `\\`.
            None => 2.min(json.len() - at),
            Some(0xd800..=0xdbff) if matches!(unit(json, at + LENGTH), Some(0xdc00..=0xdfff)) => 2 * LENGTH,
            Some(0xd800..=0xdfff) => {
                found.push(at);
                LENGTH
            }
            Some(_) => LENGTH,
        };
    }
    found
}

/// Returns the UTF-16 unit of the escape that begins at this position.
fn unit(json: &[u8], at: usize) -> Option<u16> {
    let digits = json.get(at..at + LENGTH)?.strip_prefix(b"\\u")?;
    let digits = std::str::from_utf8(digits).ok()?;
    u16::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_halves_are_replaced() {
        let mended = |json: &str| {
            let (mended, count) = replace_lone_halves(json.as_bytes());
            (String::from_utf8(mended.into_owned()).unwrap(), count)
        };
        let same = [
            r#"["\ud83d\ude00 \n \\ud800 \u00e9"]"#,
            r#"["\\\\ud800"]"#,
            "plain",
            r"\",
            r"\ud8",
            r"\uzzzz",
            "",
        ];
        for json in same {
            assert_eq!(mended(json), (json.to_owned(), 0));
        }
        assert_eq!(
            mended(r#"["\ud800 a \uDE00 \ud83d\ud83d\ude00 \\\ud800"]"#),
            (r#"["\ufffd a \ufffd \ufffd\ud83d\ude00 \\\ufffd"]"#.to_owned(), 4)
        );
    }
}
