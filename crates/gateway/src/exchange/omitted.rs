//! Pictures and files that an upstream refuses: words stand in their place, in the request that was refused and in all
//! that send them again.
//!
//! A client sends its whole conversation each time, so one picture that an upstream refuses would end the conversation.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http::HeaderMap;
use longhaul_core::attempt::{MAX_OMISSIONS, choose_refused_media, note_of_omission, one_line};
use longhaul_core::message::{Media, Message, Part};
use longhaul_core::refusal::{Refusal, RefusedPart};
use longhaul_providers::{ProviderError, Request};
use longhaul_wire::refused_part;

use super::UpstreamAttempt;
use super::upstream_response::{UpstreamResponse, WholeResponse};
use crate::headers;
use longhaul_wire::edit::blocks::{blocks, words};
use longhaul_wire::edit::patch::Patch;

/// How many refused parts are remembered.
const MAX_REMEMBERED: usize = 4_096;

/// Names a part at one upstream.
type Key = [u8; 32];

/// What upstreams have refused.
#[derive(Debug, Default)]
pub(crate) struct OmissionMemory {
    /// The words that stand in the place of each part.
    known: Mutex<HashMap<Key, String>>,
}

impl OmissionMemory {
    fn known(&self) -> MutexGuard<'_, HashMap<Key, String>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What was left out of one request.
#[derive(Debug, Default)]
pub(super) struct Omissions {
    tries: u32,
    /// Parts in whose place the request that was sent last has words.
    sent_without: usize,
    /// What was left out on a guess that nothing has confirmed yet.
    guess: Vec<Key>,
}

/// A part that may be to blame.
struct Suspect {
    key: Key,
    is_image: bool,
}

impl UpstreamAttempt {
    /// The request with words in place of what its upstream has refused.
    pub(super) fn without_refused(&mut self, body: Bytes) -> Bytes {
        let (body, left_out) = self.with_omissions(body);
        self.omissions.sent_without = left_out;
        body
    }

    /// The request with words in place of what its upstream has refused, and how many parts those are.
    pub(super) fn with_omissions(&self, body: Bytes) -> (Bytes, usize) {
        let known = self.exchange.inner.omitted.known();
        let Some(text) = std::str::from_utf8(&body).ok().filter(|_| !known.is_empty()) else {
            return (body, 0);
        };
        let (mut patch, mut left_out) = (Patch::default(), 0);
        for block in blocks(text) {
            if let Some(note) = known.get(&self.key(&text.as_bytes()[block.at.clone()])) {
                patch.replace(block.at, words(self.exchange.wire.dialect(), note));
                left_out += 1;
            }
        }
        (patch.apply(&body), left_out)
    }

    /// Leaves out the part because of which `body` was refused. Returns whether there is one: then the request is worth
    /// another try.
    pub(super) fn omit(&mut self, came: &UpstreamResponse, body: &Bytes) -> bool {
        let (status, said) = match came {
            UpstreamResponse::Stream(opening) => (None, opening.beginning.error.as_deref()),
            UpstreamResponse::Whole(WholeResponse { status, bytes, seen: None, .. })
                if !status.is_success() =>
            {
                (Some(status.as_u16()), std::str::from_utf8(bytes).ok())
            }
            UpstreamResponse::Whole(_) => (None, None),
        };
        let Some(said) = said else { return false };
        let refusal = refused_part::recognise(status, said, body);
        let text = std::str::from_utf8(body).unwrap_or_default();
        let suspects: Vec<Suspect> = blocks(text)
            .into_iter()
            .map(|block| Suspect { key: self.key(text[block.at].as_bytes()), is_image: block.is_image })
            .collect();
        self.blame(refusal.as_ref(), &suspects, said)
    }

    /// The same for a request that was put into another dialect.
    pub(super) fn omit_neutral(&mut self, error: &ProviderError, request: &[Sent]) -> bool {
        let suspects: Vec<Suspect> = request
            .iter()
            .map(|sent| Suspect { key: self.key(sent.hash.as_bytes()), is_image: sent.is_image })
            .collect();
        self.blame(error.refusal.as_deref(), &suspects, &error.message)
    }

    /// Puts words in the place of what the upstream has refused.
    pub(super) fn leave_out_refused(&mut self, request: &mut Request) {
        let mut left_out = 0;
        self.replace_refused(request, &mut left_out);
        self.omissions.sent_without = left_out;
    }

    /// Tells the client how many of its pictures and files the model was not shown.
    pub(super) fn say_omitted(&self, headers: &mut HeaderMap) {
        if self.omissions.sent_without > 0 {
            headers::say(headers, "x-longhaul-omitted", &self.omissions.sent_without.to_string());
        }
    }

    fn replace_refused(&self, request: &mut Request, left_out: &mut usize) {
        let known = self.exchange.inner.omitted.known();
        if known.is_empty() {
            return;
        }
        each_media(&mut request.messages, &mut |part, hash, _| {
            if let Some(note) = known.get(&self.key(hash.as_bytes())) {
                *part = Part::text(note.as_str());
                *left_out += 1;
            }
        });
    }

    fn blame(&mut self, refusal: Option<&Refusal>, suspects: &[Suspect], said: &str) -> bool {
        let in_vain = std::mem::take(&mut self.omissions.guess);
        let mut known = self.exchange.inner.omitted.known();
        for key in in_vain {
            known.remove(&key);
        }
        let Some(refusal) = refusal.filter(|_| self.omissions.tries < MAX_OMISSIONS) else { return false };
        let free = |suspect: &&Suspect| !known.contains_key(&suspect.key);
        let suspects: Vec<&Suspect> = suspects.iter().filter(free).collect();
        let blamed = chosen(refusal, &suspects, self.omissions.tries);
        if blamed.is_empty() {
            return false;
        }
        self.omissions.tries += 1;
        if known.len() + blamed.len() > MAX_REMEMBERED {
            known.clear();
        }
        for suspect in &blamed {
            let what = if suspect.is_image { "a picture" } else { "a file" };
            known.insert(suspect.key, note_of_omission(what, &message_of(said)));
        }
        if !refusal.is_specific() {
            self.omissions.guess = blamed.iter().map(|suspect| suspect.key).collect();
        }
        tracing::warn!(
            upstream = self.target.server.upstream.name,
            parts = blamed.len(),
            "the upstream refuses a picture or a file, which is left out: {}",
            one_line(&message_of(said))
        );
        true
    }

    fn key(&self, content: &[u8]) -> Key {
        let mut hasher = blake3::Hasher::new_derive_key("longhaul 2026 gateway refused part");
        for name in [&self.target.server.upstream.name, &self.target.model] {
            hasher.update(&(name.len() as u64).to_le_bytes());
            hasher.update(name.as_bytes());
        }
        *hasher.update(content).finalize().as_bytes()
    }
}

/// The suspects to leave out: the one that is named, else those that the refusal speaks of.
fn chosen<'s>(refusal: &Refusal, suspects: &[&'s Suspect], attempt: u32) -> Vec<&'s Suspect> {
    if let Some(RefusedPart::Media(number)) = refusal.part
        && let Some(named) = suspects.get(number)
    {
        return vec![named];
    }
    choose_refused_media(refusal, attempt, suspects.to_vec(), |suspect| suspect.is_image)
}

/// A picture or a file as it was sent.
pub(super) struct Sent {
    hash: String,
    is_image: bool,
}

/// The pictures and files of a request, in order.
pub(super) fn sent(request: &mut Request) -> Vec<Sent> {
    let mut all = Vec::new();
    each_media(&mut request.messages, &mut |_, hash, is_image| {
        all.push(Sent { hash: hash.to_owned(), is_image });
    });
    all
}

fn each_media(messages: &mut [Message], act: &mut dyn FnMut(&mut Part, &str, bool)) {
    fn visit(part: &mut Part, act: &mut dyn FnMut(&mut Part, &str, bool)) {
        let is_image = matches!(part, Part::Image(_));
        match part {
            Part::ToolResult(result) => result.content.iter_mut().for_each(|part| visit(part, act)),
            Part::Image(Media { blob, .. }) | Part::File(Media { blob, .. }) => {
                let hash = blob.hash.clone();
                act(part, &hash, is_image);
            }
            _ => {}
        }
    }
    messages.iter_mut().flat_map(|message| &mut message.parts).for_each(|part| visit(part, act));
}

/// The message of an upstream's error, or its words as they are.
fn message_of(said: &str) -> String {
    let error = serde_json::from_str::<serde_json::Value>(said).ok();
    let message = error.as_ref().and_then(|value| {
        let error = value.get("error").unwrap_or(value);
        error.get("message").unwrap_or(error).as_str()
    });
    message.unwrap_or(said).to_owned()
}
