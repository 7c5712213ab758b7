//! A model server that says what a test tells it to.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use longhaul_testkit::{ReceivedRequest, ScriptedUpstream, UpstreamAnswer, chat};
use serde_json::{Value, json};
use tokio::sync::watch;

/// One answer.
pub(crate) enum Say {
    /// Text, streamed in words.
    Text(&'static str),
    /// Reasoning, then text.
    Think(&'static str, &'static str),
    /// Text, streamed a word every 30 ms.
    Slow(&'static str),
    /// A text in pieces, whose last word comes only after [`Fake::go_on`].
    Held(&'static str),
    /// A word again and again every 30 ms, until [`Fake::go_on`].
    Flowing(&'static str),
    /// A tool call, streamed.
    Call(&'static str, Value),
    /// Text that ends at the length limit.
    Cut(&'static str),
    /// Text that ends because the rest is withheld.
    Withheld(&'static str),
    /// Text, and then nothing for ever.
    Stall(&'static str),
    /// A status and a message.
    Refuse(u16, &'static str),
}

/// The pause before each event of a slow answer.
const PACE: Duration = Duration::from_millis(30);

/// The server; it ends with this value.
pub(crate) struct Fake {
    upstream: ScriptedUpstream,
    says: Arc<Mutex<VecDeque<Say>>>,
    goes_on: watch::Sender<bool>,
}

impl Fake {
    /// Answers with `says`, one after the other, and then with "That was all."
    pub(crate) fn start(says: impl IntoIterator<Item = Say>) -> Self {
        let says = Arc::new(Mutex::new(says.into_iter().collect::<VecDeque<_>>()));
        let (goes_on, told) = watch::channel(false);
        let left = Arc::clone(&says);
        let script = move |request: &ReceivedRequest| {
            if !is_chat(request) {
                return UpstreamAnswer::Json(404, Value::Null);
            }
            let say = left.lock().unwrap().pop_front().unwrap_or(Say::Text("That was all."));
            answer(say, request.body.len() as u64 / 4, told.clone())
        };
        let upstream = ScriptedUpstream::start_detached(ScriptedUpstream::start_beside(page, script));
        Self { upstream, says, goes_on }
    }

    pub(crate) fn url(&self) -> String {
        self.upstream.url("/v1")
    }

    /// Answers with that, too, after all that it was told before.
    pub(crate) fn say(&self, more: Say) {
        self.says.lock().unwrap().push_back(more);
    }

    /// Lets what is held come to its end.
    pub(crate) fn go_on(&self) {
        self.goes_on.send_replace(true);
    }

    fn received(&self) -> impl Iterator<Item = ReceivedRequest> {
        self.upstream.received().into_iter().filter(is_chat)
    }

    /// The requests so far.
    pub(crate) fn asked(&self) -> Vec<Value> {
        self.received().map(|request| request.json()).collect()
    }

    /// What the requests carried as authorisation.
    pub(crate) fn authorisations(&self) -> Vec<String> {
        let values = self.received().filter_map(|mut request| request.headers.remove("authorization"));
        values.map(|value| value.to_str().unwrap().to_owned()).collect()
    }
}

fn is_chat(request: &ReceivedRequest) -> bool {
    request.path == "/v1/chat/completions"
}

fn page(path: &str) -> Option<UpstreamAnswer> {
    let models = json!([
        { "id": "fake-1", "context_length": 16_000 },
        { "id": "talker-1", "context_length": 16_000, "supported_parameters": ["seed"] },
    ]);
    Some(match path {
        "/v1/models" => UpstreamAnswer::Json(200, json!({ "data": models })),
        _ => UpstreamAnswer::Json(404, Value::Null),
    })
}

fn answer(say: Say, tokens: u64, told: watch::Receiver<bool>) -> UpstreamAnswer {
    let (deltas, reason) = match &say {
        Say::Text(text) | Say::Slow(text) | Say::Held(text) | Say::Flowing(text) | Say::Stall(text) => {
            (words(text), "stop")
        }
        Say::Think(reasoning, text) => {
            ([vec![json!({ "reasoning_content": reasoning })], words(text)].concat(), "stop")
        }
        Say::Call(tool, arguments) => {
            let call = json!({ "index": 0, "id": format!("call_{tokens}"), "type": "function",
                "function": { "name": tool, "arguments": arguments.to_string() } });
            (vec![json!({ "content": "I look. " }), json!({ "tool_calls": [call] })], "tool_calls")
        }
        Say::Cut(text) => (words(text), "length"),
        Say::Withheld(text) => (words(text), "content_filter"),
        Say::Refuse(status, message) => {
            let error = json!({ "error": { "message": message } });
            return UpstreamAnswer::Text(*status, "application/json", error.to_string());
        }
    };
    let mut events: Vec<String> = deltas.iter().map(|delta| chat::delta_event("x", delta)).collect();
    let mut end = vec![
        chat::finish_event("x", reason),
        chat::usage_event("x", tokens, 10),
        chat::DONE_EVENT.to_owned(),
    ];
    match say {
        Say::Slow(_) => UpstreamAnswer::Events([events, end].concat(), PACE),
        Say::Held(_) => {
            end.splice(..0, events.pop());
            UpstreamAnswer::Held(events, told, end)
        }
        Say::Flowing(_) => UpstreamAnswer::Repeats(events, PACE, told, end),
        Say::Stall(_) => UpstreamAnswer::Stalls(events),
        _ => UpstreamAnswer::Events([events, end].concat(), Duration::ZERO),
    }
}

fn words(text: &str) -> Vec<Value> {
    text.split_inclusive(' ').map(|word| json!({ "content": word })).collect()
}
