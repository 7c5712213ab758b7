//! The tools added to a request by the gateway: the conditions for `recall`, and the tokens of its definition.

use longhaul_core::recall::tool::{NAME, spec};
use longhaul_providers::connect::Kind;
use longhaul_providers::{FeatureSupport, ToolChoice};
use longhaul_wire::edit::Dialect;
use longhaul_wire::raw_json::{field, fields, string};

use super::conversation::ConversationState;
use super::targeted_request::TargetedRequest;
use super::{PreparationAction, PreparationReport};
use crate::gateway::RecallMode;

/// The tools added to a request by the gateway. Their calls are hidden from the client.
pub(super) struct GatewayTools<'a> {
    pub(super) request: &'a TargetedRequest,
}

impl GatewayTools<'_> {
    /// Returns whether conversations at this upstream get the tool once content is left out.
    pub(super) fn may_recall(&self) -> bool {
        self.without_tool().is_none()
    }

    /// Keeps the tool out of the attempt. The result goes to the client as items, where handles would point
    /// into the client's next request.
    pub(super) fn never_recalls(&self) {
        // The cell is still empty, because no other method has asked yet.
        let _ = self.request.no_recall_reason.set(Some("the items are the client's"));
    }

    /// Returns whether this request has the tool.
    pub(super) fn recalls(&self, report: &PreparationReport) -> bool {
        // The tool comes with the first edit. Until then requests pass byte for byte (decision 0029).
        report.action != PreparationAction::None && self.may_recall() && self.not_now().is_none()
    }

    /// Returns the text of the `x-longhaul-recall` header; `None` as long as nothing is left out.
    pub(super) fn recall_said(&self, report: &PreparationReport) -> Option<String> {
        if self.request.proxied.inner.config.recall == RecallMode::Off
            || report.action == PreparationAction::None
        {
            return None;
        }
        Some(match self.without_tool().or_else(|| self.not_now()) {
            Some(why) => format!("not added: {why}"),
            None => "added".to_owned(),
        })
    }

    /// Returns the reason why no request of the conversation gets the tool.
    fn without_tool(&self) -> Option<&'static str> {
        if self.request.proxied.inner.config.recall == RecallMode::Off {
            return Some("off");
        }
        // The reason is asked several times per request, and the list of tools may be long.
        *self.request.no_recall_reason.get_or_init(|| {
            let envelope = &self.request.proxied.envelope;
            let tools = envelope.tools_at.as_ref().map(|at| envelope.text(at)).unwrap_or_default();
            // The list is parsed only if the name occurs at all.
            let may_have_one = tools.contains(NAME);
            let named = may_have_one
                .then(|| self.request.proxied.wire.fixed_content(envelope).unwrap_or_default().tools);
            // A handle points into the client's history, which such a client does not send.
            let keeps = self.request.proxied.wire.dialect() == Dialect::Responses
                && self.request.target.server.upstream.kind == Kind::OpenAi
                && envelope.other("store") != Some("false");
            match () {
                // Calls of this name must reach the client.
                () if named.iter().flatten().any(|tool| tool.name == NAME) => {
                    Some("the client has a tool of that name")
                }
                // `functions` is OpenAI's older form of tools.
                () if self.request.proxied.non_null_field("functions").is_some() => {
                    Some("the client has functions and no tools")
                }
                () if keeps => Some("the model's server keeps the conversation"),
                () if self.request.limits.tools == FeatureSupport::No => Some("the model takes no tools"),
                () => None,
            }
        })
    }

    /// Returns the reason for a request without the tool.
    fn not_now(&self) -> Option<&'static str> {
        let exchange = &self.request.proxied;
        let envelope = &exchange.envelope;
        let last = envelope.items.len().checked_sub(1).map(|last| envelope.item(last));
        let last = last.and_then(fields).and_then(|item| string(field(&item, "role")?));
        match self.request.tool_choice() {
            Ok(ToolChoice::Auto) => {}
            Ok(ToolChoice::None) => return Some("the request forbids tools"),
            _ => return Some("the request says which tool is called"),
        }
        match () {
            () if exchange.non_null_field("n").is_some_and(|n| n != "1") => {
                Some("several answers are asked for")
            }
            () if exchange.non_null_field("background") == Some("true") => {
                Some("the answer is made in the background")
            }
            // The model would have to go on with the client's words, and a call would tear them.
            () if last.as_deref() == Some("assistant") => Some("the client has begun the answer"),
            () => None,
        }
    }

    /// Returns the tokens of system prompt and tools, with `recall` if the conversation has edits and gets the
    /// tool.
    pub(super) fn fixed_tokens(&self, state: &ConversationState) -> u64 {
        let fixed = state.fixed.as_ref().map_or(0, |(_, tokens)| *tokens);
        let counter = state.log.history.counter();
        let has_tool = !state.log.history.edits().is_empty() && self.may_recall() && self.not_now().is_none();
        let tool = if has_tool { counter.tool(&spec()) } else { 0 };
        fixed + tool
    }
}
