//! The tokens of a picture, by the rule of the model that is shown the picture.
//!
//! Providers publish and change these rules. The report of a call corrects a wrong rule (see
//! [`meter`](crate::meter)).

/// Tokens of a picture of unknown size.
#[doc(hidden)]
pub const UNKNOWN_IMAGE_TOKENS: u64 = 1_600;

/// The rule for the tokens of a picture by size in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ImageTokenRule {
    /// The picture is fitted into 2048 × 2048, and the short side is brought down to 768. The cost is `base`,
    /// and `tile` for each 512 × 512. Source: OpenAI, "Images and vision".
    Tiles {
        /// Tokens for the picture as a whole.
        base: u64,
        /// Tokens for each tile.
        tile: u64,
    },
    /// The picture is cut into patches of `side` × `side`, at most `most`, each worth `percent` hundredths of a
    /// token. Sources: OpenAI, "Images and vision" (32); Anthropic, "Vision" (28); the Qwen-VL model cards (28).
    Patches {
        /// The side of a patch, in pixels.
        side: u32,
        /// The largest number of patches. Larger pictures are scaled down.
        most: u64,
        /// The cost of a patch, in hundredths of a token.
        percent: u64,
    },
    /// 258 tokens if both sides are at most 384 pixels, else 258 tokens for each 768 × 768. Source: Google,
    /// "Understand and count tokens".
    Crops,
    /// A fixed number of tokens, the same for every picture.
    Flat(u64),
}

impl Default for ImageTokenRule {
    fn default() -> Self {
        Self::Tiles { base: 85, tile: 170 }
    }
}

/// Beginnings of model names, with their rules. The first match decides, so longer beginnings stand first.
const RULES: &[(&str, ImageTokenRule)] = &[
    ("gpt-4o-mini", ImageTokenRule::Tiles { base: 2_833, tile: 5_667 }),
    ("gpt-4.1-mini", openai(1_536, 162)),
    ("gpt-4.1-nano", openai(1_536, 246)),
    ("o4-mini", openai(1_536, 172)),
    ("gpt-5-mini", openai(1_536, 162)),
    ("gpt-5-nano", openai(1_536, 246)),
    ("gpt-5.4-mini", openai(1_536, 162)),
    ("gpt-5.4-nano", openai(1_536, 246)),
    ("gpt-5.4", openai(2_500, 100)),
    ("gpt-5.5", openai(2_500, 100)),
    ("gpt-5", ImageTokenRule::Tiles { base: 70, tile: 140 }),
    ("o1", ImageTokenRule::Tiles { base: 75, tile: 150 }),
    ("o3", ImageTokenRule::Tiles { base: 75, tile: 150 }),
    ("computer-use", ImageTokenRule::Tiles { base: 65, tile: 129 }),
    ("gemini-3", ImageTokenRule::Flat(1_120)),
    ("gemini", ImageTokenRule::Crops),
    ("claude-opus-4-7", anthropic(4_784)),
    ("claude-opus-4-8", anthropic(4_784)),
    ("claude-sonnet-5", anthropic(4_784)),
    ("claude-opus-5", anthropic(4_784)),
    ("claude", anthropic(1_568)),
    ("qwen", ImageTokenRule::Patches { side: 28, most: 16_384, percent: 100 }),
];

const fn openai(most: u64, percent: u64) -> ImageTokenRule {
    ImageTokenRule::Patches { side: 32, most, percent }
}

const fn anthropic(most: u64) -> ImageTokenRule {
    ImageTokenRule::Patches { side: 28, most, percent: 100 }
}

impl ImageTokenRule {
    /// Returns the rule of a model, by the name that providers and local servers use (also `vendor/name`). An unknown
    /// model gets the rule of GPT-4o.
    pub fn of(model: &str) -> Self {
        let name = model.rsplit('/').next().unwrap_or(model).to_ascii_lowercase();
        let row = RULES.iter().find(|(begins, _)| name.starts_with(begins));
        row.map_or_else(Self::default, |(_, rule)| *rule)
    }

    /// Returns the tokens of a picture of a size in pixels; [`UNKNOWN_IMAGE_TOKENS`] if the rule needs an unknown
    /// side.
    ///
    /// ```
    /// use longhaul_core::estimate::ImageTokenRule;
    /// assert_eq!(ImageTokenRule::of("gpt-4o").tokens(Some(1024), Some(1024)), 765);
    /// assert_eq!(ImageTokenRule::of("claude-sonnet-4-5").tokens(Some(1000), Some(1000)), 1_296);
    /// assert_eq!(ImageTokenRule::of("gemini-2.5-pro").tokens(Some(300), Some(200)), 258);
    /// ```
    pub fn tokens(&self, width: Option<u32>, height: Option<u32>) -> u64 {
        let (Some(width), Some(height)) = (width.map(|side| side.max(1)), height.map(|side| side.max(1)))
        else {
            return if let Self::Flat(tokens) = self { *tokens } else { UNKNOWN_IMAGE_TOKENS };
        };
        match *self {
            Self::Tiles { base, tile } => base + tile * tiles(width, height),
            Self::Patches { side, most, percent } => {
                (squares(width, height, side).min(most) * percent).div_ceil(100)
            }
            Self::Crops if width.max(height) <= 384 => 258,
            Self::Crops => 258 * squares(width, height, 768),
            Self::Flat(tokens) => tokens,
        }
    }
}

/// Returns the number of squares with sides of `side` pixels that cover a picture.
fn squares(width: u32, height: u32, side: u32) -> u64 {
    u64::from(width.div_ceil(side)) * u64::from(height.div_ceil(side))
}

fn tiles(width: u32, height: u32) -> u64 {
    let (long, short) = (u64::from(width.max(height)), u64::from(width.min(height)));
    // OpenAI scales in this order: into the square first, then the short side.
    let (long, short) = shrink(long, short, long, 2048);
    let (long, short) = shrink(long, short, short, 768);
    long.div_ceil(512) * short.div_ceil(512)
}

/// Scales both sides so that `side` becomes at most `limit`.
fn shrink(long: u64, short: u64, side: u64, limit: u64) -> (u64, u64) {
    if side <= limit {
        return (long, short);
    }
    ((long * limit).div_ceil(side), (short * limit).div_ceil(side))
}
