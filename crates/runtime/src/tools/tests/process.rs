//! `bash`: output, limits, and that nothing survives it.

use super::*;

fn alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

impl Bench {
    /// Waits for a process id that a command writes into the workspace.
    async fn pid(&self, file: &str) -> u32 {
        let path = self.base.join("ws").join(file);
        for _ in 0..3_000 {
            if let Some(pid) =
                fs::read_to_string(&path).ok().and_then(|text| text.strip_suffix('\n')?.parse().ok())
            {
                return pid;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("no process id in {}", path.display());
    }

    fn bash(&self, command: &str) -> impl Future<Output = ToolOutput> + use<> {
        let call = ToolInput::new(json!({"command": command}), self.context.clone());
        async move { bash::BashTool::new().run(call).await }
    }
}

fn grace(millis: u64) -> ToolLimits {
    ToolLimits { kill_grace: Duration::from_millis(millis), ..ToolLimits::default() }
}

#[tokio::test]
async fn output_and_errors_come_in_order_with_the_exit_code() {
    let bench = bench();
    let text =
        bench.ok("bash", json!({"command": "echo a; echo b >&2; echo c; cat", "description": "order"})).await;
    assert_eq!(text, "a\nb\nc\n[exit code 0]");
    let output = bench.run("bash", json!({"command": "printf partly; exit 3"})).await;
    assert!(output.is_error && !output.cancelled);
    assert_eq!(output.as_text(), "partly\n[exit code 3]");
    assert_eq!(output.keep, PreservedEnd::Both);
    assert_eq!(bench.ok("bash", json!({"command": "true"})).await, "(no output)\n[exit code 0]");
    let root = bench.base.join("ws").display().to_string();
    assert!(bench.ok("bash", json!({"command": "pwd"})).await.starts_with(&root));
}

#[tokio::test]
async fn output_is_shown_while_it_comes() {
    let mut bench = bench();
    let running = tokio::spawn(bench.bash("echo ä; while ! test -e go; do sleep 0.02; done; echo b"));
    let first = bench.progress.recv().await.unwrap();
    assert_eq!(first, ToolProgress { offset: 0, text: "ä\n".to_owned() });
    assert!(!running.is_finished());
    bench.file("go", "");
    assert_eq!(bench.progress.recv().await.unwrap(), ToolProgress { offset: 2, text: "b\n".to_owned() });
    assert_eq!(running.await.unwrap().as_text(), "ä\nb\n[exit code 0]");
}

#[tokio::test]
async fn a_watcher_who_does_not_read_holds_nothing_up() {
    let mut bench = bench();
    let (sender, mut receiver) = mpsc::channel(1);
    bench.context.progress = sender;
    let text =
        bench.ok("bash", json!({"command": "for i in $(seq 200); do echo $i; sleep 0.001; done"})).await;
    assert_eq!(text.lines().count(), 201);
    assert_eq!(receiver.recv().await.unwrap().offset, 0);
}

#[tokio::test]
async fn a_hundred_megabytes_stay_within_bounds() {
    let limits = ToolLimits { capture_bytes: 1024 * 1024, ..ToolLimits::default() };
    let bench = bench_with(limits);
    let command = "echo start; head -c 100000000 /dev/zero | tr '\\0' x; echo; echo end";
    let output = bench.run("bash", json!({"command": command})).await;
    let text = output.as_text();
    assert_eq!(output.lost_bytes, 100_000_000 + 11 - 1024 * 1024);
    assert!(text.starts_with("start\n") && text.ends_with("end\n[exit code 0]"));
    assert!(text.len() < 1024 * 1024 + 200, "{}", text.len());
}

#[tokio::test]
async fn bytes_that_are_no_text_are_shown_and_counted() {
    let bench = bench();
    let text = bench.ok("bash", json!({"command": "printf 'a\\377\\376b'"})).await;
    assert_eq!(
        text,
        "a\u{fffd}\u{fffd}b\n[2 bytes of the output are not UTF-8 and shown as \u{fffd}]\n[exit code 0]"
    );
}

#[tokio::test]
async fn the_time_limit_ends_a_command_and_its_output_is_kept() {
    let mut bench = bench_with(grace(200));
    let begun = Instant::now();
    for (command, end) in [
        ("echo before; sleep 300", "killed by signal "),
        ("trap '' TERM; echo before; while :; do sleep 0.02; done", "killed by signal 9"),
    ] {
        let call = json!({"command": command, "timeoutMs": 300_000});
        let call = ToolInput::new(call, bench.context.clone());
        let running = tokio::spawn(async move { bash::BashTool::new().run(call).await });
        assert_eq!(bench.progress.recv().await.unwrap().text, "before\n");
        // Time that is paused goes on to the limit as soon as nothing else is to be done.
        tokio::time::pause();
        let output = running.await.unwrap();
        tokio::time::resume();
        assert!(output.is_error && !output.cancelled);
        let text = output.as_text();
        assert!(text.starts_with("before\n") && text.contains("time limit of 300000 ms reached"), "{text}");
        assert!(text.contains(end), "{text}");
    }
    assert!(begun.elapsed() < Duration::from_secs(200), "neither was waited for");
}

#[tokio::test]
async fn a_command_that_ends_within_the_grace_keeps_its_result() {
    let bench = bench_with(grace(60_000));
    let command = "trap 'echo cleaned up; exit 0' TERM; echo $$ > pid; while :; do sleep 0.02; done";
    let running = tokio::spawn(bench.bash(command));
    bench.pid("pid").await;
    bench.context.cancel.cancel();
    let output = running.await.unwrap();
    assert!(!output.cancelled && !output.is_error, "{output:?}");
    // The shell may mention its `sleep`, which was told to end as well.
    assert!(output.as_text().ends_with("cleaned up\n[cancelled; exit code 0]"), "{output:?}");
}

#[tokio::test]
async fn a_cancel_ends_grandchildren_that_do_not_listen() {
    let bench = bench_with(grace(300));
    let deaf = "trap '' TERM; echo $$ > PID; while :; do sleep 0.02; done";
    // Once under a leader that ends when told to, once under one as deaf as they are.
    let leaders = ["bash -c \"$DEAF\" & wait", "trap '' TERM; bash -c \"$DEAF\" & wait; sleep 60"];
    for (index, leader) in leaders.iter().enumerate() {
        let cancel = CancellationToken::new();
        let context = ToolContext { cancel: cancel.clone(), ..bench.context.clone() };
        let file = format!("pid{index}");
        let command = format!("DEAF='{}'; {leader}", deaf.replace("PID", &file).replace('\'', "'\\''"));
        let call = ToolInput::new(json!({"command": command}), context);
        let running = tokio::spawn(async move { bash::BashTool::new().run(call).await });
        let grandchild = bench.pid(&file).await;
        assert!(alive(grandchild));
        cancel.cancel();
        let output = running.await.unwrap();
        assert!(output.cancelled && output.is_error, "{output:?}");
        assert!(!alive(grandchild), "{leader}");
    }
}

#[tokio::test]
async fn dropping_a_call_ends_its_processes() {
    let bench = bench();
    let running = tokio::spawn(bench.bash("trap '' TERM; sleep 300 & echo $! > pid; wait; wait"));
    let grandchild = bench.pid("pid").await;
    assert!(alive(grandchild));
    running.abort();
    let _ = running.await;
    for _ in 0..3_000 {
        if !alive(grandchild) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the grandchild lives");
}

#[tokio::test]
async fn background_processes_end_with_the_command_and_hold_nothing_up() {
    let bench = bench();
    let begun = Instant::now();
    let text = bench.ok("bash", json!({"command": "sleep 300 & echo $! > pid; echo done"})).await;
    assert_eq!(text, "done\n[exit code 0]");
    assert!(begun.elapsed() < Duration::from_secs(20));
    assert!(!alive(bench.pid("pid").await));
}
