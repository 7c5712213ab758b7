//! Recorded conversations through the real loop, in windows smaller than they were.
//!
//! The scripted model gives the recorded answers, recorded tools the recorded results. What the model is sent
//! is checked by its own strict rules and its own window.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use longhaul::agent::Agent;
use longhaul::import::{ImportedSession, import};
use longhaul::tools::{Tool, ToolInput, ToolOutput, ToolSet};
use longhaul_core::error::ErrorCode;
use longhaul_core::event::{Event, EventBody, FORMAT, RunEnd};
use longhaul_core::history::{History, ViewItemKind};
use longhaul_core::message::{Part, RawJson, ToolCall, ToolSpec, ToolStatus};
use longhaul_core::meter;
use longhaul_core::plan::ORDER_START;
use longhaul_providers::scripted::{ModelScript, ScriptedAnswer, ScriptedProvider, ScriptedSummaries};
use longhaul_testkit::TestSession;

/// A recorded conversation, taken apart.
#[derive(Default)]
struct Recording {
    system: String,
    turns: Vec<Turn>,
    tools: Vec<String>,
    peak_tokens: u64,
}

#[derive(Default)]
struct Turn {
    user: Vec<Part>,
    steps: Vec<Step>,
}

#[derive(Default, Clone)]
struct Step {
    text: String,
    calls: Vec<(String, String)>,
    results: Vec<(String, bool)>,
}

impl Recording {
    fn of(imported: &ImportedSession) -> Self {
        let system = imported.system_prompt.clone().unwrap_or_default();
        let peak_tokens = peak(imported) + longhaul_core::estimate::text_tokens(&system);
        let mut recording = Self { system, peak_tokens, ..Self::default() };
        let mut names: BTreeMap<String, String> = BTreeMap::new();
        for (_, body) in &imported.events {
            recording.add(body, &mut names);
        }
        recording.turns.retain(|turn| !turn.user.is_empty());
        recording.tools = names.into_values().collect();
        recording.tools.sort();
        recording.tools.dedup();
        recording
    }

    fn add(&mut self, body: &EventBody, names: &mut BTreeMap<String, String>) {
        match body {
            EventBody::MessagesTaken { message, .. } => {
                let user = message
                    .parts
                    .iter()
                    .filter(|part| part.as_text().is_some_and(|text| !text.trim().is_empty()));
                self.turns.push(Turn { user: user.cloned().collect(), steps: Vec::new() });
            }
            EventBody::AssistantAdded { message, .. } => {
                let Some(turn) = self.turns.last_mut() else { return };
                let calls: Vec<&ToolCall> = message.tool_calls().collect();
                names.extend(calls.iter().map(|call| (call.call_id.to_string(), call.name.clone())));
                let calls = calls.iter().map(|call| (call.name.clone(), object(&call.arguments))).collect();
                turn.steps.push(Step { text: message.text(), calls, results: Vec::new() });
            }
            EventBody::ToolFinished { result } => {
                let Some(step) = self.turns.last_mut().and_then(|turn| turn.steps.last_mut()) else { return };
                let text: String = result.content.iter().filter_map(Part::as_text).collect();
                step.results.push((text, result.status == ToolStatus::Completed));
            }
            _ => {}
        }
    }
}

fn object(arguments: &str) -> String {
    let is_object = serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(arguments).is_ok();
    if is_object { arguments.to_owned() } else { "{}".to_owned() }
}

/// The most tokens the recorded view had, by the estimator.
fn peak(imported: &ImportedSession) -> u64 {
    let mut history = History::default();
    let mut peak = 0;
    for (seq, (at, body)) in (1..).zip(&imported.events) {
        history
            .apply(&Event { seq, at: *at, format: FORMAT, body: body.clone() })
            .expect("an import is a log");
        peak = peak.max(meter::read(&history, 0).total);
    }
    peak
}

/// What the model still has to say, and the tools still have to give.
#[derive(Default)]
struct Tape {
    answers: VecDeque<Step>,
    results: VecDeque<(String, bool)>,
}

struct Recorded {
    name: String,
    tape: Arc<Mutex<Tape>>,
}

#[async_trait]
impl Tool for Recorded {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: self.name.clone(),
            description: "A recorded tool.".to_owned(),
            parameters: RawJson(r#"{"type":"object"}"#.to_owned()),
            read_only: true,
            poll: true,
            source: "recorded".to_owned(),
        }
    }

    async fn run(&self, _call: ToolInput) -> ToolOutput {
        let (text, ok) = self.tape.lock().unwrap().results.pop_front().unwrap_or_default();
        if ok { ToolOutput::text(text) } else { ToolOutput::error(text) }
    }
}

fn model(tape: &Arc<Mutex<Tape>>, window: u64) -> ScriptedProvider {
    let tape = Arc::clone(tape);
    let script = ModelScript::closure(move |_, _| {
        let mut tape = tape.lock().unwrap();
        let step = tape.answers.pop_front().unwrap_or_default();
        tape.results = step.results.clone().into();
        let text = if step.text.trim().is_empty() && step.calls.is_empty() {
            "(nothing)".to_owned()
        } else {
            step.text
        };
        let answer = ScriptedAnswer::text(text);
        step.calls.into_iter().fold(answer, |answer, (name, arguments)| answer.call(name, arguments))
    });
    ScriptedProvider::new(script).window(window).summaries(ScriptedSummaries::Extract).recognise_summaries(
        |request| {
            let last = request.messages.last();
            last.is_some_and(|message| {
                message.parts.iter().filter_map(Part::as_text).any(|text| text.contains(ORDER_START))
            })
        },
    )
}

/// What a replay showed.
#[derive(Default, Debug)]
struct Seen {
    steps: usize,
    edits: usize,
    largest: u64,
    misfits: usize,
}

async fn replay(recording: &Recording, window: u64, strategy: &str) -> Seen {
    let tape = Arc::new(Mutex::new(Tape::default()));
    let prepare = |agent: &mut Agent, _: &_| {
        agent.system.clone_from(&recording.system);
        agent.tools = ToolSet::new();
        for name in &recording.tools {
            agent.tools.add(Arc::new(Recorded { name: name.clone(), tape: Arc::clone(&tape) })).unwrap();
        }
        // The tape gives the results in order, so the calls must run in order.
        agent.rules.parallel_tools = Some(false);
        agent.rules.max_steps = 1_000;
        agent.rules.policy.strategy = longhaul_core::strategy::by_name(strategy).unwrap();
    };
    let TestSession { runtime, session, model, .. } =
        &TestSession::with_provider(model(&tape, window), prepare).await;
    let mut seen = Seen::default();
    for turn in &recording.turns {
        *tape.lock().unwrap() = Tape { answers: turn.steps.clone().into(), results: VecDeque::new() };
        session.send(turn.user.clone()).await.unwrap();
        let settled = session.settled().await.unwrap();
        match settled.end {
            Some(RunEnd::Stop | RunEnd::Length) => {}
            Some(RunEnd::Error) => {
                let error = settled.error.unwrap();
                assert_eq!(error.code, ErrorCode::ContextOverflow, "{}", error.message);
                let alone = session.inspect_run(newest_alone).await.unwrap();
                assert!(
                    alone.0 > alone.1,
                    "{} tokens alone fit into {}: {}",
                    alone.0,
                    alone.1,
                    error.message
                );
                seen.misfits += 1;
            }
            other => panic!("ended with {other:?}"),
        }
    }
    let log = model.log();
    let violations: Vec<_> = log.iter().filter_map(|call| call.violation.as_ref()).collect();
    assert!(violations.is_empty(), "{violations:?}");
    let largest = log.iter().map(|call| call.input_tokens).max().unwrap_or(0);
    seen.steps = log.len();
    seen.largest = largest;
    seen.edits = session.inspect_run(|run| run.history().edits().len()).await.unwrap();
    let typed = session
        .inspect_run(|run| {
            run.history()
                .entries()
                .iter()
                .filter(|entry| matches!(entry.kind, longhaul_core::history::LogEntryKind::Typed))
                .count()
        })
        .await
        .unwrap();
    assert_eq!(typed, recording.turns.len(), "every recorded message is in the log once");
    runtime.close().await;
    seen
}

/// Tokens of the fixed prefix with the newest typed message, by the estimate with its margin of 10 %, and what is
/// usable.
fn newest_alone(run: &longhaul_core::run::Run) -> (u64, u64) {
    let history = run.history();
    let newest = history.view().iter().rev().find(|item| item.kind == ViewItemKind::Typed);
    let bound = run.settings().fixed.tokens + newest.map_or(0, |item| item.tokens);
    (bound + bound / 10, run.budget().usable)
}

fn read(folder: &std::path::Path, file: &str) -> Vec<ImportedSession> {
    let bytes = std::fs::read(folder.join("trajectories").join(file)).unwrap();
    import(&bytes, 0).unwrap().sessions
}

#[tokio::test]
async fn pi_session_in_small_windows() {
    let Some(folder) = crate::fixtures("pi_session_in_small_windows") else { return };
    let sessions = read(&folder, "badlogic__pi-mono/before-compaction.jsonl");
    let recording = Recording::of(&sessions[0]);
    let steps: usize = recording.turns.iter().map(|turn| turn.steps.len()).sum();
    println!("pi: {} turns, {steps} steps, peak {} tokens", recording.turns.len(), recording.peak_tokens);
    assert!(recording.peak_tokens > 100_000 && steps > 300);
    for strategy in ["reactive-overflow", "middle-removal", "truncation"] {
        for percent in [25, 50, 75] {
            let window = recording.peak_tokens * percent / 100;
            let seen = replay(&recording, window, strategy).await;
            println!("pi {strategy} {percent} % = {window}: {seen:?}");
            // A recorded turn may go on after an answer without calls; a run does not.
            assert!(seen.edits > 0 && seen.steps * 10 >= steps * 8, "{seen:?}");
            assert_eq!(seen.misfits, 0);
        }
    }
}

#[tokio::test]
async fn tau_bench_runs_in_small_windows() {
    let Some(folder) = crate::fixtures("tau_bench_runs_in_small_windows") else { return };
    let sessions = read(&folder, "sierra-research__tau-bench/gpt-4o-airline.json");
    let recordings: Vec<Recording> = sessions.iter().map(Recording::of).collect();
    let large: Vec<&Recording> =
        recordings.iter().filter(|recording| recording.peak_tokens >= 8_000).collect();
    println!("tau-bench: {} runs, {} of 8,000 tokens or more", recordings.len(), large.len());
    assert!(!large.is_empty());
    let mut total = Seen::default();
    for recording in large {
        for percent in [25, 50, 75] {
            let seen = replay(recording, recording.peak_tokens * percent / 100, "reactive-overflow").await;
            total.steps += seen.steps;
            total.edits += seen.edits;
            total.misfits += seen.misfits;
            total.largest = total.largest.max(seen.largest);
        }
    }
    println!("tau-bench in all: {total:?}");
    assert!(total.edits > 0);
}
