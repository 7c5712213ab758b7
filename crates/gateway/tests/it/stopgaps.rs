//! Where a summary was wanted and could not be had: what stands there meanwhile, and when it gives way.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use axum::http::StatusCode;
use longhaul_gateway::{Gateway, GatewayDependencies};
use longhaul_store::prefix_cache::MemoryPrefixCache;
use serde_json::{Value, json};

use crate::shortening::{is_summary_request, pruned, spoke_of};
use crate::upstream::*;

const WELL: u8 = 0;
const AWAY: u8 = 1;
const RUBBISH: u8 = 2;

/// A model whose summaries are as a test says, a clock, and a memory that outlives gateways.
struct FallbackFixture {
    server: ScriptedUpstream,
    summariser: Arc<AtomicU8>,
    now: Arc<AtomicU64>,
    memo: Arc<MemoryPrefixCache>,
    window: u64,
}

impl FallbackFixture {
    async fn new(window: u64, state: u8) -> Self {
        let summariser = Arc::new(AtomicU8::new(state));
        let how = Arc::clone(&summariser);
        let server = start_upstream(move |number, body| {
            match (is_summary_request(body), how.load(Ordering::SeqCst)) {
                (true, AWAY) => UpstreamAnswer::Json(503, json!({ "error": "loading" })),
                (true, RUBBISH) => UpstreamAnswer::Json(200, said("I would rather talk about birds.", 50, 9)),
                (true, _) => pruned(),
                (false, _) => UpstreamAnswer::Json(200, answer(number)),
            }
        })
        .await;
        let (now, memo) = (Arc::new(AtomicU64::new(5_000)), Arc::default());
        Self { server, summariser, now, memo, window }
    }

    fn set(&self, state: u8) {
        self.summariser.store(state, Ordering::SeqCst);
    }

    fn wait(&self, seconds: u64) {
        self.now.fetch_add(seconds, Ordering::SeqCst);
    }

    fn gateway(&self) -> Gateway {
        let now = Arc::clone(&self.now);
        let now = Arc::new(move || now.load(Ordering::SeqCst));
        let parts = GatewayDependencies { memo: self.memo.clone(), now, ..GatewayDependencies::default() };
        Gateway::new(waiting(vec![self.server.upstream(self.window)]), parts).unwrap()
    }

    /// How often summaries were asked for.
    fn asked(&self) -> usize {
        self.server.summary_requests().len()
    }

    /// What the model was sent last for an answer.
    fn newest(&self) -> Vec<Value> {
        self.server.main_requests().pop().unwrap().messages()
    }
}

/// An answer that does not say how long the request was.
fn answer(number: usize) -> Value {
    let mut answer = said(&format!("answer {number}"), 0, 0);
    answer.as_object_mut().unwrap().remove("usage");
    answer
}

/// So many messages of about 90 tokens with a word of their own each, and a question.
fn long(messages: usize) -> Vec<Value> {
    let says = |at: usize| format!("topic{at} {}", words(88, at));
    let message = |at: usize| if at.is_multiple_of(2) { user(says(at)) } else { assistant(says(at)) };
    (0..messages).map(message).chain([user("go on")]).collect()
}

/// One more turn: what was done.
async fn turn(gateway: &Gateway, messages: &mut Vec<Value>) -> String {
    let reply = gateway.answer(chat(request(messages, false))).await;
    assert_eq!(reply.status, StatusCode::OK, "{:?}", reply.headers);
    let action = header(&reply, "x-longhaul-action").to_owned();
    messages.push(body_json(reply).await["choices"][0]["message"].clone());
    messages.push(user(format!("and then, {}?", messages.len())));
    action
}

fn text(messages: &[Value]) -> String {
    messages
        .iter()
        .map(|message| message["content"].as_str().unwrap_or_default())
        .collect::<Vec<_>>()
        .join("\n")
}

#[tokio::test]
async fn an_extract_gives_way_to_a_summary_once_the_model_is_back() {
    let stage = FallbackFixture::new(3_000, AWAY).await;
    let gateway = stage.gateway();
    let mut messages = long(30);
    assert_eq!(turn(&gateway, &mut messages).await, "compacted");
    let (extract, asked) = (stage.newest(), stage.asked());
    assert!(!text(&extract).contains("They spoke of stones.") && asked == 1);
    // Not again at once, and what stands there stays.
    assert_eq!((turn(&gateway, &mut messages).await.as_str(), stage.asked()), ("remembered", asked));
    assert_eq!(stage.newest()[..extract.len()], extract[..], "the same bytes before what is new");
    // It is tried again, and waited for longer.
    for (seconds, asks) in [(15, 1), (15, 0), (14, 0), (1, 1), (59, 0), (1, 1)] {
        let before = stage.asked();
        stage.wait(seconds);
        assert_eq!(turn(&gateway, &mut messages).await, "remembered");
        gateway.settle().await;
        assert_eq!(stage.asked() - before, asks, "after {seconds} s");
        assert_eq!(stage.newest()[..extract.len()], extract[..]);
    }
    stage.set(WELL);
    assert_eq!(turn(&gateway, &mut messages).await, "remembered", "its time has not come");
    stage.wait(120);
    let before = stage.asked();
    assert_eq!(turn(&gateway, &mut messages).await, "remembered", "nobody waits for it");
    assert_eq!(stage.newest()[..extract.len()], extract[..]);
    gateway.settle().await;
    assert!(stage.asked() > before, "it was written after the answer");
    let before = stage.asked();
    assert_eq!(turn(&gateway, &mut messages).await, "compacted");
    assert_eq!(stage.asked(), before, "and not once more");
    let (summary, asked) = (stage.newest(), stage.asked());
    assert!(text(&summary).contains("They spoke of stones."), "{}", text(&summary));
    assert!(!text(&summary).contains("topic3 "), "what the extract said is gone");
    stage.wait(10_000);
    for gateway in [gateway, stage.gateway()] {
        let mut messages = messages.clone();
        assert_eq!(turn(&gateway, &mut messages).await, "remembered", "also where only the memory is left");
        assert_eq!(stage.newest()[..summary.len()], summary[..]);
    }
    assert_eq!(stage.asked(), asked, "nobody is asked any more");
}

#[tokio::test]
async fn another_process_knows_that_an_extract_is_a_stopgap_and_since_when() {
    let stage = FallbackFixture::new(3_000, AWAY).await;
    let mut messages = long(30);
    turn(&stage.gateway(), &mut messages).await;
    let (extract, asked) = (stage.newest(), stage.asked());
    stage.set(WELL);
    stage.wait(14);
    assert_eq!(turn(&stage.gateway(), &mut messages.clone()).await, "remembered");
    assert_eq!((stage.asked(), &stage.newest()[..extract.len()]), (asked, &extract[..]));
    stage.wait(1);
    let gateway = stage.gateway();
    assert_eq!(turn(&gateway, &mut messages).await, "remembered");
    gateway.settle().await;
    // A third one finds it.
    assert_eq!(turn(&stage.gateway(), &mut messages).await, "remembered");
    assert!(text(&stage.newest()).contains("They spoke of stones."), "{}", text(&stage.newest()));
}

#[tokio::test]
async fn a_summary_that_is_needed_anyway_is_made_of_what_an_extract_stands_for() {
    let stage = FallbackFixture::new(3_000, AWAY).await;
    let gateway = stage.gateway();
    let mut messages = long(30);
    turn(&gateway, &mut messages).await;
    stage.set(WELL);
    let before = stage.server.received().len();
    let newest = messages.pop().unwrap();
    messages.extend(long(20));
    messages.push(assistant("yes"));
    messages.push(newest);
    // No time has gone by: but the view is full again.
    assert_eq!(turn(&gateway, &mut messages).await, "compacted");
    let sent: Vec<Value> =
        stage.server.received().split_off(before).iter().map(ReceivedRequest::json).collect();
    let read: String = sent.iter().filter(|body| is_summary_request(body)).map(Value::to_string).collect();
    assert!(read.contains("topic0 ") && read.contains("topic11 "), "the originals, not what stood for them");
    assert!(!read.contains("[SUMMARY]"));
    assert!(text(&stage.newest()).contains("They spoke of stones."), "{}", text(&stage.newest()));
}

#[tokio::test]
async fn rubbish_is_asked_for_three_times_and_no_more() {
    let stage = FallbackFixture::new(3_000, RUBBISH).await;
    let gateway = stage.gateway();
    let mut messages = long(30);
    let mut tries = Vec::new();
    for _ in 0..8 {
        let before = stage.asked();
        turn(&gateway, &mut messages).await;
        gateway.settle().await;
        assert!(stage.asked() - before <= 4, "two parts, each twice, show what it can do");
        tries.push(stage.asked() > before);
        // So that the model may be a pruning agent again.
        stage.wait(4_000);
    }
    assert_eq!(tries, [true, true, true, false, false, false, false, false]);
    let before = stage.asked();
    stage.set(WELL);
    assert_eq!(turn(&stage.gateway(), &mut messages).await, "remembered", "nor by another process");
    assert_eq!(stage.asked(), before);
}

#[tokio::test]
async fn branches_that_find_an_extract_due_ask_once() {
    let stage = FallbackFixture::new(3_000, AWAY).await;
    let gateway = stage.gateway();
    let mut messages = long(30);
    turn(&gateway, &mut messages).await;
    stage.set(WELL);
    let branch = |at: usize| {
        let mut messages = messages.clone();
        messages.extend([assistant("and now?"), user(format!("this is branch {at}"))]);
        messages
    };
    // Each is a conversation of its own, with the extract in it.
    for at in 0..4 {
        assert_eq!(turn(&gateway, &mut branch(at)).await, "remembered");
    }
    let asked = stage.asked();
    stage.wait(15);
    let turns = (0..4).map(|at| {
        let (gateway, mut messages) = (gateway.clone(), branch(at));
        messages.extend([assistant("yes"), user("go on")]);
        async move { turn(&gateway, &mut messages).await }
    });
    let actions = futures_util::future::join_all(turns).await;
    gateway.settle().await;
    let requests: std::collections::BTreeSet<_> =
        stage.server.summary_requests().into_iter().map(|sent| sent.body).collect();
    assert_eq!(requests.len(), stage.asked(), "no piece is asked for twice");
    assert!(stage.asked() > asked, "{actions:?}");
    let mut messages = branch(2);
    messages.extend([assistant("yes"), user("go on"), assistant("yes"), user("and?")]);
    turn(&gateway, &mut messages).await;
    assert!(text(&stage.newest()).contains("They spoke of stones."), "{}", text(&stage.newest()));
}

#[tokio::test]
async fn nobody_waits_for_a_summary_that_is_tried_again() {
    for stream in [false, true] {
        let (release, released) = tokio::sync::watch::channel(false);
        let away = Arc::new(AtomicU8::new(AWAY));
        let how = Arc::clone(&away);
        let server = start_upstream(move |number, body| match (is_summary_request(body), stream) {
            (true, _) if how.load(Ordering::SeqCst) == AWAY => {
                UpstreamAnswer::Json(503, json!({ "error": "loading" }))
            }
            (true, _) => UpstreamAnswer::When(released.clone(), Box::new(pruned())),
            (false, false) => UpstreamAnswer::Json(200, answer(number)),
            (false, true) => {
                UpstreamAnswer::Events(streamed("a", &format!("answer {number}"), None), Duration::ZERO)
            }
        })
        .await;
        let now = Arc::new(AtomicU64::new(7));
        let clock = Arc::clone(&now);
        let parts = GatewayDependencies {
            now: Arc::new(move || clock.load(Ordering::SeqCst)),
            ..GatewayDependencies::default()
        };
        let gateway = Gateway::new(waiting(vec![server.upstream(3_000)]), parts).unwrap();
        let asked = || server.summary_requests().len();
        let mut messages = long(30);
        assert_eq!(turn(&gateway, &mut messages).await, "compacted");
        away.store(WELL, Ordering::SeqCst);
        now.store(100, Ordering::SeqCst);
        let before = asked();
        for at in 0..3 {
            let reply = gateway.answer(chat(request(&messages, stream))).await;
            assert_eq!(header(&reply, "x-longhaul-action"), "remembered");
            if at == 0 && stream {
                assert_eq!(asked(), before, "not before the answer is over");
            }
            assert!(!body(reply).await.is_empty());
            messages.extend([assistant("yes"), user(format!("and then, {at}?"))]);
        }
        // It hangs, and is asked for once only.
        while asked() == before {
            tokio::task::yield_now().await;
        }
        turn(&gateway, &mut messages).await;
        assert_eq!(asked(), before + 1);
        release.send(true).unwrap();
        gateway.settle().await;
        let reply = gateway.answer(chat(request(&messages, false))).await;
        assert_eq!(header(&reply, "x-longhaul-action"), "compacted");
        assert!(header(&reply, "x-longhaul-reason").contains("an extract stood in its place until now"));
        let calls = asked() - before;
        let total = body_json(reply).await["x_longhaul"].clone();
        assert_eq!(total["calls"], calls + 1, "its calls are told where it is used: {total}");
        // What answers reports nothing: it is counted by us.
        let own = total["tokens_after"].as_u64().unwrap();
        assert_eq!(total["billed"]["input_tokens"], 100 * calls as u64 + own, "{total}");
        let sent = server.received().pop().unwrap().json();
        assert!(sent.to_string().contains("They spoke of stones."));
        let next = gateway.answer(chat(request(&messages, false))).await;
        assert_eq!(header(&next, "x-longhaul-action"), "remembered");
        assert!(body_json(next).await.get("x_longhaul").is_none(), "and once only");
    }
}

#[tokio::test]
async fn a_summary_that_hangs_holds_up_neither_who_hangs_up_nor_the_end() {
    let away = Arc::new(AtomicU8::new(AWAY));
    let how = Arc::clone(&away);
    let server =
        start_upstream(move |number, body| match (is_summary_request(body), how.load(Ordering::SeqCst)) {
            (true, AWAY) => UpstreamAnswer::Json(503, json!({ "error": "loading" })),
            (true, _) => UpstreamAnswer::Hangs,
            (false, AWAY) => UpstreamAnswer::Json(200, answer(number)),
            (false, _) => UpstreamAnswer::Stalls(streamed("a", "slow words", None)[..2].to_vec()),
        })
        .await;
    let now = Arc::new(AtomicU64::new(7));
    let clock = Arc::clone(&now);
    let memo: Arc<MemoryPrefixCache> = Arc::default();
    let parts = GatewayDependencies {
        memo: memo.clone(),
        now: Arc::new(move || clock.load(Ordering::SeqCst)),
        ..GatewayDependencies::default()
    };
    let gateway = Gateway::new(waiting(vec![server.upstream(3_000)]), parts).unwrap();
    let asked = || server.summary_requests().len();
    let mut messages = long(30);
    turn(&gateway, &mut messages).await;
    away.store(WELL, Ordering::SeqCst);
    now.store(100, Ordering::SeqCst);
    let before = asked();
    let reply = gateway.answer(chat(request(&messages, true))).await;
    assert_eq!(asked(), before);
    // The client goes: what waits for the end of its request begins.
    drop(reply);
    while asked() == before {
        tokio::task::yield_now().await;
    }
    gateway.stop().await;
    gateway.settle().await;
    // Nothing is lost: whoever comes next tries it again.
    away.store(AWAY, Ordering::SeqCst);
    turn(&gateway, &mut messages).await;
    gateway.settle().await;
    assert!(asked() > before + 1);
}

#[tokio::test]
async fn an_extract_uses_the_room_there_is_and_promises_nothing() {
    let stage = FallbackFixture::new(12_000, AWAY).await;
    let gateway = stage.gateway();
    let messages = long(110);
    let reply = gateway.answer(chat(request(&messages, false))).await;
    assert_eq!(header(&reply, "x-longhaul-action"), "compacted");
    let after: u64 = header(&reply, "x-longhaul-tokens-after").parse().unwrap();
    assert!((3_500..6_000).contains(&after), "{after} of a window of 12000");
    let sent = text(&stage.newest());
    // What went last is there word for word.
    let said = messages[100]["content"].as_str().unwrap();
    assert!(sent.contains(said), "{sent}");
    assert!(!sent.to_lowercase().contains("recall") && !sent.contains("lh:"), "{sent}");
    // One long message is there with both its ends.
    let beginning = format!("alpha {} omega", words(9_000, 1));
    let messages = [user(beginning), assistant("read"), user(words(90, 2)), assistant("yes"), user("go on")];
    let reply = gateway.answer(chat(request(&messages, false))).await;
    assert_eq!(header(&reply, "x-longhaul-action"), "compacted");
    let after: u64 = header(&reply, "x-longhaul-tokens-after").parse().unwrap();
    assert!((2_500..6_000).contains(&after), "{after} of a window of 12000");
    let sent = text(&stage.newest());
    assert!(
        sent.contains("alpha ") && sent.contains(" omega") && !sent.to_lowercase().contains("recall"),
        "{sent}"
    );
}

#[tokio::test]
async fn one_bad_part_of_a_summary_is_asked_for_again_and_then_stands_there_as_it_was() {
    let server = start_upstream(|number, body| {
        if !is_summary_request(body) {
            return UpstreamAnswer::Json(200, answer(number));
        }
        match body.to_string().contains("topic2 ") {
            true => UpstreamAnswer::Json(200, said("I would rather talk about birds.", 50, 9)),
            false => pruned(),
        }
    })
    .await;
    let memo: Arc<MemoryPrefixCache> = Arc::default();
    let now = Arc::new(AtomicU64::new(7));
    let clock = Arc::clone(&now);
    let parts = GatewayDependencies {
        memo,
        now: Arc::new(move || clock.load(Ordering::SeqCst)),
        ..GatewayDependencies::default()
    };
    let gateway = Gateway::new(waiting(vec![server.upstream(3_000)]), parts).unwrap();
    let mut messages = long(30);
    assert_eq!(turn(&gateway, &mut messages).await, "compacted");
    let asked: Vec<String> = server
        .received()
        .iter()
        .map(|sent| sent.json().to_string())
        .filter(|body| !body.contains("go on"))
        .collect();
    let bad: Vec<&String> = asked.iter().filter(|body| body.contains("topic2 ")).collect();
    // The pruning agent's window holds the conversation in two parts.
    assert_eq!((bad.len(), asked.len()), (2, 3), "the bad one twice, the other once");
    assert!(!bad[0].contains("could not be used") && bad[1].contains("could not be used"));
    let sent = server.received();
    let sent = text(&sent.last().unwrap().messages());
    assert!(sent.contains("They spoke of stones.") && sent.contains("assistant: topic13 "), "{sent}");
    assert!(!sent.contains("topic20 ") && !sent.contains("birds"), "{sent}");
    // That is what it is, and stays so.
    now.store(100_000, Ordering::SeqCst);
    let before = server.received().len();
    assert_eq!(turn(&gateway, &mut messages).await, "remembered");
    assert_eq!(server.received().len(), before + 1);
}

#[tokio::test]
async fn what_is_remembered_is_told_beside_what_the_client_has_sent() {
    let stage = FallbackFixture::new(3_000, WELL).await;
    let mut messages = long(30);
    turn(&stage.gateway(), &mut messages).await;
    let wide = stage.server.gateway(100_000);
    for gateway in [stage.gateway(), stage.gateway()] {
        let tokens =
            |reply: &longhaul_gateway::GatewayReply, name: &str| header(reply, name).parse::<u64>().unwrap();
        let whole = wide.answer(chat(request(&messages, false))).await;
        let reply = gateway.answer(chat(request(&messages, false))).await;
        assert_eq!(header(&reply, "x-longhaul-action"), "remembered");
        assert_eq!(tokens(&reply, "x-longhaul-tokens-before"), tokens(&whole, "x-longhaul-tokens-before"));
        assert!(tokens(&reply, "x-longhaul-tokens-after") * 2 < tokens(&whole, "x-longhaul-tokens-before"));
        // Also the second time, when nothing needs to be looked up.
        let again = gateway.answer(chat(request(&messages, false))).await;
        assert_eq!(tokens(&again, "x-longhaul-tokens-before"), tokens(&whole, "x-longhaul-tokens-before"));
    }
}

#[tokio::test]
async fn a_summary_request_that_is_too_long_for_its_server_is_made_shorter_once() {
    let server = start_upstream(|number, body| {
        if !is_summary_request(body) {
            return UpstreamAnswer::Json(200, answer(number));
        }
        // It counts half as much again as we do.
        let tokens = body["messages"].to_string().split(' ').count() as u64 * 3 / 2;
        let message = format!(
            "This model's maximum context length is 6000 tokens. However, your messages resulted in {tokens} tokens."
        );
        match tokens > 6_000 {
            true => UpstreamAnswer::Json(400, json!({ "error": { "message": message, "code": "context_length_exceeded" } })),
            false => UpstreamAnswer::Json(200, said(&spoke_of("stones"), tokens, 5)),
        }
    })
    .await;
    let mut call = chat(request(&long(54), false));
    call.headers.insert("x-longhaul-strategy", "adaptive".parse().unwrap());
    let reply = server.gateway(6_000).answer(call).await;
    assert_eq!(header(&reply, "x-longhaul-action"), "compacted");
    let asked = server.summary_requests().len();
    assert!(asked > 1, "the first was refused");
    assert!(text(&server.received().last().unwrap().messages()).contains("They spoke of stones."));
}

/// What an answer says that it took: calls, and input that was billed.
async fn took(gateway: &Gateway, messages: &[Value]) -> (String, Value) {
    let reply = gateway.answer(chat(request(messages, false))).await;
    let told = reply.headers.get("x-longhaul-calls").map_or("", |calls| calls.to_str().unwrap()).to_owned();
    (told, body_json(reply).await["x_longhaul"].clone())
}

#[tokio::test]
async fn a_summary_that_was_tried_in_vain_is_billed_to_the_next_request() {
    let stage = FallbackFixture::new(3_000, RUBBISH).await;
    let gateway = stage.gateway();
    let messages = long(30);
    let first = took(&gateway, &messages).await;
    assert_eq!(first.1["calls"], stage.server.received().len(), "{first:?}");
    let before = stage.server.received().len();
    assert_eq!(took(&gateway, &messages).await, (String::new(), Value::Null), "one call is the answer's own");
    assert_eq!(stage.server.received().len(), before + 1);
    for (state, input) in [(RUBBISH, 50), (AWAY, 0)] {
        stage.set(state);
        stage.wait(4_000);
        let before = stage.server.received().len();
        assert_eq!(took(&gateway, &messages).await, (String::new(), Value::Null), "it is tried later");
        gateway.settle().await;
        // The first request after it is told.
        let (told, total) = took(&gateway, &messages).await;
        let calls = stage.server.received().len() - before - 1;
        assert!(calls > 1, "it was tried again");
        assert_eq!((told, &total["action"]), (calls.to_string(), &json!("remembered")), "{total}");
        assert_eq!(total["calls"], calls, "{total}");
        let own = total["tokens_after"].as_u64().unwrap();
        assert_eq!(total["billed"]["input_tokens"], input * (calls as u64 - 1) + own, "{total}");
    }
}

#[tokio::test]
async fn an_extract_says_why_it_is_none_by_the_model() {
    for (state, why) in [(AWAY, "HTTP 503"), (RUBBISH, "(the model's answer was rejected as a summary: ")] {
        let stage = FallbackFixture::new(3_000, state).await;
        let reply = stage.gateway().answer(chat(request(&long(30), false))).await;
        let reason = header(&reply, "x-longhaul-reason");
        assert!(reason.contains("an extract without a model (") || reason.contains("extract"), "{reason}");
        assert!(reason.contains(why), "{reason}");
    }
}

#[tokio::test]
async fn how_long_an_answer_may_be_is_nothing_to_its_summaries() {
    let mut asked = Vec::new();
    for most in [None, Some(20)] {
        let stage = FallbackFixture::new(4_000, WELL).await;
        let mut body = json!({ "model": "m", "messages": long(60) });
        if let Some(most) = most {
            body["max_tokens"] = json!(most);
        }
        let reply = stage.gateway().answer(chat(body.to_string())).await;
        assert_eq!(header(&reply, "x-longhaul-action"), "compacted");
        let sent = stage.server.received().iter().map(ReceivedRequest::json).collect::<Vec<_>>();
        let limits =
            sent.iter().filter(|body| is_summary_request(body)).map(|body| body["max_tokens"].clone());
        asked.push(limits.collect::<Vec<_>>());
    }
    assert!(!asked[0].is_empty());
    assert_eq!(asked[0], asked[1]);
}

#[tokio::test]
async fn a_summary_that_does_not_end_is_not_read_on() {
    let server = start_upstream(|number, body| match is_summary_request(body) {
        true => {
            let mut events = streamed("s", &format!("{} ", words(40, 1)), None);
            let (first, more) = (events.swap_remove(0), events.swap_remove(1).repeat(50));
            UpstreamAnswer::Endless(first, more.into(), Duration::from_millis(1))
        }
        false => UpstreamAnswer::Json(200, said(&format!("answer {number}"), 900, 3)),
    })
    .await;
    let gateway = server.gateway(3_000);
    let asking = gateway.answer(chat(request(&long(30), false)));
    let reply = tokio::time::timeout(Duration::from_secs(60), asking).await.expect("it is not read on");
    assert_eq!((reply.status, header(&reply, "x-longhaul-action")), (StatusCode::OK, "compacted"));
    assert!(header(&reply, "x-longhaul-reason").contains("it is too long"), "{:?}", reply.headers);
    let asked = server.summary_requests().len();
    let total = body_json(reply).await["x_longhaul"].clone();
    assert_eq!(
        (&total["calls"], &total["billed"]["estimated"]),
        (&json!(asked + 1), &json!(true)),
        "{total}"
    );
    let output = total["billed"]["output_tokens"].as_u64().unwrap();
    let each = (output - 3) / u64::try_from(asked).unwrap();
    assert!((2_000..4_000).contains(&each), "{total}");
}

#[tokio::test]
async fn who_answers_in_prose_is_asked_for_prose_from_then_on() {
    let asks = |body: &Value, order: &str| body["messages"].to_string().contains(order);
    let server = start_upstream(move |number, body| match is_summary_request(body) {
        true if asks(body, "You prune the history") => {
            UpstreamAnswer::Json(200, said("I like birds better.", 50, 9))
        }
        true => UpstreamAnswer::Json(200, said(&spoke_of("rivers"), 50, 9)),
        false => UpstreamAnswer::Json(200, answer(number)),
    })
    .await;
    let now = Arc::new(AtomicU64::new(5_000));
    let clock = Arc::clone(&now);
    let parts = GatewayDependencies {
        now: Arc::new(move || clock.load(Ordering::SeqCst)),
        ..GatewayDependencies::default()
    };
    let gateway = Gateway::new(waiting(vec![server.upstream(8_000)]), parts).unwrap();
    let asked = || {
        let sent: Vec<Value> = server.received().iter().map(|sent| sent.json()).collect();
        let count = |order| sent.iter().filter(|body| asks(body, order)).count();
        (count("You prune the history"), count("The conversation is about to be shortened"))
    };
    let conversation =
        |name: &str| -> Vec<Value> { [user(name)].into_iter().chain(long(80).into_iter().skip(1)).collect() };
    let mut first = conversation("first");
    assert_eq!(turn(&gateway, &mut first).await, "compacted", "an extract stands there");
    let (agent, _) = asked();
    assert!(agent > 0);
    let mut second = conversation("second");
    assert_eq!(turn(&gateway, &mut second).await, "compacted");
    assert_eq!(asked().0, agent, "nobody asks it for JSON");
    assert!(asked().1 > 0);
    let newest = server.received().pop().unwrap().messages();
    assert!(text(&newest).contains("They spoke of rivers."), "{}", text(&newest));
    // The first conversation is known as before, and its extract gives way to such a summary.
    now.fetch_add(20, Ordering::SeqCst);
    assert_eq!(turn(&gateway, &mut first).await, "remembered");
    gateway.settle().await;
    assert_eq!(turn(&gateway, &mut first).await, "compacted");
    let newest = server.received().pop().unwrap().messages();
    assert!(text(&newest).contains("They spoke of rivers."), "{}", text(&newest));
    assert_eq!(asked().0, agent);
    // Who names the strategy gets it, and after an hour everybody does.
    let mut named = chat(request(&conversation("third"), false));
    named.headers.insert("x-longhaul-strategy", "pruning-agent".parse().unwrap());
    gateway.answer(named).await;
    let named = asked().0;
    assert!(named > agent);
    now.fetch_add(3_700, Ordering::SeqCst);
    turn(&gateway, &mut conversation("fourth")).await;
    assert!(asked().0 > named);
}
