//! An agent of a configuration file.

use std::time::Duration;

use longhaul::config_agent::ConfigFileError;
use longhaul::core::plan::SummaryWriterModel;
use longhaul::core::run::{ServerCountPolicy, ToolApproval};
use longhaul::prelude::*;
use longhaul::sandbox::NetworkAccess;
use longhaul::testing::TemporaryFolder;

fn builder_of(file: &str) -> Result<AgentBuilder, ConfigFileError> {
    let folder = TemporaryFolder::new().unwrap();
    let path = folder.path().join("longhaul.yml");
    std::fs::write(folder.path().join("prompt.md"), "Be exact.").unwrap();
    std::fs::write(&path, file).unwrap();
    Agent::builder().from_config(&path)
}

const FILE: &str = "
model: { provider: openai-compatible, name: m, base_url: 'http://127.0.0.1:9/v1', context_window: 9000 }
systemPrompt: Be brief.
run: { maxSteps: 7 }
context: { compression: { strategy: truncation } }
tools: { disabled: [bash] }
approvals: { rules: [{ tool: edit, decision: allow }] }
retry: { patience: 3s }
";

#[tokio::test]
async fn a_file_sets_model_prompt_context_tools_and_rules() {
    let folder = TemporaryFolder::new().unwrap();
    let agent = builder_of(FILE).unwrap().workspace(folder.path()).build_agent().await.unwrap();
    assert_eq!((agent.provider.origin().model.as_str(), agent.limits.window), ("m", Some(9000)));
    assert_eq!((agent.system.as_str(), agent.rules.max_steps), ("Be brief.", 7));
    assert_eq!(agent.rules.policy.strategy.name(), "truncation");
    assert_eq!(agent.rules.retry.patience_ms, Some(3_000));
    assert_eq!(agent.rules.approvals.get("edit"), Some(&ToolApproval::Allow));
    // The program has no approval handler, so a question about an unclear command would wait without an answer.
    assert_eq!(agent.rules.unclear_approval, agent.rules.default_approval);
    assert!(matches!(agent.rules.unclear_approval, ToolApproval::Deny(_)));
    assert!(agent.tools.get("bash").is_none() && agent.tools.get("edit").is_some());
}

fn summarised_by(context: &str) -> AgentBuilder {
    let model = "{ provider: openai-compatible, name: large, base_url: 'http://127.0.0.1:9/v1' }";
    let file = format!("model: {model}\nmodels: {{ small: {{ window: 8000 }} }}\ncontext: {context}");
    builder_of(&file).unwrap()
}

#[tokio::test]
async fn a_file_says_who_writes_summaries() {
    let written_by = async |context: &str| {
        let rules = summarised_by(context).build_agent().await.unwrap().rules;
        (rules.policy.writer, rules.summariser.map(|model| model.0.origin().model))
    };
    let other = (SummaryWriterModel::Other { window: 8_000, max_output: None }, Some("small".to_owned()));
    let by_key = "{ compression: { options: { summarizeWith: small } } }";
    assert_eq!(written_by(by_key).await, other);
    let by_strategy = "{ compression: { strategy: pruning-agent }, pruningAgent: small }";
    assert_eq!(written_by(by_strategy).await, other);
    let by_nobody = "{ compression: { options: { summarizeWith: extract } } }";
    assert_eq!(written_by(by_nobody).await, (SummaryWriterModel::Nobody, None));
    assert_eq!(written_by("{}").await, (SummaryWriterModel::Session, None));
}

#[tokio::test]
async fn a_model_for_summaries_needs_a_server() {
    let own = ScriptedProvider::new(ModelScript::always("Hello!"));
    let builder = summarised_by("{ compression: { options: { summarizeWith: small } } }").provider(own);
    let error = builder.build_agent().await.err().unwrap();
    assert!(matches!(error, BuildError::SummaryModel { .. }), "{error}");
    let told = error.to_string();
    assert!(told.contains("`context.compression.options.summarizeWith` names the model `small`"), "{told}");
}

#[tokio::test]
async fn a_file_names_the_token_counter() {
    let model = "{ provider: openai-compatible, name: m, base_url: 'http://127.0.0.1:9/v1' }";
    let builder = |counter: &str| {
        builder_of(&format!("model: {model}\ncontext: {{ tokenCounter: {counter} }}")).unwrap()
    };
    let encoding = builder("cl100k_base").build_agent().await.unwrap();
    assert_eq!((encoding.counter.name(), encoding.counting), ("cl100k_base", ServerCountPolicy::Never));
    assert_eq!(builder("server").build_agent().await.unwrap().counting, ServerCountPolicy::Always);
    let near = builder("auto").build_agent().await.unwrap();
    assert_eq!(near.counting, ServerCountPolicy::Always, "the server is on this machine");
    let words = counter_fn("words", |text| text.split_whitespace().count() as u64);
    let later = builder("cl100k_base").token_counter(words).build_agent().await.unwrap();
    assert_eq!(later.counter.name(), "words");
    let error = builder("none.json").build_agent().await.err().unwrap();
    assert!(matches!(error, BuildError::TokenCounter(_)), "{error}");
    let told = error.to_string();
    assert!(told.starts_with("context.tokenCounter: ") && told.contains("none.json"), "{told}");
}

#[tokio::test]
async fn a_file_closes_the_network_to_commands() {
    let folder = TemporaryFolder::new().unwrap();
    let builder = builder_of("sandbox: { network: deny }").unwrap().workspace(folder.path());
    let sandbox = builder.build_agent().await.unwrap().sandbox;
    // The report states what is enforced, and not every machine can close the network.
    let is_enforced = sandbox.status().calls.is_ok();
    assert_eq!(sandbox.report().network == NetworkAccess::Denied, is_enforced, "{}", sandbox.status());
}

#[tokio::test]
async fn a_method_after_the_file_wins() {
    let builder = builder_of(FILE).unwrap().system("Be long.").patience(Duration::from_secs(1));
    let agent = builder.window_tokens(5_000).build_agent().await.unwrap();
    assert_eq!((agent.system.as_str(), agent.limits.window), ("Be long.", Some(5_000)));
    assert_eq!(agent.rules.retry.patience_ms, Some(1_000));
}

#[test]
fn keys_that_the_library_does_not_apply_are_named() {
    let file = "telemetry: { content: true }\nblobs: { maxBytes: 1048576, sessionQuotaBytes: 1048576 }";
    match builder_of(file) {
        Err(ConfigFileError::Unapplied { keys, .. }) => {
            assert_eq!(keys, ["blobs.maxBytes", "telemetry"])
        }
        other => panic!("{other:?}"),
    }
    match builder_of("context: { pruningAgent: small }") {
        // Without its strategy it is the gateway's alone.
        Err(ConfigFileError::Unapplied { keys, .. }) => assert_eq!(keys, ["context.pruningAgent"]),
        other => panic!("{other:?}"),
    }
    assert!(matches!(builder_of("run: { maxSteeps: 7 }"), Err(ConfigFileError::Config(_))));
}
