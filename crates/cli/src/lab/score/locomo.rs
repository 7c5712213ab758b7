//! LoCoMo: the share of questions about a long friendship whose evidence a search finds.

use std::collections::{BTreeMap, BTreeSet};

use longhaul_core::recall::{SearchIndex, SearchLimits, search};
use serde::{Deserialize, Serialize};

use super::{ReceiptsError, ReceiptsFolder};

/// The maximum number of hits of a search.
const MOST_HITS: usize = 20;

/// A conversation with its questions.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct LocomoConversation {
    turns: Vec<LocomoTurn>,
    qa: Vec<LocomoQuestion>,
}

#[derive(Clone, Debug, Deserialize)]
struct LocomoTurn {
    id: String,
    speaker: String,
    text: String,
}

#[derive(Clone, Debug, Deserialize)]
struct LocomoQuestion {
    #[serde(rename = "q")]
    text: String,
    #[serde(rename = "ev")]
    evidence: Vec<String>,
    #[serde(rename = "cat")]
    category: u8,
}

#[derive(Deserialize)]
struct LocomoFile {
    conversations: Vec<LocomoConversation>,
}

/// The share of a question's evidence among the first hits, in percent, averaged over the questions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EvidenceRecall {
    /// The number of questions with evidence.
    pub(crate) questions: usize,
    /// The share among the first 5 hits.
    pub(crate) at_5: f64,
    /// The share among the first 10 hits.
    pub(crate) at_10: f64,
    /// The share among the first 20 hits.
    pub(crate) at_20: f64,
}

/// The result of the searches.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LocomoScore {
    /// The recall over all questions.
    pub(crate) all: EvidenceRecall,
    /// The recall by category of the data: 1 several hops, 2 time, 3 inference, 4 one hop, 5 adversarial.
    pub(crate) by_category: BTreeMap<u8, EvidenceRecall>,
}

/// Returns the ten conversations of LoCoMo.
///
/// # Errors
/// [`ReceiptsError`] if the file is missing or has another shape.
pub(crate) fn read_conversations(
    receipts: &ReceiptsFolder,
) -> Result<Vec<LocomoConversation>, ReceiptsError> {
    let file: LocomoFile = receipts.read_json("locomo.json.gz")?;
    Ok(file.conversations)
}

/// Asks every question unchanged, in an index with a message for each turn.
pub(crate) fn measure(conversations: &[LocomoConversation]) -> LocomoScore {
    let mut score = LocomoScore::default();
    for conversation in conversations {
        // Both speakers are people, so an imported turn begins with the speaker's name.
        let texts: Vec<String> =
            conversation.turns.iter().map(|turn| format!("{}: {}", turn.speaker, turn.text)).collect();
        let mut index = SearchIndex::default();
        texts.iter().for_each(|text| _ = index.add(text));
        let places: BTreeMap<&str, usize> =
            conversation.turns.iter().enumerate().map(|(at, turn)| (turn.id.as_str(), at)).collect();
        for question in &conversation.qa {
            let evidence: BTreeSet<usize> =
                // Some ids of the data name no turn. They cannot be found and are left out.
                question.evidence.iter().filter_map(|id| places.get(id.as_str()).copied()).collect();
            // Nothing could be found, so the question would only lower the average.
            if evidence.is_empty() {
                continue;
            }
            let extent = SearchLimits::of(MOST_HITS);
            let hits = search(&index, &question.text, texts.len(), extent, |_| 1.0, |at| &texts[at]);
            // Hits come best first, so the first few are the results of a smaller search.
            let found = |most: usize| {
                let found = hits.iter().take(most).filter(|hit| evidence.contains(&hit.at)).count();
                found as f64 * 100.0 / evidence.len() as f64
            };
            // Each question counts for all and for its category.
            for sum in [&mut score.all, score.by_category.entry(question.category).or_default()] {
                sum.questions += 1;
                sum.at_5 += found(5);
                sum.at_10 += found(10);
                sum.at_20 += found(20);
            }
        }
    }
    score.by_category.values_mut().chain([&mut score.all]).for_each(EvidenceRecall::average);
    score
}

impl EvidenceRecall {
    fn average(&mut self) {
        let questions = self.questions.max(1) as f64;
        for sum in [&mut self.at_5, &mut self.at_10, &mut self.at_20] {
            *sum /= questions;
        }
    }
}
