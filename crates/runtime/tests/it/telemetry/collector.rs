//! Over the wire: a collector that reads what it is sent, one that is not there, one that never answers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::State;
use axum::routing::post;
use longhaul::session::Runtime;
use longhaul::telemetry::{ContentCapture, OtlpError, ServiceIdentity, Telemetry};
use longhaul::testing::{self, TemporaryFolder};
use longhaul_core::event::RunEnd;
use longhaul_providers::scripted::ScriptedProvider;
use longhaul_store::{BlobStore, MemoryStore};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prost::Message as _;

use super::writes_once;

#[derive(Clone, Default)]
struct Received {
    spans: Arc<Mutex<Vec<ExportTraceServiceRequest>>>,
    metrics: Arc<Mutex<Vec<ExportMetricsServiceRequest>>>,
}

async fn spans(State(received): State<Received>, body: Bytes) {
    received.spans.lock().unwrap().push(ExportTraceServiceRequest::decode(body).unwrap());
}

async fn metrics(State(received): State<Received>, body: Bytes) {
    received.metrics.lock().unwrap().push(ExportMetricsServiceRequest::decode(body).unwrap());
}

fn service() -> ServiceIdentity {
    ServiceIdentity { name: "longhaul-test".to_owned(), version: "1.2.3".to_owned() }
}

async fn runtime(model: ScriptedProvider, url: &str) -> (Runtime, TemporaryFolder) {
    let folder = TemporaryFolder::new().unwrap();
    let mut agent = testing::agent(Arc::new(model), &folder).await.unwrap();
    agent.telemetry = Telemetry::otlp(url, &service(), ContentCapture::LeftOut).unwrap().named("scribe");
    (Runtime::new(agent, Arc::new(MemoryStore::new()), BlobStore::in_memory(64 << 20)), folder)
}

#[tokio::test]
async fn a_collector_gets_spans_and_metrics_when_the_runtime_closes() {
    let received = Received::default();
    let app = axum::Router::new()
        .route("/otel/v1/traces", post(spans))
        .route("/otel/v1/metrics", post(metrics))
        .with_state(received.clone());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    let (runtime, _folder) = runtime(writes_once(), &format!("http://{address}/otel/")).await;
    let session = runtime.create(None).await.unwrap();
    assert_eq!(session.ask("Write it.").await.unwrap().end, Some(RunEnd::Stop));
    runtime.close().await;
    server.abort();

    let requests = received.spans.lock().unwrap().clone();
    let resources = requests.iter().flat_map(|request| &request.resource_spans);
    let mut names: BTreeMap<String, usize> = BTreeMap::new();
    for spans in resources.clone().flat_map(|resource| &resource.scope_spans) {
        assert_eq!(spans.scope.as_ref().unwrap().name, "longhaul");
        for span in &spans.spans {
            *names.entry(span.name.clone()).or_default() += 1;
        }
    }
    let expected = [("chat scripted", 2), ("execute_tool write", 1), ("invoke_agent scribe", 1)];
    assert_eq!(names, expected.map(|(name, count)| (name.to_owned(), count)).into());
    let about = format!("{:?}", resources.map(|spans| &spans.resource).collect::<Vec<_>>());
    assert!(about.contains("longhaul-test") && about.contains("1.2.3"), "{about}");

    let requests = received.metrics.lock().unwrap().clone();
    let scopes = requests.iter().flat_map(|request| &request.resource_metrics);
    let scopes = scopes.flat_map(|resource| &resource.scope_metrics);
    let names: Vec<&str> =
        scopes.flat_map(|scope| &scope.metrics).map(|metric| metric.name.as_str()).collect();
    assert!(names.contains(&"gen_ai.client.inference.usage.input_tokens"), "{names:?}");
}

#[tokio::test]
async fn a_collector_that_is_not_there_or_never_answers_holds_nothing_up() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    // Connections are taken by the system, and nobody ever reads them.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    for address in [closed, silent.local_addr().unwrap()] {
        let (runtime, _folder) = runtime(writes_once(), &format!("http://{address}")).await;
        let session = runtime.create(None).await.unwrap();
        let run = tokio::time::timeout(Duration::from_secs(60), session.ask("Write it."));
        assert_eq!(run.await.unwrap().unwrap().end, Some(RunEnd::Stop));
        // Longer than it takes by far, and shorter than a collector is waited for while there is time.
        tokio::time::timeout(Duration::from_secs(9), runtime.close()).await.unwrap();
    }
}

#[tokio::test]
async fn what_is_no_address_is_refused() {
    for url in ["localhost:4318", "ftp://localhost", "", "http://", "http://localhost:4318?key=1"] {
        let refused = Telemetry::otlp(url, &service(), ContentCapture::LeftOut);
        assert!(matches!(refused, Err(OtlpError::Address(_))), "{url}");
    }
}
