//! A request that takes long to count holds up nobody else.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use axum::http::StatusCode;
use longhaul_core::estimate::{CountAccuracy, MessageTokenCounter, TextCounter, TokensByScript};
use longhaul_gateway::{Gateway, GatewayDependencies};

use crate::upstream::*;

/// Counts a text of a megabyte only when somebody else was answered.
#[derive(Debug, Default)]
struct Patient {
    begun: tokio::sync::Notify,
    answered: (Mutex<bool>, Condvar),
    was_overtaken: AtomicBool,
}

impl Patient {
    fn answered(&self) {
        *self.answered.0.lock().unwrap() = true;
        self.answered.1.notify_all();
    }
}

impl TextCounter for Patient {
    fn groups(&self, text: &str) -> TokensByScript {
        if text.len() > 1_000_000 {
            self.begun.notify_one();
            let answered = self.answered.0.lock().unwrap();
            let limit = Duration::from_secs(60);
            let (answered, _) = self.answered.1.wait_timeout_while(answered, limit, |done| !*done).unwrap();
            self.was_overtaken.store(*answered, Ordering::SeqCst);
        }
        TokensByScript::of(text.len() as u64 / 8)
    }

    fn name(&self) -> &str {
        "patient"
    }

    fn kind(&self) -> CountAccuracy {
        CountAccuracy::Exact
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn another_request_is_answered_while_a_large_one_is_counted() {
    let server = start_upstream(|_, _| UpstreamAnswer::Json(200, said("hi", 9, 1))).await;
    let patient = Arc::new(Patient::default());
    let counter = Arc::clone(&patient);
    let parts = GatewayDependencies {
        counter: Arc::new(move |_| MessageTokenCounter::new(Arc::clone(&counter) as Arc<dyn TextCounter>)),
        ..GatewayDependencies::default()
    };
    let gateway = Gateway::new(waiting(vec![server.upstream(100_000_000)]), parts).unwrap();
    let big = gateway.clone();
    let large =
        tokio::spawn(async move { big.answer(chat(request(&[user("x".repeat(30 << 20))], false))).await });
    patient.begun.notified().await;
    let small = gateway.answer(chat(request(&[user("hi")], false))).await;
    assert_eq!(small.status, StatusCode::OK);
    patient.answered();
    assert_eq!(large.await.unwrap().status, StatusCode::OK);
    assert!(patient.was_overtaken.load(Ordering::SeqCst), "nobody was answered while it was counted");
}
