//! A disk that keeps what it must and no more, and what is found on it after the power has failed.
//!
//! What a file holds is certain once it was fsynced; a name is certain once its folder was. Of everything else
//! any part may be there: a write, half of it, a later one without an earlier one, a name or not.

use std::collections::BTreeMap;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;

use super::rng::Rng;
use super::trace::{Done, Step};

/// What a disk writes whole.
const SECTOR_BYTES: usize = 512;
const PAGE_BYTES: usize = 4096;

/// What SQLite shares between processes in memory; after a power failure it may be anything.
const SHARED_MEMORY: &str = "-shm";

/// The disk below one folder.
#[derive(Clone, Debug)]
pub(crate) struct Disk {
    files: BTreeMap<u64, Content>,
    names: BTreeMap<String, Entry>,
    /// Changes of names that are not certain, in order.
    unsure: Vec<(String, Naming)>,
}

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entry {
    File(u64),
    Folder,
}

#[derive(Clone, Debug)]
enum Naming {
    Add(Entry),
    Move { file: u64, from: String },
    Remove,
}

/// A file: what is certain, and what came since.
#[derive(Clone, Debug, Default)]
struct Content {
    sure: Vec<u8>,
    unsure: Vec<Change>,
}

#[derive(Clone, Debug)]
enum Change {
    Write { place: usize, data: Vec<u8> },
    Truncate(usize),
}

/// How much of what is not certain is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Luck {
    Nothing,
    Everything,
    /// In order, up to some point.
    Beginning,
    Anything,
}

impl Disk {
    /// An empty disk. The outermost folder is there.
    pub(crate) fn new() -> Self {
        let names = BTreeMap::from([(String::new(), Entry::Folder)]);
        Self { files: BTreeMap::new(), names, unsure: Vec::new() }
    }

    /// Takes the next operation. What a failed fsync leaves of the file's changes is drawn from `rng`.
    pub(crate) fn take(&mut self, step: &Step, rng: &mut Rng) {
        let Step { path, done, .. } = step;
        match done {
            Done::Write { file, place, data } => {
                self.change(*file, Change::Write { place: *place as usize, data: data.clone() });
            }
            Done::Truncate { file, length } => self.change(*file, Change::Truncate(*length as usize)),
            Done::Create { file } => {
                self.files.insert(*file, Content::default());
                self.rename(path, Naming::Add(Entry::File(*file)));
            }
            Done::Link { file } => self.rename(path, Naming::Add(Entry::File(*file))),
            Done::Rename { file, from } => {
                self.rename(path, Naming::Move { file: *file, from: from.clone() });
            }
            Done::Unlink | Done::RemoveFolder => self.rename(path, Naming::Remove),
            Done::MakeFolder => self.rename(path, Naming::Add(Entry::Folder)),
            Done::Sync { file } => {
                if let Some(content) = self.files.get_mut(file) {
                    content.settle(|_| true, |data| vec![(0, data.len())]);
                }
            }
            Done::SyncFailed { file } => {
                if let Some(content) = self.files.get_mut(file) {
                    // After a failed fsync the system may have dropped or written each page, and will not say
                    // which.
                    content.settle(|_| rng.chance(50), |data| vec![(0, data.len())]);
                }
            }
            Done::SyncFolder => self.settle_names(path),
        }
    }

    fn change(&mut self, file: u64, change: Change) {
        self.files.entry(file).or_default().unsure.push(change);
    }

    fn rename(&mut self, path: &str, naming: Naming) {
        self.unsure.push((path.to_owned(), naming));
    }

    fn settle_names(&mut self, folder: &str) {
        for (path, naming) in std::mem::take(&mut self.unsure) {
            if parent(&path) == Some(folder) {
                apply(&mut self.names, &path, &naming);
            } else {
                self.unsure.push((path, naming));
            }
        }
    }

    /// Puts into `folder`, which does not exist, what may be found after a power failure now.
    pub(crate) fn fail(&self, folder: &Path, rng: &mut Rng) {
        let lucks = [Luck::Nothing, Luck::Everything, Luck::Beginning, Luck::Anything, Luck::Anything];
        let mut names = self.names.clone();
        let luck = *rng.pick(&lucks);
        let kept = keep(luck, self.unsure.len(), rng);
        for ((path, naming), _) in self.unsure.iter().zip(kept).filter(|(_, kept)| *kept) {
            apply(&mut names, path, naming);
        }
        for (path, entry) in &names {
            let whole = std::iter::successors(parent(path), |path| parent(path));
            // A name may have survived although the name of a folder above it did not: nothing leads there.
            if !whole.into_iter().all(|above| names.get(above) == Some(&Entry::Folder)) {
                continue;
            }
            let target = if path.is_empty() { folder.to_owned() } else { folder.join(path) };
            match entry {
                Entry::Folder => {
                    std::fs::DirBuilder::new().mode(0o700).create(&target).unwrap();
                }
                Entry::File(_) if path.ends_with(SHARED_MEMORY) => rubbish(&target, rng),
                Entry::File(file) => {
                    let luck = *rng.pick(&lucks);
                    std::fs::write(&target, self.files[file].after(luck, rng)).unwrap();
                    let mode = std::fs::Permissions::from_mode(0o600);
                    std::fs::set_permissions(&target, mode).unwrap();
                }
            }
        }
    }
}

impl Content {
    /// Makes certain those of the changes that `keeps`, in the ranges that `torn` leaves of their data.
    fn settle(
        &mut self,
        mut keeps: impl FnMut(usize) -> bool,
        mut torn: impl FnMut(&[u8]) -> Vec<(usize, usize)>,
    ) {
        for (index, change) in std::mem::take(&mut self.unsure).into_iter().enumerate() {
            if !keeps(index) {
                continue;
            }
            match change {
                Change::Truncate(length) => self.sure.resize(length, 0),
                Change::Write { place, data } => {
                    for (from, to) in torn(&data) {
                        let end = place + to;
                        if self.sure.len() < end {
                            self.sure.resize(end, 0);
                        }
                        self.sure[place + from..end].copy_from_slice(&data[from..to]);
                    }
                }
            }
        }
    }

    fn after(&self, luck: Luck, rng: &mut Rng) -> Vec<u8> {
        let mut content = self.clone();
        let kept = keep(luck, content.unsure.len(), rng);
        let tears = luck == Luck::Anything || luck == Luck::Beginning;
        content.settle(
            |index| kept[index],
            |data| if tears { tear(data.len(), rng) } else { vec![(0, data.len())] },
        );
        content.sure
    }
}

/// Which of so many changes are there.
fn keep(luck: Luck, count: usize, rng: &mut Rng) -> Vec<bool> {
    let end = rng.below(count as u64 + 1) as usize;
    let share = 10 + rng.below(85);
    (0..count)
        .map(|index| match luck {
            Luck::Nothing => false,
            Luck::Everything => true,
            Luck::Beginning => index < end,
            Luck::Anything => rng.chance(share),
        })
        .collect()
}

/// What is there of a write: all of it, or some of its sectors.
fn tear(bytes: usize, rng: &mut Rng) -> Vec<(usize, usize)> {
    if rng.chance(60) {
        return vec![(0, bytes)];
    }
    let unit = *rng.pick(&[SECTOR_BYTES, PAGE_BYTES]);
    let pieces = (0..bytes).step_by(unit).map(|from| (from, (from + unit).min(bytes)));
    pieces.filter(|_| rng.chance(50)).collect()
}

fn apply(names: &mut BTreeMap<String, Entry>, path: &str, naming: &Naming) {
    match naming {
        Naming::Add(entry) => {
            names.insert(path.to_owned(), *entry);
        }
        Naming::Move { file, from } => {
            names.remove(from);
            names.insert(path.to_owned(), Entry::File(*file));
        }
        Naming::Remove => {
            names.remove(path);
        }
    }
}

/// The folder that a name is in; `None` for the outermost.
fn parent(path: &str) -> Option<&str> {
    match path.rsplit_once('/') {
        Some((folder, _)) => Some(folder),
        None => (!path.is_empty()).then_some(""),
    }
}

fn rubbish(path: &Path, rng: &mut Rng) {
    if rng.chance(50) {
        let bytes: Vec<u8> = (0..32 * 1024).map(|_| rng.next() as u8).collect();
        std::fs::write(path, bytes).unwrap();
    }
}

#[test]
fn only_what_was_synced_is_certain() {
    let steps = [
        step("a", Done::Create { file: 1 }),
        step("a", write(0, 1)),
        step("a", Done::Sync { file: 1 }),
        step("", Done::SyncFolder),
        step("a", write(0, 2)),
        step("a", write(1024, 3)),
        step("b", Done::Link { file: 1 }),
    ];
    let (mut seen, mut names) = (std::collections::BTreeSet::new(), std::collections::BTreeSet::new());
    for seed in 0..200 {
        let mut rng = Rng::new(seed);
        let mut disk = Disk::new();
        steps.iter().for_each(|step| disk.take(step, &mut rng));
        let folder = tempfile::tempdir().unwrap();
        let found = folder.path().join("found");
        disk.fail(&found, &mut rng);
        let content = std::fs::read(found.join("a")).unwrap();
        assert!(content.len() >= 1024 && content[..1024].iter().all(|byte| [1, 2].contains(byte)));
        seen.insert((content[0], content[512], content.len(), content.get(1024).copied()));
        names.insert(found.join("b").exists());
    }
    assert_eq!(names.len(), 2);
    for wanted in [(1, 1, 1024, None), (2, 2, 2048, Some(3)), (1, 2, 1024, None), (1, 1, 2048, Some(3))] {
        assert!(seen.contains(&wanted), "{wanted:?} of {seen:?}");
    }
}

fn write(place: u64, byte: u8) -> Done {
    Done::Write { file: 1, place, data: vec![byte; 1024] }
}

fn step(path: &str, done: Done) -> Step {
    Step { path: path.to_owned(), done, position: 0 }
}
