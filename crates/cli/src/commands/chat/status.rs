//! The status line: the meter and the current activity.

use std::time::Duration;

use longhaul_core::ids::Millis;

use crate::term::human::{time, wait};
use crate::term::meter::ContextMeterBar;
use crate::term::style::TextPainter;
use crate::term::text::{fit, visible, width};
use crate::term::tool_row;
use crate::term::transcript::{CONTROL_C, ESCAPE};
use crate::term::ui_event::{ToolCallInfo, UiEvent};

/// Cells of the meter's bar on a line of at least [`ROOMY`] columns.
const WIDE: usize = 20;
/// Cells of the meter's bar on a shorter line.
const NARROW: usize = 10;

/// The maximum columns of a running tool's label.
const LABEL: usize = 48;

/// The columns that a line keeps for the activity: "waits for you".
const WORDS: usize = 13;

/// The minimum columns of a line with the wide bar.
const ROOMY: usize = 72;

/// The current activity of the session.
#[derive(Debug, Default)]
pub(crate) struct ActivityTracker {
    doing: ActivityKind,
    since: Option<Millis>,
    calls: Vec<ToolCallInfo>,
    running: Vec<(ToolCallInfo, Millis)>,
    /// Waiting messages.
    pub(crate) queued: usize,
    /// `true` if running tools have rows of their own.
    tools_apart: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum ActivityKind {
    #[default]
    Nothing,
    Thinking,
    Writing,
    Preparing(String),
    Compacting,
    Retrying(Millis),
}

impl ActivityTracker {
    /// Creates an idle tracker for a display in which running tools have rows of their own.
    pub(crate) fn with_tools_apart() -> Self {
        Self { tools_apart: true, ..Self::default() }
    }

    /// Takes the event at `now`.
    pub(crate) fn take(&mut self, happening: &UiEvent, now: Millis) {
        match happening {
            UiEvent::RunStarted | UiEvent::Reasoning => self.begin(ActivityKind::Thinking, now),
            UiEvent::Text(text) if !text.is_empty() => self.begin(ActivityKind::Writing, now),
            UiEvent::ToolInput { tool } if !tool.is_empty() => {
                self.begin(ActivityKind::Preparing(tool.clone()), now)
            }
            UiEvent::Compacting { .. } => self.begin(ActivityKind::Compacting, now),
            UiEvent::Retrying { after_ms, .. } => {
                self.begin(ActivityKind::Retrying(now + after_ms), now);
            }
            UiEvent::Call(call) => self.calls.push(call.clone()),
            UiEvent::Started { id } => {
                if let Some(at) = self.calls.iter().position(|call| call.id == *id) {
                    self.running.push((self.calls.remove(at), now));
                }
            }
            UiEvent::Ended(ended) => {
                // A call that was denied ends without a start.
                self.calls.retain(|call| call.id != ended.id);
                self.running.retain(|(call, _)| call.id != ended.id);
                self.begin(ActivityKind::Thinking, now);
            }
            UiEvent::Compacted(_) | UiEvent::CompactionFailed { .. } => {
                self.begin(ActivityKind::Thinking, now)
            }
            UiEvent::RunEnded(_) => {
                self.calls.clear();
                self.running.clear();
                self.rest();
            }
            _ => {}
        }
    }

    /// Ends all activity.
    pub(crate) fn rest(&mut self) {
        (self.doing, self.since) = (ActivityKind::Nothing, None);
    }

    /// Returns the running tools, and the time since the start of each.
    pub(crate) fn running(&self, now: Millis) -> impl ExactSizeIterator<Item = (&ToolCallInfo, Duration)> {
        self.running.iter().map(move |(call, since)| (call, elapsed(*since, now)))
    }

    /// Returns whether an answer is coming in.
    pub(crate) fn is_writing(&self) -> bool {
        self.doing == ActivityKind::Writing
    }

    fn begin(&mut self, doing: ActivityKind, now: Millis) {
        // Every piece of a stream comes here. Only a change of the activity starts the clock again.
        if self.doing != doing {
            (self.doing, self.since) = (doing, Some(now));
        }
    }

    /// Describes the activity in a few words, with a command in at most `room` columns. Empty if nothing is
    /// going on.
    fn words(&self, waits_for_person: bool, room: usize, now: Millis) -> String {
        if waits_for_person {
            return "waits for you".to_owned();
        }
        if self.tools_apart && !self.running.is_empty() {
            return "running".to_owned();
        }
        if let Some((call, since)) = self.running.first() {
            let more = match self.running.len() {
                1 => String::new(),
                many => format!(" +{}", many - 1),
            };
            let behind = joined(&more, elapsed(*since, now));
            let label = tool_row::label(call, LABEL.min(room.saturating_sub(width(&behind))));
            return format!("{label}{behind}");
        }
        let elapsed = self.since.map_or(Duration::ZERO, |since| elapsed(since, now));
        match &self.doing {
            ActivityKind::Nothing => String::new(),
            ActivityKind::Thinking => joined("thinking", elapsed),
            ActivityKind::Writing => "writing".to_owned(),
            ActivityKind::Preparing(tool) => joined(&format!("preparing {tool}"), elapsed),
            ActivityKind::Compacting => joined("compacting", elapsed),
            ActivityKind::Retrying(at) => {
                // A begun second counts: "in 0 s" would look like a stuck attempt.
                let left = wait(at.saturating_sub(now) / 1_000 * 1_000 + 1_000, now);
                let key = if self.tools_apart { ESCAPE } else { CONTROL_C };
                let words = format!("trying again in {left} · {key} stops");
                // The time matters more than the words around it.
                if width(&words) <= room { words } else { format!("again in {left}") }
            }
        }
    }

    /// Returns the whole line, exactly `columns` wide: meter left, activity right.
    pub(crate) fn line(
        &self,
        meter: &ContextMeterBar,
        waits_for_person: bool,
        columns: usize,
        style: TextPainter,
        now: Millis,
    ) -> String {
        let cells = if columns >= ROOMY { WIDE } else { NARROW };
        let is_idle = !waits_for_person && self.running.is_empty() && self.doing == ActivityKind::Nothing;
        let queue = if self.queued > 0 { format!("queue {}", self.queued) } else { String::new() };
        let behind = if is_idle || queue.is_empty() { queue.clone() } else { format!(" · {queue}") };
        let right = if is_idle { 0 } else { WORDS } + width(&behind);
        let gap = if right > 0 { 2 } else { 0 };
        let meter = meter.line_within(columns.saturating_sub(right + gap), cells, style);
        let meter_columns = width(&visible(&meter));
        let room = columns.saturating_sub(meter_columns + gap);
        let room_of_words = room.saturating_sub(width(&behind));
        let words = fit(&self.words(waits_for_person, room_of_words, now), room_of_words);
        // The number of waiting messages has precedence over the activity.
        let words = if words.is_empty() { fit(&queue, room) } else { words + &behind };
        let gap = " ".repeat(columns.saturating_sub(meter_columns + width(&words)));
        let words = if waits_for_person { style.amber(&words) } else { style.dim(&words) };
        format!("{meter}{gap}{words}")
    }
}

fn elapsed(since: Millis, now: Millis) -> Duration {
    Duration::from_millis(now.saturating_sub(since))
}

fn joined(what: &str, elapsed: Duration) -> String {
    match time(elapsed) {
        none if none.is_empty() => what.to_owned(),
        time => format!("{what} · {time}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::term::ui_event::RetryLimit;

    fn call() -> ToolCallInfo {
        ToolCallInfo { id: "c".into(), tool: "bash".into(), arguments: r#"{"command":"cargo test"}"#.into() }
    }

    #[test]
    fn the_line_is_exactly_as_wide_as_the_terminal() {
        let mut activity = ActivityTracker { queued: 2, ..ActivityTracker::default() };
        activity.take(&UiEvent::Call(call()), 0);
        activity.take(&UiEvent::Started { id: "c".into() }, 0);
        for columns in [12, 20, 40, 45, 50, 60, 80, 200] {
            let line = activity.line(&ContextMeterBar::default(), false, columns, TextPainter::default(), 0);
            assert_eq!(width(&line), columns, "{line:?}");
            assert!(line.ends_with("queue 2"), "{line:?}");
        }
        let line = activity.line(&ContextMeterBar::default(), false, 80, TextPainter::default(), 0);
        assert!(line.ends_with("bash cargo test · queue 2"), "{line}");
        let line = activity.line(&ContextMeterBar::default(), true, 80, TextPainter::default(), 0);
        assert!(line.ends_with("waits for you · queue 2"), "{line}");
    }

    #[test]
    fn a_narrow_line_tells_the_activity_beside_a_shorter_meter() {
        let meter = ContextMeterBar::sample();
        let mut activity = ActivityTracker::with_tools_apart();
        let line = |activity: &ActivityTracker, waits, columns| {
            let line = activity.line(&meter, waits, columns, TextPainter::default(), 0);
            assert_eq!(width(&line), columns, "{line:?}");
            line
        };
        assert_eq!(line(&activity, true, 39), "▓░░░│ 26 % 52.1K/200K     waits for you");
        assert_eq!(line(&activity, true, 19), "26 %  waits for you");
        let retrying = UiEvent::Retrying {
            message: String::new(),
            attempt: 1,
            after_ms: 8_000,
            limit: RetryLimit::Patience,
        };
        activity.take(&retrying, 0);
        assert!(line(&activity, false, 80).ends_with("  trying again in 9 s · Esc stops"));
        assert!(line(&activity, false, 39).ends_with("  again in 9 s"));
        assert!(line(&activity, false, 19).ends_with("  again in 9 s"));
        activity.queued = 2;
        assert!(line(&activity, true, 39).ends_with("  waits for you · queue 2"));
        assert!(line(&activity, true, 19).ends_with(" queue 2"));
    }

    #[test]
    fn what_goes_on_is_told_and_ends() {
        let mut activity = ActivityTracker::default();
        activity.take(&UiEvent::RunStarted, 0);
        assert_eq!(activity.words(false, 80, 0), "thinking");
        activity.take(&UiEvent::Text("a".into()), 0);
        assert_eq!(activity.words(false, 80, 0), "writing");
        activity.take(&UiEvent::RunEnded(Default::default()), 0);
        assert_eq!(activity.words(false, 80, 0), "");
    }
}
