//! Questions whether a tool may run: what exactly is asked, and what the answer means.

use std::collections::{BTreeSet, VecDeque};

use longhaul::session::Session;
use longhaul_core::ids::ApprovalId;
use serde_json::Value;

use crate::failure::Outcome;
use crate::term::happening::Call;
use crate::term::human::count;
use crate::term::style::Style;
use crate::term::wrap::wrapped;

/// Lines of a command, a text or a change that are shown.
const SHOWN_LINES: usize = 40;

/// Open questions, oldest first, and what needs no question any more.
#[derive(Debug, Default)]
pub(super) struct Approvals {
    open: VecDeque<(ApprovalId, Call)>,
    always: BTreeSet<String>,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Yes,
    No(Option<String>),
    Always,
    Unclear,
}

impl Answer {
    pub(super) fn of(line: &str) -> Self {
        let (word, rest) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
        let reason = Some(rest.trim().to_owned()).filter(|rest| !rest.is_empty());
        match (word.to_lowercase().as_str(), &reason) {
            ("y" | "yes", None) => Self::Yes,
            ("a" | "always", None) => Self::Always,
            ("n" | "no", _) => Self::No(reason),
            _ => Self::Unclear,
        }
    }
}

impl Approvals {
    /// The question a person is asked now.
    pub(super) fn first(&self) -> Option<&Call> {
        self.open.front().map(|(_, call)| call)
    }

    /// Takes a question; one that needs no person is answered at once and `false`.
    pub(super) async fn ask(&mut self, id: &str, call: Call, session: &Session) -> Outcome<bool> {
        if self.always.contains(&call.tool) {
            session.decide(ApprovalId::new(id), true, None).await?;
            return Ok(false);
        }
        self.open.push_back((ApprovalId::new(id), call));
        Ok(true)
    }

    /// A question that was answered, by whomever, is closed.
    pub(super) fn close(&mut self, id: &str) {
        self.open.retain(|(open, _)| open.as_str() != id);
    }

    /// No question is open: the run is over.
    pub(super) fn clear(&mut self) {
        self.open.clear();
    }

    /// Answers the oldest question; "always" answers those of the same tool, too.
    pub(super) async fn answer(&mut self, answer: Answer, session: &Session) -> Outcome<()> {
        let Some((id, call)) = self.open.pop_front() else { return Ok(()) };
        let always = answer == Answer::Always;
        let (allowed, reason) = match answer {
            Answer::Yes | Answer::Always => (true, None),
            Answer::No(reason) => (false, reason),
            Answer::Unclear => {
                self.open.push_front((id, call));
                return Ok(());
            }
        };
        session.decide(id, allowed, reason).await?;
        if !always {
            return Ok(());
        }
        let same = |(_, other): &(ApprovalId, Call)| other.tool == call.tool;
        let (now, later): (VecDeque<_>, VecDeque<_>) =
            std::mem::take(&mut self.open).into_iter().partition(same);
        self.open = later;
        for (id, _) in now {
            session.decide(id, true, None).await?;
        }
        self.always.insert(call.tool);
        Ok(())
    }
}

/// What is asked, in full: a person allows exactly this.
pub(super) fn question(call: &Call, columns: usize, style: Style) -> String {
    let arguments: Value = serde_json::from_str(&call.arguments).unwrap_or_default();
    let text = |key: &str| arguments[key].as_str();
    let mut lines: Vec<String> = match (call.tool.as_str(), text("path")) {
        ("bash", _) => set(text("command").unwrap_or(&call.arguments), "", columns),
        ("edit", Some(path)) => {
            let mut lines = vec![exact(path)];
            lines.extend(set(text("old").unwrap_or_default(), "- ", columns));
            lines.extend(set(text("new").unwrap_or_default(), "+ ", columns));
            lines
        }
        ("write", Some(path)) => {
            let mut lines = vec![exact(path)];
            lines.extend(set(text("content").unwrap_or_default(), "+ ", columns));
            lines
        }
        _ => set(&call.arguments, "", columns),
    };
    if lines.len() > SHOWN_LINES {
        let more = count((lines.len() - SHOWN_LINES) as u64, "more line");
        lines.truncate(SHOWN_LINES);
        lines.push(style.amber(&format!("… {more}, not shown here")));
    }
    let mut asked = format!("{} {} wants to run\n", style.amber("?"), style.bold(&exact(&call.tool)));
    lines.iter().for_each(|line| asked.push_str(&format!("    {line}\n")));
    let keys =
        format!("  y yes · n no, or n REASON · a always {} in this session; then Enter", exact(&call.tool));
    asked.push_str(&style.dim(&keys));
    asked
}

fn set(text: &str, mark: &str, columns: usize) -> Vec<String> {
    let width = columns.saturating_sub(4 + mark.len());
    let lines = text.lines().flat_map(|line| {
        let set = wrapped(&exact(line), 0, 0, width);
        set.lines().map(|line| format!("{mark}{line}")).collect::<Vec<_>>()
    });
    lines.collect()
}

/// Text in which nothing hides: what would not show is spelled out.
fn exact(text: &str) -> String {
    let spelled = text.chars().map(|c| match c {
        '\t' => "    ".to_owned(),
        c if c.is_control() || crate::term::text::char_width(c) == 0 => c.escape_unicode().to_string(),
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => c.escape_unicode().to_string(),
        c => c.to_string(),
    });
    spelled.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_short_and_never_guessed() {
        assert_eq!(Answer::of(" Y "), Answer::Yes);
        assert_eq!(Answer::of("always"), Answer::Always);
        assert_eq!(Answer::of("n"), Answer::No(None));
        assert_eq!(Answer::of("no use the other file"), Answer::No(Some("use the other file".into())));
        for unclear in ["", "yes please", "yo", "also fix the tests", "a lot"] {
            assert_eq!(Answer::of(unclear), Answer::Unclear, "{unclear}");
        }
    }

    #[test]
    fn the_question_shows_exactly_what_would_run() {
        let call = |tool: &str, arguments: &str| Call {
            id: "c".into(),
            tool: tool.into(),
            arguments: arguments.into(),
        };
        let asked = question(&call("bash", r#"{"command":"ls\nrm -rf \u001b[8m/"}"#), 79, Style::default());
        assert_eq!(
            asked,
            "? bash wants to run\n    ls\n    rm -rf \\u{1b}[8m/\n  y yes · n no, or n REASON · a always bash in this session; then Enter"
        );
        let asked = question(
            &call("edit", r#"{"path":"a.rs","old":"one\ntwo","new":"three"}"#),
            79,
            Style::default(),
        );
        assert!(asked.contains("    a.rs\n    - one\n    - two\n    + three\n"), "{asked}");
    }
}
