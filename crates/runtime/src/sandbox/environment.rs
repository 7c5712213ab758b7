//! The environment variables for children.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::Path;

use super::SandboxPolicy;

/// The variables passed on. Unlisted variables stay behind, because keys have many names.
const HARMLESS: [&str; 18] = [
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
    // The version of a language that is used, if there are several.
    "PYENV_VERSION",
    "RBENV_VERSION",
    "NODENV_VERSION",
    "RUSTUP_TOOLCHAIN",
    "CONDA_DEFAULT_ENV",
];

const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The variables for a toolchain's root, with the usual place in the home folder. Programs need the variables, because
/// children have another `HOME`: the shims of pyenv look there for versions of Python. `CARGO_HOME` is left out,
/// because the folder holds keys and cargo writes there.
pub(super) const ROOTS: [(&str, Option<&str>); 24] = [
    ("RUSTUP_HOME", Some(".rustup")),
    ("PYENV_ROOT", Some(".pyenv")),
    ("NVM_DIR", Some(".nvm")),
    ("NODENV_ROOT", Some(".nodenv")),
    ("RBENV_ROOT", Some(".rbenv")),
    ("GOENV_ROOT", Some(".goenv")),
    ("JENV_ROOT", Some(".jenv")),
    ("SDKMAN_DIR", Some(".sdkman")),
    ("VOLTA_HOME", Some(".volta")),
    ("ASDF_DIR", Some(".asdf")),
    ("ASDF_DATA_DIR", Some(".asdf")),
    ("PROTO_HOME", Some(".proto")),
    ("MISE_DATA_DIR", Some(".local/share/mise")),
    ("UV_PYTHON_INSTALL_DIR", Some(".local/share/uv/python")),
    ("FNM_DIR", Some(".local/share/fnm")),
    ("MAMBA_ROOT_PREFIX", None),
    ("CONDA_PREFIX", None),
    ("CONDA_ROOT", None),
    ("VIRTUAL_ENV", None),
    ("JAVA_HOME", None),
    ("GOROOT", None),
    ("N_PREFIX", None),
    ("PNPM_HOME", None),
    ("rvm_path", Some(".rvm")),
];

pub(super) fn scrubbed(policy: &SandboxPolicy, private: &Path) -> BTreeMap<OsString, OsString> {
    let mut kept: BTreeMap<OsString, OsString> = BTreeMap::new();
    kept.insert("PATH".into(), DEFAULT_PATH.into());
    kept.extend(pointers(policy));
    // Variables that the person has set win over the usual places.
    kept.extend(policy.environment.iter().filter(|(name, _)| passes(policy, name)).cloned());
    // `HOME` and `TMPDIR` come last, so that no passed-on variable can replace the private folders.
    kept.insert("HOME".into(), private.join("home").into());
    kept.insert("TMPDIR".into(), private.join("tmp").into());
    kept
}

/// Returns the toolchain roots and settings in the home folder.
fn pointers(policy: &SandboxPolicy) -> impl Iterator<Item = (OsString, OsString)> {
    let roots = ROOTS.into_iter().filter_map(|(name, usual)| Some((name, usual?)));
    roots.chain([("GIT_CONFIG_GLOBAL", ".gitconfig")]).filter_map(|(name, file)| {
        let path = policy.home.as_ref()?.join(file);
        path.exists().then(|| (name.into(), path.into()))
    })
}

fn passes(policy: &SandboxPolicy, name: &OsStr) -> bool {
    let Some(name) = name.to_str() else { return false };
    let is_root = ROOTS.iter().any(|(root, _)| *root == name);
    let wanted = is_root
        || HARMLESS.contains(&name)
        || name.starts_with("LC_")
        || policy.pass.iter().any(|pass| pass == name);
    wanted && !policy.secret.iter().any(|secret| secret == name)
}
