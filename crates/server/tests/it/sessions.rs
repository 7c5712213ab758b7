//! Sessions and what can be asked of them.

use longhaul_core::history::History;
use longhaul_providers::scripted::{ModelScript, ScriptedAnswer};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::test_server::{TestServer, expect};

fn prose(seed: u64) -> String {
    (0..300).map(|at| format!("w{} ", (seed * 7_919 + at * 104_729) % 99_991)).collect()
}

/// A session that has had several long turns.
async fn long_session() -> (TestServer, String) {
    let script = ModelScript::closure(|request: &longhaul_providers::ModelRequest, index| {
        let is_summary = longhaul_providers::scripted::is_summary_request(request);
        (!is_summary).then(|| ScriptedAnswer::text(format!("In src/part{index}.rs: {}", prose(index))))
    });
    let world = TestServer::new(script).await;
    let session = world.session().await;
    for turn in 0..6 {
        world.say(&session, &format!("turn {turn}, the marker is m-{turn}-x")).await;
        world.until(&session, "idle").await;
    }
    (world, session)
}

#[tokio::test]
async fn sessions_are_made_listed_renamed_and_deleted() {
    let world = TestServer::new(ModelScript::always("Yes.")).await;
    let made = world
        .request(Method::POST, "/api/sessions")
        .json(&json!({ "title": " First " }))
        .send()
        .await
        .unwrap();
    let made = expect(made, StatusCode::CREATED).await;
    assert_eq!(
        (&made["title"], &made["status"], &made["compactionCount"]),
        (&json!("First"), &json!("idle"), &json!(0))
    );
    let path = format!("/api/sessions/{}", made["id"].as_str().unwrap());
    let renamed =
        world.request(Method::PATCH, &path).json(&json!({ "title": "Second" })).send().await.unwrap();
    assert_eq!(expect(renamed, StatusCode::OK).await["title"], "Second");
    let begun = world.post("/api/message", json!({ "content": "no session\nwas named" })).await;
    world.until(begun["sessionId"].as_str().unwrap(), "idle").await;
    let listed = world.get("/api/sessions?limit=10").await;
    let titles: Vec<&Value> =
        listed["sessions"].as_array().unwrap().iter().map(|session| &session["title"]).collect();
    assert_eq!(titles, ["no session was named", "Second"]);
    let shown = world.get(&format!("/api/sessions/{}", begun["sessionId"].as_str().unwrap())).await;
    assert!(shown["tokenUsage"]["totalTokens"].as_u64().unwrap() > 0);
    expect(world.request(Method::DELETE, &path).send().await.unwrap(), StatusCode::OK).await;
    for method in [Method::GET, Method::DELETE] {
        let gone = world.request(method, &path).send().await.unwrap();
        assert_eq!(expect(gone, StatusCode::NOT_FOUND).await["code"], "not-found");
    }
}

#[tokio::test]
async fn messages_come_in_pages_both_ways() {
    let (world, session) = long_session().await;
    let path = format!("/api/sessions/{session}/messages");
    let all = world.get(&path).await["messages"].as_array().unwrap().clone();
    assert_eq!(all.len(), 12);
    let usage = all[1]["tokenUsage"]["inputTokens"].as_u64().unwrap();
    assert!(usage > 0 && all[0]["at"].as_u64().unwrap() > 1_600_000_000_000);
    for backwards in [false, true] {
        let mut found: Vec<Value> = Vec::new();
        let mut query = if backwards { "?limit=5&before=1000000".to_owned() } else { "?limit=5".to_owned() };
        loop {
            let page = world.get(&format!("{path}{query}")).await;
            let messages = page["messages"].as_array().unwrap().clone();
            if backwards {
                found.splice(0..0, messages);
            } else {
                found.extend(messages);
            }
            match (page["after"].as_u64(), page["before"].as_u64()) {
                (Some(after), None) => query = format!("?limit=5&after={after}"),
                (None, Some(before)) => query = format!("?limit=5&before={before}"),
                _ => break,
            }
        }
        assert!(found == all, "backwards: {backwards}");
    }
}

#[tokio::test]
async fn a_compaction_is_previewed_made_listed_undone_and_released() {
    let (world, session) = long_session().await;
    let path = format!("/api/sessions/{session}");
    let before = world.get(&format!("{path}/context")).await;
    let planned = world.post(&format!("{path}/compact"), json!({ "dryRun": true })).await;
    assert_eq!(planned["plan"]["action"], "summarise");
    assert_eq!(
        (&planned["plan"]["survivalWithoutSummary"], &planned["plan"]["clearedResults"]),
        (&json!(true), &json!(0))
    );
    let promised = planned["plan"]["survival"]["classes"]["paths"].clone();
    let other =
        world.post(&format!("{path}/compact"), json!({ "dryRun": true, "strategy": "truncation" })).await;
    assert_eq!(
        (&other["plan"]["action"], &other["plan"]["strategy"]),
        (&json!("edit"), &json!("truncation"))
    );
    assert_eq!(other["plan"]["survivalWithoutSummary"], false);
    assert!(other["plan"]["survival"]["classes"]["paths"]["recoverableByModel"].as_u64() > Some(0));
    for name in longhaul_core::strategy::NAMES {
        let asked = world.post(&format!("{path}/compact"), json!({ "dryRun": true, "strategy": name })).await;
        let plan = &asked["plan"];
        assert!(plan["strategy"] == *name || plan["action"] == "nothing", "{name}: {asked}");
    }
    assert_eq!(world.get(&format!("{path}/context")).await, before, "nothing was changed");

    let done = world.post(&format!("{path}/compact"), json!({ "instructions": "mind the markers" })).await;
    assert_eq!(
        (&done["compacted"], &done["compaction"]["strategy"]),
        (&json!(true), &json!("reactive-overflow"))
    );
    let id = done["compaction"]["id"].as_str().unwrap().to_owned();
    let kept = &done["compaction"]["survival"]["classes"]["paths"];
    let total = |tally: &Value| tally.as_object().unwrap().values().filter_map(Value::as_u64).sum::<u64>();
    assert_eq!(total(&promised), total(kept));
    assert!(promised["recoverableByModel"].as_u64() > Some(0), "{promised}");
    assert!(promised["verbatim"].as_u64() < kept["verbatim"].as_u64(), "the summary kept more: {kept}");
    let after = world.get(&format!("{path}/context")).await;
    assert!(after["total"].as_u64() < before["total"].as_u64());
    let page = world.get(&format!("{path}/messages")).await;
    let messages = page["messages"].as_array().unwrap();
    assert!(messages[0]["summarizedAt"].is_u64(), "{}", messages[0]);
    assert_eq!(messages.iter().filter(|message| message["isSummary"] == true).count(), 1);
    assert_eq!(messages.len(), 13, "nothing is lost");

    assert_eq!(done["compaction"]["undo"], "possible");
    let undone = world.post(&format!("{path}/compactions/{id}/undo"), json!({})).await;
    assert_eq!(undone["compactionId"], json!(id));
    let again = world.request(Method::POST, &format!("{path}/compactions/{id}/undo")).send().await.unwrap();
    assert_eq!(expect(again, StatusCode::CONFLICT).await["code"], "already-undone");
    let release = format!("{path}/compactions/{id}/release");
    world.post(&release, json!({})).await;
    let again = world.request(Method::POST, &release).send().await.unwrap();
    assert_eq!(expect(again, StatusCode::CONFLICT).await["code"], "already-released");
    let listed = world.get(&format!("{path}/compactions")).await;
    let first = &listed["compactions"][0];
    assert!(first.get("survival").is_none(), "a list is short");
    assert_eq!(
        (&first["active"], &first["released"], &first["undo"]),
        (&json!(false), &json!(true), &json!("undone"))
    );

    let truncated = world.post(&format!("{path}/compact"), json!({ "strategy": "truncation" })).await;
    assert_eq!(truncated["compaction"]["strategy"], "truncation");
    let active = truncated["compaction"]["id"].as_str().unwrap();
    let release = world.request(Method::POST, &format!("{path}/compactions/{active}/release")).send();
    assert_eq!(expect(release.await.unwrap(), StatusCode::CONFLICT).await["code"], "not-undone");
    let unknown = world.request(Method::POST, &format!("{path}/compactions/e999/release")).send();
    assert_eq!(expect(unknown.await.unwrap(), StatusCode::NOT_FOUND).await["code"], "not-found");
    let usual = world.get(&format!("{path}/context")).await;
    assert_eq!(usual["thresholds"][0]["name"], "reactive-overflow", "the configured strategy is back");
}

#[tokio::test]
async fn a_fork_recall_and_export_have_the_whole_past() {
    let (world, session) = long_session().await;
    let path = format!("/api/sessions/{session}");
    world.post(&format!("{path}/compact"), json!({})).await;
    let last = world.get(&path).await["lastSeq"].as_u64().unwrap();
    let fork = world
        .request(Method::POST, &format!("{path}/fork"))
        .json(&json!({ "atSeq": last }))
        .send()
        .await
        .unwrap();
    let fork = expect(fork, StatusCode::CREATED).await;
    assert_eq!(fork["forkedFrom"], json!({ "sessionId": session, "atSeq": last }));
    let fork = fork["id"].as_str().unwrap().to_owned();
    assert_eq!(world.said(&fork).await, world.said(&session).await);
    let beyond = world
        .request(Method::POST, &format!("{path}/fork"))
        .json(&json!({ "atSeq": 10_000 }))
        .send()
        .await
        .unwrap();
    expect(beyond, StatusCode::NOT_FOUND).await;

    let found = world.get(&format!("/api/sessions/{fork}/recall?query=m-2-x&limit=1")).await;
    assert!(found["text"].as_str().unwrap().contains("turn 2, the marker is m-2-x"), "{found}");
    let hit = &found["hits"][0];
    assert_eq!(found["hits"].as_array().unwrap().len(), 1);
    assert!(hit["text"].as_str().unwrap().contains("the marker is m-2-x"), "{hit}");
    assert_eq!((&hit["speaker"], &hit["handle"]), (&json!("user"), &format!("lh:{}", hit["seq"]).into()));
    let nothing = world.get(&format!("{path}/recall?query=xylophone")).await;
    assert_eq!(nothing, json!({ "sessionId": session, "text": "", "hits": [] }));
    let original = world.get(&format!("{path}/recall?handle=lh:3")).await;
    assert_eq!((&original["text"], &original["hits"]), (&json!("turn 0, the marker is m-0-x"), &Value::Null));
    for (query, status) in [
        ("handle=lh:9999", 404),
        ("handle=nonsense", 400),
        ("handle=lh:3&range=9-1", 400),
        ("", 400),
        ("query=%20", 400),
        ("query=a&limit=0", 400),
    ] {
        let answer = world.request(Method::GET, &format!("{path}/recall?{query}")).send().await.unwrap();
        assert_eq!(answer.status().as_u16(), status, "{query}");
    }

    let file = world.request(Method::GET, &format!("{path}/export")).send().await.unwrap();
    assert!(file.headers()["content-disposition"].to_str().unwrap().contains(&session));
    let imported = longhaul::import::import(&file.bytes().await.unwrap(), 0).unwrap();
    let events = world.app.runtime().log(&session.as_str().into()).await.unwrap();
    assert_eq!(imported.sessions[0].events.len(), events.len());
    assert!(History::fold(&events).is_ok());
    let text = world.request(Method::GET, &format!("{path}/export?format=markdown")).send().await.unwrap();
    assert!(text.text().await.unwrap().contains("m-0-x"));
}

#[tokio::test]
async fn content_is_read_by_the_session_that_sent_it_and_by_no_other() {
    let world = TestServer::new(ModelScript::always("Yes.")).await;
    let (one, two) = (world.session().await, world.session().await);
    let upload = world.request(Method::POST, &format!("/api/sessions/{one}/blobs?name=notes.txt"));
    let upload =
        upload.header("content-type", "text/plain").body("the secret of session one").send().await.unwrap();
    let upload = expect(upload, StatusCode::CREATED).await;
    let hash = upload["hash"].as_str().unwrap();
    let read = async |session: &str| {
        world.request(Method::GET, &format!("/api/sessions/{session}/blobs/{hash}")).send().await.unwrap()
    };
    expect(read(&one).await, StatusCode::NOT_FOUND).await;
    let stolen = json!({ "sessionId": two, "content": [{ "type": "text", "text": "read" }, upload["part"]] });
    let stolen = world.request(Method::POST, "/api/message").json(&stolen).send().await.unwrap();
    assert_eq!(expect(stolen, StatusCode::NOT_FOUND).await["code"], "not-found");
    assert!(world.said(&two).await.is_empty());

    let own = json!({ "sessionId": one, "content": [{ "type": "text", "text": "read" }, upload["part"]] });
    world.post("/api/message", own).await;
    world.until(&one, "idle").await;
    let answer = read(&one).await;
    assert_eq!(answer.headers()["content-type"], "application/octet-stream", "only pictures are shown");
    assert_eq!(answer.text().await.unwrap(), "the secret of session one");
    expect(read(&two).await, StatusCode::NOT_FOUND).await;
}
