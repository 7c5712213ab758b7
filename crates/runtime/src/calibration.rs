//! What sessions have shown of each model's vocabulary, kept for the next ones in one small file.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use longhaul_core::message::Origin;
use longhaul_core::meter::{Calibration, Ratios};

/// Calls that a calibration must rest on before it is kept.
const ENOUGH_CALLS: u64 = 5;

/// The least change of a ratio that is worth a write.
const WORTH_WRITING: f64 = 0.01;

/// Calibrations by model. Losing the file costs accuracy in a session's first calls, nothing else: it is written
/// without a sync, and one that cannot be read counts as none.
#[derive(Debug, Default)]
pub struct Calibrations {
    file: Option<PathBuf>,
    known: Mutex<BTreeMap<String, Ratios>>,
}

impl Calibrations {
    /// Kept in memory only.
    pub fn in_memory() -> Self {
        Self::default()
    }

    /// Kept in `file`, which need not exist.
    pub fn open(file: PathBuf) -> Self {
        let known = match read(&file) {
            Ok(known) => known,
            Err(error) if error.kind() == io::ErrorKind::NotFound => BTreeMap::new(),
            Err(error) => {
                tracing::warn!(file = %file.display(), %error, "calibrations cannot be read and begin anew");
                BTreeMap::new()
            }
        };
        Self { file: Some(file), known: Mutex::new(known) }
    }

    /// What earlier sessions have shown of `model`.
    pub fn prior(&self, model: &Origin) -> Ratios {
        self.known().get(&key(model)).copied().unwrap_or_default()
    }

    /// Takes in what a session has shown of `model`.
    pub fn learn(&self, model: &Origin, calibration: &Calibration) {
        if calibration.observations() < ENOUGH_CALLS {
            return;
        }
        let mut known = self.known();
        let before = known.get(&key(model)).copied().unwrap_or_default();
        let ratios = *calibration.ratios();
        let moved = before.0.iter().zip(ratios.0).any(|(old, new)| (old - new).abs() >= WORTH_WRITING);
        if !moved {
            return;
        }
        known.insert(key(model), ratios);
        if let Some(file) = &self.file
            && let Err(error) = write(file, &known)
        {
            tracing::warn!(file = %file.display(), %error, "calibrations cannot be kept");
        }
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<String, Ratios>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key(model: &Origin) -> String {
    format!("{}/{}", model.provider, model.model)
}

fn read(file: &Path) -> io::Result<BTreeMap<String, Ratios>> {
    let known: BTreeMap<String, Ratios> = serde_json::from_slice(&fs::read(file)?)?;
    Ok(known.into_iter().map(|(model, ratios)| (model, ratios.sane())).collect())
}

/// A reader sees the old file or the new one.
fn write(file: &Path, known: &BTreeMap<String, Ratios>) -> io::Result<()> {
    let fresh = file.with_extension("new");
    let mut out = fs::File::create(&fresh)?;
    serde_json::to_writer_pretty(&mut out, known)?;
    out.write_all(b"\n")?;
    fs::rename(fresh, file)
}

#[cfg(test)]
mod tests {
    use longhaul_core::estimate::Groups;

    use super::*;

    fn origin(model: &str) -> Origin {
        Origin { provider: "p".to_owned(), api: "a".to_owned(), model: model.to_owned() }
    }

    fn shown(calls: u64, factor: f64) -> Calibration {
        let mut calibration = Calibration::default();
        for _ in 0..calls {
            calibration.learn(&Groups::of(1_000), (1_000.0 * factor) as u64);
        }
        calibration
    }

    #[test]
    fn they_outlive_the_process_by_model() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("calibration.json");
        let first = Calibrations::open(file.clone());
        assert_eq!(first.prior(&origin("m")), Ratios::default());
        first.learn(&origin("m"), &shown(20, 1.3));
        first.learn(&origin("seldom"), &shown(4, 2.0));
        let again = Calibrations::open(file);
        assert!((again.prior(&origin("m")).0[0] - 1.3).abs() < 0.02, "{:?}", again.prior(&origin("m")));
        assert_eq!(again.prior(&origin("seldom")), Ratios::default());
    }

    #[test]
    fn a_damaged_file_is_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("calibration.json");
        fs::write(&file, b"{\"p/m\":[1,2").unwrap();
        assert_eq!(Calibrations::open(file.clone()).prior(&origin("m")), Ratios::default());
        fs::write(&file, b"{\"p/m\":[1.5,900.0,-1.0,1.0]}").unwrap();
        assert_eq!(Calibrations::open(file).prior(&origin("m")), Ratios([1.5, 4.0, 0.25, 1.0]));
    }
}
