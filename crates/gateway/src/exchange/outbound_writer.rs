//! The request for an upstream: the client's own bytes with edits, or the neutral form for another dialect.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use http::HeaderMap;
use longhaul_core::message::{Message, OpaquePart, Part, Role, ToolStatus};
use longhaul_core::recall::tool;
use longhaul_providers::{ModelRequest, ToolChoice};
use longhaul_wire::edit::media::ItemMedia;
use longhaul_wire::edit::{
    AnswerPrefill, Dialect, FixedContent, GO_ON, GatewayError, GatewayErrorKind, ItemSegment, ParseError,
    RequestEdit, RequestEnvelope, WireCodec, media,
};
use longhaul_wire::param_mapping::{MappedParams, MappingTarget, map_params, server_tools};

use super::client_tools::{ClientTools, ToolPropertyNames};
use super::context_management;
use super::prepare::{NeutralConversation, OutboundRequest};
use super::request_budget::RequestBudget;
use super::targeted_request::TargetedRequest;
use crate::headers;

/// The maximum number of fields in a header: the caller chooses their names, and so the header's length.
const MAX_NAMED: usize = 40;

/// Items in place of a conversation, readable only by their provider's server.
const SEALED: [&str; 3] = ["compaction", "compaction_summary", "context_compaction"];

/// A writer of the requests of one attempt.
pub(super) struct OutboundWriter<'a> {
    pub(super) request: &'a TargetedRequest,
    pub(super) budget: &'a RequestBudget,
}

/// The report of a translation: dropped and changed fields of the client's request.
pub(super) struct ParamMappingReport {
    ignored: Vec<String>,
    changed: Vec<String>,
    /// The property names of the client's tools unknown to the model.
    pub(super) names: ToolPropertyNames,
}

impl ParamMappingReport {
    pub(super) fn say(&self, headers: &mut HeaderMap) {
        for (name, list) in [("x-longhaul-ignored", &self.ignored), ("x-longhaul-changed", &self.changed)] {
            // Names come from the client, and proxies refuse long headers.
            let mut said = list.iter().take(MAX_NAMED).cloned().collect::<Vec<_>>().join(",");
            if list.len() > MAX_NAMED {
                said.push_str(&format!(",and {} more", list.len() - MAX_NAMED));
            }
            if !said.is_empty() {
                headers::set_header(headers, name, &said);
            }
        }
    }
}

impl OutboundWriter<'_> {
    /// Returns the request's body, which is the client's own bytes if nothing changes.
    ///
    /// # Errors
    /// [`GatewayError`] if a change cannot be expressed, or the answer has reached the client's output limit.
    pub(super) async fn body(
        &self,
        prepared: &OutboundRequest,
        prefill: Option<(&str, u64)>,
        collects: bool,
    ) -> Result<Bytes, GatewayError> {
        let envelope = &self.request.proxied.envelope;
        let said = prefill.map_or(0, |(_, tokens)| tokens);
        let left = self.request.left_output(said)?;
        // An empty beginning is no beginning: some servers refuse an empty message at the end.
        let begun = prefill.filter(|(text, _)| !text.is_empty());
        // Servers refuse a request whose limit exceeds the room behind its input.
        let max_output = self.budget.room(prepared).filter(|room| left.is_some_and(|left| left > *room));
        let edited = RequestEdit {
            // A continued answer may only use what its earlier streams have left of the client's limit.
            max_output: max_output.or(left.filter(|_| said > 0)),
            steps: prepared.render_ops(envelope.items.len()),
            stream: collects.then_some(true),
            // The client waits for the whole answer, so the stream is the gateway's wish and needs its usage.
            include_usage: collects,
            tool: self.request.tools().recalls(&prepared.report).then(tool::spec),
            // The tools stay listed. Removing them would break the prompt cache, and some servers refuse a history
            // whose tools are not listed.
            forbids_calls: prepared.rounds.must_answer(),
            replays: prepared.replays.clone(),
            rounds: prepared.rounds.items.clone(),
            asks_to_go_on: begun.is_some() && !self.request.goes_on_exactly(),
            prefill: begun.map(|(text, _)| AnswerPrefill {
                text: text.to_owned(),
                must_be_told: self.request.target.must_be_told(),
            }),
            ..self.request.request_edit()
        };
        match edited.is_nothing() {
            // An unchanged request keeps the client's bytes, and with them the upstream's prompt cache.
            true => Ok(envelope.bytes.clone()),
            false => {
                Ok(self.request.work(|| self.request.proxied.wire.render_request(envelope, &edited)).await?)
            }
        }
    }

    /// Returns the request in the form that every provider takes, and a report of its differences. `begun` is the text,
    /// with its tokens, of an answer that the model is to continue.
    pub(super) fn neutral(
        &self,
        prepared: &OutboundRequest,
        begun: Option<(&str, u64)>,
    ) -> Result<(ModelRequest, ParamMappingReport), GatewayError> {
        let (wire, envelope) = (self.request.proxied.wire, &self.request.proxied.envelope);
        let mut fixed = wire.fixed_content(envelope)?;
        let tool_choice = match prepared.rounds.must_answer() {
            true => ToolChoice::None,
            false => self.request.tool_choice()?,
        };
        let dropped = self.without_server_tools(&mut fixed, &tool_choice)?;
        let ClientTools { specs, names, left_out } = ClientTools::normalized(fixed.tools);
        fixed.tools = specs;
        for (tool, error) in &left_out {
            // Without the forced tool the request would mean something else, so it is refused.
            if matches!(&tool_choice, ToolChoice::Named(named) if named == tool) {
                let message = format!("the tool `{tool}` cannot be offered to the model: {error}");
                return Err(ParseError::field("tool_choice", message).into());
            }
            tracing::warn!(upstream = %self.request.target.server.upstream.name, "the client's tool `{tool}` is left out: {error}");
        }
        let target = MappingTarget {
            kind: self.request.target.server.upstream.kind,
            model: &self.request.target.model,
            is_local: self.request.target.is_local(),
            has_tools: !fixed.tools.is_empty(),
            tool_choice: &tool_choice,
        };
        let all = 0..envelope.bytes.len();
        let MappedParams { fields, mut ignored, mut changed } =
            map_params(wire.dialect(), envelope.text(&all), &target)?;
        if let Some(wishes) = self.request.context_management() {
            // The gateway carries out this field itself, so it names only the wishes that it does not fulfil.
            ignored.retain(|name| name != context_management::FIELD);
            ignored.extend(wishes.ignored.iter().cloned());
        }
        ignored.extend(dropped);
        ignored.extend(left_out.iter().map(|(tool, _)| format!("tools ({tool})")));
        let NeutralConversation { system: among, mut messages, role_rewrites: recast } =
            prepared.said.clone().unwrap_or_default();
        let among = among.iter().map(String::as_str);
        let system = [fixed.system.as_str()].into_iter().chain(among).filter(|text| !text.is_empty());
        let mut system = system.collect::<Vec<_>>().join("\n\n");
        // Done before the media are looked up: an item that is left out needs no content.
        ignored.extend(self.without_own_items(&mut messages)?);
        // These wires have no mark for a failed result. The text still says it, but the client should know.
        if !self.request.target.server.upstream.kind.marks_failed_results() && messages.iter().any(has_failed)
        {
            ignored.push("is_error".to_owned());
        }
        let words = [(recast.system, "system=user"), (recast.result, "tool_result=user")];
        changed.extend(words.iter().filter(|(is_so, _)| *is_so).map(|(_, said)| (*said).to_owned()));
        let ItemMedia { contents, links } = self.media(&messages)?;
        let left = self.request.left_output(begun.map_or(0, |(_, tokens)| tokens))?;
        let max_output_tokens = self.budget.output_limit(left, self.budget.room(prepared));
        changed.extend(self.budget.limit_said(prepared));
        if self.request.tools().recalls(&prepared.report) {
            fixed.tools.push(tool::spec());
        }
        // Hidden steps follow the client's messages and precede the begun answer, in the order of the conversation.
        messages.extend(self.request.reader().neutral_rounds(&prepared.rounds)?);
        // The note explains why the answer seems to begin in its middle.
        if let Some(tail) = prepared.tail.as_ref().filter(|_| begun.is_some()) {
            messages.push(Message::user("left-out", vec![Part::text(tail.note.as_str())]));
        }
        if let Some((text, _)) = begun.filter(|(text, _)| !text.is_empty()) {
            begin(&mut messages, text, !self.request.goes_on_exactly());
        }
        if messages.is_empty() && !system.is_empty() {
            // Every other API demands at least one message.
            messages.push(Message::user("asked", vec![Part::text(std::mem::take(&mut system))]));
            changed.push("system=user".to_owned());
        }
        let request = ModelRequest {
            system,
            messages,
            tools: fixed.tools,
            tool_choice,
            max_output_tokens,
            media: contents,
            links,
            cache_key: self.request.cache_key(),
            long_pauses: self.request.wants_long_cache(),
            fields,
        };
        Ok((request, ParamMappingReport { ignored, changed, names }))
    }

    /// Removes the tools that their provider's servers run, and returns their names.
    fn without_server_tools(
        &self,
        fixed: &mut FixedContent,
        choice: &ToolChoice,
    ) -> Result<Vec<String>, GatewayError> {
        let envelope = &self.request.proxied.envelope;
        let Some(at) = &envelope.tools_at else { return Ok(Vec::new()) };
        let theirs = server_tools(self.request.proxied.wire.dialect(), envelope.text(at));
        let names: Vec<&str> = theirs.iter().map(|tool| tool.name.as_str()).collect();
        // Without the forced tool the request would mean something else, so it is refused.
        if let ToolChoice::Named(name) = choice
            && names.contains(&name.as_str())
        {
            let message =
                format!("the tool `{name}` is run by its maker's servers, and this model is elsewhere");
            return Err(ParseError::field("tool_choice", message).into());
        }
        fixed.tools.retain(|tool| !names.contains(&tool.name.as_str()));
        Ok(theirs.iter().map(|tool| format!("tools[{}] ({})", tool.index, tool.name)).collect())
    }

    /// Removes items that only another provider's model can read. The model's own items are left out and named. An item
    /// of a user or a tool must not be lost and is an error.
    fn without_own_items(&self, messages: &mut [Message]) -> Result<BTreeSet<String>, GatewayError> {
        let mut ignored = BTreeSet::new();
        for message in messages {
            let by_model = message.role == Role::Assistant;
            for part in &mut message.parts {
                match part {
                    Part::Opaque(own) => own_item(own, by_model, &mut ignored)?,
                    Part::ToolResult(result) => {
                        for part in &mut result.content {
                            match part {
                                // A reference names a tool that a search has found. As text the name still
                                // tells the model.
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

    /// Returns the content of every picture and file in the messages.
    ///
    /// # Errors
    /// [`GatewayError`] naming the first item with media that the upstream cannot take.
    fn media(&self, messages: &[Message]) -> Result<ItemMedia, GatewayError> {
        let wanted: BTreeMap<&str, &Part> = messages.iter().flat_map(media_of).collect();
        let mut all = ItemMedia::default();
        // Most conversations have no media, and looking for them reads every item.
        if wanted.is_empty() {
            return Ok(all);
        }
        let (wire, envelope) = (self.request.proxied.wire, &self.request.proxied.envelope);
        for index in 0..envelope.items.len() {
            let ItemMedia { contents, links } = media::find_media(envelope.item(index));
            all.contents.extend(contents.into_iter().filter(|(hash, _)| wanted.contains_key(hash.as_str())));
            all.links.extend(links.into_iter().filter(|(hash, _)| wanted.contains_key(hash.as_str())));
        }
        // The content itself needs no download by the upstream.
        all.links.retain(|hash, _| !all.contents.contains_key(hash));
        for (hash, part) in wanted {
            let by_address = all.links.contains_key(hash);
            let why = match by_address || all.contents.contains_key(hash) {
                true => self.request.target.takes(part, by_address, &self.request.limits).err(),
                false => Some("its content is kept at its maker's server: send the content itself"),
            };
            let Some(why) = why else { continue };
            let list = if wire.dialect() == Dialect::Responses { "input" } else { "messages" };
            let place = item_with_media(wire, envelope, hash).unwrap_or_default();
            let what = if matches!(part, Part::Image(_)) { "picture" } else { "file" };
            let message = format!("{list}[{place}] has a {what} that cannot be passed on: {why}");
            return Err(ParseError::field(format!("{list}[{place}]"), message).into());
        }
        Ok(all)
    }
}

/// Appends the beginning of an answer to the messages. With `asks` a user message requests the rest, for an upstream
/// that does not continue by itself.
fn begin(messages: &mut Vec<Message>, text: &str, asks: bool) {
    match messages.last_mut().filter(|last| last.role == Role::Assistant) {
        Some(last) => match last.parts.last_mut() {
            // The client had begun the answer itself, so the text continues the client's.
            Some(Part::Text(said)) => said.text.push_str(text),
            _ => last.parts.push(Part::text(text)),
        },
        None => messages.push(begun_message(Role::Assistant, text)),
    }
    if asks {
        messages.push(begun_message(Role::User, GO_ON));
    }
}

fn begun_message(role: Role, text: &str) -> Message {
    Message { id: "begun".into(), role, parts: vec![Part::text(text)], origin: None }
}

fn own_item(own: &OpaquePart, by_model: bool, ignored: &mut BTreeSet<String>) -> Result<(), GatewayError> {
    // A compaction stands for the whole conversation before it, so leaving it out would lose all of that.
    if by_model && !SEALED.contains(&own.kind.as_str()) {
        ignored.insert(own.kind.clone());
        return Ok(());
    }
    let message = format!("`{}` means nothing to the model's server, which speaks another dialect", own.kind);
    Err(GatewayError {
        param: Some(own.kind.clone()),
        ..GatewayError::new(GatewayErrorKind::Invalid, message)
    })
}

/// Returns the index of the first item with a picture or file of this hash.
fn item_with_media(wire: &dyn WireCodec, envelope: &RequestEnvelope, hash: &str) -> Option<usize> {
    // Only for an error's text, so the search may parse items once more.
    (0..envelope.items.len()).find(|index| {
        let pieces = wire.parse_segments(&[envelope.item(*index)], *index).unwrap_or_default();
        pieces.iter().flatten().flat_map(parts_of).any(|part| media_hash(part) == Some(hash))
    })
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

/// Returns whether a tool's result reports a failure.
fn has_failed(message: &Message) -> bool {
    message
        .parts
        .iter()
        .any(|part| matches!(part, Part::ToolResult(result) if result.status == ToolStatus::Error))
}

fn parts_of(piece: &ItemSegment) -> &[Part] {
    match piece {
        ItemSegment::System(parts)
        | ItemSegment::Typed(parts)
        | ItemSegment::Note(parts)
        | ItemSegment::Summary(parts)
        | ItemSegment::Assistant(parts) => parts,
        ItemSegment::Result { content, .. } => content,
    }
}
