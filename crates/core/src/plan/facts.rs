//! The lines of a tool result that stay visible when the result is cleared, because their shape is rare in that result.
//!
//! A result is mostly lines of one kind: log lines, code, rows, prose. The value, error or ticket that the result was
//! read for stands in a line of another kind. So a line is scored by the rarity of its shape in the result and by its
//! content: numbers, identifiers, whole sentences. No list of words decides.
//!
//! [`pinned_facts`](crate::pinned_facts) has a scorer of its own, for another question. It reads every result once, keeps at
//! most two lines of it for the whole session, and asks whether a line states a fact: a decision, a value, a ticket. Rare
//! lines of other kinds would fill its list. Here the lines stand in the place of one result, so that the rarest ones show
//! what was in the result, whatever they say. Both hash the form of lines, but blanks and repeated signs make no other form
//! here: they are alignment.

use crate::estimate::TextCounter;

/// The most that the lines of one result may have, in tokens.
pub(super) const MAX_TOKENS: u64 = 72;

/// The kept lines take at most one part in so many of the result.
const RESULT_SHARE: u64 = 12;

/// The least room in which lines are chosen, in tokens: less holds no line.
const MIN_TOKENS: u64 = 16;

/// The length of lines that are scored, in characters: shorter lines carry no fact, longer ones do not fit.
const LINE_CHARS: std::ops::RangeInclusive<usize> = 12..=240;

/// The part of a result that is read, in bytes from the beginning. The limit bounds the time of a plan.
const MAX_BYTES: usize = 1 << 18;

/// A shape is rare if at most one line in so many has the shape.
const RARE_SHARE: usize = 40;

/// The least score of a line that is shown.
const MIN_SCORE: u32 = 3;

/// Returns the lines that stay of a result of `tokens` tokens when it is cleared, in their order; empty if none stands
/// out.
pub(super) fn outstanding_lines(text: &str, tokens: u64, counter: &dyn TextCounter) -> String {
    let limit = MAX_TOKENS.min(tokens / RESULT_SHARE);
    if limit < MIN_TOKENS {
        return String::new();
    }
    let text = &text[..text.floor_char_boundary(MAX_BYTES)];
    let lines: Vec<(&str, u64)> = text.lines().map(str::trim).map(|line| (line, shape_of(line))).collect();
    let mut shapes: Vec<u64> = lines.iter().map(|(_, shape)| *shape).collect();
    shapes.sort_unstable();
    // In a short result a shape that occurs once is rare, though it is more than this share of the lines.
    let most = (lines.len() / RARE_SHARE).max(1);
    let scored = lines.iter().enumerate().filter_map(|(at, (line, shape))| {
        let first = shapes.partition_point(|other| other < shape);
        // Beyond `most` the exact number does not matter, and a common shape would take long to count.
        let count = shapes[first..].iter().take(most + 1).take_while(|other| *other == shape).count();
        let is_read = count <= most && LINE_CHARS.contains(&line.chars().count());
        let score = is_read.then(|| score(line) + u32::from(count == 1))?;
        (score >= MIN_SCORE).then_some((score, at))
    });
    let mut scored: Vec<(u32, usize)> = scored.collect();
    // Of equal scores the later line wins, because results end with their conclusion.
    scored.sort_unstable_by(|one, other| other.cmp(one));
    let (mut chosen, mut used) = (Vec::new(), 0);
    for (_, at) in scored {
        let cost = counter.groups(lines[at].0).total() + 1;
        if used + cost <= limit && !chosen.iter().any(|other: &usize| lines[*other].0 == lines[at].0) {
            used += cost;
            chosen.push(at);
        }
    }
    chosen.sort_unstable();
    chosen.into_iter().map(|at| lines[at].0).collect::<Vec<_>>().join("\n")
}

/// Returns a hash of the shape of a line: the sequence of words, numbers and signs, equal neighbours merged.
fn shape_of(line: &str) -> u64 {
    // FNV-1a. A collision only makes a rare shape look common, so a fast hash of 64 bits is good enough.
    let mut shape: u64 = 0xcbf2_9ce4_8422_2325;
    let mut last = ' ';
    for char in line.chars() {
        let kind = match char {
            char if char.is_ascii_digit() => '0',
            char if char.is_alphabetic() || char == '_' => 'a',
            char if char.is_whitespace() => continue,
            char => char,
        };
        if kind != last {
            shape = (shape ^ u64::from(kind)).wrapping_mul(0x0000_0100_0000_01b3);
            last = kind;
        }
    }
    shape
}

/// Returns the score of a line: two points for a sentence, one for a number, one for an identifier.
fn score(line: &str) -> u32 {
    let words: Vec<&str> = line.split_whitespace().collect();
    let plain = words.iter().filter(|word| is_plain_word(word)).count();
    // Code has words too; in prose they are the larger part of the line.
    let is_sentence = plain >= 3 && plain * 2 > words.len();
    let has_figure = words.iter().any(|word| word.chars().filter(char::is_ascii_digit).count() > 1);
    let has_identifier = words.iter().any(|word| is_identifier(word));
    2 * u32::from(is_sentence) + u32::from(has_figure) + u32::from(has_identifier)
}

/// Returns whether a word has letters only, apart from punctuation around the word.
fn is_plain_word(word: &str) -> bool {
    let word = word.trim_matches(|char: char| char.is_ascii_punctuation());
    word.chars().count() > 1 && word.chars().all(|char| char.is_alphabetic() || char == '\'' || char == '-')
}

/// Returns whether a word has both letters and digits: `OPS-4711`, `E0712`, `v2.3`, `8F3K`.
fn is_identifier(word: &str) -> bool {
    let has_digits = word.chars().any(|char| char.is_ascii_digit());
    let has_letters = word.chars().any(char::is_alphabetic);
    has_digits && has_letters && !word.contains("://")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimate::MessageTokenCounter;

    fn lines_of(text: &str) -> String {
        let counter = MessageTokenCounter::default();
        outstanding_lines(text, counter.text(text), counter.text_counter())
    }

    #[test]
    fn a_line_of_another_kind_stands_out() {
        let log: Vec<String> = (10..99)
            .map(|at| format!("2026-01-07T10:00:{at}Z INFO mailer: sent {at} in {} ms", at * 3))
            .collect();
        let code: Vec<String> =
            (0..90).map(|at| format!("    let cursor = merge_pool(&lease, {at});")).collect();
        for filling in [log, code] {
            for fact in [
                "The retry limit of the mailer is 4711 ms.",
                "OPS-4711 is still open: the mailer drops the last record.",
                "error[E0712]: the mailer cannot merge the pool",
            ] {
                let mut lines = filling.clone();
                lines.insert(37, fact.to_owned());
                assert_eq!(lines_of(&lines.join("\n")), fact);
            }
        }
    }

    #[test]
    fn a_result_of_one_kind_or_of_few_words_has_none() {
        assert_eq!(lines_of(&"word ".repeat(3_000)), "");
        assert_eq!(lines_of("3 files changed in 12 ms, all is well"), "");
        let rows: Vec<String> = (100..900).map(|at| format!("row {at} of the table is done")).collect();
        assert_eq!(lines_of(&rows.join("\n")), "");
    }

    #[test]
    fn the_lines_have_a_small_share_of_the_result() {
        let counter = MessageTokenCounter::default();
        let text: Vec<String> = (0..80)
            .map(|at| {
                format!("{} the sentence number {at} says that it is {}", "-".repeat(at % 7), "x!".repeat(at))
            })
            .collect();
        let text = text.join("\n");
        let kept = outstanding_lines(&text, counter.text(&text), counter.text_counter());
        assert!(counter.text(&kept) <= MAX_TOKENS + 4, "{kept}");
    }
}
