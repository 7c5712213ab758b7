//! Many tools of a server in a window that has no room for them: the model finds and calls them through two others, and
//! a user sees the tools themselves.

use std::fs;
use std::sync::{Arc, Mutex};

use longhaul::agent::Agent;
use longhaul::hooks::{ApprovalDecision, ApprovalRequest};
use longhaul_core::estimate::tool_tokens;
use longhaul_core::event::{Event, EventBody, RunEnd};
use longhaul_core::message::{ToolCall, ToolStatus};
use longhaul_core::run::ToolApproval;
use longhaul_providers::ModelRequest;
use longhaul_providers::scripted::{ModelScript, ScriptedAnswer, ScriptedProvider};
use serde_json::{Value, json};

use super::{McpSession, Place, python, result_text, script};

const TOOLS: usize = 120;

/// A window that the tools alone would fill.
const WINDOW: u64 = 32_000;

const CALL: &str = r#"{"name":"t__invoice_create","arguments":{"customer":"ACME","lines":3}}"#;

/// A list of 120 tools that takes about 33,000 tokens, one of which creates invoices.
fn many_tools() -> String {
    let field = |at: usize| {
        let text = format!("Field number {at} of the record, as the back office wants it, in plain words.");
        json!({ "type": "string", "description": text })
    };
    let tool = |at: usize| {
        let fields: serde_json::Map<String, Value> =
            (0..9).map(|field_at| (format!("field_{at}_{field_at}"), field(field_at))).collect();
        let description =
            format!("Works on record {at} of the archive. It reads what is there and writes it anew.");
        json!({
            "name": format!("record_{at:03}"), "description": description,
            "inputSchema": { "type": "object", "properties": fields },
        })
    };
    let mut tools: Vec<Value> = (1..TOOLS).map(tool).collect();
    tools.push(json!({
        "name": "invoice_create", "description": "Creates an invoice for a customer.",
        "inputSchema": {
            "type": "object",
            "properties": { "customer": { "type": "string" }, "lines": { "type": "integer" } },
            "required": ["customer"],
        },
    }));
    Value::Array(tools).to_string()
}

/// Opens a session with the many tools, whose model gives the answers in a window.
async fn session_with(
    test: &str,
    answers: Vec<ScriptedAnswer>,
    window: u64,
    change: impl FnOnce(&mut Agent),
) -> Option<McpSession> {
    session_of_model(test, scripted(answers, window), change).await
}

async fn session_of_model(
    test: &str,
    model: ScriptedProvider,
    change: impl FnOnce(&mut Agent),
) -> Option<McpSession> {
    let (python, place) = (python(test)?, Place::new());
    fs::write(place.path("ws/tools.json"), many_tools()).unwrap();
    let server = script(python, &["listed", "tools.json"]);
    Some(McpSession::start(place, server, model, change).await)
}

fn scripted(answers: Vec<ScriptedAnswer>, window: u64) -> ScriptedProvider {
    ScriptedProvider::new(ModelScript::turns(answers)).window(window)
}

fn says(text: &str) -> ScriptedAnswer {
    ScriptedAnswer::text(text)
}

fn calls(arguments: &str) -> ScriptedAnswer {
    says("Calling.").call("tool_call", arguments)
}

fn names(request: &ModelRequest) -> Vec<&str> {
    request.tools.iter().map(|tool| tool.name.as_str()).collect()
}

fn sent_calls(request: &ModelRequest) -> Vec<(&str, &str)> {
    let calls = request.messages.iter().flat_map(|message| message.tool_calls());
    calls.map(|call| (call.name.as_str(), call.arguments.as_str())).collect()
}

fn made_calls(log: &[Event]) -> Vec<ToolCall> {
    let messages = log.iter().filter_map(|event| match &event.body {
        EventBody::AssistantAdded { message, .. } => Some(message),
        _ => None,
    });
    messages.flat_map(|message| message.tool_calls().cloned().collect::<Vec<_>>()).collect()
}

#[tokio::test]
async fn a_hundred_and_twenty_tools_work_in_a_window_of_32k() {
    let answers = vec![
        says("Which tool?").call("tool_search", r#"{"query":"create an invoice"}"#),
        calls(CALL),
        says("The invoice is there."),
    ];
    let test = "a_hundred_and_twenty_tools_work_in_a_window_of_32k";
    let Some(world) = session_with(test, answers, WINDOW, |_| {}).await else { return };
    let all: u64 = world.tools.iter().map(|tool| tool_tokens(&tool.spec())).sum();
    assert!((31_000..36_000).contains(&all), "{all} tokens of foreign tools");
    let session = &world.test.session;
    assert_eq!(session.ask("Bill ACME.").await.unwrap().end, Some(RunEnd::Stop));
    assert_eq!(world.test.model.invalid_requests(), 0);

    let requests = world.test.requests();
    let told: u64 = requests[0].tools.iter().map(tool_tokens).sum();
    assert!(told < WINDOW / 10, "{told} tokens of {:?}", names(&requests[0]));
    assert!(names(&requests[0]).ends_with(&["tool_search", "tool_call", "pin"]), "{:?}", names(&requests[0]));
    assert!(requests.iter().all(|request| request.tools == requests[0].tools), "the prefix stays cached");

    let results = world.test.tool_results().await;
    assert!(
        result_text(&results[0]).contains(r#""name":"t__invoice_create""#),
        "{}",
        result_text(&results[0])
    );
    assert!(result_text(&results[0]).contains(r#""required":["customer"]"#), "{}", result_text(&results[0]));
    // The server was called by its own name with the model's bytes.
    assert!(
        result_text(&results[1]).contains(r#""arguments":{"customer":"ACME","lines":3}"#),
        "{}",
        result_text(&results[1])
    );

    let made = made_calls(&world.test.log().await);
    assert_eq!(made[1].name, "t__invoice_create", "history has the tool itself");
    assert_eq!(made[1].arguments, r#"{"customer":"ACME","lines":3}"#);
    assert_eq!(sent_calls(&requests[2])[1], ("tool_call", CALL), "a request calls what it lists");

    let context = session.context().await.unwrap();
    assert_eq!(context.deferred_tools, TOOLS as u64);
    assert!(context.tools.iter().all(|share| share.source == "builtin"), "{:?}", context.tools);
}

#[tokio::test]
async fn a_person_is_asked_about_the_tool_itself() {
    let test = "a_person_is_asked_about_the_tool_itself";
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&asked);
    let handler = move |request: ApprovalRequest| {
        seen.lock().unwrap().push((request.tool_name, request.arguments));
        async { ApprovalDecision::deny("not on Sundays") }
    };
    let search = says("Which?").call("tool_search", r#"{"query":"invoice"}"#);
    let answers = vec![search, calls(CALL), says("I may not.")];
    let ask = |agent: &mut Agent| {
        agent.rules.default_approval = ToolApproval::Ask;
        agent.hooks = agent.hooks.clone().with_approval_handler(Arc::new(handler));
    };
    let Some(world) = session_with(test, answers, WINDOW, ask).await else { return };
    let session = &world.test.session;
    session.ask("Bill ACME.").await.unwrap();
    let asked = asked.lock().unwrap().clone();
    assert_eq!(asked, [("t__invoice_create".to_owned(), json!({ "customer": "ACME", "lines": 3 }))]);
    let results = world.test.tool_results().await;
    assert!(result_text(&results[1]).contains("not on Sundays"), "{results:?}");
}

#[tokio::test]
async fn rules_and_limits_are_those_of_the_tool_itself() {
    let test = "rules_and_limits_are_those_of_the_tool_itself";
    let record = |at: usize| {
        format!(r#"{{"name":"t__record_{at:03}","arguments":{{"field_{at}_0":"{}"}}}}"#, "x".repeat(400))
    };
    let answers = vec![calls(&record(1)), calls(&record(2)), says("Done.")];
    let change = |agent: &mut Agent| {
        agent.rules.approvals.insert("t__record_001".to_owned(), ToolApproval::Deny("by rule".to_owned()));
        agent.rules.max_output_chars.insert("t__record_002".to_owned(), 300);
    };
    let Some(world) = session_with(test, answers, WINDOW, change).await else { return };
    let session = &world.test.session;
    session.ask("Go.").await.unwrap();
    let results = world.test.tool_results().await;
    assert!(result_text(&results[0]).contains("by rule"), "{results:?}");
    assert!(results[1].truncated.is_some(), "{results:?}");
}

#[tokio::test]
async fn the_same_call_again_and_again_is_a_loop_of_the_tool_itself() {
    let test = "the_same_call_again_and_again_is_a_loop_of_the_tool_itself";
    let Some(world) =
        session_with(test, vec![calls(r#"{"name":"t__record_001"}"#); 12], WINDOW, |_| {}).await
    else {
        return;
    };
    let session = &world.test.session;
    // What the server answers names the call's number, so that results differ; the loop is one of arguments and result.
    let end = session.ask("Go.").await.unwrap().end;
    let made = made_calls(&world.test.log().await);
    assert!(made.iter().all(|call| call.name == "t__record_001"), "{made:?}");
    assert!(matches!(end, Some(RunEnd::LoopDetected | RunEnd::Error)), "{end:?}");
}

#[tokio::test]
async fn a_call_that_the_schema_does_not_allow_is_not_made_and_nobody_is_asked() {
    let test = "a_call_that_the_schema_does_not_allow_is_not_made_and_nobody_is_asked";
    let answers = vec![
        calls(r#"{"name":"t__invoice_create","arguments":{"lines":"three"}}"#),
        calls(r#"{"name":"invoices","arguments":{}}"#),
        calls(CALL),
        says("Now it is there."),
    ];
    let change = |agent: &mut Agent| {
        agent.rules.default_approval = ToolApproval::Deny("nobody is there".to_owned());
        agent.rules.approvals.insert("t__invoice_create".to_owned(), ToolApproval::Allow);
    };
    let Some(world) = session_with(test, answers, WINDOW, change).await else { return };
    let session = &world.test.session;
    assert_eq!(session.ask("Bill ACME.").await.unwrap().end, Some(RunEnd::Stop));
    let results = world.test.tool_results().await;
    assert!(result_text(&results[0]).contains("`customer` is missing"), "{}", result_text(&results[0]));
    assert!(
        result_text(&results[0]).contains(r#""lines":{"type":"integer"}"#),
        "the schema: {}",
        result_text(&results[0])
    );
    assert!(result_text(&results[1]).contains("no tool named `invoices`"), "{}", result_text(&results[1]));
    assert!(result_text(&results[1]).contains("t__invoice_create"), "{}", result_text(&results[1]));
    assert_eq!(
        results.iter().map(|result| result.status).collect::<Vec<_>>(),
        [ToolStatus::Error, ToolStatus::Error, ToolStatus::Completed]
    );
}

#[tokio::test]
async fn what_was_decided_holds_after_a_restart_in_another_window() {
    let test = "what_was_decided_holds_after_a_restart_in_another_window";
    let Some(world) = session_with(test, vec![says("Hello.")], WINDOW, |_| {}).await else { return };
    let session = &world.test.session;
    session.ask("Hello?").await.unwrap();
    let before = world.test.requests()[0].tools.clone();
    let world = world.restart(scripted(vec![calls(CALL), says("Done."), says("Hi.")], 1_000_000)).await;
    world.test.session.ask("Bill ACME.").await.unwrap();
    assert_eq!(world.test.requests()[0].tools, before, "the prefix of the session stays");
    assert!(result_text(&world.test.tool_results().await[0]).contains("ACME"));
    world.test.runtime.create(None).await.unwrap().ask("Hi?").await.unwrap();
    let new = world.test.requests().pop().unwrap();
    assert!(names(&new).contains(&"t__invoice_create"), "a new session has room for all of them");
}

#[tokio::test]
async fn a_session_that_was_told_of_all_tools_is_told_of_them_while_they_fit() {
    let test = "a_session_that_was_told_of_all_tools_is_told_of_them_while_they_fit";
    let Some(world) = session_with(test, vec![says("Hello.")], 1_000_000, |_| {}).await else { return };
    let session = &world.test.session;
    session.ask("Hello?").await.unwrap();
    let before = world.test.requests()[0].tools.clone();
    assert!(before.len() > TOOLS);
    assert_eq!(session.context().await.unwrap().deferred_tools, 0);
    let world = world.restart(scripted(vec![says("Still here.")], 200_000)).await;
    world.test.session.ask("And now?").await.unwrap();
    assert_eq!(world.test.requests()[0].tools, before);
    let world = world.restart(scripted(vec![says("Here too.")], WINDOW)).await;
    assert_eq!(world.test.session.ask("And now?").await.unwrap().end, Some(RunEnd::Stop));
    assert!(names(&world.test.requests()[0]).contains(&"tool_search"), "they do not fit any more");
}

#[tokio::test]
async fn small_windows_and_models_without_tools_work() {
    let test = "small_windows_and_models_without_tools_work";
    let answers = vec![
        says("Which?").call("tool_search", r#"{"query":"invoice","limit":1}"#),
        calls(CALL),
        says("Done."),
    ];
    let Some(world) = session_with(test, answers, 12_000, |_| {}).await else { return };
    let session = &world.test.session;
    assert_eq!(session.ask("Bill ACME.").await.unwrap().end, Some(RunEnd::Stop));
    let told: u64 = world.test.requests()[0].tools.iter().map(tool_tokens).sum();
    assert!(told < 900, "{told} tokens of tools");
    assert!(result_text(&world.test.tool_results().await[1]).contains("ACME"));

    let without = ScriptedProvider::new(ModelScript::always("Hello.")).window(WINDOW).without_tools();
    let Some(world) = session_of_model(test, without, |_| {}).await else { return };
    let session = &world.test.session;
    session.ask("Hello?").await.unwrap();
    assert_eq!(world.test.requests()[0].tools, []);
    assert_eq!(session.context().await.unwrap().deferred_tools, 0);
}

#[tokio::test]
async fn tools_below_their_share_are_told_of() {
    let test = "tools_below_their_share_are_told_of";
    let above = |agent: &mut Agent| agent.rules.defer_above = 0.2;
    let Some(world) = session_with(test, vec![says("Hello.")], 200_000, above).await else { return };
    world.test.session.ask("Hello?").await.unwrap();
    assert!(world.test.requests()[0].tools.len() > TOOLS);
    let Some(world) = session_with(test, vec![says("Hello.")], 200_000, |_| {}).await else { return };
    world.test.session.ask("Hello?").await.unwrap();
    assert!(names(&world.test.requests()[0]).contains(&"tool_call"), "a tenth by default");
}
