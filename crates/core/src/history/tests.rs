use super::*;
use crate::event::{FORMAT, NoteReason, RunEnd, StepKind, ViewOperation};
use crate::ids::{LogHandle, LogRange, Millis, StepId};
use crate::message::{
    BlobRef, ModelStopReason, OutputTruncation, RawJson, ReasoningPart, Role, TextPart, ToolCall,
};
use crate::truncate;

/// A log as it grows.
struct Log {
    events: Vec<Event>,
    history: History,
    now: Millis,
}

impl Default for Log {
    fn default() -> Self {
        Self { events: Vec::new(), history: History::default(), now: 7 }
    }
}

impl Log {
    fn begun() -> Self {
        let mut log = Self::default();
        log.add(EventBody::SessionStarted {
            title: None,
            forked_from: None,
            imported_from: None,
            folder: None,
        });
        log.add(EventBody::RunStarted { run_id: "r".into() });
        log
    }

    fn add(&mut self, body: EventBody) -> Seq {
        let event = Event { seq: self.events.len() as u64 + 1, at: self.now, format: FORMAT, body };
        let mut moved = self.history.clone();
        moved.apply_owned(event.clone()).unwrap();
        self.history.apply(&event).unwrap();
        assert!(moved == self.history, "an owned event is folded otherwise: {event:?}");
        self.events.push(event);
        self.history.last_seq()
    }

    fn typed(&mut self, text: &str) -> Seq {
        let message = Message::user(text, vec![Part::text(text)]);
        self.add(EventBody::message_taken(message))
    }

    fn note(&mut self, text: &str, why: NoteReason) -> Seq {
        self.add(EventBody::NoteAdded { message: Message::user(text, vec![Part::text(text)]), why })
    }

    fn begin(&mut self) -> StepId {
        self.begin_in(None)
    }

    fn begin_in(&mut self, window_tokens: Option<u64>) -> StepId {
        let step_id = StepId::new(format!("s{}", self.events.len() + 1));
        let start = StepStart {
            step_id: step_id.clone(),
            run_id: "r".into(),
            purpose: StepKind::Main,
            model: origin(),
            system_hash: String::new(),
            tools_hash: String::new(),
            view_hash: self.history.view_hash(),
            fixed_tokens: 100,
            estimated_input: 0,
            max_output_tokens: 1,
            window_tokens,
        };
        self.add(EventBody::StepStarted(Box::new(start)));
        step_id
    }

    fn answer(&mut self, parts: Vec<Part>, cut: Option<PartialAnswerReason>) -> Seq {
        let step_id = self.begin();
        let message = Message { id: "a".into(), role: Role::Assistant, parts, origin: Some(origin()) };
        let finish = ModelStopReason::Stop;
        let seq = self.add(EventBody::AssistantAdded { step_id: step_id.clone(), message, finish, cut });
        self.add(EventBody::StepFinished { step_id, usage: None, estimated_input: 0, envelope: None });
        seq
    }

    /// A step that answers `parts` and reports `usage`.
    fn reported(&mut self, parts: Vec<Part>, usage: Usage) {
        self.reported_in(None, parts, usage);
    }

    fn reported_in(&mut self, window: Option<u64>, parts: Vec<Part>, usage: Usage) {
        let step_id = self.begin_in(window);
        let message = Message { id: "a".into(), role: Role::Assistant, parts, origin: None };
        let finish = ModelStopReason::Stop;
        self.add(EventBody::AssistantAdded { step_id: step_id.clone(), message, finish, cut: None });
        let usage = Some(usage);
        self.add(EventBody::StepFinished { step_id, usage, estimated_input: 120, envelope: None });
    }

    fn result(&mut self, call: &str, text: &str) -> Seq {
        let result = closing_result(&call.into(), ToolStatus::Completed, text);
        self.add(EventBody::ToolFinished { result })
    }

    fn edit(&mut self, id: &str, kind: EditKind, ops: Vec<ViewOperation>) -> Seq {
        self.add(EventBody::ViewEdited(Box::new(ViewEdit {
            id: id.into(),
            base_view_hash: self.history.view_hash(),
            ops,
            kind,
            strategy: "test".to_owned(),
            reason: crate::event::EditReason::Requested,
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
        })))
    }

    fn shown(&self) -> Vec<String> {
        self.history.view().iter().map(|item| shown(&item.message)).collect()
    }
}

fn shown(message: &Message) -> String {
    let parts = message.parts.iter().map(|part| match part {
        Part::Text(text) => text.text.clone(),
        Part::ToolCall(call) => format!("{}({})", call.call_id, call.arguments),
        Part::ToolResult(result) => {
            let text: String = result.content.iter().filter_map(Part::as_text).collect();
            format!("{}={text}", result.call_id)
        }
        _ => "?".to_owned(),
    });
    parts.collect::<Vec<_>>().join(" ")
}

fn origin() -> ModelOrigin {
    ModelOrigin { provider: "p".to_owned(), api: "a".to_owned(), model: "m".to_owned() }
}

fn call(id: &str) -> Part {
    called(id, "{}")
}

fn called(id: &str, arguments: &str) -> Part {
    Part::ToolCall(ToolCall {
        call_id: id.into(),
        name: "read".to_owned(),
        arguments: arguments.to_owned(),
        provider_id: None,
        native: None,
    })
}

fn replace(from: Seq, to: Seq) -> ViewOperation {
    ViewOperation::Replace {
        range: LogRange { from, to },
        parts: vec![Part::text("[SUMMARY] so far")],
        summary: true,
    }
}

#[test]
fn the_pauses_between_requests_are_known_after_a_replay() {
    let mut log = Log::begun();
    for _ in 0..3 {
        log.typed("more");
        log.begin();
        log.now += 20 * 60_000;
    }
    let replayed = log.events.iter().fold(History::default(), |mut history, event| {
        history.apply(event).unwrap();
        history
    });
    assert_eq!(replayed.request_pauses(), log.history.request_pauses());
    assert_eq!(replayed.request_pauses().newest_at(), Some(7 + 2 * 20 * 60_000));
    assert!(replayed.request_pauses().is_long_cache_cheaper());
}

#[test]
fn a_log_has_no_gaps_and_no_future() {
    let mut log = Log::begun();
    let seq = log.typed("hi");
    let event =
        |seq, format| Event { seq, at: 0, format, body: EventBody::TitleSet { title: "t".to_owned() } };
    let before = log.history.clone();
    assert_eq!(log.history.apply(&event(seq, FORMAT)), Err(HistoryFoldError::Gap { last: seq, found: seq }));
    assert_eq!(
        log.history.apply(&event(seq + 2, FORMAT)),
        Err(HistoryFoldError::Gap { last: seq, found: seq + 2 })
    );
    let newer = Err(HistoryFoldError::Newer { seq: seq + 1, format: FORMAT + 1 });
    assert_eq!(log.history.apply(&event(seq + 1, FORMAT + 1)), newer);
    assert_eq!(log.history, before, "a refused event changes nothing");
    assert_eq!(History::fold(&log.events).unwrap(), log.history);
}

#[test]
fn results_stand_in_call_order_whatever_ends_first() {
    for order in [["c1", "c2", "c3"], ["c3", "c2", "c1"], ["c2", "c3", "c1"], ["c3", "c1", "c2"]] {
        let mut log = Log::begun();
        log.typed("go");
        log.answer(vec![call("c1"), call("c2"), call("c3")], None);
        order.iter().for_each(|id| _ = log.result(id, "done"));
        let expected = ["go", "c1({}) c2({}) c3({})", "c1=done", "c2=done", "c3=done"];
        assert_eq!(log.shown(), expected, "{order:?}");
        assert_eq!(log.history.open_calls(), []);
        assert_eq!(History::fold(&log.events).unwrap(), log.history);
    }
}

#[test]
fn a_second_result_is_nothing() {
    let mut log = Log::begun();
    log.answer(vec![call("c1")], None);
    log.result("c1", "once");
    log.result("c1", "twice");
    log.result("c9", "never asked for");
    assert_eq!(log.shown(), ["c1({})", "c1=once"]);
}

#[test]
fn a_request_answers_every_call_and_merges_users() {
    let mut log = Log::begun();
    log.answer(vec![Part::text("first"), call("c1"), call("c2")], None);
    log.result("c2", "two");
    log.typed("more");
    log.note("[note]", NoteReason::Loop);
    let messages = request_messages(log.history.view());
    let roles: Vec<Role> = messages.iter().map(|message| message.role).collect();
    assert_eq!(roles, [Role::User, Role::Assistant, Role::Tool, Role::Tool, Role::User]);
    assert!(shown(&messages[2]).starts_with("c1=[No result"), "{}", shown(&messages[2]));
    assert_eq!(shown(&messages[3]), "c2=two");
    assert_eq!(messages[4].text(), "more\n\n[note]");
}

#[test]
fn cut_answers_are_shown_as_far_as_they_are_whole() {
    let thought = |native: Option<&str>| {
        Part::Reasoning(ReasoningPart {
            text: "hm".to_owned(),
            native: native.map(|native| RawJson(native.to_owned())),
        })
    };
    let mut log = Log::begun();
    log.typed("a");
    log.answer(vec![Part::text("lost")], Some(PartialAnswerReason::Lost));
    assert_eq!(log.shown(), ["a"], "after a failure people see it, the model does not");
    assert!(!log.history.is_answered());
    log.answer(vec![thought(None), Part::text("part of")], Some(PartialAnswerReason::Cancelled));
    assert_eq!(log.shown(), ["a", "part of"]);
    let parts = &log.history.view()[1].message.parts;
    assert_eq!(parts.len(), 1, "no partial reasoning");
    log.answer(vec![thought(None)], Some(PartialAnswerReason::Cancelled));
    assert_eq!(log.shown().len(), 2, "nothing is shown of nothing");
    let messages = request_messages(log.history.view());
    assert_eq!(messages.len(), 2);
}

#[test]
fn two_answers_in_a_row_read_as_one() {
    let mut log = Log::begun();
    log.typed("a");
    log.answer(vec![Part::text("begun")], Some(PartialAnswerReason::Cancelled));
    log.answer(vec![Part::text(" and ended"), call("c1")], None);
    log.result("c1", "x");
    let messages = request_messages(log.history.view());
    assert_eq!(messages.iter().map(shown).collect::<Vec<_>>(), ["a", "begun  and ended c1({})", "c1=x"]);
}

#[test]
fn two_answers_of_two_models_carry_no_foreign_item() {
    let native =
        |text: &str| Part::Text(TextPart { text: text.to_owned(), native: Some(RawJson("{}".to_owned())) });
    let mut log = Log::begun();
    log.typed("a");
    log.answer(vec![Part::text("kept")], Some(PartialAnswerReason::Cancelled));
    let own = request_messages(log.history.view())[1].origin.clone();
    log.reported(vec![native("theirs")], Usage::default());
    log.answer(vec![native("ours")], None);
    let messages = request_messages(log.history.view());
    assert_eq!((messages.len(), &messages[1].origin), (2, &own));
    let natives =
        messages[1].parts.iter().map(|part| matches!(part, Part::Text(TextPart { native: Some(_), .. })));
    assert_eq!(natives.collect::<Vec<_>>(), [false, false, true]);
}

#[test]
fn arguments_that_are_no_object_are_quoted() {
    for (written, shown_as) in [
        ("{\"a\": 1}", "c1({\"a\": 1})"),
        ("{\"a\": ", "c1({\"invalid_arguments\":\"{\\\"a\\\": \"})"),
        ("[1]", "c1({\"invalid_arguments\":\"[1]\"})"),
    ] {
        let mut log = Log::begun();
        log.answer(vec![called("c1", written)], None);
        assert_eq!(log.shown(), [shown_as]);
        assert_eq!(log.history.open_calls()[0].call.arguments, written, "the tool gets what was written");
    }
}

#[test]
fn a_truncated_result_names_its_handle() {
    let mut log = Log::begun();
    log.answer(vec![call("c1")], None);
    let truncated = Some(OutputTruncation {
        head_bytes: 4,
        omitted_chars: 90,
        total_chars: 98,
        blob: BlobRef { hash: "0".repeat(64), bytes: 98 },
        lost_bytes: 0,
    });
    let result = ToolResult { truncated, ..closing_result(&"c1".into(), ToolStatus::Completed, "headtail") };
    let seq = log.add(EventBody::ToolFinished { result });
    let marker = truncate::marker(90, 98, LogHandle(LogRange::one(seq)));
    assert!(marker.starts_with("[Output truncated - exceeded maximum length]"));
    assert_eq!(log.shown()[1], format!("c1=head\n{marker}\ntail"));
    assert_eq!(shown(&log.history.entry(seq).unwrap().message), "c1=headtail", "the log keeps the bytes");
}

#[test]
fn an_edit_changes_the_view_and_its_undo_restores_it() {
    let mut log = Log::begun();
    let first = log.typed("one");
    log.answer(vec![call("c1")], None);
    let result = log.result("c1", "a long output");
    let last = log.answer(vec![Part::text("fine")], None);
    log.typed("two");
    let (hash, before) = (log.history.view_hash(), log.shown());

    log.edit("e1", EditKind::Prune, vec![ViewOperation::clear(result)]);
    assert!(log.shown()[2].starts_with(&format!("c1={CLEARED}")), "{:?}", log.shown());
    assert!(log.shown()[2].ends_with(&format!(" lh:{result}")), "{:?}", log.shown());
    let pruned = log.history.view_hash();
    log.edit("e2", EditKind::Compaction, vec![replace(first, last)]);
    assert_eq!(log.shown(), ["[SUMMARY] so far", "two"]);
    assert_eq!(log.history.compactions(), 1);

    let built_on = UndoError::BuiltOn { edit: "e1".into(), by: "e2".into() };
    assert_eq!(log.history.check_undo(&"e1".into()).unwrap_err(), built_on);
    assert_eq!(log.history.check_undo(&"e9".into()).unwrap_err(), UndoError::NotFound("e9".into()));
    log.add(EventBody::ViewRestored { edit_id: "e2".into() });
    assert_eq!(log.history.view_hash(), pruned);
    assert_eq!(log.history.pinned(), [LogRange { from: first, to: last }]);
    log.add(EventBody::RangeReleased { edit_id: "e2".into() });
    assert_eq!(log.history.pinned(), []);
    log.add(EventBody::ViewRestored { edit_id: "e1".into() });
    assert_eq!((log.history.view_hash(), log.shown()), (hash, before));
    assert_eq!(History::fold(&log.events).unwrap(), log.history);
}

#[test]
fn a_note_that_goes_leaves_what_it_led_to_to_the_next() {
    let mut log = Log::begun();
    let first = log.typed("one");
    let second = log.typed("two");
    let third = log.typed("three");
    let drop = ViewOperation::Drop { range: LogRange::one(third) };
    log.edit("e1", EditKind::Compaction, vec![replace(first, first), drop]);
    assert_eq!(log.history.view()[0].covers, [LogRange::one(first), LogRange::one(third)]);
    log.edit("e2", EditKind::Compaction, vec![replace(first, second)]);
    assert_eq!(log.history.view()[0].covers, [LogRange { from: first, to: third }]);
}

#[test]
fn forms_that_did_not_change_keep_their_place_in_the_count() {
    let mut log = Log::begun();
    let first = log.typed("one");
    log.answer(vec![call("c1"), call("c2")], None);
    log.result("c2", "second, first");
    log.result("c1", "first, second");
    let since: Vec<Seq> = log.history.view()[1..].iter().map(|item| item.since).collect();
    log.edit("e1", EditKind::Compaction, vec![replace(first, first)]);
    let after: Vec<Seq> = log.history.view()[1..].iter().map(|item| item.since).collect();
    assert_eq!(after, since);
}

#[test]
fn units_are_steps_with_their_results() {
    let mut log = Log::begun();
    log.typed("one");
    let step = log.answer(vec![call("c1"), call("c2")], None);
    let late = log.result("c2", "b");
    log.result("c1", "a");
    log.note("[note]", NoteReason::Loop);
    log.typed("two");
    let units = units(log.history.view(), &[LogRange::one(late)]);
    let kinds: Vec<ViewUnitKind> = units.iter().map(|unit| unit.kind).collect();
    assert_eq!(kinds, [ViewUnitKind::Typed, ViewUnitKind::Step, ViewUnitKind::Note, ViewUnitKind::Typed]);
    assert_eq!(units.iter().map(|unit| unit.turn).collect::<Vec<_>>(), [1, 1, 1, 2]);
    assert_eq!(units[1].items, 1..4);
    assert_eq!(units[1].range, LogRange { from: step, to: late + 1 });
    assert!(units[1].pinned && !units[2].pinned);
    assert_eq!(units.iter().map(|unit| unit.tokens).sum::<u64>(), log.history.view_tokens());
}

#[test]
fn usage_anchors_the_meter() {
    let mut log = Log::begun();
    log.typed("one");
    log.reported(vec![Part::text("yes")], Usage { input_tokens: 500, output_tokens: 9, ..Usage::default() });
    let reading = crate::meter::read(&log.history, 100);
    assert_eq!((reading.total, reading.estimated, reading.bound()), (509, 0, 509));
    log.typed("two more words");
    let reading = crate::meter::read(&log.history, 100);
    assert_eq!(reading.total, 509 + log.history.view().last().unwrap().tokens);
    assert_eq!(crate::meter::read(&log.history, 130).total, reading.total + 30, "new tools are estimated");
    assert_eq!(log.history.errors_per_mille().len(), 0, "the first call teaches nothing");
    assert_eq!(log.history.last_error_per_mille(), Some(-760), "and is told");
}

#[test]
fn reasoning_that_is_not_sent_back_is_not_counted() {
    let mut log = Log::begun();
    log.typed("one");
    let thought = Part::Reasoning(ReasoningPart { text: "a long thought".to_owned(), native: None });
    let usage = Usage { input_tokens: 500, output_tokens: 49, reasoning_tokens: 40, ..Usage::default() };
    log.reported(vec![thought, Part::text("yes")], usage.clone());
    assert_eq!(log.history.anchor().unwrap().output, 9);
    log.reported(vec![Part::text("never shown")], usage.clone());
    assert_eq!(log.history.anchor().unwrap().output, 9);
    let sealed = RawJson(format!("\"{}\"", "x".repeat(60)));
    let sealed = Part::Reasoning(ReasoningPart { text: String::new(), native: Some(sealed) });
    log.reported(vec![sealed, Part::text("goes back")], usage);
    assert_eq!(log.history.anchor().unwrap().output, 49);
}

#[test]
fn an_overflow_teaches_window_and_count() {
    let mut log = Log::begun();
    log.typed("one");
    for (limit, learned) in [(Some(9_000), 9_000), (Some(12_000), 9_000), (None, 9_000), (Some(8_000), 8_000)]
    {
        let step_id = log.begin();
        log.add(EventBody::StepFailed {
            step_id,
            code: crate::error::ErrorCode::ContextOverflow,
            message: String::new(),
            used_tokens: Some(9_500),
            limit_tokens: limit,
            usage: None,
            is_permanent: false,
        });
        assert_eq!(log.history.learned_window(None), Some(learned));
        assert_eq!(log.history.anchor().unwrap().input, 9_500);
    }
    log.add(EventBody::ModelSwitched { to: origin(), choice: None });
    assert_eq!((log.history.learned_window(None), log.history.anchor()), (None, None));
}

#[test]
fn a_refusal_of_a_first_request_tells_how_its_content_is_counted() {
    let overhead = |share: f64| {
        let mut log = Log::begun();
        log.typed(&"many words of one kind ".repeat(500));
        let counted = log.history.view_tokens();
        let step_id = log.begin();
        log.add(EventBody::StepFailed {
            step_id,
            code: crate::error::ErrorCode::ContextOverflow,
            message: String::new(),
            used_tokens: Some((counted as f64 * share) as u64),
            limit_tokens: None,
            usage: None,
            is_permanent: false,
        });
        assert!(log.history.anchor().is_some());
        (log.history.overhead_tokens(), counted)
    };
    assert_eq!(overhead(1.4).0, 0, "nothing of it would stay after an edit");
    let (beyond, counted) = overhead(2.0);
    assert!(beyond > counted / 4 && beyond <= counted / 2 + 1, "what no way of counting explains: {beyond}");
}

#[test]
fn what_a_server_holds_is_more_than_it_was_said_to() {
    let mut log = Log::begun();
    log.typed("one");
    let step_id = log.begin();
    log.add(EventBody::StepFailed {
        step_id,
        code: crate::error::ErrorCode::ContextOverflow,
        message: String::new(),
        used_tokens: None,
        limit_tokens: Some(4_096),
        usage: None,
        is_permanent: false,
    });
    let usage = |input_tokens, output_tokens| Usage { input_tokens, output_tokens, ..Usage::default() };
    log.reported(vec![Part::text("yes")], usage(4_000, 50));
    assert_eq!(log.history.learned_window(None), Some(4_096));
    log.reported(vec![Part::text("yes")], usage(4_096, 30));
    assert_eq!(log.history.learned_window(None), Some(4_126), "with the answer it was more");
    log.reported(vec![Part::text("yes")], usage(4_500, 30));
    assert_eq!(log.history.learned_window(None), None, "more was read");
}

#[test]
fn a_new_run_forgets_the_last_one() {
    let mut log = Log::begun();
    log.answer(vec![call("c1")], None);
    log.result("c1", "x");
    log.add(EventBody::Parked { reason: "tired".to_owned() });
    assert_eq!(log.history.recent_calls().count(), 1);
    log.add(EventBody::RunFinished { run_id: "r".into(), reason: RunEnd::Error, error: None });
    assert_eq!(log.history.parked(), Some("tired"));
    log.add(EventBody::RunStarted { run_id: "r2".into() });
    assert_eq!(log.history.parked(), None);
    assert_eq!(log.history.recent_calls().count(), 0, "a loop is a loop within one run");
}

#[test]
fn an_implausible_count_is_no_anchor() {
    for (reported, believed) in [(0, false), (1, false), (40_000, false), (u64::MAX, false), (900, true)] {
        let mut log = Log::begun();
        log.typed(&"a few words of text ".repeat(100));
        log.add(EventBody::RunStarted { run_id: "r".into() });
        let usage = Usage { input_tokens: reported, output_tokens: 1, ..Usage::default() };
        log.reported(vec![Part::text("ok")], usage);
        assert_eq!(log.history.anchor().is_some(), believed, "{reported}");
        assert!(crate::meter::read(&log.history, 10).bound() < 20_000, "{reported}");
    }
}

#[test]
fn an_implausible_answer_is_estimated() {
    for (reported, reasoning) in [(200_000, 0), (u64::MAX, 0), (200_000, 199_990), (u64::MAX, u64::MAX - 5)] {
        let mut log = Log::begun();
        log.typed(&"a few words of text ".repeat(100));
        let native = Some(RawJson("{}".to_owned()));
        let answer = Part::Text(TextPart { text: "a short answer".to_owned(), native });
        let usage = Usage {
            input_tokens: 900,
            output_tokens: reported,
            reasoning_tokens: reasoning,
            ..Usage::default()
        };
        log.reported(vec![answer], usage);
        let answered = log.history.view().last().unwrap().tokens;
        let reading = crate::meter::read(&log.history, 100);
        assert_eq!((reading.reported, reading.estimated), (900, answered), "{reported}");
        log.edit("e", EditKind::Compaction, vec![ViewOperation::Drop { range: LogRange::one(3) }]);
        assert!(crate::meter::read(&log.history, 100).total < 900, "{reported}");
        assert_eq!(
            log.history.cumulative_usage().output_tokens,
            if reported == u64::MAX { 0 } else { reported }
        );
    }
}

#[test]
fn an_undo_brings_the_count_back() {
    let mut log = Log::begun();
    log.typed(&"a few words of text ".repeat(100));
    let usage = Usage { input_tokens: 900, output_tokens: 9, ..Usage::default() };
    log.reported(vec![Part::text("yes, a few words")], usage);
    log.typed("and then");
    let reading = |log: &Log| crate::meter::read(&log.history, 100);
    let before = reading(&log);
    assert!(before.reported == 909 && before.estimated > 0);
    for range in [LogRange::one(3), LogRange { from: 3, to: 5 }, LogRange::one(5), LogRange::one(7)] {
        log.edit(
            "e",
            EditKind::Compaction,
            vec![ViewOperation::Replace { range, parts: Vec::new(), summary: true }],
        );
        assert_ne!(reading(&log), before);
        log.add(EventBody::ViewRestored { edit_id: "e".into() });
        assert_eq!(reading(&log), before, "{range:?}");
    }
}

/// A call that was answered was not longer than the window that was known: such a report is none.
#[test]
fn a_report_beyond_the_window_is_no_anchor() {
    let mut log = Log::begun();
    log.typed(&"a few words of text ".repeat(600));
    let counted = log.history.view_tokens();
    log.reported(
        vec![Part::text("yes")],
        Usage { input_tokens: counted, output_tokens: 2, ..Usage::default() },
    );
    let anchor = log.history.anchor().cloned();
    assert!(anchor.is_some());
    log.typed("more");
    let usage = Usage { input_tokens: 8_001, output_tokens: 2, ..Usage::default() };
    log.reported_in(Some(8_000), vec![Part::text("yes")], usage.clone());
    assert_eq!(log.history.anchor().cloned(), anchor);
    log.reported_in(Some(9_000), vec![Part::text("yes")], usage);
    assert_eq!(log.history.anchor().map(|anchor| anchor.input), Some(8_001));
}

/// A server that reports ten times its tokens is found out by the first report that its window cannot hold.
#[test]
fn an_accepted_report_far_beyond_the_window_sets_all_reports_aside() {
    let mut log = Log::begun();
    let usage = |input_tokens| Usage { input_tokens, output_tokens: 2, ..Usage::default() };
    log.typed(&"a few words of text ".repeat(60));
    log.reported_in(Some(4_000), vec![Part::text("yes")], usage(3_000));
    assert!(log.history.anchor().is_some(), "a hidden prompt may explain it");
    log.typed(&"a few words of text ".repeat(60));
    log.reported_in(Some(4_000), vec![Part::text("yes")], usage(7_000));
    assert!(log.history.usage_is_unreliable());
    assert_eq!(log.history.anchor(), None);
}

#[test]
fn the_first_word_of_a_stopped_answer_is_not_its_length() {
    let mut log = Log::begun();
    log.typed(&"a few words of text ".repeat(100));
    let usage = Usage { input_tokens: 900, output_tokens: 1, ..Usage::default() };
    log.reported(vec![Part::text("and so it went on ".repeat(50))], usage);
    let answered = log.history.view().last().unwrap().tokens;
    let reading = crate::meter::read(&log.history, 100);
    assert_eq!((reading.reported, reading.estimated), (900, answered));
}

#[test]
fn a_tool_name_that_is_none_is_mended_in_the_view() {
    for (name, shown) in [("", "unnamed"), ("no such tool!\n", "no_such_tool__"), ("read", "read")] {
        let part = Part::ToolCall(crate::message::ToolCall {
            call_id: "c".into(),
            name: name.to_owned(),
            arguments: "{}".to_owned(),
            provider_id: None,
            native: None,
        });
        let mut log = Log::begun();
        log.typed("go");
        let step_id = log.begin();
        let message = Message { id: "m".into(), role: Role::Assistant, parts: vec![part], origin: None };
        log.add(EventBody::AssistantAdded {
            step_id,
            message,
            finish: ModelStopReason::ToolCalls,
            cut: None,
        });
        let view = log.history.view();
        let names: Vec<_> =
            view.iter().flat_map(|item| item.message.tool_calls()).map(|call| call.name.as_str()).collect();
        assert_eq!(names, [shown]);
    }
}
