//! Which sentences bind: words of prohibition and obligation, language by language.

use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Words and phrases that bind wherever they stand, in lower case.
const PHRASES: &[&str] = &[ENGLISH, GERMAN, FRENCH, SPANISH, PORTUGUESE, ITALIAN, RUSSIAN];

const ENGLISH: &str = "\
    must, mustn't, never, always, only, exclusively, strictly, mandatory, shall, don't, dont, do not, \
    cannot, can't, cant, may not, won't, shouldn't, should not, not touch, not to be, not to touch, not \
    to change, avoid, required, without, make sure, make certain, be sure to, ensure, need to, have to, \
    at least, at most, no more than, not more than, no less than, no longer, forbid, forbids, forbidden, \
    prohibit, prohibits, prohibited, disallow, disallowed, banned, not allowed, not permitted, under no \
    circumstances, on no account, in no case, by no means, off limits, hands off, stay away, stay out \
    of, keep away, keep out of, steer clear, refrain, refrains, stop using, untouched, unchanged, \
    unmodified, prefer, from now on, stick to, remember to, don't forget, ask before, ask first, ask me \
    before, ask me first, change nothing, touch nothing, nothing else";

const GERMAN: &str = "\
    nie, niemals, keinesfalls, auf keinen fall, unter keinen umständen, verboten, untersagt, tabu, \
    finger weg, muss, musst, müssen, müsst, darf, darfst, dürfen, dürft, soll nicht, sollen nicht, \
    sollst nicht, immer, stets, unbedingt, zwingend, nur, ausschließlich, mindestens, höchstens, \
    maximal, ohne, vermeide, vermeiden, vermeidet, stelle sicher, stell sicher, achte darauf, \
    erforderlich, bitte nicht, bitte kein, bitte keine, bitte keinen, nicht anfassen, nicht ändern, \
    nicht verändern, nicht löschen, nicht entfernen, nicht benutzen, nicht verwenden, nicht anrühren, \
    nicht berühren, nicht überschreiben, nicht ausführen, nicht umbenennen, nicht erlaubt, nicht \
    gestattet, nicht zulässig";

const FRENCH: &str = "\
    jamais, toujours, dois, doit, devez, doivent, il faut, interdit, interdite, interdits, interdites, \
    défense de, défendu, uniquement, seulement, obligatoire, obligatoirement, évite, évitez, éviter, en \
    aucun cas, sous aucun prétexte, au moins, au plus, assure toi, assurez vous, veille à, veillez à";

const SPANISH: &str = "\
    nunca, jamás, siempre, debe, debes, deben, debéis, tienes que, tiene que, hay que, prohibido, \
    prohibida, prohibidos, prohibidas, prohíbo, sólo, solamente, únicamente, obligatorio, obligatoria, \
    evita, evite, evitar, bajo ningún concepto, en ningún caso, al menos, como máximo, asegúrate, \
    asegúrese, no toques, no toque, no uses, no use, no cambies, no cambie, no borres, no borre, no \
    modifiques, no modifique, no edites, no hagas, no puedes, no se puede, usa solo, use solo, utiliza \
    solo";

const PORTUGUESE: &str = "\
    sempre, deve, deves, devem, tem que, tem de, tens de, tens que, proibido, proibida, somente, apenas, \
    obrigatório, obrigatória, evitar, de jeito nenhum, em hipótese alguma, em caso algum, pelo menos, no \
    máximo, certifique se, não mexa, não mexas, não toque, não toques, não use, não uses, não altere, \
    não apague, não pode, não podes";

const ITALIAN: &str = "\
    devi, dovete, devono, vietato, vietata, vietati, vietate, proibito, proibita, soltanto, solamente, \
    esclusivamente, obbligatorio, obbligatoria, evitare, evitate, in nessun caso, per nessun motivo, \
    bisogna, occorre, almeno, al massimo, assicurati, assicuratevi, non toccare, non usare, non \
    modificare, non cancellare, non cambiare";

const RUSSIAN: &str = "\
    нельзя, никогда, всегда, должен, должна, должно, должны, запрещено, запрещается, запрещаю, \
    запрещены, только, обязательно, обязан, обязана, обязаны, необходимо, нужно, избегай, избегайте, не \
    трогай, не трогайте, не трогать, не удаляй, не удалять, не меняй, не менять, не изменяй, не \
    изменять, ни в коем случае, не менее, не более, без";

/// Chinese and Japanese, which have no blanks between words.
const UNSPACED: &str = "\
    不要 不得 不能 不可 不许 不許 不准 禁止 严禁 嚴禁 切勿 请勿 請勿 必须 必須 务必 務必 一定要 只能 只用 仅 僅 始终 始終 总是 總是 永远 永遠 绝不 絕不 从不 避免 别动 别改 \
    别删 别碰 至少 最多 必ず 絶対 しないで 触らないで 使わないで ないでください てはいけ てはなら ではいけ ではなら なければなら なければいけ ないこと 常に のみ だけ 避けて 厳禁 \
    するな";

/// What binds with other words between.
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

/// What forbids when a clause begins with it, and what then follows where it only denies or answers.
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

/// What people do not write where they forbid something.
const STATES: &[&str] = &["was", "were", "found", "yet", "left", "i", "we"];

/// Most words of a clause that begins with a denial.
const MOST_DENIED: usize = 12;

/// What a sentence begins with whose later clauses may forbid by a mere `no`: `Use tabs, no spaces`.
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

/// Verbs that begin a German command, which `nicht` turns around.
const GERMAN_COMMANDS: &str = "\
    fass fasse fassen ändere ändert lösch lösche rühr rühre benutz benutze nutze verwende mach mache \
    schreib schreibe pushe committe nimm führe starte entferne überschreibe lass lasse geh gehe";

/// Returns whether somebody who says this sets a rule.
pub(crate) fn binds(sentence: &str) -> bool {
    if !sentence.is_ascii() && UNSPACED.split(' ').any(|mark| sentence.contains(mark)) {
        return true;
    }
    let small = small(sentence);
    let words: Vec<&str> = small.split_whitespace().filter(|word| *word != CLAUSE).collect();
    has_phrase(&words)
        || is_apart(&words)
        || is_german_command(&words)
        || small.split(CLAUSE).enumerate().any(|(at, clause)| is_denial(at, clause, &words))
}

/// Stands between clauses.
const CLAUSE: &str = "|";

/// The sentence in lower case; all that is neither letter, digit nor apostrophe is a blank or ends a clause.
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
    if small.contains(" n'") { small.replace(" n'", " ne ") } else { small }
}

fn has_phrase(words: &[&str]) -> bool {
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

fn stands(phrase: &[&str], words: &[&str]) -> bool {
    phrase.len() <= words.len()
        && phrase.iter().zip(words).all(|(wanted, word)| *wanted == word.trim_matches('\''))
}

fn is_apart(words: &[&str]) -> bool {
    APART.iter().any(|(first, then)| {
        let then: Vec<&str> = then.split(' ').collect();
        let from = words.iter().position(|word| word == first);
        from.is_some_and(|from| (from + 1..words.len()).any(|at| stands(&then, &words[at..])))
    })
}

fn is_german_command(words: &[&str]) -> bool {
    let words = if words.first() == Some(&"bitte") { &words[1..] } else { words };
    let turns = |word: &&str| matches!(*word, "nicht" | "nichts" | "kein" | "keine" | "keinen");
    words.first().is_some_and(|first| GERMAN_COMMANDS.split(' ').any(|command| command == *first))
        && words.iter().any(turns)
}

/// `No sudo`, and not `No problem`.
fn is_denial(at: usize, clause: &str, sentence: &[&str]) -> bool {
    let words: Vec<&str> = clause.split_whitespace().collect();
    let words = match words.first() {
        Some(&"please" | &"and" | &"et" | &"e" | &"и" | &"und") => &words[1..],
        _ => &words[..],
    };
    let [first, then, ..] = words else { return false };
    let may_come_later = !matches!(*first, "no" | "non" | "mai" | "pas");
    let leads = || sentence.first().is_some_and(|first| IMPERATIVES.contains(first));
    let denies = |(denials, answers): &(&[&str], &[&str])| denials.contains(first) && !answers.contains(then);
    DENIALS.iter().any(denies)
        && words.len() <= MOST_DENIED
        && (at == 0 || may_come_later || leads())
        && !words.iter().any(|word| STATES.contains(word))
}
