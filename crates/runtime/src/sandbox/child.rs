//! A child process with a thread of its own that confines itself, starts it, waits for it and cleans up.

use std::io;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, kill_process_group, test_kill_process_group, waitid,
};
use tokio::sync::oneshot;

use super::SandboxError;
#[cfg(target_os = "linux")]
use super::confine::end_domain;
use super::grants::Grant;

/// Says what a child is granted, at the moment it is started.
pub(super) type Grants = Box<dyn FnOnce() -> Vec<Grant> + Send>;

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

pub(super) async fn start(
    command: Command,
    program: String,
    grants: Option<Grants>,
) -> Result<ConfinedChild, SandboxError> {
    let (started, starting) = oneshot::channel();
    let failed = |source| SandboxError::Start { program: program.clone(), source };
    let name = program.clone();
    let thread = std::thread::Builder::new().name("sandbox".to_owned());
    thread.spawn(move || live(command, name, grants, started)).map_err(failed)?;
    starting.await.map_err(|_| failed(io::Error::other("its thread has gone")))?
}

/// The life of a child's thread.
fn live(
    mut command: Command,
    program: String,
    grants: Option<Grants>,
    started: oneshot::Sender<Result<ConfinedChild, SandboxError>>,
) {
    let confined = grants.is_some();
    let spawned = confine(grants)
        .and_then(|()| command.spawn().map_err(|source| SandboxError::Start { program, source }));
    // Our copies of the child's pipe ends must go, or their readers never see an end.
    drop(command);
    let mut child = match spawned {
        Ok(child) => child,
        Err(error) => return drop(started.send(Err(error))),
    };
    let group = Arc::new(Group { leader: Pid::from_child(&child), reaped: Mutex::new(false) });
    let (ended, exit) = oneshot::channel();
    // If nobody takes the handle, dropping it kills the child.
    let _ = started.send(Ok(ConfinedChild { group: Arc::clone(&group), exit, status: None }));
    let _ = ended.send(group.finish(&mut child, confined));
}

#[cfg(target_os = "linux")]
fn confine(grants: Option<Grants>) -> Result<(), SandboxError> {
    let Some(grants) = grants else { return Ok(()) };
    super::confine::this_thread(&grants()).map(drop).map_err(SandboxError::Confine)
}

#[cfg(not(target_os = "linux"))]
fn confine(_: Option<Grants>) -> Result<(), SandboxError> {
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
