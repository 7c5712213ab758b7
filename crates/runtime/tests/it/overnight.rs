//! A night with a model server that fails in every way by turns: each run ends by its answer.

use std::time::Duration;

use longhaul::agent::Agent;
use longhaul_core::error::ErrorCode;
use longhaul_core::event::{EventBody, RunEnd};
use longhaul_providers::scripted::{ModelScript, ScriptedAnswer, ScriptedFault, ScriptedProvider};
use longhaul_testkit::TestSession;

const TURNS: usize = 120;

/// Numbers that look like chance and are the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

fn status(status: u16, retry_after: Option<u64>) -> ScriptedFault {
    ScriptedFault::Status { status, retry_after: retry_after.map(Duration::from_secs) }
}

/// What goes wrong with the call, if anything does.
fn fault(dice: &mut Dice) -> Option<ScriptedFault> {
    Some(match dice.below(20) {
        0 => status(503, None),
        1 => status(502, None),
        2 => status(429, Some(30)),
        3 => status(429, None),
        4 => ScriptedFault::Refuse(Box::new(longhaul_providers::ProviderError::new(
            ErrorCode::Network,
            "cannot connect: connection refused",
        ))),
        5 => ScriptedFault::Disconnect { after: dice.below(6) as usize },
        6 => ScriptedFault::Truncated { after: dice.below(6) as usize },
        7 => ScriptedFault::Empty,
        8 => ScriptedFault::InBand {
            after: dice.below(4) as usize,
            code: ErrorCode::ThirdParty,
            message: "slot is gone".to_owned(),
        },
        _ => return None,
    })
}

fn answers() -> ModelScript {
    ModelScript::closure(|_, index| match index % 3 {
        0 => ScriptedAnswer::text(format!("Step {index}: a look around.")).call("ls", r#"{"path":"."}"#),
        1 => ScriptedAnswer::text(format!("Step {index}: another look.")).call("glob", r#"{"pattern":"*"}"#),
        _ => ScriptedAnswer::text(format!(
            "Answer {index}, which is long enough to break off in the middle of it."
        )),
    })
}

#[tokio::test(start_paused = true)]
async fn every_run_of_a_bad_night_ends_by_its_answer() {
    for (seed, prefill) in [(1, false), (2, true), (3, false), (4, true)] {
        let mut dice = Dice(seed);
        let mut model = ScriptedProvider::new(answers());
        if prefill {
            model = model.with_prefill();
        }
        // Faults are drawn for more calls than the night can need, because every retry is a call, too.
        for call in 0..20_000 {
            if let Some(fault) = fault(&mut dice) {
                model = model.fail_at(call, fault);
            }
        }
        let test = TestSession::with_provider(model, |_, _| {}).await;
        for turn in 0..TURNS {
            let settled = test.session.ask(&format!("question {turn}")).await.unwrap();
            assert_eq!(settled.end, Some(RunEnd::Stop), "seed {seed}, turn {turn}: {:?}", settled.error);
        }
        assert_eq!(test.model.invalid_requests(), 0, "seed {seed}");
        let log = test.log().await;
        let taken = log.iter().filter(|event| matches!(event.body, EventBody::MessagesTaken { .. })).count();
        assert_eq!(taken, TURNS, "seed {seed}: nothing is lost, nothing enters twice");
        let failed = log.iter().filter(|event| matches!(event.body, EventBody::StepFailed { .. })).count();
        assert!(failed > TURNS / 4, "seed {seed}: only {failed} answers broke off");
    }
}

/// A server that is gone for six hours, and a session that is told to wait for as long as it takes.
#[tokio::test(start_paused = true)]
async fn a_session_waits_for_as_long_as_it_is_told_to() {
    let calls = 6 * 60 + 5;
    let mut model = ScriptedProvider::new(ModelScript::always(ScriptedAnswer::text("Good morning.")));
    for call in 0..calls {
        model = model.fail_at(call, status(503, None));
    }
    let patient = |agent: &mut Agent, _: &_| agent.rules.retry.patience_ms = None;
    let test = TestSession::with_provider(model, patient).await;
    let began = tokio::time::Instant::now();
    assert_eq!(test.session.ask("are you there?").await.unwrap().end, Some(RunEnd::Stop));
    let hours = began.elapsed().as_secs_f64() / 3_600.0;
    assert!((6.0..6.2).contains(&hours), "{hours} h");
    let events = test.log().await.len();
    assert!(events < 12, "{events} events: an outage of a night is no log of a night");
}
