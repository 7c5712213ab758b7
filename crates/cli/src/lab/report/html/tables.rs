//! The tables of the page. Their heads sort them where scripts run.

use crate::lab::outcome::ReplayOutcome;
use crate::lab::report::figures::{NONE, cost, count, counted, or_none, percent, seconds, tokens};
use crate::lab::report::markup::MarkupWriter;
use crate::lab::report::summary::{
    ComparisonCell, OutcomeMedians, PolicySummary, at_hand, figures_of, in_view, prices as prices_of, share,
};
use crate::lab::report::table::{recalled, window_name};
use crate::lab::report::{PolicyRole, ReplayReport, ReportHeader};

use super::{paragraph, window_of};

/// The maximum number of outcome rows with which all price tables are shown.
const MOST_ROWS: usize = 4_000;

/// Appends a table whose first `words` columns are text.
pub(in crate::lab::report) fn table(
    out: &mut MarkupWriter,
    head: &[&str],
    words: usize,
    rows: impl FnOnce(&mut MarkupWriter),
) {
    // A table may be wider than the page. A focusable region can be scrolled with the keyboard.
    out.element(
        "div",
        &[("class", "scroll"), ("tabindex", "0"), ("role", "region"), ("aria-label", head[0])],
        |out| {
            out.element("table", &[], |out| {
                out.element("thead", &[], |out| {
                    out.element("tr", &[], |out| {
                        for (index, name) in head.iter().enumerate() {
                            let class = if index < words { "word" } else { "figure" };
                            out.leaf("th", &[("scope", "col"), ("class", class)], name);
                        }
                    });
                });
                out.element("tbody", &[], rows);
            });
        },
    );
}

/// Returns the origin of a session: an agent or a program.
pub(super) fn origin(synthetic: bool) -> &'static str {
    if synthetic { "SYNTHETIC" } else { "recorded" }
}

/// Appends content that the page shows only once a reader opens it.
fn folded(out: &mut MarkupWriter, title: &str, content: impl FnOnce(&mut MarkupWriter)) {
    out.element("details", &[], |out| {
        out.leaf("summary", &[], title);
        content(out);
    });
}

fn word(out: &mut MarkupWriter, text: &str) {
    out.leaf("td", &[("class", "word")], text);
}

/// Appends a figure sortable by value.
fn figure(out: &mut MarkupWriter, value: Option<f64>, show: impl Fn(f64) -> String) {
    match value {
        // The page's script sorts by this value, because the shown text is rounded.
        Some(value) => out.leaf("td", &[("data-v", &format!("{value}"))], &show(value)),
        None => out.leaf("td", &[], NONE),
    }
}

/// Appends a figure whose text sorts unchanged.
fn plain(out: &mut MarkupWriter, value: Option<f64>, show: impl Fn(f64) -> String) {
    out.leaf("td", &[], &or_none(value, show));
}

fn role_class(role: PolicyRole) -> String {
    format!("row {}", role.as_str())
}

const MEDIANS: [&str; 16] = [
    "prices",
    "group",
    "sessions",
    "window",
    "policy",
    "n",
    "cost",
    "% of append-only",
    "in view, %",
    "+recall, %",
    "lost, %",
    "prefix hits, %",
    "compactions",
    "peak, tokens",
    "waiting, s",
    "too large",
];

/// Appends the medians: at the first prices all of them, then each group. The other prices and single windows
/// are folded.
pub(super) fn medians(report: &ReplayReport, out: &mut MarkupWriter) {
    paragraph(
        out,
        "note",
        "Over all, then for each group. n is sessions × windows. Too large: requests that left too little of the window for the answer. A server may refuse them.",
    );
    let leading = report.summaries.first().map(|it| it.prices.as_str());
    let of = |keep: &dyn Fn(&PolicySummary) -> bool| {
        let mut rows: Vec<&PolicySummary> = report.summaries.iter().filter(|it| keep(it)).collect();
        // The sort is stable, so rows of one price table and scope keep their order.
        rows.sort_by_key(|it| (leading != Some(it.prices.as_str()), it.scope.group.is_some()));
        rows
    };
    let leads = |it: &PolicySummary| leading == Some(it.prices.as_str());
    medians_table(report, &of(&|it| it.window.is_none() && leads(it)), out);
    let others = of(&|it| it.window.is_none() && !leads(it));
    let each = of(&|it| it.window.is_some());
    for (title, rows) in [("The medians at the other prices", others), ("The medians in each window", each)] {
        if !rows.is_empty() {
            folded(out, title, |out| medians_table(report, &rows, out));
        }
    }
}

fn medians_table(report: &ReplayReport, rows: &[&PolicySummary], out: &mut MarkupWriter) {
    table(out, &MEDIANS, 5, |out| {
        for summary in rows {
            medians_row(report, summary, out);
        }
    });
}

fn medians_row(report: &ReplayReport, summary: &PolicySummary, out: &mut MarkupWriter) {
    let class = role_class(report.header.role(&summary.policy));
    let medians = &summary.medians;
    out.element("tr", &[("class", &class)], |out| {
        out.leaf("th", &[("scope", "row")], &summary.prices);
        word(out, summary.scope.group.as_deref().unwrap_or("all"));
        word(out, origin(summary.scope.synthetic));
        word(out, &window_name(summary.window));
        out.leaf("td", &[("class", "word policy")], &summary.policy);
        plain(out, Some(summary.cells as f64), count);
        plain(out, medians.cost, cost);
        plain(out, medians.cost_of_baseline, percent);
        retention_columns(out, medians);
        figure(out, medians.peak_tokens, |it| tokens(it as u64));
        plain(out, medians.waiting_ms, seconds);
        plain(out, medians.overflows, count);
    });
}

/// Appends the columns about what is kept: in view, with recall, lost, prefix hits, compactions.
fn retention_columns(out: &mut MarkupWriter, figures: &OutcomeMedians) {
    plain(out, figures.in_view, percent);
    out.leaf("td", &[], &recalled(figures.recalled));
    plain(out, figures.lost, percent);
    plain(out, figures.prefix_hit_ratio, percent);
    plain(out, figures.compactions, count);
}

/// Appends a row for each session, window and price table: append-only, the best rival, the policy under test.
pub(super) fn sessions(report: &ReplayReport, cells: &[ComparisonCell<'_>], out: &mut MarkupWriter) {
    if let Some(subject) = report.header.subject() {
        paragraph(out, "note", "A row for each session in each window. A heading sorts by its column.");
        let leading = prices_of(cells).first().copied();
        let (first, others): (Vec<&ComparisonCell<'_>>, Vec<&ComparisonCell<'_>>) =
            cells.iter().partition(|it| Some(it.any().prices.as_str()) == leading);
        sessions_table(subject, &first, out);
        if !others.is_empty() {
            folded(out, "The sessions at the other prices", |out| sessions_table(subject, &others, out));
        }
    }
    outcomes(report, cells, out);
}

fn sessions_table(subject: &str, cells: &[&ComparisonCell<'_>], out: &mut MarkupWriter) {
    let costs = format!("{subject}, cost");
    let head = [
        "session",
        "group",
        "sessions",
        "window",
        "prices",
        "append-only, cost",
        "best rival",
        "its cost",
        "its in view, %",
        &costs,
        "% of append-only",
        "% of best rival",
        "in view, %",
        "+recall, %",
        "lost, %",
        "prefix hits, %",
        "compactions",
    ];
    table(out, &head, 5, |out| {
        for cell in cells {
            if let Some(outcome) = cell.subject() {
                session_row(cell, outcome, out);
            }
        }
    });
}

fn session_row(cell: &ComparisonCell<'_>, outcome: &ReplayOutcome, out: &mut MarkupWriter) {
    let peer = cell.best_peer();
    out.element("tr", &[], |out| {
        session(cell, out);
        plain(out, cell.baseline().map(|it| it.cost), cost);
        word(out, peer.map_or(NONE, |it| &it.policy));
        plain(out, peer.map(|it| it.cost), cost);
        plain(out, peer.and_then(|it| in_view(&it.needs)), percent);
        plain(out, Some(outcome.cost), cost);
        plain(out, cell.cost_of_baseline(outcome), percent);
        plain(out, cell.cost_of_best_peer(), percent);
        retention_columns(out, &figures_of(cell, outcome));
    });
}

/// Appends the five columns with the cell of a row.
fn session(cell: &ComparisonCell<'_>, out: &mut MarkupWriter) {
    let any = cell.any();
    out.leaf("th", &[("scope", "row")], &any.recording);
    word(out, &any.group);
    word(out, origin(any.synthetic));
    out.leaf("td", &[("class", "word"), ("data-v", &any.window.to_string())], &window_of(cell));
    word(out, &any.prices);
}

/// Appends every outcome, folded.
fn outcomes(report: &ReplayReport, cells: &[ComparisonCell<'_>], out: &mut MarkupWriter) {
    let head = [
        "session",
        "group",
        "sessions",
        "window",
        "prices",
        "policy",
        "cost",
        "% of append-only",
        "in view, %",
        "in view or found, %",
        "lost, %",
        "prefix hits, %",
        "prefix breaks",
        "compactions",
        "prunes",
        "calls",
        "extra calls",
        "uncached",
        "cache read",
        "cache write",
        "output",
        "peak",
        "too large",
        "waiting, s",
    ];
    let leading = prices_of(cells).first().copied();
    let all = report.outcomes.len();
    // A page with all rows of a large comparison would be slow to open.
    let is_shown =
        |cell: &&ComparisonCell<'_>| all <= MOST_ROWS || Some(cell.any().prices.as_str()) == leading;
    let shown: usize = cells.iter().filter(is_shown).map(|it| it.outcomes().len()).sum();
    let of = if shown < all { format!(" of {all}; --json has the rest") } else { String::new() };
    folded(out, &format!("Every policy: {}{of}", counted(shown, "row")), |out| {
        table(out, &head, 6, |out| {
            for cell in cells.iter().filter(is_shown) {
                for outcome in cell.outcomes() {
                    outcome_row(report, cell, outcome, out);
                }
            }
        });
    });
}

fn outcome_row(
    report: &ReplayReport,
    cell: &ComparisonCell<'_>,
    outcome: &ReplayOutcome,
    out: &mut MarkupWriter,
) {
    let (needs, billed) = (&outcome.needs, &outcome.billed);
    let class = role_class(report.header.role(&outcome.policy));
    out.element("tr", &[("class", &class)], |out| {
        session(cell, out);
        out.leaf("td", &[("class", "word policy")], &outcome.policy);
        plain(out, Some(outcome.cost), cost);
        plain(out, cell.cost_of_baseline(outcome), percent);
        plain(out, in_view(needs), percent);
        plain(out, at_hand(needs), percent);
        plain(out, share(needs.lost, needs), percent);
        plain(out, Some(outcome.prefix_hit_ratio), percent);
        for number in [outcome.prefix_breaks, outcome.compactions, outcome.prunes, outcome.requests] {
            out.leaf("td", &[], &number.to_string());
        }
        out.leaf("td", &[], &(outcome.side_calls + needs.recalls).to_string());
        for number in
            [billed.uncached, billed.cache_read, billed.cache_write, billed.output, outcome.peak_tokens]
        {
            figure(out, Some(number as f64), |it| tokens(it as u64));
        }
        out.leaf("td", &[], &outcome.overflows.to_string());
        plain(out, Some(outcome.waiting_ms as f64), seconds);
    });
}

/// Appends a table of where the facts of removed messages are, by class. It covers the recordings of agents
/// at the first price table.
pub(super) fn survival(report: &ReplayReport, out: &mut MarkupWriter) {
    paragraph(
        out,
        "note",
        "Facts of the messages that the edits removed, summed over the sessions at the first prices: still in the view letter for letter, to be had by the model, by a person only, or by nobody.",
    );
    let Some(first) = report.summaries.iter().find(|it| is_whole(it)) else { return };
    let rows = report.summaries.iter().filter(|it| is_whole(it)).filter(|it| it.prices == first.prices);
    let head = [
        "policy",
        "sessions",
        "class",
        "facts",
        "verbatim, %",
        "by the model, %",
        "by a person, %",
        "lost, %",
    ];
    table(out, &head, 3, |out| {
        for summary in rows {
            // A class without facts has no shares.
            for (class, tally) in summary.survival.iter().filter(|(_, tally)| tally.total() > 0) {
                let role = role_class(report.header.role(&summary.policy));
                out.element("tr", &[("class", &role)], |out| {
                    out.leaf("th", &[("scope", "row"), ("class", "policy")], &summary.policy);
                    word(out, origin(summary.scope.synthetic));
                    word(out, &spaced(class));
                    out.leaf("td", &[], &tally.total().to_string());
                    let parts =
                        [tally.verbatim, tally.recoverable_by_model, tally.recoverable_by_user, tally.lost];
                    for part in parts {
                        out.leaf("td", &[], &percent(part as f64 / tally.total() as f64));
                    }
                });
            }
        }
    });
}

fn is_whole(summary: &PolicySummary) -> bool {
    summary.scope.group.is_none() && summary.window.is_none()
}

/// Returns a name with spaces: `user constraints` for `userConstraints`.
pub(in crate::lab::report) fn spaced(name: &str) -> String {
    let mut words = String::with_capacity(name.len() + 2);
    for c in name.chars() {
        if c.is_uppercase() {
            words.push(' ');
        }
        words.extend(c.to_lowercase());
    }
    words
}

pub(super) fn prices(header: &ReportHeader, out: &mut MarkupWriter) {
    let head = [
        "prices",
        "input",
        "cache read",
        "cache write",
        "output",
        "shortest cached prefix",
        "cache life, min",
    ];
    table(out, &head, 1, |out| {
        for prices in &header.prices {
            out.element("tr", &[], |out| {
                out.leaf("th", &[("scope", "row")], &prices.name);
                for price in [prices.input, prices.cache_read, prices.cache_write, prices.output] {
                    out.leaf("td", &[], &format!("{price}"));
                }
                out.leaf("td", &[], &prices.cache_minimum_tokens.to_string());
                out.leaf("td", &[], &count(prices.cache_life_ms as f64 / 60_000.0));
            });
        }
    });
}
