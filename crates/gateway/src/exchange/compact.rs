//! The compaction of a conversation on its client's request: `/v1/responses/compact`.

use http::{HeaderMap, HeaderValue, StatusCode, header};
use longhaul_providers::connect::Kind;

use super::prepare::OutboundRequest;
use super::{UpstreamAttempt, UpstreamDisposition};
use crate::gateway::CredentialSource;
use crate::upstream::COMPACT_PATH;
use longhaul_wire::edit::{GatewayError, GatewayErrorKind};
use longhaul_wire::responses::edit as responses;

/// Returns the items that replace the request's: OpenAI's own if its server keeps the conversation, otherwise
/// the gateway's, readable by any model.
///
/// # Errors
/// [`GatewayError`] if the request cannot be read, or its server is needed and gives no answer.
pub(super) async fn compact(mut attempt: UpstreamAttempt) -> Result<UpstreamDisposition, GatewayError> {
    if attempt.request.target.server.upstream.kind == Kind::OpenAi {
        // OpenAI's server can compact items that only it can read.
        return pass_on(&attempt).await;
    }
    let prepared = compacted_request(&mut attempt).await?;
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    attempt.budget().describe(&prepared.report, &mut headers);
    let body = attempt.request.body_of(&prepared)?;
    Ok(UpstreamDisposition::Whole(StatusCode::OK, headers, body.into()))
}

/// Returns the request in its compacted form.
///
/// # Errors
/// [`GatewayError`] if the request cannot be read or refers to items that it does not contain.
pub(super) async fn compacted_request(
    attempt: &mut UpstreamAttempt,
) -> Result<OutboundRequest, GatewayError> {
    responses::check_whole(&attempt.request.proxied.envelope)?;
    // The items go back to the client, which could not answer a call of `recall`.
    attempt.request.tools().never_recalls();
    match attempt.fitter.compacted().await {
        // Nothing can be left out, so the client gets its own items back.
        Err(fault)
            if matches!(fault.kind, GatewayErrorKind::ContextOverflow | GatewayErrorKind::DoesNotFit) =>
        {
            tracing::info!(why = fault.message, "a client's conversation cannot be compacted and stays");
            Ok(OutboundRequest::default())
        }
        Ok(prepared) => {
            tracing::info!(
                action = prepared.report.action.as_str(),
                tokens_before = prepared.report.before,
                tokens_after = prepared.report.after,
                "a conversation was compacted at its client's request"
            );
            Ok(prepared)
        }
        Err(fault) => Err(fault),
    }
}

async fn pass_on(attempt: &UpstreamAttempt) -> Result<UpstreamDisposition, GatewayError> {
    let (exchange, server) = (&attempt.request.proxied, &attempt.request.target.server);
    let body = exchange.wire.render_request(&exchange.envelope, &attempt.request.request_edit())?;
    let own = exchange.inner.config.credentials == CredentialSource::Own;
    let response = server.send(COMPACT_PATH, &exchange.headers, own, body).await?;
    let (status, mut headers) = (response.status(), server.headers_for_caller(response.headers()));
    attempt.budget().describe(&super::PreparationReport::default(), &mut headers);
    let body = response.bytes().await.map_err(|_| {
        let name = &server.upstream.name;
        GatewayError::new(
            GatewayErrorKind::Unreachable,
            format!("the upstream `{name}` broke off in its answer"),
        )
    })?;
    // Some servers quote a refused key in their error.
    let body = if status.is_success() { body } else { server.hide_secrets(body) };
    Ok(UpstreamDisposition::Whole(status, headers, body))
}
