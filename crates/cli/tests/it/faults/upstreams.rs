//! Nodes whose model's server fails in every way: what was asked is answered in the end, or ends with words.

use std::collections::BTreeMap;
use std::time::Duration;

use longhaul_core::event::{EventBody, RunEnd};

use super::fleet::{Fleet, all_reached, behind, no_complaints, stop};
use super::model::{Asked, Fails, Model, Say};
use super::rng::Rng;
use super::server::Rules;
use super::talk::{busy, conclude, talkers};
use super::{number, seed};

/// A run that hangs ends by itself.
const RULES: Rules = Rules { continues: true, run_timeout: Some("4s") };

/// Fails in a third of all calls.
fn flaky(seed: u64, asked: &Asked) -> Say {
    let mut rng = Rng::of(seed, ("flaky", &asked.topic, asked.messages, asked.number));
    let ways = [
        Fails::With(500),
        Fails::With(503),
        Fails::With(429),
        Fails::Never,
        Fails::Breaks,
        Fails::Breaks,
        Fails::Ends,
    ];
    let fails = rng.chance(35).then(|| *rng.pick(&ways));
    Say { fails, ..busy(seed, asked) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_of_models_that_fails_doubles_nothing() {
    let seed = seed("upstreams");
    let rounds = number("LONGHAUL_NODE_ROUNDS").unwrap_or(3);
    let sessions = number("LONGHAUL_NODE_SESSIONS").unwrap_or(8) as usize;
    let model = Model::start(move |asked| flaky(seed, asked)).await;
    let (way, url) = behind(&model).await;
    let Some(fleet) = Fleet::start(&url, 2, RULES, "").await else { return };
    let talkers = talkers(sessions, seed, &fleet.common);
    let mut rng = Rng::of(seed, "upstreams");
    for round in 0..rounds {
        let context = format!("LONGHAUL_FAULT_SEED={seed}, round {round}");
        let tasks = fleet.talk(&talkers, round);
        tokio::time::sleep(Duration::from_millis(1_500 + rng.below(1_000))).await;
        // All connections break at once, and for a while there is nobody.
        way.refuse(true);
        tokio::time::sleep(Duration::from_millis(rng.below(1_500))).await;
        way.refuse(false);
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        stop(tasks, &context).await;
        no_complaints(&talkers, &context);
    }
    model.hurry();
    let api = fleet.nodes[0].api.clone();
    all_reached(&api, &talkers).await;
    let events = conclude(&api, &talkers, &fleet.common, &model).await;
    let mut ends: BTreeMap<String, usize> = BTreeMap::new();
    for event in &events {
        if let EventBody::RunFinished { reason, error, .. } = &event.body {
            let code = error.as_ref().map(|error| error.code.as_str()).unwrap_or_default();
            let words = error.as_ref().is_none_or(|error| !error.message.is_empty());
            assert!(words && (*reason != RunEnd::Error || error.is_some()), "{event:?}");
            *ends.entry(format!("{reason:?} {code}")).or_default() += 1;
        }
    }
    assert!(ends.keys().any(|end| end.starts_with("Error ")), "nothing failed: {ends:?}");
    eprintln!("upstreams: {} events, runs ended: {ends:?}", events.len());
    fleet.nothing_is_late().await;
    fleet.end().await;
}
