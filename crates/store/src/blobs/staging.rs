//! The removal of half-written blobs of killed processes.
//!
//! A blob is written as `<hash>#<number>` and then renamed. A killed process therefore leaves such a file
//! beside the blobs, and no event names the file.

use std::fs::{self, DirEntry};
use std::io;
use std::path::Path;

/// Removes all half-written blobs below `top`, and returns their number. Links are not followed.
///
/// # Errors
/// The errors of the file system if a folder cannot be read or a file cannot be removed.
pub(super) fn sweep(top: &Path) -> io::Result<usize> {
    let mut removed = 0;
    for folder in fs::read_dir(top)? {
        let folder = folder?;
        if !folder.file_type()?.is_dir() || !is_hex(&folder, 2) {
            continue;
        }
        for file in fs::read_dir(folder.path())? {
            let file = file?;
            if is_staged(&file) && file.file_type()?.is_file() {
                fs::remove_file(file.path())?;
                removed += 1;
            }
        }
    }
    Ok(removed)
}

fn is_hex(entry: &DirEntry, digits: usize) -> bool {
    entry.file_name().to_str().is_some_and(|name| name.len() == digits && all_hex(name))
}

fn is_staged(entry: &DirEntry) -> bool {
    let name = entry.file_name();
    let parts = name.to_str().and_then(|name| name.split_once('#'));
    parts.is_some_and(|(hash, number)| {
        hash.len() == 64
            && all_hex(hash)
            && !number.is_empty()
            && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}

fn all_hex(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}
