//! All measures beside their goals, as a table for a terminal, as JSON and as one page.

use std::collections::BTreeSet;

use longhaul_core::history::HistoryFoldError;
use longhaul_core::retention_report::RetentionTally;
use serde::Serialize;

use super::orders::{self, OrderCase, OrderScore};
use super::{
    ReceiptsError, ReceiptsFolder, ScriptedSummariser, compactbench, goals, locomo, lost, reading_job,
    refusals, summaries, superseded,
};
use crate::lab::outcome::ReplayOutcome;
use crate::lab::report;

/// The number of steps of [`ScoreReport::from_receipts`], as its progress shows them.
const RECEIPTS_STEPS: usize = 17;

/// The explanation of the figures of a session.
const OUTCOME_NOTE: &str = "Removed facts are those of messages that left the view.\n\
    in view: word for word in the view after the edit, for example in a summary.\n\
    by recall: the model can read it again with the tool `recall`.\n\
    by the user: only a person can, in the stored session; the policy gives its model no such tool.\n\
    requests too large: requests that left too little of the window for the answer.";

/// A row with one figure beside its goal.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ScoreRow {
    /// The measured quantity.
    pub(crate) measure: String,
    /// The case of the measure.
    pub(crate) case: String,
    /// The figure, with its unit.
    pub(crate) figure: String,
    /// The goal, if there is one.
    pub(crate) goal: Option<String>,
    /// `true` if the goal is met.
    pub(crate) is_met: Option<bool>,
}

/// The figures of one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ScoreReport {
    /// The command line of the report.
    pub(crate) command: String,
    /// The version of the program.
    pub(crate) version: String,
    /// The figures in order.
    pub(crate) rows: Vec<ScoreRow>,
    /// Explanations of the figures, a sentence or more each.
    pub(crate) notes: Vec<String>,
}

/// The reason why the public measures cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum ScoreError {
    /// A file of the public data cannot be used.
    #[error(transparent)]
    Receipts(#[from] ReceiptsError),
    /// A made-up log does not fold: a defect of this program.
    #[error(transparent)]
    Fold(#[from] HistoryFoldError),
}

impl ScoreRow {
    fn new(measure: &str, case: impl Into<String>, figure: impl Into<String>) -> Self {
        let (measure, case, figure) = (measure.to_owned(), case.into(), figure.into());
        Self { measure, case, figure, goal: None, is_met: None }
    }

    fn held_to(self, goal: impl Into<String>, is_met: bool) -> Self {
        Self { goal: Some(goal.into()), is_met: Some(is_met), ..self }
    }
}

impl ScoreReport {
    /// Makes every public measure on the data of `receipts`. It takes minutes. `tell` hears what is measured next, and
    /// how many of all steps are done or under way: `3 of 17: …`.
    ///
    /// # Errors
    /// [`ScoreError`] if a file is missing or has another shape.
    pub(crate) fn from_receipts(
        receipts: &ReceiptsFolder,
        mut tell: impl FnMut(&str),
    ) -> Result<Self, ScoreError> {
        let mut board = Self::default();
        let mut step = 0;
        let mut tell = |measure: &str| {
            step += 1;
            tell(&format!("{step} of {RECEIPTS_STEPS}: {measure}"));
        };
        let filler = receipts.filler()?;
        for (measure, given, goal) in [
            ("COMPINT orders in view", receipts.compint()?, goals::COMPINT_KEPT),
            ("own orders in six languages in view", orders::own_orders(), goals::HIDDEN_KEPT),
        ] {
            // One compaction may keep what the fifth loses, so both are measured.
            for rounds in [1, 5] {
                tell(&format!("{measure}, {}", compacted(rounds)));
                let cases = orders::all_cases(rounds);
                let scores: Vec<OrderScore> =
                    in_parallel(&cases, |case: &OrderCase| orders::measure(&given, &filler, case));
                board.add_orders(measure, &scores, goal);
            }
        }
        tell("refusals");
        board.add_refusals(&refusals::measure(&filler));
        for summariser in [ScriptedSummariser::Extract, ScriptedSummariser::OrderBlind] {
            tell(&format!("superseded statements, {}", summariser.name()));
            let score = superseded::measure(&filler, "adaptive", &summariser);
            score.iter().for_each(|score| board.add_superseded(&summariser, score));
        }
        tell("LoCoMo");
        board.add_locomo(&locomo::measure(&locomo::read_conversations(receipts)?));
        tell("lost-in-compaction");
        let score = lost::measure(&lost::read_chat(receipts)?, "adaptive", ScriptedSummariser::Extract);
        score.iter().for_each(|score| board.add_lost(score));
        let templates = compactbench::read_templates(receipts)?;
        for summariser in [ScriptedSummariser::Extract, ScriptedSummariser::OrderBlind] {
            tell(&format!("CompactBench, {}", summariser.name()));
            let score = compactbench::measure(&templates, &filler, 1, "adaptive", &summariser);
            score.iter().for_each(|score| board.add_compactbench(&summariser, score));
        }
        for window in [64_000, 32_000] {
            tell(&format!("the reading job in {}K", window / 1_000));
            board.add_job(&reading_job::measure(window, reading_job::FIXED_TOKENS)?);
        }
        for strategy in ["adaptive", "reactive-overflow"] {
            tell(&format!("summaries of a model, {strategy} · chat"));
            let score = summaries::measure(&filler, strategy);
            score.iter().for_each(|score| board.add_summaries(&format!("{strategy} · chat"), score));
            tell(&format!("summaries of a model, {strategy} · reading job"));
            let score = summaries::measure_job(strategy, 32_000)?;
            score.iter().for_each(|score| board.add_summaries(&format!("{strategy} · reading job"), score));
        }
        Ok(board)
    }

    /// Adds the outcomes of replays of recorded sessions: retained facts, cost, and the modelled waiting
    /// time. The rows of a session are sorted by measure, so that policies stand below each other.
    pub(crate) fn add_outcomes(&mut self, outcomes: &[ReplayOutcome]) {
        let mut places: Vec<String> = Vec::new();
        for outcome in outcomes {
            let place = place_of(outcome);
            if !places.contains(&place) {
                places.push(place);
            }
        }
        for here in &places {
            let held: Vec<&ReplayOutcome> = outcomes.iter().filter(|it| place_of(it) == *here).collect();
            let classes: BTreeSet<&String> = held.iter().flat_map(|it| it.survival.keys()).collect();
            for class in classes {
                let measure = format!("removed facts: {}", report::spaced_name(class));
                for outcome in &held {
                    // A policy that removed no such fact has no shares.
                    if let Some(tally) = outcome.survival.get(class).filter(|tally| tally.total() > 0) {
                        self.add_figure(here, &measure, outcome, survived(tally));
                    }
                }
            }
            for outcome in &held {
                self.add_figure(
                    here,
                    "cost",
                    outcome,
                    format!("{:.4} US dollars ({})", outcome.cost, outcome.prices),
                );
            }
            for outcome in &held {
                self.add_figure(
                    here,
                    "waiting",
                    outcome,
                    format!("{:.1} s", outcome.waiting_ms as f64 / 1_000.0),
                );
            }
            for outcome in &held {
                self.add_figure(here, "requests too large", outcome, outcome.overflows.to_string());
            }
        }
        if !places.is_empty() {
            self.notes.push(OUTCOME_NOTE.to_owned());
        }
    }

    /// Adds one figure of an outcome, without a goal.
    fn add_figure(&mut self, place: &str, measure: &str, outcome: &ReplayOutcome, figure: String) {
        self.rows.push(ScoreRow::new(&format!("{place} · {measure}"), &outcome.policy, figure));
    }

    fn add_orders(&mut self, measure: &str, scores: &[OrderScore], goal: usize) {
        for score in scores {
            let case = format!(
                "{} · {} · {}K · {} · {}",
                score.strategy,
                score.summariser,
                score.chat_tokens / 1_000,
                score.position.name(),
                compacted(score.rounds)
            );
            let row = ScoreRow::new(measure, case, format!("{}/{}", score.kept, score.orders));
            self.rows.push(row.held_to(format!("{goal}/{}", score.orders), score.kept >= goal));
        }
        // A view that calls every line a rule keeps all orders, so the precision of its lists is measured too.
        let (listed, hits) = scores
            .iter()
            .fold((0, 0), |(listed, hits), score| (listed + score.listed, hits + score.listed_orders));
        self.add_listed(measure, hits, listed);
    }

    fn add_listed(&mut self, measure: &str, hits: usize, listed: usize) {
        const NAME: &str = "lines under \"Rules\" that are orders";
        if listed == 0 {
            // A share of nothing is neither good nor bad, so it does not count as a goal.
            self.rows.push(ScoreRow::new(NAME, measure, "no such line"));
            return;
        }
        let percent = super::text::percent(hits, listed);
        let row = ScoreRow::new(NAME, measure, format!("{percent:.0} % of {listed}"));
        let least = goals::LISTED_PRECISION_PERCENT;
        self.rows.push(row.held_to(format!("≥ {least:.0} %"), percent >= least));
    }

    fn add_refusals(&mut self, score: &refusals::RefusalScore) {
        let row = ScoreRow::new(
            "answers that are no summary, refused",
            format!("let through: {}", named(&score.let_through)),
            format!("{}/{}", score.refused, score.no_summaries),
        );
        self.rows.push(row.held_to(format!("{}/25", goals::REFUSED), score.refused >= goals::REFUSED));
        let row = ScoreRow::new(
            "good summaries accepted",
            format!("refused: {}", named(&score.turned_away)),
            format!("{}/{}", score.accepted, score.good_summaries),
        );
        self.rows.push(row.held_to(format!("{}/10", goals::ACCEPTED), score.accepted >= goals::ACCEPTED));
    }

    fn add_superseded(&mut self, summariser: &ScriptedSummariser, score: &superseded::SupersededScore) {
        let case = format!("adaptive · {}", summariser.name());
        let row = ScoreRow::new(
            "superseded: newest in view",
            &case,
            format!("{}/{}", score.newest_kept, score.pairs),
        );
        self.rows.push(row.held_to("20/20", score.newest_kept >= goals::NEWEST_KEPT));
        let row = ScoreRow::new("superseded: old one unmarked", &case, score.old_unmarked.to_string());
        self.rows
            .push(row.held_to(format!("≤ {}", goals::MAX_STALE), score.old_unmarked <= goals::MAX_STALE));
        let misleading = score.old_misleading.to_string();
        self.rows.push(ScoreRow::new("superseded: old one unmarked and not followed", case, misleading));
    }

    fn add_locomo(&mut self, score: &locomo::LocomoScore) {
        let all = &score.all;
        let figure = format!("{:.1} % @5, {:.1} % @10, {:.1} % @20", all.at_5, all.at_10, all.at_20);
        let row = ScoreRow::new("LoCoMo evidence", format!("{} questions", all.questions), figure);
        let least = goals::LOCOMO_AT_10_PERCENT;
        self.rows.push(row.held_to(format!("≥ {least:.0} % @10"), all.at_10 >= least));
        for (category, part) in &score.by_category {
            let case = format!("category {category}, {} questions", part.questions);
            let figure = format!("{:.1} % @5, {:.1} % @10, {:.1} % @20", part.at_5, part.at_10, part.at_20);
            self.rows.push(ScoreRow::new("LoCoMo evidence", case, figure));
        }
    }

    fn add_lost(&mut self, score: &lost::LostInCompactionScore) {
        let case = format!("adaptive · extract · {} compactions", score.compactions);
        let row = ScoreRow::new(
            "lost-in-compaction: answers in view",
            &case,
            format!("{}/{}", score.in_view, score.facts),
        );
        self.rows
            .push(row.held_to(format!("≥ {}", goals::LOST_IN_VIEW), score.in_view >= goals::LOST_IN_VIEW));
        let percent = score.at_10_percent();
        let row = ScoreRow::new("lost-in-compaction: recall @10", case, format!("{percent:.1} %"));
        let least = goals::LOST_AT_10_PERCENT;
        self.rows.push(row.held_to(format!("≥ {least:.0} %"), percent >= least));
    }

    fn add_compactbench(&mut self, summariser: &ScriptedSummariser, score: &compactbench::CompactBenchScore) {
        let percent = score.percent();
        let row = ScoreRow::new(
            "CompactBench practice: decisions and prohibitions in view",
            format!("adaptive · {}", summariser.name()),
            format!("{percent:.0} % ({}/{})", score.in_view, score.statements),
        );
        let least = goals::COMPACTBENCH_PERCENT;
        self.rows.push(row.held_to(format!("≥ {least:.0} %"), percent >= least));
    }

    fn add_job(&mut self, scores: &[reading_job::ReadingJobScore]) {
        for score in scores {
            let case = format!("{} · {}K", score.policy, score.window / 1_000);
            // Only the strategy under test has goals. The others are there for comparison.
            let is_subject = score.policy == "adaptive";
            let (cost, needles) = if score.window > 32_000 {
                (goals::JOB_64K_COST, goals::JOB_64K_NEEDLES)
            } else {
                (goals::JOB_32K_COST, goals::JOB_32K_NEEDLES)
            };
            let figure = format!(
                "cost {:.0}K, {} needles visible, {} files never whole, {} overflows, newest result cleared {} times",
                score.cost_thousands,
                score.needles_visible,
                score.never_whole,
                score.overflows,
                score.newest_cleared
            );
            let row = ScoreRow::new("reading job of 40 files", case, figure);
            let is_met = score.cost_thousands <= cost
                && score.needles_visible >= needles
                && score.overflows == 0
                && score.newest_cleared == 0;
            self.rows.push(if is_subject {
                row.held_to(format!("≤ {cost:.0}K, ≥ {needles} needles, 0, 0"), is_met)
            } else {
                row
            });
        }
    }

    fn add_summaries(&mut self, case: &str, score: &summaries::SummariesScore) {
        const NAME: &str = "summaries of a model that were written and used";
        if score.written == 0 {
            // Without a summary there is nothing to use or to drop, so it does not count as a goal.
            let figure = format!("none written, {} compactions", score.compactions);
            self.rows.push(ScoreRow::new(NAME, case, figure));
            return;
        }
        let figure = format!(
            "{}/{} used, {} dropped later, {} compactions",
            score.used, score.written, score.dropped, score.compactions
        );
        let row = ScoreRow::new(NAME, case, figure);
        self.rows.push(row.held_to("all, none dropped", score.used == score.written && score.dropped == 0));
    }

    /// Returns how many goals are met, and how many there are.
    pub(crate) fn goals_met(&self) -> (usize, usize) {
        let results = self.rows.iter().filter_map(|row| row.is_met);
        (results.clone().filter(|is_met| *is_met).count(), results.count())
    }

    /// Returns the result in one sentence.
    pub(crate) fn headline(&self) -> String {
        match self.goals_met() {
            (_, 0) => format!("{} figures, without goals", self.rows.len()),
            (met, goals) => format!("{met} of {goals} goals are met"),
        }
    }

    /// Returns the rows as text, one a line.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        let mut measure = "";
        // Short names need no wide column, and long ones may push their figure to the right.
        let width = self.rows.iter().map(|row| row.case.chars().count()).max().unwrap_or(0).min(58);
        for row in &self.rows {
            // Rows of one measure follow each other, so its name stands once above them.
            if row.measure != measure {
                measure = &row.measure;
                text.push_str(&format!("{measure}\n"));
            }
            let sign = match row.is_met {
                Some(true) => "✓",
                Some(false) => "✗",
                None => " ",
            };
            text.push_str(&format!("  {sign} {:<width$} {}", row.case, row.figure));
            if let Some(goal) = &row.goal {
                text.push_str(&format!("   (goal {goal})"));
            }
            text.push('\n');
        }
        for note in &self.notes {
            text.push_str(&format!("\n{note}\n"));
        }
        text.push_str(&format!("\n{}\n", self.headline()));
        text
    }

    /// Returns everything as indented JSON.
    ///
    /// # Errors
    /// None that is known: the shape is plain data.
    pub(crate) fn json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self)
    }

    /// Returns one self-contained page.
    pub(crate) fn html(&self) -> String {
        report::score_page(self)
    }
}

/// Returns the recording of an outcome with the window in which it was replayed.
fn place_of(outcome: &ReplayOutcome) -> String {
    format!("{} · {} tokens", outcome.recording, outcome.window)
}

/// Describes the state of one class of removed facts.
fn survived(tally: &RetentionTally) -> String {
    // A class without facts must not divide by zero.
    let total = tally.total().max(1) as f64;
    format!(
        "{:.0} % in view, {:.0} % by recall, {:.0} % by the user, {:.0} % lost",
        percent_of(tally.verbatim, total),
        percent_of(tally.recoverable_by_model, total),
        percent_of(tally.recoverable_by_user, total),
        percent_of(tally.lost, total)
    )
}

fn percent_of(count: u64, total: f64) -> f64 {
    count as f64 * 100.0 / total
}

fn compacted(rounds: usize) -> String {
    if rounds == 1 { "once compacted".to_owned() } else { format!("{rounds} rounds") }
}

fn named(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// Measures two cases at a time. The scores come in the order of the cases.
pub(crate) fn in_parallel<C: Sync, S: Send>(cases: &[C], measure: impl Fn(&C) -> Option<S> + Sync) -> Vec<S> {
    let half = cases.len().div_ceil(2);
    let (first, second) = cases.split_at(half);
    std::thread::scope(|scope| {
        let other = scope.spawn(|| second.iter().filter_map(&measure).collect::<Vec<S>>());
        // The first half runs on this thread, so only one more is needed.
        let mut scores: Vec<S> = first.iter().filter_map(&measure).collect();
        match other.join() {
            Ok(more) => scores.extend(more),
            // A measure that panics fails the whole run, on whichever thread it ran.
            Err(panic) => std::panic::resume_unwind(panic),
        }
        scores
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_board_counts_its_goals_in_every_form() {
        let mut board = ScoreReport { command: "longhaul lab score".to_owned(), ..ScoreReport::default() };
        board.rows.push(ScoreRow::new("orders <in view>", "adaptive", "15/15").held_to("15/15", true));
        board.rows.push(ScoreRow::new("refusals", "all", "5/25").held_to("25/25", false));
        board.rows.push(ScoreRow::new("cost", "mine", "0.1 US dollars"));
        assert_eq!(board.goals_met(), (1, 2));
        assert!(board.text().contains("✗ all"), "{}", board.text());
        assert!(board.json().unwrap().contains("\"isMet\": false"));
        let page = board.html();
        assert!(page.starts_with("<!doctype html>") && page.contains("<title>Lab report"));
        assert!(page.contains("orders &lt;in view&gt;") && page.contains("1 of 2 goals are met"));
    }

    #[test]
    fn what_was_not_measured_is_no_goal() {
        let mut board = ScoreReport::default();
        board.add_listed("own orders", 0, 0);
        assert_eq!(board.goals_met(), (0, 0));
        assert!(board.text().contains("no such line"), "{}", board.text());
        board.add_listed("own orders", 9, 10);
        assert_eq!(board.goals_met(), (1, 1));
    }
}
