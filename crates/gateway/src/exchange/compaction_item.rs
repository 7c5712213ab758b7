//! Codex's compaction. An input with a final `compaction_trigger` asks for one `compaction` item. The gateway
//! seals its items inside, and opens the seal when the client sends the item back.

use std::sync::{Arc, OnceLock};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use longhaul_providers::connect::Kind;
use longhaul_wire::edit::{Dialect, GatewayError, GatewayErrorKind, RequestEnvelope};
use longhaul_wire::raw_json::{elements, field, fields, string};
use memchr::memmem;
use serde_json::{Value, json};

use super::compact::compacted_request;
use super::replicas::ordered_targets;
use super::{ProxiedRequest, UpstreamAttempt, UpstreamDisposition};

/// The last item of a request for a compaction.
const TRIGGER: &str = "compaction_trigger";

/// The item types of compactions in clients' requests.
const KINDS: [&str; 2] = ["compaction", "compaction_summary"];

/// The prefix of an `encrypted_content` sealed by the gateway.
const SEAL: &str = "longhaul-compaction-1.";

/// The length of the checksum before the items, in bytes.
const CHECKSUM_BYTES: usize = 16;

/// Returns `items`, a JSON list, as `encrypted_content`. The seal only protects against damage, because the client has
/// sent all the items itself. No key is involved, so every node can open the seal, also after a restart.
fn seal(items: &str) -> String {
    let mut sealed = blake3::hash(items.as_bytes()).as_bytes()[..CHECKSUM_BYTES].to_vec();
    sealed.extend_from_slice(items.as_bytes());
    format!("{SEAL}{}", URL_SAFE_NO_PAD.encode(sealed))
}

/// Returns the JSON list behind [`SEAL`]; `None` if the list is damaged.
fn unseal(sealed: &str) -> Option<String> {
    let bytes = URL_SAFE_NO_PAD.decode(sealed).ok()?;
    let (checksum, items) = bytes.split_at_checked(CHECKSUM_BYTES)?;
    let is_whole = &blake3::hash(items).as_bytes()[..CHECKSUM_BYTES] == checksum;
    let items = String::from_utf8(items.to_vec()).ok().filter(|_| is_whole)?;
    elements(&items).is_some().then_some(items)
}

fn kind_of(item: &str) -> Option<String> {
    field(&fields(item)?, "type").and_then(string)
}

/// Returns the request with `items` as its input and all other bytes unchanged.
fn with_items(envelope: &RequestEnvelope, items: &[String]) -> Bytes {
    let at = &envelope.items_at;
    let (before, after) = (&envelope.bytes[..at.start], &envelope.bytes[at.end..]);
    [before, b"[", items.join(",").as_bytes(), b"]", after].concat().into()
}

/// Returns the request with each sealed `compaction` replaced by its items; `None` if the request has none.
///
/// # Errors
/// [`GatewayError`] if a sealed item is damaged.
pub(super) fn with_sealed_opened(
    dialect: Dialect,
    envelope: &RequestEnvelope,
) -> Result<Option<Bytes>, GatewayError> {
    // Most requests have no sealed item, and the search is cheap.
    if dialect != Dialect::Responses || memmem::find(&envelope.bytes, SEAL.as_bytes()).is_none() {
        return Ok(None);
    }
    let (mut items, mut is_opened) = (Vec::new(), false);
    for (index, at) in envelope.items.iter().enumerate() {
        let item = envelope.text(at);
        let content = kind_of(item).filter(|kind| KINDS.contains(&kind.as_str())).and_then(|_| {
            let content = field(&fields(item)?, "encrypted_content").and_then(string)?;
            content.strip_prefix(SEAL).map(ToOwned::to_owned)
        });
        let Some(content) = content else {
            items.push(item.to_owned());
            continue;
        };
        let opened = unseal(&content).ok_or_else(|| GatewayError {
            param: Some(format!("input[{index}].encrypted_content")),
            ..GatewayError::new(
                GatewayErrorKind::Invalid,
                "this `compaction` item is damaged; send it as it was returned",
            )
        })?;
        items.extend(elements(&opened).unwrap_or_default().into_iter().map(ToOwned::to_owned));
        is_opened = true;
    }
    Ok(is_opened.then(|| with_items(envelope, &items)))
}

/// Returns the request without its final [`TRIGGER`]; `None` if the request has no such end.
fn without_trigger(envelope: &RequestEnvelope) -> Option<Bytes> {
    let (last, others) = envelope.items.split_last()?;
    (kind_of(envelope.text(last))? == TRIGGER).then(|| {
        let items: Vec<String> = others.iter().map(|at| envelope.text(at).to_owned()).collect();
        with_items(envelope, &items)
    })
}

/// Answers a request that ends with a [`TRIGGER`]; `None` for other requests. OpenAI's own server compacts by
/// itself and also gives `None`.
///
/// # Errors
/// [`GatewayError`] if the request cannot be read or compacted.
pub(super) async fn triggered_compaction(
    request: &ProxiedRequest,
) -> Result<Option<UpstreamDisposition>, GatewayError> {
    if request.wire.dialect() != Dialect::Responses {
        return Ok(None);
    }
    let Some(target) = ordered_targets(request).into_iter().next() else { return Ok(None) };
    if target.server.upstream.kind == Kind::OpenAi {
        return Ok(None);
    }
    let Some(body) = without_trigger(&request.envelope) else { return Ok(None) };
    let envelope = request.inner.parse_cache.read(request.wire, &request.caller, body)?;
    // A conversation key that was computed already may include the trigger item.
    let exchange = ProxiedRequest { envelope, conversation_key: OnceLock::new(), ..request.clone() };
    let attempt = UpstreamAttempt::find(Arc::new(exchange), target, Arc::default()).await;
    Ok(Some(compaction_item(attempt).await?))
}

/// Returns an answer whose only item is a sealed `compaction`.
async fn compaction_item(mut attempt: UpstreamAttempt) -> Result<UpstreamDisposition, GatewayError> {
    let prepared = compacted_request(&mut attempt).await?;
    let items = attempt.request.items_of(&prepared)?;
    let parts = &attempt.request.proxied.inner.parts;
    let item = json!({
        "id": format!("cmp_{}", (parts.new_id)()), "type": "compaction", "encrypted_content": seal(&items),
    });
    let (before, after) = (prepared.report.before, prepared.report.after);
    let mut response = json!({
        "id": format!("resp_{}", (parts.new_id)()), "object": "response", "created_at": (parts.now)(),
        "status": "completed", "error": null, "incomplete_details": null, "model": attempt.request.proxied.envelope.model,
        "output": [item],
        "usage": {
            "input_tokens": before, "input_tokens_details": { "cached_tokens": 0 },
            "output_tokens": after, "output_tokens_details": { "reasoning_tokens": 0 },
            "total_tokens": before.saturating_add(after),
        },
    });
    let mut headers = HeaderMap::new();
    attempt.budget().describe(&prepared.report, &mut headers);
    if !attempt.request.proxied.envelope.stream {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        return Ok(UpstreamDisposition::Whole(StatusCode::OK, headers, response.to_string().into()));
    }
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    let completed = response.clone();
    // The first event shows the response as it would be before the item, as OpenAI's server does.
    response["status"] = json!("in_progress");
    response["output"] = json!([]);
    response["usage"] = Value::Null;
    let events = [
        // Codex reads a stream, so the item comes in the events of an ordinary answer.
        json!({ "type": "response.created", "response": response }),
        json!({ "type": "response.output_item.added", "output_index": 0, "item": item }),
        json!({ "type": "response.output_item.done", "output_index": 0, "item": item }),
        json!({ "type": "response.completed", "response": completed }),
    ];
    let mut said = String::new();
    for (number, mut event) in events.into_iter().enumerate() {
        event["sequence_number"] = json!(number);
        let name = event["type"].as_str().unwrap_or_default();
        said.push_str(&format!("event: {name}\ndata: {event}\n\n"));
    }
    let stream = Box::pin(futures_util::stream::iter([Ok(Bytes::from(said))]));
    Ok(UpstreamDisposition::Stream(StatusCode::OK, headers, stream))
}
