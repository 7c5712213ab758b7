//! The scanner of the estimate: one pass cuts a text as the pre-tokenizer of `o200k_base` does, and counts the pieces
//! by kind.
//!
//! The rules follow the published pattern of `o200k_base`. A word is capitals, then small letters. The word takes
//! along one blank or one mark before, and `'s`, `'re` … behind. Digits go in threes. Marks go in runs, with one
//! space before and the line ends behind. Blanks go up to the last line end of their run, and the last blank before a
//! word joins the word.

use super::weights::{COMMON_PAIRS, Feature};

/// The number of pieces of each kind.
#[derive(Clone, Debug)]
pub(super) struct FeatureCounts([u64; Feature::COUNT]);

impl FeatureCounts {
    fn add(&mut self, feature: Feature, n: u64) {
        self.at(feature as usize, n);
    }

    fn take_back(&mut self, feature: Feature) {
        if let Some(count) = self.0.get_mut(feature as usize) {
            *count = count.saturating_sub(1);
        }
    }

    fn at(&mut self, index: usize, n: u64) {
        if let Some(count) = self.0.get_mut(index) {
            *count += n;
        }
    }

    /// Returns the counts in the order of the features.
    pub(super) fn iter(&self) -> impl Iterator<Item = u64> {
        self.0.iter().copied()
    }
}

/// The class of a character for the pre-tokenizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PreTokenizerClass {
    Upper,
    Lower,
    Digit,
    Newline,
    Blank,
    Mark,
    /// A letter outside ASCII, with the feature that weighs it.
    Letter(Feature),
    /// A symbol outside ASCII, with the feature that weighs it.
    Symbol(Feature),
    /// A digit outside ASCII.
    Numeral,
}

impl PreTokenizerClass {
    fn is_letter(self) -> bool {
        matches!(self, Self::Upper | Self::Lower | Self::Letter(_))
    }

    fn is_mark(self) -> bool {
        matches!(self, Self::Mark | Self::Symbol(_))
    }
}

/// The classes of the ASCII characters. Control characters count as symbols, not as marks.
const ASCII: [PreTokenizerClass; 128] = {
    let mut table = [PreTokenizerClass::Mark; 128];
    let mut byte = 0;
    while byte < 128 {
        table[byte] = match byte as u8 {
            b'A'..=b'Z' => PreTokenizerClass::Upper,
            b'a'..=b'z' => PreTokenizerClass::Lower,
            b'0'..=b'9' => PreTokenizerClass::Digit,
            b'\n' | b'\r' => PreTokenizerClass::Newline,
            b' ' | b'\t' | 0x0b | 0x0c => PreTokenizerClass::Blank,
            0..=0x1f | 0x7f => PreTokenizerClass::Symbol(Feature::Symbol),
            _ => PreTokenizerClass::Mark,
        };
        byte += 1;
    }
    table
};

/// The character that a word takes along from before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WordPrefix {
    /// A space, or another blank.
    Blank,
    /// One mark.
    Mark,
    /// No character: the word follows a letter, a digit, several marks, or the start of a line.
    Nothing,
}

/// Counts the pieces of `text`.
pub(super) fn scan(text: &str) -> FeatureCounts {
    let mut scanner =
        FeatureScanner { text, bytes: text.as_bytes(), at: 0, counts: FeatureCounts([0; Feature::COUNT]) };
    while let Some((class, len)) = scanner.peek(scanner.at) {
        match class {
            PreTokenizerClass::Upper | PreTokenizerClass::Lower | PreTokenizerClass::Letter(_) => {
                scanner.word(WordPrefix::Nothing)
            }
            PreTokenizerClass::Digit => scanner.digits(),
            PreTokenizerClass::Numeral => scanner.numeral(len),
            PreTokenizerClass::Newline | PreTokenizerClass::Blank => scanner.whitespace(),
            PreTokenizerClass::Mark | PreTokenizerClass::Symbol(_) => scanner.marks(false),
        }
    }
    scanner.counts
}

struct FeatureScanner<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    counts: FeatureCounts,
}

impl FeatureScanner<'_> {
    /// Returns the class of the character that starts at `at`, with the character's bytes.
    fn peek(&self, at: usize) -> Option<(PreTokenizerClass, usize)> {
        let byte = *self.bytes.get(at)?;
        if let Some(class) = ASCII.get(usize::from(byte)) {
            return Some((*class, 1));
        }
        let char = self.text.get(at..)?.chars().next()?;
        Some((classify(char), char.len_utf8()))
    }

    fn digits(&mut self) {
        let start = self.at;
        while let Some((PreTokenizerClass::Digit, _)) = self.peek(self.at) {
            self.at += 1;
        }
        let digits = self.at - start;
        // Some vocabularies have a token for each digit: the excess carries the difference to groups of three.
        let threes = digits.div_ceil(3);
        self.counts.add(Feature::DigitGroup, threes as u64);
        self.counts.add(Feature::DigitExcess, (digits - threes) as u64);
    }

    fn numeral(&mut self, len: usize) {
        self.at += len;
        self.counts.add(Feature::Numeral, 1);
    }

    /// Counts a run of whitespace: one piece up to the last line end, one piece of blanks, and the last blank. The
    /// last blank joins the word or the marks behind.
    fn whitespace(&mut self) {
        let start = self.at;
        let (mut lines_end, mut changes, mut last) = (start, 0_u64, 0_u8);
        let mut class = self.peek(self.at);
        while let Some((kind @ (PreTokenizerClass::Newline | PreTokenizerClass::Blank), len)) = class {
            let byte = self.bytes.get(self.at).copied().unwrap_or_default();
            changes += u64::from(byte != last);
            last = byte;
            self.at += len;
            if kind == PreTokenizerClass::Newline {
                lines_end = self.at;
            }
            class = self.peek(self.at);
        }
        self.lines(lines_end - start, changes);
        self.blanks(self.at - lines_end, last, class.map(|(class, _)| class));
    }

    fn lines(&mut self, bytes: usize, changes: u64) {
        match bytes {
            0 => {}
            1 => self.counts.add(Feature::LineEnd, 1),
            _ => {
                let more = (bytes.div_ceil(16) as u64).max(changes / 4) - 1;
                self.counts.add(Feature::LineEnds, 1);
                self.counts.add(Feature::LineEndRepeat, more);
            }
        }
    }

    fn blanks(&mut self, bytes: usize, last: u8, next: Option<PreTokenizerClass>) {
        if bytes == 0 {
            return;
        }
        // In the pattern a word takes any blank along, but marks take a space only.
        let joins = match next {
            Some(class) if class.is_letter() => true,
            Some(class) if class.is_mark() => last == b' ',
            _ => false,
        };
        // The pattern's `\s+(?!\S)` leaves the last blank of a run to the piece behind.
        let alone = bytes - usize::from(next.is_some());
        self.counts.add(Feature::Blanks, alone.div_ceil(if last == b' ' { 80 } else { 16 }) as u64);
        match next {
            Some(class) if joins && class.is_letter() => {
                self.counts.add(Feature::TabWord, u64::from(last != b' '));
                self.word(WordPrefix::Blank);
            }
            Some(_) if joins => self.marks(true),
            Some(_) => self.counts.add(Feature::LoneBlank, 1),
            None => {}
        }
    }

    /// Counts a run of marks. A single mark joins the word behind, unless a space stands before.
    fn marks(&mut self, space_before: bool) {
        let start = self.at;
        let mut run = PunctuationRun::default();
        let mut class = self.peek(self.at);
        while let Some((kind @ (PreTokenizerClass::Mark | PreTokenizerClass::Symbol(_)), len)) = class {
            let byte = self.bytes.get(self.at).copied().unwrap_or_default();
            match kind {
                PreTokenizerClass::Symbol(feature) => self.symbol(feature, start, len, &mut run),
                _ => run.mark(byte),
            }
            self.at += len;
            class = self.peek(self.at);
        }
        let single = run.chars == 1;
        if self.escape() {
            return self.count_escape(&run, single && !space_before, space_before);
        }
        if single && !space_before && class.is_some_and(|(class, _)| class.is_letter()) {
            self.mark_before_word(start);
            return self.word(WordPrefix::Mark);
        }
        self.line_ends_after_marks();
        self.count_marks(&run, space_before);
        self.counts
            .add(Feature::WordAfterMarks, u64::from(class.is_some_and(|(class, _)| class.is_letter())));
    }

    /// Takes the letter of `\n`, `\t` or `\r`, as code has them inside JSON. The pre-tokenizer sees a word that
    /// begins with the letter, but the merges cut the letter off again.
    fn escape(&mut self) -> bool {
        let backslash = self.at.checked_sub(1).and_then(|at| self.bytes.get(at)) == Some(&b'\\');
        let escape = backslash && matches!(self.bytes.get(self.at), Some(b'n' | b't' | b'r'));
        self.at += usize::from(escape);
        escape
    }

    fn count_escape(&mut self, run: &PunctuationRun, alone: bool, space_before: bool) {
        if alone {
            let glued = self.peek(self.at).is_some_and(|(class, _)| class.is_letter());
            return self.counts.add(if glued { Feature::EscapeWord } else { Feature::Escape }, 1);
        }
        self.counts.add(Feature::EscapeAfterMarks, 1);
        self.count_marks(run, space_before);
    }

    /// Counts the mark that a word takes along. Some vocabularies have many words with their mark, others none.
    fn mark_before_word(&mut self, at: usize) {
        let feature = match (self.bytes.get(at), self.peek(at)) {
            (Some(b'_'), _) => Feature::UnderscoreWord,
            (Some(b'-'), _) => Feature::DashWord,
            (Some(b'/'), _) => Feature::SlashWord,
            (Some(b'\\'), _) => Feature::BackslashWord,
            (_, Some((PreTokenizerClass::Symbol(Feature::Punctuation), _))) => {
                // The run has counted a typographic mark as a symbol, but before a word such a mark costs no more
                // than others.
                return self.counts.take_back(Feature::Punctuation);
            }
            _ => return,
        };
        self.counts.add(feature, 1);
    }

    fn symbol(&mut self, feature: Feature, start: usize, len: usize, run: &mut PunctuationRun) {
        let here = self.bytes.get(self.at..self.at + len);
        let before = self.at.checked_sub(len).filter(|&at| at >= start);
        let same = here.is_some() && before.is_some_and(|at| self.bytes.get(at..at + len) == here);
        if feature == Feature::Rule && same {
            self.counts.add(Feature::RuleRepeat, 1);
        } else {
            self.counts.add(feature, 1);
        }
        run.symbol();
    }

    /// Takes the line ends behind a run of marks, with slashes among them.
    fn line_ends_after_marks(&mut self) {
        let start = self.at;
        let (mut changes, mut last) = (0, 0);
        while let Some(&byte @ (b'\n' | b'\r' | b'/')) = self.bytes.get(self.at) {
            changes += u64::from(byte != last);
            last = byte;
            self.at += 1;
        }
        let len = self.at - start;
        self.counts.add(Feature::MarkedLineEnd, u64::from(len > 0));
        self.counts.add(Feature::LineEndRepeat, ((len / 16) as u64).max(changes.saturating_sub(2) / 2));
    }

    fn count_marks(&mut self, run: &PunctuationRun, space_before: bool) {
        if run.marks == 0 {
            return;
        }
        let first = if space_before { Feature::SpaceMarks1 } else { Feature::Marks1 } as usize;
        self.counts.at(first + (run.kinds.min(4) as usize).saturating_sub(1), 1);
        self.counts.add(Feature::MarkChange, run.kinds.saturating_sub(4));
        self.counts.add(Feature::MarkRepeat, run.repeats);
    }

    /// Counts a word: capitals, then small letters. Letters without case count as both.
    fn word(&mut self, before: WordPrefix) {
        let mut word = WordFeatureCounts::default();
        // Most of the work is done here, one byte at a time. Local variables that are never borrowed stay in
        // registers.
        let (bytes, mut at, mut small) = (self.bytes, self.at, false);
        let (mut letters, mut capitals, mut rare_pairs, mut repeats) = (0_u64, 0_u64, 0_u64, 0_u64);
        let (mut last, mut same) = (0_u8, 0_u64);
        while let Some(&byte) = bytes.get(at) {
            match byte {
                b'a'..=b'z' => small = true,
                // In the pattern a capital behind a small letter begins the next word.
                b'A'..=b'Z' if !small => capitals += 1,
                0x80.. => {
                    let Some((len, is_small)) = self.foreign_letter(at, &mut word, small) else { break };
                    (at, small, last) = (at + len, is_small, 0);
                    continue;
                }
                _ => break,
            }
            // From the fourth in a row on, equal letters are repeats and do not make the word longer.
            same = if byte == last { same + 1 } else { 0 };
            if same < 3 {
                letters += 1;
                rare_pairs += u64::from(is_rare(last, byte));
            } else {
                repeats += 1;
                capitals -= u64::from(byte.is_ascii_uppercase());
            }
            last = byte;
            at += 1;
        }
        self.at = at;
        word = WordFeatureCounts { letters, capitals, rare_pairs, repeats, ..word };
        self.contraction(&word);
        self.count_word(&word, before);
    }

    /// Takes a letter outside ASCII into the word, if the letter continues the word. Returns the letter's bytes, and
    /// whether small letters have begun.
    fn foreign_letter(
        &mut self,
        at: usize,
        word: &mut WordFeatureCounts,
        small: bool,
    ) -> Option<(usize, bool)> {
        let (PreTokenizerClass::Letter(feature), len) = self.peek(at)? else { return None };
        if feature == Feature::CapitalExt && small {
            return None;
        }
        self.counts.add(feature, 1);
        word.foreign_letter(feature);
        Some((len, small | (feature == Feature::LatinExt)))
    }

    /// Takes `'s`, `'re` … into the word before.
    fn contraction(&mut self, word: &WordFeatureCounts) {
        let len = match self.bytes.get(self.at..).unwrap_or_default() {
            [b'\'', b'r' | b'R' | b'v' | b'V', b'e' | b'E', ..] | [b'\'', b'l' | b'L', b'l' | b'L', ..] => 3,
            [b'\'', b's' | b'S' | b't' | b'T' | b'm' | b'M' | b'd' | b'D', ..] => 2,
            _ => return,
        };
        if word.letters + word.foreign > 0 {
            self.at += len;
            self.counts.add(Feature::Contraction, 1);
        }
    }

    fn count_word(&mut self, word: &WordFeatureCounts, before: WordPrefix) {
        if word.foreign > 0 {
            self.counts.add(Feature::ForeignAfterBlank, u64::from(before == WordPrefix::Blank));
            self.counts.add(Feature::ForeignBare, u64::from(before == WordPrefix::Nothing));
            self.counts.add(Feature::AlphabetExcess, word.alphabetic.saturating_sub(24));
        }
        self.counts.add(Feature::RarePair, word.rare_pairs);
        self.counts.add(Feature::LetterRepeat, word.repeats.div_ceil(8));
        let Some(longer) = word.letters.checked_sub(1) else { return };
        let all_capitals = word.capitals == word.letters && word.letters > 1;
        let first = match before {
            _ if all_capitals => Feature::Capitals2,
            WordPrefix::Blank => Feature::BlankWord1,
            WordPrefix::Mark => Feature::MarkWord1,
            WordPrefix::Nothing => Feature::BareWord1,
        } as usize;
        if all_capitals {
            self.counts.at(first + (longer as usize - 1).min(Feature::CAPITAL_SIZES - 1), 1);
            // The rows by length end at 8 capitals and at 20 letters; longer words count their excess apart.
            self.counts.add(Feature::CapitalExcess, word.letters.saturating_sub(8));
            self.counts.add(Feature::CapitalsGlued, u64::from(before != WordPrefix::Blank));
            return;
        }
        self.counts.at(first + Feature::size(longer as usize), 1);
        self.counts.add(Feature::LetterExcess, word.letters.saturating_sub(20));
        self.counts.add(Feature::ExtraCapital, word.capitals.saturating_sub(1));
    }
}

/// A run of marks during the scan.
#[derive(Default)]
struct PunctuationRun {
    chars: u64,
    marks: u64,
    kinds: u64,
    repeats: u64,
    last: u8,
    same: u64,
}

impl PunctuationRun {
    fn mark(&mut self, byte: u8) {
        self.chars += 1;
        self.marks += 1;
        if byte == self.last {
            self.same += 1;
            self.repeats += u64::from(self.same.is_multiple_of(32));
        } else {
            self.kinds += 1;
            self.same = 0;
        }
        self.last = byte;
    }

    fn symbol(&mut self) {
        self.chars += 1;
        self.last = 0;
    }
}

/// A word during the scan: the ASCII letters, and the number of letters of other scripts.
#[derive(Default)]
struct WordFeatureCounts {
    letters: u64,
    capitals: u64,
    /// Letters of other scripts.
    foreign: u64,
    /// The foreign letters of scripts that separate words.
    alphabetic: u64,
    rare_pairs: u64,
    repeats: u64,
}

impl WordFeatureCounts {
    fn foreign_letter(&mut self, feature: Feature) {
        use Feature::{Han, Hangul, Kana, SouthEast};
        self.foreign += 1;
        self.alphabetic += u64::from(!matches!(feature, Han | Hangul | Kana | SouthEast));
    }
}

/// Returns whether two letters, in any case, seldom stand together in English and in source code. The lowest five
/// bits of a letter are its place in the alphabet, from 1.
fn is_rare(first: u8, second: u8) -> bool {
    let common = COMMON_PAIRS[usize::from(first & 31)] << 1;
    first != 0 && (common >> (second & 31)) & 1 == 0
}

/// Returns the class of a character outside ASCII.
fn classify(char: char) -> PreTokenizerClass {
    if char.is_whitespace() {
        return PreTokenizerClass::Blank;
    }
    match char as u32 {
        0x0300..=0x036f => PreTokenizerClass::Letter(Feature::Accent),
        0x2500..=0x259f | 0x2014..=0x2015 => PreTokenizerClass::Symbol(Feature::Rule),
        0x200d | 0xfe00..=0xfe0f | 0x1f3fb..=0x1f3ff => PreTokenizerClass::Symbol(Feature::Joiner),
        0x00a0..=0x00bf | 0x00d7 | 0x00f7 | 0x2000..=0x206f | 0x3000..=0x303f | 0xff00..=0xff0f
            if !char.is_alphanumeric() =>
        {
            PreTokenizerClass::Symbol(Feature::Punctuation)
        }
        0x1f000..=0x1faff => PreTokenizerClass::Symbol(Feature::Emoji),
        _ if char.is_alphabetic() => PreTokenizerClass::Letter(letter(char)),
        _ if char.is_numeric() => PreTokenizerClass::Numeral,
        code => other(code),
    }
}

/// Returns the class of a character that is no letter or digit. Vowel signs of Indic scripts count as letters, the
/// rest as symbols.
fn other(code: u32) -> PreTokenizerClass {
    match code {
        0x0900..=0x09ff => PreTokenizerClass::Letter(Feature::Indic),
        0x0a00..=0x0dff => PreTokenizerClass::Letter(Feature::IndicSouth),
        0x0591..=0x06ff => PreTokenizerClass::Letter(Feature::Arabic),
        0x0e00..=0x0fff => PreTokenizerClass::Letter(Feature::SouthEast),
        0xe000..=0xf8ff => PreTokenizerClass::Symbol(Feature::Rare),
        0..=0xffff => PreTokenizerClass::Symbol(Feature::Symbol),
        _ => PreTokenizerClass::Symbol(Feature::Rare),
    }
}

fn letter(char: char) -> Feature {
    match char as u32 {
        0x0080..=0x02af | 0x1e00..=0x1eff if char.is_uppercase() => Feature::CapitalExt,
        0x0080..=0x02af => Feature::LatinExt,
        0x1e00..=0x1eff => Feature::Vietnamese,
        0x0370..=0x03ff | 0x1f00..=0x1fff => Feature::Greek,
        0x0400..=0x052f => Feature::Cyrillic,
        0x0530..=0x058f | 0x10a0..=0x10ff | 0x1c90..=0x1cbf => Feature::Caucasian,
        0x0590..=0x05ff => Feature::Hebrew,
        0x0600..=0x077f | 0x08a0..=0x08ff | 0xfb50..=0xfdff | 0xfe70..=0xfeff => Feature::Arabic,
        0x0900..=0x09ff => Feature::Indic,
        0x0a00..=0x0dff => Feature::IndicSouth,
        0x0e00..=0x0fff | 0x1000..=0x109f | 0x1780..=0x17ff => Feature::SouthEast,
        0x3040..=0x30ff | 0x31f0..=0x31ff | 0xff66..=0xff9f => Feature::Kana,
        0x1100..=0x11ff | 0x3130..=0x318f | 0xac00..=0xd7af => Feature::Hangul,
        0x4e00..=0x9fff => Feature::Han,
        0..=0xffff => Feature::OtherLetter,
        _ => Feature::Rare,
    }
}
