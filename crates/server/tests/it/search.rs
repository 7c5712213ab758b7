//! Sessions by what was said in them.

use longhaul_core::event::EventBody;
use longhaul_core::message::{BlobRef, MediaPart, Message, Part, Role};
use longhaul_providers::ModelRequest;
use longhaul_providers::scripted::{ModelScript, ScriptedAnswer};
use reqwest::Method;
use serde_json::{Value, json};

use crate::test_server::TestServer;

async fn told(world: &TestServer, title: &str, text: &str) -> String {
    let made = world.post("/api/sessions", json!({ "title": title })).await;
    let session = made["id"].as_str().unwrap().to_owned();
    world.say(&session, text).await;
    world.until(&session, "idle").await;
    session
}

fn brief(found: &Value) -> Vec<(String, bool, String)> {
    let hits = found["hits"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap_or("title").to_owned();
    hits.map(|hit| (text(&hit["sessionId"]), hit["seq"].is_null(), text(&hit["role"]))).collect()
}

#[tokio::test]
async fn titles_and_messages_are_found_the_newest_session_first() {
    let world = TestServer::new(ModelScript::always("An answer about Marmalade.")).await;
    let old = told(&world, "Breakfast", "What of toast?").await;
    let new = told(&world, "marmalade again", "And butter, with JAM?").await;
    let found = world.get("/api/search?q=MARMALADE").await;
    assert_eq!((&found["complete"], &found["incompleteReasons"]), (&json!(true), &json!([])));
    let expected = [(&new, true, "title"), (&new, false, "assistant"), (&old, false, "assistant")]
        .map(|(id, is_title, role)| (id.clone(), is_title, role.to_owned()));
    assert_eq!(brief(&found), expected);
    assert_eq!(found["hits"][1]["text"], "An answer about Marmalade.");
    assert_eq!(brief(&world.get("/api/search?q=jam%20butter").await), [(new, false, "user".to_owned())]);
    assert_eq!(world.get("/api/search?q=jam%20toast").await["hits"], json!([]), "all words in one message");
    let first = world.get("/api/search?q=marmalade&limit=1").await;
    assert_eq!((first["hits"].as_array().unwrap().len(), &first["complete"]), (1, &json!(false)));
    assert_eq!(first["incompleteReasons"], json!(["more-hits"]));
}

#[tokio::test]
async fn a_session_gives_its_newest_messages() {
    let world = TestServer::new(ModelScript::always("Yes.")).await;
    let session = world.session().await;
    for at in 0..5 {
        world.say(&session, &format!("needle {at}")).await;
        world.until(&session, "idle").await;
    }
    let found = world.get("/api/search?q=needle").await;
    let texts: Vec<&str> =
        found["hits"].as_array().unwrap().iter().map(|hit| hit["text"].as_str().unwrap()).collect();
    assert_eq!(texts, ["needle 4", "needle 3", "needle 2"]);
    assert_eq!(found["complete"], false, "there are two more");
    assert_eq!(found["incompleteReasons"], json!(["more-hits"]));
    let agents = world.get("/api/agents").await;
    assert_eq!(
        (&agents["agents"][0]["name"], &agents["agents"][0]["isDefault"]),
        (&json!("default"), &json!(true))
    );
}

/// Of a log that is longer than what one search looks through, the newest part is looked through, and it is said that
/// the rest was not.
#[tokio::test]
async fn a_long_log_is_searched_from_its_end_and_not_called_complete() {
    let world = TestServer::new(ModelScript::always("Yes.")).await;
    let started =
        EventBody::SessionStarted { title: None, forked_from: None, imported_from: None, folder: None };
    let said = |text: String| {
        let message = Message::user("m", vec![Part::text(text)]);
        EventBody::message_taken(message)
    };
    let mut events = vec![(1, started), (1, said("an old needle".to_owned()))];
    events.extend((0..40_010).map(|at| (2, said(format!("hay {at}")))));
    events.push((3, said("a new needle".to_owned())));
    world.app.runtime().create_with(None, events).await.unwrap();
    let found = world.get("/api/search?q=needle").await;
    let texts: Vec<&str> =
        found["hits"].as_array().unwrap().iter().map(|hit| hit["text"].as_str().unwrap()).collect();
    assert_eq!((texts, &found["complete"]), (vec!["a new needle"], &json!(false)));
    assert_eq!(found["incompleteReasons"], json!(["too-many-events"]));
}

/// What a tool gave is found, and the name under which it is recalled.
#[tokio::test]
async fn outputs_of_tools_are_found_and_hits_can_be_recalled() {
    let script =
        ModelScript::closure(|request: &ModelRequest, _| match request.messages.last().unwrap().role {
            Role::Tool => ScriptedAnswer::text("Done."),
            _ => ScriptedAnswer::text("I look.").call("bash", r#"{"command":"echo a quokka | tr a-z A-Z"}"#),
        });
    let world = TestServer::new(script).await;
    let session = told(&world, "Animals", "Which one?").await;
    let found = world.get("/api/search?q=quokka").await;
    let expected = ["tool", "assistant"].map(|role| (session.clone(), false, role.to_owned()));
    assert_eq!(brief(&found), expected, "the output, and the arguments of the call");
    let call = found["hits"][1]["text"].as_str().unwrap();
    assert!(call.contains("command: echo a quokka"), "{call}");
    let hit = &found["hits"][0];
    assert!(hit["text"].as_str().unwrap().contains("A QUOKKA"), "{hit}");
    let handle = hit["handle"].as_str().unwrap();
    let whole = world.get(&format!("/api/sessions/{session}/recall?handle={handle}")).await;
    assert!(whole["text"].as_str().unwrap().contains("A QUOKKA"), "{whole}");
    assert_eq!(world.get("/api/search?q=animals").await["hits"][0]["handle"], Value::Null, "a title");
}

/// The model is shown the ends of a long output; a search reads all of it, and says when it does not.
#[tokio::test]
async fn truncated_output_is_searched_as_a_whole() {
    let command =
        json!({ "command": "seq 30000 | sed 's/^15000$/a wallaby/' | sed s/wall/WALL/" }).to_string();
    let script =
        ModelScript::closure(move |request: &ModelRequest, _| match request.messages.last().unwrap().role {
            Role::Tool => ScriptedAnswer::text("Done."),
            _ => ScriptedAnswer::text("I look.").call("bash", &command),
        });
    let world = TestServer::new(script).await;
    let session = told(&world, "Animals", "Which one?").await;
    let page = world.get(&format!("/api/sessions/{session}/messages")).await;
    assert_eq!(page["messages"][2]["truncated"], true);
    let found = world.get("/api/search?q=14999%20wallaby%2015001").await;
    assert_eq!(brief(&found), [(session, false, "tool".to_owned())]);
    assert!(found["hits"][0]["text"].as_str().unwrap().contains("14999 a WALLaby 15001"), "{found}");
    assert_eq!((&found["complete"], &found["incompleteReasons"]), (&json!(true), &json!([])));
}

/// Attached text is read too, the first 8 MiB of each file.
#[tokio::test]
async fn what_is_not_read_of_a_file_is_said() {
    let world = TestServer::new(ModelScript::always("Yes.")).await;
    let blobs = world.app.runtime().blobs();
    let mut long = "x ".repeat(5 << 20);
    long.insert_str(0, "the beginning ");
    long.push_str("the end");
    let started =
        EventBody::SessionStarted { title: None, forked_from: None, imported_from: None, folder: None };
    let file = |blob| {
        let media = MediaPart {
            blob,
            media_type: "text/plain".to_owned(),
            name: Some("notes.txt".to_owned()),
            width: None,
            height: None,
        };
        EventBody::message_taken(Message::user("m", vec![Part::File(media)]))
    };
    let events = vec![(1, started.clone()), (1, file(blobs.put(long).await.unwrap()))];
    let id = world.app.runtime().create_with(None, events).await.unwrap().id().to_string();
    for (words, hits, reasons) in [
        ("beginning", 1, json!(["too-much-content"])),
        ("end", 0, json!(["too-much-content"])),
        ("notes.txt", 1, json!([])),
    ] {
        let found = world.get(&format!("/api/search?q={words}")).await;
        assert_eq!(found["hits"].as_array().unwrap().len(), hits, "{words}: {found}");
        assert_eq!(
            (&found["incompleteReasons"], &found["complete"]),
            (&reasons, &json!(reasons == json!([])))
        );
    }
    world.request(Method::DELETE, &format!("/api/sessions/{id}")).send().await.unwrap();
    let gone = BlobRef { hash: "0".repeat(64), bytes: 5 };
    world.app.runtime().create_with(None, vec![(1, started), (1, file(gone))]).await.unwrap();
    assert_eq!(world.get("/api/search?q=end").await["incompleteReasons"], json!(["damage"]));
}
