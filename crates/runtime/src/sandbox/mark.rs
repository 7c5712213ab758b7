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
    Pid, Resource, Rlimit, Signal, WaitOptions, getpid, getrlimit, kill_process, prlimit, waitpid,
};
use uuid::Uuid;

/// How long survivors are looked for.
const LONGEST: Duration = Duration::from_secs(10);

/// What killed processes are given to go.
const A_MOMENT: Duration = Duration::from_millis(2);

/// Bits of a mark's halves.
const HALF: u32 = 31;

/// What the marks of all children with one private folder have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Family(u64);

impl Family {
    /// That of a folder by the id in its name. The highest bit is set: nobody sets such a limit by hand.
    pub(super) fn of(folder: Uuid) -> Self {
        Self(random_half(folder) | 1 << (HALF - 1))
    }

    /// The mark of one child more. It is not more than the limit that this process has, which nothing can raise.
    pub(super) fn mark(self) -> Mark {
        let most = getrlimit(Resource::Locks).maximum.unwrap_or(u64::MAX).max(1);
        Mark((self.0 << HALF | random_half(Uuid::now_v7())) % most)
    }

    /// Ends every process that has one of its marks.
    pub(super) fn end(self) {
        let least = self.0 << HALF;
        Marks(least..=least | ((1 << HALF) - 1)).end(None);
    }
}

fn random_half(id: Uuid) -> u64 {
    id.as_u64_pair().1 & ((1 << HALF) - 1)
}

/// The mark of one child.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark(u64);

impl Mark {
    /// Marks a process.
    ///
    /// # Errors
    /// The system's error.
    pub(super) fn put(self, process: Pid) -> io::Result<()> {
        let mark = Rlimit { current: Some(self.0), maximum: Some(self.0) };
        prlimit(Some(process), Resource::Locks, mark)?;
        Ok(())
    }

    /// Ends every process that has it; that of `leader` must not be waited for here.
    pub(super) fn end(self, leader: Pid) {
        Marks(self.0..=self.0).end(Some(leader));
    }
}

/// The marks of processes that are looked for.
struct Marks(RangeInclusive<u64>);

impl Marks {
    /// Ends every process that has one and waits until they are gone.
    fn end(&self, leader: Option<Pid>) {
        let until = Instant::now() + LONGEST;
        loop {
            let newest = newest_process();
            let found = self.processes().filter(|process| Self::end_one(*process)).count();
            let started = self.end_since(newest, until);
            if found == 0 && !started {
                break;
            }
            if Instant::now() >= until {
                tracing::warn!("processes that a command has left behind cannot be ended");
                break;
            }
            std::thread::sleep(A_MOMENT);
        }
        // The first process of a container buries those whose parents have ended.
        if getpid().is_init() {
            for ended in self.processes().filter(|process| Some(*process) != leader) {
                // Those that others wait for are not its own.
                let _ = waitpid(Some(ended), WaitOptions::NOHANG);
            }
        }
    }

    /// Ends those that were started after the process `newest` and while this goes on, and says whether there were
    /// any: who starts another and ends, again and again, is at no time in a list of all.
    fn end_since(&self, mut newest: i32, until: Instant) -> bool {
        let mut any = false;
        while Instant::now() < until {
            let last = newest_process();
            let started = (newest + 1..=last).filter_map(Pid::from_raw);
            any |= started.filter(|process| self.are_on(*process) && Self::end_one(*process)).count() > 0;
            match last.cmp(&newest) {
                Ordering::Equal => break,
                Ordering::Greater => newest = last,
                // The numbers have begun anew.
                Ordering::Less => return true,
            }
        }
        any
    }

    /// Ends a process; `false` if it had ended already. It is asked only then: meanwhile it could start
    /// another.
    fn end_one(process: Pid) -> bool {
        // Should the system refuse, it is found again.
        let _ = kill_process(process, Signal::KILL);
        runs(process)
    }

    /// Those that have one, also such as have ended and were not waited for.
    fn processes(&self) -> impl Iterator<Item = Pid> {
        let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?));
        pids.filter(|process| self.are_on(*process))
    }

    fn are_on(&self, process: Pid) -> bool {
        let limits = read(process, "limits");
        let mark = limits.lines().find_map(|line| line.strip_prefix("Max file locks")).unwrap_or_default();
        mark.split_whitespace()
            .next()
            .and_then(|mark| mark.parse().ok())
            .is_some_and(|mark| self.0.contains(&mark))
    }
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
