//! The report as one self-contained page: its policy allows only the page's style and script, by hash.

pub(super) mod tables;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

use super::chart::{context, scatter};
use super::figures::{NONE, counted, or_none, percent, percent_in_sentence, tokens};
use super::markup::MarkupWriter;
use super::summary::{self, ComparisonCell, WindowChoice};
use super::verdict::{GoalResult, PolicyGoal, PolicyVerdict, RivalStanding, basis, headline};
use super::{NOT_COUNTERFACTUAL, PolicyRole, ReplayReport};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// The number of sessions whose charts are drawn besides the first.
const MORE_SESSIONS: usize = 11;

pub(super) fn page(report: &ReplayReport) -> String {
    let mut out = MarkupWriter::default();
    out.own("<!doctype html>\n");
    out.element("html", &[("lang", "en")], |out| {
        let subject = report.header.subject().unwrap_or("context policies");
        out.element("head", &[], |out| page_head(subject, out));
        out.element("body", &[], |out| {
            out.element("main", &[], |out| body(report, out));
            out.element("footer", &[], |out| footer(report, out));
            out.element("script", &[("type", "module")], |out| out.own(SCRIPT));
        });
    });
    out.own("\n");
    out.into_string()
}

/// Appends the head of a page about `subject`.
pub(super) fn page_head(subject: &str, out: &mut MarkupWriter) {
    // The page is a file that is opened anywhere. Only its own style and script may run, by their hashes.
    let policy = format!(
        "default-src 'none'; style-src '{}'; script-src '{}'; img-src data:; base-uri 'none'; form-action 'none'",
        hash_of(STYLE),
        hash_of(SCRIPT)
    );
    out.void("meta", &[("charset", "utf-8")]);
    out.void("meta", &[("http-equiv", "Content-Security-Policy"), ("content", &policy)]);
    out.void("meta", &[("name", "viewport"), ("content", "width=device-width, initial-scale=1")]);
    out.void("meta", &[("name", "color-scheme"), ("content", "light dark")]);
    // An empty icon keeps the browser from asking a server for one.
    out.void("link", &[("rel", "icon"), ("href", "data:,")]);
    out.leaf("title", &[], &format!("Lab report · {subject}"));
    out.element("style", &[], |out| out.own(STYLE));
}

/// Returns the hash of a text in the form of a content security policy.
fn hash_of(text: &str) -> String {
    format!("sha256-{}", STANDARD.encode(Sha256::digest(text.as_bytes())))
}

fn body(report: &ReplayReport, out: &mut MarkupWriter) {
    let cells = report.cells();
    result(report, &cells, out);
    if !cells.is_empty() {
        contexts(report, &cells, out);
        recall(report, &cells, out);
        section(out, "Medians", |out| tables::medians(report, out));
        section(out, "Sessions", |out| tables::sessions(report, &cells, out));
        section(out, "What left the view", |out| tables::survival(report, out));
    }
    section(out, "How to read this", |out| reading(report, out));
}

fn section(out: &mut MarkupWriter, title: &str, inside: impl FnOnce(&mut MarkupWriter)) {
    out.element("section", &[], |out| {
        out.leaf("h2", &[], title);
        inside(out);
    });
}

/// Figures and their units stay on one line.
pub(super) fn prose(text: &str) -> String {
    text.replace(" %", "\u{a0}%").replace("≤ ", "≤\u{a0}").replace("≥ ", "≥\u{a0}")
}

fn paragraph(out: &mut MarkupWriter, class: &str, text: &str) {
    out.leaf("p", &[("class", class)], &prose(text));
}

fn result(report: &ReplayReport, cells: &[ComparisonCell<'_>], out: &mut MarkupWriter) {
    out.element("header", &[], |out| {
        out.leaf("p", &[("class", "kind")], "Lab report");
        out.leaf("h1", &[], &prose(&headline(&report.header, &report.goals, cells)));
        paragraph(out, "lead", &basis(cells));
    });
    if !report.verdicts.is_empty() {
        out.element("ul", &[("class", "verdicts")], |out| {
            for verdict in &report.verdicts {
                verdict_item(verdict, out);
            }
        });
    }
    if !report.goals.is_empty() {
        section(out, "Goals", |out| goals(&report.goals, out));
    }
    if report.verdicts.iter().any(|it| it.comparisons > 0) {
        section(out, "Beside each rival", |out| beside(report, out));
    }
}

fn verdict_item(verdict: &PolicyVerdict, out: &mut MarkupWriter) {
    let (class, sign) = match (verdict.comparisons, verdict.beats_all) {
        (0, _) => ("unknown", "?"),
        (_, true) => ("yes", "✓"),
        (_, false) => ("no", "✗"),
    };
    out.element("li", &[("class", class)], |out| {
        out.leaf("span", &[("class", "sign"), ("aria-hidden", "true")], sign);
        out.element("div", &[], |out| {
            out.leaf("p", &[], &prose(&verdict.sentence));
            if !verdict.exceptions.is_empty() {
                out.element("details", &[], |out| exceptions(verdict, out));
            }
        });
    });
}

fn exceptions(verdict: &PolicyVerdict, out: &mut MarkupWriter) {
    let count = counted(verdict.exceptions.len(), "comparison");
    out.leaf("summary", &[], &format!("Where not, and why: {count}"));
    out.element("ul", &[("class", "cases")], |out| {
        for it in &verdict.exceptions {
            out.element("li", &[], |out| {
                let window = super::table::window(it.window, it.window_percent);
                out.leaf("b", &[], &format!("{} · {window} · {}", it.recording, it.peer));
                out.leaf("span", &[], &prose(&format!(" {}: {}", it.standing.as_str(), it.why)));
            });
        }
    });
}

fn goals(goals: &[GoalResult], out: &mut MarkupWriter) {
    paragraph(
        out,
        "note",
        "The median, and how many of the sessions in how many windows meet the goal by themselves.",
    );
    let heads = PolicyGoal::ALL.map(|it| prose(&format!("{} {}", it.as_str(), it.format_limit())));
    let mut head = vec!["prices", "sessions"];
    head.extend(heads.iter().map(String::as_str));
    tables::table(out, &head, 2, |out| {
        for results in goals.chunks(PolicyGoal::ALL.len()) {
            out.element("tr", &[], |out| {
                // Each chunk has the same prices and scope, one result for each goal.
                out.leaf("th", &[("scope", "row")], &results[0].prices);
                let scope = &results[0].scope;
                let origin = tables::origin(scope.synthetic);
                let which = scope.group.as_ref().map_or(origin.to_owned(), |it| format!("{it} ({origin})"));
                out.leaf("td", &[("class", "word")], &which);
                for result in results {
                    goal(result, out);
                }
            });
        }
    });
}

fn goal(result: &GoalResult, out: &mut MarkupWriter) {
    let (class, state) = match result.met {
        Some(true) => ("yes", "✓ met"),
        Some(false) => ("no", "✗ not met"),
        None => ("unknown", "not measured"),
    };
    let value = result.measured.map_or_else(String::new, |it| it.to_string());
    out.element("td", &[("data-v", &value)], |out| {
        out.leaf("b", &[("class", class)], state);
        out.text(&format!(" {} ", or_none(result.measured, |it| prose(&percent_in_sentence(it)))));
        out.leaf("small", &[], &format!("{} of {}", result.cells_met, result.cells));
    });
}

/// Appends the first price table, and the others folded.
fn beside(report: &ReplayReport, out: &mut MarkupWriter) {
    let subject = report.header.subject().unwrap_or_default();
    paragraph(
        out,
        "note",
        &format!(
            "How often {subject} is ahead: it costs less and has as much or more of what was needed later in view. A comparison is one session in one window."
        ),
    );
    let first = report.verdicts.first().map(|it| it.prices.as_str());
    let (leading, others): (Vec<&PolicyVerdict>, Vec<&PolicyVerdict>) =
        report.verdicts.iter().partition(|it| Some(it.prices.as_str()) == first);
    scores(&leading, out);
    if !others.is_empty() {
        out.element("details", &[], |out| {
            out.leaf("summary", &[], "At the other prices");
            scores(&others, out);
        });
    }
}

/// Appends a row for each rival. Absent standings have no column.
fn scores(verdicts: &[&PolicyVerdict], out: &mut MarkupWriter) {
    let peers = verdicts.iter().flat_map(|it| &it.peers);
    let columns = (0..RivalStanding::ALL.len())
        // The first column, the wins, is shown also if it is empty: that is the news.
        .filter(|index| *index == 0 || peers.clone().any(|peer| peer.counts[*index] > 0));
    let columns: Vec<usize> = columns.collect();
    let mut head = vec!["prices", "sessions", "rival", "cost, % of rival's", "comparisons"];
    head.extend(columns.iter().map(|it| RivalStanding::ALL[*it].as_str()));
    tables::table(out, &head, 3, |out| {
        for verdict in verdicts {
            for peer in &verdict.peers {
                out.element("tr", &[], |out| {
                    out.leaf("th", &[("scope", "row")], &verdict.prices);
                    out.leaf("td", &[("class", "word")], tables::origin(verdict.scope.synthetic));
                    out.leaf("td", &[("class", "word")], &peer.peer);
                    out.leaf("td", &[], &or_none(peer.cost_of_peer, percent));
                    out.leaf("td", &[], &peer.comparisons.to_string());
                    for column in &columns {
                        let count = peer.counts[*column].to_string();
                        out.leaf("td", &[("data-v", &count)], if count == "0" { NONE } else { &count });
                    }
                });
            }
        }
    });
}

/// Appends the largest sessions at the first price table, each in the middle one of its windows.
fn contexts(report: &ReplayReport, cells: &[ComparisonCell<'_>], out: &mut MarkupWriter) {
    let shown = chosen(cells);
    section(out, "Context size per call", |out| {
        paragraph(
            out,
            "note",
            "What each policy would have sent before each model call, on the same axes. ▴ under the line: the view was shortened for this call. Dashed: the window. Faint: append-only. Where a view was shortened very often there are no marks.",
        );
        for (index, cell) in shown.iter().enumerate() {
            let any = cell.any();
            let synthetic = if any.synthetic { " · SYNTHETIC" } else { "" };
            let window = super::table::window(any.window, any.window_percent);
            let title = format!("{}{synthetic} · {window} · {} prices", any.recording, any.prices);
            let draw =
                |out: &mut MarkupWriter| context::draw(out, &report.header, cell, &format!("c{index}"));
            if index == 0 {
                out.leaf("h3", &[], &prose(&title));
                draw(out);
            } else {
                out.element("details", &[], |out| {
                    out.leaf("summary", &[], &prose(&title));
                    draw(out);
                });
            }
        }
        let recordings = recordings(cells);
        if recordings > shown.len() {
            paragraph(
                out,
                "note",
                &format!(
                    "The {} largest of {recordings} sessions are drawn; --json has the course of all.",
                    shown.len()
                ),
            );
        }
    });
}

fn chosen<'c, 'a>(cells: &'c [ComparisonCell<'a>]) -> Vec<&'c ComparisonCell<'a>> {
    let first = cells.first().map(|it| it.any().prices.as_str());
    let mut by_recording: Vec<Vec<&ComparisonCell<'_>>> = Vec::new();
    for cell in cells.iter().filter(|it| Some(it.any().prices.as_str()) == first) {
        match by_recording.last_mut() {
            Some(last) if has_same_recording(last[0], cell) => last.push(cell),
            _ => by_recording.push(vec![cell]),
        }
    }
    let mut shown: Vec<&ComparisonCell<'_>> = by_recording.iter().map(|it| it[it.len() / 2]).collect();
    // Recordings of agents come before synthetic ones, then large ones first.
    shown.sort_by_key(|it| {
        let peak_tokens = it.outcomes().iter().map(|outcome| outcome.peak_tokens).max().unwrap_or(0);
        (it.any().synthetic, std::cmp::Reverse(peak_tokens))
    });
    shown.truncate(1 + MORE_SESSIONS);
    shown
}

fn has_same_recording(one: &ComparisonCell<'_>, other: &ComparisonCell<'_>) -> bool {
    let (one, other) = (one.any(), other.any());
    one.group == other.group && one.recording == other.recording
}

fn recordings(cells: &[ComparisonCell<'_>]) -> usize {
    let mut names: Vec<_> = cells.iter().map(|it| (&it.any().group, &it.any().recording)).collect();
    // `dedup` only removes neighbours.
    names.sort();
    names.dedup();
    names.len()
}

fn recall(report: &ReplayReport, cells: &[ComparisonCell<'_>], out: &mut MarkupWriter) {
    let mut charts = Vec::new();
    for prices in summary::prices(cells) {
        for scope in summary::whole_scopes(cells) {
            let points = scatter::points(&report.header, cells, prices, &scope);
            if !points.is_empty() {
                let name = if scope.synthetic {
                    format!("{prices} · synthetic sessions")
                } else {
                    prices.to_owned()
                };
                charts.push((name, points));
            }
        }
    }
    if charts.is_empty() {
        return;
    }
    // One extent for all charts, so that they can be compared at a glance.
    let extent = scatter::ScatterExtent::of(charts.iter().flat_map(|(_, points)| points));
    section(out, "Cost against needed-later recall", |out| {
        paragraph(
            out,
            "note",
            "Medians, with the middle half of the sessions as thin lines. Filled: in view when it was needed; hollow above it: in view or found by recall. The stair is the frontier: nothing replayed is both cheaper and better than what stands on it. Top left is best. With a star: most replays had requests that left too little of the window for the answer; they do not count for the frontier.",
        );
        out.element("div", &[("class", "scatters")], |out| {
            for (index, (name, points)) in charts.iter().enumerate() {
                out.element("figure", &[], |out| {
                    out.leaf("figcaption", &[], name);
                    scatter::draw(out, points, extent, name, &format!("s{index}"));
                });
            }
        });
    });
}

fn reading(report: &ReplayReport, out: &mut MarkupWriter) {
    paragraph(out, "strong", NOT_COUNTERFACTUAL);
    paragraph(
        out,
        "",
        "Needed later are the identifiers, paths, numbers and error lines of earlier messages that the recorded agent really used again. At that moment each was in view, or not in view but among the top results of a recall with a query made only from what the agent had then, or lost. Lost means not found by that one search: the session still has it. Every recall is charged as a model call.",
    );
    paragraph(
        out,
        "",
        "The best rival is the one that costs least in the same session, window and prices; of those whose requests all fit the window, if there are any. Append-only never drops anything: where it outgrows the window its figures are what a larger window would have cost.",
    );
    let header = &report.header;
    fold(out, &format!("Assumptions: {}", header.assumptions.len()), |out| {
        out.element("ul", &[], |out| {
            for assumption in &header.assumptions {
                out.leaf("li", &[], &prose(assumption));
            }
        });
    });
    fold(out, "Prices for a million tokens, and where these come from", |out| {
        tables::prices(header, out);
        out.element("ul", &[], |out| {
            header.price_sources.iter().for_each(|it| out.leaf("li", &[], &prose(it)))
        });
    });
    fold(out, "Policies, their parameters and where these come from", |out| {
        for policy in &header.policies {
            let role = match policy.role {
                PolicyRole::Subject => "under test",
                PolicyRole::Ours => "ours",
                PolicyRole::Baseline => "what costs are measured by",
                PolicyRole::Peer => "a model of another program",
            };
            out.element("h4", &[], |out| {
                out.text(&policy.name);
                out.leaf("small", &[], &format!(" {role}"));
            });
            out.element("ul", &[], |out| {
                for source in &policy.sources {
                    out.leaf("li", &[], &prose(source));
                }
                if policy.sources.is_empty() {
                    out.leaf("li", &[], "No source is given.");
                }
            });
        }
    });
}

fn fold(out: &mut MarkupWriter, title: &str, inside: impl FnOnce(&mut MarkupWriter)) {
    out.element("details", &[("class", "printed")], |out| {
        out.leaf("summary", &[], title);
        inside(out);
    });
}

fn footer(report: &ReplayReport, out: &mut MarkupWriter) {
    let header = &report.header;
    out.element("dl", &[], |out| {
        let mut fact = |name: &str, value: &str, class: &str| {
            out.leaf("dt", &[], name);
            out.element("dd", &[], |out| match class {
                "code" => out.leaf("code", &[], value),
                _ => out.text(value),
            });
        };
        fact("command", &header.command, "code");
        fact("version", &header.version, "");
        for it in &header.generated_by {
            fact(&it.name, &it.value, "");
        }
    });
}

/// Returns the name of a window, with its tokens if the window was chosen as a share.
fn window_of(cell: &ComparisonCell<'_>) -> String {
    match WindowChoice::of(cell.any()) {
        WindowChoice::PercentOfPeak(percent) => format!("{percent}\u{a0}% {}", tokens(cell.any().window)),
        WindowChoice::Tokens(number) => tokens(number),
    }
}

#[cfg(test)]
mod tests;
