//! `longhaul recall`: anything a session ever contained. The log is read; nothing is claimed or changed.

use longhaul::recall::Source;
use longhaul_core::event::Event;
use longhaul_core::history::History;
use longhaul_core::ids::{Handle, SessionId};
use longhaul_core::truncate::Limit;
use longhaul_store::{Blobs, SharedStore};
use serde_json::json;

use crate::args::RecallArgs;
use crate::failure::{DONE, Failure, Outcome};
use crate::lookup;
use crate::place::Place;
use crate::term::{out, text};

use super::reading;

/// A person has all the room they need.
const EVERYTHING: Limit = Limit { max_chars: u32::MAX as u64, max_tokens: u32::MAX as u64 };

/// Events read at a time.
const PAGE: usize = 2_000;

pub(crate) async fn run(args: RecallArgs, place: &Place) -> Outcome {
    let data = reading::usual(place).await?;
    let record = lookup::session(&data.store, &args.session).await?;
    let history = History::fold(&log(&data.store, &record.id).await?)?;
    let query = args.query.join(" ");
    let found = recall(&Source::of(&history), &data.blobs, &query, args.limit).await;
    data.store.close().await;
    let found = found?;
    let is_handle = query.parse::<Handle>().is_ok();
    // A terminal shows it; a pipe gets the bytes of an original exactly as they are.
    if place.terminal.output {
        out::line(text::visible(&found).trim_end_matches('\n'))?;
    } else if is_handle {
        out::data(&found)?;
    } else {
        out::line(found.trim_end_matches('\n'))?;
    }
    Ok(DONE)
}

/// The original that a handle names, or the passages that match a query best, at most `limit`.
///
/// # Errors
/// There is none.
pub(super) async fn recall(source: &Source, blobs: &Blobs, query: &str, limit: usize) -> Outcome<String> {
    let handle = query.parse::<Handle>().ok();
    let asked = match &handle {
        Some(handle) => json!({ "handle": handle.to_string() }),
        None => json!({ "query": query, "limit": limit }),
    };
    let found = longhaul::recall::recall(&asked.to_string(), source, blobs, &EVERYTHING).await;
    let found = found.map_err(|why| Failure::new(why.trim_start_matches("recall: ")))?;
    if handle.is_none() && found.starts_with("recall: nothing in this session matches") {
        return Err(Failure::new(format!("nothing in this session matches `{query}`")));
    }
    Ok(found)
}

/// The whole log of a session.
pub(super) async fn log(store: &SharedStore, id: &SessionId) -> Outcome<Vec<Event>> {
    let mut events: Vec<Event> = Vec::new();
    loop {
        let after = events.last().map_or(0, |event| event.seq);
        let page = store.read(id, after, PAGE).await?;
        let is_last = page.len() < PAGE;
        events.extend(page);
        if is_last {
            return Ok(events);
        }
    }
}
