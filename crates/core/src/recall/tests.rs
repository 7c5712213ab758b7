use super::query::{MOST_LOOKED_INTO, MOST_TERMS, MOST_WORDS};
use super::*;

fn index(texts: &[&str]) -> SearchIndex {
    let mut index = SearchIndex::default();
    texts.iter().for_each(|text| _ = index.add(text));
    index
}

fn found(texts: &[&str], query: &str) -> Vec<usize> {
    let hits = search(&index(texts), query, texts.len(), SearchLimits::of(5), |_| 1.0, |at| texts[at]);
    hits.iter().map(|hit| hit.at).collect()
}

#[test]
fn rare_words_count_more_and_the_newest_comes_first_among_equals() {
    let texts = ["the red file", "the blue file", "the file", "the blue file"];
    assert_eq!(found(&texts, "the blue file")[..2], [3, 1]);
    assert_eq!(found(&texts, "file red")[0], 0);
    assert!(found(&texts, "green").is_empty());
}

#[test]
fn words_are_found_by_their_pieces_and_by_their_beginnings() {
    let texts = ["see src/plan/prune.rs for it", "a sentence about planning", "多くの人が集まる場所"];
    assert_eq!(found(&texts, "prune"), [0]);
    assert_eq!(found(&texts, "src/plan/prune.rs")[0], 0);
    assert_eq!(found(&texts, "plann"), [1]);
    assert_eq!(found(&texts, "entenc"), [1], "within a word, if nowhere else");
    assert_eq!(found(&texts, "集まる"), [2]);
}

#[test]
fn words_on_one_line_win_over_the_same_words_apart_and_the_phrase_over_both() {
    let apart = "zebra\n\n\nhorse";
    let together = "the horse and the zebra";
    let phrase = "a zebra horse it is";
    assert_eq!(found(&[apart, together, phrase, apart], "zebra horse"), [2, 1, 3, 0]);
}

#[test]
fn an_index_that_grew_answers_like_one_that_was_built_at_once() {
    let texts: Vec<String> =
        (0..200).map(|at| format!("row {at} of {} with word{}", at % 7, at * at % 31)).collect();
    let mut grown = SearchIndex::default();
    for (at, text) in texts.iter().enumerate() {
        assert_eq!(grown.add(text), at);
        let whole = index(&texts[..=at].iter().map(String::as_str).collect::<Vec<_>>());
        let ask = |index: &SearchIndex| {
            search(index, "row word9 3", at + 1, SearchLimits::of(5), |_| 1.0, |at| &texts[at])
        };
        assert_eq!(ask(&grown), ask(&whole));
    }
    // What came later is as if it were not there.
    let early = search(&grown, "row word9 3", 50, SearchLimits::of(5), |_| 1.0, |at| &texts[at]);
    let first = index(&texts[..50].iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(early, search(&first, "row word9 3", 50, SearchLimits::of(5), |_| 1.0, |at| &texts[at]));
}

#[test]
fn what_weighs_less_stands_behind_and_what_weighs_nothing_is_not_found() {
    fn ask(weight: fn(usize) -> f64) -> Vec<usize> {
        let texts = ["the needle", "the needle", "hay"];
        let hits = search(&index(&texts), "needle", 3, SearchLimits::of(5), weight, |at| texts[at]);
        hits.iter().map(|hit| hit.at).collect()
    }
    assert_eq!(ask(|_| 1.0), [1, 0]);
    assert_eq!(ask(|at| if at == 1 { 0.5 } else { 1.0 }), [0, 1]);
    assert_eq!(ask(|at| if at == 1 { 0.0 } else { 1.0 }), [0]);
}

#[test]
fn passages_surround_the_best_lines() {
    let mut lines: Vec<String> = (0..900).map(|line| format!("let value_{line} = 1;")).collect();
    lines[20] = "the zebra eats".to_owned();
    lines[850] = "here the zebra sleeps".to_owned();
    let text = lines.join("\n");
    let hits = search(&index(&[&text]), "zebra sleeps", 1, SearchLimits::of(5), |_| 1.0, |_| &text);
    let passage = &hits[0].snippet;
    let expected =
        "…\nlet value_16 = 1;\nlet value_17 = 1;\nlet value_18 = 1;\nlet value_19 = 1;\nthe zebra eats\n";
    assert!(passage.starts_with(expected), "{passage}");
    assert!(passage.contains("let value_24 = 1;\n…\nlet value_846 = 1;"), "{passage}");
    assert!(passage.ends_with("here the zebra sleeps\nlet value_851 = 1;\nlet value_852 = 1;\nlet value_853 = 1;\nlet value_854 = 1;\n…"));
    assert_eq!(found(&["short"], "short"), [0]);
}

#[test]
fn a_passage_is_no_longer_than_it_may_be() {
    let SearchLimits { best_chars: best, other_chars: other, .. } = SearchLimits::of(5);
    let rows: String = (0..9_000).map(|row| format!("the zebra {row}\n")).collect();
    let hits = search(&index(&[&rows, &rows]), "zebra", 2, SearchLimits::of(5), |_| 1.0, |_| &rows);
    let chars: Vec<usize> = hits.iter().map(|hit| hit.snippet.chars().count()).collect();
    assert!((best - 40..=best + 4).contains(&chars[0]), "{chars:?}");
    assert!((other - 40..=other + 4).contains(&chars[1]), "{chars:?}");
    // One endless line is cut where the word stands.
    let line = format!("{} ẞtraße zebra {}", "é ".repeat(9_000), "hay ".repeat(9_000));
    let hits = search(&index(&[&line]), "zebra", 1, SearchLimits::of(5), |_| 1.0, |_| &line);
    assert!(hits[0].snippet.contains("ẞtraße zebra hay"));
    assert_eq!(hits[0].snippet.chars().count(), best + 2);
}

/// Five hits take at most about half the room, at four characters a token, but never nothing.
#[test]
fn passages_are_shorter_where_there_is_little_room() {
    fn all(tokens: u64) -> u64 {
        let extent = SearchLimits::in_room(5, tokens);
        (extent.best_chars + 4 * extent.other_chars) as u64
    }
    assert_eq!(SearchLimits::in_room(5, 100_000), SearchLimits::of(5));
    for tokens in [200, 1_000, 4_000] {
        assert!(all(tokens) <= tokens * 4 / 2 && all(tokens) >= tokens * 4 / 3, "{tokens}");
    }
    assert_eq!(all(0), all(200));
}

/// A query of thousands of words asks no more of the index than one of some dozens.
#[test]
fn a_long_query_is_cut() {
    fn asked(words: usize) -> SearchQuery {
        let query: Vec<String> = (0..words).map(|at| format!("unknown{at}/piece{at}")).collect();
        index(&["known words"]).query(&query.join(" "), 1)
    }
    let (long, longer) = (asked(100), asked(10_000));
    assert_eq!((long.roots.len(), longer.roots.len()), (MOST_WORDS, MOST_WORDS));
    let looked_into = longer.terms.iter().filter(|term| term.is_looked_into).count();
    assert_eq!((looked_into, longer.terms.len() <= MOST_TERMS), (MOST_LOOKED_INTO, true));
    let one = index(&["known words"]).query(&"piece/".repeat(20_000), 1);
    assert!(one.terms.len() <= MOST_TERMS);
}

#[test]
fn forms_of_a_word_are_found_in_each_language() {
    let other = "nothing of the kind";
    for (text, query) in [
        ("she painted two sunrises", "Which paintings of a sunrise are there?"),
        ("drei Bestellungen wurden geliefert", "Wann wird die Bestellung geliefert?"),
        ("nous avons visité les châteaux", "Quelles visites au château ?"),
        ("compramos los billetes ayer", "¿Cuándo se compró el billete?"),
        ("as reuniões foram marcadas", "Quando foi marcada a reunião?"),
        ("abbiamo prenotato gli alberghi", "Quando si prenota un albergo?"),
        ("мы купили билеты на поезд", "Когда был куплен билет в поезде?"),
    ] {
        assert_eq!(found(&[other, text, other], query)[0], 1, "{query}");
    }
    // Without function words too.
    assert_eq!(found(&["drei Bestellungen", other], "Bestellung")[0], 0);
}

#[test]
fn names_have_no_other_forms() {
    let texts = ["call load_files()", "call load_file()", "see lib/files.rs", "see lib/filed.rs"];
    assert_eq!(found(&texts, "load_file")[0], 1);
    assert_eq!(found(&texts, "lib/filed.rs")[0], 3);
}

#[test]
fn function_words_count_little_beside_others_and_alone_they_are_found() {
    let texts = ["when did you do that and what was it", "the harbour", "what did she do then"];
    assert_eq!(found(&texts, "when and what did she do at the harbour")[0], 1);
    assert_eq!(found(&["to be or not to be", "a harbour"], "to be or not to be"), [0]);
}

#[test]
fn a_word_that_a_text_lacks_counts_half_if_its_neighbour_has_it() {
    let hay = "some other message about the weather of today";
    let texts = [hay, "Where do you keep the spare key?", "It is in the blue box.", hay, hay, "A blue car."];
    assert_eq!(found(&texts, "Which box has the spare key?")[..2], [2, 1]);
    assert_eq!(found(&texts, "the blue thing for the key")[0], 2, "not the newest that is blue");
    // What weighs nothing lends nothing, and what has no word of the query is no hit.
    assert!(!found(&["spare key", "lighthouse", "lighthouse"], "spare key").contains(&1));
    fn ask(weight: fn(usize) -> f64) -> Option<usize> {
        let texts = ["zebra crossing", "a horse", "x", "y", "z", "a horse"];
        let hits = search(&index(&texts), "zebra horse", 6, SearchLimits::of(5), weight, |at| texts[at]);
        hits.iter().map(|hit| hit.at).find(|at| *at > 0)
    }
    assert_eq!((ask(|_| 1.0), ask(|at| if at == 0 { 0.0 } else { 1.0 })), (Some(1), Some(5)));
}

#[test]
fn an_answer_wins_over_its_question_and_a_time_where_one_is_asked_for() {
    let texts =
        ["x: when was the zebra race", "y: the zebra race was great", "y: the zebra race was last week"];
    assert_eq!(found(&texts, "When was the zebra race?")[0], 2);
    assert_eq!(found(&["is it a zebra", "it is a zebra?"], "zebra"), [0, 1]);
}

#[test]
fn a_colon_within_a_word_ends_no_label() {
    assert_eq!(label_words("Ada Smith: hello"), ["ada", "smith"]);
    assert_eq!(label_words("ERROR:no such file"), ["error"]);
    for text in [
        "https://example.org/a is down",
        "see http://example.org: it is down",
        "C:\\temp is full",
        "std::fmt is used: twice",
        "src/main.rs: a file",
    ] {
        assert!(label_words(text).is_empty(), "{text}");
    }
}

#[test]
fn as_many_hits_are_found_as_are_asked_for() {
    let texts: Vec<String> = (0..80).map(|at| format!("zebra {at}")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    for hits in [0, 1, 20, 50] {
        let found =
            search(&index(&texts), "zebra", texts.len(), SearchLimits::of(hits), |_| 1.0, |at| texts[at]);
        assert_eq!(found.len(), hits);
    }
}
