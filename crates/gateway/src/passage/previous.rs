//! A request that goes on from an answer by its name, at a server that keeps none: it becomes the whole conversation.

use std::sync::Arc;

use bytes::Bytes;
use longhaul_providers::connect::Kind;

use super::Inner;
use crate::kept::{Turn, closing, items};
use crate::upstream::Target;
use crate::wire::json::{fields, quoted, string};
use crate::wire::{Dialect, Envelope, Fault, FaultKind, Wire};

/// The field that names the answer.
const PREVIOUS: &str = "previous_response_id";

/// What is kept of a request and its answer.
pub(super) struct Keeps {
    before: Option<Arc<Turn>>,
    /// The input of the request as it was written.
    asked: Bytes,
}

/// Whether answers of these upstreams are kept here: OpenAI's own server keeps them itself.
pub(super) fn is_kept_here(wire: &dyn Wire, targets: &[Arc<Target>]) -> bool {
    let keeps = |target: &Arc<Target>| target.server.upstream.kind == Kind::OpenAi;
    wire.dialect() == Dialect::Responses && !targets.iter().any(keeps)
}

/// The request with everything that was said before the answer that it goes on from, and what is to be kept of it.
///
/// # Errors
/// [`Fault`] if that answer is not known, or all of it is too much.
pub(super) fn whole(
    inner: &Inner,
    wire: &dyn Wire,
    caller: [u8; 32],
    envelope: Arc<Envelope>,
) -> Result<(Arc<Envelope>, Option<Keeps>), Fault> {
    let asked = envelope.bytes.slice(envelope.items_at.clone());
    let is_kept = envelope.other("store") != Some("false");
    let Some(previous) = envelope.other(PREVIOUS).filter(|raw| *raw != "null") else {
        return Ok((envelope, is_kept.then_some(Keeps { before: None, asked })));
    };
    let fault = |kind, message| Fault { param: Some(PREVIOUS.to_owned()), ..Fault::new(kind, message) };
    let id = string(previous)
        .ok_or_else(|| fault(FaultKind::Invalid, format!("`{PREVIOUS}` must be a string")))?;
    let before = inner.answers.find(caller, &id).ok_or_else(|| {
        let id: String = id.chars().take(100).collect();
        let message = format!(
            "Previous response with id '{id}' not found. This gateway keeps the newest answers until it ends, unless \
             `store` is false: send the whole input instead."
        );
        fault(FaultKind::NoSuchAnswer, message)
    })?;
    let all = [before.items(), items(&asked)].into_iter().filter(|items| !items.is_empty());
    let all = format!("[{}]", all.collect::<Vec<_>>().join(","));
    let body = with_input(envelope.text(&(0..envelope.bytes.len())), &all);
    let body = body.ok_or_else(|| Fault::new(FaultKind::Internal, "the request cannot be completed"))?;
    if body.len() > inner.config.max_body_bytes {
        let (has, most) = (body.len(), inner.config.max_body_bytes);
        let message = format!("the whole conversation has {has} bytes; {most} are the most that is read");
        return Err(Fault::new(FaultKind::TooLarge, message));
    }
    Ok((
        inner.readings.read(wire, &caller, body.into())?,
        is_kept.then_some(Keeps { before: Some(before), asked }),
    ))
}

/// The request with other items, and without the name of the answer.
fn with_input(request: &str, items: &str) -> Option<String> {
    let all = fields(request)?;
    let kept = all.iter().filter(|(name, _)| name != PREVIOUS && name != "input");
    let kept = kept.map(|(name, value)| format!("{}:{value},", quoted(name)));
    Some(format!(r#"{{{}"input":{items}}}"#, kept.collect::<String>()))
}

impl super::Passage {
    /// Keeps the answer for who goes on from it.
    pub(super) fn keep(&self, response: &str) {
        if let Some(Keeps { before, asked }) = &self.keeps {
            self.inner.answers.keep(self.caller, before.clone(), asked.clone(), response);
        }
    }

    /// The same, of the end of a stream.
    pub(super) fn keep_end(&self, events: &Bytes) {
        if self.keeps.is_some()
            && let Some(response) = closing(events)
        {
            self.keep(&response);
        }
    }
}
