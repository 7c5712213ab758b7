//! What the agent's commands try against the program that runs them.

use serde_json::json;

use crate::bench::{Bench, given, until};
use crate::fake::{Fake, Say};
use crate::serve::{ask, end, start, token};

/// A command that tries to say yes to the question `approval` of the server at `address`, in every way it has.
fn approving(bench: &Bench, address: &str, approval: &str) -> String {
    let (port, data) = (address.rsplit(':').next().unwrap(), bench.data().display().to_string());
    let body = r#"{"decision":"allow"}"#;
    let say = |headers: &str| {
        let length = body.len();
        format!(
            "exec 3<>/dev/tcp/127.0.0.1/{port}; printf '%b' 'POST /api/approvals/{approval} HTTP/1.1\\r\\nHost: 127.0.0.1:{port}\\r\\n{headers}Content-Type: application/json\\r\\nContent-Length: {length}\\r\\nConnection: close\\r\\n\\r\\n{body}' >&3; head -1 <&3; exec 3>&-\n"
        )
    };
    // Without a token, with the token's file, with words that a careless check takes, as the page, and as a
    // proxied request of this machine.
    let ways = [
        say(""),
        say(&format!("Authorization: Bearer '$(cat {data}/token)'\\r\\n")),
        say("Authorization: Bearer null\\r\\n"),
        say("Cookie: longhaul=x; token=x\\r\\n"),
        say(&format!("Origin: http://127.0.0.1:{port}\\r\\nX-Forwarded-For: 127.0.0.1\\r\\n")),
    ];
    format!(
        "cat {data}/token {data}/serving.json; ls {data}; cat /proc/$PPID/environ; cat /proc/[0-9]*/environ; ls -l /proc/$PPID/fd; \
         ln {data}/token t; ln -s {data}/token s; cat t s; cat /proc/$PPID/root{data}/token; env\n{}echo tried",
        ways.concat()
    )
}

#[cfg(target_os = "linux")]
#[test]
fn a_command_cannot_allow_what_a_person_is_asked() {
    let bench = Bench::new();
    let file = bench.write(
        "asking.yml",
        "approvals: { rules: [{ tool: bash, decision: allow }] }\nmodel: { provider: openai-compatible, name: fake-1, base_url: 'BASE' }\n",
    );
    let first = Fake::start([Say::Call("write", json!({ "path": "made.txt", "content": "x" }))]);
    let text = std::fs::read_to_string(&file).unwrap().replace("BASE", &first.url());
    std::fs::write(&file, text).unwrap();
    let command = bench.command(["--config", file.to_str().unwrap(), "serve", "--addr", "127.0.0.1:0"]);
    let (mut server, address, _said) = start(command);
    let token = token(&bench);
    let send = |content: &str| {
        let sent =
            ask(&address, "POST", "/api/message", &token, &json!({ "content": content }).to_string()).1;
        sent["sessionId"].as_str().unwrap().to_owned()
    };
    let asking = send("write a file");
    let pending = || ask(&address, "GET", "/api/approvals", &token, "").1["approvals"].clone();
    until("a person is asked", || pending()[0]["sessionId"] == asking.as_str());
    let approval = pending()[0]["approvalId"].as_str().unwrap().to_owned();

    // Another session of the same server knows the question's name, and may run commands.
    first.say(Say::Call("bash", json!({ "command": approving(&bench, &address, &approval) })));
    let attacking = send("attack");
    let messages =
        || ask(&address, "GET", &format!("/api/sessions/{attacking}/messages"), &token, "").1.to_string();
    until("the command has ended", || messages().contains("exit code"));
    let said = messages();
    assert!(said.contains("tried") && said.matches("401 Unauthorized").count() == 5, "{said}");
    assert!(!said.contains(&token), "{said}");
    assert_eq!(pending()[0]["approvalId"], approval.as_str(), "it is still open");
    assert!(!bench.work().join("made.txt").exists());
    let path = format!("/api/approvals/{approval}");
    assert_eq!(ask(&address, "POST", &path, &token, r#"{"decision":"allow"}"#).0, 200);
    until("the file is there once a person said yes", || bench.work().join("made.txt").exists());
    end(&mut server);
}

#[cfg(target_os = "linux")]
#[test]
fn the_doctor_says_what_commands_may_do() {
    let bench = Bench::new();
    // A file that was merely found may lift no limit.
    let path = bench.write(
        "longhaul.yml",
        "model: { provider: scripted }\nsandbox: { network: deny, limits: { memoryBytes: 1073741824, processes: none } }",
    );
    let given = bench.run(&["--config", path.to_str().unwrap(), "doctor"]).exits(0);
    if given.out.contains("not confined") {
        eprintln!("SKIPPED the_doctor_says_what_commands_may_do: {}", given.out);
        assert!(std::env::var_os("LONGHAUL_REQUIRE_LANDLOCK").is_none());
        return;
    }
    for expected in [
        "confined by Landlock",
        "and seccomp",
        "may change",
        &bench.work().canonicalize().unwrap().display().to_string(),
        "may read",
        "/usr",
        "closed to commands: they can make no socket",
        "hard link",
        "the agent file",
        "1 GiB of memory",
        "not guarded",
    ] {
        assert!(given.out.contains(expected), "{expected}: {}", given.out);
    }
    assert!(!given.out.contains("more processes"), "{}", given.out);
    bench.write("longhaul.yml", "model: { provider: scripted }");
    let open = bench.run(&["doctor"]).exits(0).out;
    assert!(open.contains("open to commands") && open.contains("UNIX socket"), "{open}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_command_without_the_network_reaches_nobody() {
    let bench = Bench::new();
    let tried = "(exec 3<>/dev/tcp/127.0.0.1/PORT) 2>&1 && echo rea''ched";
    let fake = Fake::start([]);
    let port = fake.url().split(':').nth(2).unwrap().split('/').next().unwrap().to_owned();
    for (network, reaches) in [("allow", true), ("deny", false)] {
        let file = bench.write("net.yml", &format!("sandbox: {{ network: {network} }}\n"));
        fake.say(Say::Call("bash", json!({ "command": tried.replace("PORT", &port) })));
        bench.run_with(&fake, &["--config", file.to_str().unwrap(), "run", "--yes", "try"]).exits(0);
        let told = fake.asked().pop().unwrap().to_string();
        assert_eq!(told.contains("reached"), reaches, "{network}: {told}");
        assert_eq!(told.contains("not permitted"), !reaches, "{network}: {told}");
    }
}

#[test]
fn a_rule_over_arguments_lets_through_what_its_pattern_shows_and_no_more() {
    let bench = Bench::new();
    let file = bench.write(
        "rules.yml",
        "approvals: { rules: [{ tool: bash, match: { command: 'echo *' }, decision: allow }] }\n",
    );
    let fake = Fake::start([]);
    for (command, runs) in
        [("echo it-'ran'", true), ("echo it-'ran'; touch made", false), ("touch made", false)]
    {
        fake.say(Say::Call("bash", json!({ "command": command })));
        bench.run_with(&fake, &["--config", file.to_str().unwrap(), "run", "try"]).exits(0);
        let told = fake.asked().pop().unwrap().to_string();
        assert_eq!(told.contains("it-ran"), runs, "{command}: {told}");
        assert_eq!(told.contains("needs a person's approval"), !runs, "{command}: {told}");
    }
    assert!(!bench.work().join("made").exists());
}

/// A guard of the server's own process, tried from a command as an agent runs it.
#[cfg(target_os = "linux")]
#[test]
fn a_command_does_not_end_the_server_by_its_limits() {
    let bench = Bench::new();
    let file = bench.write(
        "own.yml",
        "approvals: { rules: [{ tool: bash, decision: allow }] }\nmodel: { provider: openai-compatible, name: fake-1, base_url: 'BASE' }\n",
    );
    // A process may lower the limits of any process of its user, and a file size of 0 would end the server's
    // writes.
    let command = "for limit in fsize nofile cpu; do prlimit --pid $PPID --$limit=0:0; done 2>&1; echo tried";
    let fake = Fake::start([Say::Call("bash", json!({ "command": command }))]);
    let text = std::fs::read_to_string(&file).unwrap().replace("BASE", &fake.url());
    std::fs::write(&file, text).unwrap();
    let command = bench.command(["--config", file.to_str().unwrap(), "serve", "--addr", "127.0.0.1:0"]);
    let (mut server, address, _said) = start(command);
    let token = token(&bench);
    let limits = || std::fs::read_to_string(format!("/proc/{}/limits", server.id())).unwrap();
    let before = limits();
    let sent = ask(&address, "POST", "/api/message", &token, r#"{"content":"attack"}"#).1;
    let path = format!("/api/sessions/{}/messages", sent["sessionId"].as_str().unwrap());
    let messages = || ask(&address, "GET", &path, &token, "").1.to_string();
    until("the command has ended", || messages().contains("exit code"));
    let said = messages();
    assert!(said.contains("tried") && said.matches("not permitted").count() == 3, "{said}");
    assert_eq!(limits(), before);
    assert_eq!(ask(&address, "POST", "/api/sessions", &token, "{}").0, 201, "it goes on writing");
    end(&mut server);
}

#[cfg(target_os = "linux")]
#[test]
fn a_command_has_no_descriptor_that_longhaul_was_started_with() {
    let bench = Bench::new();
    let secret = bench.data().with_file_name("secret");
    std::fs::write(&secret, "hidden-content\n").unwrap();
    let fake = Fake::start([Say::Call("bash", json!({ "command": "read line <&9 && echo \"got $line\"" }))]);
    let inner = bench.with(&fake, &["run", "--yes", "try"]);
    let mut outer = std::process::Command::new("/bin/bash");
    // The shell hands descriptor 9 down to longhaul, as a careless parent process would.
    outer.args(["-c", "exec 9<\"$0\"; exec \"$@\""]).arg(&secret).arg(inner.get_program());
    outer.args(inner.get_args()).env_clear().current_dir(bench.work());
    outer.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
    given(outer.stdin(std::process::Stdio::null()).output().unwrap()).exits(0);
    let told = fake.asked().pop().unwrap().to_string();
    assert!(!told.contains("hidden-content") && told.contains("Bad file descriptor"), "{told}");
}

#[cfg(target_os = "linux")]
#[test]
fn the_agent_file_in_use_is_not_the_agents_to_change() {
    let bench = Bench::new();
    let note = "commands can change the agent file";
    let fake = Fake::start([]);
    let rewrite = Say::Call("write", json!({ "path": "longhaul.yml", "content": "name: theirs\n" }));
    fake.say(rewrite);
    let given = bench.run_with(&fake, &["run", "--yes", "try"]).exits(0);
    assert!(!given.err.contains(note), "none is in use: {given:?}");
    let file = bench.write("longhaul.yml", "name: mine\nagents: { other: beside.yml }\n");
    bench.write("beside.yml", "name: other\nmodel: { provider: scripted }\n");
    for path in ["longhaul.yml", "beside.yml"] {
        fake.say(Say::Call("write", json!({ "path": path, "content": "name: theirs\n" })));
        let given = bench.run_with(&fake, &["run", "--yes", "try"]).exits(0);
        assert!(given.err.contains(note) && given.err.contains(path), "{given:?}");
        let told = fake.asked().pop().unwrap().to_string();
        assert!(told.contains("is the agent file in use"), "{told}");
    }
    assert!(std::fs::read_to_string(&file).unwrap().starts_with("name: mine"));
    let outside = bench.data().with_file_name("longhaul.yml");
    std::fs::rename(&file, &outside).unwrap();
    std::fs::rename(bench.work().join("beside.yml"), outside.with_file_name("beside.yml")).unwrap();
    let config = outside.to_str().unwrap();
    let given = bench.run_with(&fake, &["--config", config, "run", "--yes", "try"]).exits(0);
    if !bench.run(&["doctor"]).out.contains("not confined") {
        assert!(!given.err.contains(note), "{given:?}");
    }
    bench.write("longhaul.yml", "model: { provider: scripted }\n");
    let (mut server, _address, said) = start(bench.command(["serve", "--addr", "127.0.0.1:0"]));
    end(&mut server);
    let said = std::io::read_to_string(said).unwrap();
    assert_eq!(said.matches(note).count(), 1, "{said}");
}
