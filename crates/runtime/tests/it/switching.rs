//! Agents and models of sessions, and settings: chosen, switched, kept.

use std::sync::Arc;

use longhaul::agent::Agent;
use longhaul::agents::{AgentRegistry, BoxFuture, ModelDirectory};
use longhaul::session::{Session, SessionError, SettingsError, SwitchOutcome};
use longhaul::settings::{ConfiguredKeys, SettingSource, SettingsFile};
use longhaul_core::budget::StrategyTrigger;
use longhaul_core::estimate::MessageTokenCounter;
use longhaul_core::event::{EditReason, EventBody, ModelChoice, RunEnd};
use longhaul_core::plan::SummaryWriterModel;
use longhaul_core::run::{Run, RunStatus};
use longhaul_core::strategy;
use longhaul_providers::scripted::{ModelScript, ScriptedAnswer, ScriptedProvider};
use longhaul_providers::{ModelRequest, Provider as _};
use longhaul_store::{MemoryStore, SharedStore};
use longhaul_testkit::{TestSession, WAITING_COMMAND};
use serde_json::{Map, Value, json};

/// A session of the agent `main` with the model `big`, beside the agent `helper` with the model `small`.
struct TwoAgentSession {
    test: TestSession,
    small: Arc<ScriptedProvider>,
}

impl TwoAgentSession {
    fn requests_to_small(&self) -> Vec<ModelRequest> {
        self.small.log().into_iter().filter_map(|call| call.request).collect()
    }
}

fn model(name: &str, window: u64, script: ModelScript) -> ScriptedProvider {
    ScriptedProvider::new(script).model(name).window(window).keep_requests()
}

/// The usual agent's server has one more model.
struct Listed(Agent);

impl ModelDirectory for Listed {
    fn list(&self) -> BoxFuture<'_, Vec<String>> {
        Box::pin(async { vec!["listed".to_owned()] })
    }

    fn serve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<longhaul::agent::ServedModel, String>> {
        Box::pin(async move {
            match name {
                "listed" => Ok(self.0.served()),
                _ => Err("the server does not have it".to_owned()),
            }
        })
    }
}

async fn world_with(
    store: SharedStore,
    big: ModelScript,
    small: ModelScript,
    has_helper: bool,
) -> TwoAgentSession {
    let small = Arc::new(model("small", 8_000, small));
    let listed = Arc::new(model("listed", 50_000, ModelScript::always("From the list.")));
    let (small_limits, listed_limits) = (small.limits().await, listed.limits().await);
    let agents = |main: Agent, _: &_| {
        let listed = Agent { provider: listed, limits: listed_limits, ..main.clone() };
        let mut helper = Agent { provider: small.clone(), limits: small_limits, ..main.clone() };
        helper.system = "You are the helper.".to_owned();
        helper.counter = MessageTokenCounter::characters();
        helper.rules.queue_limit = 1;
        let agents = AgentRegistry::new("main", main)
            .with("broken", "gone", Err("it needs a key".to_owned()))
            .with_models(Arc::new(Listed(listed)));
        if has_helper { agents.with("helper", "small", Ok(helper)) } else { agents }
    };
    let test = TestSession::with_agents(store, model("big", 100_000, big), agents).await;
    TwoAgentSession { test, small }
}

async fn world(big: ModelScript, small: ModelScript) -> TwoAgentSession {
    world_with(Arc::new(MemoryStore::new()), big, small, true).await
}

fn helper() -> ModelChoice {
    ModelChoice { agent: Some("helper".to_owned()), model: None }
}

fn named(model: &str) -> ModelChoice {
    ModelChoice { agent: None, model: Some(model.to_owned()) }
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
        world.test.runtime.agents().into_iter().map(|agent| (agent.name, agent.model, agent.why)).collect();
    let entry = |name: &str, model: &str| (name.to_owned(), model.to_owned(), None);
    let broken = ("broken".to_owned(), "gone".to_owned(), Some("it needs a key".to_owned()));
    assert_eq!(names, [entry("main", "big"), broken, entry("helper", "small")]);
    let session = world.test.runtime.create_in(None, Some("helper")).await.unwrap();
    session.ask("Who are you?").await.unwrap();
    assert_eq!(newest(&session).await, "I am small.");
    assert_eq!(world.requests_to_small()[0].system, "You are the helper.");
    let usual = world.test.runtime.create_in(None, Some("main")).await.unwrap();
    assert_eq!(
        usual.inspect_run(|run| run.history().last_seq()).await.unwrap(),
        1,
        "the usual agent needs no word"
    );
    let (id, fork) = (session.id().clone(), world.test.runtime.fork(session.id(), 2).await.unwrap());
    assert_eq!(fork.inspect_run(|run| run.history().choice().clone()).await.unwrap(), helper());
    assert!(matches!(
        world.test.runtime.create_in(None, Some("nobody")).await,
        Err(SessionError::NotFound(_))
    ));
    assert!(matches!(
        world.test.runtime.create_in(None, Some("broken")).await,
        Err(SessionError::Conflict(_))
    ));
    drop((session, usual, fork, world));

    let world = world_with(store.clone(), big.clone(), small.clone(), true).await;
    let session = world.test.runtime.open(&id).await.unwrap();
    session.ask("And now?").await.unwrap();
    assert_eq!((world.requests_to_small().len(), world.test.requests().len()), (1, 0));
    drop((session, world));

    // Without that agent it can be read and given to another, and nothing is answered in its name.
    let world = world_with(store, big, small, false).await;
    let session = world.test.runtime.open(&id).await.unwrap();
    assert_eq!(newest(&session).await, "I am small.");
    let refused = session.ask("Anybody?").await.unwrap_err();
    assert!(matches!(&refused, SessionError::Conflict(why) if why.contains("`helper`")), "{refused}");
    assert!(session.resume().await.is_err());
    let usual = ModelChoice { agent: Some("main".to_owned()), model: None };
    assert_eq!(world.test.runtime.switch(&session, usual).await.unwrap(), SwitchOutcome::Now);
    session.ask("Anybody?").await.unwrap();
    assert_eq!(newest(&session).await, "I am big.");
}

#[tokio::test]
async fn a_switch_keeps_the_history_and_counts_it_anew() {
    let world = world(ModelScript::always("I am big."), ModelScript::always("I am small.")).await;
    let session = &world.test.session;
    session.ask("Remember the word heron.").await.unwrap();
    let mut watch = session.watch();
    assert_eq!(world.test.runtime.switch(session, helper()).await.unwrap(), SwitchOutcome::Now);
    let told = watch.recv().await.unwrap();
    assert_eq!((told.name, &told.payload["newConfig"]["model"]), ("llm:switched", &json!("small")));
    let seen =
        session.inspect_run(|run| (run.budget().window, run.history().counter().clone())).await.unwrap();
    assert_eq!(seen, (8_000, MessageTokenCounter::characters()));
    assert_eq!(world.test.runtime.switch(session, helper()).await.unwrap(), SwitchOutcome::Already);
    session.ask("Which word?").await.unwrap();
    let sent = world.requests_to_small();
    let asked = format!("{:?}", sent[0].messages);
    assert!(asked.contains("heron") && asked.contains("I am big."), "{asked}");
    assert_eq!(sent[0].system, "You are the helper.");

    // A model of the list: the agent stays.
    let listed = ModelChoice { model: Some("listed".to_owned()), ..helper() };
    assert_eq!(world.test.runtime.switch(session, listed).await.unwrap(), SwitchOutcome::Now);
    session.ask("And you?").await.unwrap();
    assert_eq!(newest(session).await, "From the list.");
    assert!(world.test.runtime.models().await.contains(&"listed".to_owned()));
    let unknown = world.test.runtime.switch(session, named("http://stranger")).await;
    assert!(matches!(unknown, Err(SessionError::Conflict(_))), "{unknown:?}");
    assert!(session.inspect_run(|run| run.history().model().unwrap().model == "listed").await.unwrap());
    assert_eq!(world.requests_to_small().len(), 1);
}

#[tokio::test]
async fn a_busy_session_is_switched_between_two_steps() {
    let slow = ScriptedAnswer::text("Wait.").call("bash", WAITING_COMMAND);
    let world = world(
        ModelScript::turns([slow, ScriptedAnswer::text("Never.")]),
        ModelScript::always("Small goes on."),
    )
    .await;
    let session = &world.test.session;
    let asked = {
        let session = session.clone();
        tokio::spawn(async move { session.ask("Do it.").await })
    };
    world.test.wait_for_status(RunStatus::ExecutingTools).await;
    assert_eq!(world.test.runtime.switch(session, helper()).await.unwrap(), SwitchOutcome::AtNextStep);
    assert!(session.inspect_run(|run| run.history().model().unwrap().model == "big").await.unwrap());
    world.test.end_waiting_command();
    let settled = asked.await.unwrap().unwrap();
    assert_eq!(settled.end, Some(RunEnd::Stop));
    assert_eq!(newest(session).await, "Small goes on.");
    assert_eq!((world.test.requests().len(), world.requests_to_small().len()), (1, 1));
    let log = world.test.runtime.log(session.id()).await.unwrap();
    let switches = log.iter().filter(|event| matches!(event.body, EventBody::ModelSwitched { .. }));
    assert_eq!(switches.count(), 1);
}

#[tokio::test]
async fn a_cancelled_run_does_not_lose_the_switch() {
    let slow = ScriptedAnswer::text("Wait.").call("bash", r#"{"command":"sleep 100"}"#);
    let world = world(ModelScript::turns([slow]), ModelScript::always("Here.")).await;
    let session = &world.test.session;
    session.send(vec![longhaul_core::message::Part::text("Do it.")]).await.unwrap();
    world.test.wait_for_status(RunStatus::ExecutingTools).await;
    assert_eq!(world.test.runtime.switch(session, helper()).await.unwrap(), SwitchOutcome::AtNextStep);
    session.cancel(false).await.unwrap();
    session.ask("Who is there?").await.unwrap();
    assert_eq!(newest(session).await, "Here.");
}

#[tokio::test]
async fn a_smaller_window_is_made_room_for_and_the_edit_says_why() {
    let long = "a word and another ".repeat(500);
    let world = world(ModelScript::always(long.as_str()), ModelScript::always("Small.")).await;
    let session = &world.test.session;
    for at in 0..5 {
        session.ask(&format!("Tell me more, {at}.")).await.unwrap();
    }
    let reasons = |run: &Run| run.history().edits().iter().map(|state| state.edit.reason).collect::<Vec<_>>();
    assert!(session.inspect_run(reasons).await.unwrap().is_empty());
    world.test.runtime.switch(session, helper()).await.unwrap();
    let settled = session.ask("In short?").await.unwrap();
    assert_eq!(settled.end, Some(RunEnd::Stop), "{settled:?}");
    assert_eq!(session.inspect_run(reasons).await.unwrap()[0], EditReason::ModelSwitch);
}

#[tokio::test]
async fn settings_hold_for_open_sessions_and_new_ones_and_outlive_the_process() {
    let world = world(ModelScript::always("Yes."), ModelScript::always("Small.")).await;
    let path = world.test.folder.path().join("settings.json");
    let file = || SettingsFile::new(path.clone(), ConfiguredKeys::from(["context.autoRecall".to_owned()]));
    assert!(world.test.runtime.use_settings(file()).await.unwrap().is_empty());
    let before = world.test.runtime.settings();
    assert_eq!(before.strategy, ("reactive-overflow".to_owned(), SettingSource::Default));
    assert_eq!(
        (before.auto_recall, before.trigger),
        ((false, SettingSource::AgentFile), (None, SettingSource::Default))
    );
    let (open, other) = (
        world.test.runtime.create(None).await.unwrap(),
        world.test.runtime.create_in(None, Some("helper")).await.unwrap(),
    );
    let all = change(json!({
        "strategy": "pruning-agent", "trigger": { "triggerTokens": 5_000 }, "pruningAgent": "helper", "autoRecall": true,
    }));
    let holding = world.test.runtime.change_settings(&all).await.unwrap();
    assert_eq!(holding.pruning_agent, ("helper".to_owned(), SettingSource::Settings));
    let policy = |run: &Run| {
        let policy = &run.settings().policy;
        (policy.strategy.name().to_owned(), policy.trigger, policy.auto_recall, policy.writer)
    };
    let max_output = world.test.runtime.agent().limits.max_output;
    let writer = SummaryWriterModel::Other { window: 8_000, max_output };
    let expected = ("pruning-agent".to_owned(), Some(StrategyTrigger::Tokens(5_000)), true, writer);
    for session in [&open, &other, &world.test.runtime.create(None).await.unwrap()] {
        assert_eq!(session.inspect_run(policy).await.unwrap(), expected);
    }
    assert_eq!(world.test.runtime.agent().rules.summariser.as_ref().unwrap().0.origin().model, "small");

    for (wrong, field) in [
        (json!({ "strategy": "truncation", "pruningAgent": "nobody" }), "pruningAgent"),
        (json!({ "pruningAgent": "broken" }), "pruningAgent"),
        (json!({ "summarizeWith": "helper" }), "summarizeWith"),
        (json!({ "trigger": { "type": "planner" } }), "trigger"),
        (json!({ "strategy": "truncation", "autoRecall": 1 }), "autoRecall"),
    ] {
        let refused = world.test.runtime.change_settings(&change(wrong)).await.unwrap_err();
        assert!(matches!(&refused, SettingsError::Refused(refused) if refused.field == field), "{refused}");
        assert_eq!(world.test.runtime.settings(), holding, "nothing of it");
    }
    assert_eq!(open.inspect_run(policy).await.unwrap(), expected);

    let again = self::world(ModelScript::always("Yes."), ModelScript::always("Small.")).await;
    assert_eq!(again.test.runtime.use_settings(file()).await.unwrap().names().len(), 4);
    assert_eq!(again.test.runtime.settings(), holding);
    let session = again.test.runtime.create(None).await.unwrap();
    assert_eq!(session.inspect_run(policy).await.unwrap(), expected);
    let back = change(json!({ "strategy": null, "trigger": null, "pruningAgent": null, "autoRecall": null }));
    assert_eq!(again.test.runtime.change_settings(&back).await.unwrap(), before);
    assert!(file().read().unwrap().is_empty());
}

#[tokio::test]
async fn a_damaged_file_holds_for_nothing_and_settings_that_cannot_be_kept_do_not_hold() {
    let world = world(ModelScript::always("Yes."), ModelScript::always("Small.")).await;
    let path = world.test.folder.path().join("settings.json");
    std::fs::write(&path, "{\"strategy\":").unwrap();
    assert!(
        world
            .test
            .runtime
            .use_settings(SettingsFile::new(path.clone(), ConfiguredKeys::new()))
            .await
            .is_err()
    );
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "{\"strategy\":", "it is left alone");
    let before = world.test.runtime.settings();
    assert_eq!(before.strategy.1, SettingSource::Default);
    let lost = self::world(ModelScript::always("Yes."), ModelScript::always("Small.")).await;
    let nowhere =
        SettingsFile::new(lost.test.folder.path().join("no/such/settings.json"), ConfiguredKeys::new());
    lost.test.runtime.use_settings(nowhere).await.unwrap();
    let change = change(json!({ "strategy": "truncation" }));
    assert!(matches!(lost.test.runtime.change_settings(&change).await, Err(SettingsError::Io(_))));
    assert_eq!(lost.test.runtime.settings(), before);
    world.test.runtime.change_settings(&change).await.unwrap();
    assert_eq!(world.test.runtime.settings().strategy.0, "truncation");
}

#[tokio::test]
async fn after_a_compaction_by_another_strategy_the_settings_hold_again() {
    let world = world(ModelScript::always("Yes."), ModelScript::always("Small.")).await;
    let session = &world.test.session;
    session.ask("hello").await.unwrap();
    session.compact_by(strategy::by_name("truncation"), None).await.unwrap();
    world.test.runtime.change_settings(&change(json!({ "strategy": "importance" }))).await.unwrap();
    session.compact_by(strategy::by_name("truncation"), None).await.unwrap();
    let name = |run: &Run| run.settings().policy.strategy.name().to_owned();
    assert_eq!(session.inspect_run(name).await.unwrap(), "importance");
}
