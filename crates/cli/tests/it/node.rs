//! The checks under `clients/checks`: our protocols at the other end of their official clients, which run under Node.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::bench::given;

/// Where the checks are.
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../clients/checks");

/// Node, where it and what the checks need are installed. Without them the test says so, and fails if the
/// environment insists.
pub(crate) fn node(test: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let node = std::env::split_paths(&path).map(|folder| folder.join("node")).find(|node| node.is_file());
    let installed = Path::new(FOLDER).join("node_modules").is_dir();
    match node {
        Some(node) if installed => Some(node),
        found => {
            let why = match found {
                Some(_) => "clients/checks has no node_modules (npm ci)",
                None => "there is no node",
            };
            eprintln!("SKIPPED {test}: {why}");
            assert!(std::env::var_os("LONGHAUL_REQUIRE_NODE").is_none(), "{test} cannot be run: {why}");
            None
        }
    }
}

/// Runs a check on a command that it starts by itself; what it found out.
#[track_caller]
pub(crate) fn check(node: &Path, script: &[&str], started: &Command, more: Value) -> Value {
    let text = |text: &std::ffi::OsStr| Value::from(text.to_str().unwrap());
    let env = started.get_envs().filter_map(|(name, value)| Some((name.to_str()?.to_owned(), text(value?))));
    let mut about = json!({
        "command": text(started.get_program()),
        "args": started.get_args().map(text).collect::<Vec<_>>(),
        "cwd": text(started.get_current_dir().unwrap().as_os_str()),
        "env": env.collect::<serde_json::Map<_, _>>(),
    });
    about.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let mut command = Command::new(node);
    command.current_dir(FOLDER).args(script).env("LONGHAUL_CHECK", about.to_string());
    let given = given(command.output().unwrap()).exits(0);
    serde_json::from_str(&given.out).unwrap()
}
