//! The file that stores the settings.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::{SettingSource, SettingsOverrides};

/// The maximum size of the file, in bytes.
const MAX_BYTES: u64 = 64 * 1024;

/// The keys that an agent file sets, for example `context.compression.strategy`.
#[doc(hidden)]
pub type ConfiguredKeys = BTreeSet<String>;

/// The file that stores the settings, and the keys of the agent file that the settings override.
#[derive(Clone, Debug)]
#[doc(hidden)]
pub struct SettingsFile {
    path: PathBuf,
    written: ConfiguredKeys,
}

impl SettingsFile {
    /// Makes a handle to the file at `path`, over an agent file that sets the keys `written`.
    pub fn new(path: PathBuf, written: ConfiguredKeys) -> Self {
        Self { path, written }
    }

    /// Returns the file's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the changed settings; a missing file has none.
    ///
    /// # Errors
    /// The file is damaged or cannot be read.
    pub fn read(&self) -> io::Result<SettingsOverrides> {
        match fs::metadata(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(SettingsOverrides::default()),
            Err(error) => return Err(error),
            // A pipe in the file's place would block the reader.
            Ok(known) if !known.is_file() => return Err(io::Error::other("it is not a regular file")),
            Ok(_) => {}
        }
        let mut bytes = Vec::new();
        File::open(&self.path)?.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > MAX_BYTES {
            return Err(io::Error::other("it is larger than 64 KiB"));
        }
        let kept: Map<String, Value> = serde_json::from_slice(&bytes)?;
        SettingsOverrides::default().changed(&kept).map_err(io::Error::other)
    }

    /// Writes the settings atomically: a reader finds the old ones or the new ones. A damaged file is renamed and kept.
    ///
    /// # Errors
    /// The folder cannot be written to.
    pub fn write(&self, choices: &SettingsOverrides) -> io::Result<()> {
        // A damaged file is set aside and not overwritten, so that a person can mend it.
        if self.read().is_err() {
            fs::rename(&self.path, self.path.with_extension("json.damaged"))?;
        }
        // Two processes may write at once, so each writes a file of its own.
        let fresh = self.path.with_extension(format!("{}.new", uuid::Uuid::now_v7()));
        let kept = write_new(&fresh, choices).and_then(|()| fs::rename(&fresh, &self.path));
        if kept.is_err() {
            // The error of the write is returned. A leftover file under a new name does no harm.
            let _ = fs::remove_file(&fresh);
        }
        kept?;
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        // Without syncing the folder, a crash could undo the rename.
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
    }

    /// Returns the origin of a setting that is not in this file. `key` is the setting's name in the agent file.
    pub(super) fn beneath(&self, key: &str) -> SettingSource {
        if self.written.contains(key) { SettingSource::AgentFile } else { SettingSource::Default }
    }
}

fn write_new(path: &Path, choices: &SettingsOverrides) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut out = options.open(path)?;
    serde_json::to_writer_pretty(&mut out, choices)?;
    out.write_all(b"\n")?;
    // The content reaches the disk before the rename: a crash could otherwise leave an empty file under the name.
    out.sync_all()
}
