//! Answers that ask for more than anybody runs, from a provider that does not bound them itself.

use longhaul_core::error::ErrorCode;
use longhaul_core::event::{EventBody, RunEnd};
use longhaul_core::message::Part;
use longhaul_providers::scripted::{ModelScript, ScriptedAnswer};
use longhaul_testkit::TestSession;
use longhaul_wire::MAX_TOOL_CALLS;

#[tokio::test]
async fn none_of_too_many_tools_runs_and_the_session_goes_on() {
    let flood = (0..=MAX_TOOL_CALLS).fold(ScriptedAnswer::text("Busy."), |answer, _| {
        answer.call("write", r#"{"path":"ran","content":"x"}"#)
    });
    let script = ModelScript::turns([flood, ScriptedAnswer::text("One at a time.")]);
    let test = TestSession::with_script(script).await;
    let settled = test.session.ask("do it all").await.unwrap();
    let error = settled.error.unwrap();
    assert_eq!((settled.end, error.code), (Some(RunEnd::Error), ErrorCode::ThirdParty));
    assert!(error.message.contains("more than 128 tools"), "{}", error.message);
    assert!(!test.folder.path().join("ran").exists(), "a tool ran");
    let log = test.log().await;
    let kept = log.iter().map(|event| match &event.body {
        EventBody::AssistantAdded { message, .. } => {
            message.parts.iter().filter(|part| matches!(part, Part::ToolCall(_))).count()
        }
        _ => 0,
    });
    assert!(kept.sum::<usize>() <= MAX_TOOL_CALLS, "the log holds no more than the limit");
    assert_eq!(test.session.ask("once more").await.unwrap().end, Some(RunEnd::Stop));
}
