use super::*;
use crate::message::{Part, Role, ToolCall, ToolResult, ToolStatus};
use crate::text_table::TextSet;

fn says(role: Role, text: &str) -> Message {
    Message { id: "m".into(), role, parts: vec![Part::text(text)], origin: None }
}

fn output(text: &str) -> Message {
    let result = ToolResult {
        call_id: "c1".into(),
        status: ToolStatus::Completed,
        content: vec![Part::text(text)],
        truncated: None,
    };
    Message { id: "m".into(), role: Role::Tool, parts: vec![Part::ToolResult(result)], origin: None }
}

fn items(message: &Message) -> BTreeMap<&'static str, Vec<String>> {
    let mut facts = ClassifiedFacts::default();
    facts.read(message);
    let classes = facts.sentences.into_iter().chain(facts.words);
    let sorted =
        |items: TextSet| items.into_iter().map(String::from).collect::<BTreeSet<_>>().into_iter().collect();
    classes.map(|(class, items)| (class, sorted(items))).collect()
}

#[test]
fn constraints_are_the_sentences_of_users_that_bind() {
    let found = items(&says(
        Role::User,
        "Hello there. You must keep the API stable!  Don’t touch the tests.\n- never use   unsafe\nMustard is fine.",
    ));
    let expected = ["Don’t touch the tests", "You must keep the API stable", "never use unsafe"];
    assert_eq!(found["userConstraints"], expected);
    let model = items(&says(Role::Assistant, "You must keep the API stable."));
    assert!(!model.contains_key("userConstraints"));
    let summary = items(&says(Role::User, "[SUMMARY]\nThe user must be told."));
    assert!(!summary.contains_key("userConstraints"));
}

#[test]
fn decisions_are_the_models() {
    let found = items(&says(Role::Assistant, "I looked around. We decided to use SQLite. Fine."));
    assert_eq!(found["decisions"], ["We decided to use SQLite"]);
}

#[test]
fn paths_identifiers_and_numbers() {
    let text = "See crates/core/src/lib.rs:12:5, ./run.sh, Cargo.toml and/or 1/2; call myFunction(snake_case) of \
                a::b at 0a1b2c3d4e in 30 ms or 64KiB, 12.5% of 7 dwarfs. 2026 was e.g. fine.";
    let found = items(&says(Role::User, text));
    assert_eq!(found["paths"], ["./run.sh", "Cargo.toml", "crates/core/src/lib.rs"]);
    assert_eq!(found["identifiers"], ["0a1b2c3d4e", "a::b", "myFunction", "snake_case"]);
    assert_eq!(found["numbers"], ["12.5%", "30ms", "64KiB"]);
}

#[test]
fn arguments_are_read_without_their_escapes() {
    let call = ToolCall {
        call_id: "c1".into(),
        name: "write".to_owned(),
        arguments: r#"{"path":"src/a.rs","content":"x\nlet my_name = 1;"}"#.to_owned(),
        provider_id: None,
        native: None,
    };
    let message = Message { parts: vec![Part::ToolCall(call)], ..says(Role::Assistant, "") };
    let found = items(&message);
    assert_eq!(found["paths"], ["src/a.rs"]);
    assert_eq!(found["identifiers"], ["my_name"]);
}

#[test]
fn error_lines_are_those_of_tools() {
    let found = items(&output("compiling\n  error[E0308]: mismatched types\nok"));
    assert_eq!(found["errorLines"], ["error[E0308]: mismatched types"]);
}

#[test]
fn a_fact_counts_once_in_the_best_column() {
    let user = says(Role::User, "Never edit src/a.rs. Always run `cargo test` first. Never edit src/a.rs.");
    let tool = output("error: cannot find value `my_value` in this scope");
    let before = [&user, &tool];
    let after = "[SUMMARY]\nConstraints: always run. Never  edit\nsrc/a.rs (user).";
    let report = survey(&before, after, true);
    let model = |verbatim, recoverable_by_model| RetentionTally {
        verbatim,
        recoverable_by_model,
        ..RetentionTally::default()
    };
    assert_eq!(report.classes["userConstraints"], model(1, 1));
    assert_eq!(report.classes["paths"], model(1, 0));
    assert_eq!(report.classes["identifiers"], model(0, 1));
    assert_eq!(report.classes["errorLines"], model(0, 1));
    let user_only = survey(&before, after, false).classes["userConstraints"];
    assert_eq!(
        user_only,
        RetentionTally { verbatim: 1, recoverable_by_user: 1, ..RetentionTally::default() }
    );
    let gone = survey_within(&before, after, RecoveryAccess::Nobody).classes["userConstraints"];
    assert_eq!((gone.lost, gone.total()), (1, 2));
}

#[test]
fn what_stays_whole_is_verbatim() {
    let user = says(Role::User, "You must not use globals. Keep src/deep/er.py under 300 lines; only ASCII.");
    let tool = output("line 1\nFatal error in myModule\n");
    let after = format!("{}\n{}", user.text(), "… Fatal error in myModule …");
    let report = survey(&[&user, &tool], &after, true);
    for (class, tally) in &report.classes {
        assert_eq!(tally.verbatim, tally.total(), "{class}");
    }
    assert_eq!(report.classes.len(), 5, "{:?}", report.classes.keys());
}

#[test]
fn the_wire_form_is_camel_case() {
    let report = survey(&[&says(Role::User, "Never stop working.")], "", true);
    let json = serde_json::to_string(&report).unwrap();
    assert_eq!(
        json,
        r#"{"classes":{"userConstraints":{"verbatim":0,"recoverableByModel":1,"recoverableByUser":0,"lost":0}}}"#
    );
}

#[test]
fn a_rule_that_a_summary_quotes_is_still_a_rule() {
    let rule = says(Role::User, "Never touch prod.db. You must be brief.");
    let summary = says(Role::User, "[SUMMARY] of 2 earlier messages\n\nUser's rules:\n- Never touch prod.db");
    let report = survey_folded(&[&summary], &[&rule], "Rules:\n- Never touch prod.db");
    let kept = RetentionTally { verbatim: 1, ..RetentionTally::default() };
    assert_eq!(report.classes["userConstraints"], kept, "what was not shown before is not missed");
    let report = survey_folded(&[&summary], &[&rule], "nothing");
    let gone = RetentionTally { recoverable_by_model: 1, ..RetentionTally::default() };
    assert_eq!(report.classes["userConstraints"], gone);
    assert!(!survey_folded(&[&summary], &[], "nothing").classes.contains_key("userConstraints"));
}

#[test]
fn a_raised_flag_ends_a_report() {
    let (rule, stop_flag) = (says(Role::User, "Never touch prod.db."), StopFlag::default());
    let facts = SentenceFacts::of(&rule);
    assert!(survey_sentences(&[&rule], &[&facts], "", &stop_flag).is_some());
    stop_flag.raise();
    assert_eq!(survey_sentences(&[&rule], &[&facts], "", &stop_flag), None);
}

fn any_message() -> impl proptest::strategy::Strategy<Value = Message> {
    use proptest::prelude::*;
    let word = prop_oneof![
        Just("never"),
        Just("must"),
        Just("decided"),
        Just("instead of"),
        Just("error:"),
        Just("Fatal"),
        Just("src/a.rs"),
        Just("my_value"),
        Just("30 ms"),
        Just("we"),
        Just("the"),
        Just("."),
        Just("\n"),
        Just("undecided"),
        Just("errors"),
        Just("pan icked"),
    ];
    let text = proptest::collection::vec(word, 0..24).prop_map(|words| words.join(" "));
    (0..3_u8, text).prop_map(|(role, text)| match role {
        0 => says(Role::User, &text),
        1 => says(Role::Assistant, &text),
        _ => output(&text),
    })
}

proptest::proptest! {
    #[test]
    fn sentences_that_were_found_before_give_the_same_report(
        before in proptest::collection::vec(any_message(), 0..8),
        folded in proptest::collection::vec(any_message(), 0..8),
        after in any_message(),
    ) {
        let shared: Vec<SharedSentences> = folded.iter().map(|_| SharedSentences::default()).collect();
        let messages: Vec<&Message> = before.iter().collect();
        let read_anew = survey_folded(&messages, &folded.iter().collect::<Vec<_>>(), &after.text());
        for _ in 0..2 {
            let found: Vec<&SentenceFacts> = shared.iter().zip(&folded).map(|(facts, message)| facts.get(message)).collect();
            let report = survey_sentences(&messages, &found, &after.text(), &StopFlag::default());
            proptest::prop_assert_eq!(report.as_ref(), Some(&read_anew));
        }
    }

    #[test]
    fn words_are_found_as_a_plain_search_finds_them(message in any_message()) {
        let text = if message.role == Role::Tool { "an ERROR".to_owned() } else { message.text() };
        for line in text.lines() {
            let lower = line.to_ascii_lowercase();
            let has_word = facts::ERROR_WORDS.iter().any(|word| lower.contains(word));
            proptest::prop_assert_eq!(facts::is_error_line(line), has_word, "{}", line);
            let blank = |char: char| if char.is_alphanumeric() || char == '\'' { char.to_ascii_lowercase() } else { ' ' };
            let plain: String = line.chars().map(blank).collect();
            let plain = format!(" {} ", facts::single_spaced(&plain));
            let has_mark = facts::DECISION_WORDS.iter().any(|mark| plain.contains(&format!(" {mark} ")));
            proptest::prop_assert_eq!(facts::has_any(line, facts::DECISION_WORDS), has_mark, "{}", line);
        }
    }
}

#[test]
fn many_messages_have_the_facts_of_each_whatever_the_number_of_threads() {
    let messages: Vec<Message> = (0..300)
        .flat_map(|at| {
            let lines: String = (0..80)
                .map(|line| format!("src/file_{at}.rs took {line} ms for item_{line}_{at}\n"))
                .collect();
            [
                says(Role::User, &format!("You must never touch part {at} of it.")),
                says(Role::Assistant, &format!("We decided to use plan {at} here.")),
                output(&format!("{lines}error: case {at} has failed\n")),
            ]
        })
        .collect();
    let messages: Vec<&Message> = messages.iter().collect();
    assert!(crate::parallel::middle(&messages, |message| facts::text_bytes(message)).is_some());
    let mut each = ClassifiedFacts::default();
    messages.iter().for_each(|message| each.read(message));
    let shown = "src/file_7.rs took 9 ms. We decided to use plan 12 here. error: case 3 has failed";
    let view = IndexedView::read(shown, shown);
    let mut all = FactCounts::of(&view);
    let stop_flag = StopFlag::default();
    assert_eq!(all.read_all(&messages, &stop_flag), Some(()));
    let counts = |all: &FactCounts<'_>| -> Vec<(&str, usize, usize)> {
        all.sentences
            .iter()
            .map(|(class, counts)| (*class, counts.seen.len(), counts.verbatim.len()))
            .collect()
    };
    let expected: Vec<(&str, usize, usize)> = each
        .sentences
        .iter()
        .map(|(class, items)| {
            (*class, items.len(), items.iter().filter(|item| view.has_sentence(item)).count())
        })
        .collect();
    assert_eq!(counts(&all), expected);
    assert_eq!(expected, [("decisions", 300, 1), ("errorLines", 300, 1), ("userConstraints", 300, 0)]);
    assert_eq!(all.words.len(), each.words.len());
    for (class, items) in &each.words {
        assert!(
            items.len() == all.words[class].len() && items.iter().all(|item| all.words[class].contains(item))
        );
    }
    stop_flag.raise();
    assert_eq!(FactCounts::of(&view).read_all(&messages, &stop_flag), None);
}
