//! The promises of every blob store, as checks for any implementation.
#![expect(clippy::unwrap_used, reason = "these are tests: a failure is their purpose")]

use std::ops::Range;
use std::time::{Duration, SystemTime};

use tokio::task::JoinSet;

use super::{BlobError, BlobStore, BlobSweepReport, ReferencedBlobs, UNTOUCHED};

/// The largest blob of the checked place, in bytes.
pub const LIMIT: u64 = 1 << 20;

/// Checks an empty place with a limit of [`LIMIT`] bytes for a blob. The place is not empty afterwards.
pub async fn all(blobs: &BlobStore) {
    blobs.check().await.unwrap();
    gives_back_what_was_put(blobs).await;
    gives_ranges(blobs).await;
    refuses(blobs).await;
    takes_the_same_from_many(blobs).await;
    what_nobody_names_goes_in_two_steps(blobs).await;
    what_is_set_aside_is_read_and_comes_back(blobs).await;
}

async fn gives_back_what_was_put(blobs: &BlobStore) {
    for content in [Vec::new(), b"\0\xff\r\n".to_vec(), vec![7; LIMIT as usize]] {
        let blob = blobs.put(content.clone()).await.unwrap();
        assert_eq!(blob.bytes, content.len() as u64);
        assert_eq!(blob.hash, blake3::hash(&content).to_hex().as_str());
        assert_eq!(blobs.put(content.clone()).await.unwrap(), blob, "storing again");
        assert_eq!(blobs.get(&blob).await.unwrap(), content);
        assert_eq!(blobs.get_by_hash(&blob.hash).await.unwrap(), content);
    }
}

async fn gives_ranges(blobs: &BlobStore) {
    let blob = blobs.put("0123456789").await.unwrap();
    for (range, part) in [(0..10, "0123456789"), (3..5, "34"), (10..10, ""), (0..0, "")] {
        assert_eq!(blobs.get_range(&blob, range).await.unwrap(), part);
    }
    let outside: [Range<u64>; 3] = [5..11, 11..11, Range { start: 5, end: 4 }];
    for range in outside {
        let answer = blobs.get_range(&blob, range.clone()).await;
        assert_eq!(answer, Err(BlobError::OutOfRange { hash: blob.hash.clone(), range }));
    }
}

async fn refuses(blobs: &BlobStore) {
    let large = vec![0; LIMIT as usize + 1];
    assert_eq!(blobs.put(large).await, Err(BlobError::TooLarge { bytes: LIMIT + 1, limit: LIMIT }));
    let absent = blake3::hash(b"never stored").to_hex().to_string();
    assert_eq!(blobs.get_by_hash(&absent).await, Err(BlobError::NotFound(absent.clone())));
    // A hash becomes part of a path, so nothing but 64 lower-case digits may pass.
    for bad in ["", "../../etc/passwd", &absent[1..], &absent.to_uppercase(), &absent.replace('a', "é")] {
        assert_eq!(blobs.get_by_hash(bad).await, Err(BlobError::BadHash(bad.to_owned())), "{bad}");
    }
}

async fn takes_the_same_from_many(blobs: &BlobStore) {
    let mut storing = JoinSet::new();
    for _ in 0..8 {
        let blobs = blobs.clone();
        storing.spawn(async move { blobs.put("the same").await.unwrap() });
    }
    let stored = storing.join_all().await;
    assert!(stored.iter().all(|blob| *blob == stored[0]));
    assert_eq!(blobs.get(&stored[0]).await.unwrap(), "the same");
}

/// Returns a time so late that everything stored now counts as forgotten.
fn later() -> SystemTime {
    SystemTime::now() + UNTOUCHED + Duration::from_secs(60)
}

async fn what_nobody_names_goes_in_two_steps(blobs: &BlobStore) {
    let (kept, gone) = (blobs.put("kept").await.unwrap(), blobs.put("gone").await.unwrap());
    let named = ReferencedBlobs::from_iter([&kept.hash]);
    let now = blobs.sweep_unnamed(&named, SystemTime::now()).await.unwrap();
    assert_eq!(now, BlobSweepReport::default(), "what was touched within a day stays");
    let first = blobs.sweep_unnamed(&named, later()).await.unwrap();
    assert!(first.set_aside >= 1 && first.removed == 0 && first.brought_back == 0, "{first:?}");
    assert_eq!(blobs.sweep_unnamed(&named, SystemTime::now()).await.unwrap(), BlobSweepReport::default());
    let second = blobs.sweep_unnamed(&named, later()).await.unwrap();
    assert_eq!((second.removed, second.set_aside), (first.set_aside, 0));
    assert!(second.removed_bytes >= gone.bytes);
    assert_eq!(blobs.get(&gone).await, Err(BlobError::NotFound(gone.hash.clone())));
    assert_eq!(blobs.get(&kept).await.unwrap(), "kept");
    assert_eq!(blobs.put("gone").await.unwrap(), gone);
    assert_eq!(blobs.get(&gone).await.unwrap(), "gone");
}

async fn what_is_set_aside_is_read_and_comes_back(blobs: &BlobStore) {
    let contents = ["read", "in part", "stored again", "named again"];
    let mut stored = Vec::new();
    for content in contents {
        stored.push(blobs.put(content).await.unwrap());
    }
    assert!(blobs.sweep_unnamed(&ReferencedBlobs::default(), later()).await.unwrap().set_aside >= 4);
    assert_eq!(blobs.get(&stored[0]).await.unwrap(), "read");
    assert_eq!(blobs.get_range(&stored[1], 3..7).await.unwrap(), "part");
    assert_eq!(blobs.put("stored again").await.unwrap(), stored[2]);
    let named = ReferencedBlobs::from_iter(stored.iter().map(|blob| &blob.hash));
    let swept = blobs.sweep_unnamed(&named, SystemTime::now()).await.unwrap();
    assert_eq!((swept.brought_back, swept.removed, swept.set_aside), (4, 0, 0), "{swept:?}");
    // Nothing is left aside: two more days take nothing that is named.
    for _ in 0..2 {
        blobs.sweep_unnamed(&named, later()).await.unwrap();
    }
    for (blob, content) in stored.iter().zip(contents) {
        assert_eq!(blobs.get(blob).await.unwrap(), content);
    }
}
