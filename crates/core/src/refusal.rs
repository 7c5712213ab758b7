//! What a server's refusal says of the part of the request that it is about.
//!
//! A request that was refused for one of its parts is refused again with every later message, because the part stays in
//! the conversation. Adapters read refusals into a [`PartRefusal`]; the loop leaves the part out of the view and asks again.

/// What a refusal says of a part. Only refusals that would come again for the same request have one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartRefusal {
    /// The kind of part; `None` where the error does not say.
    pub kind: Option<RefusedPartKind>,
    /// The part itself, where the error names its place in the request.
    pub part: Option<RefusedPart>,
    /// Whether the model takes nothing of that kind, for example no pictures.
    pub takes_none: bool,
    /// The most parts of that kind that a request may have, where the error says so.
    pub most: Option<u32>,
    /// Whether the next request differs already, because its pictures are chosen by what was learned from this error.
    pub is_remedied: bool,
}

/// A kind of part that servers refuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RefusedPartKind {
    /// A picture.
    Image,
    /// A file, such as a PDF.
    File,
    /// A message or a tool result whose content a filter withholds.
    Content,
    /// Reasoning that its own provider does not recognise.
    Reasoning,
    /// The schema of a tool.
    ToolSchema,
}

/// A part of a request, as a server's error names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RefusedPart {
    /// A picture or a file, by its number among those of the request, from 0.
    Media(usize),
    /// A picture or a file, by the hash of its content.
    Blob(String),
    /// The result of a call, by the name that the request gives the call.
    ToolResult(String),
    /// The message or result with this text in it.
    Text(String),
    /// Reasoning whose native item has this signature, id or encrypted content in it.
    Reasoning(String),
    /// A tool, by its name.
    Tool(String),
}

impl PartRefusal {
    /// Returns whether the error says what it is about. Anything else is a guess.
    pub fn is_specific(&self) -> bool {
        self.kind.is_some() || self.part.is_some()
    }
}
