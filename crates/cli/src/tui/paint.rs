//! Text painted by [`crate::term::style`], as ratatui's lines; set into rows where it is too wide.

use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use unicode_segmentation::UnicodeSegmentation as _;

use crate::term::text::width;

/// Sets a painted text in rows of at most `columns`.
pub(crate) fn rows(text: &str, columns: usize) -> Vec<Line<'static>> {
    let mut rows = Vec::new();
    let mut row = SpanRow::default();
    for (style, piece) in pieces(text) {
        // A cluster is never torn: an emoji of several characters has its width only as a whole.
        for cluster in piece.graphemes(true) {
            let needed = width(cluster);
            // A cluster wider than the row would otherwise leave an empty row before it.
            if row.columns + needed > columns && row.columns > 0 {
                rows.push(std::mem::take(&mut row).line());
            }
            row.push(cluster, style);
            row.columns += needed;
        }
    }
    rows.push(row.line());
    rows
}

#[derive(Default)]
struct SpanRow {
    columns: usize,
    spans: Vec<Span<'static>>,
}

impl SpanRow {
    fn push(&mut self, cluster: &str, style: Style) {
        match self.spans.last_mut() {
            // One span per cluster would make ratatui compare and write styles for each character.
            Some(span) if span.style == style => span.content.to_mut().push_str(cluster),
            _ => self.spans.push(Span::styled(cluster.to_owned(), style)),
        }
    }

    fn line(self) -> Line<'static> {
        Line::from(self.spans)
    }
}

/// Returns the stretches of one style each, in order.
fn pieces(text: &str) -> Vec<(Style, &str)> {
    let mut style = Style::default();
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("\u{1b}[") {
        // A code without its end is shown as text. Dropping it would also drop the text behind it.
        let Some((codes, after)) = after.split_once('m') else { break };
        pieces.push((style, before));
        style = codes.split(';').fold(style, painted);
        rest = after;
    }
    pieces.push((style, rest));
    pieces.retain(|(_, piece)| !piece.is_empty());
    pieces
}

fn painted(style: Style, code: &str) -> Style {
    match code {
        "1" => style.add_modifier(Modifier::BOLD),
        "2" => style.add_modifier(Modifier::DIM),
        "3" => style.add_modifier(Modifier::ITALIC),
        "31" => style.fg(Color::Red),
        "33" => style.fg(Color::Yellow),
        "36" => style.fg(Color::Cyan),
        // Also `0`, which ends all paint.
        _ => Style::default(),
    }
}

/// Returns the codes for a style, starting without paint. Empty for no style.
pub(crate) fn codes(style: (Color, Modifier)) -> String {
    let (colour, modifier) = style;
    let mut codes = String::new();
    for (flag, code) in [(Modifier::BOLD, "1"), (Modifier::DIM, "2"), (Modifier::ITALIC, "3")] {
        if modifier.contains(flag) {
            codes.push_str(&format!("\u{1b}[{code}m"));
        }
    }
    match colour {
        Color::Red => codes.push_str("\u{1b}[31m"),
        Color::Yellow => codes.push_str("\u{1b}[33m"),
        Color::Cyan => codes.push_str("\u{1b}[36m"),
        _ => {}
    }
    codes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::term::style::TextPainter as House;
    use crate::term::wrap::broken;

    #[test]
    fn paint_survives_and_takes_no_columns() {
        let house = House::new(true);
        let text = format!("{} said {}", house.accent("agent"), house.dim("little 日本"));
        let rows = rows(&text, 10);
        let plain: Vec<String> = rows.iter().map(ToString::to_string).collect();
        assert_eq!(plain, ["agent said", " little 日", "本"]);
        assert_eq!(rows[0].spans[0].style, Style::default().fg(Color::Cyan));
        assert_eq!(rows[1].spans[1].style, Style::default().add_modifier(Modifier::DIM));
        let broken = broken(&text, 2, 12);
        assert_eq!(
            broken,
            format!("{} said\n  {}", house.accent("agent"), "\u{1b}[2mlittle\n  日本\u{1b}[0m")
        );
        assert_eq!(codes((Color::Cyan, Modifier::BOLD)), "\u{1b}[1m\u{1b}[36m");
    }
}
