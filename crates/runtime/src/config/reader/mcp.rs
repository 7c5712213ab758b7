//! The section `mcpServers`. Messages quote none of its values: arguments, environments, headers and addresses may hold
//! keys.

use std::collections::BTreeMap;
use std::time::Duration;

use super::super::keys;
use super::super::mcp::{McpCommand, McpHttpEndpoint, McpServerConfig, McpToolFilter, McpTransport};
use super::{ConfigEntry, ConfigNode, ConfigProblemKind, ConfigReader, ConfigValue, is_map, text, whole};
use crate::config::is_server_name;
use crate::sandbox::NetworkAccess;

const DEFAULT_TIMEOUT_MS: u64 = 120_000;
const LONGEST_TIMEOUT_MS: u64 = 86_400_000;

const COMMAND_KEYS: &[&str] = &["args", "env", "network"];
const REMOTE_KEYS: &[&str] = &["headers"];
const ALL_KEYS: &[&str] =
    &["command", "args", "env", "network", "url", "headers", "timeoutMs", "optional", "tools"];

pub(in crate::config) fn mcp_servers(
    reader: &mut ConfigReader<'_>,
    path: &str,
) -> BTreeMap<String, McpServerConfig> {
    let Some(node) = reader.group(path) else { return BTreeMap::new() };
    let servers = node.entries().iter().filter_map(|entry| mcp_server(reader, entry, path));
    servers.collect()
}

fn mcp_server(
    reader: &mut ConfigReader<'_>,
    entry: &ConfigEntry,
    path: &str,
) -> Option<(String, McpServerConfig)> {
    let (node, path) = (&entry.node, format!("{path}.{}", entry.key));
    if !is_server_name(&entry.key) {
        let message =
            "is not a name for a server: a letter, then letters, digits, - and single _, at most 32 in all";
        reader.problem(entry.at, &path, ConfigProblemKind::Conflict(message.to_owned()));
    }
    if !is_map(node) {
        // A wrong value may be a pasted key: the message names only its kind.
        reader.unquoted(node, &path, "{ command, args, env } or { url, headers }");
        return None;
    }
    reader.only(node, &path, ALL_KEYS, &[]);
    let transport = match (node.get("command"), node.get("url")) {
        (Some(_), None) => mcp_command(reader, node, &path).map(McpTransport::Command),
        (None, Some(_)) => mcp_remote(reader, node, &path).map(McpTransport::Http),
        (both, _) => {
            let message = match both {
                Some(_) => "has `command` and `url`, and can only have one of them",
                None => "needs `command` (a program to start) or `url` (a server that is there)",
            };
            reader.conflict(node, &path, message)
        }
    };
    let timeout_ms = reader.mcp_key(node, &path, "timeoutMs", "a whole number of milliseconds", |node| {
        whole(node, 1, LONGEST_TIMEOUT_MS)
    });
    let optional = reader.mcp_key(node, &path, "optional", "true or false", |node| match node.value {
        ConfigValue::Flag(flag) => Some(flag),
        _ => None,
    });
    let timeout = Duration::from_millis(timeout_ms.unwrap_or(DEFAULT_TIMEOUT_MS));
    let tools = mcp_tools(reader, node, &path);
    let optional = optional.unwrap_or(false);
    Some((entry.key.clone(), McpServerConfig { transport: transport?, timeout, optional, tools }))
}

fn mcp_tools(reader: &mut ConfigReader<'_>, node: &ConfigNode, path: &str) -> McpToolFilter {
    let Some(tools) = node.get("tools").filter(|tools| !matches!(tools.value, ConfigValue::Null)) else {
        return McpToolFilter::default();
    };
    let path = format!("{path}.tools");
    if !is_map(tools) {
        reader.unquoted(tools, &path, "{ allow: [NAME], deny: [NAME] }");
        return McpToolFilter::default();
    }
    reader.only(tools, &path, &["allow", "deny"], &[]);
    let allow = reader.mcp_key(tools, &path, "allow", "a list of the server's names of tools", filled_texts);
    let deny = reader.mcp_key(tools, &path, "deny", "a list of the server's names of tools", filled_texts);
    McpToolFilter { allow: allow.unwrap_or_default(), deny: deny.unwrap_or_default() }
}

fn mcp_command(reader: &mut ConfigReader<'_>, node: &ConfigNode, path: &str) -> Option<McpCommand> {
    of_the_other_kind(reader, node, path, REMOTE_KEYS, "is for a server with `url`, not with `command`");
    let program = reader.mcp_key(node, path, "command", "a program: a path or a name", filled);
    let args = reader.mcp_key(node, path, "args", "a list of texts", |node| match &node.value {
        ConfigValue::Null => Some(Vec::new()),
        ConfigValue::List(items) => items.iter().map(plain).collect(),
        _ => None,
    });
    let env = reader.mcp_key(node, path, "env", "texts by name, NAME: TEXT", pairs);
    let network = reader
        .mcp_key(node, path, "network", "allow or deny", |node| NetworkAccess::from_name(&node.word()?));
    let (args, env) = (args.unwrap_or_default(), env.unwrap_or_default());
    Some(McpCommand { program: program?, args, env, network })
}

fn mcp_remote(reader: &mut ConfigReader<'_>, node: &ConfigNode, path: &str) -> Option<McpHttpEndpoint> {
    of_the_other_kind(reader, node, path, COMMAND_KEYS, "is for a server with `command`, not with `url`");
    let url = reader.mcp_key(node, path, "url", "an address that begins with http:// or https://", address);
    let headers = reader.mcp_key(node, path, "headers", "texts by name, NAME: TEXT", pairs);
    Some(McpHttpEndpoint { url: url?, headers: headers.unwrap_or_default() })
}

fn of_the_other_kind(
    reader: &mut ConfigReader<'_>,
    node: &ConfigNode,
    path: &str,
    unfit: &[&str],
    message: &str,
) {
    for entry in node.entries().iter().filter(|entry| keys::spelled(&entry.key, unfit).is_some()) {
        let path = format!("{path}.{}", entry.key);
        reader.problem(entry.at, &path, ConfigProblemKind::Conflict(message.to_owned()));
    }
}

pub(super) fn filled(node: &ConfigNode) -> Option<String> {
    plain(node).filter(|text| !text.trim().is_empty())
}

/// Returns a text that is an address.
pub(super) fn address(node: &ConfigNode) -> Option<String> {
    filled(node)
        .filter(|url| reqwest::Url::parse(url).is_ok_and(|url| matches!(url.scheme(), "http" | "https")))
}

/// Returns a text that can be handed to a program.
fn plain(node: &ConfigNode) -> Option<String> {
    // A NUL cannot be passed to a program: its start would fail later, without the place in the file.
    text(node).filter(|text| !text.contains('\0'))
}

pub(super) fn pairs(node: &ConfigNode) -> Option<BTreeMap<String, String>> {
    let pairs = node.entries().iter().map(|entry| {
        // A `=` in a variable's name would move the border between name and value.
        let is_name = !entry.key.is_empty() && !entry.key.contains(['=', '\0']);
        Some((entry.key.clone(), plain(&entry.node).filter(|_| is_name)?))
    });
    is_map(node).then(|| pairs.collect())?
}

/// Returns a list of texts that are not empty.
fn filled_texts(node: &ConfigNode) -> Option<Vec<String>> {
    match &node.value {
        ConfigValue::Null => Some(Vec::new()),
        ConfigValue::List(items) => items.iter().map(filled).collect(),
        _ => None,
    }
}
