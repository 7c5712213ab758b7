//! The policy without removals.

use super::thread::RivalView;
use super::{RivalContext, lines, request};
use crate::lab::policy::{ContextPolicy, PolicyInput, PolicyRequest};
use crate::lab::recording::SessionRecording;

/// An agent without context management, with which every other policy is compared.
#[derive(Default)]
pub(crate) struct AppendOnlyPolicy {
    thread: RivalView,
}

impl ContextPolicy for AppendOnlyPolicy {
    fn name(&self) -> &'static str {
        "append-only"
    }

    fn sources(&self) -> Vec<String> {
        lines(&["no parameters: the whole conversation is sent every time"])
    }

    fn request(&mut self, recording: &SessionRecording, next: usize, now: &PolicyInput) -> PolicyRequest {
        let moment = RivalContext::new(recording, next, now);
        self.thread.take(moment.recording, moment.next, |_| None);
        request(&self.thread, Vec::new(), None)
    }
}
