//! Reports and complaints about the past, which replace nothing, and statements that do replace an earlier one.

use super::pairs::later_of;

/// Reports and complaints behind an order or a fact.
const REPORTS: &[(&str, &str)] = &[
    ("Never deploy on Friday.", "We deployed on Friday instead, it was bad."),
    ("All dates must be written as YYYY-MM-DD.", "The dates were written in a strange way after the update."),
    ("We build the tool Zebra42.", "The build was slow after the update."),
    ("Our server runs on port 8080.", "The server returned an old certificate after the update."),
    ("Use the staging database for tests.", "My colleague used the production database instead."),
    ("Keep the log level at info.", "The log level was wrong after the change."),
    ("The deadline is Friday.", "The last deadline was Monday, and we missed it."),
    ("Never call the billing API.", "The new intern called the billing API yesterday."),
    ("Schreib alle Datumsangaben als YYYY-MM-DD.", "Die Datumsangaben waren nach dem Update falsch."),
    ("Nie am Freitag deployen.", "Wir haben stattdessen am Freitag deployt, das war schlecht."),
    ("Der Server läuft auf Port 8080.", "Der Server lieferte nach der Änderung ein altes Zertifikat."),
    ("Ne déploie jamais le vendredi.", "On a déployé le vendredi finalement, c'était mauvais."),
    ("Notre serveur utilise le port 8080.", "Le nouveau serveur a renvoyé un ancien certificat."),
    ("El servidor usa el puerto 8080.", "El servidor nuevo devolvió un certificado antiguo."),
    ("Nunca despliegues en viernes.", "El equipo desplegó en viernes en vez de esperar."),
    ("Никогда не деплой в пятницу.", "Мы вместо этого задеплоили в пятницу, было плохо."),
    ("Наш сервер работает на порту 8080.", "Новый сервер вчера вернул старый сертификат."),
    ("不要在周五部署。", "更新之后周五的部署失败了。"),
    ("我们的服务器用8080端口。", "更新后服务器返回了旧证书。"),
    ("金曜日にデプロイしないでください。", "代わりに金曜日にデプロイしたら失敗しました。"),
    ("Il server usa la porta 8080.", "Il nuovo server ha restituito un certificato vecchio."),
    ("Nigdy nie wdrażaj w piątek.", "Zamiast tego wdrożyliśmy w piątek i było źle."),
    ("The report has 12 pages.", "The report had 14 pages last week."),
    ("Answer in German.", "The support team answered in French again."),
    ("The build runs on Node 18.", "The build is slow since the update."),
];

/// More of them, written before the rules and run only after them.
const OTHER_REPORTS: &[(&str, &str)] = &[
    ("Always run the linter before a commit.", "Bob committed without the linter instead."),
    ("The API key lives in vault/prod.", "The API key leaked from the new vault last month."),
    ("Put the tests in the folder spec.", "The tests in the folder spec failed since the latest change."),
    ("Our budget is 500 euros.", "The budget was 400 euros in the old plan."),
    ("Use tabs for indentation.", "The formatter replaced half of the tabs, which broke the indentation."),
    ("Send invoices to Anna.", "We sent the invoices to Carl instead and nobody noticed."),
    ("Never restart the cluster at noon.", "Someone actually restarted the cluster at noon."),
    ("The parser accepts UTF-8.", "The parser lost all umlauts after the switch."),
    ("Antworte immer auf Deutsch.", "Der Kollege antwortete stattdessen auf Englisch."),
    ("Unser Budget beträgt 500 Euro.", "Das Budget lag letztes Jahr bei 300 Euro."),
    ("Fass den Ordner legacy nicht an.", "Jemand hat den Ordner legacy doch angefasst."),
    ("Réponds toujours en français.", "Le collègue a répondu en anglais au lieu du français."),
    ("Le budget est de 500 euros.", "Le budget était de 300 euros dans l'ancien plan."),
    ("La copia de seguridad se hace el lunes.", "La copia de seguridad falló el lunes después del cambio."),
    ("Responde siempre en español.", "El nuevo compañero respondió en inglés."),
    ("Отчёт отправляй Анне.", "Отчёт вчера отправили Ивану вместо Анны."),
    ("Бюджет 500 евро.", "Бюджет был 300 евро в старом плане."),
    ("请用中文回答。", "新同事昨天用英文回答了客户。"),
    ("预算是500欧元。", "去年的预算是300欧元，后来变更过。"),
    ("サーバーはポート8080で動いています。", "更新の後、サーバーが古い証明書を返しました。"),
    ("Rispondi sempre in italiano.", "Il collega ha risposto in inglese invece."),
    ("Raport wysyłaj do Anny.", "Nowy kolega wysłał raport do Piotra."),
    ("Stuur het rapport naar Anna.", "Mijn collega stuurde het rapport in plaats daarvan naar Piet."),
    ("Write the tests in pytest.", "I wrote the tests in unittest instead of pytest last year."),
];

/// Statements that replace an earlier one.
const REPLACEMENTS: &[(&str, &str)] = &[
    ("Our server runs on port 8080.", "Our server runs on port 9090 now."),
    ("The deadline is Friday.", "We moved the deadline to Monday."),
    ("Use Python 3.11.", "We have upgraded to Python 3.12."),
    ("Use npm for the packages.", "Use pnpm for the packages instead."),
    ("The codename is Lantern-7.", "We changed the codename to Beacon-9."),
    ("Die Frist ist Freitag.", "Wir haben die Frist auf Montag verschoben."),
    ("Nutze npm.", "Nutze stattdessen pnpm, nicht npm."),
    ("Le budget est de 300 euros.", "Le budget est de 500 euros."),
    ("Utilise npm.", "On est passés de npm à pnpm hier."),
    ("El límite es 50 palabras.", "El límite es 80 palabras."),
    ("Usa npm.", "Hemos pasado de npm a pnpm."),
    ("Отвечай на английском.", "С этого момента отвечай на немецком."),
    ("Бюджет 500 евро.", "Бюджет теперь 700 евро."),
    ("使用 Python 3.11。", "我们已经升级到 Python 3.12 了。"),
    ("用中文回答。", "从现在起用英文回答。"),
    ("Usa Python 3.11.", "Siamo passati a Python 3.12."),
];

/// More of them, written before the rules and run only after them.
const OTHER_REPLACEMENTS: &[(&str, &str)] = &[
    ("The staging URL is stage.example.com.", "The staging URL was changed to test.example.com."),
    ("Anna Meyer is the contact for invoices.", "Anna left; Bo Larsen is the contact for invoices now."),
    ("Use Node 18 for the build.", "Last week we migrated to Node 20."),
    ("Keep answers under 200 words.", "Keep answers under 100 words."),
    ("The release date is May 3.", "Correction: the release date is May 10."),
    ("Use Webpack for bundling.", "We replaced Webpack with Vite."),
    ("Always add a summary.", "We no longer need a summary."),
    ("Das Budget beträgt 500 Euro.", "Das Budget wurde auf 800 Euro geändert."),
    ("Antworte auf Deutsch.", "Antworte ab jetzt auf Englisch."),
    ("La limite est de 50 mots.", "La limite est maintenant de 80 mots."),
    ("Réponds en français.", "Réponds en anglais au lieu du français."),
    ("La reunión es el lunes.", "La reunión se ha movido al martes."),
    ("Responde en español.", "A partir de hoy responde en inglés."),
    ("Используй npm.", "Мы перешли с npm на pnpm."),
    ("Лимит 50 слов.", "Лимит 80 слов."),
    ("使用 npm。", "我们改用 pnpm，不再用 npm。"),
    ("Node 18を使ってください。", "Node 20に移行しました。"),
    ("Il limite è 50 parole.", "Il limite è 80 parole adesso."),
];

#[test]
fn reports_and_complaints_replace_nothing() {
    let marked: Vec<_> =
        REPORTS.iter().chain(OTHER_REPORTS).filter(|(old, new)| later_of(old, new).is_some()).collect();
    assert!(marked.is_empty(), "{marked:#?}");
}

#[test]
fn orders_and_changes_replace_what_they_are_about() {
    let missed: Vec<_> = REPLACEMENTS
        .iter()
        .chain(OTHER_REPLACEMENTS)
        .filter(|(old, new)| later_of(old, new).is_none())
        .collect();
    assert!(missed.is_empty(), "{missed:#?}");
}
