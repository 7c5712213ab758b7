//! Whether what came is an answer, or says or shows that the request was too long.

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use longhaul_core::message::{ModelAnswer, ModelStopReason};
use longhaul_providers::http::is_page;
use longhaul_providers::{LimitSource, ProviderError};
use longhaul_wire::overflow::{self, AnsweredRequestTokens, ReportedOverflow, SuspectedOverflow};

use super::flow::UpstreamBody;
use super::prepare::OutboundRequest;
use super::send::{SMALLEST_WINDOW_TOKENS, is_wordless};
use super::translate::fault_of;
use super::{UpstreamAttempt, UpstreamDisposition};
use crate::window::KnownWindow;
use longhaul_wire::edit::{GatewayError, GatewayErrorKind, PartialResponse};

/// What of a window stays free where a server counts a little differently each time: this share.
const ROOM_MARGIN_SHARE: u64 = 100;

/// An answer for which less than this share of the window is left is not worth asking for.
const LEAST_ANSWER_SHARE: u64 = 8;

/// Fewer missing tokens than this say nothing of how a server counts.
const LEAST_MISSING_TOKENS: u64 = 128;

/// What came of a request.
pub(super) enum UpstreamResponse {
    Stream(StreamOpening),
    Whole(WholeResponse),
}

/// A stream that has begun.
pub(super) struct StreamOpening {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Box<UpstreamBody>,
    /// What its first events say; they are read again.
    pub(super) beginning: PartialResponse,
}

/// What came and is no stream.
pub(super) struct WholeResponse {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) bytes: Bytes,
    /// What it says, if it is an answer.
    pub(super) seen: Option<PartialResponse>,
}

/// What becomes of a whole answer.
pub(super) enum RelayDecision {
    /// The model is asked once more.
    Again(Box<OutboundRequest>),
    On(UpstreamDisposition),
}

/// A request that was too long.
pub(super) struct OverflowResponse {
    pub(super) overflow: ReportedOverflow,
    /// Whether the upstream says so: an answer that came with success says nothing of a limit, it only looks as if
    /// there were one.
    pub(super) is_said: bool,
    /// Whether there is an answer: it is the client's if nothing can be left out.
    pub(super) is_usable: bool,
    /// What speaks against it.
    pub(super) suspicion: Option<SuspectedOverflow>,
}

impl OverflowResponse {
    /// An answer that looks like one to a request that did not fit.
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
    /// Returns whether a client can be given it, also when it was looked for something better.
    pub(super) fn is_for_client(&self) -> bool {
        match self {
            Self::Stream(opening) => opening.beginning.error.is_none(),
            Self::Whole(whole) => !whole.status.is_success() || whole.seen.is_some(),
        }
    }

    /// The answer, if all of it is known: of a stream that is one without a word.
    pub(super) fn seen(&self) -> Option<&PartialResponse> {
        match self {
            Self::Stream(opening) => {
                Some(&opening.beginning).filter(|seen| seen.finish.is_some() && seen.is_empty())
            }
            Self::Whole(whole) => whole.seen.as_ref(),
        }
    }
}

impl UpstreamAttempt {
    /// Returns whether the upstream says, or shows, that the request was too long.
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
        // Some servers have no word for it. Where the request is short, it has another reason.
        let least = SMALLEST_WINDOW_TOKENS.min(self.window.tokens / 4);
        if is_wordless(said) && prepared.input < least {
            return None;
        }
        let overflow = overflow::recognise(Some(status.as_u16()), said)?;
        let is_said = !status.is_success() || matches!(came, UpstreamResponse::Stream(_));
        Some(OverflowResponse { overflow, is_said, is_usable: false, suspicion: None })
    }

    /// The error that came with success. Some servers repeat a key that they refuse.
    pub(super) fn said_in(&self, came: &UpstreamResponse) -> Option<String> {
        let said = match came {
            UpstreamResponse::Stream(opening) => Bytes::from(opening.beginning.error.clone()?),
            UpstreamResponse::Whole(whole) => whole.bytes.clone(),
        };
        Some(String::from_utf8_lossy(&self.target.server.hide_secrets(said)).into_owned())
    }

    /// What the upstream has said in place of an answer, or in its middle.
    pub(super) fn said_error(&self, said: &str) -> GatewayError {
        let said = self.target.server.hide_secrets(Bytes::copy_from_slice(said.as_bytes()));
        fault_of(&ProviderError::in_answer(&String::from_utf8_lossy(&said)))
    }

    /// What is not passed on was paid for all the same, if it is an answer.
    pub(super) fn bill(&self, came: &UpstreamResponse, prepared: &OutboundRequest) {
        if let Some(seen) = came.seen() {
            self.totals.add(seen.usage.as_ref(), || self.counted(prepared, seen, 0));
        }
    }

    /// An overflow that looks like success.
    pub(super) fn suspicion(
        &self,
        seen: &PartialResponse,
        prepared: &OutboundRequest,
    ) -> Option<SuspectedOverflow> {
        if prepared.input == 0 {
            return None;
        }
        // What a refusal has named counts here as what the server says of itself, until it reads more.
        let read = seen.usage.as_ref().map_or(0, |usage| usage.input_tokens);
        let is_learned =
            |window: &KnownWindow| window.source == LimitSource::Learned && read <= window.tokens;
        let learned = Some(self.window).filter(is_learned);
        let sent = AnsweredRequestTokens {
            estimated: prepared.input,
            margin: prepared.bound.saturating_sub(prepared.input) as f64 / prepared.input as f64,
            window: learned.map(|window| window.tokens).or(self.limits.window),
            source: self.window.source,
            max_output: self
                .exchange
                .envelope
                .max_output
                .filter(|limit| *limit < u64::MAX)
                .map(|limit| self.room(prepared).map_or(limit, |room| room.min(limit))),
            ..AnsweredRequestTokens::default()
        };
        let suspicion = overflow::suspect(&sent, &answer_of(seen))?;
        match suspicion {
            SuspectedOverflow::Empty if seen.has_other => None,
            SuspectedOverflow::SilentlyTruncated { .. } if self.target.counts_less() => None,
            suspicion => Some(suspicion),
        }
    }

    /// An answer goes to the client although something speaks against it: nothing can be done.
    pub(super) fn tell_doubt(&self, suspicion: SuspectedOverflow, prepared: &mut OutboundRequest) {
        let SuspectedOverflow::SilentlyTruncated { reported, counted } = suspicion else { return };
        let why = format!(
            "the upstream has read {reported} of about {counted} tokens by its own count: the answer may rest on a \
             part, and nothing can be left out"
        );
        tracing::warn!(upstream = self.target.server.upstream.name, "{why}");
        prepared.is_doubted = true;
        prepared.report.why = why;
    }

    /// The request was shortened because the upstream seems to have cut it: that stands before what was left out.
    pub(super) fn tell_cut(&self, suspicion: SuspectedOverflow, shorter: &mut OutboundRequest) {
        let SuspectedOverflow::SilentlyTruncated { reported, counted } = suspicion else { return };
        let cut = format!("the upstream has read only {reported} of about {counted} tokens");
        let why = std::mem::take(&mut shorter.report.why);
        shorter.report.why = if why.is_empty() { cut } else { format!("{cut}; {why}") };
    }

    /// After an answer that was asked for again: a server that counts half of what fits counts something else, and what
    /// it reports is no longer taken for a cut.
    pub(super) fn learn_to_count(&self, seen: &PartialResponse, prepared: &OutboundRequest) {
        let reported = seen.usage.as_ref().map_or(0, |usage| usage.input_tokens);
        if reported > 0 && reported < prepared.input / 2 && prepared.input - reported >= LEAST_MISSING_TOKENS
        {
            tracing::warn!(
                upstream = self.target.server.upstream.name,
                "it counts {reported} where we count {}: what it reports is not taken for a cut any more",
                prepared.input
            );
            self.target.set_counts_less();
        }
    }

    /// What the end of a stream says of the window. The answer is the client's already: it holds for the next request.
    pub(super) fn learn_from_stream(&self, seen: &PartialResponse, prepared: &OutboundRequest) {
        // It was made to fit what is only suspected.
        if self.window.source == LimitSource::Learned && self.target.is_suspected() {
            self.learn_to_count(seen, prepared);
        }
        let suspicion =
            self.suspicion(seen, prepared).filter(|_| seen.finish != Some(ModelStopReason::Length));
        let limit = suspicion.map(SuspectedOverflow::overflow).and_then(|overflow| overflow.limit_tokens);
        if let Some(limit) = limit.filter(|_| !self.has_said_window()) {
            self.target.suspect_window(limit);
        }
    }

    /// Where only input and output together were too much: whether there is room for a shorter answer, which is asked
    /// for then, and nothing is left out. Once for a request.
    pub(super) fn asks_for_less(
        &mut self,
        overflow: &ReportedOverflow,
        asked: u64,
        prepared: &OutboundRequest,
        is_said: bool,
    ) -> bool {
        if self.max_output_tokens.is_some() {
            return false;
        }
        let Some(limit) = overflow.limit_tokens else { return false };
        // Who does not say how long the input is has refused what it has by our count.
        let counted = Some(prepared.bound).filter(|_| prepared.input > 0);
        let Some(used) = overflow.used_tokens.or(counted) else { return false };
        let room = limit.saturating_sub(used).saturating_sub(limit / ROOM_MARGIN_SHARE);
        if room < limit / LEAST_ANSWER_SHARE || asked <= room {
            return false;
        }
        self.max_output_tokens = Some(room);
        self.heed_limit(limit, is_said);
        true
    }

    /// A request of which nothing can be left out, in figures that add up.
    pub(super) fn too_long(&self, prepared: &OutboundRequest, said: Option<&str>) -> GatewayError {
        let counted = match prepared.input {
            0 => "was not counted".to_owned(),
            input => format!("has {input} tokens by our count, {} with its possible error", prepared.bound),
        };
        let asked =
            self.asked_output().map_or_else(String::new, |asked| format!(" and asks for {asked} more"));
        let message = format!(
            "the upstream refused the request for its length, and nothing can be left out: the input {counted}{asked}; \
             the window has {}",
            self.window_said(),
        );
        quoting(GatewayError::new(GatewayErrorKind::DoesNotFit, message), said)
    }

    /// What our own plan says of a request that the upstream has refused, or seems to have cut.
    pub(super) fn refused_too(
        &self,
        fault: GatewayError,
        prepared: &OutboundRequest,
        said: Option<&str>,
    ) -> GatewayError {
        // By our own figures it fits.
        if fault.kind == GatewayErrorKind::DoesNotFit
            && said.is_some()
            && prepared.bound < self.budget().usable
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

    /// The same for what our own plan has refused: what the rest of the window is kept for, and who says how large it is.
    pub(super) fn reckoned(&self, fault: GatewayError) -> GatewayError {
        if fault.kind != GatewayErrorKind::DoesNotFit {
            return fault;
        }
        let budget = self.budget();
        let kept = budget.window.saturating_sub(budget.usable);
        let asked = match self.asked_output() {
            Some(asked) => format!("the request asks for {asked}"),
            None => "the request sets no limit".to_owned(),
        };
        let message = format!(
            "{}; the other {kept} are kept for the answer ({asked}); the window is {}",
            fault.message,
            self.window_said(),
        );
        GatewayError { message, ..fault }
    }

    /// An answer that came with success must be one.
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
            return Err(self.said_error(error));
        }
        if !status.is_success() || seen.is_some() {
            return Ok(());
        }
        let name = &self.target.server.upstream.name;
        let said = self.target.server.hide_secrets(Bytes::copy_from_slice(bytes));
        let quote: String = String::from_utf8_lossy(&said).chars().take(200).collect();
        if is_page(bytes) {
            let address = self.target.server.address();
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

/// The fault in our words and the upstream's.
fn quoting(fault: GatewayError, said: Option<&str>) -> GatewayError {
    let Some(said) = said else { return fault };
    let said: String = said.chars().take(500).collect();
    GatewayError { message: format!("{}. The upstream said: {said}", fault.message), ..fault }
}

fn answer_of(seen: &PartialResponse) -> ModelAnswer {
    let finish = seen.finish.unwrap_or(ModelStopReason::Other);
    ModelAnswer { parts: seen.parts(), finish, usage: seen.usage.clone(), envelope: None }
}
