//! The limits on one picture in bytes and pixels, as the words of an error state them.
//!
//! An error that names a limit often names the size that was sent, too. A quantity is a limit only if words of a limit
//! stand nearest. Of several limits of one kind the smallest counts, because what was sent is always larger.

use longhaul_core::refusal::PictureSizeLimits;

/// The number of words before a quantity that can make it a limit.
const MAX_WORDS_BEFORE: usize = 8;

/// The number of words after a quantity that can make it a limit, as in "5 MB maximum".
const MAX_WORDS_AFTER: usize = 2;

/// The largest number of pixels that is taken for the length of a side. A larger one counts all pixels of a picture.
const MAX_SIDE: u64 = 100_000;

/// The smallest plausible limits. Errors about smaller values are about pictures that are too small.
const MIN_SIDE: u64 = 64;
const MIN_BYTES: u64 = 4_096;

/// Returns the limits on one picture that an error states. `text` is in lower case.
pub(super) fn picture_limits(text: &str) -> PictureSizeLimits {
    let mut limits = PictureSizeLimits::default();
    for quantity in quantities(text).into_iter().filter(|quantity| quantity.is_limit(text)) {
        let value = quantity.value;
        match quantity.kind {
            QuantityKind::Bytes if value >= MIN_BYTES => lower(&mut limits.max_bytes, value),
            QuantityKind::Pixels if value > MAX_SIDE => lower(&mut limits.max_pixels, value),
            QuantityKind::Pixels | QuantityKind::Side if (MIN_SIDE..=MAX_SIDE).contains(&value) => {
                lower(&mut limits.max_side, u32::try_from(value).unwrap_or(u32::MAX));
            }
            _ => {}
        }
    }
    limits
}

fn lower<T: Ord + Copy>(limit: &mut Option<T>, value: T) {
    *limit = Some(limit.map_or(value, |limit| limit.min(value)));
}

/// A number with a unit.
#[derive(Clone, Copy, Debug)]
struct Quantity {
    kind: QuantityKind,
    value: u64,
    /// The offsets of the beginning and the end in the text, in bytes.
    start: usize,
    end: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum QuantityKind {
    Bytes,
    /// Pixels of a side, or of a whole picture: the value decides.
    Pixels,
    Side,
}

impl Quantity {
    /// Returns whether the words around the quantity make it a maximum.
    fn is_limit(&self, text: &str) -> bool {
        let before = text[..self.start].trim_end();
        if before.ends_with(['>', '<', '≤']) || before.ends_with("<=") {
            return true;
        }
        let clause = &before[clause_start(before)..];
        if MINIMUMS.iter().any(|words| clause.contains(words)) {
            return false;
        }
        let words = |text: &'static [&'static str], word: &str| text.contains(&word);
        let nearest = clause.rsplit(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
        let cue = nearest.take(MAX_WORDS_BEFORE).find_map(|word| {
            let is_limit = words(LIMITS, word);
            (is_limit || words(SENT, word)).then_some(is_limit)
        });
        let mut after =
            text[self.end..].split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
        cue.unwrap_or_else(|| after.by_ref().take(MAX_WORDS_AFTER).any(|word| words(LIMITS_BEHIND, word)))
    }
}

/// Returns the offset at which the last clause of a text begins, in bytes.
fn clause_start(text: &str) -> usize {
    let mut ends = text.char_indices().filter(|(at, c)| {
        // A full stop inside a number or a path ends no sentence.
        matches!(c, ';' | '\n') || *c == '.' && text[at + 1..].starts_with(' ')
    });
    ends.next_back().map_or(0, |(at, _)| at + 1)
}

/// Returns the numbers of a text that count bytes or pixels.
fn quantities(text: &str) -> Vec<Quantity> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(at) = text[from..].find(|c: char| c.is_ascii_digit()).map(|at| from + at) {
        let digits = digits_at(text, at);
        from = at + digits.len();
        let is_part_of_word = text[..at].chars().next_back().is_some_and(|c| c.is_alphanumeric() || c == '_');
        let Some(number) = number(digits).filter(|_| !is_part_of_word) else { continue };
        if let Some((other, end)) = second_side(text, from) {
            from = end;
            // A picture may be turned, so the shorter of both sides is the limit that surely holds.
            let value = (number as u64).min(other as u64);
            found.push(Quantity { kind: QuantityKind::Side, value, start: at, end });
            continue;
        }
        let behind = text[from..].trim_start_matches([' ', '-']);
        let unit_length = behind.find(|c: char| !c.is_alphabetic()).unwrap_or(behind.len());
        let unit = UNITS.iter().find(|(name, ..)| *name == &behind[..unit_length]);
        let (kind, factor) = match unit {
            Some((_, kind, factor)) => (*kind, *factor),
            None if behind.starts_with("million pixels") => (QuantityKind::Pixels, 1e6),
            // "image width 9000 > 8000" has no unit but a side.
            None if !behind.starts_with(char::is_alphabetic) && names_side(text, at) => {
                (QuantityKind::Side, 1.0)
            }
            None => continue,
        };
        let end = if unit.is_some() { text.len() - behind.len() + unit_length } else { from };
        found.push(Quantity { kind, value: (number * factor) as u64, start: at, end });
    }
    found
}

/// Returns the characters of the number at `at`, without punctuation behind it.
fn digits_at(text: &str, at: usize) -> &str {
    let rest = &text[at..];
    let length =
        rest.find(|c: char| !c.is_ascii_digit() && !matches!(c, ',' | '.' | '_')).unwrap_or(rest.len());
    rest[..length].trim_end_matches([',', '.', '_'])
}

/// Reads a number with or without separators of thousands.
fn number(digits: &str) -> Option<f64> {
    digits.replace([',', '_'], "").parse().ok()
}

/// Returns the second number of "8000x8000" or "8000 × 8000", and its end.
fn second_side(text: &str, from: usize) -> Option<(f64, usize)> {
    let rest = text[from..].trim_start();
    let rest = rest.strip_prefix(['x', '×', '*'])?.trim_start();
    let at = text.len() - rest.len();
    let digits = digits_at(text, at);
    Some((number(digits)?, at + digits.len()))
}

/// Returns whether the clause before `at` is about a side of a picture.
fn names_side(text: &str, at: usize) -> bool {
    let clause = &text[clause_start(&text[..at])..at];
    ["width", "height", "dimension", "longest side", "longest edge"].iter().any(|word| clause.contains(word))
}

const UNITS: &[(&str, QuantityKind, f64)] = &[
    ("bytes", QuantityKind::Bytes, 1.0),
    ("byte", QuantityKind::Bytes, 1.0),
    ("b", QuantityKind::Bytes, 1.0),
    // A megabyte may be 1,000,000 or 1,048,576 bytes. The smaller value keeps within both.
    ("kb", QuantityKind::Bytes, 1e3),
    ("kib", QuantityKind::Bytes, 1_024.0),
    ("kilobytes", QuantityKind::Bytes, 1e3),
    ("mb", QuantityKind::Bytes, 1e6),
    ("mib", QuantityKind::Bytes, 1_048_576.0),
    ("megabyte", QuantityKind::Bytes, 1e6),
    ("megabytes", QuantityKind::Bytes, 1e6),
    ("pixels", QuantityKind::Pixels, 1.0),
    ("pixel", QuantityKind::Pixels, 1.0),
    ("px", QuantityKind::Pixels, 1.0),
    ("megapixel", QuantityKind::Pixels, 1e6),
    ("megapixels", QuantityKind::Pixels, 1e6),
    ("mp", QuantityKind::Pixels, 1e6),
];

/// Words that stand before a maximum.
const LIMITS: &[&str] = &[
    "maximum",
    "max",
    "limit",
    "limits",
    "limited",
    "exceed",
    "exceeds",
    "exceeding",
    "most",
    "than",
    "under",
    "below",
    "above",
    "over",
    "up",
    "within",
    "allowed",
    "permitted",
    "supported",
];

/// Words that stand behind a maximum.
const LIMITS_BEHIND: &[&str] = &["maximum", "max", "limit", "less", "smaller", "allowed"];

/// Words after which a quantity is the size that was sent.
const SENT: &[&str] = &[
    "got", "found", "received", "given", "provided", "sent", "was", "were", "has", "have", "had", "contains",
    "current", "actual", "exceeded", "your",
];

/// Words that stand before a minimum.
const MINIMUMS: &[&str] = &[
    "minimum",
    "at least 1",
    "must be at least",
    "should be at least",
    "be larger than",
    "be greater than",
    "be bigger than",
    "be more than",
    "is smaller than",
    "are smaller than",
    "is less than",
    "too small",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(text: &str) -> (Option<u32>, Option<u64>, Option<u64>) {
        let PictureSizeLimits { max_side, max_pixels, max_bytes } = picture_limits(&text.to_lowercase());
        (max_side, max_pixels, max_bytes)
    }

    #[test]
    fn sizes_are_read_however_they_are_worded() {
        for (text, bytes) in [
            (
                "messages.58.content.2.image.source.base64: image exceeds 5 MB maximum: 6500712 bytes > 5242880 bytes",
                5_000_000,
            ),
            ("Image size must be less than 20MB, got 25.4 MB", 20_000_000),
            ("images have a limit of 20 MiB, 20,971,520 bytes", 20_971_520),
            ("The image is larger than the maximum of 512 KB", 512_000),
            ("The file size exceeds the 10MB limit for an image", 10_000_000),
            ("Image size 7340032 bytes exceeds maximum allowed size of 4194304 bytes", 4_194_304),
            ("Multimodal file size is too large (10.5 MB). It should be at most 10 MB", 10_000_000),
        ] {
            assert_eq!(limits(text), (None, None, Some(bytes)), "{text}");
        }
        for (text, side) in [
            (
                "messages.7.content.2.image.source.base64.data: At least one of the image dimensions exceed max allowed size: 8000 pixels",
                8_000,
            ),
            (
                "messages.108.content.3.image.source.base64.data: At least one of the image dimensions exceed max allowed size for many-image requests: 2000 pixels",
                2_000,
            ),
            ("maximum of 8000 x 8000 for an image", 8_000),
            ("Image dimensions 9001x100 exceed the maximum of 4096x4096", 4_096),
            ("image width 9000 > 8000", 8_000),
            ("image height must not exceed 2,048 px", 2_048),
            ("images may be at most 1568px on the longest side", 1_568),
        ] {
            assert_eq!(limits(text), (Some(side), None, None), "{text}");
        }
        for (text, pixels) in [
            (
                "Image 0 failed: Image exceeds the maximum allowed total pixels. Current dimensions: 4634x12324 = 57109416 pixels. Maximum allowed: 36000000 pixels. Request id: 0217706121237",
                36_000_000,
            ),
            ("Image too large: images may have up to 33177600 pixels", 33_177_600),
            ("images of more than 33 megapixels are not supported", 33_000_000),
            ("at most 20 million pixels in an image", 20_000_000),
        ] {
            assert_eq!(limits(text), (None, Some(pixels), None), "{text}");
        }
    }

    #[test]
    fn other_numbers_are_no_sizes() {
        for text in [
            "At most 4 image(s) may be provided in one request.",
            "image: a maximum of 1500 tokens",
            "The image length and width do not meet the model restrictions. [height:4 or width:1000 must be larger than 10]",
            "image must be at least 64 pixels wide and 512 pixels high",
            "the image is smaller than 224 pixels",
            "could not process image of 9000 pixels",
            "the image has 9000 pixels",
            "image has 6000000 bytes",
            "image/png at messages.12.content.3 is damaged",
            "images: limit of 0 MB",
            "max_images: 5, got 7",
            "",
        ] {
            assert_eq!(limits(text), (None, None, None), "{text}");
        }
    }
}
