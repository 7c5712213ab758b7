//! tau-bench: a list of runs, each with a task, a reward and Chat Completions messages.

use longhaul_core::ids::Millis;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::openai::ChatMessagesImporter;
use super::{ImportError, ImportFormat, ImportPosition, ImportedSession, raw_identifier, unreadable};

#[derive(Deserialize)]
#[serde(expecting = "a run")]
struct TauBenchRun<'a> {
    #[serde(borrow)]
    task_id: Option<&'a RawValue>,
    #[serde(borrow)]
    trial: Option<&'a RawValue>,
    #[serde(borrow)]
    traj: Vec<&'a RawValue>,
}

pub(super) fn fits(bytes: &[u8]) -> bool {
    let list: Result<Vec<&RawValue>, _> = serde_json::from_slice(bytes);
    let first = list.ok().and_then(|list| list.first().copied());
    first.is_some_and(|run| serde_json::from_str::<TauBenchRun<'_>>(run.get()).is_ok())
}

pub(super) fn read(bytes: &[u8], at: Millis) -> Result<Vec<ImportedSession>, ImportError> {
    let list: Vec<&RawValue> =
        serde_json::from_slice(bytes).map_err(unreadable(ImportPosition::Run(0, 0)))?;
    (1..).zip(list).map(|(number, raw)| run(number, raw, at)).collect()
}

fn run(number: usize, raw: &RawValue, at: Millis) -> Result<ImportedSession, ImportError> {
    let run: TauBenchRun<'_> =
        serde_json::from_str(raw.get()).map_err(unreadable(ImportPosition::Run(number, 0)))?;
    let mut list = ChatMessagesImporter::new(None);
    for (index, message) in run.traj.iter().enumerate() {
        list.add(ImportPosition::Run(number, index + 1), message)?;
    }
    let (task, trial) = (raw_identifier(run.task_id), raw_identifier(run.trial));
    let title = format!("tau-bench task {task}, trial {trial}");
    list.finish(ImportFormat::TauBench, at, Some(title))
}
