//! Agents that clients of other makers ask for like models.

use longhaul::agents::AgentRegistry;
use longhaul::testing::TemporaryFolder;
use longhaul_core::message::Role;
use longhaul_core::run::ToolApproval;
use longhaul_gateway::{Gateway, GatewayDependencies, GatewayOptions, UpstreamOptions};
use longhaul_providers::ModelRequest;
use longhaul_providers::connect::Kind;
use longhaul_providers::scripted::{ModelScript, ScriptedAnswer, ScriptedFault};
use reqwest::{Method, Response, StatusCode};
use serde_json::{Value, json};

use crate::agents::three;
use crate::front_ends::{half_full, tale};
use crate::test_server::{PATIENCE, TestServer, slowly};

const CHAT: &str = "/v1/chat/completions";

/// A model that looks if it is told to, and else says what it was told and how much of it.
fn hearing() -> ModelScript {
    ModelScript::closure(|request: &ModelRequest, _| {
        let last = request.messages.last().unwrap();
        if last.role == Role::Tool {
            ScriptedAnswer::text("That is what is there.")
        } else if last.text().contains("look") {
            ScriptedAnswer::text("I look.").call("ls", "{}")
        } else {
            ScriptedAnswer::text(format!("{}. {}", request.messages.len(), last.text()))
        }
    })
}

fn user(text: &str) -> Value {
    json!({ "role": "user", "content": text })
}

fn answer(text: &str) -> Value {
    json!({ "role": "assistant", "content": text })
}

async fn asked(world: &TestServer, path: &str, headers: &[(&str, &str)], body: Value) -> Response {
    let request = headers
        .iter()
        .fold(world.request(Method::POST, path), |request, (name, value)| request.header(*name, *value));
    request.json(&body).send().await.unwrap()
}

fn chat(messages: Value) -> Value {
    json!({ "model": "default", "messages": messages })
}

async fn json_of(answer: Response, status: StatusCode) -> Value {
    let found = answer.status();
    let text = tokio::time::timeout(PATIENCE, answer.text()).await.unwrap().unwrap();
    assert_eq!(found, status, "{text}");
    serde_json::from_str(&text).unwrap()
}

/// The session of an answer, and its text.
async fn told(answer: Response) -> (String, String) {
    let session = answer.headers().get("x-longhaul-session").map(|name| name.to_str().unwrap().to_owned());
    let whole = json_of(answer, StatusCode::OK).await;
    let text = whole["choices"][0]["message"]["content"].as_str().unwrap().to_owned();
    (session.unwrap(), text)
}

async fn talk(world: &TestServer, messages: Value) -> (String, String) {
    told(asked(world, CHAT, &[], chat(messages)).await).await
}

/// The data of a stream.
async fn read(answer: Response) -> Vec<Value> {
    assert_eq!(answer.status(), StatusCode::OK);
    assert_eq!(answer.headers()["content-type"], "text/event-stream");
    let text = tokio::time::timeout(PATIENCE, answer.text()).await.unwrap().unwrap();
    let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
    data.map(|data| serde_json::from_str(data).unwrap_or_else(|_| json!(data))).collect()
}

fn content(chunks: &[Value]) -> String {
    chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str()).collect()
}

async fn texts(world: &TestServer, session: &str) -> Vec<String> {
    world.said(session).await.into_iter().map(|(_, text)| text).collect()
}

#[tokio::test]
async fn a_conversation_is_a_session_and_goes_on_in_it() {
    let world = TestServer::new(hearing()).await;
    let first = asked(&world, CHAT, &[], chat(json!([user("hello")]))).await;
    let named = first.headers()["x-longhaul-session"].to_str().unwrap().to_owned();
    let whole = json_of(first, StatusCode::OK).await;
    assert_eq!((&whole["object"], &whole["model"]), (&json!("chat.completion"), &json!("default")));
    assert_eq!(whole["choices"][0]["message"]["content"], "1. hello");
    assert_eq!(whole["choices"][0]["finish_reason"], "stop");
    assert!(whole["usage"]["prompt_tokens"].as_u64().unwrap() > 0, "{whole}");

    let (session, text) = talk(&world, json!([user("hello"), answer("1. hello"), user("and now?")])).await;
    assert_eq!((session.as_str(), text.as_str()), (named.as_str(), "3. and now?"), "the model has both");
    assert_eq!(texts(&world, &session).await, ["hello", "1. hello", "and now?", "3. and now?"]);

    let (other, _) = talk(&world, json!([user("hello")])).await;
    assert_ne!(other, session, "a new conversation that begins like it");
    assert_eq!(texts(&world, &session).await.len(), 4);
}

#[tokio::test]
async fn its_steps_are_one_text_and_its_tools_are_not_seen() {
    let world = TestServer::new(hearing()).await;
    let mut body = chat(json!([user("look")]));
    (body["stream"], body["stream_options"]) = (true.into(), json!({ "include_usage": true }));
    let streamed = asked(&world, CHAT, &[], body).await;
    let session = streamed.headers()["x-longhaul-session"].to_str().unwrap().to_owned();
    let chunks = read(streamed).await;
    assert_eq!(content(&chunks), "I look.\n\nThat is what is there.");
    assert_eq!(chunks[chunks.len() - 1], "[DONE]");
    assert!(chunks.iter().all(|chunk| chunk["choices"][0]["delta"]["tool_calls"].is_null()), "{chunks:?}");
    let of = |key: &'static str| chunks.iter().filter(move |chunk| !chunk[key].is_null());
    assert!(of("id").all(|chunk| chunk["id"] == chunks[0]["id"]));
    assert_eq!(of("usage").count(), 1);

    let history = json!([user("look"), answer(" I look.\n\nThat is what is there.\n"), user("thanks")]);
    let (same, text) = talk(&world, history).await;
    assert_eq!(
        (same, text.as_str()),
        (session, "5. thanks"),
        "the tool's call and result are in the session"
    );
}

#[tokio::test]
async fn what_an_answer_took_stands_beside_it() {
    let world = TestServer::new(hearing()).await;
    let one = asked(&world, CHAT, &[], chat(json!([user("hello")]))).await;
    assert_eq!(one.headers()["x-longhaul-action"], "none");
    assert!(one.headers()["x-longhaul-window"].to_str().unwrap().ends_with(')'), "{:?}", one.headers());
    assert_eq!(one.headers().get("x-longhaul-calls"), None);
    assert_eq!(json_of(one, StatusCode::OK).await.get("x_longhaul"), None, "the usage says all");

    let two = asked(&world, CHAT, &[], chat(json!([user("look")]))).await;
    assert_eq!(two.headers()["x-longhaul-calls"], "2");
    let two = json_of(two, StatusCode::OK).await;
    let total = &two["x_longhaul"];
    assert_eq!((&total["calls"], &total["action"]), (&json!(2), &json!("none")), "{two}");
    let billed = total["billed"]["input_tokens"].as_u64().unwrap();
    assert!(billed > two["usage"]["prompt_tokens"].as_u64().unwrap(), "{two}");
}

#[tokio::test]
async fn a_compaction_is_told_in_the_stream() {
    let world = half_full("v1").await;
    let mut body = chat(json!([user("tell me all of it")]));
    body["stream"] = true.into();
    let streamed = asked(&world, CHAT, &[("x-longhaul-session", "v1")], body).await;
    assert_eq!(streamed.status(), StatusCode::OK);
    let action = streamed.headers()["x-longhaul-action"].to_str().unwrap().to_owned();
    assert!(["none", "compacted", "waiting"].contains(&action.as_str()), "{action}");
    let text = tokio::time::timeout(PATIENCE, streamed.text()).await.unwrap().unwrap();
    let comments = text.split("\n\n").filter(|frame| frame.starts_with(": ")).collect::<Vec<_>>();
    let told = [": ⚙️ Compacting conversation history…", ": ✅ Context compacted, continuing…"];
    let at = told.map(|notice| comments.iter().position(|comment| *comment == notice));
    assert!(at[0].is_some() && at[0] < at[1], "{comments:?}");
    let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
    let chunks: Vec<Value> = data.filter_map(|data| serde_json::from_str(data).ok()).collect();
    assert_eq!(content(&chunks), tale(), "the notices are no part of the text");
    let total = chunks.iter().find_map(|chunk| chunk.get("x_longhaul")).unwrap();
    assert_eq!(total["action"], "compacted", "{total}");
    assert!(total["restarts"].as_u64().unwrap() > 0 && total["calls"].as_u64().unwrap() > 1, "{total}");
    assert!(total["tokens_before"].as_u64().unwrap() > total["tokens_after"].as_u64().unwrap(), "{total}");
}

#[tokio::test]
async fn a_conversation_is_found_after_a_restart() {
    let data = TemporaryFolder::new().unwrap();
    let world = TestServer::over(data.path(), hearing(), |_| {}).await;
    let (session, said) = talk(&world, json!([user("look")])).await;
    world.end().await;
    let world = TestServer::over(data.path(), hearing(), |_| {}).await;
    let (same, _) = talk(&world, json!([user("look"), answer(&said), user("more")])).await;
    assert_eq!(same, session);
    let (fork, _) = talk(&world, json!([user("look"), answer(&said), user("something else")])).await;
    assert_ne!(fork, session);
}

#[tokio::test]
async fn a_history_that_diverges_forks() {
    let world = TestServer::new(hearing()).await;
    let (session, _) = talk(&world, json!([user("one")])).await;
    let (_, _) = talk(&world, json!([user("one"), answer("1. one"), user("two")])).await;
    let (fork, text) = talk(&world, json!([user("one"), answer("1. one"), user("other")])).await;
    assert_ne!(fork, session);
    assert_eq!(text, "3. other");
    assert_eq!(texts(&world, &fork).await, ["one", "1. one", "other", "3. other"]);
    assert_eq!(texts(&world, &session).await, ["one", "1. one", "two", "3. two"]);
    let forked = world.get(&format!("/api/sessions/{fork}")).await;
    assert_eq!(forked["title"], "one (fork)");

    let branch = json!([user("one"), answer("1. one"), user("other"), answer("3. other"), user("on")]);
    assert_eq!(talk(&world, branch).await, (fork, "5. on".to_owned()), "the branch goes on by itself");
}

#[tokio::test]
async fn of_requests_that_go_on_from_one_turn_at_the_same_time_one_has_its_session() {
    let world = TestServer::new(hearing()).await;
    for round in 0..6 {
        let begins = format!("round {round}");
        let (session, said) = talk(&world, json!([user(&begins)])).await;
        let next = (0..6).map(|at| {
            let history = json!([user(&begins), answer(&said), user(&format!("branch {at}"))]);
            let world = &world;
            async move { talk(world, history).await }
        });
        let told = futures_util::future::join_all(next).await;
        let mut sessions: Vec<&str> = told.iter().map(|(session, _)| session.as_str()).collect();
        sessions.sort_unstable();
        sessions.dedup();
        assert_eq!(sessions.len(), 6, "each goes on by itself");
        assert!(sessions.contains(&session.as_str()), "and one of them in the session");
        for (at, (session, text)) in told.iter().enumerate() {
            assert_eq!(*text, format!("3. branch {at}"), "nothing of another's");
            assert_eq!(texts(&world, session).await.len(), 4);
        }
    }
}

#[tokio::test]
async fn what_was_said_elsewhere_since_is_no_part_of_a_history() {
    let world = TestServer::new(hearing()).await;
    let (session, _) = talk(&world, json!([user("one")])).await;
    world.say(&session, "from the page").await;
    world.until(&session, "idle").await;
    let (fork, text) = talk(&world, json!([user("one"), answer("1. one"), user("two")])).await;
    assert_ne!(fork, session);
    assert_eq!(text, "3. two");
}

#[tokio::test]
async fn a_history_that_nobody_knows_is_taken_as_it_is_given() {
    let world = TestServer::among(None, hearing(), three).await;
    let history = json!([
        { "role": "system", "content": "You are somebody else." },
        user("who"), answer("Somebody else answered this."), user("and now?"),
    ]);
    let body = json!({ "model": "main", "messages": history });
    let taken = asked(&world, CHAT, &[], body).await;
    assert_eq!(taken.headers()["x-longhaul-ignored"], "messages[0]");
    let (session, text) = told(taken).await;
    assert_eq!(text, "3. and now?");
    assert_eq!(texts(&world, &session).await[1], "Somebody else answered this.");

    let helper = json!({ "model": "helper", "messages": history });
    let (session, text) = told(asked(&world, CHAT, &[], helper).await).await;
    assert_eq!(text, "I am small.", "by the agent that was asked for");
    assert_eq!(world.get(&format!("/api/sessions/{session}")).await["agent"], "helper");
}

#[tokio::test]
async fn a_client_may_name_the_session() {
    let world = TestServer::among(None, hearing(), three).await;
    let named = [("x-longhaul-session", "mine")];
    let body = |agent: &str, messages: Value| json!({ "model": agent, "messages": messages });
    for expected in ["1. yes", "3. yes"] {
        let (session, text) =
            told(asked(&world, CHAT, &named, body("main", json!([user("yes")]))).await).await;
        assert_eq!((session.as_str(), text.as_str()), ("mine", expected), "its history is the session's");
    }
    let refused = asked(&world, CHAT, &named, body("helper", json!([user("yes")]))).await;
    let refused = json_of(refused, StatusCode::CONFLICT).await;
    assert!(refused["error"]["message"].as_str().unwrap().contains("`main`"), "{refused}");
    assert_eq!(texts(&world, "mine").await.len(), 4);
}

#[tokio::test]
async fn the_same_key_is_the_same_message() {
    let world = TestServer::new(hearing()).await;
    let keyed = [("idempotency-key", "k")];
    let first = told(asked(&world, CHAT, &keyed, chat(json!([user("hello")]))).await).await;
    let again = told(asked(&world, CHAT, &keyed, chat(json!([user("hello")]))).await).await;
    assert_eq!(first, again);
    assert_eq!(texts(&world, &first.0).await.len(), 2);
    let other = asked(&world, CHAT, &keyed, chat(json!([user("good-bye")]))).await;
    json_of(other, StatusCode::UNPROCESSABLE_ENTITY).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_key_at_the_same_time_is_the_same_message() {
    let world = TestServer::new(hearing()).await;
    let mut known = Vec::new();
    for turn in 0..40 {
        known.extend([user(&format!("question {turn}")), answer("fine")]);
    }
    let (beginning, _) = talk(&world, json!([user("first")])).await;
    // A history that nobody here knows, one that goes on, and one that branches off.
    let goes_on = vec![user("first"), answer("1. first")];
    for (key, history) in [("a", known), ("b", goes_on.clone()), ("c", goes_on)] {
        let messages: Vec<Value> = history.into_iter().chain([user("hello")]).collect();
        let body = chat(json!(messages));
        let keyed = [("idempotency-key", key)];
        let at_once = (0..5).map(|_| async { told(asked(&world, CHAT, &keyed, body.clone()).await).await });
        let all = futures_util::future::join_all(at_once).await;
        assert!(all.iter().all(|one| one == &all[0]), "{key}: {all:?}");
        let taken = texts(&world, &all[0].0).await.iter().filter(|text| *text == "hello").count();
        assert_eq!((taken, all[0].0 == beginning), (1, key == "b"), "{key}");
    }
    assert_eq!(world.get("/api/sessions").await["sessions"].as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn who_leaves_stops_nothing() {
    let words = "some words that come slowly ".repeat(8);
    let world = TestServer::new(ModelScript::always(slowly(&words))).await;
    let mut body = chat(json!([user("talk")]));
    body["stream"] = true.into();
    let mut streamed = asked(&world, CHAT, &[], body).await;
    let session = streamed.headers()["x-longhaul-session"].to_str().unwrap().to_owned();
    assert!(streamed.chunk().await.unwrap().is_some());
    drop(streamed);
    world.until(&session, "idle").await;
    assert_eq!(texts(&world, &session).await, ["talk", words.as_str()]);
}

#[tokio::test]
async fn where_nobody_can_be_asked_the_answer_is_no() {
    let script = ModelScript::closure(|request: &ModelRequest, _| {
        let results = request.messages.iter().filter(|message| message.role == Role::Tool).count();
        match results {
            0 | 1 => ScriptedAnswer::text("May I?")
                .call("write", format!(r#"{{"path":"{results}.txt","content":"hello"}}"#)),
            _ => ScriptedAnswer::text("Understood."),
        }
    });
    let world =
        TestServer::with(script, |agent| agent.rules.default_approval = ToolApproval::Ask, |_| {}).await;
    let (session, text) = talk(&world, json!([user("write it")])).await;
    assert_eq!(text, "May I?\n\nMay I?\n\nUnderstood.");
    assert!(!world.folder.path().join("0.txt").exists() && !world.folder.path().join("1.txt").exists());
    let said = texts(&world, &session).await;
    assert!(said[2].contains("No person can be asked here"), "{said:?}");

    // Also where nobody listens.
    let mut body = chat(json!([user("write it again")]));
    body["stream"] = true.into();
    let streamed = asked(&world, CHAT, &[], body).await;
    let session = streamed.headers()["x-longhaul-session"].to_str().unwrap().to_owned();
    drop(streamed);
    world.until(&session, "idle").await;
    assert_eq!(texts(&world, &session).await.last().unwrap(), "Understood.");
}

#[tokio::test]
async fn what_fails_is_an_error_of_the_dialect() {
    let script = ModelScript::always(ScriptedAnswer::text("never").fail(ScriptedFault::status(400)));
    let world = TestServer::with(script, |_| {}, |config| config.gateway_is_open = true).await;
    for stream in [false, true] {
        let mut body = chat(json!([user("hello")]));
        body["stream"] = stream.into();
        let failed = json_of(asked(&world, CHAT, &[], body).await, StatusCode::BAD_REQUEST).await;
        assert!(failed["error"]["message"].is_string(), "{failed}");
    }
    let url = format!("http://{}{CHAT}", world.address);
    let stranger = world.client.post(url).json(&chat(json!([user("hello")]))).send().await.unwrap();
    let refused = json_of(stranger, StatusCode::UNAUTHORIZED).await;
    assert_eq!(refused["error"]["code"], "invalid_api_key");
    for (field, value) in [
        ("n", json!(2)),
        ("response_format", json!({ "type": "json_object" })),
        ("tool_choice", json!("required")),
        ("stream", json!("yes")),
        ("messages", json!([answer("I speak last.")])),
        ("messages", json!([user("  ")])),
    ] {
        let mut body = chat(json!([user("hello")]));
        body[field] = value;
        json_of(asked(&world, CHAT, &[], body).await, StatusCode::BAD_REQUEST).await;
    }
    let mut body = chat(json!([user("hello")]));
    body["model"] = "nobody".into();
    json_of(asked(&world, CHAT, &[], body).await, StatusCode::NOT_FOUND).await;
    let count = json!({ "model": "default", "messages": [user("hello")] });
    json_of(asked(&world, "/v1/messages/count_tokens", &[], count).await, StatusCode::BAD_REQUEST).await;
}

#[tokio::test]
async fn what_means_nothing_to_an_agent_is_named() {
    let world = TestServer::new(hearing()).await;
    let mut body = chat(json!([user("hello")]));
    (body["temperature"], body["tools"]) = (0.5.into(), json!([]));
    let taken = asked(&world, CHAT, &[], body).await;
    assert_eq!(taken.headers()["x-longhaul-ignored"], "temperature,tools");
}

/// An agent with the name of a model, and another, before a gateway.
async fn with_gateway() -> TestServer {
    let mut upstream = UpstreamOptions::new("box", Kind::OpenAiCompatible, "http://127.0.0.1:9/v1");
    upstream.usual_model = Some("scripted".to_owned());
    let gateway = Gateway::new(GatewayOptions::new(vec![upstream]), GatewayDependencies::default()).unwrap();
    TestServer::serving(
        hearing(),
        |usual| AgentRegistry::new("scripted", usual.clone()).with("coder", "scripted", Ok(usual)),
        |config| (config.gateway, config.gateway_is_open) = (Some(gateway), true),
    )
    .await
}

#[tokio::test]
async fn agents_are_listed_beside_models() {
    let world = with_gateway().await;
    let ids = |list: &Value| -> Vec<String> {
        let data = list["data"].as_array().unwrap().iter();
        data.map(|entry| entry["id"].as_str().unwrap().to_owned()).collect()
    };
    let list = world.request(Method::GET, "/v1/models").send().await.unwrap();
    let list = json_of(list, StatusCode::OK).await;
    assert_eq!(ids(&list), ["scripted", "agent/scripted", "coder"]);
    assert_eq!(
        (&list["data"][2]["owned_by"], &list["data"][2]["x_longhaul"]["agent"]),
        (&json!("longhaul"), &json!(true))
    );
    let one = world.request(Method::GET, "/v1/models/agent/scripted").send().await.unwrap();
    assert_eq!(json_of(one, StatusCode::OK).await["display_name"], "scripted");
    let stranger = world.client.get(format!("http://{}/v1/models", world.address)).send().await.unwrap();
    assert_eq!(ids(&json_of(stranger, StatusCode::OK).await), ["scripted"], "who has not shown the token");

    for (model, status) in [
        ("coder", StatusCode::OK),
        ("agent/coder", StatusCode::OK),
        ("agent/scripted", StatusCode::OK),
        ("scripted", StatusCode::BAD_GATEWAY),
    ] {
        let body = json!({ "model": model, "messages": [user("hello")] });
        let reply = asked(&world, CHAT, &[], body).await;
        assert_eq!(reply.status(), status, "{model}");
    }
    let body = json!({ "model": "agent/nobody", "messages": [user("hello")] });
    let told = json_of(asked(&world, CHAT, &[], body.clone()).await, StatusCode::NOT_FOUND).await;
    let message = "there is no agent `nobody`; there are: agent/scripted, agent/coder";
    assert_eq!((&told["error"]["message"], &told["error"]["param"]), (&json!(message), &json!("model")));
    let url = format!("http://{}{CHAT}", world.address);
    let stranger = world.client.post(url).json(&body).send().await.unwrap();
    assert_eq!(stranger.status(), StatusCode::UNAUTHORIZED, "who may not know which there are");
}

#[tokio::test]
async fn responses_go_on_from_one_another() {
    let world = TestServer::new(hearing()).await;
    let body = |input: Value| json!({ "model": "default", "input": input });
    let first = asked(&world, "/v1/responses", &[], body(json!("one"))).await;
    let session = first.headers()["x-longhaul-session"].to_str().unwrap().to_owned();
    let first = json_of(first, StatusCode::OK).await;
    assert_eq!(first["output"][0]["content"][0]["text"], "1. one");

    let on_from = |previous: &Value, text: &str, stream: bool| {
        let mut body = body(json!([{ "role": "user", "content": [{ "type": "input_text", "text": text }] }]));
        (body["previous_response_id"], body["stream"]) = (previous.clone(), stream.into());
        body
    };
    let second = asked(&world, "/v1/responses", &[], on_from(&first["id"], "two", true)).await;
    assert_eq!(second.headers()["x-longhaul-session"].to_str().unwrap(), session);
    let events = read(second).await;
    let done = events.iter().find(|event| event["type"] == "response.completed").unwrap();
    assert_eq!(done["response"]["output"][0]["content"][0]["text"], "3. two");
    assert_eq!(events[0]["response"]["id"], done["response"]["id"]);

    let other = asked(&world, "/v1/responses", &[], on_from(&first["id"], "other", false)).await;
    let fork = other.headers()["x-longhaul-session"].to_str().unwrap().to_owned();
    assert_ne!(fork, session, "from an older answer a fork goes on");
    json_of(other, StatusCode::OK).await;
    assert_eq!(texts(&world, &fork).await, ["one", "1. one", "other", "3. other"]);
    assert_eq!(texts(&world, &session).await.len(), 4);

    for foreign in ["resp_68a1", &format!("resp_{session}.nobody"), "resp_nobody.nobody"] {
        let refused = asked(&world, "/v1/responses", &[], on_from(&json!(foreign), "three", false)).await;
        let refused = json_of(refused, StatusCode::NOT_FOUND).await;
        assert_eq!(refused["error"]["param"], "previous_response_id", "{refused}");
    }
}

#[tokio::test]
async fn messages_are_answered_too() {
    let world = TestServer::new(hearing()).await;
    let mut body = json!({ "model": "default", "max_tokens": 100, "system": "Be brief.",
        "messages": [{ "role": "user", "content": [{ "type": "text", "text": "hello" }] }] });
    let first = asked(&world, "/v1/messages", &[], body.clone()).await;
    let session = first.headers()["x-longhaul-session"].to_str().unwrap().to_owned();
    assert_eq!(first.headers()["x-longhaul-ignored"], "max_tokens,system");
    let first = json_of(first, StatusCode::OK).await;
    assert_eq!(
        (&first["content"][0]["text"], &first["stop_reason"]),
        (&json!("1. hello"), &json!("end_turn"))
    );
    body["messages"] =
        json!([user("hello"), { "role": "assistant", "content": first["content"] }, user("on")]);
    body["stream"] = true.into();
    let second = asked(&world, "/v1/messages", &[], body).await;
    assert_eq!(second.headers()["x-longhaul-session"].to_str().unwrap(), session);
    let events = read(second).await;
    let text: String = events.iter().filter_map(|event| event["delta"]["text"].as_str()).collect();
    assert_eq!((text.as_str(), &events[events.len() - 1]["type"]), ("3. on", &json!("message_stop")));
}
