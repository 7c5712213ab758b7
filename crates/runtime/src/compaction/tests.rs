use std::time::{Duration, Instant};

use longhaul_core::ids::SessionId;
use longhaul_core::message::{ModelStopReason, Part, Role, ToolCall, ToolResult, ToolStatus};
use longhaul_core::run::{CompactionOutcome, RunStatus};
use longhaul_core::strategy::{ImportanceStrategy, NAMES, TruncationStrategy};
use longhaul_providers::scripted::{ModelScript, ScriptedAnswer, ScriptedProvider, ScriptedSummaries};
use longhaul_store::{BlobStore, MemoryStore, NewSession, SharedStore};

use super::*;
use crate::session::{CancelPoint, Runtime, Session};
use crate::testing::{self, TemporaryFolder};

/// A runtime whose model decides something in every answer, and whose summaries say nothing.
async fn runtime(writer: SummaryWriterModel) -> (Runtime, TemporaryFolder) {
    runtime_on(Arc::new(MemoryStore::new()), writer).await
}

async fn runtime_on(store: SharedStore, writer: SummaryWriterModel) -> (Runtime, TemporaryFolder) {
    let folder = TemporaryFolder::new().unwrap();
    let says = |_: &longhaul_providers::ModelRequest, turn| {
        let filling: String = (0..250).map(|at| format!("word{} ", turn * 7_919 + at)).collect();
        Some(ScriptedAnswer::text(format!("I decided on plan {turn} for src/part{turn}.rs. {filling}")))
    };
    let model = ScriptedProvider::new(ModelScript::closure(says))
        .summaries(ScriptedSummaries::Text("Work was done.".to_owned()));
    let mut agent = testing::agent(Arc::new(model), &folder).await.unwrap();
    agent.rules.policy.writer = writer;
    (Runtime::new(agent, store, BlobStore::in_memory(1 << 20)), folder)
}

async fn talked(runtime: &Runtime) -> Session {
    let session = runtime.create(None).await.unwrap();
    for turn in 0..6 {
        session.ask(&format!("Never touch src/kept{turn}.rs, whatever comes.")).await.unwrap();
    }
    session
}

async fn compacted(session: &Session, strategy: Option<Arc<dyn CompactionStrategy>>) -> Arc<ViewEdit> {
    match session.compact_by(strategy, None).await.unwrap() {
        CompactionOutcome::Committed(edit) => Arc::new(*edit),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn who_only_leaves_out_asks_nobody() {
    let (runtime, _folder) = runtime(SummaryWriterModel::Session).await;
    let session = talked(&runtime).await;
    for name in NAMES.iter().filter(|name| **name != "adaptive") {
        let by: Arc<dyn CompactionStrategy> = match *name {
            "importance" => Arc::new(ImportanceStrategy { keep_recent: 4, ..ImportanceStrategy::default() }),
            "truncation" => Arc::new(TruncationStrategy { keep_recent: 4 }),
            name => strategy::by_name(name).unwrap(),
        };
        let plan = session.preview_by(Some(by), None).await.unwrap().plan;
        if plan != Plan::Fits {
            assert_eq!(only_leaves_out(name), !matches!(plan, Plan::Summarise(_)), "{name}: {plan:?}");
        }
    }
    assert!(!only_leaves_out("adaptive"));
}

/// A session whose old tool results alone could be cleared, and its model.
async fn read_a_lot() -> (Runtime, Session, Arc<ScriptedProvider>, TemporaryFolder) {
    let folder = TemporaryFolder::new().unwrap();
    for file in 0..6 {
        let lines: String =
            (0..400).map(|line| format!("line {line} of file {file} says something\n")).collect();
        std::fs::write(folder.path().join(format!("f{file}")), lines).unwrap();
    }
    let turn = |file: usize| {
        let read = ScriptedAnswer::calling("read", format!(r#"{{"path":"f{file}"}}"#));
        [read, ScriptedAnswer::text(format!("I decided on plan {file} for src/part{file}.rs."))]
    };
    let model = ScriptedProvider::new(ModelScript::turns((0..6).flat_map(turn))).window(200_000).summaries(
        ScriptedSummaries::Text("## Goal\nWork on src/part0.rs and f0 was done by plan 0.".to_owned()),
    );
    let model = Arc::new(model.keep_requests());
    let mut agent = testing::agent(model.clone(), &folder).await.unwrap();
    agent.rules.policy.prune.protect_tokens = 0;
    agent.rules.policy.prune.minimum_tokens = 100;
    let runtime = Runtime::new(agent, Arc::new(MemoryStore::new()), BlobStore::in_memory(64 << 20));
    let session = runtime.create(None).await.unwrap();
    for turn in 0..6 {
        session.ask(&format!("Read f{turn}.")).await.unwrap();
    }
    (runtime, session, model, folder)
}

#[tokio::test]
async fn a_strategy_that_is_named_is_used_with_its_instructions() {
    for (name, instructions) in [
        (Some("summarization"), None),
        (Some("reactive-overflow"), Some("mind the ferry")),
        (None, Some("mind the ferry")),
    ] {
        let (_runtime, session, model, _folder) = read_a_lot().await;
        let by = name.and_then(strategy::by_name);
        let usual =
            session.inspect_run(|run| run.settings().policy.strategy.name().to_owned()).await.unwrap();
        let wanted = instructions.map(str::to_owned);
        let preview = session.preview_by(by.clone(), wanted.clone()).await.unwrap();
        let CompactionOutcome::Committed(edit) = session.compact_by(by, wanted).await.unwrap() else {
            panic!("{name:?}: nothing was compacted");
        };
        assert_eq!(edit.strategy, name.unwrap_or(&usual), "{}", edit.why);
        assert!(matches!(preview.plan, Plan::Summarise(_)), "{name:?}: {:?}", preview.plan);
        if let Some(instructions) = instructions {
            let log = model.log();
            let asked = log.iter().any(|call| format!("{:?}", call.request).contains(instructions));
            assert!(asked, "{name:?}: the model was not told");
        }
        let now = session.inspect_run(|run| run.settings().policy.strategy.name().to_owned()).await.unwrap();
        assert_eq!(now, usual, "the configured strategy is back");
    }
}

#[tokio::test]
async fn an_undo_is_checked_as_it_is_made() {
    let (runtime, _folder) = runtime(SummaryWriterModel::Session).await;
    let session = talked(&runtime).await;
    let edit = compacted(&session, None).await;
    let check = |id: EditId| session.inspect_run(move |run| check_undo(run, &id));
    assert!(check(edit.id.clone()).await.unwrap().is_ok());
    session.undo(edit.id.clone()).await.unwrap();
    assert!(matches!(check(edit.id.clone()).await.unwrap(), Err(SessionError::AlreadyUndone(_))));
    assert!(matches!(check("e99".into()).await.unwrap(), Err(SessionError::NotFound(_))));
}

#[tokio::test]
async fn a_preview_promises_no_more_than_the_compaction_keeps() {
    let (mut exact, mut summarised, mut lossy) = (0, 0, 0);
    for writer in [SummaryWriterModel::Session, SummaryWriterModel::Nobody] {
        let (runtime, _folder) = runtime(writer).await;
        for name in NAMES {
            let session = talked(&runtime).await;
            let before = session.inspect_run(|run| run.history().clone()).await.unwrap();
            let strategy = strategy::by_name(name);
            let preview = session.preview_by(strategy.clone(), None).await.unwrap();
            assert!(
                session.inspect_run(|run| run.history().clone()).await.unwrap() == before,
                "{name}: changed"
            );
            if preview.plan == Plan::Fits {
                assert_eq!(preview.survival, None, "{name}");
                continue;
            }
            let edit = compacted(&session, strategy).await;
            let kept = survival(&runtime.log(session.id()).await.unwrap(), &edit.id).unwrap();
            let promised = preview.survival.unwrap();
            let is_lossy = kept.classes.values().any(|tally| tally.recoverable_by_model > 0);
            lossy += usize::from(is_lossy);
            if preview.without_summary {
                summarised += 1;
                assert_eq!(writer, SummaryWriterModel::Session, "{name}: nobody writes");
            } else {
                exact += 1;
                assert_eq!(promised, kept, "{name}");
            }
            assert_eq!(promised.classes.len(), kept.classes.len());
            for (class, kept) in &kept.classes {
                let promised = promised.classes[class];
                assert_eq!(promised.total(), kept.total(), "{name}, {class}");
                assert!(promised.verbatim <= kept.verbatim, "{name}, {class}: {promised:?}, {kept:?}");
                assert_eq!((kept.recoverable_by_user, kept.lost), (0, 0), "{name}, {class}");
            }
        }
    }
    assert!(exact >= 8 && summarised >= 3, "{exact} were sure, {summarised} were not");
    // An extract may have room for every fact, and quotes of the user keep most of them.
    assert!(lossy >= 6, "{lossy}");
}

#[tokio::test]
async fn the_report_of_an_edit_in_the_log_is_what_watchers_are_told() {
    let (runtime, _folder) = runtime(SummaryWriterModel::Session).await;
    let session = talked(&runtime).await;
    let mut watch = session.watch();
    let edit = compacted(&session, None).await;
    let told =
        std::iter::from_fn(|| watch.try_recv().ok()).find(|told| told.name == "context:compressed").unwrap();
    session.ask("What was in src/kept0.rs?").await.unwrap();
    let log = runtime.log(session.id()).await.unwrap();
    let report = survival(&log, &edit.id).unwrap();
    assert_eq!(told.payload["survival"], serde_json::to_value(&report).unwrap());
    assert!(report.classes["paths"].verbatim > 0, "{report:?}");
    assert_eq!(survival(&log, &"e999".into()), None);
    assert_eq!(survival(&log[1..], &edit.id), None, "a log without its beginning");
}

#[tokio::test]
async fn what_was_said_since_does_not_count_as_kept() {
    let (runtime, _folder) = runtime(SummaryWriterModel::Session).await;
    let session = talked(&runtime).await;
    let shown = session.inspect_run(|run| ViewSnapshot::of(run.history())).await.unwrap();
    compacted(&session, None).await;
    let history = async || session.inspect_run(|run| run.history().clone()).await.unwrap();
    let report = shown.survival_in(&history().await);
    session.ask("Once more: never touch src/kept0.rs, whatever comes.").await.unwrap();
    assert_eq!(shown.survival_in(&history().await), report);
}

#[test]
fn the_configured_strategy_keeps_its_options() {
    let own: Arc<dyn CompactionStrategy> = Arc::new(TruncationStrategy { keep_recent: 7 });
    let policy = CompactionPolicy::new(own.clone());
    assert!(Arc::ptr_eq(&strategy(&policy, "truncation").unwrap(), &own));
    assert_eq!(strategy(&policy, "importance").unwrap().name(), ImportanceStrategy::default().name());
    assert!(strategy(&policy, "no-such").is_none());
}

/// A session of about so many bytes of tool output that was never compacted.
async fn long_session(store: &SharedStore, bytes: usize) -> SessionId {
    let mut events =
        vec![EventBody::SessionStarted { title: None, forked_from: None, imported_from: None, folder: None }];
    let line = |at: usize| {
        format!("src/part_{}/mod_{at}.rs:{at}: error[E{at}]: cannot find value_{at} in scope\n", at % 97)
    };
    for at in 0..bytes / 10_000 {
        let text = vec![Part::text(format!("Look at part {at} and never touch src/kept{at}.rs."))];
        events.push(EventBody::message_taken(Message::user(format!("u{at}"), text)));
        let call = ToolCall {
            call_id: format!("c{at}").into(),
            name: "read".to_owned(),
            arguments: format!(r#"{{"path":"src/part_{at}.rs"}}"#),
            provider_id: None,
            native: None,
        };
        let message = Message {
            id: format!("a{at}").into(),
            role: Role::Assistant,
            parts: vec![Part::ToolCall(call)],
            origin: None,
        };
        events.push(EventBody::AssistantAdded {
            step_id: format!("s{at}").as_str().into(),
            message,
            finish: ModelStopReason::ToolCalls,
            cut: None,
        });
        let content = vec![Part::text((0..150).map(|row| line(at * 150 + row)).collect::<String>())];
        let call_id = format!("c{at}").into();
        let result = ToolResult { call_id, status: ToolStatus::Completed, content, truncated: None };
        events.push(EventBody::ToolFinished { result });
    }
    let id = SessionId::new("long");
    let events = events.into_iter().map(|event| (1, event)).collect();
    let new = NewSession { id: id.clone(), title: None, at: 1, events };
    store.create(new).await.unwrap();
    id
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancel_ends_a_long_computation_at_once() {
    let store: SharedStore = Arc::new(MemoryStore::new());
    let (runtime, _folder) = runtime_on(Arc::clone(&store), SummaryWriterModel::Nobody).await;
    let session = runtime.open(&long_session(&store, 20_000_000).await).await.unwrap();
    let length = async || session.inspect_run(|run| run.history().last_seq()).await.unwrap();
    let before = length().await;
    let compacting = session.clone();
    let compaction = tokio::spawn(async move { compacting.compact(None).await });
    while !session.is_computing() {
        assert!(!compaction.is_finished(), "it computes nothing long");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let begun = Instant::now();
    let again = runtime.open(session.id()).await.unwrap();
    assert_eq!(length().await, before, "the messages before the compaction are read");
    assert!(again.context().await.unwrap().total > 0);
    assert!(again.orders().await.unwrap().is_empty());
    let read = begun.elapsed();
    assert!(!compaction.is_finished(), "the reads waited for the compaction: {read:?}");
    let begun = Instant::now();
    assert_eq!(session.cancel(false).await.unwrap(), CancelPoint::BetweenCalls);
    let taken = begun.elapsed();
    let outcome = compaction.await.unwrap().unwrap();
    assert_eq!(outcome, CompactionOutcome::Refused("cancelled".to_owned()));
    assert_eq!(length().await, before, "nothing was stored");
    let begun = Instant::now();
    let edit = compacted(&session, None).await;
    let whole = begun.elapsed();
    // Half of the whole is a wide bound: what waits for the computation takes nearly all of it.
    assert!(taken.max(read) < whole / 2, "reads {read:?}, the cancel {taken:?}, the computation {whole:?}");
    let log = runtime.log(session.id()).await.unwrap();
    let report = survival(&log, &edit.id).unwrap();
    assert_eq!(session.newest_survival(&edit.id), Some(report), "what was stopped leaves no trace");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_see_that_a_run_has_begun_while_its_first_step_is_planned() {
    let (store, folder): (SharedStore, _) = (Arc::new(MemoryStore::new()), TemporaryFolder::new().unwrap());
    let slow = ScriptedAnswer::text("slowly").pace(Duration::from_secs(3_600));
    let model = ScriptedProvider::new(ModelScript::always(slow)).window(100_000_000);
    let agent = testing::agent(Arc::new(model), &folder).await.unwrap();
    let runtime = Runtime::new(agent, Arc::clone(&store), BlobStore::in_memory(1 << 20));
    let session = runtime.open(&long_session(&store, 5_000_000).await).await.unwrap();
    session.send(vec![Part::text("Go on.")]).await.unwrap();
    let status = session.inspect_run_and_status(|_, status| status).await.unwrap();
    assert_ne!(status, RunStatus::Idle);
    let runs = session.inspect_run_in_order(|run| run.history().open_run().is_some()).await.unwrap();
    assert!(runs, "the look came before the decision that begins the run");
    session.cancel(false).await.unwrap();
    session.settled().await.unwrap();
    let preview = session.preview().await.unwrap();
    assert_eq!(session.inspect_run(|run| run.snapshot().preview(None)).await.unwrap(), preview);
}
