//! `longhaul run`: one task, one answer.
//!
//! The answer is printed to standard output, and the events to standard error. If a person reads standard
//! output, everything is printed there as it happens.

use std::io;
use std::process::ExitCode;
use std::time::Duration;

use longhaul::api_events::ApiEvent;
use longhaul::clock::now_ms;
use longhaul::event_bus::{EventReceiver, RecvError, TryRecvError};
use longhaul::io_error::io_error_text;
use longhaul::session::{RunOutcome, Runtime, Session};
use longhaul_core::attempt::RetryPolicy;
use longhaul_core::error::ErrorCode;
use longhaul_core::event::RunEnd;
use longhaul_core::history::LogEntryKind;
use longhaul_core::message::{Part, Role};
use rustix::fs::FileType;

use crate::args::RunArgs;
use crate::assemble::{self, ToolApprovalMode};
use crate::environment::CliEnvironment;
use crate::failure::{CANCELLED, CommandError, DONE, Outcome};
use crate::folders;
use crate::piped_input::{self, MAX_INPUT_BYTES, PipedText};
use crate::signals::InterruptSignals;
use crate::term::human::short;
use crate::term::out;
use crate::term::style::TextPainter;
use crate::term::text::width;
use crate::term::transcript::{CONTROL_C, TranscriptRenderer, TranscriptTarget};
use crate::term::ui_event::{self, UiEvent};
use crate::term::wrap::wrapped;
use crate::undo_check;

use super::AgentRequirement;
use super::chat::model::missing_model_hint;

/// The maximum time to look up the answer after an interrupt.
const LEAVE_AFTER: Duration = Duration::from_secs(1);

/// The time standard input may be silent before a hint is printed.
const QUIET: Duration = Duration::from_secs(3);

pub(crate) async fn run(args: RunArgs, place: &CliEnvironment) -> Outcome {
    // Read before signals are caught: Ctrl-C at a silent pipe then just ends the process.
    let prompt = prompt(args.prompt.as_deref(), place).await?;
    let mut interrupts = InterruptSignals::listen()?;
    let asking = if args.yes { ToolApprovalMode::AllowedUnattended } else { ToolApprovalMode::Nobody };
    let runtime = super::open(place, AgentRequirement::Model(asking)).await?;
    assemble::say_exposed(place, &runtime.agent().sandbox);
    // The runtime is closed after errors too, so that the session's lease is free for the next command.
    let done = in_session(&runtime, &args, &prompt, place, &mut interrupts).await;
    runtime.close().await;
    done
}

async fn in_session(
    runtime: &Runtime,
    args: &RunArgs,
    prompt: &str,
    place: &CliEnvironment,
    interrupts: &mut InterruptSignals,
) -> Outcome {
    let mut show = RunPrinter::new(args.json, place, runtime.agent().rules.retry);
    let session = match &args.session {
        Some(meant) => {
            let session = super::find(place, runtime, meant).await?;
            if let Some(elsewhere) = folders::warning(place, runtime, session.id()).await {
                show.warn(&elsewhere)?;
            }
            session
        }
        None => runtime.create(Some(super::sessions::title_of(prompt))).await?,
    };
    if !runtime.agent().limits.tools.may() {
        show.warn(super::NO_TOOLS)?;
    }
    if let Some(assumed) = super::assumed_window(&session, runtime).await? {
        show.warn(&assumed)?;
    }
    show.name_undo(&session, place);
    // Subscribed before the message is sent, or its first events could be missed.
    let watch = session.watch();
    session.adopt_model().await?;
    session.send(vec![Part::text(prompt)]).await?;
    let settled = follow(&session, watch, &mut show, interrupts).await?;
    match settled {
        None => {
            // A person who interrupts wants to leave, so a session that is still busy is not waited for.
            let _ = tokio::time::timeout(LEAVE_AFTER, show.answer(&session)).await;
            if !args.json {
                show.way_back(&session, place);
            }
            Ok(ExitCode::from(CANCELLED))
        }
        Some(settled) => {
            if show.is_model_missing
                && let Some(hint) = missing_model_hint(place).await
            {
                show.warn(&hint)?;
            }
            show.finish(&session, &settled).await
        }
    }
}

/// Returns the task: the typed text followed by piped input, or all of standard input.
async fn prompt(typed: Option<&str>, place: &CliEnvironment) -> Outcome<String> {
    let text = match typed {
        // Both may be given: an instruction on the command line about the data in the pipe.
        Some(text) if text != "-" && is_piped() => {
            let piped = piped().await?;
            if piped.is_empty() { text.to_owned() } else { format!("{text}\n\n<stdin>\n{piped}\n</stdin>") }
        }
        Some(text) if text != "-" => text.to_owned(),
        // At a terminal reading would wait for Ctrl-D, which hardly anybody expects here.
        None if place.terminal.input => {
            return Err(CommandError::usage(format!(
                "nothing to do: {}, or give it on standard input",
                place.command_with_model("run \"PROMPT\"")
            )));
        }
        _ => piped().await?,
    };
    if text.trim().is_empty() { Err(CommandError::usage("the prompt is empty")) } else { Ok(text) }
}

/// Reports whether standard input is a pipe or a file.
fn is_piped() -> bool {
    // Cron jobs and services inherit sockets or devices without a writer, and some never end.
    let kind = rustix::fs::fstat(io::stdin()).map(|known| FileType::from_raw_mode(known.st_mode));
    kind.is_ok_and(|kind| matches!(kind, FileType::Fifo | FileType::RegularFile))
}

/// Reads all of standard input. A hint is printed while a silent pipe is waited for.
async fn piped() -> Outcome<String> {
    let input = tokio::io::stdin();
    let mut reading = std::pin::pin!(piped_input::read_text(input, MAX_INPUT_BYTES));
    let read = match tokio::time::timeout(QUIET, &mut reading).await {
        Ok(read) => read,
        Err(_) => {
            out::print_message("reading standard input until it ends; `< /dev/null` leaves it out …\n");
            reading.await
        }
    };
    let PipedText { text, notices } =
        read.map_err(|error| CommandError::usage(format!("standard input: {}", io_error_text(&error))))?;
    for notice in notices {
        out::print_message(&notice);
    }
    // A pipe mostly ends with a line break that is no part of the text.
    Ok(text.trim_end().to_owned())
}

/// Prints events until the session is idle. Returns `None` if it was cancelled.
async fn follow(
    session: &Session,
    mut watch: EventReceiver,
    show: &mut RunPrinter,
    interrupts: &mut InterruptSignals,
) -> Outcome<Option<RunOutcome>> {
    // Pinned outside of the loop, so that each turn goes on waiting instead of starting again.
    let mut settled = std::pin::pin!(session.settled());
    let settled = loop {
        tokio::select! {
            biased;
            // Polled first, so that a fast stream of events cannot delay Ctrl-C. Events come before the
            // outcome, so that the whole answer is printed.
            () = interrupts.next() => {
                // A second signal does not wait for tools to end.
                tokio::select! {
                    done = session.cancel(false) => drop(done?),
                    () = interrupts.next() => {}
                }
                break None;
            }
            told = watch.recv() => match told {
                Ok(announcement) => show.take(session, &announcement).await?,
                Err(RecvError::Lagged(missed)) => show.missed(missed),
                Err(RecvError::Closed) => break Some(settled.as_mut().await?),
            },
            done = &mut settled => break Some(done?),
        }
    };
    // Events may still wait in the channel although the run has settled.
    loop {
        match watch.try_recv() {
            Ok(announcement) => show.take(session, &announcement).await?,
            Err(TryRecvError::Lagged(missed)) => show.missed(missed),
            Err(TryRecvError::Empty | TryRecvError::Closed) => return Ok(settled),
        }
    }
}

/// The printer of a run's events: as JSON, for a person at a terminal, or with the answer apart from the rest.
struct RunPrinter {
    json: bool,
    /// `true` if a person reads standard output. Then everything is printed there.
    person: bool,
    style: TextPainter,
    transcript: TranscriptRenderer,
    usage: String,
    /// `true` if the run ended because the server does not have the model.
    is_model_missing: bool,
}

impl RunPrinter {
    fn new(json: bool, place: &CliEnvironment, retry: RetryPolicy) -> Self {
        let person = place.terminal.output;
        let colour = if person { place.terminal.colour_output() } else { place.terminal.colour_messages() };
        let style = TextPainter::new(colour);
        let transcript =
            TranscriptRenderer::new(style, TranscriptTarget::Shell, out::width()).rows_of(out::row_width());
        let transcript = transcript.with_retry(retry, CONTROL_C);
        Self { json, person, style, transcript, usage: String::new(), is_model_missing: false }
    }

    /// Makes the rows of edits name the whole command that undoes them.
    fn name_undo(&mut self, session: &Session, place: &CliEnvironment) {
        self.transcript.set_undo_command(place.command(&format!("undo {}", session.id())));
    }

    async fn take(&mut self, session: &Session, announcement: &ApiEvent) -> io::Result<()> {
        // Each event is a line of its own, so that a reader need not wait for the end.
        if self.json {
            return out::print_line(&announcement.to_json().to_string());
        }
        let Some(mut happening) = ui_event::event_from_announcement(announcement) else { return Ok(()) };
        undo_check::complete(session, &mut happening).await;
        match &happening {
            // The task is above, in the shell's own line; the answer follows as data.
            UiEvent::User { .. } | UiEvent::Dequeued { .. } => return Ok(()),
            // The answer is printed once, as data, when the run has ended.
            UiEvent::Text(_) | UiEvent::Piece { .. } | UiEvent::Answer { .. } if !self.person => {
                return Ok(());
            }
            UiEvent::RunEnded(ended) => {
                let not_found = ErrorCode::NotFound.as_str();
                self.is_model_missing = ended.error.as_ref().is_some_and(|(code, _)| code == not_found);
                self.usage = format!(
                    "{} · {} in · {} out",
                    crate::term::human::count(ended.steps, "step"),
                    short(ended.input_tokens),
                    short(ended.output_tokens)
                );
            }
            _ => {}
        }
        self.transcript.take(&happening, now_ms());
        self.print()
    }

    fn print(&mut self) -> io::Result<()> {
        let text = self.transcript.output();
        if self.person {
            return out::data(&text);
        }
        out::message(&text);
        Ok(())
    }

    fn missed(&mut self, count: u64) {
        tracing::warn!("{count} events came too fast to be printed; the session has all stored events");
    }

    /// Prints the answer as data, and a line about the session as a message.
    async fn finish(&mut self, session: &Session, settled: &RunOutcome) -> Outcome {
        self.answer(session).await?;
        if !self.json {
            let about = format!("{} · session {}", self.usage, session.id());
            out::message(&format!("  {}\n", self.style.dim(&wrapped(&about, 2, 2, out::width()))));
        }
        // Scripts must see whether the run ended by an answer or by a limit.
        Ok(if settled.end == Some(RunEnd::Stop) { DONE } else { ExitCode::FAILURE })
    }

    /// Prints the answer to standard output, however the run ended. A person has seen it already.
    async fn answer(&self, session: &Session) -> Outcome<()> {
        if self.json || self.person {
            return Ok(());
        }
        match answer(session).await?.as_str() {
            "" => Ok(()),
            text => out::print_line(text).map_err(|error| {
                CommandError::from(error)
                    .followed_by(&format!("the answer is kept in session {}", session.id()))
            }),
        }
    }

    /// Names the session of a cancelled run, and the command that goes on in it.
    fn way_back(&self, session: &Session, place: &CliEnvironment) {
        let command = place.command_with_model("run --session last \"…\"");
        let about = format!("kept in session {}; go on: ", session.id());
        // A command that is broken into rows cannot be pasted.
        let gap = if width(&about) + width(&command) + 2 <= out::width() { "" } else { "\n  " };
        out::message(&format!("  {}\n", self.style.dim(&format!("{about}{gap}{command}"))));
    }

    /// Prints a warning before the run begins.
    fn warn(&mut self, text: &str) -> io::Result<()> {
        self.transcript.warning(text);
        // Standard output carries nothing but JSON then.
        if self.json {
            out::message(&self.transcript.output());
            return Ok(());
        }
        self.print()
    }
}

/// Returns the model's newest answer to the newest message. Empty if there is none.
async fn answer(session: &Session) -> Outcome<String> {
    Ok(session
        .inspect_run(|run: &longhaul_core::run::Run| {
            let history = run.history();
            let mut since =
                // The search ends at the newest message, so that an older answer is never printed as this one's.
                history.entries().iter().rev().take_while(|entry| entry.kind != LogEntryKind::Typed);
            since.find(|entry| entry.message.role == Role::Assistant).map(|entry| history.whole(entry).text())
        })
        .await?
        .unwrap_or_default())
}
