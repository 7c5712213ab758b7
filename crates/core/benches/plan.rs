//! The cost of one more step in a session of 10,000 messages.

use std::hint::black_box;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use longhaul_core::budget::Budget;
use longhaul_core::event::{Event, EventBody, FORMAT, StepKind, StepStart};
use longhaul_core::history::History;
use longhaul_core::message::{
    Message, ModelOrigin, ModelStopReason, Part, Role, ToolCall, ToolResult, ToolStatus,
};
use longhaul_core::meter;
use longhaul_core::plan::{CompactionPolicy, Plan, PlanTrigger, plan};
use longhaul_core::strategy;
use longhaul_core::usage::Usage;

const MESSAGES: u64 = 10_000;
const OUTPUT: &str = "test result: ok. 17 passed; 0 failed; finished in 0.42s\n";

fn origin() -> ModelOrigin {
    ModelOrigin { provider: "p".to_owned(), api: "a".to_owned(), model: "m".to_owned() }
}

fn event(seq: u64, body: EventBody) -> Event {
    Event { seq, at: seq, format: FORMAT, body }
}

fn result(seq: u64, call: &str) -> Event {
    let content = vec![Part::text(OUTPUT.repeat(20))];
    let result = ToolResult { call_id: call.into(), status: ToolStatus::Completed, content, truncated: None };
    event(seq, EventBody::ToolFinished { result })
}

fn step(seq: u64, input_tokens: u64) -> Vec<Event> {
    let start = StepStart {
        step_id: format!("s{seq}").into(),
        run_id: "r2".into(),
        purpose: StepKind::Main,
        model: origin(),
        system_hash: String::new(),
        tools_hash: String::new(),
        view_hash: String::new(),
        fixed_tokens: 2_000,
        estimated_input: input_tokens,
        max_output_tokens: 4_096,
        window_tokens: None,
    };
    let call = Part::ToolCall(ToolCall {
        call_id: format!("c{seq}").into(),
        name: "bash".to_owned(),
        arguments: r#"{"command":"cargo test"}"#.to_owned(),
        provider_id: None,
        native: None,
    });
    let message = Message {
        id: format!("m{seq}").into(),
        role: Role::Assistant,
        parts: vec![Part::text("I run the tests again."), call],
        origin: Some(origin()),
    };
    let usage = Usage { input_tokens, output_tokens: 40, ..Usage::default() };
    let step_id = format!("s{seq}");
    vec![
        event(seq, EventBody::StepStarted(Box::new(start))),
        event(
            seq + 1,
            EventBody::AssistantAdded {
                step_id: step_id.as_str().into(),
                message,
                finish: ModelStopReason::ToolCalls,
                cut: None,
            },
        ),
        event(
            seq + 2,
            EventBody::StepFinished {
                step_id: step_id.as_str().into(),
                usage: Some(usage),
                estimated_input: input_tokens,
                envelope: None,
            },
        ),
        event(seq + 3, EventBody::ToolStarted { call_id: format!("c{seq}").as_str().into() }),
    ]
}

/// A long session, but for the outcome of its last call.
fn log() -> Vec<Event> {
    let begun =
        EventBody::SessionStarted { title: None, forked_from: None, imported_from: None, folder: None };
    let typed = Message::user("m3", vec![Part::text("Make the tests pass.")]);
    let mut events = vec![
        event(1, begun),
        event(2, EventBody::RunStarted { run_id: "r2".into() }),
        event(3, EventBody::message_taken(typed)),
    ];
    for at in 0..MESSAGES / 2 {
        let seq = events.len() as u64 + 1;
        if at > 0 {
            let before = seq - 4;
            events.push(result(seq, &format!("c{before}")));
        }
        let seq = events.len() as u64 + 1;
        events.extend(step(seq, 2_000 + at * 370));
    }
    events
}

fn benches(criterion: &mut Criterion) {
    let events = log();
    let Ok(history) = History::fold(&events) else { return };
    let last = history.last_seq();
    let next = result(last + 1, &format!("c{}", last - 3));
    let budget = Budget::new(4_000_000, None);
    let Some(strategy) = strategy::by_name("reactive-overflow") else { return };
    let policy = CompactionPolicy::new(strategy);

    let mut short = History::default();
    for event in &events[..7] {
        let _ = short.apply(event);
    }
    for (name, history, next) in
        [("10,000 messages", &history, next), ("2 messages", &short, result(8, "c4"))]
    {
        let seq = next.seq + 1;
        let message = Message::user(format!("m{seq}"), vec![Part::text(OUTPUT.repeat(20))]);
        let last = event(seq, EventBody::message_taken(message));
        // A copy has no room to grow; a history that lives has: the first event is not measured.
        let copy = || {
            let mut copy = history.clone();
            let _ = copy.apply(&next);
            copy
        };
        criterion.bench_function(&format!("one more event, planned, after {name}"), |bencher| {
            bencher.iter_batched(
                copy,
                |mut history| {
                    let folded = history.apply(&last);
                    let planned = plan(&history, 2_000, &budget, &policy, &PlanTrigger::Routine);
                    assert_eq!((folded, planned), (Ok(()), Plan::Fits));
                    black_box(meter::read(&history, 2_000));
                    // Returned, so that dropping it is not measured.
                    history
                },
                BatchSize::PerIteration,
            );
        });
    }
    let small = Budget::new(100_000, None);
    criterion.bench_function("a compaction planned over 10,000 messages", |bencher| {
        bencher.iter(|| black_box(plan(&history, 2_000, &small, &policy, &PlanTrigger::Routine)));
    });
    criterion.bench_function("fold 10,000 messages", |bencher| {
        bencher.iter(|| black_box(History::fold(&events)));
    });
}

criterion_group!(plans, benches);
criterion_main!(plans);
