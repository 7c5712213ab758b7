//! `longhaul recall`: anything a session ever contained. The log is read; nothing is claimed or changed.

use longhaul::recall::Source;
use longhaul::session::whole_log;
use longhaul_core::history::History;
use longhaul_core::ids::Handle;
use longhaul_core::truncate::Limit;
use longhaul_store::Blobs;
use serde_json::{Value, json};

use crate::args::RecallArgs;
use crate::failure::{DONE, Failure, Outcome};
use crate::lookup;
use crate::place::Place;
use crate::term::{out, text};

use super::reading;

/// A person has all the room they need.
const EVERYTHING: Limit = Limit { max_chars: u32::MAX as u64, max_tokens: u32::MAX as u64 };

pub(crate) async fn run(args: RecallArgs, place: &Place) -> Outcome {
    let data = reading::usual(place).await?;
    let record = lookup::session(place, &data.store, &args.session).await?;
    let history = History::fold(&whole_log(&data.store, &record.id).await?)?;
    let query = args.query.join(" ");
    let found = recall(&Source::of(&history), &data.blobs, &query, args.limit).await;
    data.store.close().await;
    let found = found?;
    let is_handle = !handles(&query).is_empty();
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

/// The original that a handle names, those of several one after the other, each under its handle, or the passages
/// that match a query best, at most `limit`.
///
/// # Errors
/// There is none.
pub(super) async fn recall(source: &Source, blobs: &Blobs, query: &str, limit: usize) -> Outcome<String> {
    match &*handles(query) {
        [] => {
            let found = answer(json!({ "query": query, "limit": limit }), source, blobs).await?;
            match found.starts_with("recall: nothing in this session matches") {
                true => Err(Failure::new(format!("nothing in this session matches `{query}`"))),
                false => Ok(found),
            }
        }
        [one] => original(one, source, blobs).await,
        several => {
            let mut text = String::new();
            for handle in several {
                let found = original(handle, source, blobs).await?;
                text.push_str(&format!("── {handle}\n{}\n\n", found.trim_end_matches('\n')));
            }
            Ok(text)
        }
    }
}

/// The handles of a query that consists of nothing else: as they are pasted, with blanks or commas between them.
fn handles(query: &str) -> Vec<Handle> {
    let words = query.split(|c: char| c.is_whitespace() || c == ',').filter(|word| !word.is_empty());
    words.map(|word| word.parse().ok()).collect::<Option<Vec<Handle>>>().unwrap_or_default()
}

async fn original(handle: &Handle, source: &Source, blobs: &Blobs) -> Outcome<String> {
    answer(json!({ "handle": handle.to_string() }), source, blobs).await
}

async fn answer(asked: Value, source: &Source, blobs: &Blobs) -> Outcome<String> {
    let found = longhaul::recall::recall(&asked.to_string(), source, blobs, &EVERYTHING).await;
    found.map_err(|why| Failure::new(why.trim_start_matches("recall: ")))
}
