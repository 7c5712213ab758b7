//! Reading beside a process that writes, and where nothing can be written.

use std::path::Path;

use longhaul_core::ids::SessionId;
use longhaul_store::{Store, StoreError};
use longhaul_store_sqlite::SqliteStore;

use crate::{append, begin, database, last_seq, open};

async fn open_to_read(folder: &Path) -> SqliteStore {
    SqliteStore::open_to_read(folder).await.unwrap()
}

#[tokio::test]
async fn a_reader_sees_what_is_committed_beside_it_and_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).await;
    assert!(SqliteStore::is_in_use(folder.path()));
    let lease = begin(&store, "s").await;
    append(&store, &lease, 10).await.unwrap();
    let reader = open_to_read(folder.path()).await;
    assert_eq!(last_seq(&reader, "s").await, 2);
    append(&store, &lease, 10).await.unwrap();
    assert_eq!(last_seq(&reader, "s").await, 3);
    let id = SessionId::from("s");
    assert_eq!(reader.claim(&id, "other").await, Err(StoreError::ReadOnly));
    assert_eq!(append(&reader, &lease, 10).await, Err(StoreError::ReadOnly));
    assert_eq!(reader.delete(&id).await, Err(StoreError::ReadOnly));
    assert!(reader.watch(&id).await.is_err());
    reader.close().await;
    assert_eq!(append(&store, &lease, 10).await, Ok(4), "the lease is still the writer's");
    store.close().await;
    assert!(!SqliteStore::is_in_use(folder.path()));
    // A reader is in nobody's way.
    let reader = open_to_read(folder.path()).await;
    let store = open(folder.path()).await;
    let lease = store.claim(&id, "next").await.unwrap();
    assert_eq!(append(&store, &lease, 10).await, Ok(5));
    assert_eq!(last_seq(&reader, "s").await, 5);
    reader.close().await;
    store.close().await;
}

#[tokio::test]
async fn nothing_is_created_to_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let inside = folder.path().join("none");
    let error = SqliteStore::open_to_read(&inside).await.unwrap_err();
    assert!(matches!(error, StoreError::NotFound(_)), "{error}");
    assert!(!inside.exists());
    std::fs::write(folder.path().join("longhaul.db"), "not a database, but long enough ".repeat(100))
        .unwrap();
    let error = SqliteStore::open_to_read(folder.path()).await.unwrap_err();
    assert!(matches!(error, StoreError::Corrupt(_)), "{error}");
}

#[tokio::test]
async fn another_schema_is_refused_and_left_as_it_is() {
    for (sql, words) in [
        (
            "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
             VALUES (9000, 'from the future', 1, x'00', 0)",
            ["newer version", "9000"],
        ),
        ("DELETE FROM _sqlx_migrations WHERE version > 1", ["older version", "schema is 1"]),
        ("DROP TABLE _sqlx_migrations", ["older version", "schema is 0"]),
    ] {
        let folder = tempfile::tempdir().unwrap();
        open(folder.path()).await.close().await;
        sqlx::query(sql).execute(&mut database(folder.path()).await).await.unwrap();
        let error = SqliteStore::open_to_read(folder.path()).await.unwrap_err();
        assert_eq!(matches!(error, StoreError::Outdated(_)), words[0] == "older version", "{error}");
        let why = error.to_string();
        assert!(words.iter().all(|word| why.contains(word)), "{why}");
        let again = SqliteStore::open_to_read(folder.path()).await.unwrap_err();
        assert_eq!(again, error, "reading has changed nothing");
    }
}

#[cfg(target_os = "linux")]
mod on_a_disk_of_its_own {
    use longhaul_store::{Store as _, StoreError};
    use longhaul_store_sqlite::SqliteStore;

    use super::{append, begin, last_seq, open, open_to_read};
    use crate::full_disk::SmallDisk;

    /// What a process that was killed leaves: the files as they are while it works.
    fn left_by_a_crash(from: &std::path::Path, to: &std::path::Path) {
        std::fs::create_dir(to).unwrap();
        for file in std::fs::read_dir(from).unwrap() {
            let file = file.unwrap();
            std::fs::copy(file.path(), to.join(file.file_name())).unwrap();
        }
    }

    #[tokio::test]
    async fn reading_needs_no_room_and_no_right_to_write() {
        let Some(disk) = SmallDisk::mount() else {
            println!("skipped: reading_needs_no_room_… (mounting a small file system needs root)");
            return;
        };
        let (ended, crashed) = (disk.path().join("ended"), disk.path().join("crashed"));
        let store = open(&ended).await;
        let lease = begin(&store, "s").await;
        append(&store, &lease, 20_000).await.unwrap();
        left_by_a_crash(&ended, &crashed);
        store.close().await;
        assert!(!ended.join("longhaul.db-wal").exists(), "it ended as it should");
        assert!(std::fs::metadata(crashed.join("longhaul.db-wal")).unwrap().len() > 0);
        let read = async || {
            for folder in [&ended, &crashed] {
                let reader = open_to_read(folder).await;
                assert_eq!(last_seq(&reader, "s").await, 2, "{}", folder.display());
                reader.close().await;
            }
        };
        disk.fill();
        read().await;
        opened_anyway(&[&ended, &crashed], "full").await;
        disk.forbid_writing();
        read().await;
        opened_anyway(&[&ended, &crashed], "read-only").await;
    }

    /// What is opened to be written where nothing can be written is read, and says why it is not written.
    async fn opened_anyway(folders: &[&std::path::Path], word: &str) {
        for folder in folders {
            let store = SqliteStore::open_or_read(folder).await.unwrap();
            assert_eq!(last_seq(&store, "s").await, 2, "{}", folder.display());
            // On a full disk the last block of a file may have room for a page, but not for this.
            let written = match store.claim(&"s".into(), "x").await {
                Ok(lease) => append(&store, &lease, 20_000).await.map(drop),
                Err(refused) => Err(refused),
            };
            for refused in [written, store.check_writable().await] {
                let Err(StoreError::Storage(why)) = refused else { panic!("{refused:?}") };
                assert!(why.contains(word), "{why}");
            }
            store.close().await;
        }
    }
}
