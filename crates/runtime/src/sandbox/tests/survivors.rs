//! Processes that a child leaves behind.

use rustix::process::{Pid, Signal, kill_process};

use super::calls::{error_of, making, python, seccomp};
use super::*;

fn kill(process: u32) {
    kill_process(Pid::from_raw(process.cast_signed()).unwrap(), Signal::KILL).unwrap();
}

#[tokio::test]
async fn what_left_the_group_is_ended_with_the_child() {
    if !landlock("what_left_the_group_is_ended_with_the_child") {
        return;
    }
    let place = place();
    let script = "rm -f pid; setsid -f env -i /bin/sh -c 'echo $$ > pid; exec /usr/bin/env sleep 300' >/dev/null 2>&1; \
                  while ! test -s pid; do sleep 0.02; done";
    run(&place.open(), script).await;
    let stray = pid_in(&place.path("ws/pid")).await;
    assert!(alive(stray), "without a mark nothing knows it");
    kill(stray);
    run(&place.sandbox(), script).await;
    let stray = pid_in(&place.path("ws/pid")).await;
    assert!(!alive(stray));
}

/// A Python program that goes into a session of its own with `first`, says its number and stays for a while.
fn leaving(first: &str) -> String {
    format!(
        "rm -f pid; /usr/bin/python3 -c 'import ctypes, os, time
if os.fork() == 0:
    os.setsid()
    {first}
    if os.fork() == 0:
        with open(\"pid-\", \"w\") as file: print(os.getpid(), file=file)
        os.rename(\"pid-\", \"pid\")
        for n in (0, 1, 2): os.close(n)
        time.sleep(300)
    os._exit(0)'
while ! test -s pid; do sleep 0.02; done"
    )
}

#[tokio::test]
async fn what_hides_itself_is_ended_with_the_child() {
    let test = "what_hides_itself_is_ended_with_the_child";
    if !seccomp(test) || !python(test) {
        return;
    }
    let place = place();
    // The stray may run as another user, who writes the process number here.
    fs::set_permissions(place.path("ws"), fs::Permissions::from_mode(0o777)).unwrap();
    let undumpable = "ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)";
    let as_somebody_else = "os.setgroups([]); os.setuid(65534)";
    let mut ways = vec![undumpable];
    if rustix::process::geteuid().is_root() {
        ways.push(as_somebody_else);
    }
    for way in ways {
        run(&place.open(), &leaving(way)).await;
        let stray = pid_in(&place.path("ws/pid")).await;
        assert!(alive(stray), "without a mark nothing knows it: {way}");
        kill(stray);
        let ran = run(&place.sandbox(), &leaving(way)).await;
        let stray = pid_in(&place.path("ws/pid")).await;
        assert!(!alive(stray), "{way}: {}", ran.output);
    }
}

#[tokio::test]
async fn what_forks_all_the_time_is_ended_with_the_child() {
    let test = "what_forks_all_the_time_is_ended_with_the_child";
    if !seccomp(test) || !python(test) {
        return;
    }
    let place = place();
    // It counts in a file for as long as it is there.
    let script = "/usr/bin/python3 -c 'import os
if os.fork() == 0:
    os.setsid()
    for n in (0, 1, 2): os.close(n)
    count = os.open(\"count\", os.O_CREAT | os.O_WRONLY)
    while os.path.exists(\"count\"):
        if os.fork(): os._exit(0)
        os.write(count, b\"x\")
    os._exit(0)'
while ! test -s count; do sleep 0.02; done";
    // The race between the search and the next fork must be won every time.
    for _ in 0..5 {
        run(&place.sandbox(), script).await;
        let counted = || fs::metadata(place.path("ws/count")).unwrap().len();
        let before = counted();
        tokio::time::sleep(Duration::from_millis(100)).await;
        let after = counted();
        fs::remove_file(place.path("ws/count")).unwrap();
        assert_eq!(before, after, "it goes on");
    }
}

#[tokio::test]
async fn a_command_leaves_neither_its_group_nor_comes_into_ours() {
    let test = "a_command_leaves_neither_its_group_nor_comes_into_ours";
    if !python(test) {
        return;
    }
    let place = place();
    // The kernel signals a whole group that nobody is left to wake up, whoever is in it.
    let script = format!(
        "exec /usr/bin/python3 -c 'import os
def tried(name, process, group):
    try: os.setpgid(process, group)
    except OSError as error: print(name, error.errno, flush=True)
    else: print(name, \"done\", flush=True)
print(os.getsid(0) == os.getpgid(0) == os.getpid(), flush=True)
other = os.fork()
if other == 0:
    tried(\"ours\", 0, {})
    os.setpgid(0, 0)
    os._exit(0)
os.waitid(os.P_PID, other, os.WEXITED | os.WNOWAIT)
tried(\"leaves\", 0, other)' 2>&1",
        rustix::process::getpgid(None).unwrap().as_raw_nonzero()
    );
    for sandbox in [place.open(), place.sandbox()] {
        let said = run(&sandbox, &script).await.output;
        let refused = libc::EPERM;
        for line in ["True".to_owned(), format!("ours {refused}"), format!("leaves {refused}")] {
            assert!(said.lines().any(|said| said == line), "{line}: {said}");
        }
    }
}

#[tokio::test]
async fn what_a_process_is_known_by_cannot_be_taken_off() {
    let test = "what_a_process_is_known_by_cannot_be_taken_off";
    if !seccomp(test) || !python(test) {
        return;
    }
    let place = place();
    let calls = format!(
        "less = struct.pack(\"QQ\", 7, 7)
call(\"prlimit64\", {prlimit}, 0, {locks}, less, 0)
call(\"setrlimit\", {setrlimit}, {locks}, less)
call(\"other\", {prlimit}, 0, {files}, less, 0)
call(\"read\", {prlimit}, 0, {locks}, 0, bytes(16))",
        prlimit = libc::SYS_prlimit64,
        setrlimit = libc::SYS_setrlimit,
        locks = libc::RLIMIT_LOCKS,
        files = libc::RLIMIT_NOFILE,
    );
    let (free, confined) =
        (run(&place.open(), &making(&calls)).await, run(&place.sandbox(), &making(&calls)).await);
    for name in ["prlimit64", "setrlimit"] {
        assert_eq!(error_of(&free.output, name), 0, "{}", free.output);
        assert_eq!(error_of(&confined.output, name), libc::EPERM, "{}", confined.output);
    }
    for name in ["other", "read"] {
        assert_eq!(error_of(&confined.output, name), 0, "{}", confined.output);
    }
}

#[tokio::test]
async fn each_child_has_a_mark_of_its_own() {
    if !seccomp("each_child_has_a_mark_of_its_own") {
        return;
    }
    let mut place = place();
    let mut marks = std::collections::BTreeSet::new();
    for limits in [ChildLimits::default(), ChildLimits::NONE] {
        place.policy.limits = limits;
        let sandbox = place.sandbox();
        for _ in 0..5 {
            let said =
                run(&sandbox, "grep locks /proc/self/limits | sed 's/Max file locks *//'").await.output;
            marks.insert(said.split_whitespace().next().unwrap().parse::<u64>().unwrap());
        }
    }
    assert_eq!(marks.len(), 10);
}

#[tokio::test]
async fn what_a_killed_server_has_left_is_ended_by_the_next() {
    if !seccomp("what_a_killed_server_has_left_is_ended_by_the_next") {
        return;
    }
    let place = place();
    let running = |name: &str| format!("echo $$ > {name}; exec sleep 300");
    // The lock of a process that was killed is nobody's; what it started runs on.
    let killed = place.sandbox();
    let (child, _reader) = start(&killed, &running("of-killed")).await;
    let left = pid_in(&place.path("ws/of-killed")).await;
    // A killed server runs no destructor, and the destructor would end the child.
    std::mem::forget(child);
    let folder = killed.private_folder().file_name().unwrap().to_owned();
    let lives = place.sandbox();
    let (_child, _reader) = start(&lives, &running("of-living")).await;
    let other = pid_in(&place.path("ws/of-living")).await;
    assert!(alive(left) && alive(other), "both are still locked");
    drop(killed);
    fs::create_dir(place.path("scratch/").to_owned() + folder.to_str().unwrap()).unwrap();
    let _next = place.sandbox();
    until("the end of what was left", || !alive(left)).await;
    assert!(alive(other));
}

#[tokio::test]
async fn no_command_takes_the_lock_of_its_folder() {
    if !landlock("no_command_takes_the_lock_of_its_folder") {
        return;
    }
    let place = place();
    only_unconfined(&place, "exec 9< ${TMPDIR%/tmp} && echo opened", "opened").await;
    let sandbox = place.sandbox();
    assert!(run(&sandbox, "cd && echo x > $TMPDIR/x && cat $TMPDIR/x && chmod 0 ${TMPDIR%/tmp}").await.ok);
    let folder = sandbox.private_folder().to_owned();
    drop(sandbox);
    assert!(!folder.exists(), "whatever its mode");
}
