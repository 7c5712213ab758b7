//! A search over the sessions of a data folder.

use longhaul::session::whole_log;
use longhaul_core::history::{History, LogEntry, LogEntryKind};
use longhaul_core::ids::{LogHandle, LogRange};
use longhaul_core::message::Part;
use longhaul_core::recall::{PassageHit, SearchIndex, SearchLimits, search as ranked};
use longhaul_store::{SessionRecord, SharedStore};

use crate::failure::Outcome;
use crate::session_lookup::ALL;
use crate::term::human::count;

/// The number of hits if a call names none.
const HITS: usize = 5;

/// The size of the searched text at which no older session is added, in bytes. Each search reads the text again.
const MOST_BYTES: usize = 64 << 20;

/// A message of a session.
struct HistoryMessage {
    session: usize,
    handle: LogHandle,
    speaker: String,
    text: String,
}

/// Returns the messages that match a query best, in words.
///
/// # Errors
/// The data folder cannot be read.
pub(super) async fn search(store: &SharedStore, query: &str, limit: Option<usize>) -> Outcome<String> {
    let records = store.sessions(ALL).await?;
    let (mut all, mut bytes, mut searched) = (Vec::new(), 0, 0);
    for (at, record) in records.iter().enumerate() {
        // The newest sessions come first, so a full budget leaves out the oldest.
        if bytes > MOST_BYTES {
            break;
        }
        searched += 1;
        // An unreadable session must not hide the others.
        match session_messages(store, record, at).await {
            Ok(said) => {
                bytes += said.iter().map(|said| said.text.len()).sum::<usize>();
                all.extend(said);
            }
            Err(failure) => tracing::warn!("session {} is not searched: {}", record.id, failure.message()),
        }
    }
    let mut index = SearchIndex::default();
    // The position in the index is the position in `all`, so the returned number is not needed.
    all.iter().for_each(|said| _ = index.add(&said.text));
    let extent = SearchLimits::of(limit.unwrap_or(HITS));
    let hits = ranked(&index, query, all.len(), extent, |_| 1.0, |at| all[at].text.as_str());
    Ok(told(&records, &all, &hits, searched, query))
}

async fn session_messages(
    store: &SharedStore,
    record: &SessionRecord,
    session: usize,
) -> Outcome<Vec<HistoryMessage>> {
    let history = History::fold(&whole_log(store, &record.id).await?)?;
    let said = history.entries().iter().filter(|entry| !is_recalled(entry)).map(|entry| HistoryMessage {
        session,
        handle: LogHandle(LogRange::one(entry.seq)),
        speaker: speaker(entry),
        text: text(&entry.message.parts),
    });
    Ok(said.collect())
}

/// Reports whether an entry is a recalled text. A search would only find such a text twice.
fn is_recalled(entry: &LogEntry) -> bool {
    matches!(&entry.kind, LogEntryKind::Result { tool } if tool == longhaul::recall::NAME)
}

fn speaker(entry: &LogEntry) -> String {
    match &entry.kind {
        LogEntryKind::Typed => "user".to_owned(),
        LogEntryKind::Assistant(_) => "assistant".to_owned(),
        LogEntryKind::Result { tool } => format!("result of {tool}"),
        _ => "note".to_owned(),
    }
}

/// Returns the part of a message that a person could read.
fn text(parts: &[Part]) -> String {
    let mut all = String::new();
    for part in parts {
        match part {
            Part::Text(part) => all.push_str(&part.text),
            Part::ToolCall(call) => all.push_str(&format!("\n[call {} {}]", call.name, call.arguments)),
            Part::ToolResult(result) => all.push_str(&text(&result.content)),
            Part::Image(media) | Part::File(media) => all.extend(media.name.as_deref()),
            _ => {}
        }
    }
    all
}

fn told(
    records: &[SessionRecord],
    all: &[HistoryMessage],
    hits: &[PassageHit],
    searched: usize,
    query: &str,
) -> String {
    let mut told = String::new();
    for hit in hits {
        let said = &all[hit.at];
        let record = &records[said.session];
        let title = record.title.as_deref().unwrap_or("no title");
        told.push_str(&format!("── session {} · {title}\n<{} {}>\n", record.id, said.speaker, said.handle));
        told.push_str(&format!("{}\n\n", hit.snippet.trim_end()));
    }
    if hits.is_empty() {
        told = format!("nothing matches `{query}`\n\n");
    }
    let sessions = count(searched as u64, "session");
    let left = match records.len() - searched {
        0 => String::new(),
        left => format!("; {} older not searched", count(left as u64, "session")),
    };
    format!("{told}({sessions} searched{left})")
}
