//! A stream on its way to the client. Bytes pass as they arrive, while a parser follows the events. Where the window
//! ends the answer is stopped, room is made, and the answer continues.

use std::collections::VecDeque;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::unfold;
use longhaul_core::exchange::{Exchange, ExchangeInput};
use longhaul_core::message::ModelStopReason;
use longhaul_core::usage::Usage;
use memchr::memmem;
use tokio::time::{Instant, timeout, timeout_at};
use tracing::{Instrument, Span};

use super::attempts::FailedAttempt;
use super::prepare::OutboundRequest;
use super::recall::OutputDivision;
use super::{PreparationAction, PreparationReport, UpstreamAttempt, previous_response, request_log};
use crate::gateway::ReplyStream;
use longhaul_wire::edit::ephemeral::{COMPACTING, CONTINUING};
use longhaul_wire::edit::{
    GatewayError, GatewayErrorKind, PartialResponse, SseEvent, SseReader, StreamMerger, StreamParser,
    StreamPosition, WireCodec,
};
use longhaul_wire::{MAX_ARGUMENT_BYTES, MAX_TOOL_CALLS};

mod body;
mod continuation;
mod delayed_answer;
mod pause;
mod reading;
mod stream_end;

pub(super) use body::{StreamBeginning, UpstreamBody};
use continuation::{ResumedStream, StreamComment, has_said};
pub(super) use delayed_answer::delayed_stream;
use pause::OutputPauseDetector;
use reading::{
    CharacterFilter, ParsedChunk, is_comment, is_unread_error, is_whole, parse_chunk, said_by, says_more,
    seen_in,
};
use stream_end::AnswerStepBuffer;
pub(super) use stream_end::is_out_of_room;

/// The largest event of a stream, in bytes.
const MAX_EVENT_BYTES: usize = 16 << 20;

/// The largest stream, in bytes. Its content stays in memory until the end.
const MAX_STREAM_BYTES: usize = 512 << 20;

/// The wait for usage and the closing event once the finish reason is known. A complete answer must not wait for a
/// server that keeps the connection open.
const AFTER_FINISH: Duration = Duration::from_secs(5);

/// The wait for the end of the body after the closing event. Reading to the end lets the connection be reused.
const AFTER_CLOSE: Duration = Duration::from_millis(250);

/// The comment that keeps a connection alive; parsers of events skip it.
pub(super) const COMMENT: &[u8] = b": keep-alive\n\n";

/// A stream on its way to the client.
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
    /// The notice at the start of the text.
    note: Option<String>,
    pause: Option<OutputPauseDetector>,
    /// Decides what follows a break, a full window and a hidden call.
    exchange: Exchange,
    /// The beginning of the answer, from which the exchange's time is measured.
    began: Instant,
    /// The failure of the newest broken stream, until the answer goes on.
    broke_by: Option<GatewayError>,
    /// The output of finished streams, in tokens.
    left_tokens: u64,
    /// The gateway's count of the output at the end of the newest broken stream.
    counted_tokens: u64,
    /// The present step, if calls of the answer may be answered by the gateway.
    step: Option<AnswerStepBuffer>,
    /// Set between the end of one step and the beginning of the next.
    is_between: bool,
    /// The kind of content of the newest event with content: text, reasoning or a call.
    within: StreamPosition,
    /// The division of the last step's output, if the client has only a part.
    division: OutputDivision,
    /// The number of bytes received from the upstream in all streams.
    taken_bytes: usize,
    /// The time of the last event that was no comment or ping.
    said_at: Instant,
    patience: Duration,
    /// The time until which a complete answer's stream may stay open.
    open_until: Option<Instant>,
    /// Set if the stream carried an error in a form unknown to clients.
    has_unread_error: bool,
    /// Set if the last bytes sent are an event without its empty line, still unread by clients.
    is_open: bool,
    /// The error at the end of the stream.
    fault: Option<GatewayError>,
    /// Set if the upstream's stream broke off or reported a failure, and the answer could not go on.
    is_broken: bool,
}

/// The receiver of the upstream's events.
enum EventProcessor {
    /// Events pass unchanged and are only observed.
    Watches(Box<dyn StreamParser>),
    /// Events may have to be merged with events of another stream.
    Joins(Box<dyn StreamMerger>),
}

enum FlowPhase {
    Reading(Box<UpstreamBody>),
    /// Room is being made for the rest of the answer.
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

/// Returns the error of an overlong event or stream.
fn too_long(what: &str, max_bytes: usize) -> GatewayError {
    let message = format!("{what} of the upstream's has more than {max_bytes} bytes");
    GatewayError::new(GatewayErrorKind::Upstream, message)
}

/// Returns the error of an answer whose tool calls are more than any client can answer. The rest of such an answer is
/// not read: a model in a loop asks for tools until its window is full.
fn too_many_calls(seen: &PartialResponse) -> Option<GatewayError> {
    let arguments: usize = seen.calls.iter().map(|call| call.arguments.len()).sum();
    let what = if seen.calls.len() > MAX_TOOL_CALLS {
        format!("asks for more than {MAX_TOOL_CALLS} tools at once")
    } else if arguments > MAX_ARGUMENT_BYTES {
        format!("has more than {} MiB of arguments for its tools", MAX_ARGUMENT_BYTES >> 20)
    } else {
        return None;
    };
    let message = format!("the answer {what}: it was given up there");
    Some(GatewayError::new(GatewayErrorKind::Upstream, message))
}

impl AnswerFlow {
    /// Creates a flow. A collected answer is parsed from the first event on as if streams might be merged.
    pub(super) fn new(
        route: UpstreamAttempt,
        body: UpstreamBody,
        outbound_request: OutboundRequest,
        collects: bool,
        exchange: Exchange,
    ) -> Self {
        let wire = route.request.proxied.wire;
        let patience = route.request.target.server.timeouts().idle;
        let pause = route.may_continue().then(|| {
            OutputPauseDetector::new(
                route.budget().window.tokens,
                outbound_request.input,
                route.request.asked_output(),
            )
        });
        let notes = route.notes(&outbound_request);
        // What was done is said in the end of the answer.
        let hidden = route.request.tools().hidden_tools(&outbound_request.report);
        let hides = !hidden.is_empty();
        let report = &outbound_request.report;
        let has_totals = report.has_acted() || report.applied_edits.is_some() || route.totals().has_calls();
        // The reading may show that the answer can be stopped and continued.
        let may_pause =
            pause.is_some() || route.late_reading.is_some() && route.request.may_continue_if_read();
        let may_join = may_pause || route.request.may_reconnect();
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
            keep_alive: route.request.proxied.inner.config.keep_alive,
            attempt: Some(route),
            wire,
            outbound_request,
            events: SseReader::default(),
            characters: CharacterFilter::default(),
            reader,
            phase: FlowPhase::Reading(Box::new(body)),
            // Comments precede the first event, so a person who watches the stream learns of the compaction
            // before the answer.
            out: told.into_iter().filter(|_| is_compacted).collect(),
            note: notes.then(|| format!("{COMPACTING}\n{CONTINUING}\n\n")),
            pause,
            exchange,
            began: Instant::now(),
            broke_by: None,
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
            is_broken: false,
        }
    }

    pub(super) fn into_stream(self) -> ReplyStream {
        // The stream is polled after the handler has returned, outside its span. Without the span its log lines
        // would not name the request.
        let span = Span::current();
        Box::pin(unfold(self, move |mut flow| {
            let next = async move {
                let next = flow.next().await?;
                Some((Ok(next), flow))
            };
            next.instrument(span.clone())
        }))
    }

    /// Returns all events, the attempt at its end, and the report of the last compaction.
    ///
    /// # Errors
    /// [`FailedAttempt`] if the upstream breaks off.
    pub(super) async fn collect(
        mut self,
    ) -> Result<(Vec<Bytes>, Option<UpstreamAttempt>, PreparationReport), FailedAttempt> {
        let mut all = SseReader::default();
        let mut events = Vec::new();
        while let Some(bytes) = self.next().await {
            all.feed(bytes);
            // The caller waits for the whole answer, so comments are useless.
            let all = std::iter::from_fn(|| all.next_event());
            events.extend(all.filter(|raw| !is_comment(raw)));
        }
        match self.fault.take() {
            Some(fault) => {
                // A continuation has had its tries.
                let is_first = self.exchange.broken_streams() == 0 && self.exchange.restarts() == 0;
                Err(FailedAttempt {
                    broke_off: self.is_broken && is_first && fault.kind.is_transient(),
                    fault,
                })
            }
            None if self.reader.seen().finish.is_some() => {
                Ok((events, self.attempt, self.outbound_request.report))
            }
            None => {
                let message = "the upstream broke off in its answer";
                Err(GatewayError::new(GatewayErrorKind::Upstream, message).into())
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
                    // A complete answer ends at its own time limit, even if the next keep-alive is due later.
                    let until = self.open_until.map_or(tick, |until| until.min(tick));
                    match timeout_at(until, body.next()).await {
                        Ok(Ok(Some(chunk))) => {
                            // The first words pass without a wait for the reading, but an error does not.
                            let is_first = self.taken_bytes == 0 && memmem::find(&chunk, b"error").is_none();
                            if !is_first {
                                self.adopt_reading().await;
                            }
                            self.take(chunk);
                        }
                        Ok(Ok(None)) => self.finish().await,
                        // An error behind a complete answer does not spoil the answer.
                        Ok(Err(_)) if self.open_until.is_some() => self.finish().await,
                        Ok(Err(fault)) => {
                            self.adopt_reading().await;
                            self.handle_broken_stream(fault);
                        }
                        Err(_) if self.open_until.is_some_and(|until| until <= Instant::now()) => {
                            self.finish().await;
                        }
                        // Safe between events only: the output so far always ends with an event.
                        Err(_) => return Some(Bytes::from_static(COMMENT)),
                    }
                }
                // A summary or a reconnect may take minutes, and proxies close a silent connection.
                FlowPhase::Waiting(making) => match timeout(self.keep_alive, making).await {
                    Ok(resumed) => self.resume(resumed),
                    Err(_) => return Some(Bytes::from_static(COMMENT)),
                },
            }
        }
    }

    /// Waits for the reading of a request that was sent unread. From then on the answer is followed like every other.
    async fn adopt_reading(&mut self) {
        let Some(attempt) = &mut self.attempt else { return };
        let Some(read) = attempt.adopt_reading().await else { return };
        self.pause = attempt.may_continue().then(|| {
            OutputPauseDetector::new(
                attempt.budget().window.tokens,
                read.input,
                attempt.request.asked_output(),
            )
        });
        self.outbound_request = read;
    }

    /// Processes more of the upstream's stream. Only complete events are sent on, so that an error event can follow at
    /// any time.
    fn take(&mut self, chunk: Bytes) {
        self.taken_bytes += chunk.len();
        let says = match &mut self.reader {
            EventProcessor::Watches(watcher) => {
                // The answer is stored once, with the chunk that completes it.
                let was_over = watcher.seen().over;
                let ParsedChunk { out, says, has_unread_error } =
                    parse_chunk(self.wire.dialect(), watcher.as_mut(), &mut self.events, chunk);
                self.has_unread_error |= has_unread_error;
                if let Some(fault) = too_many_calls(watcher.seen()) {
                    // The end of the answer must not reach the client in the same chunk.
                    return self.break_off(fault);
                }
                if let Some(route) = self.attempt.as_ref().filter(|_| !was_over && watcher.seen().over) {
                    previous_response::keep_end(&route.request.proxied, &out);
                }
                self.go_out(out);
                says
            }
            EventProcessor::Joins(_) => self.join(chunk),
        };
        // A large event may arrive in many chunks. A begun event counts as a sign of life, pings do not.
        if says || self.events.has_begun() {
            self.said_at = Instant::now();
        }
        if says {
            self.open_until = self.may_stay_open();
        }
        if self.events.begun_bytes() > MAX_EVENT_BYTES {
            // An event without an end would fill the memory.
            self.break_off(too_long("an event", MAX_EVENT_BYTES));
        } else if self.taken_bytes > MAX_STREAM_BYTES {
            self.break_off(too_long("a stream", MAX_STREAM_BYTES));
        } else if self.said_at.elapsed() > self.patience {
            let message =
                format!("the upstream sent only comments and pings for {} s", self.patience.as_secs_f64());
            self.break_off(GatewayError::new(GatewayErrorKind::Timeout, message));
        }
    }

    /// Returns the time until which more may arrive. With several choices only the stream's end shows that all are
    /// complete.
    fn may_stay_open(&self) -> Option<Instant> {
        let seen = self.reader.seen();
        let is_whole = seen.finish.is_some() && !seen.has_other;
        match seen.over {
            true => Some(AFTER_CLOSE),
            false => is_whole.then_some(AFTER_FINISH),
        }
        .map(|time| Instant::now() + time)
    }

    /// Processes a chunk of a stream that may be merged. Returns whether the chunk had anything but comments
    /// and pings.
    fn join(&mut self, chunk: Bytes) -> bool {
        let mut out = Vec::with_capacity(chunk.len());
        let mut says = false;
        self.events.feed(chunk);
        'events: while let Some(raw) = self.events.next_event() {
            says |= says_more(&raw, self.reader.seen());
            for raw in self.characters.take(raw) {
                if let Some(fault) = self.passing_error(&raw) {
                    // What came before the error still reaches the client.
                    self.go_out(out.into());
                    self.handle_broken_stream(fault);
                    return says;
                }
                if self.must_stop(&raw) {
                    self.leave_before_event(&raw, &mut out);
                    break 'events;
                }
                let before = out.len();
                self.relay_event(&raw, &mut out);
                if let Some(fault) = too_many_calls(self.reader.seen()) {
                    out.truncate(before);
                    self.go_out(out.into());
                    self.break_off(fault);
                    return says;
                }
            }
        }
        self.go_out(out.into());
        says
    }

    /// Sends bytes to the client. Some servers quote a refused key in their error, so secrets are hidden.
    fn go_out(&mut self, out: Bytes) {
        let said_error = self.reader.seen().error.is_some();
        let out = match self.attempt.as_ref().filter(|_| said_error) {
            Some(route) => route.request.target.server.hide_secrets(out),
            None => out,
        };
        self.out.extend((!out.is_empty()).then_some(out));
    }

    /// Passes on an event of a stream that may be merged with another.
    fn relay_event(&mut self, raw: &Bytes, out: &mut Vec<u8>) {
        if let Some(step) = &mut self.step {
            step.take(raw);
        }
        let EventProcessor::Joins(splice) = &mut self.reader else { return };
        // The notice belongs to the text, so it waits for the first event with text.
        let begins = self.note.is_some() && !said_by(self.wire, raw).is_empty();
        let note = self.note.take_if(|_| begins);
        let note = note.filter(|note| !has_said(splice.as_mut(), note, out));
        let had_error = splice.seen().error.is_some();
        splice.pass_event(raw, out);
        let is_error = !had_error && splice.seen().error.is_some();
        self.has_unread_error |= is_unread_error(self.wire.dialect(), raw, is_error);
        self.within = match splice.seen().position {
            StreamPosition::Nothing => self.within,
            inside => inside,
        };
        // The notice cannot precede the first event, which opens the message in most dialects.
        if let Some(note) = note {
            splice.notice(&format!("\n\n{note}"), out);
        }
    }

    /// Returns whether the answer is to be stopped before this event.
    fn must_stop(&mut self, raw: &[u8]) -> bool {
        // The gateway answers a hidden call, so the call must be complete.
        if self.has_hidden() {
            return false;
        }
        let seen = self.reader.seen();
        let (Some(pause), Some(route)) = (&mut self.pause, &self.attempt) else { return false };
        // Usage that the gateway itself wrote for another dialect is no report.
        let told = if route.request.needs_translation() { route.totals().told() } else { seen.usage.clone() };
        told.iter().for_each(|usage| pause.apply_reported_usage(usage));
        pause.count(seen, || (route.request.proxied.inner.parts.counter)(&route.request.target.origin()));
        let is_due = pause.is_due(seen, || seen_in(self.wire, raw));
        is_due && !self.step_text().trim_end().is_empty()
    }

    /// Returns the newest stream's reported usage, from the upstream's own wire if the request was translated.
    fn usage(&self) -> Option<Usage> {
        match self.attempt.as_ref().filter(|route| route.request.needs_translation()) {
            // The caller may have received the gateway's count.
            Some(route) => route.totals().told(),
            None => self.reader.seen().usage.clone(),
        }
    }

    /// Ends the answer as the newest stream ended it, or for its length.
    fn end(&mut self) {
        self.exchange.handle(ExchangeInput::AnswerEnded);
        self.phase = FlowPhase::Ended;
        if self.is_silent() {
            self.conclude();
        }
        // The usage of the finished step was counted when the step ended.
        if let Some(route) = self.attempt.as_ref().filter(|_| !self.is_between) {
            let counted =
                || route.request.counted(&self.outbound_request, self.reader.seen(), self.left_tokens);
            route.totals().add(self.usage().as_ref(), counted);
        }
        self.attempt.iter().for_each(|route| route.log_end(true));
        if let EventProcessor::Joins(splice) = &mut self.reader {
            let mut out = Vec::new();
            // The totals go into the closing events, so the closing events are held back until here.
            splice.end(self.left_tokens, &mut out);
            if let Some(route) = &self.attempt {
                previous_response::keep_end(&route.request.proxied, &Bytes::copy_from_slice(&out));
                out = route.totals().at_end(&self.outbound_request.report, self.wire.dialect(), out);
            }
            self.out.push_back(out.into());
        }
    }

    /// Processes the bytes behind the last complete event.
    fn read_rest(&mut self) {
        let rest = self.events.take_rest();
        let is_whole = is_whole(&rest);
        if let EventProcessor::Watches(watcher) = &mut self.reader {
            // Half an event is of no use to a client.
            if is_whole {
                let had_error = watcher.seen().error.is_some();
                watcher.read(&SseEvent::parse(&rest));
                let is_error = !had_error && watcher.seen().error.is_some();
                self.has_unread_error |= is_unread_error(self.wire.dialect(), &rest, is_error);
                self.is_open = !rest.trim_ascii().is_empty();
                self.go_out(rest);
            }
            return;
        }
        let last = Some(rest).filter(|rest| is_whole && !rest.trim_ascii().is_empty());
        // The merged stream goes on behind this event, so the event needs its empty line.
        let last = last.map(|rest| Bytes::from([&rest[..], b"\n\n"].concat()));
        let mut events: Vec<Bytes> = last.into_iter().flat_map(|raw| self.characters.take(raw)).collect();
        events.extend(self.characters.rest());
        let mut out = Vec::new();
        events.iter().for_each(|raw| self.relay_event(raw, &mut out));
        self.go_out(out.into());
    }

    /// Handles the end of the upstream's stream.
    async fn finish(&mut self) {
        self.adopt_reading().await;
        self.read_rest();
        let seen = self.reader.seen();
        match &seen.error {
            Some(error) if seen.finish.is_none() => {
                let error = error.clone();
                return self.fail(&error);
            }
            // A closed connection is the only sign of a server that has crashed.
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
        // The reports of several streams do not measure one request.
        let is_only = self.is_first_stream();
        if let Some(route) = self.attempt.as_ref().filter(|_| seen.finish.is_some()) {
            if let Some(usage) = self.usage().filter(|_| is_only) {
                route
                    .journal()
                    .remember_usage_beside(self.division.shown_of(usage), &self.outbound_request)
                    .await;
            }
            // A learned window must rest on a report of one whole request.
            if is_only && self.usage().is_some() {
                route.review().learn_from_stream(seen, &self.outbound_request);
            }
        }
        if matches!(self.reader, EventProcessor::Joins(_))
            && self.reader.seen().finish == Some(ModelStopReason::Length)
        {
            self.report_full_window();
        }
        self.end();
    }

    /// Handles a final error of the upstream's stream.
    fn fail(&mut self, error: &str) {
        let fault = match &self.attempt {
            Some(route) => route.request.said_error(error),
            None => GatewayError::new(GatewayErrorKind::Upstream, error),
        };
        self.is_broken = true;
        match self.has_unread_error {
            true => self.break_off(fault),
            // The client has received the error event itself.
            false => {
                self.close_event();
                self.abandon(fault);
            }
        }
    }

    /// Ends the newest event with an empty line if necessary.
    fn close_event(&mut self) {
        if std::mem::take(&mut self.is_open) {
            self.out.push_back(Bytes::from_static(b"\n\n"));
        }
    }

    /// Ends the stream with an error event.
    fn break_off(&mut self, fault: GatewayError) {
        self.close_event();
        // An event without its empty line would swallow the error event, so it is closed first.
        self.out.push_back(self.wire.error_event_after(&fault, self.reader.seen()));
        self.abandon(fault);
    }

    /// Abandons the stream without an end of its own, and accounts for its usage.
    fn abandon(&mut self, fault: GatewayError) {
        self.phase = FlowPhase::Ended;
        if let Some(route) = self.attempt.as_ref().filter(|_| !self.is_between) {
            let seen = self.reader.seen();
            let written = route.request.counted(&self.outbound_request, seen, self.left_tokens).output;
            // A report before the finish reason may cover only a part of the output.
            let last = seen.usage.clone().filter(|_| seen.finish.is_some());
            route.totals().partial(self.partial(route, written, last));
        }
        if let Some(route) = &self.attempt {
            route.log_end(false);
            request_log::log_failure(&route.request.proxied, &fault);
        }
        self.fault = Some(fault);
    }
}

/// Returns the error for a stream that ends without a finish reason and without a closing event.
pub(super) fn ended_early() -> GatewayError {
    GatewayError::new(GatewayErrorKind::Upstream, "the upstream's stream ended before its answer did")
}
