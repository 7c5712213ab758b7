//! Agents and models of sessions, and settings: chosen, switched, kept.

use std::sync::Arc;
use std::time::Duration;

use longhaul::agent::Agent;
use longhaul::agents::{AgentRegistry, Later, ModelDirectory};
use longhaul::session::{Runtime, Session, SessionError, SettingsError, SwitchOutcome};
use longhaul::settings::{SettingSource, SettingsFile, Written};
use longhaul::testing::{self, TemporaryFolder};
use longhaul_core::budget::StrategyTrigger;
use longhaul_core::estimate::MessageTokenCounter;
use longhaul_core::event::{EditReason, EventBody, ModelChoice, RunEnd};
use longhaul_core::plan::SummaryWriterModel;
use longhaul_core::run::{Run, RunStatus};
use longhaul_core::strategy;
use longhaul_providers::ModelRequest;
use longhaul_providers::scripted::{ModelScript, ScriptedAnswer, ScriptedProvider};
use longhaul_store::{BlobStore, MemoryStore, SharedStore};
use serde_json::{Map, Value, json};

struct World {
    runtime: Runtime,
    folder: TemporaryFolder,
    big: Arc<ScriptedProvider>,
    small: Arc<ScriptedProvider>,
}

fn model(name: &str, window: u64, script: ModelScript) -> Arc<ScriptedProvider> {
    Arc::new(ScriptedProvider::new(script).model(name).window(window).keep_requests())
}

fn requests(model: &ScriptedProvider) -> Vec<ModelRequest> {
    model.log().into_iter().filter_map(|call| call.request).collect()
}

async fn agent(model: &Arc<ScriptedProvider>, folder: &TemporaryFolder, system: &str) -> Agent {
    let mut agent = testing::agent(model.clone(), folder).await.unwrap();
    agent.system = system.to_owned();
    agent
}

/// The usual agent's server has one more model.
struct Listed(Agent);

impl ModelDirectory for Listed {
    fn list(&self) -> Later<'_, Vec<String>> {
        Box::pin(async { vec!["listed".to_owned()] })
    }

    fn serve<'a>(&'a self, name: &'a str) -> Later<'a, Result<longhaul::agent::ServedModel, String>> {
        Box::pin(async move {
            match name {
                "listed" => Ok(self.0.served()),
                _ => Err("the server does not have it".to_owned()),
            }
        })
    }
}

async fn world_with(store: SharedStore, big: ModelScript, small: ModelScript, has_helper: bool) -> World {
    let folder = TemporaryFolder::new().unwrap();
    let (big, small) = (model("big", 100_000, big), model("small", 8_000, small));
    let listed = agent(&model("listed", 50_000, ModelScript::always("From the list.")), &folder, "").await;
    let mut agents = AgentRegistry::new("main", agent(&big, &folder, "You are the main one.").await)
        .with("broken", "gone", Err("it needs a key".to_owned()))
        .with_models(Arc::new(Listed(listed)));
    if has_helper {
        let mut helper = agent(&small, &folder, "You are the helper.").await;
        helper.counter = MessageTokenCounter::characters();
        helper.rules.queue_limit = 1;
        agents = agents.with("helper", "small", Ok(helper));
    }
    World { runtime: Runtime::of(agents, store, BlobStore::in_memory(64 << 20)), folder, big, small }
}

async fn world(big: ModelScript, small: ModelScript) -> World {
    world_with(Arc::new(MemoryStore::new()), big, small, true).await
}

fn helper() -> ModelChoice {
    ModelChoice { agent: Some("helper".to_owned()), model: None }
}

fn named(model: &str) -> ModelChoice {
    ModelChoice { agent: None, model: Some(model.to_owned()) }
}

async fn until(session: &Session, wanted: RunStatus) {
    let mut status = session.status();
    let seen = status.wait_for(|status| *status == wanted);
    tokio::time::timeout(Duration::from_secs(20), seen).await.unwrap().unwrap();
}

async fn newest(session: &Session) -> String {
    let newest = |run: &Run| {
        let item = run.history().view().last().unwrap();
        item.message.parts.iter().filter_map(|part| part.as_text()).collect::<String>()
    };
    session.inspect_run(newest).await.unwrap()
}

fn change(change: Value) -> Map<String, Value> {
    change.as_object().unwrap().clone()
}

#[tokio::test]
async fn a_session_has_the_agent_it_was_given_also_after_a_restart() {
    let store: SharedStore = Arc::new(MemoryStore::new());
    let (big, small) = (ModelScript::always("I am big."), ModelScript::always("I am small."));
    let world = world_with(store.clone(), big.clone(), small.clone(), true).await;
    let names: Vec<_> =
        world.runtime.agents().into_iter().map(|agent| (agent.name, agent.model, agent.why)).collect();
    let entry = |name: &str, model: &str| (name.to_owned(), model.to_owned(), None);
    let broken = ("broken".to_owned(), "gone".to_owned(), Some("it needs a key".to_owned()));
    assert_eq!(names, [entry("main", "big"), broken, entry("helper", "small")]);
    let session = world.runtime.create_in(None, Some("helper")).await.unwrap();
    session.ask("Who are you?").await.unwrap();
    assert_eq!(newest(&session).await, "I am small.");
    assert_eq!(requests(&world.small)[0].system, "You are the helper.");
    let usual = world.runtime.create_in(None, Some("main")).await.unwrap();
    assert_eq!(
        usual.inspect_run(|run| run.history().last_seq()).await.unwrap(),
        1,
        "the usual agent needs no word"
    );
    let (id, fork) = (session.id().clone(), world.runtime.fork(session.id(), 2).await.unwrap());
    assert_eq!(fork.inspect_run(|run| run.history().choice().clone()).await.unwrap(), helper());
    assert!(matches!(world.runtime.create_in(None, Some("nobody")).await, Err(SessionError::NotFound(_))));
    assert!(matches!(world.runtime.create_in(None, Some("broken")).await, Err(SessionError::Conflict(_))));
    drop((session, usual, fork, world));

    let world = world_with(store.clone(), big.clone(), small.clone(), true).await;
    let session = world.runtime.open(&id).await.unwrap();
    session.ask("And now?").await.unwrap();
    assert_eq!((requests(&world.small).len(), requests(&world.big).len()), (1, 0));
    drop((session, world));

    // Without that agent it can be read and given to another, and nothing is answered in its name.
    let world = world_with(store, big, small, false).await;
    let session = world.runtime.open(&id).await.unwrap();
    assert_eq!(newest(&session).await, "I am small.");
    let refused = session.ask("Anybody?").await.unwrap_err();
    assert!(matches!(&refused, SessionError::Conflict(why) if why.contains("`helper`")), "{refused}");
    assert!(session.resume().await.is_err());
    let usual = ModelChoice { agent: Some("main".to_owned()), model: None };
    assert_eq!(world.runtime.switch(&session, usual).await.unwrap(), SwitchOutcome::Now);
    session.ask("Anybody?").await.unwrap();
    assert_eq!(newest(&session).await, "I am big.");
}

#[tokio::test]
async fn a_switch_keeps_the_history_and_counts_it_anew() {
    let world = world(ModelScript::always("I am big."), ModelScript::always("I am small.")).await;
    let session = world.runtime.create(None).await.unwrap();
    session.ask("Remember the word heron.").await.unwrap();
    let mut watch = session.watch();
    assert_eq!(world.runtime.switch(&session, helper()).await.unwrap(), SwitchOutcome::Now);
    let told = watch.recv().await.unwrap();
    assert_eq!((told.name, &told.payload["newConfig"]["model"]), ("llm:switched", &json!("small")));
    let seen =
        session.inspect_run(|run| (run.budget().window, run.history().counter().clone())).await.unwrap();
    assert_eq!(seen, (8_000, MessageTokenCounter::characters()));
    assert_eq!(world.runtime.switch(&session, helper()).await.unwrap(), SwitchOutcome::Already);
    session.ask("Which word?").await.unwrap();
    let sent = requests(&world.small);
    let asked = format!("{:?}", sent[0].messages);
    assert!(asked.contains("heron") && asked.contains("I am big."), "{asked}");
    assert_eq!(sent[0].system, "You are the helper.");

    // A model of the list: the agent stays.
    let listed = ModelChoice { model: Some("listed".to_owned()), ..helper() };
    assert_eq!(world.runtime.switch(&session, listed).await.unwrap(), SwitchOutcome::Now);
    session.ask("And you?").await.unwrap();
    assert_eq!(newest(&session).await, "From the list.");
    assert!(world.runtime.models().await.contains(&"listed".to_owned()));
    let unknown = world.runtime.switch(&session, named("http://stranger")).await;
    assert!(matches!(unknown, Err(SessionError::Conflict(_))), "{unknown:?}");
    assert!(session.inspect_run(|run| run.history().model().unwrap().model == "listed").await.unwrap());
    assert_eq!(requests(&world.small).len(), 1);
}

#[tokio::test]
async fn a_busy_session_is_switched_between_two_steps() {
    let slow =
        ScriptedAnswer::text("Wait.").call("bash", r#"{"command":"until [ -e go ]; do sleep 0.02; done"}"#);
    let world = world(
        ModelScript::turns([slow, ScriptedAnswer::text("Never.")]),
        ModelScript::always("Small goes on."),
    )
    .await;
    let session = world.runtime.create(None).await.unwrap();
    let asked = {
        let session = session.clone();
        tokio::spawn(async move { session.ask("Do it.").await })
    };
    until(&session, RunStatus::ExecutingTools).await;
    assert_eq!(world.runtime.switch(&session, helper()).await.unwrap(), SwitchOutcome::AtNextStep);
    assert!(session.inspect_run(|run| run.history().model().unwrap().model == "big").await.unwrap());
    std::fs::write(world.folder.path().join("go"), "").unwrap();
    let settled = asked.await.unwrap().unwrap();
    assert_eq!(settled.end, Some(RunEnd::Stop));
    assert_eq!(newest(&session).await, "Small goes on.");
    assert_eq!((requests(&world.big).len(), requests(&world.small).len()), (1, 1));
    let log = world.runtime.log(session.id()).await.unwrap();
    let switches = log.iter().filter(|event| matches!(event.body, EventBody::ModelSwitched { .. }));
    assert_eq!(switches.count(), 1);
}

#[tokio::test]
async fn a_cancelled_run_does_not_lose_the_switch() {
    let slow = ScriptedAnswer::text("Wait.").call("bash", r#"{"command":"sleep 100"}"#);
    let world = world(ModelScript::turns([slow]), ModelScript::always("Here.")).await;
    let session = world.runtime.create(None).await.unwrap();
    session.send(vec![longhaul_core::message::Part::text("Do it.")]).await.unwrap();
    until(&session, RunStatus::ExecutingTools).await;
    assert_eq!(world.runtime.switch(&session, helper()).await.unwrap(), SwitchOutcome::AtNextStep);
    session.cancel(false).await.unwrap();
    session.ask("Who is there?").await.unwrap();
    assert_eq!(newest(&session).await, "Here.");
}

#[tokio::test]
async fn a_smaller_window_is_made_room_for_and_the_edit_says_why() {
    let long = "a word and another ".repeat(500);
    let world = world(ModelScript::always(long.as_str()), ModelScript::always("Small.")).await;
    let session = world.runtime.create(None).await.unwrap();
    for at in 0..5 {
        session.ask(&format!("Tell me more, {at}.")).await.unwrap();
    }
    let reasons = |run: &Run| run.history().edits().iter().map(|state| state.edit.reason).collect::<Vec<_>>();
    assert!(session.inspect_run(reasons).await.unwrap().is_empty());
    world.runtime.switch(&session, helper()).await.unwrap();
    let settled = session.ask("In short?").await.unwrap();
    assert_eq!(settled.end, Some(RunEnd::Stop), "{settled:?}");
    assert_eq!(session.inspect_run(reasons).await.unwrap()[0], EditReason::ModelSwitch);
}

#[tokio::test]
async fn settings_hold_for_open_sessions_and_new_ones_and_outlive_the_process() {
    let world = world(ModelScript::always("Yes."), ModelScript::always("Small.")).await;
    let path = world.folder.path().join("settings.json");
    let file = || SettingsFile::new(path.clone(), Written::from(["context.autoRecall".to_owned()]));
    assert!(world.runtime.use_settings(file()).await.unwrap().is_empty());
    let before = world.runtime.settings();
    assert_eq!(before.strategy, ("reactive-overflow".to_owned(), SettingSource::Default));
    assert_eq!(
        (before.auto_recall, before.trigger),
        ((false, SettingSource::AgentFile), (None, SettingSource::Default))
    );
    let (open, other) = (
        world.runtime.create(None).await.unwrap(),
        world.runtime.create_in(None, Some("helper")).await.unwrap(),
    );
    let all = change(json!({
        "strategy": "pruning-agent", "trigger": { "triggerTokens": 5_000 }, "pruningAgent": "helper", "autoRecall": true,
    }));
    let holding = world.runtime.change_settings(&all).await.unwrap();
    assert_eq!(holding.pruning_agent, ("helper".to_owned(), SettingSource::Settings));
    let policy = |run: &Run| {
        let policy = &run.settings().policy;
        (policy.strategy.name().to_owned(), policy.trigger, policy.auto_recall, policy.writer)
    };
    let writer = SummaryWriterModel::Other { window: 8_000, max_output: world.small_output() };
    let expected = ("pruning-agent".to_owned(), Some(StrategyTrigger::Tokens(5_000)), true, writer);
    for session in [&open, &other, &world.runtime.create(None).await.unwrap()] {
        assert_eq!(session.inspect_run(policy).await.unwrap(), expected);
    }
    assert_eq!(world.runtime.agent().rules.summariser.as_ref().unwrap().0.origin().model, "small");

    for (wrong, field) in [
        (json!({ "strategy": "truncation", "pruningAgent": "nobody" }), "pruningAgent"),
        (json!({ "pruningAgent": "broken" }), "pruningAgent"),
        (json!({ "summarizeWith": "helper" }), "summarizeWith"),
        (json!({ "trigger": { "type": "planner" } }), "trigger"),
        (json!({ "strategy": "truncation", "autoRecall": 1 }), "autoRecall"),
    ] {
        let refused = world.runtime.change_settings(&change(wrong)).await.unwrap_err();
        assert!(matches!(&refused, SettingsError::Refused(refused) if refused.field == field), "{refused}");
        assert_eq!(world.runtime.settings(), holding, "nothing of it");
    }
    assert_eq!(open.inspect_run(policy).await.unwrap(), expected);

    let again = self::world(ModelScript::always("Yes."), ModelScript::always("Small.")).await;
    assert_eq!(again.runtime.use_settings(file()).await.unwrap().names().len(), 4);
    assert_eq!(again.runtime.settings(), holding);
    let session = again.runtime.create(None).await.unwrap();
    assert_eq!(session.inspect_run(policy).await.unwrap(), expected);
    let back = change(json!({ "strategy": null, "trigger": null, "pruningAgent": null, "autoRecall": null }));
    assert_eq!(again.runtime.change_settings(&back).await.unwrap(), before);
    assert!(file().read().unwrap().is_empty());
}

impl World {
    fn small_output(&self) -> Option<u64> {
        self.runtime.agent().limits.max_output
    }
}

#[tokio::test]
async fn a_damaged_file_holds_for_nothing_and_settings_that_cannot_be_kept_do_not_hold() {
    let world = world(ModelScript::always("Yes."), ModelScript::always("Small.")).await;
    let path = world.folder.path().join("settings.json");
    std::fs::write(&path, "{\"strategy\":").unwrap();
    assert!(world.runtime.use_settings(SettingsFile::new(path.clone(), Written::new())).await.is_err());
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "{\"strategy\":", "it is left alone");
    let before = world.runtime.settings();
    assert_eq!(before.strategy.1, SettingSource::Default);
    let lost = self::world(ModelScript::always("Yes."), ModelScript::always("Small.")).await;
    let nowhere = SettingsFile::new(lost.folder.path().join("no/such/settings.json"), Written::new());
    lost.runtime.use_settings(nowhere).await.unwrap();
    let change = change(json!({ "strategy": "truncation" }));
    assert!(matches!(lost.runtime.change_settings(&change).await, Err(SettingsError::Io(_))));
    assert_eq!(lost.runtime.settings(), before);
    world.runtime.change_settings(&change).await.unwrap();
    assert_eq!(world.runtime.settings().strategy.0, "truncation");
}

#[tokio::test]
async fn after_a_compaction_by_another_strategy_the_settings_hold_again() {
    let world = world(ModelScript::always("Yes."), ModelScript::always("Small.")).await;
    let session = world.runtime.create(None).await.unwrap();
    session.ask("hello").await.unwrap();
    session.compact_by(strategy::by_name("truncation"), None).await.unwrap();
    world.runtime.change_settings(&change(json!({ "strategy": "importance" }))).await.unwrap();
    session.compact_by(strategy::by_name("truncation"), None).await.unwrap();
    let name = |run: &Run| run.settings().policy.strategy.name().to_owned();
    assert_eq!(session.inspect_run(name).await.unwrap(), "importance");
}
