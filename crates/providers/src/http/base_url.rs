//! The base URL of an API: as given, without a pasted operation, or the version's path below if the given URL lacks
//! the version.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use longhaul_core::error::ErrorCode;
use longhaul_wire::base_url::{is_version, without_operation};
use reqwest::Url;

use super::{endpoint, shown};
use crate::ProviderError;

/// The status of a page in place of an answer.
const OK: u16 = 200;

/// A base URL, with the probably intended URL. Clones share the result of the search.
#[derive(Clone, Debug)]
pub struct BaseUrl {
    given: String,
    /// The base URL with the version, if given without a version.
    versioned: Option<String>,
    /// `true` if the server answers at `versioned` and not at `given`.
    is_versioned: Arc<AtomicBool>,
}

impl BaseUrl {
    /// Returns the base URL `given` of an API with paths below `version`, for example `v1`. The path of an operation
    /// at its end, such as `/chat/completions`, is left out, and a warning names the base URL to set.
    ///
    /// ```
    /// use longhaul_providers::http::BaseUrl;
    ///
    /// assert_eq!(BaseUrl::new("http://box:8080/", "v1").alternative().as_deref(), Some("http://box:8080/v1"));
    /// assert_eq!(BaseUrl::new("http://box:8080/v1", "v1").alternative(), None);
    /// assert_eq!(BaseUrl::new("http://box:8080/v1/chat/completions", "v1").current(), "http://box:8080/v1");
    /// ```
    pub fn new(given: &str, version: &str) -> Self {
        let given = &*base_without_operation(given);
        let versioned = Url::parse(given).ok().filter(|url| !has_version(url)).and_then(|mut url| {
            trim_slashes(&mut url);
            // A URL that cannot have a path gets no alternative. `endpoint` reports its error.
            url.path_segments_mut().ok()?.pop_if_empty().push(version);
            Some(url.as_str().to_owned())
        });
        Self { given: given.to_owned(), versioned, is_versioned: Arc::default() }
    }

    /// Returns the base URL for requests.
    pub fn current(&self) -> &str {
        match &self.versioned {
            Some(versioned) if self.is_versioned.load(Ordering::Relaxed) => versioned,
            _ => &self.given,
        }
    }

    /// Returns the base URL to try if the API is not at [`current`](Self::current).
    pub fn alternative(&self) -> Option<String> {
        self.versioned.clone().filter(|versioned| versioned != self.current())
    }

    /// Switches later requests to the alternative, and logs which base URL to set.
    // Shared by all clones: one discovery serves all later calls.
    pub fn adopt_alternative(&self) {
        if let (Some(hint), false) =
            (self.alternative_hint(), self.is_versioned.swap(true, Ordering::Relaxed))
        {
            warn_of_base_url(&hint);
        }
    }

    /// Returns the hint for a server that answers at the alternative.
    pub fn alternative_hint(&self) -> Option<String> {
        self.versioned.as_ref().map(|versioned| version_hint(&self.given, versioned))
    }

    /// Returns the address of an operation below [`current`](Self::current).
    ///
    /// # Errors
    /// `invalid-request` if the base URL cannot have a path.
    pub(crate) fn endpoint(&self, segments: &[&str]) -> Result<Url, ProviderError> {
        endpoint(self.current(), segments)
    }
}

/// Reports whether the path has a version of an API as a segment: `v1`, `v4`, `v1beta`.
fn has_version(url: &Url) -> bool {
    url.path_segments().is_some_and(|mut segments| segments.any(is_version))
}

/// Removes the slashes at the end of a URL's path.
pub(super) fn trim_slashes(url: &mut Url) {
    let path = url.path().trim_end_matches('/').to_owned();
    url.set_path(&path);
}

/// Returns a base URL without the path of an operation at its end, and logs once which base URL to set.
pub(crate) fn base_without_operation(given: &str) -> String {
    let Some(base) = without_operation(given) else { return given.to_owned() };
    warn_of_base_url(&operation_hint(given, &base));
    base
}

/// Logs a hint about a base URL, once in a process.
pub fn warn_of_base_url(hint: &str) {
    // Several clients of a process may have the same base URL, and one warning is enough.
    static WARNED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    if WARNED.lock().unwrap_or_else(PoisonError::into_inner).insert(hint.to_owned()) {
        tracing::warn!("{hint}");
        UNREAD_HINTS.lock().unwrap_or_else(PoisonError::into_inner).push(hint.to_owned());
    }
}

/// The hints that [`take_base_url_hints`] has not returned yet. Each is logged once, so there are few.
static UNREAD_HINTS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Returns the hints about base URLs that were logged since the last call, oldest first. A program whose screen shows no
/// log shows them itself.
pub fn take_base_url_hints() -> Vec<String> {
    std::mem::take(&mut *UNREAD_HINTS.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Returns the hint for a base URL with the path of an operation at its end.
pub fn operation_hint(given: &str, base: &str) -> String {
    format!(
        "{} is the address of one operation, and its API is at {}: set `base_url` to it",
        shown_base(given),
        shown_base(base)
    )
}

/// Returns the hint for a base URL without a version.
fn version_hint(given: &str, versioned: &str) -> String {
    format!(
        "the API of {} is at {}, and requests go there: set `base_url` to it",
        shown_base(given),
        shown_base(versioned)
    )
}

/// Reports whether a server names a missing model. The path is right then.
pub(crate) fn names_missing_model(error: &ProviderError) -> bool {
    let message = error.message.to_lowercase();
    // Gemini's words are "models/NAME is not found for API version v1beta".
    message.contains("model ") || message.contains("models/") && message.contains("is not found")
}

/// Adds the address to the error of a server that has nothing there, and the key that sets the address.
pub(super) fn with_address(url: &Url, error: ProviderError) -> ProviderError {
    let is_absent = matches!(error.status, Some(404 | 410)) && error.code == ErrorCode::NotFound;
    let is_elsewhere = is_absent || error.status == Some(405);
    // A server that speaks of models or of their providers is at the right address.
    let message = error.message.to_lowercase();
    let is_of_api = message.contains("model") || message.contains("endpoints found") || error.refuses_tools;
    if !is_elsewhere || is_of_api || error.refusal.is_some() {
        return error;
    }
    let message = format!(
        "{}; {} was asked: `model.base_url` (for an upstream of the gateway its `base_url`) sets the address of the API",
        error.message,
        shown(url)
    );
    ProviderError { message, ..error }
}

/// Adds a hint to the error of an API neither at the base URL nor below the version.
pub(crate) fn with_tried_hint(error: ProviderError, versioned: &str) -> ProviderError {
    if names_missing_model(&error) {
        return error;
    }
    let message = format!(
        "{}. `base_url` has no version in its path; {} was tried too, and no API is there either",
        error.message,
        shown_base(versioned)
    );
    ProviderError { message, ..error }
}

fn shown_base(base: &str) -> String {
    Url::parse(base).map_or_else(|_| "the base URL".to_owned(), |url| shown(&url))
}

/// Reports whether an error means a wrong address of the API: no such path, or a page for people.
pub(crate) fn is_elsewhere(error: &ProviderError) -> bool {
    let is_absent = error.code == ErrorCode::NotFound && matches!(error.status, None | Some(404));
    // `base_url::page` is the only source of errors with status 200.
    is_absent || matches!(error.status, Some(OK | 405))
}

/// Returns the error for a page for people, with status 200, in place of an answer. A repeated call would bring
/// the same page.
pub(crate) fn page(url: &Url, body: &str) -> ProviderError {
    let title = title(body).map_or_else(String::new, |title| format!(" (\"{title}\")"));
    let message = format!(
        "{} answered with a web page{title}: this is not an answer of a model; is `base_url` the address of an API?",
        shown(url)
    );
    let body = Some(body.to_owned());
    let error = ProviderError::new(ErrorCode::ThirdParty, message);
    ProviderError { status: Some(OK), body, retryable: false, ..error }
}

/// Reports whether a body is a page for people.
pub fn is_page(body: &[u8]) -> bool {
    body.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(body).trim_ascii_start().starts_with(b"<")
}

/// The number of characters of a page's title in an error.
const MAX_TITLE_CHARS: usize = 80;

/// Returns the title of a page.
pub(super) fn title(body: &str) -> Option<String> {
    // Only ASCII letters change, so a position in `lower` is the same position in `body`.
    let lower = body.to_ascii_lowercase();
    let start = lower.find("<title")?;
    let start = start + lower[start..].find('>')? + 1;
    let end = start + lower[start..].find('<')?;
    let words: Vec<&str> = body[start..end].split_whitespace().collect();
    // A page in place of an answer is recognised by its title, such as "Sign in".
    let title: String = words.join(" ").chars().take(MAX_TITLE_CHARS).collect();
    (!title.is_empty()).then_some(title)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alternative(base: &str) -> Option<String> {
        BaseUrl::new(base, "v1").alternative()
    }

    #[test]
    fn only_a_base_without_a_version_has_an_alternative() {
        assert_eq!(alternative("http://box:1234").as_deref(), Some("http://box:1234/v1"));
        assert_eq!(alternative("http://box/openai/").as_deref(), Some("http://box/openai/v1"));
        assert_eq!(alternative("http://box/api?key=x").as_deref(), Some("http://box/api/v1?key=x"));
        assert_eq!(alternative("http://box/vllm").as_deref(), Some("http://box/vllm/v1"));
        for versioned in ["http://box/v1", "http://box/v1/", "http://box/paas/v4", "http://box/v1beta/openai"]
        {
            assert_eq!(alternative(versioned), None, "{versioned}");
        }
        assert_eq!(alternative("no url"), None);
    }

    #[test]
    fn an_operation_at_the_end_is_left_out_before_the_version_is_looked_for() {
        let base = BaseUrl::new("http://box/proxy/chat/completions", "v1");
        assert_eq!(
            (base.current(), base.alternative().as_deref()),
            ("http://box/proxy", Some("http://box/proxy/v1"))
        );
        let base = BaseUrl::new("http://box/v1/messages/", "v1");
        assert_eq!((base.current(), base.alternative()), ("http://box/v1", None));
        assert_eq!(base.endpoint(&["messages"]).unwrap().as_str(), "http://box/v1/messages");
        assert_eq!(
            operation_hint("http://me:key@box/v1/responses?key=x", "http://box/v1"),
            "http://box/v1/responses is the address of one operation, and its API is at http://box/v1: set `base_url` \
             to it"
        );
    }

    #[test]
    fn slashes_at_the_end_mean_nothing() {
        for base in ["http://box/v1", "http://box/v1/", "http://box/v1//", "http://box/v1///"] {
            assert_eq!(
                BaseUrl::new(base, "v1").endpoint(&["a"]).unwrap().as_str(),
                "http://box/v1/a",
                "{base}"
            );
        }
        assert_eq!(BaseUrl::new("http://box//", "v1").alternative().as_deref(), Some("http://box/v1"));
    }

    /// Returns the message of a server's error with the address that was asked.
    fn message_with_address(status: u16, body: &str) -> String {
        let url = Url::parse("http://me:secret@box:8080/v2/chat/completions?key=x").unwrap();
        let error = longhaul_wire::server_error::from_response(status, None, body.to_owned());
        with_address(&url, error).message
    }

    #[test]
    fn an_error_of_a_wrong_address_names_the_address_and_the_key() {
        assert_eq!(
            message_with_address(404, ""),
            "the server gave no reason (HTTP 404); http://box:8080/v2/chat/completions was asked: `model.base_url` (for \
             an upstream of the gateway its `base_url`) sets the address of the API"
        );
        for (status, body) in [
            (404, "404 page not found"),
            (404, r#"{"detail":"Not Found"}"#),
            (404, "<html><title>404 Not Found</title></html>"),
            (405, r#"{"detail":"Method Not Allowed"}"#),
            (410, ""),
        ] {
            assert!(
                message_with_address(status, body).contains("http://box:8080/v2/chat/completions was asked"),
                "{status} {body}"
            );
        }
        for (status, body) in [
            (404, r#"{"error":{"message":"The model `x` does not exist","code":"model_not_found"}}"#),
            (404, r#"{"error":{"message":"No endpoints found that support tool use."}}"#),
            (404, r#"{"error":{"message":"Item with id 'rs_1' not found."}}"#),
            (400, ""),
            (500, ""),
        ] {
            assert!(!message_with_address(status, body).contains("was asked"), "{status} {body}");
        }
    }

    #[test]
    fn clones_share_what_was_found() {
        let base = BaseUrl::new("http://box", "v1");
        let other = base.clone();
        other.adopt_alternative();
        assert_eq!((base.current(), base.alternative()), ("http://box/v1", None));
    }

    #[test]
    fn a_page_is_named_by_its_title() {
        assert_eq!(title("<html><TITLE lang=en>\n Sign\n in </TITLE>").as_deref(), Some("Sign in"));
        assert_eq!(title("<title></title>"), None);
        assert_eq!(title("<p>no"), None);
        assert!(is_page(b"\xEF\xBB\xBF \n<!doctype html>") && !is_page(b"{\"a\":\"<\"}") && !is_page(b""));
    }
}
