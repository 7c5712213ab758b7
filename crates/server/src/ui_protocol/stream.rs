//! An answer as a stream to a client.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use longhaul::event_bus::SharedEvent;
use longhaul::session::Session;
use longhaul_core::error::ErrorCode;
use longhaul_core::ids::QueueId;
use longhaul_core::run::RunStatus;
use serde_json::Value;

use super::{UiAnswerSubscription, UiProtocol, UiStreamEnd, UiStreamEvent, UiStreamTranslator};
use crate::app::AppState;
use crate::sse::with_heartbeats;

/// The maximum rest of a session before the waiting message counts as not taken.
const GRACE: Duration = Duration::from_millis(500);

/// An answer in progress.
struct UiAnswerStream {
    events: Pin<Box<dyn Stream<Item = Arc<SharedEvent>> + Send>>,
    session: Session,
    fold: UiStreamTranslator,
    opening: Vec<UiStreamEvent>,
}

/// Returns the events of an answer, in batches on arrival.
pub(crate) fn acts(turn: UiAnswerSubscription) -> impl Stream<Item = Vec<UiStreamEvent>> + Send {
    let UiAnswerSubscription { session, watcher, mut fold } = turn;
    let opening = fold.open();
    let telling = UiAnswerStream { events: Box::pin(watcher.events()), session, fold, opening };
    futures_util::stream::unfold(telling, async |mut telling| {
        let acts = telling.next().await?;
        Some((acts, telling))
    })
}

/// Returns the answer in a protocol, with heartbeats. A leaving client stops nothing.
pub(crate) fn answer<D: UiProtocol>(
    app: &AppState,
    turn: UiAnswerSubscription,
    mut dialect: D,
) -> impl Stream<Item = Result<Bytes, Infallible>> + use<D> {
    let told = acts(turn).filter_map(move |acts| {
        let mut text = String::new();
        for act in acts {
            dialect.write(act, &mut text);
        }
        std::future::ready((!text.is_empty()).then(|| Bytes::from(text)))
    });
    with_heartbeats(told, app.config().heartbeat)
}

/// Writes a frame of an event stream.
pub(crate) fn data(value: &Value, out: &mut String) {
    out.push_str("data: ");
    out.push_str(&value.to_string());
    out.push_str("\n\n");
}

impl UiAnswerStream {
    async fn next(&mut self) -> Option<Vec<UiStreamEvent>> {
        // The opening comes before the first wait, so that a client sees at once that its message arrived.
        if !self.opening.is_empty() {
            return Some(std::mem::take(&mut self.opening));
        }
        if self.fold.is_over() {
            return None;
        }
        Some(self.next_events().await)
    }

    async fn next_events(&mut self) -> Vec<UiStreamEvent> {
        let event = match self.fold.awaits().cloned() {
            None => self.events.next().await,
            Some(id) => tokio::select! {
                // Events that have arrived come first: one of them may say that the message was taken.
                biased;
                event = self.events.next() => event,
                end = left_waiting(&self.session, &id) => return self.fold.break_off(end),
            },
        };
        match event {
            Some(event) => self.fold.take(&event),
            None => {
                let message = "The session or the server has stopped; all messages are kept.".to_owned();
                self.fold.break_off(UiStreamEnd::Failed { code: ErrorCode::Interrupted, message })
            }
        }
    }
}

/// Waits until no run will take the message soon, and returns the end of the stream.
async fn left_waiting(session: &Session, id: &QueueId) -> UiStreamEnd {
    let mut status = session.status();
    loop {
        let now = *status.borrow_and_update();
        if matches!(now, RunStatus::Idle | RunStatus::Parked | RunStatus::WaitingApproval) {
            // Between two runs a session rests for a moment, and the next run may take the message.
            match tokio::time::timeout(GRACE, status.changed()).await {
                Ok(Ok(())) => continue,
                // A closed channel means that the session ends. The stream of events ends the answer then.
                Ok(Err(_)) => return std::future::pending().await,
                Err(_) if waits(session, id).await => return not_taken(now),
                Err(_) => {}
            }
        }
        if status.changed().await.is_err() {
            return std::future::pending().await;
        }
    }
}

async fn waits(session: &Session, id: &QueueId) -> bool {
    // A queue that cannot be read counts as empty: the message may have been taken, and the wait goes on.
    session.queue().await.unwrap_or_default().iter().any(|entry| entry.id == *id)
}

fn not_taken(status: RunStatus) -> UiStreamEnd {
    if status == RunStatus::WaitingApproval {
        return UiStreamEnd::Waits {
            message: "A tool call waits for approval: this message waits until that is answered.".to_owned(),
        };
    }
    let message = "The run was stopped before it came to this message, which waits: go on, or send another.";
    UiStreamEnd::Failed { code: ErrorCode::Interrupted, message: message.to_owned() }
}
