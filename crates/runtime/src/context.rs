//! The display of the context window: the same JSON for `/context`, the API, the event and the page.

use longhaul_core::budget::ASSUMED_WINDOW;
use longhaul_core::estimate::CountAccuracy;
use longhaul_core::event::{EditKind, ViewOperation};
use longhaul_core::history::History;
use longhaul_core::meter::MeterReading;
use longhaul_core::run::Run;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::agent::Agent;
use crate::api_events::token_usage;

/// The fill of the window, its parts, and the basis of the figures. All figures are tokens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContextReport {
    /// The next request's input.
    pub total: u64,
    /// The context window.
    pub window: u64,
    /// `total` as a share of the window, in percent.
    pub percent: f64,
    /// System prompt.
    pub system_prompt: u64,
    /// Tool schemas, by source.
    pub tools: Vec<ToolTokens>,
    /// The conversation.
    pub messages: MessageTokens,
    /// The difference between `total` and the sum of system prompt, tools and messages, with an exact tokenizer. Else
    /// 0: the conversation is then the rest of `total`.
    pub framing: i64,
    /// Tool results shown as placeholders.
    pub pruned: u64,
    /// Messages shown as summaries or notes.
    pub compacted: u64,
    /// Tools known but not sent.
    pub deferred_tools: u64,
    /// The tokens kept free for the answer.
    pub output_reserve: u64,
    /// `max(0, window − total − outputReserve)`.
    pub free_space: u64,
    /// The points at which the planner acts, in `total`'s scale (divided by 1 + margin).
    pub thresholds: Vec<ContextThreshold>,
    /// The basis of the total.
    pub basis: ContextBasis,
    /// Cumulative: for display and cost only.
    pub token_usage: Value,
    /// Compactions so far.
    pub compaction_count: u64,
    /// The basis of `total` in words: `reported`, `reported + estimated`, or the way of counting.
    pub source: String,
    /// The counter of the parts, for example `o200k_base` or `structured estimate`.
    pub counter: String,
    /// The source of the window: `declared`, `server`, `learned`, `catalogue`, `the newest call`, `assumed`.
    pub window_source: String,
    /// Expected error of `total`, as a share.
    pub expected_error: f64,
}

/// Tool schemas of a source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolTokens {
    /// `builtin`, or an MCP server.
    pub source: String,
    /// The tokens of the source's schemas.
    pub tokens: u64,
}

/// The conversation by kind of content.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MessageTokens {
    /// The whole conversation.
    pub total: u64,
    /// Text and framing.
    pub text: u64,
    /// Tool calls and results.
    pub tool_results: u64,
    /// Reasoning sent back to the provider.
    pub reasoning: u64,
    /// Pictures and files.
    pub media: u64,
}

/// A point where something happens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContextThreshold {
    /// The name of the strategy or limit.
    pub name: String,
    /// The point, in tokens.
    pub tokens: u64,
}

/// The basis of the total.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContextBasis {
    /// Input of the newest call as reported by the provider. `None` without a report, or if the view was pruned,
    /// compacted or restored since: a report of another view is no part of the total.
    pub last_input_tokens: Option<u64>,
    /// Output of the newest call, as far as sent back; `None` together with `last_input_tokens`.
    pub last_output_tokens: Option<u64>,
    /// The estimate of the messages since the newest call; the whole total without a report.
    pub new_messages_estimate: u64,
    /// Signed error of the newest estimate, in percent of the actual.
    pub last_error_percent: Option<f64>,
}

/// The prefix of every request, in estimated tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[doc(hidden)]
pub struct RequestPrefixTokens {
    /// The system prompt.
    pub system: u64,
    /// The tools, by source.
    pub tools: Vec<ToolTokens>,
}

/// Reads the display of a session's loop under an agent.
pub(crate) fn of(run: &Run, agent: &Agent) -> ContextReport {
    let known = agent.limits.window.or(run.history().window());
    let source = match (agent.limits.window, run.history().window()) {
        _ if run.budget().window != known.unwrap_or(ASSUMED_WINDOW) => "learned",
        (Some(_), _) => agent.limits.source.as_str(),
        (None, Some(_)) => "the newest call",
        (None, None) => "assumed",
    };
    let deferred_tools = run.settings().fixed.deferred.as_ref().map_or(0, |tools| tools.len() as u64);
    ContextReport { deferred_tools, ..report(run, &agent.fixed_share_for(run.history()), source) }
}

/// Reads the display from a session's loop. Parts add up to `total`.
#[doc(hidden)]
pub fn report(run: &Run, fixed: &RequestPrefixTokens, window_source: &str) -> ContextReport {
    let (history, budget, reading) = (run.history(), run.budget(), run.meter());
    let tools: u64 = fixed.tools.iter().map(|share| share.tokens).sum();
    let fits = fixed.system + tools <= reading.total;
    let (system_prompt, tools) = if fits {
        (fixed.system, fixed.tools.clone())
    } else {
        tracing::warn!(
            total = reading.total,
            fixed = fixed.system + tools,
            "the total is less than system prompt and tools; both are scaled to it"
        );
        scaled(fixed, reading.total)
    };
    let left = reading.total - system_prompt - tools.iter().map(|share| share.tokens).sum::<u64>();
    let counter = history.counter();
    // A tokenizer that the server's reports contradict is not the model's own, whatever its name says.
    let kind = if history.is_count_contradicted() { CountAccuracy::Estimated } else { counter.kind() };
    let exact = (kind == CountAccuracy::Exact && fits).then(|| history.view_tokens());
    let in_messages = exact.unwrap_or(left);
    let trigger = run.threshold().tokens;
    ContextReport {
        total: reading.total,
        window: budget.window,
        percent: reading.total as f64 * 100.0 / budget.window.max(1) as f64,
        system_prompt,
        tools,
        messages: message_share(run, in_messages),
        framing: left as i64 - in_messages as i64,
        pruned: cleared(run),
        compacted: compacted(run),
        deferred_tools: 0,
        output_reserve: budget.reserve,
        free_space: budget.window.saturating_sub(reading.total.saturating_add(budget.reserve)),
        thresholds: vec![
            ContextThreshold {
                name: run.settings().policy.strategy.name().to_owned(),
                tokens: unscale(trigger, reading.margin),
            },
            ContextThreshold { name: "usable".to_owned(), tokens: unscale(budget.usable, reading.margin) },
        ],
        basis: basis(history, &reading),
        token_usage: token_usage(history.cumulative_usage()),
        compaction_count: history.compactions(),
        source: if is_edited_since_call(history) { edited_source(kind) } else { source(&reading, kind) },
        counter: counter.name().to_owned(),
        window_source: window_source.to_owned(),
        expected_error: reading.margin,
    }
}

/// Returns whether the view was pruned, compacted or restored since the newest call. Until the next call no usage
/// report counts.
fn is_edited_since_call(history: &History) -> bool {
    history.edited_tokens().is_some() && history.calls_since_edit() == 0
}

/// Returns the parts of a total, which add up to the total.
fn basis(history: &History, reading: &MeterReading) -> ContextBasis {
    let counted = history
        .anchor()
        .filter(|anchor| !is_edited_since_call(history) && anchor.input + anchor.output == reading.reported);
    ContextBasis {
        last_input_tokens: counted.map(|anchor| anchor.input),
        last_output_tokens: counted.map(|anchor| anchor.output),
        new_messages_estimate: counted.map_or(reading.total, |_| reading.estimated),
        last_error_percent: history.last_error_per_mille().map(|error| error as f64 / 10.0),
    }
}

/// Returns the basis of the total of an edited view in words: the last report and an estimated difference. That is no
/// exact count, whatever the tokenizer.
fn edited_source(kind: CountAccuracy) -> String {
    kind.max(CountAccuracy::Estimated).to_string()
}

/// Returns the basis of a total in words.
fn source(reading: &MeterReading, kind: CountAccuracy) -> String {
    match (reading.reported, reading.estimated) {
        (0, _) => kind.to_string(),
        (_, 0) => "reported".to_owned(),
        _ => format!("reported + {kind}"),
    }
}

/// Returns the least total with a bound of `tokens` or more.
fn unscale(tokens: u64, margin: f64) -> u64 {
    // The bound rounds, so the division gives the point only to within a token or two.
    let near = (tokens as f64 / (1.0 + margin)) as u64;
    (near.saturating_sub(2)..=near.saturating_add(2))
        .find(|total| {
            MeterReading { total: *total, reported: 0, estimated: *total, margin }.bound() >= tokens
        })
        .unwrap_or(near)
}

/// Returns the conversation's parts, scaled to the total (largest remainder), since only the total was counted.
fn message_share(run: &Run, total: u64) -> MessageTokens {
    let sums = run.history().breakdown();
    let [text, calls, results, reasoning, media] = ["text", "toolCalls", "toolResults", "reasoning", "media"]
        .map(|part| sums.get(part).copied().unwrap_or(0));
    let parts = [text, calls + results, reasoning, media];
    let shares = apportion(&parts, total);
    MessageTokens { total, text: shares[0], tool_results: shares[1], reasoning: shares[2], media: shares[3] }
}

fn scaled(fixed: &RequestPrefixTokens, total: u64) -> (u64, Vec<ToolTokens>) {
    let mut parts = vec![fixed.system];
    parts.extend(fixed.tools.iter().map(|share| share.tokens));
    let shares = apportion(&parts, total);
    let tools = fixed.tools.iter().zip(&shares[1..]);
    let tools =
        tools.map(|(share, tokens)| ToolTokens { source: share.source.clone(), tokens: *tokens }).collect();
    (shares[0], tools)
}

/// Splits `total` in the proportion of `parts` by the largest remainder; everything to the first part if all
/// are zero.
fn apportion(parts: &[u64], total: u64) -> Vec<u64> {
    // Products of two token counts may exceed 64 bits.
    let sum: u128 = parts.iter().map(|part| u128::from(*part)).sum();
    if sum == 0 {
        let mut shares = vec![0; parts.len()];
        // There is nothing to divide by. The first part takes the total, so that the parts still add up.
        shares[0] = total;
        return shares;
    }
    let exact: Vec<u128> = parts.iter().map(|part| u128::from(*part) * u128::from(total)).collect();
    let mut shares: Vec<u64> = exact.iter().map(|exact| (exact / sum) as u64).collect();
    let mut order: Vec<usize> = (0..parts.len()).collect();
    order.sort_by_key(|at| std::cmp::Reverse(exact[*at] % sum));
    let rest = total - shares.iter().sum::<u64>();
    for at in order.into_iter().cycle().take(rest as usize) {
        shares[at] += 1;
    }
    shares
}

fn cleared(run: &Run) -> u64 {
    use longhaul_core::history::ViewItemKind;
    let view = run.history().view();
    view.iter().filter(|item| matches!(item.kind, ViewItemKind::Result { cleared: Some(_), .. })).count()
        as u64
}

fn compacted(run: &Run) -> u64 {
    let edits = run.history().edits().iter();
    let active = edits.filter(|state| state.active && state.edit.kind == EditKind::Compaction);
    let ops = active.flat_map(|state| &state.edit.ops);
    // A later compaction covers the summaries of earlier ones: each message counts once.
    let gone: Vec<_> =
        ops.filter(|op| !matches!(op, ViewOperation::Placeholder { .. })).map(ViewOperation::range).collect();
    let entries = run.history().entries().iter();
    entries.filter(|entry| gone.iter().any(|range| range.contains(entry.seq))).count() as u64
}

/// Returns the short form in the `context:usage` event.
pub(crate) fn usage(run: &Run) -> Value {
    let (budget, reading) = (run.budget(), run.meter());
    json!({
        "total": reading.total,
        "window": budget.window,
        // A window of 0 can be declared, and must not become a number that JSON lacks.
        "percent": reading.total as f64 * 100.0 / budget.window.max(1) as f64,
        "outputReserve": budget.reserve,
        "freeSpace": budget.window.saturating_sub(reading.total.saturating_add(budget.reserve)),
        "expectedError": reading.margin,
        "estimated": basis(run.history(), &reading).new_messages_estimate,
        "compactionCount": run.history().compactions(),
    })
}

#[cfg(test)]
mod tests {
    use longhaul_core::estimate::CountAccuracy;
    use longhaul_core::meter::MeterReading;

    use super::{apportion, edited_source, unscale};

    #[test]
    fn the_total_of_an_edited_view_is_never_called_exact() {
        let kinds = [CountAccuracy::Exact, CountAccuracy::Estimated, CountAccuracy::Characters];
        assert_eq!(kinds.map(edited_source), ["estimated", "estimated", "characters"]);
    }

    #[test]
    fn a_threshold_is_shown_where_the_planner_acts() {
        for margin in [0.0, 0.01, 0.035, 0.1, 0.123, 0.25, 0.3] {
            for tokens in (0..3_000).chain([99_999, 1_000_000, 1_000_001]) {
                let shown = unscale(tokens, margin);
                let bound = |total| MeterReading { total, reported: 0, estimated: total, margin }.bound();
                assert!(bound(shown) >= tokens, "{tokens} {margin}");
                assert!(shown == 0 || bound(shown - 1) < tokens, "{tokens} {margin}");
            }
        }
    }

    #[test]
    fn shares_add_up() {
        assert_eq!(apportion(&[1, 1, 1], 10).iter().sum::<u64>(), 10);
        assert_eq!(apportion(&[0, 0], 7), [7, 0]);
        assert_eq!(apportion(&[3, 1], 4), [3, 1]);
    }
}
