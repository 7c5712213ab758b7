//! Removal of text that an upstream repeats when it continues a begun answer.

use super::overlap::OverlapFinder;

/// The least length of a beginning that can be repeated, in bytes. An answer may say the same few words twice.
const SHORTEST_BYTES: usize = 32;

/// A filter that removes the repetition from the first text of a stream.
#[derive(Debug, Default)]
pub(crate) struct RepetitionFilter {
    /// The text that the stream may repeat, until the question is settled.
    said: Option<String>,
    /// The number of unsent bytes at the end of `said`.
    unsent: usize,
    /// The received text, maybe part of a repetition.
    held: String,
    /// The finder for a model that was only asked to continue.
    about: Option<OverlapFinder>,
    /// `true` if the model only repeated its earlier text.
    says_nothing: bool,
}

impl RepetitionFilter {
    /// Expects a stream that was told to continue `said`, all of it.
    fn expect(&mut self, said: &str) {
        *self = Self { said: (!said.is_empty()).then(|| said.to_owned()), ..Self::default() };
    }

    /// Expects a stream that was told to continue `said` without the whitespace at its end, which may come again
    /// by itself.
    pub(crate) fn expect_trimmed(&mut self, said: &str) {
        self.expect(said);
        self.unsent = said.len() - said.trim_end().len();
    }

    /// Expects a stream that was asked to continue `said`, where `gap` was about to come. The stream may repeat
    /// the end of `said`.
    pub(crate) fn expect_about(&mut self, said: &str, gap: &str) {
        *self = Self { about: Some(OverlapFinder::new(said, gap)), ..Self::default() };
    }

    /// Takes more text of the stream. Returns the new part of the text and of the held text; `None` if the new part
    /// is not known yet.
    pub(crate) fn pass(&mut self, text: &str) -> Option<String> {
        if let Some(overlap) = &mut self.about {
            let new = overlap.pass(text)?;
            self.about = None;
            return Some(new);
        }
        let Some(said) = &self.said else { return Some(text.to_owned()) };
        self.held.push_str(text);
        if said.len() >= SHORTEST_BYTES {
            // The text is a repetition only if the whole beginning comes again. Until then all of it is held.
            if said.len() > self.held.len() && said.starts_with(&self.held) {
                return None;
            }
            if let Some(new) = self.held.strip_prefix(said.as_str()) {
                let new = new.to_owned();
                *self = Self::default();
                return Some(new);
            }
        }
        // The whitespace at the end was not sent, so a model may write it again.
        let gap = &said[said.len() - self.unsent..];
        if gap.len() > self.held.len() && gap.starts_with(&self.held) {
            return None;
        }
        Some(self.settle())
    }

    /// Ends the text. The held text was new after all.
    pub(crate) fn end(&mut self) -> Option<String> {
        if let Some(mut overlap) = self.about.take() {
            let rest = overlap.end();
            self.says_nothing = rest.trim().is_empty();
            return Some(rest).filter(|rest| !rest.is_empty());
        }
        if self.held.is_empty() {
            return None;
        }
        let rest = self.settle();
        (!rest.is_empty()).then_some(rest)
    }

    /// Reports whether a model that was asked to continue has ended without new text.
    pub(crate) fn says_nothing(&self) -> bool {
        self.says_nothing
    }

    /// Settles that the stream repeats nothing. Unsent whitespace at the end of the beginning may come again.
    fn settle(&mut self) -> String {
        let Self { said, unsent, held, .. } = std::mem::take(self);
        let said = said.unwrap_or_default();
        let gap = &said[said.len() - unsent..];
        let repeated: usize =
            gap.chars().zip(held.chars()).take_while(|(a, b)| a == b).map(|(a, _)| a.len_utf8()).sum();
        held[repeated..].to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "Once upon a time there was a small crab. ";

    fn new(said: &str, deltas: &[&str]) -> String {
        let mut echo = RepetitionFilter::default();
        echo.expect(said);
        all(echo, deltas)
    }

    fn new_after_trimmed(said: &str, deltas: &[&str]) -> String {
        let mut echo = RepetitionFilter::default();
        echo.expect_trimmed(said);
        all(echo, deltas)
    }

    fn all(mut echo: RepetitionFilter, deltas: &[&str]) -> String {
        let mut all: String = deltas.iter().filter_map(|delta| echo.pass(delta)).collect();
        all.extend(echo.end());
        all
    }

    #[test]
    fn a_repetition_is_left_out_however_it_comes() {
        let whole = format!("{SAID}It lived");
        assert_eq!(new(SAID, &[&whole]), "It lived");
        let letters: Vec<String> = whole.chars().map(String::from).collect();
        let letters: Vec<&str> = letters.iter().map(String::as_str).collect();
        assert_eq!(new(SAID, &letters), "It lived");
        assert_eq!(new(SAID, &[SAID]), "");
    }

    #[test]
    fn what_only_looks_like_one_stays() {
        assert_eq!(new(SAID, &["Once upon", " a mine"]), "Once upon a mine");
        assert_eq!(new(SAID, &["Once upon"]), "Once upon");
        assert_eq!(new("ha", &["ha", "ha"]), "haha", "too short to be sure");
        assert_eq!(new("", &[" x"]), " x");
    }

    #[test]
    fn whitespace_that_was_not_sent_is_not_doubled() {
        assert_eq!(new_after_trimmed(SAID, &[" ", "It"]), "It");
        assert_eq!(new_after_trimmed(SAID, &["It"]), "It");
        assert_eq!(new_after_trimmed("a\n\n", &["\n", "\n", "b"]), "b");
        assert_eq!(new_after_trimmed("a\n\n", &["\n", "b"]), "b");
        assert_eq!(new_after_trimmed("a\n", &["\n\nb"]), "\nb");
        assert_eq!(new_after_trimmed("a", &[" b"]), " b");
        assert_eq!(new("a ", &[" b"]), " b", "what was sent is not said again");
    }
}
