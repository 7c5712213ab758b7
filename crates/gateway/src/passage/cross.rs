//! The way to an upstream that speaks another dialect: the request in neutral form, the model's events in the caller's.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::unfold;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use longhaul_core::error::ErrorCode;
use longhaul_core::message::{Message, Opaque, Part, Role};
use longhaul_providers::{ModelEvent, ModelStream, ProviderError, Request, ToolChoice};
use tokio::time::timeout;

use super::prepare::{Prepared, Said};
use super::{Opened, Route};
use crate::carry::{Carried, To, carry, server_tools};
use crate::encode::{self, Encoder, Head};
use crate::gateway::ReplyStream;
use crate::headers;
use crate::wire::media::{self, Found};
use crate::wire::{Bad, Dialect, Fault, FaultKind, Fixed, Piece, chat, messages, responses};

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
            let (request, told) = self.work(|| self.neutral(&prepared)).await?;
            let opened = self.call(request).await;
            let error = match opened {
                Ok(stream) => return self.encoded(stream, prepared, &told).await,
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

    /// The request as every provider takes it, and what of the caller's is not in it.
    fn neutral(&self, prepared: &Prepared) -> Result<(Request, Told), Fault> {
        let (wire, envelope) = (self.passage.wire, &self.passage.envelope);
        let mut fixed = wire.fixed(envelope)?;
        let tool_choice = self.tool_choice()?;
        let dropped = self.without_server_tools(&mut fixed, &tool_choice)?;
        let to = To {
            kind: self.target.server.upstream.kind,
            model: &self.target.model,
            is_local: self.target.is_local(),
            has_tools: !fixed.tools.is_empty(),
            tool_choice: &tool_choice,
        };
        let all = 0..envelope.bytes.len();
        let Carried { fields, mut ignored, changed } = carry(wire.dialect(), envelope.text(&all), &to)?;
        ignored.extend(dropped);
        let Said { system: among, mut messages } = prepared.said.clone().unwrap_or_default();
        let among = among.iter().map(String::as_str);
        let system = [fixed.system.as_str()].into_iter().chain(among).filter(|text| !text.is_empty());
        ignored.extend(self.without_own_items(&mut messages)?);
        let Found { contents, links } = self.media(&messages)?;
        let room = self.window.tokens.saturating_sub(prepared.bound).max(1);
        let asked = envelope.max_output.filter(|limit| *limit < u64::MAX);
        let request = Request {
            system: system.collect::<Vec<_>>().join("\n\n"),
            messages,
            tools: fixed.tools,
            tool_choice,
            max_output_tokens: asked
                .map(|asked| if self.limits.window.is_some() { asked.min(room) } else { asked }),
            media: contents,
            links,
            fields,
        };
        Ok((request, Told { ignored, changed }))
    }

    /// Leaves out the tools that their maker's servers run, and names them.
    fn without_server_tools(&self, fixed: &mut Fixed, choice: &ToolChoice) -> Result<Vec<String>, Fault> {
        let envelope = &self.passage.envelope;
        let Some(at) = &envelope.tools_at else { return Ok(Vec::new()) };
        let theirs = server_tools(self.passage.wire.dialect(), envelope.text(at));
        let is_theirs = |name: &str| theirs.iter().any(|tool| tool.name == name);
        if let ToolChoice::Named(name) = choice
            && is_theirs(name)
        {
            let message =
                format!("the tool `{name}` is run by its maker's servers, and this model is elsewhere");
            return Err(Bad::field("tool_choice", message).into());
        }
        fixed.tools.retain(|tool| !is_theirs(&tool.name));
        Ok(theirs.iter().map(|tool| format!("tools[{}] ({})", tool.index, tool.name)).collect())
    }

    /// Items that only their maker's model can read: those of the model stay behind and are named; of a person's or a
    /// tool's nothing may be missing.
    fn without_own_items(&self, messages: &mut [Message]) -> Result<BTreeSet<String>, Fault> {
        let mut ignored = BTreeSet::new();
        for message in messages {
            let by_model = message.role == Role::Assistant;
            for part in &mut message.parts {
                match part {
                    Part::Opaque(own) => own_item(own, by_model, &mut ignored)?,
                    Part::ToolResult(result) => {
                        for part in &mut result.content {
                            match part {
                                Part::Opaque(own) if own.kind == "tool_reference" => {
                                    *part = Part::text(own.native.as_str().to_owned());
                                }
                                Part::Opaque(own) => own_item(own, false, &mut ignored)?,
                                _ => {}
                            }
                        }
                    }
                    _ => {}
                }
            }
        }
        Ok(ignored)
    }

    /// The content of every picture and file in the messages.
    ///
    /// # Errors
    /// [`Fault`] with the item that has one which cannot get there.
    fn media(&self, messages: &[Message]) -> Result<Found, Fault> {
        let wanted: BTreeMap<&str, &Part> = messages.iter().flat_map(media_of).collect();
        let mut all = Found::default();
        if wanted.is_empty() {
            return Ok(all);
        }
        let (wire, envelope) = (self.passage.wire, &self.passage.envelope);
        for index in 0..envelope.items.len() {
            let Found { contents, links } = media::found(envelope.item(index));
            all.contents.extend(contents.into_iter().filter(|(hash, _)| wanted.contains_key(hash.as_str())));
            all.links.extend(links.into_iter().filter(|(hash, _)| wanted.contains_key(hash.as_str())));
        }
        all.links.retain(|hash, _| !all.contents.contains_key(hash));
        for (hash, part) in wanted {
            let by_address = all.links.contains_key(hash);
            let why = match by_address || all.contents.contains_key(hash) {
                true => self.target.takes(part, by_address, &self.limits).err(),
                false => Some("its content is kept at its maker's server: send the content itself"),
            };
            let Some(why) = why else { continue };
            let holds = |index: &usize| {
                let pieces = wire.pieces(&[envelope.item(*index)], *index).unwrap_or_default();
                pieces.iter().flatten().flat_map(parts_of).any(|part| media_hash(part) == Some(hash))
            };
            let list = if wire.dialect() == Dialect::Responses { "input" } else { "messages" };
            let place = (0..envelope.items.len()).find(holds).unwrap_or_default();
            let what = if matches!(part, Part::Image(_)) { "picture" } else { "file" };
            let message = format!("{list}[{place}] has a {what} that cannot be passed on: {why}");
            return Err(Bad::field(format!("{list}[{place}]"), message).into());
        }
        Ok(all)
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
    async fn encoded(
        self,
        mut stream: ModelStream,
        prepared: Prepared,
        told: &Told,
    ) -> Result<Opened, Fault> {
        let parts = &self.passage.inner.parts;
        let dialect = self.passage.wire.dialect();
        let options = self.passage.envelope.other("stream_options").unwrap_or_default();
        let head = Head {
            id: (parts.new_id)(),
            model: match self.passage.envelope.model.as_str() {
                "" => self.target.model.clone(),
                asked => asked.to_owned(),
            },
            created: (parts.now)(),
            input_tokens: prepared.input,
            include_usage: options.contains("\"include_usage\"") && options.contains("true"),
            custom_tools: match dialect {
                Dialect::Responses => responses::custom_tools(&self.passage.envelope),
                Dialect::Chat | Dialect::Messages => Vec::new(),
            },
        };
        let mut headers = HeaderMap::new();
        self.describe(&prepared.report, &mut headers);
        told.say(&mut headers);
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
                self.totals.add(answer.usage.as_ref());
                let whole = encode::whole(dialect, &head, &answer);
                self.passage.keep(std::str::from_utf8(&whole).unwrap_or_default());
                let body = self.totals.beside(&prepared.report, whole);
                return Ok(Opened::Whole(StatusCode::OK, headers, body));
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
                        let (route, report) = (&self.route, &self.prepared.report);
                        route.totals.add(answer.usage.as_ref());
                        route.passage.keep_end(&Bytes::copy_from_slice(&out));
                        out = route.totals.at_end(report, route.passage.wire.dialect(), out);
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

/// What of the caller's request the upstream was not sent, or with another value.
struct Told {
    ignored: Vec<String>,
    changed: Vec<String>,
}

impl Told {
    fn say(&self, headers: &mut HeaderMap) {
        for (name, list) in [("x-longhaul-ignored", &self.ignored), ("x-longhaul-changed", &self.changed)] {
            if !list.is_empty() {
                headers::say(headers, name, &list.join(","));
            }
        }
    }
}

/// Items that stand for a conversation which only their maker's server can read.
const SEALED: [&str; 3] = ["compaction", "compaction_summary", "context_compaction"];

fn own_item(own: &Opaque, by_model: bool, ignored: &mut BTreeSet<String>) -> Result<(), Fault> {
    if by_model && !SEALED.contains(&own.kind.as_str()) {
        ignored.insert(own.kind.clone());
        return Ok(());
    }
    let message = format!("`{}` means nothing to the model's server, which speaks another dialect", own.kind);
    Err(Fault { param: Some(own.kind.clone()), ..Fault::new(FaultKind::Invalid, message) })
}

fn media_hash(part: &Part) -> Option<&str> {
    match part {
        Part::Image(media) | Part::File(media) => Some(&media.blob.hash),
        _ => None,
    }
}

fn media_of(message: &Message) -> impl Iterator<Item = (&str, &Part)> {
    let inner = message.parts.iter().flat_map(|part| match part {
        Part::ToolResult(result) => result.content.as_slice(),
        part => std::slice::from_ref(part),
    });
    inner.filter_map(|part| Some((media_hash(part)?, part)))
}

fn parts_of(piece: &Piece) -> &[Part] {
    match piece {
        Piece::System(parts) | Piece::Typed(parts) | Piece::Note(parts) | Piece::Assistant(parts) => parts,
        Piece::Result { content, .. } => content,
    }
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
    let own = own.filter(|status| status.is_client_error() || status.is_server_error());
    Fault { status: own.unwrap_or(fault.status), retry_after: error.retry_after, ..fault }
}
