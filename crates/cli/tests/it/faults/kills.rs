//! `kill -9` at random times, eight sessions at once, one data folder for all rounds.

use std::time::Duration;

use longhaul_core::event::{Event, EventBody};

use super::model::Model;
use super::rng::Rng;
use super::server::{Place, Rules};
use super::talk::{busy, conclude, talk, talkers};
use super::{rounds, seed};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_at_any_time_nothing_is_lost_and_everything_goes_on() {
    let seed = seed("kills");
    let model = Model::start(move |asked| busy(seed, asked)).await;
    let place = Place::new(&model.url);
    let talkers = talkers(8, seed, &place);
    let mut rng = Rng::of(seed, "kills");
    for round in 0..rounds() {
        let server = place.start(Rules { continues: rng.chance(50), ..Rules::default() }).await;
        let time = Duration::from_millis(*rng.pick(&[5, 50, 200, 400, 700]) + rng.below(150));
        let tasks = talk(&server.api, &talkers);
        tokio::time::sleep(time).await;
        server.kill().await;
        tasks.join_all().await;
        let found = talkers.iter().flat_map(|talker| talker.account().look().complaints.clone());
        assert_eq!(found.collect::<Vec<_>>(), Vec::<String>::new(), "round {round}");
    }
    let server = place.start(Rules::default()).await;
    let events = conclude(&server.api, &talkers, &place, &model).await;
    report(&events);
    assert!(server.terminate().await.status.success());
}

/// What the rounds were made of. Many of them without a compaction would try less than they should.
fn report(events: &[Event]) {
    let count = |wanted: fn(&EventBody) -> bool| events.iter().filter(|event| wanted(&event.body)).count();
    let taken = events.iter().filter_map(|event| match &event.body {
        EventBody::MessagesTaken { taken, .. } => Some(taken.len()),
        _ => None,
    });
    let edits = count(|body| matches!(body, EventBody::ViewEdited(_)));
    eprintln!(
        "kills: {} events, {} messages, {} tools started, {} recoveries, {edits} compactions and prunings, {} parked",
        events.len(),
        taken.sum::<usize>(),
        count(|body| matches!(body, EventBody::ToolStarted { .. })),
        count(|body| matches!(body, EventBody::Recovered { .. })),
        count(|body| matches!(body, EventBody::Parked { .. })),
    );
    assert!(edits > 0 || rounds() < 100, "no compaction was ever interrupted");
}
