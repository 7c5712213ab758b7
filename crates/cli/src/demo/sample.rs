//! Sample files for the demo, for a folder with too few files: the logbook of an invented lighthouse.

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

use uuid::Uuid;

/// A folder with the files. It is removed with this value.
pub(super) struct SampleFolder(PathBuf);

const FILES: [&str; 10] =
    ["lamp", "lens", "tower", "stores", "weather", "ships", "visitors", "repairs", "rota", "letters"];

const LINES_PER_FILE: usize = 80;

const KEEPERS: [&str; 5] = ["Ada", "Bertram", "Clara", "Dinesh", "Edda"];

const WORK: [&str; 7] = [
    "cleaned the north window",
    "wound the clockwork",
    "counted the oil barrels",
    "painted the lower railing",
    "answered the harbour master",
    "replaced a cracked pane",
    "measured the tide",
];

const REASONS: [&str; 6] = [
    "because the fog had come in early",
    "before the supply boat arrived",
    "after a long night without wind",
    "while the second lamp was being tested",
    "so that the inspector would find it done",
    "although the stairs were still wet",
];

impl SampleFolder {
    /// Makes the folder below `scratch`.
    ///
    /// # Errors
    /// The errors of the file system.
    pub(super) fn make(scratch: &Path) -> io::Result<Self> {
        let folder = Self(scratch.join(format!("longhaul-demo-{}", Uuid::now_v7())).join("lighthouse"));
        std::fs::create_dir_all(&folder.0)?;
        for (number, name) in FILES.iter().enumerate() {
            std::fs::write(folder.0.join(format!("{name}.md")), text(number, name))?;
        }
        Ok(folder)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for SampleFolder {
    fn drop(&mut self) {
        if let Some(outer) = self.0.parent()
            && let Err(error) = std::fs::remove_dir_all(outer)
        {
            tracing::warn!(folder = %outer.display(), %error, "the demo's files were not removed");
        }
    }
}

/// Returns the text of a file. All lines of all files differ.
fn text(number: usize, name: &str) -> String {
    let mut text = format!("# Logbook: {name}\n\n");
    for line in 0..LINES_PER_FILE {
        // The running number makes each line unique: the demo's questions need lines that occur once.
        let at = number * LINES_PER_FILE + line;
        let (keeper, work, reason) =
            (word(&KEEPERS, at * 3 + number), word(&WORK, at * 5 + number), word(&REASONS, at + number));
        let _ = writeln!(text, "On day {at} of the {name} book {keeper} {work} {reason}.");
    }
    text
}

fn word(words: &[&'static str], at: usize) -> &'static str {
    words[at % words.len()]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::demo::files;

    #[test]
    fn the_files_are_enough_and_go_with_the_demo() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = SampleFolder::make(scratch.path()).unwrap();
        assert_eq!(files::choose(folder.path()).len(), FILES.len());
        let texts: Vec<String> = FILES.iter().enumerate().map(|(number, name)| text(number, name)).collect();
        let lines: Vec<&str> =
            texts.iter().flat_map(|text| text.lines().filter(|line| !line.is_empty())).collect();
        assert_eq!(lines.iter().collect::<BTreeSet<_>>().len(), lines.len());
        drop(folder);
        assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0);
    }
}
