//! A scripted upstream, and a gateway before it.

use std::sync::Arc;
use std::time::Duration;

use axum::http::HeaderMap;
use bytes::Bytes;
use futures_util::StreamExt;
use http::HeaderValue;
use longhaul_core::attempt::RetryPolicy;
use longhaul_core::plan::CompactionPolicy;
use longhaul_core::strategy::PruningAgentStrategy;
use longhaul_gateway::{
    ClientRequest, Gateway, GatewayDependencies, GatewayOptions, GatewayReply, ReplyBody, UpstreamOptions,
};
use longhaul_providers::connect::Kind;
pub(crate) use longhaul_testkit::chat::{answer as said, stream as streamed};
pub(crate) use longhaul_testkit::{ReceivedRequest, ScriptedUpstream, UpstreamAnswer};
use longhaul_wire::edit::Dialect;
use serde_json::{Value, json};

use crate::shortening::is_summary_request;

/// Starts an upstream whose script is given the number of the request, from 0, and its body.
pub(crate) async fn start_upstream(
    script: impl Fn(usize, &Value) -> UpstreamAnswer + Send + Sync + 'static,
) -> ScriptedUpstream {
    ScriptedUpstream::start_without_pages(move |request| script(request.number, &request.json())).await
}

/// Starts an upstream that says of itself that it is llama.cpp with a window.
pub(crate) async fn start_llama_cpp(
    window: u64,
    script: impl Fn(usize, &Value) -> UpstreamAnswer + Send + Sync + 'static,
) -> ScriptedUpstream {
    let settings = json!({ "n_ctx": window });
    let props = json!({ "default_generation_settings": settings, "total_slots": 1, "chat_template": "" });
    let page = move |path: &str| {
        Some(if path == "/props" {
            UpstreamAnswer::Json(200, props.clone())
        } else {
            UpstreamAnswer::Json(404, Value::Null)
        })
    };
    ScriptedUpstream::start_beside(page, move |request| script(request.number, &request.json())).await
}

/// An upstream as the tests of a gateway use it.
pub(crate) trait GatewayUpstream {
    /// Returns the options of this upstream with a declared window.
    fn upstream(&self, window: u64) -> UpstreamOptions;

    /// Returns a gateway before this upstream only.
    fn gateway(&self, window: u64) -> Gateway {
        gateway(waiting(vec![self.upstream(window)]))
    }

    /// Returns a gateway before this upstream only, where nobody states its window.
    fn unstated_gateway(&self) -> Gateway;

    /// Returns the requests for summaries.
    fn summary_requests(&self) -> Vec<ReceivedRequest>;

    /// Returns the requests for answers.
    fn main_requests(&self) -> Vec<ReceivedRequest>;
}

impl GatewayUpstream for ScriptedUpstream {
    fn upstream(&self, window: u64) -> UpstreamOptions {
        let mut upstream = UpstreamOptions::new("up", Kind::OpenAiCompatible, self.url("/v1"));
        let declared = &mut upstream.endpoint.declared;
        (declared.window, declared.tools, declared.images) = (Some(window), Some(true), Some(true));
        // A hang fails a test sooner than after the minutes that a model may take.
        upstream.endpoint.timeouts.first_byte = Some(Duration::from_secs(30));
        upstream.endpoint.timeouts.idle = Duration::from_secs(30);
        upstream
    }

    fn unstated_gateway(&self) -> Gateway {
        gateway(waiting(vec![UpstreamOptions::new("up", Kind::OpenAiCompatible, self.url("/v1"))]))
    }

    fn summary_requests(&self) -> Vec<ReceivedRequest> {
        self.received().into_iter().filter(|request| is_summary_request(&request.json())).collect()
    }

    fn main_requests(&self) -> Vec<ReceivedRequest> {
        self.received().into_iter().filter(|request| !is_summary_request(&request.json())).collect()
    }
}

/// A gateway's settings with which a request waits for the summary that it needs, written by a pruning agent: what a test
/// sees happens within the request.
pub(crate) fn waiting(upstreams: Vec<UpstreamOptions>) -> GatewayOptions {
    let policy = CompactionPolicy::new(Arc::new(PruningAgentStrategy::default()));
    // A broken answer is not asked for again unless a test says so: each wait would take seconds.
    let retry = RetryPolicy { stream_attempts: 0, ..RetryPolicy::default() };
    GatewayOptions { policy, waits_for_summaries: true, retry, ..GatewayOptions::new(upstreams) }
}

pub(crate) fn gateway(config: GatewayOptions) -> Gateway {
    Gateway::new(config, GatewayDependencies::default()).unwrap()
}

/// A call of a Chat Completions client.
pub(crate) fn chat(body: impl Into<Bytes>) -> ClientRequest {
    let mut headers = HeaderMap::new();
    headers.insert("authorization", HeaderValue::from_static("Bearer caller"));
    headers.insert("x-client", HeaderValue::from_static("c"));
    headers.insert("content-type", HeaderValue::from_static("application/json"));
    ClientRequest { dialect: Dialect::Chat, headers, body: body.into() }
}

pub(crate) fn request(messages: &[Value], stream: bool) -> Bytes {
    json!({ "model": "m", "messages": messages, "stream": stream }).to_string().into()
}

pub(crate) fn header<'r>(reply: &'r GatewayReply, name: &str) -> &'r str {
    reply.headers.get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
}

/// All bytes of a reply.
pub(crate) async fn body(reply: GatewayReply) -> Bytes {
    match reply.body {
        ReplyBody::Whole(bytes) => bytes,
        ReplyBody::Stream(mut stream) => {
            let mut all = Vec::new();
            while let Some(bytes) = stream.next().await {
                all.extend_from_slice(&bytes.unwrap());
            }
            all.into()
        }
    }
}

/// The first pieces of a streamed reply, as one text.
pub(crate) async fn beginning(reply: &mut GatewayReply, pieces: usize) -> String {
    let ReplyBody::Stream(stream) = &mut reply.body else { panic!("no stream") };
    let mut text = String::new();
    for _ in 0..pieces {
        let piece = stream.next().await.unwrap().unwrap();
        text.push_str(std::str::from_utf8(&piece).unwrap());
    }
    text
}

pub(crate) async fn body_json(reply: GatewayReply) -> Value {
    serde_json::from_slice(&body(reply).await).unwrap()
}

/// Text of about so many tokens.
pub(crate) fn words(tokens: usize, seed: usize) -> String {
    const WORDS: [&str; 8] = ["stone", "river", "paper", "cloud", "metal", "garden", "window", "letter"];
    let word = |at: usize| WORDS[(at * 7 + seed * 3 + at / 5) % WORDS.len()];
    (0..tokens).map(word).collect::<Vec<_>>().join(" ")
}

pub(crate) fn user(text: impl Into<String>) -> Value {
    json!({ "role": "user", "content": text.into() })
}

pub(crate) fn assistant(text: impl Into<String>) -> Value {
    json!({ "role": "assistant", "content": text.into() })
}
