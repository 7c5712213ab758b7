//! The wires against a real llama.cpp server: it reports what it counted before, its window is that of a slot, and a
//! reload is noticed. Needs what the tests of the binary against it need.

use std::time::Duration;

use futures_util::StreamExt;
use longhaul_core::message::{
    Message, ModelAnswer, ModelStopReason, Part, RawJson, ReasoningPart, Role, ToolCall, ToolResult,
    ToolSpec, ToolStatus,
};
use longhaul_providers::openai_chat::{OpenAiChatConfig, OpenAiChatProvider};
use longhaul_providers::openai_responses::OpenAiResponsesProvider;
use longhaul_providers::{LimitSource, ModelEndpoint, ModelEvent, ModelRequest, Provider};

use crate::llama::{LlamaServer, TOOLS, server_at};

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn run<T>(test: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap().block_on(test)
}

fn tool(name: &str) -> ToolSpec {
    ToolSpec {
        name: name.into(),
        description: format!("{name}s a file – “quoted”, with <|im_end|> in its description"),
        parameters: RawJson(
            r#"{"type":"object", "properties":{"path":{"type":"string"},"n":{"type":"number"}},"required":["path"]}"#
                .into(),
        ),
        read_only: true,
        poll: false,
        source: "builtin".into(),
    }
}

fn assistant(provider: &dyn Provider, parts: Vec<Part>) -> Message {
    Message { id: "a".into(), role: Role::Assistant, parts, origin: Some(provider.origin()) }
}

/// A step as a model would take it: reasoning, a word, calls with arguments of every shape.
fn step(provider: &dyn Provider, n: usize) -> Vec<Message> {
    let calls = ["{}", r#"{ "path" : "a/b.rs", "n": 1.50 }"#, r#"{"path":"ünï 你好 \u00e9 <|im_start|>"}"#];
    let calls: Vec<ToolCall> = calls
        .iter()
        .enumerate()
        .map(|(place, arguments)| ToolCall {
            call_id: format!("call-{n}-{place}").as_str().into(),
            name: "read".into(),
            arguments: (*arguments).into(),
            provider_id: None,
            native: None,
        })
        .collect();
    let results = calls.iter().map(|call| {
        let text = format!("line one of {}\n\tline two 😀 {}\n", call.call_id, "x ".repeat(20 * n));
        let content = vec![Part::text(text)];
        let call_id = call.call_id.clone();
        let result = ToolResult { call_id, status: ToolStatus::Completed, content, truncated: None };
        Message { id: "t".into(), role: Role::Tool, parts: vec![Part::ToolResult(result)], origin: None }
    });
    let results: Vec<Message> = results.collect();
    let thought = Part::Reasoning(ReasoningPart { text: format!("I think, therefore {n}"), native: None });
    let parts = [thought, Part::text("Let me look.")].into_iter();
    let parts = parts.chain(calls.into_iter().map(Part::ToolCall)).collect();
    [assistant(provider, parts)].into_iter().chain(results).collect()
}

async fn answer(provider: &dyn Provider, request: ModelRequest) -> ModelAnswer {
    let mut stream = provider.call(request).await.unwrap();
    while let Some(event) = stream.next().await {
        if let ModelEvent::Finished(answer) = event.unwrap() {
            return answer;
        }
    }
    panic!("no answer")
}

/// Counts, calls, compares; returns both figures.
async fn counted(provider: &dyn Provider, request: &ModelRequest) -> (u64, u64) {
    let counted = provider.count(request).await.unwrap().unwrap();
    let reported = answer(provider, request.clone()).await.usage.unwrap().input_tokens;
    (counted, reported)
}

fn request(messages: &[Message]) -> ModelRequest {
    ModelRequest {
        system: "You are terse. <|im_start|>system is only text here.".into(),
        messages: messages.to_vec(),
        tools: vec![tool("read"), tool("write")],
        max_output_tokens: Some(8),
        ..ModelRequest::default()
    }
}

/// Every step of a conversation with tools: the server's own count is what it then reports, to the token.
async fn every_step_agrees(provider: &dyn Provider, word: &str) {
    let mut messages =
        vec![Message::user("u", vec![Part::text("Look at the files, please. é 😀 <|im_end|>")])];
    for n in 0..6 {
        let (counted, reported) = counted(provider, &request(&messages)).await;
        eprintln!("{word}, step {n}: counted {counted}, reported {reported}");
        assert_eq!(counted, reported, "{word}, step {n}");
        messages.extend(step(provider, n));
        if n % 2 == 1 {
            messages.push(assistant(provider, vec![Part::text("Done.\n\nAnd   then?")]));
            messages.push(Message::user("u", vec![Part::text("Go on.")]));
        }
    }
}

fn with_tools(test: &str) -> Option<LlamaServer> {
    let template = format!("{TOOLS}/chatml_tools.jinja");
    server_at(test, free_port(), &["--ctx", "8192", "--chat-template-file", &template])
}

#[test]
fn the_servers_count_is_what_it_reports_on_every_step() {
    let test = "the_servers_count_is_what_it_reports_on_every_step";
    let Some(server) = with_tools(test) else { return };
    run(async {
        let chat = OpenAiChatProvider::new(OpenAiChatConfig::new(&server.url, "tiny")).unwrap();
        every_step_agrees(&chat, "chat").await;
        assert_eq!(chat.family().name, "llama.cpp");
        let mut going_on = request(&[Message::user("u", vec![Part::text("Tell me more.")])]);
        going_on.messages.push(assistant(&chat, vec![Part::text("So far")]));
        let (counted, reported) = counted(&chat, &going_on).await;
        assert_eq!(counted, reported, "an answer that is gone on with");
        let responses =
            OpenAiResponsesProvider::new(ModelEndpoint::new("openai", &server.url, "tiny")).unwrap();
        every_step_agrees(&responses, "responses").await;
    });
}

#[test]
fn the_models_own_template_is_counted_too() {
    let test = "the_models_own_template_is_counted_too";
    let Some(server) = server_at(test, free_port(), &["--ctx", "8192"]) else { return };
    let chat = OpenAiChatProvider::new(OpenAiChatConfig::new(&server.url, "tiny")).unwrap();
    run(every_step_agrees(&chat, "own template"));
}

#[test]
fn the_window_is_the_slots_and_a_reload_is_noticed() {
    let test = "the_window_is_the_slots_and_a_reload_is_noticed";
    let port = free_port();
    let options = ["--ctx", "4096", "--parallel", "2"];
    let Some(server) = server_at(test, port, &options) else { return };
    let mut config = OpenAiChatConfig::new(&server.url, "tiny");
    config.reread_after = Duration::ZERO;
    let model = OpenAiChatProvider::new(config).unwrap();
    run(async {
        let limits = model.limits().await;
        eprintln!("two slots share 4096: {limits:?}");
        assert_eq!(limits.source, LimitSource::Server);
        let window = limits.window.unwrap();
        fits_exactly(&model, window).await;
        drop(server);
        assert_eq!(model.limits().await.window, Some(window), "a server that is gone is what it was");
        let _reloaded = server_at(test, port, &["--ctx", "3072"]).unwrap();
        assert_eq!(model.limits().await.window, Some(3072));
        fits_exactly(&model, 3072).await;
    });
}

/// The window is real: a prompt above it is refused with that very number, one below is answered.
async fn fits_exactly(model: &OpenAiChatProvider, window: u64) {
    let words = usize::try_from(window).unwrap();
    let error = model.call(long_request(words)).await.err().unwrap();
    assert_eq!(error.limit_tokens, Some(window), "{error:?}");
    assert_eq!(
        error.used_tokens,
        model.count(&long_request(words)).await.unwrap(),
        "the refusal counts as we do"
    );
    let answer = answer(model, long_request(words / 2)).await;
    assert!(matches!(answer.finish, ModelStopReason::Length | ModelStopReason::Stop));
    let timings = answer.envelope.unwrap();
    assert!(timings.as_str().contains(r#""timings":{"#), "{timings:?}");
}

fn long_request(words: usize) -> ModelRequest {
    let mut request = request(&[Message::user("u", vec![Part::text("word ".repeat(words))])]);
    request.tools.clear();
    request
}
