//! The context window as a table of plain text, fit for an issue.

use longhaul::context::ContextReport;
use longhaul_core::budget::StrategyTrigger;
use longhaul_core::event::{EditKind, EditReason};
use longhaul_core::run::Run;
use serde_json::Value;

use super::human::{count, grouped, percent, short};
use super::text::visible;

/// Columns of a label. A row of figures fits a terminal of 45 columns.
const LABEL: usize = 20;

/// The facts of the planner that the table shows beside the report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PlannerSummary {
    /// The planner's trigger, in tokens by its own count: with the error of an estimate on top.
    trigger: u64,
    /// Compactions that are not undone.
    compactions: u64,
    /// The trigger that the configuration asks for, if the window had room for it.
    asked: u64,
    /// `true` if the planner never acts.
    is_off: bool,
    /// The trigger of the newest edit that the fill of the window has caused, in tokens, if the table is made from the
    /// configuration. The session may have had other settings.
    acted_at: Option<u64>,
    /// `true` if the settings are those of the configured agent, and the session's own are not known.
    is_by_configuration: bool,
}

impl PlannerSummary {
    /// Returns the planner's facts of a session's loop.
    pub(crate) fn of(run: &Run) -> Self {
        let compactions = run
            .history()
            .edits()
            .iter()
            .filter(|state| state.active && state.edit.kind == EditKind::Compaction)
            .count() as u64;
        let policy = &run.settings().policy;
        let asked = match policy.trigger.unwrap_or_else(|| policy.strategy.trigger()) {
            StrategyTrigger::Share(share) => (run.budget().window as f64 * share) as u64,
            StrategyTrigger::Tokens(tokens) => tokens,
            // These have no number that a person could have configured.
            _ => 0,
        };
        Self {
            trigger: run.threshold().tokens,
            compactions,
            asked,
            is_off: !policy.enabled,
            acted_at: None,
            is_by_configuration: false,
        }
    }

    /// Returns the planner's facts of a session that is read from its log, under the settings of the configured agent.
    pub(crate) fn of_stored(run: &Run) -> Self {
        let mut edits = run.history().edits().iter().rev();
        let automatic = edits.find(|state| state.edit.reason == EditReason::TokenLimit);
        let acted_at = automatic.map(|state| state.edit.trigger_tokens);
        Self { acted_at, is_by_configuration: true, ..Self::of(run) }
    }
}

/// Returns the whole report.
pub(crate) fn table(report: &ContextReport, beside: &PlannerSummary, model: &str) -> String {
    // A window of 0 tokens would make every share infinite.
    let mut table = ContextTable { window: report.window.max(1), beside: *beside, text: String::new() };
    table.head(report, model);
    // Providers report only the total, so every part is an estimate.
    table.row("system prompt", report.system_prompt, "~");
    let tools: u64 = report.tools.iter().map(|share| share.tokens).sum();
    table.row("tools", tools, "~");
    // With one source the sum says everything.
    for share in report.tools.iter().filter(|_| report.tools.len() > 1) {
        table.row(&format!("  {}", visible(&share.source)), share.tokens, "~");
    }
    table.row("messages", report.messages.total, "~");
    let parts = [
        ("  text", report.messages.text),
        ("  tool results", report.messages.tool_results),
        ("  reasoning", report.messages.reasoning),
        ("  media", report.messages.media),
    ];
    for (label, tokens) in parts.into_iter().filter(|(_, tokens)| *tokens > 0) {
        table.row(label, tokens, "~");
    }
    if report.framing != 0 {
        table.signed("framing", report.framing);
    }
    let is_estimate = report.expected_error > 0.0 || report.basis.new_messages_estimate > 0;
    table.row("total", report.total, if is_estimate { "~" } else { "" });
    table.row("output reserve", report.output_reserve, "");
    table.row("free", report.free_space, "");
    table.row("window", report.window, "");
    table.text.push('\n');
    table.thresholds(report);
    table.basis(report);
    table.history(report);
    table.text
}

struct ContextTable {
    window: u64,
    beside: PlannerSummary,
    text: String,
}

impl ContextTable {
    fn head(&mut self, report: &ContextReport, model: &str) {
        let error = match report.expected_error * 100.0 {
            // After an undo the size is known from an earlier report, but no report is of this view.
            error if error < 0.05 && report.basis.new_messages_estimate > 0 => "estimated".to_owned(),
            error if error < 0.05 => "as reported by the provider".to_owned(),
            error => format!("estimated, error up to {} %", percent(error)),
        };
        self.text.push_str(&format!(
            "context of {} · {} of {} tokens · {} % · {error}\n\n",
            visible(model),
            short(report.total),
            short(report.window),
            percent(report.percent),
        ));
    }

    fn row(&mut self, label: &str, tokens: u64, mark: &str) {
        let share = percent(tokens as f64 * 100.0 / self.window as f64);
        let tokens = format!("{mark}{}", grouped(tokens));
        self.text.push_str(&format!("  {label:<LABEL$}{tokens:>11}{share:>6} %\n"));
    }

    /// Appends a row whose tokens may be negative.
    fn signed(&mut self, label: &str, tokens: i64) {
        let share = percent(tokens as f64 * 100.0 / self.window as f64);
        // The framing is what the total has beside the parts, and an estimate may put the parts above the total.
        let sign = if tokens < 0 { "−" } else { "" };
        let tokens = format!("{sign}{}", grouped(tokens.unsigned_abs()));
        self.text.push_str(&format!("  {label:<LABEL$}{tokens:>11}{share:>6} %\n"));
    }

    fn fact(&mut self, label: &str, fact: &str) {
        self.text.push_str(&format!("  {label:<LABEL$}{fact}\n"));
    }

    fn thresholds(&mut self, report: &ContextReport) {
        let source = match report.window_source.as_str() {
            "assumed" => "assumed; set model.context_window to declare it",
            source => source,
        };
        self.fact("window from", source);
        if self.beside.is_off {
            let how = "`/compact` in a chat and `longhaul compact` make room";
            self.fact("acts at", &format!("no point: compaction is off (context.enabled); {how}"));
            return self.settings();
        }
        if let Some(trigger) = report.thresholds.first() {
            self.fact("acts at", &format!("{} · {}", self.point(self.beside.trigger), trigger.name));
            if self.beside.asked > self.beside.trigger {
                let asked = self.point(self.beside.asked);
                self.fact("  limited by", &format!("the window: {asked} is configured"));
            }
            if trigger.tokens < self.beside.trigger {
                let error = percent(report.expected_error * 100.0);
                let what = format!("{}, its error of {error} % counted in", self.point(trigger.tokens));
                self.fact("  by this estimate", &what);
            }
        }
        self.settings();
    }

    /// Appends the origin of the settings, and the point where the session has acted if that is another one.
    fn settings(&mut self) {
        if self.beside.is_by_configuration {
            self.fact("  settings of", "the agent that is configured now");
        }
        if let Some(tokens) = self.beside.acted_at.filter(|tokens| *tokens != self.beside.trigger) {
            self.fact("  last acted at", &format!("{}, by the session's log", grouped(tokens)));
        }
    }

    /// Formats a point of the window.
    fn point(&self, tokens: u64) -> String {
        format!("{} ({} %)", grouped(tokens), percent(tokens as f64 * 100.0 / self.window as f64))
    }

    fn basis(&mut self, report: &ContextReport) {
        let basis = &report.basis;
        let reported = match (basis.last_input_tokens, basis.last_output_tokens) {
            (Some(input), output) => {
                format!("{} in, {} out", grouped(input), grouped(output.unwrap_or(0)))
            }
            (None, _) => "nothing of this view yet".to_owned(),
        };
        self.fact("total is", &report.source);
        self.fact("parts counted by", &visible(&report.counter));
        self.fact("last call reported", &reported);
        let since = if basis.last_input_tokens.is_some() { "estimated since" } else { "estimated" };
        self.fact(since, &format!("~{}", grouped(basis.new_messages_estimate)));
        if let Some(error) = basis.last_error_percent {
            self.fact("last estimate was", &format!("{error:+.1} % off"));
        }
    }

    fn history(&mut self, report: &ContextReport) {
        if report.deferred_tools > 0 {
            self.fact("found by search", &count(report.deferred_tools, "tool"));
        }
        if report.pruned > 0 {
            self.fact("pruned", &count(report.pruned, "old tool result"));
        }
        let (active, all) = (self.beside.compactions, report.compaction_count);
        let undone = match all.saturating_sub(active) {
            0 => String::new(),
            undone => format!("; {undone} more undone"),
        };
        if active > 0 {
            let compactions = count(active, "compaction");
            let messages = count(report.compacted, "message");
            self.fact("compacted", &format!("{messages} in {compactions}{undone}"));
        } else if all > 0 {
            self.fact("compacted", &format!("nothing: {} undone", count(all, "compaction")));
        }
        if all > 0 {
            self.fact("  why", "`/compactions` in a chat, `longhaul compactions`");
        }
        let all = format!(
            "{} in, {} out",
            short(used_tokens(report, "inputTokens")),
            short(used_tokens(report, "outputTokens"))
        );
        self.fact("all calls together", &all);
    }
}

fn used_tokens(report: &ContextReport, key: &str) -> u64 {
    report.token_usage.get(key).and_then(Value::as_u64).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul::context::{ContextBasis, ContextThreshold, MessageTokens, ToolTokens};

    #[test]
    fn the_table_is_plain_and_adds_up() {
        let report = ContextReport {
            total: 52_100,
            window: 200_000,
            percent: 26.05,
            system_prompt: 412,
            tools: vec![ToolTokens { source: "builtin".into(), tokens: 2_310 }],
            messages: MessageTokens {
                total: 49_378,
                text: 12_000,
                tool_results: 37_378,
                reasoning: 0,
                media: 0,
            },
            pruned: 3,
            compacted: 41,
            deferred_tools: 120,
            output_reserve: 4_096,
            free_space: 143_804,
            thresholds: vec![ContextThreshold { name: "reactive-overflow".into(), tokens: 194_735 }],
            basis: ContextBasis {
                last_input_tokens: Some(51_000),
                last_output_tokens: Some(200),
                new_messages_estimate: 900,
                last_error_percent: Some(-0.6),
            },
            token_usage: serde_json::json!({ "inputTokens": 210_000, "outputTokens": 12_000 }),
            compaction_count: 2,
            framing: 0,
            source: "reported + estimated".into(),
            counter: "structured estimate".into(),
            window_source: "server".into(),
            expected_error: 0.006,
        };
        let expected = "\
context of qwen3-30b · 52.1K of 200K tokens · 26 % · estimated, error up to 0.6 %

  system prompt              ~412   0.2 %
  tools                    ~2,310   1.2 %
  messages                ~49,378    25 %
    text                  ~12,000   6.0 %
    tool results          ~37,378    19 %
  total                   ~52,100    26 %
  output reserve            4,096   2.0 %
  free                    143,804    72 %
  window                  200,000   100 %

  window from         server
  acts at             195,904 (98 %) · reactive-overflow
    by this estimate  194,735 (97 %), its error of 0.6 % counted in
  total is            reported + estimated
  parts counted by    structured estimate
  last call reported  51,000 in, 200 out
  estimated since     ~900
  last estimate was   -0.6 % off
  found by search     120 tools
  pruned              3 old tool results
  compacted           41 messages in 2 compactions
    why               `/compactions` in a chat, `longhaul compactions`
  all calls together  210K in, 12K out
";
        let beside = PlannerSummary { trigger: 195_904, compactions: 2, ..PlannerSummary::default() };
        assert_eq!(table(&report, &beside, "qwen3-30b"), expected);
        let exact = ContextReport {
            expected_error: 0.0,
            thresholds: vec![ContextThreshold { name: "reactive-overflow".into(), tokens: 195_904 }],
            ..report.clone()
        };
        assert!(!table(&exact, &beside, "m").contains("by this estimate"), "there is one figure");
        let head = head_with_estimate(&exact, &beside, 0);
        assert!(head.ends_with(" · as reported by the provider"), "{head}");
        let head = head_with_estimate(&exact, &beside, 52_100);
        assert!(head.ends_with(" · estimated"), "as after an undo: {head}");
        let off = table(&report, &PlannerSummary { is_off: true, ..beside }, "m");
        assert!(
            off.contains("acts at             no point: compaction is off") && !off.contains("98 %"),
            "{off}"
        );
        let stored = PlannerSummary { is_by_configuration: true, acted_at: Some(8_000), ..beside };
        let other = table(&report, &stored, "m");
        assert!(other.contains("\n    settings of       the agent that is configured now\n"), "{other}");
        assert!(other.contains("\n    last acted at     8,000, by the session's log\n"), "{other}");
        let same = table(&report, &PlannerSummary { acted_at: Some(beside.trigger), ..stored }, "m");
        assert!(same.contains("settings of") && !same.contains("last acted at"), "{same}");
        let limited = table(&report, &PlannerSummary { asked: 250_000, ..beside }, "m");
        assert!(limited.contains("limited by        the window: 250,000 (125 %) is configured"), "{limited}");
        for (compactions, line) in [
            (1, "compacted           41 messages in 1 compaction; 1 more undone"),
            (0, "compacted           nothing: 2 compactions undone"),
        ] {
            let text = table(&report, &PlannerSummary { compactions, ..beside }, "m");
            let found = text.lines().find(|line| line.contains("compacted")).unwrap();
            assert_eq!(found.trim(), line);
        }
    }

    /// Returns the first line of the table for a report with another number of estimated tokens.
    fn head_with_estimate(report: &ContextReport, beside: &PlannerSummary, estimate: u64) -> String {
        let basis = ContextBasis { new_messages_estimate: estimate, ..report.basis.clone() };
        let text = table(&ContextReport { basis, ..report.clone() }, beside, "m");
        text.lines().next().unwrap().to_owned()
    }
}
