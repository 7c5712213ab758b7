//! Answers that repeat one passage without end, through the real driver.

use longhaul_core::event::RunEnd;
use longhaul_providers::ModelRequest;
use longhaul_providers::scripted::{ModelScript, ScriptedAnswer, ScriptedProvider};
use longhaul_testkit::TestSession;

const PASSAGE: &str = "I will read the next file and list its ticket.\n";

async fn world(answer: impl Fn(&ModelRequest) -> ScriptedAnswer + Send + Sync + 'static) -> TestSession {
    let script = ModelScript::closure(move |request: &ModelRequest, _| Some(answer(request)));
    TestSession::with_model(ScriptedProvider::new(script).window(8_192).with_prefill()).await
}

fn is_warned(request: &ModelRequest) -> bool {
    request.messages.iter().any(|message| message.text().contains("repeated the same passage"))
}

#[tokio::test]
async fn a_model_that_repeats_itself_is_warned_and_goes_on() {
    for reasons in [false, true] {
        let world = world(move |request| match (is_warned(request), reasons) {
            (true, _) => ScriptedAnswer::text("The ticket is 17."),
            (false, true) => ScriptedAnswer::reasoning(PASSAGE.repeat(2_000)).then("never said"),
            (false, false) => ScriptedAnswer::text(PASSAGE.repeat(2_000)),
        })
        .await;
        let outcome = world.session.ask("Which ticket?").await.unwrap();
        assert_eq!(outcome.end, Some(RunEnd::Stop), "reasons: {reasons}");
        let calls = world.model.log();
        assert_eq!(calls.len(), 2);
        let request = calls[1].request.as_ref().unwrap();
        let said: usize = request.messages.iter().map(|message| message.text().len()).sum();
        assert!(said < 1_000, "the repetition is sent back: {said} bytes");
    }
}

#[tokio::test]
async fn a_model_that_repeats_itself_again_ends_its_run() {
    let world = world(|_| ScriptedAnswer::text(PASSAGE.repeat(2_000))).await;
    let outcome = world.session.ask("Which ticket?").await.unwrap();
    assert_eq!(outcome.end, Some(RunEnd::LoopDetected));
    assert_eq!(world.model.log().len(), 2);
}
