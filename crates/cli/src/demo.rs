//! `longhaul demo`: a conversation that outgrows its window several times, in half a minute, without a key and
//! without a model.
//!
//! Only the model is scripted. The loop, the tools, the store and the files are the real ones; truncation,
//! pruning, compaction, undo and recall happen because the window is small. At the end the scripted model is
//! asked for lines that it saw only before its first compaction, and finds them with `recall`: it knows nothing
//! but what is in its request.

mod facts;
mod files;
mod replies;
mod sample;
mod screen;
mod scripted_model;
mod served;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use longhaul::agent::{Agent, AgentRules};
use longhaul::calibration::CalibrationStore;
use longhaul::hooks::HookSet;
use longhaul::sandbox::{Sandbox, SandboxPolicy};
use longhaul::session::{Runtime, Session, SessionError};
use longhaul::telemetry::Telemetry;
use longhaul::tools::{ToolLimits, ToolSet};
use longhaul::workspace::Workspace;
use longhaul_core::budget::StrategyTrigger;
use longhaul_core::estimate::MessageTokenCounter;
use longhaul_core::plan::CompactionPolicy;
use longhaul_core::run::{CompactionOutcome, Run, ServerCountPolicy, ToolApproval};
use longhaul_providers::Provider;
use longhaul_providers::scripted::{ModelScript, ScriptedProvider};
use longhaul_store::{BlobStore, SharedStore};

use facts::DemoFact;
use screen::DemoPrinter;
use scripted_model::ScriptedDemoModel;

pub(crate) use served::model as served_model;

/// The default window, in tokens.
pub(crate) const WINDOW: u64 = 16_000;

/// The smallest window the demo fits in, in tokens.
pub(crate) const SMALLEST_WINDOW: u64 = 12_000;

const SYSTEM: &str = "You are the demo agent. You read files with your tools and note what they are about.";

const FIRST: &str = "Get to know this project: list it, then read its files one after the other and say what each is \
                     about. One rule for all of it: never change a file.";

const SECOND: &str = "Good. Go on with the rest of the files, and see with the shell how large they are.";

const THIRD: &str = "Look at the last two files again.";

/// The settings of one performance of the demo.
#[derive(Clone)]
pub(crate) struct DemoOptions {
    /// The files' folder.
    pub(crate) folder: PathBuf,
    /// `true` if a person has named the folder. If any other folder has too little to read, the demo reads
    /// files of its own.
    pub(crate) is_named: bool,
    /// The data folder, out of the tools' reach.
    pub(crate) protected: Vec<PathBuf>,
    /// The folder for scratch folders.
    pub(crate) scratch: PathBuf,
    /// The window in tokens.
    pub(crate) window: u64,
    /// The configured policy for the bounds of the window.
    pub(crate) policy: CompactionPolicy,
    /// `true` to stream without pauses.
    pub(crate) fast: bool,
    /// `true` if colours are allowed.
    pub(crate) colour: bool,
    /// The command line of this program for the same data folder.
    pub(crate) longhaul: String,
}

/// The outcome of the demo.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DemoOutcome {
    /// Prunes and compactions without a command.
    pub(crate) edits: u64,
    /// Facts asked for.
    pub(crate) asked: usize,
    /// Facts quoted right.
    pub(crate) right: usize,
    /// Requests a real provider would have refused.
    pub(crate) invalid: usize,
    /// Tokens of the largest request, as the model counted.
    pub(crate) largest: u64,
}

impl DemoOutcome {
    /// Returns whether the demo has shown edits, correct recalls and no invalid request.
    pub(crate) fn is_success(&self) -> bool {
        self.edits >= 3 && self.asked > 0 && self.right == self.asked && self.invalid == 0
    }
}

/// The reason for a demo that could not be played.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DemoError {
    /// The named folder has too few readable files.
    #[error(
        "the demo needs at least {needed} text files of 1.5 KB or more in {folder}; it found {found}. Give another folder, or none: then it reads files of its own"
    )]
    TooFewFiles {
        /// The folder with too few files.
        folder: String,
        /// The number of files found.
        found: usize,
        /// The number of files needed.
        needed: usize,
    },
    /// The session refused.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The folder cannot be worked in.
    #[error("{0}")]
    Place(String),
}

/// Plays the demo and prints it.
pub(crate) async fn play(
    stage: &DemoOptions,
    store: SharedStore,
    blobs: BlobStore,
) -> Result<DemoOutcome, DemoError> {
    if !stage.folder.is_dir() {
        return Err(DemoError::Place(format!("there is no folder {}", stage.folder.display())));
    }
    let mut files = files::choose(&stage.folder);
    let mut own = None;
    if files.len() < files::FEWEST {
        if stage.is_named {
            let folder = stage.folder.display().to_string();
            return Err(DemoError::TooFewFiles { folder, found: files.len(), needed: files::FEWEST });
        }
        // The folder is removed with the demo.
        let folder = sample::SampleFolder::make(&stage.scratch)
            .map_err(|error| DemoError::Place(error.to_string()))?;
        files = files::choose(folder.path());
        own = Some(folder);
    }
    let stage = &match &own {
        Some(own) => DemoOptions { folder: own.path().to_owned(), ..stage.clone() },
        None => stage.clone(),
    };
    // One piece of text for each frame of a usual screen.
    let pace = if stage.fast { Duration::ZERO } else { Duration::from_millis(16) };
    let model = Arc::new(ScriptedDemoModel::new(&files, pace).into_model(stage.window));
    let agent = agent(stage, Arc::clone(&model)).await?;
    let runtime = Runtime::new(agent, store, blobs);
    let session = runtime.create(Some("demo".to_owned())).await?;
    let mut screen = DemoPrinter::new(&session, stage.colour);
    screen.opening(&stage.folder, stage.window, files.len());
    if own.is_some() {
        screen.note("There is too little to read here, so the demo reads files of its own.");
    }
    let outcome = perform(&session, &mut screen).await;
    let mut outcome = outcome?;
    outcome.invalid = model.invalid_requests();
    outcome.largest = model.log().iter().map(|call| call.input_tokens).max().unwrap_or(0);
    let report = session.context().await?;
    screen.closing(&outcome, &report, session.id(), &stage.longhaul);
    runtime.close().await;
    Ok(outcome)
}

async fn perform(session: &Session, screen: &mut DemoPrinter) -> Result<DemoOutcome, DemoError> {
    screen.scene("1", "Work: room is made when that pays, before the window is full");
    screen.ask(session, FIRST).await?;
    screen.scene("2", "More work, and more room made");
    screen.ask(session, SECOND).await?;
    screen.scene("3", "Undo a compaction");
    undo_and_redo(session, screen).await?;
    screen.scene("4", "Recall what was seen only before the first compaction");
    let edits = session.inspect_run(|run| run.history().edits().len() as u64).await?;
    let mut outcome = DemoOutcome { edits, ..DemoOutcome::default() };
    for fact in session.inspect_run(facts::choose).await? {
        if outcome.asked == facts::QUESTIONS {
            break;
        }
        // An earlier answer may have brought the line back into the view.
        let sought = fact.clone();
        if session.inspect_run(move |run| facts::is_in_view(run, &sought)).await? {
            continue;
        }
        outcome.asked += 1;
        outcome.right += usize::from(recall(session, screen, &fact).await?);
    }
    Ok(outcome)
}

/// Compacts by hand, undoes the compaction, and shows that the view is unchanged.
async fn undo_and_redo(session: &Session, screen: &mut DemoPrinter) -> Result<(), DemoError> {
    screen.ask(session, THIRD).await?;
    let view = |run: &Run| (run.history().view_hash(), run.meter().total);
    let (before, tokens) = session.inspect_run(view).await?;
    let outcome = screen.during(session, session.compact(None)).await??;
    let CompactionOutcome::Committed(edit) = outcome else {
        screen.nothing_to_undo();
        return Ok(());
    };
    let shorter = session.inspect_run(view).await?.1;
    session.undo(edit.id.clone()).await?;
    let (after, again) = session.inspect_run(view).await?;
    screen.undone(tokens, shorter, again, before == after);
    // An undone compaction is not repeated by itself until it is released.
    session.release(edit.id).await?;
    screen.during(session, session.compact(None)).await??;
    Ok(())
}

async fn recall(session: &Session, screen: &mut DemoPrinter, fact: &DemoFact) -> Result<bool, DemoError> {
    let answer = screen.ask(session, &fact.question()).await?;
    let right = answer.contains(&fact.line);
    screen.verdict(right);
    Ok(right)
}

/// Lowers an unconfigured trigger so that the compaction can still be undone.
pub(crate) fn act_early(policy: &mut CompactionPolicy) {
    policy.trigger.get_or_insert(StrategyTrigger::Share(0.5));
}

async fn agent(stage: &DemoOptions, model: Arc<ScriptedProvider>) -> Result<Agent, DemoError> {
    let limits = model.limits().await;
    let mut sandbox = SandboxPolicy::new(&stage.folder, &stage.scratch);
    sandbox.protected.clone_from(&stage.protected);
    let mut rules = AgentRules::new(stage.policy.clone());
    act_early(&mut rules.policy);
    // The only command in the script is `wc`, which changes nothing.
    rules.approvals = BTreeMap::from([("bash".to_owned(), ToolApproval::Allow)]);
    rules.default_approval = ToolApproval::Deny("the demo changes nothing".to_owned());
    Ok(Agent {
        system: SYSTEM.to_owned(),
        provider: model,
        limits,
        counter: MessageTokenCounter::default(),
        counting: ServerCountPolicy::Never,
        calibrations: Arc::new(CalibrationStore::in_memory()),
        tools: ToolSet::builtin(),
        workspace: Arc::new(
            Workspace::new(&stage.folder, &stage.protected).map_err(|error| place_error(&error))?,
        ),
        sandbox: Arc::new(Sandbox::new(sandbox).map_err(|error| place_error(&error))?),
        tool_limits: ToolLimits::default(),
        rules,
        hooks: HookSet::default(),
        telemetry: Telemetry::default(),
    })
}

fn place_error(error: &dyn std::fmt::Display) -> DemoError {
    DemoError::Place(error.to_string())
}

impl ScriptedDemoModel {
    fn into_model(self, window: u64) -> ScriptedProvider {
        ScriptedProvider::new(ModelScript::closure(move |request, _| self.answer(request)))
            .model("demo")
            .window(window)
            // The demo's model recognises requests for summaries by itself.
            .recognise_summaries(|_| false)
    }
}

/// Returns the folder's name for people.
fn shown(folder: &Path) -> String {
    folder
        .file_name()
        .map_or_else(|| folder.display().to_string(), |name| name.to_string_lossy().into_owned())
}
