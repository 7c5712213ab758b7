//! What is told of runs: spans, metrics, and nothing of what was said.

mod collector;
mod echo;
mod listener;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use longhaul::agent::Agent;
use longhaul::telemetry::{ContentCapture, Telemetry};
use longhaul::testing::TemporaryFolder;
use longhaul::tools::{Tool, ToolInput, ToolOutput};
use longhaul_core::event::RunEnd;
use longhaul_core::message::{Part, RawJson, ToolSpec};
use longhaul_core::run::RunStatus;
use longhaul_providers::ModelRequest;
use longhaul_providers::scripted::{
    ModelScript, ScriptedAnswer, ScriptedFault, ScriptedProvider, ScriptedSummaries,
};
use longhaul_testkit::TestSession;
use opentelemetry::baggage::BaggageExt as _;
use opentelemetry::trace::{SpanId, SpanKind, Status as SpanStatus, TraceContextExt as _};
use opentelemetry::{Context, Value};
use opentelemetry_sdk::metrics::data::{AggregatedMetrics, MetricData};
use opentelemetry_sdk::metrics::{InMemoryMetricExporter, SdkMeterProvider};
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};

struct ObservedSession {
    test: TestSession,
    spans: InMemorySpanExporter,
    meters: SdkMeterProvider,
    metrics: InMemoryMetricExporter,
    /// Keeps the exporter from being shut down.
    _tracers: SdkTracerProvider,
}

async fn world(
    model: ScriptedProvider,
    content: ContentCapture,
    change: impl FnOnce(&mut Agent),
) -> ObservedSession {
    let (spans, metrics) = (InMemorySpanExporter::default(), InMemoryMetricExporter::default());
    let tracers = SdkTracerProvider::builder().with_simple_exporter(spans.clone()).build();
    let meters = SdkMeterProvider::builder().with_periodic_exporter(metrics.clone()).build();
    let prepare = |agent: &mut Agent, _: &TemporaryFolder| {
        agent.telemetry = Telemetry::new(&tracers, &meters, content).named("scribe");
        change(agent);
    };
    let test = TestSession::with_agent(model.model("heron-1"), prepare).await;
    ObservedSession { test, spans, meters, metrics, _tracers: tracers }
}

impl ObservedSession {
    fn spans(&self) -> Vec<SpanData> {
        self.spans.get_finished_spans().unwrap()
    }

    fn named(&self, name: &str) -> Vec<SpanData> {
        self.spans().into_iter().filter(|span| span.name == name).collect()
    }

    fn one(&self, name: &str) -> SpanData {
        let mut found = self.named(name);
        assert_eq!(found.len(), 1, "{name} in {:?}", self.tree());
        found.remove(0)
    }

    /// Every span below its parent, in the order of their beginning.
    fn tree(&self) -> Vec<String> {
        let mut spans = self.spans();
        spans.sort_by_key(|span| span.start_time);
        let mut lines = Vec::new();
        below(SpanId::INVALID, 0, &spans, &mut lines);
        lines
    }

    /// Everything that was exported, as text.
    fn exported(&self) -> String {
        self.meters.force_flush().unwrap();
        format!("{:?}{:?}", self.spans(), self.metrics.get_finished_metrics().unwrap())
    }
}

fn below(parent: SpanId, depth: usize, spans: &[SpanData], lines: &mut Vec<String>) {
    for span in spans.iter().filter(|span| span.parent_span_id == parent) {
        lines.push(format!("{}{}", "  ".repeat(depth), span.name));
        below(span.span_context.span_id(), depth + 1, spans, lines);
    }
}

fn attribute(span: &SpanData, name: &str) -> Option<Value> {
    let mut found = span.attributes.iter().filter(|attribute| attribute.key.as_str() == name);
    let value = found.next().map(|attribute| attribute.value.clone());
    assert!(found.next().is_none(), "{name} twice in {span:?}");
    value
}

fn text(span: &SpanData, name: &str) -> String {
    attribute(span, name).map(|value| value.to_string()).unwrap_or_default()
}

fn number(span: &SpanData, name: &str) -> i64 {
    match attribute(span, name) {
        Some(Value::I64(number)) => number,
        other => panic!("{name} is {other:?}"),
    }
}

fn writes_once() -> ScriptedProvider {
    ScriptedProvider::new(ModelScript::turns([
        ScriptedAnswer::text("Zebra writes.").call("write", r#"{"path":"osprey.txt","content":"quagga"}"#),
        ScriptedAnswer::text("Zebra is done."),
    ]))
}

#[tokio::test]
async fn a_run_is_a_tree_of_calls_and_tools() {
    let world = world(writes_once(), ContentCapture::LeftOut, |_| {}).await;
    assert_eq!(world.test.session.ask("Write it.").await.unwrap().end, Some(RunEnd::Stop));
    assert_eq!(
        world.tree(),
        ["invoke_agent scribe", "  chat heron-1", "  execute_tool write", "  chat heron-1"]
    );
    let turn = world.one("invoke_agent scribe");
    assert_eq!(turn.span_kind, SpanKind::Internal);
    assert_eq!(turn.status, SpanStatus::Unset);
    assert_eq!(text(&turn, "longhaul.run.end"), "stop");
    assert_eq!(text(&turn, "gen_ai.agent.name"), "scribe");
    let tool = world.one("execute_tool write");
    assert_eq!(tool.span_kind, SpanKind::Internal);
    assert_eq!(text(&tool, "gen_ai.operation.name"), "execute_tool");
    assert_eq!(text(&tool, "gen_ai.tool.name"), "write");
    assert_eq!(text(&tool, "gen_ai.tool.type"), "function");
    assert!(!text(&tool, "gen_ai.tool.call.id").is_empty());
    let calls = world.named("chat heron-1");
    for (call, finish) in calls.iter().zip(["[\"tool_call\"]", "[\"stop\"]"]) {
        assert_eq!(call.span_kind, SpanKind::Client);
        for (name, value) in [
            ("gen_ai.operation.name", "chat"),
            ("gen_ai.provider.name", "scripted"),
            ("gen_ai.system", "scripted"),
            ("gen_ai.request.model", "heron-1"),
            ("gen_ai.request.stream", "true"),
            ("gen_ai.response.finish_reasons", finish),
            ("gen_ai.conversation.id", world.test.session.id().as_str()),
            ("session.id", world.test.session.id().as_str()),
            ("llm.provider", "scripted"),
            ("llm.model", "heron-1"),
            ("longhaul.purpose", "main"),
        ] {
            assert_eq!(text(call, name), value, "{name}");
        }
        assert!(number(call, "gen_ai.usage.input_tokens") > 0);
        assert!(number(call, "gen_ai.usage.output_tokens") > 0);
        assert!(attribute(call, "gen_ai.response.time_to_first_chunk").is_some());
        assert!(attribute(call, "gen_ai.conversation.compacted").is_none());
        assert!(attribute(call, "error.type").is_none());
    }
    let sum: i64 = calls.iter().map(|call| number(call, "gen_ai.usage.input_tokens")).sum();
    assert_eq!(number(&turn, "gen_ai.usage.input_tokens"), sum);
}

#[tokio::test]
async fn nothing_that_was_said_is_told_unless_it_is_asked_for() {
    let said = ["Please flamingo", "You are a careful", "Zebra writes", "osprey", "quagga", "Zebra is done"];
    let quiet = world(writes_once(), ContentCapture::LeftOut, |_| {}).await;
    quiet.test.session.ask("Please flamingo.").await.unwrap();
    let exported = quiet.exported();
    assert!(exported.contains("gen_ai.client.inference.duration") && exported.contains("execute_tool write"));
    for said in said {
        assert!(!exported.contains(said), "{said} was told");
    }
    let open = world(writes_once(), ContentCapture::Included, |_| {}).await;
    open.test.session.ask("Please flamingo.").await.unwrap();
    let exported = open.exported();
    for said in said {
        assert!(exported.contains(said), "{said} was not told");
    }
    let tool = open.one("execute_tool write");
    assert!(text(&tool, "gen_ai.tool.call.arguments").contains("quagga"));
    assert!(text(&tool, "gen_ai.tool.call.result").contains("osprey"));
    let calls = open.named("chat heron-1");
    let input: serde_json::Value = serde_json::from_str(&text(&calls[1], "gen_ai.input.messages")).unwrap();
    assert_eq!(input[0]["role"], "user");
    assert_eq!(input[0]["parts"][0]["content"], "Please flamingo.");
    assert_eq!(input[1]["parts"][1]["type"], "tool_call");
    assert_eq!(input[2]["parts"][0]["type"], "tool_call_response");
    let output: serde_json::Value = serde_json::from_str(&text(&calls[1], "gen_ai.output.messages")).unwrap();
    assert_eq!(output[0]["parts"][0]["content"], "Zebra is done.");
}

/// Reads a large file again and again: the view outgrows its window.
async fn reading(content: ContentCapture) -> ObservedSession {
    let script = ModelScript::closure(|_: &ModelRequest, index| match index % 12 {
        11 => ScriptedAnswer::text("Done."),
        step => ScriptedAnswer::text("Reading.").call("read", format!(r#"{{"path":"f{}.txt"}}"#, step % 7)),
    });
    let model = ScriptedProvider::new(script).window(12_000).summaries(ScriptedSummaries::Extract);
    let model = model.recognise_summaries(|request| {
        let parts = request.messages.last().map(|message| message.text()).unwrap_or_default();
        parts.contains(longhaul_core::plan::ORDER_START)
    });
    let world = world(model, content, |_| {}).await;
    for n in 0..7 {
        let lines: String = (0..400).map(|line| format!("file {n} line {line} word-{n}-{line}\n")).collect();
        std::fs::write(world.test.folder.path().join(format!("f{n}.txt")), lines).unwrap();
    }
    world
}

#[tokio::test]
async fn a_compaction_has_its_summary_below_and_calls_after_it_say_so() {
    let world = reading(ContentCapture::LeftOut).await;
    for _ in 0..4 {
        assert_eq!(world.test.session.ask("Read on.").await.unwrap().end, Some(RunEnd::Stop));
    }
    let edits = world.test.session.inspect_run(|run| run.history().edits().len()).await.unwrap();
    let mut compactions = world.spans();
    compactions.retain(|span| span.name.starts_with("compact "));
    assert_eq!(compactions.len(), edits, "{:?}", world.tree());
    let calls = world.named("chat heron-1");
    let summaries: Vec<_> = calls.iter().filter(|call| text(call, "longhaul.purpose") == "summary").collect();
    assert!(!summaries.is_empty(), "{:?}", world.tree());
    for summary in summaries {
        let above = compactions.iter().find(|span| span.span_context.span_id() == summary.parent_span_id);
        let above = above.expect("a summary is part of a compaction");
        assert_eq!(text(above, "longhaul.compaction.kind"), "compaction");
        assert_eq!(text(above, "gen_ai.operation.name"), "compact");
        assert_eq!(above.span_kind, SpanKind::Internal);
        let (before, after) = (
            number(above, "longhaul.compaction.tokens_before"),
            number(above, "longhaul.compaction.tokens_after"),
        );
        assert!(before > after, "{before} to {after}");
    }
    let first = compactions.iter().map(|span| span.end_time).min().unwrap();
    for call in calls {
        let compacted = attribute(&call, "gen_ai.conversation.compacted");
        assert_eq!(compacted, (call.start_time >= first).then_some(Value::Bool(true)), "{call:?}");
    }
}

#[tokio::test]
async fn a_failure_has_its_class_and_no_words() {
    let model = ScriptedProvider::new(ModelScript::always(ScriptedAnswer::text("a b c d e f g")))
        .fail_at(0, ScriptedFault::Disconnect { after: 3 });
    let world = world(model, ContentCapture::LeftOut, |agent| agent.rules.retry.stream_attempts = 0).await;
    assert_eq!(world.test.session.ask("hello").await.unwrap().end, Some(RunEnd::Error));
    for name in ["chat heron-1", "invoke_agent scribe"] {
        let span = world.one(name);
        let error = text(&span, "error.type");
        assert!(["truncated-stream", "network"].contains(&error.as_str()), "{error}");
        assert_eq!(span.status, SpanStatus::error(""));
    }
    assert_eq!(text(&world.one("chat heron-1"), "gen_ai.response.finish_reasons"), "[\"error\"]");
}

#[tokio::test(start_paused = true)]
async fn a_call_and_its_repetitions_are_one_operation() {
    let model = ScriptedProvider::new(ModelScript::always(ScriptedAnswer::text("At last.")))
        .fail_at(0, ScriptedFault::Status { status: 429, retry_after: None })
        .fail_at(1, ScriptedFault::Status { status: 503, retry_after: None });
    let world = world(model, ContentCapture::LeftOut, |_| {}).await;
    assert_eq!(world.test.session.ask("hello").await.unwrap().end, Some(RunEnd::Stop));
    let call = world.one("chat heron-1");
    assert_eq!(number(&call, "longhaul.retries"), 2);
    assert_eq!((attribute(&call, "error.type"), call.status), (None, SpanStatus::Unset));
}

#[tokio::test]
async fn a_cancelled_run_says_so_wherever_it_was() {
    let slow = ScriptedAnswer::text("one two three ".repeat(400)).pace(Duration::from_millis(10));
    let long = ScriptedAnswer::text("Running.").call("bash", r#"{"command":"sleep 100"}"#);
    let world =
        world(ScriptedProvider::new(ModelScript::turns([slow, long])), ContentCapture::LeftOut, |_| {}).await;
    let mut watch = world.test.session.watch();
    world.test.session.send(vec![Part::text("talk")]).await.unwrap();
    while watch.recv().await.unwrap().name != "llm:chunk" {}
    world.test.session.cancel(false).await.unwrap();
    world.test.session.settled().await.unwrap();
    assert_eq!(text(&world.one("chat heron-1"), "error.type"), "cancelled");
    let turn = world.one("invoke_agent scribe");
    assert_eq!(
        (text(&turn, "error.type"), text(&turn, "longhaul.run.end")),
        ("cancelled".into(), "cancelled".into())
    );
    world.spans.reset();
    world.test.session.send(vec![Part::text("run")]).await.unwrap();
    world.test.wait_for_status(RunStatus::ExecutingTools).await;
    world.test.session.cancel(false).await.unwrap();
    world.test.session.settled().await.unwrap();
    assert_eq!(text(&world.one("execute_tool bash"), "error.type"), "cancelled");
    assert!(attribute(&world.one("chat heron-1"), "error.type").is_none());
}

#[tokio::test]
async fn a_runtime_that_ends_leaves_no_span_open() {
    let slow = ScriptedAnswer::text("one two three ".repeat(400)).pace(Duration::from_millis(10));
    let world =
        world(ScriptedProvider::new(ModelScript::always(slow)), ContentCapture::LeftOut, |_| {}).await;
    let mut watch = world.test.session.watch();
    world.test.session.send(vec![Part::text("talk")]).await.unwrap();
    while watch.recv().await.unwrap().name != "llm:chunk" {}
    let ObservedSession { test, spans, _tracers, .. } = world;
    drop(test);
    let dropped = async {
        // Dropped tasks end their spans a moment after the runtime is dropped.
        while spans.get_finished_spans().unwrap().len() < 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), dropped).await.unwrap();
    for span in spans.get_finished_spans().unwrap() {
        assert_eq!(text(&span, "error.type"), "interrupted");
    }
}

/// Says in which context it runs.
#[derive(Default)]
struct Looker(Arc<Mutex<Option<(String, SpanId)>>>);

#[async_trait]
impl Tool for Looker {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "look".to_owned(),
            description: "Looks around.".to_owned(),
            parameters: RawJson(r#"{"type":"object"}"#.to_owned()),
            read_only: true,
            poll: false,
            source: "test".to_owned(),
        }
    }

    async fn run(&self, _: ToolInput) -> ToolOutput {
        // The context must last beyond a yield, after which the task may run on another thread.
        tokio::task::yield_now().await;
        let context = Context::current();
        let session = context.baggage().get("session.id").map(ToString::to_string).unwrap_or_default();
        *self.0.lock().unwrap() = Some((session, context.span().span_context().span_id()));
        ToolOutput::text("looked")
    }
}

#[tokio::test]
async fn a_tool_finds_its_span_and_the_session_in_its_context() {
    let script = ModelScript::turns([
        ScriptedAnswer::text("Looking.").call("look", "{}"),
        ScriptedAnswer::text("And a tool of its own.").call("Tell nobody: ibis", "{}"),
        ScriptedAnswer::text("Done."),
    ]);
    let looker = Looker::default();
    let seen = Arc::clone(&looker.0);
    let add = |agent: &mut Agent| agent.tools.add(Arc::new(looker)).unwrap();
    let world = world(ScriptedProvider::new(script), ContentCapture::LeftOut, add).await;
    assert_eq!(world.test.session.ask("Look.").await.unwrap().end, Some(RunEnd::Stop));
    let (session, span) = seen.lock().unwrap().take().unwrap();
    assert_eq!(session, world.test.session.id().as_str());
    assert_eq!(span, world.one("execute_tool look").span_context.span_id());
    assert!(!world.exported().contains("ibis"), "a tool that does not exist has no name");
}

#[tokio::test]
async fn metrics_have_the_names_and_buckets_of_the_conventions() {
    let world = world(writes_once(), ContentCapture::LeftOut, |_| {}).await;
    world.test.session.ask("Write it.").await.unwrap();
    let used = world.test.session.inspect_run(|run| run.history().cumulative_usage().clone()).await.unwrap();
    world.meters.force_flush().unwrap();
    let exported = world.metrics.get_finished_metrics().unwrap();
    let newest = exported.last().unwrap();
    let all: Vec<_> = newest.scope_metrics().flat_map(|scope| scope.metrics()).collect();
    let find = |name: &str| {
        all.iter().find(|metric| metric.name() == name).unwrap_or_else(|| panic!("{name} is missing"))
    };
    for (name, count, first, last) in [
        ("gen_ai.client.inference.duration", 2, 0.01, 81.92),
        ("gen_ai.client.operation.duration", 2, 0.01, 81.92),
        ("gen_ai.client.inference.time_to_first_chunk", 2, 0.001, 10.0),
        ("gen_ai.client.operation.time_to_first_chunk", 2, 0.001, 10.0),
        ("gen_ai.execute_tool.duration", 1, 0.01, 81.92),
        ("gen_ai.invoke_agent.duration", 1, 0.1, 409.6),
    ] {
        let metric = find(name);
        assert_eq!(metric.unit(), "s", "{name}");
        let AggregatedMetrics::F64(MetricData::Histogram(histogram)) = metric.data() else {
            panic!("{name}")
        };
        let points: Vec<_> = histogram.data_points().collect();
        assert_eq!(points.iter().map(|point| point.count()).sum::<u64>(), count, "{name}");
        let bounds: Vec<f64> = points[0].bounds().collect();
        assert_eq!((bounds[0], bounds[bounds.len() - 1]), (first, last), "{name}");
    }
    for (name, sum) in [
        ("gen_ai.client.inference.operation.input_tokens", used.input_tokens),
        ("gen_ai.client.inference.operation.output_tokens", used.output_tokens),
        ("gen_ai.client.token.usage", used.total_tokens()),
        ("gen_ai.invoke_agent.inference_calls", 2),
        ("gen_ai.invoke_agent.tool_calls", 1),
    ] {
        let AggregatedMetrics::U64(MetricData::Histogram(histogram)) = find(name).data() else {
            panic!("{name}")
        };
        assert_eq!(histogram.data_points().map(|point| point.sum()).sum::<u64>(), sum, "{name}");
    }
    for (name, sum) in [
        ("gen_ai.client.inference.usage.input_tokens", used.input_tokens),
        ("gen_ai.client.inference.usage.output_tokens", used.output_tokens),
    ] {
        let AggregatedMetrics::U64(MetricData::Sum(counter)) = find(name).data() else { panic!("{name}") };
        assert_eq!(counter.data_points().map(|point| point.value()).sum::<u64>(), sum, "{name}");
    }
}
