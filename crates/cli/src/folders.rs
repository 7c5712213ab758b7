//! The folder in which each session was begun. A person who continues a session elsewhere gets a warning.

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;

use longhaul_core::ids::SessionId;
use serde::{Deserialize, Serialize};

use crate::environment::CliEnvironment;

/// The file in the data folder, one session a line. Lines are only added: several processes may do so at once.
const FILE: &str = "folders.jsonl";

#[derive(Serialize, Deserialize)]
struct SessionOriginFolder {
    session: String,
    folder: PathBuf,
}

/// Records this workspace as the folder of a new session. An error is only logged: a later
/// warning is missing.
pub(crate) fn record_origin_folder(place: &CliEnvironment, session: &SessionId) {
    let begun = SessionOriginFolder { session: session.as_str().to_owned(), folder: whole(&place.workspace) };
    let noted = serde_json::to_string(&begun).map_err(std::io::Error::from).and_then(|line| {
        let mut file = OpenOptions::new().create(true).append(true).open(place.data_dir.join(FILE))?;
        // Written in one call, so that lines of several processes do not mix.
        file.write_all(format!("{line}\n").as_bytes())
    });
    if let Err(error) = noted {
        tracing::warn!(%session, %error, "the session's folder was not noted");
    }
}

/// Returns a warning if a session is known to have begun in another folder than the workspace.
pub(crate) fn warning(place: &CliEnvironment, session: &SessionId) -> Option<String> {
    let begun = begun_in(place, session)?;
    let here = whole(&place.workspace);
    if begun == here {
        return None;
    }
    let (begun, here) = (place.shown(&begun), place.shown(&here));
    Some(format!(
        "this session was begun in {begun}, and its tools work in {here} now: files that it speaks of may be others; \
         `--workspace {begun}` goes on there"
    ))
}

fn begun_in(place: &CliEnvironment, session: &SessionId) -> Option<PathBuf> {
    let file = std::fs::File::open(place.data_dir.join(FILE)).ok()?;
    // A line that is not UTF-8 ends the reading: a warning is not worth an error.
    let lines = BufReader::new(file).lines().map_while(Result::ok);
    let mut begun = lines.filter_map(|line| serde_json::from_str::<SessionOriginFolder>(&line).ok());
    // The first line counts, because a session is begun once.
    begun.find(|begun| begun.session == session.as_str()).map(|begun| begun.folder)
}

/// Returns a path without links, so that one folder has one name.
fn whole(folder: &std::path::Path) -> PathBuf {
    // A folder that has gone keeps the name it was called by.
    folder.canonicalize().unwrap_or_else(|_| folder.to_owned())
}
