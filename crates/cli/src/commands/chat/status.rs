//! The status line: the meter, and what is going on.

use std::time::{Duration, Instant};

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
pub(super) struct Activity {
    doing: Doing,
    since: Option<Instant>,
    calls: Vec<Call>,
    running: Vec<(Call, Instant)>,
    /// Messages that wait.
    pub(super) queued: usize,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Doing {
    #[default]
    Nothing,
    Thinking,
    Writing,
    Preparing(String),
    Compacting,
    Retrying(Instant),
}

impl Activity {
    /// Takes what happens.
    pub(super) fn take(&mut self, happening: &Happening) {
        match happening {
            Happening::RunStarted | Happening::Reasoning => self.begin(Doing::Thinking),
            Happening::Text(text) if !text.is_empty() => self.begin(Doing::Writing),
            Happening::ToolInput { tool } if !tool.is_empty() => self.begin(Doing::Preparing(tool.clone())),
            Happening::Compacting => self.begin(Doing::Compacting),
            Happening::Retrying { after_ms, .. } => {
                self.begin(Doing::Retrying(Instant::now() + Duration::from_millis(*after_ms)));
            }
            Happening::Call(call) => self.calls.push(call.clone()),
            Happening::Started { id } => {
                if let Some(at) = self.calls.iter().position(|call| call.id == *id) {
                    self.running.push((self.calls.remove(at), Instant::now()));
                }
            }
            Happening::Ended(ended) => {
                self.calls.retain(|call| call.id != ended.id);
                self.running.retain(|(call, _)| call.id != ended.id);
                self.begin(Doing::Thinking);
            }
            Happening::Compacted(_) | Happening::CompactionFailed { .. } => self.begin(Doing::Thinking),
            Happening::RunEnded(_) => {
                self.calls.clear();
                self.running.clear();
                self.rest();
            }
            _ => {}
        }
    }

    /// Nothing is going on.
    pub(super) fn rest(&mut self) {
        (self.doing, self.since) = (Doing::Nothing, None);
    }

    fn begin(&mut self, doing: Doing) {
        if self.doing != doing {
            (self.doing, self.since) = (doing, Some(Instant::now()));
        }
    }

    /// In a few words, a command in at most `room` columns; empty if nothing is going on.
    fn words(&self, waits_for_person: bool, room: usize) -> String {
        if waits_for_person {
            return "waits for you".to_owned();
        }
        if let Some((call, since)) = self.running.first() {
            let more = match self.running.len() {
                1 => String::new(),
                many => format!(" +{}", many - 1),
            };
            let behind = joined(&more, since.elapsed());
            let label = tool_row::label(call, LABEL.min(room.saturating_sub(width(&behind))));
            return format!("{label}{behind}");
        }
        let elapsed = self.since.map_or(Duration::ZERO, |since| since.elapsed());
        match &self.doing {
            Doing::Nothing => String::new(),
            Doing::Thinking => joined("thinking", elapsed),
            Doing::Writing => "writing".to_owned(),
            Doing::Preparing(tool) => joined(&format!("preparing {tool}"), elapsed),
            Doing::Compacting => joined("compacting", elapsed),
            Doing::Retrying(at) => {
                let left = at.saturating_duration_since(Instant::now()).as_secs() + 1;
                format!("trying again in {left} s")
            }
        }
    }

    /// The whole line, exactly `columns` wide: meter left, activity right.
    pub(super) fn line(&self, meter: &Meter, waits_for_person: bool, columns: usize, style: Style) -> String {
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
        let words = fit(&self.words(waits_for_person, room_of_words), room_of_words);
        let words =
            if words.is_empty() { behind.trim_start_matches(" · ").to_owned() } else { words + &behind };
        let gap = " ".repeat(columns - meter_columns - width(&words));
        let words = if waits_for_person { style.amber(&words) } else { style.dim(&words) };
        format!("{}{gap}{words}", meter.line(cells, style))
    }
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
        activity.take(&Happening::Call(call()));
        activity.take(&Happening::Started { id: "c".into() });
        for columns in [12, 20, 40, 45, 50, 60, 80, 200] {
            let line = activity.line(&Meter::default(), false, columns, Style::default());
            assert_eq!(width(&line), columns, "{line:?}");
            assert!(line.ends_with("queue 2"), "{line:?}");
        }
        let line = activity.line(&Meter::default(), false, 80, Style::default());
        assert!(line.ends_with("bash cargo test · queue 2"), "{line}");
        let line = activity.line(&Meter::default(), true, 80, Style::default());
        assert!(line.ends_with("waits for you · queue 2"), "{line}");
    }

    #[test]
    fn what_goes_on_is_told_and_ends() {
        let mut activity = Activity::default();
        activity.take(&Happening::RunStarted);
        assert_eq!(activity.words(false, 80), "thinking");
        activity.take(&Happening::Text("a".into()));
        assert_eq!(activity.words(false, 80), "writing");
        activity.take(&Happening::RunEnded(Default::default()));
        assert_eq!(activity.words(false, 80), "");
    }
}
