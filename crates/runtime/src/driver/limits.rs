//! The server's limits for the model, requested again at the start of runs: a server may have been restarted with
//! another window.

use std::sync::Arc;
use std::time::Duration;

use longhaul_core::refusal::{PartRefusal, PictureSizeLimits, RefusedPartKind};
use longhaul_core::run::RunLoopInput;
use longhaul_providers::{FeatureSupport, LimitSource, Limits};
use serde_json::{Map, Value, json};
use tokio::time::Instant;
use tracing::Instrument as _;

use super::DriverMessage;
use super::context::DriverContext;
use crate::agent::Agent;
use crate::api_events::ApiEvent;
use crate::calibration::MissingAbility;
use crate::clock::now_ms;
use crate::picture::PictureLimits;

/// The time for which a report of the limits stays valid.
const FRESH: Duration = Duration::from_secs(5);

/// The longest wait for the server's report.
const PATIENCE: Duration = Duration::from_secs(3);

/// The requests for a server's limits.
#[derive(Debug, Default)]
pub(super) struct LimitsProbe {
    /// The time at which the server was asked.
    asked_at: Option<Instant>,
}

impl LimitsProbe {
    /// Asks the server at the start of a run, beside the run: no call waits for the report, and the next call has the
    /// limits.
    pub(super) fn ask_at_start(&mut self, context: &mut DriverContext, input: &RunLoopInput) {
        let begins = matches!(input, RunLoopInput::Wake | RunLoopInput::Resume) && context.run.is_idle();
        if begins {
            // Learned facts are in memory, so the pause between two questions to the server does not apply to them.
            adopt_learned_facts(context);
        }
        if !begins || self.asked_at.is_some_and(|asked| asked.elapsed() < FRESH) {
            return;
        }
        // The time is noted before the report arrives, so that a slow server is not asked twice at once.
        self.asked_at = Some(Instant::now());
        let (provider, inbox) = (Arc::clone(&context.agent.provider), context.shared.inbox.clone());
        let asking = async move {
            match tokio::time::timeout(PATIENCE, provider.limits()).await {
                Ok(limits) => drop(inbox.send(DriverMessage::Limits(limits))),
                Err(_) => tracing::debug!(
                    patience = ?PATIENCE,
                    "the server did not report its limits in time; the known ones stay"
                ),
            }
        };
        context.tasks.spawn(asking.in_current_span());
    }

    /// Forgets the age of the limits: another model's server has other limits.
    pub(super) fn reset(&mut self) {
        self.asked_at = None;
    }
}

/// Adopts the facts learned meanwhile by another session, or by the gateway in front of the same server.
fn adopt_learned_facts(context: &mut DriverContext) {
    let (window, prefill) = (context.agent.remembered_window(), context.agent.continues_answers());
    let known = &context.lasting_settings().model;
    if (known.remembered_window, known.prefill) != (window, prefill) {
        tracing::info!(?window, prefill, "facts of the model were learned elsewhere and are adopted");
        // The same agent is bound again, because binding computes the settings again, with the learned window.
        context.set_agent(Arc::clone(&context.agent));
    }
}

/// Keeps a run's findings about the model for other sessions: the calibration, the window and missing abilities.
pub(super) fn remember_model(context: &DriverContext) {
    let (agent, run) = (&context.agent, &context.run);
    let model = agent.provider.origin();
    let history = run.history();
    agent.calibrations.learn(&model, history.counter().name(), history.calibration());
    if history.refused_to_go_on() {
        agent.calibrations.learn_missing(&model, MissingAbility::Prefill, now_ms());
    }
    // A history that was told beforehand has found nothing out itself.
    if history.usage_is_unreliable() && !history.counter().has_unreliable_usage() {
        agent.calibrations.learn_missing(&model, MissingAbility::ReliableUsage, now_ms());
    }
    let learned = run.learned_window();
    // A window that a person or the server states is no finding of this session.
    let is_known = matches!(agent.limits.source, LimitSource::Declared | LimitSource::Server);
    // A session that learned nothing must not delete what other sessions learned.
    if !is_known && learned != run.settings().model.remembered_window {
        tracing::info!(model = model.model, window = ?learned, "the model's window was learned");
        agent.calibrations.learn_window(&model, learned);
    }
}

/// Learns of a model without tools from an error: the step and every later step are made without tools.
pub(super) fn learn_tool_support(context: &mut DriverContext, input: &RunLoopInput) {
    let RunLoopInput::ModelFailed { failure, .. } = input else { return };
    // A model that is known to take no tools was sent none, so there is nothing to learn.
    if !failure.refuses_tools || !context.agent.takes_tools() {
        return;
    }
    let model = context.agent.provider.origin();
    context.agent.calibrations.learn_no_tools(&model, now_ms());
    let mut agent = Agent::clone(&context.agent);
    // A declaration that the model takes tools is overruled: its server knows better.
    agent.limits.tools = FeatureSupport::No;
    context.set_agent(Arc::new(agent));
    let text = format!(
        "the model `{}` takes no tools and goes on without them ({}). Where that is wrong, start its server with tools \
         or say `models: {{ {}: {{ tools: true }} }}`",
        model.model, failure.message, model.model
    );
    tracing::warn!("{text}");
    let payload = json!({ "error": text, "code": failure.code, "recoverable": true });
    context.publish(ApiEvent::passing("llm:error", context.session_id(), payload));
}

/// Learns the maximum number or size of pictures from an error: the next request keeps within it.
pub(super) fn learn_media_limits(context: &DriverContext, mut input: RunLoopInput) -> RunLoopInput {
    let RunLoopInput::ModelFailed { failure, .. } = &mut input else { return input };
    let Some(refusal) = failure.refusal.as_deref_mut() else { return input };
    // Only pictures have a limit to learn. Other refused parts are left out by the loop (decision 0045).
    if refusal.kind != Some(RefusedPartKind::Image) {
        return input;
    }
    let most = if refusal.takes_none { Some(0) } else { refusal.most };
    let (agent, model) = (&context.agent, context.agent.provider.origin());
    let learned = most.and_then(|most| learn_image_count(agent, most));
    let Some(text) = learned.or_else(|| learn_picture_size(agent, refusal.size)) else { return input };
    // The loop then repeats the request and leaves no part out: the next request keeps within the limit.
    refusal.is_remedied = true;
    tracing::warn!("{text} ({})", failure.message);
    let payload = json!({
        "errors": [format!("{text} ({})", failure.message)],
        "provider": model.provider, "model": model.model, "fileType": "image", "details": {},
    });
    context.publish(ApiEvent::passing("llm:unsupported-input", context.session_id(), payload));
    input
}

/// Learns the maximum number of pictures in a request. Returns the news for a person; `None` if the known limit is no
/// higher, so that something else is wrong with the picture.
fn learn_image_count(agent: &Agent, most: u32) -> Option<String> {
    let model = agent.provider.origin();
    let known = agent.calibrations.most_images(&model, now_ms());
    if known.is_some_and(|known| known <= most) {
        return None;
    }
    agent.calibrations.learn_most_images(&model, most, now_ms());
    Some(match most {
        0 => format!("the model `{}` does not see pictures and goes on without them", model.model),
        _ => format!("the model `{}` takes at most {most} pictures in one request", model.model),
    })
}

/// Learns the maximum size of a picture. Returns the news for a person; `None` if pictures were within the limit already,
/// so that something else is wrong with them.
fn learn_picture_size(agent: &Agent, stated: PictureSizeLimits) -> Option<String> {
    let model = agent.provider.origin();
    // The error may state the lower limit of requests with many pictures. It is kept for all requests, because the
    // servers that have such a limit scale larger pictures down anyway.
    let known =
        PictureLimits::of_wire(&model.api, 1).within(agent.calibrations.picture_size(&model, now_ms()));
    if known.within(stated) == known {
        return None;
    }
    agent.calibrations.learn_picture_size(&model, stated, now_ms());
    Some(format!(
        "the model `{}` takes pictures of at most {stated}; larger ones are scaled down",
        model.model
    ))
}

/// Learns the model's own output limit from an error: the step and every later request ask for no more.
pub(super) fn learn_output_limit(context: &mut DriverContext, mut input: RunLoopInput) -> RunLoopInput {
    let RunLoopInput::ModelFailed { failure, .. } = &mut input else { return input };
    let Some(limit) = failure.output_limit else { return input };
    let model = context.agent.provider.origin();
    // The request asked for no more, so the error is about something else.
    if context.agent.max_output().is_some_and(|known| known <= limit) {
        return input;
    }
    context.agent.calibrations.learn_output_limit(&model, limit, now_ms());
    // The same agent is bound again, because binding computes the settings again, with the learned limit.
    context.set_agent(Arc::clone(&context.agent));
    failure.refusal = Some(Box::new(PartRefusal { is_remedied: true, ..PartRefusal::default() }));
    failure.refused_parameter = None;
    let text = format!(
        "the model `{}` writes at most {limit} tokens in one answer, and requests ask for no more ({}). \
         `model.max_output_tokens: {limit}` says so from the start",
        model.model, failure.message
    );
    tracing::warn!("{text}");
    let payload = json!({ "error": text, "code": failure.code, "recoverable": true });
    context.publish(ApiEvent::passing("llm:error", context.session_id(), payload));
    input
}

/// Learns of a parameter that the model's server refuses: the step and every later request are made without it.
pub(super) fn learn_refused_parameter(context: &DriverContext, mut input: RunLoopInput) -> RunLoopInput {
    let RunLoopInput::ModelFailed { failure, .. } = &mut input else { return input };
    let Some(name) = failure.refused_parameter.clone() else { return input };
    let (agent, model) = (&context.agent, context.agent.provider.origin());
    let known = agent.calibrations.refused_parameters(&model, now_ms());
    // The request was sent without the parameter, so the error is about something else.
    if known.contains(&name) || !can_go_without(&model.api, &name) {
        return input;
    }
    agent.calibrations.learn_refused_parameter(&model, &name, now_ms());
    // The loop then repeats the request and leaves nothing of the conversation out.
    failure.refusal = Some(Box::new(PartRefusal { is_remedied: true, ..PartRefusal::default() }));
    let text = format!(
        "the server of `{}` refuses the parameter `{name}`, and requests go on without it ({}). `body: {{ {name}: null }}` \
         in the model's settings leaves it out from the start",
        model.model, failure.message
    );
    tracing::warn!("{text}");
    let payload = json!({ "error": text, "code": failure.code, "recoverable": true });
    context.publish(ApiEvent::passing("llm:error", context.session_id(), payload));
    input
}

/// Returns whether a request without the parameter is valid: Anthropic requires an output limit.
fn can_go_without(api: &str, name: &str) -> bool {
    (api, name) != ("anthropic-messages", "max_tokens")
}

/// Returns the fields that remove the parameters which the agent's model refuses from a request.
pub(super) fn fields_without_refused(agent: &Agent, max_output_tokens: u64) -> Map<String, Value> {
    let model = agent.provider.origin();
    let refused = agent.calibrations.refused_parameters(&model, now_ms());
    let mut fields: Map<String, Value> = refused.iter().map(|name| (name.clone(), Value::Null)).collect();
    // OpenAI has renamed the output limit. Servers of its wire take one name or the other.
    let names = ["max_tokens", "max_completion_tokens"];
    for (name, other) in [(names[0], names[1]), (names[1], names[0])] {
        if model.api == "openai-chat" && fields.contains_key(name) && !fields.contains_key(other) {
            fields.insert(other.to_owned(), max_output_tokens.into());
            break;
        }
    }
    fields
}

/// Adopts reported limits. A limit missing in the report keeps the earlier value.
pub(super) fn adopt_limits(context: &mut DriverContext, reported: Limits) {
    let limits = reported.or(context.agent.limits);
    if limits == context.agent.limits {
        return;
    }
    tracing::info!(?limits, "the model has other limits now");
    context.set_agent(Arc::new(Agent { limits, ..Agent::clone(&context.agent) }));
}
