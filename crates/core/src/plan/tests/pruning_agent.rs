//! The requests of a pruning agent.

use super::*;

/// The requests of a pruning agent with a window of its own, each answered well.
fn pruning_requests(log: &Log, agent_window: u64) -> Vec<SummaryRequest> {
    let writer = SummaryWriterModel::Other { window: agent_window, max_output: None };
    let policy = CompactionPolicy { writer, ..policy("pruning-agent") };
    let budget = Budget::new(32_000, None);
    let mut draft = draft(log.plan(&budget, &policy, &PlanTrigger::Overflow));
    let mut requests = Vec::new();
    while let Some(request) = draft.request(log.history.view(), &budget) {
        draft.take(said(&pruned(&request.messages[0].text()))).unwrap();
        requests.push(request);
    }
    assert!(draft.finish(&log.history).is_ok());
    requests
}

#[test]
fn a_pruning_agent_is_asked_once_if_its_window_holds_the_conversation() {
    let log = talk(70, 150);
    for window in [40_000, 64_000, 200_000] {
        let requests = pruning_requests(&log, window);
        assert_eq!(requests.len(), 1, "a window of {window}");
        let input = log.history.counter().message(&requests[0].messages[0]);
        assert!(input + requests[0].max_output_tokens <= window, "a window of {window}: {input}");
    }
}

#[test]
fn a_pruning_agent_is_asked_as_seldom_as_its_window_allows() {
    let log = talk(70, 150);
    let requests = pruning_requests(&log, 16_000);
    let input = |request: &SummaryRequest| log.history.counter().message(&request.messages[0]);
    assert!(requests.len() > 1, "{} requests", requests.len());
    // No two of them fit one call, with the expected error of an estimate, which is 30 % at most.
    for pair in requests.windows(2) {
        let tokens = input(&pair[0]) + input(&pair[1]) + pair[0].max_output_tokens;
        assert!(tokens > 16_000 * 10 / 13, "{tokens}");
    }
    // An answer names messages by their index, so its limit grows with their number and not with their length.
    let few = pruning_requests(&talk(35, 300), 64_000);
    let many = pruning_requests(&talk(140, 75), 64_000);
    assert_eq!((few.len(), many.len()), (1, 1));
    assert!(few[0].max_output_tokens < many[0].max_output_tokens);
}

#[test]
fn a_pruning_agent_is_told_of_the_newest_result_that_stays() {
    let asked = |log: &Log| {
        let text = pruning_requests(log, 64_000)[0].messages[0].text();
        let json: serde_json::Value = serde_json::from_str(&text[text.find("\n\n{").unwrap()..]).unwrap();
        json
    };
    let mut log = talk(70, 150);
    let json = asked(&log);
    assert!(json.get("keepToolResult").is_none() && json["conversation"].is_array());
    assert_eq!(json["contextLimit"], 32_000);
    log.typed("Read the file.");
    log.step("read", 2_000);
    let result = &asked(&log)["keepToolResult"];
    assert_eq!(result["toolName"], "read");
    assert!(result["tokens"].as_u64().unwrap() > 1_000, "{result}");
    let content = result["content"].as_str().unwrap();
    assert!(log.history.counter().text(content) < 500 && content.contains(" … "), "{content}");
}
