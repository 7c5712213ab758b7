//! The folder in which each session was begun. A person who continues a session elsewhere gets a warning.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;

use longhaul::session::{MovedSession, Runtime};
use longhaul_core::ids::SessionId;
use serde::Deserialize;

use crate::environment::CliEnvironment;

/// The file of older versions in the data folder, one session a line. The log has the folder of every new session.
const FILE: &str = "folders.jsonl";

#[derive(Deserialize)]
struct SessionOriginFolder {
    session: String,
    folder: PathBuf,
}

/// Returns a warning if a session is known to have begun in another folder than the workspace.
pub(crate) async fn warning(
    place: &CliEnvironment,
    runtime: &Runtime,
    session: &SessionId,
) -> Option<String> {
    // A warning is not worth an error: a log that cannot be read is reported where it is opened.
    let stored = runtime.origin_folder(session).await.ok().flatten();
    let begun_in = stored.or_else(|| recorded_folder(place, session))?;
    let moved = MovedSession::compare(&begun_in, &place.workspace)?;
    let (begun, here) = (place.shown(&moved.begun_in), place.shown(&moved.workspace));
    Some(format!(
        "this session was begun in {begun}, and its tools work in {here} now: files that it speaks of may be others; \
         `--workspace {begun}` goes on there"
    ))
}

fn recorded_folder(place: &CliEnvironment, session: &SessionId) -> Option<PathBuf> {
    let file = std::fs::File::open(place.data_dir.join(FILE)).ok()?;
    // A line that is not UTF-8 ends the reading: a warning is not worth an error.
    let lines = BufReader::new(file).lines().map_while(Result::ok);
    let mut begun = lines.filter_map(|line| serde_json::from_str::<SessionOriginFolder>(&line).ok());
    // The first line counts, because a session is begun once.
    begun.find(|begun| begun.session == session.as_str()).map(|begun| begun.folder)
}
