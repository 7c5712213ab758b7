//! Pairs of statements: those of which the later one wins, and those that hold beside each other.

use super::replaced;

/// Statements that the later one replaces.
const REPLACED: &[(&str, &str)] = &[
    ("The API key lives in vault/prod.", "The API key moved to vault/shared."),
    ("We deploy to eu-west-1.", "We deploy to eu-central-1 now, no longer to eu-west-1."),
    ("The release date is May 3.", "Correction: the release date is May 10."),
    ("Answer in English.", "Actually, answer in German from now on."),
    ("Use npm for everything.", "We switched from npm to pnpm."),
    ("Keep answers under 200 words.", "Answers may have 400 words from now on."),
    ("Always add a summary at the end.", "Stop adding a summary at the end."),
    ("Never use tables.", "You can use tables again."),
    ("Indent with four spaces.", "Indent with two spaces from now on."),
    ("Max retries is 3.", "Max retries is 5."),
    ("Das Budget beträgt 500 Euro.", "Das Budget beträgt jetzt 800 Euro."),
    ("Antworte auf Deutsch.", "Ab jetzt bitte auf Englisch antworten."),
    ("Réponds en français.", "Désormais, réponds en anglais."),
    ("Le budget est de 300 euros.", "Le budget est maintenant de 500 euros."),
    ("Responde en español.", "A partir de ahora responde en inglés."),
    ("El límite es 50 palabras.", "El límite es ahora 80 palabras."),
    ("Отвечай по-русски.", "С этого момента отвечай по-английски."),
    ("用中文回答。", "从现在起用英文回答。"),
    ("日本語で答えてください。", "これからは英語で答えてください。"),
];

/// Statements that hold beside each other.
const BESIDE: &[(&str, &str)] = &[
    ("The test database is Postgres 15.", "The production database is Postgres 16."),
    ("Answer my questions in English.", "Write the commit messages in German."),
    ("Ask before you drop a table.", "Ask before you rename a column."),
    ("Never log passwords.", "Never log tokens."),
    ("The frontend port is 3000.", "The backend port is 8000 now."),
    ("Use two spaces in YAML.", "From now on use four spaces in Python."),
    ("Frag vor jedem Push.", "Frag ab jetzt auch vor jedem Merge."),
    ("Ne modifie jamais le dossier legacy.", "Ne modifie jamais le dossier vendor."),
    ("Keep the README short.", "Keep the changelog up to date from now on."),
    ("不要修改 src/a.rs。", "不要修改 src/b.rs。"),
];

/// More of them, written independently.
const OTHER_REPLACED: &[(&str, &str)] = &[
    ("The staging URL is stage.example.com.", "The staging URL changed to test.example.com."),
    ("Bob reviews the pull requests.", "Carla reviews the pull requests now."),
    ("The meeting is at 9:00.", "The meeting has moved to 10:30."),
    ("Always run the linter before a commit.", "You don't have to run the linter before a commit any more."),
    ("Use Postgres for the store.", "We are switching from Postgres to SQLite."),
    ("Comments in German, please.", "Comments in English from now on, please."),
    ("The limit is 100 requests per minute.", "The limit is 250 requests per minute."),
    ("Die Frist ist der 3. Mai.", "Die Frist ist jetzt der 10. Mai."),
    ("Le client s'appelle Dupont.", "Le client s'appelle maintenant Martin."),
    ("N'utilise pas de tableaux.", "Tu peux de nouveau utiliser des tableaux."),
    ("La rama es develop.", "La rama ahora es main."),
    ("Usa siempre emojis.", "Deja de usar emojis."),
    ("O prazo é sexta-feira.", "O prazo mudou para segunda-feira."),
    ("Usa gli spazi.", "D'ora in poi usa i tab, non gli spazi."),
    ("Бюджет 500 евро.", "Бюджет теперь 900 евро."),
    ("Het budget is 500 euro.", "Het budget is nu 900 euro."),
    ("한국어로 답변해 주세요.", "앞으로는 영어로 답변해 주세요."),
];

/// More of them, written independently.
const OTHER_BESIDE: &[(&str, &str)] = &[
    ("The staging server is alpha.", "The production server is beta now."),
    ("Ask before you push.", "Ask before you merge from now on."),
    ("Never delete user data.", "Never delete audit data."),
    ("Send the weekly report to Ana.", "From now on send the daily report to Leo."),
    ("The read timeout is 5 seconds.", "The write timeout is 9 seconds now."),
    ("Comments in German.", "Commit messages in English from now on."),
    ("Die Testdatenbank heißt alpha.", "Die Livedatenbank heißt jetzt beta."),
    ("Ne touche pas au fichier a.rs.", "Ne touche plus au fichier b.rs."),
    ("Nunca borres los registros.", "A partir de ahora nunca borres las copias."),
    ("表格里用英文。", "从现在起标题里用中文。"),
];

/// Returns the index of the statement that replaces `old` in a conversation about other things too.
pub(super) fn later_of(old: &str, new: &str) -> Option<usize> {
    let others = ["The weather was fine on the trip.", "My sister lives in Rome.", "I had soup for lunch."];
    replaced(&[others[0], old, others[1], others[2], new])[1]
}

#[test]
fn later_words_win() {
    let missed: Vec<_> =
        REPLACED.iter().chain(OTHER_REPLACED).filter(|(old, new)| later_of(old, new).is_none()).collect();
    assert!(missed.is_empty(), "{missed:#?}");
}

#[test]
fn statements_about_other_things_stay() {
    let marked: Vec<_> =
        BESIDE.iter().chain(OTHER_BESIDE).filter(|(old, new)| later_of(old, new).is_some()).collect();
    assert!(marked.is_empty(), "{marked:#?}");
}
