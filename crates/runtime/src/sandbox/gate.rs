//! Holds a child until its limits are set.
//!
//! A limit can be set for another process only once there is one. So what is started first is a shell that stops
//! itself; its limits are set, it is told to go on, and becomes the program.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::Access;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, kill_process, waitid};

const SHELL: &str = "/bin/sh";

/// The names are the shell's own; the program is not told of them.
const SCRIPT: &str = r#"kill -STOP $$; unset PWD OLDPWD SHLVL; exec "$0" "$@""#;

/// The program that is started in the place of `program`, and the arguments before its own.
pub(super) fn command(program: &OsStr) -> Command {
    let mut command = Command::new(SHELL);
    command.arg("-c").arg(SCRIPT).arg(program);
    command
}

/// Whether there is a shell to do it with.
pub(super) fn is_possible() -> bool {
    Path::new(SHELL).exists()
}

/// Calls `set` once a child that was started by [`command`] waits for it, and lets it go.
///
/// # Errors
/// The system's error, that of `set`, or that somebody else has let it go. The child has to be killed then.
pub(super) fn open(process: Pid, set: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    let events = WaitIdOptions::STOPPED | WaitIdOptions::CONTINUED | WaitIdOptions::EXITED;
    match state(process, events)? {
        Some(state) if state.stopped() => {}
        Some(state) if state.continued() => return Err(too_early()),
        // It was killed before.
        _ => return Ok(()),
    }
    set()?;
    if state(process, WaitIdOptions::CONTINUED | WaitIdOptions::NOHANG)?.is_some() {
        return Err(too_early());
    }
    Ok(kill_process(process, Signal::CONT)?)
}

fn state(process: Pid, events: WaitIdOptions) -> io::Result<Option<WaitIdStatus>> {
    loop {
        match waitid(WaitId::Pid(process), events | WaitIdOptions::NOWAIT) {
            Err(rustix::io::Errno::INTR) => {}
            other => return Ok(other?),
        }
    }
}

fn too_early() -> io::Error {
    io::Error::other("it was let go by somebody else")
}

/// Whether a program is there to be run: the shell's word for it comes too late for an error of ours.
///
/// # Errors
/// Not found, or not to be run.
pub(super) fn look_for(program: &OsStr, path: Option<&OsString>, directory: &Path) -> io::Result<()> {
    let candidates: Vec<PathBuf> = if program.as_bytes().contains(&b'/') {
        vec![directory.join(program)]
    } else {
        path.into_iter()
            .flat_map(std::env::split_paths)
            .map(|folder| directory.join(folder).join(program))
            .collect()
    };
    let mut why = io::Error::from(io::ErrorKind::NotFound);
    for candidate in candidates {
        match runnable(&candidate) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => why = error,
        }
    }
    Err(why)
}

fn runnable(candidate: &Path) -> io::Result<()> {
    if !candidate.metadata()?.is_file() {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    Ok(rustix::fs::access(candidate, Access::EXEC_OK)?)
}
