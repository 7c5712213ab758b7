//! Standing orders over HTTP: what is answered, what is refused, what watchers hear, what a crash leaves.

use longhaul_providers::scripted::{ModelScript, ScriptedAnswer};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::described;
use crate::test_server::{TestServer, expect, slowly};

async fn send(world: &TestServer, method: Method, path: &str, body: Value) -> (StatusCode, Value) {
    let answer = world.request(method, path).json(&body).send().await.unwrap();
    let (status, body) = (answer.status(), answer.json().await.unwrap());
    described::answer(path, status.as_u16(), &body);
    (status, body)
}

fn texts(orders: &Value) -> Vec<&str> {
    orders["orders"].as_array().unwrap().iter().map(|order| order["text"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn orders_are_pinned_listed_edited_and_removed_and_watchers_hear_of_it() {
    let world = TestServer::new(ModelScript::always("Yes.")).await;
    let session = world.session().await;
    let path = format!("/api/sessions/{session}/orders");
    assert_eq!(world.get(&path).await, json!({ "orders": [] }));
    let (status, first) = send(&world, Method::POST, &path, json!({ "text": "Answer in French." })).await;
    let pinned = json!({
        "ok": true, "created": true,
        "order": { "id": "o1", "text": "Answer in French.", "source": "user", "seq": 2, "state": "active" },
    });
    assert_eq!((status, &first), (StatusCode::CREATED, &pinned));
    // Case and runs of spaces make no other order.
    let (status, again) = send(&world, Method::POST, &path, json!({ "text": "answer  in french." })).await;
    assert_eq!((status, &again["created"]), (StatusCode::OK, &json!(false)));
    assert_eq!(again["order"], first["order"]);
    let replacing = json!({ "text": "Answer in Greek.", "replaces": "o1" });
    assert_eq!(send(&world, Method::POST, &path, replacing).await.0, StatusCode::CREATED);
    let edited = format!("{path}/o2");
    let (status, changed) =
        send(&world, Method::PATCH, &edited, json!({ "text": "Answer in German." })).await;
    assert_eq!((status, &changed["order"]["text"]), (StatusCode::OK, &json!("Answer in German.")));
    assert_eq!(texts(&world.get(&path).await), ["Answer in German."]);
    let all = world.get(&format!("{path}?all=true")).await;
    let old = json!({ "id": "o1", "text": "Answer in French.", "source": "user", "seq": 2,
                      "state": "superseded", "supersededBy": "o2" });
    assert_eq!(all["orders"][0], old);
    let (status, removed) = send(&world, Method::DELETE, &edited, json!({})).await;
    assert_eq!((status, &removed["order"]["state"]), (StatusCode::OK, &json!("removed")));
    assert_eq!(world.get(&path).await, json!({ "orders": [] }));

    let mut events = world.events(&session, Some(0)).await;
    let frames = events.until("order:removed").await;
    let heard = frames.iter().filter(|frame| frame.name.starts_with("order:"));
    let heard: Vec<Value> = heard
        .map(|frame| {
            let mut data = frame.data.clone();
            data.as_object_mut().unwrap().remove("sessionId");
            data
        })
        .collect();
    assert_eq!(
        heard,
        [
            json!({ "name": "order:pinned", "seq": 2, "orderId": "o1", "text": "Answer in French.", "source": "user" }),
            json!({ "name": "order:pinned", "seq": 3, "orderId": "o2", "text": "Answer in Greek.", "source": "user",
                    "replaces": "o1" }),
            json!({ "name": "order:edited", "seq": 4, "orderId": "o2", "text": "Answer in German." }),
            json!({ "name": "order:removed", "seq": 5, "orderId": "o2" }),
        ]
    );
}

#[tokio::test]
async fn what_cannot_be_is_a_problem() {
    let world = TestServer::new(ModelScript::always("Yes.")).await;
    let session = world.session().await;
    let path = format!("/api/sessions/{session}/orders");
    for text in ["one", "two"] {
        send(&world, Method::POST, &path, json!({ "text": text })).await;
    }
    send(&world, Method::DELETE, &format!("{path}/o2"), json!({})).await;
    send(&world, Method::POST, &path, json!({ "text": "three" })).await;
    let cases = [
        (Method::POST, "", json!({ "text": "x".repeat(1_001) }), 400, "invalid-request"),
        (Method::POST, "", json!({ "text": " \n" }), 400, "invalid-request"),
        (Method::POST, "", json!({ "text": "x", "more": 1 }), 400, "invalid-request"),
        (Method::POST, "", json!({ "text": "x", "replaces": "o9" }), 404, "not-found"),
        (Method::POST, "", json!({ "text": "x", "replaces": "o2" }), 409, "conflict"),
        (Method::PATCH, "/o9", json!({ "text": "x" }), 404, "not-found"),
        (Method::PATCH, "/o2", json!({ "text": "x" }), 409, "conflict"),
        (Method::PATCH, "/o1", json!({ "text": "THREE" }), 409, "conflict"),
        (Method::PATCH, "/o1", json!({ "text": "" }), 400, "invalid-request"),
        (Method::DELETE, "/o9", json!({}), 404, "not-found"),
        (Method::DELETE, "/o2", json!({}), 409, "conflict"),
    ];
    for (method, rest, body, status, code) in cases {
        let what = format!("{method} {rest} {body}");
        let (answered, problem) = send(&world, method, &format!("{path}{rest}"), body).await;
        assert_eq!((answered.as_u16(), &problem["code"]), (status, &json!(code)), "{what}: {problem}");
    }
    assert_eq!(texts(&world.get(&path).await), ["one", "three"]);
    let nowhere = world.request(Method::GET, "/api/sessions/none/orders").send().await.unwrap();
    assert_eq!(expect(nowhere, StatusCode::NOT_FOUND).await["code"], "not-found");
}

#[tokio::test]
async fn a_pin_amid_a_run_is_done_once_for_its_key_and_outlives_a_crash() {
    let data = tempfile::tempdir().unwrap();
    let script = || {
        ModelScript::turns([
            ScriptedAnswer::text("Working.").call("bash", r#"{"command":"sleep 300"}"#),
            slowly("Never said."),
        ])
    };
    let world = TestServer::over(data.path(), script(), |_| {}).await;
    let session = world.session().await;
    let path = format!("/api/sessions/{session}/orders");
    world.say(&session, "go").await;
    world.until(&session, "executing_tools").await;
    let pin = async |world: &TestServer, key: &str, body: Value| {
        let request = world.request(Method::POST, &path).header("idempotency-key", key).json(&body);
        let answer = request.send().await.unwrap();
        (answer.status(), answer.json::<Value>().await.unwrap())
    };
    let first = pin(&world, "p1", json!({ "text": "Be brief." })).await;
    assert_eq!(first.0, StatusCode::CREATED);
    assert_eq!(pin(&world, "p1", json!({ "text": "Be brief." })).await, first);
    assert_eq!(pin(&world, "p1", json!({ "text": "Be long." })).await.0, StatusCode::UNPROCESSABLE_ENTITY);
    let replacing = json!({ "text": "Be very brief.", "replaces": "o1" });
    let second = pin(&world, "p2", replacing.clone()).await;
    assert_eq!(second.0, StatusCode::CREATED);
    assert_eq!(world.get(&format!("/api/sessions/{session}")).await["status"], "executing_tools");
    world.crash();

    let world = TestServer::over(data.path(), ModelScript::always("Yes."), |_| {}).await;
    assert_eq!(texts(&world.get(&path).await), ["Be very brief."]);
    assert_eq!(pin(&world, "p2", replacing).await, second, "the same answer in another process");
    world.say(&session, "on").await;
    world.until(&session, "idle").await;
    let said = world.said(&session).await;
    let told = said.iter().filter(|(_, text)| text.starts_with("[Standing order o2, pinned by the user"));
    assert_eq!(told.count(), 1, "{said:?}");
    world.end().await;
}
