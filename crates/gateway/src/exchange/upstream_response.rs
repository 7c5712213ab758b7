//! Classification of an upstream's response: an answer, an error, or a sign that the request was too long.

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use longhaul_core::message::{ModelAnswer, ModelStopReason};
use longhaul_providers::http::is_page;
use longhaul_providers::{LimitSource, ProviderError};
use longhaul_wire::overflow::{self, AnsweredRequestTokens, ReportedOverflow, SuspectedOverflow};

use super::UpstreamDisposition;
use super::attempts::AttemptOutcome;
use super::flow::UpstreamBody;
use super::prepare::OutboundRequest;
use super::request_budget::RequestBudget;
use super::send::{SMALLEST_WINDOW_TOKENS, is_wordless};
use super::targeted_request::TargetedRequest;
use longhaul_core::error::ErrorCode;
use longhaul_wire::edit::{GatewayError, GatewayErrorKind, PartialResponse};

/// The smallest significant count difference between gateway and server, in tokens.
const LEAST_MISSING_TOKENS: u64 = 128;

/// An upstream's response to a request.
pub(super) enum UpstreamResponse {
    Stream(StreamOpening),
    Whole(WholeResponse),
}

/// A stream after its start.
pub(super) struct StreamOpening {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Box<UpstreamBody>,
    /// The content of the first events. The body delivers the events again.
    pub(super) beginning: PartialResponse,
}

/// A complete response without a stream.
pub(super) struct WholeResponse {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) bytes: Bytes,
    /// The content, if the body is an answer.
    pub(super) seen: Option<PartialResponse>,
    /// The error that stood in the answer's place. `status` is that of the error then, and not the upstream's.
    pub(super) in_answer: Option<Box<ProviderError>>,
}

/// The decision about a complete answer.
pub(super) enum RelayDecision {
    /// The model is asked once more, with this request.
    Again(Box<OutboundRequest>),
    On(UpstreamDisposition),
}

/// A response with a sign of an overlong request.
pub(super) struct OverflowResponse {
    pub(super) overflow: ReportedOverflow,
    /// Set if the upstream names the limit. An answer with a success status only suggests one.
    pub(super) is_said: bool,
    /// Set if the response is an answer for the client in case nothing can be left out.
    pub(super) is_usable: bool,
    /// The sign of a silent truncation or overflow.
    pub(super) suspicion: Option<SuspectedOverflow>,
}

impl OverflowResponse {
    /// Returns the classification of a refusal that names nothing, and is taken for one of the length.
    pub(super) fn unnamed() -> Self {
        Self { overflow: ReportedOverflow::default(), is_said: false, is_usable: false, suspicion: None }
    }

    /// Returns the classification of an answer with signs of an overflow.
    pub(super) fn suspected(suspicion: SuspectedOverflow) -> Self {
        Self {
            overflow: suspicion.overflow(),
            is_said: false,
            is_usable: suspicion != SuspectedOverflow::Empty,
            suspicion: Some(suspicion),
        }
    }
}

impl UpstreamResponse {
    /// Returns whether the response can be given to a client if the search for a better one fails.
    pub(super) fn is_for_client(&self) -> bool {
        match self {
            Self::Stream(opening) => opening.beginning.error.is_none(),
            Self::Whole(whole) => !whole.status.is_success() || whole.seen.is_some(),
        }
    }

    /// Returns whether a filter has withheld the whole answer.
    pub(super) fn is_withheld(&self) -> bool {
        let is_filtered =
            |seen: &PartialResponse| seen.finish == Some(ModelStopReason::ContentFilter) && seen.is_empty();
        self.seen().is_some_and(is_filtered)
    }

    /// Returns the answer if completely known. A stream is complete here only if it ended without content.
    pub(super) fn seen(&self) -> Option<&PartialResponse> {
        match self {
            Self::Stream(opening) => {
                Some(&opening.beginning).filter(|seen| seen.finish.is_some() && seen.is_empty())
            }
            Self::Whole(whole) => whole.seen.as_ref(),
        }
    }
}

/// Returns the error with the upstream's own words appended.
fn quoting(fault: GatewayError, said: Option<&str>) -> GatewayError {
    let Some(said) = said else { return fault };
    // The text may be a whole web page.
    let said: String = said.chars().take(500).collect();
    GatewayError { message: format!("{}. The upstream said: {said}", fault.message), ..fault }
}

fn answer_of(seen: &PartialResponse) -> ModelAnswer {
    // A stream that broke off has no end of its own.
    let finish = seen.finish.unwrap_or(ModelStopReason::Other);
    ModelAnswer { parts: seen.parts(), finish, usage: seen.usage.clone(), envelope: None }
}

/// The review of an upstream's responses to one request.
pub(super) struct ResponseReview<'a> {
    pub(super) request: &'a TargetedRequest,
    pub(super) budget: &'a RequestBudget,
}

impl ResponseReview<'_> {
    /// Returns the overflow if the upstream says or suggests that the request was too long.
    pub(super) fn too_long_by(
        &self,
        received: &AttemptOutcome,
        prepared: &OutboundRequest,
    ) -> Option<OverflowResponse> {
        match received {
            AttemptOutcome::Native(response, _) => self.refused(response, prepared),
            AttemptOutcome::Translated(start, _) => {
                let suspicion = self.suspicion(&start.answer()?, prepared)?;
                Some(OverflowResponse::suspected(suspicion))
            }
            AttemptOutcome::Refused(error, _) if error.code == ErrorCode::ContextOverflow => {
                let overflow =
                    ReportedOverflow { used_tokens: error.used_tokens, limit_tokens: error.limit_tokens };
                Some(OverflowResponse { overflow, is_said: true, is_usable: false, suspicion: None })
            }
            AttemptOutcome::Refused(..) => None,
        }
    }

    /// Returns the overflow stated or suggested by the upstream; `None` if the request was not too long.
    pub(super) fn refused(
        &self,
        came: &UpstreamResponse,
        prepared: &OutboundRequest,
    ) -> Option<OverflowResponse> {
        if let Some(seen) = came.seen() {
            return self.suspicion(seen, prepared).map(OverflowResponse::suspected);
        }
        let (status, said) = match came {
            UpstreamResponse::Stream(opening) => (&opening.status, opening.beginning.error.as_deref()?),
            UpstreamResponse::Whole(WholeResponse { status, bytes, .. }) => {
                (status, std::str::from_utf8(bytes).ok()?)
            }
        };
        // Some servers refuse overlong requests without an explanation. A short request must have been refused for
        // another reason.
        // A quarter of the window covers upstreams with windows below 4,096 tokens.
        let least = SMALLEST_WINDOW_TOKENS.min(self.budget.window.tokens / 4);
        if is_wordless(said) && prepared.input < least {
            return None;
        }
        let overflow = overflow::recognise(Some(status.as_u16()), said)?;
        let is_said = !status.is_success() || matches!(came, UpstreamResponse::Stream(_));
        Some(OverflowResponse { overflow, is_said, is_usable: false, suspicion: None })
    }

    /// Returns the sign of an overflow in an answer with a success status.
    fn suspicion(&self, seen: &PartialResponse, prepared: &OutboundRequest) -> Option<SuspectedOverflow> {
        // Without a count there is nothing to compare the report with.
        if prepared.input == 0 {
            return None;
        }
        // A window learned from a refusal is as good as the server's own statement, until a longer input is read.
        let read = seen.usage.as_ref().map_or(0, |usage| usage.input_tokens);
        let window = self.budget.window;
        let is_learned = window.source == LimitSource::Learned && read <= window.tokens;
        let sent = AnsweredRequestTokens {
            estimated: prepared.input,
            margin: prepared.bound.saturating_sub(prepared.input) as f64 / prepared.input as f64,
            window: is_learned.then_some(window.tokens).or(self.request.limits.window),
            source: window.source,
            max_output: self
                .request
                .proxied
                .envelope
                .max_output
                .filter(|limit| *limit < u64::MAX)
                .map(|limit| self.budget.room(prepared).map_or(limit, |room| room.min(limit))),
            ..AnsweredRequestTokens::default()
        };
        let suspicion = overflow::suspect(&sent, &answer_of(seen))?;
        match suspicion {
            // A second choice may hold the content.
            SuspectedOverflow::Empty if seen.has_other => None,
            SuspectedOverflow::SilentlyTruncated { .. } if self.request.target.counts_less() => None,
            suspicion => Some(suspicion),
        }
    }

    /// Reports that the client gets a doubtful answer, because nothing can be left out.
    pub(super) fn tell_doubt(&self, suspicion: SuspectedOverflow, prepared: &mut OutboundRequest) {
        let SuspectedOverflow::SilentlyTruncated { reported, counted } = suspicion else { return };
        let why = format!(
            "the upstream has read {reported} of about {counted} tokens by its own count: the answer may rest on a \
             part, and nothing can be left out"
        );
        tracing::warn!(upstream = self.request.target.server.upstream.name, "{why}");
        prepared.is_doubted = true;
        prepared.report.why = why;
    }

    /// Puts the reason for the compaction, a suspected silent truncation, before the report of the compaction itself.
    pub(super) fn tell_cut(&self, suspicion: SuspectedOverflow, shorter: &mut OutboundRequest) {
        let SuspectedOverflow::SilentlyTruncated { reported, counted } = suspicion else { return };
        let cut = format!("the upstream has read only {reported} of about {counted} tokens");
        let why = std::mem::take(&mut shorter.report.why);
        shorter.report.why = if why.is_empty() { cut } else { format!("{cut}; {why}") };
    }

    /// Learns from the answer to a shortened request. A server that counts half of a fitting request counts
    /// something else. Such reports are no longer signs of a truncation.
    pub(super) fn learn_to_count(&self, seen: &PartialResponse, prepared: &OutboundRequest) {
        let reported = seen.usage.as_ref().map_or(0, |usage| usage.input_tokens);
        if reported > 0 && reported < prepared.input / 2 && prepared.input - reported >= LEAST_MISSING_TOKENS
        {
            tracing::warn!(
                upstream = self.request.target.server.upstream.name,
                "it counts {reported} where we count {}: what it reports is not taken for a cut any more",
                prepared.input
            );
            // The shortened request fits without doubt, and still counts half. So the first report was no
            // truncation.
            self.request.target.set_counts_less();
        }
    }

    /// Learns the window from the end of a stream. The client already has this answer, so the window applies to the
    /// next request.
    pub(super) fn learn_from_stream(&self, seen: &PartialResponse, prepared: &OutboundRequest) {
        // This request was shortened to fit a suspected window, so the answer can show whether the suspicion was right.
        if self.budget.window.source == LimitSource::Learned && self.request.target.is_suspected() {
            self.learn_to_count(seen, prepared);
        }
        let suspicion =
            self.suspicion(seen, prepared).filter(|_| seen.finish != Some(ModelStopReason::Length));
        let limit = suspicion.map(SuspectedOverflow::overflow).and_then(|overflow| overflow.limit_tokens);
        if let Some(limit) = limit.filter(|_| !self.budget.has_said_window()) {
            self.request.target.suspect_window(limit);
        }
    }

    /// Returns the error for a request that cannot be shortened, with consistent figures.
    pub(super) fn too_long(&self, prepared: &OutboundRequest, said: Option<&str>) -> GatewayError {
        let counted = match prepared.input {
            0 => "was not counted".to_owned(),
            input => format!("has {input} tokens by our count, {} with its possible error", prepared.bound),
        };
        let asked = self
            .request
            .asked_output()
            .map_or_else(String::new, |asked| format!(" and asks for {asked} more"));
        let message = format!(
            "the upstream refused the request for its length, and nothing can be left out: the input {counted}{asked}; \
             the window has {}",
            self.budget.window_said(),
        );
        // A code of our own: on the code for an overflow, opencode asked 200 to 400 times in 40 s (decision 0025).
        quoting(GatewayError::new(GatewayErrorKind::DoesNotFit, message), said)
    }

    /// Returns the error if neither the upstream nor the gateway's own plan accepts the request.
    pub(super) fn refused_too(
        &self,
        fault: GatewayError,
        prepared: &OutboundRequest,
        said: Option<&str>,
    ) -> GatewayError {
        // The gateway's own figures say that the request fits, so the upstream's refusal is the better reason.
        if fault.kind == GatewayErrorKind::DoesNotFit
            && said.is_some()
            && prepared.bound < self.budget.token_budget().usable
        {
            return self.too_long(prepared, said);
        }
        let mut fault = self.reckoned(fault);
        if said.is_none() && fault.kind == GatewayErrorKind::DoesNotFit {
            fault.message.push_str(
                ". The upstream did answer, but without a word; `x-longhaul-compress: off` passes such an answer on",
            );
        }
        quoting(fault, said)
    }

    /// Completes the error of the gateway's own plan with the client's output limit and the source of the window.
    pub(super) fn reckoned(&self, fault: GatewayError) -> GatewayError {
        // Only the gateway's own refusals speak of tokens.
        if fault.kind != GatewayErrorKind::DoesNotFit {
            return fault;
        }
        let asked = match self.request.asked_output() {
            Some(asked) => format!("the request asks for {asked}"),
            None => "the request sets no limit".to_owned(),
        };
        let message = format!("{}; {asked}; the window is {}", fault.message, self.budget.window_said());
        GatewayError { message, ..fault }
    }

    /// Checks a response with a success status for an answer.
    pub(super) fn check(
        &self,
        status: StatusCode,
        bytes: &[u8],
        seen: Option<&PartialResponse>,
    ) -> Result<(), GatewayError> {
        if let Some(error) = seen
            .filter(|seen| status.is_success() && seen.finish.is_none())
            .and_then(|seen| seen.error.as_deref())
        {
            return Err(self.request.said_error(error));
        }
        if !status.is_success() || seen.is_some() {
            return Ok(());
        }
        let name = &self.request.target.server.upstream.name;
        // The text is no answer, so it may be anything, also an echo of the request's headers.
        let said = self.request.target.server.hide_secrets(Bytes::copy_from_slice(bytes));
        let quote: String = String::from_utf8_lossy(&said).chars().take(200).collect();
        // A base URL without its path often leads to a web page with status 200.
        if is_page(bytes) {
            let address = self.request.target.server.address();
            let message = format!(
                "the upstream `{name}` answered with a web page, not with an answer of a model: is its base URL \
                 {address} the address of an API? {quote}"
            );
            return Err(GatewayError::new(GatewayErrorKind::Upstream, message));
        }
        let message = format!("the upstream `{name}` answered with success, but not with an answer: {quote}");
        Err(GatewayError::new(GatewayErrorKind::Upstream, message))
    }
}
