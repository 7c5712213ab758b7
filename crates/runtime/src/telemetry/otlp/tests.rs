use std::fmt::Debug;
use std::net::TcpListener;
use std::sync::Mutex;

use bytes::Bytes;
use opentelemetry_http::{HttpClient as _, Request};
use tokio::runtime::Handle;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use super::*;
use crate::telemetry::span::OperationKind;
use crate::testing::set_thread_subscriber;

/// Keeps warnings.
#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<Vec<String>>>);

impl Warnings {
    fn told(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::WARN
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn event(&self, event: &Event<'_>) {
        event.record(&mut Message(&mut self.0.lock().unwrap()));
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

struct Message<'a>(&'a mut Vec<String>);

impl Visit for Message<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            self.0.push(format!("{value:?}"));
        }
    }
}

fn shared(url: &str, runtime: Handle) -> SharedCollectorClient {
    SharedCollectorClient(Arc::new(CollectorClient::new(&Url::parse(url).unwrap(), runtime).unwrap()))
}

#[tokio::test]
async fn a_collector_that_is_not_there_is_named_once() {
    let warnings = Warnings::default();
    let _guard = set_thread_subscriber(warnings.clone());
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("http://{address}/v1/traces");
    let shared = shared(&url, Handle::current());
    for _ in 0..3 {
        let request = Request::post(&url).body(Bytes::new()).unwrap();
        assert!(shared.send_bytes(request).await.is_err());
    }
    let told = warnings.told();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].starts_with(&format!("telemetry does not reach http://{address}: ")), "{told:?}");
}

#[tokio::test]
async fn a_collector_that_is_silent_at_the_end_is_said_to_be() {
    let warnings = Warnings::default();
    let _guard = set_thread_subscriber(warnings.clone());
    // Connections are taken by the system, and nobody ever reads them.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let service = ServiceIdentity { name: "longhaul-test".to_owned(), version: "1".to_owned() };
    let exporting = connect(&url, &service, ContentCapture::LeftOut).unwrap();
    exporting.begin("chat heron-1".to_owned(), OperationKind::Chat, "s", None).end();
    exporting.close().await;
    assert_eq!(warnings.told(), [format!("telemetry does not reach {url}: no answer within 2 s")]);
}

#[tokio::test]
async fn a_program_that_ends_meanwhile_says_so_in_words() {
    let warnings = Warnings::default();
    let _guard = set_thread_subscriber(warnings.clone());
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let ending = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let shared = shared(&url, ending.handle().clone());
    ending.shutdown_background();
    let request = Request::post(&url).body(Bytes::new()).unwrap();
    assert!(shared.send_bytes(request).await.is_err());
    let expected = format!("telemetry does not reach {url}: the program ended before an answer came");
    assert_eq!(warnings.told(), [expected]);
}
