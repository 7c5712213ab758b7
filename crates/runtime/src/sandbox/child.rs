//! A child process: a confined thread starts the child and ends; another thread waits for the child and cleans up.

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

/// The gate for holding back a child exists on Linux only.
#[cfg(not(target_os = "linux"))]
enum SpawnGate {}

/// Computes a child's grants at the moment of the start.
pub(super) type GrantMaker = Box<dyn FnOnce() -> Vec<PathGrant> + Send>;

/// The guards of a child, as far as the system offers guards.
pub(super) struct ChildGuards {
    /// The Landlock grants.
    pub(super) grants: Option<GrantMaker>,
    /// The network access for seccomp.
    pub(super) network: Option<NetworkAccess>,
    /// The family of the child's process tag.
    pub(super) family: ProcessTagFamily,
    pub(super) limits: ChildLimits,
    /// The protected folders whose permissions are restored once the child has ended.
    pub(super) seal: Arc<ProtectedFolderSet>,
}

/// The full description of a child to start.
pub(super) struct ChildCommand {
    pub(super) program: OsString,
    pub(super) args: Vec<OsString>,
    pub(super) environment: BTreeMap<OsString, OsString>,
    pub(super) directory: PathBuf,
    pub(super) stdio: [Stdio; 3],
}

impl ChildCommand {
    /// Builds the command for starting the child, with or without a gate.
    fn command(self, held: bool) -> io::Result<(Command, Option<SpawnGate>)> {
        let (mut command, gate) =
            if held { held_command(&self.program)? } else { (Command::new(&self.program), None) };
        command.args(self.args).current_dir(self.directory);
        // The runtime's own environment may hold keys, so a child inherits nothing of it.
        command.env_clear().envs(self.environment);
        let [stdin, stdout, stderr] = self.stdio;
        command.stdin(stdin).stdout(stdout).stderr(stderr);
        Ok((command, gate))
    }
}

/// A running child, leader of a session and a process group. Dropping the value kills the group.
#[derive(Debug)]
#[doc(hidden)]
pub struct ConfinedChild {
    group: Arc<ProcessGroup>,
    exit: oneshot::Receiver<io::Result<ExitStatus>>,
    status: Option<ExitStatus>,
}

impl ConfinedChild {
    /// Returns the child's process id, which is also the group's id.
    pub fn id(&self) -> u32 {
        self.group.leader.as_raw_nonzero().get().unsigned_abs()
    }

    /// Waits for the end of the child, then kills the processes left running. The future may be dropped and called
    /// again.
    ///
    /// # Errors
    /// The system's error.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        if let Some(status) = self.status {
            return Ok(status);
        }
        let exit = (&mut self.exit).await;
        let status =
            exit.map_err(|_| io::Error::other("the thread that waited for the process has gone"))??;
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

    /// Asks the group to end, waits for `grace`, then kills the group.
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

/// A process group, not to be signalled once the number may belong to another group.
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

    /// Waits for the leader, ends the rest of the group, and releases the process number.
    fn finish(
        &self,
        child: &mut Child,
        mark: Option<ProcessTag>,
    ) -> io::Result<(ExitStatus, RemainingProcesses)> {
        // If this wait fails, the wait below fails, too, and its error is returned.
        let _ = wait_without_reaping(self.leader);
        // The group is killed while its leader is a zombie: until then its number cannot name another group.
        self.signal(Signal::KILL);
        let left = mark.map_or(RemainingProcesses::None, |mark| mark.end(self.leader));
        // Only now may the number be released: until here the zombie of the leader kept it from being given to another
        // process.
        let status = self.reap(child);
        self.wait_until_gone();
        Ok((status?, left))
    }

    fn reap(&self, child: &mut Child) -> io::Result<ExitStatus> {
        let mut reaped = self.reaped.lock().unwrap_or_else(PoisonError::into_inner);
        // Set under the lock and before the wait: once `wait` has released the number, no signal may use it.
        *reaped = true;
        child.wait()
    }

    /// Waits until the killed members of the group are gone, which takes a moment.
    fn wait_until_gone(&self) {
        // The wait is bounded (half a second), because a killed process may be held up in the kernel.
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
    // Not a thread of the runtime's pool: this one lives as long as the child, and servers live for weeks.
    let thread = std::thread::Builder::new().name("sandbox".to_owned());
    let source = match thread.spawn(move || live(prepared, guards, started)) {
        Ok(_) => match starting.await {
            Ok(started) => return started,
            Err(_) => io::Error::other("its thread has gone"),
        },
        Err(error) => error,
    };
    Err(SandboxError::Start { program, source })
}

/// Runs the life of a child on a thread outside the sandbox. Inside, processes could signal the thread.
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
    // If the caller has stopped waiting, dropping the handle kills the child.
    let _ = started.send(Ok(ConfinedChild { group: Arc::clone(&group), exit, status: None }));
    let finished = group.finish(&mut child, bounds.mark);
    match &finished {
        Ok((status, left)) => tracing::debug!(
            process = child.id(),
            %status,
            has_survivors = *left == RemainingProcesses::Some,
            "a child has ended"
        ),
        Err(error) => tracing::warn!(process = child.id(), %error, "the end of a child is unknown"),
    }
    // Permissions are back before the caller learns of the end.
    seal.restore();
    // The caller does not wait for survivors that resist. This thread continues the search after the answer.
    let is_over = !matches!(finished, Ok((_, RemainingProcesses::Some)));
    let _ = ended.send(finished.map(|(status, _)| status));
    if let Some(mark) = bounds.mark.filter(|_| !is_over) {
        mark.end_at_leisure();
    }
}

/// The limits and the tag, set from outside, because inside no process may change another's limits.
struct ChildSetup {
    limits: ChildLimits,
    mark: Option<ProcessTag>,
    /// True if the child waits for limits and tag.
    held: bool,
}

impl ChildSetup {
    fn new(guards: &ChildGuards) -> Self {
        let is_guarded = guards.grants.is_some() || guards.network.is_some();
        let mark = is_guarded.then(|| guards.family.mark()).flatten();
        // Without limits and tag there is nothing to wait for, and the shell is saved.
        Self { limits: guards.limits, held: is_held() && !(guards.limits.is_none() && mark.is_none()), mark }
    }

    /// Sets the limits and the tag; a held child then continues.
    fn set(&self, mut child: Child, gate: Option<SpawnGate>) -> Result<Child, SandboxError> {
        let Err(error) = bound(Pid::from_child(&child), self, gate) else { return Ok(child) };
        // A child must not run without its limits.
        let _ = child.kill();
        let _ = child.wait();
        Err(SandboxError::Confine(format!("its limits cannot be set: {error}")))
    }
}

fn no_starter_thread(why: &str) -> SandboxError {
    SandboxError::Confine(format!("its thread cannot be started: {why}"))
}

/// Starts the child from a self-confined thread, which is gone when the function returns.
fn start_confined(
    prepared: ChildCommand,
    guards: ChildGuards,
    held: bool,
) -> Result<(Child, Option<SpawnGate>), SandboxError> {
    let starter = std::thread::Builder::new().name("sandbox-start".to_owned());
    let starter = starter.spawn(move || {
        let child = confine(guards).and_then(|()| spawn(prepared, held));
        (child, this_thread())
    });
    let starter = starter.map_err(|error| no_starter_thread(&error.to_string()))?;
    let (child, thread) = starter.join().map_err(|_| no_starter_thread("it has gone"))?;
    // Landlock lets signals through within a domain, and a signal to this thread would end our whole process.
    wait_for_the_end_of(thread);
    child
}

/// The first descriptor closed to children. The starter of the runtime's process may have left descriptors open.
const FIRST_TO_CLOSE: i32 = 3;

/// Starts the child and drops our copies of its pipe ends. Otherwise the pipes' readers would never see an end.
fn spawn(prepared: ChildCommand, held: bool) -> Result<(Child, Option<SpawnGate>), SandboxError> {
    let program = prepared.program.to_string_lossy().into_owned();
    spawn_prepared(prepared, held).map_err(|source| SandboxError::Start { program, source })
}

fn spawn_prepared(prepared: ChildCommand, held: bool) -> io::Result<(Child, Option<SpawnGate>)> {
    if held {
        // The shell that holds the child would report a missing program as its own exit code.
        find(&prepared)?;
    }
    let (command, gate) = prepared.command(held)?;
    // `close_fds` only marks the descriptors; the start of the program closes the marked ones.
    close_fds::set_fds_cloexec_threadsafe(FIRST_TO_CLOSE, &[]);
    Ok((spawn_in_session(command)?, gate))
}

/// Starts the child as the leader of a new session. The child cannot leave the group, by which the child is ended, and
/// neither the child nor its descendants can join a group of ours. Such a group would pass on the kernel's signals to
/// groups.
fn spawn_in_session(command: Command) -> io::Result<Child> {
    let child: Box<dyn Any> = CommandWrap::from(command).wrap(ProcessSession).spawn()?.into_inner();
    child.downcast().map(|child| *child).map_err(|_| io::Error::other("it is no process of the system's"))
}

#[cfg(target_os = "linux")]
fn confine(guards: ChildGuards) -> Result<(), SandboxError> {
    if let Some(grants) = guards.grants {
        super::confine::this_thread(&grants()).map_err(SandboxError::Confine)?;
    }
    // The filter comes last, because it refuses calls that the other guards may need.
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

/// Sets the limits and the tag. Without a shell as a gate, the child runs for a moment before limits and tag are set.
#[cfg(target_os = "linux")]
fn bound(child: Pid, bounds: &ChildSetup, gate: Option<SpawnGate>) -> io::Result<()> {
    // The gate opens last: the program must not run before its limits and its tag are set.
    limits::set(child, &bounds.limits)?;
    bounds.mark.map_or(Ok(()), |mark| mark.put(child))?;
    gate.map_or(Ok(()), SpawnGate::open)
}

#[cfg(target_os = "linux")]
fn this_thread() -> Pid {
    rustix::thread::gettid()
}

/// Waits until a joined thread has left the system, because signals can still reach the thread for a moment.
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

/// Does nothing: only Linux can set the limits of another process.
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
            // A signal handler of the host may interrupt the wait.
            Err(rustix::io::Errno::INTR) => {}
            other => return Ok(other.map(drop)?),
        }
    }
}
