//! How often a search finds what a question is about, in public conversations: LoCoMo (Maharana et al., 2024), ten long
//! conversations of two people with questions and the turns that answer them, and one context of lost-in-compaction.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::PathBuf;

use longhaul_core::recall::{SearchIndex, SearchLimits, search};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// Hits among which the evidence is looked for.
const DEPTHS: [usize; 3] = [5, 10, 20];

#[derive(Deserialize)]
struct Conversations {
    conversations: Vec<Conversation>,
}

#[derive(Deserialize)]
struct Conversation {
    turns: Vec<Turn>,
    qa: Vec<Question>,
}

#[derive(Deserialize)]
struct Turn {
    id: String,
    speaker: String,
    text: String,
}

#[derive(Deserialize)]
struct Question {
    q: String,
    #[serde(rename = "ev")]
    evidence: Vec<String>,
    #[serde(rename = "cat")]
    category: u32,
}

#[derive(Deserialize)]
struct Context {
    messages: Vec<ContextMessage>,
    facts: Vec<Fact>,
}

#[derive(Deserialize)]
struct ContextMessage {
    content: String,
}

#[derive(Deserialize)]
struct Fact {
    question: String,
    message_start: usize,
    message_end: usize,
}

/// A packed fixture, `None` where the fixtures are absent (a user's clone). With `LONGHAUL_REQUIRE_FIXTURES` set that is
/// a failure.
#[allow(clippy::disallowed_methods, reason = "public data are files")]
fn fixture<T: DeserializeOwned>(name: &str) -> Option<T> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/fixtures/receipts");
    let path = PathBuf::from(folder).join(name);
    let Ok(packed) = std::fs::read(&path) else {
        assert!(std::env::var_os("LONGHAUL_REQUIRE_FIXTURES").is_none(), "{} is absent", path.display());
        eprintln!("skipped, {} is absent", path.display());
        return None;
    };
    let mut text = String::new();
    flate2::read::GzDecoder::new(&*packed).read_to_string(&mut text).unwrap();
    Some(serde_json::from_str(&text).unwrap())
}

/// Shares of evidence found, summed over questions, by depth.
#[derive(Clone, Copy, Default)]
struct EvidenceRecall {
    found: [f64; 3],
    questions: f64,
}

impl EvidenceRecall {
    fn add(&mut self, found: [f64; 3]) {
        self.questions += 1.0;
        for (sum, share) in self.found.iter_mut().zip(found) {
            *sum += share;
        }
    }

    fn percent(&self) -> [f64; 3] {
        self.found.map(|sum| (sum / self.questions * 1_000.0).round() / 10.0)
    }
}

fn index(texts: &[String]) -> SearchIndex {
    let mut index = SearchIndex::default();
    texts.iter().for_each(|text| _ = index.add(text));
    index
}

fn hits(index: &SearchIndex, texts: &[String], question: &str, hits: usize) -> Vec<usize> {
    let found = search(index, question, texts.len(), SearchLimits::of(hits), |_| 1.0, |at| &texts[at]);
    found.iter().map(|hit| hit.at).collect()
}

/// The constants of the search were chosen on the first five conversations; the other five judge them.
#[test]
fn the_turns_that_answer_a_question_are_found() {
    let Some(Conversations { conversations }) = fixture("locomo.json.gz") else { return };
    let (mut all, mut held_out) = (EvidenceRecall::default(), EvidenceRecall::default());
    let mut categories: BTreeMap<u32, EvidenceRecall> = BTreeMap::new();
    for (number, Conversation { turns, qa }) in conversations.iter().enumerate() {
        let texts: Vec<String> =
            turns.iter().map(|turn| format!("{}: {}", turn.speaker, turn.text)).collect();
        let index = index(&texts);
        for question in qa.iter().filter(|question| !question.evidence.is_empty()) {
            let hits = hits(&index, &texts, &question.q, DEPTHS[2]);
            let found = DEPTHS.map(|depth| {
                let is_found = |id: &&String| hits.iter().take(depth).any(|at| turns[*at].id == **id);
                question.evidence.iter().filter(is_found).count() as f64 / question.evidence.len() as f64
            });
            all.add(found);
            categories.entry(question.category).or_default().add(found);
            if number >= 5 {
                held_out.add(found);
            }
        }
    }
    let ([all_at_5, all_at_10, all_at_20], held_out) = (all.percent(), held_out.percent());
    println!("evidence recall @5/10/20: all {:?}, held out {held_out:?}", all.percent());
    for (category, recall) in &categories {
        println!("  category {category}: {:?} of {} questions", recall.percent(), recall.questions);
    }
    assert!(all.questions > 1_900.0);
    assert!(all_at_5 >= 68.5 && all_at_10 >= 77.0 && all_at_20 >= 83.1, "{:?}", all.percent());
    assert!(held_out[1] >= 76.5, "{held_out:?}");
}

/// A context of 190,000 tokens with facts in it: of a passage that tells one, a message is among ten hits. The first two
/// facts stand in no message, only in what a summary left of them.
#[test]
fn facts_of_a_long_context_are_found() {
    let Some(Context { messages, facts }) = fixture("lost_d80_C1.json.gz") else { return };
    let texts: Vec<String> = messages.into_iter().map(|message| message.content).collect();
    let index = index(&texts);
    let is_whole = |fact: &&Fact| fact.message_start > 0;
    let is_found = |fact: &&Fact| {
        let hits = hits(&index, &texts, &fact.question, 10);
        hits.iter().any(|at| (fact.message_start..fact.message_end).contains(at))
    };
    let asked = facts.iter().filter(is_whole).count();
    let found = facts.iter().filter(is_whole).filter(is_found).count();
    println!("facts found among ten hits: {found} of {asked}");
    // Two questions ask for what was never said.
    assert!(asked == 78 && found * 100 >= asked * 96, "{found} of {asked}");
}
