//! The workspace files that a program's command names: the program itself, and files among its arguments.
//!
//! Commands can change every file of the workspace. A changed file would run, from the program's next start, with the
//! program's permissions. A program that may do more than commands is therefore started again only while its files are
//! the same as at its first start.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Access, Mode, OFlags};

use super::secrets::McpSecrets;
use crate::config::{McpCommand, McpTransport};
use crate::sandbox::{NetworkAccess, Sandbox};

/// The files that one command names and that lie in the workspace or are reached by a link in it.
#[derive(Clone, Debug)]
pub(super) struct CommandFiles {
    program: Option<CommandFile>,
    args: Vec<CommandFile>,
}

/// One file: the path that the command names, from the workspace, and the path with all links followed.
#[derive(Clone, Debug, PartialEq, Eq)]
struct CommandFile {
    path: PathBuf,
    real: PathBuf,
    /// True if the real path lies in the workspace, too.
    is_inside: bool,
}

/// The digests of one command's files at a program's first start.
#[derive(Debug)]
pub(super) struct CommandFileDigests {
    command: McpCommand,
    directory: PathBuf,
    sandbox: Arc<Sandbox>,
    files: CommandFiles,
    digests: Vec<(PathBuf, blake3::Hash)>,
}

/// The reason for refusing to start a program.
#[derive(Debug, thiserror::Error)]
pub(super) enum McpStartRefusal {
    #[error(
        "`{0}`, which its command names, has changed since its first start, and it may do more than commands may. It \
         is not started again: check the file, then restart longhaul"
    )]
    Changed(String),
    #[error("`{path}`, which its command names, cannot be read: {}", crate::io_error::io_error_text(source))]
    Unreadable { path: String, source: io::Error },
}

/// Reports whether a program may do more than commands: the program has the network while commands have none, or the
/// configuration gave the program a secret.
pub(super) fn does_more(transport: &McpTransport, sandbox: &Sandbox) -> bool {
    let McpTransport::Command(command) = transport else { return false };
    let is_open = command.network == Some(NetworkAccess::Open) && sandbox.network() == NetworkAccess::Denied;
    is_open || !McpSecrets::of(transport).is_empty()
}

impl CommandFile {
    /// Returns the file at `path` if the workspace reaches it; `root` is the real path of the workspace.
    fn find(path: PathBuf, directory: &Path, root: &Path) -> Option<Self> {
        let real = path.canonicalize().ok().filter(|real| real.is_file())?;
        let is_inside = real.starts_with(root);
        // A link in the workspace can be turned to another file, even if the present target lies outside.
        let is_reached = is_inside || path.starts_with(directory) || path.starts_with(root);
        is_reached.then_some(Self { path, real, is_inside })
    }
}

impl CommandFiles {
    /// Finds the workspace files that a command names.
    pub(super) fn of(command: &McpCommand, directory: &Path, sandbox: &Sandbox) -> Self {
        let root = directory.canonicalize().unwrap_or_else(|_| directory.to_owned());
        let program = if command.program.contains('/') {
            Some(directory.join(&command.program))
        } else {
            looked_up(command, directory, sandbox)
        };
        let mut args = Vec::new();
        for arg in &command.args {
            // An argument may carry a file after an equals sign, as in `--config=server.json`.
            for value in std::iter::once(arg.as_str()).chain(arg.split_once('=').map(|(_, file)| file)) {
                args.extend(CommandFile::find(directory.join(value), directory, &root));
            }
        }
        Self { program: program.and_then(|path| CommandFile::find(path, directory, &root)), args }
    }

    /// Returns the files that lie in the workspace, with links followed.
    pub(super) fn inside(&self) -> impl Iterator<Item = &Path> {
        let all = self.program.iter().chain(&self.args);
        all.filter(|named| named.is_inside).map(|named| named.real.as_path())
    }
}

/// Returns the path at which the child will find its program.
fn looked_up(command: &McpCommand, directory: &Path, sandbox: &Sandbox) -> Option<PathBuf> {
    let path = command.env.get("PATH").map(Into::into).unwrap_or_else(|| sandbox.search_path());
    let mut places = std::env::split_paths(&path).map(|folder| directory.join(folder).join(&command.program));
    places.find(|file| file.is_file() && rustix::fs::access(file, Access::EXEC_OK).is_ok())
}

impl CommandFileDigests {
    /// Computes the digests of the current files, reading each file whole.
    ///
    /// # Errors
    /// [`McpStartRefusal::Unreadable`].
    pub(super) fn now(
        command: McpCommand,
        directory: PathBuf,
        sandbox: Arc<Sandbox>,
    ) -> Result<Self, McpStartRefusal> {
        let files = CommandFiles::of(&command, &directory, &sandbox);
        let digests = files.inside().map(|file| match digest(file) {
            Ok(digest) => Ok((file.to_owned(), digest)),
            Err(source) => Err(McpStartRefusal::Unreadable { path: shown(file, &directory), source }),
        });
        let digests = digests.collect::<Result<_, _>>()?;
        Ok(Self { command, directory, sandbox, files, digests })
    }

    /// Checks that the files are the same as at the first start, reading each file whole.
    ///
    /// # Errors
    /// [`McpStartRefusal::Changed`].
    pub(super) fn check(&self) -> Result<(), McpStartRefusal> {
        let now = CommandFiles::of(&self.command, &self.directory, &self.sandbox);
        // A file that is named now but did not exist at first is ignored: programs write files, too.
        let mut other = self.files.args.iter().find(|arg| !now.args.contains(arg));
        // A command can put another program before the one that was found, in a folder of `PATH` inside the workspace.
        if self.files.program != now.program {
            other = self.files.program.as_ref().or(now.program.as_ref());
        }
        match other.map(|named| &named.path).or_else(|| self.first_changed()) {
            Some(file) => Err(McpStartRefusal::Changed(shown(file, &self.directory))),
            None => Ok(()),
        }
    }

    /// Returns the first file whose content is another one now.
    fn first_changed(&self) -> Option<&PathBuf> {
        self.digests.iter().find(|(file, before)| digest(file).ok() != Some(*before)).map(|(file, _)| file)
    }
}

/// Returns a path relative to the workspace if the path lies there.
fn shown(file: &Path, directory: &Path) -> String {
    let root = directory.canonicalize().unwrap_or_default();
    let below = [directory, &root].into_iter().find_map(|root| file.strip_prefix(root).ok());
    // A file outside of the workspace is named by its whole path.
    below.unwrap_or(file).display().to_string()
}

fn digest(file: &Path) -> io::Result<blake3::Hash> {
    // Opening a pipe in the file's place would block until another process writes to the pipe.
    let how = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(file, how, Mode::empty())?);
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(file)?;
    Ok(hasher.finalize())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;
    use crate::sandbox::SandboxPolicy;

    struct Bench {
        _dir: tempfile::TempDir,
        base: PathBuf,
        sandbox: Arc<Sandbox>,
    }

    /// `base/ws` is the workspace; programs are looked for in `base/ws/bin`, then in `base/bin`.
    fn bench() -> Bench {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        for folder in ["ws/bin", "bin", "scratch"] {
            fs::create_dir_all(base.join(folder)).unwrap();
        }
        let mut policy = SandboxPolicy::new(base.join("ws"), base.join("scratch"));
        let path = format!("bin:{}", base.join("bin").display());
        policy.environment = vec![("PATH".into(), path.into())];
        policy.network = NetworkAccess::Denied;
        Bench { sandbox: Arc::new(Sandbox::new(policy).unwrap()), base, _dir: dir }
    }

    impl Bench {
        fn program(&self, path: &str, content: &str) {
            let path = self.base.join(path);
            fs::write(&path, content).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }

        fn noted(&self, program: &str, args: &[&str]) -> CommandFileDigests {
            let args = args.iter().map(|arg| (*arg).to_owned()).collect();
            let command = McpCommand { program: program.into(), args, env: BTreeMap::new(), network: None };
            CommandFileDigests::now(command, self.base.join("ws"), Arc::clone(&self.sandbox)).unwrap()
        }
    }

    fn refused(noted: &CommandFileDigests) -> Option<String> {
        let said = noted.check().err()?.to_string();
        Some(said.split('`').nth(1).unwrap().to_owned())
    }

    #[test]
    fn what_a_command_names_is_not_what_it_was() {
        let bench = bench();
        let ws = bench.base.join("ws");
        bench.program("bin/tool", "outside");
        for file in ["server.js", "config.json", "other.js"] {
            fs::write(ws.join(file), file).unwrap();
        }
        symlink("server.js", ws.join("link.js")).unwrap();
        symlink(bench.base.join("bin/tool"), ws.join("bin/linked")).unwrap();
        let absolute = ws.join("server.js").display().to_string();
        let noted = |args: &[&str]| bench.noted("tool", args);
        let all = noted(&["-v", "link.js", "--config=config.json", "new.log", ".", ""]);
        assert_eq!(all.files.inside().count(), 2, "{all:?}");
        let (by_path, by_link) = (noted(&[&absolute]), bench.noted("bin/linked", &[]));
        assert!([&all, &by_path, &by_link].into_iter().all(|noted| refused(noted).is_none()));
        fs::write(ws.join("new.log"), "its own").unwrap();
        bench.program("bin/tool", "outside, another version");
        assert_eq!((refused(&all), refused(&by_link)), (None, None), "not theirs to change");
        fs::write(ws.join("config.json"), "other").unwrap();
        assert_eq!(refused(&all).as_deref(), Some("config.json"));
        fs::write(ws.join("config.json"), "config.json").unwrap();
        assert_eq!(refused(&all), None, "it is what it was");
        fs::remove_file(ws.join("link.js")).unwrap();
        assert_eq!(refused(&all).as_deref(), Some("link.js"), "gone");
        symlink("other.js", ws.join("link.js")).unwrap();
        assert_eq!(refused(&all).as_deref(), Some("link.js"), "leads elsewhere");
        fs::remove_file(ws.join("server.js")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, ws.join("server.js"), Mode::RWXU).unwrap();
        assert_eq!(refused(&by_path).as_deref(), Some("server.js"), "a pipe");
        fs::remove_file(ws.join("bin/linked")).unwrap();
        bench.program("ws/bin/linked", "inside");
        assert_eq!(refused(&by_link).as_deref(), Some("bin/linked"));
    }

    #[test]
    fn a_program_that_is_put_before_the_one_that_was_found() {
        let bench = bench();
        bench.program("bin/tool", "outside");
        let noted = bench.noted("tool", &[]);
        assert_eq!(refused(&noted), None);
        bench.program("ws/bin/tool", "inside");
        assert_eq!(refused(&noted).as_deref(), Some("bin/tool"));
        let inside = bench.noted("tool", &[]);
        fs::remove_file(bench.base.join("ws/bin/tool")).unwrap();
        assert_eq!(refused(&inside).as_deref(), Some("bin/tool"), "another is found");
    }

    #[test]
    fn who_may_do_more_than_commands() {
        let bench = bench();
        let more = |network, env: &[(&str, &str)]| {
            let env = env.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
            let command = McpCommand { program: "x".into(), args: Vec::new(), env, network };
            does_more(&McpTransport::Command(command), &bench.sandbox)
        };
        assert!(more(Some(NetworkAccess::Open), &[]) && more(None, &[("API_TOKEN", "a-long-secret")]));
        assert!(!more(None, &[("LEVEL", "debug")]) && !more(Some(NetworkAccess::Denied), &[]));
    }
}
