//! The library as a program uses it: the builder, turns, function tools, approvals and typed hooks.

mod approvals;
mod async_strategy;
mod config_file;
mod config_programs;
mod events;
mod examples;
mod hooks;
mod tools;
mod turns;

use std::sync::Arc;
use std::time::Duration;

use longhaul::core::strategy::ReactiveOverflowStrategy;
use longhaul::prelude::*;
use longhaul::providers::scripted::{ScriptedCallKind, ScriptedCallRecord};
use longhaul::store::StoreError;
use longhaul::testing::TemporaryFolder;
use longhaul_testkit::{ScriptedUpstream, UpstreamAnswer, chat};
use tokio::sync::mpsc;

/// An agent whose model follows a script, and the model.
fn scripted(script: ModelScript) -> (AgentBuilder, Arc<ScriptedProvider>) {
    scripted_model(ScriptedProvider::new(script))
}

fn scripted_model(model: ScriptedProvider) -> (AgentBuilder, Arc<ScriptedProvider>) {
    let model = Arc::new(model.keep_requests());
    (Agent::builder().shared_provider(model.clone()), model)
}

/// The names of the tools that a request offers.
fn offered(record: &ScriptedCallRecord) -> Vec<&str> {
    record.request.as_ref().unwrap().tools.iter().map(|tool| tool.name.as_str()).collect()
}

/// All events of a turn, and how it ended.
async fn whole_turn(session: &Session, text: &str) -> (Vec<SessionEvent>, Result<TurnOutput, TurnError>) {
    let mut turn = session.turn(text).await.unwrap();
    let mut events = Vec::new();
    while let Some(event) = turn.next().await {
        events.extend(event);
    }
    (events, turn.finish().await)
}

#[tokio::test]
async fn an_agent_has_safe_defaults() {
    let (builder, model) = scripted(ModelScript::always("Hello!"));
    let agent = builder.system("Be brief.").build().await.unwrap();
    let session = agent.session().await.unwrap();
    session.turn("Hi").await.unwrap().finish().await.unwrap();
    let log = model.log();
    assert_eq!(log[0].request.as_ref().unwrap().system, "Be brief.");
    assert_eq!(offered(&log[0]), ["pin"], "no tool reaches beyond the session");
    assert_eq!(agent.agent().rules.policy.strategy.name(), "adaptive");
    assert!(agent.agent().rules.retry.patience_ms <= Some(60_000));
    assert_eq!(agent.sessions(10).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_workspace_brings_the_built_in_tools() {
    let folder = TemporaryFolder::new().unwrap();
    std::fs::write(folder.path().join("notes.md"), "The key is under the mat.").unwrap();
    let (builder, model) = scripted(ModelScript::turns([
        ScriptedAnswer::calling("read", r#"{"path":"notes.md"}"#),
        ScriptedAnswer::text("Under the mat."),
    ]));
    let agent = builder.workspace(folder.path()).build().await.unwrap();
    let (events, output) = whole_turn(&agent.session().await.unwrap(), "Where is the key?").await;
    assert_eq!(output.unwrap().text, "Under the mat.");
    assert_eq!(offered(&model.log()[0]), ["read", "bash", "edit", "write", "grep", "glob", "ls", "pin"]);
    let is_result = |event: &&SessionEvent| matches!(event, SessionEvent::ToolResult { .. });
    let result = format!("{:?}", events.iter().find(is_result).unwrap());
    assert!(result.contains("under the mat"), "{result}");
}

#[tokio::test]
async fn each_provider_is_reached_over_its_wire() {
    let wire = async |builder: AgentBuilder| {
        let provider = builder.window_tokens(9_000).build_agent().await.unwrap().provider;
        (provider.origin().api, provider.origin().model)
    };
    let local = "http://127.0.0.1:9/v1";
    let builder = Agent::builder;
    assert_eq!(wire(builder().openai_compatible(local, "a")).await, ("openai-chat".into(), "a".into()));
    assert_eq!(wire(builder().anthropic("k", "b")).await, ("anthropic-messages".into(), "b".into()));
    assert_eq!(wire(builder().gemini("k", "c")).await, ("gemini".into(), "c".into()));
    assert_eq!(wire(builder().ollama("http://127.0.0.1:9", "d")).await, ("ollama".into(), "d".into()));
}

#[tokio::test]
async fn a_chat_over_http_streams_and_sends_the_key() {
    let events = || UpstreamAnswer::Events(chat::stream("a1", "Hello there!", Some((12, 3))), Duration::ZERO);
    let server = ScriptedUpstream::start_without_pages(move |_| events()).await;
    let agent =
        Agent::builder().openai_compatible(server.url("/v1"), "m").api_key("sk-1").build().await.unwrap();
    let (events, output) = whole_turn(&agent.session().await.unwrap(), "Hi").await;
    let output = output.unwrap();
    assert_eq!(
        (output.text.as_str(), output.usage.input_tokens, output.usage.output_tokens),
        ("Hello there!", 12, 3)
    );
    let said = events.iter().filter_map(|event| match event {
        SessionEvent::TextDelta { text, .. } => Some(text.as_str()),
        _ => None,
    });
    assert_eq!(said.collect::<Vec<_>>(), ["Hello", " there!"]);
    let request = &server.received()[0];
    assert_eq!(request.headers["authorization"], "Bearer sk-1");
    assert_eq!(request.messages()[0]["content"], "Hi");
}

#[tokio::test]
async fn what_cannot_be_built_says_why() {
    let none = Agent::builder().build().await.err().unwrap();
    assert!(matches!(none, BuildError::NoModel), "{none}");
    let url = Agent::builder().openai_compatible("no url", "m").build().await.err().unwrap();
    assert!(matches!(url, BuildError::Provider(_)), "{url}");
    let model = || scripted(ModelScript::always("x")).0;
    let folder = model().workspace("/nowhere/at/all").build().await.err().unwrap();
    assert!(matches!(folder, BuildError::Workspace(_)), "{folder}");
    let tool = || tool_fn("twice", "", |_: tools::Nothing, _| async { "x" });
    let tools = model().tool(tool()).tool(tool()).build().await.err().unwrap();
    assert!(matches!(tools, BuildError::Tool(_)), "{tools}");
}

#[tokio::test]
async fn sessions_outlive_their_agent_in_a_store_of_the_programs_own() {
    let (store, blobs) = (Arc::new(MemoryStore::new()), BlobStore::in_memory(1 << 20));
    let id = {
        let (builder, _) = scripted(ModelScript::always("Noted."));
        let agent = builder.store(store.clone(), blobs.clone()).build().await.unwrap();
        let session = agent.session().await.unwrap();
        session.turn("Remember me").await.unwrap().finish().await.unwrap();
        session.id().clone()
    };
    let (builder, model) = scripted(ModelScript::always("I do."));
    let agent = builder.store(store, blobs).build().await.unwrap();
    agent.open(&id).await.unwrap().turn("And?").await.unwrap().finish().await.unwrap();
    assert_eq!(model.log()[0].messages, 3);
}

#[tokio::test]
async fn sessions_in_a_folder_outlive_their_runtime() {
    let place = TemporaryFolder::new().unwrap();
    let folder = place.path().join("sessions");
    let (builder, _) = scripted(ModelScript::always("I will."));
    let agent = builder.sqlite(&folder).build().await.unwrap();
    let session = agent.session().await.unwrap();
    session.turn("Remember me").await.unwrap().finish().await.unwrap();
    let (other, _) = scripted(ModelScript::always("?"));
    let locked = other.sqlite(&folder).build().await.err().unwrap();
    assert!(matches!(locked, BuildError::Store(StoreError::Locked { .. })), "{locked}");
    agent.close().await;

    let (builder, model) = scripted(ModelScript::always("I do."));
    let agent = builder.sqlite(&folder).build().await.unwrap();
    agent.open(session.id()).await.unwrap().turn("And?").await.unwrap().finish().await.unwrap();
    assert_eq!(model.log()[0].messages, 3);
    agent.close().await;
}

#[tokio::test]
async fn the_last_store_that_is_named_counts() {
    let place = TemporaryFolder::new().unwrap();
    let folder = place.path().join("sessions");
    let memory = || (Arc::new(MemoryStore::new()), BlobStore::in_memory(1 << 20));
    let (builder, _) = scripted(ModelScript::always("Yes."));
    let (store, blobs) = memory();
    builder.sqlite(&folder).store(store, blobs).build().await.unwrap().close().await;
    assert!(!folder.exists());
    let (builder, _) = scripted(ModelScript::always("Yes."));
    let (store, blobs) = memory();
    builder.store(store, blobs).sqlite(&folder).build().await.unwrap().close().await;
    assert!(folder.join("longhaul.db").exists());
}

/// Says so many turns, and returns all events.
async fn long_chat(agent: &Runtime, turns: usize) -> Vec<SessionEvent> {
    let session = agent.session().await.unwrap();
    let mut events = Vec::new();
    for at in 0..turns {
        let (more, output) = whole_turn(&session, &format!("Question {at}: what is the value?")).await;
        output.unwrap();
        events.extend(more);
    }
    events
}

fn compactions(events: &[SessionEvent]) -> Vec<(&str, u64)> {
    let compacted = events.iter().filter_map(|event| match event {
        SessionEvent::Compacted { strategy, original_tokens, .. } => {
            Some((strategy.as_str(), *original_tokens))
        }
        _ => None,
    });
    compacted.collect()
}

struct NewestTurn;

impl CompactionStrategy for NewestTurn {
    fn name(&self) -> &str {
        "newest-turn"
    }
    fn trigger(&self) -> StrategyTrigger {
        StrategyTrigger::Share(0.7)
    }
    fn choose(&self, context: &PlanContext<'_>, _: ProtectionLevel) -> Option<CompactionSelection> {
        let cut = context.turn_start(1);
        (cut > 0).then(|| CompactionSelection::new(context.before_cut(cut), UnitReplacement::Note))
    }
}

fn long_answers() -> ModelScript {
    ModelScript::always("The value is what it was before. ".repeat(20))
}

#[tokio::test]
async fn a_strategy_of_the_programs_own_compacts_at_the_trigger() {
    let by_strategy =
        scripted(long_answers()).0.window_tokens(6_000).strategy(NewestTurn).build().await.unwrap();
    let events = long_chat(&by_strategy, 40).await;
    let made = compactions(&events);
    assert!(!made.is_empty() && made.iter().all(|(name, _)| *name == "newest-turn"), "{made:?}");
    let early = scripted(long_answers()).0.window_tokens(6_000).strategy(NewestTurn);
    let early = early.trigger(StrategyTrigger::Tokens(2_000)).build().await.unwrap();
    let events = long_chat(&early, 20).await;
    assert!(compactions(&events)[0].1 < made[0].1);
}

#[tokio::test]
async fn a_counter_of_the_programs_own_counts() {
    let words = || counter_fn("words", |text| text.split_whitespace().count() as u64);
    let agent =
        scripted(ModelScript::always("So it is.")).0.token_counter(words().exact()).build().await.unwrap();
    let session = agent.session().await.unwrap();
    session.turn("one two three four five").await.unwrap().finish().await.unwrap();
    let tokens = session.inspect_run(|run| run.history().view()[0].tokens).await.unwrap();
    assert_eq!(tokens, 5 + 4, "the words and the marks around a message");
    assert_eq!(agent.agent().counter.name(), "words");
    assert_eq!(words().kind(), longhaul::core::estimate::CountAccuracy::Estimated);
}

fn compacting(window: u64) -> (AgentBuilder, Arc<ScriptedProvider>) {
    let (builder, model) = scripted_model(ScriptedProvider::new(long_answers()).window(window));
    (builder.strategy(ReactiveOverflowStrategy::default()).trigger(StrategyTrigger::Share(0.5)), model)
}

#[tokio::test]
async fn a_typed_hook_cancels_a_compaction() {
    let (asked, mut received) = mpsc::unbounded_channel();
    let (builder, _) = compacting(6_000);
    let agent = builder.on_pre_compact(move |request: PreCompactRequest| {
        let asked = asked.clone();
        async move {
            asked.send(request).unwrap();
            PreCompactDecision::cancel("not now")
        }
    });
    let events = long_chat(&agent.build().await.unwrap(), 30).await;
    let request = received.recv().await.unwrap();
    assert!(request.current_tokens >= request.target_tokens && request.what_goes.messages > 0, "{request:?}");
    assert_eq!(compactions(&events), []);
    let why = events.iter().find_map(|event| match event {
        SessionEvent::CompactionFailed { error, .. } => Some(error.message.clone()),
        _ => None,
    });
    assert!(why.as_ref().is_some_and(|why| why.contains("not now")), "{why:?}");
}

#[tokio::test]
async fn a_typed_hook_writes_the_summary() {
    let (builder, model) = compacting(6_000);
    let summary = "The user asks for the value again and again, and it never changes.";
    let agent = builder.on_pre_compact(move |_| async move { PreCompactDecision::summarize(summary) });
    let events = long_chat(&agent.build().await.unwrap(), 30).await;
    assert!(!compactions(&events).is_empty());
    assert!(
        model.log().iter().all(|call| call.kind == ScriptedCallKind::Main),
        "no model is asked for a summary"
    );
    let last = model.log().last().unwrap().request.clone().unwrap();
    let shown: String = last.messages.iter().map(Message::text).collect();
    assert!(shown.contains(summary), "{shown:.400}");
}

#[tokio::test]
async fn a_typed_hook_instructs_the_summary() {
    let (builder, model) = compacting(6_000);
    let agent = builder.on_pre_compact(|_| async { PreCompactDecision::instruct("Mind the colour blue.") });
    assert!(!compactions(&long_chat(&agent.build().await.unwrap(), 30).await).is_empty());
    let log = model.log();
    let asked =
        log.iter().find(|call| call.kind == ScriptedCallKind::Summary).unwrap().request.as_ref().unwrap();
    let asked = format!("{} {}", asked.system, asked.messages.iter().map(Message::text).collect::<String>());
    assert!(asked.contains("Mind the colour blue."), "{asked:.600}");
}

#[tokio::test]
async fn a_typed_hook_that_panics_is_ignored() {
    let (builder, _) = compacting(6_000);
    let agent = builder.on_pre_compact(|request| async move {
        assert_eq!(request.message_count, 0, "there are messages");
        PreCompactDecision::cancel("never")
    });
    assert!(!compactions(&long_chat(&agent.build().await.unwrap(), 30).await).is_empty());
}

#[tokio::test]
async fn proceed_changes_nothing() {
    let (plain, proceeding) = (compacting(6_000).0, compacting(6_000).0);
    let proceeding = proceeding.on_pre_compact(|_| async { PreCompactDecision::Proceed });
    let plain = long_chat(&plain.build().await.unwrap(), 30).await;
    let proceeding = long_chat(&proceeding.build().await.unwrap(), 30).await;
    assert!(!compactions(&plain).is_empty());
    assert_eq!(compactions(&plain), compactions(&proceeding));
}
