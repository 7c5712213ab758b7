//! The report as JSON.
//!
//! ```text
//! { "format": 1,
//!   "header":    { "command", "version", "generatedBy": [{ "name", "value" }], "assumptions": [text],
//!                  "policies": [{ "name", "role": "subject|ours|baseline|peer", "sources": [text] }],
//!                  "prices": [Prices], "priceSources": [text] },
//!   "outcomes":  [Outcome],    one for each session, window, price table and policy
//!   "summaries": [Summary],    medians for each price table, scope, window (null: all) and policy
//!   "goals":     [GoalResult], one for each price table, scope and goal
//!   "verdicts":  [Verdict] }   one for each price table and scope, with every comparison that was not won
//! ```
//!
//! Names are in camelCase; shares are between 0 and 1, times in milliseconds, costs in what the price table counts:
//! US dollars, unless its source says otherwise. Where there is nothing to measure stands `null`. A field may be
//! added; one that is removed or changes its meaning raises `format`.

use serde::Serialize;

use super::ReplayReport;

/// The version of the shape.
pub(super) const FORMAT: u32 = 1;

#[derive(Serialize)]
struct ReportJson<'a> {
    format: u32,
    #[serde(flatten)]
    report: &'a ReplayReport,
}

pub(super) fn text(report: &ReplayReport) -> serde_json::Result<String> {
    serde_json::to_string_pretty(&ReportJson { format: FORMAT, report })
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use crate::lab::report::sample;

    #[test]
    fn the_shape_is_as_documented() {
        let json: Value = serde_json::from_str(&sample::report().json().unwrap()).unwrap();
        let keys: Vec<&String> = json.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["format", "header", "outcomes", "summaries", "goals", "verdicts"]);
        assert_eq!(json["format"], 1);
        let header: Vec<&String> = json["header"].as_object().unwrap().keys().collect();
        assert_eq!(
            header,
            ["command", "version", "generatedBy", "assumptions", "policies", "prices", "priceSources"]
        );
        assert_eq!(json["header"]["policies"][0]["role"], "baseline");
        let outcome = &json["outcomes"][0];
        assert_eq!(outcome["policy"], "append-only");
        assert!(outcome["windowPercent"].is_u64() && outcome["needs"]["inView"].is_u64());
        assert!(outcome["billed"]["cacheRead"].is_u64() && outcome["context"].is_array());
        let summary = &json["summaries"][0];
        assert!(summary["window"].is_null() && summary["scope"]["group"].is_string(), "{summary}");
        assert!(summary["medians"]["cost"].is_f64() && summary["medians"]["costOfBaseline"].is_f64());
        let goal = &json["goals"][0];
        assert!(goal["met"].is_boolean() && goal["measured"].is_f64() && goal["limit"].is_f64());
        let verdict = &json["verdicts"][0];
        assert!(verdict["sentence"].is_string() && verdict["exceptions"].is_array(), "{verdict}");
    }
}
