//! The language of a text, by the closed word classes that occur in the text.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::LazyLock;

use super::lexicon::LEXICONS;
use super::mood::plain_words;

/// The language of a text, as far as the lexicon and the scripts tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TextLanguage {
    /// A language of [`LEXICONS`], by its index.
    Spaced(usize),
    /// Chinese.
    Chinese,
    /// Japanese.
    Japanese,
    /// Korean.
    Korean,
}

impl TextLanguage {
    /// Returns the language with the most words of its closed classes in a text; `None` if no language has more than the
    /// others.
    pub(crate) fn of(text: &str) -> Option<Self> {
        static CLASSES: LazyLock<Vec<BTreeSet<&'static str>>> = LazyLock::new(|| {
            let words = LEXICONS.iter().map(|lexicon| {
                let lists = [
                    lexicon.openers,
                    lexicon.auxiliaries,
                    lexicon.subordinators,
                    lexicon.lead_ins,
                    lexicon.first_person,
                    lexicon.second_person,
                ];
                let scope = lexicon.scope.split([' ', ',']);
                lists
                    .into_iter()
                    .flat_map(str::split_whitespace)
                    .chain(scope)
                    .filter(|word| !word.is_empty())
                    .collect()
            });
            words.collect()
        });
        if has_char_in(text, '\u{ac00}'..='\u{d7a3}') {
            return Some(Self::Korean);
        }
        if has_char_in(text, '\u{3041}'..='\u{30ff}') {
            return Some(Self::Japanese);
        }
        if has_char_in(text, '\u{4e00}'..='\u{9fff}') {
            return Some(Self::Chinese);
        }
        let words = plain_words(text);
        let counts =
            CLASSES.iter().map(|class| words.iter().filter(|word| class.contains(word.as_str())).count());
        let mut counts: Vec<(usize, usize)> = counts.enumerate().map(|(at, count)| (count, at)).collect();
        counts.sort_unstable_by(|left, right| right.cmp(left));
        match counts[..] {
            [(first, at), (second, _), ..] if first > second => Some(Self::Spaced(at)),
            _ => None,
        }
    }
}

/// Returns whether a text has a character of a script's range.
pub(super) fn has_char_in(text: &str, range: RangeInclusive<char>) -> bool {
    text.chars().any(|char| range.contains(&char))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closed_classes_tell_the_language() {
        let texts = [
            "Never push to main before you have run the tests.",
            "Bitte nie auf main pushen, bevor die Tests grün sind.",
            "Ne pousse jamais sur main avant les tests.",
            "No subas nunca nada a main antes de las pruebas.",
            "Никогда не пушь в main до тестов.",
            "不要推送到 main。",
            "mainにはプッシュしないでください。",
            "main에 푸시하지 마세요.",
        ];
        let found: BTreeSet<_> = texts.iter().map(|text| TextLanguage::of(text)).collect();
        assert!(found.len() == texts.len() && !found.contains(&None), "{found:?}");
        assert_eq!(TextLanguage::of("src/main.rs"), None);
    }
}
