//! A stream on its way to the client: bytes pass as they come, a reader sees them, and where the window ends the answer
//! is stopped, room is made, and it goes on.

use std::collections::VecDeque;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::unfold;
use futures_util::{Stream, StreamExt};
use longhaul_core::message::Finish;
use longhaul_providers::overflow::{self, Overflow};
use tokio::time::timeout;

use super::prepare::Prepared;
use super::{Opened, Route};
use crate::gateway::ReplyStream;
use crate::wire::{Event, Events, Fault, FaultKind, Seen, Splice, Watcher, Wire};

mod pause;

use pause::Pause;

/// How often one answer is stopped and gone on with at most.
const MOST_RESTARTS: u32 = 3;

/// Keeps a line alive; readers of events skip it.
pub(super) const COMMENT: &[u8] = b": keep-alive\n\n";

/// An upstream's body as it comes.
pub(super) struct Body {
    stream: Pin<Box<dyn Stream<Item = reqwest::Result<Bytes>> + Send>>,
    /// What was read ahead.
    first: Option<Bytes>,
    idle: Duration,
    over: bool,
}

impl Body {
    pub(super) fn new(response: reqwest::Response, idle: Duration) -> Self {
        let over = response.content_length() == Some(0);
        Self { stream: Box::pin(response.bytes_stream()), first: None, idle, over }
    }

    /// Whether everything has come; a body whose length nobody said is over when it ends.
    pub(super) fn is_over(&self) -> bool {
        self.over
    }

    /// The next piece; `None` at the end.
    ///
    /// # Errors
    /// [`Fault`] if it breaks off or nothing comes for too long.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, Fault> {
        if let Some(first) = self.first.take() {
            return Ok(Some(first));
        }
        match timeout(self.idle, self.stream.next()).await {
            Ok(None) => {
                self.over = true;
                Ok(None)
            }
            Ok(Some(Ok(chunk))) => Ok(Some(chunk)),
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
        let chunk = self.next().await.ok().flatten()?;
        self.first = Some(chunk.clone());
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
    pause: Option<Pause>,
    restarts: u32,
    /// Output of streams that were left, in tokens.
    left_tokens: u64,
}

/// Who sees the events.
enum Reader {
    /// They pass as they are.
    Watches(Box<dyn Watcher>),
    /// They may have to be made one answer with those of another stream.
    Joins(Box<dyn Splice>),
}

enum Phase {
    Reading(Body),
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
        let pause = route.may_continue().then(|| Pause::new(route.window.tokens, prepared.input));
        let reader = match &pause {
            Some(_) => Reader::Joins(wire.splice()),
            None => Reader::Watches(wire.watcher()),
        };
        Self {
            keep_alive: route.passage.inner.config.keep_alive,
            route: Some(route),
            wire,
            prepared,
            events: Events::default(),
            reader,
            phase: Phase::Reading(body),
            out: VecDeque::new(),
            pause,
            restarts: 0,
            left_tokens: 0,
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
            events.extend(std::iter::from_fn(|| all.next_event()));
        }
        match self.reader.seen().finish {
            Some(_) => Ok(events),
            None => Err(Fault::new(FaultKind::Upstream, "the upstream broke off in its answer")),
        }
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
                    Ok(Err(fault)) => self.break_off(&fault),
                    // Between two events only.
                    Err(_) if self.events.is_between() => return Some(Bytes::from_static(COMMENT)),
                    Err(_) => {}
                },
                Phase::Waiting(making) => match timeout(self.keep_alive, making).await {
                    Ok(resumed) => self.resume(resumed),
                    Err(_) => return Some(Bytes::from_static(COMMENT)),
                },
            }
        }
    }

    fn take(&mut self, chunk: Bytes) {
        self.events.feed(chunk.clone());
        if let Reader::Watches(watcher) = &mut self.reader {
            while let Some(raw) = self.events.next_event() {
                watcher.read(&Event::parse(&raw));
            }
            self.out.push_back(chunk);
            return;
        }
        let mut out = Vec::with_capacity(chunk.len());
        while let Some(raw) = self.events.next_event() {
            if self.must_stop(&raw) {
                self.stop(&mut out);
                break;
            }
            if let Reader::Joins(splice) = &mut self.reader {
                splice.pass(&raw, &mut out);
            }
        }
        if !out.is_empty() {
            self.out.push_back(out.into());
        }
    }

    /// Whether the answer is to be stopped before this event.
    fn must_stop(&mut self, raw: &[u8]) -> bool {
        let seen = self.reader.seen();
        let (Some(pause), Some(route)) = (&mut self.pause, &self.route) else { return false };
        pause.count(seen, || (route.passage.inner.parts.counter)(&route.target.origin()));
        pause.is_due(seen, || {
            let mut watcher = self.wire.watcher();
            watcher.read(&Event::parse(raw));
            watcher.seen().text.clone()
        })
    }

    /// Leaves the upstream's stream and begins to make room.
    fn stop(&mut self, out: &mut Vec<u8>) {
        let Some(route) = self.route.take() else { return };
        let (text, tokens) = {
            let seen = self.reader.seen();
            (seen.text.clone(), self.pause.as_ref().map_or(0, Pause::tokens))
        };
        if let Reader::Joins(splice) = &mut self.reader {
            splice.go_on(&text);
        }
        self.restarts += 1;
        self.left_tokens = tokens;
        self.events = Events::default();
        out.extend_from_slice("⚙️ Compacting conversation history…".comment().as_bytes());
        let prepared = self.prepared.clone();
        // The upstream's connection closes here: most local servers have room for one request.
        self.phase = Phase::Waiting(Box::pin(resume(route, prepared, text, tokens)));
    }

    fn resume(&mut self, resumed: Resumed) {
        let Resumed { route, prepared, body, is_last } = resumed;
        let window = route.window.tokens;
        self.route = Some(route);
        match body {
            Ok(body) => {
                self.prepared = prepared;
                self.phase = Phase::Reading(body);
                if is_last || self.restarts >= MOST_RESTARTS {
                    self.pause = None;
                    self.out.push_back("⚠️ Max compaction attempts reached".comment().into());
                } else {
                    if let Some(pause) = &mut self.pause {
                        pause.go_on(window, self.prepared.input);
                    }
                    self.out.push_back("✅ Context compacted, continuing…".comment().into());
                }
            }
            Err(fault) => {
                tracing::warn!(fault = fault.message, "an answer was stopped and could not go on");
                self.end();
            }
        }
    }

    /// Nothing more comes: the answer ends as the newest stream ended it, or for its length.
    fn end(&mut self) {
        self.phase = Phase::Ended;
        if let Reader::Joins(splice) = &mut self.reader {
            let mut out = Vec::new();
            splice.end(self.left_tokens, &mut out);
            self.out.push_back(out.into());
        }
    }

    /// The upstream's stream is over.
    async fn finish(&mut self) {
        let rest = self.events.rest();
        if !rest.is_empty() {
            match &mut self.reader {
                Reader::Watches(watcher) => watcher.read(&Event::parse(&rest)),
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
            return self.break_off(&fault);
        }
        if let Some(route) = self.route.as_ref().filter(|_| seen.finish.is_some()) {
            // What several streams reported is no count of this request.
            if let Some(usage) = seen.usage.clone().filter(|_| self.restarts == 0) {
                route.remember_usage(usage, &self.prepared).await;
            }
            let overflow = route.suspicion(seen, &self.prepared).filter(|_| self.restarts == 0);
            if let Some(limit) =
                overflow.filter(|_| seen.finish != Some(Finish::Length)).and_then(|o| o.limit_tokens)
            {
                route.target.learn_window(limit);
            }
        }
        self.end();
    }

    /// The error, in the stream.
    fn break_off(&mut self, fault: &Fault) {
        self.phase = Phase::Ended;
        if !self.events.is_between() {
            // The event that was begun is ended, so that the error is one of its own.
            self.out.push_back(Bytes::from_static(b"\n\n"));
        }
        self.out.push_back(self.wire.error_event(fault));
    }
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
    let made = route.make_room_for_rest(old.items, &text).await;
    let is_last = made.is_err();
    // Without room it goes on to the real limit.
    let prepared =
        made.unwrap_or_else(|_| Prepared { input: old.input + tokens, bound: old.bound + tokens, ..old });
    let sent = match route.body(&prepared, Some((&text, tokens)), !route.passage.envelope.stream) {
        Ok(body) => route.send(body).await,
        Err(fault) => Err(fault),
    };
    let idle = route.target.server.timeouts().idle;
    let body = match sent {
        Ok(response) if response.status().is_success() => Ok(Body::new(response, idle)),
        Ok(response) => {
            let message = format!("the upstream would not go on: status {}", response.status());
            Err(Fault::new(FaultKind::Upstream, message))
        }
        Err(fault) => Err(fault),
    };
    Resumed { route, prepared, body, is_last }
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
