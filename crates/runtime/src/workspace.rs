//! The folder an agent works in: the resolution of paths, and every file access below the folder.
//!
//! A path is resolved in two steps. First its links are followed, and the result is checked to lie inside the root and
//! outside the protected folders. Then the *resolved* path is opened from the root's descriptor, one component after
//! the other, without following any link. A folder that is swapped for a link between check and use thus fails to open
//! instead of leading outside. The method needs no system call beyond POSIX and guarantees the same as Linux's
//! `RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS`.

mod file_write_lock;
mod open;
mod replace;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};
use std::time::SystemTime;

pub use file_write_lock::{FileVersion, FileWriteLock};

/// System folders without ordinary files, which are never part of a workspace, even of `/`.
const NEVER: [&str; 3] = ["/proc", "/sys", "/dev"];

/// The purpose for which a path is resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PathAccess {
    /// The path must exist.
    Read,
    /// The path may be missing, together with folders above it.
    Write,
}

/// The reason that a path cannot be used, in words that help a model to correct the call.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkspaceError {
    /// The path leads out of the workspace.
    #[error("`{path}` is outside the workspace; only paths inside `{root}` can be used")]
    Outside {
        /// The path that was given.
        path: String,
        /// The workspace's root.
        root: String,
    },
    /// The path lies in a folder that tools may not touch.
    #[error("`{path}` belongs to the runtime itself and is closed to tools")]
    Protected {
        /// The path that was given.
        path: String,
    },
    /// The file defines the agent's permissions, which the agent must not change.
    #[error("`{path}` is the agent file in use: tools do not change it, a person does")]
    AgentFile {
        /// The path that was given.
        path: String,
    },
    /// The file has changed since it was read.
    #[error("`{path}` was changed by somebody else meanwhile, and nothing was written: read it again")]
    Changed {
        /// The path relative to the root.
        path: String,
    },
    /// The file belongs to an MCP program that may do more than a command. A change of the file would run with those
    /// rights.
    #[error(
        "`{path}` belongs to an MCP program that may do more than commands may: tools do not change it, a person does"
    )]
    McpProgram {
        /// The path that was given.
        path: String,
    },
    /// There is no such file or folder.
    #[error("`{path}` does not exist")]
    NotFound {
        /// The path that was given.
        path: String,
    },
    /// The path is a link to something that is missing.
    #[error("`{path}` is a link to something that does not exist")]
    DanglingLink {
        /// The path that was given.
        path: String,
    },
    /// The path is not of the kind that the operation needs.
    #[error("`{path}` is {found}, not {wanted}")]
    WrongKind {
        /// The path that was given.
        path: String,
        /// The kind that was found.
        found: &'static str,
        /// The kind that is needed.
        wanted: &'static str,
    },
    /// The file is marked read-only.
    #[error("`{path}` is read-only")]
    ReadOnly {
        /// The path that was given.
        path: String,
    },
    /// The text is not a usable path.
    #[error("`{path}` is not a usable path: {why}")]
    Unusable {
        /// The path that was given, shortened.
        path: String,
        /// The reason.
        why: &'static str,
    },
    /// The system refused the access.
    #[error("`{path}`: {}", crate::io_error::io_error_text(source))]
    Io {
        /// The path that was given.
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
    /// Returns the path relative to the root; the root itself is empty.
    pub fn relative(&self) -> &Path {
        &self.relative
    }

    /// Returns the path for people and models: relative, `.` for the root, with control characters made visible.
    pub fn display(&self) -> String {
        if self.relative.as_os_str().is_empty() {
            return ".".to_owned();
        }
        visible(&self.relative.to_string_lossy())
    }
}

/// The kind of a folder entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
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
#[non_exhaustive]
pub struct FolderEntry {
    /// The entry's name.
    pub name: OsString,
    /// The entry's kind.
    pub kind: FolderEntryKind,
    /// The length in bytes.
    pub bytes: u64,
    /// The target of a link.
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
    /// Opens a workspace. `protected` lists folders and files closed to tools (the data folder, key files), even if
    /// they lie inside.
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

    /// Returns the workspace with the agent files in use, which tools may read but not change.
    #[must_use]
    #[doc(hidden)]
    pub fn with_agent_files(mut self, files: &[PathBuf]) -> Self {
        self.agent_files = files.iter().map(|path| canonical_as_far_as_possible(path)).collect();
        self
    }

    /// Returns the workspace with the files of privileged MCP programs, which tools may read but not change. Such a
    /// program may do more than commands.
    #[must_use]
    #[doc(hidden)]
    pub fn with_mcp_programs(mut self, files: &[PathBuf]) -> Self {
        self.mcp_programs = files.iter().map(|path| canonical_as_far_as_possible(path)).collect();
        self
    }

    /// Returns the root with links followed.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Reports whether an absolute, resolved path is closed to tools.
    pub fn is_protected(&self, absolute: &Path) -> bool {
        self.protected.iter().any(|closed| absolute.starts_with(closed))
    }

    /// Resolves `path`, which is relative to the root or absolute.
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

    /// Admits a path that a walk below the root has found. Links are not followed.
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

    /// Returns the absolute form of a resolved path.
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

    /// Returns the time of a file's last change. The file need not be readable.
    ///
    /// # Errors
    /// The errors of [`open_file`](Self::open_file).
    pub fn modified(&self, path: &ResolvedPath) -> Result<SystemTime, WorkspaceError> {
        open::modified(&self.root_fd, &path.relative)
    }

    /// Lists a folder, sorted by name, without protected entries.
    ///
    /// # Errors
    /// [`WorkspaceError::WrongKind`] if the path is no folder, [`WorkspaceError::Io`] otherwise.
    pub fn list(&self, path: &ResolvedPath) -> Result<Vec<FolderEntry>, WorkspaceError> {
        let absolute = self.absolute(path);
        let mut entries = open::entries(&self.root_fd, &path.relative)?;
        entries.retain(|entry| !self.is_protected(&absolute.join(&entry.name)));
        // The system lists in any order. A fixed order keeps the results of two calls equal.
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    /// Replaces a file's content, or makes the file and the folders above it. The change is atomic, even if the machine
    /// stops in the middle.
    ///
    /// # Errors
    /// [`WorkspaceError::WrongKind`] if something else has the name, [`WorkspaceError::ReadOnly`],
    /// [`WorkspaceError::AgentFile`], [`WorkspaceError::McpProgram`], [`WorkspaceError::Io`].
    pub fn replace(&self, path: &ResolvedPath, content: &[u8]) -> Result<(), WorkspaceError> {
        self.turn(path).replace(content, None)
    }

    /// Waits until no other tool of this process changes the file, and locks the file.
    #[doc(hidden)]
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
        if path.contains('\0') {
            return Err(WorkspaceError::Unusable { path: short(path), why: "it contains a NUL character" });
        }
        // Linux accepts at most 4,096 bytes, the closing NUL included (`PATH_MAX`).
        if path.len() >= 4096 {
            let why = "it is too long (4,095 bytes at most)";
            return Err(WorkspaceError::Unusable { path: short(path), why });
        }
        let given = Path::new(path);
        // An absolute path may name the root as it was configured, before its links were followed.
        Ok(match given.strip_prefix(&self.given_root) {
            Ok(inside) if given.is_absolute() => self.root.join(inside),
            _ => self.root.join(given),
        })
    }
}

fn canonical(path: &str, wanted: &Path) -> Result<PathBuf, WorkspaceError> {
    match wanted.canonicalize() {
        Ok(found) => Ok(found),
        // `canonicalize` reports a dangling link as missing, too. The link's target cannot be checked, so the path is
        // an error and not a new file.
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
                // A new file may lie in new folders, so the nearest folder that exists is checked.
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
                // The kernel cannot resolve `..` below a missing folder, and textual removal would be wrong if a link
                // appears there.
                let why = "`..` after a folder that does not exist";
                return Err(WorkspaceError::Unusable { path: short(path), why });
            }
        }
    }
    Ok(base)
}

/// Follows links as far as the path exists. The rest may be made later.
pub(crate) fn canonical_as_far_as_possible(path: &Path) -> PathBuf {
    let path = &std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    path.ancestors()
        .find_map(|base| {
            // The file may not exist yet. The nearest folder that does exist decides where links lead.
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

/// Quotes a path for an error: at most 200 characters, with control characters made visible.
fn short(path: &str) -> String {
    // The path comes from the model: an error repeats neither control characters nor a text of any length.
    let mut text: String = path.chars().take(200).flat_map(escape_control).collect();
    if path.chars().nth(200).is_some() {
        text.push('…');
    }
    text
}

/// Makes control characters visible.
pub(crate) fn visible(text: &str) -> String {
    text.chars().flat_map(escape_control).collect()
}

fn escape_control(c: char) -> impl Iterator<Item = char> {
    let escaped = c.is_control().then(|| c.escape_default());
    let plain = (!c.is_control()).then_some(c);
    escaped.into_iter().flatten().chain(plain)
}
