//! The folder in which a session began. A session speaks of the files there, and its tools work in the workspace of the
//! runtime that has it now.

use std::fmt;
use std::path::{Path, PathBuf};

/// Two folders of a session: the one in which it began, and the other one in which its tools work now.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[doc(hidden)]
pub struct MovedSession {
    /// The folder in which the session began.
    pub begun_in: PathBuf,
    /// The workspace of the runtime.
    pub workspace: PathBuf,
}

impl MovedSession {
    /// Compares the folder of a session's beginning with a workspace; `None` if both are one folder.
    pub fn compare(begun_in: &Path, workspace: &Path) -> Option<Self> {
        let (begun_in, workspace) = (without_links(begun_in), without_links(workspace));
        (begun_in != workspace).then_some(Self { begun_in, workspace })
    }
}

impl fmt::Display for MovedSession {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "this session was begun in {}, and its tools work in {} now: files that it speaks of may be others",
            self.begun_in.display(),
            self.workspace.display()
        )
    }
}

/// Returns a path without links, so that one folder has one name.
fn without_links(folder: &Path) -> PathBuf {
    // A folder that has gone keeps the name that it was called by.
    folder.canonicalize().unwrap_or_else(|_| folder.to_owned())
}

#[cfg(test)]
mod tests {
    use longhaul_core::event::EventBody;

    use super::*;

    #[test]
    fn a_log_of_an_older_version_has_no_folder_and_is_written_as_it_was() {
        let old = r#"{"kind":"session-started","title":"Old","forkedFrom":null,"importedFrom":null}"#;
        let body: EventBody = serde_json::from_str(old).unwrap();
        assert!(matches!(&body, EventBody::SessionStarted { folder: None, .. }));
        assert_eq!(serde_json::to_string(&body).unwrap(), old);
    }

    #[test]
    fn one_folder_is_no_other_whatever_it_is_called() {
        let folder = tempfile::tempdir().unwrap();
        let [one, other] = ["one", "other"].map(|name| folder.path().join(name));
        std::fs::create_dir(&one).unwrap();
        std::fs::create_dir(&other).unwrap();
        std::os::unix::fs::symlink(&one, folder.path().join("link")).unwrap();
        assert_eq!(MovedSession::compare(&one, &one.join("../link")), None);
        let moved = MovedSession::compare(&one, &other).unwrap();
        assert!(moved.to_string().contains("begun in") && moved.workspace.ends_with("other"));
        assert!(MovedSession::compare(Path::new("/gone/away"), &other).is_some());
        assert_eq!(MovedSession::compare(Path::new("/gone/away"), Path::new("/gone/away")), None);
    }
}
