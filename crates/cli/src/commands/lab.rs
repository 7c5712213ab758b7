//! `longhaul lab`: recorded sessions under context policies. Only files are read, no model is called.

mod progress;
mod replay_selection;
mod score;
mod sessions;

use std::io::IsTerminal;
use std::path::Path;

use longhaul::io_error::io_error_text;

use crate::lab::outcome::ReplayOutcome as Replayed;
use crate::lab::recording::SessionRecording;
use crate::lab::replay::{self, ReplayOptions};
use crate::lab::report::{ReplayReport, ReportFact, ReportHeader, assumptions};

use crate::agent_file;
use crate::args::{LabCommand, ReplayArgs};
use crate::assemble::counting;
use crate::environment::CliEnvironment;
use crate::failure::{CommandError, DONE, Outcome};
use crate::term::human::{count, grouped};
use crate::term::out;
use replay_selection::{ConfiguredStrategy, ReplaySelection};

/// The columns of the tables if standard output is no terminal.
const USUAL_COLUMNS: usize = 100;

/// The start of every report page, and the start of its title. [`check_target`] tells reports by them.
const PAGE: (&str, &str) = ("<!doctype html>", "<title>Lab report");

pub(crate) async fn run(command: LabCommand, place: &CliEnvironment) -> Outcome {
    match command {
        LabCommand::Replay(args) => replay(&args, place).await,
        LabCommand::Score(args) => score::run(args, place).await,
    }
}

async fn replay(args: &ReplayArgs, place: &CliEnvironment) -> Outcome {
    let wanted = ReplaySelection::of(args, configured(place)?)?;
    // Checked before the replays, which can take minutes, and again when the page is written.
    if let Some(page) = &args.html {
        check_target(page)?;
    }
    let model = place.overrides.model.as_deref().unwrap_or_default();
    let counter = counting::counter(&longhaul::config::TokenCounter::Auto, model, &place.workspace)?;
    let counted = format!("{} ({})", counter.name(), if model.is_empty() { "no model named" } else { model });
    let mut recordings = sessions::read(&args.files, &counter).await?;
    if args.synthetic {
        recordings.extend(sessions::synthetic()?);
    }
    let recordings = large_enough(recordings, args.min_tokens)?;
    let options = ReplayOptions::default();
    let outcomes = replayed(recordings, &wanted, &options).await?;
    let report = ReplayReport::new(header(args, &wanted, &options, counted), outcomes);
    print(&report, args)?;
    Ok(DONE)
}

/// Returns the compression strategy of the agent file, if the file names one.
fn configured(place: &CliEnvironment) -> Outcome<Option<ConfiguredStrategy>> {
    let loaded = match agent_file::load(place) {
        // An untrusted file is harmless here, since nothing of it runs. But figures with its options would
        // describe an agent that this person does not use.
        Err(failure) if failure.is_untrusted() => {
            out::message(&format!("not used: {}\n", failure.message()));
            return Ok(None);
        }
        loaded => loaded?,
    };
    let file = loaded.file.map(|file| file.display().to_string()).unwrap_or_default();
    Ok(ConfiguredStrategy::of(&loaded.config, file))
}

/// Replays on a blocking thread. The runtime's own threads stay free for input and output.
async fn replayed(
    recordings: Vec<SessionRecording>,
    wanted: &ReplaySelection,
    options: &ReplayOptions,
) -> Outcome<Vec<Replayed>> {
    let replays = recordings.len() * wanted.windows.len() * wanted.policies.len() * wanted.prices.len();
    let sessions = count(recordings.len() as u64, "session");
    out::message(&format!("{sessions}, {}\n", count(replays as u64, "replay")));
    tracing::debug!(sessions = recordings.len(), replays, "the replay begins");
    // The blocking thread must own what it uses.
    let (wanted, options) = (wanted.clone(), options.clone());
    let work = move || {
        let mut makers = wanted.makers();
        if std::io::stderr().is_terminal() {
            makers = progress::report_progress(
                makers,
                &wanted.policies,
                &recordings,
                wanted.windows.len() * wanted.prices.len(),
            );
        }
        replay::run(&recordings, &makers, &wanted.windows, &wanted.prices, &options)
    };
    let outcomes = tokio::task::spawn_blocking(work).await?;
    if std::io::stderr().is_terminal() {
        progress::end();
    }
    Ok(outcomes)
}

fn large_enough(mut recordings: Vec<SessionRecording>, min_tokens: u64) -> Outcome<Vec<SessionRecording>> {
    let all = recordings.len();
    let largest = recordings.iter().map(SessionRecording::peak_tokens).max().unwrap_or(0);
    recordings.retain(|it| it.peak_tokens() >= min_tokens);
    match all - recordings.len() {
        0 => {}
        left_out if left_out == all => {
            return Err(CommandError::usage(format!(
                "no session has {} tokens, the largest has {}; --min-tokens takes smaller ones",
                grouped(min_tokens),
                grouped(largest)
            )));
        }
        left_out => {
            let sessions = count(left_out as u64, "session");
            out::message(&format!("{sessions} of less than {} tokens left out\n", grouped(min_tokens)));
        }
    }
    Ok(recordings)
}

fn header(
    args: &ReplayArgs,
    wanted: &ReplaySelection,
    options: &ReplayOptions,
    counted: String,
) -> ReportHeader {
    let platform = format!("{} {}", std::env::consts::OS, std::env::consts::ARCH);
    let mut assumptions = assumptions(options);
    assumptions.extend(wanted.configured.iter().filter_map(|it| it.said(&wanted.policies)));
    if args.min_tokens > 0 {
        assumptions.push(format!("Sessions of less than {} tokens are left out.", grouped(args.min_tokens)));
    }
    ReportHeader {
        command: replay_selection::command_line(args, wanted.configured.as_ref()),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        generated_by: vec![fact("tokens counted by", counted), fact("platform", platform)],
        assumptions,
        policies: wanted.facts(),
        prices: wanted.prices.clone(),
        price_sources: wanted.price_sources(),
    }
}

fn fact(name: &str, value: String) -> ReportFact {
    ReportFact { name: name.to_owned(), value }
}

fn print(report: &ReplayReport, args: &ReplayArgs) -> Outcome<()> {
    match &args.html {
        Some(page) if page == Path::new("-") => out::data(&report.html())?,
        Some(page) => {
            check_target(page)?;
            std::fs::write(page, report.html()).map_err(|error| {
                let why = io_error_text(&error);
                CommandError::new(format!("{} was not written: {why}", page.display()))
            })?;
            out::message(&format!("{}\nwritten to {}\n", report.headline(), page.display()));
        }
        None if args.json => out::print_line(&report.json()?)?,
        None => out::data(&report.text(columns()))?,
    }
    Ok(())
}

/// Returns the terminal's number of columns, within reason.
fn columns() -> usize {
    if std::io::stdout().is_terminal() { out::columns().clamp(80, 140) } else { USUAL_COLUMNS }
}

/// Checks the target. Only an earlier report is overwritten, no other file.
fn check_target(page: &Path) -> Outcome<()> {
    match std::fs::read(page) {
        Ok(content) if page != Path::new("-") && !is_report(&content) => Err(CommandError::usage(format!(
            "{} exists and is not a lab report; it is not overwritten",
            page.display()
        ))),
        _ => Ok(()),
    }
}

fn is_report(page: &[u8]) -> bool {
    let text = String::from_utf8_lossy(page);
    text.starts_with(PAGE.0) && text.contains(PAGE.1)
}
