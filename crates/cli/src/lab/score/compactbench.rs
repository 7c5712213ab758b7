//! CompactBench's practice templates: the decisions and prohibitions in the view after much other chat.
//!
//! A template is rendered with names of our own, the same every time. Its distractors are filler, and 60,000 tokens of
//! filler follow.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::receipts::ReceiptsErrorKind;
use super::text::normalised;
use super::{ChatTurn, ReceiptsError, ReceiptsFolder, ScriptedSummariser, SimulatedChat};

/// The window of every case, in tokens.
const WINDOW_TOKENS: u64 = 32_000;

/// The length of the chat after a case, in tokens.
const CHAT_TOKENS: u64 = 60_000;

/// Messages in the place of a template's distractors: its `elite` level.
const DISTRACTORS: usize = 32;

const PEOPLE: [&str; 8] = [
    "Ilse Brandt",
    "Kofi Mensah",
    "Maren Solberg",
    "Dario Conti",
    "Yuki Arata",
    "Leila Haddad",
    "Pavel Novak",
    "Ines Duarte",
];

const PROJECTS: [&str; 8] = [
    "harbour survey",
    "loyalty scheme",
    "telemetry rewrite",
    "archive move",
    "spring catalogue",
    "billing audit",
    "tram pilot",
    "greenhouse refit",
];

const ACTIONS: [&str; 10] = [
    "share the draft contract with the press",
    "migrate the ledger to the new cluster",
    "cancel the supplier in Rotterdam",
    "publish the salary table",
    "run the load test against production",
    "freeze the release branch on Monday",
    "hand the keys to the night crew",
    "merge the two mailing lists",
    "store card numbers in plain text",
    "outsource the translation work",
];

const ORGANISATIONS: [&str; 4] = ["Calder Works", "Nordlicht AG", "Pemba Foods", "Atelier Rive"];

/// A practice template.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct CaseTemplate {
    key: String,
    variables: Vec<TemplateVariable>,
    transcript: TemplateTranscript,
    ground_truth: GroundTruth,
}

#[derive(Clone, Debug, Deserialize)]
struct CaseTemplateFile {
    template: CaseTemplate,
}

#[derive(Clone, Debug, Deserialize)]
struct TemplateVariable {
    name: String,
    generator: String,
}

#[derive(Clone, Debug, Deserialize)]
struct TemplateTranscript {
    turns: Vec<TemplateTurn>,
}

#[derive(Clone, Debug, Deserialize)]
struct TemplateTurn {
    role: String,
    #[serde(default)]
    template: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct GroundTruth {
    #[serde(default)]
    locked_decisions: Vec<String>,
    #[serde(default)]
    forbidden_behaviors: Vec<String>,
}

/// The part of the cases left after compaction.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CompactBenchScore {
    /// Cases, each in a chat of its own.
    pub(crate) cases: usize,
    /// Locked decisions and forbidden behaviours.
    pub(crate) statements: usize,
    /// The number of statements in the view.
    pub(crate) in_view: usize,
    /// The statements missing in the view, with their case.
    pub(crate) missing: Vec<String>,
}

impl CompactBenchScore {
    /// Returns the share of statements in view, in percent.
    pub(crate) fn percent(&self) -> f64 {
        super::text::percent(self.in_view, self.statements)
    }
}

/// Returns the practice templates, by name.
///
/// # Errors
/// [`ReceiptsError`] if the folder is missing or a file has another shape.
pub(crate) fn read_templates(receipts: &ReceiptsFolder) -> Result<Vec<CaseTemplate>, ReceiptsError> {
    let folder = receipts.folder().join("compactbench");
    let wrap =
        |kind: ReceiptsErrorKind, path: &std::path::Path| ReceiptsError { path: path.to_owned(), kind };
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(&folder).map_err(|error| wrap(error.into(), &folder))? {
        paths.push(entry.map_err(|error| wrap(error.into(), &folder))?.path());
    }
    paths.retain(|path| path.extension().is_some_and(|ext| ext == "yaml"));
    // A folder is listed in any order, and a template's number is part of its seed.
    paths.sort();
    paths
        .into_iter()
        .map(|path| {
            let text = std::fs::read_to_string(&path).map_err(|error| wrap(error.into(), &path))?;
            let file: CaseTemplateFile = serde_saphyr::from_str(&text)
                .map_err(|error| wrap(ReceiptsErrorKind::Yaml(error.to_string()), &path))?;
            Ok(file.template)
        })
        .collect()
}

/// Renders every template with `seed` and looks for its statements in the last view. Returns `None` if there is no
/// such strategy.
pub(crate) fn measure(
    templates: &[CaseTemplate],
    filler: &[ChatTurn],
    seed: usize,
    strategy: &str,
    summariser: &ScriptedSummariser,
) -> Option<CompactBenchScore> {
    let mut score = CompactBenchScore::default();
    for (number, template) in templates.iter().enumerate() {
        score.cases += 1;
        // The seed differs for each template, so that two templates do not share all names.
        let values = template.values(seed * templates.len() + number);
        let mut chat = SimulatedChat::new(strategy, WINDOW_TOKENS, summariser.clone())?;
        // Cycled, so that a short filler cannot end a chat early.
        let mut others = filler.iter().cycle();
        for turn in &template.transcript.turns {
            match turn.role.as_str() {
                "user" => chat.say(&ChatTurn::user(rendered(&turn.template, &values))),
                "assistant" => chat.say(&ChatTurn::assistant(rendered(&turn.template, &values))),
                _ => others.by_ref().take(DISTRACTORS).for_each(|turn| chat.say(turn)),
            }
        }
        let counter = chat.history().counter().clone();
        let mut tokens = 0;
        for turn in others {
            chat.say(turn);
            tokens += counter.text(&turn.text);
            if tokens >= CHAT_TOKENS {
                break;
            }
        }
        // The last view is one that a request would carry, so the user must ask something.
        chat.say(&ChatTurn::user("Thanks. Where were we?"));
        chat.plan_request();
        // Line breaks and case must not decide whether a statement is kept.
        let view = normalised(&chat.view_text());
        let transcript = normalised(&template.text(&values));
        for statement in template.statements() {
            score.statements += 1;
            if needles(statement, &values, &transcript).iter().all(|needle| view.contains(needle)) {
                score.in_view += 1;
            } else {
                score.missing.push(format!("{}: {}", template.key, rendered(statement, &values)));
            }
        }
    }
    Some(score)
}

impl CaseTemplate {
    /// Returns the values of the template's variables: no two of one kind are equal.
    fn values(&self, seed: usize) -> BTreeMap<&str, &'static str> {
        let mut used: BTreeMap<&str, usize> = BTreeMap::new();
        let mut values = BTreeMap::new();
        for variable in &self.variables {
            let pool = pool(variable);
            let count = used.entry(&variable.generator).or_default();
            // Names come from fixed lists by the seed: the same figures every time.
            values.insert(variable.name.as_str(), pool[(seed * 3 + *count) % pool.len()]);
            *count += 1;
        }
        values
    }

    fn statements(&self) -> impl Iterator<Item = &String> {
        self.ground_truth.locked_decisions.iter().chain(&self.ground_truth.forbidden_behaviors)
    }

    fn text(&self, values: &BTreeMap<&str, &'static str>) -> String {
        let turns: Vec<String> =
            self.transcript.turns.iter().map(|turn| rendered(&turn.template, values)).collect();
        turns.join("\n")
    }
}

fn pool(variable: &TemplateVariable) -> &'static [&'static str] {
    match variable.generator.as_str() {
        "person_name" => &PEOPLE,
        "project_noun" => &PROJECTS,
        "org_name" => &ORGANISATIONS,
        // All other generators of the practice templates make actions.
        _ => &ACTIONS,
    }
}

fn rendered(template: &str, values: &BTreeMap<&str, &'static str>) -> String {
    values
        .iter()
        // The templates write a variable as `{{name}}`.
        .fold(template.to_owned(), |text, (name, value)| text.replace(&format!("{{{{{name}}}}}"), value))
}

/// Returns the texts that must be in the view for a statement: its words as in the transcript, else its
/// values.
fn needles(statement: &str, values: &BTreeMap<&str, &'static str>, transcript: &str) -> Vec<String> {
    let whole = normalised(&rendered(statement, values));
    // A statement may have a name of its own, as in `approach: …`.
    let bare = whole.split_once(": ").map_or(whole.as_str(), |(_, bare)| bare).to_owned();
    if transcript.contains(&bare) {
        return vec![bare];
    }
    let used = values.iter().filter(|(name, _)| statement.contains(&format!("{{{{{name}}}}}")));
    used.map(|(_, value)| normalised(value)).collect()
}
