//! The merger of several Responses streams into one answer.
//!
//! The Responses dialect sends all content at least three times: as deltas, in the closing events of a part and an
//! item, and in the closing copy of the response. All copies must agree, even if a text came in two streams.

use std::collections::BTreeMap;

use longhaul_core::message::ModelStopReason;
use serde_json::{Value, json};

use super::hidden_call_matcher::HiddenCallMatcher;
use super::stream_parser::{ResponsesStreamEvent, ResponsesStreamParser, is_foreign_error};
use super::whole::list;
use crate::edit::repetition_filter::RepetitionFilter;
use crate::edit::{PartialResponse, StreamMerger, StreamParser as _};
use crate::raw_json::{elements, field, fields, quote, string, with_field};
use crate::sse::SseEvent;

/// The merger of an answer. Items have the client's indices; the message of a left stream continues as the same item.
#[derive(Debug, Default)]
pub(super) struct ResponsesStreamMerger {
    reader: ResponsesStreamParser,
    /// `true` if a stream was left: from then on the client's numbers may differ from the stream's.
    continued: bool,
    /// The response as described by its first event.
    response: Option<String>,
    /// The finished items, by the client's index.
    done: BTreeMap<u64, String>,
    /// The message that is open at the client.
    open: Option<OpenMessageItem>,
    /// The client's indices of the present stream's items.
    ours: BTreeMap<u64, u64>,
    /// The number of items whose beginning the client has seen.
    items: u64,
    /// The number of items that the present stream has begun: llama.cpp gives them no indices.
    begun: u64,
    /// The next `sequence_number`; `None` if the first stream has none.
    next: Option<u64>,
    /// The closing events of a message and of the answer, held back until proven final.
    held: Vec<Vec<u8>>,
    echo: RepetitionFilter,
    unseen: HiddenCallMatcher,
}

/// An unfinished message.
#[derive(Clone, Debug, Default)]
struct OpenMessageItem {
    /// The client's index of the message.
    index: u64,
    id: String,
    /// The item as first announced.
    raw: String,
    /// `true` once the message's text part was begun.
    has_part: bool,
    text: String,
}

impl OpenMessageItem {
    /// Returns an event about the message's text part.
    fn part_event(&self, mut event: Value) -> String {
        event["item_id"] = json!(self.id);
        event["output_index"] = json!(self.index);
        event["content_index"] = json!(0);
        event.to_string()
    }
}

impl StreamMerger for ResponsesStreamMerger {
    fn pass_event(&mut self, raw: &[u8], out: &mut Vec<u8>) {
        let event = SseEvent::parse(raw);
        let data = &*event.data;
        if is_foreign_error(&event) {
            self.reader.read(&event);
            out.extend_from_slice(raw);
            return;
        }
        let Some(payload) = ResponsesStreamEvent::read(data) else {
            out.extend_from_slice(raw);
            return;
        };
        if self.unseen.hides(&payload) {
            // A hidden event leaves a gap in indices and numbers, so all later events get new ones.
            self.renumbers();
            return;
        }
        if self.continued {
            self.later(&payload, data, out);
        } else {
            self.first(&payload, raw, data, out);
        }
        // Errors from here on need the number of the last event that the client has seen.
        self.reader.sent(self.next.and_then(|next| next.checked_sub(1)));
    }

    fn begin_next_stream(&mut self, prefill: &str) {
        self.continued = true;
        // The held ends belong to a stream that is continued now, so they were no ends.
        self.held.clear();
        self.ours.clear();
        self.begun = 0;
        self.unseen.next_stream();
        if let Some(open) = &self.open {
            // The next stream continues this message, so its finished copy is void.
            self.done.remove(&open.index);
        }
        self.reader.go_on();
        self.echo.expect_trimmed(prefill);
    }

    fn begin_requested_stream(&mut self, said: &str, gap: &str) {
        self.begin_next_stream("");
        self.echo.expect_about(said, gap);
    }

    fn notice(&mut self, text: &str, out: &mut Vec<u8>) {
        let Some(index) = self.open.as_ref().filter(|open| open.has_part).map(|open| open.index) else {
            return;
        };
        if !self.continued {
            // The closing events differ from the upstream's from now on, because they contain more.
            self.renumbers();
            self.ours.insert(index, index);
        }
        self.write_text(text, out);
        // The held closing events contain the whole text, which has just grown.
        for raw in std::mem::take(&mut self.held) {
            let data = SseEvent::parse(&raw).data;
            match ResponsesStreamEvent::read(&data) {
                Some(payload) if self.is_closing(&payload.r#type) => self.hold_end(&payload, &data),
                _ => self.held.push(raw),
            }
        }
    }

    fn hide_tool(&mut self, tool: &'static str) {
        self.unseen.hide(tool);
    }

    fn has_hidden(&self) -> bool {
        self.unseen.has_hidden()
    }

    fn next_step(&mut self, out: &mut Vec<u8>) {
        self.flush_echo(out);
        self.held.retain(|raw| {
            !ResponsesStreamEvent::read(&SseEvent::parse(raw).data).is_some_and(|last| last.is_end())
        });
        if self.held.is_empty() {
            self.close("completed", out);
        }
        self.release(out);
        self.open = None;
        self.begin_next_stream("");
    }

    fn end_with_text(&mut self, text: &str, out: &mut Vec<u8>) {
        let Some(response) = &self.response else { return };
        let name = fields(response).and_then(|said| string(field(&said, "id")?)).unwrap_or_default();
        self.renumbers();
        self.flush_echo(out);
        // The end of the response must stay last, behind the added message.
        let last = self.held.pop_if(|raw| {
            ResponsesStreamEvent::read(&SseEvent::parse(raw).data).is_some_and(|last| last.is_end())
        });
        if self.held.is_empty() {
            self.close("completed", out);
        }
        self.release(out);
        self.begin_message(&format!("msg_{name}_{}", self.items), out);
        self.say(text, out);
        self.close("completed", out);
        self.held.extend(last);
    }

    fn end(&mut self, output_tokens_before: u64, out: &mut Vec<u8>) {
        if self.response.is_none() {
            return;
        }
        self.flush_echo(out);
        let mut held = std::mem::take(&mut self.held);
        let last = held.pop_if(|raw| {
            ResponsesStreamEvent::read(&SseEvent::parse(raw).data).is_some_and(|last| last.is_end())
        });
        match last {
            Some(last) if !self.continued => {
                // Nothing was changed, so the upstream's own closing events are right.
                held.iter().chain([&last]).for_each(|raw| out.extend_from_slice(raw));
            }
            Some(last) => {
                if held.is_empty() {
                    self.close("completed", out);
                }
                held.iter().for_each(|raw| self.write(&SseEvent::parse(raw).data, out));
                let data = SseEvent::parse(&last).data;
                // The model only repeated its earlier text, so the answer is incomplete. Its end must not claim
                // otherwise.
                // Only a normal end can claim too much. An answer that was cut or withheld says so already.
                let lacks = self.echo.says_nothing() && self.seen().finish == Some(ModelStopReason::Stop);
                let cut = lacks.then(|| cut_short(&data)).flatten();
                self.total(cut.as_deref().unwrap_or(&data), output_tokens_before, out);
            }
            // The stream was left or broke before its end.
            None => {
                if held.is_empty() {
                    self.close("incomplete", out);
                }
                held.iter().for_each(|raw| self.write(&SseEvent::parse(raw).data, out));
                self.end_here(output_tokens_before, out);
            }
        }
        self.open = None;
    }

    fn seen(&self) -> &PartialResponse {
        self.reader.seen()
    }
}

impl ResponsesStreamMerger {
    /// Gives the client's events numbers of their own from now on.
    fn renumbers(&mut self) {
        if !self.continued {
            self.continued = true;
            // Items that have passed unchanged keep their indices.
            self.ours.extend((0..self.items).map(|item| (item, item)));
        }
    }

    /// Passes an event of the first stream unchanged.
    fn first(&mut self, payload: &ResponsesStreamEvent<'_>, raw: &[u8], data: &str, out: &mut Vec<u8>) {
        self.reader.take(payload, data);
        let kind = payload.r#type.as_ref();
        let index = self.number(payload);
        // Any other event shows that the message has ended for good, so what is held goes out before it.
        let waits = self.is_closing(kind) || payload.is_end();
        if !waits {
            self.release(out);
        }
        match kind {
            "response.created" | "response.in_progress" => {
                self.response =
                    // The newest description counts: later events know more.
                    payload.response.map(|response| response.get().to_owned()).or(self.response.take());
            }
            "response.output_item.added" => {
                self.items = self.items.max(index + 1);
                self.begun += 1;
                self.open = payload.item.and_then(|item| OpenMessageItem::begin(item.get(), index));
            }
            "response.content_part.added" => self.begin_part(),
            "response.output_text.delta" => {
                if let (Some(open), Some(text)) = (&mut self.open, payload.text()) {
                    open.has_part = true;
                    open.text.push_str(&text);
                }
            }
            "response.output_item.done" => self.settle(index, payload.item.map(|item| item.get())),
            _ => {}
        }
        if waits {
            self.held.push(raw.to_vec());
            return;
        }
        // If these held events are forgotten, their numbers must be used again.
        self.next = payload.sequence_number.map(|number| number + 1).or(self.next);
        out.extend_from_slice(raw);
    }

    /// Passes an event of a later stream with the client's numbers.
    fn later(&mut self, payload: &ResponsesStreamEvent<'_>, data: &str, out: &mut Vec<u8>) {
        let theirs = Some(self.number(payload));
        match payload.r#type.as_ref() {
            "response.created" | "response.in_progress" | "response.queued" => {
                // A client has one response, so only the first stream may announce it.
                if self.response.is_none() {
                    self.response = payload.response.map(|response| response.get().to_owned());
                    self.reader.take(payload, data);
                    self.write(data, out);
                }
            }
            "response.output_item.added" => self.added(payload, data, out),
            "response.content_part.added" if self.goes_on(theirs) => {
                // The client has seen the part's beginning, unless the left stream ended before it.
                let is_new = self.open.as_ref().is_some_and(|open| !open.has_part);
                self.begin_part();
                if is_new {
                    self.renumber(data, theirs, out);
                }
            }
            "response.output_text.delta" if self.goes_on(theirs) => {
                if let Some(new) = self.echo.pass(&payload.text().unwrap_or_default()) {
                    self.say(&new, out);
                }
            }
            kind if self.is_closing(kind) && self.goes_on(theirs) => {
                self.flush_echo(out);
                self.hold_end(payload, data);
            }
            _ if payload.is_end() => {
                self.flush_echo(out);
                self.reader.take(payload, data);
                self.held.push(format!("data: {data}\n\n").into_bytes());
            }
            kind => {
                self.reader.take(payload, data);
                if kind == "response.output_item.done"
                    && let Some(ours) = theirs.and_then(|theirs| self.ours.get(&theirs).copied())
                {
                    self.settle(ours, payload.item.map(|item| item.get()));
                }
                self.renumber(data, theirs, out);
            }
        }
    }

    /// Returns the present stream's index of an event's item. For an event without an index, returns the index of the
    /// newest item, or of the begun item.
    fn number(&self, payload: &ResponsesStreamEvent<'_>) -> u64 {
        let begins = payload.r#type == "response.output_item.added";
        let newest = if begins { self.begun } else { self.begun.saturating_sub(1) };
        payload.output_index.unwrap_or(newest)
    }

    fn added(&mut self, payload: &ResponsesStreamEvent<'_>, data: &str, out: &mut Vec<u8>) {
        let theirs = self.number(payload);
        self.begun += 1;
        let begun = payload.item.and_then(|item| OpenMessageItem::begin(item.get(), self.items));
        // The message of the left stream continues in this stream's first message.
        if let (Some(_), Some(open), true) = (&begun, &self.open, self.held.is_empty()) {
            self.ours.insert(theirs, open.index);
            return;
        }
        self.flush_echo(out);
        if self.held.is_empty() {
            self.close("completed", out);
        }
        self.release(out);
        self.reader.take(payload, data);
        self.ours.insert(theirs, self.items);
        self.items += 1;
        self.open = begun;
        self.renumber(data, Some(theirs), out);
    }

    /// Reports whether an event of the present stream is about the client's open message.
    fn goes_on(&self, theirs: Option<u64>) -> bool {
        let ours = theirs.and_then(|theirs| self.ours.get(&theirs));
        self.open.as_ref().is_some_and(|open| Some(&open.index) == ours)
    }

    fn begin_part(&mut self) {
        if let Some(open) = &mut self.open {
            open.has_part = true;
        }
    }

    /// Reports whether an event of that type closes a message or a part of it.
    fn is_closing(&self, kind: &str) -> bool {
        let closing =
            ["response.output_text.done", "response.content_part.done", "response.output_item.done"];
        self.open.is_some() && closing.contains(&kind)
    }

    /// Writes the held events of a message that has ended after all.
    fn release(&mut self, out: &mut Vec<u8>) {
        for raw in std::mem::take(&mut self.held) {
            let data = SseEvent::parse(&raw).data;
            let Some(payload) = ResponsesStreamEvent::read(&data) else { continue };
            if payload.r#type == "response.output_item.done" {
                self.open = None;
            }
            // Unchanged events keep the upstream's bytes. Changed streams need new numbers.
            if self.continued {
                self.write(&data, out);
            } else {
                self.next = payload.sequence_number.map(|number| number + 1).or(self.next);
                out.extend_from_slice(&raw);
            }
        }
    }

    fn settle(&mut self, index: u64, item: Option<&str>) {
        if let Some(item) = item {
            self.done.insert(index, item.to_owned());
        }
    }

    /// Holds back an event that closes the message, with the message's whole text and id.
    fn hold_end(&mut self, payload: &ResponsesStreamEvent<'_>, data: &str) {
        let Some(open) = self.open.clone() else { return };
        let changed = match payload.r#type.as_ref() {
            "response.output_text.done" => with_field(data, "text", &quote(&open.text)),
            "response.content_part.done" => fields(data)
                .and_then(|said| with_field(field(&said, "part")?, "text", &quote(&open.text)))
                .and_then(|part| with_field(data, "part", &part)),
            _ => payload.item.and_then(|item| open.whole(item.get())).and_then(|item| {
                self.reader.take(payload, data);
                self.settle(open.index, Some(&item));
                with_field(data, "item", &item)
            }),
        };
        let named = changed.and_then(|data| open.named(&data));
        self.held.extend(named.map(|data| format!("data: {data}\n\n").into_bytes()));
    }

    /// Writes text of a later stream.
    fn say(&mut self, text: &str, out: &mut Vec<u8>) {
        if self.open.is_some() && !text.is_empty() {
            self.reader.text(text);
            self.write_text(text, out);
        }
    }

    /// Writes more text of the open message.
    fn write_text(&mut self, text: &str, out: &mut Vec<u8>) {
        let Some(open) = &mut self.open else { return };
        let (index, id) = (open.index, open.id.clone());
        open.text.push_str(text);
        let said = json!({"type": "response.output_text.delta", "item_id": id, "output_index": index,
            "content_index": 0, "delta": text, "logprobs": []});
        self.write(&said.to_string(), out);
    }

    fn flush_echo(&mut self, out: &mut Vec<u8>) {
        if let Some(rest) = self.echo.end() {
            self.say(&rest, out);
        }
    }

    /// Begins a message of our own.
    fn begin_message(&mut self, id: &str, out: &mut Vec<u8>) {
        let index = self.items;
        self.items += 1;
        let item =
            json!({"type": "message", "id": id, "role": "assistant", "status": "in_progress", "content": []});
        let added = json!({"type": "response.output_item.added", "output_index": index, "item": item});
        self.write(&added.to_string(), out);
        let part = json!({"type": "output_text", "text": "", "annotations": [], "logprobs": []});
        let begun = json!({"type": "response.content_part.added", "item_id": id, "output_index": index,
            "content_index": 0, "part": part});
        self.write(&begun.to_string(), out);
        let open = OpenMessageItem::begin(&item.to_string(), index);
        self.open = open.map(|open| OpenMessageItem { has_part: true, ..open });
    }

    /// Closes the message whose stream was left.
    fn close(&mut self, status: &str, out: &mut Vec<u8>) {
        let Some(open) = self.open.take() else { return };
        let part = json!({"type": "output_text", "text": open.text, "annotations": [], "logprobs": []});
        if open.has_part {
            let text = json!({"type": "response.output_text.done", "text": open.text, "logprobs": []});
            self.write(&open.part_event(text), out);
            self.write(&open.part_event(json!({"type": "response.content_part.done", "part": part})), out);
        }
        let content = if open.has_part { format!("[{part}]") } else { "[]".to_owned() };
        let whole = with_field(&open.raw, "content", &content);
        let item = whole.and_then(|item| with_field(&item, "status", &quote(status))).unwrap_or_default();
        let done =
            format!(r#"{{"type":"response.output_item.done","output_index":{},"item":{item}}}"#, open.index);
        self.write(&done, out);
        self.settle(open.index, Some(&item));
    }

    /// Writes the event with the client's index of its item.
    fn renumber(&mut self, data: &str, theirs: Option<u64>, out: &mut Vec<u8>) {
        let ours = theirs.and_then(|theirs| self.ours.get(&theirs));
        let changed = ours.and_then(|ours| with_field(data, "output_index", &ours.to_string()));
        self.write(changed.as_deref().unwrap_or(data), out);
    }

    /// Writes an event with the next number.
    fn write(&mut self, data: &str, out: &mut Vec<u8>) {
        let numbered = self.next.and_then(|next| with_field(data, "sequence_number", &next.to_string()));
        // A stream without numbers gets none added.
        self.next = self.next.map(|next| next + 1);
        let data = numbered.as_deref().unwrap_or(data);
        let name =
            ResponsesStreamEvent::read(data).map(|payload| payload.r#type.into_owned()).unwrap_or_default();
        out.extend_from_slice(format!("event: {name}\ndata: {data}\n\n").as_bytes());
    }

    /// Writes the closing copy: the first stream's id, all items, and the usage of all streams.
    fn total(&mut self, data: &str, output_tokens_before: u64, out: &mut Vec<u8>) {
        let rewritten = fields(data).and_then(|said| {
            let response = self.described(field(&said, "response")?)?;
            let usage = fields(&response).and_then(|said| field(&said, "usage").map(str::to_owned));
            let usage = usage.filter(|usage| usage != "null").and_then(|usage| {
                let said = fields(&usage)?;
                let [input, output] = ["input_tokens", "output_tokens"].map(|name| {
                    field(&said, name).and_then(|count| count.parse::<u64>().ok()).unwrap_or_default()
                });
                let written = output.saturating_add(output_tokens_before);
                let total = input.saturating_add(written);
                let usage = with_field(&usage, "output_tokens", &written.to_string())?;
                // The total must stay the sum of the two.
                with_field(&usage, "total_tokens", &total.to_string())
            });
            let response = match usage {
                Some(usage) => with_field(&response, "usage", &usage)?,
                None => response,
            };
            with_field(data, "response", &response)
        });
        self.write(rewritten.as_deref().unwrap_or(data), out);
    }

    /// Returns a response with the client's id and all items.
    fn described(&self, response: &str) -> Option<String> {
        // All streams are one response to the client, so its id is that of the first.
        let first = self.response.as_deref().and_then(|first| string(field(&fields(first)?, "id")?));
        let output = list(self.done.values().map(String::as_str));
        let named = match first {
            Some(id) => with_field(response, "id", &quote(&id))?,
            None => response.to_owned(),
        };
        with_field(&named, "output", &output)
    }

    /// Ends the answer where its stream was left, as at an output limit.
    fn end_here(&mut self, output_tokens_before: u64, out: &mut Vec<u8>) {
        let input = self.reader.seen().usage.as_ref().map_or(0, |usage| usage.input_tokens);
        let usage = json!({"input_tokens": input, "output_tokens": output_tokens_before,
            "total_tokens": input.saturating_add(output_tokens_before)});
        let response = self.response.as_deref().and_then(|response| {
            let response = incomplete(&self.described(response)?)?;
            with_field(&response, "usage", &usage.to_string())
        });
        let data = format!(
            r#"{{"type":"response.incomplete","response":{}}}"#,
            response.unwrap_or_else(|| "{}".to_owned())
        );
        // The parser reads the end as well, so that what the client has seen and what is recorded agree.
        if let Some(payload) = ResponsesStreamEvent::read(&data) {
            self.reader.take(&payload, &data);
        }
        self.write(&data, out);
    }
}

/// Returns the end of a response, as at an output limit.
fn cut_short(data: &str) -> Option<String> {
    let response = incomplete(field(&fields(data)?, "response")?)?;
    with_field(&with_field(data, "type", "\"response.incomplete\"")?, "response", &response)
}

/// Returns a response that was cut at an output limit.
fn incomplete(response: &str) -> Option<String> {
    let response = with_field(response, "status", "\"incomplete\"")?;
    with_field(&response, "incomplete_details", &json!({"reason": "max_output_tokens"}).to_string())
}

impl OpenMessageItem {
    /// Begins a message. `None` if the item is of another kind.
    fn begin(item: &str, index: u64) -> Option<Self> {
        let said = fields(item)?;
        if field(&said, "type").and_then(string)? != "message" {
            return None;
        }
        let id = field(&said, "id").and_then(string).unwrap_or_default();
        Some(Self { index, id, raw: item.to_owned(), has_part: false, text: String::new() })
    }

    /// Returns the item that a later stream closes, with this message's id and whole text.
    fn whole(&self, item: &str) -> Option<String> {
        let said = fields(item)?;
        let mut parts: Vec<String> =
            elements(field(&said, "content")?)?.into_iter().map(str::to_owned).collect();
        if let Some(first) = parts.first_mut() {
            // The merged text is the message's first part. Other parts came whole in the last stream.
            *first = with_field(first, "text", &quote(&self.text))?;
        }
        let item = with_field(item, "content", &list(parts.iter().map(String::as_str)))?;
        with_field(&item, "id", &quote(&self.id))
    }

    /// Returns an event with this message's id and index.
    fn named(&self, data: &str) -> Option<String> {
        let data = with_field(data, "output_index", &self.index.to_string())?;
        // Some closing events name their item only by its index.
        let has_name = fields(&data).is_some_and(|said| field(&said, "item_id").is_some());
        if has_name { with_field(&data, "item_id", &quote(&self.id)) } else { Some(data) }
    }
}
