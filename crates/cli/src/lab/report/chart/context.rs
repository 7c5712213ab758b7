//! The size of the request at each call, one small chart for each policy, all on the same axes.

use super::{ChartScale, drawing, label, line, path, place, ticks};
use crate::lab::outcome::ReplayOutcome;
use crate::lab::report::figures::{counted, percent_in_sentence, tokens};
use crate::lab::report::markup::MarkupWriter;
use crate::lab::report::summary::ComparisonCell;
use crate::lab::report::{PolicyRole, ReportHeader};

const WIDTH: f64 = 300.0;
const HEIGHT: f64 = 184.0;
const LEFT: f64 = 44.0;
const RIGHT: f64 = 290.0;
const TOP: f64 = 26.0;
const BOTTOM: f64 = 148.0;

/// The maximum number of points of a line. More cannot be seen at this width.
const MAX_POINTS: usize = 600;

/// The maximum number of marks of edits. More would hide the line.
const MAX_MARKS: usize = 60;

/// Draws a chart for each policy of a cell. `id` is unique on the page.
pub(in crate::lab::report) fn draw(
    out: &mut MarkupWriter,
    header: &ReportHeader,
    cell: &ComparisonCell<'_>,
    id: &str,
) {
    let axes = ContextChartAxes::of(cell);
    out.element("div", &[("class", "panels")], |out| {
        for (index, outcome) in cell.outcomes().iter().enumerate() {
            out.element("figure", &[("class", "panel")], |out| {
                out.element("figcaption", &[], |out| caption(out, header, cell, outcome));
                let shadow = cell.baseline().filter(|it| it.policy != outcome.policy);
                let id = format!("{id}-{index}");
                panel(out, header.role(&outcome.policy), &axes, outcome, shadow, &id);
            });
        }
    });
}

fn caption(
    out: &mut MarkupWriter,
    header: &ReportHeader,
    cell: &ComparisonCell<'_>,
    outcome: &ReplayOutcome,
) {
    let role = header.role(&outcome.policy);
    out.leaf("b", &[], &outcome.policy);
    let share = cell.cost_of_baseline(outcome).filter(|_| role != PolicyRole::Baseline);
    let share = share.map_or_else(String::new, |it| format!("{} of append-only · ", percent_in_sentence(it)));
    let shortened = counted(outcome.edits.len(), "edit");
    out.leaf("span", &[], &format!("{share}{shortened}"));
}

/// The axes of all charts of a cell.
struct ContextChartAxes {
    x: ChartScale,
    y: ChartScale,
    calls: Vec<f64>,
    sizes: Vec<f64>,
    window: f64,
}

impl ContextChartAxes {
    fn of(cell: &ComparisonCell<'_>) -> Self {
        let window = cell.any().window as f64;
        let longest = cell.outcomes().iter().map(|it| it.context.len()).max().unwrap_or(0);
        let highest = cell.outcomes().iter().flat_map(|it| it.context.iter().copied()).max().unwrap_or(0);
        let sizes = ticks(0.0, window.max(highest as f64).max(1.0), 4);
        let top = sizes.last().copied().unwrap_or(1.0);
        let mut calls = ticks(0.0, longest.max(2) as f64, 4);
        // The round step beyond the longest course would be drawn outside of the chart.
        calls.retain(|it| *it <= longest.max(2) as f64);
        Self {
            x: ChartScale { domain: (1.0, longest.max(2) as f64), range: (LEFT, RIGHT) },
            // In SVG y grows downwards, so zero is at the bottom coordinate.
            y: ChartScale { domain: (0.0, top), range: (BOTTOM, TOP) },
            calls,
            sizes,
            window,
        }
    }

    fn point(&self, (index, size): (usize, u64)) -> (f64, f64) {
        (self.x.at((index + 1) as f64), self.y.at(size as f64))
    }

    fn draw(&self, out: &mut MarkupWriter) {
        for size in &self.sizes {
            let y = self.y.at(*size);
            line(out, "grid", (LEFT, y), (RIGHT, y));
            label(out, "tick end", (LEFT - 6.0, y + 4.0), &whole_tokens(*size));
        }
        for call in &self.calls {
            // Calls are counted from 1, but the first round step is 0.
            let x = self.x.at(call.max(1.0));
            line(out, "grid", (x, BOTTOM), (x, BOTTOM + 4.0));
            label(out, "tick middle", (x, BOTTOM + 17.0), &place(call.max(1.0)));
        }
        label(out, "axis end", (RIGHT, HEIGHT - 4.0), "model call");
        label(out, "axis", (0.0, 11.0), "tokens sent");
        let y = self.y.at(self.window);
        line(out, "window", (LEFT, y), (RIGHT, y));
        label(out, "window-name end", (RIGHT, y - 4.0), &format!("window {}", tokens(self.window as u64)));
    }
}

/// Formats a tick, such as `50K`. Ticks are round, so the decimal is left out.
fn whole_tokens(number: f64) -> String {
    let text = tokens(number as u64);
    text.replace(".0", "")
}

fn panel(
    out: &mut MarkupWriter,
    role: PolicyRole,
    axes: &ContextChartAxes,
    outcome: &ReplayOutcome,
    shadow: Option<&ReplayOutcome>,
    id: &str,
) {
    let description = format!(
        "{} at {}, the largest request {} tokens, the window {} tokens, shortened {}.",
        counted(outcome.context.len(), "model call"),
        outcome.prices,
        tokens(outcome.peak_tokens),
        tokens(outcome.window),
        counted(outcome.edits.len(), "time"),
    );
    let title = format!("Context size per call under {}", outcome.policy);
    drawing(out, (id, "chart"), (WIDTH, HEIGHT), (&title, &description), |svg| {
        axes.draw(svg);
        // The shadow is drawn first, so that it lies behind the policy's line.
        if let Some(shadow) = shadow {
            path(svg, "shadow", &course(axes, &shadow.context));
        }
        let class = format!("course {}", role.as_str());
        path(svg, &class, &course(axes, &outcome.context));
        // All marks or none: a part of them would look like all edits.
        for index in outcome.edits.iter().filter(|_| outcome.edits.len() <= MAX_MARKS) {
            let Some(size) = outcome.context.get(*index) else { continue };
            let (x, y) = axes.point((*index, *size));
            let class = format!("edit {}", role.as_str());
            path(svg, &class, &[(x - 3.5, y + 8.0), (x, y + 2.0), (x + 3.5, y + 8.0)]);
        }
    });
}

/// Returns the points of the line. If there are many calls, each stretch has its smallest and its largest size.
fn course(axes: &ContextChartAxes, context: &[u64]) -> Vec<(f64, f64)> {
    // Two points are drawn for each stretch.
    let stretch = context.len().div_ceil(MAX_POINTS / 2).max(1);
    // Stretches of one or two calls would lose no points, so the reduction is skipped.
    if stretch < 3 {
        return context.iter().copied().enumerate().map(|it| axes.point(it)).collect();
    }
    let mut points = Vec::new();
    for (number, part) in context.chunks(stretch).enumerate() {
        // Both extremes of a stretch are kept: a mere sample could miss a peak that overflows the window.
        let mut ends: Vec<(usize, u64)> = part.iter().copied().enumerate().collect();
        ends.sort_by_key(|it| it.1);
        let mut kept = vec![ends[0], ends[ends.len() - 1]];
        // Sorted by the call's number again, or the line would run backwards.
        kept.sort();
        points.extend(kept.into_iter().map(|(index, size)| axes.point((number * stretch + index, size))));
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_courses_keep_their_peaks_and_stay_short() {
        let axes = ContextChartAxes {
            x: ChartScale { domain: (1.0, 10_000.0), range: (0.0, 100.0) },
            y: ChartScale { domain: (0.0, 100.0), range: (0.0, 100.0) },
            calls: Vec::new(),
            sizes: Vec::new(),
            window: 0.0,
        };
        let mut context = vec![10; 10_000];
        context[5_003] = 99;
        let points = course(&axes, &context);
        assert!(points.len() <= MAX_POINTS && points.iter().any(|it| it.1 == 99.0));
        assert_eq!(course(&axes, &context[..500]).len(), 500);
    }

    #[test]
    fn ticks_are_named_in_thousands() {
        assert_eq!([0.0, 50_000.0, 2_500.0].map(whole_tokens), ["0", "50K", "2.5K"]);
    }
}
