//! Over the wire: a collector that reads what it is sent, one that is not there, one that never answers.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use longhaul::agent::Agent;
use longhaul::telemetry::{ContentCapture, OtlpError, ServiceIdentity, Telemetry};
use longhaul_core::event::RunEnd;
use longhaul_testkit::{ScriptedUpstream, TestSession, UpstreamAnswer};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prost::Message;

use super::writes_once;

fn service() -> ServiceIdentity {
    ServiceIdentity { name: "longhaul-test".to_owned(), version: "1.2.3".to_owned() }
}

/// Opens a session that tells the collector at `url` of its runs.
async fn observed_session(url: &str) -> TestSession {
    let observe = |agent: &mut Agent, _: &_| {
        agent.telemetry = Telemetry::otlp(url, &service(), ContentCapture::LeftOut).unwrap().named("scribe");
    };
    TestSession::with_agent(writes_once(), observe).await
}

/// Returns all messages that a collector was sent at a path.
fn sent_to<M: Message + Default>(collector: &ScriptedUpstream, path: &str) -> Vec<M> {
    let received = collector.received().into_iter().filter(|request| request.path == path);
    received.map(|request| M::decode(request.body).unwrap()).collect()
}

#[tokio::test]
async fn a_collector_gets_spans_and_metrics_when_the_runtime_closes() {
    let collector = ScriptedUpstream::start(|_| UpstreamAnswer::Head(200, Vec::new(), Bytes::new())).await;
    let test = observed_session(&collector.url("/otel/")).await;
    assert_eq!(test.session.ask("Write it.").await.unwrap().end, Some(RunEnd::Stop));
    test.runtime.close().await;

    let requests: Vec<ExportTraceServiceRequest> = sent_to(&collector, "/otel/v1/traces");
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

    let requests: Vec<ExportMetricsServiceRequest> = sent_to(&collector, "/otel/v1/metrics");
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
        let test = observed_session(&format!("http://{address}")).await;
        let run = tokio::time::timeout(Duration::from_secs(60), test.session.ask("Write it."));
        assert_eq!(run.await.unwrap().unwrap().end, Some(RunEnd::Stop));
        // Longer than it takes by far, and shorter than a collector is waited for while there is time.
        tokio::time::timeout(Duration::from_secs(9), test.runtime.close()).await.unwrap();
    }
}

#[tokio::test]
async fn what_is_no_address_is_refused() {
    for url in ["localhost:4318", "ftp://localhost", "", "http://", "http://localhost:4318?key=1"] {
        let refused = Telemetry::otlp(url, &service(), ContentCapture::LeftOut);
        assert!(matches!(refused, Err(OtlpError::Address(_))), "{url}");
    }
}
