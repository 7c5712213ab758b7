//! Answers that are not the model server's: pages and refusals of a proxy, and of a server that wants TLS.

use reqwest::Url;
use reqwest::header::{HeaderMap, SERVER};

use super::base_url::{is_page, title};
use super::network::NetworkVariables;
use crate::ProviderError;

/// The status of a proxy that wants to know who asks (RFC 9110, 15.5.8).
pub(super) const PROXY_AUTHENTICATION_REQUIRED: u16 = 407;

/// Headers of answers that a proxy made itself: Squid's, and the one of RFC 9209.
const PROXY_HEADERS: [&str; 2] = ["x-squid-error", "proxy-status"];

/// The words of servers that got plain HTTP where they speak TLS: nginx, Go and Apache.
const WANTS_TLS: [&str; 3] = [
    "plain http request was sent to https port",
    "http request to an https server",
    "plain http to an ssl-enabled server port",
];

/// The length of a server's name in an error, in characters.
const MAX_SERVER_CHARS: usize = 40;

/// The facts of a refusal that tell who answered.
pub(super) struct RefusalOrigin {
    /// The value of `Server`, if there is one.
    server: Option<String>,
    has_proxy_header: bool,
}

impl RefusalOrigin {
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let server = headers.get(SERVER).and_then(|server| server.to_str().ok());
        Self {
            server: server.map(|server| server.chars().take(MAX_SERVER_CHARS).collect()),
            has_proxy_header: PROXY_HEADERS.iter().any(|name| headers.contains_key(*name)),
        }
    }

    /// Adds to an error who answered in the model server's place, and what to do.
    pub(super) fn explain(
        self,
        url: &Url,
        variables: &NetworkVariables,
        mut error: ProviderError,
    ) -> ProviderError {
        let body = error.body.as_deref().unwrap_or_default();
        if let Some(hint) = error.status.and_then(|status| self.hint(url, variables, status, body)) {
            error.message = format!("{}; {hint}", error.message);
        }
        error
    }

    fn hint(&self, url: &Url, variables: &NetworkVariables, status: u16, body: &str) -> Option<String> {
        let proxy = variables.proxy_in_words(url);
        match status {
            PROXY_AUTHENTICATION_REQUIRED => Some(match proxy {
                Some(proxy) => format!("{proxy} {}", variables.proxy_login(url)),
                None => "it is the answer of a proxy, but no variable sets one for this server: `base_url` may be \
                         a proxy's address"
                    .to_owned(),
            }),
            400 if url.scheme() == "http" && wants_tls(body) => {
                Some("the server speaks TLS at this port: `base_url` must begin with https://".to_owned())
            }
            403 | 500..=599 if is_page(body.as_bytes()) || self.has_proxy_header => {
                // Over TLS no proxy can answer in the server's place.
                let proxy = proxy.filter(|_| url.scheme() == "http");
                Some(self.page_in_words(body, proxy))
            }
            _ => None,
        }
    }

    fn page_in_words(&self, body: &str, proxy: Option<String>) -> String {
        let title =
            title(body).map(|title| format!("\"{title}\"")).unwrap_or_else(|| "the answer".to_owned());
        if let Some(proxy) = proxy {
            return format!(
                "{title} is probably the answer of {proxy}: it may not reach the server, or not allow it; `NO_PROXY` \
                 names hosts that are reached without a proxy"
            );
        }
        let server = self.server.as_ref().map(|server| format!(" ({server})")).unwrap_or_default();
        format!(
            "{title} is not an answer of a model server, but of a proxy in front of it{server}: is the server running?"
        )
    }
}

/// Returns who answered in a model server's place, and what to do; `None` for an answer that may be the server's own.
///
/// `url` is the address of the request, and `body` the answer to it.
///
/// ```
/// use longhaul_providers::http::{NetworkVariables, proxy_answer_hint};
///
/// let url = "http://box.example/v1".parse().unwrap();
/// let page = "<html><head><title>502 Bad Gateway</title></head></html>";
/// let hint = proxy_answer_hint(&url, &NetworkVariables::default(), 502, &Default::default(), page);
/// assert!(hint.unwrap().contains("a proxy in front of it"));
/// ```
pub fn proxy_answer_hint(
    url: &Url,
    variables: &NetworkVariables,
    status: u16,
    headers: &HeaderMap,
    body: &str,
) -> Option<String> {
    RefusalOrigin::of(headers).hint(url, variables, status, body)
}

fn wants_tls(body: &str) -> bool {
    let body = body.to_lowercase();
    WANTS_TLS.iter().any(|words| body.contains(words))
}

#[cfg(test)]
mod tests {
    use longhaul_core::error::ErrorCode;
    use longhaul_wire::server_error;

    use super::*;

    fn explained(
        url: &str,
        variables: &[(&str, &str)],
        status: u16,
        body: &str,
        headers: &[(&'static str, &str)],
    ) -> ProviderError {
        let headers =
            headers.iter().map(|(name, value)| ((*name).parse().unwrap(), value.parse().unwrap())).collect();
        let variables = NetworkVariables::from_environment(variables);
        let error = server_error::from_response(status, None, body.to_owned());
        RefusalOrigin::of(&headers).explain(&Url::parse(url).unwrap(), &variables, error)
    }

    const PAGE: &str = "<html><head><title>503 Service Unavailable</title></head></html>";

    #[test]
    fn the_own_answers_of_a_proxy_are_told_as_such() {
        let proxy = [("http_proxy", "http://me:secret@p:3128")];
        let error = explained("http://box.example/v1", &proxy, 407, "", &[]);
        assert_eq!(error.code, ErrorCode::Auth);
        assert!(
            error.message.contains("the proxy http://p:3128 (set by `http_proxy`) did not accept the user"),
            "{error}"
        );
        assert!(!error.message.contains("secret"), "{error}");
        let error = explained("http://box.example/v1", &[("ALL_PROXY", "p:3128")], 407, "", &[]);
        assert!(error.message.contains("(set by `ALL_PROXY`) wants a user and a password"), "{error}");
        let error = explained("http://box.example/v1", &[], 407, "", &[]);
        assert!(error.message.contains("no variable sets one"), "{error}");
        for (status, body, headers) in [
            (503, PAGE, &[][..]),
            (502, PAGE, &[]),
            (403, PAGE, &[]),
            (504, "ERR_READ_TIMEOUT", &[("x-squid-error", "ERR_READ_TIMEOUT 0")]),
        ] {
            let error = explained("http://box.example/v1", &proxy, status, body, headers);
            assert!(
                error
                    .message
                    .contains("probably the answer of the proxy http://p:3128 (set by `http_proxy`)"),
                "{error}"
            );
            assert!(error.message.contains("`NO_PROXY` names hosts"), "{error}");
            assert_eq!(error.retryable, status != 403, "{error}");
        }
    }

    #[test]
    fn a_page_of_a_proxy_in_front_of_the_server_is_told_as_such() {
        let secure = [("https_proxy", "p:3128")];
        for (url, variables) in [
            ("http://box/v1", &[][..]),
            ("http://127.0.0.1:80/v1", &[("http_proxy", "p:1")]),
            ("https://box.example", &secure),
        ] {
            let error = explained(url, variables, 502, PAGE, &[("server", "nginx/1.29")]);
            let expected = "\"503 Service Unavailable\" is not an answer of a model server, but of a proxy in front of it \
                            (nginx/1.29): is the server running?";
            assert!(error.message.ends_with(expected), "{url}: {error}");
        }
        let error = explained("http://box/v1", &[], 503, r#"{"error":{"message":"Loading model"}}"#, &[]);
        assert_eq!(error.message, "Loading model (HTTP 503)");
    }

    #[test]
    fn a_server_that_wants_tls_is_told() {
        for body in [
            "<html><head><title>400 The plain HTTP request was sent to HTTPS port</title></head></html>",
            "Client sent an HTTP request to an HTTPS server.\n",
            "Reason: You're speaking plain HTTP to an SSL-enabled server port.",
        ] {
            let error = explained("http://box/v1", &[], 400, body, &[]);
            assert!(error.message.ends_with("`base_url` must begin with https://"), "{error}");
        }
    }
}
