//! System calls and the network.

use std::net::TcpListener;
use std::os::unix::net::UnixListener;

use super::*;
use crate::sandbox::calls::REFUSED;

/// Whether there is a Python for calls that no shell makes. A test that needs it and does not find it says so.
fn python(test: &str) -> bool {
    let there = Path::new("/usr/bin/python3").exists();
    if !there {
        eprintln!("SKIPPED {test}: no /usr/bin/python3");
        assert!(std::env::var_os("LONGHAUL_REQUIRE_PYTHON").is_none(), "{test} needs /usr/bin/python3");
    }
    there
}

/// Whether calls are filtered here; as [`landlock`].
fn seccomp(test: &str) -> bool {
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
    for script in [clone(libc::SYS_unshare, new_user), clone(libc::SYS_clone, new_user | libc::SIGCHLD)] {
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
    place.policy.network = Network::Denied;
    let sandbox = place.sandbox();
    for way in &ways {
        let ran = run(&sandbox, way).await;
        assert!(!ran.ok && ran.output.contains("not permitted"), "{way}: {}", ran.output);
    }
    // Pairs are within one program, and many need them.
    let pair =
        "/usr/bin/python3 -c 'import socket; a, b = socket.socketpair(); a.send(b\"x\"); print(\"sent\")'";
    assert_eq!(run(&sandbox, pair).await.output, "sent\n");
    // What a person says of one server holds for that one.
    let (reader, writer) = io::pipe().unwrap();
    let request = shell(&sandbox, &ways[0], writer);
    let mut server = sandbox.spawn_server(request, Some(Network::Open)).await.unwrap();
    assert!(server.wait().await.unwrap().success(), "{}", io::read_to_string(reader).unwrap());
}

#[tokio::test]
async fn where_the_network_cannot_be_denied_nothing_is_started() {
    let mut place = place();
    place.policy.network = Network::Denied;
    let mut sandbox = place.sandbox();
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
