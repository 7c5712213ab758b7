//! The resources of a child.

use super::*;

const MIB: u64 = 1 << 20;

fn limited(limits: ChildLimits) -> Place {
    let mut place = place();
    place.policy.limits = limits;
    place
}

/// Runs it without the limits, where `content` must come out, and with them, where it must not.
async fn only_unlimited(limits: ChildLimits, script: &str, content: &str) -> Ran {
    let free = run(&limited(ChildLimits::NONE).sandbox(), script).await;
    assert!(free.ok && free.output.contains(content), "unlimited: {script}: {}", free.output);
    let held = run(&limited(limits).sandbox(), script).await;
    assert!(!held.ok && !held.output.contains(content), "limited: {script}: {}", held.output);
    held
}

#[tokio::test]
async fn a_file_a_process_and_its_memory_have_a_largest_size() {
    let file = ChildLimits { file_bytes: Some(MIB), ..ChildLimits::NONE };
    only_unlimited(file, "head -c 3000000 /dev/zero > big && wc -c < big", "3000000").await;
    let memory = ChildLimits { memory_bytes: Some(64 * MIB), ..ChildLimits::NONE };
    let hoard =
        "head -c 200000000 /dev/zero | tail -c 200000000 > tail; n=$(wc -c < tail); echo $n; test $n -gt 0";
    only_unlimited(memory, hoard, "200000000").await;
    let files = ChildLimits { open_files: Some(64), ..ChildLimits::NONE };
    let open = "i=3; while [ $i -lt 100 ]; do ln -s /dev/fd fds 2>/dev/null; eval \"exec $i< /dev/null\" || exit 1; \
                i=$((i+1)); done; echo all open";
    // Other shells, such as dash, know descriptors of one digit only.
    if std::fs::read_link("/bin/sh").is_ok_and(|shell| shell.ends_with("bash")) {
        only_unlimited(files, open, "all open").await;
    }
    let said = run(&limited(files).sandbox(), "ulimit -n; ulimit -Hn").await;
    assert_eq!(said.output, "64\n64\n");
}

#[tokio::test]
async fn a_command_that_only_counts_is_ended_and_a_server_is_not_for_that() {
    let place = limited(ChildLimits { cpu_seconds: Some(1), ..ChildLimits::NONE });
    let sandbox = place.sandbox();
    let (mut child, _reader) = start(&sandbox, "while :; do :; done").await;
    let status = tokio::time::timeout(Duration::from_secs(60), child.wait()).await.unwrap().unwrap();
    let signal = std::os::unix::process::ExitStatusExt::signal(&status);
    assert_eq!(signal, Some(rustix::process::Signal::XCPU.as_raw()));
    let (reader, writer) = io::pipe().unwrap();
    let own = IsolatedHome::default();
    let mut server = sandbox.spawn_server(shell(&sandbox, "ulimit -t", writer), None, &own).await.unwrap();
    assert!(server.wait().await.unwrap().success());
    assert_eq!(io::read_to_string(reader).unwrap(), "unlimited\n");
}

#[tokio::test]
async fn limits_hold_from_the_first_instruction_on_for_all_that_is_started() {
    let place = limited(ChildLimits { open_files: Some(77), processes: Some(500), ..ChildLimits::NONE });
    let sandbox = place.sandbox();
    // Limits that were set too late would be missing in some of the runs only.
    for _ in 0..20 {
        let ran = run(&sandbox, "ulimit -n; sh -c 'ulimit -n'; grep processes /proc/self/limits").await;
        assert!(ran.output.starts_with("77\n77\n"), "{}", ran.output);
        // Those of the machine, and 500 more.
        let most: u64 = ran.output.split_whitespace().nth(4).unwrap().parse().unwrap();
        assert!((501..1_000_000).contains(&most), "{}", ran.output);
    }
    let held = run(&sandbox, "ulimit -n 1000 2>&1").await;
    let root = rustix::process::geteuid().is_root();
    assert!(
        !held.ok,
        "no limit is lifted again{}: {}",
        if root { ", by root neither" } else { "" },
        held.output
    );
}

#[tokio::test]
async fn a_program_keeps_its_name_its_arguments_and_its_input() {
    let place = place();
    let sandbox = place.sandbox();
    let (reader, writer) = io::pipe().unwrap();
    let (input, mut typed) = io::pipe().unwrap();
    let mut request = shell(&sandbox, "", writer);
    request.program = "sh".into();
    request.args = ["-c", "cat; printf '<%s>' \"$0\" \"$@\"", "a b", "*", "", "-x"].map(Into::into).to_vec();
    request.stdin = input.into();
    let mut child = sandbox.spawn(request).await.unwrap();
    io::Write::write_all(&mut typed, b"typed ").unwrap();
    drop(typed);
    assert!(child.wait().await.unwrap().success());
    assert_eq!(io::read_to_string(reader).unwrap(), "typed <a b><*><><-x>");
}

#[tokio::test]
async fn what_cannot_be_run_is_said_before_anything_is_started() {
    let place = place();
    let sandbox = place.sandbox();
    for program in ["ws/file", "./file", "./none", "no-such-program"] {
        let (_reader, writer) = io::pipe().unwrap();
        let request = SpawnRequest { program: program.into(), ..shell(&sandbox, "", writer) };
        let error = sandbox.spawn(request).await.unwrap_err();
        assert!(matches!(error, SandboxError::Start { .. }), "{program}: {error}");
    }
}

#[test]
fn limits_are_said_in_words() {
    let said = ChildLimits::default().to_string();
    assert_eq!(
        said,
        "14400 s of CPU, 16 GiB of memory, files of 16 GiB, 65536 open files, 4096 more processes on the machine"
    );
    assert_eq!(ChildLimits::NONE.to_string(), "none");
    let odd = ChildLimits { memory_bytes: Some(100 * MIB), file_bytes: Some(7), ..ChildLimits::NONE };
    assert_eq!(odd.to_string(), "100 MiB of memory, files of 7 bytes");
}
