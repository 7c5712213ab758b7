//! The slash commands of the chat.

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;

use longhaul::recall::RecallSource;
use longhaul::session::ResumeOutcome;
use longhaul_core::ids::{QueueId, Seq};
use longhaul_core::message::Part;
use longhaul_core::queue::QueuedMessage;
use longhaul_core::run::{CompactionOutcome, Run, RunStatus};

use crate::environment::CliEnvironment;
use crate::failure::{CommandError, DONE, Outcome};
use crate::hint::quoted;
use crate::session_lookup::{self, ALL};
use crate::term::human::count;
use crate::term::style::TextPainter;
use crate::term::table::PlannerSummary;
use crate::term::text::{fit, one_line, visible};
use crate::term::transcript::{TranscriptRenderer, TranscriptTarget};
use crate::term::ui_event::readable;
use crate::term::wrap::wrapped;
use crate::term::{out, table};
use crate::undo_check;

use super::{ChatContext, ChatSwitch, ChatTransition, model};
use crate::commands::compact::{check_length, compact_session, previewed};
use crate::commands::compactions;
use crate::commands::orders::OrderCommand;
use crate::commands::recall::{check, recall};
use crate::commands::sessions::{ExportTarget, conversation, export, fork_at, left_out, listed};
use crate::commands::undo::undo;

/// The maximum number of sessions in `/sessions`.
const LISTED: usize = 15;

/// The maximum number of passages from `/recall`.
const RECALLED: usize = 5;

/// The column of the commands' descriptions.
const HELP_COLUMN: usize = 24;

const HELP: &str = "\
/context                what fills the window
/show                   the whole conversation, what the model no longer sees too
/recall WORDS           find anything that was said; handles (lh:12) give the exact originals
/compact [WORDS]        make room now; WORDS say what the summary should mind
/preview [WORDS]        what /compact would do; nothing is changed
/compactions            every compaction: when, why, what it left, what it cost
/undo [ID]              undo the newest compaction, or the one named
/pin [TEXT]             add TEXT as a standing order, which the model always sees; N TEXT changes order N
/unpin N                remove standing order N, or the one of that name (o1)
/orders                 the standing orders with their numbers; /pin alone does the same
/queue                  messages that wait; edit N TEXT, remove N, clear
/retry                  try again now: the failed call, or the messages that wait; /resume is the same
/model [NAME]           the model, or another one from here on
/sessions [ID]          the sessions, or go to one: its id, the start of it, or last
/fork [POSITION]        go on in a copy, and leave this session as it is
/export [FILE]          write the session; a name that ends in .md is for people
/help                   this; /? is the same
/quit                   leave, as Ctrl-D does; everything is kept; /exit is the same
A line that ends in \\ goes on in the next; several lines that are pasted are one message.
While the agent works your messages queue and enter at its next step.
Ctrl-C cancels the run, twice leaves. After that `longhaul chat -c` comes back here, and\n`longhaul recall last WORDS` finds anything that was said.";

/// A command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ChatCommand {
    Context,
    Show,
    Recall(String),
    Preview(Option<String>),
    Compact(Option<String>),
    Compactions,
    Undo(Option<String>),
    Orders(OrderCommand),
    Queue(QueueCommand),
    Retry,
    Model(Option<String>),
    Sessions(Option<String>),
    Fork(Option<Seq>),
    Export(Option<PathBuf>),
    Help,
    Quit,
    Wrong(String),
}

/// An operation on the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum QueueCommand {
    List,
    Edit(usize, String),
    Remove(usize),
    Clear,
}

/// The result of a command.
pub(super) enum ChatCommandResult {
    /// Text to print.
    Text(String),
    /// A slow operation that then gives text, perhaps none.
    Work(Pin<Box<dyn Future<Output = Outcome<String>> + Send>>),
    /// Another place.
    Next(ChatTransition),
}

impl ChatCommand {
    /// Reads a line; `None` if it is no command. A path such as `/etc/hosts` is none.
    pub(super) fn of(line: &str) -> Option<Self> {
        let rest = line.trim().strip_prefix('/')?;
        let (name, argument) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        // A text of several lines is a message: pasted code may begin with a slash.
        if name.contains('/') || line.trim().contains('\n') {
            return None;
        }
        let argument = Some(argument.trim().to_owned()).filter(|argument| !argument.is_empty());
        Some(match name {
            "context" => Self::Context,
            "show" => Self::Show,
            "recall" => match argument {
                Some(query) => Self::Recall(query),
                None => Self::Wrong("/recall takes words to search for, or handles (lh:12)".to_owned()),
            },
            "preview" => Self::Preview(argument),
            "compact" => Self::Compact(argument),
            "compactions" => Self::Compactions,
            "undo" => Self::Undo(argument),
            "pin" => Self::Orders(OrderCommand::of_pin(argument)),
            "unpin" => OrderCommand::of_unpin(argument.as_deref()).map_or_else(Self::Wrong, Self::Orders),
            "orders" => match argument {
                None => Self::Orders(OrderCommand::List),
                Some(_) => Self::Wrong("/orders takes nothing; /pin TEXT adds an order".to_owned()),
            },
            "queue" => QueueCommand::of(argument.as_deref().unwrap_or_default()),
            "retry" | "resume" => Self::Retry,
            "model" => Self::Model(argument),
            "sessions" => Self::Sessions(argument),
            "fork" => match argument.map(|text| text.parse::<Seq>()) {
                None => Self::Fork(None),
                Some(Ok(seq)) => Self::Fork(Some(seq)),
                Some(Err(_)) => Self::Wrong("/fork takes a position of the log, a number".to_owned()),
            },
            "export" => Self::Export(argument.map(PathBuf::from)),
            "help" | "?" => Self::Help,
            "quit" | "exit" => Self::Quit,
            other => Self::Wrong(format!("there is no /{other}; /help shows the commands")),
        })
    }
}

impl QueueCommand {
    fn of(text: &str) -> ChatCommand {
        let mut words = text.splitn(3, char::is_whitespace);
        let work = match (words.next().unwrap_or_default(), words.next(), words.next()) {
            ("", None, None) | ("list", None, None) => Some(Self::List),
            ("clear", None, None) => Some(Self::Clear),
            ("remove", Some(number), None) => number.parse().ok().map(Self::Remove),
            ("edit", Some(number), Some(text)) => {
                number.parse().ok().map(|number| Self::Edit(number, text.trim().to_owned()))
            }
            _ => None,
        };
        work.map_or_else(
            || ChatCommand::Wrong("/queue alone, or edit NUMBER TEXT, remove NUMBER, clear".to_owned()),
            ChatCommand::Queue,
        )
    }
}

impl ChatContext<'_> {
    /// Performs a command.
    pub(super) async fn perform(&self, slash: ChatCommand) -> Outcome<ChatCommandResult> {
        let text = match slash {
            ChatCommand::Context => {
                let report = self.session.context().await?;
                let beside = self.session.inspect_run(PlannerSummary::of).await?;
                table::table(&report, &beside, &self.runtime.agent().provider.origin().model)
            }
            ChatCommand::Show => self.show().await?,
            ChatCommand::Recall(query) => self.recall(&query).await?,
            ChatCommand::Preview(instructions) => {
                check_length(instructions.as_deref())?;
                self.session.inspect_run(|run| previewed(run, None, instructions)).await?
            }
            ChatCommand::Compact(instructions) => return self.compact(instructions),
            ChatCommand::Compactions => {
                let events = self.runtime.log(self.session.id()).await?;
                self.session.inspect_run(move |run| compactions::listed(run, &events, "/undo")).await?
            }
            // The row in the transcript says the rest.
            ChatCommand::Undo(edit) => {
                format!("{}\n", undo(&self.session, edit, "/compactions").await?.sizes())
            }
            ChatCommand::Orders(work) => work.perform(&self.session).await?,
            ChatCommand::Queue(work) => self.queue(work).await?,
            // One command serves both cases: a run that waits for its server, and a session at rest.
            ChatCommand::Retry if self.session.retry_now().await? => "trying again now\n".to_owned(),
            ChatCommand::Retry => match self.session.resume().await? {
                ResumeOutcome::NothingToDo => {
                    "nothing waits for an answer: send a message to go on\n".to_owned()
                }
                _ => String::new(),
            },
            ChatCommand::Model(None) => self.model(),
            ChatCommand::Model(Some(model)) => {
                // Checked before the server is asked: the switch would be refused anyway while a run goes on.
                self.at_rest()?;
                let note = model::check(self.place, &model).await?;
                let session = Some(self.session.id().clone());
                return self.go(ChatSwitch { session, model: Some(model), note });
            }
            ChatCommand::Sessions(None) => {
                let mut records = self.runtime.sessions(ALL).await?;
                let all = records.len();
                // Cut after the count, so that the note can say how many more there are.
                records.truncate(LISTED);
                let more =
                    left_out(LISTED, all, &format!("`{}` shows more", self.place.command("sessions list")));
                listed(&records, true, self.style, out::width()) + &self.style.dim(&more)
            }
            ChatCommand::Sessions(Some(meant)) => {
                let record = session_lookup::session(self.place, self.runtime.store(), &meant).await?;
                return self.go(ChatSwitch { session: Some(record.id), model: None, note: None });
            }
            ChatCommand::Fork(seq) => return self.fork(seq).await,
            ChatCommand::Export(file) => self.export(file).await?,
            ChatCommand::Help => help(self.place, out::width()),
            ChatCommand::Quit => return Ok(ChatCommandResult::Next(ChatTransition::Leave(DONE))),
            ChatCommand::Wrong(why) => return Err(CommandError::usage(why)),
        };
        Ok(ChatCommandResult::Text(text))
    }

    async fn show(&self) -> Outcome<String> {
        let events = self.runtime.log(self.session.id()).await?;
        let offers = self.session.inspect_run(undo_check::undo_options_of_run).await?;
        let transcript = TranscriptRenderer::new(self.style, TranscriptTarget::Chat, out::width());
        Ok(conversation(&events, 0, &offers, transcript.rows_of(out::row_width()).with_reasons()))
    }

    async fn recall(&self, query: &str) -> Outcome<String> {
        let asked = query.to_owned();
        let look =
            move |run: &Run| check(&asked, run.history(), "/undo").map(|()| RecallSource::of(run.history()));
        let source = self.session.inspect_run(look).await??;
        let found = recall(&source, self.runtime.blobs(), query, RECALLED).await?;
        let all = self.place.command(&format!("recall {} {}", self.session.id(), quoted(query)));
        // Recalled text may have control characters of a tool's output, which a terminal would obey.
        Ok(marked_recall(&visible(&found), &one_line(query), out::screen_rows(), &all, self.style))
    }

    fn go(&self, go: ChatSwitch) -> Outcome<ChatCommandResult> {
        self.at_rest().map(|()| ChatCommandResult::Next(ChatTransition::Go(go)))
    }

    fn at_rest(&self) -> Outcome<()> {
        match *self.session.status().borrow() {
            RunStatus::Idle | RunStatus::Parked => Ok(()),
            _ => Err(CommandError::new("the agent is at work here; Ctrl-C cancels the run first")),
        }
    }

    fn compact(&self, instructions: Option<String>) -> Outcome<ChatCommandResult> {
        check_length(instructions.as_deref())?;
        // Cloned, because the work goes on while the chat handles keys and events.
        let session = self.session.clone();
        // A summary takes seconds to minutes, and the chat must stay usable.
        Ok(ChatCommandResult::Work(Box::pin(async move {
            let asked = instructions.is_some();
            let made = compact_session(&session, None, instructions, |_| ()).await?;
            let unheard = made.unheard();
            match made.outcome {
                // The row in the transcript says the rest.
                CompactionOutcome::Committed(_) => {
                    Ok(unheard.filter(|_| asked).unwrap_or_default().to_owned())
                }
                CompactionOutcome::Refused(why) => Err(CommandError::new(format!("not compacted: {why}"))),
                _ => Ok("nothing to compact: the conversation stays as it is".to_owned()),
            }
        })))
    }

    fn model(&self) -> String {
        let agent = self.runtime.agent();
        let origin = agent.provider.origin();
        let window = agent.limits.window.map_or_else(
            || "unknown, 32,000 assumed".to_owned(),
            |window| format!("{} tokens ({})", crate::term::human::grouped(window), agent.limits.source),
        );
        format!(
            "{} · {} · window {window}\n/model NAME goes on with another one of the same server",
            origin.model, origin.provider
        )
    }

    async fn queue(&self, work: QueueCommand) -> Outcome<String> {
        let (store, id) = (self.runtime.store(), self.session.id());
        let waiting = self.session.queue().await?;
        match work {
            QueueCommand::List if waiting.is_empty() => Ok("nothing waits".to_owned()),
            QueueCommand::List => Ok(waiting.iter().zip(1..).map(|(entry, at)| line(entry, at)).collect()),
            QueueCommand::Edit(number, text) => {
                self.session.edit_queued(numbered(&waiting, number)?.clone(), vec![Part::text(text)]).await?;
                Ok(format!("changed {number}"))
            }
            QueueCommand::Remove(number) => {
                // Numbers are those of the list read above. A message that was taken meanwhile is not found by its
                // id.
                store.remove_queued(id, numbered(&waiting, number)?).await?;
                Ok(format!("removed {number}"))
            }
            QueueCommand::Clear => {
                let gone = store.clear_queue(id).await?.len() as u64;
                Ok(format!("removed {}", count(gone, "message")))
            }
        }
    }

    async fn fork(&self, seq: Option<Seq>) -> Outcome<ChatCommandResult> {
        let record = self.runtime.store().session(self.session.id()).await?;
        let fork = fork_at(self.runtime, &record, seq, "/fork").await?;
        self.go(ChatSwitch { session: Some(fork.id().clone()), model: None, note: None })
    }

    async fn export(&self, file: Option<PathBuf>) -> Outcome<String> {
        let record = self.runtime.store().session(self.session.id()).await?;
        let events = self.runtime.log(&record.id).await?;
        let path = self
            .place
            .workspace
            .join(file.unwrap_or_else(|| PathBuf::from(format!("longhaul-{}.jsonl", record.id))));
        // The chat has no `--force`, so it replaces no file.
        if path.exists() {
            let shown = self.place.shown(&path);
            return Err(CommandError::new(format!("{shown} exists already; name another file")));
        }
        let target = ExportTarget::new(Some(path.clone()), false, false);
        export(&record, &events, self.runtime.blobs(), &target).await?;
        Ok(format!("{} written to {}", count(events.len() as u64, "event"), self.place.shown(&path)))
    }
}

/// Returns every command: its usage and its description.
pub(super) fn described() -> impl Iterator<Item = (&'static str, &'static str)> {
    // The help text is the only list of the commands, so the screen's list cannot differ from it.
    let commands = HELP.lines().filter(|line| line.starts_with('/'));
    let split = commands.filter_map(|line| line.split_at_checked(HELP_COLUMN));
    split.map(|(usage, does)| (usage.trim_end(), does))
}

/// Returns the commands, set for `columns`. Descriptions hang beside the commands.
fn help(place: &CliEnvironment, columns: usize) -> String {
    // The commands name the data folder and the model that this chat was started with.
    let text = HELP
        .replace("`longhaul chat -c`", &format!("`{}`", place.command_with_model("chat -c")))
        .replace("`longhaul recall last WORDS`", &format!("`{}`", place.command("recall last WORDS")));
    let lines = text.lines().map(|line| match line.split_at_checked(HELP_COLUMN) {
        Some((command, does)) if line.starts_with('/') => {
            format!("{command}{}\n", wrapped(does, HELP_COLUMN, HELP_COLUMN, columns))
        }
        _ => format!("{}\n", wrapped(line, 0, 0, columns)),
    });
    lines.collect()
}

/// Returns recalled text between two lines that mark it, cut to `max_rows`. `all` is the command that prints all of it.
fn marked_recall(found: &str, query: &str, max_rows: usize, all: &str, style: TextPainter) -> String {
    let lines: Vec<&str> = found.trim_end().lines().collect();
    let shown = lines.len().min(max_rows);
    let end = match lines.len() - shown {
        0 => "── end of what was recalled".to_owned(),
        more => format!("── {} more; `{all}` prints all", count(more as u64, "line")),
    };
    let begin = style.dim(&format!("── recalled for `{query}`"));
    format!("{begin}\n{}\n{}\n", lines[..shown].join("\n"), style.dim(&end))
}

fn line(entry: &QueuedMessage, at: usize) -> String {
    let text = fit(&one_line(&readable(&entry.parts)), out::width().saturating_sub(6));
    format!("  {at}  {text}\n")
}

fn numbered(waiting: &[QueuedMessage], number: usize) -> Outcome<&QueueId> {
    // People count from 1, so 0 names nothing.
    let entry = number.checked_sub(1).and_then(|at| waiting.get(at));
    entry.map(|entry| &entry.id).ok_or_else(|| {
        CommandError::usage(format!("there is no message {number} in the queue, which has {}", waiting.len()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names of all commands that [`ChatCommand::of`] knows.
    const NAMES: [&str; 21] = [
        "context",
        "show",
        "recall",
        "preview",
        "compact",
        "compactions",
        "undo",
        "pin",
        "unpin",
        "orders",
        "queue",
        "retry",
        "resume",
        "model",
        "sessions",
        "fork",
        "export",
        "help",
        "?",
        "quit",
        "exit",
    ];

    #[test]
    fn the_help_breaks_between_words() {
        for columns in [40, 79, 100] {
            let text = help(&CliEnvironment::default(), columns);
            assert!(text.lines().all(|line| crate::term::text::width(line) <= columns), "{text}");
            let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            assert_eq!(words(&text), words(HELP));
        }
    }

    #[test]
    fn the_help_names_every_command_and_every_command_is_one() {
        for name in NAMES {
            assert!(HELP.contains(&format!("/{name}")), "{name} is not in the help");
            let with = ChatCommand::of(&format!("/{name} 1"))
                .into_iter()
                .chain(ChatCommand::of(&format!("/{name}")));
            assert!(with.into_iter().any(|slash| !matches!(slash, ChatCommand::Wrong(_))), "/{name}");
        }
        let named = HELP.split_whitespace().filter_map(|word| word.strip_prefix('/'));
        for name in named.map(|name| name.trim_end_matches(';')) {
            assert!(NAMES.contains(&name), "/{name} is no command");
        }
    }

    #[test]
    fn recalled_text_is_marked_and_cut_to_a_screen() {
        let found = "one\ntwo\nthree\n";
        let style = TextPainter::default();
        assert_eq!(
            marked_recall(found, "o", 3, "longhaul recall a o", style),
            "── recalled for `o`\none\ntwo\nthree\n── end of what was recalled\n"
        );
        assert_eq!(
            marked_recall(found, "o", 1, "longhaul recall a o", style),
            "── recalled for `o`\none\n── 2 lines more; `longhaul recall a o` prints all\n"
        );
    }

    #[test]
    fn commands_are_told_from_messages() {
        assert_eq!(ChatCommand::of("/recall lh:12"), Some(ChatCommand::Recall("lh:12".into())));
        assert!(matches!(ChatCommand::of("/recall"), Some(ChatCommand::Wrong(_))));
        assert_eq!(ChatCommand::of("/preview"), Some(ChatCommand::Preview(None)));
        assert_eq!(ChatCommand::of("/context"), Some(ChatCommand::Context));
        assert_eq!(
            ChatCommand::of(" /compact keep the names "),
            Some(ChatCommand::Compact(Some("keep the names".into())))
        );
        assert_eq!(
            ChatCommand::of("/queue edit 2 do it later"),
            Some(ChatCommand::Queue(QueueCommand::Edit(2, "do it later".into())))
        );
        assert_eq!(ChatCommand::of("/queue"), Some(ChatCommand::Queue(QueueCommand::List)));
        assert!(matches!(ChatCommand::of("/queue edit two x"), Some(ChatCommand::Wrong(_))));
        assert_eq!(ChatCommand::of("/pin"), Some(ChatCommand::Orders(OrderCommand::List)));
        assert_eq!(
            ChatCommand::of("/pin 2 spaces, never tabs"),
            Some(ChatCommand::Orders(OrderCommand::Pin("2 spaces, never tabs".into())))
        );
        assert_eq!(ChatCommand::of("/orders"), Some(ChatCommand::Orders(OrderCommand::List)));
        assert!(matches!(ChatCommand::of("/orders all"), Some(ChatCommand::Wrong(_))));
        assert_eq!(ChatCommand::of("/unpin 2"), Some(ChatCommand::Orders(OrderCommand::Unpin(2))));
        assert_eq!(
            ChatCommand::of("/unpin o2"),
            Some(ChatCommand::Orders(OrderCommand::UnpinNamed("o2".into())))
        );
        assert!(matches!(ChatCommand::of("/unpin all"), Some(ChatCommand::Wrong(_))));
        assert!(matches!(ChatCommand::of("/fork x"), Some(ChatCommand::Wrong(_))));
        assert!(matches!(ChatCommand::of("/nonsense"), Some(ChatCommand::Wrong(_))));
        assert_eq!(ChatCommand::of("/etc/hosts looks odd"), None);
        assert_eq!(ChatCommand::of("what does /context do?"), None);
        assert_eq!(ChatCommand::of("/context\nand more"), None, "a paste is a message");
    }
}
