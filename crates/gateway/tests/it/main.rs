//! The gateway before a scripted upstream.

#![expect(clippy::print_stderr, reason = "what was skipped, by name")]
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

mod across;
mod additional_tools;
mod ahead;
mod answer_errors;
mod best_effort;
mod broken;
mod cached;
mod client_compaction;
mod client_tools;
mod context_management;
mod crossing;
mod cuts;
mod deferring;
mod examples;
mod gone_back;
mod large;
mod late_reading;
mod long_answers;
mod long_messages;
mod many_calls;
mod misplaced;
mod model;
mod notices;
mod omitted;
mod pairs;
mod passing;
mod pre_compact;
mod previous_response;
mod recall;
mod recall_ends;
mod recall_meter;
mod recall_trouble;
mod reconnects;
mod repeated;
mod restarts;
mod resumed;
mod shortening;
mod standing_orders;
mod steps;
mod stopgaps;
mod streaming;
mod system_messages;
mod trouble;
mod upstream;
mod upstreams;
mod windows;
