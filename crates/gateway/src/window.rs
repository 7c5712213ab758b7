//! How large windows are, and who says so: one answer for everybody who calls the same model.

use longhaul_core::message::ModelOrigin;
use longhaul_core::meter::TokenCalibration;
use longhaul_providers::LimitSource;

/// Windows that refusals have named, kept by whoever else calls the same models: what one learns, all know.
pub trait SharedWindowStore: Send + Sync {
    /// The window of a model of the server whose API begins at `base_url`, in tokens, if a refusal named it.
    fn window(&self, base_url: &str, model: &ModelOrigin) -> Option<u64>;

    /// A refusal named it; `None`: there was nothing to it.
    fn learn(&self, base_url: &str, model: &ModelOrigin, window: Option<u64>);

    /// A conversation's reports have shown what the model's tokenizer charges beside what `counter` (its name) says. Kept by
    /// nobody unless it is implemented.
    fn learn_tokenizer(&self, model: &ModelOrigin, counter: &str, calibration: &TokenCalibration) {
        let _ = (model, counter, calibration);
    }
}

/// Nobody else calls them.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSharedWindowStore;

impl SharedWindowStore for NoSharedWindowStore {
    fn window(&self, _: &str, _: &ModelOrigin) -> Option<u64> {
        None
    }

    fn learn(&self, _: &str, _: &ModelOrigin, _: Option<u64>) {}
}

/// A window and who said it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownWindow {
    /// Its size in tokens.
    pub tokens: u64,
    /// Who said it; nobody, where it is assumed.
    pub source: LimitSource,
}

impl KnownWindow {
    /// Who said it, in a word.
    pub fn said(&self) -> &'static str {
        match self.source {
            LimitSource::Declared => "stated",
            LimitSource::Server => "discovered",
            LimitSource::Learned => "learned",
            LimitSource::Catalogue => "catalogue",
            LimitSource::Unknown => "assumed",
        }
    }

    /// Returns whether somebody said it.
    pub fn is_known(&self) -> bool {
        self.source != LimitSource::Unknown
    }
}
