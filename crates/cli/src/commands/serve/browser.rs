//! The person's browser.

use std::process::{Command, Stdio};

use crate::environment::CliEnvironment;
use crate::heap::THRESHOLDS;

/// Returns the program that opens an address, if there is a screen to see it on.
fn opener(place: &CliEnvironment) -> Option<&'static str> {
    if cfg!(target_os = "macos") {
        return Some("open");
    }
    let has_display = ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| place.variable(name).is_some());
    has_display.then_some("xdg-open")
}

/// Opens an address if there is a display. That it cannot be opened is no failure: the address is printed too.
pub(super) fn open(place: &CliEnvironment, address: &str) {
    let Some(opener) = opener(place) else { return };
    let mut browser = Command::new(opener);
    for name in THRESHOLDS {
        // They are set for this process alone.
        browser.env_remove(name);
    }
    let started =
        browser.arg(address).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    match started {
        // The opener ends by itself. Waiting for it leaves no zombie process.
        Ok(mut child) => drop(std::thread::spawn(move || child.wait())),
        Err(error) => tracing::debug!(%error, "no browser was opened"),
    }
}
