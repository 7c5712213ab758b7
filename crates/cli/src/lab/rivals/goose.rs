//! goose.

use std::borrow::Cow;

use longhaul_core::message::Role;

use super::thread::{RivalView, RivalViewItem};
use super::{RivalContext, lines, request};
use crate::lab::policy::{ContextPolicy, PolicyEdit, PolicyInput, PolicyRequest, SideCall};
use crate::lab::recording::{RecordedMessage, SessionRecording};
use crate::lab::summary::recorded_summary;

const TRIGGER_SHARE: f64 = 0.8;
/// The tokens of a compaction's prompt, which takes the place of the system prompt.
const ORDER_TOKENS: u64 = 700;
/// The maximum number of compactions in a row after refused requests.
const RECOVERIES: u32 = 2;
/// The shares of tool results left out after each refusal of a compaction's prompt, in percent.
const REMOVED_PERCENT: [usize; 5] = [0, 10, 20, 50, 100];
/// The number of the oldest calls described at a time.
const BATCH: usize = 10;
/// The tokens of the order to describe a call, with the resulting sentence.
const DESCRIBE_ORDER_TOKENS: u64 = 130;
const DESCRIPTION_CHARS: usize = 120;
/// The maximum characters of a result. Longer ones go into a file.
const OUTPUT_CHARS: usize = 200_000;
/// The message after a summary, with as many tokens as goose's own.
const IN_CHAT: &str = "The message before this one sums up an earlier part of the session, which is gone \
    because it no longer fits. You remember nothing else of it. Rely on the summary; if the user asks for \
    something that is not in it, say so and ask instead of guessing. Go on with the session.";
const IN_TOOL_LOOP: &str = "The message before this one sums up an earlier part of the session; its messages \
    and tool outputs are gone because they no longer fit. You remember nothing else of them. Rely on the \
    summary; if you need a result that is not in it, run the tool again instead of guessing. Go on calling \
    tools until the task is done.";

/// goose: checks the meter when a person writes, summarises everything, and repeats the newest prompt. Between
/// prompts it describes old calls in a sentence each and waits for refusals.
///
/// In small windows one run grows past the window before anybody writes again; then it lives on refusals.
#[derive(Default)]
pub(crate) struct GoosePolicy {
    thread: RivalView,
    /// Calls under description while the model works: entries of their messages.
    described: Vec<usize>,
}

impl GoosePolicy {
    /// Compacts the whole view into a summary. Results from the middle are left out until its prompt fits.
    fn compact(&mut self, moment: &RivalContext<'_>, why: &str) -> Option<(SideCall, PolicyEdit)> {
        let before = moment.total(&self.thread);
        let counter = &moment.recording.counter;
        let items = &self.thread.items;
        let newest = items.iter().rev().find(|item| item.is_user());
        let prompt = newest.cloned();
        // The note differs: in a chat a person can be asked, in a loop of tools no person is there.
        let is_last = items.last().is_some_and(RivalViewItem::is_user);
        let texts = REMOVED_PERCENT
            .iter()
            .map(|percent| without_results(moment.texts(items), *percent))
            .find(|texts| {
                texts.iter().map(|text| text.tokens).sum::<u64>() + ORDER_TOKENS <= moment.budget().usable
            })?;
        let summary = moment.summarise(&texts, ORDER_TOKENS, None);
        let note = if is_last { IN_CHAT } else { IN_TOOL_LOOP };
        self.thread.items = vec![
            RivalViewItem::summary(summary.recorded, Role::User, counter, str::to_owned),
            RivalViewItem::note(note, Role::Assistant, counter),
        ];
        self.thread.items.extend(prompt);
        Some((summary.call, moment.compaction(before, &self.thread, why.to_owned())?))
    }

    /// Returns the next calls for description, the oldest, if enough: messages of the model with
    /// their results.
    fn oldest_calls(&self, moment: &RivalContext<'_>) -> Vec<usize> {
        let recording = moment.recording;
        let turn = self.thread.items.iter().rposition(RivalViewItem::is_user).unwrap_or(0);
        let (old, current) = self.thread.items.split_at(turn);
        let eligible: usize = old.iter().map(|item| item.calls(recording)).sum();
        if current.is_empty() || eligible <= cutoff(moment.budget().window) + BATCH {
            return Vec::new();
        }
        let mut count = 0;
        let mut oldest = Vec::new();
        for item in old.iter().filter(|item| item.calls(recording) > 0) {
            if count >= BATCH {
                break;
            }
            count += item.calls(recording);
            oldest.extend(item.entry());
        }
        oldest
    }

    /// Replaces each newly described call by a sentence.
    fn describe(&mut self, moment: &RivalContext<'_>) -> Option<PolicyEdit> {
        let described = std::mem::take(&mut self.described);
        let before = moment.total(&self.thread);
        for entry in &described {
            // A compaction may have removed the call since its description was requested.
            let Some(at) = self.thread.items.iter().position(|item| item.entry() == Some(*entry)) else {
                continue;
            };
            let after = &self.thread.items[at + 1..];
            let results = after.iter().take_while(|item| item.role == Role::Tool).count();
            let text = description(&moment.recording.entries[*entry]);
            let counter = &moment.recording.counter;
            let sentence = recorded_summary(&text, Role::User, counter);
            let item = RivalViewItem::summary(sentence, Role::User, counter, str::to_owned);
            self.thread.replace(at..at + 1 + results, vec![item]);
        }
        let why = format!("{} old calls described in a sentence each", described.len());
        moment.clearing(before, &self.thread, why).filter(|_| !described.is_empty())
    }

    /// Returns one call for each pair. The agent does not wait for them.
    fn description_calls(&self, moment: &RivalContext<'_>) -> Vec<SideCall> {
        let counter = &moment.recording.counter;
        let calls = self.described.iter().filter_map(|entry| {
            let at = self.thread.items.iter().position(|item| item.entry() == Some(*entry))?;
            let results = self.thread.items[at + 1..].iter().take_while(|item| item.role == Role::Tool);
            let tokens: u64 = results.map(|item| item.segment.tokens).sum();
            let calls = self.thread.items[at].calls(moment.recording) as u64;
            Some(SideCall {
                cached_tokens: 0,
                fresh_tokens: self.thread.items[at].segment.tokens + tokens + DESCRIBE_ORDER_TOKENS * calls,
                output_tokens: counter.text(&description(&moment.recording.entries[*entry])),
                waits: false,
            })
        });
        calls.collect()
    }
}

impl ContextPolicy for GoosePolicy {
    fn name(&self) -> &'static str {
        "goose"
    }

    fn sources(&self) -> Vec<String> {
        lines(&[
            "trigger = session total (last reported input + output) > 0.8 × window, when a person's message \
             comes in — aaif-goose/goose crates/goose/src/context_mgmt/mod.rs 006bd233, \
             DEFAULT_COMPACTION_THRESHOLD, check_if_compaction_needed; only between turns: \
             aaif-goose/goose#11072",
            "reaction to a refusal = the same compaction, at most 2 in a row — crates/goose/src/agents/agent.rs",
            "kept = nothing but the newest user message, said again after the summary and a note of the \
             assistant — context_mgmt/mod.rs 006bd233, compact_messages",
            "summary request = conversation as text in a system prompt of its own (about 700 tokens), nothing \
             cached, the agent waits; while it is refused 10, 20, 50, 100 % of the tool results go, from the \
             middle — same file, do_compact; its faster model is charged as the same model",
            "summary limit = none; the stand-in's typical length",
            "pairs = when more than (3 × 0.8 × window / 20,000, within 10 and 500) + 10 calls are older than \
             the current turn, the 10 oldest are described in a sentence each while the model works; charged \
             as one call for each message with calls, whole messages only — same file, \
             compute_tool_call_cutoff, TOOLCALL_SUMMARIZATION_BATCH_SIZE, tool_ids_to_summarize",
            "results over 200,000 characters go into a file — crates/goose/src/agents/large_response_handler.rs",
        ])
    }

    fn request(&mut self, recording: &SessionRecording, next: usize, now: &PolicyInput) -> PolicyRequest {
        let moment = RivalContext::new(recording, next, now);
        self.thread.take(recording, next, shorten);
        // The descriptions that were requested with the last request are finished by now.
        let mut edit = self.describe(&moment);
        let mut calls = Vec::new();
        let is_full = moment.reported() as f64 > moment.budget().window as f64 * TRIGGER_SHARE;
        // goose looks at the meter only when a person writes.
        if moment.turn_begins()
            && is_full
            && let Some((call, compaction)) = self.compact(&moment, "over 0.8 of the window")
        {
            calls.push(call);
            edit = Some(compaction);
        }
        for _ in 0..RECOVERIES {
            if !moment.is_refused(&self.thread) {
                break;
            }
            let Some((call, compaction)) = self.compact(&moment, "the request was refused") else { break };
            calls.push(call);
            edit = Some(compaction);
        }
        // Chosen after the compactions, so that no description is paid for a removed call.
        self.described = self.oldest_calls(&moment);
        calls.extend(self.description_calls(&moment));
        request(&self.thread, calls, edit)
    }
}

/// Returns the number of unchanged calls before the current turn.
fn cutoff(window: u64) -> usize {
    (3 * (window as f64 * TRIGGER_SHARE) as usize / 20_000).clamp(10, 500)
}

/// Returns an honest sentence about a message with calls: the tools and the start of their arguments.
fn description(entry: &RecordedMessage) -> String {
    let calls = entry.message.tool_calls().map(|call| {
        let arguments: String = call.arguments.chars().take(DESCRIPTION_CHARS).collect();
        format!("A call to {} was made with {arguments}.", call.name)
    });
    calls.collect::<Vec<_>>().join(" ")
}

/// Leaves out a share of the results, beginning in their middle and going to both sides.
fn without_results(texts: Vec<Cow<'_, RecordedMessage>>, percent: usize) -> Vec<Cow<'_, RecordedMessage>> {
    let results: Vec<usize> = (0..texts.len()).filter(|at| texts[*at].message.role == Role::Tool).collect();
    if percent == 0 || results.is_empty() {
        return texts;
    }
    let middle = results.len() / 2;
    // At least one, or a small share of a few results would leave out none and be refused again.
    let sides = (0..(results.len() * percent / 100).max(1)).map(|turn| match turn % 2 {
        0 => middle.checked_sub(turn / 2 + 1),
        _ => Some(middle + turn / 2),
    });
    let gone: Vec<usize> = sides.flatten().filter_map(|at| results.get(at).copied()).collect();
    let kept = texts.into_iter().enumerate().filter(|(at, _)| !gone.contains(at));
    kept.map(|(_, text)| text).collect()
}

fn shorten(text: &str) -> Option<String> {
    (text.chars().count() > OUTPUT_CHARS)
        .then(|| "The response returned from the tool call was larger and is stored in a file.".to_owned())
}
