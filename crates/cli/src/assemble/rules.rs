//! The configured rules of runs: limits, retries, and the tools that may run.

use std::collections::BTreeMap;
use std::time::Duration;

use globset::Glob;
use longhaul::agent::AgentRules;
use longhaul::config::{AgentConfig, ApprovalRule, Decision, ParallelTools, Recovery as Configured};
use longhaul::tools::ToolSet;
use longhaul_core::attempt::RetryPolicy;
use longhaul_core::run::{ArgumentRule, ArgumentRules, RunRecovery, ToolApproval};

use super::ToolApprovalMode;
use super::policy::policy;

/// The reason that a tool does not run if nobody can be asked.
const NOBODY: &str = "it needs a person's approval and nobody can be asked here; the person can run this with --yes, \
                      or allow the tool under approvals.rules in longhaul.yml";

const BY_RULE: &str = "a rule of the configuration denies it";

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

pub(super) fn rules(config: &AgentConfig, tools: &ToolSet, asking: ToolApprovalMode) -> AgentRules {
    let mut rules = AgentRules::new(policy(config));
    rules.max_steps = config.run.max_steps;
    rules.timeout = config.run.timeout;
    rules.parallel_tools = match config.run.parallel_tools {
        ParallelTools::Auto => None,
        ParallelTools::Always => Some(true),
        ParallelTools::Never => Some(false),
    };
    rules.recovery = match config.run.recovery {
        Configured::Rest => RunRecovery::Rest,
        Configured::Continue => RunRecovery::Continue,
    };
    rules.retry = RetryPolicy {
        patience_ms: config.retry.patience.map(millis),
        max_delay_ms: millis(config.retry.max_delay),
        stream_attempts: config.retry.stream_attempts,
    };
    rules.queue_limit = config.run.queue_limit;
    rules.approvals = approvals(config, tools, asking);
    rules.default_approval = asked(asking);
    rules.approval_timeout = config.approvals.timeout;
    rules.max_output_chars.clone_from(&config.tools.output_limits);
    rules.default_max_output_chars = config.tools.max_output_chars as u64;
    rules.defer_above = config.tools.defer_above;
    rules.session_quota_bytes = config.blobs.session_quota_bytes;
    rules
}

/// Returns what holds for each tool that a rule names; the others are left to the default.
fn approvals(
    config: &AgentConfig,
    tools: &ToolSet,
    asking: ToolApprovalMode,
) -> BTreeMap<String, ToolApproval> {
    let decided = tools.specs().into_iter().filter_map(|spec| {
        let rules = rules_of(&config.approvals.rules, &spec.name, asking);
        // The closures of the person's own file are kept apart: no rule of a found file may override them.
        let closures = rules_of(&config.approvals.closures, &spec.name, asking);
        let approval = match (rules.as_slice(), closures.as_slice()) {
            ([], []) => return None,
            ([always], []) | ([], [always]) if always.patterns.is_empty() => always.approval.clone(),
            _ => ToolApproval::Matching(ArgumentRules { rules, otherwise: None, closures }),
        };
        Some((spec.name.clone(), approval))
    });
    decided.collect()
}

/// Returns the rules whose glob fits the tool, up to the first that is for every call.
fn rules_of(rules: &[ApprovalRule], tool: &str, asking: ToolApprovalMode) -> Vec<ArgumentRule> {
    let fits =
        |rule: &&ApprovalRule| Glob::new(&rule.tool).is_ok_and(|glob| glob.compile_matcher().is_match(tool));
    let mut fitting = Vec::new();
    for rule in rules.iter().filter(fits) {
        let approval = match rule.decision {
            Decision::Allow => ToolApproval::Allow,
            Decision::Ask => asked(asking),
            Decision::Deny => ToolApproval::Deny(BY_RULE.to_owned()),
        };
        fitting.push(ArgumentRule { patterns: rule.matching.clone(), approval });
        // A rule without patterns decides every call, so later rules never apply.
        if rule.matching.is_empty() {
            break;
        }
    }
    fitting
}

fn asked(asking: ToolApprovalMode) -> ToolApproval {
    match asking {
        ToolApprovalMode::Person => ToolApproval::Ask,
        ToolApprovalMode::Nobody => ToolApproval::Deny(NOBODY.to_owned()),
        ToolApprovalMode::Allowed => ToolApproval::Allow,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn approval_of(file: &str, asking: ToolApprovalMode, tool: &str) -> ToolApproval {
        let config = AgentConfig::parse(file, "test").unwrap();
        let rules = rules(&config, &ToolSet::builtin(), asking);
        rules.approvals.get(tool).cloned().unwrap_or(rules.default_approval)
    }

    #[test]
    fn the_first_rule_that_fits_decides() {
        let file = "approvals: { rules: [{ tool: bash, decision: deny }, { tool: '*', decision: allow }] }";
        assert_eq!(
            approval_of(file, ToolApprovalMode::Person, "bash"),
            ToolApproval::Deny(BY_RULE.to_owned())
        );
        assert_eq!(approval_of(file, ToolApprovalMode::Person, "edit"), ToolApproval::Allow);
        assert_eq!(approval_of("{}", ToolApprovalMode::Person, "bash"), ToolApproval::Ask);
    }

    #[test]
    fn rules_over_arguments_come_before_the_one_for_all_calls() {
        let file = "approvals: { rules: [{ tool: bash, match: { command: 'git *' }, decision: allow }, { tool: 'b*', match: { command: '*push*' }, decision: deny }, { tool: bash, decision: ask }, { tool: bash, decision: allow }] }";
        let decide = |asking, command: &str| match approval_of(file, asking, "bash") {
            ToolApproval::Matching(matching) => matching.decide(&format!("{{\"command\":\"{command}\"}}")),
            other => other,
        };
        assert_eq!(decide(ToolApprovalMode::Person, "git status"), ToolApproval::Allow);
        assert_eq!(decide(ToolApprovalMode::Person, "hub push"), ToolApproval::Deny(BY_RULE.to_owned()));
        assert_eq!(decide(ToolApprovalMode::Person, "ls"), ToolApproval::Ask);
        assert_eq!(decide(ToolApprovalMode::Nobody, "ls"), ToolApproval::Deny(NOBODY.to_owned()));
        assert_eq!(decide(ToolApprovalMode::Nobody, "git status"), ToolApproval::Allow);
        assert_eq!(approval_of(file, ToolApprovalMode::Person, "edit"), ToolApproval::Ask);
    }

    #[test]
    fn what_is_allowed_beforehand_is_never_what_a_rule_denies() {
        let file = "approvals: { rules: [{ tool: bash, decision: deny }, { tool: edit, decision: ask }] }";
        assert_eq!(
            approval_of(file, ToolApprovalMode::Allowed, "bash"),
            ToolApproval::Deny(BY_RULE.to_owned())
        );
        assert_eq!(approval_of(file, ToolApprovalMode::Allowed, "edit"), ToolApproval::Allow);
        assert_eq!(
            approval_of(file, ToolApprovalMode::Nobody, "edit"),
            ToolApproval::Deny(NOBODY.to_owned())
        );
    }
}
