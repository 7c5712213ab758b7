//! Damage in SQLite's write-ahead log (WAL), and the writes that SQLite will drop because of the damage.
//!
//! SQLite reads a WAL up to the first broken frame, and drops the rest silently. A crash in the middle of
//! an unacknowledged write leaves such an end. But SQLite also drops acknowledged writes behind a damaged frame.
//! This module reads the WAL before SQLite does, keeps a copy of a damaged one, and reports the damage. The format is
//! described at <https://www.sqlite.org/fileformat2.html#the_write_ahead_log>.
//!
//! A shortened or removed WAL looks like one with an early end, so such damage is not noticed.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

// The sizes and the magic number are those of the file format that the module's documentation links.
const HEADER_BYTES: usize = 32;
const FRAME_HEADER_BYTES: usize = 24;

/// The first four bytes of a WAL. If the lowest bit is set, checksums are over big-endian numbers.
const MAGIC: u32 = 0x377f_0682;

const MIN_PAGE_BYTES: u32 = 512;
const MAX_PAGE_BYTES: u32 = 65_536;

/// Damage of a write-ahead log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WalDamage {
    /// The header is damaged: nothing of the WAL can be read.
    Header,
    /// A frame is damaged, counted from 1. `dropped_writes` is the number of whole writes with their end at the
    /// frame or behind.
    Frame { number: u64, dropped_writes: u64 },
}

/// Searches the WAL beside `database` for damage. Keeps a copy of a damaged WAL, and logs the loss as an error.
///
/// # Errors
/// The errors of the file system.
pub(crate) fn report_damage(database: &Path) -> io::Result<()> {
    let wal = PathBuf::from(format!("{}-wal", database.display()));
    let file = match File::open(&wal) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        file => file?,
    };
    let Some(damage) = find_damage(&mut BufReader::with_capacity(1 << 20, file))? else {
        tracing::debug!(log = %wal.display(), "the write-ahead log of the last process is whole");
        return Ok(());
    };
    let copy = keep_copy(&wal);
    let copy =
        copy.as_ref().map_or_else(|error| format!("no copy: {error}"), |copy| copy.display().to_string());
    let lost = match damage {
        WalDamage::Header => "none of it can be read".to_owned(),
        WalDamage::Frame { number, dropped_writes } => format!(
            "from frame {number} on it cannot be read, which is {} acknowledged writes or one more",
            // The newest whole write may have reached the disk without being acknowledged.
            dropped_writes - 1
        ),
    };
    tracing::error!(log = %wal.display(), kept = %copy, "the database's write-ahead log is damaged: {lost}. What of that was not in the database yet is lost; sessions go on without it");
    Ok(())
}

fn keep_copy(wal: &Path) -> io::Result<PathBuf> {
    // An earlier copy is never overwritten: it may be all that is left of earlier damage.
    let mut names = (1..=u32::MAX).map(|number| PathBuf::from(format!("{}.damaged-{number}", wal.display())));
    let free = names.find(|path| !path.exists());
    let copy = free.ok_or_else(|| io::Error::from(io::ErrorKind::AlreadyExists))?;
    std::fs::copy(wal, &copy)?;
    Ok(copy)
}

/// Reads a WAL as SQLite does, and continues behind the first damaged frame. The newest write may have been
/// interrupted by the end of the process: an incomplete one is not reported.
pub(crate) fn find_damage(log: &mut impl Read) -> io::Result<Option<WalDamage>> {
    let mut header = [0; HEADER_BYTES];
    if !read_whole(log, &mut header)? {
        return Ok(None);
    }
    let [magic, _, page_bytes, ..] = words(&header);
    let is_big_endian = magic == MAGIC + 1;
    let mut sum = WalChecksum { is_big_endian, sums: (0, 0) };
    sum.add(&header[..24]);
    let is_header_whole = (magic == MAGIC || is_big_endian) && sum.stored() == header[24..];
    let is_page_size =
        (MIN_PAGE_BYTES..=MAX_PAGE_BYTES).contains(&page_bytes) && page_bytes.is_power_of_two();
    if !is_header_whole || !is_page_size {
        // Frames follow only a header that was flushed.
        let mut more = [0; FRAME_HEADER_BYTES + MIN_PAGE_BYTES as usize];
        return Ok(read_whole(log, &mut more)?.then_some(WalDamage::Header));
    }
    let mut frame = vec![0; FRAME_HEADER_BYTES + page_bytes as usize];
    let (mut number, mut damaged, mut dropped_writes) = (0, None, 0);
    while read_whole(log, &mut frame)? {
        number += 1;
        // SQLite reuses the file from its start after a checkpoint. Frames of an earlier round have other salts.
        let is_of_this_log = frame[8..16] == header[16..24];
        let is_commit = frame[4..8] != [0; 4];
        // A frame's checksum covers the first 8 bytes of its header and the page, and continues the checksum of
        // the frame before. Behind the first damaged frame no checksum can be verified, so only salts and commit
        // marks are left there.
        if damaged.is_none() {
            sum.add(&frame[..8]);
            sum.add(&frame[FRAME_HEADER_BYTES..]);
            if !is_of_this_log || sum.stored() != frame[16..24] {
                damaged = Some(number);
            }
        }
        if damaged.is_some() && is_of_this_log && is_commit {
            dropped_writes += 1;
        }
    }
    // A crash amid the newest write also leaves one dropped write, but no caller was told that it succeeded.
    Ok(damaged.filter(|_| dropped_writes > 1).map(|number| WalDamage::Frame { number, dropped_writes }))
}

/// Fills `bytes`. Returns `false` if the file ends before.
fn read_whole(file: &mut impl Read, bytes: &mut [u8]) -> io::Result<bool> {
    match file.read_exact(bytes) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        read => read.map(|()| true),
    }
}

fn words(header: &[u8; HEADER_BYTES]) -> [u32; 8] {
    std::array::from_fn(|at| big_endian(&header[at * 4..]))
}

fn big_endian(bytes: &[u8]) -> u32 {
    bytes.iter().take(4).fold(0, |number, byte| number << 8 | u32::from(*byte))
}

/// The running checksum of a WAL.
struct WalChecksum {
    is_big_endian: bool,
    sums: (u32, u32),
}

impl WalChecksum {
    fn number(&self, bytes: &[u8]) -> u32 {
        if self.is_big_endian { big_endian(bytes) } else { big_endian(bytes).swap_bytes() }
    }

    fn add(&mut self, bytes: &[u8]) {
        let (mut first, mut second) = self.sums;
        for pair in bytes.chunks_exact(8) {
            first = first.wrapping_add(self.number(pair)).wrapping_add(second);
            second = second.wrapping_add(self.number(&pair[4..])).wrapping_add(first);
        }
        self.sums = (first, second);
    }

    fn stored(&self) -> [u8; 8] {
        let number = u64::from(self.sums.0) << 32 | u64::from(self.sums.1);
        number.to_be_bytes()
    }
}

#[cfg(test)]
mod tests {
    use longhaul_core::event::{EventBody, NoteReason};
    use longhaul_core::message::{Message, Part};
    use longhaul_store::{LogAppend, NewSession, Store};

    use super::{FRAME_HEADER_BYTES, HEADER_BYTES, WalDamage, big_endian, find_damage};
    use crate::SqliteStore;

    fn damage(log: &[u8]) -> Option<WalDamage> {
        find_damage(&mut &log[..]).unwrap()
    }

    /// Returns the log of a store killed after ten appends.
    async fn written_log() -> Vec<u8> {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(folder.path()).await.unwrap();
        let started =
            EventBody::SessionStarted { title: None, forked_from: None, imported_from: None, folder: None };
        let session = NewSession { id: "s".into(), title: None, at: 1, events: vec![(1, started)] };
        store.create(session).await.unwrap();
        let lease = store.claim(&"s".into(), "test").await.unwrap();
        for _ in 0..10 {
            let note = Message::user("m", vec![Part::text("x".repeat(9_000))]);
            let events = vec![EventBody::NoteAdded { message: note, why: NoteReason::Imported }];
            store.append(&lease, LogAppend { at: 2, events, ..LogAppend::default() }).await.unwrap();
        }
        std::fs::read(folder.path().join("longhaul.db-wal")).unwrap()
    }

    #[tokio::test]
    async fn writes_behind_a_damaged_frame_are_counted() {
        let log = written_log().await;
        assert_eq!(damage(&log), None);
        let frame = FRAME_HEADER_BYTES + big_endian(&log[8..]) as usize;
        let frames = (log.len() - HEADER_BYTES) / frame;
        let starts: Vec<usize> = (0..frames).map(|at| HEADER_BYTES + at * frame).collect();
        let commits: Vec<usize> =
            (0..frames).filter(|at| log[starts[*at] + 4..starts[*at] + 8] != [0; 4]).collect();
        assert!(commits.len() > 10, "{commits:?}");
        for at in 0..frames {
            let mut flipped = log.clone();
            flipped[starts[at] + FRAME_HEADER_BYTES + 77] ^= 4;
            let dropped_writes = commits.iter().filter(|commit| **commit >= at).count() as u64;
            let expected = WalDamage::Frame { number: at as u64 + 1, dropped_writes };
            assert_eq!(damage(&flipped), (dropped_writes > 1).then_some(expected), "frame {at}");
        }
    }

    #[tokio::test]
    async fn a_log_that_ends_early_is_that_of_a_crash() {
        let log = written_log().await;
        for torn in [1, 30, 4_000, 20_000, log.len() - 40, log.len()] {
            assert_eq!(damage(&log[..log.len() - torn]), None, "{torn} bytes torn");
        }
        let mut flipped = log;
        flipped[17] ^= 1;
        assert_eq!(damage(&flipped), Some(WalDamage::Header));
    }
}
