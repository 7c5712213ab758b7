//! The contents of the files of a reading job: code, logs and prose around one line that matters.

use super::SeededRng;

const NOUNS: [&str; 20] = [
    "billing",
    "cursor",
    "gateway",
    "index",
    "invoice",
    "lease",
    "ledger",
    "mailer",
    "parser",
    "pool",
    "queue",
    "replica",
    "router",
    "scheduler",
    "search",
    "session",
    "shard",
    "stream",
    "upload",
    "webhook",
];

const VERBS: [&str; 12] = [
    "acquire", "append", "commit", "decode", "drain", "fetch", "flush", "merge", "release", "resolve",
    "rotate", "verify",
];

const WORDS: [&str; 24] = [
    "the", "a", "when", "after", "before", "request", "worker", "that", "is", "was", "usually", "small",
    "large", "part", "follows", "keeps", "waits", "for", "with", "without", "another", "first", "again",
    "order",
];

pub(super) fn path(rng: &mut SeededRng, at: usize) -> String {
    let folder = rng.pick(&NOUNS);
    match at % 3 {
        0 => format!("src/{folder}/part_{at}.rs"),
        1 => format!("logs/{folder}-{at}.log"),
        _ => format!("docs/{folder}/note-{at}.md"),
    }
}

/// Returns a value, a decision, a ticket, an error or a constraint in turn.
pub(super) fn needle(rng: &mut SeededRng, at: usize) -> String {
    let (noun, other) = (*rng.pick(&NOUNS), *rng.pick(&NOUNS));
    let number = rng.between(1_000, 9_999);
    match at / 3 % 5 {
        0 => format!("The retry limit of the {noun} service is {number} ms."),
        1 => format!("Decision {number}: the {noun} stays beside the {other}, not behind it."),
        2 => format!("OPS-{number} is still open: the {noun} drops the last record of the {other}."),
        3 => format!("error[E{number}]: the {noun} cannot {} the {other}", rng.pick(&VERBS)),
        _ => format!("Never restart the {noun} while the {other} holds lock {number}."),
    }
}

pub(super) fn line(rng: &mut SeededRng, at: usize, line: usize) -> String {
    match at % 3 {
        0 => code(rng, line),
        1 => log(rng, line),
        _ => prose(rng),
    }
}

fn code(rng: &mut SeededRng, line: usize) -> String {
    let name = format!("{}_{}_{}", rng.pick(&VERBS), rng.pick(&NOUNS), rng.pick(&NOUNS));
    let noun = *rng.pick(&NOUNS);
    match line % 12 {
        0 => format!("pub fn {name}({noun}: &mut {noun}::State) -> Result<u64, Error> {{"),
        5 => format!("    const LIMIT: u64 = {};", rng.between(100, 900_000)),
        11 => "}".to_owned(),
        _ => format!("    let {noun} = {name}(&{}, {line});", rng.pick(&NOUNS)),
    }
}

fn log(rng: &mut SeededRng, line: usize) -> String {
    let (noun, verb) = (*rng.pick(&NOUNS), *rng.pick(&VERBS));
    let took = rng.between(1, 900);
    format!(
        "2026-01-07T{:02}:{:02}:{:02}Z INFO {noun}: {verb} took {took} ms",
        line / 3_600,
        line / 60 % 60,
        line % 60
    )
}

fn prose(rng: &mut SeededRng) -> String {
    let count = rng.between(8, 18);
    let mut words: Vec<&str> = (0..count).map(|_| *rng.pick(&WORDS)).collect();
    words.push(rng.pick::<&str>(&NOUNS));
    words.join(" ") + "."
}
