//! Servers that refuse one part of a conversation: it is left out once, and the session goes on.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use longhaul::agent::Agent;
use longhaul::agents::AgentRegistry;
use longhaul::session::SwitchOutcome;
use longhaul_core::event::{EventBody, ModelChoice, RunEnd};
use longhaul_core::ids::Seq;
use longhaul_core::message::{MediaPart, Part};
use longhaul_providers::FeatureSupport;
use longhaul_providers::openai_chat::{OpenAiChatConfig, OpenAiChatProvider};
use longhaul_store::MemoryStore;
use longhaul_testkit::{ScriptedUpstream, TestSession, UpstreamAnswer, chat};
use serde_json::{Value, json};

const PNG: &[u8] = include_bytes!("media/pixel.png");

/// Returns the status and the message with which a server refuses a request, or nothing.
type Refuses = fn(&Value) -> Option<(u16, String)>;

/// A session whose server refuses some requests, and another agent whose server refuses none.
struct RefusedSession {
    test: TestSession<OpenAiChatProvider>,
    server: ScriptedUpstream,
    /// The tool calls that the model makes before it says anything, the last one first.
    calls: Arc<Mutex<Vec<Value>>>,
    _other: ScriptedUpstream,
}

async fn world(refuses: Refuses, calls: Vec<Value>) -> RefusedSession {
    let calls = Arc::new(Mutex::new(calls));
    let left = Arc::clone(&calls);
    let server = ScriptedUpstream::start_without_pages(move |request| match refuses(&request.json()) {
        Some((status, message)) => {
            let error = json!({ "message": message, "type": "BadRequestError", "code": status });
            UpstreamAnswer::Json(status, json!({ "error": error }))
        }
        None => answer(left.lock().unwrap().pop()),
    })
    .await;
    let other = ScriptedUpstream::start_without_pages(|_| answer(None)).await;
    let model = |server: &ScriptedUpstream, name: &str| {
        OpenAiChatProvider::new(OpenAiChatConfig::new(server.url("/v1"), name)).unwrap()
    };
    let agents = |mut agent: Agent, _: &_| {
        agent.limits.images = FeatureSupport::Unknown;
        agent.limits.files = FeatureSupport::Unknown;
        let other = Agent { provider: Arc::new(model(&other, "other")), ..agent.clone() };
        AgentRegistry::new("main", agent).with("other", "other", Ok(other))
    };
    let test = TestSession::with_agents(Arc::new(MemoryStore::new()), model(&server, "m"), agents).await;
    RefusedSession { test, server, calls, _other: other }
}

/// Returns an answer with the call, or with a text if there is none.
fn answer(call: Option<Value>) -> UpstreamAnswer {
    let (delta, finish) = match call {
        Some(call) => (json!({ "tool_calls": [call] }), "tool_calls"),
        None => (json!({ "content": "Seen." }), "stop"),
    };
    let events =
        [chat::delta_event("a1", &delta), chat::finish_event("a1", finish), chat::DONE_EVENT.to_owned()];
    UpstreamAnswer::Events(events.to_vec(), Duration::ZERO)
}

impl RefusedSession {
    async fn picture(&self, name: &str) -> Part {
        // The same pixel with another comment each time: pictures are known by their content.
        let mut content = PNG.to_vec();
        content.extend(name.as_bytes());
        let blob = self.test.runtime.blobs().put(content).await.unwrap();
        let name = Some(name.to_owned());
        Part::Image(MediaPart {
            blob,
            media_type: "image/png".to_owned(),
            name,
            width: Some(1),
            height: Some(1),
        })
    }

    /// Sends a message and returns how the run ended.
    async fn send(&self, parts: Vec<Part>) -> Option<RunEnd> {
        self.test.session.send(parts).await.unwrap();
        self.test.session.settled().await.unwrap().end
    }

    fn last_body(&self) -> Value {
        self.server.received().last().unwrap().json()
    }

    fn last_request(&self) -> String {
        self.last_body().to_string()
    }

    fn requests(&self) -> usize {
        self.server.received().len()
    }

    async fn omissions(&self) -> usize {
        let log = self.test.log().await;
        let restored =
            log.iter().filter(|event| matches!(event.body, EventBody::ViewRestored { .. })).count();
        log.iter().filter(|event| matches!(event.body, EventBody::PartsOmitted { .. })).count() - restored
    }
}

fn has_picture(request: &Value) -> bool {
    request["messages"].to_string().contains("\"image_url\"")
}

#[tokio::test]
async fn a_model_that_sees_no_pictures_is_learned_from_its_error() {
    let refuses: Refuses =
        |request| has_picture(request).then(|| (400, "m is not a multimodal model".to_owned()));
    let world = world(refuses, Vec::new()).await;
    assert_eq!(world.send(vec![Part::text("remember KIWI")]).await, Some(RunEnd::Stop));
    let mut watch = world.test.session.watch();
    let cat = world.picture("cat").await;
    assert_eq!(world.send(vec![Part::text("look"), cat.clone()]).await, Some(RunEnd::Stop));
    let told = std::iter::from_fn(|| watch.try_recv().ok()).find(|told| told.name == "llm:unsupported-input");
    assert!(told.unwrap().to_json().to_string().contains("does not see pictures"), "a person is told");
    assert_eq!(world.send(vec![Part::text("never mind")]).await, Some(RunEnd::Stop));
    assert!(world.last_request().contains("KIWI") && world.last_request().contains("[not shown: cat"));
    assert_eq!(world.omissions().await, 0, "another model would be shown it");

    let asked = world.requests();
    let other = world.test.runtime.create(None).await.unwrap();
    other.send(vec![cat]).await.unwrap();
    assert_eq!(other.settled().await.unwrap().end, Some(RunEnd::Stop));
    assert_eq!(world.requests(), asked + 1, "the next session knows");
}

#[tokio::test]
async fn a_limit_on_the_number_of_pictures_is_learned() {
    let refuses: Refuses = |request| {
        let count = request["messages"].to_string().matches("\"image_url\":{").count();
        (count > 2).then(|| (400, "At most 2 image(s) may be provided in one request.".to_owned()))
    };
    let world = world(refuses, Vec::new()).await;
    let mut parts = Vec::new();
    for name in ["a", "b", "c"] {
        parts.push(world.picture(name).await);
    }
    assert_eq!(world.send(parts).await, Some(RunEnd::Stop));
    let asked = world.requests();
    assert_eq!(asked, 2);
    assert_eq!(world.send(vec![world.picture("d").await]).await, Some(RunEnd::Stop));
    assert_eq!(world.requests(), asked + 1, "it is not asked for more again");
    assert!(world.last_request().contains("newer ones follow"));
}

/// The sides of the pictures of a request, in pixels: the width and height of a PNG stand in its first bytes.
fn picture_sizes(request: &Value) -> Vec<(u32, u32)> {
    let messages = request["messages"].as_array().unwrap();
    let parts = messages.iter().filter_map(|message| message["content"].as_array()).flatten();
    let urls = parts.filter_map(|part| part["image_url"]["url"].as_str());
    urls.map(|url| {
        let data = base64::prelude::BASE64_STANDARD.decode(url.split_once(',').unwrap().1).unwrap();
        let side = |at: usize| u32::from_be_bytes(data[at..at + 4].try_into().unwrap());
        (side(16), side(20))
    })
    .collect()
}

/// A picture of a size, of one colour.
fn png(width: u32, height: u32) -> Vec<u8> {
    let mut content = std::io::Cursor::new(Vec::new());
    image::DynamicImage::new_rgb8(width, height).write_to(&mut content, image::ImageFormat::Png).unwrap();
    content.into_inner()
}

#[tokio::test]
async fn a_limit_on_the_size_of_pictures_is_learned_and_the_refused_one_is_scaled() {
    let refuses: Refuses = |request| {
        let is_large = picture_sizes(request).iter().any(|(width, height)| width.max(height) > &300);
        let words = "At least one of the image dimensions exceed max allowed size: 300 pixels";
        is_large.then(|| (400, words.to_owned()))
    };
    let world = world(refuses, Vec::new()).await;
    let blob = world.test.runtime.blobs().put(png(1_200, 600)).await.unwrap();
    let large = Part::Image(MediaPart {
        blob,
        media_type: "image/png".to_owned(),
        name: Some("wide".to_owned()),
        width: Some(1_200),
        height: Some(600),
    });
    let mut watch = world.test.session.watch();
    assert_eq!(world.send(vec![Part::text("look"), large.clone()]).await, Some(RunEnd::Stop));
    assert_eq!((world.requests(), world.omissions().await), (2, 0), "it is not left out");
    let request = world.last_body();
    assert_eq!(picture_sizes(&request), [(300, 150)]);
    let told = std::iter::from_fn(|| watch.try_recv().ok()).find(|told| told.name == "llm:unsupported-input");
    assert!(told.unwrap().to_json().to_string().contains("at most 300 pixels a side"), "a person is told");

    let other = world.test.runtime.create(None).await.unwrap();
    other.send(vec![large]).await.unwrap();
    assert_eq!(other.settled().await.unwrap().end, Some(RunEnd::Stop));
    assert_eq!(world.requests(), 3, "the next session scales it before the first request");
}

#[tokio::test]
async fn a_limit_that_every_picture_keeps_leaves_the_picture_out() {
    let refuses: Refuses = |request| {
        has_picture(request).then(|| (400, "image exceeds 5 MB maximum: 6 bytes > 5242880 bytes".to_owned()))
    };
    let world = world(refuses, Vec::new()).await;
    assert_eq!(world.send(vec![Part::text("look"), world.picture("a").await]).await, Some(RunEnd::Stop));
    assert_eq!((world.requests(), world.omissions().await), (3, 1), "scaling has not helped");
}

#[tokio::test]
async fn the_picture_that_an_error_points_at_is_left_out() {
    let refuses: Refuses = |request| {
        let parts = request["messages"].as_array()?.iter().flat_map(|message| message["content"].as_array());
        let content = parts.flatten().filter(|part| part["type"] == "image_url").count();
        let message =
            request["messages"].as_array()?.iter().position(|message| message["content"].is_array())?;
        (content == 3)
            .then(|| (400, format!("messages[{message}].content[1].image_url: Could not process image")))
    };
    let world = world(refuses, Vec::new()).await;
    let parts = vec![world.picture("a").await, world.picture("b").await, world.picture("c").await];
    assert_eq!(world.send(parts).await, Some(RunEnd::Stop));
    assert!(world.last_request().contains("[Left out: b (image/png)."), "{}", world.last_request());
    assert_eq!((world.requests(), world.omissions().await), (2, 1));
}

#[tokio::test]
async fn a_server_that_fails_at_a_picture_is_not_waited_for() {
    let refuses: Refuses =
        |request| has_picture(request).then(|| (500, "cannot identify image file <_io.BytesIO>".to_owned()));
    let world = world(refuses, Vec::new()).await;
    assert_eq!(world.send(vec![world.picture("a").await]).await, Some(RunEnd::Stop));
    assert_eq!(world.requests(), 2);
}

#[tokio::test]
async fn an_error_that_says_nothing_costs_a_result_and_not_the_session() {
    let refuses: Refuses =
        |request| request["messages"].to_string().contains("POISON").then(|| (400, "Bad Request".to_owned()));
    let world = world(refuses, vec![read_call("poison.txt")]).await;
    std::fs::write(world.test.folder.path().join("poison.txt"), "POISON").unwrap();
    assert_eq!(world.send(vec![Part::text("read it")]).await, Some(RunEnd::Stop));
    assert_eq!(world.omissions().await, 1);
    assert_eq!(world.send(vec![Part::text("go on")]).await, Some(RunEnd::Stop));
}

#[tokio::test]
async fn a_parameter_that_the_server_refuses_by_name_is_left_out_and_remembered() {
    let refuses: Refuses = |request| {
        if request.get("stream_options").is_some() {
            return Some((400, "Unrecognized request argument supplied: stream_options".to_owned()));
        }
        let words = "Unsupported parameter: 'max_tokens' is not supported with this model. Use \
                     'max_completion_tokens' instead.";
        request.get("max_tokens").map(|_| (400, words.to_owned()))
    };
    let world = world(refuses, Vec::new()).await;
    let mut watch = world.test.session.watch();
    assert_eq!(world.send(vec![Part::text("hello")]).await, Some(RunEnd::Stop));
    assert_eq!((world.requests(), world.omissions().await), (3, 0));
    let request = world.last_body();
    assert!(request["max_completion_tokens"].as_u64().is_some_and(|limit| limit > 0), "{request}");
    let told: Vec<String> = std::iter::from_fn(|| watch.try_recv().ok())
        .filter(|told| told.name == "llm:error")
        .map(|told| told.to_json().to_string())
        .collect();
    for name in ["`stream_options`", "`max_tokens`"] {
        assert_eq!(told.iter().filter(|text| text.contains(name)).count(), 1, "{name}: {told:?}");
    }

    let other = world.test.runtime.create(None).await.unwrap();
    other.send(vec![Part::text("hello")]).await.unwrap();
    assert_eq!(other.settled().await.unwrap().end, Some(RunEnd::Stop));
    assert_eq!(world.requests(), 4, "the next session knows");
}

#[tokio::test]
async fn a_parameter_that_is_refused_although_it_was_not_sent_ends_the_run() {
    let refuses: Refuses = |_| Some((400, "Unsupported parameter: 'temperature'".to_owned()));
    let world = world(refuses, Vec::new()).await;
    assert_eq!(world.send(vec![Part::text("hello")]).await, Some(RunEnd::Error));
    assert_eq!(world.requests(), 2, "it is believed once");
}

#[tokio::test]
async fn a_damaged_picture_is_never_sent() {
    let refuses: Refuses = |request| has_picture(request).then(|| (400, "no pictures today".to_owned()));
    let world = world(refuses, vec![read_call("broken.png")]).await;
    std::fs::write(world.test.folder.path().join("broken.png"), &PNG[..PNG.len() / 2]).unwrap();
    assert_eq!(world.send(vec![Part::text("read it")]).await, Some(RunEnd::Stop));
    assert!(world.last_request().contains("the picture is damaged"), "{}", world.last_request());
    assert_eq!((world.requests(), world.omissions().await), (2, 0));
}

#[tokio::test]
async fn a_message_that_a_filter_refuses_does_not_poison_the_session() {
    let refuses: Refuses = |request| {
        let is_bad = request["messages"].to_string().contains("awful");
        is_bad.then(|| (400, "The prompt was blocked by the content management policy".to_owned()))
    };
    let world = world(refuses, Vec::new()).await;
    assert_eq!(world.send(vec![Part::text("hello")]).await, Some(RunEnd::Stop));
    assert_eq!(world.send(vec![Part::text("awful")]).await, Some(RunEnd::Error));
    assert_eq!(world.send(vec![Part::text("never mind")]).await, Some(RunEnd::Stop));
    assert!(!world.last_request().contains("awful"));
}

fn read_call(path: &str) -> Value {
    json!({ "index": 0, "id": format!("c-{path}"), "type": "function",
        "function": { "name": "read", "arguments": json!({ "path": path }).to_string() } })
}

/// Writes a file in which a bad line stands among others.
fn write_poison(world: &RefusedSession, name: &str) {
    let around = "A line of which nobody needs to know anything later.\n".repeat(60);
    std::fs::write(world.test.folder.path().join(name), format!("{around}POISON of {name}\n{around}"))
        .unwrap();
}

/// Makes the model read two files with a bad line each, in two turns. Returns also a position at which the session was
/// at rest before.
async fn after_two_outputs(refuses: Refuses) -> (RefusedSession, Seq) {
    let world = world(refuses, Vec::new()).await;
    assert_eq!(world.send(vec![Part::text("remember KIWI")]).await, Some(RunEnd::Stop));
    let before = world.test.log().await.len() as Seq;
    for name in ["one.txt", "two.txt"] {
        write_poison(&world, name);
        world.calls.lock().unwrap().push(read_call(name));
        assert_eq!(world.send(vec![Part::text(format!("read {name}"))]).await, Some(RunEnd::Stop));
    }
    (world, before)
}

#[tokio::test]
async fn two_outputs_that_become_unwelcome_later_cost_no_session() {
    let refuses: Refuses = |request| {
        let messages = request["messages"].to_string();
        (messages.contains("POISON") && messages.contains("be strict"))
            .then(|| (400, "Bad Request".to_owned()))
    };
    let (world, _) = after_two_outputs(refuses).await;
    assert_eq!(world.send(vec![Part::text("be strict")]).await, Some(RunEnd::Stop));
    assert_eq!(world.omissions().await, 1, "one undo would put back both");
    let asked = world.requests();
    assert_eq!(world.send(vec![Part::text("go on")]).await, Some(RunEnd::Stop));
    assert_eq!(world.requests(), asked + 1, "nothing that was refused is sent again");
    assert!(world.last_request().contains("KIWI") && !world.last_request().contains("POISON"));
}

/// A session that its server refuses for good: the user's own words are to blame, which no guess leaves out.
async fn stuck() -> (RefusedSession, Seq) {
    let refuses: Refuses = |request| {
        let messages = request["messages"].to_string();
        (messages.contains("read one.txt") && messages.contains("be strict"))
            .then(|| (400, "Bad Request".to_owned()))
    };
    let (world, before) = after_two_outputs(refuses).await;
    for words in ["be strict", "go on"] {
        assert_eq!(world.send(vec![Part::text(words)]).await, Some(RunEnd::Error), "{words}");
    }
    assert_eq!(world.omissions().await, 0, "no guess has helped");
    (world, before)
}

#[tokio::test]
async fn another_model_frees_a_session_with_refused_parts() {
    let (world, _) = stuck().await;
    let other = ModelChoice { agent: Some("other".to_owned()), model: None };
    assert_eq!(world.test.runtime.switch(&world.test.session, other).await.unwrap(), SwitchOutcome::Now);
    assert_eq!(world.send(vec![Part::text("go on")]).await, Some(RunEnd::Stop));
}

#[tokio::test]
async fn a_fork_from_before_frees_a_session_with_refused_parts() {
    let (world, before) = stuck().await;
    let fork = world.test.runtime.fork(world.test.session.id(), before).await.unwrap();
    fork.send(vec![Part::text("be strict, and go on")]).await.unwrap();
    assert_eq!(fork.settled().await.unwrap().end, Some(RunEnd::Stop));
    assert!(world.last_request().contains("KIWI"), "{}", world.last_request());
}

#[tokio::test]
async fn a_failure_that_no_wait_mends_is_not_told_as_recoverable() {
    let refuses: Refuses = |request| {
        let asked = request["messages"].as_array().and_then(|all| all.last()).map(Value::to_string)?;
        let cases = [(429, "Insufficient balance"), (402, "pay"), (302, "look elsewhere")];
        // Messages that were not answered stand in one with the newest.
        let asked_at = |(status, _): &(u16, &str)| asked.rfind(&format!("case {status}"));
        let case = cases.into_iter().max_by_key(asked_at)?;
        asked_at(&case).map(|_| (case.0, case.1.to_owned()))
    };
    let world = world(refuses, Vec::new()).await;
    for (status, code) in [(429, "auth"), (402, "auth"), (302, "third-party")] {
        let mut watch = world.test.session.watch();
        assert_eq!(world.send(vec![Part::text(format!("case {status}"))]).await, Some(RunEnd::Error));
        let told: Vec<Value> = std::iter::from_fn(|| watch.try_recv().ok())
            .filter(|told| told.name == "llm:error")
            .map(|told| told.to_json())
            .collect();
        assert_eq!(told.len(), 1, "no wait helps, so the request is not repeated: {told:?}");
        assert_eq!((&told[0]["code"], &told[0]["recoverable"]), (&json!(code), &json!(false)), "{told:?}");
    }
}
