//! The demo's model behind the server. It reads the folder's files a few at a time, whatever it is asked, and keeps
//! nothing: what it has read it sees in its request, so that one model serves all sessions.

use std::path::Path;
use std::time::Duration;

use longhaul_core::message::{Message, Role};
use longhaul_providers::Request;
use longhaul_providers::scripted::{Script, Scripted, ScriptedAnswer, is_summary_request};
use serde_json::json;

use super::brain::{after_recall, looked_up, notes, reads, summary};
use super::facts::{asked_for, text_of};
use super::{WINDOW, files};

/// Time before each piece of an answer.
const PACE: Duration = Duration::from_millis(16);

/// Steps of a turn in which files are read.
const STEPS: usize = 3;

const FILES_AT_ONCE: usize = 2;

const CLOSING: &str = "That was this round. I am the demo's **scripted model**: no model answers, but the loop, the tools \
     and the window are real.\n\n\
     - Send anything, and I read the next files; the window fills after a few rounds.\n\
     - `!ls -la` makes me ask for the shell.\n\n\
     ```sh\nlonghaul --base-url http://localhost:1234/v1 --model NAME    # a model of your own\n```\n";

const NO_FILES: &str = "There are no files to read in this folder. I am the demo's scripted model; start me in a \
                        folder with text files, or write `!ls -la` to see me ask for the shell.";

/// The model, for the files of `folder`.
pub(crate) fn model(folder: &Path) -> Scripted {
    let files = files::choose(folder);
    Scripted::new(Script::closure(move |request: &Request, _| answer(request, &files)))
        .model("demo")
        .window(WINDOW)
        .recognise_summaries(|_| false)
}

fn answer(request: &Request, files: &[String]) -> ScriptedAnswer {
    if is_summary_request(request) {
        return ScriptedAnswer::text(summary(request)).pace(Duration::from_micros(1));
    }
    let Some(last) = request.messages.last() else { return ScriptedAnswer::text("…") };
    let answer = match last.role {
        Role::Tool => after_recall(request, last).unwrap_or_else(|| go_on(request, files)),
        _ => begin(request, &text_of(last), files),
    };
    answer.pace(PACE)
}

fn begin(request: &Request, said: &str, files: &[String]) -> ScriptedAnswer {
    if let Some(half) = asked_for(said) {
        return looked_up(&half);
    }
    match said.trim().strip_prefix('!') {
        Some(command) if has_tool(request, "bash") => ScriptedAnswer::text("I would like to run this.")
            .call("bash", json!({ "command": command.trim() }).to_string()),
        _ => go_on(request, files),
    }
}

fn go_on(request: &Request, files: &[String]) -> ScriptedAnswer {
    let turn: Vec<&Message> =
        request.messages.iter().rev().take_while(|message| message.role != Role::User).collect();
    let noted = if turn.is_empty() { String::new() } else { notes(request) };
    let steps = turn.iter().filter(|message| message.role == Role::Assistant).count();
    let is_of_shell = turn.iter().flat_map(|message| message.tool_calls()).any(|call| call.name == "bash");
    let next = if files.is_empty() { &[] } else { unread(request, files, steps) };
    if steps >= STEPS || is_of_shell || !has_tool(request, "read") || next.is_empty() {
        let closing = if files.is_empty() { NO_FILES } else { CLOSING };
        return ScriptedAnswer::text(format!("{noted}\n{closing}"));
    }
    reads(next)
        .into_iter()
        .fold(ScriptedAnswer::text(noted), |answer, (name, arguments)| answer.call(name, arguments))
}

/// The next files that the request does not speak of; once all were read, those that come at this step.
fn unread<'a>(request: &Request, files: &'a [String], step: usize) -> &'a [String] {
    let is_read = |file: &String| {
        request.messages.iter().any(|message| match message.role {
            Role::Assistant => {
                message.tool_calls().any(|call| call.arguments.contains(&json!(file).to_string()))
            }
            _ => message.role == Role::User && text_of(message).contains(file.as_str()),
        })
    };
    let from = files.iter().position(|file| !is_read(file)).unwrap_or(step * FILES_AT_ONCE % files.len());
    &files[from..files.len().min(from + FILES_AT_ONCE)]
}

fn has_tool(request: &Request, name: &str) -> bool {
    request.tools.iter().any(|tool| tool.name == name)
}
