//! What is not opened, and what is not read.

use longhaul_core::ids::SessionId;
use longhaul_store::{Store, StoreError};
use longhaul_store_sqlite::SqliteStore;

use crate::{append, begin, database, open};

#[tokio::test]
async fn a_second_opening_of_a_folder_names_the_first() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).await;
    let locked = StoreError::Locked {
        folder: folder.path().display().to_string(),
        by: Some(format!("process {}", std::process::id())),
    };
    assert_eq!(SqliteStore::open(folder.path()).await.unwrap_err(), locked);
    store.close().await;
    open(folder.path()).await.close().await;
}

#[tokio::test]
async fn a_file_that_is_no_database_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("longhaul.db");
    let content = "not a database, but long enough to look like one ".repeat(100);
    std::fs::write(&file, &content).unwrap();
    let error = SqliteStore::open(folder.path()).await.unwrap_err();
    assert!(matches!(error, StoreError::Corrupt(_)), "{error}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), content);
}

#[cfg(unix)]
#[tokio::test]
async fn a_pipe_where_a_file_should_be_is_not_waited_for() {
    for name in ["longhaul.lock", "longhaul.db", "longhaul.db-wal", "longhaul.db-shm"] {
        let folder = tempfile::tempdir().unwrap();
        open(folder.path()).await.close().await;
        let path = folder.path().join(name);
        let _ = std::fs::remove_file(&path);
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        assert!(!SqliteStore::is_in_use(folder.path()));
        let read = SqliteStore::open_to_read(folder.path()).await.unwrap_err();
        let written = SqliteStore::open(folder.path()).await.unwrap_err();
        let expected = StoreError::Storage(format!("{}: not a regular file", path.display()));
        assert_eq!((&read, &written), (&expected, &expected));
    }
}

#[cfg(unix)]
#[tokio::test]
async fn a_link_is_not_taken_for_the_lock_and_what_it_names_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let (kept, missing) = (folder.path().join("kept"), folder.path().join("missing"));
    std::fs::write(&kept, "somebody else's").unwrap();
    for target in [&kept, &missing] {
        open(&data).await.close().await;
        let lock = data.join("longhaul.lock");
        std::fs::remove_file(&lock).unwrap();
        std::os::unix::fs::symlink(target, &lock).unwrap();
        let refused = StoreError::Storage(format!("{}: not a regular file", lock.display()));
        assert_eq!(SqliteStore::open(&data).await.unwrap_err(), refused);
        assert_eq!(SqliteStore::open_to_read(&data).await.unwrap_err(), refused);
        std::fs::remove_file(&lock).unwrap();
    }
    assert_eq!(std::fs::read_to_string(&kept).unwrap(), "somebody else's");
    assert!(!missing.exists());
}

#[tokio::test]
async fn a_folder_that_cannot_be_made_is_a_storage_error() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let error = SqliteStore::open(&file.join("below")).await.unwrap_err();
    assert!(matches!(error, StoreError::Storage(_)), "{error}");
}

#[tokio::test]
async fn a_newer_schema_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    open(folder.path()).await.close().await;
    damage(
        folder.path(),
        "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
         VALUES (9000, 'from the future', 1, x'00', 0)",
    )
    .await;
    let error = SqliteStore::open(folder.path()).await.unwrap_err();
    let StoreError::Storage(why) = error else { panic!("{error}") };
    assert!(why.contains("newer version") && why.contains("9000"), "{why}");
}

/// A store whose session `s` had three events when `sql` changed it behind its back.
async fn damaged(sql: &'static str) -> (SqliteStore, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).await;
    let lease = begin(&store, "s").await;
    append(&store, &lease, 1).await.unwrap();
    append(&store, &lease, 1).await.unwrap();
    store.close().await;
    damage(folder.path(), sql).await;
    (open(folder.path()).await, folder)
}

async fn damage(folder: &std::path::Path, sql: &'static str) {
    let mut db = database(folder).await;
    let changed = sqlx::query(sql).execute(&mut db).await.unwrap();
    assert_eq!(changed.rows_affected(), 1);
}

/// Reading `s` fails at its second event, and says so; what is before it can be read.
async fn assert_unreadable(sql: &'static str, words: &[&str]) {
    let (store, _folder) = damaged(sql).await;
    let id = SessionId::from("s");
    for answer in [store.read(&id, 0, 10).await, store.tail(&id, 2).await] {
        let Err(error @ StoreError::Damaged { seq: 2, .. }) = answer else { panic!("{answer:?}") };
        let why = error.to_string();
        for word in words {
            assert!(why.contains(word), "{why}");
        }
    }
    assert_eq!(store.read(&id, 0, 1).await.unwrap().len(), 1);
    assert_eq!(store.tail(&id, 1).await.unwrap()[0].seq, 3);
    store.close().await;
}

#[tokio::test]
async fn an_event_of_unknown_kind_is_corrupt() {
    let sql = r#"UPDATE event SET body = '{"kind":"teleported"}', checksum = NULL WHERE id & 0xffffffff = 2"#;
    assert_unreadable(sql, &["event 2 of session s", "teleported"]).await;
}

#[tokio::test]
async fn an_event_of_a_newer_format_is_corrupt() {
    let sql = "UPDATE event SET format = 700, checksum = NULL WHERE id & 0xffffffff = 2";
    assert_unreadable(sql, &["event 2 of session s", "700"]).await;
}

#[tokio::test]
async fn a_missing_event_is_corrupt() {
    let sql = "DELETE FROM event WHERE id & 0xffffffff = 2";
    assert_unreadable(sql, &["event 2 of session s", "missing"]).await;
}
