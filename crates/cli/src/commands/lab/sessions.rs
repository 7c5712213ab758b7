//! Recordings from files, and synthetic recordings.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use crate::lab::recording::SessionRecording;
use crate::lab::synthetic;
use longhaul::clock::now_ms;
use longhaul::import::{self, ImportedSession};
use longhaul_core::estimate::MessageTokenCounter;
use longhaul_core::event::{Event, FORMAT};
use tokio::io::AsyncReadExt;

use super::progress;
use crate::failure::{CommandError, Outcome};
use crate::term::text::one_line;

/// Model calls of each synthetic coding session.
const CODING_STEPS: [usize; 2] = [300, 800];
/// Turns of each synthetic support session.
const SUPPORT_TURNS: [usize; 2] = [150, 400];

/// Reads every session of the files.
///
/// # Errors
/// Usage, for a file that cannot be read as one of the known formats.
pub(super) async fn read(files: &[PathBuf], counter: &MessageTokenCounter) -> Outcome<Vec<SessionRecording>> {
    let mut all: Vec<SessionRecording> = Vec::new();
    for (at, file) in files.iter().enumerate() {
        let shown = if file == Path::new("-") { "standard input".into() } else { file.display().to_string() };
        if std::io::stderr().is_terminal() {
            progress::say(&format!("reading file {} of {} · {shown}", at + 1, files.len()));
        }
        if file.is_dir() {
            return Err(CommandError::usage(format!(
                "{shown} is a folder; name the files in it, for example {}",
                file.join("*.jsonl").display()
            )));
        }
        let bytes = content(file).await.map_err(|error| CommandError::usage(format!("{shown}: {error}")))?;
        let found = import::import(&bytes, now_ms())
            .map_err(|error| CommandError::usage(format!("{shown}: {error}")))?;
        let (group, several) = (found.format.as_str(), found.sessions.len() > 1);
        for (index, session) in found.sessions.into_iter().enumerate() {
            let stem = file.file_stem().map_or_else(|| shown.clone(), |it| it.to_string_lossy().into_owned());
            let stem = if stem == "-" { shown.clone() } else { one_line(&stem) };
            let name = if several { format!("{stem} #{}", index + 1) } else { stem };
            let name = unused(name, &all);
            all.push(
                recording(name, group, session, counter)
                    .map_err(|error| CommandError::usage(format!("{shown}: {error}")))?,
            );
        }
    }
    if std::io::stderr().is_terminal() {
        progress::end();
    }
    Ok(all)
}

async fn content(file: &Path) -> std::io::Result<Vec<u8>> {
    if file != Path::new("-") {
        return tokio::fs::read(file).await;
    }
    let mut bytes = Vec::new();
    // One byte more than the limit, so that the import sees an excess and reports it.
    tokio::io::stdin().take(import::MAX_BYTES as u64 + 1).read_to_end(&mut bytes).await?;
    Ok(bytes)
}

/// Returns an unused name: tables tell sessions apart by their names.
fn unused(name: String, known: &[SessionRecording]) -> String {
    if !is_taken(&name, known) {
        return name;
    }
    let numbered = (2..).map(|number| format!("{name} ({number})"));
    numbered.into_iter().find(|it| !is_taken(it, known)).unwrap_or(name)
}

fn is_taken(name: &str, known: &[SessionRecording]) -> bool {
    known.iter().any(|it| it.name == name)
}

fn recording(
    name: String,
    group: &str,
    session: ImportedSession,
    counter: &MessageTokenCounter,
) -> Result<SessionRecording, longhaul_core::history::HistoryFoldError> {
    let fixed: Vec<String> = [session.system_prompt, session.tools].into_iter().flatten().collect();
    let fixed_tokens = fixed.iter().map(|text| counter.text(text)).sum();
    let numbered = (1..).zip(session.events);
    let events = numbered.map(|(seq, (at, body))| Event { seq, at, format: FORMAT, body }).collect();
    let recording = SessionRecording::of(name, group, events, fixed_tokens, counter.clone())?;
    Ok(recording.with_fixed_text(fixed.join("\n")))
}

/// Returns long sessions made by a program, equal every time.
pub(super) fn synthetic() -> Outcome<Vec<SessionRecording>> {
    let mut all = Vec::new();
    for (seed, steps) in (1..).zip(CODING_STEPS) {
        all.push(synthetic::coding(seed, steps)?);
    }
    for (seed, turns) in (1..).zip(SUPPORT_TURNS) {
        all.push(synthetic::support(seed, turns)?);
    }
    Ok(all)
}
