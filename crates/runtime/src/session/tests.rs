use std::time::Duration;

use longhaul_core::event::{EventBody, ModelChoice};
use longhaul_core::message::{ModelOrigin, Part};
use longhaul_core::run::RunRecovery;
use longhaul_providers::scripted::{ModelScript, ScriptedAnswer, ScriptedProvider};
use longhaul_store::{BlobStore, MemoryStore, Store};

use super::*;
use crate::agents::AgentRegistry;
use crate::testing::{self, TemporaryFolder};

const IDLE: Duration = Duration::from_secs(5);

async fn runtime() -> (Runtime, TemporaryFolder) {
    let folder = TemporaryFolder::new().unwrap();
    let model = Arc::new(ScriptedProvider::new(ModelScript::always(ScriptedAnswer::text("Yes."))));
    let agent = testing::agent(model, &folder).await.unwrap();
    let store = Arc::new(MemoryStore::new());
    (Runtime::with_idle(agent, store, BlobStore::in_memory(1 << 20), IDLE), folder)
}

/// Longer than anything may stay that nobody uses.
async fn a_while() {
    tokio::time::sleep(IDLE * 3).await;
}

#[tokio::test(start_paused = true)]
async fn what_nobody_uses_is_given_up_and_opened_again() {
    let (runtime, _folder) = runtime().await;
    let session = runtime.create(Some("Kept".to_owned())).await.unwrap();
    session.ask("hello").await.unwrap();
    let before = session.inspect_run(|run| run.history().clone()).await.unwrap();
    let id = session.id().clone();
    a_while().await;
    assert_eq!(runtime.opened().len(), 1, "a handle is in use");
    drop(session);
    a_while().await;
    assert_eq!((runtime.opened().len(), runtime.places()), (0, 0));
    let session = runtime.open(&id).await.unwrap();
    let after = session.inspect_run(|run| run.history().clone()).await.unwrap();
    assert_eq!(after, before);
    session.ask("once more").await.unwrap();
    assert_eq!(session.inspect_run(|run| run.history().view().len()).await.unwrap(), 4);
}

#[tokio::test(start_paused = true)]
async fn who_watches_or_waits_for_a_status_keeps_a_session_open() {
    let (runtime, _folder) = runtime().await;
    let session = runtime.create(None).await.unwrap();
    let (mut watch, status) = (session.watch(), session.status());
    let id = session.id().clone();
    drop(session);
    a_while().await;
    assert_eq!(runtime.opened().len(), 1);
    drop(status);
    a_while().await;
    assert_eq!(runtime.opened().len(), 1);
    runtime.open(&id).await.unwrap().send(vec![Part::text("hello")]).await.unwrap();
    assert_eq!(watch.recv().await.unwrap().name, "message:queued");
    drop(watch);
    a_while().await;
    assert_eq!(runtime.places(), 0);
}

#[tokio::test(start_paused = true)]
async fn messages_that_wait_are_there_when_it_is_opened_again() {
    let (runtime, _folder) = runtime().await;
    let session = runtime.create(None).await.unwrap();
    let id = session.id().clone();
    runtime.store().enqueue(&id, waiting("first")).await.unwrap();
    drop(session);
    a_while().await;
    assert_eq!(runtime.places(), 0);
    let session = runtime.open(&id).await.unwrap();
    assert_eq!(session.queue().await.unwrap().len(), 1);
    assert_eq!(session.resume().await.unwrap(), ResumeOutcome::Begun);
    session.settled().await.unwrap();
    assert_eq!(session.resume().await.unwrap(), ResumeOutcome::NothingToDo);
}

fn waiting(id: &str) -> NewQueuedMessage {
    let parts = vec![Part::text("hello")];
    NewQueuedMessage::new(id, 0, parts, 9)
}

#[tokio::test]
async fn what_does_not_exist_leaves_no_trace() {
    let (runtime, _folder) = runtime().await;
    for at in 0..20 {
        let id = SessionId::new(format!("none-{at}"));
        assert!(runtime.open(&id).await.is_err());
        assert!(runtime.delete(&id).await.is_err());
    }
    // The tasks that found nothing give their places back a moment after they have answered.
    while runtime.places() > 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_closed_runtime_opens_nothing() {
    let (runtime, _folder) = runtime().await;
    let session = runtime.create(None).await.unwrap();
    let id = session.id().clone();
    runtime.close().await;
    assert_eq!(session.settled().await.unwrap_err(), SessionError::Stopped);
    assert!(runtime.open(&id).await.is_err());
}

#[tokio::test]
async fn a_question_has_two_names() {
    let session: SessionId = "s-1".into();
    let own: ApprovalId = "a-c7.1".into();
    let global = api_events::global_approval(&session, &own);
    assert_eq!(global, "s-1:a-c7.1");
    for (given, found) in [("s-1:a-c7.1", "a-c7.1"), ("a-c7.1", "a-c7.1"), ("s-2:a-c7.1", "s-2:a-c7.1")] {
        assert_eq!(api_events::own_approval(&session, &given.into()).as_str(), found);
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_closed_takes_nothing_more() {
    let folder = TemporaryFolder::new().unwrap();
    let slow = ScriptedAnswer::text("slowly").pace(Duration::from_secs(3_600));
    let mut agent =
        testing::agent(Arc::new(ScriptedProvider::new(ModelScript::always(slow))), &folder).await.unwrap();
    // Only an agent that continues by itself could take the second message after the close.
    agent.rules.recovery = RunRecovery::Continue;
    let store = Arc::new(MemoryStore::new());
    let runtime = Runtime::new(agent, store.clone(), BlobStore::in_memory(1 << 20));
    let session = runtime.create(None).await.unwrap();
    session.send(vec![Part::text("first")]).await.unwrap();
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert!(session.send(vec![Part::text("second")]).await.unwrap().queued);
    tokio::time::timeout(Duration::from_secs(60), session.close()).await.unwrap();
    let log = store.read(session.id(), 0, usize::MAX).await.unwrap();
    let begun = log.iter().filter(|event| matches!(event.body, EventBody::RunStarted { .. })).count();
    assert_eq!((begun, store.queue(session.id()).await.unwrap().len()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn what_waits_is_taken_up_where_the_sessions_own_agent_goes_on() {
    let folder = TemporaryFolder::new().unwrap();
    let agent = async |recovery| {
        let model = Arc::new(ScriptedProvider::new(ModelScript::always(ScriptedAnswer::text("Yes."))));
        let mut agent = testing::agent(model, &folder).await.unwrap();
        agent.rules.recovery = recovery;
        agent
    };
    let rests = AgentRegistry::new("rests", agent(RunRecovery::Rest).await).with(
        "broken",
        "m",
        Err("gone".to_owned()),
    );
    let begin = |agents| Runtime::of(agents, Arc::new(MemoryStore::new()), BlobStore::in_memory(1 << 20));
    assert!(!begin(rests.clone()).takes_up());
    let runtime = begin(rests.with("goes on", "m", Ok(agent(RunRecovery::Continue).await)));
    assert!(runtime.takes_up());
    let parked = EventBody::Parked { reason: "it died again and again".to_owned() };
    for (agent, event, is_taken) in [
        ("rests", None, false),
        ("broken", None, false),
        ("goes on", Some(parked), false),
        ("goes on", None, true),
    ] {
        let choice = ModelChoice { agent: Some(agent.to_owned()), model: None };
        let to = ModelOrigin { provider: "p".to_owned(), api: "a".to_owned(), model: "m".to_owned() };
        let begun =
            EventBody::SessionStarted { title: None, forked_from: None, imported_from: None, folder: None };
        let events = [Some(begun), Some(EventBody::ModelSwitched { to, choice: Some(choice) }), event];
        let events = events.into_iter().flatten().map(|event| (1, event)).collect();
        let session = runtime.create_with(None, events).await.unwrap();
        runtime
            .store()
            .enqueue(session.id(), waiting(&format!("{} {is_taken}", session.id())))
            .await
            .unwrap();
        session.take_up();
        session.settled().await.unwrap();
        assert_eq!(session.queue().await.unwrap().is_empty(), is_taken, "{agent}");
    }
}
