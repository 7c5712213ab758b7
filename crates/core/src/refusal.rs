//! Refusals of one part of a request, as servers report them.
//!
//! A part that a server refuses stays in the conversation, so the server refuses every later request too. Adapters
//! parse such errors into a [`PartRefusal`]. The loop then leaves the part out of the view and asks again.

use std::fmt;

/// The subject of a refusal. Only refusals that the same request would get again have one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartRefusal {
    /// The kind of part; `None` where the error does not say.
    pub kind: Option<RefusedPartKind>,
    /// The part itself, if the error names a place in the request.
    pub part: Option<RefusedPart>,
    /// `true` if the model accepts no part of that kind, for example no pictures.
    pub takes_none: bool,
    /// The maximum number of parts of the kind in a request, if the error names a number.
    pub most: Option<u32>,
    /// The limits on one picture, if the error names any.
    pub size: PictureSizeLimits,
    /// `true` if the next request differs already, because the limits learned from this error choose its pictures.
    pub is_remedied: bool,
}

/// The limits on one picture that a server's error states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PictureSizeLimits {
    /// The maximum length of a side, in pixels.
    pub max_side: Option<u32>,
    /// The maximum number of pixels of the whole picture.
    pub max_pixels: Option<u64>,
    /// The maximum size as the server counts it, in bytes. Some servers count the base64 text of the picture.
    pub max_bytes: Option<u64>,
}

/// Writes the limits as words, for example "2000 pixels a side and 5242880 bytes"; nothing if there are none.
impl fmt::Display for PictureSizeLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limits = [
            self.max_side.map(|side| format!("{side} pixels a side")),
            self.max_pixels.map(|pixels| format!("{pixels} pixels in all")),
            self.max_bytes.map(|bytes| format!("{bytes} bytes")),
        ];
        f.write_str(&limits.into_iter().flatten().collect::<Vec<_>>().join(" and "))
    }
}

/// A kind of part that servers refuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum RefusedPartKind {
    /// A picture.
    Image,
    /// A file, such as a PDF.
    File,
    /// A message or a tool result whose content a filter withholds.
    Content,
    /// Reasoning that the model's own provider does not accept, or its signature on a call or a text.
    Reasoning,
    /// The schema of a tool.
    ToolSchema,
}

/// A part of a request, as named in a server's error.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RefusedPart {
    /// A picture or a file, by the number among all media of the request, from 0.
    Media(usize),
    /// A picture or a file, by the hash of the content.
    Blob(String),
    /// The result of a call, by the name that the request gives the call.
    ToolResult(String),
    /// The message or result that contains a text.
    Text(String),
    /// Reasoning, a call or a text whose native item contains a signature, an id or encrypted content.
    Reasoning(String),
    /// A tool, by name.
    Tool(String),
}

impl PartRefusal {
    /// Returns whether the error names a kind of part or a part. Without either, the choice of a part is a guess.
    pub fn is_specific(&self) -> bool {
        // With neither, the likeliest parts are tried in turn (decision 0045).
        self.kind.is_some() || self.part.is_some()
    }
}
