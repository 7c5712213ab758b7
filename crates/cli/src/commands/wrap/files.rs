//! Files of other programs: changed after a copy was made, and put back.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use longhaul::io_error::io_error_text;
use longhaul::text_encoding::{DecodedText, encode_like};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::clients::ClientSettingsFile;
use super::merge::{self, SettingsFileChange};
use crate::data;
use crate::environment::CliEnvironment;
use crate::failure::{CommandError, Outcome};

/// The folder below the data folder for records of written files, and for files that belong to Longhaul.
pub(super) const FOLDER: &str = "wrapped";

/// The files that were written for one client.
pub(super) struct ClientFileChanges {
    folder: PathBuf,
    record: PathBuf,
}

/// A file that was written.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct ClientFileRecord {
    path: PathBuf,
    /// The copy of the original file; `None` if there was no file.
    copy: Option<PathBuf>,
    /// The hash of the written content.
    hash: String,
    /// The keys that were set in a JSON file. They can be removed even if the client changed the file since.
    #[serde(default)]
    keys: Option<Value>,
}

/// The way in which a file is restored.
enum FileRestoration {
    AsItWas,
    /// The file was changed since. This is its content without the written settings.
    Without(Vec<u8>),
}

impl ClientFileRecord {
    fn undone(&self) -> Outcome<FileRestoration> {
        // A file that was removed in the meantime counts as unchanged: its copy is put back.
        let Some(now) = read(&self.path)?.filter(|now| hash(now) != self.hash) else {
            return Ok(FileRestoration::AsItWas);
        };
        let before = self.copy.as_deref().map(read).transpose()?.flatten();
        self.without_keys(&now, before.as_deref()).map(FileRestoration::Without).ok_or_else(|| {
            let before = match &self.copy {
                Some(copy) => format!("as it was before: {}", copy.display()),
                None => "before there was none".to_owned(),
            };
            CommandError::new(format!(
                "{} was changed since, and is left alone; {before}",
                self.path.display()
            ))
        })
    }

    /// Returns the file `now` without the written keys, in its encoding; `None` if they cannot be told from the rest.
    fn without_keys(&self, now: &[u8], before: Option<&[u8]>) -> Option<Vec<u8>> {
        // Settings in an unknown encoding are not merged: a wrong guess would spoil the rest of the file.
        let before = before.and_then(|before| DecodedText::new(before).strict().ok());
        let text = DecodedText::new(now).strict().ok()?;
        let without = merge::without(&text, before.as_deref(), self.keys.as_ref()?).ok()?;
        Some(encode_like(now, &without))
    }
}

/// A file that is to be written.
#[derive(Debug)]
pub(super) struct FileChangePlan {
    pub(super) path: PathBuf,
    /// The settings, for people.
    pub(super) shown: String,
    old: Option<Vec<u8>>,
    new: Vec<u8>,
    keys: Option<Value>,
}

impl ClientFileChanges {
    pub(super) fn of(place: &CliEnvironment, client: &str) -> Self {
        let folder = place.data_dir.join(FOLDER);
        Self { record: folder.join(format!("{client}.json")), folder }
    }

    /// Returns the change that would be written. Returns `None` if the file has the settings already.
    ///
    /// # Errors
    /// The file cannot be read, or is not what it should be.
    pub(super) fn plan(&self, file: &ClientSettingsFile) -> Outcome<Option<FileChangePlan>> {
        // The target of a link is written, so that the link itself stays.
        let path = fs::canonicalize(&file.path).unwrap_or_else(|_| file.path.clone());
        let old = read(&path)?;
        let bytes = old.as_deref().unwrap_or_default();
        let text = DecodedText::new(bytes).strict().map_err(|damage| format!("it has {damage}"));
        let new = text.and_then(|text| file.change.applied(&text)).map_err(|why| {
            CommandError::new(format!(
                "{} is left alone: {why}; add what is printed without --write yourself",
                path.display()
            ))
        })?;
        // Editors on Windows write UTF-16 and byte order marks, and the client expects what it has written.
        let new = encode_like(bytes, &new);
        let is_same = old.as_deref() == Some(new.as_slice());
        let keys = match &file.change {
            SettingsFileChange::Json(keys) => Some(keys.clone()),
            _ => None,
        };
        Ok((!is_same).then(|| FileChangePlan { path, shown: file.change.shown(), old, new, keys }))
    }

    /// Writes a planned change. Returns the path of the copy of the original, if there was one.
    ///
    /// # Errors
    /// The file cannot be written, and is then unchanged.
    pub(super) fn write(&self, planned: &FileChangePlan) -> Outcome<Option<PathBuf>> {
        let mut all = self.written()?;
        let known = all.iter().position(|written| written.path == planned.path).map(|at| all.remove(at));
        // Our own last version needs no copy. The copy of the original stays.
        let untouched = known.filter(|known| planned.old.as_deref().map(hash) == Some(known.hash.clone()));
        let copy = match (&untouched, &planned.old) {
            (Some(known), _) => known.copy.clone(),
            (None, Some(old)) => Some(kept(&planned.path, old)?),
            (None, None) => None,
        };
        let (path, keys) = (planned.path.clone(), planned.keys.clone());
        all.push(ClientFileRecord { path, copy: copy.clone(), hash: hash(&planned.new), keys });
        // Recorded before the write: a file that was changed without a record could not be undone.
        self.remember(&all)?;
        put(&planned.path, &planned.new)?;
        tracing::debug!(file = %planned.path.display(), has_copy = copy.is_some(), "a client's file is written");
        Ok(copy)
    }

    /// Restores every file. Returns the files.
    ///
    /// # Errors
    /// A file was changed since, and the written settings cannot be told from the rest. No file is restored then.
    pub(super) fn undo(&self) -> Outcome<Vec<PathBuf>> {
        let all = self.written()?;
        let undone: Vec<FileRestoration> =
            // All files are looked at before the first is restored, so that an error leaves all as they are.
            all.iter().map(ClientFileRecord::undone).collect::<Outcome<_>>()?;
        for (written, undone) in all.iter().zip(undone) {
            match (undone, &written.copy) {
                (FileRestoration::AsItWas, Some(copy)) => {
                    fs::rename(copy, &written.path).map_err(|error| cannot(&written.path, &error))?;
                }
                (FileRestoration::AsItWas, None) => remove(&written.path)?,
                (FileRestoration::Without(text), copy) => {
                    put(&written.path, &text)?;
                    copy.as_deref().map_or(Ok(()), remove)?;
                }
            }
        }
        // The record goes last: after an error, it still names the files.
        remove(&self.record)?;
        tracing::debug!(files = all.len(), "a client's files are restored");
        Ok(all.into_iter().map(|written| written.path).collect())
    }

    fn written(&self) -> Outcome<Vec<ClientFileRecord>> {
        let Some(bytes) = read(&self.record)? else { return Ok(Vec::new()) };
        Ok(intact_records(&DecodedText::new(&bytes).text, &self.record))
    }

    fn remember(&self, all: &[ClientFileRecord]) -> Outcome<()> {
        data::make_private(&self.folder)?;
        put(&self.record, &serde_json::to_vec_pretty(all)?)
    }
}

/// Returns the records of written files that can be read. Each damaged one is left out with a warning, so that it
/// costs nothing but itself.
fn intact_records(text: &str, path: &Path) -> Vec<ClientFileRecord> {
    let entries: Vec<Value> = serde_json::from_str(text).unwrap_or_else(|error| {
        tracing::warn!(
            "{} is damaged ({error}): what was written before is not known; each original is beside its file as \
             NAME.before-longhaul",
            path.display()
        );
        Vec::new()
    });
    entries.into_iter().filter_map(|entry| intact_record(entry, path)).collect()
}

fn intact_record(entry: Value, path: &Path) -> Option<ClientFileRecord> {
    match serde_json::from_value(entry) {
        Ok(record) => Some(record),
        Err(error) => {
            tracing::warn!(
                "{}: a damaged record is skipped ({error}); if a file still has settings of longhaul, its original is \
                 beside it as NAME.before-longhaul",
                path.display()
            );
            None
        }
    }
}

/// Writes a file of our own folder.
///
/// # Errors
/// The file cannot be written.
pub(super) fn write_own(place: &CliEnvironment, file: &ClientSettingsFile) -> Outcome<()> {
    data::make_private(&place.data_dir.join(FOLDER))?;
    let text = file.change.applied("").map_err(CommandError::new)?;
    put(&file.path, text.as_bytes())
}

fn read(path: &Path) -> Outcome<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => {
            Err(CommandError::new(format!("{} cannot be read: {}", path.display(), io_error_text(&error))))
        }
    }
}

fn remove(path: &Path) -> Outcome<()> {
    match fs::remove_file(path) {
        // A file that is gone already is what the caller wants.
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(cannot(path, &error)),
        _ => Ok(()),
    }
}

/// Writes a copy beside the file, under a free name.
fn kept(path: &Path, old: &[u8]) -> Outcome<PathBuf> {
    let copy = (0..)
        .map(|number| copy_name(path, number))
        // An older copy is never overwritten: it may be the only one of the original.
        .find(|copy| !copy.exists())
        // Never used, because the range has no end.
        .unwrap_or_else(|| copy_name(path, 0));
    // The copy may hold keys, too, so it gets the mode of the original.
    put_as(&copy, old, mode_of(path))?;
    Ok(copy)
}

fn copy_name(path: &Path, number: u32) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".before-longhaul");
    if number > 0 {
        name.push(format!(".{number}"));
    }
    PathBuf::from(name)
}

fn mode_of(path: &Path) -> u32 {
    fs::metadata(path).map_or(0o600, |known| known.permissions().mode() & 0o777)
}

/// Writes the file whole or not at all. A new file is readable for its owner only: it may hold a key.
fn put(path: &Path, bytes: &[u8]) -> Outcome<()> {
    put_as(path, bytes, mode_of(path))
}

fn put_as(path: &Path, bytes: &[u8], mode: u32) -> Outcome<()> {
    write_whole(path, bytes, mode).map_err(|error| cannot(path, &error))
}

fn write_whole(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    // The draft is beside the file, because a rename is atomic only within one file system.
    let mut draft = path.as_os_str().to_owned();
    draft.push(format!(".{}", std::process::id()));
    let draft = PathBuf::from(draft);
    let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(&draft)?;
    file.write_all(bytes)?;
    // Flushed before the rename, or a power cut could leave an empty file under the final name.
    file.sync_all()?;
    fs::rename(&draft, path)
}

fn cannot(path: &Path, error: &io::Error) -> CommandError {
    CommandError::new(format!("{} cannot be written: {}", path.display(), io_error_text(error)))
}

fn hash(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns whether a file has a byte order mark of UTF-8, and whether it is UTF-16.
    fn encoding(bytes: &[u8]) -> (bool, bool) {
        (bytes.starts_with(b"\xef\xbb\xbf"), bytes.starts_with(b"\xff\xfe"))
    }

    #[test]
    fn a_settings_file_keeps_its_encoding_and_an_undo_restores_its_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let place = CliEnvironment { data_dir: folder.path().join("data"), ..CliEnvironment::default() };
        let path = folder.path().join("settings.json");
        let text = r#"{"theme":"café"}"#;
        let utf16: Vec<u8> = "\u{feff}"
            .chars()
            .chain(text.chars())
            .collect::<String>()
            .encode_utf16()
            .flat_map(u16::to_le_bytes)
            .collect();
        for before in [[b"\xef\xbb\xbf", text.as_bytes()].concat(), utf16, text.as_bytes().to_vec()] {
            fs::write(&path, &before).unwrap();
            let files = ClientFileChanges::of(&place, "some");
            let change = SettingsFileChange::Json(json!({ "url": "http://x" }));
            let file = ClientSettingsFile { path: path.clone(), change };
            files.write(&files.plan(&file).unwrap().unwrap()).unwrap();
            let written = fs::read(&path).unwrap();
            assert_eq!(encoding(&written), encoding(&before));
            let value: Value = serde_json::from_str(&DecodedText::new(&written).strict().unwrap()).unwrap();
            assert_eq!(value, json!({ "theme": "café", "url": "http://x" }));
            assert!(files.plan(&file).unwrap().is_none(), "a second time nothing changes");

            // The client changes the file, so the undo takes out the written keys only.
            let changed = DecodedText::new(&written).text.replace("café", "thé");
            fs::write(&path, encode_like(&before, &changed)).unwrap();
            files.undo().unwrap();
            let undone = fs::read(&path).unwrap();
            assert_eq!(encoding(&undone), encoding(&before));
            let value: Value = serde_json::from_str(&DecodedText::new(&undone).text).unwrap();
            assert_eq!(value, json!({ "theme": "thé" }));

            fs::write(&path, &before).unwrap();
            files.write(&files.plan(&file).unwrap().unwrap()).unwrap();
            files.undo().unwrap();
            assert_eq!(fs::read(&path).unwrap(), before, "an unchanged file comes back byte for byte");
        }
        fs::write(&path, b"{\"theme\":\"caf\xe9\"}").unwrap();
        let change = SettingsFileChange::Json(json!({ "url": "http://x" }));
        let refused = ClientFileChanges::of(&place, "some").plan(&ClientSettingsFile { path, change });
        assert!(refused.unwrap_err().message().contains("is left alone: it has 1 byte that is not UTF-8"));
    }

    #[test]
    fn a_damaged_record_costs_only_itself() {
        let text = r#"[{ "path": 7 }, { "path": "/home/me/settings.json", "copy": null, "hash": "h" }]"#;
        let records = intact_records(text, Path::new("client.json"));
        let paths: Vec<&Path> = records.iter().map(|record| record.path.as_path()).collect();
        assert_eq!(paths, [Path::new("/home/me/settings.json")]);
        assert!(intact_records("[{", Path::new("client.json")).is_empty());
    }
}
