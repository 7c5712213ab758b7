//! `gateway.upstreams` of the real binary: who is told of them, and whose file may name them.

use std::io::{Read as _, Write as _};

use crate::bench::Bench;
use crate::fake::{Fake, Say};
use crate::gateway::post;
use crate::serve::{end, start};

fn file(url: &str) -> String {
    format!(
        "gateway:\n  upstreams:\n    - name: box\n      base_url: {url}\n      api_key_env: BOX_KEY\n      models:\n        coder: {{ model: fake-1, window: 9000 }}\n"
    )
}

#[test]
fn doctor_and_clients_are_told_of_them() {
    let (bench, fake) = (Bench::new(), Fake::start([Say::Text("From the box.")]));
    bench.write("longhaul.yml", &file(&fake.url()));
    let told = bench.run(&["doctor"]).exits(0).out;
    let expected = format!("box: openai-compatible at {} · coder · BOX_KEY is not set", fake.url());
    assert!(told.contains(&expected), "{told}");

    let (mut server, address, mut said) = start(bench.command(["serve", "--addr", "127.0.0.1:0"]));
    let ask = |request: &str| {
        let mut stream = std::net::TcpStream::connect(&address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let models = ask(&format!("GET /v1/models HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n"));
    assert!(models.contains(r#""id":"coder""#) && models.contains(r#""window":9000"#), "{models}");
    assert_eq!(models.matches(r#""id":"#).count(), 1, "the demo's model is behind no gateway: {models}");
    let body = r#"{"model":"coder","stream":true,"messages":[{"role":"user","content":"hello"}]}"#;
    let answer = ask(&format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: {address}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    ));
    assert!(answer.contains("From") && answer.contains("x-longhaul-upstream: box"), "{answer}");
    assert_eq!(fake.asked()[0]["model"], "fake-1");
    end(&mut server);
    let mut told = String::new();
    said.read_to_string(&mut told).unwrap();
    let unset = told
        .lines()
        .find(|line| line.starts_with("note   BOX_KEY, which api_key_env names for the upstream box in "));
    assert!(unset.is_some_and(|line| line.ends_with("longhaul.yml, is not set: no key is sent")), "{told}");
}

#[test]
fn a_found_file_may_not_name_servers_elsewhere() {
    let bench = Bench::new();
    bench.write("longhaul.yml", &file("https://box.example/v1"));
    let refused = bench.run(&["wrap", "openai"]).exits(2);
    assert!(refused.err.contains("sends conversations to https://box.example"), "{}", refused.err);
    bench.run(&["--config", "longhaul.yml", "wrap", "openai"]).exits(0);
    bench.run(&["wrap", "openai"]).exits(0);
}

#[test]
fn a_silent_server_is_waited_for_as_long_as_the_file_says() {
    let (bench, fake) = (Bench::new(), Fake::start([Say::Stall(""), Say::Stall("Second ")]));
    let listed = file(&fake.url()).replace("api_key_env: BOX_KEY", "timeout: 300ms");
    let model = format!("{{ name: fake-1, base_url: \"{}\", timeout: 400ms }}", fake.url());
    bench.write(
        "longhaul.yml",
        &format!("model: {model}\nretry: {{ patience: 0s, streamAttempts: 0 }}\n{listed}"),
    );
    let given = bench.run(&["run", "hello"]);
    assert!(given.err.contains("400 ms") && given.err.contains("`model.timeout`"), "{given:?}");
    assert_eq!(fake.asked().len(), 1, "a server that is alive is not asked again");

    let (mut server, address, _said) = start(bench.command(["serve", "--addr", "127.0.0.1:0"]));
    let body = r#"{"model":"coder","stream":true,"messages":[{"role":"user","content":"hello"}]}"#;
    let answer = post(&address, "/v1/chat/completions", &[], body);
    assert!(answer.contains("Second") && answer.contains("was silent for 0.3 s"), "{answer}");
    end(&mut server);
}
