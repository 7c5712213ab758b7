//! The difference between a request and its forwarded form.

use std::collections::BTreeSet;

use bytes::Bytes;
use serde_json::Value;

use crate::bodies::Request;
use crate::gateways::Gateway;
use crate::measure::new_number;

/// Returns `identical`, or the difference in words.
pub(crate) async fn forwarded(gateway: &Gateway, mock: &Gateway, request: &Request) -> String {
    let sent = request.body(new_number(), false);
    if let Err(why) = gateway.client().ask(sent.clone()).await {
        return format!("failed: {why}");
    }
    match mock.client().fetch("/newest").await {
        Ok(got) => difference(&sent, &got),
        Err(why) => format!("failed: {why}"),
    }
}

fn difference(sent: &Bytes, got: &Bytes) -> String {
    if sent == got {
        return "identical".to_owned();
    }
    let (Ok(old), Ok(new)) = (serde_json::from_slice::<Value>(sent), serde_json::from_slice::<Value>(got))
    else {
        return "no JSON".to_owned();
    };
    if old == new {
        return "same JSON, other bytes".to_owned();
    }
    let keys = |value: &Value| -> BTreeSet<String> {
        value.as_object().map(|fields| fields.keys().cloned().collect()).unwrap_or_default()
    };
    let (before, after) = (keys(&old), keys(&new));
    let list = |names: Vec<&String>| names.into_iter().cloned().collect::<Vec<_>>().join(", ");
    let empty = Vec::new();
    let messages = |value: &Value| value["messages"].as_array().unwrap_or(&empty).clone();
    let (old, new) = (messages(&old), messages(&new));
    let changed = old.iter().zip(&new).filter(|(old, new)| old != new).count();
    let mut said = vec!["other JSON".to_owned()];
    let (gone, come) = (list(before.difference(&after).collect()), list(after.difference(&before).collect()));
    said.extend((!gone.is_empty()).then(|| format!("without {gone}")));
    said.extend((!come.is_empty()).then(|| format!("with {come}")));
    said.push(format!("{changed} of {} messages changed", old.len()));
    said.push(format!("{} bytes of {}", got.len(), sent.len()));
    said.join("; ")
}
