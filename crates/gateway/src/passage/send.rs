//! To the upstream and back: bytes, time-outs, another try, and what is done about a refusal for length.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, StatusCode, header};
use longhaul_core::message::{Answer, Finish};
use longhaul_core::usage::Usage;
use longhaul_providers::overflow::{self, Overflow, Sent, Suspicion};
use tokio::time::{sleep, timeout};

use super::flow::{Body, Flow};
use super::log::Reported;
use super::prepare::Prepared;
use super::{Action, Opened, Route};
use crate::gateway::Midstream;
use crate::headers;
use crate::wire::{Edited, Fault, FaultKind, Prefill, Seen};

/// The most that is read of an answer that is no stream, in bytes.
const MAX_WHOLE_BYTES: usize = 256 << 20;

/// How long the first of further tries waits.
const BEFORE_NEXT_TRY: Duration = Duration::from_millis(200);

/// What of a window stays free where a server counts a little differently each time: this share.
const ROOM_MARGIN_SHARE: u64 = 100;

/// An answer for which less than this share of the window is left is not worth asking for.
const LEAST_ANSWER_SHARE: u64 = 8;

impl Route {
    /// Sends the request, in a form that fits.
    ///
    /// # Errors
    /// [`Fault`] if there is no answer, not even an error of the upstream's.
    pub(super) async fn go(mut self) -> Result<Opened, Fault> {
        let mut prepared = self.prepare().await?;
        let mut may_shorten = self.conversation.is_some();
        loop {
            let collects = self.must_collect(&prepared);
            let body = self.body(&prepared, None, collects).await?;
            let response = self.send(body).await?;
            let (status, upstream_headers) = (response.status(), response.headers().clone());
            self.check_place(status, &upstream_headers)?;
            let is_stream = is_event_stream(&upstream_headers);
            let refusal = if status.is_success() && is_stream {
                let mut body = Body::new(response, self.target.server.timeouts().idle)?;
                match body.first_error(self.passage.wire).await.filter(|_| may_shorten) {
                    Some(overflow) => (overflow, None, false),
                    None => {
                        return self.streaming(status, &upstream_headers, body, prepared, collects).await;
                    }
                }
            } else {
                let bytes = self.whole(response).await?;
                // Some servers repeat a key that they refuse.
                let bytes = if status.is_success() { bytes } else { self.target.server.hide_secrets(bytes) };
                let seen = self.read(status, &bytes).await;
                let overflow = self.overflow(status, &bytes, seen.as_ref(), &prepared);
                let overflow = overflow.filter(|_| may_shorten);
                let mut headers = headers::for_caller(&upstream_headers);
                self.describe(&prepared.report, &mut headers);
                let Some(overflow) = overflow else {
                    self.check(status, &bytes, seen.as_ref())?;
                    let usage = seen.and_then(|seen| seen.usage);
                    self.totals.add(usage.as_ref());
                    self.totals.describe(&mut headers);
                    if let Some(usage) = usage {
                        self.remember_usage(usage, &prepared).await;
                    }
                    if let Some(said) = std::str::from_utf8(&bytes).ok().filter(|_| status.is_success()) {
                        self.passage.keep(said);
                    }
                    let bytes =
                        if status.is_success() { self.totals.beside(&prepared.report, bytes) } else { bytes };
                    return Ok(Opened::Whole(status, headers, bytes));
                };
                let is_usable = self.is_merely_cut(seen.as_ref(), &prepared);
                (overflow, Some(Opened::Whole(status, headers, bytes)), is_usable)
            };
            let (overflow, answer, is_usable) = refusal;
            if let Some(most) = self.room_for_answer(&overflow) {
                self.most_output = Some(most);
                continue;
            }
            may_shorten = false;
            match self.make_room(&prepared, overflow.used_tokens, overflow.limit_tokens).await {
                Ok(Some(shorter)) => prepared = shorter,
                Ok(None) if answer.is_some() => {
                    return answer.ok_or_else(|| Fault::new(FaultKind::Internal, "no answer"));
                }
                Ok(None) => {
                    let message = "the upstream refused the request for its length; nothing can be left out";
                    return Err(Fault::new(FaultKind::DoesNotFit, message));
                }
                Err(fault) => return answer.filter(|_| is_usable).ok_or(fault),
            }
        }
    }

    /// The request's bytes. If nothing has to change they are the client's.
    ///
    /// # Errors
    /// [`Fault`] if a change cannot be expressed, or the client wanted no more than was said.
    pub(super) async fn body(
        &self,
        prepared: &Prepared,
        prefill: Option<(&str, u64)>,
        collects: bool,
    ) -> Result<Bytes, Fault> {
        let envelope = &self.passage.envelope;
        let said = prefill.map_or(0, |(_, tokens)| tokens);
        let left =
            envelope.max_output.filter(|limit| *limit < u64::MAX).map(|limit| limit.saturating_sub(said));
        if said > 0 && left == Some(0) {
            return Err(Fault::new(FaultKind::Invalid, "nothing is left of the output limit"));
        }
        let max_output = self.room(prepared).filter(|room| left.is_some_and(|left| left > *room));
        let edited = Edited {
            max_output: max_output.or(left.filter(|_| said > 0)),
            steps: prepared.steps.clone(),
            stream: collects.then_some(true),
            include_usage: collects,
            asks_to_go_on: prefill.is_some() && !self.goes_on_exactly(),
            prefill: prefill
                .map(|(text, _)| Prefill { text: text.to_owned(), must_be_told: self.target.must_be_told() }),
            ..self.edited()
        };
        match edited.is_nothing() {
            true => Ok(envelope.bytes.clone()),
            false => Ok(self.work(|| self.passage.wire.render(envelope, &edited)).await?),
        }
    }

    /// What the window has left for an answer, if it is known.
    fn room(&self, prepared: &Prepared) -> Option<u64> {
        let is_known = self.limits.window.is_some() && prepared.input > 0;
        let room = self.window.tokens.saturating_sub(prepared.bound).max(1);
        self.most_output.or(Some(room).filter(|_| is_known))
    }

    /// What remains for an answer where only input and output together were too much: a shorter answer, then, and
    /// nothing is left out. Once for a request.
    fn room_for_answer(&self, overflow: &Overflow) -> Option<u64> {
        let (used, limit) = overflow.used_tokens.zip(overflow.limit_tokens)?;
        let asked = self.passage.envelope.max_output.filter(|_| self.most_output.is_none())?;
        let room = limit.saturating_sub(used).saturating_sub(limit / ROOM_MARGIN_SHARE);
        (room >= limit / LEAST_ANSWER_SHARE && asked > room).then_some(room)
    }

    /// Whether an answer that the client wants whole may have to be stopped on its way.
    fn must_collect(&self, prepared: &Prepared) -> bool {
        let line = self.policy.trigger.map_or(self.window.tokens, |trigger| self.budget().trigger(trigger));
        let may_outgrow = |most: u64| prepared.bound.saturating_add(most) > self.window.tokens / 10 * 9;
        let is_long = prepared.input > line / 2 || self.passage.envelope.max_output.is_some_and(may_outgrow);
        !self.passage.envelope.stream && (self.may_continue() && is_long || self.notes(prepared))
    }

    /// Whether an answer can be stopped and gone on with here.
    pub(super) fn may_continue(&self) -> bool {
        let config = &self.passage.inner.config;
        let one = self.passage.envelope.other("n").is_none_or(|n| matches!(n, "1" | "null"));
        let can = match config.midstream {
            Midstream::Off => false,
            Midstream::Exact => self.goes_on_exactly(),
            Midstream::BestEffort => self.goes_on_exactly() || self.is_prose(),
        };
        can && one && self.conversation.is_some() && self.limits.window.is_some()
    }

    /// Whether the upstream goes on with an answer just where it was stopped; else its model can be asked to.
    pub(super) fn goes_on_exactly(&self) -> bool {
        self.target.can_prefill(&self.limits)
    }

    /// Whether the answer has no form that a model which is asked to go on would begin anew.
    fn is_prose(&self) -> bool {
        let forms = ["response_format", "output_config", "output_format", "text"];
        let plain = |raw: &str| raw == "null" || !raw.contains("json");
        forms.iter().all(|form| self.passage.envelope.other(form).is_none_or(plain))
    }

    /// Whether the client is to be told in the answer's text.
    pub(super) fn notes(&self, prepared: &Prepared) -> bool {
        self.passage.inner.config.notices_in_text && prepared.report.action == Action::Compacted
    }

    /// Posts the request and waits for the status line. What did not arrive, and what the upstream says is for a
    /// moment only, is tried again.
    pub(super) async fn send(&self, body: Bytes) -> Result<reqwest::Response, Fault> {
        let attempts = self.passage.inner.config.attempts.max(1);
        let mut wait = BEFORE_NEXT_TRY;
        for attempt in 1.. {
            let sent = self.send_once(body.clone()).await;
            let again = match &sent {
                Ok(response) => {
                    matches!(response.status(), StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE)
                }
                Err(fault) => fault.kind == FaultKind::Unreachable,
            };
            if !again || attempt >= attempts {
                return sent;
            }
            sleep(wait).await;
            wait *= 3;
        }
        Err(Fault::new(FaultKind::Internal, "no try was made"))
    }

    async fn send_once(&self, body: Bytes) -> Result<reqwest::Response, Fault> {
        let (passage, server) = (&self.passage, &self.target.server);
        let own = passage.inner.config.credentials == crate::gateway::Credentials::Own;
        let request = server.post(passage.wire.dialect().path(), &passage.headers, own, body)?;
        let limit = server.timeouts().header;
        let name = &server.upstream.name;
        match timeout(limit, request.send()).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => {
                let what =
                    if error.is_connect() { "cannot be reached" } else { "broke off before it answered" };
                Err(Fault::new(
                    FaultKind::Unreachable,
                    format!("the upstream `{name}` {what}: {}", cause(&error)),
                ))
            }
            Err(_) => {
                let message =
                    format!("the upstream `{name}` gave no answer within {} s", limit.as_secs_f64());
                Err(Fault::new(FaultKind::Timeout, message))
            }
        }
    }

    async fn whole(&self, response: reqwest::Response) -> Result<Bytes, Fault> {
        let mut body = Body::new(response, self.target.server.timeouts().idle)?;
        let mut all = BytesMut::new();
        while let Some(chunk) = body.next().await? {
            if all.len() + chunk.len() > MAX_WHOLE_BYTES {
                let message = format!("the upstream's answer has more than {MAX_WHOLE_BYTES} bytes");
                return Err(Fault::new(FaultKind::Upstream, message));
            }
            all.extend_from_slice(&chunk);
        }
        Ok(all.freeze())
    }

    /// What a whole answer says that came with success.
    async fn read(&self, status: StatusCode, bytes: &[u8]) -> Option<Seen> {
        let wire = self.passage.wire;
        let read = || wire.answer(bytes);
        if status.is_success() { self.passage.inner.desk.work(bytes.len(), read).await } else { None }
    }

    /// Whether the upstream says, or shows, that the request was too long.
    fn overflow(
        &self,
        status: StatusCode,
        bytes: &[u8],
        seen: Option<&Seen>,
        prepared: &Prepared,
    ) -> Option<Overflow> {
        if !status.is_success() {
            return overflow::recognise(Some(status.as_u16()), std::str::from_utf8(bytes).ok()?);
        }
        match seen {
            Some(seen) => self.suspicion(seen, prepared).map(Suspicion::overflow),
            None => overflow::recognise(Some(200), std::str::from_utf8(bytes).ok()?),
        }
    }

    /// Whether it is an answer to all that was sent, which only the end of the window has cut. It is the client's if
    /// nothing can be left out.
    fn is_merely_cut(&self, seen: Option<&Seen>, prepared: &Prepared) -> bool {
        let suspicion = seen.and_then(|seen| self.suspicion(seen, prepared));
        matches!(suspicion, Some(Suspicion::WindowFull { .. }))
    }

    /// An overflow that looks like success.
    pub(super) fn suspicion(&self, seen: &Seen, prepared: &Prepared) -> Option<Suspicion> {
        if prepared.input == 0 {
            return None;
        }
        let sent = Sent {
            estimated: prepared.input,
            margin: prepared.bound.saturating_sub(prepared.input) as f64 / prepared.input as f64,
            window: self.limits.window,
            source: self.window.source,
            max_output: self
                .passage
                .envelope
                .max_output
                .filter(|limit| *limit < u64::MAX)
                .map(|limit| self.room(prepared).map_or(limit, |room| room.min(limit))),
            ..Sent::default()
        };
        overflow::suspect(&sent, &answer_of(seen))
    }

    /// An answer that came with success must be one.
    fn check(&self, status: StatusCode, bytes: &[u8], seen: Option<&Seen>) -> Result<(), Fault> {
        if !status.is_success() || seen.is_some() {
            return Ok(());
        }
        let name = &self.target.server.upstream.name;
        let said = self.target.server.hide_secrets(Bytes::copy_from_slice(bytes));
        let quote: String = String::from_utf8_lossy(&said).chars().take(200).collect();
        let message = format!("the upstream `{name}` answered with success, but not with an answer: {quote}");
        Err(Fault::new(FaultKind::Upstream, message))
    }

    /// A redirect is not followed: the request would be shown to a place that nobody has named.
    fn check_place(&self, status: StatusCode, headers: &HeaderMap) -> Result<(), Fault> {
        if !status.is_redirection() && !status.is_informational() {
            return Ok(());
        }
        let name = &self.target.server.upstream.name;
        if status.is_informational() {
            let message = format!("the upstream `{name}` answered {}, which is no answer", status.as_u16());
            return Err(Fault::new(FaultKind::Upstream, message));
        }
        let place = headers.get(header::LOCATION).and_then(|place| place.to_str().ok());
        // What stands behind `?` may be somebody's secret.
        let place = place.and_then(|place| place.split(['?', '#']).next()).unwrap_or("nowhere");
        let place: String = place.chars().take(200).collect();
        let message = format!(
            "the upstream `{name}` answered {} and points to {place}; set its base URL to where it is",
            status.as_u16(),
        );
        Err(Fault::new(FaultKind::Upstream, message))
    }

    /// What was reported for the request is the anchor of the next.
    pub(super) async fn remember_usage(&self, usage: Usage, prepared: &Prepared) {
        if usage.input_tokens == 0 {
            return;
        }
        self.target.saw_call(usage.total_tokens());
        tracing::info!(estimated = prepared.input, actual = usage.input_tokens, "the upstream's count");
        let Some(conversation) = &self.conversation else { return };
        let Some(mut state) = self.state(conversation, prepared.items).await else { return };
        state.log.reported =
            Some(Reported { usage, start: prepared.start.clone(), estimated: prepared.input });
    }

    async fn streaming(
        self,
        status: StatusCode,
        upstream_headers: &HeaderMap,
        body: Body,
        prepared: Prepared,
        collects: bool,
    ) -> Result<Opened, Fault> {
        let mut headers = headers::for_caller(upstream_headers);
        self.describe(&prepared.report, &mut headers);
        if self.may_continue() && !self.goes_on_exactly() {
            headers::say(&mut headers, "x-longhaul-midstream", "approximate");
        }
        let wire = self.passage.wire;
        // Some servers stream although nobody asked for it.
        let (totals, report) = (Arc::clone(&self.totals), prepared.report.clone());
        let collects = collects || !self.passage.envelope.stream;
        let flow = Flow::new(self, body, prepared);
        if !collects {
            return Ok(Opened::Stream(status, headers, flow.into_stream()));
        }
        let events = flow.collect().await?;
        headers.insert(header::CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
        totals.describe(&mut headers);
        let whole = wire.collect(&events);
        let broken = || Fault::new(FaultKind::Upstream, "the upstream's answer ended before it was complete");
        Ok(Opened::Whole(status, headers, totals.beside(&report, whole.ok_or_else(broken)?)))
    }
}

fn is_event_stream(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| kind.starts_with("text/event-stream"))
}

fn answer_of(seen: &Seen) -> Answer {
    let finish = seen.finish.unwrap_or(Finish::Other);
    Answer { parts: seen.parts(), finish, usage: seen.usage.clone(), envelope: None }
}

/// The innermost cause: the outer ones repeat the URL.
fn cause(error: &reqwest::Error) -> String {
    let mut newest: &dyn std::error::Error = error;
    while let Some(source) = newest.source() {
        newest = source;
    }
    newest.to_string()
}
