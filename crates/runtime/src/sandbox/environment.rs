//! What of the environment children get to see.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::Path;

use super::SandboxPolicy;

/// Names that are passed on. Whatever is not listed stays behind: keys have many names.
const HARMLESS: [&str; 13] = [
    "PATH",
    "LANG",
    "LANGUAGE",
    "TERM",
    "COLORTERM",
    "NO_COLOR",
    "TZ",
    "USER",
    "LOGNAME",
    "SHELL",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "TZDIR",
];

const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Files of the home folder whose place programs are told, because `HOME` is another folder for them.
const POINTERS: [(&str, &str); 2] = [("RUSTUP_HOME", ".rustup"), ("GIT_CONFIG_GLOBAL", ".gitconfig")];

pub(super) fn scrubbed(policy: &SandboxPolicy, private: &Path) -> BTreeMap<OsString, OsString> {
    let mut kept: BTreeMap<OsString, OsString> = BTreeMap::new();
    kept.insert("PATH".into(), DEFAULT_PATH.into());
    kept.extend(pointers(policy));
    kept.extend(policy.environment.iter().filter(|(name, _)| passes(policy, name)).cloned());
    kept.insert("HOME".into(), private.join("home").into());
    kept.insert("TMPDIR".into(), private.join("tmp").into());
    kept
}

fn pointers(policy: &SandboxPolicy) -> impl Iterator<Item = (OsString, OsString)> {
    let found = |(name, file): (&str, &str)| {
        let path = policy.home.as_ref()?.join(file);
        path.exists().then(|| (name.into(), path.into()))
    };
    POINTERS.into_iter().filter_map(found)
}

fn passes(policy: &SandboxPolicy, name: &OsStr) -> bool {
    let Some(name) = name.to_str() else { return false };
    let wanted =
        HARMLESS.contains(&name) || name.starts_with("LC_") || policy.pass.iter().any(|pass| pass == name);
    wanted && !policy.secret.iter().any(|secret| secret == name)
}
