//! The shim of `shim.c` from the test's side: built once, told what goes wrong, asked what was done.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Bytes of `struct control`.
const CONTROL_BYTES: u64 = 320;
const PATTERN: u64 = 128;
const LAST: u64 = 192;

/// What is done to files, as in `enum kind`.
pub(crate) mod kind {
    pub(crate) const WRITE: u32 = 1;
    pub(crate) const TRUNCATE: u32 = 2;
    pub(crate) const SYNC: u32 = 4;
    pub(crate) const RENAME: u32 = 8;
    pub(crate) const LINK: u32 = 16;
    pub(crate) const UNLINK: u32 = 32;
    pub(crate) const CREATE: u32 = 64;
    pub(crate) const MKDIR: u32 = 128;
    pub(crate) const SYNC_FAILED: u32 = 256;
    pub(crate) const FOLDER_SYNC: u32 = 512;
    pub(crate) const RMDIR: u32 = 1024;
    /// Everything that leaves something on the disk.
    pub(crate) const ALL: u32 = 255;
}

/// A number in `struct control`.
#[derive(Clone, Copy, Debug)]
enum Field {
    Counted = 0,
    KillAt = 8,
    Moment = 16,
    Kinds = 24,
    Full = 32,
    BadSyncs = 40,
    ClockNs = 48,
    Lazy = 56,
    ReadOnly = 64,
}

/// Where in an operation the process is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    Before = 0,
    After = 1,
    /// When half of what is to be written is written.
    Amid = 2,
}

/// Control over what goes wrong with the files below one folder.
#[derive(Debug)]
pub(crate) struct Shim {
    control: File,
    control_path: PathBuf,
    trace_path: PathBuf,
    traces: bool,
}

impl Shim {
    /// Nothing goes wrong yet. Its files are put into `folder`.
    pub(crate) fn new(folder: &Path, traces: bool) -> Self {
        let control_path = folder.join("control");
        let control =
            OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&control_path);
        let control = control.unwrap();
        control.set_len(CONTROL_BYTES).unwrap();
        Self { control, control_path, trace_path: folder.join("trace"), traces }
    }

    /// Puts it between the command and the files of `root`.
    pub(crate) fn prepare(&self, command: &mut Command, root: &Path) {
        command.env("LD_PRELOAD", library()).env("LONGHAUL_SHIM_ROOT", root);
        command.env("LONGHAUL_SHIM_CONTROL", &self.control_path);
        if self.traces {
            command.env("LONGHAUL_SHIM_TRACE", &self.trace_path);
        }
    }

    fn set(&self, field: Field, value: i64) {
        self.control.write_all_at(&value.to_le_bytes(), field as u64).unwrap();
    }

    fn get(&self, field: Field) -> i64 {
        let mut bytes = [0; 8];
        self.control.read_exact_at(&mut bytes, field as u64).unwrap();
        i64::from_le_bytes(bytes)
    }

    fn match_only(&self, kinds: u32, pattern: &str) {
        let mut bytes = [0; 64];
        bytes[..pattern.len()].copy_from_slice(pattern.as_bytes());
        self.control.write_all_at(&bytes, PATTERN).unwrap();
        self.set(Field::Kinds, i64::from(kinds));
    }

    /// Kills the process at the `n`th operation (from 1, from now on) of one of these kinds on a path that
    /// has `pattern` in it, or ends with it if that ends with `$`.
    pub(crate) fn kill_at(&self, n: u64, moment: Moment, kinds: u32, pattern: &str) {
        // The process counts while the test writes to the shared memory: an old number must not meet the new
        // pattern, so the number goes first and comes last.
        self.set(Field::KillAt, 0);
        self.set(Field::Counted, 0);
        self.match_only(kinds, pattern);
        self.set(Field::Moment, moment as i64);
        self.set(Field::KillAt, n as i64);
    }

    /// Operations that matched since [`Shim::kill_at`].
    pub(crate) fn counted(&self) -> u64 {
        self.get(Field::Counted) as u64
    }

    /// The operation at which the process was killed.
    pub(crate) fn last(&self) -> String {
        let mut bytes = [0; 128];
        self.control.read_exact_at(&mut bytes, LAST).unwrap();
        String::from_utf8_lossy(&bytes).trim_end_matches('\0').to_owned()
    }

    /// Whether there is no room for anything new.
    pub(crate) fn fill(&self, full: bool) {
        self.set(Field::Full, full.into());
    }

    /// Lets that many of the next fsyncs of such paths fail; below 0: all.
    pub(crate) fn break_syncs(&self, count: i64, pattern: &str) {
        self.match_only(kind::SYNC, pattern);
        self.set(Field::BadSyncs, count);
    }

    /// Moves the time of day.
    pub(crate) fn shift_clock(&self, seconds: i64) {
        self.set(Field::ClockNs, seconds * 1_000_000_000);
    }

    /// Tells of fsyncs, but does not do them: for tests in which the system does not fall.
    pub(crate) fn be_lazy(&self) {
        self.set(Field::Lazy, 1);
    }

    /// Whether nothing can be opened for writing, made or renamed.
    pub(crate) fn make_read_only(&self, read_only: bool) {
        self.set(Field::ReadOnly, read_only.into());
    }

    /// Says how long the trace is: everything up to there has been done.
    pub(crate) fn position(&self) -> impl Fn() -> u64 + Send + Sync + use<> {
        let path = self.trace_path.clone();
        move || std::fs::metadata(&path).map_or(0, |trace| trace.len())
    }

    pub(crate) fn trace(&self) -> Vec<u8> {
        std::fs::read(&self.trace_path).unwrap()
    }
}

/// The shared library, built once for each source.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(build)
}

fn build() -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/faults/shim.c");
    let hash = blake3::hash(&std::fs::read(&source).unwrap()).to_hex();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let library = folder.join(format!("shim-{}.so", &hash[..16]));
    if library.exists() {
        return library;
    }
    // Other test processes may build the same library at the same time: each finds it whole or not at all.
    let draft = folder.join(format!("shim-{}.draft", std::process::id()));
    let flags = ["-O1", "-Wall", "-Wextra", "-shared", "-fPIC", "-pthread", "-o"];
    let built = Command::new("cc").args(flags).arg(&draft).arg(&source).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    std::fs::rename(&draft, &library).unwrap();
    library
}
