//! The heap of a process that lives for days: freed memory goes back to the system.
//!
//! glibc raises its thresholds to the largest block that was freed, up to 32 MB, and keeps everything below them. After
//! one answer of 25 MB a server would keep hundreds of megabytes (decision 56).

use std::io;

/// The variables that fix the thresholds of glibc: the size above which a block is mapped for itself, and the free bytes
/// at the end of a heap above which they go back. They are read before `main`, and setting them there comes too late.
// glibc raises both thresholds to the largest freed block. A server kept 398 MB after one answer of 25 MB, and 101 MB
// with fixed thresholds (decision 0056).
pub(crate) const THRESHOLDS: [&str; 2] = ["MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"];

/// The value of both thresholds, in bytes: 1 MiB.
// A request of 100,000 tokens has half of that. Blocks of its size are not mapped again each time.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const THRESHOLD_BYTES: &str = "1048576";

/// Starts this program again with fixed thresholds, in the same process. Returns only if there is nothing to set, or if
/// the program cannot be started.
///
/// # Errors
/// The system's, if the program cannot be started. The process is as before then.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(crate) fn return_freed_memory() -> io::Result<()> {
    use std::os::unix::process::CommandExt as _;

    // An operator's own values stay. The second start finds the variables set, too.
    let is_set = |name: &str| std::env::var_os(name).is_some();
    let tunes =
        |name: &str| std::env::var_os(name).is_some_and(|set| set.to_string_lossy().contains("_threshold="));
    if THRESHOLDS.into_iter().any(is_set) || tunes("GLIBC_TUNABLES") {
        return Ok(());
    }
    let mut args = std::env::args_os();
    let mut again = std::process::Command::new(std::env::current_exe()?);
    if let Some(name) = args.next() {
        again.arg0(name);
    }
    Err(again.args(args).envs(THRESHOLDS.map(|name| (name, THRESHOLD_BYTES))).exec())
}

/// Does nothing: other allocators give memory back by themselves.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn return_freed_memory() -> io::Result<()> {
    Ok(())
}
