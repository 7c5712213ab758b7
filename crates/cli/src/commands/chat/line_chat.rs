//! A chat with a person: keys, announcements and time, one after the other.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use longhaul::api_events::ApiEvent;
use longhaul::clock::now_ms;
use longhaul::event_bus::{EventReceiver, RecvError, SharedEvent};
use longhaul_core::run::RunStatus;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use crate::failure::{CANCELLED, CommandError, DONE, Outcome};
use crate::signals::InterruptSignals;
use crate::term::human::count;
use crate::term::meter::ContextMeterBar;
use crate::term::out;
use crate::term::transcript::{CONTROL_C, TranscriptRenderer, TranscriptTarget};
use crate::term::ui_event::{self, UiEvent};
use crate::term::wrap::fitting;
use crate::undo_check;

use super::approvals::{ApprovalQueue, TypedApprovalAnswer, answer_mark, question};
use super::console::{ConsoleInput, LineConsole};
use super::frame_rate::{SETTLE, SubscriptionItem, TICK, collect_event_batch};
use super::paste::{LineInputResult, PasteBuffer};
use super::slash::{ChatCommand, ChatCommandResult};
use super::status::ActivityTracker;
use super::{ChatContext, ChatTransition, texts};

/// The maximum time between two presses of Ctrl-C that count as a double press.
const TWICE: Duration = Duration::from_secs(2);

struct LineChat<'a, 'b> {
    talk: &'a mut ChatContext<'b>,
    console: &'a mut LineConsole,
    transcript: TranscriptRenderer,
    activity: ActivityTracker,
    approvals: ApprovalQueue,
    pasted: PasteBuffer,
    meter: ContextMeterBar,
    work: JoinSet<Outcome<String>>,
    interrupted: Option<Instant>,
    columns: usize,
}

/// Talks until the person leaves or changes the session.
pub(super) async fn talk(
    talk: &mut ChatContext<'_>,
    console: &mut LineConsole,
    opening: &str,
) -> Outcome<ChatTransition> {
    // Subscribed before the first read of the session: events that happen meanwhile wait in the subscription.
    let watch = talk.session.watch();
    let mut live = LineChat {
        transcript: TranscriptRenderer::new(talk.style, TranscriptTarget::Chat, out::width())
            .below_something()
            .with_retry(talk.runtime.agent().rules.retry, CONTROL_C),
        talk,
        console,
        activity: ActivityTracker::default(),
        approvals: ApprovalQueue::default(),
        pasted: PasteBuffer::default(),
        meter: ContextMeterBar::default(),
        work: JoinSet::new(),
        interrupted: None,
        columns: out::columns(),
    };
    live.console.print(&fitting(opening, out::width())).await;
    live.read_meter().await?;
    live.go_on(watch).await
}

impl LineChat<'_, '_> {
    async fn go_on(&mut self, mut watch: EventReceiver) -> Outcome<ChatTransition> {
        let mut interrupts = InterruptSignals::listen()?;
        let mut resized = signal(SignalKind::window_change())?;
        let mut tick = tokio::time::interval(TICK);
        // Ticks that were missed during slow work are not made up for.
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            self.show().await;
            let next = tokio::select! {
                typed = self.console.next() => self.typed(typed).await?,
                told = watch.recv() => {
                    self.told(told, &mut watch).await?;
                    None
                }
                // The error of a join is a panic, and the panic hook has printed its message.
                Some(done) = self.work.join_next() => self.worked(done.unwrap_or_else(|_| Ok(String::new()))),
                _ = tick.tick() => {
                    self.transcript.flush_idle_rows();
                    None
                }
                _ = resized.recv() => {
                    self.resize().await;
                    None
                }
                () = interrupts.next() => Some(ChatTransition::Leave(ExitCode::from(CANCELLED))),
            };
            if let Some(next) = next {
                self.show().await;
                return Ok(next);
            }
        }
    }

    /// Resizes. The editor must know the new size first, or it erases rows that are not its own.
    async fn resize(&mut self) {
        tokio::time::sleep(SETTLE).await;
        self.columns = out::columns();
        self.transcript.resize(out::width());
    }

    /// Prints new text and draws the status line.
    async fn show(&mut self) {
        let text = self.transcript.output();
        if !text.is_empty() {
            self.console.print(&text).await;
        }
        // A missed event may have been the end of the run, so the status decides, not the events.
        if !self.is_busy() && self.work.is_empty() {
            self.activity.rest();
        }
        let asked = self.approvals.first();
        let line = self.activity.line(&self.meter, asked.is_some(), self.columns, self.talk.style, now_ms());
        let mark = match (asked, self.pasted.len()) {
            (Some(call), _) => self.talk.style.amber(&answer_mark(&call.tool, self.columns)),
            (None, 0) => self.talk.style.accent("› "),
            (None, lines) => {
                let lines = count(lines as u64, "line");
                let what = if self.pasted.goes_on() { "so far" } else { "pasted, ⏎ sends" };
                self.talk.style.amber(&format!("{lines} {what} › "))
            }
        };
        self.console.prompt(format!("{line}{mark}"));
    }

    fn is_busy(&self) -> bool {
        !matches!(*self.talk.session.status().borrow(), RunStatus::Idle | RunStatus::Parked)
    }

    async fn typed(&mut self, typed: ConsoleInput) -> Outcome<Option<ChatTransition>> {
        match typed {
            ConsoleInput::End => Ok(Some(ChatTransition::Leave(DONE))),
            ConsoleInput::Interrupt => Ok(self.interrupt()),
            ConsoleInput::Line(line) => match self.pasted.take(line, self.console).await {
                LineInputResult::Text(text) => self.entered(&text).await,
                LineInputResult::Held => Ok(None),
                LineInputResult::Other(ConsoleInput::Interrupt) => Ok(self.interrupt()),
                LineInputResult::Other(_) => Ok(Some(ChatTransition::Leave(DONE))),
            },
        }
    }

    /// Handles Ctrl-C: the first cancels, the second leaves. A waiting paste is dropped first.
    fn interrupt(&mut self) -> Option<ChatTransition> {
        if !self.pasted.is_empty() {
            self.pasted.clear();
            return None;
        }
        let now = Instant::now();
        // Noted each time, so that the second press counts from the first.
        let again = self.interrupted.replace(now).is_some_and(|before| now - before < TWICE);
        let busy = self.is_busy();
        if again {
            return Some(ChatTransition::Leave(if busy { ExitCode::from(CANCELLED) } else { DONE }));
        }
        if busy {
            // A cancel waits for tools to end, and the keyboard must answer meanwhile.
            self.work.spawn(self.talk.cancel());
        } else {
            self.transcript.row(&self.talk.style.dim(texts::INTERRUPT_AGAIN));
        }
        None
    }

    async fn entered(&mut self, text: &str) -> Outcome<Option<ChatTransition>> {
        if let Some(slash) = ChatCommand::of(text) {
            self.console.remember(text);
            self.transcript.aside(&self.talk.style.dim(&format!("\n› {text}")));
            return Ok(self.command(slash).await);
        }
        // Commands come before the question: a person may look something up before answering.
        if self.approvals.first().is_some() {
            return self.answered(text).await.map(|()| None);
        }
        if text.trim().is_empty() {
            return Ok(None);
        }
        self.console.remember(text);
        match self.talk.send(text).await {
            Ok(sent) if sent.queued => {
                let place = format!("queued {} · /queue shows and changes it", sent.position);
                self.transcript.aside(&format!("  {}", self.talk.style.dim(&place)));
            }
            Ok(_) => {}
            Err(failure) => self.transcript.failure(&texts::not_sent(failure.message())),
        }
        self.count_queue().await?;
        Ok(None)
    }

    async fn answered(&mut self, text: &str) -> Outcome<()> {
        let answer = TypedApprovalAnswer::of(text);
        if answer == TypedApprovalAnswer::Unclear {
            self.transcript.row(&format!("  {}", self.talk.style.dim(texts::ANSWER)));
            return Ok(());
        }
        self.approvals.answer(answer, &self.talk.session).await?;
        self.ask_next();
        Ok(())
    }

    fn ask_next(&mut self) {
        if let Some(call) = self.approvals.first() {
            let asked = question(call, out::width(), self.talk.style);
            self.transcript.row(&asked);
        }
    }

    async fn command(&mut self, slash: ChatCommand) -> Option<ChatTransition> {
        match self.talk.perform(slash).await {
            Ok(ChatCommandResult::Text(text)) => self.reply(&text),
            Ok(ChatCommandResult::Work(work)) => {
                self.work.spawn(work);
            }
            Ok(ChatCommandResult::Next(next)) => return Some(next),
            Err(failure) => self.transcript.failure(failure.message()),
        }
        // The command is done, so a stale counter is no error: the next event refreshes it.
        let _ = self.count_queue().await;
        let _ = self.read_meter().await;
        None
    }

    fn reply(&mut self, text: &str) {
        if !text.is_empty() {
            self.transcript.aside(&fitting(text, out::width()));
        }
    }

    fn worked(&mut self, done: Outcome<String>) -> Option<ChatTransition> {
        match done {
            Ok(text) => self.reply(&text),
            Err(failure) => self.transcript.failure(failure.message()),
        }
        None
    }

    async fn told(
        &mut self,
        told: Result<Arc<SharedEvent>, RecvError>,
        watch: &mut EventReceiver,
    ) -> Outcome<()> {
        for heard in collect_event_batch(told, watch)? {
            match heard {
                SubscriptionItem::Told(announcement) => self.take(&announcement).await?,
                SubscriptionItem::Missed(missed) => self.transcript.warning(&texts::missed(missed)),
            }
        }
        for hint in super::unlogged_hints() {
            self.transcript.warning(&hint);
        }
        Ok(())
    }

    async fn take(&mut self, announcement: &ApiEvent) -> Outcome<()> {
        let Some(mut happening) = ui_event::event_from_announcement(announcement) else { return Ok(()) };
        undo_check::complete(&self.talk.session, &mut happening).await;
        match &happening {
            UiEvent::Usage | UiEvent::Omitted { .. } | UiEvent::Restored { .. } => self.read_meter().await?,
            UiEvent::Dequeued { .. } => self.count_queue().await?,
            // The answer may come from another client of the session.
            UiEvent::Decided { approval_id } => self.approvals.close(approval_id),
            // A run that has ended asks nothing more, although no answer was given.
            UiEvent::RunEnded(_) => self.approvals.clear(),
            UiEvent::Broken { message } => {
                return Err(CommandError::new(texts::broken(message)));
            }
            UiEvent::Asked { approval_id, call } => {
                let first = self.approvals.first().is_none();
                let open = self.approvals.ask(approval_id, call.clone(), &self.talk.session).await?;
                // A question behind another one is asked when that one is answered.
                if open && first {
                    self.ask_next();
                }
            }
            _ => {}
        }
        let now = now_ms();
        self.activity.take(&happening, now);
        self.transcript.take(&happening, now);
        Ok(())
    }

    async fn read_meter(&mut self) -> Outcome<()> {
        self.meter = ContextMeterBar::of(&self.talk.session.context().await?);
        Ok(())
    }

    async fn count_queue(&mut self) -> Outcome<()> {
        let waiting = self.talk.session.queue().await?.len();
        // Messages that wait in a session at rest are told once and are not on their way.
        self.activity.queued = if self.is_busy() { waiting } else { 0 };
        Ok(())
    }
}
