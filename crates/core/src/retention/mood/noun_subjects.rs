//! Nouns that look like commands at the beginning of a statement: "Order 17 was late", "Query returned three rows".
//!
//! A command begins with its verb, and many verbs of English are nouns as well. A number behind such a noun is its name,
//! unless a noun follows the number: "List 3 options".

use std::collections::BTreeSet;
use std::sync::LazyLock;

use super::{begins_with_auxiliary, is_function_word};
use crate::retention::lexicon::{ARTICLES_AND_NUMBERS, NUMBERED_NOUNS};
use crate::retention::past_reports::{BARE_PREPOSITIONS, is_past_verb};

fn set_of(words: &'static str) -> BTreeSet<&'static str> {
    words.split_whitespace().collect()
}

/// Returns whether a clause begins with a noun as its subject, and not with the verb of a command.
pub(super) fn begins_with_noun(clause: &[&str]) -> bool {
    static NOUNS: LazyLock<BTreeSet<&'static str>> = LazyLock::new(|| set_of(NUMBERED_NOUNS));
    let [first, rest @ ..] = clause else { return false };
    let Some(second) = rest.first() else { return false };
    let is_numbered = second.bytes().any(|byte| byte.is_ascii_digit());
    // A number or a verb with its ending is rare behind a command, so most clauses end here.
    if !is_numbered && !is_past_verb(second) && !second.ends_with('s') {
        return false;
    }
    let behind = if is_numbered { &rest[1..] } else { rest };
    if is_numbered && begins_with_auxiliary(behind) {
        return true;
    }
    let is_noun = NOUNS.contains(first);
    match behind {
        // "Question 3: the build is slow."
        [] => is_noun && is_numbered,
        [verb, others @ ..] => {
            let next = others.first().copied();
            if is_past_verb(verb) {
                // "Fix failed tests" has the participle before its noun.
                let is_before_noun = next.is_some_and(|next| {
                    !is_function_word(next) && !is_determiner(next) && !BARE_PREPOSITIONS.contains(&next)
                });
                return is_noun && !is_before_noun;
            }
            is_noun && verb.ends_with('s') && next.is_some_and(is_determiner)
        }
    }
}

/// Returns whether a word begins the object of a verb: an article or a number.
fn is_determiner(word: &str) -> bool {
    static DETERMINERS: LazyLock<BTreeSet<&'static str>> = LazyLock::new(|| set_of(ARTICLES_AND_NUMBERS));
    DETERMINERS.contains(word) || word.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use crate::retention::mood::{ORDER_SCORE, order_score};

    #[test]
    fn statements_about_numbered_things_are_no_orders() {
        for text in [
            "Order 17 was late.",
            "Order 17 shipped yesterday.",
            "Question 17: The build took twelve seconds on Monday (run 345).",
            "Query 4 returned three rows.",
            "Query returned three rows.",
            "Report 5 lists two columns.",
            "Report shows no data.",
            "Test 12 failed again.",
            "Import 8 lost three duplicates.",
            "Order shipped late.",
            "Ticket 4711 is open.",
            "Bestellung 17 war zu spät.",
            "Frage 3: Der Build dauerte lange.",
            "Commande 17 est en retard.",
            "Pedido 17 está listo.",
            "Заказ 17 был поздно.",
        ] {
            assert!(order_score(text) < ORDER_SCORE, "{text}");
        }
    }

    #[test]
    fn commands_with_numbers_stay_orders() {
        for text in [
            "Use 4 spaces.",
            "List 3 options in a table.",
            "Order 5 pizzas.",
            "Retry 3 times.",
            "Fix failed tests first.",
            "Use named arguments.",
            "Test each function.",
            "Report errors to Dana.",
            "Delete unused files.",
            "Check 2 more pages.",
        ] {
            assert!(order_score(text) >= ORDER_SCORE, "{text}");
        }
    }
}
