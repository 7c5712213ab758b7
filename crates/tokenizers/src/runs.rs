//! Long runs (a megabyte of one letter, of spaces, of emoji) counted in pieces.
//!
//! The pre-tokenizer makes one piece of such a run, and merging a piece of a million bytes is slow: memory, not
//! arithmetic. The run is cut into windows of 2 KiB, and the count stays exact, by two facts:
//!
//! - *Pre-tokenizer.* Inside a run of characters of one class, at least two characters before its end, the text left of
//!   a cut and the text right of it fall into the same pieces as the whole, but for the one piece that is cut.
//!   The patterns never look behind, and ahead no further than where the run ends.
//! - *Merging.* Tokens in a row are what a text is encoded to if and only if each two neighbours are (the lemma behind
//!   GitHub's `bpe` crate). A window's tokens but for the last few are kept; the next window starts after them. If its
//!   first token is the one that was dropped there, the two neighbours at the seam have been seen together; if not,
//!   they are asked. A seam that does not hold sends the whole text to the plain count.

use tiktoken::CoreBpe;

/// The least length of a long run, in bytes. The plain count handles shorter runs.
const LONG_BYTES: usize = 4 << 10;

/// The distance between two cuts, in bytes.
const WINDOW_BYTES: usize = 2 << 10;

/// The number of bytes at the end of a run without a cut.
const MARGIN_BYTES: usize = 64;

/// The number of tokens at the end of a window that the text behind it may still change. The next window counts
/// them again.
const DROPPED: usize = 4;

/// Returns the number of tokens of `text`.
pub(crate) fn count(bpe: &CoreBpe, text: &str) -> u64 {
    let cuts = cuts(text);
    let cut = if cuts.is_empty() { None } else { count_in_windows(bpe, text, &cuts) };
    cut.unwrap_or_else(|| bpe.count(text) as u64)
}

/// Counts window by window; `None` if a seam does not hold.
fn count_in_windows(bpe: &CoreBpe, text: &str, cuts: &[usize]) -> Option<u64> {
    let (mut total, mut start) = (0, 0);
    let mut seam: Option<[u32; 2]> = None;
    for &cut in cuts {
        let tokens = bpe.encode(text.get(start..cut)?);
        is_stable_seam(bpe, seam, &tokens).then_some(())?;
        let kept;
        (kept, start) = last_boundary(bpe, text, &tokens, cut)?;
        seam = Some([*tokens.get(kept.checked_sub(1)?)?, *tokens.get(kept)?]);
        total += kept as u64;
    }
    let rest = bpe.encode(text.get(start..)?);
    is_stable_seam(bpe, seam, &rest).then_some(total + rest.len() as u64)
}

/// Reports whether the window `tokens` may follow. It starts with the token that was dropped at the seam, or with
/// another token that does not merge with the one before.
fn is_stable_seam(bpe: &CoreBpe, seam: Option<[u32; 2]>, tokens: &[u32]) -> bool {
    let (Some([last, dropped]), Some(&first)) = (seam, tokens.first()) else { return true };
    if first == dropped {
        return true;
    }
    // Both tokens may be parts of one character, and only whole characters can be encoded again.
    let together = String::from_utf8(bpe.decode(&[last, first]));
    together.is_ok_and(|text| bpe.encode(&text) == [last, first])
}

/// Returns the last place between two tokens and two characters, before the tokens to be dropped: the number of
/// tokens before it, and its position. The window ends at `cut`.
fn last_boundary(bpe: &CoreBpe, text: &str, tokens: &[u32], cut: usize) -> Option<(usize, usize)> {
    let most = tokens.len().checked_sub(DROPPED)?;
    // A token may end inside a character. A character has at most four bytes, so one of so many places is a
    // boundary.
    (most.saturating_sub(DROPPED)..=most).rev().find_map(|kept| {
        let at = cut.checked_sub(bpe.decode(tokens.get(kept..)?).len())?;
        text.is_char_boundary(at).then_some((kept, at))
    })
}

/// Returns the places of the cuts: inside long runs only, so none in most texts. A long run covers a multiple of
/// its least length, so only those places are checked.
fn cuts(text: &str) -> Vec<usize> {
    let mut cuts = Vec::new();
    let mut probe = LONG_BYTES;
    while probe < text.len() {
        let (start, end) = run_around(text, text.floor_char_boundary(probe));
        if end - start >= LONG_BYTES {
            // The patterns look ahead to the end of a run. The last blank of a run, for example, belongs to the
            // word behind it.
            let last = end - MARGIN_BYTES;
            let places = (start + WINDOW_BYTES..last).step_by(WINDOW_BYTES);
            cuts.extend(places.map(|place| text.floor_char_boundary(place)));
        }
        probe = (end.max(probe) / LONG_BYTES + 1) * LONG_BYTES;
    }
    cuts
}

/// Returns the run of one class around `at`; empty if the character there has no class.
fn run_around(text: &str, at: usize) -> (usize, usize) {
    let (before, after) = text.split_at(at);
    let Some(class) = after.chars().next().and_then(CharacterClass::of) else { return (at, at) };
    let back = class.run_bytes(before.chars().rev());
    let ahead = class.run_bytes(after.chars());
    let (start, end) = (at - back, at + ahead);
    // The pre-tokenizer joins line ends to marks before them. The text behind is then cut differently.
    let next = text.get(end..).and_then(|rest| rest.chars().next());
    let open =
        class == CharacterClass::LineEnd && next.is_some_and(|next| next == '/' || next.is_whitespace());
    if open { (at, at) } else { (start, end) }
}

/// The classes of characters that the patterns of `o200k_base` and `cl100k_base` treat alike. Only classes that
/// make long runs are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CharacterClass {
    Small,
    Capital,
    Caseless,
    Blank,
    LineEnd,
    Mark,
}

impl CharacterClass {
    fn of(char: char) -> Option<Self> {
        Some(match char {
            'a'..='z' | 'а'..='я' => Self::Small,
            'A'..='Z' | 'А'..='Я' => Self::Capital,
            ' ' | '\t' => Self::Blank,
            '\r' | '\n' => Self::LineEnd,
            '!'..='/' | ':'..='@' | '['..='`' | '{'..='~' => Self::Mark,
            // Box drawing, blocks, shapes; pictures.
            '\u{2500}'..='\u{25ff}' | '\u{1f300}'..='\u{1faff}' => Self::Mark,
            // Hiragana, katakana, Chinese, Hangul.
            '\u{3041}'..='\u{3096}' | '\u{30a1}'..='\u{30fa}' => Self::Caseless,
            '\u{4e00}'..='\u{9fa5}' | '\u{ac00}'..='\u{d7a3}' => Self::Caseless,
            _ => return None,
        })
    }

    /// Returns the length in bytes of the run of this class that `chars` begin with.
    fn run_bytes(self, chars: impl Iterator<Item = char>) -> usize {
        chars.take_while(|char| Self::of(*char) == Some(self)).map(char::len_utf8).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seam_holds_unless_the_neighbours_merge() {
        let bpe = tiktoken::get_encoding("o200k_base").unwrap();
        let id = |text: &str| -> u32 { bpe.encode(text)[0] };
        let (func, tion, dog) = (id("func"), id("tion"), id(" dog"));
        assert_eq!(bpe.encode("function").len(), 1);
        assert!(is_stable_seam(bpe, None, &[tion]), "the first window follows nothing");
        assert!(is_stable_seam(bpe, Some([func, tion]), &[tion, dog]), "seen together before");
        assert!(is_stable_seam(bpe, Some([func, tion]), &[dog]), "they stay apart");
        assert!(!is_stable_seam(bpe, Some([func, dog]), &[tion]), "they merge");
    }

    #[test]
    fn only_long_runs_are_cut() {
        let text = format!("{} {}9{}", "word ".repeat(2_000), "a".repeat(3_000), " ".repeat(9_000));
        let start = text.len() - 9_000;
        let cuts = cuts(&text);
        assert!(
            cuts.len() >= 3 && cuts.iter().all(|cut| *cut > start && *cut < text.len()),
            "{cuts:?} from {start}"
        );
    }
}
