//! lost-in-compaction: the facts of a chat of 190,000 tokens that are in the view or within reach of a search.

use longhaul_core::recall::{SHOWN_WEIGHT, SearchIndex, SearchLimits, search};
use serde::{Deserialize, Serialize};

use super::text::normalised;
use super::{ChatTurn, ReceiptsError, ReceiptsFolder, ScriptedSummariser, SimulatedChat};

/// The window, in tokens.
const WINDOW_TOKENS: u64 = 32_000;

/// The maximum number of hits of a search.
const HITS: usize = 10;

/// The chat and the facts in question.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct LostInCompactionChat {
    messages: Vec<ChatTurn>,
    facts: Vec<LostInCompactionFact>,
}

#[derive(Clone, Debug, Deserialize)]
struct LostInCompactionFact {
    question: String,
    answer: serde_json::Value,
    keywords: Vec<String>,
    message_start: usize,
    message_end: usize,
    /// `true` if a summary contained the fact before the chat begins.
    #[serde(default)]
    compacted: bool,
}

/// The remaining part of the facts.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LostInCompactionScore {
    /// Facts stated in the chat itself.
    pub(crate) facts: usize,
    /// The number of facts whose answer is in the last view: its words, or all its keywords in one message.
    pub(crate) in_view: usize,
    /// The number of facts for which a search with the question finds the answer or its place among the first
    /// ten messages.
    pub(crate) at_10: usize,
    /// Compactions on the way.
    pub(crate) compactions: usize,
    /// The tokens of the last view.
    pub(crate) view_tokens: u64,
}

impl LostInCompactionScore {
    /// Returns the share of facts found by a search, in percent.
    pub(crate) fn at_10_percent(&self) -> f64 {
        super::text::percent(self.at_10, self.facts)
    }
}

/// Returns the chat of lost-in-compaction that has facts at all depths.
///
/// # Errors
/// [`ReceiptsError`] if the file is missing or has another shape.
pub(crate) fn read_chat(receipts: &ReceiptsFolder) -> Result<LostInCompactionChat, ReceiptsError> {
    receipts.read_json("lost_d80_C1.json.gz")
}

/// Feeds the whole chat and looks for every answer. Returns `None` if there is no such strategy.
pub(crate) fn measure(
    lost: &LostInCompactionChat,
    strategy: &str,
    summariser: ScriptedSummariser,
) -> Option<LostInCompactionScore> {
    let mut chat = SimulatedChat::new(strategy, WINDOW_TOKENS, summariser)?;
    lost.messages.iter().for_each(|turn| chat.say(turn));
    // A last question, because only the request before an answer is planned. It names no fact.
    chat.say(&ChatTurn::user("Thanks. Where were we?"));
    chat.plan_request();
    let view: Vec<String> = chat.view_texts().iter().map(|text| normalised(text)).collect();
    let said: Vec<String> = lost.messages.iter().map(|turn| normalised(&turn.text)).collect();
    let mut index = SearchIndex::default();
    lost.messages.iter().for_each(|turn| _ = index.add(&turn.text));
    // A message that is shown in full weighs less, as in a session.
    let is_shown: Vec<bool> = said.iter().map(|text| view.contains(text)).collect();
    let mut score = LostInCompactionScore {
        compactions: chat.compactions(),
        view_tokens: chat.view_tokens(),
        ..LostInCompactionScore::default()
    };
    // A fact that only an earlier summary stated was never in this chat.
    for fact in lost.facts.iter().filter(|fact| !fact.compacted) {
        score.facts += 1;
        score.in_view += usize::from(view.iter().any(|text| fact.is_answered_in(text)));
        let hits = search(
            &index,
            &fact.question,
            said.len(),
            SearchLimits::of(HITS),
            |at: usize| if is_shown[at] { SHOWN_WEIGHT } else { 1.0 },
            |at: usize| &*lost.messages[at].text,
        );
        // An answer may also stand outside of the messages that the data names.
        let is_found = hits.iter().any(|hit| fact.is_answered_in(&said[hit.at]));
        let evidence = fact.message_start..=fact.message_end;
        score.at_10 += usize::from(is_found || hits.iter().any(|hit| evidence.contains(&hit.at)));
    }
    Some(score)
}

impl LostInCompactionFact {
    /// Returns whether a text has the answer's words, or all its keywords.
    fn is_answered_in(&self, text: &str) -> bool {
        // Some answers are numbers in the data.
        let answer = match &self.answer {
            serde_json::Value::String(answer) => normalised(answer),
            other => normalised(&other.to_string()),
        };
        has_words(text, &answer)
            || !self.keywords.is_empty()
                && self.keywords.iter().all(|word| has_words(text, &normalised(word)))
    }
}

/// Returns whether a text has these words as words of their own: `3` is not in `13`.
fn has_words(text: &str, words: &str) -> bool {
    // A sentence's full stop may be missing where the view shows the words.
    let bare = words.trim_end_matches('.');
    text.match_indices(bare).any(|(at, found)| {
        let before = text[..at].chars().next_back();
        let after = text[at + found.len()..].chars().next();
        !before.is_some_and(char::is_alphanumeric) && !after.is_some_and(char::is_alphanumeric)
    })
}

#[cfg(test)]
mod tests {
    use super::has_words;

    #[test]
    fn a_number_is_found_as_a_word_of_its_own() {
        assert!(has_words("she has 3 dogs", "3") && has_words("it is paris.", "paris."));
        assert!(!has_words("she has 13 dogs", "3"));
    }
}
