//! Division of a line into sentences, each with the punctuation and the blanks behind.

use crate::retention_report::facts::is_abbreviation;

/// Splits a line into sentences. The joined sentences give the line again.
pub(crate) fn sentence_spans(line: &str) -> Vec<&str> {
    let mut spans = Vec::new();
    let mut start = 0;
    for (at, mark) in line.match_indices(['.', '!', '?', '。', '！', '？']) {
        let (before, after) = (&line[start..at], &line[at + mark.len()..]);
        let is_end = match mark {
            "." => after.starts_with(' ') && !is_abbreviation(before, after),
            "!" | "?" => after.starts_with(' '),
            // Chinese and Japanese write no blank after a sentence; of several marks in a row the last ends it.
            _ => !after.starts_with(['。', '！', '？']),
        };
        if is_end {
            let blanks = after.len() - after.trim_start_matches(' ').len();
            let end = at + mark.len() + blanks;
            spans.push(&line[start..end]);
            start = end;
        }
    }
    if start < line.len() {
        spans.push(&line[start..]);
    }
    spans
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sentences_keep_their_punctuation() {
        let spans = sentence_spans("Use tabs. Is it v. 2?  Yes! 请用中文。好的");
        assert_eq!(spans, ["Use tabs. ", "Is it v. 2?  ", "Yes! ", "请用中文。", "好的"]);
        assert_eq!(sentence_spans(""), [""; 0]);
    }

    proptest! {
        #[test]
        fn spans_joined_give_the_line(line in "[a-zA-Z .!?。，0-9]{0,80}") {
            prop_assert_eq!(sentence_spans(&line).concat(), line);
        }
    }
}
