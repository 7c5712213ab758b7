//! Requests that the server refuses as too long: each is made smaller until it is taken.

use longhaul_core::error::ErrorCode;
use longhaul_core::event::{EventBody, RunEnd};
use longhaul_core::message::Part;
use longhaul_core::plan::CompactionPolicy;
use longhaul_core::run::RunSettings;
use longhaul_core::strategy;

use crate::stage::{MisjudgedServer, Stage, call, settings};

const WINDOW: u64 = 32_000;

fn with(name: &str) -> RunSettings {
    settings(WINDOW, 500, CompactionPolicy::new(strategy::by_name(name).expect("a strategy of that name")))
}

fn refusals(stage: &Stage) -> usize {
    let is_refusal =
        |body: &EventBody| matches!(body, EventBody::StepFailed { code: ErrorCode::ContextOverflow, .. });
    stage.log.iter().filter(|event| is_refusal(&event.body)).count()
}

/// The most refusals in a row.
fn in_a_row(stage: &Stage) -> usize {
    let mut most = 0;
    let mut now = 0;
    for event in &stage.log {
        match event.body {
            EventBody::StepFailed { .. } => now += 1,
            EventBody::AssistantAdded { .. } => now = 0,
            _ => continue,
        }
        most = most.max(now);
    }
    most
}

/// A window that is 30 % smaller than believed and a tokenizer that counts 10 % more; and worse.
#[test]
fn no_run_ends_because_the_window_is_smaller_than_believed() {
    for name in strategy::NAMES {
        for (window, percent) in [(WINDOW * 7 / 10, 110), (WINDOW / 2, 150), (WINDOW / 5, 100)] {
            for says_figures in [true, false] {
                let mut stage = Stage::chat(with(name), |at| format!("{at}:{}", " word".repeat(700)));
                stage.server = Some(MisjudgedServer { window, percent, says_figures });
                for turn in 0..40 {
                    let end = stage.say(&format!("question {turn}"));
                    assert_eq!(
                        end,
                        RunEnd::Stop,
                        "{name}, {window} × {percent} %, turn {turn}: {:?}",
                        stage.error()
                    );
                }
                // A strategy that acts at half the window meets no other refusal than that.
                assert!(refusals(&stage) > 0 || window > WINDOW / 5, "{name}: the server never refused");
                assert!(in_a_row(&stage) <= 5, "{name}: {} refusals in a row", in_a_row(&stage));
            }
        }
    }
}

/// The same in one long turn of tool calls, where everything but the last step can go.
#[test]
fn a_long_turn_goes_on_after_refusals() {
    for says_figures in [true, false] {
        let script = |at: usize| match at {
            0..30 => vec![call("read", r#"{"path":"a"}"#)],
            _ => vec![Part::text("done")],
        };
        let mut stage = Stage::new(with("adaptive"), Box::new(script));
        stage.tool_output = Box::new(|_| "a line of the file\n".repeat(300));
        stage.server = Some(MisjudgedServer { window: WINDOW * 7 / 10, percent: 110, says_figures });
        assert_eq!(stage.say("read them all"), RunEnd::Stop, "{:?}", stage.error());
        assert!(refusals(&stage) > 0);
    }
}

#[test]
fn what_must_stay_and_is_refused_ends_the_run() {
    let mut settings = with("adaptive");
    settings.policy.cuts_user_messages = false;
    let mut stage = Stage::chat(settings, |_| "yes".to_owned());
    assert_eq!(stage.say("hello"), RunEnd::Stop);
    stage.server = Some(MisjudgedServer { window: 1_000, percent: 100, says_figures: true });
    assert_eq!(stage.say(&" word".repeat(4_000)), RunEnd::Error);
    let (code, message) = stage.error().expect("an error");
    assert_eq!(code, ErrorCode::ContextOverflow);
    assert!(message.contains("prompt is too long"), "{message}");
    assert!(refusals(&stage) <= 2, "the same request is not sent twice");
    stage.server = None;
    assert_eq!(stage.say("hello again"), RunEnd::Stop, "a session does not end with it");
}

#[test]
fn a_refused_message_keeps_most_of_what_fits() {
    let mut stage = Stage::chat(with("reactive-overflow"), |_| "yes".to_owned());
    stage.server = Some(MisjudgedServer { window: 16_000, percent: 100, says_figures: true });
    assert_eq!(stage.say(&" word".repeat(15_800)), RunEnd::Stop, "{:?}", stage.error());
    assert_eq!(refusals(&stage), 1);
    let sent = *stage.requests.last().unwrap();
    // 12,000 of the window are usable beside the room for the answer.
    assert!((7_000..12_000).contains(&sent), "{sent}");
}
