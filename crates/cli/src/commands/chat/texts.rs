//! The chat's messages, equal in both of its presentations.

/// The hint after another answer than those offered.
pub(crate) const ANSWER: &str = "y, n, a or all, then Enter; n with words tells the model why not";

/// The hint after the first Ctrl-C, where nothing runs.
pub(crate) const INTERRUPT_AGAIN: &str = "Ctrl-C again leaves; everything is kept";

/// The hint after the first Esc.
pub(crate) const ESCAPE_AGAIN: &str = "Esc again leaves; everything is kept";

/// The hint after a draft was dropped.
pub(crate) const UP_BRINGS_BACK: &str = "dropped; ↑ brings it back";

/// The hint to a person who changes a message that the model has by now.
pub(crate) const TAKEN_MEANWHILE: &str = "the model has it already; ⏎ sends this as another message";

/// The placeholder of the empty input.
pub(crate) const MESSAGE: &str = "Message, or / for commands";

/// The placeholder of the empty input while a run goes on.
pub(crate) const WILL_QUEUE: &str = "Message will be queued…";

/// The placeholder of the empty input while messages wait and nothing runs.
pub(crate) const QUEUE_WAITS: &str = "Message, or /retry to go on with what waits";

/// The error after the session's end.
pub(crate) const SESSION_ENDED: &str = "the session has ended; everything is kept";

/// Returns the note about missed events.
pub(crate) fn missed(events: u64) -> String {
    format!("{events} events came too fast to be shown; /show prints them")
}

/// Returns the error for a refused message.
pub(crate) fn not_sent(why: &str) -> String {
    format!("not sent: {why}")
}

/// Returns the note that messages wait while nothing runs. Empty if no message waits.
pub(crate) fn waiting(messages: usize) -> String {
    match messages {
        0 => String::new(),
        1 => "1 message waits: /resume sends it, /queue shows it".to_owned(),
        many => format!("{many} messages wait: /resume sends them, /queue shows them"),
    }
}

/// Returns the error for failed storage under a session.
pub(crate) fn broken(message: &str) -> String {
    format!("{message}; all acknowledged data is kept (storage)")
}
