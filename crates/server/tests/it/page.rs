//! The page: its files, its policy, its cookie, and who cannot borrow that.

use longhaul_providers::scripted::ModelScript;
use reqwest::redirect::Policy;
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};

use crate::test_server::{TOKEN, TestServer, expect};

/// A browser: it follows no redirect by itself here, and brings what it is told to.
struct Browser {
    world: TestServer,
    client: Client,
}

async fn browser() -> Browser {
    let world = TestServer::new(ModelScript::always("Yes.")).await;
    let client = Client::builder().no_proxy().redirect(Policy::none()).build().unwrap();
    Browser { world, client }
}

impl Browser {
    fn ask(&self, method: Method, path: &str, headers: &[(&str, &str)]) -> RequestBuilder {
        let request = self.client.request(method, format!("http://{}{path}", self.world.address));
        headers.iter().fold(request, |request, (name, value)| request.header(*name, *value))
    }

    async fn get(&self, path: &str, headers: &[(&str, &str)]) -> Response {
        self.ask(Method::GET, path, headers).send().await.unwrap()
    }

    fn own(&self) -> String {
        format!("http://{}", self.world.address)
    }

    async fn login(&self, token: &str, headers: &[(&str, &str)]) -> Response {
        let request = self.ask(Method::POST, "/api/login", headers).json(&json!({ "token": token }));
        request.send().await.unwrap()
    }
}

/// What a browser would keep of an answer.
fn cookie(answer: &Response) -> String {
    let line = answer.headers()["set-cookie"].to_str().unwrap();
    line.split(';').next().unwrap().to_owned()
}

#[tokio::test]
async fn the_page_answers_anybody_under_a_strict_policy() {
    let browser = browser().await;
    let page = browser.get("/", &[]).await;
    assert_eq!(page.status(), StatusCode::OK);
    let headers = page.headers().clone();
    assert_eq!(headers["content-type"], "text/html; charset=utf-8");
    let policy = headers["content-security-policy"].to_str().unwrap();
    for rule in [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data: blob:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types longhaul",
    ] {
        assert!(policy.split("; ").any(|part| part == rule), "{rule} in {policy}");
    }
    assert!(!policy.contains("unsafe"), "{policy}");
    for (name, value) in [
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
        ("cache-control", "no-cache"),
    ] {
        assert_eq!(headers[name], value, "{name}");
    }
    assert!(page.text().await.unwrap().to_lowercase().starts_with("<!doctype html>"));

    let tag = headers["etag"].to_str().unwrap();
    let again = browser.get("/", &[("if-none-match", tag)]).await;
    assert_eq!((again.status(), &again.headers()["etag"]), (StatusCode::NOT_MODIFIED, &headers["etag"]));
    assert!(again.text().await.unwrap().is_empty());
    assert_eq!(browser.get("/", &[("if-none-match", "\"other\"")]).await.status(), StatusCode::OK);
}

#[tokio::test]
async fn nothing_but_its_files_is_served() {
    let browser = browser().await;
    assert_eq!(browser.get("/web/index.html", &[]).await.status(), StatusCode::OK);
    // The slashes are encoded because the client would resolve a plain `..` by itself.
    for path in [
        "/web/",
        "/web/none.js",
        "/web/..%2fCargo.toml",
        "/web/..%2f..%2f..%2fCargo.lock",
        "/web/%2e%2e%2fsrc%2flib.rs",
        "/web/%2fetc%2fpasswd",
        "/web/..%2fsrc%2froutes.js",
    ] {
        assert_eq!(browser.get(path, &[]).await.status(), StatusCode::NOT_FOUND, "{path}");
    }
    for path in ["/", "/web/index.html", "/open/x"] {
        let foreign = browser.get(path, &[("host", "evil.example")]).await;
        assert_eq!(foreign.status(), StatusCode::FORBIDDEN, "{path}: a name that was rebound");
    }
    let foreign = browser.login(TOKEN, &[("host", "evil.example")]).await;
    assert_eq!(foreign.status(), StatusCode::FORBIDDEN);
    let foreign = browser.login(TOKEN, &[("origin", "https://evil.example")]).await;
    assert_eq!(foreign.status(), StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn an_opening_link_opens_once() {
    let browser = browser().await;
    let link = browser.world.app.opening_path().unwrap();
    let opened = browser.get(&link, &[]).await;
    assert_eq!(
        (opened.status(), &opened.headers()["location"]),
        (StatusCode::SEE_OTHER, &"../".parse().unwrap())
    );
    let line = opened.headers()["set-cookie"].to_str().unwrap().to_owned();
    let name = format!("longhaul-{}=", browser.world.address.port());
    assert!(line.starts_with(&name), "{line}");
    for rule in ["HttpOnly", "SameSite=Strict", "Path=/"] {
        assert!(line.split("; ").any(|part| part == rule), "{rule} in {line}");
    }
    assert!(!line.contains(TOKEN));
    let cookie = cookie(&opened);
    let sessions = browser.get("/api/sessions", &[("cookie", &cookie)]).await;
    assert_eq!(sessions.status(), StatusCode::OK);

    // Spent, never given, and with line ends that try to add a header to the answer.
    for link in [link.as_str(), "/open/unknown", "/open/%22%0d%0aset-cookie:%20x=y"] {
        let spent = browser.get(link, &[]).await;
        let to = spent.headers()["location"].to_str().unwrap();
        assert_eq!((spent.status(), to), (StatusCode::SEE_OTHER, "../#opening-link-spent"), "{link}");
        assert!(!spent.headers().contains_key("set-cookie"), "{link}");
        let known = browser.get(link, &[("cookie", &cookie)]).await;
        assert_eq!(known.headers()["location"], "../", "{link}: who is in stays in");
    }
}

#[tokio::test]
async fn a_login_takes_the_token_and_nothing_else() {
    let browser = browser().await;
    for wrong in ["", "wrong", &TOKEN[1..]] {
        let refused = browser.login(wrong, &[]).await;
        assert!(!refused.headers().contains_key("set-cookie"));
        expect(refused, StatusCode::UNAUTHORIZED).await;
    }
    // Anybody may ask for a login, so its body has a limit that is far below that of messages.
    let large = browser.login(&"x".repeat(5_000), &[]).await;
    assert_eq!(large.status(), StatusCode::PAYLOAD_TOO_LARGE);
    let answer = browser.login(TOKEN, &[("origin", &browser.own())]).await;
    let cookie = cookie(&answer);
    assert_eq!(expect(answer, StatusCode::OK).await, json!({ "ok": true }));
    let models: Value = browser.get("/api/models", &[("cookie", &cookie)]).await.json().await.unwrap();
    assert_eq!(models["demo"], false);
    assert_eq!(models["current"]["provider"], "scripted");
    assert_eq!(models["workspace"], browser.world.folder.path().canonicalize().unwrap().to_str().unwrap());

    let left = browser.ask(Method::POST, "/api/logout", &[("cookie", &cookie)]).send().await.unwrap();
    let line = left.headers()["set-cookie"].to_str().unwrap();
    assert!(line.contains("Max-Age=0") && line.contains("=;"), "{line}");
}

#[tokio::test]
async fn the_cookie_is_of_no_use_to_other_pages() {
    let browser = browser().await;
    let cookie = cookie(&browser.login(TOKEN, &[]).await);
    let own = browser.own();
    let send = async |headers: &[(&str, &str)]| {
        let headers: Vec<_> = [("cookie", cookie.as_str())].iter().chain(headers).copied().collect();
        let request =
            browser.ask(Method::POST, "/api/message", &headers).json(&json!({ "content": "hello" }));
        request.send().await.unwrap().status()
    };
    assert_eq!(send(&[]).await, StatusCode::FORBIDDEN, "no page says that it asks");
    // Another server of this machine, a stranger, and a sandboxed page.
    for origin in ["http://localhost:3000", "https://evil.example", "null"] {
        assert_eq!(send(&[("origin", origin)]).await, StatusCode::FORBIDDEN, "{origin}");
    }
    // Browsers send `same-site` for a page of another port too, and `none` for an address that somebody typed.
    for site in ["same-site", "cross-site", "none"] {
        assert_eq!(send(&[("sec-fetch-site", site)]).await, StatusCode::FORBIDDEN, "{site}");
    }
    let list = browser.world.get("/api/sessions").await;
    assert_eq!(list["sessions"], json!([]), "nothing was done");
    assert_eq!(send(&[("origin", &own)]).await, StatusCode::OK);
    assert_eq!(send(&[("sec-fetch-site", "same-origin")]).await, StatusCode::OK);

    let other = browser.get("/api/sessions", &[("cookie", &cookie), ("sec-fetch-site", "same-site")]).await;
    assert_eq!(other.status(), StatusCode::FORBIDDEN, "another port of this machine");
    let stale = cookie.replace(&cookie[cookie.len() - 4..], "0000");
    let refused = browser.get("/api/sessions", &[("cookie", &stale)]).await;
    assert_eq!(refused.status(), StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn pages_of_allowed_origins_bring_the_token_not_the_cookie() {
    let allow = |config: &mut longhaul_server::HttpServerConfig| {
        config.allowed_origins = vec!["https://page.example".to_owned()];
    };
    let world = TestServer::with(ModelScript::always("Yes."), |_| {}, allow).await;
    let browser = Browser { world, client: Client::builder().no_proxy().build().unwrap() };
    let cookie = cookie(&browser.login(TOKEN, &[]).await);
    let from = [("cookie", cookie.as_str()), ("origin", "https://page.example")];
    assert_eq!(browser.get("/api/sessions", &from).await.status(), StatusCode::FORBIDDEN);
    let bearer = format!("Bearer {TOKEN}");
    let from = [("authorization", bearer.as_str()), ("origin", "https://page.example")];
    assert_eq!(browser.get("/api/sessions", &from).await.status(), StatusCode::OK);
}
