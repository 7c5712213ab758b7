//! Standing orders that a user gives once reach the model word for word after compactions, whatever the summaries say.
//!
//! The orders are the 15 side constraints of COMPINT (arXiv 2608.11242), amid chat about other things.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;

use axum::http::StatusCode;
use flate2::read::GzDecoder;
use serde_json::{Value, json};

use crate::shortening::is_summary_request;
use crate::upstream::*;

const WINDOW_TOKENS: u64 = 32_000;

/// The chat grows by about so many tokens between two requests.
const STEP_TOKENS: usize = 3_000;

/// How many orders COMPINT has.
const ORDERS: usize = 15;

/// The last line of the upstream's summaries without orders.
const LAST_SUMMARY_LINE: &str = "- Take the newest question about hobbies and travel further.";

/// The strategies that ask the upstream for summaries here: the gateway's own, and that of sessions.
const STRATEGIES: [&str; 2] = ["pruning-agent", "adaptive"];

/// What the upstream answers where a summary is asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
enum SummaryAnswer {
    Refusal,
    /// A plausible summary with headings, made of sentences of the assistant: no order is in it.
    WithoutOrders,
}

/// The public data: the orders, and a long chat that the user begins.
struct Receipts {
    orders: Vec<String>,
    chat: Vec<Value>,
}

/// Reads the public data; `None` where it is absent. With `LONGHAUL_REQUIRE_FIXTURES` set its absence is a failure.
fn receipts() -> Option<Receipts> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fixtures/receipts");
    if !folder.is_dir() {
        assert!(std::env::var_os("LONGHAUL_REQUIRE_FIXTURES").is_none(), "{} is missing", folder.display());
        eprintln!("skipped: {} is absent", folder.display());
        return None;
    }
    let open = |name: &str| BufReader::new(File::open(folder.join(name)).unwrap());
    let compint: Value = serde_json::from_reader(open("compint.json")).unwrap();
    let filler: Value = serde_json::from_reader(GzDecoder::new(open("filler.json.gz"))).unwrap();
    let text = |order: &Value| order["text"].as_str().unwrap().to_owned();
    let orders: Vec<String> = compint["constraints"].as_array().unwrap().iter().map(text).collect();
    assert_eq!(orders.len(), ORDERS);
    let messages = filler["messages"].as_array().unwrap().iter();
    let chat = messages.skip_while(|message| message["role"] != "user").cloned().collect();
    Some(Receipts { orders, chat })
}

/// The text of everything that a request says.
fn text_of(messages: &[Value]) -> String {
    let texts = messages.iter().map(|message| message["content"].as_str().unwrap_or_default());
    texts.collect::<Vec<_>>().join("\n")
}

/// One sentence of each of the assistant's messages that names something: a number, or else two names.
fn assistant_sentences(chat: &[Value]) -> Vec<String> {
    let said = chat.iter().filter(|message| message["role"] == "assistant");
    let sentence = |text: &str| {
        let is_plain = |it: &&str| (40..240).contains(&it.len()) && !it.contains(['?', '"', '*', '\\']);
        let lines = text.lines().flat_map(|line| line.split_inclusive(". ")).map(str::trim);
        let sentences: Vec<&str> = lines.filter(is_plain).collect();
        let has_number =
            |it: &&&str| it.split(' ').skip(1).any(|word| word.contains(|c: char| c.is_ascii_digit()));
        let has_names = |it: &&&str| {
            it.split(' ').skip(1).filter(|word| word.starts_with(char::is_uppercase)).count() > 1
        };
        let told = sentences.iter().find(has_number).or_else(|| sentences.iter().find(has_names));
        told.map(|it| (*it).to_owned())
    };
    said.filter_map(|message| sentence(message["content"].as_str().unwrap_or_default())).collect()
}

/// A summary of what a request for one shows, with the headings that are asked for.
fn summary_without_orders(request: &str, sentences: &[String]) -> String {
    const TITLES: [&str; 4] = ["Goal", "Done", "Decisions", "State"];
    const MAX_SENTENCES: usize = 24;
    let shown: Vec<&String> =
        sentences.iter().filter(|sentence| request.contains(sentence.as_str())).collect();
    let every = shown.len().div_ceil(MAX_SENTENCES).max(1);
    let taken: Vec<&str> = shown.into_iter().step_by(every).map(String::as_str).collect();
    let sections = TITLES.iter().zip(taken.chunks(taken.len().div_ceil(TITLES.len()).max(1)));
    let section = |(title, lines): (&&str, &[&str])| format!("{title}:\n- {}\n", lines.join("\n- "));
    sections.map(section).collect::<String>() + "Next steps:\n" + LAST_SUMMARY_LINE + "\n"
}

/// An upstream whose summaries are as a test says.
async fn upstream(answer: SummaryAnswer, chat: &[Value]) -> ScriptedUpstream {
    let sentences = assistant_sentences(chat);
    start_upstream(move |number, body| {
        let summary = match (is_summary_request(body), answer) {
            (false, _) => return UpstreamAnswer::Json(200, said(&format!("answer {number}"), 0, 0)),
            (true, SummaryAnswer::Refusal) => "I'm sorry, I can't help with that.".to_owned(),
            (true, SummaryAnswer::WithoutOrders) => {
                let messages = body["messages"].as_array().unwrap();
                let summary = summary_without_orders(&text_of(messages), &sentences);
                let is_pruning = text_of(messages).contains("You prune the history");
                let pruned = json!({ "prunedConversation": [], "summary": summary }).to_string();
                if is_pruning { pruned } else { summary }
            }
        };
        UpstreamAnswer::Json(200, said(&summary, 0, 0))
    })
    .await
}

/// A chat that goes on until it was compacted so many times. Returns the text of the last request that reached the
/// upstream for an answer.
async fn last_request(
    receipts: &Receipts,
    orders: &[&str],
    strategy: &str,
    answer: SummaryAnswer,
    rounds: usize,
) -> String {
    let server = upstream(answer, &receipts.chat).await;
    let gateway = server.gateway(WINDOW_TOKENS);
    let mut messages = vec![json!({ "role": "system", "content": "You are a helpful assistant." })];
    let mut orders = orders.iter();
    let (mut compactions, mut new_chars, mut reason) = (0, 0, String::new());
    for turn in receipts.chat.iter().cycle() {
        new_chars += turn["content"].as_str().unwrap().len();
        messages.push(turn.clone());
        if turn["role"] != "user" {
            continue;
        }
        // An order follows upon each of the first exchanges, and is acknowledged.
        if let Some(order) = orders.next() {
            messages.extend([
                assistant("I see."),
                user(*order),
                assistant("All right."),
                user("Go on, please."),
            ]);
            continue;
        }
        if new_chars < STEP_TOKENS * 4 {
            continue;
        }
        new_chars = 0;
        let mut call = chat(request(&messages, false));
        call.headers.insert("x-longhaul-strategy", strategy.parse().unwrap());
        let reply = gateway.answer(call).await;
        assert_eq!(reply.status, StatusCode::OK, "{:?}", reply.headers);
        if header(&reply, "x-longhaul-action") == "compacted" {
            compactions += 1;
            reason = header(&reply, "x-longhaul-reason").to_owned();
        }
        messages.push(body_json(reply).await["choices"][0]["message"].clone());
        messages.push(user("And what else?"));
        gateway.settle().await;
        if compactions >= rounds {
            break;
        }
    }
    let last = server.main_requests().pop().unwrap().messages();
    assert!(last.len() < messages.len() / 2, "most of the chat is replaced");
    let text = text_of(&last);
    let is_summary = text.contains(LAST_SUMMARY_LINE);
    assert_eq!(
        is_summary,
        answer == SummaryAnswer::WithoutOrders,
        "{strategy}, {answer:?}: whose summary it is, {reason}"
    );
    text
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_orders_of_compint_given_in_one_chat_reach_the_upstream_word_for_word() {
    let Some(receipts) = receipts() else { return };
    let orders: Vec<&str> = receipts.orders.iter().map(String::as_str).collect();
    for strategy in STRATEGIES {
        for answer in [SummaryAnswer::Refusal, SummaryAnswer::WithoutOrders] {
            for rounds in [1, 5] {
                let sent = last_request(&receipts, &orders, strategy, answer, rounds).await;
                let missing: Vec<&&str> = orders.iter().filter(|order| !sent.contains(**order)).collect();
                let case = format!("{strategy}, {answer:?}, {rounds} rounds");
                println!("{case}: {} of {ORDERS}", ORDERS - missing.len());
                assert!(missing.is_empty(), "{case}: {missing:?}\n{sent}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_order_of_compint_given_in_a_chat_of_its_own_reaches_the_upstream_word_for_word() {
    let Some(receipts) = receipts() else { return };
    let mut missing = BTreeSet::new();
    for answer in [SummaryAnswer::Refusal, SummaryAnswer::WithoutOrders] {
        for order in &receipts.orders {
            let sent = last_request(&receipts, &[order], STRATEGIES[0], answer, 5).await;
            if !sent.contains(order.as_str()) {
                missing.insert(format!("{answer:?}: {order}"));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}
