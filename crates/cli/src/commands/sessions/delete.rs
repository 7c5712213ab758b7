//! `longhaul sessions delete`: for good, and only after a yes.

use std::io;

use longhaul::config::AgentConfig;
use longhaul_store::{SessionRecord, SharedStore, UNTOUCHED};

use crate::data::{self, DataStores};
use crate::environment::CliEnvironment;
use crate::failure::{CommandError, DONE, Outcome};
use crate::session_lookup;
use crate::term::human::{count, grouped};
use crate::term::out;
use crate::term::text::one_line;

use super::super::reading;

pub(super) async fn run(place: &CliEnvironment, sessions: &[String], yes: bool) -> Outcome {
    let asks = place.terminal.input && place.terminal.messages;
    if !yes && !asks {
        return Err(CommandError::usage(
            "nothing was deleted: a deletion cannot be undone, and there is no terminal to ask at; confirm it with \
             --yes",
        ));
    }
    let data = reading::usual(place).await?;
    let meant = meant(place, &data.store, sessions).await;
    data.store.close().await;
    let meant = meant?;
    // The store is closed while the question waits, so no other process has to wait for the answer.
    if !yes && !asked(&meant)? {
        out::message("nothing was deleted\n");
        return Ok(DONE);
    }
    let data = data::open(place, AgentConfig::default().blobs.max_bytes).await?;
    let mut done = delete(&data.store, &meant).await;
    if done.is_ok() {
        done = sweep(&data).await;
    }
    data.store.close().await;
    done.map(|()| DONE)
}

async fn delete(store: &SharedStore, meant: &[SessionRecord]) -> Outcome<()> {
    for record in meant {
        store.delete(&record.id).await?;
        out::print_line(&format!("deleted {}", record.id))?;
    }
    Ok(())
}

/// Removes content that no session names any more, in its log or in its queue.
async fn sweep(data: &DataStores) -> Outcome<()> {
    let Some(upkeep) = &data.upkeep else { return Ok(()) };
    // A young blob may belong to an event that is not stored yet.
    let (blobs, bytes) = data.blobs.keep_only(&upkeep.named_blobs().await?, UNTOUCHED).await?;
    if blobs > 0 {
        let (files, bytes) = (count(blobs, "file"), grouped(bytes));
        out::message(&format!(
            "images and outputs that no session names any more are removed: {files}, {bytes} bytes\n"
        ));
    }
    Ok(())
}

/// Resolves all names before the first deletion: `last` means another session afterwards.
async fn meant(
    place: &CliEnvironment,
    store: &SharedStore,
    sessions: &[String],
) -> Outcome<Vec<SessionRecord>> {
    let mut meant: Vec<SessionRecord> = Vec::new();
    for name in sessions {
        let record = session_lookup::session(place, store, name).await?;
        // One session may be named twice, by its id and as `last`.
        if meant.iter().all(|other| other.id != record.id) {
            meant.push(record);
        }
    }
    Ok(meant)
}

/// Asks the person. Any answer but `y` or `yes` is a no.
fn asked(meant: &[SessionRecord]) -> Outcome<bool> {
    for record in meant {
        let title = one_line(record.title.as_deref().unwrap_or("(no title)"));
        out::message(&format!("{}  {title} · {}\n", record.id, count(record.last_seq, "event")));
    }
    let what =
        if meant.len() == 1 { "this session".to_owned() } else { format!("these {} sessions", meant.len()) };
    out::message(&format!("delete {what} for good? y/N "));
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(is_yes(&answer))
}

fn is_yes(answer: &str) -> bool {
    // Anything but a clear yes is a no: the deletion cannot be undone.
    matches!(answer.trim().to_lowercase().as_str(), "y" | "yes")
}

#[cfg(test)]
mod tests {
    use super::is_yes;

    #[test]
    fn only_a_yes_is_a_yes() {
        assert!(["y\n", " Yes \n", "YES"].into_iter().all(is_yes));
        assert!(!["", "\n", "n\n", "yep\n", "y n\n"].into_iter().any(is_yes));
    }
}
