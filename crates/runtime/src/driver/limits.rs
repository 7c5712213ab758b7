//! The limits that the server reports for its model, requested again at the start of runs: a server may have been
//! restarted with another window.

use std::sync::Arc;
use std::time::Duration;

use longhaul_core::refusal::RefusedPartKind;
use longhaul_core::run::RunLoopInput;
use longhaul_providers::{FeatureSupport, Limits};
use serde_json::json;
use tokio::time::Instant;

use super::{DriverMessage, SessionDriver};
use crate::agent::Agent;
use crate::api_events::ApiEvent;
use crate::clock::now_ms;

/// The time for which a report of the limits stays valid.
const FRESH: Duration = Duration::from_secs(5);

/// The longest wait for the server's report.
const PATIENCE: Duration = Duration::from_secs(3);

impl SessionDriver {
    /// Asks the server at the start of a run, beside it: no call waits for the report, and the call after it has the
    /// limits.
    pub(super) fn look_at_server(&mut self, input: &RunLoopInput) {
        let begins = matches!(input, RunLoopInput::Wake | RunLoopInput::Resume) && self.run.is_idle();
        if begins {
            self.take_learned();
        }
        if !begins || self.asked_at.is_some_and(|asked| asked.elapsed() < FRESH) {
            return;
        }
        self.asked_at = Some(Instant::now());
        let (provider, inbox) = (Arc::clone(&self.agent.provider), self.shared.inbox.clone());
        self.tasks.spawn(async move {
            if let Ok(limits) = tokio::time::timeout(PATIENCE, provider.limits()).await {
                let _ = inbox.send(DriverMessage::Limits(limits));
            }
        });
    }

    /// Adopts the window that another session, or the gateway in front of the same server, has learned since.
    fn take_learned(&mut self) {
        // During a compaction with other settings, the loop's own settings are the ones set aside.
        let settings = self.usual.as_ref().unwrap_or(self.run.settings());
        if settings.model.remembered_window != self.agent.remembered_window() {
            self.set_agent(Arc::clone(&self.agent));
        }
    }

    /// Learns from an error that the model takes no tools: the step is made again without, and so is every later one.
    pub(super) fn learn_tool_support(&mut self, input: &RunLoopInput) {
        let RunLoopInput::ModelFailed { failure, .. } = input else { return };
        if !failure.refuses_tools || !self.agent.takes_tools() {
            return;
        }
        let model = self.agent.provider.origin();
        self.agent.calibrations.learn_no_tools(&model, now_ms());
        let mut agent = Agent::clone(&self.agent);
        // A declaration that the model takes tools is overruled: its server knows better.
        agent.limits.tools = FeatureSupport::No;
        self.set_agent(Arc::new(agent));
        let said = format!(
            "the model `{}` takes no tools and goes on without them ({}). Where that is wrong, start its server with tools \
             or say `models: {{ {}: {{ tools: true }} }}`",
            model.model, failure.message, model.model
        );
        tracing::warn!("{said}");
        let payload = json!({ "error": said, "code": failure.code, "recoverable": true });
        self.publish_event(ApiEvent::passing("llm:error", &self.shared.session_id, payload));
    }

    /// Learns from an error how many pictures the model takes: the next request has no more of them.
    pub(super) fn learn_media_limits(&mut self, mut input: RunLoopInput) -> RunLoopInput {
        let RunLoopInput::ModelFailed { failure, .. } = &mut input else { return input };
        let Some(refusal) = failure.refusal.as_deref_mut() else { return input };
        if refusal.kind != Some(RefusedPartKind::Image) {
            return input;
        }
        let most = if refusal.takes_none { Some(0) } else { refusal.most };
        let Some(most) = most else { return input };
        let model = self.agent.provider.origin();
        let known = self.agent.calibrations.most_images(&model, now_ms());
        if known.is_some_and(|known| known <= most) {
            // The known limit is no higher than the refused one: something else is wrong with the picture.
            return input;
        }
        self.agent.calibrations.learn_most_images(&model, most, now_ms());
        // The loop then repeats the request and leaves no part out: the next request keeps within the limit.
        refusal.is_remedied = true;
        let said = match most {
            0 => format!("the model `{}` does not see pictures and goes on without them", model.model),
            _ => format!("the model `{}` takes at most {most} pictures in one request", model.model),
        };
        tracing::warn!("{said} ({})", failure.message);
        let payload = json!({
            "errors": [format!("{said} ({})", failure.message)],
            "provider": model.provider, "model": model.model, "fileType": "image", "details": {},
        });
        self.publish_event(ApiEvent::passing("llm:unsupported-input", &self.shared.session_id, payload));
        input
    }

    /// Adopts reported limits. A limit that the server no longer reports keeps its earlier value.
    pub(super) fn take_limits(&mut self, said: Limits) {
        let limits = said.or(self.agent.limits);
        if limits == self.agent.limits {
            return;
        }
        tracing::info!(?limits, "the model has other limits now");
        self.set_agent(Arc::new(Agent { limits, ..Agent::clone(&self.agent) }));
    }
}
