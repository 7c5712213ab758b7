//! Detection of rules by words of prohibition and obligation, language by language.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use crate::retention::lexicon::OBLIGATIONS;

/// Words and phrases that set a rule at any place of a sentence, in lower case: prohibitions and limits here, and the
/// phrases of obligation, which standing orders have too ([`OBLIGATIONS`]). Weak obligations ("should", "needs") are not
/// among them, because they also tell what is likely.
const PHRASES: &[&str] = &[OBLIGATIONS, ENGLISH, GERMAN, FRENCH, SPANISH, PORTUGUESE, ITALIAN, RUSSIAN];

const ENGLISH: &str = "\
    never, always, only, exclusively, strictly, mandatory, don't, dont, do not, cannot, can't, cant, \
    won't, not touch, not to be, not to touch, not to change, avoid, required, without, \
    make sure, make certain, be sure to, ensure, at least, at most, no more than, not more than, no \
    less than, no longer, forbid, forbids, forbidden, prohibit, prohibits, prohibited, disallow, \
    disallowed, banned, not allowed, not permitted, under no circumstances, on no account, in no \
    case, by no means, off limits, hands off, stay away, stay out of, keep away, keep out of, steer \
    clear, refrain, refrains, stop using, untouched, unchanged, unmodified, prefer, from now on, \
    stick to, remember to, don't forget, ask before, ask first, ask me before, ask me first, change \
    nothing, touch nothing, nothing else";

const GERMAN: &str = "\
    nie, niemals, keinesfalls, auf keinen fall, unter keinen umständen, verboten, untersagt, tabu, \
    finger weg, musst, müsst, darf, darfst, dürfen, dürft, soll nicht, sollen nicht, sollst nicht, \
    immer, stets, unbedingt, zwingend, nur, ausschließlich, mindestens, höchstens, maximal, ohne, \
    vermeide, vermeiden, vermeidet, stelle sicher, stell sicher, achte darauf, erforderlich, bitte \
    nicht, bitte kein, bitte keine, bitte keinen, nicht anfassen, nicht ändern, nicht verändern, \
    nicht löschen, nicht entfernen, nicht benutzen, nicht verwenden, nicht anrühren, nicht berühren, \
    nicht überschreiben, nicht ausführen, nicht umbenennen, nicht erlaubt, nicht gestattet, nicht \
    zulässig";

const FRENCH: &str = "\
    jamais, toujours, dois, devez, il faut, interdit, interdite, interdits, interdites, défense de, \
    défendu, uniquement, seulement, obligatoire, obligatoirement, évite, évitez, éviter, en aucun \
    cas, sous aucun prétexte, au moins, au plus, assure toi, assurez vous, veille à, veillez à";

const SPANISH: &str = "\
    nunca, jamás, siempre, debes, debéis, tienes que, hay que, prohibido, prohibida, prohibidos, \
    prohibidas, prohíbo, sólo, solamente, únicamente, obligatorio, obligatoria, evita, evite, \
    evitar, bajo ningún concepto, en ningún caso, al menos, como máximo, asegúrate, asegúrese, no \
    toques, no toque, no uses, no use, no cambies, no cambie, no borres, no borre, no modifiques, no \
    modifique, no edites, no hagas, no puedes, no se puede, usa solo, use solo, utiliza solo";

const PORTUGUESE: &str = "\
    sempre, deves, tens de, tens que, proibido, proibida, somente, apenas, obrigatório, obrigatória, \
    evitar, de jeito nenhum, em hipótese alguma, em caso algum, pelo menos, no máximo, certifique \
    se, não mexa, não mexas, não toque, não toques, não use, não uses, não altere, não apague, não \
    pode, não podes";

const ITALIAN: &str = "\
    devi, dovete, vietato, vietata, vietati, vietate, proibito, proibita, soltanto, solamente, \
    esclusivamente, obbligatorio, obbligatoria, evitare, evitate, in nessun caso, per nessun motivo, \
    bisogna, occorre, almeno, al massimo, assicurati, assicuratevi, non toccare, non usare, non \
    modificare, non cancellare, non cambiare";

const RUSSIAN: &str = "\
    нельзя, никогда, всегда, запрещается, запрещаю, только, обязательно, обязана, необходимо, \
    избегай, избегайте, не трогай, не трогайте, не трогать, не удаляй, не удалять, не меняй, не \
    менять, не изменяй, не изменять, ни в коем случае, не менее, не более, без";

/// Words that set a rule in Chinese and Japanese, which have no blanks between words.
const UNSPACED: &str = "\
    不要 不得 不能 不可 不许 不許 不准 禁止 严禁 嚴禁 切勿 请勿 請勿 必须 必須 务必 務必 一定要 只能 只用 仅 僅 始终 始終 总是 總是 永远 永遠 绝不 絕不 从不 避免 别动 别改 \
    别删 别碰 至少 最多 必ず 絶対 しないで 触らないで 使わないで ないでください てはいけ てはなら ではいけ ではなら なければなら なければいけ ないこと 常に のみ だけ 避けて 厳禁 \
    するな";

/// Pairs of phrases that set a rule with other words between them.
const APART: &[(&str, &str)] = &[
    ("leave", "alone"),
    ("leave", "be"),
    ("leave", "as is"),
    ("leave", "as it is"),
    ("leave", "as they are"),
    ("keep", "as is"),
    ("keep", "as it is"),
    ("keep", "as they are"),
    ("keep", "intact"),
    ("keep", "the same"),
    ("keep", "out of"),
    ("keep", "away"),
    ("keep", "stable"),
    ("non", "mai"),
    ("lass", "in ruhe"),
    ("lasse", "in ruhe"),
    ("laissez", "tranquille"),
    ("laisse", "tranquille"),
    ("deja", "en paz"),
];

/// Words that forbid at the beginning of a clause, with the words that may follow them in a mere denial or answer.
const DENIALS: &[(&[&str], &[&str])] = &[
    (
        &["no"],
        &[
            "problem",
            "problems",
            "worries",
            "worry",
            "idea",
            "need",
            "one",
            "doubt",
            "it",
            "i",
            "we",
            "that",
            "this",
            "thanks",
            "thank",
            "wait",
            "matter",
            "such",
            "rush",
            "hurry",
            "but",
            "and",
            "not",
            "the",
            "you",
            "he",
            "she",
            "they",
            "is",
            "there",
            "way",
            "clue",
            "luck",
            "big",
            "kidding",
            "question",
            "questions",
            "reason",
            "sorry",
            "actually",
            "sé",
            "es",
            "hay",
            "tengo",
            "lo",
            "está",
            "funciona",
            "entiendo",
        ],
    ),
    (&["kein", "keine", "keinen", "keinerlei"], &["problem", "ahnung", "sorge", "frage", "ding", "thema"]),
    (
        &["pas", "aucun", "aucune"],
        &["de problème", "problème", "problèmes", "grave", "encore", "mal", "vraiment"],
    ),
    (&["ne"], &[]),
    (
        &["não", "nenhum", "nenhuma"],
        &["sei", "há", "é", "tenho", "foi", "entendi", "funciona", "está", "problema"],
    ),
    (
        &["non", "nessun", "nessuna", "mai"],
        &["so", "è", "c'è", "ho", "capisco", "funziona", "problema", "lo", "empty"],
    ),
    (
        &["не", "никаких", "никакого"],
        &["знаю", "понимаю", "могу", "работает", "вижу", "уверен", "понял", "проблем", "так", "вопрос"],
    ),
];

/// Words of statements, which do not occur in a prohibition: `no tests were found`.
const STATES: &[&str] = &["was", "were", "found", "yet", "left", "i", "we"];

/// The most words of a clause that forbids by a denial.
const MAX_DENIED: usize = 12;

/// First words of sentences whose later clauses may forbid by a mere `no`: `Use tabs, no spaces`.
const IMPERATIVES: &[&str] = &[
    "use",
    "keep",
    "write",
    "answer",
    "reply",
    "respond",
    "put",
    "work",
    "please",
    "rule",
    "rules",
    "constraint",
    "constraints",
    "important",
    "just",
];

/// Verbs at the beginning of a German command, which a later `nicht` makes a prohibition.
const GERMAN_COMMANDS: &str = "\
    fass fasse fassen ändere ändert lösch lösche rühr rühre benutz benutze nutze verwende mach mache \
    schreib schreibe pushe committe nimm führe starte entferne überschreibe lass lasse geh gehe";

/// Returns whether a sentence sets a rule.
pub(crate) fn binds(sentence: &str) -> bool {
    // No mark is ASCII, and most sentences are: the check spares them the search for each mark.
    if !sentence.is_ascii() && UNSPACED.split(' ').any(|mark| sentence.contains(mark)) {
        return true;
    }
    let small = small(sentence);
    let words: Vec<&str> = small.split_whitespace().filter(|word| *word != CLAUSE).collect();
    // The cheap tests come first, because every sentence of a log passes through here.
    has_phrase(&words)
        || is_apart(&words)
        || is_german_command(&words)
        || small.split(CLAUSE).enumerate().any(|(at, clause)| is_denial(at, clause, &words))
}

/// The mark between clauses.
const CLAUSE: &str = "|";

/// Returns a sentence in lower case. Other characters than letters, digits and apostrophes become blanks or [`CLAUSE`].
fn small(sentence: &str) -> String {
    let mut small = String::with_capacity(sentence.len() + 8);
    small.push(' ');
    for char in sentence.chars() {
        match char {
            '’' | '\'' => small.push('\''),
            ',' | ':' | ';' | '(' | '–' | '—' => {
                small.push(' ');
                small.push_str(CLAUSE);
                small.push(' ');
            }
            _ if char.is_alphanumeric() => small.extend(char.to_lowercase()),
            _ => small.push(' '),
        }
    }
    // French shortens `ne` before a vowel: "n'utilise pas".
    if small.contains(" n'") { small.replace(" n'", " ne ") } else { small }
}

/// Returns whether one of [`PHRASES`] occurs in the words.
fn has_phrase(words: &[&str]) -> bool {
    // Sorted by their first words: a search for each of some hundred phrases is too slow for every sentence of a log.
    static BY_FIRST: LazyLock<BTreeMap<&str, Vec<Vec<&str>>>> = LazyLock::new(|| {
        let mut by_first: BTreeMap<&str, Vec<Vec<&str>>> = BTreeMap::new();
        for phrase in PHRASES.iter().flat_map(|language| language.split(", ")) {
            let mut words = phrase.split(' ');
            let first = words.next().unwrap_or_default();
            by_first.entry(first).or_default().push(words.collect());
        }
        by_first
    });
    (0..words.len()).any(|at| {
        let rests = BY_FIRST.get(words[at].trim_matches('\''));
        rests.is_some_and(|rests| rests.iter().any(|rest| stands(rest, &words[at + 1..])))
    })
}

/// Returns whether `words` begin with the phrase.
fn stands(phrase: &[&str], words: &[&str]) -> bool {
    phrase.len() <= words.len()
        && phrase.iter().zip(words).all(|(wanted, word)| *wanted == word.trim_matches('\''))
}

/// Returns whether both phrases of one of [`APART`] occur in order.
fn is_apart(words: &[&str]) -> bool {
    APART.iter().any(|(first, then)| {
        let then: Vec<&str> = then.split(' ').collect();
        let from = words.iter().position(|word| word == first);
        from.is_some_and(|from| (from + 1..words.len()).any(|at| stands(&then, &words[at..])))
    })
}

/// Returns whether the words are a German command with a negation.
fn is_german_command(words: &[&str]) -> bool {
    let words = if words.first() == Some(&"bitte") { &words[1..] } else { words };
    words.first().is_some_and(|first| GERMAN_COMMANDS.split(' ').any(|command| command == *first))
        && words.iter().any(|word| matches!(*word, "nicht" | "nichts" | "kein" | "keine" | "keinen"))
}

/// Returns whether a clause forbids by a denial, as `No sudo` does and `No problem` does not.
fn is_denial(at: usize, clause: &str, sentence: &[&str]) -> bool {
    let words: Vec<&str> = clause.split_whitespace().collect();
    let words = match words.first() {
        Some(&"please" | &"and" | &"et" | &"e" | &"и" | &"und") => &words[1..],
        _ => &words[..],
    };
    let [first, then, ..] = words else { return false };
    // In a later clause these words mostly answer or correct ("no, the other one"), unless the sentence is a command.
    let may_come_later = !matches!(*first, "no" | "non" | "mai" | "pas");
    DENIALS.iter().any(|(denials, answers)| denials.contains(first) && !answers.contains(then))
        && words.len() <= MAX_DENIED
        && (at == 0 || may_come_later || sentence.first().is_some_and(|first| IMPERATIVES.contains(first)))
        && !words.iter().any(|word| STATES.contains(word))
}
