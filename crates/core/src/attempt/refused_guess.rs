//! Guesses at the part of a request that a server refuses without naming one.

use super::MAX_OMISSIONS;

/// The kind of a suspected part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub enum SuspectKind {
    /// A picture or a file.
    Media,
    /// Reasoning of a model, or a signature on a call or a text.
    Reasoning,
    /// The result of a tool.
    ToolResult,
    /// A tool whose schema another program has written.
    ForeignTool,
}

/// A part of a request that may be the reason for a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub struct RefusalSuspect {
    /// The kind of the part.
    pub kind: SuspectKind,
    /// `true` if no answer of the model has followed the part. What an answer has followed was accepted once.
    pub is_new: bool,
}

/// Returns the guesses at a refused part in the order in which they are tried, each with the indices of its suspects.
/// `suspects` is in the order of the request. There are [`MAX_OMISSIONS`] guesses at most.
///
/// The likeliest suspects come first, and fewer before more: the newest picture or file, all pictures and files with all
/// reasoning, the newest result, all new parts, the foreign tools. Without pictures and files the new results precede the
/// reasoning, which an answer has followed before. The last guess has all suspects together, because two bad parts hide
/// each other from single guesses.
#[doc(hidden)]
pub fn guess_refused_parts(suspects: &[RefusalSuspect]) -> Vec<Vec<usize>> {
    let all = indices(suspects, |_| true);
    let mut guesses: Vec<Vec<usize>> = Vec::new();
    for guess in likely_guesses(suspects) {
        if guesses.len() + 1 < MAX_OMISSIONS as usize {
            push_new(&mut guesses, guess);
        }
    }
    push_new(&mut guesses, all);
    guesses
}

fn likely_guesses(suspects: &[RefusalSuspect]) -> Vec<Vec<usize>> {
    let of_kind = |kind: SuspectKind| indices(suspects, |suspect| suspect.kind == kind);
    let newest = |all: Vec<usize>| all.last().copied().into_iter().collect::<Vec<_>>();
    let newest_media = newest(of_kind(SuspectKind::Media));
    let foreign =
        indices(suspects, |suspect| matches!(suspect.kind, SuspectKind::Media | SuspectKind::Reasoning));
    let newest_result = newest(of_kind(SuspectKind::ToolResult));
    let unanswered = indices(suspects, |suspect| {
        suspect.is_new && matches!(suspect.kind, SuspectKind::Media | SuspectKind::ToolResult)
    });
    let tools = of_kind(SuspectKind::ForeignTool);
    match newest_media.is_empty() {
        true => vec![newest_result, unanswered, foreign, tools],
        false => vec![newest_media, foreign, newest_result, unanswered, tools],
    }
}

/// Adds a guess, unless it is empty or within an earlier one. Such a guess has failed with the earlier one.
fn push_new(guesses: &mut Vec<Vec<usize>>, guess: Vec<usize>) {
    let is_known = guesses.iter().any(|earlier| guess.iter().all(|index| earlier.contains(index)));
    if !guess.is_empty() && !is_known {
        guesses.push(guess);
    }
}

fn indices(suspects: &[RefusalSuspect], is_meant: impl Fn(&RefusalSuspect) -> bool) -> Vec<usize> {
    suspects.iter().enumerate().filter(|(_, suspect)| is_meant(suspect)).map(|(index, _)| index).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn suspect(kind: SuspectKind, is_new: bool) -> RefusalSuspect {
        RefusalSuspect { kind, is_new }
    }

    #[test]
    fn likely_suspects_come_before_all_together() {
        let all = [
            suspect(SuspectKind::Media, false),
            suspect(SuspectKind::Reasoning, false),
            suspect(SuspectKind::ToolResult, false),
            suspect(SuspectKind::Media, true),
            suspect(SuspectKind::ToolResult, true),
        ];
        assert_eq!(guess_refused_parts(&all), [vec![3], vec![0, 1, 3], vec![0, 1, 2, 3, 4]]);
        assert_eq!(guess_refused_parts(&all[1..3]), [vec![1], vec![0], vec![0, 1]]);
    }

    #[test]
    fn reasoning_and_foreign_tools_are_suspects_too() {
        let reasoning = suspect(SuspectKind::Reasoning, false);
        let tool = suspect(SuspectKind::ForeignTool, false);
        assert_eq!(guess_refused_parts(&[reasoning]), [vec![0]]);
        assert_eq!(guess_refused_parts(&[tool, tool]), [vec![0, 1]]);
    }

    #[test]
    fn a_guess_that_would_repeat_an_earlier_one_is_left_out() {
        let result = suspect(SuspectKind::ToolResult, true);
        assert_eq!(guess_refused_parts(&[result]), [vec![0]]);
        assert_eq!(guess_refused_parts(&[result, result]), [vec![1], vec![0, 1]]);
        assert_eq!(guess_refused_parts(&[]), Vec::<Vec<usize>>::new());
    }
}
