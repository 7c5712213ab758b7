//! The files that the demo reads.

use std::path::{Path, PathBuf};

/// The minimum number of files. Fewer would not fill the window.
pub(super) const FEWEST: usize = 6;

/// The maximum number of files. More would take too long.
const MOST: usize = 18;

const SMALLEST_BYTES: u64 = 1_500;
const LARGEST_BYTES: u64 = 200_000;

/// Folders with generated files or files of other projects.
const SKIPPED: [&str; 5] = ["target", "node_modules", "dist", "build", "vendor"];

/// Endings of files that people read.
const READABLE: [&str; 18] = [
    "md", "rs", "py", "js", "ts", "go", "java", "c", "h", "cpp", "rb", "txt", "toml", "sh", "html", "css",
    "sql", "tex",
];

/// Returns text files under `folder`, smaller folders first, spread over all of them.
pub(super) fn choose(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    walk(folder, folder, 0, &mut found);
    // The system lists a folder in any order, and the demo should read the same files each time.
    found.sort();
    let step = found.len().div_ceil(MOST).max(1);
    found.into_iter().step_by(step).map(|path| path.to_string_lossy().into_owned()).collect()
}

fn walk(root: &Path, folder: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    // A folder that cannot be read is none of the demo's concern: others have enough files.
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.filter_map(Result::ok) {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Ok(kind) = entry.file_type() else { continue };
        // A link may lead out of the folder, or round in a circle.
        if name.starts_with('.') || kind.is_symlink() {
            continue;
        }
        let path = entry.path();
        if kind.is_dir() {
            // Without a bound, a deep tree would delay the start of the demo.
            if depth < 6 && !SKIPPED.contains(&name.as_str()) {
                walk(root, &path, depth + 1, found);
            }
        } else if is_readable(&path)
            && let Ok(relative) = path.strip_prefix(root)
        {
            found.push(relative.to_owned());
        }
    }
}

fn is_readable(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str());
    let size = path.metadata().map_or(0, |metadata| metadata.len());
    ending.is_some_and(|ending| READABLE.contains(&ending))
        && (SMALLEST_BYTES..=LARGEST_BYTES).contains(&size)
}
