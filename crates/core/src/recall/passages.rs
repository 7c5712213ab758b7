//! Passages: the parts of a text that a query means.

use std::collections::BTreeSet;

use super::SearchQuery;

/// Number of lines shown before and after a line that holds a word of the query.
const AROUND: usize = 4;

/// A text by lines, with the worth of each line to a query.
pub(super) struct ScoredLines {
    /// The text in lower case, with the same byte positions as the original.
    lower: String,
    /// The beginning of each line, in bytes.
    starts: Vec<usize>,
    worth: Vec<f64>,
    /// The worth of all words of the query that the text holds anywhere.
    whole_worth: f64,
}

impl ScoredLines {
    pub(super) fn of(text: &str, query: &SearchQuery) -> Self {
        let lower = small(text);
        let ends = lower.match_indices('\n').map(|(at, _)| at + 1).filter(|end| *end < lower.len());
        let starts: Vec<usize> = std::iter::once(0).chain(ends).collect();
        let mut worth = vec![0.0; starts.len()];
        let mut whole_worth = 0.0;
        for (root, weight) in query.roots.iter().filter(|(_, worth)| *worth > 0.0) {
            let mut counted = None;
            for (at, _) in lower.match_indices(root.as_str()) {
                let line = starts.partition_point(|start| *start <= at) - 1;
                // A word counts once for each line: else a repeated word would outweigh several words of the query.
                if counted.replace(line) != Some(line) {
                    worth[line] += weight;
                }
            }
            whole_worth += counted.map_or(0.0, |_| *weight);
        }
        Self { lower, starts, worth, whole_worth }
    }

    /// Returns the share of the text's worth on the best line, 0 to 1.
    pub(super) fn closeness(&self) -> f64 {
        let best = self.worth.iter().copied().fold(0.0, f64::max);
        if self.whole_worth > 0.0 { best / self.whole_worth } else { 1.0 }
    }

    pub(super) fn has(&self, phrase: &str) -> bool {
        self.lower.contains(phrase)
    }

    /// Returns the lines that hold words of the query, the best first.
    fn best_first(&self) -> Vec<usize> {
        let mut lines: Vec<usize> = (0..self.worth.len()).filter(|line| self.worth[*line] > 0.0).collect();
        lines.sort_by(|left, right| self.worth[*right].total_cmp(&self.worth[*left]).then(left.cmp(right)));
        lines
    }

    fn range(&self, line: usize) -> std::ops::Range<usize> {
        self.starts[line]..self.starts.get(line + 1).copied().unwrap_or(self.lower.len())
    }
}

/// Returns the text in lower case. Letters whose lower case has another length stay as they are, so that positions in
/// both texts are the same.
fn small(text: &str) -> String {
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    text.chars().map(small_char).collect()
}

fn small_char(char: char) -> char {
    let mut forms = char.to_lowercase();
    match (forms.next(), forms.next()) {
        (Some(form), None) if form.len_utf8() == char.len_utf8() => form,
        _ => char,
    }
}

/// Returns the best lines with their neighbours, in the order of the text, in about `chars` characters at most. A
/// text that is not longer is returned whole.
pub(super) fn passages(text: &str, query: &SearchQuery, chars: usize) -> String {
    // `nth` ends at the limit, where a count would read all of a long text.
    if text.chars().nth(chars).is_none() {
        return text.to_owned();
    }
    let lines = ScoredLines::of(text, query);
    let (mut chosen, mut room) = (BTreeSet::new(), chars);
    'best: for best in lines.best_first() {
        for line in around(best, lines.starts.len()) {
            if chosen.contains(&line) {
                continue;
            }
            let long = text[lines.range(line)].chars().count();
            if long > room {
                break 'best;
            }
            room -= long;
            chosen.insert(line);
        }
    }
    if chosen.is_empty() {
        // The best line alone is longer than the room.
        format!("…{}…", cut(text, &lines, query, chars))
    } else {
        joined(text, &lines, &chosen)
    }
}

/// Returns a line and the neighbours: the line first, then the nearest lines.
fn around(line: usize, lines: usize) -> impl Iterator<Item = usize> {
    let beside = (1..=AROUND).flat_map(move |far| [line.checked_sub(far), Some(line + far)]);
    std::iter::once(line).chain(beside.flatten().filter(move |line| *line < lines))
}

fn joined(text: &str, lines: &ScoredLines, chosen: &BTreeSet<usize>) -> String {
    let (mut shown, mut next) = (String::new(), 0);
    for line in chosen {
        if *line != next {
            shown.push_str("…\n");
        }
        shown.push_str(&text[lines.range(*line)]);
        next = line + 1;
    }
    if next < lines.starts.len() {
        shown.push('…');
    }
    shown
}

/// Returns `chars` characters of the best line, from a little before the first word of the query.
fn cut<'t>(text: &'t str, lines: &ScoredLines, query: &SearchQuery, chars: usize) -> &'t str {
    let range = lines.range(lines.best_first().first().copied().unwrap_or(0));
    let line = &lines.lower[range.clone()];
    let found = query.roots.iter().filter_map(|(root, _)| line.find(root.as_str())).min().unwrap_or(0);
    // A quarter of the room shows the text that leads up to the word.
    let before = line[..found].char_indices().rev().take(chars / 4).last().map_or(found, |(at, _)| at);
    let rest = &text[range.start + before..range.end];
    &rest[..rest.char_indices().nth(chars).map_or(rest.len(), |(at, _)| at)]
}
