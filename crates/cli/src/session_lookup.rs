//! Finds a session by a person's words: `last`, an id, or an id's unique prefix.

use longhaul_store::{SessionRecord, SharedStore};

use crate::environment::CliEnvironment;
use crate::failure::{CommandError, Outcome};

/// A limit above any real number of sessions.
pub(crate) const ALL: usize = 1_000_000;

/// The minimum length of a shown id prefix.
const SHORTEST: usize = 8;

/// Finds a session.
///
/// # Errors
/// No session, or several, are meant.
pub(crate) async fn session(
    place: &CliEnvironment,
    store: &SharedStore,
    meant: &str,
) -> Outcome<SessionRecord> {
    // All are read, because only a look at all of them tells whether the beginning of an id is unique.
    let records = store.sessions(ALL).await?;
    choose(place, records, meant)
}

fn choose(place: &CliEnvironment, records: Vec<SessionRecord>, meant: &str) -> Outcome<SessionRecord> {
    if records.is_empty() {
        let chat = place.command_with_model("chat");
        return Err(CommandError::new(format!("there is no session yet; begin one with `{chat}`")));
    }
    // The store lists the newest session first, and that one is `last`.
    let mut found =
        records.into_iter().filter(|record| meant == "last" || record.id.as_str().starts_with(meant));
    let first = found.next().filter(|_| !meant.is_empty());
    let Some(first) = first else {
        return Err(CommandError::new(format!(
            "no session begins with `{meant}`; `{}` shows them",
            place.command("sessions list")
        )));
    };
    // A whole id is meant exactly, even if it begins another one.
    let others = if meant == "last" || first.id.as_str() == meant { 0 } else { found.count() };
    match others {
        0 => {
            tracing::debug!(session = %first.id, "the session that is meant is found");
            Ok(first)
        }
        others => Err(CommandError::new(format!(
            "{} sessions begin with `{meant}`; give more of the id",
            others + 1
        ))),
    }
}

/// Returns the length of unique id prefixes of the sessions.
pub(crate) fn shown_length(records: &[SessionRecord]) -> usize {
    let mut ids: Vec<&str> = records.iter().map(|record| record.id.as_str()).collect();
    ids.sort_unstable();
    // In sorted order the ids with the longest common start are neighbours.
    let common = ids.windows(2).map(|pair| {
        let same = pair[0].bytes().zip(pair[1].bytes()).take_while(|(left, right)| left == right);
        same.count() + 1
    });
    common.max().unwrap_or(SHORTEST).max(SHORTEST)
}

#[cfg(test)]
mod tests {
    use super::{CliEnvironment, Outcome, choose, shown_length};
    use longhaul_store::SessionRecord;

    fn record(id: &str) -> SessionRecord {
        SessionRecord {
            id: id.into(),
            title: None,
            created_at: 0,
            updated_at: 0,
            last_seq: 1,
            queued: 0,
            running: false,
            parked: false,
        }
    }

    #[test]
    fn a_start_that_is_unique_is_enough() {
        assert_eq!(id_of("last").unwrap(), "0199aa-1", "the first is the newest");
        assert_eq!(id_of("0199aa").unwrap(), "0199aa-1");
        assert_eq!(id_of("0199ab-2").unwrap(), "0199ab-2", "a whole id is never ambiguous");
        assert!(id_of("0199ab").unwrap_err().message().starts_with("2 sessions"));
        assert!(id_of("x").unwrap_err().message().contains("no session"));
        assert!(id_of("").is_err());
    }

    fn id_of(meant: &str) -> Outcome<String> {
        choose(
            &CliEnvironment::default(),
            vec![record("0199aa-1"), record("0199ab-2"), record("0199ab-23")],
            meant,
        )
        .map(|found| found.id.as_str().to_owned())
    }

    #[test]
    fn ids_are_shown_as_far_as_they_differ() {
        assert_eq!(shown_length(&[record("0199aabbcc")]), 8);
        assert_eq!(shown_length(&[record("0199aabbcc1"), record("0199aabbcc2")]), 11);
    }
}
