//! A disk that is full, one that fails to flush, one that cannot be written.

use std::time::Duration;

use super::check::{self, Findings};
use super::disk::Disk;
use super::model::{Model, Say};
use super::points::each;
use super::power::{Past, check_after, restored};
use super::rng::Rng;
use super::server::{Place, Rules};
use super::talk::{Talker, brief, busy, conclude, talk, talkers};
use super::trace::{Done, parse};
use super::{rounds, seed};

/// The write-ahead log, the database itself, and stored content, as the shim knows them.
const WAL: &str = "longhaul.db-wal$";
const DATABASE: &str = "longhaul.db$";
const BLOBS: &str = "data/blobs/";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_is_told_and_goes_on_when_there_is_room() {
    let model = Model::start(brief).await;
    let place = Place::new(&model.url).shimmed(false);
    let server = place.start(Rules::default()).await;
    let talker = Talker::new("s", 0, place.position());
    talker.finish(&server.api).await;
    place.shim().fill(true);
    let text = talker.next_text();
    let refused = server.api.send(talker.session(), &text, &text).await.unwrap();
    assert_eq!((refused.status, &refused.body["code"]), (503, &"storage".into()), "{refused:?}");
    assert!(refused.body["type"].as_str().unwrap().starts_with("urn:longhaul:problem:"), "{refused:?}");
    assert_eq!(server.api.session(talker.session().unwrap()).await.unwrap().status, 200, "reading goes on");
    server.until_said("the disk is full").await;
    place.shim().fill(false);
    assert_eq!(talker.send(&server.api, &text).await.unwrap(), 200);
    conclude(&server.api, std::slice::from_ref(&talker), &place, &model).await;
    assert!(server.terminate().await.status.success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_fills_during_a_run_is_told_to_those_who_watch() {
    let model = Model::start(|asked| {
        let (words, pace) =
            if asked.number == 0 { (500, Duration::from_millis(20)) } else { (2, Duration::ZERO) };
        Say { text: "word ".repeat(words), pace, ..Say::default() }
    })
    .await;
    let place = Place::new(&model.url).shimmed(false);
    let mut server = place.start(Rules::default()).await;
    let talker = Talker::new("s", 0, place.position());
    talker.begin(&server.api).await.unwrap();
    let told = async {
        let account = talker.account();
        account.until("the answer streams", |entries| entries.has_passed("llm:chunk")).await;
        place.shim().fill(true);
        let cancel = format!("/api/sessions/{}/cancel", talker.session().unwrap());
        // Something must be stored now.
        let _ = server.api.post(&cancel, serde_json::json!({})).await;
        account
            .until("the watcher is told", |entries| {
                entries.passing.iter().any(|told| told["name"] == "llm:error" && told["code"] == "storage")
            })
            .await;
    };
    tokio::join!(talker.watch(&server.api), told);
    assert!(server.is_running(), "{}", server.said());
    place.shim().fill(false);
    conclude(&server.api, std::slice::from_ref(&talker), &place, &model).await;
    assert!(server.terminate().await.status.success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_is_full_now_and_then_loses_nothing() {
    let seed = seed("full");
    let model = Model::start(move |asked| busy(seed, asked)).await;
    let mut place = Place::new(&model.url).shimmed(false);
    place.shim().be_lazy();
    let talkers = talkers(3, seed, &place);
    let mut rng = Rng::of(seed, "full");
    let mut server = place.start(Rules::default()).await;
    for _ in 0..rounds().div_ceil(10) {
        let tasks = talk(&server.api, &talkers);
        for full in [false, true, false, true] {
            place.shim().fill(full);
            tokio::time::sleep(Duration::from_millis(100 + rng.below(400))).await;
            assert!(server.is_running(), "{}", server.said());
        }
        // Half of the crashes meet a full disk, also in the next start.
        place.shim().fill(rng.chance(50));
        server.kill().await;
        tasks.join_all().await;
        if let Ok(started) = place.try_start(Rules::default()).await {
            started.kill().await;
        }
        place.shim().fill(false);
        server = place.start(Rules::default()).await;
    }
    conclude(&server.api, &talkers, &place, &model).await;
    assert!(server.terminate().await.status.success());
    place.shim = None;
    let mut findings = Findings::default();
    check::sound(&place.data(), &mut findings).await;
    findings.are_none("after the end");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_flush_is_final_until_the_next_start() {
    let model = Model::start(brief).await;
    let place = Place::new(&model.url).shimmed(false);
    let server = place.start(Rules::default()).await;
    let talker = Talker::new("s", 0, place.position());
    talker.finish(&server.api).await;
    place.shim().break_syncs(1, WAL);
    for attempt in 0..3 {
        let text = talker.next_text();
        let refused = server.api.send(talker.session(), &text, &text).await.unwrap();
        assert_eq!(
            (refused.status, &refused.body["code"]),
            (503, &"storage".into()),
            "{attempt}: {refused:?}"
        );
    }
    server.until_said("nothing more is written until the next start").await;
    server.terminate().await;
    let server = place.start(Rules::default()).await;
    conclude(&server.api, std::slice::from_ref(&talker), &place, &model).await;
    assert!(server.terminate().await.status.success());
}

/// What a failed fsync had to flush may never reach the disk, though every later fsync succeeds and the
/// running system shows it: only a power failure tells.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_survives_failed_flushes_and_a_power_failure() {
    let seed = seed("flushes");
    each(0..rounds().div_ceil(10), async |round| {
        let mut rng = Rng::of(seed, ("flushes", round));
        let model = Model::start(move |asked| busy(seed + round, asked)).await;
        let place = Place::new(&model.url).shimmed(true);
        place.shim().be_lazy();
        model.note_position(place.shim().position());
        let talkers = talkers(2, seed + round, &place);
        let pattern = *rng.pick(&[WAL, WAL, DATABASE, BLOBS]);
        talk_while_flushes_fail(&place, &talkers, pattern, &mut rng).await;
        let past = Past { talkers, heard: model.heard() };
        model.hurry();
        let steps = parse(&place.shim().trace());
        let failed = steps.iter().position(|step| matches!(step.done, Done::SyncFailed { .. })).unwrap_or(0);
        let mut cuts = vec![steps.len(); 3];
        cuts[..2].fill_with(|| failed + rng.below((steps.len() - failed) as u64) as usize);
        cuts.sort_unstable();
        let (mut disk, mut taken) = (Disk::new(), 0);
        for cut in cuts {
            steps[taken..cut].iter().for_each(|step| disk.take(step, &mut rng));
            taken = cut;
            let until = steps[..cut].last().map_or(0, |step| step.position);
            let context = format!(
                "seed {seed} round {round}, {pattern} failed to flush at {failed}, power failed at {cut} of {}",
                steps.len()
            );
            check_after(restored(&disk, &model, &mut rng), until, &past, &model).await.are_none(&context);
        }
    })
    .await;
}

/// The server ends or is killed after that, and the next one believes what it reads.
async fn talk_while_flushes_fail(place: &Place, talkers: &[Talker], pattern: &str, rng: &mut Rng) {
    let server = place.start(Rules::default()).await;
    let tasks = talk(&server.api, talkers);
    tokio::time::sleep(Duration::from_millis(300 + rng.below(700))).await;
    place.shim().break_syncs(*rng.pick(&[1, 1, 3, -1]), pattern);
    tokio::time::sleep(Duration::from_millis(500)).await;
    if rng.chance(50) {
        server.terminate().await
    } else {
        server.kill().await
    };
    tasks.join_all().await;
    place.shim().break_syncs(0, "");
    let server = place.start(Rules::default()).await;
    let tasks = talk(&server.api, talkers);
    tokio::time::sleep(Duration::from_millis(300)).await;
    server.kill().await;
    tasks.join_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_that_cannot_be_written_is_named_and_what_is_in_it_is_read() {
    let model = Model::start(brief).await;
    let place = Place::new(&model.url).shimmed(false);
    place.shim().make_read_only(true);
    let ended = place.try_start(Rules::default()).await.err().expect("there is nothing to read");
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    let named = ended.said.contains(place.data().to_str().unwrap());
    let is_told =
        ["Read-only file system", "the file system is read-only"].iter().any(|it| ended.said.contains(it));
    assert!(named && is_told && !ended.said.contains("os error"), "{ended:?}");
    assert_eq!(ended.said.trim().lines().count(), 1, "{ended:?}");
    place.shim().make_read_only(false);
    let server = place.start(Rules::default()).await;
    let talker = Talker::new("s", 0, place.position());
    talker.finish(&server.api).await;
    assert!(server.terminate().await.status.success());

    place.shim().make_read_only(true);
    let server = place.start(Rules::default()).await;
    server.until_said("Read-only file system").await;
    let session = talker.session().unwrap();
    assert_eq!(server.api.session(session).await.unwrap().status, 200, "it is read");
    let text = talker.next_text();
    let refused = server.api.send(Some(session), &text, &text).await.unwrap();
    assert_eq!((refused.status, &refused.body["code"]), (503, &"storage".into()), "{refused:?}");
    server.kill().await;
    place.shim().make_read_only(false);
    let server = place.start(Rules::default()).await;
    conclude(&server.api, std::slice::from_ref(&talker), &place, &model).await;
    assert!(server.terminate().await.status.success());
}
