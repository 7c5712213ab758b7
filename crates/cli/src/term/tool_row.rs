//! A tool call in one line: its name, the argument that matters, how it ended, how long it took.

use std::time::Duration;

use serde_json::Value;

use super::human::{count, grouped, time};
use super::style::TextPainter;
use super::text::{fit, fit_end, one_line, visible, width};
use super::ui_event::{ToolCallInfo, ToolResultInfo};

/// The column of outcomes, if the text before them allows.
const OUTCOME_COLUMN: usize = 36;

/// The columns before a call's text: the indent and the mark.
const INDENT: usize = 4;

/// The minimum columns of a call's text beside its outcome. In a narrower place the outcome has a row of its own.
const LEAST_LABEL: usize = 12;

/// The maximum number of a failed call's lines that are shown.
const SHOWN_LINES: usize = 4;

/// The placeholder for a reason that a person did not give.
const NO_REASON: &str = "a person said no";

/// The maximum columns of the reason of a denial.
const REASON_COLUMNS: usize = 40;

/// The hint in the reason of a denial when no person could be asked.
pub(crate) const ALLOWED_BY_YES: &str = "can run this with --yes";

/// The arguments that matter, the most telling first.
const TELLING: [&str; 6] = ["command", "path", "handle", "query", "pattern", "url"];

/// Returns the tool and the argument that matters, in at most `columns`: `read lexer.rs`.
pub(crate) fn label(call: &ToolCallInfo, columns: usize) -> String {
    // A model's arguments may be no JSON. Then the tool's name stands alone.
    let arguments: Value = serde_json::from_str(&call.arguments).unwrap_or_default();
    let telling = TELLING.iter().find_map(|key| arguments[key].as_str());
    let argument = match call.tool.as_str() {
        // A search may have a path too, but the pattern tells which search it is.
        "grep" | "glob" => arguments["pattern"].as_str().or(telling),
        _ => telling.or_else(|| arguments.as_object()?.values().find_map(Value::as_str)),
    };
    let argument = one_line(argument.unwrap_or_default());
    let tool = fit(&visible(&call.tool), columns);
    let room = columns.saturating_sub(width(&tool) + 1);
    let is_path = arguments["path"].as_str().is_some_and(|path| path == argument);
    // The end of a path tells more than its beginning.
    let argument = if is_path { fit_end(&argument, room) } else { fit(&argument, room) };
    format!("{tool} {argument}").trim_end().to_owned()
}

/// Returns the row of a running call, in the layout that it has when the call has ended. Without room for both, the
/// call has precedence over the time.
pub(crate) fn running(call: &ToolCallInfo, elapsed: Duration, columns: usize, style: TextPainter) -> String {
    let elapsed = time(elapsed);
    let (label, behind) = match placed(call, &elapsed, columns) {
        Some((label, gap)) => (label, format!("{gap}{}", style.dim(&elapsed))),
        None => (label(call, columns.saturating_sub(INDENT)), String::new()),
    };
    format!("  {} {label}{behind}", style.accent("▸")).trim_end().to_owned()
}

/// Returns the call's text, and the space between it and the outcome; `None` if the outcome leaves too little room
/// for the call in one row.
fn placed(call: &ToolCallInfo, outcome: &str, columns: usize) -> Option<(String, String)> {
    let room = columns.saturating_sub(INDENT + 2 + width(outcome));
    if room < LEAST_LABEL {
        return None;
    }
    let label = label(call, room);
    let gap = OUTCOME_COLUMN.saturating_sub(INDENT + width(&label)).min(room - width(&label)) + 2;
    Some((label, " ".repeat(gap)))
}

/// Returns the row of a call that ended, and below it the first lines of one that failed.
pub(crate) fn row(
    call: &ToolCallInfo,
    ended: &ToolResultInfo,
    took: Duration,
    columns: usize,
    style: TextPainter,
) -> String {
    let failed = ended.status == "error";
    let outcome = [singular(&outcome(call, ended)), time(took)];
    // Short calls have no time to show.
    let outcome = outcome.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" · ");
    let (label, gap) = placed(call, &outcome, columns)
        .unwrap_or_else(|| (label(call, columns.saturating_sub(INDENT)), "\n      ".to_owned()));
    let mark = if failed { style.red("✗") } else { style.dim("▸") };
    let outcome = if failed { style.red(&outcome) } else { style.dim(&outcome) };
    let mut row = format!("  {mark} {label}{gap}{outcome}\n");
    if failed {
        for line in first_lines(&ended.text) {
            row.push_str(&format!("      {}\n", style.dim(&fit(&line, columns.saturating_sub(6)))));
        }
    }
    row
}

/// Returns the outcome of the call in a few words.
fn outcome(call: &ToolCallInfo, ended: &ToolResultInfo) -> String {
    // Tools put their note for the model in brackets on the last line.
    let last = ended.text.trim_end().lines().next_back().unwrap_or_default().trim();
    let bracketed = last.strip_prefix('[').and_then(|it| it.strip_suffix(']')).unwrap_or_default();
    match ended.status.as_str() {
        "cancelled" if ended.text.starts_with("[Not run: ") => {
            return match reason(&ended.text) {
                _ if ended.text.contains(ALLOWED_BY_YES) => "denied · --yes allows it".to_owned(),
                "" | NO_REASON => "denied".to_owned(),
                why => format!("denied: {}", fit(&one_line(why), REASON_COLUMNS)),
            };
        }
        "cancelled" => return "cancelled".to_owned(),
        "interrupted" => return "interrupted, outcome unknown".to_owned(),
        _ => {}
    }
    if let Some((omitted, total)) = ended.truncated {
        return format!(
            "{} of {} characters · rest kept",
            grouped(total - omitted.min(total)),
            grouped(total)
        );
    }
    if let Some(lines) = lines_read(bracketed) {
        return lines;
    }
    match (call.tool.as_str(), bracketed) {
        ("bash", ended_how) => command(ended_how, &ended.text),
        (_, "") => plain(ended),
        // A longer note is written for the model and does not fit beside the call.
        (_, note) if note.len() <= 48 => note.trim_end_matches('.').to_owned(),
        _ => plain(ended),
    }
}

/// Returns the reason that a call was not run.
fn reason(text: &str) -> &str {
    let rest = text.strip_prefix("[Not run: ").unwrap_or_default().trim_end();
    rest.strip_suffix(']').unwrap_or(rest)
}

/// Corrects a tool's plural: `1 match in 1 file` for `1 matches in 1 files`. Tools write for a model, which
/// does not mind.
fn singular(outcome: &str) -> String {
    let mut is_one = false;
    let words = outcome.split(' ').map(|word| {
        let (bare, comma) = word.strip_suffix(',').map_or((word, ""), |bare| (bare, ","));
        let is_counted = std::mem::replace(&mut is_one, word == "1");
        match bare {
            "entries" if is_counted => format!("entry{comma}"),
            "matches" if is_counted => format!("match{comma}"),
            "files" | "lines" | "bytes" if is_counted => format!("{}{comma}", bare.trim_end_matches('s')),
            _ => word.to_owned(),
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Returns the lines read, from the notes at the end of `read`'s output: `All 120 lines.` and `Lines 1 to
/// 2000 of 5310. …`.
fn lines_read(note: &str) -> Option<String> {
    let words: Vec<&str> = note.split([' ', ',', '.']).filter(|word| !word.is_empty()).collect();
    match words.as_slice() {
        ["All", lines, "lines"] => Some(count(number(lines)?, "line")),
        ["Lines", from, "to", to, "of", total, ..] => {
            let shown = (number(to)? + 1).saturating_sub(number(from)?);
            Some(format!("{} of {} lines", grouped(shown), grouped(number(total)?)))
        }
        ["Lines", from, "to", to, "the", "last", "of", total] => {
            let shown = (number(to)? + 1).saturating_sub(number(from)?);
            Some(format!("{} of {} lines", grouped(shown), grouped(number(total)?)))
        }
        _ => None,
    }
}

fn number(text: &str) -> Option<u64> {
    text.parse::<u64>().ok()
}

fn command(ended_how: &str, text: &str) -> String {
    match ended_how.strip_prefix("exit code ") {
        Some("0") if text.starts_with("(no output)") => "done".to_owned(),
        // The last line is the note about the exit code.
        Some("0") => count(text.trim_end().lines().count().saturating_sub(1) as u64, "line"),
        Some(code) => format!("exit {code}"),
        None if ended_how.starts_with("time limit") => "time limit reached".to_owned(),
        None if ended_how.is_empty() => "failed".to_owned(),
        None => ended_how.to_owned(),
    }
}

fn plain(ended: &ToolResultInfo) -> String {
    if ended.status == "error" {
        return "failed".to_owned();
    }
    let mut lines = ended.text.trim_end().lines();
    let first = lines.next().unwrap_or_default();
    // `Wrote notes.md (120 bytes, 4 lines).`: the text in brackets is the outcome.
    let inner = first.rsplit_once('(').and_then(|(_, rest)| rest.strip_suffix(").")).unwrap_or_default();
    match (lines.next(), ended.media, inner) {
        (_, media, _) if media > 0 => "picture".to_owned(),
        (None, _, inner) if !inner.is_empty() => inner.to_owned(),
        (None, ..) if first.is_empty() => "done".to_owned(),
        _ => count(ended.text.trim_end().lines().count() as u64, "line"),
    }
}

/// Returns the first telling lines, without the note about the exit code.
fn first_lines(text: &str) -> Vec<String> {
    let text = visible(text);
    let lines: Vec<&str> = text.lines().map(str::trim_end).filter(|line| !is_empty_or_note(line)).collect();
    let mut shown: Vec<String> = lines.iter().take(SHOWN_LINES).map(|line| (*line).to_owned()).collect();
    if lines.len() > SHOWN_LINES {
        shown.push(format!("… {} more", count((lines.len() - SHOWN_LINES) as u64, "line")));
    }
    shown
}

fn is_empty_or_note(line: &str) -> bool {
    line.is_empty() || line == "(no output)" || (line.starts_with("[exit code ") && line.ends_with(']'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(tool: &str, arguments: &str, status: &str, text: &str) -> String {
        let call = ToolCallInfo { id: "c".into(), tool: tool.into(), arguments: arguments.into() };
        let ended = ToolResultInfo {
            id: "c".into(),
            status: status.into(),
            text: text.into(),
            ..ToolResultInfo::default()
        };
        row(&call, &ended, Duration::from_secs(14), 79, TextPainter::default())
    }

    #[test]
    fn every_tool_says_what_matters() {
        let cases = [
            (
                "read",
                r#"{"path":"lexer.rs"}"#,
                "1\tx\n[Lines 1 to 2000 of 5310. For more, read with offset 2001.]",
                "read lexer.rs",
                "2,000 of 5,310 lines",
            ),
            ("read", r#"{"path":"a"}"#, "1\tx\n[All 1 lines.]", "read a", "1 line"),
            ("bash", r#"{"command":"ls\nwc"}"#, "a\nb\n[exit code 0]", "bash ls …", "2 lines"),
            ("bash", r#"{"command":"true"}"#, "(no output)\n[exit code 0]", "bash true", "done"),
            (
                "grep",
                r#"{"path":"src","pattern":"fn"}"#,
                "x\n[5 matches in 2 files.]",
                "grep fn",
                "5 matches in 2 files",
            ),
            (
                "write",
                r#"{"path":"n.md","content":"x"}"#,
                "Wrote n.md (120 bytes, 4 lines).",
                "write n.md",
                "120 bytes, 4 lines",
            ),
            ("ls", r#"{"path":"a"}"#, "x  0\n[1 entries.]", "ls a", "1 entry"),
            ("grep", r#"{"pattern":"x"}"#, "x\n[1 matches in 1 files.]", "grep x", "1 match in 1 file"),
            ("write", r#"{"path":"n"}"#, "Wrote n (12 bytes, 1 lines).", "write n", "12 bytes, 1 line"),
            (
                "edit",
                r#"{"path":"n.md","old":"a","new":"b"}"#,
                "Replaced once in n.md (line 5).",
                "edit n.md",
                "line 5",
            ),
            ("recall", r#"{"handle":"lh:12"}"#, "one\ntwo", "recall lh:12", "2 lines"),
        ];
        for (tool, arguments, text, label, outcome) in cases {
            let row = shown(tool, arguments, "completed", text);
            assert!(row.starts_with(&format!("  ▸ {label} ")), "{row}");
            assert!(row.trim_end().ends_with(&format!(" {outcome} · 14 s")), "{row}");
        }
    }

    #[test]
    fn a_failure_opens_by_itself() {
        let text = "error: one\n\ntwo\nthree\nfour\nfive\n[exit code 101]";
        let row = shown("bash", r#"{"command":"cargo test"}"#, "error", text);
        let lines: Vec<&str> = row.lines().collect();
        assert_eq!(lines[0], "  ✗ bash cargo test                   exit 101 · 14 s");
        assert_eq!(
            lines[1..],
            ["      error: one", "      two", "      three", "      four", "      … 1 line more"]
        );
        let denied = shown("bash", r#"{"command":"rm"}"#, "cancelled", "[Not run: no]");
        assert!(denied.contains("denied"), "{denied}");
    }

    #[test]
    fn a_narrow_row_keeps_call_and_outcome() {
        let call = ToolCallInfo {
            id: "c".into(),
            tool: "bash".into(),
            arguments: r#"{"command":"cargo test"}"#.into(),
        };
        let ended = ToolResultInfo {
            id: "c".into(),
            status: "error".into(),
            text: "no\n[exit code 101]".into(),
            ..ToolResultInfo::default()
        };
        let row = row(&call, &ended, Duration::from_secs(75), 19, TextPainter::default());
        assert_eq!(row, "  ✗ bash cargo test\n      exit 101 · 1 min 15 s\n      no\n");
        let running = |columns| running(&call, Duration::from_secs(75), columns, TextPainter::default());
        assert_eq!(running(19), "  ▸ bash cargo test");
        assert_eq!(width(&running(39)), 39);
        assert!(running(39).ends_with("  1 min 15 s"), "{}", running(39));
    }

    #[test]
    fn long_arguments_leave_room_for_the_outcome() {
        let command = format!(r#"{{"command":"{}"}}"#, "x".repeat(200));
        let row = shown("bash", &command, "completed", "a\n[exit code 0]");
        assert!(width(row.trim_end()) <= 79 && row.contains("… "), "{row}");
    }
}
