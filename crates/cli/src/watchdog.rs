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
            "longhaul: still busy {seconds} s after it was asked to stop, so it is killed now. All \
             acknowledged data is kept. Interrupted runs go on with the next message or `resume`\n"
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
    use std::io::{BufRead, BufReader, Read as _};
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Command, Stdio};

    use rustix::process::{Resource, Rlimit, setrlimit};

    use super::*;
    use crate::signals::InterruptSignals;

    const IS_BUSY: &str = "LONGHAUL_TEST_IS_BUSY";

    /// The line of each thread that has begun its endless work.
    const AT_WORK: &str = "at work";

    /// The words of a started program that outlives the process.
    const GOES_ON: &str = "the started program goes on";

    /// The processor time after which the system ends the busy process with another signal, in seconds. So a watchdog
    /// that does nothing fails the test, and no clock decides.
    const MAX_CPU_SECONDS: u64 = 60;

    /// Does endless work on each thread. Not a test, but the process of the next test.
    #[test]
    #[expect(clippy::zombie_processes, reason = "that it ends with this process is what is tested")]
    fn busy() {
        if std::env::var_os(IS_BUSY).is_none() {
            return;
        }
        let limit = Rlimit { current: Some(MAX_CPU_SECONDS), maximum: Some(2 * MAX_CPU_SECONDS) };
        setrlimit(Resource::Cpu, limit).unwrap();
        start(Duration::ZERO).unwrap();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(async {
            let mut interrupts = InterruptSignals::listen().unwrap();
            // Whoever would hear the signal is never asked.
            tokio::spawn(async move {
                interrupts.next().await;
                std::process::exit(0);
            });
            // It waits for the end of its input, which the test holds.
            Command::new("sh").args(["-c", &format!("read -r line; echo '{GOES_ON}'")]).spawn().unwrap();
            tokio::spawn(async { spin() });
            tokio::spawn(async { spin() });
            spin();
        });
    }

    fn spin() {
        eprintln!("{AT_WORK}");
        loop {
            std::hint::spin_loop();
        }
    }

    #[test]
    fn a_busy_process_ends_when_it_is_told_to() {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "watchdog::tests::busy", "--nocapture"])
            .env(IS_BUSY, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let at_work = lines.map(Result::unwrap).filter(|line| line == AT_WORK).take(3).count();
        assert_eq!(at_work, 3, "both workers and the main thread");
        let input = process.stdin.take().unwrap();
        kill_process(Pid::from_raw(process.id().cast_signed()).unwrap(), Signal::TERM).unwrap();
        assert_eq!(process.wait().unwrap().signal(), Some(9));
        // The output ends when everybody who holds it has ended.
        drop(input);
        let mut said = String::new();
        process.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(!said.contains(GOES_ON), "{said}");
    }
}
