//! The log of a scripted model: the received requests, and the outcome of each call.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use longhaul_core::error::ErrorCode;

use crate::ModelRequest;
use longhaul_wire::validation::RequestViolation;

/// The purpose of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ScriptedCallKind {
    /// A step of a conversation.
    Main,
    /// A summary.
    Summary,
}

/// The outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ScriptedCallOutcome {
    /// The call has not ended.
    Open,
    /// The closing event was sent.
    Finished,
    /// The call failed before the first event.
    Refused(ErrorCode),
    /// The call's stream failed.
    Failed(ErrorCode),
    /// The call's stream was dropped before the end.
    Dropped,
}

/// A call.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ScriptedCallRecord {
    /// The purpose of the call.
    pub kind: ScriptedCallKind,
    /// The model's count of the request, in tokens.
    pub input_tokens: u64,
    /// The model's output, written or planned, in tokens.
    pub output_tokens: u64,
    /// Number of messages in the request.
    pub messages: usize,
    /// Hash of the rendered request: equal for equal requests, within a build.
    pub hash: u64,
    /// The outcome of the call.
    pub outcome: ScriptedCallOutcome,
    /// The broken rule, if any.
    pub violation: Option<RequestViolation>,
    /// The request, if requests are kept.
    pub request: Option<ModelRequest>,
}

/// All calls of a model.
#[derive(Debug, Default)]
pub(super) struct ScriptedCallLog {
    records: Arc<Mutex<Vec<ScriptedCallRecord>>>,
    whole: bool,
}

impl ScriptedCallLog {
    pub(super) fn keep_requests(&mut self) {
        self.whole = true;
    }

    pub(super) fn records(&self) -> Vec<ScriptedCallRecord> {
        lock(&self.records).clone()
    }

    pub(super) fn open(
        &self,
        kind: ScriptedCallKind,
        input_tokens: u64,
        rendered: Bytes,
        request: &ModelRequest,
    ) -> ScriptedCallEntry {
        // This hasher may change with the compiler, but hashes are compared within a build only.
        let mut hasher = DefaultHasher::new();
        rendered.hash(&mut hasher);
        let record = ScriptedCallRecord {
            kind,
            input_tokens,
            output_tokens: 0,
            messages: request.messages.len(),
            hash: hasher.finish(),
            outcome: ScriptedCallOutcome::Open,
            violation: None,
            request: self.whole.then(|| request.clone()),
        };
        let mut records = lock(&self.records);
        records.push(record);
        // Records are only appended, so the index stays valid.
        ScriptedCallEntry { records: Arc::clone(&self.records), index: records.len() - 1 }
    }
}

/// An open call. A drop before the end is recorded too.
pub(super) struct ScriptedCallEntry {
    records: Arc<Mutex<Vec<ScriptedCallRecord>>>,
    index: usize,
}

impl ScriptedCallEntry {
    pub(super) fn writes(&mut self, tokens: u64) {
        self.change(|record| record.output_tokens = tokens);
    }

    pub(super) fn finished(&mut self) {
        self.change(|record| record.outcome = ScriptedCallOutcome::Finished);
    }

    pub(super) fn failed(&mut self, code: ErrorCode) {
        self.change(|record| record.outcome = ScriptedCallOutcome::Failed(code));
    }

    pub(super) fn refuse(self, code: ErrorCode) {
        self.change(|record| record.outcome = ScriptedCallOutcome::Refused(code));
    }

    pub(super) fn invalid(self, violation: RequestViolation) {
        self.change(|record| {
            record.outcome = ScriptedCallOutcome::Refused(ErrorCode::InvalidRequest);
            record.violation = Some(violation);
        });
    }

    fn change(&self, change: impl FnOnce(&mut ScriptedCallRecord)) {
        if let Some(record) = lock(&self.records).get_mut(self.index) {
            change(record);
        }
    }
}

impl Drop for ScriptedCallEntry {
    fn drop(&mut self) {
        self.change(|record| {
            // An end that was recorded before must not be overwritten.
            if record.outcome == ScriptedCallOutcome::Open {
                record.outcome = ScriptedCallOutcome::Dropped;
            }
        });
    }
}

fn lock(records: &Mutex<Vec<ScriptedCallRecord>>) -> MutexGuard<'_, Vec<ScriptedCallRecord>> {
    // A test that panics must not hide the log of its calls.
    records.lock().unwrap_or_else(PoisonError::into_inner)
}
