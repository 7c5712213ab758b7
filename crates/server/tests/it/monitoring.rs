//! Figures for monitoring, and the limit of requests.

use std::time::Duration;

use longhaul_providers::scripted::{ModelScript, ScriptedAnswer};
use longhaul_server::RateLimit;
use reqwest::{Method, StatusCode};

use crate::test_server::{TestServer, expect, slowly};

async fn figures(world: &TestServer) -> String {
    let answer = world.request(Method::GET, "/metrics").send().await.unwrap();
    assert_eq!(answer.headers()["content-type"], "text/plain; version=0.0.4; charset=utf-8");
    answer.text().await.unwrap()
}

/// One figure, by its name and labels.
fn figure(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
}

#[tokio::test]
async fn what_happens_is_counted() {
    let script = ModelScript::turns([
        ScriptedAnswer::text("").call("ls", "{\"path\":\".\"}"),
        ScriptedAnswer::text("Done."),
        slowly(&"slow ".repeat(500)),
    ]);
    let world = TestServer::new(script).await;
    let session = world.session().await;
    world.say(&session, "look").await;
    world.until(&session, "idle").await;
    let stream = world.events(&session, None).await;
    world.say(&session, "again").await;
    world.until(&session, "streaming").await;
    world.say(&session, "wait").await;
    let text = figures(&world).await;
    for (name, expected) in [
        ("longhaul_sessions{status=\"streaming\"}", 1),
        ("longhaul_queued_messages", 1),
        ("longhaul_event_streams", 1),
        ("longhaul_runs_started_total", 2),
        ("longhaul_runs_total{finish_reason=\"stop\"}", 1),
        ("longhaul_steps_total{code=\"\"}", 2),
        ("longhaul_tool_calls_total{status=\"completed\"}", 1),
        ("longhaul_http_requests_total{method=\"POST\",route=\"/api/message\",status=\"200\"}", 3),
    ] {
        assert_eq!(figure(&text, name), Some(expected), "{name} in {text}");
    }
    assert!(figure(&text, "gen_ai_client_inference_usage_input_tokens_total").unwrap() > 0);
    assert!(figure(&text, "gen_ai_client_inference_usage_output_tokens_total").unwrap() > 0);
    assert!(!text.contains(&session), "no name of a session is a label");
    drop(stream);
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, number) = line.rsplit_once(' ').unwrap();
        assert!(number.parse::<u64>().is_ok(), "{line}");
        let family = name.split('{').next().unwrap();
        assert!(text.contains(&format!("# TYPE {family} ")), "{line}");
    }
}

#[tokio::test]
async fn what_clients_make_up_is_no_label() {
    let world = TestServer::new(ModelScript::always("Yes.")).await;
    // With names of clients as labels anybody could fill the memory with figures, and quotes could forge lines.
    for path in ["/no/such/x%22%7D%20999", "/api/sessions/made-up"] {
        world.request(Method::GET, path).send().await.unwrap();
    }
    let odd = Method::from_bytes(b"MADEUP").unwrap();
    world.request(odd, "/api/sessions").send().await.unwrap();
    let text = figures(&world).await;
    assert!(!text.contains("made") && !text.contains("MADE") && !text.contains("such"), "{text}");
    assert_eq!(
        figure(&text, "longhaul_http_requests_total{method=\"GET\",route=\"other\",status=\"404\"}"),
        Some(1),
        "{text}"
    );
}

#[tokio::test]
async fn a_client_that_asks_too_often_is_told_when_to_come_again() {
    let limit = RateLimit { requests: 3, per: Duration::from_secs(3_600) };
    let world =
        TestServer::with(ModelScript::always("Yes."), |_| {}, move |config| config.rate_limit = Some(limit))
            .await;
    for _ in 0..3 {
        world.get("/api/sessions").await;
    }
    let refused = world.request(Method::GET, "/api/sessions").send().await.unwrap();
    let wait: u64 = refused.headers()["retry-after"].to_str().unwrap().parse().unwrap();
    // 3 requests in 3,600 s: one comes back every 1,200 s.
    assert!((1_000..=1_201).contains(&wait), "{wait}");
    let problem = expect(refused, StatusCode::TOO_MANY_REQUESTS).await;
    assert_eq!(problem["code"], "rate-limit-exceeded");
    for path in ["/healthz", "/readyz", "/", "/web/index.html"] {
        let answer = world.request(Method::GET, path).send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK, "{path}");
    }
    let stranger = world.client.get(format!("http://{}/api/sessions", world.address)).send().await.unwrap();
    assert_eq!(stranger.status(), StatusCode::UNAUTHORIZED, "strangers have requests of their own");
}
