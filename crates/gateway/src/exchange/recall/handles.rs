//! Stable recall handles. The conversation's log counts its own edits as positions, and their places depend on the time
//! of each edit. A handle for the model therefore counts only the client's items.

use longhaul_core::history::CLEARED;
use longhaul_core::ids::{LogHandle, LogRange, Seq};
use longhaul_core::truncate::MARKER;

/// The text between two handles.
const OR: &str = " or ";

/// The texts that precede the first handle in a text of the gateway, without digits. Handles behind any other text
/// belong to somebody else. The last text of each kind was written by earlier versions; clients and the memo of
/// prefixes still have it.
const BEGINNINGS: [&str; 4] = [
    "[SUMMARY] of  earlier messages: ",
    "[SUMMARY] of  earlier messages; the tool `recall` with handle ",
    "[ earlier messages were removed here to make room: ",
    "[ earlier messages were removed here to make room. The tool `recall` with handle ",
];

/// The texts before a handle behind [`CLEARED`] and the truncation marker.
const BEHIND_CLEARED: [&str; 2] = [" ", " The tool `recall` with handle "];

fn is_ours(beginning: &str) -> bool {
    // The texts hold the number of messages, which differs each time.
    let numberless: String = beginning.chars().filter(|char| !char.is_ascii_digit()).collect();
    BEGINNINGS.contains(&numberless.as_str())
        || [CLEARED, MARKER]
            .iter()
            .any(|first| beginning.strip_prefix(first).is_some_and(|more| BEHIND_CLEARED.contains(&more)))
}

/// Returns a text of the gateway with its own handles mapped by `to`. Quoted text keeps its handles.
pub(in crate::exchange) fn moved(text: &str, to: impl Fn(Seq) -> Seq) -> String {
    let Some(at) = text.find(START).filter(|at| is_ours(&text[..*at])) else { return text.to_owned() };
    let (before, mut rest) = text.split_at(at);
    let mut all = before.to_owned();
    loop {
        let end = rest.find(|char: char| !is_of_handle(char)).unwrap_or(rest.len());
        let (handle, behind) = rest.split_at(end);
        // A text may quote the beginning of a handle, so what cannot be parsed stays as it is.
        let Ok(LogHandle(LogRange { from, to: last })) = handle.parse::<LogHandle>() else { break };
        all.push_str(&LogHandle(LogRange { from: to(from), to: to(last) }).to_string());
        rest = behind;
        match rest.strip_prefix(OR) {
            Some(next) if next.starts_with(START) => {
                all.push_str(OR);
                rest = next;
            }
            _ => break,
        }
    }
    all.push_str(rest);
    all
}

/// The prefix of a handle.
const START: &str = "lh:";

fn is_of_handle(char: char) -> bool {
    char.is_ascii_digit() || "lh:-".contains(char)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_handles_move_and_nothing_else_does() {
        let down = |seq: Seq| seq - 1;
        let moved = |text: &str| moved(text, down);
        assert_eq!(
            moved("[SUMMARY] of 9 earlier messages: lh:3-9 or lh:12\n\nuser: see lh:12 or lh:13"),
            "[SUMMARY] of 9 earlier messages: lh:2-8 or lh:11\n\nuser: see lh:12 or lh:13",
        );
        assert_eq!(
            moved("[2 earlier messages were removed here to make room: lh:3-4]\n\nWhat they said: lh:5"),
            "[2 earlier messages were removed here to make room: lh:2-3]\n\nWhat they said: lh:5",
        );
        let cleared = |handle: &str| format!("{CLEARED} {handle} What it came to:\nlh:7 or lh:8");
        assert_eq!(moved(&cleared("lh:5")), cleared("lh:4"));
        // What earlier versions wrote.
        assert_eq!(
            moved(
                "[SUMMARY] of 9 earlier messages; the tool `recall` with handle lh:3-9 or lh:12 returns the originals.\n\nuser: see lh:12"
            ),
            "[SUMMARY] of 9 earlier messages; the tool `recall` with handle lh:2-8 or lh:11 returns the originals.\n\nuser: see lh:12",
        );
        assert_eq!(
            moved(
                "[2 earlier messages were removed here to make room. The tool `recall` with handle lh:3-4 returns them.]"
            ),
            "[2 earlier messages were removed here to make room. The tool `recall` with handle lh:2-3 returns them.]",
        );
        let cleared = |handle: &str| {
            format!(
                "{CLEARED} The tool `recall` with handle {handle} returns it. What it came to:\nlh:7 or lh:8"
            )
        };
        assert_eq!(moved(&cleared("lh:5")), cleared("lh:4"));
        let cut = |handle: &str| {
            format!(
                "{MARKER} The tool `recall` with handle {handle} returns it. How it begins and ends:\nlh:7"
            )
        };
        assert_eq!(moved(&cut("lh:5")), cut("lh:4"));
        for theirs in [
            "see lh:12, lh:3-9 and xlh:4.",
            "use `recall` with handle lh:3",
            "[SUMMARY] of 3 earlier messages.\n\nuser: `recall` with handle lh:3",
            "[SUMMARY] of 3 earlier messages.\n\nuser: see lh:3",
            "[SUMMARY] of 3 earlier messages; the tool `recall` with handle lh:9-3",
        ] {
            assert_eq!(moved(theirs), theirs);
        }
    }
}
