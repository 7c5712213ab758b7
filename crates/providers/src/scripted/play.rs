//! Playback of an answer within a room, as events in the order of a real stream.

use std::time::Duration;

use futures_util::stream;
use longhaul_core::message::{ModelAnswer, ModelStopReason, Part, ReasoningPart, ToolCall};
use longhaul_core::usage::Usage;

use super::log::ScriptedCallEntry;
use super::{CallIndex, ScriptedAnswer, ScriptedFault, ScriptedPart, ScriptedTokenCounter, ScriptedUsage};
use crate::{ModelEvent, ModelStream, ProviderError};

/// The events of a call, and the end of the stream.
#[derive(Debug)]
pub(super) struct ScriptedPlayback {
    pub(super) events: Vec<ModelEvent>,
    pub(super) end: PlaybackEnd,
    pace: Duration,
    output_tokens: u64,
}

/// The end of a playback, after the events.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum PlaybackEnd {
    /// The stream is over: the last event was [`ModelEvent::Finished`].
    Over,
    /// The stream fails with the error.
    Fail(Box<ProviderError>),
    /// The stream delivers nothing more and does not end.
    Stall,
}

impl ScriptedPlayback {
    /// Plays `answer` to a request of `input` tokens, writing at most `room` tokens.
    pub(super) fn compose(
        answer: ScriptedAnswer,
        count: &ScriptedTokenCounter,
        input: u64,
        room: u64,
        turn: CallIndex,
    ) -> Self {
        let mut writer = ScriptedAnswerWriter::new(count, room, turn, answer.fault.as_ref());
        if answer.fault != Some(ScriptedFault::Empty) {
            answer.say.into_iter().for_each(|say| writer.say(say));
        }
        // The rounding of the bias may give one token more than the room.
        let output_tokens = count.scale(writer.used).min(room);
        let usage = report(answer.usage, &writer, input, output_tokens);
        let finish = writer.finish(answer.finish);
        let ScriptedAnswerWriter { mut events, parts, .. } = writer;
        events.extend(usage.clone().map(ModelEvent::Usage));
        events.push(ModelEvent::Finished(ModelAnswer { parts, finish, usage, envelope: None }));
        let end = cut_at_fault(&mut events, answer.fault.as_ref());
        Self { events, end, pace: answer.pace, output_tokens }
    }

    /// Sends the events, and records the outcome in `entry`.
    pub(super) fn stream(self, mut entry: ScriptedCallEntry) -> ModelStream {
        // The planned number is recorded first, because a caller may drop the stream at any event.
        entry.writes(self.output_tokens);
        let state = PlaybackStream { events: self.events.into_iter(), end: self.end, pace: self.pace, entry };
        Box::pin(stream::unfold(state, PlaybackStream::next))
    }
}

struct PlaybackStream {
    events: std::vec::IntoIter<ModelEvent>,
    end: PlaybackEnd,
    pace: Duration,
    entry: ScriptedCallEntry,
}

impl PlaybackStream {
    async fn next(mut self) -> Option<(Result<ModelEvent, ProviderError>, Self)> {
        if !self.pace.is_zero() {
            tokio::time::sleep(self.pace).await;
        }
        if let Some(event) = self.events.next() {
            // Recorded before the event is delivered: a caller may drop the stream right after the closing event.
            if matches!(event, ModelEvent::Finished(_)) {
                self.entry.finished();
            }
            return Some((Ok(event), self));
        }
        // The error is delivered once. Afterwards the stream is over.
        match std::mem::replace(&mut self.end, PlaybackEnd::Over) {
            PlaybackEnd::Over => None,
            PlaybackEnd::Fail(error) => {
                self.entry.failed(error.code);
                Some((Err(*error), self))
            }
            // The future owns the log entry meanwhile. A caller that gives up drops both, and the log shows it.
            PlaybackEnd::Stall => std::future::pending().await,
        }
    }
}

fn report(
    wanted: ScriptedUsage,
    writer: &ScriptedAnswerWriter<'_>,
    input_tokens: u64,
    output_tokens: u64,
) -> Option<Usage> {
    match wanted {
        ScriptedUsage::Missing => None,
        ScriptedUsage::Exactly(usage) => Some(usage),
        ScriptedUsage::Counted => {
            let reasoning_tokens = writer.count.scale(writer.reasoned).min(output_tokens);
            Some(Usage { input_tokens, output_tokens, reasoning_tokens, ..Usage::default() })
        }
    }
}

/// Cuts the events where the fault strikes, always before the closing event.
fn cut_at_fault(events: &mut Vec<ModelEvent>, fault: Option<&ScriptedFault>) -> PlaybackEnd {
    let (after, error) = match fault {
        Some(ScriptedFault::Stall { after }) => (*after, None),
        Some(fault) => match fault.in_stream() {
            Some((after, error)) => (after, Some(error)),
            None => return PlaybackEnd::Over,
        },
        None => return PlaybackEnd::Over,
    };
    // A fault behind the closing event could not be told from success.
    events.truncate(after.min(events.len().saturating_sub(1)));
    // A real decoder, too, puts the usage so far into the error of a broken stream.
    let told = events.iter().rev().find_map(|event| match event {
        ModelEvent::Usage(usage) => Some(usage.clone()),
        _ => None,
    });
    error.map_or(PlaybackEnd::Stall, |error| {
        PlaybackEnd::Fail(Box::new(ProviderError { usage: told, ..error }))
    })
}

/// A writer of an answer within a budget.
struct ScriptedAnswerWriter<'a> {
    count: &'a ScriptedTokenCounter,
    /// The number of allowed tokens, before the bias.
    room: u64,
    /// The number of tokens written, before the bias.
    used: u64,
    /// The number of written reasoning tokens.
    reasoned: u64,
    /// `true` once the room ran out.
    cut: bool,
    cut_arguments: bool,
    turn: CallIndex,
    calls: usize,
    events: Vec<ModelEvent>,
    parts: Vec<Part>,
}

impl<'a> ScriptedAnswerWriter<'a> {
    fn new(
        count: &'a ScriptedTokenCounter,
        room: u64,
        turn: CallIndex,
        fault: Option<&ScriptedFault>,
    ) -> Self {
        let room = match fault {
            Some(ScriptedFault::Length { tokens }) => room.min(*tokens),
            _ => room,
        };
        Self {
            count,
            room: count.unscale(room),
            used: 0,
            reasoned: 0,
            cut: false,
            cut_arguments: fault == Some(&ScriptedFault::CutArguments),
            turn,
            calls: 0,
            events: Vec::new(),
            parts: Vec::new(),
        }
    }

    fn say(&mut self, say: ScriptedPart) {
        if self.cut {
            return;
        }
        match say {
            ScriptedPart::Text(text) => {
                let text = self.write(&text, ModelEvent::Text);
                self.done(Part::text(text));
            }
            ScriptedPart::Reasoning(text) => {
                let before = self.used;
                let text = self.write(&text, ModelEvent::Reasoning);
                self.reasoned += self.used - before;
                self.done(Part::Reasoning(ReasoningPart { text, native: None }));
            }
            ScriptedPart::Call { name, arguments, id } => self.call(name, &arguments, id),
            ScriptedPart::Part(part) => self.whole(part),
        }
    }

    /// Writes as much of `text` as fits and returns the written part.
    fn write(&mut self, text: &str, event: impl Fn(String) -> ModelEvent) -> String {
        let pieces = pieces(text);
        let fits = self.fitting(text, &pieces);
        // Like a real model, the script writes whole pieces only, so the last one is left out if it does not fit.
        self.cut = fits < pieces.len();
        self.events.extend(pieces[..fits].iter().map(|piece| event((*piece).to_owned())));
        let written: String = pieces[..fits].concat();
        self.used += self.count.text(&written);
        written
    }

    /// Returns the number of pieces for the remaining room.
    fn fitting(&self, text: &str, pieces: &[&str]) -> usize {
        let left = self.room.saturating_sub(self.used);
        if self.count.text(text) <= left {
            return pieces.len();
        }
        let lengths: Vec<usize> = (0..=pieces.len()).collect();
        // A longer prefix never has fewer tokens, so the search can bisect.
        let fitting = lengths.partition_point(|n| self.count.text(&pieces[..*n].concat()) <= left);
        // The lengths begin with the empty prefix, which always fits.
        fitting.saturating_sub(1)
    }

    fn call(&mut self, name: String, arguments: &str, id: Option<String>) {
        let cost = self.count.text(&name);
        if self.used.saturating_add(cost) > self.room {
            self.cut = true;
            return;
        }
        self.used += cost;
        let index = self.calls;
        self.calls += 1;
        self.events.push(ModelEvent::ToolInput { index, name: Some(name.clone()), delta: String::new() });
        let half = if self.cut_arguments { half(arguments) } else { arguments };
        let written = self.write(half, |delta| ModelEvent::ToolInput { index, name: None, delta });
        self.cut |= self.cut_arguments;
        let id = id.unwrap_or_else(|| format!("call_{}_{index}", self.turn));
        let call = ToolCall {
            call_id: id.as_str().into(),
            name,
            arguments: written,
            provider_id: Some(id),
            native: None,
        };
        // A call whose arguments were cut gets no `PartDone`, as in a real stream.
        if self.cut { self.parts.push(Part::ToolCall(call)) } else { self.done(Part::ToolCall(call)) }
    }

    fn whole(&mut self, part: Part) {
        let cost = self.count.part(&part);
        self.cut = self.used.saturating_add(cost) > self.room;
        if !self.cut {
            self.used += cost;
            self.calls += usize::from(matches!(part, Part::ToolCall(_)));
            self.done(part);
        }
    }

    fn done(&mut self, part: Part) {
        // A part without text may still carry a signature in `native`.
        let empty = match &part {
            Part::Text(text) => text.text.is_empty() && text.native.is_none(),
            Part::Reasoning(reasoning) => reasoning.text.is_empty() && reasoning.native.is_none(),
            _ => false,
        };
        if !empty {
            self.parts.push(part.clone());
            self.events.push(ModelEvent::PartDone(part));
        }
    }

    fn finish(&self, wanted: Option<ModelStopReason>) -> ModelStopReason {
        // The cut wins over the script, as the limit of a real server wins over its model.
        let natural = if self.calls > 0 { ModelStopReason::ToolCalls } else { ModelStopReason::Stop };
        if self.cut { ModelStopReason::Length } else { wanted.unwrap_or(natural) }
    }
}

/// Splits a text into words with their leading blanks, long words into pieces of 8 characters.
fn pieces(text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut start = 0;
    let mut length = 0;
    let mut in_word = false;
    for (at, char) in text.char_indices() {
        let begins = char.is_whitespace() && in_word;
        if begins || length == 8 {
            pieces.push(&text[start..at]);
            (start, length) = (at, 0);
        }
        in_word = !char.is_whitespace();
        length += 1;
    }
    if start < text.len() {
        pieces.push(&text[start..]);
    }
    pieces
}

/// Returns the first half of the characters.
fn half(text: &str) -> &str {
    let end = text.char_indices().nth(text.chars().count() / 2).map_or(0, |(at, _)| at);
    &text[..end]
}
