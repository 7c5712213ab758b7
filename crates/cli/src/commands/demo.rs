//! `longhaul demo`: the library's work in half a minute, without a model.

use std::process::ExitCode;

use crate::args::DemoArgs;
use crate::demo::{DemoOptions, SMALLEST_WINDOW, WINDOW, play};
use crate::environment::CliEnvironment;
use crate::failure::{CommandError, DONE, Outcome};
use crate::{agent_file, data};
use longhaul::config_agent;
use longhaul_store_sqlite::SqliteStore;

/// The folder of the demo's session below a data folder that another process uses.
const DEMO_FOLDER: &str = "demo";

/// The largest output kept whole, in bytes.
const MAX_BLOB_BYTES: u64 = 64 << 20;

/// Plays the demo over the workspace or the folder named.
pub(crate) async fn run(args: DemoArgs, place: &CliEnvironment) -> Outcome {
    let window = args.window.unwrap_or(WINDOW);
    if window < SMALLEST_WINDOW {
        return Err(CommandError::usage(format!(
            "--window {window}: the demo needs at least {SMALLEST_WINDOW} tokens"
        )));
    }
    let is_named = args.folder.is_some();
    let folder = args.folder.map_or_else(|| place.workspace.clone(), |folder| place.workspace.join(folder));
    if folder.is_file() {
        return Err(CommandError::usage(format!(
            "{} is a file, and the demo reads a folder of files: name the folder, or none",
            folder.display()
        )));
    }
    let config = agent_file::load(place)?.config;
    let sessions = with_free_data_dir(place);
    let stage = DemoOptions {
        folder,
        is_named,
        policy: config_agent::compaction_policy(&config),
        protected: vec![place.data_dir.clone()],
        scratch: place.scratch.clone(),
        window,
        // A pipe has no reader, so the pauses for one are left out.
        fast: args.fast || !place.terminal.output,
        colour: place.terminal.colour && place.terminal.output,
        longhaul: sessions.command("").trim_end().to_owned(),
    };
    let data = data::open(&sessions, MAX_BLOB_BYTES).await?;
    let outcome =
        play(&stage, data.store, data.blobs).await.map_err(|error| CommandError::new(error.to_string()))?;
    Ok(if outcome.is_success() { DONE } else { ExitCode::FAILURE })
}

/// Returns the environment with a free data folder: `demo` below the usual one, if another process has that. The demo
/// needs no other session, so a running server is no reason to refuse it.
fn with_free_data_dir(place: &CliEnvironment) -> CliEnvironment {
    let mut place = place.clone();
    if SqliteStore::is_in_use(&place.data_dir) {
        place.data_dir.push(DEMO_FOLDER);
        // Named, so that the commands that the demo prints name it, too.
        place.named_data_dir = Some(place.data_dir.clone());
    }
    place
}
