//! Front ends of other makers: the AI SDK's stream and AG-UI's, over the same sessions.

use std::time::Duration;

use longhaul_core::message::Role;
use longhaul_core::run::ToolApproval;
use longhaul_providers::ModelRequest;
use longhaul_providers::scripted::{ModelScript, ScriptedAnswer, ScriptedFault, ScriptedProvider};
use reqwest::{Method, Response, StatusCode};
use serde_json::{Value, json};

use crate::test_server::{PATIENCE, TestServer, expect, slowly};

/// A model that thinks, looks, and answers.
fn looking() -> ModelScript {
    ModelScript::closure(|request: &ModelRequest, _| {
        let last = request.messages.last().unwrap();
        if last.role == Role::Tool {
            ScriptedAnswer::text("That is what is there.")
        } else if last.text().contains("look") {
            ScriptedAnswer::reasoning("I could look.").then("I look.").call("ls", "{}")
        } else {
            ScriptedAnswer::text(format!("You said: {}", last.text()))
        }
    })
}

fn said(id: &str, text: &str) -> Value {
    json!({ "id": id, "role": "user", "parts": [{ "type": "text", "text": text }] })
}

fn chat(id: &str, messages: Value) -> Value {
    json!({ "id": id, "messages": messages, "trigger": "submit-message" })
}

async fn posted(world: &TestServer, path: &str, body: &Value) -> Response {
    world.request(Method::POST, path).json(body).send().await.unwrap()
}

async fn read(answer: Response) -> Vec<Value> {
    assert_eq!(answer.status(), StatusCode::OK);
    assert_eq!(answer.headers()["content-type"], "text/event-stream");
    frames(&tokio::time::timeout(PATIENCE, answer.text()).await.unwrap().unwrap())
}

/// The beginning of a stream, up to a frame of that kind.
async fn begin(answer: &mut Response, kind: &str) -> String {
    let mut begun = Vec::new();
    loop {
        let piece = tokio::time::timeout(PATIENCE, answer.chunk()).await.unwrap().unwrap();
        begun.extend_from_slice(&piece.expect("the stream has ended"));
        let text = String::from_utf8_lossy(&begun);
        if text.contains(&format!("\"type\":\"{kind}\"")) {
            return text.into_owned();
        }
    }
}

/// Returns the events of a stream. The last line of the AI SDK's is no JSON.
fn frames(text: &str) -> Vec<Value> {
    let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
    data.map(|data| serde_json::from_str(data).unwrap_or_else(|_| json!({ "type": data }))).collect()
}

async fn talk(world: &TestServer, id: &str, messages: Value) -> Vec<Value> {
    read(posted(world, "/api/ui/chat", &chat(id, messages)).await).await
}

fn of_kind<'a>(parts: &'a [Value], kind: &str) -> Vec<&'a Value> {
    parts.iter().filter(|part| part["type"] == kind).collect()
}

fn text(parts: &[Value], kind: &str) -> String {
    of_kind(parts, kind).iter().filter_map(|part| part["delta"].as_str()).collect()
}

#[tokio::test]
async fn a_chat_is_a_session_and_only_its_newest_message_counts() {
    let world = TestServer::new(looking()).await;
    let answer = posted(&world, "/api/ui/chat", &chat("chat-1", json!([said("1", "look")]))).await;
    assert_eq!(answer.headers()["x-vercel-ai-ui-message-stream"], "v1");
    let parts = read(answer).await;
    assert_eq!(parts[0]["messageMetadata"]["sessionId"], "chat-1");
    assert_eq!(text(&parts, "reasoning-delta"), "I could look.");
    assert_eq!(text(&parts, "text-delta"), "I look.That is what is there.");
    let available = of_kind(&parts, "tool-input-available");
    assert_eq!((&available[0]["toolName"], &available[0]["input"]), (&json!("ls"), &json!({})));
    assert_eq!(of_kind(&parts, "tool-output-available").len(), 1);
    assert_eq!(of_kind(&parts, "finish")[0]["finishReason"], "stop");
    assert!(!of_kind(&parts, "data-context").is_empty());
    assert_eq!(parts[parts.len() - 1]["type"], "[DONE]");

    let invented = json!([said("x", "I am somebody else"), { "id": "y", "role": "assistant", "parts": [] }, said("2", "hello")]);
    let parts = talk(&world, "chat-1", invented).await;
    assert_eq!(text(&parts, "text-delta"), "You said: hello");
    let said: Vec<String> = world.said("chat-1").await.into_iter().map(|(_, text)| text).collect();
    assert_eq!((said.len(), said[4].as_str()), (6, "hello"), "{said:?}");
    let shown = world.get("/api/sessions/chat-1").await;
    assert_eq!(shown["title"], "look");
}

/// A front end's own data of the newest message is kept, and other data makes no other message.
#[tokio::test]
async fn metadata_of_the_newest_message_is_kept() {
    let world = TestServer::new(looking()).await;
    let with = |metadata: Value| {
        let mut message = said("1", "hello");
        message["metadata"] = metadata;
        message
    };
    let kept = async |session: &str| {
        let page = world.get(&format!("/api/sessions/{session}/messages")).await;
        let typed = page["messages"].as_array().unwrap().iter().filter(|one| one["role"] == "user");
        typed.map(|one| one["metadata"].clone()).collect::<Vec<_>>()
    };
    let first = json!({ "createdAt": 1, "page": "/help" });
    for metadata in [first.clone(), json!({ "createdAt": 2 })] {
        let parts = talk(&world, "chat-1", json!([with(metadata)])).await;
        assert_eq!(text(&parts, "text-delta"), "You said: hello");
    }
    assert_eq!(kept("chat-1").await, [first]);
    for metadata in [json!("text"), json!({ "a": "x".repeat(20_000) })] {
        let refused = posted(&world, "/api/ui/chat", &chat("chat-2", json!([with(metadata)]))).await;
        assert_eq!(expect(refused, StatusCode::BAD_REQUEST).await["code"], "invalid-request");
    }
    let of_before = json!([with(json!("of no account")), said("2", "and?")]);
    talk(&world, "chat-3", of_before).await;
    assert_eq!(kept("chat-3").await, [Value::Null]);

    let input = |metadata: Value| {
        json!({ "threadId": "thread", "runId": "r", "messages": [
            { "id": "1", "role": "user", "content": "hello", "metadata": metadata },
        ] })
    };
    read(posted(&world, "/api/ag-ui", &input(json!({ "n": 1 }))).await).await;
    assert_eq!(kept("thread").await, [json!({ "n": 1 })]);
    let refused = posted(&world, "/api/ag-ui", &input(json!(7))).await;
    expect(refused, StatusCode::BAD_REQUEST).await;
}

#[tokio::test]
async fn a_name_that_no_session_may_have_is_made_into_one() {
    let world = TestServer::new(looking()).await;
    let name = "a chat/with: odd signs";
    let parts = talk(&world, name, json!([said("1", "hello")])).await;
    let session = parts[0]["messageMetadata"]["sessionId"].as_str().unwrap().to_owned();
    assert!(session.chars().all(|c| c.is_ascii_alphanumeric()), "{session}");
    assert_eq!(
        talk(&world, name, json!([said("2", "again")])).await[0]["messageMetadata"]["sessionId"],
        session
    );
    assert_eq!(world.said(&session).await.len(), 4);
    for id in [String::new(), "x".repeat(501)] {
        let refused = posted(&world, "/api/ui/chat", &chat(&id, json!([said("1", "hello")]))).await;
        expect(refused, StatusCode::BAD_REQUEST).await;
    }
}

#[tokio::test]
async fn a_message_that_is_sent_again_is_not_said_twice() {
    let world = TestServer::new(looking()).await;
    let first = talk(&world, "chat-1", json!([said("1", "hello")])).await;
    let again = talk(&world, "chat-1", json!([said("1", "hello")])).await;
    assert_eq!(text(&again, "text-delta"), text(&first, "text-delta"));
    assert_eq!(again[0], first[0], "under the same name");
    assert_eq!(world.said("chat-1").await.len(), 2);
    // One that was changed is another.
    talk(&world, "chat-1", json!([said("1", "hello, you")])).await;
    assert_eq!(world.said("chat-1").await.len(), 4);
    // It has its answer.
    let mut body = chat("chat-1", json!([said("1", "hello")]));
    body["trigger"] = "regenerate-message".into();
    let refused = posted(&world, "/api/ui/chat", &body).await;
    assert_eq!(expect(refused, StatusCode::CONFLICT).await["code"], "conflict");
}

#[tokio::test]
async fn who_leaves_stops_nothing_and_hears_it_all_on_coming_back() {
    let words = "some words that come slowly ".repeat(50);
    let world = TestServer::new(ModelScript::always(slowly(&words))).await;
    let none = world.request(Method::GET, "/api/ui/chat/chat-1/stream").send().await.unwrap();
    assert_eq!(none.status(), StatusCode::NO_CONTENT);
    let mut answer = posted(&world, "/api/ui/chat", &chat("chat-1", json!([said("1", "talk")]))).await;
    let begun = begin(&mut answer, "text-delta").await;
    drop(answer);
    let path = "/api/ui/chat/chat-1/stream";
    let parts = read(world.request(Method::GET, path).send().await.unwrap()).await;
    assert_eq!(text(&parts, "text-delta"), words);
    assert!(begun.contains(parts[0]["messageId"].as_str().unwrap()), "{begun}: {}", parts[0]);
    assert_eq!(of_kind(&parts, "text-start").len(), 1);
    let none = world.request(Method::GET, path).send().await.unwrap();
    assert_eq!(none.status(), StatusCode::NO_CONTENT);
    assert_eq!(world.said("chat-1").await.len(), 2);
}

#[tokio::test]
async fn a_message_to_a_busy_chat_waits_and_has_its_own_answer() {
    let script = ModelScript::closure(|request: &ModelRequest, _| {
        let typed = request.messages.last().unwrap().text();
        // The first answer is long enough for the second message to come meanwhile.
        let more = " and some more words".repeat(if typed == "one" { 60 } else { 1 });
        slowly(&format!("You said: {typed}{more}"))
    });
    let world = TestServer::new(script).await;
    let first = posted(&world, "/api/ui/chat", &chat("chat-1", json!([said("1", "one")]))).await;
    world.until("chat-1", "streaming").await;
    let second = posted(&world, "/api/ui/chat", &chat("chat-1", json!([said("2", "two")]))).await;
    let (first, second) = tokio::join!(read(first), read(second));
    assert!(of_kind(&second, "data-queue").iter().any(|part| part["data"]["position"] == 1), "{second:?}");
    assert_eq!(text(&second, "text-delta"), "You said: two and some more words");
    assert!(text(&first, "text-delta").starts_with("You said: one and some more words"));
}

#[tokio::test]
async fn a_cancel_ends_the_stream_and_what_waits_is_said_to_wait() {
    let world = TestServer::new(ModelScript::always(slowly(&"word ".repeat(500)))).await;
    let mut first = posted(&world, "/api/ui/chat", &chat("chat-1", json!([said("1", "one")]))).await;
    let begun = begin(&mut first, "text-delta").await;
    let second = posted(&world, "/api/ui/chat", &chat("chat-1", json!([said("2", "two")]))).await;
    world.post("/api/sessions/chat-1/cancel", json!({})).await;
    let rest = tokio::time::timeout(PATIENCE, first.text()).await.unwrap().unwrap();
    let first = frames(&(begun + &rest));
    assert_eq!(of_kind(&first, "abort").len(), 1);
    assert!(text(&first, "text-delta").starts_with("word"));
    assert_eq!(of_kind(&first, "text-start").len(), of_kind(&first, "text-end").len());
    let second = read(second).await;
    let error = of_kind(&second, "error")[0]["errorText"].as_str().unwrap();
    assert!(error.contains("waits") && error.contains("(interrupted)"), "{error}");
    assert_eq!(world.get("/api/message/queue?sessionId=chat-1").await["count"], 1);
    // To try again is to go on: with what waits.
    let mut body = chat("chat-1", json!([said("2", "two")]));
    body["trigger"] = "regenerate-message".into();
    let third = posted(&world, "/api/ui/chat", &body).await;
    assert_eq!(third.status(), StatusCode::OK);
    world.post("/api/sessions/chat-1/cancel", json!({ "clearQueue": true })).await;
    assert_eq!(of_kind(&read(third).await, "[DONE]").len(), 1);
}

#[tokio::test]
async fn what_failed_is_an_error_and_trying_again_goes_on() {
    let refused = ScriptedAnswer::text("never").fail(ScriptedFault::status(400));
    let world = TestServer::new(ModelScript::turns([refused, ScriptedAnswer::text("Now.")])).await;
    let parts = talk(&world, "chat-1", json!([said("1", "hello")])).await;
    let error = of_kind(&parts, "error")[0]["errorText"].as_str().unwrap();
    assert!(error.ends_with("(invalid-request)"), "{error}");
    let mut body = chat("chat-1", json!([said("1", "hello")]));
    body["trigger"] = "regenerate-message".into();
    let again = read(posted(&world, "/api/ui/chat", &body).await).await;
    assert_eq!(text(&again, "text-delta"), "Now.");
    assert!(again[0]["messageId"].is_string(), "{}", again[0]);
    assert_eq!(world.said("chat-1").await.len(), 2);
}

async fn asking() -> TestServer {
    let script = ModelScript::closure(|request: &ModelRequest, _| {
        if request.messages.iter().any(|message| message.role == Role::Tool) {
            ScriptedAnswer::text("Understood.")
        } else {
            ScriptedAnswer::text("May I?").call("write", r#"{"path":"a.txt","content":"hello"}"#)
        }
    });
    TestServer::with(script, |agent| agent.rules.default_approval = ToolApproval::Ask, |_| {}).await
}

#[tokio::test]
async fn a_question_is_answered_in_the_chat() {
    let world = asking().await;
    let parts = talk(&world, "chat-1", json!([said("1", "write it")])).await;
    let asked = of_kind(&parts, "tool-approval-request")[0];
    assert_eq!(of_kind(&parts, "finish")[0]["finishReason"], "tool-calls");
    let waits = talk(&world, "chat-1", json!([said("2", "and this")])).await;
    assert!(
        of_kind(&waits, "data-notice").iter().any(|part| part["data"]["event"] == "message:waits"),
        "{waits:?}"
    );
    let answered = json!({ "id": "a", "role": "assistant", "parts": [{
        "type": "dynamic-tool", "toolName": "write", "toolCallId": asked["toolCallId"], "state": "approval-responded",
        "approval": { "id": asked["approvalId"], "approved": true },
    }] });
    let rest = talk(&world, "chat-1", json!([said("1", "write it"), answered])).await;
    assert_eq!(rest[0]["messageId"], parts[0]["messageId"], "the same answer goes on");
    assert_eq!(of_kind(&rest, "tool-output-available")[0]["toolCallId"], asked["toolCallId"]);
    assert!(of_kind(&rest, "tool-input-start").is_empty());
    assert_eq!(text(&rest, "text-delta"), "Understood.");
    assert_eq!(std::fs::read_to_string(world.folder.path().join("a.txt")).unwrap(), "hello");
    let nobody = json!({ "id": "a", "role": "assistant", "parts": [{
        "state": "approval-responded", "approval": { "id": "chat-1:a-none", "approved": true } }] });
    let refused = posted(&world, "/api/ui/chat", &chat("chat-1", json!([nobody]))).await;
    expect(refused, StatusCode::NOT_FOUND).await;
}

fn input(thread: &str, run: &str, messages: Value) -> Value {
    json!({ "threadId": thread, "runId": run, "messages": messages, "tools": [], "context": [], "state": {},
        "forwardedProps": {} })
}

#[tokio::test]
async fn a_thread_is_a_session_too() {
    let world = TestServer::new(looking()).await;
    let user = |id: &str, text: &str| json!({ "id": id, "role": "user", "content": text });
    let first = input("thread-1", "run-1", json!([user("1", "look")]));
    let events = read(posted(&world, "/api/ag-ui", &first).await).await;
    let started = json!({ "type": "RUN_STARTED", "threadId": "thread-1", "runId": "run-1" });
    assert_eq!(events[0], started);
    assert_eq!(text(&events, "TEXT_MESSAGE_CONTENT"), "I look.That is what is there.");
    assert_eq!(text(&events, "REASONING_MESSAGE_CONTENT"), "I could look.");
    assert_eq!(of_kind(&events, "TOOL_CALL_START")[0]["toolCallName"], "ls");
    assert_eq!(text(&events, "TOOL_CALL_ARGS"), "{}");
    assert_eq!(of_kind(&events, "TOOL_CALL_RESULT").len(), 1);
    assert!(!of_kind(&events, "STATE_DELTA").is_empty());
    let last = &events[events.len() - 1];
    assert_eq!((&last["type"], &last["outcome"]["type"]), (&json!("RUN_FINISHED"), &json!("success")));
    let parts = talk(&world, "thread-1", json!([said("9", "hello")])).await;
    assert_eq!(text(&parts, "text-delta"), "You said: hello", "either dialect speaks to it");
    let nothing = input("thread-1", "run-3", json!([{ "id": "a", "role": "assistant", "content": "x" }]));
    expect(posted(&world, "/api/ag-ui", &nothing).await, StatusCode::CONFLICT).await;
    let unknown = input("thread-2", "run-3", json!([{ "id": "a", "role": "assistant", "content": "x" }]));
    expect(posted(&world, "/api/ag-ui", &unknown).await, StatusCode::NOT_FOUND).await;
}

#[tokio::test]
async fn a_question_interrupts_a_run_and_its_answer_resumes_it() {
    let world = asking().await;
    let messages = json!([{ "id": "1", "role": "user", "content": "write it" }]);
    let events = read(posted(&world, "/api/ag-ui", &input("t", "run-1", messages.clone())).await).await;
    let outcome = &events[events.len() - 1]["outcome"];
    assert_eq!(outcome["type"], "interrupt");
    let mut resume = input("t", "run-2", messages);
    resume["resume"] = json!([{ "interruptId": outcome["interrupts"][0]["id"], "status": "resolved",
        "payload": { "approved": false, "reason": "not on a Friday" } }]);
    let events = read(posted(&world, "/api/ag-ui", &resume).await).await;
    let result = of_kind(&events, "TOOL_CALL_RESULT")[0];
    assert!(result["content"].as_str().unwrap().contains("not on a Friday"), "{result}");
    assert_eq!(result["toolCallId"], outcome["interrupts"][0]["toolCallId"]);
    assert_eq!(text(&events, "TEXT_MESSAGE_CONTENT"), "Understood.");
    assert!(!world.folder.path().join("a.txt").exists());
}

#[tokio::test]
async fn strangers_and_nonsense_are_refused() {
    let world = TestServer::new(looking()).await;
    let url = |path: &str| format!("http://{}{path}", world.address);
    let body = chat("chat-1", json!([said("1", "hello")]));
    for path in ["/api/ui/chat", "/api/ag-ui"] {
        let stranger = world.client.post(url(path)).json(&body).send().await.unwrap();
        expect(stranger, StatusCode::UNAUTHORIZED).await;
        let foreign = world.request(Method::POST, path).header("origin", "https://evil.example").json(&body);
        expect(foreign.send().await.unwrap(), StatusCode::FORBIDDEN).await;
        expect(posted(&world, path, &json!({})).await, StatusCode::BAD_REQUEST).await;
    }
    let blank = posted(&world, "/api/ui/chat", &chat("chat-1", json!([said("1", "  ")]))).await;
    expect(blank, StatusCode::BAD_REQUEST).await;
    let nobody = world.client.get(url("/api/ui/chat/chat-1/stream")).send().await.unwrap();
    expect(nobody, StatusCode::UNAUTHORIZED).await;
    let agent = json!({ "id": "chat-1", "messages": [said("1", "hello")], "agent": "nobody" });
    expect(posted(&world, "/api/ui/chat", &agent).await, StatusCode::BAD_REQUEST).await;
    let none = world.request(Method::GET, "/api/sessions/chat-1").send().await.unwrap();
    expect(none, StatusCode::NOT_FOUND).await;
}

/// No part of it comes twice.
pub(crate) fn tale() -> String {
    let parts: Vec<String> = (0..900).map(|at| format!("part{at}")).collect();
    format!("{}.", parts.join(" "))
}

/// A server whose small window is half full of `thread`, and whose model tells the tale when it is asked for all of it,
/// going on word for word with what a request ends with.
pub(crate) async fn half_full(thread: &str) -> TestServer {
    let script = ModelScript::closure(|request: &ModelRequest, _| {
        let last = request.messages.last().unwrap();
        let answer = match (last.role, tale().strip_prefix(&last.text())) {
            (Role::Assistant, rest) => ScriptedAnswer::text(rest.unwrap_or("[this is not where I was]")),
            _ if last.text().contains("all of it") => ScriptedAnswer::text(tale()),
            _ => return Some(ScriptedAnswer::text(" word".repeat(350))),
        };
        Some(answer.pace(Duration::from_millis(1)))
    });
    let world =
        TestServer::of(ScriptedProvider::new(script).window(4_096).without_tools().with_prefill()).await;
    for turn in 0..7 {
        let parts =
            talk(&world, thread, json!([said(&format!("q{turn}"), &format!("question {turn}"))])).await;
        assert_eq!(of_kind(&parts, "finish")[0]["finishReason"], "stop", "{parts:?}");
    }
    world
}

/// The values of a field that the frames of a kind have, each once.
fn each<'a>(frames: &[&'a Value], field: &str) -> Vec<&'a str> {
    let mut values: Vec<&str> = frames.iter().map(|frame| frame[field].as_str().unwrap()).collect();
    values.dedup();
    values
}

/// That room was made in the middle of the answer, between pieces of its text.
fn is_in_the_middle(frames: &[Value], of_text: &str, is_edit: impl Fn(&Value) -> bool) -> bool {
    let edit = frames.iter().position(is_edit).unwrap_or_else(|| panic!("no room was made: {frames:?}"));
    let is_text = |frame: &Value| frame["type"] == of_text;
    frames[..edit].iter().any(is_text) && frames[edit..].iter().any(is_text)
}

#[tokio::test]
async fn an_answer_that_is_paused_to_make_room_is_one_message_of_the_chat() {
    let world = half_full("chat-1").await;
    let parts = talk(&world, "chat-1", json!([said("1", "tell me all of it")])).await;
    assert_eq!(text(&parts, "text-delta"), tale(), "word for word, and nothing twice");
    let kinds = ["start", "text-start", "text-end", "finish", "[DONE]"];
    assert_eq!(kinds.map(|kind| of_kind(&parts, kind).len()), [1; 5], "{parts:?}");
    let ids = each(&of_kind(&parts, "text-delta"), "id");
    assert_eq!(ids, each(&of_kind(&parts, "text-start"), "id"), "one text");
    assert!(is_in_the_middle(&parts, "text-delta", |part| {
        part["type"] == "data-compaction" || part["type"] == "data-prune"
    }));
    assert_eq!(of_kind(&parts, "finish")[0]["finishReason"], "stop");
    assert_eq!(parts[parts.len() - 1]["type"], "[DONE]");
    assert_eq!(world.model.invalid_requests(), 0);
    // Who comes again hears the same answer.
    let again = talk(&world, "chat-1", json!([said("1", "tell me all of it")])).await;
    assert_eq!((text(&again, "text-delta"), &again[0]), (tale(), &parts[0]));
}

#[tokio::test]
async fn an_answer_that_is_paused_to_make_room_is_one_message_of_the_thread() {
    let world = half_full("thread-1").await;
    let asked = json!([{ "id": "1", "role": "user", "content": "tell me all of it" }]);
    let events = read(posted(&world, "/api/ag-ui", &input("thread-1", "run-1", asked)).await).await;
    assert_eq!(text(&events, "TEXT_MESSAGE_CONTENT"), tale(), "word for word, and nothing twice");
    let kinds = ["RUN_STARTED", "TEXT_MESSAGE_START", "TEXT_MESSAGE_END", "RUN_FINISHED"];
    assert_eq!(kinds.map(|kind| of_kind(&events, kind).len()), [1; 4], "{events:?}");
    let ids = each(&of_kind(&events, "TEXT_MESSAGE_CONTENT"), "messageId");
    assert_eq!(ids, each(&of_kind(&events, "TEXT_MESSAGE_START"), "messageId"), "one message");
    assert!(is_in_the_middle(&events, "TEXT_MESSAGE_CONTENT", |event| {
        event["type"] == "ACTIVITY_SNAPSHOT" && event["activityType"] != "longhaul.tool-output"
    }));
    let last = &events[events.len() - 1];
    assert_eq!((&last["type"], &last["outcome"]["type"]), (&json!("RUN_FINISHED"), &json!("success")));
    assert_eq!(world.model.invalid_requests(), 0);
}
