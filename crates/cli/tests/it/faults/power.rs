//! The power fails: what a disk may hold then is made from the trace of everything that was written, and the
//! real binary has to find everything in it that it had acknowledged.

use std::time::Duration;

use futures_util::StreamExt;

use super::check::{self, Findings};
use super::disk::Disk;
use super::model::{Model, Say};
use super::rng::Rng;
use super::server::{Place, Rules};
use super::talk::{Talker, busy, compare, talk, talkers};
use super::trace::{Done, Step, parse};
use super::{rounds, seed};

/// Sessions that talk while the trace is made.
const SESSIONS: usize = 3;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_power_failure_everything_acknowledged_is_there() {
    let seed = seed("power");
    // Much is to be written: the log must be moved into the database, and begin anew, more than once.
    let model = Model::start(move |asked| Say { pace: Duration::ZERO, ..busy(seed, asked) }).await;
    let place = Place::new(&model.url).shimmed(true);
    place.shim().be_lazy();
    model.note_position(place.shim().position());
    let talkers = talkers(SESSIONS, seed, &place);
    // A first start, a clean end, a crash, and another crash. A busy machine writes less in that time, and crashes more
    // often here, until the log has begun again as often as the test needs.
    let planned = [(2500, false), (2500, true), (1500, true)];
    let mut steps = Vec::new();
    for (index, (time_ms, killed)) in planned.into_iter().chain([(2500, true); 8]).enumerate() {
        if index >= planned.len() && log_beginnings(&steps) > 3 {
            break;
        }
        let server = place.start(Rules::default()).await;
        let tasks = talk(&server.api, &talkers);
        tokio::time::sleep(Duration::from_millis(time_ms)).await;
        if killed {
            server.kill().await
        } else {
            server.terminate().await
        };
        tasks.join_all().await;
        if index + 1 >= planned.len() {
            steps = parse(&place.shim().trace());
        }
    }
    let past = Past { talkers, heard: model.heard() };
    model.hurry();
    let begins = log_beginnings(&steps);
    eprintln!("power: {} operations, {} requests, {begins} logs", steps.len(), past.heard.len());
    assert!(begins > 3, "the write-ahead log never began anew");
    let mut rng = Rng::of(seed, "power");
    let (mut disk, mut taken) = (Disk::new(), 0);
    let cuts = cuts(&steps, &mut rng).into_iter().map(|cut| {
        steps[taken..cut].iter().for_each(|step| disk.take(step, &mut rng));
        taken = cut;
        (cut, restored(&disk, &model, &mut rng))
    });
    let checks = futures_util::stream::iter(cuts).for_each_concurrent(3, async |(cut, place)| {
        let context = format!("seed {seed}, power failed after operation {cut} of {}", steps.len());
        let until = steps[..cut].last().map_or(0, |step| step.position);
        check_after(place, until, &past, &model).await.are_none(&context);
    });
    checks.await;
}

/// Returns how often the write-ahead log begins.
fn log_beginnings(steps: &[Step]) -> usize {
    steps.iter().filter(|step| is_wal_begun(step)).count()
}

/// Returns whether the write-ahead log begins with this step.
fn is_wal_begun(step: &Step) -> bool {
    step.path.ends_with("-wal") && matches!(step.done, Done::Write { place: 0, .. })
}

/// Where the power fails, in order: anywhere, and around what is rare.
fn cuts(steps: &[Step], rng: &mut Rng) -> Vec<usize> {
    let rare: Vec<usize> = (0..steps.len()).filter(|index| is_rare(&steps[*index])).collect();
    let mut cuts: Vec<usize> = (0..rounds())
        .map(|round| match round % 2 {
            0 => rng.below(steps.len() as u64 + 1) as usize,
            _ => (*rng.pick(&rare) + rng.below(3) as usize).min(steps.len()),
        })
        .collect();
    cuts.sort_unstable();
    cuts
}

fn is_rare(step: &Step) -> bool {
    !matches!(step.done, Done::Write { .. }) || !step.path.ends_with("-wal")
}

/// What the outside was told while the trace was made.
pub(crate) struct Past {
    pub(crate) talkers: Vec<Talker>,
    /// As in [`Model::heard`].
    pub(crate) heard: Vec<(u64, Vec<String>)>,
}

/// Starts the binary on what a disk held, looks for everything acknowledged up to a place of the trace, and
/// goes on with one of the sessions.
pub(crate) async fn check_after(place: Place, until: u64, past: &Past, model: &Model) -> Findings {
    let Past { talkers, heard } = past;
    let mut findings = Findings::default();
    let server = match place.try_start(Rules::default()).await {
        Ok(server) => server,
        Err(ended) => {
            findings.add("start", format!("{ended:?}"));
            return findings;
        }
    };
    let logs = compare(&server.api, talkers, until, &mut findings).await;
    let finished = check::finished(&logs);
    for (position, answered) in heard {
        for id in answered.iter().filter(|id| *position <= until && !finished.contains(*id)) {
            findings.add("model", format!("was told the result of {id}, which is gone"));
        }
    }
    let known =
        talkers.iter().filter(|talker| logs.iter().any(|(session, _)| talker.session() == Some(session)));
    let known: Vec<&Talker> = known.collect();
    if !known.is_empty() {
        known[until as usize % known.len()].successor(&format!("after-{until}")).finish(&server.api).await;
    }
    findings.extend("model", model.complaints());
    assert!(server.terminate().await.status.success());
    check::sound(&place.data(), &mut findings).await;
    findings
}

/// A place with what the disk may hold after a power failure now.
pub(crate) fn restored(disk: &Disk, model: &Model, rng: &mut Rng) -> Place {
    let place = Place::new(&model.url);
    let folder = tempfile::tempdir().unwrap();
    let found = folder.path().join("found");
    disk.fail(&found, rng);
    if found.join("data").exists() {
        // Both lie in the folder for temporary files.
        std::fs::rename(found.join("data"), place.data()).unwrap();
    }
    place
}
