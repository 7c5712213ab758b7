//! The targets of `fuzz/`, over recorded traffic and conversations and thousands of worse forms of them. The inputs are
//! the same every time; `just fuzz` looks further, with coverage.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::{Duration, Instant};

use longhaul_fuzz::mutate::{Dice, worse};
use longhaul_fuzz::{TARGETS, seeds};

/// Worse forms for each target; `LONGHAUL_FUZZ_MUTATIONS` says another number.
const MUTATIONS: usize = 3_000;

/// What one input may take, in a build that is not optimised, on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(20);

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/fixtures");

fn there_are_fixtures(test: &str) -> bool {
    let there = Path::new(FIXTURES).join("streams").is_dir();
    if !there {
        eprintln!("SKIPPED the recordings of {test}: there is no {FIXTURES}; its own seeds are used");
        assert!(std::env::var_os("LONGHAUL_REQUIRE_FIXTURES").is_none(), "{FIXTURES} is missing");
    }
    there
}

fn mutations() -> usize {
    let said = std::env::var_os("LONGHAUL_FUZZ_MUTATIONS");
    said.and_then(|count| count.to_str()?.parse().ok()).unwrap_or(MUTATIONS)
}

/// Runs it; what it breaks on is kept where the message says.
fn hold(name: &str, target: longhaul_fuzz::Target, input: &[u8], what: &str) {
    let begun = Instant::now();
    let held = catch_unwind(AssertUnwindSafe(|| target(input))).is_ok();
    if !held || begun.elapsed() > PATIENCE {
        let file = std::env::temp_dir().join(format!("longhaul-fuzz-{name}"));
        std::fs::write(&file, input).unwrap();
        panic!(
            "{name}: {what}: {} after {:?}; the input is in {}",
            if held { "slow" } else { "broken" },
            begun.elapsed(),
            file.display()
        );
    }
}

#[test]
fn what_strangers_write_is_read_or_refused() {
    there_are_fixtures("what_strangers_write_is_read_or_refused");
    std::thread::scope(|scope| {
        for (index, (name, target)) in TARGETS.iter().enumerate() {
            let run = move || {
                let seeds = seeds::of(name, Path::new(FIXTURES));
                if !Path::new(FIXTURES).is_dir() && seeds.is_empty() {
                    return;
                }
                assert!(!seeds.is_empty(), "{name} has nothing to begin with");
                seeds
                    .iter()
                    .enumerate()
                    .for_each(|(at, seed)| hold(name, *target, seed, &format!("seed {at}")));
                let mut dice = Dice::new(index as u64 + 1);
                // Readers call themselves: a small stack shows depth that is not bounded.
                for at in 0..mutations() {
                    hold(name, *target, &worse(&seeds, &mut dice), &format!("mutation {at}"));
                }
            };
            let thread = std::thread::Builder::new().name((*name).to_owned()).stack_size(2 << 20);
            thread.spawn_scoped(scope, run).unwrap();
        }
    });
}

#[test]
fn what_is_nested_ten_thousand_deep_breaks_nothing() {
    let nested = [("[", "]"), ("{\"a\":", "}"), ("[{\"a\":[", "]}]"), ("{a: ", "}"), ("- ", "")];
    let around = [
        "HOLE",
        "data: HOLE\n\n",
        "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":HOLE}]}",
        "{\"model\":\"m\",\"messages\":HOLE}",
        "{\"model\":\"m\",\"input\":[HOLE],\"tools\":HOLE}",
        "{\"type\":\"message_start\",\"message\":{\"content\":HOLE}}",
        "{\"type\":\"response.completed\",\"response\":{\"output\":HOLE}}",
        "{\"choices\":[{\"delta\":{\"content\":HOLE,\"tool_calls\":HOLE}}]}",
        "{\"candidates\":[{\"content\":{\"parts\":HOLE}}]}",
        "{\"message\":{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":HOLE},\"done\":true}",
        "[{\"role\":\"user\",\"content\":HOLE}]",
        "model: { body: { a: HOLE } }",
        "*\nHOLE",
    ];
    for (name, target) in TARGETS {
        for (open, close) in nested {
            let inner = format!("{}1{}", open.repeat(10_000), close.repeat(10_000));
            for shape in around {
                let text = shape.replace("HOLE", &inner);
                hold(name, *target, text.as_bytes(), shape);
                for dialect in 0..3 {
                    hold(name, *target, &[&[dialect, 31], text.as_bytes()].concat(), shape);
                }
            }
        }
    }
}
