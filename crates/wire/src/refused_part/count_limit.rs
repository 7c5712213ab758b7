//! The maximum number of pictures or files, as the words of an error state it.
//!
//! Errors about parts are full of other numbers: megabytes, pixels, percentages, the count that was sent. A number is a
//! limit only if words of a limit introduce it and nothing after it makes it an amount of something else.

use ErrorToken::{Amount, Break, Number, Sign, Word};

/// The highest number that is taken for a count. A bare number above it is a size in bytes or pixels.
const MAX_COUNT: u64 = 10_000;

/// The number of words between "maximum" or "limit" and its number, as in "maximum number of images per request: 5".
const MAX_WORDS_BETWEEN: usize = 7;

/// The number of words after a number that can say what is counted.
const MAX_WORDS_AFTER: usize = 4;

/// Returns the highest number of pictures or files in a request that an error states. `text` is in lower case.
///
/// `None` where the error states no such number, also where it states a size, a time or a rate.
pub(super) fn max_parts(text: &str) -> Option<u32> {
    let tokens = tokens(text);
    // Words that introduce nothing but a limit are searched before those that often stand before other numbers.
    let first = |find: fn(&[ErrorToken<'_>], usize) -> Option<u32>| {
        (0..tokens.len()).find_map(|at| find(&tokens, at))
    };
    first(|tokens, at| limit_after_phrase(tokens, at, FIRM_PHRASES, CountEvidence::Phrase))
        .or_else(|| first(limit_after_maximum))
        .or_else(|| first(limit_before_maximum))
        .or_else(|| first(limit_of_comparison))
        .or_else(|| first(|tokens, at| limit_after_phrase(tokens, at, WEAK_PHRASES, CountEvidence::Noun)))
}

/// A piece of an error's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ErrorToken<'a> {
    Word(&'a str),
    /// A whole number that stands alone.
    Number(u64),
    /// A number that is no count: `2.5`, `20mb`, `8000x8000`.
    Amount,
    /// The end of a sentence or clause, after which another subject may begin.
    Break,
    /// Another sign.
    Sign(char),
}

fn tokens(text: &str) -> Vec<ErrorToken<'_>> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = if first.is_ascii_digit() {
            let length = rest.find(|c: char| !is_of_number(c)).unwrap_or(rest.len());
            // A full stop or comma after the number belongs to the sentence.
            let written = rest[..length].trim_end_matches(['.', ',', '_']);
            tokens.push(number_in_digits(written));
            written.len()
        } else if first.is_alphabetic() {
            let length = rest.find(|c: char| !c.is_alphanumeric()).unwrap_or(rest.len());
            let word = &rest[..length];
            tokens.push(number_in_words(word).map_or(Word(word), Number));
            length
        } else {
            match first {
                '.' | ';' | '\n' => tokens.push(Break),
                '_' => {}
                _ if first.is_whitespace() => {}
                _ => tokens.push(Sign(first)),
            }
            first.len_utf8()
        };
        rest = &rest[length..];
    }
    tokens
}

fn is_of_number(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, ',' | '.' | '_' | '×')
}

/// Reads a number with or without separators of thousands.
fn number_in_digits(written: &str) -> ErrorToken<'_> {
    let groups: Vec<&str> = written.split([',', '_', '.']).collect();
    let is_grouped = match groups.split_first() {
        Some((first, [])) => !first.is_empty(),
        // A point separates thousands in half of Europe, but "1.500" may be a decimal fraction as well.
        Some((first, more)) => {
            (1..=3).contains(&first.len())
                && !written.contains('.')
                && more.iter().all(|group| group.len() == 3)
        }
        None => false,
    };
    match groups.concat().parse() {
        Ok(number) if is_grouped => Number(number),
        _ => Amount,
    }
}

fn number_in_words(word: &str) -> Option<u64> {
    const WORDS: [&str; 13] = [
        "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven",
        "twelve",
    ];
    let number = match word {
        "single" => 1,
        "sixteen" => 16,
        "twenty" => 20,
        "hundred" => 100,
        _ => WORDS.iter().position(|known| *known == word)? as u64,
    };
    Some(number)
}

/// Returns the limit that begins with one of the phrases at `at`, as in "at most 5 images".
fn limit_after_phrase(
    tokens: &[ErrorToken<'_>],
    at: usize,
    phrases: &[&[&str]],
    evidence: CountEvidence,
) -> Option<u32> {
    let phrase = phrases.iter().find(|phrase| {
        phrase.iter().enumerate().all(|(step, word)| tokens.get(at + step) == Some(&Word(word)))
    })?;
    let after = at + phrase.len();
    let fillers =
        tokens[after..].iter().take_while(|token| matches!(token, Word("a" | "an" | "the" | "only")));
    count(tokens, after + fillers.count(), evidence)
}

/// Returns the limit behind "maximum" or "limit", with words between, as in "limit of images is 5".
fn limit_after_maximum(tokens: &[ErrorToken<'_>], at: usize) -> Option<u32> {
    if !is_maximum(tokens[at]) {
        return None;
    }
    let between = tokens[at + 1..].iter().take(MAX_WORDS_BETWEEN).take_while(|token| match token {
        // The number after "got" is the count that was sent.
        Word(word) => !SENT.contains(word) && !is_measure(word),
        Sign(sign) => matches!(sign, ':' | '=' | '('),
        _ => false,
    });
    count(tokens, at + 1 + between.count(), CountEvidence::Phrase)
}

/// Returns the limit in front of "maximum" or "limit", as in "a 5 image limit" or "10 images max".
fn limit_before_maximum(tokens: &[ErrorToken<'_>], at: usize) -> Option<u32> {
    let words = tokens[at + 1..].iter().filter(|token| !matches!(token, Sign('-' | '(' | ')')));
    let mut words = words.take(MAX_WORDS_AFTER).take_while(|token| matches!(token, Word(_)));
    words.any(|token| is_maximum(*token)).then(|| count(tokens, at, CountEvidence::Noun))?
}

/// Returns the limit of a comparison, as in "too many images: 105 > 100".
fn limit_of_comparison(tokens: &[ErrorToken<'_>], at: usize) -> Option<u32> {
    // A comparison without a subject may be one of sizes.
    matches!(tokens[at], Sign('>')).then(|| count(tokens, at + 1, CountEvidence::Noun))?
}

/// The ground on which a number is taken for a count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CountEvidence {
    /// The words before the number are those of a limit.
    Phrase,
    /// The text must also say that parts are counted: by a noun after the number, or by "number of" before it.
    Noun,
}

/// Returns the number at `at` if it counts parts.
fn count(tokens: &[ErrorToken<'_>], at: usize, evidence: CountEvidence) -> Option<u32> {
    let Some(Number(number)) = tokens.get(at) else { return None };
    if *number > MAX_COUNT {
        return None;
    }
    let after = &tokens[at + 1..];
    // "50%", "20 * 1024", "2000 x 2000".
    if matches!(after.first(), Some(Number(_) | Amount | Sign('%' | '*' | '×' | '/' | '^'))) {
        return None;
    }
    let words = words_of_clause(after);
    let is_count = match words.iter().take(MAX_WORDS_AFTER).position(|word| NOUNS.contains(word)) {
        Some(noun) if !words[..noun].iter().any(|word| is_measure(word) || CONNECTIVES.contains(word)) => {
            // "8 image tokens" are no pictures, and "5 images per minute" are a rate.
            !words.get(noun + 1).is_some_and(|word| is_measure(word)) && !is_rate(&words[noun + 1..])
        }
        _ => {
            let clause = clause_before(&tokens[..at]);
            let goes_on = words.first().is_none_or(|word| CONNECTIVES.contains(word));
            // The unit may stand elsewhere: "limit of 20 (in MB)", "the size is limited to 20".
            let is_measured = words.iter().take(3).chain(&clause).any(|word| is_measure(word));
            let is_told = evidence == CountEvidence::Phrase
                || clause.iter().any(|word| matches!(*word, "many" | "number" | "count"));
            goes_on && is_told && !is_measured && !is_rate(&words)
        }
    };
    is_count.then_some(*number as u32)
}

/// Returns the words up to the end of the clause, without the plural in "image(s)".
fn words_of_clause<'a>(tokens: &[ErrorToken<'a>]) -> Vec<&'a str> {
    let clause = tokens.iter().take_while(|token| !matches!(token, Break | Number(_) | Amount));
    clause.filter_map(word_of).filter(|word| *word != "s").collect()
}

/// Returns the words since the beginning of the clause.
fn clause_before<'a>(tokens: &[ErrorToken<'a>]) -> Vec<&'a str> {
    tokens.iter().rev().take_while(|token| !matches!(token, Break)).filter_map(word_of).collect()
}

fn word_of<'a>(token: &ErrorToken<'a>) -> Option<&'a str> {
    match token {
        Word(word) => Some(word),
        _ => None,
    }
}

fn is_maximum(token: ErrorToken<'_>) -> bool {
    matches!(token, Word("maximum" | "max" | "limit" | "limited"))
}

fn is_measure(word: &str) -> bool {
    MEASURES.contains(&word)
}

/// Returns whether the words make the number before them one of a span of time: "per minute", "a day".
fn is_rate(words: &[&str]) -> bool {
    words.iter().take(3).any(|word| TIMES.contains(word))
}

const FIRM_PHRASES: &[&[&str]] = &[
    &["at", "most"],
    &["no", "more", "than"],
    &["not", "more", "than"],
    &["less", "than", "or", "equal", "to"],
];

/// Phrases that often stand before other numbers.
const WEAK_PHRASES: &[&[&str]] = &[
    &["up", "to"],
    &["more", "than"],
    &["not", "exceed"],
    &["cannot", "exceed"],
    &["exceeds"],
    &["only"],
    &["only", "supports"],
    &["only", "accepts"],
    &["only", "allows"],
    &["supports", "only"],
    &["accepts", "only"],
    &["supports"],
    &["accepts"],
];

/// The parts that servers count.
const NOUNS: &[&str] = &[
    "image",
    "images",
    "picture",
    "pictures",
    "photo",
    "photos",
    "file",
    "files",
    "document",
    "documents",
    "pdf",
    "pdfs",
    "attachment",
    "attachments",
    "media",
    "item",
    "items",
    "part",
    "parts",
    "input",
    "inputs",
];

/// Words that continue a sentence after a number that stands alone.
const CONNECTIVES: &[&str] = &[
    "per",
    "in",
    "for",
    "of",
    "are",
    "is",
    "was",
    "were",
    "may",
    "can",
    "but",
    "and",
    "or",
    "total",
    "allowed",
    "permitted",
    "supported",
    "at",
    "you",
    "your",
    "this",
    "the",
    "with",
    "while",
    "however",
    "by",
    "to",
    "given",
    "got",
    "found",
    "received",
    "provided",
    "was",
    "see",
    "please",
    "type",
    "code",
    "param",
    "error",
];

/// Words after which a number is the count that was sent.
const SENT: &[&str] = &[
    "got", "found", "received", "given", "provided", "sent", "was", "were", "has", "have", "had", "contains",
    "exceeded", "but", "actual", "current",
];

/// Units, and quantities that have one.
const MEASURES: &[&str] = &[
    "b",
    "byte",
    "bytes",
    "kb",
    "kib",
    "kilobyte",
    "kilobytes",
    "mb",
    "mib",
    "megabyte",
    "megabytes",
    "gb",
    "gib",
    "gigabyte",
    "gigabytes",
    "k",
    "m",
    "million",
    "thousand",
    "px",
    "pixel",
    "pixels",
    "megapixel",
    "megapixels",
    "mp",
    "dpi",
    "percent",
    "token",
    "tokens",
    "character",
    "characters",
    "char",
    "chars",
    "word",
    "words",
    "bit",
    "bits",
    "ms",
    "second",
    "seconds",
    "minute",
    "minutes",
    "hour",
    "hours",
    "page",
    "pages",
    "frame",
    "frames",
    "size",
    "sizes",
    "width",
    "height",
    "side",
    "edge",
    "dimension",
    "dimensions",
    "resolution",
    "length",
    "ratio",
    "duration",
    "memory",
    "x",
];

/// Spans of time.
const TIMES: &[&str] = &["second", "sec", "minute", "min", "hour", "day", "daily", "month", "rpm"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_however_they_are_worded() {
        for (text, count) in [
            ("at most 1 image(s) may be provided in one prompt.", 1),
            ("at most 0 image(s) may be provided in one prompt.", 0),
            ("messages.0.content.105: too many images and documents: 105 + 0 > 100", 100),
            ("you uploaded too many images. at most one image is allowed", 1),
            ("at most 1,000 images are allowed", 1_000),
            ("no more than three pictures, please", 3),
            ("this model accepts only a single image per request", 1),
            ("the model supports up to 10 input images per request", 10),
            ("maximum number of images per request: 16", 16),
            ("too many images: 12 (max 8)", 8),
            ("image count 12 exceeds the limit of 8", 8),
            ("limit of 20 images, and 20 mb for each", 20),
            ("images are limited to 4 per request", 4),
            ("the limit of images is 5. you sent 9", 5),
            ("max_images: 5, got 7", 5),
            ("you have hit the 5-image limit", 5),
            ("20 images max", 20),
            ("the number of images must not exceed 6", 6),
            ("each image is limited to 20 mb; at most 4 images are taken", 4),
            ("a maximum of 5 images of 2000 pixels", 5),
        ] {
            assert_eq!(max_parts(text), Some(count), "{text}");
        }
    }

    #[test]
    fn sizes_times_and_rates_are_no_counts() {
        for text in [
            "image exceeds the limit of 20 mb",
            "image exceeds the limit of 20mb",
            "image exceeds 5 mb maximum: 6291456 bytes > 5242880 bytes",
            "image exceeds 5 mb maximum: 6 bytes > 5 bytes",
            "images have a limit of 20 mib, 20,971,520 bytes",
            "the image is larger than the maximum of 512 kb",
            "images of at most 4 megabytes",
            "image size is 30. the limit is 20971520",
            "image size exceeds the limit of 20",
            "images: limit of 20 (mb)",
            "maximum image size is 20",
            "at most 2000 pixels a side",
            "at least one of the image dimensions exceed max allowed size for many-image requests: 2000 pixels",
            "maximum of 8000x8000 for an image",
            "maximum of 8000 x 8000 for an image",
            "image width 9000 > 8000",
            "images may take at most 50% of the window",
            "images may take at most 50 percent of the window",
            "image download took more than the limit of 10 seconds",
            "at most 1500 tokens for an image",
            "at most 8 image tokens",
            "at most 2.5 images",
            "image description: at most 500 characters",
            "too many images: limit of 5 per minute",
            "limit of 5 images per minute",
            "a maximum of 100 pdf pages may be provided",
            "at most 20 million pixels in an image",
            "limit of 20000000 for the image",
            "too many images: maximum exceeded, got 12",
            "could not process image 3",
        ] {
            assert_eq!(max_parts(text), None, "{text}");
        }
    }
}
