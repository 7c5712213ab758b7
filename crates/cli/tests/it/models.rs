use serde_json::Value;

use crate::bench::Bench;
use crate::fake::{Fake, Say};

fn line<'a>(text: &'a str, start: &str) -> &'a str {
    text.lines().find(|line| line.starts_with(start)).unwrap_or_else(|| panic!("no line {start}: {text}"))
}

#[test]
fn the_models_are_listed_with_who_says_what() {
    let bench = Bench::new();
    let fake = Fake::start([]);
    bench.write(
        "longhaul.yml",
        &format!(
            "model: {{ name: fake-1, base_url: '{}' }}
models:
  fake-1: {{ maxOutput: 900, prices: {{ input: 0.5, output: 2 }} }}
  claude-sonnet-4-5: {{ window: 150000 }}
  my-own: {{ media: [] }}
",
            fake.url()
        ),
    );
    let text = bench.run(&["models"]).exits(0).out;
    let chosen = line(&text, "* fake-1");
    assert!(["16,000", "server", "900", "0.5 · – · 2"].iter().all(|part| chosen.contains(part)), "{text}");
    let talker = line(&text, "  talker-1");
    assert!(talker.contains("16,000") && talker.contains("no tools"), "{text}");
    let claude = line(&text, "  claude-sonnet-4-5");
    assert!(
        ["150,000", "declared", "64,000", "3 · 0.3 · 15"].iter().all(|part| claude.contains(part)),
        "{text}"
    );
    assert!(line(&text, "  my-own").contains("unknown"), "{text}");
    assert!(text.contains("list prices as of 20"), "{text}");

    let json = bench.run(&["models", "--json"]).exits(0).out;
    let models: Vec<Value> = serde_json::from_str(&json).unwrap();
    let named = |name: &str| models.iter().find(|model| model["name"] == name).unwrap();
    assert_eq!(models[0]["name"], "fake-1");
    assert_eq!((&named("fake-1")["chosen"], &named("talker-1")["served"]), (&true.into(), &true.into()));
    assert_eq!(named("fake-1")["window"]["source"], "server");
    assert_eq!(named("fake-1")["maxOutput"], serde_json::json!({ "value": 900, "source": "declared" }));
    assert_eq!(named("my-own")["abilities"]["images"]["value"], false);
    let claude = named("claude-sonnet-4-5");
    assert_eq!((&claude["served"], &claude["window"]["value"]), (&false.into(), &150_000.into()));
    assert_eq!(
        (&claude["prices"]["cachedInput"], &claude["prices"]["source"]),
        (&0.3.into(), &"catalogue".into())
    );
    assert_eq!(claude["catalogue"]["maker"], "anthropic");
    assert!(claude["catalogue"]["date"].as_str().is_some_and(|date| date.len() == 10));
}

#[test]
fn the_doctor_says_where_each_limit_comes_from() {
    let bench = Bench::new();
    let fake = Fake::start([]);
    let url = fake.url();
    let said = bench.run(&["--base-url", &url, "--model", "fake-1", "doctor"]).exits(0).out;
    assert!(line(&said, "window").contains("16,000 tokens · server"), "{said}");
    let known = bench.run(&["--base-url", &url, "--model", "gpt-4o", "doctor"]).exits(0).out;
    assert!(line(&known, "window").contains("128,000 tokens · catalogue"), "{known}");
    assert!(line(&known, "output").contains("16,384 tokens · catalogue"), "{known}");
    assert!(line(&known, "takes").contains("images (catalogue)"), "{known}");
    assert!(line(&known, "prices").contains("$2.5 in · $1.25 cached · $10 out"), "{known}");
    let trained = bench.run(&["--base-url", &url, "--model", "qwen3-8b", "doctor"]).exits(0).out;
    assert!(line(&trained, "window").contains("not stated; 32,000 is assumed; at most 40,960"), "{trained}");
    bench.write(
        "longhaul.yml",
        &format!("model: {{ name: qwen3-8b, base_url: '{url}', context_window: 200000 }}"),
    );
    let declared = bench.run(&["doctor"]).exits(0).out;
    assert!(
        line(&declared, "window").contains("200,000 tokens · declared, which is more than the 40,960"),
        "{declared}"
    );
}

#[test]
fn the_scripted_model_needs_no_server() {
    let text = Bench::new().run(&["--provider", "scripted", "models"]).exits(0).out;
    assert_eq!(text.lines().filter(|line| line.starts_with('*')).count(), 1, "{text}");
}

#[test]
fn a_window_that_an_overflow_error_named_is_shown_as_learned() {
    let bench = Bench::new();
    let refusal = "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens. Please reduce the length of the messages.";
    let fake = Fake::start([Say::Refuse(400, refusal)]);
    let url = fake.url();
    let model = ["--base-url", url.as_str(), "--model", "qwen3-8b"];
    let with = |args: &[&str]| bench.run(&[&model[..], args].concat());
    assert!(line(&with(&["doctor"]).exits(0).out, "window").contains("not stated"));
    // The second request shows the beginning and the end of the message.
    with(&["run", &"a long story ".repeat(3_000)]).exits(0);
    let doctor = with(&["doctor"]).exits(0).out;
    assert!(line(&doctor, "window").contains("8,192 tokens · learned from an overflow error"), "{doctor}");
    let models = with(&["models"]).exits(0).out;
    let chosen = line(&models, "* qwen3-8b");
    assert!(chosen.contains("8,192") && chosen.contains("learned"), "{models}");
}
