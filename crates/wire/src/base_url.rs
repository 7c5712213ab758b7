//! Base URLs as people configure them: some end with the path of one operation.

use url::Url;

/// The paths of operations, as they stand below a base URL. A longer path comes before its own end.
const OPERATIONS: &[&[&str]] = &[
    &["chat", "completions"],
    &["messages", "count_tokens"],
    &["api", "chat"],
    &["api", "generate"],
    &["api", "tags"],
    &["completions"],
    &["responses"],
    &["messages"],
    &["embeddings"],
];

/// Returns the base URL without the path of an operation, if such a path was pasted at its end. A query stays.
///
/// ```
/// use longhaul_wire::base_url::without_operation;
///
/// let pasted = "https://api.example/v1/chat/completions/";
/// assert_eq!(without_operation(pasted).as_deref(), Some("https://api.example/v1"));
/// assert_eq!(without_operation("https://api.example/v1"), None);
/// ```
pub fn without_operation(base_url: &str) -> Option<String> {
    let mut url = Url::parse(base_url).ok().filter(|url| matches!(url.scheme(), "http" | "https"))?;
    let segments: Vec<&str> = url.path().split('/').filter(|segment| !segment.is_empty()).collect();
    let end = operation_segments(&segments);
    if end == 0 {
        return None;
    }
    let path = segments[..segments.len() - end].join("/");
    url.set_path(&path);
    Some(url.as_str().trim_end_matches('/').to_owned())
}

/// Returns the number of segments at the end that belong to an operation.
fn operation_segments(segments: &[&str]) -> usize {
    if let Some(operation) = OPERATIONS.iter().find(|operation| segments.ends_with(operation)) {
        return operation.len();
    }
    match segments {
        // Gemini: `models/NAME:generateContent`.
        [.., "models", last] if last.contains(':') => 2,
        // Only below a version: another `models` may be the name of a proxy's own folder.
        [.., version, "models"] if is_version(version) => 1,
        _ => 0,
    }
}

/// Reports whether a segment of a path is the version of an API: `v1`, `v4`, `v1beta`.
pub fn is_version(segment: &str) -> bool {
    let number = segment.strip_prefix('v').unwrap_or_default();
    number.starts_with(|first: char| first.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_an_operation_is_taken_off() {
        for (pasted, base) in [
            ("http://box:1234/v1/chat/completions", "http://box:1234/v1"),
            ("http://box/v1/chat/completions//", "http://box/v1"),
            ("http://box/v1/completions", "http://box/v1"),
            ("http://box/chat/completions", "http://box"),
            ("https://api.openai.com/v1/responses", "https://api.openai.com/v1"),
            ("https://api.anthropic.com/v1/messages", "https://api.anthropic.com/v1"),
            ("https://api.anthropic.com/v1/messages/count_tokens", "https://api.anthropic.com/v1"),
            ("http://box/v1/embeddings", "http://box/v1"),
            ("http://box/v1/models", "http://box/v1"),
            ("http://localhost:11434/api/chat", "http://localhost:11434"),
            (
                "https://g.example/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse",
                "https://g.example/v1beta?alt=sse",
            ),
            (
                "https://a.example/openai/deployments/d/chat/completions?api-version=1",
                "https://a.example/openai/deployments/d?api-version=1",
            ),
        ] {
            assert_eq!(without_operation(pasted).as_deref(), Some(base), "{pasted}");
        }
        for base in [
            "http://box/v1",
            "http://box/",
            "http://box/models",
            "http://box/messages/v1",
            "http://responses.example/v1",
            "http://box/v1/models/one",
            "no url",
            "unix:/run/chat/completions",
        ] {
            assert_eq!(without_operation(base), None, "{base}");
        }
    }
}
