//! The methods of the protocol, over standard input and output.
//!
//! Messages are read in their order. Slow work runs beside: only so can an answer to a question, or a cancel,
//! arrive while a turn runs.

use std::sync::Arc;

use agent_client_protocol::v1::Responder;
use agent_client_protocol::v1::schema::{
    CancelNotification, CloseSessionRequest, CloseSessionResponse, DeleteSessionRequest,
    DeleteSessionResponse, InitializeRequest, ListSessionsRequest, LoadSessionRequest, LoadSessionResponse,
    NewSessionRequest, NewSessionResponse, PromptRequest, PromptResponse, ResumeSessionRequest,
    ResumeSessionResponse,
};
use agent_client_protocol::{
    Agent, ByteStreams, Error, JsonRpcResponse, on_receive_notification, on_receive_request,
};
use tokio_util::compat::{TokioAsyncReadCompatExt as _, TokioAsyncWriteCompatExt as _};

use super::editor::{EditorConnection, OpenSessionRequest};
use super::follower::Connection;

/// Serves until the editor leaves.
///
/// # Errors
/// The connection broke otherwise than by its end.
pub(super) async fn serve(editor: &Arc<EditorConnection>) -> Result<(), Error> {
    let transport = ByteStreams::new(tokio::io::stdout().compat_write(), tokio::io::stdin().compat());
    let own = || Arc::clone(editor);
    let (first, begins, loads, resumes) = (own(), own(), own(), own());
    let (lists, closes, deletes, prompts, cancels) = (own(), own(), own(), own(), own());
    let builder = Agent
        .v1()
        .name("longhaul")
        .on_receive_request(
            async move |request: InitializeRequest, responder, _to| {
                // The editor's abilities must be known before anything is shown.
                responder.respond(first.initialize(request).await)
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: NewSessionRequest, responder, to| begin(&begins, request, responder, &to),
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: LoadSessionRequest, responder, to| load(&loads, request, responder, &to),
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: ResumeSessionRequest, responder, to| {
                resume(&resumes, request, responder, &to)
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: PromptRequest, responder, to| prompt(&prompts, request, responder, &to),
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: ListSessionsRequest, responder, to: Connection| {
                let editor = Arc::clone(&lists);
                beside(&to, responder, async move { editor.list(request).await })
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: CloseSessionRequest, responder, to: Connection| {
                let editor = Arc::clone(&closes);
                beside(&to, responder, async move {
                    editor.let_go(&request.session_id.0).await;
                    Ok(CloseSessionResponse::new())
                })
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: DeleteSessionRequest, responder, to: Connection| {
                let editor = Arc::clone(&deletes);
                beside(&to, responder, async move {
                    editor.delete(&request.session_id).await?;
                    Ok(DeleteSessionResponse::new())
                })
            },
            on_receive_request!(),
        )
        .on_receive_notification(
            // `cancel` is called before the spawn, so that the prompts read so far are cancelled before the
            // next message is read. A notification has no answer, so an unknown session is no error.
            async move |told: CancelNotification, to: Connection| match cancels.talk(&told.session_id) {
                Some(talk) => to.spawn(done(talk.cancel())),
                None => Ok(()),
            },
            on_receive_notification!(),
        );
    Box::pin(builder.connect_to(transport)).await
}

fn begin(
    editor: &Arc<EditorConnection>,
    request: NewSessionRequest,
    responder: Responder<NewSessionResponse>,
    to: &Connection,
) -> Result<(), Error> {
    let (editor, connection) = (Arc::clone(editor), to.clone());
    // Setting up a workspace may start servers. The next message must not wait for that.
    to.spawn(async move {
        let NewSessionRequest { cwd, additional_directories, mcp_servers, .. } = request;
        match editor.begin(cwd, additional_directories, mcp_servers).await {
            Ok(talk) => {
                responder.respond(NewSessionResponse::new(talk.session.id().as_str().to_owned()))?;
                // The editor must know the session before it gets the session's updates.
                talk.greet(&connection).await;
                Ok(())
            }
            Err(error) => responder.respond_with_error(error),
        }
    })
}

fn load(
    editor: &Arc<EditorConnection>,
    request: LoadSessionRequest,
    responder: Responder<LoadSessionResponse>,
    to: &Connection,
) -> Result<(), Error> {
    let (editor, connection) = (Arc::clone(editor), to.clone());
    beside(to, responder, async move {
        let LoadSessionRequest { session_id, cwd, additional_directories, mcp_servers, .. } = request;
        let wanted = OpenSessionRequest {
            id: session_id,
            cwd,
            additional: additional_directories,
            servers: mcp_servers,
        };
        // The protocol wants the whole conversation to be sent before the answer to `session/load`.
        let talk = editor.open(wanted, Some(&connection)).await?;
        talk.greet(&connection).await;
        Ok(LoadSessionResponse::new())
    })
}

fn resume(
    editor: &Arc<EditorConnection>,
    request: ResumeSessionRequest,
    responder: Responder<ResumeSessionResponse>,
    to: &Connection,
) -> Result<(), Error> {
    let (editor, connection) = (Arc::clone(editor), to.clone());
    beside(to, responder, async move {
        let ResumeSessionRequest { session_id, cwd, additional_directories, mcp_servers, .. } = request;
        let wanted = OpenSessionRequest {
            id: session_id,
            cwd,
            additional: additional_directories,
            servers: mcp_servers,
        };
        let talk = editor.open(wanted, None).await?;
        talk.greet(&connection).await;
        Ok(ResumeSessionResponse::new())
    })
}

fn prompt(
    editor: &Arc<EditorConnection>,
    request: PromptRequest,
    responder: Responder<PromptResponse>,
    to: &Connection,
) -> Result<(), Error> {
    // Registered before the work is spawned: a cancel that comes next must find this prompt.
    let (talk, ticket) = match editor.prompted(&request.session_id) {
        Ok(found) => found,
        Err(error) => return responder.respond_with_error(error),
    };
    // `beside` takes the responder, so its cancellation is taken out first.
    let (connection, unwanted) = (to.clone(), responder.cancellation());
    beside(to, responder, async move {
        let mut turn = std::pin::pin!(talk.prompt(&connection, request.prompt, &ticket));
        let stopped = tokio::select! {
            stopped = &mut turn => stopped,
            // The general way to cancel a request means the same.
            () = unwanted.cancelled() => {
                talk.cancel().await;
                turn.await
            }
        };
        stopped.map(PromptResponse::new)
    })
}

/// Answers a request when `work` is done, without holding up the messages behind it.
fn beside<T: JsonRpcResponse + Send + 'static>(
    to: &Connection,
    responder: Responder<T>,
    work: impl Future<Output = Result<T, Error>> + Send + 'static,
) -> Result<(), Error> {
    // Boxed, because the futures of a prompt are deep and many may be under way.
    to.spawn(async move { responder.respond_with_result(Box::pin(work).await) })
}

async fn done(work: impl Future<Output = ()>) -> Result<(), Error> {
    work.await;
    Ok(())
}
