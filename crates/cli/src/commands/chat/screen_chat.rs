//! A chat with a person on a terminal that can be drawn on. Inputs of the keyboard, the session and the clock
//! are handled one after the other.

use std::process::ExitCode;
use std::time::Duration;

use longhaul::clock::now_ms;
use longhaul::event_bus::EventReceiver;
use longhaul_core::event::EventBody;
use longhaul_core::ids::{Millis, QueueId};
use longhaul_core::message::Part;
use longhaul_core::queue::QueuedMessage;
use tokio::time::{Instant, MissedTickBehavior, sleep_until};

use crate::failure::{CANCELLED, Outcome};
use crate::signals::InterruptSignals;
use crate::term::meter::ContextMeterBar;
use crate::term::style::TextPainter;
use crate::term::text::visible;
use crate::term::transcript::TranscriptRenderer;
use crate::term::ui_event::{UiEvent, readable};
use crate::tui::{
    KeyAction, QueuedMessageRow, ScreenInput, SlashCommandHelp, TerminalScreen, UiCommand, UiState, is_there,
    size,
};

use super::frame_rate::{SETTLE, TICK};
use super::slash::described;
use super::terminal_chat::{ChatView, TerminalChat};
use super::{ChatContext, ChatTransition, texts};

/// The minimum time between two pictures.
const FRAME: Duration = Duration::from_millis(16);

/// The presentation as a screen.
struct ScreenView<'a> {
    screen: &'a mut TerminalScreen,
    state: UiState,
    /// The earliest time of the next picture.
    draw_at: Instant,
    is_resized: bool,
}

type ScreenChat<'a, 'b> = TerminalChat<'a, 'b, ScreenView<'a>>;

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
    let view = ScreenView {
        state: UiState::new(talk.style, columns, rows, commands.collect())
            .with_retry(talk.runtime.agent().rules.retry),
        screen,
        draw_at: Instant::now(),
        is_resized: false,
    };
    let mut seen = TerminalChat::new(talk, view);
    seen.view.state.transcript.row(opening);
    seen.remember_earlier().await?;
    seen.read_meter().await?;
    seen.read_queue().await?;
    let next = seen.go_on(watch).await;
    // If the terminal is gone, there is nothing to draw on.
    let _ = seen.view.finish();
    next
}

impl ChatView for ScreenView<'_> {
    fn transcript(&mut self) -> &mut TranscriptRenderer {
        &mut self.state.transcript
    }

    fn text_columns(&self) -> usize {
        self.state.width()
    }

    fn take(&mut self, happening: &UiEvent, now: Millis) {
        self.state.take(happening, now);
    }

    fn set_meter(&mut self, meter: ContextMeterBar) {
        self.state.meter = meter;
    }

    fn set_queue(&mut self, waiting: &[QueuedMessage], _is_busy: bool) {
        self.state.set_queue(waiting.iter().map(waits).collect(), now_ms());
    }

    fn set_asked(&mut self, tool: Option<&str>) {
        self.state.set_asked(tool);
    }

    fn hint_at_answers(&mut self, _style: TextPainter) {
        self.state.hint(texts::ANSWER, now_ms());
    }

    fn show_queued(&mut self, _place: usize, _style: TextPainter) {
        // Waiting messages have a row of their own.
    }

    fn remember(&mut self, _text: &str) {
        // The state remembers entered lines itself.
    }

    fn reply(&mut self, text: &str) {
        self.state.transcript.aside(text);
    }
}

impl ScreenView<'_> {
    /// Prints the remaining rows above the live rows.
    fn finish(&mut self) -> std::io::Result<()> {
        let rest = self.state.rest();
        self.screen.draw(&rest, &self.state.view(now_ms()))
    }

    /// Puts the next picture off until a change of the size has settled.
    fn await_size(&mut self, now: Instant) {
        (self.is_resized, self.draw_at) = (true, now + SETTLE);
    }
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
            is_stale = Instant::now() < self.view.draw_at && is_stale;
            let next = tokio::select! {
                heard = self.view.screen.next() => {
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
                () = sleep_until(self.view.draw_at), if is_stale => None,
                _ = tick.tick() => {
                    is_stale = true;
                    self.view.state.transcript.flush_idle_rows();
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
        if !self.view.is_resized && size() != self.view.state.size() {
            self.view.await_size(now);
        }
        if now < self.view.draw_at {
            return Ok(());
        }
        if std::mem::take(&mut self.view.is_resized) {
            let (columns, rows) = self.view.screen.resized();
            self.view.state.resize(columns, rows);
        }
        self.view.draw_at = now + FRAME;
        self.view.state.set_busy(self.is_busy(), !self.work.is_empty());
        let finished = self.view.state.finished();
        self.view.screen.draw(&finished, &self.view.state.view(now_ms()))
    }

    async fn heard(&mut self, heard: ScreenInput) -> Outcome<Option<ChatTransition>> {
        match heard {
            ScreenInput::Did(action) => return self.did(action).await,
            ScreenInput::Resized => self.view.await_size(Instant::now()),
            ScreenInput::Logged(line) => self.view.state.transcript.aside(&visible(&line)),
            ScreenInput::Gone => return Ok(Some(self.leave())),
        }
        Ok(None)
    }

    async fn did(&mut self, action: KeyAction) -> Outcome<Option<ChatTransition>> {
        // A key is answered without the wait for the next frame, unless a resize has yet to settle.
        if !self.view.is_resized {
            self.view.draw_at = Instant::now();
        }
        // A key such as Ctrl-C means something else while a run goes on, so the state must be current.
        self.view.state.set_busy(self.is_busy(), !self.work.is_empty());
        match self.view.state.act(action, now_ms()) {
            None => Ok(None),
            Some(UiCommand::Entered(text)) => self.entered(&text).await,
            Some(UiCommand::Change { id, text }) => self.change(&id, &text).await.map(|()| None),
            Some(UiCommand::Cancel) => {
                self.cancel();
                Ok(None)
            }
            Some(UiCommand::Leave) => Ok(Some(self.leave())),
            Some(UiCommand::Suspend) => Ok(self.view.screen.suspend().is_err().then(|| self.leave())),
            Some(UiCommand::Redraw) => {
                // Another program may have drawn over the rows, so nothing on the screen is taken as known.
                self.view.screen.forget();
                Ok(None)
            }
        }
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
            self.view.state.write(text);
            self.view.state.hint(texts::TAKEN_MEANWHILE, now_ms());
        }
        self.read_queue().await
    }

    /// Loads the person's earlier messages into the history of the up key.
    async fn remember_earlier(&mut self) -> Outcome<()> {
        for event in self.talk.runtime.log(self.talk.session.id()).await? {
            if let EventBody::MessagesTaken { message, .. } = &event.body {
                self.view.state.remember(&readable(&message.parts));
            }
        }
        Ok(())
    }
}

fn waits(entry: &QueuedMessage) -> QueuedMessageRow {
    // Editing a message with a picture as text would lose the picture.
    let is_text = entry.parts.iter().all(|part| part.as_text().is_some());
    QueuedMessageRow { id: entry.id.as_str().to_owned(), text: readable(&entry.parts), is_text }
}
