use std::fs::File;
use std::time::{Duration, SystemTime};

use longhaul_core::event::{EditKind, EditReason, EventBody, NoteReason, ViewEdit, ViewOperation};
use longhaul_core::ids::LogRange;
use longhaul_core::message::{BlobRef, MediaPart, Message, OutputTruncation, Part, ToolResult, ToolStatus};

use super::conformance::{self, LIMIT};
use super::{BlobError, BlobStore, BlobSweepReport, ReferencedBlobs, UNTOUCHED, blob_hashes};

fn local() -> (tempfile::TempDir, BlobStore) {
    let folder = tempfile::tempdir().unwrap();
    let blobs = BlobStore::local(folder.path(), LIMIT).unwrap();
    (folder, blobs)
}

#[tokio::test]
async fn local_and_memory_behave_alike() {
    let (_folder, local) = local();
    for blobs in [&local, &BlobStore::in_memory(LIMIT)] {
        conformance::all(blobs).await;
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
    // Files whose names only resemble staged ones belong to somebody else.
    let others = ["notes#1".to_owned(), format!("{}#", blob.hash), format!("{}#1a", blob.hash)];
    let others = others.map(|name| below.join(name));
    staged.iter().chain(&others).for_each(|path| std::fs::write(path, "ke").unwrap());
    assert_eq!(blobs.sweep().await, Ok(2));
    assert!(staged.iter().all(|path| !path.exists()) && others.iter().all(|path| path.exists()));
    assert_eq!(blobs.get(&blob).await.unwrap(), "kept");
    assert_eq!(BlobStore::in_memory(LIMIT).sweep().await, Ok(0));
}

#[tokio::test]
async fn what_is_stored_again_counts_as_new() {
    let (folder, blobs) = local();
    let blob = blobs.put("content").await.unwrap();
    let path = folder.path().join("blob").join(&blob.hash[..2]).join(&blob.hash);
    let (now, hour) = (SystemTime::now(), Duration::from_secs(60 * 60));
    let age =
        |hours| File::options().append(true).open(&path).unwrap().set_modified(now - hour * hours).unwrap();
    age(48);
    blobs.put("content").await.unwrap();
    // Whoever stored it has a day to name it.
    let swept = blobs.sweep_unnamed(&ReferencedBlobs::default(), now + hour * 24).await.unwrap();
    assert_eq!(swept, BlobSweepReport::default());
    assert_eq!(std::fs::read(&path).unwrap(), b"content");
    age(48);
    assert_eq!(blobs.sweep_unnamed(&ReferencedBlobs::default(), now).await.unwrap().set_aside, 1);
    assert!(!path.exists() && blobs.get(&blob).await.unwrap() == "content" && path.exists());
}

#[tokio::test]
async fn who_has_the_blobs_alone_removes_at_once_what_is_old() {
    let (folder, blobs) = local();
    let (named, unnamed) = (blobs.put("named").await.unwrap(), blobs.put("unnamed").await.unwrap());
    let all = || ReferencedBlobs::from_iter([&named.hash]);
    assert_eq!(blobs.keep_only(&all(), Duration::from_secs(60)).await, Ok((0, 0)));
    let later = SystemTime::now() + UNTOUCHED + Duration::from_secs(60);
    assert_eq!(blobs.sweep_unnamed(&ReferencedBlobs::default(), later).await.unwrap().set_aside, 2);
    // Ages are compared in whole seconds.
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    assert_eq!(blobs.keep_only(&all(), Duration::ZERO).await, Ok((1, 7)), "also what is aside");
    assert_eq!(blobs.get(&unnamed).await, Err(BlobError::NotFound(unnamed.hash.clone())));
    let path = folder.path().join("blob").join(&named.hash[..2]).join(&named.hash);
    assert_eq!(std::fs::read(path).unwrap(), b"named", "what is named is back in its place");
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
    let again = BlobStore::local(folder.path(), LIMIT).unwrap();
    assert_eq!(again.get(&blob).await.unwrap(), "kept");
}

fn blob(name: &str) -> BlobRef {
    BlobRef { hash: blake3::hash(name.as_bytes()).to_hex().to_string(), bytes: 1 }
}

fn image(name: &str) -> Part {
    let media_type = "image/png".to_owned();
    Part::Image(MediaPart { blob: blob(name), media_type, name: None, width: None, height: None })
}

fn result(content: Vec<Part>, truncated: Option<&str>) -> ToolResult {
    let truncated = truncated.map(|name| OutputTruncation {
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
    let taken = EventBody::message_taken(message);
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
    let replace =
        ViewOperation::Replace { range: LogRange::one(2), parts: vec![nested, image("g")], summary: true };
    let edit = ViewEdit {
        id: "e".into(),
        base_view_hash: String::new(),
        ops: vec![ViewOperation::clear(1), replace],
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
        summary: None,
    };
    assert_eq!(blob_hashes(&EventBody::ViewEdited(Box::new(edit))), hashes(&["e", "f", "g"]));
}
