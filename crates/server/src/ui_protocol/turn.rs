//! The execution of a front end's requests: sending a message, deciding an approval, continuing a run, and finding its
//! answer.

use longhaul::api_events::global_approval;
use longhaul::session::{ResumeOutcome, Session};
use longhaul_core::ids::{ApprovalId, SessionId};
use longhaul_core::metadata::MessageMetadata;
use longhaul_core::run::RunStatus;
use longhaul_store::StoreError;

use super::UiStreamTranslator;
use super::answer_start::{AnswerSelector, AnswerStart, beginning};
use crate::app::AppState;
use crate::content::ClientContent;
use crate::extract::IdempotencyKey;
use crate::idempotency;
use crate::problem::ApiProblem;
use crate::routes::{agents, message};
use crate::sse::SseWatcher;

/// The maximum length of a conversation's name for a session id, in characters.
const NAME_CHARS: usize = 64;

/// The maximum length of a conversation's name, in characters.
const LONGEST_NAME: usize = 500;

/// A request of a front end.
#[derive(Debug)]
pub(crate) enum UiTurnRequest {
    /// A new message, with the front end's name for the message. `again`: the message was sent before and has
    /// no answer.
    Say { content: ClientContent, metadata: Option<MessageMetadata>, name: String, again: bool },
    /// Decisions on approval requests.
    Decide(Vec<UiApprovalDecision>),
    /// The continuation of a run.
    GoOn,
}

/// A decision on a tool's approval request.
#[derive(Debug)]
pub(crate) struct UiApprovalDecision {
    pub(crate) approval: String,
    pub(crate) allowed: bool,
    pub(crate) reason: Option<String>,
}

/// An answer to be streamed.
pub(crate) struct UiAnswerSubscription {
    pub(crate) session: Session,
    pub(super) watcher: SseWatcher,
    pub(super) fold: UiStreamTranslator,
}

/// Returns the session id of a front end's conversation: the name, or an id derived from the name.
///
/// # Errors
/// `invalid-request` for an invalid name.
fn session_id(conversation: &str) -> Result<SessionId, ApiProblem> {
    let chars = conversation.chars().count();
    if chars == 0 || chars > LONGEST_NAME {
        return Err(ApiProblem::invalid(format!(
            "A conversation's id must have 1 to {LONGEST_NAME} characters."
        )));
    }
    // A session's id stands in addresses. Other names are hashed.
    let is_plain = conversation.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
    let derived = if is_plain && chars <= NAME_CHARS {
        None
    } else {
        IdempotencyKey(Some(conversation.to_owned())).session_id("chat")
    };
    Ok(derived.unwrap_or_else(|| SessionId::from(conversation)))
}

/// Opens the session of an existing conversation.
///
/// # Errors
/// `invalid-request`; `not-found`; the store's.
pub(crate) async fn conversation(app: &AppState, name: &str) -> Result<Session, ApiProblem> {
    let id = session_id(name)?;
    app.open(id.as_str()).await
}

/// Returns the running answer of a conversation from the beginning, if any.
///
/// # Errors
/// The store's.
pub(crate) async fn running(
    app: &AppState,
    session: Session,
) -> Result<Option<UiAnswerSubscription>, ApiProblem> {
    // The watcher must exist before the check, so that it hears a run that begins in between.
    let watcher = SseWatcher::new(app.clone(), session.clone(), None);
    // In order, because a decision that begins a run may be in progress.
    let runs = session.inspect_run_in_order(|run| run.history().open_run().is_some()).await?;
    if runs {
        let found = beginning(app, session.id(), AnswerSelector::Newest).await?;
        return Ok(found.map(|found| from(app, session, found)));
    }
    let is_at_rest = matches!(*session.status().borrow(), RunStatus::Idle | RunStatus::Parked);
    let is_to_begin = !is_at_rest && !session.queue().await?.is_empty();
    Ok(is_to_begin.then(|| UiAnswerSubscription {
        session,
        watcher,
        fold: UiStreamTranslator::telling(None, Vec::new()),
    }))
}

/// Returns a subscription to an answer from the beginning.
fn from(app: &AppState, session: Session, found: AnswerStart) -> UiAnswerSubscription {
    let watcher = SseWatcher::new(app.clone(), session.clone(), Some(found.after));
    UiAnswerSubscription {
        session,
        watcher,
        fold: UiStreamTranslator::telling(Some(found.name), found.settled),
    }
}

impl UiAnswerSubscription {
    /// Executes a request in the named conversation. A first message creates the conversation. The work is done
    /// to the end, even if the client leaves before.
    ///
    /// # Errors
    /// `invalid-request`, `not-found`, `conflict`; those of sending a message.
    pub(crate) async fn take(
        app: &AppState,
        conversation: &str,
        agent: Option<String>,
        key: IdempotencyKey,
        wish: UiTurnRequest,
    ) -> Result<Self, ApiProblem> {
        let id = session_id(conversation)?;
        // A decision starts no new work: it lets a waiting run finish, also while the server is ending.
        if !matches!(wish, UiTurnRequest::Decide(_)) {
            app.takes_work()?;
        }
        if let UiTurnRequest::Say { content, .. } = &wish {
            // The check comes first, so that a wrong message does not create a conversation.
            content.check()?;
            agents::check(app, agent.as_deref())?;
        }
        let work = {
            let app = app.clone();
            async move {
                match wish {
                    UiTurnRequest::Say { content, metadata, name, again } => {
                        let session = opened(&app, id, &content, agent.as_deref()).await?;
                        say(&app, session, (content, metadata), key, (&name, again)).await
                    }
                    UiTurnRequest::Decide(decisions) => {
                        decide(&app, app.open(id.as_str()).await?, decisions).await
                    }
                    UiTurnRequest::GoOn => go_on(&app, app.open(id.as_str()).await?).await,
                }
            }
        };
        app.to_end(work).await
    }
}

async fn opened(
    app: &AppState,
    id: SessionId,
    content: &ClientContent,
    agent: Option<&str>,
) -> Result<Session, ApiProblem> {
    match app.runtime().store().session(&id).await {
        Ok(_) => app.open(id.as_str()).await,
        Err(StoreError::NotFound(_)) => {
            Ok(app.runtime().create_as_in(id, Some(content.title()), agent).await?)
        }
        Err(error) => Err(error.into()),
    }
}

/// Sends the message unless sent before. Front ends send their whole history each time, and again after an
/// error. Different metadata does not make a different message, because front ends change metadata as they go.
async fn say(
    app: &AppState,
    session: Session,
    (content, metadata): (ClientContent, Option<MessageMetadata>),
    key: IdempotencyKey,
    (name, again): (&str, bool),
) -> Result<UiAnswerSubscription, ApiProblem> {
    let what = format!("message {content:?}");
    // An edited message is a new one, whatever its name.
    let key = key
        .0
        .unwrap_or_else(|| format!("ui-{}", blake3::hash(format!("{name}\0{what}").as_bytes()).to_hex()));
    let key = IdempotencyKey(Some(key));
    // The watcher must exist first, so that it hears everything that follows.
    let watcher = SseWatcher::new(app.clone(), session.clone(), None);
    let send = message::take(app, &session, &key, content, metadata);
    let sent = idempotency::same(app, session.id(), &key, &what, send).await?;
    if sent.position > 0 {
        let fold = UiStreamTranslator::awaiting(sent.id);
        return Ok(UiAnswerSubscription { session, watcher, fold });
    }
    // The answer has begun, and another watcher is needed from its beginning on.
    drop(watcher);
    if again {
        return go_on(app, session).await;
    }
    let found = beginning(app, session.id(), AnswerSelector::To(&sent.id)).await?;
    let found = found.ok_or_else(|| ApiProblem::conflict("This message was taken out of the queue."))?;
    Ok(from(app, session, found))
}

async fn go_on(app: &AppState, session: Session) -> Result<UiAnswerSubscription, ApiProblem> {
    let watcher = SseWatcher::new(app.clone(), session.clone(), None);
    let running = match session.resume().await? {
        ResumeOutcome::Begun => {
            let fold = UiStreamTranslator::telling(None, Vec::new());
            return Ok(UiAnswerSubscription { session, watcher, fold });
        }
        // A second tab or a reloaded page asks for a run that goes on. It gets the answer from its beginning.
        ResumeOutcome::Busy => running(app, session).await?,
        _ => None,
    };
    running.ok_or_else(|| {
        let detail = "The newest message has its answer, and an answer is never replaced. Send a message, \
                      or fork the session before this one.";
        ApiProblem::conflict(detail)
    })
}

/// Decides the approvals that still wait, and follows the answer. An approval may have been decided elsewhere, or have
/// timed out.
async fn decide(
    app: &AppState,
    session: Session,
    decisions: Vec<UiApprovalDecision>,
) -> Result<UiAnswerSubscription, ApiProblem> {
    let mut answered = Vec::with_capacity(decisions.len());
    for UiApprovalDecision { approval, .. } in &decisions {
        // The name may come with its session. The conversation decides the session, not the name.
        let own = approval.rsplit_once(':').map_or(approval.as_str(), |(_, own)| own);
        answered.push(global_approval(session.id(), &ApprovalId::from(own)));
    }
    // Found before anything is decided, so that a wrong name changes nothing.
    let found = beginning(app, session.id(), AnswerSelector::Asking(&answered)).await?;
    let found = found.ok_or_else(|| ApiProblem::not_found("such question in this conversation"))?;
    for (UiApprovalDecision { allowed, reason, .. }, approval) in decisions.into_iter().zip(&answered) {
        session.decide(ApprovalId::from(approval.as_str()), allowed, reason).await?;
    }
    let watcher = SseWatcher::new(app.clone(), session.clone(), Some(found.after));
    Ok(UiAnswerSubscription {
        session,
        watcher,
        fold: UiStreamTranslator::going_on(found.name, answered, found.settled),
    })
}
