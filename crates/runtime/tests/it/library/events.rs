//! Typed events: every announcement has a type, and JSON says the same.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

use longhaul::core::event::{Event, EventBody, FORMAT};
use longhaul::core::message::ModelOrigin;
use longhaul::core::strategy::{ReactiveOverflowStrategy, TruncationStrategy};
use longhaul::event_bus::{EventReceiver, TryRecvError};
use longhaul::prelude::*;
use longhaul::testing::TemporaryFolder;
use longhaul_core::run::CompactionOutcome;
use longhaul_testkit::SchemaDocument;

use super::{scripted, scripted_model};

static SCHEMA: LazyLock<serde_json::Value> = LazyLock::new(SessionEvent::json_schema);

/// The names of announcements that say nothing that another does not say.
const REPEATS: [&str; 1] = ["llm:thinking"];

/// Checks what was announced, and adds the names.
fn check(announcements: &mut EventReceiver, names: &mut BTreeSet<&'static str>) {
    loop {
        let told = match announcements.try_recv() {
            Ok(told) => told,
            Err(TryRecvError::Lagged(_)) => continue,
            Err(TryRecvError::Empty | TryRecvError::Closed) => return,
        };
        names.insert(told.name);
        let Some(event) = SessionEvent::from_announcement(&told) else {
            assert!(REPEATS.contains(&told.name) || told.text("content").is_empty(), "{told:?}");
            continue;
        };
        assert!(!matches!(event, SessionEvent::Other { .. }), "{told:?}");
        let json = serde_json::to_value(&event).unwrap();
        assert_eq!(SchemaDocument(&SCHEMA).check(&SCHEMA, &json), Ok(()), "{json}");
        assert_eq!(serde_json::from_value::<SessionEvent>(json).unwrap(), event);
    }
}

#[tokio::test]
async fn every_announcement_has_a_type() {
    let mut names = BTreeSet::new();
    tools_and_queue(&mut names).await;
    compactions(&mut names).await;
    failures(&mut names).await;
    let wanted = [
        "context:compacting",
        "context:compact-failed",
        "context:compressed",
        "context:estimate",
        "context:restored",
        "context:usage",
        "llm:chunk",
        "llm:error",
        "llm:response",
        "llm:tool-call",
        "llm:tool-input",
        "llm:tool-result",
        "message:added",
        "message:dequeued",
        "message:edited",
        "message:queued",
        "message:removed",
        "order:edited",
        "order:pinned",
        "order:removed",
        "run:complete",
        "run:started",
        "run:waiting",
        "tool:approval-request",
        "tool:approval-response",
        "tool:output",
        "tool:started",
    ];
    let missing: Vec<_> = wanted.iter().filter(|name| !names.contains(*name)).collect();
    assert!(missing.is_empty(), "not announced here: {missing:?}");
}

async fn tools_and_queue(names: &mut BTreeSet<&'static str>) {
    let folder = TemporaryFolder::new().unwrap();
    let script = ModelScript::turns([
        ScriptedAnswer::reasoning("Hm.")
            .then("Let me see.")
            .call("bash", r#"{"command":"echo hello; until [ -e go ]; do sleep 0.02; done"}"#),
        ScriptedAnswer::text("It says hello."),
        ScriptedAnswer::text("Two."),
    ]);
    let builder = scripted(script).0.workspace(folder.path());
    let agent =
        builder.on_approval(|_: ApprovalRequest| async { ApprovalDecision::Allow }).build().await.unwrap();
    let session = agent.session().await.unwrap();
    let (mut announcements, mut watch) = (session.watch(), session.watch());
    session.send(vec![Part::text("Run it.")]).await.unwrap();
    while watch.recv().await.unwrap().name != "tool:output" {}
    drop(watch);
    let waiting = session.send(vec![Part::text("And then?")]).await.unwrap();
    session.edit_queued(waiting.id.clone(), vec![Part::text("And now?")]).await.unwrap();
    let other = session.send(vec![Part::text("Never mind.")]).await.unwrap();
    session.remove_queued(other.id).await.unwrap();
    std::fs::write(folder.path().join("go"), "").unwrap();
    session.settled().await.unwrap();
    let order = session.pin_order("Be brief.", None).await.unwrap().order;
    session.edit_order(order.id.clone(), "Be very brief.").await.unwrap();
    session.remove_order(order.id).await.unwrap();
    check(&mut announcements, names);
}

async fn compactions(names: &mut BTreeSet<&'static str>) {
    let model = ScriptedProvider::new(super::long_answers()).window(6_000);
    let builder = scripted_model(model)
        .0
        .strategy(ReactiveOverflowStrategy::default())
        .trigger(StrategyTrigger::Share(0.5));
    let was_asked = Arc::new(AtomicBool::new(false));
    let agent =
        builder.on_pre_compact(move |_| {
            let is_first = !was_asked.swap(true, Ordering::Relaxed);
            async move {
                if is_first { PreCompactDecision::cancel("too early") } else { PreCompactDecision::Proceed }
            }
        });
    let agent = agent.build().await.unwrap();
    let session = agent.session().await.unwrap();
    let mut announcements = session.watch();
    for at in 0..30 {
        session.ask(&format!("Question {at}?")).await.unwrap();
        check(&mut announcements, names);
    }
    session.ask("And?").await.unwrap();
    if let CompactionOutcome::Committed(edit) = session.compact(None).await.unwrap() {
        session.undo(edit.id).await.unwrap();
    }
    check(&mut announcements, names);
}

async fn failures(names: &mut BTreeSet<&'static str>) {
    use longhaul::providers::scripted::ScriptedFault;
    let model = ScriptedProvider::new(ModelScript::always("Hi."));
    let model = model.fail_at(0, ScriptedFault::Status { status: 503, retry_after: None });
    let model = model.fail_at(2, ScriptedFault::Status { status: 401, retry_after: None });
    let agent = scripted_model(model).0.build().await.unwrap();
    let session = agent.session().await.unwrap();
    let mut announcements = session.watch();
    session.ask("Hi").await.unwrap();
    session.ask("Hi again").await.unwrap();
    check(&mut announcements, names);
}

/// Events that come of crashes and refusals, from a log that has them.
#[tokio::test]
async fn stored_events_that_are_rare_have_types() {
    let agent = scripted(ModelScript::always("Hi.")).0.build().await.unwrap();
    let model = ModelOrigin { provider: "p".to_owned(), api: "a".to_owned(), model: "m".to_owned() };
    let bodies = [
        EventBody::SessionStarted { title: None, forked_from: None, imported_from: None, folder: None },
        EventBody::Parked { reason: "three crashes".to_owned() },
        EventBody::ModelSwitched { to: model.clone(), choice: None },
        EventBody::PartsOmitted { edit_id: "e".into(), parts: Vec::new(), reason: "no pictures".to_owned() },
    ];
    let mut replay = agent.replay(&"s".into());
    let mut events = Vec::new();
    for (seq, body) in (1..).zip(bodies) {
        let announcements = replay.take(&Event { seq, at: 0, format: FORMAT, body }).unwrap();
        events.extend(announcements.iter().filter_map(SessionEvent::from_announcement));
    }
    assert!(matches!(events.pop(), Some(SessionEvent::ContextUsage { compactions: 0, .. })));
    let wanted = [
        SessionEvent::Parked { reason: "three crashes".to_owned() },
        SessionEvent::ModelSwitched { to: model },
        SessionEvent::Omitted { edit_id: "e".into(), reason: "no pictures".to_owned() },
    ];
    assert_eq!(events, wanted);
}

/// Old tool results give way before anything else does.
#[tokio::test]
async fn a_prune_has_a_type() {
    let look =
        tool_fn("look", "", |_: super::tools::Nothing, _| async { "nothing that matters\n".repeat(120) });
    let builder = scripted(ModelScript::closure(|_, at| match at % 2 {
        0 => ScriptedAnswer::calling("look", "{}"),
        _ => ScriptedAnswer::text("Nothing."),
    }));
    let agent = builder
        .0
        .tool(look)
        .window_tokens(16_000)
        .strategy(TruncationStrategy::default())
        .build()
        .await
        .unwrap();
    let session = agent.session().await.unwrap();
    let mut pruned = None;
    for at in 0..40 {
        let (events, output) = super::whole_turn(&session, &format!("Look {at}.")).await;
        output.unwrap();
        pruned = pruned.or(events.into_iter().find(|event| matches!(event, SessionEvent::Pruned { .. })));
    }
    let Some(SessionEvent::Pruned { results, original_tokens, compressed_tokens, .. }) = pruned else {
        panic!("nothing was pruned")
    };
    assert!(
        results > 0 && compressed_tokens < original_tokens,
        "{results} {original_tokens} {compressed_tokens}"
    );
}

#[test]
fn an_unknown_announcement_is_kept_as_it_is() {
    use longhaul::api_events::ApiEvent;
    let payload = serde_json::json!({ "a": 1 });
    let announcement = ApiEvent::passing("new:thing", &"s".into(), payload.clone());
    let event = SessionEvent::from_announcement(&announcement).unwrap();
    let SessionEvent::Other { name, payload: kept } = event else { panic!("{event:?}") };
    assert_eq!((name.as_str(), serde_json::Value::Object(kept)), ("new:thing", payload));
}

#[test]
fn json_names_the_type_and_its_fields() {
    let event = SessionEvent::TextDelta {
        text: "Hel".to_owned(),
        step_id: "s".into(),
        message_id: "m".into(),
        offset: 0,
    };
    let json = serde_json::json!({ "type": "text-delta", "text": "Hel", "stepId": "s", "messageId": "m", "offset": 0 });
    assert_eq!(serde_json::to_value(event).unwrap(), json);
}

#[test]
fn the_schema_refuses_other_fields_and_types() {
    let schema = SchemaDocument(&SCHEMA);
    for wrong in [
        serde_json::json!({ "type": "run-started" }),
        serde_json::json!({ "type": "run-started", "runId": 1 }),
        serde_json::json!({ "type": "no-such-event" }),
        serde_json::json!({ "type": "run-finished", "runId": "r", "end": "no-such-end", "steps": 1 }),
    ] {
        assert!(schema.check(&SCHEMA, &wrong).is_err(), "{wrong}");
    }
}

#[test]
fn the_committed_schema_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/events.schema.json");
    let committed = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        committed == format!("{:#}\n", *SCHEMA),
        "run: cargo run -p longhaul --example events-schema > docs/events.schema.json"
    );
}
