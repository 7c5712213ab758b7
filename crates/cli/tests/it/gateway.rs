//! `/v1` of the real binary: whom it answers, and what comes through.

use std::io::{BufRead, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::bench::{Bench, until};
use crate::fake::{Fake, Say};
use crate::serve::{ask, end, start, token};

/// A request as the lines of its head and a body; the whole answer.
pub(crate) fn post(address: &str, path: &str, head: &[&str], body: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let (length, lines) = (body.len(), head.join("\r\n"));
    let gap = if head.is_empty() { "" } else { "\r\n" };
    write!(
        stream,
        "POST {path} HTTP/1.1\r\nhost: {address}\r\ncontent-length: {length}\r\nconnection: close\r\n{lines}{gap}\r\n{body}"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap()
}

const CHAT: &str = "/v1/chat/completions";
const BODY: &str =
    r#"{"model":"fake-1","stream":true, "messages":[{"role":"user","content":"hello"}],"seed":1.50}"#;

#[test]
fn programs_of_this_machine_are_answered_and_foreign_pages_are_not() {
    let (bench, fake) = (Bench::new(), Fake::start([Say::Text("Through and through.")]));
    let (mut server, address, _said) = start(bench.with(&fake, &["serve", "--addr", "127.0.0.1:0"]));

    let answer = post(&address, CHAT, &["authorization: Bearer whatever"], BODY);
    assert_eq!(status(&answer), "200", "{answer}");
    assert!(answer.contains("Through") && answer.contains("[DONE]"), "{answer}");
    assert!(answer.contains("x-longhaul-action: none"), "{answer}");
    let asked = fake.asked();
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0], serde_json::from_str::<serde_json::Value>(BODY).unwrap(), "as it was sent");
    assert!(fake.authorisations().is_empty(), "the caller's key is not passed on");

    for (head, code) in
        [("origin: http://evil.example", "permission_denied"), ("origin: null", "permission_denied")]
    {
        let answer = post(&address, CHAT, &[head], BODY);
        assert_eq!(status(&answer), "403", "{answer}");
        assert!(answer.contains(code) && answer.contains(r#""error""#), "in the dialect: {answer}");
    }
    let answer = post(&address, CHAT, &["x-forwarded-for: 203.0.113.9"], BODY);
    assert_eq!(status(&answer), "401", "a proxy asks for somebody else: {answer}");
    let answer = post(&address, "/v1/audio/speech", &[], "{}");
    assert!(
        status(&answer) == "404" && answer.contains(r#""code":"unknown_url""#),
        "in the dialect: {answer}"
    );
    assert_eq!(status(&post(&address, "/api/message", &[], "{}")), "401", "only the gateway is open");
    assert_eq!(fake.asked().len(), 1);
    end(&mut server);
}

#[test]
fn it_can_ask_for_the_token_as_a_key() {
    let (bench, fake) = (Bench::new(), Fake::start([]));
    let url = fake.url();
    let file = format!(
        "model: {{ name: fake-1, base_url: \"{url}\" }}\ngateway: {{ auth: token, credentials: forward }}\n"
    );
    let path = bench.write("longhaul.yml", &file);
    // A file that was merely found may not have callers' keys passed on.
    let args = ["--config", path.to_str().unwrap(), "serve", "--addr", "127.0.0.1:0"];
    let (mut server, address, _said) = start(bench.command(args));
    let token = token(&bench);

    assert_eq!(status(&post(&address, CHAT, &[], BODY)), "401");
    assert_eq!(status(&post(&address, CHAT, &["authorization: Bearer wrong"], BODY)), "401");
    assert!(fake.asked().is_empty());
    assert_eq!(status(&post(&address, CHAT, &[&format!("authorization: Bearer {token}")], BODY)), "200");
    let answer = post(
        &address,
        "/v1/messages",
        &[&format!("x-api-key: {token}")],
        r#"{"model":"fake-1","max_tokens":50,"messages":[{"role":"user","content":"hi"}]}"#,
    );
    assert!(status(&answer) == "200" && answer.contains("end_turn"), "another dialect: {answer}");
    assert_eq!(fake.asked().len(), 2);
    assert!(fake.authorisations().is_empty(), "the token stays here: {:?}", fake.authorisations());
    end(&mut server);
}

/// What `/v1/models` says of the window of a model.
fn window(address: &str, token: &str, model: &str) -> (u64, String) {
    let (status, list) = ask(address, "GET", "/v1/models", token, "");
    assert_eq!(status, 200, "{list}");
    let entry = list["data"].as_array().unwrap().iter().find(|entry| entry["id"] == model);
    let said = &entry.unwrap_or_else(|| panic!("{list}"))["x_longhaul"];
    (said["window"].as_u64().unwrap(), said["window_source"].as_str().unwrap().to_owned())
}

#[test]
fn everybody_in_the_process_knows_the_same_window() {
    const REFUSAL: &str =
        "This model's maximum context length is 9000 tokens. However, your messages resulted in 9700 tokens.";
    let (bench, fake) = (Bench::new(), Fake::start([Say::Text("Hi."), Say::Refuse(400, REFUSAL)]));
    let file = format!(
        "model: {{ name: other-1, base_url: \"{}\" }}\nmodels: {{ fake-1: {{ window: 7000 }} }}\n\
         agents: {{ far: {{ model: {{ name: only-far, base_url: \"http://127.0.0.1:9/v1\" }} }} }}\n",
        fake.url()
    );
    bench.write("longhaul.yml", &file);
    let (mut server, address, mut said) = start(bench.command(["serve", "--addr", "127.0.0.1:0"]));
    let hint = said.by_ref().lines().map(Result::unwrap).find(|line| line.contains("is unknown: 32,000"));
    let hint = hint.unwrap();
    assert!(
        hint.contains("the window of other-1 is unknown") && hint.contains("context_window: N"),
        "{hint}"
    );
    let token = token(&bench);
    assert_eq!(window(&address, &token, "other-1"), (32_000, "assumed".to_owned()));
    assert_eq!(window(&address, &token, "talker-1"), (16_000, "discovered".to_owned()));
    assert_eq!(window(&address, &token, "fake-1"), (7_000, "stated".to_owned()));
    let (_, list) = ask(&address, "GET", "/v1/models", &token, "");
    let has = |id: &str| list["data"].as_array().unwrap().iter().any(|entry| entry["id"] == id);
    assert!(
        has("far") && !has("only-far"),
        "the model of an agent elsewhere is not behind the gateway: {list}"
    );
    let current = |token: &str| ask(&address, "GET", "/api/models", token, "").1["current"]["window"].clone();
    assert_eq!(current(&token), Value::Null);

    let (_, sent) = ask(&address, "POST", "/api/message", &token, r#"{"content":"hello"}"#);
    let open = format!("/api/sessions/{}", sent["sessionId"].as_str().unwrap());
    let is_idle = || ask(&address, "GET", &open, &token, "").1["status"] == "idle";
    crate::bench::until("it is answered", || !fake.asked().is_empty() && is_idle());

    // The gateway is refused, and learns.
    let messages: Vec<Value> = (0..40)
        .map(|at: usize| {
            let role = if at.is_multiple_of(2) { "user" } else { "assistant" };
            json!({ "role": role, "content": format!("{at} {}", "stone river paper cloud ".repeat(60)) })
        })
        .chain([json!({ "role": "user", "content": "go on" })])
        .collect();
    let body = json!({ "model": "other-1", "messages": messages, "stream": true }).to_string();
    let answer = post(&address, CHAT, &[], &body);
    assert_eq!(status(&answer), "200", "{answer}");
    assert!(answer.contains("x-longhaul-window: 9000 (learned)"), "{answer}");
    assert_eq!(window(&address, &token, "other-1"), (9_000, "learned".to_owned()));
    assert_eq!(current(&token), 9_000, "the page's start knows it");
    // A session that is open, and a new one.
    let again = json!({ "content": "hello", "sessionId": sent["sessionId"] }).to_string();
    for message in [again, json!({ "content": "hello" }).to_string()] {
        let (_, sent) = ask(&address, "POST", "/api/message", &token, &message);
        let context = format!("/api/sessions/{}/context", sent["sessionId"].as_str().unwrap());
        let begun = Instant::now();
        let seen = loop {
            let (_, context) = ask(&address, "GET", &context, &token, "");
            if context["windowSource"] == "learned" || begun.elapsed() > Duration::from_secs(30) {
                break context;
            }
            std::thread::sleep(Duration::from_millis(50));
        };
        let found = (&seen["window"], &seen["windowSource"]);
        assert_eq!(found, (&json!(9_000), &json!("learned")), "{message}");
    }
    end(&mut server);

    // And so does the next process.
    let (mut server, address, _said) = start(bench.command(["serve", "--addr", "127.0.0.1:0"]));
    assert_eq!(window(&address, &token, "other-1"), (9_000, "learned".to_owned()));
    end(&mut server);
}

#[test]
fn what_a_session_has_learned_of_the_window_the_gateway_knows() {
    const REFUSAL: &str =
        "This model's maximum context length is 5000 tokens. However, your messages resulted in 5100 tokens.";
    let (bench, fake) = (Bench::new(), Fake::start([Say::Refuse(400, REFUSAL), Say::Text("So it is.")]));
    bench.write("longhaul.yml", &format!("model: {{ name: other-1, base_url: \"{}\" }}\n", fake.url()));
    let (mut server, address, _said) = start(bench.command(["serve", "--addr", "127.0.0.1:0"]));
    let token = token(&bench);
    assert_eq!(window(&address, &token, "other-1").1, "assumed");
    let text = "stone river paper cloud ".repeat(700);
    let (_, sent) = ask(&address, "POST", "/api/message", &token, &json!({ "content": text }).to_string());
    let session = format!("/api/sessions/{}", sent["sessionId"].as_str().unwrap());
    crate::bench::until("the run has ended", || {
        ask(&address, "GET", &session, &token, "").1["status"] == "idle" && !fake.asked().is_empty()
    });
    assert_eq!(window(&address, &token, "other-1"), (5_000, "learned".to_owned()));
    let answer = post(&address, CHAT, &[], &BODY.replace("fake-1", "other-1"));
    assert!(answer.contains("x-longhaul-window: 5000 (learned)"), "{answer}");
    end(&mut server);
}

#[test]
fn headers_of_an_upstream_go_there_and_nowhere_else() {
    let (bench, fake) = (
        Bench::new(),
        Fake::start([Say::Refuse(400, "no: Bearer s3cret-key is not mine"), Say::Text("Well.")]),
    );
    let file = format!(
        "gateway:\n  upstreams:\n    - name: box\n      base_url: {}\n      headers: {{ authorization: Bearer s3cret-key }}\n      models: {{ coder: {{ model: fake-1 }} }}\n",
        fake.url()
    );
    bench.write("longhaul.yml", &file);
    let (mut server, address, mut said) = start(bench.command(["serve", "--addr", "127.0.0.1:0"]));
    let body = BODY.replace("fake-1", "coder");
    let refused = post(&address, CHAT, &[], &body);
    assert!(status(&refused) == "400" && !refused.contains("s3cret"), "{refused}");
    // A request without a model is for the first that is listed.
    let answer = post(&address, CHAT, &[], &body.replace(r#""model":"coder","#, ""));
    assert!(answer.contains("Well."), "{answer}");
    assert_eq!(fake.asked()[1]["model"], "fake-1");
    assert_eq!(fake.authorisations(), ["Bearer s3cret-key", "Bearer s3cret-key"]);
    end(&mut server);
    let mut log = String::new();
    said.read_to_string(&mut log).unwrap();
    assert!(!log.contains("s3cret"), "{log}");
}

#[test]
fn a_model_can_look_up_what_it_is_no_longer_shown_if_the_file_says_so() {
    let search = json!({ "query": "heron" });
    let (bench, fake) =
        (Bench::new(), Fake::start([Say::Call("recall", search), Say::Text("With heron-4711.")]));
    let file = format!(
        "model: {{ name: fake-1, base_url: \"{}\", context_window: 5000 }}\ngateway: {{ recall: inject }}\n",
        fake.url()
    );
    bench.write("longhaul.yml", &file);
    let (mut server, address, _said) = start(bench.command(["serve", "--addr", "127.0.0.1:0"]));
    let say = |at: usize| {
        let role = if at.is_multiple_of(2) { "user" } else { "assistant" };
        let first = if at == 0 { "The vault opens with heron-4711." } else { "" };
        json!({ "role": role, "content": format!("{first} {at} {}", "stone river paper cloud ".repeat(60)) })
    };
    let question = json!({ "role": "user", "content": "How does the vault open?" });
    let messages: Vec<Value> = (0..30).map(say).chain([question]).collect();
    let body = json!({ "model": "fake-1", "messages": messages, "stream": true }).to_string();
    let answer = post(&address, CHAT, &["x-longhaul-strategy: truncation"], &body);
    assert!(answer.contains("x-longhaul-recall: added"), "{answer}");
    assert!(answer.contains("heron-4711.") && !answer.contains("tool_calls"), "{answer}");
    let asked = fake.asked();
    assert_eq!(asked.len(), 2);
    assert!(
        !asked[0].to_string().contains("heron") && asked[1].to_string().contains("opens with heron-4711")
    );
    end(&mut server);
}

/// A conversation of about 90 tokens a message.
fn long(messages: usize) -> String {
    let messages: Vec<Value> = (0..messages)
        .map(|at: usize| {
            let role = if at.is_multiple_of(2) { "user" } else { "assistant" };
            json!({ "role": role, "content": format!("{at} {}", "stone river paper cloud ".repeat(20)) })
        })
        .collect();
    json!({ "model": "fake-1", "messages": messages }).to_string()
}

/// What the gateway of a file with this `context:` answers, and what its models were asked until `is_enough` holds of
/// that, or for some seconds.
fn shortened_until(
    context: &str,
    messages: usize,
    window: u32,
    is_enough: impl Fn(&[Value]) -> bool,
) -> (String, Vec<Value>) {
    let (bench, fake) = (Bench::new(), Fake::start([Say::Text("First."), Say::Text("Second.")]));
    let model = format!("{{ name: fake-1, base_url: \"{}\", context_window: {window} }}", fake.url());
    bench.write("longhaul.yml", &format!("model: {model}\ncontext: {context}\n"));
    let (mut server, address, _said) = start(bench.command(["serve", "--addr", "127.0.0.1:0"]));
    let answer = post(&address, CHAT, &[], &long(messages));
    let begun = Instant::now();
    while !is_enough(&fake.asked()) && begun.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(20));
    }
    end(&mut server);
    (answer, fake.asked())
}

/// The same, looked at as soon as there is an answer.
fn shortened(context: &str, messages: usize, window: u32) -> (String, Vec<Value>) {
    shortened_until(context, messages, window, |_| true)
}

#[test]
fn conversations_are_shortened_as_the_file_says() {
    let (answer, asked) = shortened("{ compression: { strategy: truncation } }", 31, 8_000);
    assert!(answer.contains("x-longhaul-action: none") && asked.len() == 1, "{answer}");
    let early = "{ compression: { strategy: truncation, trigger: { type: threshold, percentage: 0.2 } } }";
    let (answer, asked) = shortened(early, 31, 8_000);
    assert!(answer.contains("x-longhaul-action: compacted"), "{answer}");
    assert_eq!(asked.len(), 1, "truncation asks nobody");
    assert!(asked[0]["messages"].as_array().unwrap().len() < 31);
    let (answer, asked) = shortened("{ enabled: false }", 31, 2_000);
    assert!(answer.contains("First.") && asked[0]["messages"].as_array().unwrap().len() == 31, "{answer}");
}

#[test]
fn summaries_are_written_by_whom_the_file_names() {
    for context in [
        "{ compression: { strategy: summarization, options: { summarizeWith: small } } }",
        "{ pruningAgent: small }",
        "{ compression: { options: { summarizeWith: small } } }",
    ] {
        let (answer, asked) = shortened_until(context, 241, 16_000, |asked| asked.len() > 1);
        assert_eq!(status(&answer), "200", "{context}: {answer}");
        let models: Vec<&str> = asked.iter().map(|asked| asked["model"].as_str().unwrap()).collect();
        // The answer comes first: nobody waits for a summary.
        let (first, summaries) = models.split_first().unwrap();
        assert_eq!(*first, "fake-1", "{context}");
        assert!(
            !summaries.is_empty() && summaries.iter().all(|model| *model == "small"),
            "{context}: {models:?}"
        );
    }
    let (answer, asked) = shortened(
        "{ compression: { strategy: summarization, options: { summarizeWith: extract } } }",
        61,
        4_000,
    );
    assert_eq!((status(&answer), asked.len()), ("200", 1), "{answer}");
}

#[test]
fn settings_of_the_page_hold_for_the_next_request() {
    let (bench, fake) = (Bench::new(), Fake::start([]));
    let model = format!("{{ name: fake-1, base_url: \"{}\", context_window: 16000 }}", fake.url());
    let context = "{ compression: { strategy: truncation } }";
    bench.write("longhaul.yml", &format!("model: {model}\ncontext: {context}\n"));
    let (mut server, address, _said) = start(bench.command(["serve", "--addr", "127.0.0.1:0"]));
    let change = |settings: Value| {
        let (status, answer) = ask(&address, "PUT", "/api/settings", &token(&bench), &settings.to_string());
        assert_eq!(status, 200, "{answer}");
    };
    let answer = post(&address, CHAT, &[], &long(31));
    assert!(answer.contains("x-longhaul-action: none"), "{answer}");
    change(json!({ "trigger": { "percentage": 0.1 } }));
    let answer = post(&address, CHAT, &[], &long(31));
    assert!(answer.contains("x-longhaul-action: compacted"), "{answer}");
    assert_eq!(fake.asked().len(), 2, "truncation asks nobody");

    change(json!({ "strategy": "pruning-agent", "pruningAgent": "talker-1", "trigger": null }));
    let answer = post(&address, CHAT, &[], &long(241));
    assert_eq!(status(&answer), "200", "{answer}");
    until("the pruning agent is asked", || fake.asked().len() > 3);
    end(&mut server);
    let asked = fake.asked();
    assert_eq!((&asked[2]["model"], &asked[3]["model"]), (&json!("fake-1"), &json!("talker-1")));
}
