//! What the shim tells: every operation on the files of the data folder, in order, with its data.

use super::shim::kind;

/// Bytes of `struct record`.
const HEAD_BYTES: usize = 32;

/// One operation.
#[derive(Clone, Debug)]
pub(crate) enum Done {
    Write {
        file: u64,
        place: u64,
        data: Vec<u8>,
    },
    Truncate {
        file: u64,
        length: u64,
    },
    Create {
        file: u64,
    },
    /// Also a new name for a file.
    Link {
        file: u64,
    },
    Rename {
        file: u64,
        from: String,
    },
    Unlink,
    MakeFolder,
    RemoveFolder,
    Sync {
        file: u64,
    },
    /// It failed: what was not on the disk before may never get there.
    SyncFailed {
        file: u64,
    },
    SyncFolder,
}

/// An operation, the path it was done to, and how far the trace had come when it was done.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) path: String,
    pub(crate) done: Done,
    pub(crate) position: u64,
}

/// The operations of a trace.
pub(crate) fn parse(trace: &[u8]) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut rest = trace;
    while rest.len() >= HEAD_BYTES {
        let (head, tail) = rest.split_at(HEAD_BYTES);
        let short = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().unwrap());
        let long = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().unwrap());
        let [path_bytes, other_bytes, data_bytes] = [4, 8, 12].map(|at| short(at) as usize);
        let whole = path_bytes + other_bytes + data_bytes;
        if tail.len() < whole {
            // The process was killed while it told.
            break;
        }
        let (path, tail) = tail.split_at(path_bytes);
        let (other, tail) = tail.split_at(other_bytes);
        let (data, tail) = tail.split_at(data_bytes);
        let done = done(short(0), long(16), long(24), other, data);
        rest = tail;
        let position = (trace.len() - rest.len()) as u64;
        steps.push(Step { path: name(path), done, position });
    }
    steps
}

fn done(what: u32, file: u64, place: u64, other: &[u8], data: &[u8]) -> Done {
    match what {
        kind::WRITE => Done::Write { file, place, data: data.to_vec() },
        kind::TRUNCATE => Done::Truncate { file, length: place },
        kind::CREATE => Done::Create { file },
        kind::LINK => Done::Link { file },
        kind::RENAME => Done::Rename { file, from: name(other) },
        kind::UNLINK => Done::Unlink,
        kind::MKDIR => Done::MakeFolder,
        kind::RMDIR => Done::RemoveFolder,
        kind::SYNC => Done::Sync { file },
        kind::SYNC_FAILED => Done::SyncFailed { file },
        kind::FOLDER_SYNC => Done::SyncFolder,
        other => panic!("no operation: {other}"),
    }
}

fn name(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}
