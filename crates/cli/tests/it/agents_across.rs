//! Agents as models on several nodes: whichever node is asked, the conversation is the same.

use reqwest::Method;
use serde_json::{Value, json};

use crate::postgres::Schema;
use crate::shared::Node;

/// What was answered: the status, the session, and the body.
async fn asked(node: &Node, path: &str, headers: &[(&str, &str)], body: &Value) -> (u16, String, String) {
    let mut request = node.request(Method::POST, path).json(body);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = request.send().await.unwrap();
    let session = response.headers().get("x-longhaul-session");
    let session = session.map(|name| name.to_str().unwrap().to_owned()).unwrap_or_default();
    (response.status().as_u16(), session, response.text().await.unwrap())
}

fn chat(messages: &[Value], stream: bool) -> Value {
    json!({ "model": "agent/default", "stream": stream, "messages": messages })
}

fn user(text: &str) -> Value {
    json!({ "role": "user", "content": text })
}

fn said(body: &str) -> Value {
    let body: Value = serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {body}"));
    json!({ "role": "assistant", "content": body["choices"][0]["message"]["content"] })
}

/// How often a message was taken into a session.
async fn taken(node: &Node, session: &str) -> usize {
    let (status, page) = node.get(&format!("/api/sessions/{session}/messages")).await;
    assert_eq!(status, 200, "{page}");
    page["messages"].as_array().unwrap().iter().filter(|message| message["role"] == "user").count()
}

async fn sessions(node: &Node) -> usize {
    node.get("/api/sessions").await.1["sessions"].as_array().unwrap().len()
}

#[tokio::test]
async fn a_conversation_with_an_agent_goes_on_at_any_node() {
    let Some(schema) = Schema::new("agents").await else { return };
    let start = || {
        Node::start(&schema, |command| {
            command.args(["--blobs", "blobs"]);
        })
    };
    let (one, other) = (start(), start());
    let path = "/v1/chat/completions";
    // By its history, a stream too.
    let mut messages = vec![user("hello")];
    let (status, session, body) = asked(&one, path, &[], &chat(&messages, false)).await;
    assert_eq!(status, 200, "{body}");
    messages.extend([said(&body), user("more")]);
    let (status, again, body) = asked(&other, path, &[], &chat(&messages, false)).await;
    assert_eq!((status, &again), (200, &session), "{body}");
    messages.extend([said(&body), user("and more")]);
    let (status, again, stream) = asked(&other, path, &[], &chat(&messages, true)).await;
    assert_eq!((status, &again), (200, &session), "{stream}");
    assert!(stream.contains("data: ") && stream.trim_end().ends_with("[DONE]"), "{stream}");
    assert_eq!((taken(&one, &session).await, sessions(&one).await), (3, 1));
    // By the header.
    let named = [("x-longhaul-session", session.as_str())];
    let (status, again, body) = asked(&other, path, &named, &chat(&[user("by name")], false)).await;
    assert_eq!((status, &again), (200, &session), "{body}");
    assert_eq!(taken(&one, &session).await, 4);
    // By the answer that it goes on from.
    let response = json!({ "model": "agent/default", "input": "first" });
    let (status, by_id, body) = asked(&one, "/v1/responses", &[], &response).await;
    assert_eq!(status, 200, "{body}");
    let id = serde_json::from_str::<Value>(&body).unwrap()["id"].clone();
    let response = json!({ "model": "agent/default", "input": "second", "previous_response_id": id });
    let (status, again, body) = asked(&other, "/v1/responses", &[], &response).await;
    assert_eq!((status, &again), (200, &by_id), "{body}");
    // The same request once more is no other one, at whatever node.
    let keyed = [("idempotency-key", "once")];
    let (_, first, body) = asked(&one, path, &keyed, &chat(&[user("only once")], false)).await;
    let (status, repeated, same) = asked(&other, path, &keyed, &chat(&[user("only once")], false)).await;
    assert_eq!((status, &repeated, said(&same)), (200, &first, said(&body)));
    assert_eq!(taken(&one, &first).await, 1);
    it_goes_on_without_its_node(one, &other, messages, &session).await;
    other.end();
}

/// The node that had a conversation ends: the others go on with the same one.
async fn it_goes_on_without_its_node(node: Node, other: &Node, mut messages: Vec<Value>, session: &str) {
    // What was said by name is no part of the client's history any more: from here it is.
    let before = taken(other, session).await;
    let (status, page) = other.get(&format!("/api/sessions/{session}/messages")).await;
    assert_eq!(status, 200, "{page}");
    messages.clear();
    for message in page["messages"].as_array().unwrap() {
        let text: String = message["parts"]
            .as_array()
            .unwrap_or_else(|| panic!("{message}"))
            .iter()
            .filter_map(|part| part["text"].as_str())
            .collect();
        messages.push(json!({ "role": message["role"], "content": text }));
    }
    messages.push(user("is somebody there?"));
    node.end();
    let path = "/v1/chat/completions";
    let (status, again, body) = asked(other, path, &[], &chat(&messages, false)).await;
    assert_eq!((status, again.as_str()), (200, session), "{body}");
    assert_eq!(taken(other, session).await, before + 1);
}

#[tokio::test]
async fn an_agent_whose_node_is_not_reached_says_so_in_the_clients_words() {
    let Some(schema) = Schema::new("agents_cut").await else { return };
    let start = |advertised: &'static str| {
        Node::start(&schema, |command| {
            command.args(["--blobs", "blobs", "--advertise", advertised]);
        })
    };
    // Nobody listens where it says it is.
    let (cut, other) = (start("127.0.0.1:1"), start("127.0.0.1:2"));
    let (status, session, body) = asked(&cut, "/v1/messages", &[], &brief("hello")).await;
    assert_eq!(status, 200, "{body}");
    let named = [("x-longhaul-session", session.as_str())];
    let (status, _, body) = asked(&other, "/v1/messages", &named, &brief("more")).await;
    let refused: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((status, &refused["type"]), (503, &json!("error")), "{body}");
    assert!(refused["error"]["message"].as_str().unwrap().contains("cannot reach the node"), "{body}");
    let request = other.request(Method::POST, "/v1/chat/completions").header(named[0].0, named[0].1);
    let refused = request.json(&chat(&[user("more")], false)).send().await.unwrap();
    assert_eq!((refused.status().as_u16(), &refused.headers()["retry-after"]), (503, &"13".parse().unwrap()));
    let body: Value = serde_json::from_str(&refused.text().await.unwrap()).unwrap();
    assert_eq!(
        (&body["error"]["type"], &body["error"]["code"]),
        (&json!("server_error"), &json!("unavailable"))
    );
    assert_eq!(taken(&cut, &session).await, 1, "nothing was said twice, or left somewhere");
}

fn brief(text: &str) -> Value {
    json!({ "model": "agent/default", "max_tokens": 100, "messages": [user(text)] })
}
