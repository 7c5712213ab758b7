//! The calls for one summary, from the first request to the last answer.

use crate::budget::Budget;
use crate::error::ErrorCode;
use crate::history::History;
use crate::plan::{SummaryDraft, SummaryForm, SummaryRequest};

/// The writing of one summary: its draft, and the repetition of all calls after a refusal for their length.
///
/// [`SummaryDraft::take`] decides about answers that are no summary. [`restart_smaller`](Self::restart_smaller) decides
/// about calls without an answer.
#[derive(Clone, Debug, PartialEq)]
pub struct SummaryWriting {
    draft: SummaryDraft,
    /// The draft before its first request; `None` once the calls are repeated.
    fresh: Option<SummaryDraft>,
    budget: Budget,
    /// The size of the newest request if it stood behind the live one, in tokens.
    riding_tokens: Option<u64>,
}

impl SummaryWriting {
    /// Creates the writing before its first request. `budget` is the room of the session's model.
    pub fn new(draft: SummaryDraft, budget: Budget) -> Self {
        Self { fresh: Some(draft.clone()), draft, budget, riding_tokens: None }
    }

    /// Returns the draft as far as it is written.
    pub fn draft(&self) -> &SummaryDraft {
        &self.draft
    }

    /// Returns the draft for the next answer.
    pub fn draft_mut(&mut self) -> &mut SummaryDraft {
        &mut self.draft
    }

    /// Returns the draft as far as it is written, and ends the writing.
    pub fn into_draft(self) -> SummaryDraft {
        self.draft
    }

    /// Returns the next request; `None` if no piece is left, or if no model can be asked.
    pub fn next_request(&mut self, history: &History) -> Option<SummaryRequest> {
        let shown = history.view();
        // A paused answer is no part of the summary, so the request ends in front of it.
        let end = shown.len() - usize::from(history.is_paused());
        let request = self.draft.request(&shown[..end], &self.budget)?;
        let tokens = || request.messages.iter().map(|message| history.counter().message(message)).sum();
        self.riding_tokens = (request.form == SummaryForm::Riding).then(tokens);
        Some(request)
    }

    /// Starts all calls again in a smaller window after a failed one. Returns that window in tokens; `None` if the
    /// summary is to be given up. `limit` is the window that the server named, in tokens.
    pub fn restart_smaller(&mut self, code: ErrorCode, limit: Option<u64>) -> Option<u64> {
        // A refusal for length shows that the estimate was too low. Any other failure would come again.
        if code != ErrorCode::ContextOverflow {
            return None;
        }
        let mut fresh = self.fresh.take()?;
        let mut refused = fresh.window_of_writer(&self.budget)?;
        if let Some(tokens) = self.riding_tokens.take() {
            // The request may have been far below the stated window, where the same request would be made again.
            fresh.stand_alone();
            refused = refused.min(tokens);
        }
        // A quarter less, because it is unknown how far the estimate was too low.
        let most = refused * 3 / 4;
        let window = limit.map_or(most, |limit| most.min(limit));
        // Another writer has a window of its own, and a smaller one for the session would change nothing.
        if !fresh.narrow_other_writer(window) {
            self.budget = Budget::new(window, Some(self.budget.reserve));
        }
        // The answered requests were billed, although their draft is thrown away.
        let usage = self.draft.take_usage();
        self.draft = fresh;
        usage.into_iter().for_each(|usage| self.draft.spend(usage));
        Some(window)
    }
}
