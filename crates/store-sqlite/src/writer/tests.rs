use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use longhaul_core::event::EventBody;
use longhaul_core::ids::{Seq, SessionId};
use longhaul_store::{AnswerChunk, Lease, LogAppend, NewSession, SessionWatchers, StoreError};
use tokio::sync::oneshot;

use super::batch::{SqliteLeaseTable, SqliteWriteBatch};
use super::{
    PendingSqliteWrite, SqliteWriteOperation, SqliteWriteRequest, SqliteWriterTask, chunk, gather, lease,
    log, session,
};
use crate::error::SqliteWriteError;
use crate::open::{SqliteConnections, open};

/// The state of a writer task without the task, so that a test decides on the content of one transaction.
struct Setup {
    desk: SqliteWriterTask,
    _opened: (tempfile::TempDir, crate::lock::ExclusiveFolderLock, sqlx::SqlitePool),
}

type Outcome<T> = oneshot::Receiver<Result<T, StoreError>>;

impl Setup {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let SqliteConnections { lock, writer, readers } = open(folder.path()).await.unwrap();
        let desk = SqliteWriterTask {
            db: writer,
            watchers: Arc::new(SessionWatchers::default()),
            leases: SqliteLeaseTable::default(),
            poisoned: None,
            last_failure: Arc::default(),
        };
        Self { desk, _opened: (folder, lock, readers) }
    }

    async fn write<W: SqliteWriteOperation>(&mut self, write: W) -> Result<W::Answer, StoreError> {
        let (request, outcome) = pending(write);
        self.desk.write(vec![request]).await;
        outcome.await.unwrap()
    }

    async fn begin(&mut self, id: &str) -> Lease {
        let started =
            EventBody::SessionStarted { title: None, forked_from: None, imported_from: None, folder: None };
        let new = NewSession { id: id.into(), title: None, at: 1, events: vec![(1, started)] };
        self.write(session::SqliteSessionCreation::new(&new).unwrap()).await.unwrap();
        self.write(claim(id)).await.unwrap()
    }

    async fn stored_events(&mut self) -> i64 {
        sqlx::query_scalar("SELECT count(*) FROM event").fetch_one(&mut self.desk.db).await.unwrap()
    }
}

fn pending<W: SqliteWriteOperation>(write: W) -> (Box<dyn SqliteWriteRequest>, Outcome<W::Answer>) {
    let (reply, outcome) = oneshot::channel();
    (Box::new(PendingSqliteWrite { write, answer: None, reply }), outcome)
}

fn claim(id: &str) -> lease::SqliteLeaseClaim {
    lease::SqliteLeaseClaim { id: SessionId::from(id), owner: "test".into() }
}

fn titled(lease: &Lease, title: &str) -> log::SqliteEventAppend {
    let events = vec![EventBody::TitleSet { title: title.into() }];
    log::SqliteEventAppend::new(lease, &LogAppend { at: 2, events, ..LogAppend::default() }).unwrap()
}

/// A write that fails in the database, after a change.
struct Broken {
    error: fn() -> sqlx::Error,
    tries: Arc<AtomicUsize>,
}

impl Broken {
    fn new(error: fn() -> sqlx::Error) -> (Self, Arc<AtomicUsize>) {
        let tries = Arc::default();
        (Self { error, tries: Arc::clone(&tries) }, tries)
    }
}

#[async_trait]
impl SqliteWriteOperation for Broken {
    type Answer = ();

    async fn apply(&self, batch: &mut SqliteWriteBatch<'_>) -> Result<(), SqliteWriteError> {
        self.tries.fetch_add(1, Ordering::Relaxed);
        sqlx::query("DELETE FROM session").execute(batch.db().await?).await?;
        Err((self.error)().into())
    }
}

fn passing() -> sqlx::Error {
    sqlx::Error::Protocol("some statement failed".into())
}

fn fatal() -> sqlx::Error {
    sqlx::Error::Io(std::io::Error::other("fsync failed"))
}

#[tokio::test]
async fn one_bad_request_fails_alone() {
    let mut setup = Setup::new().await;
    let (a, b) = (setup.begin("a").await, setup.begin("b").await);
    let (first, first_outcome) = pending(titled(&a, "one"));
    let (broken, tries) = Broken::new(passing);
    let (bad, bad_outcome) = pending(broken);
    let (claiming, claim_outcome) = pending(claim("a"));
    let (last, last_outcome) = pending(titled(&b, "two"));
    setup.desk.write(vec![first, bad, claiming, last]).await;
    assert_eq!(first_outcome.await.unwrap(), Ok(2));
    assert!(matches!(bad_outcome.await.unwrap(), Err(StoreError::Storage(_))));
    assert_eq!(last_outcome.await.unwrap(), Ok(2));
    assert_eq!(tries.load(Ordering::Relaxed), 2, "once with the others, once alone");
    let newer = claim_outcome.await.unwrap().unwrap();
    assert_eq!(newer.epoch, a.epoch + 1, "the claim of the lost transaction left no trace");
    assert_eq!(setup.write(titled(&newer, "three")).await, Ok(3));
    assert_eq!(setup.write(titled(&a, "late")).await, Err(StoreError::Fenced("a".into())));
    assert_eq!(setup.stored_events().await, 5);
}

#[tokio::test]
async fn a_lost_transaction_uses_up_no_position() {
    let mut setup = Setup::new().await;
    let lease = setup.begin("a").await;
    let (broken, _) = Broken::new(passing);
    assert!(setup.write(broken).await.is_err());
    let appends = (0..3).map(|n| pending(titled(&lease, &n.to_string())));
    let (mut requests, outcomes): (Vec<_>, Vec<Outcome<Seq>>) = appends.unzip();
    requests.push(pending(Broken::new(passing).0).0);
    setup.desk.write(requests).await;
    for (seq, outcome) in (2..).zip(outcomes) {
        assert_eq!(outcome.await.unwrap(), Ok(seq));
    }
}

#[tokio::test]
async fn after_an_io_error_nothing_more_is_written() {
    let mut setup = Setup::new().await;
    let lease = setup.begin("a").await;
    let (broken, tries) = Broken::new(fatal);
    let (first, first_outcome) = pending(titled(&lease, "with it"));
    let (bad, bad_outcome) = pending(broken);
    setup.desk.write(vec![first, bad]).await;
    assert!(first_outcome.await.unwrap().is_err());
    assert!(bad_outcome.await.unwrap().is_err());
    assert_eq!(tries.load(Ordering::Relaxed), 1, "it is not tried again");
    for _ in 0..2 {
        let Err(StoreError::Storage(why)) = setup.write(titled(&lease, "later")).await else { panic!() };
        assert!(why.contains("fsync failed") && why.contains("until the next start"), "{why}");
    }
    assert_eq!(setup.stored_events().await, 1);
}

#[tokio::test]
async fn requests_of_one_transaction_see_each_other() {
    let mut setup = Setup::new().await;
    let old = setup.begin("a").await;
    let (before, before_outcome) = pending(titled(&old, "before"));
    let (releasing, _released) = pending(lease::SqliteLeaseRelease { lease: old.clone() });
    let (deleting, delete_outcome) = pending(session::SqliteSessionDeletion { id: "a".into() });
    let (claiming, claim_outcome) = pending(claim("a"));
    setup.desk.write(vec![before, releasing, deleting, claiming]).await;
    assert_eq!(before_outcome.await.unwrap(), Ok(2));
    assert_eq!(delete_outcome.await.unwrap(), Ok(()));
    assert_eq!(claim_outcome.await.unwrap(), Err(StoreError::NotFound("session a".into())));
    assert_eq!(setup.stored_events().await, 0, "staged events are deleted with their session");

    let old = setup.begin("a").await;
    let (before, _before) = pending(titled(&old, "before"));
    let (releasing, _released) = pending(lease::SqliteLeaseRelease { lease: old });
    let (claiming, claim_outcome) = pending(claim("a"));
    setup.desk.write(vec![before, releasing, claiming]).await;
    let new = claim_outcome.await.unwrap().unwrap();
    assert_eq!(setup.write(titled(&new, "after")).await, Ok(3));
}

#[tokio::test]
async fn chunks_of_one_transaction_follow_each_other() {
    let mut setup = Setup::new().await;
    let lease = setup.begin("a").await;
    let put = |index: u64| {
        let chunk = AnswerChunk { step: "s".into(), index, body: format!("{index}\0\"") };
        pending(chunk::SqliteChunkInsert { lease: lease.clone(), chunk })
    };
    for breaks in [false, true] {
        let first = if breaks { 3 } else { 0 };
        let indices = [first, first + 1, first + 1, first + 3, first + 2];
        let (mut requests, outcomes): (Vec<_>, Vec<Outcome<()>>) = indices.map(put).into_iter().unzip();
        if breaks {
            requests.push(pending(Broken::new(passing).0).0);
        }
        setup.desk.write(requests).await;
        let mut kept = Vec::new();
        for outcome in outcomes {
            kept.push(outcome.await.unwrap().is_ok());
        }
        assert_eq!(kept, [true, true, false, false, true], "no chunk twice and none missing");
    }
    let stored: Vec<(i64, String)> = sqlx::query_as("SELECT idx, body FROM chunk ORDER BY id")
        .fetch_all(&mut setup.desk.db)
        .await
        .unwrap();
    let expected: Vec<_> = (0..6).map(|index| (index, format!("{index}\0\""))).collect();
    assert_eq!(stored, expected);
}

#[tokio::test]
async fn a_transaction_is_bounded_in_requests_and_bytes() {
    let lease = Lease { session_id: "a".into(), epoch: 1 };
    let waits = |titles: Vec<String>| {
        let (sender, waiting) = tokio::sync::mpsc::channel(1024);
        for title in titles {
            let request = super::SqliteWriterMessage::Write(pending(titled(&lease, &title)).0);
            assert!(sender.try_send(request).is_ok());
        }
        waiting
    };
    for (titles, expected) in [
        (vec!["x".to_owned(); 1000], super::BATCH_REQUESTS),
        (vec!["x".repeat(super::BATCH_BYTES / 2); 9], 2),
    ] {
        let mut waiting = waits(titles);
        let first = waiting.recv().await.unwrap();
        assert_eq!(gather(first, &mut waiting).len(), expected);
    }
}
