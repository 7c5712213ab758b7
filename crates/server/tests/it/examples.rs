//! The examples run: each is a program of its own.

use std::path::PathBuf;
use std::process::Command;

/// The output of an example. `cargo test` builds them beside the tests.
fn output(example: &str) -> String {
    let folder: PathBuf = std::env::current_exe().unwrap().ancestors().nth(2).unwrap().join("examples");
    let program = folder.join(example);
    assert!(program.is_file(), "{} is not built; `cargo test` of this crate builds it", program.display());
    let output = Command::new(program).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{example}: {text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

#[test]
fn server() {
    assert_eq!(output("server"), "serving\na page of the program's own\nBecause of Rayleigh scattering.\n");
}
