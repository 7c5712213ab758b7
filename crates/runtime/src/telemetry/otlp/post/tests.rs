use std::sync::atomic::AtomicUsize;

use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use super::*;

/// Counts warnings.
#[derive(Clone, Default)]
struct Counter(Arc<AtomicUsize>);

impl Subscriber for Counter {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::WARN
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn event(&self, _: &Event<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[tokio::test]
async fn a_collector_that_is_not_there_is_named_once() {
    let warnings = Counter::default();
    let _guard = tracing::subscriber::set_default(warnings.clone());
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("http://{address}/v1/traces");
    let shared = Shared(Arc::new(Post::new(&Url::parse(&url).unwrap(), Handle::current()).unwrap()));
    for _ in 0..3 {
        let request = Request::post(&url).body(Bytes::new()).unwrap();
        assert!(shared.send_bytes(request).await.is_err());
    }
    assert_eq!(warnings.0.load(Ordering::Relaxed), 1);
}
