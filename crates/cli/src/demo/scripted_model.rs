//! The scripted model. It has a script and no memory: its remarks on files come from the request alone.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use longhaul_core::message::{Message, Role};
use longhaul_core::plan::ORDER_START;
use longhaul_providers::ModelRequest;
use longhaul_providers::scripted::{ScriptedAnswer, is_summary_request};
use serde_json::json;

use super::facts::{self, text_of};
use super::replies;

/// A scripted model.
pub(super) struct ScriptedDemoModel {
    script: Vec<DemoStep>,
    at: AtomicUsize,
    pace: Duration,
}

/// One step of the script.
enum DemoStep {
    /// Calls made at once, and the text before them if nothing was read just now.
    Call(&'static str, Vec<(&'static str, String)>),
    /// The end of a turn.
    Say(&'static str),
}

impl ScriptedDemoModel {
    /// Reads `files` in two turns.
    pub(super) fn new(files: &[String], pace: Duration) -> Self {
        let mut script = vec![
            DemoStep::Call("I begin with what is here.", vec![("ls", json!({ "path": "." }).to_string())]),
            DemoStep::Call("", vec![("glob", json!({ "pattern": "**/*" }).to_string())]),
        ];
        let (first, second) = files.split_at(files.len() / 2);
        let sizes = json!({ "command": format!("wc -c {}", quoted(files)) }).to_string();
        let search = json!({ "pattern": "(?i)error|must" }).to_string();
        let read = |lead| move |files: &[String]| DemoStep::Call(lead, reads(files));
        script.extend(first.chunks(2).map(read("")));
        script.push(DemoStep::Say("That was the first half of the files."));
        script.push(DemoStep::Call("First their sizes.", vec![("bash", sizes)]));
        script.extend(second.chunks(2).map(read("")));
        script.push(DemoStep::Call("", vec![("grep", search)]));
        script.push(DemoStep::Say("That was the rest. I changed nothing, as you asked."));
        script.extend(files[files.len() - 2..].chunks(1).map(read("I read them once more.")));
        script.push(DemoStep::Say("Nothing in them has changed since the first time."));
        Self { script, at: AtomicUsize::new(0), pace }
    }

    /// Returns the answer to a request.
    pub(super) fn answer(&self, request: &ModelRequest) -> ScriptedAnswer {
        let answer = self.think(request);
        if answer.pace.is_zero() { answer.pace(self.pace) } else { answer }
    }

    fn think(&self, request: &ModelRequest) -> ScriptedAnswer {
        let Some(last) = request.messages.last() else { return ScriptedAnswer::text("…") };
        if is_summary_request(request) {
            // Not zero, which `answer` would replace by the demo's pace.
            return ScriptedAnswer::text(summary(request)).pace(Duration::from_micros(1));
        }
        if last.role == Role::User
            && let Some(half) = facts::asked_for(&text_of(last))
        {
            return looked_up(&half);
        }
        after_recall(request, last).unwrap_or_else(|| self.next(request))
    }

    fn next(&self, request: &ModelRequest) -> ScriptedAnswer {
        let told = replies::told(request);
        match self.script.get(self.at.fetch_add(1, Ordering::Relaxed)) {
            Some(DemoStep::Call(lead, calls)) => {
                let answer = ScriptedAnswer::text(if told.is_empty() { (*lead).to_owned() } else { told });
                calls.iter().fold(answer, |answer, (name, arguments)| answer.call(*name, arguments.clone()))
            }
            Some(DemoStep::Say(text)) => ScriptedAnswer::text(format!("{told}\n\n{text}")),
            None => ScriptedAnswer::text("I am done."),
        }
    }
}

/// Returns the calls that read `files`.
pub(super) fn reads(files: &[String]) -> Vec<(&'static str, String)> {
    files.iter().map(|file| ("read", json!({ "path": file }).to_string())).collect()
}

/// Returns an answer that looks up a line by its first half.
pub(super) fn looked_up(half: &str) -> ScriptedAnswer {
    let query = json!({ "query": half, "limit": 3 }).to_string();
    ScriptedAnswer::text("I do not have that any more; I will look it up.").call("recall", query)
}

/// Returns the answer to the result of a recall, if the result is the newest message.
pub(super) fn after_recall(request: &ModelRequest, last: &Message) -> Option<ScriptedAnswer> {
    let has_recalled = last.role == Role::Tool && newest_calls(request).any(|name| name == "recall");
    has_recalled.then(|| ScriptedAnswer::text(found(request, &text_of(last))))
}

fn quoted(files: &[String]) -> String {
    let quoted: Vec<String> = files.iter().map(|file| format!("'{}'", file.replace('\'', r"'\''"))).collect();
    quoted.join(" ")
}

/// Returns the line of a recalled original that begins with the requested half.
fn found(request: &ModelRequest, recalled: &str) -> String {
    let question = request.messages.iter().rev().find(|message| message.role == Role::User);
    let half = question.and_then(|message| facts::asked_for(&text_of(message))).unwrap_or_default();
    // The log also holds the question, which quotes the half line between « and ».
    let lines = recalled.lines().filter(|line| !line.contains('»'));
    let line = lines.filter_map(|line| line.find(&half).map(|at| line[at..].trim_end())).next();
    match line {
        // Quoted as code, because the line is not meant as Markdown.
        Some(line) if line.contains('`') => format!("The line is: `` {line} ``"),
        Some(line) => format!("The line is: `{line}`"),
        None => "I could not find it.".to_owned(),
    }
}

fn newest_calls(request: &ModelRequest) -> impl Iterator<Item = &str> {
    let newest = request.messages.iter().rev().find(|message| message.role == Role::Assistant);
    newest.into_iter().flat_map(|message| message.tool_calls().map(|call| call.name.as_str()))
}

/// Returns a summary of the request: its questions, the files read, and an earlier summary.
pub(super) fn summary(request: &ModelRequest) -> String {
    let users = request.messages.iter().filter(|message| message.role == Role::User);
    let first = users.map(text_of).find(|text| !text.contains(ORDER_START)).unwrap_or_default();
    let goal: String = first.chars().take(900).collect();
    let mut read: Vec<String> = Vec::new();
    for call in request.messages.iter().flat_map(Message::tool_calls).filter(|call| call.name == "read") {
        let arguments: serde_json::Value = serde_json::from_str(&call.arguments).unwrap_or_default();
        if let Some(path) = arguments["path"].as_str() {
            read.push(path.to_owned());
        }
    }
    format!(
        "Goal: {goal}\nDone: read {}.\nNext steps: go on with the files that were not read yet.",
        read.join(", ")
    )
}
