//! Without OpenTelemetry: the spans of `tracing`, for whoever listens.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use longhaul::agent::Agent;
use longhaul::telemetry::Telemetry;
use longhaul::testing;
use longhaul_testkit::TestSession;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use super::writes_once;

type Fields = BTreeMap<&'static str, String>;

/// Keeps the fields of every span, by its number.
#[derive(Clone, Default)]
struct Listener(Arc<Mutex<Vec<(&'static str, Fields)>>>);

struct Reader<'a>(&'a mut Fields);

impl Visit for Reader<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }
}

impl Subscriber for Listener {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_span() && metadata.target() == "longhaul"
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut spans = self.0.lock().unwrap();
        spans.push((span.metadata().name(), Fields::new()));
        Id::from_u64(spans.len() as u64)
    }

    fn record(&self, id: &Id, values: &Record<'_>) {
        let mut spans = self.0.lock().unwrap();
        values.record(&mut Reader(&mut spans[id.into_u64() as usize - 1].1));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &Event<'_>) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

async fn run_once() {
    let name = |agent: &mut Agent, _: &_| agent.telemetry = Telemetry::default().named("scribe");
    TestSession::with_agent(writes_once(), name).await.session.ask("Please flamingo.").await.unwrap();
}

#[tokio::test]
async fn whoever_listens_to_tracing_hears_the_same_and_no_content() {
    let listener = Listener::default();
    let _guard = testing::set_thread_subscriber(listener.clone());
    run_once().await;
    let spans = listener.0.lock().unwrap().clone();
    let names: Vec<&str> = spans.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["invoke_agent", "chat", "execute_tool", "chat"]);
    let chat = &spans[1].1;
    assert_eq!(chat["otel.name"], "chat scripted");
    assert_eq!(chat["gen_ai.operation.name"], "chat");
    assert_eq!(chat["gen_ai.response.finish_reasons"], "tool_call");
    assert!(chat["gen_ai.usage.input_tokens"].parse::<u64>().unwrap() > 0);
    assert_eq!(spans[2].1["gen_ai.tool.name"], "write");
    for said in ["flamingo", "Zebra", "osprey", "quagga"] {
        assert!(!format!("{spans:?}").contains(said), "{said}");
    }
}
