//! Commands in Chinese, Japanese and Korean, with a mark such as "please" or without one.
//!
//! A mark counts wherever it stands, unless it is a part of a longer word. Without a mark the form decides: a Chinese
//! command begins with a preverb, a Japanese one ends with a form of request, and a Korean one with its plain form.

use super::has_unspaced;
use crate::retention::languages::has_char_in;
use crate::retention::lexicon::{
    CHINESE_COMPOUNDS, CHINESE_PREVERBS, CHINESE_REQUESTS, CHINESE_STATEMENT_ENDS, JAPANESE_TIMES,
    KOREAN_COMMAND_ENDS, KOREAN_COMMAND_SIGNS, KOREAN_PAST_SYLLABLES, LANGUAGE_NAMES_CHINESE,
    UNSPACED_COMMANDS, UNSPACED_MODALS, UNSPACED_PERSONS,
};
use crate::retention_report::facts::is_unspaced;

/// Returns whether a sentence of a script without blanks commands or forbids.
pub(super) fn has_unspaced_command(sentence: &str) -> bool {
    if sentence.is_ascii() || !sentence.chars().any(is_unspaced) {
        return false;
    }
    let is_of_person = begins_with_person(sentence);
    let end = sentence.trim_end().trim_end_matches(['.', '!', '。', '！', '~', ' ']);
    // A modal verb behind a person tells of the person: "我应该".
    let mut marks = UNSPACED_COMMANDS.split(' ').filter(|mark| !is_of_person || !is_modal(mark));
    let is_marked = marks.any(|mark| has_free_mark(sentence, mark));
    // The Korean prohibition without politeness is one syllable at the end.
    is_marked || end.ends_with("지 마") || end.ends_with("지마") || !is_of_person && is_unmarked_command(end)
}

fn begins_with_person(sentence: &str) -> bool {
    begins_with_any(sentence.trim_start(), UNSPACED_PERSONS)
}

/// Returns whether a mark of a command is a modal verb, which has another meaning behind a person.
fn is_modal(mark: &str) -> bool {
    UNSPACED_MODALS.split(' ').any(|modal| modal == mark)
}

/// Returns whether a text begins with a word of a list.
fn begins_with_any(text: &str, list: &str) -> bool {
    list.split(' ').any(|start| text.starts_with(start))
}

/// Returns whether a text ends with a word of a list.
fn ends_with_any(text: &str, list: &str) -> bool {
    list.split(' ').any(|end| text.ends_with(end))
}

/// Returns whether a text has a mark that is no part of a longer word: "别" and not "特别".
fn has_free_mark(text: &str, mark: &str) -> bool {
    text.match_indices(mark).any(|(at, _)| !is_part_of_compound(text, at, mark))
}

/// Returns whether the mark at `at` is a part of a longer Chinese word.
fn is_part_of_compound(text: &str, at: usize, mark: &str) -> bool {
    CHINESE_COMPOUNDS.split(' ').any(|word| stands_around(text, at, word, mark))
}

/// Returns whether a word with the mark in it stands around the mark at `at`.
fn stands_around(text: &str, at: usize, word: &str, mark: &str) -> bool {
    word.match_indices(mark).any(|(inner, _)| {
        let start = at.checked_sub(inner);
        start.and_then(|start| text.get(start..)).is_some_and(|rest| rest.starts_with(word))
    })
}

/// Returns whether a sentence without its last mark is a command by its form alone.
fn is_unmarked_command(sentence: &str) -> bool {
    match () {
        () if has_char_in(sentence, '\u{ac00}'..='\u{d7a3}') => is_korean_command(sentence),
        () if has_char_in(sentence, '\u{3041}'..='\u{30ff}') => is_japanese_command(sentence),
        () => sentence.split(['，', ',', '；', ';', '：', ':', '、']).any(is_chinese_command),
    }
}

/// Returns whether a Chinese clause begins with a preverb ("用中文回答"), asks for something ("先问我"), or names a need
/// ("回答要简短").
fn is_chinese_command(clause: &str) -> bool {
    let clause = clause.trim();
    if clause.chars().nth(2).is_none()
        || begins_with_person(clause)
        || ends_with_any(clause, CHINESE_STATEMENT_ENDS)
    {
        return false;
    }
    let is_compound = begins_with_any(clause, CHINESE_COMPOUNDS);
    let names_language = LANGUAGE_NAMES_CHINESE
        .split(' ')
        .any(|name| ["用", "写", "寫", "以", "说", "說"].iter().any(|verb| has_pair(clause, verb, name)));
    begins_with_any(clause, CHINESE_PREVERBS) && !is_compound
        || has_unspaced(clause, CHINESE_REQUESTS)
        || has_free_mark(clause, "要")
        || names_language
}

/// Returns whether two words stand side by side.
fn has_pair(text: &str, first: &str, second: &str) -> bool {
    text.match_indices(second).any(|(at, _)| text[..at].ends_with(first))
}

/// Returns whether a Japanese sentence ends with a request ("答えて"), a prohibition ("使うな"), a manner ("短く") or an
/// action ("テストを実行").
fn is_japanese_command(sentence: &str) -> bool {
    let chars: Vec<char> = sentence.chars().rev().take(3).collect();
    match chars[..] {
        ['て', before, ..] => before != 'っ' || chars.len() > 2 && is_han(chars[2]),
        ['で', before, ..] => matches!(before, 'ん' | 'い'),
        ['な', before, ..] => "うくすつぬむるぐぶ".contains(before) && !sentence.ends_with("ような"),
        ['く', before, ..] => is_han(before) || before == 'し',
        ['に', before, ..] => is_han(before) && !JAPANESE_TIMES.contains(before),
        ['と', 'こ', ..] => true,
        [last, ..] => is_han(last) && sentence.contains('を'),
        [] => false,
    }
}

/// Returns whether a character is a Chinese one, as in Japanese nouns and stems.
fn is_han(char: char) -> bool {
    ('\u{4e00}'..='\u{9fff}').contains(&char)
}

/// Returns whether a Korean sentence ends with a plain command: "한국어로 대답해", "답변은 짧게".
fn is_korean_command(sentence: &str) -> bool {
    let Some(last) = sentence.split_whitespace().last() else { return false };
    // "말 것" and "할 것" name what is to be done.
    if last == "것" || last.ends_with("할것") {
        return true;
    }
    // A syllable of the past makes a statement: "시작했어".
    if last.chars().any(|char| KOREAN_PAST_SYLLABLES.contains(char)) {
        return false;
    }
    if last.ends_with('게') || last.ends_with("하기") {
        return true;
    }
    let before = sentence.strip_suffix(last).unwrap_or_default();
    ends_with_any(last, KOREAN_COMMAND_ENDS)
        && before.split_whitespace().any(|word| {
            KOREAN_COMMAND_SIGNS.split(' ').any(|sign| word.ends_with(sign) && word.chars().nth(1).is_some())
        })
}
