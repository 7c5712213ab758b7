//! Nothing is ever removed.

use super::thread::Thread;
use super::{Moment, lines, request};
use crate::policy::{Policy, Request, Situation};
use crate::recording::Recording;

/// An agent without context management: what every other policy is compared with.
#[derive(Default)]
pub struct AppendOnly {
    thread: Thread,
}

impl Policy for AppendOnly {
    fn name(&self) -> &'static str {
        "append-only"
    }

    fn sources(&self) -> Vec<String> {
        lines(&["no parameters: the whole conversation is sent every time"])
    }

    fn request(&mut self, recording: &Recording, next: usize, now: &Situation) -> Request {
        let moment = Moment::new(recording, next, now);
        self.thread.take(moment.recording, moment.next, |_| None);
        request(&self.thread, Vec::new(), None)
    }
}
