//! The measured processes: their start, their memory and processor time, their end.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::time::sleep;

use crate::client::{Client, Headers};

/// A limit that is longer than the slowest start.
const PATIENCE: Duration = Duration::from_secs(90);

/// A process with all of its children. They end when the value is dropped.
pub(crate) struct Process {
    child: Child,
}

/// The memory of a process, in bytes.
#[derive(Clone, Copy, Default)]
pub(crate) struct Memory {
    pub(crate) resident: u64,
    pub(crate) peak: u64,
}

impl Process {
    /// Starts a process whose output goes to a file.
    pub(crate) fn start(mut command: Command, log: &Path) -> Self {
        let log = std::fs::File::create(log).unwrap();
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        let child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        Self { child }
    }

    /// Starts a process and asks until it answers. Returns the time that this took.
    pub(crate) async fn ready(
        command: Command,
        log: &Path,
        to: SocketAddr,
        headers: &Headers,
        body: &Bytes,
    ) -> (Self, Duration) {
        let begun = Instant::now();
        let mut process = Self::start(command, log);
        loop {
            let mut client = Client::new(to, headers.clone());
            let why = match client.ask(body.clone()).await {
                Ok(_) => return (process, begun.elapsed()),
                Err(why) => why,
            };
            let ended = process.child.try_wait().unwrap();
            if ended.is_some() || begun.elapsed() > PATIENCE {
                panic!("no answer ({why}); ended: {ended:?}; {}", log.display());
            }
            sleep(Duration::from_millis(1)).await;
        }
    }

    /// Processor time so far.
    pub(crate) fn cpu(&self) -> Duration {
        let tick = Duration::from_secs(1) / rustix::param::clock_ticks_per_second() as u32;
        let ticks = |pid: u32| -> Option<u32> {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
            Some(fields.get(11)?.parse::<u32>().ok()? + fields.get(12)?.parse::<u32>().ok()?)
        };
        tick * self.family().into_iter().filter_map(ticks).sum::<u32>()
    }

    pub(crate) fn memory(&self) -> Memory {
        let mut memory = Memory::default();
        for pid in self.family() {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            let field = |name: &str| -> u64 {
                let line = status.lines().find(|line| line.starts_with(name)).unwrap_or_default();
                line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) << 10
            };
            memory.resident += field("VmRSS:");
            memory.peak += field("VmHWM:");
        }
        memory
    }

    /// It and what it has started.
    fn family(&self) -> Vec<u32> {
        let mut family = vec![self.child.id()];
        let mut at = 0;
        while let Some(pid) = family.get(at) {
            let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
            let lists: Vec<String> =
                tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok()).collect();
            family.extend(
                lists
                    .iter()
                    .flat_map(|list| list.split_whitespace())
                    .filter_map(|pid| pid.parse::<u32>().ok()),
            );
            at += 1;
        }
        family
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let started = self.family();
        for pid in started.into_iter().skip(1) {
            if let Some(pid) = rustix::process::Pid::from_raw(pid as i32) {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A port of this machine that nobody has.
pub(crate) fn free() -> SocketAddr {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap()
}
