//! `longhaul lab score`: what views keep, of public data or of recorded sessions.

use std::path::Path;

use crate::lab::replay::ReplayOptions;
use crate::lab::score::ReceiptsFolder;
use crate::lab::score::board::ScoreReport;

use super::replay_selection::ReplaySelection;
use super::{check_target, configured, replayed, sessions};
use crate::args::{ReplayArgs, ScoreArgs};
use crate::assemble::counting;
use crate::environment::CliEnvironment;
use crate::failure::{CommandError, DONE, Outcome};
use crate::hint::quoted;
use crate::term::out;

/// The price table for the costs of sessions.
const PRICES: &str = "anthropic-sonnet";

pub(super) async fn run(args: ScoreArgs, place: &CliEnvironment) -> Outcome {
    if let Some(page) = &args.html {
        // Checked before minutes of work, so that a wrong path is known at once.
        check_target(page)?;
    }
    let mut board = match args.receipts.clone() {
        Some(folder) => public_measures(ReceiptsFolder::new(folder)).await?,
        None => session_scores(&args, place).await?,
    };
    board.command = command_line(&args);
    board.version = env!("CARGO_PKG_VERSION").to_owned();
    print(&board, &args)?;
    Ok(DONE)
}

/// Measures on a blocking thread. The runtime's own threads stay free for input and output.
async fn public_measures(receipts: ReceiptsFolder) -> Outcome<ScoreReport> {
    let measured = tokio::task::spawn_blocking(move || {
        ScoreReport::from_receipts(&receipts, |measure| out::message(&format!("measure {measure}\n")))
    })
    .await?;
    measured.map_err(|error| CommandError::usage(error.to_string()))
}

async fn session_scores(args: &ScoreArgs, place: &CliEnvironment) -> Outcome<ScoreReport> {
    let replay = ReplayArgs {
        files: args.files.clone(),
        policy: Vec::new(),
        window: vec![args.window.clone()],
        prices: vec![PRICES.to_owned()],
        // Sessions that a person names are wanted, however short they are.
        min_tokens: 0,
        synthetic: false,
        json: args.json,
        html: args.html.clone(),
    };
    let wanted = ReplaySelection::of(&replay, configured(place)?)?;
    let model = place.overrides.model.as_deref().unwrap_or_default();
    let counter = counting::counter(&longhaul::config::TokenCounter::Auto, model, &place.workspace)?;
    let recordings = sessions::read(&args.files, &counter).await?;
    let outcomes = replayed(recordings, &wanted, &ReplayOptions::default()).await?;
    let mut board = ScoreReport::default();
    board.add_outcomes(&outcomes);
    Ok(board)
}

/// Returns the command line again, fit for a shell.
fn command_line(args: &ScoreArgs) -> String {
    let mut words = vec!["longhaul".to_owned(), "lab".to_owned(), "score".to_owned()];
    words.extend(args.files.iter().map(|file| file.display().to_string()));
    match &args.receipts {
        Some(folder) => words.extend(["--receipts".to_owned(), folder.display().to_string()]),
        None => words.extend(["--window".to_owned(), args.window.clone()]),
    }
    words.extend(args.json.then(|| "--json".to_owned()));
    if let Some(page) = &args.html {
        words.extend(["--html".to_owned(), page.display().to_string()]);
    }
    words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

fn print(board: &ScoreReport, args: &ScoreArgs) -> Outcome<()> {
    match &args.html {
        Some(page) if page == Path::new("-") => out::data(&board.html())?,
        Some(page) => {
            // Checked again: the file may have appeared in the meantime.
            check_target(page)?;
            std::fs::write(page, board.html())
                .map_err(|error| CommandError::new(format!("{} was not written: {error}", page.display())))?;
            out::message(&format!("{}\nwritten to {}\n", board.headline(), page.display()));
        }
        None if args.json => out::print_line(&board.json()?)?,
        None => out::data(&board.text())?,
    }
    Ok(())
}
