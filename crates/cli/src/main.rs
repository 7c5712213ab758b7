//! The command `longhaul`: the library at a terminal.
//!
//! [`place`] alone reads the environment, the home folder and the current folder; [`assemble`] makes an agent
//! of what it found; [`commands`] has one module for each command; [`term`] is everything a person sees.

mod agent_file;
mod args;
mod assemble;
mod backend;
mod commands;
mod data;
mod demo;
mod facts;
mod failure;
mod folders;
mod gone;
mod hint;
mod hosted;
mod lookup;
mod offer;
mod place;
#[cfg(test)]
mod sample;
mod serving;
mod signals;
mod term;
mod trust;
mod tui;
mod watchdog;

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    // Before anything secret is in memory.
    let hidden = longhaul::sandbox::protect_this_process();
    commands::start(args::Args::parse(), hidden)
}
