//! The parts of an answer that are not its content: thoughts, and a fence or tag around the whole.

/// The marks around thoughts in the families of models. The first mark may be missing, because some chat templates put
/// it into the prompt.
const MARKS: [(&str, &str); 11] = [
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<thoughts>", "</thoughts>"),
    ("<reasoning>", "</reasoning>"),
    ("<analysis>", "</analysis>"),
    ("<seed:think>", "</seed:think>"),
    ("[think]", "[/think]"),
    ("◁think▷", "◁/think▷"),
    ("<|begin_of_thought|>", "<|end_of_thought|>"),
    ("<|channel>thought", "<channel|>"),
];

/// The mark before the name of a channel, in the Harmony format of gpt-oss.
const CHANNEL: &str = "<|channel|>";
/// The mark at the beginning of a channel's text.
const MESSAGE: &str = "<|message|>";
/// The marks at the end of a channel's text.
const CHANNEL_ENDS: [&str; 4] = ["<|end|>", "<|return|>", "<|start|>", "<|channel|>"];

/// Returns the answer without thoughts and without a wrapping fence or tag.
pub(in crate::plan::draft) fn without_thoughts(answer: &str) -> String {
    let text = match final_channel(answer) {
        Some(text) => text.to_owned(),
        None => answer.to_owned(),
    };
    let mut text = text;
    for (open, close) in MARKS {
        text = without_marked(text, open, close);
    }
    unwrapped(text.trim()).trim().to_owned()
}

/// Returns the text of the last final channel; an empty one if all channels hold thoughts, and `None` if there are no
/// channels.
fn final_channel(answer: &str) -> Option<&str> {
    let lower = answer.to_ascii_lowercase();
    if lower.contains(CHANNEL) {
        let channels = lower
            .match_indices(CHANNEL)
            .filter(|(at, _)| lower[at + CHANNEL.len()..].trim_start().starts_with("final"));
        let Some((at, _)) = channels.last() else { return Some("") };
        let Some(begins) = lower[at..].find(MESSAGE).map(|found| at + found + MESSAGE.len()) else {
            return Some("");
        };
        let rest = &lower[begins..];
        let ends = CHANNEL_ENDS.iter().filter_map(|end| rest.find(end)).min().unwrap_or(rest.len());
        return answer.get(begins..begins + ends);
    }
    // Some servers remove the special tokens, so that the names of the channels run into the text.
    let at = lower.trim_start().starts_with("analysis").then(|| lower.find("assistantfinal")).flatten()?;
    answer.get(at + "assistantfinal".len()..)
}

/// Returns a text without the parts between two marks.
fn without_marked(text: String, open: &str, close: &str) -> String {
    let mut text = text;
    loop {
        // Lower-casing ASCII keeps the length in bytes, so positions hold for both texts.
        let lower = text.to_ascii_lowercase();
        let Some(start) = lower.match_indices(open).map(|(at, _)| at).find(|at| begins_line(&lower, *at))
        else {
            break;
        };
        let after = start + open.len();
        match lower[after..].find(close) {
            Some(end) => text.replace_range(start..after + end + close.len(), ""),
            // The answer was cut off within the thought.
            None => text.truncate(start),
        }
    }
    let lower = text.to_ascii_lowercase();
    let ends =
        lower.match_indices(close).map(|(at, _)| at).filter(|at| stands_alone(&lower, *at, close.len()));
    if let Some(end) = ends.last() {
        text.replace_range(..end + close.len(), "");
    }
    text
}

fn begins_line(text: &str, at: usize) -> bool {
    let before = text[..at].trim_end_matches([' ', '\t']);
    before.is_empty() || before.ends_with('\n') || before.ends_with('>')
}

/// Returns whether a mark ends or begins a line. A mark amid a line is mentioned in a sentence.
fn stands_alone(text: &str, at: usize, len: usize) -> bool {
    let after = text[at + len..].trim_start_matches([' ', '\t', '\r']);
    after.is_empty() || after.starts_with('\n') || begins_line(text, at)
}

/// Returns the text within a fence or a tag around the whole.
fn unwrapped(text: &str) -> &str {
    let fenced = text.strip_prefix("```").and_then(|rest| rest.strip_suffix("```"));
    if let Some((language, inner)) = fenced.and_then(|inner| inner.split_once('\n')) {
        let is_prose = matches!(language.trim(), "" | "markdown" | "md" | "text" | "txt" | "plaintext");
        if is_prose && !inner.contains("```") {
            return inner;
        }
    }
    let tagged = text.strip_prefix("<summary>").map(|rest| rest.trim_end());
    tagged.map_or(text, |rest| rest.strip_suffix("</summary>").unwrap_or(rest))
}
