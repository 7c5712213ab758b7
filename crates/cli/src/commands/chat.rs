//! `longhaul chat`: a conversation at the terminal, or line by line through a pipe.

mod approval_scope;
pub(crate) mod approvals;
mod console;
mod frame_rate;
mod line_chat;
pub(crate) mod model;
pub(crate) mod paste;
mod plain_chat;
mod screen_chat;
mod slash;
pub(crate) mod status;
pub(crate) mod terminal_chat;
pub(crate) mod texts;

use std::future::Future;
use std::process::ExitCode;

use longhaul::session::{Runtime, Session};
use longhaul_core::event::EventBody;
use longhaul_core::ids::SessionId;
use longhaul_core::message::Part;
use longhaul_core::run::RunStatus;
use longhaul_providers::http::take_base_url_hints;
use longhaul_store::SessionRecord;

use crate::args::ChatArgs;
use crate::assemble::ToolApprovalMode;
use crate::environment::CliEnvironment;
use crate::failure::Outcome;
use crate::folders;
use crate::session_lookup;
use crate::term::human::count;
use crate::term::log;
use crate::term::out;
use crate::term::style::TextPainter;
use crate::term::text::{one_line, width};
use crate::term::transcript::{TranscriptRenderer, TranscriptTarget};
use crate::term::wrap::wrapped;
use crate::undo_check;

use crate::tui::{TerminalProfile, TerminalScreen};

use super::AgentRequirement;
use console::LineConsole;

/// The presentation of the chat at a terminal.
enum ChatFrontend {
    /// Line by line.
    Lines(LineConsole),
    /// Finished rows above, live ones below.
    Rows(TerminalScreen),
}

impl ChatFrontend {
    fn open(is_plain: bool, place: &CliEnvironment) -> Outcome<Self> {
        Ok(if is_plain {
            Self::Lines(LineConsole::open()?)
        } else {
            Self::Rows(TerminalScreen::open(TerminalProfile::of(place))?)
        })
    }

    /// Gives the terminal back.
    async fn close(self) {
        match self {
            Self::Lines(console) => console.close().await,
            Self::Rows(screen) => drop(screen),
        }
    }
}

/// The next step after a part of the chat has ended.
enum ChatTransition {
    /// The chat ends.
    Leave(ExitCode),
    /// The chat continues in another session, or in the same one with another model.
    Go(ChatSwitch),
}

/// Another session, another model.
struct ChatSwitch {
    session: Option<SessionId>,
    model: Option<String>,
    /// The note to show at the start of that session.
    note: Option<String>,
}

/// The dependencies of every part of a chat.
struct ChatContext<'a> {
    runtime: &'a Runtime,
    session: Session,
    place: &'a CliEnvironment,
    style: TextPainter,
    /// `true` if the session has no title yet.
    untitled: bool,
}

pub(crate) async fn run(args: ChatArgs, place: &CliEnvironment) -> Outcome {
    let interactive = place.terminal.is_interactive();
    let asking = match (args.yes, interactive) {
        (true, true) => ToolApprovalMode::Allowed,
        (true, false) => ToolApprovalMode::AllowedUnattended,
        (false, true) => ToolApprovalMode::Person,
        (false, false) => ToolApprovalMode::Nobody,
    };
    let mut place = place.clone();
    let mut wanted = if args.last { Some("last".to_owned()) } else { args.session };
    let (mut front, mut note) = (None, None);
    loop {
        let runtime = match super::open(&place, AgentRequirement::Model(asking)).await {
            Ok(runtime) => runtime,
            Err(failure) => break leave(front, Err(failure)).await,
        };
        // The messages of the start are printed. From here on the screen belongs to the conversation.
        if (interactive || place.terminal.messages) && !super::wants_log(&place) {
            if !log::is_log_silent() {
                // The hints of the start were logged where the person has seen them.
                drop(take_base_url_hints());
            }
            log::silence_log();
        }
        if interactive && front.is_none() {
            front = Some(ChatFrontend::open(args.plain, &place)?);
        }
        // Another model needs another agent, so each turn of this loop has a runtime of its own.
        let next = converse(&runtime, wanted.as_deref(), &place, front.as_mut(), note.take()).await;
        runtime.close().await;
        match next {
            Ok((ChatTransition::Leave(code), way_back)) => {
                let code = leave(front, Ok(code)).await;
                // Printed now that the terminal is the shell's again.
                out::message(&way_back);
                break code;
            }
            Ok((ChatTransition::Go(go), _)) => {
                wanted = go.session.map(|id| id.as_str().to_owned());
                // A model chosen in the chat holds for all later turns of the loop.
                place.overrides.model = go.model.or(place.overrides.model);
                note = go.note;
            }
            Err(failure) => break leave(front, Err(failure)).await,
        }
    }
}

async fn leave(front: Option<ChatFrontend>, done: Outcome) -> Outcome {
    if let Some(front) = front {
        front.close().await;
    }
    done
}

/// Talks in one session, after printing `note`. Returns the next step, and the command to come back if there
/// is a session to come back to.
async fn converse(
    runtime: &Runtime,
    wanted: Option<&str>,
    place: &CliEnvironment,
    front: Option<&mut ChatFrontend>,
    note: Option<String>,
) -> Outcome<(ChatTransition, String)> {
    let record = match wanted {
        Some(meant) => Some(session_lookup::session(place, runtime.store(), meant).await?),
        None => None,
    };
    let session = match &record {
        Some(record) => runtime.open(&record.id).await?,
        None => runtime.create(None).await?,
    };
    let style = super::style(place);
    let untitled = record.as_ref().is_none_or(|record| record.title.is_none());
    let mut talk = ChatContext { runtime, session, place, style, untitled };
    // A continued session may have been made with another model than the configured one.
    talk.session.adopt_model().await?;
    let opening = talk.opening(record.as_ref(), note).await?;
    let next = match front {
        Some(ChatFrontend::Lines(console)) => Box::pin(line_chat::talk(&mut talk, console, &opening)).await,
        Some(ChatFrontend::Rows(screen)) => Box::pin(screen_chat::talk(&mut talk, screen, &opening)).await,
        None => Box::pin(plain_chat::talk(&mut talk, &opening)).await,
    };
    // An empty session that continues with another model must not be forgotten.
    let comes_back =
        matches!(&next, Ok(ChatTransition::Go(go)) if go.session.as_ref() == Some(talk.session.id()));
    let is_kept = comes_back || talk.keep_or_forget().await?;
    // Only now, so that an empty session is forgotten after an error too.
    let next = next?;
    let way_back = if is_kept { talk.way_back().await? } else { String::new() };
    Ok((next, way_back))
}

/// Returns the hints about base URLs that the log did not show, because it is silent during a chat.
fn unlogged_hints() -> Vec<String> {
    if log::is_log_silent() { take_base_url_hints() } else { Vec::new() }
}

impl ChatContext<'_> {
    /// Returns the opening lines: the agent, and `note`. A continued session also shows its last message.
    async fn opening(&self, record: Option<&SessionRecord>, note: Option<String>) -> Outcome<String> {
        let model = self.runtime.agent().provider.origin().model;
        let name = self.style.bold("longhaul");
        let about = format!(" · {} · {}", one_line(&model), self.place.shown(&self.place.workspace));
        let mut text = format!("{name}{}\n", self.style.dim(&about));
        text.push_str(&self.style.dim("/help shows the commands · Ctrl-C cancels, twice leaves"));
        text.push('\n');
        let tools = self.runtime.agent().limits.tools.may();
        let no_tools = (!tools).then(|| super::NO_TOOLS.to_owned());
        let assumed = super::assumed_window(&self.session, self.runtime).await?;
        let elsewhere = folders::warning(self.place, self.runtime, self.session.id()).await;
        let warnings = note.into_iter().chain(no_tools).chain(assumed).chain(elsewhere);
        for warning in warnings.chain(unlogged_hints()) {
            let note = wrapped(&warning, 2, 2, out::width());
            text.push_str(&format!("{} {note}\n", self.style.amber("!")));
        }
        if let Some(record) = record {
            text.push_str(&self.last_turn(record).await?);
        }
        let waiting = self.session.queue().await?.len() as u64;
        if waiting > 0 {
            let note = match waiting {
                1 => "1 message waits from before; it enters with your next one (/queue)".to_owned(),
                many => format!("{many} messages wait from before; they enter with your next one (/queue)"),
            };
            text.push_str(&format!("{} {note}\n", self.style.amber("!")));
        }
        Ok(text)
    }

    async fn last_turn(&self, record: &SessionRecord) -> Outcome<String> {
        let events = self.runtime.log(&record.id).await?;
        let last_typed =
            events.iter().rposition(|event| matches!(event.body, EventBody::MessagesTaken { .. }));
        // Without a typed message there is no question to repeat, and nothing of the past is shown.
        let from = last_typed.unwrap_or(events.len());
        let mut transcript = TranscriptRenderer::new(self.style, TranscriptTarget::Chat, out::width());
        if from > 1 {
            let title = one_line(record.title.as_deref().unwrap_or("(no title)"));
            let more = format!("… {title} · {} before this", count(from as u64, "event"));
            transcript.row(&format!("\n{}", self.style.dim(&more)));
        }
        let offers = self.session.inspect_run(undo_check::undo_options_of_run).await?;
        let text = super::sessions::conversation(&events, from, &offers, transcript);
        Ok(format!("{}\n", text.trim_end_matches('\n')))
    }

    /// Cancels the current work. The result is a note about messages that wait then.
    fn cancel(&self) -> impl Future<Output = Outcome<String>> + Send + use<> {
        let session = self.session.clone();
        async move {
            session.cancel(false).await?;
            // Queued messages are worth a note only if no run takes them next.
            let rests = matches!(*session.status().borrow(), RunStatus::Idle | RunStatus::Parked);
            Ok(if rests { texts::waiting(session.queue().await?.len()) } else { String::new() })
        }
    }

    /// Sends a message, the first one as the session's title, too.
    async fn send(&mut self, text: &str) -> Outcome<longhaul::session::SendReceipt> {
        // Taken before the rename, so that a failed rename is not tried with each message.
        if std::mem::take(&mut self.untitled) {
            // A title is a convenience: a busy session stays without one.
            let _ = self.session.rename(super::sessions::title_of(text)).await;
        }
        Ok(self.session.send(vec![Part::text(text)]).await?)
    }

    /// Deletes a chat without messages. Returns `true` if the session stays.
    async fn keep_or_forget(&self) -> Outcome<bool> {
        let is_empty =
            self.session.inspect_run(|run| run.history().entries().is_empty()).await.unwrap_or(false);
        if is_empty && self.session.queue().await?.is_empty() {
            self.runtime.delete(self.session.id()).await?;
            return Ok(false);
        }
        Ok(true)
    }

    /// Returns the session, and the command that comes back to it.
    async fn way_back(&self) -> Outcome<String> {
        let id = self.session.id();
        // `chat -c` opens the newest session, which may have been made in another process meanwhile.
        let newest = self.runtime.sessions(1).await?;
        let is_last = newest.first().is_some_and(|record| record.id == *id);
        let (about, words) = if is_last {
            (format!("session {id} · "), "chat -c".to_owned())
        } else {
            (String::new(), format!("chat --session {id}"))
        };
        let command = self.place.command_with_model(&words);
        let line = format!("{about}{command} goes on");
        // A command that is broken into rows cannot be pasted.
        let text = if width(&line) + 2 <= out::width() {
            line
        } else {
            format!("session {id} goes on with\n  {command}")
        };
        let style = TextPainter::new(self.place.terminal.colour_messages());
        Ok(format!("  {}\n", style.dim(&text)))
    }
}
