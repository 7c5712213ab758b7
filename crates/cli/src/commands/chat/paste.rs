//! Messages of several lines. Lines that arrive faster than a person types are a paste: they become one
//! message, which is sent when a person presses Enter. A line that ends in a backslash continues in the next.

use std::time::Duration;

use super::console::{ConsoleInput, LineConsole};

/// The maximum time between two lines of a paste. No person types a line that fast.
const GAP: Duration = Duration::from_millis(25);

/// The pasted or typed lines that were not sent yet.
#[derive(Debug, Default)]
pub(super) struct PasteBuffer {
    lines: Vec<String>,
    goes_on: bool,
}

/// The result of a typed line.
pub(super) enum LineInputResult {
    /// A message or a command.
    Text(String),
    /// Lines that wait for Enter.
    Held,
    /// Another input followed at once.
    Other(ConsoleInput),
}

impl PasteBuffer {
    /// Returns whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Returns the number of waiting lines.
    pub(super) fn len(&self) -> usize {
        self.lines.len()
    }

    /// Reports whether the newest line ends in a continuation mark.
    pub(super) fn goes_on(&self) -> bool {
        self.goes_on
    }

    /// Forgets the waiting lines.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Takes a line and the lines right behind it.
    pub(super) async fn take(&mut self, line: String, console: &mut LineConsole) -> LineInputResult {
        let mut lines = vec![line];
        loop {
            match console.next_within(GAP).await {
                Some(ConsoleInput::Line(line)) => lines.push(line),
                Some(other) => return LineInputResult::Other(other),
                None => break,
            }
        }
        match self.add(lines) {
            Some(text) => LineInputResult::Text(text),
            None => LineInputResult::Held,
        }
    }

    /// Adds lines that arrived together. Returns the whole message, if they end it.
    fn add(&mut self, mut lines: Vec<String>) -> Option<String> {
        let is_paste = lines.len() > 1;
        self.goes_on = match lines.last_mut() {
            // In a paste a backslash at the end of a line is content, not a continuation mark.
            Some(line) if !is_paste && goes_on(line) => line.pop().is_some(),
            _ => false,
        };
        self.lines.append(&mut lines);
        if is_paste || self.goes_on {
            return None;
        }
        let text = std::mem::take(&mut self.lines).join("\n");
        // A paste often ends with blank lines, which the person did not mean to send.
        Some(text.trim_end().to_owned())
    }
}

/// Reports whether a line ends in a continuation mark. Two backslashes are one literal backslash.
pub(crate) fn goes_on(line: &str) -> bool {
    line.bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 1
}

#[cfg(test)]
mod tests {
    use super::PasteBuffer;

    fn lines(text: &str) -> Vec<String> {
        text.split('\n').map(str::to_owned).collect()
    }

    #[test]
    fn a_line_that_ends_in_a_backslash_goes_on() {
        let mut pasted = PasteBuffer::default();
        assert_eq!(pasted.add(lines("one\\")), None);
        assert!(pasted.goes_on() && pasted.len() == 1);
        assert_eq!(pasted.add(lines("two \\")), None);
        assert_eq!(pasted.add(lines("three")).as_deref(), Some("one\ntwo \nthree"));
        assert!(pasted.is_empty() && !pasted.goes_on());
        assert_eq!(pasted.add(lines("in C:\\\\")).as_deref(), Some("in C:\\\\"), "two do not");
    }

    #[test]
    fn what_is_pasted_is_kept_as_it_is_until_enter() {
        let mut pasted = PasteBuffer::default();
        assert_eq!(pasted.add(lines("cc -a \\\n  -b \\")), None);
        assert!(!pasted.goes_on());
        assert_eq!(pasted.add(lines("")).as_deref(), Some("cc -a \\\n  -b \\"));
    }
}
