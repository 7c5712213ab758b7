//! Nodes on one PostgreSQL, with the demo's model behind them: what tests ask of the real binary from outside.

use std::process::{Child, Command};
use std::time::{Duration, Instant};

use reqwest::{Client, Method, RequestBuilder};
use serde_json::{Value, json};

use crate::bench::{Bench, signal, write_closed};
use crate::postgres::Schema;

const TOKEN: &str = "a-token-that-all-nodes-have";

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// A node that runs. It is killed when it is dropped.
pub(crate) struct Node {
    child: Child,
    _bench: Bench,
    address: String,
    http: Client,
}

impl Node {
    /// Starts one; `more` is what its command line and environment have besides.
    pub(crate) fn start(schema: &Schema, more: impl FnOnce(&mut Command)) -> Self {
        let bench = Bench::new();
        let token = bench.data().with_file_name("shared-token");
        write_closed(&token, TOKEN);
        let args = ["--provider", "scripted", "serve", "--addr", "127.0.0.1:0", "--yes", "--db"];
        let mut command = bench.command(args);
        command.arg(schema.url()).arg("--token-file").arg(token).env("LONGHAUL_LOG", "info");
        more(&mut command);
        let (child, address, said) = crate::serve::start(command);
        // What it says is read to the end, so that it can say it.
        std::thread::spawn(move || std::io::copy(&mut { said }, &mut std::io::sink()));
        let http = Client::builder().no_proxy().timeout(PATIENCE).build().unwrap();
        Self { child, _bench: bench, address, http }
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("http://{}{path}", self.address)).bearer_auth(TOKEN)
    }

    pub(crate) async fn get(&self, path: &str) -> (u16, Value) {
        answer(self.request(Method::GET, path)).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        answer(self.request(Method::POST, path).json(body)).await
    }

    /// Says something and waits for the end of the run; gives the session.
    pub(crate) async fn say(&self, content: Value) -> String {
        let (status, sent) = self.post("/api/message", &json!({ "content": content })).await;
        assert_eq!(status, 200, "{sent}");
        let session = sent["sessionId"].as_str().unwrap().to_owned();
        self.at_rest(&session).await;
        session
    }

    pub(crate) async fn at_rest(&self, session: &str) {
        let begun = Instant::now();
        loop {
            let (status, shown) = self.get(&format!("/api/sessions/{session}")).await;
            if status == 200 && shown["status"] == "idle" && shown["lastFinishReason"].is_string() {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "{status} {shown}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Tells it to end, and waits.
    pub(crate) fn end(mut self) {
        signal(&self.child, "TERM");
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // One that has ended is not there to be killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

async fn answer(request: RequestBuilder) -> (u16, Value) {
    let response = request.send().await.unwrap();
    let status = response.status().as_u16();
    (status, serde_json::from_slice(&response.bytes().await.unwrap()).unwrap_or(Value::Null))
}
