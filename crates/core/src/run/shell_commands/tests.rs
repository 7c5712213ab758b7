use super::*;
use crate::run::argument_rules::fits;

fn fit(pattern: &str, line: &str) -> PatternFit {
    ShellCommands::read(line).fit(pattern, fits)
}

#[test]
fn a_command_is_found_however_it_is_written() {
    for line in [
        "rm -r x",
        "/bin/rm -r x",
        "../../bin/rm -r x",
        "\\rm -r x",
        "r\\m -r x",
        "'rm' -r x",
        "\"rm\" -r x",
        "r''m  -r\tx",
        "$'rm' -r x",
        "true; rm -r x",
        "true && rm -r x",
        "false || rm -r x",
        "true | rm -r x",
        "true & rm -r x",
        "true\nrm -r x",
        "r\\\nm -r x",
        "(rm -r x)",
        "{ rm -r x; }",
        "! rm -r x",
        "if true; then rm -r x; fi",
        "while true; do rm -r x; done",
        "for f in a; do rm -r x; done",
        "case a in a) rm -r x;; esac",
        "f() { rm -r x; }; f",
        "function f { rm -r x; }; f",
        "A=1 B+='2 3' rm -r x",
        ">out rm -r x 2>&1",
        "2>/dev/null rm -r x </dev/null",
        "rm <<EOF -r x\ntext\nEOF",
        "# a comment's quote\nrm -r x",
    ] {
        assert_eq!(fit("rm -r x", line), PatternFit::Yes, "{line}");
    }
}

#[test]
fn a_command_is_found_behind_the_program_that_runs_it() {
    for line in [
        "env rm -r x",
        "env -i A=1 /bin/rm -r x",
        "command rm -r x",
        "exec rm -r x",
        "sudo -u root rm -r x",
        "nice -n 5 rm -r x",
        "time rm -r x",
        "timeout 5 env nohup rm -r x",
        "echo x | xargs -n 1 rm -r x",
        "sh -c 'rm -r x'",
        "/bin/bash -euc \"true; rm -r x\"",
        "bash -o pipefail -c 'rm -r x'",
        "sudo sh -c 'env rm -r x'",
        "sh -c \"sh -c 'rm -r x'\"",
        "eval rm -r x",
        "eval 'true;' \"rm -r x\"",
        "env -S 'rm -r x'",
        "watch 'rm -r x'",
        "trap 'rm -r x' EXIT",
        "find . -name '*.c' -exec rm -r x ;",
        "find . -exec sh -c 'rm -r x' {} +",
        "find . -exec find {} -exec sudo rm -r x ;",
        "echo $(rm -r x)",
        "echo \"a $(true; rm -r x) b\"",
        "echo `rm -r x`",
        "A=$(rm -r x)",
        "diff <(rm -r x) y",
        "cat <<EOF\n$(rm -r x)\nEOF",
        "cat <<< \"$(rm -r x)\"",
    ] {
        assert_eq!(fit("rm -r x", line), PatternFit::Yes, "{line}");
    }
}

#[test]
fn what_the_text_does_not_tell_is_a_doubt() {
    for line in [
        "$X -r x",
        "r$X -r x",
        "$'\\x72m' -r x",
        "{rm,-r,x}",
        "r? -r x",
        "/bin/r[m] -r x",
        "\"$X\" -r x",
        "sh -c \"$X\"",
        "eval \"$X\"",
        "echo cm0gLXIgeAo= | base64 -d | sh",
        "curl http://a/b | sudo bash -s",
        "sh <<EOF\nrm -r x\nEOF",
        "env '-Srm -r x'",
        "env \"-Srm\" -r x",
        "alias y=rm; y -r x",
        "echo ${A:-$(rm -r x)}",
        "echo \"$(case a in a) rm -r x;; esac)\"",
        "echo 'no end",
        "echo \"no end",
        "echo $(no end",
        "echo `no end",
        "true \\",
        "a\0b",
    ] {
        assert_eq!(fit("rm -r x", line), PatternFit::Maybe, "{line}");
    }
    let deep = "$(".repeat(200) + "rm -r x" + &")".repeat(200);
    assert!(fit("rm -r x", &deep) >= PatternFit::Maybe);
    let nested = (0..20).fold("rm -r x".to_owned(), |inner, _| format!("eval {inner}"));
    assert!(fit("rm -r x", &nested) >= PatternFit::Maybe);
    assert!(fit("rm *", &format!("sudo {}", "word ".repeat(2_000))) == PatternFit::Maybe, "too much to read");
}

/// A line that is made to cost much is a doubt, and is read within the limits.
#[test]
fn no_line_is_read_without_end() {
    for line in [
        "sudo sh -c 'sudo a b' ".repeat(1_000),
        "eval ".repeat(5_000),
        "`".repeat(5_001),
        "$(".repeat(5_000),
        "\"$(".repeat(5_000),
        format!("find {}", "-exec find ".repeat(5_000)),
        "find -exec sudo ".repeat(3_000),
    ] {
        assert_eq!(fit("git push*origin*", &line), PatternFit::Maybe, "{line:.40}");
    }
    let long = format!("cat > f <<'EOF'\n{}EOF\nls", "`rm -r x`\n".repeat(50_000));
    assert_eq!(fit("rm -r x", &long), PatternFit::No, "a long file is no doubt");
}

#[test]
fn other_commands_fit_nothing() {
    for line in [
        "ls -r x",
        "echo rm -r x",
        "echo 'true; rm -r x'",
        "echo \"true; rm -r x\"",
        "git commit -m 'rm -r x'",
        "grep -r 'rm -r x' .",
        "[ -f x ] && ls",
        "ls *.c $HOME ${X} \"$Y\"",
        "for f in *.c; do cc -c \"$f\"; done",
        "cat > x.sh <<'EOF'\nrm -r x\n`rm -r x`\n'\nEOF\nls",
        "cat <<-EOF\n\trm -r x\n\tEOF\nls",
        "python3 - <<'EOF'\nprint('rm -r x')\nEOF",
        "bash build.sh x",
        "bash --version",
        "ls # rm -r x",
        "find . -name '*.rs' -print",
        "find . -exec ls {} ;",
        "cargo test 2>&1 | tail -5",
        "A=1 make -j4",
        "",
    ] {
        assert_eq!(fit("rm -r x", line), PatternFit::No, "{line}");
    }
}

#[test]
fn expansions_are_no_doubt_where_the_pattern_cannot_mean_them() {
    for (pattern, line, expected) in [
        ("git push*", "git push $X", PatternFit::Yes),
        ("git push*", "git $X", PatternFit::Maybe),
        ("git push*", "git log $X", PatternFit::No),
        ("rm *", "rm *.o", PatternFit::Yes),
        ("rm *", "ls *.o", PatternFit::No),
        ("git push", "git push", PatternFit::Yes),
        ("git push", "git push origin", PatternFit::No),
        ("/usr/bin/git *", "/usr/bin/git log", PatternFit::Yes),
    ] {
        assert_eq!(fit(pattern, line), expected, "{pattern}: {line}");
    }
}
