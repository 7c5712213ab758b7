//! A stream on its way to the client: bytes pass as they come, a reader sees them, and where the window ends the answer
//! is stopped, room is made, and it goes on.

use std::collections::VecDeque;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::unfold;
use futures_util::{Stream, StreamExt};
use longhaul_core::message::Finish;
use longhaul_core::usage::Usage;
use longhaul_providers::overflow::{self, Overflow, Suspicion};
use tokio::time::{Instant, timeout, timeout_at};

use super::prepare::Prepared;
use super::{Action, Opened, Route};
use crate::gateway::ReplyStream;
use crate::wire::volatile::{self, COMPACTING, CONTINUING, SPENT};
use crate::wire::{Event, Events, Fault, FaultKind, Seen, Splice, Watcher, Wire};

mod coding;
mod pause;

use coding::Coding;
use pause::Pause;

/// How often one answer is stopped and gone on with at most.
const MOST_RESTARTS: u32 = 3;

/// The most that one event of a stream may have, in bytes.
const MAX_EVENT_BYTES: usize = 16 << 20;

/// The most that is read of one stream, in bytes: what it says is kept until it ends.
const MAX_STREAM_BYTES: usize = 512 << 20;

/// From this share of the window on, in percent, it counts as full.
const FULL_PERCENT: u64 = 97;

/// Keeps a line alive; readers of events skip it.
pub(super) const COMMENT: &[u8] = b": keep-alive\n\n";

/// An upstream's body as it comes.
pub(super) struct Body {
    stream: Pin<Box<dyn Stream<Item = reqwest::Result<Bytes>> + Send>>,
    coding: Option<Coding>,
    /// What was read ahead.
    first: Option<Result<Option<Bytes>, Fault>>,
    idle: Duration,
    heard_at: Instant,
}

impl Body {
    /// # Errors
    /// [`Fault`] if it comes in a coding that cannot be read.
    pub(super) fn new(response: reqwest::Response, idle: Duration) -> Result<Self, Fault> {
        let coding = Coding::of(response.headers())?;
        Ok(Self {
            stream: Box::pin(response.bytes_stream()),
            coding,
            first: None,
            idle,
            heard_at: Instant::now(),
        })
    }

    /// The next piece; `None` at the end.
    ///
    /// # Errors
    /// [`Fault`] if it breaks off or nothing comes for too long.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, Fault> {
        if let Some(first) = self.first.take() {
            return first;
        }
        loop {
            let Some(chunk) = self.next_piece().await? else { return Ok(None) };
            let Some(coding) = &mut self.coding else { return Ok(Some(chunk)) };
            let plain = coding.decode(&chunk)?;
            if !plain.is_empty() {
                return Ok(Some(plain));
            }
        }
    }

    async fn next_piece(&mut self) -> Result<Option<Bytes>, Fault> {
        // Whoever waits may give up and come again: the silence goes on.
        match timeout_at(self.heard_at + self.idle, self.stream.next()).await {
            Ok(None) => Ok(None),
            Ok(Some(Ok(chunk))) => {
                self.heard_at = Instant::now();
                Ok(Some(chunk))
            }
            Ok(Some(Err(error))) => {
                let message = format!("the upstream broke off in its answer: {error}");
                Err(Fault::new(FaultKind::Unreachable, message))
            }
            Err(_) => {
                let message = format!("the upstream was silent for {} s", self.idle.as_secs_f64());
                Err(Fault::new(FaultKind::Timeout, message))
            }
        }
    }

    /// The overflow that a stream begins with instead of an answer. What was read of it is read again.
    pub(super) async fn first_error(&mut self, wire: &dyn Wire) -> Option<Overflow> {
        let first = self.next().await;
        let chunk = first.as_ref().ok().cloned().flatten();
        self.first = Some(first);
        let chunk = chunk?;
        let mut events = Events::default();
        events.feed(chunk);
        let raw = events.next_event().unwrap_or_else(|| events.rest());
        let mut watcher = wire.watcher();
        watcher.read(&Event::parse(&raw));
        overflow::recognise(Some(200), watcher.seen().error.as_deref()?)
    }
}

/// A stream on its way.
pub(super) struct Flow {
    route: Option<Route>,
    wire: &'static dyn Wire,
    keep_alive: Duration,
    prepared: Prepared,
    events: Events,
    reader: Reader,
    phase: Phase,
    out: VecDeque<Bytes>,
    /// What the text is to begin with.
    note: Option<String>,
    pause: Option<Pause>,
    restarts: u32,
    /// Whether no more room can be made.
    is_spent: bool,
    /// Output of streams that were left, in tokens.
    left_tokens: u64,
    /// Bytes of the upstream's, of all streams.
    taken_bytes: usize,
    /// When it last said anything but a comment, and how long it may say nothing else.
    said_at: Instant,
    patience: Duration,
    /// Why it has no end of its own.
    fault: Option<Fault>,
}

/// Who sees the events.
enum Reader {
    /// They pass as they are.
    Watches(Box<dyn Watcher>),
    /// They may have to be made one answer with those of another stream.
    Joins(Box<dyn Splice>),
}

enum Phase {
    Reading(Box<Body>),
    /// Room is being made.
    Waiting(Pin<Box<dyn Future<Output = Resumed> + Send>>),
    Ended,
}

/// What came of making room: the next stream, or why there is none.
struct Resumed {
    route: Route,
    prepared: Prepared,
    body: Result<Body, Fault>,
    /// Whether nothing could be left out: the answer goes on to the real limit.
    is_last: bool,
}

impl Reader {
    fn seen(&self) -> &Seen {
        match self {
            Self::Watches(watcher) => watcher.seen(),
            Self::Joins(splice) => splice.seen(),
        }
    }
}

impl Flow {
    pub(super) fn new(route: Route, body: Body, prepared: Prepared) -> Self {
        let wire = route.passage.wire;
        let patience = route.target.server.timeouts().header;
        let pause = route.may_continue().then(|| Pause::new(route.window.tokens, prepared.input));
        let notes = route.notes(&prepared);
        let reader = match pause.is_some() || notes {
            true => Reader::Joins(wire.splice()),
            false => Reader::Watches(wire.watcher()),
        };
        let is_compacted = prepared.report.action == Action::Compacted;
        let told = [COMPACTING, CONTINUING].map(|notice| Bytes::from(notice.comment()));
        Self {
            keep_alive: route.passage.inner.config.keep_alive,
            route: Some(route),
            wire,
            prepared,
            events: Events::default(),
            reader,
            phase: Phase::Reading(Box::new(body)),
            out: told.into_iter().filter(|_| is_compacted).collect(),
            note: notes.then(|| format!("{COMPACTING}\n{CONTINUING}\n\n")),
            pause,
            restarts: 0,
            is_spent: false,
            left_tokens: 0,
            taken_bytes: 0,
            said_at: Instant::now(),
            patience,
            fault: None,
        }
    }

    pub(super) fn into_stream(self) -> ReplyStream {
        Box::pin(unfold(self, |mut flow| async move {
            let next = flow.next().await?;
            Some((Ok(next), flow))
        }))
    }

    /// All events.
    ///
    /// # Errors
    /// [`Fault`] if the upstream breaks off.
    pub(super) async fn collect(mut self) -> Result<Vec<Bytes>, Fault> {
        let mut all = Events::default();
        let mut events = Vec::new();
        while let Some(bytes) = self.next().await {
            all.feed(bytes);
            // Comments say nothing to somebody who waits for the whole.
            let all = std::iter::from_fn(|| all.next_event());
            events.extend(all.filter(|raw| !is_comment(raw)));
        }
        let seen = self.reader.seen();
        if seen.finish.is_some() {
            return Ok(events);
        }
        let broken = || match &seen.error {
            Some(error) => {
                format!("the upstream broke off: {}", error.chars().take(2_000).collect::<String>())
            }
            None => "the upstream broke off in its answer".to_owned(),
        };
        Err(self.fault.take().unwrap_or_else(|| Fault::new(FaultKind::Upstream, broken())))
    }

    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(bytes) = self.out.pop_front() {
                return Some(bytes);
            }
            match &mut self.phase {
                Phase::Ended => return None,
                Phase::Reading(body) => match timeout(self.keep_alive, body.next()).await {
                    Ok(Ok(Some(chunk))) => self.take(chunk),
                    Ok(Ok(None)) => self.finish().await,
                    Ok(Err(fault)) => self.break_off(fault),
                    // What went out ends with an event.
                    Err(_) => return Some(Bytes::from_static(COMMENT)),
                },
                Phase::Waiting(making) => match timeout(self.keep_alive, making).await {
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
            Reader::Watches(watcher) => {
                let was_over = watcher.seen().over;
                let (out, says) = watched(watcher.as_mut(), &mut self.events, chunk);
                if let Some(route) = self.route.as_ref().filter(|_| !was_over && watcher.seen().over) {
                    route.passage.keep_end(&out);
                }
                self.out.extend((!out.is_empty()).then_some(out));
                says
            }
            Reader::Joins(_) => self.join(chunk),
        };
        if says || self.events.begun_bytes() > 0 {
            self.said_at = Instant::now();
        }
        let too_long = |what: &str, most: usize| {
            let message = format!("{what} of the upstream's has more than {most} bytes");
            Fault::new(FaultKind::Upstream, message)
        };
        if self.events.begun_bytes() > MAX_EVENT_BYTES {
            self.break_off(too_long("an event", MAX_EVENT_BYTES));
        } else if self.taken_bytes > MAX_STREAM_BYTES {
            self.break_off(too_long("a stream", MAX_STREAM_BYTES));
        } else if self.said_at.elapsed() > self.patience {
            let message = format!("the upstream sent only comments for {} s", self.patience.as_secs_f64());
            self.break_off(Fault::new(FaultKind::Timeout, message));
        }
    }

    /// Whether anything but comments came.
    fn join(&mut self, chunk: Bytes) -> bool {
        let mut out = Vec::with_capacity(chunk.len());
        let mut says = false;
        self.events.feed(chunk);
        while let Some(raw) = self.events.next_event() {
            says |= !is_comment(&raw);
            if self.must_stop(&raw) {
                self.stop(&raw, &mut out);
                break;
            }
            if let Reader::Joins(splice) = &mut self.reader {
                let begins = self.note.is_some() && !said_by(self.wire, &raw).is_empty();
                let note = self.note.take_if(|_| begins);
                let note = note.filter(|note| !has_said(splice.as_mut(), note, &mut out));
                splice.pass(&raw, &mut out);
                // Nothing can be said before the very first event.
                if let Some(note) = note {
                    splice.notice(&format!("\n\n{note}"), &mut out);
                }
            }
        }
        if !out.is_empty() {
            self.out.push_back(out.into());
        }
        says
    }

    /// Whether the answer is to be stopped before this event.
    fn must_stop(&mut self, raw: &[u8]) -> bool {
        let seen = self.reader.seen();
        let (Some(pause), Some(route)) = (&mut self.pause, &self.route) else { return false };
        pause.count(seen, || (route.passage.inner.parts.counter)(&route.target.origin()));
        pause.is_due(seen, || said_by(self.wire, raw))
    }

    /// Leaves the upstream's stream before this event, and begins to make room.
    fn stop(&mut self, next: &[u8], out: &mut Vec<u8>) {
        let Some(route) = self.route.take() else { return };
        let (text, tokens) = {
            let seen = self.reader.seen();
            (seen.text.clone(), self.pause.as_ref().map_or(0, Pause::tokens))
        };
        let is_exact = route.goes_on_exactly();
        let in_text = route.passage.inner.config.notices_in_text;
        if !is_exact {
            route.totals.approximate();
        }
        if let Reader::Joins(splice) = &mut self.reader {
            let said = said_by(self.wire, next);
            let gap = &said[..said.len() - said.trim_start().len()];
            if is_exact {
                splice.go_on(&text)
            } else {
                splice.go_on_about(&text, gap)
            }
            if in_text {
                splice.notice(&format!("\n\n{COMPACTING}\n"), out);
            }
        }
        self.restarts += 1;
        let new_tokens = tokens.saturating_sub(std::mem::replace(&mut self.left_tokens, tokens));
        self.events = Events::default();
        out.extend_from_slice(COMPACTING.comment().as_bytes());
        route.totals.left(self.prepared.input, new_tokens);
        let prepared = self.prepared.clone();
        // The upstream's connection closes here: most local servers have room for one request.
        self.phase = Phase::Waiting(Box::pin(resume(route, prepared, text, tokens)));
    }

    fn resume(&mut self, resumed: Resumed) {
        let Resumed { route, prepared, body, is_last } = resumed;
        let window = route.window.tokens;
        self.route = Some(route);
        self.said_at = Instant::now();
        match body {
            Ok(body) => {
                self.prepared = prepared;
                self.phase = Phase::Reading(Box::new(body));
                if is_last || self.restarts >= MOST_RESTARTS {
                    self.pause = None;
                    self.is_spent = true;
                    self.tell(SPENT, &format!("{SPENT}\n\n"));
                } else {
                    if let Some(pause) = &mut self.pause {
                        pause.go_on(window, self.prepared.input);
                    }
                    self.tell(CONTINUING, &format!("{CONTINUING}\n\n"));
                }
            }
            Err(fault) => {
                tracing::warn!(fault = fault.message, "an answer was stopped and could not go on");
                self.is_spent = true;
                self.exceeded();
                self.end();
            }
        }
    }

    /// A notice: as a comment, and in the text where that is wanted.
    fn tell(&mut self, notice: &str, in_text: &str) {
        self.out.push_back(notice.comment().into());
        let wanted = self.route.as_ref().is_some_and(|route| route.passage.inner.config.notices_in_text);
        if let (Reader::Joins(splice), true) = (&mut self.reader, wanted) {
            let mut out = Vec::new();
            splice.notice(in_text, &mut out);
            self.out.push_back(out.into());
        }
    }

    /// Says that the window is full, if it is.
    fn exceeded(&mut self) {
        let Some(window) = self.route.as_ref().map(|route| route.window.tokens) else { return };
        let seen = self.reader.seen();
        let counted = self.prepared.input + self.pause.as_ref().map_or(0, Pause::tokens);
        let used = seen.usage.as_ref().map_or(counted, Usage::total_tokens);
        let is_full = used.saturating_mul(100) >= window.saturating_mul(FULL_PERCENT);
        if !self.is_spent && !is_full || seen.finish.is_some_and(|finish| finish != Finish::Length) {
            return;
        }
        if let Some(route) = self.route.as_ref().filter(|_| self.is_spent) {
            route.totals.spent();
        }
        let notice = volatile::exceeded(used, window);
        self.tell(&notice, &format!("\n\n{notice}"));
    }

    /// Nothing more comes: the answer ends as the newest stream ended it, or for its length.
    fn end(&mut self) {
        self.phase = Phase::Ended;
        if let Some(route) = &self.route {
            route.totals.add(self.reader.seen().usage.as_ref());
        }
        if let Reader::Joins(splice) = &mut self.reader {
            let mut out = Vec::new();
            splice.end(self.left_tokens, &mut out);
            if let Some(route) = &self.route {
                route.passage.keep_end(&Bytes::copy_from_slice(&out));
                out = route.totals.at_end(&self.prepared.report, self.wire.dialect(), out);
            }
            self.out.push_back(out.into());
        }
    }

    /// The upstream's stream is over.
    async fn finish(&mut self) {
        let rest = self.events.rest();
        // Half an event is nobody's.
        if is_whole(&rest) {
            match &mut self.reader {
                Reader::Watches(watcher) => {
                    watcher.read(&Event::parse(&rest));
                    self.out.push_back(rest);
                }
                Reader::Joins(_) if rest.trim_ascii().is_empty() => {}
                Reader::Joins(splice) => {
                    let mut out = Vec::new();
                    splice.pass(&[&rest[..], b"\n\n"].concat(), &mut out);
                    self.out.push_back(out.into());
                }
            }
        }
        let seen = self.reader.seen();
        if seen.finish.is_none() && seen.error.is_none() && !seen.over {
            let fault = Fault::new(FaultKind::Upstream, "the upstream's stream ended before its answer did");
            return self.break_off(fault);
        }
        if let Some(route) = self.route.as_ref().filter(|_| seen.finish.is_some()) {
            // What several streams reported is no count of this request.
            if let Some(usage) = seen.usage.clone().filter(|_| self.restarts == 0) {
                route.remember_usage(usage, &self.prepared).await;
            }
            let suspicion = route.suspicion(seen, &self.prepared).filter(|_| self.restarts == 0);
            let overflow = suspicion.map(Suspicion::overflow);
            if let Some(limit) =
                overflow.filter(|_| seen.finish != Some(Finish::Length)).and_then(|o| o.limit_tokens)
            {
                route.target.learn_window(limit);
            }
        }
        if matches!(self.reader, Reader::Joins(_)) && self.reader.seen().finish == Some(Finish::Length) {
            self.exceeded();
        }
        self.end();
    }

    /// The error, in the stream.
    fn break_off(&mut self, fault: Fault) {
        self.phase = Phase::Ended;
        self.out.push_back(self.wire.error_event(&fault));
        self.fault = Some(fault);
    }
}

/// What of a chunk ends with an event, as it came, and whether that is more than comments; what is behind waits for the
/// rest of its own.
fn watched(watcher: &mut dyn Watcher, events: &mut Events, chunk: Bytes) -> (Bytes, bool) {
    let begun = events.begun_bytes() > 0;
    events.feed(chunk.clone());
    let (mut whole_bytes, mut joined, mut says) = (0, Vec::new(), false);
    while let Some(raw) = events.next_event() {
        watcher.read(&Event::parse(&raw));
        whole_bytes += raw.len();
        says |= !is_comment(&raw);
        if begun {
            joined.extend_from_slice(&raw);
        }
    }
    (if begun { joined.into() } else { chunk.slice(..whole_bytes) }, says)
}

/// The text that an event brings.
fn said_by(wire: &dyn Wire, raw: &[u8]) -> String {
    let mut watcher = wire.watcher();
    watcher.read(&Event::parse(raw));
    watcher.seen().text.clone()
}

/// Says a notice, if a text is open.
fn has_said(splice: &mut dyn Splice, note: &str, out: &mut Vec<u8>) -> bool {
    let before = out.len();
    splice.notice(note, out);
    out.len() > before
}

/// Whether an event says nothing to a reader.
fn is_comment(raw: &[u8]) -> bool {
    Event::parse(raw).data.is_empty()
}

/// Whether the end of a body, which has no empty line, is an event all the same (or nothing).
fn is_whole(rest: &[u8]) -> bool {
    let data = Event::parse(rest).data.trim();
    let is_json = || serde_json::from_str::<serde::de::IgnoredAny>(data).is_ok();
    !rest.is_empty() && (data == "[DONE]" || rest.trim_ascii().is_empty() || !data.is_empty() && is_json())
}

/// A notice where readers of events do not see it.
trait Comment {
    fn comment(&self) -> String;
}

impl Comment for str {
    fn comment(&self) -> String {
        format!(": {self}\n\n")
    }
}

/// Makes room, and asks the upstream to go on.
async fn resume(route: Route, old: Prepared, text: String, tokens: u64) -> Resumed {
    let made = route.make_room_for_rest(&old, &text).await;
    let is_last = made.is_err();
    // Without room it goes on to the real limit.
    let prepared =
        made.unwrap_or_else(|_| Prepared { input: old.input + tokens, bound: old.bound + tokens, ..old });
    let body = go_on(&route, &prepared, &text, tokens).await;
    Resumed { route, prepared, body, is_last }
}

async fn go_on(route: &Route, prepared: &Prepared, text: &str, tokens: u64) -> Result<Body, Fault> {
    let body = route.body(prepared, Some((text, tokens)), !route.passage.envelope.stream).await?;
    let response = route.send(body).await?;
    let status = response.status();
    if !status.is_success() {
        return Err(Fault::new(
            FaultKind::Upstream,
            format!("the upstream would not go on: status {status}"),
        ));
    }
    Body::new(response, route.target.server.timeouts().idle)
}

/// A stream whose upstream is long in coming: comments until then, errors inside.
pub(super) fn late(
    wire: &'static dyn Wire,
    keep_alive: Duration,
    opening: Pin<Box<dyn Future<Output = Result<Opened, Fault>> + Send>>,
) -> ReplyStream {
    let begun = Late { wire, keep_alive, state: LateState::Opening(opening) };
    let first = futures_util::stream::iter([Ok(Bytes::from_static(COMMENT))]);
    Box::pin(first.chain(unfold(begun, |mut late| async move { Some((Ok(late.next().await?), late)) })))
}

struct Late {
    wire: &'static dyn Wire,
    keep_alive: Duration,
    state: LateState,
}

enum LateState {
    Opening(Pin<Box<dyn Future<Output = Result<Opened, Fault>> + Send>>),
    Open(ReplyStream),
    Over,
}

impl Late {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            let opened = match &mut self.state {
                LateState::Over => return None,
                LateState::Open(stream) => return stream.next().await?.ok(),
                LateState::Opening(opening) => match timeout(self.keep_alive, opening).await {
                    Ok(opened) => opened,
                    Err(_) => return Some(Bytes::from_static(COMMENT)),
                },
            };
            self.state = LateState::Over;
            match opened {
                Ok(Opened::Stream(_, _, stream)) => self.state = LateState::Open(stream),
                Ok(Opened::Whole(status, _, body)) => {
                    let said: String = String::from_utf8_lossy(&body).chars().take(2_000).collect();
                    let fault = Fault { status, ..Fault::new(FaultKind::Upstream, said) };
                    return Some(self.wire.error_event(&fault));
                }
                Err(fault) => return Some(self.wire.error_event(&fault)),
            }
        }
    }
}
