use super::*;
use crate::event::{Event, EventBody, FORMAT, NoteReason};
use crate::ids::{LogRange, Seq};
use crate::message::Message;
use crate::retention::user_text::without_section;

/// A session in which a client gives only notes.
fn session(notes: &[(&str, NoteReason)]) -> History {
    let mut history = History::default();
    let mut add = |body: EventBody| {
        let event = Event { seq: history.last_seq() + 1, at: 0, format: FORMAT, body };
        history.apply(&event).unwrap();
    };
    add(EventBody::SessionStarted { title: None, forked_from: None, imported_from: None, folder: None });
    for (text, why) in notes {
        let message = Message::user("m", vec![Part::text(*text)]);
        add(EventBody::NoteAdded { message, why: *why });
    }
    history
}

fn system(texts: &[&str]) -> History {
    let notes: Vec<_> = texts.iter().map(|text| (*text, NoteReason::SystemMessage)).collect();
    session(&notes)
}

fn range(from: Seq, to: Seq) -> [LogHandle; 1] {
    [LogHandle(LogRange { from, to })]
}

#[test]
fn system_messages_are_quoted_whole_and_other_notes_are_not() {
    let history = session(&[
        ("Answer in Latin.\n\n  Sign with \"Vale\".", NoteReason::SystemMessage),
        ("<system-reminder>The todo list is empty.</system-reminder>", NoteReason::Imported),
    ]);
    let list = system_message_list(&history, &range(1, 9), 1_000);
    assert_eq!(list, format!("{TITLE}\n- Answer in Latin.\n\n  Sign with \"Vale\".\n{END}\n"));
    assert_eq!(system_message_list(&history, &range(3, 9), 1_000), "");
}

#[test]
fn a_repeated_system_message_is_quoted_once_at_its_newest_place() {
    let history = system(&["Be brief.", "Be polite.", "Be brief."]);
    let list = system_message_list(&history, &range(1, 9), 1_000);
    assert_eq!(list, format!("{TITLE}\n- Be polite.\n- Be brief.\n{END}\n"));
}

#[test]
fn only_a_system_message_without_room_is_cut_to_both_ends() {
    let long = format!("FIRST {} LAST", "word ".repeat(3_000));
    let history = system(&["Be brief.", &long]);
    let messages = SystemMessages::of(&history, &range(1, 9));
    let list = messages.list(messages.share(500));
    assert!(list.contains("- Be brief.\n") && list.contains("- FIRST word"), "{list}");
    assert!(list.contains(" … ") && list.contains("LAST (shortened)"), "{list}");
    let tokens = history.counter().text(&list);
    assert!((350..=500).contains(&tokens) && messages.tokens(500) <= 500, "{tokens}");
}

#[test]
fn a_summary_that_comes_back_hands_its_system_messages_on() {
    let list = system_message_list(&system(&["Be brief.\n\nAlways.", "Be polite."]), &range(1, 9), 1_000);
    let summary = format!("[SUMMARY] of 9 earlier messages.\n\n{list}\nGoal: three.");
    assert!(quotes_system_messages(&summary) && !quotes_system_messages(&list));
    assert_eq!(system_message_list(&system(&[&summary]), &range(1, 9), 1_000), list);
}

#[test]
fn a_summary_is_read_without_its_system_messages() {
    let list = system_message_list(&system(&["One.\n\nTwo."]), &range(1, 9), 1_000);
    let text = format!("[SUMMARY] of 9 earlier messages.\n\n{list}\nGoal: three.");
    assert_eq!(without_section(&text), "[SUMMARY] of 9 earlier messages.\n\n\n\nGoal: three.");
}
