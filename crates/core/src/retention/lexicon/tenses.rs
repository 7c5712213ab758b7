//! Words that show the tense and the subject of a clause.

/// Auxiliary and irregular verbs of the past.
pub(crate) const PAST_VERBS: &str = "was were wasn't weren't had hadn't did didn't took gave lost came went ran broke fell got said saw \
    found made sent kept told thought wrote built began became brought bought caught chose drove forgot froze grew held knew \
    led met paid rose spoke spent threw understood won woke went \
    war waren wurde wurden hatte hatten gab kam kamen ging gingen lief liefen fiel fielen brach fand fanden sah blieb ließ lag \
    lagen nahm schrieb stürzte machte sagte meinte zeigte brauchte dauerte verlor klappte enthielt nutzte benutzte schickte \
    konnte konnten musste mussten wollte antwortete \
    était étaient avait avaient fut furent fallait marchait voulait pouvait \
    fue fueron eran estaba estaban había habían hubo tenía tenían hizo hicieron dijo dijeron puso dio envió \
    foi foram eram estava estavam tinha tinham teve houve fez disse falhou perdeu respondeu \
    erano furono aveva avevano andava doveva \
    был была было были \
    werd werden hadden gaf gaven kwam kwamen liep namen nam viel vielen brak vond zag bleef stuurde mislukte deed deden \
    var hade blev fick gick kom gjorde \
    був була було \
    đã telah sudah كان كانت था थी थे";

/// Auxiliary and modal verbs of the present. A clause with one of them is no report.
pub(crate) const PRESENT_VERBS: &str = "is are be isn't aren't it's that's there's here's we're they're you're must shall should will \
    can cannot can't won't shouldn't mustn't \
    ist sind bin muss müssen soll sollen darf dürfen kann können wird gilt gelten beträgt heißt \
    est sont doit doivent c'est faut n'est suis sommes \
    está están debe deben hay \
    é são estão deve devem \
    è sono deve devono siamo \
    должен должна должно должны нужно можно надо \
    moet moeten mag mogen \
    jest są musi muszą \
    är ska måste";

/// Forms of "have", which make a report with a participle behind them.
pub(crate) const HAVE_VERBS: &str = "has have i've we've they've haven't hasn't hat haben habe habt hast heeft hebben heb hebt a ont avons ai \
    j'ai avez n'a n'ont ha han hemos he hanno ho abbiamo hai";

/// Words with an ending of the past that are no verbs of the past.
pub(crate) const NO_PAST_VERBS: &str = "need feed seed speed indeed embed shed red bed fed hundred kindred exceed proceed succeed bleed breed \
    id grade trade made-up shade fade blade facade parade upgrade downgrade decade \
    achte möchte rechte rechten dichte berichte geschichte gerichte nachrichte leichte schlechte gewichte \
    você thou you youth \
    sílaba java lava param \
    если или файл стол канал журнал портал раздел отдел предел материал сигнал терминал интервал оригинал филиал персонал \
    школа скала дела тела число дело тело мало тепло масло стекло село начало сначала хотели \
    cały mały stały biały całe jeśli czyli tabeli skali chwili szkoła stała mała biała cała";

/// Marks of the past in Chinese, Japanese and Korean.
pub(crate) const UNSPACED_PAST: &str =
    "昨天 上周 上个月 去年 之前的 曾经 曾經 昨日 先週 去年の 어제 지난주 작년 过了 過了";

/// Ends of statements about the past in Japanese and Korean.
pub(crate) const UNSPACED_PAST_ENDS: &str = "ました でした かった った いた えた けた れた せた した んだ 失败了 出错了 었다 았다 했다 었어 았어 했어 었습니다 았습니다 했습니다 었어요 았어요 했어요 됐어요";

/// Nouns of things that people number or report on, and that look like verbs at the beginning of a clause.
pub(crate) const NUMBERED_NOUNS: &str = "order orders query request report question issue ticket test build step run job task page \
    table row file log list note record entry point check plan result update release change import export upload \
    download backup answer call email message comment review commit merge branch patch deployment process package server \
    service user customer number line item part phase round batch case error warning index cache host port block figure \
    chapter section paragraph version option example exercise problem experiment trial sample group team invoice \
    frage bestellung abfrage anfrage bericht schritt aufgabe seite tabelle zeile fall lauf rechnung kapitel punkt fehler \
    commande requête demande rapport étape tâche facture pregunta pedido consulta informe paso tarea factura pergunta \
    relatório passo tarefa fatura domanda ordine richiesta rapporto passaggio fattura заказ вопрос отчёт запрос шаг задача \
    счёт vraag bestelling verzoek rapport stap taak factuur pytanie zamówienie zapytanie raport krok zadanie faktura \
    fråga beställning rapport steg";

/// Articles and numbers before the object of a verb.
pub(crate) const ARTICLES_AND_NUMBERS: &str = "a an the no its our my this that these those nothing all some one two three four five six seven eight nine ten twelve";
