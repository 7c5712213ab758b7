//! The mood of sentences: a statement, a question, or a refusal.

/// Phrases of refusal and apology in each language. The class is closed.
const DENIALS: &[&[&str]] = &[
    &[
        "i can't",
        "i cannot",
        "i can not",
        "i couldn't",
        "i won't",
        "i will not",
        "i'm unable",
        "i am unable",
        "i'm not able",
        "i am not able",
        "i'm sorry",
        "i am sorry",
        "i apologi",
        "i don't have",
        "i do not have",
        "i must decline",
        "i must respectfully decline",
        "i have to decline",
        "i would rather not",
        "i'd rather not",
        "i prefer not to",
        "i'm not comfortable",
        "i am not comfortable",
        "i'm not allowed",
        "i am not allowed",
        "as an ai",
    ],
    &["sorry,", "sorry but", "unable to", "apologies"],
    &[
        "ich kann nicht",
        "ich kann das nicht",
        "ich kann das leider",
        "ich kann ihnen nicht",
        "ich kann ihnen leider",
        "ich kann dir nicht",
        "ich kann dir leider",
        "ich darf nicht",
        "ich darf das nicht",
        "tut mir leid",
        "kann ich nicht",
        "kann ich leider",
        "ich habe keinen",
    ],
    &["je ne peux", "je suis désolé", "je regrette", "je n'ai pas", "je ne suis pas en mesure", "désolé"],
    &["lo siento", "no puedo", "no me es posible", "no tengo acceso"],
    &["desculpe", "não posso", "não consigo", "sinto muito", "lamento"],
    &["mi dispiace", "non posso", "non sono in grado"],
    &["я не могу", "к сожалению", "извините", "простите"],
    &["ik kan", "het spijt me", "helaas"],
    &["nie mogę", "przepraszam", "niestety"],
    &["我无法", "我不能", "抱歉", "对不起", "无法提供", "我無法"],
    &["申し訳", "すみません", "できません", "いたしかねます"],
    &["죄송", "할 수 없", "수 없습니다"],
    &["üzgünüm", "yapamam"],
    &["عذرا", "آسف", "لا أستطيع", "لا يمكنني"],
    &["क्षमा करें", "माफ़ कीजिए", "मैं नहीं"],
];

/// The number of sentences of each mood in a text.
pub(super) struct SentenceMoodCounts {
    sentences: usize,
    questions: usize,
    denials: usize,
    /// The number of sentences that plan the answer.
    deliberations: usize,
    ends_asking: bool,
    begins_denying: bool,
    /// The number of characters of the text.
    chars: usize,
}

/// The most sentences of a text that may be a refusal or a question below headings.
const MAX_HOLLOW_SENTENCES: usize = 6;

/// The length from which on a text has content of its own, even with another mood at its ends. In characters.
const LONG_CHARS: usize = 600;

impl SentenceMoodCounts {
    pub(super) fn of(text: &str) -> Self {
        let sentences = sentences(text);
        let denies: Vec<bool> = sentences.iter().map(|sentence| denies(sentence)).collect();
        Self {
            sentences: sentences.len(),
            questions: sentences.iter().filter(|sentence| is_question(sentence)).count(),
            denials: denies.iter().filter(|denies| **denies).count(),
            deliberations: sentences.iter().filter(|sentence| deliberates(sentence)).count(),
            ends_asking: sentences.last().is_some_and(|sentence| is_question(sentence)),
            begins_denying: denies.iter().take(2).any(|denies| *denies),
            chars: text.chars().count(),
        }
    }

    /// Returns whether the text is mainly a refusal.
    pub(super) fn is_refusal(&self, has_headings: bool) -> bool {
        let mostly = self.denials * 2 >= self.sentences.max(1);
        let plainly = !has_headings && self.begins_denying;
        // A summary reports failures too, so below headings only a short text of nothing but denials is a refusal.
        mostly && self.denials > 0 && (!has_headings || self.sentences <= 3) || plainly
    }

    /// Returns whether the text mainly plans an answer, as thoughts without marks do.
    pub(super) fn is_deliberation(&self) -> bool {
        self.deliberations >= 2 && self.deliberations * 2 >= self.sentences
    }

    /// Returns whether a few sentences begin with a denial.
    pub(super) fn is_short_refusal(&self) -> bool {
        self.begins_denying && self.sentences <= MAX_HOLLOW_SENTENCES
    }

    /// Returns whether a few sentences are questions for the most part.
    pub(super) fn is_short_question(&self) -> bool {
        self.questions > 0 && self.questions * 2 >= self.sentences && self.sentences <= MAX_HOLLOW_SENTENCES
    }

    /// Returns whether the text is mainly a question.
    pub(super) fn is_question(&self, has_headings: bool) -> bool {
        let mostly = self.questions * 2 >= self.sentences.max(1);
        let all = self.questions == self.sentences && self.sentences > 0;
        if has_headings {
            return all;
        }
        self.questions > 0 && mostly || self.ends_asking && self.chars < LONG_CHARS
    }
}

fn sentences(text: &str) -> Vec<&str> {
    // The full stop of a path or a number ends no sentence.
    let is_within = |at: usize, mark: &str| mark == "." && text[at + 1..].starts_with(char::is_alphanumeric);
    let marks = ['.', '!', '?', '。', '！', '？', '؟', '।', '\n'];
    let ends = text.match_indices(marks).filter(|(at, mark)| !is_within(*at, mark));
    let ends: Vec<usize> = ends.map(|(at, mark)| at + mark.len()).chain([text.len()]).collect();
    let starts = [0].into_iter().chain(ends.iter().copied());
    let pieces = starts.zip(ends.iter().copied()).map(|(start, end)| text[start..end].trim());
    // Numbers of lists and abbreviations end with a full stop too, but have hardly any letters.
    pieces.filter(|piece| piece.chars().filter(|char| char.is_alphanumeric()).count() >= 3).collect()
}

fn is_question(sentence: &str) -> bool {
    sentence.trim_end_matches(['"', '”', '*', ')', '_', '`', ' ']).ends_with(['?', '？', '؟'])
}

fn denies(sentence: &str) -> bool {
    let plain: String = sentence.to_lowercase().replace('’', "'");
    let plain = plain.trim_start_matches(|char: char| !char.is_alphanumeric());
    DENIALS.iter().flat_map(|phrases| phrases.iter()).any(|phrase| has_phrase(plain, phrase))
}

/// Beginnings of sentences in which a model plans its answer, in the languages in which models think.
const DELIBERATIONS: &[&str] = &[
    "okay, so",
    "ok, so",
    "alright, ",
    "let me",
    "let's see",
    "i should",
    "i need to",
    "i'll need",
    "i must mention",
    "hmm",
    "wait,",
    "wait ",
    "the user wants",
    "the user is asking",
    "first, i",
    "now i",
    "so i",
    "maybe i",
    "we need to",
    "we should",
    "we have to",
    "lass mich",
    "ich sollte",
    "ich muss",
    "der nutzer möchte",
    "voyons",
    "je dois",
    "l'utilisateur veut",
    "tengo que",
    "debo ",
    "el usuario quiere",
    "让我",
    "我需要",
    "我应该",
    "用户希望",
    "用户想",
    "好的，",
    "嗯",
];

fn deliberates(sentence: &str) -> bool {
    let plain = sentence.to_lowercase().replace('’', "'");
    DELIBERATIONS.iter().any(|beginning| plain.starts_with(beginning))
}

/// Returns whether a text has a phrase that does not begin within a word.
fn has_phrase(text: &str, phrase: &str) -> bool {
    let mut places = text.match_indices(phrase);
    places.any(|(at, _)| {
        text[..at].chars().next_back().is_none_or(|before| !before.is_alphanumeric())
            // Some of these scripts write no blanks, so that no boundary marks the beginning of a phrase.
            || !phrase.is_ascii()
    })
}
