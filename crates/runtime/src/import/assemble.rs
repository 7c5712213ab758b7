//! The assembly of a log from entries: matches calls and results, repairs mismatches, and assigns ids.

use std::collections::{HashMap, HashSet, VecDeque};

use longhaul_core::event::{
    EditKind, EditReason, EventBody, NoteReason, PartialAnswerReason, ViewEdit, ViewOperation,
};
use longhaul_core::ids::{CallId, LogRange, Millis, Seq, StepId};
use longhaul_core::message::{Message, Part, Role, ToolCall, ToolResult, ToolStatus};

use super::item::{ImportItem, ImportItemKind, ImportedAnswer, ImportedCompaction, ImportedToolResult};
use super::sink::ImportSink;
use super::{ImportFormat, ImportPosition, ImportedSession};

const NO_RESULT: &str = "[No result of this call was recorded.]";

/// Makes a log of a conversation's entries.
pub(super) fn assemble(
    items: Vec<ImportItem>,
    head: ImportMetadata,
    mut sink: ImportSink,
) -> ImportedSession {
    let matched = match_results(&items);
    let mut log =
        ImportLogBuilder { at: first_time(&items).unwrap_or(head.at), ..ImportLogBuilder::default() };
    let title = head.title.or_else(|| title_of(&items));
    let imported_from = Some(head.format.as_str().to_owned());
    log.push(
        None,
        EventBody::SessionStarted { title: title.clone(), forked_from: None, imported_from, folder: None },
    );
    let mut answers: Vec<Option<(ImportPosition, Option<Millis>, ImportedToolResult)>> = Vec::new();
    let mut rest = Vec::new();
    for item in items {
        match item.kind {
            ImportItemKind::Result(answered) => {
                answers.push(Some((item.place, item.at, answered)));
                rest.push(None);
            }
            kind => {
                answers.push(None);
                rest.push(Some((item.place, item.at, kind)));
            }
        }
    }
    let mut maker = ImportAssembler {
        log,
        sink: &mut sink,
        matched,
        answers,
        starts: Vec::new(),
        steps: 0,
        calls: 0,
        edits: 0,
    };
    for (index, entry) in rest.into_iter().enumerate() {
        // A compaction names the first entry that it keeps, but the log counts events: an entry may make several or
        // none.
        maker.starts.push(maker.log.next_seq());
        match entry {
            Some((place, at, kind)) => maker.entry(index, place, at, kind),
            None => maker.orphan(index),
        }
    }
    let events = maker.log.finish();
    // The readers warn first and the assembly warns later, but a person reads the warnings along the file.
    sink.warnings.sort_by_key(|warning| warning.place);
    ImportedSession {
        title,
        system_prompt: head.system_prompt,
        tools: head.tools,
        events,
        blobs: sink.blobs,
        missing_blobs: Vec::new(),
        warnings: sink.warnings,
    }
}

/// The facts about a conversation besides the entries.
pub(super) struct ImportMetadata {
    pub(super) format: ImportFormat,
    pub(super) at: Millis,
    pub(super) title: Option<String>,
    pub(super) system_prompt: Option<String>,
    /// The list of tool schemas, as JSON text.
    pub(super) tools: Option<String>,
}

fn first_time(items: &[ImportItem]) -> Option<Millis> {
    items.iter().find_map(|item| item.at)
}

/// Returns the first line of the first typed message, cut to 80 characters.
pub(super) fn title_of(items: &[ImportItem]) -> Option<String> {
    let typed = items.iter().find_map(|item| match &item.kind {
        ImportItemKind::Typed(parts) => parts.iter().find_map(Part::as_text),
        _ => None,
    })?;
    let line = typed.lines().find(|line| !line.trim().is_empty())?.trim();
    Some(line.chars().take(80).collect())
}

/// The results of calls, by (entry, number of the call in the entry).
#[derive(Default)]
struct ResultMatches {
    answers: HashMap<CallPlace, usize>,
    /// Results without a call.
    orphans: Vec<usize>,
}

/// Matches results to calls. A result answers the newest open call of the same id. A result without a call id answers
/// the oldest open call of the same tool, or of any tool if the result names none.
fn match_results(items: &[ImportItem]) -> ResultMatches {
    let mut open = UnmatchedCalls::default();
    let mut matched = ResultMatches::default();
    for (index, item) in items.iter().enumerate() {
        match &item.kind {
            ImportItemKind::Assistant(said) => {
                for (n, call) in said.parts.iter().filter_map(as_call).enumerate() {
                    open.add((index, n), call);
                }
            }
            ImportItemKind::Result(answered) => match open.take(answered) {
                Some(call) => drop(matched.answers.insert(call, index)),
                None => matched.orphans.push(index),
            },
            _ => {}
        }
    }
    matched
}

/// The place of a call: the entry, and the call's number in the entry.
type CallPlace = (usize, usize);

/// Calls without a result so far, found in three ways. A call found in one way is skipped in the others.
#[derive(Default)]
struct UnmatchedCalls<'a> {
    by_id: HashMap<&'a str, Vec<CallPlace>>,
    by_tool: HashMap<&'a str, VecDeque<CallPlace>>,
    all: VecDeque<CallPlace>,
    taken: HashSet<CallPlace>,
}

impl<'a> UnmatchedCalls<'a> {
    fn add(&mut self, place: CallPlace, call: &'a ToolCall) {
        self.all.push_back(place);
        self.by_tool.entry(&call.name).or_default().push_back(place);
        if let Some(id) = &call.provider_id {
            self.by_id.entry(id).or_default().push(place);
        }
    }

    fn take(&mut self, answered: &ImportedToolResult) -> Option<CallPlace> {
        let taken = &self.taken;
        let call = match (answered.call.as_deref(), answered.tool.as_deref()) {
            (Some(id), _) => {
                let open = self.by_id.get_mut(id)?;
                // Some programs count their ids again, so an older call may have the same id: the newest one is meant.
                std::iter::from_fn(|| open.pop()).find(|call| !taken.contains(call))
            }
            (None, Some(tool)) => {
                let open = self.by_tool.get_mut(tool)?;
                std::iter::from_fn(|| open.pop_front()).find(|call| !taken.contains(call))
            }
            (None, None) => std::iter::from_fn(|| self.all.pop_front()).find(|call| !taken.contains(call)),
        }?;
        self.taken.insert(call);
        Some(call)
    }
}

fn as_call(part: &Part) -> Option<&ToolCall> {
    match part {
        Part::ToolCall(call) => Some(call),
        _ => None,
    }
}

/// The growing log.
#[derive(Default)]
struct ImportLogBuilder {
    events: Vec<(Millis, EventBody)>,
    at: Millis,
    /// Messages up to and with each event.
    messages: Vec<u64>,
    /// The number of messages hidden by compactions, less the summaries.
    hidden: u64,
}

impl ImportLogBuilder {
    fn next_seq(&self) -> Seq {
        self.events.len() as Seq + 1
    }

    fn messages(&self) -> u64 {
        self.messages.last().copied().unwrap_or_default()
    }

    fn messages_until(&self, seq: Seq) -> u64 {
        let index = usize::try_from(seq).unwrap_or_default().checked_sub(1);
        index.and_then(|index| self.messages.get(index)).copied().unwrap_or_default()
    }

    /// Appends an event. Entries out of order in the file do not turn the clock back.
    fn push(&mut self, at: Option<Millis>, body: EventBody) {
        self.at = self.at.max(at.unwrap_or_default());
        let is_message = matches!(
            body,
            EventBody::MessagesTaken { .. }
                | EventBody::NoteAdded { .. }
                | EventBody::AssistantAdded { .. }
                | EventBody::ToolFinished { .. }
        );
        self.messages.push(self.messages() + u64::from(is_message));
        self.events.push((self.at, body));
    }

    /// Fills in the size after each compaction, which is the input of the next recorded call, and returns the events.
    fn finish(mut self) -> Vec<(Millis, EventBody)> {
        let mut next_input = 0;
        // An import counts no tokens: the size after a compaction is the input that the next call reported.
        for (_, body) in self.events.iter_mut().rev() {
            match body {
                EventBody::StepFinished { usage: Some(usage), .. } => next_input = usage.input_tokens,
                EventBody::ViewEdited(edit) => edit.compressed_tokens = next_input,
                _ => {}
            }
        }
        self.events
    }
}

/// A call with a final id.
struct ImportedCall {
    id: CallId,
    tool: String,
}

struct ImportAssembler<'a> {
    log: ImportLogBuilder,
    sink: &'a mut ImportSink,
    matched: ResultMatches,
    answers: Vec<Option<(ImportPosition, Option<Millis>, ImportedToolResult)>>,
    /// The position in the log at which each entry so far begins.
    starts: Vec<Seq>,
    steps: u64,
    calls: u64,
    edits: u64,
}

impl ImportAssembler<'_> {
    fn entry(&mut self, index: usize, place: ImportPosition, at: Option<Millis>, kind: ImportItemKind) {
        match kind {
            ImportItemKind::Typed(parts) if parts.is_empty() => {
                self.sink.warn(place, "an empty user message was left out")
            }
            ImportItemKind::Typed(parts) => {
                let message = self.message(Role::User, parts);
                self.log.push(at, EventBody::message_taken(message));
            }
            ImportItemKind::Note(parts) => self.note(at, parts, NoteReason::Imported),
            ImportItemKind::SystemMessage(parts) => self.note(at, parts, NoteReason::SystemMessage),
            ImportItemKind::Assistant(said) => self.step(index, place, at, *said),
            ImportItemKind::Compaction(compaction) => self.compaction(place, at, compaction),
            // Results were matched and removed before.
            ImportItemKind::Result(_) => {}
        }
    }

    fn message(&self, role: Role, parts: Vec<Part>) -> Message {
        Message { id: format!("m{}", self.log.next_seq()).into(), role, parts, origin: None }
    }

    fn note(&mut self, at: Option<Millis>, parts: Vec<Part>, why: NoteReason) {
        let message = self.message(Role::User, parts);
        self.log.push(at, EventBody::NoteAdded { message, why });
    }

    fn step(&mut self, index: usize, place: ImportPosition, at: Option<Millis>, mut said: ImportedAnswer) {
        self.steps += 1;
        let step_id = StepId::new(format!("s{}", self.steps));
        let calls = self.name_calls(&mut said.parts);
        let answered = (0..calls.len()).any(|n| self.matched.answers.contains_key(&(index, n)));
        let cut = match (said.cut, &said.error) {
            (None, Some(_)) => {
                // Results show that the calls were run, so the model saw this answer. A failed answer without results
                // was lost.
                Some(if answered { PartialAnswerReason::Cancelled } else { PartialAnswerReason::Lost })
            }
            (cut, _) => cut,
        };
        // A call that failed without any text leaves no message, only its failed step.
        let failed = said.error.is_some() && said.parts.is_empty();
        if !failed {
            let message = Message { origin: said.origin, ..self.message(Role::Assistant, said.parts) };
            let added =
                EventBody::AssistantAdded { step_id: step_id.clone(), message, finish: said.finish, cut };
            self.log.push(at, added);
        }
        self.log.push(at, outcome(step_id, said.usage, said.error));
        // The model never sees a lost answer, so its calls need no results.
        if cut != Some(PartialAnswerReason::Lost) {
            self.results(index, place, &calls, cut);
        }
    }

    fn name_calls(&mut self, parts: &mut [Part]) -> Vec<ImportedCall> {
        let mut named = Vec::new();
        for part in parts {
            if let Part::ToolCall(call) = part {
                self.calls += 1;
                call.call_id = CallId::new(format!("c{}", self.calls));
                named.push(ImportedCall { id: call.call_id.clone(), tool: call.name.clone() });
            }
        }
        named
    }

    /// Adds the results of a step in the order of the file, then the made-up results of calls without any.
    fn results(
        &mut self,
        index: usize,
        place: ImportPosition,
        calls: &[ImportedCall],
        cut: Option<PartialAnswerReason>,
    ) {
        let (mut recorded, mut missing) = (Vec::new(), Vec::new());
        for (n, call) in calls.iter().enumerate() {
            match self.matched.answers.get(&(index, n)) {
                Some(result) => recorded.push((*result, call)),
                None => missing.push(call),
            }
        }
        // In the order of the recording, whatever the order of the calls.
        recorded.sort_by_key(|(result, _)| *result);
        for (result, call) in recorded {
            let Some((_, at, answered)) = self.answers.get_mut(result).and_then(Option::take) else {
                continue;
            };
            let result = ToolResult {
                call_id: call.id.clone(),
                status: answered.status,
                content: answered.content,
                truncated: None,
            };
            self.log.push(at, EventBody::ToolStarted { call_id: call.id.clone() });
            self.log.push(at, EventBody::ToolFinished { result });
        }
        for call in missing {
            self.sink.warn(
                place,
                format!("a call of `{}` has no result in the file; one that says so was added", call.tool),
            );
            let status = if cut.is_some() { ToolStatus::Cancelled } else { ToolStatus::Interrupted };
            let content = vec![Part::text(NO_RESULT)];
            let result = ToolResult { call_id: call.id.clone(), status, content, truncated: None };
            self.log.push(None, EventBody::ToolFinished { result });
        }
    }

    /// Keeps a result whose call is not in the file readable as a note. Matched results follow their calls.
    fn orphan(&mut self, index: usize) {
        // The orphans were found in the order of the file, so the list is sorted.
        if self.matched.orphans.binary_search(&index).is_err() {
            return;
        }
        let Some((place, at, answered)) = self.answers.get_mut(index).and_then(Option::take) else { return };
        self.sink.warn(place, "a result without its call was kept as a note");
        let tool = answered.tool.as_deref().unwrap_or("a tool");
        let mut parts = vec![Part::text(format!("[Result of {tool}; its call is not in the recording.]\n"))];
        parts.extend(answered.content);
        self.note(at, parts, NoteReason::Imported);
    }

    fn compaction(&mut self, place: ImportPosition, at: Option<Millis>, compaction: ImportedCompaction) {
        let summary = vec![Part::text(format!("[SUMMARY]\n{}", compaction.summary))];
        let kept = compaction.first_kept.and_then(|index| self.starts.get(index)).copied();
        let Some(last) = kept.map(|seq| seq - 1).filter(|last| *last >= 2) else {
            self.sink.warn(place, "a compaction that does not say what it covers was kept as a note");
            return self.note(at, summary, NoteReason::Imported);
        };
        self.edits += 1;
        // Position 1 is `SessionStarted`, which is no message.
        let range = LogRange { from: 2, to: last };
        let original_messages = self.log.messages() - self.log.hidden;
        self.log.hidden = self.log.messages_until(last).saturating_sub(1);
        let edit = ViewEdit {
            id: format!("e{}", self.edits).into(),
            base_view_hash: "imported".to_owned(),
            ops: vec![ViewOperation::Replace { range, parts: summary, summary: true }],
            kind: EditKind::Compaction,
            strategy: "imported".to_owned(),
            reason: EditReason::TokenLimit,
            trigger_tokens: compaction.tokens_before,
            original_tokens: compaction.tokens_before,
            compressed_tokens: 0,
            original_bound: 0,
            compressed_bound: 0,
            original_messages,
            compressed_messages: self.log.messages() - self.log.hidden,
            why: "The recorded session was compacted here.".to_owned(),
            usage: None,
            summary: None,
        };
        self.log.push(at, EventBody::ViewEdited(Box::new(edit)));
    }
}

fn outcome(
    step_id: StepId,
    usage: Option<longhaul_core::usage::Usage>,
    error: Option<(longhaul_core::error::ErrorCode, String)>,
) -> EventBody {
    match error {
        Some((code, message)) => EventBody::StepFailed {
            step_id,
            code,
            message,
            used_tokens: None,
            limit_tokens: None,
            usage: None,
            is_permanent: false,
        },
        None => EventBody::StepFinished { step_id, usage, estimated_input: 0, envelope: None },
    }
}
