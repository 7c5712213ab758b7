//! Addresses, names and databases of the server.

use std::net::SocketAddr;

use super::super::error::ConfigProblemKind;
use super::super::node::{ConfigValue, clip};
use super::super::server::RateLimit;
use super::{ConfigReader, text};

/// The database of this version.
const DATABASE: &str = "sqlite";

impl ConfigReader<'_> {
    pub(in super::super) fn address(&mut self, path: &str) -> SocketAddr {
        let fallback = SocketAddr::from(([127, 0, 0, 1], 4400));
        let expected = "an IP address and a port such as 127.0.0.1:4400";
        self.read(path, expected, |node| text(node)?.parse().ok()).unwrap_or(fallback)
    }

    /// `None` is `none`.
    pub(in super::super) fn optional_path(&mut self, path: &str) -> Option<String> {
        self.read(path, "the path of a file, or none", |node| match &node.value {
            ConfigValue::Null => Some(None),
            ConfigValue::Text(name) if name == "none" => Some(None),
            _ => text(node).filter(|name| !name.trim().is_empty()).map(Some),
        })
        .flatten()
    }

    /// `None` is `none`.
    pub(in super::super) fn optional_rate(&mut self, path: &str) -> Option<RateLimit> {
        self.read(path, "a rate such as 120/min (s, min or h), or none", |node| match &node.value {
            ConfigValue::Null => Some(None),
            ConfigValue::Text(word) if word == "none" => Some(None),
            _ => text(node)?.parse().ok().map(Some),
        })
        .flatten()
    }

    pub(in super::super) fn hosts(&mut self, path: &str) -> Vec<String> {
        self.each(path, "a host name such as box.lan or box.lan:4400", is_host)
    }

    pub(in super::super) fn origins(&mut self, path: &str) -> Vec<String> {
        self.each(path, "an origin such as https://example.org", is_origin)
    }

    fn each(&mut self, path: &str, expected: &str, fits: fn(&str) -> bool) -> Vec<String> {
        let Some(node) = self.find(path) else { return Vec::new() };
        let items = match &node.value {
            ConfigValue::Null => &[][..],
            ConfigValue::List(items) => items,
            _ => {
                self.bad(node, path, "a list");
                return Vec::new();
            }
        };
        let mut all = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            match text(item).filter(|item| fits(item)) {
                Some(item) => all.push(item),
                None => self.bad(item, &format!("{path}[{index}]"), expected),
            }
        }
        all
    }

    /// Checks that it is the one of this version.
    pub(in super::super) fn database(&mut self, path: &str) {
        let Some(node) = self.find(path) else { return };
        let word = node.word().unwrap_or_default();
        if word == DATABASE || matches!(node.value, ConfigValue::Null) {
            return;
        }
        if is_other_database(&word) {
            // A URL may hold a password: only its scheme is quoted.
            let scheme = word.split("://").next().unwrap_or_default();
            let message = format!(
                "is {DATABASE} in this file; `longhaul serve --db {}://…` names another",
                clip(scheme)
            );
            return self.problem(node.at, path, ConfigProblemKind::Conflict(message));
        }
        self.bad(node, path, DATABASE);
    }
}

fn is_other_database(word: &str) -> bool {
    ["postgres", "postgresql"]
        .iter()
        .any(|name| word == *name || word.strip_prefix(name).is_some_and(|rest| rest.starts_with("://")))
}

fn is_host(name: &str) -> bool {
    name.chars().all(|c| c.is_ascii_alphanumeric() || "-._:[]".contains(c))
        && name.chars().any(|c| c.is_ascii_alphanumeric())
}

/// Returns a scheme and a host, nothing behind: no `*`, no `null`, no path.
fn is_origin(origin: &str) -> bool {
    let host = ["http://", "https://"].iter().find_map(|scheme| origin.strip_prefix(scheme));
    host.is_some_and(is_host)
}
