//! The resource limits of a child.
//!
//! The limits are the kernel's (`setrlimit`). Each limit applies to a single process, except for the number of
//! processes, which counts by user. A child is held before the first instruction until the limits are set, so all
//! descendants inherit the limits.

/// The limits of a child and all descendants; `None` is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChildLimits {
    /// The processor time of a process, in seconds. MCP servers run for as long as the agent, so without a limit.
    pub cpu_seconds: Option<u64>,
    /// The memory of a process, in bytes.
    pub memory_bytes: Option<u64>,
    /// The maximum size of a written file, in bytes.
    pub file_bytes: Option<u64>,
    /// The number of processes and threads of children, on top of the machine's. The kernel exempts root.
    pub processes: Option<u64>,
    /// The number of open files of a process.
    pub open_files: Option<u64>,
}

impl ChildLimits {
    /// No limits.
    pub const NONE: Self =
        Self { cpu_seconds: None, memory_bytes: None, file_bytes: None, processes: None, open_files: None };

    /// Reports whether there is no limit.
    pub fn is_none(&self) -> bool {
        *self == Self::NONE
    }
}

impl Default for ChildLimits {
    /// Returns the defaults of the configuration file.
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

/// Formats the limits for people, for example `16 GiB of memory, 4096 processes more`.
impl std::fmt::Display for ChildLimits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let said = [
            self.cpu_seconds.map(|seconds| format!("{seconds} s of CPU")),
            self.memory_bytes.map(|most| format!("{} of memory", in_binary_units(most))),
            self.file_bytes.map(|most| format!("files of {}", in_binary_units(most))),
            self.open_files.map(|most| format!("{most} open files")),
            self.processes.map(|most| format!("{most} more processes on the machine")),
        ];
        let said: Vec<String> = said.into_iter().flatten().collect();
        f.write_str(&if said.is_empty() { "none".to_owned() } else { said.join(", ") })
    }
}

fn in_binary_units(bytes: u64) -> String {
    match bytes {
        bytes if bytes >= 1 << 30 && bytes.is_multiple_of(1 << 30) => format!("{} GiB", bytes >> 30),
        bytes if bytes >= 1 << 20 && bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        bytes => format!("{bytes} bytes"),
    }
}

#[cfg(target_os = "linux")]
pub(super) use linux::set;

#[cfg(target_os = "linux")]
mod linux {
    use std::io;

    use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};

    use super::ChildLimits;

    /// The seconds between the signal about used-up time and the kill.
    const LAST_SECONDS: u64 = 5;

    /// Sets the limits of a process. An existing lower limit stays.
    pub(in super::super) fn set(process: Pid, limits: &ChildLimits) -> io::Result<()> {
        // The kernel counts all processes of the user, so the limit comes on top of those that exist.
        let processes = limits.processes.map(|more| on_this_machine().saturating_add(more));
        let wanted = [
            (Resource::Cpu, limits.cpu_seconds, LAST_SECONDS),
            // `RLIMIT_AS` would also count reserved addresses, of which some runtimes take far more than they use.
            (Resource::Data, limits.memory_bytes, 0),
            (Resource::Fsize, limits.file_bytes, 0),
            (Resource::Nproc, processes, 0),
            (Resource::Nofile, limits.open_files, 0),
        ];
        for (resource, most, grace) in wanted {
            let Some(most) = most else { continue };
            // The person may have set a lower limit for this process, and only root may raise one.
            let has = getrlimit(resource);
            let maximum = at_most(has.maximum, most.saturating_add(grace));
            prlimit(Some(process), resource, Rlimit { current: at_most(has.current, most), maximum })?;
        }
        Ok(())
    }

    /// Returns the lower of an existing limit and a new limit.
    fn at_most(has: Option<u64>, most: u64) -> Option<u64> {
        Some(has.map_or(most, |has| has.min(most)))
    }

    /// Returns the number of processes and threads of all users. The kernel counts a single user's, which are fewer.
    fn on_this_machine() -> u64 {
        let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let all = load.split_whitespace().nth(3).and_then(|tasks| tasks.split_once('/')?.1.parse().ok());
        all.unwrap_or(0)
    }
}
