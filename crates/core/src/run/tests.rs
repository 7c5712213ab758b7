use std::collections::BTreeMap;

use super::*;
use crate::attempt::RetryPolicy;
use crate::error::ErrorCode;
use crate::event::{Event, FORMAT, PartialAnswerReason};
use crate::history::{closing_result, request_messages};
use crate::ids::{CallId, Millis, QueueId};
use crate::message::{ModelAnswer, ModelOrigin, Part, ToolCall, ToolResult, ToolStatus};
use crate::plan::CompactionPolicy;
use crate::queue::QueuedMessage;
use crate::strategy;
use crate::usage::Usage;

mod making_room;
mod metadata;
mod omitting;
mod ordering;
mod recovery;
mod repeating;
mod stopping;
mod unnamed_refusal;
mod waiting;

/// A run with a store that is done at once. What is not a matter of the store is told.
struct Stage {
    run: Run,
    log: Vec<Event>,
    queue: Vec<QueuedMessage>,
    now: Millis,
    /// Appends are held back here while `Some`.
    held: Option<Vec<RunEffect>>,
}

impl Stage {
    fn new(change: impl FnOnce(&mut RunSettings)) -> Self {
        let mut settings = settings();
        change(&mut settings);
        let mut stage = Self {
            run: Run::new(Arc::new(settings), History::default()),
            log: Vec::new(),
            queue: Vec::new(),
            now: 1_000,
            held: None,
        };
        let begun =
            EventBody::SessionStarted { title: None, forked_from: None, imported_from: None, folder: None };
        assert_eq!(stage.feed(RunLoopInput::Record(vec![begun])), []);
        stage
    }

    fn feed(&mut self, input: RunLoopInput) -> Vec<RunEffect> {
        let effects = self.run.handle(input);
        self.perform(effects)
    }

    fn perform(&mut self, effects: Vec<RunEffect>) -> Vec<RunEffect> {
        let mut told = Vec::new();
        for effect in effects {
            match effect {
                RunEffect::Append { .. } | RunEffect::ReadQueue if self.held.is_some() => {
                    self.held.get_or_insert_default().push(effect);
                }
                RunEffect::Append { id, events, takes, .. } => {
                    self.queue.retain(|queued| !takes.contains(&queued.id));
                    let events = self.store(events);
                    told.extend(self.feed(RunLoopInput::Appended { id, events }));
                }
                RunEffect::ReadQueue => told.extend(self.feed(RunLoopInput::QueueRead(self.queue.clone()))),
                other => told.push(other),
            }
        }
        told
    }

    fn store(&mut self, bodies: Vec<EventBody>) -> Vec<Event> {
        let first = self.log.len() as u64 + 1;
        let events = bodies.into_iter().zip(first..).map(|(body, seq)| Event {
            seq,
            at: self.now,
            format: FORMAT,
            body,
        });
        let events: Vec<Event> = events.collect();
        self.log.extend(events.clone());
        events
    }

    /// Lets the held-back effects of the store happen.
    fn release(&mut self) -> Vec<RunEffect> {
        let held = self.held.take().unwrap_or_default();
        self.perform(held)
    }

    fn queue(&mut self, id: &str, text: &str) {
        self.queue.push(QueuedMessage::new(id, self.now, vec![Part::text(text)]));
    }

    fn send(&mut self, id: &str) -> Vec<RunEffect> {
        self.queue(id, id);
        self.feed(RunLoopInput::Wake)
    }

    fn answer(&mut self, parts: Vec<Part>) -> Vec<RunEffect> {
        let finish = match parts.last() {
            Some(Part::ToolCall(_)) => ModelStopReason::ToolCalls,
            _ => ModelStopReason::Stop,
        };
        self.feed(RunLoopInput::ModelAnswered(ModelAnswer { parts, finish, usage: None, envelope: None }))
    }

    fn end_tool(&mut self, call: &CallId, text: &str) -> Vec<RunEffect> {
        self.feed(RunLoopInput::ToolEnded(closing_result(call, ToolStatus::Completed, text)))
    }

    fn fail(&mut self, failure: ModelCallFailure) -> Vec<RunEffect> {
        self.feed(RunLoopInput::ModelFailed { failure, partial: Vec::new() })
    }

    /// A new life: everything that was not stored is gone.
    fn crash(&mut self, partial: Option<&str>) -> Vec<RunEffect> {
        let history = History::fold(&self.log).unwrap();
        self.run = Run::new(self.run.settings().clone(), history);
        self.held = None;
        self.feed(RunLoopInput::Recover { partial: partial.map(str::to_owned) })
    }

    fn kinds(&self) -> Vec<String> {
        let name = |event: &Event| {
            let json = serde_json::to_value(&event.body).unwrap();
            json["kind"].as_str().unwrap_or_default().to_owned()
        };
        self.log[1..].iter().map(name).collect()
    }

    fn results(&self) -> Vec<(ToolStatus, String)> {
        let results = self.log.iter().filter_map(|event| match &event.body {
            EventBody::ToolFinished { result } => Some((result.status, text_of(result))),
            _ => None,
        });
        results.collect()
    }

    fn typed(&self) -> Vec<String> {
        let typed = self.log.iter().filter_map(|event| match &event.body {
            EventBody::MessagesTaken { message, .. } => Some(message.text()),
            _ => None,
        });
        typed.collect()
    }

    fn end(&self) -> Option<(RunEnd, Option<ErrorCode>)> {
        self.log.iter().rev().find_map(|event| match &event.body {
            EventBody::RunFinished { reason, error, .. } => {
                Some((*reason, error.as_ref().map(|error| error.code)))
            }
            _ => None,
        })
    }
}

fn text_of(result: &ToolResult) -> String {
    result.content.iter().filter_map(Part::as_text).collect()
}

fn settings() -> RunSettings {
    let rule = |read_only, poll, approval| ToolRule { read_only, poll, approval, max_output_chars: 1_000 };
    let deny = ToolApproval::Deny("a rule forbids it".to_owned());
    RunSettings {
        max_steps: 100,
        timeout_ms: None,
        parallel_tools: None,
        recovery: RunRecovery::Rest,
        retry: RetryPolicy { patience_ms: Some(1_800_000), max_delay_ms: 60_000, stream_attempts: 3 },
        counting: ServerCountPolicy::Never,
        policy: CompactionPolicy::new(strategy::by_name("reactive-overflow").unwrap()),
        pre_compact_ms: None,
        model: SessionModel {
            origin: ModelOrigin { provider: "p".to_owned(), api: "a".to_owned(), model: "m".to_owned() },
            window: Some(8_000),
            remembered_window: None,
            max_output: None,
            tools: true,
            prefill: false,
        },
        fixed: RequestPrefix {
            system_hash: "s".to_owned(),
            tools_hash: "t".to_owned(),
            tokens: 50,
            tool_tokens: BTreeMap::from([("mcp__x__y".to_owned(), 30)]),
            before_recall: None,
            deferred: None,
        },
        tools: BTreeMap::from([
            ("read".to_owned(), rule(true, false, ToolApproval::Allow)),
            ("poll".to_owned(), rule(true, true, ToolApproval::Allow)),
            ("write".to_owned(), rule(false, false, ToolApproval::Allow)),
            ("bash".to_owned(), rule(false, false, ToolApproval::Ask)),
            ("rm".to_owned(), rule(false, false, deny)),
            ("mcp__x__y".to_owned(), rule(false, false, ToolApproval::Ask)),
        ]),
    }
}

fn call(name: &str) -> Part {
    Part::ToolCall(ToolCall {
        call_id: "call_0".into(),
        name: name.to_owned(),
        arguments: "{}".to_owned(),
        provider_id: None,
        native: None,
    })
}

/// Names of the tools that are to run.
fn running(effects: &[RunEffect]) -> Vec<CallId> {
    let calls = effects.iter().filter_map(|effect| match effect {
        RunEffect::RunTool { call, .. } => Some(call.call_id.clone()),
        _ => None,
    });
    calls.collect()
}

fn calls_model(effects: &[RunEffect]) -> bool {
    effects.iter().any(|effect| matches!(effect, RunEffect::CallModel { .. }))
}

fn ended(effects: &[RunEffect]) -> Option<RunEnd> {
    effects.iter().find_map(|effect| match effect {
        RunEffect::RunEnded(end) => Some(*end),
        _ => None,
    })
}

#[test]
fn one_turn() {
    let mut stage = Stage::new(|_| ());
    assert!(calls_model(&stage.send("hello")));
    assert_eq!(stage.run.status(), RunStatus::Streaming);
    stage.feed(RunLoopInput::ModelBegan);
    assert_eq!(ended(&stage.answer(vec![Part::text("hi")])), Some(RunEnd::Stop));
    let kinds =
        ["run-started", "messages-taken", "step-started", "assistant-added", "step-finished", "run-finished"];
    assert_eq!(stage.kinds(), kinds);
    assert!(stage.run.is_idle());
    assert_eq!(stage.feed(RunLoopInput::Resume), [RunEffect::Rested], "there is nothing to answer");
}

#[test]
fn waiting_messages_become_one() {
    let mut stage = Stage::new(|_| ());
    stage.queue("a", "stop");
    stage.queue("b", "go left");
    stage.feed(RunLoopInput::Wake);
    assert_eq!(stage.typed(), ["First: stop\n\nAlso: go left"]);
    assert_eq!(stage.queue, []);
}

#[test]
fn calls_get_names_of_ours_and_keep_the_providers() {
    let mut stage = Stage::new(|_| ());
    stage.send("go");
    let effects = stage.answer(vec![call("read"), call("read")]);
    let ids = running(&effects);
    assert_eq!(ids.len(), 2);
    assert_ne!(ids[0], ids[1], "a server that repeats its ids");
    let open = stage.run.history().open_calls();
    assert!(open.iter().all(|open| open.call.provider_id.as_deref() == Some("call_0")));
}

#[test]
fn read_only_tools_run_together_others_alone() {
    for (parallel, first) in [(None, 2), (Some(true), 4), (Some(false), 1)] {
        let mut stage = Stage::new(|settings| settings.parallel_tools = parallel);
        stage.send("go");
        let effects = stage.answer(vec![call("read"), call("read"), call("write"), call("read")]);
        let mut due = running(&effects);
        assert_eq!(due.len(), first, "{parallel:?}");
        let mut order = Vec::new();
        while let Some(next) = due.pop() {
            due.extend(running(&stage.end_tool(&next, "done")));
            order.push(next);
        }
        assert_eq!(order.len(), 4);
        assert_eq!(stage.run.status(), RunStatus::Streaming, "the next step follows");
        let starts = stage.kinds().iter().filter(|kind| *kind == "tool-started").count();
        assert_eq!(starts, 4);
    }
}

#[test]
fn a_tool_starts_after_its_start_is_stored() {
    let mut stage = Stage::new(|_| ());
    stage.send("go");
    stage.held = Some(Vec::new());
    assert_eq!(stage.answer(vec![call("read")]), []);
    let effects = stage.release();
    assert_eq!(running(&effects).len(), 1);
    assert_eq!(stage.kinds().last().unwrap(), "tool-started");
}

#[test]
fn a_person_is_asked_and_may_refuse() {
    for allowed in [true, false] {
        let mut stage = Stage::new(|_| ());
        stage.send("go");
        let effects = stage.answer(vec![call("bash"), call("rm")]);
        let [RunEffect::AskApproval { approval_id, .. }] = effects.as_slice() else { panic!("{effects:?}") };
        assert_eq!(stage.run.status(), RunStatus::WaitingApproval);
        let reason = Some("not now".to_owned());
        let decided = RunLoopInput::Decided { approval_id: approval_id.clone(), allowed, reason };
        let effects = stage.feed(decided.clone());
        assert_eq!(stage.feed(decided), [], "a second answer is nothing");
        if allowed {
            stage.end_tool(&running(&effects)[0], "ran");
        } else {
            assert_eq!(running(&effects), []);
            assert_eq!(stage.results()[0], (ToolStatus::Cancelled, "[Not run: not now]".to_owned()));
        }
        assert_eq!(stage.results()[1], (ToolStatus::Cancelled, "[Not run: a rule forbids it]".to_owned()));
        assert_eq!(stage.run.status(), RunStatus::Streaming);
    }
}

#[test]
fn nobody_is_asked_twice_while_the_answer_is_being_stored() {
    let mut stage = Stage::new(|settings| settings.parallel_tools = Some(true));
    stage.send("go");
    let effects = stage.answer(vec![call("bash"), call("read")]);
    let approval_id = effects.iter().find_map(|effect| match effect {
        RunEffect::AskApproval { approval_id, .. } => Some(approval_id.clone()),
        _ => None,
    });
    let read = running(&effects)[0].clone();
    let decided = RunLoopInput::Decided { approval_id: approval_id.unwrap(), allowed: true, reason: None };
    // The tool's result is stored first, the decision is still on its way.
    let ended = stage.run.handle(RunLoopInput::ToolEnded(closing_result(&read, ToolStatus::Completed, "x")));
    let decision = stage.run.handle(decided);
    assert_eq!(stage.perform(ended), []);
    assert_eq!(running(&stage.perform(decision)).len(), 1);
    let asked = stage.kinds().iter().filter(|kind| *kind == "approval-requested").count();
    assert_eq!(asked, 1);
}

#[test]
fn an_answer_that_was_withheld_is_an_error_and_not_repeated() {
    let withheld = |parts| {
        let finish = ModelStopReason::ContentFilter;
        RunLoopInput::ModelAnswered(ModelAnswer { parts, finish, usage: None, envelope: None })
    };
    for (parts, shown) in [(Vec::new(), 1), (vec![Part::text("I cannot")], 2)] {
        let mut stage = Stage::new(|_| ());
        stage.send("go");
        stage.feed(RunLoopInput::ModelBegan);
        assert_eq!(ended(&stage.feed(withheld(parts))), Some(RunEnd::Error));
        assert_eq!(stage.end(), Some((RunEnd::Error, Some(ErrorCode::Refused))));
        assert_eq!(stage.run.history().view().len(), shown, "what came is kept");
    }
    let mut stage = Stage::new(|_| ());
    stage.send("go");
    assert_eq!(running(&stage.feed(withheld(vec![call("read")]))).len(), 1, "a whole call runs");
}

#[test]
fn the_output_limit_ends_a_run_unless_whole_calls_came() {
    let length = |parts| {
        RunLoopInput::ModelAnswered(ModelAnswer {
            parts,
            finish: ModelStopReason::Length,
            usage: None,
            envelope: None,
        })
    };
    let broken = Part::ToolCall(ToolCall {
        call_id: "x".into(),
        name: "read".to_owned(),
        arguments: "{\"pa".to_owned(),
        provider_id: None,
        native: None,
    });
    let mut stage = Stage::new(|_| ());
    stage.send("go");
    assert_eq!(ended(&stage.feed(length(vec![Part::text("and so")]))), Some(RunEnd::Length));
    for parts in [vec![Part::text("and"), broken.clone()], vec![broken.clone()]] {
        let mut stage = Stage::new(|_| ());
        stage.send("go");
        let effects = stage.feed(length(parts));
        assert_eq!((ended(&effects), running(&effects).len()), (None, 0), "half a call does not run");
        let view = stage.run.history().view();
        let told = view.last().map(|item| format!("{:?}", item.message.parts)).unwrap_or_default();
        assert!(told.contains("output limit in the middle of this call"), "{told}");
        assert!(stage.run.history().open_calls().is_empty());
    }
    let mut stage = Stage::new(|_| ());
    stage.send("go");
    assert_eq!(running(&stage.feed(length(vec![call("read"), broken]))).len(), 1);
}

#[test]
fn a_model_that_ends_without_words_after_its_tools_has_ended() {
    let mut stage = Stage::new(|_| ());
    stage.send("go");
    let effects = stage.answer(vec![call("read")]);
    stage.end_tool(&running(&effects)[0], "the file");
    let empty = || {
        RunLoopInput::ModelAnswered(ModelAnswer {
            parts: Vec::new(),
            finish: ModelStopReason::Stop,
            usage: None,
            envelope: None,
        })
    };
    assert_eq!(ended(&stage.feed(empty())), None, "it is asked once more");
    stage.feed(RunLoopInput::TimerFired(RunTimer::Retry));
    stage.feed(RunLoopInput::ModelBegan);
    assert_eq!(ended(&stage.feed(empty())), Some(RunEnd::Stop));
}

#[test]
fn a_refusal_for_length_is_answered_by_a_lower_output_limit_where_that_is_enough() {
    let mut stage = Stage::new(|settings| settings.model.window = None);
    let said = "Summarise: ".to_owned() + &"fact ".repeat(2_800);
    let effects = stage.send(&said);
    let limit = |effects: &[RunEffect]| {
        effects.iter().find_map(|effect| match effect {
            RunEffect::CallModel { max_output_tokens, .. } => Some(*max_output_tokens),
            _ => None,
        })
    };
    let first = limit(&effects).expect("a call");
    let refusal = |used| ModelCallFailure {
        used_tokens: Some(used),
        limit_tokens: Some(6_000),
        ..ModelCallFailure::new(ErrorCode::ContextOverflow, "too long", false)
    };
    let failed = |used| RunLoopInput::ModelFailed { failure: refusal(used), partial: Vec::new() };
    let second = limit(&stage.feed(failed(2_850))).expect("the same request again");
    assert!(second < first && 2_850 + second <= 6_000, "{second} of {first}");
    assert!(stage.run.history().edits().is_empty(), "nothing was left out");
    // Refused again, the request itself is made smaller.
    stage.feed(failed(2_850));
    assert!(!stage.run.history().edits().is_empty(), "now the request is made smaller");
}

#[test]
fn steps_are_limited() {
    let mut stage = Stage::new(|settings| settings.max_steps = 2);
    stage.send("go");
    for (step, over) in [(1, false), (2, true)] {
        let effects = stage.answer(vec![call("read")]);
        let effects = stage.end_tool(&running(&effects)[0], &format!("{step}"));
        assert_eq!(ended(&effects) == Some(RunEnd::MaxSteps), over);
    }
    assert!(stage.run.is_idle());
}

#[test]
fn a_message_that_waits_at_the_step_limit_gets_a_run_of_its_own() {
    let mut stage = Stage::new(|settings| settings.max_steps = 1);
    stage.send("go");
    stage.send("and that");
    let effects = stage.answer(vec![Part::text("done")]);
    assert_eq!(ended(&effects), Some(RunEnd::MaxSteps));
    assert!(calls_model(&effects));
    assert_eq!(stage.typed(), ["go", "and that"]);
}

#[test]
fn a_loop_is_told_once_then_ends_the_run() {
    let mut stage = Stage::new(|_| ());
    stage.send("go");
    let step = |stage: &mut Stage, tool: &str| {
        let effects = stage.answer(vec![call(tool)]);
        stage.end_tool(&running(&effects)[0], "the same")
    };
    for _ in 0..6 {
        assert!(calls_model(&step(&mut stage, "poll")), "polling is no loop");
    }
    for at in 1..=7 {
        let effects = step(&mut stage, "read");
        assert!(calls_model(&effects), "{at}");
        assert_eq!(stage.kinds().iter().any(|kind| kind == "note-added"), at >= 4, "{at}");
    }
    assert_eq!(ended(&step(&mut stage, "read")), Some(RunEnd::LoopDetected));
}

#[test]
fn a_run_out_of_time_gets_one_step_to_say_where_it_stands() {
    let mut stage = Stage::new(|settings| settings.timeout_ms = Some(9_000));
    let effects = stage.send("go");
    assert!(
        effects.contains(&RunEffect::StartTimer { timer: RunTimer::Run, after_ms: 9_000 }),
        "{effects:?}"
    );
    let tool = running(&stage.answer(vec![call("write"), call("read")]))[0].clone();
    assert_eq!(stage.feed(RunLoopInput::TimerFired(RunTimer::Run)), [RunEffect::StopTools]);
    let effects = stage.end_tool(&tool, "real, within the grace");
    assert!(
        effects
            .contains(&RunEffect::StartTimer { timer: RunTimer::RecoveryStep, after_ms: RECOVERY_STEP_MS })
    );
    let tools = effects.iter().find_map(|effect| match effect {
        RunEffect::CallModel { tools, .. } => Some(*tools),
        _ => None,
    });
    assert_eq!(tools, Some(false));
    assert_eq!(stage.results()[0].1, "real, within the grace");
    assert_eq!(stage.results()[1].0, ToolStatus::Cancelled);
    let effects = stage.answer(vec![Part::text("half done"), call("read")]);
    assert_eq!(ended(&effects), Some(RunEnd::Timeout));
    assert!(stage.run.history().open_calls().is_empty(), "there are no tools to call any more");
}

#[test]
fn the_recovery_step_is_limited_too() {
    let mut stage = Stage::new(|settings| settings.timeout_ms = Some(9_000));
    stage.send("go");
    assert_eq!(stage.feed(RunLoopInput::TimerFired(RunTimer::Run)), [RunEffect::StopModel]);
    stage.feed(RunLoopInput::ModelStopped { partial: vec![Part::text("I was")], usage: None });
    assert_eq!(stage.feed(RunLoopInput::TimerFired(RunTimer::RecoveryStep)), [RunEffect::StopModel]);
    let effects = stage.feed(RunLoopInput::ModelStopped { partial: Vec::new(), usage: None });
    assert_eq!(ended(&effects), Some(RunEnd::Timeout));
}

#[test]
fn a_recovered_run_has_the_time_that_was_left() {
    let mut stage = Stage::new(|settings| {
        settings.timeout_ms = Some(9_000);
        settings.recovery = RunRecovery::Continue;
    });
    stage.send("go");
    stage.now += 4_000;
    let effects = stage.crash(None);
    assert!(
        effects.contains(&RunEffect::StartTimer { timer: RunTimer::Run, after_ms: 5_000 }),
        "{effects:?}"
    );
    assert!(calls_model(&effects));
}

#[test]
fn a_persons_time_is_not_the_runs() {
    let mut stage = Stage::new(|settings| settings.timeout_ms = Some(1_000));
    stage.send("q1");
    let effects = stage.answer(vec![call("bash")]);
    let asked = effects.iter().find_map(|effect| match effect {
        RunEffect::AskApproval { approval_id, .. } => Some(approval_id.clone()),
        _ => None,
    });
    assert!(effects.contains(&RunEffect::StopTimer { timer: RunTimer::Run }), "{effects:?}");
    stage.now += 600_000;
    let effects =
        stage.feed(RunLoopInput::Decided { approval_id: asked.unwrap(), allowed: true, reason: None });
    assert!(
        effects.contains(&RunEffect::StartTimer { timer: RunTimer::Run, after_ms: 1_000 }),
        "{effects:?}"
    );
    assert_eq!(running(&effects).len(), 1);
}

/// Returns whether the server is asked to count.
fn counts(effects: &[RunEffect]) -> bool {
    effects.iter().any(|effect| matches!(effect, RunEffect::Count { .. }))
}

#[test]
fn a_server_that_counts_is_asked_before_every_call() {
    let mut stage = Stage::new(|settings| settings.counting = ServerCountPolicy::Always);
    let effects = stage.send("q1");
    assert!(counts(&effects) && !calls_model(&effects), "{effects:?}");
    let effects = stage.feed(RunLoopInput::Counted(Some(120)));
    assert!(calls_model(&effects) && !counts(&effects), "{effects:?}");
    assert_eq!((stage.run.meter().total, stage.run.meter().margin), (120, 0.0));
    let effects = stage.answer(vec![call("read")]);
    let effects = stage.end_tool(&running(&effects)[0], "what was read");
    assert!(counts(&effects), "{effects:?}");
    let effects = stage.feed(RunLoopInput::Counted(None));
    assert!(calls_model(&effects), "without a count it goes by the estimate: {effects:?}");
}

#[test]
fn a_cancel_does_not_wait_for_a_count() {
    let mut stage = Stage::new(|settings| settings.counting = ServerCountPolicy::Unanchored);
    stage.send("q1");
    assert_eq!(stage.feed(RunLoopInput::Cancel), [RunEffect::StopModel]);
    let effects = stage.feed(RunLoopInput::Counted(None));
    assert_eq!(ended(&effects), Some(RunEnd::Cancelled), "{effects:?}");
}
