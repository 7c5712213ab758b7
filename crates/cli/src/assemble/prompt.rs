//! The system prompt. Nothing in it changes from one request to the next, so that caches stay warm.

use std::io::Read as _;

use longhaul::config::{Config, SystemPrompt};
use longhaul::workspace::{Access, Workspace, WorkspaceError};

/// What a workspace tells every agent.
const NOTES: &str = "AGENTS.md";

/// The most of it that is read, in bytes.
const MOST: u64 = 64 << 10;

const DEFAULT: &str = "\
You work for the person you talk with, in one folder of their machine, through tools.

- Look before you change. Read the files that matter first; prefer `read`, `grep`, `glob` and `ls` for looking, and \
`bash` for building, testing and running.
- Change little at a time, in the style that is there, and only what was asked for.
- Check your work: build it, run the tests, read the result. Say plainly what failed and what you did not check.
- What is long is cut and what is old is cleared or summarised, but nothing is lost. Where a text names a handle such \
as lh:12, call `recall` with it instead of guessing; with a query, `recall` searches all that was ever said.
- Ask before anything that cannot be undone.
- Be brief and exact. Answer in the language you are addressed in.";

pub(super) fn system(config: &Config, workspace: &Workspace) -> String {
    let mut system = match &config.system_prompt {
        SystemPrompt::Text(text) if !text.trim().is_empty() => text.clone(),
        _ => DEFAULT.to_owned(),
    };
    match notes(workspace) {
        Ok(Some(notes)) => system.push_str(&format!("\n\n# {NOTES} of this workspace\n\n{}", notes.trim())),
        Ok(None) => {}
        Err(error) => tracing::warn!("{NOTES} is not used: {error}"),
    }
    system
}

/// The notes, read as a tool would: a link out of the workspace or into the data folder is not followed.
fn notes(workspace: &Workspace) -> Result<Option<String>, WorkspaceError> {
    let path = match workspace.resolve(NOTES, Access::Read) {
        Ok(path) => path,
        Err(WorkspaceError::NotFound { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut bytes = Vec::new();
    let failed = |source| WorkspaceError::Io { path: NOTES.to_owned(), source };
    workspace.open_file(&path)?.take(MOST + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > MOST {
        bytes.truncate(MOST as usize);
        tracing::warn!("only the first {} KiB of {NOTES} are used", MOST >> 10);
    }
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()).filter(|text| !text.trim().is_empty()))
}
