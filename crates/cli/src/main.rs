//! The command `longhaul`: the library at a terminal.
//!
//! [`environment`] alone reads the environment, the home folder and the current folder; [`assemble`] makes an agent
//! of what it found; [`commands`] has one module for each command; [`term`] is everything a person sees.

mod agent_file;
mod args;
mod assemble;
mod commands;
mod data;
mod demo;
mod environment;
mod failure;
mod folders;
mod heap;
mod hint;
mod hosted_providers;
mod lab;
mod model_discovery;
mod model_facts;
mod piped_input;
mod removed_messages;
#[cfg(test)]
mod sample;
mod server_address;
mod session_lookup;
mod signals;
mod term;
mod trust;
mod tui;
mod undo_check;
mod watchdog;

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    let args = args::CliArgs::parse();
    // A server lives long. The other commands end, and their start should take no time.
    let heap = if args.is_server() { heap::return_freed_memory() } else { Ok(()) };
    // Before anything secret is in memory.
    let hidden = longhaul::sandbox::protect_this_process();
    commands::start(args, hidden, heap)
}
