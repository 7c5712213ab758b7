//! Everything that reads what strangers write, as functions of bytes that must come back, soon, and must not panic.
//!
//! A target checks more than that where something more must hold: what is cut at other places says the same, what is
//! written again is read again, what was imported is a log.

pub mod mutate;
pub mod seeds;
mod streams;
mod texts;
mod wires;

/// A target: it panics if something does not hold.
pub type Target = fn(&[u8]);

/// All targets by name.
pub const TARGETS: &[(&str, Target)] = &[
    ("sse", streams::sse),
    ("anthropic", streams::anthropic),
    ("openai_chat", streams::openai_chat),
    ("openai_responses", streams::openai_responses),
    ("gemini", streams::gemini),
    ("ollama", streams::ollama),
    ("gateway_body", wires::body),
    ("gateway_stream", wires::stream),
    ("config", texts::config),
    ("import", texts::import),
    ("handle", texts::handle),
    ("approval", texts::approval),
    ("picture", texts::picture),
];

/// The target of that name.
pub fn target(name: &str) -> Option<Target> {
    TARGETS.iter().find(|(known, _)| *known == name).map(|(_, target)| *target)
}

/// A target for libFuzzer. If `LONGHAUL_FUZZ_SEEDS` names a folder and `LONGHAUL_FUZZ_FIXTURES` the recordings, what the
/// target begins with is written there before the folder is read.
#[cfg(feature = "libfuzzer")]
#[macro_export]
macro_rules! fuzz {
    ($name:literal) => {
        libfuzzer_sys::fuzz_target!(init: $crate::seeds::write($name), |data: &[u8]| {
            if let Some(target) = longhaul_fuzz::target($name) {
                target(data);
            }
        });
    };
}
