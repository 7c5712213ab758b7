//! The tag of a child and all of the child's processes, in whatever group or session.
//!
//! The tag is a resource limit kept but not used by the kernel: the limit of file locks (`RLIMIT_LOCKS`, last checked
//! by Linux 2.4). The limit is set before the child's first instruction, and every process passes the limit on to its
//! children. No process may change its own limit (`calls`). Any process may read the limit of any other, whatever the owner
//! is by then.
//!
//! The tags of all children with one private folder have the same upper half. A later process can therefore find the
//! folder of a killed process and end the processes left behind.

use std::cmp::Ordering;
use std::io;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use rustix::process::{
    Pid, PidfdFlags, Resource, Rlimit, Signal, WaitOptions, getpid, getrlimit, pidfd_open, pidfd_send_signal,
    prlimit, setpriority_process, waitpid,
};
use uuid::Uuid;

/// The maximum duration of the search for survivors while a caller waits.
// Chains of 1 to 60 processes that fork without a pause were gone after 4 to 15 s (decision 0027).
const LONGEST: Duration = Duration::from_secs(10);

/// The maximum duration of the search for survivors while other work waits.
const ON_THE_WAY: Duration = Duration::from_secs(2);

/// The maximum duration of the later search for survivors, while no caller waits.
const AT_LEISURE: Duration = Duration::from_secs(600);

/// The time for killed processes to disappear and for new ones to appear.
const A_MOMENT: Duration = Duration::from_millis(2);

/// The required number of empty searches in a row. A process has a number before the list shows the process.
const LOOKS: u32 = 2;

/// The limit's name in `/proc/PID/limits`.
const NAME: &str = "Max file locks";

/// The bits of each half of a tag.
const HALF: u32 = 31;

/// The upper half, common to the tags of all children with the same private folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProcessTagFamily(u64);

impl ProcessTagFamily {
    /// Derives the family from the id in a folder's name. The highest bit is set, because no program sets such a limit by
    /// hand.
    pub(super) fn of(folder: Uuid) -> Self {
        Self(random_half(folder) | 1 << (HALF - 1))
    }

    /// Makes the tag of another child; `None` where tags are not [possible](is_possible).
    pub(super) fn mark(self) -> Option<ProcessTag> {
        is_possible().then(|| ProcessTag(self.0 << HALF | random_half(Uuid::now_v7())))
    }

    /// Ends every process with a tag of the family while no caller waits. Like [`ProcessTag::end`], the search takes
    /// over the thread.
    pub(super) fn end(self) -> RemainingProcesses {
        let _ = setpriority_process(None, -20);
        self.end_within(LONGEST)
    }

    /// Ends every process with a tag of the family while other work waits.
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

/// Reports whether the present process may set such limits and find processes by limit. A process with a small limit
/// may not (`ulimit -x`, or a tag inside of another sandbox). Old kernels and closed containers have no process
/// descriptors.
pub(super) fn is_possible() -> bool {
    let own = getpid();
    getrlimit(Resource::Locks).maximum.is_none()
        && pidfd_open(own, PidfdFlags::empty()).is_ok()
        && read(own, "limits").contains(NAME)
}

fn random_half(id: Uuid) -> u64 {
    id.as_u64_pair().1 & ((1 << HALF) - 1)
}

/// The outcome of a search: are processes with a tag still running?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RemainingProcesses {
    None,
    Some,
}

/// The tag of a child.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProcessTag(u64);

impl ProcessTag {
    /// Sets the tag on a process.
    ///
    /// # Errors
    /// The system's error.
    pub(super) fn put(self, process: Pid) -> io::Result<()> {
        let mark = Rlimit { current: Some(self.0), maximum: Some(self.0) };
        prlimit(Some(process), Resource::Locks, mark)?;
        Ok(())
    }

    /// Ends every process with the tag. The exit status of `leader` must not be collected here.
    ///
    /// The calling thread does nothing else. Where allowed, the thread gets the highest priority, to be faster than a
    /// process which starts others all the time.
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

    /// Continues the search while no caller waits.
    pub(super) fn end_at_leisure(self) {
        if ProcessTagRange(self.0..=self.0).end(None, AT_LEISURE) == RemainingProcesses::Some {
            tracing::error!("processes that a command has left behind could not be ended");
        }
    }
}

/// The range of tags in a search.
struct ProcessTagRange(RangeInclusive<u64>);

impl ProcessTagRange {
    /// Ends every process with a tag in the range and waits until all are gone.
    fn end(&self, leader: Option<Pid>, longest: Duration) -> RemainingProcesses {
        let until = Instant::now() + longest;
        let mut clean = 0;
        loop {
            // Noted before the list is read: processes that start during the search are found by their numbers.
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
        // The first process of a container must collect the children of ended parents.
        if getpid().is_init() {
            for ended in all_processes().filter(|process| Some(*process) != leader && self.are_on(*process)) {
                // Processes that others wait for are not children of the first process, and `waitpid` refuses them.
                let _ = waitpid(Some(ended), WaitOptions::NOHANG);
            }
        }
        RemainingProcesses::None
    }

    /// Ends the tagged processes in the list of all, and reports whether any was running.
    fn end_all(&self) -> bool {
        let marked = all_processes().filter(|process| self.are_on(*process));
        marked.filter(|process| self.end_one(*process) == Some(TaggedProcessState::Running)).count() > 0
    }

    /// Ends the tagged processes younger than the process `newest`, until no more appear. A process that keeps starting
    /// a successor and ending is in no list of all processes.
    fn end_since(&self, mut newest: i32, until: Instant) -> NewProcessOwner {
        let mut since = NewProcessOwner::Nobody;
        while Instant::now() < until {
            let last = newest_process();
            let started = (newest + 1..=last).filter_map(Pid::from_raw);
            // A process that has ended may have started another.
            let is_ours = started.filter(|process| self.end_one(*process).is_some()).count() > 0;
            match last.cmp(&newest) {
                Ordering::Equal => return since,
                // The process numbers have wrapped around, so some of the new processes are unknown.
                Ordering::Less => return NewProcessOwner::Ours,
                Ordering::Greater if is_ours => since = NewProcessOwner::Ours,
                Ordering::Greater => since = since.max(NewProcessOwner::Others),
            }
            newest = last;
        }
        since
    }

    /// Ends a tagged process. A descriptor holds the process, because the number may be reused in the meantime.
    fn end_one(&self, process: Pid) -> Option<TaggedProcessState> {
        let held = pidfd_open(process, PidfdFlags::empty()).ok()?;
        if !self.are_on(process) {
            return None;
        }
        // If the system refuses, the next search finds the process again.
        let _ = pidfd_send_signal(&held, Signal::KILL);
        Some(if runs(process) { TaggedProcessState::Running } else { TaggedProcessState::Ended })
    }

    fn are_on(&self, process: Pid) -> bool {
        let limits = read(process, "limits");
        let mark = limits.lines().find_map(|line| line.strip_prefix(NAME)).unwrap_or_default();
        // The hard limit, which no process can raise.
        let mark = mark.split_whitespace().nth(1).and_then(|mark| mark.parse().ok());
        mark.is_some_and(|mark| self.0.contains(&mark))
    }
}

/// The owner of processes started during a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum NewProcessOwner {
    Nobody,
    Others,
    /// A process with a tag.
    Ours,
}

/// The state of a tagged process at the time of the look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TaggedProcessState {
    Running,
    /// The process has ended, and no parent has collected the status.
    Ended,
}

fn all_processes() -> impl Iterator<Item = Pid> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?))
}

/// Returns the number of the last started process or thread.
fn newest_process() -> i32 {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    load.split_whitespace().next_back().and_then(|last| last.parse().ok()).unwrap_or_default()
}

fn runs(process: Pid) -> bool {
    let stat = read(process, "stat");
    // The program's name stands in parentheses before the state, and may contain parentheses itself.
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

fn read(process: Pid, what: &str) -> String {
    std::fs::read_to_string(format!("/proc/{}/{what}", process.as_raw_nonzero())).unwrap_or_default()
}
