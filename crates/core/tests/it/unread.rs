//! What a tool has just said reaches the model, as long as the window has room for it.

use longhaul_core::budget::StrategyTrigger;
use longhaul_core::event::{EventBody, RunEnd, ViewOperation};
use longhaul_core::message::Part;
use longhaul_core::plan::{CompactionPolicy, TokenPrices};
use longhaul_core::strategy;

use crate::stage::{Stage, Summariser, call, settings};

const SONNET: TokenPrices =
    TokenPrices { input: 3.0, cache_read: 0.3, cache_write: 3.75, output: 15.0, cache_life_ms: 300_000 };

/// A session that reads one file in each turn.
fn reads(policy: CompactionPolicy, window: u64, tokens: usize) -> Stage {
    let script = |at: usize| match at % 2 {
        0 => vec![call("read", &format!("{{\"path\":\"src/{at}.rs\"}}"))],
        _ => vec![Part::text(format!("I have read it: {at}."))],
    };
    let mut stage = Stage::new(settings(window, 1_200, policy), Box::new(script));
    stage.tool_output = Box::new(move |call| format!("{} {}", call.arguments, " word".repeat(tokens)));
    stage
}

/// How many results an edit took away before the model had seen them.
fn taken_unread(stage: &Stage) -> usize {
    let mut answered = 0;
    let mut taken = 0;
    for event in &stage.log {
        match &event.body {
            EventBody::AssistantAdded { .. } => answered = event.seq,
            EventBody::ViewEdited(edit) => {
                let is_result = |op: &&ViewOperation| op.range().to > answered;
                taken += edit.ops.iter().filter(is_result).count();
            }
            _ => {}
        }
    }
    taken
}

#[test]
fn a_line_below_the_window_takes_nothing_unread() {
    for name in strategy::NAMES {
        for (share, window, tokens) in
            [(Some(0.5), 8_192, 1_900), (Some(0.3), 8_192, 1_900), (Some(0.4), 16_384, 4_000)]
        {
            for summariser in [Summariser::Good, Summariser::Fails] {
                let policy = CompactionPolicy {
                    trigger: share.map(StrategyTrigger::Share),
                    prices: (*name == "adaptive").then_some(SONNET),
                    ..CompactionPolicy::new(strategy::by_name(name).expect("a strategy of that name"))
                };
                let mut stage = reads(policy, window, tokens);
                stage.summariser = summariser;
                for turn in 0..30 {
                    assert_eq!(stage.say(&format!("read the next one, {turn}")), RunEnd::Stop);
                }
                assert!(!stage.edits().is_empty(), "{name} {share:?} {window}");
                assert_eq!(taken_unread(&stage), 0, "{name} {share:?} {window} {summariser:?}");
            }
        }
    }
}

/// A pasted text that leaves little room: the result is cut to what there is, not shown and taken away again.
#[test]
fn a_result_is_cut_to_what_stays_beside_a_long_message() {
    let policy = CompactionPolicy::new(strategy::by_name("adaptive").expect("adaptive"));
    let mut stage = reads(policy, 8_192, 3_000);
    for turn in 0..6 {
        let pasted = format!("and this one, {turn}: {}", " why".repeat(1_600));
        assert_eq!(stage.say(&pasted), RunEnd::Stop, "{:?}", stage.error());
    }
    assert!(!stage.edits().is_empty());
    assert_eq!(taken_unread(&stage), 0);
}

/// With less than the reserve left beside it a message still gets an answer.
#[test]
fn a_message_that_leaves_a_little_room_is_answered() {
    let policy = CompactionPolicy::new(strategy::by_name("adaptive").expect("adaptive"));
    let mut stage = Stage::chat(settings(8_192, 1_200, policy), |_| "Yes.".to_owned());
    let mut words = 2_000;
    let said = loop {
        let text = " why".repeat(words);
        let end = stage.say(&text);
        if end != RunEnd::Stop || words > 5_000 {
            break words;
        }
        words += 100;
    };
    let largest = stage.requests.iter().max().copied().unwrap_or(0);
    assert!(largest > 6_500, "{largest} tokens at most, with {said} words");
    assert!(largest < 8_192, "{largest}");
}
