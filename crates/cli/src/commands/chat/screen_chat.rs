//! A chat with a person on a terminal that can be drawn on. Inputs of the keyboard, the session and the clock
//! are handled one after the other.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use longhaul::api_events::ApiEvent;
use longhaul::clock::now_ms;
use longhaul::event_bus::{EventReceiver, RecvError, SharedEvent};
use longhaul_core::event::EventBody;
use longhaul_core::ids::QueueId;
use longhaul_core::message::Part;
use longhaul_core::queue::QueuedMessage;
use longhaul_core::run::RunStatus;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, sleep_until};

use crate::failure::{CANCELLED, CommandError, DONE, Outcome};
use crate::signals::InterruptSignals;
use crate::term::meter::ContextMeterBar;
use crate::term::text::visible;
use crate::term::ui_event::{self, UiEvent, readable};
use crate::tui::{
    KeyAction, QueuedMessageRow, ScreenInput, SlashCommandHelp, TerminalScreen, UiCommand, UiState, is_there,
    size,
};
use crate::undo_check;

use super::approvals::{ApprovalQueue, TypedApprovalAnswer, question};
use super::frame_rate::{self, SETTLE, TICK, collect_event_batch};
use super::slash::{ChatCommand, ChatCommandResult, described};
use super::{ChatContext, ChatTransition, texts};

/// The minimum time between two pictures.
const FRAME: Duration = Duration::from_millis(16);

struct ScreenChat<'a, 'b> {
    talk: &'a mut ChatContext<'b>,
    screen: &'a mut TerminalScreen,
    state: UiState,
    approvals: ApprovalQueue,
    /// The call of the last shown question.
    shown: Option<String>,
    work: JoinSet<Outcome<String>>,
    /// The earliest time of the next picture.
    draw_at: Instant,
    is_resized: bool,
}

/// Talks until the person leaves or changes the session.
pub(super) async fn talk(
    talk: &mut ChatContext<'_>,
    screen: &mut TerminalScreen,
    opening: &str,
) -> Outcome<ChatTransition> {
    // Subscribed before the first read of the session: events that happen meanwhile wait in the subscription.
    let watch = talk.session.watch();
    let (columns, rows) = size();
    let commands =
        described().map(|(usage, does)| SlashCommandHelp { usage: usage.into(), does: does.into() });
    let mut seen = ScreenChat {
        state: UiState::new(talk.style, columns, rows, commands.collect())
            .with_retry(talk.runtime.agent().rules.retry),
        talk,
        screen,
        approvals: ApprovalQueue::default(),
        shown: None,
        work: JoinSet::new(),
        draw_at: Instant::now(),
        is_resized: false,
    };
    seen.state.transcript.row(opening);
    seen.remember().await?;
    seen.read_meter().await?;
    seen.read_queue().await?;
    let next = seen.go_on(watch).await;
    // If the terminal is gone, there is nothing to draw on.
    let _ = seen.finish();
    next
}

impl ScreenChat<'_, '_> {
    async fn go_on(&mut self, mut watch: EventReceiver) -> Outcome<ChatTransition> {
        let mut interrupts = InterruptSignals::listen()?;
        let mut tick = tokio::time::interval(TICK);
        // Ticks that were missed during slow work are not made up for.
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut is_stale = true;
        loop {
            if is_stale && self.show().is_err() {
                return Ok(self.leave());
            }
            // A picture that was put off until `draw_at` is still owed.
            is_stale = Instant::now() < self.draw_at && is_stale;
            let next = tokio::select! {
                heard = self.screen.next() => {
                    is_stale = true;
                    self.heard(heard).await?
                }
                told = watch.recv() => {
                    is_stale = true;
                    self.told(told, &mut watch).await?;
                    None
                }
                Some(done) = self.work.join_next() => {
                    is_stale = true;
                    // The error of a join is a panic, and the panic hook has printed its message.
                    self.worked(done.unwrap_or_else(|_| Ok(String::new())));
                    None
                }
                () = sleep_until(self.draw_at), if is_stale => None,
                _ = tick.tick() => {
                    is_stale = true;
                    self.state.transcript.flush_idle_rows();
                    // Not every terminal that goes away sends an event or a signal.
                    (!is_there()).then(|| self.leave())
                }
                () = interrupts.next() => Some(ChatTransition::Leave(ExitCode::from(CANCELLED))),
            };
            if let Some(next) = next {
                return Ok(next);
            }
        }
    }

    /// Draws, unless it was just done or the terminal is still changing its size.
    fn show(&mut self) -> std::io::Result<()> {
        let now = Instant::now();
        // The terminal may change without a signal, for example while the program was suspended.
        if !self.is_resized && size() != self.state.size() {
            (self.is_resized, self.draw_at) = (true, now + SETTLE);
        }
        if now < self.draw_at {
            return Ok(());
        }
        if std::mem::take(&mut self.is_resized) {
            let (columns, rows) = self.screen.resized();
            self.state.resize(columns, rows);
        }
        self.draw_at = now + FRAME;
        self.state.set_busy(self.is_busy(), !self.work.is_empty());
        let finished = self.state.finished();
        self.screen.draw(&finished, &self.state.view(now_ms()))
    }

    /// Prints the remaining rows above the live rows.
    fn finish(&mut self) -> std::io::Result<()> {
        let rest = self.state.rest();
        self.screen.draw(&rest, &self.state.view(now_ms()))
    }

    fn is_busy(&self) -> bool {
        !matches!(*self.talk.session.status().borrow(), RunStatus::Idle | RunStatus::Parked)
    }

    fn leave(&self) -> ChatTransition {
        ChatTransition::Leave(if self.is_busy() { ExitCode::from(CANCELLED) } else { DONE })
    }

    async fn heard(&mut self, heard: ScreenInput) -> Outcome<Option<ChatTransition>> {
        match heard {
            ScreenInput::Did(action) => return self.did(action).await,
            ScreenInput::Resized => (self.is_resized, self.draw_at) = (true, Instant::now() + SETTLE),
            ScreenInput::Logged(line) => self.state.transcript.aside(&visible(&line)),
            ScreenInput::Gone => return Ok(Some(self.leave())),
        }
        Ok(None)
    }

    async fn did(&mut self, action: KeyAction) -> Outcome<Option<ChatTransition>> {
        // A key is answered without the wait for the next frame, unless a resize has yet to settle.
        if !self.is_resized {
            self.draw_at = Instant::now();
        }
        // A key such as Ctrl-C means something else while a run goes on, so the state must be current.
        self.state.set_busy(self.is_busy(), !self.work.is_empty());
        match self.state.act(action, now_ms()) {
            None => Ok(None),
            Some(UiCommand::Entered(text)) => self.entered(&text).await,
            Some(UiCommand::Change { id, text }) => self.change(&id, &text).await.map(|()| None),
            Some(UiCommand::Cancel) => {
                self.work.spawn(self.talk.cancel());
                Ok(None)
            }
            Some(UiCommand::Leave) => Ok(Some(self.leave())),
            Some(UiCommand::Suspend) => Ok(self.screen.suspend().is_err().then(|| self.leave())),
            Some(UiCommand::Redraw) => {
                // Another program may have drawn over the rows, so nothing on the screen is taken as known.
                self.screen.forget();
                Ok(None)
            }
        }
    }

    async fn entered(&mut self, text: &str) -> Outcome<Option<ChatTransition>> {
        if let Some(slash) = ChatCommand::of(text) {
            self.state.transcript.aside(&self.talk.style.dim(&format!("\n› {text}")));
            return Ok(self.command(slash).await);
        }
        if self.approvals.first().is_some() {
            return self.answered(text).await.map(|()| None);
        }
        match self.talk.send(text).await {
            Ok(sent) if sent.queued => self.read_queue().await?,
            Ok(_) => {}
            Err(failure) => self.state.transcript.failure(&texts::not_sent(failure.message())),
        }
        Ok(None)
    }

    async fn answered(&mut self, text: &str) -> Outcome<()> {
        let answer = TypedApprovalAnswer::of(text);
        if answer == TypedApprovalAnswer::Unclear {
            self.state.hint(texts::ANSWER, now_ms());
            return Ok(());
        }
        self.state.transcript.row(&format!("  {}", self.talk.style.dim(&format!("› {text}"))));
        self.approvals.answer(answer, &self.talk.session).await?;
        self.ask();
        Ok(())
    }

    /// Asks the oldest open question, once.
    fn ask(&mut self) {
        let call = self.approvals.first();
        // A question already shown must not be printed again with each event.
        if let Some(call) = call.filter(|call| self.shown.as_ref() != Some(&call.id)) {
            self.state.transcript.row(&question(call, self.state.width(), self.talk.style));
        }
        self.shown = call.map(|call| call.id.clone());
        self.state.set_asked(call.map(|call| call.tool.as_str()));
    }

    async fn change(&mut self, id: &str, text: &str) -> Outcome<()> {
        let id = QueueId::new(id);
        let session = &self.talk.session;
        let changed = if text.is_empty() {
            session.remove_queued(id).await
        } else {
            session.edit_queued(id, vec![Part::text(text)]).await
        };
        // The run may have taken the message between the key and the change.
        if changed.is_err() {
            // The text goes back into the input, or the person would have to type it again.
            self.state.write(text);
            self.state.hint(texts::TAKEN_MEANWHILE, now_ms());
        }
        self.read_queue().await
    }

    async fn command(&mut self, slash: ChatCommand) -> Option<ChatTransition> {
        match self.talk.perform(slash).await {
            Ok(ChatCommandResult::Text(text)) => self.reply(&text),
            Ok(ChatCommandResult::Work(work)) => {
                self.work.spawn(work);
            }
            Ok(ChatCommandResult::Next(next)) => return Some(next),
            Err(failure) => self.state.transcript.failure(failure.message()),
        }
        // The command is done, so a stale queue is no error: the next event refreshes it.
        let _ = self.read_queue().await;
        let _ = self.read_meter().await;
        None
    }

    fn reply(&mut self, text: &str) {
        if !text.is_empty() {
            self.state.transcript.aside(text);
        }
    }

    fn worked(&mut self, done: Outcome<String>) {
        match done {
            Ok(text) => self.reply(&text),
            Err(failure) => self.state.transcript.failure(failure.message()),
        }
    }

    async fn told(
        &mut self,
        told: Result<Arc<SharedEvent>, RecvError>,
        watch: &mut EventReceiver,
    ) -> Outcome<()> {
        for heard in collect_event_batch(told, watch)? {
            match heard {
                frame_rate::SubscriptionItem::Told(announcement) => self.take(&announcement).await?,
                frame_rate::SubscriptionItem::Missed(missed) => {
                    self.state.transcript.warning(&texts::missed(missed))
                }
            }
        }
        for hint in super::unlogged_hints() {
            self.state.transcript.warning(&hint);
        }
        Ok(())
    }

    async fn take(&mut self, announcement: &ApiEvent) -> Outcome<()> {
        let Some(mut happening) = ui_event::event_from_announcement(announcement) else { return Ok(()) };
        undo_check::complete(&self.talk.session, &mut happening).await;
        match &happening {
            UiEvent::Usage | UiEvent::Omitted { .. } | UiEvent::Restored { .. } => self.read_meter().await?,
            UiEvent::Dequeued { .. } => self.read_queue().await?,
            UiEvent::Decided { approval_id } => self.approvals.close(approval_id),
            UiEvent::RunEnded(_) => self.approvals.clear(),
            UiEvent::Broken { message } => return Err(CommandError::new(texts::broken(message))),
            UiEvent::Asked { approval_id, call } => {
                self.approvals.ask(approval_id, call.clone(), &self.talk.session).await?;
            }
            _ => {}
        }
        self.state.take(&happening, now_ms());
        self.ask();
        Ok(())
    }

    /// Loads the person's earlier messages into the history of the up key.
    async fn remember(&mut self) -> Outcome<()> {
        for event in self.talk.runtime.log(self.talk.session.id()).await? {
            if let EventBody::MessagesTaken { message, .. } = &event.body {
                self.state.remember(&readable(&message.parts));
            }
        }
        Ok(())
    }

    async fn read_meter(&mut self) -> Outcome<()> {
        self.state.meter = ContextMeterBar::of(&self.talk.session.context().await?);
        Ok(())
    }

    async fn read_queue(&mut self) -> Outcome<()> {
        let waiting = self.talk.session.queue().await?;
        self.state.set_queue(waiting.iter().map(waits).collect(), now_ms());
        Ok(())
    }
}

fn waits(entry: &QueuedMessage) -> QueuedMessageRow {
    // Editing a message with a picture as text would lose the picture.
    let is_text = entry.parts.iter().all(|part| part.as_text().is_some());
    QueuedMessageRow { id: entry.id.as_str().to_owned(), text: readable(&entry.parts), is_text }
}
