//! Sessions: messages, the queue, cancelling, approvals, recovery, undo, recall.

use std::time::Duration;

use longhaul::agent::Agent;
use longhaul::session::{CancelPoint, NewMessage, Session, SessionError};
use longhaul_core::error::ErrorCode;
use longhaul_core::event::{EventBody, RunEnd};
use longhaul_core::history::LogEntryKind;
use longhaul_core::message::{Message, Part, Role, ToolStatus};
use longhaul_core::metadata::MessageMetadata;
use longhaul_core::run::{CompactionOutcome, RunStatus, ToolApproval};
use longhaul_providers::scripted::{
    ModelScript, ScriptedAnswer, ScriptedFault, ScriptedProvider, ScriptedSummaries,
};
use longhaul_providers::{FeatureSupport, ModelRequest, ProviderError};
use longhaul_testkit::{TestSession, WAITING_COMMAND};
use serde_json::json;

async fn world(model: ScriptedProvider, change: impl FnOnce(&mut Agent)) -> TestSession {
    TestSession::with_agent(model, |agent, _| change(agent)).await
}

async fn messages(session: &Session) -> Vec<(Role, String)> {
    session
        .inspect_run(|run| {
            let items = run.history().view().iter();
            items.map(|item| (item.message.role, text(&item.message))).collect()
        })
        .await
        .unwrap()
}

fn text(message: &Message) -> String {
    let mut text = String::new();
    for part in &message.parts {
        match part {
            Part::Text(part) => text.push_str(&part.text),
            Part::ToolResult(result) => text.extend(result.content.iter().filter_map(Part::as_text)),
            _ => {}
        }
    }
    text
}

#[tokio::test]
async fn a_tool_runs_and_its_result_is_seen() {
    let script = ModelScript::turns([
        ScriptedAnswer::text("Writing.").call("write", r#"{"path":"a.txt","content":"hello"}"#),
        ScriptedAnswer::text("Reading.").call("read", r#"{"path":"a.txt"}"#),
        ScriptedAnswer::text("Done."),
    ]);
    let world = world(ScriptedProvider::new(script), |_| {}).await;
    let settled = world.session.ask("Write, then read.").await.unwrap();
    assert_eq!(settled.end, Some(RunEnd::Stop));
    assert_eq!(std::fs::read_to_string(world.folder.path().join("a.txt")).unwrap(), "hello");
    let seen = messages(&world.session).await;
    assert_eq!(seen.len(), 6);
    assert!(seen[4].1.contains("hello"), "{seen:?}");
    assert_eq!(world.model.invalid_requests(), 0);
}

#[tokio::test]
async fn messages_sent_while_busy_become_one() {
    let script = ModelScript::turns([
        ScriptedAnswer::text("Working.").call("bash", WAITING_COMMAND),
        ScriptedAnswer::text("All three seen."),
    ]);
    let world = world(ScriptedProvider::new(script), |_| {}).await;
    world.session.send(vec![Part::text("go")]).await.unwrap();
    world.wait_for_status(RunStatus::ExecutingTools).await;
    for (position, message) in (1..).zip(["a", "b", "c"]) {
        let sent = world.session.send(vec![Part::text(message)]).await.unwrap();
        assert!(sent.queued);
        assert_eq!(sent.position, position);
    }
    world.end_waiting_command();
    assert_eq!(world.session.settled().await.unwrap().end, Some(RunEnd::Stop));
    let seen = messages(&world.session).await;
    assert_eq!(seen[3].1, "[1]: a\n\n[2]: b\n\n[3]: c");
    assert!(world.session.queue().await.unwrap().is_empty());
}

#[tokio::test]
async fn metadata_is_kept_with_a_message_and_in_its_forks_and_the_model_never_sees_it() {
    let busy = ScriptedAnswer::text("Working.").call("bash", WAITING_COMMAND);
    let script = ModelScript::turns([busy, ScriptedAnswer::text("Both seen.")]);
    let world = world(ScriptedProvider::new(script), |_| {}).await;
    let metadata = |of: &str| MessageMetadata::try_from(json!({ "ticket-of": of })).unwrap();
    let send = async |text: &str| {
        let message = NewMessage::text(text).key(format!("key of {text}")).metadata(metadata(text));
        world.session.send_message(message).await.unwrap().id
    };
    send("go").await;
    world.wait_for_status(RunStatus::ExecutingTools).await;
    let (edited, other) = (send("first").await, send("other").await);
    world.session.edit_queued(edited.clone(), vec![Part::text("edited")]).await.unwrap();
    world
        .session
        .edit_queued_message(other.clone(), vec![Part::text("other")], Some(metadata("new")))
        .await
        .unwrap();
    let waiting = world.session.queue().await.unwrap();
    let waiting: Vec<_> = waiting.into_iter().map(|one| one.metadata.unwrap()).collect();
    assert_eq!(waiting, [metadata("first"), metadata("new")]);
    world.end_waiting_command();
    world.session.settled().await.unwrap();

    let at = world.session.inspect_run(|run| run.history().last_seq()).await.unwrap();
    let fork = world.runtime.fork(world.session.id(), at).await.unwrap();
    for session in [&world.session, &fork] {
        let log = world.runtime.log(session.id()).await.unwrap();
        let taken: Vec<_> = log
            .into_iter()
            .filter_map(|event| match event.body {
                EventBody::MessagesTaken { metadata, coalesced, .. } => Some((metadata, coalesced)),
                _ => None,
            })
            .collect();
        let [(Some(alone), None), (None, Some(coalesced))] = &taken[..] else { panic!("{taken:?}") };
        assert_eq!(*alone, metadata("go"));
        let by_id = [(edited.clone(), metadata("first")), (other.clone(), metadata("new"))];
        assert_eq!(coalesced.original_metadata, by_id.into());
    }
    let seen = format!("{:?}", world.model.log());
    assert!(seen.contains("edited") && !seen.contains("ticket-of"), "{seen}");
}

#[tokio::test]
async fn cancel_while_streaming_keeps_what_was_seen() {
    let slow = ScriptedAnswer::text("one two three four five ".repeat(200)).pace(Duration::from_millis(10));
    let world =
        world(ScriptedProvider::new(ModelScript::turns([slow, ScriptedAnswer::text("Fresh.")])), |_| {})
            .await;
    let mut watch = world.session.watch();
    world.session.send(vec![Part::text("talk")]).await.unwrap();
    let mut chunks = 0;
    while chunks < 3 {
        chunks += usize::from(watch.recv().await.unwrap().name == "llm:chunk");
    }
    assert_eq!(world.session.cancel(false).await.unwrap(), CancelPoint::PartialAssistant);
    let seen = messages(&world.session).await;
    assert!(seen[1].1.starts_with("one two"), "{seen:?}");
    assert!(seen[1].1.len() < 2_000);
    assert_eq!(world.session.ask("again").await.unwrap().end, Some(RunEnd::Stop));
    assert_eq!(world.model.invalid_requests(), 0);
}

/// The reasoning of every stored answer of the model, and whether its view has any.
async fn reasoned(session: &Session) -> (Vec<String>, bool) {
    let is_thought = |part: &Part| matches!(part, Part::Reasoning(_));
    let look = move |run: &longhaul_core::run::Run| {
        let answers =
            run.history().entries().iter().filter(|entry| matches!(entry.kind, LogEntryKind::Assistant(_)));
        let texts = answers.flat_map(|entry| entry.message.parts.clone()).filter_map(|part| match part {
            Part::Reasoning(reasoning) => Some(reasoning.text),
            _ => None,
        });
        let view = run.history().view().iter().any(|item| item.message.parts.iter().any(is_thought));
        (texts.collect(), view)
    };
    session.inspect_run(look).await.unwrap()
}

/// Nothing of an answer that never began is kept, and nobody is told otherwise.
#[tokio::test]
async fn a_cancel_before_the_answer_begins_keeps_nothing() {
    let silent =
        ScriptedProvider::new(ModelScript::always("Fresh.")).fail_at(0, ScriptedFault::Stall { after: 0 });
    let world = world(silent, |_| {}).await;
    world.session.send(vec![Part::text("talk")]).await.unwrap();
    let asked = async {
        // A stalled call announces nothing. Only the model's log shows that the call has begun.
        while world.model.log().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), asked).await.unwrap();
    assert_eq!(world.session.cancel(false).await.unwrap(), CancelPoint::BetweenCalls);
    assert_eq!(messages(&world.session).await, [(Role::User, "talk".to_owned())]);
    assert_eq!(world.session.ask("again").await.unwrap().end, Some(RunEnd::Stop));
}

#[tokio::test]
async fn a_cancel_while_only_reasoning_was_streamed_keeps_it_for_people() {
    let slow = ScriptedAnswer::reasoning("one two three four five ".repeat(200)).then("Said.");
    let script = ModelScript::turns([slow.pace(Duration::from_millis(10)), ScriptedAnswer::text("Fresh.")]);
    let world = world(ScriptedProvider::new(script), |_| {}).await;
    let mut watch = world.session.watch();
    world.session.send(vec![Part::text("think")]).await.unwrap();
    let mut chunks = 0;
    while chunks < 3 {
        chunks += usize::from(watch.recv().await.unwrap().name == "llm:chunk");
    }
    assert_eq!(world.session.cancel(false).await.unwrap(), CancelPoint::PartialAssistant);
    let (kept, is_sent) = reasoned(&world.session).await;
    assert!(kept.len() == 1 && kept[0].starts_with("one two"), "{kept:?}");
    assert!(!is_sent && messages(&world.session).await.len() == 1, "the model has none of it");
    assert_eq!(world.session.ask("again").await.unwrap().end, Some(RunEnd::Stop));
    assert_eq!(world.model.invalid_requests(), 0);
    let log = world.model.log();
    let sent = format!("{:?}", log.last().unwrap().request);
    assert!(sent.contains("again") && !sent.contains("one two"), "{sent}");
}

#[tokio::test]
async fn a_cut_while_only_reasoning_was_streamed_keeps_it_for_people() {
    let cut = ScriptedAnswer::reasoning("one two three four five ".repeat(20))
        .fail(ScriptedFault::Disconnect { after: 6 });
    let world =
        world(ScriptedProvider::new(ModelScript::turns([cut, ScriptedAnswer::text("Fresh.")])), |agent| {
            agent.rules.retry.max_delay_ms = 1;
        })
        .await;
    assert_eq!(world.session.ask("think").await.unwrap().end, Some(RunEnd::Stop));
    let (kept, is_sent) = reasoned(&world.session).await;
    assert!(kept.len() == 1 && kept[0].starts_with("one two"), "{kept:?}");
    assert!(!is_sent);
}

#[tokio::test]
async fn a_cancel_does_not_wait_for_what_comes_next() {
    let script = ModelScript::turns([
        ScriptedAnswer::text("Running.")
            .call("bash", r#"{"command":"trap '' TERM; : > deaf; until [ -e go ]; do sleep 0.02; done"}"#),
        ScriptedAnswer::text("For an hour.").pace(Duration::from_secs(3_600)),
    ]);
    let patient = |agent: &mut Agent| agent.tool_limits.kill_grace = Duration::from_secs(60);
    let world = world(ScriptedProvider::new(script), patient).await;
    world.session.send(vec![Part::text("run it")]).await.unwrap();
    world.wait_for_status(RunStatus::ExecutingTools).await;
    while !world.folder.path().join("deaf").exists() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let next = async {
        // The cancel comes first, and the tool does not end before this was sent.
        tokio::task::yield_now().await;
        let sent = world.session.send(vec![Part::text("and then this")]).await.unwrap();
        world.end_waiting_command();
        sent
    };
    let cancel = tokio::time::timeout(Duration::from_secs(30), world.session.cancel(false));
    let (met, sent) = tokio::join!(cancel, next);
    assert_eq!(met.unwrap().unwrap(), CancelPoint::ToolsInProgress);
    world.wait_for_status(RunStatus::Streaming).await;
    assert!(sent.queued, "it came too late to show anything");
}

#[tokio::test]
async fn cancel_in_mid_tool_leaves_no_process_and_no_open_call() {
    // The length of the sleep identifies the processes: tests that run in parallel must not find each other's.
    let marker = format!("31{}", std::process::id());
    let call = format!(r#"{{"command":"sleep {marker} & sleep {marker}; wait"}}"#);
    let script = ModelScript::turns([
        ScriptedAnswer::text("Running.").call("bash", call),
        ScriptedAnswer::text("Next."),
    ]);
    let world = world(ScriptedProvider::new(script), |_| {}).await;
    world.session.send(vec![Part::text("run it")]).await.unwrap();
    world.wait_for_status(RunStatus::ExecutingTools).await;
    // The status is published before the command has started its processes.
    while !is_running(&marker) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(world.session.cancel(false).await.unwrap(), CancelPoint::ToolsInProgress);
    assert!(!is_running(&marker), "a process is left");
    let statuses = world.session.inspect_run(|run| {
        assert!(run.history().open_calls().is_empty());
        let parts = run.history().entries().iter().flat_map(|entry| entry.message.parts.clone());
        parts
            .filter_map(|part| match part {
                Part::ToolResult(result) => Some(result.status),
                _ => None,
            })
            .collect::<Vec<_>>()
    });
    assert_eq!(statuses.await.unwrap(), [ToolStatus::Cancelled]);
    assert_eq!(world.session.ask("and now?").await.unwrap().end, Some(RunEnd::Stop));
    assert_eq!(world.model.invalid_requests(), 0);
}

fn is_running(marker: &str) -> bool {
    let found =
        std::process::Command::new("pgrep").args(["-f", &format!("^sleep {marker}")]).output().unwrap();
    !found.stdout.is_empty()
}

#[tokio::test]
async fn an_approval_is_asked_and_both_answers_are_heard() {
    let write = |path: &str| format!(r#"{{"path":"{path}","content":"x"}}"#);
    let script = ModelScript::turns([
        ScriptedAnswer::text("One.").call("write", write("one")),
        ScriptedAnswer::text("Two.").call("write", write("two")),
        ScriptedAnswer::text("End."),
    ]);
    let world =
        world(ScriptedProvider::new(script), |agent| agent.rules.default_approval = ToolApproval::Ask).await;
    let mut watch = world.session.watch();
    world.session.send(vec![Part::text("go")]).await.unwrap();
    for allowed in [true, false] {
        let id = loop {
            let announcement = watch.recv().await.unwrap();
            if announcement.name == "tool:approval-request" {
                break announcement.text("approvalId").to_owned();
            }
        };
        world.wait_for_status(RunStatus::WaitingApproval).await;
        assert!(world.session.decide(id.into(), allowed, Some("not that one".to_owned())).await.unwrap());
    }
    assert_eq!(world.session.settled().await.unwrap().end, Some(RunEnd::Stop));
    assert!(world.folder.path().join("one").exists());
    assert!(!world.folder.path().join("two").exists());
    assert!(messages(&world.session).await.iter().any(|(_, text)| text.contains("not that one")));
}

#[tokio::test(start_paused = true)]
async fn failures_before_the_first_event_are_waited_out() {
    let model = ScriptedProvider::new(ModelScript::always(ScriptedAnswer::text("At last.")))
        .fail_at(0, ScriptedFault::Status { status: 429, retry_after: Some(Duration::from_secs(7)) })
        .fail_at(1, ScriptedFault::Status { status: 503, retry_after: None })
        .fail_at(2, ScriptedFault::Empty);
    let world = world(model, |_| {}).await;
    let began = tokio::time::Instant::now();
    assert_eq!(world.session.ask("hello").await.unwrap().end, Some(RunEnd::Stop));
    // An answer that is empty is no outage: its waits begin anew.
    assert!(began.elapsed() >= Duration::from_secs(7 + 2 + 1), "{:?}", began.elapsed());
}

/// A server that is gone for a quarter of an hour: one pause, which is told, and then the answer.
#[tokio::test(start_paused = true)]
async fn an_outage_is_waited_out_visibly() {
    const OUTAGE: usize = 20;
    let mut model = ScriptedProvider::new(ModelScript::always(ScriptedAnswer::text("Back again.")));
    for call in 0..OUTAGE as u64 {
        model = model.fail_at(call, ScriptedFault::Status { status: 503, retry_after: None });
    }
    let world = world(model, |_| {}).await;
    let mut watch = world.session.watch();
    world.session.send(vec![Part::text("hello")]).await.unwrap();
    let mut waits = Vec::new();
    while waits.len() < OUTAGE {
        let told = watch.recv().await.unwrap();
        if told.name == "run:waiting" {
            assert_eq!(told.seq, None, "waits are not stored");
            waits.push(told.to_json());
        }
    }
    world.wait_for_status(RunStatus::WaitingForServer).await;
    let last = waits.last().unwrap();
    assert_eq!((&last["reason"], &last["attempt"]), (&"outage".into(), &20.into()));
    assert_eq!(last["lastError"]["code"], "third-party");
    assert_eq!(last["nextAttemptAt"], world.session.next_attempt_at());
    assert!(world.session.retry_now().await.unwrap(), "somebody knows that it is there again");
    assert_eq!(world.session.settled().await.unwrap().end, Some(RunEnd::Stop));
    assert!(!world.session.retry_now().await.unwrap(), "nothing is waited for any more");
    let calls = world.model.log().len();
    assert_eq!(calls, OUTAGE + 1, "no call was made beside");
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_the_server_can_be_cancelled() {
    let model = ScriptedProvider::new(ModelScript::always(ScriptedAnswer::text("never")))
        .fail_at(0, ScriptedFault::Status { status: 503, retry_after: Some(Duration::from_secs(600)) });
    let world = world(model, |_| {}).await;
    world.session.send(vec![Part::text("hello")]).await.unwrap();
    world.wait_for_status(RunStatus::WaitingForServer).await;
    assert_eq!(world.session.cancel(false).await.unwrap(), CancelPoint::BetweenCalls);
    assert_eq!(world.session.settled().await.unwrap().end, Some(RunEnd::Cancelled));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_breaks_off_is_asked_for_again() {
    let model = || {
        let model = ScriptedProvider::new(ModelScript::always(ScriptedAnswer::text("a b c d e f g")));
        (0..3).fold(model, |model, call| model.fail_at(call, ScriptedFault::Disconnect { after: 3 }))
    };
    let ended = world(model(), |_| {}).await;
    assert_eq!(ended.session.ask("hello").await.unwrap().end, Some(RunEnd::Stop));
    assert_eq!(ended.model.invalid_requests(), 0);
    let shown = messages(&ended.session).await;
    assert_eq!(shown.last().unwrap().1, "a b c d e f g");

    let world = world(model(), |agent| agent.rules.retry.stream_attempts = 2).await;
    let settled = world.session.ask("hello").await.unwrap();
    assert_eq!(settled.end, Some(RunEnd::Error), "{settled:?}");
    world.session.resume().await.unwrap();
    assert_eq!(world.session.settled().await.unwrap().end, Some(RunEnd::Stop));
    assert_eq!(world.model.invalid_requests(), 0);
}

/// A model that turns out to take no tools is asked without them at once, in later sessions too.
#[tokio::test]
async fn tool_support_is_learned_from_the_error() {
    let refusal = ProviderError {
        refuses_tools: true,
        ..ProviderError::new(ErrorCode::InvalidRequest, "m does not support tools (HTTP 400)")
    };
    let model = ScriptedProvider::new(ModelScript::always(ScriptedAnswer::text("Words are all I have.")))
        .fail_at(0, ScriptedFault::Refuse(Box::new(refusal)))
        .keep_requests();
    let world = world(model, |agent| agent.limits.tools = FeatureSupport::Unknown).await;
    let mut watch = world.session.watch();
    assert_eq!(world.session.ask("hello").await.unwrap().end, Some(RunEnd::Stop));
    let told = std::iter::from_fn(|| watch.try_recv().ok())
        .find(|told| told.name == "llm:error" && told.seq.is_none());
    assert!(told.unwrap().text("error").contains("takes no tools"), "a person is told");
    let other = world.runtime.create(None).await.unwrap();
    assert_eq!(other.ask("hello").await.unwrap().end, Some(RunEnd::Stop));
    let tools: Vec<bool> =
        world.model.log().iter().map(|call| !call.request.as_ref().unwrap().tools.is_empty()).collect();
    assert_eq!(tools, [true, false, false]);
}

/// Reads a large file again and again: the view outgrows its window.
fn reader(window: u64) -> ScriptedProvider {
    let script = ModelScript::closure(move |request: &ModelRequest, index| {
        let is_done = index % 12 == 11;
        let n = index % 7;
        let words: usize = request.messages.len();
        if is_done {
            ScriptedAnswer::text(format!("Done after {words} messages."))
        } else {
            ScriptedAnswer::text(format!("Step {index}.")).call("read", format!(r#"{{"path":"f{n}.txt"}}"#))
        }
    });
    ScriptedProvider::new(script).window(window).summaries(ScriptedSummaries::Extract).recognise_summaries(
        |request| {
            let last = request.messages.last();
            last.is_some_and(|message| text(message).contains(longhaul_core::plan::ORDER_START))
        },
    )
}

async fn reading_world(window: u64) -> TestSession {
    let world = world(reader(window), |_| {}).await;
    for n in 0..7 {
        let lines: String =
            (0..400).map(|line| format!("file {n} line {line} says word-{n}-{line}\n")).collect();
        std::fs::write(world.folder.path().join(format!("f{n}.txt")), lines).unwrap();
    }
    world
}

#[tokio::test]
async fn a_session_outgrows_its_window_and_everything_can_be_recalled() {
    let world = reading_world(12_000).await;
    for _ in 0..4 {
        assert_eq!(world.session.ask("Read on.").await.unwrap().end, Some(RunEnd::Stop));
    }
    assert_eq!(world.model.invalid_requests(), 0);
    let edits = world.session.inspect_run(|run| run.history().edits().len()).await.unwrap();
    assert!(edits >= 3, "{edits}");
    let originals = world.session.inspect_run(|run| run.history().entries().to_vec()).await.unwrap();
    let source =
        world.session.inspect_run(|run| longhaul::recall::RecallSource::of(run.history())).await.unwrap();
    let limit = longhaul_core::truncate::TextLimit { max_chars: 1_000_000, max_tokens: 1_000_000 };
    for entry in originals.iter().filter(|entry| matches!(entry.kind, LogEntryKind::Result { .. })) {
        let arguments = format!(r#"{{"handle":"lh:{}"}}"#, entry.seq);
        let text =
            longhaul::recall::recall(&arguments, &source, world.runtime.blobs(), &limit).await.unwrap();
        assert!(text.contains("line 399 says"), "{text}");
    }
}

#[tokio::test]
async fn compact_preview_undo_release() {
    let world = reading_world(64_000).await;
    for _ in 0..3 {
        world.session.ask("Read on.").await.unwrap();
    }
    let view = |session: &Session| {
        let session = session.clone();
        async move { session.inspect_run(|run| (run.history().view_hash(), run.meter().total)).await.unwrap() }
    };
    let before = view(&world.session).await;
    let mut watch = world.session.watch();
    let CompactionOutcome::Committed(edit) = world.session.compact(None).await.unwrap() else {
        panic!("nothing was done")
    };
    let after = view(&world.session).await;
    assert!(after.1 < before.1, "{after:?} {before:?}");
    let told =
        std::iter::from_fn(|| watch.try_recv().ok()).find(|told| told.name == "context:compressed").unwrap();
    // What the meter shows, not what the planner compared.
    assert_eq!(
        (&told.payload["originalTokens"], &told.payload["compressedTokens"]),
        (&before.1.into(), &after.1.into())
    );
    let report = world.session.context().await.unwrap();
    assert_eq!(report.compacted, edit.original_messages + 1 - edit.compressed_messages);
    assert_eq!(report.basis.last_input_tokens, None, "the last call was sent another view");
    assert_eq!(report.basis.new_messages_estimate, report.total);
    world.session.undo(edit.id.clone()).await.unwrap();
    assert_eq!(view(&world.session).await.0, before.0);
    let report = world.session.context().await.unwrap();
    assert_eq!((report.basis.last_input_tokens, report.basis.new_messages_estimate), (None, report.total));
    assert_eq!(report.source, "estimated");
    let again = world.session.undo(edit.id.clone()).await.unwrap_err();
    assert_eq!(again, SessionError::AlreadyUndone(edit.id.clone()));
    world.session.release(edit.id.clone()).await.unwrap();
    let again = world.session.release(edit.id.clone()).await.unwrap_err();
    assert_eq!(again, SessionError::AlreadyReleased(edit.id.clone()));
    world.session.ask("Read on.").await.unwrap();
    let basis = world.session.context().await.unwrap().basis;
    assert!(basis.last_input_tokens.is_some(), "a call has counted the view since");
    assert_eq!(world.model.invalid_requests(), 0);
}

#[tokio::test]
async fn a_fork_has_the_same_past_and_its_own_future() {
    let world = reading_world(64_000).await;
    world.session.ask("Read on.").await.unwrap();
    let at = world.session.inspect_run(|run| run.history().last_seq()).await.unwrap();
    let fork = world.runtime.fork(world.session.id(), at).await.unwrap();
    let original = messages(&world.session).await;
    assert!(messages(&fork).await == original, "the past differs");
    fork.ask("Only here.").await.unwrap();
    assert!(messages(&fork).await.iter().any(|(_, text)| text == "Only here."));
    assert!(messages(&world.session).await == original, "the original has changed");
}

#[tokio::test]
async fn the_display_adds_up() {
    let world = reading_world(16_000).await;
    for _ in 0..3 {
        world.session.ask("Read on.").await.unwrap();
        let report = world.session.context().await.unwrap();
        let tools: u64 = report.tools.iter().map(|share| share.tokens).sum();
        assert_eq!(report.system_prompt + tools + report.messages.total, report.total);
        let messages = &report.messages;
        assert_eq!(
            messages.text + messages.tool_results + messages.reasoning + messages.media,
            messages.total
        );
        assert!(report.total <= report.window);
    }
}
