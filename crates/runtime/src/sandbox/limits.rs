//! How much of the machine a child may use.
//!
//! The limits are the kernel's (`setrlimit`). They are those of one process each, but for the number of processes,
//! which is counted by user. A child is held before its first instruction until they are set, so that nothing it
//! starts is without them.

/// Limits of a child and of everything it starts; `None` is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChildLimits {
    /// Time of the processor that one process may use, in seconds. Not for MCP servers, which run for as long as the
    /// agent does.
    pub cpu_seconds: Option<u64>,
    /// Memory that one process may fill, in bytes.
    pub memory_bytes: Option<u64>,
    /// The largest file that may be written, in bytes.
    pub file_bytes: Option<u64>,
    /// Processes and threads that children may add to those of the machine. The kernel does not hold root to it.
    pub processes: Option<u64>,
    /// Files that one process may have open.
    pub open_files: Option<u64>,
}

impl ChildLimits {
    /// No limits.
    pub const NONE: Self =
        Self { cpu_seconds: None, memory_bytes: None, file_bytes: None, processes: None, open_files: None };

    /// Returns whether there is none.
    pub fn is_none(&self) -> bool {
        *self == Self::NONE
    }
}

impl Default for ChildLimits {
    /// Those of the configuration file.
    fn default() -> Self {
        Self {
            cpu_seconds: Some(14_400),
            memory_bytes: Some(16 << 30),
            file_bytes: Some(16 << 30),
            processes: Some(4_096),
            open_files: Some(65_536),
        }
    }
}

/// For people, for example `16 GiB of memory, 4096 processes more`.
impl std::fmt::Display for ChildLimits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let bytes = |bytes: u64| match bytes {
            bytes if bytes >= 1 << 30 && bytes.is_multiple_of(1 << 30) => format!("{} GiB", bytes >> 30),
            bytes if bytes >= 1 << 20 && bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
            bytes => format!("{bytes} bytes"),
        };
        let said = [
            self.cpu_seconds.map(|seconds| format!("{seconds} s of CPU")),
            self.memory_bytes.map(|most| format!("{} of memory", bytes(most))),
            self.file_bytes.map(|most| format!("files of {}", bytes(most))),
            self.open_files.map(|most| format!("{most} open files")),
            self.processes.map(|most| format!("{most} more processes on the machine")),
        ];
        let said: Vec<String> = said.into_iter().flatten().collect();
        f.write_str(&if said.is_empty() { "none".to_owned() } else { said.join(", ") })
    }
}

#[cfg(target_os = "linux")]
pub(super) use linux::set;

#[cfg(target_os = "linux")]
mod linux {
    use std::io;

    use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};

    use super::ChildLimits;

    /// Seconds between being told that the time is used up and being killed.
    const LAST_SECONDS: u64 = 5;

    /// Sets the limits of a process. What it has already may be less; it never becomes more.
    pub(in super::super) fn set(process: Pid, limits: &ChildLimits) -> io::Result<()> {
        let processes = limits.processes.map(|more| on_this_machine().saturating_add(more));
        let wanted = [
            (Resource::Cpu, limits.cpu_seconds, LAST_SECONDS),
            (Resource::Data, limits.memory_bytes, 0),
            (Resource::Fsize, limits.file_bytes, 0),
            (Resource::Nproc, processes, 0),
            (Resource::Nofile, limits.open_files, 0),
        ];
        for (resource, most, grace) in wanted {
            let Some(most) = most else { continue };
            let has = getrlimit(resource);
            let at_most = |has: Option<u64>, most: u64| Some(has.map_or(most, |has| has.min(most)));
            let maximum = at_most(has.maximum, most.saturating_add(grace));
            prlimit(Some(process), resource, Rlimit { current: at_most(has.current, most), maximum })?;
        }
        Ok(())
    }

    /// Processes and threads of all users: the kernel counts those of one user, which are fewer.
    fn on_this_machine() -> u64 {
        let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let all = load.split_whitespace().nth(3).and_then(|tasks| tasks.split_once('/')?.1.parse().ok());
        all.unwrap_or(0)
    }
}
