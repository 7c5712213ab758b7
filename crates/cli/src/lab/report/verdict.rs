//! The conclusions from the outcomes, in figures and in words: whether the policy under test beats every
//! peer, where not and why, and how far the goals are met.

mod headline;

use std::cmp::Ordering;

use serde::Serialize;

use super::figures::{cost_in_sentence, counted, listed, percent_in_sentence, tokens};
use super::summary::{
    self, ComparisonCell, RecordingScope, WindowChoice, at_hand, compare_in_view, in_view, median, ratio,
};
use super::{PolicyRole, ReportHeader};
use crate::lab::outcome::ReplayOutcome;

pub(crate) use headline::headline;

/// The standing of the policy under test beside a peer, on one recording in one window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum RivalStanding {
    /// The policy costs less and has as much of the later-needed items in view, or more.
    Ahead,
    /// The policy costs the same and has the same in view.
    Same,
    /// The policy is not ahead, but more of the peer's requests are larger than the window.
    PeerDoesNotFit,
    /// The policy costs less and has less in view.
    SeesLess,
    /// The policy has more in view and costs as much or more.
    Dearer,
    /// The policy costs as much or more and has no more in view.
    Behind,
    /// More of the policy's own requests than of the peer's are larger than the window.
    DoesNotFit,
}

impl RivalStanding {
    /// All standings, from good to bad.
    pub(crate) const ALL: [Self; 7] = [
        Self::Ahead,
        Self::Same,
        Self::PeerDoesNotFit,
        Self::SeesLess,
        Self::Dearer,
        Self::Behind,
        Self::DoesNotFit,
    ];

    /// Returns the standing of `ours` beside `theirs`.
    pub(crate) fn of(ours: &ReplayOutcome, theirs: &ReplayOutcome) -> Self {
        let sees = compare_in_view(&ours.needs, &theirs.needs);
        let costs = compare_costs(ours.cost, theirs.cost);
        // The order matters. Own overflows void every win. Overflows of the peer only explain a comparison
        // that is not won.
        match (costs, sees) {
            _ if ours.overflows > theirs.overflows => Self::DoesNotFit,
            (Ordering::Less, Ordering::Equal | Ordering::Greater) => Self::Ahead,
            _ if ours.overflows < theirs.overflows => Self::PeerDoesNotFit,
            (Ordering::Equal, Ordering::Equal) => Self::Same,
            (Ordering::Less, Ordering::Less) => Self::SeesLess,
            (_, Ordering::Greater) => Self::Dearer,
            _ => Self::Behind,
        }
    }

    /// Returns the standing in a few words, as the head of a column.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Ahead => "ahead",
            Self::Same => "the same",
            Self::PeerDoesNotFit => "rival does not fit",
            Self::SeesLess => "cheaper, less in view",
            Self::Dearer => "dearer, more in view",
            Self::Behind => "dearer, no more in view",
            Self::DoesNotFit => "does not fit",
        }
    }
}

/// Compares costs. Sums of the same tokens may differ in their last bits, so nearly equal costs count as equal.
fn compare_costs(one: f64, other: f64) -> Ordering {
    let close = (one - other).abs() <= 1e-9 * one.abs().max(other.abs());
    if close { Ordering::Equal } else { one.total_cmp(&other) }
}

/// The policy under test beside all peers, at one price table.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PolicyVerdict {
    /// The price table.
    pub(crate) prices: String,
    /// The recordings of the comparison.
    pub(crate) scope: RecordingScope,
    /// `true` if the policy is ahead of every peer everywhere.
    pub(crate) beats_all: bool,
    /// Recordings times windows times peers.
    pub(crate) comparisons: usize,
    /// The number of comparisons won by the policy.
    pub(crate) ahead: usize,
    /// The verdict, in words.
    pub(crate) sentence: String,
    /// The scores beside each peer.
    pub(crate) peers: Vec<RivalScore>,
    /// Every comparison not won by the policy, the worst first.
    pub(crate) exceptions: Vec<ComparisonException>,
}

/// The policy under test beside one peer.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RivalScore {
    /// The peer.
    pub(crate) peer: String,
    /// Recordings times windows.
    pub(crate) comparisons: usize,
    /// The number of comparisons with each standing, in the order of [`RivalStanding::ALL`].
    pub(crate) counts: Vec<usize>,
    /// The median of the costs as shares of the peer's.
    pub(crate) cost_of_peer: Option<f64>,
}

/// A comparison not won.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ComparisonException {
    /// The recording's group.
    pub(crate) group: String,
    /// The recording.
    pub(crate) recording: String,
    /// The window, in tokens.
    pub(crate) window: u64,
    /// The window as a share of the recording's peak in percent, if so chosen.
    pub(crate) window_percent: Option<u32>,
    /// The peer.
    pub(crate) peer: String,
    /// The standing beside the peer.
    pub(crate) standing: RivalStanding,
    /// The figures, in words.
    pub(crate) why: String,
}

/// Returns the verdict at each price table, over recordings of agents and over those made by a program. None
/// without the policy under test.
pub(crate) fn verdicts(header: &ReportHeader, cells: &[ComparisonCell<'_>]) -> Vec<PolicyVerdict> {
    let mut all = Vec::new();
    for prices in summary::prices(cells) {
        for scope in summary::whole_scopes(cells) {
            let held: Vec<&ComparisonCell<'_>> = cells
                .iter()
                .filter(|it| it.any().prices == prices && scope.contains_cell(it) && it.subject().is_some())
                .collect();
            all.extend(header.subject().and_then(|subject| verdict(header, subject, prices, scope, &held)));
        }
    }
    all
}

fn verdict(
    header: &ReportHeader,
    subject: &str,
    prices: &str,
    scope: RecordingScope,
    cells: &[&ComparisonCell<'_>],
) -> Option<PolicyVerdict> {
    let mut exceptions = Vec::new();
    for cell in cells {
        let Some(ours) = cell.subject() else { continue };
        let not_won = cell.peers().iter().map(|theirs| (*theirs, RivalStanding::of(ours, theirs)));
        let not_won = not_won.filter(|(_, standing)| *standing != RivalStanding::Ahead);
        exceptions.extend(not_won.map(|(theirs, standing)| exception(ours, theirs, standing)));
    }
    // Standings are ordered from best to worst, so the worst comparison comes first.
    exceptions.sort_by_key(|it| std::cmp::Reverse(it.standing));
    let peers: Vec<RivalScore> =
        header.with_role(PolicyRole::Peer).filter_map(|peer| peer_score(peer, cells)).collect();
    let comparisons: usize = peers.iter().map(|it| it.comparisons).sum();
    let ahead = comparisons - exceptions.len();
    let mut verdict = PolicyVerdict {
        prices: prices.to_owned(),
        scope,
        beats_all: ahead == comparisons,
        comparisons,
        ahead,
        sentence: String::new(),
        peers,
        exceptions,
    };
    verdict.sentence = sentence(subject, &verdict, cells);
    (!cells.is_empty()).then_some(verdict)
}

fn peer_score(peer: &str, cells: &[&ComparisonCell<'_>]) -> Option<RivalScore> {
    let pairs: Vec<(&ReplayOutcome, &ReplayOutcome)> =
        cells.iter().filter_map(|cell| Some((cell.subject()?, cell.of(peer)?))).collect();
    let standings: Vec<RivalStanding> =
        pairs.iter().map(|(ours, theirs)| RivalStanding::of(ours, theirs)).collect();
    (!pairs.is_empty()).then(|| RivalScore {
        peer: peer.to_owned(),
        comparisons: pairs.len(),
        counts: RivalStanding::ALL
            .map(|standing| standings.iter().filter(|it| **it == standing).count())
            .to_vec(),
        cost_of_peer: median(
            pairs.iter().filter_map(|(ours, theirs)| ratio(ours.cost, theirs.cost)).collect(),
        ),
    })
}

fn sentence(subject: &str, verdict: &PolicyVerdict, cells: &[&ComparisonCell<'_>]) -> String {
    let at = format!("At {} prices, over {}", verdict.prices, sessions(cells));
    if verdict.comparisons == 0 {
        return format!("{at}: no modelled rival was replayed, so {subject} is compared with none.");
    }
    let of = format!("{} of {}", verdict.ahead, counted(verdict.comparisons, "comparison"));
    let rivals = counted(verdict.peers.len(), "modelled rival");
    if verdict.beats_all {
        return format!(
            "{at}: {subject} beats every modelled rival. It costs less with as much or more in view, in {of} with {rivals}."
        );
    }
    // The first standing, `Ahead`, is in the sentence already.
    let others = RivalStanding::ALL.iter().enumerate().skip(1).filter_map(|(index, standing)| {
        let count: usize = verdict.peers.iter().map(|it| it.counts[index]).sum();
        (count > 0).then(|| format!(" In {count} {}.", said(*standing)))
    });
    let others: Vec<String> = others.collect();
    format!(
        "{at}: {subject} does not beat every modelled rival. It costs less with as much or more in view in {of} with {rivals}.{}",
        others.concat()
    )
}

/// Returns a standing as the end of a sentence about the policy under test.
fn said(standing: RivalStanding) -> &'static str {
    match standing {
        RivalStanding::Ahead => "it is ahead",
        RivalStanding::Same => "both cost and show the same",
        RivalStanding::PeerDoesNotFit => {
            "it is not ahead, but requests of the rival leave too little of the window for the answer"
        }
        RivalStanding::SeesLess => "it costs less and has less in view",
        RivalStanding::Dearer => "it has more in view and does not cost less",
        RivalStanding::Behind => "it does not cost less and has no more in view",
        RivalStanding::DoesNotFit => "its own requests leave too little of the window for the answer",
    }
}

/// Counts sessions in words: `17 recorded sessions`.
fn sessions(cells: &[&ComparisonCell<'_>]) -> String {
    let mut recordings: Vec<_> =
        cells.iter().map(|it| (&it.any().group, &it.any().recording, it.any().synthetic)).collect();
    // `dedup` only removes neighbours.
    recordings.sort();
    recordings.dedup();
    let kind = if recordings.iter().all(|it| it.2) { "synthetic session" } else { "recorded session" };
    counted(recordings.len(), kind)
}

/// Describes the data of the headline.
pub(crate) fn basis(cells: &[ComparisonCell<'_>]) -> String {
    let (Some(first), Some(scope)) = (cells.first(), summary::whole_scopes(cells).into_iter().next()) else {
        return "Nothing was replayed.".to_owned();
    };
    let prices = &first.any().prices;
    let held: Vec<&ComparisonCell<'_>> =
        cells.iter().filter(|it| it.any().prices == *prices && scope.contains_cell(it)).collect();
    let both = cells.iter().any(|it| it.any().synthetic != scope.synthetic);
    let apart = if both { " Synthetic sessions are kept apart." } else { "" };
    format!("Medians over {}, at {prices} prices.{apart}", extent(&held))
}

/// Describes the extent: `17 recorded sessions in windows of 25 %, 50 % and 75 % of each one's peak`.
fn extent(cells: &[&ComparisonCell<'_>]) -> String {
    let windows = summary::windows(cells);
    let all_of_peak = windows.iter().all(|it| matches!(it, WindowChoice::PercentOfPeak(_)));
    let said = windows.iter().map(|window| match window {
        WindowChoice::PercentOfPeak(percent) if all_of_peak => format!("{percent} %"),
        WindowChoice::PercentOfPeak(percent) => format!("{percent} % of each one's peak"),
        WindowChoice::Tokens(number) => format!("{} tokens", tokens(*number)),
    });
    let said: Vec<String> = said.collect();
    let of_peak = if all_of_peak { " of each one's peak" } else { "" };
    let windows = if windows.len() == 1 { "a window" } else { "windows" };
    format!("{} in {windows} of {}{of_peak}", sessions(cells), listed(&said))
}

fn exception(ours: &ReplayOutcome, theirs: &ReplayOutcome, standing: RivalStanding) -> ComparisonException {
    ComparisonException {
        group: ours.group.clone(),
        recording: ours.recording.clone(),
        window: ours.window,
        window_percent: ours.window_percent,
        peer: theirs.policy.clone(),
        standing,
        why: why(ours, theirs),
    }
}

/// Returns the figures of both and the decisive figures.
fn why(ours: &ReplayOutcome, theirs: &ReplayOutcome) -> String {
    let percentage =
        |share: Option<f64>| share.map_or_else(|| "nothing needed".to_owned(), percent_in_sentence);
    let mut words = format!("cost {}", pair(cost_in_sentence(ours.cost), cost_in_sentence(theirs.cost)));
    if let Some(ratio) = ratio(ours.cost, theirs.cost) {
        words.push_str(&format!(" ({})", percent_in_sentence(ratio)));
    }
    words.push_str("; needed later in view ");
    words.push_str(&pair(percentage(in_view(&ours.needs)), percentage(in_view(&theirs.needs))));
    words.push_str(", with recall ");
    words.push_str(&pair(percentage(at_hand(&ours.needs)), percentage(at_hand(&theirs.needs))));
    words.push_str("; compactions ");
    words.push_str(&pair(ours.compactions.to_string(), theirs.compactions.to_string()));
    words.push_str(", extra calls ");
    words.push_str(&pair(side_calls(ours), side_calls(theirs)));
    words.push_str(", prefix hits ");
    words.push_str(&pair(
        percent_in_sentence(ours.prefix_hit_ratio),
        percent_in_sentence(theirs.prefix_hit_ratio),
    ));
    if ours.overflows + theirs.overflows > 0 {
        words.push_str(", requests too large ");
        words.push_str(&pair(ours.overflows.to_string(), theirs.overflows.to_string()));
    }
    words.push('.');
    words
}

fn pair(ours: String, theirs: String) -> String {
    format!("{ours} against {theirs}")
}

fn side_calls(outcome: &ReplayOutcome) -> String {
    (outcome.side_calls + outcome.needs.recalls).to_string()
}

/// The goals of the policy under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum PolicyGoal {
    /// Cost as a share of the baseline's, at most 0.6.
    CostOfBaseline,
    /// Cost as a share of the best peer's, at most 0.85.
    CostOfBestPeer,
    /// In view or found by recall, at least 0.98.
    AtHand,
    /// Share of input read from the cache, at least 0.9.
    PrefixHits,
}

impl PolicyGoal {
    /// All goals.
    pub(crate) const ALL: [Self; 4] =
        [Self::CostOfBaseline, Self::CostOfBestPeer, Self::AtHand, Self::PrefixHits];

    /// Returns the goal in words.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::CostOfBaseline => "cost of append-only's",
            Self::CostOfBestPeer => "cost of the best rival's",
            Self::AtHand => "needed later in view or found by recall",
            Self::PrefixHits => "prefix hit ratio",
        }
    }

    /// Returns the goal in a few words, as the head of a column.
    pub(crate) fn head(self) -> &'static str {
        match self {
            Self::CostOfBaseline => "of append-only",
            Self::CostOfBestPeer => "of best rival",
            Self::AtHand => "with recall",
            Self::PrefixHits => "prefix hits",
        }
    }

    /// Returns the limit in words: `≤ 60 %`.
    pub(crate) fn format_limit(self) -> String {
        let (limit, at_most) = self.limit();
        format!("{} {:.0} %", if at_most { '≤' } else { '≥' }, limit * 100.0)
    }

    /// Returns the limit, and whether less is better.
    pub(crate) fn limit(self) -> (f64, bool) {
        match self {
            Self::CostOfBaseline => (0.6, true),
            Self::CostOfBestPeer => (0.85, true),
            Self::AtHand => (0.98, false),
            Self::PrefixHits => (0.9, false),
        }
    }

    /// Returns whether a figure meets the goal.
    pub(crate) fn is_met(self, figure: f64) -> bool {
        let (limit, at_most) = self.limit();
        if at_most { figure <= limit } else { figure >= limit }
    }

    fn figure(self, cell: &ComparisonCell<'_>) -> Option<f64> {
        let subject = cell.subject()?;
        match self {
            Self::CostOfBaseline => cell.cost_of_baseline(subject),
            Self::CostOfBestPeer => cell.cost_of_best_peer(),
            Self::AtHand => at_hand(&subject.needs),
            Self::PrefixHits => Some(subject.prefix_hit_ratio),
        }
    }
}

/// The degree to which a goal is met.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GoalResult {
    /// The price table.
    pub(crate) prices: String,
    /// The recordings under the median.
    pub(crate) scope: RecordingScope,
    /// The goal.
    pub(crate) goal: PolicyGoal,
    /// The limit.
    pub(crate) limit: f64,
    /// `true` if the limit is a maximum, `false` if it is a minimum.
    pub(crate) at_most: bool,
    /// The median; `None` if nothing can be measured.
    pub(crate) measured: Option<f64>,
    /// `true` if the median meets the goal.
    pub(crate) met: Option<bool>,
    /// Measurable recordings times windows.
    pub(crate) cells: usize,
    /// The number of cells in which the goal is met.
    pub(crate) cells_met: usize,
}

/// Returns every goal at every price table, over all sessions and over each group if there are several.
/// Returns none without the policy under test.
pub(crate) fn goals(header: &ReportHeader, cells: &[ComparisonCell<'_>]) -> Vec<GoalResult> {
    if header.subject().is_none() {
        return Vec::new();
    }
    let mut all = Vec::new();
    for prices in summary::prices(cells) {
        for scope in summary::wholes_and_groups(cells) {
            let held = cells.iter().filter(|it| it.any().prices == prices && scope.contains_cell(it));
            let held: Vec<&ComparisonCell<'_>> = held.collect();
            all.extend(PolicyGoal::ALL.map(|goal| goal_result(goal, prices, &scope, &held)));
        }
    }
    all
}

fn goal_result(
    goal: PolicyGoal,
    prices: &str,
    scope: &RecordingScope,
    cells: &[&ComparisonCell<'_>],
) -> GoalResult {
    // Cells without a figure, such as those without a peer that fits, count neither way.
    let figures: Vec<f64> = cells.iter().filter_map(|cell| goal.figure(cell)).collect();
    let cells_met = figures.iter().filter(|it| goal.is_met(**it)).count();
    let (limit, at_most) = goal.limit();
    let (cells, measured) = (figures.len(), median(figures));
    GoalResult {
        prices: prices.to_owned(),
        scope: scope.clone(),
        goal,
        limit,
        at_most,
        measured,
        met: measured.map(|it| goal.is_met(it)),
        cells,
        cells_met,
    }
}

#[cfg(test)]
mod tests;
