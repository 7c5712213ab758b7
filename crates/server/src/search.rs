//! Search over all sessions: titles, messages, arguments of tool calls and tool results, the newest session first.
//!
//! Output that was truncated for the model and attached text files are read from the blob store, within a budget.

mod searchable;

use std::collections::BTreeSet;

use longhaul_core::event::Event;
use longhaul_core::ids::{LogHandle, LogRange, Millis, Seq};
use longhaul_core::message::Role;
use longhaul_store::{SessionRecord, StoreError};
use serde::Serialize;
use utoipa::ToSchema;

use self::searchable::SearchableMessage;
use crate::app::AppState;

/// The maximum number of sessions, and of events in all sessions, read by one query.
const SESSIONS: usize = 1_000;
const EVENTS: usize = 40_000;

/// The maximum number of bytes read by one query from the blobs of all sessions, and from one blob.
const BLOB_BYTES: u64 = 64 << 20;
const BYTES_OF_A_BLOB: u64 = 8 << 20;

/// The number of events per read.
const PAGE: usize = 500;

/// The maximum number of hits in one session; the newest ones.
// One long session would otherwise fill the page.
const OF_A_SESSION: usize = 3;

/// The length of a passage before the hit and in all, in characters.
const BEFORE: usize = 60;
const PASSAGE: usize = 240;

/// The hits of a search, and whether the search was complete.
#[derive(Debug, Default, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Found)]
pub(crate) struct SearchResponse {
    pub(crate) hits: Vec<SearchHit>,
    /// `true` if the search covered everything.
    pub(crate) complete: bool,
    /// The gaps of the search; empty if the answer is complete.
    #[schema(value_type = Vec<SearchGap>)]
    pub(crate) incomplete_reasons: BTreeSet<SearchGap>,
}

/// A part of the sessions that a search left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum SearchGap {
    /// There are more hits than were asked for, or than are given of one session.
    MoreHits,
    /// There are more sessions than one query reads.
    TooManySessions,
    /// There are more events than one query reads.
    TooManyEvents,
    /// There is more truncated output and attached text than one query reads.
    TooMuchContent,
    /// Something is damaged or missing, so its text is unknown.
    Damage,
}

/// A message or title that contains all words of the query.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Hit)]
pub(crate) struct SearchHit {
    session_id: String,
    #[schema(required)]
    title: Option<String>,
    /// The position of the message; `null` for a title.
    #[schema(required, value_type = Option<u64>)]
    seq: Option<Seq>,
    /// The handle that recalls the whole message; `null` for a title.
    #[schema(required)]
    handle: Option<String>,
    #[schema(required, value_type = Option<u64>)]
    at: Option<Millis>,
    #[schema(required, value_type = Option<crate::openapi::part::RoleSchema>)]
    role: Option<Role>,
    /// An excerpt with the matching words.
    text: String,
}

/// The amount that a query may still read, for all sessions together. It bounds the time of a query.
struct SearchBudget {
    events: usize,
    blob_bytes: u64,
}

/// Searches the sessions for all words of `query`, ignoring case.
///
/// # Errors
/// The store's.
pub(crate) async fn search(app: &AppState, query: &str, limit: usize) -> Result<SearchResponse, StoreError> {
    let words: Vec<String> = query.split_whitespace().map(str::to_lowercase).collect();
    let store = app.runtime().store();
    // One session more than is searched tells whether any is left out.
    let records = store.sessions(SESSIONS + 1).await?;
    let mut found = SearchResponse::default();
    if records.len() > SESSIONS {
        found.incomplete_reasons.insert(SearchGap::TooManySessions);
    }
    let mut left = SearchBudget { events: EVENTS, blob_bytes: BLOB_BYTES };
    for record in records.iter().take(SESSIONS) {
        if found.hits.len() >= limit {
            found.incomplete_reasons.insert(SearchGap::MoreHits);
            break;
        }
        if left.events == 0 {
            found.incomplete_reasons.insert(SearchGap::TooManyEvents);
            break;
        }
        found.hits.extend(in_title(record, &words));
        match in_log(app, record, &words, &mut left).await {
            Ok(of_log) => {
                found.hits.extend(of_log.hits);
                found.incomplete_reasons.extend(of_log.gaps);
            }
            // The session was deleted in the meantime.
            Err(StoreError::NotFound(_)) => {}
            Err(error) => return Err(error),
        }
    }
    if found.hits.len() > limit {
        found.hits.truncate(limit);
        found.incomplete_reasons.insert(SearchGap::MoreHits);
    }
    found.complete = found.incomplete_reasons.is_empty();
    tracing::debug!(
        sessions = records.len(),
        words = words.len(),
        events_read = EVENTS - left.events,
        blob_bytes_read = BLOB_BYTES - left.blob_bytes,
        hits = found.hits.len(),
        left_out = ?found.incomplete_reasons,
        "sessions were searched"
    );
    Ok(found)
}

fn in_title(record: &SessionRecord, words: &[String]) -> Option<SearchHit> {
    let text = passage(record.title.as_deref()?, words)?;
    Some(hit(record, text))
}

fn hit(record: &SessionRecord, text: String) -> SearchHit {
    let (session_id, title) = (record.id.to_string(), record.title.clone());
    SearchHit { session_id, title, seq: None, handle: None, at: None, role: None, text }
}

/// The hits in one log.
#[derive(Default)]
struct LogSearchHits {
    /// The newest hits, the newest first.
    hits: Vec<SearchHit>,
    gaps: BTreeSet<SearchGap>,
}

/// Searches a log from its end, as long as `left` lasts.
async fn in_log(
    app: &AppState,
    record: &SessionRecord,
    words: &[String],
    left: &mut SearchBudget,
) -> Result<LogSearchHits, StoreError> {
    let mut found = LogSearchHits::default();
    let mut last = record.last_seq;
    while last > 0 {
        if left.events == 0 {
            found.gaps.insert(SearchGap::TooManyEvents);
            break;
        }
        let count = PAGE.min(left.events).min(usize::try_from(last).unwrap_or(PAGE));
        let after = last - count as u64;
        let page = app.runtime().store().read_undamaged(&record.id, after, count).await?;
        // Damaged events count as well: they were read.
        left.events -= count;
        last = after;
        if !page.damaged.is_empty() {
            found.gaps.insert(SearchGap::Damage);
        }
        for event in page.events.iter().rev() {
            let Some(message) = SearchableMessage::of(event) else { continue };
            let text = match message.passage(words) {
                Some(text) => Some(text),
                None => message.passage_with_blobs(app, words, left, &mut found.gaps).await,
            };
            let Some(text) = text else { continue };
            if found.hits.len() == OF_A_SESSION {
                found.gaps.insert(SearchGap::MoreHits);
                return Ok(found);
            }
            found.hits.push(message_hit(record, event, message.role, text));
        }
    }
    Ok(found)
}

fn message_hit(record: &SessionRecord, event: &Event, role: Role, text: String) -> SearchHit {
    SearchHit {
        seq: Some(event.seq),
        handle: Some(LogHandle(LogRange::one(event.seq)).to_string()),
        at: Some(event.at),
        role: Some(role),
        ..hit(record, text)
    }
}

/// Returns the passage around the first of the words, if all words occur.
fn passage(text: &str, words: &[String]) -> Option<String> {
    let small = text.to_lowercase();
    let mut first = usize::MAX;
    for word in words {
        // A missing word ends the search here, so `first` never stays at its start value for a query with words.
        first = first.min(small.find(word.as_str())?);
    }
    let at = small.get(..first).map_or(0, |before| source_position(text, before.chars().count()));
    let begins = at.saturating_sub(BEFORE);
    let shown: String = text.chars().skip(begins).take(PASSAGE).collect();
    let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    // `nth` stops at the passage. Counting would walk through the whole text.
    let more = text.chars().nth(begins + PASSAGE).is_some();
    Some(format!("{}{shown}{}", if begins > 0 { "…" } else { "" }, if more { "…" } else { "" }))
}

/// Converts a position in the lower-cased `text` to a position in `text` itself; both count characters.
fn source_position(text: &str, lowered_chars: usize) -> usize {
    // Lower case may change the number of characters: `İ` becomes `i` and a combining dot.
    let mut covered = 0;
    text.chars()
        .take_while(|c| {
            covered += c.to_lowercase().count();
            covered <= lowered_chars
        })
        .count()
}

#[cfg(test)]
mod tests {
    use super::passage;

    fn found(text: &str, query: &str) -> Option<String> {
        let words: Vec<String> = query.split_whitespace().map(str::to_lowercase).collect();
        passage(text, &words)
    }

    #[test]
    fn all_words_are_there_and_what_stands_around_is_shown() {
        assert_eq!(found("The Quick brown fox", "QUICK fox").as_deref(), Some("The Quick brown fox"));
        assert_eq!(found("The quick brown fox", "quick cat"), None);
        let long = format!("{} needle {}", "x ".repeat(200), "y ".repeat(200));
        let shown = found(&long, "needle").unwrap();
        assert!(shown.starts_with('…') && shown.ends_with('…') && shown.contains("needle"), "{shown}");
        assert!(shown.chars().count() <= 242);
        assert!(found("İİİİİİ straße ẞ", "straße").is_some());
    }

    #[test]
    fn a_passage_shows_its_hit_behind_letters_whose_lower_case_is_longer() {
        let text = format!("{} needle {}", "İ".repeat(300), "y ".repeat(200));
        let shown = found(&text, "needle").unwrap();
        assert!(shown.contains("needle"), "{shown}");
        let before: String = shown.chars().skip(1).take_while(|c| *c != 'n').collect();
        assert_eq!(before, format!("{} ", "İ".repeat(59)), "60 characters stand before the hit");
    }

    #[test]
    fn a_position_inside_a_longer_lower_case_letter_is_the_position_of_that_letter() {
        assert_eq!([0, 1, 2, 3].map(|lowered| super::source_position("İx", lowered)), [0, 0, 1, 2]);
    }
}
