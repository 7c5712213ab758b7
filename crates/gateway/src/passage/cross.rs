//! The way to an upstream that speaks another dialect: the request in neutral form, the model's events in the caller's.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::unfold;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use longhaul_core::error::ErrorCode;
use longhaul_core::history::request_messages;
use longhaul_core::message::{Message, Part};
use longhaul_providers::{ModelEvent, ModelStream, ProviderError, Request, ToolChoice};
use tokio::time::timeout;

use super::conversation::Conversation;
use super::prepare::Prepared;
use super::{Opened, Route};
use crate::encode::{self, Encoder, Head};
use crate::gateway::ReplyStream;
use crate::wire::{Dialect, Fault, FaultKind, chat, messages, responses};

impl Route {
    /// Asks a model of another dialect.
    ///
    /// # Errors
    /// [`Fault`] if the request cannot be expressed there, or there is no answer.
    pub(super) async fn cross(mut self) -> Result<Opened, Fault> {
        if self.passage.wire.dialect() == Dialect::Responses {
            responses::check_whole(&self.passage.envelope)?;
        }
        let mut prepared = self.prepare().await?;
        let mut may_shorten = self.conversation.is_some();
        loop {
            let request = self.neutral(&prepared).await?;
            let opened = self.call(request).await;
            let error = match opened {
                Ok(stream) => return self.encoded(stream, prepared).await,
                Err(error) => error,
            };
            if error.code != ErrorCode::ContextOverflow || !may_shorten {
                return Err(fault_of(&error));
            }
            may_shorten = false;
            match self.make_room(&prepared, error.used_tokens, error.limit_tokens).await? {
                Some(shorter) => prepared = shorter,
                None => return Err(fault_of(&error)),
            }
        }
    }

    /// Makes the call and reads up to its first event, so that what fails at once is no stream.
    async fn call(&self, request: Request) -> Result<ModelStream, ProviderError> {
        let provider = self.target.summariser(self.passage.key.as_deref());
        let mut stream = provider.call(request).await?;
        match stream.next().await {
            Some(Err(error)) => Err(error),
            Some(Ok(first)) => Ok(Box::pin(futures_util::stream::iter([Ok(first)]).chain(stream))),
            None => Err(ProviderError::new(
                ErrorCode::TruncatedStream,
                "the upstream's answer ended before it began",
            )),
        }
    }

    /// The request as every provider takes it.
    async fn neutral(&self, prepared: &Prepared) -> Result<Request, Fault> {
        let (wire, envelope) = (self.passage.wire, &self.passage.envelope);
        let fixed = wire.fixed(envelope)?;
        let alone;
        let conversation = match &self.conversation {
            Some(conversation) => conversation,
            // Nothing is counted and nothing cut: the items are read all the same.
            None => {
                alone = Arc::new(Conversation::new(self.known()?, self.new_state()));
                &alone
            }
        };
        let mut state = conversation.state.lock().await;
        if self.conversation.is_none() {
            self.feed(&mut state)?;
        } else if state.log.items != prepared.items {
            return Err(Fault::new(FaultKind::Internal, "another request has gone on with the conversation"));
        }
        let among = state.log.system.iter().filter_map(Part::as_text);
        let system = [fixed.system.as_str()].into_iter().chain(among).filter(|text| !text.is_empty());
        let messages = request_messages(state.log.history.view());
        if messages.iter().any(has_media) {
            let message = format!(
                "pictures and files cannot be passed from {} to the upstream `{}`, which speaks another dialect",
                wire.dialect().as_str(),
                self.target.server.upstream.name,
            );
            return Err(Fault::new(FaultKind::Invalid, message));
        }
        let room = self.window.tokens.saturating_sub(prepared.bound).max(1);
        let asked = envelope.max_output.filter(|limit| *limit < u64::MAX);
        Ok(Request {
            system: system.collect::<Vec<_>>().join("\n\n"),
            messages,
            tools: fixed.tools,
            tool_choice: self.tool_choice()?,
            max_output_tokens: asked
                .map(|asked| if self.limits.window.is_some() { asked.min(room) } else { asked }),
            ..Request::default()
        })
    }

    fn tool_choice(&self) -> Result<ToolChoice, Fault> {
        let envelope = &self.passage.envelope;
        Ok(match self.passage.wire.dialect() {
            Dialect::Chat => chat::tool_choice(envelope)?,
            Dialect::Messages => messages::tool_choice(envelope)?,
            Dialect::Responses => responses::tool_choice(envelope)?,
        })
    }

    /// The answer in the caller's dialect.
    async fn encoded(self, mut stream: ModelStream, prepared: Prepared) -> Result<Opened, Fault> {
        let parts = &self.passage.inner.parts;
        let options = self.passage.envelope.other("stream_options").unwrap_or_default();
        let head = Head {
            id: (parts.new_id)(),
            model: self.passage.envelope.model.clone(),
            created: (parts.now)(),
            input_tokens: prepared.input,
            include_usage: options.contains("\"include_usage\"") && options.contains("true"),
            custom_tools: Vec::new(),
        };
        let mut headers = HeaderMap::new();
        self.describe(&prepared.report, &mut headers);
        let dialect = self.passage.wire.dialect();
        if self.passage.envelope.stream {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
            headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
            let encoder = encode::stream(dialect, head);
            let stream = Encoded { route: self, prepared, stream, encoder, over: false }.into_stream();
            return Ok(Opened::Stream(StatusCode::OK, headers, stream));
        }
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        while let Some(event) = stream.next().await {
            if let ModelEvent::Finished(answer) = event.map_err(|error| fault_of(&error))? {
                if let Some(usage) = answer.usage.clone() {
                    self.remember_usage(usage, &prepared).await;
                }
                return Ok(Opened::Whole(StatusCode::OK, headers, encode::whole(dialect, &head, &answer)));
            }
        }
        Err(Fault::new(FaultKind::Upstream, "the upstream's stream ended before its answer did"))
    }
}

/// A stream of the model's events on its way.
struct Encoded {
    route: Route,
    prepared: Prepared,
    stream: ModelStream,
    encoder: Box<dyn Encoder>,
    over: bool,
}

impl Encoded {
    fn into_stream(self) -> ReplyStream {
        Box::pin(unfold(self, |mut encoded| async move { Some((Ok(encoded.next().await?), encoded)) }))
    }

    async fn next(&mut self) -> Option<Bytes> {
        let keep_alive = self.route.passage.inner.config.keep_alive;
        let mut out = Vec::new();
        while !self.over && out.is_empty() {
            match timeout(keep_alive, self.stream.next()).await {
                Err(_) => out.extend_from_slice(super::flow::COMMENT),
                Ok(Some(Ok(event))) => {
                    self.encoder.event(&event, &mut out);
                    if let ModelEvent::Finished(answer) = event {
                        self.over = true;
                        if let Some(usage) = answer.usage {
                            self.route.remember_usage(usage, &self.prepared).await;
                        }
                    }
                }
                Ok(Some(Err(error))) => {
                    self.over = true;
                    self.encoder.fail(&fault_of(&error), &mut out);
                }
                Ok(None) => {
                    self.over = true;
                    let fault =
                        Fault::new(FaultKind::Upstream, "the upstream's stream ended before its answer did");
                    self.encoder.fail(&fault, &mut out);
                }
            }
        }
        (!out.is_empty()).then(|| out.into())
    }
}

fn has_media(message: &Message) -> bool {
    message.parts.iter().any(|part| match part {
        Part::Image(_) | Part::File(_) => true,
        Part::ToolResult(result) => {
            result.content.iter().any(|part| matches!(part, Part::Image(_) | Part::File(_)))
        }
        _ => false,
    })
}

/// What a provider says went wrong, for the caller.
fn fault_of(error: &ProviderError) -> Fault {
    let kind = match error.code {
        ErrorCode::RateLimitExceeded => FaultKind::RateLimit,
        ErrorCode::Timeout => FaultKind::Timeout,
        ErrorCode::ContextOverflow => FaultKind::ContextOverflow,
        ErrorCode::Auth => FaultKind::Auth,
        ErrorCode::InvalidRequest | ErrorCode::Refused => FaultKind::Invalid,
        ErrorCode::Network => FaultKind::Unreachable,
        ErrorCode::NotFound => FaultKind::NotFound,
        _ => FaultKind::Upstream,
    };
    let fault = Fault::new(kind, error.message.clone());
    // Where the upstream has a status of its own that says as much, it is that.
    let own = error.status.and_then(|status| StatusCode::from_u16(status).ok());
    Fault { status: own.filter(|status| status.is_client_error()).unwrap_or(fault.status), ..fault }
}
