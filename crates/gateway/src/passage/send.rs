//! To the upstream and back: bytes, time-outs, another try, and what is done about a refusal for length.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, StatusCode, header};
use longhaul_core::message::{Answer, Finish};
use longhaul_core::usage::Usage;
use longhaul_providers::overflow::{self, Overflow, Sent};
use tokio::time::{sleep, timeout};

use super::flow::{Body, Flow};
use super::log::Reported;
use super::prepare::Prepared;
use super::{Opened, Route};
use crate::headers;
use crate::wire::{Edited, Fault, FaultKind, Prefill, Seen};

/// The most that is read of an answer that is no stream, in bytes.
const MAX_WHOLE_BYTES: usize = 256 << 20;

/// How long the first of further tries waits.
const BEFORE_NEXT_TRY: Duration = Duration::from_millis(200);

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
            let body = self.body(&prepared, None, collects)?;
            let response = self.send(body).await?;
            let (status, upstream_headers) = (response.status(), response.headers().clone());
            let is_stream = is_event_stream(&upstream_headers);
            let refusal = if status.is_success() && is_stream {
                let mut body = Body::new(response, self.target.server.timeouts().idle);
                match body.first_error(self.passage.wire).await.filter(|_| may_shorten) {
                    Some(overflow) => (overflow, None),
                    None => {
                        return self.streaming(status, &upstream_headers, body, prepared, collects).await;
                    }
                }
            } else {
                let bytes = self.whole(response).await?;
                let overflow = self.overflow(status, &bytes, &prepared).filter(|_| may_shorten);
                let mut headers = headers::for_caller(&upstream_headers);
                self.describe(&prepared.report, &mut headers);
                let Some(overflow) = overflow else {
                    self.check(status, &bytes)?;
                    self.note(status, &bytes, &prepared).await;
                    return Ok(Opened::Whole(status, headers, bytes));
                };
                (overflow, Some(Opened::Whole(status, headers, bytes)))
            };
            may_shorten = false;
            let (overflow, answer) = refusal;
            match self.make_room(&prepared, overflow.used_tokens, overflow.limit_tokens).await {
                Ok(Some(shorter)) => prepared = shorter,
                Ok(None) if answer.is_some() => {
                    return answer.ok_or_else(|| Fault::new(FaultKind::Internal, "no answer"));
                }
                Ok(None) => {
                    let message = "the upstream refused the request for its length; nothing can be left out";
                    return Err(Fault::new(FaultKind::ContextOverflow, message));
                }
                // It was answered after all: what only looked like a refusal is the client's.
                Err(fault) => return answer.filter(Opened::is_answer).ok_or(fault),
            }
        }
    }

    /// The request's bytes. If nothing has to change they are the client's.
    pub(super) fn body(
        &self,
        prepared: &Prepared,
        prefill: Option<(&str, u64)>,
        collects: bool,
    ) -> Result<Bytes, Fault> {
        let envelope = &self.passage.envelope;
        let said = prefill.map_or(0, |(_, tokens)| tokens);
        let left =
            envelope.max_output.filter(|limit| *limit < u64::MAX).map(|limit| limit.saturating_sub(said));
        let room = self.window.tokens.saturating_sub(prepared.bound).max(1);
        let is_known = self.limits.window.is_some() && prepared.input > 0;
        let max_output = left.filter(|left| is_known && *left > room).map(|_| room);
        let edited = Edited {
            max_output: max_output.or(left.filter(|_| said > 0)),
            steps: prepared.steps.clone(),
            stream: collects.then_some(true),
            include_usage: collects,
            prefill: prefill
                .map(|(text, _)| Prefill { text: text.to_owned(), must_be_told: self.target.must_be_told() }),
            ..self.edited()
        };
        match edited.is_nothing() {
            true => Ok(envelope.bytes.clone()),
            false => Ok(self.passage.wire.render(envelope, &edited)?),
        }
    }

    /// Whether an answer that the client wants whole may have to be stopped on its way.
    fn must_collect(&self, prepared: &Prepared) -> bool {
        let line = self.policy.trigger.map_or(self.window.tokens, |trigger| self.budget().trigger(trigger));
        !self.passage.envelope.stream && self.may_continue() && prepared.input > line / 2
    }

    /// Whether an answer can be stopped and gone on with here.
    pub(super) fn may_continue(&self) -> bool {
        let config = &self.passage.inner.config;
        let one = self.passage.envelope.other("n").is_none_or(|n| matches!(n, "1" | "null"));
        config.midstream == crate::gateway::Midstream::Exact
            && self.conversation.is_some()
            && self.limits.window.is_some()
            && self.target.can_prefill(&self.limits)
            && one
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
        let request = server.post(passage.wire.dialect().path(), &passage.headers, own, body);
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
        let mut body = Body::new(response, self.target.server.timeouts().idle);
        let mut all = BytesMut::new();
        while let Some(chunk) = body.next().await? {
            if all.len() + chunk.len() > MAX_WHOLE_BYTES {
                let message = format!("the upstream's answer has more than {MAX_WHOLE_BYTES} bytes");
                return Err(Fault::new(FaultKind::Upstream, message));
            }
            if all.is_empty() && body.is_over() {
                return Ok(chunk);
            }
            all.extend_from_slice(&chunk);
        }
        Ok(all.freeze())
    }

    /// Whether the upstream says, or shows, that the request was too long.
    fn overflow(&self, status: StatusCode, bytes: &[u8], prepared: &Prepared) -> Option<Overflow> {
        if !status.is_success() {
            return overflow::recognise(Some(status.as_u16()), std::str::from_utf8(bytes).ok()?);
        }
        match self.passage.wire.answer(bytes) {
            Some(seen) => self.suspicion(&seen, prepared),
            None => overflow::recognise(Some(200), std::str::from_utf8(bytes).ok()?),
        }
    }

    /// An overflow that looks like success.
    pub(super) fn suspicion(&self, seen: &Seen, prepared: &Prepared) -> Option<Overflow> {
        if prepared.input == 0 {
            return None;
        }
        let sent = Sent {
            estimated: prepared.input,
            margin: prepared.bound.saturating_sub(prepared.input) as f64 / prepared.input as f64,
            window: self.limits.window,
            source: self.window.source,
            max_output: self.passage.envelope.max_output.filter(|limit| *limit < u64::MAX),
            ..Sent::default()
        };
        overflow::suspect(&sent, &answer_of(seen)).map(overflow::Suspicion::overflow)
    }

    /// An answer that came with success must be one.
    fn check(&self, status: StatusCode, bytes: &[u8]) -> Result<(), Fault> {
        if !status.is_success() || self.passage.wire.answer(bytes).is_some() {
            return Ok(());
        }
        let name = &self.target.server.upstream.name;
        let quote: String = String::from_utf8_lossy(bytes).chars().take(200).collect();
        let message = format!("the upstream `{name}` answered with success, but not with an answer: {quote}");
        Err(Fault::new(FaultKind::Upstream, message))
    }

    /// Remembers what a whole answer reports.
    async fn note(&self, status: StatusCode, bytes: &[u8], prepared: &Prepared) {
        if !status.is_success() {
            return;
        }
        if let Some(usage) = self.passage.wire.answer(bytes).and_then(|seen| seen.usage) {
            self.remember_usage(usage, prepared).await;
        }
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
        let wire = self.passage.wire;
        let flow = Flow::new(self, body, prepared);
        if !collects {
            return Ok(Opened::Stream(status, headers, flow.into_stream()));
        }
        let events = flow.collect().await?;
        headers.insert(header::CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
        let whole = wire.collect(&events);
        let broken = || Fault::new(FaultKind::Upstream, "the upstream's answer ended before it was complete");
        Ok(Opened::Whole(status, headers, whole.ok_or_else(broken)?))
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
