//! The share of a model's summaries with which a session continues.

use longhaul_core::history::HistoryFoldError;
use serde::Serialize;

use super::refusals::shows_answer;
use super::{ChatTurn, ScriptedSummariser, SimulatedChat, reading_job};
use crate::lab::planner_policy::PlannerPolicy;
use crate::lab::replay::{ReplayOptions, replay};

/// The window, in tokens.
const WINDOW_TOKENS: u64 = 32_000;

/// The length of the chat, in tokens.
const CHAT_TOKENS: u64 = 190_000;

/// The fate of a model's summaries in one chat.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SummariesScore {
    /// The number of compactions.
    pub(crate) compactions: usize,
    /// The number of compactions before which a summary was written.
    pub(crate) written: usize,
    /// The number of those compactions that show that summary.
    pub(crate) used: usize,
    /// The number of compactions that show neither the summary of an earlier compaction nor a newer one.
    pub(crate) dropped: usize,
}

/// Feeds a long chat with a summariser that writes good summaries. Returns `None` if there is no such strategy.
pub(crate) fn measure(filler: &[ChatTurn], strategy: &str) -> Option<SummariesScore> {
    let mut chat = SimulatedChat::new(strategy, WINDOW_TOKENS, ScriptedSummariser::OrderBlind)?;
    let counter = chat.history().counter().clone();
    let mut tokens = 0;
    for turn in filler.iter().cycle() {
        chat.say(turn);
        tokens += counter.text(&turn.text);
        if tokens >= CHAT_TOKENS {
            break;
        }
    }
    let committed: Vec<(String, &[String])> = chat.committed().collect();
    Some(score_of(&committed))
}

/// Runs the reading job in a window of so many tokens with the usual stand-in. Returns `None` if there is no
/// such strategy.
///
/// # Errors
/// [`HistoryFoldError`] as [`reading_job::recording`].
pub(crate) fn measure_job(
    strategy: &str,
    window_tokens: u64,
) -> Result<Option<SummariesScore>, HistoryFoldError> {
    let Some(mut ours) = PlannerPolicy::by_name(strategy) else { return Ok(None) };
    let recording = reading_job::recording(reading_job::FIXED_TOKENS)?;
    replay(&recording, &mut ours, window_tokens, &reading_job::prices(), &ReplayOptions::default());
    let compactions = ours.edits().iter().filter(|it| it.is_compaction());
    let committed: Vec<(String, &[String])> =
        compactions.map(|it| (it.shown_text(), it.answers.as_slice())).collect();
    Ok(Some(score_of(&committed)))
}

fn score_of(committed: &[(String, &[String])]) -> SummariesScore {
    let mut score = SummariesScore::default();
    let mut standing: Vec<&String> = Vec::new();
    for (shown, answers) in committed {
        score.compactions += 1;
        score.written += usize::from(!answers.is_empty());
        let used: Vec<&String> = answers.iter().filter(|answer| shows_answer(shown, answer)).collect();
        score.used += usize::from(!used.is_empty());
        // A newer summary takes the place of the one that was followed so far.
        if !used.is_empty() {
            standing = used;
        } else if !standing.is_empty() && !standing.iter().any(|answer| shows_answer(shown, answer)) {
            score.dropped += 1;
            // A loss counts once, not at every later compaction.
            standing.clear();
        }
    }
    score
}
