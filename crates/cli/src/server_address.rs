//! The address of the server of a data folder. The server records its address for other programs there.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use longhaul_store_sqlite::SqliteStore;
use rustix::process::{Pid, test_kill_process};
use serde::{Deserialize, Serialize};

/// The file's name in the data folder.
const FILE: &str = "serving.json";

/// A server with a data folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RunningServer {
    /// The id of the process.
    process: i32,
    /// The address of the page.
    pub(crate) page: String,
    /// The file with the token of other clients.
    pub(crate) token_file: PathBuf,
    /// `true` if the server is ending: new requests are refused, and current runs may finish.
    #[serde(default)]
    pub(crate) is_ending: bool,
}

impl RunningServer {
    /// Returns the record of this process.
    pub(crate) fn here(page: String, token_file: PathBuf) -> Self {
        Self { process: rustix::process::getpid().as_raw_nonzero().get(), page, token_file, is_ending: false }
    }

    /// Returns the current server of a folder, if any. The record of a killed server is ignored.
    pub(crate) fn find(folder: &Path) -> Option<Self> {
        let found = read(&folder.join(FILE)).filter(|_| SqliteStore::is_in_use(folder))?;
        let process = Pid::from_raw(found.process)?;
        // The lock alone is not enough: another command may hold the folder after a server was killed.
        test_kill_process(process).is_ok().then_some(found)
    }

    /// Writes the record. The file is removed when the returned guard is dropped.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn write_record(self, folder: &Path) -> io::Result<ServerRecordGuard> {
        let path = folder.join(FILE);
        // Not written atomically: a reader that meets half a record takes it for none.
        fs::write(&path, serde_json::to_vec(&self)?)?;
        Ok(ServerRecordGuard { path, serving: self })
    }
}

fn read(path: &Path) -> Option<RunningServer> {
    // A record that cannot be read is one of another version, or half written: as good as none.
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

/// The guard of a server's record. The file is removed when the guard is dropped.
pub(crate) struct ServerRecordGuard {
    path: PathBuf,
    serving: RunningServer,
}

impl ServerRecordGuard {
    /// Records the server's ending.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn ends(&mut self) -> io::Result<()> {
        self.serving.is_ending = true;
        fs::write(&self.path, serde_json::to_vec(&self.serving)?)
    }
}

impl Drop for ServerRecordGuard {
    fn drop(&mut self) {
        // The next server may have written its own record already.
        if read(&self.path).as_ref() == Some(&self.serving) {
            // A record that stays behind is harmless: `find` ignores it once its process has ended.
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_server_is_found_while_it_has_the_folder_and_no_longer() {
        let folder = tempfile::tempdir().unwrap();
        let here = RunningServer::here("http://127.0.0.1:4400".to_owned(), folder.path().join("token"));
        let mut told = here.clone().write_record(folder.path()).unwrap();
        assert_eq!(RunningServer::find(folder.path()), None, "nobody has the folder");
        let _store = SqliteStore::open(folder.path()).await.unwrap();
        assert_eq!(RunningServer::find(folder.path()), Some(here.clone()));
        told.ends().unwrap();
        assert!(RunningServer::find(folder.path()).is_some_and(|found| found.is_ending));
        // Left by one that was killed: this process has ended.
        let mut gone = std::process::Command::new("true").spawn().unwrap();
        gone.wait().unwrap();
        let killed = RunningServer { process: i32::try_from(gone.id()).unwrap(), ..here };
        let left = killed.write_record(folder.path()).unwrap();
        assert_eq!(RunningServer::find(folder.path()), None);
        drop(told);
        assert!(folder.path().join(FILE).exists(), "what another has written stays");
        drop(left);
        assert!(!folder.path().join(FILE).exists());
    }
}
