//! Cost against needed-later recall: a mark for each policy, the frontier drawn.

use super::{ChartScale, drawing, label, line, path, place, ticks};
use crate::lab::report::figures::percent_in_sentence;
use crate::lab::report::markup::MarkupWriter;
use crate::lab::report::summary::{ComparisonCell, RecordingScope, at_hand, frontier, in_view, quartiles};
use crate::lab::report::{PolicyRole, ReportHeader};

const WIDTH: f64 = 440.0;
const HEIGHT: f64 = 380.0;
const LEFT: f64 = 44.0;
const RIGHT: f64 = 428.0;
const TOP: f64 = 26.0;
const BOTTOM: f64 = 332.0;

/// The approximate width of a label's character.
const LETTER: f64 = 7.2;
/// The height of a label's line.
const LINE: f64 = 13.0;

/// A policy at one price table.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::lab::report) struct ScatterPoint {
    policy: String,
    role: PolicyRole,
    /// The index among the policies, for the choice of a mark.
    index: usize,
    /// Quartiles of the cost as a share of the baseline's.
    cost: [f64; 3],
    /// Quartiles of (a).
    in_view: [f64; 3],
    /// Median of (a) + (b).
    at_hand: f64,
    /// `true` if all requests fit the window in most replays.
    fits: bool,
}

/// Returns the policies over all recordings of a scope.
pub(in crate::lab::report) fn points(
    header: &ReportHeader,
    cells: &[ComparisonCell<'_>],
    prices: &str,
    scope: &RecordingScope,
) -> Vec<ScatterPoint> {
    let held: Vec<&ComparisonCell<'_>> =
        cells.iter().filter(|it| it.any().prices == prices && scope.contains_cell(it)).collect();
    let point = |(index, policy): (usize, &crate::lab::report::PolicyFacts)| {
        let rows: Vec<_> = held.iter().filter_map(|cell| Some((cell, cell.of(&policy.name)?))).collect();
        Some(ScatterPoint {
            policy: policy.name.clone(),
            role: policy.role,
            index,
            cost: quartiles(rows.iter().filter_map(|(cell, it)| cell.cost_of_baseline(it)).collect())?,
            in_view: quartiles(rows.iter().filter_map(|(_, it)| in_view(&it.needs)).collect())?,
            // A median of 0 means that at least half of the replays had no request too large.
            fits: quartiles(rows.iter().map(|(_, it)| it.overflows as f64).collect())?[1] == 0.0,
            at_hand: quartiles(rows.iter().filter_map(|(_, it)| at_hand(&it.needs)).collect())?[1],
        })
    };
    header.policies.iter().enumerate().filter_map(point).collect()
}

/// The common extent of the charts of all price tables: the largest cost and the least recall.
#[derive(Clone, Copy, Debug)]
pub(in crate::lab::report) struct ScatterExtent {
    cost: f64,
    in_view: f64,
}

impl ScatterExtent {
    pub(in crate::lab::report) fn of<'a>(points: impl Iterator<Item = &'a ScatterPoint>) -> Self {
        points.fold(Self { cost: 1.0, in_view: 1.0 }, |so_far, point| Self {
            cost: so_far.cost.max(point.cost[2]),
            in_view: so_far.in_view.min(point.in_view[0]),
        })
    }
}

/// Draws one chart. `id` is unique on the page.
pub(in crate::lab::report) fn draw(
    out: &mut MarkupWriter,
    points: &[ScatterPoint],
    extent: ScatterExtent,
    prices: &str,
    id: &str,
) {
    let axes = ScatterAxes::of(extent);
    let medians: Vec<(f64, f64)> = points.iter().map(|it| (it.cost[1], it.in_view[1])).collect();
    let best = fitting_frontier(points);
    let names: Vec<&str> = best.iter().map(|it| points[*it].policy.as_str()).collect();
    let description = format!(
        "Each policy's median cost as a share of append-only's against the share of what was needed later that \
         was in view. No other policy is both cheaper and better than: {}.",
        names.join(", ")
    );
    let title = format!("Cost against needed-later recall at {prices} prices");
    drawing(out, (id, "chart scatter"), (WIDTH, HEIGHT), (&title, &description), |svg| {
        axes.draw(svg);
        let frontier: Vec<(f64, f64)> = best.iter().map(|it| medians[*it]).collect();
        path(svg, "frontier", &axes.steps(&frontier));
        for point in points {
            // All spreads come before the marks, so that no line covers a mark.
            axes.spread(svg, point);
        }
        for point in points {
            axes.mark(svg, point);
        }
        labels(svg, &axes, points);
    });
}

/// Returns the indices of the points on the frontier. Points refused by a real server are left out.
fn fitting_frontier(points: &[ScatterPoint]) -> Vec<usize> {
    let fitting: Vec<usize> = (0..points.len()).filter(|it| points[*it].fits).collect();
    let medians: Vec<(f64, f64)> =
        fitting.iter().map(|it| (points[*it].cost[1], points[*it].in_view[1])).collect();
    frontier(&medians).into_iter().map(|it| fitting[it]).collect()
}

struct ScatterAxes {
    x: ChartScale,
    y: ChartScale,
    costs: Vec<f64>,
    shares: Vec<f64>,
}

impl ScatterAxes {
    fn of(extent: ScatterExtent) -> Self {
        let costs = ticks(0.0, extent.cost, 5);
        // The scale needs some height, also if every policy had everything in view.
        let shares: Vec<f64> =
            ticks(extent.in_view.min(0.99), 1.0, 5).into_iter().filter(|it| *it <= 1.0 + 1e-9).collect();
        let ends =
            |ticks: &[f64]| (ticks.first().copied().unwrap_or(0.0), ticks.last().copied().unwrap_or(1.0));
        Self {
            x: ChartScale { domain: ends(&costs), range: (LEFT, RIGHT) },
            y: ChartScale { domain: ends(&shares), range: (BOTTOM, TOP) },
            costs,
            shares,
        }
    }

    fn at(&self, (cost, share): (f64, f64)) -> (f64, f64) {
        (self.x.at(cost), self.y.at(share))
    }

    fn draw(&self, out: &mut MarkupWriter) {
        for share in &self.shares {
            let y = self.y.at(*share);
            line(out, "grid", (LEFT, y), (RIGHT, y));
            label(out, "tick end", (LEFT - 6.0, y + 4.0), &tick(*share));
        }
        for cost in &self.costs {
            let x = self.x.at(*cost);
            line(out, "grid", (x, TOP), (x, BOTTOM));
            label(out, "tick middle", (x, BOTTOM + 18.0), &tick(*cost));
        }
        label(out, "axis", (0.0, 12.0), "needed later and in view, % ↑ better");
        label(out, "axis end", (RIGHT, HEIGHT - 8.0), "cost, % of append-only · ← better");
    }

    /// Returns the steps of the frontier: along it one pays more before one gains.
    fn steps(&self, frontier: &[(f64, f64)]) -> Vec<(f64, f64)> {
        let mut course = Vec::new();
        let mut before: Option<(f64, f64)> = None;
        for point in frontier {
            if let Some((_, share)) = before {
                course.push(self.at((point.0, share)));
            }
            course.push(self.at(*point));
            before = Some(*point);
        }
        // The last step goes on to the chart's edge, because paying still more gains nothing.
        course.extend(before.map(|(_, share)| self.at((self.x.domain.1, share))));
        course
    }

    /// Appends the lines for the middle half of the sessions.
    fn spread(&self, out: &mut MarkupWriter, point: &ScatterPoint) {
        let class = format!("spread {}", point.role.as_str());
        let (x, y) = self.at((point.cost[1], point.in_view[1]));
        line(out, &class, (self.x.at(point.cost[0]), y), (self.x.at(point.cost[2]), y));
        line(out, &class, (x, self.y.at(point.in_view[0])), (x, self.y.at(point.in_view[2])));
    }

    fn mark(&self, out: &mut MarkupWriter, point: &ScatterPoint) {
        let (x, y) = self.at((point.cost[1], point.in_view[1]));
        // Shares are quotients, so equal ones may differ in their last bits.
        if point.at_hand - point.in_view[1] > 1e-9 {
            let top = self.y.at(point.at_hand);
            let class = format!("recall {}", point.role.as_str());
            line(out, &class, (x, y), (x, top));
            shape(out, "mark hollow", point, (x, top), 4.0);
        }
        shape(out, "mark", point, (x, y), if point.role == PolicyRole::Subject { 6.5 } else { 5.0 });
    }
}

fn tick(share: f64) -> String {
    let text = format!("{:.1}", share * 100.0);
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

/// The corners of the marks, on a circle of radius 1. The first mark is a circle and has no corners.
const SHAPES: [&[(f64, f64)]; 8] = [
    &[],
    &[(-0.85, -0.85), (0.85, -0.85), (0.85, 0.85), (-0.85, 0.85)],
    &[(0.0, -1.1), (1.0, 0.8), (-1.0, 0.8)],
    &[(0.0, -1.25), (1.25, 0.0), (0.0, 1.25), (-1.25, 0.0)],
    &[(0.0, 1.1), (1.0, -0.8), (-1.0, -0.8)],
    &[
        (-0.35, -1.1),
        (0.35, -1.1),
        (0.35, -0.35),
        (1.1, -0.35),
        (1.1, 0.35),
        (0.35, 0.35),
        (0.35, 1.1),
        (-0.35, 1.1),
        (-0.35, 0.35),
        (-1.1, 0.35),
        (-1.1, -0.35),
        (-0.35, -0.35),
    ],
    &[(0.0, -1.15), (1.1, -0.35), (0.68, 0.95), (-0.68, 0.95), (-1.1, -0.35)],
    &[(-1.0, -1.0), (1.0, -1.0), (-1.0, 1.0), (1.0, 1.0)],
];

fn shape(out: &mut MarkupWriter, class: &str, point: &ScatterPoint, (x, y): (f64, f64), radius: f64) {
    let class = format!("{class} {}", point.role.as_str());
    let corners = match point.role {
        // The circle belongs to the policy under test alone.
        PolicyRole::Subject => SHAPES[0],
        // With more policies than shapes the shapes repeat; the labels still tell them apart.
        _ => SHAPES[1 + point.index % (SHAPES.len() - 1)],
    };
    if corners.is_empty() {
        let [x, y, radius] = [x, y, radius].map(place);
        out.void("circle", &[("class", &class), ("cx", &x), ("cy", &y), ("r", &radius)]);
        return;
    }
    let corners: Vec<String> = corners
        .iter()
        .map(|(dx, dy)| format!("{},{}", place(x + dx * radius), place(y + dy * radius)))
        .collect();
    out.void("polygon", &[("class", &class), ("points", &corners.join(" "))]);
}

/// Appends names beside the marks, without covering a mark or each other.
fn labels(out: &mut MarkupWriter, axes: &ScatterAxes, points: &[ScatterPoint]) {
    let mut taken: Vec<ChartRect> = Vec::new();
    for point in points {
        let (x, y) = axes.at((point.cost[1], point.in_view[1]));
        taken.push(ChartRect::around(x, y, 7.0));
        if point.at_hand > point.in_view[1] {
            taken.push(ChartRect::around(x, axes.y.at(point.at_hand), 5.0));
        }
    }
    // The policy under test is the first to choose a place for its label.
    let mut order: Vec<&ScatterPoint> = points.iter().collect();
    order.sort_by_key(|it| it.role != PolicyRole::Subject);
    for point in order {
        let mark = axes.at((point.cost[1], point.in_view[1]));
        let text = match point.role {
            PolicyRole::Subject => format!("{} {}", point.policy, percent_in_sentence(point.cost[1])),
            _ if !point.fits => format!("{}*", point.policy),
            _ => point.policy.clone(),
        };
        let area = free_place(mark, text.chars().count() as f64 * LETTER, &taken);
        let (middle_x, middle_y) = ((area.left + area.right) / 2.0, (area.top + area.bottom) / 2.0);
        if (middle_y - mark.1).abs() > 1.6 * LINE {
            let near_x = mark.0.clamp(area.left, area.right);
            let near_y = if middle_y < mark.1 { area.bottom } else { area.top };
            line(out, "leader", mark, (near_x, near_y));
        }
        let class = format!("name middle {}", point.role.as_str());
        label(out, &class, (middle_x, area.bottom - 3.0), &text);
        taken.push(area);
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct ChartRect {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

impl ChartRect {
    fn around(x: f64, y: f64, reach: f64) -> Self {
        Self { left: x - reach, right: x + reach, top: y - reach, bottom: y + reach }
    }

    fn meets(&self, other: &Self) -> bool {
        self.left < other.right
            && other.left < self.right
            && self.top < other.bottom
            && other.top < self.bottom
    }

    fn is_inside(&self) -> bool {
        self.left >= LEFT && self.right <= RIGHT && self.top >= TOP && self.bottom <= BOTTOM
    }
}

/// Returns the nearest free place for a label of a width: beside the mark, else in lines above and below it.
fn free_place((x, y): (f64, f64), width: f64, taken: &[ChartRect]) -> ChartRect {
    let at = |left: f64, top: f64| ChartRect { left, right: left + width, top, bottom: top + LINE };
    let rows = (0..24).flat_map(|row| {
        // Rows alternate below and above the mark, so that the nearest free one is found first.
        let off = row as f64 * LINE;
        [off, -off]
    });
    let places = rows.flat_map(|off| {
        let top = y - LINE / 2.0 + off;
        [at(x + 11.0, top), at(x - 11.0 - width, top), at(x - width / 2.0, top)]
    });
    let mut inside = places.filter(ChartRect::is_inside);
    // A crowded chart may have no free place: then the label stands beside its mark and covers another.
    let free = inside.find(|area| !taken.iter().any(|it| it.meets(area)));
    let beside = at((x + 11.0).min(RIGHT - width).max(LEFT), y - LINE / 2.0);
    free.unwrap_or(beside)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_never_cover_each_other_while_there_is_room() {
        let mut taken = vec![ChartRect::around(200.0, 100.0, 7.0)];
        for _ in 0..12 {
            let area = free_place((200.0, 100.0), 80.0, &taken);
            assert!(area.is_inside() && !taken.iter().any(|it| it.meets(&area)), "{area:?}");
            taken.push(area);
        }
    }

    #[test]
    fn what_a_server_would_refuse_is_not_on_the_frontier() {
        let points = [point("a", 0.1, 1.0, false), point("b", 0.5, 0.9, true), point("c", 0.4, 0.8, true)];
        assert_eq!(fitting_frontier(&points), [2, 1]);
        let mut out = MarkupWriter::default();
        draw(&mut out, &points, ScatterExtent::of(points.iter()), "any", "s");
        let drawn = out.into_string();
        assert!(drawn.contains(">a*</text>") && drawn.contains(">b</text>"), "{drawn}");
    }

    fn point(policy: &str, cost: f64, in_view: f64, fits: bool) -> ScatterPoint {
        ScatterPoint {
            policy: policy.to_owned(),
            role: PolicyRole::Peer,
            index: 0,
            cost: [cost; 3],
            in_view: [in_view; 3],
            at_hand: in_view,
            fits,
        }
    }

    #[test]
    fn the_frontier_is_a_stair_to_the_right_end() {
        let axes = ScatterAxes::of(ScatterExtent { cost: 1.0, in_view: 0.9 });
        let course = axes.steps(&[(0.5, 0.9), (1.0, 1.0)]);
        assert_eq!(course.len(), 4);
        assert_eq!(course[0].1, course[1].1, "first along, then up");
        assert_eq!(course[1].0, course[2].0);
    }
}
