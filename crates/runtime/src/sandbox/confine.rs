//! Landlock: confines the calling thread and what it starts.

use std::fs::File;
use std::os::fd::AsFd;
use std::os::fd::OwnedFd;

use landlock::{
    ABI, Access, AccessFs, BitFlags, LandlockStatus, PathBeneath, RestrictionStatus, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};
use rustix::fs::{FileType, Mode, OFlags, fstat};
use rustix::process::{Pid, Signal, getpid, getppid, kill_process, test_kill_process};

use super::Confinement;
use super::grants::{Grant, Right};

/// What is asked for: the newest version whose effects are tested. Older kernels enforce less of it.
const WANTED: ABI = ABI::V6;

/// Confines the calling thread for good.
///
/// Each call of this makes a domain of its own: what is started from the thread can neither signal nor trace
/// processes outside, nor read their `/proc/<pid>/environ`, `mem`, `fd`, `cwd` and `root`.
pub(super) fn this_thread(grants: &[Grant]) -> Result<Confinement, String> {
    let status = restrict(grants).map_err(|error| error.to_string())?;
    let abi = match status.landlock {
        LandlockStatus::Available { effective_abi, kernel_abi } => kernel_abi.unwrap_or(effective_abi as i32),
        LandlockStatus::NotEnabled => return Err("Landlock is switched off in this kernel".to_owned()),
        LandlockStatus::NotImplemented => return Err("this kernel has no Landlock (5.13 or later has)".to_owned()),
    };
    match status.ruleset {
        RulesetStatus::NotEnforced => Err("the kernel enforces nothing of what was asked".to_owned()),
        ruleset => Ok(Confinement::Landlock { abi, complete: ruleset == RulesetStatus::FullyEnforced }),
    }
}

fn restrict(grants: &[Grant]) -> Result<RestrictionStatus, RulesetError> {
    let ruleset = Ruleset::default()
        .handle_access(AccessFs::from_all(WANTED))?
        .scope(Scope::from_all(WANTED))?
        .create()?;
    grants.iter().try_fold(ruleset, add)?.restrict_self()
}

/// Adds a grant; a path that has gone meanwhile is passed over.
fn add(ruleset: RulesetCreated, grant: &Grant) -> Result<RulesetCreated, RulesetError> {
    let how = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let Ok(opened) = rustix::fs::open(&grant.path, how, Mode::empty()) else { return Ok(ruleset) };
    let rights = match kind(&opened) {
        // The path had no links when it was listed.
        None | Some(FileType::Symlink) => return Ok(ruleset),
        Some(FileType::Directory) => rights(grant.right),
        Some(_) => rights(grant.right) & AccessFs::from_file(WANTED),
    };
    if rights.is_empty() {
        return Ok(ruleset);
    }
    ruleset.add_rule(PathBeneath::new(opened.as_fd(), rights))
}

fn kind(opened: &OwnedFd) -> Option<FileType> {
    fstat(opened).ok().map(|stat| FileType::from_raw_mode(stat.st_mode))
}

fn rights(right: Right) -> BitFlags<AccessFs> {
    match right {
        Right::Read => AccessFs::from_read(WANTED),
        Right::Write => AccessFs::from_all(WANTED),
        Right::Device => {
            AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate | AccessFs::IoctlDev | AccessFs::ReadDir
        }
        Right::List => AccessFs::ReadDir.into(),
    }
}

/// Kills every process of the calling thread's domain except this one: what the child left behind, also
/// processes that moved to a session of their own. Returns how many.
///
/// Membership is what the kernel says: only processes of the same domain can be read and signalled from
/// inside it. Should that not hold (the parent of this process, which is outside, is readable), nothing is
/// done.
pub(super) fn end_domain() -> usize {
    if getppid().is_some_and(readable) || readable(Pid::INIT) {
        return 0;
    }
    // Processes that fork while they are looked for need another look.
    (0..10).map(|_| end_members()).take_while(|ended| *ended > 0).sum()
}

fn end_members() -> usize {
    let Ok(entries) = std::fs::read_dir("/proc") else { return 0 };
    let pids = entries.flatten().filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?));
    let members = pids.filter(|pid| *pid != getpid() && test_kill_process(*pid).is_ok() && readable(*pid));
    members.filter(|pid| kill_process(*pid, Signal::KILL).is_ok()).count()
}

fn readable(pid: Pid) -> bool {
    File::open(format!("/proc/{}/environ", pid.as_raw_nonzero())).is_ok()
}
