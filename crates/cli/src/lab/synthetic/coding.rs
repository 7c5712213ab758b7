//! A coding agent at work.

use serde_json::json;

use super::SyntheticLogBuilder;
use super::rng::SeededRng;

const NOUNS: [&str; 24] = [
    "buffer", "cursor", "frame", "lease", "ledger", "packet", "page", "parser", "pool", "queue", "range",
    "record", "region", "route", "scope", "segment", "shard", "signal", "slice", "stream", "table", "ticket",
    "token", "window",
];

const VERBS: [&str; 16] = [
    "acquire", "append", "commit", "decode", "drain", "encode", "fetch", "flush", "merge", "probe",
    "rebuild", "release", "resolve", "rotate", "split", "verify",
];

const TASKS: [&str; 6] = [
    "make it return an error instead of a default",
    "it must not allocate in the hot path",
    "rename it, but keep the old name as an alias",
    "write a test for the empty case",
    "find out why it is called twice",
    "move it out of the module, never change its signature",
];

/// The items mentioned so far, for later use.
#[derive(Default)]
struct ReusableItems {
    paths: Vec<String>,
    symbols: Vec<String>,
    errors: Vec<String>,
    numbers: Vec<String>,
}

pub(super) fn write(script: &mut SyntheticLogBuilder, steps: usize) {
    let mut known = ReusableItems::default();
    script.typed(
        "Please clean up the storage layer of this repository. Never touch `build/generated_schema.rs`, always run \
         `make check-all` before you say that something is done, and keep every function under 60 lines."
            .to_owned(),
    );
    let mut until_typed = script.rng.between(8, 30);
    for step in 0..steps.saturating_sub(1) {
        // Not near the end: a task there would leave no steps for the work on it.
        if until_typed == 0 && step + 2 < steps {
            answer(script, &known);
            task(script, &known);
            until_typed = script.rng.between(8, 30);
        } else {
            work(script, &mut known);
            until_typed = until_typed.saturating_sub(1);
        }
    }
    answer(script, &known);
}

fn answer(script: &mut SyntheticLogBuilder, known: &ReusableItems) {
    let said = format!("Done. {}", mention(&mut script.rng, known));
    script.say(said);
}

/// Appends a task. The person's pause before it is often longer than a cache lives.
fn task(script: &mut SyntheticLogBuilder, known: &ReusableItems) {
    script.wait(20, 900);
    let task = *script.rng.pick(&TASKS);
    let text = if known.symbols.is_empty() {
        format!("Go on: {task}.")
    } else {
        format!("Now look at `{}` again: {task}.", script.rng.pick_earlier(&known.symbols))
    };
    script.typed(text);
}

fn work(script: &mut SyntheticLogBuilder, known: &mut ReusableItems) {
    match script.rng.below(100) {
        0..45 => read(script, known),
        45..60 => search(script, known),
        60..80 => change(script, known),
        _ => test(script, known),
    }
}

fn mention(rng: &mut SeededRng, known: &ReusableItems) -> String {
    let mut said = String::new();
    if !known.symbols.is_empty() {
        said.push_str(&format!("It goes back to `{}`. ", rng.pick_earlier(&known.symbols)));
    }
    if !known.errors.is_empty() && rng.chance(20) {
        said.push_str(&format!("Earlier I saw `{}`. ", rng.pick_earlier(&known.errors)));
    }
    if !known.numbers.is_empty() && rng.chance(25) {
        said.push_str(&format!("The limit there was {}. ", rng.pick_earlier(&known.numbers)));
    }
    said
}

fn path(rng: &mut SeededRng, known: &mut ReusableItems) -> String {
    // The first files are always new, since there is nothing to read again yet.
    if known.paths.len() < 3 || rng.chance(60) {
        let (folder, name) = (*rng.pick(&NOUNS), *rng.pick(&NOUNS));
        known.paths.push(format!("crates/{folder}/src/{name}_{}.rs", rng.below(40)));
    }
    rng.pick_earlier(&known.paths).clone()
}

fn symbol(rng: &mut SeededRng) -> String {
    format!("{}_{}_{}", rng.pick(&VERBS), rng.pick(&NOUNS), rng.pick(&NOUNS))
}

fn read(script: &mut SyntheticLogBuilder, known: &mut ReusableItems) {
    let said = mention(&mut script.rng, known);
    let path = path(&mut script.rng, known);
    let lines = script.rng.magnitude(20, 260) as usize;
    let text = code(&mut script.rng, lines, known);
    script.call(format!("{said}I read {path}."), "read", &json!({ "path": path }), text, true);
}

/// Returns lines that look like code. A few of their names and numbers are used again later.
fn code(rng: &mut SeededRng, lines: usize, known: &mut ReusableItems) -> String {
    let mut text = String::new();
    for line in 0..lines {
        let (name, noun, number) = (symbol(rng), *rng.pick(&NOUNS), rng.magnitude(100, 900_000));
        match line % 12 {
            0 => text
                .push_str(&format!("pub fn {name}({noun}: &mut {noun}::State) -> Result<u64, Error> {{\n")),
            5 => text.push_str(&format!("    const LIMIT: u64 = {number};\n")),
            11 => text.push_str("}\n\n"),
            _ => text.push_str(&format!("    let {noun} = {name}(&{}, {line});\n", rng.pick(&NOUNS))),
        }
        if rng.chance(4) {
            // Only some names may come back. A real agent, too, uses few of the names in a file again.
            known.symbols.push(name);
        }
        if line % 12 == 5 && rng.chance(10) {
            known.numbers.push(number.to_string());
        }
    }
    text
}

fn search(script: &mut SyntheticLogBuilder, known: &mut ReusableItems) {
    let rng = &mut script.rng;
    let word = if known.symbols.is_empty() { symbol(rng) } else { rng.pick_earlier(&known.symbols).clone() };
    let hits = rng.magnitude(3, 60);
    let mut text = String::new();
    for _ in 0..hits {
        let (path, line) = (path(rng, known), rng.between(1, 900));
        text.push_str(&format!("{path}:{line}:    {word}(&{})\n", rng.pick(&NOUNS)));
    }
    script.call("Where is it used?".to_owned(), "grep", &json!({ "pattern": word }), text, true);
}

fn change(script: &mut SyntheticLogBuilder, known: &mut ReusableItems) {
    let rng = &mut script.rng;
    let path = path(rng, known);
    let old = if known.symbols.is_empty() { symbol(rng) } else { rng.pick_earlier(&known.symbols).clone() };
    let new = symbol(rng);
    let arguments =
        json!({ "path": path, "old": format!("{old}(&state)"), "new": format!("{new}(&state)?") });
    known.symbols.push(new);
    let said = mention(rng, known);
    script.call(said, "edit", &arguments, format!("{path} changed, 1 replacement"), true);
}

fn test(script: &mut SyntheticLogBuilder, known: &mut ReusableItems) {
    let rng = &mut script.rng;
    let (works, count) = (rng.chance(55), rng.between(4, 120));
    let mut text: String = (0..count).map(|_| format!("test {}::works ... ok\n", symbol(rng))).collect();
    if !works {
        let (path, line) = (path(rng, known), rng.between(1, 900));
        let error =
            format!("error[E0{}]: cannot find value `{}` in this scope", rng.between(100, 799), symbol(rng));
        text.push_str(&format!("{error}\n  --> {path}:{line}:9\n"));
        known.errors.push(error);
    }
    script.call("I run the tests.".to_owned(), "bash", &json!({ "command": "make check-all" }), text, works);
}
