//! The terminal after a panic: this program again, on a terminal of its own, and what it leaves there.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsFd as _, OwnedFd};
use std::process::{Command, Stdio};

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use super::*;
use crate::tui::ascii_fallback::GlyphSet;

/// Set for the child alone: who panics in it.
const WHO: &str = "LONGHAUL_TEST_WHO_PANICS";

const SETSID: &str = "/usr/bin/setsid";

/// The output of a panicking program to its terminal, and the state of the terminal for the shell.
fn left_by(who: &str) -> (String, bool) {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let slave = rustix::fs::open(&name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
    tcsetwinsize(&slave, Winsize { ws_col: 80, ws_row: 24, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    let end = || Stdio::from(OwnedFd::try_clone(&slave).unwrap());
    let mut command = Command::new(SETSID);
    command.args(["--ctty", "--wait"]).arg(std::env::current_exe().unwrap());
    command.args(["--exact", "tui::screen::tests::somebody_panics", "--nocapture", "--test-threads=1"]);
    let mut child = command.env(WHO, who).stdin(end()).stdout(end()).stderr(end()).spawn().unwrap();
    drop(command);
    let mut out = File::from(master);
    let reading = std::thread::spawn(move || {
        let (mut text, mut buffer) = (Vec::new(), [0; 4096]);
        // A terminal without programs is no file any more.
        while let Ok(count @ 1..) = out.read(&mut buffer) {
            text.extend_from_slice(&buffer[..count]);
        }
        String::from_utf8_lossy(&text).into_owned()
    });
    child.wait().unwrap();
    let modes = tcgetattr(slave.as_fd()).unwrap().local_modes;
    drop(slave);
    let text = reading.join().unwrap();
    (text, modes.contains(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG))
}

/// Nothing, unless it was started by [`left_by`].
#[test]
fn somebody_panics() {
    let Some(who) = std::env::var_os(WHO) else { return };
    let draws = std::thread::Builder::new().name("main".to_owned()).spawn(move || {
        let manners = TerminalProfile { glyphs: GlyphSet::Unicode, reflows: false, names_keys: true };
        let mut screen = TerminalScreen::open(manners).unwrap();
        out::data("live rows").unwrap();
        if who == "another" {
            std::thread::spawn(|| panic!("planted elsewhere")).join().unwrap_err();
            let heard = screen.heard.blocking_recv();
            out::data(&format!("\r\nheard {heard:?}, taken {}\r\n", TAKEN.load(Ordering::SeqCst))).unwrap();
        }
        // Nothing is tidied up on the way out: what gives the terminal back is the hook.
        std::mem::forget(screen);
        panic!("planted here");
    });
    draws.unwrap().join().unwrap_err();
}

#[test]
fn whoever_draws_gives_the_terminal_back_before_it_says_why_it_panicked() {
    let (text, is_cooked) = left_by("main");
    assert!(is_cooked, "{text:?}");
    let at = |what: &str| text.find(what).unwrap_or_else(|| panic!("no {what:?} in {text:?}"));
    let back = format!("\r\n\u{1b}[J{END}{NAME_NO_KEYS}");
    assert!(at(BEGIN) < at("live rows") && at("live rows") < at(&back) && at(&back) < at("planted here"));
    assert_eq!(text.matches(END).count(), 1, "once: {text:?}");
}

#[test]
fn the_last_words_of_another_thread_are_shown_above_the_live_rows() {
    let (text, is_cooked) = left_by("another");
    let heard = text.find("heard ").unwrap_or_else(|| panic!("{text:?}"));
    let words = &text[heard..heard + text[heard..].find("taken").unwrap()];
    assert!(words.contains("Logged") && words.contains("planted elsewhere"), "{words}");
    assert!(text[heard..].contains("taken true"), "the terminal stays as it is: {text:?}");
    assert!(!text[..heard].contains(END) && is_cooked, "{text:?}");
}
