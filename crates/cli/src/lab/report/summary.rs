//! Outcomes side by side: a policy's costs against the baseline, which peer is best, medians, the frontier.
//! Only functions of the outcomes.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use longhaul_core::retention_report::RetentionTally;
use serde::Serialize;

use super::{PolicyRole, ReportHeader};
use crate::lab::outcome::{NeedCounts, ReplayOutcome};

/// The way of choosing a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum WindowChoice {
    /// A share of the recording's peak, in percent.
    PercentOfPeak(u32),
    /// A number of tokens.
    Tokens(u64),
}

impl WindowChoice {
    /// Returns the window of an outcome.
    pub(crate) fn of(outcome: &ReplayOutcome) -> Self {
        outcome.window_percent.map_or(Self::Tokens(outcome.window), Self::PercentOfPeak)
    }
}

/// The outcomes of one recording in one window at one price table: the comparable outcomes.
#[derive(Clone, Debug)]
pub(crate) struct ComparisonCell<'a> {
    /// The outcomes, one for each policy in the order of the header; never empty.
    outcomes: Vec<&'a ReplayOutcome>,
    baseline: Option<&'a ReplayOutcome>,
    subject: Option<&'a ReplayOutcome>,
    peers: Vec<&'a ReplayOutcome>,
}

impl<'a> ComparisonCell<'a> {
    fn new(header: &ReportHeader, mut outcomes: Vec<&'a ReplayOutcome>) -> Self {
        let place =
            |outcome: &&ReplayOutcome| header.policies.iter().position(|it| it.name == outcome.policy);
        // All cells list the policies in the same order, or the charts could not be compared.
        outcomes.sort_by_key(place);
        let with_role = |role| outcomes.iter().copied().filter(move |it| header.role(&it.policy) == role);
        let (baseline, subject) =
            (with_role(PolicyRole::Baseline).next(), with_role(PolicyRole::Subject).next());
        let peers = with_role(PolicyRole::Peer).collect();
        Self { outcomes, baseline, subject, peers }
    }

    /// Returns one outcome, with the properties common to all.
    pub(crate) fn any(&self) -> &'a ReplayOutcome {
        self.outcomes[0]
    }

    /// Returns all outcomes, in the order of the header's policies.
    pub(crate) fn outcomes(&self) -> &[&'a ReplayOutcome] {
        &self.outcomes
    }

    /// Returns the outcome of a policy.
    pub(crate) fn of(&self, policy: &str) -> Option<&'a ReplayOutcome> {
        self.outcomes.iter().copied().find(|it| it.policy == policy)
    }

    /// Returns the outcome of the policy under test.
    pub(crate) fn subject(&self) -> Option<&'a ReplayOutcome> {
        self.subject
    }

    /// Returns the outcome of the policy without removals.
    pub(crate) fn baseline(&self) -> Option<&'a ReplayOutcome> {
        self.baseline
    }

    /// Returns the outcomes of the peers.
    pub(crate) fn peers(&self) -> &[&'a ReplayOutcome] {
        &self.peers
    }

    /// Returns the cheapest peer whose requests all fit the window: the others would have been refused. At
    /// equal cost the peer with more in view wins.
    pub(crate) fn best_peer(&self) -> Option<&'a ReplayOutcome> {
        self.peers
            .iter()
            .filter(|outcome| outcome.overflows == 0)
            .copied()
            .min_by(|a, b| a.cost.total_cmp(&b.cost).then_with(|| compare_in_view(&b.needs, &a.needs)))
    }

    /// Returns an outcome's cost as a share of the baseline's.
    pub(crate) fn cost_of_baseline(&self, outcome: &ReplayOutcome) -> Option<f64> {
        ratio(outcome.cost, self.baseline?.cost)
    }

    /// Returns the cost of the policy under test as a share of the best peer's.
    pub(crate) fn cost_of_best_peer(&self) -> Option<f64> {
        ratio(self.subject?.cost, self.best_peer()?.cost)
    }
}

/// Returns the cells of the outcomes: price tables in the order of the header, recordings of agents before
/// those made by a program, then groups and recordings as they come, then windows by size.
pub(crate) fn cells<'a>(header: &ReportHeader, outcomes: &'a [ReplayOutcome]) -> Vec<ComparisonCell<'a>> {
    // The order of the fields is the order of the cells.
    type Place<'a> = (usize, bool, usize, usize, u64, WindowChoice);
    let mut groups = Vec::new();
    let mut recordings = Vec::new();
    // The header's tables come first, so that their order is the order of the cells.
    let mut prices: Vec<&str> = header.prices.iter().map(|it| it.name.as_str()).collect();
    let mut gathered: BTreeMap<Place<'a>, Vec<&ReplayOutcome>> = BTreeMap::new();
    for outcome in outcomes {
        let group = outcome.group.as_str();
        let place = (
            index_of(&mut prices, outcome.prices.as_str()),
            outcome.synthetic,
            index_of(&mut groups, group),
            index_of(&mut recordings, (group, outcome.recording.as_str())),
            outcome.window,
            WindowChoice::of(outcome),
        );
        gathered.entry(place).or_default().push(outcome);
    }
    gathered.into_values().map(|outcomes| ComparisonCell::new(header, outcomes)).collect()
}

fn index_of<T: PartialEq>(known: &mut Vec<T>, item: T) -> usize {
    known.iter().position(|it| *it == item).unwrap_or_else(|| {
        known.push(item);
        known.len() - 1
    })
}

/// The scope over which medians are taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RecordingScope {
    /// The group; `null` is all of them.
    pub(crate) group: Option<String>,
    /// Recordings made by a program, or those of agents: never both.
    pub(crate) synthetic: bool,
}

impl RecordingScope {
    /// Returns whether a cell belongs to the scope.
    pub(crate) fn contains_cell(&self, cell: &ComparisonCell<'_>) -> bool {
        let outcome = cell.any();
        outcome.synthetic == self.synthetic && self.group.as_ref().is_none_or(|it| *it == outcome.group)
    }
}

/// The medians of a policy.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PolicySummary {
    /// The price table.
    pub(crate) prices: String,
    /// The recordings over which the medians are taken.
    pub(crate) scope: RecordingScope,
    /// The window; `null` is all of them.
    pub(crate) window: Option<WindowChoice>,
    /// The policy.
    pub(crate) policy: String,
    /// The number of recordings.
    pub(crate) recordings: usize,
    /// The number of recordings times windows.
    pub(crate) cells: usize,
    /// The medians over the cells.
    pub(crate) medians: OutcomeMedians,
    /// Sums over the cells.
    pub(crate) survival: BTreeMap<String, RetentionTally>,
}

/// Medians. Shares are between 0 and 1, `None` where nothing is measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OutcomeMedians {
    /// The median cost, in the unit of the price table.
    pub(crate) cost: Option<f64>,
    /// The median of the costs as shares of the baseline's.
    pub(crate) cost_of_baseline: Option<f64>,
    /// (a) Needed later and in view.
    pub(crate) in_view: Option<f64>,
    /// (b) Needed later, not in view, found by recall.
    pub(crate) recalled: Option<f64>,
    /// (a) + (b).
    pub(crate) at_hand: Option<f64>,
    /// (c) Needed later and not to be had.
    pub(crate) lost: Option<f64>,
    /// Share of input read from the cache.
    pub(crate) prefix_hit_ratio: Option<f64>,
    /// Compactions.
    pub(crate) compactions: Option<f64>,
    /// The largest request, in tokens.
    pub(crate) peak_tokens: Option<f64>,
    /// The agent's wait for side calls, in milliseconds.
    pub(crate) waiting_ms: Option<f64>,
    /// Requests too large for the window.
    pub(crate) overflows: Option<f64>,
}

/// Returns the medians of every policy: for each price table, over each group and over all, in all windows
/// and, where there are several, in each.
pub(crate) fn summaries(header: &ReportHeader, cells: &[ComparisonCell<'_>]) -> Vec<PolicySummary> {
    let mut all = Vec::new();
    for prices in prices(cells) {
        for scope in scopes(cells) {
            let held: Vec<&ComparisonCell<'_>> =
                cells.iter().filter(|it| it.any().prices == prices && scope.contains_cell(it)).collect();
            let windows = windows(&held);
            // A single window would repeat the medians of all windows.
            let each = windows.iter().copied().map(Some).filter(|_| windows.len() > 1);
            for window in std::iter::once(None).chain(each) {
                let held: Vec<&ComparisonCell<'_>> = held
                    .iter()
                    .copied()
                    .filter(|it| window.is_none_or(|w| WindowChoice::of(it.any()) == w))
                    .collect();
                let policies = header.policies.iter();
                all.extend(policies.filter_map(|it| summary(prices, &scope, window, &it.name, &held)));
            }
        }
    }
    all
}

fn summary(
    prices: &str,
    scope: &RecordingScope,
    window: Option<WindowChoice>,
    policy: &str,
    cells: &[&ComparisonCell<'_>],
) -> Option<PolicySummary> {
    let rows: Vec<_> = cells.iter().filter_map(|cell| Some((*cell, cell.of(policy)?))).collect();
    let mut recordings = Vec::new();
    let mut survival: BTreeMap<String, RetentionTally> = BTreeMap::new();
    for (_, outcome) in &rows {
        index_of(&mut recordings, (&outcome.group, &outcome.recording));
        for (class, tally) in &outcome.survival {
            add(survival.entry(class.clone()).or_default(), tally);
        }
    }
    (!rows.is_empty()).then(|| PolicySummary {
        prices: prices.to_owned(),
        scope: scope.clone(),
        window,
        policy: policy.to_owned(),
        recordings: recordings.len(),
        cells: rows.len(),
        medians: medians(&rows),
        survival,
    })
}

/// Returns the figures of one outcome, in the form of medians. Tables show both in the same columns.
pub(crate) fn figures_of(cell: &ComparisonCell<'_>, outcome: &ReplayOutcome) -> OutcomeMedians {
    medians(&[(cell, outcome)])
}

fn medians(rows: &[(&ComparisonCell<'_>, &ReplayOutcome)]) -> OutcomeMedians {
    OutcomeMedians {
        cost: median_of(rows, &|it| Some(it.cost)),
        cost_of_baseline: median(rows.iter().filter_map(|(cell, it)| cell.cost_of_baseline(it)).collect()),
        in_view: median_of(rows, &|it| in_view(&it.needs)),
        recalled: median_of(rows, &|it| share(it.needs.recalled, &it.needs)),
        at_hand: median_of(rows, &|it| at_hand(&it.needs)),
        lost: median_of(rows, &|it| share(it.needs.lost, &it.needs)),
        prefix_hit_ratio: median_of(rows, &|it| Some(it.prefix_hit_ratio)),
        compactions: median_of(rows, &|it| Some(it.compactions as f64)),
        peak_tokens: median_of(rows, &|it| Some(it.peak_tokens as f64)),
        waiting_ms: median_of(rows, &|it| Some(it.waiting_ms as f64)),
        overflows: median_of(rows, &|it| Some(it.overflows as f64)),
    }
}

fn median_of(
    rows: &[(&ComparisonCell<'_>, &ReplayOutcome)],
    figure: &dyn Fn(&ReplayOutcome) -> Option<f64>,
) -> Option<f64> {
    median(rows.iter().filter_map(|(_, outcome)| figure(outcome)).collect())
}

fn add(sum: &mut RetentionTally, tally: &RetentionTally) {
    sum.verbatim += tally.verbatim;
    sum.recoverable_by_model += tally.recoverable_by_model;
    sum.recoverable_by_user += tally.recoverable_by_user;
    sum.lost += tally.lost;
}

/// Returns the price tables of the cells, in their order.
pub(crate) fn prices<'a>(cells: &[ComparisonCell<'a>]) -> Vec<&'a str> {
    distinct(cells.iter().map(|it| it.any().prices.as_str()))
}

/// Returns the windows of the cells, in their order.
pub(crate) fn windows(cells: &[&ComparisonCell<'_>]) -> Vec<WindowChoice> {
    let mut windows = distinct(cells.iter().map(|it| WindowChoice::of(it.any())));
    windows.sort();
    windows
}

/// Returns every group, then all recordings of agents, then all that a program made.
pub(crate) fn scopes(cells: &[ComparisonCell<'_>]) -> Vec<RecordingScope> {
    let of_groups = cells
        .iter()
        .map(|it| RecordingScope { group: Some(it.any().group.clone()), synthetic: it.any().synthetic });
    let mut scopes = distinct(of_groups);
    scopes.extend(whole_scopes(cells));
    scopes
}

/// Returns all recordings of agents, and all that a program made, as far as there are any.
pub(crate) fn whole_scopes(cells: &[ComparisonCell<'_>]) -> Vec<RecordingScope> {
    let both = [false, true].map(|synthetic| RecordingScope { group: None, synthetic });
    both.into_iter().filter(|scope| cells.iter().any(|it| scope.contains_cell(it))).collect()
}

/// Returns the wholes first, then the groups that are not a whole by themselves.
pub(crate) fn wholes_and_groups(cells: &[ComparisonCell<'_>]) -> Vec<RecordingScope> {
    let wholes = whole_scopes(cells);
    let groups = scopes(cells).into_iter().filter(|scope| {
        let whole = RecordingScope { group: None, ..scope.clone() };
        // A group that is everything would only repeat the whole.
        scope.group.is_some() && cells_in(scope, cells) < cells_in(&whole, cells)
    });
    wholes.iter().cloned().chain(groups).collect()
}

fn cells_in(scope: &RecordingScope, cells: &[ComparisonCell<'_>]) -> usize {
    cells.iter().filter(|it| scope.contains_cell(it)).count()
}

fn distinct<T: PartialEq>(items: impl Iterator<Item = T>) -> Vec<T> {
    let mut known = Vec::new();
    for item in items {
        index_of(&mut known, item);
    }
    known
}

/// Returns (a) as a share of all items needed later.
pub(crate) fn in_view(needs: &NeedCounts) -> Option<f64> {
    share(needs.in_view, needs)
}

/// Returns (a) + (b) as a share of all items needed later.
pub(crate) fn at_hand(needs: &NeedCounts) -> Option<f64> {
    share(needs.in_view + needs.recalled, needs)
}

/// Returns a part of the items needed later as a share. Returns `None` if none was needed.
pub(crate) fn share(part: u64, needs: &NeedCounts) -> Option<f64> {
    let total = total(needs);
    (total > 0).then(|| part as f64 / total as f64)
}

/// Compares by the exact part of later-needed items that is in view. If nothing was needed, all of it counts
/// as in view.
pub(crate) fn compare_in_view(one: &NeedCounts, other: &NeedCounts) -> Ordering {
    // Cross-multiplied instead of divided: nearly equal shares must not be ordered by a rounding error.
    let ((a, of_a), (b, of_b)) = (fraction(one), fraction(other));
    (a * of_b).cmp(&(b * of_a))
}

fn fraction(needs: &NeedCounts) -> (u128, u128) {
    match total(needs) {
        0 => (1, 1),
        total => (u128::from(needs.in_view), u128::from(total)),
    }
}

fn total(needs: &NeedCounts) -> u64 {
    needs.in_view + needs.recalled + needs.lost
}

/// Returns one divided by the other, or `None` if the divisor is zero.
pub(crate) fn ratio(one: f64, other: f64) -> Option<f64> {
    (other > 0.0).then(|| one / other)
}

/// Returns the middle value; the mean of the two middle ones if there is no single one.
pub(crate) fn median(values: Vec<f64>) -> Option<f64> {
    quartiles(values).map(|[_, median, _]| median)
}

/// Returns lower quartile, median and upper quartile, interpolated between neighbours.
pub(crate) fn quartiles(mut values: Vec<f64>) -> Option<[f64; 3]> {
    values.sort_by(f64::total_cmp);
    let last = values.len().checked_sub(1)?;
    Some([0.25, 0.5, 0.75].map(|part| {
        let place = part * last as f64;
        let (low, high) = (values[place.floor() as usize], values[place.ceil() as usize]);
        low + (high - low) * place.fract()
    }))
}

/// Returns the points that no other point beats: `(cost, gain)` pairs of which none costs as little and gains
/// more, or gains as much and costs less. The answer has indices, by rising cost.
pub(crate) fn frontier(points: &[(f64, f64)]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..points.len()).collect();
    order.sort_by(|a, b| {
        points[*a].0.total_cmp(&points[*b].0).then_with(|| points[*b].1.total_cmp(&points[*a].1))
    });
    // At equal cost the larger gain comes first, so that the smaller one is not on the frontier.
    let mut best = f64::NEG_INFINITY;
    order.retain(|index| {
        let gains = points[*index].1 > best;
        best = best.max(points[*index].1);
        gains
    });
    order
}

#[cfg(test)]
mod tests;
