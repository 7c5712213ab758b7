//! The meaning of keys.

use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// An action of the person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum KeyAction {
    Insert(char),
    Paste(String),
    NewLine,
    Enter,
    Complete,
    Escape,
    Interrupt,
    DeleteOrLeave,
    DeleteBack,
    DeleteForward,
    DeleteWordBack,
    DeleteWordForward,
    DeleteToStart,
    DeleteToEnd,
    Yank,
    Left,
    Right,
    WordLeft,
    WordRight,
    Start,
    End,
    Up,
    Down,
    Redraw,
    Suspend,
}

impl KeyAction {
    /// Returns the action of a key, if it has one.
    pub(crate) fn of(key: &KeyEvent) -> Option<Self> {
        // Some terminals report releases too, which would act a second time.
        if key.kind == KeyEventKind::Release {
            return None;
        }
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        let alt = key.modifiers.contains(KeyModifiers::ALT);
        let shift = key.modifiers.contains(KeyModifiers::SHIFT);
        Some(match key.code {
            // Many terminals send the same byte for Enter, Shift-Enter and Ctrl-Enter. Alt-Enter puts an escape
            // in front of it and so arrives everywhere, as Ctrl-J does.
            KeyCode::Enter if shift || alt || control => Self::NewLine,
            KeyCode::Enter => Self::Enter,
            KeyCode::Tab => Self::Complete,
            KeyCode::Esc => Self::Escape,
            KeyCode::Backspace if alt || control => Self::DeleteWordBack,
            KeyCode::Backspace => Self::DeleteBack,
            KeyCode::Delete if alt || control => Self::DeleteWordForward,
            KeyCode::Delete => Self::DeleteForward,
            KeyCode::Left if alt || control => Self::WordLeft,
            KeyCode::Left => Self::Left,
            KeyCode::Right if alt || control => Self::WordRight,
            KeyCode::Right => Self::Right,
            KeyCode::Home => Self::Start,
            KeyCode::End => Self::End,
            KeyCode::Up => Self::Up,
            KeyCode::Down => Self::Down,
            // AltGr arrives as Control with Alt. Such a key writes its character.
            KeyCode::Char(c) if control && !alt => return of_control(c.to_ascii_lowercase()),
            KeyCode::Char(c) if alt && !control => return of_alt(c),
            KeyCode::Char(c) => Self::Insert(c),
            _ => return None,
        })
    }
}

/// The number of keys above which a batch counts as a paste. No person types so many at once.
const TYPED_AT_ONCE: usize = 8;

/// Reports whether events that arrived together look like the beginning of a paste that the terminal did not
/// mark.
pub(crate) fn is_paste(batch: &[Event]) -> bool {
    batch.len() > TYPED_AT_ONCE && batch.iter().all(|event| letter(event).is_some())
}

/// Returns the actions of key events that arrived together. Letters with a line end between them are a paste
/// that the terminal did not mark: no person types so fast, and its line ends send nothing.
pub(crate) fn actions(batch: &[Event]) -> Vec<KeyAction> {
    let mut done = Vec::new();
    for run in batch.chunk_by(|a, b| letter(a).is_some() == letter(b).is_some()) {
        let letters: String = run.iter().filter_map(letter).collect();
        // A line end at the end alone is no sign of a paste: on a slow connection, a typed line arrives at once.
        if letters.trim_end_matches('\n').contains('\n') {
            done.push(KeyAction::Paste(letters.trim_end_matches('\n').to_owned()));
            continue;
        }
        done.extend(run.iter().filter_map(|event| match event {
            Event::Key(key) => KeyAction::of(key),
            Event::Paste(text) => Some(KeyAction::Paste(text.clone())),
            _ => None,
        }));
    }
    done
}

/// Returns the character that a key writes, if it does no more than that.
fn letter(event: &Event) -> Option<char> {
    match KeyAction::of(&event.as_key_press_event()?)? {
        KeyAction::Insert(c) => Some(c),
        // KeyAction::NewLine => Some('\n'), | Line ends and tabs are a part of a paste.
        KeyAction::Enter | KeyAction::NewLine => Some('\n'),
        KeyAction::Complete => Some('\t'),
        _ => None,
    }
}

/// Returns the action of a control key, as the shells have it.
fn of_control(c: char) -> Option<KeyAction> {
    Some(match c {
        'a' => KeyAction::Start,
        'b' => KeyAction::Left,
        'c' => KeyAction::Interrupt,
        'd' => KeyAction::DeleteOrLeave,
        'e' => KeyAction::End,
        'f' => KeyAction::Right,
        // Some terminals send Ctrl-H for the backspace key.
        'h' => KeyAction::DeleteBack,
        'j' => KeyAction::NewLine,
        'k' => KeyAction::DeleteToEnd,
        'l' => KeyAction::Redraw,
        'n' => KeyAction::Down,
        'p' => KeyAction::Up,
        'u' => KeyAction::DeleteToStart,
        'w' => KeyAction::DeleteWordBack,
        'y' => KeyAction::Yank,
        'z' => KeyAction::Suspend,
        _ => return None,
    })
}

fn of_alt(c: char) -> Option<KeyAction> {
    Some(match c {
        'b' => KeyAction::WordLeft,
        'd' => KeyAction::DeleteWordForward,
        'f' => KeyAction::WordRight,
        '\r' | '\n' => KeyAction::NewLine,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_mean_what_shells_have_taught() {
        assert_eq!(action_of(KeyCode::Enter, KeyModifiers::NONE), Some(KeyAction::Enter));
        for modifiers in [KeyModifiers::SHIFT, KeyModifiers::ALT] {
            assert_eq!(action_of(KeyCode::Enter, modifiers), Some(KeyAction::NewLine));
        }
        assert_eq!(action_of(KeyCode::Char('j'), KeyModifiers::CONTROL), Some(KeyAction::NewLine));
        assert_eq!(action_of(KeyCode::Char('C'), KeyModifiers::CONTROL), Some(KeyAction::Interrupt));
        assert_eq!(action_of(KeyCode::Char('A'), KeyModifiers::SHIFT), Some(KeyAction::Insert('A')));
        assert_eq!(action_of(KeyCode::Left, KeyModifiers::ALT), Some(KeyAction::WordLeft));
        let altgr = KeyModifiers::CONTROL | KeyModifiers::ALT;
        assert_eq!(action_of(KeyCode::Char('@'), altgr), Some(KeyAction::Insert('@')), "AltGr writes");
        let mut release = KeyEvent::new(KeyCode::Char('x'), KeyModifiers::NONE);
        release.kind = KeyEventKind::Release;
        assert_eq!(KeyAction::of(&release), None);
    }

    fn action_of(code: KeyCode, modifiers: KeyModifiers) -> Option<KeyAction> {
        KeyAction::of(&KeyEvent::new(code, modifiers))
    }

    #[test]
    fn a_paste_that_is_not_marked_sends_nothing() {
        assert_eq!(actions(&key_events("a\nb\n")), [KeyAction::Paste("a\nb".into())]);
        assert_eq!(actions(&key_events("y\n")), [KeyAction::Insert('y'), KeyAction::Enter], "typed ahead");
        let mut typed = key_events("y\n");
        typed.push(Event::Key(KeyEvent::new(KeyCode::Char('d'), KeyModifiers::CONTROL)));
        assert_eq!(actions(&typed).last(), Some(&KeyAction::DeleteOrLeave));
        assert_eq!(actions(&[Event::Paste("a\nb\n".into())]), [KeyAction::Paste("a\nb\n".into())]);
        assert!(is_paste(&key_events("a long line\n")) && !is_paste(&key_events("y\n")));
    }

    fn key_events(text: &str) -> Vec<Event> {
        text.chars()
            .map(|c| match c {
                '\n' => Event::Key(KeyCode::Enter.into()),
                c => Event::Key(KeyCode::Char(c).into()),
            })
            .collect::<Vec<_>>()
    }
}
