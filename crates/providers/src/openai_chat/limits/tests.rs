use serde_json::json;

use super::*;

fn known(window: u64) -> Limits {
    Limits::of_window(Some(window), LimitSource::Server)
}

#[test]
fn every_server_says_its_window_in_its_own_place() {
    let props = json!({"default_generation_settings": {"n_ctx": 4096}, "total_slots": 2, "modalities": {"vision": false}, "chat_template_caps": {"supports_tools": true}});
    assert_eq!(
        llama_cpp(&props, "m"),
        Limits { tools: Ability::Yes, images: Ability::No, prefill: Ability::Yes, ..known(4096) }
    );

    let studio = json!({"data": [
        {"id": "other", "state": "not-loaded", "max_context_length": 32768},
        {"id": "m", "type": "vlm", "state": "loaded", "max_context_length": 131072, "loaded_context_length": 8192, "capabilities": ["tool_use"]},
    ]});
    assert_eq!(lm_studio(&studio, "m"), Limits { tools: Ability::Yes, images: Ability::Yes, ..known(8192) });
    assert_eq!(lm_studio(&studio, "other").window, None, "what it could take is not what it takes");

    let ollama = json!({"models": [{"name": "m:latest", "model": "m:latest", "context_length": 4096}]});
    assert_eq!(ollama_loaded(&ollama, "m"), known(4096));

    assert_eq!(model_list(&json!({"data": [{"id": "m", "max_model_len": 16384}]}), "m"), known(16384));
    assert_eq!(
        model_list(&json!({"data": [{"id": "m", "meta": {"n_ctx": 4096, "n_ctx_train": 131072}}]}), "m"),
        known(4096)
    );
    let router = json!({"data": [{"id": "x"}, {"id": "m", "context_length": 200000, "top_provider": {"max_completion_tokens": 64000},
        "architecture": {"input_modalities": ["text", "image"]}, "supported_parameters": ["temperature"]}]});
    assert_eq!(
        model_list(&router, "m"),
        Limits { max_output: Some(64000), tools: Ability::No, images: Ability::Yes, ..known(200_000) }
    );
}

#[test]
fn what_nobody_says_stays_unknown() {
    for answer in [
        json!({}),
        json!([]),
        json!({"error": "Unexpected endpoint"}),
        json!({"data": [{"id": "a"}, {"id": "b"}]}),
        json!({"data": "x"}),
    ] {
        for read in [llama_cpp, lm_studio, ollama_loaded, model_list] {
            assert_eq!(read(&answer, "m"), Limits::default());
        }
    }
}

#[test]
fn the_root_lies_before_v1() {
    assert_eq!(root("http://h:1/v1/"), "http://h:1");
    assert_eq!(root("http://h:1/api/v1"), "http://h:1/api");
    assert_eq!(root("http://h:1"), "http://h:1");
}
