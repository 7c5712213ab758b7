//! `longhaul sessions`: the stored sessions. Only the store is needed, no model.

mod delete;
mod import;

use std::fs::OpenOptions;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use longhaul::clock::now_ms;
use longhaul::config::AgentConfig;
use longhaul::export::{self, SessionMeta};
use longhaul::io_error::io_error_text;
use longhaul::session::{Runtime, Session, SessionError, positions_at_rest, whole_log};
use longhaul_core::event::{Event, EventBody};
use longhaul_core::history::History;
use longhaul_core::ids::Seq;
use longhaul_store::{BlobStore, SessionRecord};
use longhaul_store_sqlite::SqliteStore;
use serde_json::json;

use crate::args::SessionsCommand;
use crate::data::{self, DataStores};
use crate::environment::CliEnvironment;
use crate::failure::{CommandError, DONE, Outcome};
use crate::hint::quoted;
use crate::removed_messages;
use crate::session_lookup::{self, ALL};
use crate::term::human::{ago, count, grouped};
use crate::term::out;
use crate::term::style::TextPainter;
use crate::term::text::{fit, one_line, pad};
use crate::term::transcript::{TranscriptRenderer, TranscriptTarget};
use crate::term::ui_event::{self, UiEvent};
use crate::undo_check::{self, UndoOptions};

use super::{AgentRequirement, reading};

pub(crate) async fn run(command: SessionsCommand, place: &CliEnvironment) -> Outcome {
    match command {
        SessionsCommand::List { .. } | SessionsCommand::Show { .. } | SessionsCommand::Export { .. } => {
            let data = reading::usual(place).await?;
            let done = read(command, &data, place).await;
            // Closed after errors too, so that the folder is free.
            data.store.close().await;
            done.map(|()| DONE)
        }
        SessionsCommand::Fork { session, seq, at } => fork(place, &session, seq.or(at)).await,
        SessionsCommand::Import { files } => import(place, &files).await,
        SessionsCommand::Delete { sessions, yes } => delete::run(place, &sessions, yes).await,
    }
}

async fn read(command: SessionsCommand, data: &DataStores, place: &CliEnvironment) -> Outcome<()> {
    match command {
        SessionsCommand::List { json, limit } => list(data, place, json, limit).await,
        SessionsCommand::Show { session } => show(data, place, &session).await,
        SessionsCommand::Export { session, file, markdown, force } => {
            export_to(data, place, &session, &ExportTarget::new(file, markdown, force)).await
        }
        SessionsCommand::Import { .. } | SessionsCommand::Fork { .. } | SessionsCommand::Delete { .. } => {
            Ok(())
        }
    }
}

/// Imports sessions. The folder is opened only when all is read: a process that has the folder may be writing
/// into the pipe.
async fn import(place: &CliEnvironment, files: &[PathBuf]) -> Outcome {
    let conversations = import::read_all(files).await;
    if conversations.iter().all(import::ImportFile::has_failed) {
        return import::none(&conversations);
    }
    let data = data::open(place, AgentConfig::default().blobs.max_bytes).await?;
    let done = import::import(&data, conversations).await;
    data.store.close().await;
    done.map(|()| DONE)
}

async fn list(data: &DataStores, place: &CliEnvironment, json: bool, limit: usize) -> Outcome<()> {
    let mut records = data.store.sessions(ALL).await?;
    let all = records.len();
    // All are read and then cut, so that the note can name their number.
    records.truncate(limit);
    if json {
        let records: Vec<_> = records.iter().map(as_json).collect();
        out::print_line(&serde_json::to_string_pretty(&records)?)?;
        out::message(&left_out(limit, all, "--limit COUNT shows more"));
        return Ok(());
    }
    if records.is_empty() {
        out::message(&format!(
            "no session yet; begin one with `{}`, or bring one: `{}`\n",
            place.command_with_model("chat"),
            place.command("sessions import FILE")
        ));
    }
    // A run that was killed stays unfinished in the store. It is at work only if a process has the folder.
    let in_use = SqliteStore::is_in_use(&place.data_dir);
    out::data(&listed(&records, in_use, super::style(place), out::width()))?;
    out::message(&left_out(limit, all, "--limit COUNT shows more"));
    Ok(())
}

/// Says how many of all sessions are listed, and how the others can be seen. Empty if all are listed.
pub(super) fn left_out(shown: usize, all: usize, more: &str) -> String {
    if shown < all {
        format!("{} of {} sessions, the newest; {more}\n", grouped(shown as u64), grouped(all as u64))
    } else {
        String::new()
    }
}

/// Lists sessions, one a line. An unfinished run can only be running while a process has the folder.
pub(super) fn listed(records: &[SessionRecord], in_use: bool, style: TextPainter, columns: usize) -> String {
    let shown = session_lookup::shown_length(records);
    let now = now_ms();
    let line = |record: &SessionRecord| {
        let id: String = record.id.as_str().chars().take(shown).collect();
        let state = match (record.running, record.queued) {
            (true, _) if in_use => "at work".to_owned(),
            (true, _) => "interrupted".to_owned(),
            (false, 0) => count(record.last_seq, "event"),
            (false, queued) => format!("{queued} queued"),
        };
        let when = ago(record.updated_at, now);
        let title = one_line(record.title.as_deref().unwrap_or("(no title)"));
        let room = columns.saturating_sub(shown + 2 + 14 + 14);
        format!("{}  {}{}{}\n", style.bold(&id), pad(&when, 14), pad(&state, 14), fit(&title, room))
    };
    records.iter().map(line).collect()
}

fn as_json(record: &SessionRecord) -> serde_json::Value {
    json!({
        "id": record.id,
        "title": record.title,
        "createdAt": record.created_at,
        "updatedAt": record.updated_at,
        "events": record.last_seq,
        "queued": record.queued,
        "running": record.running,
    })
}

async fn show(data: &DataStores, place: &CliEnvironment, meant: &str) -> Outcome<()> {
    let record = session_lookup::session(place, &data.store, meant).await?;
    let events = whole_log(&data.store, &record.id).await?;
    let style = super::style(place);
    let title = record.title.as_deref().map_or_else(String::new, |title| format!(" · {}", one_line(title)));
    let head = format!("{}{title}", style.bold(record.id.as_str()));
    let about = format!("{} · {}", count(record.last_seq, "event"), ago(record.updated_at, now_ms()));
    out::print_line(&format!("{head}\n{}\n", style.dim(&about)))?;
    let transcript = TranscriptRenderer::new(style, TranscriptTarget::Shell, out::width());
    let mut transcript = transcript.rows_of(out::row_width()).with_reasons();
    transcript.set_undo_command(place.command(&format!("undo {}", quoted(meant))));
    let mut text = conversation(&events, 0, &undo_check::undo_options_of_log(&events), transcript);
    text.push_str(&unfinished_answer(data, place, &record, style).await?);
    Ok(out::data(&text)?)
}

/// Returns the text of an answer that is in no event yet, because its process writes it or was killed.
async fn unfinished_answer(
    data: &DataStores,
    place: &CliEnvironment,
    record: &SessionRecord,
    style: TextPainter,
) -> Outcome<String> {
    let chunks = data.store.chunks(&record.id).await?;
    let text: String = chunks.into_iter().map(|chunk| chunk.body).collect();
    if text.trim().is_empty() {
        return Ok(String::new());
    }
    // Only a living process holds the folder.
    let why = if SqliteStore::is_in_use(&place.data_dir) {
        "(not finished: it is being written)"
    } else {
        "(not finished: the process ended)"
    };
    let transcript = TranscriptRenderer::new(style, TranscriptTarget::Shell, out::width());
    let mut transcript = transcript.rows_of(out::row_width());
    transcript.take(&UiEvent::Text(text), now_ms());
    transcript.row(&format!("       {}", style.dim(why)));
    Ok(transcript.output())
}

/// Returns the conversation from the event at `from` on, as it was printed at the time. Each edit says
/// whether it can be undone now.
pub(super) fn conversation(
    events: &[Event],
    from: usize,
    offers: &UndoOptions,
    mut transcript: TranscriptRenderer,
) -> String {
    let gone = removed_messages::removed_by_edit(events);
    for event in &events[from..] {
        for mut happening in ui_event::events_from_log_entry(event) {
            let is_compaction = matches!(happening, UiEvent::Compacted(_));
            if let Some(edit) = happening.edit() {
                // For cleared results the event itself has the right numbers.
                edit.gone = gone.get(&edit.id).filter(|_| is_compaction).copied().unwrap_or(edit.gone);
                edit.undo = offers.get(&edit.id).cloned().unwrap_or_default();
            }
            transcript.take(&happening, event.at);
        }
    }
    transcript.output()
}

/// The target of an export.
pub(super) struct ExportTarget {
    file: Option<PathBuf>,
    markdown: bool,
    overwrite: bool,
}

impl ExportTarget {
    /// Creates a target. `-` and no name are standard output; a name that ends in `.md` is for people.
    pub(super) fn new(file: Option<PathBuf>, markdown: bool, overwrite: bool) -> Self {
        let file = file.filter(|file| file != Path::new("-"));
        let named =
            file.as_ref().and_then(|file| file.extension()).is_some_and(|it| it == "md" || it == "markdown");
        Self { file, markdown: markdown || named, overwrite }
    }

    /// Writes through `write`.
    ///
    /// # Errors
    /// The file exists already, or cannot be written.
    fn write(&self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Outcome<()> {
        let Some(path) = &self.file else {
            return Ok(write(&mut BufWriter::new(io::stdout().lock()))?);
        };
        let mut options = OpenOptions::new();
        // `create_new` checks and creates in one call: no file can appear in between and be overwritten.
        let options = options.write(true).create(true).truncate(self.overwrite).create_new(!self.overwrite);
        let failed = |error: io::Error| {
            let why = io_error_text(&error);
            CommandError::new(format!("{} was not written: {why}", path.display()))
        };
        let opened = options.open(path).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => {
                CommandError::new(format!("{} exists already; --force overwrites it", path.display()))
            }
            _ => failed(error),
        });
        let mut file = BufWriter::new(opened?);
        write(&mut file).and_then(|()| file.flush()).map_err(failed)
    }
}

async fn export_to(
    data: &DataStores,
    place: &CliEnvironment,
    meant: &str,
    target: &ExportTarget,
) -> Outcome<()> {
    let record = session_lookup::session(place, &data.store, meant).await?;
    let events = whole_log(&data.store, &record.id).await?;
    let missing = export(&record, &events, &data.blobs, target).await?;
    if let Some(file) = &target.file {
        out::message(&format!("{} written to {}\n", count(events.len() as u64, "event"), file.display()));
    }
    if missing > 0 {
        out::message(&format!("{} could not be read and are left out\n", count(missing, "stored content")));
    }
    Ok(())
}

/// Writes a session. Returns the number of missing stored contents.
pub(super) async fn export(
    record: &SessionRecord,
    events: &[Event],
    blobs: &BlobStore,
    target: &ExportTarget,
) -> Outcome<u64> {
    let meta =
        SessionMeta { id: record.id.clone(), title: record.title.clone(), created_at: record.created_at };
    if target.markdown {
        let text = export::markdown(&meta, events);
        target.write(|out| out.write_all(text.as_bytes()))?;
        return Ok(0);
    }
    // All contents are read before the file is opened, so that a failing read leaves no half export.
    let mut contents = Vec::new();
    let mut missing = 0;
    for blob in export::blob_refs(events) {
        match blobs.get(&blob).await {
            Ok(content) => contents.push((blob, content)),
            // A log without one of its pictures is still worth exporting.
            Err(error) => {
                tracing::warn!("{error}");
                missing += 1;
            }
        }
    }
    let pairs = contents.iter().map(|(blob, content)| (blob, content));
    target.write(|mut out| export::jsonl(&mut out, &meta, events, pairs))?;
    Ok(missing)
}

async fn fork(place: &CliEnvironment, meant: &str, seq: Option<Seq>) -> Outcome {
    let runtime = super::open(place, AgentRequirement::View).await?;
    let record = session_lookup::session(place, runtime.store(), meant).await?;
    let command = place.command(&format!("sessions fork {meant}"));
    let forked = fork_at(&runtime, &record, seq, &command).await;
    let id = forked.map(|session| session.id().clone());
    runtime.close().await;
    out::print_line(id?.as_str())?;
    Ok(DONE)
}

/// Forks at a position, by default the newest. A refusal names the nearest position that works, behind `command`.
pub(super) async fn fork_at(
    runtime: &Runtime,
    record: &SessionRecord,
    seq: Option<Seq>,
    command: &str,
) -> Outcome<Session> {
    let at = seq.unwrap_or(record.last_seq);
    match runtime.fork(&record.id, at).await {
        Ok(session) => Ok(session),
        Err(error @ (SessionError::Conflict(_) | SessionError::NotFound(_))) => {
            let rests = positions_at_rest(&runtime.log(&record.id).await?);
            // Of two equally near positions the earlier one has less that was not meant.
            let nearest = rests.iter().min_by_key(|rest| rest.abs_diff(at));
            let failure = CommandError::from(error);
            Err(match nearest {
                Some(nearest) => failure.followed_by(&format!("try `{command} {nearest}`")),
                None => failure,
            })
        }
        Err(error) => Err(error.into()),
    }
}

/// Returns the session's title, or else the first words of its text.
pub(super) fn title_of(text: &str) -> String {
    fit(&one_line(text), 60)
}

/// Checks that a log can be folded. An imported session must be usable.
fn check(events: &[(u64, EventBody)]) -> Outcome<()> {
    let numbered = (1..).zip(events).map(|(seq, (at, body))| Event {
        seq,
        at: *at,
        format: longhaul_core::event::FORMAT,
        body: body.clone(),
    });
    let events: Vec<Event> = numbered.collect();
    History::fold(&events)?;
    Ok(())
}
