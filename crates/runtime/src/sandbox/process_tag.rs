//! What a child and all that it starts are known by, wherever they go.
//!
//! The mark is a limit that the kernel keeps and has no use for: that of file locks (`RLIMIT_LOCKS`, Linux 2.4 was the
//! last to look at it). It is set before the child's first instruction and passed on to whatever a process starts; no
//! process may set its own (`calls`); and anyone may read it, of any process, whoever's that is by then.
//!
//! The marks of all children with one private folder have the same upper half, so that whoever finds the folder of a
//! process that was killed can end what it has left, too.

use std::cmp::Ordering;
use std::io;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use rustix::process::{
    Pid, PidfdFlags, Resource, Rlimit, Signal, WaitOptions, getpid, getrlimit, pidfd_open, pidfd_send_signal,
    prlimit, setpriority_process, waitpid,
};
use uuid::Uuid;

/// How long survivors are looked for while somebody waits.
const LONGEST: Duration = Duration::from_secs(10);

/// The same where other work waits.
const ON_THE_WAY: Duration = Duration::from_secs(2);

/// How long they are looked for after that.
const AT_LEISURE: Duration = Duration::from_secs(600);

/// What killed processes are given to go, and new ones to be seen.
const A_MOMENT: Duration = Duration::from_millis(2);

/// How often in a row nothing must be found: a process has its number before it is in the list.
const LOOKS: u32 = 2;

/// What the limit is called in `/proc/PID/limits`.
const NAME: &str = "Max file locks";

/// Bits of a mark's halves.
const HALF: u32 = 31;

/// What the marks of all children with one private folder have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProcessTagFamily(u64);

impl ProcessTagFamily {
    /// That of a folder by the id in its name. The highest bit is set: nobody sets such a limit by hand.
    pub(super) fn of(folder: Uuid) -> Self {
        Self(random_half(folder) | 1 << (HALF - 1))
    }

    /// The mark of one child more; `None` where marks are not [possible](is_possible).
    pub(super) fn mark(self) -> Option<ProcessTag> {
        is_possible().then(|| ProcessTag(self.0 << HALF | random_half(Uuid::now_v7())))
    }

    /// Ends every process that has one of its marks, while nobody waits. As [`ProcessTag::end`] for the calling thread.
    pub(super) fn end(self) -> RemainingProcesses {
        let _ = setpriority_process(None, -20);
        self.end_within(LONGEST)
    }

    /// The same where other work waits.
    pub(super) fn end_soon(self) -> RemainingProcesses {
        self.end_within(ON_THE_WAY)
    }

    fn end_within(self, longest: Duration) -> RemainingProcesses {
        let least = self.0 << HALF;
        let left = ProcessTagRange(least..=least | ((1 << HALF) - 1)).end(None, longest);
        if left == RemainingProcesses::Some {
            tracing::warn!(
                "processes that commands have left behind go on; the next start looks for them again"
            );
        }
        left
    }
}

/// Returns whether this process may set such limits, and can find who has them. One that is held to a small one
/// (`ulimit -x`, or a mark: it runs in a sandbox itself) may not; old kernels and closed containers have no
/// descriptors of processes.
pub(super) fn is_possible() -> bool {
    let own = getpid();
    getrlimit(Resource::Locks).maximum.is_none()
        && pidfd_open(own, PidfdFlags::empty()).is_ok()
        && read(own, "limits").contains(NAME)
}

fn random_half(id: Uuid) -> u64 {
    id.as_u64_pair().1 & ((1 << HALF) - 1)
}

/// Whether processes with a mark go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RemainingProcesses {
    None,
    Some,
}

/// The mark of one child.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProcessTag(u64);

impl ProcessTag {
    /// Marks a process.
    ///
    /// # Errors
    /// The system's error.
    pub(super) fn put(self, process: Pid) -> io::Result<()> {
        let mark = Rlimit { current: Some(self.0), maximum: Some(self.0) };
        prlimit(Some(process), Resource::Locks, mark)?;
        Ok(())
    }

    /// Ends every process that has it; that of `leader` must not be waited for here. The calling thread is for this alone:
    /// where that is allowed it goes before all others, so that whoever starts others all the time is no faster.
    pub(super) fn end(self, leader: Pid) -> RemainingProcesses {
        let _ = setpriority_process(None, -20);
        let left = ProcessTagRange(self.0..=self.0).end(Some(leader), LONGEST);
        if left == RemainingProcesses::Some {
            tracing::warn!(
                "processes that a command has left behind go on; they are looked for beside other work"
            );
        }
        left
    }

    /// Goes on with it while nobody waits.
    pub(super) fn end_at_leisure(self) {
        if ProcessTagRange(self.0..=self.0).end(None, AT_LEISURE) == RemainingProcesses::Some {
            tracing::error!("processes that a command has left behind could not be ended");
        }
    }
}

/// The marks of processes that are looked for.
struct ProcessTagRange(RangeInclusive<u64>);

impl ProcessTagRange {
    /// Ends every process that has one and waits until they are gone.
    fn end(&self, leader: Option<Pid>, longest: Duration) -> RemainingProcesses {
        let until = Instant::now() + longest;
        let mut clean = 0;
        loop {
            let newest = newest_process();
            let any = self.end_all();
            let since = self.end_since(newest, until);
            clean = if any || since == NewProcessOwner::Ours { 0 } else { clean + 1 };
            if clean == LOOKS || (clean > 0 && since == NewProcessOwner::Nobody) {
                break;
            }
            if Instant::now() >= until {
                return RemainingProcesses::Some;
            }
            std::thread::sleep(A_MOMENT);
        }
        // The first process of a container buries those whose parents have ended.
        if getpid().is_init() {
            for ended in all_processes().filter(|process| Some(*process) != leader && self.are_on(*process)) {
                // Those that others wait for are not its own.
                let _ = waitpid(Some(ended), WaitOptions::NOHANG);
            }
        }
        RemainingProcesses::None
    }

    /// Ends those in the list of all, and says whether any of them ran.
    fn end_all(&self) -> bool {
        let marked = all_processes().filter(|process| self.are_on(*process));
        marked.filter(|process| self.end_one(*process) == Some(TaggedProcessState::Running)).count() > 0
    }

    /// Ends those that were started after the process `newest` and while this goes on. Who starts another and ends, again
    /// and again, is at no time in a list of all.
    fn end_since(&self, mut newest: i32, until: Instant) -> NewProcessOwner {
        let mut since = NewProcessOwner::Nobody;
        while Instant::now() < until {
            let last = newest_process();
            let started = (newest + 1..=last).filter_map(Pid::from_raw);
            // One that has ended may have started another.
            let is_ours = started.filter(|process| self.end_one(*process).is_some()).count() > 0;
            match last.cmp(&newest) {
                Ordering::Equal => return since,
                // The numbers have begun anew: nobody knows who they were.
                Ordering::Less => return NewProcessOwner::Ours,
                Ordering::Greater if is_ours => since = NewProcessOwner::Ours,
                Ordering::Greater => since = since.max(NewProcessOwner::Others),
            }
            newest = last;
        }
        since
    }

    /// Ends a process if it has a mark. It is held by a descriptor: its number may be another's in the meantime.
    fn end_one(&self, process: Pid) -> Option<TaggedProcessState> {
        let held = pidfd_open(process, PidfdFlags::empty()).ok()?;
        if !self.are_on(process) {
            return None;
        }
        // Should the system refuse, it is found again.
        let _ = pidfd_send_signal(&held, Signal::KILL);
        Some(if runs(process) { TaggedProcessState::Running } else { TaggedProcessState::Ended })
    }

    fn are_on(&self, process: Pid) -> bool {
        let limits = read(process, "limits");
        let mark = limits.lines().find_map(|line| line.strip_prefix(NAME)).unwrap_or_default();
        // The hard one, which nobody can raise.
        let mark = mark.split_whitespace().nth(1).and_then(|mark| mark.parse().ok());
        mark.is_some_and(|mark| self.0.contains(&mark))
    }
}

/// Who was started while processes were looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum NewProcessOwner {
    Nobody,
    Others,
    /// Somebody with a mark.
    Ours,
}

/// What a process with a mark was when it was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TaggedProcessState {
    Running,
    /// Nobody has waited for it.
    Ended,
}

fn all_processes() -> impl Iterator<Item = Pid> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?))
}

/// The number of the process or thread that was started last.
fn newest_process() -> i32 {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    load.split_whitespace().next_back().and_then(|last| last.parse().ok()).unwrap_or_default()
}

fn runs(process: Pid) -> bool {
    let stat = read(process, "stat");
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

fn read(process: Pid, what: &str) -> String {
    std::fs::read_to_string(format!("/proc/{}/{what}", process.as_raw_nonzero())).unwrap_or_default()
}
