//! The questions whether a tool may run, and the meaning of the answers.

use std::collections::VecDeque;

use longhaul::session::Session;
use longhaul_core::ids::ApprovalId;
use serde_json::{Map, Value};

use super::approval_scope::ApprovalScope;
use crate::failure::Outcome;
use crate::term::exact::{exact, exact_lines};
use crate::term::style::TextPainter;
use crate::term::text::{fit, width};
use crate::term::ui_event::ToolCallInfo;
use crate::term::wrap::wrapped;

/// The words behind the name of a tool in a question.
const WANTS: &str = "wants to run";

/// The maximum columns of a terminal without the tool's name before the input.
const NARROW: usize = 32;

/// Open questions, oldest first, and the permissions given for good.
#[derive(Debug, Default)]
pub(super) struct ApprovalQueue {
    open: VecDeque<(ApprovalId, ToolCallInfo)>,
    always: Vec<ApprovalScope>,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TypedApprovalAnswer {
    Yes,
    No(Option<String>),
    /// Yes, and to what the question suggests from now on.
    Always,
    /// Yes, and to every call of the tool.
    AlwaysTool,
    Unclear,
}

impl TypedApprovalAnswer {
    pub(super) fn of(line: &str) -> Self {
        let (word, rest) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
        let reason = Some(rest.trim().to_owned()).filter(|rest| !rest.is_empty());
        // A line that merely begins like a yes may be a message for the model, so nothing may follow a yes.
        match (word.to_lowercase().as_str(), &reason) {
            ("y" | "yes", None) => Self::Yes,
            ("a" | "always", None) => Self::Always,
            ("all", None) => Self::AlwaysTool,
            ("n" | "no", _) => Self::No(reason),
            _ => Self::Unclear,
        }
    }
}

impl ApprovalQueue {
    /// Returns the open question for the person.
    pub(super) fn first(&self) -> Option<&ToolCallInfo> {
        self.open.front().map(|(_, call)| call)
    }

    /// Takes a question; one that needs no person is answered at once and `false`.
    pub(super) async fn ask(&mut self, id: &str, call: ToolCallInfo, session: &Session) -> Outcome<bool> {
        if self.always.iter().any(|scope| scope.covers(&call.tool, &call.arguments)) {
            session.decide(ApprovalId::new(id), true, None).await?;
            return Ok(false);
        }
        self.open.push_back((ApprovalId::new(id), call));
        Ok(true)
    }

    /// Closes a question answered by anybody.
    pub(super) fn close(&mut self, id: &str) {
        // Another front end of the session may have answered.
        self.open.retain(|(open, _)| open.as_str() != id);
    }

    /// Closes all questions, because the run is over.
    pub(super) fn clear(&mut self) {
        self.open.clear();
    }

    /// Answers the oldest question; "always" answers the others that it covers, too.
    pub(super) async fn answer(&mut self, answer: TypedApprovalAnswer, session: &Session) -> Outcome<()> {
        let Some((id, call)) = self.open.pop_front() else { return Ok(()) };
        let always = match answer {
            TypedApprovalAnswer::Always => Some(suggested_scope(&call)),
            TypedApprovalAnswer::AlwaysTool => Some(ApprovalScope::whole_tool(&call.tool)),
            _ => None,
        };
        let (allowed, reason) = match answer {
            TypedApprovalAnswer::Yes | TypedApprovalAnswer::Always | TypedApprovalAnswer::AlwaysTool => {
                (true, None)
            }
            TypedApprovalAnswer::No(reason) => (false, reason),
            TypedApprovalAnswer::Unclear => {
                // Back to the front, so that the question stays the one on the screen.
                self.open.push_front((id, call));
                return Ok(());
            }
        };
        session.decide(id, allowed, reason).await?;
        let Some(scope) = always else { return Ok(()) };
        // Other calls may wait already, and "always" means them too.
        let (now, later): (VecDeque<_>, VecDeque<_>) = std::mem::take(&mut self.open)
            .into_iter()
            .partition(|(_, other)| scope.covers(&other.tool, &other.arguments));
        self.open = later;
        for (id, _) in now {
            session.decide(id, true, None).await?;
        }
        // Last, so that a failed decision grants nothing for good.
        self.always.push(scope);
        Ok(())
    }
}

/// Returns the permission that "always" gives: the limited one if there is one.
fn suggested_scope(call: &ToolCallInfo) -> ApprovalScope {
    ApprovalScope::limited(&call.tool, &call.arguments)
        .unwrap_or_else(|| ApprovalScope::whole_tool(&call.tool))
}

/// Returns the whole question: a person allows exactly its content.
pub(super) fn question(call: &ToolCallInfo, columns: usize, style: TextPainter) -> String {
    let lines = arguments_shown(call, columns);
    let tool = wrapped(&exact(&call.tool), 2, 2, columns);
    let last = tool.lines().next_back().unwrap_or_default();
    // A long name leaves no room behind it.
    let gap = if width(last) + width(WANTS) + 3 <= columns { " " } else { "\n  " };
    let named: Vec<String> = tool.lines().map(|line| style.bold(line)).collect();
    let mut asked = format!("{} {}{gap}{WANTS}\n", style.amber("?"), named.join("\n"));
    lines.iter().for_each(|line| asked.push_str(&format!("    {line}\n")));
    let (tool, scope) = (ApprovalScope::whole_tool(&call.tool), suggested_scope(call));
    let always = match &scope {
        scope if *scope == tool => format!("a: always {}", tool.in_words()),
        scope => format!("a: always {} · all: always {}", scope.in_words(), tool.in_words()),
    };
    let keys = format!("y: yes · n [reason]: no · {always} (until you leave); then Enter");
    let keys = format!("  {}", wrapped(&keys, 2, 2, columns));
    let rows: Vec<String> = keys.lines().map(|row| style.dim(row)).collect();
    asked.push_str(&rows.join("\n"));
    asked
}

/// Returns the mark before the input while a question about `tool` is open.
pub(crate) fn answer_mark(tool: &str, columns: usize) -> String {
    // The name stands in the question too. In a narrow terminal the answer needs the room.
    let named =
        if columns < NARROW { String::new() } else { format!("{}? ", fit(&exact(tool), columns / 3)) };
    format!("{named}y/n/a › ")
}

/// Returns the arguments of a call: a command or a change as such, all else as it was written.
fn arguments_shown(call: &ToolCallInfo, columns: usize) -> Vec<String> {
    // Arguments that are no object fall through to the raw form below, so nothing is hidden.
    let arguments: Map<String, Value> = serde_json::from_str(&call.arguments).unwrap_or_default();
    let (mut lines, shown) = match call.tool.as_str() {
        "bash" => match text_argument(&arguments, "command") {
            Some(command) => (set(command, "", columns), &["command"][..]),
            None => return set(&call.arguments, "", columns),
        },
        "edit" => match (
            text_argument(&arguments, "path"),
            text_argument(&arguments, "old"),
            text_argument(&arguments, "new"),
        ) {
            (Some(path), Some(old), Some(new)) => {
                let mut lines = set(path, "", columns);
                lines.extend(set(old, "- ", columns));
                lines.extend(set(new, "+ ", columns));
                (lines, &["path", "old", "new"][..])
            }
            _ => return set(&call.arguments, "", columns),
        },
        "write" => match (text_argument(&arguments, "path"), text_argument(&arguments, "content")) {
            (Some(path), Some(content)) => {
                let mut lines = set(path, "", columns);
                lines.extend(set(content, "+ ", columns));
                (lines, &["path", "content"][..])
            }
            _ => return set(&call.arguments, "", columns),
        },
        _ => return set(&call.arguments, "", columns),
    };
    // A person allows the whole call, so no argument may hide behind those that are known.
    let others = arguments.iter().filter(|(name, _)| !shown.contains(&name.as_str()));
    lines.extend(others.flat_map(|(name, value)| set(&format!("{name}: {value}"), "", columns)));
    lines
}

fn text_argument<'a>(arguments: &'a Map<String, Value>, key: &str) -> Option<&'a str> {
    arguments.get(key).and_then(Value::as_str)
}

fn set(text: &str, mark: &str, columns: usize) -> Vec<String> {
    // Four columns are for the indent of the question.
    let width = columns.saturating_sub(4 + mark.len());
    let lines = exact_lines(text).into_iter().flat_map(|line| {
        let set = wrapped(&line, 0, 0, width);
        // A blank line is one, too.
        let lines: Vec<String> = set.split('\n').map(|line| format!("{mark}{line}")).collect();
        lines
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn answers_are_short_and_never_guessed() {
        assert_eq!(TypedApprovalAnswer::of(" Y "), TypedApprovalAnswer::Yes);
        assert_eq!(TypedApprovalAnswer::of("always"), TypedApprovalAnswer::Always);
        assert_eq!(TypedApprovalAnswer::of("all"), TypedApprovalAnswer::AlwaysTool);
        assert_eq!(TypedApprovalAnswer::of("n"), TypedApprovalAnswer::No(None));
        assert_eq!(
            TypedApprovalAnswer::of("no use the other file"),
            TypedApprovalAnswer::No(Some("use the other file".into()))
        );
        for unclear in ["", "yes please", "yo", "also fix the tests", "a lot", "all of them"] {
            assert_eq!(TypedApprovalAnswer::of(unclear), TypedApprovalAnswer::Unclear, "{unclear}");
        }
    }

    #[test]
    fn the_question_shows_exactly_what_would_run() {
        let asked =
            question(&call("bash", r#"{"command":"ls\nrm -rf \u001b[8m/"}"#), 120, TextPainter::default());
        assert_eq!(
            asked,
            "? bash wants to run\n    ls\n    rm -rf \\u{1b}[8m/\n  y: yes · n [reason]: no · a: always exactly this command · all: always bash (until you leave); then Enter"
        );
        let keys = |tool, arguments| {
            let asked = shown_question(tool, arguments);
            asked.lines().last().unwrap().split_once(": no · ").unwrap().1.to_owned()
        };
        assert_eq!(
            keys("bash", json!({ "command": "cargo test -p core" })),
            "a: always cargo test … · all: always bash (until you leave); then Enter"
        );
        assert_eq!(
            keys("write", json!({ "path": "a.rs", "content": "" })),
            "a: always a.rs · all: always write (until you leave); then Enter"
        );
        assert_eq!(keys("files__list", json!({})), "a: always files__list (until you leave); then Enter");
        let asked = question(
            &call("edit", r#"{"path":"a.rs","old":"one\ntwo","new":"three"}"#),
            79,
            TextPainter::default(),
        );
        assert!(asked.contains("    a.rs\n    - one\n    - two\n    + three\n"), "{asked}");
    }

    #[test]
    fn no_row_of_a_question_is_wider_than_the_terminal() {
        let arguments = json!({ "command": "cargo test --workspace --locked -p longhaul-core" }).to_string();
        for tool in ["bash", "a_server_with_a_name__and_a_tool_with_another"] {
            for columns in [19, 39, 79] {
                let asked = question(&call(tool, &arguments), columns, TextPainter::default());
                assert!(asked.lines().all(|row| width(row) <= columns), "{columns}:\n{asked}");
                let words = asked.split_whitespace().collect::<Vec<_>>().join(" ");
                assert!(words.contains("wants to run") && words.ends_with("then Enter"), "{asked}");
                assert!(asked.replace(['\n', ' '], "").contains(tool), "{asked}");
            }
        }
        assert_eq!(answer_mark("bash", 80), "bash? y/n/a › ");
        assert_eq!(answer_mark("bash", 20), "y/n/a › ");
    }

    fn call(tool: &str, arguments: &str) -> ToolCallInfo {
        ToolCallInfo { id: "c".into(), tool: tool.into(), arguments: arguments.into() }
    }

    #[test]
    fn nothing_stands_hidden_behind_what_is_shown() {
        let long: String = (1..=200).map(|line| format!("echo {line}\n")).collect();
        let asked = shown_question("bash", json!({ "command": format!("{long}rm -rf /") }));
        assert!(asked.contains("echo 200\n    rm -rf /\n") && !asked.contains("not shown"), "{asked}");
        let asked = shown_question("bash", json!({ "command": format!("ls{}rm -rf /", "\n".repeat(60)) }));
        assert!(asked.contains("    ls\n    ⏎×59\n    rm -rf /\n"), "{asked}");
        let asked =
            shown_question("bash", json!({ "command": format!("ls{}; rm -rf /", " ".repeat(3_000)) }));
        assert!(asked.contains("    ls␣×3000; rm -rf /\n"), "{asked}");
        let asked = shown_question("write", json!({ "path": "a\u{202e}b\nc", "content": "x\u{200b}y\n\nz" }));
        assert!(asked.contains("    a\\u{202e}b\n    c\n    + x\\u{200b}y\n    + \n    + z\n"), "{asked}");
        // Every argument is shown, also one that the tool may not know.
        let asked =
            shown_question("edit", json!({ "path": "a", "old": "b", "new": "c", "replaceAll": true }));
        assert!(asked.contains("    replaceAll: true\n"), "{asked}");
        let asked = shown_question("bash", json!({ "command": "ls", "cwd": "/\u{202e}" }));
        assert!(asked.contains("    cwd: \"/\\u{202e}\"\n"), "{asked}");
        for (tool, arguments) in
            [("bash", json!({ "cmd": "rm" })), ("edit", json!({ "path": "a", "new": 1 }))]
        {
            assert!(shown_question(tool, arguments.clone()).contains(&arguments.to_string()), "{arguments}");
        }
        let asked = shown_question("files__x\u{202e}", json!({ "text": "\u{202e}" }));
        assert!(
            asked.contains("files__x\\u{202e} wants") && asked.contains("{\"text\":\"\\u{202e}\"}"),
            "{asked}"
        );
    }

    fn shown_question(tool: &str, arguments: Value) -> String {
        let call = ToolCallInfo { id: "c".into(), tool: tool.into(), arguments: arguments.to_string() };
        question(&call, 120, TextPainter::default())
    }
}
