//! Messages: at rest and busy, the queue, cancelling, retries, clients that leave.

use std::time::Duration;

use longhaul_providers::scripted::{ModelScript, ScriptedAnswer};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::test_server::{PATIENCE, TestServer, UNTIL_GO, expect, slowly};

/// Busy until [`TestServer::go`].
fn busy_then(rest: &[&str]) -> ModelScript {
    let busy = ScriptedAnswer::text("Working.").call("bash", UNTIL_GO);
    ModelScript::turns(std::iter::once(busy).chain(rest.iter().map(|text| ScriptedAnswer::text(*text))))
}

#[tokio::test]
async fn three_messages_wait_in_order_and_are_taken_once() {
    let world = TestServer::new(busy_then(&["All seen.", "Next."])).await;
    let session = world.session().await;
    let first = world.say(&session, "go").await;
    assert_eq!(
        first,
        json!({ "ok": true, "queued": false, "sessionId": session, "messageId": first["messageId"] })
    );
    let mut ids = Vec::new();
    for (position, text) in (1..).zip(["a", "b", "c"]) {
        let sent = world.say(&session, text).await;
        let expected = json!({
            "ok": true, "queued": true, "position": position, "id": sent["id"], "sessionId": session,
            "message": format!("Message queued at position {position}"),
        });
        assert_eq!(sent, expected);
        ids.push(sent["id"].as_str().unwrap().to_owned());
    }
    let queue = world.get(&format!("/api/message/queue?sessionId={session}")).await;
    let listed: Vec<&str> =
        queue["entries"].as_array().unwrap().iter().map(|entry| entry["id"].as_str().unwrap()).collect();
    assert_eq!(listed, ids);
    assert_eq!(queue["entries"][2]["position"], 3);
    world.go();
    world.until(&session, "idle").await;
    let said = world.said(&session).await;
    assert_eq!(said[3], ("user".to_owned(), "[1]: a\n\n[2]: b\n\n[3]: c".to_owned()));
    assert_eq!(said.last().unwrap().1, "All seen.");
    assert_eq!(world.get(&format!("/api/message/queue?sessionId={session}")).await["count"], 0);
    world.say(&session, "once more").await;
    world.until(&session, "idle").await;
    let said = world.said(&session).await;
    for text in ["[1]: a", "once more"] {
        assert_eq!(said.iter().filter(|(_, said)| said.contains(text)).count(), 1, "{text}: {said:?}");
    }
    assert_eq!(world.model.invalid_requests(), 0);
}

#[tokio::test]
async fn of_messages_that_come_at_once_one_finds_the_session_at_rest() {
    let world = TestServer::new(busy_then(&["Seen."])).await;
    let session = world.session().await;
    let sent = (0..5).map(|at| {
        let (world, session) = (&world, &session);
        async move { world.say(session, &format!("number {at}")).await }
    });
    let answers = futures_util::future::join_all(sent).await;
    assert_eq!(answers.iter().filter(|answer| answer["queued"] == false).count(), 1, "{answers:?}");
    world.go();
    world.until(&session, "idle").await;
    let all: String = world.said(&session).await.into_iter().map(|(_, text)| text).collect();
    for at in 0..5 {
        assert_eq!(all.matches(&format!("number {at}")).count(), 1);
    }
}

#[tokio::test]
async fn waiting_messages_are_edited_and_removed() {
    let world = TestServer::new(busy_then(&["Seen."])).await;
    let session = world.session().await;
    world.say(&session, "go").await;
    let mut ids = Vec::new();
    for text in ["first", "second", "third"] {
        ids.push(world.say(&session, text).await["id"].as_str().unwrap().to_owned());
    }
    let mut events = world.events(&session, None).await;
    let edit = world
        .request(Method::PATCH, &format!("/api/message/queue/{}", ids[0]))
        .json(&json!({ "content": "edited" }));
    expect(edit.send().await.unwrap(), StatusCode::OK).await;
    let path = format!("/api/message/queue/{}?sessionId={session}", ids[1]);
    expect(world.request(Method::DELETE, &path).send().await.unwrap(), StatusCode::OK).await;
    let gone = world.request(Method::DELETE, &path).send().await.unwrap();
    assert_eq!(expect(gone, StatusCode::NOT_FOUND).await["code"], "not-found");
    let seen = events.until("message:removed").await;
    assert!(seen.iter().any(|frame| frame.name == "message:edited" && frame.data["id"] == ids[0].as_str()));
    world.go();
    world.until(&session, "idle").await;
    assert_eq!(world.said(&session).await[3].1, "First: edited\n\nAlso: third");
}

#[tokio::test]
async fn the_queue_is_cleared_and_bounded() {
    let world = TestServer::with(busy_then(&["Seen."]), |agent| agent.rules.queue_limit = 2, |_| {}).await;
    let session = world.session().await;
    world.say(&session, "go").await;
    world.until(&session, "executing_tools").await;
    world.say(&session, "one").await;
    world.say(&session, "two").await;
    let third = world
        .request(Method::POST, "/api/message")
        .json(&json!({ "sessionId": session, "content": "three" }));
    let third = third.send().await.unwrap();
    assert!(third.headers().contains_key("retry-after"));
    assert_eq!(expect(third, StatusCode::TOO_MANY_REQUESTS).await["code"], "queue-full");
    let path = format!("/api/message/queue?sessionId={session}");
    let cleared = expect(world.request(Method::DELETE, &path).send().await.unwrap(), StatusCode::OK).await;
    assert_eq!(cleared["removed"].as_array().unwrap().len(), 2);
    world.go();
    world.until(&session, "idle").await;
    assert_eq!(world.said(&session).await.len(), 4, "something of the queue was taken");
}

async fn cancel(world: &TestServer, session: &str, body: Value) -> Value {
    world.post(&format!("/api/sessions/{session}/cancel"), body).await
}

#[tokio::test]
async fn cancelling_an_answer_keeps_what_was_seen() {
    let script = ModelScript::turns([slowly(&"one two three ".repeat(200)), ScriptedAnswer::text("Fresh.")]);
    let world = TestServer::new(script).await;
    let session = world.session().await;
    assert_eq!(
        cancel(&world, &session, json!({})).await,
        json!({ "ok": true, "cancelled": false, "persisted": null })
    );
    let mut events = world.events(&session, None).await;
    world.say(&session, "talk").await;
    for _ in 0..3 {
        events.until("llm:chunk").await;
    }
    world.say(&session, "and then this").await;
    let met = cancel(&world, &session, json!({})).await;
    assert_eq!(met, json!({ "ok": true, "cancelled": true, "persisted": "partial_assistant" }));
    let told = events.until("message:added").await;
    assert_eq!(told.last().unwrap().data["interrupted"], "cancelled");
    let page = world.get(&format!("/api/sessions/{session}/messages")).await;
    let partial = &page["messages"][1];
    assert_eq!(partial["interrupted"], "cancelled");
    assert!(partial["parts"][0]["text"].as_str().unwrap().starts_with("one two"));
    assert_eq!(world.get(&format!("/api/sessions/{session}")).await["queued"], 1, "the queue survives");
    world.post(&format!("/api/sessions/{session}/resume"), json!({})).await;
    world.until(&session, "idle").await;
    let said = world.said(&session).await;
    assert_eq!(said[2..], [("user".into(), "and then this".into()), ("assistant".into(), "Fresh.".into())]);
    assert_eq!(world.model.invalid_requests(), 0);
}

#[tokio::test]
async fn resuming_says_whether_there_was_anything_to_go_on_with() {
    let script = ModelScript::turns([slowly(&"one two three ".repeat(200)), slowly(&"Fresh. ".repeat(200))]);
    let world = TestServer::new(script).await;
    let session = world.session().await;
    let path = format!("/api/sessions/{session}/resume");
    let resumed = async || world.post(&path, json!({})).await;
    let nothing = resumed().await;
    assert_eq!((&nothing["resumed"], &nothing["status"]), (&json!(false), &json!("idle")));
    let mut events = world.events(&session, None).await;
    world.say(&session, "talk").await;
    events.until("llm:chunk").await;
    cancel(&world, &session, json!({})).await;
    let nothing = resumed().await;
    assert_eq!((&nothing["ok"], &nothing["resumed"]), (&json!(true), &json!(false)), "a part is an answer");
    assert!(nothing["reason"].as_str().unwrap().contains("Send a message"), "{nothing}");
    assert_eq!(world.said(&session).await.len(), 2);

    world.say(&session, "and now?").await;
    events.until("llm:chunk").await;
    let busy = resumed().await;
    assert_eq!((&busy["resumed"], &busy["status"]), (&json!(false), &json!("streaming")));
    assert!(busy["reason"].as_str().unwrap().contains("already"), "{busy}");
    world.until(&session, "idle").await;
    assert_eq!(world.get(&format!("/api/sessions/{session}")).await["lastFinishReason"], "stop");
}

#[tokio::test]
async fn cancelling_with_the_queue_leaves_nothing_to_do() {
    let world = TestServer::new(ModelScript::turns([slowly(&"word ".repeat(300))])).await;
    let session = world.session().await;
    let mut events = world.events(&session, None).await;
    world.say(&session, "talk").await;
    events.until("llm:chunk").await;
    world.say(&session, "later").await;
    cancel(&world, &session, json!({ "clearQueue": true })).await;
    let shown = world.get(&format!("/api/sessions/{session}")).await;
    assert_eq!((&shown["queued"], &shown["status"]), (&json!(0), &json!("idle")));
}

/// How many processes sleep for that long, or for longer with the same figures in front.
fn sleepers(marker: &str) -> usize {
    let found =
        std::process::Command::new("pgrep").args(["-f", &format!("^sleep {marker}")]).output().unwrap();
    found.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).count()
}

#[tokio::test]
async fn cancelling_a_tool_leaves_no_process_and_no_open_call() {
    // A child, one in the background, a grandchild, one whose parent has gone, one that ignores a hang-up.
    let marker = format!("32{}", std::process::id());
    let command = format!(
        "sleep {marker}1 & bash -c 'sleep {marker}2; true' & (sleep {marker}3 &); nohup sleep {marker}4 >/dev/null 2>&1 & \
         sleep {marker}5; wait"
    );
    let call = json!({ "command": command }).to_string();
    let script = ModelScript::turns([
        ScriptedAnswer::text("Running.").call("bash", call),
        ScriptedAnswer::text("Next."),
    ]);
    let world = TestServer::new(script).await;
    let session = world.session().await;
    world.say(&session, "run it").await;
    let all_run = async {
        while sleepers(&marker) < 5 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, all_run).await.expect("not all of them run");
    let met = cancel(&world, &session, json!({})).await;
    assert_eq!(met["persisted"], "tools_in_progress");
    assert_eq!(sleepers(&marker), 0, "a process is left");
    let page = world.get(&format!("/api/sessions/{session}/messages")).await;
    assert_eq!(page["messages"][1]["toolCalls"][0]["status"], "cancelled");
    assert_eq!(page["messages"][2]["status"], "cancelled");
    let (started, ended) = (&page["messages"][2]["startedAt"], &page["messages"][2]["at"]);
    assert!(started.is_u64() && started.as_u64() <= ended.as_u64(), "{started} to {ended}");
    world.say(&session, "and now?").await;
    world.until(&session, "idle").await;
    assert_eq!(world.said(&session).await.last().unwrap().1, "Next.");
    assert_eq!(world.model.invalid_requests(), 0);
}

#[tokio::test]
async fn a_client_that_leaves_cancels_nothing() {
    let world = TestServer::new(ModelScript::always(slowly(&"word ".repeat(60)))).await;
    let session = world.session().await;
    let mut leaving = world.events(&session, None).await;
    // On a slow machine none of those below may come through, so one is waited for.
    world.say(&session, "a message that is taken").await;
    for at in 0..5_u64 {
        let body = json!({ "sessionId": session, "content": format!("message {at}") });
        let request = world.request(Method::POST, "/api/message").json(&body).send();
        // Gone before, while or after the server takes it.
        let _ = tokio::time::timeout(Duration::from_millis(at * 2), request).await;
    }
    leaving.until("llm:chunk").await;
    drop(leaving);
    world.until(&session, "idle").await;
    let said = world.said(&session).await;
    assert_eq!(
        said.last().unwrap(),
        &("assistant".to_owned(), "word ".repeat(60).trim_end().to_owned() + " ")
    );
    assert_eq!(world.get(&format!("/api/sessions/{session}")).await["lastFinishReason"], "stop");
}

#[tokio::test]
async fn a_message_with_a_picture_reaches_the_model_once_stored() {
    let world = TestServer::new(ModelScript::always("A dot.")).await;
    let session = world.session().await;
    let pixel =
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    let parts = json!([{ "type": "text", "text": "What is this?" },
        { "type": "image", "data": pixel, "mediaType": "image/png", "name": "dot.png" }]);
    world.post("/api/message", json!({ "sessionId": session, "content": parts })).await;
    world.until(&session, "idle").await;
    let page = world.get(&format!("/api/sessions/{session}/messages")).await;
    let image = &page["messages"][0]["parts"][1];
    assert_eq!((&image["width"], &image["name"]), (&json!(1), &json!("dot.png")));
    let path = format!("/api/sessions/{session}/blobs/{}", image["blob"]["hash"].as_str().unwrap());
    let answer = world.request(Method::GET, &path).send().await.unwrap();
    assert_eq!(answer.headers()["content-type"], "image/png");
    assert_eq!(answer.bytes().await.unwrap().len() as u64, image["blob"]["bytes"].as_u64().unwrap());
}

#[tokio::test]
async fn content_without_a_type_is_known_by_its_bytes_and_keeps_its_name() {
    let world = TestServer::new(ModelScript::always("Seen.")).await;
    let session = world.session().await;
    let pixel =
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    let given = json!([
        { "type": "image", "data": pixel, "filename": "dot.png" },
        { "type": "file", "data": pixel, "fileName": "dot" },
        { "type": "file", "data": "JVBERi0xLjcK", "name": "paper.pdf" },
        { "type": "file", "data": "aGk=", "mediaType": " ", "filename": "hi.txt" },
        { "type": "file", "data": "aGk=", "mediaType": "text/markdown", "filename": "hi.md" },
    ]);
    world.post("/api/message", json!({ "sessionId": session, "content": given })).await;
    world.until(&session, "idle").await;
    let page = world.get(&format!("/api/sessions/{session}/messages")).await;
    let parts = page["messages"][0]["parts"].as_array().unwrap();
    let kept: Vec<_> = parts
        .iter()
        .map(|part| {
            ["type", "media_type", "mediaType", "name"]
                .map(|key| part[key].as_str().unwrap_or_default().to_owned())
        })
        .map(|[kind, snake, camel, name]| format!("{kind} {snake}{camel} {name}"))
        .collect();
    assert_eq!(
        kept,
        [
            "image image/png dot.png",
            "image image/png dot",
            "file application/pdf paper.pdf",
            "file text/plain hi.txt",
            "file text/markdown hi.md",
        ]
    );
    let path = format!("/api/sessions/{session}/blobs?name=dot.png");
    let bytes = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, pixel).unwrap();
    let uploaded = world.request(Method::POST, &path).body(bytes).send().await.unwrap();
    let uploaded = expect(uploaded, StatusCode::CREATED).await;
    assert_eq!((&uploaded["mediaType"], &uploaded["name"]), (&json!("image/png"), &json!("dot.png")));
}

#[tokio::test]
async fn a_first_message_that_is_refused_begins_no_session() {
    let world = TestServer::new(ModelScript::always("Yes.")).await;
    let hash = "0".repeat(64);
    for (part, status) in [
        (json!({ "type": "image", "data": "!!!", "mediaType": "image/png" }), StatusCode::BAD_REQUEST),
        (json!({ "type": "image", "data": "aGk=" }), StatusCode::BAD_REQUEST),
        (json!({ "type": "file", "data": "", "mediaType": "text/plain" }), StatusCode::BAD_REQUEST),
        (json!({ "type": "file", "data": "aGk=", "mediaType": "text" }), StatusCode::BAD_REQUEST),
        (json!({ "type": "file", "mediaType": "text/plain" }), StatusCode::BAD_REQUEST),
        (json!({ "type": "image", "blob": hash, "mediaType": "image/png" }), StatusCode::NOT_FOUND),
    ] {
        let body = json!({ "content": [{ "type": "text", "text": "see" }, part] });
        let refused = world.request(Method::POST, "/api/message").json(&body).send().await.unwrap();
        expect(refused, status).await;
    }
    assert_eq!(world.get("/api/sessions").await["sessions"].as_array().unwrap().len(), 0);
}

#[tokio::test]
async fn a_key_is_honoured_also_after_a_restart() {
    let data = tempfile::tempdir().unwrap();
    let keyed = |world: &TestServer, key: &str, session: Option<&str>| {
        let body = json!({ "sessionId": session, "content": "just once" });
        world.request(Method::POST, "/api/message").header("idempotency-key", key).json(&body)
    };
    let world = TestServer::over(data.path(), ModelScript::always("Yes."), |_| {}).await;
    let first = expect(keyed(&world, "k1", None).send().await.unwrap(), StatusCode::OK).await;
    let session = first["sessionId"].as_str().unwrap().to_owned();
    world.until(&session, "idle").await;
    let again = expect(keyed(&world, "k1", None).send().await.unwrap(), StatusCode::OK).await;
    assert_eq!(again, first, "no second session, no second message");
    let other = expect(keyed(&world, "k2", Some(&session)).send().await.unwrap(), StatusCode::OK).await;
    assert_ne!(other["messageId"], first["messageId"]);
    world.until(&session, "idle").await;
    world.crash();

    let world = TestServer::over(data.path(), ModelScript::always("Again."), |_| {}).await;
    for (key, named, expected) in
        [("k1", None, &first), ("k1", Some(session.as_str()), &first), ("k2", Some(session.as_str()), &other)]
    {
        let answer = expect(keyed(&world, key, named).send().await.unwrap(), StatusCode::OK).await;
        assert_eq!(&answer, expected, "{key}");
    }
    world.until(&session, "idle").await;
    assert_eq!(world.said(&session).await.len(), 4);
    assert_eq!(world.get("/api/sessions").await["sessions"].as_array().unwrap().len(), 1);
    let created = async |world: &TestServer| {
        let request = world.request(Method::POST, "/api/sessions").header("idempotency-key", "s1");
        expect(request.send().await.unwrap(), StatusCode::CREATED).await["id"].clone()
    };
    assert_eq!(created(&world).await, created(&world).await);
    world.end().await;
}

async fn send_with(world: &TestServer, session: &str, text: &str, metadata: Value) -> Value {
    world.post("/api/message", json!({ "sessionId": session, "content": text, "metadata": metadata })).await
}

/// What a client sends along is shown with its message wherever that is shown, also after a restart and in a fork.
#[tokio::test]
async fn metadata_is_kept_and_shown_with_its_message() {
    let data = tempfile::tempdir().unwrap();
    let busy = ScriptedAnswer::text("Working.").call("bash", UNTIL_GO);
    let script = ModelScript::turns([busy, ScriptedAnswer::text("Seen.")]);
    let world = TestServer::over(data.path(), script, |_| {}).await;
    let session = world.session().await;
    let mut events = world.events(&session, None).await;
    let first = json!({ "ticket": { "of": "a-customer" }, "at": [1, null, "\u{0}é"] });
    send_with(&world, &session, "go", first.clone()).await;
    let mut waiting = Vec::new();
    for (text, metadata) in [("one", json!({ "n": 1 })), ("two", Value::Null), ("three", json!({ "n": 3 }))] {
        waiting.push(send_with(&world, &session, text, metadata).await["id"].as_str().unwrap().to_owned());
    }
    let edit = async |id: &str, body: Value| {
        let edit = world.request(Method::PATCH, &format!("/api/message/queue/{id}?sessionId={session}"));
        expect(edit.json(&body).send().await.unwrap(), StatusCode::OK).await;
    };
    edit(&waiting[0], json!({ "content": "edited" })).await;
    edit(&waiting[2], json!({ "content": "three", "metadata": { "n": "second-thought" } })).await;
    let queue = world.get(&format!("/api/message/queue?sessionId={session}")).await;
    let queued: Vec<Option<&Value>> =
        queue["entries"].as_array().unwrap().iter().map(|entry| entry.get("metadata")).collect();
    assert_eq!(queued, [Some(&json!({ "n": 1 })), None, Some(&json!({ "n": "second-thought" }))]);
    let snapshot = world.events(&session, None).await.until("queue:snapshot").await.pop().unwrap();
    assert_eq!(snapshot.data["entries"], queue["entries"]);
    world.go();
    world.until(&session, "idle").await;

    let of_several = json!({ &*waiting[0]: { "n": 1 }, &*waiting[2]: { "n": "second-thought" } });
    let is_first = |shown: &Value| shown["metadata"] == first && shown.get("originalMetadata").is_none();
    let is_second =
        |shown: &Value| shown["originalMetadata"] == of_several && shown.get("metadata").is_none();
    let typed = events.until("run:complete").await.into_iter().filter(|frame| frame.name == "message:added");
    let typed: Vec<Value> =
        typed.map(|frame| frame.data).filter(|added| added["source"] == "typed").collect();
    assert!(typed.len() == 2 && is_first(&typed[0]) && is_second(&typed[1]), "{typed:?}");
    let last = world.get(&format!("/api/sessions/{session}")).await["lastSeq"].clone();
    let fork = world.request(Method::POST, &format!("/api/sessions/{session}/fork"));
    let fork = expect(fork.json(&json!({ "atSeq": last })).send().await.unwrap(), StatusCode::CREATED).await;
    let requests = format!("{:?}", world.model.log());
    assert!(
        requests.contains("edited") && !requests.contains("ticket") && !requests.contains("second-thought")
    );
    let counted = async |world: &TestServer| {
        world.get(&format!("/api/sessions/{session}/context")).await["total"].clone()
    };
    let total = counted(&world).await;
    world.crash();

    let world = TestServer::over(data.path(), ModelScript::always("Again."), |_| {}).await;
    for id in [session.as_str(), fork["id"].as_str().unwrap()] {
        let page = world.get(&format!("/api/sessions/{id}/messages")).await;
        let messages = page["messages"].as_array().unwrap();
        let typed: Vec<&Value> = messages.iter().filter(|one| one["role"] == "user").collect();
        assert!(typed.len() == 2 && is_first(typed[0]) && is_second(typed[1]), "{page}");
        let others = messages.iter().filter(|one| one["role"] != "user");
        assert!(others.into_iter().all(|one| one.get("metadata").is_none()));
        let export = world.request(Method::GET, &format!("/api/sessions/{id}/export")).send().await.unwrap();
        let export = export.text().await.unwrap();
        let lines: Vec<Value> = export.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let bodies = lines.iter().map(|line| &line["body"]).filter(|body| body["kind"] == "messages-taken");
        let bodies: Vec<&Value> = bodies.collect();
        assert!(is_first(bodies[0]) && is_second(&bodies[1]["coalesced"]), "{export}");
    }
    assert_eq!(counted(&world).await, total);
    world.end().await;
}

#[tokio::test]
async fn metadata_that_is_no_small_object_is_refused_and_begins_no_session() {
    let world = TestServer::new(ModelScript::always("Yes.")).await;
    let deep = (0..40).fold(json!({}), |inner, _| json!({ "a": inner }));
    let refused = [
        (json!("text"), "a JSON object, and it is a text"),
        (json!([{}]), "a JSON object, and it is a list"),
        (json!(false), "a JSON object, and it is a truth value"),
        (json!({ "a": "x".repeat(16 << 10) }), "16384 bytes of JSON at most, and it has 16392"),
        (deep, "32 levels"),
    ];
    for (metadata, why) in refused {
        let body = json!({ "content": "hello", "metadata": metadata });
        let answer = world.request(Method::POST, "/api/message").json(&body).send().await.unwrap();
        let problem = expect(answer, StatusCode::BAD_REQUEST).await;
        assert_eq!(problem["code"], "invalid-request");
        assert!(problem["detail"].as_str().unwrap().contains(why), "{problem}");
    }
    assert_eq!(world.get("/api/sessions").await["sessions"].as_array().unwrap().len(), 0);
    let largest = json!({ "a": "x".repeat((16 << 10) - 8) });
    assert_eq!(largest.to_string().len(), 16 << 10);
    let session = world.session().await;
    send_with(&world, &session, "hello", largest.clone()).await;
    let page = world.get(&format!("/api/sessions/{session}/messages")).await;
    assert_eq!(page["messages"][0]["metadata"], largest);
}

/// A key stands for all that was asked for.
#[tokio::test]
async fn a_key_that_came_with_other_metadata_is_refused() {
    let world = TestServer::new(ModelScript::always("Yes.")).await;
    let session = world.session().await;
    let keyed = async |metadata: Value, status: StatusCode| {
        let body = json!({ "sessionId": session, "content": "once", "metadata": metadata });
        let request = world.request(Method::POST, "/api/message").header("idempotency-key", "k").json(&body);
        expect(request.send().await.unwrap(), status).await
    };
    let first = keyed(json!({ "a": 1 }), StatusCode::OK).await;
    assert_eq!(keyed(json!({ "a": 1 }), StatusCode::OK).await["messageId"], first["messageId"]);
    assert_eq!(keyed(json!({ "a": 2 }), StatusCode::UNPROCESSABLE_ENTITY).await["code"], "invalid-request");
}
