//! The demo's model behind the server. It reads the folder's files a few at a time, whatever a person asks.
//! Its only memory is the step count of recent turns; it finds the files read in its request. So one model
//! serves all sessions.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use longhaul_core::message::{Message, Part, Role};
use longhaul_providers::ModelRequest;
use longhaul_providers::scripted::{ModelScript, ScriptedAnswer, ScriptedProvider, is_summary_request};
use serde_json::json;

use super::facts::{asked_for, text_of};
use super::scripted_model::{after_recall, looked_up, reads, summary};
use super::{WINDOW, files, replies};

/// Time before each piece of an answer.
const PACE: Duration = Duration::from_millis(16);

/// The number of steps of a turn in which files are read.
const STEPS: usize = 3;

const FILES_AT_ONCE: usize = 2;

/// The maximum number of remembered turns.
const MOST_TURNS: usize = 256;

/// The number of steps of each turn, by the text that began the turn. A compaction can remove earlier steps from
/// the request, so they are counted here. Two sessions that ask the same at once share a count, and end sooner.
#[derive(Default)]
struct DemoTurnSteps(Mutex<BTreeMap<String, usize>>);

impl DemoTurnSteps {
    /// Begins a turn with a message. The typed text may follow a summary in it.
    fn begin(&self, asked: &Message) {
        let Some(asked) = asked.parts.iter().rev().find_map(Part::as_text) else { return };
        let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Turns that are under way end early then, which a demo can afford.
        if turns.len() >= MOST_TURNS {
            turns.clear();
        }
        turns.insert(asked.to_owned(), 0);
    }

    /// Counts a step of the newest turn that the request shows. Returns the number of earlier steps.
    fn step(&self, request: &ModelRequest) -> usize {
        let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let said = request.messages.iter().rev().filter(|message| message.role == Role::User);
        let mut parts = said.flat_map(|message| message.parts.iter().rev().filter_map(Part::as_text));
        // An unknown turn ends at once. Without a count it could go on forever.
        let Some(begun) = parts.find(|part| turns.contains_key(*part)) else { return STEPS };
        let steps = turns.entry(begun.to_owned()).or_default();
        *steps += 1;
        *steps - 1
    }
}

/// The introduction, printed once at the end of the first round.
const WHO: &str = "I am the demo's **scripted model**: I only read, but the loop, the tools and the window are real. Send \
     anything and I read the next files; after a few rounds the window is full. `!ls -la` makes me ask for the shell.";

const NO_FILES: &str = "There are no files to read in this folder. I am the demo's scripted model; start me in a \
                        folder with text files, or write `!ls -la` to see me ask for the shell.";

/// Returns the model, for the files of `folder`.
pub(crate) fn model(folder: &Path) -> ScriptedProvider {
    let files = files::choose(folder);
    let turns = DemoTurnSteps::default();
    ScriptedProvider::new(ModelScript::closure(move |request: &ModelRequest, _| {
        answer(request, &files, &turns)
    }))
    .model("demo")
    .window(WINDOW)
    // `answer` recognises requests for summaries by itself.
    .recognise_summaries(|_| false)
}

fn answer(request: &ModelRequest, files: &[String], turns: &DemoTurnSteps) -> ScriptedAnswer {
    if is_summary_request(request) {
        // A summary is not shown while it is written, so it needs no pauses.
        return ScriptedAnswer::text(summary(request)).pace(Duration::from_micros(1));
    }
    let Some(last) = request.messages.last() else { return ScriptedAnswer::text("…") };
    let answer = match last.role {
        Role::Tool => after_recall(request, last).unwrap_or_else(|| go_on(request, files, turns)),
        _ => {
            turns.begin(last);
            begin(request, &text_of(last), files, turns)
        }
    };
    answer.pace(PACE)
}

fn begin(request: &ModelRequest, said: &str, files: &[String], turns: &DemoTurnSteps) -> ScriptedAnswer {
    if let Some(half) = asked_for(said) {
        return looked_up(&half);
    }
    match said.trim().strip_prefix('!') {
        Some(command) if has_tool(request, "bash") => ScriptedAnswer::text("I would like to run this.")
            .call("bash", json!({ "command": command.trim() }).to_string()),
        _ => go_on(request, files, turns),
    }
}

fn go_on(request: &ModelRequest, files: &[String], turns: &DemoTurnSteps) -> ScriptedAnswer {
    let turn: Vec<&Message> =
        request.messages.iter().rev().take_while(|message| message.role != Role::User).collect();
    let told = replies::told(request);
    let steps = turns.step(request);
    let is_of_shell = turn.iter().flat_map(|message| message.tool_calls()).any(|call| call.name == "bash");
    let next = if files.is_empty() { &[] } else { unread(request, files, steps) };
    if steps >= STEPS || is_of_shell || !has_tool(request, "read") || next.is_empty() {
        let closing = match files {
            [] => NO_FILES.to_owned(),
            _ if is_of_shell => "Is there anything else to run?".to_owned(),
            _ => closing(request, files),
        };
        return ScriptedAnswer::text(format!("{told}\n\n{closing}").trim_start().to_owned());
    }
    let said = if told.is_empty() { lead(request, files) } else { told };
    reads(next)
        .into_iter()
        .fold(ScriptedAnswer::text(said), |answer, (name, arguments)| answer.call(name, arguments))
}

/// Returns the text before the first files of a round.
fn lead(request: &ModelRequest, files: &[String]) -> String {
    match read_of(request, files) {
        0 => format!("I found {} text files of some length here. I begin with the first.", files.len()),
        all if all == files.len() => "I have read them all, so I look at some of them again.".to_owned(),
        read => format!("{read} of {} are read; I go on with the next.", files.len()),
    }
}

/// Returns the text at the end of a round.
fn closing(request: &ModelRequest, files: &[String]) -> String {
    let is_first = request.messages.iter().filter(|message| message.role == Role::User).count() == 1;
    let read = read_of(request, files);
    match (is_first, files.len() - read) {
        (true, _) => WHO.to_owned(),
        (false, 0) => format!("That was the last of {} files.", files.len()),
        (false, left) => format!("That makes {read} files; {left} are left."),
    }
}

/// Returns the number of files that the request mentions.
fn read_of(request: &ModelRequest, files: &[String]) -> usize {
    files.iter().filter(|file| is_read(request, file)).count()
}

fn is_read(request: &ModelRequest, file: &String) -> bool {
    request.messages.iter().any(|message| match message.role {
        // A compaction removes calls, but its summary names the files. So both are searched.
        Role::Assistant => message.tool_calls().any(|call| call.arguments.contains(&json!(file).to_string())),
        _ => message.role == Role::User && text_of(message).contains(file.as_str()),
    })
}

/// Returns the next files that the request does not mention. Once all were read, it returns those of this
/// step.
fn unread<'a>(request: &ModelRequest, files: &'a [String], step: usize) -> &'a [String] {
    let from =
        files.iter().position(|file| !is_read(request, file)).unwrap_or(step * FILES_AT_ONCE % files.len());
    &files[from..files.len().min(from + FILES_AT_ONCE)]
}

fn has_tool(request: &ModelRequest, name: &str) -> bool {
    request.tools.iter().any(|tool| tool.name == name)
}
