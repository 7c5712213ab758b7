//! The policy in force on this machine, for people: the children's paths, network and resources, and the unguarded
//! gaps.

use std::path::{Path, PathBuf};

use super::grants::{PathGrant, PathGrants, PathRight};
use super::{ChildLimits, Confinement, NetworkAccess, SandboxPolicy, SandboxStatus, process_tag};

/// The permissions of children. Without confinement the lists of files are empty, and `open` says so.
#[derive(Clone, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub struct SandboxReport {
    /// The folders and files readable and runnable for children. A folder granted entry by entry is listed as the
    /// folder.
    pub read: Vec<PathBuf>,
    /// The folders and files writable for children.
    pub write: Vec<PathBuf>,
    /// The folders and files closed to children, even inside open folders.
    pub closed: Vec<PathBuf>,
    /// The agent files in use and writable for children. A change takes effect at the next start.
    pub agent_files: Vec<PathBuf>,
    /// The children's network access.
    pub network: NetworkAccess,
    /// The machine's resources for each child.
    pub limits: ChildLimits,
    /// The unguarded gaps, a sentence each.
    pub open: Vec<String>,
}

impl SandboxReport {
    pub(super) fn new(policy: &SandboxPolicy, grants: &PathGrants, status: &SandboxStatus) -> Self {
        let is_confined = matches!(status.confinement, Confinement::Landlock { .. });
        let (read, write) = if is_confined {
            (granted(grants, PathRight::Read), granted(grants, PathRight::Write))
        } else {
            (Vec::new(), Vec::new())
        };
        let is_closed =
            |path: &Path| is_confined && policy.protected.iter().any(|closed| path.starts_with(closed));
        // Landlock cannot exclude one file from a writable folder, so such files can only be named here.
        let agent_files = policy.agent_files.iter().filter(|path| {
            !is_closed(path) && (!is_confined || write.iter().any(|granted| path.starts_with(granted)))
        });
        let agent_files: Vec<PathBuf> = agent_files.cloned().collect();
        Self {
            read,
            write,
            closed: if is_confined { policy.protected.clone() } else { Vec::new() },
            // The report states what is enforced: without the filter the network is open, whatever the policy says.
            network: if status.calls.is_ok() { policy.network } else { NetworkAccess::Open },
            limits: if cfg!(target_os = "linux") { policy.limits } else { ChildLimits::NONE },
            open: open(policy, status, &agent_files),
            agent_files,
        }
    }
}

/// Returns the paths granted with a right, each once.
fn granted(grants: &PathGrants, right: PathRight) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = Vec::new();
    for grant in grants.list.iter().filter(|grant| grant.right == right) {
        let path = whole(grant, grants);
        if !paths.contains(&path) {
            paths.push(path);
        }
    }
    paths
}

/// Returns the path to show. For an entry of a folder granted entry by entry, the path is the folder's.
fn whole(grant: &PathGrant, grants: &PathGrants) -> PathBuf {
    let mut path = grant.path.as_path();
    while let Some(parent) = path.parent().filter(|parent| is_listed(grants, parent)) {
        path = parent;
    }
    path.to_owned()
}

fn is_listed(grants: &PathGrants, path: &Path) -> bool {
    grants.list.iter().any(|grant| grant.right == PathRight::List && grant.path == path)
}

fn open(policy: &SandboxPolicy, status: &SandboxStatus, agent_files: &[PathBuf]) -> Vec<String> {
    let mut open = Vec::new();
    match &status.confinement {
        Confinement::None { reason } => {
            open.push(format!("every file that you can read or change is theirs, too: {reason}"));
        }
        Confinement::Landlock { complete, .. } => {
            if !complete {
                open.push(
                    "the kernel is older than 6.12: signals and some kinds of access are not guarded"
                        .to_owned(),
                );
            }
            open.push(
                "mode, owner, times and extended attributes of your files, and news of what happens in your folders; names \
                 and command lines of other processes"
                    .to_owned(),
            );
            open.push(
                "files outside that already have a hard link in a folder they may change (they cannot add such links)"
                    .to_owned(),
            );
        }
    }
    open.extend(agent_files.iter().map(|file| {
        format!(
            "the agent file {}, which holds from the next start: keep it outside the folders they may change",
            file.display()
        )
    }));
    if let Err(reason) = &status.calls {
        open.push(match policy.network {
            NetworkAccess::Denied => {
                format!("the network cannot be denied, so no command is started: {reason}")
            }
            NetworkAccess::Open => format!("system calls are not filtered: {reason}"),
        });
    } else if policy.network == NetworkAccess::Open {
        open.push(
            "services of this machine, by network or UNIX socket: a container's, a desktop's".to_owned(),
        );
    }
    if status.calls.is_err() || !process_tag::is_possible() {
        open.push(
            "processes that leave the session of their command: they are not found when it ends".to_owned(),
        );
    }
    if !cfg!(target_os = "linux") && !policy.limits.is_none() {
        open.push(
            "limits on time, memory, files and processes, which this system cannot set for others".to_owned(),
        );
        return open;
    }
    if policy.limits.memory_bytes.is_some() {
        open.push("memory that is mapped as shared, which the limit on memory does not count".to_owned());
    }
    if policy.limits.processes.is_some() && rustix::process::geteuid().is_root() {
        open.push("the number of processes, which the kernel does not limit for root".to_owned());
    }
    open
}
