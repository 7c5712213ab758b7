//! A chat without a terminal: each line is a message, and its turn is printed before the next line is read.

use std::future::Future;
use std::io;
use std::process::ExitCode;

use longhaul::api_events::ApiEvent;
use longhaul::clock::now_ms;
use longhaul::event_bus::{EventReceiver, RecvError};
use longhaul::session::Session;
use tokio::io::BufReader;

use crate::failure::{CANCELLED, CommandError, DONE, Outcome};
use crate::piped_input::{PipedLines, PipedText};
use crate::signals::InterruptSignals;
use crate::term::meter::ContextMeterBar;
use crate::term::out;
use crate::term::transcript::{CONTROL_C, TranscriptRenderer, TranscriptTarget};
use crate::term::ui_event::{self, UiEvent};
use crate::undo_check;

use super::slash::{ChatCommand, ChatCommandResult};
use super::{ChatContext, ChatTransition, texts};

/// Cells of the meter's bar.
const CELLS: usize = 20;

/// Talks until the input ends.
pub(super) async fn talk(talk: &mut ChatContext<'_>, opening: &str) -> Outcome<ChatTransition> {
    let mut interrupts = InterruptSignals::listen()?;
    // One subscription for the whole chat: events between two turns wait in it.
    let mut watch = talk.session.watch();
    let mut transcript = TranscriptRenderer::new(talk.style, TranscriptTarget::Chat, out::width())
        .rows_of(out::row_width())
        .with_retry(talk.runtime.agent().rules.retry, CONTROL_C);
    let mut lines = PipedLines::new(BufReader::new(tokio::io::stdin()));
    out::print_message(opening);
    loop {
        let line = tokio::select! {
            line = lines.next() => line?,
            () = interrupts.next() => return Ok(ChatTransition::Leave(ExitCode::from(CANCELLED))),
        };
        let Some(PipedText { text: line, notices }) = line else { return Ok(ChatTransition::Leave(DONE)) };
        for notice in notices {
            out::print_message(&notice);
        }
        let mut turn = PlainChatTurn {
            session: talk.session.clone(),
            is_seen: talk.place.terminal.output,
            watch: &mut watch,
            transcript: &mut transcript,
            interrupts: &mut interrupts,
        };
        let next = match ChatCommand::of(&line) {
            _ if line.trim().is_empty() => None,
            Some(slash) => command(talk, slash, &mut turn).await?,
            None => message(talk, &line, &mut turn).await?,
        };
        if let Some(next) = next {
            return Ok(next);
        }
    }
}

async fn message(
    talk: &mut ChatContext<'_>,
    line: &str,
    turn: &mut PlainChatTurn<'_>,
) -> Outcome<Option<ChatTransition>> {
    talk.send(line).await?;
    let session = talk.session.clone();
    if turn.follow(async { Ok(session.settled().await?) }).await?.is_none() {
        // Cancelled before the chat leaves, so that no run goes on without anybody to see it.
        session.cancel(false).await?;
        // The events of the cancel tell what was kept, so they are printed before the chat leaves.
        turn.drain().await?;
        return Ok(Some(ChatTransition::Leave(ExitCode::from(CANCELLED))));
    }
    let meter = ContextMeterBar::of(&talk.session.context().await?);
    out::print_line(&meter.line_within(out::row_width(), CELLS, talk.style))?;
    Ok(None)
}

async fn command(
    talk: &ChatContext<'_>,
    slash: ChatCommand,
    turn: &mut PlainChatTurn<'_>,
) -> Outcome<Option<ChatTransition>> {
    let done = match talk.perform(slash).await {
        Ok(ChatCommandResult::Next(next)) => return Ok(Some(next)),
        Ok(ChatCommandResult::Text(text)) => Ok(text),
        Ok(ChatCommandResult::Work(work)) => match turn.follow(async { Ok(work.await) }).await? {
            Some(done) => done,
            None => return Ok(Some(ChatTransition::Leave(ExitCode::from(CANCELLED)))),
        },
        Err(failure) => Err(failure),
    };
    // The rows of the events come before the command's own text.
    turn.drain().await?;
    match done {
        Ok(text) if text.is_empty() => {}
        Ok(text) => out::rows(&format!("{}\n", text.trim_end_matches('\n')))?,
        Err(failure) => out::message(&format!("{}\n", failure.message())),
    }
    Ok(None)
}

/// The state of a plain chat during one turn.
struct PlainChatTurn<'a> {
    session: Session,
    /// `true` if a person reads the answer while it streams.
    is_seen: bool,
    watch: &'a mut EventReceiver,
    transcript: &'a mut TranscriptRenderer,
    interrupts: &'a mut InterruptSignals,
}

impl PlainChatTurn<'_> {
    /// Prints events until `work` is done. Returns `None` after an interrupt.
    async fn follow<T>(&mut self, work: impl Future<Output = Outcome<T>>) -> Outcome<Option<T>> {
        let mut work = std::pin::pin!(work);
        let done = loop {
            tokio::select! {
                biased;
                // Polled first, so that a fast stream of events cannot delay Ctrl-C.
                () = self.interrupts.next() => break None,
                told = self.watch.recv() => match told {
                    Ok(announcement) => self.print(&announcement).await?,
                    // Missed deltas are no loss here: the final event of an answer holds the whole text.
                    Err(RecvError::Lagged(_)) => {}
                    Err(_) => return Err(CommandError::new(texts::SESSION_ENDED)),
                },
                done = &mut work => break Some(done?),
            }
        };
        self.drain().await?;
        Ok(done)
    }

    async fn drain(&mut self) -> io::Result<()> {
        while let Ok(announcement) = self.watch.try_recv() {
            self.print(&announcement).await?;
        }
        Ok(())
    }

    async fn print(&mut self, announcement: &ApiEvent) -> io::Result<()> {
        let Some(mut happening) = ui_event::event_from_announcement(announcement) else { return Ok(()) };
        // The note only tells a waiting person why nothing is printed. A pipe gets the result alone.
        if matches!(happening, UiEvent::Compacting { .. }) && !self.is_seen {
            return Ok(());
        }
        undo_check::complete(&self.session, &mut happening).await;
        self.transcript.take(&happening, now_ms());
        out::data(&self.transcript.output())
    }
}
