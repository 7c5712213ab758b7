//! The compaction of a conversation on its client's request: `/v1/responses/compact`.

use http::{HeaderMap, HeaderValue, StatusCode, header};
use longhaul_providers::connect::Kind;

use super::prepare::OutboundRequest;
use super::{UpstreamAttempt, UpstreamDisposition};
use crate::gateway::CredentialSource;
use crate::upstream::COMPACT_PATH;
use longhaul_wire::edit::{GatewayError, GatewayErrorKind, RequestEdit};
use longhaul_wire::raw_json::{field, fields, quote};
use longhaul_wire::responses::edit as responses;

impl UpstreamAttempt {
    /// Returns the items that replace the request's: OpenAI's own if its server keeps the conversation, otherwise the
    /// gateway's, which any model can read.
    ///
    /// # Errors
    /// [`GatewayError`] if the request cannot be read, or its server is needed and gives no answer.
    pub(super) async fn compact(mut self) -> Result<UpstreamDisposition, GatewayError> {
        if self.target.server.upstream.kind == Kind::OpenAi {
            return self.pass_on().await;
        }
        let prepared = self.compacted_request().await?;
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        self.describe(&prepared.report, &mut headers);
        let body = self.body_of(&prepared)?;
        Ok(UpstreamDisposition::Whole(StatusCode::OK, headers, body.into()))
    }

    /// Returns the request in its compacted form.
    ///
    /// # Errors
    /// [`GatewayError`] if the request cannot be read or refers to items that it does not contain.
    pub(super) async fn compacted_request(&mut self) -> Result<OutboundRequest, GatewayError> {
        responses::check_whole(&self.exchange.envelope)?;
        self.never_recalls();
        match self.compacted().await {
            // Nothing can be left out, so the client gets its own items back.
            Err(fault)
                if matches!(fault.kind, GatewayErrorKind::ContextOverflow | GatewayErrorKind::DoesNotFit) =>
            {
                Ok(OutboundRequest::default())
            }
            prepared => prepared,
        }
    }

    /// Returns the items of a compacted request as a JSON list.
    ///
    /// # Errors
    /// [`GatewayError`] if the list cannot be written.
    pub(super) fn items_of(&self, prepared: &OutboundRequest) -> Result<String, GatewayError> {
        let envelope = &self.exchange.envelope;
        let edited = RequestEdit { steps: prepared.steps.clone(), ..RequestEdit::default() };
        let rendered = self.exchange.wire.render(envelope, &edited)?;
        let rendered = std::str::from_utf8(&rendered).unwrap_or_default();
        let items = fields(rendered).and_then(|fields| field(&fields, "input")).unwrap_or("[]");
        Ok(match items.starts_with('"') {
            true => format!(
                r#"[{{"type":"message","role":"user","content":[{{"type":"input_text","text":{items}}}]}}]"#
            ),
            false => items.to_owned(),
        })
    }

    fn body_of(&self, prepared: &OutboundRequest) -> Result<String, GatewayError> {
        let output = self.items_of(prepared)?;
        let parts = &self.exchange.inner.parts;
        let (id, created) = (quote(&format!("resp_{}", (parts.new_id)())), (parts.now)());
        let (before, after) = (prepared.report.before, prepared.report.after);
        let usage = format!(
            r#"{{"input_tokens":{before},"input_tokens_details":{{"cached_tokens":0}},"output_tokens":{after},"output_tokens_details":{{"reasoning_tokens":0}},"total_tokens":{}}}"#,
            before.saturating_add(after),
        );
        Ok(format!(
            r#"{{"id":{id},"object":"response.compaction","created_at":{created},"output":{output},"usage":{usage}}}"#
        ))
    }

    async fn pass_on(&self) -> Result<UpstreamDisposition, GatewayError> {
        let (exchange, server) = (&self.exchange, &self.target.server);
        let body = exchange.wire.render(&exchange.envelope, &self.request_edit())?;
        let own = exchange.inner.config.credentials == CredentialSource::Own;
        let response = server.send(COMPACT_PATH, &exchange.headers, own, body).await?;
        let (status, mut headers) = (response.status(), server.headers_for_caller(response.headers()));
        self.describe(&super::PreparationReport::default(), &mut headers);
        let body = response.bytes().await.map_err(|_| {
            let name = &server.upstream.name;
            GatewayError::new(
                GatewayErrorKind::Unreachable,
                format!("the upstream `{name}` broke off in its answer"),
            )
        })?;
        let body = if status.is_success() { body } else { server.hide_secrets(body) };
        Ok(UpstreamDisposition::Whole(status, headers, body))
    }
}
