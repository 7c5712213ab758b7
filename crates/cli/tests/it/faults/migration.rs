//! `kill -9` in the middle of a migration.

use std::path::Path;

use sqlx::migrate::Migrator;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode};
use sqlx::{ConnectOptions, Connection};

use super::check::{self, Findings};
use super::model::Model;
use super::points::{each, moment, points, shimmed};
use super::rng::Rng;
use super::server::{Place, Rules};
use super::shim::{Moment, kind};
use super::talk::{Talker, brief, conclude};
use super::{rounds, seed};

/// A session as the first version stored it.
const OLD_SESSION: &str = r#"
INSERT INTO session (id, title, created_ms, updated_ms, last_seq, running) VALUES ('old', 'Old', 1, 2, 2, 0);
INSERT INTO event (id, format, epoch, at_ms, body) VALUES
  (4294967297, 1, 0, 1, '{"kind":"session-started","title":"Old","forkedFrom":null,"importedFrom":null}'),
  (4294967298, 1, 0, 2, '{"kind":"title-set","title":"Older"}');
INSERT INTO inbox (session_no, queue_id, client_key, queued_ms, body)
  VALUES (1, 'waits', 'key', 2, '[{"type":"text","text":"[old]"}]');
"#;

/// Puts into the place what a version with the schema of `version` would have left there.
async fn make_old(place: &Place, migrator: &Migrator, version: i64) {
    std::fs::create_dir(place.data()).unwrap();
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    std::fs::set_permissions(place.data(), private).unwrap();
    let options = SqliteConnectOptions::new().filename(place.data().join("longhaul.db")).page_size(8192);
    let options = options.create_if_missing(true).journal_mode(SqliteJournalMode::Wal);
    let mut db = options.connect().await.unwrap();
    migrator.run_to(version, &mut db).await.unwrap();
    sqlx::raw_sql(OLD_SESSION).execute(&mut db).await.unwrap();
    db.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_at_any_write_of_a_migration() {
    let seed = seed("migration");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../store-sqlite/migrations");
    let migrator = Migrator::new(folder).await.unwrap();
    let versions: Vec<i64> = migrator.iter().map(|migration| migration.version).collect();
    let (newest, older) = versions.split_last().unwrap();
    let model = Model::start(brief).await;
    for version in older {
        let place = shimmed(Place::new(&model.url));
        make_old(&place, &migrator, *version).await;
        place.shim().kill_at(u64::MAX >> 1, Moment::Before, kind::ALL, "data");
        place.start(Rules::default()).await.kill().await;
        let total = place.shim().counted();
        let points = points(total, rounds(), seed);
        eprintln!("migration: from {version} to {newest}, killed at {} of {total} writes", points.len());
        each(points, async |n| {
            let mut place = shimmed(Place::new(&model.url));
            make_old(&place, &migrator, *version).await;
            place.shim().kill_at(n, moment(&mut Rng::of(seed, n)), kind::ALL, "data");
            if let Ok(server) = place.try_start(Rules::default()).await {
                server.kill().await;
            }
            place.shim = None;
            let server = place.start(Rules::default()).await;
            let talker = Talker::of("old", &format!("n{n}"));
            let events = conclude(&server.api, std::slice::from_ref(&talker), &place, &model).await;
            let taken = events.iter().filter(|event| check::says(event, "[old]")).count();
            assert_eq!(taken, 1, "killed at {n}: what waited is in the history {taken} times");
            assert!(server.terminate().await.status.success());
            let mut findings = Findings::default();
            check::sound(&place.data(), &mut findings).await;
            findings.are_none("after the end");
        })
        .await;
    }
}
