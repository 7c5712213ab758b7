//! A disk that runs full, and has room again.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use longhaul_store::{Store, StoreError};

use crate::{append, assert_sound, begin, last_seq, open};

/// A file system of its own, of four megabytes. Only root may make one.
pub(crate) struct SmallDisk {
    folder: tempfile::TempDir,
}

impl SmallDisk {
    pub(crate) fn mount() -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            return None;
        }
        let disk = Self { folder: tempfile::tempdir().unwrap() };
        // tmpfs has no blocks in reserve for root, so it is full for the test too, and it vanishes with the
        // mount.
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=4m", "tmpfs"])
            .arg(disk.path())
            .status()
            .is_ok_and(|status| status.success());
        mounted.then_some(disk)
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Leaves no room for another byte.
    pub(crate) fn fill(&self) {
        let mut file = std::fs::File::create(self.path().join("rest")).unwrap();
        while file.write_all(&[0; 4096]).is_ok() {}
    }

    pub(crate) fn forbid_writing(&self) {
        let mounted = Command::new("mount").args(["-o", "remount,ro"]).arg(self.path()).status().unwrap();
        assert!(mounted.success());
    }

    fn reserve(&self) -> PathBuf {
        // Removed by the test later, so that there is room again without touching the database.
        let file = self.path().join("reserve");
        std::fs::write(&file, vec![0; 1 << 20]).unwrap();
        file
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.path()).status();
    }
}

#[tokio::test]
async fn a_full_disk_loses_nothing_and_writes_resume_when_there_is_room() {
    let Some(disk) = SmallDisk::mount() else {
        println!("skipped: full_disk (mounting a small file system needs root)");
        return;
    };
    let reserve = disk.reserve();
    let store = open(&disk.path().join("data")).await;
    let lease = begin(&store, "s").await;
    let mut acknowledged = 1;
    let error = loop {
        match append(&store, &lease, 20_000).await {
            Ok(seq) => acknowledged = seq,
            Err(error) => break error,
        }
        assert!(acknowledged < 1000, "four megabytes are never full");
    };
    assert!(matches!(&error, StoreError::Storage(why) if why.contains("full")), "{error}");
    assert_eq!(last_seq(&store, "s").await, acknowledged);
    disk.fill();
    let unready = store.check_writable().await;
    assert!(matches!(&unready, Err(StoreError::Storage(why)) if why.contains("full")), "{unready:?}");
    std::fs::remove_file(disk.path().join("rest")).unwrap();
    std::fs::remove_file(reserve).unwrap();
    assert_eq!(store.check_writable().await, Ok(()));
    assert_eq!(append(&store, &lease, 20_000).await, Ok(acknowledged + 1));
    assert_eq!(last_seq(&store, "s").await, acknowledged + 1);
    store.close().await;
    assert_sound(&disk.path().join("data")).await;
}
