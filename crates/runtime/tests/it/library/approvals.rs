//! Approvals: who decides about a tool call, and that nobody waits for one without end.

use std::time::Duration;

use longhaul::core::message::ToolStatus;
use longhaul::hooks::ApprovalHandler;
use longhaul::prelude::*;
use longhaul::testing::TemporaryFolder;

use super::{scripted, whole_turn};

fn writes() -> ModelScript {
    ModelScript::turns([
        ScriptedAnswer::calling("write", r#"{"path":"a.txt","content":"hello"}"#),
        ScriptedAnswer::text("Done."),
    ])
}

/// How a call of `write` ends, what the model reads of it, and whether the file is there.
async fn written_by(change: impl FnOnce(AgentBuilder) -> AgentBuilder) -> (ToolStatus, String, bool) {
    let folder = TemporaryFolder::new().unwrap();
    let agent = change(scripted(writes()).0.workspace(folder.path())).build().await.unwrap();
    let (events, output) = whole_turn(&agent.session().await.unwrap(), "Write.").await;
    output.unwrap();
    let result = events.into_iter().find_map(|event| match event {
        SessionEvent::ToolResult { status, content, .. } => {
            Some((status, content.iter().filter_map(Part::as_text).collect::<String>()))
        }
        _ => None,
    });
    let (status, text) = result.unwrap();
    (status, text, folder.path().join("a.txt").exists())
}

fn by(handler: impl ApprovalHandler + 'static) -> impl FnOnce(AgentBuilder) -> AgentBuilder {
    |builder| builder.on_approval(handler)
}

#[tokio::test]
async fn without_a_handler_calls_that_change_something_are_denied() {
    let (status, text, is_there) = written_by(|builder| builder).await;
    assert!(status != ToolStatus::Completed && !is_there, "{status:?}");
    assert!(text.contains("this program approves no tool calls"), "{text}");
}

#[tokio::test]
async fn the_handler_allows_and_denies() {
    let allowed = written_by(by(|request: ApprovalRequest| async move {
        assert_eq!((request.tool_name.as_str(), &request.arguments["path"]), ("write", &"a.txt".into()));
        ApprovalDecision::Allow
    }))
    .await;
    assert_eq!((allowed.0, allowed.2), (ToolStatus::Completed, true), "{}", allowed.1);
    let (status, text, is_there) =
        written_by(by(|_: ApprovalRequest| async { ApprovalDecision::deny("not on Sundays") })).await;
    assert!(status != ToolStatus::Completed && !is_there);
    assert!(text.contains("not on Sundays"), "{text}");
}

#[tokio::test]
async fn a_handler_that_panics_denies() {
    let (_, text, is_there) = written_by(by(|request: ApprovalRequest| async move {
        assert_eq!(request.tool_name, "read");
        ApprovalDecision::Allow
    }))
    .await;
    assert!(!is_there && text.contains("the approval handler failed"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_never_answers_denies_in_the_end() {
    let asks = tool_fn("ask", "", |_: super::tools::Nothing, _| async { "ran" }).with_approval();
    let script = ModelScript::turns([ScriptedAnswer::calling("ask", "{}"), ScriptedAnswer::text("Done.")]);
    let agent = scripted(script).0.tool(asks).on_approval(|_: ApprovalRequest| std::future::pending());
    let agent = agent.build().await.unwrap();
    let turn = agent.session().await.unwrap().turn("Ask.").await.unwrap();
    let waited = tokio::time::timeout(Duration::from_secs(3_600), turn.finish()).await.unwrap();
    assert_eq!(waited.unwrap().text, "Done.");
}

#[tokio::test]
async fn a_function_needs_approval_only_where_it_says_so() {
    let tool = |name: &str| tool_fn(name, "", |_: super::tools::Nothing, _| async { "ran" });
    let script = ModelScript::turns([
        ScriptedAnswer::calling("free", "{}"),
        ScriptedAnswer::calling("bound", "{}"),
        ScriptedAnswer::calling("reads", "{}"),
        ScriptedAnswer::text("Done."),
    ]);
    let agent = scripted(script)
        .0
        .tool(tool("free"))
        .tool(tool("bound").with_approval())
        .tool(tool("reads").read_only().with_approval());
    let (events, output) = whole_turn(&agent.build().await.unwrap().session().await.unwrap(), "Go.").await;
    output.unwrap();
    let ran = events.iter().filter_map(|event| match event {
        SessionEvent::ToolResult { tool_name, status, .. } => {
            Some((tool_name.as_str(), *status == ToolStatus::Completed))
        }
        _ => None,
    });
    assert_eq!(ran.collect::<Vec<_>>(), [("free", true), ("bound", false), ("reads", false)]);
}

#[tokio::test]
async fn a_person_can_decide_beside_the_handler() {
    let asks = tool_fn("ask", "", |_: super::tools::Nothing, _| async { "ran" }).with_approval();
    let script = ModelScript::turns([ScriptedAnswer::calling("ask", "{}"), ScriptedAnswer::text("Done.")]);
    let agent = scripted(script).0.tool(asks).on_approval(|_: ApprovalRequest| std::future::pending());
    let agent = agent.build().await.unwrap();
    let session = agent.session().await.unwrap();
    let mut turn = session.turn("Ask.").await.unwrap();
    let mut is_allowed = None;
    while let Some(event) = turn.next().await {
        match event.unwrap() {
            SessionEvent::ApprovalRequested { approval_id, .. } => {
                assert!(session.decide(approval_id, true, None).await.unwrap());
            }
            SessionEvent::ApprovalResolved { is_allowed: allowed, .. } => is_allowed = Some(allowed),
            _ => {}
        }
    }
    assert_eq!(is_allowed, Some(true));
    assert_eq!(turn.finish().await.unwrap().text, "Done.");
}
