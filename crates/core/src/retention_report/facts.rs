//! Extraction of facts from messages, class by class.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use crate::message::{Message, Part, Role};
use crate::plan::MARK;
use crate::stop_flag::StopFlag;
use crate::text_table::TextSet;

mod binding;
mod code;

pub(crate) use binding::binds;
pub(crate) use code::{CodeFenceLines as CodeLines, is_unspaced};

/// The length to which facts are cut, in bytes. Longer facts are compared by their start.
const MAX_FACT_BYTES: usize = 400;

/// Words and phrases that make a sentence of the model a decision.
pub(crate) const DECISION_WORDS: &[&str] = &[
    "decided",
    "decision",
    "decide",
    "chose",
    "chosen",
    "choose",
    "going with",
    "go with",
    "settled on",
    "agreed",
    "i'll use",
    "i will use",
    "we will use",
    "we'll use",
    "instead of",
    "rather than",
];

/// Words that make a line of a tool's output an error line.
pub(crate) const ERROR_WORDS: &[&str] = &["error", "panicked", "exception", "traceback", "failed", "fatal"];

/// For each byte, the [`ERROR_WORDS`] that have the byte at index 0 and at index 1, one bit for each word.
const ERROR_LETTERS: [[u8; 256]; 2] = {
    let mut letters = [[0; 256]; 2];
    let mut word = 0;
    while word < ERROR_WORDS.len() {
        let bytes = ERROR_WORDS[word].as_bytes();
        let mut at = 0;
        while at < 2 {
            letters[at][bytes[at] as usize] |= 1 << word;
            letters[at][bytes[at].to_ascii_uppercase() as usize] |= 1 << word;
            at += 1;
        }
        word += 1;
    }
    letters
};

/// Extensions of files, by which a name without a folder counts as a path.
const EXTENSIONS: &[&str] = &[
    "c", "cpp", "css", "csv", "go", "h", "html", "java", "js", "json", "jsonl", "jsx", "lock", "md", "mjs",
    "py", "rb", "rs", "sh", "sql", "toml", "ts", "tsx", "txt", "xml", "yaml", "yml",
];

/// Units of numbers, in lower case.
const UNITS: &[&str] = &[
    "%", "b", "bytes", "days", "fps", "gb", "gib", "h", "hours", "hz", "kb", "khz", "kib", "lines", "mb",
    "mhz", "mib", "min", "minutes", "ms", "ns", "px", "s", "sec", "seconds", "tb", "tib", "times", "tokens",
    "us", "x",
];

/// The length of the longest unit, in bytes.
const MAX_UNIT_BYTES: usize = 7;

pub(crate) type Classes = BTreeMap<&'static str, TextSet>;

/// A receiver of the facts of messages.
pub(crate) trait FactSink: Sized {
    /// Takes a sentence or line: single-spaced, and without marks before the first word.
    fn take_sentence(&mut self, class: &'static str, sentence: &str);

    /// Takes a word.
    fn take_word(&mut self, class: &'static str, word: &str);

    /// Takes the facts of a message.
    fn read(&mut self, message: &Message) {
        self.read_sentences(message);
        for_each_text(message, &mut |text| read_words(text, |class, word| self.take_word(class, word)));
    }

    /// Takes only the facts of a message that are sentences or lines.
    fn read_sentences(&mut self, message: &Message) {
        let mut reader = SentenceReader(self);
        message.parts.iter().for_each(|part| reader.read_part(message.role, part));
    }

    /// Takes the facts of messages in order; `None` if `stop_flag` is raised meanwhile.
    fn read_in_order(&mut self, messages: &[&Message], stop_flag: &StopFlag) -> Option<()> {
        for message in messages {
            if stop_flag.is_raised() {
                return None;
            }
            self.read(message);
        }
        Some(())
    }
}

/// The facts found so far, by class.
#[derive(Default)]
pub(crate) struct ClassifiedFacts {
    pub(crate) sentences: Classes,
    pub(crate) words: Classes,
}

impl FactSink for ClassifiedFacts {
    fn take_sentence(&mut self, class: &'static str, sentence: &str) {
        add_text(&mut self.sentences, class, sentence);
    }

    fn take_word(&mut self, class: &'static str, word: &str) {
        add_text(&mut self.words, class, word);
    }
}

/// Finds the facts of messages that are sentences or lines.
struct SentenceReader<'s, S>(&'s mut S);

impl<S: FactSink> SentenceReader<'_, S> {
    fn read_part(&mut self, role: Role, part: &Part) {
        match part {
            Part::Text(text) => self.read_text(role, &text.text),
            Part::ToolResult(result) => {
                result.content.iter().for_each(|part| self.read_part(Role::Tool, part));
            }
            Part::ToolCall(_) | Part::Reasoning(_) | Part::Image(_) | Part::File(_) | Part::Opaque(_) => {}
        }
    }

    fn read_text(&mut self, role: Role, text: &str) {
        match role {
            // A summary has the user's role, but no person typed it. An imported summary has no count behind its mark.
            Role::User if is_summary(text) || text.starts_with(&[MARK, "\n"].concat()) => {}
            Role::User => {
                rules(text).0.iter().for_each(|(_, rule)| self.add_sentence("userConstraints", rule));
            }
            Role::Assistant => self.add_decisions(text),
            Role::Tool => self.add_error_lines(text),
        }
    }

    fn add_decisions(&mut self, text: &str) {
        for sentence in sentences(text).filter(|sentence| has_any(sentence, DECISION_WORDS)) {
            self.add_sentence("decisions", sentence);
        }
    }

    fn add_error_lines(&mut self, text: &str) {
        for line in text.lines() {
            if is_error_line(line) {
                self.add_sentence("errorLines", line);
            }
        }
    }

    /// Adds a sentence or line, unless it has only one word.
    fn add_sentence(&mut self, class: &'static str, sentence: &str) {
        // A single word such as "Never" or "Error" occurs everywhere, so its presence in a view shows nothing.
        let text = single_spaced(sentence.trim_start_matches(|char: char| !char.is_alphanumeric()));
        let end = text.floor_char_boundary(MAX_FACT_BYTES);
        let text = text.get(..end).unwrap_or_default();
        if says_something(text) {
            self.0.take_sentence(class, text);
        }
    }
}

/// Returns the length of all text of a message, in bytes.
pub(crate) fn text_bytes(message: &Message) -> usize {
    message.parts.iter().map(part_bytes).sum()
}

fn part_bytes(part: &Part) -> usize {
    match part {
        Part::Text(text) => text.text.len(),
        Part::ToolCall(call) => call.arguments.len(),
        Part::ToolResult(result) => result.content.iter().map(part_bytes).sum(),
        Part::Reasoning(_) | Part::Image(_) | Part::File(_) | Part::Opaque(_) => 0,
    }
}

/// Calls `read` with every text of a message that can contain facts: text parts, tool results, and the strings in the
/// arguments of calls, without JSON's escapes.
fn for_each_text(message: &Message, read: &mut impl FnMut(&str)) {
    message.parts.iter().for_each(|part| for_each_part_text(part, read));
}

fn for_each_part_text(part: &Part, read: &mut impl FnMut(&str)) {
    match part {
        Part::Text(text) => read(&text.text),
        Part::ToolCall(call) => match serde_json::from_str(&call.arguments) {
            Ok(value) => for_each_string(&value, read),
            Err(_) => read(&call.arguments),
        },
        Part::ToolResult(result) => result.content.iter().for_each(|part| for_each_part_text(part, read)),
        Part::Reasoning(_) | Part::Image(_) | Part::File(_) | Part::Opaque(_) => {}
    }
}

fn for_each_string(value: &serde_json::Value, read: &mut impl FnMut(&str)) {
    match value {
        serde_json::Value::String(text) => read(text),
        serde_json::Value::Array(items) => items.iter().for_each(|item| for_each_string(item, read)),
        serde_json::Value::Object(fields) => fields.values().for_each(|item| for_each_string(item, read)),
        _ => {}
    }
}

/// Calls `take` with every occurrence of a path or identifier in a message.
pub(crate) fn for_each_name(message: &Message, mut take: impl FnMut(&str)) {
    for_each_text(message, &mut |text| {
        for_each_word(text, |class, word| {
            if class != NUMBERS {
                take(word);
            }
        });
    });
}

/// Returns whether a text begins as a summary of this crate does: with the mark and a number of messages.
pub(crate) fn is_summary(text: &str) -> bool {
    let count = text.trim_start().strip_prefix(MARK).and_then(|rest| rest.strip_prefix(" of "));
    count.is_some_and(|count| count.starts_with(|char: char| char.is_ascii_digit()))
}

/// Returns the sentences of a person's text that set a rule, and the number of all sentences. Each rule has the number
/// of sentences before it. Pasted code sets no rules.
pub(crate) fn rules(text: &str) -> (Vec<(usize, &str)>, usize) {
    let lines = code::CodeFenceLines::of(text);
    let (mut found, mut count) = (Vec::new(), 0);
    for (at, line) in lines.iter() {
        for sentence in sentences_of_line(line).into_iter().filter(|sentence| !sentence.trim().is_empty()) {
            if binding::binds(sentence) && !lines.is_code(at) {
                found.push((count, sentence));
            }
            count += 1;
        }
    }
    (found, count)
}

/// Returns whether a text has more than one word. In scripts without blanks, four letters count as several words.
pub(crate) fn says_something(text: &str) -> bool {
    word_pairs(text).next().is_some() || text.chars().filter(|char| code::is_unspaced(*char)).nth(3).is_some()
}

/// Returns the sentences of a text without their end marks. A line break ends a sentence too.
fn sentences(text: &str) -> impl Iterator<Item = &str> {
    text.lines().flat_map(sentences_of_line)
}

fn sentences_of_line(line: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut start = 0;
    for (at, end) in line.match_indices(['.', '!', '?', '。', '！', '？']) {
        let (before, after) = (&line[start..at], &line[at + end.len()..]);
        let is_end = match end {
            "." => after.starts_with(' ') && !is_abbreviation(before, after),
            "!" | "?" => after.starts_with(' '),
            // The marks of Chinese and Japanese end a sentence without a blank behind.
            _ => true,
        };
        if is_end {
            found.push(before);
            start = at + end.len();
        }
    }
    // No blank follows the last mark of a line, so the loop leaves the last sentence.
    found.push(line[start..].trim_end().trim_end_matches(['.', '!', '?']));
    found
}

/// Words whose full stop ends no sentence.
const ABBREVIATIONS: &[&str] = &[
    "approx", "bspw", "bzw", "ca", "cf", "dr", "ej", "esp", "evtl", "ex", "ggf", "incl", "inkl", "mr", "mrs",
    "ms", "nr", "resp", "usw", "vgl", "viz", "vs", "напр", "т.е", "т.д",
];

/// Returns whether the full stop between `before` and `after` belongs to the word before it: `e.g. this`, `z. B.
/// das`, `v. 2`.
pub(crate) fn is_abbreviation(before: &str, after: &str) -> bool {
    let word = before.rsplit([' ', '(', '"', '“', '„']).next().unwrap_or_default();
    let next = after.trim_start().chars().next();
    let goes_on = next.is_some_and(|char| char.is_lowercase());
    let is_number = next.is_some_and(|char| char.is_ascii_digit());
    let small = word.to_lowercase();
    let is_letter = word.chars().count() == 1 && word.chars().all(char::is_alphabetic);
    let is_letters = word.contains('.') && word.split('.').all(|part| part.chars().count() == 1);
    match small.as_str() {
        // At the end of a sentence this letter is the pronoun and no initial.
        "i" => false,
        "etc" => goes_on,
        "no" | "v" | "ver" | "version" | "p" => is_number || (small == "p" && goes_on),
        _ if is_number && word.ends_with(|char: char| char.is_ascii_digit()) && before.trim() != word => true,
        _ => {
            is_letter && (goes_on || word.chars().all(char::is_lowercase) || ends_abbreviated(before, word))
                || is_letters && word.chars().all(|char| !char.is_ascii_digit())
                || ABBREVIATIONS.contains(&small.as_str())
        }
    }
}

/// Returns whether the word before the last letter was abbreviated too: `z. B.`.
fn ends_abbreviated(before: &str, letter: &str) -> bool {
    let rest = before.strip_suffix(letter).unwrap_or_default().trim_end();
    let mut chars = rest.chars().rev();
    chars.next() == Some('.')
        && chars.next().is_some_and(char::is_alphabetic)
        && !chars.next().is_some_and(char::is_alphanumeric)
}

/// Returns whether one of `marks` stands in the sentence as words of its own.
pub(crate) fn has_any(sentence: &str, marks: &[&str]) -> bool {
    let padded = plain_words(sentence);
    // A mark can only begin where a word does. Searching the whole sentence for each mark is several times slower.
    let mut words =
        padded.bytes().enumerate().filter(|(_, byte)| *byte == b' ').map(|(at, _)| &padded[at + 1..]);
    words.any(|rest| {
        marks.iter().any(|mark| rest.strip_prefix(mark).is_some_and(|after| after.starts_with(' ')))
    })
}

/// Returns the words of a sentence in lower case (ASCII letters only), with one blank before, between and after them.
fn plain_words(sentence: &str) -> String {
    let mut padded = String::with_capacity(sentence.len() + 2);
    padded.push(' ');
    for char in sentence.chars().chain([' ']) {
        let plain = match char {
            '’' => '\'',
            '\'' => char,
            _ if char.is_alphanumeric() => char.to_ascii_lowercase(),
            _ => ' ',
        };
        if plain != ' ' || !padded.ends_with(' ') {
            padded.push(plain);
        }
    }
    padded
}

/// Returns a text with each run of blanks as one space, and none at its ends.
pub(crate) fn single_spaced(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(word);
    }
    out
}

/// Returns each pair of adjacent words, with the byte position of the first word.
pub(super) fn word_pairs(text: &str) -> impl Iterator<Item = (usize, (&str, &str))> {
    words(text).zip(words(text).skip(1)).map(|((start, first), (_, second))| (start, (first, second)))
}

/// Returns the runs of letters and digits of a text, with their byte positions.
fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let pieces = text.split_inclusive(is_between).scan(0, |end, piece| {
        *end += piece.len();
        Some((*end - piece.len(), piece))
    });
    pieces
        .map(|(start, piece)| (start, piece.trim_end_matches(is_between)))
        .filter(|(_, word)| !word.is_empty())
}

fn is_between(char: char) -> bool {
    !char.is_alphanumeric()
}

/// Returns the facts of all word classes of a text together.
pub(crate) fn all_words(text: &str) -> BTreeSet<String> {
    let mut classes = Classes::new();
    read_words(text, |class, word| add_text(&mut classes, class, word));
    classes.into_values().flatten().map(String::from).collect()
}

/// The class of numbers with their units.
const NUMBERS: &str = "numbers";

/// Calls `take` with each word that is a fact, cut to the length of facts.
fn read_words(text: &str, mut take: impl FnMut(&'static str, &str)) {
    for_each_word(text, |class, fact| {
        let end = fact.floor_char_boundary(MAX_FACT_BYTES);
        take(class, fact.get(..end).unwrap_or_default());
    });
}

fn add_text(classes: &mut Classes, class: &'static str, text: &str) {
    let known = classes.entry(class).or_default();
    // The look-up comes first, because an insertion would allocate each of many repeated words.
    if !known.contains(text) {
        known.insert(text.into());
    }
}

/// Calls `take` with each word that is a fact, and the fact's class.
fn for_each_word(text: &str, mut take: impl FnMut(&'static str, &str)) {
    let mut number_before: Option<&str> = None;
    let mut rest = text;
    while !rest.is_empty() {
        let (raw, looks) = next_word(rest);
        // Most words of a log are plain, and their features rule out every class.
        if looks.may_be_fact() || number_before.is_some() {
            let word = raw.trim_end_matches(['.', ':', '-', '+']);
            if let Some((class, fact)) = classify(word, looks, number_before) {
                take(class, &fact);
            }
        }
        // A number waits for the next word, because `5 ms` is one fact.
        number_before = (looks.begins_with_digit && is_number(raw)).then_some(raw);
        rest = rest.get(raw.len()..).unwrap_or_default();
        let between = rest.chars().next().map_or(0, char::len_utf8);
        rest = rest.get(between..).unwrap_or_default();
    }
}

/// Features of a word, collected during the search for the end.
#[derive(Clone, Copy, Default)]
struct WordFeatures {
    begins_with_digit: bool,
    has_digit: bool,
    /// A slash or a full stop, without which no word is a path.
    has_path_mark: bool,
    /// An underscore or a colon.
    has_name_mark: bool,
    /// A capital right after a small letter.
    is_camel_case: bool,
}

impl WordFeatures {
    fn may_be_fact(self) -> bool {
        self.has_digit || self.has_path_mark || self.has_name_mark || self.is_camel_case
    }
}

/// Returns the text up to the first character that is no part of a word, and the features of that word.
fn next_word(text: &str) -> (&str, WordFeatures) {
    // Bytes and not characters: this loop runs over every byte of a log, and almost all of them are ASCII.
    let bytes = text.as_bytes();
    let mut looks = WordFeatures {
        begins_with_digit: bytes.first().is_some_and(u8::is_ascii_digit),
        ..WordFeatures::default()
    };
    let (mut at, mut before) = (0, 0);
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'a'..=b'z' => {}
            b'A'..=b'Z' => looks.is_camel_case |= u8::is_ascii_lowercase(&before),
            b'0'..=b'9' => looks.has_digit = true,
            b'.' | b'/' => looks.has_path_mark = true,
            b'_' | b':' => looks.has_name_mark = true,
            b'-' | b'~' | b'%' | b'@' | b'+' => {}
            0x80.. => {
                let Some(char) = text.get(at..).and_then(|rest| rest.chars().next()) else { break };
                if !char.is_alphanumeric() {
                    break;
                }
                at += char.len_utf8() - 1;
            }
            _ => break,
        }
        before = byte;
        at += 1;
    }
    (text.get(..at).unwrap_or_default(), looks)
}

/// Returns the class of a word and the fact within; `None` for a word that is no fact.
///
/// `number_before` is the number in front of the word, which the fact includes if the word is a unit.
fn classify<'a>(
    word: &'a str,
    looks: WordFeatures,
    number_before: Option<&str>,
) -> Option<(&'static str, Cow<'a, str>)> {
    if let Some(number) = number_before.filter(|_| is_unit(word)) {
        return Some((NUMBERS, Cow::Owned([number, word].concat())));
    }
    if looks.begins_with_digit {
        let digits = word.find(|char: char| !char.is_ascii_digit() && char != '.').unwrap_or(word.len());
        let (number, unit) = word.split_at(digits);
        if is_number(number) && is_unit(unit) {
            return Some((NUMBERS, Cow::Borrowed(word)));
        }
    }
    if looks.has_path_mark {
        let path = without_position(word);
        if is_path(path) {
            return Some(("paths", Cow::Borrowed(path)));
        }
    }
    let may_be_identifier = looks.is_camel_case || looks.has_name_mark || looks.has_digit;
    (may_be_identifier && is_identifier(word)).then_some(("identifiers", Cow::Borrowed(word)))
}

fn is_number(text: &str) -> bool {
    text.starts_with(|char: char| char.is_ascii_digit())
        && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
}

/// Returns whether the words of a line report an error.
pub fn is_error_line(line: &str) -> bool {
    let bytes = line.as_bytes();
    let [first, second] = &ERROR_LETTERS;
    // The first two letters rule out most places, which matters because every line of every output is searched.
    bytes.windows(2).enumerate().any(|(at, pair)| {
        let may_begin = first[usize::from(pair[0])] & second[usize::from(pair[1])];
        may_begin != 0
            && ERROR_WORDS.iter().any(|word| {
                let there = bytes.get(at..at + word.len());
                there.is_some_and(|there| there.eq_ignore_ascii_case(word.as_bytes()))
            })
    })
}

/// Returns whether a word is a unit of measure: `ms`, `%`, `KiB`.
pub fn is_unit(word: &str) -> bool {
    word.len() <= MAX_UNIT_BYTES && UNITS.iter().any(|unit| unit.eq_ignore_ascii_case(word))
}

/// Returns a path without the line and column that compilers put behind it.
pub fn without_position(word: &str) -> &str {
    match word.split_once(':') {
        Some((path, rest)) if rest.bytes().all(|byte| byte.is_ascii_digit() || byte == b':') => path,
        _ => word,
    }
}

/// Returns whether a word is a path or an address. Slashes alone make none: `and/or`, `1/2`.
pub fn is_path(word: &str) -> bool {
    let (folder, name) = word.rsplit_once('/').unwrap_or(("", word));
    let extension =
        name.rsplit_once('.').filter(|(stem, _)| !stem.is_empty()).map(|(_, extension)| extension);
    let known = extension.is_some_and(|extension| EXTENSIONS.contains(&extension));
    let rooted = ["/", "./", "../", "~/"].iter().any(|root| word.starts_with(root));
    let deep = folder.contains('/') || (!folder.is_empty() && extension.is_some());
    let has_letters = word.bytes().filter(u8::is_ascii_alphabetic).count() > 1;
    has_letters && (known || rooted || (deep && !folder.is_empty()))
}

/// Returns whether a word is a name that a program gave: `camelCase`, `snake_case`, `a::path`, a hexadecimal id.
pub fn is_identifier(word: &str) -> bool {
    if word.len() < 4 {
        return false;
    }
    let bytes = word.as_bytes();
    // Bytes are enough, because names in programs are ASCII; other letters never match.
    let camel = bytes.windows(2).any(|pair| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase());
    let snake = bytes.windows(2).any(|pair| pair[0].is_ascii_alphanumeric() && pair[1] == b'_');
    camel || snake || word.trim_matches(':').contains("::") || is_hex_id(word)
}

/// Returns whether a word is a hexadecimal id of at least 7 characters, the length of git's short hashes.
fn is_hex_id(word: &str) -> bool {
    // Letters and digits are both required: "defaced" is a word, and "1234567" a number.
    let digits = word.bytes().filter(u8::is_ascii_digit).count();
    let hex = word.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    hex && digits > 0 && word.bytes().any(|byte| byte.is_ascii_alphabetic()) && word.len() >= 7
}

#[cfg(test)]
mod tests;
