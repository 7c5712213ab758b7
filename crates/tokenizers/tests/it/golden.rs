//! Counts that OpenAI's own tokenizer gives (Python `tiktoken` 0.14; `tests/golden.py` prints the second table).

use std::collections::BTreeMap;
use std::path::Path;

use longhaul_core::estimate::{CountAccuracy, TextCounter};
use longhaul_tokenizers::{ENCODINGS, OpenAiCounter};

use crate::documents::{FIXTURES, files, fixtures_for};

fn both() -> [OpenAiCounter; 2] {
    ["o200k_base", "cl100k_base"].map(|name| OpenAiCounter::named(name).unwrap())
}

/// Text, then its tokens in `o200k_base` and `cl100k_base`.
const SAMPLES: [(&str, [u64; 2]); 28] = [
    ("", [0, 0]),
    ("a", [1, 1]),
    (" ", [1, 1]),
    ("\n", [1, 1]),
    ("antidisestablishmentarianism", [6, 6]),
    ("2 + 2 = 4", [7, 7]),
    ("お誕生日おめでとう", [8, 9]),
    ("tiktoken is great!", [6, 6]),
    ("don't we'll THEY'RE I'D", [7, 8]),
    ("fooBarBaz HTTPServer2 snake_case_name", [9, 10]),
    ("1234567890 3.14159", [9, 9]),
    ("    return x\n\n\n\tif (a&&b){}\r\n", [11, 11]),
    ("<|endoftext|><|im_start|>user", [13, 13]),
    ("上下文窗口快满的时候，旧的工具输出会先被清除。", [17, 28]),
    ("컨텍스트 창이 가득 차면 오래된 출력이 지워집니다.", [18, 27]),
    ("Когда окно контекста заполнится, старый вывод удаляется.", [14, 22]),
    ("عندما تمتلئ نافذة السياق، يُمحى الإخراج القديم.", [18, 37]),
    ("जब संदर्भ विंडो भर जाती है, पुराना आउटपुट हटा दिया जाता है।", [22, 65]),
    ("เมื่อหน้าต่างบริบทเต็ม ผลลัพธ์เก่าจะถูกลบ", [17, 38]),
    ("Größenänderung: façade, naïve, Ærøskøbing", [17, 19]),
    ("👩\u{200d}👩\u{200d}👧\u{200d}👦🏽❤\u{fe0f}🔥 \u{200d}", [16, 29]),
    ("aGVsbG8gd29ybGQhIEJhc2U2NCBpcyBmdW4=", [25, 26]),
    ("6f1ed002ab5595859014ebf0951522d9", [17, 17]),
    ("┌──┐│  │└──┘ ████", [16, 16]),
    ("x\u{a0}y\u{2003}z\u{3000}w\u{2028}v", [9, 11]),
    ("\u{0}\u{1}\u{7f}", [3, 3]),
    ("e\u{301}\u{323} \u{1ab0} \u{fb01}", [8, 9]),
    ("𝕳𝖊𝖑𝖑𝖔 𐍈 \u{e0041}", [25, 24]),
];

#[test]
fn samples_of_many_scripts() {
    for (text, expected) in SAMPLES {
        assert_eq!(both().map(|counter| counter.tokens(text)), expected, "{text:?}");
    }
}

/// Folder, files, bytes, tokens in `o200k_base` and `cl100k_base`; each file is one text.
const FOLDERS: [(&str, u64, u64, [u64; 2]); 33] = [
    ("streams/alibaba", 2, 81_368, [26_639, 26_189]),
    ("streams/anthropic", 40, 999_941, [204_225, 204_275]),
    ("streams/azure", 7, 61_363, [19_503, 19_558]),
    ("streams/bedrock", 17, 94_576, [33_274, 34_221]),
    ("streams/chatgpt", 8, 85_423, [22_150, 21_821]),
    ("streams/cohere", 25, 80_463, [21_416, 21_325]),
    ("streams/copilot", 8, 93_667, [25_154, 24_540]),
    ("streams/deepseek", 27, 299_768, [82_158, 80_156]),
    ("streams/doubleword", 15, 94_855, [25_679, 25_354]),
    ("streams/google", 76, 558_675, [167_800, 170_246]),
    ("streams/groq", 12, 179_323, [49_052, 48_626]),
    ("streams/huggingface", 6, 17_889, [4_730, 4_757]),
    ("streams/llamacpp", 65, 595_857, [176_265, 172_302]),
    ("streams/llamastack", 8, 229_597, [54_146, 54_166]),
    ("streams/mistral", 35, 148_937, [41_747, 40_894]),
    ("streams/mistralrs", 4, 68_066, [19_863, 19_624]),
    ("streams/moonshotai", 2, 1_176, [338, 340]),
    ("streams/ollama", 4, 90_899, [30_394, 29_829]),
    ("streams/open-responses", 4, 29_933, [9_366, 9_339]),
    ("streams/openai", 67, 999_574, [358_997, 365_010]),
    ("streams/openai-compatible", 11, 255_517, [82_384, 83_013]),
    ("streams/openrouter", 30, 299_661, [79_186, 78_029]),
    ("streams/perplexity", 3, 33_517, [9_464, 9_433]),
    ("streams/venice", 10, 94_686, [19_467, 19_308]),
    ("streams/xai", 10, 248_590, [67_066, 68_000]),
    ("streams/zai", 4, 30_888, [8_879, 8_795]),
    ("trajectories/OpenHands__software-agent-sdk", 5, 216_237, [54_584, 54_670]),
    ("trajectories/SWE-agent__SWE-agent", 5, 699_605, [190_265, 189_933]),
    ("trajectories/ServiceNow__TapeAgents", 1, 109_222, [24_492, 24_829]),
    ("trajectories/UKGovernmentBEIS__inspect_ai", 1, 405_566, [59_782, 60_698]),
    ("trajectories/badlogic__pi-mono", 1, 2_370_492, [743_109, 739_687]),
    ("trajectories/daaain__claude-code-log", 2, 16_975, [4_698, 4_654]),
    ("trajectories/sierra-research__tau-bench", 1, 4_114_038, [1_051_880, 1_054_498]),
];

#[test]
fn every_recorded_file() {
    if !fixtures_for("every_recorded_file") {
        return;
    }
    let mut sums: BTreeMap<String, (u64, u64, [u64; 2])> = BTreeMap::new();
    for path in files(Path::new(FIXTURES)) {
        let inner = path.strip_prefix(FIXTURES).unwrap();
        let folder: Vec<_> = inner.iter().take(2).map(|part| part.to_str().unwrap()).collect();
        // Compressed data is no text, and of another kind than what was recorded.
        if inner.starts_with("receipts") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let (files, bytes, tokens) = sums.entry(folder.join("/")).or_default();
        *files += 1;
        *bytes += text.len() as u64;
        tokens.iter_mut().zip(both()).for_each(|(sum, counter)| *sum += counter.tokens(&text));
    }
    let mut compared = 0;
    for (folder, files, bytes, expected) in FOLDERS {
        match sums.get(folder) {
            Some((found_files, found_bytes, tokens)) if (*found_files, *found_bytes) == (files, bytes) => {
                assert_eq!(*tokens, expected, "{folder}");
                compared += 1;
            }
            changed => println!("{folder} is not what was counted: {changed:?}; run tests/golden.py"),
        }
    }
    assert!(compared * 10 >= FOLDERS.len() * 9, "only {compared} folders are what was counted");
}

#[test]
fn every_name_is_built_in() {
    for name in ENCODINGS {
        let counter = OpenAiCounter::named(name).unwrap();
        assert_eq!(counter.kind(), CountAccuracy::Exact);
        assert!(name.starts_with(counter.name().split('_').next().unwrap()), "{name}: {}", counter.name());
    }
    assert!(OpenAiCounter::named("gpt2").is_none());
}
