//! The import of conversations. Content is stored before the events that name it.

use std::path::{Path, PathBuf};

use longhaul::clock::now_ms;
use longhaul::import::{self, ImportedFile, ImportedSession};
use longhaul_core::ids::SessionId;
use longhaul_store::NewSession;
use tokio::io::AsyncReadExt;
use uuid::Uuid;

use crate::data::DataStores;
use crate::failure::{CommandError, Outcome};
use crate::term::human::count;
use crate::term::out;
use crate::term::text::one_line;

/// The maximum number of a session's warnings that are printed. The others are counted.
const SHOWN_WARNINGS: usize = 10;

/// A file and its conversations.
pub(super) struct ImportFile {
    file: PathBuf,
    found: Outcome<ImportedFile>,
}

impl ImportFile {
    /// Returns whether there is nothing to import.
    pub(super) fn has_failed(&self) -> bool {
        self.found.is_err()
    }
}

/// Reads every file to its end. No session is touched.
pub(super) async fn read_all(files: &[PathBuf]) -> Vec<ImportFile> {
    let mut all = Vec::new();
    for file in files {
        all.push(ImportFile { file: file.clone(), found: parse(file).await });
    }
    all
}

/// Prints the error of every file, where none can be imported.
pub(super) fn none<T>(all: &[ImportFile]) -> Outcome<T> {
    for ImportFile { file, found } in all {
        if let Err(failure) = found {
            complain(file, failure);
        }
    }
    Err(not_imported(all.len(), all.len()))
}

/// Imports all readable files. The error of an unreadable file is printed, and does not stop the others.
pub(super) async fn import(data: &DataStores, all: Vec<ImportFile>) -> Outcome<()> {
    let (mut failed, of) = (0, all.len());
    for ImportFile { file, found } in all {
        let done = match found {
            Ok(imported) => import_file(data, imported).await,
            Err(failure) => Err(failure),
        };
        if let Err(failure) = done {
            complain(&file, &failure);
            failed += 1;
        }
    }
    if failed == 0 { Ok(()) } else { Err(not_imported(failed, of)) }
}

fn complain(file: &Path, failure: &CommandError) {
    out::message(&format!("{}: {}\n", shown(file), failure.message()));
}

fn not_imported(failed: usize, of: usize) -> CommandError {
    let files = count(of as u64, "file");
    CommandError::new(match of - failed {
        0 if of == 1 => "nothing was imported".to_owned(),
        0 => format!("none of {files} was imported"),
        1 => format!("{failed} of {files} not imported; the other one is"),
        _ => format!("{failed} of {files} not imported; the others are"),
    })
}

async fn parse(file: &Path) -> Outcome<ImportedFile> {
    let bytes = read(file).await?;
    Ok(import::import(&bytes, now_ms())?)
}

async fn import_file(data: &DataStores, imported: ImportedFile) -> Outcome<()> {
    let format = imported.format.as_str();
    for session in imported.sessions {
        let warnings: Vec<String> = session.warnings.iter().map(ToString::to_string).collect();
        let title = session.title.clone().unwrap_or_default();
        let events = session.events.len() as u64;
        let id = store(data, session).await?;
        out::print_line(id.as_str())?;
        out::message(&format!("  {} · {} · {format}\n", one_line(&title), count(events, "event")));
        warn(&warnings);
    }
    Ok(())
}

async fn store(data: &DataStores, session: ImportedSession) -> Outcome<SessionId> {
    // Checked before anything is stored: a broken conversation must leave no blobs behind.
    super::check(&session.events)?;
    // Blobs go first, because the log names them.
    for (_, content) in session.blobs {
        data.blobs.put(content).await?;
    }
    let id = SessionId::new(Uuid::now_v7().to_string());
    let new = NewSession { id: id.clone(), title: session.title, at: now_ms(), events: session.events };
    data.store.create(new).await?;
    Ok(id)
}

async fn read(file: &Path) -> Outcome<Vec<u8>> {
    let mut bytes = Vec::new();
    if file == Path::new("-") {
        // One byte above the limit, so that the parser notices an input that is too large.
        let most = import::MAX_BYTES as u64 + 1;
        tokio::io::stdin().take(most).read_to_end(&mut bytes).await?;
    } else {
        bytes = tokio::fs::read(file).await?;
    }
    Ok(bytes)
}

fn warn(warnings: &[String]) {
    for warning in warnings.iter().take(SHOWN_WARNINGS) {
        out::message(&format!("  ! {}\n", one_line(warning)));
    }
    if warnings.len() > SHOWN_WARNINGS {
        out::message(&format!("  ! … {} more\n", count((warnings.len() - SHOWN_WARNINGS) as u64, "warning")));
    }
}

fn shown(file: &Path) -> String {
    if file == Path::new("-") { "standard input".to_owned() } else { file.display().to_string() }
}
