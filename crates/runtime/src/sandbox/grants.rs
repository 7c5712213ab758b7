//! The files open to children: a list of paths, each with a right.
//!
//! Landlock grants whole trees and cannot exclude a part again. If a protected path lies inside a granted folder, the
//! folder's entries are granted one by one instead, without the protected path.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::SandboxPolicy;
use super::environment::ROOTS;
use super::private_tmp::FOLDERS;

/// The right below a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PathRight {
    /// Reading and running.
    Read,
    /// All access.
    Write,
    /// Reading and writing, for devices.
    Device,
    /// Listing folders: names, without contents.
    List,
}

/// A path and the right to the tree below.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PathGrant {
    pub(super) path: PathBuf,
    pub(super) right: PathRight,
}

/// All grants, with notes for people.
#[derive(Debug, Default)]
pub(super) struct PathGrants {
    pub(super) list: Vec<PathGrant>,
    pub(super) notes: Vec<String>,
}

/// Programs, libraries and settings of the system. `/proc` is included because many programs need `/proc`. The Landlock
/// domain itself guards the secrets there (`environ`, `mem`, `fd` … of processes outside).
const SYSTEM: [&str; 14] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/etc",
    "/opt",
    "/nix",
    "/snap",
    "/proc",
    "/sys",
    "/var/lib/ca-certificates",
];

const DEVICES: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// Secrets of the machine inside the system's folders, which matter where the runtime runs as root.
const SECRETS: [&str; 8] = [
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/ssh",
    "/etc/ssl/private",
    "/etc/sudoers",
    "/etc/sudoers.d",
];

/// Toolchains and harmless settings in the home folder. Folders with keys are listed in parts.
const TOOLCHAINS: [&str; 42] = [
    ".cargo/bin",
    ".cargo/registry",
    ".cargo/git",
    ".cargo/env",
    ".cargo/config.toml",
    ".rustup",
    ".nvm",
    ".fnm",
    ".nodenv",
    ".volta",
    ".bun/bin",
    ".deno/bin",
    ".pyenv",
    ".rye",
    ".rbenv",
    ".rvm",
    ".asdf",
    ".goenv",
    ".jenv",
    ".sdkman",
    ".ghcup",
    ".proto",
    ".local/bin",
    ".local/lib",
    ".local/pipx",
    ".local/share/fnm",
    ".local/share/mise",
    ".local/share/pipx",
    ".local/share/pnpm",
    ".local/share/uv",
    ".local/share/virtualenvs",
    ".conda/envs",
    ".virtualenvs",
    "anaconda3",
    "mambaforge",
    "micromamba",
    "miniconda3",
    "miniforge3",
    "go/bin",
    ".gitconfig",
    ".config/git/config",
    ".config/git/ignore",
];

/// Folders of the home folder in which programs of all kinds keep their files.
const SHARED: [&str; 6] = [".local", ".local/share", ".config", ".cache", ".cargo", ".ssh"];

/// The marks of a toolchain's root folder; a single mark is enough.
const ROOT_MARKS: [&str; 9] = [
    "pyvenv.cfg",
    "conda-meta",
    "versions",
    "toolchains",
    "lib/node_modules",
    "lib/rustlib",
    "lib/ruby",
    "lib/modules",
    "pkg/tool",
];

pub(super) fn grants(policy: &SandboxPolicy, private: &Path) -> PathGrants {
    let mut closed: Vec<PathBuf> = policy.protected.clone();
    closed.extend(SECRETS.iter().map(PathBuf::from));
    let mut grants = PathGrants::default();
    let mut allow = |paths: Vec<PathBuf>, right| {
        paths.iter().for_each(|path| grants.allow(path, right, &closed));
    };
    allow(SYSTEM.iter().map(PathBuf::from).collect(), PathRight::Read);
    allow(DEVICES.iter().map(PathBuf::from).collect(), PathRight::Device);
    // These are usually links to files outside `/etc`, and Landlock asks for the right to the target.
    allow(vec!["/etc/resolv.conf".into(), "/etc/localtime".into()], PathRight::Read);
    allow(toolchains(policy), PathRight::Read);
    allow(search_path(policy), PathRight::Read);
    allow(policy.read.clone(), PathRight::Read);
    allow(policy.write.clone(), PathRight::Write);
    // Not the folder itself, because its lock shows that the owner is alive.
    allow(FOLDERS.map(|name| private.join(name)).to_vec(), PathRight::Write);
    allow(vec![policy.workspace.clone()], PathRight::Write);
    grants
}

/// Returns the toolchains' folders: the usual ones, those named in variables, and those behind `PATH`.
fn toolchains(policy: &SandboxPolicy) -> Vec<PathBuf> {
    let usual = policy.home.iter().flat_map(|home| TOOLCHAINS.iter().map(|name| home.join(name)));
    let named = ROOTS
        .iter()
        .filter_map(|(name, _)| variable(policy, name).map(PathBuf::from))
        .filter(|folder| folder.is_absolute() && is_narrow(policy, folder));
    let behind = search_path(policy).into_iter().filter_map(|folder| root_of(policy, &folder));
    usual.chain(named).chain(behind).collect()
}

/// Returns the folders of `PATH`, except folders with much else inside.
fn search_path(policy: &SandboxPolicy) -> Vec<PathBuf> {
    let path = variable(policy, "PATH");
    let folders = path.into_iter().flat_map(std::env::split_paths).filter(|folder| folder.is_absolute());
    folders.filter(|folder| is_narrow(policy, folder)).collect()
}

/// Reports whether a folder holds neither the home folder nor the workspace. A folder for the files of all kinds of
/// programs, keys included, does not count either.
fn is_narrow(policy: &SandboxPolicy, folder: &Path) -> bool {
    let Ok(folder) = folder.canonicalize() else { return false };
    if policy.workspace.starts_with(&folder) {
        return false;
    }
    policy
        .home
        .as_ref()
        .is_none_or(|home| !home.starts_with(&folder) && !SHARED.iter().any(|name| home.join(name) == folder))
}

/// Returns the root of the toolchain behind a folder of `PATH`, because the libraries lie beside the programs.
fn root_of(policy: &SandboxPolicy, programs: &Path) -> Option<PathBuf> {
    let programs = programs.canonicalize().ok()?;
    let root = programs.parent().filter(|root| is_narrow(policy, root))?;
    let is_root = ROOT_MARKS.iter().any(|mark| root.join(mark).exists()) || has_python(root);
    is_root.then(|| root.to_owned())
}

/// Reports whether a toolchain's root holds the libraries of a Python.
fn has_python(root: &Path) -> bool {
    let mut libraries = std::fs::read_dir(root.join("lib")).into_iter().flatten().flatten();
    libraries.any(|entry| entry.file_name().to_string_lossy().starts_with("python"))
}

/// Returns the value of a variable in the environment of the policy.
fn variable<'a>(policy: &'a SandboxPolicy, name: &str) -> Option<&'a OsString> {
    policy.environment.iter().find(|(known, _)| known == name).map(|(_, value)| value)
}

impl PathGrants {
    /// Grants an existing path; other paths are skipped.
    fn allow(&mut self, path: &Path, right: PathRight, closed: &[PathBuf]) {
        // Closed paths are compared by their beginning, which works for resolved paths only.
        let Ok(path) = path.canonicalize() else { return };
        if closed.iter().any(|closed| path.starts_with(closed)) {
            return;
        }
        if closed.iter().any(|closed| closed.starts_with(&path)) {
            self.around(&path, right, closed);
        } else {
            self.list.push(PathGrant { path, right });
        }
    }

    /// Grants the entries of a folder around a closed path.
    fn around(&mut self, folder: &Path, right: PathRight, closed: &[PathBuf]) {
        if right == PathRight::Write {
            let folder = folder.display();
            self.notes.push(format!(
                "commands cannot create or remove entries directly in {folder}, because files closed to them lie \
                 inside it (put the data folder elsewhere to lift this)"
            ));
        }
        self.list.push(PathGrant { path: folder.to_owned(), right: PathRight::List });
        // Children run as the same user, so an unreadable folder is closed to them, too.
        let Ok(entries) = std::fs::read_dir(folder) else { return };
        for entry in entries.flatten() {
            // A link may lead anywhere; its target needs a grant of its own.
            if entry.file_type().is_ok_and(|kind| !kind.is_symlink()) {
                self.allow(&entry.path(), right, closed);
            }
        }
    }
}
