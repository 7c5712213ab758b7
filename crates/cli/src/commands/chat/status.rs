//! The status line: the meter, and what is going on.

use std::time::Duration;

use longhaul_core::ids::Millis;

use crate::term::happening::{Call, Happening};
use crate::term::human::time;
use crate::term::meter::Meter;
use crate::term::style::Style;
use crate::term::text::{fit, pad, width};
use crate::term::tool_row;

/// Cells of the meter's bar where there is room, and where there is little.
const WIDE: usize = 20;
const NARROW: usize = 10;

/// Columns of a running tool.
const LABEL: usize = 48;

/// From this many columns on there is room.
const ROOMY: usize = 72;

/// What is going on.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    doing: Doing,
    since: Option<Millis>,
    calls: Vec<Call>,
    running: Vec<(Call, Millis)>,
    /// Messages that wait.
    pub(crate) queued: usize,
    /// Whether running tools have rows of their own.
    tools_apart: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Doing {
    #[default]
    Nothing,
    Thinking,
    Writing,
    Preparing(String),
    Compacting,
    Retrying(Millis),
}

impl Activity {
    /// Nothing, where running tools have rows of their own.
    pub(crate) fn with_tools_apart() -> Self {
        Self { tools_apart: true, ..Self::default() }
    }

    /// Takes what happens at `now`.
    pub(crate) fn take(&mut self, happening: &Happening, now: Millis) {
        match happening {
            Happening::RunStarted | Happening::Reasoning => self.begin(Doing::Thinking, now),
            Happening::Text(text) if !text.is_empty() => self.begin(Doing::Writing, now),
            Happening::ToolInput { tool } if !tool.is_empty() => {
                self.begin(Doing::Preparing(tool.clone()), now)
            }
            Happening::Compacting { .. } => self.begin(Doing::Compacting, now),
            Happening::Retrying { after_ms, .. } => {
                self.begin(Doing::Retrying(now + after_ms), now);
            }
            Happening::Call(call) => self.calls.push(call.clone()),
            Happening::Started { id } => {
                if let Some(at) = self.calls.iter().position(|call| call.id == *id) {
                    self.running.push((self.calls.remove(at), now));
                }
            }
            Happening::Ended(ended) => {
                self.calls.retain(|call| call.id != ended.id);
                self.running.retain(|(call, _)| call.id != ended.id);
                self.begin(Doing::Thinking, now);
            }
            Happening::Compacted(_) | Happening::CompactionFailed { .. } => self.begin(Doing::Thinking, now),
            Happening::RunEnded(_) => {
                self.calls.clear();
                self.running.clear();
                self.rest();
            }
            _ => {}
        }
    }

    /// Nothing is going on.
    pub(crate) fn rest(&mut self) {
        (self.doing, self.since) = (Doing::Nothing, None);
    }

    /// The tools that run, and for how long they have.
    pub(crate) fn running(&self, now: Millis) -> impl ExactSizeIterator<Item = (&Call, Duration)> {
        self.running.iter().map(move |(call, since)| (call, elapsed(*since, now)))
    }

    /// Returns whether an answer is coming in.
    pub(crate) fn is_writing(&self) -> bool {
        self.doing == Doing::Writing
    }

    fn begin(&mut self, doing: Doing, now: Millis) {
        if self.doing != doing {
            (self.doing, self.since) = (doing, Some(now));
        }
    }

    /// In a few words, a command in at most `room` columns; empty if nothing is going on.
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
            Doing::Nothing => String::new(),
            Doing::Thinking => joined("thinking", elapsed),
            Doing::Writing => "writing".to_owned(),
            Doing::Preparing(tool) => joined(&format!("preparing {tool}"), elapsed),
            Doing::Compacting => joined("compacting", elapsed),
            Doing::Retrying(at) => {
                let left = at.saturating_sub(now) / 1_000 + 1;
                format!("trying again in {left} s")
            }
        }
    }

    /// The whole line, exactly `columns` wide: meter left, activity right.
    pub(crate) fn line(
        &self,
        meter: &Meter,
        waits_for_person: bool,
        columns: usize,
        style: Style,
        now: Millis,
    ) -> String {
        let cells = if columns >= ROOMY { WIDE } else { NARROW };
        let meter_columns = width(&meter.line(cells, Style::default()));
        let queue = if self.queued > 0 { format!("queue {}", self.queued) } else { String::new() };
        let Some(room) = columns.checked_sub(meter_columns + 2).filter(|room| *room >= width(&queue)) else {
            let meter = meter.line(cells, Style::default());
            if queue.is_empty() {
                return pad(&meter, columns);
            }
            // How many messages wait is said before anything else.
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

    fn call() -> Call {
        Call { id: "c".into(), tool: "bash".into(), arguments: r#"{"command":"cargo test"}"#.into() }
    }

    #[test]
    fn the_line_is_exactly_as_wide_as_the_terminal() {
        let mut activity = Activity { queued: 2, ..Activity::default() };
        activity.take(&Happening::Call(call()), 0);
        activity.take(&Happening::Started { id: "c".into() }, 0);
        for columns in [12, 20, 40, 45, 50, 60, 80, 200] {
            let line = activity.line(&Meter::default(), false, columns, Style::default(), 0);
            assert_eq!(width(&line), columns, "{line:?}");
            assert!(line.ends_with("queue 2"), "{line:?}");
        }
        let line = activity.line(&Meter::default(), false, 80, Style::default(), 0);
        assert!(line.ends_with("bash cargo test · queue 2"), "{line}");
        let line = activity.line(&Meter::default(), true, 80, Style::default(), 0);
        assert!(line.ends_with("waits for you · queue 2"), "{line}");
    }

    #[test]
    fn what_goes_on_is_told_and_ends() {
        let mut activity = Activity::default();
        activity.take(&Happening::RunStarted, 0);
        assert_eq!(activity.words(false, 80, 0), "thinking");
        activity.take(&Happening::Text("a".into()), 0);
        assert_eq!(activity.words(false, 80, 0), "writing");
        activity.take(&Happening::RunEnded(Default::default()), 0);
        assert_eq!(activity.words(false, 80, 0), "");
    }
}
