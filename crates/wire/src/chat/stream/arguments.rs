//! Detection of complete arguments in pieces: whether the pieces are a whole JSON value. Each byte is examined once.

use serde_json::value::RawValue;

/// The largest size of a number or a word as arguments. Longer words are not parsed again with each piece.
const MAX_WORD_BYTES: usize = 64;

/// The arguments so far.
#[derive(Debug, Default)]
pub(super) struct PartialArguments {
    text: String,
    state: ArgumentsState,
    #[cfg(test)]
    pub(super) scanned_bytes: usize,
}

/// The progress of the arguments towards their end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ArgumentsState {
    /// Nothing but blanks.
    #[default]
    Empty,
    /// A number or a word (`null`), without a closing byte.
    Word,
    /// An unfinished object, list or text.
    Open { depth: usize, in_text: bool, is_escaped: bool },
    /// A whole value; at most blanks behind it.
    Whole,
    /// No value, whatever follows.
    Garbled,
}

impl PartialArguments {
    pub(super) fn as_str(&self) -> &str {
        &self.text
    }

    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    pub(super) fn push(&mut self, piece: &str) {
        let before = self.text.len();
        self.text.push_str(piece);
        for (at, byte) in piece.bytes().enumerate() {
            #[cfg(test)]
            {
                self.scanned_bytes += 1;
            }
            let next = self.state.after(byte);
            // The states only match brackets and quotes. A real parse happens once, when the value seems
            // complete.
            let has_ended = next == ArgumentsState::Whole && self.state != ArgumentsState::Whole;
            let is_garbled = has_ended && !is_value(&self.text[..=before + at]);
            self.state = if is_garbled { ArgumentsState::Garbled } else { next };
            if self.state == ArgumentsState::Garbled {
                break;
            }
        }
    }

    /// Reports whether the arguments are one JSON value already.
    pub(super) fn is_complete(&self) -> bool {
        match self.state {
            ArgumentsState::Whole => true,
            ArgumentsState::Word => self.text.len() <= MAX_WORD_BYTES && is_value(&self.text),
            ArgumentsState::Empty | ArgumentsState::Open { .. } | ArgumentsState::Garbled => false,
        }
    }
}

impl ArgumentsState {
    /// Returns the state behind another byte. A complete value stays complete behind blanks, without a second parse.
    fn after(self, byte: u8) -> Self {
        let is_blank = matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
        match self {
            Self::Empty if is_blank => Self::Empty,
            Self::Empty => match byte {
                b'{' | b'[' => Self::Open { depth: 1, in_text: false, is_escaped: false },
                b'"' => Self::Open { depth: 0, in_text: true, is_escaped: false },
                _ => Self::Word,
            },
            Self::Open { depth, in_text: true, is_escaped } => match byte {
                _ if is_escaped => Self::Open { depth, in_text: true, is_escaped: false },
                b'\\' => Self::Open { depth, in_text: true, is_escaped: true },
                b'"' if depth == 0 => Self::Whole,
                b'"' => Self::Open { depth, in_text: false, is_escaped: false },
                _ => self,
            },
            Self::Open { depth, in_text: false, .. } => match byte {
                b'"' => Self::Open { depth, in_text: true, is_escaped: false },
                b'{' | b'[' => Self::Open { depth: depth + 1, in_text: false, is_escaped: false },
                // Brackets are only counted. Whether they match is left to the parser at the end.
                b'}' | b']' if depth <= 1 => Self::Whole,
                b'}' | b']' => Self::Open { depth: depth - 1, in_text: false, is_escaped: false },
                _ => self,
            },
            Self::Whole if !is_blank => Self::Garbled,
            Self::Whole | Self::Word | Self::Garbled => self,
        }
    }
}

fn is_value(text: &str) -> bool {
    serde_json::from_str::<&RawValue>(text).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_values_are_known_wherever_they_are_cut() {
        for text in [
            r#"{"a":[1,{"b":"}\"]"}],"c":null}"#,
            "{}",
            "[]",
            r#""a \" b""#,
            "12",
            "null",
            "",
            " ",
            "{",
            "{]",
            "{a}",
            "{}{}",
            "{} x",
            " {\"a\" : \"\\\\\"}\n",
            "nul",
            "\"ü\\ud83d\\ude00\"",
        ] {
            for cut in (0..=text.len()).filter(|cut| text.is_char_boundary(*cut)) {
                let mut arguments = PartialArguments::default();
                arguments.push(&text[..cut]);
                assert_eq!(arguments.is_complete(), is_value(&text[..cut]), "{text:?} up to {cut}");
                arguments.push(&text[cut..]);
                assert_eq!(arguments.is_complete(), is_value(text), "{text:?} cut at {cut}");
                assert_eq!(arguments.as_str(), text);
            }
        }
    }

    #[test]
    fn blanks_behind_a_value_do_not_have_it_read_again() {
        let mut state = ArgumentsState::Whole;
        state = state.after(b' ');
        assert_eq!((state, state.after(b'{')), (ArgumentsState::Whole, ArgumentsState::Garbled));
    }
}
