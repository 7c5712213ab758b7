//! The hooks and MCP servers of a configuration file.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use longhaul::hooks::{DEADLINE, HookEvent};
use longhaul::prelude::*;
use longhaul::testing::TemporaryFolder;

use super::{offered, whole_turn};
use crate::mcp::python;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp_server.py");

/// A builder with the file as `longhaul.yml` in `folder`, and a model that follows the script.
fn configured(
    folder: &TemporaryFolder,
    file: &str,
    script: ModelScript,
) -> (AgentBuilder, Arc<ScriptedProvider>) {
    let path = folder.path().join("longhaul.yml");
    fs::write(&path, file).unwrap();
    // In a large window no tool is deferred.
    let model = Arc::new(ScriptedProvider::new(script).window(200_000).keep_requests());
    (Agent::builder().from_config(&path).unwrap().shared_provider(model.clone()), model)
}

/// One call of a tool, then an answer.
fn calling(tool: &str, arguments: &str) -> ModelScript {
    ModelScript::turns([ScriptedAnswer::calling(tool, arguments), ScriptedAnswer::text("Done.")])
}

/// Returns the result of a turn's one call, as the model reads it.
async fn result_of_call(agent: &Runtime) -> String {
    let (events, output) = whole_turn(&agent.session().await.unwrap(), "Do it.").await;
    assert_eq!(output.unwrap().text, "Done.");
    let result = events.into_iter().find_map(|event| match event {
        SessionEvent::ToolResult { content, .. } => Some(content.iter().filter_map(Part::as_text).collect()),
        _ => None,
    });
    result.unwrap()
}

#[tokio::test]
async fn a_command_hook_of_the_file_guards_a_tool() {
    let folder = TemporaryFolder::new().unwrap();
    fs::write(folder.path().join("notes.md"), "The key is under the mat.").unwrap();
    fs::write(folder.path().join("reason"), "not these notes").unwrap();
    let file = "hooks: { preToolUse: { command: 'cat reason >&2; exit 2', timeoutMs: 60000 } }";
    let (builder, _) = configured(&folder, file, calling("read", r#"{"path":"notes.md"}"#));
    let agent = builder.workspace(folder.path()).build().await.unwrap();
    let result = result_of_call(&agent).await;
    assert!(result.contains("not these notes") && !result.contains("under the mat"), "{result}");
}

#[tokio::test]
async fn a_hook_without_a_workspace_runs_in_an_empty_folder() {
    let folder = TemporaryFolder::new().unwrap();
    // Exit code 1 would mean that the hook failed, and the message would be taken.
    let line = "touch mark || exit 1; echo \"files: $(ls)\" >&2; exit 2";
    let file = format!("hooks:\n  userPromptSubmit:\n    command: '{line}'\n    timeoutMs: 60000\n");
    let (builder, _) = configured(&folder, &file, ModelScript::always("Hello!"));
    let agent = builder.build().await.unwrap();
    let refused = agent.session().await.unwrap().turn("Hi").await.err().unwrap();
    assert!(matches!(&refused, SessionError::Refused(why) if why == "files: mark"), "{refused}");
    let root = agent.agent().workspace.root().to_owned();
    assert!(root.join("mark").is_file() && !folder.path().join("mark").exists());
}

#[tokio::test]
async fn of_two_hooks_before_a_compaction_the_later_one_holds() {
    let file = "hooks: { preCompact: { url: 'http://127.0.0.1:9/', timeoutMs: 700 } }";
    let folder = TemporaryFolder::new().unwrap();
    let (builder, _) = configured(&folder, file, ModelScript::always("Hello!"));
    let agent = builder.on_pre_compact(|_| async { PreCompactDecision::Proceed }).build_agent().await;
    assert_eq!(agent.unwrap().hooks.pre_compact_deadline(), Some(DEADLINE));
    let earlier = Agent::builder()
        .on_pre_compact(|_| async { PreCompactDecision::Proceed })
        .from_config(folder.path().join("longhaul.yml"))
        .unwrap()
        .provider(ScriptedProvider::new(ModelScript::always("Hello!")));
    let hooks = earlier.build_agent().await.unwrap().hooks;
    assert_eq!(hooks.pre_compact_deadline(), Some(Duration::from_millis(700)));
    assert!(hooks.has(HookEvent::PreCompact) && !hooks.has(HookEvent::PreToolUse));
}

#[tokio::test]
async fn tools_do_not_change_the_file() {
    let folder = TemporaryFolder::new().unwrap();
    let file = "approvals: { rules: [{ tool: write, decision: allow }] }";
    let write = calling("write", r#"{"path":"longhaul.yml","content":"hooks: {}"}"#);
    let (builder, _) = configured(&folder, file, write);
    let agent = builder.workspace(folder.path()).build().await.unwrap();
    let result = result_of_call(&agent).await;
    assert!(result.contains("`longhaul.yml` is the agent file in use"), "{result}");
    assert_eq!(fs::read_to_string(folder.path().join("longhaul.yml")).unwrap(), file);
}

/// A file whose server `t` is the script of the tests, and a rule that allows its tool `look`.
fn with_server(python: &str, script: &Path, mode: &str) -> String {
    format!(
        "mcpServers:\n  t:\n    command: {python}\n    args: ['{}', {mode}]\n    tools: {{ allow: [look] }}\n\
         approvals: {{ rules: [{{ tool: t__look, decision: allow }}] }}\n",
        script.display()
    )
}

#[tokio::test]
async fn a_server_of_the_file_brings_its_tools() {
    let Some(python) = python("a_server_of_the_file_brings_its_tools") else { return };
    let folder = TemporaryFolder::new().unwrap();
    fs::copy(SCRIPT, folder.path().join("server.py")).unwrap();
    let file = with_server(python, Path::new("server.py"), "plain");
    let (builder, model) = configured(&folder, &file, calling("t__look", "{}"));
    let weather = tool_fn("weather", "Tells the weather", |_: super::tools::Nothing, _| async { "Sunny." });
    let agent = builder.tool(weather).workspace(folder.path()).build().await.unwrap();
    assert_eq!(result_of_call(&agent).await, "seen");
    let expected = ["read", "bash", "edit", "write", "grep", "glob", "ls", "weather", "t__look", "pin"];
    assert_eq!(offered(&model.log()[0]), expected);
}

#[tokio::test]
async fn a_server_needs_no_workspace() {
    let Some(python) = python("a_server_needs_no_workspace") else { return };
    let (folder, programs) = (TemporaryFolder::new().unwrap(), TemporaryFolder::new().unwrap());
    let script = programs.path().join("server.py");
    fs::copy(SCRIPT, &script).unwrap();
    let file = with_server(python, &script, "plain");
    let (builder, model) = configured(&folder, &file, calling("t__look", "{}"));
    // A confined program can read the folders of `PATH`.
    let path = format!("/usr/bin:/bin:{}", programs.path().display());
    let agent = builder.child_environment([(OsString::from("PATH"), path.into())]).build().await.unwrap();
    assert_eq!(result_of_call(&agent).await, "seen");
    assert_eq!(offered(&model.log()[0]), ["t__look", "pin"], "the workspace alone brings the built-in tools");
}

#[tokio::test]
async fn a_server_that_does_not_start_is_an_error_with_a_way_out() {
    let Some(python) = python("a_server_that_does_not_start_is_an_error_with_a_way_out") else { return };
    let folder = TemporaryFolder::new().unwrap();
    fs::copy(SCRIPT, folder.path().join("server.py")).unwrap();
    let file = with_server(python, Path::new("server.py"), "broken");
    let (builder, _) = configured(&folder, &file, ModelScript::always("Hello!"));
    let error = builder.workspace(folder.path()).build().await.err().unwrap();
    assert!(matches!(error, BuildError::McpServers(_)), "{error}");
    let told = error.to_string();
    for expected in
        ["`mcpServers`", "`t` could not be started", "exit code 7", "no licence found", "`optional: true`"]
    {
        assert!(told.contains(expected), "{expected}: {told}");
    }
}

#[tokio::test]
async fn an_optional_server_that_never_answers_is_waited_for_no_longer_than_its_timeout() {
    let folder = TemporaryFolder::new().unwrap();
    let file = "mcpServers: { t: { command: /bin/sh, args: ['-c', 'exec sleep 600'], optional: true, timeoutMs: 700 } }";
    let (builder, _) = configured(&folder, file, ModelScript::always("Hello!"));
    let begun = Instant::now();
    let agent = builder.workspace(folder.path()).build().await.unwrap();
    assert!(begun.elapsed() < Duration::from_secs(20), "it was waited for longer");
    assert!(agent.agent().tools.specs().iter().all(|spec| spec.source != "t"));
    agent.session().await.unwrap().turn("Hi").await.unwrap().finish().await.unwrap();
}
