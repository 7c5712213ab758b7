//! A chat with a person: keys, announcements and time, one after the other.

use std::process::ExitCode;

use longhaul::clock::now_ms;
use longhaul::event_bus::EventReceiver;
use longhaul_core::ids::Millis;
use longhaul_core::queue::QueuedMessage;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::MissedTickBehavior;

use crate::failure::{CANCELLED, DONE, Outcome};
use crate::signals::InterruptSignals;
use crate::term::human::count;
use crate::term::meter::ContextMeterBar;
use crate::term::out;
use crate::term::style::TextPainter;
use crate::term::transcript::{CONTROL_C, TranscriptRenderer, TranscriptTarget};
use crate::term::ui_event::UiEvent;
use crate::term::wrap::fitting;

use super::approvals::answer_mark;
use super::console::{ConsoleInput, LineConsole};
use super::frame_rate::{SETTLE, TICK};
use super::paste::{LineInputResult, PasteBuffer};
use super::status::ActivityTracker;
use super::terminal_chat::{ChatView, DoublePress, TerminalChat};
use super::{ChatContext, ChatTransition, texts};

/// The presentation line by line.
struct LineView<'a> {
    console: &'a mut LineConsole,
    transcript: TranscriptRenderer,
    activity: ActivityTracker,
    pasted: PasteBuffer,
    meter: ContextMeterBar,
    interrupted: DoublePress,
    columns: usize,
}

type LineChat<'a, 'b> = TerminalChat<'a, 'b, LineView<'a>>;

/// Talks until the person leaves or changes the session.
pub(super) async fn talk(
    talk: &mut ChatContext<'_>,
    console: &mut LineConsole,
    opening: &str,
) -> Outcome<ChatTransition> {
    // Subscribed before the first read of the session: events that happen meanwhile wait in the subscription.
    let watch = talk.session.watch();
    let view = LineView {
        transcript: TranscriptRenderer::new(talk.style, TranscriptTarget::Chat, out::width())
            .below_something()
            .with_retry(talk.runtime.agent().rules.retry, CONTROL_C),
        console,
        activity: ActivityTracker::default(),
        pasted: PasteBuffer::default(),
        meter: ContextMeterBar::default(),
        interrupted: DoublePress::default(),
        columns: out::columns(),
    };
    let mut live = TerminalChat::new(talk, view);
    live.view.console.print(&fitting(opening, out::width())).await;
    live.read_meter().await?;
    live.go_on(watch).await
}

impl ChatView for LineView<'_> {
    fn transcript(&mut self) -> &mut TranscriptRenderer {
        &mut self.transcript
    }

    fn text_columns(&self) -> usize {
        out::width()
    }

    fn take(&mut self, happening: &UiEvent, now: Millis) {
        self.activity.take(happening, now);
        self.transcript.take(happening, now);
    }

    fn set_meter(&mut self, meter: ContextMeterBar) {
        self.meter = meter;
    }

    fn set_queue(&mut self, waiting: &[QueuedMessage], is_busy: bool) {
        // Messages that wait in a session at rest are told once and are not on their way.
        self.activity.queued = if is_busy { waiting.len() } else { 0 };
    }

    fn set_asked(&mut self, _tool: Option<&str>) {
        // The mark before the input is made from the open question each time.
    }

    fn hint_at_answers(&mut self, style: TextPainter) {
        self.transcript.row(&format!("  {}", style.dim(texts::ANSWER)));
    }

    fn show_queued(&mut self, place: usize, style: TextPainter) {
        let place = format!("queued {place} · /queue shows and changes it");
        self.transcript.aside(&format!("  {}", style.dim(&place)));
    }

    fn remember(&mut self, text: &str) {
        self.console.remember(text);
    }

    fn reply(&mut self, text: &str) {
        self.transcript.aside(&fitting(text, out::width()));
    }
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
                typed = self.view.console.next() => self.typed(typed).await?,
                told = watch.recv() => {
                    self.told(told, &mut watch).await?;
                    None
                }
                Some(done) = self.work.join_next() => {
                    // The error of a join is a panic, and the panic hook has printed its message.
                    self.worked(done.unwrap_or_else(|_| Ok(String::new())));
                    None
                }
                _ = tick.tick() => {
                    self.view.transcript.flush_idle_rows();
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
        self.view.columns = out::columns();
        self.view.transcript.resize(out::width());
    }

    /// Prints new text and draws the status line.
    async fn show(&mut self) {
        let text = self.view.transcript.output();
        if !text.is_empty() {
            self.view.console.print(&text).await;
        }
        // A missed event may have been the end of the run, so the status decides, not the events.
        if !self.is_busy() && self.work.is_empty() {
            self.view.activity.rest();
        }
        let (view, style) = (&mut self.view, self.talk.style);
        let asked = self.approvals.first();
        let line = view.activity.line(&view.meter, asked.is_some(), view.columns, style, now_ms());
        let mark = match (asked, view.pasted.len()) {
            (Some(call), _) => style.amber(&answer_mark(&call.tool, view.columns)),
            (None, 0) => style.accent("› "),
            (None, lines) => {
                let lines = count(lines as u64, "line");
                let what = if view.pasted.goes_on() { "so far" } else { "pasted, ⏎ sends" };
                style.amber(&format!("{lines} {what} › "))
            }
        };
        view.console.prompt(format!("{line}{mark}"));
    }

    async fn typed(&mut self, typed: ConsoleInput) -> Outcome<Option<ChatTransition>> {
        match typed {
            ConsoleInput::End => Ok(Some(ChatTransition::Leave(DONE))),
            ConsoleInput::Interrupt => Ok(self.interrupt()),
            ConsoleInput::Line(line) => match self.view.pasted.take(line, self.view.console).await {
                LineInputResult::Text(text) => self.entered(&text).await,
                LineInputResult::Held => Ok(None),
                LineInputResult::Other(ConsoleInput::Interrupt) => Ok(self.interrupt()),
                LineInputResult::Other(_) => Ok(Some(ChatTransition::Leave(DONE))),
            },
        }
    }

    /// Handles Ctrl-C: the first cancels, the second leaves. A waiting paste is dropped first.
    fn interrupt(&mut self) -> Option<ChatTransition> {
        if !self.view.pasted.is_empty() {
            self.view.pasted.clear();
            return None;
        }
        let now = now_ms();
        if self.view.interrupted.is_second(now) {
            return Some(self.leave());
        }
        self.view.interrupted.note(now);
        if self.is_busy() {
            self.cancel();
        } else {
            self.view.transcript.row(&self.talk.style.dim(texts::INTERRUPT_AGAIN));
        }
        None
    }
}
