//! What a child and all that it starts are known by, wherever they go.
//!
//! The mark is a limit that the kernel keeps and has no use for: that of file locks (`RLIMIT_LOCKS`, Linux 2.4 was the
//! last to look at it). It is set before the child's first instruction and passed on to whatever a process starts; no
//! process may set its own (`calls`); and anyone may read it, of any process, whoever's that is by then.

use std::cmp::Ordering;
use std::io;
use std::time::{Duration, Instant};

use rustix::process::{
    Pid, Resource, Rlimit, Signal, WaitOptions, getpid, getrlimit, kill_process, prlimit, waitpid,
};
use uuid::Uuid;

/// How long survivors are looked for.
const LONGEST: Duration = Duration::from_secs(10);

/// What killed processes are given to go.
const A_MOMENT: Duration = Duration::from_millis(2);

/// The mark of one child.
#[derive(Debug)]
pub(super) struct Mark(u64);

impl Mark {
    /// One that no other child has. It is less than the limit that this process has, which nothing can raise.
    pub(super) fn new() -> Self {
        let most = getrlimit(Resource::Locks).maximum.unwrap_or(u64::MAX).clamp(1, 1 << 62);
        let random = u64::try_from(Uuid::now_v7().as_u128() & u128::from(u64::MAX >> 2)).unwrap_or_default();
        Self(random % most)
    }

    /// Marks a process.
    ///
    /// # Errors
    /// The system's error.
    pub(super) fn put(&self, process: Pid) -> io::Result<()> {
        let mark = Rlimit { current: Some(self.0), maximum: Some(self.0) };
        prlimit(Some(process), Resource::Locks, mark)?;
        Ok(())
    }

    /// Ends every process that has it and waits until they are gone; that of `leader` must not be waited for here.
    pub(super) fn end(&self, leader: Pid) {
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
            for ended in self.processes().filter(|process| *process != leader) {
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
            any |= started.filter(|process| self.is_on(*process) && Self::end_one(*process)).count() > 0;
            match last.cmp(&newest) {
                Ordering::Equal => break,
                Ordering::Greater => newest = last,
                // The numbers have begun anew.
                Ordering::Less => return true,
            }
        }
        any
    }

    /// Ends a process that has it; `false` if it had ended already. It is asked only then: meanwhile it could start
    /// another.
    fn end_one(process: Pid) -> bool {
        // Should the system refuse, it is found again.
        let _ = kill_process(process, Signal::KILL);
        runs(process)
    }

    /// Those that have it, also such as have ended and were not waited for.
    fn processes(&self) -> impl Iterator<Item = Pid> {
        let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?));
        pids.filter(|process| self.is_on(*process))
    }

    fn is_on(&self, process: Pid) -> bool {
        let limits = read(process, "limits");
        let mark = limits.lines().find_map(|line| line.strip_prefix("Max file locks")).unwrap_or_default();
        mark.split_whitespace().next().is_some_and(|mark| mark.parse() == Ok(self.0))
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
