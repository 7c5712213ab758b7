//! A folder of its own for each test, and the binary started in it.

use std::ffi::OsStr;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use crate::fake::Fake;

/// A workspace, a data folder, and a home that nobody uses.
pub(crate) struct Bench {
    folder: tempfile::TempDir,
}

/// What a command gave.
#[derive(Debug)]
pub(crate) struct Given {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["work", "home"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        Self { folder }
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Returns whether a file of the data folder has this word. Readers are not shown the beginning of an answer.
    pub(crate) fn has_stored(&self, word: &str) -> bool {
        let files = std::fs::read_dir(self.data()).into_iter().flatten().flatten();
        let mut contents = files.filter_map(|file| std::fs::read(file.path()).ok());
        contents.any(|content| content.windows(word.len()).any(|seen| seen == word.as_bytes()))
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.work().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// The binary with nothing of the environment but what it needs.
    pub(crate) fn command<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
        command
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", self.folder.path().join("home"));
        command.current_dir(self.work()).arg("--data-dir").arg(self.data()).args(args);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// The same, talking to `fake`.
    pub(crate) fn with(&self, fake: &Fake, args: &[&str]) -> Command {
        let url = fake.url();
        let model = ["--base-url", url.as_str(), "--model", "fake-1"];
        self.command(model.iter().chain(args))
    }

    pub(crate) fn run(&self, args: &[&str]) -> Given {
        given(self.command(args).output().unwrap())
    }

    pub(crate) fn run_with(&self, fake: &Fake, args: &[&str]) -> Given {
        given(self.with(fake, args).output().unwrap())
    }
}

/// Writes a file that only its owner can use: a token that others could read is refused.
pub(crate) fn write_closed(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
}

/// Feeds a command's standard input and waits for it.
pub(crate) fn fed(mut command: Command, input: impl AsRef<[u8]>) -> Given {
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_ref()).unwrap();
    given(child.wait_with_output().unwrap())
}

pub(crate) fn given(output: Output) -> Given {
    Given {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

impl Given {
    /// Fails with everything there is to see unless the exit status is `code`.
    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "\n--- out\n{}\n--- err\n{}", self.out, self.err);
        self
    }
}

/// Sends a signal by the shell's own means.
pub(crate) fn signal(child: &Child, name: &str) {
    let sent = Command::new("/bin/sh").arg("-c").arg(format!("kill -{name} {}", child.id())).status();
    assert!(sent.unwrap().success());
}

/// Waits until `is_so`, for at most half a minute.
#[track_caller]
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = std::time::Instant::now();
    while !is_so() {
        assert!(begun.elapsed().as_secs() < 30, "waited in vain: {what}");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

/// Whether a process with exactly this argument among its own is running.
pub(crate) fn is_running(argument: &str) -> bool {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines.into_iter().any(|line| line.split(|byte| *byte == 0).any(|word| word == argument.as_bytes()))
}

/// The names in a folder.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}
