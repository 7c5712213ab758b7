//! The decisions of a chat at a terminal that are equal in both presentations: the meaning of an entered line, of an
//! event, and of work that is done.

use std::process::ExitCode;
use std::sync::Arc;

use longhaul::api_events::ApiEvent;
use longhaul::clock::now_ms;
use longhaul::event_bus::{EventReceiver, RecvError, SharedEvent};
use longhaul_core::ids::Millis;
use longhaul_core::queue::QueuedMessage;
use longhaul_core::run::RunStatus;
use tokio::task::JoinSet;

use crate::failure::{CANCELLED, CommandError, DONE, Outcome};
use crate::term::meter::ContextMeterBar;
use crate::term::style::TextPainter;
use crate::term::transcript::TranscriptRenderer;
use crate::term::ui_event::{self, UiEvent};
use crate::undo_check;

use super::approvals::{ApprovalQueue, TypedApprovalAnswer, question};
use super::frame_rate::{SubscriptionItem, collect_event_batch};
use super::slash::{ChatCommand, ChatCommandResult};
use super::{ChatContext, ChatTransition, texts, unlogged_hints};

/// The maximum time between two presses of a key that count as a double press, in milliseconds.
const TWICE: Millis = 2_000;

/// The presses of a key that cancels once and leaves twice.
#[derive(Debug, Default)]
pub(crate) struct DoublePress(Option<Millis>);

impl DoublePress {
    /// Returns whether a press at `now` is the second of two.
    pub(crate) fn is_second(&self, now: Millis) -> bool {
        self.0.is_some_and(|before| now.saturating_sub(before) < TWICE)
    }

    /// Notes a first press.
    pub(crate) fn note(&mut self, now: Millis) {
        self.0 = Some(now);
    }
}

/// A presentation of a chat: line by line, or as a screen.
pub(super) trait ChatView {
    /// Returns the transcript.
    fn transcript(&mut self) -> &mut TranscriptRenderer;

    /// Returns the columns for text.
    fn text_columns(&self) -> usize;

    /// Shows an event.
    fn take(&mut self, happening: &UiEvent, now: Millis);

    /// Sets the meter.
    fn set_meter(&mut self, meter: ContextMeterBar);

    /// Sets the waiting messages.
    fn set_queue(&mut self, waiting: &[QueuedMessage], is_busy: bool);

    /// Sets the tool of the open question.
    fn set_asked(&mut self, tool: Option<&str>);

    /// Shows the hint that the open question has other answers.
    fn hint_at_answers(&mut self, style: TextPainter);

    /// Shows that a message waits at a place of the queue.
    fn show_queued(&mut self, place: usize, style: TextPainter);

    /// Adds an entered line to the history of the up key.
    fn remember(&mut self, text: &str);

    /// Shows the text of a command.
    fn reply(&mut self, text: &str);
}

/// A chat with a person at a terminal.
pub(super) struct TerminalChat<'a, 'b, V> {
    pub(super) talk: &'a mut ChatContext<'b>,
    pub(super) view: V,
    pub(super) approvals: ApprovalQueue,
    pub(super) work: JoinSet<Outcome<String>>,
    /// The call of the last shown question.
    asked: Option<String>,
}

impl<'a, 'b, V: ChatView> TerminalChat<'a, 'b, V> {
    /// Creates a chat without questions and work.
    pub(super) fn new(talk: &'a mut ChatContext<'b>, view: V) -> Self {
        Self { talk, view, approvals: ApprovalQueue::default(), work: JoinSet::new(), asked: None }
    }

    /// Returns whether a run is active.
    pub(super) fn is_busy(&self) -> bool {
        !matches!(*self.talk.session.status().borrow(), RunStatus::Idle | RunStatus::Parked)
    }

    /// Returns the end of the chat by the person.
    pub(super) fn leave(&self) -> ChatTransition {
        ChatTransition::Leave(if self.is_busy() { ExitCode::from(CANCELLED) } else { DONE })
    }

    /// Cancels the run. The keyboard answers meanwhile, because a cancel waits for tools to end.
    pub(super) fn cancel(&mut self) {
        self.work.spawn(self.talk.cancel());
    }

    /// Handles an entered line: a command, an answer to the open question, or a message.
    pub(super) async fn entered(&mut self, text: &str) -> Outcome<Option<ChatTransition>> {
        if let Some(slash) = ChatCommand::of(text) {
            self.view.remember(text);
            let echo = self.talk.style.dim(&format!("\n› {text}"));
            self.view.transcript().aside(&echo);
            return Ok(self.command(slash).await);
        }
        // Commands come before the question: a person may look something up before answering.
        if self.approvals.first().is_some() {
            return self.answered(text).await.map(|()| None);
        }
        if text.trim().is_empty() {
            return Ok(None);
        }
        self.view.remember(text);
        match self.talk.send(text).await {
            Ok(sent) if sent.queued => self.view.show_queued(sent.position, self.talk.style),
            Ok(_) => {}
            Err(failure) => self.view.transcript().failure(&texts::not_sent(failure.message())),
        }
        self.read_queue().await?;
        Ok(None)
    }

    async fn answered(&mut self, text: &str) -> Outcome<()> {
        let answer = TypedApprovalAnswer::of(text);
        if answer == TypedApprovalAnswer::Unclear {
            self.view.hint_at_answers(self.talk.style);
            return Ok(());
        }
        let echo = format!("  {}", self.talk.style.dim(&format!("› {text}")));
        self.view.transcript().row(&echo);
        self.approvals.answer(answer, &self.talk.session).await?;
        self.ask();
        Ok(())
    }

    /// Asks the oldest open question, once.
    fn ask(&mut self) {
        let call = self.approvals.first();
        // A question already shown must not be printed again with each event.
        if let Some(call) = call.filter(|call| self.asked.as_ref() != Some(&call.id)) {
            let asked = question(call, self.view.text_columns(), self.talk.style);
            self.view.transcript().row(&asked);
        }
        self.asked = call.map(|call| call.id.clone());
        self.view.set_asked(call.map(|call| call.tool.as_str()));
    }

    async fn command(&mut self, slash: ChatCommand) -> Option<ChatTransition> {
        match self.talk.perform(slash).await {
            Ok(ChatCommandResult::Text(text)) => self.reply(&text),
            Ok(ChatCommandResult::Work(work)) => {
                self.work.spawn(work);
            }
            Ok(ChatCommandResult::Next(next)) => return Some(next),
            Err(failure) => self.view.transcript().failure(failure.message()),
        }
        // The command is done, so a stale queue or meter is no error: the next event refreshes it.
        let _ = self.read_queue().await;
        let _ = self.read_meter().await;
        None
    }

    fn reply(&mut self, text: &str) {
        if !text.is_empty() {
            self.view.reply(text);
        }
    }

    /// Shows the outcome of work that is done.
    pub(super) fn worked(&mut self, done: Outcome<String>) {
        match done {
            Ok(text) => self.reply(&text),
            Err(failure) => self.view.transcript().failure(failure.message()),
        }
    }

    /// Takes the events that have arrived.
    pub(super) async fn told(
        &mut self,
        told: Result<Arc<SharedEvent>, RecvError>,
        watch: &mut EventReceiver,
    ) -> Outcome<()> {
        for heard in collect_event_batch(told, watch)? {
            match heard {
                SubscriptionItem::Told(announcement) => self.take(&announcement).await?,
                SubscriptionItem::Missed(missed) => self.view.transcript().warning(&texts::missed(missed)),
            }
        }
        for hint in unlogged_hints() {
            self.view.transcript().warning(&hint);
        }
        Ok(())
    }

    async fn take(&mut self, announcement: &ApiEvent) -> Outcome<()> {
        let Some(mut happening) = ui_event::event_from_announcement(announcement) else { return Ok(()) };
        undo_check::complete(&self.talk.session, &mut happening).await;
        match &happening {
            UiEvent::Usage | UiEvent::Omitted { .. } | UiEvent::Restored { .. } => self.read_meter().await?,
            UiEvent::Dequeued { .. } => self.read_queue().await?,
            // The answer may come from another client of the session.
            UiEvent::Decided { approval_id } => self.approvals.close(approval_id),
            // A run that has ended asks nothing more, although no answer was given.
            UiEvent::RunEnded(_) => self.approvals.clear(),
            UiEvent::Broken { message } => return Err(CommandError::new(texts::broken(message))),
            UiEvent::Asked { approval_id, call } => {
                self.approvals.ask(approval_id, call.clone(), &self.talk.session).await?;
            }
            _ => {}
        }
        self.view.take(&happening, now_ms());
        self.ask();
        Ok(())
    }

    /// Reads the meter.
    pub(super) async fn read_meter(&mut self) -> Outcome<()> {
        self.view.set_meter(ContextMeterBar::of(&self.talk.session.context().await?));
        Ok(())
    }

    /// Reads the waiting messages.
    pub(super) async fn read_queue(&mut self) -> Outcome<()> {
        let waiting = self.talk.session.queue().await?;
        let is_busy = self.is_busy();
        self.view.set_queue(&waiting, is_busy);
        Ok(())
    }
}
