//! The report as text: a row for each session, window and policy, then medians, then what follows.

use super::figures::{
    NONE, cost, count, counted, or_none, percent, percent_in_sentence, seconds, tokens, visible,
};
use super::summary::{
    ComparisonCell, OutcomeMedians, PolicySummary, RecordingScope, WindowChoice, figures_of,
};
use super::verdict::{GoalResult, PolicyGoal, basis};
use super::{NOT_COUNTERFACTUAL, ReplayReport};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// The columns behind the name: the two lines of the head, and the width with the gap before the column.
const COLUMNS: [(&str, &str, usize); 9] = [
    ("", "cost", 10),
    ("append-", "only %", 8),
    ("needed", "in view %", 10),
    ("recall", "+%", 7),
    ("lost", "%", 6),
    ("prefix", "hits %", 7),
    ("compac-", "tions", 8),
    ("peak", "tokens", 8),
    ("waiting", "s", 8),
];

/// The minimum columns of the report.
const NARROWEST: usize = 80;

/// The maximum number of named comparisons. The others are counted.
const SHOWN_EXCEPTIONS: usize = 12;

pub(super) fn text(report: &ReplayReport, columns: usize) -> String {
    let mut out = ReportTextWriter::new(columns);
    let cells = report.cells();
    let mut place = None;
    for cell in &cells {
        let any = cell.any();
        let here = (any.prices.as_str(), any.group.as_str(), any.synthetic);
        // The cells are sorted, so a new place means a new heading.
        if place != Some(here) {
            place = Some(here);
            let synthetic = if any.synthetic { " · SYNTHETIC" } else { "" };
            out.heading(&format!("{}{synthetic} · prices {}", any.group, any.prices));
        }
        out.cell(cell);
    }
    medians(report, &mut out);
    conclusion(report, &mut out);
    out.text
}

fn medians(report: &ReplayReport, out: &mut ReportTextWriter) {
    let mut place = None;
    for summary in report.summaries.iter().filter(|it| it.window.is_none()) {
        let here = (&summary.prices, &summary.scope);
        if place != Some(here) {
            place = Some(here);
            let sessions = counted(summary.recordings, "session");
            let scope = scope(&summary.scope);
            out.heading(&format!("Medians · {scope} · {sessions} · prices {}", summary.prices));
        }
        out.medians(summary);
    }
}

fn scope(scope: &RecordingScope) -> String {
    match (&scope.group, scope.synthetic) {
        (None, false) => "all recorded sessions".to_owned(),
        (None, true) => "all SYNTHETIC sessions".to_owned(),
        (Some(group), false) => group.clone(),
        (Some(group), true) => format!("{group} (SYNTHETIC)"),
    }
}

/// The explanation of the columns.
const LEGEND: &str = "cost: US dollars. append-only %: the cost in percent of never leaving anything out. The next three columns \
    divide the identifiers, paths, numbers and error lines that the agent took from earlier messages. needed in view: still in \
    the view when the agent used them. recall: not in view, but found by one search of the session. lost: not found by one \
    search. The session still has them, and `recall` reaches them by their handles. prefix hits: input read from the \
    provider's cache. waiting: for summaries and recalls. with recall: in view or found by one search. rival: a model of another \
    program's policy. best rival: the cheapest whose requests all fit.";

fn conclusion(report: &ReplayReport, out: &mut ReportTextWriter) {
    out.line("");
    if report.outcomes.iter().any(|it| it.overflows > 0) {
        out.paragraph(
            "! some requests left too little of the window for the answer: a server may refuse them, or cut the answer off",
            2,
        );
        out.line("");
    }
    out.paragraph(LEGEND, 0);
    out.line("");
    out.paragraph(&report.headline(), 0);
    out.paragraph(&basis(&report.cells()), 0);
    for verdict in &report.verdicts {
        out.line("");
        out.paragraph(&verdict.sentence, 0);
        for it in verdict.exceptions.iter().take(SHOWN_EXCEPTIONS) {
            let window = window(it.window, it.window_percent);
            let (recording, rival) = (named(&it.recording), named(&it.peer));
            out.paragraph(&format!("- {recording}, {window}, {rival}: {}", it.why), 2);
        }
        let more = verdict.exceptions.len().saturating_sub(SHOWN_EXCEPTIONS);
        if more > 0 {
            out.line(&format!("  - {more} more: --json and --html name them all"));
        }
    }
    goals(report, out);
    out.line("");
    out.paragraph(NOT_COUNTERFACTUAL, 0);
    for assumption in &report.header.assumptions {
        out.paragraph(&format!("- {assumption}"), 2);
    }
}

/// Appends a row for each price table and kind or group of sessions, and a column for each goal.
fn goals(report: &ReplayReport, out: &mut ReportTextWriter) {
    if report.goals.is_empty() {
        return;
    }
    out.line("");
    let width = if out.columns < 100 { 15 } else { 18 };
    let room = out.columns - width * PolicyGoal::ALL.len();
    let mut row = |name: &str, figures: &[String]| {
        let figures: String = figures.iter().map(|it| pad(it, width)).collect();
        out.line(&format!("{}{figures}", pad(&visible(name), room)));
    };
    row("Goals", &PolicyGoal::ALL.map(|it| it.head().to_owned()));
    row("", &PolicyGoal::ALL.map(PolicyGoal::format_limit));
    for results in report.goals.chunks(PolicyGoal::ALL.len()) {
        let synthetic = if results[0].scope.synthetic { ", SYNTHETIC" } else { "" };
        let group = results[0].scope.group.as_ref().map_or(String::new(), |it| format!(", {it}"));
        let states: Vec<String> = results.iter().map(state).collect();
        row(&format!("  {}{group}{synthetic}", results[0].prices), &states);
    }
}

fn state(goal: &GoalResult) -> String {
    let measured = or_none(goal.measured, percent_in_sentence);
    match goal.met {
        Some(true) => format!("{measured} met"),
        Some(false) => format!("{measured} NOT MET"),
        None => measured,
    }
}

pub(super) fn window(window: u64, percent: Option<u32>) -> String {
    let of_peak = percent.map_or_else(String::new, |it| format!(" ({it} % of the peak)"));
    format!("window {}{of_peak}", tokens(window))
}

/// Text built line by line.
struct ReportTextWriter {
    text: String,
    columns: usize,
    session: Option<(String, String, String)>,
}

impl ReportTextWriter {
    fn new(columns: usize) -> Self {
        Self { text: String::new(), columns: columns.max(NARROWEST), session: None }
    }

    fn line(&mut self, line: &str) {
        // The no-break spaces were only for the wrapping; a terminal and `grep` expect plain ones.
        self.text.push_str(&line.trim_end().replace('\u{a0}', " "));
        self.text.push('\n');
    }

    /// Appends a heading and the heads of the columns.
    fn heading(&mut self, title: &str) {
        if !self.text.is_empty() {
            self.line("");
        }
        self.session = None;
        let title = fit(&visible(title), self.columns);
        self.line(&title);
        self.row("", COLUMNS.map(|(above, _, _)| above.to_owned()));
        self.row("", COLUMNS.map(|(_, below, _)| below.to_owned()));
    }

    fn cell(&mut self, cell: &ComparisonCell<'_>) {
        let any = cell.any();
        let session = (any.prices.clone(), any.group.clone(), any.recording.clone());
        if self.session.as_ref() != Some(&session) {
            let name = fit(&visible(&any.recording), self.columns);
            self.line(&name);
            self.session = Some(session);
        }
        self.line(&format!("  {}", window(any.window, any.window_percent)));
        for outcome in cell.outcomes() {
            self.row(
                &format!("    {}", visible(&outcome.policy)),
                figure_columns(&figures_of(cell, outcome)),
            );
        }
    }

    fn medians(&mut self, summary: &PolicySummary) {
        self.row(&format!("    {}", visible(&summary.policy)), figure_columns(&summary.medians));
    }

    fn row(&mut self, name: &str, figures: [String; COLUMNS.len()]) {
        let taken: usize = COLUMNS.iter().map(|(_, _, width)| width).sum();
        // Where the terminal is too narrow for all columns the last ones go.
        let (mut room, mut shown) = (self.columns.saturating_sub(taken), COLUMNS.len());
        while room < 22 && shown > 0 {
            shown -= 1;
            room += COLUMNS[shown].2;
        }
        let mut line = pad(name, room);
        for (figure, (_, _, width)) in figures.iter().zip(COLUMNS).take(shown) {
            // The width on the screen counts, because names may have wide characters.
            line.push_str(&" ".repeat(width.saturating_sub(figure.width())));
            line.push_str(figure);
        }
        self.line(&line);
    }

    /// Appends text in lines of the width, all but the first indented.
    fn paragraph(&mut self, text: &str, indent: usize) {
        // A figure and its sign stay together.
        let (text, mut line) = (visible(text).replace(" %", "\u{a0}%"), String::new());
        for word in text.split(' ') {
            if line.trim().is_empty() || line.width() + 1 + word.width() <= self.columns {
                if !line.is_empty() {
                    line.push(' ');
                }
            } else {
                self.line(&line);
                line = " ".repeat(indent);
            }
            line.push_str(word);
        }
        self.line(&line);
    }
}

/// Returns the columns behind the name.
fn figure_columns(figures: &OutcomeMedians) -> [String; COLUMNS.len()] {
    let too_large = if figures.overflows.is_some_and(|it| it > 0.0) { "!" } else { "" };
    [
        or_none(figures.cost, cost),
        or_none(figures.cost_of_baseline, percent),
        or_none(figures.in_view, percent),
        recalled(figures.recalled),
        or_none(figures.lost, percent),
        or_none(figures.prefix_hit_ratio, percent),
        or_none(figures.compactions, count),
        format!("{}{too_large}", or_none(figures.peak_tokens, |it| tokens(it as u64))),
        or_none(figures.waiting_ms, seconds),
    ]
}

pub(super) fn recalled(share: Option<f64>) -> String {
    share.map_or_else(|| NONE.to_owned(), |it| format!("+{}", percent(it)))
}

/// Returns the form of a name in a sentence.
fn named(name: &str) -> String {
    fit(&visible(name), 40)
}

/// Returns a text of at most `columns` columns. The end of a longer one is `…`.
fn fit(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return text.to_owned();
    }
    // One column is for the ellipsis.
    let mut used = 1;
    let mut shown: String = text
        .chars()
        .take_while(|c| {
            used += c.width().unwrap_or(0);
            used <= columns
        })
        .collect();
    shown.push('…');
    shown
}

fn pad(text: &str, columns: usize) -> String {
    let mut shown = fit(text, columns);
    shown.push_str(&" ".repeat(columns.saturating_sub(shown.width())));
    shown
}

/// Returns the name of a window in tables.
pub(super) fn window_name(window: Option<WindowChoice>) -> String {
    match window {
        None => "all".to_owned(),
        Some(WindowChoice::PercentOfPeak(percent)) => format!("{percent} %"),
        Some(WindowChoice::Tokens(number)) => tokens(number),
    }
}

#[cfg(test)]
mod tests;
