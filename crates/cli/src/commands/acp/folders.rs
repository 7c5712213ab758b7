//! The working folder of each session of an editor. The log does not have it, and editors list sessions by
//! it.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use longhaul_core::ids::SessionId;
use serde::{Deserialize, Serialize};

/// The file's name in the data folder. It has a line for each session; the last line of a session counts.
const FILE: &str = "acp-folders.jsonl";

/// The folders of the sessions.
#[derive(Debug)]
pub(super) struct SessionFolderIndex {
    file: PathBuf,
    known: BTreeMap<String, PathBuf>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SessionFolderRecord {
    session_id: String,
    cwd: PathBuf,
}

impl SessionFolderIndex {
    /// Reads the file. A line that cannot be read is skipped.
    pub(super) fn load(data_dir: &Path) -> Self {
        let file = data_dir.join(FILE);
        // Without the file no session has a folder yet.
        let text = fs::read_to_string(&file).unwrap_or_default();
        let lines = text.lines().filter_map(|line| serde_json::from_str::<SessionFolderRecord>(line).ok());
        let known = lines.map(|line| (line.session_id, line.cwd)).collect();
        Self { file, known }
    }

    /// Returns the folder of a session, if an editor ever opened the session.
    pub(super) fn of(&self, session: &SessionId) -> Option<&PathBuf> {
        self.known.get(session.as_str())
    }

    /// Keeps the folder of a session.
    ///
    /// # Errors
    /// The file cannot be written; it is known until the process ends all the same.
    pub(super) fn keep(&mut self, session: &SessionId, cwd: &Path) -> io::Result<()> {
        let session_id = session.as_str().to_owned();
        // An editor opens the same sessions each day, and the file must not grow with every opening.
        if self.known.get(&session_id).is_some_and(|known| known == cwd) {
            return Ok(());
        }
        // Kept in memory first, so that a full disk does not hide the session from this process.
        self.known.insert(session_id.clone(), cwd.to_owned());
        let line = serde_json::to_string(&SessionFolderRecord { session_id, cwd: cwd.to_owned() })?;
        let mut file = OpenOptions::new().create(true).append(true).open(&self.file)?;
        // Written in one piece. The leading line break ends a partial line of a killed process.
        file.write_all(format!("\n{line}\n").as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_folder_of_a_session_counts_and_a_torn_line_harms_none() {
        let data = tempfile::tempdir().unwrap();
        let mut folders = SessionFolderIndex::load(data.path());
        assert_eq!(folders.of(&"a".into()), None);
        folders.keep(&"a".into(), Path::new("/one")).unwrap();
        folders.keep(&"b".into(), Path::new("/two")).unwrap();
        let file = data.path().join(FILE);
        let whole = fs::read(&file).unwrap();
        fs::write(&file, [&whole[..], b"{\"sessionId\":\"c\",\"cw"].concat()).unwrap();
        let mut folders = SessionFolderIndex::load(data.path());
        folders.keep(&"a".into(), Path::new("/three")).unwrap();
        let folders = SessionFolderIndex::load(data.path());
        assert_eq!(folders.of(&"a".into()), Some(&PathBuf::from("/three")));
        assert_eq!(folders.of(&"b".into()), Some(&PathBuf::from("/two")));
        assert_eq!(folders.of(&"c".into()), None);
    }

    #[test]
    fn what_is_known_is_not_written_again() {
        let data = tempfile::tempdir().unwrap();
        let mut folders = SessionFolderIndex::load(data.path());
        folders.keep(&"a".into(), Path::new("/one")).unwrap();
        let before = fs::read(data.path().join(FILE)).unwrap();
        folders.keep(&"a".into(), Path::new("/one")).unwrap();
        assert_eq!(fs::read(data.path().join(FILE)).unwrap(), before);
    }
}
