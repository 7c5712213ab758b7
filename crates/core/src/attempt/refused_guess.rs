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
    /// `true` if no answer of the model has followed the part. What an answer has followed was accepted once. An answer of
    /// another model proves nothing.
    pub is_new: bool,
}

/// Returns the guesses at a refused part in the order in which they are tried, each with the indices of its suspects.
/// `suspects` is in the order of the request. There are [`MAX_OMISSIONS`] guesses at most.
///
/// New parts come first, each alone: the newest picture or file, then the newest result. Then come, fewer before more, all
/// pictures and files with all reasoning, the newest result, all new parts, and the foreign tools. Without pictures and
/// files the results precede the reasoning, unless the reasoning is new to the model.
///
/// The last guess has the suspects together, because two bad parts hide each other from single guesses. Results that an
/// answer has followed are among them only where the others have been tried.
#[doc(hidden)]
pub fn guess_refused_parts(suspects: &[RefusalSuspect]) -> Vec<Vec<usize>> {
    let mut guesses: Vec<Vec<usize>> = Vec::new();
    for guess in likely_guesses(suspects) {
        if guesses.len() + 1 < MAX_OMISSIONS as usize {
            push_new(&mut guesses, guess);
        }
    }
    // What an answer has followed was accepted once. A placeholder for each old result would cost a conversation much.
    let likely = indices(suspects, |suspect| suspect.is_new || suspect.kind != SuspectKind::ToolResult);
    for guess in [likely, indices(suspects, |_| true)] {
        if guesses.len() < MAX_OMISSIONS as usize {
            push_new(&mut guesses, guess);
        }
    }
    guesses
}

fn likely_guesses(suspects: &[RefusalSuspect]) -> Vec<Vec<usize>> {
    let of_kind = |kind: SuspectKind| indices(suspects, |suspect| suspect.kind == kind);
    let newest = |all: Vec<usize>| all.last().copied().into_iter().collect::<Vec<_>>();
    let is_new = |guess: &[usize]| guess.iter().any(|index| suspects.get(*index).is_some_and(|it| it.is_new));
    let newest_media = newest(of_kind(SuspectKind::Media));
    let reasoning = of_kind(SuspectKind::Reasoning);
    let foreign =
        indices(suspects, |suspect| matches!(suspect.kind, SuspectKind::Media | SuspectKind::Reasoning));
    let newest_result = newest(of_kind(SuspectKind::ToolResult));
    let unanswered = indices(suspects, |suspect| {
        suspect.is_new && matches!(suspect.kind, SuspectKind::Media | SuspectKind::ToolResult)
    });
    let tools = of_kind(SuspectKind::ForeignTool);
    let mut guesses = Vec::new();
    // What no answer has followed was never accepted. Each such part is suspected alone before any group is.
    if is_new(&newest_media) {
        guesses.push(newest_media.clone());
    }
    // A model that has taken over has accepted none of the other model's reasoning.
    if is_new(&reasoning) {
        guesses.push(foreign.clone());
    }
    if is_new(&newest_result) {
        guesses.push(newest_result.clone());
    }
    match newest_media.is_empty() {
        true => guesses.extend([newest_result, unanswered, foreign, tools]),
        false => guesses.extend([newest_media, foreign, newest_result, unanswered, tools]),
    }
    guesses
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

    const OLD_PICTURE: RefusalSuspect = RefusalSuspect { kind: SuspectKind::Media, is_new: false };
    const NEW_PICTURE: RefusalSuspect = RefusalSuspect { kind: SuspectKind::Media, is_new: true };
    const OLD_RESULT: RefusalSuspect = RefusalSuspect { kind: SuspectKind::ToolResult, is_new: false };
    const NEW_RESULT: RefusalSuspect = RefusalSuspect { kind: SuspectKind::ToolResult, is_new: true };
    const REASONING: RefusalSuspect = RefusalSuspect { kind: SuspectKind::Reasoning, is_new: false };
    const TOOL: RefusalSuspect = RefusalSuspect { kind: SuspectKind::ForeignTool, is_new: false };

    #[test]
    fn a_new_picture_and_a_new_result_are_suspected_alone_before_all_together() {
        let all = [OLD_PICTURE, REASONING, OLD_RESULT, NEW_PICTURE, NEW_RESULT];
        assert_eq!(guess_refused_parts(&all), [vec![3], vec![4], vec![0, 1, 3, 4]]);
        assert_eq!(guess_refused_parts(&all[3..]), [vec![0], vec![1], vec![0, 1]]);
        let two = [NEW_PICTURE, NEW_PICTURE, NEW_RESULT];
        assert_eq!(guess_refused_parts(&two), [vec![1], vec![2], vec![0, 1, 2]]);
    }

    #[test]
    fn a_new_part_is_suspected_before_one_that_was_accepted() {
        assert_eq!(
            guess_refused_parts(&[OLD_PICTURE, REASONING, NEW_RESULT]),
            [vec![2], vec![0], vec![0, 1, 2]]
        );
        assert_eq!(
            guess_refused_parts(&[OLD_RESULT, REASONING, NEW_PICTURE]),
            [vec![2], vec![1, 2], vec![0, 1, 2]]
        );
        let foreign = RefusalSuspect { is_new: true, ..REASONING };
        assert_eq!(guess_refused_parts(&[foreign, NEW_RESULT]), [vec![0], vec![1], vec![0, 1]]);
    }

    #[test]
    fn old_results_are_left_out_only_where_nothing_else_is_left_to_try() {
        assert_eq!(
            guess_refused_parts(&[OLD_RESULT, OLD_RESULT, NEW_RESULT, NEW_RESULT, REASONING]),
            [vec![3], vec![2, 3], vec![2, 3, 4]]
        );
        assert_eq!(guess_refused_parts(&[OLD_RESULT, OLD_RESULT]), [vec![1], vec![0, 1]]);
        assert_eq!(
            guess_refused_parts(&[REASONING, OLD_RESULT, OLD_RESULT]),
            [vec![2], vec![0], vec![0, 1, 2]]
        );
    }

    #[test]
    fn reasoning_and_foreign_tools_are_suspects_too() {
        assert_eq!(guess_refused_parts(&[REASONING]), [vec![0]]);
        assert_eq!(guess_refused_parts(&[TOOL, TOOL]), [vec![0, 1]]);
        assert_eq!(guess_refused_parts(&[NEW_RESULT, TOOL]), [vec![0], vec![1], vec![0, 1]]);
    }

    #[test]
    fn a_guess_that_would_repeat_an_earlier_one_is_left_out() {
        assert_eq!(guess_refused_parts(&[NEW_RESULT]), [vec![0]]);
        assert_eq!(guess_refused_parts(&[NEW_RESULT, NEW_RESULT]), [vec![1], vec![0, 1]]);
        assert_eq!(guess_refused_parts(&[]), Vec::<Vec<usize>>::new());
    }
}
