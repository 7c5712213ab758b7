//! What views keep of public data, with floors.

use std::path::PathBuf;

use longhaul_lab::score::orders::{self, OrderCase, OrderScore};
use longhaul_lab::score::{
    ChatTurn, Receipts, Summariser, compactbench, goals, locomo, lost, reading_job, refusals, summaries,
    superseded,
};

/// The public data, `None` where it is absent. With `LONGHAUL_REQUIRE_FIXTURES` set its absence is a failure.
fn receipts() -> Option<Receipts> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fixtures/receipts");
    if folder.is_dir() {
        return Some(Receipts::new(folder));
    }
    assert!(std::env::var_os("LONGHAUL_REQUIRE_FIXTURES").is_none(), "{} is missing", folder.display());
    eprintln!("skipped: {} is absent", folder.display());
    None
}

fn scores(orders: &[String], filler: &[ChatTurn], cases: &[OrderCase]) -> Vec<OrderScore> {
    cases.iter().map(|case| orders::measure(orders, filler, case).unwrap()).collect()
}

#[test]
fn debug_view() {
    let Some(receipts) = receipts() else { return };
    let (orders, filler) = (receipts.compint().unwrap(), receipts.filler().unwrap());
    let case = OrderCase {
        strategy: "adaptive",
        summariser: Summariser::Extract,
        chat_tokens: 50_000,
        position: orders::OrderPosition::Percent(10),
        rounds: 1,
    };
    let started = std::time::Instant::now();
    let score = orders::measure(&orders, &filler, &case).unwrap();
    eprintln!("{:?} {score:?}", started.elapsed());
    std::fs::write("/tmp/score_view.txt", orders::debug(&orders[3], &filler, &case)).unwrap();
}

#[test]
fn standing_orders_of_compint_stay_in_view() {
    let Some(receipts) = receipts() else { return };
    let (orders, filler) = (receipts.compint().unwrap(), receipts.filler().unwrap());
    assert_eq!(orders.len(), goals::COMPINT_KEPT);
    let started = std::time::Instant::now();
    for score in scores(&orders, &filler, &orders::all_cases(1)) {
        eprintln!("{:?} {score:?}", started.elapsed());
    }
    for score in scores(&orders, &filler, &orders::all_cases(5)) {
        eprintln!("{:?} {score:?}", started.elapsed());
    }
}

#[test]
fn answers_that_are_no_summary_are_refused() {
    let Some(receipts) = receipts() else { return };
    let filler = receipts.filler().unwrap();
    let started = std::time::Instant::now();
    let score = refusals::measure(&filler);
    eprintln!("{:?} {score:?}", started.elapsed());
    assert_eq!((score.no_summaries, score.good_summaries), (goals::REFUSED, goals::ACCEPTED));
}

#[test]
fn others_probe() {
    let Some(receipts) = receipts() else { return };
    let filler = receipts.filler().unwrap();
    let started = std::time::Instant::now();
    for summariser in [Summariser::Extract, Summariser::OrderBlind] {
        let score = superseded::measure(&filler, "adaptive", &summariser).unwrap();
        eprintln!("{:?} superseded {} {score:?}", started.elapsed(), summariser.name());
        let templates = receipts.compactbench().unwrap();
        let score = compactbench::measure(&templates, &filler, 1, "adaptive", &summariser).unwrap();
        eprintln!("{:?} compactbench {} {} {score:?}", started.elapsed(), summariser.name(), score.percent());
    }
    eprintln!("{:?} locomo {:?}", started.elapsed(), locomo::measure(&receipts.locomo().unwrap()));
    let score = lost::measure(&receipts.lost().unwrap(), "adaptive", Summariser::Extract).unwrap();
    eprintln!("{:?} lost {score:?} {}", started.elapsed(), score.at_10_percent());
    for window in [64_000, 32_000] {
        for score in reading_job::measure(window).unwrap() {
            eprintln!("{:?} job {score:?}", started.elapsed());
        }
    }
    for strategy in ["adaptive", "reactive-overflow"] {
        eprintln!("{:?} summaries {strategy} {:?}", started.elapsed(), summaries::measure(&filler, strategy));
    }
    let own = orders::own_orders();
    for case in orders::all_cases(1).into_iter().take(9) {
        eprintln!("{:?} own {:?}", started.elapsed(), orders::measure(&own, &filler, &case).unwrap());
    }
}
