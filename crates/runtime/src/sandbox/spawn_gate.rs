//! Holds a child until the limits are set.
//!
//! A limit can be set only for an existing process. The first program is therefore a shell in wait for a line. The
//! limits are set, the line is written, and the shell becomes the program.
//!
//! The line comes through a pipe whose other end only the runtime's process has. If the runtime's process dies in any
//! way, the shell reads the end of the pipe and exits. (A stopped shell would outlive the server, and any process could
//! continue the shell and so start the program without limits.)

use std::ffi::{OsStr, OsString};
use std::io::{self, PipeWriter, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use command_fds::{CommandFdExt, FdMapping};
use rustix::fs::Access;

const SHELL: &str = "/bin/sh";

/// The descriptor from which the shell reads the line. The number has a single digit because some shells know no
/// others.
const DESCRIPTOR: i32 = 9;

/// The script unsets the shell's own variables, so the program does not inherit them.
const SCRIPT: &str =
    r#"read -r longhaul_gate <&9 || exit 1; exec 9<&-; unset longhaul_gate PWD OLDPWD SHLVL; exec "$0" "$@""#;

/// The pipe's end for releasing a held child. Dropping the end kills the child.
#[derive(Debug)]
pub(super) struct SpawnGate(PipeWriter);

/// Builds the command of the shell that becomes `program`, and the shell's gate.
///
/// # Errors
/// The system's error.
pub(super) fn command(program: &OsStr) -> io::Result<(Command, SpawnGate)> {
    let (reader, writer) = io::pipe()?;
    let mut command = Command::new(SHELL);
    // The program is the script's `$0`, so the child's own arguments are exactly `$@`.
    command.arg("-c").arg(SCRIPT).arg(program);
    let mapping = FdMapping { parent_fd: reader.into(), child_fd: DESCRIPTOR };
    command.fd_mappings(vec![mapping]).map_err(io::Error::other)?;
    Ok((command, SpawnGate(writer)))
}

/// Reports whether there is a shell for the gate.
pub(super) fn is_possible() -> bool {
    Path::new(SHELL).exists()
}

impl SpawnGate {
    /// Releases the child.
    ///
    /// # Errors
    /// The system's error. The child must be killed then.
    pub(super) fn open(mut self) -> io::Result<()> {
        match self.0.write_all(b"\n") {
            // The child was killed before.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            written => written,
        }
    }
}

/// Checks that a program exists and can be run, because the shell reports a failure too late for our own error.
///
/// # Errors
/// The program was not found or cannot be run.
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
            // Like `execvp`, the search goes on, and an error other than a missing file is remembered for the end.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => why = error,
        }
    }
    Err(why)
}

fn runnable(candidate: &Path) -> io::Result<()> {
    // `access` allows folders, too, which `exec` refuses.
    if !candidate.metadata()?.is_file() {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    Ok(rustix::fs::access(candidate, Access::EXEC_OK)?)
}

#[cfg(test)]
mod tests {
    use std::io::BufRead as _;
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::Stdio;
    use std::time::{Duration, Instant};

    use rustix::process::{Pid, Signal, kill_process};

    use super::*;

    #[test]
    fn a_child_runs_once_it_is_let_go_and_has_no_descriptor_of_the_gate() {
        let (mut command, gate) = command(OsStr::new("/bin/sh")).unwrap();
        let script = r#"test -e /proc/self/fd/9; echo "$?:$longhaul_gate:$1"; cat"#;
        command.args(["-c", script, "sh", "a b"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.env_clear().spawn().unwrap();
        std::thread::sleep(Duration::from_millis(50));
        assert!(child.try_wait().unwrap().is_none(), "it waits");
        gate.open().unwrap();
        child.stdin.take().unwrap().write_all(b"input").unwrap();
        let output = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
        assert_eq!(output, "1::a b\ninput");
    }

    #[test]
    fn a_child_whose_gate_is_gone_never_runs() {
        let (mut command, gate) = command(OsStr::new("/bin/echo")).unwrap();
        let mut child = command.arg("ran").stdout(Stdio::piped()).spawn().unwrap();
        drop((gate, command));
        let ended = child.wait().unwrap();
        assert!(ended.code() == Some(1) && ended.signal().is_none(), "{ended}");
        assert_eq!(io::read_to_string(child.stdout.unwrap()).unwrap(), "");
    }

    /// Set for a copy of this test that holds a child until it is killed.
    const HOLDER: &str = "LONGHAUL_TEST_HOLDS_A_CHILD";

    #[test]
    fn a_child_dies_at_its_gate_with_a_server_that_is_killed() {
        if let Some(file) = std::env::var_os(HOLDER) {
            let (mut command, gate) = command(OsStr::new("/bin/touch")).unwrap();
            let mut child = command.arg(file).spawn().unwrap();
            println!("held {}", child.id());
            std::thread::sleep(Duration::from_secs(60));
            drop((gate, command));
            child.wait().unwrap();
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ran");
        let name = "sandbox::spawn_gate::tests::a_child_dies_at_its_gate_with_a_server_that_is_killed";
        let mut server = Command::new(std::env::current_exe().unwrap())
            .args([name, "--exact", "--nocapture"])
            .env(HOLDER, &file)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let said = io::BufReader::new(server.stdout.take().unwrap()).lines();
        let held = said.map_while(Result::ok).find_map(|line| line.split("held ").nth(1)?.parse().ok());
        let held = Pid::from_raw(held.unwrap()).unwrap();
        server.kill().unwrap();
        server.wait().unwrap();
        let begun = Instant::now();
        let is_there = || {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", held.as_raw_nonzero()));
            stat.is_ok_and(|stat| stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z')))
        };
        while is_there() {
            // Nobody lets it go on.
            let _ = kill_process(held, Signal::CONT);
            assert!(begun.elapsed() < Duration::from_secs(30), "the held child outlives its server");
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(!file.exists(), "it ran");
    }
}
