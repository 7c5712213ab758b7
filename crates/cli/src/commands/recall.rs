//! `longhaul recall`: anything a session ever contained. The log is read; nothing is claimed or changed.

use longhaul::recall::RecallSource;
use longhaul::session::whole_log;
use longhaul_core::history::{History, ViewEditState};
use longhaul_core::ids::LogHandle;
use longhaul_core::truncate::TextLimit;
use longhaul_store::BlobStore;
use serde_json::{Value, json};

use crate::args::RecallArgs;
use crate::environment::CliEnvironment;
use crate::failure::{CommandError, DONE, Outcome};
use crate::session_lookup;
use crate::term::{out, text};

use super::reading;

/// No limit: a person's terminal has no context window. `u32` keeps sums of these numbers from overflowing.
const EVERYTHING: TextLimit = TextLimit { max_chars: u32::MAX as u64, max_tokens: u32::MAX as u64 };

/// The maximum number of an edit's handles in an error.
const COVERS: usize = 6;

pub(crate) async fn run(args: RecallArgs, place: &CliEnvironment) -> Outcome {
    let data = reading::usual(place).await?;
    let record = session_lookup::session(place, &data.store, &args.session).await?;
    let history = History::fold(&whole_log(&data.store, &record.id).await?)?;
    let query = args.query.join(" ");
    let undo = place.command(&format!("undo {}", args.session));
    let found = match check(&query, &history, &undo) {
        Ok(()) => recall(&RecallSource::of(&history), &data.blobs, &query, args.limit).await,
        Err(failure) => Err(failure),
    };
    data.store.close().await;
    let found = found?;
    let is_handle = !handles(&query).is_empty();
    // A terminal shows it; a pipe gets the bytes of an original exactly as they are.
    if place.terminal.output {
        out::print_line(text::visible(&found).trim_end_matches('\n'))?;
    } else if is_handle {
        out::data(&found)?;
    } else {
        out::print_line(found.trim_end_matches('\n'))?;
    }
    Ok(DONE)
}

/// Refuses a query with the look of a handle but without a target in this session.
///
/// # Errors
/// The text has another form, names an edit, or names a place where nothing is stored.
pub(super) fn check(query: &str, history: &History, undo: &str) -> Outcome<()> {
    let words: Vec<&str> = words(query).collect();
    if words.is_empty() || !words.iter().all(|word| word.starts_with("lh:")) {
        // People take the id of an edit for a handle, because both stand in one row.
        let edit = history.edits().iter().find(|state| state.edit.id.as_str() == query.trim());
        let Some(ViewEditState { edit, .. }) = edit else { return Ok(()) };
        let handles: Vec<String> = edit.ops.iter().map(|op| LogHandle(op.range()).to_string()).collect();
        let covers = handles.iter().take(COVERS).cloned().collect::<Vec<_>>().join(" ");
        let more = if handles.len() > COVERS { " …" } else { "" };
        return Err(CommandError::new(format!(
            "{id} is an edit of the view, not a handle: it covers {covers}{more}, which recall returns; \
             `{undo} {id}` undoes it",
            id = edit.id
        )));
    }
    for word in words {
        let LogHandle(range) = word.parse()?;
        if !history.entries().iter().any(|entry| range.contains(entry.seq)) {
            let all = history.entries().iter().map(|entry| entry.seq);
            let nearest = all.min_by_key(|seq| range.from.abs_diff(*seq).min(range.to.abs_diff(*seq)));
            let nearest = nearest.map(|seq| format!("; the nearest is lh:{seq}")).unwrap_or_default();
            return Err(CommandError::new(format!(
                "nothing is stored under {word} in this session{nearest}"
            )));
        }
    }
    Ok(())
}

/// Returns the original behind a handle, or several originals, each under its handle. For other queries
/// the result is the best passages, at most `limit`.
///
/// # Errors
/// The original does not exist.
pub(super) async fn recall(
    source: &RecallSource,
    blobs: &BlobStore,
    query: &str,
    limit: usize,
) -> Outcome<String> {
    match &*handles(query) {
        [] => {
            let found = answer(json!({ "query": query, "limit": limit }), source, blobs).await?;
            // The tool answers a model, for which no hit is no error. Its words are the only sign.
            if found.starts_with("recall: nothing in this session matches") {
                Err(CommandError::new(format!("nothing in this session matches `{query}`")))
            } else {
                Ok(found)
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

/// Returns the handles of a query of nothing but handles: as pasted, with blanks or commas
/// between them.
fn handles(query: &str) -> Vec<LogHandle> {
    words(query).map(|word| word.parse().ok()).collect::<Option<Vec<LogHandle>>>().unwrap_or_default()
}

fn words(query: &str) -> impl Iterator<Item = &str> {
    query.split(|c: char| c.is_whitespace() || c == ',').filter(|word| !word.is_empty())
}

async fn original(handle: &LogHandle, source: &RecallSource, blobs: &BlobStore) -> Outcome<String> {
    answer(json!({ "handle": handle.to_string() }), source, blobs).await
}

async fn answer(asked: Value, source: &RecallSource, blobs: &BlobStore) -> Outcome<String> {
    let found = longhaul::recall::recall(&asked.to_string(), source, blobs, &EVERYTHING).await;
    // The prefix names the tool for a model, and a command needs none.
    found.map_err(|why| CommandError::new(why.trim_start_matches("recall: ")))
}
