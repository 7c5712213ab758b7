use super::*;
use crate::lab::outcome::NeedCounts;
use crate::lab::report::ReplayReport;
use crate::lab::report::sample::{header, outcome, report};

fn made(outcomes: Vec<ReplayOutcome>) -> ReplayReport {
    ReplayReport::new(header(), outcomes)
}

#[test]
fn a_standing_weighs_cost_view_and_what_fits() {
    let ours = |cost, in_view| outcome("a", "adaptive", cost, (in_view, 0, 10 - in_view));
    let theirs = outcome("a", "codex", 1.0, (8, 0, 2));
    let of = |cost, in_view| RivalStanding::of(&ours(cost, in_view), &theirs);
    assert_eq!(of(0.9, 8), RivalStanding::Ahead);
    assert_eq!(of(0.9, 9), RivalStanding::Ahead);
    assert_eq!(of(0.9, 7), RivalStanding::SeesLess);
    assert_eq!(of(1.0, 8), RivalStanding::Same);
    assert_eq!(of(1.0 + 1e-12, 8), RivalStanding::Same);
    assert_eq!(of(1.1, 9), RivalStanding::Dearer);
    assert_eq!(of(1.0, 9), RivalStanding::Dearer, "as much is not less");
    assert_eq!(of(1.1, 8), RivalStanding::Behind);
    assert_eq!(of(1.0, 7), RivalStanding::Behind);
    let too_large = ReplayOutcome { overflows: 2, ..theirs.clone() };
    assert_eq!(RivalStanding::of(&ours(1.1, 8), &too_large), RivalStanding::PeerDoesNotFit);
    assert_eq!(RivalStanding::of(&ours(0.9, 8), &too_large), RivalStanding::Ahead);
    let ours_too_large = ReplayOutcome { overflows: 1, ..ours(0.1, 10) };
    assert_eq!(RivalStanding::of(&ours_too_large, &theirs), RivalStanding::DoesNotFit);
}

#[test]
fn a_win_everywhere_is_said_as_one() {
    let report = made(vec![
        outcome("a", "append-only", 2.0, (10, 0, 0)),
        outcome("a", "adaptive", 0.8, (9, 1, 0)),
        outcome("a", "codex", 1.0, (8, 0, 2)),
        outcome("a", "opencode", 1.2, (9, 0, 1)),
    ]);
    let [verdict] = report.verdicts() else { panic!("{:?}", report.verdicts()) };
    assert!(verdict.beats_all && verdict.exceptions.is_empty());
    assert_eq!(
        verdict.sentence,
        "At large prices, over 1 recorded session: adaptive beats every modelled rival. It costs less with as much or \
         more in view, in 2 of 2 comparisons with 2 modelled rivals."
    );
    assert_eq!(verdict.peers[1].cost_of_peer, Some(0.8));
}

#[test]
fn one_lost_comparison_is_named_with_the_session_the_peer_and_the_figures() {
    let report = made(vec![
        outcome("first", "adaptive", 0.8, (90, 10, 0)),
        outcome("first", "codex", 1.0, (80, 0, 20)),
        outcome("second", "adaptive", 0.8, (90, 10, 0)),
        outcome("second", "codex", 1.0, (95, 0, 5)),
    ]);
    let verdict = &report.verdicts()[0];
    assert!(!verdict.beats_all);
    assert!(verdict.sentence.contains("adaptive does not beat every modelled rival"), "{}", verdict.sentence);
    assert!(
        verdict.sentence.ends_with(
            "It costs less with as much or more in view in 1 of 2 comparisons with 1 modelled rival. In 1 it costs less \
             and has less in view."
        ),
        "{}",
        verdict.sentence
    );
    let [case] = &verdict.exceptions[..] else { panic!("{:?}", verdict.exceptions) };
    assert_eq!((case.recording.as_str(), case.peer.as_str()), ("second", "codex"));
    assert_eq!(case.standing, RivalStanding::SeesLess);
    assert_eq!(
        case.why,
        "cost 0.80 against 1.00 (80.0 %); needed later in view 90.0 % against 95.0 %, with recall 100.0 % against \
         95.0 %; compactions 0 against 0, extra calls 10 against 0, prefix hits 90.0 % against 90.0 %."
    );
}

#[test]
fn synthetic_sessions_have_their_own_verdict_and_goals() {
    let mut made_up = [outcome("b", "adaptive", 9.0, (1, 0, 9)), outcome("b", "codex", 1.0, (9, 0, 1))];
    for it in &mut made_up {
        it.synthetic = true;
    }
    let mut outcomes = vec![outcome("a", "adaptive", 0.8, (9, 1, 0)), outcome("a", "codex", 1.0, (8, 0, 2))];
    outcomes.extend(made_up);
    let report = made(outcomes);
    let [recorded, synthetic] = report.verdicts() else { panic!() };
    assert!(recorded.beats_all && !recorded.scope.synthetic);
    assert!(
        !synthetic.beats_all && synthetic.sentence.contains("1 synthetic session"),
        "{}",
        synthetic.sentence
    );
    assert_eq!(report.goals().len(), 8);
}

#[test]
fn goals_are_met_at_their_limits_and_not_beyond() {
    assert!(PolicyGoal::CostOfBaseline.is_met(0.6) && !PolicyGoal::CostOfBaseline.is_met(0.6001));
    assert!(PolicyGoal::CostOfBestPeer.is_met(0.85) && !PolicyGoal::CostOfBestPeer.is_met(0.86));
    assert!(PolicyGoal::AtHand.is_met(0.98) && !PolicyGoal::AtHand.is_met(0.9799));
    assert!(PolicyGoal::PrefixHits.is_met(0.9) && !PolicyGoal::PrefixHits.is_met(0.89));
    let report = made(vec![
        outcome("a", "append-only", 2.0, (10, 0, 0)),
        outcome("a", "adaptive", 0.9, (9, 0, 1)),
        outcome("a", "codex", 1.0, (8, 0, 2)),
    ]);
    let states: Vec<_> = report.goals().iter().map(|it| (it.measured, it.met)).collect();
    let expected = [
        (Some(0.45), Some(true)),
        (Some(0.9), Some(false)),
        (Some(0.9), Some(false)),
        (Some(0.9), Some(true)),
    ];
    assert_eq!(states, expected);
    assert_eq!((report.goals()[0].cells, report.goals()[0].cells_met), (1, 1));
}

#[test]
fn the_result_is_a_few_short_sentences() {
    let report = report();
    let sentence = report.headline();
    assert!(sentence.starts_with("With adaptive, sessions cost 46.1 % of append-only and 7"), "{sentence}");
    let longest = sentence.split(". ").map(|it| it.split(' ').count()).max();
    assert!(longest.is_some_and(|words| words < 40), "{sentence}");
    assert_eq!(
        basis(&report.cells()),
        "Medians over 4 recorded sessions in windows of 25 %, 50 % and 75 % of each one's peak, at large prices. \
         Synthetic sessions are kept apart."
    );
    let none = made(vec![outcome("a", "append-only", 1.0, (1, 0, 0))]);
    let alone = none.headline();
    assert_eq!(alone, "adaptive was not replayed, so there is no verdict.");
}

#[test]
fn windows_in_tokens_are_no_share_of_the_peak() {
    let in_tokens =
        ReplayOutcome { window: 32_000, window_percent: None, ..outcome("a", "adaptive", 1.0, (1, 0, 0)) };
    let report = made(vec![outcome("a", "adaptive", 1.0, (1, 0, 0)), in_tokens]);
    assert!(
        basis(&report.cells())
            .contains("in windows of 50 % of each one's peak and 32.0K tokens, at large prices"),
        "{}",
        basis(&report.cells())
    );
}

#[test]
fn the_best_and_the_worst_window_are_named() {
    let at = |window: u64, policy: &str, cost: f64, needs| ReplayOutcome {
        window,
        window_percent: None,
        ..outcome("a", policy, cost, needs)
    };
    let report = made(vec![
        at(2_000, "append-only", 2.0, (10, 0, 0)),
        at(2_000, "adaptive", 2.4, (4, 1, 5)),
        at(8_000, "append-only", 2.0, (10, 0, 0)),
        at(8_000, "adaptive", 0.5, (8, 1, 1)),
        at(16_000, "append-only", 2.0, (10, 0, 0)),
        at(16_000, "adaptive", 1.0, (10, 0, 0)),
    ]);
    let said = report.headline();
    assert!(
        said.starts_with(
            "With adaptive, sessions cost 50.0 % of append-only. 90.0 % of what was needed later"
        ),
        "{said}"
    );
    assert!(
        said.ends_with(
            " The cost is 25.0 % of append-only in the best window (8.0K tokens) and 120.0 % in the worst (2.0K tokens). \
             In view or found is 100.0 % in the best window (16.0K tokens) and 50.0 % in the worst (2.0K tokens)."
        ),
        "{said}"
    );
    assert!(report.html().contains("in the best window (8.0K tokens)"), "the page says it too");
    let one =
        made(vec![outcome("a", "append-only", 2.0, (10, 0, 0)), outcome("a", "adaptive", 1.0, (9, 0, 1))]);
    assert!(!one.headline().contains("window"), "{}", one.headline());
}

#[test]
fn without_peers_or_without_the_policy_under_test_nothing_is_claimed() {
    let alone = made(vec![outcome("a", "adaptive", 0.8, (9, 1, 0))]);
    assert!(alone.verdicts()[0].sentence.ends_with("so adaptive is compared with none."));
    assert_eq!(alone.goals()[1].met, None);
    let mut header = header();
    header.policies.retain(|it| it.role != PolicyRole::Subject);
    let peers = ReplayReport::new(header, vec![outcome("a", "codex", 1.0, (8, 0, 2))]);
    assert!(peers.verdicts().is_empty() && peers.goals().is_empty());
    assert!(peers.headline().contains("no verdict"));
    let nothing_needed =
        ReplayOutcome { needs: NeedCounts::default(), ..outcome("a", "adaptive", 1.0, (0, 0, 0)) };
    assert_eq!(made(vec![nothing_needed]).goals()[2].met, None);
}
