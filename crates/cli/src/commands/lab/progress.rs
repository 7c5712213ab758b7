//! The progress of a replay, for a person who waits at a terminal.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::lab::recording::SessionRecording;
use crate::lab::replay::MakePolicy;

use crate::term::out;
use crate::term::text::fit;

/// Wraps makers so that each replay is reported when its policy is made. `times` is the number of uses of each
/// maker for every recording.
pub(super) fn report_progress(
    makers: Vec<MakePolicy>,
    names: &[String],
    recordings: &[SessionRecording],
    times: usize,
) -> Vec<MakePolicy> {
    let all = makers.len() * recordings.len() * times;
    // The replays run on several threads, which share one count.
    let (begun, sessions) = (Arc::new(AtomicUsize::new(0)), recordings.len());
    let each = makers.into_iter().zip(names.iter().cloned()).map(|(make, name)| -> MakePolicy {
        let begun = Arc::clone(&begun);
        Arc::new(move || {
            let number = begun.fetch_add(1, Ordering::Relaxed) + 1;
            say(&line(number, all, sessions, &name));
            make()
        })
    });
    each.collect()
}

fn line(number: usize, all: usize, sessions: usize, policy: &str) -> String {
    let session = (number - 1) * sessions / all.max(1) + 1;
    format!("replay {number} of {all} · session {session} of {sessions} · {policy}")
}

/// Prints a line in place of the last one.
pub(super) fn say(line: &str) {
    out::message(&format!("\r\u{1b}[K{}", fit(line, out::width())));
}

/// Clears the line.
pub(super) fn end() {
    say("");
}

#[cfg(test)]
mod tests {
    use super::line;

    #[test]
    fn the_session_is_the_one_that_is_replayed() {
        assert_eq!(line(1, 12, 3, "adaptive"), "replay 1 of 12 · session 1 of 3 · adaptive");
        assert_eq!(line(5, 12, 3, "codex"), "replay 5 of 12 · session 2 of 3 · codex");
        assert_eq!(line(12, 12, 3, "codex"), "replay 12 of 12 · session 3 of 3 · codex");
    }
}
