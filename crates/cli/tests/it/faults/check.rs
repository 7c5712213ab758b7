//! What must hold of a session, whatever happened: its log, what the outside was told of it, and what its
//! tools have left in the workspace.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use longhaul_core::event::{Event, EventBody};
use longhaul_core::ids::CallId;
use longhaul_core::message::{Part, ToolStatus};

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection, Row};

use super::ledger::{Account, Entries, is_same};
use super::model::Made;

/// What a log says of one tool call.
#[derive(Debug)]
struct CallRecord {
    provider_id: String,
    started: usize,
    finished: Vec<(ToolStatus, String)>,
}

/// What was found wrong, each with the session.
#[derive(Debug, Default)]
pub(crate) struct Findings(Vec<String>);

impl Findings {
    pub(crate) fn add(&mut self, session: &str, what: impl std::fmt::Display) {
        self.0.push(format!("{session}: {what}"));
    }

    /// Notes what others found wrong.
    pub(crate) fn extend(&mut self, who: &str, complaints: Vec<String>) {
        self.0.extend(complaints.into_iter().map(|complaint| format!("{who}: {complaint}")));
    }

    #[track_caller]
    pub(crate) fn are_none(self, context: &str) {
        let shown: Vec<String> =
            self.0.iter().take(20).map(|finding| finding.chars().take(500).collect()).collect();
        assert!(shown.is_empty(), "{context}: {} findings\n{}", self.0.len(), shown.join("\n"));
    }
}

/// Checks a log in itself.
pub(crate) fn log(session: &str, events: &[Event], findings: &mut Findings) {
    for (index, event) in events.iter().enumerate() {
        if event.seq != index as u64 + 1 {
            // One gap would make a finding of every event behind it, so the check ends here.
            return findings.add(session, format!("place {} has seq {}", index + 1, event.seq));
        }
    }
    let (mut taken_ids, mut open) = (BTreeSet::new(), false);
    for event in events {
        match &event.body {
            EventBody::MessagesTaken { taken, .. } => {
                for id in taken.iter().filter(|id| !taken_ids.insert((*id).clone())) {
                    findings.add(session, format!("{id} is taken again at {}", event.seq));
                }
            }
            EventBody::RunStarted { .. } if std::mem::replace(&mut open, true) => {
                findings.add(session, format!("a run within a run at {}", event.seq));
            }
            EventBody::RunFinished { .. } if !std::mem::replace(&mut open, false) => {
                findings.add(session, format!("an end without a run at {}", event.seq));
            }
            _ => {}
        }
    }
    // A call of a run that is still open may lack its result.
    let resting = !open;
    for (id, call) in calls(session, events, findings) {
        let finished = call.finished.len();
        if call.started > 1 || finished > 1 || (resting && finished == 0) {
            findings.add(session, format!("call {id} {call:?}"));
        }
    }
}

fn calls(session: &str, events: &[Event], findings: &mut Findings) -> BTreeMap<CallId, CallRecord> {
    let mut calls: BTreeMap<CallId, CallRecord> = BTreeMap::new();
    for event in events {
        match &event.body {
            EventBody::AssistantAdded { message, .. } => {
                for call in message.tool_calls() {
                    let provider_id = call.provider_id.clone().unwrap_or_default();
                    let record = CallRecord { provider_id, started: 0, finished: Vec::new() };
                    if calls.insert(call.call_id.clone(), record).is_some() {
                        findings.add(session, format!("call {} is made again", call.call_id));
                    }
                }
            }
            EventBody::ToolStarted { call_id } => match calls.get_mut(call_id) {
                Some(call) if call.finished.is_empty() => call.started += 1,
                other => findings.add(session, format!("start of {call_id}: {other:?}")),
            },
            EventBody::ToolFinished { result } => match calls.get_mut(&result.call_id) {
                Some(call) => call.finished.push((result.status, text(&result.content))),
                None => findings.add(session, format!("result of {}, which nobody called", result.call_id)),
            },
            _ => {}
        }
    }
    calls
}

/// What the provider called the calls that have their results in these logs.
pub(crate) fn finished(logs: &[(String, Vec<Event>)]) -> BTreeSet<String> {
    let mut ignored = Findings::default();
    let records: Vec<CallRecord> = logs
        .iter()
        .flat_map(|(session, events)| calls(session, events, &mut ignored).into_values())
        .collect();
    let records = records.into_iter();
    records.filter(|call| !call.finished.is_empty()).map(|call| call.provider_id).collect()
}

fn text(parts: &[Part]) -> String {
    parts.iter().filter_map(Part::as_text).collect()
}

/// What is compared with an account: what the server has of the session now.
pub(crate) struct Held<'a> {
    pub(crate) events: &'a [Event],
    /// Names of the messages that wait.
    pub(crate) queue: &'a [String],
    /// Everything the server tells to a watcher that knows nothing.
    pub(crate) told: &'a Entries,
    /// What was told and accepted up to this place of the trace counts.
    pub(crate) until: u64,
}

/// Checks that nothing was taken back of what the account says.
pub(crate) fn account(session: &str, account: &Account, held: &Held<'_>, findings: &mut Findings) {
    let entries = account.look();
    for (seq, told) in entries.told.iter().filter(|(_, told)| told.position <= held.until) {
        let now = held.told.told.get(seq).map(|told| told.texts.as_slice()).unwrap_or_default();
        for (index, text) in told.texts.iter().enumerate() {
            match now.get(index) {
                Some(now) if is_same(text, now) => {}
                Some(now) => findings.add(session, format!("{seq} was told as {}", difference(text, now))),
                None => findings.add(session, format!("{seq} was told and is gone: {text}")),
            }
        }
    }
    findings.extend(session, entries.complaints.clone());
    let history: Vec<String> = held.events.iter().filter_map(said).collect();
    for (words, sent) in &entries.sent {
        let said = history.iter().filter(|text| text.contains(words.as_str())).count();
        let id = sent.id.as_ref().filter(|_| sent.position <= held.until);
        let waits = id.is_some_and(|id| held.queue.contains(id));
        let kept = said + usize::from(waits);
        let removed = entries.removed.get(words).is_some_and(|position| *position <= held.until);
        match id {
            Some(_) if removed && kept > 0 => {
                findings.add(session, format!("{words} was removed, and is {kept} times"))
            }
            Some(_) if !removed && !sent.doubtful && kept != 1 => {
                findings.add(session, format!("{words} was accepted, and is {kept} times"))
            }
            _ if kept > 1 => findings.add(session, format!("{words} is {said} times")),
            _ => {}
        }
    }
}

/// What two texts say where they differ.
fn difference(before: &str, now: &str) -> String {
    let same = before.bytes().zip(now.bytes()).take_while(|(before, now)| before == now).count();
    let from = |text: &str| String::from_utf8_lossy(&text.as_bytes()[same.saturating_sub(80)..]).into_owned();
    let name: String = before.chars().take(40).collect();
    let shown = |text: &str| from(text).chars().take(160).collect::<String>();
    format!("{name} …{}\nand is …{}", shown(before), shown(now))
}

/// Checks that a watcher who never left a session to its end knows all of it.
pub(crate) fn complete(session: &str, account: &Account, told: &Entries, findings: &mut Findings) {
    let entries = account.look();
    for (seq, told) in told.told.iter().filter(|(seq, _)| !entries.told.contains_key(seq)) {
        findings.add(session, format!("{seq} was never told: {:?}", told.texts));
    }
}

/// Whether that is a user message that says so.
pub(crate) fn says(event: &Event, words: &str) -> bool {
    said(event).is_some_and(|text| text.contains(words))
}

/// What a user message says.
pub(crate) fn said(event: &Event) -> Option<String> {
    match &event.body {
        EventBody::MessagesTaken { message, .. } => Some(text(&message.parts)),
        _ => None,
    }
}

/// The file in which commands leave the names of their calls.
pub(crate) const EFFECTS: &str = "effects.log";

/// Checks what the calls of all sessions have left in the workspace.
pub(crate) fn effects(work: &Path, made: &[Made], logs: &[(String, Vec<Event>)], findings: &mut Findings) {
    let text = std::fs::read_to_string(work.join(EFFECTS)).unwrap_or_default();
    let mut marks: BTreeMap<&str, usize> = BTreeMap::new();
    for line in text.lines() {
        *marks.entry(line).or_default() += 1;
    }
    for (mark, count) in marks.iter().filter(|(_, count)| **count > 1) {
        findings.add("workspace", format!("{mark} ran {count} times"));
    }
    let marking: BTreeSet<&str> =
        made.iter().filter(|made| made.marks).map(|made| made.id.as_str()).collect();
    for mark in marks.keys().filter(|mark| !marking.contains(*mark)) {
        findings.add("workspace", format!("{mark} was never called"));
    }
    let mut known = BTreeSet::new();
    for (session, events) in logs {
        for (id, call) in calls(session, events, findings) {
            known.insert(call.provider_id.clone());
            let ran = marks.contains_key(call.provider_id.as_str());
            let finished = call.finished.first();
            let done = finished.is_some_and(|(status, _)| *status == ToolStatus::Completed);
            if ran && call.started == 0 {
                findings.add(session, format!("{id} ran and the log does not know: {call:?}"));
            }
            if done && !ran && marking.contains(call.provider_id.as_str()) {
                findings.add(session, format!("{id} is said to have run: {call:?}"));
            }
        }
    }
    for mark in marks.keys().filter(|mark| !known.contains(**mark)) {
        findings.add("workspace", format!("{mark} ran, and no log has the call"));
    }
}

/// Checks the database of a server that has ended.
pub(crate) async fn sound(data: &Path, findings: &mut Findings) {
    let file = data.join("longhaul.db");
    let mut db = SqliteConnectOptions::new().filename(file).connect().await.unwrap();
    for pragma in ["PRAGMA integrity_check", "PRAGMA foreign_key_check"] {
        let verdicts: Vec<String> = match sqlx::query(pragma).fetch_all(&mut db).await {
            Ok(rows) => rows.iter().map(|row| row.try_get(0).unwrap_or_default()).collect(),
            Err(error) => vec![error.to_string()],
        };
        // `integrity_check` answers one row, `ok`, and `foreign_key_check` none at all, if nothing is wrong.
        if !verdicts.iter().all(|verdict| verdict == "ok") {
            findings.add("database", format!("{pragma}: {verdicts:?}"));
        }
    }
    db.close().await.unwrap();
}
