//! The expansion of a request that continues an answer by name, for servers without kept answers. The request
//! becomes the whole conversation.

use std::sync::Arc;

use bytes::Bytes;
use longhaul_providers::connect::Kind;

use super::ProxiedRequest;
use crate::response_store::{ResponseEntry, StoredTurn, closing, items};
use crate::upstream::UpstreamTarget;
use longhaul_wire::edit::{Dialect, GatewayError, GatewayErrorKind, RequestEnvelope, WireCodec};
use longhaul_wire::raw_json::{fields, quote, string};
use longhaul_wire::responses::edit as responses;

/// The field with the name of the previous answer.
const PREVIOUS: &str = "previous_response_id";

/// The retention of an answer, so that a later request can continue it.
#[derive(Clone)]
pub(super) struct ResponseRetention {
    before: Option<Arc<StoredTurn>>,
    /// The request's input as written.
    asked: Bytes,
}

/// Returns whether the gateway keeps the answers of these upstreams. OpenAI's own server keeps answers itself.
fn is_kept_here(wire: &dyn WireCodec, targets: &[Arc<UpstreamTarget>]) -> bool {
    wire.dialect() == Dialect::Responses && !targets.iter().any(keeps_itself)
}

fn keeps_itself(target: &Arc<UpstreamTarget>) -> bool {
    target.server.upstream.kind == Kind::OpenAi
}

/// Returns the error of a request whose previous answer cannot be used.
fn previous_response_error(kind: GatewayErrorKind, message: String) -> GatewayError {
    GatewayError { param: Some(PREVIOUS.to_owned()), ..GatewayError::new(kind, message) }
}

/// Returns the request with other items, and without the name of the previous answer.
fn with_input(request: &str, items: &str) -> Option<String> {
    let all = fields(request)?;
    let kept = all.iter().filter(|(name, _)| name != PREVIOUS && name != "input");
    let kept = kept.map(|(name, value)| format!("{}:{value},", quote(name)));
    Some(format!(r#"{{{}"input":{items}}}"#, kept.collect::<String>()))
}

impl ProxiedRequest {
    /// Returns the request with the whole conversation before it, if the gateway keeps answers.
    ///
    /// # Errors
    /// [`GatewayError`] if the previous answer is unknown, the conversation is too long, or the request names a
    /// `conversation`.
    pub(crate) async fn completed(mut self) -> Result<Self, GatewayError> {
        let envelope = Arc::clone(&self.envelope);
        if !is_kept_here(self.wire, &self.targets) {
            if self.wire.dialect() == Dialect::Responses && responses::check_whole(&envelope).is_err() {
                // Only OpenAI's server has the kept items. Most others would silently answer without them.
                self.targets.retain(keeps_itself);
            }
            return Ok(self);
        }
        responses::check_no_conversation(&envelope)?;
        // A slice shares the memory of the request's bytes.
        let asked = envelope.bytes.slice(envelope.items_at.clone());
        // `store` is true by default in the Responses API.
        let is_kept = envelope.other("store") != Some("false");
        let Some(previous) = envelope.other(PREVIOUS).filter(|raw| *raw != "null") else {
            self.response_retention = is_kept.then_some(ResponseRetention { before: None, asked });
            return Ok(self);
        };
        let id = string(previous).ok_or_else(|| {
            previous_response_error(GatewayErrorKind::Invalid, format!("`{PREVIOUS}` must be a string"))
        })?;
        let before = self.inner.answers.find(self.caller, &id, (self.inner.parts.now)()).await;
        let before = before.ok_or_else(|| {
            let id: String = id.chars().take(100).collect();
            let message = format!(
                "Previous response with id '{id}' not found. This gateway keeps answers for 30 days, the newest as far \
                 as there is room, unless `store` is false: send the whole input instead."
            );
            previous_response_error(GatewayErrorKind::NoSuchAnswer, message)
        })?;
        let all = [before.items(), items(&asked)].into_iter().filter(|items| !items.is_empty());
        let all = format!("[{}]", all.collect::<Vec<_>>().join(","));
        // A short request may stand for a conversation of any length, so the limit applies to the whole.
        let bytes = envelope.bytes.len() + all.len();
        let most = self.inner.config.max_body_bytes;
        if bytes > most {
            let message =
                format!("the whole conversation has {bytes} bytes; {most} are the most that is read");
            return Err(GatewayError::new(GatewayErrorKind::TooLarge, message));
        }
        // A long conversation is parsed under the work limiter, like a long request.
        self.envelope = self.inner.work_limiter.read(bytes, || self.read_with_input(&all)).await?;
        tracing::debug!(
            input_bytes = all.len(),
            bytes,
            "a request was completed with the conversation before it"
        );
        // The completed request differs from the client's bytes, so it is never sent unread.
        self.is_new = false;
        self.response_retention = is_kept.then_some(ResponseRetention { before: Some(before), asked });
        Ok(self)
    }

    /// Returns the request with these items as its input.
    fn read_with_input(&self, items: &str) -> Result<Arc<RequestEnvelope>, GatewayError> {
        let body =
            with_input(self.envelope.text(&(0..self.envelope.bytes.len())), items).ok_or_else(|| {
                GatewayError::new(GatewayErrorKind::Internal, "the request cannot be completed")
            })?;
        Ok(self.inner.parse_cache.read(self.wire, &self.caller, body.into())?)
    }

    /// Keeps the answer for a request that continues it, also after a restart.
    pub(super) async fn keep(&self, response: &str) {
        if let Some(entry) = self.remember_answer(response) {
            self.inner.answers.write(entry).await;
        }
    }

    /// Keeps the answer at the end of a stream, and stores it in the background.
    pub(super) fn keep_end(&self, events: &Bytes) {
        let response = self.response_retention.as_ref().and_then(|_| closing(events));
        if let Some(entry) = response.and_then(|response| self.remember_answer(&response)) {
            self.inner.answers.write_beside(entry);
        }
    }

    fn remember_answer(&self, response: &str) -> Option<ResponseEntry> {
        let ResponseRetention { before, asked } = self.response_retention.as_ref()?;
        let now = (self.inner.parts.now)();
        self.inner.answers.keep(self.caller, before.clone(), asked.clone(), response, now)
    }
}
