//! What child processes may do: a scrubbed environment, a process group of their own, private temporary
//! files, and on Linux a Landlock domain.
//!
//! Landlock restricts the thread that asks for it and what that thread starts. Each child is therefore started by a
//! thread that confines itself and ends before the child's first instruction; another, outside, waits for the child
//! (`child`) and ends what it left behind, which it knows by a tag (`process_tag`).
//!
//! Landlock guards opening, running, creating, renaming and removing files. It guards neither a file's mode and owner,
//! which are put back in the protected folders (`folder_permissions`), nor its times, nor (below ABI 9) connecting to a UNIX socket by its path. Seccomp refuses system calls that no
//! ordinary program needs (`calls`), and, where the network is denied, sockets of every kind. Limits of the kernel
//! bound what a process may use (`limits`). [`Sandbox::report`] says all of it for one machine and policy.

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

/// What children are allowed. Nothing here is read from the process' own environment: the binary hands it in.
#[derive(Clone, Debug)]
pub struct SandboxPolicy {
    /// The agent's folder: readable and writable.
    pub workspace: PathBuf,
    /// The data folder, the token, key files: never readable, also inside an allowed folder.
    pub protected: Vec<PathBuf>,
    /// The agent files in use, which say what children may do. Landlock cannot take one out of a folder that may be
    /// changed: the report names those that children can change.
    pub agent_files: Vec<PathBuf>,
    /// Where the private folder for home and temporary files is made, for example `/tmp`.
    pub scratch: PathBuf,
    /// The person's home folder, whose toolchains (`.cargo/bin`, `.rustup`, `.nvm` …) become readable.
    pub home: Option<PathBuf>,
    /// The environment of the process that starts the runtime; only harmless names are passed on.
    pub environment: Vec<(OsString, OsString)>,
    /// More names to pass on.
    pub pass: Vec<String>,
    /// Names never passed on, whatever `pass` says: those of API keys.
    pub secret: Vec<String>,
    /// More paths to make readable.
    pub read: Vec<PathBuf>,
    /// More paths to make writable.
    pub write: Vec<PathBuf>,
    /// Whether children reach the network. Where it is denied and the system cannot do that, none is started.
    pub network: NetworkAccess,
    /// How much of the machine each child may use.
    pub limits: ChildLimits,
    /// Whether to confine children as far as the system can. Switching this off leaves the scrubbed
    /// environment and the process group.
    pub confine: bool,
}

impl SandboxPolicy {
    /// Allows a workspace and the system's folders, with an empty inherited environment.
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

/// Whether children reach the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NetworkAccess {
    /// As the user does.
    #[default]
    Open,
    /// They can make no sockets: neither to other machines, nor to this one's services, nor UNIX sockets.
    Denied,
}

/// What is confined, and what is not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxStatus {
    /// How files and processes are guarded.
    pub confinement: Confinement,
    /// Whether system calls are filtered; if not, why.
    pub calls: Result<(), String>,
    /// What a person should know besides, one sentence each.
    pub notes: Vec<String>,
}

/// How files and processes are guarded.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Confinement {
    /// By Landlock.
    Landlock {
        /// The kernel's version of it.
        abi: i32,
        /// Whether everything the runtime asks for is enforced; older kernels do part of it.
        complete: bool,
    },
    /// Not at all.
    None {
        /// Why.
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

/// Why a child cannot be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SandboxError {
    /// The private folder could not be made.
    #[error("the private folder {path} could not be made: {source}")]
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
    #[error("{program} could not be started: {source}")]
    Start {
        /// The program.
        program: String,
        /// The system's error.
        source: io::Error,
    },
}

/// A child to start.
#[derive(Debug)]
pub struct SpawnRequest {
    /// The program: a path, or a name looked up in the child's `PATH`.
    pub program: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Environment on top of what the policy passes on (what a person configured for this child).
    pub env: Vec<(OsString, OsString)>,
    /// Where it starts.
    pub directory: PathBuf,
    /// Its standard input.
    pub stdin: Stdio,
    /// Its standard output.
    pub stdout: Stdio,
    /// Its standard error.
    pub stderr: Stdio,
}

/// `HOME` and `TMPDIR` of children that commands may not tell what to do: what a program finds there it obeys
/// (`.curlrc`, `.npmrc`, Python's site-packages). No other child can open the folder. It is made for the first child, is
/// the same for all that follow, and goes when this and all its clones are dropped.
#[derive(Clone, Debug, Default)]
pub struct IsolatedHome(Arc<OnceCell<PrivateTempFolder>>);

impl IsolatedHome {
    async fn made(&self, scratch: &Path) -> Result<&PrivateTempFolder, SandboxError> {
        let make = || async {
            let scratch = scratch.to_owned();
            let made = tokio::task::spawn_blocking(move || PrivateTempFolder::make(&scratch)).await;
            made.map_err(|error| SandboxError::Confine(error.to_string()))?
        };
        self.0.get_or_try_init(make).await
    }
}

/// Starts children that are confined.
#[derive(Debug)]
pub struct Sandbox {
    policy: Arc<SandboxPolicy>,
    private: PrivateTempFolder,
    status: SandboxStatus,
    report: SandboxReport,
    /// Over the protected folders, from the first child on.
    watch: OnceLock<Watch>,
}

impl Sandbox {
    /// Makes the private folder, removes those that killed processes left beside it, and finds out what the system
    /// can confine, by trying it.
    ///
    /// # Errors
    /// [`SandboxError::Private`].
    pub fn new(mut policy: SandboxPolicy) -> Result<Self, SandboxError> {
        policy.workspace = canonical_as_far_as_possible(&policy.workspace);
        for path in policy.protected.iter_mut().chain(&mut policy.agent_files).chain(&mut policy.home) {
            *path = canonical_as_far_as_possible(path);
        }
        let private = PrivateTempFolder::make(&policy.scratch)?;
        let grants = grants::grants(&policy, &private.path);
        let status = status(&policy, &grants);
        let report = SandboxReport::new(&policy, &grants, &status);
        Ok(Self { policy: Arc::new(policy), private, status, report, watch: OnceLock::new() })
    }

    /// What is confined, and what is not.
    pub fn status(&self) -> &SandboxStatus {
        &self.status
    }

    /// What children may read, write, reach and use.
    pub fn report(&self) -> &SandboxReport {
        &self.report
    }

    /// Returns whether children reach the network by the policy.
    pub(crate) fn network(&self) -> NetworkAccess {
        self.policy.network
    }

    /// The folders that children's programs are looked for in: `PATH`, unless the child is given another.
    pub(crate) fn search_path(&self) -> OsString {
        environment::scrubbed(&self.policy, &self.private.path).remove(OsStr::new("PATH")).unwrap_or_default()
    }

    /// The folder children have as `HOME` and `TMPDIR`; it goes when the sandbox is dropped.
    pub fn private_folder(&self) -> &Path {
        &self.private.path
    }

    /// Starts a child. It is killed, with everything it started, when the [`ConfinedChild`] is dropped, and where marks are
    /// possible (Linux) when the sandbox is.
    ///
    /// # Errors
    /// [`SandboxError::Confine`] when confinement worked at first and does not now, or the network is denied and the
    /// system cannot do that; [`SandboxError::Start`].
    pub async fn spawn(&self, request: SpawnRequest) -> Result<ConfinedChild, SandboxError> {
        self.start(request, self.policy.network, self.policy.limits, &self.private).await
    }

    /// Starts a child that serves for as long as the agent lives: it may use the processor for any time. `network`
    /// is what a person configured for it; `None` is the policy's.
    ///
    /// # Errors
    /// As [`spawn`](Self::spawn), and [`SandboxError::Private`].
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

    /// [`spawn`](Self::spawn) with a home that is not the commands'.
    ///
    /// # Errors
    /// As [`spawn`](Self::spawn), and [`SandboxError::Private`].
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
        if let (NetworkAccess::Denied, Err(reason)) = (network, &self.status.calls)
            && self.policy.confine
        {
            return Err(SandboxError::Confine(format!("the network cannot be denied here: {reason}")));
        }
        let confined = matches!(self.status.confinement, Confinement::Landlock { .. });
        let (policy, private) = (Arc::clone(&self.policy), folder.path.clone());
        let guards = ChildGuards {
            // Listing them reads folders, which is the child's thread's work.
            grants: confined
                .then(|| -> child::Grants { Box::new(move || grants::grants(&policy, &private).list) }),
            network: self.status.calls.is_ok().then_some(network),
            family: folder.family,
            limits,
            seal: self.watch.get_or_init(|| Watch::over(&self.policy.protected)).seal(),
        };
        child::start(self.prepare(request, folder), guards).await
    }

    fn prepare(&self, request: SpawnRequest, folder: &PrivateTempFolder) -> child::ChildCommand {
        let mut environment = environment::scrubbed(&self.policy, &folder.path);
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

/// Hides this process from processes of the same user that are not confined: no core dump, no `ptrace`, no
/// `/proc/<pid>/environ` or `mem` for them. It does nothing against root, against whom only Landlock helps.
///
/// # Errors
/// The system's error. On systems without such a switch nothing happens and that is no error.
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

type Probed = (Result<Confinement, String>, Result<(), String>);

/// Confines a thread that does nothing else and ends.
#[cfg(target_os = "linux")]
fn probe(grants: Vec<grants::PathGrant>, network: NetworkAccess) -> Probed {
    let thread = std::thread::Builder::new().name("sandbox-probe".to_owned());
    let probe = thread.spawn(move || (confine::this_thread(&grants), calls::refuse(network)));
    let failed = |why: String| (Err(why.clone()), Err(why));
    match probe.map(std::thread::JoinHandle::join) {
        Ok(Ok(probed)) => probed,
        Ok(Err(_)) => failed("the attempt to confine failed".to_owned()),
        Err(error) => failed(error.to_string()),
    }
}

#[cfg(not(target_os = "linux"))]
fn probe(_: Vec<grants::PathGrant>, _: NetworkAccess) -> Probed {
    let missing = |what: &str| format!("this system has no {what}");
    (Err(missing("Landlock (Linux 5.13 or later has)")), Err(missing("seccomp (Linux has)")))
}
