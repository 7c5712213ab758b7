//! After a crash.

use super::*;

#[test]
fn after_a_crash_nothing_runs_twice() {
    for (recovery, begins_others) in [(RunRecovery::Rest, false), (RunRecovery::Continue, true)] {
        let mut stage = Stage::new(|settings| settings.recovery = recovery);
        stage.send("go");
        let started = running(&stage.answer(vec![call("write"), call("write")]));
        let effects = stage.crash(None);
        let (status, text) = stage.results()[0].clone();
        assert_eq!(status, ToolStatus::Interrupted);
        assert!(text.contains("unknown"), "{text}");
        let now = running(&effects);
        assert!(!now.contains(&started[0]));
        assert_eq!(now.len(), usize::from(begins_others));
        assert_eq!(ended(&effects).is_some(), !begins_others);
    }
}

#[test]
fn after_a_crash_people_see_what_had_come() {
    let mut stage = Stage::new(|_| ());
    stage.send("go");
    stage.queue("later", "later");
    assert_eq!(ended(&stage.crash(Some("half an ans"))), Some(RunEnd::Error));
    let partial = stage.run.history().entries().last().unwrap().message.text();
    assert_eq!(partial, "half an ans");
    assert_eq!(request_messages(stage.run.history().view()).len(), 1);
    assert_eq!(stage.queue.len(), 1, "what waited goes on waiting");
    assert!(calls_model(&stage.send("go on")));
    assert_eq!(stage.queue, []);
}

#[test]
fn a_run_that_dies_again_and_again_is_parked() {
    let mut stage = Stage::new(|settings| settings.recovery = RunRecovery::Continue);
    stage.send("go");
    for _ in 0..3 {
        assert!(calls_model(&stage.crash(None)));
    }
    stage.crash(None);
    assert_eq!(stage.run.status(), RunStatus::Parked);
    assert!(calls_model(&stage.feed(RunLoopInput::Resume)));
    stage.answer(vec![Part::text("at last")]);
    assert_eq!(stage.run.status(), RunStatus::Idle);
    assert_eq!(stage.run.history().recoveries(), 0);
}
