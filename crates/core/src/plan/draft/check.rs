//! The check of a summary: a model's answer is compared, by its form, with the replaced text.
//!
//! The check asks no model and has no list of sentences. Its signals exist in any language: length, headings, names
//! and words in common with the replaced text, and the mood of sentences.

use std::collections::BTreeSet;

use crate::retention_report::facts;

mod headings;
mod mood;
mod thoughts;
mod tool_text;

pub(super) use headings::REQUESTED_HEADINGS;
pub(super) use thoughts::without_thoughts;

/// The length below which an answer far shorter than the replaced text is refused, in characters.
const SHORT_CHARS: usize = 200;

/// The factor by which such an answer is shorter than the replaced text.
const SHORT_SHARE: usize = 200;

/// The least length of a summary without headings, in characters as [`weighed_chars`] counts them.
const MIN_PLAIN_CHARS: usize = 80;

/// The number of names in the replaced text from which on a summary must have one. Names are files, identifiers and
/// measures.
const MIN_NAMES: usize = 3;

/// The length from which on a summary must cover more than one part of a text, in characters.
const LONG_CHARS: usize = 4_000;

/// The number of consecutive words that are compared when a text is looked for in another.
const ROW_WORDS: usize = 6;

/// The reason why an answer is no summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[doc(hidden)]
pub enum SummaryDefect {
    /// The answer has no text.
    Empty,
    /// The answer was cut off.
    CutOff,
    /// The answer has thoughts only.
    OnlyThoughts,
    /// The answer calls tools.
    ToolCall,
    /// The answer repeats the order to write the summary.
    OrderRepeated,
    /// The answer exceeds the limit by more than a quarter.
    TooLong,
    /// The answer is far too short for the replaced text.
    TooShort,
    /// The answer has headings without text below.
    OnlyHeadings,
    /// The answer repeats itself.
    Repetitive,
    /// The answer is a refusal.
    Refusal,
    /// The answer is a question to the user.
    Question,
    /// The answer repeats the conversation without summarising.
    Copy,
    /// The answer has none of the requested headings, and is no plain summary either.
    NoHeadings,
    /// The answer names no file, identifier or measure of the replaced text.
    NoNames,
    /// The answer names nothing that the earlier summary names.
    EarlierDropped,
}

impl SummaryDefect {
    /// Returns the defect in words, for the model and for people.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Empty => "it is empty",
            Self::CutOff => "it was cut off",
            Self::OnlyThoughts => "it has thoughts only and no summary after them",
            Self::ToolCall => "it asks for tools",
            Self::OrderRepeated => "it repeats the instructions",
            Self::TooLong => "it is longer than was asked for",
            Self::TooShort => "it is too short for what it replaces",
            Self::OnlyHeadings => "it has headings and nothing below them",
            Self::Repetitive => "it says the same again and again",
            Self::Refusal => "it is a refusal and no summary",
            Self::Question => "it is a question to the user and no summary",
            Self::Copy => "it repeats the conversation instead of summarising it",
            Self::NoHeadings => "it has none of the requested headings",
            Self::NoNames => "it names no file, identifier or value of the conversation",
            Self::EarlierDropped => "it leaves out what the earlier summary says",
        }
    }
}

impl std::fmt::Display for SummaryDefect {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The texts and limits against which an answer is checked.
#[derive(Clone, Copy, Debug)]
#[doc(hidden)]
pub struct SummaryCheckInput<'a> {
    /// The replaced text.
    pub material: &'a str,
    /// The earlier summary of a model that the new one has to merge; empty for none.
    pub earlier: &'a str,
    /// The order that the model got.
    pub order: &'a str,
    /// The summary's limit, in tokens.
    pub limit_tokens: u64,
    /// `true` if the order asks for headings.
    pub wants_headings: bool,
}

/// Returns the summary in an answer, without thoughts and wrapping marks.
///
/// `count` returns the tokens of a text.
///
/// # Errors
/// [`SummaryDefect`] if the answer is no summary.
#[doc(hidden)]
pub fn check_summary(
    answer: &str,
    replaced: &SummaryCheckInput<'_>,
    count: &dyn Fn(&str) -> u64,
) -> Result<String, SummaryDefect> {
    let text = without_thoughts(answer);
    let text = text.trim();
    if text.is_empty() {
        let is_empty = answer.trim().is_empty();
        return Err(if is_empty { SummaryDefect::Empty } else { SummaryDefect::OnlyThoughts });
    }
    if tool_text::is_tool_call(text) {
        return Err(SummaryDefect::ToolCall);
    }
    if tool_text::is_status(text) {
        return Err(SummaryDefect::NoHeadings);
    }
    // Weak models echo the request. Headings alone share few rows of words with it.
    if share_in(text, replaced.order) > 0.3 {
        return Err(SummaryDefect::OrderRepeated);
    }
    // Models miss a limit that is given in words. A quarter more is accepted, and the edit is measured again before its
    // commit.
    if count(text) > replaced.limit_tokens.saturating_add(replaced.limit_tokens / 4) {
        return Err(SummaryDefect::TooLong);
    }
    check_length(text, replaced.material)?;
    check_content(text, replaced)?;
    Ok(text.to_owned())
}

/// Checks a text without headings and without an order of its own, such as the words of a pruning agent.
pub(in crate::plan) fn check_words(words: &str, material: &str) -> Result<(), SummaryDefect> {
    check_length(words, material)?;
    let replaced =
        SummaryCheckInput { material, earlier: "", order: "", limit_tokens: u64::MAX, wants_headings: false };
    check_content(words, &replaced)
}

fn check_length(text: &str, material: &str) -> Result<(), SummaryDefect> {
    let length = length_of(text);
    if length < SHORT_CHARS && length * SHORT_SHARE < length_of(material) {
        return Err(SummaryDefect::TooShort);
    }
    Ok(())
}

/// Checks the content of a text, whatever its length.
fn check_content(text: &str, replaced: &SummaryCheckInput<'_>) -> Result<(), SummaryDefect> {
    // Most checks look at the body, because headings are the same words in every summary.
    let outline = headings::HeadingOutline::of(text);
    let words = outline.body.split_whitespace().filter(|word| word.chars().any(char::is_alphanumeric));
    if words.count() < 2 && weighed_chars(&outline.body) < 12 {
        return Err(match outline.headings {
            0 => SummaryDefect::NoHeadings,
            _ => SummaryDefect::OnlyHeadings,
        });
    }
    if is_repetitive(&outline.body) {
        return Err(SummaryDefect::Repetitive);
    }
    let has_headings = outline.headings > 0 || !replaced.wants_headings;
    let mood = mood::SentenceMoodCounts::of(&outline.body);
    let names = TextNames::of(replaced.material);
    let named = names.named_in(text);
    // A heading in front makes no summary of a few sentences that speak of nothing in the conversation.
    let is_hollow = named == 0;
    if mood.is_refusal(has_headings) || is_hollow && mood.is_short_refusal() {
        return Err(SummaryDefect::Refusal);
    }
    if mood.is_question(has_headings) || is_hollow && mood.is_short_question() {
        return Err(SummaryDefect::Question);
    }
    if outline.headings == 0 && mood.is_deliberation() {
        return Err(SummaryDefect::OnlyThoughts);
    }
    if !has_headings {
        if is_copy(text, replaced.material) {
            return Err(SummaryDefect::Copy);
        }
        if !is_plain_summary(text, replaced.material, &names, named) {
            return Err(SummaryDefect::NoHeadings);
        }
    }
    // Where the replaced text has few names, shared words are enough. The strong names of small talk are its dates and
    // years; a summary that names its people and places and covers all of it has its substance.
    let has_substance = names.weakly_named_in(text) >= MIN_NAMES
        && is_related(text, replaced)
        && covers(text, replaced.material);
    if named == 0
        && (names.strong.len() >= MIN_NAMES && !has_substance
            || !names.strong.is_empty() && !is_related(text, replaced))
    {
        return Err(SummaryDefect::NoNames);
    }
    if !carries(text, replaced.earlier) {
        return Err(SummaryDefect::EarlierDropped);
    }
    Ok(())
}

/// Returns whether a text carries on an earlier summary: the text repeats a name of the summary. A summary with
/// hardly any names is carried on by every text.
pub(in crate::plan) fn carries(text: &str, earlier: &str) -> bool {
    let names = TextNames::of(earlier);
    names.strong.len() < MIN_NAMES || names.named_in(text) > 0
}

/// The names in a text.
struct TextNames {
    /// Paths, identifiers and measures.
    strong: BTreeSet<String>,
    /// Words that have a capital letter within a sentence.
    weak: BTreeSet<String>,
}

impl TextNames {
    fn of(text: &str) -> Self {
        let strong = strong_names(text);
        let weak = proper_names(text);
        Self { strong, weak }
    }

    /// Returns the number of strong names that a text has. A path also counts by its last part.
    fn named_in(&self, text: &str) -> usize {
        let words = words_with_parts(text);
        let named = self.strong.iter().filter(|name| {
            words.contains(name.as_str()) || last_part(name).is_some_and(|part| words.contains(part))
        });
        named.count()
    }

    fn weakly_named_in(&self, text: &str) -> usize {
        let words: BTreeSet<&str> = spoken_words(text).collect();
        self.weak.iter().filter(|name| words.contains(name.as_str())).count()
    }
}

fn strong_names(text: &str) -> BTreeSet<String> {
    let mut names = facts::all_words(text);
    let words = text.split(|char: char| !char.is_alphanumeric() && !"_-.".contains(char));
    let words = words.map(|word| word.trim_matches(['-', '.', '_']));
    names.extend(words.filter(|word| is_code(word)).map(str::to_owned));
    names
}

/// Returns whether a word is a code of errors, tickets or versions, or a number of three digits or more.
fn is_code(word: &str) -> bool {
    let digits = word.bytes().filter(u8::is_ascii_digit).count();
    let has_letter = word.chars().any(char::is_alphabetic);
    digits >= 3 || digits > 0 && has_letter && word.len() >= 4
}

/// Returns the strong names of a text and the last parts of its paths.
fn words_with_parts(text: &str) -> BTreeSet<String> {
    let mut words = strong_names(text);
    // Summaries shorten a path to the name of its file.
    let parts: Vec<String> = words.iter().filter_map(|word| last_part(word)).map(str::to_owned).collect();
    words.extend(parts);
    words
}

fn last_part(path: &str) -> Option<&str> {
    let part = path.trim_end_matches('/').rsplit_once('/')?.1;
    (part.len() >= 4).then_some(part)
}

fn spoken_words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|char: char| !char.is_alphanumeric()).filter(|word| !word.is_empty())
}

fn proper_names(text: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for line in text.lines() {
        let mut is_start = true;
        for word in line.split_whitespace() {
            let bare = word.trim_matches(|char: char| !char.is_alphanumeric());
            let mut chars = bare.chars();
            let is_name = chars.next().is_some_and(char::is_uppercase)
                && chars.next().is_some_and(char::is_lowercase)
                && bare.chars().all(char::is_alphanumeric);
            // The first word of a sentence has a capital letter in any case.
            if is_name && !is_start {
                names.insert(bare.to_owned());
            }
            is_start = word.ends_with(['.', '!', '?', ':', '>']);
        }
    }
    names
}

/// Returns whether a text without headings is a summary all the same: long enough, with names or words of the replaced
/// text, and not of one part only.
fn is_plain_summary(text: &str, material: &str, names: &TextNames, named: usize) -> bool {
    let is_long = weighed_chars(text) >= MIN_PLAIN_CHARS;
    // The more names the replaced text has, the more of them its summary must repeat.
    let is_named = match names.strong.len() {
        0..MIN_NAMES => named > 0 || names.weakly_named_in(text) > 0 || overlap(text, material) >= 0.6,
        MIN_NAMES..12 => named >= 1 && overlap(text, material) >= 0.3,
        _ => named >= 2 && overlap(text, material) >= 0.3,
    };
    is_long && is_named && !is_mostly_code(text) && covers(text, material)
}

/// Returns the letters and digits of a text. Characters of scripts that write a word in one or two count threefold.
fn weighed_chars(text: &str) -> usize {
    let weights = text.chars().map(|char| match char {
        _ if facts::is_unspaced(char) => 3,
        _ if char.is_alphanumeric() => 1,
        _ => 0,
    });
    weights.sum()
}

/// Returns the characters of a text. Those of scripts that write a word in one or two count threefold.
fn length_of(text: &str) -> usize {
    text.chars().map(|char| if facts::is_unspaced(char) { 3 } else { 1 }).sum()
}

/// Returns whether a text shares words with the replaced text.
fn is_related(text: &str, replaced: &SummaryCheckInput<'_>) -> bool {
    overlap(text, replaced.material) >= 0.3
}

/// Returns the share of a text's content words that occur in another, 0 to 1.
fn overlap(text: &str, material: &str) -> f64 {
    let (own, theirs) = (content_words(text), content_words(material));
    match own.len() {
        0 => 0.0,
        all => own.intersection(&theirs).count() as f64 / all as f64,
    }
}

/// Returns the beginnings of words of four letters or more, because endings differ from form to form. Scripts without
/// blanks count by pairs of characters.
fn content_words(text: &str) -> BTreeSet<String> {
    let mut words = BTreeSet::new();
    for word in spoken_words(text) {
        let chars: Vec<char> = word.chars().flat_map(char::to_lowercase).collect();
        if chars.iter().copied().any(facts::is_unspaced) {
            words.extend(chars.windows(2).map(|pair| pair.iter().collect::<String>()));
        } else if chars.len() >= 4 && chars.iter().any(|char| char.is_alphabetic()) {
            words.insert(chars.iter().take(6).collect());
        }
    }
    words
}

/// Returns whether a text covers more than one third of a long text. A third is covered by a word that occurs in no
/// other third.
fn covers(text: &str, material: &str) -> bool {
    if material.chars().count() < LONG_CHARS {
        return true;
    }
    let bounds = [0, 1, 2, 3].map(|thirds| material.floor_char_boundary(material.len() * thirds / 3));
    let parts: Vec<BTreeSet<String>> = bounds
        .windows(2)
        .map(|pair| content_words(material.get(pair[0]..pair[1]).unwrap_or_default()))
        .collect();
    let own = content_words(text);
    let (mut distinct, mut covered) = (0, 0);
    for (at, part) in parts.iter().enumerate() {
        let others = parts.iter().enumerate().filter(|(other, _)| *other != at);
        let elsewhere: BTreeSet<&String> = others.flat_map(|(_, words)| words).collect();
        let only_here: Vec<&String> = part.iter().filter(|word| !elsewhere.contains(word)).collect();
        distinct += usize::from(!only_here.is_empty());
        covered += usize::from(only_here.into_iter().any(|word| own.contains(word)));
    }
    // Parts without words of their own cannot be told apart, so fewer of them have to be covered.
    covered >= distinct.min(2)
}

fn is_mostly_code(text: &str) -> bool {
    // Every second piece between fences is code.
    let fenced: usize = text.split("```").skip(1).step_by(2).map(str::len).sum();
    fenced * 2 > text.len()
}

/// Returns whether a text is almost verbatim in another.
fn is_copy(text: &str, material: &str) -> bool {
    // A text of few words may quote one sentence and still be a summary.
    spoken_words(text).count() >= 2 * ROW_WORDS && share_in(text, material) > 0.8
}

/// Returns the share of a text's rows of words that occur in another, 0 to 1.
fn share_in(text: &str, other: &str) -> f64 {
    let rows = rows_of(text);
    if rows.is_empty() || other.is_empty() {
        return 0.0;
    }
    let theirs: BTreeSet<String> = rows_of(other).into_iter().collect();
    rows.iter().filter(|row| theirs.contains(*row)).count() as f64 / rows.len() as f64
}

fn rows_of(text: &str) -> Vec<String> {
    let words: Vec<String> = spoken_words(text).map(str::to_lowercase).collect();
    words.windows(ROW_WORDS).map(|row| row.join(" ")).collect()
}

/// Returns whether a text repeats few lines or few words again and again.
fn is_repetitive(text: &str) -> bool {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let distinct = lines.iter().collect::<BTreeSet<_>>().len();
    if lines.len() >= 8 && distinct * 4 <= lines.len() {
        return true;
    }
    let words: Vec<&str> = spoken_words(text).collect();
    let distinct = words.iter().collect::<BTreeSet<_>>().len();
    words.len() >= 40 && distinct * 6 <= words.len()
}

#[cfg(test)]
mod tests;
