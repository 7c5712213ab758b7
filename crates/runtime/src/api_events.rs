//! The events of the API for watchers, one flat JSON object each.
//!
//! Durable announcements have a `seq` and are made from stored events, after the commit. The others (deltas, progress,
//! notices) are not stored.

mod payload;

use std::sync::Arc;

use longhaul_core::event::{EditKind, Event, EventBody, FORMAT};
use longhaul_core::history::{History, HistoryFoldError, OpenRun};
use longhaul_core::ids::{ApprovalId, Millis, Seq, SessionId};
use longhaul_core::retention_report::RetentionReport;
use longhaul_core::run::{Run, RunEffect, RunLoopInput, RunNotice, RunSettings, ServerWait};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value, json};

use self::payload::payloads;
pub use self::payload::{call_arguments, metadata_fields, token_usage};
use crate::clock::now_ms;
use crate::compaction::ViewSnapshot;

/// The advice to a person on how to resume a parked session.
pub const GO_ON: &str = "Send a message, or resume: either begins a new run.";

/// An announcement to watchers.
#[derive(Clone, Debug, PartialEq)]
pub struct ApiEvent {
    /// The event's name, for example `llm:chunk`.
    pub name: &'static str,
    /// The session.
    pub session_id: SessionId,
    /// Position of the announced stored event; `None` if nothing was stored.
    pub seq: Option<Seq>,
    /// The number of this event among the announcements of a stored event, counted from 1; 0 if nothing was stored.
    pub nth: usize,
    /// True for the last announcement of a stored event.
    pub ends_event: bool,
    /// The rest.
    pub payload: Map<String, Value>,
}

impl ApiEvent {
    /// Creates an announcement without a stored event. A payload other than an object is dropped.
    pub fn passing(name: &'static str, session_id: &SessionId, payload: Value) -> Self {
        let payload = object(payload);
        Self { name, session_id: session_id.clone(), seq: None, nth: 0, ends_event: false, payload }
    }

    /// Returns the flat JSON form: `{name, sessionId, seq?, …}`.
    pub fn to_json(&self) -> Value {
        let mut all = Map::new();
        all.insert("name".to_owned(), self.name.into());
        all.insert("sessionId".to_owned(), self.session_id.as_str().into());
        if let Some(seq) = self.seq {
            all.insert("seq".to_owned(), seq.into());
        }
        all.extend(self.payload.clone());
        Value::Object(all)
    }

    /// Returns a text field of the payload, empty if there is none.
    pub fn text(&self, key: &str) -> &str {
        self.payload.get(key).and_then(Value::as_str).unwrap_or_default()
    }
}

fn object(payload: Value) -> Map<String, Value> {
    match payload {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

impl Serialize for ApiEvent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut all = serializer.serialize_map(None)?;
        all.serialize_entry("name", self.name)?;
        all.serialize_entry("sessionId", self.session_id.as_str())?;
        if let Some(seq) = self.seq {
            all.serialize_entry("seq", &seq)?;
        }
        for (key, value) in &self.payload {
            all.serialize_entry(key, value)?;
        }
        all.end()
    }
}

/// Returns the name of a question beyond its session.
pub fn global_approval(session_id: &SessionId, approval_id: &ApprovalId) -> String {
    format!("{session_id}:{approval_id}")
}

/// Returns the name of a question within its session, from either name.
pub(crate) fn own_approval(session_id: &SessionId, approval_id: &ApprovalId) -> ApprovalId {
    let own = approval_id.as_str().strip_prefix(session_id.as_str()).and_then(|rest| rest.strip_prefix(':'));
    own.map_or_else(|| approval_id.clone(), ApprovalId::from)
}

/// The facts around a stored event, for the event's announcement.
pub(crate) struct EventContext<'a> {
    /// The loop, the event folded in.
    pub(crate) run: &'a Run,
    /// The open run before the event.
    pub(crate) open: Option<&'a OpenRun>,
    /// The retention report of an edit of the view.
    pub(crate) survival: Option<&'a RetentionReport>,
}

/// Returns whether an event is a compaction, whose announcement carries a retention report.
pub(crate) fn is_compaction(event: &Event) -> bool {
    matches!(&event.body, EventBody::ViewEdited(edit) if edit.kind == EditKind::Compaction)
}

/// The view before an edit.
pub(crate) struct ViewBeforeEdit(ViewSnapshot);

impl ViewBeforeEdit {
    pub(crate) fn of(run: &Run) -> Self {
        Self(ViewSnapshot::of(run.history()))
    }

    /// Returns the edit's retention report; `None` if a cancel came meanwhile.
    pub(crate) fn survival(&self, run: &Run) -> Option<RetentionReport> {
        self.0.survival_in(run.history())
    }
}

/// Returns the announcements of a stored event.
pub(crate) fn of_event(session_id: &SessionId, event: &Event, around: &EventContext<'_>) -> Vec<ApiEvent> {
    let run_id = around.open.map(|run| run.id.as_str().to_owned());
    let made =
        payloads(session_id, event, around).into_iter().enumerate().map(|(before, (name, payload))| {
            let mut payload = object(payload);
            if let Some(run_id) = &run_id {
                payload.entry("runId").or_insert_with(|| run_id.as_str().into());
            }
            ApiEvent {
                name,
                session_id: session_id.clone(),
                seq: Some(event.seq),
                nth: before + 1,
                ends_event: false,
                payload,
            }
        });
    let mut made: Vec<ApiEvent> = made.collect();
    if let Some(last) = made.last_mut() {
        last.ends_event = true;
    }
    made
}

/// Returns the run of an event: the open run before the event, or the run begun by the event.
pub(crate) fn run_around(before: Option<OpenRun>, event: &Event, history: &History) -> Option<OpenRun> {
    match &event.body {
        EventBody::RunStarted { .. } => before.or_else(|| history.open_run().cloned()),
        _ => before,
    }
}

/// Makes the announcements of a stored log again, exactly as at the time of storage.
///
/// The log is given from its first event on, in order; only requested events are announced. A replay serves a single
/// reading of the log.
#[derive(Debug)]
pub struct EventReplay {
    session_id: SessionId,
    run: Run,
}

impl EventReplay {
    /// Returns a replay from the start of a log: `history` is empty.
    pub(crate) fn new(session_id: SessionId, settings: Arc<RunSettings>, history: History) -> Self {
        Self { session_id, run: Run::new(settings, history) }
    }

    /// Returns the last given position.
    pub fn seq(&self) -> Seq {
        self.run.history().last_seq()
    }

    /// Takes the next event without making announcements.
    ///
    /// # Errors
    /// [`HistoryFoldError`] if the event does not follow the last one; nothing has changed then.
    pub fn skip_event(&mut self, event: &Event) -> Result<(), HistoryFoldError> {
        // The loop trusts its store and checks neither order nor format, and a replayed log may be damaged.
        let last = self.seq();
        if event.seq != last + 1 {
            return Err(HistoryFoldError::Gap { last, found: event.seq });
        }
        if event.format > FORMAT {
            return Err(HistoryFoldError::Newer { seq: event.seq, format: event.format });
        }
        // A loop at rest folds recorded events, and has no other effect.
        let effects = self.run.handle(RunLoopInput::Record(Vec::new()));
        if let Some(RunEffect::Append { id, .. }) = effects.into_iter().next() {
            self.run.handle(RunLoopInput::Appended { id, events: vec![event.clone()] });
        }
        Ok(())
    }

    /// Takes the next event and makes the event's announcements.
    ///
    /// # Errors
    /// The errors of [`EventReplay::skip_event`].
    pub fn take(&mut self, event: &Event) -> Result<Vec<ApiEvent>, HistoryFoldError> {
        // Read before the fold, as in the driver: an event that ends a run still belongs to that run.
        let open = self.run.history().open_run().cloned();
        let before = is_compaction(event).then(|| ViewBeforeEdit::of(&self.run));
        self.skip_event(event)?;
        let survival = before.and_then(|before| before.survival(&self.run));
        let open = run_around(open, event, self.run.history());
        let around = EventContext { run: &self.run, open: open.as_ref(), survival: survival.as_ref() };
        Ok(of_event(&self.session_id, event, &around))
    }
}

/// Returns a wait for the model's server, in the API's form.
pub fn waiting(wait: &ServerWait, next_attempt_at: Millis) -> Value {
    json!({
        "reason": wait.reason.as_str(), "attempt": wait.attempt, "nextAttemptAt": next_attempt_at,
        "lastError": { "code": wait.code, "message": wait.message },
    })
}

/// Returns the announcement of a notice.
pub(crate) fn of_notice(session_id: &SessionId, notice: &RunNotice) -> ApiEvent {
    let (name, payload) = match notice {
        RunNotice::Compacting { strategy, reason, trigger_tokens } => (
            "context:compacting",
            json!({ "strategy": strategy, "reason": reason, "trigger": trigger_tokens }),
        ),
        RunNotice::Waiting(wait) => ("run:waiting", waiting(wait, now_ms().saturating_add(wait.after_ms))),
    };
    ApiEvent::passing(name, session_id, payload)
}
