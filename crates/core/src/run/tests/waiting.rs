//! Outages of the server, and answers that break off.

use super::*;
use crate::attempt::RetryPolicy;

const PATIENCE_MS: u64 = 1_800_000;

fn network() -> ModelCallFailure {
    ModelCallFailure::new(ErrorCode::Network, "connection refused", true)
}

fn wait(effects: &[RunEffect]) -> Option<ServerWait> {
    effects.iter().find_map(|effect| match effect {
        RunEffect::Notice(RunNotice::Waiting(wait)) => Some(wait.clone()),
        _ => None,
    })
}

fn starts(effects: &[RunEffect], timer: RunTimer) -> Option<u64> {
    effects.iter().find_map(|effect| match effect {
        RunEffect::StartTimer { timer: started, after_ms } if *started == timer => Some(*after_ms),
        _ => None,
    })
}

fn stops(effects: &[RunEffect], timer: RunTimer) -> bool {
    effects.contains(&RunEffect::StopTimer { timer })
}

fn error_of(stage: &Stage) -> String {
    let found = stage.log.iter().rev().find_map(|event| match &event.body {
        EventBody::RunFinished { error, .. } => error.clone(),
        _ => None,
    });
    found.map(|error| error.message).unwrap_or_default()
}

#[test]
fn an_outage_is_waited_out_with_growing_waits() {
    let mut stage = Stage::new(|_| ());
    stage.send("go");
    for (attempt, after_ms) in
        [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000].into_iter().enumerate()
    {
        let effects = stage.fail(network());
        assert_eq!(
            starts(&effects, RunTimer::Patience),
            (attempt == 0).then_some(PATIENCE_MS),
            "once an outage"
        );
        let wait = wait(&effects).unwrap();
        assert_eq!(
            (wait.reason, wait.attempt, wait.after_ms),
            (WaitReason::Outage, attempt as u32 + 1, after_ms)
        );
        assert_eq!((wait.code, wait.message.as_str()), (ErrorCode::Network, "connection refused"));
        assert_eq!(stage.run.waiting(), Some(&wait));
        assert_eq!(stage.run.status(), RunStatus::WaitingForServer);
        assert_eq!(starts(&effects, RunTimer::Retry), Some(after_ms));
        assert!(calls_model(&stage.feed(RunLoopInput::TimerFired(RunTimer::Retry))));
    }
    assert!(stops(&stage.feed(RunLoopInput::ModelBegan), RunTimer::Patience), "the server is there again");
    let effects = stage.answer(vec![Part::text("done")]);
    assert_eq!(ended(&effects), Some(RunEnd::Stop));
    assert!(!stage.kinds().contains(&"step-failed".to_owned()), "an outage stores nothing");
}

#[test]
fn a_server_is_asked_when_it_asks_to_be() {
    let mut stage = Stage::new(|_| ());
    stage.send("go");
    let limited = |asked| ModelCallFailure {
        retry_after_ms: Some(asked),
        ..ModelCallFailure::new(ErrorCode::RateLimitExceeded, "slow down", true)
    };
    for asked in [7_300, 500_000] {
        let wait = wait(&stage.fail(limited(asked))).unwrap();
        assert_eq!(
            (wait.reason, wait.after_ms),
            (WaitReason::RateLimit, asked),
            "also beyond the longest wait"
        );
        stage.feed(RunLoopInput::TimerFired(RunTimer::Retry));
    }
    stage.now = 3_600_000;
    let effects = stage.fail(limited(3_600_000));
    assert_eq!(ended(&effects), Some(RunEnd::Error), "later than the patience lasts");
    let told = "slow down; the server asks to be asked again in 60 min (at 01:00 UTC)";
    assert!(error_of(&stage).contains(told), "{}", error_of(&stage));
    let mut stage = Stage::new(|_| ());
    stage.now = 1_800_000_000_000;
    stage.send("go");
    stage.fail(limited(24 * 3_600_000));
    let told = "asked again in 24 h (at 2027-01-16 08:00 UTC)";
    assert!(error_of(&stage).contains(told), "a time of tomorrow has its date: {}", error_of(&stage));
    stage.send("go");
    stage.fail(limited(3 * 24 * 3_600_000));
    let told = "asked again in 3 days (at 2027-01-18 08:00 UTC)";
    assert!(error_of(&stage).contains(told), "{}", error_of(&stage));
}

#[test]
fn a_server_that_asks_for_no_wait_is_not_asked_without_one() {
    let retry = RetryPolicy { patience_ms: None, max_delay_ms: 60_000, stream_attempts: 5 };
    let waits: Vec<u64> = (1..6).map(|attempt| retry.delay_ms(attempt, Some(0))).collect();
    assert_eq!(waits, [1_000, 2_000, 4_000, 5_000, 5_000]);
    assert_eq!(retry.delay_ms(9, Some(7_300)), 7_300);
    assert_eq!(
        retry.delay_ms(1, Some(30 * 86_400_000)),
        86_400_000,
        "a wrong clock does not stop a run for days"
    );
}

#[test]
fn patience_ends() {
    let mut stage = Stage::new(|_| ());
    stage.send("go");
    stage.fail(network());
    assert_eq!(
        ended(&stage.feed(RunLoopInput::TimerFired(RunTimer::Patience))),
        Some(RunEnd::Error),
        "between two attempts"
    );
    assert_eq!(stage.end(), Some((RunEnd::Error, Some(ErrorCode::Network))));
    assert_eq!(
        error_of(&stage),
        "connection refused; 1 attempt in 30 min failed (`retry.patience`). The conversation is kept: send a message \
         or resume to go on"
    );

    let mut stage = Stage::new(|_| ());
    stage.send("go");
    stage.fail(network());
    stage.feed(RunLoopInput::TimerFired(RunTimer::Retry));
    assert_eq!(
        stage.feed(RunLoopInput::TimerFired(RunTimer::Patience)),
        [],
        "an attempt on its way may still succeed"
    );
    assert_eq!(ended(&stage.fail(network())), Some(RunEnd::Error));
    assert!(calls_model(&stage.feed(RunLoopInput::Resume)), "the message is still unanswered");
    assert!(wait(&stage.fail(network())).is_some(), "with patience anew");

    let mut stage = Stage::new(|settings| settings.retry.patience_ms = None);
    stage.send("go");
    let effects = stage.fail(network());
    assert_eq!(
        (starts(&effects, RunTimer::Patience), starts(&effects, RunTimer::Retry)),
        (None, Some(1_000))
    );

    let mut stage = Stage::new(|settings| settings.retry.patience_ms = Some(0));
    stage.send("go");
    assert_eq!(ended(&stage.fail(network())), Some(RunEnd::Error), "no patience at all");
    assert_eq!(error_of(&stage), "connection refused");
}

#[test]
fn what_waiting_does_not_mend_is_not_waited_for() {
    let mut stage = Stage::new(|_| ());
    stage.send("go");
    assert_eq!(
        ended(&stage.fail(ModelCallFailure::new(ErrorCode::Auth, "no key", false))),
        Some(RunEnd::Error)
    );
}

#[test]
fn the_next_attempt_can_be_asked_for() {
    let mut stage = Stage::new(|_| ());
    assert_eq!(stage.feed(RunLoopInput::RetryNow), [], "nothing is waited for");
    stage.send("go");
    assert_eq!(stage.feed(RunLoopInput::RetryNow), []);
    stage.fail(network());
    let effects = stage.feed(RunLoopInput::RetryNow);
    assert!(stops(&effects, RunTimer::Retry) && calls_model(&effects));
    assert_eq!(stage.feed(RunLoopInput::TimerFired(RunTimer::Retry)), [], "once");
}

#[test]
fn another_model_is_asked_at_once() {
    let mut stage = Stage::new(|_| ());
    stage.send("go");
    stage.fail(network());
    let to = ModelOrigin { provider: "q".to_owned(), api: "a".to_owned(), model: "n".to_owned() };
    let effects = stage.feed(RunLoopInput::RecordSoon(vec![EventBody::ModelSwitched { to, choice: None }]));
    assert!(stops(&effects, RunTimer::Retry) && stops(&effects, RunTimer::Patience) && calls_model(&effects));
    let kinds = stage.kinds();
    assert_eq!(kinds[kinds.len() - 3..], ["step-failed", "model-switched", "step-started"]);
}

#[test]
fn a_broken_answer_is_asked_for_again() {
    let mut stage = Stage::new(|_| ());
    stage.send("go");
    for attempt in 1..=3 {
        stage.feed(RunLoopInput::ModelBegan);
        let failure = ModelCallFailure::new(ErrorCode::TruncatedStream, "gone", true);
        let partial = vec![Part::text("half an"), call("read")];
        let effects = stage.feed(RunLoopInput::ModelFailed { failure, partial });
        let wait = wait(&effects).unwrap();
        assert_eq!((wait.reason, wait.attempt), (WaitReason::BrokenAnswer, attempt));
        assert!(stage.run.history().open_calls().is_empty());
        let messages = request_messages(stage.run.history().view());
        assert_eq!(messages.len(), 1, "people see the half, the model does not");
        assert!(calls_model(&stage.feed(RunLoopInput::TimerFired(RunTimer::Retry))));
    }
    stage.feed(RunLoopInput::ModelBegan);
    let failure = ModelCallFailure::new(ErrorCode::TruncatedStream, "gone", true);
    let effects = stage.feed(RunLoopInput::ModelFailed { failure, partial: vec![Part::text("half")] });
    assert_eq!(ended(&effects), Some(RunEnd::Error));
    assert_eq!(error_of(&stage), "gone (4 answers in a row broke off or were empty)");
    let lost = |event: &&Event| {
        matches!(event.body, EventBody::AssistantAdded { cut: Some(PartialAnswerReason::Lost), .. })
    };
    assert_eq!(stage.log.iter().filter(lost).count(), 4, "each is kept for people");
}

#[test]
fn an_answer_that_breaks_off_behind_signs_of_life_is_no_outage() {
    for code in [ErrorCode::Network, ErrorCode::TruncatedStream] {
        let mut stage = Stage::new(|_| ());
        stage.send("go");
        let broken = ModelCallFailure { broke_off: true, ..ModelCallFailure::new(code, "gone", true) };
        for attempt in 1..=3 {
            let wait = wait(&stage.fail(broken.clone())).unwrap();
            assert_eq!((wait.reason, wait.attempt), (WaitReason::BrokenAnswer, attempt));
            stage.feed(RunLoopInput::TimerFired(RunTimer::Retry));
        }
        assert_eq!(ended(&stage.fail(broken)), Some(RunEnd::Error), "as other broken answers");
    }
}

#[test]
fn a_message_enters_before_the_answer_is_asked_for_again() {
    let mut stage = Stage::new(|_| ());
    stage.send("go");
    stage.feed(RunLoopInput::ModelBegan);
    stage.fail(ModelCallFailure::new(ErrorCode::TruncatedStream, "gone", true));
    assert_eq!(stage.send("and hurry"), []);
    assert!(calls_model(&stage.feed(RunLoopInput::TimerFired(RunTimer::Retry))));
    assert_eq!(stage.typed(), ["go", "and hurry"]);
}

#[test]
fn a_broken_answer_goes_on_where_the_model_can() {
    let mut stage = Stage::new(|settings| settings.model.prefill = true);
    stage.send("go");
    stage.feed(RunLoopInput::ModelBegan);
    let failure = ModelCallFailure::new(ErrorCode::Network, "reset", true);
    let partial = vec![Part::text("Once upon")];
    stage.feed(RunLoopInput::ModelFailed { failure, partial });
    assert_eq!(stage.run.history().pauses(), 0, "no room was made for it");
    assert!(calls_model(&stage.feed(RunLoopInput::TimerFired(RunTimer::Retry))));
    let messages = request_messages(stage.run.history().view());
    assert_eq!((messages.len(), messages[1].text().as_str()), (2, "Once upon"));
    stage.fail(network());
    assert_eq!(stage.run.status(), RunStatus::WaitingForServer, "the server is down meanwhile");
    stage.feed(RunLoopInput::TimerFired(RunTimer::Retry));
    let effects = stage.answer(vec![Part::text(" a time.")]);
    assert_eq!(ended(&effects), Some(RunEnd::Stop));
    let last = stage.run.history().view().last().unwrap();
    assert_eq!(last.message.text(), "Once upon a time.");
}

fn broken(settings: impl FnOnce(&mut RunSettings)) -> Stage {
    let mut stage = Stage::new(|all| {
        all.model.prefill = true;
        settings(all);
    });
    stage.send("go");
    stage.feed(RunLoopInput::ModelBegan);
    let failure = ModelCallFailure::new(ErrorCode::Network, "reset", true);
    stage.feed(RunLoopInput::ModelFailed { failure, partial: vec![Part::text("Once upon")] });
    stage
}

fn newest(stage: &Stage) -> Vec<String> {
    request_messages(stage.run.history().view()).iter().map(|message| message.text()).collect()
}

#[test]
fn another_model_goes_on_with_a_broken_answer() {
    let mut stage = broken(|_| ());
    let mut settings = RunSettings::clone(stage.run.settings());
    settings.model.prefill = false;
    stage.run.configure(Arc::new(settings));
    let to = ModelOrigin { provider: "q".to_owned(), api: "a".to_owned(), model: "n".to_owned() };
    let effects = stage.feed(RunLoopInput::RecordSoon(vec![EventBody::ModelSwitched { to, choice: None }]));
    assert!(calls_model(&effects), "{effects:?}");
    let shown = newest(&stage);
    assert_eq!(shown[..2], ["go", "Once upon"]);
    assert!(shown[2].starts_with("[The answer above broke off"), "{shown:?}");
    let effects = stage.answer(vec![Part::text("a time.")]);
    assert_eq!(ended(&effects), Some(RunEnd::Stop));
}

#[test]
fn a_server_that_refuses_the_rest_is_asked_in_words() {
    let mut stage = broken(|_| ());
    stage.feed(RunLoopInput::TimerFired(RunTimer::Retry));
    let refused = ModelCallFailure::new(ErrorCode::InvalidRequest, "prefill is not supported", false);
    let effects = stage.feed(RunLoopInput::ModelFailed { failure: refused, partial: Vec::new() });
    assert!(calls_model(&effects), "{effects:?}");
    assert!(newest(&stage)[2].starts_with("[The answer above broke off"));
}

#[test]
fn a_broken_answer_is_unanswered_after_a_crash() {
    for prefill in [true, false] {
        let mut stage = broken(|_| ());
        let mut settings = RunSettings::clone(stage.run.settings());
        settings.model.prefill = prefill;
        stage.run.configure(Arc::new(settings));
        assert_eq!(ended(&stage.crash(None)), Some(RunEnd::Error));
        assert!(calls_model(&stage.feed(RunLoopInput::Resume)), "prefill: {prefill}");
        assert_eq!(newest(&stage).len(), if prefill { 2 } else { 3 });
    }
}

#[test]
fn broken_answers_are_no_steps() {
    let mut stage = Stage::new(|settings| settings.max_steps = 1);
    stage.send("go");
    for _ in 0..3 {
        stage.feed(RunLoopInput::ModelBegan);
        stage.fail(ModelCallFailure::new(ErrorCode::TruncatedStream, "gone", true));
        assert!(calls_model(&stage.feed(RunLoopInput::TimerFired(RunTimer::Retry))));
    }
    assert_eq!(ended(&stage.answer(vec![Part::text("done")])), Some(RunEnd::Stop));
}

#[test]
fn reasoning_and_calls_are_not_gone_on_with() {
    for partial in [vec![call("read")], vec![Part::text("I"), call("read")], Vec::new()] {
        let mut stage = Stage::new(|settings| settings.model.prefill = true);
        stage.send("go");
        stage.feed(RunLoopInput::ModelBegan);
        let failure = ModelCallFailure::new(ErrorCode::TruncatedStream, "gone", true);
        stage.feed(RunLoopInput::ModelFailed { failure, partial });
        assert!(!stage.run.history().is_paused());
        assert!(calls_model(&stage.feed(RunLoopInput::TimerFired(RunTimer::Retry))));
    }
}

#[test]
fn an_empty_answer_is_asked_for_again_then_an_error() {
    let mut stage = Stage::new(|settings| settings.retry.stream_attempts = 1);
    stage.send("go");
    stage.feed(RunLoopInput::ModelBegan);
    let effects = stage.answer(vec![Part::text(" \n")]);
    assert_eq!(starts(&effects, RunTimer::Retry), Some(1_000));
    stage.feed(RunLoopInput::TimerFired(RunTimer::Retry));
    stage.answer(Vec::new());
    assert_eq!(stage.end(), Some((RunEnd::Error, Some(ErrorCode::ThirdParty))));
}

#[test]
fn cancel_between_two_attempts_of_a_broken_answer() {
    let mut stage = Stage::new(|_| ());
    stage.send("go");
    stage.feed(RunLoopInput::ModelBegan);
    stage.fail(ModelCallFailure::new(ErrorCode::TruncatedStream, "gone", true));
    let effects = stage.feed(RunLoopInput::Cancel);
    assert!(stops(&effects, RunTimer::Retry));
    assert_eq!(ended(&effects), Some(RunEnd::Cancelled));
    assert_eq!(stage.feed(RunLoopInput::TimerFired(RunTimer::Retry)), []);
}

#[test]
fn a_crash_while_waiting_leaves_a_session_that_goes_on() {
    for broken in [false, true] {
        let mut stage = Stage::new(|_| ());
        stage.send("go");
        if broken {
            stage.feed(RunLoopInput::ModelBegan);
        }
        stage.fail(network());
        assert_eq!(stage.run.status(), RunStatus::WaitingForServer);
        assert_eq!(ended(&stage.crash(None)), Some(RunEnd::Error));
        assert!(calls_model(&stage.feed(RunLoopInput::Resume)));
    }
}
