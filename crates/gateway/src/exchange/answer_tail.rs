//! The end of an answer that is longer than its window. The model continues from the end, and a note replaces
//! the beginning.

use longhaul_core::estimate::MessageTokenCounter;

/// The maximum length of the quote from the answer's first line in the note, in characters.
const MAX_QUOTED_CHARS: usize = 80;

/// The end of an answer, sent in place of the whole answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct AnswerTail {
    /// The offset of the end in the text of the answer's step, in bytes.
    pub(super) from: usize,
    /// The note before the end, for the model.
    pub(super) note: String,
}

impl AnswerTail {
    /// Cuts a text so that its end has about `max_tokens` tokens. The end begins with a line if possible,
    /// otherwise with a word. Returns `None` if the whole text fits.
    pub(super) fn cut(text: &str, max_tokens: u64, counter: &MessageTokenCounter) -> Option<Self> {
        let tokens = counter.text(text);
        if tokens <= max_tokens {
            return None;
        }
        // An even spread of tokens is assumed: the length need not be exact, and another count costs as much
        // again.
        let share = max_tokens as f64 / tokens as f64;
        let kept_bytes = (text.len() as f64 * share) as usize;
        let earliest = text.ceil_char_boundary(text.len() - kept_bytes.min(text.len()));
        let end = &text[earliest..];
        let line_or_word = start_in_first_half(end, |char| char == '\n')
            .or_else(|| start_in_first_half(end, char::is_whitespace));
        let from = text.ceil_char_boundary(earliest + line_or_word.unwrap_or(0));
        // Nothing cut, or everything cut, is no tail.
        (from > 0 && from < text.len()).then(|| Self { from, note: note(text, from) })
    }
}

/// Returns the position behind the first separator if the position is in the first half. A later start would leave too
/// little of `end`.
fn start_in_first_half(end: &str, is_separator: fn(char) -> bool) -> Option<usize> {
    end.find(is_separator).map(|at| at + 1).filter(|at| *at <= end.len() / 2)
}

fn note(text: &str, from: usize) -> String {
    let first: String = text.lines().next().unwrap_or_default().chars().take(MAX_QUOTED_CHARS).collect();
    let chars = text[..from].chars().count();
    format!(
        "[The answer that follows is longer than there is room for. Its first {chars} characters, which begin with \
         \"{first}\", have been delivered and are left out here. Go on exactly where the text ends, and repeat nothing.]"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(count: usize) -> String {
        (1..=count).map(|number| format!("{number}. a line of the list\n")).collect()
    }

    #[test]
    fn the_end_begins_with_a_line_and_the_note_tells_what_is_gone() {
        let text = lines(400);
        let counter = MessageTokenCounter::characters();
        let tail = AnswerTail::cut(&text, 200, &counter).unwrap();
        let end = &text[tail.from..];
        assert!(text[..tail.from].ends_with('\n'), "{end}");
        assert!((100..=200).contains(&counter.text(end)), "{}", counter.text(end));
        assert!(
            tail.note.contains("\"1. a line of the list\"") && tail.note.contains(&tail.from.to_string())
        );
    }

    #[test]
    fn a_text_that_has_room_is_not_cut() {
        assert_eq!(AnswerTail::cut(&lines(10), 1_000, &MessageTokenCounter::characters()), None);
    }

    #[test]
    fn any_script_is_cut_between_characters() {
        for text in ["漢字".repeat(900), "é".repeat(2_000), "word ".repeat(900), "🦀".repeat(700)] {
            for tokens in [1, 7, 50, 333] {
                if let Some(tail) = AnswerTail::cut(&text, tokens, &MessageTokenCounter::characters()) {
                    assert!(text.is_char_boundary(tail.from) && tail.from < text.len());
                }
            }
        }
    }
}
