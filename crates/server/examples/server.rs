//! Longhaul's API inside a server of the program's own, beside its own routes. Without arguments a script answers, a client
//! of this program asks, and the program ends; `cargo run -p longhaul-server --example server -- URL MODEL` serves until
//! it is interrupted.

#![expect(clippy::print_stdout, reason = "an example prints")]

use axum::Router;
use axum::routing::get;
use longhaul::prelude::*;
use longhaul_server::{AccessToken, AppState, HttpServerConfig, router};
use serde_json::{Value, json};
use tokio::net::TcpListener;

const TOKEN: &str = "a token that nobody guesses";

async fn ask(address: &str) -> reqwest::Result<(String, Value)> {
    let client = reqwest::Client::new();
    let greeting = client.get(format!("{address}/hello")).send().await?.text().await?;
    let session: Value = client
        .post(format!("{address}/api/sessions"))
        .bearer_auth(TOKEN)
        .json(&json!({}))
        .send()
        .await?
        .error_for_status()?
        .json()
        .await?;
    let message = json!({"sessionId": session["id"], "content": "Why is the sky blue?"});
    let asked =
        client.post(format!("{address}/api/message")).bearer_auth(TOKEN).json(&message).send().await?;
    asked.error_for_status()?;
    let page = format!("{address}/api/sessions/{}/messages", session["id"].as_str().unwrap_or_default());
    loop {
        let page: Value =
            client.get(&page).bearer_auth(TOKEN).send().await?.error_for_status()?.json().await?;
        match &page["messages"][1]["parts"][0]["text"] {
            Value::Null => tokio::time::sleep(std::time::Duration::from_millis(20)).await,
            answer => return Ok((greeting, answer.clone())),
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let builder = match &arguments[..] {
        [url, model] => Agent::builder().openai_compatible(url, model),
        _ => Agent::builder()
            .provider(ScriptedProvider::new(ModelScript::always("Because of Rayleigh scattering."))),
    };
    let app = AppState::new(builder.build().await?, HttpServerConfig::new(AccessToken::new(TOKEN)));
    let routes = Router::new()
        .route("/hello", get(|| async { "a page of the program's own" }))
        .fallback_service(router(app.clone()));

    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = format!("http://{}", listener.local_addr()?);
    println!("serving");
    let server = tokio::spawn(async move { axum::serve(listener, routes).await });
    if arguments.is_empty() {
        let (greeting, answer) = ask(&address).await?;
        println!("{greeting}\n{}", answer.as_str().unwrap_or_default());
    } else {
        println!("{address}, token `{TOKEN}`");
        tokio::signal::ctrl_c().await?;
    }
    app.close().await;
    server.abort();
    Ok(())
}
