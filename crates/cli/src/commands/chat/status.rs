//! The status line: the meter and the current activity.

use std::time::Duration;

use longhaul_core::ids::Millis;

use crate::term::human::{time, wait};
use crate::term::meter::ContextMeterBar;
use crate::term::style::TextPainter;
use crate::term::text::{fit, pad, width};
use crate::term::tool_row;
use crate::term::transcript::{CONTROL_C, ESCAPE};
use crate::term::ui_event::{ToolCallInfo, UiEvent};

/// Cells of the meter's bar on a line of at least [`ROOMY`] columns.
const WIDE: usize = 20;
/// Cells of the meter's bar on a shorter line.
const NARROW: usize = 10;

/// The maximum columns of a running tool's label.
const LABEL: usize = 48;

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
                format!("trying again in {left} · {key} stops")
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
        // Measured without colours, whose codes take no columns.
        let meter_columns = width(&meter.line(cells, TextPainter::default()));
        let queue = if self.queued > 0 { format!("queue {}", self.queued) } else { String::new() };
        let Some(room) = columns.checked_sub(meter_columns + 2).filter(|room| *room >= width(&queue)) else {
            let meter = meter.line(cells, TextPainter::default());
            if queue.is_empty() {
                return pad(&meter, columns);
            }
            // The number of waiting messages has precedence over everything else.
            let left = columns.saturating_sub(width(&queue) + 1);
            return pad(&format!("{} {queue}", pad(&meter, left)), columns);
        };
        let behind = if queue.is_empty() { queue } else { format!(" · {queue}") };
        let room_of_words = room.saturating_sub(width(&behind));
        let words = fit(&self.words(waits_for_person, room_of_words, now), room_of_words);
        let words =
            if words.is_empty() { behind.trim_start_matches(" · ").to_owned() } else { words + &behind };
        let gap = " ".repeat(columns - meter_columns - width(&words));
        let words = if waits_for_person { style.amber(&words) } else { style.dim(&words) };
        format!("{}{gap}{words}", meter.line(cells, style))
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
