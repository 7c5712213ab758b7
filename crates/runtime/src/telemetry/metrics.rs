//! Metrics, with the conventions' buckets where the conventions state some. Where an instrument has replaced one of
//! v1.41.0, both are kept.

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Histogram, Meter};

use super::call::ModelCallMetrics;
use super::names;
use super::span::OperationKind;

const TOKEN_BUCKETS: [f64; 14] = [
    1.0,
    4.0,
    16.0,
    64.0,
    256.0,
    1_024.0,
    4_096.0,
    16_384.0,
    65_536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
    67_108_864.0,
];

/// The buckets for the duration of a model call and of a tool call.
const SECONDS_BUCKETS: [f64; 14] =
    [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];

const RUN_SECONDS_BUCKETS: [f64; 13] =
    [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 102.4, 204.8, 409.6];

const FIRST_CHUNK_BUCKETS: [f64; 16] =
    [0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0];

/// The buckets for the number of model calls and tool calls in one run.
const TIMES_BUCKETS: [f64; 8] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0];

#[derive(Debug)]
pub(super) struct MetricInstruments {
    inference_seconds: Histogram<f64>,
    /// The name before [`Self::inference_seconds`], which still holds calls that ask for no answer.
    operation_seconds: Histogram<f64>,
    first_chunk: Histogram<f64>,
    first_chunk_before: Histogram<f64>,
    input_tokens: Histogram<u64>,
    output_tokens: Histogram<u64>,
    /// The earlier name of the two histograms above and the counters.
    tokens_before: Histogram<u64>,
    used: [Counter<u64>; 5],
    tool_seconds: Histogram<f64>,
    run_seconds: Histogram<f64>,
    run_calls: Histogram<u64>,
    run_tools: Histogram<u64>,
}

fn seconds(meter: &Meter, name: &'static str, buckets: &[f64]) -> Histogram<f64> {
    meter.f64_histogram(name).with_unit("s").with_boundaries(buckets.to_vec()).build()
}

fn amounts(meter: &Meter, name: &'static str, unit: &'static str, buckets: &[f64]) -> Histogram<u64> {
    meter.u64_histogram(name).with_unit(unit).with_boundaries(buckets.to_vec()).build()
}

fn used_tokens(meter: &Meter, name: &'static str) -> Counter<u64> {
    meter.u64_counter(name).with_unit("{token}").build()
}

impl MetricInstruments {
    pub(super) fn new(meter: &Meter) -> Self {
        Self {
            inference_seconds: seconds(meter, "gen_ai.client.inference.duration", &SECONDS_BUCKETS),
            operation_seconds: seconds(meter, "gen_ai.client.operation.duration", &SECONDS_BUCKETS),
            first_chunk: seconds(meter, "gen_ai.client.inference.time_to_first_chunk", &FIRST_CHUNK_BUCKETS),
            first_chunk_before: seconds(
                meter,
                "gen_ai.client.operation.time_to_first_chunk",
                &FIRST_CHUNK_BUCKETS,
            ),
            input_tokens: amounts(
                meter,
                "gen_ai.client.inference.operation.input_tokens",
                "{token}",
                &TOKEN_BUCKETS,
            ),
            output_tokens: amounts(
                meter,
                "gen_ai.client.inference.operation.output_tokens",
                "{token}",
                &TOKEN_BUCKETS,
            ),
            tokens_before: amounts(meter, "gen_ai.client.token.usage", "{token}", &TOKEN_BUCKETS),
            used: [
                used_tokens(meter, "gen_ai.client.inference.usage.input_tokens"),
                used_tokens(meter, "gen_ai.client.inference.usage.output_tokens"),
                used_tokens(meter, "gen_ai.client.inference.usage.cache_read.input_tokens"),
                used_tokens(meter, "gen_ai.client.inference.usage.cache_write.input_tokens"),
                used_tokens(meter, "gen_ai.client.inference.usage.reasoning.output_tokens"),
            ],
            tool_seconds: seconds(meter, "gen_ai.execute_tool.duration", &SECONDS_BUCKETS),
            run_seconds: seconds(meter, "gen_ai.invoke_agent.duration", &RUN_SECONDS_BUCKETS),
            run_calls: amounts(
                meter,
                "gen_ai.invoke_agent.inference_calls",
                "{inference_call}",
                &TIMES_BUCKETS,
            ),
            run_tools: amounts(meter, "gen_ai.invoke_agent.tool_calls", "{tool_call}", &TIMES_BUCKETS),
        }
    }

    pub(super) fn call(&self, figures: &ModelCallMetrics<'_>) {
        let mut about = vec![
            KeyValue::new(names::OPERATION, figures.kind.as_str()),
            KeyValue::new(names::PROVIDER, figures.provider.to_owned()),
            // Not the model of the answer: a server would then decide how many time series there are (decision 15).
            KeyValue::new(names::REQUEST_MODEL, figures.model.to_owned()),
        ];
        self.tokens(figures, &about);
        if let Some(seconds) = figures.seconds_to_first_chunk {
            self.first_chunk.record(seconds, &about);
            self.first_chunk_before.record(seconds, &about);
        }
        about.extend(failed(figures.error));
        self.operation_seconds.record(figures.seconds, &about);
        if figures.kind == OperationKind::Chat {
            self.inference_seconds.record(figures.seconds, &about);
        }
    }

    fn tokens(&self, figures: &ModelCallMetrics<'_>, about: &[KeyValue]) {
        // Zeros in place of a missing report would lower every average.
        let Some(usage) = figures.usage else { return };
        self.input_tokens.record(usage.input_tokens, about);
        self.output_tokens.record(usage.output_tokens, about);
        for (kind, tokens) in [("input", usage.input_tokens), ("output", usage.output_tokens)] {
            self.tokens_before.record(tokens, &with(about, "gen_ai.token.type", kind));
        }
        let amounts = [
            usage.input_tokens,
            usage.output_tokens,
            usage.cache_read_tokens,
            usage.cache_write_tokens,
            usage.reasoning_tokens,
        ];
        // Providers report tokens of text and of pictures in one sum.
        let about = with(about, "gen_ai.token.modality", "unknown");
        for (counter, tokens) in self.used.iter().zip(amounts).filter(|(_, tokens)| *tokens > 0) {
            counter.add(tokens, &about);
        }
    }

    pub(super) fn tool(&self, agent: Option<&str>, name: &str, seconds: f64, error: Option<&str>) {
        let mut about = vec![
            KeyValue::new(names::TOOL_NAME, name.to_owned()),
            KeyValue::new(names::TOOL_TYPE, "function"),
        ];
        about.extend(named(agent));
        about.extend(failed(error));
        self.tool_seconds.record(seconds, &about);
    }

    pub(super) fn run(&self, agent: Option<&str>, seconds: f64, calls: u64, tools: u64, error: Option<&str>) {
        let mut about: Vec<KeyValue> = named(agent).into_iter().collect();
        self.run_calls.record(calls, &about);
        self.run_tools.record(tools, &about);
        about.extend(failed(error));
        self.run_seconds.record(seconds, &about);
    }
}

fn with(about: &[KeyValue], name: &'static str, value: &'static str) -> Vec<KeyValue> {
    let mut all = about.to_vec();
    all.push(KeyValue::new(name, value));
    all
}

fn named(agent: Option<&str>) -> Option<KeyValue> {
    agent.map(|agent| KeyValue::new(names::AGENT_NAME, agent.to_owned()))
}

fn failed(error: Option<&str>) -> Option<KeyValue> {
    error.map(|error| KeyValue::new(names::ERROR_TYPE, error.to_owned()))
}
