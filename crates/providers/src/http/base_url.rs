//! The base URL of an API: as given, or the version's path below if the given URL lacks the version.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use longhaul_core::error::ErrorCode;
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
    /// Returns the base URL `given` of an API with paths below `version`, for example `v1`.
    ///
    /// ```
    /// use longhaul_providers::http::BaseUrl;
    ///
    /// assert_eq!(BaseUrl::new("http://box:8080/", "v1").alternative().as_deref(), Some("http://box:8080/v1"));
    /// assert_eq!(BaseUrl::new("http://box:8080/v1", "v1").alternative(), None);
    /// ```
    pub fn new(given: &str, version: &str) -> Self {
        let versioned = Url::parse(given).ok().filter(|url| !has_version(url)).and_then(|mut url| {
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

    /// Switches later requests to the alternative, and logs once which base URL to set.
    // Shared by all clones: one discovery serves all later calls.
    pub fn adopt_alternative(&self) {
        // `swap` tells only the first caller that the value was new, so concurrent calls log once.
        if let (Some(versioned), false) = (&self.versioned, self.is_versioned.swap(true, Ordering::Relaxed)) {
            tracing::warn!("{}", found(&self.given, versioned));
        }
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

fn is_version(segment: &str) -> bool {
    let number = segment.strip_prefix('v').unwrap_or_default();
    number.starts_with(|first: char| first.is_ascii_digit())
}

/// Returns the hint for a base URL without a version.
fn found(given: &str, versioned: &str) -> String {
    format!(
        "the API of {} is at {}, and requests go there: set `base_url` to it",
        shown_base(given),
        shown_base(versioned)
    )
}

/// Adds a hint to the error of an API neither at the base URL nor below the version.
pub(crate) fn with_tried_hint(error: ProviderError, versioned: &str) -> ProviderError {
    if error.message.to_lowercase().contains("model ") {
        // The server names a missing model. So the path is right.
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
        "{} answered with a web page{title}: this is no answer of a model; is `base_url` the address of an API?",
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
fn title(body: &str) -> Option<String> {
    // Only ASCII letters change, so a position in `lower` is the same position in `body`.
    let lower = body.to_ascii_lowercase();
    let start = lower.find("<title")?;
    let start = start + lower[start..].find('>')? + 1;
    let end = start + lower[start..].find('<')?;
    let words: Vec<&str> = body[start..end].split_whitespace().collect();
    let title: String = words.join(" ").chars().take(MAX_TITLE_CHARS).collect();
    (!title.is_empty()).then_some(title)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_base_without_a_version_has_an_alternative() {
        let alternative = |base: &str| BaseUrl::new(base, "v1").alternative();
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
