//! The live rows: the streaming line, running tools, waiting messages, the meter, the input, and its help.

use longhaul_core::ids::Millis;
use ratatui::Frame;
use ratatui::layout::{Position, Rect};
use ratatui::text::Line;

use crate::commands::chat::approvals::answer_mark;
use crate::commands::chat::texts;
use crate::term::text::{fit, one_line, width};
use crate::term::tool_row;

use super::paint;
use super::state::UiState;

/// The maximum number of running tools with a row of their own.
const TOOLS: usize = 4;

/// The maximum number of commands offered at once.
const OFFERS: usize = 6;

/// The minimum rows of a terminal with room for an empty row.
const ROOMY: usize = 16;

/// The maximum columns of a waiting message.
const CHIP: usize = 28;

/// The column of the commands' descriptions.
const USAGE: usize = 18;

/// The live rows, ready to be drawn.
#[derive(Debug)]
pub(crate) struct LiveRows {
    lines: Vec<Line<'static>>,
    cursor: Position,
}

impl LiveRows {
    /// Returns the number of rows.
    pub(crate) fn rows(&self) -> u16 {
        u16::try_from(self.lines.len()).unwrap_or(u16::MAX)
    }

    /// Draws the live rows.
    pub(crate) fn render(&self, frame: &mut Frame<'_>) {
        let area = frame.area();
        for (line, y) in self.lines.iter().zip(area.top()..area.bottom()) {
            frame.render_widget(line, Rect { y, height: 1, ..area });
        }
        let last = area.bottom().saturating_sub(1);
        frame.set_cursor_position(Position::new(self.cursor.x, self.cursor.y.min(last)));
    }
}

impl UiState {
    /// Returns the live rows at `now`.
    pub(crate) fn view(&self, now: Millis) -> LiveRows {
        let (input, cursor) = self.input();
        let help = self.help(now);
        // The meter, the input and its help have fixed places. The rows above get the rest.
        let room = self.rows.saturating_sub(1 + input.len() + help.len());
        let mut lines = self.tail();
        lines.extend(self.running(now));
        if self.rows >= ROOMY {
            lines.push(Line::default());
        }
        lines.extend(self.chips());
        let lines_left_out = lines.len().saturating_sub(room);
        lines.drain(..lines_left_out);
        lines.push(self.meter_line(now));
        let above = lines.len();
        lines.extend(input);
        lines.extend(help);
        // More rows than the terminal has would scroll, and could not be redrawn.
        lines.truncate(self.rows);
        let row = u16::try_from(above + cursor.1).unwrap_or(u16::MAX);
        LiveRows { lines, cursor: Position::new(u16::try_from(cursor.0).unwrap_or(u16::MAX), row) }
    }

    fn line(&self, text: &str) -> Line<'static> {
        paint::rows(text, self.columns).into_iter().next().unwrap_or_default()
    }

    /// Returns the last line of a streaming answer.
    fn tail(&self) -> Vec<Line<'static>> {
        if self.tail.is_empty() {
            return Vec::new();
        }
        let caret = if self.activity.is_writing() { self.style.accent("▍") } else { String::new() };
        let tail = self.broken(&format!("{}{caret}", self.tail));
        tail.lines().flat_map(|line| paint::rows(line, self.columns)).collect()
    }

    fn running(&self, now: Millis) -> Vec<Line<'static>> {
        let running = self.activity.running(now);
        let more = running.len().saturating_sub(TOOLS);
        let mut rows: Vec<_> = running
            .take(TOOLS)
            .map(|(call, elapsed)| self.line(&tool_row::running(call, elapsed, self.width(), self.style)))
            .collect();
        if more > 0 {
            rows.push(self.line(&self.style.dim(&format!("    +{more}"))));
        }
        rows
    }

    /// Returns the waiting messages, numbered, as many as there is room for.
    fn chips(&self) -> Option<Line<'static>> {
        let mut used = width("  queued");
        let mut row = format!("  {}", self.style.dim("queued"));
        for (waiting, at) in self.queue.iter().zip(1..) {
            let chip = format!("  {at} {}", fit(&one_line(&waiting.text), CHIP));
            let left = format!("  +{}", self.queue.len() + 1 - at);
            let is_last = at == self.queue.len();
            let reserved = if is_last { 0 } else { width(&left) };
            if used + width(&chip) + reserved > self.width() {
                row.push_str(&self.style.dim(&left));
                break;
            }
            used += width(&chip);
            row.push_str(&chip);
        }
        (!self.queue.is_empty()).then(|| self.line(&row))
    }

    fn meter_line(&self, now: Millis) -> Line<'static> {
        let waits = self.asked().is_some();
        self.line(&self.activity.line(&self.meter, waits, self.width(), self.style, now))
    }

    /// Returns the mark before the input.
    fn mark(&self) -> String {
        match (self.asked(), self.changing()) {
            (Some(tool), _) => answer_mark(tool, self.columns),
            (None, Some(at)) => format!("change {at} › "),
            (None, None) => "› ".to_owned(),
        }
    }

    /// Returns the columns of the input. One more is left for the cursor.
    pub(super) fn input_columns(&self) -> usize {
        self.columns.saturating_sub(width(&self.mark()) + 1).max(2)
    }

    /// Returns the rows of the input, and the cursor's column and row in them.
    fn input(&self) -> (Vec<Line<'static>>, (usize, usize)) {
        let mark = self.mark();
        let painted = if self.asked().is_some() || self.changing().is_some() {
            self.style.amber(&mark)
        } else {
            self.style.accent(&mark)
        };
        let indent = width(&mark);
        if self.editor.is_empty() {
            let placeholder = fit(self.placeholder(), self.input_columns());
            return (vec![self.line(&format!("{painted}{}", self.style.dim(&placeholder)))], (indent, 0));
        }
        let layout = self.editor.layout(self.input_columns());
        let text = self.editor.folded();
        let cursor = layout.row_of(self.editor.cursor());
        // A long input scrolls, so that the conversation stays in sight.
        let height = (self.rows / 3).max(1);
        let first = (cursor + 1).saturating_sub(height).min(layout.rows().len().saturating_sub(height));
        let shown = layout.rows().iter().enumerate().skip(first).take(height).map(|(at, row)| {
            let before = if at == 0 { painted.clone() } else { " ".repeat(indent) };
            self.line(&format!("{before}{}", self.shown(&text[row.clone()])))
        });
        let before = &text[layout.rows()[cursor].start..self.editor.cursor()];
        let column = self.editor.columns(before).min(self.input_columns());
        (shown.collect(), (indent + column, cursor - first))
    }

    fn shown(&self, text: &str) -> String {
        use unicode_segmentation::UnicodeSegmentation as _;
        text.graphemes(true)
            .map(|cluster| {
                let shown = self.editor.shown(cluster);
                if shown == cluster { shown.into_owned() } else { self.style.accent(&shown) }
            })
            .collect()
    }

    fn placeholder(&self) -> &'static str {
        match (self.asked().is_some(), self.is_busy, self.queue.is_empty()) {
            (true, ..) => texts::ANSWER,
            (false, true, _) => texts::WILL_QUEUE,
            (false, false, false) => texts::QUEUE_WAITS,
            (false, false, true) => texts::MESSAGE,
        }
    }

    /// Returns the rows below the input: the commands that it may become, or a hint.
    fn help(&self, now: Millis) -> Vec<Line<'static>> {
        let offers = self.completion.offers(self.typed());
        let chosen = self.completion.chosen(self.typed());
        let room = OFFERS.min(self.rows.saturating_sub(4)).max(1);
        let first = (chosen + 1).saturating_sub(room);
        if offers.is_empty() {
            let hint = self.hinted(now).map(|hint| self.style.dim(&fit(&format!("  {hint}"), self.width())));
            return hint.iter().map(|hint| self.line(hint)).collect();
        }
        let usage = USAGE.max(offers.iter().map(|offer| width(&offer.usage)).max().unwrap_or(0) + 2);
        offers
            .iter()
            .enumerate()
            .skip(first)
            .take(room)
            .map(|(at, offer)| {
                let mark = if at == chosen { self.style.accent("› ") } else { "  ".to_owned() };
                let name = fit(&offer.usage, self.width().saturating_sub(2));
                let gap = " ".repeat(usage.saturating_sub(width(&name)));
                let does = fit(&offer.does, self.width().saturating_sub(2 + usage));
                let named = if at == chosen { self.style.bold(&name) } else { name };
                self.line(&format!("{mark}{named}{gap}{}", self.style.dim(&does)))
            })
            .collect()
    }
}
