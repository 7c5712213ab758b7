//! Hooks where they are asked: around tools, and on messages.

use std::future::ready;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use longhaul::agent::Agent;
use longhaul::hooks::{ClosureHook, CommandHook, HookEvent, HookSet};
use longhaul::session::{CancelPoint, NewMessage, SessionError};
use longhaul::testing::TemporaryFolder;
use longhaul_core::error::ErrorCode;
use longhaul_core::event::RunEnd;
use longhaul_core::message::{Part, ToolStatus};
use longhaul_core::run::{RunStatus, ToolApproval};
use longhaul_providers::scripted::{ModelScript, ScriptedAnswer, ScriptedProvider};
use longhaul_testkit::{TestSession, WAITING_COMMAND};
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(60);

struct HookedSession {
    test: TestSession,
    asks: Arc<Mutex<Vec<Value>>>,
}

/// A session whose model makes these calls, one a step, and whose hooks all give that answer.
async fn world(calls: &[(&str, &str)], answer: Value, change: impl FnOnce(&mut Agent)) -> HookedSession {
    let asks: Arc<Mutex<Vec<Value>>> = Arc::default();
    let seen = Arc::clone(&asks);
    let hook = Arc::new(ClosureHook::new(move |ask| {
        seen.lock().unwrap().push(ask);
        ready(Ok(answer.clone()))
    }));
    let hooks = HookSet::new()
        .with(HookEvent::PreToolUse, hook.clone(), PATIENCE)
        .with(HookEvent::PostToolUse, hook.clone(), PATIENCE)
        .with(HookEvent::UserPromptSubmit, hook, PATIENCE);
    let calls = calls.iter().map(|(name, args)| ScriptedAnswer::text("Working.").call(*name, *args));
    let script = ModelScript::turns(calls.chain([ScriptedAnswer::text("Done.")]).collect::<Vec<_>>());
    let prepare = |agent: &mut Agent, _: &TemporaryFolder| {
        agent.hooks = hooks;
        change(agent);
    };
    HookedSession { test: TestSession::with_agent(ScriptedProvider::new(script), prepare).await, asks }
}

impl HookedSession {
    /// What was asked at one event.
    fn asked(&self, hook: &str) -> Vec<Value> {
        self.asks.lock().unwrap().iter().filter(|ask| ask["hook"] == hook).cloned().collect()
    }

    async fn run(&self) {
        assert_eq!(self.test.session.ask("go").await.unwrap().end, Some(RunEnd::Stop));
    }
}

fn texts(parts: &[Part]) -> Vec<&str> {
    parts.iter().filter_map(Part::as_text).collect()
}

const WRITE: (&str, &str) = ("write", r#"{"path":"one.txt","content":"x"}"#);

#[tokio::test]
async fn a_denied_tool_does_not_run_and_the_model_is_told_why() {
    let answer = json!({ "decision": "deny", "reason": "no files today" });
    let world = world(&[WRITE], answer, |_| {}).await;
    world.run().await;
    assert!(!world.test.folder.path().join("one.txt").exists());
    let [result] = world.test.tool_results().await.try_into().unwrap();
    assert_eq!(result.status, ToolStatus::Error);
    let told = "Error: the call was denied by the preToolUse hook and did not run: no files today";
    assert_eq!(texts(&result.content), [told]);
    let [ask] = world.asked("preToolUse").try_into().unwrap();
    assert_eq!(ask["args"], json!({ "path": "one.txt", "content": "x" }));
    assert_eq!((&ask["toolName"], &ask["callId"]), (&json!("write"), &json!(result.call_id)));
    assert_eq!(ask["sessionId"], json!(world.test.session.id()));
    assert!(world.asked("postToolUse").is_empty(), "nothing ran");
}

#[tokio::test]
async fn a_hook_that_allows_does_not_overrule_a_rule_that_denies() {
    let denies = |agent: &mut Agent| {
        let deny = ToolApproval::Deny("a rule of the house".to_owned());
        agent.rules.approvals.insert("write".to_owned(), deny);
    };
    let world = world(&[WRITE], json!({ "decision": "allow" }), denies).await;
    world.run().await;
    assert!(!world.test.folder.path().join("one.txt").exists());
    assert!(texts(&world.test.tool_results().await[0].content)[0].contains("a rule of the house"));
}

#[tokio::test]
async fn a_hook_replaces_the_arguments_that_a_tool_runs_with() {
    let answer = json!({ "args": { "path": "other.txt", "content": "y" } });
    let world = world(&[WRITE], answer, |_| {}).await;
    world.run().await;
    assert!(!world.test.folder.path().join("one.txt").exists());
    assert_eq!(std::fs::read_to_string(world.test.folder.path().join("other.txt")).unwrap(), "y");
    let [after] = world.asked("postToolUse").try_into().unwrap();
    assert_eq!(after["args"], json!({ "path": "other.txt", "content": "y" }));
    // The log keeps what the model wrote.
    let calls: Vec<_> = world.test.messages().await.into_iter().flat_map(|message| message.parts).collect();
    let written = calls.iter().find_map(|part| match part {
        Part::ToolCall(call) => Some(call.arguments.clone()),
        _ => None,
    });
    assert_eq!(written.as_deref(), Some(WRITE.1));
}

#[tokio::test]
async fn recall_passes_the_hooks_like_every_tool() {
    let world = world(&[("recall", r#"{"handle":"e1"}"#)], json!({ "decision": "deny" }), |_| {}).await;
    world.run().await;
    assert!(texts(&world.test.tool_results().await[0].content)[0].contains("denied by the preToolUse hook"));
}

#[tokio::test]
async fn a_hook_hears_the_result_and_adds_to_what_the_model_sees() {
    let bash = ("bash", r#"{"command":"echo out; exit 3"}"#);
    let world = world(&[bash], json!({ "addedContext": "the linter is unhappy" }), |_| {}).await;
    world.run().await;
    let [ask] = world.asked("postToolUse").try_into().unwrap();
    assert_eq!((&ask["success"], &ask["result"]), (&json!(false), &json!("out\n[exit code 3]")));
    let [result] = world.test.tool_results().await.try_into().unwrap();
    assert_eq!(texts(&result.content), ["out\n[exit code 3]", "\n[postToolUse hook]\nthe linter is unhappy"]);
    assert_eq!(result.status, ToolStatus::Error, "it stays what it was");
}

#[tokio::test]
async fn what_a_hook_adds_and_the_result_stay_within_the_limit_together() {
    for (words, all) in [("mind the gap".repeat(20), true), ("x".repeat(50_000), false)] {
        let bash = ("bash", r#"{"command":"seq 100000"}"#);
        let limits = |agent: &mut Agent| {
            agent.rules.max_output_chars.insert("bash".to_owned(), 3_000);
        };
        let world = world(&[bash], json!({ "addedContext": words }), limits).await;
        world.run().await;
        let [result] = world.test.tool_results().await.try_into().unwrap();
        let shown = texts(&result.content);
        let chars: usize = shown.iter().map(|text| text.chars().count()).sum();
        assert!((2_000..=3_000).contains(&chars), "{chars}");
        assert!(shown[0].contains("[exit code 0]") && shown[1].starts_with("\n[postToolUse hook]\n"));
        assert_eq!(shown[1].ends_with(&words), all);
        assert_eq!(shown[1].contains("characters are left out]"), !all);
        // A hook is told of all of it, not of what the model is shown.
        let heard = world.asked("postToolUse")[0]["result"].as_str().unwrap().len();
        assert!(heard > 500_000, "{heard}");
    }
}

#[tokio::test]
async fn a_cancel_does_not_wait_for_a_hook() {
    let never: Arc<ClosureHook<_>> = Arc::new(ClosureHook::new(|_| std::future::pending()));
    for event in [HookEvent::PreToolUse, HookEvent::PostToolUse] {
        let hooks = HookSet::new().with(event, never.clone(), PATIENCE * 60);
        let world = world(&[WRITE], json!({}), |agent| agent.hooks = hooks).await;
        world.test.session.send(vec![Part::text("go")]).await.unwrap();
        world.test.wait_for_status(RunStatus::ExecutingTools).await;
        let written = world.test.folder.path().join("one.txt");
        while event == HookEvent::PostToolUse && !written.exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let met = tokio::time::timeout(PATIENCE, world.test.session.cancel(false)).await.unwrap().unwrap();
        assert_eq!(met, CancelPoint::ToolsInProgress);
        assert_eq!(written.exists(), event == HookEvent::PostToolUse);
        let [result] = world.test.tool_results().await.try_into().unwrap();
        let expected =
            if event == HookEvent::PreToolUse { ToolStatus::Cancelled } else { ToolStatus::Completed };
        assert_eq!(result.status, expected);
    }
}

#[tokio::test]
async fn a_blocked_message_is_refused_and_nothing_is_queued() {
    let world = world(&[], json!({ "block": true, "reason": "it names a customer" }), |_| {}).await;
    let mut watch = world.test.session.watch();
    let refused = world.test.session.send(vec![Part::text("hello")]).await.unwrap_err();
    assert_eq!(refused, SessionError::Refused("it names a customer".to_owned()));
    // Nor where it is left for a session that another process has.
    let left = world.test.runtime.leave_message(world.test.session.id(), NewMessage::text("hello")).await;
    assert_eq!(left.unwrap_err(), refused);
    assert_eq!(refused.code(), ErrorCode::Refused);
    let words = "the message was refused by the userPromptSubmit hook: it names a customer";
    assert_eq!(refused.to_string(), words);
    let keyed = world.test.session.send_keyed(vec![Part::text("hello")], Some("k".to_owned())).await;
    assert!(matches!(keyed, Err(SessionError::Refused(_))));
    assert!(world.test.session.queue().await.unwrap().is_empty());
    assert!(world.test.messages().await.is_empty());
    assert_eq!(*world.test.session.status().borrow(), RunStatus::Idle, "it never looked busy");
    assert!(futures_util::FutureExt::now_or_never(watch.recv()).is_none(), "nothing is announced");
}

#[tokio::test]
async fn a_hook_adds_a_text_behind_a_message() {
    let world = world(&[], json!({ "addedContext": "it is Monday" }), |_| {}).await;
    world.test.session.send_keyed(vec![Part::text("hello"), Part::text("there")], None).await.unwrap();
    world.test.session.settled().await.unwrap();
    let first = world.test.messages().await.remove(0);
    assert_eq!(texts(&first.parts), ["hello", "there", "\n[userPromptSubmit hook]\nit is Monday"]);
    let [ask] = world.asked("userPromptSubmit").try_into().unwrap();
    assert_eq!(ask["prompt"], "hello\nthere");
}

#[tokio::test]
async fn messages_that_wait_and_changes_of_them_pass_the_hook() {
    let refuses = |ask: Value| {
        let bad = ask["prompt"].as_str().unwrap().contains("bad");
        ready(Ok(json!({ "block": bad })))
    };
    let hooks =
        HookSet::new().with(HookEvent::UserPromptSubmit, Arc::new(ClosureHook::new(refuses)), PATIENCE);
    let world = world(&[("bash", WAITING_COMMAND)], json!({}), |agent| agent.hooks = hooks).await;
    world.test.session.send(vec![Part::text("go")]).await.unwrap();
    world.test.wait_for_status(RunStatus::ExecutingTools).await;
    let sent = world.test.session.send(vec![Part::text("good")]).await.unwrap();
    assert!(sent.queued);
    assert!(world.test.session.send(vec![Part::text("bad")]).await.is_err());
    let changed = world.test.session.edit_queued(sent.id.clone(), vec![Part::text("bad")]).await;
    assert_eq!(changed, Err(SessionError::Refused(String::new())));
    let waiting = world.test.session.queue().await.unwrap();
    assert_eq!((waiting.len(), texts(&waiting[0].parts)), (1, vec!["good"]));
    world.test.session.edit_queued(sent.id, vec![Part::text("better")]).await.unwrap();
    world.test.end_waiting_command();
    world.test.session.settled().await.unwrap();
    assert!(world.test.messages().await.iter().any(|message| texts(&message.parts).contains(&"better")));
}

#[tokio::test]
async fn a_command_guards_a_tool() {
    let world = world(&[WRITE, ("ls", "{}")], json!({}), |agent| {
        let guard = r#"if grep -q '"toolName":"write"'; then echo "read only, please" >&2; exit 2; fi"#;
        let hook = CommandHook::new(guard, agent.workspace.root(), Arc::clone(&agent.sandbox));
        agent.hooks = HookSet::new().with(HookEvent::PreToolUse, Arc::new(hook), PATIENCE);
    })
    .await;
    world.run().await;
    let results = world.test.tool_results().await;
    let statuses: Vec<ToolStatus> = results.iter().map(|result| result.status).collect();
    assert_eq!(statuses, [ToolStatus::Error, ToolStatus::Completed]);
    assert!(texts(&results[0].content)[0].ends_with("read only, please"));
}
