//! A benchmark of token counters in `o200k_base`, each in a process of its own. `just peers` runs the benchmark.

#[path = "../../tests/it/documents.rs"]
#[expect(dead_code, reason = "what only the tests need")]
mod documents;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use longhaul_core::estimate::{TextCounter, chars_div_4, text_tokens};
use longhaul_tokenizers::{Cached, ContentKey, OpenAi, TokenizerJson};

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../../shared/fixtures");

const INSTALLED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../target/tokenizers");

/// The counters. The last two are our own in other vocabularies.
const NAMES: [&str; 11] = [
    "longhaul",
    "tiktoken",
    "toktok-rs",
    "splintr",
    "bpe-openai",
    "tiktoken-rs",
    "gpt4o.json",
    "estimate",
    "chars/4",
    "qwen3.json",
    "gemma3.json",
];

type Count = Arc<dyn Fn(&str) -> u64 + Send + Sync>;

fn load(name: &str) -> Count {
    match name {
        "longhaul" => {
            let counter = OpenAi::named("o200k_base").unwrap();
            Arc::new(move |text| counter.tokens(text))
        }
        "tiktoken" => Arc::new(|text| tiktoken::get_encoding("o200k_base").unwrap().count(text) as u64),
        "toktok-rs" => {
            let tokenizer = toktok::Tokenizer::builtin("o200k_base").unwrap();
            Arc::new(move |text| tokenizer.count(text.as_bytes()) as u64)
        }
        "splintr" => {
            let tokenizer = splintr::from_pretrained("o200k_base").unwrap();
            Arc::new(move |text| tokenizer.encode_raw(text).len() as u64)
        }
        "bpe-openai" => Arc::new(|text| bpe_openai::o200k_base().count(text) as u64),
        "tiktoken-rs" => Arc::new(|text| tiktoken_rs::o200k_base_singleton().count_ordinary(text) as u64),
        "estimate" => Arc::new(text_tokens),
        "chars/4" => Arc::new(chars_div_4),
        family => {
            let path = [INSTALLED, family.trim_end_matches(".json"), "tokenizer.json"].join("/");
            let counter = TokenizerJson::from_path(path.as_ref()).unwrap();
            Arc::new(move |text| counter.tokens(text))
        }
    }
}

fn texts() -> BTreeMap<&'static str, Vec<String>> {
    let mut texts: BTreeMap<_, Vec<String>> = documents::documents(FIXTURES.as_ref())
        .into_iter()
        .map(|(kind, texts)| (kind, texts.into_iter().collect()))
        .collect();
    texts.insert("CJK", (0..200).map(|seed| cjk(4_000, seed)).collect());
    texts
}

fn random(state: &mut u64, below: usize) -> usize {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) as usize % below
}

/// Returns words of three languages in random order, so that a cache of pieces helps no more than in real text.
fn cjk(bytes: usize, seed: u64) -> String {
    const WORDS: &str = "我们 上下文 窗口 工具 输出 会话 压缩 消息 的 了 在 是 不 和 需要 因为 如果 可以 时候 文件 系统 用户 \
        模型 结果 错误 运行 测试 完成 开始 这个 那个 问题 数据 网络 今天 天气 世界 学习 中国 北京 现在 没有 什么 \
        これは です ます から ので について 会話 文脈 出力 道具 圧縮 履歴 設定 東京 日本語 する して いる あります \
        그리고 문맥 도구 출력 대화 압축 오류 파일 사용자 모델 합니다 있습니다 서울 오늘 날씨";
    let words: Vec<&str> = WORDS.split_whitespace().collect();
    let (mut text, mut state) = (String::new(), seed + 1);
    while text.len() < bytes {
        text.push_str(words[random(&mut state, words.len())]);
        match random(&mut state, 12) {
            0 => text.push('，'),
            1 => text.push('。'),
            2 => text.push('\n'),
            _ => {}
        }
    }
    text
}

fn noise(alphabet: &str) -> String {
    let chars: Vec<char> = alphabet.chars().collect();
    let (mut text, mut state) = (String::new(), 3);
    while text.len() < 1 << 20 {
        text.push(chars[random(&mut state, chars.len())]);
    }
    text
}

fn worst() -> [(&'static str, String); 6] {
    [
        ("'a'", noise("a")),
        ("spaces", noise(" ")),
        ("'_'", noise("_")),
        ("emoji", noise("😀")),
        ("a-z", noise("abcdefghijklmnopqrstuvwxyz")),
        ("newlines", noise("\n ")),
    ]
}

/// Returns the processor time of this thread in seconds, without the other work of the machine.
fn busy() -> f64 {
    let spent = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    spent.tv_sec as f64 + spent.tv_nsec as f64 / 1e9
}

/// Returns the seconds for counting all texts, in a new thread with cold caches.
fn cold(count: &Count, texts: &Arc<Vec<String>>) -> f64 {
    let (count, texts) = (Arc::clone(count), Arc::clone(texts));
    let run = move || {
        let start = busy();
        std::hint::black_box(texts.iter().map(|text| count(text)).sum::<u64>());
        busy() - start
    };
    std::thread::spawn(run).join().unwrap()
}

fn resident_mb() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or("0 kB");
    line.trim().trim_end_matches(" kB").parse::<f64>().unwrap_or(0.0) / 1e3
}

/// Prints one row: load time, memory, MB/s by kind, seconds per worst case. Each text is counted once, with cold caches.
fn measure(name: &str) {
    let (before, start) = (resident_mb(), busy());
    let count = load(name);
    count("The first text builds what is built late.");
    let mut cells = vec![(busy() - start) * 1e3, resident_mb() - before];
    let texts: Vec<_> = texts().into_values().map(Arc::new).collect();
    let bytes = |texts: &Vec<String>| texts.iter().map(String::len).sum::<usize>() as f64 / 1e6;
    let seconds: Vec<f64> = texts.iter().map(|texts| cold(&count, texts)).collect();
    cells.extend(texts.iter().zip(&seconds).map(|(texts, seconds)| bytes(texts) / seconds));
    cells.push(texts.iter().map(|texts| bytes(texts)).sum::<f64>() / seconds.iter().sum::<f64>());
    for (_, text) in worst() {
        let text = Arc::new(vec![text]);
        cells.push(catch_unwind(AssertUnwindSafe(|| cold(&count, &text))).unwrap_or(f64::NAN));
    }
    let reference = OpenAi::named("o200k_base").unwrap();
    let differ =
        texts.iter().flat_map(|texts| texts.iter()).filter(|text| count(text) != reference.tokens(text));
    cells.push(differ.count() as f64);
    println!("{}", cells.iter().map(f64::to_string).collect::<Vec<_>>().join("\t"));
}

/// Returns the best of three processes, cell by cell.
fn row(name: &str) -> String {
    let run = || -> Vec<f64> {
        let output = Command::new(std::env::current_exe().unwrap()).arg(name).output().unwrap();
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        let line = String::from_utf8(output.stdout).unwrap();
        line.trim().split('\t').map(|cell| cell.parse().unwrap()).collect()
    };
    let runs = [run(), run(), run()];
    let cell = |place: usize| {
        let [a, b, c] = runs.each_ref().map(|run| run[place]);
        match place {
            0 | 1 | 14 => format!("{:.0}", a.min(b).min(c)),
            2..8 => format!("{:.1}", a.max(b).max(c)),
            _ if a.is_nan() => "panic".to_owned(),
            _ => format!("{:.3}", a.min(b).min(c)),
        }
    };
    (0..runs[0].len()).map(cell).collect::<Vec<_>>().join(" | ")
}

/// Measures a conversation of a million tokens in blocks of 4 KiB, with one new block.
fn recount() {
    let counter = Cached::new(OpenAi::named("o200k_base").unwrap());
    let text = texts().remove("tool output").unwrap().concat();
    let block = |n: usize| {
        let start = text.floor_char_boundary(n * 4_093 % (text.len() - 4_200));
        format!("{n} {}", &text[start..text.floor_char_boundary(start + 4_090)])
    };
    let (mut blocks, mut total) = (Vec::new(), 0);
    while total < 1_000_000 {
        let block = block(blocks.len());
        total += counter.tokens(&block);
        blocks.push((ContentKey::of(&block), block));
    }
    let again = |n: usize| {
        let new = block(blocks.len() + n);
        let start = Instant::now();
        let kept: u64 = blocks.iter().map(|(key, text)| counter.groups_of(*key, text).total()).sum();
        std::hint::black_box(kept + counter.tokens(&new));
        start.elapsed().as_secs_f64() * 1e6
    };
    let mut times: Vec<f64> = (0..1_000).map(again).collect();
    times.sort_by(f64::total_cmp);
    let count = blocks.len();
    println!(
        "{total} tokens in {count} blocks, counted again with one new block of 4 KiB: median {:.0} µs, p95 {:.0} µs",
        times[500], times[950]
    );
}

fn main() {
    if let Some(name) = std::env::args().nth(1) {
        std::panic::set_hook(Box::new(|_| {}));
        return if name == "recount" { recount() } else { measure(&name) };
    }
    let kinds: Vec<&str> = texts().into_keys().collect();
    let worst: Vec<&str> = worst().into_iter().map(|(name, _)| name).collect();
    println!("| name | load ms | MB | {} | all | {} | differ |", kinds.join(" | "), worst.join(" | "));
    for name in NAMES {
        println!("| {name} | {} |", row(name));
    }
    recount();
}
