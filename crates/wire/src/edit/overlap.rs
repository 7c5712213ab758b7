//! Detection of text that a continued answer repeats: the end of the earlier text, or all of it.

/// The number of characters from which a repetition is certain, whatever follows it.
const SURE_CHARS: usize = 32;

/// The least length of a repetition, in characters, in scripts without blanks. A shorter repetition may be
/// chance.
const LEAST_CHARS_WITHOUT_BLANKS: usize = 4;

/// A buffer for the first text of a stream until the repeated part is known.
#[derive(Debug, Default)]
pub(crate) struct OverlapFinder {
    said: String,
    /// The whitespace due next at the stop of the answer.
    gap: String,
    held: String,
    /// The places in `said` at which the repetition may begin; `None` until the stream brings more than blanks.
    starts: Option<Vec<usize>>,
    /// The number of held bytes that were compared with the text behind `starts`.
    compared: usize,
}

impl OverlapFinder {
    /// Creates a finder for a model with a request to continue `said`. The left stream would have continued with
    /// `gap`.
    pub(crate) fn new(said: &str, gap: &str) -> Self {
        Self { said: said.to_owned(), gap: gap.to_owned(), ..Self::default() }
    }

    /// Takes more text of the stream. Returns the new part of the text and of the held text; `None` if the new part
    /// is not known yet.
    pub(crate) fn pass(&mut self, text: &str) -> Option<String> {
        self.held.push_str(text);
        let (said, held) = (self.said.trim_end(), self.held.trim());
        if held.is_empty() {
            return None;
        }
        let starts = self.starts.take().unwrap_or_else(|| said.char_indices().map(|(at, _)| at).collect());
        let starts: Vec<usize> = starts
            .into_iter()
            .filter(|at| {
                // The bytes up to `compared` agreed when less text was held.
                let rest = &said[*at..];
                let from = self.compared.min(rest.len());
                let (rest, held) = (&rest[from..], &held[from..]);
                rest.starts_with(held) || held.starts_with(rest)
            })
            .collect();
        // A repetition that ends with the held text may still turn out to be none: the next text decides.
        let is_open = starts.iter().any(|at| said.len() - at >= held.len());
        self.compared = held.len();
        self.starts = Some(starts);
        if is_open { None } else { Some(self.settle()) }
    }

    /// Ends the text. Returns the new part of the held text; text that occurs anywhere in `said` is not new.
    pub(crate) fn end(&mut self) -> String {
        let (said, held) = (self.said.trim_end(), self.held.trim());
        let starts = self.starts.as_deref().unwrap_or_default();
        let is_inside = starts.iter().any(|at| said[*at..].starts_with(held));
        if is_inside && held.chars().count() >= SURE_CHARS {
            *self = Self::default();
            return String::new();
        }
        self.settle()
    }

    fn settle(&mut self) -> String {
        let Self { said, gap, held, starts, .. } = std::mem::take(self);
        let cut = OverlapInput::of(&said, &gap, &held);
        // The places are in order, so the first match is the longest repetition.
        let new = starts.unwrap_or_default().into_iter().find_map(|at| cut.behind(at)).unwrap_or(&held);
        let new = if said.ends_with(' ') { new.trim_start_matches(' ') } else { new };
        match new.chars().next() {
            // A model that restarts at a word leaves out the blank before it.
            Some(first) if !gap.is_empty() && begins_word(first) => format!("{gap}{new}"),
            _ => new.to_owned(),
        }
    }
}

/// The earlier text and the new text, without the blanks between them.
struct OverlapInput<'a> {
    said: &'a str,
    /// The blanks at the end of the earlier text, which the client has.
    blanks: &'a str,
    is_without_blanks: bool,
    /// The blanks at the beginning of the new text.
    lead: &'a str,
    held: &'a str,
}

impl<'a> OverlapInput<'a> {
    fn of(said: &'a str, gap: &str, held: &'a str) -> Self {
        let (text, blanks) = said.split_at(said.trim_end().len());
        let (lead, held) = held.split_at(held.len() - held.trim_start().len());
        Self { said: text, blanks, is_without_blanks: gap.is_empty(), lead, held }
    }

    /// Returns the text behind a repetition that begins at this place; `None` if there is no repetition.
    fn behind(&self, at: usize) -> Option<&'a str> {
        let repeated = &self.said[at..];
        let rest = self.held.strip_prefix(repeated)?;
        let chars = repeated.chars().count();
        // The client has the blanks already, so their repetition is left out with the text.
        let same_blanks = rest.strip_prefix(self.blanks);
        if chars >= SURE_CHARS {
            return Some(same_blanks.unwrap_or_else(|| rest.trim_start()));
        }
        // A short repetition counts only if its blanks, too, are the same.
        let has_gap = !self.blanks.is_empty();
        let rest = same_blanks.filter(|_| self.said[..at].ends_with(self.lead))?;
        (has_gap || is_repetition(chars, rest, self.is_without_blanks)).then_some(rest)
    }
}

/// Reports whether a few repeated characters are a repetition and not chance: they end where the answer was
/// stopped, at the end of a word.
fn is_repetition(chars: usize, rest: &str, is_without_blanks: bool) -> bool {
    if is_without_blanks {
        return chars >= LEAST_CHARS_WITHOUT_BLANKS;
    }
    rest.chars().next().is_none_or(|next| !next.is_alphanumeric())
}

/// Reports whether a blank belongs before this character.
fn begins_word(first: char) -> bool {
    !first.is_whitespace() && !".,;:!?)]}…»”’%".contains(first)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn new(said: &str, gap: &str, pieces: &[&str]) -> String {
        let mut overlap = OverlapFinder::new(said, gap);
        let mut pieces = pieces.iter();
        for piece in pieces.by_ref() {
            if let Some(first) = overlap.pass(piece) {
                return pieces.fold(first, |all, piece| all + piece);
            }
        }
        overlap.end()
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
    fn a_blank_that_was_said_is_said_once() {
        let said = format!("{SAID} ");
        for stream in ["lazy", " lazy", &format!("{said}lazy"), "over a lazy"] {
            assert_eq!(new(&said, "", &[stream]), "lazy", "{stream}");
        }
        assert_eq!(new("if x:\n", "", &["    y"]), "    y", "an indentation is none");
    }

    #[test]
    fn what_only_looks_like_a_repetition_stays() {
        assert_eq!(new(SAID, " ", &["The quick brown", " cow"]), " The quick brown cow");
        assert_eq!(new(SAID, " ", &["over an apple"]), " over an apple");
    }

    #[test]
    fn what_begins_as_something_that_was_said_stays() {
        assert_eq!(new("I met the cat and a dog", " ", &["the ", "cow"]), " the cow");
        assert_eq!(new("I met the cat and a dog", " ", &["the "]), " the ", "and if it ends there");
        assert_eq!(new("I met the cat and a dog", " ", &[" the cat"]), " the cat");
    }

    #[test]
    fn a_repetition_is_one_whatever_blanks_are_around_it() {
        let said = format!("{} {SAID} lazy dog.\n\n", "So it was told once. ".repeat(9));
        assert_eq!(new(&said, "", &[said.trim_end()]), "");
        assert_eq!(new(&said, "", &["\n", said.trim_end(), "\n"]), "");
        assert_eq!(new(&said, "", &[said.trim_end(), " Then"]), "Then");
        assert_eq!(new(&said, "", &[said.trim_end(), "\n\n\tThen"]), "\tThen");
        assert_eq!(new(&said, "", &["So it was told once. So it was told\n"]), "");
        let other = "So it was told once. So it was told\nby her";
        assert_eq!(new(&said, "", &[&other[..36], &other[36..]]), other, "it went on");
    }

    /// Splits the text into pieces of so many bytes.
    fn pieces(text: &str, size: usize) -> Vec<&str> {
        text.as_bytes().chunks(size).map(|piece| std::str::from_utf8(piece).unwrap()).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1_000))]

        #[test]
        fn nothing_is_there_twice_where_the_model_only_repeats_and_ends(
            words in proptest::collection::vec("[a-z]{1,7}[ .\n]{1,2}", 12..80),
            (from, to) in (0_usize..600, 0_usize..600),
            (is_from_start, is_to_end) in (any::<bool>(), any::<bool>()),
            (before, after, ended) in ("[ \n]{0,2}", "[ \n]{0,2}", "[ \n]{0,2}"),
            size in 1_usize..9,
        ) {
            let all = words.concat();
            let said = format!("{}{ended}", all.trim_end());
            let text = said.trim_end();
            let from = if is_from_start { 0 } else { from % text.len() };
            let to = if is_to_end { text.len() } else { from + to % (text.len() - from) };
            let repeated = text[from..to].trim();
            prop_assume!(repeated.len() >= SURE_CHARS);
            let gap = if ended.is_empty() { " " } else { "" };
            let stream = format!("{before}{repeated}{after}");
            // What is left of it at most are the blanks behind.
            let left = new(&said, gap, &pieces(&stream, size));
            prop_assert_eq!(left.trim(), "");
        }

        #[test]
        fn what_goes_on_with_a_few_words_that_were_said_goes_on(
            words in proptest::collection::vec("[a-z]{1,7}", 12..80),
            at in 0_usize..60,
            size in 1_usize..9,
        ) {
            let said = format!("{} end.", words.join(" "));
            let again = format!("{} NEW", words[at % words.len()]);
            prop_assert_eq!(new(&said, " ", &pieces(&again, size)), format!(" {again}"));
        }

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
