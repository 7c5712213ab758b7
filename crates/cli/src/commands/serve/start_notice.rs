//! The notice of a started server for people: the link, the token's file, the model, and what to know about them.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use longhaul_core::budget::ASSUMED_WINDOW;

use super::ServedModelChoice;
use super::listener::reachable;
use crate::environment::{AGENT_FILE, CliEnvironment};
use crate::failure::Outcome;
use crate::term::human::{self, grouped};
use crate::term::{out, text};

/// The facts about a started server that a person reads.
pub(super) struct StartNotice<'a> {
    pub(super) address: SocketAddr,
    /// The address of the page, with a key that opens it once.
    pub(super) link: &'a str,
    pub(super) token_path: &'a Path,
    pub(super) chosen: &'a ServedModelChoice,
    pub(super) has_gateway: bool,
    /// The model whose window no source states.
    pub(super) unmeasured: Option<&'a str>,
    /// The address of the model's server that does not answer.
    pub(super) silent_server: Option<&'a str>,
    /// The time for which requests wait for that server; `None` for no limit.
    pub(super) patience: Option<Duration>,
}

impl StartNotice<'_> {
    /// Prints the address for scripts, and the link and the token's file for people.
    pub(super) fn print_addresses(&self, place: &CliEnvironment) -> Outcome<()> {
        // The bare address is the only data on standard output, for scripts. What people read goes to standard error.
        out::print_line(&format!("http://{}", self.address))?;
        out::print_message(&format!(
            "open   {}   (once, within ten minutes)\ntoken  {}, for other clients\n",
            self.link,
            place.shown(self.token_path)
        ));
        Ok(())
    }

    /// Prints the model that answers, and the gateway's address.
    pub(super) fn print_model(&self) {
        if let Some(server) = self.silent_server {
            out::print_message(&server_is_silent(server, self.patience));
        }
        match self.chosen {
            ServedModelChoice::Named => {}
            ServedModelChoice::ByKey { model, terms } => {
                out::print_message(&format!("model  {model}\n       {terms}\n"));
            }
            ServedModelChoice::Demo => {
                out::print_message("model  none was found: the demo's scripted one answers\n")
            }
        }
        if self.has_gateway {
            let root = reachable(self.address);
            out::print_message(&format!(
                "v1     http://{root}/v1, a gateway for clients of OpenAI and Anthropic\n"
            ));
            if let Some(model) = self.unmeasured {
                out::print_message(&assumed_window(model));
            }
        }
    }
}

/// Returns the note about a named server without an answer.
fn server_is_silent(base_url: &str, patience: Option<Duration>) -> String {
    let wait = match patience {
        Some(patience) if patience.as_secs() == 0 => "requests fail until it answers".to_owned(),
        Some(patience) => {
            format!("requests wait for it, {} at most (retry.patience)", human::limit(patience))
        }
        None => "requests wait until it answers".to_owned(),
    };
    format!(
        "note   the model's server {} does not answer: {wait}; start it, or change model.base_url\n",
        text::visible(base_url)
    )
}

/// Returns the remedy for a model whose window no source states.
fn assumed_window(model: &str) -> String {
    let (model, tokens) = (text::one_line(model), grouped(ASSUMED_WINDOW));
    format!(
        "       the window of {model} is unknown: {tokens} tokens are assumed; set it in {AGENT_FILE}, \
         model: {{ context_window: N }}\n"
    )
}
