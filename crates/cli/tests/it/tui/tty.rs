//! A command on a terminal of its own, and what a person would see on it.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::num::NonZero;
use std::os::fd::{AsFd as _, OwnedFd};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::io::ioctl_fionread;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use crate::bench::until;

/// The program that gives a command a terminal.
const SETSID: &str = "/usr/bin/setsid";

/// Everything the terminal was sent, and what it shows.
struct Shown {
    bytes: Vec<u8>,
    parser: vt100::Parser,
}

/// A terminal and the command on it.
pub(crate) struct Tty {
    pub(crate) child: Child,
    keys: File,
    slave: OwnedFd,
    shown: Arc<Mutex<Shown>>,
}

fn size(number: u16) -> NonZero<u16> {
    NonZero::new(number).unwrap()
}

fn winsize(columns: u16, rows: u16) -> Winsize {
    Winsize { ws_col: columns, ws_row: rows, ws_xpixel: 0, ws_ypixel: 0 }
}

impl Tty {
    /// Starts `command` on a terminal of this size. `TERM` names one that cuts rows when it gets narrower, as the
    /// one here does.
    pub(crate) fn start(command: &Command, columns: u16, rows: u16) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let slave = rustix::fs::open(&name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
        tcsetwinsize(&slave, winsize(columns, rows)).unwrap();
        let end = || Stdio::from(slave.try_clone().unwrap());
        let mut started = Command::new(SETSID);
        started.arg("--ctty").arg(command.get_program()).args(command.get_args());
        // Variables of the machine, such as a locale or `NO_COLOR`, must not decide what a test sees.
        started.env_clear().env("TERM", "st-256color");
        started.envs(command.get_envs().filter_map(|(key, value)| Some((key, value?))));
        started.current_dir(command.get_current_dir().unwrap());
        let child = started.stdin(end()).stdout(end()).stderr(end()).spawn().unwrap();
        let parser = vt100::Parser::new(size(rows), size(columns), 1_000);
        let shown = Arc::new(Mutex::new(Shown { bytes: Vec::new(), parser }));
        let mut out = File::from(master.try_clone().unwrap());
        let sink = Arc::clone(&shown);
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = out.read(&mut buffer) {
                let mut shown = sink.lock().unwrap();
                shown.bytes.extend_from_slice(&buffer[..count]);
                shown.parser.process(&buffer[..count]);
            }
        });
        Self { child, keys: File::from(master), slave, shown }
    }

    fn now(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock().unwrap()
    }

    /// What is on the screen.
    pub(crate) fn screen(&self) -> String {
        self.now().parser.screen().contents()
    }

    /// What is on the screen, and above it.
    pub(crate) fn everything(&self) -> String {
        let mut shown = self.now();
        let screen = shown.parser.screen_mut();
        let (rows, columns) = screen.size();
        let mut pages: Vec<String> = Vec::new();
        screen.set_scrollback(usize::MAX);
        let mut left = screen.scrollback();
        while left > 0 {
            screen.set_scrollback(left);
            let take = left.min(usize::from(rows.get()));
            pages.extend(screen.rows(0, columns.get()).take(take));
            left -= take;
        }
        screen.set_scrollback(0);
        pages.extend(screen.rows(0, columns.get()));
        pages.join("\n")
    }

    /// Everything that was ever sent.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.now().bytes.clone()
    }

    pub(crate) fn is_cursor_hidden(&self) -> bool {
        self.now().parser.screen().hide_cursor()
    }

    pub(crate) fn marks_pastes(&self) -> bool {
        self.now().parser.screen().bracketed_paste()
    }

    /// Whether the terminal shows what is typed and waits for whole lines, as a shell wants it.
    pub(crate) fn is_cooked(&self) -> bool {
        let modes = tcgetattr(self.slave.as_fd()).unwrap().local_modes;
        modes.contains(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG)
    }

    /// Presses keys; what is pressed together arrives together.
    pub(crate) fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
        // Keys that arrive together would count as an unmarked paste.
        std::thread::sleep(Duration::from_millis(60));
        let begun = std::time::Instant::now();
        // A busy machine reads them later. What nobody reads any more is not waited for long.
        while ioctl_fionread(&self.slave).unwrap() > 0 && begun.elapsed() < Duration::from_secs(5) {
            std::thread::sleep(Duration::from_millis(60));
        }
    }

    /// Presses Ctrl-C until the command ends: one may come too late to count as the second of two.
    pub(crate) fn leave(&mut self) -> ExitStatus {
        until("the chat is left", || {
            self.press("\u{3}");
            self.child.try_wait().unwrap().is_some()
        });
        self.end()
    }

    /// Types a line and Enter.
    pub(crate) fn enter(&mut self, line: &str) {
        self.press(line);
        self.press("\r");
    }

    /// The command is told of another size. What shows it stays as large as it was: it would cut what it has.
    pub(crate) fn resize(&mut self, columns: u16, rows: u16) {
        tcsetwinsize(self.slave.as_fd(), winsize(columns, rows)).unwrap();
    }

    #[track_caller]
    pub(crate) fn until_it_shows(&self, text: &str) {
        self.until(text, |screen| screen.contains(text));
    }

    #[track_caller]
    pub(crate) fn until(&self, what: &str, is_so: impl Fn(&str) -> bool) {
        let begun = std::time::Instant::now();
        while !is_so(&self.screen()) {
            assert!(begun.elapsed().as_secs() < 30, "waited in vain: {what}\n{}", self.screen());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits for the end, for at most half a minute, and for the last of what it sent.
    pub(crate) fn end(&mut self) -> ExitStatus {
        let mut status = None;
        until("the chat ends", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        // The reading thread may still be behind: a command can end before its last output is read.
        std::thread::sleep(Duration::from_millis(100));
        status.unwrap()
    }
}

impl Drop for Tty {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
