//! One conversation, one trigger: the planner of a session, the gateway and the display agree to the token.

use serde_json::{Value, json};

use crate::bench::{Bench, until};
use crate::compacting::imported;
use crate::fake::{Fake, Say};
use crate::gateway::post;
use crate::serve::{ask, end, start, token};

const FILE: &str = "context: { compression: { strategy: truncation, trigger: { triggerTokens: 12000 } } }";

/// A session whose newest message waits for an answer, since the model refuses each request.
struct Waiting {
    address: String,
    token: String,
    session: String,
}

impl Waiting {
    fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        let (status, answer) = ask(&self.address, method, path, &self.token, &body.to_string());
        assert!(status < 300, "{method} {path}: {status} {answer}");
        answer
    }

    fn of_session(&self, rest: &str) -> String {
        format!("/api/sessions/{}{rest}", self.session)
    }

    fn set_trigger(&self, tokens: u64) {
        let trigger = json!({ "type": "threshold", "triggerTokens": tokens });
        self.ask("PUT", "/api/settings", &json!({ "trigger": trigger }));
    }

    /// Whether the display shows the trigger as reached.
    fn is_shown_as_reached(&self) -> bool {
        let context = self.ask("GET", &self.of_session("/context"), &Value::Null);
        context["total"].as_u64().unwrap() >= context["thresholds"][0]["tokens"].as_u64().unwrap()
    }

    fn rest(&self) {
        until("the run ends", || self.ask("GET", &self.of_session(""), &Value::Null)["status"] == "idle");
    }

    /// Asks the model again; the request that it was sent.
    fn go_on(&self, fake: &Fake) -> Value {
        let before = fake.asked().len();
        fake.say(Say::Refuse(400, "not now"));
        self.ask("POST", &self.of_session("/resume"), &json!({}));
        until("the model is asked", || fake.asked().len() > before);
        self.rest();
        fake.asked().pop().unwrap()
    }

    /// Whether the gateway leaves something out of this request at that trigger.
    fn gateway_acts(&self, body: &str, trigger: u64) -> bool {
        let trigger = format!("x-longhaul-trigger: {trigger}");
        let answer = post(&self.address, "/v1/chat/completions", &[&trigger], body);
        let action = answer.lines().find_map(|line| line.strip_prefix("x-longhaul-action: "));
        action.unwrap_or_else(|| panic!("{answer}")) != "none"
    }
}

#[test]
fn planner_gateway_and_display_flip_at_the_same_token() {
    let (bench, fake) = (Bench::new(), Fake::start([Say::Refuse(400, "not now")]));
    bench.write("longhaul.yml", FILE);
    let session = imported(&bench, 12);
    let (mut server, address, _said) = start(bench.with(&fake, &["serve", "--addr", "127.0.0.1:0"]));
    let waiting = Waiting { address, token: token(&bench), session };
    let message = json!({ "sessionId": waiting.session, "content": "And all of them together?" });
    waiting.ask("POST", "/api/message", &message);
    until("the model is asked", || fake.asked().len() == 1);
    waiting.rest();
    let whole = waiting.go_on(&fake);
    assert!(whole["messages"].as_array().unwrap().len() > 24, "nothing is left out yet");

    // The gateway's own line, by halving.
    let body = whole.to_string();
    let (mut acts, mut rests) = (2_000, 12_000);
    assert!(waiting.gateway_acts(&body, acts) && !waiting.gateway_acts(&body, rests));
    while rests - acts > 1 {
        let middle = (acts + rests) / 2;
        if waiting.gateway_acts(&body, middle) {
            acts = middle;
        } else {
            rests = middle;
        }
    }

    waiting.set_trigger(rests);
    assert!(!waiting.is_shown_as_reached(), "one token above");
    assert_eq!(waiting.go_on(&fake)["messages"], whole["messages"], "one token above");
    waiting.set_trigger(acts);
    assert!(waiting.is_shown_as_reached());
    let shortened = waiting.go_on(&fake);
    assert!(shortened["messages"].as_array().unwrap().len() < 24, "{shortened}");
    end(&mut server);
}
