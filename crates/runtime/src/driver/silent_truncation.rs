//! Answers with status 200 to a silently shortened request: an overflow in the guise of success.

use longhaul_core::error::ErrorCode;
use longhaul_core::message::{ModelAnswer, Part};
use longhaul_core::plan::Plan;
use longhaul_core::run::{ModelCallFailure, Run, RunLoopInput};
use longhaul_providers::Limits;
use longhaul_wire::overflow::{AnsweredRequestTokens, SuspectedOverflow, suspect};
use serde_json::json;

use super::context::DriverContext;
use crate::api_events::ApiEvent;
use crate::calibration::MissingAbility;
use crate::clock::now_ms;

/// The least credible limit, in tokens. A lower limit, learned from the kept part of a request, is more likely an
/// incomplete count.
const LEAST_LIMIT_TOKENS: u64 = 2_000;

/// The number of suspected answers before the server's counts are set aside for the session.
const MAX_SUSPICIONS: u32 = 2;

/// The detector of answers to silently cut requests, with the trust in the server's counts.
#[derive(Debug, Default)]
pub(super) struct TruncationDetector {
    /// True if the newest answer was taken for an overflow.
    was_suspected: bool,
    /// The number of answers taken for an overflow.
    suspicions: u32,
    /// True if the server's counts regularly leave something out.
    counts_are_partial: bool,
    has_published_cut: bool,
    has_published_usage: bool,
}

impl TruncationDetector {
    /// Trusts the counts of another model's server again.
    pub(super) fn reset(&mut self) {
        self.was_suspected = false;
        self.suspicions = 0;
        // The flags of published notices stay set: a user is notified once per session, not once per model.
        self.counts_are_partial = false;
    }

    /// Treats an answer to a silently cut request as an overflow, once. If the next answer is no better, the server's
    /// reports are unreliable, and are ignored from then on.
    pub(super) fn check(&mut self, context: &DriverContext, input: RunLoopInput) -> RunLoopInput {
        let RunLoopInput::ModelAnswered(answer) = &input else { return input };
        let agent = &context.agent;
        let is_unreliable = self.counts_are_partial
            || context.run.history().usage_is_unreliable()
            || agent.calibrations.lacks(&agent.provider.origin(), MissingAbility::WholeCounts, now_ms());
        // Without compaction no room can be made, so a repetition would meet the same cut.
        if is_unreliable || !context.run.settings().policy.enabled {
            return input;
        }
        let Some(suspicion) = find_suspicion(&context.run, &context.agent.limits, answer) else {
            // A whole answer after a suspicion shows that the repetition helped, so the next suspicion is believed
            // again.
            self.was_suspected = false;
            return input;
        };
        if !can_make_room(&context.run) {
            self.publish_suspected_overflow(context, suspicion);
            return input;
        }
        // A server that cuts requests is caught once for each window it has had: then its limit is learned.
        let is_caught_often = self.suspicions >= MAX_SUSPICIONS;
        let was_in_vain = std::mem::replace(&mut self.was_suspected, true);
        if was_in_vain {
            // Without the note every later session would send one request that is refused.
            agent.calibrations.learn_missing(&agent.provider.origin(), MissingAbility::WholeCounts, now_ms());
        }
        if was_in_vain || is_caught_often {
            tracing::warn!(
                suspicions = self.suspicions,
                "the server's counts leave out part of the request, so they are no longer taken as a sign \
                 of a cut"
            );
            self.counts_are_partial = true;
            return input;
        }
        self.suspicions += 1;
        tracing::warn!(
            "{}; older messages leave the view, and the model is asked again",
            in_words(suspicion)
        );
        let RunLoopInput::ModelAnswered(answer) = input else { return input };
        RunLoopInput::ModelFailed { failure: failure(suspicion, &answer), partial: answer.parts }
    }

    /// Reports a suspected overflow to people, once: no older message can make room.
    fn publish_suspected_overflow(&mut self, context: &DriverContext, suspicion: SuspectedOverflow) {
        if std::mem::replace(&mut self.has_published_cut, true) {
            return;
        }
        let text = format!(
            "{}; the answer may rest on a part only. Give the model a larger context at its server, or send less at \
             once: nothing older is left to make room",
            in_words(suspicion)
        );
        tracing::warn!("{text}");
        let payload = json!({ "error": text, "code": ErrorCode::ContextOverflow, "recoverable": true });
        context.publish(ApiEvent::passing("llm:error", context.session_id(), payload));
    }

    /// Reports once the distrust of the server's usage reports.
    pub(super) fn publish_unreliable_usage(&mut self, context: &DriverContext) {
        let is_unreliable = context.run.history().usage_is_unreliable();
        if !is_unreliable || std::mem::replace(&mut self.has_published_usage, true) {
            return;
        }
        let text = "usage: unreliable. The server's usage reports do not follow the requests and are set aside: input is \
                    estimated from here on, and nothing is left out because of them";
        tracing::warn!("{text}");
        let payload = json!({ "error": text, "code": ErrorCode::ThirdParty, "recoverable": true });
        context.publish(ApiEvent::passing("llm:error", context.session_id(), payload));
    }
}

/// Reports whether older messages can be left out: if not, a second call would repeat the first.
fn can_make_room(run: &Run) -> bool {
    matches!(run.preview(None), Plan::Edit(_) | Plan::Summarise(_))
}

fn find_suspicion(run: &Run, limits: &Limits, answer: &ModelAnswer) -> Option<SuspectedOverflow> {
    let mut sent = sent_tokens(run, limits);
    // The next sum walks over the whole view, so it is made only after a first suspicion.
    suspect(&sent, answer)?;
    let parts = run.history().breakdown();
    sent.may_be_left_out = ["reasoning", "media"].iter().filter_map(|kind| parts.get(kind)).sum();
    suspect(&sent, answer).filter(|suspicion| {
        // An answer that stopped at its length limit is usable: the next step makes room.
        !matches!(suspicion, SuspectedOverflow::WindowFull { .. }) || !says_something(answer)
    })
}

fn sent_tokens(run: &Run, limits: &Limits) -> AnsweredRequestTokens {
    let (reading, history) = (run.meter(), run.history());
    let calling = history.open_run().and_then(|run| run.calling.as_ref());
    AnsweredRequestTokens {
        counted_before: reading.reported,
        estimated: reading.estimated,
        last_input: history.anchor().map_or(0, |anchor| anchor.input),
        has_grown: history.reports_grow(),
        may_be_left_out: 0,
        margin: reading.margin,
        window: limits.window,
        source: limits.source,
        max_output: calling.map(|start| start.max_output_tokens),
    }
}

fn says_something(answer: &ModelAnswer) -> bool {
    answer.parts.iter().any(|part| match part {
        Part::Text(text) => !text.text.trim().is_empty(),
        Part::ToolCall(_) => true,
        _ => false,
    })
}

fn failure(suspicion: SuspectedOverflow, answer: &ModelAnswer) -> ModelCallFailure {
    let limit = suspicion.overflow().limit_tokens.filter(|limit| *limit >= LEAST_LIMIT_TOKENS);
    ModelCallFailure {
        limit_tokens: limit,
        usage: answer.usage.clone(),
        ..ModelCallFailure::new(ErrorCode::ContextOverflow, in_words(suspicion), false)
    }
}

fn in_words(suspicion: SuspectedOverflow) -> String {
    match suspicion {
        SuspectedOverflow::SilentlyTruncated { reported, counted } => {
            format!("the server read {reported} of about {counted} tokens: it cut the request in silence")
        }
        SuspectedOverflow::WindowFull { .. } => "the window was full before there was an answer".to_owned(),
        _ => "no answer came to a request that fills the window".to_owned(),
    }
}
