//! What an upstream repeats of the beginning that it was told to go on with.

use super::overlap::OverlapFinder;

/// Shorter beginnings are not taken for repeated ones: an answer may say the same few words twice.
const SHORTEST_BYTES: usize = 32;

/// Leaves the repetition out of what comes first.
#[derive(Debug, Default)]
pub struct RepetitionFilter {
    /// What may be repeated, as long as it is not known whether it is.
    said: Option<String>,
    /// Bytes at its end that were not sent.
    unsent: usize,
    /// What has come and may be part of a repetition.
    held: String,
    /// Where the model was only asked to go on.
    about: Option<OverlapFinder>,
    /// Whether it has said nothing but what it had said.
    says_nothing: bool,
}

impl RepetitionFilter {
    /// The next stream was told to go on with `said`, all of it.
    fn expect(&mut self, said: &str) {
        *self = Self { said: (!said.is_empty()).then(|| said.to_owned()), ..Self::default() };
    }

    /// The same, but whitespace at the end of `said` was not sent: it may come again by itself.
    pub fn expect_trimmed(&mut self, said: &str) {
        self.expect(said);
        self.unsent = said.len() - said.trim_end().len();
    }

    /// The next stream was asked to go on with `said`, where `gap` was about to come: it may repeat the end of it.
    pub fn expect_about(&mut self, said: &str, gap: &str) {
        *self = Self { about: Some(OverlapFinder::new(said, gap)), ..Self::default() };
    }

    /// More text of the stream: what of it (and of what was held) is new. `None` if that is not known yet.
    pub fn pass(&mut self, text: &str) -> Option<String> {
        if let Some(overlap) = &mut self.about {
            let new = overlap.pass(text)?;
            self.about = None;
            return Some(new);
        }
        let Some(said) = &self.said else { return Some(text.to_owned()) };
        self.held.push_str(text);
        if said.len() >= SHORTEST_BYTES {
            if said.len() > self.held.len() && said.starts_with(&self.held) {
                return None;
            }
            if let Some(new) = self.held.strip_prefix(said.as_str()) {
                let new = new.to_owned();
                *self = Self::default();
                return Some(new);
            }
        }
        let gap = &said[said.len() - self.unsent..];
        if gap.len() > self.held.len() && gap.starts_with(&self.held) {
            return None;
        }
        Some(self.settle())
    }

    /// The text is over: what was held is new after all.
    pub fn end(&mut self) -> Option<String> {
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

    /// Returns whether a model that was asked to go on has ended with nothing new.
    pub fn says_nothing(&self) -> bool {
        self.says_nothing
    }

    /// It was no repetition. Whitespace at the end of the beginning may not have been sent: then it comes again.
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
