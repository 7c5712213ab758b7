mod answers;

use super::*;

fn words(text: &str) -> u64 {
    text.split_whitespace().count() as u64
}

/// A conversation of an agent at work, of about 9,000 characters.
fn coding() -> String {
    let mut text = String::from(
        "user: Please repair the login of our shop. Never edit src/legacy/session.rs. The ticket is SHOP-4711.\n\
         assistant: I read src/auth/login.rs first.\n[call read {\"path\":\"src/auth/login.rs\"}]\n\
         tool: pub fn check_password(user: &str) -> bool { verify_hash(user) }\n",
    );
    for at in 0..22 {
        text.push_str(&format!(
            "assistant: Looking at module number {at}, the handler handle_{at} calls the database twice.\n\
             tool: error[E0308]: mismatched types in src/auth/step_{at}.rs, expected u64, found i32 near line {at}\n\
             assistant: The conversion belongs into the caller. I decided to keep the signature for compatibility.\n"
        ));
    }
    text.push_str(
        "user: Good. What is left?\nassistant: The retry in src/auth/retry.rs, limited to 250 ms.\n",
    );
    text
}

/// A conversation without a single name of a file or number, of about 3,000 characters.
fn chatting() -> String {
    let lines = [
        "user: My sister Melanie plans a garden party and wonders which flowers would suit the terrace.",
        "assistant: Lavender and rosemary love the sun; for shade there are ferns and hostas.",
        "user: She is allergic to bees, though, and her dog digs in every pot.",
        "assistant: Then choose grasses and ferns, and heavy pots that cannot be dug up easily.",
        "user: Caroline wants to help with the cake. Nobody may bring nuts, because of Tom.",
        "assistant: A lemon cake without nuts is simple and keeps for several days.",
    ];
    lines.repeat(6).join("\n")
}

fn order() -> &'static str {
    "The conversation is about to be shortened: its older part will be replaced by the summary that you write now. \
     Write it so that you could go on with the work from it alone, without asking again. Use these headings, leaving \
     out empty ones: Goal; Instructions and constraints; Done; Decisions; State; Files; Errors; Next steps. Quote \
     constraints of the user, paths, identifiers, commands and error lines exactly."
}

fn check(answer: &str, material: &str) -> Result<String, SummaryDefect> {
    let replaced =
        SummaryCheckInput { material, earlier: "", order: order(), limit_tokens: 400, wants_headings: true };
    check_summary(answer, &replaced, &words)
}

const GOOD: &[&str] = &[
    "Goal: repair the login.\nFiles: src/auth/login.rs\nErrors: error[E0308] in src/auth/step_3.rs\nNext steps: the retry.",
    "## Goal\nRepair the login (SHOP-4711).\n\n## Files\n- src/auth/login.rs\n\n## Next steps\n- retry, at most 250 ms",
    "**Goal**\nRepair the login, ticket SHOP-4711\n**State**\nsrc/auth/retry.rs is left\n",
    "1. GOAL: login repair for SHOP-4711\n2. CONSTRAINTS: never edit src/legacy/session.rs\n3. DONE: read src/auth/login.rs",
    "# Ziel\nDen Login reparieren (SHOP-4711).\n# Vorgaben\nsrc/legacy/session.rs nie ändern.\n# Nächste Schritte\nRetry",
    "Objectif : réparer la connexion, ticket SHOP-4711.\nFichiers : src/auth/login.rs\nProchaines étapes : src/auth/retry.rs",
    "Objetivo: reparar el inicio de sesión (SHOP-4711)\nArchivos: src/auth/login.rs\nPróximos pasos: src/auth/retry.rs",
    "Objetivo: consertar o login SHOP-4711\nRestrições: não editar src/legacy/session.rs\nPróximos passos: retry de 250 ms",
    "Obiettivo: riparare l'accesso, SHOP-4711\nVincoli: mai modificare src/legacy/session.rs\nProssimi passi: il retry",
    "Цель: починить вход, SHOP-4711\nОграничения: не менять src/legacy/session.rs\nСледующие шаги: src/auth/retry.rs",
    "目标：修复登录（SHOP-4711）\n约束：不要修改 src/legacy/session.rs\n下一步：src/auth/retry.rs",
    "【目標】ログインを直す（SHOP-4711）\n【制約】src/legacy/session.rs を変更しない\n【次のステップ】src/auth/retry.rs",
    "<think>The user wants a summary. {\"a\": 1}</think>\nGoal: repair the login\nFiles: src/auth/login.rs and 40 more in src/auth",
    "I weigh what matters.\n</think>\n\nGoal: repair the login\nFiles: src/auth/login.rs, src/auth/retry.rs; ticket SHOP-4711",
    "<|channel|>analysis<|message|>Let me see.<|end|><|start|>assistant<|channel|>final<|message|>Goal: login, SHOP-4711\n\
     Files: src/auth/login.rs<|return|>",
    "```markdown\nGoal: repair the login, SHOP-4711\nDone: handlers handle_0 to handle_21 were read\n```",
    "<summary>\nGoal: repair the login, SHOP-4711\nErrors: E0308 in src/auth/step_7.rs\n</summary>",
    "Here is the summary:\n\nGoal: repair the login; Done: read src/auth/login.rs; Next steps: src/auth/retry.rs",
    "{\"goal\": \"repair the login\", \"files\": [\"src/auth/login.rs\"], \"next_steps\": [\"src/auth/retry.rs\"]}",
    "| Goal | repair the login, SHOP-4711 |\n| Files | src/auth/login.rs, src/auth/retry.rs |\n| Errors | E0308 |",
    "- The user asked to repair the login of the shop, ticket SHOP-4711.\n- src/legacy/session.rs must never be edited.\n\
     - Every module had error[E0308], mismatched types; the signature was kept for compatibility.\n- Left: the retry in \
     src/auth/retry.rs, limited to 250 ms.",
    "The user asked to repair the login of the shop (SHOP-4711) without touching src/legacy/session.rs. The assistant read \
     src/auth/login.rs and the handlers handle_0 to handle_21, all of which call the database twice and fail with \
     error[E0308]. It decided to keep the signature. What is left is src/auth/retry.rs.",
    "Goal: repair the login SHOP-4711\nErrors: I could not build src/auth/step_3.rs: I can't reach the registry.\n\
     Next steps: Which retry limit does the user want, 250 ms?",
];

const GOOD_CHATS: &[&str] = &[
    "Goal: plan Melanie's garden party.\nConstraints: no nuts, because of Tom.\nDecisions: ferns and grasses.",
    "Ziel: Gartenfest für Melanie planen.\nVorgaben: keine Nüsse wegen Tom, keine Bienen.\nStand: Zitronenkuchen von Caroline.",
    "Melanie plans a garden party on the terrace. She is allergic to bees and her dog digs in pots, so ferns and grasses in \
     heavy pots were chosen. Caroline bakes a lemon cake without nuts because of Tom.",
    "目标：为 Melanie 计划花园聚会\n约束：不能有坚果（Tom）\n决定：选择蕨类植物和重的花盆",
];

/// Each with the defects that say what it is.
const BAD: &[(&str, &[SummaryDefect])] = {
    use SummaryDefect::*;
    &[
        ("", &[Empty]),
        ("  \n ", &[Empty]),
        ("<think>The user wants a summary of the login work in src/auth/login.rs.</think>", &[OnlyThoughts]),
        ("<think>The user wants a summary of src/auth/login.rs and so on, let me", &[OnlyThoughts]),
        ("<thinking>\nGoal: src/auth/login.rs\n</thinking>\n", &[OnlyThoughts]),
        ("<reasoning>Goal: look at src/auth/login.rs", &[OnlyThoughts]),
        ("[THINK]Goal: src/auth/login.rs[/THINK]", &[OnlyThoughts]),
        ("◁think▷Goal: src/auth/login.rs◁/think▷", &[OnlyThoughts]),
        ("<|channel|>analysis<|message|>Goal: src/auth/login.rs needs a retry", &[OnlyThoughts]),
        ("Let me think about src/auth/login.rs and what matters here.\n</think>\n", &[OnlyThoughts]),
        (
            "<tool_call>{\"name\": \"read\", \"arguments\": {\"path\": \"src/auth/retry.rs\"}}</tool_call>",
            &[ToolCall],
        ),
        ("{\"name\": \"read\", \"arguments\": {\"path\": \"src/auth/retry.rs\"}}", &[ToolCall]),
        ("```json\n{\"tool\": \"read\", \"args\": {\"path\": \"src/auth/retry.rs\"}}\n```", &[ToolCall]),
        ("[TOOL_CALLS][{\"name\": \"read\", \"arguments\": {}}]", &[ToolCall]),
        ("<function=read>{\"path\": \"src/auth/retry.rs\"}</function>", &[ToolCall]),
        ("Action: read\nAction Input: src/auth/retry.rs", &[ToolCall]),
        ("[call read {\"path\":\"src/auth/retry.rs\"}]", &[ToolCall]),
        ("read_file(path=\"src/auth/retry.rs\")", &[ToolCall]),
        ("<|python_tag|>read.call(path=\"src/auth/retry.rs\")", &[ToolCall]),
        ("Done.", &[TooShort]),
        ("OK", &[TooShort]),
        ("Understood.", &[TooShort]),
        ("好的。", &[TooShort]),
        ("I'm sorry.", &[TooShort]),
        (
            "I'm sorry, but I can't help with summarising this conversation about the login of your shop.",
            &[Refusal],
        ),
        (
            "As an AI language model I cannot keep memories of src/auth/login.rs, nor do I store conversations.",
            &[Refusal],
        ),
        (
            "Es tut mir leid, aber ich kann dieses Gespräch über src/auth/login.rs nicht zusammenfassen.",
            &[Refusal],
        ),
        ("Je suis désolé, mais je ne peux pas résumer cette conversation sur src/auth/login.rs.", &[Refusal]),
        (
            "Lo siento, pero no puedo resumir esta conversación sobre src/auth/login.rs y lo demás.",
            &[Refusal],
        ),
        (
            "抱歉，我无法总结这段对话，因为其中涉及 src/auth/login.rs 等内容。我不能继续处理这个请求，请您谅解。",
            &[Refusal],
        ),
        (
            "申し訳ありませんが、src/auth/login.rs に関するこの会話を要約することはできません。ご理解ください。",
            &[Refusal],
        ),
        ("К сожалению, я не могу пересказать этот разговор о файле src/auth/login.rs.", &[Refusal]),
        ("Goal: I'm sorry, but I can't help with summarising this conversation about your shop.", &[Refusal]),
        (
            "## Goal\nI'm sorry, but I can't help with summarising this conversation. It may hold private data of a \
             third party. Please contact an administrator. They will decide what happens with it.",
            &[Refusal],
        ),
        (
            "## Next steps\nShould I go on with the summary, or would you like me to do something else first? I am here \
             to help with anything that you need.",
            &[Question],
        ),
        (
            "Would you like me to go on with src/auth/retry.rs or should I first repair the handlers?",
            &[Question],
        ),
        (
            "Sure! Which part of the conversation about src/auth/login.rs would you like me to summarise?",
            &[Question],
        ),
        ("Soll ich mit src/auth/retry.rs weitermachen oder zuerst die übrigen Dateien ansehen?", &[Question]),
        ("请问您希望我继续修改 src/auth/retry.rs，还是先处理其他文件并检查它们的状态？", &[Question]),
        (
            "Goal:\nDone:\nNext steps:\nFiles:\nErrors:\nDecisions:\nState:\nInstructions and constraints:\n",
            &[OnlyHeadings],
        ),
        (
            "# Goal\n\n## Done\n\n## Decisions\n\n## Next steps\n\n### Files\n\n### Errors\n\n### State\n\n### Constraints",
            &[OnlyHeadings],
        ),
        (
            "The conversation has been summarised successfully and we can now continue with the remaining work.",
            &[NoHeadings],
        ),
        (
            "Sure, I will write the summary now, as you asked, and keep everything that is important for later on.",
            &[NoHeadings],
        ),
        (
            "Goal: help the user. Done: several things were looked at. Next steps: continue with the work as discussed.",
            &[NoNames],
        ),
        (
            "Goal: the user wants to improve the software and the assistant has been helping with various tasks.",
            &[NoNames],
        ),
        (
            "Roses are red and violets are blue. The weather in the mountains was lovely last summer, and the children \
             went swimming in the lake every afternoon until the storms began.",
            &[NoHeadings],
        ),
        (
            "```rust\npub fn retry(limit_ms: u64) -> bool { src_auth_retry(limit_ms) } // src/auth/retry.rs\nfn main() { \
             retry(250); }\n```\nThat is it.",
            &[NoHeadings],
        ),
        (
            "Use these headings, leaving out empty ones: Goal; Instructions and constraints; Done; Decisions; State; Files; \
             Errors; Next steps. Quote constraints of the user, paths, identifiers, commands and error lines exactly.",
            &[OrderRepeated],
        ),
    ]
};

#[test]
fn a_summary_in_any_form_and_language_is_taken() {
    let (coding, chatting) = (coding(), chatting());
    for good in GOOD {
        let taken = check(good, &coding);
        assert!(taken.is_ok(), "{taken:?} of {good}");
        assert!(!taken.unwrap().contains("think"), "{good}");
    }
    for good in GOOD_CHATS {
        assert!(check(good, &chatting).is_ok(), "{:?} of {good}", check(good, &chatting));
    }
}

#[test]
fn what_is_no_summary_is_refused_with_its_reason() {
    let coding = coding();
    for (bad, why) in BAD {
        let refused = check(bad, &coding);
        assert!(matches!(&refused, Err(defect) if why.contains(defect)), "{refused:?} of {bad}");
    }
    let copy: String = coding.lines().skip(30).take(9).collect::<Vec<_>>().join("\n");
    assert_eq!(check(&copy, &coding), Err(SummaryDefect::Copy));
    let loops = "Goal: the login in src/auth/login.rs is repaired\n".repeat(30);
    assert_eq!(check(&loops, &coding), Err(SummaryDefect::Repetitive));
    let round = format!("Goal: src/auth/login.rs {}", "and then and so ".repeat(40));
    assert_eq!(check(&round, &coding), Err(SummaryDefect::Repetitive));
    let numbers: Vec<String> = (0..600).map(|at| format!("Files: src/auth/step_{at}.rs")).collect();
    assert_eq!(check(&numbers.join("\n"), &coding), Err(SummaryDefect::TooLong));
}

#[test]
fn chats_without_names_have_refusals_too() {
    let chatting = chatting();
    let bad = [
        "I'm sorry, I can't help with that.",
        "I appreciate you sharing this, but I am not able to produce a summary of private conversations.",
        "What would you like to know about the party?",
        "Could you clarify what kind of cake Caroline should bake, and how many guests Melanie expects at the party?",
        "The conversation has been shortened as requested.",
        "Understood! Ready to continue whenever you are.",
        "<think>Melanie plans a party.</think>",
        "Goal:",
        "Done: yes",
    ];
    for bad in bad {
        assert!(check(bad, &chatting).is_err(), "{bad}");
    }
}

#[test]
fn what_an_earlier_summary_names_is_carried_on() {
    let coding = coding();
    let earlier = "Goal: ship RELEASE-77\nFiles: deploy/plan.toml, deploy/hosts.toml\nErrors: exit code 127 in ci/run.sh";
    let replaced = SummaryCheckInput {
        material: &coding,
        earlier,
        order: order(),
        limit_tokens: 400,
        wants_headings: true,
    };
    let new = "Goal: repair the login SHOP-4711\nFiles: src/auth/login.rs";
    assert_eq!(check_summary(new, &replaced, &words), Err(SummaryDefect::EarlierDropped));
    let merged = format!("{new}, then deploy/plan.toml");
    assert_eq!(check_summary(&merged, &replaced, &words), Ok(merged));
}

#[test]
fn a_sentence_about_thought_tags_keeps_them() {
    let text = "Goal: strip the tag `</think>` and `<think>` from answers in src/auth/login.rs\nDone: E0308 is mended";
    assert_eq!(check(text, &coding()).as_deref(), Ok(text));
}

#[test]
fn a_short_text_is_measured_by_what_it_replaces() {
    let short = "Goal: repair src/auth/login.rs";
    assert!(check(short, &coding()[..3_000]).is_ok());
    assert_eq!(check(short, &coding().repeat(3)), Err(SummaryDefect::TooShort));
}
