//! A child process: a thread that confines itself starts it and ends, another waits for it and cleans up.

use std::any::Any;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use process_wrap::std::{CommandWrap, ProcessSession};
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, kill_process_group, test_kill_process_group, waitid,
};
use tokio::sync::oneshot;

use super::folder_permissions::ProtectedFolderSet;
use super::grants::PathGrant;
use super::process_tag::{ProcessTag, ProcessTagFamily, RemainingProcesses};
#[cfg(target_os = "linux")]
use super::spawn_gate::SpawnGate;
use super::{ChildLimits, NetworkAccess, SandboxError};
#[cfg(target_os = "linux")]
use super::{calls, limits, spawn_gate};

/// Children are held on Linux only.
#[cfg(not(target_os = "linux"))]
enum SpawnGate {}

/// Says what a child is granted, at the moment it is started.
pub(super) type Grants = Box<dyn FnOnce() -> Vec<PathGrant> + Send>;

/// What is done to a child, as far as the system can do it.
pub(super) struct ChildGuards {
    /// Landlock.
    pub(super) grants: Option<Grants>,
    /// Seccomp.
    pub(super) network: Option<NetworkAccess>,
    /// What its mark begins with.
    pub(super) family: ProcessTagFamily,
    pub(super) limits: ChildLimits,
    /// What is put back once the child has ended.
    pub(super) seal: Arc<ProtectedFolderSet>,
}

/// A child with everything that is known about it.
pub(super) struct ChildCommand {
    pub(super) program: OsString,
    pub(super) args: Vec<OsString>,
    pub(super) environment: BTreeMap<OsString, OsString>,
    pub(super) directory: PathBuf,
    pub(super) stdio: [Stdio; 3],
}

impl ChildCommand {
    /// The command that starts it, held by a gate or not.
    fn command(self, held: bool) -> io::Result<(Command, Option<SpawnGate>)> {
        let (mut command, gate) = match held {
            true => held_command(&self.program)?,
            false => (Command::new(&self.program), None),
        };
        command.args(self.args).current_dir(self.directory);
        command.env_clear().envs(self.environment);
        let [stdin, stdout, stderr] = self.stdio;
        command.stdin(stdin).stdout(stdout).stderr(stderr);
        Ok((command, gate))
    }
}

/// A running child, leader of a session and a process group. Dropping it kills the group.
#[derive(Debug)]
pub struct ConfinedChild {
    group: Arc<ProcessGroup>,
    exit: oneshot::Receiver<io::Result<ExitStatus>>,
    status: Option<ExitStatus>,
}

impl ConfinedChild {
    /// Its process id, which is also that of its group.
    pub fn id(&self) -> u32 {
        self.group.leader.as_raw_nonzero().get().unsigned_abs()
    }

    /// Waits until it has ended; what it left running is killed then. May be dropped and called again.
    ///
    /// # Errors
    /// The system's error.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        if let Some(status) = self.status {
            return Ok(status);
        }
        let lost = |_| io::Error::other("the thread that waited for the process has gone");
        let status = (&mut self.exit).await.map_err(lost)??;
        self.status = Some(status);
        Ok(status)
    }

    /// Asks the group to end (`SIGTERM`).
    pub fn terminate(&self) {
        self.group.signal(Signal::TERM);
    }

    /// Ends the group (`SIGKILL`).
    pub fn kill(&self) {
        self.group.signal(Signal::KILL);
    }

    /// Asks the group to end, waits for `grace`, then kills it.
    ///
    /// # Errors
    /// The system's error while waiting.
    pub async fn stop(&mut self, grace: Duration) -> io::Result<ExitStatus> {
        self.terminate();
        if let Ok(ended) = tokio::time::timeout(grace, self.wait()).await {
            return ended;
        }
        self.kill();
        self.wait().await
    }
}

impl Drop for ConfinedChild {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A process group that must not be signalled once its number may belong to somebody else.
#[derive(Debug)]
struct ProcessGroup {
    leader: Pid,
    reaped: Mutex<bool>,
}

impl ProcessGroup {
    fn signal(&self, signal: Signal) {
        let reaped = self.reaped.lock().unwrap_or_else(PoisonError::into_inner);
        if !*reaped {
            // The only failure is a group that has ended.
            let _ = kill_process_group(self.leader, signal);
        }
    }

    /// Waits for the leader, ends the rest, and gives the number back.
    fn finish(
        &self,
        child: &mut Child,
        mark: Option<ProcessTag>,
    ) -> io::Result<(ExitStatus, RemainingProcesses)> {
        // Should this fail, so will the wait below, and its error is returned.
        let _ = wait_without_reaping(self.leader);
        self.signal(Signal::KILL);
        let left = mark.map_or(RemainingProcesses::None, |mark| mark.end(self.leader));
        let status = self.reap(child);
        self.wait_until_gone();
        Ok((status?, left))
    }

    fn reap(&self, child: &mut Child) -> io::Result<ExitStatus> {
        let mut reaped = self.reaped.lock().unwrap_or_else(PoisonError::into_inner);
        *reaped = true;
        child.wait()
    }

    /// Killed members of the group take a moment to go.
    fn wait_until_gone(&self) {
        for _ in 0..100 {
            if test_kill_process_group(self.leader).is_err() {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

pub(super) async fn start(
    prepared: ChildCommand,
    guards: ChildGuards,
) -> Result<ConfinedChild, SandboxError> {
    let (started, starting) = oneshot::channel();
    let program = prepared.program.to_string_lossy().into_owned();
    let failed = |source| SandboxError::Start { program, source };
    let thread = std::thread::Builder::new().name("sandbox".to_owned());
    match thread.spawn(move || live(prepared, guards, started)) {
        Ok(_) => starting.await.unwrap_or_else(|_| Err(failed(io::Error::other("its thread has gone")))),
        Err(error) => Err(failed(error)),
    }
}

/// The life of a child's thread. It stays outside the sandbox: what is inside can signal whatever else is.
fn live(
    prepared: ChildCommand,
    guards: ChildGuards,
    started: oneshot::Sender<Result<ConfinedChild, SandboxError>>,
) {
    let (bounds, seal) = (ChildSetup::new(&guards), Arc::clone(&guards.seal));
    let started_child =
        start_confined(prepared, guards, bounds.held).and_then(|(child, gate)| bounds.set(child, gate));
    let mut child = match started_child {
        Ok(child) => child,
        Err(error) => return drop(started.send(Err(error))),
    };
    let group = Arc::new(ProcessGroup { leader: Pid::from_child(&child), reaped: Mutex::new(false) });
    let (ended, exit) = oneshot::channel();
    // If nobody takes the handle, dropping it kills the child.
    let _ = started.send(Ok(ConfinedChild { group: Arc::clone(&group), exit, status: None }));
    let finished = group.finish(&mut child, bounds.mark);
    seal.restore();
    let is_over = !matches!(finished, Ok((_, RemainingProcesses::Some)));
    let _ = ended.send(finished.map(|(status, _)| status));
    if let Some(mark) = bounds.mark.filter(|_| !is_over) {
        mark.end_at_leisure();
    }
}

/// What is set for a child from outside, because inside no process may change another's.
struct ChildSetup {
    limits: ChildLimits,
    mark: Option<ProcessTag>,
    /// Whether it does nothing until they are set.
    held: bool,
}

impl ChildSetup {
    fn new(guards: &ChildGuards) -> Self {
        let is_guarded = guards.grants.is_some() || guards.network.is_some();
        let mark = is_guarded.then(|| guards.family.mark()).flatten();
        Self { limits: guards.limits, held: is_held() && !(guards.limits.is_none() && mark.is_none()), mark }
    }

    /// Sets them; the child goes on if it was held.
    fn set(&self, mut child: Child, gate: Option<SpawnGate>) -> Result<Child, SandboxError> {
        let Err(error) = bound(Pid::from_child(&child), self, gate) else { return Ok(child) };
        let _ = child.kill();
        let _ = child.wait();
        Err(SandboxError::Confine(format!("its limits cannot be set: {error}")))
    }
}

/// Starts it from a thread that confines itself and is gone when this returns.
fn start_confined(
    prepared: ChildCommand,
    guards: ChildGuards,
    held: bool,
) -> Result<(Child, Option<SpawnGate>), SandboxError> {
    let starter = std::thread::Builder::new().name("sandbox-start".to_owned());
    let confining = move || {
        let child = confine(guards).and_then(|()| spawn(prepared, held));
        (child, this_thread())
    };
    let failed = |why: &str| SandboxError::Confine(format!("its thread cannot be started: {why}"));
    let starter = starter.spawn(confining).map_err(|error| failed(&error.to_string()))?;
    let (child, thread) = starter.join().map_err(|_| failed("it has gone"))?;
    wait_for_the_end_of(thread);
    child
}

/// Descriptors from here on are not for children: whoever started this process may have left some open.
const FIRST_TO_CLOSE: i32 = 3;

/// Starts it, and gives up our copies of its pipes' ends: else their readers never see an end.
fn spawn(prepared: ChildCommand, held: bool) -> Result<(Child, Option<SpawnGate>), SandboxError> {
    let program = prepared.program.to_string_lossy().into_owned();
    let failed = |source| SandboxError::Start { program: program.clone(), source };
    if held {
        find(&prepared).map_err(failed)?;
    }
    let (command, gate) = prepared.command(held).map_err(failed)?;
    // Here they are only marked; a program that is started closes what is marked.
    close_fds::set_fds_cloexec_threadsafe(FIRST_TO_CLOSE, &[]);
    let child = spawn_in_session(command).map_err(failed)?;
    Ok((child, gate))
}

/// The child is the first of a session: it cannot leave its group, where it is sought to be ended, and neither it nor
/// what it starts can join ours. A group of ours that they are in gets signals that the kernel sends to groups.
fn spawn_in_session(command: Command) -> io::Result<Child> {
    let child: Box<dyn Any> = CommandWrap::from(command).wrap(ProcessSession).spawn()?.into_inner();
    child.downcast().map(|child| *child).map_err(|_| io::Error::other("it is no process of the system's"))
}

#[cfg(target_os = "linux")]
fn confine(guards: ChildGuards) -> Result<(), SandboxError> {
    if let Some(grants) = guards.grants {
        super::confine::this_thread(&grants()).map_err(SandboxError::Confine)?;
    }
    // Last: it refuses what the others may need.
    guards.network.map_or(Ok(()), calls::refuse).map_err(SandboxError::Confine)
}

#[cfg(target_os = "linux")]
fn is_held() -> bool {
    spawn_gate::is_possible()
}

#[cfg(target_os = "linux")]
fn held_command(program: &std::ffi::OsStr) -> io::Result<(Command, Option<SpawnGate>)> {
    let (command, gate) = spawn_gate::command(program)?;
    Ok((command, Some(gate)))
}

#[cfg(target_os = "linux")]
fn find(prepared: &ChildCommand) -> io::Result<()> {
    let path = prepared.environment.get(std::ffi::OsStr::new("PATH"));
    spawn_gate::look_for(&prepared.program, path, &prepared.directory)
}

/// Without a shell to hold it, it runs for a moment before they are set.
#[cfg(target_os = "linux")]
fn bound(child: Pid, bounds: &ChildSetup, gate: Option<SpawnGate>) -> io::Result<()> {
    limits::set(child, &bounds.limits)?;
    bounds.mark.map_or(Ok(()), |mark| mark.put(child))?;
    gate.map_or(Ok(()), SpawnGate::open)
}

#[cfg(target_os = "linux")]
fn this_thread() -> Pid {
    rustix::thread::gettid()
}

/// A thread that was joined is the system's for a moment longer, and signals still reach it.
#[cfg(target_os = "linux")]
fn wait_for_the_end_of(thread: Pid) {
    let task = format!("/proc/self/task/{}", thread.as_raw_nonzero());
    while std::path::Path::new(&task).exists() {
        std::thread::yield_now();
    }
}

#[cfg(not(target_os = "linux"))]
fn confine(_: ChildGuards) -> Result<(), SandboxError> {
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn is_held() -> bool {
    false
}

#[cfg(not(target_os = "linux"))]
fn held_command(program: &std::ffi::OsStr) -> io::Result<(Command, Option<SpawnGate>)> {
    Ok((Command::new(program), None))
}

#[cfg(not(target_os = "linux"))]
fn find(_: &ChildCommand) -> io::Result<()> {
    Ok(())
}

/// Limits of another process can be set on Linux only.
#[cfg(not(target_os = "linux"))]
fn bound(_: Pid, _: &ChildSetup, _: Option<SpawnGate>) -> io::Result<()> {
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn this_thread() {}

#[cfg(not(target_os = "linux"))]
fn wait_for_the_end_of(_: ()) {}

fn wait_without_reaping(leader: Pid) -> io::Result<()> {
    loop {
        match waitid(WaitId::Pid(leader), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT) {
            Err(rustix::io::Errno::INTR) => {}
            other => return Ok(other.map(drop)?),
        }
    }
}
