//! The planner as one function, for a program that keeps its conversation itself: no runtime, no store, no model call.

#![expect(clippy::print_stdout, reason = "an example prints")]

use longhaul::core::{Window, fit};
use longhaul::prelude::*;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let question =
        |at: usize| vec![Part::text(format!("Question {at}: {}", "what is the value? ".repeat(100)))];
    let messages: Vec<Message> = (0..100).map(|at| Message::user(format!("m{at}"), question(at))).collect();

    let fitted = fit(&messages, &Window::tokens(16_000))?;

    let (sent, gone) = (fitted.messages.len(), fitted.left_out.len());
    println!("{} messages became {sent} of {} tokens; {gone} are left out", messages.len(), fitted.tokens);
    Ok(())
}
