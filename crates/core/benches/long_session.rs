//! Benchmarks of a long session: folding its log, planning a compaction, writing the extract, reporting what is kept.
//!
//! The sizes are those of sessions that ran for days: 25 MB in 5,000 messages by default, 500 MB with
//! `LONGHAUL_BENCH_MB=500`.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use longhaul_core::budget::Budget;
use longhaul_core::event::{Event, EventBody, FORMAT};
use longhaul_core::history::History;
use longhaul_core::message::{
    Message, ModelOrigin, ModelStopReason, Part, Role, ToolCall, ToolResult, ToolStatus,
};
use longhaul_core::pinned_facts::PinnedFacts;
use longhaul_core::plan::{CompactionPolicy, Plan, PlanTrigger, plan};
use longhaul_core::retention_report;
use longhaul_core::strategy;

/// Mean length of a message, in bytes.
const MESSAGE_BYTES: usize = 5_000;

const NOUNS: &[&str] = &[
    "lease", "cursor", "mailer", "pool", "batch", "window", "ledger", "parser", "socket", "index", "queue",
    "shard", "replica", "token", "planner", "session", "header", "payload", "digest", "worker", "journal",
    "segment",
];
const VERBS: &[&str] = &[
    "reads", "merges", "drops", "flushes", "renames", "checks", "splits", "retries", "sends", "holds",
    "counts", "closes", "opens", "moves", "keeps", "loads",
];

/// A small generator of pseudo-random numbers, so that the log is the same every time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }

    fn word(&mut self, words: &[&'static str]) -> &'static str {
        words[self.below(words.len())]
    }

    fn sentence(&mut self) -> String {
        let (noun, verb, other) = (self.word(NOUNS), self.word(VERBS), self.word(NOUNS));
        format!("The {noun} {verb} the {other} after {} of {} tries.", self.below(90), self.below(900))
    }

    fn line(&mut self) -> String {
        let (noun, other, number) = (self.word(NOUNS), self.word(NOUNS), self.below(100_000));
        match self.below(8) {
            0 => format!("    let {noun}_{other} = self.{noun}.{other}(&{noun}, {number})?;"),
            1 => format!(
                "2026-03-07T10:{:02}:{:02}Z INFO {noun}: {other} done in {number} ms",
                number % 60,
                number % 59
            ),
            2 => format!("src/{noun}/{other}_{}.rs:{number}: warning: unused {noun}", number % 700),
            3 => format!("error[E{:04}]: cannot {} the {other} of `{noun}`", number % 900, self.word(VERBS)),
            4 => format!("{noun}-{other}: {number}"),
            5 => format!("test {noun}::{other}_{} ... ok", number % 3_000),
            _ => self.sentence(),
        }
    }

    fn text(&mut self, bytes: usize) -> String {
        let mut text = String::new();
        while text.len() < bytes {
            text.push_str(&self.line());
            text.push('\n');
        }
        text
    }
}

fn event(seq: u64, body: EventBody) -> Event {
    Event { seq, at: seq, format: FORMAT, body }
}

/// A session of about so many bytes: in each turn a person asks for something, and the agent works in 12 steps.
fn log(bytes: usize) -> Vec<Event> {
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    let begun =
        EventBody::SessionStarted { title: None, forked_from: None, imported_from: None, folder: None };
    let mut events = vec![event(1, begun)];
    let messages = bytes / MESSAGE_BYTES;
    let mut count = 0;
    while count < messages {
        let seq = events.len() as u64 + 1;
        let asked: Vec<String> = (0..6).map(|_| dice.sentence()).collect();
        let typed = Message::user(format!("m{seq}"), vec![Part::text(format!("Please {}", asked.join(" ")))]);
        events.push(event(seq, EventBody::message_taken(typed)));
        count += 1;
        for _ in 0..12 {
            let seq = events.len() as u64 + 1;
            let path = format!("src/{}/{}.rs", dice.word(NOUNS), dice.word(NOUNS));
            let call = Part::ToolCall(ToolCall {
                call_id: format!("c{seq}").into(),
                name: "read".to_owned(),
                arguments: format!(r#"{{"path":"{path}"}}"#),
                provider_id: None,
                native: None,
            });
            let said = vec![Part::text(dice.text(600)), call];
            let message = Message {
                id: format!("m{seq}").into(),
                role: Role::Assistant,
                parts: said,
                origin: Some(ModelOrigin { provider: "p".into(), api: "a".into(), model: "m".into() }),
            };
            let step_id = format!("s{seq}").as_str().into();
            events.push(event(
                seq,
                EventBody::AssistantAdded { step_id, message, finish: ModelStopReason::ToolCalls, cut: None },
            ));
            let content = vec![Part::text(dice.text(2 * MESSAGE_BYTES - 600))];
            let call_id = format!("c{seq}").into();
            let result = ToolResult { call_id, status: ToolStatus::Completed, content, truncated: None };
            events.push(event(seq + 1, EventBody::ToolFinished { result }));
            count += 2;
        }
    }
    events
}

#[expect(clippy::disallowed_methods, reason = "whoever runs it says how long the session is")]
fn benches(criterion: &mut Criterion) {
    let megabytes = std::env::var("LONGHAUL_BENCH_MB").ok().and_then(|text| text.parse().ok()).unwrap_or(25);
    let events = log(megabytes * 1_000_000);
    let mut group = criterion.benchmark_group(format!("{megabytes} MB"));
    group.sample_size(10);
    group.bench_function("fold", |bencher| bencher.iter(|| black_box(History::fold(&events))));
    let Ok(history) = History::fold(&events) else { return };
    let Some(strategy) = strategy::by_name("adaptive") else { return };
    let policy = CompactionPolicy::new(strategy);
    let budget = Budget::new(128_000, None);
    group.bench_function("plan", |bencher| {
        bencher.iter(|| black_box(plan(&history, 2_000, &budget, &policy, &PlanTrigger::Routine)));
    });
    let Plan::Summarise(draft) = plan(&history, 2_000, &budget, &policy, &PlanTrigger::Routine) else {
        return;
    };
    group.bench_function("extract", |bencher| bencher.iter(|| black_box(draft.finish_extractive(&history))));
    let Ok(edit) = draft.finish_extractive(&history) else { return };
    let mut edited = history.clone();
    let edit_event = event(history.last_seq() + 1, EventBody::ViewEdited(Box::new(edit)));
    group.bench_function("commit", |bencher| {
        bencher.iter_batched(
            || history.clone(),
            |mut history| {
                black_box(history.apply(&edit_event)).ok();
                history
            },
            criterion::BatchSize::PerIteration,
        );
    });
    edited.apply(&edit_event).ok();
    group
        .bench_function("ledger", |bencher| bencher.iter(|| black_box(PinnedFacts::read(history.entries()))));
    group.bench_function("survival", |bencher| {
        let before: Vec<&Message> = history.view().iter().map(|item| &*item.message).collect();
        let after: String = edited.view().iter().map(|item| item.message.text()).collect();
        bencher.iter(|| black_box(retention_report::survey(&before, &after, true)));
    });
    group.finish();
}

criterion_group!(long_session, benches);
criterion_main!(long_session);
