//! Closed word classes by language, which show the mood and the scope of a sentence without a grammar.
//!
//! Nouns and verbs are open classes and are never listed. Pronouns, articles, auxiliaries, prepositions and
//! conjunctions are few. A sentence that begins with none of them and is no question mostly begins with an imperative.

mod changes;
mod languages;
mod moods;
mod tenses;

pub(crate) use changes::*;
pub(crate) use moods::*;
pub(crate) use tenses::*;

/// The closed word classes of one language. Entries are in lower case, separated by blanks or (phrases) by commas.
pub(crate) struct LanguageLexicon {
    /// Words that begin statements and exclamations but no command: pronouns, articles, prepositions, interjections.
    pub(crate) openers: &'static str,
    /// Forms of auxiliary and modal verbs. As the second word of a clause they show that the first word is its subject.
    pub(crate) auxiliaries: &'static str,
    /// Words that open a subordinate clause, after which a command may follow.
    pub(crate) subordinators: &'static str,
    /// Words that may stand before an imperative.
    pub(crate) lead_ins: &'static str,
    /// Phrases for the time or the frequency with which an order holds.
    pub(crate) scope: &'static str,
    /// Forms of the first person as a subject.
    pub(crate) first_person: &'static str,
    /// Forms that address the assistant.
    pub(crate) second_person: &'static str,
    /// Phrases that announce a change of an earlier statement.
    pub(crate) change_cues: &'static str,
}

/// The word classes of all supported languages with blanks between words.
pub(crate) const LEXICONS: &[&LanguageLexicon] = &[
    &ENGLISH,
    &GERMAN,
    &FRENCH,
    &SPANISH,
    &PORTUGUESE,
    &ITALIAN,
    &RUSSIAN,
    &DUTCH,
    &POLISH,
    &languages::SWEDISH,
    &languages::TURKISH,
    &languages::UKRAINIAN,
    &languages::VIETNAMESE,
    &languages::INDONESIAN,
    &languages::ARABIC,
    &languages::HINDI,
];

// Words may be in several classes: "every" opens a clause and is a scope, "always" leads a command and is a scope.
const ENGLISH: LanguageLexicon = LanguageLexicon {
    openers: "a an the i i'm i've i'd i'll im ive we we're we've we'd we'll my our mine it it's its that that's this \
        these those he she they they're his her their there there's here here's who who's what what's which why how \
        where is are was were am be do does did can could would will shall should may might must has have had so but \
        and or because since although though as at in on of for from to with about like well oh hey hi hello thanks \
        thank yes yeah yep nope ok okay sure great wow haha hmm sorry actually also just really maybe perhaps some \
        many most more one two both another other such your you you're you've you'd sounds good nice cool interesting \
        by to into after during today yesterday tomorrow now then still yet very too not nothing everything something \
        anything somebody someone everyone nobody none",
    auxiliaries: "is are was were am be been has have had do does did can could would will shall should may might must \
        isn't aren't wasn't weren't doesn't didn't won't wouldn't",
    subordinators: "when whenever before after if unless until once while where wherever as every each for in during \
        whether",
    lead_ins: "please and also then so just always never kindly next first finally but instead remember only now ok \
        okay",
    scope: "every, each, always, never, ever, whenever, wherever, when you, when i, before you, after you, while you, \
        if you, if you're, when you're, if i, from now on, from here on, from today, starting today, starting now, as of today, as of now, effective immediately, until, unless, any time, anytime, only, in future, in the future, \
        going forward, throughout, by default, at all times, at the end of, at the start of, at the beginning of, all \
        your, all my, all of your, any of, no longer, instead of, rather than, under no circumstances, without my, as \
        long as, for the rest of, for all, in all, no matter, not even, at least, at most, no more than, all times",
    first_person: "i i'm i've i'd i'll im ive we we're we've we'd we'll my our mine me us",
    second_person: "you your yours yourself you're you'll you've you'd",
    change_cues: "now, no longer, not any more, not anymore, instead, instead of, rather than, from now on, actually, \
        update, correction, changed, changes, change, moved, switch, switched, switching, replace, replaces, replaced, \
        upgraded, upgrading, downgraded, migrated, migrating, transitioned, converted, bumped, swapped, reverted, superseded, \
        deprecated, ditched, is now, are now, it's now, that's now, will now be, anymore, any longer, from today, from today \
        on, from tomorrow, starting today, starting now, effective immediately, as of now, rebased, forget, scratch that, never mind, final answer, revised, revise, rotated, retired, renamed, new, after all, on \
        second thought, i would rather, i'd rather, wait, make that, as of today, latest, was wrong, from here on",
};

const GERMAN: LanguageLexicon = LanguageLexicon {
    openers: "der die das den dem des ein eine einen einem einer ich wir mein meine meinen unser unsere es er sie ihr \
        man dies diese dieser dieses jener wer was welche welcher welches warum wieso wie wo ist sind war waren bin \
        hat habe haben hatte hatten kann könnte können könnten würde würden wird werden soll sollte darf und oder aber \
        denn weil da dass obwohl an auf aus bei mit nach von vor zu zum zur über unter ja nein doch danke hallo ok \
        okay gut super toll leider eigentlich vielleicht auch noch schon sehr nicht du dein deine gestern heute",
    auxiliaries: "ist sind war waren bin bist hat habe haben hatte hatten kann könnte können könnten würde würden wird \
        werden soll sollte muss musste darf",
    subordinators: "wenn falls sobald bevor ehe nachdem solange bis sofern immer jedes jedesmal bei während",
    lead_ins: "bitte und auch dann immer nie niemals stets nur also künftig zukünftig stattdessen ab",
    scope: "jede, jedes, jeden, jedem, jeder, immer, stets, nie, niemals, jedes mal, jedesmal, wenn du, wenn ich, wann \
        immer, bevor du, ehe du, nachdem du, solange, bis ich, ab jetzt, ab sofort, von nun an, von jetzt an, von heute an, künftig, \
        zukünftig, in zukunft, ausschließlich, nur, grundsätzlich, standardmäßig, am ende, am anfang, alle deine, \
        anstatt, statt, unter keinen umständen, ohne meine, auf keinen fall, sobald du",
    first_person: "ich wir mein meine meinen unser unsere mich mir uns",
    second_person: "du dir dich dein deine deinen deinem deiner ihr euch sie ihre ihnen",
    change_cues: "jetzt, nun, nicht mehr, stattdessen, statt, anstatt, ab jetzt, ab sofort, doch, korrektur, geändert, \
        ändern, neu, neue, neuer, neues, verschoben, gewechselt, umgestellt, umgestiegen, umgezogen, aktualisiert, migriert, \
        abgelöst, hinfällig, ist jetzt, sind jetzt, ist nun, sind nun, heißt jetzt, nicht länger, ab heute, ab morgen, \
        ersetzt, vergiss, von nun an, lieber, künftig, war falsch, nicht richtig",
};

const FRENCH: LanguageLexicon = LanguageLexicon {
    openers: "le la les l' un une des du de je j' j'ai nous mon ma mes notre nos il elle ils elles on ce c' c'est cet \
        cette ces ça qui que quoi quel quelle pourquoi comment où est sont était suis ai as a avons avez ont peut \
        peux pourrait pouvez et ou mais car donc parce comme à au aux en dans sur sous par pour avec oui non merci \
        bonjour salut ok bien super peut-être aussi encore très tu vous ton ta tes votre vos hier aujourd'hui",
    auxiliaries: "est sont était étaient suis es ai as a avons avez ont avait peut peux pouvez peuvent va vas vont \
        allons sera serait doit",
    subordinators: "quand lorsque chaque si avant après dès tant jusqu' jusqu'à dans pour lors à",
    lead_ins: "s'il te plaît vous plait veuillez merci de et aussi puis toujours jamais ne n' alors désormais \
        dorénavant",
    scope: "chaque, toujours, jamais, à chaque, chaque fois, quand tu, quand vous, quand je, lorsque, avant de, avant \
        que, après avoir, désormais, dorénavant, à partir de maintenant, à l'avenir, tant que, jusqu'à ce que, \
        uniquement, seulement, exclusivement, toutes tes, toutes vos, tous tes, tous vos, à la fin de, au début de, en \
        aucun cas, sous aucun prétexte, sans mon, par défaut, plutôt que, au lieu de, ne plus, si tu, si vous",
    first_person: "je j' j'ai nous mon ma mes notre nos me m' moi",
    second_person: "tu te t' toi ton ta tes vous votre vos",
    change_cues: "maintenant, plus, désormais, dorénavant, plutôt, au lieu de, au lieu du, au lieu des, finalement, en fait, correction, changé, \
        changement, changer, déplacé, remplacé, remplacée, migré, migrés, passé à, passés à, passés sur, passés de, passé de, mis à jour, est \
        maintenant, sont maintenant, c'est maintenant, n'est plus, ne sont plus, à partir d'aujourd'hui, dès aujourd'hui, dès \
        maintenant, oublie, oubliez, nouveau, nouvelle, à partir de maintenant",
};

const SPANISH: LanguageLexicon = LanguageLexicon {
    openers: "el la los las un una unos unas yo mi mis nuestro nuestra él ella ellos ellas ello esto eso este esta estos \
        estas ese esa quién qué cuál por porque cómo dónde es son era fue soy está están estoy he ha hemos han tengo \
        puede puedes podría y o pero pues que de del al a en con sobre para sí gracias hola ok bien genial quizás \
        también aún muy tú usted ustedes tu tus su sus me se lo le ayer hoy",
    auxiliaries: "es son era eran fue fueron está están estaba he ha has hemos han había puede puedes pueden va van será \
        sería debe",
    subordinators: "cuando siempre cada si antes después mientras hasta a al en para",
    lead_ins: "por favor y también luego siempre nunca jamás no solo sólo ahora entonces",
    scope: "cada, siempre, nunca, jamás, cada vez, siempre que, cuando te, cuando me, cuando des, cuando hagas, antes de, \
        antes de que, después de, a partir de ahora, de ahora en adelante, en adelante, en el futuro, mientras, hasta \
        que, únicamente, solamente, solo, sólo, exclusivamente, todas tus, todos tus, al final de, al principio de, en \
        ningún caso, bajo ningún concepto, sin mi, por defecto, en lugar de, en vez de, ya no",
    first_person: "yo mi mis nuestro nuestra me nos he tengo estoy soy quiero",
    second_person: "tú te ti tu tus usted ustedes su sus",
    change_cues: "ahora, ya no, en lugar de, en lugar del, en vez de, en vez del, mejor, corrección, cambiado, cambio, cambia, movido, reemplaza, \
        reemplazado, migrado, migramos, pasamos a, hemos pasado a, pasamos de, hemos pasado de, actualizado, actualizamos, cambiamos, es ahora, ahora es, \
        ahora son, desde hoy, desde ahora, a partir de hoy, olvida, olvide, nuevo, nueva, a partir de ahora, de ahora en \
        adelante, en realidad",
};

const PORTUGUESE: LanguageLexicon = LanguageLexicon {
    openers: "o a os as um uma uns umas eu meu minha meus minhas nosso nossa ele ela eles elas isto isso este esta esse \
        essa quem que qual por porque como onde é são era foi sou está estão estou tenho tem pode podes poderia e ou \
        mas pois de do da dos das em no na nos nas com sobre para sim obrigado obrigada olá ok bem ótimo talvez também \
        ainda muito você vocês tu teu tua seu sua ontem hoje",
    auxiliaries: "é são era eram foi foram está estão estava tem têm tinha pode podem vai vão será seria deve",
    subordinators: "quando sempre cada se antes depois enquanto até ao em para",
    lead_ins: "por favor e também então sempre nunca jamais não só apenas agora",
    scope: "cada, sempre, nunca, jamais, toda vez, sempre que, quando você, antes de, depois de, a partir de agora, de \
        agora em diante, daqui em diante, no futuro, enquanto, até que, unicamente, somente, apenas, exclusivamente, \
        todas as suas, todos os seus, no final de, no início de, em hipótese alguma, em caso algum, sem minha, por \
        padrão, em vez de, ao invés de",
    first_person: "eu meu minha meus minhas nosso nossa me nós tenho estou sou quero",
    second_person: "você vocês tu te teu tua teus tuas seu sua seus suas",
    change_cues: "agora, não mais, em vez de, ao invés de, melhor, correção, mudou, mudança, alterado, movido, substitui, \
        substituído, migrado, migramos, passamos para, passámos para, passamos de, passamos do, atualizado, atualizamos, mudamos, mudámos, já não, agora \
        é, agora são, é agora, a partir de hoje, desde hoje, \
        esqueça, esquece, novo, nova, a partir de agora, de agora em diante, na verdade",
};

const ITALIAN: LanguageLexicon = LanguageLexicon {
    openers: "il lo la i gli le l' un uno una io mio mia miei mie nostro nostra lui lei loro esso questo questa questi \
        queste quello quella chi che cosa quale perché come dove è sono era ho hai ha abbiamo hanno può puoi potrebbe e \
        o ma quindi di del della dei delle da dal in nel nella con su per sì grazie ciao ok bene ottimo forse anche \
        ancora molto tu voi tuo tua suo sua ieri oggi",
    auxiliaries: "è sono era erano ho hai ha abbiamo avete hanno aveva può puoi possono va vanno sarà sarebbe deve",
    subordinators: "quando ogni se prima dopo finché mentre appena a al in per",
    lead_ins: "per favore e anche poi sempre mai non solo ora allora",
    scope: "ogni, sempre, mai, ogni volta, quando tu, quando mi, prima di, dopo aver, da ora in poi, d'ora in poi, d'ora \
        in avanti, in futuro, finché, unicamente, soltanto, solamente, solo, esclusivamente, tutte le tue, tutti i \
        tuoi, alla fine di, all'inizio di, in nessun caso, per nessun motivo, senza il mio, invece di, al posto di",
    first_person: "io mio mia miei mie nostro nostra mi noi ho sono voglio",
    second_person: "tu ti te tuo tua tuoi tue voi vi vostro vostra lei suo sua",
    change_cues: "ora, adesso, non più, invece, invece di, al posto di, meglio, correzione, cambiato, cambio, spostato, \
        migrato, migrati, passati a, passati al, passati da, siamo passati, aggiornato, aggiornati, è ora, ora è, adesso è, ora sono, da \
        oggi, a partire da oggi, a partire da ora, \
        sostituisce, dimentica, nuovo, nuova, da ora in poi, d'ora in poi, in realtà",
};

const RUSSIAN: LanguageLexicon = LanguageLexicon {
    openers: "я мы мой моя моё мои наш наша он она оно они это этот эта эти тот та те кто что какой какая какие почему \
        как где есть был была были у в на с со к по о об из от до за над под при для и а но или потому да нет спасибо \
        привет ок хорошо отлично возможно может также ещё очень ты вы твой ваш вчера сегодня мне меня нам нас",
    auxiliaries: "есть был была было были буду будет будут может могу можно",
    subordinators: "когда если прежде перед после пока каждый каждое каждую всякий при в для",
    lead_ins: "пожалуйста и также потом всегда никогда не только теперь впредь отныне",
    scope: "каждый, каждое, каждую, каждой, каждом, каждого, всегда, никогда, каждый раз, всякий раз, когда ты, когда вы, \
        если ты, прежде чем, перед тем как, перед тем, после того как, с этого момента, отныне, впредь, в дальнейшем, \
        теперь, пока, до тех пор, только, исключительно, все твои, все ваши, всех ответах, в конце, в начале, ни в коем \
        случае, без моего, по умолчанию, вместо",
    first_person: "я мы мой моя моё мои наш наша мне меня нам нас",
    second_person: "ты тебя тебе твой твоя твои вы вас вам ваш ваша ваши",
    change_cues: "теперь, больше не, вместо, лучше, исправление, изменил, изменили, изменилось, изменить, перенесли, \
        перешли на, перешли с, мигрировали, обновили, обновились, переехали, сменили, поменяли, заменили, с сегодняшнего дня, \
        перенесён, заменить, забудь, забудьте, новый, новая, новое, отныне, с этого момента, на самом деле",
};

const DUTCH: LanguageLexicon = LanguageLexicon {
    openers: "de het een ik wij we mijn ons onze hij zij ze dit dat deze die wie wat welke waarom hoe waar is zijn was \
        waren ben heb heeft hebben kan kunnen zou zal en of maar want omdat aan op uit bij met na van voor naar over ja \
        nee dank bedankt hallo ok goed misschien ook nog zeer jij je jouw u uw",
    auxiliaries: "is zijn was waren ben heb heeft hebben had kan kunnen zou zal zullen moet moest mag",
    subordinators: "als wanneer zodra voordat nadat zolang tot elke bij",
    lead_ins: "alsjeblieft en ook dan altijd nooit alleen voortaan",
    scope: "elke, elk, iedere, ieder, altijd, nooit, telkens, wanneer je, als je, voordat je, nadat je, zolang, totdat, \
        vanaf nu, voortaan, in de toekomst, uitsluitend, alleen, aan het einde, aan het begin, onder geen beding, in \
        plaats van, zonder mijn",
    first_person: "ik wij we mijn ons onze mij me",
    second_person: "jij je jouw u uw jullie",
    change_cues: "nu, niet meer, in plaats van, voortaan, vanaf nu, toch, correctie, gewijzigd, veranderd, nieuw, nieuwe, \
        overgestapt, gemigreerd, bijgewerkt, geüpgraded, verhuisd, vervangen, gewisseld, is nu, zijn nu, niet langer, vanaf \
        vandaag, verplaatst, vervangt, vergeet, liever",
};

const POLISH: LanguageLexicon = LanguageLexicon {
    openers: "ja my mój moja moje nasz nasza on ona ono oni to ten ta te kto co jaki jaka dlaczego jak gdzie jest są był \
        była było w na z ze do od po o u i a ale lub bo tak nie dzięki cześć ok dobrze może także jeszcze bardzo ty wy \
        twój wasz mam mi mnie",
    auxiliaries: "jest są był była było byli może mogę można będzie",
    subordinators: "kiedy gdy jeśli zanim przed po dopóki każdy każde każdą przy dla",
    lead_ins: "proszę i także potem zawsze nigdy nie tylko teraz odtąd",
    scope: "każdy, każde, każdą, każdej, każdym, zawsze, nigdy, za każdym razem, kiedy, gdy, zanim, od teraz, odtąd, w \
        przyszłości, dopóki, tylko, wyłącznie, na końcu, na początku, w żadnym wypadku, bez mojej, zamiast, domyślnie",
    first_person: "ja my mój moja moje nasz nasza mam mi mnie nam nas",
    second_person: "ty ciebie ci twój twoja twoje wy was wam wasz",
    change_cues: "teraz, już nie, zamiast, raczej, poprawka, zmiana, zmieniono, nowy, nowa, nowe, przeniesiono, \
        przeszliśmy na, przeszliśmy z, zmigrowaliśmy, zaktualizowaliśmy, przenieśliśmy, zmieniliśmy, zastąpiliśmy, jest teraz, teraz jest, \
        teraz to, od dziś, od dzisiaj, zapomnij, \
        od teraz, odtąd",
};

/// Words that deny wherever they stand in a clause.
pub(crate) const NEGATIONS: &str = "never not don't dont doesn't can't cannot mustn't shouldn't won't nobody nie niemals nicht kein keine \
    keinen keinem keiner ne n' jamais nunca jamás não nem non никогда не нельзя нет nooit niet geen nigdy \
    inte aldrig asla değil ніколи нельзя không đừng jangan tidak لا لن नहीं मत न";

/// Words that deny at the beginning of a statement. Within one they may belong to a noun: "answers with no dashes".
pub(crate) const OPENING_NEGATIONS: &str =
    "no without avoid pas sin sem mai niente nessun nessuno nessuna без bez inga ingen inget utan жодних";

/// Prepositions whose phrase limits an order to a part of the work: "to customers", "in the report".
pub(crate) const QUALIFYING_PREPOSITIONS: &str = "to for about in on für im auf bei zu zur zum pour dans sur à aux chez para en sobre su nel nella \
    em для в на к voor op aan over dla w till";

/// Prepositions whose phrase tells which one of its kind a thing is: "the deadline for the report".
pub(crate) const KIND_PREPOSITIONS: &str = "for of für von pour de para per di для voor van dla";

/// Articles and possessives before a known thing.
pub(crate) const DEFINITE_ARTICLES: &str = "the our my this that der die das den dem unser unsere unseren mein meine le la les notre mon ma el los \
    las nuestro nuestra mi il lo gli i nostro nostra o os as nosso nossa het de ons onze mijn";

/// Conjunctions whose clause says when an order holds.
pub(crate) const QUALIFYING_CONJUNCTIONS: &str = "before after when whenever if unless until while bevor wenn falls sobald nachdem solange quand \
    lorsque avant après si cuando antes después hasta quando prima dopo finché antes depois когда если прежде после \
    als wanneer voordat nadat kiedy gdy jeśli zanim po";

/// Words in a phrase that limit nothing.
pub(crate) const UNQUALIFYING_WORDS: &str = "time times zone style tone unit units format general partir ahora adelante agora diante avanti poi \
    maintenant l'avenir zukunft future \
    again wieder novamente nuovamente снова опять weer opnieuw znowu ponownie igen tekrar знову";

/// Words before a number that make the number a value: limits and equality.
pub(crate) const LIMIT_WORDS: &str = "is are was be than most least under over below above within exactly limit max maximum min minimum cap \
    ceiling budget timeout every each to until ist sind beträgt auf unter über höchstens mindestens maximal alle jede \
    est sont moins plus sous à es son hasta menos más máximo mínimo é são até mais è sono entro massimo meno più до не \
    более менее hoogstens minstens onder jest do";

/// Units behind a number, which make the number a value.
pub(crate) const NUMBER_UNITS: &str = "percent euro euros dollar dollars usd eur chf gbp pounds francs word words sentence sentences line lines char \
    chars character characters token tokens byte bytes kb mb gb ms second seconds minute minutes hour hours day days week \
    weeks month months year years km cm mm mg kg times items bullets paragraphs spaces people colours colors wörter \
    worte wörtern worten zeilen sätze sätzen zeichen sekunden minuten stunden tage tagen wochen prozent franken mots lignes \
    phrases secondes heures jours semaines palabras líneas frases segundos minutos horas días semanas palavras linhas \
    dias parole righe frasi secondi minuti ore giorni слов слова строк минут секунд часов дней рублей woorden regels \
    dagen uren słów dni godzin";

/// Words of messages that only say that the work goes on.
pub(crate) const SLIGHT_WORDS: &str = "\
    a again ahead all alright and begin carry continue cool do fine go good great hello hey hi it just \
    keep let let's lets me more move next nice no now number of ok okay on one part perfect please \
    proceed resume right round s so start step sure task thank thanks that the then this to turn us well \
    with work working y yeah yep yes you going done bitte danke gut ja mach nächste nächster nächsten \
    schritt weiter continuez d'accord étape merci oui suite suivante continúa continua gracias paso sí \
    sigue siguiente vale avanti bene grazie passo sì obrigado próximo sim да дальше продолжай спасибо \
    хорошо шаг 继续 好 好的 是 是的 下一步 続けて はい 次";
