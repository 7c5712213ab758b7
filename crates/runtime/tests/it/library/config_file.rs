//! An agent of a configuration file.

use std::time::Duration;

use longhaul::config_agent::ConfigFileError;
use longhaul::core::run::ToolApproval;
use longhaul::prelude::*;
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
    assert!(agent.tools.get("bash").is_none() && agent.tools.get("edit").is_some());
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
    let file =
        "run: { maxSteps: 7 }\nsandbox: { network: deny }\ncontext: { enabled: true, tokenCounter: server }";
    match builder_of(file) {
        Err(ConfigFileError::Unapplied { keys, .. }) => assert_eq!(keys, ["context.tokenCounter", "sandbox"]),
        other => panic!("{other:?}"),
    }
    assert!(matches!(builder_of("run: { maxSteeps: 7 }"), Err(ConfigFileError::Config(_))));
}
