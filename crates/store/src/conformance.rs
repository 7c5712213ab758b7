//! The promises of every back-end, as tests for any back-end.
//!
//! A back-end writes `longhaul_store::conformance!(make);` in a test module, where
//! `async fn make() -> (SharedStore, Guard)` gives a new empty store and whatever must outlive it.
//! Each promise becomes one test of its own name.
#![expect(clippy::unwrap_used, reason = "these are tests: a failure is their purpose")]

mod chunks;
mod inbox;
mod lease;
mod log;
#[doc(hidden)]
pub mod model;
mod requests;
mod sessions;
mod store_maintenance;
mod watch;

use longhaul_core::event::{EventBody, NoteReason, RunEnd};
use longhaul_core::ids::{Millis, QueueId, Seq, SessionId};
use longhaul_core::message::{Message, Part};
use longhaul_core::metadata::MessageMetadata;

use crate::{EnqueueReceipt, Lease, LogAppend, NewQueuedMessage, NewSession, SharedStore, StoreError};

#[doc(hidden)]
pub use self::chunks::*;
#[doc(hidden)]
pub use self::inbox::*;
#[doc(hidden)]
pub use self::lease::*;
#[doc(hidden)]
pub use self::log::*;
#[doc(hidden)]
pub use self::requests::*;
#[doc(hidden)]
pub use self::sessions::*;
#[doc(hidden)]
pub use self::store_maintenance::*;
#[doc(hidden)]
pub use self::watch::*;

/// Makes one test of each promise. See [the module](mod@crate::conformance).
#[macro_export]
macro_rules! conformance {
    ($make:ident) => {
        $crate::conformance! { $make:
            created_sessions_are_found, a_taken_id_is_a_conflict, a_log_is_never_empty,
            unknown_sessions_are_not_found, the_last_changed_session_comes_first,
            sessions_are_counted, the_record_follows_the_log, the_record_says_what_is_parked, a_deleted_session_is_gone, a_leased_session_is_not_deleted,
            a_closed_store_refuses,
            seq_counts_without_gaps, events_come_back_as_they_went_in,
            metadata_is_stored_with_its_message, large_bodies_are_kept,
            a_refused_append_leaves_nothing, an_append_without_events_takes_and_settles,
            the_log_is_read_in_pages, changes_of_the_view_are_found, large_events_are_read_among_small_ones, the_tail_is_the_newest,
            writers_of_different_sessions_do_not_mix, readers_never_see_a_gap, blobs_named_by_the_log_are_listed,
            an_older_claim_is_fenced, a_released_lease_is_void, releasing_a_void_lease_changes_nothing,
            of_two_racing_claims_one_holds, a_lease_does_not_outlive_its_session,
            queued_messages_have_positions, a_repeated_key_adds_nothing, keys_belong_to_their_session,
            the_queue_has_a_limit, a_taken_queue_id_is_a_conflict, waiting_messages_can_be_edited,
            metadata_waits_with_its_message,
            waiting_messages_can_be_removed, the_queue_can_be_cleared, a_message_is_taken_once,
            a_removed_message_is_not_taken, all_messages_are_taken_or_none,
            taking_and_removing_race_to_one_end, enqueueing_needs_no_lease,
            a_repeated_request_finds_its_answer, a_forgotten_request_is_new, of_racing_requests_one_is_first,
            requests_belong_to_their_session,
            chunks_are_kept_in_order, settled_chunks_are_dropped, only_the_next_chunk_is_kept,
            chunks_are_fenced,
            a_watch_starts_at_the_newest, a_watch_sees_the_newest, a_watch_misses_nothing,
            a_watch_ends_with_its_session, a_watch_ends_with_the_store,
        }
    };
    ($make:ident: $($case:ident),+ $(,)?) => {
        mod conformance {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    let (store, _guard) = super::$make().await;
                    $crate::conformance::$case(::std::sync::Arc::clone(&store)).await;
                    store.close().await;
                }
            )+
        }
    };
}

/// The time of every step without a time of its own.
const NOW: Millis = 1_700_000_000_000;

fn started() -> EventBody {
    EventBody::SessionStarted { title: None, forked_from: None, imported_from: None, folder: None }
}

fn note(text: &str) -> EventBody {
    EventBody::NoteAdded { message: Message::user("m", vec![Part::text(text)]), why: NoteReason::Imported }
}

fn run_finished() -> EventBody {
    EventBody::RunFinished { run_id: "r".into(), reason: RunEnd::Stop, error: None }
}

fn titled(title: &str) -> EventBody {
    EventBody::TitleSet { title: title.to_owned() }
}

fn new_session(id: &str, at: Millis) -> NewSession {
    NewSession { id: id.into(), title: None, at, events: vec![(at, started())] }
}

fn append(events: Vec<EventBody>) -> LogAppend {
    LogAppend { at: NOW, events, ..LogAppend::default() }
}

/// A store with one session, whose log has one event.
struct ConformanceSetup {
    store: SharedStore,
    id: SessionId,
}

impl ConformanceSetup {
    async fn new(store: SharedStore) -> Self {
        let id = SessionId::from("s");
        store.create(new_session("s", NOW)).await.unwrap();
        Self { store, id }
    }

    async fn claim(&self) -> Lease {
        self.store.claim(&self.id, "owner").await.unwrap()
    }

    async fn log(&self) -> Vec<EventBody> {
        let events = self.store.read(&self.id, 0, usize::MAX).await.unwrap();
        events.into_iter().map(|event| event.body).collect()
    }

    async fn enqueue(&self, id: &str, key: Option<&str>) -> Result<EnqueueReceipt, StoreError> {
        self.store.enqueue(&self.id, message(id, key, 100)).await
    }

    async fn waiting(&self) -> Vec<QueueId> {
        let queue = self.store.queue(&self.id).await.unwrap();
        queue.into_iter().map(|queued| queued.id).collect()
    }
}

fn message(id: &str, key: Option<&str>, queue_limit: usize) -> NewQueuedMessage {
    NewQueuedMessage {
        client_key: key.map(str::to_owned),
        ..NewQueuedMessage::new(id, NOW, vec![Part::text(format!("text of {id}"))], queue_limit)
    }
}

/// Metadata with all that is hard to keep: the order of its keys, signs that a text column may not have, levels.
fn metadata(of: &str) -> MessageMetadata {
    let object = serde_json::json!({
        "zebra": of, "apple": [null, true, -1.5, 18_446_744_073_709_551_615_u64, {}], "": { "é\0\"": ["a\u{1a}0"] },
    });
    MessageMetadata::try_from(object).unwrap()
}

/// Metadata as text: objects are equal in any order of their keys.
fn metadata_text(metadata: Option<&MessageMetadata>) -> String {
    serde_json::to_string(&metadata).unwrap()
}

fn accepted(id: &str, position: usize, repeated: bool) -> Result<EnqueueReceipt, StoreError> {
    Ok(EnqueueReceipt { id: id.into(), position, repeated })
}

fn not_found<T>(answer: &Result<T, StoreError>) -> bool {
    matches!(answer, Err(StoreError::NotFound(_)))
}

fn conflict<T>(answer: &Result<T, StoreError>) -> bool {
    matches!(answer, Err(StoreError::Conflict(_)))
}

fn fenced<T>(answer: &Result<T, StoreError>, id: &SessionId) -> bool {
    matches!(answer, Err(StoreError::Fenced(fenced)) if fenced == id)
}

fn seqs(events: &[longhaul_core::event::Event]) -> Vec<Seq> {
    events.iter().map(|event| event.seq).collect()
}
