mod order_forms;

use super::*;
use crate::event::{Event, EventBody, FORMAT};
use crate::message::{Message, Part};

/// A session in which only the user speaks.
fn session(texts: &[&str]) -> History {
    let mut history = History::default();
    let mut add = |body: EventBody| {
        let event = Event { seq: history.last_seq() + 1, at: 0, format: FORMAT, body };
        history.apply(&event).unwrap();
    };
    add(EventBody::SessionStarted { title: None, forked_from: None, imported_from: None, folder: None });
    for text in texts {
        let message = Message::user("u", vec![Part::text(*text)]);
        add(EventBody::message_taken(message));
    }
    history
}

fn everything() -> [LogHandle; 1] {
    [LogHandle(LogRange { from: 1, to: u64::MAX })]
}

fn quoted(texts: &[&str], room: u64) -> String {
    UserText::of(&session(texts), &everything(), &mut StatementCache::default()).fit(room)
}

#[test]
fn everything_is_quoted_verbatim_where_it_fits() {
    let text =
        quoted(&["Split  the lexer.\n\nKeep `main.rs`; it's fine.", "请用中文。好的", "Is it done?"], 10_000);
    insta::assert_snapshot!(text, @r"
    What the user said, oldest first; later words win:
    [1] Split  the lexer.
        Keep `main.rs`; it's fine.
    [2] 请用中文。好的
    [3] Is it done?
    ");
}

#[test]
fn identical_lines_appear_once_at_their_newest_place() {
    let text = quoted(&["Fix the tests.", "go on", "Go  on", "go on"], 1_000);
    assert!(text.contains("[1] Fix the tests.\n[4] go on\n"), "{text}");
}

#[test]
fn a_replaced_statement_is_marked() {
    let text =
        quoted(&["Let's plan.", "The travel cap is 300 euros.", "The travel cap is 500 euros now."], 1_000);
    assert!(text.contains("[2] The travel cap is 300 euros. (replaced by [3])\n"), "{text}");
}

#[test]
fn what_replaces_an_order_is_kept_like_one() {
    let mut texts = vec!["Let's plan.", "HARD CONSTRAINT: The project is called LANTERN-1 in all documents."];
    let orders: Vec<String> = (0..40).map(|at| format!("Check the draft {}.", "a".repeat(at + 3))).collect();
    texts.extend(orders.iter().map(String::as_str));
    texts.insert(2, "We are calling the project BEACON-2 now.");
    let text = quoted(&texts, 90);
    assert!(text.contains("BEACON-2") && !text.contains("LANTERN-1"), "{text}");
}

#[test]
fn replaced_statements_do_not_fill_what_is_left() {
    let long = "I went to the market and met an old friend who told me about her house".repeat(4);
    let texts = ["Let's plan.", "The travel cap is 300 euros.", "The travel cap is 500 euros now.", &long];
    let text = quoted(&texts, 90);
    assert!(text.contains("500 euros") && !text.contains("300 euros") && !text.contains("market"), "{text}");
    assert!(quoted(&texts, 300).contains("300 euros. (replaced by [3])"));
}

#[test]
fn statements_with_values_are_kept_before_others() {
    let chatter: Vec<String> =
        (0..40).map(|at| format!("We talked about lovely gardens and {}.", "a".repeat(at + 3))).collect();
    let mut texts = vec!["Let's talk.", "The staging database is MySQL 8 in us-west-2."];
    texts.extend(chatter.iter().map(String::as_str));
    let text = quoted(&texts, 80);
    assert!(text.contains("MySQL 8"), "{text}");
}

#[test]
fn a_sentence_that_is_said_again_is_quoted_at_its_newest_place() {
    let texts = [
        "Let's plan.",
        "The cap is 450 dollars. Never exceed it without my approval.",
        "I like fish.",
        "The office is in Rome. Never exceed it without my approval.",
    ];
    let text = quoted(&texts, 1_000);
    assert_eq!(text.matches("Never exceed it").count(), 1, "{text}");
    assert!(text.contains("[4] The office is in Rome. Never exceed it"), "{text}");
}

#[test]
fn orders_are_kept_where_chatter_does_not_fit() {
    let chatter: Vec<String> = (0..400)
        .map(|at| format!("I went to the market number {at} and it was lovely there. Do you like fish {at}?"))
        .collect();
    let mut texts: Vec<&str> = vec!["Let's talk about food."];
    texts.extend(chatter.iter().map(String::as_str));
    texts.insert(3, "Whenever you name a price, add the date in brackets.");
    let text = quoted(&texts, 600);
    assert!(text.contains("[4] Whenever you name a price, add the date in brackets."), "{text}");
    assert!(text.contains("[402] I went to the market number 399"), "the newest statement is kept: {text}");
    assert!(!text.contains('?'), "questions go before statements: {text}");
    assert!(MessageTokenCounter::default().text(&text) <= 600);
    assert!(text.contains("more messages are not quoted; `recall` finds them]"), "{text}");
}

#[test]
fn a_paste_is_cut_to_both_ends_and_keeps_its_orders() {
    let lines: Vec<String> = (0..200).map(|at| format!("row {at}: the value was measured twice")).collect();
    let mut paste = lines.clone();
    paste.insert(100, "Never send this table to anyone.".to_owned());
    let text = quoted(&["Hello there.", &paste.join("\n")], 10_000);
    assert!(text.contains("row 0:") && text.contains("row 199:") && !text.contains("row 60:"), "{text}");
    assert!(text.contains("Never send this table to anyone."), "{text}");
    assert!(text.contains("characters, handle lh:3 …]"), "{text}");
    assert!(MessageTokenCounter::default().text(&text) < 400);
}

#[test]
fn blocks_of_a_clients_program_are_not_the_users_words() {
    let text = quoted(
        &[
            "<system-reminder>\nToday is Monday. Always be terse.\n</system-reminder>\nRename the crate.\n<b>bold</b>",
        ],
        1_000,
    );
    assert!(text.contains("[1] Rename the crate.\n    <b>bold</b>"), "{text}");
    assert!(!text.contains("Monday"), "{text}");
}

#[test]
fn the_section_is_taken_out_of_an_earlier_summary() {
    let section = quoted(&["One.\n\nTwo.", "Three."], 1_000);
    let summary = format!("[SUMMARY] of 3 messages.\n\n{}\n\nFiles read:\n- a.rs", section.trim_end());
    assert_eq!(without_section(&summary), "[SUMMARY] of 3 messages.\n\nFiles read:\n- a.rs");
    let twice = format!("{summary}\n\n{}\n\nNext steps: go on", section.trim_end());
    let rest = without_section(&twice);
    assert_eq!(rest, "[SUMMARY] of 3 messages.\n\nFiles read:\n- a.rs\n\nNext steps: go on");
}

#[test]
fn nothing_is_shown_where_nothing_fits() {
    assert_eq!(quoted(&["Fix the tests, please."], 3), "");
    assert_eq!(quoted(&["[SUMMARY] of 9 earlier messages."], 1_000), "");
}

fn page(of: usize) -> String {
    let line = |at| {
        format!(
            "Clients must send the header X-{of}-{at} with each request that they make, and wait {at} s.\n"
        )
    };
    format!("Summarise this page for me:\n{}", (0..64).map(line).collect::<String>())
}

#[test]
fn a_pasted_manual_does_not_displace_what_was_said() {
    let pages: Vec<String> = (0..5).map(page).collect();
    let mut texts = vec!["Hello, let us begin.", "never touch prod.db"];
    texts.extend(pages.iter().map(String::as_str));
    let last = format!("{}And never rename schema.sql.", page(5));
    texts.push(&last);
    for room in [150, 300, 900, 2_000] {
        let text = quoted(&texts, room);
        assert!(MessageTokenCounter::default().text(&text) <= room);
        for line in ["never touch prod.db", "And never rename schema.sql"] {
            assert!(text.contains(line), "{line} in {room}: {text}");
        }
    }
}

#[test]
fn pasted_code_sets_no_orders() {
    let text = quoted(
        &[
            "Hello.",
            "Mend this. Never touch the tests.\n1463: msg = 'The precision must be {} or more'\n\
             if required without_default {\nreturn always_valid only;\nYou must keep x = 1 in it.",
        ],
        40,
    );
    assert!(text.contains("Never touch the tests") && !text.contains("always_valid"), "{text}");
}

#[test]
fn the_end_of_a_long_paste_is_read() {
    let paste = format!("{}Never rename schema.sql.", "some words of no weight at all\n".repeat(12_000));
    assert!(quoted(&["Hello.", &paste], 1_000).contains("Never rename schema.sql."));
}

#[test]
fn going_on_is_quoted_last() {
    let steps: Vec<String> = (0..200).map(|at| format!("go on with step {at}")).collect();
    let mut texts = vec!["Begin.", "Write the report in the tone of the last one."];
    texts.extend(steps.iter().map(String::as_str));
    texts.extend(["Weiter bitte!", "Mention the vendor by name."]);
    let text = quoted(&texts, 70);
    assert!(text.contains("tone of the last one") && text.contains("Mention the vendor"), "{text}");
    assert!(!text.contains("Weiter"), "{text}");
}

#[test]
fn scripts_without_blanks_are_quoted() {
    let text = quoted(&["你好", "不要修改数据库。谢谢", "ファイルを削除しないでください"], 1_000);
    assert!(
        text.contains("不要修改数据库。谢谢") && text.contains("ファイルを削除しないでください"),
        "{text}"
    );
}

#[test]
fn a_replaced_order_is_kept_before_statements() {
    let chatter: Vec<String> =
        (0..40).map(|at| format!("We talked about lovely gardens and {}.", "a".repeat(at + 3))).collect();
    let mut texts = vec!["Let's plan.", "Keep answers under 50 words.", "Keep answers under 80 words."];
    texts.extend(chatter.iter().map(String::as_str));
    let text = quoted(&texts, 80);
    assert!(text.contains("[2] Keep answers under 50 words. (replaced by [3])"), "{text}");
    assert!(text.contains("[3] Keep answers under 80 words."), "{text}");
}

#[test]
fn tags_of_the_user_are_quoted() {
    for text in [
        "<user_query>\nMigrate the tables. Never drop a table.\n</user_query>",
        "<user_message>\nfrom now on reply in Spanish\n</user_message>",
        "Please mind my rules:\n<house_rules>\nNever mention competitors.\n</house_rules>",
        "<output_format>Always answer as YAML.</output_format>",
        "Keep the attribute order:\n<my-button id=\"a\">\nNever rename this element\n</my-button>",
    ] {
        let quoted = quoted(&["Hello.", text], 1_000);
        for line in text.lines() {
            assert!(quoted.contains(line), "{line}: {quoted}");
        }
    }
}

#[test]
fn blocks_of_known_programs_are_left_out() {
    for name in [
        "system-reminder",
        "environment_details",
        "environment_context",
        "command-name",
        "command-message",
        "command-args",
        "local-command-stdout",
        "local-command-caveat",
        "ide_opened_file",
        "ide_selection",
        "file_content",
        "tool_result",
        "user_instructions",
    ] {
        let text = quoted(&["Hello.", &format!("<{name}>\nAlways be odd.\n</{name}>\nRename it.")], 1_000);
        assert!(text.contains("[2] Rename it.") && !text.contains("odd"), "{name}: {text}");
    }
}

#[test]
fn a_message_of_blocks_alone_is_quoted() {
    let block = "<file_content path=\"a\">\nNever drop a table.\n</file_content>";
    assert!(quoted(&["Hello.", block], 1_000).contains("Never drop a table."));
    let reminder = "<system-reminder>\nAlways be terse.\n</system-reminder>";
    assert!(quoted(&["Hello.", reminder], 1_000).contains("Always be terse."));
}

/// A task of about 550 tokens: 25 numbered requirements, then prose.
fn long_task() -> (Vec<String>, String) {
    let mut rules: Vec<String> = [
        "Do not push.",
        "Use no unsafe code.",
        "Reject files larger than 10 MB.",
        "Strings are delimited by double quotes.",
        "The minimum Rust version is 1.85.",
        "When done, print the word FINISHED.",
    ]
    .map(str::to_owned)
    .into();
    rules.extend((0..19).map(|at| format!("Put the part {} into its own file.", "b".repeat(at + 3))));
    let numbered: Vec<String> =
        rules.iter().enumerate().map(|(at, rule)| format!("{}. {rule}", at + 1)).collect();
    let prose = "I had a look at the tax table yesterday and it seems about right to me. ".repeat(3)
        + &(0..14).map(|at| format!("The page was slow again at {at}. ")).collect::<String>();
    let task =
        format!("Implement the parser.\n\nRequirements:\n{}\n\n{prose}\n\nThanks.", numbered.join("\n"));
    (rules, task)
}

#[test]
fn the_first_task_is_quoted_whole() {
    let (rules, task) = long_task();
    let text = quoted(&[&task, "Go on.", "What about the log?"], 1_500);
    for line in task.lines().map(str::trim).filter(|line| !line.is_empty()) {
        assert!(text.contains(line), "{line}: {text}");
    }
    // Its list lines outlast weaker orders of later messages.
    let steps: Vec<String> =
        (0..80).map(|at| format!("Fix the bug in the {} page.", "c".repeat(at + 3))).collect();
    let mut texts = vec![&*task];
    texts.extend(steps.iter().map(String::as_str));
    let text = quoted(&texts, 600);
    for rule in &rules {
        assert!(text.contains(rule), "{rule}: {text}");
    }
}

#[test]
fn a_task_of_one_long_sentence_is_quoted_whole() {
    let task = format!("Port these parts: {}.", (0..60).map(|at| format!("part{at}, ")).collect::<String>());
    let text = quoted(&[&task, "Go on."], 1_000);
    assert!(text.contains("part30, part31,") && text.contains("part59"), "{text}");
}

#[test]
fn a_long_first_message_leaves_room_for_orders() {
    let prose: String = (0..150).map(|at| format!("The page {at} was slow again this morning. ")).collect();
    let text = quoted(&[&prose, "Never restart server 3.", "Is it done?"], 300);
    assert!(text.contains("Never restart server 3."), "{text}");
}

#[test]
fn the_middle_of_a_long_message_is_quoted_last() {
    let pages: String = (0..30).map(|at| format!("The page {at} was slow again this morning. ")).collect();
    let jobs: String = (0..30).map(|at| format!("The job {at} was late again last night. ")).collect();
    let message = format!("{pages}\nDo not rename public functions.\n- no print statements\n{jobs}Bye.");
    let texts = ["Hello.", &message, "I like fish.", "Is it done?"];
    let text = quoted(&texts, 3_000);
    assert!(text.contains("The page 29 was slow") && text.contains("The job 5 was"), "{text}");
    let text = quoted(&texts, 300);
    let parts = [
        "The page 0 was",
        "Bye.",
        "Do not rename public functions.",
        "no print statements",
        "I like fish.",
        "Is it done?",
    ];
    for part in parts {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("The job 5 was"), "{text}");
}

proptest::proptest! {
    /// The section never exceeds its room, and every line of it but the title and the count is the user's.
    #[test]
    fn the_room_is_never_exceeded(texts in proptest::collection::vec(".{0,80}", 1..12), room in 0..400_u64) {
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let text = quoted(&texts, room);
        proptest::prop_assert!(MessageTokenCounter::default().text(&text) <= room);
        proptest::prop_assert!(text.is_empty() || text.starts_with(TITLE));
        proptest::prop_assert_eq!(text, quoted(&texts, room));
    }
}

#[test]
fn quotes_of_an_imported_summary_are_quoted_again() {
    let summary = format!(
        "[SUMMARY] of 28 earlier messages.\n\n{TITLE}\n[1] Port the parser.\n    Use tabs.\n[9] go on"
    );
    let text = quoted(&[&summary, "Is it done?"], 1_000);
    assert_eq!(text, format!("{TITLE}\n[1] Port the parser.\n    Use tabs.\n[9] go on\n[11] Is it done?\n"));
}

#[test]
fn the_items_below_a_heading_of_rules_are_orders() {
    for (list, item) in [
        ("Rules:\n- tabs, two wide\n- the license header on top", "- the license header on top"),
        ("## Conventions\n* camel case for functions", "* camel case for functions"),
        ("**Constraints:**\n1. Python 3.11\n2. the standard library", "2. the standard library"),
        (
            "Please follow these guidelines:\n- the totals in the first column",
            "- the totals in the first column",
        ),
        ("Never:\n- a force push to main", "- a force push to main"),
        ("From now on:\n- the date in every heading", "- the date in every heading"),
        ("Regeln für dieses Projekt:\n- Einrückung mit Tabs", "- Einrückung mit Tabs"),
        ("Règles :\n- le français partout", "- le français partout"),
        ("Reglas:\n- la fuente al final", "- la fuente al final"),
        ("Правила:\n- источники в конце", "- источники в конце"),
        ("规则：\n- 缩进两格", "- 缩进两格"),
        ("Rules: tabs in all files, the date on top.", "Rules: tabs in all files, the date on top."),
    ] {
        let chatter: Vec<String> =
            (0..60).map(|at| format!("We talked about lovely gardens and {}.", "a".repeat(at + 3))).collect();
        let mut texts = vec!["Let's talk.", list];
        texts.extend(chatter.iter().map(String::as_str));
        let text = quoted(&texts, 120);
        assert!(text.contains(item), "{list}: {text}");
    }
}

#[test]
fn a_list_below_another_heading_has_no_rules() {
    for list in [
        "Today I bought:\n- some green apples",
        "Fix these bugs:\n- the broken link",
        "Rules:\nand so on\n- some green apples",
    ] {
        let session = session(&["Let's talk.", list]);
        let text = UserText::of(&session, &everything(), &mut StatementCache::default());
        let mut items = text.pieces.iter().filter(|piece| piece.is_item);
        assert!(items.all(|piece| piece.order_score < ORDER_SCORE), "{list}");
    }
}

/// Small talk that fills a section.
fn chatter(count: usize) -> Vec<String> {
    (0..count).map(|at| format!("We talked about lovely gardens and {}.", "a".repeat(at + 3))).collect()
}

/// Returns the quotes in a small room of texts among small talk.
fn quoted_among_chatter(texts: &[&str]) -> String {
    let chatter = chatter(60);
    let mut all = vec!["Let's talk."];
    all.extend(texts);
    all.extend(chatter.iter().map(String::as_str));
    quoted(&all, 140)
}

#[test]
fn what_takes_an_order_back_is_quoted_with_it() {
    for (order, later) in [
        ("Use Python 3.11.", "We upgraded to Python 3.12."),
        ("Answer in French.", "French is no longer needed."),
        ("Never use tables.", "You may use tables again."),
        ("Always add a summary.", "You can stop adding a summary."),
    ] {
        let text = quoted_among_chatter(&[order, later]);
        assert!(text.contains(&format!("[2] {order} (replaced by [3])")), "{text}");
        assert!(text.contains(&format!("[3] {later}")), "{text}");
    }
}

#[test]
fn rules_in_markup_are_orders() {
    for (rules, line) in [
        (
            "<rules>\n<rule>the license header stays on top</rule>\n</rules>",
            "the license header stays on top",
        ),
        (
            "{\n  \"rules\": [\n    \"the totals in the first column\"\n  ]\n}",
            "the totals in the first column",
        ),
        ("rules:\n  - the totals in the first column", "the totals in the first column"),
        ("house_rules: |\n  the date on top of all files", "the date on top of all files"),
        ("rule: the date on top of all files", "the date on top of all files"),
        ("constraint – the date on top of all files", "the date on top of all files"),
        ("Rule - the date on top of all files", "the date on top of all files"),
        ("note: never touch the old page", "never touch the old page"),
        ("regel: das Datum steht oben", "das Datum steht oben"),
    ] {
        let text = quoted_among_chatter(&[rules]);
        assert!(text.contains(line), "{rules}: {text}");
    }
}

#[test]
fn configurations_set_no_orders() {
    for text in [
        "{\"rules\": {\"no-console\": \"error\", \"semi\": [2, \"always\"]}}",
        "The page:\n```json\n{\"description\": \"Always returns the newest page.\"}\n```",
    ] {
        let session = session(&["Let's talk.", text]);
        let text = UserText::of(&session, &everything(), &mut StatementCache::default());
        let found: Vec<_> = text
            .pieces
            .iter()
            .filter(|piece| piece.message > 0 && piece.order_score >= ORDER_SCORE)
            .collect();
        assert!(found.is_empty(), "{found:#?}");
    }
}

#[test]
fn an_order_in_a_long_sentence_is_quoted_alone() {
    let prose = "we looked at the old page and the weather was fine on that day ".repeat(5);
    let sentence = format!("{prose}, so from now on never push to main, because {prose}.");
    let text = quoted_among_chatter(&[&sentence]);
    assert!(text.contains("so from now on never push to main"), "{text}");
    assert!(!text.contains("the weather"), "{text}");
}

#[test]
fn short_messages_come_before_sentences_of_longer_ones() {
    let talk = |at: usize| {
        format!(
            "Question {at}: The import listed {at} empty columns on Monday and nobody knew where they had come from. \
             The parser returned {at} old pages in the afternoon, and the customer was not happy about it. And now?"
        )
    };
    let mut texts = vec!["Let's begin.".to_owned()];
    texts.extend((100..140).map(talk));
    for (at, text) in ["My name is Dr. Meyer.", "Keep functions short.", "The deadline is Friday 17:00."]
        .into_iter()
        .enumerate()
    {
        texts.insert(2 + at * 3, text.to_owned());
    }
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let text = quoted(&texts, 150);
    for short in ["My name is Dr. Meyer.", "Keep functions short.", "The deadline is Friday 17:00."] {
        assert!(text.contains(short), "{short}: {text}");
    }
}

#[test]
fn quotes_may_take_their_share_of_the_free_room() {
    assert_eq!(user_room(1_000, 3_072, 0.5, 0), 500);
    // Orders take more than the share. Both stay below a quarter of the limit.
    assert_eq!(user_room(1_000, 3_072, 0.5, 5_000), 768);
    assert_eq!(user_room(2_000, 3_072, 0.5, 0), 768);
    assert_eq!(user_room(400, 3_072, 0.5, 5_000), 360);
}
