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
    ("Der Termin ist am Montag.", "Der Termin wurde auf Mittwoch verschoben."),
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

#[test]
fn measure_pairs() {
    let missed: Vec<_> = REPLACED.iter().filter(|(old, new)| replaced(&[old, new])[0].is_none()).collect();
    let marked: Vec<_> = BESIDE.iter().filter(|(old, new)| replaced(&[old, new])[0].is_some()).collect();
    println!("NOT REPLACED {}/{}: {missed:#?}", missed.len(), REPLACED.len());
    println!("WRONGLY REPLACED {}/{}: {marked:#?}", marked.len(), BESIDE.len());
}
