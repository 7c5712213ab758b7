//! Polite forms of a command: wishes of the speaker, and requests with a word of courtesy.
//!
//! "I'd like you to answer in German" and "Bitte auf Deutsch antworten" have no imperative. The word classes here are
//! closed, like those of the [`lexicon`](super::lexicon).

use std::collections::BTreeSet;
use std::sync::LazyLock;

use super::lexicon::EACH;
use super::mood::{CLAUSE, MAX_REQUEST_START, PhraseSet, has_phrase, is_function_word};
use super::subjects::subject_of;

/// Wishes that name what the assistant is to do, and preferences.
const WISHES: &str = "i want you to, i need you to, i'd like you to, i would like you to, i'd love you to, i expect you \
    to, i ask you to, i'd ask you to, i'd prefer, i would prefer, i'd rather you, i would rather you, we'd rather you, i prefer, i'd appreciate it if, i would appreciate it if, \
    we want you to, we'd like you to, we prefer, it is important that, it's important that, es ist wichtig dass, il est important que, es importante que, é importante que, è \
    importante che, важно чтобы, het is belangrijk dat, ważne żeby, det är viktigt att, ich möchte dass du, ich möchte dass sie, ich will dass du, ich will dass sie, \
    ich hätte gern dass du, ich wünsche mir dass du, ich bevorzuge, wir bevorzugen, mir wäre lieber, mir ist lieber, j'aimerais \
    que tu, j'aimerais que vous, je voudrais que tu, je voudrais que vous, je veux que tu, je veux que vous, je souhaite que tu, \
    je souhaite que vous, je préfère, je préférerais, nous préférons, quiero que, quisiera que, me gustaría que, necesito que, \
    prefiero, preferimos, quero que, queria que, gostaria que, preciso que, prefiro, preferimos, vorrei che, voglio che, mi \
    piacerebbe che, preferisco, preferirei, preferiamo, я хочу чтобы, хочу чтобы, я бы хотел чтобы, я бы хотела чтобы, мне \
    хотелось бы чтобы, хотелось бы чтобы, я предпочитаю, предпочитаю, ik wil dat je, ik wil dat u, ik wil graag dat je, ik wil \
    graag dat u, ik zou graag willen dat je, ik heb liever, ik verkies, chcę żebyś, chcę abyś, chciałbym żebyś, chciałabym \
    żebyś, chciałbym abyś, chciałabym abyś, wolę, wolałbym, wolałabym, jag vill att du, jag \
    vill att ni, jag skulle vilja att du, jag önskar att du, jag behöver att du, jag föredrar, я хочу щоб, хочу щоб, я б хотів щоб, \
    я б хотіла щоб, хотілося б щоб, надаю перевагу, tôi muốn bạn, mình muốn bạn, tôi cần bạn, tôi thích, saya ingin kamu, saya ingin \
    anda, saya mau kamu, aku ingin kamu, aku mau kamu, saya minta, saya harap kamu, saya lebih suka, أريد منك أن, أريدك أن, أود منك أن, \
    أود أن, أرجو أن, أفضل, मैं चाहता हूँ कि, मैं चाहती हूँ कि, मुझे पसंद है कि, senden istiyorum, tercih ederim";

/// Beginnings of wishes that are common in talk about anything: "I'd like a coffee". They are about the work only beside a
/// word for the model's answers.
const LOOSE_WISHES: &str = "i want, i need, i'd like, i would like, i'd rather, i would rather, we want, we'd like, it would \
    be nice if, it would be great if, it would be good if, it would be better if, it'd be nice if, it'd be great if, it'd be \
    good if, ich möchte, ich will, ich hätte gern, ich hätte gerne, wir möchten, es wäre schön wenn, es wäre gut wenn, es wäre \
    nett wenn, es wäre besser wenn, j'aimerais, je voudrais, je veux, ce serait bien si, ce serait bien que, ce serait mieux \
    si, ce serait mieux que, quiero, quisiera, me gustaría, sería bueno que, sería mejor que, sería bueno si, quero, gostaria \
    de, seria bom se, seria bom que, seria melhor se, vorrei, voglio, sarebbe bello se, sarebbe meglio se, было бы хорошо \
    если, хотелось бы, я хочу, ik wil, ik wil graag, ik zou graag, het zou fijn zijn als, het zou goed zijn als, chcę, \
    chciałbym, chciałabym, byłoby dobrze gdyby, byłoby miło gdyby, jag vill ha, jag skulle vilja ha, jag vill, det vore \
    bra om, det vore fint om, я хочу, хотілося б, було б добре якби, tôi muốn, mình muốn, saya ingin, saya mau, aku mau, akan bagus \
    kalau, أريد, أود, मुझे चाहिए";

/// Words of courtesy that make what they stand beside a request.
const PLEAS: &str = "please pls kindly bitte svp stp favor favore пожалуйста alsjeblieft alstublieft proszę \
    snälla vänligen lütfen ласка lòng tolong mohon harap رجاء رجاءً الرجاء فضلك يرجى कृपया";

/// Words of "s'il te plaît", "por favor" and "per favore", which are no courtesy alone.
const PLEA_PARTS: &str = "s'il te vous plaît plait por per будь vui من";

/// Returns whether words begin with a wish about the work.
pub(super) fn is_wish(words: &[&str]) -> bool {
    static WISH_SET: LazyLock<PhraseSet> = LazyLock::new(|| PhraseSet::of([WISHES].into_iter()));
    static LOOSE_SET: LazyLock<PhraseSet> = LazyLock::new(|| PhraseSet::of([LOOSE_WISHES].into_iter()));
    let start = &words[..words.len().min(MAX_REQUEST_START)];
    // "I want all replies in French" is about the work, and "I want to see Rome" is not.
    has_phrase(&WISH_SET, start)
        || has_phrase(&LOOSE_SET, start) && words.iter().any(|word| subject_of(word) == Some(ANSWERS))
        || is_wish_about_each(words, &LOOSE_SET)
}

/// Returns whether words wish something for each thing of a kind, or for none: "I want every function documented".
fn is_wish_about_each(words: &[&str], wishes: &PhraseSet) -> bool {
    static EACH_SET: LazyLock<BTreeSet<&'static str>> = LazyLock::new(|| EACH.split_whitespace().collect());
    (0..words.len().min(MAX_REQUEST_START)).any(|at| {
        let length = wishes.prefix_len(&words[at..]);
        // "I want all of it" is about one thing.
        matches!(words[at + length..], [each, thing, _, ..] if length > 0 && EACH_SET.contains(each) && !is_function_word(thing))
    })
}

/// The subject whose words name the model's answers.
pub(super) const ANSWERS: &str = "§style";

/// Returns whether words of a statement ask for something with a word of courtesy at the beginning or the end:
/// "Bitte auf Deutsch antworten", "Short answers, please". `words` have marks between clauses.
pub(super) fn is_plea(words: &[String]) -> bool {
    let clauses: Vec<&[String]> =
        words.split(|word| word == CLAUSE).filter(|clause| !clause.is_empty()).collect();
    let mut opening = clauses.first().copied().unwrap_or_default().iter().filter(|word| !is_plea_part(word));
    let opens = opening.next().is_some_and(|word| is_plea_word(word));
    let mut ends = clauses.first().into_iter().chain(clauses.last());
    let stands_apart = ends.any(|clause| clause.iter().all(|word| is_courtesy(word)));
    let closes = words.last().is_some_and(|word| is_plea_word(word));
    // "Yes, please" and "please do" ask for nothing by themselves.
    let content =
        words.iter().filter(|word| *word != CLAUSE && !is_function_word(word) && !is_courtesy(word));
    (opens || stands_apart || closes) && content.count() > 0
}

/// Returns whether a word stands for courtesy, alone or in a phrase.
fn is_courtesy(word: &str) -> bool {
    is_plea_word(word) || is_plea_part(word)
}

/// Returns whether a word is one of courtesy.
pub(super) fn is_plea_word(word: &str) -> bool {
    static PLEA_SET: LazyLock<BTreeSet<&'static str>> = LazyLock::new(|| PLEAS.split_whitespace().collect());
    PLEA_SET.contains(word)
}

/// Returns whether a word is a part of a phrase of courtesy.
pub(super) fn is_plea_part(word: &str) -> bool {
    PLEA_PARTS.split_whitespace().any(|part| part == word)
}
