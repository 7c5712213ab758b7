//! The watchdog, which ends a process that ignores a request to end.
//!
//! The watchdog has its own thread. So it hears SIGTERM even if computations keep all other threads busy, or if a
//! thread waits for a disk that does not answer. Its end is a `kill -9`, which every store survives: nothing that was
//! acknowledged is lost.

use std::io;
use std::sync::mpsc;
use std::time::Duration;

use rustix::process::{Pid, Signal, getpid, kill_process, kill_process_group};
use tokio::signal::unix::{SignalKind, signal};

use crate::term::out;

/// The maximum time for the last message. The terminal or pipe of its reader may be stuck too.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// Starts the watchdog. The process ends `limit` after a SIGTERM, unless ended by then.
///
/// # Errors
/// The system has no thread or no signal to give.
pub(crate) fn start(limit: Duration) -> io::Result<()> {
    let (listens, is_listening) = mpsc::channel();
    std::thread::Builder::new().name("watchdog".to_owned()).spawn(move || watch(limit, &listens))?;
    // Returns once the handler is installed, so that a failure reaches the caller and not only the thread.
    is_listening.recv().unwrap_or_else(|_| Err(io::Error::other("the watchdog ended at once")))
}

fn watch(limit: Duration, listens: &mpsc::Sender<io::Result<()>>) {
    // A message is not received only if the thread that called `start` is gone.
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_io().build() {
        Ok(runtime) => runtime,
        Err(error) => return drop(listens.send(Err(error))),
    };
    let terminated = runtime.block_on(async {
        match signal(SignalKind::terminate()) {
            Ok(mut terminate) => {
                let _ = listens.send(Ok(()));
                terminate.recv().await
            }
            Err(error) => {
                let _ = listens.send(Err(error));
                None
            }
        }
    });
    if terminated.is_some() {
        std::thread::sleep(limit);
        end(limit);
    }
}

/// Ends the process and its started processes.
fn end(limit: Duration) {
    let seconds = limit.as_secs();
    // In a thread of its own: a stuck reader of standard error must not delay the kill.
    std::thread::spawn(move || {
        out::complaint(&format!(
            "longhaul: it was told to end {seconds} s ago and is still busy: it is killed. What was acknowledged is kept; runs \
             that were cut go on with the next message or `resume`\n"
        ));
    });
    std::thread::sleep(LAST_WORDS);
    for child in children() {
        // Commands and MCP programs lead process groups of their own. A process that has ended already needs
        // no signal.
        let _ = kill_process_group(child, Signal::KILL);
        let _ = kill_process(child, Signal::KILL);
    }
    // Not `exit`: handlers at the exit could wait for what is stuck.
    let _ = kill_process(getpid(), Signal::KILL);
}

/// Returns the living children of this process. Empty where the system does not list them.
fn children() -> Vec<Pid> {
    // Linux lists a child at the thread that started it, so the lists of all threads are read.
    let Ok(threads) = std::fs::read_dir("/proc/self/task") else { return Vec::new() };
    let lists =
        threads.flatten().filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    let numbers: Vec<i32> = lists
        .flat_map(|list| list.split_whitespace().filter_map(|number| number.parse().ok()).collect::<Vec<_>>())
        .collect();
    numbers.into_iter().filter_map(Pid::from_raw).collect()
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Command, Stdio};
    use std::time::Instant;

    use super::*;
    use crate::signals::InterruptSignals;

    const IS_BUSY: &str = "LONGHAUL_TEST_IS_BUSY";

    /// Does endless work on each thread. Not a test, but the process of the next test.
    #[test]
    #[expect(clippy::zombie_processes, reason = "that it ends with this process is what is tested")]
    fn busy() {
        if std::env::var_os(IS_BUSY).is_none() {
            return;
        }
        start(Duration::from_secs(1)).unwrap();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(async {
            let mut interrupts = InterruptSignals::listen().unwrap();
            // Whoever would hear the signal is never asked.
            tokio::spawn(async move {
                interrupts.next().await;
                std::process::exit(0);
            });
            let sleeper = Command::new("sleep").arg("600").spawn().unwrap();
            eprintln!("busy {}", sleeper.id());
            tokio::spawn(async { spin() });
            tokio::spawn(async { spin() });
            spin();
        });
    }

    fn spin() {
        loop {
            std::hint::spin_loop();
        }
    }

    #[test]
    fn a_busy_process_ends_when_it_is_told_to() {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "watchdog::tests::busy", "--nocapture"])
            .env(IS_BUSY, "1")
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let said = BufReader::new(process.stderr.take().unwrap());
        let started = said.lines().find_map(|line| line.unwrap().strip_prefix("busy ").map(str::to_owned));
        let sleeper: i32 = started.unwrap().parse().unwrap();
        // Its threads are at work by then, or will never come to anything else.
        std::thread::sleep(Duration::from_millis(500));
        kill_process(Pid::from_raw(process.id().cast_signed()).unwrap(), Signal::TERM).unwrap();
        let told = Instant::now();
        let status = loop {
            if let Some(status) = process.try_wait().unwrap() {
                break status;
            }
            if told.elapsed() > Duration::from_secs(20) {
                process.kill().unwrap();
                panic!("it goes on");
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        assert_eq!(status.signal(), Some(9), "{status}");
        let state = std::fs::read_to_string(format!("/proc/{sleeper}/stat")).unwrap_or_default();
        assert!(state.is_empty() || state.contains(") Z "), "what it has started goes on: {state}");
    }
}
