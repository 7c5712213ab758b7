//! What each kind of piece is worth.

use super::Groups;
use super::scan::Counts;

macro_rules! features {
    ($($name:ident = $weight:literal),* $(,)?) => {
        /// A kind of piece. The ones with a number are the first of a row by length.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub(super) enum Feature { $($name),* }

        /// Thousandths of a token for one piece of each kind.
        const WEIGHTS: [u64; Feature::COUNT] = [$($weight),*];

        impl Feature {
            pub(super) const COUNT: usize = [$(Self::$name),*].len();
        }
    };
}

features! {
    BlankWord1 = 1000, BlankWord2 = 1000, BlankWord3 = 1000, BlankWord4 = 1000, BlankWord5 = 1000,
    BlankWord6 = 1000, BlankWord7 = 1000, BlankWord8 = 1000, BlankWord9 = 1209, BlankWord10 = 1017,
    BlankWord11 = 1059, BlankWord13 = 1834, BlankWord16 = 3300, BlankWord20 = 4300, MarkWord1 = 1144,
    MarkWord2 = 1217, MarkWord3 = 1109, MarkWord4 = 1128, MarkWord5 = 1160, MarkWord6 = 1277,
    MarkWord7 = 1296, MarkWord8 = 1930, MarkWord9 = 2195, MarkWord10 = 2270, MarkWord11 = 2245,
    MarkWord13 = 2315, MarkWord16 = 3200, MarkWord20 = 4300, BareWord1 = 1000, BareWord2 = 1000,
    BareWord3 = 1000, BareWord4 = 1000, BareWord5 = 1000, BareWord6 = 1141, BareWord7 = 1061,
    BareWord8 = 1068, BareWord9 = 1132, BareWord10 = 1525, BareWord11 = 1953, BareWord13 = 1790,
    BareWord16 = 3300, BareWord20 = 4300, Capitals2 = 1000, Capitals3 = 1000, Capitals4 = 1090,
    Capitals5 = 1200, Capitals6 = 1683, Capitals7 = 1700, Capitals8 = 1800, CapitalExcess = 230,
    CapitalsGlued = 566, ExtraCapital = 195, LetterExcess = 250, RarePair = 717, LetterRepeat = 1000, DigitGroup = 1000, Numeral = 1096, LineEnd = 1076, LineEnds = 1264, Blanks = 1000,
    LoneBlank = 1000, Marks1 = 1000, Marks2 = 1021, Marks3 = 1019, Marks4 = 1716, SpaceMarks1 = 1002,
    SpaceMarks2 = 1214, SpaceMarks3 = 1260, SpaceMarks4 = 2220, MarkChange = 687, MarkRepeat = 700,
    ForeignAfterBlank = 50, ForeignBare = 457, LatinExt = 860, CapitalExt = 1673, Accent = 1500,
    Vietnamese = 100, Greek = 397, Caucasian = 352, AlphabetExcess = 600, Cyrillic = 330, Hebrew = 474,
    Arabic = 360, Indic = 389, IndicSouth = 419, SouthEast = 405, Kana = 639, Hangul = 698, Han = 900,
    OtherLetter = 2000, Punctuation = 662, Rule = 1231, RuleRepeat = 133, Symbol = 1277, Joiner = 707,
    Emoji = 1874, Rare = 4000,
}

/// For each letter (by its place in the alphabet, from 1), as bits from `a` up, the letters that often follow it in
/// English and in source code.
pub(super) const COMMON_PAIRS: [u32; 32] = [
    0, 0x1febdef, 0x1164b15, 0x11e5d9d, 0x11e591d, 0x1fff97f, 0x11e6d79, 0x01e79d1, 0x01a7915, 0x2aefc7f,
    0x0140030, 0x0042111, 0x13ec93d, 0x114d91f, 0x13cfd7d, 0x27efd7f, 0x11ed9dd, 0x0100000, 0x17efd5d,
    0x11efdf5, 0x15ed9bd, 0x00eb97f, 0x0004111, 0x0866191, 0x00a8115, 0x00cf011, 0x0000010, 0, 0, 0, 0, 0,
];

impl Feature {
    /// Sizes that words in capitals are told apart by: 2, 3 … 7, 8 and more.
    pub(super) const CAPITAL_SIZES: usize = 7;

    /// The place in its row of a word that is `longer` letters longer than one: each length to 10, then 11–12,
    /// 13–15, 16–19, 20 and more.
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

/// The weighted sums, together rounded to whole tokens, at most `most`; something is one token at least.
pub(super) fn groups(counts: &Counts, most: u64) -> Groups {
    let mut thousandths = [0_u64; Groups::COUNT];
    for ((count, weight), group) in counts.iter().zip(WEIGHTS).zip(GROUPS) {
        thousandths[group] += count * weight;
    }
    let sum: u64 = thousandths.iter().sum();
    let total = ((sum + 500) / 1000).max(u64::from(sum > 0)).min(most);
    let mut groups = [0; Groups::COUNT];
    let mut left = total;
    for (tokens, group) in groups.iter_mut().zip(thousandths).skip(1) {
        *tokens = (group / 1000).min(left);
        left -= *tokens;
    }
    groups[0] = left;
    Groups(groups)
}

/// The group of each feature; see [`Groups`].
const GROUPS: [usize; Feature::COUNT] = {
    use Feature as F;
    let mut groups = [0; Feature::COUNT];
    mark(&mut groups, F::BareWord1, F::BareWord20, 1);
    mark(&mut groups, F::Capitals2, F::LetterRepeat, 1);
    mark(&mut groups, F::DigitGroup, F::Numeral, 1);
    mark(&mut groups, F::ForeignAfterBlank, F::SouthEast, 3);
    mark(&mut groups, F::Kana, F::Han, 2);
    mark(&mut groups, F::OtherLetter, F::Rare, 3);
    groups
};

const fn mark(groups: &mut [usize; Feature::COUNT], first: Feature, last: Feature, group: usize) {
    let mut at = first as usize;
    while at <= last as usize {
        groups[at] = group;
        at += 1;
    }
}
