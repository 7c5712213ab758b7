//! A benchmark of planning, LangChain's `trim_messages` and the AI SDK's `pruneMessages`, in turns on the same data.
//! `just plan-peers` installs the libraries and runs the benchmark.

#[path = "../../tests/it/recorded.rs"]
mod recorded;

use std::collections::BTreeMap;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use longhaul_core::budget::{Budget, StrategyTrigger};
use longhaul_core::event::{EventBody, ViewEdit};
use longhaul_core::history::{History, request_messages};
use longhaul_core::message::{Message, Part, Role};
use longhaul_core::meter;
use longhaul_core::plan::{CompactionPolicy, Plan, PlanTrigger, plan};
use longhaul_core::strategy;
use recorded::{Said, Session};
use serde_json::{Value, json};

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../../shared/fixtures/trajectories");

const INSTALLED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../target/plan-peers");

const BUDGET: u64 = 32_000;

/// A window that no session fills.
const WIDE: u64 = 100_000_000;

/// The number of turns of each library. The order is reversed each time.
const ROUNDS: usize = 3;

/// The number of measured calls in a turn. One call before them is not measured.
const CALLS: usize = 10;

/// One message of a result.
struct Kept {
    role: String,
    text: String,
    calls: Vec<String>,
    answers: Vec<String>,
}

/// The result of one way of planning for one set.
#[derive(Default)]
struct Row {
    ms: Vec<f64>,
    kept: Vec<Kept>,
    /// The tokens of the result, as the library counts them.
    used: u64,
    /// `true` if the library takes no budget.
    unbounded: bool,
    /// `true` if only the time is measured, because there is no result.
    asked_only: bool,
}

struct Set {
    name: String,
    said: Vec<Said>,
    session: Session,
    budget: u64,
    file: PathBuf,
}

impl Set {
    fn new(kind: &str, size: usize, all: &[Said]) -> Self {
        let said = recorded::repeated(all, size);
        let session = Session::of(&said);
        let budget = BUDGET.min(session.history.view_tokens() / 2);
        let file = Path::new(INSTALLED).join(format!("{kind}-{size}.json"));
        let messages: Vec<Value> = said.iter().map(Said::as_json).collect();
        let data = json!({ "budget": budget, "messages": messages });
        std::fs::write(&file, data.to_string()).unwrap();
        Self { name: format!("{kind}-{size}"), said, session, budget, file }
    }

    fn first_task(&self) -> &str {
        self.said.iter().find(|said| said.role == Role::User).map_or("", |said| &said.text)
    }

    /// Returns budget and policy: the trigger is at half of the window.
    fn at_trigger(&self, name: &str) -> (Budget, CompactionPolicy) {
        let strategy = strategy::by_name(name).unwrap();
        let policy = CompactionPolicy { trigger: Some(StrategyTrigger::Tokens(self.budget)), ..CompactionPolicy::new(strategy) };
        (Budget::new(self.budget * 2, None), policy)
    }
}

fn ms(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1e3
}

fn planned(history: &History, (budget, policy): &(Budget, CompactionPolicy)) -> Plan {
    plan(history, 0, budget, policy, &PlanTrigger::Routine)
}

/// Returns the edit of a plan. An extract stands in for a summary.
fn edit(plan: Plan, history: &History) -> Option<ViewEdit> {
    match plan {
        Plan::Edit(edit) => Some(*edit),
        Plan::Summarise(draft) => draft.finish_extractive(history).ok(),
        Plan::Fits | Plan::DoesNotFit(_) => None,
    }
}

/// Measures our own planner for one turn.
fn ours(set: &Set, name: &str, rows: &mut BTreeMap<String, Row>) {
    let room = set.at_trigger(name);
    let history = &set.session.history;
    for call in 0..=CALLS {
        let fresh = history.clone();
        let start = Instant::now();
        let cold = black_box(planned(&fresh, &room));
        let time = ms(start);
        let waits = matches!(cold, Plan::Summarise(_));
        let start = Instant::now();
        let edit = black_box(edit(cold, &fresh));
        let finished = ms(start);
        let edit = edit.unwrap_or_else(|| panic!("{}, {name}: no edit", set.name));
        let start = Instant::now();
        let after = fresh.with(EventBody::ViewEdited(Box::new(edit)));
        let committed = ms(start);
        if call == 0 {
            let row = rows.entry(format!("longhaul {name}, cold")).or_default();
            row.used = meter::read(&after, 0).total;
            row.kept = request_messages(after.view()).iter().map(kept).collect();
            continue;
        }
        let mut add = |what: &str, time: f64, asked_only: bool| {
            let row = rows.entry(format!("longhaul {name}, {what}")).or_default();
            row.ms.push(time);
            row.asked_only = asked_only;
        };
        add("cold", time, false);
        if waits {
            add("its extract", finished, true);
        }
        add("its edit folded", committed, true);
        let wide = (Budget::new(WIDE, None), CompactionPolicy { trigger: None, ..room.1.clone() });
        add("incremental, below the trigger", more(&fresh, set, &wide, true), true);
        add("incremental, after its edit", more(&after, set, &room, true), true);
        add("incremental, at the trigger", more(&fresh, set, &room, false), true);
    }
}

/// Returns the milliseconds for folding and planning one more message.
fn more(history: &History, set: &Set, room: &(Budget, CompactionPolicy), fits: bool) -> f64 {
    let mut history = history.clone();
    let mut next = |text: &str| {
        let message = Message::user(format!("m{}", history.last_seq()), vec![Part::text(text)]);
        let body = EventBody::message_taken(message);
        let event = longhaul_core::event::Event {
            seq: history.last_seq() + 1,
            at: 0,
            format: longhaul_core::event::FORMAT,
            body,
        };
        let start = Instant::now();
        history.apply(&event).unwrap();
        let plan = black_box(planned(&history, room));
        let time = ms(start);
        assert_eq!(plan == Plan::Fits, fits, "{}: {plan:?}", set.name);
        time
    };
    // A copy has no room to grow, a history that lives has: the first is not measured.
    next("go on");
    next("yes, and run the tests again after it")
}

fn kept(message: &Message) -> Kept {
    let mut kept = Kept {
        role: format!("{:?}", message.role).to_lowercase(),
        text: String::new(),
        calls: message.tool_calls().map(|call| call.call_id.to_string()).collect(),
        answers: Vec::new(),
    };
    for part in &message.parts {
        match part {
            Part::Text(text) => kept.text.push_str(&text.text),
            Part::ToolResult(result) => kept.answers.push(result.call_id.to_string()),
            _ => {}
        }
    }
    kept
}

/// Measures another library for one turn, in a process that reads the data and then calls.
fn others(command: &mut Command, rows: &mut BTreeMap<String, Row>) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let row = rows.entry(line["library"].as_str().unwrap().to_owned()).or_default();
        row.ms.extend(line["ms"].as_array().unwrap().iter().filter_map(Value::as_f64));
        row.used = line["used"].as_u64().unwrap();
        row.unbounded = line["unbounded"] == true;
        let strings = |value: &Value| -> Vec<String> {
            value.as_array().unwrap().iter().map(|one| one.as_str().unwrap().to_owned()).collect()
        };
        row.kept = line["kept"]
            .as_array()
            .unwrap()
            .iter()
            .map(|kept| Kept {
                role: kept["role"].as_str().unwrap().to_owned(),
                text: kept["text"].as_str().unwrap().to_owned(),
                calls: strings(&kept["calls"]),
                answers: strings(&kept["answers"]),
            })
            .collect();
    }
}

/// Returns the reason for which a provider may refuse the messages, if there is one.
fn complaint(kept: &[Kept]) -> Option<String> {
    let mut owed: Vec<&String> = Vec::new();
    for message in kept {
        for answer in &message.answers {
            let Some(at) = owed.iter().position(|call| *call == answer) else {
                return Some("a result without its call".to_owned());
            };
            owed.remove(at);
        }
        if message.answers.is_empty() && !owed.is_empty() {
            return Some("a call without its result".to_owned());
        }
        owed.extend(&message.calls);
    }
    match kept.first() {
        _ if !owed.is_empty() => Some("a call without its result".to_owned()),
        None => Some("nothing left".to_owned()),
        Some(first) if first.role != "user" => Some(format!("begins with {}", first.role)),
        Some(_) => None,
    }
}

fn median(times: &[f64]) -> f64 {
    let mut times = times.to_vec();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn least(times: &[f64]) -> f64 {
    times.iter().copied().fold(f64::INFINITY, f64::min)
}

fn report(set: &Set, rows: &BTreeMap<String, Row>) {
    let ours = &rows["longhaul middle-removal, cold"].ms;
    let reference = (median(ours), least(ours));
    for (library, row) in rows {
        let (time, best) = (median(&row.ms), least(&row.ms));
        let ratios = (time / reference.0, best / reference.1);
        print!("| {library} | {} | {} | {time:.3} | {best:.3} |", set.name, set.said.len());
        print!(" {:.2} / {:.2} |", ratios.0, ratios.1);
        if row.asked_only {
            println!(" | | | |");
            continue;
        }
        let valid = complaint(&row.kept).unwrap_or_else(|| "yes".to_owned());
        let is_first = |kept: &Kept| kept.role == "user" && kept.text.contains(set.first_task());
        let task = if row.kept.first().is_some_and(is_first) { "yes" } else { "no" };
        let share = row.used as f64 * 100.0 / set.budget as f64;
        let share = if row.unbounded { format!("none taken: {share:.0} %") } else { format!("{share:.0} %") };
        println!(" {} | {valid} | {task} | {share} |", row.kept.len());
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let fixtures = PathBuf::from(arguments.next().unwrap_or_else(|| FIXTURES.to_owned()));
    std::fs::create_dir_all(INSTALLED).unwrap();
    println!(
        "| library | set | messages | ms, median | best | x ours (median / best) | kept | valid | first task | budget used |\n\
         |---|---|---|---|---|---|---|---|---|---|"
    );
    let kinds = [("airline", recorded::airline(&fixtures)), ("coding", recorded::coding(&fixtures))];
    for (kind, all) in kinds {
        let all = all.unwrap_or_else(|| panic!("no recorded sessions in {}", fixtures.display()));
        for size in [200, 2_000, 10_000] {
            let set = Set::new(kind, size, &all);
            report(&set, &measured(&set));
        }
    }
}

/// Measures all libraries in turns.
fn measured(set: &Set) -> BTreeMap<String, Row> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut rows = BTreeMap::new();
    for round in 0..ROUNDS {
        let mut turns = [0, 1, 2];
        if round % 2 == 1 {
            turns.reverse();
        }
        for turn in turns {
            match turn {
                0 => ["middle-removal", "truncation", "adaptive"]
                    .iter()
                    .for_each(|name| ours(set, name, &mut rows)),
                1 => {
                    let mut command = Command::new(Path::new(INSTALLED).join("venv/bin/python"));
                    command.arg(here.join("langchain_trim.py")).arg(&set.file).arg(CALLS.to_string());
                    others(&mut command, &mut rows);
                }
                _ => {
                    let mut command = Command::new("node");
                    command.arg(here.join("ai_prune.mjs")).arg(&set.file).arg(CALLS.to_string());
                    command.arg(Path::new(INSTALLED).join("node"));
                    others(&mut command, &mut rows);
                }
            }
        }
    }
    rows
}
