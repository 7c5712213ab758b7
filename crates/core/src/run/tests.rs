use super::*;
use crate::error::ErrorCode;
use crate::event::{Cut, Event, FORMAT};
use crate::history::{closing_result, request_messages};
use crate::ids::QueueId;
use crate::message::{Answer, Origin, Part, ToolCall, ToolResult, ToolStatus};
use crate::plan::Policy;
use crate::queue::Queued;
use crate::strategy;
use crate::usage::Usage;

/// A run with a store that is done at once. What is not a matter of the store is told.
struct Stage {
    run: Run,
    log: Vec<Event>,
    queue: Vec<Queued>,
    now: Millis,
    /// Appends are held back here while `Some`.
    held: Option<Vec<Effect>>,
}

impl Stage {
    fn new(change: impl FnOnce(&mut Settings)) -> Self {
        let mut settings = settings();
        change(&mut settings);
        let mut stage = Self {
            run: Run::new(Arc::new(settings), History::default()),
            log: Vec::new(),
            queue: Vec::new(),
            now: 1_000,
            held: None,
        };
        let begun = EventBody::SessionStarted { title: None, forked_from: None, imported_from: None };
        assert_eq!(stage.feed(Input::Record(vec![begun])), []);
        stage
    }

    fn feed(&mut self, input: Input) -> Vec<Effect> {
        let effects = self.run.handle(input);
        self.perform(effects)
    }

    fn perform(&mut self, effects: Vec<Effect>) -> Vec<Effect> {
        let mut told = Vec::new();
        for effect in effects {
            match effect {
                Effect::Append { .. } | Effect::ReadQueue if self.held.is_some() => {
                    self.held.get_or_insert_default().push(effect);
                }
                Effect::Append { id, events, takes, .. } => {
                    self.queue.retain(|queued| !takes.contains(&queued.id));
                    let events = self.store(events);
                    told.extend(self.feed(Input::Appended { id, events }));
                }
                Effect::ReadQueue => told.extend(self.feed(Input::QueueRead(self.queue.clone()))),
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
    fn release(&mut self) -> Vec<Effect> {
        let held = self.held.take().unwrap_or_default();
        self.perform(held)
    }

    fn queue(&mut self, id: &str, text: &str) {
        self.queue.push(Queued { id: id.into(), queued_at: self.now, parts: vec![Part::text(text)] });
    }

    fn send(&mut self, id: &str) -> Vec<Effect> {
        self.queue(id, id);
        self.feed(Input::Wake)
    }

    fn answer(&mut self, parts: Vec<Part>) -> Vec<Effect> {
        let finish = match parts.last() {
            Some(Part::ToolCall(_)) => Finish::ToolCalls,
            _ => Finish::Stop,
        };
        self.feed(Input::ModelAnswered(Answer { parts, finish, usage: None, envelope: None }))
    }

    fn end_tool(&mut self, call: &CallId, text: &str) -> Vec<Effect> {
        self.feed(Input::ToolEnded(closing_result(call, ToolStatus::Completed, text)))
    }

    fn fail(&mut self, failure: Failure) -> Vec<Effect> {
        self.feed(Input::ModelFailed { failure, partial: Vec::new() })
    }

    /// A new life: everything that was not stored is gone.
    fn crash(&mut self, partial: Option<&str>) -> Vec<Effect> {
        let history = History::fold(&self.log).unwrap();
        self.run = Run::new(self.run.settings().clone(), history);
        self.held = None;
        self.feed(Input::Recover { partial: partial.map(str::to_owned) })
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

fn settings() -> Settings {
    let rule = |read_only, poll, approval| ToolRule { read_only, poll, approval, max_output_chars: 1_000 };
    let deny = Approval::Deny("a rule forbids it".to_owned());
    Settings {
        max_steps: 100,
        timeout_ms: None,
        parallel_tools: None,
        recovery: Recovery::Rest,
        retry: Retry { attempts: 4, max_delay_ms: 60_000 },
        counting: Counting::Never,
        policy: Policy::new(strategy::by_name("reactive-overflow").unwrap()),
        pre_compact_ms: None,
        model: Model {
            origin: Origin { provider: "p".to_owned(), api: "a".to_owned(), model: "m".to_owned() },
            window: Some(8_000),
            remembered_window: None,
            max_output: None,
            tools: true,
            prefill: false,
        },
        fixed: Fixed { system_hash: "s".to_owned(), tools_hash: "t".to_owned(), tokens: 50 },
        tools: BTreeMap::from([
            ("read".to_owned(), rule(true, false, Approval::Allow)),
            ("poll".to_owned(), rule(true, true, Approval::Allow)),
            ("write".to_owned(), rule(false, false, Approval::Allow)),
            ("bash".to_owned(), rule(false, false, Approval::Ask)),
            ("rm".to_owned(), rule(false, false, deny)),
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
fn running(effects: &[Effect]) -> Vec<CallId> {
    let calls = effects.iter().filter_map(|effect| match effect {
        Effect::RunTool { call, .. } => Some(call.call_id.clone()),
        _ => None,
    });
    calls.collect()
}

fn calls_model(effects: &[Effect]) -> bool {
    effects.iter().any(|effect| matches!(effect, Effect::CallModel { .. }))
}

fn ended(effects: &[Effect]) -> Option<RunEnd> {
    effects.iter().find_map(|effect| match effect {
        Effect::RunEnded(end) => Some(*end),
        _ => None,
    })
}

#[test]
fn one_turn() {
    let mut stage = Stage::new(|_| ());
    assert!(calls_model(&stage.send("hello")));
    assert_eq!(stage.run.status(), Status::Streaming);
    stage.feed(Input::ModelBegan);
    assert_eq!(ended(&stage.answer(vec![Part::text("hi")])), Some(RunEnd::Stop));
    let kinds =
        ["run-started", "messages-taken", "step-started", "assistant-added", "step-finished", "run-finished"];
    assert_eq!(stage.kinds(), kinds);
    assert!(stage.run.is_idle());
    assert_eq!(stage.feed(Input::Resume), [Effect::Rested], "there is nothing to answer");
}

#[test]
fn waiting_messages_become_one() {
    let mut stage = Stage::new(|_| ());
    stage.queue("a", "stop");
    stage.queue("b", "go left");
    stage.feed(Input::Wake);
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
        assert_eq!(stage.run.status(), Status::Streaming, "the next step follows");
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
        let [Effect::AskApproval { approval_id, .. }] = effects.as_slice() else { panic!("{effects:?}") };
        assert_eq!(stage.run.status(), Status::WaitingApproval);
        let reason = Some("not now".to_owned());
        let decided = Input::Decided { approval_id: approval_id.clone(), allowed, reason };
        let effects = stage.feed(decided.clone());
        assert_eq!(stage.feed(decided), [], "a second answer is nothing");
        if allowed {
            stage.end_tool(&running(&effects)[0], "ran");
        } else {
            assert_eq!(running(&effects), []);
            assert_eq!(stage.results()[0], (ToolStatus::Cancelled, "[Not run: not now]".to_owned()));
        }
        assert_eq!(stage.results()[1], (ToolStatus::Cancelled, "[Not run: a rule forbids it]".to_owned()));
        assert_eq!(stage.run.status(), Status::Streaming);
    }
}

#[test]
fn nobody_is_asked_twice_while_the_answer_is_being_stored() {
    let mut stage = Stage::new(|settings| settings.parallel_tools = Some(true));
    stage.send("go");
    let effects = stage.answer(vec![call("bash"), call("read")]);
    let approval_id = effects.iter().find_map(|effect| match effect {
        Effect::AskApproval { approval_id, .. } => Some(approval_id.clone()),
        _ => None,
    });
    let read = running(&effects)[0].clone();
    let decided = Input::Decided { approval_id: approval_id.unwrap(), allowed: true, reason: None };
    // The tool's result is stored first, the decision is still on its way.
    let ended = stage.run.handle(Input::ToolEnded(closing_result(&read, ToolStatus::Completed, "x")));
    let decision = stage.run.handle(decided);
    assert_eq!(stage.perform(ended), []);
    assert_eq!(running(&stage.perform(decision)).len(), 1);
    let asked = stage.kinds().iter().filter(|kind| *kind == "approval-requested").count();
    assert_eq!(asked, 1);
}

#[test]
fn failures_are_repeated_with_growing_waits() {
    let mut stage = Stage::new(|_| ());
    stage.send("go");
    let failure = |asked| Failure {
        retry_after_ms: asked,
        ..Failure::new(ErrorCode::RateLimitExceeded, "slow down", true)
    };
    for (asked, wait) in [(None, 1_000), (Some(7_300), 7_300), (Some(500_000), 60_000)] {
        let effects = stage.fail(failure(asked));
        assert!(effects.contains(&Effect::StartTimer { timer: Timer::Retry, after_ms: wait }), "{effects:?}");
        assert!(calls_model(&stage.feed(Input::TimerFired(Timer::Retry))));
    }
    assert_eq!(ended(&stage.fail(failure(None))), Some(RunEnd::Error), "four calls were allowed");
    assert_eq!(stage.end(), Some((RunEnd::Error, Some(ErrorCode::RateLimitExceeded))));
    let retry = Retry { attempts: 9, max_delay_ms: 60_000 };
    let waits: Vec<u64> = (1..9).map(|attempt| retry.delay_ms(attempt, None)).collect();
    assert_eq!(waits, [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]);
}

#[test]
fn nothing_is_repeated_once_something_came() {
    let mut stage = Stage::new(|_| ());
    stage.send("go");
    stage.feed(Input::ModelBegan);
    let failure = Failure::new(ErrorCode::TruncatedStream, "gone", true);
    let partial = vec![Part::text("half an"), call("read")];
    let effects = stage.feed(Input::ModelFailed { failure, partial });
    assert_eq!(ended(&effects), Some(RunEnd::Error));
    assert!(stage.run.history().open_calls().is_empty());
    let messages = request_messages(stage.run.history().view());
    assert_eq!(messages.len(), 1, "people see the half, the model does not");
    assert!(calls_model(&stage.feed(Input::Resume)), "the message is still unanswered");
}

#[test]
fn an_empty_answer_is_repeated_then_an_error() {
    let mut stage = Stage::new(|settings| settings.retry.attempts = 2);
    stage.send("go");
    stage.feed(Input::ModelBegan);
    let effects = stage.answer(vec![Part::text(" \n")]);
    assert!(effects.contains(&Effect::StartTimer { timer: Timer::Retry, after_ms: 1_000 }));
    stage.feed(Input::TimerFired(Timer::Retry));
    stage.answer(Vec::new());
    assert_eq!(stage.end(), Some((RunEnd::Error, Some(ErrorCode::ThirdParty))));
}

#[test]
fn an_answer_that_was_withheld_is_an_error_and_not_repeated() {
    let withheld = |parts| {
        let finish = Finish::ContentFilter;
        Input::ModelAnswered(Answer { parts, finish, usage: None, envelope: None })
    };
    for (parts, shown) in [(Vec::new(), 1), (vec![Part::text("I cannot")], 2)] {
        let mut stage = Stage::new(|_| ());
        stage.send("go");
        stage.feed(Input::ModelBegan);
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
    let length =
        |parts| Input::ModelAnswered(Answer { parts, finish: Finish::Length, usage: None, envelope: None });
    let broken = Part::ToolCall(ToolCall {
        call_id: "x".into(),
        name: "read".to_owned(),
        arguments: "{\"pa".to_owned(),
        provider_id: None,
        native: None,
    });
    for parts in [vec![Part::text("and so")], vec![Part::text("and"), broken.clone()], vec![broken.clone()]] {
        let mut stage = Stage::new(|_| ());
        stage.send("go");
        assert_eq!(ended(&stage.feed(length(parts))), Some(RunEnd::Length));
        assert!(stage.run.history().open_calls().is_empty(), "half a call never existed");
    }
    let mut stage = Stage::new(|_| ());
    stage.send("go");
    assert_eq!(running(&stage.feed(length(vec![call("read"), broken]))).len(), 1);
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
    assert!(effects.contains(&Effect::StartTimer { timer: Timer::Run, after_ms: 9_000 }), "{effects:?}");
    let tool = running(&stage.answer(vec![call("write"), call("read")]))[0].clone();
    assert_eq!(stage.feed(Input::TimerFired(Timer::Run)), [Effect::StopTools]);
    let effects = stage.end_tool(&tool, "real, within the grace");
    assert!(effects.contains(&Effect::StartTimer { timer: Timer::RecoveryStep, after_ms: RECOVERY_STEP_MS }));
    let tools = effects.iter().find_map(|effect| match effect {
        Effect::CallModel { tools, .. } => Some(*tools),
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
    assert_eq!(stage.feed(Input::TimerFired(Timer::Run)), [Effect::StopModel]);
    stage.feed(Input::ModelStopped { partial: vec![Part::text("I was")], usage: None });
    assert_eq!(stage.feed(Input::TimerFired(Timer::RecoveryStep)), [Effect::StopModel]);
    let effects = stage.feed(Input::ModelStopped { partial: Vec::new(), usage: None });
    assert_eq!(ended(&effects), Some(RunEnd::Timeout));
}

#[test]
fn a_recovered_run_has_the_time_that_was_left() {
    let mut stage = Stage::new(|settings| {
        settings.timeout_ms = Some(9_000);
        settings.recovery = Recovery::Continue;
    });
    stage.send("go");
    stage.now += 4_000;
    let effects = stage.crash(None);
    assert!(effects.contains(&Effect::StartTimer { timer: Timer::Run, after_ms: 5_000 }), "{effects:?}");
    assert!(calls_model(&effects));
}

#[test]
fn a_persons_time_is_not_the_runs() {
    let mut stage = Stage::new(|settings| settings.timeout_ms = Some(1_000));
    stage.send("q1");
    let effects = stage.answer(vec![call("bash")]);
    let asked = effects.iter().find_map(|effect| match effect {
        Effect::AskApproval { approval_id, .. } => Some(approval_id.clone()),
        _ => None,
    });
    assert!(effects.contains(&Effect::StopTimer { timer: Timer::Run }), "{effects:?}");
    stage.now += 600_000;
    let effects = stage.feed(Input::Decided { approval_id: asked.unwrap(), allowed: true, reason: None });
    assert!(effects.contains(&Effect::StartTimer { timer: Timer::Run, after_ms: 1_000 }), "{effects:?}");
    assert_eq!(running(&effects).len(), 1);
}

/// Whether the server is asked to count.
fn counts(effects: &[Effect]) -> bool {
    effects.iter().any(|effect| matches!(effect, Effect::Count { .. }))
}

#[test]
fn a_server_that_counts_is_asked_before_every_call() {
    let mut stage = Stage::new(|settings| settings.counting = Counting::Always);
    let effects = stage.send("q1");
    assert!(counts(&effects) && !calls_model(&effects), "{effects:?}");
    let effects = stage.feed(Input::Counted(Some(120)));
    assert!(calls_model(&effects) && !counts(&effects), "{effects:?}");
    assert_eq!((stage.run.meter().total, stage.run.meter().margin), (120, 0.0));
    let effects = stage.answer(vec![call("read")]);
    let effects = stage.end_tool(&running(&effects)[0], "what was read");
    assert!(counts(&effects), "{effects:?}");
    let effects = stage.feed(Input::Counted(None));
    assert!(calls_model(&effects), "without a count it goes by the estimate: {effects:?}");
}

#[test]
fn a_count_beyond_the_window_makes_room_before_the_call() {
    let mut stage = Stage::new(|settings| settings.counting = Counting::Always);
    for turn in 0..6 {
        stage.send(&format!("q{turn}"));
        stage.feed(Input::Counted(Some(60)));
        stage.answer(vec![Part::text("word ".repeat(300))]);
    }
    let effects = stage.send("q6");
    assert!(counts(&effects));
    let effects = stage.feed(Input::Counted(Some(7_000)));
    assert!(summary(&effects), "{effects:?}");
}

#[test]
fn a_cancel_does_not_wait_for_a_count() {
    let mut stage = Stage::new(|settings| settings.counting = Counting::Unanchored);
    stage.send("q1");
    assert_eq!(stage.feed(Input::Cancel), [Effect::StopModel]);
    let effects = stage.feed(Input::Counted(None));
    assert_eq!(ended(&effects), Some(RunEnd::Cancelled), "{effects:?}");
}

#[test]
fn cancel_while_idle_is_nothing() {
    let mut stage = Stage::new(|_| ());
    assert_eq!(stage.feed(Input::Cancel), []);
    assert!(calls_model(&stage.send("go")), "and is not remembered");
}

#[test]
fn cancel_before_the_start_is_stored() {
    let mut stage = Stage::new(|_| ());
    stage.held = Some(Vec::new());
    stage.send("go");
    assert_eq!(stage.feed(Input::Cancel), []);
    assert!(stage.release().contains(&Effect::Rested), "while the queue was read");
    assert_eq!(stage.queue.len(), 1, "the message waits");

    stage.queue.clear();
    stage.queue("b", "b");
    let read = stage.run.handle(Input::Wake);
    assert_eq!(read, [Effect::ReadQueue]);
    let append = stage.run.handle(Input::QueueRead(stage.queue.clone()));
    assert_eq!(stage.feed(Input::Cancel), []);
    assert_eq!(ended(&stage.perform(append)), Some(RunEnd::Cancelled), "while the start was stored");
}

#[test]
fn cancel_while_streaming_keeps_what_came() {
    let mut stage = Stage::new(|_| ());
    stage.send("go");
    stage.feed(Input::ModelBegan);
    assert_eq!(stage.feed(Input::Cancel), [Effect::StopModel]);
    assert_eq!(stage.feed(Input::Cancel), [], "once is enough");
    let partial = vec![Part::text("I will"), call("read")];
    let effects = stage.feed(Input::ModelStopped { partial, usage: None });
    assert_eq!(ended(&effects), Some(RunEnd::Cancelled));
    let messages = request_messages(stage.run.history().view());
    assert_eq!(messages[1].text(), "I will");
    assert_eq!(
        stage.results(),
        [(ToolStatus::Cancelled, "[Cancelled by the user before it ended.]".to_owned())]
    );
    assert!(
        stage
            .log
            .iter()
            .any(|event| matches!(event.body, EventBody::AssistantAdded { cut: Some(Cut::Cancelled), .. }))
    );
}

#[test]
fn cancel_while_tools_run_lets_them_end_and_starts_none() {
    let mut stage = Stage::new(|_| ());
    stage.send("go");
    let effects = stage.answer(vec![call("read"), call("read"), call("write"), call("bash")]);
    let ids = running(&effects);
    stage.send("later");
    assert_eq!(stage.feed(Input::Cancel), [Effect::StopTools]);
    assert_eq!(stage.end_tool(&ids[0], "real"), []);
    let result = closing_result(&ids[1], ToolStatus::Cancelled, "[stopped]");
    assert_eq!(ended(&stage.feed(Input::ToolEnded(result))), Some(RunEnd::Cancelled));
    let statuses: Vec<ToolStatus> = stage.results().into_iter().map(|(status, _)| status).collect();
    use ToolStatus::{Cancelled, Completed};
    assert_eq!(statuses, [Completed, Cancelled, Cancelled, Cancelled]);
    assert!(stage.run.is_idle());
    assert_eq!(stage.queue.len(), 1, "what waited at the cancel goes on waiting");
    assert!(calls_model(&stage.feed(Input::Resume)));
    assert_eq!(stage.queue, []);
}

#[test]
fn cancel_while_a_person_is_asked_rejects_the_question() {
    let mut stage = Stage::new(|_| ());
    stage.send("go");
    stage.answer(vec![call("bash")]);
    assert_eq!(ended(&stage.feed(Input::Cancel)), Some(RunEnd::Cancelled));
    let kinds = stage.kinds();
    assert_eq!(kinds[kinds.len() - 3..], ["approval-resolved", "tool-finished", "run-finished"]);
}

#[test]
fn cancel_while_waiting_to_repeat() {
    let mut stage = Stage::new(|_| ());
    stage.send("go");
    stage.fail(Failure::new(ErrorCode::Network, "no line", true));
    let effects = stage.feed(Input::Cancel);
    assert_eq!(effects[0], Effect::StopTimer { timer: Timer::Retry });
    assert_eq!(ended(&effects), Some(RunEnd::Cancelled));
}

#[test]
fn a_message_after_a_cancel_is_the_next_one() {
    let mut stage = Stage::new(|_| ());
    stage.send("go");
    let tool = running(&stage.answer(vec![call("write")]))[0].clone();
    stage.feed(Input::Cancel);
    assert_eq!(stage.send("do this instead"), []);
    let effects = stage.end_tool(&tool, "real");
    assert_eq!(ended(&effects), Some(RunEnd::Cancelled));
    assert!(calls_model(&effects));
}

/// At every moment of a turn with a tool a message comes: it is taken at the next boundary, once.
#[test]
fn a_message_is_never_lost() {
    for moment in 0..40 {
        let mut stage = Stage::new(|_| ());
        let mut pending: Vec<Input> = vec![Input::Wake];
        let mut effects: std::collections::VecDeque<Effect> = std::collections::VecDeque::new();
        stage.queue("first", "first");
        let mut tools_left = 1;
        for at in 0..200 {
            if at == moment {
                stage.queue("second", "second");
                effects.extend(stage.run.handle(Input::Wake));
            }
            if let Some(input) = pending.pop() {
                effects.extend(stage.run.handle(input));
                continue;
            }
            pending.extend(match effects.pop_front() {
                None => None,
                Some(Effect::Append { id, events, takes, .. }) => {
                    stage.queue.retain(|queued| !takes.contains(&queued.id));
                    let events = stage.store(events);
                    Some(Input::Appended { id, events })
                }
                // The store had looked before the message came.
                Some(Effect::ReadQueue) if at + 1 == moment => {
                    let read = Input::QueueRead(stage.queue.clone());
                    stage.queue("second", "second");
                    effects.extend(stage.run.handle(Input::Wake));
                    effects.extend(stage.run.handle(read));
                    stage.queue.retain(|queued| queued.id != QueueId::new("none"));
                    continue;
                }
                Some(Effect::ReadQueue) => Some(Input::QueueRead(stage.queue.clone())),
                Some(Effect::CallModel { .. }) => {
                    let part = if tools_left > 0 { call("read") } else { Part::text("done") };
                    tools_left -= 1;
                    Some(Input::ModelAnswered(Answer {
                        parts: vec![part],
                        finish: Finish::Stop,
                        usage: None,
                        envelope: None,
                    }))
                }
                Some(Effect::RunTool { call, .. }) => {
                    Some(Input::ToolEnded(closing_result(&call.call_id, ToolStatus::Completed, "x")))
                }
                Some(_) => None,
            });
        }
        stage.queue.dedup_by(|a, b| a.id == b.id);
        assert!(stage.run.is_idle(), "moment {moment}: {:?}", stage.run.status());
        assert_eq!(stage.queue, [], "moment {moment}");
        assert!(stage.typed().concat().contains("second"), "moment {moment}");
    }
}

#[test]
fn a_message_that_comes_while_facts_are_recorded_is_taken() {
    let mut stage = Stage::new(|_| ());
    stage.held = Some(Vec::new());
    stage.feed(Input::Record(vec![EventBody::TitleSet { title: "t".to_owned() }]));
    assert_eq!(stage.send("go"), []);
    assert!(calls_model(&stage.release()));
}

#[test]
fn a_queue_that_changed_is_read_again() {
    let mut stage = Stage::new(|_| ());
    stage.queue("a", "one");
    let read = stage.run.handle(Input::Wake);
    assert_eq!(read, [Effect::ReadQueue]);
    let append = stage.run.handle(Input::QueueRead(stage.queue.clone()));
    let [Effect::Append { id, .. }] = append.as_slice() else { panic!("{append:?}") };
    stage.queue[0].parts = vec![Part::text("two")];
    assert!(calls_model(&stage.feed(Input::QueueChanged { id: *id })));
    assert_eq!(stage.typed(), ["two"]);
}

fn overflow(used: Option<u64>) -> Failure {
    Failure {
        used_tokens: used,
        limit_tokens: used.map(|_| 6_000),
        ..Failure::new(ErrorCode::ContextOverflow, "too long", false)
    }
}

fn prune_nothing(settings: &mut Settings) {
    settings.policy.prune.protected_tools = vec!["read".to_owned()];
}

/// A session of `turns` turns with an output of about 500 tokens each.
fn long(stage: &mut Stage, turns: usize) {
    for turn in 0..turns {
        stage.send(&format!("turn {turn}"));
        let effects = stage.answer(vec![call("read")]);
        stage.end_tool(&running(&effects)[0], &format!("{turn} ").repeat(250));
        stage.answer(vec![Part::text("so it is")]);
        assert!(stage.run.is_idle());
    }
}

fn summary(effects: &[Effect]) -> bool {
    summary_task(effects).is_some()
}

fn summary_task(effects: &[Effect]) -> Option<u64> {
    effects.iter().find_map(|effect| match effect {
        Effect::Summarise { task, .. } => Some(*task),
        _ => None,
    })
}

fn text_answer(text: &str) -> Answer {
    Answer { parts: vec![Part::text(text)], finish: Finish::Stop, usage: None, envelope: None }
}

/// The summariser's answer to its newest request.
fn summarised(stage: &Stage, answer: Result<Answer, Failure>) -> Input {
    let task = match (&stage.run.phase, &stage.run.candidate) {
        (Phase::Summarising { task, .. }, _) => *task,
        (_, Some(candidate)) => candidate.task,
        other => panic!("nobody is asked: {other:?}"),
    };
    Input::Summarised { task, answer }
}

impl Stage {
    fn summarise(&mut self, text: &str) -> Vec<Effect> {
        let input = summarised(self, Ok(text_answer(text)));
        self.feed(input)
    }
}

#[test]
fn an_overflow_is_edited_away_and_tried_once_more() {
    let mut stage = Stage::new(prune_nothing);
    long(&mut stage, 6);
    stage.send("and now");
    let effects = stage.fail(overflow(None));
    assert!(summary(&effects), "{effects:?}");
    assert_eq!(stage.run.status(), Status::Compacting);
    assert!(calls_model(&stage.summarise("Goal: go on")));
    assert_eq!(stage.run.history().compactions(), 1);
    let effects = stage.fail(overflow(Some(7_000)));
    assert_eq!(ended(&effects), Some(RunEnd::Error), "a second time it is an error");
    assert_eq!(stage.run.budget().window, 6_000, "the limit is learned");
    assert_eq!(stage.end(), Some((RunEnd::Error, Some(ErrorCode::ContextOverflow))));
}

#[test]
fn an_answer_to_a_cut_request_is_kept_for_people_only() {
    let mut stage = Stage::new(prune_nothing);
    long(&mut stage, 5);
    stage.send("q9");
    stage.feed(Input::ModelBegan);
    let partial = vec![Part::text("made of half the conversation"), call("read")];
    let effects = stage.feed(Input::ModelFailed { failure: overflow(Some(7_500)), partial });
    assert!(calls_model(&effects), "{effects:?}");
    assert!(stage.kinds().contains(&"view-edited".to_owned()), "{:?}", stage.kinds());
    let lost = stage.log.iter().rev().find_map(|event| match &event.body {
        EventBody::AssistantAdded { message, cut: Some(Cut::Lost), .. } => Some(message.parts.clone()),
        _ => None,
    });
    assert_eq!(lost, Some(vec![Part::text("made of half the conversation")]));
    assert!(!stage.run.history().view().iter().any(|item| item.message.text().contains("half")));
}

#[test]
fn an_overflow_without_anything_to_leave_out_is_an_error() {
    let mut stage = Stage::new(|_| ());
    stage.send("alone");
    stage.fail(overflow(Some(7_000)));
    assert_eq!(stage.end(), Some((RunEnd::Error, Some(ErrorCode::ContextOverflow))));
    let mut stage = Stage::new(|settings| settings.policy.enabled = false);
    long(&mut stage, 6);
    stage.send("and now");
    stage.fail(overflow(Some(7_000)));
    assert_eq!(stage.end(), Some((RunEnd::Error, Some(ErrorCode::ContextOverflow))), "switched off");
}

#[test]
fn a_wrong_limit_does_not_end_a_session() {
    let mut stage = Stage::new(|settings| settings.model.window = None);
    let text = "word ".repeat(400);
    stage.send(&text);
    let wrong = Failure { limit_tokens: Some(520), ..overflow(None) };
    stage.fail(wrong.clone());
    let said = stage.log.iter().rev().find_map(|event| match &event.body {
        EventBody::RunFinished { error, .. } => error.as_ref().map(|error| error.message.clone()),
        _ => None,
    });
    assert!(said.is_some_and(|said| said.starts_with("the provider refused the request: too long; ")));
    assert_eq!(stage.run.budget().window, 520);
    assert!(calls_model(&stage.send("again")), "each run may ask once");
    stage.fail(wrong);
    assert_eq!(stage.end(), Some((RunEnd::Error, Some(ErrorCode::ContextOverflow))));
    assert!(calls_model(&stage.send("and again")));
    let usage = Some(Usage { input_tokens: 900, output_tokens: 5, ..Usage::default() });
    let parts = vec![Part::text("yes")];
    stage.feed(Input::ModelAnswered(Answer { parts, finish: Finish::Stop, usage, envelope: None }));
    assert_eq!(stage.run.budget().window, crate::budget::ASSUMED_WINDOW, "that was more than the limit");
}

#[test]
fn a_window_is_remembered_until_a_call_is_larger() {
    let remembered = |window| {
        move |settings: &mut Settings| {
            settings.model.window = window;
            settings.model.remembered_window = Some(40_000);
        }
    };
    assert_eq!(Stage::new(remembered(Some(8_000))).run.budget().window, 8_000);
    let mut stage = Stage::new(remembered(None));
    assert_eq!(stage.run.budget().window, 40_000, "more than what is assumed");
    stage.send(&"word ".repeat(20_000));
    let usage = Some(Usage { input_tokens: 41_000, output_tokens: 5, ..Usage::default() });
    let parts = vec![Part::text("yes")];
    stage.feed(Input::ModelAnswered(Answer { parts, finish: Finish::Stop, usage, envelope: None }));
    assert_eq!(stage.run.budget().window, crate::budget::ASSUMED_WINDOW);
}

#[test]
fn an_answer_of_hundreds_of_calls_is_an_error() {
    let mut stage = Stage::new(|_| ());
    stage.send("go");
    let usage = Some(Usage { input_tokens: 60, output_tokens: 900, ..Usage::default() });
    let parts = vec![call("read"); 257];
    stage.feed(Input::ModelAnswered(Answer { parts, finish: Finish::ToolCalls, usage, envelope: None }));
    assert_eq!(stage.end(), Some((RunEnd::Error, Some(ErrorCode::ThirdParty))));
    assert!(stage.run.history().open_calls().is_empty());
    assert_eq!(stage.run.history().cumulative_usage().output_tokens, 900, "it was paid for");
}

#[test]
fn a_bad_summary_is_replaced_by_an_extract() {
    let bad = [
        Ok(text_answer(" ")),
        Ok(Answer { parts: vec![call("read")], finish: Finish::ToolCalls, ..text_answer("") }),
        Ok(Answer { finish: Finish::Length, ..text_answer("cut") }),
        Ok(text_answer(&"long ".repeat(20_000))),
        Err(Failure::new(ErrorCode::Timeout, "never", true)),
    ];
    for answer in bad {
        let mut stage = Stage::new(prune_nothing);
        long(&mut stage, 6);
        stage.send("and now");
        stage.fail(overflow(None));
        let input = summarised(&stage, answer);
        assert!(calls_model(&stage.feed(input)));
        let kinds = stage.kinds();
        assert_eq!(kinds[kinds.len() - 3..], ["compaction-failed", "view-edited", "step-started"]);
        assert!(stage.run.history().edits()[0].edit.why.contains("extract"));
    }
}

#[test]
fn a_compaction_on_request() {
    let mut stage = Stage::new(|_| ());
    let nothing = Effect::CompactionDone(CompactionOutcome::NothingToDo);
    assert_eq!(stage.feed(Input::Compact { instructions: None }), std::slice::from_ref(&nothing));
    stage.send("one");
    stage.answer(vec![Part::text("a short answer")]);
    assert_eq!(stage.feed(Input::Compact { instructions: None }), [nothing], "nothing worth it");
    long(&mut stage, 5);
    let effects = stage.feed(Input::Compact { instructions: Some("mind the paths".to_owned()) });
    assert!(format!("{effects:?}").contains("mind the paths"));
    let busy = stage.feed(Input::Compact { instructions: None });
    assert!(matches!(busy[0], Effect::CompactionDone(CompactionOutcome::Refused(_))));
    assert_eq!(stage.send("meanwhile"), []);
    let effects = stage.summarise("Goal: go on");
    assert!(matches!(effects[1], Effect::CompactionDone(CompactionOutcome::Committed(_))), "{effects:?}");
    assert!(calls_model(&effects), "what came meanwhile is taken");
    assert_eq!(stage.run.step, StepGuards::default(), "the next step plans anew");
}

#[test]
fn cancelling_a_compaction_changes_nothing() {
    let mut stage = Stage::new(|_| ());
    long(&mut stage, 5);
    let hash = stage.run.history().view_hash();
    stage.feed(Input::Compact { instructions: None });
    assert_eq!(stage.feed(Input::Cancel), [Effect::StopModel]);
    let stopped = summarised(&stage, Err(Failure::new(ErrorCode::Interrupted, "stopped", false)));
    let effects = stage.feed(stopped);
    assert!(matches!(effects[1], Effect::CompactionDone(CompactionOutcome::Refused(_))));
    assert!(stage.run.is_idle());
    assert_eq!(stage.run.history().view_hash(), hash);
}

#[test]
fn after_a_crash_nothing_runs_twice() {
    for (recovery, begins_others) in [(Recovery::Rest, false), (Recovery::Continue, true)] {
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
    let mut stage = Stage::new(|settings| settings.recovery = Recovery::Continue);
    stage.send("go");
    for _ in 0..3 {
        assert!(calls_model(&stage.crash(None)));
    }
    stage.crash(None);
    assert_eq!(stage.run.status(), Status::Parked);
    assert!(calls_model(&stage.feed(Input::Resume)));
    stage.answer(vec![Part::text("at last")]);
    assert_eq!(stage.run.status(), Status::Idle);
    assert_eq!(stage.run.history().recoveries(), 0);
}
