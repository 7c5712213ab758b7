//! The merger of several Messages streams into one answer.

use std::collections::BTreeSet;

use serde_json::json;

use super::stream_parser::{MessagesStreamEvent, MessagesStreamParser};
use crate::edit::repetition_filter::RepetitionFilter;
use crate::edit::{PartialResponse, StreamMerger};
use crate::raw_json::{field, fields, place, quote, string, with_field};
use crate::sse::SseEvent;

/// The merger of an answer. Blocks have the client's numbers; the text of a left stream continues in the same block.
#[derive(Debug, Default)]
pub(super) struct MessagesStreamMerger {
    reader: MessagesStreamParser,
    /// `true` if a stream was left: the client's block numbers may differ from the stream's from then on.
    continued: bool,
    has_start: bool,
    /// The number of begun blocks at the client.
    blocks: u64,
    /// The client's number of the client's open block, and `true` for a text block.
    open: Option<(u64, bool)>,
    /// The number of the present stream's open block.
    theirs: Option<u64>,
    /// The end of a text block and the end of the answer, held back until proven final.
    held: Vec<Vec<u8>>,
    echo: RepetitionFilter,
    /// The tools with hidden calls, and the present stream's numbers of hidden calls.
    unseen: Vec<&'static str>,
    hidden: BTreeSet<u64>,
}

impl StreamMerger for MessagesStreamMerger {
    fn pass_event(&mut self, raw: &[u8], out: &mut Vec<u8>) {
        let event = SseEvent::parse(raw);
        // Nothing can follow an error, so it passes at once and the parser remembers it.
        if event.is_error() {
            self.reader.fail(&event.data);
            out.extend_from_slice(raw);
            return;
        }
        // An event of another form passes unchanged: a client may know more than the gateway.
        let Some(payload) = MessagesStreamEvent::read(&event.data) else {
            out.extend_from_slice(raw);
            return;
        };
        if self.is_hidden(&payload) {
            return;
        }
        match payload.r#type.as_ref() {
            "message_start" => self.start(&payload, raw, out),
            "content_block_start" => self.begin(&payload, raw, &event.data, out),
            "content_block_delta" => self.grow(&payload, raw, &event.data, out),
            "content_block_stop" => self.stop(&payload, raw, &event.data, out),
            "message_delta" | "message_stop" => {
                self.reader.take(&payload);
                // Whether the answer ends here is the caller's decision: a next stream may continue it.
                self.held.push(raw.to_vec());
            }
            "error" => {
                self.reader.fail(&event.data);
                out.extend_from_slice(raw);
            }
            _ => out.extend_from_slice(raw),
        }
    }

    fn begin_next_stream(&mut self, prefill: &str) {
        self.continued = true;
        // The held end of the block is dropped too, so the client's block stays open for the next stream.
        self.held.clear();
        self.theirs = None;
        self.hidden.clear();
        self.reader.go_on();
        self.echo.expect_trimmed(prefill);
    }

    fn begin_requested_stream(&mut self, said: &str, gap: &str) {
        self.begin_next_stream("");
        self.echo.expect_about(said, gap);
    }

    fn notice(&mut self, text: &str, out: &mut Vec<u8>) {
        // A notice can only stand in an open text block. In any other block it would be read as something else.
        if let Some((ours, true)) = self.open {
            write_delta(ours, text, out);
        }
    }

    fn hide_tool(&mut self, tool: &'static str) {
        self.unseen.push(tool);
    }

    fn has_hidden(&self) -> bool {
        !self.hidden.is_empty()
    }

    fn next_step(&mut self, out: &mut Vec<u8>) {
        self.flush_echo(out);
        // The step ends and the answer does not: the end of a block stays, and the end of the message goes.
        self.held.retain(|raw| !is_end(raw));
        self.close(out);
        self.begin_next_stream("");
    }

    fn end_with_text(&mut self, text: &str, out: &mut Vec<u8>) {
        // Without a start no block can follow.
        if !self.has_start {
            return;
        }
        self.flush_echo(out);
        // The ends of blocks go out now, and the end of the message comes behind the added text.
        let (ends, held) = std::mem::take(&mut self.held).into_iter().partition(|raw| is_end(raw));
        self.held = held;
        self.close(out);
        let block = json!({"type": "text", "text": ""});
        let begun = json!({"type": "content_block_start", "index": self.blocks, "content_block": block});
        write("content_block_start", &begun.to_string(), out);
        self.open = Some((self.blocks, true));
        self.blocks += 1;
        self.write_text(text, out);
        self.close(out);
        let ends: Vec<Vec<u8>> = ends;
        self.held =
            // The client sees no call, so the stop reason must not announce one.
            ends.into_iter().map(|raw| with_reason(&raw, "tool_use", "end_turn").unwrap_or(raw)).collect();
    }

    fn end(&mut self, output_tokens_before: u64, out: &mut Vec<u8>) {
        self.flush_echo(out);
        if self.echo.says_nothing() {
            // The model only repeated its earlier text, so the answer is incomplete. Its end must not claim
            // otherwise.
            for raw in &mut self.held {
                if let Some(cut) = with_reason(raw, "end_turn", "max_tokens") {
                    *raw = cut;
                }
            }
        }
        let held = std::mem::take(&mut self.held);
        let is_over = held.iter().any(|raw| name(raw).is_some_and(|name| name == "message_delta"));
        if !self.has_start {
            return;
        }
        // The stream was left or broke. A client needs an end with a stop reason all the same.
        if !is_over {
            self.held = held.into_iter().filter(|raw| !is_end(raw)).collect();
            self.end_here(output_tokens_before, out);
            return;
        }
        // Some compatible servers leave out the last events, and clients wait for them.
        let (is_closed, is_whole) =
            (has_event(&held, "content_block_stop"), has_event(&held, "message_stop"));
        if !is_closed {
            self.close(out);
        }
        for raw in &held {
            match name(raw).as_deref() {
                Some("message_delta") if self.continued => self.total(raw, output_tokens_before, out),
                _ => out.extend_from_slice(raw),
            }
        }
        self.open = None;
        if !is_whole {
            write("message_stop", &json!({"type": "message_stop"}).to_string(), out);
        }
    }

    fn seen(&self) -> &PartialResponse {
        use crate::edit::StreamParser as _;
        self.reader.seen()
    }
}

impl MessagesStreamMerger {
    /// Reports whether an event is about a hidden call.
    fn is_hidden(&mut self, payload: &MessagesStreamEvent<'_>) -> bool {
        let Some(index) = payload.block().filter(|_| !self.unseen.is_empty()) else { return false };
        let begun = payload.content_block.as_ref().filter(|block| block.r#type == "tool_use");
        if begun.and_then(|block| block.name.as_deref()).is_some_and(|name| self.unseen.contains(&name)) {
            // Only the start of a block names its tool. Later events have nothing but the index.
            self.hidden.insert(index);
        }
        self.hidden.contains(&index)
    }

    fn start(&mut self, payload: &MessagesStreamEvent<'_>, raw: &[u8], out: &mut Vec<u8>) {
        if self.has_start {
            // The client has seen a start. Of a later one only the usage counts.
            self.reader.restart(payload.message.as_ref());
            return;
        }
        self.has_start = true;
        self.reader.take(payload);
        out.extend_from_slice(raw);
    }

    fn begin(&mut self, payload: &MessagesStreamEvent<'_>, raw: &[u8], data: &str, out: &mut Vec<u8>) {
        let Some(block) = &payload.content_block else { return };
        self.theirs = payload.block();
        let is_text = block.r#type == "text";
        // The client's block is still open, because its held end was dropped: this text continues in it.
        if is_text && self.continued && self.held.is_empty() && self.open.is_some_and(|(_, text)| text) {
            if let Some(text) = block.text.as_deref().filter(|text| !text.is_empty()) {
                self.say(text, out);
            }
            return;
        }
        self.flush_echo(out);
        self.close(out);
        self.reader.take(payload);
        self.open = Some((self.blocks, is_text));
        self.blocks += 1;
        self.number(payload, raw, data, self.blocks - 1, out);
    }

    fn grow(&mut self, payload: &MessagesStreamEvent<'_>, raw: &[u8], data: &str, out: &mut Vec<u8>) {
        let Some((ours, _)) = self.open else { return };
        let text = payload.delta.as_ref().and_then(|delta| delta.text.as_deref());
        if let (true, Some(text)) = (self.continued, text) {
            self.say(text, out);
            return;
        }
        self.reader.take(payload);
        self.number(payload, raw, data, ours, out);
    }

    fn stop(&mut self, payload: &MessagesStreamEvent<'_>, raw: &[u8], data: &str, out: &mut Vec<u8>) {
        // A block that is not open at the client has nothing to close.
        if payload.block() != self.theirs {
            return;
        }
        let Some((ours, is_text)) = self.open else { return };
        self.flush_echo(out);
        self.theirs = None;
        self.reader.take(payload);
        let mut end = Vec::new();
        self.number(payload, raw, data, ours, &mut end);
        if is_text {
            // A text block may continue in a next stream. A call may not, so its end passes at once.
            self.held.push(end);
        } else {
            self.open = None;
            out.extend_from_slice(&end);
        }
    }

    /// Writes text of a later stream.
    fn say(&mut self, text: &str, out: &mut Vec<u8>) {
        if let Some(new) = self.echo.pass(text) {
            self.write_text(&new, out);
        }
    }

    fn flush_echo(&mut self, out: &mut Vec<u8>) {
        if let Some(rest) = self.echo.end() {
            self.write_text(&rest, out);
        }
    }

    fn write_text(&mut self, text: &str, out: &mut Vec<u8>) {
        let Some((ours, _)) = self.open.filter(|_| !text.is_empty()) else { return };
        self.reader.text(text);
        write_delta(ours, text, out);
    }

    /// Closes the client's open block, if any.
    fn close(&mut self, out: &mut Vec<u8>) {
        let held = std::mem::take(&mut self.held);
        let Some((ours, _)) = self.open.take() else { return };
        if held.is_empty() {
            let end = json!({"type": "content_block_stop", "index": ours}).to_string();
            write("content_block_stop", &end, out);
        }
        held.iter().for_each(|raw| out.extend_from_slice(raw));
    }

    /// Returns the event with the client's number of the block.
    fn number(
        &self,
        payload: &MessagesStreamEvent<'_>,
        raw: &[u8],
        data: &str,
        ours: u64,
        out: &mut Vec<u8>,
    ) {
        // With equal numbers the event keeps its bytes.
        let theirs = payload.index.filter(|_| payload.block() != Some(ours));
        let Some(theirs) = theirs else {
            out.extend_from_slice(raw);
            return;
        };
        // Only the index is replaced, so fields that are unknown here keep their bytes.
        let at = place(data, theirs.get());
        let said = format!("{}{ours}{}", &data[..at.start], &data[at.end..]);
        write(&payload.r#type, &said, out);
    }

    /// Writes the end of the answer, with the usage of all streams.
    fn total(&self, raw: &[u8], output_tokens_before: u64, out: &mut Vec<u8>) {
        let data = SseEvent::parse(raw).data;
        let counts = self.reader.usage();
        let old = MessagesStreamEvent::read(&data)
            .and_then(|payload| payload.usage.map(|usage| usage.get().to_owned()));
        let numbers = [
            ("input_tokens", counts.uncached_input_tokens()),
            ("cache_creation_input_tokens", counts.cache_write_tokens()),
            ("cache_read_input_tokens", counts.cache_read_tokens()),
            ("output_tokens", counts.output_tokens().saturating_add(output_tokens_before)),
        ];
        let usage = numbers.iter().fold(old.unwrap_or_else(|| "{}".to_owned()), |usage, (name, count)| {
            with_field(&usage, name, &count.to_string()).unwrap_or(usage)
        });
        match with_field(&data, "usage", &usage) {
            Some(said) => write("message_delta", &said, out),
            None => out.extend_from_slice(raw),
        }
    }

    /// Ends the answer at the end of the left stream, with the stop reason of an output limit.
    fn end_here(&mut self, output_tokens_before: u64, out: &mut Vec<u8>) {
        self.close(out);
        let counts = self.reader.usage();
        let usage = json!({
            "input_tokens": counts.uncached_input_tokens(),
            "cache_creation_input_tokens": counts.cache_write_tokens(),
            "cache_read_input_tokens": counts.cache_read_tokens(),
            "output_tokens": output_tokens_before,
        });
        let said = json!({
            "type": "message_delta",
            "delta": { "stop_reason": "max_tokens", "stop_sequence": null },
            "usage": usage,
        });
        write("message_delta", &said.to_string(), out);
        write("message_stop", &json!({"type": "message_stop"}).to_string(), out);
        // The parser reads the end as well, so that what the client has seen and what is recorded agree.
        let last = [said.to_string(), json!({"type": "message_stop"}).to_string()];
        for payload in last.iter().filter_map(|said| MessagesStreamEvent::read(said)) {
            self.reader.take(&payload);
        }
    }
}

fn has_event(held: &[Vec<u8>], wanted: &str) -> bool {
    held.iter().any(|raw| name(raw).is_some_and(|name| name == wanted))
}

/// Writes more text of a block.
fn write_delta(index: u64, text: &str, out: &mut Vec<u8>) {
    let said = format!(
        r#"{{"type":"content_block_delta","index":{index},"delta":{{"type":"text_delta","text":{}}}}}"#,
        quote(text)
    );
    write("content_block_delta", &said, out);
}

/// Reports whether the event is part of the end of the whole answer.
fn is_end(raw: &[u8]) -> bool {
    name(raw).is_some_and(|name| name == "message_delta" || name == "message_stop")
}

/// Returns the end of an answer with `other` in place of `reason`. `None` if the end has another reason.
fn with_reason(raw: &[u8], reason: &str, other: &str) -> Option<Vec<u8>> {
    let data = SseEvent::parse(raw).data;
    let said = fields(&data)?;
    let delta = field(&said, "delta")?;
    let said = fields(delta).and_then(|said| string(field(&said, "stop_reason")?))?;
    let delta = (said == reason).then(|| with_field(delta, "stop_reason", &quote(other)))??;
    let mut out = Vec::new();
    write("message_delta", &with_field(&data, "delta", &delta)?, &mut out);
    Some(out)
}

fn name(raw: &[u8]) -> Option<String> {
    MessagesStreamEvent::read(&SseEvent::parse(raw).data).map(|payload| payload.r#type.into_owned())
}

fn write(name: &str, data: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(format!("event: {name}\ndata: {data}\n\n").as_bytes());
}
