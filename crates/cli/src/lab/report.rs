//! The lab report: the outcomes of a replay, as a text table, as JSON and as one self-contained page.
//!
//! [`ReplayReport::new`] derives everything from the outcomes: medians, goals, and whether the policy under test beats
//! every peer. The three forms only present it.

mod assumptions;
mod chart;
mod figures;
mod html;
mod json;
mod markup;
#[cfg(test)]
mod sample;
mod score_page;
pub(crate) mod summary;
mod table;
pub(crate) mod verdict;

pub(crate) use assumptions::assumptions;
use serde::Serialize;

use crate::lab::outcome::ReplayOutcome;
use crate::lab::price::PriceTable;
use summary::{ComparisonCell, PolicySummary};
use verdict::{GoalResult, PolicyVerdict};

/// The notice in every form of the report.
pub(crate) const NOT_COUNTERFACTUAL: &str = "A replay is not counterfactual: the recorded answers stay what they \
    were, although an agent that had seen less, or something else, might have done something else.";

/// The subject of a report, besides its outcomes.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReportHeader {
    /// The command line of the report.
    pub(crate) command: String,
    /// The version of the program.
    pub(crate) version: String,
    /// Other facts about the making of the report.
    pub(crate) generated_by: Vec<ReportFact>,
    /// The assumptions of the replay, a sentence each.
    pub(crate) assumptions: Vec<String>,
    /// The policies in the order of tables.
    pub(crate) policies: Vec<PolicyFacts>,
    /// The price tables; the first one leads.
    pub(crate) prices: Vec<PriceTable>,
    /// The sources of the prices, a line each.
    pub(crate) price_sources: Vec<String>,
}

/// A named value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReportFact {
    /// The name of the parameter.
    pub(crate) name: String,
    /// The value of the parameter.
    pub(crate) value: String,
}

/// A policy as presented in the report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PolicyFacts {
    /// The name, as in the outcomes.
    pub(crate) name: String,
    /// The role in the comparison.
    pub(crate) role: PolicyRole,
    /// The rules and numbers with their sources, a line each.
    pub(crate) sources: Vec<String>,
}

/// The role of a policy in the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum PolicyRole {
    /// The policy under test.
    Subject,
    /// Another policy of ours.
    Ours,
    /// The policy without removals, with which costs are compared.
    Baseline,
    /// A model of another program.
    Peer,
}

impl PolicyRole {
    /// Returns the role's name in tables and in class names.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Subject => "subject",
            Self::Ours => "ours",
            Self::Baseline => "baseline",
            Self::Peer => "peer",
        }
    }
}

/// A finished replay with all results.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReplayReport {
    header: ReportHeader,
    outcomes: Vec<ReplayOutcome>,
    summaries: Vec<PolicySummary>,
    goals: Vec<GoalResult>,
    verdicts: Vec<PolicyVerdict>,
}

impl ReplayReport {
    /// Sums up the outcomes. Policies and price tables that the header does not name are added to it: the policies
    /// as peers without sources.
    pub(crate) fn new(mut header: ReportHeader, outcomes: Vec<ReplayOutcome>) -> Self {
        // Every policy needs a role before the cells are made.
        complete(&mut header, &outcomes);
        let cells = summary::cells(&header, &outcomes);
        let summaries = summary::summaries(&header, &cells);
        let goals = verdict::goals(&header, &cells);
        let verdicts = verdict::verdicts(&header, &cells);
        Self { header, outcomes, summaries, goals, verdicts }
    }

    /// Returns the tables for a terminal of so many columns, at least 80.
    pub(crate) fn text(&self, columns: usize) -> String {
        table::text(self, columns)
    }

    /// Returns everything as indented JSON; see `json` for the shape.
    ///
    /// # Errors
    /// None that is known: the shape is plain data.
    pub(crate) fn json(&self) -> serde_json::Result<String> {
        json::text(self)
    }

    /// Returns one self-contained page.
    pub(crate) fn html(&self) -> String {
        html::page(self)
    }

    /// Returns the result in one sentence.
    pub(crate) fn headline(&self) -> String {
        verdict::headline(&self.header, &self.goals, &self.cells())
    }

    fn cells(&self) -> Vec<ComparisonCell<'_>> {
        summary::cells(&self.header, &self.outcomes)
    }
}

#[cfg(test)]
impl ReplayReport {
    /// Returns the verdict for each price table, in sentences.
    pub(crate) fn verdicts(&self) -> &[PolicyVerdict] {
        &self.verdicts
    }

    /// Returns the goals and the degree to which each is met.
    pub(crate) fn goals(&self) -> &[GoalResult] {
        &self.goals
    }
}

impl ReportHeader {
    /// Returns the role of a policy in the comparison.
    pub(crate) fn role(&self, policy: &str) -> PolicyRole {
        self.policies.iter().find(|it| it.name == policy).map_or(PolicyRole::Peer, |it| it.role)
    }

    /// Returns the policy under test, if replayed.
    pub(crate) fn subject(&self) -> Option<&str> {
        self.with_role(PolicyRole::Subject).next()
    }

    fn with_role(&self, role: PolicyRole) -> impl Iterator<Item = &str> {
        self.policies.iter().filter(move |it| it.role == role).map(|it| it.name.as_str())
    }
}

pub(crate) fn score_page(board: &crate::lab::score::board::ScoreReport) -> String {
    score_page::page(board)
}

/// Returns a name with spaces: `user constraints` for `userConstraints`.
pub(crate) fn spaced_name(name: &str) -> String {
    html::tables::spaced(name)
}

fn complete(header: &mut ReportHeader, outcomes: &[ReplayOutcome]) {
    for outcome in outcomes {
        if header.policies.iter().all(|it| it.name != outcome.policy) {
            // A policy without a description is shown like a rival rather than left out.
            let name = outcome.policy.clone();
            header.policies.push(PolicyFacts { name, role: PolicyRole::Peer, sources: Vec::new() });
        }
    }
}
