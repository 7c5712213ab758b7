//! The scripted model's remarks on tool results: whole sentences, each true of its result.

use longhaul_core::message::{Message, Part, Role, ToolCall, ToolResult};
use longhaul_providers::ModelRequest;
use serde_json::Value;

use super::facts::content;
use crate::term::human::{count, grouped};

/// The maximum characters of a quoted sentence.
const QUOTED_CHARS: usize = 150;

/// The number of lines at the top of a file in which its subject is looked for.
const OPENING_LINES: usize = 12;

/// The mark that tools put in place of omitted text.
const LEFT_OUT: &str = "[Output truncated";

/// Returns remarks on the newest results, one sentence or two for each. Empty if there are no results.
pub(super) fn told(request: &ModelRequest) -> String {
    let after = request.messages.iter().rev().take_while(|message| message.role == Role::Tool).count();
    let newest = &request.messages[request.messages.len() - after..];
    let results: Vec<&ToolResult> = newest.iter().flat_map(results).collect();
    let asked = request.messages.iter().rev().find(|message| message.role == Role::Assistant);
    let calls = asked.into_iter().flat_map(Message::tool_calls);
    let told: Vec<String> = calls
        .filter_map(|call| {
            let result = results.iter().find(|result| result.call_id == call.call_id)?;
            Some(sentences(call, &text(result)))
        })
        .collect();
    told.join("\n\n")
}

fn results(message: &Message) -> impl Iterator<Item = &ToolResult> {
    message.parts.iter().filter_map(|part| match part {
        Part::ToolResult(result) => Some(result),
        _ => None,
    })
}

fn text(result: &ToolResult) -> String {
    result.content.iter().filter_map(Part::as_text).collect()
}

fn sentences(call: &ToolCall, text: &str) -> String {
    let arguments: Value = serde_json::from_str(&call.arguments).unwrap_or_default();
    if text.starts_with("[Not run") {
        return "That was not allowed, so I leave it.".to_owned();
    }
    if text.starts_with("Error") {
        return format!("`{}` gave an error, so I go on without it.", call.name);
    }
    match call.name.as_str() {
        "read" => of_file(arguments["path"].as_str().unwrap_or_default(), text),
        "ls" => of_folder(text),
        "glob" if text.contains(LEFT_OUT) => {
            "There are more files than one look shows. What was left out of the list is kept.".to_owned()
        }
        "glob" => {
            let files = text.lines().filter(|line| !line.starts_with('[')).count() as u64;
            format!("The search found {}.", count(files, "file"))
        }
        "grep" => of_search(text),
        "bash" => of_command(text),
        other => format!("`{other}` has answered."),
    }
}

/// Describes the subject of a file, in its own words if it has some, its length and its contents.
fn of_file(path: &str, text: &str) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| line.contains('\t')).map(content).collect();
    let about = match opening(&lines) {
        Some(words) if !words.ends_with('.') => format!("The title of `{path}` is “{words}”."),
        // The wording varies from file to file, but not from run to run.
        Some(words) if path.len().is_multiple_of(2) => format!("`{path}` says of itself: “{words}”"),
        Some(words) => format!("“{words}” That is `{path}`."),
        None => format!("I have read `{path}`."),
    };
    // The note that `read` puts behind a file that it shows whole.
    let whole = text.rsplit_once("[All ").and_then(|(_, rest)| rest.strip_suffix(" lines.]"));
    let (kind, names) = named(path, &lines);
    let within = match names.as_slice() {
        [] => String::new(),
        [only] => format!("one {kind}, {only}"),
        [first, .., last] => format!("{} {kind}s, from {first} to {last}", names.len()),
    };
    let figures = match (whole, within.as_str()) {
        (Some(lines), "") => format!("It has {lines} lines."),
        (Some(lines), within) => format!("It has {lines} lines with {within}."),
        (None, "") => "I was shown parts of it; the rest is kept.".to_owned(),
        (None, within) => format!("The parts that I was shown have {within}."),
    };
    format!("{about} {figures}")
}

/// Returns the first whole sentence at the top of a file: of a comment, or a title.
fn opening(lines: &[&str]) -> Option<String> {
    let mut said = String::new();
    for line in lines.iter().take(OPENING_LINES) {
        let words = line.trim_start_matches(['/', '!', '#', '*', '"', '\'', '-', '<', '>', '=']).trim();
        let is_comment = words.len() < line.len();
        if words.is_empty() && said.is_empty() {
            continue;
        }
        let is_title = line.starts_with('#') && !line.starts_with("#!") && !line.starts_with("#[");
        if is_title && said.is_empty() && ends(words).is_none() {
            return (words.len() <= QUOTED_CHARS).then(|| words.to_owned());
        }
        // Attributes and the line of an interpreter look like comments, but say nothing about the file.
        if !is_comment || words.is_empty() || line.starts_with("#[") || line.starts_with("#!") {
            break;
        }
        said.push_str(if said.is_empty() { "" } else { " " });
        said.push_str(words);
        if let Some(end) = ends(&said) {
            said.truncate(end);
            let is_short = said.chars().count() <= QUOTED_CHARS && said.split(' ').count() > 2;
            // Quotes within quotes read badly, and an `@` is mostly an address or a tag.
            return (is_short && !said.contains(['“', '”', '@'])).then_some(said);
        }
    }
    None
}

/// Returns the position behind the first full stop.
fn ends(text: &str) -> Option<usize> {
    let at = text.find(". ").or_else(|| text.ends_with('.').then(|| text.len() - 1))?;
    Some(at + 1)
}

/// Returns the names in a file that can be called or looked up, as code, and the word for their kind.
fn named(path: &str, lines: &[&str]) -> (&'static str, Vec<String>) {
    let ending = path.rsplit('.').next().unwrap_or_default();
    if matches!(ending, "md" | "txt" | "tex") {
        let titles = lines.iter().filter_map(|line| line.strip_prefix("## "));
        return ("section", titles.map(|title| format!("“{}”", title.trim())).collect());
    }
    let marks: &[&str] = match ending {
        "rs" => &["fn "],
        "py" | "rb" => &["def "],
        "go" => &["func "],
        "js" | "ts" | "mjs" => &["function "],
        _ => &[],
    };
    (
        "function",
        lines
            .iter()
            .filter_map(|line| {
                let (before, after) = marks.iter().find_map(|mark| line.split_once(mark))?;
                let is_start = before.split_whitespace().all(|word| {
                    matches!(word, "pub" | "async" | "const" | "export" | "default")
                        || word.starts_with("pub(")
                });
                let name: String = after.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                (is_start && !name.is_empty()).then(|| format!("`{name}`"))
            })
            .collect(),
    )
}

fn of_folder(text: &str) -> String {
    let entries: Vec<&str> = text.lines().filter(|line| !line.starts_with('[')).collect();
    let folders = entries.iter().filter(|entry| entry.ends_with('/')).count() as u64;
    let files = entries.len() as u64 - folders;
    let largest = entries.iter().filter_map(|entry| {
        let (name, size) = entry.rsplit_once("  ")?;
        Some((size.trim().parse::<u64>().ok()?, name.trim()))
    });
    let here = format!("Here are {} and {}", count(folders, "folder"), count(files, "file"));
    match largest.max() {
        Some((bytes, name)) => format!("{here}; the largest file is `{name}` with {} bytes.", grouped(bytes)),
        None => format!("{here}."),
    }
}

fn of_search(text: &str) -> String {
    let found: Vec<&str> =
        text.lines().filter_map(|line| line.split_once(':').map(|(path, _)| path)).collect();
    match found.first() {
        None => "The search found nothing.".to_owned(),
        Some(first) => {
            let more = if text.contains(LEFT_OUT) { " What did not fit is kept." } else { "" };
            let lines = count(found.len() as u64, "line");
            format!("The search shows {lines}, the first in `{first}`.{more}")
        }
    }
}

fn of_command(text: &str) -> String {
    let sizes: Vec<(u64, String)> = text.lines().filter_map(size_and_name).collect();
    let exit = text.rsplit_once("[exit code ").and_then(|(_, rest)| rest.trim_end().strip_suffix(']'));
    match (sizes.split_last(), exit) {
        (Some(((all, total), files)), Some("0")) if total == "total" => {
            let largest = files.iter().max().map(|(bytes, name)| (grouped(*bytes), name.as_str()));
            let (bytes, name) = largest.unwrap_or_default();
            format!("Together they have {} bytes; the largest is `{name}` with {bytes}.", grouped(*all))
        }
        (_, Some("0")) => {
            let lines = text.lines().filter(|line| !line.starts_with("[exit code")).count() as u64;
            format!("The command went well and printed {}.", count(lines, "line"))
        }
        (_, Some(code)) => format!("The command failed with exit code {code}."),
        (_, None) => "The command has ended.".to_owned(),
    }
}

fn size_and_name(line: &str) -> Option<(u64, String)> {
    let (size, name) = line.trim().split_once(' ')?;
    Some((size.parse::<u64>().ok()?, name.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(text: &str, end: &str) -> String {
        let lines = text.lines().enumerate().map(|(at, line)| format!("{:>6}\t{line}\n", at + 1));
        lines.collect::<String>() + end
    }

    #[test]
    fn a_file_is_told_in_whole_sentences_that_are_true_of_it() {
        let code = "//! The way in: who\n//! comes. More.\n\nuse x;\npub fn open() {}\nfn shut() {}\n";
        assert_eq!(
            of_file("src/door.rs", &numbered(code, "[All 6 lines.]")),
            "“The way in: who comes.” That is `src/door.rs`. It has 6 lines with 2 functions, from `open` to `shut`."
        );
        let text = "# The map\n\nWords.\n\n## Inside\n";
        assert_eq!(
            of_file("MAP.md", &numbered(text, "")),
            "The title of `MAP.md` is “The map”. The parts that I was shown have one section, “Inside”."
        );
        let long = format!("// {} end.\n#[test]\nlet x = 1;\n", "word ".repeat(60));
        assert_eq!(
            of_file("a.rs", &numbered(&long, "[All 3 lines.]")),
            "I have read `a.rs`. It has 3 lines."
        );
    }

    #[test]
    fn other_results_are_told_by_their_figures() {
        assert_eq!(
            of_folder("src/\nREADME.md  13647\nCargo.toml  12\n[3 entries.]"),
            "Here are 1 folder and 2 files; the largest file is `README.md` with 13,647 bytes."
        );
        assert_eq!(
            of_command("  7787 A.md\n  1618 b.rs\n  9405 total\n[exit code 0]"),
            "Together they have 9,405 bytes; the largest is `A.md` with 7,787."
        );
        assert_eq!(of_command("x\ny\n[exit code 0]"), "The command went well and printed 2 lines.");
        assert_eq!(of_command("no\n[exit code 3]"), "The command failed with exit code 3.");
        assert_eq!(of_search("a.rs:1:x\na.rs:2:x\n"), "The search shows 2 lines, the first in `a.rs`.");
    }
}
