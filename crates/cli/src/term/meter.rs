//! The meter: one thin bar and its caption.
//!
//! `▓` was reported by the provider, `▒` is estimated since, `░` is free, `┊` is where the planner acts, `│`
//! where the room for the answer begins.

use longhaul::context::ContextReport;

use super::human::{percent, short};
use super::style::TextPainter;
use super::text::{fit, width};

/// A form of the meter's line. Narrow terminals get a form with fewer parts.
#[derive(Clone, Copy, Debug)]
struct MeterForm {
    cells: usize,
    has_figures: bool,
    has_error: bool,
}

impl MeterForm {
    const fn whole(cells: usize) -> Self {
        Self { cells, has_figures: true, has_error: true }
    }
}

/// The forms of the line, the most telling first.
const FORMS: [MeterForm; 6] = [
    MeterForm::whole(20),
    MeterForm::whole(10),
    MeterForm { cells: 10, has_figures: true, has_error: false },
    MeterForm { cells: 5, has_figures: true, has_error: false },
    MeterForm { cells: 5, has_figures: false, has_error: false },
    MeterForm { cells: 0, has_figures: false, has_error: false },
];

/// The figures of the meter, in tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct ContextMeterBar {
    total: u64,
    estimated: u64,
    window: u64,
    trigger: u64,
    usable: u64,
    error_percent: f64,
}

impl ContextMeterBar {
    /// Reads a report.
    pub(crate) fn of(report: &ContextReport) -> Self {
        Self {
            total: report.total,
            estimated: report.basis.new_messages_estimate.min(report.total),
            // A window of 0 tokens must not divide.
            window: report.window.max(1),
            trigger: report.thresholds.first().map_or(report.window, |it| it.tokens),
            usable: report.window.saturating_sub(report.output_reserve),
            error_percent: report.expected_error * 100.0,
        }
    }

    /// Returns a meter that shows every mark.
    #[cfg(test)]
    pub(crate) fn sample() -> Self {
        tests::METER
    }

    /// Returns the bar and the caption, for `cells` cells.
    pub(crate) fn line(&self, cells: usize, style: TextPainter) -> String {
        self.line_in(MeterForm::whole(cells), style)
    }

    /// Returns the most telling line of at most `columns`, with a bar of at most `max_cells` cells.
    pub(crate) fn line_within(&self, columns: usize, max_cells: usize, style: TextPainter) -> String {
        let mut forms = FORMS.into_iter().filter(|form| form.cells <= max_cells);
        // Measured without colours, whose codes take no columns.
        let form = forms.find(|form| width(&self.line_in(*form, TextPainter::default())) <= columns);
        match form {
            Some(form) => self.line_in(form, style),
            None => fit(&self.line_in(FORMS[FORMS.len() - 1], TextPainter::default()), columns),
        }
    }

    fn line_in(&self, form: MeterForm, style: TextPainter) -> String {
        if self.window == 0 {
            return String::new();
        }
        let share = (self.total as f64 * 100.0 / self.window as f64).round();
        let mut line = self.paint(&self.bar(form.cells), style);
        line.push_str(if form.cells > 0 { " " } else { "" });
        line.push_str(&format!("{share:.0} %"));
        if form.has_figures {
            line.push_str(&format!(" {}/{}", short(self.total), short(self.window)));
        }
        if form.has_error {
            line.push_str(&format!(" {}", style.dim(&self.error())));
        }
        line
    }

    fn error(&self) -> String {
        match self.error_percent {
            // After an undo the size is known from an earlier report, but no report is of this view.
            error if error < 0.05 && self.estimated > 0 => "estimated".to_owned(),
            error if error < 0.05 => "exact".to_owned(),
            error => format!("~{} %", percent(error)),
        }
    }

    /// Returns the cell of a bar at which a number of tokens ends.
    fn cell(&self, tokens: u64, cells: usize) -> usize {
        ((tokens as f64 / self.window as f64) * cells as f64).round() as usize
    }

    fn bar(&self, cells: usize) -> String {
        let reported = self.cell(self.total - self.estimated, cells);
        // The least use fills one cell, so that it can be seen.
        let filled = self.cell(self.total, cells).max(usize::from(self.total > 0));
        // The line of the reserve stays inside the bar, even if nothing is reserved.
        let reserve = self.cell(self.usable, cells).min(cells.saturating_sub(1));
        // A trigger behind the reserve is drawn at the reserve, where the room for a request ends.
        let trigger = self.cell(self.trigger, cells).min(reserve);
        (0..cells)
            .map(|at: usize| match at {
                at if at == reserve => '│',
                at if at == trigger => '┊',
                at if at < reported => '▓',
                at if at < filled => '▒',
                _ => '░',
            })
            .collect()
    }

    fn paint(&self, bar: &str, style: TextPainter) -> String {
        // Amber from nine tenths of the trigger on, so that a person sees a compaction coming.
        if self.total * 10 >= self.trigger * 9 { style.amber(bar) } else { style.accent(bar) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) const METER: ContextMeterBar = ContextMeterBar {
        total: 52_100,
        estimated: 20_000,
        window: 200_000,
        trigger: 160_000,
        usable: 190_000,
        error_percent: 0.6,
    };

    #[test]
    fn the_bar_has_every_mark_in_its_place() {
        assert_eq!(METER.line(10, TextPainter::default()), "▓▓▒░░░░░┊│ 26 % 52.1K/200K ~0.6 %");
        assert_eq!(METER.line(20, TextPainter::default()), "▓▓▓▒▒░░░░░░░░░░░┊░░│ 26 % 52.1K/200K ~0.6 %");
    }

    /// Returns the line of a meter with so many estimated tokens and without an error.
    fn line_of_estimate(estimated: u64) -> String {
        let meter = ContextMeterBar { estimated, error_percent: 0.0, ..METER };
        meter.line(10, TextPainter::default())
    }

    /// Returns the line of the meter for a terminal's width.
    fn line_within(columns: usize) -> String {
        METER.line_within(columns, 10, TextPainter::default())
    }

    #[test]
    fn only_a_reported_total_is_called_exact() {
        assert_eq!(line_of_estimate(0), "▓▓▓░░░░░┊│ 26 % 52.1K/200K exact");
        assert_eq!(line_of_estimate(52_100), "▒▒▒░░░░░┊│ 26 % 52.1K/200K estimated", "as after an undo");
    }

    #[test]
    fn the_line_leaves_out_what_has_no_room() {
        assert_eq!(line_within(200), METER.line(10, TextPainter::default()));
        assert_eq!(line_within(30), "▓▓▒░░░░░┊│ 26 % 52.1K/200K");
        assert_eq!(line_within(24), "▓░░░│ 26 % 52.1K/200K");
        assert_eq!(line_within(12), "▓░░░│ 26 %");
        assert_eq!(
            (line_within(4).as_str(), line_within(2).as_str(), line_within(0).as_str()),
            ("26 %", "2…", "")
        );
        assert_eq!(ContextMeterBar::default().line_within(20, 10, TextPainter::default()), "");
    }

    #[test]
    fn extremes_are_drawn_too() {
        let empty = ContextMeterBar { total: 0, estimated: 0, ..METER };
        assert!(empty.bar(10).starts_with('░'));
        let little = ContextMeterBar { total: 12, estimated: 12, ..METER };
        assert!(little.bar(10).starts_with('▒'));
        let over = ContextMeterBar { total: 300_000, estimated: 0, ..METER };
        assert_eq!(over.bar(10), "▓▓▓▓▓▓▓▓┊│");
        assert_eq!(ContextMeterBar::default().line(10, TextPainter::default()), "");
    }
}
