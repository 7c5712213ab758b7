//! Repeated requests: noted before their work, and answered the same again.

use longhaul_core::ids::SessionId;

use super::{ConformanceSetup, NOW, append, new_session, not_found, note};
use crate::{IdempotentRequest, NewIdempotentRequest, SharedStore, StoreError};

fn request(key: &str, what: &str) -> NewIdempotentRequest {
    NewIdempotentRequest { key: key.to_owned(), what: what.to_owned(), at: NOW }
}

fn known(what: &str, since: u64, repeated: bool, answer: Option<&str>) -> IdempotentRequest {
    IdempotentRequest { what: what.to_owned(), since, repeated, answer: answer.map(str::to_owned) }
}

/// A repeated request finds the first request's content, the position of the log then, and the answer.
pub async fn a_repeated_request_finds_its_answer(store: SharedStore) {
    let setup = ConformanceSetup::new(store).await;
    assert_eq!(setup.begin("k", "this").await, Ok(known("this", 1, false, None)));
    assert_eq!(setup.begin("k", "that").await, Ok(known("this", 1, true, None)), "it is being done");
    let lease = setup.claim().await;
    setup.store.append(&lease, append(vec![note("done")])).await.unwrap();
    assert_eq!(setup.begin("other", "this").await, Ok(known("this", 2, false, None)));
    setup.store.answer_request(&setup.id, "k", Some("yes".to_owned())).await.unwrap();
    assert_eq!(setup.begin("k", "this").await, Ok(known("this", 1, true, Some("yes"))));
    assert_eq!(setup.begin("other", "this").await, Ok(known("this", 2, true, None)));
}

impl ConformanceSetup {
    async fn begin(&self, key: &str, what: &str) -> Result<IdempotentRequest, StoreError> {
        self.store.begin_request(&self.id, request(key, what)).await
    }
}

/// A forgotten request may be sent again.
pub async fn a_forgotten_request_is_new(store: SharedStore) {
    let setup = ConformanceSetup::new(store).await;
    setup.begin("k", "this").await.unwrap();
    setup.store.answer_request(&setup.id, "k", None).await.unwrap();
    assert_eq!(setup.begin("k", "this").await, Ok(known("this", 1, false, None)));
    setup.store.answer_request(&setup.id, "unknown", Some("x".to_owned())).await.unwrap();
    setup.store.answer_request(&setup.id, "unknown", None).await.unwrap();
}

/// Exactly one of many simultaneous requests is the first.
pub async fn of_racing_requests_one_is_first(store: SharedStore) {
    let setup = ConformanceSetup::new(store).await;
    let comers = (0..20).map(|_| {
        let (store, id) = (SharedStore::clone(&setup.store), setup.id.clone());
        tokio::spawn(async move { store.begin_request(&id, request("k", "this")).await.unwrap() })
    });
    let mut first = 0;
    for comer in comers.collect::<Vec<_>>() {
        first += usize::from(!comer.await.unwrap().repeated);
    }
    assert_eq!(first, 1);
}

/// Requests belong to their session, and end with the session.
pub async fn requests_belong_to_their_session(store: SharedStore) {
    let setup = ConformanceSetup::new(store).await;
    let other = SessionId::from("other");
    setup.begin("k", "this").await.unwrap();
    setup.store.create(new_session("other", NOW)).await.unwrap();
    let begun = setup.store.begin_request(&other, request("k", "this")).await;
    assert_eq!(begun, Ok(known("this", 1, false, None)));
    setup.store.delete(&setup.id).await.unwrap();
    assert!(not_found(&setup.begin("k", "this").await));
    assert!(not_found(&setup.store.answer_request(&setup.id, "k", None).await));
    setup.store.create(new_session("s", NOW)).await.unwrap();
    assert_eq!(setup.begin("k", "this").await, Ok(known("this", 1, false, None)));
}
