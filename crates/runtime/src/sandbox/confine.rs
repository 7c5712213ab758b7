//! Landlock: confines the calling thread and the thread's processes.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use landlock::{
    ABI, Access, AccessFs, BitFlags, LandlockStatus, PathBeneath, RestrictionStatus, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};
use rustix::fs::{FileType, Mode, OFlags, fstat};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

use super::Confinement;
use super::grants::{PathGrant, PathRight};

/// The requested Landlock ABI: the newest version whose effects are tested. Older kernels enforce less.
const WANTED: ABI = ABI::V6;

/// The capabilities left to root in a child: own and change files, serve on low ports, switch users. The others lead
/// around Landlock. With `PERFMON` or `SYS_ADMIN`, `/proc/<pid>/environ` and `maps` of any process are readable (Linux
/// 6.13 and later then skip Landlock). With `MKNOD` and `SYS_RAWIO` the disk itself is readable.
const KEPT: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::KILL)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::NET_BIND_SERVICE);

/// Confines the calling thread for good.
///
/// Each call makes a new domain. Processes started from the thread can neither signal nor trace processes outside, nor
/// read their `/proc/<pid>/environ`, `mem`, `fd`, `cwd` and `root`.
pub(super) fn this_thread(grants: &[PathGrant]) -> Result<Confinement, String> {
    let status = restrict(grants).map_err(|error| error.to_string())?;
    // Landlock comes first: it sets `no_new_privs`, without which dropped capabilities could return.
    drop_capabilities().map_err(|error| format!("capabilities cannot be given up: {error}"))?;
    let abi = match status.landlock {
        LandlockStatus::Available { effective_abi, kernel_abi } => kernel_abi.unwrap_or(effective_abi as i32),
        LandlockStatus::NotEnabled => return Err("Landlock is switched off in this kernel".to_owned()),
        LandlockStatus::NotImplemented => {
            return Err("this kernel has no Landlock (5.13 or later has)".to_owned());
        }
    };
    match status.ruleset {
        RulesetStatus::NotEnforced => Err("the kernel enforces nothing of what was asked".to_owned()),
        ruleset => Ok(Confinement::Landlock { abi, complete: ruleset == RulesetStatus::FullyEnforced }),
    }
}

/// Drops all capabilities but the kept ones. Landlock has set `no_new_privs` for this thread, so not even root regains
/// capabilities by running a program.
fn drop_capabilities() -> io::Result<()> {
    let mut sets = capabilities(None)?;
    sets.effective &= KEPT;
    sets.permitted &= KEPT;
    sets.inheritable &= KEPT;
    Ok(set_capabilities(None, sets)?)
}

fn restrict(grants: &[PathGrant]) -> Result<RestrictionStatus, RulesetError> {
    // The ruleset is best effort by default: a kernel drops the rights that it does not know, and the status reports
    // so.
    let ruleset = Ruleset::default()
        .handle_access(AccessFs::from_all(WANTED))?
        .scope(Scope::from_all(WANTED))?
        .create()?;
    grants.iter().try_fold(ruleset, add)?.restrict_self()
}

/// Adds a grant. A path removed meanwhile is skipped.
fn add(ruleset: RulesetCreated, grant: &PathGrant) -> Result<RulesetCreated, RulesetError> {
    // The rule is made for the opened object: a command may replace a path by a link at any time.
    let how = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let Ok(opened) = rustix::fs::open(&grant.path, how, Mode::empty()) else { return Ok(ruleset) };
    let rights = match kind(&opened) {
        // The path was no link when it was listed.
        None | Some(FileType::Symlink) => return Ok(ruleset),
        Some(FileType::Directory) => rights(grant.right),
        // The kernel refuses a rule with rights of folders for a file.
        Some(_) => rights(grant.right) & AccessFs::from_file(WANTED),
    };
    // Landlock refuses a rule without rights, such as one to list a file.
    if rights.is_empty() {
        return Ok(ruleset);
    }
    ruleset.add_rule(PathBeneath::new(opened.as_fd(), rights))
}

fn kind(opened: &OwnedFd) -> Option<FileType> {
    fstat(opened).ok().map(|stat| FileType::from_raw_mode(stat.st_mode))
}

fn rights(right: PathRight) -> BitFlags<AccessFs> {
    match right {
        PathRight::Read => AccessFs::from_read(WANTED),
        // A device node gives access to the disk itself, past every rule for files.
        PathRight::Write => AccessFs::from_all(WANTED) & !(AccessFs::MakeChar | AccessFs::MakeBlock),
        PathRight::Device => {
            AccessFs::ReadFile
                | AccessFs::WriteFile
                | AccessFs::Truncate
                | AccessFs::IoctlDev
                | AccessFs::ReadDir
        }
        PathRight::List => AccessFs::ReadDir.into(),
    }
}
