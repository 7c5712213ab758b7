//! Events: everything once and in order, whoever comes late, leaves, or does not read.

use std::time::Duration;

use longhaul_core::ids::SessionId;
use longhaul_core::truncate::MARKER;
use longhaul_providers::scripted::{ModelScript, ScriptedAnswer};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use crate::test_server::{Dice, Events, Frame, PATIENCE, TOKEN, TestServer, slowly};

/// What the log says that every watcher must have been told.
async fn expected(world: &TestServer, session: &str) -> Vec<Value> {
    let id = SessionId::from(session);
    let mut replay = world.app.runtime().replay(&id);
    let mut all = Vec::new();
    for event in world.app.runtime().log(&id).await.unwrap() {
        let announcements = replay.take(&event).unwrap();
        // Read as a client reads it: a number's last digit may change on the way.
        all.extend(
            announcements.iter().map(|it| serde_json::from_str::<Value>(&it.to_json().to_string()).unwrap()),
        );
    }
    all
}

fn same(seen: &[Value], expected: &[Value], who: &str) {
    for (at, (seen, expected)) in seen.iter().zip(expected).enumerate() {
        assert_eq!(seen, expected, "{who}, event {at}");
    }
    assert_eq!(seen.len(), expected.len(), "{who}");
}

/// What a client has for certain: durable events up to the newest position it was given.
#[derive(Default)]
struct Seen {
    after: u64,
    kept: Vec<Value>,
    /// Events of a position that is not complete yet.
    open: Vec<Value>,
    /// Whether it goes on behind the newest `id`, which may be in the middle of a position.
    is_exact: bool,
    place: Option<String>,
    /// Bytes of streamed text: what a client that falls behind does not get.
    streamed: usize,
}

impl Seen {
    fn take(&mut self, frame: Frame) {
        if frame.data.get("seq").is_some() {
            // Events of one position may be cut in the middle by a leave, so they count only with the position's
            // end.
            self.open.push(frame.data);
        } else {
            let text = frame.data["content"].as_str().filter(|_| frame.name == "llm:chunk");
            self.streamed += text.map_or(0, str::len);
        }
        if let Some(id) = frame.id {
            assert!(id >= self.after, "{id} came after {}", self.after);
            self.after = id;
        }
        if frame.place.is_some() {
            self.place = frame.place;
        }
        if self.is_exact || frame.id.is_some() {
            self.kept.append(&mut self.open);
        }
    }

    /// Comes back to where it was.
    async fn come(&self, world: &TestServer, session: &str) -> Events {
        match &self.place {
            Some(place) if self.is_exact => world.events_behind(session, place).await,
            _ => world.events(session, Some(self.after)).await,
        }
    }

    /// What is not complete will be told again.
    fn leave(&mut self) {
        self.open.clear();
    }
}

fn eventful() -> ModelScript {
    ModelScript::closure(|request: &longhaul_providers::ModelRequest, _| {
        let last = request.messages.last().unwrap();
        let text = last.text();
        if last.role == longhaul_core::message::Role::Tool {
            slowly("That is what is there. Line one, line two, and some more of it.")
        } else if text.contains("look") {
            slowly("I look.").call("ls", "{}").call("bash", r#"{"command":"echo one; sleep 0.1; echo two"}"#)
        } else {
            slowly("Fine, then I shall say a little about it, word by word.")
        }
    })
}

/// Watches until the last run is over, leaving at random and coming back.
async fn watch(world: &TestServer, session: &str, seed: u64, last: u64) -> (Seen, u32) {
    let mut dice = Dice(seed);
    let (mut seen, mut visits) = (Seen::default(), 0);
    while seen.after < last || seen.kept.last().is_none_or(|event| event["name"] != "run:complete") {
        visits += 1;
        tokio::time::sleep(Duration::from_millis(dice.below(60))).await;
        let mut events = seen.come(world, session).await;
        let stay = Duration::from_millis(10 + dice.below(400));
        let read = async {
            while let Some(frame) = events.next().await {
                seen.take(frame);
                if seen.after >= last {
                    return;
                }
            }
        };
        // The time-out is the leave. It may come at any event.
        let _ = tokio::time::timeout(stay, read).await;
        seen.leave();
    }
    (seen, visits)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_watchers_that_come_and_go_see_everything_once_and_in_order() {
    let world = TestServer::new(eventful()).await;
    let session = world.session().await;
    let drive = async {
        for turn in 0..6 {
            world.say(&session, &format!("turn {turn}: look")).await;
            world.say(&session, "and this").await;
            world.say(&session, "and that").await;
            world.until(&session, "idle").await;
        }
    };
    // Watchers stop at the newest position; nobody knows it before the end, so they watch until then.
    let (done, last) = tokio::sync::watch::channel(u64::MAX);
    let watchers = (0..50_u64).map(|seed| {
        let (world, session, mut last) = (&world, &session, last.clone());
        async move {
            // Half of the watchers go on in the middle of a position, as browsers do.
            let mut seen = Seen { is_exact: seed % 2 == 0, ..Seen::default() };
            let mut visits = 0;
            let mut dice = Dice(seed);
            loop {
                let newest = *last.borrow_and_update();
                if newest != u64::MAX {
                    let (rest, more) = finish(world, session, seen, &mut dice, newest).await;
                    return (rest, visits + more);
                }
                visits += 1;
                let mut events = seen.come(world, session).await;
                let stay = Duration::from_millis(5 + dice.below(500));
                let _ = tokio::time::timeout(stay, async {
                    while let Some(frame) = events.next().await {
                        seen.take(frame);
                    }
                })
                .await;
                seen.leave();
                tokio::time::sleep(Duration::from_millis(dice.below(50))).await;
            }
        }
    });
    let (_, watched) = tokio::join!(
        async {
            drive.await;
            let expected = expected(&world, &session).await;
            done.send_replace(expected.last().unwrap()["seq"].as_u64().unwrap());
        },
        futures_util::future::join_all(watchers)
    );
    let expected = expected(&world, &session).await;
    assert!(expected.len() > 100, "{}", expected.len());
    for (seed, (seen, visits)) in watched.into_iter().enumerate() {
        assert!(visits > 2, "watcher {seed} never left");
        assert_eq!(seen.kept.len(), expected.len(), "watcher {seed}");
        same(&seen.kept, &expected, &format!("watcher {seed}"));
    }
}

/// Reads on to the end.
async fn finish(
    world: &TestServer,
    session: &str,
    mut seen: Seen,
    dice: &mut Dice,
    last: u64,
) -> (Seen, u32) {
    let mut visits = 0;
    while seen.after < last {
        visits += 1;
        let mut events = seen.come(world, session).await;
        for _ in 0..=dice.below(40) {
            if seen.after >= last {
                break;
            }
            seen.take(events.next().await.unwrap());
        }
        seen.leave();
    }
    (seen, visits)
}

#[tokio::test]
async fn a_session_at_rest_is_read_in_pieces_of_any_size() {
    let world = TestServer::new(eventful()).await;
    let session = world.session().await;
    world.say(&session, "look").await;
    world.until(&session, "idle").await;
    let all = expected(&world, &session).await;
    let last = all.last().unwrap()["seq"].as_u64().unwrap();
    for seed in 0..20 {
        let begun = Seen { is_exact: seed % 2 == 0, ..Seen::default() };
        let (seen, visits) = finish(&world, &session, begun, &mut Dice(seed), last).await;
        assert!(seen.kept == all, "seed {seed}, {visits} visits");
    }
    let (seen, _) = watch(&world, &session, 7, last).await;
    assert!(seen.kept == all);
}

/// What is stored, with the ids it came with, up to what waits.
async fn stored(mut events: Events) -> Vec<(String, Value)> {
    let mut all = Vec::new();
    for frame in events.until("queue:snapshot").await {
        let is_stored = frame.data.get("seq").is_some();
        all.extend(frame.place.filter(|_| is_stored).map(|place| (place, frame.data)));
    }
    all
}

/// Cuts the stream behind each of its events.
async fn cut_everywhere(world: &TestServer, session: &str) {
    let expected = expected(world, session).await;
    let whole = stored(world.events(session, Some(0)).await).await;
    let told: Vec<Value> = whole.iter().map(|(_, event)| event.clone()).collect();
    same(&told, &expected, "the whole stream");
    let parts = whole.iter().filter(|(place, _)| place.contains('.')).count();
    assert!(parts > 0, "no position means several events: {whole:?}");
    for (at, (place, event)) in whole.iter().enumerate() {
        assert!(place == &event["seq"].to_string() || place.starts_with(&format!("{}.", event["seq"])));
        let rest = stored(world.events_behind(session, place).await).await;
        assert!(whole[at + 1..] == rest, "behind {place}: {rest:?}");
    }
}

#[tokio::test]
async fn a_stream_that_is_cut_behind_any_event_goes_on_right_there() {
    // On disk, because the second server below must find the same session.
    let folder = tempfile::tempdir().unwrap();
    let world = TestServer::over(folder.path(), eventful(), |_| {}).await;
    let session = world.session().await;
    // Somebody who watches has what happens kept in memory.
    let _watching = world.events(&session, Some(0)).await;
    for text in ["look", "and this"] {
        world.say(&session, text).await;
        world.until(&session, "idle").await;
    }
    cut_everywhere(&world, &session).await;
    world.end().await;
    let again = TestServer::over(folder.path(), eventful(), |_| {}).await;
    // Now nothing is in memory, so all comes from the store.
    cut_everywhere(&again, &session).await;
}

#[tokio::test]
async fn a_part_of_an_event_that_the_log_does_not_have_is_a_gap() {
    let world = TestServer::new(ModelScript::always("Yes.")).await;
    let session = world.session().await;
    let mut events = world.events_behind(&session, "1000.2").await;
    let gap = events.next().await.unwrap();
    assert_eq!((gap.name.as_str(), &gap.data["to"]), ("stream:gap", &1_000.into()));
    let told = world.get(&format!("/api/sessions/{session}")).await["lastSeq"].as_u64();
    let mut next = world.events_behind(&session, &format!("{}.1", told.unwrap() + 1)).await;
    assert_eq!(next.next().await.unwrap().name, "stream:gap");
    world.say(&session, "hello").await;
    for mut events in [events, next] {
        let seqs =
            events.until("run:complete").await.into_iter().filter_map(|frame| frame.data["seq"].as_u64());
        assert_eq!(seqs.min(), told.map(|told| told + 1), "nothing is left out");
    }
}

/// The text of an answer as a watcher puts it together.
fn put_together(frames: &[Frame], text: &mut Vec<char>) {
    for frame in frames {
        match frame.name.as_str() {
            "llm:snapshot" => {
                let parts = frame.data["parts"].as_array().unwrap().iter();
                let spoken: String = parts
                    .filter(|part| part["type"] == "text")
                    .map(|part| part["text"].as_str().unwrap())
                    .collect();
                *text = spoken.chars().collect();
                assert_eq!(frame.data["offset"], text.len());
            }
            "llm:chunk" => {
                assert_eq!(frame.data["offset"], text.len(), "a piece is missing or comes twice");
                text.extend(frame.data["content"].as_str().unwrap().chars());
            }
            _ => {}
        }
    }
}

#[tokio::test]
async fn who_comes_in_mid_answer_gets_it_from_its_start_without_a_gap() {
    // Offsets count characters, and bytes or UTF-16 units would differ for this text.
    let answer = "Grüße an alle, 日本語 und 🦀, one two three. ".repeat(30);
    let world = TestServer::new(ModelScript::turns([slowly(&answer)])).await;
    let session = world.session().await;
    let mut first = world.events(&session, None).await;
    world.say(&session, "talk").await;
    for _ in 0..10 {
        first.until("llm:chunk").await;
    }
    let mut late = world.events(&session, None).await;
    let frames = late.until("llm:response").await;
    assert!(frames.iter().any(|frame| frame.name == "llm:snapshot"), "{frames:?}");
    let mut text = Vec::new();
    put_together(&frames, &mut text);
    assert_eq!(text.into_iter().collect::<String>(), answer);
}

#[tokio::test]
async fn a_fresh_watcher_hears_from_now_on_and_knows_where_it_is() {
    let world = TestServer::new(ModelScript::always("Yes.")).await;
    let session = world.session().await;
    world.say(&session, "before").await;
    world.until(&session, "idle").await;
    let mut events = world.events(&session, None).await;
    let first = events.next().await.unwrap();
    assert_eq!(first.name, "queue:snapshot");
    assert_eq!(first.id, expected(&world, &session).await.last().unwrap()["seq"].as_u64());
    world.say(&session, "after").await;
    let seen = events.until("message:added").await;
    assert_eq!(seen.last().unwrap().data["parts"][0]["text"], "after");
}

#[tokio::test]
async fn a_position_that_the_log_does_not_have_is_a_gap() {
    let world = TestServer::new(ModelScript::always("Yes.")).await;
    let session = world.session().await;
    // A client may bring a position of another store, after a restore from an old backup.
    let mut events = world.events(&session, Some(1_000)).await;
    let gap = events.next().await.unwrap();
    assert_eq!((gap.name.as_str(), &gap.data["to"]), ("stream:gap", &1_000.into()));
    world.say(&session, "hello").await;
    assert_eq!(events.until("run:complete").await.last().unwrap().data["finishReason"], "stop");
}

#[tokio::test]
async fn the_newest_position_of_a_browser_wins_over_the_address() {
    let world = TestServer::new(ModelScript::always("Yes.")).await;
    let session = world.session().await;
    world.say(&session, "hello").await;
    world.until(&session, "idle").await;
    let last = expected(&world, &session).await.last().unwrap()["seq"].as_u64().unwrap();
    let path = format!("/api/sessions/{session}/events?after=0");
    let request = world.request(reqwest::Method::GET, &path).header("last-event-id", last.to_string());
    let mut events = Events::of(request.send().await.unwrap());
    assert_eq!(events.next().await.unwrap().name, "queue:snapshot", "nothing is told again");
}

#[tokio::test]
async fn a_silent_stream_says_that_it_lives() {
    let config =
        |config: &mut longhaul_server::HttpServerConfig| config.heartbeat = Duration::from_millis(30);
    let world = TestServer::with(ModelScript::always("Yes."), |_| {}, config).await;
    let session = world.session().await;
    let request = world.request(reqwest::Method::GET, &format!("/api/sessions/{session}/events"));
    let mut answer = request.send().await.unwrap();
    let mut text = String::new();
    while text.matches("\n:\n").count() < 3 {
        text.push_str(std::str::from_utf8(&answer.chunk().await.unwrap().unwrap()).unwrap());
    }
    assert_eq!(text.matches("event:").count(), 1, "{text}");
}

#[tokio::test]
async fn streams_end_with_the_session_and_with_the_server() {
    let world = TestServer::new(ModelScript::always("Yes.")).await;
    let (one, two) = (world.session().await, world.session().await);
    let (mut of_one, mut of_two) = (world.events(&one, None).await, world.events(&two, None).await);
    of_one.until("queue:snapshot").await;
    of_two.until("queue:snapshot").await;
    let deleted =
        world.request(reqwest::Method::DELETE, &format!("/api/sessions/{one}")).send().await.unwrap();
    assert!(deleted.status().is_success());
    assert_eq!(of_one.next().await, None);
    world.end().await;
    assert_eq!(of_two.next().await, None);
}

/// Much to tell: more than the backlog of a session, and more than the buffers of a connection.
fn torrent() -> ModelScript {
    ModelScript::closure(|request: &longhaul_providers::ModelRequest, _| {
        let results =
            request.messages.iter().filter(|it| it.role == longhaul_core::message::Role::Tool).count();
        let answer = ScriptedAnswer::text("many words at once ".repeat(600));
        if results < 40 {
            // Every call is another one: the same again and again would be a loop.
            let command = format!("seq {results} 60000");
            answer.call("bash", serde_json::json!({ "command": command }).to_string())
        } else {
            answer
        }
    })
}

/// A client that has asked for everything and reads nothing.
async fn stuck(world: &TestServer, session: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    // Small, so that the server's side fills soon.
    socket.set_recv_buffer_size(8 << 10).unwrap();
    let mut stuck = socket.connect(world.address).await.unwrap();
    let request = format!(
        "GET /api/sessions/{session}/events?after=0 HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
    );
    stuck.write_all(request.as_bytes()).await.unwrap();
    stuck
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_system_keeps_little_for_a_stuck_client() {
    let world = TestServer::new(torrent()).await;
    let session = world.session().await;
    let mut stuck = stuck(&world, &session).await;
    world.say(&session, "go").await;
    world.until(&session, "idle").await;
    // What it gets of a server that is no more is what the system had taken.
    world.crash();
    let mut kept = Vec::new();
    stuck.read_to_end(&mut kept).await.unwrap();
    // The lower bound shows that the client was served at all.
    assert!((16 << 10..512 << 10).contains(&kept.len()), "{} bytes", kept.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stuck_client_slows_nobody_and_finds_everything_later() {
    let world = TestServer::new(torrent()).await;
    let session = world.session().await;
    let stuck = stuck(&world, &session).await;
    let mut reading = world.events(&session, Some(0)).await;
    world.say(&session, "go").await;
    let mut seen = Seen::default();
    let watched = async {
        loop {
            let frame = reading.next().await.unwrap();
            let over = frame.name == "run:complete";
            seen.take(frame);
            if over {
                return;
            }
        }
    };
    tokio::time::timeout(PATIENCE, watched).await.expect("the run is held up");
    let all = expected(&world, &session).await;
    same(&seen.kept, &all, "the client that reads");

    // Now it reads.
    let mut late = Events::of_socket(stuck);
    let mut seen = Seen::default();
    while seen.kept.len() < all.len() {
        seen.take(late.next().await.unwrap());
    }
    same(&seen.kept, &all, "the client that was stuck");
    let answers = all.iter().filter(|event| event["name"] == "llm:response");
    let said: usize = answers.filter_map(|event| event["content"].as_str()).map(str::len).sum();
    // A stuck client misses streamed pieces, but no stored event.
    assert!(seen.streamed < said, "it was not stuck: {} of {said} bytes", seen.streamed);
}

/// What passes by while a run goes on names it, and nothing else does; of a truncated output the whole can be had.
#[tokio::test]
async fn what_passes_by_names_its_run() {
    let script = ModelScript::closure(|request: &longhaul_providers::ModelRequest, _| {
        match request.messages.last().unwrap().role {
            longhaul_core::message::Role::Tool => slowly("That was it."),
            // Long enough for who comes while it is streamed.
            _ => slowly(&"I look. ".repeat(75))
                .call("bash", r#"{"command":"echo begin; sleep 0.1; seq 1 20000"}"#),
        }
    });
    let world = TestServer::new(script).await;
    let session = world.session().await;
    let mut events = world.events(&session, None).await;
    for word in ["first", "second"] {
        world.say(&session, word).await;
        let mut seen = events.until("run:started").await;
        let run_id = seen.last().unwrap().data["runId"].clone();
        assert!(run_id.is_string());
        let passes_by = |frame: &&Frame| frame.data["seq"].is_null();
        assert!(seen.iter().filter(passes_by).all(|frame| frame.data["runId"].is_null()), "{seen:?}");
        // Who comes now is shown what is in flight.
        events.until("llm:chunk").await;
        let mut late = world.events(&session, None).await;
        assert_eq!(late.until("llm:snapshot").await.last().unwrap().data["runId"], run_id);
        seen = events.until("run:complete").await;
        let mut passing = Vec::new();
        for frame in seen.iter().filter(passes_by) {
            assert_eq!(frame.data["runId"], run_id, "{frame:?}");
            passing.push(frame.name.as_str());
        }
        assert!(passing.contains(&"llm:chunk") && passing.contains(&"tool:output"), "{passing:?}");
        let result = seen.iter().find(|frame| frame.name == "llm:tool-result").unwrap();
        assert_eq!(result.data["truncated"], true);
        let marker = format!("{MARKER} ");
        let shown = result.data["sanitized"].to_string();
        assert!(shown.contains(&marker), "the event says nothing of what is missing: {shown}");
        let page = world.get(&format!("/api/sessions/{session}/messages")).await;
        let mut messages = page["messages"].as_array().unwrap().iter();
        let newest = messages.rfind(|message| message["truncated"] == true).unwrap();
        let newest = newest["parts"].to_string();
        assert!(newest.contains(&marker), "the message says nothing of what is missing: {newest}");
        let export = format!("/api/sessions/{session}/export?format=markdown");
        let export = world.request(reqwest::Method::GET, &export).send().await.unwrap().text().await.unwrap();
        assert!(export.contains(&marker), "the export says nothing of what is missing");
        let hash = result.data["rawResult"]["hash"].as_str().unwrap();
        let blob = world.request(reqwest::Method::GET, &format!("/api/sessions/{session}/blobs/{hash}"));
        let whole = blob.send().await.unwrap().text().await.unwrap();
        assert!(whole.contains("begin\n1\n2\n") && whole.contains("\n19999\n20000"), "{} bytes", whole.len());
    }
}
