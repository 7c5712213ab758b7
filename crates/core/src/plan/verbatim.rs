//! Messages word for word, as many as fit: what was said before what tools put out, the newest first.

use std::collections::BTreeMap;

use super::{extract, role_name};
use crate::estimate::Counter;
use crate::history::{ItemKind, ViewItem};

/// A message in fewer tokens says nothing.
const LEAST_TOKENS: u64 = 24;

/// No message has more than one part in so many of the room, as long as others want it.
const SHARES: usize = 4;

/// The newest of `items` in at most `room` tokens, oldest first. Long ones are shortened in their middle. Of messages
/// that say the same only the newest is there, and short ones that were said several times are not.
pub(super) fn newest(items: &[&ViewItem], room: u64, counter: &Counter) -> String {
    let lines: Vec<String> = items.iter().map(|item| line(item)).collect();
    let mut told: Vec<usize> = (0..items.len()).filter(|at| is_told(&items[*at].kind)).collect();
    // Agents acknowledge each step in the same words: that would take the room of what was said.
    let mut places: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    told.iter().for_each(|at| places.entry(&lines[*at]).or_default().push(*at));
    told.retain(|at| match places[lines[*at].as_str()].as_slice() {
        [_] => true,
        [.., newest] => newest == at && counter.text(&lines[*at]) >= LEAST_TOKENS,
        [] => false,
    });
    let shares = (told.len().min(SHARES) as u64).min(room / LEAST_TOKENS).max(1);
    let most = room / shares;
    let mut left = room;
    // With the tokens of each, and whether it is all of the message.
    let mut taken: BTreeMap<usize, (String, u64, bool)> = BTreeMap::new();
    for is_result in [false, true] {
        for at in told.iter().rev().filter(|at| is_output(&items[**at].kind) == is_result) {
            if left < LEAST_TOKENS {
                break;
            }
            let text = &lines[*at];
            let Some(line) = shortened(text, most.min(left), &|text| counter.text(text)) else { continue };
            let tokens = counter.text(&line);
            left = left.saturating_sub(tokens);
            let is_whole = line == *text;
            taken.insert(*at, (line, tokens, is_whole));
        }
    }
    // What others have left is for those that were shortened.
    for (at, (text, tokens, _)) in taken.iter_mut().rev().filter(|(_, (_, _, is_whole))| !is_whole) {
        let longer = shortened(&lines[*at], *tokens + left, &|text| counter.text(text));
        if let Some(longer) = longer.filter(|longer| longer.len() > text.len()) {
            let now = counter.text(&longer);
            left = (left + *tokens).saturating_sub(now);
            (*text, *tokens) = (longer, now);
        }
    }
    taken.into_values().map(|(text, ..)| text).collect()
}

/// Summaries and notes on what was removed are not what was said; nor is a result that is there no more.
fn is_told(kind: &ItemKind) -> bool {
    !matches!(kind, ItemKind::Summary(_) | ItemKind::Removed(_) | ItemKind::Result { cleared: Some(_), .. })
}

fn is_output(kind: &ItemKind) -> bool {
    matches!(kind, ItemKind::Result { .. })
}

fn line(item: &ViewItem) -> String {
    format!("{}: {}\n", role_name(item.message.role), extract::plain_text(&item.message).trim())
}

/// A text in at most `most` tokens, as `count` has them: whole, or its beginning and its end; `None` if that says nothing.
pub(crate) fn shortened(text: &str, most: u64, count: &dyn Fn(&str) -> u64) -> Option<String> {
    let tokens = count(text);
    if tokens <= most {
        return Some(text.to_owned());
    }
    if most < LEAST_TOKENS {
        return None;
    }
    let chars = text.chars().count() as u64;
    let mut kept = chars.saturating_mul(most) / tokens;
    while kept >= 8 {
        let (head, tail) = ((kept * 2 / 3) as usize, (kept / 3) as usize);
        let start = text.char_indices().nth(head).map_or(text.len(), |(at, _)| at);
        let end = text.char_indices().nth_back(tail.saturating_sub(1)).map_or(start, |(at, _)| at);
        let cut = format!("{} … {}", &text[..start], &text[end.max(start)..]);
        if count(&cut) <= most {
            return Some(cut);
        }
        kept = kept * 7 / 8;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> u64 {
        text.split_whitespace().count() as u64
    }

    #[test]
    fn a_long_text_keeps_both_ends_in_the_room_it_has() {
        let text: String = (0..1_000).map(|at| format!("w{at} ")).collect();
        for most in [24, 25, 100, 999] {
            let short = shortened(&text, most, &words).unwrap();
            assert!(words(&short) <= most && words(&short) * 10 >= most * 7, "{most}: {}", words(&short));
            assert!(short.starts_with("w0 ") && short.trim_end().ends_with("w999"), "{short}");
        }
        assert_eq!(shortened(&text, 1_000, &words).as_deref(), Some(text.as_str()));
        assert_eq!(shortened(&text, 23, &words), None);
    }
}
