//! What each kind of piece is worth.

use super::scan::Counts;

macro_rules! features {
    ($($name:ident = $weight:literal),* $(,)?) => {
        /// A kind of piece. The ones with a number are the first of a row by length.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(usize)]
        pub(super) enum Feature { $($name),* }

        /// Thousandths of a token for one piece of each kind.
        const WEIGHTS: [u64; Feature::COUNT] = [$($weight),*];

        impl Feature {
            pub(super) const COUNT: usize = [$(Self::$name),*].len();
            #[cfg(test)]
            pub(super) const NAMES: [&'static str; Self::COUNT] = [$(stringify!($name)),*];
        }
    };
}

features! {
    BlankWord1 = 918, BlankWord2 = 856, BlankWord3 = 969, BlankWord4 = 927, BlankWord5 = 1066,
    BlankWord6 = 1066, BlankWord7 = 1118, BlankWord8 = 1083, BlankWord9 = 1308, BlankWord10 = 1149,
    BlankWord11 = 1357, BlankWord13 = 1825, BlankWord16 = 3300, BlankWord20 = 4300,
    MarkWord1 = 1160, MarkWord2 = 1271, MarkWord3 = 1110, MarkWord4 = 1154, MarkWord5 = 1172,
    MarkWord6 = 1276, MarkWord7 = 1304, MarkWord8 = 1870, MarkWord9 = 2121, MarkWord10 = 2188,
    MarkWord11 = 2260, MarkWord13 = 2239, MarkWord16 = 3200, MarkWord20 = 4300,
    BareWord1 = 971, BareWord2 = 971, BareWord3 = 1013, BareWord4 = 881, BareWord5 = 1006,
    BareWord6 = 1151, BareWord7 = 1032, BareWord8 = 1082, BareWord9 = 1143, BareWord10 = 1546,
    BareWord11 = 1835, BareWord13 = 1843, BareWord16 = 3300, BareWord20 = 4300,
    Capitals2 = 525, Capitals3 = 961, Capitals4 = 1135, Capitals5 = 1200, Capitals6 = 1675,
    Capitals7 = 1500, Capitals8 = 1700,
    CapitalExcess = 230, CapitalsGlued = 580, ExtraCapital = 241, LetterExcess = 250, RarePair = 755, LetterRepeat = 1000,
    Contraction = 153,
    DigitGroup = 1000, Numeral = 1080,
    LineEnd = 1102, LineEnds = 1269, Blanks = 989, LoneBlank = 1112,
    Marks1 = 971, Marks2 = 1055, Marks3 = 1040, Marks4 = 1715,
    SpaceMarks1 = 1016, SpaceMarks2 = 1225, SpaceMarks3 = 1210, SpaceMarks4 = 2197,
    MarkChange = 686, MarkRepeat = 700,
    ForeignAfterBlank = 82, ForeignBare = 379,
    LatinExt = 815, CapitalExt = 1719, Accent = 1500, Vietnamese = 100, Greek = 393, Caucasian = 350, AlphabetExcess = 600, Cyrillic = 325, Hebrew = 471, Arabic = 357,
    Indic = 385, IndicSouth = 416, SouthEast = 407, Kana = 619, Hangul = 692, Han = 900, OtherLetter = 2000,
    Punctuation = 621, Rule = 1177, RuleRepeat = 134, Symbol = 1278, Joiner = 733, Emoji = 1882, Rare = 4000,
}

/// For each letter, as bits from `a` up, the letters that often follow it in English and in source code.
pub(super) const COMMON_PAIRS: [u32; 26] = [
    0x1febdef, 0x1164b15, 0x11e5d9d, 0x11e591d, 0x1fff97f, 0x11e6d79, 0x01e79d1, 0x01a7915, 0x2aefc7f, 0x0140030, 0x0042111, 0x13ec93d, 0x114d91f, 0x13cfd7d, 0x27efd7f, 0x11ed9dd, 0x0100000, 0x17efd5d, 0x11efdf5, 0x15ed9bd, 0x00eb97f, 0x0004111, 0x0866191, 0x00a8115, 0x00cf011, 0x0000010,
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

/// The weighted sum, rounded up to whole tokens.
pub(super) fn tokens(counts: &Counts) -> u64 {
    let thousandths: u64 = counts.iter().zip(WEIGHTS).map(|(count, weight)| count * weight).sum();
    thousandths.div_ceil(1000)
}
