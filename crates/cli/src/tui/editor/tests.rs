use super::*;

fn at(editor: &InputEditor) -> (&str, &str) {
    editor.folded().split_at(editor.cursor())
}

#[test]
fn the_cursor_moves_by_what_people_see() {
    let mut editor = InputEditor::with("héllo 👩‍👩‍👧 wörld");
    editor.word_left();
    assert_eq!(at(&editor), ("héllo 👩‍👩‍👧 ", "wörld"));
    editor.left();
    editor.left();
    assert_eq!(at(&editor), ("héllo ", "👩‍👩‍👧 wörld"));
    editor.delete_forward();
    assert_eq!(at(&editor), ("héllo ", " wörld"));
    editor.word_left();
    assert_eq!(at(&editor), ("", "héllo  wörld"));
    editor.word_right();
    editor.word_right();
    assert_eq!(at(&editor), ("héllo  wörld", ""));
    editor.start();
    editor.left();
    assert_eq!(editor.cursor(), 0);
}

#[test]
fn what_is_killed_comes_back() {
    let mut editor = InputEditor::with("one two\nthree four");
    editor.kill_word_back();
    assert_eq!(editor.text(), "one two\nthree ");
    editor.start();
    editor.yank();
    assert_eq!(editor.text(), "one two\nfourthree ");
    editor.kill_to_start();
    editor.kill_to_end();
    assert_eq!((editor.text().as_str(), editor.cursor()), ("one two\n", 8));
    editor.left();
    editor.kill_to_end();
    assert_eq!(editor.text(), "one two", "the line end itself");
    editor.start();
    editor.kill_word_forward();
    assert_eq!(editor.text(), " two");
}

#[test]
fn up_and_down_keep_the_column_they_aim_at() {
    let mut editor = InputEditor::with("abcdef\nx\nabcdef");
    assert!(editor.up(20) && editor.up(20));
    assert_eq!(at(&editor), ("abcdef", "\nx\nabcdef"));
    assert!(!editor.up(20));
    assert!(editor.down(20));
    assert_eq!(at(&editor), ("abcdef\nx", "\nabcdef"));
    assert!(editor.down(20) && !editor.down(20));
    assert_eq!(editor.cursor(), editor.folded().len());
    let mut wrapped = InputEditor::with("one two three");
    assert!(wrapped.up(8));
    assert_eq!(at(&wrapped), ("one t", "wo three"));
}

#[test]
fn a_large_paste_is_one_sign_and_sent_in_full() {
    let large = (0..120).map(|line| format!("line {line}\n")).collect::<String>();
    let mut editor = InputEditor::with("see ");
    editor.paste(&large);
    editor.insert('!');
    assert_eq!(editor.text(), format!("see {large}!"));
    let shown: String = editor.folded().graphemes(true).map(|it| editor.shown(it)).collect();
    assert_eq!(shown, "see [120 lines pasted]!");
    assert_eq!(editor.columns(editor.folded()), shown.len());
    editor.left();
    editor.delete_back();
    assert_eq!(editor.text(), "see !", "it goes as one");
    editor.set(&"x".repeat(700));
    let sign = editor.folded().to_owned();
    assert_eq!(editor.shown(&sign), "[700 characters pasted]");
}

#[test]
fn a_small_paste_stays_text_and_drives_no_terminal() {
    let mut editor = InputEditor::default();
    editor.paste("a\r\nb\rc\u{1b}[31m\td\u{f0000}");
    assert_eq!(editor.text(), "a\nb\nc[31m\td");
    editor.insert('\u{7}');
    assert_eq!(editor.take(), "a\nb\nc[31m\td");
    assert!(editor.is_empty() && editor.cursor() == 0);
}
