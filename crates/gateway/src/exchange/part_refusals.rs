//! Parts of a request refused by an upstream: pictures, files, reasoning, tool results, tools. Notes replace
//! them in the refused request and in all later requests with the same parts.
//!
//! A client sends its whole conversation with each request. Without the notes a single refused part would end the
//! conversation.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use longhaul_core::attempt::{
    MAX_OMISSIONS, RefusalSuspect, SuspectKind, UnnamedRefusal, choose_refused_media, guess_refused_parts,
    note_of_omission, one_line,
};
use longhaul_core::error::ErrorCode;
use longhaul_core::message::{MediaPart, Message, Part, Role, ToolResult, ToolSpec};
use longhaul_core::refusal::{PartRefusal, RefusedPart, RefusedPartKind};
use longhaul_providers::{ModelRequest, ProviderError};
use longhaul_wire::{refused_part, server_error};
use tokio::time::Instant;

use super::attempts::AttemptOutcome;
use super::prepare::OutboundRequest;
use super::targeted_request::TargetedRequest;
use super::translate::is_withheld;
use super::upstream_response::{UpstreamResponse, WholeResponse};
use crate::headers;
use longhaul_wire::edit::request_parts::{RequestPart, RequestPartKind, RequestParts};

/// The maximum number of remembered parts.
// A forgotten refusal costs one more refused request.
const MAX_REMEMBERED: usize = 4_096;

/// The time after which a part that was left out on a guess is sent again. A proxy's passing fault is over by then, and a
/// part that is really at fault costs two more requests, once.
const GUESS_LIFETIME: Duration = Duration::from_secs(10 * 60);

/// The most times that one request is sent in another form. No wire has more forms (`RequestAdaptations`).
const MAX_ADAPTATIONS: u32 = 4;

/// The beginning of the names that clients give to tools of MCP servers. Only their schemas come from other programs.
const FOREIGN_TOOLS: &str = "mcp__";

/// The words in place of an error, if an upstream gives an empty answer because of a filter.
const WITHHELD: &str = "the provider's filter withheld the answer";

/// The name of a tool result in a note.
const RESULT_NAME: &str = "the output of this tool";

/// A hash of the upstream, the model and the part.
type PartKey = [u8; 32];

/// The parts that upstreams have refused.
#[derive(Debug, Default)]
pub(crate) struct PartRefusalCache {
    known: Mutex<HashMap<PartKey, RememberedRefusal>>,
}

/// A part that an upstream has refused.
#[derive(Clone, Debug)]
struct RememberedRefusal {
    /// The note in place of the part.
    note: String,
    /// The time of the guess, if the upstream has not named the part. `None`: the part is left out for good.
    guessed_at: Option<Instant>,
}

impl RememberedRefusal {
    /// Returns whether the part is left out at `now`. After its time a guess is only a suspicion.
    fn is_applied(&self, now: Instant) -> bool {
        self.guessed_at.is_none_or(|at| now.saturating_duration_since(at) < GUESS_LIFETIME)
    }
}

impl PartRefusalCache {
    fn known(&self) -> MutexGuard<'_, HashMap<PartKey, RememberedRefusal>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The parts left out of one request.
#[derive(Debug, Default)]
pub(super) struct RequestOmissions {
    tries: u32,
    /// The number of refusals after which the request had another form on its wire.
    adaptations: u32,
    /// The number of parts with notes in the last sent request.
    sent_without: usize,
    /// The parts left out on a guess, not yet confirmed by a success.
    guess: Vec<PartKey>,
    /// The guesses that are left, made at the first refusal that names nothing. Later requests lack the guessed parts.
    guesses: Option<VecDeque<Vec<BlamedPart>>>,
}

/// A part to leave out, and its name in the note.
#[derive(Clone, Copy, Debug)]
struct BlamedPart {
    key: PartKey,
    description: &'static str,
}

impl RequestOmissions {
    /// Returns the number of parts with notes in the last sent request.
    pub(super) fn count(&self) -> usize {
        self.sent_without
    }

    /// Returns whether the request was refused without each single suspect. The next guess then has several results.
    pub(super) fn has_tried_singles(&self) -> bool {
        let Some(guesses) = self.guesses.as_ref().filter(|_| self.tries > 0) else { return false };
        guesses
            .front()
            .is_none_or(|next| next.iter().filter(|part| part.description == RESULT_NAME).count() > 1)
    }
}

/// A possible reason for a refusal.
#[derive(Debug)]
struct SuspectedPart {
    key: PartKey,
    kind: RequestPartKind,
    /// The name of a tool, or the id of the call that a result answers.
    name: String,
    /// The JSON of reasoning, because a refusal quotes a piece of it.
    json: String,
    /// Set if the part is newer than the model's newest answer.
    is_new: bool,
}

impl SuspectedPart {
    /// Returns a part of a request's text. Parts behind `answered_at` are new.
    fn in_body(targeted: &TargetedRequest, text: &str, answered_at: usize, part: RequestPart) -> Self {
        let json = &text[part.at.clone()];
        Self {
            key: part_key(targeted, json.as_bytes()),
            // Only reasoning is found by its text, so no other part is copied.
            json: if is_proof(part.kind) { json.to_owned() } else { String::new() },
            is_new: part.at.start > answered_at,
            kind: part.kind,
            name: part.name,
        }
    }

    /// Returns a part of a translated request.
    fn in_neutral(targeted: &TargetedRequest, sent: &RefusablePart) -> Self {
        Self {
            key: part_key(targeted, sent.id.as_bytes()),
            kind: sent.kind,
            name: sent.name.clone(),
            json: String::new(),
            is_new: sent.is_new,
        }
    }

    fn is_media(&self) -> bool {
        matches!(self.kind, RequestPartKind::Image | RequestPartKind::File)
    }

    /// Returns the part as one to leave out.
    fn blamed(&self) -> BlamedPart {
        let description = match self.kind {
            RequestPartKind::Image => "a picture",
            RequestPartKind::File => "a file",
            RequestPartKind::Reasoning => "reasoning",
            RequestPartKind::Signature => "a signature",
            RequestPartKind::ToolResult => RESULT_NAME,
            RequestPartKind::Tool => "a tool",
        };
        BlamedPart { key: self.key, description }
    }

    /// Returns the part as a suspect of a refusal that names nothing. `None` for a tool of the client itself, which
    /// its server has accepted in every request before.
    fn unnamed_suspect(&self) -> Option<RefusalSuspect> {
        let kind = match self.kind {
            RequestPartKind::Image | RequestPartKind::File => SuspectKind::Media,
            RequestPartKind::Reasoning | RequestPartKind::Signature => SuspectKind::Reasoning,
            RequestPartKind::ToolResult => SuspectKind::ToolResult,
            RequestPartKind::Tool if self.name.starts_with(FOREIGN_TOOLS) => SuspectKind::ForeignTool,
            RequestPartKind::Tool => return None,
        };
        // Reasoning of the newest answer stands behind the mark of that answer, and is as old as the answer.
        Some(RefusalSuspect { kind, is_new: self.is_new && kind != SuspectKind::Reasoning })
    }
}

/// Returns whether a part is a proof that its provider checks: reasoning, or a signature.
fn is_proof(kind: RequestPartKind) -> bool {
    matches!(kind, RequestPartKind::Reasoning | RequestPartKind::Signature)
}

impl RequestOmissions {
    /// Returns the request with notes in place of refused parts, and records their number.
    pub(super) fn without_refused(&mut self, targeted: &TargetedRequest, body: Bytes) -> Bytes {
        let (body, left_out) = with_omissions(targeted, body);
        self.set_omitted(targeted, left_out);
        body
    }

    /// Leaves out the part that caused the refusal of `body`. Returns whether such a part was found, so that the
    /// request is worth another try.
    pub(super) fn omit(&mut self, targeted: &TargetedRequest, came: &UpstreamResponse, body: &Bytes) -> bool {
        let Some((status, said)) = refusal_in(came) else { return false };
        let refusal = match came.is_withheld() {
            true => Some(refused_content()),
            false => refused_part::recognise(status, said, body),
        };
        let text = std::str::from_utf8(body).unwrap_or_default();
        let answered_at = answered_until(text);
        let suspects: Vec<SuspectedPart> = RequestParts::of(text)
            .parts
            .into_iter()
            .map(|part| SuspectedPart::in_body(targeted, text, answered_at, part))
            .collect();
        self.blame(targeted, refusal.as_ref(), &suspects, said)
    }

    /// Leaves out the refused part of a translated request, or lets its wire adapt the next request. Returns whether the
    /// request is worth another try.
    pub(super) fn omit_neutral(
        &mut self,
        targeted: &TargetedRequest,
        error: &ProviderError,
        request: &[RefusablePart],
    ) -> bool {
        if error.refusal.as_deref().is_some_and(|refusal| refusal.is_remedied) {
            // The provider has learned the demanded form, so no part of the conversation is at fault.
            self.adaptations += 1;
            return self.adaptations <= MAX_ADAPTATIONS;
        }
        let suspects: Vec<SuspectedPart> =
            request.iter().map(|sent| SuspectedPart::in_neutral(targeted, sent)).collect();
        // A withheld answer names no part, as on the client's own wire.
        let withheld = is_withheld(error).then(refused_content);
        let refusal = error.refusal.as_deref().or(withheld.as_ref());
        self.blame(targeted, refusal, &suspects, &error.message)
    }

    /// Replaces the refused parts of a translated request by notes.
    pub(super) fn leave_out_refused(&mut self, targeted: &TargetedRequest, request: &mut ModelRequest) {
        let mut left_out = 0;
        replace_refused(targeted, request, &mut left_out);
        self.set_omitted(targeted, left_out);
    }

    /// Records the number of parts with notes in the request that is sent next.
    fn set_omitted(&mut self, targeted: &TargetedRequest, parts: usize) {
        self.sent_without = parts;
        if parts > 0 {
            tracing::info!(
                upstream = targeted.target.server.upstream.name,
                parts,
                "parts that the upstream has refused before are left out"
            );
        }
    }

    /// Adds the number of left-out parts to the headers for the client.
    pub(super) fn say_omitted(&self, headers: &mut HeaderMap) {
        if self.sent_without > 0 {
            headers::set_header(headers, "x-longhaul-omitted", &self.sent_without.to_string());
        }
    }

    /// Sends the parts again that were left out on a guess.
    pub(super) fn take_back_guess(&mut self, targeted: &TargetedRequest) {
        let wrong_guess = std::mem::take(&mut self.guess);
        if wrong_guess.is_empty() {
            return;
        }
        tracing::debug!(
            parts = wrong_guess.len(),
            "leaving out these parts did not help, so they are sent again"
        );
        let mut known = targeted.proxied.inner.part_refusals.known();
        for key in &wrong_guess {
            known.remove(key);
        }
    }

    /// Returns the parts of the next guess; empty if none is left.
    fn next_guess(&mut self, suspects: &[&SuspectedPart]) -> Vec<BlamedPart> {
        let guesses = self.guesses.get_or_insert_with(|| {
            let suspected = suspects.iter().filter_map(|part| Some((part.unnamed_suspect()?, part.blamed())));
            let (suspected, parts): (Vec<RefusalSuspect>, Vec<BlamedPart>) = suspected.unzip();
            let guesses = guess_refused_parts(&suspected).into_iter();
            guesses.map(|guess| guess.into_iter().filter_map(|at| parts.get(at).copied()).collect()).collect()
        });
        guesses.pop_front().unwrap_or_default()
    }

    /// Chooses the parts to leave out next. Returns whether there is one.
    fn blame(
        &mut self,
        targeted: &TargetedRequest,
        refusal: Option<&PartRefusal>,
        suspects: &[SuspectedPart],
        said: &str,
    ) -> bool {
        // The last guess did not help: the upstream has refused again.
        self.take_back_guess(targeted);
        let mut known = targeted.proxied.inner.part_refusals.known();
        // Each attempt sends the whole request, so a refusal that persists goes to the client.
        let Some(refusal) = refusal.filter(|_| self.tries < MAX_OMISSIONS) else { return false };
        let now = Instant::now();
        let is_applied = |part: &SuspectedPart| known.get(&part.key).is_some_and(|it| it.is_applied(now));
        let suspects: Vec<&SuspectedPart> = suspects.iter().filter(|part| !is_applied(part)).collect();
        let named = choose_suspects(refusal, &suspects, self.tries);
        // A place that is none of a known part says as little as no place.
        let is_guess = named.is_empty() && refusal.kind.is_none();
        // Earlier guesses that have ended come first: a second refusal with the same part is no accident.
        let former: Vec<BlamedPart> = match is_guess {
            true => suspects
                .iter()
                .filter(|part| known.contains_key(&part.key))
                .map(|part| part.blamed())
                .collect(),
            false => Vec::new(),
        };
        let is_new_guess = is_guess && former.is_empty();
        let blamed: Vec<BlamedPart> = match is_guess {
            true if is_new_guess => self.next_guess(&suspects),
            true => former,
            false => named.into_iter().map(SuspectedPart::blamed).collect(),
        };
        if blamed.is_empty() {
            return false;
        }
        self.tries += 1;
        if known.len() + blamed.len() > MAX_REMEMBERED {
            // A forgotten part costs one refused request.
            known.clear();
        }
        for part in &blamed {
            let note = note_of_omission(part.description, &message_of(said));
            known.insert(part.key, RememberedRefusal { note, guessed_at: is_new_guess.then_some(now) });
        }
        // A refusal that names the part is believed at once. A filter names none of the results.
        let is_filter = refusal.kind == Some(RefusedPartKind::Content) && refusal.part.is_none();
        if is_guess || is_filter {
            self.guess = blamed.iter().map(|part| part.key).collect();
        }
        tracing::warn!(
            upstream = targeted.target.server.upstream.name,
            parts = blamed.len(),
            "the upstream refuses a part of the request, which is left out: {}",
            one_line(&message_of(said))
        );
        true
    }
}

/// Returns the status and the words of a refusal. An error inside an answer has no status of its own.
fn refusal_in(came: &UpstreamResponse) -> Option<(Option<u16>, &str)> {
    match came {
        response if response.is_withheld() => Some((None, WITHHELD)),
        UpstreamResponse::Stream(opening) => Some((None, opening.beginning.error.as_deref()?)),
        UpstreamResponse::Whole(WholeResponse { status, bytes, seen: None, in_answer, .. })
            if !status.is_success() =>
        {
            let own = in_answer.is_none().then(|| status.as_u16());
            Some((own, std::str::from_utf8(bytes).ok()?))
        }
        UpstreamResponse::Whole(_) => None,
    }
}

/// Returns the sizes of the requests and of the window, if the response is a refusal that names neither a part nor a limit.
pub(super) fn unnamed_refusal(
    received: &AttemptOutcome,
    sent: &OutboundRequest,
    window_tokens: u64,
) -> Option<UnnamedRefusal> {
    let gives_no_reason = match received {
        AttemptOutcome::Native(response, _) => {
            let (status, said) = refusal_in(response).filter(|_| !response.is_withheld())?;
            let error = match status {
                Some(status) => server_error::from_response(status, None, said.to_owned()),
                None => server_error::from_answer(said),
            };
            is_unnamed(&error).then_some(error.gives_no_reason)
        }
        AttemptOutcome::Refused(error, _) => is_unnamed(error).then_some(error.gives_no_reason),
        AttemptOutcome::Translated(..) => None,
    }?;
    Some(UnnamedRefusal {
        refused_tokens: sent.input,
        accepted_tokens: sent.accepted,
        window_tokens,
        gives_no_reason,
    })
}

/// Returns whether an error refuses the request and names neither a part nor a limit.
fn is_unnamed(error: &ProviderError) -> bool {
    let refusal = error.refusal.as_deref().filter(|_| error.code == ErrorCode::InvalidRequest);
    refusal.is_some_and(|refusal| !refusal.is_specific() && !refusal.is_remedied)
}

/// Returns the refusal of a filter that has withheld an answer: the newest content is at fault.
fn refused_content() -> PartRefusal {
    PartRefusal { kind: Some(RefusedPartKind::Content), ..PartRefusal::default() }
}

/// Returns the request with notes in place of refused parts, and the number of notes.
pub(super) fn with_omissions(targeted: &TargetedRequest, body: Bytes) -> (Bytes, usize) {
    let known = targeted.proxied.inner.part_refusals.known();
    let now = Instant::now();
    let Some(text) = std::str::from_utf8(&body).ok().filter(|_| !known.is_empty()) else {
        return (body, 0);
    };
    let parts = RequestParts::of(text);
    let dialect = targeted.proxied.wire.dialect();
    parts.without(&body, dialect, |part| {
        let refusal = known.get(&part_key(targeted, &text.as_bytes()[part.at.clone()]));
        refusal.filter(|refusal| refusal.is_applied(now)).map(|refusal| refusal.note.clone())
    })
}

/// Replaces the known refused parts by notes, and adds their number to `left_out`.
fn replace_refused(targeted: &TargetedRequest, request: &mut ModelRequest, left_out: &mut usize) {
    let known = targeted.proxied.inner.part_refusals.known();
    if known.is_empty() {
        return;
    }
    let now = Instant::now();
    let note_of = |id: &str| {
        let refusal = known.get(&part_key(targeted, id.as_bytes()));
        refusal.filter(|refusal| refusal.is_applied(now)).map(|refusal| refusal.note.clone())
    };
    each_result(&mut request.messages, &mut |result| {
        if let Some(note) = note_of(&id_of_result(result)) {
            result.content = vec![Part::text(note)];
            *left_out += 1;
        }
    });
    each_media(&mut request.messages, &mut |part, hash, _| {
        if let Some(note) = note_of(hash) {
            *part = Part::text(note);
            *left_out += 1;
        }
    });
    let tools = request.tools.len();
    request.tools.retain(|tool| note_of(&id_of_tool(tool)).is_none());
    *left_out += tools - request.tools.len();
}

/// Returns the key under which a part of a request is remembered.
fn part_key(targeted: &TargetedRequest, content: &[u8]) -> PartKey {
    let mut hasher = blake3::Hasher::new_derive_key("longhaul 2026 gateway refused part");
    // Another model may take the part, so a refusal counts for one model only.
    for name in [&targeted.target.server.upstream.name, &targeted.target.model] {
        hasher.update(&(name.len() as u64).to_le_bytes());
        hasher.update(name.as_bytes());
    }
    *hasher.update(content).finalize().as_bytes()
}

/// Returns the suspects to leave out: the named one, otherwise those of the refusal's kind.
fn choose_suspects<'s>(
    refusal: &PartRefusal,
    suspects: &[&'s SuspectedPart],
    attempt: u32,
) -> Vec<&'s SuspectedPart> {
    let of_kind =
        |kind: RequestPartKind| suspects.iter().copied().filter(move |suspect| suspect.kind == kind);
    let proofs = || suspects.iter().copied().filter(|suspect| is_proof(suspect.kind));
    let media: Vec<&SuspectedPart> = suspects.iter().copied().filter(|suspect| suspect.is_media()).collect();
    let named: Vec<&SuspectedPart> = match &refusal.part {
        Some(RefusedPart::Media(number)) => media.get(*number).copied().into_iter().collect(),
        Some(RefusedPart::Tool(name)) => {
            of_kind(RequestPartKind::Tool).filter(|tool| tool.name == *name).collect()
        }
        Some(RefusedPart::ToolResult(call)) => {
            of_kind(RequestPartKind::ToolResult).rfind(|result| result.name == *call).into_iter().collect()
        }
        Some(RefusedPart::Reasoning(item)) => {
            proofs().filter(|part| part.json.contains(item.as_str())).collect()
        }
        _ => Vec::new(),
    };
    if !named.is_empty() {
        return named;
    }
    match refusal.kind {
        Some(RefusedPartKind::Reasoning) => proofs().collect(),
        Some(RefusedPartKind::Content) => {
            let results: Vec<&SuspectedPart> = of_kind(RequestPartKind::ToolResult).collect();
            filtered_results(results).into_iter().nth(attempt as usize).unwrap_or_default()
        }
        // Guesses are made elsewhere: see `next_guess`.
        None => Vec::new(),
        _ => choose_refused_media(refusal, attempt, media, |part| part.kind == RequestPartKind::Image),
    }
}

/// Returns the results to leave out after a content filter's refusal, in the order in which they are tried. `results` is in
/// the order of the request.
///
/// A filter mostly reacts to the newest results, so these come first: the newest alone, then all new ones. Older results
/// follow, because a filter may also react to one that it has let pass before. The user's own words are left for the user
/// to change.
fn filtered_results(results: Vec<&SuspectedPart>) -> Vec<Vec<&SuspectedPart>> {
    let (new, old): (Vec<&SuspectedPart>, Vec<&SuspectedPart>) =
        results.iter().copied().partition(|part| part.is_new);
    let Some(newest) = new.last().copied() else { return Vec::new() };
    let mut guesses = vec![vec![newest]];
    if new.len() > 1 {
        guesses.push(new);
    }
    if let Some(newest_old) = old.last().copied() {
        // The last attempt is kept for all results, because two bad ones hide each other from single guesses.
        if guesses.len() == 1 {
            guesses.push(vec![newest_old]);
        }
        guesses.push(results);
    }
    guesses
}

/// Returns the offset behind the model's newest item in a request's text. Later parts are new.
fn answered_until(request: &str) -> usize {
    let marks = ["\"assistant\"", "\"function_call\"", "\"custom_tool_call\""];
    marks.iter().filter_map(|mark| request.rfind(mark)).max().unwrap_or_default()
}

/// A part of a translated request with a possible refusal.
#[derive(Debug)]
pub(super) struct RefusablePart {
    id: String,
    kind: RequestPartKind,
    name: String,
    is_new: bool,
}

/// Returns the pictures, files, results and tools of a request.
pub(super) fn refusable_parts(request: &mut ModelRequest) -> Vec<RefusablePart> {
    let mut all = Vec::new();
    let newest = request.messages.iter().rposition(|message| message.role == Role::Assistant);
    for (at, message) in request.messages.iter_mut().enumerate() {
        let is_new = newest.is_none_or(|newest| at > newest);
        each_media(std::slice::from_mut(message), &mut |_, hash, is_image| {
            let kind = if is_image { RequestPartKind::Image } else { RequestPartKind::File };
            all.push(RefusablePart { id: hash.to_owned(), kind, name: String::new(), is_new });
        });
        each_result(std::slice::from_mut(message), &mut |result| {
            all.push(RefusablePart {
                id: id_of_result(result),
                kind: RequestPartKind::ToolResult,
                name: result.call_id.to_string(),
                is_new,
            });
        });
    }
    all.extend(request.tools.iter().map(|tool| RefusablePart {
        id: id_of_tool(tool),
        kind: RequestPartKind::Tool,
        name: tool.name.clone(),
        is_new: false,
    }));
    all
}

fn id_of_result(result: &ToolResult) -> String {
    let texts: String = result.content.iter().filter_map(Part::as_text).collect();
    // Two calls may return the same text, so the id is part of the name.
    format!("result {} {texts}", result.call_id)
}

fn id_of_tool(tool: &ToolSpec) -> String {
    format!("tool {} {}", tool.name, tool.parameters.as_str())
}

fn each_result(messages: &mut [Message], act: &mut dyn FnMut(&mut ToolResult)) {
    for part in messages.iter_mut().flat_map(|message| &mut message.parts) {
        if let Part::ToolResult(result) = part {
            act(result);
        }
    }
}

fn each_media(messages: &mut [Message], act: &mut dyn FnMut(&mut Part, &str, bool)) {
    fn visit(part: &mut Part, act: &mut dyn FnMut(&mut Part, &str, bool)) {
        let is_image = matches!(part, Part::Image(_));
        match part {
            Part::ToolResult(result) => result.content.iter_mut().for_each(|part| visit(part, act)),
            Part::Image(MediaPart { blob, .. }) | Part::File(MediaPart { blob, .. }) => {
                let hash = blob.hash.clone();
                act(part, &hash, is_image);
            }
            _ => {}
        }
    }
    messages.iter_mut().flat_map(|message| &mut message.parts).for_each(|part| visit(part, act));
}

/// Returns the message of an upstream's error, or its text if there is no message.
fn message_of(said: &str) -> String {
    let error = serde_json::from_str::<serde_json::Value>(said).ok();
    let message = error.as_ref().and_then(|value| {
        // OpenAI and Anthropic put the message under `error`. Other servers have it at the top.
        let error = value.get("error").unwrap_or(value);
        error.get("message").unwrap_or(error).as_str()
    });
    message.unwrap_or(said).to_owned()
}
