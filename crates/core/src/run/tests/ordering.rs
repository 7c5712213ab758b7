//! Standing orders while the loop works, rests and dies.

use super::*;
use crate::event::NoteReason;
use crate::ids::OrderId;
use crate::message::Message;
use crate::orders::tool::PinArguments;
use crate::orders::{MAX_ACTIVE_ORDERS, StandingOrderError, WINDOW_SHARE};

impl Stage {
    fn pin(&mut self, text: &str) -> Vec<RunEffect> {
        let events = self.run.pin_order(text, None).unwrap();
        self.feed(RunLoopInput::RecordOrders(events))
    }

    fn active(&self) -> Vec<String> {
        self.run.history().orders().map(|order| order.text.clone()).collect()
    }

    /// Returns the text of the next request.
    fn said(&self) -> Vec<String> {
        request_messages(self.run.history().view()).iter().map(Message::text).collect()
    }
}

#[test]
fn an_order_pinned_at_rest_is_told_before_the_next_message() {
    let mut stage = Stage::new(|_| {});
    stage.pin("Answer in French.");
    assert_eq!(stage.run.status(), RunStatus::Idle);
    assert_eq!(stage.feed(RunLoopInput::Resume), [RunEffect::Rested], "there is nothing to answer");
    stage.send("hello");
    assert_eq!(stage.said(), ["[Standing order o1, pinned by the user: Answer in French.]\n\nhello"]);
    stage.answer(vec![Part::text("Bonjour")]);
    stage.send("again");
    assert_eq!(stage.said().len(), 3, "told once");
    let kinds = stage.kinds();
    assert_eq!(kinds[..4], ["order-pinned", "run-started", "note-added", "messages-taken"]);
}

#[test]
fn an_order_pinned_while_tools_run_is_stored_at_once_and_told_before_the_next_step() {
    let mut stage = Stage::new(|_| {});
    stage.send("go");
    let running = running(&stage.answer(vec![call("read")]));
    let before = stage.said();
    stage.pin("Be brief.");
    assert_eq!(stage.active(), ["Be brief."]);
    assert_eq!(stage.said(), before, "nothing is said amid a step");
    let effects = stage.end_tool(&running[0], "x");
    assert!(matches!(effects.as_slice(), [RunEffect::CallModel { .. }]), "{effects:?}");
    assert_eq!(stage.said().last().unwrap(), "[Standing order o1, pinned by the user: Be brief.]");
    assert_eq!(stage.said()[..before.len()], before, "what was sent stays as it was");
    stage.answer(vec![Part::text("done")]);
    assert_eq!(stage.end(), Some((RunEnd::Stop, None)));
}

#[test]
fn an_order_pinned_during_the_last_answer_does_not_ask_for_another() {
    let mut stage = Stage::new(|_| {});
    stage.send("go");
    stage.pin("Be brief.");
    stage.answer(vec![Part::text("done")]);
    assert_eq!((stage.end(), stage.run.status()), (Some((RunEnd::Stop, None)), RunStatus::Idle));
    assert!(!stage.kinds().contains(&"note-added".to_owned()));
}

#[test]
fn a_pin_of_the_models_is_stored_with_its_result_or_not_at_all() {
    let mut stage = Stage::new(|_| {});
    stage.send("From now on answer in  french, please");
    let ids = running(&stage.answer(vec![call("pin"), call("pin"), call("pin")]));
    let request = |text: &str| PinArguments { text: text.to_owned(), replaces: None };
    let end = |stage: &mut Stage, id: &CallId, request: PinArguments| {
        let result = closing_result(id, ToolStatus::Completed, "");
        stage.feed(RunLoopInput::PinEnded { result, request });
    };
    end(&mut stage, &ids[0], request("Answer in French"));
    end(&mut stage, &ids[1], request("answer in french"));
    end(&mut stage, &ids[2], request(" "));
    let results = [
        (ToolStatus::Completed, "Standing order o1 is pinned.".to_owned()),
        (ToolStatus::Completed, "Standing order o1 says that already.".to_owned()),
        (ToolStatus::Error, "Not pinned: a standing order must have a text.".to_owned()),
    ];
    assert_eq!(stage.results(), results);
    assert_eq!(stage.active(), ["Answer in French"]);
    let order = stage.run.history().orders().next().unwrap();
    let said = stage.run.history().entries()[0].seq;
    assert_eq!(order.from, Some(said), "the message that says it");
    assert!(!stage.kinds().contains(&"note-added".to_owned()), "its call is there");
}

#[test]
fn a_crash_before_the_pin_is_durable_leaves_no_order_and_after_it_leaves_it() {
    for durable in [false, true] {
        let mut stage = Stage::new(|_| {});
        stage.send("go");
        let ids = running(&stage.answer(vec![call("pin")]));
        stage.held = (!durable).then(Vec::new);
        let result = closing_result(&ids[0], ToolStatus::Completed, "");
        let request = PinArguments { text: "Be brief.".to_owned(), replaces: None };
        stage.feed(RunLoopInput::PinEnded { result, request });
        stage.crash(None);
        assert_eq!(stage.active().len(), usize::from(durable));
        assert_eq!(stage.results().len(), 1);
        assert_eq!(stage.results()[0].0 == ToolStatus::Completed, durable);
    }
}

#[test]
fn a_note_that_a_crash_swallowed_is_made_again() {
    let mut stage = Stage::new(|_| {});
    stage.pin("Be brief.");
    stage.held = Some(Vec::new());
    stage.send("go");
    stage.crash(None);
    stage.send("on");
    let notes = stage.log.iter().filter(
        |event| matches!(&event.body, EventBody::NoteAdded { why, .. } if *why == NoteReason::Orders),
    );
    assert_eq!(notes.count(), 1);
    assert!(stage.said()[0].starts_with("[Standing order o1"), "{:?}", stage.said());
}

#[test]
fn a_cancel_that_finds_an_order_on_its_way_to_the_store_still_ends_the_run() {
    let mut stage = Stage::new(|_| {});
    stage.send("go");
    let ids = running(&stage.answer(vec![call("read")]));
    stage.held = Some(Vec::new());
    stage.pin("Be brief.");
    stage.feed(RunLoopInput::Cancel);
    stage.end_tool(&ids[0], "x");
    // The result is stored first: what is left of the stop is the order's.
    stage.held.as_mut().unwrap().reverse();
    stage.release();
    assert_eq!(stage.end(), Some((RunEnd::Cancelled, None)));
    assert_eq!(stage.active(), ["Be brief."]);
}

#[test]
fn orders_take_their_share_of_the_window_and_no_more() {
    let mut stage = Stage::new(|_| {});
    let most = stage.run.budget().usable / WINDOW_SHARE;
    let mut refused = None;
    for n in 0..MAX_ACTIVE_ORDERS {
        let text = format!("{n}: {}", "never do that ".repeat(60));
        match stage.run.pin_order(&text, None) {
            Ok(events) => drop(stage.feed(RunLoopInput::RecordOrders(events))),
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    let Some(StandingOrderError::TooLarge { tokens, most: said }) = refused else { panic!("{refused:?}") };
    assert!(said == most && tokens > most);
    assert!(stage.run.history().order_tokens() <= most);
    let first = stage.run.history().orders().next().unwrap().id.clone();
    let shorter = stage.run.edit_order(&first, "never").unwrap();
    stage.feed(RunLoopInput::RecordOrders(shorter));
    stage.send("go");
    assert_eq!(stage.run.status(), RunStatus::Streaming, "all of them fit");
}

#[test]
fn changes_that_change_nothing_store_nothing() {
    let mut stage = Stage::new(|_| {});
    stage.pin("Be brief.");
    assert_eq!(stage.run.pin_order("be  BRIEF.", None), Ok(Vec::new()));
    let id = OrderId::from("o1");
    assert_eq!(stage.run.pin_order("be  BRIEF.", Some(id.clone())), Ok(Vec::new()));
    assert_eq!(stage.run.edit_order(&id, "Be brief."), Ok(Vec::new()));
    assert_eq!(stage.run.edit_order(&id, "BE brief.").unwrap().len(), 1);
    stage.feed(RunLoopInput::RecordOrders(stage.run.remove_order(&id).unwrap()));
    assert_eq!(stage.run.remove_order(&id), Err(StandingOrderError::NotActive(id)));
}
