//! The beginning of an answer in the session's log.

use longhaul::api_events::global_approval;
use longhaul_core::event::EventBody;
use longhaul_core::ids::{CallId, QueueId, Seq, SessionId};

use super::translator::name_of;
use crate::app::AppState;
use crate::problem::ApiProblem;

/// The number of events per read, from the end backwards.
const PAGE: u64 = 500;

/// The selection of an answer.
pub(super) enum AnswerSelector<'a> {
    /// The answer of the newest run.
    Newest,
    /// The answer to a message.
    To(&'a QueueId),
    /// The answer with the request for one of the approvals.
    Asking(&'a [String]),
}

/// The beginning of an answer.
pub(super) struct AnswerStart {
    /// The position before the beginning.
    pub(super) after: Seq,
    pub(super) name: String,
    /// The approvals settled since then.
    pub(super) settled: Vec<String>,
}

/// Returns the beginning of the answer: the position of its messages' intake, or of the start of a run without
/// messages.
///
/// # Errors
/// The store's.
pub(super) async fn beginning(
    app: &AppState,
    id: &SessionId,
    sought: AnswerSelector<'_>,
) -> Result<Option<AnswerStart>, ApiProblem> {
    let store = app.runtime().store();
    let mut end = store.session(id).await?.last_seq;
    let mut is_inside = matches!(sought, AnswerSelector::Newest);
    let mut settled = SettledApprovals::default();
    while end > 0 {
        let after = end.saturating_sub(PAGE);
        let events = store.read(id, after, usize::try_from(end - after).unwrap_or(usize::MAX)).await?;
        // From the end backwards: the answer is almost always among the newest events.
        for event in events.iter().rev().filter(|event| event.seq <= end) {
            is_inside |= is_of(&event.body, &sought, id);
            settled.note(&event.body, id);
            let begins = match &event.body {
                EventBody::MessagesTaken { taken, .. } => taken.last().map(|id| id.as_str()),
                EventBody::RunStarted { run_id } => Some(run_id.as_str()),
                _ => None,
            };
            if let Some(begins) = begins.filter(|_| is_inside) {
                let (name, settled) = (name_of(begins), settled.questions);
                return Ok(Some(AnswerStart { after: event.seq - 1, name, settled }));
            }
        }
        end = after;
    }
    Ok(None)
}

fn is_of(body: &EventBody, sought: &AnswerSelector<'_>, id: &SessionId) -> bool {
    match (body, sought) {
        (EventBody::MessagesTaken { taken, .. }, AnswerSelector::To(message)) => taken.contains(message),
        (EventBody::ApprovalRequested { approval_id, .. }, AnswerSelector::Asking(asked)) => {
            asked.contains(&global_approval(id, approval_id))
        }
        _ => false,
    }
}

/// The settled approvals, collected from the end of the log: somebody decided, or the call ended.
#[derive(Default)]
struct SettledApprovals {
    questions: Vec<String>,
    calls: Vec<CallId>,
}

impl SettledApprovals {
    fn note(&mut self, body: &EventBody, id: &SessionId) {
        match body {
            EventBody::ToolFinished { result, .. } => self.calls.push(result.call_id.clone()),
            EventBody::ApprovalResolved { approval_id, .. } => {
                self.questions.push(global_approval(id, approval_id));
            }
            // A call can end without a decision, by a time-out or a cancel. Its approval is settled as well.
            EventBody::ApprovalRequested { approval_id, call_id } if self.calls.contains(call_id) => {
                self.questions.push(global_approval(id, approval_id));
            }
            _ => {}
        }
    }
}
