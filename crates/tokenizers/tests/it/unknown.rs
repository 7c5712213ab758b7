//! How near the meter comes to a model whose tokenizer it does not know: sessions over recorded texts, with prunes and compactions,
//! against servers that count by published and by made-up vocabularies, put marks around messages and prompts before them.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::Path;

use longhaul_core::estimate::{MessageTokenCounter, TextCounter};
use longhaul_core::event::{
    EditKind, EditReason, Event, EventBody, FORMAT, StepKind, StepStart, ViewEdit, ViewOperation,
};
use longhaul_core::history::{History, ViewItemKind, closing_result};
use longhaul_core::ids::LogRange;
use longhaul_core::message::{Message, ModelOrigin, ModelStopReason, Part, Role, ToolCall, ToolStatus};
use longhaul_core::meter::{self, TokenizerProfile};
use longhaul_core::usage::Usage;

use crate::documents::{FIXTURES, documents, fixtures_for};
use crate::families::family;

/// Calls after which a model counts as known.
const CALLS_TO_LEARN: usize = 10;

/// A request of so many tokens is compacted, by the server's count for each token of `o200k_base`.
const FULL_TOKENS: u64 = 30_000;

/// The goal for the 95th percentile of the next input's error, in percent, compactions included.
const GOAL: f64 = 3.0;

/// The servers whose vocabulary no model has.
const MADE_UP: [&str; 3] = ["trigrams", "bytes", "subwords"];

/// Chinese, Japanese, Korean, Russian and German: sentences that documents are made of.
const FOREIGN: [&str; 15] = [
    "服务器在启动时读取配置文件，如果文件不存在，就使用默认值。",
    "请检查日志中的错误信息，然后告诉我哪一个测试失败了。",
    "昨天晚上我们把数据库迁移到了新的机器上，今天早上一切正常。",
    "この関数は入力を検証してから、結果をキャッシュに保存します。",
    "テストが失敗した場合は、ログを確認して原因を教えてください。",
    "明日の会議までに、変更点をまとめた資料を用意しておきます。",
    "이 함수는 입력을 확인한 다음 결과를 파일에 저장합니다.",
    "테스트가 실패하면 로그를 살펴보고 원인을 알려 주세요.",
    "내일 회의 전까지 변경 사항을 정리해 두겠습니다.",
    "Сервер читает файл настроек при запуске и сообщает об ошибках в журнал.",
    "Проверьте, пожалуйста, почему последний тест завершился неудачно.",
    "Мы перенесли базу данных на новую машину, и всё работает как прежде.",
    "Der Server liest beim Start die Einstellungen und meldet jeden Fehler im Protokoll.",
    "Bitte prüfen Sie, warum der letzte Versuch gescheitert ist, und schlagen Sie eine Lösung vor.",
    "Die Änderungen müssen bis zur Besprechung am Donnerstag fertig sein.",
];

/// Numbers that follow from a seed (SplitMix64).
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }
}

/// A server: its vocabulary, the marks around each message, and the prompt that it puts before all of them, in tokens.
struct CountingServer {
    name: &'static str,
    count: Box<dyn Fn(&str) -> u64>,
    framing: u64,
    hidden: u64,
    counted: BTreeMap<String, u64>,
}

impl CountingServer {
    fn new(name: &'static str, framing: u64, hidden: u64, count: impl Fn(&str) -> u64 + 'static) -> Self {
        Self { name, count: Box::new(count), framing, hidden, counted: BTreeMap::new() }
    }

    fn text(&mut self, text: &str) -> u64 {
        if let Some(tokens) = self.counted.get(text) {
            return *tokens;
        }
        let tokens = (self.count)(text);
        self.counted.insert(text.to_owned(), tokens);
        tokens
    }

    fn parts(&mut self, parts: &[Part]) -> u64 {
        let mut tokens = 0;
        for part in parts {
            tokens += match part {
                Part::Text(text) => self.text(&text.text),
                Part::ToolCall(call) => self.text(&call.name) + self.text(&call.arguments) + 12,
                Part::ToolResult(result) => self.parts(&result.content) + 6,
                _ => unreachable!("the sessions have no others"),
            };
        }
        tokens
    }
}

fn servers(test: &str) -> Vec<CountingServer> {
    let published = [
        ("gpt4o", 3, 0),
        ("gpt35turbo", 4, 2_000),
        ("llama3", 5, 0),
        ("qwen3", 5, 500),
        ("gemma3", 8, 2_000),
    ];
    let published = published.into_iter().filter_map(|(name, framing, hidden)| {
        let vocabulary = family(name, test)?;
        Some(CountingServer::new(name, framing, hidden, |text| vocabulary.tokens(text)))
    });
    let trigrams = |text: &str| text.chars().count().div_ceil(3) as u64;
    let bytes = |text: &str| text.len() as u64;
    let mut servers: Vec<CountingServer> = published.collect();
    servers.push(CountingServer::new("trigrams", 11, 0, trigrams));
    servers.push(CountingServer::new("bytes", 3, 0, bytes));
    servers.push(CountingServer::new("subwords", 6, 1_000, subwords));
    servers
}

/// Words in pieces of four letters, each digit and mark by itself, two tokens for a letter outside ASCII, one for a run of blanks
/// that is longer than one.
fn subwords(text: &str) -> u64 {
    let (mut tokens, mut letters, mut blanks) = (0, 0_u64, 0_u64);
    for char in text.chars().chain(['\0']) {
        if char.is_ascii_alphabetic() {
            letters += 1;
            continue;
        }
        tokens += letters.div_ceil(4);
        letters = 0;
        if char.is_whitespace() {
            blanks += 1;
            continue;
        }
        tokens += u64::from(blanks > 1);
        blanks = 0;
        tokens += if char.is_ascii() { 1 } else { 2 };
    }
    tokens
}

/// What sessions are about: what people and models write, and what tools return.
#[derive(Clone, Copy, Debug)]
enum Topic {
    Coding,
    Data,
    Chat,
    Foreign,
}

/// Texts to draw from, by kind.
struct Texts(BTreeMap<&'static str, Vec<String>>);

impl Texts {
    fn read() -> Self {
        let mut texts: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for (kind, all) in documents(Path::new(FIXTURES)) {
            let step = (all.len() / 150).max(1);
            let cut = |text: String| text.chars().take(6_000).collect();
            texts.insert(kind, all.into_iter().step_by(step).map(cut).collect());
        }
        let mut rng = Rng(7);
        let foreign = (0..60).map(|_| {
            let language = rng.below(5) * 3;
            let count = 4 + rng.below(30);
            (0..count).map(|_| FOREIGN[language + rng.below(3)]).collect::<Vec<_>>().join("\n")
        });
        texts.insert("foreign", foreign.collect());
        Self(texts)
    }

    fn draw(&self, rng: &mut Rng, kind: &str, max_chars: usize) -> String {
        rng.of(&self.0[kind]).chars().take(max_chars).collect()
    }

    fn said(&self, rng: &mut Rng, topic: Topic, max_chars: usize) -> String {
        let kind = if matches!(topic, Topic::Foreign) { "foreign" } else { "prose" };
        self.draw(rng, kind, max_chars)
    }

    fn result(&self, rng: &mut Rng, topic: Topic) -> String {
        let kinds: &[&str] = match topic {
            Topic::Coding | Topic::Chat => &["tool output", "code", "tool output"],
            Topic::Data => &["JSON", "tool output", "JSON"],
            Topic::Foreign => &["tool output", "foreign", "code"],
        };
        let max_chars = if rng.below(5) == 0 { 6_000 } else { 2_500 };
        let kind = rng.of(kinds);
        self.draw(rng, kind, max_chars)
    }
}

/// Unsigned errors of the next input in percent.
#[derive(Default)]
struct Errors {
    all: Vec<f64>,
    after_edit: Vec<f64>,
    first_of_session: Vec<f64>,
}

fn percentile(errors: &[f64], percent: usize) -> f64 {
    let mut errors = errors.to_vec();
    errors.sort_by(f64::total_cmp);
    errors.get((errors.len().max(1) - 1) * percent / 100).copied().unwrap_or(0.0)
}

/// A session with a server.
struct Session<'a> {
    server: &'a mut CountingServer,
    history: History,
    /// System prompt and tools: by our estimate, and by the server's count.
    fixed: [u64; 2],
    /// The view was edited since the last call.
    is_edited: bool,
}

impl Session<'_> {
    fn add(&mut self, body: EventBody) {
        let seq = self.history.last_seq() + 1;
        self.history.apply(&Event { seq, at: 0, format: FORMAT, body }).unwrap();
    }

    /// What the server counts of the next request.
    fn actual(&mut self) -> u64 {
        let mut tokens = self.server.hidden + self.fixed[1] + 3;
        for item in self.history.view() {
            tokens += self.server.parts(&item.message.parts) + self.server.framing;
        }
        tokens
    }

    fn ask(&mut self, text: &str) {
        let message = Message::user(format!("m{}", self.history.last_seq()), vec![Part::text(text)]);
        self.add(EventBody::message_taken(message));
    }

    /// A call, and the error of the estimate before it.
    fn call(&mut self, text: &str, arguments: Option<&str>, report: impl Fn(u64) -> u64) -> f64 {
        let actual = self.actual();
        let expected = meter::read(&self.history, self.fixed[0]).total;
        let step_id = longhaul_core::ids::StepId::new(format!("s{}", self.history.last_seq()));
        let origin = ModelOrigin { provider: "p".to_owned(), api: "a".to_owned(), model: "m".to_owned() };
        let start = StepStart {
            step_id: step_id.clone(),
            run_id: "r".into(),
            purpose: StepKind::Main,
            model: origin.clone(),
            system_hash: String::new(),
            tools_hash: String::new(),
            view_hash: String::new(),
            fixed_tokens: self.fixed[0],
            estimated_input: expected,
            max_output_tokens: 4_096,
            window_tokens: None,
        };
        self.add(EventBody::StepStarted(Box::new(start)));
        let call = arguments.map(|arguments| {
            let call_id = format!("c{}", self.history.last_seq()).as_str().into();
            let arguments = serde_json::json!({ "input": arguments }).to_string();
            Part::ToolCall(ToolCall {
                call_id,
                name: "lookup".into(),
                arguments,
                provider_id: None,
                native: None,
            })
        });
        let finish = if call.is_some() { ModelStopReason::ToolCalls } else { ModelStopReason::Stop };
        let parts: Vec<Part> = [Part::text(text)].into_iter().chain(call).collect();
        let output_tokens = self.server.parts(&parts) + 1;
        let id = format!("m{}", self.history.last_seq()).into();
        let message = Message { id, role: Role::Assistant, parts, origin: Some(origin) };
        self.add(EventBody::AssistantAdded { step_id: step_id.clone(), message, finish, cut: None });
        let usage = Usage { input_tokens: report(actual), output_tokens, ..Usage::default() };
        let finished = EventBody::StepFinished {
            step_id,
            usage: Some(usage),
            estimated_input: expected,
            envelope: None,
        };
        self.add(finished);
        self.is_edited = false;
        expected.abs_diff(actual) as f64 * 100.0 / actual as f64
    }

    fn result(&mut self, text: &str) {
        let call_id = self.history.open_calls()[0].call.call_id.clone();
        let result = closing_result(&call_id, ToolStatus::Completed, text);
        self.add(EventBody::ToolFinished { result });
    }

    /// Old results become placeholders.
    fn prune(&mut self) {
        let view = self.history.view();
        let old = view.iter().take(view.len().saturating_sub(5));
        let results = old.filter(|item| matches!(item.kind, ViewItemKind::Result { cleared: None, .. }));
        let ops: Vec<ViewOperation> = results.map(|item| ViewOperation::clear(item.range.from)).collect();
        if !ops.is_empty() {
            self.edit(EditKind::Prune, ops);
        }
    }

    /// All before the newest typed message becomes a summary.
    fn compact(&mut self, summary: &str) {
        let Some(newest) = self.history.newest_typed().filter(|at| *at > 1) else { return };
        let view = self.history.view();
        let range = LogRange { from: view[0].range.from, to: view[newest].range.from - 1 };
        let parts = vec![Part::text(summary)];
        self.edit(EditKind::Compaction, vec![ViewOperation::Replace { range, parts, summary: true }]);
    }

    fn edit(&mut self, kind: EditKind, ops: Vec<ViewOperation>) {
        let edit = ViewEdit {
            id: format!("e{}", self.history.last_seq()).into(),
            base_view_hash: self.history.view_hash(),
            ops,
            kind,
            strategy: String::new(),
            reason: EditReason::TokenLimit,
            trigger_tokens: 0,
            original_tokens: 0,
            compressed_tokens: 0,
            original_bound: 0,
            compressed_bound: 0,
            original_messages: 0,
            compressed_messages: 0,
            why: String::new(),
            usage: None,
            summary: None,
        };
        self.add(EventBody::ViewEdited(Box::new(edit)));
        self.is_edited = true;
    }
}

/// System prompt and tools of an agent: by the estimate, and by the server's count.
fn fixed_part(server: &mut CountingServer, texts: &Texts, rng: &mut Rng) -> [u64; 2] {
    let wanted = *rng.of(&[800, 2_000, 3_000, 6_000]);
    let mut fixed = [0, 0];
    while fixed[0] < wanted {
        let kind = *rng.of(&["prose", "prose", "JSON"]);
        let text = texts.draw(rng, kind, 2_000);
        fixed[0] += MessageTokenCounter::structured().text(&text);
        fixed[1] += server.text(&text);
    }
    fixed
}

/// Sessions of one agent with a model, each beginning with what the one before has shown. Errors before the model counts as known
/// are not kept.
fn talk(server: &mut CountingServer, texts: &Texts, seed: u64, errors: &mut Errors) {
    let mut rng = Rng(seed);
    let fixed = fixed_part(server, texts, &mut rng);
    let mut profile: Option<TokenizerProfile> = None;
    let mut calls = 0;
    let dearest = if server.name == "bytes" { 4 } else { 1 };
    for _ in 0..4 {
        let topic = *rng.of(&[Topic::Coding, Topic::Data, Topic::Chat, Topic::Foreign]);
        let counter = match profile.take() {
            Some(profile) => MessageTokenCounter::structured().clone().with_prior(profile),
            None => MessageTokenCounter::structured().clone(),
        };
        let mut session = Session { server, history: History::new(counter), fixed, is_edited: false };
        session.add(EventBody::SessionStarted {
            title: None,
            forked_from: None,
            imported_from: None,
            folder: None,
        });
        session.add(EventBody::RunStarted { run_id: "r".into() });
        let (mut steps, mut is_first) = (0, true);
        for _ in 0..*rng.of(&[20, 40, 60]) {
            if steps == 0 {
                session.ask(&texts.said(&mut rng, topic, 3_000));
                steps = if matches!(topic, Topic::Chat) { 1 } else { *rng.of(&[1, 3, 6]) };
                if session.actual() > FULL_TOKENS * dearest {
                    session.compact(&texts.said(&mut rng, Topic::Chat, 6_000));
                }
            } else if rng.below(20) == 0 {
                session.prune();
            }
            let was_edited = session.is_edited;
            let text = texts.said(&mut rng, topic, if steps > 1 { 200 } else { 2_000 });
            let arguments = (steps > 1).then(|| texts.draw(&mut rng, "JSON", 600));
            let error = session.call(&text, arguments.as_deref(), |actual| actual);
            if calls >= CALLS_TO_LEARN {
                errors.all.push(error);
                if was_edited {
                    errors.after_edit.push(error);
                }
                if is_first {
                    errors.first_of_session.push(error);
                }
            }
            if steps > 1 {
                session.result(&texts.result(&mut rng, topic));
            }
            (steps, is_first, calls) = (steps - 1, false, calls + 1);
        }
        profile = session.history.calibration().settled();
    }
}

#[test]
fn next_input_with_an_unknown_tokenizer() {
    let test = "next_input_with_an_unknown_tokenizer";
    if !fixtures_for(test) {
        return;
    }
    let texts = Texts::read();
    println!("error of the next input in percent, after {CALLS_TO_LEARN} calls of the model");
    println!(
        "{:12} {:>6} {:>20} {:>16} {:>16}",
        "", "calls", "all: p50 p95 p99", "after edit p95", "first call p95"
    );
    let mut misses = Vec::new();
    for mut server in servers(test) {
        let mut errors = Errors::default();
        for seed in 0..14 {
            talk(&mut server, &texts, seed, &mut errors);
        }
        let [median, p95, p99] = [50, 95, 99].map(|percent| percentile(&errors.all, percent));
        let [edited, first] =
            [&errors.after_edit, &errors.first_of_session].map(|errors| percentile(errors, 95));
        println!(
            "{:12} {:6} {median:6.2} {p95:6.2} {p99:6.2} {:6} {edited:9.2} {:6} {first:9.2}",
            server.name,
            errors.all.len(),
            errors.after_edit.len(),
            errors.first_of_session.len()
        );
        assert!(errors.after_edit.len() > 20 && errors.first_of_session.len() > 20, "{}", server.name);
        // Right after an edit the split of a known sum is estimated: made-up vocabularies come to 5 %. A session's first
        // call has nothing but what earlier sessions taught, and these vocabularies come to 4.3 % there.
        let first_goal = if MADE_UP.contains(&server.name) { 1.5 * GOAL } else { GOAL };
        if p95 > GOAL || edited > 2.0 * GOAL || first > first_goal {
            misses.push(server.name);
        }
    }
    assert!(misses.is_empty(), "beyond {GOAL} %: {misses:?}");
}

/// A session in English with a server of trigrams, whose reports are what `report` makes of them by the call's number.
fn reported(calls: usize, report: impl Fn(usize, u64) -> u64) -> (History, Vec<f64>) {
    let mut server = CountingServer::new("trigrams", 5, 0, |text| text.chars().count().div_ceil(3) as u64);
    let mut session =
        Session { server: &mut server, history: History::default(), fixed: [500, 900], is_edited: false };
    session.add(EventBody::SessionStarted {
        title: None,
        forked_from: None,
        imported_from: None,
        folder: None,
    });
    session.add(EventBody::RunStarted { run_id: "r".into() });
    let mut errors = Vec::new();
    for call in 0..calls {
        session.ask(
            &format!("Please look at part {call} of it, and say what you think. ").repeat(12 + call % 5),
        );
        errors.push(session.call(
            &"I have looked at it, and it is fine. ".repeat(9 + call % 4),
            None,
            |actual| report(call, actual),
        ));
    }
    (session.history, errors)
}

/// A server that reports the same always, or only what no cache had, is found out; what was true before stays.
#[test]
fn wrong_reports_destroy_nothing() {
    let (honest, errors) = reported(30, |_, actual| actual);
    assert!(!honest.usage_is_unreliable() && percentile(&errors[10..], 95) < 1.0, "{errors:?}");
    let constant = |call, actual| if call < 12 { actual } else { 1_234 };
    let uncached = |call, actual| if call < 12 { actual } else { 150 + call as u64 % 7 };
    let last = Cell::new(0);
    let standing = |call, actual| {
        if call < 12 {
            last.set(actual);
        }
        last.get()
    };
    let reports: [&dyn Fn(usize, u64) -> u64; 3] = [&constant, &uncached, &standing];
    for (at, report) in reports.into_iter().enumerate() {
        let (history, errors) = reported(30, report);
        assert!(history.usage_is_unreliable(), "{at}");
        assert!(percentile(&errors[12..], 95) < 5.0, "{at}: {errors:?}");
    }
    // One report that is wrong is forgotten, and the server is still believed.
    let (history, errors) = reported(30, |call, actual| if call == 15 { 300 } else { actual });
    assert!(!history.usage_is_unreliable() && percentile(&errors[10..], 95) < 1.0, "{errors:?}");
}
