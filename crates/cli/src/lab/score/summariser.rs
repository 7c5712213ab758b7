//! The models for the requests for summaries in a measure.

use std::fmt;
use std::sync::Arc;

use longhaul_core::estimate::MessageTokenCounter;
use longhaul_core::history::LogEntryKind;

use crate::lab::recording::RecordedMessage;

/// A scripted stand-in for a writer of summaries.
#[derive(Clone, Default)]
#[non_exhaustive]
pub(crate) enum ScriptedSummariser {
    /// The stand-in of [`summary`](crate::lab::summary), which all policies of a replay get.
    #[default]
    StandIn,
    /// No summariser: the planner makes extracts.
    Extract,
    /// A fixed answer to every request.
    Fixed(Arc<str>),
    /// A plausible summary with headings, made of the assistant's messages. It contains no order of the user.
    OrderBlind,
    /// An answer made by a function.
    Written(fn(&SummaryTask<'_>) -> String),
}

/// The answer of a refusing model.
pub(crate) const REFUSAL: &str = "I'm sorry, I can't help with that.";

/// A request for a summary as seen by a summariser.
pub(crate) struct SummaryTask<'a> {
    /// The messages that the summary is about.
    pub(crate) material: &'a [RecordedMessage],
    /// The text of the request's last message.
    pub(crate) order: String,
    /// The maximum length of the answer, in tokens.
    pub(crate) limit_tokens: u64,
    /// `true` if the request is a pruning agent's, which answers in JSON.
    pub(crate) is_pruning: bool,
    pub(crate) counter: &'a MessageTokenCounter,
}

impl PartialEq for ScriptedSummariser {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Fixed(left), Self::Fixed(right)) => left == right,
            // Functions have no equality of their own, so their addresses stand for them.
            (Self::Written(left), Self::Written(right)) => std::ptr::fn_addr_eq(*left, *right),
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }
}

impl fmt::Debug for ScriptedSummariser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

impl ScriptedSummariser {
    /// Creates a summariser with a refusal for every request.
    pub(crate) fn refusing() -> Self {
        Self::Fixed(REFUSAL.into())
    }

    /// Returns the summariser's name in tables.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::StandIn => "stand-in".to_owned(),
            Self::Extract => "extract".to_owned(),
            Self::Fixed(text) if &**text == REFUSAL => "refuses".to_owned(),
            Self::Fixed(text) => format!("{text:?}"),
            Self::OrderBlind => "order-blind".to_owned(),
            Self::Written(_) => "written".to_owned(),
        }
    }

    pub(crate) fn answer(&self, task: &SummaryTask<'_>) -> String {
        let text = match self {
            // The replay itself handles these two, so no answer is needed here.
            Self::StandIn | Self::Extract => return String::new(),
            Self::Fixed(text) => return text.to_string(),
            Self::Written(write) => return write(task),
            Self::OrderBlind => order_blind(task),
        };
        if task.is_pruning {
            serde_json::json!({ "prunedConversation": [], "summary": text }).to_string()
        } else {
            text
        }
    }
}

impl SummaryTask<'_> {
    /// Returns sentences of the assistant that name things, from the whole conversation, in at most `tokens`.
    pub(crate) fn assistant_sentences(&self, tokens: u64) -> Vec<String> {
        let said = self.material.iter().filter(|entry| matches!(entry.kind, LogEntryKind::Assistant(_)));
        let sentences: Vec<String> =
            said.filter_map(|entry| telling_sentence(&entry.message.text())).collect();
        // Each sentence costs 2 tokens more: for its bullet and for the line end.
        let mean = sentences.iter().map(|text| self.counter.text(text) + 2).sum::<u64>()
            / (sentences.len() as u64).max(1);
        let count = (tokens / mean.max(1)).max(1) as usize;
        // Evenly spaced, so that the summary covers the whole conversation and not only its beginning.
        let step = sentences.len().div_ceil(count).max(1);
        let mut room = tokens;
        sentences
            .into_iter()
            .step_by(step)
            .take_while(|text| {
                let cost = self.counter.text(text) + 2;
                let fits = cost <= room;
                room = room.saturating_sub(cost);
                fits
            })
            .collect()
    }
}

/// Returns the first sentence that names something, with capitals or digits behind its first word.
fn telling_sentence(text: &str) -> Option<String> {
    const SHORTEST_CHARS: usize = 40;
    const LONGEST_CHARS: usize = 240;
    let lines = text.lines().map(|line| line.trim().trim_start_matches(['-', '*', '#', ' ']));
    let sentences = lines.flat_map(|line| line.split_inclusive(['.', '!'])).map(str::trim);
    sentences
        .into_iter()
        .find(|sentence| {
            let chars = sentence.chars().count();
            // The first word of a sentence has a capital anyway, so it does not count as a name.
            let names = sentence.split_whitespace().skip(1);
            let names =
                names.filter(|word| word.starts_with(|c: char| c.is_uppercase() || c.is_ascii_digit()));
            (SHORTEST_CHARS..=LONGEST_CHARS).contains(&chars) && names.count() >= 2 && !sentence.contains('?')
        })
        .map(|sentence| sentence.replace("**", ""))
}

/// Returns a summary with the requested headings, filled from the assistant's words only.
fn order_blind(task: &SummaryTask<'_>) -> String {
    const TITLES: [&str; 4] = ["Goal", "Done", "Decisions", "State"];
    let sentences = task.assistant_sentences(task.limit_tokens.min(1_000) * 7 / 10);
    let mut text = String::new();
    for (title, lines) in TITLES.iter().zip(sentences.chunks(sentences.len().div_ceil(TITLES.len()).max(1))) {
        text.push_str(&format!("{title}:\n"));
        lines.iter().for_each(|line| text.push_str(&format!("- {line}\n")));
    }
    text.push_str("Next steps:\n- Answer the newest question.\n");
    text
}
