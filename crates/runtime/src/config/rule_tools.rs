//! The check of approval rules against the tools of a program.

use std::collections::{BTreeMap, BTreeSet};

use super::error::{ConfigProblem, ConfigProblemKind};
use super::nearest::nearest;
use super::node::{ConfigNode, ConfigPosition, ConfigValue, clip};
use crate::tools::{BUILTIN, ToolSet};

/// The tool for standing orders, which sessions have in addition to the built-in ones.
const PIN: &str = longhaul_core::orders::tool::NAME;

/// The signs of a glob. A name with one of them may fit tools that are not known here.
const GLOB_SIGNS: [char; 8] = ['*', '?', '[', ']', '{', '}', '!', '\\'];

/// The sign between an MCP server and its tool.
const SERVER_MARK: &str = "__";

/// Returns the rules that name a tool or an argument which no built-in tool has, in the order of the file.
///
/// Names of MCP servers and of their tools are left alone, because only the servers know their tools.
pub(super) fn problems(root: &ConfigNode) -> Vec<ConfigProblem> {
    let mut check =
        RuleCheck { arguments: builtin_arguments(), servers: servers(root), problems: Vec::new() };
    check.agent(root, "");
    for agent in root.get("agents").map_or(&[][..], ConfigNode::entries) {
        check.agent(&agent.node, &format!("agents.{}.", agent.key));
    }
    check.problems.sort_by_key(|problem| (problem.line, problem.column));
    check.problems
}

/// Returns the arguments of each built-in tool in the order of its schema.
fn builtin_arguments() -> BTreeMap<String, Vec<String>> {
    let specs = ToolSet::builtin().specs().into_iter();
    let arguments = specs.map(|spec| {
        // The schemas of the built-in tools are JSON, as a test of the tools shows.
        let schema: serde_json::Value = serde_json::from_str(spec.parameters.as_str()).unwrap_or_default();
        let properties = schema["properties"].as_object();
        let names: Vec<String> = properties.map(|all| all.keys().cloned().collect()).unwrap_or_default();
        (spec.name, names)
    });
    arguments.collect()
}

/// Returns the names of all MCP servers of a file: those of its own agent and of the agents beside it.
fn servers(root: &ConfigNode) -> BTreeSet<String> {
    let beside = root.get("agents").map_or(&[][..], ConfigNode::entries).iter().map(|agent| &agent.node);
    let groups = std::iter::once(root).chain(beside).filter_map(|agent| agent.get("mcpServers"));
    groups.flat_map(ConfigNode::entries).map(|server| server.key.clone()).collect()
}

struct RuleCheck {
    arguments: BTreeMap<String, Vec<String>>,
    servers: BTreeSet<String>,
    problems: Vec<ConfigProblem>,
}

impl RuleCheck {
    /// Checks the rules of one agent. `outer` is its path in the file with a dot behind it; empty for the file's own.
    fn agent(&mut self, agent: &ConfigNode, outer: &str) {
        let rules = agent.get("approvals").and_then(|approvals| approvals.get("rules"));
        let Some(ConfigNode { value: ConfigValue::List(rules), .. }) = rules else { return };
        for (at, rule) in rules.iter().enumerate() {
            self.rule(rule, &format!("{outer}approvals.rules[{at}]"));
        }
    }

    fn rule(&mut self, rule: &ConfigNode, path: &str) {
        // Other kinds of values are mistakes, which the reader of the file reports.
        let Some(ConfigNode { at, value: ConfigValue::Text(tool) }) = rule.get("tool") else { return };
        if let Some(arguments) = self.arguments.get(tool).cloned() {
            return self.patterns(rule, path, &arguments);
        }
        let may_be_foreign =
            tool.contains(GLOB_SIGNS) || tool.contains(SERVER_MARK) || self.servers.contains(tool);
        if !may_be_foreign && !BUILTIN.contains(&tool.as_str()) && tool != PIN {
            let kind = ConfigProblemKind::NotAChoice {
                value: clip(tool),
                nearest: nearest(tool, BUILTIN).map(str::to_owned),
                valid: BUILTIN.iter().map(|name| (*name).to_owned()).collect(),
            };
            self.problem(*at, format!("{path}.tool"), kind);
        }
    }

    /// Reports patterns for arguments that a built-in tool does not have: such a rule would fit no call.
    fn patterns(&mut self, rule: &ConfigNode, path: &str, arguments: &[String]) {
        let section = format!("{path}.match");
        for entry in rule.get("match").map_or(&[][..], ConfigNode::entries) {
            if arguments.contains(&entry.key) {
                continue;
            }
            let kind = ConfigProblemKind::UnknownKey {
                key: clip(&entry.key),
                section: section.clone(),
                nearest: nearest(&entry.key, arguments.iter().map(String::as_str)).map(str::to_owned),
                valid: arguments.to_vec(),
            };
            self.problem(entry.at, format!("{section}.{}", entry.key), kind);
        }
    }

    fn problem(&mut self, at: ConfigPosition, path: String, kind: ConfigProblemKind) {
        self.problems.push(ConfigProblem { line: at.line, column: at.column, path, kind });
    }
}
