//! Metadata that clients send with their messages: stored, and never sent to a model.

use serde_json::json;

use super::*;
use crate::event::CoalescedMessages;
use crate::metadata::MessageMetadata;

fn metadata(of: &str) -> MessageMetadata {
    MessageMetadata::try_from(json!({ "secret": of })).unwrap()
}

fn stage_with(queued: impl IntoIterator<Item = (&'static str, bool)>) -> Stage {
    let mut stage = Stage::new(|_| {});
    for (id, has_metadata) in queued {
        stage.queue(id, id);
        stage.queue.last_mut().unwrap().metadata = has_metadata.then(|| metadata(id));
    }
    stage.feed(RunLoopInput::Wake);
    stage
}

fn taken(stage: &Stage) -> (Option<MessageMetadata>, Option<CoalescedMessages>) {
    let found = stage.log.iter().find_map(|event| match &event.body {
        EventBody::MessagesTaken { metadata, coalesced, .. } => Some((metadata.clone(), coalesced.clone())),
        _ => None,
    });
    found.unwrap()
}

#[test]
fn the_metadata_of_one_message_is_stored_beside_it() {
    assert_eq!(taken(&stage_with([("a", true)])), (Some(metadata("a")), None));
}

#[test]
fn the_metadata_of_several_messages_is_stored_by_their_ids() {
    let (metadata_alone, coalesced) = taken(&stage_with([("a", true), ("b", false), ("c", true)]));
    assert_eq!(metadata_alone, None);
    let expected = ["a", "c"].map(|id| (QueueId::from(id), metadata(id)));
    assert_eq!(coalesced.unwrap().original_metadata, expected.into());
}

#[test]
fn metadata_is_neither_shown_to_the_model_nor_counted() {
    for several in [false, true] {
        let with = |has_metadata| {
            let ids = if several { vec!["a", "b"] } else { vec!["a"] };
            stage_with(ids.into_iter().map(move |id| (id, has_metadata)))
        };
        let (with, without) = (with(true), with(false));
        assert_ne!(with.log, without.log, "it is stored");
        let shown = |stage: &Stage| format!("{:?}", request_messages(stage.run.history().view()));
        assert_eq!(shown(&with), shown(&without));
        assert!(!shown(&with).contains("secret"));
        assert_eq!(with.run.meter().total, without.run.meter().total);
    }
}

/// Events without metadata are stored as they were before there was any.
#[test]
fn events_without_metadata_have_the_form_of_earlier_versions() {
    let alone = r#"{"kind":"messages-taken","message":{"id":"a","role":"user","parts":[{"type":"text","text":"a"}]},"taken":["a"],"coalesced":null}"#;
    let of_two = r#"{"kind":"messages-taken","message":{"id":"m2","role":"user","parts":[]},"taken":["a","b"],"coalesced":{"messageCount":2,"originalMessages":["a","b"],"firstQueuedAt":1,"lastQueuedAt":2}}"#;
    for stored in [alone, of_two] {
        let read: EventBody = serde_json::from_str(stored).unwrap();
        assert_eq!(Event::encode_body(&read).unwrap(), stored);
    }
    let of_now = stage_with([("a", false)]).log.into_iter().map(|event| event.body);
    let of_now = of_now.map(|body| Event::encode_body(&body).unwrap());
    assert!(of_now.into_iter().any(|body| body == alone));
}
