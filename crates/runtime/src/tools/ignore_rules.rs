//! The ignore rules of `.ignore`, `.gitignore` and `.git/info/exclude` for the workspace's files.
//!
//! The rule files are read like every file of the workspace: regular files only, reached through no link. A pipe or
//! link that a command puts in their place can neither block a search nor reveal files elsewhere.

use std::io::Read as _;
use std::path::Path;
use std::rc::Rc;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::text_encoding::DecodedText;
use crate::workspace::{ResolvedPath, Workspace};

/// The maximum size, in bytes, of a folder's rule files and of all above it together. Rules beyond the limit are
/// ignored, because a pattern takes hundreds of times its length in memory.
const MOST: u64 = 128 * 1024;

/// The rule files of a folder. An earlier file, in any folder above, takes precedence over a later one.
const FILES: [&str; 3] = [".ignore", ".gitignore", ".git/info/exclude"];

/// The rules for the entries of a folder.
#[derive(Clone, Default)]
pub(super) struct IgnoreRules {
    nearest: Option<Rc<FolderIgnoreRules>>,
    bytes: u64,
}

struct FolderIgnoreRules {
    files: [Option<Gitignore>; 3],
    above: IgnoreRules,
}

impl IgnoreRules {
    /// Reads the rules for the entries of `folder`. The folder's own rules come before those of the folders above.
    pub(super) fn to(workspace: &Workspace, folder: &ResolvedPath) -> Self {
        let mut above: Vec<&Path> = folder.relative().ancestors().collect();
        // Rules of inner folders take precedence, so the walk goes from the root down.
        above.reverse();
        let root = workspace.root();
        let folders = above.into_iter().filter_map(|relative| workspace.admit("", &root.join(relative)).ok());
        folders.fold(Self::default(), |rules, folder| rules.below(workspace, &folder))
    }

    /// Returns the rules for the entries of `folder`, which lies in the folder of these rules.
    pub(super) fn below(&self, workspace: &Workspace, folder: &ResolvedPath) -> Self {
        let absolute = workspace.absolute(folder);
        let mut bytes = self.bytes;
        let files = FILES.map(|name| {
            let file = workspace.admit(name, &absolute.join(name)).ok()?;
            let text = read(workspace, &file, MOST - bytes)?;
            bytes += text.len() as u64;
            rules(&absolute, &DecodedText::new(&text).text)
        });
        // Most folders have no rules. Sharing the parent's rules keeps the chain short that each file is checked
        // against.
        if files.iter().all(Option::is_none) {
            return self.clone();
        }
        Self { nearest: Some(Rc::new(FolderIgnoreRules { files, above: self.clone() })), bytes }
    }

    /// Reports whether a file or folder is ignored.
    pub(super) fn has(&self, absolute: &Path, is_folder: bool) -> bool {
        // One kind of file after another: a rule of `.ignore` in any folder overrules every `.gitignore`.
        (0..FILES.len()).find_map(|file| self.says(file, absolute, is_folder)).unwrap_or(false)
    }

    /// Returns the decision of the nearest `file` that has a matching rule.
    fn says(&self, file: usize, absolute: &Path, is_folder: bool) -> Option<bool> {
        let mut next = self.nearest.as_ref();
        while let Some(rules) = next {
            match rules.files[file].as_ref().map(|own| own.matched(absolute, is_folder)) {
                Some(Match::Ignore(_)) => return Some(true),
                Some(Match::Whitelist(_)) => return Some(false),
                Some(Match::None) | None => {}
            }
            next = rules.above.nearest.as_ref();
        }
        None
    }
}

fn read(workspace: &Workspace, file: &ResolvedPath, most: u64) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    workspace.open_file(file).ok()?.take(most + 1).read_to_end(&mut bytes).ok()?;
    // One byte more was read than allowed, so a larger file is noticed. It is no file of rules.
    (bytes.len() as u64 <= most).then_some(bytes)
}

/// Parses a rule file. Lines that are no valid patterns are skipped.
fn rules(folder: &Path, text: &str) -> Option<Gitignore> {
    let mut builder = GitignoreBuilder::new(folder);
    for line in text.lines() {
        // An invalid pattern is skipped, and the other lines still apply.
        let _ = builder.add_line(None, line);
    }
    builder.build().ok().filter(|rules| !rules.is_empty())
}
