//! Cancels, and messages that come at odd moments.

use super::*;

#[test]
fn cancel_while_idle_is_nothing() {
    let mut stage = Stage::new(|_| ());
    assert_eq!(stage.feed(RunLoopInput::Cancel), []);
    assert!(calls_model(&stage.send("go")), "and is not remembered");
}

#[test]
fn cancel_before_the_start_is_stored() {
    let mut stage = Stage::new(|_| ());
    stage.held = Some(Vec::new());
    stage.send("go");
    assert_eq!(stage.feed(RunLoopInput::Cancel), []);
    assert!(stage.release().contains(&RunEffect::Rested), "while the queue was read");
    assert_eq!(stage.queue.len(), 1, "the message waits");

    stage.queue.clear();
    stage.queue("b", "b");
    let read = stage.run.handle(RunLoopInput::Wake);
    assert_eq!(read, [RunEffect::ReadQueue]);
    let append = stage.run.handle(RunLoopInput::QueueRead(stage.queue.clone()));
    assert_eq!(stage.feed(RunLoopInput::Cancel), []);
    assert_eq!(ended(&stage.perform(append)), Some(RunEnd::Cancelled), "while the start was stored");
}

#[test]
fn cancel_while_streaming_keeps_what_came() {
    let mut stage = Stage::new(|_| ());
    stage.send("go");
    stage.feed(RunLoopInput::ModelBegan);
    assert_eq!(stage.feed(RunLoopInput::Cancel), [RunEffect::StopModel]);
    assert_eq!(stage.feed(RunLoopInput::Cancel), [], "once is enough");
    let partial = vec![Part::text("I will"), call("read")];
    let effects = stage.feed(RunLoopInput::ModelStopped { partial, usage: None });
    assert_eq!(ended(&effects), Some(RunEnd::Cancelled));
    let messages = request_messages(stage.run.history().view());
    assert_eq!(messages[1].text(), "I will");
    assert_eq!(
        stage.results(),
        [(ToolStatus::Cancelled, "[Cancelled by the user before it ended.]".to_owned())]
    );
    assert!(stage.log.iter().any(|event| matches!(
        event.body,
        EventBody::AssistantAdded { cut: Some(PartialAnswerReason::Cancelled), .. }
    )));
}

#[test]
fn cancel_while_tools_run_lets_them_end_and_starts_none() {
    let mut stage = Stage::new(|_| ());
    stage.send("go");
    let effects = stage.answer(vec![call("read"), call("read"), call("write"), call("bash")]);
    let ids = running(&effects);
    stage.send("later");
    assert_eq!(stage.feed(RunLoopInput::Cancel), [RunEffect::StopTools]);
    assert_eq!(stage.end_tool(&ids[0], "real"), []);
    let result = closing_result(&ids[1], ToolStatus::Cancelled, "[stopped]");
    assert_eq!(ended(&stage.feed(RunLoopInput::ToolEnded(result))), Some(RunEnd::Cancelled));
    let statuses: Vec<ToolStatus> = stage.results().into_iter().map(|(status, _)| status).collect();
    use ToolStatus::{Cancelled, Completed};
    assert_eq!(statuses, [Completed, Cancelled, Cancelled, Cancelled]);
    assert!(stage.run.is_idle());
    assert_eq!(stage.queue.len(), 1, "what waited at the cancel goes on waiting");
    assert!(calls_model(&stage.feed(RunLoopInput::Resume)));
    assert_eq!(stage.queue, []);
}

#[test]
fn cancel_while_a_person_is_asked_rejects_the_question() {
    let mut stage = Stage::new(|_| ());
    stage.send("go");
    stage.answer(vec![call("bash")]);
    assert_eq!(ended(&stage.feed(RunLoopInput::Cancel)), Some(RunEnd::Cancelled));
    let kinds = stage.kinds();
    assert_eq!(kinds[kinds.len() - 3..], ["approval-resolved", "tool-finished", "run-finished"]);
}

#[test]
fn cancel_while_waiting_for_the_server() {
    let mut stage = Stage::new(|_| ());
    stage.send("go");
    stage.fail(ModelCallFailure::new(ErrorCode::Network, "no line", true));
    assert_eq!(stage.run.status(), RunStatus::WaitingForServer);
    let effects = stage.feed(RunLoopInput::Cancel);
    assert_eq!(effects[0], RunEffect::StopTimer { timer: RunTimer::Retry });
    assert_eq!(ended(&effects), Some(RunEnd::Cancelled));
}

#[test]
fn a_message_after_a_cancel_is_the_next_one() {
    let mut stage = Stage::new(|_| ());
    stage.send("go");
    let tool = running(&stage.answer(vec![call("write")]))[0].clone();
    stage.feed(RunLoopInput::Cancel);
    assert_eq!(stage.send("do this instead"), []);
    let effects = stage.end_tool(&tool, "real");
    assert_eq!(ended(&effects), Some(RunEnd::Cancelled));
    assert!(calls_model(&effects));
}

/// At every moment of a turn with a tool a message comes: it is taken at the next boundary, once.
#[test]
fn a_message_is_never_lost() {
    for moment in 0..40 {
        let mut stage = Stage::new(|_| ());
        let mut pending: Vec<RunLoopInput> = vec![RunLoopInput::Wake];
        let mut effects: std::collections::VecDeque<RunEffect> = std::collections::VecDeque::new();
        stage.queue("first", "first");
        let mut tools_left = 1;
        for at in 0..200 {
            if at == moment {
                stage.queue("second", "second");
                effects.extend(stage.run.handle(RunLoopInput::Wake));
            }
            if let Some(input) = pending.pop() {
                effects.extend(stage.run.handle(input));
                continue;
            }
            pending.extend(match effects.pop_front() {
                None => None,
                Some(RunEffect::Append { id, events, takes, .. }) => {
                    stage.queue.retain(|queued| !takes.contains(&queued.id));
                    let events = stage.store(events);
                    Some(RunLoopInput::Appended { id, events })
                }
                // The store had looked before the message came.
                Some(RunEffect::ReadQueue) if at + 1 == moment => {
                    let read = RunLoopInput::QueueRead(stage.queue.clone());
                    stage.queue("second", "second");
                    effects.extend(stage.run.handle(RunLoopInput::Wake));
                    effects.extend(stage.run.handle(read));
                    stage.queue.retain(|queued| queued.id != QueueId::new("none"));
                    continue;
                }
                Some(RunEffect::ReadQueue) => Some(RunLoopInput::QueueRead(stage.queue.clone())),
                Some(RunEffect::CallModel { .. }) => {
                    let part = if tools_left > 0 { call("read") } else { Part::text("done") };
                    tools_left -= 1;
                    Some(RunLoopInput::ModelAnswered(ModelAnswer {
                        parts: vec![part],
                        finish: ModelStopReason::Stop,
                        usage: None,
                        envelope: None,
                    }))
                }
                Some(RunEffect::RunTool { call, .. }) => {
                    Some(RunLoopInput::ToolEnded(closing_result(&call.call_id, ToolStatus::Completed, "x")))
                }
                Some(_) => None,
            });
        }
        stage.queue.dedup_by(|a, b| a.id == b.id);
        assert!(stage.run.is_idle(), "moment {moment}: {:?}", stage.run.status());
        assert_eq!(stage.queue, [], "moment {moment}");
        assert!(stage.typed().concat().contains("second"), "moment {moment}");
    }
}

#[test]
fn a_message_that_comes_while_facts_are_recorded_is_taken() {
    let mut stage = Stage::new(|_| ());
    stage.held = Some(Vec::new());
    stage.feed(RunLoopInput::Record(vec![EventBody::TitleSet { title: "t".to_owned() }]));
    assert_eq!(stage.send("go"), []);
    assert!(calls_model(&stage.release()));
}

#[test]
fn a_queue_that_changed_is_read_again() {
    let mut stage = Stage::new(|_| ());
    stage.queue("a", "one");
    let read = stage.run.handle(RunLoopInput::Wake);
    assert_eq!(read, [RunEffect::ReadQueue]);
    let append = stage.run.handle(RunLoopInput::QueueRead(stage.queue.clone()));
    let [RunEffect::Append { id, .. }] = append.as_slice() else { panic!("{append:?}") };
    stage.queue[0].parts = vec![Part::text("two")];
    assert!(calls_model(&stage.feed(RunLoopInput::QueueChanged { id: *id })));
    assert_eq!(stage.typed(), ["two"]);
}

/// A session that a compaction on request would shorten.
fn worked() -> Stage {
    let mut stage = Stage::new(|_| ());
    for turn in 0..5 {
        stage.send(&format!("turn {turn}"));
        let effects = stage.answer(vec![call("read")]);
        stage.end_tool(&running(&effects)[0], &format!("{turn} ").repeat(250));
        stage.answer(vec![Part::text("so it is")]);
    }
    stage
}

#[test]
fn a_cancel_on_its_way_ends_a_compaction_that_is_being_planned() {
    let mut stage = worked();
    let (events, hash) = (stage.log.len(), stage.run.history().view_hash());
    stage.run.history().stop_flag().raise();
    let effects = stage.feed(RunLoopInput::Compact { instructions: None });
    let refused = CompactionOutcome::Refused("cancelled".to_owned());
    assert_eq!(effects, [RunEffect::CompactionDone(refused)]);
    assert!(stage.run.is_idle());
    assert_eq!((stage.log.len(), stage.run.history().view_hash()), (events, hash));
    assert!(stage.run.history().stop_flag().answer(), "the cancel has nothing left to end");
    let stopped = stage.feed(RunLoopInput::Compact { instructions: None });
    let undisturbed = worked().feed(RunLoopInput::Compact { instructions: None });
    assert_eq!(stopped, undisturbed, "the next one is whole");
}

#[test]
fn a_cancel_on_its_way_ends_a_run_that_is_being_planned() {
    let mut stage = worked();
    stage.run.history().stop_flag().raise();
    assert_eq!(ended(&stage.send("go")), Some(RunEnd::Cancelled));
    assert!(stage.run.is_idle());
    assert!(stage.run.history().stop_flag().answer());
    assert!(calls_model(&stage.send("again")), "the next run is as usual");
}
