use super::*;

fn found(text: &str) -> Vec<&str> {
    rules(text).0.into_iter().map(|(_, rule)| rule.trim()).collect()
}

#[test]
fn rules_in_plain_words() {
    for rule in [
        "Under no circumstances delete backup.tar",
        "I forbid any network access",
        "No sudo",
        "No commits to main, please",
        "Use tabs, no spaces",
        "Please leave billing.rs alone",
        "prod.db is off limits",
        "prod.db is off-limits",
        "Stay away from the vendor folder",
        "Hands off secrets.env",
        "keep the public API unchanged",
        "Keep main.rs as it is",
        "Refrain from renaming things",
        "Don’t edit config/live.toml",
        "NEVER push",
        "The schema is not to be changed",
    ] {
        assert_eq!(found(rule), [rule]);
    }
    for plain in [
        "Mustard is fine",
        "No problem",
        "No, I like it",
        "I looked, no luck",
        "No errors were found",
        "Leave a comment when you are done",
        "Keep going",
        "Add a non-empty list",
        "Build it and show me the result",
    ] {
        assert_eq!(found(plain), [""; 0], "{plain}");
    }
}

#[test]
fn rules_in_other_languages() {
    for rule in [
        "Nie die Datei kunden.db anfassen",
        "Lösche die Datenbank nicht",
        "Kein Zugriff auf das Netz",
        "Die Tests müssen grün bleiben",
        "De tests moeten slagen",
        "Testy muszą przejść przed scaleniem",
        "Testerna måste gå igenom",
        "prod.db darf niemand ändern",
        "Ne touchez pas à prod.db",
        "N'utilise pas le réseau",
        "Il faut lancer les tests",
        "Accès au réseau interdit",
        "No toques prod.db",
        "Nunca borres la copia",
        "Siempre ejecuta las pruebas",
        "Queda prohibido usar la red",
        "Não mexa no arquivo prod.db",
        "Os testes devem passar",
        "É proibido usar a rede",
        "Non toccare prod.db",
        "È vietato usare la rete",
        "I test devono passare",
        "Не трогай prod.db",
        "НЕЛЬЗЯ менять схему",
        "Всегда запускай тесты",
        "不要修改 prod.db",
        "必须先运行测试",
        "禁止访问网络",
        "prod.db に触らないでください",
        "必ずテストを実行する",
    ] {
        assert_eq!(found(rule), [rule]);
    }
    for plain in [
        "Das ist kein Problem",
        "Kein Problem",
        "Je pense que oui",
        "Eso es todo",
        "Não sei",
        "Non lo so",
        "Не знаю",
        "你好世界",
        "こんにちは",
    ] {
        assert_eq!(found(plain), [""; 0], "{plain}");
    }
}

#[test]
fn a_full_stop_may_belong_to_a_word() {
    for rule in [
        "Never touch config files, e.g. prod.toml or live.toml",
        "Only safe calls, i.e. reads, are allowed",
        "Nie Daten löschen, z. B. kunden.db oder z.B. alte Backups",
        "Always use Python v. 3.9 and glibc 2. 31",
        "Never edit generated code (etc. and so on)",
        "Only ask Dr. Ada about it",
    ] {
        assert_eq!(found(rule), [rule]);
    }
    let apart = "1. Never touch a.rs. Use plan B. Always run the tests! Only then. 不要删除数据库。必须先运行测试！So do I. Never stop.";
    let expected = [
        "Never touch a.rs",
        "Always run the tests",
        "Only then",
        "不要删除数据库",
        "必须先运行测试",
        "Never stop",
    ];
    assert_eq!(found(apart), expected.map(str::trim));
}

#[test]
fn code_sets_no_rules() {
    let code = "Mend this:\nfn main() {\n    // you must call init first\n    let only = required(&always);\n    if must_wait { return never; }\n}\n";
    assert_eq!(found(code), [""; 0]);
    assert_eq!(found("See:\n```rust\nnever touch this at all\n```\n"), [""; 0]);
    assert_eq!(
        found("See:\n```\nx = always(1)\nnever touch this at all\n```\nnever stop it"),
        ["never stop it"]
    );
    assert_eq!(found("A stray mark:\n```\nnever touch this at all"), ["never touch this at all"]);
    let grep =
        "10: let value = required;\n11: // must be set before\n12: value.only();\nNever touch value.rs";
    assert_eq!(found(grep), ["Never touch value.rs"]);
    let json = "{\n  \"required\": true,\n  \"only\": [\"always\"]\n}";
    assert_eq!(found(json), [""; 0]);
}

#[test]
fn sentences_are_counted() {
    let (rules, count) = rules("One. Two must.\n\nThree! Four only");
    assert_eq!((rules, count), (vec![(1, " Two must"), (3, " Four only")], 4));
}
