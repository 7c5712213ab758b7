//! A turn: a message of the user, and everything until the final answer.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream};
use futures_util::{FutureExt, Stream, StreamExt};
use longhaul_core::event::{ErrorInfo, RunEnd};
use longhaul_core::history::{History, LogEntryKind};
use longhaul_core::ids::QueueId;
use longhaul_core::message::Part;
use longhaul_core::usage::Usage;

use super::{RunOutcome, Session, SessionError};
use crate::event_bus::{EventReceiver, RecvError, TryRecvError};
use crate::session_event::{MessageSource, SessionEvent};

/// A turn in progress: a stream of events until the end of the turn.
///
/// The turn does not depend on its stream being read. Dropping the stream stops nothing; [`Session::cancel`] does. The
/// stream ends with an error if the turn failed, so that `event?` is enough to notice.
///
/// ```
/// use longhaul::prelude::*;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let agent = Agent::builder().provider(ScriptedProvider::new(ModelScript::always("Hello!"))).build().await?;
/// let session = agent.session().await?;
/// let mut turn = session.turn("Hi").await?;
/// let mut said = String::new();
/// while let Some(event) = turn.next().await {
///     if let SessionEvent::TextDelta { text, .. } = event? {
///         said.push_str(&text);
///     }
/// }
/// let output = turn.finish().await?;
/// assert_eq!((said.as_str(), output.text.as_str()), ("Hello!", "Hello!"));
/// assert!(output.usage.output_tokens > 0);
/// # Ok(()) }
/// ```
#[must_use = "without it nobody notices how the turn ends"]
pub struct Turn {
    session: Session,
    events: BoxStream<'static, Result<SessionEvent, TurnError>>,
    output: TurnOutput,
    /// True after a loss of events that the output is made of.
    has_missed: bool,
    failure: Option<TurnError>,
}

/// The outcome of a turn.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct TurnOutput {
    /// The final answer.
    pub text: String,
    /// The usage of all model calls of the run. Zero where the server reports none.
    pub usage: Usage,
    /// The number of model calls in the run.
    pub steps: u32,
    /// The reason for the end of the run; `None` if the turn came to rest without one.
    pub end: Option<RunEnd>,
}

/// The failure of a turn.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TurnError {
    /// The run ended with an error: the model's server refused, could not be reached, or the request does not fit.
    #[error("{}", .0.message)]
    Run(ErrorInfo),
    /// The session stopped, or refused the message.
    #[error(transparent)]
    Session(#[from] SessionError),
}

impl Session {
    /// Sends a text and returns the new turn. The message is durable when this function returns, and a busy session
    /// takes the message at the next step.
    ///
    /// # Errors
    /// The errors of [`Session::send`].
    pub async fn turn(&self, text: impl Into<String>) -> Result<Turn, SessionError> {
        self.turn_with(vec![Part::text(text)]).await
    }

    /// Sends a message of several parts and returns the turn, as [`Session::turn`] does.
    ///
    /// # Errors
    /// The errors of [`Session::send`].
    pub async fn turn_with(&self, parts: Vec<Part>) -> Result<Turn, SessionError> {
        // Watching begins before the message is sent, so that no event of the turn is missed.
        let announcements = self.watch();
        let sent = self.send(parts).await?;
        let session = self.clone();
        // The driver gets this question after the message, so a rest before the turn does not end the turn.
        let settled = async move { session.settled().await }.boxed();
        let progress = TurnProgress {
            announcements,
            queue_id: sent.id,
            settled: Some(settled),
            last: RunOutcome::default(),
            failure: None,
            is_taken: false,
            is_over: false,
        };
        // A stream that has ended may be polled again.
        let events = stream::unfold(progress, |mut progress| async move {
            let event = progress.next().await?;
            Some((event, progress))
        });
        Ok(Turn {
            session: self.clone(),
            events: events.fuse().boxed(),
            output: TurnOutput::default(),
            has_missed: false,
            failure: None,
        })
    }
}

impl Turn {
    /// Returns the next event; `None` once the turn is over.
    ///
    /// # Errors
    /// [`TurnError`], as the last item.
    pub async fn next(&mut self) -> Option<Result<SessionEvent, TurnError>> {
        StreamExt::next(self).await
    }

    /// Waits until the turn is over, and returns the output.
    ///
    /// # Errors
    /// [`TurnError`] if the turn failed. The session keeps the messages until then.
    pub async fn finish(mut self) -> Result<TurnOutput, TurnError> {
        while self.next().await.is_some() {}
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        if self.has_missed {
            // A slow reader lost pieces of the text; the log has all of them.
            self.output.text = self.session.inspect_run(|run| final_answer(run.history())).await?;
        }
        Ok(self.output)
    }
}

impl Stream for Turn {
    type Item = Result<SessionEvent, TurnError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = self.events.poll_next_unpin(context);
        match &next {
            Poll::Ready(Some(Ok(SessionEvent::Lagged { .. }))) => self.has_missed = true,
            Poll::Ready(Some(Ok(event))) => self.output.note(event),
            Poll::Ready(Some(Err(error))) => self.failure = Some(error.clone()),
            Poll::Ready(None) | Poll::Pending => {}
        }
        next
    }
}

impl fmt::Debug for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turn").field("session", self.session.id()).field("output", &self.output).finish()
    }
}

impl TurnOutput {
    fn note(&mut self, event: &SessionEvent) {
        match event {
            SessionEvent::MessageAdded { source: MessageSource::Model, parts, continues, .. } => {
                // A paused answer is stored in pieces: a piece that continues another one adds to the text before.
                if continues.is_none() {
                    self.text.clear();
                }
                self.text.extend(parts.iter().filter_map(Part::as_text));
            }
            SessionEvent::RunFinished { end, steps, usage, .. } => {
                self.end = Some(*end);
                self.steps = *steps;
                self.usage = usage.clone().unwrap_or_default();
            }
            _ => {}
        }
    }
}

/// Returns the model's newest answer, joined from the pieces between pauses.
fn final_answer(history: &History) -> String {
    let newest = history.entries().last().filter(|entry| matches!(entry.kind, LogEntryKind::Assistant(_)));
    newest.map(|piece| history.whole(piece).text()).unwrap_or_default()
}

/// The progress of a turn's events.
struct TurnProgress {
    announcements: EventReceiver,
    /// The turn's message.
    queue_id: QueueId,
    /// The future of the session's next rest, which ends the turn if announcements are lost, or if a cancel leaves the
    /// message in the queue.
    settled: Option<BoxFuture<'static, Result<RunOutcome, SessionError>>>,
    last: RunOutcome,
    failure: Option<TurnError>,
    /// True once the message is in the conversation.
    is_taken: bool,
    is_over: bool,
}

impl TurnProgress {
    async fn next(&mut self) -> Option<Result<SessionEvent, TurnError>> {
        loop {
            if self.is_over {
                return self.failure.take().map(Err);
            }
            let Some(announcement) = self.next_item().await else { continue };
            let event = match announcement {
                TurnStreamItem::Event(event) => event,
                TurnStreamItem::Lagged(missed) => return Some(Ok(SessionEvent::Lagged { missed })),
            };
            match &event {
                SessionEvent::MessagesTaken { queue_ids } => {
                    // Until then, an end of a run belongs to the work that the message waited for.
                    self.is_taken |= queue_ids.contains(&self.queue_id);
                }
                SessionEvent::RunFinished { end, error, .. } if self.is_taken => {
                    self.end(RunOutcome { end: Some(*end), error: error.clone() });
                }
                _ => {}
            }
            return Some(Ok(event));
        }
    }

    /// Returns the next event; `None` if another condition must be checked first.
    async fn next_item(&mut self) -> Option<TurnStreamItem> {
        let received = match &mut self.settled {
            Some(settled) => tokio::select! {
                // Announcements before the rest must be delivered first.
                biased;
                received = self.announcements.recv() => received,
                outcome = settled => {
                    self.settled = None;
                    match outcome {
                        Ok(last) => self.last = last,
                        Err(error) => self.fail(error.into()),
                    }
                    return None;
                }
            },
            // The session is at rest. What it announced before may still be in the buffer, and it ends this stream.
            None => match self.announcements.try_recv() {
                Ok(told) => Ok(told),
                Err(TryRecvError::Lagged(missed)) => Err(RecvError::Lagged(missed)),
                Err(TryRecvError::Empty | TryRecvError::Closed) => {
                    let last = std::mem::take(&mut self.last);
                    self.end(last);
                    return None;
                }
            },
        };
        match received {
            Ok(told) => SessionEvent::from_announcement(&told).map(TurnStreamItem::Event),
            Err(RecvError::Lagged(missed)) => Some(TurnStreamItem::Lagged(missed)),
            Err(RecvError::Closed) => {
                self.fail(SessionError::Stopped.into());
                None
            }
        }
    }

    fn end(&mut self, settled: RunOutcome) {
        self.is_over = true;
        let failed = settled.end == Some(RunEnd::Error);
        // A run that ended by a limit may carry an error, too (`max-compactions`), and its turn has not failed.
        self.failure = settled.error.filter(|_| failed).map(TurnError::Run);
    }

    fn fail(&mut self, error: TurnError) {
        self.is_over = true;
        self.failure = Some(error);
    }
}

enum TurnStreamItem {
    Event(SessionEvent),
    Lagged(u64),
}
