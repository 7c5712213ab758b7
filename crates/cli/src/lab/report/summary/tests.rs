use super::*;
use crate::lab::report::sample::{header, outcome, outcomes};

#[test]
fn medians_and_quartiles_are_those_of_the_sorted_values() {
    assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
    assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), Some(2.5));
    assert_eq!(median(Vec::new()), None);
    assert_eq!(quartiles(vec![1.0, 2.0, 3.0, 4.0, 5.0]), Some([2.0, 3.0, 4.0]));
    assert_eq!(quartiles(vec![7.0]), Some([7.0; 3]));
}

#[test]
fn the_frontier_holds_what_no_other_beats() {
    let points = [(0.5, 0.9), (0.4, 0.9), (0.6, 0.95), (0.7, 0.95), (1.0, 1.0), (0.3, 0.2)];
    assert_eq!(frontier(&points), [5, 1, 2, 4]);
    assert_eq!(frontier(&[(1.0, 0.5), (1.0, 0.6)]), [1], "at equal cost the better one");
    assert!(frontier(&[]).is_empty());
}

#[test]
fn recall_is_compared_exactly() {
    assert_eq!(compare_in_view(&needs(1, 2), &needs(333_333_333_333, 666_666_666_667)), Ordering::Greater);
    assert_eq!(compare_in_view(&needs(1, 1), &needs(2, 2)), Ordering::Equal);
    assert_eq!(
        compare_in_view(&needs(0, 0), &needs(9, 1)),
        Ordering::Greater,
        "nothing needed, nothing missed"
    );
    assert_eq!((in_view(&needs(3, 1)), in_view(&needs(0, 0))), (Some(0.75), None));
    let recalled = NeedCounts { in_view: 2, recalled: 1, lost: 1, recalls: 5 };
    assert_eq!((at_hand(&recalled), share(recalled.lost, &recalled)), (Some(0.75), Some(0.25)));
}

fn needs(in_view: u64, lost: u64) -> NeedCounts {
    NeedCounts { in_view, lost, ..NeedCounts::default() }
}

fn three() -> Vec<ReplayOutcome> {
    vec![
        outcome("a", "append-only", 2.0, (10, 0, 0)),
        outcome("a", "opencode", 1.2, (9, 0, 1)),
        outcome("a", "codex", 1.0, (8, 0, 2)),
        outcome("a", "adaptive", 0.8, (9, 1, 0)),
    ]
}

#[test]
fn costs_are_shares_of_the_baseline_and_of_the_best_peer() {
    let (header, outcomes) = (header(), three());
    let cells = cells(&header, &outcomes);
    let [cell] = &cells[..] else { panic!("{}", cells.len()) };
    assert_eq!(cell.subject().and_then(|it| cell.cost_of_baseline(it)), Some(0.4));
    assert_eq!(cell.best_peer().map(|it| it.policy.as_str()), Some("codex"));
    assert_eq!(cell.cost_of_best_peer(), Some(0.8));
    let names: Vec<&str> = cell.outcomes().iter().map(|it| it.policy.as_str()).collect();
    assert_eq!(names, ["append-only", "adaptive", "opencode", "codex"], "in the order of the header");
}

#[test]
fn a_peer_whose_requests_do_not_fit_is_never_the_best() {
    let (header, mut outcomes) = (header(), three());
    outcomes[2].overflows = 1;
    let best =
        |outcomes: &[ReplayOutcome]| cells(&header, outcomes)[0].best_peer().map(|it| it.policy.clone());
    assert_eq!(best(&outcomes).as_deref(), Some("opencode"));
    outcomes[1].overflows = 3;
    assert_eq!(best(&outcomes), None);
    (outcomes[1].overflows, outcomes[2].overflows) = (0, 0);
    outcomes[1].cost = 1.0;
    assert_eq!(best(&outcomes).as_deref(), Some("opencode"), "at equal cost the one with more in view");
}

#[test]
fn without_a_baseline_or_peers_nothing_is_divided() {
    let (header, outcomes) = (header(), vec![outcome("a", "adaptive", 0.8, (0, 0, 0))]);
    let cells = cells(&header, &outcomes);
    assert_eq!((cells[0].cost_of_baseline(&outcomes[0]), cells[0].cost_of_best_peer()), (None, None));
    let summaries = summaries(&header, &cells);
    let medians = &summaries[0].medians;
    assert_eq!((medians.cost, medians.cost_of_baseline, medians.in_view), (Some(0.8), None, None));
}

#[test]
fn medians_are_taken_for_each_group_and_over_all_but_never_over_both_kinds() {
    let (header, outcomes) = (header(), outcomes());
    let cells = cells(&header, &outcomes);
    assert_eq!(cells.len(), 5 * 3 * 2);
    let all = summaries(&header, &cells);
    let scopes = distinct(all.iter().map(|it| (it.scope.group.as_deref(), it.scope.synthetic)));
    let expected = [
        (Some("pi"), false),
        (Some("tau-bench"), false),
        (Some("made-up"), true),
        (None, false),
        (None, true),
    ];
    assert_eq!(scopes, expected);
    let find = |group: Option<&str>, window| {
        all.iter().find(|it| {
            (it.prices == "small" && it.policy == "adaptive" && !it.scope.synthetic)
                && it.scope.group.as_deref() == group
                && it.window == window
        })
    };
    let whole = find(None, None).unwrap();
    assert_eq!((whole.recordings, whole.cells), (4, 12));
    let costs = cells.iter().filter(|it| it.any().prices == "small" && !it.any().synthetic);
    let costs: Vec<f64> = costs.filter_map(|it| it.subject()).map(|it| it.cost).collect();
    assert_eq!(whole.medians.cost, median(costs));
    assert_eq!(whole.survival["paths"].total(), 12 * 120);
    let tau = find(Some("tau-bench"), Some(WindowChoice::PercentOfPeak(25))).unwrap();
    assert_eq!((tau.recordings, tau.cells), (3, 3));
}

#[test]
fn recordings_of_agents_come_before_synthetic_ones_and_windows_by_size() {
    let (header, mut outcomes) = (header(), outcomes());
    outcomes.reverse();
    let cells = cells(&header, &outcomes);
    assert!(cells[..12].iter().all(|it| it.any().prices == "large" && !it.any().synthetic));
    let windows: Vec<Option<u32>> = cells[..3].iter().map(|it| it.any().window_percent).collect();
    assert_eq!(windows, [Some(25), Some(50), Some(75)]);
}
