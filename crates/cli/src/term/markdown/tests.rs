use super::*;
use crate::term::style::TextPainter;
use crate::term::text::visible;
use crate::term::transcript::{TranscriptRenderer, TranscriptTarget};
use crate::term::ui_event::UiEvent;

fn sets(text: &str, size: usize) -> Vec<MarkdownSpan> {
    let (mut markdown, mut out) = (MarkdownFormatter::default(), Vec::new());
    let chars: Vec<char> = text.chars().collect();
    for piece in chars.chunks(size) {
        markdown.push(&piece.iter().collect::<String>(), &mut out);
    }
    markdown.finish(&mut out);
    out
}

/// Stretches of one ink, one below the other's line.
fn shown(text: &str, size: usize) -> String {
    let mut shown = String::new();
    let mut last = TextStyle::default();
    for set in sets(text, size) {
        match set {
            MarkdownSpan::Text(text, ink) => {
                if mark(ink) != mark(last) {
                    shown.push_str(&format!("⟨{}⟩", mark(ink)));
                }
                last = ink;
                shown.push_str(&text);
            }
            MarkdownSpan::Hang(_) => {}
            MarkdownSpan::End => shown.push('\n'),
            MarkdownSpan::Table(_) => shown.push_str("⟨table⟩"),
        }
    }
    shown
}

fn mark(ink: TextStyle) -> &'static str {
    match ink {
        TextStyle::BOLD => "B",
        TextStyle::DIM => "D",
        TextStyle::ITALIC => "I",
        TextStyle::CODE => "C",
        _ => "",
    }
}

const TEXT: &str = "# A title\n\nSome **strong words**, `co*de`, *so* and [a page](http://x/y).\n\n- one\n- two `x`\n  1. deep\n\n```sh\n# no title\nls **\n```\n> said\n---\nend of it";

#[test]
fn a_text_has_its_form() {
    let expected = "⟨B⟩A title\n\n⟨⟩Some ⟨B⟩strong words⟨⟩, ⟨C⟩co*de⟨⟩, ⟨I⟩so⟨⟩ and a page (http://x/y).\n\n• one\n• two ⟨C⟩x\n⟨⟩  1. deep\n\n⟨D⟩  # no title\n  ls **\n│ ⟨⟩said\n⟨D⟩────────────────────────\n⟨⟩end of it";
    assert_eq!(shown(TEXT, 10_000), expected);
}

#[test]
fn it_is_the_same_in_whatever_pieces_it_comes() {
    let whole = shown(TEXT, 10_000);
    for size in 1..12 {
        assert_eq!(shown(TEXT, size), whole, "pieces of {size}");
    }
}

#[test]
fn what_is_no_mark_keeps_its_signs() {
    for text in [
        "2**10 is 1024",
        "snake_case_name",
        "3 * 4 * 5",
        "**never closed",
        "`nor this",
        "[x] done",
        "a [b] c",
        "#hashtag",
        "1.5 is a number",
        "-5 degrees",
        "C:\\\\temp ends",
        "**",
    ] {
        let plain = text.replace("\\\\", "\\");
        for size in [1, 3, 100] {
            assert_eq!(shown(text, size), plain, "{text}");
        }
    }
}

#[test]
fn words_are_given_on_before_the_line_is_whole() {
    let (mut markdown, mut out) = (MarkdownFormatter::default(), Vec::new());
    markdown.push("The first words of a long lin", &mut out);
    assert_eq!(out, [MarkdownSpan::Text("The first words of a long lin".to_owned(), TextStyle::default())]);
    out.clear();
    markdown.push("e with **stro", &mut out);
    assert_eq!(
        out,
        [MarkdownSpan::Text("e with ".to_owned(), TextStyle::default())],
        "what is marked comes as a whole"
    );
}

#[test]
fn the_transcript_sets_it_where_there_are_colours_and_nowhere_else() {
    let printed = |colour: bool| {
        let mut transcript = TranscriptRenderer::new(TextPainter::new(colour), TranscriptTarget::Chat, 40);
        for piece in ["- an item of **many** words that goes on ", "into a second line\n\n```\ncode\n```"] {
            transcript.take(&UiEvent::Text(piece.to_owned()), 0);
        }
        transcript.take(&UiEvent::Answer { text: String::new(), cut: false }, 0);
        transcript.output()
    };
    let set = printed(true);
    assert!(set.contains("of \u{1b}[1mmany\u{1b}[0m"), "{set:?}");
    assert_eq!(
        visible(&set),
        "agent  • an item of many words that goes\n         on into a second line\n\n         code\n"
    );
    assert!(set.lines().all(|line| !line.contains("\u{1b}[1m") || line.contains("\u{1b}[0m")));
    assert!(printed(false).contains("- an item of **many** words"), "a pipe has it as it was written");
}

const TABLE: &str = "Figures:\n\n| Policy | Tokens | Note |\n|:--|--:|---|\n| `prune` | 1,204 | keeps **all** |\n| none | 96,200 | a\\|b |\n|x|\n\nThat is all.";

/// A text as the transcript of so many columns shows it.
fn printed_in(columns: usize, text: &str, size: usize) -> String {
    let mut transcript = TranscriptRenderer::new(TextPainter::new(true), TranscriptTarget::Chat, columns);
    let chars: Vec<char> = text.chars().collect();
    for piece in chars.chunks(size) {
        transcript.take(&UiEvent::Text(piece.iter().collect()), 0);
    }
    transcript.take(&UiEvent::Answer { text: String::new(), cut: false }, 0);
    transcript.output()
}

#[test]
fn a_table_is_aligned_where_it_fits() {
    let expected = "\
agent  Figures:

       Policy  Tokens  Note
       ──────  ──────  ─────────
       prune    1,204  keeps all
       none    96,200  a|b
       x

       That is all.
";
    for size in [1, 7, 1_000] {
        let set = printed_in(60, TABLE, size);
        assert_eq!(visible(&set), expected, "pieces of {size}");
        assert!(set.contains("\u{1b}[36mprune") && set.contains("\u{1b}[1mall"), "{set:?}");
    }
    let whole = printed_in(60, TABLE.split_once("|x|").unwrap().0.trim_end(), 5);
    assert!(visible(&whole).ends_with("       none    96,200  a|b\n"), "a table may end the answer: {whole}");
}

#[test]
fn a_table_that_is_too_wide_is_a_list() {
    let expected = "\
agent  Figures:

       Policy:
         prune
       Tokens:
         1,204
       Note: keeps
         all

       Policy: none
       Tokens:
         96,200
       Note: a|b

       Policy: x

       That is all.
";
    for size in [1, 1_000] {
        assert_eq!(visible(&printed_in(19, TABLE, size)), expected, "pieces of {size}");
    }
}

#[test]
fn bars_alone_are_no_table() {
    for text in ["|x| is its size", "| a | b |\nand more", "| a | b |\n| c | d |\n\nend", "  |"] {
        for size in [1, 100] {
            assert_eq!(shown(text, size), text, "{text}");
        }
    }
    assert_eq!(shown("```\n| a |\n|---|\n```\n", 3), "⟨D⟩  | a |\n  |---|\n");
}
