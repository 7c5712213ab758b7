//! What a front end asks for, done: a message sent, a question answered, a run gone on with, and the answer found.

use longhaul::announce::global_approval;
use longhaul::session::{Resumed, Session};
use longhaul_core::ids::{ApprovalId, SessionId};
use longhaul_core::metadata::MessageMetadata;
use longhaul_core::run::Status;
use longhaul_store::StoreError;

use super::Fold;
use super::found::{Beginning, Sought, beginning};
use crate::app::App;
use crate::content::Content;
use crate::extract::Key;
use crate::once;
use crate::problem::Problem;
use crate::routes::{agents, message};
use crate::sse::Watcher;

/// Characters of a conversation's name that may be a session's own, at most.
const NAME_CHARS: usize = 64;

/// Characters of a conversation's name at most.
const LONGEST_NAME: usize = 500;

/// What a front end asks for.
#[derive(Debug)]
pub(crate) enum Wish {
    /// Its newest message, and the name it has there. `again`: it was said before, and has no answer.
    Say { content: Content, metadata: Option<MessageMetadata>, name: String, again: bool },
    /// Questions that it answers.
    Decide(Vec<Decision>),
    /// To go on.
    GoOn,
}

/// An answer to a question whether a tool may run.
#[derive(Debug)]
pub(crate) struct Decision {
    pub(crate) approval: String,
    pub(crate) allowed: bool,
    pub(crate) reason: Option<String>,
}

/// An answer that is to be told.
pub(crate) struct Turn {
    pub(crate) session: Session,
    pub(super) watcher: Watcher,
    pub(super) fold: Fold,
}

/// The session that a front end's conversation is: the one of that name, or one whose name is made of it.
///
/// # Errors
/// `invalid-request` for a name that is none.
fn session_id(conversation: &str) -> Result<SessionId, Problem> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let chars = conversation.chars().count();
    if chars == 0 || chars > LONGEST_NAME {
        return Err(Problem::invalid(format!("A conversation's id has 1 to {LONGEST_NAME} characters.")));
    }
    let is_own = chars <= NAME_CHARS && conversation.chars().all(is_plain);
    let derived = || Key(Some(conversation.to_owned())).session_id("chat");
    let id = if is_own { None } else { derived() };
    Ok(id.unwrap_or_else(|| SessionId::from(conversation)))
}

/// The session of a conversation that is there.
///
/// # Errors
/// `invalid-request`; `not-found`; those of the store.
pub(crate) async fn conversation(app: &App, name: &str) -> Result<Session, Problem> {
    let id = session_id(name)?;
    app.open(id.as_str()).await
}

/// The answer that is on its way in a conversation, from its beginning; `None` if there is none.
///
/// # Errors
/// Those of the store.
pub(crate) async fn running(app: &App, session: Session) -> Result<Option<Turn>, Problem> {
    // First: a run that begins now is heard.
    let watcher = Watcher::new(app.clone(), session.clone(), None);
    let runs = session.look(|run| run.history().open_run().is_some()).await?;
    if runs {
        let found = beginning(app, session.id(), Sought::Newest).await?;
        return Ok(found.map(|found| from(app, session, found)));
    }
    let is_at_rest = matches!(*session.status().borrow(), Status::Idle | Status::Parked);
    let is_to_begin = !is_at_rest && !session.queue().await?.is_empty();
    Ok(is_to_begin.then(|| Turn { session, watcher, fold: Fold::telling(None, Vec::new()) }))
}

/// An answer from its beginning.
fn from(app: &App, session: Session, found: Beginning) -> Turn {
    let watcher = Watcher::new(app.clone(), session.clone(), Some(found.after));
    Turn { session, watcher, fold: Fold::telling(Some(found.name), found.settled) }
}

impl Turn {
    /// Does what is asked for, in the conversation of that name, which is made if there is none and something is
    /// said. It is done to its end, also when the client leaves before.
    ///
    /// # Errors
    /// `invalid-request`, `not-found`, `conflict`; those of a message that is sent.
    pub(crate) async fn take(
        app: &App,
        conversation: &str,
        agent: Option<String>,
        key: Key,
        wish: Wish,
    ) -> Result<Self, Problem> {
        let id = session_id(conversation)?;
        if !matches!(wish, Wish::Decide(_)) {
            app.takes_work()?;
        }
        if let Wish::Say { content, .. } = &wish {
            content.check()?;
            agents::check(app, agent.as_deref())?;
        }
        let work = {
            let app = app.clone();
            async move {
                match wish {
                    Wish::Say { content, metadata, name, again } => {
                        let session = opened(&app, id, &content, agent.as_deref()).await?;
                        say(&app, session, (content, metadata), key, (&name, again)).await
                    }
                    Wish::Decide(decisions) => decide(&app, app.open(id.as_str()).await?, decisions).await,
                    Wish::GoOn => go_on(&app, app.open(id.as_str()).await?).await,
                }
            }
        };
        app.to_end(work).await
    }
}

async fn opened(
    app: &App,
    id: SessionId,
    content: &Content,
    agent: Option<&str>,
) -> Result<Session, Problem> {
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
    app: &App,
    session: Session,
    (content, metadata): (Content, Option<MessageMetadata>),
    key: Key,
    (name, again): (&str, bool),
) -> Result<Turn, Problem> {
    let what = format!("message {content:?}");
    // One that was changed is another one, under whatever name.
    let derived = || format!("ui-{}", blake3::hash(format!("{name}\0{what}").as_bytes()).to_hex());
    let key = Key(Some(key.0.unwrap_or_else(derived)));
    // First: everything that follows is heard.
    let watcher = Watcher::new(app.clone(), session.clone(), None);
    let send = message::take(app, &session, &key, content, metadata);
    let sent = once::same(app, session.id(), &key, &what, send).await?;
    if sent.position > 0 {
        let fold = Fold::awaiting(sent.id.as_str());
        return Ok(Turn { session, watcher, fold });
    }
    drop(watcher);
    if again {
        return go_on(app, session).await;
    }
    let found = beginning(app, session.id(), Sought::To(&sent.id)).await?;
    let found = found.ok_or_else(|| Problem::conflict("This message was taken out of the queue."))?;
    Ok(from(app, session, found))
}

async fn go_on(app: &App, session: Session) -> Result<Turn, Problem> {
    let watcher = Watcher::new(app.clone(), session.clone(), None);
    let nothing = || {
        let detail = "The newest message has its answer, and what was said is never said otherwise: send a message, \
                      or fork the session before it.";
        Problem::conflict(detail)
    };
    match session.resume().await? {
        Resumed::Begun => Ok(Turn { session, watcher, fold: Fold::telling(None, Vec::new()) }),
        Resumed::Busy => running(app, session).await?.ok_or_else(nothing),
        Resumed::NothingToDo => Err(nothing()),
    }
}

/// Answers what still waits, and tells what follows: a question may have been answered elsewhere, or by nobody in
/// time.
async fn decide(app: &App, session: Session, decisions: Vec<Decision>) -> Result<Turn, Problem> {
    let mut answered = Vec::with_capacity(decisions.len());
    for Decision { approval, .. } in &decisions {
        let own = approval.rsplit_once(':').map_or(approval.as_str(), |(_, own)| own);
        answered.push(global_approval(session.id(), &ApprovalId::from(own)));
    }
    let found = beginning(app, session.id(), Sought::Asking(&answered)).await?;
    let found = found.ok_or_else(|| Problem::not_found("such question in this conversation"))?;
    for (Decision { allowed, reason, .. }, approval) in decisions.into_iter().zip(&answered) {
        session.decide(ApprovalId::from(approval.as_str()), allowed, reason).await?;
    }
    let watcher = Watcher::new(app.clone(), session.clone(), Some(found.after));
    Ok(Turn { session, watcher, fold: Fold::going_on(found.name, answered, found.settled) })
}
