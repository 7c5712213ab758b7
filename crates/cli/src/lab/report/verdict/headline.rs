//! The result in a few sentences.

use super::super::ReportHeader;
use super::super::figures::{listed, percent_in_sentence, tokens};
use super::super::summary::{self, ComparisonCell, WindowChoice, median};
use super::{GoalResult, PolicyGoal};

/// Returns the result in a few sentences: the medians at the first price table, over recordings of agents if
/// there are any; and the best and the worst of the windows.
pub(crate) fn headline(header: &ReportHeader, goals: &[GoalResult], cells: &[ComparisonCell<'_>]) -> String {
    let (Some(subject), Some(first)) = (header.subject(), goals.first()) else {
        return "The policies beside each other: the policy under test was not replayed, so there is no verdict."
            .to_owned();
    };
    let of = |goal: PolicyGoal| {
        let result =
            goals.iter().find(|it| it.goal == goal && it.prices == first.prices && it.scope == first.scope);
        result.and_then(|it| it.measured).map(percent_in_sentence)
    };
    let costs =
        [(PolicyGoal::CostOfBaseline, "of append-only"), (PolicyGoal::CostOfBestPeer, "of the best rival")];
    let costs = costs.map(|(goal, what)| of(goal).map(|it| format!("{it} {what}")));
    let costs: Vec<String> = costs.into_iter().flatten().collect();
    let costs = (!costs.is_empty()).then(|| format!("sessions cost {}", listed(&costs)));
    let at_hand = of(PolicyGoal::AtHand)
        .map(|it| format!("{it} of what was needed later is in view or found by recall"));
    let hits = of(PolicyGoal::PrefixHits).map(|it| format!("{it} of the input is read from the cache"));
    let needs: Vec<String> = [at_hand, hits].into_iter().flatten().collect();
    let held = cells.iter().filter(|it| it.any().prices == first.prices && first.scope.contains_cell(it));
    let spread = spread(&held.collect::<Vec<_>>());
    match (costs, needs.join(", and ")) {
        (None, needs) if needs.is_empty() => format!("{subject} was not replayed, so there is no verdict."),
        (Some(costs), needs) if needs.is_empty() => format!("With {subject}, {costs}.{spread}"),
        (None, needs) => format!("With {subject}, {needs}.{spread}"),
        (Some(costs), needs) => format!("With {subject}, {costs}. {needs}.{spread}"),
    }
}

/// Describes the best and the worst window in sentences with a blank before each. Empty if equal.
fn spread(cells: &[&ComparisonCell<'_>]) -> String {
    let cost = spread_of(PolicyGoal::CostOfBaseline, " of append-only", cells)
        .or_else(|| spread_of(PolicyGoal::CostOfBestPeer, " of the best rival", cells));
    let cost = cost.map(|it| format!(" The cost is {it}."));
    let at_hand = spread_of(PolicyGoal::AtHand, "", cells).map(|it| format!(" In view or found is {it}."));
    [cost, at_hand].into_iter().flatten().collect()
}

/// Returns the medians of the best window and of the worst: `25.7 % of append-only in the best window (25 % of the
/// peak) and 37.3 % in the worst (75 % of the peak)`.
fn spread_of(goal: PolicyGoal, of: &str, cells: &[&ComparisonCell<'_>]) -> Option<String> {
    let mut figures: Vec<(f64, WindowChoice)> = summary::windows(cells)
        .into_iter()
        .filter_map(|window| {
            let held = cells.iter().filter(|it| WindowChoice::of(it.any()) == window);
            median(held.filter_map(|cell| goal.figure(cell)).collect()).map(|figure| (figure, window))
        })
        .collect();
    figures.sort_by(|one, other| one.0.total_cmp(&other.0));
    let (_, at_most) = goal.limit();
    let (least, most) = (figures.first()?, figures.last()?);
    let (best, worst) = if at_most { (least, most) } else { (most, least) };
    // Compared as printed: the sentence cannot show a smaller difference.
    (percent_in_sentence(best.0) != percent_in_sentence(worst.0)).then(|| {
        format!(
            "{}{of} in the best window ({}) and {} in the worst ({})",
            percent_in_sentence(best.0),
            named(best.1),
            percent_in_sentence(worst.0),
            named(worst.1)
        )
    })
}

fn named(window: WindowChoice) -> String {
    match window {
        WindowChoice::PercentOfPeak(percent) => format!("{percent} % of the peak"),
        WindowChoice::Tokens(number) => format!("{} tokens", tokens(number)),
    }
}
