//! What a model repeats that was only asked to go on with its answer: the end of what it had said, or all of it.

/// A repetition of so many characters is one, whatever follows it.
const SURE_CHARS: usize = 32;

/// Where scripts have no blanks a shorter repetition may be chance.
const LEAST_CHARS_WITHOUT_BLANKS: usize = 4;

/// Holds back what comes first, until it is known how much of it was said before.
#[derive(Debug, Default)]
pub struct Overlap {
    said: String,
    /// The whitespace that was about to come when the answer was stopped.
    gap: String,
    held: String,
    /// Places of what was said from which it may be being repeated; `None` before anything came.
    starts: Option<Vec<usize>>,
}

impl Overlap {
    /// The model was asked to go on with `said`; the stream that was left would have gone on with `gap`.
    pub fn new(said: &str, gap: &str) -> Self {
        Self { said: said.to_owned(), gap: gap.to_owned(), ..Self::default() }
    }

    /// More text of the stream: what of it, and of what was held, is new. `None` if that is not known yet.
    pub fn pass(&mut self, text: &str) -> Option<String> {
        self.held.push_str(text);
        if self.held.is_empty() {
            return None;
        }
        let starts = match self.starts.take() {
            Some(starts) => starts,
            None => self.said.char_indices().map(|(at, _)| at).collect(),
        };
        let held = self.held.as_str();
        let agrees = |at: &usize| {
            let rest = &self.said[*at..];
            rest.starts_with(held) || held.starts_with(rest)
        };
        let starts: Vec<usize> = starts.into_iter().filter(agrees).collect();
        // Of a repetition that ends just here it is not known whether it goes on as a repetition does.
        let is_open = starts.iter().any(|at| self.said.len() - at >= held.len());
        self.starts = Some(starts);
        if is_open { None } else { Some(self.settle()) }
    }

    /// The text is over: what of what was held is new.
    pub fn settle(&mut self) -> String {
        let Self { said, gap, held, starts } = std::mem::take(self);
        let rest = |at: &usize| held.strip_prefix(&said[*at..]);
        // In order, so the longest repetition comes first.
        let repeated = starts.unwrap_or_default().into_iter().find(|at| {
            rest(at).is_some_and(|rest| is_repetition(said[*at..].chars().count(), rest, gap.is_empty()))
        });
        let new = repeated.as_ref().and_then(rest).unwrap_or(&held);
        match new.chars().next() {
            Some(first) if !gap.is_empty() && begins_word(first) => format!("{gap}{new}"),
            _ => new.to_owned(),
        }
    }
}

/// Whether so many characters that were said before, and what follows them, are a repetition: it ends where the answer
/// was stopped, which is at the end of a word.
fn is_repetition(chars: usize, rest: &str, is_without_blanks: bool) -> bool {
    let ends_word = rest.chars().next().is_none_or(|next| !next.is_alphanumeric());
    chars >= SURE_CHARS
        || match is_without_blanks {
            true => chars >= LEAST_CHARS_WITHOUT_BLANKS,
            false => ends_word,
        }
}

/// Whether a blank belongs before it.
fn begins_word(first: char) -> bool {
    !first.is_whitespace() && !".,;:!?)]}…»”’%".contains(first)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn new(said: &str, gap: &str, pieces: &[&str]) -> String {
        let mut overlap = Overlap::new(said, gap);
        let mut pieces = pieces.iter();
        for piece in pieces.by_ref() {
            if let Some(first) = overlap.pass(piece) {
                return pieces.fold(first, |all, piece| all + piece);
            }
        }
        overlap.settle()
    }

    const SAID: &str = "The quick brown fox jumps over a";

    #[test]
    fn what_goes_on_goes_on() {
        assert_eq!(new(SAID, " ", &[" lazy", " dog"]), " lazy dog");
        assert_eq!(new(SAID, " ", &["lazy dog"]), " lazy dog", "models leave the blank out");
        assert_eq!(new(SAID, "\n\n", &["Then"]), "\n\nThen");
        assert_eq!(new(SAID, " ", &[", lazily"]), ", lazily");
        assert_eq!(new(SAID, " ", &["a", "pple"]), " apple", "a word that only begins like the last one");
        assert_eq!(new(SAID, " ", &[]), "");
    }

    #[test]
    fn what_is_repeated_is_left_out() {
        assert_eq!(new(SAID, " ", &["a", " lazy"]), " lazy");
        assert_eq!(new(SAID, " ", &["over a lazy"]), " lazy");
        assert_eq!(new(SAID, " ", &["ver", " a", " lazy"]), " lazy", "in the middle of a word");
        assert_eq!(new(SAID, " ", &[SAID, " lazy"]), " lazy", "all of it");
        assert_eq!(new(SAID, " ", &[SAID]), "");
        assert_eq!(new("一二三四五六", "", &["四五六七"]), "四五六七", "too short to be sure");
        assert_eq!(new("一二三四五六", "", &["三四五六七"]), "七");
    }

    #[test]
    fn what_only_looks_like_a_repetition_stays() {
        assert_eq!(new(SAID, " ", &["The quick brown", " cow"]), " The quick brown cow");
        assert_eq!(new(SAID, " ", &["over an apple"]), " over an apple");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1_000))]

        #[test]
        fn whatever_end_is_repeated_it_is_there_once(
            words in proptest::collection::vec("[a-z]{1,7}", 3..40),
            at in 1_usize..39,
            repeats in 0_usize..300,
            size in 1_usize..9,
        ) {
            let at = at.min(words.len() - 1);
            let (said, rest) = (words[..at].join(" "), format!(" {}", words[at..].join(" ")));
            let from = said.len().saturating_sub(repeats);
            let stream = format!("{}{rest}", &said[from..]);
            let pieces: Vec<&str> =
                stream.as_bytes().chunks(size).map(|piece| std::str::from_utf8(piece).unwrap()).collect();
            prop_assert_eq!(new(&said, " ", &pieces), rest);
        }
    }
}
