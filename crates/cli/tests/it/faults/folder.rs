//! The data folder from outside: its files torn, or wanted by two; and a clock that jumps.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use super::check::{self, Findings};
use super::model::Model;
use super::rng::Rng;
use super::server::{Place, Rules};
use super::talk::{Talker, brief, busy, compare, conclude, talk, talkers};
use super::{rounds, seed};

const PAGE_BYTES: u64 = 4096;

/// What became of the end of a file.
#[derive(Clone, Copy, Debug)]
enum Tear {
    /// So many bytes are missing.
    Cut(u64),
    /// The last page holds something else.
    Scribbled,
}

impl Tear {
    /// Whether it concerns the last commit only.
    fn is_small(self) -> bool {
        matches!(self, Self::Cut(..=PAGE_BYTES) | Self::Scribbled)
    }

    fn apply(self, path: &Path, rng: &mut Rng) {
        let file = OpenOptions::new().write(true).open(path).unwrap();
        let length = file.metadata().unwrap().len();
        match self {
            Self::Cut(bytes) => file.set_len(length.saturating_sub(bytes)).unwrap(),
            Self::Scribbled => {
                let rubbish: Vec<u8> = (0..PAGE_BYTES).map(|_| rng.next() as u8).collect();
                file.write_all_at(&rubbish, length.saturating_sub(PAGE_BYTES)).unwrap();
            }
        }
    }
}

/// A place in which one session has talked for a while and was killed, or came to a clean end.
async fn lived_in(model: &Model, killed: bool) -> (Place, Talker) {
    let place = Place::new(&model.url);
    let talker = Talker::new("s", 0, place.position());
    let server = place.start(Rules::default()).await;
    for _ in 0..6 {
        talker.finish(&server.api).await;
    }
    if killed {
        server.kill().await
    } else {
        server.terminate().await
    };
    (place, talker)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_torn_write_ahead_log_loses_its_end_and_nothing_before() {
    let seed = seed("torn log");
    let mut rng = Rng::of(seed, "torn log");
    let model = Model::start(brief).await;
    let (template, talker) = lived_in(&model, true).await;
    let whole = talker.account().look().told.clone();
    let length = std::fs::metadata(template.data().join("longhaul.db-wal")).unwrap().len();
    for round in 0..rounds().min(40) {
        let tear = match round {
            0 => Tear::Cut(1),
            1 => Tear::Cut(PAGE_BYTES),
            2 => Tear::Scribbled,
            _ => Tear::Cut(rng.below(length * 2 / 3)),
        };
        let place = template.copy();
        tear.apply(&place.data().join("longhaul.db-wal"), &mut rng);
        let server = place.start(Rules::default()).await;
        let mut findings = Findings::default();
        let session = talker.session().unwrap();
        let kept = server.api.session(session).await.unwrap();
        if kept.status == 200 {
            let survivor = talker.successor("survivor");
            survivor.finish(&server.api).await;
            let kept = survivor.account().look().told.clone();
            let lost =
                whole.iter().filter(|(seq, told)| !kept.get(seq).is_some_and(|now| now.still_says(told)));
            let lost: Vec<u64> = lost.map(|(seq, _)| *seq).collect();
            // Only the end is lost, and of small tears no more than one commit.
            let most = if tear.is_small() { 3 } else { usize::MAX };
            let behind = lost.first().map_or(0, |first| whole.range(first..).count());
            assert!(behind <= most, "seed {seed}, {tear:?}: {lost:?} are lost");
            compare(&server.api, &[survivor], u64::MAX, &mut findings).await;
        } else {
            assert!(kept.status == 404 && !tear.is_small(), "seed {seed}, {tear:?}: {kept:?}");
        }
        findings.are_none(&format!("seed {seed}, {tear:?} of {length}"));
        assert!(server.terminate().await.status.success());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_torn_database_is_never_taken_for_a_whole_one() {
    let seed = seed("torn database");
    let mut rng = Rng::of(seed, "torn database");
    let model = Model::start(brief).await;
    let (template, talker) = lived_in(&model, false).await;
    let session = talker.session().unwrap();
    for tear in [Tear::Cut(PAGE_BYTES), Tear::Cut(3 * 8192), Tear::Scribbled] {
        let place = template.copy();
        tear.apply(&place.data().join("longhaul.db"), &mut rng);
        let server = match place.try_start(Rules::default()).await {
            Ok(server) => server,
            Err(ended) => {
                assert_eq!(ended.status.code(), Some(1), "{tear:?} {ended:?}");
                assert!(
                    ended.said.contains("longhaul.db") && ended.said.contains("cannot be read"),
                    "{tear:?} {ended:?}"
                );
                continue;
            }
        };
        // Pages that nobody needs may be torn. Whatever is shown is what was told, or it is not shown.
        let shown = server.api.session(session).await.unwrap();
        let is_whole = shown.status == 200 && shown.body.get("damaged").is_none();
        if is_whole && server.api.log(session).await.is_ok() {
            let mut findings = Findings::default();
            compare(&server.api, std::slice::from_ref(&talker), u64::MAX, &mut findings).await;
            findings.are_none(&format!("seed {seed}, {tear:?}"));
        } else {
            assert_ne!(shown.status, 404, "{tear:?} {shown:?}");
            server.until_said("stored data cannot be read").await;
        }
        server.kill().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_second_server_of_a_folder_is_refused() {
    let model = Model::start(brief).await;
    let place = Place::new(&model.url);
    let first = place.start(Rules::default()).await;
    let refused = place.try_start(Rules::default()).await.err().expect("the folder has two owners");
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    let owner = format!("is in use by another longhaul (process {})", first.pid());
    assert!(
        refused.said.contains(&owner) && refused.said.contains("  its page         http://"),
        "{refused:?}"
    );
    assert_eq!(refused.said.trim().lines().count(), 5, "{refused:?}");
    let talker = Talker::new("s", 0, place.position());
    conclude(&first.api, std::slice::from_ref(&talker), &place, &model).await;
    first.kill().await;
    place.start(Rules::default()).await.kill().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_jumps_stops_and_reorders_nothing() {
    let seed = seed("clock");
    let model = Model::start(move |asked| busy(seed, asked)).await;
    let place = Place::new(&model.url).shimmed(false);
    place.shim().be_lazy();
    let talkers = talkers(3, seed, &place);
    let mut rng = Rng::of(seed, "clock");
    let day = 24 * 3600;
    for round in 0..rounds().div_ceil(20) {
        let server = place.start(Rules { continues: round % 2 == 0, ..Rules::default() }).await;
        let tasks = talk(&server.api, &talkers);
        for days in [1, -1, 0, -20_000, 400] {
            place.shim().shift_clock(days * day);
            tokio::time::sleep(Duration::from_millis(100 + rng.below(200))).await;
        }
        server.kill().await;
        tasks.join_all().await;
        place.shim().shift_clock(-day);
    }
    let server = place.start(Rules::default()).await;
    conclude(&server.api, &talkers, &place, &model).await;
    let listed = server.api.get("/api/sessions").await.unwrap().good();
    assert_eq!(listed["sessions"].as_array().unwrap().len(), talkers.len());
    assert!(server.terminate().await.status.success());
    let mut findings = Findings::default();
    check::sound(&place.data(), &mut findings).await;
    findings.are_none("after the end");
}
