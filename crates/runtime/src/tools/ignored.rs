//! What `.ignore`, `.gitignore` and `.git/info/exclude` say of the workspace's files.
//!
//! They are read as every file of the workspace is: regular files, reached through no link. What a command puts in
//! their place can neither hold up a search nor show what lies elsewhere.

use std::io::Read as _;
use std::path::Path;
use std::rc::Rc;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::workspace::{ResolvedPath, Workspace};

/// What those of one folder and of all above it may have together, bytes; what goes beyond holds for nothing. A pattern
/// takes hundreds of times its length in memory.
const MOST: u64 = 128 * 1024;

/// Those of a folder; what an earlier one says, in any folder above, goes before what a later one says.
const FILES: [&str; 3] = [".ignore", ".gitignore", ".git/info/exclude"];

/// The rules for what lies in a folder.
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
    /// The rules for what lies in `folder`: its own before those of the folders above, which are read, too.
    pub(super) fn to(workspace: &Workspace, folder: &ResolvedPath) -> Self {
        let mut above: Vec<&Path> = folder.relative().ancestors().collect();
        above.reverse();
        let root = workspace.root();
        let folders = above.into_iter().filter_map(|relative| workspace.admit("", &root.join(relative)).ok());
        folders.fold(Self::default(), |rules, folder| rules.below(workspace, &folder))
    }

    /// The rules for what lies in `folder`, which lies where these hold.
    pub(super) fn below(&self, workspace: &Workspace, folder: &ResolvedPath) -> Self {
        let absolute = workspace.absolute(folder);
        let mut bytes = self.bytes;
        let files = FILES.map(|name| {
            let file = workspace.admit(name, &absolute.join(name)).ok()?;
            let text = read(workspace, &file, MOST - bytes)?;
            bytes += text.len() as u64;
            rules(&absolute, &String::from_utf8_lossy(&text))
        });
        match files.iter().all(Option::is_none) {
            true => self.clone(),
            false => Self { nearest: Some(Rc::new(FolderIgnoreRules { files, above: self.clone() })), bytes },
        }
    }

    /// Returns whether a file or folder is passed over.
    pub(super) fn has(&self, absolute: &Path, is_folder: bool) -> bool {
        (0..FILES.len()).find_map(|file| self.says(file, absolute, is_folder)).unwrap_or(false)
    }

    /// The word of the nearest `file` that has one.
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
    (bytes.len() as u64 <= most).then_some(bytes)
}

/// Lines that are no patterns are passed over.
fn rules(folder: &Path, text: &str) -> Option<Gitignore> {
    let mut builder = GitignoreBuilder::new(folder);
    for line in text.trim_start_matches('\u{feff}').lines() {
        let _ = builder.add_line(None, line);
    }
    builder.build().ok().filter(|rules| !rules.is_empty())
}
