//! The headers relayed between client and upstream, and the gateway's own headers.

use std::time::Duration;

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use longhaul_core::budget::StrategyTrigger;

/// Reports whether a header belongs to one connection or is the gateway's to write.
fn is_ours(name: &HeaderName) -> bool {
    const HOP: [HeaderName; 10] = [
        header::CONNECTION,
        header::PROXY_AUTHENTICATE,
        header::PROXY_AUTHORIZATION,
        header::TE,
        header::TRAILER,
        header::TRANSFER_ENCODING,
        header::UPGRADE,
        header::HOST,
        header::CONTENT_LENGTH,
        header::EXPECT,
    ];
    HOP.contains(name) || name == "keep-alive" || name == "proxy-connection"
}

/// The headers with the caller's credentials.
const CREDENTIALS: [&str; 4] = ["authorization", "x-api-key", "api-key", "x-goog-api-key"];

/// Returns the caller's headers for the upstream. The cookie belongs to the gateway's own page and stays here. The
/// upstream is always asked for an uncompressed answer, because the gateway must read the stream.
pub(crate) fn for_upstream(from: &HeaderMap, with_credentials: bool) -> HeaderMap {
    let named = connection_names(from);
    let mut headers: HeaderMap = from
        .iter()
        .filter(|(name, _)| is_for_upstream(name, with_credentials) && !named.contains(&name.as_str()))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    headers
}

/// Returns whether a request header is meant for the upstream.
fn is_for_upstream(name: &HeaderName, with_credentials: bool) -> bool {
    // `Origin` and `Referer` name the gateway's own page or the client's, which do not concern the upstream.
    let kept = [header::COOKIE, header::ACCEPT_ENCODING, header::ORIGIN, header::REFERER];
    let is_private = kept.contains(name) || name.as_str().starts_with("x-longhaul-");
    let is_key = CREDENTIALS.contains(&name.as_str());
    !is_ours(name) && !is_private && (with_credentials || !is_key)
}

/// Returns whether a response header is meant for a client of a model: content type, provider, request id, rate limits.
/// Cookies, redirects, challenges and the rules for web pages concern only the upstream and the gateway.
fn is_for_clients(name: &str) -> bool {
    const KNOWN: [&str; 6] =
        ["content-type", "content-language", "cache-control", "retry-after", "retry-after-ms", "cf-ray"];
    const MAKERS: [&str; 3] = ["x-", "openai-", "anthropic-"];
    const WORDS: [&str; 3] = ["request-id", "ratelimit", "rate-limit"];
    // `x-accel-*` and the like command a reverse proxy in front of the gateway. Only the gateway may write
    // `x-longhaul-*`.
    const NEVER: [&str; 5] = ["x-longhaul-", "x-accel-", "x-sendfile", "x-lighttpd-", "x-reproxy-"];
    let is_known = KNOWN.contains(&name)
        || starts_with_any(name, &MAKERS)
        || WORDS.iter().any(|word| name.contains(word));
    is_known && !starts_with_any(name, &NEVER)
}

fn starts_with_any(name: &str, prefixes: &[&str]) -> bool {
    prefixes.iter().any(|prefix| name.starts_with(prefix))
}

/// Returns the upstream's headers for the caller.
pub(crate) fn for_caller(from: &HeaderMap) -> HeaderMap {
    let named = connection_names(from);
    from.iter()
        .filter(|(name, _)| {
            is_for_clients(name.as_str()) && !is_ours(name) && !named.contains(&name.as_str())
        })
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// Returns the header names listed in `Connection`, which are hop-by-hop, too.
fn connection_names(from: &HeaderMap) -> Vec<&str> {
    // A proxy may add a second line of the header instead of changing the first.
    let lists = from.get_all(header::CONNECTION).into_iter().filter_map(|value| value.to_str().ok());
    lists.flat_map(|list| list.split(',')).map(str::trim).collect()
}

/// Returns a hash that identifies the caller by its credentials.
pub(crate) fn hash_caller(from: &HeaderMap) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new_derive_key("longhaul 2026 gateway caller");
    for name in CREDENTIALS {
        let value = from.get(name).map(HeaderValue::as_bytes).unwrap_or_default();
        // The length goes first, so that a value cannot slide from one header into the next.
        hasher.update(&(value.len() as u64).to_le_bytes());
        hasher.update(value);
    }
    *hasher.finalize().as_bytes()
}

/// A caller's settings for one request.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RequestOverrides {
    /// `x-longhaul-compress: off`.
    pub(crate) off: bool,
    /// `x-longhaul-strategy: NAME`.
    pub(crate) strategy: Option<String>,
    /// `x-longhaul-trigger: 0.7` (share of the window) or `12000` (tokens).
    pub(crate) trigger: Option<StrategyTrigger>,
}

impl RequestOverrides {
    /// Reads the overrides from the `x-longhaul-` headers.
    ///
    /// # Errors
    /// The message names an unknown `x-longhaul-` header, or a header whose value cannot be read.
    pub(crate) fn read(from: &HeaderMap) -> Result<Self, String> {
        // A misspelt header would silently change nothing.
        if let Some(name) = from.keys().find(|name| is_unknown_override(name)) {
            let known = ASKED[..ASKED.len() - 1].join(", x-longhaul-");
            return Err(format!("`{name}` is not a header of a request; there are: x-longhaul-{known}"));
        }
        let off = match override_text(from, "x-longhaul-compress").as_deref() {
            None | Some("on") => false,
            Some("off") => true,
            Some(other) => return Err(format!("x-longhaul-compress is `{other}`; it must be on or off")),
        };
        let strategy = override_text(from, "x-longhaul-strategy");
        if let Some(name) =
            strategy.as_deref().filter(|name| longhaul_core::strategy::by_name(name).is_none())
        {
            let known = longhaul_core::strategy::NAMES.join(", ");
            return Err(format!("x-longhaul-strategy must be one of {known}, not `{name}`"));
        }
        let trigger = override_text(from, "x-longhaul-trigger").map(|text| trigger(&text)).transpose()?;
        Ok(Self { off, strategy, trigger })
    }
}

/// Returns whether a header looks like an override but is none.
fn is_unknown_override(name: &HeaderName) -> bool {
    name.as_str().strip_prefix("x-longhaul-").is_some_and(|name| !ASKED.contains(&name))
}

/// Returns the text of an override; `?` if the text is not ASCII.
fn override_text(from: &HeaderMap, name: &str) -> Option<String> {
    from.get(name).map(|value| value.to_str().unwrap_or("?").trim().to_owned())
}

/// The request headers behind `x-longhaul-`. The last one, `node`, is only for requests between servers of one
/// database.
const ASKED: [&str; 5] = ["compress", "strategy", "trigger", "session", "node"];

/// The lowest trigger in tokens, as in the configuration file.
const LEAST_TRIGGER_TOKENS: f64 = 256.0;

fn trigger(text: &str) -> Result<StrategyTrigger, String> {
    // `NaN` is in none of the ranges below.
    let number: f64 = text.parse().unwrap_or(f64::NAN);
    // `80` is more likely a mistaken percentage than a trigger of 80 tokens.
    if number > 1.0 && number < LEAST_TRIGGER_TOKENS {
        return Err(format!(
            "x-longhaul-trigger is `{text}`; a number of tokens must be {LEAST_TRIGGER_TOKENS} or more (a share of the \
             window is in (0, 1])"
        ));
    }
    match number {
        share if share > 0.0 && share <= 1.0 => Ok(StrategyTrigger::Share(share)),
        // The upper bound keeps infinity and nonsense out of the conversion to an integer.
        tokens if tokens > 1.0 && tokens < 1e12 => Ok(StrategyTrigger::Tokens(tokens as u64)),
        _ => Err(format!(
            "x-longhaul-trigger is `{text}`; it must be a share of the window in (0, 1] or a number of tokens"
        )),
    }
}

/// Sets one of the gateway's headers. Characters outside a header's alphabet become `?`.
pub(crate) fn set_header(headers: &mut HeaderMap, name: &'static str, value: &str) {
    let plain: String =
        value.chars().map(|c| if c.is_ascii() && !c.is_ascii_control() { c } else { '?' }).collect();
    if let Ok(value) = HeaderValue::from_str(&plain) {
        headers.insert(HeaderName::from_static(name), value);
    }
}

/// Sets the wait that a client should keep to, in whole seconds.
pub(crate) fn say_retry_after(headers: &mut HeaderMap, wait: Duration) {
    // Rounded up: a client that comes back a fraction of a second early is refused again.
    let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(list: &[(&'static str, &str)]) -> HeaderMap {
        list.iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap()))
            .collect()
    }

    #[test]
    fn what_belongs_to_a_connection_or_to_us_stays_here() {
        let all = headers(&[
            ("authorization", "Bearer k"),
            ("cookie", "token=1"),
            ("connection", "close, x-hop"),
            ("x-hop", "1"),
            ("host", "h"),
            ("content-length", "3"),
            ("accept-encoding", "gzip"),
            ("x-longhaul-trigger", "0.5"),
            ("x-stainless-lang", "js"),
            ("anthropic-beta", "b"),
        ]);
        let sent = for_upstream(&all, false);
        let mut names: Vec<&str> = sent.keys().map(|name| name.as_str()).collect();
        names.sort_unstable();
        assert_eq!(names, ["accept-encoding", "anthropic-beta", "x-stainless-lang"]);
        assert_eq!(sent["accept-encoding"], "identity");
        assert!(for_upstream(&all, true).contains_key("authorization"));
    }

    #[test]
    fn a_caller_is_told_what_is_meant_for_clients() {
        let kept = [
            "content-type",
            "retry-after",
            "request-id",
            "x-request-id",
            "x-ratelimit-remaining-tokens",
            "anthropic-ratelimit-tokens-reset",
            "ratelimit-limit",
            "openai-processing-ms",
            "apim-request-id",
            "x-groq-region",
        ];
        let dropped = [
            "access-control-allow-origin",
            "access-control-allow-credentials",
            "content-security-policy",
            "www-authenticate",
            "set-cookie",
            "location",
            "refresh",
            "clear-site-data",
            "content-encoding",
            "transfer-encoding",
            "strict-transport-security",
            "x-accel-redirect",
            "x-longhaul-action",
        ];
        let all: Vec<_> = kept.iter().chain(&dropped).map(|name| (*name, "1")).collect();
        let passed = for_caller(&headers(&all));
        assert!(kept.iter().all(|name| passed.contains_key(*name)), "{passed:?}");
        assert_eq!(passed.len(), kept.len(), "{passed:?}");
    }

    #[test]
    fn overrides_are_read_or_refused() {
        let read = |name, value| RequestOverrides::read(&headers(&[(name, value)]));
        assert!(read("x-longhaul-compress", "off").unwrap().off);
        assert_eq!(read("x-longhaul-trigger", "0.5").unwrap().trigger, Some(StrategyTrigger::Share(0.5)));
        assert_eq!(read("x-longhaul-trigger", "9000").unwrap().trigger, Some(StrategyTrigger::Tokens(9000)));
        assert_eq!(read("x-longhaul-trigger", "256").unwrap().trigger, Some(StrategyTrigger::Tokens(256)));
        let few = read("x-longhaul-trigger", "7").unwrap_err();
        assert!(few.contains("256 or more"), "{few}");
        for (name, value) in [
            ("x-longhaul-trigger", "255"),
            ("x-longhaul-compress", "maybe"),
            ("x-longhaul-trigger", "-1"),
            ("x-longhaul-trigger", "NaN"),
            ("x-longhaul-strategy", "magic"),
            ("x-longhaul-compression", "off"),
        ] {
            assert!(read(name, value).is_err(), "{name}: {value}");
        }
    }

    #[test]
    fn callers_are_told_apart() {
        let one = hash_caller(&headers(&[("authorization", "a")]));
        assert_ne!(one, hash_caller(&headers(&[("x-api-key", "a")])));
        assert_ne!(one, hash_caller(&HeaderMap::new()));
        assert_eq!(one, hash_caller(&headers(&[("authorization", "a"), ("x-other", "b")])));
    }
}
