//! Notices to the client about the gateway's actions.

use longhaul_core::message::ModelStopReason;
use longhaul_core::usage::Usage;

use super::{AnswerFlow, EventProcessor, OutputPauseDetector};
use longhaul_wire::edit::{StreamMerger, ephemeral};

/// The used share from which on a window counts as full, in percent.
const FULL_PERCENT: u64 = 97;

impl AnswerFlow {
    /// Sends a notice as a comment, and in the text if configured.
    pub(super) fn send_notice(&mut self, notice: &str, in_text: &str) {
        self.out.push_back(notice.comment().into());
        let wanted =
            self.attempt.as_ref().is_some_and(|route| route.request.proxied.inner.config.notices_in_text);
        if let (EventProcessor::Joins(splice), true) = (&mut self.reader, wanted) {
            let mut out = Vec::new();
            splice.notice(in_text, &mut out);
            self.out.push_back(out.into());
        }
    }

    /// Reports a full window.
    pub(super) fn report_full_window(&mut self) {
        let Some(window) = self.attempt.as_ref().map(|route| route.budget().window.tokens) else { return };
        let seen = self.reader.seen();
        let new_tokens =
            self.pause.as_ref().map_or(0, OutputPauseDetector::tokens).saturating_sub(self.counted_tokens);
        let counted = self.outbound_request.input + new_tokens;
        // The upstream's own report is better than the gateway's count.
        let used = self.usage().as_ref().map_or(counted, Usage::total_tokens);
        let is_full = used.saturating_mul(100) >= window.saturating_mul(FULL_PERCENT);
        if !self.exchange.is_window_exhausted() && !is_full
            || seen.finish.is_some_and(|finish| finish != ModelStopReason::Length)
        {
            return;
        }
        if let Some(route) = self.attempt.as_ref().filter(|_| self.exchange.is_window_exhausted()) {
            route.totals().mark_window_exhausted();
        }
        let notice = ephemeral::exceeded(used, window);
        self.send_notice(&notice, &format!("\n\n{notice}"));
    }
}

/// Writes a notice into an open text of the answer. Returns whether a text was open.
pub(super) fn has_said(splice: &mut dyn StreamMerger, note: &str, out: &mut Vec<u8>) -> bool {
    let before = out.len();
    splice.notice(note, out);
    out.len() > before
}

/// A notice as an SSE comment, skipped by parsers of events.
pub(super) trait StreamComment {
    fn comment(&self) -> String;
}

impl StreamComment for str {
    fn comment(&self) -> String {
        ephemeral::comment(self)
    }
}
