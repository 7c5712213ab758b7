//! Facts and orders replaced later by the user, and the versions in the view.

use serde::Serialize;

use super::text::{bare_statement, contains_statement};
use super::{ChatTurn, ScriptedSummariser, SimulatedChat};

/// The window of every case, in tokens.
const WINDOW_TOKENS: u64 = 32_000;

/// The length of the chat around the two messages, in tokens.
const CHAT_TOKENS: u64 = 60_000;

/// The positions of the two messages, in percent of the chat.
const PLACES_PERCENT: [u64; 2] = [15, 55];

/// The pairs, one a line, as `old<TAB>new`.
const PAIRS: &str = include_str!("data/superseded.tsv");

/// Words that mark a statement as replaced, in lower case.
const MARKS: [&str; 9] =
    ["supersed", "replaced", "outdated", "obsolete", "no longer", "void", "~~", "overridden", "(old"];

/// The titles of sections in which the last of several statements holds.
const ORDER_TITLES: [&str; 3] = ["later words win", "newest wins", "newer wins"];

/// The result of the pairs.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SupersededScore {
    /// Pairs of an old and a new statement, each in a chat of its own.
    pub(crate) pairs: usize,
    /// The number of pairs whose new statement is in the view.
    pub(crate) newest_kept: usize,
    /// The number of pairs whose old statement is in the view.
    pub(crate) old_kept: usize,
    /// The number of pairs whose old statement is on a line without a note that it was replaced.
    pub(crate) old_unmarked: usize,
    /// The number of those pairs whose old statement is not before the new one under a title that says that
    /// later words win.
    pub(crate) old_misleading: usize,
    /// New statements missing in the view.
    pub(crate) missing: Vec<String>,
}

/// Says both statements of every pair in a chat of 60,000 tokens. Returns `None` if there is no such strategy.
pub(crate) fn measure(
    filler: &[ChatTurn],
    strategy: &str,
    summariser: &ScriptedSummariser,
) -> Option<SupersededScore> {
    let mut score = SupersededScore::default();
    for (old, new) in PAIRS.lines().filter_map(|line| line.split_once('\t')) {
        score.pairs += 1;
        let mut chat = SimulatedChat::new(strategy, WINDOW_TOKENS, summariser.clone())?;
        let said = [old, new].map(ChatTurn::user);
        // The places ascend, so it is enough to look at the next one.
        let mut said = PLACES_PERCENT.iter().map(|percent| CHAT_TOKENS * percent / 100).zip(&said).peekable();
        let counter = chat.history().counter().clone();
        let mut tokens = 0;
        for turn in filler.iter().cycle() {
            chat.say(turn);
            tokens += counter.text(&turn.text);
            if let Some((_, statement)) = said.next_if(|(place, _)| tokens >= *place) {
                chat.say(statement);
            }
            if tokens >= CHAT_TOKENS {
                break;
            }
        }
        chat.say(&ChatTurn::user("Thanks. Where were we?"));
        chat.plan_request();
        let view = chat.view_text();
        if contains_statement(&view, new) {
            score.newest_kept += 1;
        } else {
            score.missing.push(new.to_owned());
        }
        let stale: Vec<usize> = lines_with(&view, old).collect();
        score.old_kept += usize::from(!stale.is_empty());
        let unmarked: Vec<usize> = stale
            .into_iter()
            .filter(|at| !is_marked(view.lines().nth(*at).unwrap_or_default(), old))
            .collect();
        score.old_unmarked += usize::from(!unmarked.is_empty());
        score.old_misleading += usize::from(unmarked.iter().any(|at| !is_followed(&view, *at, new)));
    }
    Some(score)
}

fn lines_with<'a>(view: &'a str, statement: &'a str) -> impl Iterator<Item = usize> + 'a {
    view.lines()
        .enumerate()
        .filter(move |(_, line)| line.contains(bare_statement(statement)))
        .map(|(at, _)| at)
}

/// Returns whether a line says, beside the statement itself, that it was replaced.
fn is_marked(line: &str, statement: &str) -> bool {
    // The statement itself may have one of the marks in its words.
    let rest = line.replace(bare_statement(statement), " ").to_lowercase();
    MARKS.iter().any(|mark| rest.contains(mark))
}

/// Reports whether the new statement follows below, in a section whose title says that later words win.
fn is_followed(view: &str, at: usize, new: &str) -> bool {
    // The nearest title above a line is that of its section.
    let above: Vec<&str> = view.lines().take(at).collect();
    let title = above.iter().rfind(|line| is_title(line)).copied().unwrap_or_default();
    ORDER_TITLES.iter().any(|words| title.contains(words)) && lines_with(view, new).any(|line| line > at)
}

fn is_title(line: &str) -> bool {
    let bare = line.trim().trim_matches('*');
    bare.ends_with(':') || bare.starts_with('#')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_may_be_marked_on_its_line_or_by_the_order_of_a_section() {
        assert!(is_marked("- the cap is 300 (superseded at turn 9)", "the cap is 300"));
        assert!(!is_marked("- the cap is 300, no longer 200", "the cap is 300, no longer 200"));
        let view = "What the user said, oldest first; later words win:\n- cap 300\n- cap 500\n\ncap 300";
        assert!(is_followed(view, 1, "cap 500"));
        assert!(!is_followed(view, 4, "cap 500"));
        assert!(!is_followed("Notes:\n- cap 300\n- cap 500", 1, "cap 500"));
    }
}
