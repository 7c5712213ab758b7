//! `/v1` of the real binary: what a client goes on from after a restart, and whom a request is for that names nobody.

use serde_json::{Value, json};

use crate::bench::Bench;
use crate::fake::{Fake, Say};
use crate::gateway::post;
use crate::serve::{end, start};

const SERVE: [&str; 3] = ["serve", "--addr", "127.0.0.1:0"];

/// The body of an answer that is not coded in pieces.
fn body(answer: &str) -> Value {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {head}\n{body}"))
}

fn responses(address: &str, asked: &Value) -> Value {
    body(&post(address, "/v1/responses", &["authorization: Bearer me"], &asked.to_string()))
}

/// The id in the last event of a stream.
fn id_of(stream: &str) -> String {
    let last = stream.lines().rev().find_map(|line| line.strip_prefix("data: ")).unwrap();
    let last: Value = serde_json::from_str(last).unwrap();
    last["response"]["id"].as_str().unwrap().to_owned()
}

#[test]
fn an_answer_is_gone_on_from_after_a_restart() {
    let (bench, fake) =
        (Bench::new(), Fake::start(["Hello Ada.", "Hello Bob.", "Psst.", "Ada and Bob."].map(Say::Text)));
    let (mut server, address, _said) = start(bench.with(&fake, &SERVE));
    let first = responses(&address, &json!({ "model": "fake-1", "input": "I am Ada." }));
    let asked = json!({ "model": "fake-1", "input": "And Bob.", "previous_response_id": first["id"], "stream": true });
    let stream = post(&address, "/v1/responses", &["authorization: Bearer me"], &asked.to_string());
    let second = id_of(&stream);
    let unkept = responses(&address, &json!({ "model": "fake-1", "input": "Forget it.", "store": false }));
    end(&mut server);

    let (mut server, address, _said) = start(bench.with(&fake, &SERVE));
    let asked = json!({ "model": "fake-1", "input": "Who are we?", "previous_response_id": second });
    let third = responses(&address, &asked);
    assert_eq!(third["output"][0]["content"][0]["text"], "Ada and Bob.", "{third}");
    let sent = fake.asked().pop().unwrap();
    let said: Vec<&str> = sent["messages"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|message| message["content"].as_str())
        .collect();
    assert_eq!(said, ["I am Ada.", "Hello Ada.", "And Bob.", "Hello Bob.", "Who are we?"]);
    let refused = responses(
        &address,
        &json!({ "model": "fake-1", "input": "?", "previous_response_id": unkept["id"] }),
    );
    assert_eq!(
        refused["error"]["code"], "previous_response_not_found",
        "store: false keeps nothing: {refused}"
    );
    let other = json!({ "model": "fake-1", "input": "?", "previous_response_id": second }).to_string();
    let refused = body(&post(&address, "/v1/responses", &["authorization: Bearer other"], &other));
    assert_eq!(refused["error"]["code"], "previous_response_not_found", "it is another's: {refused}");
    end(&mut server);
}

#[test]
fn a_request_that_names_no_model_is_for_the_one_that_the_file_names() {
    let (listed, own) =
        (Fake::start([Say::Text("From the box.")]), Fake::start([Say::Text("From the file's.")]));
    let upstreams = format!(
        "gateway:\n  upstreams:\n    - name: box\n      base_url: {}\n      models: {{ coder: {{ model: fake-1 }} }}\n",
        listed.url()
    );
    let model = format!("model: {{ name: own-1, base_url: \"{}\" }}\n", own.url());
    for (file, is_own) in [(format!("{model}{upstreams}"), true), (upstreams, false)] {
        let bench = Bench::new();
        bench.write("longhaul.yml", &file);
        let (mut server, address, _said) = start(bench.command(SERVE));
        let asked = json!({ "messages": [{ "role": "user", "content": "hello" }] }).to_string();
        let answer = post(&address, "/v1/chat/completions", &[], &asked);
        assert!(answer.contains(if is_own { "From the file's." } else { "From the box." }), "{answer}");
        end(&mut server);
    }
    assert_eq!((&own.asked()[0]["model"], &listed.asked()[0]["model"]), (&json!("own-1"), &json!("fake-1")));
}
