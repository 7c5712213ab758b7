use super::*;
use crate::message::Role;

const ROOMY: TextLimit = TextLimit { max_chars: 100_000, max_tokens: 10_000 };

fn tool(name: &str, description: &str, parameters: &str) -> ToolSpec {
    ToolSpec {
        name: name.to_owned(),
        description: description.to_owned(),
        parameters: RawJson(parameters.to_owned()),
        read_only: false,
        poll: false,
        source: name.split("__").next().unwrap_or_default().to_owned(),
    }
}

const ISSUE: &str = r#"{"type":"object","properties":{"title":{"type":"string"},"labels":{"type":"array","items":{"type":"string"}},"kind":{"enum":["bug","task"]}},"required":["title"],"additionalProperties":false}"#;

fn deferred() -> DeferredTools {
    DeferredTools::new(vec![
        tool("tracker__createIssue", "Opens a new issue in the tracker.", ISSUE),
        tool("tracker__list_issues", "Lists issues of a project.", r#"{"type":"object"}"#),
        tool("mail__send", "Sends an e-mail to a person.", r#"{"type":"object"}"#),
        tool("calendar__add_event", "Adds an event to the calendar.", r#"{"type":"object"}"#),
        tool("weather__forecast", "Returns the weather of the next days for a city.", r#"{"type":"object"}"#),
    ])
}

fn names(found: &[&ToolSpec]) -> Vec<String> {
    found.iter().map(|spec| spec.name.clone()).collect()
}

#[test]
fn tools_are_found_by_words_of_name_and_description() {
    let deferred = deferred();
    assert_eq!(names(&deferred.find("create an issue", 5))[0], "tracker__createIssue");
    assert_eq!(names(&deferred.find("weather in Paris", 5))[0], "weather__forecast");
    assert_eq!(names(&deferred.find("send mail", 5))[0], "mail__send");
    assert_eq!(names(&deferred.find("calendar__add_event", 5))[0], "calendar__add_event");
    assert_eq!(names(&deferred.find("forecasts", 1)), ["weather__forecast"], "another form of the word");
    assert!(deferred.find("frobnicate", 5).is_empty());
}

#[test]
fn a_tool_gets_nothing_from_its_neighbours_in_the_list() {
    let found = deferred().find("weather", 5).len();
    assert_eq!(found, 1, "the event beside it has no word of the query");
    let tools = ["a__one", "a__two", "a__three"];
    let alike = DeferredTools::new(tools.iter().map(|name| tool(name, "does a thing", "{}")).collect());
    assert_eq!(names(&alike.find("thing", 3)), tools, "equal hits keep the order of the list");
    assert_eq!(names(&alike.find("thing", 2)), tools[..2], "also those that are cut off");
}

#[test]
fn a_search_returns_schemas_as_far_as_there_is_room() {
    let deferred = deferred();
    let said = deferred.search(r#"{"query":"issue"}"#, &ROOMY).unwrap();
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 3, "{said}");
    assert!(lines[0].contains("tool_call"), "{said}");
    let first: serde_json::Value = serde_json::from_str(lines[1]).unwrap();
    assert_eq!(first["name"], "tracker__createIssue");
    assert!(lines[1].ends_with(&format!(r#""parameters":{ISSUE}}}"#)), "the schema's own bytes: {said}");
    let short = deferred.search(r#"{"query":"issue"}"#, &TextLimit { max_tokens: 60, ..ROOMY }).unwrap();
    assert!(short.ends_with("Not shown for want of room: tracker__list_issues."), "{short}");
    let one = deferred.search(r#"{"query":"issue","limit":1}"#, &ROOMY).unwrap();
    assert_eq!(one.lines().count(), 2, "{one}");
}

#[test]
fn a_search_is_understood_as_small_models_write_it() {
    let deferred = deferred();
    let usual = deferred.search(r#"{"query":"weather"}"#, &ROOMY).unwrap();
    for arguments in [r#""weather""#, "weather", r#"{"q":"weather"}"#] {
        assert_eq!(deferred.search(arguments, &ROOMY).unwrap(), usual, "{arguments}");
    }
    for arguments in ["", "{}", "null", "[]", r#"{"query":" "}"#] {
        assert!(deferred.search(arguments, &ROOMY).unwrap_err().contains("tool_search"), "{arguments}");
    }
    let nothing = deferred.search(r#"{"query":"frobnicate"}"#, &ROOMY).unwrap();
    assert!(nothing.contains("No tool matches `frobnicate`") && nothing.contains("mail__send"), "{nothing}");
}

#[test]
fn a_call_is_one_of_the_tool_with_the_models_own_arguments() {
    let deferred = deferred();
    let inner = r#"{ "title" : "A \u00e9",  "labels":["x"] }"#;
    for written in [
        format!(r#"{{"name":"tracker__createIssue","arguments":{inner}}}"#),
        format!(r#"{{"arguments":{inner},"name":"tracker__createIssue"}}"#),
        format!(r#"{{"tool":"createIssue","args":{inner}}}"#),
        format!(r#"{{"name":"TRACKER__CREATEISSUE","arguments":{}}}"#, quoted(inner)),
    ] {
        let call = deferred.resolve(&written).unwrap();
        assert_eq!(
            (call.name.as_str(), call.arguments.as_str()),
            ("tracker__createIssue", inner),
            "{written}"
        );
    }
    let flat = deferred.resolve(r#"{"name":"tracker__createIssue","title":"A"}"#).unwrap();
    assert_eq!(flat.arguments, r#"{"title":"A"}"#);
    let none = deferred.resolve(r#"{"name":"mail__send"}"#).unwrap();
    assert_eq!(none.arguments, "{}");
}

#[test]
fn a_call_that_cannot_be_made_says_why_and_what_would_do() {
    let deferred = deferred();
    let unknown = deferred.resolve(r#"{"name":"issue_create","arguments":{}}"#).unwrap_err();
    assert!(
        unknown.contains("no tool named `issue_create`") && unknown.contains("tracker__createIssue"),
        "{unknown}"
    );
    for (arguments, why) in [
        ("{}", "`title` is missing"),
        (r#"{"title":1}"#, "`title` must be a text, not a number"),
        (r#"{"title":"a","labels":["x",2]}"#, "`labels[1]` must be a text, not a number"),
        (r#"{"title":"a","kind":"chore"}"#, r#"`kind` must be one of ["bug","task"]"#),
        (r#"{"title":"a","owner":"b"}"#, "`owner` is no argument"),
    ] {
        let written = format!(r#"{{"name":"tracker__createIssue","arguments":{arguments}}}"#);
        let said = deferred.resolve(&written).unwrap_err();
        assert!(said.contains(why) && said.ends_with(ISSUE), "{said}");
    }
    for written in ["", "[]", "{", r#"{"arguments":{}}"#, r#"{"name":"mail__send","arguments":[1]}"#] {
        assert!(deferred.resolve(written).unwrap_err().contains("`tool_call` takes"), "{written}");
    }
}

#[test]
fn schemas_with_unions_and_references_are_checked_as_far_as_they_say() {
    let union =
        r##"{"properties":{"at":{"anyOf":[{"type":"string"},{"type":"null"}]},"to":{"$ref":"#/x"}}}"##;
    for (arguments, fits) in
        [(r#"{"at":null}"#, true), (r#"{"at":"x","to":1}"#, true), (r#"{"at":2}"#, false)]
    {
        assert_eq!(check_arguments(union, arguments).is_ok(), fits, "{arguments}");
    }
    for schema in ["", "true", "{}", r#"{"type":"thing"}"#, r#"{"type":[]}"#] {
        assert_eq!(check_arguments(schema, r#"{"a":1}"#), Ok(()), "{schema}");
    }
    assert!(check_arguments(r#"{"properties":{"n":{"type":"integer"}}}"#, r#"{"n":1.5}"#).is_err());
    assert!(check_arguments(r#"{"additionalProperties":{"type":"string"}}"#, r#"{"n":1}"#).is_err());
}

#[test]
fn a_request_says_calls_through_the_tool_that_it_lists() {
    fn call(name: &str, arguments: &str) -> Part {
        Part::ToolCall(ToolCall {
            call_id: "c".into(),
            name: name.to_owned(),
            arguments: arguments.to_owned(),
            provider_id: None,
            native: None,
        })
    }
    let parts = vec![call("read", "{}"), call("mail__send", r#"{"to":"a"}"#), call("mail__send", "{broken")];
    let mut messages = vec![Message { id: "m".into(), role: Role::Assistant, parts, origin: None }];
    wrap_calls(&mut messages, |name| name == "read" || name == CALL);
    let said: Vec<(&str, &str)> =
        messages[0].tool_calls().map(|call| (call.name.as_str(), call.arguments.as_str())).collect();
    assert_eq!(
        said,
        [
            ("read", "{}"),
            (CALL, r#"{"name":"mail__send","arguments":{"to":"a"}}"#),
            (CALL, r#"{"name":"mail__send","arguments":"{broken"}"#)
        ]
    );
    let once = messages.clone();
    wrap_calls(&mut messages, |name| name == "read" || name == CALL);
    assert_eq!(messages, once, "saying it again changes nothing");
    let Part::ToolCall(sent) = messages[0].parts[1].clone() else { panic!("a call") };
    let back = deferred().unwrap_call(sent, |_| false);
    assert_eq!((back.name.as_str(), back.arguments.as_str()), ("mail__send", r#"{"to":"a"}"#));
}

#[test]
fn a_hundred_and_twenty_tools_are_told_of_in_few_tokens() {
    let specs: Vec<ToolSpec> = (0..120)
        .map(|at| tool(&format!("server{}__tool_number_{at}", at % 4), "Does something useful.", ISSUE))
        .collect();
    let all: u64 = specs.iter().map(crate::estimate::tool_tokens).sum();
    let deferred = DeferredTools::new(specs);
    let tokens =
        |names: bool| deferred.stand_ins(names).iter().map(crate::estimate::tool_tokens).sum::<u64>();
    assert!(tokens(true) < 900 && tokens(false) < 250, "{} {} of {all}", tokens(true), tokens(false));
    let [search, _] = deferred.stand_ins(true);
    assert!(search.description.contains("120 more tools"), "{}", search.description);
    assert!(search.description.contains("30 of server0, 30 of server1"), "{}", search.description);
    assert_eq!(deferred.stand_ins(true), DeferredTools::new(deferred.specs.clone()).stand_ins(true));
}

#[test]
fn tools_are_deferred_above_their_share_and_only_if_that_saves_something() {
    assert!(is_worth_deferring(3_201, 900, 32_000, 0.1));
    assert!(!is_worth_deferring(3_200, 900, 32_000, 0.1), "not above");
    assert!(!is_worth_deferring(9_000, 9_000, 32_000, 0.1), "the two tools would take as much");
    assert!(!is_worth_deferring(31_000, 900, 32_000, 1.0), "they fit");
}
