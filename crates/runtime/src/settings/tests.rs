use serde_json::json;

use super::*;

fn changed(change: Value) -> Result<SettingsOverrides, String> {
    let Value::Object(change) = change else { panic!("no object") };
    SettingsOverrides::default().changed(&change).map_err(|refused| refused.to_string())
}

#[test]
fn each_setting_takes_what_it_may_and_names_itself_otherwise() {
    let all = json!({
        "strategy": "truncation", "trigger": { "percentage": 0.6 }, "pruningAgent": "small",
        "autoRecall": true, "summarizeWith": "extract",
    });
    assert_eq!(serde_json::to_value(changed(all.clone()).unwrap()).unwrap(), all);
    for good in [
        json!("none"),
        json!({ "percentage": 1 }),
        json!({ "triggerTokens": 256 }),
        json!({ "type": "planner" }),
    ] {
        assert!(changed(json!({ "trigger": good })).is_ok(), "{good}");
    }
    let manual = json!({ "type": "manual" });
    let taken = changed(json!({ "trigger": manual })).unwrap();
    assert_eq!(serde_json::to_value(taken.trigger).unwrap(), manual, "it is shown as it was said");
    let wrong = [
        json!({ "strategy": "hope" }),
        json!({ "strategy": 1 }),
        json!({ "trigger": "planner" }),
        json!({ "trigger": { "type": "overflow", "percentage": 0.5 } }),
        json!({ "trigger": { "percentage": 0 } }),
        json!({ "trigger": { "percentage": 1.01 } }),
        json!({ "trigger": { "triggerTokens": 255 } }),
        json!({ "trigger": { "triggerTokens": 300.5 } }),
        json!({ "trigger": { "percentage": 0.5, "triggerTokens": 900 } }),
        json!({ "pruningAgent": " " }),
        json!({ "pruningAgent": "a\nb" }),
        json!({ "autoRecall": "yes" }),
        json!({ "summarizeWith": "x".repeat(201) }),
        json!({ "base_url": "http://stranger" }),
    ];
    insta::assert_snapshot!(wrong.map(|wrong| changed(wrong).unwrap_err()).join("\n"), @r#"
    `strategy` must be one of reactive-overflow, proactive-threshold, middle-removal, truncation, importance, summarization, pruning-agent, adaptive
    `strategy` must be one of reactive-overflow, proactive-threshold, middle-removal, truncation, importance, summarization, pruning-agent, adaptive
    `trigger` must be "none", { percentage }, { triggerTokens } or { type }
    `trigger` must be "none", { percentage }, { triggerTokens } or { type }
    `trigger.percentage` must be above 0 and at most 1, not 0
    `trigger.percentage` must be above 0 and at most 1, not 1.01
    `trigger.triggerTokens` must be a whole number, 256 or more, not 255
    `trigger.triggerTokens` must be a whole number, 256 or more, not 300.5
    `trigger` must be "none", { percentage }, { triggerTokens } or { type }
    `pruningAgent` must be a name of 1 to 200 visible characters
    `pruningAgent` must be a name of 1 to 200 visible characters
    `autoRecall` must be true or false
    `summarizeWith` must be a name of 1 to 200 visible characters
    `base_url` is not a setting
    "#);
}

#[test]
fn what_is_not_named_stays_and_null_gives_back() {
    let Value::Object(change) = json!({ "autoRecall": null, "strategy": "adaptive" }) else { panic!() };
    let before = changed(json!({ "autoRecall": true, "pruningAgent": "small" })).unwrap();
    let after = before.changed(&change).unwrap();
    assert_eq!(after, changed(json!({ "strategy": "adaptive", "pruningAgent": "small" })).unwrap());
    assert_eq!(after.names(), ["strategy", "pruningAgent"]);
}

#[test]
fn the_file_is_private_whole_and_never_deleted() {
    use std::os::unix::fs::PermissionsExt as _;

    let folder = tempfile::tempdir().unwrap();
    let file = SettingsFile::new(folder.path().join("settings.json"), ConfiguredKeys::new());
    assert_eq!(file.read().unwrap(), SettingsOverrides::default());
    let choices = changed(json!({ "trigger": { "triggerTokens": 9000 }, "autoRecall": false })).unwrap();
    file.write(&choices).unwrap();
    assert_eq!(file.read().unwrap(), choices);
    assert_eq!(std::fs::metadata(file.path()).unwrap().permissions().mode() & 0o777, 0o600);
    for damaged in ["{\"strategy\":", "{\"strategy\":\"hope\"}", "{\"command\":\"rm\"}", "[]", ""] {
        std::fs::write(file.path(), damaged).unwrap();
        assert!(file.read().is_err(), "{damaged}");
        file.write(&choices).unwrap();
        assert_eq!(file.read().unwrap(), choices);
        let kept = std::fs::read_to_string(folder.path().join("settings.json.damaged")).unwrap();
        assert_eq!(kept, damaged, "what was there can still be read");
    }
    let names = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(names.count(), 2, "nothing half-written stays behind");
}
