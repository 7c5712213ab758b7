use serde_json::json;

use super::*;
use crate::FeatureSupport;
use crate::openai_chat::discover::root;

fn known(window: u64) -> Limits {
    Limits::from_window(Some(window), LimitSource::Server)
}

fn seen(family: &'static ServerFamily, limits: Limits) -> Option<ServerFacts> {
    Some(ServerFacts { family: Some(family), limits })
}

#[test]
fn llama_cpp_says_the_window_of_a_slot() {
    let page = json!({"default_generation_settings": {"n_ctx": 4096}, "total_slots": 2, "modalities": {"vision": false}, "chat_template_caps": {"supports_tools": true}});
    let limits = Limits { tools: FeatureSupport::Yes, images: FeatureSupport::No, ..known(4096) };
    assert_eq!(props(&page), seen(&ServerFamily::LLAMA_CPP, limits));
    let list = json!({"data": [{"id": "m", "owned_by": "llamacpp", "meta": {"n_ctx": 4096, "n_ctx_train": 131072}}]});
    assert_eq!(models(&list, "m"), seen(&ServerFamily::LLAMA_CPP, known(4096)));
}

#[test]
fn lm_studio_says_what_is_loaded() {
    let v0 = json!({"data": [
        {"id": "other", "state": "not-loaded", "max_context_length": 32768},
        {"id": "m", "type": "vlm", "state": "loaded", "max_context_length": 131072, "loaded_context_length": 8192, "capabilities": ["tool_use"]},
    ]});
    let both = |window| Limits { tools: FeatureSupport::Yes, images: FeatureSupport::Yes, ..known(window) };
    assert_eq!(lm_studio_v0(&v0, "m"), seen(&ServerFamily::LM_STUDIO, both(8192)));
    assert_eq!(
        lm_studio_v0(&v0, "other").unwrap().limits.window,
        None,
        "what it could take is not what it takes"
    );

    let v1 = json!({"models": [
        {"key": "other", "loaded_instances": [], "max_context_length": 32768},
        {"key": "m", "loaded_instances": [
            {"id": "m", "config": {"context_length": 8192}}, {"id": "m:2", "config": {"context_length": 2048}}],
         "max_context_length": 131072, "capabilities": {"vision": true, "trained_for_tool_use": true}},
    ]});
    assert_eq!(lm_studio_v1(&v1, "m"), seen(&ServerFamily::LM_STUDIO, both(8192)));
    assert_eq!(lm_studio_v1(&v1, "m:2"), seen(&ServerFamily::LM_STUDIO, both(2048)));
    assert_eq!(lm_studio_v1(&v1, "other"), seen(&ServerFamily::LM_STUDIO, Limits::default()));
}

#[test]
fn ollama_says_what_is_loaded() {
    let page = json!({"models": [{"name": "m:latest", "model": "m:latest", "context_length": 4096}]});
    assert_eq!(ollama_loaded(&page, "m"), seen(&ServerFamily::OLLAMA, known(4096)));
    assert_eq!(ollama_loaded(&json!({"models": []}), "m"), seen(&ServerFamily::OLLAMA, Limits::default()));
}

#[test]
fn lists_of_models_say_it_each_under_its_own_name() {
    let vllm = json!({"data": [{"id": "m", "owned_by": "vllm", "max_model_len": 16384}]});
    assert_eq!(models(&vllm, "m"), seen(&ServerFamily::VLLM, known(16384)));
    let router = json!({"data": [{"id": "x"}, {"id": "m", "context_length": 200000, "top_provider": {"max_completion_tokens": 64000},
        "architecture": {"input_modalities": ["text", "image"]}, "supported_parameters": ["temperature"]}]});
    let limits = Limits {
        max_output: Some(64000),
        tools: FeatureSupport::No,
        images: FeatureSupport::Yes,
        ..known(200_000)
    };
    assert_eq!(models(&router, "m"), Some(ServerFacts { family: None, limits }));
    assert_eq!(models(&json!({"data": [{"id": "a"}, {"id": "b"}]}), "m"), Some(ServerFacts::default()));
}

#[test]
fn another_page_is_none() {
    for page in [
        json!({}),
        json!([]),
        json!({"error": "Unexpected endpoint or method. (GET /props)"}),
        json!({"data": "x"}),
    ] {
        assert_eq!(props(&page), None);
        for read in [lm_studio_v1, lm_studio_v0, ollama_loaded, models] {
            assert_eq!(read(&page, "m"), None, "{page}");
        }
    }
    let plain = json!({"data": [{"id": "m", "object": "model"}], "models": [{"name": "m"}]});
    assert_eq!((lm_studio_v0(&plain, "m"), lm_studio_v1(&plain, "m")), (None, None));
}

#[test]
fn the_root_lies_before_v1() {
    assert_eq!(root("http://h:1/v1/"), "http://h:1");
    assert_eq!(root("http://h:1/api/v1"), "http://h:1/api");
    assert_eq!(root("http://h:1"), "http://h:1");
}
