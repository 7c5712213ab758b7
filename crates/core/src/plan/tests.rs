use super::*;
use crate::estimate::MessageTokenCounter;
use crate::event::{EditKind, Event, EventBody, FORMAT, StepKind, StepStart, ViewOperation};
use crate::history::{CLEARED, request_messages};
use crate::ids::{LogRange, Seq};
use crate::message::{Message, ModelAnswer, ModelOrigin, ModelStopReason, Part, ToolCall, ToolStatus};
use crate::strategy;
use crate::usage::Usage;

mod earlier_summary;
mod extracts;
mod last_resort;
mod pruning;
mod pruning_agent;
mod strategies;
mod summaries;
mod triggers;
mod user_quotes;

/// A session as it grows.
struct Log {
    history: History,
    fixed: u64,
}

impl Log {
    fn new() -> Self {
        let mut log = Self { history: History::default(), fixed: 100 };
        log.add(EventBody::SessionStarted {
            title: None,
            forked_from: None,
            imported_from: None,
            folder: None,
        });
        log.add(EventBody::RunStarted { run_id: "r".into() });
        log
    }

    /// Turns of one typed message, one step with one result of `tokens` tokens, and a word at the end.
    fn turns(turns: usize, tokens: usize) -> Self {
        let mut log = Self::new();
        for turn in 0..turns {
            log.typed(&format!("question {turn}"));
            log.step("read", tokens);
            log.say("answered");
        }
        log
    }

    fn add(&mut self, body: EventBody) -> Seq {
        let event = Event { seq: self.history.last_seq() + 1, at: 0, format: FORMAT, body };
        self.history.apply(&event).unwrap();
        event.seq
    }

    fn typed(&mut self, text: &str) -> Seq {
        let message = Message::user(text, vec![Part::text(text)]);
        self.add(EventBody::message_taken(message))
    }

    fn answer(&mut self, parts: Vec<Part>) {
        let step_id = crate::ids::StepId::new(format!("s{}", self.history.last_seq()));
        let start = StepStart {
            step_id: step_id.clone(),
            run_id: "r".into(),
            purpose: StepKind::Main,
            model: origin(),
            system_hash: String::new(),
            tools_hash: String::new(),
            view_hash: String::new(),
            fixed_tokens: self.fixed,
            estimated_input: 0,
            max_output_tokens: 1,
            window_tokens: None,
        };
        self.add(EventBody::StepStarted(Box::new(start)));
        let message = Message { id: "a".into(), role: Role::Assistant, parts, origin: Some(origin()) };
        let finish = ModelStopReason::Stop;
        self.add(EventBody::AssistantAdded { step_id: step_id.clone(), message, finish, cut: None });
        self.add(EventBody::StepFinished { step_id, usage: None, estimated_input: 0, envelope: None });
    }

    fn say(&mut self, text: &str) {
        self.answer(vec![Part::text(text)]);
    }

    fn step(&mut self, tool: &str, tokens: usize) -> Seq {
        let id = format!("c{}", self.history.last_seq());
        self.answer(vec![Part::ToolCall(ToolCall {
            call_id: id.as_str().into(),
            name: tool.to_owned(),
            arguments: "{\"path\":\"src/main.rs\"}".to_owned(),
            provider_id: None,
            native: None,
        })]);
        let text = " word".repeat(tokens);
        let result = crate::history::closing_result(&id.as_str().into(), ToolStatus::Completed, &text);
        self.add(EventBody::ToolFinished { result })
    }

    fn plan(&self, budget: &Budget, policy: &CompactionPolicy, trigger: &PlanTrigger) -> Plan {
        plan(&self.history, self.fixed, budget, policy, trigger)
    }

    fn routine(&self, window: u64, policy: &CompactionPolicy) -> Plan {
        self.plan(&Budget::new(window, None), policy, &PlanTrigger::Routine)
    }

    fn bound(&self) -> u64 {
        meter::read(&self.history, self.fixed).bound()
    }

    fn commit(&mut self, edit: &ViewEdit) {
        self.add(EventBody::ViewEdited(Box::new(edit.clone())));
    }

    fn shown(&self) -> String {
        let texts = self.history.view().iter().map(|item| extract::plain_text(&item.message));
        texts.collect::<Vec<_>>().join("|")
    }
}

fn origin() -> ModelOrigin {
    ModelOrigin { provider: "p".to_owned(), api: "a".to_owned(), model: "m".to_owned() }
}

fn policy(name: &str) -> CompactionPolicy {
    let prune = PruneOptions { protected_tools: vec!["read".to_owned()], ..PruneOptions::default() };
    CompactionPolicy { prune, ..CompactionPolicy::new(strategy::by_name(name).unwrap()) }
}

fn pruning(protect_tokens: u64, minimum_tokens: u64) -> CompactionPolicy {
    let prune = PruneOptions { protect_tokens, minimum_tokens, protected_tools: vec!["plan".to_owned()] };
    CompactionPolicy { prune, trigger: Some(StrategyTrigger::Tokens(2_000)), ..policy("reactive-overflow") }
}

fn said(text: &str) -> ModelAnswer {
    ModelAnswer {
        parts: vec![Part::text(text)],
        finish: ModelStopReason::Stop,
        usage: Some(Usage::default()),
        envelope: None,
    }
}

/// A summary of a conversation in which the last question before it is the newest.
fn good_for(text: &str) -> String {
    let name = text.rfind("question").map_or("question", |at| &text[at..]);
    let name = name.split(|char: char| !char.is_ascii_alphanumeric()).next().unwrap_or_default();
    format!(
        "Goal: all is well. Done: {name} was asked and answered, and so were the others of this part before it, word by \
         word, as the user wanted it from the beginning to the end. Next steps: the questions that follow are still open. Files: src/main.rs"
    )
}

/// The edit with that answer to every request.
fn finished(log: &Log, mut draft: SummaryDraft, text: &str) -> Result<ViewEdit, SummaryRejection> {
    while draft.request(log.history.view(), &Budget::new(8_000, None)).is_some() {
        draft.take(said(text))?;
    }
    assert!(draft.request(log.history.view(), &Budget::new(8_000, None)).is_none());
    draft.finish(&log.history)
}

fn edit(plan: Plan) -> ViewEdit {
    match plan {
        Plan::Edit(edit) => *edit,
        other => panic!("no edit: {other:?}"),
    }
}

fn draft(plan: Plan) -> SummaryDraft {
    match plan {
        Plan::Summarise(draft) => *draft,
        other => panic!("no draft: {other:?}"),
    }
}

/// Turns of a question and an answer of about so many tokens each, every one with a word of its own.
fn talk(turns: usize, tokens: usize) -> Log {
    let mut log = Log::new();
    for turn in 0..turns {
        log.typed(&format!("question{turn} {}", "word ".repeat(tokens)));
        log.say(&format!("answer{turn} {}", "word ".repeat(tokens)));
    }
    log
}

fn pruned(text: &str) -> String {
    serde_json::json!({ "prunedConversation": [], "summary": good_for(text) }).to_string()
}

#[test]
fn a_request_that_does_not_fit_names_the_margin_in_its_figure() {
    let long_prompt = ContextOverflow {
        fixed_tokens: 27_545,
        needed_tokens: 30_305,
        usable_tokens: 12_000,
        window_tokens: 16_000,
    };
    let text = long_prompt.to_string();
    let expected = "system prompt and tools take 27,545 tokens, and up to 30,305 with the newest message and the \
                    estimate's possible error. 12,000 fit";
    assert!(text.starts_with(expected), "{text}");
    let long_message = ContextOverflow { fixed_tokens: 500, ..long_prompt }.to_string();
    let expected = "the newest message needs up to 30,305 tokens with system prompt and tools (500) and the \
                    estimate's possible error. 12,000 fit";
    assert!(long_message.starts_with(expected), "{long_message}");
}
