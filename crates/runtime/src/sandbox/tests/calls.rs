//! System calls and the network.

use std::net::TcpListener;
use std::os::unix::net::UnixListener;

use super::*;
use crate::sandbox::calls::REFUSED;

/// Returns whether there is a Python for calls that no shell makes. A test that needs it and does not find it says
/// so.
pub(super) fn python(test: &str) -> bool {
    let there = Path::new("/usr/bin/python3").exists();
    if !there {
        eprintln!("SKIPPED {test}: no /usr/bin/python3");
        assert!(std::env::var_os("LONGHAUL_REQUIRE_PYTHON").is_none(), "{test} needs /usr/bin/python3");
    }
    there
}

/// Returns whether calls are filtered here; as [`landlock`].
pub(super) fn seccomp(test: &str) -> bool {
    let status = place().sandbox().status().clone();
    if let Err(reason) = &status.calls {
        eprintln!("SKIPPED {test}: {reason}");
        assert!(std::env::var_os("LONGHAUL_REQUIRE_LANDLOCK").is_none(), "{test} needs seccomp: {reason}");
    }
    status.calls.is_ok()
}

/// A program that makes calls with all arguments -1, and says the error of each.
fn calling(calls: &[i64]) -> String {
    let list: Vec<String> = calls.iter().map(i64::to_string).collect();
    format!(
        "/usr/bin/python3 -c 'import ctypes
libc = ctypes.CDLL(None, use_errno=True)
for call in [{}]:
    ctypes.set_errno(0)
    libc.syscall(*[ctypes.c_long(n) for n in (call, -1, -1, -1, -1, -1, -1)])
    print(call, ctypes.get_errno())'",
        list.join(",")
    )
}

#[tokio::test]
async fn calls_that_look_into_others_or_change_the_kernel_are_refused() {
    let test = "calls_that_look_into_others_or_change_the_kernel_are_refused";
    if !seccomp(test) || !python(test) {
        return;
    }
    let ran = run(&place().sandbox(), &calling(REFUSED)).await;
    assert!(ran.ok && ran.output.lines().count() == REFUSED.len(), "{}", ran.output);
    for line in ran.output.lines() {
        assert!(line.ends_with(&format!(" {}", libc::EPERM)), "{line}");
    }
}

#[tokio::test]
async fn a_user_with_every_right_cannot_be_made_up() {
    let test = "a_user_with_every_right_cannot_be_made_up";
    if !seccomp(test) || !python(test) {
        return;
    }
    let place = place();
    let clone = |call: i64, flags: i32| {
        format!(
            "/usr/bin/python3 -c 'import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
done = libc.syscall(*[ctypes.c_long(n) for n in ({call}, {flags}, 0, 0, 0, 0)])
if done == 0: os._exit(0)
print(ctypes.get_errno())'"
        )
    };
    let new_user = libc::CLONE_NEWUSER;
    let confined = place.sandbox();
    let calls = [
        clone(libc::SYS_unshare, new_user),
        clone(libc::SYS_clone, new_user | libc::SIGCHLD),
        // Nor a child of the runtime's.
        clone(libc::SYS_clone, libc::CLONE_PARENT | libc::SIGCHLD),
    ];
    for script in calls {
        let ran = run(&confined, &script).await;
        assert_eq!(ran.output, format!("{}\n", libc::EPERM), "{script}");
    }
    // Its flags are out of a filter's sight: it is missing, and callers take the other.
    let ran = run(&confined, &calling(&[libc::SYS_clone3])).await;
    assert_eq!(ran.output, format!("{} {}\n", libc::SYS_clone3, libc::ENOSYS));
}

#[tokio::test]
async fn the_network_is_open_or_closed_as_it_is_said() {
    let test = "the_network_is_open_or_closed_as_it_is_said";
    if !seccomp(test) || !python(test) {
        return;
    }
    let mut place = place();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let _unix = UnixListener::bind(place.path("ws/socket")).unwrap();
    let port = tcp.local_addr().unwrap().port();
    let connecting = |family: &str, kind: &str, to: &str| {
        format!(
            "/usr/bin/python3 -c 'import socket
s = socket.socket(socket.{family}, socket.{kind})
s.connect({to}); s.send(b\"x\"); print(\"reached\")' 2>&1"
        )
    };
    let ways = [
        connecting("AF_INET", "SOCK_STREAM", &format!("(\"127.0.0.1\", {port})")),
        connecting("AF_INET", "SOCK_DGRAM", &format!("(\"127.0.0.1\", {port})")),
        connecting("AF_UNIX", "SOCK_STREAM", "\"socket\""),
    ];
    for way in &ways {
        assert!(run(&place.sandbox(), way).await.output.contains("reached"), "open: {way}");
    }
    place.policy.network = NetworkAccess::Denied;
    let sandbox = place.sandbox();
    for way in &ways {
        let ran = run(&sandbox, way).await;
        assert!(!ran.ok && ran.output.contains("not permitted"), "{way}: {}", ran.output);
    }
    // Pairs are within one program, and many need them.
    let pair = |kind: &str| {
        let with = format!("a, b = socket.socketpair(type=socket.{kind})");
        format!("/usr/bin/python3 -c 'import socket; {with}; a.send(b\"x\"); print(\"sent\")' 2>&1")
    };
    for kind in ["SOCK_STREAM", "SOCK_STREAM | socket.SOCK_CLOEXEC", "SOCK_SEQPACKET"] {
        assert_eq!(run(&sandbox, &pair(kind)).await.output, "sent\n", "{kind}");
    }
    // Others send to any path.
    for kind in ["SOCK_DGRAM", "SOCK_DGRAM | socket.SOCK_NONBLOCK", "SOCK_RAW"] {
        assert!(run(&place.open(), &pair(kind)).await.ok, "open: {kind}");
        let ran = run(&sandbox, &pair(kind)).await;
        assert!(!ran.ok && ran.output.contains("not permitted"), "{kind}: {}", ran.output);
    }
    // What a person says of one server holds for that one.
    let (reader, writer) = io::pipe().unwrap();
    let request = shell(&sandbox, &ways[0], writer);
    let own = IsolatedHome::default();
    let mut server = sandbox.spawn_server(request, Some(NetworkAccess::Open), &own).await.unwrap();
    assert!(server.wait().await.unwrap().success(), "{}", io::read_to_string(reader).unwrap());
}

#[tokio::test]
async fn where_the_network_cannot_be_denied_nothing_is_started() {
    let mut place = place();
    place.policy.network = NetworkAccess::Denied;
    let mut sandbox = place.sandbox();
    // Stands for a kernel without seccomp, which test machines rarely have.
    sandbox.status.calls = Err("for a reason".to_owned());
    let (_reader, writer) = io::pipe().unwrap();
    let error = sandbox.spawn(shell(&sandbox, "echo x > made", writer)).await.unwrap_err().to_string();
    assert!(error.contains("the network cannot be denied here: for a reason"), "{error}");
    assert!(!Path::new(&place.path("ws/made")).exists());
}

#[cfg(target_arch = "x86_64")]
#[tokio::test]
async fn second_numbers_of_calls_are_missing() {
    let test = "second_numbers_of_calls_are_missing";
    if !seccomp(test) || !python(test) {
        return;
    }
    let ran = run(&place().sandbox(), &calling(&[0x4000_0000 + libc::SYS_getpid])).await;
    assert!(ran.output.ends_with(&format!(" {}\n", libc::ENOSYS)), "{}", ran.output);
}

/// A program that makes calls, each `(name, number, arguments)` in Python, and says the error of each by name.
pub(super) fn making(calls: &str) -> String {
    format!(
        "/usr/bin/python3 -c 'import ctypes, struct
libc = ctypes.CDLL(None, use_errno=True)
def call(name, number, *arguments):
    ctypes.set_errno(0)
    rest = [a if isinstance(a, bytes) else ctypes.c_long(a) for a in arguments]
    done = libc.syscall(ctypes.c_long(number), *rest)
    print(name, ctypes.get_errno())
    return done
{calls}'"
    )
}

/// The outcome of a call, as [`making`] prints it.
pub(super) fn error_of(said: &str, name: &str) -> i32 {
    let line = said.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("{name}: {said}")).parse().unwrap()
}

/// Calls that change how the process `pid` runs, by little.
fn changing(pid: u32) -> String {
    let calls = [
        ("prlimit64", libc::SYS_prlimit64, "1, struct.pack(\"QQ\", 1 << 30, 1 << 30), 0"),
        ("sched_setaffinity", libc::SYS_sched_setaffinity, "8, struct.pack(\"Q\", (1 << 64) - 1)"),
        ("sched_setattr", libc::SYS_sched_setattr, "struct.pack(\"IIQiIQQQ\", 48, 3, 0, 5, 0, 0, 0, 0), 0"),
        ("sched_setparam", libc::SYS_sched_setparam, "struct.pack(\"i\", 0)"),
        ("sched_setscheduler", libc::SYS_sched_setscheduler, "3, struct.pack(\"i\", 0)"),
        ("migrate_pages", libc::SYS_migrate_pages, "0, 0, 0"),
        ("move_pages", libc::SYS_move_pages, "0, 0, 0, 0, 0"),
    ];
    let first = calls.map(|(name, number, rest)| format!("call(\"{name}\", {number}, {pid}, {rest})"));
    let second = [
        format!("call(\"setpriority\", {}, 0, {pid}, 5)", libc::SYS_setpriority),
        format!("call(\"ioprio_set\", {}, 1, {pid}, 2 << 13 | 7)", libc::SYS_ioprio_set),
    ];
    [first.as_slice(), &second].concat().join("\n")
}

#[tokio::test]
async fn how_other_processes_run_cannot_be_changed() {
    let test = "how_other_processes_run_cannot_be_changed";
    if !seccomp(test) || !python(test) {
        return;
    }
    let place = place();
    let mut victim = std::process::Command::new("/bin/sleep").arg("600").spawn().unwrap();
    let limits = || fs::read_to_string(format!("/proc/{}/limits", victim.id())).unwrap();
    let before = limits();
    let (others, own) = (making(&changing(victim.id())), making(&changing(0)));
    // The confined attempt comes before the free one, which changes the victim.
    let confined = run(&place.sandbox(), &others).await;
    let unchanged = limits() == before;
    let on_itself = run(&place.sandbox(), &own).await;
    let free = run(&place.open(), &others).await;
    let changed = limits();
    victim.kill().unwrap();
    victim.wait().unwrap();
    let names: Vec<&str> =
        confined.output.lines().filter_map(|line| line.split_once(' ')).map(|(name, _)| name).collect();
    assert_eq!(names.len(), 9, "{}", confined.output);
    for name in names {
        assert_eq!(error_of(&confined.output, name), libc::EPERM, "{name} on another: {}", confined.output);
        assert_ne!(error_of(&on_itself.output, name), libc::EPERM, "{name} on itself: {}", on_itself.output);
        assert_ne!(error_of(&free.output, name), libc::EPERM, "{name} without the sandbox: {}", free.output);
    }
    assert!(unchanged && changed.contains(&(1_u64 << 30).to_string()), "{changed}");
}

#[tokio::test]
async fn the_priority_of_a_group_or_a_user_cannot_be_changed() {
    let test = "the_priority_of_a_group_or_a_user_cannot_be_changed";
    if !seccomp(test) || !python(test) {
        return;
    }
    let (priority, io_priority) = (libc::SYS_setpriority, libc::SYS_ioprio_set);
    let calls = format!(
        "for kind in (1, 2): call(f\"priority-{{kind}}\", {priority}, kind, 0, 0)
for kind in (2, 3): call(f\"io-{{kind}}\", {io_priority}, kind, 0, 0)"
    );
    let ran = run(&place().sandbox(), &making(&calls)).await;
    for name in ["priority-1", "priority-2", "io-2", "io-3"] {
        assert_eq!(error_of(&ran.output, name), libc::EPERM, "{}", ran.output);
    }
}

#[tokio::test]
async fn the_runtimes_own_limits_stay_as_they_are() {
    let test = "the_runtimes_own_limits_stay_as_they_are";
    if !seccomp(test) || !Path::new("/usr/bin/prlimit").exists() {
        return;
    }
    let place = place();
    let most = 1_u64 << 50;
    let script = format!("prlimit --pid $PPID --fsize={most}:unlimited && echo changed");
    let said = run(&place.sandbox(), &script).await;
    assert!(!said.ok && said.output.contains("not permitted"), "{}", said.output);
    let own = "ulimit -f 2048 && prlimit --nofile=64:64 sh -c 'ulimit -n; ulimit -f' && nice -n 5 true && echo done";
    assert_eq!(run(&place.sandbox(), own).await.output, "64\n2048\ndone\n");
}

#[tokio::test]
async fn memory_semaphores_and_messages_of_a_user_are_out_of_reach() {
    let test = "memory_semaphores_and_messages_of_a_user_are_out_of_reach";
    if !seccomp(test) || !python(test) {
        return;
    }
    let number = |name: &str, number: i64| format!("{name} = {number}");
    let numbers = [
        number("shmget", libc::SYS_shmget),
        number("shmat", libc::SYS_shmat),
        number("shmctl", libc::SYS_shmctl),
        number("semget", libc::SYS_semget),
        number("semop", libc::SYS_semop),
        number("semtimedop", libc::SYS_semtimedop),
        number("semctl", libc::SYS_semctl),
        number("msgget", libc::SYS_msgget),
        number("msgsnd", libc::SYS_msgsnd),
        number("msgrcv", libc::SYS_msgrcv),
        number("msgctl", libc::SYS_msgctl),
        number("mq_open", libc::SYS_mq_open),
        number("mq_unlink", libc::SYS_mq_unlink),
    ];
    // All that is made is removed again (command 0), where it could be made.
    let calls = format!(
        "{}
id = call(\"shmget\", shmget, 0, 4096, 0o1600)
call(\"shmat\", shmat, id, 0, 0)
call(\"shmctl\", shmctl, id, 0, 0)
id = call(\"semget\", semget, 0, 1, 0o1600)
up = struct.pack(\"Hhh\", 0, 1, 0)
call(\"semop\", semop, id, up, 1)
call(\"semtimedop\", semtimedop, id, up, 1, 0)
call(\"semctl\", semctl, id, 0, 0, 0)
id = call(\"msgget\", msgget, 0, 0o1600)
message = ctypes.create_string_buffer(struct.pack(\"l8s\", 1, b\"12345678\"))
call(\"msgsnd\", msgsnd, id, bytes(message), 8, 0)
call(\"msgrcv\", msgrcv, id, bytes(message), 8, 0, 0o4000)
call(\"msgctl\", msgctl, id, 0, 0)
name = b\"longhaul-test-{}\"
call(\"mq_open\", mq_open, name, 0o102, 0o600, 0)
call(\"mq_unlink\", mq_unlink, name)",
        numbers.join("\n"),
        std::process::id()
    );
    let place = place();
    let free = run(&place.open(), &making(&calls)).await;
    let confined = run(&place.sandbox(), &making(&calls)).await;
    assert_eq!(confined.output.lines().count(), 13, "{}", confined.output);
    for line in confined.output.lines() {
        assert!(line.ends_with(&format!(" {}", libc::EPERM)), "{line}");
        let name = line.split_once(' ').unwrap().0;
        assert_ne!(error_of(&free.output, name), libc::EPERM, "{}", free.output);
    }
}
