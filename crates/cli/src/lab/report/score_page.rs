//! The scoreboard as one self-contained page.

use super::html::tables::table;
use super::html::{page_head, prose};
use super::markup::MarkupWriter;
use crate::lab::score::board::{ScoreReport, ScoreRow};

pub(super) fn page(board: &ScoreReport) -> String {
    let mut out = MarkupWriter::default();
    out.own("<!doctype html>\n");
    out.element("html", &[("lang", "en")], |out| {
        out.element("head", &[], |out| page_head("scores", out));
        out.element("body", &[], |out| {
            out.element("main", &[], |out| body(board, out));
            let made = format!("{} · version {}", board.command, board.version);
            out.element("footer", &[], |out| out.leaf("p", &[], &made));
        });
    });
    out.own("\n");
    out.into_string()
}

fn body(board: &ScoreReport, out: &mut MarkupWriter) {
    out.element("header", &[], |out| {
        out.leaf("p", &[("class", "kind")], "Lab report");
        out.leaf("h1", &[], &prose(&board.headline()));
        out.leaf("p", &[("class", "lead")], "What views keep, measured without a model.");
    });
    for rows in board.rows.chunk_by(|left, right| left.measure == right.measure) {
        let Some(first) = rows.first() else { continue };
        out.element("section", &[], |out| {
            out.leaf("h2", &[], &first.measure);
            table(out, &["case", "figure", "goal"], 3, |out| rows.iter().for_each(|it| row(it, out)));
        });
    }
    for line in board.notes.iter().flat_map(|note| note.lines()) {
        out.leaf("p", &[("class", "note")], &prose(line));
    }
}

fn row(row: &ScoreRow, out: &mut MarkupWriter) {
    let (class, sign) = match row.is_met {
        Some(true) => ("yes", "✓ "),
        Some(false) => ("no", "✗ "),
        None => ("unknown", ""),
    };
    out.element("tr", &[], |out| {
        out.leaf("th", &[("scope", "row")], &row.case);
        out.element("td", &[("class", "word")], |out| {
            out.leaf("b", &[("class", class)], sign);
            out.text(&prose(&row.figure));
        });
        out.leaf("td", &[("class", "word")], &prose(row.goal.as_deref().unwrap_or("")));
    });
}
