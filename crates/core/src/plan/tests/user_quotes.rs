//! Quotes of the user in small windows: short orders and facts outlast the small talk around them.

use super::*;

/// Orders and facts as people write them, each a message of its own.
const SHORT_MESSAGES: &[&str] = &[
    "Do not use the library moment.js anywhere.",
    "You must not push to release.",
    "Do not edit generated files.",
    "Please do not use tabs.",
    "Do not add dependencies.",
    "Avoid global variables.",
    "Keep functions short.",
    "Use snake_case for Python.",
    "All dates must be written as YYYY-MM-DD.",
    "Remember: the budget is 500 euros.",
    "We use PostgreSQL 14, not MySQL.",
    "The deadline is Friday 17:00.",
    "My name is Dr. Meyer.",
    "Bitte keine Anglizismen in den Texten.",
    "Ne touche pas au dossier vendor.",
    "不要修改数据库。",
];

/// Small talk of about so many sentences, another one for each `seed`.
fn small_talk(sentences: usize, seed: usize) -> String {
    const THINGS: [&str; 7] = [
        "The import",
        "My colleague",
        "The parser",
        "Our customer",
        "That table",
        "This page",
        "The second test",
    ];
    const VERBS: [&str; 5] = ["showed", "returned", "needed", "listed", "lost"];
    const OBJECTS: [&str; 6] = [
        "a strange warning",
        "two empty columns",
        "a timeout",
        "the wrong page",
        "three copies",
        "a blank screen",
    ];
    const TIMES: [&str; 5] =
        ["on Monday", "after the update", "when I looked", "for some reason", "with the small set"];
    let sentence = |at: usize| {
        let pick = seed * 31 + at * 17;
        format!(
            "{} {} {} {} (run {}). ",
            THINGS[pick % 7],
            VERBS[pick / 3 % 5],
            OBJECTS[pick / 2 % 6],
            TIMES[pick / 5 % 5],
            100 + pick
        )
    };
    (0..sentences).map(sentence).collect()
}

/// A chat of 40 turns in which the user says `messages`, the first of them in turn `start`.
fn chat_with(messages: &[&str], start: usize) -> Log {
    let mut log = Log::new();
    log.typed("We build the tool Zebra42. Start please.");
    for turn in 1..40 {
        log.say(&small_talk(20, turn + 100));
        match turn.checked_sub(start).and_then(|at| messages.get(at)) {
            Some(message) => log.typed(message),
            None => log.typed(&format!("Question {turn}: {}What do you think?", small_talk(4, turn))),
        };
    }
    log
}

/// Returns the shortened view of a chat, and its size in tokens with the expected error.
fn shortened_view(mut log: Log, window: u64) -> (String, u64) {
    let edit = match log.routine(window, &policy("adaptive")) {
        Plan::Edit(edit) => *edit,
        Plan::Summarise(draft) => draft.finish_extractive(&log.history).unwrap(),
        other => panic!("no edit: {other:?}"),
    };
    log.commit(&edit);
    (log.shown(), log.bound())
}

#[test]
fn short_orders_and_facts_stay_in_small_windows() {
    for window in [4_096, 8_192] {
        for start in [1, 10, 22] {
            let (view, bound) = shortened_view(chat_with(SHORT_MESSAGES, start), window);
            let missing: Vec<_> = SHORT_MESSAGES.iter().filter(|message| !view.contains(**message)).collect();
            assert!(missing.is_empty(), "{window}, {start}: {missing:#?}\n{view}");
            assert!(bound < Budget::new(window, None).usable, "{bound} of {window}");
        }
    }
}

#[test]
fn one_order_or_fact_stays_wherever_it_is_said() {
    for (at, message) in SHORT_MESSAGES.iter().enumerate() {
        let window = if at % 2 == 0 { 4_096 } else { 8_192 };
        let (view, _) = shortened_view(chat_with(&[*message], 2 + at * 2), window);
        assert!(view.contains(*message), "{message} in {window}: {view}");
    }
}

#[test]
fn an_order_in_the_middle_of_a_message_stays() {
    let order = "From now on every function must have a docstring.";
    for window in [4_096, 8_192] {
        for turn in [3, 20, 33] {
            let message =
                format!("Question {turn}: {}{order} {}", small_talk(3, turn), small_talk(3, turn + 7));
            let (view, _) = shortened_view(chat_with(&[message.as_str()], turn), window);
            assert!(view.contains(order), "{window}, {turn}: {view}");
        }
    }
}

#[test]
fn quotes_fill_their_share_of_the_free_room() {
    for window in [4_096, 8_192] {
        let (view, _) = shortened_view(chat_with(&[], 1), window);
        let section = view.split("\n\n").find(|part| part.starts_with("What the user said")).unwrap();
        let quoted = MessageTokenCounter::default().text(section);
        let usable = Budget::new(window, None).usable;
        // A quarter of the trigger bounds the share, and the trigger is below the usable room.
        assert!(quoted * 6 > usable, "{quoted} of {usable}: {view}");
    }
}
