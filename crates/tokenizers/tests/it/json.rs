//! `tokenizer.json` files: counts that Python's `tokenizers` 0.23 gives, and what is refused.

use std::collections::BTreeMap;
use std::path::Path;

use longhaul_core::estimate::{CountAccuracy, TextCounter};
use longhaul_tokenizers::{TokenizerJsonCounter, TokenizerLoadError};

use crate::documents::{FIXTURES, files, fixtures_for};
use crate::families::family;

const FAMILIES: [&str; 3] = ["qwen3", "llama3", "gemma3"];

/// Text, then its tokens in Qwen 3, Llama 3 and Gemma 3.
const SAMPLES: [(&str, [u64; 3]); 28] = [
    ("", [0, 0, 0]),
    ("a", [1, 1, 1]),
    (" ", [1, 1, 1]),
    ("\n", [1, 1, 1]),
    ("antidisestablishmentarianism", [6, 6, 5]),
    ("2 + 2 = 4", [7, 7, 7]),
    ("お誕生日おめでとう", [7, 9, 4]),
    ("tiktoken is great!", [6, 5, 5]),
    ("don't we'll THEY'RE I'D", [8, 8, 12]),
    ("fooBarBaz HTTPServer2 snake_case_name", [10, 10, 11]),
    ("1234567890 3.14159", [18, 9, 18]),
    ("    return x\n\n\n\tif (a&&b){}\r\n", [11, 11, 13]),
    ("<|endoftext|><|im_start|>user", [13, 13, 13]),
    ("上下文窗口快满的时候，旧的工具输出会先被清除。", [16, 19, 15]),
    ("컨텍스트 창이 가득 차면 오래된 출력이 지워집니다.", [20, 20, 18]),
    ("Когда окно контекста заполнится, старый вывод удаляется.", [19, 16, 14]),
    ("عندما تمتلئ نافذة السياق، يُمحى الإخراج القديم.", [26, 23, 19]),
    ("जब संदर्भ विंडो भर जाती है, पुराना आउटपुट हटा दिया जाता है।", [56, 33, 15]),
    ("เมื่อหน้าต่างบริบทเต็ม ผลลัพธ์เก่าจะถูกลบ", [27, 22, 15]),
    ("Größenänderung: façade, naïve, Ærøskøbing", [19, 19, 16]),
    ("👩\u{200d}👩\u{200d}👧\u{200d}👦🏽❤\u{fe0f}🔥 \u{200d}", [16, 25, 11]),
    ("aGVsbG8gd29ybGQhIEJhc2U2NCBpcyBmdW4=", [27, 26, 25]),
    ("6f1ed002ab5595859014ebf0951522d9", [29, 17, 29]),
    ("┌──┐│  │└──┘ ████", [12, 13, 10]),
    ("x\u{a0}y\u{2003}z\u{3000}w\u{2028}v", [11, 10, 16]),
    ("\u{0}\u{1}\u{7f}", [3, 3, 3]),
    ("e\u{301}\u{323} \u{1ab0} \u{fb01}", [7, 8, 8]),
    ("𝕳𝖊𝖑𝖑𝖔 𐍈 \u{e0041}", [12, 23, 18]),
];

#[test]
fn samples_of_many_scripts() {
    for (place, name) in FAMILIES.into_iter().enumerate() {
        let Some(counter) = family(name, "json::samples_of_many_scripts") else { continue };
        for (text, expected) in SAMPLES {
            assert_eq!(counter.tokens(text), expected[place], "{name}: {text:?}");
        }
    }
}

/// Folder, files, bytes, tokens in Qwen 3, Llama 3 and Gemma 3; each file is one text.
const FOLDERS: [(&str, u64, u64, [u64; 3]); 7] = [
    ("trajectories/OpenHands__software-agent-sdk", 5, 216_237, [55_981, 54_670, 57_983]),
    ("trajectories/SWE-agent__SWE-agent", 5, 699_605, [202_574, 189_922, 223_321]),
    ("trajectories/ServiceNow__TapeAgents", 1, 109_222, [26_618, 24_828, 27_849]),
    ("trajectories/UKGovernmentBEIS__inspect_ai", 1, 405_566, [66_712, 60_662, 76_335]),
    ("trajectories/badlogic__pi-mono", 1, 2_370_492, [803_672, 739_074, 928_021]),
    ("trajectories/daaain__claude-code-log", 2, 16_975, [5_006, 4_654, 5_197]),
    ("trajectories/sierra-research__tau-bench", 1, 4_114_038, [1_127_392, 1_054_354, 1_208_385]),
];

#[test]
fn every_recorded_session() {
    if !fixtures_for("json::every_recorded_session") {
        return;
    }
    for (place, name) in FAMILIES.into_iter().enumerate() {
        let Some(counter) = family(name, "json::every_recorded_session") else { continue };
        let mut compared = 0;
        for (folder, file_count, bytes, expected) in FOLDERS {
            let texts: Vec<String> = files(&Path::new(FIXTURES).join(folder))
                .iter()
                .map(|path| std::fs::read_to_string(path).unwrap())
                .collect();
            let found = (texts.len() as u64, texts.iter().map(|text| text.len() as u64).sum::<u64>());
            if found != (file_count, bytes) {
                println!("{folder} is not what was counted: {found:?}");
                continue;
            }
            let tokens: u64 = texts.iter().map(|text| counter.tokens(text)).sum();
            assert_eq!(tokens, expected[place], "{name}: {folder}");
            compared += 1;
        }
        assert!(compared + 1 >= FOLDERS.len(), "only {compared} folders are what was counted");
    }
}

/// The characters that stand for the bytes (the table of GPT-2): themselves if they can be seen, else from 256 on.
fn byte_letters() -> impl Iterator<Item = String> {
    let seen = |byte: &u32| matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
    let unseen = (0..256).filter(move |byte| !seen(byte)).zip(256..).map(|(_, code)| code);
    (0..256).filter(seen).chain(unseen).map(|code| char::from_u32(code).unwrap().to_string())
}

/// A vocabulary of single bytes and two merges, with a special token and a frame around each text.
fn tiny() -> serde_json::Value {
    let merged = ["<s>", "ab", "abc"].map(str::to_owned);
    let vocab: BTreeMap<String, u32> = merged.into_iter().chain(byte_letters()).zip(0..).collect();
    serde_json::json!({
        "version": "1.0",
        "truncation": { "direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0 },
        "padding": null,
        "added_tokens": [{
            "id": 0, "content": "<s>", "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": false, "special": true
        }],
        "normalizer": null,
        "pre_tokenizer": { "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true },
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [{ "SpecialToken": { "id": "<s>", "type_id": 0 } }, { "Sequence": { "id": "A", "type_id": 0 } }],
            "pair": [{ "Sequence": { "id": "A", "type_id": 0 } }, { "Sequence": { "id": "B", "type_id": 1 } }],
            "special_tokens": { "<s>": { "id": "<s>", "ids": [0], "tokens": ["<s>"] } }
        },
        "decoder": null,
        "model": {
            "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false,
            "vocab": vocab, "merges": ["a b", "ab c"]
        }
    })
}

fn load(value: &serde_json::Value) -> Result<TokenizerJsonCounter, TokenizerLoadError> {
    TokenizerJsonCounter::from_bytes(value.to_string().as_bytes())
}

#[test]
fn nothing_is_added_and_nothing_is_cut_off() {
    let counter = load(&tiny()).unwrap();
    assert_eq!(counter.kind(), CountAccuracy::Exact);
    for (text, tokens) in [("", 0), ("abc", 1), ("abcabcabcabcabcabc", 6), ("cab", 2), ("bb", 2)] {
        assert_eq!(counter.tokens(text), tokens, "{text:?}");
    }
}

#[test]
fn what_looks_like_a_special_token_is_text() {
    assert_eq!(load(&tiny()).unwrap().tokens("<s>"), 3);
}

#[test]
fn two_files_have_two_names() {
    let one = load(&tiny()).unwrap();
    let mut other = tiny();
    other["model"]["merges"] = serde_json::json!(["a b"]);
    let other = load(&other).unwrap();
    assert_ne!(one.name(), other.name());
    assert_eq!(other.tokens("abc"), 2);
    assert_eq!(load(&tiny()).unwrap().name(), one.name());
}

#[test]
fn ids_that_would_fill_the_memory_are_refused() {
    let mut model = tiny();
    model["model"]["vocab"]["abc"] = 4_294_967_290_u32.into();
    let mut added = tiny();
    added["added_tokens"][0]["id"] = 4_294_967_290_u32.into();
    for value in [model, added] {
        let error = load(&value).unwrap_err();
        assert!(matches!(error, TokenizerLoadError::Malformed(_)), "{error}");
        assert!(error.to_string().contains("has the id 4294967290"), "{error}");
    }
}

#[cfg(unix)]
#[test]
fn what_is_no_file_is_not_opened() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("tokenizer.json");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    for path in [&pipe, folder.path(), Path::new("/dev/zero")] {
        let error = TokenizerJsonCounter::from_path(path).unwrap_err().to_string();
        assert!(error.contains("it is not a regular file"), "{error}");
    }
    let large = folder.path().join("large.json");
    std::fs::File::create(&large).unwrap().set_len(1 << 40).unwrap();
    let error = TokenizerJsonCounter::from_path(&large).unwrap_err().to_string();
    assert!(error.contains("it is larger than 64 MiB"), "{error}");
}

#[test]
fn what_cannot_be_used_says_why() {
    let missing = Path::new("/nowhere/tokenizer.json");
    assert!(
        matches!(TokenizerJsonCounter::from_path(missing), Err(TokenizerLoadError::Read { path, .. }) if path == missing)
    );
    for bytes in [&b"\xff\xfe"[..], b"", b"{", b"[]", b"{}", b"{\"model\": 7}"] {
        let error = TokenizerJsonCounter::from_bytes(bytes).unwrap_err();
        assert!(matches!(error, TokenizerLoadError::Malformed(_)), "{bytes:?}: {error}");
    }
    let mut unigram = tiny();
    unigram["model"] = serde_json::json!({ "type": "Unigram", "unk_id": 0, "vocab": [["a", 0.0]] });
    unigram["pre_tokenizer"] = serde_json::Value::Null;
    let error = load(&unigram).unwrap_err();
    assert!(matches!(error, TokenizerLoadError::Unsupported(_)), "{error}");
    assert!(error.to_string().to_lowercase().contains("unigram"), "{error}");
    let mut own_pattern = tiny();
    own_pattern["pre_tokenizer"] = serde_json::json!({
        "type": "Split", "pattern": { "Regex": "(x+)+y\\b" }, "behavior": "Isolated", "invert": false
    });
    let error = load(&own_pattern).unwrap_err();
    assert!(matches!(error, TokenizerLoadError::Unsupported(_)), "{error}");
}
