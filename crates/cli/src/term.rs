//! The output for people: figures, rows, the meter, the transcript.

pub(crate) mod exact;
pub(crate) mod human;
pub(crate) mod log;
pub(crate) mod markdown;
pub(crate) mod meter;
pub(crate) mod out;
pub(crate) mod style;
pub(crate) mod table;
pub(crate) mod text;
pub(crate) mod tool_row;
pub(crate) mod transcript;
pub(crate) mod ui_event;
pub(crate) mod wrap;
