//! The public data of the measures.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use flate2::bufread::GzDecoder;
use longhaul_core::message::Role;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::ChatTurn;

/// A folder with the public data: `compint.json`, `filler.json.gz`, `lost_d80_C1.json.gz`, `locomo.json.gz`
/// and `compactbench/*.yaml`. The files name their sources.
#[derive(Clone, Debug)]
pub(crate) struct ReceiptsFolder {
    folder: PathBuf,
}

/// The reason why a file of the public data cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{}: {kind}", path.display())]
pub(crate) struct ReceiptsError {
    /// The file.
    pub(crate) path: PathBuf,
    /// The kind of the fault.
    pub(crate) kind: ReceiptsErrorKind,
}

/// The fault of a file of the public data.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum ReceiptsErrorKind {
    /// The file cannot be read.
    #[error("it cannot be read: {}", longhaul::io_error::io_error_text(.0))]
    Io(#[from] std::io::Error),
    /// The file is no JSON of the expected shape.
    #[error("it has another shape than expected: {0}")]
    Json(#[from] serde_json::Error),
    /// The file is no YAML of the expected shape.
    #[error("it has another shape than expected: {0}")]
    Yaml(String),
}

#[derive(Deserialize)]
struct CompintFile {
    constraints: Vec<SideConstraint>,
}

#[derive(Deserialize)]
struct SideConstraint {
    text: String,
}

#[derive(Deserialize)]
struct FillerChat {
    messages: Vec<ChatTurn>,
}

impl ReceiptsFolder {
    /// Opens a folder of public data. Nothing is read yet.
    pub(crate) fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// Returns the folder.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the 15 standing orders of COMPINT.
    ///
    /// # Errors
    /// [`ReceiptsError`] if the file is missing or has another shape.
    pub(crate) fn compint(&self) -> Result<Vec<String>, ReceiptsError> {
        let file: CompintFile = self.read_json("compint.json")?;
        Ok(file.constraints.into_iter().map(|it| it.text).collect())
    }

    /// Returns about 200,000 tokens of chat that has nothing to do with any case. The user speaks first.
    ///
    /// # Errors
    /// [`ReceiptsError`] if the file is missing or has another shape.
    pub(crate) fn filler(&self) -> Result<Vec<ChatTurn>, ReceiptsError> {
        let chat: FillerChat = self.read_json("filler.json.gz")?;
        // A chat must begin with its user, whatever stands first in the data.
        Ok(chat.messages.into_iter().skip_while(|turn| turn.role != Role::User).collect())
    }

    pub(super) fn read_json<T: DeserializeOwned>(&self, name: &str) -> Result<T, ReceiptsError> {
        let path = self.folder.join(name);
        read_json_file(&path).map_err(|kind| ReceiptsError { path, kind })
    }
}

/// Reads a JSON file, packed if its name ends in `.gz`.
fn read_json_file<T: DeserializeOwned>(path: &Path) -> Result<T, ReceiptsErrorKind> {
    let file = BufReader::new(File::open(path)?);
    if path.extension().is_some_and(|extension| extension == "gz") {
        Ok(serde_json::from_reader(BufReader::new(GzDecoder::new(file)))?)
    } else {
        Ok(serde_json::from_reader(file)?)
    }
}
