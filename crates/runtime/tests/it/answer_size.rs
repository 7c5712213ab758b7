//! Answers that ask for more than anybody runs, from a provider that does not bound them itself.

use std::sync::Arc;

use longhaul::session::Runtime;
use longhaul::testing::{self, TemporaryFolder};
use longhaul_core::error::ErrorCode;
use longhaul_core::event::{EventBody, RunEnd};
use longhaul_core::message::Part;
use longhaul_providers::scripted::{ModelScript, ScriptedAnswer, ScriptedProvider};
use longhaul_store::{BlobStore, MemoryStore};
use longhaul_wire::MAX_TOOL_CALLS;

#[tokio::test]
async fn none_of_too_many_tools_runs_and_the_session_goes_on() {
    let folder = TemporaryFolder::new().unwrap();
    let flood = (0..=MAX_TOOL_CALLS).fold(ScriptedAnswer::text("Busy."), |answer, _| {
        answer.call("write", r#"{"path":"ran","content":"x"}"#)
    });
    let model =
        Arc::new(ScriptedProvider::new(ModelScript::turns([flood, ScriptedAnswer::text("One at a time.")])));
    let agent = testing::agent(model.clone(), &folder).await.unwrap();
    let runtime = Runtime::new(agent, Arc::new(MemoryStore::new()), BlobStore::in_memory(64 << 20));
    let session = runtime.create(None).await.unwrap();
    let settled = session.ask("do it all").await.unwrap();
    let error = settled.error.unwrap();
    assert_eq!((settled.end, error.code), (Some(RunEnd::Error), ErrorCode::ThirdParty));
    assert!(error.message.contains("more than 128 tools"), "{}", error.message);
    assert!(!folder.path().join("ran").exists(), "a tool ran");
    let log = runtime.log(session.id()).await.unwrap();
    let kept = log.iter().map(|event| match &event.body {
        EventBody::AssistantAdded { message, .. } => {
            message.parts.iter().filter(|part| matches!(part, Part::ToolCall(_))).count()
        }
        _ => 0,
    });
    assert!(kept.sum::<usize>() <= MAX_TOOL_CALLS, "the log holds no more than the limit");
    assert_eq!(session.ask("once more").await.unwrap().end, Some(RunEnd::Stop));
}
