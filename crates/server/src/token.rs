//! The access token: created at the first start, stored in a file readable only by the owner, and compared in
//! constant time.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

#[cfg(unix)]
use rustix::fs::OFlags;

use longhaul::io_error::io_error_text;

/// The number of random bytes in a generated token.
// 256 bits, which cannot be guessed, however often a client tries.
const RANDOM_BYTES: usize = 32;

/// The minimum length of a user's own token.
const LEAST_CHARS: usize = 16;

/// The derivation context of the page's cookie.
const COOKIE: &str = "longhaul server: the cookie of the page, version 1";

/// The derivation context of the secret shown between nodes.
const NODES: &str = "longhaul server: what its nodes show each other, version 1";

/// The derivation context of the digest for telling tokens apart in a database.
const DIGEST: &str = "longhaul server: what a database keeps to tell tokens apart, version 1";

/// The secret for a client's authorisation. Only a hash is kept in memory, and neither the token nor the hash
/// is ever shown.
#[derive(Clone)]
pub struct AccessToken(blake3::Hash);

/// The reason why there is no token.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AccessTokenError {
    /// The file could not be read or written.
    #[error("the token file {} cannot be used: {}", .path.display(), io_error_text(.source))]
    File {
        /// The file's path.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file's content is no token.
    #[error("{} has no usable token: at least {LEAST_CHARS} characters in one line are needed", .0.display())]
    Weak(PathBuf),
    /// Other users can read or write the file.
    #[error(
        "the token file {} is open to other users (mode {mode:04o}), so they may know the token. Delete the file for a \
         new token, or keep the token and close the file: chmod 600 {}",
        .path.display(),
        .path.display()
    )]
    Loose {
        /// The file's path.
        path: PathBuf,
        /// The file's permissions.
        mode: u32,
    },
    /// The system gave no random bytes.
    #[error("no random bytes for a token: {0}")]
    Random(String),
}

impl AccessToken {
    /// Creates a token from the caller's text.
    pub fn new(text: &str) -> Self {
        Self(blake3::hash(text.as_bytes()))
    }

    /// Returns the token in `path`. If the file is missing or empty, a new token is written there (mode 0600).
    ///
    /// # Errors
    /// [`AccessTokenError`].
    pub fn load_or_create(path: &Path) -> Result<Self, AccessTokenError> {
        match read(path)? {
            Some(text) if !text.is_empty() => Self::checked(&text, path),
            _ => {
                let text = random()?;
                write(path, &text)
                    .map_err(|source| AccessTokenError::File { path: path.to_owned(), source })?;
                Ok(Self::new(&text))
            }
        }
    }

    /// Returns the token in an existing file.
    ///
    /// # Errors
    /// [`AccessTokenError::File`]; [`AccessTokenError::Weak`].
    pub fn load(path: &Path) -> Result<Self, AccessTokenError> {
        let text = read(path)?.unwrap_or_default();
        if text.is_empty() && !path.exists() {
            let source = io::Error::from(io::ErrorKind::NotFound);
            return Err(AccessTokenError::File { path: path.to_owned(), source });
        }
        Self::checked(&text, path)
    }

    /// Returns whether `text` is the token. The time depends only on the length of the text.
    pub fn matches(&self, text: &str) -> bool {
        // The hash type compares in constant time; a string comparison would not.
        blake3::hash(text.as_bytes()) == self.0
    }

    /// Returns a digest of the token's identity, for nodes with a common database. The digest authorises
    /// nothing.
    pub fn digest(&self) -> String {
        blake3::Hash::from_bytes(blake3::derive_key(DIGEST, self.0.as_bytes())).to_hex().to_string()
    }

    /// Returns the value of the page's cookie. It authorises the page, also after a restart, and does not reveal the
    /// token.
    pub(crate) fn cookie(&self) -> String {
        self.cookie_hash().to_hex().to_string()
    }

    /// Returns whether `text` is the value of the page's cookie. Takes constant time.
    pub(crate) fn matches_cookie(&self, text: &str) -> bool {
        blake3::Hash::from_hex(text).is_ok_and(|hash| hash == self.cookie_hash())
    }

    /// Returns the secret shown between nodes with the same token.
    pub(crate) fn of_nodes(&self) -> String {
        self.node_hash().to_hex().to_string()
    }

    /// Returns whether `text` is the secret of nodes. Takes constant time.
    pub(crate) fn matches_node(&self, text: &str) -> bool {
        blake3::Hash::from_hex(text).is_ok_and(|hash| hash == self.node_hash())
    }

    fn node_hash(&self) -> blake3::Hash {
        blake3::Hash::from_bytes(blake3::derive_key(NODES, self.0.as_bytes()))
    }

    fn cookie_hash(&self) -> blake3::Hash {
        blake3::Hash::from_bytes(blake3::derive_key(COOKIE, self.0.as_bytes()))
    }

    fn checked(text: &str, path: &Path) -> Result<Self, AccessTokenError> {
        // The token goes into a header, which takes no other characters.
        let is_line = text.chars().all(|c| c.is_ascii_graphic());
        if text.len() < LEAST_CHARS || !is_line {
            return Err(AccessTokenError::Weak(path.to_owned()));
        }
        Ok(Self::new(text))
    }
}

impl std::fmt::Debug for AccessToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(…)")
    }
}

/// Returns the trimmed content of the file; `None` if there is no file.
fn read(path: &Path) -> Result<Option<String>, AccessTokenError> {
    let (text, known) = match read_file(path) {
        Ok(read) => read,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(AccessTokenError::File { path: path.to_owned(), source }),
    };
    let text = text.trim().to_owned();
    // An empty file reveals nothing and is overwritten with a new token.
    match open_to_others(&known).filter(|_| !text.is_empty()) {
        Some(mode) => Err(AccessTokenError::Loose { path: path.to_owned(), mode }),
        None => Ok(Some(text)),
    }
}

/// Returns the mode of a file readable or writable by others. A secret mounted by an orchestrator belongs to
/// another user. The server often reads such a file by its group.
#[cfg(unix)]
fn open_to_others(known: &fs::Metadata) -> Option<u32> {
    use std::os::unix::fs::MetadataExt;
    let is_own = known.uid() == rustix::process::geteuid().as_raw();
    let closed = if is_own { 0o077 } else { 0o027 };
    let mode = known.mode() & 0o7777;
    (mode & closed != 0).then_some(mode)
}

#[cfg(not(unix))]
fn open_to_others(_: &fs::Metadata) -> Option<u32> {
    None
}

/// Reads a regular file. A pipe would block, and a device may never end.
fn read_file(path: &Path) -> io::Result<(String, fs::Metadata)> {
    check_regular(&fs::metadata(path)?)?;
    let mut options = OpenOptions::new();
    options.read(true);
    // The file may have been replaced since the check, so the open must not block on a pipe.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, OFlags::NONBLOCK.bits().cast_signed());
    let file = options.open(path)?;
    let known = file.metadata()?;
    check_regular(&known)?;
    Ok((io::read_to_string(file)?, known))
}

fn check_regular(known: &fs::Metadata) -> io::Result<()> {
    if known.is_file() {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"))
}

/// Returns an unpredictable random text.
///
/// # Errors
/// [`AccessTokenError::Random`].
pub(crate) fn random() -> Result<String, AccessTokenError> {
    let mut bytes = [0; RANDOM_BYTES];
    getrandom::fill(&mut bytes).map_err(|error| AccessTokenError::Random(error.to_string()))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Writes a file atomically: an interrupted start leaves no half a token.
fn write(path: &Path, text: &str) -> io::Result<()> {
    let mut draft = path.as_os_str().to_owned();
    draft.push(".new");
    let draft = PathBuf::from(draft);
    // A draft of an interrupted start would make `create_new` fail for ever.
    match fs::remove_file(&draft) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = OpenOptions::new();
    // `create_new` follows no link and opens no file that another user has put there.
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&draft)?;
    writeln!(file, "{text}")?;
    // A rename may survive a power failure without the content.
    file.sync_all()?;
    fs::rename(&draft, path)?;
    // The rename is durable only after its folder is synced.
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => fs::File::open(folder)?.sync_all(),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_made_once_and_only_its_owner_reads_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        AccessToken::load_or_create(&path).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&path).unwrap().permissions());
        assert_eq!((mode & 0o777, text.trim().len()), (0o600, 64));
        let again = AccessToken::load_or_create(&path).unwrap();
        assert!(again.matches(text.trim()) && !again.matches("") && !again.matches(&text));
        assert_eq!(format!("{again:?}"), "Token(…)");
    }

    #[test]
    fn the_cookie_proves_the_token_and_does_not_tell_it() {
        let (token, other) = (AccessToken::new("one"), AccessToken::new("two"));
        let cookie = token.cookie();
        assert_eq!(cookie, AccessToken::new("one").cookie(), "also after a restart");
        assert!(token.matches_cookie(&cookie) && !other.matches_cookie(&cookie));
        assert!(!token.matches(&cookie) && !token.matches_cookie("one") && !token.matches_cookie(""));
        assert_ne!(cookie, blake3::hash(b"one").to_hex().to_string());
    }

    #[test]
    fn the_digest_tells_tokens_apart_and_proves_nothing() {
        let token = AccessToken::new("one");
        let digest = token.digest();
        assert!(digest == AccessToken::new("one").digest() && digest != AccessToken::new("two").digest());
        assert!(!token.matches(&digest) && !token.matches_cookie(&digest) && !token.matches_node(&digest));
    }

    #[test]
    fn a_file_that_was_never_written_is_written_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        fs::write(&path, "").unwrap();
        fs::write(folder.path().join("token.new"), "half").unwrap();
        AccessToken::load_or_create(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap().trim().len(), 64);
    }

    /// Writes a file that only its owner uses.
    fn write_closed(path: &Path, text: &str) {
        fs::write(path, text).unwrap();
        set_mode(path, 0o600);
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_file_that_others_can_use_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        AccessToken::load_or_create(&path).unwrap();
        for mode in [0o604, 0o640, 0o660, 0o602, 0o644, 0o777] {
            set_mode(&path, mode);
            for error in
                [AccessToken::load(&path).unwrap_err(), AccessToken::load_or_create(&path).unwrap_err()]
            {
                assert!(
                    matches!(error, AccessTokenError::Loose { mode: told, .. } if told == mode),
                    "{error}"
                );
                let text = error.to_string();
                assert!(text.contains(&format!("mode {mode:04o}")) && text.contains("chmod 600"), "{text}");
            }
        }
        for mode in [0o600, 0o400] {
            set_mode(&path, mode);
            AccessToken::load(&path).unwrap();
            AccessToken::load_or_create(&path).unwrap();
        }
    }

    #[test]
    fn only_a_file_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&pipe, &link).unwrap();
        for path in [pipe.as_path(), &link, folder.path(), Path::new("/dev/zero")] {
            for error in
                [AccessToken::load(path).unwrap_err(), AccessToken::load_or_create(path).unwrap_err()]
            {
                assert!(error.to_string().ends_with("not a regular file"), "{}: {error}", path.display());
            }
        }
        let file = folder.path().join("file");
        write_closed(&file, "long-enough-for-a-token\n");
        fs::remove_file(&link).unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert!(AccessToken::load(&link).unwrap().matches("long-enough-for-a-token"));
    }

    #[test]
    fn a_short_token_and_a_missing_file_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        assert!(matches!(AccessToken::load(&path), Err(AccessTokenError::File { .. })));
        write_closed(&path, "secret\n");
        assert!(matches!(AccessToken::load(&path), Err(AccessTokenError::Weak(_))));
        assert!(matches!(AccessToken::load_or_create(&path), Err(AccessTokenError::Weak(_))));
    }
}
