//! The bill of a replay, to the token.

use crate::lab::outcome::{BilledTokens, ReplayOutcome};
use crate::lab::policy::SideCall;
use crate::lab::price::PriceTable;
use crate::lab::recording::{SessionRecording, text_of};
use crate::lab::replay::{ReplayOptions, replay};
use longhaul_core::event::{EditKind, EditReason, EventBody, ViewEdit, ViewOperation};
use longhaul_core::ids::LogRange;

use crate::lab::tests::script::{
    Calls, Entry, Gives, Line, Note, Says, Told, User, counter, prices, recording, timed,
};

/// Messages of 3, 2, 4, 1, 2 and 1 tokens: requests of 103, 109 and 112.
const TALK: [Line; 6] = [User("a b c"), Says("d e"), User("f g h i"), Says("j"), User("k l"), Says("m")];

fn told(recording: &SessionRecording, policy: &mut Told, prices: &PriceTable) -> ReplayOutcome {
    replay(recording, policy, 1_000, prices, &ReplayOptions::default())
}

fn billed(uncached: u64, cache_read: u64, cache_write: u64, output: u64) -> BilledTokens {
    BilledTokens { uncached, cache_read, cache_write, output }
}

#[test]
fn what_was_sent_before_is_read_and_the_rest_is_written() {
    let mut policy = Told::default();
    let outcome = told(&recording(&TALK), &mut policy, &prices());
    assert_eq!(outcome.context, [103, 109, 112]);
    // 103 written; 105 read and 4 written; 110 read and 2 written.
    assert_eq!(outcome.billed, billed(0, 215, 109, 4));
    assert!((outcome.cost - (21.5 + 136.25 + 20.0) / 1e6).abs() < 1e-12, "{}", outcome.cost);
    assert!((outcome.prefix_hit_ratio - 215.0 / 324.0).abs() < 1e-12);
    assert_eq!(
        (outcome.requests, outcome.prefix_breaks, outcome.overflows, outcome.side_calls),
        (3, 0, 0, 0)
    );
    assert_eq!(policy.seen, [(0, 0, false, None), (103, 2, true, None), (109, 1, true, None)]);
}

#[test]
fn an_answer_that_is_not_cached_is_written_when_it_comes_back() {
    let options = ReplayOptions { answers_are_cached: false, ..ReplayOptions::default() };
    let outcome = replay(&recording(&TALK), &mut Told::default(), 1_000, &prices(), &options);
    assert_eq!(outcome.billed, billed(0, 103 + 109, 103 + 6 + 3, 4));
}

#[test]
fn who_takes_nothing_for_writing_bills_plain_input() {
    let free = PriceTable { cache_write: 1.0, ..prices() };
    assert_eq!(told(&recording(&TALK), &mut Told::default(), &free).billed, billed(109, 215, 0, 4));
}

#[test]
fn short_prefixes_are_neither_kept_nor_read() {
    let bill = |prices| told(&recording(&TALK), &mut Told::default(), &prices).billed;
    assert_eq!(bill(prices_from(105)), billed(103, 215, 6, 4), "103 are too few to be written, 105 are read");
    assert_eq!(bill(prices_from(106)), billed(103, 110, 111, 4), "105 are too few to be read");
    assert_eq!(bill(prices_from(113)), billed(103 + 109 + 112, 0, 0, 4));
}

fn prices_from(cache_minimum_tokens: u64) -> PriceTable {
    PriceTable { cache_minimum_tokens, ..prices() }
}

#[test]
fn a_prefix_is_forgotten_after_its_life() {
    // Requests at 1, 300,001 and 600,002 ms: the second just in time, the third too late.
    let times = [1, 10, 300_001, 300_010, 600_002, 600_003];
    let recording = timed(&TALK, &times);
    let mut policy = Told::default();
    let outcome = told(&recording, &mut policy, &prices());
    assert_eq!(outcome.billed, billed(0, 105, 103 + 4 + 112, 4));
    let warm: Vec<(bool, Option<u64>)> = policy.seen.iter().map(|seen| (seen.2, seen.3)).collect();
    assert_eq!(warm, [(false, Some(1)), (true, Some(300_001)), (false, Some(600_002))]);
    let never = PriceTable { cache_life_ms: 0, ..prices() };
    assert_eq!(told(&recording, &mut Told::default(), &never).billed, billed(324, 0, 0, 4));
}

#[test]
fn after_an_edit_only_the_common_prefix_is_read() {
    let views = vec![vec![Entry(0)], vec![Entry(0), Entry(1), Entry(2)], vec![Entry(0), Note("n"), Entry(4)]];
    let mut policy = Told { views, edits: vec![None, None, Some(true)], ..Told::default() };
    let outcome = told(&recording(&TALK), &mut policy, &prices());
    // The last request has 106 tokens, of which 103 stand where they stood.
    assert_eq!(outcome.context, [103, 109, 106]);
    assert_eq!(outcome.billed, billed(0, 105 + 103, 103 + 4 + 3, 4));
    assert_eq!((outcome.prefix_breaks, outcome.compactions, outcome.prunes), (1, 1, 0));
    assert_eq!(outcome.edits, [2]);
    assert_eq!(outcome.peak_tokens, 109);
}

#[test]
fn side_calls_are_billed_and_waited_for() {
    let call = SideCall { cached_tokens: 40, fresh_tokens: 6_000, output_tokens: 30, waits: true };
    let unseen = SideCall { waits: false, ..call };
    let mut policy = Told { side_calls: vec![vec![], vec![call, unseen]], ..Told::default() };
    let outcome = told(&recording(&TALK), &mut policy, &prices());
    assert_eq!(outcome.billed, billed(12_000, 215 + 80, 109, 4 + 60));
    // Half a second, three to read, half a second to write.
    assert_eq!((outcome.side_calls, outcome.waiting_ms), (2, 4_000));
    // Before the first request nothing is cached.
    let mut early = Told { side_calls: vec![vec![call]], ..Told::default() };
    let outcome = told(&recording(&TALK), &mut early, &prices());
    assert_eq!(outcome.billed, billed(6_040, 215, 109, 4 + 30));
    assert_eq!(outcome.waiting_ms, 4_020);
}

#[test]
fn a_request_beyond_the_usable_room_is_an_overflow() {
    // A window of 218 keeps half for the answer.
    let outcome = replay(&recording(&TALK), &mut Told::default(), 218, &prices(), &ReplayOptions::default());
    assert_eq!((outcome.overflows, outcome.peak_tokens, outcome.window), (1, 112, 218));
}

#[test]
fn what_left_the_view_is_surveyed() {
    let lines =
        [User("never touch src/main.rs"), Calls("reading", "src/a.rs"), Gives("fn my_name"), Says("ok")];
    let views = vec![vec![Entry(0)], vec![Note("about src/main.rs")]];
    let survey = |recalls| {
        let mut policy =
            Told { views: views.clone(), edits: vec![None, Some(true)], recalls, ..Told::default() };
        told(&recording(&lines), &mut policy, &prices()).survival
    };
    let survival = survey(true);
    let paths = survival["paths"];
    assert_eq!((paths.verbatim, paths.recoverable_by_model, paths.lost), (1, 1, 0), "src/main.rs, src/a.rs");
    assert_eq!(survival["identifiers"].recoverable_by_model, 1, "what never was in view");
    assert_eq!(survival["userConstraints"].recoverable_by_model, 1);
    assert_eq!(survey(false)["identifiers"].recoverable_by_user, 1);
}

#[test]
fn a_recording_holds_what_happened_whatever_was_shown() {
    let plain = recording(&TALK);
    let mut events = plain.events.clone();
    let edit = ViewEdit {
        id: "e8".into(),
        base_view_hash: String::new(),
        ops: vec![ViewOperation::Drop { range: LogRange { from: 2, to: 3 } }],
        kind: EditKind::Compaction,
        strategy: "truncation".to_owned(),
        reason: EditReason::Requested,
        trigger_tokens: 0,
        original_tokens: 0,
        compressed_tokens: 0,
        original_bound: 0,
        compressed_bound: 0,
        original_messages: 0,
        compressed_messages: 0,
        why: String::new(),
        usage: None,
        summary: None,
    };
    events.push(crate::lab::tests::script::event(8, 0, EventBody::ViewEdited(Box::new(edit))));
    let edited =
        SessionRecording::of("small", "by hand", events, crate::lab::tests::script::FIXED, counter())
            .unwrap();
    assert_eq!(edited.peak_tokens(), 112);
    let tokens =
        |recording: &SessionRecording| recording.entries.iter().map(|entry| entry.tokens).collect::<Vec<_>>();
    assert_eq!(tokens(&edited), [3, 2, 4, 1, 2, 1]);
    assert_eq!(tokens(&edited), tokens(&plain));
    assert_eq!(plain.answers().collect::<Vec<_>>(), [1, 3, 5]);
    assert!(plain.entries.iter().all(|entry| entry.at.is_none()));
}

#[test]
fn arguments_stand_without_escapes() {
    let recording = recording(&[User("go"), Calls("I write", "one\nlet my_name = \"x\";"), Gives("done")]);
    let text = text_of(&recording.entries[1].message);
    assert_eq!(text, "I write\n[call tool]\nargument: one\nlet my_name = \"x\";\n");
    assert_eq!(&*recording.entries[1].text, text);
    assert_eq!(&*recording.entries[2].text, "done");
}
