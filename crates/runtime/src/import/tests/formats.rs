//! Small samples of the formats of other agents, whole and damaged.

use super::*;

#[test]
fn a_swe_agent_trajectory_of_calls() {
    let session = one(r#"{"trajectory":[],"history":[
        {"role":"system","content":"Be good.","agent":"main","message_type":"system_prompt"},
        {"role":"user","content":[{"type":"text","text":"Fix it"}],"agent":"main","message_type":"observation"},
        {"role":"assistant","content":"Look.","thought":"Look.","action":"ls","agent":"main","message_type":"action",
         "tool_calls":[{"id":"a","type":"function","function":{"name":"bash","arguments":"{\"command\":\"ls\"}"}}]},
        {"role":"user","content":"not for you","agent":"reviewer"},
        {"role":"tool","content":"x y","agent":"main","message_type":"observation","tool_call_ids":["a"]},
        {"role":"assistant","content":"Again.","action":"ls","agent":"main",
         "tool_calls":[{"id":"a","type":"function","function":{"name":"bash","arguments":"{}"}}]},
        {"role":"tool","content":"z","agent":"main","tool_call_ids":null}]}"#);
    assert_eq!(session.system_prompt.as_deref(), Some("Be good."));
    insta::assert_snapshot!(outline(&session), @r#"
    session Some("Fix it") from Some("swe-agent")
    user m2: Fix it
    assistant m3 s1 ToolCalls None: Look. ["c1=bash({\"command\":\"ls\"})"]
      usage None
      start c1
      result c1 Completed: x y
    assistant m7 s2 ToolCalls None: Again. ["c2=bash({})"]
      usage None
      start c2
      result c2 Completed: z
    ! messages of other agents: 1 left out
    "#);
}

#[test]
fn a_swe_agent_trajectory_of_text() {
    let session = one(r#"{"history":[
        {"role":"system","content":"Be good."},
        {"role":"user","content":"A demonstration","is_demo":true},
        {"role":"assistant","content":"demo\n```\nls\n```","action":"ls","is_demo":true},
        {"role":"user","content":"Fix it"},
        {"role":"assistant","content":"Look.\n```\nls\n```","thought":"Look.\n","action":"ls\n"},
        {"role":"user","content":"x y\n(Open file: n/a)\nbash-$"},
        {"role":"assistant","content":"```\nrm x\n```","thought":"","action":"rm x"},
        {"role":"user","content":"Your command gave no output."},
        {"role":"assistant","content":"```\nvi\n```","action":"vi"},
        {"role":"user","content":"Told by the type.","message_type":"observation"},
        {"role":"assistant","content":"Hm.\n```\nnano\n```","thought":"Hm.","action":"nano"},
        {"role":"user","content":"That is not what it gave."},
        {"role":"assistant","content":"unheard of","thought":"unheard of","action":"ed"},
        {"role":"user","content":"A person's word."},
        {"role":"assistant","content":"nothing to do","thought":"nothing to do","action":""},
        {"role":"assistant","content":"Done.\n```\nsubmit\n```","thought":"Done.","action":"submit"}],
      "trajectory":[
        {"action":"ls\n","observation":"x y\n"},
        {"action":"rm x","observation":""},
        {"action":"nano","observation":"something else"},
        {"action":"submit","observation":"diff"}]}"#);
    insta::assert_snapshot!(outline(&session), @r#"
    session Some("Fix it") from Some("swe-agent")
    user m2: A demonstration
    assistant m3 s1 Stop None: demo
    ```
    ls
    ``` []
      usage None
    user m5: Fix it
    assistant m6 s2 ToolCalls None: Look.
     ["c1=bash({\"command\":\"ls\\n\"})"]
      usage None
      start c1
      result c1 Completed: x y
    (Open file: n/a)
    bash-$
    assistant m10 s3 ToolCalls None:  ["c2=bash({\"command\":\"rm x\"})"]
      usage None
      start c2
      result c2 Completed: Your command gave no output.
    assistant m14 s4 ToolCalls None: ```
    vi
    ``` ["c3=bash({\"command\":\"vi\"})"]
      usage None
      start c3
      result c3 Completed: Told by the type.
    assistant m18 s5 Stop None: Hm.
    ```
    nano
    ``` []
      usage None
    user m20: That is not what it gave.
    assistant m21 s6 Stop None: unheard of []
      usage None
    user m23: A person's word.
    assistant m24 s7 Stop None: nothing to do []
      usage None
    assistant m26 s8 ToolCalls None: Done. ["c4=bash({\"command\":\"submit\"})"]
      usage None
      start c4
      result c4 Completed: diff
    ! actions written as text: 4 became calls of `bash`, without the marks around them
    ! actions without an observation: 2 stayed text
    "#);
}

#[test]
fn a_request_log() {
    let session = one(r#"{"messages":[{"role":"user","content":"all of it as text"}],
      "raw_messages":[
        {"role":"user","content":"Go"},
        {"role":"assistant","content":"","tool_calls":[{"id":"1","function":{"name":"t","arguments":"{}"}}]},
        {"role":"tool","tool_call_id":"1","content":"r"}],
      "kwargs":{"tools":[ {"type":"function"} ]},
      "timestamp":12.5,
      "response":{"created":99,"model":"m","choices":[{"message":{"role":"assistant","content":"End"}}],
        "usage":{"prompt_tokens":50,"completion_tokens":3,"cache_creation_input_tokens":30,
                 "prompt_tokens_details":{"cached_tokens":10}}}}"#);
    assert_eq!(session.tools.as_deref(), Some(r#"[ {"type":"function"} ]"#));
    insta::assert_snapshot!(outline(&session), @r#"
    session Some("Go") from Some("openai-messages")
    user m2: Go
    assistant m3 s1 ToolCalls None:  ["c1=t({})"]
      usage None
      start c1
      result c1 Completed: r
    assistant m7 s2 Stop None: End []
      usage Some((50, 3))
    ! the tools, calls and results went out as text; they are shown as they were before that, and the reported usage is that of the text
    "#);
    let (at, EventBody::StepFinished { usage: Some(usage), .. }) = session.events.last().expect("a step")
    else {
        panic!("the usage comes last")
    };
    assert_eq!((*at, usage.cache_read_tokens, usage.cache_write_tokens), (12_500, 10, 30));
    let odd = one(r#"{"messages":[{"role":"user","content":"a"}],"tools":[],"response":"timed out"}"#);
    assert_eq!((odd.tools.as_deref(), odd.events[1].0), (None, 42));
    assert_eq!(odd.warnings[0].to_string(), "message 2: a response of unknown form was left out");
    let own = one(r#"{"messages":[{"role":"user","content":"a"}],
        "response":{"created":99,"choices":[{"message":{"role":"assistant","content":"b"}}]}}"#);
    assert_eq!(own.events[2].0, 99_000);
}

#[test]
fn anthropic_blocks_in_a_list_of_messages() {
    let session = one(r#"[
        {"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"aGk="}},
            {"type":"document","title":"b","source":{"type":"url","url":"https://example.org/b.pdf"}},
            {"type":"document","source":{"type":"text","media_type":"text/plain","data":"plain"}}]},
        {"role":"assistant","content":[{"type":"tool_use","id":"u","name":"ls","input":{"a":1}}]},
        {"role":"user","content":[{"type":"tool_result","tool_use_id":"u","is_error":true,
            "content":[{"type":"text","text":"denied"}]},{"type":"text","text":"try again"}]}]"#);
    assert_eq!(session.blobs.len(), 1);
    insta::assert_snapshot!(outline(&session), @r#"
    session Some("[content: b]") from Some("openai-messages")
    user m2: [content: b]plain
    assistant m3 s1 ToolCalls None:  ["c1=ls({\"a\":1})"]
      usage None
      start c1
      result c1 Error: denied
    user m7: try again
    ! message 1: content that the file only links to was replaced by its address
    "#);
}

#[test]
fn an_inspect_log() {
    let file = r#"{"version":2,"status":"success","eval":{"task":"quiz","model":"m"},"samples":[
      {"id":"x","epoch":1,"messages":[]},
      {"id":"q1","epoch":2,"attachments":{"a1":"long \"text\"","d1":"Reads."},
       "messages":[
        {"id":"0","role":"system","content":"Be good."},
        {"id":"1","role":"user","content":"attachment://a1","tool_call_id":["odd"]},
        {"id":"2","role":"assistant","model":"m-1","content":[
            {"type":"reasoning","reasoning":"Hm.","signature":"s"},
            {"type":"reasoning","reasoning":"cipher","redacted":true},
            {"type":"text","text":"I read."}],
         "tool_calls":[{"id":"c","function":"read","arguments":{"p":"\"attachment://a1"}},
                       {"id":"d","function":"read","arguments":{}}]},
        {"id":"3","role":"tool","tool_call_id":"c","function":"read","content":[{"type":"image","image":"data:image/png;base64,aGk="},{"type":"text","text":"attachment://none"}]},
        {"id":"4","role":"tool","tool_call_id":"d","function":"read","content":"","error":{"type":"timeout","message":"too slow"}},
        {"id":"5","role":"assistant","content":"It"}],
       "events":[
        {"event":"sample_init","timestamp":"1970-01-01T00:00:01Z"},
        {"event":"model","timestamp":"1970-01-01T00:00:02Z","completed":"1970-01-01T00:00:03Z",
         "tools":[{"name":"read","description":"attachment://d1"}],
         "output":{"choices":[{"message":{"id":"2"},"stop_reason":"tool_calls"}],
          "usage":{"input_tokens":10,"output_tokens":5,"total_tokens":115,"input_tokens_cache_read":60,"input_tokens_cache_write":40,"reasoning_tokens":2}}},
        {"event":"tool","id":"c","timestamp":"1970-01-01T00:00:04Z","completed":"1970-01-01T00:00:05Z"},
        {"event":"model","timestamp":"1970-01-01T00:00:06Z","tools":[],
         "output":{"choices":[{"message":{"id":"5"},"stop_reason":"max_tokens"}],
          "usage":{"input_tokens":110,"output_tokens":1,"total_tokens":111,"input_tokens_cache_read":100}}},
        {"event":"model","timestamp":"1970-01-01T00:00:07Z","output":{"choices":[{"message":{"id":"grade"}}]}},
        {"event":"odd","output":[]}]},
      {"id":3,"messages":[{"role":"user","content":"second"}]}]}"#;
    let import = import(file.as_bytes(), 42).unwrap();
    assert_eq!((import.format, import.sessions.len()), (ImportFormat::Inspect, 2));
    import.sessions.iter().for_each(assert_valid);
    let session = &import.sessions[0];
    assert_eq!(session.tools.as_deref(), Some(r#"[{"name":"read","description":"Reads."}]"#));
    assert_eq!(session.system_prompt.as_deref(), Some("Be good."));
    insta::assert_snapshot!(outline(session), @r#"
    session Some("quiz, sample q1, epoch 2") from Some("inspect")
    user m2: long "text"
    assistant m3 s1 ToolCalls None: I read. ["c1=read({\"p\":\"\\\"attachment://a1\"})", "c2=read({})"]
      usage Some((110, 5))
      start c1
      result c1 Completed: attachment://none
      start c2
      result c2 Error: too slow
    assistant m9 s2 Length None: It []
      usage Some((110, 1))
    ! samples without messages: 1 left out before this one
    ! answers of models that are not among the messages: 1 left out
    ! run 2, message 4: an attachment is not in the file; its name stands for it
    "#);
    let times: Vec<Millis> = session.events.iter().map(|(at, _)| *at).collect();
    assert_eq!(times, [1_000, 1_000, 3_000, 3_000, 5_000, 5_000, 5_000, 5_000, 6_000, 6_000]);
    let reasoning = session.events.iter().filter_map(|(_, body)| message(body)).flat_map(|m| &m.parts);
    let reasoning: Vec<(&str, bool)> = reasoning
        .filter_map(|part| match part {
            Part::Reasoning(reasoning) => Some((reasoning.text.as_str(), reasoning.native.is_some())),
            _ => None,
        })
        .collect();
    assert_eq!(reasoning, [("Hm.", true), ("", true)]);
    assert_eq!(import.sessions[1].title.as_deref(), Some("quiz, sample 3, epoch ?"));
}

#[test]
fn a_tape() {
    let session = one(r#"{"metadata":{},"context":{"tools":[{"name":"go"}]},"steps":[
        {"kind":"system","content":"Be good."},
        {"kind":"page_observation","metadata":{"agent":""},"text":"a page"},
        {"kind":"task","task":"Find it"},
        {"kind":"plan_thought","metadata":{"prompt_id":"p1"},"plan":["look"]},
        {"kind":"go_action","metadata":{"prompt_id":"p1"},"to":"é"},
        {"kind":"go_action","metadata":{"prompt_id":"p1"},"to":"b"},
        {"kind":"set_next_node","metadata":{"prompt_id":"p1"},"next_node":"x"},
        {"kind":"page_observation","text":"page a"},
        {"kind":"search_results","text":"page b","error":"half of it"},
        {"kind":"go_action","metadata":{"prompt_id":"p2"},"to":"nowhere"},
        {"kind":"go_action","metadata":{"prompt_id":"p3"},"to":"c"},
        {"kind":"page_observation","error":null},
        {"kind":"user","content":"And?"},
        {"kind":"assistant","content":"Calls.","tool_calls":[{"id":"1","function":{"name":"go","arguments":{"to":"d"}}}]},
        {"kind":"tool","tool_call_id":"1","content":"page d"},
        {"kind":"wish","metadata":{"agent":"A"},"of":1},
        {"kind":"final_answer_action","metadata":{"prompt_id":"p4"},"text":"There."}]}"#);
    assert_eq!(session.system_prompt.as_deref(), Some("Be good."));
    assert_eq!(session.tools.as_deref(), Some(r#"[{"name":"go"}]"#));
    insta::assert_snapshot!(outline(&session), @r#"
    session Some("Find it") from Some("tape-agents")
    note m2: {"kind":"page_observation","text":"a page"}
    user m3: Find it
    assistant m4 s1 ToolCalls None: {"kind":"plan_thought","plan":["look"]} ["c1=go_action({\"to\":\"é\"})", "c2=go_action({\"to\":\"b\"})"]
      usage None
      start c1
      result c1 Completed: {"kind":"page_observation","text":"page a"}
      start c2
      result c2 Error: {"kind":"search_results","text":"page b","error":"half of it"}
    assistant m10 s2 Stop None: {"kind":"go_action","to":"nowhere"} []
      usage None
    assistant m12 s3 ToolCalls None:  ["c3=go_action({\"to\":\"c\"})"]
      usage None
      start c3
      result c3 Completed: {"kind":"page_observation","error":null}
    user m16: And?
    assistant m17 s4 ToolCalls None: Calls. ["c4=go({\"to\":\"d\"})"]
      usage None
      start c4
      result c4 Completed: page d
    assistant m21 s5 Stop None: {"kind":"wish","of":1} []
      usage None
    assistant m23 s6 Stop None: {"kind":"final_answer_action","text":"There."} []
      usage None
    ! steps of kind `set_next_node` have no counterpart here: 1 left out
    "#);
}

#[test]
fn a_claude_code_session() {
    let session = one(r#"{"type":"summary","summary":"Of another file","leafUuid":"elsewhere"}
{"type":"user","uuid":"1","parentUuid":null,"sessionId":"s","timestamp":"1970-01-01T00:00:01Z","isMeta":true,"message":{"role":"user","content":"Caveat"}}
{"type":"user","uuid":"2","parentUuid":"1","message":{"role":"user","content":"Wrong words"}}
{"type":"assistant","uuid":"3","parentUuid":"2","message":{"id":"x","content":[{"type":"text","text":"Wrong answer"}]}}
{"type":"user","uuid":"4","parentUuid":"1","timestamp":"1970-01-01T00:00:02Z","message":{"role":"user","content":"Right words"}}
{"type":"assistant","uuid":"5","parentUuid":"4","message":{"id":"a","model":"m","content":[{"type":"thinking","thinking":"Hm.","signature":"s"}],"stop_reason":null,"usage":{"input_tokens":1,"output_tokens":1}}}
{"type":"assistant","uuid":"6","parentUuid":"5","message":{"id":"a","model":"m","content":[{"type":"tool_use","id":"t1","name":"Read","input":{"p": 1}}],"stop_reason":null,"usage":{"input_tokens":1,"output_tokens":1}}}
{"type":"user","uuid":"7","parentUuid":"6","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"one"}]},"toolUseResult":{"big":1}}
{"type":"assistant","uuid":"8","parentUuid":"6","message":{"id":"a","model":"m","content":[{"type":"tool_use","id":"t2","name":"Task","input":{}}],"stop_reason":"tool_use","usage":{"input_tokens":3,"output_tokens":9,"cache_read_input_tokens":20,"cache_creation_input_tokens":7}}}
{"type":"user","uuid":"s1","parentUuid":null,"isSidechain":true,"message":{"role":"user","content":"Do a part"}}
{"type":"assistant","uuid":"s2","parentUuid":"s1","isSidechain":true,"message":{"id":"q","content":[{"type":"text","text":"Part"}]}}
{"type":"user","uuid":"9","parentUuid":"8","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t2","is_error":true,"content":[{"type":"text","text":"two"}]},{"type":"text","text":"go on"}]}}
{"type":"assistant","uuid":"10","parentUuid":"9","isApiErrorMessage":true,"message":{"id":"e","model":"<synthetic>","content":[{"type":"text","text":"API Error: 429 slow down"}]}}
{"type":"system","subtype":"compact_boundary","uuid":"11","parentUuid":null,"compactMetadata":{"trigger":"auto","preTokens":5000}}
{"type":"user","uuid":"12","parentUuid":"11","isCompactSummary":true,"message":{"role":"user","content":"We read."}}
{"type":"assistant","uuid":"13","parentUuid":"12","message":{"id":"b","model":"<synthetic>","content":[{"type":"text","text":"Made up"}],"stop_reason":"max_tokens","usage":{"input_tokens":0,"output_tokens":0}}}
{"type":"file-history-snapshot","messageId":"1"}
{"type":"summary","summary":"Reading\ntwice","leafUuid":"13"}
{"type":"user","uuid":"14","par"#);
    insta::assert_snapshot!(outline(&session), @r#"
    session Some("Reading") from Some("claude-code")
    note m2: Caveat
    user m3: Right words
    assistant m4 s1 ToolCalls None:  ["c1=Read({\"p\": 1})", "c2=Task({})"]
      usage Some((30, 9))
      start c1
      result c1 Completed: one
      start c2
      result c2 Error: two
    user m10: go on
    StepFailed { step_id: StepId("s2"), code: RateLimitExceeded, message: "API Error: 429 slow down", used_tokens: None, limit_tokens: None, usage: None, is_permanent: false }
    compaction e1 LogRange { from: 2, to: 11 }: 5000 -> 0 tokens, 6 -> 1 messages
    assistant m13 s3 Length None: Made up []
      usage None
    ! messages of side conversations: 2 left out
    ! messages on other branches of the session: 2 left out
    ! entries of kind `file-history-snapshot` have no counterpart here: 1 left out
    ! line 19: the last line is cut off and was left out
    "#);
    assert_eq!(session.events[0].0, 1_000);
    let origins: Vec<Option<&str>> = session
        .events
        .iter()
        .filter_map(|(_, body)| message(body))
        .filter(|message| message.role == Role::Assistant)
        .map(|message| message.origin.as_ref().map(|origin| origin.model.as_str()))
        .collect();
    assert_eq!(origins, [Some("m"), None]);
}

#[test]
fn damaged_files_say_where() {
    let refuse = |text: &str| import(text.as_bytes(), 0).expect_err("should be refused").to_string();
    insta::assert_snapshot!(refuse(r#"{"history":[],"trajectory":[]}"#), @"the file holds no conversation");
    insta::assert_snapshot!(refuse(r#"{"history":[{"role":"user"},{"role":3}],"trajectory":[]}"#), @"message 2: invalid type: integer `3`, expected a string");
    insta::assert_snapshot!(refuse(r#"{"history":[1],"trajectory":[]}"#), @"message 1: invalid type: integer `1`, expected a message");
    insta::assert_snapshot!(refuse(r#"{"history":[{"role":"user","content":"a"}]}"#), @"unknown format: neither an export, a session, a list of messages, a trajectory, a log nor a tape");
    insta::assert_snapshot!(refuse(r#"{"eval":{"task":"t"}}"#), @"the file holds no conversation");
    insta::assert_snapshot!(refuse(r#"{"eval":{"task":"t"},"samples":[{"messages":[]}]}"#), @"the file holds no conversation");
    insta::assert_snapshot!(refuse(r#"{"eval":{"task":"t"},"samples":[{"messages":[{"content":"a"}]}]}"#), @"run 1, message 1: missing field `role`");
    insta::assert_snapshot!(refuse(r#"{"eval":{"task":"t"},"samples":[7]}"#), @"run 1, message 0: invalid type: integer `7`, expected a sample");
    insta::assert_snapshot!(refuse(r#"{"steps":[{"kind":"task","task":"a"},{"task":"b"}]}"#), @"message 2: missing field `kind`");
    insta::assert_snapshot!(refuse(r#"{"steps":[{"kind":"set_next_node"}]}"#), @"the file holds no conversation");
    insta::assert_snapshot!(refuse(r#"{"steps":[]}"#), @"unknown format: neither an export, a session, a list of messages, a trajectory, a log nor a tape");
    insta::assert_snapshot!(refuse("{\"type\":\"user\",\"uuid\":\"1\",\"message\":{\"content\":\"a\"}}\nnot json\n{\"type\":\"x\"}"), @"line 2: expected ident");
    insta::assert_snapshot!(refuse(r#"{"type":"assistant","uuid":"1","message":[]}"#), @"line 1: invalid length 0, expected a message");
    insta::assert_snapshot!(refuse(r#"{"type":"user","uuid":"1","isSidechain":true,"message":{"content":"a"}}"#), @"the file holds no conversation");
    let deep =
        format!("{{\"steps\":[{{\"kind\":\"task\",\"task\":{}1{}}}]}}", "[".repeat(500), "]".repeat(500));
    insta::assert_snapshot!(refuse(&deep), @"message 1: recursion limit exceeded");
}

/// A text that is referred to again and again is not copied without end.
#[test]
fn references_fill_no_memory() {
    let text = "x".repeat(1 << 10);
    let messages = vec![r#"{"role":"user","content":"attachment://a"}"#; 600].join(",");
    let file = format!(
        r#"{{"eval":{{"task":"t"}},"samples":[{{"attachments":{{"a":"{text}"}},"messages":[{messages}]}}]}}"#
    );
    let session = one(&file);
    let left = session.warnings.iter().filter(|warning| warning.message.contains("an attachment")).count();
    assert_eq!(left, 600 - 16);
}

proptest! {
    #[test]
    fn any_trajectory_makes_a_valid_log(list in proptest::collection::vec(any_entry(), 1..20), steps in proptest::collection::vec(any_step(), 0..8)) {
        let text = format!(r#"{{"history":[{}],"trajectory":[{}]}}"#, list.join(","), steps.join(","));
        if let Ok(import) = import(text.as_bytes(), 0) {
            prop_assert_eq!(import.format, ImportFormat::SweAgent);
            assert_valid(&import.sessions[0]);
        }
    }

    #[test]
    fn any_sample_makes_a_valid_log(list in proptest::collection::vec(any_sample_message(), 1..20)) {
        let text = format!(r#"{{"eval":{{"task":"t"}},"samples":[{{"messages":[{}]}}]}}"#, list.join(","));
        if let Ok(import) = import(text.as_bytes(), 0) {
            prop_assert_eq!(import.format, ImportFormat::Inspect);
            assert_valid(&import.sessions[0]);
        }
    }

    #[test]
    fn any_tape_makes_a_valid_log(list in proptest::collection::vec(any_tape_step(), 1..20)) {
        if let Ok(import) = import(format!(r#"{{"steps":[{}]}}"#, list.join(",")).as_bytes(), 0) {
            prop_assert_eq!(import.format, ImportFormat::TapeAgents);
            assert_valid(&import.sessions[0]);
        }
    }

    #[test]
    fn any_claude_code_session_makes_a_valid_log(list in proptest::collection::vec(any_session_line(), 1..20)) {
        if let Ok(import) = import(list.join("\n").as_bytes(), 0) {
            prop_assert_eq!(import.format, ImportFormat::ClaudeCode);
            assert_valid(&import.sessions[0]);
        }
    }

    #[test]
    fn no_cut_makes_it_panic(cut in 0..1_000usize, which in 0..4usize) {
        let files = [
            r#"{"history":[{"role":"user","content":"a"},{"role":"assistant","action":"l","thought":""}],"trajectory":[{"action":"l","observation":"o"}]}"#,
            r#"{"eval":{"task":"t"},"samples":[{"messages":[{"role":"user","content":"attachment://a"}],"attachments":{"a":"b"},"events":[{"event":"tool","id":"c"}]}]}"#,
            r#"{"steps":[{"kind":"task","task":"t"},{"kind":"a_action","metadata":{"prompt_id":"p"}},{"kind":"b_observation"}]}"#,
            "{\"type\":\"user\",\"uuid\":\"1\",\"message\":{\"content\":\"é\"}}\n{\"type\":\"user\",\"uuid\":\"2\",\"message\":{\"content\":[{\"type\":\"tool_result\"}]}}",
        ];
        let bytes = files[which].as_bytes();
        let _ = import(&bytes[..cut.min(bytes.len())], 0);
    }
}

fn any_entry() -> impl Strategy<Value = String> {
    let action = prop_oneof![Just("ls"), Just("rm"), Just("")];
    prop_oneof![
        any_message(),
        (action, any::<bool>(), any::<bool>()).prop_map(|(action, demo, thought)| {
            let thought = if thought { r#""thought":"t","# } else { "" };
            format!(r#"{{"role":"assistant","content":"c",{thought}"action":"{action}","is_demo":{demo}}}"#)
        }),
        (0..4u8).prop_map(|id| format!(r#"{{"role":"tool","content":"r","tool_call_ids":["{id}"]}}"#)),
        Just(r#"{"role":"user","content":"o","message_type":"observation"}"#.to_owned()),
        Just(r#"{"role":"tool","content":"r","tool_call_ids":[],"agent":"b"}"#.to_owned()),
    ]
}

fn any_step() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(r#"{"action":"ls","observation":"o"}"#.to_owned()),
        Just(r#"{"action":"rm","observation":""}"#.to_owned()),
        Just(r#"{"action":"rm","observation":null}"#.to_owned()),
        Just("7".to_owned()),
    ]
}

fn any_sample_message() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z]{0,5}".prop_map(|text| format!(r#"{{"role":"user","content":"{text}"}}"#)),
        proptest::collection::vec(0..4u8, 0..4).prop_map(|ids| {
            let calls: Vec<String> = ids
                .iter()
                .map(|id| format!(r#"{{"id":"{id}","function":"t{id}","arguments":{{}}}}"#))
                .collect();
            format!(r#"{{"role":"assistant","content":"","tool_calls":[{}]}}"#, calls.join(","))
        }),
        (0..4u8)
            .prop_map(|id| format!(r#"{{"role":"tool","tool_call_id":"{id}","content":"r","error":null}}"#)),
        (0..4u8).prop_map(|id| format!(r#"{{"role":"tool","function":"t{id}","error":{{}}}}"#)),
        Just(r#"{"role":"system","content":"s"}"#.to_owned()),
    ]
}

fn any_tape_step() -> impl Strategy<Value = String> {
    let kinds = [
        "user",
        "task",
        "assistant",
        "tool",
        "a_thought",
        "b_action",
        "b_action",
        "c_observation",
        "c_observation",
        "set_next_node",
        "odd",
    ];
    (proptest::sample::select(kinds.to_vec()), 0..3u8).prop_map(|(kind, prompt)| {
        let id = if prompt == 0 { String::new() } else { format!("p{prompt}") };
        format!(r#"{{"kind":"{kind}","metadata":{{"prompt_id":"{id}"}},"content":"x"}}"#)
    })
}

fn any_session_line() -> impl Strategy<Value = String> {
    (0..6u8, 0..5u8, 0..5u8, any::<bool>()).prop_map(|(kind, uuid, parent, flag)| {
        let head = format!(r#""uuid":"{uuid}","parentUuid":"{parent}","isSidechain":{}"#, flag && uuid == 0);
        match kind {
            0 => format!(r#"{{"type":"user",{head},"isMeta":{flag},"message":{{"content":"u"}}}}"#),
            1 | 2 => format!(
                r#"{{"type":"assistant",{head},"message":{{"id":"{uuid}","content":[{{"type":"tool_use","id":"{parent}","name":"t","input":{{}}}}]}}}}"#
            ),
            3 => format!(
                r#"{{"type":"user",{head},"message":{{"content":[{{"type":"tool_result","tool_use_id":"{parent}","content":"r"}}]}}}}"#
            ),
            4 => format!(r#"{{"type":"user",{head},"isCompactSummary":{flag},"message":{{"content":"s"}}}}"#),
            _ => format!(
                r#"{{"type":"assistant",{head},"isApiErrorMessage":{flag},"message":{{"content":[{{"type":"text","text":"e"}}]}}}}"#
            ),
        }
    })
}
