//! Needed later: in view, found again, or lost.

use crate::lab::needed_later::{VerbatimItem, items};
use crate::lab::outcome::{BilledTokens, NeedCounts, ReplayOutcome};
use crate::lab::recording::SessionRecording;
use crate::lab::replay::{ReplayOptions, replay};

use crate::lab::tests::script::{
    Calls, Entry, Gives, Line, Note, Says, Shown, Told, User, prices, recording,
};

/// The last answer needs `48123`, which only the result holds.
const PORT: [Line; 5] = [
    User("look after the gateway"),
    Calls("reading", "gateway"),
    Gives("the gateway port is 48123"),
    User("which port has the gateway"),
    Says("the gateway port is 48123"),
];

fn last_view(recording: &SessionRecording, view: &[Shown], recalls: bool) -> ReplayOutcome {
    let mut policy = Told { views: vec![vec![Entry(0)], view.to_vec()], recalls, ..Told::default() };
    replay(recording, &mut policy, 1_000, &prices(), &ReplayOptions::default())
}

fn needs(in_view: u64, recalled: u64, lost: u64, recalls: u64) -> NeedCounts {
    NeedCounts { in_view, recalled, lost, recalls }
}

#[test]
fn what_is_shown_is_in_view_also_in_a_note_or_in_the_fixed_prompt() {
    let port = recording(&PORT);
    assert_eq!(last_view(&port, &[Entry(0), Entry(1), Entry(2), Entry(3)], true).needs, needs(1, 0, 0, 0));
    assert_eq!(last_view(&port, &[Note("it was 48123."), Entry(3)], true).needs, needs(1, 0, 0, 0));
    let fixed = recording(&PORT).with_fixed_text("ports: 48123, 48124");
    assert_eq!(last_view(&fixed, &[Entry(3)], false).needs, needs(1, 0, 0, 0));
    // As a part of something longer it is something else.
    let longer = last_view(&port, &[Note("it was 481234 or 48123.5 or a48123"), Entry(3)], false);
    assert_eq!(longer.needs, needs(0, 0, 1, 0));
}

#[test]
fn what_is_gone_is_found_by_the_words_that_are_left() {
    let outcome = last_view(&recording(&PORT), &[Entry(3)], true);
    assert_eq!(outcome.needs, needs(0, 1, 0, 1));
}

#[test]
fn without_recall_what_is_gone_is_lost() {
    assert_eq!(last_view(&recording(&PORT), &[Entry(3)], false).needs, needs(0, 0, 1, 0));
}

#[test]
fn a_query_has_nothing_that_is_not_in_view() {
    // The answer's own words would find it; none of them is in view.
    let lines = [
        User("begin"),
        Calls("reading", "something"),
        Gives("the gateway port is 48123"),
        User("please answer"),
        Says("gateway port 48123"),
    ];
    let outcome = last_view(&recording(&lines), &[Entry(3)], true);
    // One recall: the first query has no words at all, the second only those of the question.
    assert_eq!(outcome.needs, needs(0, 0, 1, 1));
}

#[test]
fn the_second_recall_asks_by_the_question_and_the_paths() {
    let lines = [
        User("begin"),
        Calls("reading", "src/gate.rs"),
        Gives("zebra listens on 48123"),
        User("where does the zebra listen"),
        Says("on 48123, of course"),
    ];
    // "on" and "of" are nowhere in view, "course" neither: only the question knows of the zebra.
    let outcome = last_view(&recording(&lines), &[Entry(3)], true);
    assert_eq!(outcome.needs, needs(0, 1, 0, 1));
    let by_path = [
        User("begin"),
        Calls("reading", "src/gate.rs"),
        Gives("in src/gate.rs it says 48123"),
        User("please answer"),
        Calls("48123 then", "src/gate.rs"),
        Gives("done"),
    ];
    let outcome = last_view(&recording(&by_path), &[Note("see src/gate.rs"), Entry(3)], true);
    assert_eq!(outcome.needs, needs(1, 1, 0, 1), "the path is in view, the number is found by it");
}

#[test]
fn several_needs_share_a_recall_and_each_counts_once_an_answer() {
    let lines = [
        User("begin"),
        Calls("reading", "something"),
        Gives("the gateway has port 48123 and key ab12cd34ef in src/gate.rs"),
        User("what of the gateway"),
        Says("the gateway: 48123, 48123, ab12cd34ef, src/gate.rs, and 99999 is new"),
    ];
    assert_eq!(last_view(&recording(&lines), &[Entry(3)], true).needs, needs(0, 3, 0, 1));
}

#[test]
fn what_is_shown_anyway_does_not_stand_in_the_way() {
    let lines = [
        User("begin"),
        Calls("reading", "something"),
        Gives("the gateway listens on 48123"),
        User("which is the gateway"),
        User("the gateway"),
        User("now the gateway"),
        User("say the gateway"),
        User("the gateway please"),
        User("the gateway it is"),
        Says("the gateway has 48123"),
    ];
    // Six messages in view have the words, and are shorter and newer than the one that is meant.
    let view: Vec<Shown> = (3..9).map(Entry).collect();
    assert_eq!(last_view(&recording(&lines), &view, true).needs, needs(0, 1, 0, 1));
}

#[test]
fn a_recall_is_a_call_of_its_own() {
    let found = last_view(&recording(&PORT), &[Entry(3)], true);
    // Requests: 104 written; then 105, of which 100 stood there before; then all of it again with what was found.
    let passage = "<lh:4>\nthe gateway port is 48123".split_whitespace().count() as u64;
    // The other messages that hold "gateway" or "port" are found as well.
    let others = "<lh:2>\nlook after the gateway\n\n<lh:3>\nreading\n[call tool]\nargument: gateway\n\n<lh:5>\nwhich \
                  port has the gateway";
    let others = others.split_whitespace().count() as u64;
    let result = 60 + passage + others;
    let expected = BilledTokens {
        uncached: 0,
        cache_read: 100 + 105,
        cache_write: 104 + 5 + result,
        output: 3 + 60 + 5,
    };
    assert_eq!(found.billed, expected);
    assert_eq!((found.requests, found.context.as_slice()), (2, &[104, 105][..]), "the agent's own calls");
    let ms = 500.0 + result as f64 / 2.0 + 1_000.0;
    assert_eq!(found.waiting_ms, ms.round() as u64);
    let plain = last_view(&recording(&PORT), &[Entry(3)], false);
    assert_eq!(plain.billed, BilledTokens { uncached: 0, cache_read: 100, cache_write: 109, output: 8 });
    assert_eq!(plain.waiting_ms, 0);
}

#[test]
fn what_was_recalled_is_gone_at_the_next_request() {
    let mut lines = PORT.to_vec();
    lines.extend([User("and now"), Says("fine")]);
    let policy = |recalls| Told {
        views: vec![vec![Entry(0)], vec![Entry(3)], vec![Entry(3), Entry(4), Entry(5)]],
        recalls,
        ..Told::default()
    };
    let bill = |recalls| {
        replay(&recording(&lines), &mut policy(recalls), 1_000, &prices(), &ReplayOptions::default())
    };
    let (with, without) = (bill(true), bill(false));
    assert_eq!(with.prefix_breaks, without.prefix_breaks);
    // Without a recall the answer of 5 tokens is read; with one it stands elsewhere and is written again.
    assert_eq!(without.billed.cache_read, 100 + 110);
    assert_eq!(with.billed.cache_read, 100 + 105 + 105);
}

#[test]
fn items_are_what_must_be_exact() {
    let text = "See src/a.rs:12:5 and https://example.org/x?y, (./run.sh). camelCase snake_case a::b 0a1b2c3d v1.2.3 \
                ZFA04Y or and/or 12 of 7; 4096, 30 ms, 64KiB, 12.5%, 2026-01-05.";
    assert_eq!(items_of("paths", text), ["./run.sh", "https://example.org/x", "src/a.rs"]);
    assert_eq!(
        items_of("identifiers", text),
        ["0a1b2c3d", "ZFA04Y", "a::b", "camelCase", "snake_case", "v1.2.3"]
    );
    assert_eq!(items_of("numbers", text), ["12.5%", "2026-01-05", "30 ms", "4096", "64KiB"]);
    let line = "It says `error: no such file` again.";
    assert_eq!(items_of("errorLines", line), ["It says `error: no such file` again", "error: no such file"]);
}

fn items_of(class: &str, text: &str) -> Vec<String> {
    let found = items(text).into_iter().filter(|item: &VerbatimItem| item.class == class);
    found.map(|item| item.text).collect()
}
