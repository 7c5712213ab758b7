//! The task that follows a session and informs the editor: in order, each event once, also after it fell
//! behind.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::PathBuf;
use std::sync::Arc;

use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{
    PermissionOption, PermissionOptionKind, RequestPermissionOutcome, RequestPermissionRequest,
    RequestPermissionResponse, SessionNotification, SessionUpdate, ToolCallUpdate, ToolCallUpdateFields,
};
use agent_client_protocol::{Client, Error};
use longhaul::SessionEvent;
use longhaul::api_events::ApiEvent;
use longhaul::event_bus::{EventReceiver, RecvError, TryRecvError};
use longhaul::session::Session;
use longhaul::text_encoding::DecodedText;
use longhaul::workspace::{PathAccess, Workspace, WorkspaceError};
use longhaul_core::event::ViewOperation;
use longhaul_core::ids::{ApprovalId, CallId, EditId, Seq};
use longhaul_core::message::{BlobRef, Part};
use longhaul_core::plan::TokenPrices;
use longhaul_core::run::Run;
use longhaul_core::usage::Usage;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::call::{EditorToolCall, PriorFileContent};
use super::prompt::Contents;
use super::updates::{EditorCapabilities, EditorUpdateTranslator, UpdateDelivery, UpdateDetails};
use super::workspace_runtimes::WorkspaceRuntime;

/// The way to the editor.
pub(super) type Connection = ConnectionTo<Client>;

/// The maximum size, in bytes, of files whose old text is shown beside the new one, and of shown media.
const LARGEST_SHOWN: u64 = 4 << 20;

const ALLOW: &str = "allow";
const REJECT: &str = "reject";

/// A session's watcher.
pub(super) struct SessionFollower {
    session: Session,
    room: Arc<WorkspaceRuntime>,
    watch: EventReceiver,
    updates: EditorUpdateTranslator,
    /// The position up to which all events were sent.
    seen: Seq,
    /// Questions without an answer from the editor.
    asked: BTreeMap<ApprovalId, CancellationToken>,
}

impl SessionFollower {
    /// Watches from now on.
    pub(super) fn new(
        session: &Session,
        room: &Arc<WorkspaceRuntime>,
        root: PathBuf,
        shows: EditorCapabilities,
    ) -> Self {
        let attendance = session.subscribe();
        Self {
            session: session.clone(),
            room: Arc::clone(room),
            watch: attendance.announcements,
            updates: EditorUpdateTranslator::new(root, shows),
            seen: attendance.told,
            asked: BTreeMap::new(),
        }
    }

    /// Sends the whole conversation so far.
    ///
    /// # Errors
    /// The log cannot be read.
    pub(super) async fn tell_again(&mut self, to: &Connection) -> Result<(), Error> {
        self.updates.telling = UpdateDelivery::Again;
        self.seen = 0;
        // The mode is set back before the error is returned: live events must not be taken for a replay.
        let told = self.tell_missed(to).await;
        self.updates.telling = UpdateDelivery::Live;
        told
    }

    /// Sends the events up to the end of `work`.
    pub(super) async fn follow<T>(&mut self, to: &Connection, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        let done = loop {
            tokio::select! {
                biased;
                // Polled first, so that events from before the end of the work are sent before its result.
                told = self.watch.recv() => match told {
                    Ok(told) => self.tell(to, &told).await,
                    Err(RecvError::Lagged(_)) => self.catch_up(to).await,
                    Err(RecvError::Closed) => break work.await,
                },
                done = &mut work => break done,
            }
        };
        // The work's last events may still wait in the channel when its result is there.
        loop {
            match self.watch.try_recv() {
                Ok(told) => self.tell(to, &told).await,
                Err(TryRecvError::Lagged(_)) => self.catch_up(to).await,
                Err(TryRecvError::Empty | TryRecvError::Closed) => return done,
            }
        }
    }

    /// Reads missed events from the log, which has all that are durable.
    async fn catch_up(&mut self, to: &Connection) {
        if let Err(error) = self.tell_missed(to).await {
            tracing::warn!(
                "some events could not be sent to the editor; the session has them: {}",
                error.message
            );
        }
    }

    async fn tell_missed(&mut self, to: &Connection) -> Result<(), Error> {
        let log = self.room.runtime.log(self.session.id()).await;
        let log = log.map_err(|error| super::stop::refused(self.session.id().as_str(), &error))?;
        let mut replay = self.room.runtime.replay(self.session.id());
        for event in &log {
            // Skipped events still pass through the replay, because later events depend on them.
            let told = if event.seq <= self.seen {
                replay.skip_event(event).map(|()| Vec::new())
            } else {
                replay.take(event)
            };
            for told in told.map_err(|error| super::stop::internal(error.to_string()))? {
                self.tell(to, &told).await;
            }
        }
        Ok(())
    }

    async fn tell(&mut self, to: &Connection, told: &ApiEvent) {
        if told.seq.is_some_and(|seq| seq <= self.seen) {
            return;
        }
        // One log event may give several updates. Only the last one moves the position.
        if let Some(seq) = told.seq.filter(|_| told.ends_event) {
            self.seen = seq;
        }
        let Some(event) = SessionEvent::from_announcement(told) else { return };
        let details = UpdateDetails { is_stored: told.seq.is_some(), ..self.beside(&event).await };
        for update in self.updates.take(&event, &details) {
            self.send(to, update);
        }
        match event {
            SessionEvent::ApprovalRequested { approval_id, call_id, tool_name, .. }
                if self.updates.telling == UpdateDelivery::Live =>
            {
                self.ask(to, approval_id, &call_id, tool_name);
            }
            SessionEvent::ApprovalResolved { approval_id, .. } => {
                if let Some(asked) = self.asked.remove(&approval_id) {
                    asked.cancel();
                }
            }
            _ => {}
        }
    }

    /// Sends an update, unless the editor has left.
    pub(super) fn send(&self, to: &Connection, update: SessionUpdate) {
        let notification = SessionNotification::new(self.session.id().as_str().to_owned(), update);
        // An error means that the connection has ended. Its owner notices that by itself.
        let _ = to.send_notification(notification);
    }

    /// Returns an id for a message of the agent beside the model's.
    pub(super) fn remark_id(&self) -> String {
        format!("remark-{}", self.seen)
    }

    async fn beside(&self, event: &SessionEvent) -> UpdateDetails {
        let live = self.updates.telling == UpdateDelivery::Live;
        let mut beside = UpdateDetails::default();
        match event {
            SessionEvent::ContextUsage { .. } if live => beside.cost = cost(&self.session).await,
            SessionEvent::Compacted { edit_id, .. } => beside.summary = self.summary(edit_id).await,
            SessionEvent::ToolCall { tool_name, arguments_text, .. } if live => {
                beside.before = self.before(tool_name, arguments_text).await;
            }
            SessionEvent::ToolResult { content, .. } => beside.contents = self.contents(content).await,
            SessionEvent::MessageAdded { parts, .. } if !live => {
                beside.contents = self.contents(parts).await;
            }
            _ => {}
        }
        beside
    }

    /// Returns the text shown by a compaction in place of the removed messages.
    async fn summary(&self, edit_id: &EditId) -> Option<String> {
        let edit = edit_id.to_string();
        self.session.inspect_run(move |run| summary_text(run, &edit)).await.ok().flatten()
    }

    async fn before(&self, tool: &str, arguments: &str) -> PriorFileContent {
        let arguments: Value = serde_json::from_str(arguments).unwrap_or_default();
        let Some(path) = EditorToolCall::changed_file(tool, &arguments) else {
            return PriorFileContent::Unknown;
        };
        let (path, workspace) = (path.to_owned(), Arc::clone(&self.room.runtime.agent().workspace));
        // A file may lie on a slow disk, and reading it must not hold up the async thread.
        let read = tokio::task::spawn_blocking(move || read_before(&workspace, &path));
        read.await.unwrap_or_default()
    }

    async fn contents(&self, parts: &[Part]) -> Contents {
        let mut contents = Contents::new();
        for part in parts {
            let (Part::Image(media) | Part::File(media)) = part else { continue };
            let BlobRef { hash, bytes } = &media.blob;
            if *bytes <= LARGEST_SHOWN
                && let Ok(content) = self.room.runtime.blobs().get(&media.blob).await
            {
                contents.insert(hash.clone(), content.to_vec());
            }
        }
        contents
    }

    /// Asks the person at the editor, beside everything else.
    fn ask(&mut self, to: &Connection, id: ApprovalId, call_id: &CallId, tool: Option<String>) {
        let call = self.updates.asked(call_id.as_str()).unwrap_or_else(|| {
            let fields = ToolCallUpdateFields::new().title(tool.unwrap_or_default());
            ToolCallUpdate::new(call_id.to_string(), fields)
        });
        let session = self.session.clone();
        let request = RequestPermissionRequest::new(session.id().as_str().to_owned(), call, options());
        let withdrawn = CancellationToken::new();
        // Registered before the request is sent: an answer from elsewhere may come at once.
        self.asked.insert(id.clone(), withdrawn.clone());
        let sent = to.send_request(request);
        let answered = async move {
            let answer = tokio::select! {
                answer = sent.block_task() => answer,
                // Dropping the request tells the editor that the answer is not awaited any more.
                () = withdrawn.cancelled() => return Ok(()),
            };
            let (allowed, reason) = decision(answer);
            // A session that has ended has no questions left.
            let _ = session.decide(id, allowed, reason).await;
            Ok(())
        };
        // A connection that has ended takes no task. Its questions end with the session.
        let _ = to.spawn(answered);
    }
}

fn options() -> Vec<PermissionOption> {
    vec![
        PermissionOption::new(ALLOW, "Allow", PermissionOptionKind::AllowOnce),
        PermissionOption::new(REJECT, "Reject", PermissionOptionKind::RejectOnce),
    ]
}

/// Returns the decision in an editor's answer. Only a clear yes approves.
fn decision(answer: Result<RequestPermissionResponse, Error>) -> (bool, Option<String>) {
    match answer.map(|answer| answer.outcome) {
        // An unknown choice or a closed question counts as a no: a tool must never run by mistake.
        Ok(RequestPermissionOutcome::Selected(chosen)) if &*chosen.option_id.0 == ALLOW => (true, None),
        Ok(_) => (false, None),
        Err(error) => (
            false,
            Some(format!(
                "the editor could not show the question, so the call was not run: {}",
                error.message
            )),
        ),
    }
}

fn read_before(workspace: &Workspace, path: &str) -> PriorFileContent {
    let path = match workspace.resolve(path, PathAccess::Read) {
        Ok(path) => path,
        // The diff of a new file has no old side, which differs from an unknown one.
        Err(WorkspaceError::NotFound { .. }) => return PriorFileContent::Nothing,
        Err(_) => return PriorFileContent::Unknown,
    };
    let Ok(file) = workspace.open_file(&path) else { return PriorFileContent::Unknown };
    let mut bytes = Vec::new();
    // One byte above the limit shows that the file is too large.
    match file.take(LARGEST_SHOWN + 1).read_to_end(&mut bytes) {
        // A diff with replaced bytes would show a change that is not made.
        Ok(length) if length as u64 <= LARGEST_SHOWN => {
            DecodedText::new(&bytes).strict().map_or(PriorFileContent::Unknown, PriorFileContent::Text)
        }
        _ => PriorFileContent::Unknown,
    }
}

/// Returns the cost of a session so far in dollars, at the prices of its present model. Returns `None` if
/// nobody says the prices.
pub(super) async fn cost(session: &Session) -> Option<f64> {
    session
        .inspect_run(|run: &Run| {
            let prices = run.settings().policy.prices?;
            Some(dollars(run.history().cumulative_usage(), &prices))
        })
        .await
        .ok()
        .flatten()
}

/// Prices are for a million tokens.
fn dollars(usage: &Usage, prices: &TokenPrices) -> f64 {
    let (read, written) = (usage.cache_read_tokens, usage.cache_write_tokens);
    // `input_tokens` includes the cached ones, which have prices of their own.
    let plain = usage.input_tokens.saturating_sub(read).saturating_sub(written);
    let sum = plain as f64 * prices.input
        + read as f64 * prices.cache_read
        + written as f64 * prices.cache_write
        + usage.output_tokens as f64 * prices.output;
    sum / 1e6
}

/// Returns the summaries in an edit, or `None` without a summary.
fn summary_text(run: &Run, edit: &str) -> Option<String> {
    let state = run.history().edits().iter().find(|state| state.edit.id.as_str() == edit)?;
    let texts = state.edit.ops.iter().filter_map(|op| match op {
        ViewOperation::Replace { parts, summary: true, .. } => {
            Some(parts.iter().filter_map(Part::as_text).collect::<String>())
        }
        _ => None,
    });
    Some(texts.collect::<Vec<_>>().join("\n\n")).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use agent_client_protocol::v1::schema::SelectedPermissionOutcome;

    #[test]
    fn only_a_clear_yes_allows() {
        assert!(is_allowed_by(ALLOW));
        assert!(!is_allowed_by(REJECT) && !is_allowed_by("allow_always"));
        assert!(!decision(Ok(RequestPermissionResponse::new(RequestPermissionOutcome::Cancelled))).0);
        let (allowed, reason) = decision(Err(Error::method_not_found()));
        assert!(!allowed && reason.unwrap().contains("could not show the question"));
    }

    fn is_allowed_by(option: &'static str) -> bool {
        let outcome = RequestPermissionOutcome::Selected(SelectedPermissionOutcome::new(option));
        decision(Ok(RequestPermissionResponse::new(outcome))).0
    }

    #[test]
    fn cached_tokens_are_not_paid_twice() {
        let usage = Usage {
            input_tokens: 1_000_000,
            output_tokens: 100_000,
            cache_read_tokens: 600_000,
            cache_write_tokens: 200_000,
            ..Usage::default()
        };
        let prices = TokenPrices {
            input: 3.0,
            cache_read: 0.3,
            cache_write: 3.75,
            output: 15.0,
            cache_life_ms: 300_000,
        };
        assert!((dollars(&usage, &prices) - (0.6 + 0.18 + 0.75 + 1.5)).abs() < 1e-9);
    }
}
