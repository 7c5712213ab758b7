//! Announcements: what is replayed from the log is what was told when it was stored.

use longhaul::agent::Agent;
use longhaul::api_events::ApiEvent;
use longhaul::event_bus::EventReceiver;
use longhaul::session::Session;
use longhaul_core::event::{EventBody, NoteReason};
use longhaul_core::message::{Message, Part};
use longhaul_core::run::{CompactionOutcome, RunStatus, ToolApproval};
use longhaul_providers::scripted::{ModelScript, ScriptedAnswer, ScriptedFault, ScriptedProvider};
use longhaul_testkit::TestSession;

/// Everything durable that is announced meanwhile, in order.
async fn told(mut watch: EventReceiver, meanwhile: impl Future<Output = ()>) -> Vec<ApiEvent> {
    let mut meanwhile = std::pin::pin!(meanwhile);
    let mut all = Vec::new();
    loop {
        tokio::select! {
            // Announcements come first: `meanwhile` may end while some still wait to be read.
            biased;
            announcement = watch.recv() => all.push(ApiEvent::clone(&announcement.unwrap())),
            () = &mut meanwhile => break,
        }
    }
    while let Ok(announcement) = watch.try_recv() {
        all.push(ApiEvent::clone(&announcement));
    }
    all.retain(|announcement| announcement.seq.is_some());
    all
}

/// Words that no two readings share, so that there is something to compact.
fn prose(seed: usize) -> String {
    (0..400).map(|at| format!("w{} ", (seed * 7_919 + at * 104_729) % 99_991)).collect()
}

fn model() -> ScriptedProvider {
    let mut answers = vec![
        ScriptedAnswer::text("I run it.")
            .call("bash", r#"{"command":"sleep 0.3; echo one"}"#)
            .call("ls", "{}"),
        ScriptedAnswer::text("Done."),
        ScriptedAnswer::text("Partly").fail(ScriptedFault::Truncated { after: 2 }),
        ScriptedAnswer::text("Asked again, all of it."),
        ScriptedAnswer::reasoning("Let me think.")
            .then("Sure. ".repeat(10_000))
            .pace(std::time::Duration::from_millis(20)),
    ];
    answers.extend((0..20).map(|seed| ScriptedAnswer::text(prose(seed))));
    ScriptedProvider::new(ModelScript::turns(answers)).window(32_000)
}

async fn live(session: &Session) {
    session.send(vec![Part::text("run it")]).await.unwrap();
    session.status().wait_for(|status| *status == RunStatus::WaitingApproval).await.unwrap();
    let asked =
        session.inspect_run(|run| run.history().open_calls()[0].approval.clone()).await.unwrap().unwrap();
    session.send(vec![Part::text("one more")]).await.unwrap();
    session.send(vec![Part::text("and one")]).await.unwrap();
    assert!(session.decide(asked, true, None).await.unwrap());
    session.settled().await.unwrap();
    session.ask("this one fails").await.unwrap();
    let mut watch = session.watch();
    session.send(vec![Part::text("this one is cancelled")]).await.unwrap();
    // The answer takes minutes, so the cancel meets a part of it.
    while !watch.recv().await.unwrap().text("content").contains("Sure") {}
    drop(watch);
    session.cancel(false).await.unwrap();
    talk(session, 0..4).await;
    let outcome = session.compact(Some("mind the words".to_owned())).await.unwrap();
    let CompactionOutcome::Committed(edit) = outcome else { panic!("nothing was compacted: {outcome:?}") };
    session.undo(edit.id.clone()).await.unwrap();
    session.release(edit.id.clone()).await.unwrap();
    session.rename("Another title".to_owned()).await.unwrap();
    talk(session, 4..12).await;
}

async fn talk(session: &Session, turns: std::ops::Range<usize>) {
    for at in turns {
        session.ask(&format!("say something long, {at}: {}", prose(100 + at))).await.unwrap();
    }
}

#[tokio::test]
async fn what_is_replayed_is_what_was_told() {
    let ask = |agent: &mut Agent, _: &_| {
        agent.rules.approvals.insert("bash".to_owned(), ToolApproval::Ask);
    };
    let TestSession { runtime, .. } = &TestSession::with_agent(model(), ask).await;
    let session = runtime.create(Some("Watched".to_owned())).await.unwrap();
    let told = told(session.watch(), live(&session)).await;

    let mut replay = runtime.replay(session.id());
    let mut replayed = Vec::new();
    for event in runtime.log(session.id()).await.unwrap() {
        replayed.extend(replay.take(&event).unwrap());
    }
    assert_eq!(replayed.len(), told.len());
    for (replayed, told) in replayed.iter().zip(&told) {
        assert_eq!(replayed, told);
    }
    let names: std::collections::BTreeSet<&str> = told.iter().map(|it| it.name).collect();
    for name in [
        "message:added",
        "message:dequeued",
        "run:started",
        "llm:thinking",
        "llm:response",
        "llm:tool-call",
        "tool:started",
        "llm:tool-result",
        "tool:approval-request",
        "tool:approval-response",
        "llm:error",
        "context:usage",
        "context:estimate",
        "context:compressed",
        "context:restored",
        "run:complete",
    ] {
        assert!(names.contains(name), "{name} was never told: {names:?}");
    }
    for pair in told.windows(2) {
        assert_eq!(pair[0].ends_event, pair[0].seq < pair[1].seq, "the last of an event says so");
    }
}

#[tokio::test]
async fn only_one_compaction_at_a_time_and_none_is_disturbed() {
    let script = ModelScript::turns((0..8).map(|seed| ScriptedAnswer::text(prose(seed))));
    let model = ScriptedProvider::new(script).window(64_000);
    let TestSession { session, .. } = &TestSession::with_model(model).await;
    for _ in 0..6 {
        session.ask("go on").await.unwrap();
    }
    let (first, second) = tokio::join!(session.compact(None), session.compact(None));
    let outcomes = [first.unwrap(), second.unwrap()];
    let committed = outcomes.iter().filter(|outcome| matches!(outcome, CompactionOutcome::Committed(_)));
    assert_eq!(committed.count(), 1, "{outcomes:?}");
}

#[tokio::test]
async fn a_summary_that_is_no_good_is_told_of_once() {
    let script = ModelScript::closure(|request: &longhaul_providers::ModelRequest, index| {
        let is_summary = longhaul_providers::scripted::is_summary_request(request);
        ScriptedAnswer::text(if is_summary { " ".to_owned() } else { prose(index as usize) })
    });
    let model = ScriptedProvider::new(script).window(64_000);
    let TestSession { session, .. } = &TestSession::with_model(model).await;
    talk(session, 0..6).await;
    let mut watch = session.watch();
    session.compact(None).await.unwrap();
    let mut names = Vec::new();
    while let Ok(announcement) = watch.try_recv() {
        names.push(announcement.name);
    }
    let failed = names.iter().filter(|name| **name == "context:compact-failed");
    assert_eq!(failed.count(), 1, "{names:?}");
    assert!(names.contains(&"context:compressed"), "the extract takes its place: {names:?}");
}

#[tokio::test]
async fn a_message_says_who_wrote_it() {
    let TestSession { runtime, .. } =
        &TestSession::with_script(ModelScript::always(ScriptedAnswer::text("Yes."))).await;
    let note = |text: &str| EventBody::NoteAdded {
        message: Message::user("m", vec![Part::text(text)]),
        why: NoteReason::Imported,
    };
    let started =
        EventBody::SessionStarted { title: None, forked_from: None, imported_from: None, folder: None };
    let events = [started, note("[SUMMARY]\nGoal: go on"), note("By the way.")];
    let session = runtime.create_with(None, events.map(|body| (0, body)).to_vec()).await.unwrap();
    session.ask("And now?").await.unwrap();
    let mut replay = runtime.replay(session.id());
    let mut sources = Vec::new();
    for event in runtime.log(session.id()).await.unwrap() {
        let added = replay.take(&event).unwrap().into_iter().filter(|it| it.name == "message:added");
        sources.extend(added.map(|it| it.text("source").to_owned()));
    }
    assert_eq!(sources, ["summary", "note", "typed", "model"]);
}
