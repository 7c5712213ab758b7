use super::*;
use crate::lab::report::sample::{self, outcome};

#[test]
fn every_line_fits_and_columns_are_aligned() {
    for columns in [80, 100, 120] {
        let text = sample::report().text(columns);
        let widest = text.lines().map(UnicodeWidthStr::width).max().unwrap_or(0);
        assert!(widest <= columns, "{widest} columns in {columns}");
        assert!(text.lines().all(|line| line == line.trim_end()));
    }
    let text = sample::report().text(100);
    let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("    adaptive ")).collect();
    assert_eq!(rows.len(), 15 * 2 + 5 * 2, "each cell, then each median");
    assert!(rows.iter().all(|row| row.width() == 100), "{rows:#?}");
}

#[test]
fn a_session_has_its_windows_and_each_window_its_policies() {
    let text = sample::report().text(100);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "pi · prices large");
    assert!(
        lines[1].contains("     append-    needed recall  lost prefix compac-    peak waiting"),
        "{}",
        lines[1]
    );
    assert_eq!(lines[3], "refactor the lexer <b>&\"quoted\"</b>");
    assert_eq!(lines[4], "  window 40.5K (25 % of the peak)");
    assert!(lines[5].starts_with("    append-only "), "{}", lines[5]);
    assert!(lines[5].contains("100.0") && lines[5].contains('!'), "it does not fit: {}", lines[5]);
    assert!(lines[14].starts_with("    langchain-summarization"), "{}", lines[14]);
    assert_eq!(lines[15], "  window 81.0K (50 % of the peak)");
    assert!(text.contains("! some requests left too little of the window for the answer"), "{text}");
}

#[test]
fn synthetic_sessions_and_medians_are_labelled() {
    let text = sample::report().text(100);
    assert!(text.contains("made-up · SYNTHETIC · prices large"), "{text}");
    assert!(text.contains("Medians · tau-bench · 3 sessions · prices small"));
    assert!(text.contains("Medians · all recorded sessions · 4 sessions · prices large"));
    assert!(text.contains("Medians · all SYNTHETIC sessions · 1 session · prices large"));
}

#[test]
fn the_end_says_what_follows() {
    let text = sample::report().text(100);
    let unwrapped = text.replace('\n', " ");
    assert!(unwrapped.contains("lost: not found by one search."), "{text}");
    assert!(!unwrapped.contains("(a)") && !unwrapped.contains("peer"), "{text}");
    assert!(unwrapped.contains("A replay is not counterfactual"));
    assert!(unwrapped.contains("With adaptive, sessions cost 46.1 % of append-only and 7"), "{text}");
    assert!(
        text.contains("\nGoals                       of append-only    of best rival     with recall"),
        "{text}"
    );
    assert!(
        text.contains("\n                            ≤ 60 %            ≤ 85 %            ≥ 98 %"),
        "{text}"
    );
    assert!(text.contains("\n  large                     46.1 % met        7"), "{text}");
    assert!(text.contains(" NOT MET ") && text.contains("\n  small, SYNTHETIC          5"), "{text}");
    assert!(!text.contains("\n  %"), "figures and their signs stay together: {text}");
    assert!(unwrapped.contains("- A summary has as many tokens as the policy's limit allows."));
}

#[test]
fn names_of_others_neither_drive_the_terminal_nor_break_the_lines() {
    let hostile = "\u{1b}[2J\u{202e}日本語日本語日本語日本語日本語日本語日本語日本語日本語日本語日本語日本語日本語\nsecond";
    let report = ReplayReport::new(
        sample::header(),
        vec![
            outcome(hostile, "adaptive", 1.0, (1, 0, 0)),
            outcome(hostile, "\u{7}a policy with a very long name indeed", 1.0, (1, 0, 1)),
        ],
    );
    let text = report.text(80);
    assert!(!text.contains(['\u{1b}', '\u{202e}', '\u{7}']), "{text}");
    assert!(text.lines().all(|line| line.width() <= 80), "{text}");
    assert!(text.contains("    a policy with a ver…"), "{text}");
}
