//! A client of one dialect before an upstream of another.

use std::time::Duration;

use axum::http::StatusCode;
use longhaul_core::message::ModelStopReason;
use longhaul_gateway::{ClientRequest, CredentialSource, GatewayOptions};
use longhaul_wire::edit::{Dialect, SseEvent, SseReader, WireCodec};
use serde_json::{Value, json};

use crate::shortening::{is_summary_request, pruned};
use crate::upstream::*;

pub(crate) fn messages_call(body: &Value) -> ClientRequest {
    ClientRequest { dialect: Dialect::Messages, ..chat(body.to_string()) }
}

fn seen(out: &[u8]) -> longhaul_wire::edit::PartialResponse {
    let mut watcher = longhaul_wire::messages::edit::MessagesCodec.stream_parser();
    let mut events = SseReader::default();
    events.feed(out.to_vec().into());
    while let Some(raw) = events.next_event() {
        watcher.read(&SseEvent::parse(&raw));
    }
    watcher.seen().clone()
}

#[tokio::test]
async fn a_client_of_messages_is_answered_by_chat_completions() {
    let server = start_upstream(|_, _| {
        UpstreamAnswer::Events(streamed("a", "hello there", Some((90, 3))), Duration::ZERO)
    })
    .await;
    let gateway = server.gateway(8_000);
    let mut asked = json!({
        "model": "m", "max_tokens": 100, "system": "be brief",
        "tools": [{ "name": "ls", "description": "lists", "input_schema": { "type": "object" } }],
        "tool_choice": { "type": "any" },
        "messages": [
            user("hi"),
            { "role": "assistant", "content": [{ "type": "tool_use", "id": "t1", "name": "ls", "input": {} }] },
            { "role": "user", "content": [
                { "type": "tool_result", "tool_use_id": "t1", "content": "files" },
                { "type": "text", "text": "and?" }] },
        ],
    });
    let reply = gateway.answer(messages_call(&asked)).await;
    assert_eq!(reply.status, StatusCode::OK);
    let answer = body_json(reply).await;
    assert_eq!((&answer["type"], &answer["content"][0]["text"]), (&json!("message"), &json!("hello there")));
    assert_eq!((&answer["stop_reason"], &answer["usage"]["input_tokens"]), (&json!("end_turn"), &json!(90)));
    let sent = server.received()[0].json();
    let roles: Vec<&str> =
        sent["messages"].as_array().unwrap().iter().map(|m| m["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "tool", "user"]);
    assert_eq!(sent["messages"][3]["content"], "files");
    assert_eq!(
        (&sent["tool_choice"], &sent["tools"][0]["function"]["name"]),
        (&json!("required"), &json!("ls"))
    );
    asked["stream"] = json!(true);
    let reply = gateway.answer(messages_call(&asked)).await;
    assert_eq!(header(&reply, "content-type"), "text/event-stream");
    let seen = seen(&body(reply).await);
    assert_eq!(
        (seen.text.as_str(), seen.finish, seen.over),
        ("hello there", Some(ModelStopReason::Stop), true)
    );
}

#[tokio::test]
async fn search_results_and_readable_compaction_blocks_cross_as_text() {
    let server =
        start_upstream(|_, _| UpstreamAnswer::Events(streamed("a", "fine", None), Duration::ZERO)).await;
    let gateway = server.gateway(8_000);
    let found = json!({ "type": "search_result", "source": "https://x.test", "title": "Rain",
        "content": [{ "type": "text", "text": "9 mm" }] });
    let mut asked = json!({ "model": "m", "max_tokens": 100, "messages": [
        user("hi"),
        { "role": "assistant", "content": [
            { "type": "compaction", "content": "So far: the port is 4711." },
            { "type": "tool_use", "id": "t1", "name": "search", "input": {} }] },
        { "role": "user", "content": [{ "type": "tool_result", "tool_use_id": "t1", "content": [found] }] },
    ] });
    for stream in [false, true] {
        asked["stream"] = json!(stream);
        let reply = gateway.answer(messages_call(&asked)).await;
        assert_eq!((reply.status, header(&reply, "x-longhaul-ignored")), (StatusCode::OK, ""));
        body(reply).await;
        let sent = server.received().last().unwrap().messages();
        // No person has typed the summary, and its first line says so.
        let said = sent[0]["content"].as_str().unwrap();
        assert!(said.starts_with("hi\n\n[SUMMARY] of the conversation so far"), "{said}");
        assert!(said.ends_with(":\n\nSo far: the port is 4711."), "{said}");
        assert_eq!(sent[1]["tool_calls"][0]["function"]["name"], "search");
        assert_eq!(sent[2]["content"], "Rain\nhttps://x.test\n9 mm");
    }
    // What only Anthropic can read is still refused by name.
    asked["messages"][1]["content"][0] = json!({ "type": "compaction", "encrypted_content": "QQ==" });
    let reply = gateway.answer(messages_call(&asked)).await;
    assert_eq!(reply.status, StatusCode::BAD_REQUEST);
    let refusal = body_json(reply).await;
    assert!(refusal["error"]["message"].as_str().unwrap().contains("`compaction`"), "{refusal}");
}

#[tokio::test]
async fn it_is_shortened_too() {
    let server = start_upstream(|_, body| match is_summary_request(body) {
        true => pruned(),
        false => UpstreamAnswer::Events(streamed("a", "fine", Some((900, 3))), Duration::ZERO),
    })
    .await;
    let messages: Vec<Value> = (0..30)
        .map(|at| if at % 2 == 0 { user(words(90, at)) } else { assistant(words(90, at)) })
        .chain([user("go on")])
        .collect();
    let asked = json!({ "model": "m", "max_tokens": 100, "messages": messages });
    let reply = server.gateway(3_000).answer(messages_call(&asked)).await;
    assert_eq!((reply.status, header(&reply, "x-longhaul-action")), (StatusCode::OK, "compacted"));
    let total = body_json(reply).await["x_longhaul"].clone();
    assert_eq!(
        (&total["action"], &total["calls"]),
        (&json!("compacted"), &json!(server.received().len())),
        "{total}"
    );
    assert!(total["billed"]["input_tokens"].as_u64().unwrap() > 900, "the summary was billed too: {total}");
    let sent = server.received().last().unwrap().messages();
    assert!(sent.len() < 20 && sent[0]["content"].to_string().contains("[SUMMARY]"), "{sent:?}");
}

#[tokio::test]
async fn what_goes_as_somebody_elses_words_is_named() {
    let server =
        start_upstream(|_, _| UpstreamAnswer::Events(streamed("a", "fine", None), Duration::ZERO)).await;
    let gateway = server.gateway(8_000);
    let call = json!({ "role": "assistant", "content": [{ "type": "tool_use", "id": "t1", "name": "ls", "input": {} }] });
    let result = |id: &str, failed: bool| {
        let result =
            json!({ "type": "tool_result", "tool_use_id": id, "content": "boom", "is_error": failed });
        json!({ "role": "user", "content": [result] })
    };
    let system = json!({ "role": "system", "content": "mind the gap" });
    for (messages, changed, ignored) in [
        (vec![user("a"), call.clone(), result("t1", false)], "", ""),
        (vec![user("a"), call.clone(), result("t1", true)], "", "is_error"),
        (vec![user("a"), call, result("t1", false), result("t9", false)], "tool_result=user", ""),
        (vec![system.clone(), user("a")], "", ""),
        (vec![user("a"), system, user("b")], "system=user", ""),
    ] {
        let body = json!({ "model": "m", "max_tokens": 100, "messages": messages });
        let reply = gateway.answer(messages_call(&body)).await;
        assert_eq!(reply.status, StatusCode::OK, "{body}");
        let named = [header(&reply, "x-longhaul-changed"), header(&reply, "x-longhaul-ignored")];
        assert_eq!(named, [changed, ignored], "{body}");
    }
}

#[tokio::test]
async fn what_cannot_be_said_there_and_what_fails_there_is_an_error_in_the_callers_words() {
    let server =
        start_upstream(|_, _| UpstreamAnswer::Json(401, json!({ "error": { "message": "bad key" } }))).await;
    let gateway = gateway(waiting(vec![server.upstream(8_000)]));
    let image = json!({ "type": "image", "source": { "type": "file", "file_id": "file_1" } });
    let picture = json!({ "model": "m", "max_tokens": 9, "messages": [user("see"), { "role": "user", "content": [image] }] });
    let reply = gateway.answer(messages_call(&picture)).await;
    assert_eq!(reply.status, StatusCode::BAD_REQUEST);
    let error = body_json(reply).await;
    assert_eq!((&error["type"], &error["error"]["type"]), (&json!("error"), &json!("invalid_request_error")));
    assert!(error["error"]["message"].as_str().unwrap().contains("messages[1]"), "{error}");
    assert!(server.received().is_empty());
    let plain = json!({ "model": "m", "max_tokens": 9, "messages": [user("hi")] });
    let reply = gateway.answer(messages_call(&plain)).await;
    assert_eq!(reply.status, StatusCode::UNAUTHORIZED);
    assert_eq!(body_json(reply).await["error"]["type"], "authentication_error");
}

#[tokio::test]
async fn a_refusal_keeps_its_status_and_when_to_ask_again() {
    for (status, wait, expected) in [(429, "17", "17"), (503, "2", "2"), (529, "", "")] {
        let server = start_upstream(move |_, _| {
            let wait = (!wait.is_empty()).then(|| ("retry-after", wait.to_owned()));
            let headers = [("content-type", "application/json".to_owned())].into_iter().chain(wait).collect();
            UpstreamAnswer::Head(
                status,
                headers,
                json!({ "error": { "message": "busy" } }).to_string().into(),
            )
        })
        .await;
        let asked = json!({ "model": "m", "max_tokens": 9, "messages": [user("hi")] });
        let reply = server.gateway(8_000).answer(messages_call(&asked)).await;
        assert_eq!((reply.status.as_u16(), header(&reply, "retry-after")), (status, expected));
        let error = body_json(reply).await;
        assert!(
            error["type"] == "error" && error["error"]["message"].to_string().contains("busy"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn an_upstream_that_speaks_the_callers_dialect_is_sent_the_callers_bytes() {
    for (dialect, path) in [(Dialect::Messages, "/v1/messages"), (Dialect::Responses, "/v1/responses")] {
        let server = start_upstream(|_, body| match is_summary_request(body) {
            true => pruned(),
            false => UpstreamAnswer::Json(400, json!({ "error": { "message": "whatever" } })),
        })
        .await;
        let mut upstream = server.upstream(3_000);
        upstream.dialects.push(dialect);
        let gateway = gateway(waiting(vec![upstream]));
        let list = if dialect == Dialect::Messages { "messages" } else { "input" };
        let ask = |messages: Vec<Value>| {
            let body = json!({ "model": "m", "max_tokens": 100, list: messages }).to_string();
            (body.clone(), gateway.answer(ClientRequest { dialect, ..chat(body) }))
        };
        let (body, reply) = ask(vec![user("hi")]);
        reply.await;
        assert_eq!(
            (server.received()[0].path.as_str(), &server.received()[0].body[..]),
            (path, body.as_bytes())
        );
        let long = (0..30).map(|at| if at % 2 == 0 { user(words(90, at)) } else { assistant(words(90, at)) });
        let (_, reply) = ask(long.chain([user("go on")]).collect());
        assert_eq!(header(&reply.await, "x-longhaul-action"), "compacted");
        let sent = server.received().last().unwrap().json();
        let items = sent[list].as_array().unwrap();
        assert!(items.len() < 20 && items[0].to_string().contains("[SUMMARY]"), "{items:?}");
        assert!(items.last().unwrap().to_string().contains("go on"));
    }
}

#[tokio::test]
async fn what_a_server_is_to_remember_is_refused_by_name() {
    let server =
        start_upstream(|_, _| UpstreamAnswer::Events(streamed("a", "yes", None), Duration::ZERO)).await;
    let gateway = server.gateway(8_000);
    let call = |more: &str| {
        let body = format!(r#"{{"model":"m","input":"who am I?",{more}}}"#);
        ClientRequest { dialect: Dialect::Responses, ..chat(body) }
    };
    for name in ["previous_response_id", "conversation"] {
        let reply = gateway.answer(call(&format!(r#""{name}":"resp_1""#))).await;
        assert_eq!(reply.status, StatusCode::BAD_REQUEST);
        assert_eq!(body_json(reply).await["error"]["param"], name);
    }
    assert!(server.received().is_empty());
    let reply = gateway.answer(call(r#""previous_response_id":null"#)).await;
    assert_eq!(reply.status, StatusCode::OK);
}

#[tokio::test]
async fn fields_are_carried_named_or_refused() {
    let server =
        start_upstream(|_, _| UpstreamAnswer::Events(streamed("a", "fine", None), Duration::ZERO)).await;
    let gateway = server.gateway(8_000);
    let mut asked = json!({
        "model": "m", "max_tokens": 100, "messages": [user("hi")], "temperature": 0.2, "top_p": 0.9,
        "stop_sequences": ["END"], "metadata": { "user_id": "me" },
        "tools": [
            { "name": "ls", "input_schema": { "type": "object" } },
            { "type": "web_search_20250305", "name": "web_search" },
        ],
    });
    let reply = gateway.answer(messages_call(&asked)).await;
    assert_eq!(header(&reply, "x-longhaul-ignored"), "metadata.user_id,tools[1] (web_search)");
    let sent = server.received()[0].json();
    assert_eq!(
        (&sent["temperature"], &sent["top_p"], &sent["stop"]),
        (&json!(0.2), &json!(0.9), &json!(["END"]))
    );
    assert_eq!(sent["tools"].as_array().unwrap().len(), 1);
    asked["tool_choice"] = json!({ "type": "tool", "name": "web_search" });
    let reply = gateway.answer(messages_call(&asked)).await;
    assert_eq!(reply.status, StatusCode::BAD_REQUEST);
    asked.as_object_mut().unwrap().remove("tool_choice");
    asked["container"] = json!("c");
    let reply = gateway.answer(messages_call(&asked)).await;
    assert_eq!(reply.status, StatusCode::BAD_REQUEST);
    assert!(body_json(reply).await["error"]["message"].as_str().unwrap().contains("`container`"));
    assert_eq!(server.received().len(), 1);
}

const PNG: &str = "iVBORw0KGgo=";

#[tokio::test]
async fn pictures_cross() {
    let server =
        start_upstream(|_, _| UpstreamAnswer::Events(streamed("a", "a dog", None), Duration::ZERO)).await;
    let gateway = server.gateway(8_000);
    let bytes =
        json!({ "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": PNG } });
    let link = json!({ "type": "image", "source": { "type": "url", "url": "https://x/dog.png" } });
    let asked = json!({ "model": "m", "max_tokens": 100, "messages": [
        { "role": "user", "content": [{ "type": "text", "text": "these" }, bytes, link] },
        { "role": "assistant", "content": [{ "type": "tool_use", "id": "t1", "name": "shot", "input": {} }] },
        { "role": "user", "content": [{ "type": "tool_result", "tool_use_id": "t1", "content": [bytes] }] },
    ] });
    let reply = gateway.answer(messages_call(&asked)).await;
    assert_eq!(reply.status, StatusCode::OK);
    let sent = server.received()[0].messages();
    let urls = |message: &Value| -> Vec<String> {
        let blocks = message["content"].as_array().unwrap().iter();
        blocks.filter_map(|block| Some(block["image_url"]["url"].as_str()?.to_owned())).collect()
    };
    let png = format!("data:image/png;base64,{PNG}");
    assert_eq!(urls(&sent[0]), [png.clone(), "https://x/dog.png".to_owned()]);
    assert_eq!((&sent[2]["role"], urls(&sent[3])), (&json!("tool"), vec![png.clone()]));

    let input = json!([{ "role": "user", "content": [
        { "type": "input_image", "image_url": png },
        { "type": "input_image", "image_url": "https://x/dog.png" },
    ] }]);
    let call = |input: &Value| {
        let body = json!({ "model": "m", "input": input }).to_string();
        ClientRequest { dialect: Dialect::Responses, ..chat(body) }
    };
    assert_eq!(gateway.answer(call(&input)).await.status, StatusCode::OK);
    assert_eq!(urls(&server.received()[1].messages()[0]), [png, "https://x/dog.png".to_owned()]);

    // Nobody has said that this server takes files.
    let file = json!([{ "role": "user", "content": [
        { "type": "input_file", "filename": "a.pdf", "file_data": format!("data:application/pdf;base64,{PNG}") }] }]);
    let reply = gateway.answer(call(&file)).await;
    assert_eq!(reply.status, StatusCode::BAD_REQUEST);
    let error = body_json(reply).await;
    assert_eq!(error["error"]["param"], "input[0]");
    assert_eq!(server.received().len(), 2);
}

/// A stream of Anthropic's that says nothing.
fn nothing_said() -> UpstreamAnswer {
    let event = |name: &str, data: Value| format!("event: {name}\ndata: {data}\n\n");
    let start = json!({ "type": "message_start", "message": { "id": "m", "type": "message", "role": "assistant",
        "model": "c", "content": [], "usage": { "input_tokens": 5, "output_tokens": 1 } } });
    let stop = json!({ "type": "message_delta", "delta": { "stop_reason": "end_turn" }, "usage": { "output_tokens": 1 } });
    UpstreamAnswer::Events(
        vec![
            event("message_start", start),
            event("message_delta", stop),
            event("message_stop", json!({ "type": "message_stop" })),
        ],
        Duration::ZERO,
    )
}

#[tokio::test]
async fn pictures_files_and_fields_reach_anthropic() {
    let server = start_upstream(|_, _| nothing_said()).await;
    let mut upstream = longhaul_gateway::UpstreamOptions::new(
        "a",
        longhaul_providers::connect::Kind::Anthropic,
        server.url("/v1"),
    );
    let declared = &mut upstream.endpoint.declared;
    (declared.window, declared.tools, declared.images) = (Some(8_000), Some(true), Some(true));
    let gateway = gateway(waiting(vec![upstream]));
    let pdf = format!("data:application/pdf;base64,{PNG}");
    let asked = json!({ "model": "claude-x", "temperature": 1.4, "seed": 3, "stop": ["END"], "messages": [
        { "role": "user", "content": [
            { "type": "text", "text": "read" },
            { "type": "image_url", "image_url": { "url": format!("data:image/png;base64,{PNG}") } },
            { "type": "image_url", "image_url": { "url": "https://x/dog.png" } },
            { "type": "file", "file": { "filename": "a.pdf", "file_data": pdf } },
        ] } ] });
    let reply = gateway.answer(chat(asked.to_string())).await;
    assert_eq!(reply.status, StatusCode::OK);
    assert_eq!(
        (header(&reply, "x-longhaul-ignored"), header(&reply, "x-longhaul-changed")),
        ("seed", "temperature=1")
    );
    let sent = server.received().last().unwrap().json();
    assert_eq!((&sent["temperature"], &sent["stop_sequences"]), (&json!(1.0), &json!(["END"])));
    let sources: Vec<_> = sent["messages"][0]["content"].as_array().unwrap()[1..]
        .iter()
        .map(|block| (block["type"].as_str().unwrap(), block["source"]["type"].as_str().unwrap()))
        .collect();
    assert_eq!(sources, [("image", "base64"), ("image", "url"), ("document", "base64")]);
    let several = json!({ "model": "claude-x", "n": 2, "messages": [user("hi")] });
    let reply = gateway.answer(chat(several.to_string())).await;
    assert_eq!(reply.status, StatusCode::BAD_REQUEST);
    assert_eq!(body_json(reply).await["error"]["param"], "n");
    let sound = json!({ "model": "claude-x", "messages": [{ "role": "user", "content": [
        { "type": "input_audio", "input_audio": { "data": "AA==", "format": "wav" } }] }] });
    let reply = gateway.answer(chat(sound.to_string())).await;
    assert_eq!(
        (reply.status, &body_json(reply).await["error"]["param"]),
        (StatusCode::BAD_REQUEST, &json!("input_audio"))
    );
}

#[tokio::test]
async fn a_conversation_is_compacted_when_its_client_asks() {
    let server = start_upstream(|_, body| match is_summary_request(body) {
        true => pruned(),
        false => UpstreamAnswer::Events(streamed("a", "fine", None), Duration::ZERO),
    })
    .await;
    let gateway = server.gateway(100_000);
    let call = |input: Value| {
        let body = json!({ "model": "m", "input": input }).to_string();
        ClientRequest { dialect: Dialect::Responses, ..chat(body) }
    };
    let long: Vec<Value> = (0..30)
        .map(|at| if at % 2 == 0 { user(words(90, at)) } else { assistant(words(90, at)) })
        .chain([user("go on")])
        .collect();
    let reply = gateway.compact(call(json!(long))).await;
    assert_eq!((reply.status, header(&reply, "x-longhaul-action")), (StatusCode::OK, "compacted"));
    let compaction = body_json(reply).await;
    assert_eq!(compaction["object"], "response.compaction");
    assert!(compaction["id"].as_str().unwrap().starts_with("resp_"), "{compaction}");
    let usage = &compaction["usage"];
    assert!(usage["output_tokens"].as_u64().unwrap() < usage["input_tokens"].as_u64().unwrap(), "{usage}");
    let items = compaction["output"].as_array().unwrap();
    assert!(items.len() < 20 && items[0].to_string().contains("[SUMMARY]"), "{items:?}");
    assert!(items.last().unwrap().to_string().contains("go on"));
    // What it gave is taken as a conversation, and what is short stays as it is.
    let again = gateway.answer(call(json!(items))).await;
    assert_eq!((again.status, header(&again, "x-longhaul-action")), (StatusCode::OK, "none"));
    let short = body_json(gateway.compact(call(json!("hi"))).await).await;
    assert_eq!(short["output"][0]["content"][0]["text"], "hi");
    let kept = json!({ "model": "m", "input": "hi", "previous_response_id": "resp_1" }).to_string();
    let reply = gateway.compact(ClientRequest { dialect: Dialect::Responses, ..chat(kept) }).await;
    assert_eq!(reply.status, StatusCode::BAD_REQUEST);
}

/// A server that takes no system role, and only texts beside calls. It says one demand at a time.
async fn demanding() -> ScriptedUpstream {
    start_upstream(|_, body| {
        let messages = body["messages"].as_array().unwrap();
        let refusal = if messages.iter().any(|message| message["role"] == "system") {
            "System role not supported"
        } else if messages
            .iter()
            .any(|message| message["tool_calls"].is_array() && message["content"].is_null())
        {
            "Invalid value for 'content': expected a string, got null."
        } else {
            return UpstreamAnswer::Events(streamed("a", "fine", Some((90, 3))), Duration::ZERO);
        };
        UpstreamAnswer::Json(400, json!({ "error": { "message": refusal, "type": "invalid_request_error" } }))
    })
    .await
}

#[tokio::test]
async fn a_translated_request_takes_the_form_that_its_server_demands() {
    let asked = json!({
        "model": "m", "max_tokens": 100, "system": "be brief",
        "tools": [{ "name": "ls", "input_schema": { "type": "object" } }],
        "messages": [
            user("hi"),
            { "role": "assistant", "content": [{ "type": "tool_use", "id": "t1", "name": "ls", "input": {} }] },
            { "role": "user", "content": [{ "type": "tool_result", "tool_use_id": "t1", "content": "files" }] },
        ],
    });
    for credentials in [CredentialSource::Own, CredentialSource::Forward] {
        let server = demanding().await;
        let gateway = gateway(GatewayOptions { credentials, ..waiting(vec![server.upstream(8_000)]) });
        let reply = gateway.answer(messages_call(&asked)).await;
        assert_eq!(
            (reply.status, header(&reply, "x-longhaul-omitted")),
            (StatusCode::OK, ""),
            "{credentials:?}"
        );
        assert_eq!(body_json(reply).await["content"][0]["text"], "fine", "{credentials:?}");
        let sent = server.received();
        assert_eq!(sent.len(), 3, "{credentials:?}: each demand costs one request");
        let last = sent[2].json();
        assert!(last["messages"][0]["content"].to_string().contains("be brief"), "{last}");
        assert!(last.to_string().contains("files"), "nothing of the conversation is left out: {last}");
    }
}
