//! The meter against what a server reported: every call of a recorded session, read before it was made.

use std::sync::Arc;

use longhaul::import::import;
use longhaul_core::estimate::{
    CountAccuracy, MessageTokenCounter, TextCounter, TokensByScript, chars_div_4, text_groups,
};
use longhaul_core::event::{Event, EventBody, FORMAT, StepKind, StepStart, ViewOperation};
use longhaul_core::history::History;
use longhaul_core::ids::{LogRange, StepId};
use longhaul_core::message::ModelOrigin;
use longhaul_core::meter;

/// A way to count texts, by name.
#[derive(Debug)]
struct Rule {
    name: &'static str,
    kind: CountAccuracy,
    groups: fn(&str) -> TokensByScript,
}

impl TextCounter for Rule {
    fn groups(&self, text: &str) -> TokensByScript {
        (self.groups)(text)
    }

    fn name(&self) -> &str {
        self.name
    }

    fn kind(&self) -> CountAccuracy {
        self.kind
    }
}

/// gemini-cli's rule: a quarter of a token for each ASCII character, 1.3 for each other; from 100,000 characters on
/// a quarter for all.
fn gemini_cli(text: &str) -> TokensByScript {
    if text.len() > 100_000 {
        return TokensByScript::of(chars_div_4(text));
    }
    let ascii = text.chars().filter(char::is_ascii).count() as f64;
    let others = text.chars().count() as f64 - ascii;
    TokensByScript::of((ascii * 0.25 + others * 1.3).ceil() as u64)
}

fn bytes_div_4(text: &str) -> TokensByScript {
    TokensByScript::of((text.len() as u64).div_ceil(4))
}

/// Errors of one way to count, in percent of what was reported.
#[derive(Default)]
struct Errors {
    all: Vec<f64>,
    after_edit: Vec<f64>,
}

impl Errors {
    fn percentile(errors: &[f64], percent: usize) -> f64 {
        let mut errors = errors.to_vec();
        errors.sort_by(f64::total_cmp);
        errors.get((errors.len().max(1) - 1) * percent / 100).copied().unwrap_or(f64::NAN)
    }
}

/// The recorded events with the starts of run and steps, which no recording has; edits name their ranges anew.
fn with_starts(bodies: Vec<EventBody>) -> Vec<Event> {
    let mut events: Vec<Event> = Vec::new();
    let mut moved = vec![0];
    for (old, mut body) in (1_u64..).zip(bodies) {
        if let EventBody::AssistantAdded { step_id, .. } = &body {
            push(&mut events, EventBody::StepStarted(Box::new(start(step_id))));
        }
        if let EventBody::ViewEdited(edit) = &mut body {
            for op in &mut edit.ops {
                if let ViewOperation::Replace { range, .. } = op {
                    *range = LogRange { from: moved[range.from as usize], to: moved[range.to as usize] };
                }
            }
        }
        push(&mut events, body);
        moved.push(events.len() as u64);
        if old == 1 {
            push(&mut events, EventBody::RunStarted { run_id: "r".into() });
        }
    }
    events
}

fn push(events: &mut Vec<Event>, body: EventBody) {
    events.push(Event { seq: events.len() as u64 + 1, at: 0, format: FORMAT, body });
}

fn start(step: &StepId) -> StepStart {
    StepStart {
        step_id: step.clone(),
        run_id: "r".into(),
        purpose: StepKind::Main,
        model: ModelOrigin { provider: "p".into(), api: "a".into(), model: "m".into() },
        system_hash: String::new(),
        tools_hash: String::new(),
        view_hash: String::new(),
        fixed_tokens: 0,
        estimated_input: 0,
        max_output_tokens: 0,
        window_tokens: None,
    }
}

/// Reads the meter before every call whose usage was recorded, the first one of the session left out.
fn measure(events: &[Event], counter: MessageTokenCounter, anchored: bool) -> Errors {
    let mut history = History::new(counter);
    let mut errors = Errors::default();
    let mut before = None;
    let mut fresh_edit = false;
    for event in events {
        match &event.body {
            EventBody::StepStarted(start) => {
                let reading = meter::read(&history, start.fixed_tokens);
                let has_anchor = history.anchor().is_some();
                let sum = start.fixed_tokens + history.view_tokens() + history.overhead_tokens();
                before = has_anchor.then_some(if anchored { reading.total } else { sum });
            }
            EventBody::StepFinished { usage: Some(usage), .. } if usage.input_tokens > 0 => {
                if let Some(read) = before.take() {
                    let error = read.abs_diff(usage.input_tokens) as f64 * 100.0 / usage.input_tokens as f64;
                    errors.all.push(error);
                    if std::mem::take(&mut fresh_edit) {
                        errors.after_edit.push(error);
                    }
                }
            }
            EventBody::ViewEdited(_) => fresh_edit = true,
            _ => {}
        }
        history.apply(event).expect("an import is a log");
    }
    errors
}

#[test]
fn next_input_of_a_recorded_session() {
    let Some(folder) = crate::fixtures("next_input_of_a_recorded_session") else { return };
    let bytes = std::fs::read(folder.join("trajectories/badlogic__pi-mono/before-compaction.jsonl")).unwrap();
    let session = import(&bytes, 0).unwrap().sessions.remove(0);
    let events = with_starts(session.events.into_iter().map(|(_, body)| body).collect());
    let rule = |name, kind, groups| MessageTokenCounter::new(Arc::new(Rule { name, kind, groups }));
    let counters = [
        ("structured, calibrated", rule("s", CountAccuracy::Estimated, text_groups), true),
        ("structured, not calibrated", rule("u", CountAccuracy::Exact, text_groups), true),
        ("bytes/4 with an anchor", rule("b", CountAccuracy::Exact, bytes_div_4), true),
        ("gemini-cli's rule with an anchor", rule("g", CountAccuracy::Exact, gemini_cli), true),
        ("bytes/4, summed", rule("b", CountAccuracy::Exact, bytes_div_4), false),
        ("gemini-cli's rule, summed", rule("g", CountAccuracy::Exact, gemini_cli), false),
    ];
    println!("{:34} {:>6} {:>8} {:>8}", "next input of the pi session", "calls", "median", "p95");
    let mut figures = Vec::new();
    for (name, counter, anchored) in counters {
        let errors = measure(&events, counter, anchored);
        let (median, p95) = (Errors::percentile(&errors.all, 50), Errors::percentile(&errors.all, 95));
        let edited = Errors::percentile(&errors.after_edit, 95);
        println!(
            "{name:34} {:6} {median:7.3}% {p95:7.3}%   after {} edits p95 {edited:.1}%",
            errors.all.len(),
            errors.after_edit.len()
        );
        figures.push((median, p95, errors.all.len()));
    }
    let (median, p95, calls) = figures[0];
    assert!(calls > 300, "{calls} calls");
    assert!(median <= 0.2 && p95 <= 3.0, "median {median}, p95 {p95}");
}
