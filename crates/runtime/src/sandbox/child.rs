//! A child process with a thread of its own that confines itself, starts it, waits for it and cleans up.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, kill_process_group, test_kill_process_group, waitid,
};
use tokio::sync::oneshot;

#[cfg(target_os = "linux")]
use super::confine::end_domain;
use super::grants::Grant;
use super::{ChildLimits, Network, SandboxError};
#[cfg(target_os = "linux")]
use super::{calls, gate, limits};

/// Says what a child is granted, at the moment it is started.
pub(super) type Grants = Box<dyn FnOnce() -> Vec<Grant> + Send>;

/// What is done to a child, as far as the system can do it.
pub(super) struct Guards {
    /// Landlock.
    pub(super) grants: Option<Grants>,
    /// Seccomp.
    pub(super) network: Option<Network>,
    pub(super) limits: ChildLimits,
}

/// A child with everything that is known about it.
pub(super) struct Prepared {
    pub(super) program: OsString,
    pub(super) args: Vec<OsString>,
    pub(super) environment: BTreeMap<OsString, OsString>,
    pub(super) directory: PathBuf,
    pub(super) stdio: [Stdio; 3],
}

impl Prepared {
    /// The command that starts it, held or not.
    fn command(self, held: bool) -> Command {
        let mut command = if held { held_command(&self.program) } else { Command::new(&self.program) };
        command.args(self.args).current_dir(self.directory).process_group(0);
        command.env_clear().envs(self.environment);
        let [stdin, stdout, stderr] = self.stdio;
        command.stdin(stdin).stdout(stdout).stderr(stderr);
        command
    }
}

/// A running child, leader of its process group. Dropping it kills the group.
#[derive(Debug)]
pub struct ConfinedChild {
    group: Arc<Group>,
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
struct Group {
    leader: Pid,
    reaped: Mutex<bool>,
}

impl Group {
    fn signal(&self, signal: Signal) {
        let reaped = self.reaped.lock().unwrap_or_else(PoisonError::into_inner);
        if !*reaped {
            // The only failure is a group that has ended.
            let _ = kill_process_group(self.leader, signal);
        }
    }

    /// Waits for the leader, ends the rest, and gives the number back.
    fn finish(&self, child: &mut Child, confined: bool) -> io::Result<ExitStatus> {
        // Should this fail, so will the wait below, and its error is returned.
        let _ = wait_without_reaping(self.leader);
        self.signal(Signal::KILL);
        if confined {
            end_domain();
        }
        let status = self.reap(child);
        self.wait_until_gone();
        status
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

pub(super) async fn start(prepared: Prepared, guards: Guards) -> Result<ConfinedChild, SandboxError> {
    let (started, starting) = oneshot::channel();
    let program = prepared.program.to_string_lossy().into_owned();
    let failed = |source| SandboxError::Start { program, source };
    let thread = std::thread::Builder::new().name("sandbox".to_owned());
    match thread.spawn(move || live(prepared, guards, started)) {
        Ok(_) => starting.await.unwrap_or_else(|_| Err(failed(io::Error::other("its thread has gone")))),
        Err(error) => Err(failed(error)),
    }
}

/// The life of a child's thread.
fn live(prepared: Prepared, guards: Guards, started: oneshot::Sender<Result<ConfinedChild, SandboxError>>) {
    let confined = guards.grants.is_some();
    // First: what it starts later is confined as it is itself.
    let limiting = Limiting::start(guards.limits);
    let mut child =
        match limiting.and_then(|limiting| confine(guards).and_then(|()| spawn(prepared, limiting))) {
            Ok(child) => child,
            Err(error) => return drop(started.send(Err(error))),
        };
    let group = Arc::new(Group { leader: Pid::from_child(&child), reaped: Mutex::new(false) });
    let (ended, exit) = oneshot::channel();
    // If nobody takes the handle, dropping it kills the child.
    let _ = started.send(Ok(ConfinedChild { group: Arc::clone(&group), exit, status: None }));
    let _ = ended.send(group.finish(&mut child, confined));
}

/// A thread that sets a child's limits from outside the sandbox: inside it no process may change another's.
struct Limiting {
    held: bool,
    child: mpsc::Sender<Pid>,
    thread: JoinHandle<io::Result<()>>,
}

impl Limiting {
    /// `None` where there is nothing to limit.
    fn start(limits: ChildLimits) -> Result<Option<Self>, SandboxError> {
        if limits.is_none() {
            return Ok(None);
        }
        let held = is_held();
        let (child, started) = mpsc::channel();
        // Nobody tells of a child that could not be started.
        let work = move || started.recv().map_or(Ok(()), |child| limit(child, &limits, held));
        let thread = std::thread::Builder::new().name("sandbox-limits".to_owned()).spawn(work);
        Ok(Some(Self { held, child, thread: thread.map_err(|error| unlimited(&error))? }))
    }

    /// Returns once the limits of the child are set, and it goes on if it was held.
    fn set(self, child: &Child) -> Result<(), SandboxError> {
        // If the thread has gone, joining it says so.
        let _ = self.child.send(Pid::from_child(child));
        let set = self.thread.join().unwrap_or_else(|_| Err(io::Error::other("its thread has gone")));
        set.map_err(|error| unlimited(&error))
    }
}

fn unlimited(error: &io::Error) -> SandboxError {
    SandboxError::Confine(format!("its limits cannot be set: {error}"))
}

/// Descriptors from here on are not for children: whoever started this process may have left some open.
const FIRST_TO_CLOSE: i32 = 3;

/// Starts it, and gives up our copies of its pipes' ends: else their readers never see an end.
fn spawn(prepared: Prepared, limiting: Option<Limiting>) -> Result<Child, SandboxError> {
    let program = prepared.program.to_string_lossy().into_owned();
    let failed = |source| SandboxError::Start { program: program.clone(), source };
    let held = limiting.as_ref().is_some_and(|limiting| limiting.held);
    if held {
        find(&prepared).map_err(failed)?;
    }
    let mut command = prepared.command(held);
    // Here they are only marked; a program that is started closes what is marked.
    close_fds::set_fds_cloexec_threadsafe(FIRST_TO_CLOSE, &[]);
    let mut child = command.spawn().map_err(failed)?;
    if let Err(error) = limiting.map_or(Ok(()), |limiting| limiting.set(&child)) {
        let _ = child.kill();
        let _ = child.wait();
        return Err(error);
    }
    Ok(child)
}

#[cfg(target_os = "linux")]
fn confine(guards: Guards) -> Result<(), SandboxError> {
    if let Some(grants) = guards.grants {
        super::confine::this_thread(&grants()).map_err(SandboxError::Confine)?;
    }
    // Last: it refuses what the others may need.
    guards.network.map_or(Ok(()), calls::refuse).map_err(SandboxError::Confine)
}

#[cfg(target_os = "linux")]
fn is_held() -> bool {
    gate::is_possible()
}

#[cfg(target_os = "linux")]
fn held_command(program: &std::ffi::OsStr) -> Command {
    gate::command(program)
}

#[cfg(target_os = "linux")]
fn find(prepared: &Prepared) -> io::Result<()> {
    let path = prepared.environment.get(std::ffi::OsStr::new("PATH"));
    gate::look_for(&prepared.program, path, &prepared.directory)
}

/// Without a shell to hold it, it runs for a moment before its limits are set.
#[cfg(target_os = "linux")]
fn limit(child: Pid, limits: &ChildLimits, held: bool) -> io::Result<()> {
    if held { gate::open(child, limits) } else { limits::set(child, limits) }
}

#[cfg(not(target_os = "linux"))]
fn confine(_: Guards) -> Result<(), SandboxError> {
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn is_held() -> bool {
    false
}

#[cfg(not(target_os = "linux"))]
fn held_command(program: &std::ffi::OsStr) -> Command {
    Command::new(program)
}

#[cfg(not(target_os = "linux"))]
fn find(_: &Prepared) -> io::Result<()> {
    Ok(())
}

/// Limits of another process can be set on Linux only.
#[cfg(not(target_os = "linux"))]
fn limit(_: Pid, _: &ChildLimits, _: bool) -> io::Result<()> {
    Ok(())
}

/// Without domains nothing knows what left the group.
#[cfg(not(target_os = "linux"))]
fn end_domain() {}

fn wait_without_reaping(leader: Pid) -> io::Result<()> {
    loop {
        match waitid(WaitId::Pid(leader), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT) {
            Err(rustix::io::Errno::INTR) => {}
            other => return Ok(other.map(drop)?),
        }
    }
}
