//! Search over all sessions: titles, messages of people and models, and tool results, the newest session first.

use longhaul_core::event::{Event, EventBody};
use longhaul_core::ids::{LogHandle, LogRange, Millis, Seq};
use longhaul_core::message::{Part, Role};
use longhaul_store::{SessionRecord, StoreError};
use serde::Serialize;
use utoipa::ToSchema;

use crate::app::AppState;

/// The maximum number of sessions, and of events in all sessions, read by one query.
const SESSIONS: usize = 1_000;
const EVENTS: usize = 40_000;

/// The number of events per read.
const PAGE: usize = 500;

/// The maximum number of hits in one session; the newest ones.
// One long session would otherwise fill the page.
const OF_A_SESSION: usize = 3;

/// The length of a passage before the hit and in all, in characters.
const BEFORE: usize = 60;
const PASSAGE: usize = 240;

/// What was found, and whether everything was looked through.
#[derive(Debug, Default, Serialize, ToSchema)]
#[schema(as = Found)]
pub(crate) struct SearchResponse {
    pub(crate) hits: Vec<SearchHit>,
    /// Whether nothing was left out; else there were too many hits, too much to look through, or damage.
    pub(crate) complete: bool,
}

/// A message, or a title, that has all the words.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Hit)]
pub(crate) struct SearchHit {
    session_id: String,
    #[schema(required)]
    title: Option<String>,
    /// Where the message is; `null` for a title.
    #[schema(required, value_type = Option<u64>)]
    seq: Option<Seq>,
    /// What recalls the whole message; `null` for a title.
    #[schema(required)]
    handle: Option<String>,
    #[schema(required, value_type = Option<u64>)]
    at: Option<Millis>,
    #[schema(required, value_type = Option<crate::openapi::part::RoleSchema>)]
    role: Option<Role>,
    /// The words and what stands around them.
    text: String,
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
    let mut found = SearchResponse { complete: records.len() <= SESSIONS, ..SearchResponse::default() };
    // The budget is one for all sessions, so that a query takes bounded time however many there are.
    let mut left = EVENTS;
    for record in records.iter().take(SESSIONS) {
        if found.hits.len() >= limit || left == 0 {
            found.complete = false;
            break;
        }
        found.hits.extend(in_title(record, &words));
        match in_log(app, record, &words, &mut left).await {
            Ok(of_log) => {
                found.hits.extend(of_log.hits);
                found.complete &= of_log.is_all;
            }
            // The session was deleted in the meantime.
            Err(StoreError::NotFound(_)) => {}
            Err(error) => return Err(error),
        }
    }
    if found.hits.len() > limit {
        found.hits.truncate(limit);
        found.complete = false;
    }
    tracing::debug!(
        sessions = records.len(),
        words = words.len(),
        events_read = EVENTS - left,
        hits = found.hits.len(),
        complete = found.complete,
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
struct LogSearchHits {
    /// The newest hits, the newest first.
    hits: Vec<SearchHit>,
    /// Set if there are no other hits.
    is_all: bool,
}

/// Searches a log from its end, as long as `left` lasts.
async fn in_log(
    app: &AppState,
    record: &SessionRecord,
    words: &[String],
    left: &mut usize,
) -> Result<LogSearchHits, StoreError> {
    let mut found = LogSearchHits { hits: Vec::new(), is_all: true };
    let mut last = record.last_seq;
    while last > 0 {
        if *left == 0 {
            found.is_all = false;
            break;
        }
        let count = PAGE.min(*left).min(usize::try_from(last).unwrap_or(PAGE));
        let after = last - count as u64;
        let page = app.runtime().store().read_undamaged(&record.id, after, count).await?;
        // Damaged events count as well: they were read.
        *left -= count;
        last = after;
        // The text of a damaged event is unknown, so the result is incomplete.
        found.is_all &= page.damaged.is_empty();
        for event in page.events.iter().rev() {
            let text = said(event).and_then(|(role, parts)| Some((role, in_parts(parts, words)?)));
            let Some((role, text)) = text else { continue };
            if found.hits.len() == OF_A_SESSION {
                found.is_all = false;
                return Ok(found);
            }
            found.hits.push(SearchHit {
                seq: Some(event.seq),
                handle: Some(LogHandle(LogRange::one(event.seq)).to_string()),
                at: Some(event.at),
                role: Some(role),
                ..hit(record, text)
            });
        }
    }
    Ok(found)
}

/// Returns the content of a message, or of a tool result as the model was shown it.
fn said(event: &Event) -> Option<(Role, &[Part])> {
    match &event.body {
        EventBody::MessagesTaken { message, .. } | EventBody::AssistantAdded { message, .. } => {
            Some((message.role, &message.parts))
        }
        EventBody::ToolFinished { result } => Some((Role::Tool, &result.content)),
        _ => None,
    }
}

fn in_parts(parts: &[Part], words: &[String]) -> Option<String> {
    let texts: Vec<&str> = parts.iter().filter_map(Part::as_text).collect();
    passage(&texts.join("\n"), words)
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
