//! Lists of rules: the items under a heading such as "Rules:", and the text behind such a heading.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use super::mood::{has_standing_scope, is_question, plain_words};

/// Words that make a heading one of rules.
const HEADINGS: &str = "rule rules constraint constraints guideline guidelines requirement requirements convention \
    conventions restriction restrictions dos don'ts preferences regel regeln vorgabe vorgaben richtlinie richtlinien anforderung \
    anforderungen konventionen einschränkungen règle règles consigne consignes contrainte contraintes exigences préférences \
    regla reglas restricciones normas requisitos preferencias regra regras restrições preferências regola regole vincoli \
    requisiti preferenze правило правила требования ограничения regels richtlijnen eisen afspraken zasada zasady reguły \
    wymagania policy policies directive directives principle principles guardrail guardrails boundaries beschränkung \
    beschränkungen grundsätze contraintes interdictions prohibiciones políticas divieti ограничение требование beperking \
    beperkingen ograniczenia regler riktlinjer krav begränsningar kural kurallar kısıtlar kısıtlamalar вимоги обмеження tắc aturan \
    peraturan ketentuan batasan القواعد قواعد قاعدة قيود شروط नियम शर्तें";

/// Words that name rules as a key or a tag, and something else as a heading: "## Installation instructions".
const MARKUP_NAMES: &str = "instruction instructions directive limitation limitations anweisung anweisungen instrucción \
    instrucciones instrução instruções istruzione istruzioni инструкция инструкции instructie instructies instrukcje";

/// Words that end a heading of prohibitions: "Don't:", "Please do not:".
const PROHIBITING_ENDS: &[&str] = &["don't", "dont", "not", "avoid", "nicht", "niet"];

/// Marks of a heading of rules in Chinese, Japanese and Korean.
const UNSPACED_HEADINGS: &str =
    "规则 規則 要求 约束 約束 规范 規範 注意事项 ルール 決まり 制約 指示 규칙 지침 요구사항";

/// Labels that only stress what stands behind them.
const STRESSES: &str = "important note reminder remember also ps wichtig hinweis achtung außerdem rappel attention aussi importante \
    nota ojo recuerda además atenção lembrete nota promemoria inoltre attenzione важно напоминание также внимание belangrijk \
    verder ważne uwaga przypomnienie viktigt obs påminnelse önemli dikkat hatırlatma важливо нагадування увага penting catatan ingat \
    مهم ملاحظة تنبيه महत्वपूर्ण";

/// The most words of a heading.
const MAX_HEADING_WORDS: usize = 10;

/// The most words of a heading that is no noun: "From now on:", "Never:".
const MAX_SCOPE_WORDS: usize = 4;

/// The state of a walk through the lines of a message: whether the next item is a rule.
#[derive(Debug, Default)]
pub(super) struct RuleList {
    is_open: bool,
}

impl RuleList {
    /// Reads the next line. Returns whether the line is an item below a heading of rules.
    pub(super) fn read_line(&mut self, line: &str, is_item: bool) -> bool {
        // A line that is indented goes on with the item before.
        let goes_on = line.starts_with([' ', '\t']) && self.is_open;
        if !is_item && !goes_on {
            self.is_open = is_heading(line);
            return false;
        }
        self.is_open
    }
}

/// Returns whether a line is a heading of rules, such as "Rules:", "## Conventions" or "Never:".
fn is_heading(line: &str) -> bool {
    let is_titled = line.starts_with('#') || line.starts_with("**");
    let text = line.trim_matches(['#', '*', '_', ' ']);
    // YAML marks a text of several lines behind its key.
    let text = text.trim_end_matches(['|', '>']).trim_end();
    let text = match text.strip_suffix([':', '：']) {
        Some(text) => text,
        None if is_titled => text,
        None => return false,
    };
    let words = plain_words(text);
    if is_question(text) || words.is_empty() || words.len() > MAX_HEADING_WORDS {
        return false;
    }
    let plain: Vec<&str> = words.iter().map(String::as_str).collect();
    let forbids = plain.last().is_some_and(|last| PROHIBITING_ENDS.contains(last));
    let is_scope = plain.len() <= MAX_SCOPE_WORDS && (has_standing_scope(&plain) || forbids);
    names_rules(text, &words) || is_scope
}

fn names_rules(text: &str, words: &[String]) -> bool {
    static HEADING_SET: LazyLock<BTreeSet<&'static str>> =
        LazyLock::new(|| HEADINGS.split_whitespace().collect());
    // Keys of YAML join their words: "house_rules".
    words.iter().flat_map(|word| word.split(['_', '-'])).any(|word| HEADING_SET.contains(word))
        || UNSPACED_HEADINGS.split(' ').any(|mark| text.contains(mark))
}

/// Returns whether a key or a tag of markup names rules: "house_rules", "instructions", "systemRules".
pub(super) fn names_rules_in_markup(name: &str) -> bool {
    let mut spaced = String::new();
    for char in name.chars() {
        if char.is_uppercase() || "_-.".contains(char) {
            spaced.push(' ');
        }
        spaced.push(char);
    }
    let words = plain_words(&spaced);
    words.len() <= MAX_SCOPE_WORDS
        && (names_rules(name, &words) || words.iter().any(|word| is_markup_name(word)))
}

/// Returns whether a word names rules in markup and in the titles of summaries.
fn is_markup_name(word: &str) -> bool {
    MARKUP_NAMES.split_whitespace().any(|name| name == word)
}

/// Returns whether the title of a section promises rules: "Instructions and constraints".
pub(crate) fn is_rules_title(title: &str) -> bool {
    let words = plain_words(title);
    words.len() <= MAX_HEADING_WORDS
        && (names_rules(title, &words) || words.iter().any(|word| is_markup_name(word)))
}

/// Splits a label from the text behind it: "Rule: …", "constraint – …".
fn split_label(line: &str) -> Option<(&str, &str)> {
    let marks = [":", "：", " – ", " — ", " - ", "–", "—"];
    let (label, body) =
        marks.iter().filter_map(|mark| line.split_once(mark)).min_by_key(|(label, _)| label.len())?;
    Some((label.trim(), body.trim_start()))
}

/// Returns whether a line begins with a heading of rules and goes on with them: "Rules: no emojis, answers in French."
pub(super) fn begins_with_heading(line: &str) -> bool {
    let Some((label, body)) = split_label(line.trim_start_matches(['-', '*', '#', '>', ' '])) else {
        return false;
    };
    let words = plain_words(label);
    !body.trim().is_empty() && words.len() <= MAX_SCOPE_WORDS && names_rules(label, &words)
}

/// Returns a sentence without a label that only stresses it: "Important: reply in French".
pub(super) fn without_stress(sentence: &str) -> &str {
    static STRESS_SET: LazyLock<BTreeSet<&'static str>> =
        LazyLock::new(|| STRESSES.split_whitespace().collect());
    match split_label(sentence) {
        Some((label, body)) if STRESS_SET.contains(label.to_lowercase().as_str()) => body,
        _ => sentence,
    }
}
