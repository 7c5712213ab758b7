//! Files, and what a model or a tool says.

use std::sync::OnceLock;

use futures_util::FutureExt as _;
use longhaul::config::AgentConfig;
use longhaul::import;
use longhaul::recall::{RecallSource, recall};
use longhaul_core::event::{Event, EventBody, FORMAT};
use longhaul_core::history::History;
use longhaul_core::ids::LogHandle;
use longhaul_core::message::{Message, Part};
use longhaul_core::run::{ArgumentRule, ArgumentRules, ToolApproval};
use longhaul_core::truncate::TextLimit;
use longhaul_store::BlobStore;

pub(crate) fn config(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Err(error) = AgentConfig::parse(text, "longhaul.yml") {
        assert!(!error.problems.is_empty(), "an error without a problem");
        let _ = error.to_string();
    }
    let _ = (AgentConfig::parse_agent(text, "agent.yml").is_ok(), AgentConfig::written(text));
}

/// What was imported must be a log.
pub(crate) fn import(data: &[u8]) {
    let Ok(import) = import::import(data, 1) else { return };
    assert!(!import.sessions.is_empty());
    for session in import.sessions {
        let events = session.events.into_iter().zip(1..);
        let events: Vec<Event> =
            events.map(|((at, body), seq)| Event { seq, at, format: FORMAT, body }).collect();
        assert!(events.is_sorted_by_key(|event| event.at), "times run backwards");
        if let Err(error) = History::fold(&events) {
            panic!("what was imported is no log: {error}");
        }
    }
}

/// Text reaches nothing but the log that it is asked of.
pub(crate) fn handle(data: &[u8]) {
    static LOG: OnceLock<(RecallSource, BlobStore)> = OnceLock::new();
    let (log, blobs) = LOG.get_or_init(|| {
        let bodies = [
            EventBody::SessionStarted { title: None, forked_from: None, imported_from: None, folder: None },
            EventBody::message_taken(Message::user("m2", vec![Part::text("Look for lh:1-9, ünd größer.")])),
        ];
        let events: Vec<Event> = bodies
            .into_iter()
            .zip(1..)
            .map(|(body, seq)| Event { seq, at: 0, format: FORMAT, body })
            .collect();
        (RecallSource::of(&History::fold(&events).expect("a log")), BlobStore::in_memory(1 << 20))
    });
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(handle) = text.parse::<LogHandle>() {
        assert_eq!(handle.to_string().parse(), Ok(handle));
        assert!(0 < handle.0.from && handle.0.from <= handle.0.to);
    }
    let (range, rest) = text.split_once('\n').unwrap_or(("", text));
    let asked = [
        text.to_owned(),
        serde_json::json!({ "handle": text }).to_string(),
        serde_json::json!({ "handle": rest, "range": range }).to_string(),
        serde_json::json!({ "query": rest, "limit": range.len() }).to_string(),
    ];
    let limit = TextLimit { max_chars: 10_000, max_tokens: 10_000 };
    for arguments in asked {
        let mut search = std::pin::pin!(recall(&arguments, log, blobs, &limit));
        // A search yields between the messages of a long log. Nothing else is waited for.
        let answer = (0..10_000).find_map(|_| search.as_mut().now_or_never());
        let answer = answer.expect("nothing is waited for");
        assert!(answer.unwrap_or_else(|error| error).len() < 100_000 + 4 * text.len());
    }
}

/// The first line is a pattern, the rest what a model wrote.
pub(crate) fn approval(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (pattern, arguments) = text.split_once('\n').unwrap_or((text, ""));
    let patterns = [("command".to_owned(), pattern.to_owned())].into();
    let rules = vec![ArgumentRule { patterns, approval: ToolApproval::Allow }];
    let matching = ArgumentRules { rules, ..ArgumentRules::default() };
    matching.decide(arguments);
    let decided = matching.decide(&serde_json::json!({ "command": arguments }).to_string());
    let adds = |sign| arguments.contains(sign) && !pattern.contains(sign);
    assert!(
        decided == ToolApproval::Ask || !adds(';') && !adds('$') && !adds('|'),
        "more was allowed than is shown"
    );
}

pub(crate) fn picture(data: &[u8]) {
    if let Ok(Some((width, height))) = longhaul::picture::size(data) {
        assert!(u64::from(width) * u64::from(height) <= longhaul::picture::MOST_PIXELS as u64);
    }
}
