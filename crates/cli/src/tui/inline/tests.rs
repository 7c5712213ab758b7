use ratatui::Terminal;
use ratatui::text::Line;

use super::*;

fn emulator(columns: u16, rows: u16) -> vt100::Parser {
    vt100::Parser::new(size(rows), size(columns), 100)
}

fn size(number: u16) -> std::num::NonZero<u16> {
    std::num::NonZero::new(number).unwrap()
}

/// A terminal that shows what it is sent.
struct Seen(vt100::Parser);

impl Write for Seen {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.process(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl TerminalWrite for Vec<u8> {
    fn columns(&self) -> u16 {
        20
    }
}

impl TerminalWrite for Seen {
    fn columns(&self) -> u16 {
        self.0.screen().size().1.get()
    }
}

fn terminal(columns: u16, rows: u16, before: &str, reflows: bool) -> Terminal<InlineBackend<Seen>> {
    let mut seen = emulator(columns, rows);
    seen.process(before.as_bytes());
    Terminal::new(InlineBackend::new(Seen(seen), columns, GlyphSet::Unicode, reflows)).unwrap()
}

fn draw(terminal: &mut Terminal<InlineBackend<Seen>>, above: &str, lines: &[&str], cursor: (u16, u16)) {
    terminal.backend_mut().insert(above);
    terminal.backend_mut().set_rows(lines.len() as u16);
    terminal
        .draw(|frame: &mut ratatui::Frame<'_>| {
            for (line, row) in lines.iter().zip(frame.area().rows()) {
                frame.render_widget(Line::raw(*line), row);
            }
            frame.set_cursor_position(cursor);
        })
        .unwrap();
}

fn shown(terminal: &Terminal<InlineBackend<Seen>>) -> Vec<String> {
    let screen = terminal.backend().out.0.screen();
    let mut rows: Vec<String> = screen.rows(0, screen.size().1.get()).collect();
    while rows.last().is_some_and(String::is_empty) {
        rows.pop();
    }
    rows
}

fn cursor(terminal: &Terminal<InlineBackend<Seen>>) -> (u16, u16) {
    let (row, column) = terminal.backend().out.0.screen().cursor_position();
    (column, row)
}

#[test]
fn what_stood_there_before_stays_and_finished_rows_go_above_the_live_ones() {
    let mut terminal = terminal(20, 8, "$ ls\r\n$ chat\r\n", true);
    draw(&mut terminal, "", &["meter", "> "], (2, 1));
    assert_eq!(shown(&terminal), ["$ ls", "$ chat", "meter", ">"]);
    assert_eq!(cursor(&terminal), (2, 3));
    draw(&mut terminal, "one\ntwo\n", &["tail", "meter", "> x"], (3, 2));
    assert_eq!(shown(&terminal), ["$ ls", "$ chat", "one", "two", "tail", "meter", "> x"]);
    assert_eq!(cursor(&terminal), (3, 6));
    draw(&mut terminal, "three\n", &["meter", ">"], (2, 1));
    assert_eq!(shown(&terminal), ["$ ls", "$ chat", "one", "two", "three", "meter", ">"]);
}

#[test]
fn rows_leave_for_the_scrollback_in_order_and_once() {
    let mut terminal = terminal(20, 4, "$ chat\r\n", true);
    for at in 0..10 {
        draw(&mut terminal, &format!("row {at}\n"), &["meter", "> "], (2, 1));
    }
    assert_eq!(shown(&terminal), ["row 8", "row 9", "meter", ">"]);
    let seen = &mut terminal.backend_mut().out.0;
    seen.screen_mut().set_scrollback(100);
    let top: Vec<String> = seen.screen().rows(0, 20).collect();
    assert_eq!(top, ["$ chat", "row 0", "row 1", "row 2"]);
}

#[test]
fn a_shorter_row_leaves_nothing_of_the_longer_one() {
    let mut terminal = terminal(20, 4, "", true);
    draw(&mut terminal, "", &["a long meter", "> some words"], (12, 1));
    draw(&mut terminal, "", &["meter", "> 日本"], (6, 1));
    assert_eq!(shown(&terminal), ["meter", "> 日本"]);
    assert_eq!(cursor(&terminal), (6, 1));
    draw(&mut terminal, "", &["", "> "], (2, 1));
    assert_eq!(shown(&terminal), ["", ">"]);
}

#[test]
fn nothing_new_sends_nothing() {
    let mut terminal = Terminal::new(InlineBackend::new(Vec::new(), 20, GlyphSet::Ascii, true)).unwrap();
    let mut bytes = |text: &'static str| {
        terminal.draw(|frame| frame.render_widget(text, frame.area())).unwrap();
        std::mem::take(&mut terminal.backend_mut().out)
    };
    let first = String::from_utf8(bytes("▓ x")).unwrap();
    assert!(first.starts_with(BEGIN) && first.ends_with(END) && first.contains("# x"), "{first:?}");
    assert_eq!(bytes("▓ x"), b"");
    assert_ne!(bytes("▓ y"), b"");
}

#[test]
fn a_narrower_terminal_keeps_no_rests() {
    // One that cuts rows, and one that sets them anew.
    let mut cutting = terminal(20, 8, "$ chat\r\n", false);
    draw(&mut cutting, "said\n", &["a meter of 20 cells.", "> words to wrap"], (15, 1));
    let (rows, columns) = emulator(10, 8).screen().size();
    cutting.backend_mut().out.0.screen_mut().set_size(rows, columns);
    cutting.backend_mut().set_columns(10);
    draw(&mut cutting, "", &["meter", "> words"], (7, 1));
    assert_eq!(shown(&cutting), ["$ chat", "said", "meter", "> words"]);

    let mut reflowing = terminal(20, 8, "$ chat\r\n", true);
    draw(&mut reflowing, "said\n", &["a meter of 20 cells.", "> words to wrap"], (15, 1));
    let anew = "$ chat\r\nsaid\r\na meter of 20 cells.> words to wrap";
    let anew = anew.replace("cells.", "cells.\r\n");
    let mut seen = emulator(10, 8);
    seen.process(anew.as_bytes());
    reflowing.backend_mut().out = Seen(seen);
    let before = shown(&reflowing);
    draw(&mut reflowing, "more\n", &["a meter of 20 cells.", "> words"], (7, 1));
    assert_eq!(shown(&reflowing), before, "nothing is drawn until the size is known");
    reflowing.backend_mut().set_columns(10);
    draw(&mut reflowing, "", &["meter", "> words"], (7, 1));
    assert_eq!(shown(&reflowing), ["$ chat", "said", "more", "meter", "> words"]);
}

#[test]
fn what_is_erased_leaves_the_cursor_where_the_live_rows_began() {
    let mut terminal = terminal(20, 8, "$ chat\r\n", true);
    draw(&mut terminal, "said\n", &["tail", "meter", "> "], (2, 2));
    terminal.backend_mut().insert("last\n");
    terminal.backend_mut().erase().unwrap();
    assert_eq!(shown(&terminal), ["$ chat", "said", "last"]);
    assert_eq!(cursor(&terminal), (0, 3));
}
