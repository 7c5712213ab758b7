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
    BlankWord1 = 1000, BlankWord2 = 1000, BlankWord3 = 1000, BlankWord4 = 1000, BlankWord5 = 1000,
    BlankWord6 = 1000, BlankWord7 = 1000, BlankWord8 = 1100, BlankWord9 = 1150, BlankWord10 = 1200,
    BlankWord11 = 1300, BlankWord13 = 1500, BlankWord16 = 2000, BlankWord20 = 3000,
    MarkWord1 = 1140, MarkWord2 = 1140, MarkWord3 = 1140, MarkWord4 = 1140, MarkWord5 = 1140,
    MarkWord6 = 1590, MarkWord7 = 1590, MarkWord8 = 1590, MarkWord9 = 1700, MarkWord10 = 1800,
    MarkWord11 = 1900, MarkWord13 = 2100, MarkWord16 = 2800, MarkWord20 = 4000,
    BareWord1 = 710, BareWord2 = 1010, BareWord3 = 1010, BareWord4 = 1010, BareWord5 = 1010,
    BareWord6 = 1010, BareWord7 = 1010, BareWord8 = 1010, BareWord9 = 1200, BareWord10 = 1300,
    BareWord11 = 1400, BareWord13 = 1700, BareWord16 = 2200, BareWord20 = 3200,
    Capitals2 = 1100, Capitals3 = 1200, Capitals4 = 1500, Capitals5 = 1700, Capitals6 = 2000,
    Capitals7 = 2200, Capitals8 = 2500,
    CapitalExcess = 500, CapitalsGlued = 100, ExtraCapital = 540, LetterExcess = 520, LetterRepeat = 1000,
    Contraction = 500,
    DigitGroup = 1000, Numeral = 1500,
    LineEnd = 1000, LineEnds = 1000, Blanks = 1000, LoneBlank = 1000, BlankChange = 500,
    Marks1 = 1000, Marks2 = 1000, Marks3 = 1200, Marks4 = 1800,
    SpaceMarks1 = 1000, SpaceMarks2 = 1000, SpaceMarks3 = 1500, SpaceMarks4 = 2000,
    MarkChange = 640, MarkRepeat = 700, MarkLineEnd = 200,
    ForeignAfterBlank = 300, ForeignAfterMark = 900, ForeignBare = 300,
    LatinExt = 400, CapitalExt = 600, Accent = 900, Greek = 300, Cyrillic = 240, Hebrew = 360, Arabic = 360,
    Indic = 360, SouthEast = 500, Kana = 700, Hangul = 700, Han = 700, OtherLetter = 1500,
    Punctuation = 970, Rule = 970, RuleRepeat = 150, Symbol = 1500, Joiner = 1000, Emoji = 2130, Rare = 3500,
}

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
