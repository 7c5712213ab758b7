//! Word lists and stemmers of the languages that a search knows: function words, words of time, and forms of one
//! stem.
//!
//! Nothing here is stored. A query is read in its own language, and the index is searched for the spellings that the
//! index holds.

use rust_stemmers::{Algorithm, Stemmer};

/// A language with known function words and stems.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SearchLanguage {
    English,
    German,
    French,
    Spanish,
    Portuguese,
    Italian,
    Russian,
}

impl SearchLanguage {
    pub(super) const ALL: [Self; 7] = [
        Self::English,
        Self::German,
        Self::French,
        Self::Spanish,
        Self::Portuguese,
        Self::Italian,
        Self::Russian,
    ];

    /// Returns whether `word`, in lower case, joins other words and says nothing itself.
    pub(super) fn has_function_word(self, word: &str) -> bool {
        lists_word(self.function_words(), word)
    }

    /// Returns whether `word`, in lower case, asks for a time.
    pub(super) fn asks_for_time(self, word: &str) -> bool {
        let words = match self {
            Self::English => "when date",
            Self::German => "wann datum",
            Self::French => "quand date",
            Self::Spanish => "cuándo cuando fecha",
            Self::Portuguese => "quando data",
            Self::Italian => "quando data",
            Self::Russian => "когда дата",
        };
        lists_word(words, word)
    }

    /// Returns the words that tell a time, in lower case.
    pub(super) fn time_words(self) -> impl Iterator<Item = &'static str> {
        self.words_of_time().split_ascii_whitespace()
    }

    /// Returns the stemmer of the language: Snowball (Porter, 2001).
    pub(super) fn stemmer(self) -> Stemmer {
        Stemmer::create(match self {
            Self::English => Algorithm::English,
            Self::German => Algorithm::German,
            Self::French => Algorithm::French,
            Self::Spanish => Algorithm::Spanish,
            Self::Portuguese => Algorithm::Portuguese,
            Self::Italian => Algorithm::Italian,
            Self::Russian => Algorithm::Russian,
        })
    }

    fn function_words(self) -> &'static str {
        match self {
            Self::English => {
                "about above after again against ain all also am an and any are aren as at be because been before \
                 being below between both but by can cannot could couldn did didn do does doesn doing don down during \
                 each either ever few for from further had hadn has hasn have haven having he her here hers herself \
                 him himself his how if in into is isn it its itself just let ll may me might mine more most much \
                 must my myself neither no nor not of off on once one only or other our ours ourselves out over own \
                 re same shall she should shouldn so some such than that the their theirs them themselves then there \
                 these they this those through to too under until up upon us ve very was wasn we were weren what \
                 which while who whom whose why will with won would wouldn yet you your yours yourself yourselves \
                 when where whether"
            }
            Self::German => {
                "aber alle allem allen aller alles als also am an andere anderen auch auf aus bei beim bin bis bist da \
                 damit dann das dass dein deine dem den denn der des dich die dies diese diesem diesen dieser dieses \
                 dir doch dort du durch ein eine einem einen einer eines er es etwas euch euer für gegen habe haben \
                 hat hatte hatten hier hin hinter ich ihm ihn ihnen ihr ihre ihrem ihren ihrer im in ist ja jede jedem \
                 jeden jeder jedes jene kann kein keine keinem keinen keiner können man mein meine meinem meinen \
                 meiner mich mir mit muss nach nicht noch nun nur ob oder ohne sehr sein seine seinem seinen seiner \
                 sich sie sind so soll sollte sondern sonst über um und uns unser unsere unter vom von vor wann war \
                 waren warum was weil welche welchem welchen welcher welches wem wen wenn wer werde werden wie wieder \
                 will wir wird wo wohin woher wurde wurden würde zu zum zur zwar zwischen"
            }
            Self::French => {
                "ai au aucun aussi autre aux avait avec avoir avons avez ce ceci cela celle celui ces cet cette ceux \
                 chez comme comment dans de des donc dont du elle elles en encore es est et étaient était été être eu \
                 eux fait fut ici il ils je jusque la là le les leur leurs lors lui ma mais me même mes moi mon ne ni \
                 nos notre nous on ont ou où par pas pendant peu plus pour pourquoi puis qu quand que quel quelle \
                 quelles quels qui quoi sa sans se sera ses si soit son sont sous sur suis ta te tes toi ton tous \
                 tout toute toutes très tu un une va vers vos votre vous"
            }
            Self::Spanish => {
                "al algo algunas algunos ante antes aquel aquella aquí así aunque cada como cómo con contra cual cuál \
                 cuales cuáles cuando cuándo de del desde donde dónde dos durante el él ella ellas ellos en entre era \
                 eran eres es esa ese eso esos esta está están estaba este esto estos fue fueron ha había han hasta \
                 hay he la las le les lo los más me mi mis mucho muy nada ni no nos nosotros nuestra nuestro otra \
                 otro para pero poco por porque que qué quien quién quienes se sea ser si sí sido sin sobre son soy su \
                 sus también tanto te tiene tienen todo todos tu tú tus un una unas uno unos usted ustedes ya yo"
            }
            Self::Portuguese => {
                "ao aos aquela aquele aquilo as até com como da das de dela dele deles depois do dos ela elas ele eles \
                 em entre era eram essa esse esta está estão estava este eu foi foram há isso isto já lhe mais mas me \
                 mesmo meu meus minha minhas muito na não nas nem no nos nós nossa nosso num numa onde os ou para \
                 pela pelas pelo pelos por porque porquê qual quais quando que quê quem se sem ser será seu seus só \
                 somos são sua suas também te tem têm tenho ter teu teve tinha toda todos tu tua um uma umas uns você \
                 vocês"
            }
            Self::Italian => {
                "agli ai al alla alle allo anche avere aveva avevano che chi ci come con contro cosa cui da dagli dai \
                 dal dalla dalle dei degli del della delle dello di dopo dove due ed era erano essere fra fu gli ha \
                 hai hanno ho il in io la le lei li lo loro lui ma mi mia mie miei mio molto ne negli nei nel nella \
                 nelle nello noi non nostra nostro nostri ogni per perché però più poi prima qual quale quali quando \
                 quanto quella quelle quelli quello questa queste questi questo qui se sei senza si sia siamo sono \
                 sotto sta stata stato su sua sue sugli sui sul sulla suo suoi tra tu tua tuo tutti tutto un una uno \
                 vi voi vostra vostro"
            }
            Self::Russian => {
                "без более бы был была были было быть вам вас ваш ваша ваши весь во вот все всё всего всех вы где да \
                 даже для до его ее её если есть еще ещё же за здесь из или им их как какая какие какой ко когда кого \
                 которая которые который кто куда ли либо мне мной мои мой моя мы на над нам нас наш наша наши не \
                 него нее неё нет ни них но ну об один он она они оно от откуда по под почему при про раз с сам себя \
                 со так также такой там тебе тебя тем то тоже только том тот ту ты уже чего чей чем через что чтобы \
                 эта эти это этого этой этом этот"
            }
        }
    }

    fn words_of_time(self) -> &'static str {
        match self {
            Self::English => {
                "yesterday today tomorrow tonight ago last next week weeks weekend weekends month months year years \
                 day days morning evening afternoon night monday tuesday wednesday thursday friday saturday sunday \
                 january february march april may june july august september october november december spring summer \
                 autumn winter recently since"
            }
            Self::German => {
                "gestern heute morgen vorgestern übermorgen vor seit letzte letzten letzter letztes nächste nächsten \
                 nächster nächstes woche wochen wochenende monat monate monaten jahr jahre jahren tag tage tagen \
                 abend nacht montag dienstag mittwoch donnerstag freitag samstag sonntag januar februar märz april \
                 mai juni juli august september oktober november dezember frühling sommer herbst winter neulich"
            }
            Self::French => {
                "hier demain demain avant depuis dernier dernière prochain prochaine semaine semaines mois an ans \
                 année années jour jours matin soir nuit lundi mardi mercredi jeudi vendredi samedi dimanche janvier \
                 février mars avril mai juin juillet août septembre octobre novembre décembre printemps été automne \
                 hiver récemment"
            }
            Self::Spanish => {
                "ayer hoy mañana anoche hace desde pasado pasada próximo próxima semana semanas mes meses año años \
                 día días tarde noche lunes martes miércoles jueves viernes sábado domingo enero febrero marzo abril \
                 mayo junio julio agosto septiembre octubre noviembre diciembre primavera verano otoño invierno"
            }
            Self::Portuguese => {
                "ontem hoje amanhã desde passado passada próximo próxima semana semanas mês meses ano anos dia dias \
                 manhã tarde noite segunda terça quarta quinta sexta sábado domingo janeiro fevereiro março abril \
                 maio junho julho agosto setembro outubro novembro dezembro primavera verão outono inverno"
            }
            Self::Italian => {
                "ieri oggi domani fa scorso scorsa prossimo prossima settimana settimane mese mesi anno anni giorno \
                 giorni mattina sera notte lunedì martedì mercoledì giovedì venerdì sabato domenica gennaio febbraio \
                 marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre primavera estate \
                 autunno inverno"
            }
            Self::Russian => {
                "вчера сегодня завтра позавчера назад прошлый прошлой прошлом прошлую следующий следующей неделя \
                 неделю неделе недели месяц месяца месяце год года году лет день дня дней утром вечером ночью \
                 понедельник вторник среду четверг пятницу субботу воскресенье января февраля марта апреля мая июня \
                 июля августа сентября октября ноября декабря весной летом осенью зимой недавно"
            }
        }
    }
}

/// Returns the languages of a query: the languages that know most of its words as function words. A query without
/// function words may be in any language.
pub(super) fn languages_of<'w>(words: impl Iterator<Item = &'w str> + Clone) -> Vec<SearchLanguage> {
    let counts = SearchLanguage::ALL
        .map(|language| words.clone().filter(|word| language.has_function_word(word)).count());
    let most = counts.iter().max();
    let known = SearchLanguage::ALL.into_iter().zip(&counts).filter(|(_, count)| Some(*count) == most);
    known.map(|(language, _)| language).collect()
}

fn lists_word(list: &str, word: &str) -> bool {
    // Only words of queries are looked up, which are few: a table would not pay.
    list.split_ascii_whitespace().any(|listed| listed == word)
}
