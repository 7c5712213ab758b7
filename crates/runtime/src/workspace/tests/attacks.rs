//! Ways out that need a trick: the system's own links, hard links, and changes between check and use.

use std::os::fd::AsRawFd as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::*;

/// The least time for which the folder is swapped.
const WHILE: Duration = Duration::from_millis(1_500);

/// Fewer attempts say nothing. A busy machine needs more time for them.
const ATTEMPTS: u64 = 1_000;

/// The longest time that the attempts may need.
const PATIENCE: Duration = Duration::from_secs(60);

#[cfg(target_os = "linux")]
#[test]
fn links_of_the_system_lead_nowhere() {
    let place = place();
    let root = place.workspace.root();
    let secret = fs::File::open(place.outside.join("secret")).unwrap();
    let outside = place.outside.display().to_string();
    let ways = [
        format!("/proc/self/root{outside}/secret"),
        format!("/proc/self/fd/{}", secret.as_raw_fd()),
        format!("/proc/thread-self/root{outside}/secret"),
        format!("/proc/{}/root{outside}/secret", std::process::id()),
        format!("/proc/{}/environ", std::process::id()),
        "/proc/1/environ".to_owned(),
        "/dev/fd/0".to_owned(),
    ];
    for (at, way) in ways.iter().enumerate() {
        symlink(way, root.join(format!("way-{at}"))).unwrap();
        for path in [way.clone(), format!("way-{at}"), format!("sub/../way-{at}")] {
            assert!(read(&place.workspace, &path).is_err(), "{path} → {way}");
            assert!(write(&place.workspace, &path, "overwritten").is_err(), "{path} → {way}");
        }
    }
    symlink(format!("/proc/self/root{outside}"), root.join("folder")).unwrap();
    assert!(read(&place.workspace, "folder/secret").is_err());
    assert!(write(&place.workspace, "folder/new", "x").is_err() && !place.outside.join("new").exists());
    assert_eq!(fs::read_to_string(place.outside.join("secret")).unwrap(), "secret");
}

#[test]
fn a_hard_link_to_a_file_outside_is_not_written_through() {
    let place = place();
    let link = place.workspace.root().join("hard");
    fs::hard_link(place.outside.join("secret"), &link).unwrap();
    write(&place.workspace, "hard", "changed").unwrap();
    assert_eq!(fs::read_to_string(place.outside.join("secret")).unwrap(), "secret");
    assert_eq!(fs::read_to_string(link).unwrap(), "changed");
}

/// Ends the swapping, also when an attempt fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Swaps `sub` for a link to the folder outside and back, again and again, while `attempt` is repeated, until one
/// has met the folder inside.
#[cfg(target_os = "linux")]
fn while_swapped(place: &Place, mut attempt: impl FnMut(u64) -> bool) {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    let root = place.workspace.root();
    symlink(&place.outside, root.join("swap")).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let (one, other) = (root.join("sub"), root.join("swap"));
                // The exchange is atomic: the name always exists, and the attempts meet both states.
                renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE).unwrap();
            }
        });
        let _stop = Stop(&stop);
        let begun = Instant::now();
        let (mut count, mut inside) = (0, false);
        while begun.elapsed() < WHILE || count < ATTEMPTS || !inside {
            inside |= attempt(count);
            count += 1;
            assert!(begun.elapsed() < PATIENCE, "{count} attempts say too little, met inside: {inside}");
        }
    });
}

#[cfg(target_os = "linux")]
#[test]
fn a_folder_that_is_swapped_all_the_time_never_leads_outside() {
    let place = place();
    while_swapped(&place, |count| {
        let found = read(&place.workspace, "sub/file");
        if let Ok(text) = &found {
            assert_eq!(text, "inside", "attempt {count}");
        }
        let _ = write(&place.workspace, "sub/written", "by the tool");
        let sub = ResolvedPath { relative: "sub".into() };
        if let Ok(entries) = place.workspace.list(&sub) {
            assert!(entries.iter().all(|entry| entry.name != "secret"), "attempt {count}");
        }
        let changed = ResolvedPath { relative: "sub/secret".into() };
        assert!(place.workspace.modified(&changed).is_err(), "attempt {count}");
        found.is_ok()
    });
    assert!(!place.outside.join("written").exists());
    assert_eq!(fs::read_to_string(place.outside.join("secret")).unwrap(), "secret");
}
