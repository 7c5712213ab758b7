//! The gateway inside a server of the program's own. `cargo run -p longhaul-gateway --example gateway -- URL` puts it before
//! a model server; without arguments before one of this program that counts the messages it is sent.

#![expect(clippy::print_stdout, reason = "an example prints")]

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use axum::routing::post;
use longhaul_gateway::{
    ClientRequest, Dialect, Gateway, GatewayDependencies, GatewayOptions, Kind, ReplyBody, UpstreamOptions,
};
use serde_json::{Value, json};
use tokio::net::TcpListener;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

async fn chat(State(gateway): State<Gateway>, headers: HeaderMap, body: Bytes) -> Response {
    let reply = gateway.answer(ClientRequest { dialect: Dialect::Chat, headers, body }).await;
    let mut response = Response::new(match reply.body {
        ReplyBody::Whole(bytes) => Body::from(bytes),
        ReplyBody::Stream(pieces) => Body::from_stream(pieces),
    });
    *response.status_mut() = reply.status;
    *response.headers_mut() = reply.headers;
    response
}

/// Serves an app in the background and returns its address.
async fn serve(app: Router) -> Outcome<String> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move { axum::serve(listener, app).await });
    Ok(format!("http://{address}/v1"))
}

/// A model server whose answer is the number of messages in the request.
async fn counting_model(body: Bytes) -> axum::Json<Value> {
    let request: Value = serde_json::from_slice(&body).unwrap_or_default();
    let count = request["messages"].as_array().map_or(0, Vec::len);
    let message = json!({"role": "assistant", "content": format!("I was sent {count} messages.")});
    axum::Json(json!({
        "id": "chatcmpl-1", "object": "chat.completion", "created": 0, "model": "counting",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
    }))
}

#[tokio::main]
async fn main() -> Outcome<()> {
    let model_url = match std::env::args().nth(1) {
        Some(url) => url,
        None => serve(Router::new().route("/v1/chat/completions", post(counting_model))).await?,
    };
    let mut upstream = UpstreamOptions::new("model", Kind::OpenAiCompatible, model_url);
    upstream.endpoint.settings.declared.window = Some(8_000);
    let gateway = Gateway::new(GatewayOptions::new(vec![upstream]), GatewayDependencies::default())?;
    let app = Router::new().route("/v1/chat/completions", post(chat)).with_state(gateway.clone());
    let url = serve(app).await?;

    // A client with a conversation that is too long for the model.
    let question =
        |at: usize| json!({"role": "user", "content": format!("Question {at}: {}", "why? ".repeat(200))});
    let answer = json!({"role": "assistant", "content": "Because."});
    let mut messages: Vec<Value> = (0..50).flat_map(|at| [question(at), answer.clone()]).collect();
    messages.push(json!({"role": "user", "content": "How many messages were you sent?"}));
    let request = json!({"model": "counting", "messages": messages});
    let response =
        reqwest::Client::new().post(format!("{url}/chat/completions")).json(&request).send().await?;
    let completion: Value = response.json().await?;
    println!("{} messages: {}", messages.len(), completion["choices"][0]["message"]["content"]);
    gateway.settle().await;
    Ok(())
}
