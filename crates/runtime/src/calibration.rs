//! The facts that sessions learn of each model and its server, kept for later sessions in one small file: the
//! vocabulary, the window, the limit on pictures, and abilities that the server refused.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use longhaul_core::ids::Millis;
use longhaul_core::message::ModelOrigin;
use longhaul_core::meter::{TokenCalibration, TokenizerProfile};
use longhaul_core::refusal::PictureSizeLimits;
use serde::{Deserialize, Serialize};

/// The maximum size of the file, in bytes: a thousand times the usual size.
const MAX_BYTES: u64 = 1 << 20;

/// The least change of a ratio for a write.
// Each call changes the ratios a little. Without a floor the file would be written after each call.
const WORTH_WRITING: f64 = 0.01;

/// The least change of a request's unseen overhead for a write, in tokens.
// Smaller than the margin of any count, so a lost change of this size is never noticed.
const WORTH_WRITING_TOKENS: u64 = 16;

/// The time for which abilities that a model or server lacks are remembered, in milliseconds. Servers are restarted
/// with other options, so a later session asks once more.
const ABILITIES_FORGOTTEN_MS: Millis = 24 * 3_600_000;

/// The longest answer of a model, as stated by its errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct LearnedOutputLimit {
    tokens: u64,
    /// The time at which the limit was learned, in milliseconds since 1970.
    at: Millis,
}

/// The limits on pictures as stated by a model's errors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LearnedImageLimit {
    /// The most pictures of one request; 0 for none at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most: Option<u32>,
    /// The maximum length of a picture's side, in pixels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_side: Option<u32>,
    /// The maximum number of pixels of a picture.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_pixels: Option<u64>,
    /// The maximum size of a picture as the server counts it, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<u64>,
    /// The time at which the limit was learned, in milliseconds since 1970.
    pub at: Millis,
}

/// An ability that a model or its server has turned out to lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum MissingAbility {
    /// The server does not continue an answer that a request ends with.
    Prefill,
    /// The usage reports follow the requests.
    ReliableUsage,
    /// The input counts cover the whole request, so that a low count shows a cut.
    WholeCounts,
}

impl MissingAbility {
    /// Returns the name of the ability in the file. A name stays readable for ever.
    fn name(self) -> &'static str {
        match self {
            Self::Prefill => "prefill",
            Self::ReliableUsage => "reliableUsage",
            Self::WholeCounts => "wholeCounts",
        }
    }
}

/// Calibrations by model. Losing the file costs accuracy in a session's first calls, nothing else: the file is written
/// without a sync, and an unreadable file counts as none.
#[derive(Clone, Debug, Default)]
pub struct CalibrationStore {
    kept: Arc<CalibrationState>,
    /// The server whose models' windows are meant: the same model may have another window elsewhere.
    server: Option<String>,
}

#[derive(Debug, Default)]
struct CalibrationState {
    file: Option<PathBuf>,
    known: Mutex<CalibrationData>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct CalibrationData {
    /// Windows named by refusals, in tokens, by model and server.
    #[serde(default)]
    windows: BTreeMap<String, u64>,
    /// The times of errors by which a model refused tools, in milliseconds since 1970, by model and server.
    #[serde(default)]
    without_tools: BTreeMap<String, Millis>,
    /// The times at which sessions found abilities missing, in milliseconds since 1970, by model and server and by
    /// the name of the ability. Names that this release does not know are kept.
    #[serde(default)]
    missing: BTreeMap<String, BTreeMap<String, Millis>>,
    /// The times at which errors refused parameters, in milliseconds since 1970, by model and server and by the name of
    /// the parameter.
    #[serde(default)]
    refused_parameters: BTreeMap<String, BTreeMap<String, Millis>>,
    /// The limits on pictures stated by errors, by model and server.
    #[serde(default)]
    images: BTreeMap<String, LearnedImageLimit>,
    /// The output limits stated by errors, by model and server.
    #[serde(default)]
    output_limits: BTreeMap<String, LearnedOutputLimit>,
    /// The learned profiles of tokenizers, by model and counter.
    #[serde(default)]
    tokenizers: BTreeMap<String, TokenizerProfile>,
    /// The profiles of releases before 0.7: four ratios by model and counter.
    #[serde(flatten, skip_serializing)]
    four_ratios: BTreeMap<String, [f64; 4]>,
}

impl CalibrationStore {
    /// Creates a store in memory only.
    pub fn in_memory() -> Self {
        Self::default()
    }

    /// Opens a store in `file`, which need not exist.
    pub fn open(file: PathBuf) -> Self {
        let known = match read(&file) {
            Ok(known) => {
                tracing::debug!(
                    file = %file.display(),
                    tokenizers = known.tokenizers.len(),
                    windows = known.windows.len(),
                    "calibrations were read"
                );
                known
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => CalibrationData::default(),
            Err(error) => {
                tracing::warn!(
                    file = %file.display(),
                    %error,
                    "calibrations cannot be read: token estimates start uncalibrated and are learned again"
                );
                CalibrationData::default()
            }
        };
        Self { kept: Arc::new(CalibrationState { file: Some(file), known: Mutex::new(known) }), server: None }
    }

    /// Returns this store for the models of the server at `base_url`. All stores of one server in this process share
    /// the learned facts.
    #[must_use]
    pub fn of_server(&self, base_url: &str) -> Self {
        Self { kept: Arc::clone(&self.kept), server: Some(base_url.trim_end_matches('/').to_owned()) }
    }

    /// Returns this store with the file of `other`: both share all learned facts.
    #[must_use]
    pub fn beside(&self, other: &Self) -> Self {
        Self { kept: Arc::clone(&other.kept), server: self.server.clone() }
    }

    /// Returns the profile from earlier sessions of `model` with the counter named `counter`; `None` for a new model.
    pub fn prior(&self, model: &ModelOrigin, counter: &str) -> Option<TokenizerProfile> {
        self.known().tokenizers.get(&key(model, counter)).cloned()
    }

    /// Learns a session's profile of `model` with the counter named `counter`.
    pub fn learn(&self, model: &ModelOrigin, counter: &str, calibration: &TokenCalibration) {
        // A profile of a few calls would mislead later sessions.
        let Some(profile) = calibration.settled() else { return };
        let mut known = self.known();
        let key = key(model, counter);
        if known.tokenizers.get(&key).is_some_and(|before| !moved(before, &profile)) {
            return;
        }
        tracing::debug!(
            model = model.model,
            counter,
            overhead_tokens = profile.overhead_tokens(),
            "a tokenizer profile was learned"
        );
        known.tokenizers.insert(key, profile);
        // The file is written under the lock: two writers at once would share the temporary file.
        self.keep(&known);
    }

    /// Returns the window of `model` named by a refusal, in this process or before, in tokens.
    pub fn window(&self, model: &ModelOrigin) -> Option<u64> {
        self.known().windows.get(&self.placed(model)).copied()
    }

    /// Learns the window of `model` from a session's refusals; `None` after a session has found the earlier value
    /// wrong.
    pub fn learn_window(&self, model: &ModelOrigin, window: Option<u64>) {
        let mut known = self.known();
        let key = self.placed(model);
        if known.windows.get(&key).copied() == window {
            return;
        }
        match window {
            Some(window) => known.windows.insert(key, window),
            None => known.windows.remove(&key),
        };
        self.keep(&known);
    }

    /// Returns whether `model` has refused tools within the last day. A server may be restarted with other options, so
    /// tools are offered again once a day.
    pub fn refuses_tools(&self, model: &ModelOrigin, now: Millis) -> bool {
        let known = self.known();
        known
            .without_tools
            .get(&self.placed(model))
            .is_some_and(|at| now.saturating_sub(*at) < ABILITIES_FORGOTTEN_MS)
    }

    /// Remembers a refusal of tools by `model`.
    pub fn learn_no_tools(&self, model: &ModelOrigin, now: Millis) {
        let mut known = self.known();
        known.without_tools.insert(self.placed(model), now);
        self.keep(&known);
    }

    /// Returns whether a session found within the last day that `model` lacks an ability.
    pub fn lacks(&self, model: &ModelOrigin, ability: MissingAbility, now: Millis) -> bool {
        let known = self.known();
        let found = known.missing.get(&self.placed(model)).and_then(|found| found.get(ability.name()));
        found.is_some_and(|at| now.saturating_sub(*at) < ABILITIES_FORGOTTEN_MS)
    }

    /// Remembers that `model` lacks an ability. A fact that is still remembered keeps its time, so that it ends a day
    /// after it was found and not a day after it was last used.
    pub fn learn_missing(&self, model: &ModelOrigin, ability: MissingAbility, now: Millis) {
        if self.lacks(model, ability, now) {
            return;
        }
        tracing::info!(
            model = model.model,
            missing = ability.name(),
            "an ability of the model was found missing"
        );
        let mut known = self.known();
        known.missing.entry(self.placed(model)).or_default().insert(ability.name().to_owned(), now);
        self.keep(&known);
    }

    /// Returns the names of the parameters that `model` has refused within the last day, in alphabetical order.
    pub fn refused_parameters(&self, model: &ModelOrigin, now: Millis) -> Vec<String> {
        let known = self.known();
        let refused = known.refused_parameters.get(&self.placed(model)).into_iter().flatten();
        let fresh = refused.filter(|(_, at)| now.saturating_sub(**at) < ABILITIES_FORGOTTEN_MS);
        fresh.map(|(name, _)| name.clone()).collect()
    }

    /// Remembers that `model` refuses a parameter.
    pub fn learn_refused_parameter(&self, model: &ModelOrigin, name: &str, now: Millis) {
        let mut known = self.known();
        known.refused_parameters.entry(self.placed(model)).or_default().insert(name.to_owned(), now);
        self.keep(&known);
    }

    /// Returns the longest answer of `model` in tokens, if an error has stated it within the last day.
    pub fn output_limit(&self, model: &ModelOrigin, now: Millis) -> Option<u64> {
        let learned = self.known().output_limits.get(&self.placed(model)).copied()?;
        (now.saturating_sub(learned.at) < ABILITIES_FORGOTTEN_MS).then_some(learned.tokens)
    }

    /// Remembers the longest answer of `model`, in tokens.
    pub fn learn_output_limit(&self, model: &ModelOrigin, tokens: u64, now: Millis) {
        let mut known = self.known();
        known.output_limits.insert(self.placed(model), LearnedOutputLimit { tokens, at: now });
        self.keep(&known);
    }

    /// Returns the maximum number of pictures in a request to `model`, if an error has stated the number within the
    /// last day.
    pub fn most_images(&self, model: &ModelOrigin, now: Millis) -> Option<u32> {
        self.image_limits(model, now).most
    }

    /// Remembers the maximum number of pictures in a request to `model`.
    pub fn learn_most_images(&self, model: &ModelOrigin, most: u32, now: Millis) {
        let before = self.image_limits(model, now);
        self.keep_image_limits(model, LearnedImageLimit { most: Some(most), at: now, ..before });
    }

    /// Returns the limits on one picture that errors of `model` have stated within the last day.
    pub fn picture_size(&self, model: &ModelOrigin, now: Millis) -> PictureSizeLimits {
        let LearnedImageLimit { max_side, max_pixels, max_bytes, .. } = self.image_limits(model, now);
        PictureSizeLimits { max_side, max_pixels, max_bytes }
    }

    /// Remembers the limits on one picture that an error of `model` has stated. A limit that the error does not name
    /// stays.
    pub fn learn_picture_size(&self, model: &ModelOrigin, size: PictureSizeLimits, now: Millis) {
        let before = self.image_limits(model, now);
        let learned = LearnedImageLimit {
            most: before.most,
            max_side: size.max_side.or(before.max_side),
            max_pixels: size.max_pixels.or(before.max_pixels),
            max_bytes: size.max_bytes.or(before.max_bytes),
            at: now,
        };
        self.keep_image_limits(model, learned);
    }

    /// Returns the limits on pictures that errors of `model` have stated within the last day.
    fn image_limits(&self, model: &ModelOrigin, now: Millis) -> LearnedImageLimit {
        let known = self.known();
        let learned = known.images.get(&self.placed(model)).copied().unwrap_or_default();
        if now.saturating_sub(learned.at) < ABILITIES_FORGOTTEN_MS {
            learned
        } else {
            LearnedImageLimit::default()
        }
    }

    fn keep_image_limits(&self, model: &ModelOrigin, limits: LearnedImageLimit) {
        let mut known = self.known();
        known.images.insert(self.placed(model), limits);
        self.keep(&known);
    }

    fn placed(&self, model: &ModelOrigin) -> String {
        match &self.server {
            Some(server) => format!("{} at {server}", named(model)),
            None => named(model),
        }
    }

    fn keep(&self, known: &CalibrationData) {
        if let Some(file) = &self.kept.file
            && let Err(error) = write(file, known)
        {
            tracing::warn!(file = %file.display(), %error, "calibrations cannot be kept");
        }
    }

    fn known(&self) -> MutexGuard<'_, CalibrationData> {
        self.kept.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns whether a profile has changed enough to be worth a write.
fn moved(before: &TokenizerProfile, now: &TokenizerProfile) -> bool {
    let (old, new) = (before.ratios(), now.ratios());
    old.0.iter().zip(&new.0).any(|(old, new)| (old - new).abs() >= WORTH_WRITING)
        || before.overhead_tokens().abs_diff(now.overhead_tokens()) >= WORTH_WRITING_TOKENS
}

/// Returns the key of a profile. Ratios are valid for a single counter only, so the counter is part of the key.
fn key(model: &ModelOrigin, counter: &str) -> String {
    format!("{} by {counter}", named(model))
}

fn named(model: &ModelOrigin) -> String {
    format!("{}/{}", model.provider, model.model)
}

fn read(file: &Path) -> io::Result<CalibrationData> {
    // A pipe or device may never end or never begin: opening a pipe waits for its writer.
    if !fs::metadata(file)?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    File::open(file)?.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(io::Error::other("it is larger than 1 MiB"));
    }
    let mut known: CalibrationData = serde_json::from_slice(&bytes)?;
    // The old form is read once and written in the new one.
    for (key, ratios) in std::mem::take(&mut known.four_ratios) {
        // A profile that this release has learned is better than four ratios of an older one.
        known.tokenizers.entry(key).or_insert_with(|| TokenizerProfile::of_four_ratios(ratios));
    }
    Ok(known)
}

/// Writes the file under another name and renames the new file, so readers see either the old file or the new.
fn write(file: &Path, known: &CalibrationData) -> io::Result<()> {
    // A pipe or a link may lie under this name. It is removed, because opening it could block or write elsewhere.
    let fresh = file.with_extension("new");
    match fs::remove_file(&fresh) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut out = OpenOptions::new().write(true).create_new(true).open(&fresh)?;
    serde_json::to_writer_pretty(&mut out, known)?;
    out.write_all(b"\n")?;
    fs::rename(fresh, file)
}

#[cfg(test)]
mod tests {
    use longhaul_core::estimate::TokensByScript;

    use super::*;

    fn origin(model: &str) -> ModelOrigin {
        ModelOrigin { provider: "p".to_owned(), api: "a".to_owned(), model: model.to_owned() }
    }

    /// Tokens for each estimated token of words, in the stored form.
    fn words(calibrations: &CalibrationStore) -> f64 {
        calibrations.prior(&origin("m"), "c").expect("it was learned").ratios().0[0]
    }

    fn shown(calls: u64, factor: f64) -> TokenCalibration {
        let mut calibration = TokenCalibration::default();
        for _ in 0..calls {
            calibration.learn(&TokensByScript::of(1_000), (1_000.0 * factor) as u64);
        }
        calibration
    }

    #[test]
    fn windows_outlive_the_process_until_they_are_found_wrong() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("calibration.json");
        let first = CalibrationStore::open(file.clone());
        first.learn_window(&origin("m"), Some(8_000));
        first.learn(&origin("m"), "c", &shown(20, 1.3));
        let second = CalibrationStore::open(file.clone());
        assert_eq!((second.window(&origin("m")), second.window(&origin("n"))), (Some(8_000), None));
        assert!(second.prior(&origin("m"), "c").is_some());
        second.learn_window(&origin("m"), None);
        assert_eq!(CalibrationStore::open(file).window(&origin("m")), None);
    }

    #[test]
    fn a_model_without_tools_is_asked_again_after_a_day() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("calibration.json");
        let first = CalibrationStore::open(file.clone()).of_server("http://a/v1");
        assert!(!first.refuses_tools(&origin("m"), 5));
        first.learn_no_tools(&origin("m"), 5);
        let second = CalibrationStore::open(file);
        let there = second.of_server("http://a/v1");
        assert!(there.refuses_tools(&origin("m"), 1_000));
        assert!(!there.refuses_tools(&origin("n"), 1_000));
        assert!(!second.of_server("http://b/v1").refuses_tools(&origin("m"), 1_000));
        assert!(!there.refuses_tools(&origin("m"), 5 + ABILITIES_FORGOTTEN_MS));
    }

    #[test]
    fn missing_abilities_outlive_the_process_for_a_day() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("calibration.json");
        let all = [MissingAbility::Prefill, MissingAbility::ReliableUsage, MissingAbility::WholeCounts];
        for (at, ability) in (1..).zip(all) {
            let first = CalibrationStore::open(file.clone()).of_server("http://a/v1");
            assert!(!first.lacks(&origin("m"), ability, at));
            first.learn_missing(&origin("m"), ability, at);
            // A later session uses the fact, which must not prolong it.
            first.learn_missing(&origin("m"), ability, 1_000);
            let second = CalibrationStore::open(file.clone());
            assert!(second.of_server("http://a/v1").lacks(&origin("m"), ability, 1_000));
            assert!(!second.of_server("http://b/v1").lacks(&origin("m"), ability, 1_000));
            assert!(!second.of_server("http://a/v1").lacks(&origin("n"), ability, 1_000));
            assert!(!second.of_server("http://a/v1").lacks(
                &origin("m"),
                ability,
                at + ABILITIES_FORGOTTEN_MS
            ));
        }
    }

    #[test]
    fn refused_parameters_outlive_the_process_for_a_day() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("calibration.json");
        let first = CalibrationStore::open(file.clone()).of_server("http://a/v1");
        first.learn_refused_parameter(&origin("m"), "temperature", 5);
        first.learn_refused_parameter(&origin("m"), "store", 9);
        let second = CalibrationStore::open(file);
        let there = second.of_server("http://a/v1");
        assert_eq!(there.refused_parameters(&origin("m"), 1_000), ["store", "temperature"]);
        assert_eq!(there.refused_parameters(&origin("n"), 1_000), [""; 0]);
        assert_eq!(second.of_server("http://b/v1").refused_parameters(&origin("m"), 1_000), [""; 0]);
        assert_eq!(there.refused_parameters(&origin("m"), 5 + ABILITIES_FORGOTTEN_MS), ["store"]);
    }

    #[test]
    fn limits_on_pictures_are_kept_beside_each_other_for_a_day() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("calibration.json");
        let first = CalibrationStore::open(file.clone());
        let of_bytes = PictureSizeLimits { max_bytes: Some(5_000_000), ..PictureSizeLimits::default() };
        let of_side = PictureSizeLimits { max_side: Some(2_000), ..PictureSizeLimits::default() };
        first.learn_picture_size(&origin("m"), of_bytes, 1_000);
        first.learn_most_images(&origin("m"), 4, 1_001);
        first.learn_picture_size(&origin("m"), of_side, 1_002);
        let second = CalibrationStore::open(file);
        let both = PictureSizeLimits { max_bytes: Some(5_000_000), ..of_side };
        assert_eq!(second.picture_size(&origin("m"), 1_003), both);
        assert_eq!(second.most_images(&origin("m"), 1_003), Some(4));
        assert_eq!(second.picture_size(&origin("n"), 1_003), PictureSizeLimits::default());
        let later = 1_002 + ABILITIES_FORGOTTEN_MS;
        assert_eq!(second.picture_size(&origin("m"), later), PictureSizeLimits::default());
    }

    #[test]
    fn a_window_is_that_of_one_server() {
        let all = CalibrationStore::in_memory();
        let (box_a, box_b) = (all.of_server("http://a/v1/"), all.of_server("http://b/v1"));
        box_a.learn_window(&origin("m"), Some(8_000));
        assert_eq!(all.of_server("http://a/v1").window(&origin("m")), Some(8_000), "whoever asks there");
        assert_eq!((box_b.window(&origin("m")), all.window(&origin("m"))), (None, None));
    }

    #[test]
    fn they_outlive_the_process_by_model() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("calibration.json");
        let first = CalibrationStore::open(file.clone());
        assert_eq!(first.prior(&origin("m"), "c"), None);
        first.learn(&origin("m"), "c", &shown(20, 1.3));
        first.learn(&origin("seldom"), "c", &shown(4, 2.0));
        let again = CalibrationStore::open(file);
        assert!((words(&again) - 1.3).abs() < 0.02, "{:?}", again.prior(&origin("m"), "c"));
        assert_eq!(again.prior(&origin("seldom"), "c"), None);
        assert_eq!(again.prior(&origin("m"), "d"), None, "another counter errs otherwise");
    }

    #[cfg(unix)]
    #[test]
    fn what_lies_in_the_files_place_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = |name: &str| {
            let path = folder.path().join(name);
            assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
            path
        };
        let file = pipe("calibration.json");
        pipe("calibration.new");
        let first = CalibrationStore::open(file.clone());
        assert_eq!(first.prior(&origin("m"), "c"), None);
        first.learn(&origin("m"), "c", &shown(20, 1.3));
        assert!(words(&CalibrationStore::open(file.clone())) > 1.2, "the pipe is replaced");
        File::create(&file).unwrap().set_len(1 << 40).unwrap();
        for other in [file.as_path(), folder.path(), Path::new("/dev/zero")] {
            assert_eq!(CalibrationStore::open(other.to_owned()).prior(&origin("m"), "c"), None);
        }
    }

    /// Before the counter was part of the key, one kept ratios beside weights that are no more.
    #[test]
    fn what_an_older_release_has_kept_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("calibration.json");
        fs::write(&file, b"{\"p/m\":[1.5,2.0,1.0,1.0]}").unwrap();
        assert_eq!(CalibrationStore::open(file).prior(&origin("m"), "c"), None);
    }

    #[test]
    fn a_damaged_file_is_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("calibration.json");
        fs::write(&file, b"{\"p/m by c\":[1,2").unwrap();
        assert_eq!(CalibrationStore::open(file.clone()).prior(&origin("m"), "c"), None);
        fs::write(&file, b"{\"p/m by c\":[1.5,900.0,-1.0,1.0]}").unwrap();
        let read =
            CalibrationStore::open(file).prior(&origin("m"), "c").expect("four ratios of an older release");
        assert_eq!(read, TokenizerProfile::of_four_ratios([1.5, 900.0, -1.0, 1.0]));
        assert_eq!(read.ratios().0[..6], [1.5, 4.0, 1.5, 1.5, 4.0, 0.25]);
    }
}
