//! Lines of tool output that state one fact: a decision, a constraint, a value, a ticket.
//!
//! Such a line differs from those around it. It has an id, a value or a word that binds, it reads as prose or as a
//! setting, and no other line of the same output has its shape. At most [`MAX_FACTS_PER_RESULT`] lines of one result
//! are taken, the clearest first.
//!
//! The lines that stay visible of a cleared result are chosen by another scorer (`plan/facts.rs`), which asks for rare lines
//! of one result and not for facts of the whole session. Here repeated signs make another form: `---` and `-` differ,
//! because rows of tables must not look like prose.

use super::bounded_fact_map::BoundedFactMap;
use super::{line, names, values};
use crate::retention_report::facts::{DECISION_WORDS, binds, has_any};

/// The most facts kept.
const MAX_FACTS: usize = 512;

/// The most lines taken from one result.
const MAX_FACTS_PER_RESULT: usize = 2;

/// The part of one result that is searched, in bytes.
const MAX_READ_BYTES: usize = 256 << 10;

/// The longest line that can be one fact, in bytes.
const MAX_LINE_BYTES: usize = 400;

/// The lowest score of a line that is taken: two of the signs in [`fact_score`], at 2 points each.
const MIN_SCORE: u32 = 4;

/// The length after which a shown fact is cut, in characters.
const MAX_SHOWN_CHARS: usize = 240;

/// Facts in tool output, with the file that each came from, the newest last.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ToolFacts(BoundedFactMap<Option<String>>);

impl Default for ToolFacts {
    fn default() -> Self {
        Self(BoundedFactMap::new(MAX_FACTS))
    }
}

impl ToolFacts {
    /// Takes the clearest facts of a result. `source` is the file that the result shows, if known.
    pub(super) fn read(&mut self, source: Option<&str>, text: &str) {
        let mut lines: Vec<&str> = line::head(text, MAX_READ_BYTES).lines().collect();
        if let Some(first) = first_number(&lines) {
            // The number of a line is no part of what the line says.
            let numbers = first..;
            lines.iter_mut().zip(numbers).for_each(|(line, number)| *line = without_number(line, number));
        }
        // Rows of a table or a log look like facts one by one. Their common shape shows that they are data.
        let shapes: Vec<u64> = lines.iter().map(|line| shape(line)).collect();
        let mut sorted = shapes.clone();
        sorted.sort_unstable();
        let mut found: Vec<(u32, usize, &str)> = Vec::new();
        for (at, (line, shape)) in lines.into_iter().zip(shapes).enumerate() {
            if line.len() > MAX_LINE_BYTES || !is_single(shape, &sorted) {
                continue;
            }
            let score = fact_score(line);
            if score >= MIN_SCORE {
                found.push((score, at, line));
            }
        }
        found.sort_by(|left, right| right.0.cmp(&left.0).then(left.1.cmp(&right.1)));
        found.truncate(MAX_FACTS_PER_RESULT);
        // The chosen lines return to their order in the text, so that the last one becomes the newest fact.
        found.sort_by_key(|(_, at, _)| *at);
        for (_, _, line) in found {
            self.0.put(line.trim(), source.map(str::to_owned));
        }
    }

    /// Returns the facts as items of a list, the newest first.
    pub(super) fn newest_first(&self) -> impl Iterator<Item = String> {
        self.0.iter().rev().map(|(fact, source)| {
            let quoted = line::quoted(fact, MAX_SHOWN_CHARS);
            source.as_ref().map_or(quoted.clone(), |source| format!("{}: {quoted}", line::name(source, 200)))
        })
    }

    /// Returns the number of facts that were removed because there were too many.
    pub(super) fn evicted(&self) -> u64 {
        self.0.evicted()
    }
}

/// Returns the number of the first line where lines are numbered, as tools that read files do: `  12<TAB>text`.
fn first_number(lines: &[&str]) -> Option<u64> {
    let number = |line: &str| line.split_once('\t')?.0.trim_start().parse::<u64>().ok();
    // A single number may be the first column of a table.
    let (first, second) = (number(lines.first()?)?, number(lines.get(1)?)?);
    (second == first + 1).then_some(first)
}

/// Returns a line without the number in front, or the whole line if it has another number or none.
fn without_number(line: &str, number: u64) -> &str {
    match line.split_once('\t') {
        Some((before, text)) if before.trim_start().parse() == Ok(number) => text,
        _ => line,
    }
}

/// Returns whether at most one line has this shape, by the ascending shapes of all lines.
fn is_single(shape: u64, sorted: &[u64]) -> bool {
    let first = sorted.partition_point(|other| *other < shape);
    sorted.get(first + 1) != Some(&shape)
}

/// Returns how clearly a line states one fact; 0 for a line that states none.
fn fact_score(line: &str) -> u32 {
    let has_digit = line.bytes().any(|byte| byte.is_ascii_digit());
    // Capitals in a row are part of a ticket, a label or a code: `OPS-4471`, `DECISION`, `E4417`.
    let has_capitals = line.as_bytes().windows(3).any(|three| three.iter().all(u8::is_ascii_uppercase));
    let prose = prose_words(line);
    if !has_digit && !has_capitals && prose < 4 {
        return 0;
    }
    let mut score = 0;
    if has_digit && names::words(line).any(|word| names::is_name(word.trim_end_matches(['.', ',', ';']))) {
        score += 2;
    }
    if has_digit && values::states_value(line) {
        score += 2;
    }
    if prose >= 3 {
        score += 2;
    }
    if prose >= 3 && (binds(line) || has_any(line, DECISION_WORDS)) {
        score += 2;
    }
    if has_label(line) {
        score += 2;
    }
    score
}

/// Returns the length of the longest run of words that have letters only, in words.
fn prose_words(line: &str) -> usize {
    let (mut longest, mut run) = (0, 0);
    for word in line.split_whitespace() {
        let word = word.trim_matches([',', '.', ';', ':', '(', ')', '"', '\'', '#', '*', '/']);
        let is_word =
            !word.is_empty() && word.chars().all(|char| char.is_alphabetic() || char == '-' || char == '\'');
        run = if is_word { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    longest
}

/// Returns whether a line begins with a label in capitals: `NOTE: …`, `# DECISION: …`.
fn has_label(line: &str) -> bool {
    let text = line.trim_start_matches(|char: char| !char.is_alphabetic());
    text.split_once(':').is_some_and(|(label, rest)| {
        (3..=40).contains(&label.len())
            && !rest.trim().is_empty()
            && label
                .bytes()
                .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || b" _-".contains(&byte))
    })
}

/// The class of each byte in the form of a line, as a table: every byte of every tool output is looked up.
const BYTE_CLASSES: [u8; 256] = {
    let mut classes = [0; 256];
    let mut byte = 0_u8;
    loop {
        classes[byte as usize] = match byte {
            b'0'..=b'9' => b'0',
            b'a'..=b'z' | b'A'..=b'Z' | 0x80.. => b'a',
            b' ' | b'\t' => b' ',
            other => other,
        };
        if byte == u8::MAX {
            break classes;
        }
        byte += 1;
    }
};

/// Returns a hash of a line's form, equal for lines that differ in their words and numbers only.
fn shape(line: &str) -> u64 {
    // FNV-1a. A collision only hides a fact, so a fast hash of 64 bits is good enough.
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    let mut last = 0_u8;
    for byte in line.bytes() {
        let class = BYTE_CLASSES[usize::from(byte)];
        // A run of digits, letters or blanks counts once, whatever its length.
        if class != last || !matches!(class, b'0' | b'a' | b' ') {
            hash = (hash ^ u64::from(class)).wrapping_mul(0x0000_0100_0000_01b3);
            last = class;
        }
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(text: &str) -> Vec<String> {
        let mut facts = ToolFacts::default();
        facts.read(Some("docs/a.md"), text);
        facts.newest_first().collect()
    }

    #[test]
    fn numbers_of_lines_are_no_part_of_a_fact() {
        let text = "     9\tThe pump works.\n    10\tThe rollback is tracked in OPS-4471.\n    11\tDone.";
        assert_eq!(facts(text), ["docs/a.md: `The rollback is tracked in OPS-4471.`"]);
        // The first column of a table.
        let text = "7\tThe rollback is tracked in OPS-4471.\n3\tThe pump works.";
        assert_eq!(facts(text), ["docs/a.md: `7 The rollback is tracked in OPS-4471.`"]);
    }

    #[test]
    fn a_line_that_states_a_fact_is_found_among_others() {
        let filler: String =
            (0..80).map(|at| format!("    let value_{at} = compute(input, {at});\n")).collect();
        for fact in [
            "The rollback of the importer is tracked in OPS-4471.",
            "DECISION: retries stay at 7 for the billing queue",
            "# Never restart node 7 before the nightly export is done",
            "error code E4417 means that the lease has expired",
        ] {
            let found = facts(&format!("{filler}{fact}\n{filler}"));
            assert_eq!(found, [format!("docs/a.md: `{fact}`")]);
        }
    }

    #[test]
    fn rows_of_one_shape_are_no_facts() {
        let rows: String =
            (0..40).map(|at| format!("the order number OPS-{at}441 was shipped today\n")).collect();
        assert_eq!(facts(&rows), [""; 0]);
    }

    #[test]
    fn code_and_prose_without_a_fact_are_passed_over() {
        let text = "fn main() {\n    let x = 1;\n}\nThis paragraph explains the idea of the module.\nuse std::fmt;\n";
        assert_eq!(facts(text), [""; 0]);
    }
}
