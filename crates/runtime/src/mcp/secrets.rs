//! The secrets that are removed from a server's texts, because some servers repeat the values they were given.

use crate::config::McpTransport;
use reqwest::Url;

/// Shorter values are words of a language or a protocol, not secrets: hiding them would garble answers.
const MIN_BYTES: usize = 8;

/// The replacement for a secret.
const HIDDEN: &str = "[redacted]";

/// The words that mark a variable or header name as a secret's.
const NAMES: [&str; 10] = [
    "auth",
    "authorization",
    "cookie",
    "credential",
    "credentials",
    "jwt",
    "pass",
    "pat",
    "pwd",
    "signature",
];

/// The endings that mark a part of a name as a secret's.
const ENDINGS: [&str; 6] = ["key", "passphrase", "passwd", "password", "secret", "token"];

/// The secrets that one server was given: values of headers, variables and query fields with a secret's name, and
/// passwords in addresses. A folder's path or a project's name is no secret, because answers legitimately contain them.
#[derive(Default)]
pub(super) struct McpSecrets(Vec<String>);

impl McpSecrets {
    /// Collects the secrets in a server's configuration.
    pub(super) fn of(transport: &McpTransport) -> Self {
        let mut found = Vec::new();
        match transport {
            McpTransport::Command(command) => {
                command.env.iter().for_each(|(name, value)| take(name, value, &mut found));
            }
            McpTransport::Http(remote) => {
                remote.headers.iter().for_each(|(name, value)| take(name, value, &mut found));
                take_address(&remote.url, &mut found);
            }
        }
        found.retain(|value| value.len() >= MIN_BYTES);
        // Structured answers are shown as JSON, where the value is escaped.
        let quoted: Vec<String> =
            found.iter().filter_map(|value| serde_json::to_string(value).ok()).collect();
        found.extend(quoted.iter().filter_map(|text| text.get(1..text.len() - 1).map(str::to_owned)));
        // A longer value first: otherwise hiding a part of the value would leave the rest visible.
        found.sort_by_key(|value| std::cmp::Reverse(value.len()));
        found.dedup();
        Self(found)
    }

    /// Reports whether the server was given no secret.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the text with all secrets replaced.
    pub(super) fn redact(&self, mut text: String) -> String {
        for secret in &self.0 {
            if text.contains(secret) {
                text = text.replace(secret, HIDDEN);
            }
        }
        text
    }
}

impl std::fmt::Debug for McpSecrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Secrets({})", self.0.len())
    }
}

fn take(name: &str, value: &str, found: &mut Vec<String>) {
    let value = value.trim();
    if is_secret(name) {
        found.push(value.to_owned());
        // Servers may repeat the token without the scheme of `Bearer …`.
        found.extend(value.rsplit_once(' ').map(|(_, bare)| bare.to_owned()));
    }
    take_address(value, found);
}

/// Adds the secrets of an address, percent-encoded and decoded.
fn take_address(text: &str, found: &mut Vec<String>) {
    let Ok(url) = Url::parse(text) else { return };
    found.extend(url.password().map(str::to_owned));
    found.extend(url.query_pairs().filter(|(name, _)| is_secret(name)).map(|(_, value)| value.into_owned()));
    // A server may repeat the query as it was sent, percent-encoding included.
    let written = url.query().unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
    found.extend(written.filter(|(name, _)| is_secret(name)).map(|(_, value)| value.to_owned()));
}

/// Reports whether a name marks its value as a secret: `Authorization`, `GITHUB_TOKEN`, `x-api-key`, `PGPASSWORD`.
fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let mut parts = name.split(|c: char| !c.is_ascii_alphanumeric());
    parts.any(|part| NAMES.contains(&part) || ENDINGS.iter().any(|ending| part.ends_with(ending)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::config::{McpCommand, McpHttpEndpoint};

    fn pairs(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn headers_and_query_fields_that_are_named_like_secrets() {
        let secrets = McpSecrets::of(&McpTransport::Http(McpHttpEndpoint {
            url: "https://me:pass-of-me@x.example/mcp?api_key=k%2Fey-12345&project=acme-website".into(),
            headers: pairs(&[("Authorization", "Bearer abcd-1234"), ("X-Project", "acme-website")]),
        }));
        let text = "Bearer abcd-1234, abcd-1234, k%2Fey-12345, k/ey-12345, pass-of-me, acme-website";
        assert_eq!(
            secrets.redact(text.to_owned()),
            "[redacted], [redacted], [redacted], [redacted], [redacted], acme-website"
        );
    }

    #[test]
    fn variables_that_are_named_like_secrets() {
        let env = pairs(&[
            ("GITHUB_TOKEN", "gh-12345678"),
            ("PGPASSWORD", "pg \"word\" 1"),
            ("API_KEY", "short"),
            ("GIT_AUTHOR_NAME", "Ada Lovelace"),
            ("ROOT", "/home/ada/project"),
            ("DATABASE_URL", "postgres://ada:pw-of-ada@db/main"),
        ]);
        let command = McpCommand { program: "x".into(), args: Vec::new(), env, network: None };
        let secrets = McpSecrets::of(&McpTransport::Command(command));
        let told = secrets.redact(
            r#"gh-12345678 {"a":"pg \"word\" 1"} short Ada Lovelace /home/ada/project pw-of-ada"#.into(),
        );
        assert_eq!(told, r#"[redacted] {"a":"[redacted]"} short Ada Lovelace /home/ada/project [redacted]"#);
        assert!(!format!("{secrets:?}").contains("gh-"));
    }
}
