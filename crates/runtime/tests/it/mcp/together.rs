//! Servers in a session: approval, pictures, long answers, what is sent to the model.

use std::sync::Arc;

use async_trait::async_trait;
use longhaul::agent::Agent;
use longhaul::tools::{Tool, ToolInput, ToolOutput, ToolOutputPart};
use longhaul_core::event::RunEnd;
use longhaul_core::message::{Part, RawJson, ToolResult, ToolSpec, ToolStatus};
use longhaul_core::run::ToolApproval;
use longhaul_providers::scripted::{ModelScript, ScriptedAnswer, ScriptedProvider};
use longhaul_testkit::TestSession;
use serde_json::json;

use super::{McpSession, Place, SCHEMA, alive, python, result_text, script, until};

/// Opens a session with the script's tools, whose model makes these calls, one a step, and stops.
async fn session_with(python: &str, calls: &[(&str, &str)], change: impl FnOnce(&mut Agent)) -> McpSession {
    let turns =
        calls.iter().map(|(tool, arguments)| ScriptedAnswer::text("Calling.").call(*tool, *arguments));
    let turns = ModelScript::turns(turns.chain([ScriptedAnswer::text("Done.")]).collect::<Vec<_>>());
    let model = ScriptedProvider::new(turns);
    McpSession::start(Place::new(), script(python, &["plain"]), model, change).await
}

/// Runs a turn and returns the results of its calls.
async fn run_turn(world: &McpSession) -> Vec<ToolResult> {
    assert_eq!(world.test.session.ask("Go.").await.unwrap().end, Some(RunEnd::Stop));
    assert_eq!(world.test.model.invalid_requests(), 0);
    world.test.tool_results().await
}

#[tokio::test]
async fn a_tool_that_says_it_only_reads_is_asked_about_all_the_same() {
    let Some(python) = python("a_tool_that_says_it_only_reads_is_asked_about_all_the_same") else { return };
    let denied = ToolApproval::Deny("nobody is there".to_owned());
    let world = session_with(python, &[("t__look", "{}"), ("ls", "{}")], |agent| {
        agent.rules.default_approval = denied;
    });
    let results = run_turn(&world.await).await;
    assert!(result_text(&results[0]).contains("nobody is there"), "{results:?}");
    assert_eq!(results[1].status, ToolStatus::Completed, "ours is believed");
    let world = session_with(python, &[("t__look", "{}")], |agent| {
        agent.rules.default_approval = ToolApproval::Deny("nobody is there".to_owned());
        agent.rules.approvals.insert("t__look".to_owned(), ToolApproval::Allow);
    });
    let results = run_turn(&world.await).await;
    assert_eq!((results[0].status, result_text(&results[0]).as_str()), (ToolStatus::Completed, "seen"));
}

#[tokio::test]
async fn the_model_is_sent_the_schema_as_it_came_and_sees_the_picture() {
    let Some(python) = python("the_model_is_sent_the_schema_as_it_came_and_sees_the_picture") else { return };
    let world = session_with(python, &[("t__picture", "{}"), ("t__fail", "{}")], |_| {}).await;
    let results = run_turn(&world).await;
    let [Part::Text(_), Part::Image(image)] = &results[0].content[..] else { panic!("{results:?}") };
    assert_eq!((image.media_type.as_str(), image.width, image.height), ("image/png", Some(1), Some(1)));
    assert_eq!(results[1].status, ToolStatus::Error);
    let requests = world.test.requests();
    let echo = requests[0].tools.iter().find(|spec| spec.name == "t__echo").unwrap();
    assert_eq!(echo.parameters.as_str(), SCHEMA);
    assert!(requests.iter().all(|request| request.tools == requests[0].tools));
}

/// Gives pictures, and is cancelled before they are stored.
struct Pictures;

#[async_trait]
impl Tool for Pictures {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "pictures".to_owned(),
            description: "Pictures.".to_owned(),
            parameters: RawJson(r#"{"type":"object"}"#.to_owned()),
            read_only: true,
            poll: false,
            source: "test".to_owned(),
        }
    }

    async fn run(&self, call: ToolInput) -> ToolOutput {
        call.context.cancel.cancel();
        let picture = |number: u8| ToolOutputPart::Media {
            bytes: vec![number].into(),
            media_type: "image/png".to_owned(),
            name: None,
        };
        ToolOutput { content: (0..40).map(picture).collect(), ..ToolOutput::text("") }
    }
}

#[tokio::test]
async fn a_cancel_ends_the_storing_of_pictures() {
    let script = [ScriptedAnswer::text("Calling.").call("pictures", "{}"), ScriptedAnswer::text("Done.")];
    let model = ScriptedProvider::new(ModelScript::turns(script));
    let add = |agent: &mut Agent, _: &_| agent.tools.add(Arc::new(Pictures)).unwrap();
    let test = TestSession::with_agent(model, add).await;
    test.session.ask("Go.").await.unwrap();
    let result = test.tool_results().await.remove(0);
    let [Part::Image(_), Part::Text(_)] = &result.content[..] else { panic!("{result:?}") };
    assert!(result_text(&result).contains("39 attachments were not stored"), "{result:?}");
}

#[tokio::test]
async fn a_long_answer_is_cut_and_kept_whole() {
    let Some(python) = python("a_long_answer_is_cut_and_kept_whole") else { return };
    let world = session_with(python, &[("t__long", "{}")], |agent| {
        agent.rules.default_max_output_chars = 5_000;
    });
    let world = world.await;
    let results = run_turn(&world).await;
    let sent = world.test.requests().pop().unwrap();
    let shown = sent.messages.iter().flat_map(|message| &message.parts).find_map(|part| match part {
        Part::ToolResult(result) => Some(result_text(result)),
        _ => None,
    });
    let shown = shown.unwrap();
    assert!(shown.contains("[Output truncated - exceeded maximum length]"), "{shown}");
    assert!(shown.starts_with("line 0\n") && shown.contains("line 59999\n"), "{shown}");
    let cut = results[0].truncated.as_ref().unwrap();
    let whole = world.test.runtime.blobs().get(&cut.blob).await.unwrap();
    let lines: String = (0..60_000).map(|number| format!("line {number}\n")).collect();
    assert!(whole == lines.as_bytes(), "{} bytes", whole.len());
}

#[tokio::test]
async fn the_display_has_a_row_for_the_server_and_closing_ends_it() {
    let Some(python) = python("the_display_has_a_row_for_the_server_and_closing_ends_it") else { return };
    let world = session_with(python, &[("t__pid", "{}")], |_| {}).await;
    let results = run_turn(&world).await;
    let report = world.test.session.context().await.unwrap();
    let sources: Vec<&str> = report.tools.iter().map(|share| share.source.as_str()).collect();
    assert_eq!(sources, ["builtin", "t"]);
    let pids = result_text(&results[0]);
    assert!(pids.split(' ').all(alive));
    world.test.runtime.close().await;
    until("the server's end", || !pids.split(' ').any(alive)).await;
}

#[tokio::test]
async fn what_nobody_can_read_is_cut_at_the_source_and_kept_whole() {
    let Some(python) = python("what_nobody_can_read_is_cut_at_the_source_and_kept_whole") else { return };
    let encoded = "seq 20000 | base64";
    let calls = [
        ("bash", json!({ "command": format!("echo before; {encoded}; echo after") })),
        ("bash", json!({ "command": format!("echo before; {encoded} -w 0; echo; echo after") })),
        (
            "bash",
            json!({ "command": r"echo before; yes $'\xff\xfe\x01\x02\x80' | head -n 20000; echo after" }),
        ),
        ("bash", json!({ "command": "echo before; printf 'var a=1;%.0s' $(seq 9000); echo; echo after" })),
        // Arguments are part of an answer, which has a limit.
        ("t__echo", json!({ "text": "var a=1;".repeat(400) })),
    ];
    let calls: Vec<(&str, String)> = calls.iter().map(|(tool, call)| (*tool, call.to_string())).collect();
    let calls: Vec<(&str, &str)> = calls.iter().map(|(tool, call)| (*tool, call.as_str())).collect();
    let world =
        session_with(python, &calls, |agent| agent.rules.default_approval = ToolApproval::Allow).await;
    let results = run_turn(&world).await;
    for (result, (tool, call)) in results.iter().zip(&calls) {
        let shown = result_text(result);
        assert!(shown.chars().count() < 2_500, "{tool} {call}: {} characters", shown.len());
        assert!(shown.contains(" cut"), "{tool} {call}: {shown}");
        // `bash` itself says once what the sign stands for.
        assert!(shown.matches('\u{fffd}').count() < 2, "{tool} {call}: {shown}");
        let truncation = result.truncated.as_ref().unwrap();
        let least = if *tool == "bash" { 50_000 } else { 3_000 };
        assert!(truncation.total_chars > least, "{tool} {call}: {truncation:?}");
        assert_eq!(truncation.omitted_chars, truncation.total_chars - shown.chars().count() as u64);
        if *tool == "bash" {
            assert!(
                shown.starts_with("before\n")
                    && shown.contains("\nafter\n")
                    && shown.ends_with("[exit code 0]"),
                "{call}: {shown}"
            );
        }
    }
    let marked = format!("{:?}", world.test.requests().last().unwrap().messages);
    assert_eq!(marked.matches(longhaul_core::truncate::MARKER).count(), calls.len(), "each has its marker");
}
