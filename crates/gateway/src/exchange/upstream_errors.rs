//! The treatment of errors that no API wrote: the address may lead to a proxy or a web page.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use longhaul_providers::connect::Kind;
use longhaul_providers::http::is_page;
use serde_json::Value;

use super::send::kind_of;
use super::{ProxiedRequest, UpstreamDisposition};
use crate::upstream::{UpstreamServer, UpstreamTarget};
use longhaul_wire::edit::{GatewayError, GatewayErrorKind, is_error_of};
use longhaul_wire::server_error;

/// The words of servers that have the path, and lack what a request names: a model, a deployment, an earlier answer, an
/// item, a file, or a provider for the model.
const RESOURCE_WORDS: [&str; 6] =
    ["model", "deployment", "previous_response", "with id", "no such file object", "endpoints found"];

/// The maximum number of quoted characters.
const MOST_SAID_CHARS: usize = 200;

/// Returns the response with errors in the client's dialect: a missing path with its probable reason, and web pages
/// as errors.
pub(super) fn readable(
    request: &ProxiedRequest,
    target: &Arc<UpstreamTarget>,
    opened: Result<UpstreamDisposition, GatewayError>,
) -> Result<UpstreamDisposition, GatewayError> {
    match opened {
        Ok(UpstreamDisposition::Whole(status, headers, bytes)) if !status.is_success() => {
            let said = String::from_utf8_lossy(&bytes);
            let name = &target.server.upstream.name;
            let quote: String = said.trim().chars().take(MOST_SAID_CHARS).collect();
            let hint = hint(&target.server, &said).filter(|_| status == StatusCode::NOT_FOUND);
            Ok(if let Some(hint) = hint {
                let message = format!("the upstream `{name}` has no such path ({quote}). {hint}");
                error_of(request, status, headers, &GatewayError::new(GatewayErrorKind::NoSuchPath, message))
            } else if is_error_of(request.wire.dialect(), &bytes) {
                UpstreamDisposition::Whole(status, headers, bytes)
            } else if is_json(&bytes) {
                let fault = reword_error(status, &said);
                error_of(request, status, headers, &fault)
            } else if let Some(mut fault) = target.server.proxy_fault(status, &headers, &bytes) {
                if !quote.is_empty() {
                    fault.message = format!("{}. It said: {quote}", fault.message);
                }
                error_of(request, fault.status, headers, &fault)
            } else {
                let kind = match kind_of(status, &said) {
                    // Clients take "not found" for a missing model. A body that no API wrote speaks of the
                    // path.
                    GatewayErrorKind::NotFound => GatewayErrorKind::NoSuchPath,
                    kind => kind,
                };
                let address = target.server.address();
                let said = match quote.is_empty() {
                    true => format!(
                        "the upstream `{name}` at {address} answered with status {status} without a word"
                    ),
                    false => format!("the upstream `{name}` answered with status {status}: {quote}"),
                };
                let message = match kind {
                    GatewayErrorKind::NoSuchPath => {
                        format!("{said}; is its base URL {address} the address of an API?")
                    }
                    _ => said,
                };
                error_of(
                    request,
                    status,
                    headers,
                    &GatewayError { status, ..GatewayError::new(kind, message) },
                )
            })
        }
        Err(mut fault) if fault.status == StatusCode::NOT_FOUND => {
            let name = &target.server.upstream.name;
            // The upstream's own name may contain "model", which would suppress the hint.
            if let Some(hint) = hint(&target.server, &fault.message.replace(name, "")) {
                fault.message = format!("{}. {hint}", fault.message);
            }
            Err(fault)
        }
        other => other,
    }
}

fn error_of(
    request: &ProxiedRequest,
    status: StatusCode,
    mut headers: HeaderMap,
    fault: &GatewayError,
) -> UpstreamDisposition {
    // A web page came with its own type, and clients parse by it.
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    UpstreamDisposition::Whole(status, headers, request.wire.error_body(fault))
}

/// Returns an upstream's error in words, for clients of another form of errors.
pub(crate) fn reword_error(status: StatusCode, said: &str) -> GatewayError {
    let error = server_error::from_response(status.as_u16(), None, said.to_owned());
    let fault = GatewayError::from(&error);
    // The client has the status already.
    let suffix = format!(" (HTTP {})", status.as_u16());
    let message = fault.message.strip_suffix(&suffix).unwrap_or(&fault.message).to_owned();
    GatewayError { status, message, ..fault }
}

/// Returns whether the error of a missing thing names the model or another thing than a path. The path is there then.
pub(super) fn names_missing_resource(bytes: &[u8], model: &str) -> bool {
    // A web page was written by no API, and may have any word.
    if is_page(bytes) {
        return false;
    }
    // Quotes within JSON are escaped.
    let said = String::from_utf8_lossy(bytes).replace('\\', "").to_lowercase();
    let model = model.to_lowercase();
    RESOURCE_WORDS.iter().any(|word| said.contains(word))
        || !model.is_empty()
            && ["\"", "'", "`"].iter().any(|quote| said.contains(&format!("{quote}{model}{quote}")))
}

/// Returns whether an API has written the error. A proxy before the upstream may answer with a web page.
fn is_json(bytes: &Bytes) -> bool {
    matches!(serde_json::from_slice(bytes), Ok(Value::Object(_) | Value::Array(_)))
}

/// Returns a hint at a wrong base URL. A server that names the missing model is at the right address and gets no hint.
fn hint(server: &UpstreamServer, said: &str) -> Option<String> {
    // Ollama's own API has no version segment.
    if server.upstream.kind == Kind::Ollama {
        return None;
    }
    let base_url = &server.upstream.endpoint.base_url;
    // With a path, a person has chosen the place, and a guess would mislead.
    let url = reqwest::Url::parse(base_url).ok().filter(|url| url.path().trim_matches('/').is_empty())?;
    let names_model = said.to_lowercase().contains("model");
    let place = format!("{}/v1", url.origin().ascii_serialization());
    (!names_model).then(|| format!("Its base URL has no path: did you mean {place} ?"))
}
