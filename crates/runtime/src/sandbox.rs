//! The confinement of child processes: a scrubbed environment, a process group of their own, private temporary files,
//! and on Linux a Landlock domain.
//!
//! Landlock restricts the calling thread and every process started from the thread. Each child therefore comes from a
//! thread that confines itself and ends before the child's first instruction. An unconfined thread waits for the child
//! (`child`), and also ends the processes left behind by the child, found by a tag (`process_tag`).
//!
//! Landlock guards opening, running, creating, renaming and removing files. Not guarded are:
//!
//! - a file's mode and owner, which are put back in the protected folders (`folder_permissions`),
//! - a file's times,
//! - below ABI 9, connecting to a UNIX socket by path.
//!
//! Seccomp refuses system calls of no use to ordinary programs (`calls`) and, where the network is denied, sockets of
//! every kind. Kernel limits bound a process's use of resources (`limits`). [`Sandbox::report`] describes all of these
//! guards for one machine and policy.

#[cfg(target_os = "linux")]
mod calls;
mod child;
#[cfg(target_os = "linux")]
mod confine;
mod environment;
mod folder_permissions;
mod grants;
mod limits;
mod private_tmp;
#[cfg_attr(not(target_os = "linux"), path = "sandbox/no_process_tag.rs")]
mod process_tag;
mod removal;
mod report;
#[cfg(target_os = "linux")]
mod spawn_gate;
#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, OnceLock};

use tokio::sync::OnceCell;

use self::child::ChildGuards;
pub use self::child::ConfinedChild;
use self::folder_permissions::Watch;
pub use self::limits::ChildLimits;
use self::private_tmp::PrivateTempFolder;
pub use self::report::SandboxReport;
use crate::workspace::canonical_as_far_as_possible;

/// The permissions of children. The binary passes every value in; nothing is read from the process's own environment.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SandboxPolicy {
    /// The agent's folder: readable and writable.
    pub workspace: PathBuf,
    /// The unreadable paths, even inside an allowed folder: the data folder, the token, key files.
    pub protected: Vec<PathBuf>,
    /// The agent files in use, which define the permissions of children. Landlock cannot exclude one file from a
    /// writable folder, so the report names the agent files open to children.
    pub agent_files: Vec<PathBuf>,
    /// The folder in which the private home and temporary folder is made, for example `/tmp`.
    pub scratch: PathBuf,
    /// The person's home folder, whose toolchains (`.cargo/bin`, `.rustup`, `.nvm` …) become readable.
    pub home: Option<PathBuf>,
    /// The environment of the runtime's own process. Only harmless names are passed on.
    pub environment: Vec<(OsString, OsString)>,
    /// Additional variable names to pass on.
    pub pass: Vec<String>,
    /// The variable names never passed on, even if `pass` lists them: the names of API keys.
    pub secret: Vec<String>,
    /// Additional readable paths.
    pub read: Vec<PathBuf>,
    /// Additional writable paths.
    pub write: Vec<PathBuf>,
    /// The children's network access. If the system cannot enforce a denial, no child is started.
    pub network: NetworkAccess,
    /// The machine's resources for each child.
    pub limits: ChildLimits,
    /// True to confine children as far as the system can. False leaves only the scrubbed environment and the process
    /// group.
    pub confine: bool,
}

impl SandboxPolicy {
    /// Makes a policy with access to a workspace and the system's folders, with an empty inherited environment.
    pub fn new(workspace: impl Into<PathBuf>, scratch: impl Into<PathBuf>) -> Self {
        Self {
            workspace: workspace.into(),
            protected: Vec::new(),
            agent_files: Vec::new(),
            scratch: scratch.into(),
            home: None,
            environment: Vec::new(),
            pass: Vec::new(),
            secret: Vec::new(),
            read: Vec::new(),
            write: Vec::new(),
            network: NetworkAccess::Open,
            limits: ChildLimits::default(),
            confine: true,
        }
    }
}

/// The access of children to the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NetworkAccess {
    /// Access to every host and service in the user's reach.
    #[default]
    Open,
    /// No sockets at all: neither to other machines, nor to the machine's own services, nor UNIX sockets.
    Denied,
}

/// The guards in force, and the missing guards.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SandboxStatus {
    /// The guard over files and processes.
    pub confinement: Confinement,
    /// `Ok` if system calls are filtered, otherwise the reason.
    pub calls: Result<(), String>,
    /// Further notes for a person, a sentence each.
    pub notes: Vec<String>,
}

/// The guard over files and processes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Confinement {
    /// Confinement by Landlock.
    Landlock {
        /// The kernel's Landlock ABI version.
        abi: i32,
        /// True if the kernel enforces every requested right. Older kernels enforce some.
        complete: bool,
    },
    /// No confinement.
    None {
        /// The reason, for a person.
        reason: String,
    },
}

impl std::fmt::Display for SandboxStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.confinement {
            Confinement::Landlock { abi, complete: true } => write!(f, "confined by Landlock (ABI {abi})")?,
            Confinement::Landlock { abi, complete: false } => {
                write!(f, "partly confined by Landlock (ABI {abi}; the kernel is older than 6.12)")?;
            }
            Confinement::None { reason } => write!(f, "not confined: {reason}")?,
        }
        match (&self.calls, &self.confinement) {
            (Ok(()), Confinement::None { .. }) => write!(f, "; only system calls are filtered by seccomp")?,
            (Ok(()), Confinement::Landlock { .. }) => write!(f, " and seccomp")?,
            (Err(reason), Confinement::Landlock { .. }) => {
                write!(f, "; system calls are not filtered: {reason}")?
            }
            (Err(_), Confinement::None { .. }) => {}
        }
        self.notes.iter().try_for_each(|note| write!(f, "; {note}"))
    }
}

/// The reason against starting a child.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SandboxError {
    /// The private folder could not be made.
    #[error("the private folder {path} could not be made: {}", crate::io_error::io_error_text(source))]
    Private {
        /// The folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The system refused to confine a child, which is therefore not started.
    #[error("the process could not be confined and was not started: {0}")]
    Confine(String),
    /// The program could not be started.
    #[error("{program} could not be started: {}", crate::io_error::program_error_text(source))]
    Start {
        /// The program.
        program: String,
        /// The system's error.
        source: io::Error,
    },
}

/// A child to start.
#[derive(Debug)]
#[doc(hidden)]
pub struct SpawnRequest {
    /// The program: a path, or a name looked up in the child's `PATH`.
    pub program: OsString,
    /// The program's arguments.
    pub args: Vec<OsString>,
    /// The environment variables configured by a person for the child, on top of the policy's variables.
    pub env: Vec<(OsString, OsString)>,
    /// The working directory.
    pub directory: PathBuf,
    /// The standard input.
    pub stdin: Stdio,
    /// The standard output.
    pub stdout: Stdio,
    /// The standard error.
    pub stderr: Stdio,
}

/// `HOME` and `TMPDIR` of children out of the commands' reach. Programs obey the files found there (`.curlrc`,
/// `.npmrc`, Python's site-packages), so no other child can open the folder. The folder is made for the first child and
/// shared by all later children. The folder is removed when the value and all clones are dropped.
#[derive(Clone, Debug, Default)]
#[doc(hidden)]
pub struct IsolatedHome(Arc<OnceCell<PrivateTempFolder>>);

impl IsolatedHome {
    async fn made(&self, scratch: &Path) -> Result<&PrivateTempFolder, SandboxError> {
        // A failed attempt leaves the cell empty, so the next child tries again.
        self.0.get_or_try_init(|| make_private_folder(scratch.to_owned())).await
    }
}

async fn make_private_folder(scratch: PathBuf) -> Result<PrivateTempFolder, SandboxError> {
    // Making a folder also searches `scratch` for abandoned folders, which blocks on the disk.
    let made = tokio::task::spawn_blocking(move || PrivateTempFolder::make(&scratch)).await;
    made.map_err(|error| SandboxError::Confine(error.to_string()))?
}

/// The launcher of confined children.
#[derive(Debug)]
pub struct Sandbox {
    policy: Arc<SandboxPolicy>,
    private: PrivateTempFolder,
    status: SandboxStatus,
    report: SandboxReport,
    /// The watch over the protected folders, from the first child on.
    watch: OnceLock<Watch>,
}

impl Sandbox {
    /// Makes the private folder and removes the folders of killed processes beside the new folder. Then probes the
    /// system's guards by use.
    ///
    /// # Errors
    /// [`SandboxError::Private`].
    pub fn new(policy: SandboxPolicy) -> Result<Self, SandboxError> {
        let private = PrivateTempFolder::make(&policy.scratch)?;
        Ok(Self::with_private_folder(policy, private))
    }

    /// Makes a sandbox whose workspace is an empty private folder, for an agent that works in none. The folder is
    /// removed when the sandbox is dropped.
    ///
    /// # Errors
    /// [`SandboxError::Private`].
    pub(crate) fn without_workspace(policy: SandboxPolicy) -> Result<Self, SandboxError> {
        let private = PrivateTempFolder::make(&policy.scratch)?;
        Ok(Self::with_private_folder(SandboxPolicy { workspace: private.temporary(), ..policy }, private))
    }

    fn with_private_folder(mut policy: SandboxPolicy, private: PrivateTempFolder) -> Self {
        policy.workspace = canonical_as_far_as_possible(&policy.workspace);
        // Grants are compared by the beginning of their paths, so links on the way are resolved first.
        for path in policy.protected.iter_mut().chain(&mut policy.agent_files).chain(&mut policy.home) {
            *path = canonical_as_far_as_possible(path);
        }
        let grants = grants::grants(&policy, &private.path);
        let status = status(&policy, &grants);
        let report = SandboxReport::new(&policy, &grants, &status);
        match &status.confinement {
            Confinement::None { reason } => {
                tracing::info!(reason, "tools run without confinement by the system");
            }
            Confinement::Landlock { .. } => tracing::info!(
                readable = report.read.len(),
                writable = report.write.len(),
                closed = report.closed.len(),
                network = ?report.network,
                limits = %report.limits,
                "tools run confined"
            ),
        }
        Self { policy: Arc::new(policy), private, status, report, watch: OnceLock::new() }
    }

    /// Returns the guards in force, and the missing guards.
    pub fn status(&self) -> &SandboxStatus {
        &self.status
    }

    /// Returns the children's paths, network access and resources.
    #[doc(hidden)]
    pub fn report(&self) -> &SandboxReport {
        &self.report
    }

    /// Returns the policy's workspace, with links followed.
    pub(crate) fn workspace(&self) -> &Path {
        &self.policy.workspace
    }

    /// Returns the policy's network access of children.
    pub fn network(&self) -> NetworkAccess {
        self.policy.network
    }

    /// Returns the folders in which children's programs are looked up: `PATH`, unless the child is given another.
    pub fn search_path(&self) -> OsString {
        environment::scrubbed(&self.policy, &self.private.path).remove(OsStr::new("PATH")).unwrap_or_default()
    }

    /// Returns the folder behind the children's `HOME` and `TMPDIR`. The folder is removed when the sandbox is dropped.
    pub fn private_folder(&self) -> &Path {
        &self.private.path
    }

    /// Starts a child. Dropping the [`ConfinedChild`] kills the child and all of the child's processes. Where process
    /// tags are possible (Linux), dropping the sandbox kills all children, too.
    ///
    /// # Errors
    /// [`SandboxError::Confine`] if confinement worked at first and fails now, or if the network is denied and the
    /// system cannot enforce the denial; [`SandboxError::Start`].
    #[doc(hidden)]
    pub async fn spawn(&self, request: SpawnRequest) -> Result<ConfinedChild, SandboxError> {
        self.start(request, self.policy.network, self.policy.limits, &self.private).await
    }

    /// Starts a child for as long as the agent lives, without a limit on processor time. `network` is the access
    /// configured by a person for the child; `None` takes the policy's.
    ///
    /// # Errors
    /// The errors of [`spawn`](Self::spawn), and [`SandboxError::Private`].
    #[doc(hidden)]
    pub async fn spawn_server(
        &self,
        request: SpawnRequest,
        network: Option<NetworkAccess>,
        own: &IsolatedHome,
    ) -> Result<ConfinedChild, SandboxError> {
        let limits = ChildLimits { cpu_seconds: None, ..self.policy.limits };
        let folder = own.made(&self.policy.scratch).await?;
        self.start(request, network.unwrap_or(self.policy.network), limits, folder).await
    }

    /// Starts a child with a home apart from commands; otherwise like [`spawn`](Self::spawn).
    ///
    /// # Errors
    /// The errors of [`spawn`](Self::spawn), and [`SandboxError::Private`].
    #[doc(hidden)]
    pub async fn spawn_apart(
        &self,
        request: SpawnRequest,
        own: &IsolatedHome,
    ) -> Result<ConfinedChild, SandboxError> {
        let folder = own.made(&self.policy.scratch).await?;
        self.start(request, self.policy.network, self.policy.limits, folder).await
    }

    async fn start(
        &self,
        request: SpawnRequest,
        network: NetworkAccess,
        limits: ChildLimits,
        folder: &PrivateTempFolder,
    ) -> Result<ConfinedChild, SandboxError> {
        // Without the seccomp filter a "denied" network would be open, so the child is refused.
        if let (NetworkAccess::Denied, Err(reason)) = (network, &self.status.calls)
            && self.policy.confine
        {
            tracing::error!(reason, "a child was refused: the network cannot be denied here");
            return Err(SandboxError::Confine(format!("the network cannot be denied here: {reason}")));
        }
        let confined = matches!(self.status.confinement, Confinement::Landlock { .. });
        let (policy, private) = (Arc::clone(&self.policy), folder.path.clone());
        let guards = ChildGuards {
            // Listing the grants reads folders, so the child's own thread does it.
            grants: confined
                .then(|| -> child::GrantMaker { Box::new(move || grants::grants(&policy, &private).list) }),
            // Where the probe found no filter, children start without one. A denied network was refused above.
            network: self.status.calls.is_ok().then_some(network),
            family: folder.family,
            limits,
            // Before the first child nothing can change the permissions, so the watch begins only now.
            seal: self.watch.get_or_init(|| Watch::over(&self.policy.protected)).seal(),
        };
        let program = request.program.to_string_lossy().into_owned();
        let child = child::start(self.prepare(request, folder), guards).await;
        match &child {
            Ok(child) => {
                tracing::debug!(program, process = child.id(), confined, ?network, "a child was started")
            }
            Err(error) => tracing::info!(program, %error, "a child could not be started"),
        }
        child
    }

    fn prepare(&self, request: SpawnRequest, folder: &PrivateTempFolder) -> child::ChildCommand {
        let mut environment = environment::scrubbed(&self.policy, &folder.path);
        // A person configured these variables for this very child, so they win over those that the policy passes on.
        environment.extend(request.env);
        child::ChildCommand {
            program: request.program,
            args: request.args,
            environment,
            directory: request.directory,
            stdio: [request.stdin, request.stdout, request.stderr],
        }
    }
}

/// Hides this process from unconfined processes of the same user: no core dump, no `ptrace`, no `/proc/<pid>/environ`
/// or `mem` for other processes. The switch does nothing against root; only Landlock helps there.
///
/// # Errors
/// The system's error. On systems without such a switch nothing happens, which is no error.
#[doc(hidden)]
pub fn protect_this_process() -> io::Result<()> {
    #[cfg(target_os = "linux")]
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)?;
    Ok(())
}

fn status(policy: &SandboxPolicy, grants: &grants::PathGrants) -> SandboxStatus {
    if !policy.confine {
        return not_confined("switched off by the configuration");
    }
    let (confinement, calls) = probe(grants.list.clone(), policy.network);
    match confinement {
        Ok(confinement) => SandboxStatus { confinement, calls, notes: grants.notes.clone() },
        Err(reason) => SandboxStatus { calls, ..not_confined(&reason) },
    }
}

fn not_confined(reason: &str) -> SandboxStatus {
    let confinement = Confinement::None { reason: reason.to_owned() };
    SandboxStatus { confinement, calls: Err(reason.to_owned()), notes: Vec::new() }
}

type SandboxProbe = (Result<Confinement, String>, Result<(), String>);

/// Confines a short-lived thread without other work, and returns the outcome.
#[cfg(target_os = "linux")]
fn probe(grants: Vec<grants::PathGrant>, network: NetworkAccess) -> SandboxProbe {
    let thread = std::thread::Builder::new().name("sandbox-probe".to_owned());
    // Confinement cannot be taken back, so a thread of its own bears it.
    let probe = thread.spawn(move || (confine::this_thread(&grants), calls::refuse(network)));
    let why = match probe.map(std::thread::JoinHandle::join) {
        Ok(Ok(probed)) => return probed,
        Ok(Err(_)) => "the attempt to confine failed".to_owned(),
        Err(error) => error.to_string(),
    };
    (Err(why.clone()), Err(why))
}

#[cfg(not(target_os = "linux"))]
fn probe(_: Vec<grants::PathGrant>, _: NetworkAccess) -> SandboxProbe {
    let landlock = "this system has no Landlock (Linux 5.13 or later has)";
    let seccomp = "this system has no seccomp (Linux has)";
    (Err(landlock.to_owned()), Err(seccomp.to_owned()))
}
