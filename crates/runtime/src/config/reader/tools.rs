//! `tools`: which built-in tools there are, and how long each tool's output may be.

use std::collections::BTreeMap;

use super::super::keys::{self, ConfigKeyKind};
use super::super::node::{ConfigEntry, ConfigNode};
use super::{ConfigReader, ConfigValue, choose, text, whole};
use crate::config::is_server_name;
use crate::tools::BUILTIN;

/// The prefix that Claude Code and others write before the name of a server's tool.
const MCP_PREFIX: &str = "mcp__";

const LIMIT_KEY: &str = "maxOutputChars";

/// Returns a list of built-in tools; `None` if the file has none.
pub(in crate::config) fn builtin_tools(reader: &mut ConfigReader<'_>, path: &str) -> Option<Vec<String>> {
    let node = reader.find(path)?;
    let items = match &node.value {
        ConfigValue::Null => return None,
        ConfigValue::List(items) => items,
        _ => {
            reader.bad(node, path, "a list of built-in tools");
            return None;
        }
    };
    let tools = items.iter().enumerate();
    Some(tools.filter_map(|(at, item)| builtin_tool(reader, item, &format!("{path}[{at}]"))).collect())
}

fn builtin_tool(reader: &mut ConfigReader<'_>, node: &ConfigNode, path: &str) -> Option<String> {
    let name = text(node).unwrap_or_else(|| node.describe());
    if BUILTIN.contains(&name.as_str()) {
        return Some(name);
    }
    reader.problem(node.at, path, choose(path, &name, &BUILTIN, &[]));
    None
}

/// Returns the longest output in characters, by the tool's name, of the tools that have a limit of their own.
pub(in crate::config) fn output_limits(reader: &mut ConfigReader<'_>) -> BTreeMap<String, u64> {
    let mut limits = BTreeMap::new();
    for tool in BUILTIN {
        let path = format!("tools.{tool}.{LIMIT_KEY}");
        let given = reader.optional_count(&path);
        let default = keys::at(&path).and_then(|key| key.default?.parse().ok());
        limits.extend(given.or(default).map(|limit| (tool.to_owned(), limit)));
    }
    let tools = reader.find("tools").map_or(&[][..], ConfigNode::entries);
    for entry in tools.iter().filter(|entry| is_mcp_tool(&entry.key)) {
        let Some(limit) = mcp_tool_limit(reader, entry) else { continue };
        // A server may itself be called `mcp`.
        for name in [Some(entry.key.as_str()), entry.key.strip_prefix(MCP_PREFIX)].into_iter().flatten() {
            limits.insert(name.to_owned(), limit);
        }
    }
    limits
}

fn mcp_tool_limit(reader: &mut ConfigReader<'_>, entry: &ConfigEntry) -> Option<u64> {
    let path = format!("tools.{}", entry.key);
    if !super::is_map(&entry.node) {
        reader.bad(&entry.node, &path, "{ maxOutputChars: NUMBER }");
        return None;
    }
    reader.only(&entry.node, &path, &[LIMIT_KEY], &[]);
    let (min, max) = match keys::at("tools.maxOutputChars").map(|key| &key.kind) {
        Some(ConfigKeyKind::Count { min, max }) => (*min, *max),
        _ => (1, u64::MAX),
    };
    let expected = format!("a whole number from {min} to {max}");
    reader.inner(&entry.node, &path, LIMIT_KEY, &expected, |node| whole(node, min, max))
}

/// Returns whether a key below `tools` names a tool of an MCP server: `SERVER__TOOL` or `mcp__SERVER__TOOL`.
pub(super) fn is_mcp_tool(key: &str) -> bool {
    let name = key.strip_prefix(MCP_PREFIX).filter(|name| name.contains("__")).unwrap_or(key);
    name.split_once("__").is_some_and(|(server, tool)| is_server_name(server) && !tool.is_empty())
}
