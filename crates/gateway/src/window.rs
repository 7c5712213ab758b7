//! Context windows and their sources, shared by all callers of a model.

use longhaul_core::message::ModelOrigin;
use longhaul_core::meter::TokenCalibration;
use longhaul_providers::LimitSource;

/// A store of windows named in refusals, shared by all callers of the same models in the process.
pub trait SharedWindowStore: Send + Sync {
    /// Returns the window of a model in tokens if a refusal named it. The model's server has its API at `base_url`.
    fn window(&self, base_url: &str, model: &ModelOrigin) -> Option<u64>;

    /// Records the window named in a refusal; `None` withdraws a wrong window.
    fn learn(&self, base_url: &str, model: &ModelOrigin, window: Option<u64>);

    /// Records how the model's tokenizer differs from the counter named `counter`, as a conversation's usage reports
    /// show. The default implementation keeps nothing.
    fn learn_tokenizer(&self, model: &ModelOrigin, counter: &str, calibration: &TokenCalibration) {
        let _ = (model, counter, calibration);
    }
}

/// A store without windows, for a gateway without other callers of its models.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSharedWindowStore;

impl SharedWindowStore for NoSharedWindowStore {
    fn window(&self, _: &str, _: &ModelOrigin) -> Option<u64> {
        None
    }

    fn learn(&self, _: &str, _: &ModelOrigin, _: Option<u64>) {}
}

/// A context window and its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownWindow {
    /// The size in tokens.
    pub tokens: u64,
    /// The source of the size; [`LimitSource::Unknown`] if the size is assumed.
    pub source: LimitSource,
}

impl KnownWindow {
    /// Returns the source in one word.
    pub fn said(&self) -> &'static str {
        match self.source {
            LimitSource::Declared => "stated",
            LimitSource::Server => "discovered",
            LimitSource::Learned => "learned",
            LimitSource::Catalogue => "catalogue",
            _ => "assumed",
        }
    }

    /// Returns whether the window has a source, so is not assumed.
    pub fn is_known(&self) -> bool {
        self.source != LimitSource::Unknown
    }
}
