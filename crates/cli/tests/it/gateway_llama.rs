//! The gateway in front of a real llama.cpp server: `clients/checks/gateway/llama.py`, shorter than in full. Needs what
//! the tests of the binary against that server need.

use std::process::{Command, Stdio};

use serde_json::Value;

use crate::llama::{TOOLS, is_there, python};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../clients/checks/gateway/llama.py");

/// A part of the script; its line, if it is well. `None`, said aloud as `test`, where no server can be started.
fn part(test: &str, part: &[&str]) -> Option<Value> {
    if !is_there(test) {
        return None;
    }
    let mut command = Command::new(python());
    command.args(["-B", SCRIPT, env!("CARGO_BIN_EXE_longhaul"), TOOLS]).args(part).stdin(Stdio::null());
    let output = command.output().unwrap();
    let (said, failed) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}\n{failed}");
    Some(serde_json::from_str(&said).unwrap())
}

#[test]
fn a_conversation_with_tools_outgrows_a_real_window() {
    let test = "a_conversation_with_tools_outgrows_a_real_window";
    let Some(line) = part(test, &["turns", "18"]) else { return };
    assert_eq!((&line["turns"], &line["window"]), (&18.into(), &4096.into()));
    assert!(line["times_window"].as_f64().unwrap() > 2.0, "{line}");
    assert!(line["longest_upstream"].as_u64().unwrap() < 4096, "{line}");
}

#[test]
fn answers_that_outgrow_a_real_window_go_on_in_every_dialect() {
    let test = "answers_that_outgrow_a_real_window_go_on_in_every_dialect";
    let Some(line) = part(test, &["answers", "5"]) else { return };
    let stops: Vec<u64> =
        line["stopped_and_gone_on"].as_array().unwrap().iter().filter_map(Value::as_u64).collect();
    assert!(stops.len() == 5 && stops.iter().all(|stops| *stops > 0), "{line}");
}

#[test]
fn a_server_that_starts_again_has_another_window() {
    let test = "a_server_that_starts_again_has_another_window";
    let Some(line) = part(test, &["reload"]) else { return };
    let noticed: Vec<&str> =
        line["seen"].as_array().unwrap().iter().filter_map(|seen| seen["noticed"].as_str()).collect();
    assert_eq!(noticed, ["4096 (discovered)", "2048 (discovered)", "4096 (discovered)"], "{line}");
}
