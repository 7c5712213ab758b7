//! Every recorded file without an answer of OpenAI's wires, with the reason.

use std::collections::{BTreeMap, BTreeSet};

use super::reading::recorded;
use crate::fixtures::{self, streams};

const CONVERSE: &str = "Bedrock's Converse API, another wire";
const GRPC: &str = "xAI's gRPC API, another wire";
const INTERACTIONS: &str = "Gemini's Interactions API, another wire";
const IMAGES: &str = "makes images";
const AUDIO: &str = "writes down speech";
const MODELS: &str = "lists models";
const REFUSED: &str = "a refusal";

/// The beginning of a file's name, and the reason for the missing answer. Each row is there for at least one file.
const UNSUPPORTED: &[(&str, &str)] = &[
    ("SOURCES.md", "says whose the recordings are"),
    ("anthropic/", "Messages and Gemini, other wires"),
    ("bedrock/0xPlaygrounds__rig/model_ids~bare_profile_only_model_id_is_rejected", CONVERSE),
    ("bedrock/pydantic__pydantic-ai/test_bedrock~", CONVERSE),
    ("bedrock/pydantic__pydantic-ai/test_tool_choice_matrix~test_tool_choice_matrix[auto-bedrock]", CONVERSE),
    ("bedrock/vercel__ai/", CONVERSE),
    ("chatgpt/0xPlaygrounds__rig/http_errors~nonstreaming_unauthorized_preserves_status_and_body", REFUSED),
    ("cohere/", "Cohere's own API, another wire"),
    ("copilot/0xPlaygrounds__rig/models~list_models_smoke", MODELS),
    ("deepseek/0xPlaygrounds__rig/models~list_models_rejected_key_reports_api_error_with_context", REFUSED),
    ("deepseek/0xPlaygrounds__rig/wire_shape_matrix~", REFUSED),
    (
        "deepseek/pydantic__pydantic-ai/test_deepseek_responses~test_deepseek_responses_rejects_interleaved",
        REFUSED,
    ),
    ("doubleword/0xPlaygrounds__rig/error_matrix~", REFUSED),
    ("google/", "Gemini, another wire"),
    ("groq/0xPlaygrounds__rig/response_identity_edge~auth_rejection_classifies_with_contract", REFUSED),
    ("llamacpp/0xPlaygrounds__rig/error_matrix~", REFUSED),
    ("llamacpp/0xPlaygrounds__rig/multimodal_matrix~", REFUSED),
    ("llamacpp/0xPlaygrounds__rig/unmapped_surface~transcription_not_supported", REFUSED),
    ("llamacpp/live-xllamacpp/", "requests, refusals, other pages, and a stream of Messages"),
    ("llamastack/llamastack__llama-stack/inference~28a43", "an error of the client library"),
    ("llamastack/llamastack__llama-stack/interactions~", INTERACTIONS),
    ("llamastack/llamastack__llama-stack/messages~", "Messages, another wire"),
    ("llamastack/llamastack__llama-stack/responses~e680c", "an error of the client library"),
    ("mistral/0xPlaygrounds__rig/logprobs_rejection_matrix~", REFUSED),
    ("mistral/0xPlaygrounds__rig/models~list_models_rejected_key_reports_api_error_with_context", REFUSED),
    ("mistral/0xPlaygrounds__rig/response_identity_edge~blocking_error_carries_the_correlation_id", REFUSED),
    ("mistral/0xPlaygrounds__rig/response_identity_edge~verify_succeeds", MODELS),
    ("ollama/", "Ollama's own API, another wire"),
    ("openai/0xPlaygrounds__rig/error_envelope~nonexistent_model_streaming_error", REFUSED),
    ("openai/0xPlaygrounds__rig/error_identity_edge~auth_rejection_carries_identity", REFUSED),
    ("openai/0xPlaygrounds__rig/image_params_matrix~", IMAGES),
    ("openai/0xPlaygrounds__rig/transcription_usage_matrix~", AUDIO),
    ("openai/pydantic__pydantic-ai/test_openai_responses~test_openai_responses_model_http_error", REFUSED),
    ("openai/pydantic__pydantic-ai/test_openai~test_openai_o1_mini_system_role[developer]", REFUSED),
    ("openrouter/0xPlaygrounds__rig/response_identity_edge~routed_failure_error_shape", REFUSED),
    ("venice/0xPlaygrounds__rig/error_envelope~nonexistent_model_streaming_error", REFUSED),
    ("xai/0xPlaygrounds__rig/response_identity~provider_error_classifies_with_contract", REFUSED),
    ("xai/pydantic__pydantic-ai/test_thinking~test_xai_unified_thinking_false.xai.yaml", GRPC),
    (
        "xai/pydantic__pydantic-ai/test_tool_choice_matrix~test_tool_choice_matrix[required-xai].xai.yaml",
        GRPC,
    ),
    ("xai/pydantic__pydantic-ai/test_xai~test_xai_builtin_mcp_server_tool_stream.xai.yaml", GRPC),
];

#[test]
fn every_file_without_an_answer_of_openais_wires_is_named() {
    let test = "every_file_without_an_answer_of_openais_wires_is_named";
    let (Some(all), Some(root)) = (recorded(test), streams(test)) else { return };
    let with_answer: BTreeSet<&str> = all.iter().map(|one| one.file()).collect();
    let files = fixtures::files(&root);
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut unnamed = Vec::new();
    for file in files.iter().filter(|file| !with_answer.contains(file.as_str())) {
        match UNSUPPORTED.iter().find(|(name, _)| file.starts_with(name)) {
            Some((name, _)) => *counts.entry(name).or_default() += 1,
            None => unnamed.push(file),
        }
    }
    for (name, reason) in UNSUPPORTED {
        println!("{:>3} without an answer: {name}: {reason}", counts.get(name).copied().unwrap_or_default());
    }
    println!("{} files, {} with an answer of these wires", files.len(), with_answer.len());
    assert_eq!(unnamed, Vec::<&String>::new());
    let unused: Vec<&str> =
        UNSUPPORTED.iter().map(|(name, _)| *name).filter(|name| !counts.contains_key(name)).collect();
    // A row that fits no file any more would hide a file that is added later.
    assert_eq!(unused, Vec::<&str>::new(), "named without need");
}
