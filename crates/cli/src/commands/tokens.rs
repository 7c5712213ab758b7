//! `longhaul tokens`: how long a text is.

use std::path::Path;

use longhaul::config::TokenCounter;
use longhaul::io_error::io_error_text;
use longhaul::text_encoding::DecodedText;
use longhaul_core::estimate::{self, CountAccuracy};
use tokio::io::AsyncReadExt;

use crate::args::TokensArgs;
use crate::assemble::counting;
use crate::environment::CliEnvironment;
use crate::failure::{CommandError, DONE, Outcome};
use crate::term::human::grouped;
use crate::term::out;

pub(crate) async fn run(args: &TokensArgs, place: &CliEnvironment) -> Outcome {
    let text = read(&args.file).await?;
    let model = place.overrides.model.as_deref().unwrap_or_default();
    let counter = counting::counter(&TokenCounter::Auto, model, &place.workspace)?;
    let counted = match counter.kind() {
        CountAccuracy::Exact => format!("exact, {}", counter.name()),
        _ => estimated(model),
    };
    out::data(&format!(
        "{:>12}  tokens, {counted}\n{:>12}  characters / 4\n{:>12}  characters\n",
        grouped(counter.text(&text)),
        grouped(estimate::chars_div_4(&text)),
        grouped(text.chars().count() as u64),
    ))?;
    Ok(DONE)
}

fn estimated(model: &str) -> String {
    let margin = (CountAccuracy::Estimated.first_margin(false) * 100.0).round();
    let why = match model {
        "" => String::new(),
        model => format!(" (no tokenizer of {model} is built in)"),
    };
    format!("estimated{why}, expected error up to {margin} %")
}

async fn read(file: &Path) -> Outcome<String> {
    let mut bytes = Vec::new();
    let read = match file.to_str() {
        Some("-") => tokio::io::stdin().read_to_end(&mut bytes).await.map(drop),
        _ => tokio::fs::read(file).await.map(|content| bytes = content),
    };
    read.map_err(|error| CommandError::usage(format!("{}: {}", file.display(), io_error_text(&error))))?;
    let decoded = DecodedText::new(&bytes);
    match decoded.damage {
        Some(damage) if decoded.is_binary() => {
            return Err(CommandError::usage(format!(
                "{}: this is not text: it has {damage}",
                file.display()
            )));
        }
        // The count is of use in spite of a few bad bytes, as long as the person knows of them.
        Some(damage) => out::print_message(&format!("{}: {damage}; counted as U+FFFD\n", file.display())),
        None => {}
    }
    Ok(decoded.text)
}
