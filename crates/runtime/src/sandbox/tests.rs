//! Each guard is tried twice: with the sandbox, where it must hold, and with confinement switched off, where
//! the same command must succeed. So the tests fail when the guard is gone.

mod calls;
mod limits;
mod survivors;

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::time::{Duration, Instant};

use super::*;

struct Place {
    dir: tempfile::TempDir,
    policy: SandboxPolicy,
}

/// `base/ws` is the workspace, `base/data` the data folder, `base/other` a folder of nobody's concern.
fn place() -> Place {
    let dir = tempfile::tempdir().unwrap();
    let base = dir.path().canonicalize().unwrap();
    for folder in ["ws", "data", "other", "scratch"] {
        fs::create_dir(base.join(folder)).unwrap();
    }
    fs::write(base.join("data/secret"), "hidden-content").unwrap();
    fs::write(base.join("other/file"), "foreign-content").unwrap();
    fs::write(base.join("ws/file"), "own-content").unwrap();
    let mut policy = SandboxPolicy::new(base.join("ws"), base.join("scratch"));
    policy.protected = vec![base.join("data")];
    policy.environment = vec![("PATH".into(), std::env::var_os("PATH").unwrap())];
    Place { dir, policy }
}

impl Place {
    fn path(&self, below: &str) -> String {
        self.dir.path().canonicalize().unwrap().join(below).display().to_string()
    }

    fn sandbox(&self) -> Sandbox {
        Sandbox::new(self.policy.clone()).unwrap()
    }

    fn open(&self) -> Sandbox {
        Sandbox::new(SandboxPolicy { confine: false, ..self.policy.clone() }).unwrap()
    }
}

struct Ran {
    ok: bool,
    output: String,
}

/// A shell that writes into a pipe.
fn shell(sandbox: &Sandbox, script: &str, writer: io::PipeWriter) -> SpawnRequest {
    SpawnRequest {
        program: "/bin/sh".into(),
        args: vec!["-c".into(), script.into()],
        env: Vec::new(),
        directory: sandbox.policy.workspace.clone(),
        stdin: Stdio::null(),
        stdout: writer.try_clone().unwrap().into(),
        stderr: writer.into(),
    }
}

async fn start(sandbox: &Sandbox, script: &str) -> (ConfinedChild, io::PipeReader) {
    let (reader, writer) = io::pipe().unwrap();
    (sandbox.spawn(shell(sandbox, script, writer)).await.unwrap(), reader)
}

async fn run(sandbox: &Sandbox, script: &str) -> Ran {
    let (mut child, mut reader) = start(sandbox, script).await;
    // The pipe is read meanwhile: a child that fills the pipe would never end.
    let reading = tokio::task::spawn_blocking(move || {
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes).unwrap();
        bytes
    });
    let ok = child.wait().await.unwrap().success();
    Ran { ok, output: String::from_utf8_lossy(&reading.await.unwrap()).into_owned() }
}

/// Returns whether the kernel has Landlock with everything the runtime asks for. A test that needs it and does not
/// find it says so, and fails if the environment insists.
fn landlock(test: &str) -> bool {
    let status = place().sandbox().status().clone();
    let there = matches!(status.confinement, Confinement::Landlock { complete: true, .. });
    if !there {
        eprintln!("SKIPPED {test}: {status}");
        assert!(std::env::var_os("LONGHAUL_REQUIRE_LANDLOCK").is_none(), "{test} needs Landlock: {status}");
    }
    there
}

/// The command must fail when confined, and must give `content` when not.
async fn only_unconfined(place: &Place, script: &str, content: &str) {
    // Unconfined first: a script that fails by itself would prove nothing about the guard.
    let free = run(&place.open(), script).await;
    assert!(free.ok && free.output.contains(content), "unconfined: {script}: {}", free.output);
    let confined = run(&place.sandbox(), script).await;
    assert!(!confined.ok && !confined.output.contains(content), "confined: {script}: {}", confined.output);
}

fn alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

async fn until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(30), "waited too long for: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn pid_in(path: &str) -> u32 {
    // Without the line break the number may be half written.
    let read = || fs::read_to_string(path).ok()?.strip_suffix('\n')?.parse().ok();
    until("a process id in a file", || read().is_some()).await;
    read().unwrap()
}

#[tokio::test]
async fn the_workspace_belongs_to_children() {
    let place = place();
    let script = "cat file && echo more > new && mkdir d && mv new d/ && ln -s d l && rm file && cat l/new";
    let ran = run(&place.sandbox(), script).await;
    assert!(ran.ok, "{}", ran.output);
    assert_eq!(ran.output, "own-contentmore\n");
}

#[tokio::test]
async fn ordinary_programs_work() {
    let place = place();
    let script = "echo to-stderr > /dev/stderr && head -c 4 /dev/urandom > /dev/null && head -1 /proc/self/status \
                  && cat /etc/passwd > /dev/null && t=$(mktemp) && echo temporary > $t && cat $t && cd && pwd && ls /usr/bin/env";
    let sandbox = place.sandbox();
    let ran = run(&sandbox, script).await;
    assert!(ran.ok, "{}", ran.output);
    let home = sandbox.private_folder().join("home").display().to_string();
    for expected in ["to-stderr", "Name:", "temporary", &home] {
        assert!(ran.output.contains(expected), "{expected}: {}", ran.output);
    }
}

#[tokio::test]
async fn the_data_folder_is_closed() {
    if !landlock("the_data_folder_is_closed") {
        return;
    }
    let place = place();
    let secret = place.path("data/secret");
    only_unconfined(&place, &format!("cat {secret}"), "hidden-content").await;
    only_unconfined(&place, &format!("ls {}", place.path("data")), "secret").await;
    only_unconfined(&place, &format!("rm -f hard; ln {secret} hard && cat hard"), "hidden-content").await;
    only_unconfined(&place, &format!("ln -sf {secret} soft && cat soft"), "hidden-content").await;
    only_unconfined(&place, &format!("echo x >> {secret} && echo written"), "written").await;
    only_unconfined(
        &place,
        &format!("mv {secret} taken && cat taken; r=$?; mv taken {secret}; exit $r"),
        "hidden-content",
    )
    .await;
}

#[tokio::test]
async fn folders_of_nobodys_concern_are_closed_unless_granted() {
    if !landlock("folders_of_nobodys_concern_are_closed_unless_granted") {
        return;
    }
    let mut place = place();
    let other = place.path("other");
    only_unconfined(&place, &format!("cat {other}/file"), "foreign-content").await;
    only_unconfined(&place, &format!("echo x > {other}/new && echo written"), "written").await;
    place.policy.read = vec![other.clone().into()];
    let sandbox = place.sandbox();
    assert!(run(&sandbox, &format!("cat {other}/file")).await.ok);
    assert!(!run(&sandbox, &format!("echo x > {other}/file")).await.ok);
    place.policy.write = vec![other.clone().into()];
    assert!(run(&place.sandbox(), &format!("echo x > {other}/file")).await.ok);
}

#[tokio::test]
async fn a_data_folder_inside_the_workspace_is_closed_and_the_status_says_what_that_costs() {
    if !landlock("a_data_folder_inside_the_workspace_is_closed_and_the_status_says_what_that_costs") {
        return;
    }
    let mut place = place();
    fs::create_dir_all(place.path("ws/deep/data")).unwrap();
    fs::create_dir_all(place.path("ws/src")).unwrap();
    fs::write(place.path("ws/deep/data/secret"), "hidden-content").unwrap();
    fs::write(place.path("ws/deep/beside"), "own-content").unwrap();
    symlink(place.path("other"), place.path("ws/leads-out")).unwrap();
    place.policy.protected = vec![place.path("ws/deep/data").into()];
    only_unconfined(&place, "cat deep/data/secret", "hidden-content").await;
    only_unconfined(
        &place,
        "mv deep/data src/data && cat src/data/secret; r=$?; mv src/data deep/data; exit $r",
        "hidden-content",
    )
    .await;
    only_unconfined(&place, "cat leads-out/file", "foreign-content").await;
    let sandbox = place.sandbox();
    let ran = run(&sandbox, "cat file deep/beside && echo x > src/new && echo x > file && ls").await;
    assert!(ran.ok, "{}", ran.output);
    let status = sandbox.status().to_string();
    assert!(status.contains("cannot create or remove entries directly in"), "{status}");
    assert!(status.contains(&place.path("ws")), "{status}");
    assert!(!run(&sandbox, "echo x > new").await.ok);
}

#[tokio::test]
async fn the_runtimes_own_process_is_closed() {
    if !landlock("the_runtimes_own_process_is_closed") {
        return;
    }
    let place = place();
    only_unconfined(&place, "tr '\\0' '\\n' < /proc/$PPID/environ", "PATH=").await;
    only_unconfined(&place, "ls -l /proc/$PPID/fd/0", " -> ").await;
    only_unconfined(&place, "readlink /proc/$PPID/cwd", "/").await;
    only_unconfined(&place, "cat /proc/$PPID/maps", "r-xp").await;
    only_unconfined(&place, "cat /proc/$PPID/root/etc/hostname /etc/hostname && echo read", "read").await;
    only_unconfined(&place, "head -c 0 /proc/$PPID/mem && echo opened", "opened").await;
    only_unconfined(&place, "kill -0 $PPID && echo reached", "reached").await;
}

#[tokio::test]
async fn no_thread_of_the_runtime_takes_a_childs_signals() {
    if !landlock("no_thread_of_the_runtime_takes_a_childs_signals") {
        return;
    }
    let script = "for task in /proc/$PPID/task/*; do kill -0 ${task##*/} && echo reached; done 2>/dev/null \
                  | grep -m1 reached";
    // The thread that starts a child lives for a moment only, so a single attempt would rarely meet it.
    for _ in 0..10 {
        only_unconfined(&place(), script, "reached").await;
    }
}

#[tokio::test]
async fn two_children_are_closed_to_each_other() {
    if !landlock("two_children_are_closed_to_each_other") {
        return;
    }
    let place = place();
    for (sandbox, reachable) in [(place.open(), true), (place.sandbox(), false)] {
        let (first, _reader) = start(&sandbox, "sleep 60").await;
        let ran =
            run(&sandbox, &format!("cat /proc/{0}/environ > /dev/null && kill -0 {0}", first.id())).await;
        assert_eq!(ran.ok, reachable, "{}", ran.output);
    }
}

#[tokio::test]
async fn secrets_of_the_machine_are_closed() {
    if !landlock("secrets_of_the_machine_are_closed") {
        return;
    }
    if fs::File::open("/etc/shadow").is_err() {
        eprintln!("SKIPPED secrets_of_the_machine_are_closed: this user cannot read /etc/shadow anyway");
        return;
    }
    only_unconfined(&place(), "cat /etc/shadow", "root:").await;
}

#[tokio::test]
async fn root_cannot_make_devices_or_get_its_capabilities_back() {
    if !landlock("root_cannot_make_devices_or_get_its_capabilities_back") {
        return;
    }
    let place = place();
    let capabilities = run(&place.sandbox(), "grep ^Cap[PE] /proc/self/status").await.output;
    let sets: Vec<u64> = capabilities
        .lines()
        .map(|line| u64::from_str_radix(line.split_whitespace().last().unwrap(), 16).unwrap())
        .collect();
    assert_eq!(sets.len(), 2, "{capabilities}");
    // CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID, SETUID, NET_BIND_SERVICE.
    assert!(sets.iter().all(|set| set & !0b100_1111_1011 == 0), "{capabilities}");
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED the device half of root_cannot_make_devices…: not root");
        return;
    }
    only_unconfined(&place, "rm -f device; mknod device b 1 1 && echo made", "made").await;
}

#[tokio::test]
async fn keys_in_the_environment_stay_behind() {
    let mut place = place();
    let harmless = [("LC_ALL", "C"), ("TERM", "dumb")];
    let keys =
        [("PROVIDER_API_KEY", "key-value-1"), ("AWS_SECRET_ACCESS_KEY", "key-value-2"), ("BASH_ENV", "/x")];
    place
        .policy
        .environment
        .extend(harmless.iter().chain(&keys).map(|(name, value)| (name.into(), value.into())));
    let ran = run(&place.sandbox(), "env").await;
    assert!(ran.output.contains("LC_ALL=C") && ran.output.contains("TERM=dumb"), "{}", ran.output);
    assert!(!ran.output.contains("key-value") && !ran.output.contains("BASH_ENV"), "{}", ran.output);
    // The last four are the shell's own. Nothing comes from the environment of this very process.
    let known = ["PATH", "HOME", "TMPDIR", "LC_ALL", "TERM", "PWD", "OLDPWD", "SHLVL", "_"];
    let names = ran.output.lines().filter_map(|line| line.split_once('=')).map(|(name, _)| name);
    assert_eq!(names.filter(|name| !known.contains(name)).collect::<Vec<_>>(), [""; 0]);

    place.policy.pass = vec!["PROVIDER_API_KEY".into(), "AWS_SECRET_ACCESS_KEY".into()];
    place.policy.secret = vec!["PROVIDER_API_KEY".into()];
    let ran = run(&place.sandbox(), "env").await;
    assert!(ran.output.contains("key-value-2"), "passed on by name: {}", ran.output);
    assert!(!ran.output.contains("key-value-1"), "secret wins: {}", ran.output);
}

#[tokio::test]
async fn toolchains_are_readable_and_what_lies_beside_them_is_not() {
    if !landlock("toolchains_are_readable_and_what_lies_beside_them_is_not") {
        return;
    }
    let mut place = place();
    let home = place.path("other");
    fs::create_dir_all(format!("{home}/.cargo/bin")).unwrap();
    fs::write(format!("{home}/.cargo/bin/tool"), "#!/bin/sh\necho tool-ran\n").unwrap();
    fs::set_permissions(format!("{home}/.cargo/bin/tool"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(format!("{home}/.cargo/credentials.toml"), "hidden-content").unwrap();
    fs::write(format!("{home}/.gitconfig"), "[user]\n\tname = somebody\n").unwrap();
    place.policy.home = Some(home.clone().into());
    let ran = run(&place.sandbox(), &format!("{home}/.cargo/bin/tool && cat $GIT_CONFIG_GLOBAL")).await;
    assert!(ran.ok && ran.output.contains("tool-ran") && ran.output.contains("somebody"), "{}", ran.output);
    only_unconfined(&place, &format!("cat {home}/.cargo/credentials.toml"), "hidden-content").await;
}

#[tokio::test]
async fn programs_in_the_search_path_can_be_run() {
    let mut place = place();
    let tool = place.path("other/tool");
    fs::write(&tool, "#!/bin/sh\necho tool-ran\n").unwrap();
    fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin:.:{}", place.path("other"), place.path(""));
    place.policy.environment = vec![("PATH".into(), path.into())];
    let ran = run(&place.sandbox(), "tool").await;
    assert!(ran.ok && ran.output == "tool-ran\n", "{}", ran.output);
    if landlock("programs_in_the_search_path_can_be_run") {
        // A folder above the workspace is not granted for being in the search path.
        fs::write(place.path("beside"), "foreign-content").unwrap();
        only_unconfined(&place, &format!("cat {}", place.path("beside")), "foreign-content").await;
    }
}

#[tokio::test]
async fn version_managers_run_with_a_home_of_their_own() {
    if !landlock("version_managers_run_with_a_home_of_their_own") {
        return;
    }
    let write = |path: &str, text: &str| {
        fs::create_dir_all(Path::new(path).parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    };
    let shim = |variable: &str, usual: &str| {
        format!("#!/bin/sh\nexec \"${{{variable}:-$HOME/{usual}}}/versions/1/bin/tool\"\n")
    };
    for (variable, usual) in
        [("PYENV_ROOT", ".pyenv"), ("RBENV_ROOT", ".rbenv"), ("NVM_DIR", ".nvm"), ("RUSTUP_HOME", ".rustup")]
    {
        // Where it usually is, and where the environment says that it is.
        for is_named in [false, true] {
            let mut place = place();
            let home = place.path("other");
            let root = if is_named { format!("{home}/tools/any") } else { format!("{home}/{usual}") };
            write(&format!("{root}/shims/tool"), &shim(variable, usual));
            write(&format!("{root}/versions/1/bin/tool"), "#!/bin/sh\ncat \"${0%/bin/tool}/lib/code\"\n");
            write(&format!("{root}/versions/1/lib/code"), "its-library\n");
            write(&format!("{home}/tools/key"), "hidden-content");
            place.policy.home = Some(home.clone().into());
            let path = std::env::var_os("PATH").unwrap().into_string().unwrap();
            place.policy.environment = vec![("PATH".into(), format!("{root}/shims:{path}").into())];
            if is_named {
                place.policy.environment.push((variable.into(), root.into()));
            }
            let ran = run(&place.sandbox(), "tool").await;
            assert!(ran.ok && ran.output == "its-library\n", "{variable} {is_named}: {}", ran.output);
            only_unconfined(&place, &format!("cat {home}/tools/key"), "hidden-content").await;
        }
    }
}

#[tokio::test]
async fn a_toolchain_in_the_search_path_finds_its_libraries_and_shared_folders_stay_closed() {
    if !landlock("a_toolchain_in_the_search_path_finds_its_libraries_and_shared_folders_stay_closed") {
        return;
    }
    let mut place = place();
    let home = place.path("other");
    let path = std::env::var_os("PATH").unwrap().into_string().unwrap();
    let in_path = |folder: &str| vec![("PATH".into(), format!("{folder}/bin:{path}").into())];
    place.policy.home = Some(home.clone().into());
    for (folder, mark) in [
        ("conda", "conda-meta/history"),
        ("venv", "pyvenv.cfg"),
        ("python", "lib/python3.12/os.py"),
        ("node", "lib/node_modules/npm/index.js"),
        ("rust", "lib/rustlib/components"),
        (".local", "lib/python3.12/os.py"),
        ("plain", "notes"),
    ] {
        let root = format!("{home}/{folder}");
        fs::create_dir_all(format!("{root}/bin")).unwrap();
        fs::create_dir_all(Path::new(&format!("{root}/{mark}")).parent().unwrap()).unwrap();
        fs::write(format!("{root}/{mark}"), "its-library").unwrap();
        fs::create_dir_all(format!("{root}/share")).unwrap();
        fs::write(format!("{root}/share/file"), "hidden-content").unwrap();
        place.policy.environment = in_path(&root);
        if matches!(folder, ".local" | "plain") {
            // What is no toolchain's root, or everybody's folder, is not opened because of the programs in it.
            only_unconfined(&place, &format!("cat {root}/share/file"), "hidden-content").await;
        } else {
            let ran = run(&place.sandbox(), &format!("cat {root}/{mark}")).await;
            assert!(ran.ok && ran.output == "its-library", "{folder}: {}", ran.output);
        }
    }
    // A folder that holds the home folder, or is it, is nobody's toolchain.
    fs::write(format!("{home}/key"), "hidden-content").unwrap();
    for root in [home.clone(), place.path(""), "/".to_owned()] {
        let name = |name: &str| (name.into(), root.clone().into());
        place.policy.environment =
            vec![("PATH".into(), path.clone().into()), name("PYENV_ROOT"), name("JAVA_HOME")];
        only_unconfined(&place, &format!("cat {home}/key"), "hidden-content").await;
    }
}

#[tokio::test]
async fn a_child_does_not_open_protected_folders_to_other_users() {
    let mut place = place();
    let (data, config) = (place.path("data"), place.path("other"));
    place.policy.protected = vec![data.clone().into(), config.clone().into()];
    let set = |path: &str, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    let mode = |path: &str| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    set(&data, 0o700);
    set(&format!("{data}/secret"), 0o600);
    set(&config, 0o755);
    set(&format!("{config}/file"), 0o644);
    let is_closed = || {
        mode(&data) == 0o700
            && mode(&format!("{data}/secret")) == 0o600
            && mode(&config) == 0o755
            && mode(&format!("{config}/file")) == 0o644
    };
    let sandbox = place.sandbox();
    for script in [
        format!("chmod -R 777 {data} {config}; chmod 777 {data} {data}/secret {config}/file"),
        format!("chmod 666 {config}/file; chmod 777 {data}/secret; chmod 705 {data}"),
        format!("chmod 000 {data}/secret {data} {config}"),
    ] {
        run(&sandbox, &script).await;
        assert!(is_closed(), "at the end of {script}: {:o} {:o}", mode(&data), mode(&config));
    }
    // While it still runs, too.
    let script = format!("chmod 777 {data}; chmod 666 {data}/secret {config}/file; touch done; sleep 60");
    let (child, _reader) = start(&sandbox, &script).await;
    until("the end of its changes", || Path::new(&place.path("ws/done")).exists()).await;
    until("the folders closed again", is_closed).await;
    drop(child);
    // A file that came later, of a folder that others cannot enter.
    fs::write(format!("{data}/later"), "x").unwrap();
    set(&format!("{data}/later"), 0o600);
    run(&sandbox, &format!("chmod 644 {data}/later")).await;
    assert_eq!(mode(&format!("{data}/later")), 0o600);
    if rustix::process::geteuid().is_root() {
        run(&sandbox, &format!("chown 12345:12345 {data} {data}/secret {data}/later")).await;
        use std::os::unix::fs::MetadataExt as _;
        for path in [data.clone(), format!("{data}/secret"), format!("{data}/later")] {
            assert_eq!(fs::metadata(&path).unwrap().uid(), 0, "{path}");
        }
        assert!(is_closed());
    }
}

#[tokio::test]
async fn no_descriptor_of_ours_is_inherited() {
    let place = place();
    let sandbox = place.sandbox();
    let _open = crate::workspace::Workspace::new(&place.policy.workspace, &[]).unwrap();
    let ran = run(&sandbox, "ls -l /proc/self/fd").await;
    let targets: Vec<&str> =
        ran.output.lines().filter_map(|line| line.split_once(" -> ")).map(|(_, to)| to).collect();
    let known = |to: &str| to == "/dev/null" || to.starts_with("pipe:") || to.starts_with("/proc/");
    assert!(targets.len() >= 3 && targets.iter().all(|to| known(to)), "{}", ran.output);
}

#[tokio::test]
async fn the_private_folder_is_private_and_goes() {
    let place = place();
    let sandbox = place.sandbox();
    let private = sandbox.private_folder().to_owned();
    assert_eq!(fs::metadata(&private).unwrap().permissions().mode() & 0o777, 0o700);
    run(&sandbox, "echo x > $TMPDIR/x; mkdir $HOME/.cache").await;
    assert!(private.join("tmp/x").exists() && private.join("home/.cache").exists());
    drop(sandbox);
    assert!(!private.exists());
}

#[tokio::test]
async fn what_a_program_finds_in_its_home_no_command_has_put_there() {
    if !landlock("what_a_program_finds_in_its_home_no_command_has_put_there") {
        return;
    }
    let place = place();
    let sandbox = place.sandbox();
    let (own, other) = (IsolatedHome::default(), IsolatedHome::default());
    let serve = async |own: &IsolatedHome, script: &str, serves: bool| {
        let (reader, writer) = io::pipe().unwrap();
        let request = shell(&sandbox, script, writer);
        let child = match serves {
            true => sandbox.spawn_server(request, None, own).await,
            false => sandbox.spawn_apart(request, own).await,
        };
        assert!(child.unwrap().wait().await.unwrap().success());
        io::read_to_string(reader).unwrap()
    };
    let home = serve(&own, "echo mine > $HOME/.rc && echo x > $TMPDIR/x && echo $HOME", true).await;
    let home = home.trim();
    let commands = run(&sandbox, "echo $HOME").await.output;
    assert!(commands.trim() != home && fs::exists(home).unwrap(), "{home} and {commands}");
    for way in ["echo theirs > HOME/.rc", "cat HOME/.rc", "mv HOME HOME-2", "rm -r HOME", "ls HOME/../tmp"] {
        let way = way.replace("HOME", home);
        assert!(!run(&sandbox, &way).await.ok, "{way}");
        assert!(serve(&other, &format!("! {{ {way}; }} 2> /dev/null"), true).await.is_empty(), "{way}");
    }
    let reads_commands = format!("! {{ echo x > {}/planted; }} 2> /dev/null", commands.trim());
    assert_eq!(serve(&own, &reads_commands, true).await, "");
    for serves in [true, false] {
        assert_eq!(
            serve(&own, "cat $HOME/.rc", serves).await,
            "mine\n",
            "it is the same when it starts again"
        );
    }
    drop((sandbox, own));
    assert!(!fs::exists(home).unwrap());
}

#[tokio::test]
async fn dropping_a_child_kills_its_group() {
    let place = place();
    let sandbox = place.sandbox();
    let (child, _reader) = start(&sandbox, "trap '' TERM; sleep 300 & echo $! > pid; wait").await;
    let grandchild = pid_in(&place.path("ws/pid")).await;
    let leader = child.id();
    assert!(alive(grandchild) && alive(leader));
    drop(child);
    until("the group to end", || !alive(grandchild) && !alive(leader)).await;
}

#[tokio::test]
async fn the_rest_of_the_group_ends_with_its_leader() {
    let place = place();
    for sandbox in [place.sandbox(), place.open()] {
        let ran = run(&sandbox, "sleep 300 & echo $! > pid").await;
        assert!(ran.ok, "{}", ran.output);
        assert!(!alive(pid_in(&place.path("ws/pid")).await), "{}", sandbox.status());
    }
}

#[tokio::test]
async fn stopping_gives_time_and_then_kills() {
    let place = place();
    let sandbox = place.sandbox();
    let (mut polite, _reader) =
        start(&sandbox, "trap 'exit 7' TERM; : > ready; while :; do sleep 0.02; done").await;
    // Before the trap is set, the signal would end the shell at once.
    until("the trap", || Path::new(&place.path("ws/ready")).exists()).await;
    assert_eq!(polite.stop(Duration::from_secs(30)).await.unwrap().code(), Some(7));
    fs::remove_file(place.path("ws/ready")).unwrap();

    let (mut stubborn, _reader) =
        start(&sandbox, "trap '' TERM; : > ready; while :; do sleep 0.02; done").await;
    until("the trap", || Path::new(&place.path("ws/ready")).exists()).await;
    let begun = Instant::now();
    let status = stubborn.stop(Duration::from_millis(200)).await.unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9));
    assert!(begun.elapsed() >= Duration::from_millis(200));
    assert_eq!(stubborn.wait().await.unwrap(), status, "a second wait gives the same");
}

#[tokio::test]
async fn a_program_that_is_missing_is_an_error_that_names_it() {
    let place = place();
    let sandbox = place.sandbox();
    let request = SpawnRequest {
        program: "no-such-program".into(),
        args: Vec::new(),
        env: Vec::new(),
        directory: sandbox.policy.workspace.clone(),
        stdin: Stdio::null(),
        stdout: Stdio::null(),
        stderr: Stdio::null(),
    };
    let error = sandbox.spawn(request).await.unwrap_err().to_string();
    assert!(error.contains("no-such-program could not be started"), "{error}");
}

#[test]
fn protecting_hides_this_process() {
    use rustix::process::{DumpableBehavior, dumpable_behavior};
    const NAME: &str = "LONGHAUL_TEST_PROTECT";
    if std::env::var_os(NAME).is_some() {
        protect_this_process().unwrap();
        assert_eq!(dumpable_behavior().unwrap(), DumpableBehavior::NotDumpable);
        return;
    }
    // In a process of its own: the others need to be looked into.
    let test = std::thread::current().name().unwrap().to_owned();
    let mut again = std::process::Command::new(std::env::current_exe().unwrap());
    let output = again.args(["--exact", &test]).env(NAME, "1").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"), "{output:?}");
}

#[test]
fn the_status_is_a_sentence() {
    let place = place();
    assert_eq!(place.open().status().to_string(), "not confined: switched off by the configuration");
    let confinement = Confinement::Landlock { abi: 3, complete: false };
    let mut status = SandboxStatus { confinement, calls: Ok(()), notes: vec!["one thing".into()] };
    assert_eq!(
        status.to_string(),
        "partly confined by Landlock (ABI 3; the kernel is older than 6.12) and seccomp; one thing"
    );
    status.calls = Err("too old".to_owned());
    assert!(status.to_string().ends_with("; system calls are not filtered: too old; one thing"), "{status}");
    status.confinement = Confinement::None { reason: "no Landlock".to_owned() };
    assert_eq!(status.to_string(), "not confined: no Landlock; one thing");
    status.calls = Ok(());
    assert_eq!(
        status.to_string(),
        "not confined: no Landlock; only system calls are filtered by seccomp; one thing"
    );
}

#[test]
fn the_report_names_what_is_reachable_and_what_nothing_guards() {
    let mut place = place();
    let status = place.sandbox().status().clone();
    let open = place.open().report().clone();
    assert!(open.read.is_empty() && open.closed.is_empty() && open.network == NetworkAccess::Open);
    assert!(open.open.iter().any(|open| open.contains("every file that you can read")), "{open:?}");
    if !landlock("the_report_names_what_is_reachable_and_what_nothing_guards") || status.calls.is_err() {
        return;
    }
    place.policy.network = NetworkAccess::Denied;
    place.policy.protected.push(place.path("ws/inside").into());
    let report = place.sandbox().report().clone();
    let has = |paths: &[PathBuf], path: &str| paths.contains(&PathBuf::from(path));
    assert!(has(&report.write, &place.path("ws")) && has(&report.read, "/usr") && has(&report.read, "/etc"));
    assert!(has(&report.closed, &place.path("data")) && report.network == NetworkAccess::Denied);
    assert!(!report.open.iter().any(|open| open.contains("UNIX socket")), "{report:?}");
}

#[tokio::test]
async fn what_was_open_before_is_closed_to_children() {
    use std::os::fd::AsRawFd;
    let place = place();
    for sandbox in [place.sandbox(), place.open()] {
        // As whoever starts a program may leave it behind: it lasts when another program is started.
        let left = rustix::fs::open(place.path("data/secret"), rustix::fs::OFlags::RDONLY, 0.into()).unwrap();
        assert!(!rustix::io::fcntl_getfd(&left).unwrap().contains(rustix::io::FdFlags::CLOEXEC));
        let script = format!(
            "[ -e /proc/self/fd/{} ] && echo there; for f in /proc/self/fd/*; do echo ${{f##*/}}; done",
            left.as_raw_fd()
        );
        let ran = run(&sandbox, &script).await;
        let (reader, writer) = io::pipe().unwrap();
        let own = IsolatedHome::default();
        let mut server = sandbox.spawn_server(shell(&sandbox, &script, writer), None, &own).await.unwrap();
        server.wait().await.unwrap();
        for output in [ran.output, io::read_to_string(reader).unwrap()] {
            // The fourth is the folder's own, or that of a shell's script.
            assert!(!output.contains("there") && output.lines().count() <= 4, "{output}");
            assert!(output.starts_with("0\n1\n2\n"), "{output}");
        }
    }
}

#[tokio::test]
async fn the_report_names_agent_files_that_children_can_change() {
    let mut place = place();
    fs::write(place.path("other/agent.yml"), "").unwrap();
    let files: Vec<PathBuf> =
        ["ws/file", "other/agent.yml", "data/secret"].map(|file| place.path(file).into()).into();
    place.policy.agent_files = files.clone();
    assert_eq!(place.open().report().agent_files, files, "nothing guards them");
    if !landlock("the_report_names_agent_files_that_children_can_change") {
        return;
    }
    let sandbox = place.sandbox();
    assert_eq!(sandbox.report().agent_files, files[..1]);
    let named = format!("the agent file {}, which holds from the next start", place.path("ws/file"));
    assert!(sandbox.report().open.iter().any(|open| open.starts_with(&named)), "{:?}", sandbox.report());
    for (file, changes) in files.iter().zip([true, false, false]) {
        let ran = run(&sandbox, &format!("echo changed >> {}", file.display())).await;
        assert_eq!(ran.ok, changes, "{}: {}", file.display(), ran.output);
    }
    // Entry by entry, it is still a file that they can change.
    fs::create_dir(place.path("ws/data")).unwrap();
    place.policy.protected.push(place.path("ws/data").into());
    assert_eq!(place.sandbox().report().agent_files, files[..1]);
}

/// The report names what is not guarded, and the tests show it. Once it is guarded, the report must change.
#[tokio::test]
async fn a_hard_link_that_was_there_leads_outside_and_the_report_says_so() {
    if !landlock("a_hard_link_that_was_there_leads_outside_and_the_report_says_so") {
        return;
    }
    let place = place();
    fs::hard_link(place.path("other/file"), place.path("ws/before")).unwrap();
    let sandbox = place.sandbox();
    assert!(run(&sandbox, "echo written > before").await.ok);
    assert_eq!(fs::read_to_string(place.path("other/file")).unwrap(), "written\n");
    assert!(sandbox.report().open.iter().any(|open| open.contains("hard link")), "{:?}", sandbox.report());
    let other = place.path("other/file");
    only_unconfined(&place, &format!("ln {other} after && echo linked"), "linked").await;
}
