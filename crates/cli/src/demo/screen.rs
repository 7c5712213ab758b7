//! What the demo prints: the conversation, one line per tool call, the meter after every step.

use std::future::Future;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use longhaul::announce::Announcement;
use longhaul::context::ContextReport;
use longhaul::session::{Session, SessionError};
use longhaul_core::ids::SessionId;
use serde_json::Value;
use tokio::sync::broadcast;

use super::Outcome;

const WIDTH: usize = 78;
const BAR: usize = 32;

/// Prints what happens in a session.
pub(super) struct Screen {
    watch: broadcast::Receiver<Arc<Announcement>>,
    colour: bool,
    calls: std::collections::BTreeMap<String, String>,
    answer: String,
    column: usize,
}

impl Screen {
    pub(super) fn new(session: &Session, colour: bool) -> Self {
        Self { watch: session.watch(), colour, calls: Default::default(), answer: String::new(), column: 0 }
    }

    pub(super) fn opening(&self, folder: &Path, window: u64, files: usize) {
        self.line(&self.bold("longhaul demo"));
        self.line(&format!(
            "A scripted model reads {files} files of {} in a window of {} tokens. Loop, tools,",
            super::shown(folder),
            short(window)
        ));
        self.line("store and files are real; nothing is changed. Watch the window fill.");
    }

    pub(super) fn scene(&self, number: &str, title: &str) {
        self.line("");
        self.line(&self.bold(&format!("{number} · {title}")));
    }

    /// Sends a message, prints what happens, answers with what the model said last.
    pub(super) async fn ask(&mut self, session: &Session, text: &str) -> Result<String, SessionError> {
        self.line("");
        self.said("you", text);
        self.answer.clear();
        self.during(session, session.ask(text)).await??;
        Ok(std::mem::take(&mut self.answer))
    }

    /// Prints what happens while `work` goes on.
    pub(super) async fn during<T>(&mut self, _session: &Session, work: impl Future<Output = T>) -> Result<T, SessionError> {
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                biased;
                Ok(announcement) = self.watch.recv() => self.show(&announcement),
                done = &mut work => {
                    while let Ok(announcement) = self.watch.try_recv() {
                        self.show(&announcement);
                    }
                    return Ok(done);
                }
            }
        }
    }

    fn show(&mut self, announcement: &Announcement) {
        let payload = &announcement.payload;
        match announcement.name {
            "llm:chunk" if announcement.text("chunkType") == "text" => self.stream(announcement.text("content")),
            "llm:tool-call" => {
                let label = label(announcement.text("toolName"), announcement.text("args"));
                self.calls.insert(announcement.text("callId").to_owned(), label);
            }
            "llm:tool-result" => self.result(announcement),
            "llm:response" => {
                self.answer = announcement.text("content").to_owned();
                self.end_stream();
            }
            "context:usage" => self.meter(payload.get("total"), payload.get("window"), payload.get("expectedError")),
            "context:pruned" => self.row(&format!(
                "pruned {} old tool results · {} → {} · nothing is lost: each keeps a handle",
                number(payload.get("prunedCount")),
                short(number(payload.get("originalTokens"))),
                short(number(payload.get("compressedTokens")))
            )),
            "context:compressed" => self.row(&format!(
                "compacted {} messages · {} → {} · all recoverable · undo {}",
                number(payload.get("originalMessages")) + 1 - number(payload.get("compressedMessages")).max(1),
                short(number(payload.get("originalTokens"))),
                short(number(payload.get("compressedTokens"))),
                announcement.text("compactionId")
            )),
            "llm:error" => self.row(&format!("error: {}", announcement.text("error"))),
            _ => {}
        }
    }

    fn result(&mut self, announcement: &Announcement) {
        let label = self.calls.remove(announcement.text("callId")).unwrap_or_default();
        let ok = announcement.payload.get("success").and_then(Value::as_bool).unwrap_or(false);
        let truncated = announcement.payload.get("truncated").and_then(Value::as_bool).unwrap_or(false);
        let chars: usize = announcement.payload.get("sanitized").and_then(Value::as_array).map_or(0, |parts| {
            parts.iter().filter_map(|part| part["text"].as_str()).map(|text| text.chars().count()).sum()
        });
        let outcome = match (ok, truncated) {
            (false, _) => "failed".to_owned(),
            (true, true) => format!("first {} characters · rest kept", short(chars as u64)),
            (true, false) => format!("{} characters", short(chars as u64)),
        };
        let room = WIDTH.saturating_sub(outcome.chars().count() + 4);
        let label: String = label.chars().take(room).collect();
        self.line(&format!("  {} {label:<room$} {}", self.dim("▸"), self.dim(&outcome)));
    }

    fn meter(&self, total: Option<&Value>, window: Option<&Value>, error: Option<&Value>) {
        let (total, window) = (number(total), number(window).max(1));
        let filled = (total as usize * BAR / window as usize).min(BAR);
        let percent = total * 100 / window;
        let error = error.and_then(Value::as_f64).unwrap_or(0.0) * 100.0;
        let bar = format!("{}{}", "▓".repeat(filled), "░".repeat(BAR - filled));
        self.line(&self.dim(&format!("  {bar} {percent:>3} %  {} / {}  ~{error:.1} %", short(total), short(window))));
    }

    fn row(&self, text: &str) {
        self.line(&self.accent(&format!("  ─ {text}")));
    }

    pub(super) fn undone(&self, before: u64, shorter: u64, after: u64, exact: bool) {
        let verdict = if exact { "the view is exactly what it was" } else { "the view DIFFERS" };
        self.row(&format!("undone · {} → {} → {} · {verdict}", short(before), short(shorter), short(after)));
    }

    pub(super) fn verdict(&self, gone: bool, right: bool) {
        let text = match (gone, right) {
            (true, true) => "✓ the line was not in the window any more; the answer is right, byte for byte",
            (true, false) => "✗ the answer is wrong",
            (false, _) => "✗ the line was still in the window: nothing was shown by this",
        };
        self.line(&self.bold(&format!("  {text}")));
    }

    pub(super) fn closing(&self, outcome: &Outcome, report: &ContextReport, id: &SessionId) {
        let used = report.token_usage.get("inputTokens").and_then(Value::as_u64).unwrap_or(0);
        self.line("");
        self.line(&self.bold(&format!(
            "{} edits of the view, {} of {} lines right, {} invalid requests.",
            outcome.edits, outcome.right, outcome.asked, outcome.invalid
        )));
        self.line(&format!(
            "All calls together read {} tokens; the largest had {} of a window of {}.",
            short(used),
            short(outcome.largest),
            short(report.window)
        ));
        self.line(&format!("The session is kept: longhaul context {id} · longhaul sessions show {id}"));
    }

    fn stream(&mut self, delta: &str) {
        let mut out = std::io::stdout().lock();
        for c in delta.chars() {
            if self.column == 0 {
                let _ = write!(out, "  {} ", self.dim("agent"));
                self.column = 8;
            }
            let full = self.column >= WIDTH && c == ' ';
            if c == '\n' || full {
                let _ = write!(out, "\n        ");
                self.column = 8;
            } else {
                let _ = write!(out, "{c}");
                self.column += 1;
            }
        }
        let _ = out.flush();
    }

    fn end_stream(&mut self) {
        if std::mem::take(&mut self.column) > 0 {
            self.line("");
        }
    }

    fn said(&self, who: &str, text: &str) {
        let mut line = format!("  {}   ", self.dim(who));
        let mut width = 8;
        for word in text.split_whitespace() {
            if width + word.chars().count() > WIDTH {
                self.line(&line);
                line = " ".repeat(8);
                width = 8;
            }
            line.push_str(word);
            line.push(' ');
            width += word.chars().count() + 1;
        }
        self.line(&line);
    }

    fn line(&self, text: &str) {
        // A reader that has gone away is no error of ours.
        let _ = writeln!(std::io::stdout().lock(), "{text}");
    }

    fn paint(&self, code: &str, text: &str) -> String {
        if self.colour { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }

    fn bold(&self, text: &str) -> String {
        self.paint("1", text)
    }

    fn dim(&self, text: &str) -> String {
        self.paint("2", text)
    }

    fn accent(&self, text: &str) -> String {
        self.paint("36", text)
    }
}

/// The tool and the argument that matters.
fn label(tool: &str, arguments: &str) -> String {
    let arguments: Value = serde_json::from_str(arguments).unwrap_or_default();
    let keys = ["path", "command", "pattern", "handle", "query"];
    let argument = keys.iter().find_map(|key| arguments[key].as_str()).unwrap_or_default();
    format!("{tool} {argument}")
}

fn number(value: Option<&Value>) -> u64 {
    value.and_then(Value::as_u64).unwrap_or(0)
}

/// 52.1K for 52,100.
fn short(number: u64) -> String {
    match number {
        0..1_000 => number.to_string(),
        1_000..1_000_000 => format!("{:.1}K", number as f64 / 1_000.0),
        _ => format!("{:.1}M", number as f64 / 1_000_000.0),
    }
}
