//! Lines that come faster than anybody types are a paste: they become one message, which is sent when a person
//! presses Enter.

use std::time::Duration;

use super::console::{Console, Typed};

/// Lines of a paste come within this time.
const GAP: Duration = Duration::from_millis(25);

/// What was pasted and not sent yet.
#[derive(Debug, Default)]
pub(super) struct Pasted(Vec<String>);

/// What a typed line has become.
pub(super) enum Entered {
    /// A message or a command.
    Text(String),
    /// Lines that wait for Enter.
    Held,
    /// Something else was typed right behind it.
    Other(Typed),
}

impl Pasted {
    /// Whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many lines wait.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Forgets what waits.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Takes a line, and those that come right behind it.
    pub(super) async fn take(&mut self, line: String, console: &mut Console) -> Entered {
        let mut lines = vec![line];
        loop {
            match console.next_within(GAP).await {
                Some(Typed::Line(line)) => lines.push(line),
                Some(other) => return Entered::Other(other),
                None => break,
            }
        }
        if lines.len() > 1 {
            self.0.append(&mut lines);
            return Entered::Held;
        }
        self.0.append(&mut lines);
        let text = std::mem::take(&mut self.0).join("\n");
        Entered::Text(text.trim_end().to_owned())
    }
}
