//! Requests that a server refuses because of one of their parts: the part leaves the view, and the step is made again.
//!
//! A part that the error names, or whose kind it names, stays left out. If the error names nothing, the likeliest parts
//! are tried in turn, and a part comes back if leaving it out did not help. The last attempt leaves out all suspects together,
//! because two parts that are both bad hide each other from single guesses.

use std::collections::BTreeSet;

use super::calling::{has_words, lost, says_something, step_failed};
use super::loop_state::{AppendContinuation, LoopState, RunPhase};
use super::session::SessionState;
use super::{ModelCallFailure, RunEffect};
use crate::attempt::{MAX_OMISSIONS, choose_refused_media, note_of_omission, one_line};
use crate::error::ErrorCode;
use crate::event::{ErrorInfo, EventBody, OmittedPart, RunEnd};
use crate::history::{LogEntry, LogEntryKind, ViewItemKind};
use crate::ids::{EditId, Seq, StepId};
use crate::message::{MediaPart, Message, Part, Role};
use crate::refusal::{PartRefusal, RefusedPart, RefusedPartKind};

/// The beginning of the names of MCP tools. Only their schemas come from other programs.
const FOREIGN_TOOLS: &str = "mcp__";

/// The end of the key of a signature in a provider's item: `thoughtSignature`, `thought_signature`, `signature`.
const SIGNATURE_KEY_END: &str = "ignature\":";

/// The most times that one step is made again in another form because a refusal has taught it.
///
/// Each form is learned once, so the limit only guards against errors in that.
const MAX_REMEDIES: u32 = 8;

/// One part of the view: the position of the message, and the part's number in the message.
type PartPosition = (Seq, usize);

/// The parts and tools to leave out.
#[derive(Debug, Default)]
struct OmissionCandidates {
    places: Vec<PartPosition>,
    tools: Vec<String>,
    /// `true` if a user's whole message is among the parts, so that nothing is left to answer.
    is_question: bool,
}

impl OmissionCandidates {
    fn of_places(places: Vec<PartPosition>) -> Self {
        Self { places, ..Self::default() }
    }

    fn of_tools(tools: impl IntoIterator<Item = String>) -> Self {
        Self { tools: tools.into_iter().collect(), ..Self::default() }
    }

    fn is_empty(&self) -> bool {
        self.places.is_empty() && self.tools.is_empty()
    }

    /// Returns whether `other` leaves out all of these parts and tools, too.
    fn is_within(&self, other: &Self) -> bool {
        let places: BTreeSet<&PartPosition> = other.places.iter().collect();
        self.places.iter().all(|place| places.contains(place))
            && self.tools.iter().all(|tool| other.tools.contains(tool))
    }
}

/// The search for the parts of the view that a server refuses.
struct RefusedPartSearch<'a> {
    session: &'a SessionState,
    /// The omission that was made on a guess and is not confirmed yet.
    guess: Option<&'a EditId>,
}

impl<'a> RefusedPartSearch<'a> {
    fn new(state: &'a LoopState) -> Self {
        Self { session: &state.session, guess: state.step.guess.as_ref() }
    }

    /// Returns the parts to leave out for a refusal. `attempt` counts earlier omissions of the step, from 0.
    fn suspects(&self, refusal: &PartRefusal, attempt: u32) -> OmissionCandidates {
        let named = refusal.part.as_ref().map(|part| self.named(part)).unwrap_or_default();
        if !named.is_empty() {
            return named;
        }
        match refusal.kind {
            Some(RefusedPartKind::Image) => {
                OmissionCandidates::of_places(self.suspected_media(true, refusal, attempt))
            }
            Some(RefusedPartKind::File) => {
                OmissionCandidates::of_places(self.suspected_media(false, refusal, attempt))
            }
            Some(RefusedPartKind::Reasoning) => {
                OmissionCandidates::of_places(self.suspected_reasoning(attempt))
            }
            Some(RefusedPartKind::Content) => self.suspected_content(attempt),
            Some(RefusedPartKind::ToolSchema) => self.foreign_tools(),
            None => self.guessed(attempt),
        }
    }

    /// Returns the part that an error names.
    fn named(&self, part: &RefusedPart) -> OmissionCandidates {
        match part {
            // The driver knows the order of pictures in its request and names a blob instead.
            RefusedPart::Media(_) => OmissionCandidates::default(),
            RefusedPart::Blob(hash) => OmissionCandidates::of_places(
                self.places(|part| media(part).is_some_and(|media| media.blob.hash == *hash)),
            ),
            RefusedPart::Reasoning(item) => OmissionCandidates::of_places(
                self.places(|part| is_signed(part) && native_of(part).contains(item)),
            ),
            RefusedPart::Tool(name) => OmissionCandidates::of_tools(
                self.offered_tools().filter(|tool| *tool == name).map(str::to_owned),
            ),
            RefusedPart::ToolResult(id) => {
                let asked = self.shown_entries().filter(|entry| entry.message.role == Role::Assistant);
                let calls: Vec<_> = asked
                    .flat_map(|entry| entry.message.tool_calls())
                    // A request carries the provider's id where the wire allows that, else ours.
                    .filter(|call| call.provider_id.as_ref() == Some(id) || call.call_id.as_str() == id)
                    .map(|call| call.call_id.clone())
                    .collect();
                let is_it = |entry: &&LogEntry| match entry.message.parts.as_slice() {
                    [Part::ToolResult(result)] => calls.contains(&result.call_id),
                    _ => false,
                };
                OmissionCandidates::of_places(
                    self.shown_entries().filter(is_it).last().map(whole).unwrap_or_default(),
                )
            }
            RefusedPart::Text(text) => {
                let is_in = |part: &Part| {
                    part.as_text().is_some_and(|own| !own.trim().is_empty() && text.contains(own))
                };
                // The error repeats a text in which several short messages may occur, so the longest match is meant.
                let longest = self.shown_entries().filter(|entry| entry.message.role != Role::Assistant);
                let longest = longest.filter_map(|entry| {
                    let length =
                        contents(&entry.message).iter().filter(|part| is_in(part)).filter_map(Part::as_text);
                    Some((length.map(str::len).max()?, entry))
                });
                longest
                    .max_by_key(|(length, _)| *length)
                    .map(|(_, entry)| self.message(entry))
                    .unwrap_or_default()
            }
        }
    }

    /// Returns a whole message as the part to leave out. The newest typed message is a question that nobody will
    /// answer.
    fn message(&self, entry: &LogEntry) -> OmissionCandidates {
        let newest = self.shown_entries().last().map(|newest| newest.seq);
        let is_question = entry.kind == LogEntryKind::Typed && newest == Some(entry.seq);
        OmissionCandidates { places: whole(entry), is_question, ..OmissionCandidates::default() }
    }

    /// Returns pictures or files to leave out: all beyond the maximum, or the newest one and later all.
    fn suspected_media(&self, images: bool, refusal: &PartRefusal, attempt: u32) -> Vec<PartPosition> {
        let found = self.places(|part| media(part).is_some_and(|media| is_image(part, media) == images));
        choose_refused_media(refusal, attempt, found, |_| images)
    }

    /// Returns reasoning and signatures to leave out: first those of other models, then all. Signatures are valid only
    /// for the model that made them.
    fn suspected_reasoning(&self, attempt: u32) -> Vec<PartPosition> {
        let model = &self.session.settings.model.origin;
        let all = self.places(is_signed);
        let is_foreign = |(seq, _): &PartPosition| {
            self.session.history.entry(*seq).is_some_and(|entry| entry.message.origin.as_ref() != Some(model))
        };
        let foreign: Vec<PartPosition> = all.iter().copied().filter(is_foreign).collect();
        if attempt == 0 && !foreign.is_empty() { foreign } else { all }
    }

    /// Returns the content since the model's newest answer: the newest result, then all results, then older results.
    /// Without results it is the pictures and files of the typed message, and then the message.
    fn suspected_content(&self, attempt: u32) -> OmissionCandidates {
        let shown: Vec<&LogEntry> = self.shown_entries().collect();
        let since =
            shown.iter().rposition(|entry| entry.message.role == Role::Assistant).map_or(0, |at| at + 1);
        let new = &shown[since..];
        if new.iter().any(|entry| matches!(entry.kind, LogEntryKind::Result { .. })) {
            // The message before the results was accepted once, so it is not suspected.
            let is_new = |entry: &&LogEntry| new.iter().any(|known| known.seq == entry.seq);
            let mut results: Vec<&LogEntry> = self.results().filter(is_new).collect();
            // A filter may also react to a result that it has let pass before. The newest are left out already then.
            let is_about_older = results.is_empty();
            if is_about_older {
                results = self.results().collect();
            }
            let takes_one = if is_about_older { attempt + 1 < MAX_OMISSIONS } else { attempt == 0 };
            if takes_one && results.len() > 1 {
                results.drain(..results.len() - 1);
            }
            return OmissionCandidates::of_places(results.into_iter().flat_map(whole).collect());
        }
        let Some(newest) = new.iter().rev().find(|entry| entry.kind == LogEntryKind::Typed) else {
            return OmissionCandidates::default();
        };
        let places = whole(newest);
        let (pictures, words): (Vec<PartPosition>, Vec<PartPosition>) =
            places.into_iter().partition(|(_, part)| media_of(newest, *part).is_some());
        let pictures: Vec<PartPosition> = pictures.into_iter().filter(|place| self.is_free(*place)).collect();
        // A question without its pictures is still one that the model may answer.
        match attempt == 0 && !pictures.is_empty() && !words.is_empty() {
            true => OmissionCandidates::of_places(pictures),
            false => self.message(newest),
        }
    }

    /// Returns the results, pictures and files that no answer of the model has followed, and that are not left out yet.
    fn unanswered(&self) -> OmissionCandidates {
        // What an answer has followed was accepted, at least once.
        let newest_answer = |entry: &LogEntry| entry.message.role == Role::Assistant;
        let since = self.shown_entries().filter(|entry| newest_answer(entry)).last().map(|entry| entry.seq);
        let is_new = |entry: &&LogEntry| since.is_none_or(|since| entry.seq > since);
        let is_suspect = |entry: &LogEntry, part: &Part| {
            matches!(entry.kind, LogEntryKind::Result { .. }) || media(part).is_some()
        };
        let mut places = Vec::new();
        for entry in self.shown_entries().filter(is_new) {
            let parts = contents(&entry.message).iter().enumerate();
            let suspects =
                parts.filter(|(at, part)| is_suspect(entry, part) && self.is_free((entry.seq, *at)));
            places.extend(suspects.map(|(at, _)| (entry.seq, at)));
        }
        OmissionCandidates::of_places(places)
    }

    /// Returns the tools whose schemas come from other programs.
    fn foreign_tools(&self) -> OmissionCandidates {
        OmissionCandidates::of_tools(
            self.offered_tools().filter(|name| name.starts_with(FOREIGN_TOOLS)).map(str::to_owned),
        )
    }

    /// Returns the parts that attempt `attempt` of a step leaves out where an error names nothing. See
    /// [`guesses`](Self::guesses).
    fn guessed(&self, attempt: u32) -> OmissionCandidates {
        self.guesses().into_iter().nth(attempt as usize).unwrap_or_default()
    }

    /// Returns the guesses of a step in the order in which they are tried, [`MAX_OMISSIONS`] at most.
    ///
    /// Single suspects come first, because they lose the least. Then all suspects since the newest answer go together,
    /// and at last all suspects of the view.
    fn guesses(&self) -> Vec<OmissionCandidates> {
        // The last attempt is kept for suspects that are bad together.
        let mut guesses: Vec<_> =
            self.single_guesses().into_iter().take(MAX_OMISSIONS as usize - 1).collect();
        for combined in [self.unanswered(), self.all_suspects()] {
            // A guess within an earlier one has failed with it.
            if !guesses.iter().any(|guess| combined.is_within(guess)) {
                guesses.push(combined);
            }
        }
        guesses.truncate(MAX_OMISSIONS as usize);
        guesses
    }

    /// Returns the likeliest single suspects: the newest picture or file, then all pictures and files with all
    /// reasoning, then the newest tool result, then foreign schemas.
    fn single_guesses(&self) -> Vec<OmissionCandidates> {
        let media_places = self.places(|part| media(part).is_some());
        let newest = media_places.last().copied().into_iter().collect::<Vec<_>>();
        let mut foreign = media_places;
        foreign.extend(self.suspected_reasoning(1));
        let result = self.results().last().map(whole).unwrap_or_default();
        let mut guesses: Vec<OmissionCandidates> = Vec::new();
        // With one picture and no reasoning both guesses are the same.
        if newest != foreign {
            guesses.push(OmissionCandidates::of_places(newest));
        }
        guesses.extend([
            OmissionCandidates::of_places(foreign),
            OmissionCandidates::of_places(result),
            self.foreign_tools(),
        ]);
        guesses.retain(|guess| !guess.is_empty());
        guesses
    }

    /// Returns all suspects of the view: pictures, files, reasoning, tool results, and foreign schemas.
    fn all_suspects(&self) -> OmissionCandidates {
        let mut places = self.places(|part| media(part).is_some());
        places.extend(self.suspected_reasoning(1));
        places.extend(self.results().flat_map(whole).filter(|place| self.is_free(*place)));
        places.sort_unstable();
        places.dedup();
        OmissionCandidates { places, ..self.foreign_tools() }
    }

    /// Returns the tool results that the view shows and that are not left out yet, oldest first.
    fn results(&self) -> impl Iterator<Item = &LogEntry> {
        let results = self.shown_entries().filter(|entry| matches!(entry.kind, LogEntryKind::Result { .. }));
        results.filter(|entry| whole(entry).into_iter().any(|place| self.is_free(place)))
    }

    /// Returns whether a part is not left out yet. A part that is left out on the present guess counts as free, because
    /// the guess is taken back.
    fn is_free(&self, (seq, part): PartPosition) -> bool {
        !self.session.history.is_omitted(seq, part, self.guess)
    }

    /// Returns the names of the tools that the request offers. Tools that are left out on the present guess count,
    /// because the guess is taken back.
    fn offered_tools(&self) -> impl Iterator<Item = &str> {
        let omissions = self.session.history.omissions().iter();
        let kept = omissions.filter(|omission| omission.active && Some(&omission.id) != self.guess);
        let left_out: BTreeSet<&str> = kept
            .flat_map(|omission| &omission.parts)
            .filter_map(|part| match part {
                OmittedPart::Tool { name } => Some(name.as_str()),
                OmittedPart::Part { .. } => None,
            })
            .collect();
        let offered = self.session.settings.tools.keys().map(String::as_str);
        offered.filter(move |name| self.session.settings.model.tools && !left_out.contains(name))
    }

    /// Returns the messages that the view shows unchanged, in the order of the log.
    fn shown_entries(&self) -> impl Iterator<Item = &LogEntry> {
        let mut seqs = BTreeSet::new();
        for item in self.session.history.view() {
            match item.kind {
                ViewItemKind::Typed | ViewItemKind::Note | ViewItemKind::Result { cleared: None, .. } => {
                    seqs.insert(item.range.to);
                }
                ViewItemKind::Assistant => {
                    // A paused answer is one item of the view and several entries of the log.
                    let pieces =
                        self.session.history.entries().iter().filter(|entry| entry.begins == item.range.from);
                    seqs.extend(pieces.map(|piece| piece.seq));
                }
                ViewItemKind::Result { .. } | ViewItemKind::Summary(_) | ViewItemKind::Removed(_) => {}
            }
        }
        seqs.into_iter().filter_map(|seq| self.session.history.entry(seq))
    }

    /// Returns the parts of the shown messages that pass a test and are not left out yet.
    fn places(&self, is_it: impl Fn(&Part) -> bool) -> Vec<PartPosition> {
        let mut found = Vec::new();
        for entry in self.shown_entries() {
            let parts = contents(&entry.message).iter().enumerate();
            let free = parts.filter(|(at, part)| is_it(part) && self.is_free((entry.seq, *at)));
            found.extend(free.map(|(at, _)| (entry.seq, at)));
        }
        found
    }
}

/// Returns whether there is something to leave out after a refusal, and the step may still be made again without it.
pub(super) fn has_suspects(state: &LoopState, refusal: &PartRefusal) -> bool {
    let attempt = state.step.omissions;
    attempt < MAX_OMISSIONS && !RefusedPartSearch::new(state).suspects(refusal, attempt).is_empty()
}

/// Handles a request that would be refused again: leaves out the part to blame, and makes the step again. Returns
/// whether such a part was found.
pub(super) fn leave_out(
    state: &mut LoopState,
    step: &StepId,
    failure: &ModelCallFailure,
    partial: &[Part],
    out: &mut Vec<RunEffect>,
) -> bool {
    let Some(refusal) = failure.refusal.as_deref() else { return false };
    let is_mere_guess = !refusal.is_specific() && !refusal.is_remedied;
    // A server that has begun to answer has taken the parts. An unnamed refusal of a paused answer more likely
    // means that the server does not continue answers.
    let is_spent = match refusal.is_remedied {
        true => state.step.remedies >= MAX_REMEDIES,
        false => state.step.omissions >= MAX_OMISSIONS,
    };
    // A filter withholds an answer after the model has thought.
    let has_begun = match failure.code {
        ErrorCode::Refused => has_words(partial),
        _ => says_something(partial),
    };
    if is_spent || has_begun || is_mere_guess && state.session.history.is_paused() {
        return false;
    }
    let attempt = state.step.omissions;
    let suspects = match refusal.is_remedied {
        true => OmissionCandidates::default(),
        false => RefusedPartSearch::new(state).suspects(refusal, attempt),
    };
    if suspects.is_empty() && !refusal.is_remedied {
        return false;
    }
    match refusal.is_remedied {
        true => state.step.remedies += 1,
        false => state.step.omissions += 1,
    }
    let mut events = lost(&state.session, step, partial.to_vec());
    events.push(step_failed(step, failure));
    events.extend(state.step.take_back_guess());
    let mut then = AppendContinuation::Boundary;
    if !suspects.is_empty() {
        let edit_id = EditId::new(format!("o{}", state.session.next_seq()));
        if suspects.is_question {
            let message = format!(
                "{}. The message was left out of the conversation, which goes on without it (undo `{edit_id}` puts it \
                 back)",
                failure.message.trim_end_matches('.')
            );
            let error = Some(ErrorInfo { code: failure.code, message });
            then = AppendContinuation::Finish { end: RunEnd::Error, error };
        } else if is_mere_guess {
            state.step.guess = Some(edit_id.clone());
        }
        let parts = omitted_parts(&state.session, &suspects, &failure.message);
        events.push(EventBody::PartsOmitted { edit_id, parts, reason: failure.message.clone() });
    }
    state.phase = RunPhase::Storing;
    state.append_with(events, Vec::new(), vec![step.clone()], then, out);
    true
}

/// Returns the omission of everything that may be the reason why the server refused the newest run's request; `None` if
/// the run did not end so, or there is nothing to suspect.
///
/// A person who asks for a compaction then wants the session to go on. A compaction alone would keep the newest results,
/// and its summary would be asked for with the refused part.
pub(super) fn omission_after_refusal(state: &LoopState) -> Option<EventBody> {
    let history = &state.session.history;
    let error = history.last_error()?;
    if !matches!(error.code, ErrorCode::InvalidRequest | ErrorCode::Refused) {
        return None;
    }
    let suspects = RefusedPartSearch::new(state).unanswered();
    let parts = omitted_parts(&state.session, &suspects, &error.message);
    let edit_id = EditId::new(format!("o{}", state.session.next_seq()));
    (!parts.is_empty()).then(|| EventBody::PartsOmitted { edit_id, parts, reason: error.message.clone() })
}

/// Returns the omitted parts with their notes. `said` is the server's error message.
fn omitted_parts(session: &SessionState, suspects: &OmissionCandidates, said: &str) -> Vec<OmittedPart> {
    let mut noted = BTreeSet::new();
    let mut parts = Vec::new();
    for (seq, part) in &suspects.places {
        let Some(entry) = session.history.entry(*seq) else { continue };
        let what = described(entry, *part);
        // A message that is left out as a whole gets one note.
        let is_told = media_of(entry, *part).is_none() && !noted.insert(*seq);
        let note = match is_told {
            true => String::new(),
            false => note_of_omission(&what, said),
        };
        parts.push(OmittedPart::Part { seq: *seq, part: *part, note });
    }
    parts.extend(suspects.tools.iter().map(|name| OmittedPart::Tool { name: name.clone() }));
    parts
}

/// Returns the parts of a message, or of the content of a tool result.
fn contents(message: &Message) -> &[Part] {
    match message.parts.as_slice() {
        [Part::ToolResult(result)] => &result.content,
        parts => parts,
    }
}

/// Returns the places of all parts of a message.
fn whole(entry: &LogEntry) -> Vec<PartPosition> {
    (0..contents(&entry.message).len()).map(|part| (entry.seq, part)).collect()
}

fn media(part: &Part) -> Option<&MediaPart> {
    match part {
        Part::Image(media) | Part::File(media) => Some(media),
        _ => None,
    }
}

fn media_of(entry: &LogEntry, part: usize) -> Option<&MediaPart> {
    contents(&entry.message).get(part).and_then(media)
}

fn is_image(part: &Part, media: &MediaPart) -> bool {
    matches!(part, Part::Image(_)) || media.kind().starts_with("image/")
}

/// Returns the provider's own item of a part of an answer; an empty text if the part has none.
fn native_of(part: &Part) -> &str {
    let native = match part {
        Part::Reasoning(reasoning) => reasoning.native.as_ref(),
        Part::Text(text) => text.native.as_ref(),
        Part::ToolCall(call) => call.native.as_ref(),
        Part::Opaque(opaque) => Some(&opaque.native),
        Part::ToolResult(_) | Part::Image(_) | Part::File(_) => None,
    };
    native.map_or("", |native| native.as_str())
}

/// Returns whether the provider's item of a part holds a proof that the provider checks. Gemini signs calls and texts
/// too, and not reasoning alone.
fn is_signed(part: &Part) -> bool {
    match part {
        Part::Reasoning(reasoning) => reasoning.native.is_some(),
        part => native_of(part).contains(SIGNATURE_KEY_END),
    }
}

/// Returns a part in the words of a note.
fn described(entry: &LogEntry, part: usize) -> String {
    if let Some(media) = media_of(entry, part) {
        let kind = one_line(&media.kind());
        return match media.name.as_deref().map(one_line).filter(|name| !name.is_empty()) {
            Some(name) => format!("{name} ({kind})"),
            None if kind.starts_with("image/") => format!("a picture ({kind})"),
            None => format!("a file ({kind})"),
        };
    }
    match &entry.kind {
        LogEntryKind::Result { .. } => "the output of this tool".to_owned(),
        LogEntryKind::Assistant(_) => match entry.message.parts.get(part) {
            Some(Part::Text(_) | Part::ToolCall(_)) => "a signature".to_owned(),
            _ => "reasoning".to_owned(),
        },
        LogEntryKind::Typed | LogEntryKind::Note => "this message".to_owned(),
    }
}
