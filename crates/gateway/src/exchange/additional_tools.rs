//! Tools in the input of a Responses request. Codex adds tools in the middle of a conversation by an item
//! `additional_tools`. Only OpenAI's server knows the item, so for every other upstream its tools join the request's
//! list, where they are translated, flattened and deferred like all others.

use std::sync::Arc;

use longhaul_wire::edit::tool_parameters::add_missing_parameters;
use longhaul_wire::edit::{Dialect, GatewayError, RequestEnvelope};
use longhaul_wire::raw_json::{elements, field, fields, string, with_field};
use memchr::memmem;

use super::ProxiedRequest;
use crate::upstream::UpstreamTarget;

/// The type of the item.
const KIND: &str = "additional_tools";

/// Returns the request with the tools of such items in its list, and without the items; `None` if there are
/// none. A tool is added only once.
fn lifted(envelope: &RequestEnvelope) -> Option<String> {
    // A search for the word is much cheaper than the parse of all items, and few requests have it.
    memmem::find(&envelope.bytes[envelope.items_at.clone()], KIND.as_bytes())?;
    let listed = envelope.tools_at.as_ref().and_then(|at| elements(envelope.text(at))).unwrap_or_default();
    let (mut tools, mut items, mut is_found) = (listed, Vec::new(), false);
    for at in &envelope.items {
        let item = envelope.text(at);
        let said = fields(item).unwrap_or_default();
        if field(&said, "type").and_then(string).as_deref() != Some(KIND) {
            items.push(item);
            continue;
        }
        is_found = true;
        for tool in field(&said, "tools").and_then(elements).unwrap_or_default() {
            if !tools.iter().any(|known| names(known) == names(tool)) {
                tools.push(tool);
            }
        }
    }
    is_found.then_some(())?;
    let request = envelope.text(&(0..envelope.bytes.len()));
    let request = with_field(request, "input", &format!("[{}]", items.join(",")))?;
    match tools.is_empty() {
        // APIs refuse an empty list of tools.
        true => Some(request),
        false => with_field(&request, "tools", &format!("[{}]", tools.join(","))),
    }
}

/// Returns the identity of a tool: its type and its name.
fn names(tool: &str) -> Option<(String, Option<String>)> {
    let said = fields(tool)?;
    let kind = field(&said, "type").and_then(string).unwrap_or_default();
    Some((kind, field(&said, "name").and_then(string)))
}

impl ProxiedRequest {
    /// Returns the request with its tools in the form for an upstream: the tools of its input are in its list of tools,
    /// and every function has a schema.
    ///
    /// # Errors
    /// [`GatewayError`] if the request cannot be read in that form.
    pub(super) fn with_tools_for(
        self: Arc<Self>,
        target: &UpstreamTarget,
    ) -> Result<Arc<Self>, GatewayError> {
        let listed = self.with_input_tools_listed(target)?;
        let Some(request) = add_missing_parameters(listed.wire.dialect(), &listed.envelope) else {
            return Ok(listed);
        };
        tracing::debug!("functions without parameters get an empty schema, because many servers demand one");
        let envelope = listed.inner.parse_cache.read(listed.wire, &listed.caller, request.into())?;
        Ok(Arc::new(Self { envelope, is_new: false, ..Self::clone(&listed) }))
    }

    /// Returns the request in the form for an upstream, with the tools of its input in its list of tools.
    ///
    /// # Errors
    /// [`GatewayError`] if the request cannot be read in that form.
    fn with_input_tools_listed(self: Arc<Self>, target: &UpstreamTarget) -> Result<Arc<Self>, GatewayError> {
        if self.wire.dialect() != Dialect::Responses || self.is_providers_own(target) {
            return Ok(self);
        }
        let Some(request) = lifted(&self.envelope) else { return Ok(self) };
        let envelope = self.inner.parse_cache.read(self.wire, &self.caller, request.into())?;
        // The bytes differ from the client's, so the request must not be sent unread.
        Ok(Arc::new(Self { envelope, is_new: false, ..Self::clone(&self) }))
    }
}
