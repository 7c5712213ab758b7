//! An answer that was paused and went on.

use crate::lab::recording::SessionRecording;
use longhaul_core::event::{EventBody, PartialAnswerReason};
use longhaul_core::message::{Message, ModelStopReason, Part, Role};

use crate::lab::tests::script::{FIXED, counter, event};

fn says(id: &str, text: &str, cut: Option<PartialAnswerReason>) -> EventBody {
    EventBody::AssistantAdded {
        step_id: "s1".into(),
        message: Message {
            id: id.into(),
            role: Role::Assistant,
            parts: vec![Part::text(text)],
            origin: None,
        },
        finish: ModelStopReason::Stop,
        cut,
    }
}

#[test]
fn each_piece_of_an_answer_is_there_once() {
    let asked = EventBody::message_taken(Message::user("u", vec![Part::text("tell me")]));
    let bodies = [
        EventBody::SessionStarted { title: None, forked_from: None, imported_from: None, folder: None },
        asked,
        says("a", "one two ", Some(PartialAnswerReason::Paused)),
        says("b", "three four five ", Some(PartialAnswerReason::Lost)),
        says("c", "three ", Some(PartialAnswerReason::Paused)),
        says("d", "four", None),
    ];
    let events = (1..).zip(bodies).map(|(seq, body)| event(seq, 0, body)).collect();
    let recording = SessionRecording::of("paused", "by hand", events, FIXED, counter()).unwrap();
    let texts: Vec<&str> = recording.entries.iter().map(|entry| &*entry.text).collect();
    assert_eq!(texts, ["tell me", "one two ", "three four five ", "three ", "four"]);
    let tokens: Vec<u64> = recording.entries.iter().map(|entry| entry.tokens).collect();
    assert_eq!(tokens, [2, 2, 0, 1, 1], "what was lost is never sent");
}
