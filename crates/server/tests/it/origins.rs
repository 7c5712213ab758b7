//! Pages of other origins.

use longhaul_providers::scripted::ModelScript;
use reqwest::{Method, Response, StatusCode};

use crate::test_server::{TOKEN, TestServer};

const PAGE: &str = "https://page.example";

async fn world() -> TestServer {
    TestServer::with(
        ModelScript::always("Yes."),
        |_| {},
        |config| config.allowed_origins = vec![PAGE.to_owned()],
    )
    .await
}

async fn preflight(world: &TestServer, origin: &str, host: Option<&str>) -> Response {
    let url = format!("http://{}/api/message", world.address);
    let mut request = world.client.request(Method::OPTIONS, url).header("origin", origin);
    request = request.header("access-control-request-method", "POST");
    request = request.header("access-control-request-headers", "authorization, idempotency-key");
    if let Some(host) = host {
        request = request.header("host", host);
    }
    request.send().await.unwrap()
}

#[tokio::test]
async fn a_page_that_is_allowed_may_ask_with_the_token_and_read_the_answer() {
    let world = world().await;
    let told = preflight(&world, PAGE, None).await;
    assert_eq!(told.status(), StatusCode::NO_CONTENT);
    let headers = told.headers();
    assert_eq!(headers["access-control-allow-origin"], PAGE);
    assert_eq!(headers["vary"], "Origin");
    let allowed = headers["access-control-allow-headers"].to_str().unwrap();
    for name in ["Authorization", "Content-Type", "Idempotency-Key", "Last-Event-ID"] {
        assert!(allowed.split(", ").any(|one| one == name), "{name} in {allowed}");
    }
    for method in ["POST", "DELETE", "PATCH", "PUT"] {
        assert!(headers["access-control-allow-methods"].to_str().unwrap().contains(method), "{method}");
    }
    // The token comes in a header. With this permission a page of another origin could use the cookie too.
    assert!(!headers.contains_key("access-control-allow-credentials"));

    for (token, status) in [(TOKEN, StatusCode::OK), ("wrong", StatusCode::UNAUTHORIZED)] {
        let url = format!("http://{}/api/sessions", world.address);
        let answer = world.client.get(url).header("origin", PAGE).bearer_auth(token).send().await.unwrap();
        assert_eq!(answer.status(), status);
        assert_eq!(answer.headers()["access-control-allow-origin"], PAGE, "{status}");
        assert_eq!(answer.headers()["vary"], "Origin");
        assert!(!answer.headers().contains_key("access-control-allow-credentials"));
    }
    let own = world.request(Method::GET, "/api/sessions").send().await.unwrap();
    assert_eq!(own.headers()["vary"], "Origin", "a cache keeps them apart");
    assert!(!own.headers().contains_key("access-control-allow-origin"));
}

#[tokio::test]
async fn others_are_told_nothing() {
    let world = world().await;
    // A stranger, a name that begins like the allowed one, another scheme, and the origin of sandboxed pages.
    for origin in ["https://evil.example", "https://page.example.evil.example", "http://page.example", "null"]
    {
        let told = preflight(&world, origin, None).await;
        assert_eq!(told.status(), StatusCode::FORBIDDEN, "{origin}");
        assert!(!told.headers().contains_key("access-control-allow-origin"), "{origin}");
    }
    assert_eq!(preflight(&world, PAGE, Some("evil.example")).await.status(), StatusCode::FORBIDDEN);
    let closed = TestServer::new(ModelScript::always("Yes.")).await;
    let told = preflight(&closed, PAGE, None).await;
    assert_eq!(told.status(), StatusCode::FORBIDDEN);
    assert!(!told.headers().contains_key("vary"));
}

/// A question without an allowed page behind it opens nothing.
#[tokio::test]
async fn a_question_is_no_way_around_the_token() {
    let world = world().await;
    let url = format!("http://{}/api/sessions", world.address);
    let request = world.client.request(Method::OPTIONS, url).header("access-control-request-method", "GET");
    assert_eq!(request.send().await.unwrap().status(), StatusCode::UNAUTHORIZED);
}
