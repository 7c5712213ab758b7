//! The guard of all routes: a check of the token, and of host names against foreign web pages (DNS rebinding).

use std::net::Ipv4Addr;
use std::time::Instant;

use axum::extract::{ConnectInfo, MatchedPath, Request, State};
use axum::http::header::{AUTHORIZATION, CACHE_CONTROL, CONNECTION, HOST, ORIGIN, X_CONTENT_TYPE_OPTIONS};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::app::{AppState, HttpServerConfig};
use crate::cookie;
use crate::cors;
use crate::pre_auth_listener::PreAuthPermit;
use crate::problem::ApiProblem;
use crate::routes::gateway;

/// The paths for everybody, under any host name.
const HEALTH: [&str; 2] = ["/healthz", "/readyz"];

/// The paths without a token, under the server's own host names.
const PAGE_PATHS: [&str; 3] = ["/", "/api/login", "/api/logout"];
const PAGE_FOLDERS: [&str; 2] = ["/web/", "/open/"];

const CROSS_ORIGIN_RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The authentication of an admitted request.
#[derive(Clone, Debug)]
pub(crate) struct RequestAuthInfo {
    /// The host name of the request.
    pub(crate) host: Authority,
    /// Set if the request showed the token or the cookie.
    pub(crate) is_known: bool,
}

/// Admits a request, or answers with the reason for its refusal.
pub(crate) async fn guard(State(app): State<AppState>, mut request: Request, next: Next) -> Response {
    // Cloned, because the request moves on and the answer still needs the permit.
    let pass = request.extensions().get::<ConnectInfo<PreAuthPermit>>().map(|info| info.0.clone());
    let (method, route) = (request.method().clone(), request.extensions().get::<MatchedPath>().cloned());
    // The request is moved below, so its origin is read first.
    let origin = cors::allowed(request.headers(), app.config());
    let (path, begun) = (request.uri().path().to_owned(), Instant::now());
    let admitted = if HEALTH.contains(&request.uri().path()) {
        Ok(())
    } else {
        let (uri, headers) = (request.uri(), request.headers());
        let address = pass.as_ref().map(|pass| pass.address());
        // A reverse proxy on this machine connects from the loopback address for clients anywhere.
        let is_near = address.is_some_and(|address| address.is_loopback()) && !is_passed_on(headers);
        admit(&method, uri, headers, app.config(), is_near)
            .and_then(|visit| {
                // Another node asks for a client whose request it has counted already.
                if !is_of_node(headers, app.config()) {
                    app.allow(uri.path(), (address, visit.is_known))?;
                }
                // Clients of an open gateway show no token, and their requests may take minutes.
                let is_in = visit.is_known || is_of_gateway(uri.path());
                if let (true, Some(pass)) = (is_in, &pass) {
                    // The place is freed as soon as the client is known, because an event stream may stay open for
                    // days.
                    pass.let_in();
                }
                Ok(visit)
            })
            // Routes behind the guard read who asked and under which host name.
            .map(|visit| drop(request.extensions_mut().insert(visit)))
    };
    let mut response = match admitted {
        // A preflight asks what is allowed and must not reach a route.
        Ok(()) if cors::is_question(&method, request.headers()) => cors::answer(),
        Ok(()) => next.run(request).await,
        Err(problem) if is_of_gateway(&path) || gateway::is_missed(&path) => {
            // The gateway's clients parse errors in the form of their provider's API.
            gateway::refused_at(&path, &problem)
        }
        Err(problem) => problem.into_response(),
    };
    // The route's pattern is the label: raw paths hold ids, which would create endless labels.
    let route = route.as_ref().map_or("other", MatchedPath::as_str);
    app.config().counters.request(known_method(&method), route, response.status().as_u16());
    log_request(&method, route, &response, begun);
    let headers = response.headers_mut();
    // Uploaded files come from here, too, and a browser must not take one for a page.
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(CROSS_ORIGIN_RESOURCE_POLICY, HeaderValue::from_static("same-origin"));
    // Answers hold conversations, which do not belong in a browser's cache.
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    // Set on refusals too: without these headers a page cannot read why it was refused.
    cors::mark(headers, origin, app.config());
    if pass.is_some_and(|pass| !pass.is_in()) {
        // A connection without the token must not hold its place in the queue.
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// Logs an answered request. The path is left out: the path of an opening link is a key.
fn log_request(method: &Method, route: &str, response: &Response, begun: Instant) {
    let (method, status) = (known_method(method), response.status().as_u16());
    // The body may still be streaming, so this is the time to the first byte.
    let elapsed_ms = begun.elapsed().as_millis() as u64;
    if is_of_page(route) || HEALTH.contains(&route) || route == "/metrics" {
        // Browsers and monitors ask for these all the time.
        tracing::debug!(method, route, status, elapsed_ms, "request");
    } else {
        tracing::info!(method, route, status, elapsed_ms, "request");
    }
}

/// Returns the method's label for the metrics. Clients can invent methods and would create endless labels.
fn known_method(method: &Method) -> &str {
    let known = [
        Method::GET,
        Method::HEAD,
        Method::POST,
        Method::PUT,
        Method::PATCH,
        Method::DELETE,
        Method::OPTIONS,
    ];
    if known.contains(method) { method.as_str() } else { "other" }
}

fn admit(
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
    config: &HttpServerConfig,
    is_near: bool,
) -> Result<RequestAuthInfo, ApiProblem> {
    // The host name comes first. Under a foreign name even a valid cookie proves nothing (DNS rebinding).
    let host = host(uri, headers, config).inspect_err(|_| {
        tracing::info!("refused: the request's host name is not one of server.allowedHosts");
    })?;
    check_origin(headers, &host, config).inspect_err(|_| {
        tracing::info!(%host, "refused: the page's origin is not one of server.allowedOrigins");
    })?;
    // Browsers send preflights without credentials.
    if cors::is_question(method, headers) && cors::allowed(headers, config).is_some() {
        return Ok(RequestAuthInfo { host, is_known: false });
    }
    let shown = show(method, uri, headers, &host, config);
    match shown {
        // The login page itself must load before anybody can show the token.
        CredentialStrength::Nothing | CredentialStrength::CookieAlone if is_page_or_login(uri.path()) => {
            Ok(RequestAuthInfo { host, is_known: false })
        }
        CredentialStrength::Nothing | CredentialStrength::CookieAlone
            // The host name must be a loopback one as well: a page may point a name of its own to this machine.
            if is_near && is_loopback(&host) && config.gateway_is_open && is_of_gateway(uri.path()) =>
        {
            check_fetch_site(headers, config).inspect_err(|_| {
                tracing::info!(%host, "refused: a page of another site asked the open gateway");
            })?;
            tracing::debug!("admitted without a token: the gateway is open to this machine");
            Ok(RequestAuthInfo { host, is_known: false })
        }
        CredentialStrength::Enough => Ok(RequestAuthInfo { host, is_known: true }),
        CredentialStrength::CookieAlone => {
            tracing::info!(%host, "refused: the cookie came from another page, without the token");
            Err(ApiProblem::forbidden("The cookie is valid for the server's own page only. Other pages and \
                                       programs send the token."))
        }
        CredentialStrength::Nothing => {
            let has_token = shown_tokens(uri, headers).any(|token| !token.is_empty());
            tracing::info!(is_near, has_token, "refused: the request shows no valid token");
            Err(if has_token { ApiProblem::wrong_token() } else { ApiProblem::unauthorized() })
        }
    }
}

pub(crate) fn is_page_or_login(path: &str) -> bool {
    PAGE_PATHS.contains(&path) || PAGE_FOLDERS.iter().any(|folder| path.starts_with(folder))
}

/// Returns whether the path is the gateway's.
fn is_of_gateway(path: &str) -> bool {
    path.starts_with(gateway::ROOT)
}

/// Returns whether the path is the page or one of its files.
pub(crate) fn is_of_page(path: &str) -> bool {
    path == "/" || path.starts_with("/web/")
}

/// The strength of a request's credentials.
enum CredentialStrength {
    Enough,
    /// The cookie alone, sent by a browser for any page.
    CookieAlone,
    Nothing,
}

fn show(
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
    host: &Authority,
    config: &HttpServerConfig,
) -> CredentialStrength {
    if shown_tokens(uri, headers).any(|token| config.token.matches(token)) {
        return CredentialStrength::Enough;
    }
    if is_of_node(headers, config) {
        return CredentialStrength::Enough;
    }
    // The cookie comes last, because a browser sends it without the person's knowledge.
    if !cookie::is_brought(headers, host, &config.token) {
        return CredentialStrength::Nothing;
    }
    if is_of_own_page(method, headers, host) {
        CredentialStrength::Enough
    } else {
        CredentialStrength::CookieAlone
    }
}

/// Returns the tokens that a request shows, valid or not.
fn shown_tokens<'h>(uri: &Uri, headers: &'h HeaderMap) -> impl Iterator<Item = &'h str> {
    // Anthropic's clients send their key in `x-api-key`.
    let key =
        headers.get("x-api-key").filter(|_| is_of_gateway(uri.path())).and_then(|key| key.to_str().ok());
    [bearer(headers), key].into_iter().flatten()
}

/// Returns whether another node sent the request.
fn is_of_node(headers: &HeaderMap, config: &HttpServerConfig) -> bool {
    bearer(headers).is_some_and(|shown| config.token.matches_node(shown))
}

/// Returns whether the server's own page sent the request, or a person who typed the address. A browser treats servers
/// at other ports of the machine as the same site, so `SameSite` does not keep their pages away.
fn is_of_own_page(method: &Method, headers: &HeaderMap, host: &Authority) -> bool {
    let reads = matches!(*method, Method::GET | Method::HEAD);
    // Several headers of one name are all checked, because programs differ in which one they read.
    let mut origins = headers.get_all(ORIGIN).iter().peekable();
    let has_origin = origins.peek().is_some();
    if !origins.all(|origin| origin.to_str().is_ok_and(|origin| is_own(origin, host))) {
        return false;
    }
    match headers.get(FETCH_SITE).map(HeaderValue::as_bytes) {
        Some(b"same-origin") => true,
        // A typed address or a bookmark only reads.
        Some(b"none") => reads,
        Some(_) => false,
        // Older browsers send no `Sec-Fetch-Site`, but `Origin` with every request that changes something.
        None => reads || has_origin,
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
}

/// Returns the request's host name if accepted as one of the server's own.
fn host(uri: &Uri, headers: &HeaderMap, config: &HttpServerConfig) -> Result<Authority, ApiProblem> {
    let mut named = headers.get_all(HOST).iter();
    let header = named.next().map(|host| read_authority(host).ok_or_else(foreign_host)).transpose()?;
    // Proxies and servers disagree on which of two headers counts, so one of them might go unchecked.
    if named.next().is_some() {
        return Err(foreign_host());
    }
    // The request line may name a host as well (HTTP/2, or an absolute address). Both must be known.
    let host = uri.authority().cloned().or(header.clone()).ok_or_else(foreign_host)?;
    let all_known = [Some(&host), header.as_ref()].into_iter().flatten().all(|host| is_known(host, config));
    if all_known { Ok(host) } else { Err(foreign_host()) }
}

fn read_authority(host: &HeaderValue) -> Option<Authority> {
    host.to_str().ok()?.parse().ok()
}

fn foreign_host() -> ApiProblem {
    ApiProblem::forbidden(
        "This host name is not allowed. Add it to server.allowedHosts, or use the server's address.",
    )
}

fn is_known(host: &Authority, config: &HttpServerConfig) -> bool {
    let name = host.host();
    // Only a name and a port may pass: some programs read the text before an `@` as the name.
    let port = host.as_str().strip_prefix(name);
    if !port.is_some_and(|port| port.is_empty() || is_port(port)) {
        return false;
    }
    is_loopback(host)
        || config
            .allowed_hosts
            .iter()
            .any(|allowed| allowed.eq_ignore_ascii_case(name) || allowed.eq_ignore_ascii_case(host.as_str()))
}

fn is_loopback(host: &Authority) -> bool {
    let name = host.host();
    name.eq_ignore_ascii_case("localhost")
        || name == "[::1]"
        || name.parse::<Ipv4Addr>().is_ok_and(|ip| ip.is_loopback())
}

/// Returns whether a proxy on this machine forwards the request. The client may be anywhere.
fn is_passed_on(headers: &HeaderMap) -> bool {
    const KNOWN: [&str; 6] =
        ["forwarded", "via", "x-real-ip", "cf-connecting-ip", "true-client-ip", "x-client-ip"];
    // Any of these headers is enough: guessing too often only asks for the token.
    headers
        .keys()
        .map(HeaderName::as_str)
        .any(|name| name.starts_with("x-forwarded") || KNOWN.contains(&name))
}

/// Returns whether the text is `:` and a valid port number.
fn is_port(text: &str) -> bool {
    let digits = text.strip_prefix(':').filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
    digits.is_some_and(|digits| digits.parse::<u16>().is_ok())
}

/// Checks the origin of a web page: the server's own, or an allowed one.
fn check_origin(headers: &HeaderMap, host: &Authority, config: &HttpServerConfig) -> Result<(), ApiProblem> {
    // Programs send no `Origin`, so its absence is allowed. Other checks guard against pages that send none.
    let is_allowed = headers.get_all(ORIGIN).iter().all(|origin| {
        origin.to_str().is_ok_and(|origin| {
            is_own(origin, host)
                || config.allowed_origins.iter().any(|allowed| allowed.eq_ignore_ascii_case(origin))
        })
    });
    if is_allowed {
        return Ok(());
    }
    Err(ApiProblem::forbidden(
        "Pages of this origin are not allowed. Add the origin to server.allowedOrigins.",
    ))
}

/// Refuses requests of foreign pages without the token. Browsers omit `Origin` if a page cannot read the answer
/// (pictures, links, GET forms). Then only `Sec-Fetch-Site` identifies the page.
fn check_fetch_site(headers: &HeaderMap, config: &HttpServerConfig) -> Result<(), ApiProblem> {
    // Without the header no current browser is asking, so programs on this machine pass.
    let mut sites = headers.get_all(FETCH_SITE).iter().map(HeaderValue::as_bytes);
    if sites.all(|site| matches!(site, b"same-origin" | b"none")) || cors::allowed(headers, config).is_some()
    {
        return Ok(());
    }
    Err(ApiProblem::forbidden(
        "Pages of other sites need the token, or their origin in server.allowedOrigins.",
    ))
}

fn is_own(origin: &str, host: &Authority) -> bool {
    origin.split_once("://").is_some_and(|(scheme, rest)| {
        matches!(scheme, "http" | "https") && rest.eq_ignore_ascii_case(host.as_str())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token::AccessToken;

    fn admitted(uri: &str, headers: &[(&'static str, &'static str)]) -> bool {
        let mut config = HttpServerConfig::new(AccessToken::new("right"));
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
        admit(&Method::GET, &uri.parse().unwrap(), &map, &config, false).is_ok()
    }

    #[test]
    fn own_names_are_answered_and_others_are_not() {
        for host in ["localhost:4400", "127.0.0.1:1", "127.9.9.9", "[::1]:80", "LOCALHOST", "box.lan:4400"] {
            assert!(admitted("/api", &[("host", host)]), "{host}");
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
            assert!(!admitted("/api", &[("host", host)]), "{host}");
        }
        assert!(!admitted("/api", &[]), "no name");
        assert!(!admitted("/api", &[("host", "localhost"), ("host", "evil.example")]));
        assert!(!admitted("http://evil.example/api", &[("host", "localhost")]));
        assert!(!admitted("http://localhost/api", &[("host", "evil.example")]));
        assert!(!admitted("http://localhost/api", &[("host", "no name")]));
    }

    fn is_admitted_from(origin: &'static str) -> bool {
        admitted("/api", &[("host", "localhost:4400"), ("origin", origin)])
    }

    #[test]
    fn only_own_and_allowed_pages_may_ask() {
        assert!(is_admitted_from("http://localhost:4400") && is_admitted_from("https://page.example"));
        for origin in [
            "null",
            "http://localhost:3000",
            "https://evil.example",
            "file://localhost:4400",
            "localhost:4400",
        ] {
            assert!(!is_admitted_from(origin), "{origin}");
        }
    }

    /// Returns whether a request without a token is admitted, from this machine if `is_near`.
    fn enters(config: &HttpServerConfig, host: &'static str, path: &str, is_near: bool) -> bool {
        let headers = HeaderMap::from_iter([(HOST, HeaderValue::from_static(host))]);
        admit(&Method::POST, &path.parse().unwrap(), &headers, config, is_near).is_ok()
    }

    #[test]
    fn the_gateway_is_open_to_this_machine_under_its_own_names_alone() {
        let mut config = HttpServerConfig::new(AccessToken::new("right"));
        config.allowed_hosts = vec!["box.lan".to_owned()];
        config.gateway_is_open = true;
        assert!(enters(&config, "localhost:4400", "/v1/messages", true));
        assert!(!enters(&config, "localhost:4400", "/v1/messages", false), "from elsewhere");
        assert!(!enters(&config, "box.lan", "/v1/messages", true), "a proxy of this machine, for others");
        assert!(!enters(&config, "localhost:4400", "/api/sessions", true), "only the gateway");
        config.gateway_is_open = false;
        assert!(!enters(&config, "localhost:4400", "/v1/messages", true));
    }

    #[test]
    fn a_page_of_another_site_does_not_ask_the_open_gateway_without_an_origin_either() {
        let mut config = HttpServerConfig::new(AccessToken::new("right"));
        config.gateway_is_open = true;
        config.allowed_origins = vec!["https://page.example".to_owned()];
        let enters = |method: &Method, path: &str, headers: &[(&'static str, &'static str)]| {
            let mut map = HeaderMap::from_iter([(HOST, HeaderValue::from_static("localhost:4400"))]);
            for (name, value) in headers {
                map.append(*name, HeaderValue::from_static(value));
            }
            admit(method, &path.parse().unwrap(), &map, &config, true).is_ok()
        };
        let site = "sec-fetch-site";
        for method in [Method::GET, Method::POST, Method::HEAD, Method::OPTIONS] {
            for path in ["/v1/models", "/v1/chat/completions", "/v1/messages"] {
                for value in ["cross-site", "same-site", "CROSS-SITE", "", "anything"] {
                    assert!(!enters(&method, path, &[(site, value)]), "{method} {path} {value}");
                }
                assert!(!enters(&method, path, &[(site, "same-origin"), (site, "cross-site")]));
                assert!(!enters(&method, path, &[(site, "cross-site"), ("cookie", "longhaul-4400=x")]));
                for headers in [&[][..], &[(site, "same-origin")], &[(site, "none")]] {
                    assert!(enters(&method, path, headers), "{method} {path} {headers:?}");
                }
                let allowed = [(site, "cross-site"), ("origin", "https://page.example")];
                assert!(enters(&method, path, &allowed), "an origin that the file allows");
                let known = [(site, "cross-site"), ("authorization", "Bearer right")];
                assert!(enters(&method, path, &known), "with the token");
            }
        }
    }

    #[test]
    fn a_wrong_token_is_told_from_a_missing_one() {
        let config = HttpServerConfig::new(AccessToken::new("right"));
        let detail = |token: Option<&'static str>| {
            let mut map = HeaderMap::from_iter([(HOST, HeaderValue::from_static("localhost:4400"))]);
            map.extend(token.map(|token| (AUTHORIZATION, HeaderValue::from_static(token))));
            let refused = admit(&Method::GET, &"/api/sessions".parse().unwrap(), &map, &config, true);
            refused.map(|_| ()).unwrap_err().detail().to_owned()
        };
        assert!(detail(Some("Bearer wrong")).starts_with("The token is wrong."));
        for missing in [None, Some("Bearer "), Some("Basic right")] {
            assert!(detail(missing).starts_with("This needs the server's token"), "{missing:?}");
        }
    }

    fn is_admitted_with(authorization: &'static str) -> bool {
        admitted("/api", &[("host", "localhost"), ("authorization", authorization)])
    }

    #[test]
    fn only_the_token_opens() {
        assert!(is_admitted_with("bearer right"));
        for value in ["Bearer wrong", "Bearer ", "Bearer", "Basic right", "right", ""] {
            assert!(!is_admitted_with(value), "{value}");
        }
    }

    fn shows(method: &Method, path: &str, headers: &[(&'static str, &'static str)]) -> Result<bool, u16> {
        let config = HttpServerConfig::new(AccessToken::new("right"));
        let mut map = HeaderMap::new();
        map.insert(HOST, HeaderValue::from_static("localhost:4400"));
        let cookie = format!("a=b; longhaul-4400={}; c=d", config.token.cookie());
        map.insert(axum::http::header::COOKIE, HeaderValue::try_from(cookie).unwrap());
        for (name, value) in headers {
            map.insert(*name, HeaderValue::from_static(value));
        }
        let admitted = admit(method, &path.parse().unwrap(), &map, &config, false);
        admitted.map(|visit| visit.is_known).map_err(|problem| problem.status().as_u16())
    }

    #[test]
    fn the_cookie_counts_for_the_own_page_alone() {
        let own = ("origin", "http://localhost:4400");
        for headers in
            [vec![], vec![("sec-fetch-site", "same-origin")], vec![("sec-fetch-site", "none")], vec![own]]
        {
            assert_eq!(shows(&Method::GET, "/api", &headers), Ok(true), "{headers:?}");
        }
        for headers in
            [vec![own], vec![("sec-fetch-site", "same-origin")], vec![own, ("sec-fetch-site", "same-origin")]]
        {
            for method in [Method::POST, Method::DELETE, Method::PATCH, Method::PUT] {
                assert_eq!(shows(&method, "/api", &headers), Ok(true), "{headers:?}");
            }
        }
        for headers in [vec![], vec![("sec-fetch-site", "none")], vec![own, ("sec-fetch-site", "same-site")]]
        {
            assert_eq!(shows(&Method::POST, "/api", &headers), Err(403), "{headers:?}");
        }
        for site in ["same-site", "cross-site"] {
            assert_eq!(shows(&Method::GET, "/api", &[("sec-fetch-site", site)]), Err(403), "{site}");
            assert_eq!(
                shows(&Method::GET, "/", &[("sec-fetch-site", site)]),
                Ok(false),
                "a link to the page"
            );
        }
        let other = ("origin", "http://localhost:3000");
        assert_eq!(shows(&Method::POST, "/api/login", &[other]), Err(403));
        assert_eq!(shows(&Method::GET, "/api", &[("cookie", "longhaul-4401=x")]), Err(401));
        assert_eq!(shows(&Method::GET, "/", &[("host", "evil.example")]), Err(403), "the page too");
    }
}
