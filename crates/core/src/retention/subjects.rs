//! Words for the subjects that people settle and later change: a budget, a date, a name, a tone.
//!
//! People often change a statement in other words: "the budget cap is $800", later "spend at most five hundred". The
//! words of a subject count as one word, so that the comparison of two statements
//! ([`replaced`](super::replaced)) finds what they have in common. Unlike the classes of
//! [`lexicon`](super::lexicon), these lists can never be complete: a subject that is missing here is compared by its
//! own words.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use super::mood::is_function_word;
use super::polite::{ANSWERS, is_plea_word};
use super::statement_form::is_cue_word;
use crate::retention_report::facts::is_unspaced;

/// A subject and the words for the subject, in several languages.
struct Subject {
    /// The term that stands for all words of the subject. No text has the term, because of its sign.
    term: &'static str,
    /// Words in lower case, separated by blanks.
    words: &'static str,
    /// `true` if a project has one such thing at a time. "The" branch needs no other word to be clear, while there
    /// may be a budget for the project and one for travel.
    is_single: bool,
}

const SUBJECTS: &[Subject] = &[
    Subject {
        term: "§money",
        words: "budget budgets spend spending spent expense expenses cost costs ceiling cap dollar dollars euro euros \
            usd eur kosten ausgaben obergrenze dépense dépenses coût coûts plafond gasto gastos presupuesto costo costos \
            orçamento spese costi бюджет расходы wydatki budżet uitgaven",
        is_single: false,
    },
    Subject {
        term: "§date",
        words: "deadline due date dates timing ship ships shipping schedule scheduled termin frist stichtag liefertermin \
            échéance délai fecha plazo entrega prazo scadenza срок дата termijn",
        is_single: false,
    },
    Subject {
        term: "§name",
        words: "name named names renamed codename label labelled call called calling designated heißt nennen genannt \
            address addressed title anrede nom appelle appelé nombre llama llamado nome chiama название имя nazwa naam",
        is_single: false,
    },
    Subject {
        term: "§duty",
        words: "on-call oncall pager duty escalation escalations rotation bereitschaft rufbereitschaft astreinte guardia \
            plantão reperibilità дежурный dyżur",
        is_single: false,
    },
    Subject {
        term: "§secret",
        words: "code codes password passwords passphrase passcode pin credential credentials passwort kennwort \
            zugangscode contraseña clave senha пароль hasło wachtwoord",
        is_single: false,
    },
    Subject {
        term: "§branch",
        words: "branch branches rebase rebased checkout zweig branche rama ветка gałąź",
        is_single: true,
    },
    Subject {
        term: "§zone",
        words: "timezone timezones timestamp timestamps clock clocks zeitzone fuseau fuso huso strefa",
        is_single: true,
    },
    Subject {
        term: "§style",
        words: "tone style answer answers answering reply replies replying respond responding response responses antwort antworten antworte tonfall stil \
            réponse réponses réponds respuesta respuestas responde resposta respostas risposta risposte ответ ответы \
            odpowiedź odpowiedzi antwoord antwoorden répondre responder rispondere rispondi отвечай отвечать отвечайте beantworte \
            odpowiadaj antwortest svar svara svaren svarar svaret cevap yanıt cevaplar yanıtlar відповідай відповідайте відповідь \
            відповіді jawab jawaban jawablah balasan أجب إجابة الإجابة إجاباتك जवाब उत्तर",
        is_single: false,
    },
];

/// Values of which an order names one and excludes the others.
struct ValueClass {
    name: &'static str,
    words: &'static str,
    /// The subject without which the words mean something else: a "short" list is no tone.
    within: Option<&'static str>,
    /// The subject that the values name by themselves: "in UTC" speaks of time zones.
    names: Option<&'static str>,
    /// `true` if several values may hold side by side: two databases, but not two time zones.
    adds_up: bool,
}

const VALUE_CLASSES: &[ValueClass] = &[
    ValueClass {
        name: "zone",
        words: "utc gmt cet cest pst pdt edt jst ist bst pacific",
        within: None,
        names: Some("§zone"),
        adds_up: false,
    },
    ValueClass {
        name: "units",
        words: "metric imperial metrisch métrique métrico",
        within: None,
        names: None,
        adds_up: false,
    },
    ValueClass {
        name: "tone",
        words: "terse brief short concise succinct curt long detailed verbose elaborate playful warm light friendly formal \
            informal casual serious sachlich förmlich locker kurz knapp ausführlich formel bref concis formale breve \
            conciso",
        within: Some("§style"),
        names: None,
        adds_up: false,
    },
    ValueClass {
        name: "language",
        words: "english german french spanish italian portuguese russian dutch polish chinese japanese korean deutsch \
            englisch französisch spanisch italienisch portugiesisch russisch niederländisch polnisch anglais allemand français \
            espagnol italien portugais inglés alemán francés español italiano portugués inglês alemão francês espanhol português \
            inglese tedesco francese spagnolo по-русски по-английски по-немецки по-французски по-испански английском русском немецком французском испанском engels duits frans \
            spaans nederlands angielsku niemiecku francusku hiszpańsku polsku swedish svenska engelska tyska franska spanska \
            turkish türkçe ingilizce almanca fransızca ukrainian українською англійською німецькою indonesian inggris jerman \
            arabic العربية الإنجليزية hindi हिंदी हिन्दी अंग्रेज़ी अंग्रेजी",
        within: Some("§style"),
        names: None,
        adds_up: false,
    },
    ValueClass {
        name: "indentation",
        words: "tabs spaces tabulatoren leerzeichen tabulations tabuladores tabulazioni",
        within: None,
        names: Some("§indentation"),
        adds_up: true,
    },
    ValueClass {
        name: "packages",
        words: "npm pnpm yarn bun",
        within: None,
        names: Some("§packages"),
        adds_up: true,
    },
    ValueClass {
        name: "database",
        words: "postgres postgresql mysql mariadb sqlite mongodb oracle",
        within: None,
        names: Some("§database"),
        adds_up: true,
    },
    ValueClass { name: "cloud", words: "aws azure gcp", within: None, names: Some("§cloud"), adds_up: true },
];

/// The name of the class of languages.
const LANGUAGE: &str = "language";

/// Names of languages in scripts without blanks.
const UNSPACED_LANGUAGES: &str = "中文 汉语 英文 英语 日文 日语 法语 德语 韩语 俄语 日本語 英語 中国語 フランス語 ドイツ語 韓国語 스페인어 한국어 영어 \
    일본어 중국어 프랑스어 독일어";

/// Words for the model's answers in those scripts.
const UNSPACED_ANSWERS: &str = "回答 回复 答え 返事 返信 대답 답변 답해";

/// Returns whether one of some words has a part.
fn has_part(words: &[&String], part: &str) -> bool {
    words.iter().any(|word| word.contains(part))
}

/// The subjects of a statement, and the values of closed classes that it names.
#[derive(Debug, Default)]
pub(super) struct StatementSubjects {
    /// The terms of the subjects.
    pub(super) terms: BTreeSet<&'static str>,
    /// The terms of the subjects that the statement names by a word, and not by a value alone.
    named: BTreeSet<&'static str>,
    /// The values by the name of their class.
    pub(super) values: BTreeMap<&'static str, BTreeSet<String>>,
}

impl StatementSubjects {
    /// Reads the subjects of a statement from words in lower case.
    pub(super) fn of(words: &[String]) -> Self {
        let mut subjects = Self::default();
        for (at, word) in words.iter().enumerate() {
            // "On call" is a duty, and "call" alone gives a name.
            let is_on_call = word == "call" && at > 0 && words[at - 1] == "on";
            subjects.terms.extend(if is_on_call { Some("§duty") } else { subject_of(word) });
        }
        let unspaced: Vec<&String> = words.iter().filter(|word| word.chars().any(is_unspaced)).collect();
        if !unspaced.is_empty() && UNSPACED_ANSWERS.split(' ').any(|mark| has_part(&unspaced, mark)) {
            subjects.terms.insert(ANSWERS);
            let languages = UNSPACED_LANGUAGES.split(' ').filter(|mark| has_part(&unspaced, mark));
            let languages: BTreeSet<String> = languages.map(str::to_owned).collect();
            if !languages.is_empty() {
                subjects.values.insert(LANGUAGE, languages);
            }
        }
        subjects.named.clone_from(&subjects.terms);
        for class in VALUE_CLASSES {
            // "From today it's French" has no other content than a value, so it speaks of the class.
            let is_elliptic = is_only_values_of(class, words) || names_language(class, words);
            if class.within.is_some_and(|subject| !subjects.terms.contains(subject)) && !is_elliptic {
                continue;
            }
            subjects.terms.extend(class.within.filter(|_| is_elliptic && !names_language(class, words)));
            let values: BTreeSet<String> =
                words.iter().filter(|word| is_value_of(class, word)).cloned().collect();
            if !values.is_empty() {
                subjects.terms.extend(class.names);
                subjects.values.entry(class.name).or_default().extend(values);
            }
        }
        subjects
    }

    /// Returns whether both name values, but of classes that have nothing to do with each other: a tone and a language.
    pub(super) fn differ_in_class(&self, later: &Self) -> bool {
        let both = !self.values.is_empty() && !later.values.is_empty();
        both && self.values.keys().all(|class| !later.values.contains_key(class))
    }

    /// Returns whether both name values of one class, and no word of one subject: "UTC" and "Pacific" beside each other
    /// say nothing of clocks.
    pub(super) fn share_only_a_class(&self, later: &Self) -> bool {
        let has_common_class = self.values.keys().any(|class| later.values.contains_key(class));
        has_common_class && self.named.is_disjoint(&later.named)
    }

    /// Returns whether the statement has a value of which several may hold side by side.
    pub(super) fn may_add_up(&self) -> bool {
        VALUE_CLASSES.iter().any(|class| class.adds_up && self.values.contains_key(class.name))
    }

    /// Returns whether a later statement names another value for each class of this one.
    pub(super) fn are_excluded_by(&self, later: &Self) -> bool {
        let mut classes = self.values.iter();
        !self.values.is_empty()
            && classes.all(|(class, values)| {
                later.values.get(class).is_some_and(|others| others.is_disjoint(values))
            })
    }

    /// Returns whether both have a subject of which a project has one at a time.
    pub(super) fn share_a_single(&self, later: &Self) -> bool {
        let singles = SUBJECTS.iter().filter(|subject| subject.is_single);
        singles
            .map(|subject| subject.term)
            .any(|term| self.terms.contains(term) && later.terms.contains(term))
    }
}

/// Returns the term of the subject that a word names.
pub(super) fn subject_of(word: &str) -> Option<&'static str> {
    static BY_WORD: LazyLock<BTreeMap<&'static str, &'static str>> = LazyLock::new(|| {
        let pairs = SUBJECTS
            .iter()
            .flat_map(|subject| subject.words.split_whitespace().map(move |word| (word, subject.term)));
        pairs.collect()
    });
    BY_WORD.get(word).copied()
}

/// Returns whether a word is a value of a closed class, whatever the statement is about.
pub(super) fn is_class_value(word: &str) -> bool {
    VALUE_CLASSES.iter().any(|class| is_value_of(class, word))
}

/// Returns whether a term stands for a subject.
pub(super) fn is_subject_term(term: &str) -> bool {
    term.starts_with('§')
}

/// Returns whether a statement names values of a class and nothing else.
fn is_only_values_of(class: &ValueClass, words: &[String]) -> bool {
    let mut content = words
        .iter()
        .filter(|word| !is_function_word(word) && !is_cue_word(word) && !is_plea_word(word))
        .peekable();
    content.peek().is_some() && content.all(|word| is_value_of(class, word))
}

/// Words before the name of a language in which something is written.
const LANGUAGE_PREPOSITIONS: &[&str] = &["in", "auf", "en", "em", "på", "op", "na", "po"];

/// Returns whether words name a language in which something is written: "comments in German".
fn names_language(class: &ValueClass, words: &[String]) -> bool {
    class.name == LANGUAGE
        && words
            .windows(2)
            .any(|pair| LANGUAGE_PREPOSITIONS.contains(&pair[0].as_str()) && is_value_of(class, &pair[1]))
}

fn is_value_of(class: &ValueClass, word: &str) -> bool {
    class.words.split_whitespace().any(|value| value == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subjects(text: &str) -> StatementSubjects {
        let words: Vec<String> = text.to_lowercase().split_whitespace().map(str::to_owned).collect();
        StatementSubjects::of(&words)
    }

    #[test]
    fn different_words_name_one_subject() {
        assert_eq!(subjects("keep spending low").terms, subjects("the budget cap").terms);
        assert_eq!(subjects("anna is on call").terms, subjects("bo owns the pager").terms);
        assert!(subjects("a short list of ports").terms.is_empty());
    }

    #[test]
    fn values_of_one_class_exclude_each_other() {
        let utc = subjects("put every timestamp in utc");
        assert!(utc.are_excluded_by(&subjects("show clocks in pacific time")));
        assert!(!utc.are_excluded_by(&subjects("show clocks in utc")));
        assert!(!utc.are_excluded_by(&subjects("use metric units")));
    }

    #[test]
    fn an_order_with_two_values_is_excluded_by_both() {
        let both = subjects("keep replies terse with imperial units");
        assert!(!both.are_excluded_by(&subjects("use metric units")));
        assert!(both.are_excluded_by(&subjects("playful replies with metric units")));
    }

    #[test]
    fn a_tone_and_a_language_go_together() {
        assert!(subjects("reply in german").differ_in_class(&subjects("keep each reply formal")));
        assert!(!subjects("reply in german").differ_in_class(&subjects("reply in french")));
    }
}
