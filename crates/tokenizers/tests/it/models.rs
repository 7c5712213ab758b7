use longhaul_tokenizers::{OpenAiCounter, encoding_of};

#[test]
fn models_of_openai() {
    let cases = [
        ("chatgpt-4o-latest", "o200k_base"),
        ("gpt-4o", "o200k_base"),
        ("gpt-4o-2024-08-06", "o200k_base"),
        ("gpt-4o-mini-search-preview-2025-03-11", "o200k_base"),
        ("openai/gpt-4o:extended", "o200k_base"),
        ("openrouter/openai/gpt-4o-mini", "o200k_base"),
        ("ft:gpt-4o-mini-2024-07-18:acme::BxQw12", "o200k_base"),
        ("GPT-4.1-Nano", "o200k_base"),
        ("gpt-4.5-preview", "o200k_base"),
        ("gpt-5", "o200k_base"),
        ("gpt-5-mini-2025-08-07", "o200k_base"),
        ("gpt-5.1-codex-max", "o200k_base"),
        ("gpt-5.4", "o200k_base"),
        ("o1", "o200k_base"),
        ("o1-pro", "o200k_base"),
        ("o3-deep-research", "o200k_base"),
        ("openai/o3-mini-high", "o200k_base"),
        ("o4-mini", "o200k_base"),
        ("gpt-oss", "o200k_harmony"),
        ("openai/gpt-oss-120b", "o200k_harmony"),
        ("gpt-oss:20b", "o200k_harmony"),
        ("gpt-oss:20b-cloud", "o200k_harmony"),
        ("unsloth/gpt-oss-20b-GGUF", "o200k_harmony"),
        ("openai/gpt-oss-safeguard-20b", "o200k_harmony"),
        ("gpt-4", "cl100k_base"),
        ("gpt-4-0613", "cl100k_base"),
        ("gpt-4-32k", "cl100k_base"),
        ("gpt-4-turbo-2024-04-09", "cl100k_base"),
        ("gpt-4-1106-vision-preview", "cl100k_base"),
        ("gpt-3.5-turbo-16k", "cl100k_base"),
        ("gpt-35-turbo", "cl100k_base"),
        ("ft:gpt-3.5-turbo-0125:acme:name:id", "cl100k_base"),
        ("text-embedding-3-large", "cl100k_base"),
        ("text-embedding-ada-002", "cl100k_base"),
    ];
    for (model, encoding) in cases {
        assert_eq!(encoding_of(model), Some(encoding), "{model}");
        assert!(OpenAiCounter::named(encoding).is_some(), "{encoding} is built in");
    }
}

/// Names of other families, names that borrow one of OpenAI's, and names nobody has published anything about.
#[test]
fn every_other_model_has_none() {
    let others = [
        "",
        "claude-sonnet-4-5",
        "gemini-3-pro",
        "qwen3-30b-a3b",
        "meta-llama/Llama-3.1-8B-Instruct",
        "gemma3:27b",
        "mistral-large-latest",
        "deepseek-chat",
        "grok-4",
        "kimi-k2",
        "glm-4.6",
        "o",
        "o10",
        "o1x",
        "o2-mini",
        "olmo-2",
        "gpt-2",
        "gpt2",
        "gpt-4-x-vicuna-13b",
        "gpt-4o-distill-qwen-7b",
        "gpt-40",
        "gpt-4.2",
        "gpt-6",
        "gpt4all",
        "acme/gpt-4o",
        "acme/gpt-4o-mini",
        "gpt-oss-llama",
        "gpt-osser",
        "gpt-neo-2.7b",
        "ft:qwen3-8b:acme::id",
        "ft:",
        "o1-open-llama-8b",
        "marco-o1",
        "gpt-5b-llama",
        "cerebras-gpt-13b",
        "dall-e-3",
        "whisper-1",
    ];
    for model in others {
        assert_eq!(encoding_of(model), None, "{model:?}");
    }
}
