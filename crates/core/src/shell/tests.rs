use super::*;

fn read(script: &str) -> Vec<(Vec<String>, Vec<String>, Vec<String>)> {
    let commands = ShellScript::read(script).commands.into_iter();
    let texts = |words: &[ShellWord]| words.iter().map(|word| word.text().to_owned()).collect();
    let output = |output: &ShellOutputFile| {
        format!("{}{}", if output.appends { ">>" } else { ">" }, output.file.text())
    };
    commands
        .map(|command| {
            let outputs = command.outputs.iter().map(output).collect();
            (texts(&command.words), outputs, command.substitutions)
        })
        .collect()
}

fn case(words: &[&str], outputs: &[&str], substitutions: &[&str]) -> (Vec<String>, Vec<String>, Vec<String>) {
    let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    (owned(words), owned(outputs), owned(substitutions))
}

#[test]
fn commands_are_split_and_their_outputs_are_no_words() {
    assert_eq!(
        read("a 'b c'; d|e\nf"),
        [
            case(&["a", "b c"], &[], &[]),
            case(&["d"], &[], &[]),
            case(&["e"], &[], &[]),
            case(&["f"], &[], &[]),
        ]
    );
    for (script, outputs) in [
        ("cc x >out", &[">out"][..]),
        ("cc x >>out 2>log", &[">>out", ">log"]),
        ("cc x >|out", &[">out"]),
        ("cc x >&out", &[">out"]),
        ("cc x 2>&1 1>&- <in", &[]),
        ("cc x <>both", &[]),
        ("cc x <<<text", &[]),
    ] {
        assert_eq!(read(script), [case(&["cc", "x"], outputs, &[])], "{script}");
    }
    assert_eq!(read("cc x &>out"), [case(&["cc", "x"], &[], &[]), case(&[], &[">out"], &[])]);
}

#[test]
fn substitutions_and_documents_belong_to_their_command() {
    assert_eq!(read("a \"$(b; c)\" `d`"), [case(&["a", "$(b; c)", "`d`"], &[], &["b; c", "d"])]);
    assert_eq!(read("a <<E >out\n$(b)\nE\nc"), [case(&["a"], &[">out"], &["b"]), case(&["c"], &[], &[]),]);
    assert_eq!(read("a <<'E'\n$(b)\nE\nc"), [case(&["a"], &[], &[]), case(&["c"], &[], &[])]);
}

#[test]
fn the_lines_of_a_windows_script_end_without_their_carriage_return() {
    assert_eq!(read("cat a\r\ncat b\r\n"), [case(&["cat", "a"], &[], &[]), case(&["cat", "b"], &[], &[])]);
}

#[test]
fn unknown_parts_are_marked_and_keep_their_source() {
    let word = |script: &str| ShellScript::read(script).commands.remove(0).words.remove(0);
    for (script, is_known) in [
        ("a", true),
        ("'$a'", true),
        ("\\*", true),
        ("[", true),
        ("{}", true),
        ("$a", false),
        ("\"$a\"", false),
        ("*.rs", false),
        ("{a,b}", false),
        ("a[bc]", false),
    ] {
        assert_eq!(word(script).is_known(), is_known, "{script}");
    }
    let parts: Vec<ShellPart> = word("a${x}é*").value.parts().collect();
    assert_eq!(
        parts,
        [ShellPart::Literal('a'), ShellPart::Unknown, ShellPart::Literal('é'), ShellPart::Unknown,]
    );
    let name = word("\"${x/y}\"/b$z").last_component();
    assert_eq!((name.as_str(), name.is_known()), ("b$z", false));
    assert_eq!(word("a/${x/y}").last_component().as_str(), "${x/y}");
}
