//! What an upstream's prompt cache is worth while a conversation grows: each prefix is made smaller once, and what is
//! sent begins as what was sent before. No tokens are counted here but words.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::http::StatusCode;
use longhaul_gateway::{Gateway, GatewayDependencies};
use longhaul_providers::connect::Kind;
use longhaul_store::prefix_cache::MemoryPrefixCache;
use longhaul_wire::edit::{Dialect, PromptCacheTtl};
use serde_json::{Value, json};

use crate::shortening::{is_summary_request, pruned};
use crate::upstream::*;

const TURNS: usize = 200;

/// Turns after which another process goes on, once a request has been compacted: the next one needs no room then.
const RESTARTS: [usize; 2] = [66, 136];

/// What a server has been asked, in words.
struct Asked {
    /// What each request begins with that an earlier one began with too, as a share of all that was sent.
    cached: f64,
    /// Requests for summaries.
    summaries: usize,
    /// Those that had been made before.
    repeated: usize,
    /// Words of the longest request.
    longest: usize,
}

fn count(message: &Value) -> usize {
    message["content"].to_string().split(' ').count() + 4
}

async fn server() -> ScriptedUpstream {
    start_upstream(move |_, body| {
        if is_summary_request(body) {
            return pruned();
        }
        let messages = body["messages"].as_array().unwrap();
        let input: usize = messages.iter().map(count).sum();
        let text = words(120, messages.len());
        UpstreamAnswer::Json(200, said(&text, input as u64, 124))
    })
    .await
}

/// A conversation of 200 turns and 76,000 words.
async fn grown(strategy: Option<&str>, window: u64) -> Asked {
    let server = server().await;
    let memo: Arc<MemoryPrefixCache> = Arc::default();
    let process = || {
        let parts = GatewayDependencies { memo: memo.clone(), ..GatewayDependencies::default() };
        Gateway::new(waiting(vec![server.upstream(window)]), parts).unwrap()
    };
    let (mut gateway, mut messages) = (process(), Vec::new());
    let mut restarts = RESTARTS.into_iter().peekable();
    let mut is_compacted = false;
    for turn in 0..TURNS {
        let is_restart = is_compacted && restarts.next_if(|least| turn > *least).is_some();
        if is_restart {
            gateway = process();
        }
        messages.push(user(format!("topic{turn} {}", words(200 + 25 * (turn % 5), turn))));
        let mut call = chat(request(&messages, false));
        if let Some(strategy) = strategy {
            call.headers.insert("x-longhaul-strategy", strategy.parse().unwrap());
        }
        let reply = gateway.answer(call).await;
        assert_eq!(reply.status, StatusCode::OK, "{strategy:?} {turn}: {:?}", reply.headers);
        is_compacted = reply.headers.get("x-longhaul-action").is_some_and(|action| action == "compacted");
        if is_restart {
            assert_eq!(header(&reply, "x-longhaul-action"), "remembered", "{strategy:?} {turn}");
            let why = header(&reply, "x-longhaul-reason");
            assert!(
                why.starts_with("an edit made before this request applies: "),
                "{strategy:?} {turn}: {why}"
            );
        }
        messages.push(body_json(reply).await["choices"][0]["message"].clone());
    }
    assert_eq!(restarts.next(), None, "{strategy:?}: another process went on each time");
    let whole: usize = messages.iter().map(count).sum();
    assert!(whole > 70_000, "{whole}");
    asked(&server)
}

fn asked(server: &ScriptedUpstream) -> Asked {
    let summaries = server.summary_requests();
    let mains: Vec<Vec<Value>> = server.main_requests().iter().map(ReceivedRequest::messages).collect();
    let sizes: Vec<usize> = mains.iter().map(|messages| messages.iter().map(count).sum()).collect();
    let mut cached = 0;
    for (at, messages) in mains.iter().enumerate() {
        let common = |earlier: &Vec<Value>| -> usize {
            let same = messages.iter().zip(earlier).take_while(|(one, other)| one == other);
            same.map(|(message, _)| count(message)).sum()
        };
        cached += mains[..at].iter().map(common).max().unwrap_or(0);
    }
    let different: std::collections::BTreeSet<_> = summaries.iter().map(|sent| &sent.body).collect();
    Asked {
        cached: cached as f64 / sizes.iter().sum::<usize>() as f64,
        summaries: summaries.len(),
        repeated: summaries.len() - different.len(),
        longest: sizes.into_iter().max().unwrap_or(0),
    }
}

#[tokio::test]
async fn openai_is_sent_a_key_of_the_conversation_for_its_cache() {
    for dialect in [Dialect::Chat, Dialect::Responses] {
        let server = start_upstream(move |_, _| {
            UpstreamAnswer::Events(crate::model::events(dialect, "a", "fine", (9, 1)), Duration::ZERO)
        })
        .await;
        let mut upstream = crate::model::upstream(&server, dialect, 8_000, false);
        upstream.kind = Kind::OpenAi;
        let gateway = gateway(waiting(vec![upstream]));
        let ask = async |items: &[Value], own: Option<&str>| {
            let mut asked = crate::model::call(dialect, items, true);
            let mut fields: Value = serde_json::from_slice(&asked.body).unwrap();
            own.into_iter().for_each(|own| fields["prompt_cache_key"] = own.into());
            asked.body = fields.to_string().into();
            body(gateway.answer(asked).await).await;
            server.received().last().unwrap().json()["prompt_cache_key"].clone()
        };
        let first = ask(&[user("one job")], None).await;
        let later = ask(&[user("one job"), assistant("fine"), user("more")], None).await;
        let other = ask(&[user("another job")], None).await;
        assert_eq!((first.as_str().unwrap().len(), &first), (32, &later), "{dialect:?}: one conversation");
        assert_ne!(first, other, "{dialect:?}");
        assert_eq!(
            ask(&[user("one job")], Some("mine")).await,
            "mine",
            "{dialect:?}: the client's own stays"
        );
    }
}

async fn messages_server() -> ScriptedUpstream {
    let events = || crate::model::events(Dialect::Messages, "a", "fine", (9, 1));
    start_upstream(move |_, _| UpstreamAnswer::Events(events(), Duration::ZERO)).await
}

#[tokio::test]
async fn anthropic_is_sent_a_cache_mark_where_the_client_set_none() {
    let server = messages_server().await;
    for (cache, mark) in [
        (PromptCacheTtl::Auto, Value::Null),
        (PromptCacheTtl::FiveMinutes, json!({"type": "ephemeral"})),
        (PromptCacheTtl::OneHour, json!({"type": "ephemeral", "ttl": "1h"})),
    ] {
        let mut upstream = crate::model::upstream(&server, Dialect::Messages, 8_000, false);
        upstream.kind = Kind::Anthropic;
        upstream.endpoint.cache = cache;
        let gateway = gateway(waiting(vec![upstream]));
        let ask = async |items: &[Value]| {
            body(gateway.answer(crate::model::call(Dialect::Messages, items, true)).await).await;
            server.received().last().unwrap().json()
        };
        assert_eq!(ask(&[user("one job")]).await["cache_control"], mark, "{cache:?}");
        let block = json!({"type": "text", "text": "one job", "cache_control": {"type": "ephemeral"}});
        let own = ask(&[json!({"role": "user", "content": [block]})]).await;
        assert_eq!(own.get("cache_control"), None, "{cache:?}: the client's own marks stay alone");
    }
}

#[tokio::test]
async fn anthropic_keeps_a_conversation_with_long_pauses_for_an_hour() {
    let server = messages_server().await;
    let mut upstream = crate::model::upstream(&server, Dialect::Messages, 8_000, false);
    upstream.kind = Kind::Anthropic;
    let seconds = Arc::new(AtomicU64::new(1_000));
    let clock = Arc::clone(&seconds);
    let now = Arc::new(move || clock.load(Ordering::Relaxed));
    let parts = GatewayDependencies { now, ..GatewayDependencies::default() };
    let gateway = Gateway::new(waiting(vec![upstream]), parts).unwrap();
    let mut items = vec![user("one job")];
    for (pause_seconds, is_hour) in [(0, false), (60, false), (1_200, true), (1_200, true), (7_200, true)] {
        seconds.fetch_add(pause_seconds, Ordering::Relaxed);
        body(gateway.answer(crate::model::call(Dialect::Chat, &items, true)).await).await;
        let sent = server.received().last().unwrap().json().to_string();
        assert_eq!(sent.contains(r#""ttl":"1h""#), is_hour, "after {pause_seconds} seconds: {sent}");
        items.extend([assistant("fine"), user("more")]);
    }
}

#[tokio::test]
async fn a_growing_conversation_is_read_from_the_cache() {
    for (strategy, window, share) in [
        (None, 32_000, 0.95),
        (None, 16_000, 0.9),
        (Some("adaptive"), 16_000, 0.9),
        (Some("reactive-overflow"), 16_000, 0.9),
    ] {
        let found = grown(strategy, window).await;
        let name = strategy.unwrap_or("the usual strategy");
        println!(
            "{name}, a window of {window}: {:.1} % cached, {} requests for summaries, {} words at most",
            found.cached * 100.0,
            found.summaries,
            found.longest
        );
        assert!(found.cached >= share, "{name} at {window}: {}", found.cached);
        assert_eq!(found.repeated, 0, "{name} at {window}: a summary is made twice");
        assert!(found.longest < window as usize, "{name}: {}", found.longest);
    }
}
