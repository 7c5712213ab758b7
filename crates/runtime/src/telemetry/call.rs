//! A model call in progress, its repetitions included, because the conventions count one operation.

use std::time::{Duration, Instant};

use longhaul_core::message::{ModelAnswer, ModelOrigin, ModelStopReason, RawJson};
use longhaul_core::usage::Usage;

use super::export::TelemetryExporter;
use super::span::{AttributeValue, OperationKind, OperationSpan};
use super::{content, identifier, names};

/// The span of a model call in progress.
#[derive(Debug)]
pub(super) struct ModelCallSpan {
    pub(super) open: OperationSpan,
    kind: OperationKind,
    origin: ModelOrigin,
    sent: Instant,
    first_chunk: Option<Duration>,
    retries: u64,
    usage: Option<Usage>,
    finish: Option<ModelStopReason>,
    response_id: Option<String>,
    response_model: Option<String>,
    /// The answer as JSON, if content is captured.
    output: Option<String>,
}

/// The values that the metrics of one call are made of.
#[derive(Debug)]
#[cfg_attr(
    not(feature = "telemetry"),
    expect(dead_code, reason = "without the feature the values are not read")
)]
pub(super) struct ModelCallMetrics<'a> {
    pub(super) kind: OperationKind,
    pub(super) provider: &'a str,
    /// The requested model. A server's own name for it could create any number of time series.
    pub(super) model: &'a str,
    pub(super) error: Option<&'a str>,
    pub(super) seconds: f64,
    pub(super) seconds_to_first_chunk: Option<f64>,
    pub(super) usage: Option<&'a Usage>,
}

impl ModelCallSpan {
    pub(super) fn new(open: OperationSpan, kind: OperationKind, purpose: &str, origin: &ModelOrigin) -> Self {
        describe_model(&open, origin);
        open.set(names::PURPOSE, purpose);
        Self {
            open,
            kind,
            origin: origin.clone(),
            sent: Instant::now(),
            first_chunk: None,
            retries: 0,
            usage: None,
            finish: None,
            response_id: None,
            response_model: None,
            output: None,
        }
    }

    /// Reports whether the call asks for an answer and not for a count.
    pub(super) fn is_chat(&self) -> bool {
        self.kind == OperationKind::Chat
    }

    /// Notes that the same request will be sent again as number `attempt`. The call has not failed yet.
    // A repetition clears the failed attempt: the span reports the outcome of the last one.
    pub(super) fn retried(&mut self, attempt: u32) {
        self.open.forgive();
        self.retries = attempt.into();
        self.finish = None;
    }

    pub(super) fn sent_again(&mut self) {
        self.sent = Instant::now();
        self.first_chunk = None;
    }

    pub(super) fn began(&mut self) {
        self.first_chunk.get_or_insert_with(|| self.sent.elapsed());
    }

    pub(super) fn answered(&mut self, answer: &ModelAnswer, wants_content: bool) {
        self.used(answer.usage.as_ref());
        self.finish = Some(answer.finish);
        (self.response_id, self.response_model) =
            answer_identifiers(answer.envelope.as_ref(), &self.origin.model);
        self.output = wants_content.then(|| content::answer(answer));
    }

    /// Stores the usage that the provider reported. The newest report counts.
    pub(super) fn used(&mut self, usage: Option<&Usage>) {
        if let Some(usage) = usage {
            self.usage = Some(usage.clone());
        }
    }

    /// Ends the span. Attributes that may change during the call are set only now, because each name is set once.
    pub(super) fn end(mut self, exporting: Option<&TelemetryExporter>) {
        self.describe_answer();
        if let Some(exporting) = exporting {
            exporting.count_call(&ModelCallMetrics {
                kind: self.kind,
                provider: names::provider(&self.origin.provider),
                model: &self.origin.model,
                error: self.open.error(),
                seconds: self.open.elapsed().as_secs_f64(),
                seconds_to_first_chunk: self.first_chunk.map(|time| time.as_secs_f64()),
                usage: self.usage.as_ref(),
            });
        }
        self.open.end();
    }

    fn describe_answer(&mut self) {
        let open = &self.open;
        if let Some(time) = self.first_chunk {
            open.set(names::TIME_TO_FIRST_CHUNK, AttributeValue::Seconds(time.as_secs_f64()));
        }
        if self.retries > 0 {
            open.set(names::RETRIES, self.retries);
        }
        if let Some(usage) = &self.usage {
            describe_usage(open, usage);
        }
        if self.is_chat() {
            let finish = self.finish.filter(|_| open.error().is_none());
            open.set(names::FINISH_REASONS, AttributeValue::Words(vec![finish.map_or("error", reason)]));
        }
        for (name, said) in
            [(names::RESPONSE_ID, &self.response_id), (names::RESPONSE_MODEL, &self.response_model)]
        {
            if let Some(said) = said {
                open.set(name, said.as_str());
            }
        }
        if let Some(output) = self.output.take() {
            open.quote(names::OUTPUT_MESSAGES, output);
        }
    }
}

/// Sets the attributes of the model, under the current and the earlier names.
pub(super) fn describe_model(open: &OperationSpan, origin: &ModelOrigin) {
    let provider = names::provider(&origin.provider);
    open.set(names::PROVIDER, provider);
    open.set(names::SYSTEM, provider);
    open.set(names::REQUEST_MODEL, origin.model.as_str());
    open.set(names::LLM_PROVIDER, origin.provider.as_str());
    open.set(names::LLM_MODEL, origin.model.as_str());
}

/// Sets the attributes of usage. The parts of input and output are set only if they are not zero.
pub(super) fn describe_usage(open: &OperationSpan, usage: &Usage) {
    open.set(names::INPUT_TOKENS, usage.input_tokens);
    open.set(names::OUTPUT_TOKENS, usage.output_tokens);
    let parts = [
        (names::REASONING_TOKENS, usage.reasoning_tokens),
        (names::CACHE_READ_TOKENS, usage.cache_read_tokens),
        (names::CACHE_WRITE_TOKENS, usage.cache_write_tokens),
        (names::CACHE_CREATION_TOKENS, usage.cache_write_tokens),
    ];
    for (name, tokens) in parts.into_iter().filter(|(_, tokens)| *tokens > 0) {
        open.set(name, tokens);
    }
}

/// Returns the conventions' word for a stop reason.
fn reason(finish: ModelStopReason) -> &'static str {
    match finish {
        ModelStopReason::Stop => "stop",
        ModelStopReason::ToolCalls => "tool_call",
        ModelStopReason::Length => "length",
        ModelStopReason::ContentFilter => "content_filter",
        _ => "other",
    }
}

/// Returns the id of an answer and its model, if the server reports them in the form of identifiers.
fn answer_identifiers(envelope: Option<&RawJson>, requested: &str) -> (Option<String>, Option<String>) {
    let parsed = envelope.and_then(|envelope| serde_json::from_str(envelope.as_str()).ok());
    let object: serde_json::Value = parsed.unwrap_or_default();
    let id = first_text(&object, ["id", "responseId"]).and_then(identifier::identifier);
    let model =
        first_text(&object, ["model", "modelVersion"]).and_then(|model| identifier::model(model, requested));
    (id.map(str::to_owned), model.map(str::to_owned))
}

fn first_text<'a>(object: &'a serde_json::Value, names: [&str; 2]) -> Option<&'a str> {
    names.into_iter().find_map(|name| object.get(name)?.as_str())
}
