//! The cost of a long conversation in the gateway, compared with a request that is not looked at.

#![expect(clippy::unwrap_used, reason = "a benchmark that cannot set itself up should stop")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use axum::Json;
use axum::routing::post;
use bytes::Bytes;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use http::HeaderMap;
use longhaul_gateway::{ClientRequest, Gateway, GatewayDependencies, GatewayOptions, UpstreamOptions};
use longhaul_providers::connect::Kind;
use longhaul_wire::chat::edit::ChatCodec;
use longhaul_wire::edit::{Dialect, WireCodec};
use serde_json::json;
use tokio::runtime::Runtime;

const LONG_BYTES: usize = 400 << 10;

const TEXT: &str =
    "fn main() {\\n    println!(\\\"{}\\\", \\\"a line of code\\\");\\n}\\nAnd a sentence about it. ";

/// Messages of about a kilobyte each, as they grow.
struct Messages {
    text: String,
    number: u64,
}

impl Messages {
    fn new(number: u64, bytes: usize) -> Self {
        let mut messages = Self {
            text: format!(r#"{{"model":"m","messages":[{{"role":"system","content":"number {number}"}}"#),
            number: 0,
        };
        while messages.text.len() < bytes {
            messages.turn();
        }
        messages
    }

    /// A message and its answer.
    fn turn(&mut self) {
        for role in ["user", "assistant"] {
            self.number += 1;
            let text = TEXT.repeat(12);
            self.text.push_str(&format!(r#",{{"role":"{role}","content":"{} {text}"}}"#, self.number));
        }
    }

    fn body(&self) -> Bytes {
        format!("{}]}}", self.text).into()
    }
}

/// A gateway before a server that says the same to everybody.
fn gateway(runtime: &Runtime, is_on: bool) -> Gateway {
    let answer = json!({
        "id": "a", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{ "index": 0, "message": { "role": "assistant", "content": "ok" }, "finish_reason": "stop" }],
    });
    let said = move |_: Bytes| {
        let answer = answer.clone();
        async move { Json(answer) }
    };
    let path = post(said).layer(axum::extract::DefaultBodyLimit::disable());
    let server = axum::Router::new().route("/v1/chat/completions", path);
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    runtime.spawn(async move { axum::serve(listener, server).await });
    let mut upstream = UpstreamOptions::new("mock", Kind::OpenAiCompatible, format!("http://{address}/v1"));
    upstream.endpoint.declared.window = Some(10_000_000);
    let mut config = GatewayOptions::new(vec![upstream]);
    config.policy.enabled = is_on;
    Gateway::new(config, GatewayDependencies::default()).unwrap()
}

async fn ask(gateway: &Gateway, body: Bytes) {
    let reply =
        gateway.answer(ClientRequest { dialect: Dialect::Chat, headers: HeaderMap::new(), body }).await;
    assert!(reply.status.is_success(), "{reply:?}");
}

fn read(criterion: &mut Criterion) {
    let plain = Messages::new(0, LONG_BYTES).body();
    let mut pairs = Messages::new(0, LONG_BYTES);
    pairs.text = pairs.text.replace("sentence", "\\ud83d\\ude00");
    let mut group = criterion.benchmark_group("read");
    for (name, body) in [("400 KB", plain), ("400 KB with pairs", pairs.body())] {
        group.throughput(Throughput::Bytes(body.len() as u64));
        group.bench_function(name, |bencher| {
            bencher.iter(|| ChatCodec.parse_request(black_box(body.clone())).unwrap())
        });
    }
    group.finish();
}

fn answer(criterion: &mut Criterion) {
    let runtime = Runtime::new().unwrap();
    let (off, on) = (gateway(&runtime, false), gateway(&runtime, true));
    let mut group = criterion.benchmark_group("answer");
    for (size, bytes) in [("1 KB", 1 << 10), ("400 KB", LONG_BYTES)] {
        let body = Messages::new(0, bytes).body();
        for (name, gateway) in [("nothing is looked at", &off), ("the same again", &on)] {
            group.bench_function(format!("{size}/{name}"), |bencher| {
                bencher.iter(|| runtime.block_on(ask(gateway, body.clone())));
            });
        }
        let mut number = 1;
        group.bench_function(format!("{size}/never seen"), |bencher| {
            bencher.iter_custom(|times| {
                let mut spent = Duration::ZERO;
                for _ in 0..times {
                    number += 1;
                    let body = Messages::new(number, bytes).body();
                    spent += timed(&runtime, &on, body);
                }
                spent
            });
        });
        group.bench_function(format!("{size}/one turn more"), |bencher| {
            bencher.iter_custom(|times| {
                let mut spent = Duration::ZERO;
                let mut messages: Option<Messages> = None;
                for _ in 0..times {
                    let going = messages.take().filter(|messages| messages.text.len() < 2 * bytes);
                    let mut going = going.unwrap_or_else(|| {
                        number += 1;
                        let fresh = Messages::new(number, bytes);
                        timed(&runtime, &on, fresh.body());
                        fresh
                    });
                    going.turn();
                    spent += timed(&runtime, &on, going.body());
                    messages = Some(going);
                }
                spent
            });
        });
    }
    group.finish();
}

fn timed(runtime: &Runtime, gateway: &Gateway, body: Bytes) -> Duration {
    let started = Instant::now();
    runtime.block_on(ask(gateway, body));
    started.elapsed()
}

criterion_group!(benches, read, answer);
criterion_main!(benches);
