//! The section `hooks`. Messages quote no value of a hook: commands and addresses may hold keys.

use std::time::Duration;

use super::super::hooks::{HookConfig, HookTarget};
use super::mcp::{address, filled};
use super::{ConfigReader, ConfigValue, whole};
use crate::hooks::DEADLINE;

const LONGEST_TIMEOUT_MS: u64 = 3_600_000;

const KEYS: &[&str] = &["command", "url", "timeoutMs"];

/// `None` is `none`.
pub(in crate::config) fn hook(reader: &mut ConfigReader<'_>, path: &str) -> Option<HookConfig> {
    let node = reader.find(path)?;
    match &node.value {
        ConfigValue::Null => return None,
        ConfigValue::Text(word) if word == "none" => return None,
        ConfigValue::Map(_) => {}
        _ => {
            reader.unquoted(node, path, "{ command }, { url } or none");
            return None;
        }
    }
    reader.only(node, path, KEYS, &[]);
    let target = match (node.get("command"), node.get("url")) {
        (Some(_), None) => {
            let line = reader.mcp_key(node, path, "command", "a command line", filled);
            line.map(HookTarget::Command)
        }
        (None, Some(_)) => {
            let expected = "an address that begins with http:// or https://";
            reader.mcp_key(node, path, "url", expected, address).map(HookTarget::Url)
        }
        (Some(_), Some(_)) => {
            reader.conflict(node, path, "has `command` and `url`, and can only have one of them")
        }
        (None, None) => reader.conflict(
            node,
            path,
            "needs `command` (a command to run) or `url` (a server that is there)",
        ),
    };
    let expected = format!("a whole number of milliseconds from 1 to {LONGEST_TIMEOUT_MS}");
    let timeout =
        reader.mcp_key(node, path, "timeoutMs", &expected, |node| whole(node, 1, LONGEST_TIMEOUT_MS));
    Some(HookConfig { target: target?, timeout: timeout.map_or(DEADLINE, Duration::from_millis) })
}
