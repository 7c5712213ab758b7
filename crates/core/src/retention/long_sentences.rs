//! Orders within long sentences: "… and so, from now on never push to main without asking me, because …".
//!
//! A sentence of more than [`MAX_ORDER_WORDS`] words is prose or data as a whole. A clause within the sentence may be an
//! order all the same. The clause becomes a piece of its own, so that the order is quoted without the prose around.

use super::mood::{CLEAR_ORDER_SCORE, MAX_ORDER_WORDS, order_score};

/// The fewest words of a clause that can be an order.
const MIN_CLAUSE_WORDS: usize = 3;

/// The most clauses of an order: a condition and a command.
const MAX_CLAUSES: usize = 2;

/// The longest sentence of which the clauses are compared, in words. A longer one is data.
const MAX_SENTENCE_WORDS: usize = 600;

/// Divides a sentence that is too long for an order into its orders and the rest. The joined parts give the sentence
/// again.
pub(super) fn order_parts(sentence: &str) -> Vec<&str> {
    let words = sentence.split_whitespace().take(MAX_SENTENCE_WORDS + 1).count();
    if words <= MAX_ORDER_WORDS || words > MAX_SENTENCE_WORDS {
        return vec![sentence];
    }
    let starts = clause_starts(sentence);
    let mut parts = Vec::new();
    let (mut rest_start, mut at) = (0, 0);
    while at + 1 < starts.len() {
        // The fewest clauses say the order without the prose around.
        let count = (1..=MAX_CLAUSES).find(|count| {
            let end = starts.get(at + count);
            end.is_some_and(|end| clause_score(&sentence[starts[at]..*end]) >= CLEAR_ORDER_SCORE)
        });
        let Some(count) = count else {
            at += 1;
            continue;
        };
        let (start, end) = (starts[at], starts[at + count]);
        parts.extend([&sentence[rest_start..start], &sentence[start..end]]);
        rest_start = end;
        at += count;
    }
    parts.push(&sentence[rest_start..]);
    parts.retain(|part| !part.is_empty());
    parts
}

/// Returns the beginnings of the clauses of a sentence, and its end.
fn clause_starts(sentence: &str) -> Vec<usize> {
    let marks = [',', ';', ':', '–', '—', '(', ')', '，', '；', '：', '،', '؛'];
    let mut starts = vec![0];
    for (at, mark) in sentence.match_indices(marks) {
        let end = at + mark.len();
        // The comma of "1,400" and the colon of "10:30" separate no clauses.
        let blanks = sentence[end..].len() - sentence[end..].trim_start().len();
        if blanks > 0 || !mark.is_ascii() {
            starts.push(end + blanks);
        }
    }
    if starts.last() != Some(&sentence.len()) {
        starts.push(sentence.len());
    }
    starts
}

fn clause_score(clause: &str) -> i32 {
    let has_words = clause.split_whitespace().nth(MIN_CLAUSE_WORDS - 1).is_some() || !clause.is_ascii();
    if has_words { order_score(clause) } else { 0 }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Prose of so many words, without a comma.
    fn prose(words: usize) -> String {
        let all = "we looked at the old page and the weather was fine on that day".split(' ');
        all.cycle().take(words).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn an_order_in_a_long_sentence_is_a_part_of_its_own() {
        for order in [
            "so from now on never push to main without asking me,",
            "when you rename a file, always tell Dana,",
            "deshalb ab jetzt bitte immer auf Deutsch antworten,",
            "alors ne pousse jamais sur main,",
        ] {
            let sentence = format!("{}, {order} because {}.", prose(50), prose(20));
            let parts = order_parts(&sentence);
            assert!(parts.iter().any(|part| part.trim() == order), "{order}: {parts:#?}");
        }
    }

    #[test]
    fn prose_and_short_sentences_stay_whole() {
        let long = format!("{}, {}, {}.", prose(30), prose(30), prose(30));
        for sentence in [&*long, "Use tabs, and never push to main."] {
            assert_eq!(order_parts(sentence), [sentence]);
        }
    }

    proptest! {
        #[test]
        fn parts_joined_give_the_sentence(sentence in "([a-z]{1,8}[ ,;:]{1,2}|never push, ){0,120}") {
            prop_assert_eq!(order_parts(&sentence).concat(), sentence);
        }
    }
}
