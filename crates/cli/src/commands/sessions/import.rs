//! Bringing conversations in. Content is stored before the events that name it.

use std::path::{Path, PathBuf};

use longhaul::clock::now_ms;
use longhaul::import::{self, Imported};
use longhaul_core::ids::SessionId;
use longhaul_store::NewSession;
use tokio::io::AsyncReadExt;
use uuid::Uuid;

use crate::data::Data;
use crate::failure::{Failure, Outcome};
use crate::term::human::count;
use crate::term::out;
use crate::term::text::one_line;

/// Warnings of one session that are printed; the rest is counted.
const SHOWN_WARNINGS: usize = 10;

/// Imports every file; one that cannot be read is named and the others are imported all the same.
pub(super) async fn import(data: &Data, files: &[PathBuf]) -> Outcome<()> {
    let mut failed = 0;
    for file in files {
        if let Err(failure) = import_file(data, file).await {
            out::message(&format!("{}: {}\n", shown(file), failure.message()));
            failed += 1;
        }
    }
    match failed {
        0 => Ok(()),
        failed => {
            let of = files.len();
            Err(Failure::new(format!(
                "{failed} of {} not imported; the others are",
                count(of as u64, "file")
            )))
        }
    }
}

async fn import_file(data: &Data, file: &Path) -> Outcome<()> {
    let bytes = read(file).await?;
    let imported = import::import(&bytes, now_ms())?;
    drop(bytes);
    let format = imported.format.as_str();
    for session in imported.sessions {
        let warnings: Vec<String> = session.warnings.iter().map(ToString::to_string).collect();
        let title = session.title.clone().unwrap_or_default();
        let events = session.events.len() as u64;
        let id = store(data, session).await?;
        out::line(id.as_str())?;
        out::message(&format!("  {} · {} · {format}\n", one_line(&title), count(events, "event")));
        warn(&warnings);
    }
    Ok(())
}

async fn store(data: &Data, session: Imported) -> Outcome<SessionId> {
    super::check(&session.events)?;
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
