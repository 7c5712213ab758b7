//! Who may ask: the token, and names that no foreign web page can borrow (DNS rebinding).

use std::net::Ipv4Addr;

use axum::extract::{ConnectInfo, Request, State};
use axum::http::header::{AUTHORIZATION, CACHE_CONTROL, CONNECTION, HOST, ORIGIN, X_CONTENT_TYPE_OPTIONS};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::app::{App, ServerConfig};
use crate::door::Pass;
use crate::problem::Problem;

/// What answers without a token.
const OPEN: [&str; 2] = ["/healthz", "/readyz"];

/// Lets a request in, or answers why not.
pub(crate) async fn guard(State(app): State<App>, request: Request, next: Next) -> Response {
    let pass = request.extensions().get::<ConnectInfo<Pass>>().map(|info| info.0.clone());
    let admitted = if OPEN.contains(&request.uri().path()) {
        Ok(())
    } else {
        let admitted = admit(request.uri(), request.headers(), app.config());
        if let (Ok(()), Some(pass)) = (&admitted, &pass) {
            pass.let_in();
        }
        admitted
    };
    let mut response = match admitted {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    };
    let headers = response.headers_mut();
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    if pass.is_some_and(|pass| !pass.is_in()) {
        // Strangers do not stay.
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

fn admit(uri: &Uri, headers: &HeaderMap, config: &ServerConfig) -> Result<(), Problem> {
    let host = host(uri, headers, config)?;
    check_origin(headers, &host, config)?;
    if bearer(headers).is_some_and(|token| config.token.matches(token)) {
        return Ok(());
    }
    Err(Problem::unauthorized())
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
}

/// The name under which the server was asked, if it is one of its own.
fn host(uri: &Uri, headers: &HeaderMap, config: &ServerConfig) -> Result<Authority, Problem> {
    let foreign =
        || Problem::forbidden("The server does not answer to this host name (server.allowedHosts).");
    let mut named = headers.get_all(HOST).iter();
    let read = |host: &HeaderValue| host.to_str().ok()?.parse::<Authority>().ok();
    let header = named.next().map(|host| read(host).ok_or_else(foreign)).transpose()?;
    if named.next().is_some() {
        return Err(foreign());
    }
    let host = uri.authority().cloned().or(header.clone()).ok_or_else(foreign)?;
    let all_known = [Some(&host), header.as_ref()].into_iter().flatten().all(|host| is_known(host, config));
    if all_known { Ok(host) } else { Err(foreign()) }
}

fn is_known(host: &Authority, config: &ServerConfig) -> bool {
    let name = host.host();
    // Nothing but a name and a port: some programs take what stands before an `@` for the name.
    let port = host.as_str().strip_prefix(name);
    if !port.is_some_and(|port| port.is_empty() || is_port(port)) {
        return false;
    }
    let is_loopback = name.eq_ignore_ascii_case("localhost")
        || name == "[::1]"
        || name.parse::<Ipv4Addr>().is_ok_and(|ip| ip.is_loopback());
    let is_allowed =
        |allowed: &String| allowed.eq_ignore_ascii_case(name) || allowed.eq_ignore_ascii_case(host.as_str());
    is_loopback || config.allowed_hosts.iter().any(is_allowed)
}

/// Whether it is `:` and a number that a port can have.
fn is_port(text: &str) -> bool {
    let digits = text.strip_prefix(':').filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
    digits.is_some_and(|digits| digits.parse::<u16>().is_ok())
}

/// A web page may ask if it came from this server, or from an origin that was allowed.
fn check_origin(headers: &HeaderMap, host: &Authority, config: &ServerConfig) -> Result<(), Problem> {
    let foreign = || Problem::forbidden("Pages of this origin may not ask (server.allowedOrigins).");
    for origin in headers.get_all(ORIGIN) {
        let origin = origin.to_str().map_err(|_| foreign())?;
        let own = origin.split_once("://").is_some_and(|(scheme, rest)| {
            matches!(scheme, "http" | "https") && rest.eq_ignore_ascii_case(host.as_str())
        });
        if !own && !config.allowed_origins.iter().any(|allowed| allowed.eq_ignore_ascii_case(origin)) {
            return Err(foreign());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token::Token;

    fn admitted(uri: &str, headers: &[(&'static str, &'static str)]) -> bool {
        let mut config = ServerConfig::new(Token::new("right"));
        config.allowed_hosts = vec!["box.lan".to_owned()];
        config.allowed_origins = vec!["https://page.example".to_owned()];
        let mut map = HeaderMap::new();
        map.insert(AUTHORIZATION, HeaderValue::from_static("Bearer right"));
        for (name, value) in headers {
            if *name == "authorization" {
                map.insert(*name, HeaderValue::from_static(value));
            } else {
                map.append(*name, HeaderValue::from_static(value));
            }
        }
        admit(&uri.parse().unwrap(), &map, &config).is_ok()
    }

    #[test]
    fn own_names_are_answered_and_others_are_not() {
        for host in ["localhost:4400", "127.0.0.1:1", "127.9.9.9", "[::1]:80", "LOCALHOST", "box.lan:4400"] {
            assert!(admitted("/", &[("host", host)]), "{host}");
        }
        for host in [
            "evil.example",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "10.0.0.1",
            "",
            "[::2]",
            "evil.example@localhost",
            "localhost@localhost:4400",
            "@localhost",
            "localhost:99999",
            "localhost:",
            "localhost:+80",
            "localhost:80:80",
            "[::1]80",
            "localhost/",
        ] {
            assert!(!admitted("/", &[("host", host)]), "{host}");
        }
        assert!(!admitted("/", &[]), "no name");
        assert!(!admitted("/", &[("host", "localhost"), ("host", "evil.example")]));
        assert!(!admitted("http://evil.example/", &[("host", "localhost")]));
        assert!(!admitted("http://localhost/", &[("host", "evil.example")]));
        assert!(!admitted("http://localhost/", &[("host", "no name")]));
    }

    #[test]
    fn only_own_and_allowed_pages_may_ask() {
        let from = |origin| admitted("/", &[("host", "localhost:4400"), ("origin", origin)]);
        assert!(from("http://localhost:4400") && from("https://page.example"));
        for origin in [
            "null",
            "http://localhost:3000",
            "https://evil.example",
            "file://localhost:4400",
            "localhost:4400",
        ] {
            assert!(!from(origin), "{origin}");
        }
    }

    #[test]
    fn only_the_token_opens() {
        let with = |value| admitted("/", &[("host", "localhost"), ("authorization", value)]);
        assert!(with("bearer right"));
        for value in ["Bearer wrong", "Bearer ", "Bearer", "Basic right", "right", ""] {
            assert!(!with(value), "{value}");
        }
    }
}
