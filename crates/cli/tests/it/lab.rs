use serde_json::{Value, json};

use crate::bench::{Bench, fed};

/// A conversation of `turns` turns in which a path of the first is used again in the last.
fn recorded(turns: usize) -> String {
    let mut messages = Vec::new();
    for turn in 0..turns {
        let asked = format!("Question {turn}: what does src/part_{turn}.rs do, and why?");
        messages.push(json!({ "role": "user", "content": asked }));
        let filling =
            format!("It holds part {turn} of the machine, with its own rules and words. ").repeat(20);
        let again = if turn + 1 == turns { "As in src/part_0.rs. " } else { "" };
        messages.push(json!({ "role": "assistant", "content": format!("{again}{filling}") }));
    }
    Value::from(messages).to_string()
}

#[test]
fn sessions_are_replayed_and_told_as_a_table() {
    let bench = Bench::new();
    let file = bench.write("long.json", &recorded(30));
    let args = [
        "lab",
        "replay",
        file.to_str().unwrap(),
        "--policy",
        "append-only,adaptive,codex",
        "--min-tokens",
        "1000",
    ];
    let given = bench.run(&args).exits(0);
    assert!(given.out.starts_with("openai-messages · prices anthropic-sonnet\n"), "{}", given.out);
    assert_eq!(
        given.out.lines().filter(|line| line.starts_with("    adaptive ")).count(),
        3 + 2,
        "{}",
        given.out
    );
    for said in
        ["(25 % of the peak)", "Medians · openai-messages", "A replay is not counterfactual", "Goals "]
    {
        assert!(given.out.contains(said), "{said}: {}", given.out);
    }
    assert!(given.out.lines().all(|line| line.chars().count() <= 100), "{}", given.out);
    assert!(given.err.contains("1 session, 9 replays"), "{}", given.err);
}

#[test]
fn the_report_is_one_object_or_one_page() {
    let bench = Bench::new();
    let file = bench.write("long.json", &recorded(20));
    let file = file.to_str().unwrap();
    let usual =
        ["lab", "replay", file, "--policy", "append-only,codex", "--window", "3000", "--min-tokens", "0"];
    let json = bench.run(&[&usual[..], &["--prices", "deepseek,local", "--json"]].concat()).exits(0).out;
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["outcomes"].as_array().unwrap().len(), 4);
    assert_eq!(json["outcomes"][0]["window"], 3_000);
    assert_eq!(json["header"]["priceSources"].as_array().unwrap().len(), 2);
    let page = bench.work().join("report.html");
    let args = [&usual[..], &["--html", page.to_str().unwrap()]].concat();
    assert!(bench.run(&args).exits(0).out.is_empty());
    let first = std::fs::read_to_string(&page).unwrap();
    assert!(first.starts_with("<!doctype html>") && first.contains("lab replay"));
    bench.run(&args).exits(0);
    assert_eq!(std::fs::read_to_string(&page).unwrap(), first, "the same again, over the report before");
    let other = bench.write("notes.html", "<!doctype html><title>My notes</title>");
    let refused = bench.run(&[&usual[..], &["--html", other.to_str().unwrap()]].concat()).exits(2);
    assert!(refused.err.contains("is not a lab report; it is not overwritten"), "{}", refused.err);
    assert!(std::fs::read_to_string(&other).unwrap().contains("My notes"));
}

#[test]
fn a_score_says_what_each_policy_kept() {
    let bench = Bench::new();
    let file = bench.write("long.json", &recorded(30));
    let file = file.to_str().unwrap();
    let given = bench.run(&["lab", "score", file, "--window", "3000"]).exits(0);
    for said in [
        "long · 3000 tokens · removed facts: paths",
        "long · 3000 tokens · waiting",
        "by the user: only a person can",
    ] {
        assert!(given.out.contains(said), "{said}: {}", given.out);
    }
    let json = bench.run(&["lab", "score", file, "--window", "3000", "--json"]).exits(0).out;
    let json: Value = serde_json::from_str(&json).unwrap();
    assert!(json["rows"].as_array().unwrap().len() > 20, "{json}");
    let page = bench.work().join("score.html");
    bench.run(&["lab", "score", file, "--html", page.to_str().unwrap()]).exits(0);
    assert!(std::fs::read_to_string(&page).unwrap().contains("<title>Lab report"));
    let missing = bench.run(&["lab", "score", "--receipts", "no-such-folder"]).exits(2);
    assert!(missing.err.contains("filler.json.gz"), "{}", missing.err);
}

#[test]
fn what_means_nothing_is_bad_usage() {
    let bench = Bench::new();
    let file = bench.write("short.json", &recorded(2));
    let file = file.to_str().unwrap();
    let bad = bench.write("bad.txt", "not a conversation");
    let folder = bench.work();
    let cases: [(&[&str], &str); 9] = [
        (&["lab", "replay"], "required"),
        (&["lab", "replay", file], "no session has 8,000 tokens"),
        (&["lab", "replay", file, "--policy", "magic"], "no policy is called magic; there are append-only"),
        (&["lab", "replay", file, "--window", "200%"], "--window 200%"),
        (&["lab", "replay", file, "--prices", "gold"], "no price table is called gold"),
        (&["lab", "replay", file, "--json", "--html", "x.html"], "cannot be used with"),
        (&["lab", "replay", "nowhere.json"], "nowhere.json: "),
        (&["lab", "replay", bad.to_str().unwrap()], "bad.txt: unknown format"),
        (&["lab", "replay", folder.to_str().unwrap()], "is a folder; name the files in it"),
    ];
    for (args, said) in cases {
        let given = bench.run(args).exits(2);
        assert!(given.out.is_empty() && given.err.contains(said), "{args:?}: {given:?}");
    }
}

#[test]
fn a_pipe_is_read_and_sessions_of_one_file_are_told_apart() {
    let bench = Bench::new();
    let messages: Value = serde_json::from_str(&recorded(10)).unwrap();
    let run = |id: u32| json!({ "task_id": id, "reward": 1.0, "traj": messages });
    let args =
        ["lab", "replay", "-", "--policy", "append-only", "--window", "50%", "--min-tokens", "0", "--json"];
    let given = fed(bench.command(args), json!([run(0), run(1)]).to_string()).exits(0);
    let json: Value = serde_json::from_str(&given.out).unwrap();
    let names: Vec<&str> =
        json["outcomes"].as_array().unwrap().iter().map(|it| it["recording"].as_str().unwrap()).collect();
    assert_eq!(names, ["standard input #1", "standard input #2"]);
    assert_eq!(json["outcomes"][0]["group"], "tau-bench");
}

#[test]
fn the_options_of_the_agent_file_count() {
    let bench = Bench::new();
    let file = bench.write("long.json", &recorded(20));
    let replay = ["lab", "replay", file.to_str().unwrap(), "--window", "4000", "--min-tokens", "0", "--json"];
    let named = ["--policy", "truncation,importance"];
    let replayed = |config: &[&str]| -> Value {
        let given = bench.run(&[config, &replay[..], &named[..]].concat()).exits(0);
        serde_json::from_str(&given.out).unwrap()
    };
    let usual = replayed(&[]);
    let text = "context: { compression: { strategy: truncation, options: { keepRecent: 2 } } }";
    let config = bench.write("other.yml", text);
    let config = ["--config", config.to_str().unwrap()];
    let configured = replayed(&config);
    let outcome = |report: &Value, at: usize| report["outcomes"][at].clone();
    assert_ne!(outcome(&configured, 0), outcome(&usual, 0), "truncation has the file's options");
    assert_eq!(outcome(&configured, 1), outcome(&usual, 1), "importance has its own");
    let said = format!("truncation acts with the options of {}.", config[1]);
    assert!(configured["header"]["assumptions"].to_string().contains(&said), "{}", configured["header"]);
    assert!(configured["header"]["command"].as_str().unwrap().starts_with("longhaul --config "));
    let table = bench.run(&[&config[..], &replay[..7], &named[..]].concat()).exits(0).out;
    assert!(table.split_whitespace().collect::<Vec<_>>().join(" ").contains(&said), "{table}");
    let nothing = bench.write("plain.yml", "run: { maxSteps: 3 }");
    assert_eq!(replayed(&["--config", nothing.to_str().unwrap()]), usual);
}
