//! A stream on its way to the client: bytes pass as they come, a reader sees them, and where the window ends the answer
//! is stopped, room is made, and it goes on.

use std::collections::VecDeque;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::unfold;
use longhaul_core::message::ModelStopReason;
use longhaul_core::usage::Usage;
use tokio::time::{Instant, timeout, timeout_at};
use tracing::{Instrument, Span};

use super::prepare::OutboundRequest;
use super::recall::OutputDivision;
use super::{PreparationAction, PreparationReport, UpstreamAttempt};
use crate::gateway::ReplyStream;
use longhaul_wire::edit::ephemeral::{COMPACTING, CONTINUING};
use longhaul_wire::edit::{
    GatewayError, GatewayErrorKind, PartialResponse, SseEvent, SseReader, StreamMerger, StreamParser,
    StreamPosition, WireCodec,
};

mod body;
mod late;
mod notices;
mod pause;
mod reading;
mod reconnect;
mod restart;
mod rounds;

pub(super) use body::{StreamBeginning, UpstreamBody};
pub(super) use late::delayed_stream;
use notices::{StreamComment, has_said};
use pause::OutputPauseDetector;
use reading::{
    CharacterFilter, ParsedChunk, is_comment, is_unread_error, is_whole, parse_chunk, said_by, says_more,
    seen_in,
};
use restart::ResumedStream;
use rounds::AnswerStepBuffer;

/// The most that one event of a stream may have, in bytes.
const MAX_EVENT_BYTES: usize = 16 << 20;

/// The most that is read of one stream, in bytes: what it says is kept until it ends.
const MAX_STREAM_BYTES: usize = 512 << 20;

/// How long usage and the closing event may take once the reason to stop is known: an answer that is whole does not wait
/// for a server that keeps the line open.
const AFTER_FINISH: Duration = Duration::from_secs(5);

/// How long the end of the body may take after the closing event: reading it lets the connection be used again.
const AFTER_CLOSE: Duration = Duration::from_millis(250);

/// Keeps a line alive; readers of events skip it.
pub(super) const COMMENT: &[u8] = b": keep-alive\n\n";

/// A stream on its way.
pub(super) struct AnswerFlow {
    attempt: Option<UpstreamAttempt>,
    wire: &'static dyn WireCodec,
    keep_alive: Duration,
    outbound_request: OutboundRequest,
    events: SseReader,
    characters: CharacterFilter,
    reader: EventProcessor,
    phase: FlowPhase,
    out: VecDeque<Bytes>,
    /// What the text is to begin with.
    note: Option<String>,
    pause: Option<OutputPauseDetector>,
    restarts: u32,
    /// The number of restarts that left out only the answer's own beginning.
    continuations: u32,
    /// The number of streams of the answer that broke off.
    broken_streams: u32,
    /// The failure of the newest broken stream.
    broke_by: Option<GatewayError>,
    /// Whether no more room can be made.
    is_window_exhausted: bool,
    /// Output of streams that are over, in tokens.
    left_tokens: u64,
    /// What was counted of the output when the newest of them was.
    counted_tokens: u64,
    /// Of an answer whose calls may be answered here: its present step.
    step: Option<AnswerStepBuffer>,
    /// Whether one step of it is over and the next has not begun.
    is_between: bool,
    /// The kind of content that the newest event with content belonged to: text, reasoning or a call.
    within: StreamPosition,
    /// How the output of its last step is divided, if the client has only a part of it.
    division: OutputDivision,
    /// Bytes of the upstream's, of all streams.
    taken_bytes: usize,
    /// When it last said anything but comments and pings, and how long it may say nothing else.
    said_at: Instant,
    patience: Duration,
    /// Until when the stream may stay open: its answer is whole.
    open_until: Option<Instant>,
    /// Whether it has said an error where no client reads it.
    has_unread_error: bool,
    /// Whether what went out last is an event without its empty line: nobody has read it yet.
    is_open: bool,
    /// Why it has no end of its own.
    fault: Option<GatewayError>,
}

/// Who sees the events.
enum EventProcessor {
    /// They pass as they are.
    Watches(Box<dyn StreamParser>),
    /// They may have to be made one answer with those of another stream.
    Joins(Box<dyn StreamMerger>),
}

enum FlowPhase {
    Reading(Box<UpstreamBody>),
    /// Room is being made.
    Waiting(Pin<Box<dyn Future<Output = ResumedStream> + Send>>),
    Ended,
}

impl EventProcessor {
    fn seen(&self) -> &PartialResponse {
        match self {
            Self::Watches(watcher) => watcher.seen(),
            Self::Joins(splice) => splice.seen(),
        }
    }
}

impl AnswerFlow {
    /// What is collected is read from the first event on as if it might have to be joined.
    pub(super) fn new(
        route: UpstreamAttempt,
        body: UpstreamBody,
        outbound_request: OutboundRequest,
        collects: bool,
    ) -> Self {
        let wire = route.exchange.wire;
        let patience = route.target.server.timeouts().idle;
        let pause = route.may_continue().then(|| {
            OutputPauseDetector::new(route.window.tokens, outbound_request.input, route.asked_output())
        });
        let notes = route.notes(&outbound_request);
        // What was done is said in the end of the answer.
        let hidden = route.hidden_tools(&outbound_request.report);
        let hides = !hidden.is_empty();
        let has_totals = outbound_request.report.has_acted() || route.totals.has_calls();
        let may_join = pause.is_some() || route.may_reconnect();
        let reader = match may_join || notes || has_totals || hides || collects {
            true => {
                let mut splice = wire.stream_merger();
                hidden.into_iter().for_each(|tool| splice.hide_tool(tool));
                EventProcessor::Joins(splice)
            }
            false => EventProcessor::Watches(wire.stream_parser()),
        };
        let is_compacted = outbound_request.report.action == PreparationAction::Compacted;
        let told = [COMPACTING, CONTINUING].map(|notice| Bytes::from(notice.comment()));
        Self {
            keep_alive: route.exchange.inner.config.keep_alive,
            attempt: Some(route),
            wire,
            outbound_request,
            events: SseReader::default(),
            characters: CharacterFilter::default(),
            reader,
            phase: FlowPhase::Reading(Box::new(body)),
            out: told.into_iter().filter(|_| is_compacted).collect(),
            note: notes.then(|| format!("{COMPACTING}\n{CONTINUING}\n\n")),
            pause,
            restarts: 0,
            continuations: 0,
            broken_streams: 0,
            broke_by: None,
            is_window_exhausted: false,
            left_tokens: 0,
            counted_tokens: 0,
            step: hides.then(AnswerStepBuffer::default),
            is_between: false,
            within: StreamPosition::Nothing,
            division: OutputDivision::default(),
            taken_bytes: 0,
            said_at: Instant::now(),
            patience,
            open_until: None,
            has_unread_error: false,
            is_open: false,
            fault: None,
        }
    }

    pub(super) fn into_stream(self) -> ReplyStream {
        let span = Span::current();
        Box::pin(unfold(self, move |mut flow| {
            let next = async move {
                let next = flow.next().await?;
                Some((Ok(next), flow))
            };
            next.instrument(span.clone())
        }))
    }

    /// All events, with the route as it was at the end and what was done last.
    ///
    /// # Errors
    /// [`GatewayError`] if the upstream breaks off.
    pub(super) async fn collect(
        mut self,
    ) -> Result<(Vec<Bytes>, Option<UpstreamAttempt>, PreparationReport), GatewayError> {
        let mut all = SseReader::default();
        let mut events = Vec::new();
        while let Some(bytes) = self.next().await {
            all.feed(bytes);
            // Comments say nothing to somebody who waits for the whole.
            let all = std::iter::from_fn(|| all.next_event());
            events.extend(all.filter(|raw| !is_comment(raw)));
        }
        match self.fault.take() {
            Some(fault) => Err(fault),
            None if self.reader.seen().finish.is_some() => {
                Ok((events, self.attempt, self.outbound_request.report))
            }
            None => {
                Err(GatewayError::new(GatewayErrorKind::Upstream, "the upstream broke off in its answer"))
            }
        }
    }

    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(bytes) = self.out.pop_front() {
                return Some(bytes);
            }
            match &mut self.phase {
                FlowPhase::Ended => return None,
                FlowPhase::Reading(body) => {
                    let tick = Instant::now() + self.keep_alive;
                    let until = self.open_until.map_or(tick, |until| until.min(tick));
                    match timeout_at(until, body.next()).await {
                        Ok(Ok(Some(chunk))) => self.take(chunk),
                        Ok(Ok(None)) => self.finish().await,
                        // What goes wrong behind it takes nothing from an answer that is whole.
                        Ok(Err(_)) if self.open_until.is_some() => self.finish().await,
                        Ok(Err(fault)) => self.handle_broken_stream(fault),
                        Err(_) if self.open_until.is_some_and(|until| until <= Instant::now()) => {
                            self.finish().await;
                        }
                        // What went out ends with an event.
                        Err(_) => return Some(Bytes::from_static(COMMENT)),
                    }
                }
                FlowPhase::Waiting(making) => match timeout(self.keep_alive, making).await {
                    Ok(resumed) => self.resume(resumed),
                    Err(_) => return Some(Bytes::from_static(COMMENT)),
                },
            }
        }
    }

    /// More of the upstream's stream. Only whole events go out: what ends the answer must stand by itself.
    fn take(&mut self, chunk: Bytes) {
        self.taken_bytes += chunk.len();
        let says = match &mut self.reader {
            EventProcessor::Watches(watcher) => {
                let was_over = watcher.seen().over;
                let ParsedChunk { out, says, has_unread_error } =
                    parse_chunk(watcher.as_mut(), &mut self.events, chunk);
                self.has_unread_error |= has_unread_error;
                if let Some(route) = self.attempt.as_ref().filter(|_| !was_over && watcher.seen().over) {
                    route.exchange.keep_end(&out);
                }
                self.go_out(out);
                says
            }
            EventProcessor::Joins(_) => self.join(chunk),
        };
        if says || self.events.has_begun() {
            self.said_at = Instant::now();
        }
        if says {
            self.open_until = self.may_stay_open();
        }
        let too_long = |what: &str, most: usize| {
            let message = format!("{what} of the upstream's has more than {most} bytes");
            GatewayError::new(GatewayErrorKind::Upstream, message)
        };
        if self.events.begun_bytes() > MAX_EVENT_BYTES {
            self.break_off(too_long("an event", MAX_EVENT_BYTES));
        } else if self.taken_bytes > MAX_STREAM_BYTES {
            self.break_off(too_long("a stream", MAX_STREAM_BYTES));
        } else if self.said_at.elapsed() > self.patience {
            let message =
                format!("the upstream sent only comments and pings for {} s", self.patience.as_secs_f64());
            self.break_off(GatewayError::new(GatewayErrorKind::Timeout, message));
        }
    }

    /// Until when more may come. Of several choices only the end of the stream says that all are whole.
    fn may_stay_open(&self) -> Option<Instant> {
        let seen = self.reader.seen();
        let is_whole = seen.finish.is_some() && !seen.has_other;
        match seen.over {
            true => Some(AFTER_CLOSE),
            false => is_whole.then_some(AFTER_FINISH),
        }
        .map(|time| Instant::now() + time)
    }

    /// Returns whether anything but comments and pings came.
    fn join(&mut self, chunk: Bytes) -> bool {
        let mut out = Vec::with_capacity(chunk.len());
        let mut says = false;
        self.events.feed(chunk);
        'events: while let Some(raw) = self.events.next_event() {
            says |= says_more(&raw, self.reader.seen());
            for raw in self.characters.take(raw) {
                if let Some(fault) = self.passing_error(&raw) {
                    self.go_out(out.into());
                    self.handle_broken_stream(fault);
                    return says;
                }
                if self.must_stop(&raw) {
                    self.leave_before_event(&raw, &mut out);
                    break 'events;
                }
                self.relay_event(&raw, &mut out);
            }
        }
        self.go_out(out.into());
        says
    }

    /// Bytes for the client. Some servers repeat a key in the error that they refuse it with.
    fn go_out(&mut self, out: Bytes) {
        let said_error = self.reader.seen().error.is_some();
        let out = match self.attempt.as_ref().filter(|_| said_error) {
            Some(route) => route.target.server.hide_secrets(out),
            None => out,
        };
        self.out.extend((!out.is_empty()).then_some(out));
    }

    /// An event of a stream that may be joined with another.
    fn relay_event(&mut self, raw: &Bytes, out: &mut Vec<u8>) {
        self.has_unread_error |= is_unread_error(raw);
        if let Some(step) = &mut self.step {
            step.take(raw);
        }
        let EventProcessor::Joins(splice) = &mut self.reader else { return };
        let begins = self.note.is_some() && !said_by(self.wire, raw).is_empty();
        let note = self.note.take_if(|_| begins);
        let note = note.filter(|note| !has_said(splice.as_mut(), note, out));
        splice.pass_event(raw, out);
        self.within = match splice.seen().position {
            StreamPosition::Nothing => self.within,
            inside => inside,
        };
        // Nothing can be said before the very first event.
        if let Some(note) = note {
            splice.notice(&format!("\n\n{note}"), out);
        }
    }

    /// Returns whether the answer is to be stopped before this event.
    fn must_stop(&mut self, raw: &[u8]) -> bool {
        // A call that is answered here is waited for.
        if self.has_hidden() {
            return false;
        }
        let seen = self.reader.seen();
        let (Some(pause), Some(route)) = (&mut self.pause, &self.attempt) else { return false };
        // What is written here for another dialect is no report.
        let told = if route.needs_translation() { route.totals.told() } else { seen.usage.clone() };
        told.iter().for_each(|usage| pause.apply_reported_usage(usage));
        pause.count(seen, || (route.exchange.inner.parts.counter)(&route.target.origin()));
        let is_due = pause.is_due(seen, || seen_in(self.wire, raw));
        is_due && !self.step_text().trim_end().is_empty()
    }

    /// What the newest stream has reported: in its own words where they are others than the caller's.
    fn usage(&self) -> Option<Usage> {
        match self.attempt.as_ref().filter(|route| route.needs_translation()) {
            // What the caller is told may be our count.
            Some(route) => route.totals.told(),
            None => self.reader.seen().usage.clone(),
        }
    }

    /// Nothing more comes: the answer ends as the newest stream ended it, or for its length.
    fn end(&mut self) {
        self.phase = FlowPhase::Ended;
        if self.is_silent() {
            self.conclude();
        }
        // Between two steps what was used is counted already.
        if let Some(route) = self.attempt.as_ref().filter(|_| !self.is_between) {
            let counted = || route.counted(&self.outbound_request, self.reader.seen(), self.left_tokens);
            route.totals.add(self.usage().as_ref(), counted);
        }
        self.attempt.iter().for_each(|route| route.log_end(true));
        if let EventProcessor::Joins(splice) = &mut self.reader {
            let mut out = Vec::new();
            splice.end(self.left_tokens, &mut out);
            if let Some(route) = &self.attempt {
                route.exchange.keep_end(&Bytes::copy_from_slice(&out));
                out = route.totals.at_end(&self.outbound_request.report, self.wire.dialect(), out);
            }
            self.out.push_back(out.into());
        }
    }

    /// What stands behind the last event that had an end.
    fn read_rest(&mut self) {
        let rest = self.events.take_rest();
        let is_whole = is_whole(&rest);
        if let EventProcessor::Watches(watcher) = &mut self.reader {
            // Half an event is nobody's.
            if is_whole {
                self.has_unread_error |= is_unread_error(&rest);
                watcher.read(&SseEvent::parse(&rest));
                self.is_open = !rest.trim_ascii().is_empty();
                self.go_out(rest);
            }
            return;
        }
        let last = Some(rest).filter(|rest| is_whole && !rest.trim_ascii().is_empty());
        let last = last.map(|rest| Bytes::from([&rest[..], b"\n\n"].concat()));
        let mut events: Vec<Bytes> = last.into_iter().flat_map(|raw| self.characters.take(raw)).collect();
        events.extend(self.characters.rest());
        let mut out = Vec::new();
        events.iter().for_each(|raw| self.relay_event(raw, &mut out));
        self.go_out(out.into());
    }

    /// The upstream's stream is over.
    async fn finish(&mut self) {
        self.read_rest();
        let seen = self.reader.seen();
        match &seen.error {
            Some(error) if seen.finish.is_none() => {
                let error = error.clone();
                return self.fail(&error);
            }
            None if seen.finish.is_none() && !seen.over => return self.handle_broken_stream(ended_early()),
            _ => {}
        }
        if self.goes_round().await {
            return;
        }
        if self.has_no_room() {
            return self.go_on_after_end();
        }
        let seen = self.reader.seen();
        // What several streams reported is no count of this request.
        let is_only = self.is_first_stream();
        if let Some(route) = self.attempt.as_ref().filter(|_| seen.finish.is_some()) {
            if let Some(usage) = self.usage().filter(|_| is_only) {
                route.remember_usage_beside(self.division.shown_of(usage), &self.outbound_request).await;
            }
            if is_only && self.usage().is_some() {
                route.learn_from_stream(seen, &self.outbound_request);
            }
        }
        if matches!(self.reader, EventProcessor::Joins(_))
            && self.reader.seen().finish == Some(ModelStopReason::Length)
        {
            self.report_full_window();
        }
        self.end();
    }

    /// The upstream has said an error, and that is the end.
    fn fail(&mut self, error: &str) {
        let fault = match &self.attempt {
            Some(route) => route.said_error(error),
            None => GatewayError::new(GatewayErrorKind::Upstream, error),
        };
        match self.has_unread_error {
            true => self.break_off(fault),
            // The client reads it.
            false => {
                self.close_event();
                self.abandon(fault);
            }
        }
    }

    /// The newest event gets its empty line, if it has none.
    fn close_event(&mut self) {
        if std::mem::take(&mut self.is_open) {
            self.out.push_back(Bytes::from_static(b"\n\n"));
        }
    }

    /// The error, in the stream.
    fn break_off(&mut self, fault: GatewayError) {
        self.close_event();
        self.out.push_back(self.wire.error_event_after(&fault, self.reader.seen()));
        self.abandon(fault);
    }

    /// The stream is over without an end.
    fn abandon(&mut self, fault: GatewayError) {
        self.phase = FlowPhase::Ended;
        if let Some(route) = self.attempt.as_ref().filter(|_| !self.is_between) {
            let seen = self.reader.seen();
            let written = route.counted(&self.outbound_request, seen, self.left_tokens).output;
            let last = seen.usage.clone().filter(|_| seen.finish.is_some());
            route.totals.partial(self.partial(route, written, last));
        }
        if let Some(route) = &self.attempt {
            route.log_end(false);
            route.exchange.log_failure(&fault);
        }
        self.fault = Some(fault);
    }
}

/// A stream that says neither why it ends nor that it does.
pub(super) fn ended_early() -> GatewayError {
    GatewayError::new(GatewayErrorKind::Upstream, "the upstream's stream ended before its answer did")
}
