use std::ops::Range;

use longhaul_core::event::{EditKind, EditReason, EventBody, NoteReason, ViewEdit, ViewOp};
use longhaul_core::ids::LogRange;
use longhaul_core::message::{BlobRef, Media, Message, Part, ToolResult, ToolStatus, Truncation};

use super::{BlobError, Blobs, blob_hashes};

const LIMIT: u64 = 1 << 20;

fn local() -> (tempfile::TempDir, Blobs) {
    let folder = tempfile::tempdir().unwrap();
    let blobs = Blobs::local(folder.path(), LIMIT).unwrap();
    (folder, blobs)
}

async fn gives_back_what_was_put(blobs: &Blobs) {
    for content in [Vec::new(), b"\0\xff\r\n".to_vec(), vec![7; LIMIT as usize]] {
        let blob = blobs.put(content.clone()).await.unwrap();
        assert_eq!(blob.bytes, content.len() as u64);
        assert_eq!(blob.hash, blake3::hash(&content).to_hex().as_str());
        assert_eq!(blobs.put(content.clone()).await.unwrap(), blob, "storing again");
        assert_eq!(blobs.get(&blob).await.unwrap(), content);
        assert_eq!(blobs.get_by_hash(&blob.hash).await.unwrap(), content);
    }
}

async fn gives_ranges(blobs: &Blobs) {
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

async fn refuses(blobs: &Blobs) {
    let large = vec![0; LIMIT as usize + 1];
    assert_eq!(blobs.put(large).await, Err(BlobError::TooLarge { bytes: LIMIT + 1, limit: LIMIT }));
    let absent = blake3::hash(b"never stored").to_hex().to_string();
    assert_eq!(blobs.get_by_hash(&absent).await, Err(BlobError::NotFound(absent.clone())));
    for bad in ["", "../../etc/passwd", &absent[1..], &absent.to_uppercase(), &absent.replace('a', "é")] {
        assert_eq!(blobs.get_by_hash(bad).await, Err(BlobError::BadHash(bad.to_owned())), "{bad}");
    }
}

#[tokio::test]
async fn local_and_memory_behave_alike() {
    let (_folder, local) = local();
    for blobs in [&local, &Blobs::in_memory(LIMIT)] {
        gives_back_what_was_put(blobs).await;
        gives_ranges(blobs).await;
        refuses(blobs).await;
    }
}

#[tokio::test]
async fn keys_name_two_digits_and_the_hash() {
    let (folder, blobs) = local();
    let blob = blobs.put("x").await.unwrap();
    let path = folder.path().join("blob").join(&blob.hash[..2]).join(&blob.hash);
    assert_eq!(std::fs::read(path).unwrap(), b"x");
}

#[tokio::test]
async fn a_damaged_blob_is_never_given_out_and_can_be_put_again() {
    let (folder, blobs) = local();
    let blob = blobs.put("content").await.unwrap();
    let path = folder.path().join("blob").join(&blob.hash[..2]).join(&blob.hash);
    std::fs::write(&path, "Content").unwrap();
    assert_eq!(blobs.get(&blob).await, Err(BlobError::Damaged(blob.hash.clone())));
    std::fs::write(&path, "cont").unwrap();
    assert_eq!(blobs.get(&blob).await, Err(BlobError::Damaged(blob.hash.clone())));
    blobs.put("content").await.unwrap();
    assert_eq!(blobs.get(&blob).await.unwrap(), "content");
}

#[tokio::test]
async fn what_a_killed_process_left_half_written_is_removed() {
    let (folder, blobs) = local();
    let blob = blobs.put("kept").await.unwrap();
    let below = folder.path().join("blob").join(&blob.hash[..2]);
    let staged = ["#1", "#27"].map(|end| below.join(format!("{}{end}", blob.hash)));
    let others = ["notes#1".to_owned(), format!("{}#", blob.hash), format!("{}#1a", blob.hash)];
    let others = others.map(|name| below.join(name));
    staged.iter().chain(&others).for_each(|path| std::fs::write(path, "ke").unwrap());
    assert_eq!(blobs.sweep().await, Ok(2));
    assert!(staged.iter().all(|path| !path.exists()) && others.iter().all(|path| path.exists()));
    assert_eq!(blobs.get(&blob).await.unwrap(), "kept");
    assert_eq!(Blobs::in_memory(LIMIT).sweep().await, Ok(0));
}

#[cfg(unix)]
#[tokio::test]
async fn staging_names_are_those_that_are_swept() {
    let (folder, blobs) = local();
    // An upload that neither ends nor is given up, as in a killed process.
    let objects = object_store::local::LocalFileSystem::new_with_prefix(folder.path()).unwrap();
    let hash = blake3::hash(b"x").to_hex().to_string();
    let key = super::key_of(&hash).unwrap();
    let mut upload = object_store::ObjectStoreExt::put_multipart(&objects, &key).await.unwrap();
    upload.put_part("half".into()).await.unwrap();
    std::mem::forget(upload);
    assert_eq!(blobs.sweep().await, Ok(1));
}

#[tokio::test]
async fn blobs_survive_the_process() {
    let (folder, blobs) = local();
    let blob = blobs.put("kept").await.unwrap();
    drop(blobs);
    let again = Blobs::local(folder.path(), LIMIT).unwrap();
    assert_eq!(again.get(&blob).await.unwrap(), "kept");
}

fn blob(name: &str) -> BlobRef {
    BlobRef { hash: blake3::hash(name.as_bytes()).to_hex().to_string(), bytes: 1 }
}

fn image(name: &str) -> Part {
    let media_type = "image/png".to_owned();
    Part::Image(Media { blob: blob(name), media_type, name: None, width: None, height: None })
}

fn result(content: Vec<Part>, truncated: Option<&str>) -> ToolResult {
    let truncated = truncated.map(|name| Truncation {
        head_bytes: 0,
        omitted_chars: 1,
        total_chars: 1,
        blob: blob(name),
        lost_bytes: 0,
    });
    ToolResult { call_id: "c".into(), status: ToolStatus::Completed, content, truncated }
}

fn hashes(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| blob(name).hash).collect()
}

#[test]
fn every_blob_that_an_event_names_is_found() {
    let message = Message::user("m", vec![image("a"), Part::text("x"), image("b"), image("a")]);
    let note = EventBody::NoteAdded { message: message.clone(), why: NoteReason::Loop };
    let taken = EventBody::MessagesTaken { message, taken: Vec::new(), coalesced: None };
    for event in [note, taken] {
        assert_eq!(blob_hashes(&event), hashes(&["a", "b"]));
    }
    let finished = EventBody::ToolFinished { result: result(vec![image("c")], Some("d")) };
    assert_eq!(blob_hashes(&finished), hashes(&["c", "d"]));
    assert_eq!(blob_hashes(&EventBody::TitleSet { title: "t".into() }), Vec::<String>::new());
}

#[test]
fn blobs_in_the_replacement_of_an_edit_are_found() {
    let nested = Part::ToolResult(result(vec![image("e")], Some("f")));
    let replace = ViewOp::Replace { range: LogRange::one(2), parts: vec![nested, image("g")], summary: true };
    let edit = ViewEdit {
        id: "e".into(),
        base_view_hash: String::new(),
        ops: vec![ViewOp::clear(1), replace],
        kind: EditKind::Compaction,
        strategy: "truncation".into(),
        reason: EditReason::Requested,
        trigger_tokens: 0,
        original_tokens: 0,
        compressed_tokens: 0,
        original_bound: 0,
        compressed_bound: 0,
        original_messages: 0,
        compressed_messages: 0,
        why: String::new(),
        usage: None,
    };
    assert_eq!(blob_hashes(&EventBody::ViewEdited(Box::new(edit))), hashes(&["e", "f", "g"]));
}
