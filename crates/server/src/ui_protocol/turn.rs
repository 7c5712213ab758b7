//! What a front end asks for, done: a message sent, a question answered, a run gone on with, and the answer found.

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

/// Characters of a conversation's name that may be a session's own, at most.
const NAME_CHARS: usize = 64;

/// Characters of a conversation's name at most.
const LONGEST_NAME: usize = 500;

/// What a front end asks for.
#[derive(Debug)]
pub(crate) enum UiTurnRequest {
    /// Its newest message, and the name it has there. `again`: it was said before, and has no answer.
    Say { content: ClientContent, metadata: Option<MessageMetadata>, name: String, again: bool },
    /// Questions that it answers.
    Decide(Vec<UiApprovalDecision>),
    /// To go on.
    GoOn,
}

/// An answer to a question whether a tool may run.
#[derive(Debug)]
pub(crate) struct UiApprovalDecision {
    pub(crate) approval: String,
    pub(crate) allowed: bool,
    pub(crate) reason: Option<String>,
}

/// An answer that is to be told.
pub(crate) struct UiAnswerSubscription {
    pub(crate) session: Session,
    pub(super) watcher: SseWatcher,
    pub(super) fold: UiStreamTranslator,
}

/// The session that a front end's conversation is: the one of that name, or one whose name is made of it.
///
/// # Errors
/// `invalid-request` for a name that is none.
fn session_id(conversation: &str) -> Result<SessionId, ApiProblem> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let chars = conversation.chars().count();
    if chars == 0 || chars > LONGEST_NAME {
        return Err(ApiProblem::invalid(format!("A conversation's id has 1 to {LONGEST_NAME} characters.")));
    }
    let is_own = chars <= NAME_CHARS && conversation.chars().all(is_plain);
    let derived = || IdempotencyKey(Some(conversation.to_owned())).session_id("chat");
    let id = if is_own { None } else { derived() };
    Ok(id.unwrap_or_else(|| SessionId::from(conversation)))
}

/// The session of a conversation that is there.
///
/// # Errors
/// `invalid-request`; `not-found`; those of the store.
pub(crate) async fn conversation(app: &AppState, name: &str) -> Result<Session, ApiProblem> {
    let id = session_id(name)?;
    app.open(id.as_str()).await
}

/// The answer that is on its way in a conversation, from its beginning; `None` if there is none.
///
/// # Errors
/// Those of the store.
pub(crate) async fn running(
    app: &AppState,
    session: Session,
) -> Result<Option<UiAnswerSubscription>, ApiProblem> {
    // First: a run that begins now is heard.
    let watcher = SseWatcher::new(app.clone(), session.clone(), None);
    let runs = session.inspect_run(|run| run.history().open_run().is_some()).await?;
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

/// An answer from its beginning.
fn from(app: &AppState, session: Session, found: AnswerStart) -> UiAnswerSubscription {
    let watcher = SseWatcher::new(app.clone(), session.clone(), Some(found.after));
    UiAnswerSubscription {
        session,
        watcher,
        fold: UiStreamTranslator::telling(Some(found.name), found.settled),
    }
}

impl UiAnswerSubscription {
    /// Does what is asked for, in the conversation of that name, which is made if there is none and something is
    /// said. It is done to its end, also when the client leaves before.
    ///
    /// # Errors
    /// `invalid-request`, `not-found`, `conflict`; those of a message that is sent.
    pub(crate) async fn take(
        app: &AppState,
        conversation: &str,
        agent: Option<String>,
        key: IdempotencyKey,
        wish: UiTurnRequest,
    ) -> Result<Self, ApiProblem> {
        let id = session_id(conversation)?;
        if !matches!(wish, UiTurnRequest::Decide(_)) {
            app.takes_work()?;
        }
        if let UiTurnRequest::Say { content, .. } = &wish {
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

/// Sends the message, unless it was sent before: front ends send their whole history each time, and send it again
/// when something went wrong. Other metadata makes no other message: front ends change it as they go.
async fn say(
    app: &AppState,
    session: Session,
    (content, metadata): (ClientContent, Option<MessageMetadata>),
    key: IdempotencyKey,
    (name, again): (&str, bool),
) -> Result<UiAnswerSubscription, ApiProblem> {
    let what = format!("message {content:?}");
    // One that was changed is another one, under whatever name.
    let derived = || format!("ui-{}", blake3::hash(format!("{name}\0{what}").as_bytes()).to_hex());
    let key = IdempotencyKey(Some(key.0.unwrap_or_else(derived)));
    // First: everything that follows is heard.
    let watcher = SseWatcher::new(app.clone(), session.clone(), None);
    let send = message::take(app, &session, &key, content, metadata);
    let sent = idempotency::same(app, session.id(), &key, &what, send).await?;
    if sent.position > 0 {
        let fold = UiStreamTranslator::awaiting(sent.id.as_str());
        return Ok(UiAnswerSubscription { session, watcher, fold });
    }
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
    let nothing = || {
        let detail = "The newest message has its answer, and what was said is never said otherwise: send a message, \
                      or fork the session before it.";
        ApiProblem::conflict(detail)
    };
    match session.resume().await? {
        ResumeOutcome::Begun => {
            Ok(UiAnswerSubscription { session, watcher, fold: UiStreamTranslator::telling(None, Vec::new()) })
        }
        ResumeOutcome::Busy => running(app, session).await?.ok_or_else(nothing),
        ResumeOutcome::NothingToDo => Err(nothing()),
    }
}

/// Answers what still waits, and tells what follows: a question may have been answered elsewhere, or by nobody in
/// time.
async fn decide(
    app: &AppState,
    session: Session,
    decisions: Vec<UiApprovalDecision>,
) -> Result<UiAnswerSubscription, ApiProblem> {
    let mut answered = Vec::with_capacity(decisions.len());
    for UiApprovalDecision { approval, .. } in &decisions {
        let own = approval.rsplit_once(':').map_or(approval.as_str(), |(_, own)| own);
        answered.push(global_approval(session.id(), &ApprovalId::from(own)));
    }
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
