use std::fmt::Write as _;
use std::path::Path;
use longhaul_core::estimate::{TextCounter, pieces};
use crate::documents::{FIXTURES, documents};
use crate::families::family;

#[test]
fn dump() {
    let mut out = String::new();
    let names: Vec<&str> = pieces("a").map(|(n, _)| n).collect();
    writeln!(out, "{}", names.join(" ")).unwrap();
    let mut docs: Vec<(&str, String)> = Vec::new();
    for (kind, texts) in documents(Path::new(FIXTURES)) {
        let n = texts.len();
        let step = (n / 500).max(1);
        for text in texts.into_iter().step_by(step) {
            let cut: String = text.chars().take(12_000).collect();
            docs.push((kind, cut));
        }
    }
    let extra = std::fs::read_to_string("/tmp/extra.txt").unwrap_or_default();
    for block in extra.split("\n====\n") {
        docs.push(("foreign", block.to_owned()));
    }
    let families = ["gpt4o", "gpt35turbo", "llama3", "qwen3", "gemma3"].map(|n| family(n, "dump").unwrap());
    for (kind, text) in &docs {
        let counts: Vec<String> = pieces(text).map(|(_, n)| n.to_string()).collect();
        let truth: Vec<String> = families.iter().map(|f| f.tokens(text).to_string()).collect();
        let tri: usize = text.chars().count().div_ceil(3);
        let sub: usize = text.split_whitespace().map(|w| w.chars().count().div_ceil(4) ).sum::<usize>() + text.chars().filter(|c| c.is_whitespace()).count() / 2;
        writeln!(out, "{}|{}|{}|{} {} {}|{}", kind.replace(' ', "_"), text.len(), counts.join(" "), tri, text.len(), sub, truth.join(" ")).unwrap();
    }
    std::fs::write("/tmp/dump.txt", out).unwrap();
}
