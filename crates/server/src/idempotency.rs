//! Idempotent requests: each key's work is done once, and a repeated request gets the same answer, also after a
//! restart.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use longhaul::clock::now_ms;
use longhaul::session::Session;
use longhaul_core::event::Event;
use longhaul_core::ids::{Seq, SessionId};
use longhaul_store::{IdempotentRequest, NewIdempotentRequest};
use serde_json::Value;
use tokio::sync::OwnedMutexGuard;

use crate::app::AppState;
use crate::extract::IdempotencyKey;
use crate::problem::ApiProblem;

/// The number of events per read.
const PAGE: usize = 500;

/// The key of the request that created a session. A client's own keys are never empty.
const MADE: &str = "";

/// The locks of keyed requests: one request per key runs at a time.
#[derive(Debug, Default)]
pub(crate) struct IdempotencyLocks(Mutex<BTreeMap<(SessionId, String), KeyLock>>);

/// The lock of a running request.
type KeyLock = Arc<tokio::sync::Mutex<()>>;

impl IdempotencyLocks {
    /// Waits for the end of other requests of the session with the same key.
    pub(crate) async fn turn(&self, session: &SessionId, key: &str) -> OwnedMutexGuard<()> {
        let lock = {
            let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            // A request that runs or waits has a share of its lock.
            all.retain(|_, lock| Arc::strong_count(lock) > 1);
            Arc::clone(all.entry((session.clone(), key.to_owned())).or_default())
        };
        // The map is unlocked by now, so requests with other keys do not wait.
        lock.lock_owned().await
    }
}

/// Does `work`, or returns the earlier answer for the same key. `what` identifies the request with all its
/// parameters.
///
/// If the process ended during the first attempt, the answer is lost. Then `work` gets the events since the
/// first attempt, to find out whether the attempt succeeded. Otherwise `work` gets no events.
///
/// # Errors
/// The work's own, which is not kept, so a refused request may be repeated. `invalid-request` for another
/// request's key.
pub(crate) async fn once<W: Future<Output = Result<Value, ApiProblem>> + Send>(
    app: &AppState,
    session: &Session,
    key: IdempotencyKey,
    what: String,
    work: impl FnOnce(Vec<Event>) -> W + Send,
) -> Result<Value, ApiProblem> {
    run_once_in_session(app, session.id(), key, what, work).await
}

/// Does `work` once, see [`once`], in a session possibly at another node.
///
/// # Errors
/// See [`once`].
pub(crate) async fn run_once_in_session<W: Future<Output = Result<Value, ApiProblem>> + Send>(
    app: &AppState,
    id: &SessionId,
    key: IdempotencyKey,
    what: String,
    work: impl FnOnce(Vec<Event>) -> W + Send,
) -> Result<Value, ApiProblem> {
    let Some(key) = key.0 else { return work(Vec::new()).await };
    let store = app.runtime().store();
    let _turn = app.requests().turn(id, &key).await;
    // The record is read under the lock: a request before this one may just have stored its answer.
    let request = recognised(app, id, &key, &what).await?;
    if let Some(answer) = request.answer {
        tracing::debug!(session = %id, "a repeated request gets its stored answer");
        return serde_json::from_str(&answer).map_err(|_| ApiProblem::internal());
    }
    // A first request needs no events, and a long log would be read for nothing.
    let since = if request.repeated { events(app, id, request.since).await? } else { Vec::new() };
    if request.repeated {
        tracing::info!(
            session = %id,
            events_since = since.len(),
            "a request is repeated whose first answer was lost: the log tells whether it was done"
        );
    }
    let done = work(since).await;
    if let Err(problem) = &done {
        tracing::debug!(session = %id, status = problem.status().as_u16(), "a refused request may be repeated under its key");
    }
    // `None` frees the key of a refused request.
    store.answer_request(id, &key, done.as_ref().ok().map(Value::to_string)).await?;
    done
}

/// Does `work` with a record of keys of its own, without effect when repeated. Another request under the same
/// key is refused.
///
/// # Errors
/// The work's own, and `invalid-request` for another request's key. A request refused the first time may be
/// repeated with changes.
pub(crate) async fn same<T>(
    app: &AppState,
    session: &SessionId,
    key: &IdempotencyKey,
    what: &str,
    work: impl Future<Output = Result<T, ApiProblem>> + Send,
) -> Result<T, ApiProblem> {
    let Some(key) = &key.0 else { return work.await };
    let _turn = app.requests().turn(session, key).await;
    let known = recognised(app, session, key, what).await?;
    let done = work.await;
    // A repeated request may have been taken the first time, even if it fails now. Its key must stay.
    if done.is_err() && !known.repeated {
        tracing::debug!(%session, "a refused request gives its key back");
        app.runtime().store().answer_request(session, key, None).await?;
    }
    done
}

/// Creates the session `id` with `work`, or opens the existing session. The key belongs to the request that
/// created the session.
///
/// # Errors
/// The work's own, and `invalid-request` for another request's key.
pub(crate) async fn made(
    app: &AppState,
    id: &SessionId,
    what: &str,
    work: impl Future<Output = Result<Session, ApiProblem>> + Send,
) -> Result<Session, ApiProblem> {
    // Two requests that create one session at once must not both find it missing.
    let _turn = app.requests().turn(id, MADE).await;
    // The key is recorded with the session, so the session must exist first.
    let session = work.await?;
    recognised(app, id, MADE, what).await?;
    Ok(session)
}

/// Records a request, and returns the earlier record of the key.
async fn recognised(
    app: &AppState,
    session: &SessionId,
    key: &str,
    what: &str,
) -> Result<IdempotentRequest, ApiProblem> {
    let what = fingerprint(what);
    let request = NewIdempotentRequest { key: key.to_owned(), what: what.clone(), at: now_ms() };
    let known = app.runtime().store().begin_request(session, request).await?;
    // One key with two requests is a mistake of the client. The stored answer would be a wrong one.
    if known.what == what {
        return Ok(known);
    }
    tracing::info!(%session, "refused: the idempotency key belongs to another request");
    Err(ApiProblem::reused_key())
}

/// Returns a hash of a request of any length.
fn fingerprint(what: &str) -> String {
    blake3::hash(what.as_bytes()).to_hex().to_string()
}

async fn events(app: &AppState, id: &SessionId, mut after: Seq) -> Result<Vec<Event>, ApiProblem> {
    let mut events = Vec::new();
    loop {
        let page = app.runtime().store().read(id, after, PAGE).await?;
        let Some(last) = page.last() else { return Ok(events) };
        after = last.seq;
        events.extend(page);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::HttpServerConfig;
    use crate::token::AccessToken;
    use serde_json::json;

    /// The first attempt had its effect, and its answer was lost.
    #[tokio::test]
    async fn after_a_crash_the_work_is_told_what_the_log_says_since() {
        let (runtime, _folder) = longhaul::testing::runtime_that_says("Yes.").unwrap();
        let app = AppState::new(runtime, HttpServerConfig::new(AccessToken::new("a token for a test")));
        let session = app.runtime().create(None).await.unwrap();
        let first = NewIdempotentRequest { key: "k".to_owned(), what: fingerprint("rename"), at: 0 };
        app.runtime().store().begin_request(session.id(), first).await.unwrap();
        session.rename("Renamed".to_owned()).await.unwrap();

        let key = || IdempotencyKey(Some("k".to_owned()));
        let count = async |since: Vec<Event>| Ok(json!({ "events": since.len() }));
        let answer = once(&app, &session, key(), "rename".to_owned(), count).await.unwrap();
        assert_eq!(answer, json!({ "events": 1 }));
        session.rename("Once more".to_owned()).await.unwrap();
        let again = once(&app, &session, key(), "rename".to_owned(), async |_| Err(ApiProblem::internal()));
        assert_eq!(again.await.unwrap(), answer, "it is kept");
        let other = once(&app, &session, key(), "delete".to_owned(), count).await;
        assert_eq!(other.unwrap_err().status().as_u16(), 422);
    }
}
