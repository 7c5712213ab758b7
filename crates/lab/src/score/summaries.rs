//! Whether the summaries that a model writes are the ones that a session goes on with.

use serde::Serialize;

use super::refusals::shows_answer;
use super::{ChatTurn, Conversation, Summariser};

/// The window, in tokens.
const WINDOW_TOKENS: u64 = 32_000;

/// Length of the chat, in tokens.
const CHAT_TOKENS: u64 = 190_000;

/// What became of a model's summaries in one chat.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SummariesScore {
    /// Compactions in all.
    pub compactions: usize,
    /// Those before which a summary was written.
    pub written: usize,
    /// Those of them that show that summary.
    pub used: usize,
    /// Compactions after one with a summary that show neither it nor a newer one.
    pub dropped: usize,
}

/// Feeds a long chat with a summariser that writes good summaries; `None` if there is no such strategy.
pub fn measure(filler: &[ChatTurn], strategy: &str) -> Option<SummariesScore> {
    let mut chat = Conversation::new(strategy, WINDOW_TOKENS, Summariser::OrderBlind)?;
    let counter = chat.history().counter().clone();
    let mut tokens = 0;
    for turn in filler.iter().cycle() {
        chat.say(turn);
        tokens += counter.text(&turn.text);
        if tokens >= CHAT_TOKENS {
            break;
        }
    }
    let mut score = SummariesScore::default();
    let mut standing = false;
    for (shown, answers) in chat.committed() {
        score.compactions += 1;
        score.written += usize::from(!answers.is_empty());
        let is_used = answers.iter().any(|answer| shows_answer(&shown, answer));
        score.used += usize::from(is_used);
        let shows_some = is_used || shown.contains("Answer the newest question.");
        score.dropped += usize::from(standing && !shows_some);
        standing = shows_some;
    }
    Some(score)
}
