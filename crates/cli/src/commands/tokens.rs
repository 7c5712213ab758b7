//! `longhaul tokens`: how long a text is.

use std::path::Path;

use longhaul_core::estimate;
use tokio::io::AsyncReadExt;

use crate::args::TokensArgs;
use crate::failure::{DONE, Failure, Outcome};
use crate::place::Place;
use crate::term::human::grouped;
use crate::term::out;

pub(crate) async fn run(args: &TokensArgs, place: &Place) -> Outcome {
    let text = read(&args.file).await?;
    let kind = match &place.overrides.model {
        Some(model) => format!("estimated: this version has no exact tokenizer for {model}"),
        None => "estimated".to_owned(),
    };
    let margin = (estimate::CountKind::Estimated.first_margin(false) * 100.0).round();
    out::data(&format!(
        "{:>12}  tokens, {kind}, expected error up to {margin} %\n{:>12}  characters / 4\n{:>12}  characters\n",
        grouped(estimate::text_tokens(&text)),
        grouped(estimate::chars_div_4(&text)),
        grouped(text.chars().count() as u64),
    ))?;
    Ok(DONE)
}

async fn read(file: &Path) -> Outcome<String> {
    let mut bytes = Vec::new();
    let read = match file.to_str() {
        Some("-") => tokio::io::stdin().read_to_end(&mut bytes).await.map(drop),
        _ => tokio::fs::read(file).await.map(|content| bytes = content),
    };
    read.map_err(|error| Failure::usage(format!("{}: {error}", file.display())))?;
    String::from_utf8(bytes)
        .map_err(|_| Failure::usage(format!("{}: this is no text (not UTF-8)", file.display())))
}
