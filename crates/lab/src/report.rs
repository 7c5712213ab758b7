//! The lab report: what came of a replay, as a text table, as JSON and as one page that needs nothing else.
//!
//! [`Report::new`] derives everything from the outcomes: medians, goals, and whether the policy under test beats
//! every peer. The three forms only say it.

mod assumptions;
mod chart;
mod figures;
mod html;
mod json;
mod markup;
#[cfg(test)]
mod sample;
mod score_page;
pub mod summary;
mod table;
pub mod verdict;

pub use assumptions::assumptions;
use serde::Serialize;

use crate::outcome::Outcome;
use crate::price::Prices;
use summary::{Cell, Summary};
use verdict::{GoalResult, Verdict};

/// Stands in every form of the report.
pub const NOT_COUNTERFACTUAL: &str = "A replay is not counterfactual: the recorded answers stay what they \
    were, although an agent that had seen less, or something else, might have done something else.";

/// What a report is about, besides its outcomes.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Header {
    /// The command line that made it.
    pub command: String,
    /// The version of the program.
    pub version: String,
    /// Other facts of its making.
    pub generated_by: Vec<Fact>,
    /// What the replay takes for granted, a sentence each.
    pub assumptions: Vec<String>,
    /// The policies in the order of tables.
    pub policies: Vec<PolicyFacts>,
    /// The price tables; the first one leads.
    pub prices: Vec<Prices>,
    /// Where the prices come from, a line each.
    pub price_sources: Vec<String>,
}

/// A named value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Fact {
    /// Of what.
    pub name: String,
    /// Which.
    pub value: String,
}

/// A policy as the report presents it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicyFacts {
    /// Its name, as in the outcomes.
    pub name: String,
    /// What it is compared as.
    pub role: Role,
    /// Its rules and numbers with their sources, a line each.
    pub sources: Vec<String>,
}

/// What a policy is compared as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Role {
    /// The policy under test.
    Subject,
    /// Another policy of ours.
    Ours,
    /// Nothing ever leaves the view: what costs are measured by.
    Baseline,
    /// A model of another program.
    Peer,
}

impl Role {
    /// As it stands in tables and in class names.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Subject => "subject",
            Self::Ours => "ours",
            Self::Baseline => "baseline",
            Self::Peer => "peer",
        }
    }
}

/// A finished replay with all that follows from it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    header: Header,
    outcomes: Vec<Outcome>,
    summaries: Vec<Summary>,
    goals: Vec<GoalResult>,
    verdicts: Vec<Verdict>,
}

impl Report {
    /// Sums up the outcomes. Policies and price tables that the header does not name are added to it: the policies
    /// as peers without sources.
    pub fn new(mut header: Header, outcomes: Vec<Outcome>) -> Self {
        complete(&mut header, &outcomes);
        let cells = summary::cells(&header, &outcomes);
        let summaries = summary::summaries(&header, &cells);
        let goals = verdict::goals(&header, &cells);
        let verdicts = verdict::verdicts(&header, &cells);
        Self { header, outcomes, summaries, goals, verdicts }
    }

    /// The tables for a terminal of so many columns, at least 80.
    pub fn text(&self, columns: usize) -> String {
        table::text(self, columns)
    }

    /// Everything, indented; see `json` for the shape.
    ///
    /// # Errors
    /// None that is known: the shape is plain data.
    pub fn json(&self) -> serde_json::Result<String> {
        json::text(self)
    }

    /// One page that loads nothing.
    pub fn html(&self) -> String {
        html::page(self)
    }

    /// The result in one sentence.
    pub fn headline(&self) -> String {
        verdict::headline(&self.header, &self.goals, &self.cells())
    }

    /// What follows for each price table, in sentences.
    pub fn verdicts(&self) -> &[Verdict] {
        &self.verdicts
    }

    /// The goals and how far they are met.
    pub fn goals(&self) -> &[GoalResult] {
        &self.goals
    }

    /// Medians for each group and over all.
    pub fn summaries(&self) -> &[Summary] {
        &self.summaries
    }

    fn cells(&self) -> Vec<Cell<'_>> {
        summary::cells(&self.header, &self.outcomes)
    }
}

impl Header {
    /// What a policy is compared as.
    pub fn role(&self, policy: &str) -> Role {
        self.policies.iter().find(|it| it.name == policy).map_or(Role::Peer, |it| it.role)
    }

    /// The policy under test, if it was replayed.
    pub fn subject(&self) -> Option<&str> {
        self.with_role(Role::Subject).next()
    }

    fn with_role(&self, role: Role) -> impl Iterator<Item = &str> {
        self.policies.iter().filter(move |it| it.role == role).map(|it| it.name.as_str())
    }
}

pub(crate) fn score_page(board: &crate::score::board::Scoreboard) -> String {
    score_page::page(board)
}

fn complete(header: &mut Header, outcomes: &[Outcome]) {
    for outcome in outcomes {
        if header.policies.iter().all(|it| it.name != outcome.policy) {
            let name = outcome.policy.clone();
            header.policies.push(PolicyFacts { name, role: Role::Peer, sources: Vec::new() });
        }
    }
}
