//! The agent of a reading job, its tool, its model's bill and its summariser, around the loop of a session.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use longhaul_core::attempt::RetryPolicy;
use longhaul_core::estimate::MessageTokenCounter;
use longhaul_core::event::{Event, EventBody, FORMAT, RunEnd};
use longhaul_core::history::{History, LogEntryKind, ViewItem};
use longhaul_core::ids::CallId;
use longhaul_core::message::{
    BlobRef, Message, ModelAnswer, ModelOrigin, ModelStopReason, OutputTruncation, Part, Role, ToolCall,
    ToolResult, ToolStatus,
};
use longhaul_core::plan::{SummaryForm, SummaryRequest};
use longhaul_core::queue::QueuedMessage;
use longhaul_core::run::{
    RequestPrefix, Run, RunEffect, RunLoopInput, RunRecovery, RunSettings, ServerCountPolicy, SessionModel,
    ToolApproval, ToolRule,
};
use longhaul_core::truncate::{self, TextLimit, TruncationMode};
use longhaul_core::usage::Usage;

use super::{ReadingJob, ReadingOptions, ReadingOutcome};
use crate::lab::recording::{RecordedMessage, text_of};
use crate::lab::summary::{length_tokens, stand_in_summary};

/// The maximum number of times that the agent reads on in a file that was cut.
const MOST_REREADS: usize = 3;

/// The number of the agent's requests that pass while a background summary is written.
const SUMMARY_STEPS: usize = 2;

/// The maximum number of requests of a job. A job that needs more has gone wrong.
const MOST_REQUESTS: usize = 1_000;

/// Milliseconds between two requests.
const STEP_MS: u64 = 15_000;

const TASK: &str = "Read every file of the list in order, one after the other. When you have read them all, write a \
                    report with the line of each file that matters.";

/// The arguments of one call: a file and its first line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileReadCall {
    file: usize,
    from: usize,
    tries: usize,
}

struct ReadingAgent<'a> {
    job: &'a ReadingJob,
    options: &'a ReadingOptions,
    run: Run,
    log: Vec<Event>,
    queue: Vec<QueuedMessage>,
    now: u64,
    work: VecDeque<RunEffect>,
    /// Files not requested by a call yet.
    next_file: usize,
    asked: BTreeMap<CallId, FileReadCall>,
    /// Calls of the newest answer.
    newest: Vec<CallId>,
    /// For each file, the shown lines.
    shown: Vec<Vec<bool>>,
    /// The position in the log and the file of each call's result.
    stored: Vec<(u64, usize)>,
    /// The messages of the previous request, by text and tokens.
    sent: Vec<(String, u64)>,
    /// The summaries that are being written: the task, the answer, and the number of the request at which each is done.
    beside: Vec<(u64, ModelAnswer, usize)>,
    ended: Option<RunEnd>,
    outcome: ReadingOutcome,
}

pub(super) fn run(job: &ReadingJob, options: &ReadingOptions) -> ReadingOutcome {
    let mut agent = ReadingAgent::new(job, options);
    agent.work_through();
    agent.outcome()
}

impl<'a> ReadingAgent<'a> {
    fn new(job: &'a ReadingJob, options: &'a ReadingOptions) -> Self {
        let mut agent = Self {
            job,
            options,
            run: Run::new(Arc::new(settings(options)), History::new(MessageTokenCounter::default())),
            log: Vec::new(),
            queue: Vec::new(),
            now: 1_000_000,
            work: VecDeque::new(),
            next_file: 0,
            asked: BTreeMap::new(),
            newest: Vec::new(),
            shown: job.files.iter().map(|file| vec![false; file.lines.len()]).collect(),
            stored: Vec::new(),
            sent: Vec::new(),
            beside: Vec::new(),
            ended: None,
            outcome: ReadingOutcome::default(),
        };
        agent.feed(RunLoopInput::Record(vec![EventBody::SessionStarted {
            title: None,
            forked_from: None,
            imported_from: None,
            folder: None,
        }]));
        agent
    }

    fn work_through(&mut self) {
        let paths: Vec<&str> = self.job.files.iter().map(|file| file.path.as_str()).collect();
        let text = format!("{TASK}\n\n{}", paths.join("\n"));
        self.queue.push(QueuedMessage::new("q", self.now, vec![Part::text(text)]));
        self.feed(RunLoopInput::Wake);
        while self.ended.is_none() && self.outcome.requests < MOST_REQUESTS {
            match self.work.pop_front() {
                Some(effect) => self.perform(effect),
                None => break,
            }
        }
    }

    fn feed(&mut self, input: RunLoopInput) {
        let effects = self.run.handle(input);
        self.work.extend(effects);
        // A runtime stores events and reads the queue at once, before any slower effect.
        while self.ended.is_none()
            && matches!(self.work.front(), Some(RunEffect::Append { .. } | RunEffect::ReadQueue))
        {
            if let Some(effect) = self.work.pop_front() {
                self.perform(effect);
            }
        }
    }

    fn perform(&mut self, effect: RunEffect) {
        match effect {
            RunEffect::Append { id, events, takes, .. } => {
                self.queue.retain(|entry| !takes.contains(&entry.id));
                let events = events.into_iter().map(|body| self.append_event(body)).collect();
                self.feed(RunLoopInput::Appended { id, events });
            }
            RunEffect::ReadQueue => self.feed(RunLoopInput::QueueRead(self.queue.clone())),
            RunEffect::CallModel { .. } => self.call_model(),
            RunEffect::RunTool { call, limit } => {
                let result = self.read_file(&call, &limit);
                self.feed(RunLoopInput::ToolEnded(result));
            }
            RunEffect::Summarise { task, ahead, request } => self.write_summary(task, ahead, &request),
            RunEffect::StopSummary { task } => self.beside.retain(|(at, ..)| *at != task),
            RunEffect::RunEnded(end) => self.ended = Some(end),
            _ => {}
        }
    }

    fn append_event(&mut self, body: EventBody) -> Event {
        let event = Event { seq: self.log.len() as u64 + 1, at: self.now, format: FORMAT, body };
        if let EventBody::ToolFinished { result } = &event.body
            && let Some(wanted) = self.asked.get(&result.call_id)
        {
            self.stored.push((event.seq, wanted.file));
        }
        self.log.push(event.clone());
        event
    }

    /// Bills the request, notes what it shows, and answers it.
    fn call_model(&mut self) {
        self.now += STEP_MS;
        let input = self.bill_request();
        self.note_results();
        let parts = self.answer();
        let counter = MessageTokenCounter::default();
        let output: u64 = parts.iter().map(|part| counter.part(part)).sum();
        // In units of an uncached input token: output costs 5, a cached token 0.1.
        self.outcome.cost += 5.0 * output as f64;
        let finish = if self.newest.is_empty() { ModelStopReason::Stop } else { ModelStopReason::ToolCalls };
        let usage = Usage { input_tokens: input, output_tokens: output, ..Usage::default() };
        // The loop expects the beginning of a stream before its end.
        self.feed(RunLoopInput::ModelBegan);
        self.feed(RunLoopInput::ModelAnswered(ModelAnswer {
            parts,
            finish,
            usage: Some(usage),
            envelope: None,
        }));
        // Background summaries take some requests' time, as with a real model.
        let requests = self.outcome.requests;
        let done: Vec<(u64, ModelAnswer, usize)> =
            self.beside.extract_if(.., |(_, _, ready_at)| *ready_at <= requests).collect();
        for (task, answer, _) in done {
            self.feed(RunLoopInput::Summarised { task, answer: Ok(answer) });
        }
    }

    fn bill_request(&mut self) -> u64 {
        let fixed = self.options.fixed_tokens + MessageTokenCounter::default().framing().reply;
        let view = self.run.history().view();
        let sent: Vec<(String, u64)> =
            view.iter().map(|item| (text_of(&item.message), item.tokens)).collect();
        let same = self.sent.iter().zip(&sent).take_while(|(before, now)| before == now).count();
        let common = sent[..same].iter().map(|(_, tokens)| tokens).sum::<u64>();
        // Nothing is cached before the first request, not even the system prompt and the tools.
        let cached = if self.outcome.requests == 0 { 0 } else { fixed + common };
        let input = fixed + sent.iter().map(|(_, tokens)| tokens).sum::<u64>();
        self.outcome.cost += 0.1 * cached as f64 + (input - cached) as f64;
        self.outcome.requests += 1;
        self.outcome.context.push(input);
        self.outcome.overflows += usize::from(input > self.run.budget().usable);
        self.sent = sent;
        input
    }

    /// Notes the lines of the newest results that the request shows.
    fn note_results(&mut self) {
        let view: Vec<ViewItem> = self.run.history().view().to_vec();
        let mut is_placeholder = false;
        for call in &self.newest {
            let Some(wanted) = self.asked.get(call) else { continue };
            let is_of_call =
                |part: &Part| matches!(part, Part::ToolResult(result) if result.call_id == *call);
            let text = view.iter().find(|item| item.message.parts.iter().any(is_of_call));
            let text = text.map(|item| text_of(&item.message)).unwrap_or_default();
            let lines: std::collections::BTreeSet<&str> = text.lines().collect();
            let file = &self.job.files[wanted.file];
            let mut count = 0;
            for (at, line) in file.lines.iter().enumerate().skip(wanted.from) {
                if lines.contains(line.as_str()) {
                    self.shown[wanted.file][at] = true;
                    count += 1;
                }
            }
            is_placeholder |= count == 0;
            let is_whole = self.shown[wanted.file].iter().all(|shown| *shown);
            self.outcome.files_cut += usize::from(wanted.from == 0 && !is_whole);
        }
        self.outcome.placeholders += usize::from(is_placeholder);
    }

    /// Returns the next answer: it reads on in a file that was cut, reads the next files, or reports at the end.
    fn answer(&mut self) -> Vec<Part> {
        let newest = std::mem::take(&mut self.newest);
        let mut wanted = Vec::new();
        for call in &newest {
            let Some(last) = self.asked.get(call) else { continue };
            // The agent goes on at the first line that it has not seen, wherever the cut was.
            let next = self.shown[last.file].iter().position(|shown| !shown);
            if let Some(from) = next.filter(|_| last.tries < MOST_REREADS) {
                wanted.push(FileReadCall { file: last.file, from, tries: last.tries + 1 });
            }
        }
        if wanted.is_empty() {
            let end = (self.next_file + self.options.files_per_step).min(self.job.files.len());
            wanted.extend((self.next_file..end).map(|file| FileReadCall { file, from: 0, tries: 0 }));
            self.next_file = end;
        } else {
            self.outcome.rereads += 1;
        }
        if wanted.is_empty() {
            return vec![Part::text("All files are read. Here is the report of what matters in each.")];
        }
        let mut parts = vec![Part::text("I read on.")];
        parts.extend(wanted.into_iter().map(|wanted| self.call(wanted)));
        parts
    }

    fn call(&mut self, wanted: FileReadCall) -> Part {
        // The loop gives calls new ids, which are known only when the tool runs. Until then the provider's id is used.
        let path = &self.job.files[wanted.file].path;
        let arguments = serde_json::json!({ "path": path, "offset": wanted.from + 1 }).to_string();
        let call_id = CallId::new(format!("w-{}-{}-{}", wanted.file, wanted.from, wanted.tries));
        self.asked.insert(call_id.clone(), wanted);
        self.newest.push(call_id.clone());
        Part::ToolCall(ToolCall {
            provider_id: Some(call_id.as_str().to_owned()),
            call_id,
            name: "read".to_owned(),
            arguments,
            native: None,
        })
    }

    fn read_file(&mut self, call: &ToolCall, limit: &TextLimit) -> ToolResult {
        // From now on the call is known by the id that the loop gave it.
        let own = call.provider_id.as_deref().map(CallId::new);
        if let Some(own) = own
            && let Some(wanted) = self.asked.get(&own).copied()
        {
            self.asked.insert(call.call_id.clone(), wanted);
            self.newest.iter_mut().filter(|id| **id == own).for_each(|id| *id = call.call_id.clone());
        }
        let wanted = self.asked.get(&call.call_id).copied();
        let text = wanted
            .map_or_else(String::new, |wanted| self.job.files[wanted.file].lines[wanted.from..].join("\n"));
        let limit = if self.options.truncates_at_source {
            *limit
        } else {
            // A foreign agent's tool has no limit of ours.
            TextLimit { max_chars: u64::MAX, max_tokens: u64::MAX }
        };
        let cut = truncate::truncate(&text, &limit, TruncationMode::Head, &MessageTokenCounter::default());
        let truncated = cut.as_ref().map(|cut| OutputTruncation {
            head_bytes: cut.head_bytes,
            omitted_chars: cut.omitted_chars,
            total_chars: cut.total_chars,
            // The blob is never read, so its hash only has to have the right length.
            blob: BlobRef { hash: "0".repeat(64), bytes: text.len() as u64 },
            lost_bytes: 0,
        });
        let text = cut.map_or(text, |cut| cut.kept);
        let content = vec![Part::text(text)];
        ToolResult { call_id: call.call_id.clone(), status: ToolStatus::Completed, content, truncated }
    }

    /// Writes the stand-in's summary of the messages that the request shows. A background summary takes a
    /// while.
    fn write_summary(&mut self, task: u64, ahead: bool, request: &SummaryRequest) {
        let counter = MessageTokenCounter::default();
        let shown: Vec<RecordedMessage> =
            request.messages.iter().map(|message| recorded(message, &counter)).collect();
        // The last message is the order to summarise and no material.
        let material: Vec<&RecordedMessage> = shown.iter().take(shown.len().saturating_sub(1)).collect();
        let material = if material.is_empty() { shown.iter().collect() } else { material };
        let covered = material.iter().map(|entry| entry.tokens).sum();
        let text =
            stand_in_summary(&material, length_tokens(covered, Some(request.max_output_tokens)), &counter);
        let input: u64 = shown.iter().map(|entry| entry.tokens).sum();
        let order = shown.last().map_or(0, |entry| entry.tokens);
        let cost = match request.form {
            // Such a request has the session's own prefix, which the cache has; only the order is new.
            SummaryForm::Riding => 0.1 * (self.options.fixed_tokens + input - order) as f64 + order as f64,
            SummaryForm::Flattened => input as f64,
        };
        let cost = cost + 5.0 * counter.text(&text) as f64;
        self.outcome.cost += cost;
        self.outcome.summary_cost += cost;
        let answer = ModelAnswer {
            parts: vec![Part::text(text)],
            finish: ModelStopReason::Stop,
            usage: None,
            envelope: None,
        };
        if ahead {
            return self.beside.push((task, answer, self.outcome.requests + SUMMARY_STEPS));
        }
        self.outcome.waits += 1;
        self.feed(RunLoopInput::Summarised { task, answer: Ok(answer) });
    }

    fn outcome(self) -> ReadingOutcome {
        let text: String = self.sent.iter().flat_map(|(text, _)| [text.as_str(), "\n"]).collect();
        let view = self.run.history().view();
        let (mut visible, mut reachable) = (0, 0);
        for (file, source) in self.job.files.iter().enumerate() {
            let is_visible = text.contains(&source.needle);
            // A handle returns the whole of a result, what was cut at the source included.
            let is_reachable = self.stored.iter().any(|(seq, at)| *at == file && leads_to(view, *seq));
            visible += usize::from(is_visible);
            reachable += usize::from(is_visible || is_reachable);
        }
        let incomplete = self.shown.iter().filter(|lines| lines.iter().any(|shown| !shown)).count();
        let error = match &self.ended {
            Some(RunEnd::Stop) => None,
            other => Some(format!("{other:?}")),
        };
        ReadingOutcome {
            needles_visible: visible,
            needles_reachable: reachable,
            files_incomplete: incomplete,
            edits: self.run.history().edits().len(),
            error,
            ..self.outcome
        }
    }
}

fn recorded(message: &Message, counter: &MessageTokenCounter) -> RecordedMessage {
    // A result is recognised by its part, because its message may have the role of a user.
    let has_result = message.parts.iter().any(|part| matches!(part, Part::ToolResult(_)));
    let kind = match message.role {
        Role::Assistant => LogEntryKind::Assistant(None),
        _ if has_result => LogEntryKind::Result { tool: "read".to_owned() },
        _ => LogEntryKind::Typed,
    };
    let text = text_of(message).into();
    RecordedMessage {
        seq: 0,
        at: None,
        message: Arc::new(message.clone()),
        kind,
        tokens: counter.message(message),
        text,
    }
}

fn settings(options: &ReadingOptions) -> RunSettings {
    let rule =
        ToolRule { read_only: true, poll: true, approval: ToolApproval::Allow, max_output_chars: 120_000 };
    RunSettings {
        max_steps: 100_000,
        timeout_ms: None,
        parallel_tools: None,
        recovery: RunRecovery::Rest,
        retry: RetryPolicy { patience_ms: Some(1_000), max_delay_ms: 1_000, stream_attempts: 1 },
        policy: options.policy.clone(),
        pre_compact_ms: None,
        counting: ServerCountPolicy::Never,
        model: SessionModel {
            origin: ModelOrigin {
                provider: "lab".to_owned(),
                api: "lab".to_owned(),
                model: "lab".to_owned(),
            },
            window: Some(options.window_tokens),
            remembered_window: None,
            max_output: None,
            tools: true,
            prefill: false,
        },
        fixed: RequestPrefix {
            system_hash: "s".to_owned(),
            tools_hash: "t".to_owned(),
            tokens: options.fixed_tokens,
            tool_tokens: BTreeMap::new(),
            before_recall: None,
            deferred: None,
        },
        tools: BTreeMap::from([("read".to_owned(), rule)]),
    }
}

/// Returns true if the view shows a position of the log, or covers it with a handle.
fn leads_to(view: &[ViewItem], seq: u64) -> bool {
    view.iter().any(|item| item.range.contains(seq) || item.covers.iter().any(|range| range.contains(seq)))
}
