//! Recorded errors of every wire: the overflows among them are recognised, the others never.

use longhaul_providers::overflow::{Overflow, recognise};

use crate::fixtures::{self, streams};

#[test]
fn recorded_errors_are_told_apart() {
    let Some(root) = streams("recorded_errors_are_told_apart") else { return };
    let mut errors: Vec<_> = fixtures::cassettes(&root)
        .into_iter()
        .filter(|exchange| exchange.status >= 400)
        .map(|exchange| (exchange.file, exchange.status, exchange.body))
        .collect();
    let (overflows, others): (Vec<_>, Vec<_>) =
        errors.drain(..).partition(|(file, ..)| file.contains("context_overflow"));
    assert!(others.len() >= 40, "{} recorded errors", others.len());
    for (file, status, body) in &others {
        assert_eq!(recognise(Some(*status), body), None, "{file}: {status} {body}");
        assert_eq!(recognise(None, body), None, "{file} without its status: {body}");
    }
    let expected = Overflow { used_tokens: Some(2009), limit_tokens: Some(512) };
    assert!(!overflows.is_empty());
    for (file, status, body) in &overflows {
        assert_eq!(recognise(Some(*status), body), Some(expected), "{file}");
    }
    println!("{} recorded errors, {} overflows, 0 false", others.len() + overflows.len(), overflows.len());
}

#[test]
fn the_running_llama_server_is_understood() {
    let Some(root) = streams("the_running_llama_server_is_understood") else { return };
    let read = |name: &str| {
        std::fs::read_to_string(root.join("llamacpp/live-xllamacpp").join(format!("{name}.response.json")))
            .unwrap()
    };
    let expected = Overflow { used_tokens: Some(7010), limit_tokens: Some(4096) };
    for name in ["overflow_chat", "overflow_chat_stream", "overflow_messages", "overflow_responses"] {
        assert_eq!(recognise(Some(400), &read(name)), Some(expected), "{name}");
    }
    for name in ["bad_json", "bad_messages"] {
        assert_eq!(recognise(Some(400), &read(name)), None, "{name}");
    }
    assert_eq!(recognise(Some(404), &read("not_found")), None);
}

/// No answer that went well may look like an error either.
#[test]
fn good_answers_are_no_overflow() {
    let Some(root) = streams("good_answers_are_no_overflow") else { return };
    let good = fixtures::cassettes(&root).into_iter().filter(|exchange| exchange.status < 300);
    for exchange in good.filter(|exchange| exchange.body.starts_with('{')) {
        assert_eq!(recognise(None, &exchange.body), None, "{} ({})", exchange.file, exchange.provider());
    }
}
