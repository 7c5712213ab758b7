//! The folder an agent works in: what a path means there, and every file access below it.
//!
//! A path is resolved in two steps. First its links are followed and the result is checked to lie inside the
//! root and outside the protected folders. Then the *resolved* path is opened from the root's descriptor, one
//! component after the other and without following any link, so that a folder swapped for a link between
//! check and use fails instead of leading outside. This needs no system call beyond POSIX and guarantees what
//! Linux' `RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS` would.

mod open;
mod replace;
#[cfg(test)]
mod tests;
mod turns;

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};
use std::time::SystemTime;

pub use turns::{FileVersion, FileWriteLock};

/// Folders of the system that are no files of anybody: never part of a workspace, even of `/`.
const NEVER: [&str; 3] = ["/proc", "/sys", "/dev"];

/// What a path is wanted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathAccess {
    /// It must exist.
    Read,
    /// It may be missing, together with folders above it.
    Write,
}

/// Why a path cannot be used, in words a model can act on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkspaceError {
    /// It leads out of the workspace.
    #[error("`{path}` is outside the workspace; only paths inside `{root}` can be used")]
    Outside {
        /// As it was given.
        path: String,
        /// The workspace's root.
        root: String,
    },
    /// It lies in a folder that tools may not touch.
    #[error("`{path}` belongs to the runtime itself and is closed to tools")]
    Protected {
        /// As it was given.
        path: String,
    },
    /// It says what the agent may do, which is not the agent's to change.
    #[error("`{path}` is the agent file in use: tools do not change it, a person does")]
    AgentFile {
        /// As it was given.
        path: String,
    },
    /// It is not what it was when it was read.
    #[error("`{path}` was changed by somebody else meanwhile, and nothing was written: read it again")]
    Changed {
        /// Relative to the root.
        path: String,
    },
    /// Whoever changes it runs with what an MCP program may, which is more than a command may.
    #[error(
        "`{path}` belongs to an MCP program that may do more than commands may: tools do not change it, a person does"
    )]
    McpProgram {
        /// As it was given.
        path: String,
    },
    /// There is no such file or folder.
    #[error("`{path}` does not exist")]
    NotFound {
        /// As it was given.
        path: String,
    },
    /// It is a link to something that is missing.
    #[error("`{path}` is a link to something that does not exist")]
    DanglingLink {
        /// As it was given.
        path: String,
    },
    /// It is not what the operation needs.
    #[error("`{path}` is {found}, not {wanted}")]
    WrongKind {
        /// As it was given.
        path: String,
        /// What it is.
        found: &'static str,
        /// What it should be.
        wanted: &'static str,
    },
    /// It is marked read-only.
    #[error("`{path}` is read-only")]
    ReadOnly {
        /// As it was given.
        path: String,
    },
    /// It cannot be a path here.
    #[error("`{path}` is not a usable path: {why}")]
    Unusable {
        /// As it was given, shortened.
        path: String,
        /// Why not.
        why: &'static str,
    },
    /// The system refused.
    #[error("`{path}`: {source}")]
    Io {
        /// As it was given.
        path: String,
        /// The system's error.
        source: io::Error,
    },
}

/// A path inside the workspace with all links followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedPath {
    relative: PathBuf,
}

impl ResolvedPath {
    /// The path relative to the root; empty for the root itself.
    pub fn relative(&self) -> &Path {
        &self.relative
    }

    /// The path for people and models: relative, `.` for the root, control characters made visible.
    pub fn display(&self) -> String {
        if self.relative.as_os_str().is_empty() {
            return ".".to_owned();
        }
        visible(&self.relative.to_string_lossy())
    }
}

/// What an entry of a folder is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FolderEntryKind {
    /// A regular file.
    File,
    /// A folder.
    Directory,
    /// A symbolic link.
    Link,
    /// A pipe, socket or device.
    Special,
}

/// An entry of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FolderEntry {
    /// Its name.
    pub name: OsString,
    /// What it is.
    pub kind: FolderEntryKind,
    /// Its length in bytes.
    pub bytes: u64,
    /// For a link: where it points.
    pub target: Option<PathBuf>,
}

/// The folder an agent works in.
#[derive(Debug)]
pub struct Workspace {
    root: PathBuf,
    given_root: PathBuf,
    root_fd: OwnedFd,
    protected: Vec<PathBuf>,
    agent_files: Vec<PathBuf>,
    mcp_programs: Vec<PathBuf>,
}

impl Workspace {
    /// Opens a workspace. `protected` are folders and files closed to tools (the data folder, key files), also
    /// when they lie inside.
    ///
    /// # Errors
    /// [`WorkspaceError::NotFound`], [`WorkspaceError::WrongKind`] or [`WorkspaceError::Io`] when `root` is no
    /// folder that can be opened.
    pub fn new(root: &Path, protected: &[PathBuf]) -> Result<Self, WorkspaceError> {
        let canonical = root.canonicalize().map_err(|error| io_error(root, error))?;
        let root_fd = open::directory(&canonical).map_err(|error| io_error(root, error.into()))?;
        let mut closed: Vec<PathBuf> =
            protected.iter().map(|path| canonical_as_far_as_possible(path)).collect();
        closed.extend(NEVER.iter().map(PathBuf::from));
        Ok(Self {
            root: canonical,
            given_root: root.to_owned(),
            root_fd,
            protected: closed,
            agent_files: Vec::new(),
            mcp_programs: Vec::new(),
        })
    }

    /// The same workspace with files that tools may read and not change: the agent files in use.
    #[must_use]
    pub fn with_agent_files(mut self, files: &[PathBuf]) -> Self {
        self.agent_files = files.iter().map(|path| canonical_as_far_as_possible(path)).collect();
        self
    }

    /// The same workspace with more files that tools may read and not change: those of MCP programs that may do more
    /// than commands.
    #[must_use]
    pub fn with_mcp_programs(mut self, files: &[PathBuf]) -> Self {
        self.mcp_programs = files.iter().map(|path| canonical_as_far_as_possible(path)).collect();
        self
    }

    /// The root, links followed.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns whether an absolute, resolved path is closed to tools.
    pub fn is_protected(&self, absolute: &Path) -> bool {
        self.protected.iter().any(|closed| absolute.starts_with(closed))
    }

    /// Finds out what `path` (relative to the root, or absolute) means here.
    ///
    /// # Errors
    /// Every [`WorkspaceError`] except [`WorkspaceError::ReadOnly`], [`WorkspaceError::AgentFile`] and
    /// [`WorkspaceError::McpProgram`].
    pub fn resolve(&self, path: &str, access: PathAccess) -> Result<ResolvedPath, WorkspaceError> {
        let wanted = self.place(path)?;
        let absolute = match access {
            PathAccess::Read => canonical(path, &wanted)?,
            PathAccess::Write => canonical_or_new(path, &wanted)?,
        };
        self.admit(path, &absolute)
    }

    /// Admits a path a walk below the root has found. Links are not followed.
    ///
    /// # Errors
    /// [`WorkspaceError::Outside`] and [`WorkspaceError::Protected`].
    pub(crate) fn admit(&self, path: &str, absolute: &Path) -> Result<ResolvedPath, WorkspaceError> {
        let Ok(relative) = absolute.strip_prefix(&self.root) else {
            return Err(WorkspaceError::Outside { path: short(path), root: self.root.display().to_string() });
        };
        if self.is_protected(absolute) {
            return Err(WorkspaceError::Protected { path: short(path) });
        }
        Ok(ResolvedPath { relative: relative.to_owned() })
    }

    /// The absolute form of a resolved path.
    pub fn absolute(&self, path: &ResolvedPath) -> PathBuf {
        self.root.join(&path.relative)
    }

    /// Opens a regular file for reading.
    ///
    /// # Errors
    /// [`WorkspaceError::WrongKind`] for anything but a regular file, [`WorkspaceError::Io`] otherwise.
    pub fn open_file(&self, path: &ResolvedPath) -> Result<File, WorkspaceError> {
        open::regular_file(&self.root_fd, &path.relative)
    }

    /// When a file was last changed; it need not be readable.
    ///
    /// # Errors
    /// As [`open_file`](Self::open_file).
    pub fn modified(&self, path: &ResolvedPath) -> Result<SystemTime, WorkspaceError> {
        open::modified(&self.root_fd, &path.relative)
    }

    /// Lists a folder by name, protected entries left out.
    ///
    /// # Errors
    /// [`WorkspaceError::WrongKind`] if it is no folder, [`WorkspaceError::Io`] otherwise.
    pub fn list(&self, path: &ResolvedPath) -> Result<Vec<FolderEntry>, WorkspaceError> {
        let absolute = self.absolute(path);
        let mut entries = open::entries(&self.root_fd, &path.relative)?;
        entries.retain(|entry| !self.is_protected(&absolute.join(&entry.name)));
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    /// Replaces a file's content, or makes the file and the folders above it: all or nothing, also if the
    /// machine stops in the middle.
    ///
    /// # Errors
    /// [`WorkspaceError::WrongKind`] if something else has the name, [`WorkspaceError::ReadOnly`],
    /// [`WorkspaceError::AgentFile`], [`WorkspaceError::McpProgram`], [`WorkspaceError::Io`].
    pub fn replace(&self, path: &ResolvedPath, content: &[u8]) -> Result<(), WorkspaceError> {
        self.turn(path).replace(content, None)
    }

    /// Waits until no other tool of this process changes the file.
    pub fn turn<'a>(&'a self, path: &'a ResolvedPath) -> FileWriteLock<'a> {
        FileWriteLock::take(self, path)
    }

    fn check_replaceable(&self, path: &ResolvedPath) -> Result<(), WorkspaceError> {
        if self.agent_files.contains(&self.absolute(path)) {
            return Err(WorkspaceError::AgentFile { path: path.display() });
        }
        if self.mcp_programs.contains(&self.absolute(path)) {
            return Err(WorkspaceError::McpProgram { path: path.display() });
        }
        Ok(())
    }

    fn place(&self, path: &str) -> Result<PathBuf, WorkspaceError> {
        let unusable = |why| WorkspaceError::Unusable { path: short(path), why };
        if path.contains('\0') {
            return Err(unusable("it contains a NUL character"));
        }
        if path.len() >= 4096 {
            return Err(unusable("it is too long (4,095 bytes at most)"));
        }
        let given = Path::new(path);
        Ok(match given.strip_prefix(&self.given_root) {
            Ok(inside) if given.is_absolute() => self.root.join(inside),
            _ => self.root.join(given),
        })
    }
}

fn canonical(path: &str, wanted: &Path) -> Result<PathBuf, WorkspaceError> {
    match wanted.canonicalize() {
        Ok(found) => Ok(found),
        Err(error) if error.kind() == io::ErrorKind::NotFound && wanted.symlink_metadata().is_ok() => {
            Err(WorkspaceError::DanglingLink { path: short(path) })
        }
        Err(error) => Err(io_error(Path::new(path), error)),
    }
}

/// Follows the links of the part that exists and adds the part that does not.
fn canonical_or_new(path: &str, wanted: &Path) -> Result<PathBuf, WorkspaceError> {
    let mut existing = wanted;
    loop {
        match canonical(path, existing) {
            Ok(found) => {
                let missing = wanted.strip_prefix(existing).unwrap_or(Path::new(""));
                return append_plain(path, found, missing);
            }
            Err(WorkspaceError::NotFound { .. }) => {
                existing = existing.parent().ok_or(WorkspaceError::NotFound { path: short(path) })?;
            }
            Err(error) => return Err(error),
        }
    }
}

fn append_plain(path: &str, mut base: PathBuf, missing: &Path) -> Result<PathBuf, WorkspaceError> {
    for component in missing.components() {
        match component {
            Component::Normal(name) => base.push(name),
            _ => {
                let why = "`..` after a folder that does not exist";
                return Err(WorkspaceError::Unusable { path: short(path), why });
            }
        }
    }
    Ok(base)
}

/// Follows links as far as the path exists; for paths that may be made later.
pub(crate) fn canonical_as_far_as_possible(path: &Path) -> PathBuf {
    let path = &std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    path.ancestors()
        .find_map(|base| {
            let found = base.canonicalize().ok()?;
            let rest = path.strip_prefix(base).ok()?;
            Some(if rest.as_os_str().is_empty() { found } else { found.join(rest) })
        })
        .unwrap_or_else(|| path.to_owned())
}

fn io_error(path: &Path, source: io::Error) -> WorkspaceError {
    let path = shown(path);
    match source.kind() {
        io::ErrorKind::NotFound => WorkspaceError::NotFound { path },
        io::ErrorKind::NotADirectory => {
            WorkspaceError::WrongKind { path, found: "below a file", wanted: "below a folder" }
        }
        _ => WorkspaceError::Io { path, source },
    }
}

fn shown(path: &Path) -> String {
    if path.as_os_str().is_empty() { ".".to_owned() } else { short(&path.to_string_lossy()) }
}

/// A path as it is quoted in an error: at most 200 characters, control characters made visible.
fn short(path: &str) -> String {
    let mut text: String = path.chars().take(200).flat_map(escape_control).collect();
    if path.chars().nth(200).is_some() {
        text.push('…');
    }
    text
}

/// Control characters made visible.
pub(crate) fn visible(text: &str) -> String {
    text.chars().flat_map(escape_control).collect()
}

fn escape_control(c: char) -> impl Iterator<Item = char> {
    let escaped = c.is_control().then(|| c.escape_default());
    let plain = (!c.is_control()).then_some(c);
    escaped.into_iter().flatten().chain(plain)
}
