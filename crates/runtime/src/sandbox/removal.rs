//! The removal of a folder filled by commands, however deep.
//!
//! `std::fs::remove_dir_all` calls itself for every level and keeps each level open. A command can nest ten thousand
//! folders in a second, which would overflow the stack and end the process. The module moves inner folders to the top
//! for removal, so there are never more than two levels.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Instant;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, chmodat, openat, renameat, statat, unlinkat};
use rustix::io::Errno;
use uuid::Uuid;

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Removes a folder with all contents. Links are removed, not followed. No other process may change the folder
/// meanwhile.
///
/// # Errors
/// The system's error, or a timeout if the removal was not done by `until`. Removed entries stay removed.
pub(super) fn remove(path: &Path, until: Option<Instant>) -> io::Result<()> {
    let top = match openat(CWD, path, FOLDER, Mode::empty()) {
        Err(Errno::ACCESS) => {
            // Commands may have taken the rights to the folder away; its owner can give them back.
            chmodat(CWD, path, Mode::RWXU, AtFlags::empty())?;
            openat(CWD, path, FOLDER, Mode::empty())
        }
        opened => opened,
    }?;
    let mut folders = remove_files(top.as_fd(), until)?;
    // A fresh prefix cannot collide with an existing name.
    let (prefix, mut moved) = (Uuid::now_v7().simple().to_string(), 0_u64);
    while let Some(name) = folders.pop() {
        let folder = open(top.as_fd(), &name)?;
        for inner in remove_files(folder.as_fd(), until)? {
            let aside = CString::new(format!("{prefix}-{moved}"))?;
            moved += 1;
            // A folder without write permission cannot be moved.
            chmodat(&folder, &inner, Mode::RWXU, AtFlags::empty())?;
            renameat(&folder, &inner, &top, &aside)?;
            folders.push(aside);
            check(until)?;
        }
        unlinkat(&top, &name, AtFlags::REMOVEDIR)?;
    }
    Ok(unlinkat(CWD, path, AtFlags::REMOVEDIR)?)
}

fn open(top: BorrowedFd<'_>, name: &CStr) -> io::Result<OwnedFd> {
    // A folder without read permission cannot be listed.
    chmodat(top, name, Mode::RWXU, AtFlags::empty())?;
    Ok(openat(top, name, FOLDER, Mode::empty())?)
}

/// Removes every entry but the folders, and returns the folders' names.
fn remove_files(folder: BorrowedFd<'_>, until: Option<Instant>) -> io::Result<Vec<CString>> {
    let mut folders = Vec::new();
    for entry in Dir::read_from(folder)? {
        check(until)?;
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        match kind(folder, name, entry.file_type())? {
            FileType::Directory => folders.push(name.to_owned()),
            _ => unlinkat(folder, name, AtFlags::empty())?,
        }
    }
    Ok(folders)
}

fn check(until: Option<Instant>) -> io::Result<()> {
    if until.is_some_and(|until| Instant::now() > until) {
        return Err(io::ErrorKind::TimedOut.into());
    }
    Ok(())
}

/// Returns the kind of an entry, because some file systems leave the kind out of listings.
fn kind(folder: BorrowedFd<'_>, name: &CStr, listed: FileType) -> io::Result<FileType> {
    Ok(match listed {
        FileType::Unknown => {
            FileType::from_raw_mode(statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?.st_mode)
        }
        known => known,
    })
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_folder_goes_with_all_that_is_in_it_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let (folder, outside) = (dir.path().join("folder"), dir.path().join("outside"));
        fs::create_dir_all(folder.join("a/b/c")).unwrap();
        fs::create_dir_all(folder.join("closed/inner")).unwrap();
        fs::create_dir(&outside).unwrap();
        for file in ["x", "a/x", "a/b/x", "a/b/c/.x", "closed/inner/x"] {
            fs::write(folder.join(file), "").unwrap();
        }
        fs::write(outside.join("kept"), "").unwrap();
        symlink(&outside, folder.join("a/link")).unwrap();
        symlink("nowhere", folder.join("dangling")).unwrap();
        #[cfg(target_os = "linux")]
        rustix::fs::mknodat(CWD, folder.join("pipe"), FileType::Fifo, Mode::RWXU, 0).unwrap();
        for closed in ["closed/inner", "closed"] {
            fs::set_permissions(folder.join(closed), Permissions::from_mode(0o000)).unwrap();
        }
        remove(&folder, None).unwrap();
        assert!(!folder.exists() && outside.join("kept").exists());
        assert_eq!(remove(&folder, None).unwrap_err().kind(), io::ErrorKind::NotFound);
        symlink(&outside, &folder).unwrap();
        assert!(remove(&folder, None).is_err() && outside.join("kept").exists(), "a link is no folder");
    }

    #[test]
    fn no_folder_is_too_deep_or_has_too_many_in_it() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("folder");
        fs::create_dir(&folder).unwrap();
        let mut here = openat(CWD, &folder, FOLDER, Mode::empty()).unwrap();
        for _ in 0..15_000 {
            rustix::fs::mkdirat(&here, "d", Mode::RWXU).unwrap();
            here = openat(&here, "d", FOLDER, Mode::empty()).unwrap();
        }
        for n in 0..1_000 {
            fs::create_dir_all(folder.join(format!("wide/{n}/in"))).unwrap();
        }
        let late = remove(&folder, Some(Instant::now())).unwrap_err();
        assert_eq!((late.kind(), folder.exists()), (io::ErrorKind::TimedOut, true));
        remove(&folder, None).unwrap();
        assert!(!folder.exists());
    }
}
