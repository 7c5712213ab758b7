//! The output of the demo: the conversation as in a chat, the meter after every step, and a closing line.

use std::future::Future;
use std::path::Path;

use longhaul::SessionEvent;
use longhaul::api_events::ApiEvent;
use longhaul::clock::now_ms;
use longhaul::context::ContextReport;
use longhaul::event_bus::EventReceiver;
use longhaul::session::{Session, SessionError};
use longhaul_core::ids::SessionId;

use super::{DemoOutcome, shown};
use crate::term::human::short;
use crate::term::meter::ContextMeterBar;
use crate::term::out;
use crate::term::style::TextPainter;
use crate::term::transcript::{TranscriptRenderer, TranscriptTarget};
use crate::term::ui_event::{UiEvent, event_from_announcement};
use crate::term::wrap::fitting;
use crate::undo_check;

/// The maximum cells of the meter's bar.
const BAR: usize = 32;
/// The columns of the meter's line without the bar.
const BESIDE: usize = 29;

/// Prints what happens in a session.
pub(super) struct DemoPrinter {
    watch: EventReceiver,
    transcript: TranscriptRenderer,
    style: TextPainter,
    answer: String,
}

impl DemoPrinter {
    pub(super) fn new(session: &Session, colour: bool) -> Self {
        let style = TextPainter::new(colour);
        let transcript = TranscriptRenderer::new(style, TranscriptTarget::Shell, out::width());
        Self { watch: session.watch(), transcript, style, answer: String::new() }
    }

    pub(super) fn opening(&mut self, folder: &Path, window: u64, files: usize) {
        self.row(&self.style.bold("longhaul demo"));
        self.row(&format!(
            "A scripted model reads {files} files of {} in a window of {} tokens.\n\
             The loop, the tools, the store and the files are real; nothing is changed.",
            shown(folder),
            short(window)
        ));
    }

    pub(super) fn note(&mut self, text: &str) {
        self.row(&self.style.dim(text));
    }

    pub(super) fn scene(&mut self, number: &str, title: &str) {
        self.row(&format!("\u{20}\n{}", self.style.bold(&format!("{number} · {title}"))));
    }

    /// Sends a message, prints the events, and returns the model's last text.
    pub(super) async fn ask(&mut self, session: &Session, text: &str) -> Result<String, SessionError> {
        self.answer.clear();
        self.during(session, session.ask(text)).await??;
        Ok(std::mem::take(&mut self.answer))
    }

    /// Prints the events while `work` goes on.
    pub(super) async fn during<T>(
        &mut self,
        session: &Session,
        work: impl Future<Output = T>,
    ) -> Result<T, SessionError> {
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                biased;
                // Events come first, so that they are printed before the work counts as done.
                Ok(announcement) = self.watch.recv() => self.show(session, &announcement).await?,
                done = &mut work => {
                    while let Ok(announcement) = self.watch.try_recv() {
                        self.show(session, &announcement).await?;
                    }
                    return Ok(done);
                }
            }
        }
    }

    async fn show(&mut self, session: &Session, announcement: &ApiEvent) -> Result<(), SessionError> {
        if let Some(SessionEvent::StepFinished { text, .. }) = SessionEvent::from_announcement(announcement) {
            self.answer = text;
        }
        match event_from_announcement(announcement) {
            Some(UiEvent::Usage) => {
                let meter = ContextMeterBar::of(&session.context().await?);
                let cells = out::width().saturating_sub(BESIDE).clamp(8, BAR);
                self.row(&format!("       {}", meter.line(cells, self.style)));
            }
            // The demo prints figures instead, and its model never keeps anybody waiting.
            Some(UiEvent::Restored { .. } | UiEvent::Compacting { .. }) | None => {}
            Some(mut happening) => {
                undo_check::complete(session, &mut happening).await;
                self.transcript.take(&happening, now_ms());
                self.print();
            }
        }
        Ok(())
    }

    pub(super) fn undone(&mut self, before: u64, shorter: u64, after: u64, exact: bool) {
        let verdict = if exact { "the view is exactly what it was" } else { "the view DIFFERS" };
        let text =
            format!("─ undone · {} → {} → {} · {verdict}", short(before), short(shorter), short(after));
        self.row(&self.style.accent(&text));
    }

    pub(super) fn nothing_to_undo(&mut self) {
        self.row(
            &self.style.accent("─ nothing more can be left out in this folder, so there is nothing to undo"),
        );
    }

    pub(super) fn verdict(&mut self, right: bool) {
        let text = if right {
            "✓ that line was not in the window any more; the answer is right, byte for byte"
        } else {
            "✗ the answer is wrong"
        };
        self.row(&self.style.bold(text));
    }

    /// Returns the figures and the commands to look at the session. `longhaul` calls this program.
    pub(super) fn closing(
        &mut self,
        outcome: &DemoOutcome,
        report: &ContextReport,
        id: &SessionId,
        longhaul: &str,
    ) {
        let used = report.token_usage.get("inputTokens").and_then(serde_json::Value::as_u64).unwrap_or(0);
        let result = format!(
            "The view was shortened {} times; {} of {} lines came back right; {} invalid requests.",
            outcome.edits, outcome.right, outcome.asked, outcome.invalid
        );
        if outcome.asked == 0 {
            self.row("No line of these files made a question. Another folder would: longhaul demo FOLDER");
        }
        // The first 13 characters of the id are its time in milliseconds, which is enough to tell sessions apart.
        let id: String = id.as_str().chars().take(13).collect();
        self.row(&format!(
            "\u{20}\n{}\nAll calls together read {} tokens; the largest had {} of a window of {}.\n\
             The session is kept. EDIT is the name of an edit in the rows above:",
            self.style.bold(&result),
            short(used),
            short(outcome.largest),
            short(report.window)
        ));
        // These lines are to be copied, so they are not wrapped here. A line that the terminal wraps is copied whole.
        self.transcript.row(&format!(
            "  {longhaul} context {id}\n  {longhaul} sessions show {id}\n  {longhaul} undo {id} EDIT"
        ));
        self.print();
    }

    fn row(&mut self, text: &str) {
        self.transcript.row(&fitting(text, out::width()));
        self.print();
    }

    /// Prints the transcript. A reader that has gone away is no error of ours.
    fn print(&mut self) {
        let _ = out::data(&self.transcript.output());
    }
}
