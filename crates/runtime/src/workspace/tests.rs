mod attacks;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;

struct Place {
    _dir: tempfile::TempDir,
    outside: PathBuf,
    workspace: Workspace,
}

/// `base/ws` is the workspace, `base/outside/secret` is out of it, `base/ws/.data` is protected.
fn place() -> Place {
    let dir = tempfile::tempdir().unwrap();
    let base = dir.path().canonicalize().unwrap();
    for folder in ["ws/sub", "ws/.data", "outside"] {
        fs::create_dir_all(base.join(folder)).unwrap();
    }
    fs::write(base.join("ws/sub/file"), "inside").unwrap();
    fs::write(base.join("ws/.data/secret"), "secret").unwrap();
    fs::write(base.join("outside/secret"), "secret").unwrap();
    fs::write(base.join("outside/file"), "secret").unwrap();
    let workspace = Workspace::new(&base.join("ws"), &[base.join("ws/.data")]).unwrap();
    Place { outside: base.join("outside"), _dir: dir, workspace }
}

fn read(workspace: &Workspace, path: &str) -> Result<String, WorkspaceError> {
    let resolved = workspace.resolve(path, PathAccess::Read)?;
    let text = io::read_to_string(workspace.open_file(&resolved)?);
    text.map_err(|error| io_error(Path::new(path), error))
}

fn write(workspace: &Workspace, path: &str, text: &str) -> Result<(), WorkspaceError> {
    let resolved = workspace.resolve(path, PathAccess::Write)?;
    workspace.replace(&resolved, text.as_bytes())
}

#[test]
fn paths_inside_are_found_however_they_are_written() {
    let place = place();
    let root = place.workspace.root().to_owned();
    symlink("sub", root.join("link")).unwrap();
    symlink(root.join("sub"), root.join("absolute-link")).unwrap();
    let absolute = root.join("sub/file").display().to_string();
    let paths = ["sub/file", "./sub/../sub/file", "link/file", "absolute-link/file", &absolute];
    for path in paths {
        assert_eq!(read(&place.workspace, path).unwrap(), "inside", "{path}");
        let resolved = place.workspace.resolve(path, PathAccess::Read).unwrap();
        assert_eq!(resolved.display(), "sub/file", "{path}");
    }
    assert_eq!(place.workspace.resolve(".", PathAccess::Read).unwrap().display(), ".");
}

#[test]
fn a_root_given_through_a_link_admits_absolute_paths_through_it() {
    let place = place();
    let linked = place.outside.join("ws-link");
    symlink(place.workspace.root(), &linked).unwrap();
    let workspace = Workspace::new(&linked, &[]).unwrap();
    let new = linked.join("new").display().to_string();
    write(&workspace, &new, "x").unwrap();
    assert_eq!(read(&workspace, &new).unwrap(), "x");
}

#[test]
fn nothing_leads_outside() {
    let place = place();
    let root = place.workspace.root();
    symlink(&place.outside, root.join("folder-link")).unwrap();
    symlink(place.outside.join("secret"), root.join("file-link")).unwrap();
    symlink("../outside/secret", root.join("relative-link")).unwrap();
    let absolute = place.outside.join("secret").display().to_string();
    let beside = format!("{}-2/x", root.display());
    let paths = [
        "../outside/secret",
        "sub/../../outside/secret",
        "folder-link/secret",
        "file-link",
        "relative-link",
        &absolute,
        "/proc/self/environ",
        "/etc/passwd",
        "..",
        "/",
    ];
    for path in paths {
        let read = read(&place.workspace, path);
        assert!(matches!(read, Err(WorkspaceError::Outside { .. })), "{path}: {read:?}");
        let write = write(&place.workspace, path, "overwritten");
        assert!(matches!(write, Err(WorkspaceError::Outside { .. })), "{path}: {write:?}");
    }
    assert!(matches!(write(&place.workspace, &beside, "x"), Err(WorkspaceError::Outside { .. })));
    assert!(matches!(write(&place.workspace, "folder-link/new", "x"), Err(WorkspaceError::Outside { .. })));
    assert_eq!(fs::read_to_string(place.outside.join("secret")).unwrap(), "secret");
    assert!(!place.outside.join("new").exists());
}

#[test]
fn protected_paths_are_closed_and_unlisted() {
    let place = place();
    symlink(".data", place.workspace.root().join("alias")).unwrap();
    for path in [".data", ".data/secret", "alias/secret", "sub/../.data/secret", ".data/new/file"] {
        let resolved = place.workspace.resolve(path, PathAccess::Write);
        assert!(matches!(resolved, Err(WorkspaceError::Protected { .. })), "{path}: {resolved:?}");
    }
    let root = place.workspace.resolve(".", PathAccess::Read).unwrap();
    let names: Vec<_> = place.workspace.list(&root).unwrap().into_iter().map(|entry| entry.name).collect();
    assert_eq!(names, ["alias", "sub"]);
}

#[test]
fn a_workspace_of_everything_still_has_no_proc() {
    let workspace = Workspace::new(Path::new("/"), &[]).unwrap();
    let closed = read(&workspace, "/proc/self/environ");
    assert!(matches!(closed, Err(WorkspaceError::Protected { .. })), "{closed:?}");
}

#[test]
fn a_folder_swapped_for_a_link_after_the_check_fails() {
    let place = place();
    let root = place.workspace.root();
    let resolved = place.workspace.resolve("sub/file", PathAccess::Read).unwrap();
    let fresh = place.workspace.resolve("sub/fresh", PathAccess::Write).unwrap();
    fs::rename(root.join("sub"), root.join("moved")).unwrap();
    symlink(&place.outside, root.join("sub")).unwrap();
    // The path alone would lead out now: what stops it is how it is opened.
    assert_eq!(fs::read_to_string(place.workspace.absolute(&resolved)).unwrap(), "secret");
    assert!(place.workspace.open_file(&resolved).is_err());
    assert!(place.workspace.replace(&resolved, b"x").is_err());
    assert!(place.workspace.replace(&fresh, b"x").is_err());
    assert!(!place.outside.join("fresh").exists());
    let folder = ResolvedPath { relative: "sub".into() };
    assert!(place.workspace.list(&folder).is_err());
}

#[test]
fn a_file_swapped_for_a_link_after_the_check_fails() {
    let place = place();
    let file = place.workspace.root().join("sub/file");
    let resolved = place.workspace.resolve("sub/file", PathAccess::Read).unwrap();
    fs::remove_file(&file).unwrap();
    symlink(place.outside.join("secret"), &file).unwrap();
    assert!(place.workspace.open_file(&resolved).is_err());
    assert!(place.workspace.replace(&resolved, b"x").is_err());
    assert_eq!(fs::read_to_string(place.outside.join("secret")).unwrap(), "secret");
}

#[test]
fn what_cannot_be_a_file_is_refused_in_words() {
    let place = place();
    let root = place.workspace.root();
    symlink("nowhere", root.join("dangling")).unwrap();
    symlink(place.outside.join("not-yet"), root.join("dangling-out")).unwrap();
    symlink("loop", root.join("loop")).unwrap();
    let pipe = std::process::Command::new("mkfifo").arg(root.join("pipe")).status().unwrap();
    assert!(pipe.success());
    let long = "x/".repeat(3000);
    let cases = [
        ("missing", "does not exist"),
        ("dangling", "link to something that does not exist"),
        ("sub", "is a folder, not a file"),
        ("sub/file/below", "below a file"),
        ("pipe", "is a pipe, not a file"),
        ("nul\0", "NUL"),
        (&long, "too long"),
        ("loop", "loop"),
    ];
    for (path, words) in cases {
        let error = read(&place.workspace, path).unwrap_err().to_string();
        assert!(error.contains(words), "{path}: {error}");
        assert!(error.len() < 1000, "{path}");
    }
    for path in ["dangling", "dangling-out", "pipe", "sub", "sub/file/below", "missing/../x"] {
        assert!(write(&place.workspace, path, "x").is_err(), "{path}");
    }
    assert!(!place.outside.join("not-yet").exists());
}

#[test]
fn replacing_makes_folders_keeps_the_mode_and_leaves_nothing_behind() {
    let place = place();
    let root = place.workspace.root();
    write(&place.workspace, "a/b/c.txt", "one").unwrap();
    fs::set_permissions(root.join("a/b/c.txt"), fs::Permissions::from_mode(0o751)).unwrap();
    write(&place.workspace, "a/b/c.txt", "two").unwrap();
    assert_eq!(read(&place.workspace, "a/b/c.txt").unwrap(), "two");
    let mode = fs::metadata(root.join("a/b/c.txt")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o751);
    fs::set_permissions(root.join("a/b/c.txt"), fs::Permissions::from_mode(0o444)).unwrap();
    let refused = write(&place.workspace, "a/b/c.txt", "three");
    assert!(matches!(refused, Err(WorkspaceError::ReadOnly { .. })), "{refused:?}");
    assert_eq!(fs::read_dir(root.join("a/b")).unwrap().count(), 1);
}

#[test]
fn a_link_to_a_file_inside_is_written_through() {
    let place = place();
    let link = place.workspace.root().join("link");
    symlink("sub/file", &link).unwrap();
    write(&place.workspace, "link", "changed").unwrap();
    assert!(link.symlink_metadata().unwrap().is_symlink());
    assert_eq!(read(&place.workspace, "sub/file").unwrap(), "changed");
}

#[test]
fn what_another_has_changed_meanwhile_is_not_replaced() {
    let place = place();
    let file = place.workspace.root().join("sub/file");
    let resolved = place.workspace.resolve("sub/file", PathAccess::Read).unwrap();
    let turn = place.workspace.turn(&resolved);
    for change in [
        &|| fs::write(&file, "another's words").unwrap(),
        &|| fs::rename(place.outside.join("file"), &file).unwrap(),
        &|| fs::remove_file(&file).unwrap(),
    ] as [&dyn Fn(); 3]
    {
        let (_, opened) = turn.open().unwrap();
        change();
        let after = fs::read_to_string(&file).ok();
        let refused = turn.replace(b"mine", Some(&opened)).unwrap_err();
        assert!(matches!(refused, WorkspaceError::Changed { .. }), "{refused}");
        assert_eq!(fs::read_to_string(&file).ok(), after);
    }
    fs::write(&file, "inside").unwrap();
    let (_, opened) = turn.open().unwrap();
    turn.replace(b"mine", Some(&opened)).unwrap();
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
    assert_eq!(fs::read_dir(file.parent().unwrap()).unwrap().count(), 1);
}

#[test]
fn a_failed_replace_leaves_nothing_behind() {
    let place = place();
    let root = place.workspace.root();
    let resolved = place.workspace.resolve("sub/new", PathAccess::Write).unwrap();
    fs::create_dir(root.join("sub/new")).unwrap();
    assert!(place.workspace.replace(&resolved, b"x").is_err());
    let long = ResolvedPath { relative: Path::new("sub").join("n".repeat(300)) };
    assert!(place.workspace.replace(&long, b"x").is_err());
    let mut names: Vec<_> =
        fs::read_dir(root.join("sub")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["file", "new"]);
}
