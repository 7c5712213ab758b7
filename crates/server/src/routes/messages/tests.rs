//! Pages read from the store against pages of the whole log's fold, and how much of a log they read.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use longhaul_core::error::ErrorCode;
use longhaul_core::event::{
    EditKind, EditReason, Event, EventBody, NoteReason, OmittedPart, PartialAnswerReason, RunEnd, ViewEdit,
    ViewOperation,
};
use longhaul_core::history::{History, LogEntryKind};
use longhaul_core::ids::{LogRange, Millis, QueueId, Seq, SessionId};
use longhaul_core::message::{
    BlobRef, Message, ModelOrigin, ModelStopReason, Part, RawJson, ReasoningPart, Role, ToolCall, ToolResult,
    ToolStatus,
};
use longhaul_core::metadata::MessageMetadata;
use longhaul_core::queue::QueuedMessage;
use longhaul_core::usage::Usage;
use longhaul_store::{
    AnswerChunk, EnqueueReceipt, IdempotentRequest, Lease, LogAppend, MemoryStore, NewIdempotentRequest,
    NewQueuedMessage, NewSession, SessionRecord, SharedStore, Store, StoreError, UndamagedEvents,
    ViewChangeKind,
};
use serde_json::{Map, Value, json};
use tokio::sync::watch;

use super::fragment::LogFragmentCallState;
use super::selection::read_page;
use super::{MessagePageDetails, MessagePageRange, of_assistant, of_result, show_call, with_markers};

const SESSION: &str = "s";

/// Numbers that repeat for a seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }
}

/// A log that grows by whatever can happen in a session.
struct Log {
    dice: Dice,
    events: Vec<EventBody>,
    /// The positions of messages and of edits, with the edits' names.
    messages: Vec<Seq>,
    edits: Vec<String>,
    omissions: Vec<String>,
    names: u64,
}

impl Log {
    fn new(seed: u64) -> Self {
        let started =
            EventBody::SessionStarted { title: None, forked_from: None, imported_from: None, folder: None };
        let (messages, edits, omissions) = (Vec::new(), Vec::new(), Vec::new());
        Self { dice: Dice(seed), events: vec![started], messages, edits, omissions, names: 0 }
    }

    fn push(&mut self, event: EventBody) {
        self.events.push(event);
    }

    fn push_message(&mut self, event: EventBody) {
        self.push(event);
        self.messages.push(self.events.len() as Seq);
    }

    fn name(&mut self, kind: &str) -> String {
        self.names += 1;
        format!("{kind}{}", self.names)
    }

    fn run(&mut self, steps: u64) {
        let run = self.name("run");
        self.push(EventBody::RunStarted { run_id: run.as_str().into() });
        self.question();
        for _ in 0..steps {
            self.between_steps();
            self.step();
        }
        let reason = RunEnd::Stop;
        self.push(EventBody::RunFinished { run_id: run.into(), reason, error: None });
        self.between_steps();
    }

    fn question(&mut self) {
        let question = self.name("q");
        let message = Message::user(question.clone(), vec![Part::text(question)]);
        self.push_message(EventBody::message_taken(message));
    }

    fn step(&mut self) {
        while self.dice.below(5) == 0 {
            self.piece(PartialAnswerReason::Lost);
            if self.dice.below(2) == 0 {
                let step = format!("s{}", self.names);
                self.fail(&step);
            }
        }
        let pieces = if self.dice.below(4) == 0 { 1 + self.dice.below(3) } else { 0 };
        for _ in 0..pieces {
            self.piece(PartialAnswerReason::Paused);
            match self.dice.below(4) {
                0 => self.edit(),
                1 => self.piece(PartialAnswerReason::Lost),
                2 if self.dice.below(3) == 0 => self.note(NoteReason::BrokenOff),
                _ => {}
            }
        }
        let calls = self.dice.below(4);
        let cut = (self.dice.below(6) == 0).then_some(PartialAnswerReason::Cancelled);
        let calls: Vec<String> = (0..calls).map(|_| self.name("c")).collect();
        let step = self.answer(cut, &calls);
        let usage = (self.dice.below(3) > 0).then(|| Usage {
            input_tokens: self.names,
            output_tokens: 3,
            ..Usage::default()
        });
        self.push(EventBody::StepFinished {
            step_id: step.into(),
            usage,
            estimated_input: 5,
            envelope: None,
        });
        self.results(calls);
    }

    /// Outcomes in any order; some tools never began.
    fn results(&mut self, mut calls: Vec<String>) {
        for call in &calls {
            if self.dice.below(5) > 0 {
                self.push(EventBody::ToolStarted { call_id: call.as_str().into() });
            }
        }
        while !calls.is_empty() {
            let call = calls.remove(self.dice.below(calls.len() as u64) as usize);
            let statuses =
                [ToolStatus::Completed, ToolStatus::Error, ToolStatus::Cancelled, ToolStatus::Interrupted];
            let status = statuses[self.dice.below(4) as usize];
            let content = vec![Part::text(format!("gave {call}"))];
            let result = ToolResult { call_id: call.into(), status, content, truncated: None };
            self.push_message(EventBody::ToolFinished { result });
        }
    }

    fn piece(&mut self, cut: PartialAnswerReason) {
        // A piece that says nothing is no beginning of an answer.
        let calls = if self.dice.below(4) == 0 { vec![self.name("c")] } else { Vec::new() };
        self.answer(Some(cut), &calls);
        if cut == PartialAnswerReason::Paused {
            self.results(calls);
        }
    }

    fn answer(&mut self, cut: Option<PartialAnswerReason>, calls: &[String]) -> String {
        let step = self.name("s");
        let mut parts = Vec::new();
        if self.dice.below(3) == 0 {
            let native = (self.dice.below(2) == 0).then(|| RawJson("{}".to_owned()));
            parts.push(Part::Reasoning(ReasoningPart { text: format!("thinks {step}"), native }));
        }
        if self.dice.below(6) > 0 {
            parts.push(Part::text(format!("says {step}")));
        }
        parts.extend(calls.iter().map(|call| {
            let (name, arguments) = (format!("tool-{call}"), "{}".to_owned());
            Part::ToolCall(ToolCall {
                call_id: call.as_str().into(),
                name,
                arguments,
                provider_id: None,
                native: None,
            })
        }));
        let origin = Some(ModelOrigin { provider: "p".into(), api: "a".into(), model: "m".into() });
        let message = Message { id: format!("m-{step}").into(), role: Role::Assistant, parts, origin };
        let finish = ModelStopReason::Stop;
        self.push_message(EventBody::AssistantAdded { step_id: step.as_str().into(), message, finish, cut });
        step
    }

    fn fail(&mut self, step: &str) {
        self.push(EventBody::StepFailed {
            step_id: step.into(),
            code: ErrorCode::Network,
            message: "reset".into(),
            used_tokens: None,
            limit_tokens: None,
            usage: None,
            is_permanent: false,
        });
    }

    fn note(&mut self, why: NoteReason) {
        let name = self.name("n");
        let message = Message::user(name.clone(), vec![Part::text(name)]);
        self.push_message(EventBody::NoteAdded { message, why });
    }

    fn between_steps(&mut self) {
        match self.dice.below(12) {
            0 => self.note(NoteReason::Recalled),
            1 | 2 => self.edit(),
            3 if !self.edits.is_empty() => {
                let at = self.dice.below(self.edits.len() as u64) as usize;
                let edit_id = self.edits.remove(at);
                self.push(EventBody::ViewRestored { edit_id: edit_id.into() });
            }
            4 => self.omit(),
            5 if !self.omissions.is_empty() => {
                let edit_id = self.omissions.remove(0);
                self.push(EventBody::ViewRestored { edit_id: edit_id.into() });
            }
            6 => self.push(EventBody::TitleSet { title: "t".into() }),
            _ => {}
        }
    }

    fn omit(&mut self) {
        let Some(seq) = self.messages.last().copied() else { return };
        let name = self.name("o");
        let parts = vec![OmittedPart::Part { seq, part: 0, note: "left out".into() }];
        self.push(EventBody::PartsOmitted { edit_id: name.as_str().into(), parts, reason: "r".into() });
        self.omissions.push(name);
    }

    /// An edit of a range of messages that ends before the newest ones.
    fn edit(&mut self) {
        if self.messages.len() < 8 {
            return;
        }
        let last = self.messages.len() - 4;
        let to = self.dice.below(last as u64) as usize;
        let from = to - self.dice.below(12.min(to as u64 + 1)) as usize;
        let range = LogRange { from: self.messages[from], to: self.messages[to] };
        let is_prune = self.dice.below(3) == 0;
        let op = match self.dice.below(3) {
            _ if is_prune => ViewOperation::clear(range.to),
            0 => ViewOperation::Drop { range },
            kind => {
                let parts = vec![Part::text(format!("summary of {} to {}", range.from, range.to))];
                ViewOperation::Replace { range, parts, summary: kind == 1 }
            }
        };
        self.push_edit(if is_prune { EditKind::Prune } else { EditKind::Compaction }, op);
    }

    /// A compaction of all messages but the newest few.
    fn compact(&mut self) {
        let Some(last) = self.messages.len().checked_sub(3) else { return };
        let range = LogRange { from: 2, to: self.messages[last] };
        let parts = vec![Part::text("all of it")];
        self.push_edit(EditKind::Compaction, ViewOperation::Replace { range, parts, summary: true });
    }

    fn push_edit(&mut self, kind: EditKind, op: ViewOperation) {
        let id = self.name("e");
        self.push(EventBody::ViewEdited(Box::new(ViewEdit {
            id: id.as_str().into(),
            base_view_hash: String::new(),
            ops: vec![op],
            kind,
            strategy: "s".into(),
            reason: EditReason::Requested,
            trigger_tokens: 0,
            original_tokens: 0,
            compressed_tokens: 0,
            original_bound: 0,
            compressed_bound: 0,
            original_messages: 0,
            compressed_messages: 0,
            why: String::new(),
            usage: None,
            summary: None,
        })));
        self.edits.push(id);
    }

    async fn stored(self) -> (Arc<CountingStore>, Vec<Event>) {
        let events = (1..).zip(self.events).collect();
        let store = Arc::new(CountingStore::default());
        store.inner.create(NewSession { id: SESSION.into(), title: None, at: 1, events }).await.unwrap();
        let log = store.inner.read(&SESSION.into(), 0, usize::MAX).await.unwrap();
        (store, log)
    }
}

/// All messages of a log as the fold of the whole log has them.
fn folded(log: &[Event]) -> Vec<(Seq, Value)> {
    let history = History::fold(log).unwrap();
    let mut known = MessagePageDetails::default();
    log.iter().for_each(|event| known.note(event));
    let times: BTreeMap<Seq, Millis> = log.iter().map(|event| (event.seq, event.at)).collect();
    let active = || history.edits().iter().filter(|state| state.active);
    let mut all = Vec::new();
    for entry in history.entries().iter().filter(|entry| !history.is_continued(entry)) {
        let is_lost = entry.kind == LogEntryKind::Assistant(Some(PartialAnswerReason::Lost));
        let message = if is_lost { Message::clone(&entry.message) } else { history.whole(entry) };
        let mut fields = Map::new();
        fields.insert("role".to_owned(), json!(message.role));
        fields.insert("parts".to_owned(), json!(with_markers(entry.seq, &message.parts)));
        if is_lost && entry.goes_on() {
            let begun = history.entry(entry.begins).unwrap();
            fields.insert("continues".to_owned(), json!(begun.message.id));
        }
        let mut answers = None;
        match &entry.kind {
            LogEntryKind::Typed => {}
            LogEntryKind::Assistant(cut) => {
                let calls = message.tool_calls().map(|call| show_call(call, state(call, &history), false));
                of_assistant(&message, *cut, calls.collect(), &mut fields);
            }
            LogEntryKind::Result { tool } => answers = of_result(&message, Some(tool), &mut fields),
            _ => drop(fields.insert("isNote".to_owned(), true.into())),
        }
        let is_result = matches!(entry.kind, LogEntryKind::Result { .. });
        let hides = |op: &ViewOperation| op.range().contains(entry.seq);
        let taken = active().find(|state| entry.seq < state.seq && state.edit.ops.iter().any(hides));
        let shown = super::MessagePageEntry {
            seq: entry.seq,
            message_id: message.id.to_string(),
            said_in: entry.message.id.to_string(),
            fields,
            taken_field: Some(if is_result { "compactedAt" } else { "summarizedAt" }),
            taken_at: taken.map(|state| times[&state.seq]),
            answers,
        };
        all.push((entry.seq, known.complete(shown)));
    }
    for state in active() {
        for op in &state.edit.ops {
            if let ViewOperation::Replace { parts, summary: true, .. } = op {
                all.push((state.seq, known.complete(super::show_summary(state.seq, &state.edit, parts))));
            }
        }
    }
    all.sort_by_key(|(seq, _)| *seq);
    all
}

fn state(call: &ToolCall, history: &History) -> LogFragmentCallState {
    if let Some(open) = history.open_calls().iter().find(|open| open.call.call_id == call.call_id) {
        return LogFragmentCallState::Open { started: open.started };
    }
    let mut results = history.entries().iter().filter_map(|entry| match entry.message.parts.first() {
        Some(Part::ToolResult(result)) => Some(result),
        _ => None,
    });
    let result = results.find(|result| result.call_id == call.call_id);
    result.map_or(LogFragmentCallState::Void, |result| LogFragmentCallState::Ended(result.status))
}

async fn page(store: &Arc<CountingStore>, range: MessagePageRange) -> (Vec<Value>, bool) {
    let id = SessionId::from(SESSION);
    let end = store.inner.session(&id).await.unwrap().last_seq;
    let shared: SharedStore = Arc::clone(store) as SharedStore;
    let page = read_page(&shared, &id, end, range, false).await.unwrap();
    let known = page.known;
    (page.messages.into_iter().map(|shown| known.complete(shown)).collect(), page.has_more)
}

/// Returns the same page of the fold. Events outside of the page do not tell when a tool began.
fn expected(all: &[(Seq, Value)], range: MessagePageRange) -> (Vec<Value>, bool) {
    let wanted = all.iter().filter(|(seq, _)| {
        range.after.is_none_or(|after| *seq > after) && range.before.is_none_or(|before| *seq < before)
    });
    let mut wanted: Vec<Value> = wanted.map(|(_, value)| value.clone()).collect();
    let has_more = wanted.len() > range.limit;
    match range.before {
        Some(_) => drop(wanted.drain(..wanted.len().saturating_sub(range.limit))),
        None => wanted.truncate(range.limit),
    }
    (wanted, has_more)
}

fn without_starts(values: Vec<Value>, starts_before: &BTreeMap<String, Seq>) -> Vec<Value> {
    let first = values.first().and_then(|value| value["seq"].as_u64()).unwrap_or(0);
    let mut values = values;
    for value in &mut values {
        let started = value["callId"].as_str().and_then(|call| starts_before.get(call));
        if let (Some(started), Some(fields)) = (started, value.as_object_mut())
            && *started < first
        {
            fields.remove("startedAt");
        }
    }
    values
}

#[tokio::test]
async fn pages_are_those_of_the_whole_fold() {
    for seed in 1..=8 {
        let mut log = Log::new(seed);
        for _ in 0..30 {
            let steps = 1 + log.dice.below(7);
            log.run(steps);
        }
        let (store, log) = log.stored().await;
        let all = folded(&log);
        let starts = log.iter().filter_map(|event| match &event.body {
            EventBody::ToolStarted { call_id } => Some((call_id.to_string(), event.seq)),
            _ => None,
        });
        let starts: BTreeMap<String, Seq> = starts.collect();
        let end = log.len() as Seq;
        let mut ranges =
            vec![(None, None, 7), (None, Some(Seq::MAX), 50), (None, Some(0), 5), (Some(end), None, 5)];
        for at in (1..=end + 1).step_by(7) {
            for limit in [1, 2, 13] {
                ranges.extend([(Some(at), None, limit), (None, Some(at), limit)]);
            }
        }
        for (after, before, limit) in ranges {
            let range = MessagePageRange { after, before, limit };
            let (found, has_more) = page(&store, range).await;
            let (expected, expected_more) = expected(&all, range);
            let expected = without_starts(expected, &starts);
            let what = format!("seed {seed}, after {after:?}, before {before:?}, limit {limit}");
            assert_eq!(found, expected, "{what}");
            assert_eq!(has_more, expected_more, "{what}");
        }
    }
}

/// The arguments of a call are JSON, whatever the model wrote, and stand beside its own text.
#[test]
fn arguments_of_calls_are_json_beside_their_text() {
    for (text, expected) in [
        (r#" {"n": 1.50} "#, json!({ "n": 1.5 })),
        ("", json!({})),
        ("[1]", json!([1])),
        (r#"{"cut": "#, Value::Null),
        ("ls -l", Value::Null),
    ] {
        let call = ToolCall {
            call_id: "c".into(),
            name: "bash".to_owned(),
            arguments: text.to_owned(),
            provider_id: None,
            native: None,
        };
        let shown = show_call(&call, LogFragmentCallState::Void, false);
        assert_eq!((&shown["args"], &shown["argsText"]), (&expected, &json!(text)));
    }
}

/// A call is pending until its tool begins, and runs as long as a run goes on; without one it is pending again.
#[tokio::test]
async fn open_calls_say_what_they_wait_for() {
    let mut log = Log::new(1);
    log.push(EventBody::RunStarted { run_id: "r".into() });
    log.answer(None, &["c1".to_owned(), "c2".to_owned()]);
    log.push(EventBody::ToolStarted { call_id: "c1".into() });
    let (store, log) = log.stored().await;
    let store: SharedStore = store;
    for (is_running, expected) in [(true, ["running", "pending"]), (false, ["pending", "pending"])] {
        let range = MessagePageRange { after: None, before: None, limit: 5 };
        let page = read_page(&store, &SESSION.into(), log.len() as Seq, range, is_running).await.unwrap();
        let calls = &page.messages[0].fields["toolCalls"];
        assert_eq!([&calls[0]["status"], &calls[1]["status"]], expected);
    }
}

#[tokio::test]
async fn what_a_page_reads_does_not_grow_with_the_log() {
    let mut read = Vec::new();
    for runs in [60, 600, 6_000] {
        let mut log = Log::new(7);
        for _ in 0..runs {
            log.run(3);
        }
        read.push(counted(log, |last| vec![(None, Some(Seq::MAX)), (Some(last - 40), None)]).await);
        // The oldest messages of a log from which each compaction takes all but the newest.
        let mut log = Log::new(7);
        for _ in 0..runs {
            log.question();
            log.compact();
        }
        read.push(counted(log, |_| vec![(None, None), (None, Some(60))]).await);
    }
    assert!(read.iter().flatten().all(|count| *count < 1_000), "{read:?}");
}

async fn counted(log: Log, ranges: impl Fn(Seq) -> Vec<(Option<Seq>, Option<Seq>)>) -> Vec<usize> {
    let (store, log) = log.stored().await;
    let mut counts = Vec::new();
    for (after, before) in ranges(log.len() as Seq) {
        store.events.store(0, Ordering::Relaxed);
        page(&store, MessagePageRange { after, before, limit: 50 }).await;
        counts.push(store.events.load(Ordering::Relaxed));
    }
    counts
}

/// A store that counts the events that are read from it.
#[derive(Default)]
struct CountingStore {
    inner: MemoryStore,
    events: AtomicUsize,
}

impl CountingStore {
    fn count(&self, events: &[Event]) {
        self.events.fetch_add(events.len(), Ordering::Relaxed);
    }
}

#[async_trait]
impl Store for CountingStore {
    async fn read(&self, id: &SessionId, after: Seq, limit: usize) -> Result<Vec<Event>, StoreError> {
        let events = self.inner.read(id, after, limit).await?;
        self.count(&events);
        Ok(events)
    }

    async fn tail(&self, id: &SessionId, limit: usize) -> Result<Vec<Event>, StoreError> {
        let events = self.inner.tail(id, limit).await?;
        self.count(&events);
        Ok(events)
    }

    async fn read_undamaged(
        &self,
        id: &SessionId,
        after: Seq,
        limit: usize,
    ) -> Result<UndamagedEvents, StoreError> {
        let found = self.inner.read_undamaged(id, after, limit).await?;
        self.count(&found.events);
        Ok(found)
    }

    async fn view_changes(
        &self,
        id: &SessionId,
        kind: ViewChangeKind,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<Event>, StoreError> {
        // Databases find these by an index: only what is answered counts.
        let events = self.inner.view_changes(id, kind, after, limit).await?;
        self.count(&events);
        Ok(events)
    }

    async fn session(&self, id: &SessionId) -> Result<SessionRecord, StoreError> {
        self.inner.session(id).await
    }

    async fn sessions(&self, limit: usize) -> Result<Vec<SessionRecord>, StoreError> {
        self.inner.sessions(limit).await
    }

    async fn create(&self, session: NewSession) -> Result<SessionRecord, StoreError> {
        self.inner.create(session).await
    }

    async fn delete(&self, id: &SessionId) -> Result<(), StoreError> {
        self.inner.delete(id).await
    }

    async fn claim(&self, id: &SessionId, owner: &str) -> Result<Lease, StoreError> {
        self.inner.claim(id, owner).await
    }

    async fn release(&self, lease: &Lease) -> Result<(), StoreError> {
        self.inner.release(lease).await
    }

    async fn append(&self, lease: &Lease, append: LogAppend) -> Result<Vec<Event>, StoreError> {
        self.inner.append(lease, append).await
    }

    async fn enqueue(&self, id: &SessionId, message: NewQueuedMessage) -> Result<EnqueueReceipt, StoreError> {
        self.inner.enqueue(id, message).await
    }

    async fn queue(&self, id: &SessionId) -> Result<Vec<QueuedMessage>, StoreError> {
        self.inner.queue(id).await
    }

    async fn edit_queued(
        &self,
        id: &SessionId,
        entry: &QueueId,
        parts: Vec<Part>,
        metadata: Option<MessageMetadata>,
    ) -> Result<(), StoreError> {
        self.inner.edit_queued(id, entry, parts, metadata).await
    }

    async fn remove_queued(&self, id: &SessionId, entry: &QueueId) -> Result<(), StoreError> {
        self.inner.remove_queued(id, entry).await
    }

    async fn clear_queue(&self, id: &SessionId) -> Result<Vec<QueueId>, StoreError> {
        self.inner.clear_queue(id).await
    }

    async fn begin_request(
        &self,
        id: &SessionId,
        request: NewIdempotentRequest,
    ) -> Result<IdempotentRequest, StoreError> {
        self.inner.begin_request(id, request).await
    }

    async fn answer_request(
        &self,
        id: &SessionId,
        key: &str,
        answer: Option<String>,
    ) -> Result<(), StoreError> {
        self.inner.answer_request(id, key, answer).await
    }

    async fn put_chunk(&self, lease: &Lease, chunk: AnswerChunk) -> Result<(), StoreError> {
        self.inner.put_chunk(lease, chunk).await
    }

    async fn chunks(&self, id: &SessionId) -> Result<Vec<AnswerChunk>, StoreError> {
        self.inner.chunks(id).await
    }

    async fn blobs(&self, id: &SessionId) -> Result<Vec<BlobRef>, StoreError> {
        self.inner.blobs(id).await
    }

    async fn watch(&self, id: &SessionId) -> Result<watch::Receiver<Seq>, StoreError> {
        self.inner.watch(id).await
    }

    async fn close(&self) {
        self.inner.close().await;
    }
}
