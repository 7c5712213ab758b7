//! Fits the weights of the structured estimate and prints the rows of `crates/core/src/estimate/weights/table.rs`.
//!
//! `cargo run -p longhaul-tokenizers --example fit-weights -- <folder>` needs the published tokenizers and the recorded
//! work, as `.ci/run` has them. `<folder>` holds other text in UTF-8: source code, configuration and prose in
//! `<folder>/other`, prose in many scripts in `<folder>/languages`; the more, the better the weights for what recorded
//! work seldom shows.
//!
//! In two steps, each a least squares without negative weights. First the weights of most kinds of pieces, on half of the recorded documents (each kind of them counts as much as the others) and the other text. Then those of
//! scripts, on the languages. Errors are relative, and large ones count by their
//! size, not their square: the median is to be small. In a row by length, a longer piece costs no less than a shorter
//! one. A weight that few documents show stays near what it is now.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program of one's own, at the terminal")]

use std::path::Path;
use std::process::ExitCode;

use longhaul_core::estimate::{TextCounter, TokenizerFamily, pieces};

#[path = "../tests/it/documents.rs"]
#[expect(dead_code, clippy::unwrap_used, clippy::print_stdout, reason = "the tests', which use more of it")]
mod documents;
#[expect(clippy::unwrap_used, clippy::print_stdout, reason = "the tests'")]
#[path = "../tests/it/families.rs"]
mod families;

use documents::{Half, documents, files};

/// The weight of a piece of other text, compared with a recorded document.
const OTHER_SHARE: f64 = 0.12;

/// Relative errors up to which squares count, in the first step and in the second, where none is that small.
const SMALL: [f64; 2] = [0.02, 0.2];

/// The resistance of a weight to change, compared with a document of nothing else.
const FIRMNESS: f64 = 1e-7;

/// Other texts are cut at a line end after so many bytes.
const PIECE_BYTES: usize = 3_000;

/// The features that the second step fits.
const SCRIPTS: [&str; 11] = [
    "Greek",
    "Caucasian",
    "Cyrillic",
    "Hebrew",
    "Arabic",
    "Indic",
    "IndicSouth",
    "SouthEast",
    "Kana",
    "Hangul",
    "Han",
];

/// The features that no step fits: runs and characters that only odd texts have, and accented Latin letters, whose languages differ.
const HELD: [&str; 17] = [
    "LetterExcess",
    "LetterRepeat",
    "LineEndRepeat",
    "Numeral",
    "AlphabetExcess",
    "ForeignAfterBlank",
    "ForeignBare",
    "LatinExt",
    "CapitalExt",
    "Accent",
    "Vietnamese",
    "OtherLetter",
    "RuleRepeat",
    "Symbol",
    "Joiner",
    "Emoji",
    "Rare",
];

struct Document {
    /// Of a piece in a row: how many are that long or longer. Its weight is then what the length adds.
    counts: Vec<f64>,
    exact: [f64; 4],
    share: f64,
}

fn main() -> ExitCode {
    let Some(folder) = std::env::args().nth(1) else {
        eprintln!("usage: fit-weights <folder>");
        return ExitCode::FAILURE;
    };
    let [Some(o200k), Some(llama), Some(qwen), Some(gemma)] =
        ["gpt4o", "llama3", "qwen3", "gemma3"].map(|name| families::family(name, "fit-weights"))
    else {
        return ExitCode::FAILURE;
    };
    let names: Vec<&str> = pieces("").map(|(name, _)| name).collect();
    let rows = Rows::of(&names);
    let document = |text: &str, share: f64| Document {
        counts: rows.at_least(pieces(text).map(|(_, count)| count as f64).collect()),
        exact: [o200k, llama, qwen, gemma].map(|counter| counter.tokens(text) as f64),
        share,
    };
    let other = |part: &str| cut_texts(&Path::new(&folder).join(part));
    let mut all: Vec<Document> = other("other").iter().map(|text| document(text, OTHER_SHARE)).collect();
    let recorded = documents(Path::new(documents::FIXTURES));
    let halves = recorded.values().map(|texts| texts.iter().filter(|text| Half::of(text) == Half::Fitting));
    let halves: Vec<Vec<&String>> = halves.map(Iterator::collect).collect();
    let mean = halves.iter().map(Vec::len).sum::<usize>() as f64 / halves.len() as f64;
    for half in &halves {
        all.extend(half.iter().map(|text| document(text, mean / half.len() as f64)));
    }
    let languages: Vec<Document> = other("languages").iter().map(|text| document(text, 1.0)).collect();
    eprintln!("{} documents, {} in other scripts", all.len(), languages.len());

    let places = |wanted: &dyn Fn(&str) -> bool| -> Vec<usize> {
        (0..names.len()).filter(|&at| wanted(names[at])).collect()
    };
    let scripts = places(&|name| SCRIPTS.contains(&name));
    let most = places(&|name| !SCRIPTS.contains(&name) && !HELD.contains(&name));
    let fitted = TokenizerFamily::ALL.map(|family| {
        let now = rows.steps(family.weights().iter().map(|weight| *weight as f64 / 1000.0).collect());
        let weights = fit(&all, family, &now, &most, SMALL[0]);
        rows.sums(fit(&languages, family, &weights, &scripts, SMALL[1]))
    });
    for (at, name) in names.iter().enumerate() {
        let row = fitted.each_ref().map(|weights| format!("{:.0}", weights[at] * 1000.0));
        println!("    {name} = [{}],", row.join(", "));
    }
    ExitCode::SUCCESS
}

/// Which pieces stand in a row by length with the piece before them.
struct Rows(Vec<bool>);

impl Rows {
    /// A row has one name and numbers.
    fn of(names: &[&str]) -> Self {
        let stem = |name: &&str| {
            let stem = name.trim_end_matches(|char: char| char.is_ascii_digit());
            (stem.len() < name.len()).then(|| stem.to_owned())
        };
        let stems: Vec<Option<String>> = names.iter().map(stem).collect();
        Self((0..stems.len()).map(|at| at > 0 && stems[at].is_some() && stems[at] == stems[at - 1]).collect())
    }

    fn at_least(&self, mut counts: Vec<f64>) -> Vec<f64> {
        (1..counts.len()).rev().filter(|&at| self.0[at]).for_each(|at| counts[at - 1] += counts[at]);
        counts
    }

    fn steps(&self, weights: Vec<f64>) -> Vec<f64> {
        let step =
            |at: usize| if self.0[at] { (weights[at] - weights[at - 1]).max(0.0) } else { weights[at] };
        (0..weights.len()).map(step).collect()
    }

    fn sums(&self, mut steps: Vec<f64>) -> Vec<f64> {
        (1..steps.len()).filter(|&at| self.0[at]).for_each(|at| steps[at] += steps[at - 1]);
        steps
    }
}

fn cut_texts(folder: &Path) -> Vec<String> {
    let contents = files(folder).into_iter().filter_map(|file| std::fs::read_to_string(file).ok());
    contents.flat_map(|content| cut(&content)).collect()
}

fn cut(content: &str) -> Vec<String> {
    let mut pieces = vec![String::new()];
    for line in content.split_inclusive('\n') {
        if pieces.last().is_none_or(|piece| piece.len() >= PIECE_BYTES) {
            pieces.push(String::new());
        }
        pieces.iter_mut().last().into_iter().for_each(|piece| piece.push_str(line));
    }
    pieces.retain(|piece| piece.len() >= PIECE_BYTES / 10);
    pieces
}

/// The weights that make the relative errors small, of those in `free`; the others stay.
fn fit(documents: &[Document], family: TokenizerFamily, now: &[f64], free: &[usize], small: f64) -> Vec<f64> {
    let column = family as usize;
    let mut weights = now.to_vec();
    for _ in 0..12 {
        let mut squares = vec![vec![0.0; free.len()]; free.len()];
        let mut pulls = vec![0.0; free.len()];
        let total: f64 = documents.iter().map(|document| document.share).sum();
        for (place, &at) in free.iter().enumerate() {
            let firm = FIRMNESS * total / now[at].max(0.3).powi(2);
            (squares[place][place], pulls[place]) = (firm, firm * now[at]);
        }
        for document in documents {
            let exact = document.exact[column];
            let estimate: f64 =
                document.counts.iter().zip(&weights).map(|(count, weight)| count * weight).sum();
            let error = estimate / exact - 1.0;
            let share = document.share * (small / error.hypot(small) + 0.1);
            let shown: Vec<f64> = free.iter().map(|&at| document.counts[at] / exact).collect();
            let held =
                estimate / exact - free.iter().zip(&shown).map(|(&at, x)| x * weights[at]).sum::<f64>();
            for (place, x) in shown.iter().enumerate().filter(|(_, x)| **x > 0.0) {
                squares[place].iter_mut().zip(&shown).for_each(|(cell, y)| *cell += share * x * y);
                pulls[place] += share * x * (1.0 - held);
            }
        }
        let mut found: Vec<f64> = free.iter().map(|&at| weights[at]).collect();
        descend(&squares, &pulls, &mut found);
        free.iter().zip(found).for_each(|(&at, weight)| weights[at] = weight);
    }
    weights
}

/// Least squares without negative weights, one weight after the other.
fn descend(squares: &[Vec<f64>], pulls: &[f64], weights: &mut [f64]) {
    for _ in 0..2_000 {
        for (at, row) in squares.iter().enumerate() {
            let others: f64 = row.iter().zip(&*weights).map(|(cell, weight)| cell * weight).sum();
            weights[at] = (weights[at] + (pulls[at] - others) / row[at]).max(0.0);
        }
    }
}
