use std::collections::BTreeSet;

use longhaul_core::usage::Usage;

use super::*;
use crate::FeatureSupport;

fn named(asked: &str) -> Option<&'static str> {
    find(asked).map(CatalogModel::name)
}

/// Pairs of a requested name and the name in the catalogue, grouped by the program with such names.
const FORMS: &[(&str, &str)] = &[
    // plain, dated, aliases
    ("gpt-4o", "gpt-4o"),
    ("gpt-4o-2024-08-06", "gpt-4o"),
    ("gpt-4o-2024-05-13", "gpt-4o-2024-05-13"),
    ("gpt-4o-mini-2024-07-18", "gpt-4o-mini"),
    ("gpt-4-0613", "gpt-4-0613"),
    ("gpt-4-1106-preview", "gpt-4-1106-preview"),
    ("gpt-5.4-2026-03-05", "gpt-5.4"),
    ("gpt-5.4-mini-2026-03-17", "gpt-5.4-mini"),
    ("o3-2025-04-16", "o3"),
    ("claude-sonnet-4-5-20250929", "claude-sonnet-4-5"),
    ("claude-sonnet-4-20250514", "claude-sonnet-4"),
    ("claude-opus-4-1-20250805", "claude-opus-4-1"),
    ("claude-3-7-sonnet-latest", "claude-3-7-sonnet"),
    ("gemini-2.5-flash-preview-09-2025", "gemini-2.5-flash"),
    ("gemini-2.5-pro-preview-05-06", "gemini-2.5-pro"),
    ("gemini-2.5-flash-lite-001", "gemini-2.5-flash-lite"),
    ("deepseek-v4-flash-0731", "deepseek-v4-flash"),
    ("mistral-large-latest", "mistral-large-latest"),
    ("  GPT-4O ", "gpt-4o"),
    // with an owner: OpenRouter, LiteLLM, Google's API, Hugging Face, LM Studio
    ("openai/gpt-4o", "gpt-4o"),
    ("anthropic/claude-sonnet-4.5", "claude-sonnet-4-5"),
    ("anthropic/claude-3.7-sonnet:thinking", "claude-3-7-sonnet"),
    ("deepseek/deepseek-r1-0528:free", "deepseek-r1-0528"),
    ("models/gemini-2.5-pro", "gemini-2.5-pro"),
    ("gemini/gemini-3.1-pro-preview", "gemini-3.1-pro-preview"),
    ("azure/eu/gpt-4o-2024-08-06", "gpt-4o"),
    ("MiniMaxAI/MiniMax-M2.5", "minimax-m2.5"),
    ("zai-org/GLM-4.6", "glm-4.6"),
    ("Qwen/Qwen3-30B-A3B", "qwen3-30b-a3b"),
    ("qwen/qwen3-4b-2507", "qwen3-4b-2507"),
    // Azure, Bedrock, Vertex
    ("gpt-35-turbo", "gpt-35-turbo"),
    ("anthropic.claude-3-5-sonnet-20241022-v2:0", "claude-3-5-sonnet"),
    ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "claude-sonnet-4-5"),
    ("global.anthropic.claude-opus-4-6-v1", "claude-opus-4-6"),
    (
        "arn:aws:bedrock:us-east-1::foundation-model/anthropic.claude-haiku-4-5-20251001-v1:0",
        "claude-haiku-4-5",
    ),
    ("meta.llama3-1-70b-instruct-v1:0", "meta-llama-3.1-70b"),
    ("us.deepseek.r1-v1:0", "deepseek-r1"),
    ("openai.gpt-oss-120b-1:0", "gpt-oss-120b"),
    ("claude-sonnet-4-5@20250929", "claude-sonnet-4-5"),
    ("publishers/anthropic/models/claude-3-5-sonnet-v2@20241022", "claude-3-5-sonnet"),
    ("publishers/google/models/gemini-2.5-pro", "gemini-2.5-pro"),
    ("ft:gpt-4o-mini-2024-07-18:acme::abc123", "gpt-4o-mini"),
    // open weights, packed: files, Ollama, LM Studio, vLLM, Cloudflare
    ("Meta-Llama-3.1-8B-Instruct-Q8_0.gguf", "meta-llama-3.1-8b"),
    ("/models/Qwen3-8B-Q4_K_M.gguf", "qwen3-8b"),
    ("C:\\models\\qwen3-8b-iq4_xs.gguf", "qwen3-8b"),
    ("unsloth/Qwen3-30B-A3B-Instruct-2507-GGUF:Q4_K_M", "qwen3-30b-a3b-instruct-2507"),
    ("qwen3-30b-a3b-thinking-2507@q4_k_m", "qwen3-30b-a3b-thinking-2507"),
    ("qwen3:8b", "qwen3-8b"),
    ("llama3.1:8b-instruct-q8_0", "llama-3.1-8b"),
    ("llama3.2:latest", "llama-3.2"),
    ("gemma3:27b-it-qat", "gemma-3-27b"),
    ("gemma-3-27b-it-qat-q4_0-gguf", "gemma-3-27b"),
    ("mistral-small3.2:24b", "mistral-small-3.2-24b"),
    ("mistral-nemo-instruct-2407", "mistral-nemo"),
    ("mlx-community/gpt-oss-20b-MXFP4-Q8", "gpt-oss-20b"),
    ("openai/gpt-oss-20b", "gpt-oss-20b"),
    ("@cf/meta/llama-3.1-8b-instruct", "llama-3.1-8b"),
    ("Qwen/Qwen2.5-Coder-32B-Instruct-AWQ", "qwen2.5-coder-32b"),
    ("RedHatAI/Llama-3.3-70B-Instruct-FP8", "llama-3.3-70b"),
    ("moonshotai/Kimi-K2-Instruct-0905", "kimi-k2-instruct-0905"),
];

#[test]
fn names_in_all_their_forms() {
    for (asked, known) in FORMS {
        assert_eq!(named(asked), Some(*known), "{asked}");
    }
}

#[test]
fn what_is_another_model_is_unknown() {
    for asked in [
        "",
        "default",
        "model",
        "my-finetune",
        "gpt",
        "gpt-4-32k",
        "gpt-4-vision-preview",
        "gpt-4.5-preview",
        "gpt-4o-audio-preview-2024-12-17",
        "gpt-4o-distill-qwen",
        "gpt-5.9",
        "gpt-4-x-vicuna",
        "o3-deep-research",
        "o3000",
        "claude",
        "claude-sonnet-4-7",
        "claude-sonnet-4-5[1m]",
        "claude-sonnet",
        "gemini-2.5-flash-image",
        "gemini-2.5-pro-preview-tts",
        "gemini-9-pro",
        "grok-4-fast",
        "deepseek-r1:70b",
        "deepseek-r1-distill-mistral-7b",
        "qwen3-coder-flash-custom",
        "qwen3:30b",
        "llama-3.3-70b-versatile",
        "Llama-3.1-8B-Instruct-abliterated",
        "Qwen2.5-7B-Instruct-1M",
        "mistral-large",
        "ft:my-model:acme::1",
        "ft:",
        "/",
        ":free",
    ] {
        assert_eq!(named(asked), None, "{asked}");
    }
}

#[test]
fn every_name_finds_itself_and_nothing_panics() {
    let names: BTreeSet<_> = models().iter().map(|model| name::words(model.name())).collect();
    assert_eq!(names.len(), models().len(), "a name stands twice");
    for model in models() {
        assert_eq!(named(model.name()), Some(model.name()));
        for cut in 0..model.name().len() {
            let _ = find(&model.name()[..cut]);
        }
    }
}

#[test]
fn the_table_is_whole_and_each_row_makes_sense() {
    let catalog = file::parse(include_str!("models.json")).unwrap();
    let rows = catalog.models.iter().map(|model| Arc::as_ptr(&model.facts)).collect::<BTreeSet<_>>().len();
    assert!(rows >= 100, "{rows} rows");
    for model in &catalog.models {
        let (name, facts) = (&model.name, &model.facts);
        let source = catalog.sources.get(&facts.source).unwrap_or_else(|| panic!("{name}: {}", facts.source));
        assert!(source.date.starts_with("20") && source.date.len() == 10, "{name}");
        assert!(facts.window.is_some() != facts.trained.is_some(), "{name}: one window");
        assert!(facts.window.is_none_or(|window| (4_096..=20_000_000).contains(&window)), "{name}");
        assert!(facts.max_input.is_none_or(|input| Some(input) < facts.window), "{name}");
        assert!(facts.max_output.is_none_or(|output| Some(output) <= facts.window), "{name}");
        assert!(facts.open || facts.window.is_some(), "{name}: closed weights have a window");
        assert!(
            facts.window.is_none() || catalog.makers.contains_key(&facts.maker),
            "{name}: {}",
            facts.maker
        );
        let Some(prices) = facts.usd else { continue };
        for rates in [Some(prices.at(0)), prices.above().map(|above| above.1)].into_iter().flatten() {
            assert!(rates.input > 0.0 && rates.output >= rates.input, "{name}: {rates:?}");
            assert!(
                rates.cached.is_none_or(|cached| cached > 0.0 && cached < rates.input),
                "{name}: {rates:?}"
            );
            assert!(rates.write.is_none_or(|write| write >= rates.input), "{name}: {rates:?}");
        }
        assert!(prices.above().is_none_or(|(_, above)| above.input > prices.at(0).input), "{name}");
    }
}

#[test]
fn open_weights_have_a_window_only_at_their_makers() {
    let window = |model: &str, base_url: &str| limits(model, base_url).window;
    for local in
        ["http://localhost:1234/v1", "http://192.168.1.5:8080/v1", "https://api.groq.com/openai/v1", "", "?"]
    {
        for model in
            ["qwen3-8b", "gpt-oss-20b", "glm-4.6", "deepseek-v4-pro", "llama-3.3-70b", "mistral-large-2512"]
        {
            let limits = limits(model, local);
            assert_eq!((limits.window, limits.max_output), (None, None), "{model} at {local}");
            assert_eq!(
                (limits.source, limits.tools),
                (LimitSource::Unknown, FeatureSupport::Unknown),
                "{model} at {local}"
            );
            assert_eq!(prices(model, local), None, "{model} at {local}");
            assert!(find(model).and_then(CatalogModel::upper_bound).is_some(), "{model}");
        }
    }
    assert_eq!(window("glm-4.6", "https://open.bigmodel.cn/api/paas/v4"), Some(200_000));
    assert_eq!(window("deepseek-v4-pro", "https://api.deepseek.com"), Some(1_000_000));
    assert_eq!(window("deepseek-v3.2", "https://api.deepseek.com"), None, "trained is not served");
    assert_eq!(window("glm-4.6", "https://api.z.ai.example.com"), None);
    assert_eq!(window("gpt-4o", "http://localhost:4000/v1"), Some(128_000), "a proxy");
    let vertex = "https://us-central1-aiplatform.googleapis.com/v1";
    assert_eq!(window("gemini-2.5-pro", vertex), Some(1_048_576));
    assert_eq!(
        limits("qwen3-8b", "http://localhost:1234/v1").images,
        FeatureSupport::No,
        "it never had eyes"
    );
    assert_eq!(
        limits("gemma-3-27b", "http://localhost:1234/v1").images,
        FeatureSupport::Unknown,
        "it may run without"
    );
}

#[test]
fn the_window_is_what_may_be_input() {
    let gpt = find("gpt-5").unwrap();
    assert_eq!(
        (gpt.window(), gpt.limits("https://api.openai.com/v1").window),
        (Some(400_000), Some(272_000))
    );
    let limits = limits("claude-sonnet-4-5", "https://api.anthropic.com");
    assert_eq!((limits.window, limits.max_output), (Some(200_000), Some(64_000)));
    assert_eq!((limits.source, limits.reasoning), (LimitSource::Catalogue, Some(ReasoningScope::Turn)));
    assert_eq!(
        (limits.tools, limits.images, limits.files),
        (FeatureSupport::Yes, FeatureSupport::Yes, FeatureSupport::Yes)
    );
    let prefill = |model: &str| find(model).unwrap().limits("").prefill;
    assert_eq!(
        (prefill("claude-sonnet-4-5"), prefill("claude-opus-4-6")),
        (FeatureSupport::Yes, FeatureSupport::No)
    );
    assert_eq!(super::limits("unheard-of", "https://api.openai.com/v1"), Limits::default());
}

#[test]
fn what_a_call_costs() {
    let prices = prices("claude-sonnet-4-5", "https://api.anthropic.com").unwrap();
    let usage = Usage {
        input_tokens: 100_000,
        output_tokens: 1_000,
        cache_read_tokens: 80_000,
        cache_write_tokens: 15_000,
        ..Usage::default()
    };
    let expected = 5_000.0 * 3.0 + 80_000.0 * 0.3 + 15_000.0 * 3.75 + 1_000.0 * 15.0;
    assert!((prices.cost_usd(&usage) - expected / 1e6).abs() < 1e-12);
    assert_eq!(super::prices("ft:gpt-4o-mini-2024-07-18:acme::1", "https://api.openai.com/v1"), None);
    let flat = ListPrices::flat(TokenRates { input: 1.0, cached: None, write: None, output: 2.0 });
    assert!((flat.cost_usd(&usage) - 0.102).abs() < 1e-12, "what is not priced apart is input");
}

#[test]
fn the_vocabulary_is_named_where_it_is_known() {
    let of = |model: &str| find(model).and_then(CatalogModel::tokenizer);
    assert_eq!((of("gpt-4o"), of("gpt-4")), (Some("o200k_base"), Some("cl100k_base")));
    assert_eq!((of("gpt-oss-20b"), of("claude-opus-4-5")), (Some("o200k_harmony"), None));
    assert_eq!(find("gpt-4o-mini").and_then(CatalogModel::image_rule), Some("openai-tiles-2833-5667"));
    assert_eq!(find("qwen3-8b").and_then(CatalogModel::framing), Some("chatml"));
    assert!(find("gpt-4o").and_then(CatalogModel::source).is_some_and(|source| source.date == "2026-11-12"));
}
