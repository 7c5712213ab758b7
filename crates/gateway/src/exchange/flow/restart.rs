//! The stop of an answer at the end of the window.

use longhaul_core::exchange::ExchangeInput;
use longhaul_core::message::ModelStopReason;
use longhaul_core::usage::Usage;

use super::super::UpstreamAttempt;
use super::super::usage_totals::PartialUsage;
use super::continuation::{AbandonedStream, StreamContinuation};
use super::notices::StreamComment;
use super::reading::{CharacterFilter, seen_in};
use super::{AnswerFlow, EventProcessor, pause};
use longhaul_wire::edit::ephemeral::COMPACTING;
use longhaul_wire::edit::{PartialResponse, SseReader, StreamPosition};

impl AnswerFlow {
    /// Leaves the upstream's stream before this event, and starts to make room.
    pub(super) fn leave_before_event(&mut self, next: &[u8], out: &mut Vec<u8>) {
        let PartialResponse { text, usage, .. } = seen_in(self.wire, next);
        let gap_bytes = text.len() - text.trim_start().len();
        self.leave(&text[..gap_bytes], usage, out);
    }

    /// Returns whether the stream has ended for lack of room, although the client wants more text.
    pub(super) fn has_no_room(&self) -> bool {
        let (Some(_), Some(route)) = (&self.pause, &self.attempt) else { return false };
        let seen = self.reader.seen();
        let is_cut = seen.finish == Some(ModelStopReason::Length) && !seen.has_other && !self.has_hidden();
        if !is_cut || self.within != StreamPosition::Text || self.step_text().trim_end().is_empty() {
            return false;
        }
        let is_wanted = match route.request.left_output(self.left_tokens) {
            Ok(Some(left)) => route.budget().room(&self.outbound_request).is_some_and(|room| room < left),
            Ok(None) => true,
            Err(_) => false,
        };
        let is_full = match self.usage().filter(|usage| usage.input_tokens > 0 && usage.output_tokens > 0) {
            Some(usage) => pause::is_full(usage.total_tokens(), route.budget().window.tokens),
            // Without a limit and a report only the window can have ended the answer.
            None if route.request.asked_output().is_none() => true,
            None => {
                let used = self.outbound_request.input + pause::with_error(self.output_tokens());
                pause::is_full(used, route.budget().window.tokens)
            }
        };
        is_wanted && is_full
    }

    /// Makes room after the end of a stream for lack of room, and continues.
    pub(super) fn go_on_after_end(&mut self) {
        let mut out = Vec::new();
        let usage = self.reader.seen().usage.clone();
        self.leave("", usage, &mut out);
        self.go_out(out.into());
    }

    /// Leaves the upstream's stream and starts to make room. `gap` is the whitespace that was about to follow, `newest`
    /// the last reported usage.
    fn leave(&mut self, gap: &str, newest: Option<Usage>, out: &mut Vec<u8>) {
        let cause = StreamContinuation::SameStep;
        let Some(left) = self.leave_for_next(gap, newest, cause) else { return };
        let effects = self.exchange.handle(ExchangeInput::WindowFilled);
        if !left.attempt.request.goes_on_exactly() {
            left.attempt.totals().approximate();
        }
        if let EventProcessor::Joins(splice) = &mut self.reader
            && left.attempt.request.proxied.inner.config.notices_in_text
        {
            splice.notice(&format!("\n\n{COMPACTING}\n"), out);
        }
        // A person sees in the text why the answer pauses, if notices are configured there.
        tracing::info!(
            restarts = self.exchange.restarts(),
            input_tokens = left.prepared.input,
            written_tokens = left.written_tokens,
            window = left.attempt.budget().window.tokens,
            "an answer is stopped at the end of the window, and room is made for its rest"
        );
        out.extend_from_slice(COMPACTING.comment().as_bytes());
        left.attempt.totals().restarted();
        // The upstream's connection closes here: most local servers have room for one request.
        self.wait_for_rest(left, effects);
    }

    /// Leaves the upstream's stream so that another one can continue it.
    pub(super) fn leave_for_next(
        &mut self,
        gap: &str,
        newest: Option<Usage>,
        cause: StreamContinuation,
    ) -> Option<AbandonedStream> {
        let text = self.step_text();
        let route = self.attempt.take()?;
        let tokens = self.counted_output(&route);
        let new_tokens = tokens.saturating_sub(self.counted_tokens);
        let partial = self.partial(&route, new_tokens, newest);
        self.counted_tokens = tokens;
        // Some servers report less at the start than they have read.
        let is_news =
            |input: &u64| (self.outbound_request.input + 1..=route.budget().window.tokens).contains(input);
        let is_first = self.is_first_stream();
        let reported_input = self.reported_input(&route).filter(|input| is_first && is_news(input));
        self.leave_stream();
        if let EventProcessor::Joins(splice) = &mut self.reader {
            // The client has this blank already.
            let gap = if text.ends_with(char::is_whitespace) { "" } else { gap };
            match route.request.goes_on_exactly() {
                true => splice.begin_next_stream(self.outbound_request.shown_of(&text)),
                false => splice.begin_requested_stream(&text, gap),
            }
        }
        self.left_tokens += new_tokens;
        // Half an event of the abandoned stream must not be joined with the next stream.
        (self.events, self.characters, self.open_until) =
            (SseReader::default(), CharacterFilter::default(), None);
        route.totals().partial(partial);
        Some(AbandonedStream {
            cause,
            began: self.began,
            hidden_step: None,
            prepared: self.outbound_request.clone(),
            // Some servers strip trailing blanks of a prefilled answer. The blanks are not sent, and the model may
            // repeat them.
            text: text.trim_end().to_owned(),
            new_tokens,
            written_tokens: self.left_tokens,
            reported_input,
            attempt: route,
        })
    }

    /// Returns the output of all streams by the gateway's count, in tokens.
    fn counted_output(&self, route: &UpstreamAttempt) -> u64 {
        match &self.pause {
            Some(pause) => pause.tokens(),
            // With an unknown window no detector counts along.
            None => (route.request.proxied.inner.parts.counter)(&route.request.target.origin())
                .text(&self.reader.seen().text),
        }
    }

    /// Returns whether the present stream is the answer's first: none was left, and no step has ended.
    pub(super) fn is_first_stream(&self) -> bool {
        self.exchange.restarts() == 0
            && self.exchange.broken_streams() == 0
            && self.outbound_request.rounds.answered == 0
    }

    /// Returns the present stream's input if the server has reported it.
    fn reported_input(&self, route: &UpstreamAttempt) -> Option<u64> {
        let usage = if route.request.needs_translation() {
            route.totals().told()
        } else {
            self.reader.seen().usage.clone()
        };
        usage.map(|usage| usage.input_tokens).filter(|input| *input > 0)
    }

    /// Returns the cost of the present stream, of which `output` was counted by the gateway. `newest` is the report at
    /// the point where the stream was left: some servers report usage with every piece.
    pub(super) fn partial(
        &self,
        route: &UpstreamAttempt,
        output: u64,
        newest: Option<Usage>,
    ) -> PartialUsage {
        // Usage that the gateway itself wrote for another dialect is no report.
        let (newest, begun) = match route.request.needs_translation() {
            true => (None, None),
            false => (newest, self.reader.seen().usage.as_ref()),
        };
        if let Some(usage) = newest.filter(|usage| usage.input_tokens > 0 && usage.output_tokens > 0) {
            return PartialUsage::reported(&usage);
        }
        let begun = begun.map(|usage| usage.input_tokens).filter(|input| *input > 0);
        PartialUsage { input: begun.unwrap_or(self.outbound_request.input), output, is_estimated: true }
    }
}
