//! Answers that are no summary, and short summaries, by form and language.

use super::{chatting, check, coding};

/// Answers that are no summary of [`coding`].
const NO_SUMMARIES: &[&str] = &[
    // Refusals.
    "I'm not comfortable summarizing this conversation, since src/auth/login.rs may contain sensitive material.",
    "Summarizing src/auth/login.rs would go against my guidelines, so I have to pass on this one. Thanks for understanding.",
    "I must respectfully decline to summarise the work on SHOP-4711 and src/auth/login.rs.",
    "Leider ist es mir nicht möglich, das Gespräch über src/auth/login.rs zusammenzufassen.",
    "Dabei kann ich dir leider nicht helfen; src/auth/login.rs fällt nicht in meinen Bereich.",
    "Je suis dans l'impossibilité de résumer la conversation sur src/auth/login.rs.",
    "Malheureusement, il m'est impossible de produire ce résumé de src/auth/login.rs.",
    "Me temo que no es posible resumir la conversación sobre src/auth/login.rs en este momento.",
    "Disculpa, pero no estoy autorizado a resumir src/auth/login.rs ni el resto de la conversación.",
    "Infelizmente não me é possível resumir a conversa sobre src/auth/login.rs.",
    "Purtroppo non mi è possibile riassumere la conversazione su src/auth/login.rs.",
    "Прошу прощения, но я не вправе пересказывать разговор о src/auth/login.rs.",
    "很遗憾，我没有办法为您总结关于 src/auth/login.rs 的这段对话，敬请谅解。",
    "恐れ入りますが、src/auth/login.rs に関する会話の要約には対応しておりません。ご了承ください。",
    "유감스럽게도 src/auth/login.rs 대화는 요약해 드리기 어렵습니다. 양해 부탁드립니다.",
    // Questions.
    "Before I summarise, should SHOP-4711 come first or the retry in src/auth/retry.rs?",
    "Do you want the summary of src/auth/login.rs in English or in German? Let me know and I will write it.",
    "Goal: Which files matter to you, src/auth/login.rs or src/auth/retry.rs?",
    "Möchtest du, dass ich src/auth/retry.rs zuerst abschließe? Sag mir einfach Bescheid, dann fange ich an.",
    "Faut-il que je résume aussi src/auth/retry.rs ?",
    // Empty promises and acknowledgements.
    "Done.",
    "Done! The summary of src/auth/login.rs has been created and saved. You can continue with the work at any time.",
    "Summary complete.",
    "Got it. I will keep src/auth/login.rs and SHOP-4711 in mind and carry on from here as soon as you are ready.",
    "Goal: Done.",
    // Lone thoughts.
    "<think>The user asked for a summary of SHOP-4711. I need to list src/auth/login.rs.</think>\n\n",
    "<think>\nGoal: repair src/auth/login.rs\nNext steps: retry",
    "<|channel|>analysis<|message|>We need headings. Goal: src/auth/login.rs. Let me count the words<|end|>",
    "Okay, so the user wants me to summarise. Let me look at what matters: src/auth/login.rs was read first, then I \
     should check the word limit, hmm, maybe mention SHOP-4711 as well. Let me think about the headings again.",
    // Apologies after a heading.
    "# Summary\n\nApologies, something went wrong while reading src/auth/login.rs and I have nothing to report.",
    "## State\nI apologize for the inconvenience, but I can't produce this summary.",
    "Goal:\nSorry, I am unable to comply with this request.",
    // Truncated.
    "Goal: rep",
    "Goal: repair the login\nFiles: src/au",
    "Goal:",
    // JSON and tool calls.
    "{\"error\": \"context_length_exceeded\", \"message\": \"the prompt is too long for src/auth/login.rs\"}",
    "{\"status\": \"ok\"}",
    "{\"path\": \"src/auth/retry.rs\", \"offset\": 0, \"limit\": 200}",
    "I'll read the file first.\n<tool_call>{\"name\": \"read\", \"arguments\": {\"path\": \"src/auth/retry.rs\"}}</tool_call>",
    "Let me check the file.\n```json\n{\"name\": \"read\", \"arguments\": {\"path\": \"src/auth/retry.rs\"}}\n```",
    // Repetition of the prompt.
    "The conversation is about to be shortened: its older part will be replaced by the summary that you write now. \
     Write it so that you could go on with the work from it alone, without asking again.",
    "Goal; Instructions and constraints; Done; Decisions; State; Files; Errors; Next steps",
];

/// Short summaries of [`coding`].
const SUMMARIES: &[&str] = &[
    "Goal: finish SHOP-4711. Next steps: the retry in src/auth/retry.rs.",
    "Goal: login fix (SHOP-4711)\nState: only src/auth/retry.rs is open",
    "Done: src/auth/login.rs read. Errors: E0308 in every step. Next steps: src/auth/retry.rs, 250 ms.",
    "## Next steps\n- cap the retry in src/auth/retry.rs at 250 ms",
    "Constraints: never edit src/legacy/session.rs. Goal: SHOP-4711. Open: retry.",
    "Goal: SHOP-4711\nErrors: I couldn't build src/auth/step_3.rs (E0308). Next steps: ask the user which limit is right.",
    "Goal: repair the login, SHOP-4711.\nOpen: does the user want 250 ms or more? src/auth/retry.rs is unchanged.",
    "State: sorry state of src/auth/login.rs; E0308 everywhere; signature stays.",
    "Ziel: SHOP-4711. Offen: src/auth/retry.rs. Leider schlägt step_3 mit E0308 fehl.",
    "Aufgabe: Login (SHOP-4711)\nRegeln: src/legacy/session.rs bleibt, wie es ist\nOffen: Retry",
    "Objectif : SHOP-4711. Reste : src/auth/retry.rs. Malheureusement E0308 dans src/auth/step_7.rs.",
    "Meta: SHOP-4711. Pendiente: src/auth/retry.rs, 250 ms.",
    "Objetivo: SHOP-4711. Pendente: src/auth/retry.rs.",
    "Scopo: SHOP-4711. Prossimi passi: src/auth/retry.rs.",
    "Задача: SHOP-4711. Осталось: src/auth/retry.rs. К сожалению, E0308 в step_3.",
    "目标：SHOP-4711。待办：src/auth/retry.rs，限制 250 ms。",
    "目的：SHOP-4711。次の作業：src/auth/retry.rs（250 ms）。",
    "목표: SHOP-4711 로그인 수정\n오류: src/auth/step_3.rs 의 E0308\n다음 단계: src/auth/retry.rs",
    "Hedef: SHOP-4711 girişini onarmak\nHatalar: src/auth/step_3.rs içinde E0308\nSonraki adımlar: src/auth/retry.rs",
    "Mục tiêu: sửa đăng nhập SHOP-4711\nLỗi: E0308 trong src/auth/step_3.rs\nBước tiếp theo: src/auth/retry.rs",
    "{\"goal\": \"SHOP-4711\", \"open\": [\"src/auth/retry.rs\"]}",
    "Sure, here it is.\n\nGoal: SHOP-4711\nOpen: src/auth/retry.rs",
];

/// Answers that are no summary of [`chatting`].
const NO_CHATS: &[&str] = &[
    "Goal: I would rather not summarise Melanie's private party.",
    "Shall I suggest more flowers for Melanie's terrace?",
    "I hope Melanie enjoys her party! Let me know if there is anything else that I can do for you.",
];

/// More answers that are no summary, written independently.
const OTHER_NO_SUMMARIES: &[&str] = &[
    "I regret that I cannot condense the discussion about src/auth/login.rs for you.",
    "This request falls outside what I am able to do; SHOP-4711 has to be handled by a person.",
    "Goal: I'm afraid I can't do that.",
    "Das übersteigt leider meine Möglichkeiten, auch wenn src/auth/login.rs dabei ist.",
    "Ich bedaure, aber eine Zusammenfassung zu SHOP-4711 darf ich nicht erstellen.",
    "Désolée, je ne suis pas autorisée à résumer src/auth/login.rs.",
    "Lamentablemente no me está permitido resumir src/auth/login.rs.",
    "Peço desculpa, mas não estou autorizado a resumir src/auth/login.rs.",
    "Sono spiacente, ma non mi è consentito riassumere src/auth/login.rs.",
    "Увы, пересказать разговор о src/auth/login.rs не получится.",
    "对不起，这段关于 src/auth/login.rs 的对话我不便总结。",
    "ごめんなさい、src/auth/login.rs の会話は要約しかねます。",
    "죄송하지만 src/auth/login.rs 대화는 요약해 드릴 수 없습니다.",
    "Helaas mag ik src/auth/login.rs niet samenvatten.",
    "Przykro mi, ale nie wolno mi streścić src/auth/login.rs.",
    "Should the summary of SHOP-4711 also cover src/legacy/session.rs?",
    "Next steps: shall I go on with src/auth/retry.rs, or is there anything else?",
    "Quiere que siga con src/auth/retry.rs o prefiere otra cosa?",
    "Хотите, чтобы я продолжил с src/auth/retry.rs?",
    "您想让我先处理 src/auth/retry.rs 吗？",
    "Noted.",
    "All done, the summary is above.",
    "Summary: see above.",
    "The summary of src/auth/login.rs was written to summary.md. You can open it there.",
    "Alright! I have everything that I need about SHOP-4711. Ready when you are.",
    "<think>\nThe user wants headings. SHOP-4711.\n",
    "<thought>Goal: SHOP-4711</thought>",
    "Hmm, what should go in here? I need to list src/auth/login.rs. Then I should add SHOP-4711. Let me write it down.",
    "## Goal\n\nI apologise, but this is not something that I can help with.",
    "Decisions: Sorry, I can't continue.",
    "Goal: repair the login\nNext st",
    "Goal: repair",
    "{\"message\": \"rate limit exceeded\", \"type\": \"error\"}",
    "[]",
    "{\"command\": \"cat src/auth/retry.rs\"}",
    "{\"tool_calls\": [{\"function\": {\"name\": \"read\", \"arguments\": \"{}\"}}]}",
    "I will look at it now.\n\n<function=read>\n<parameter=path>src/auth/retry.rs</parameter>\n</function>",
    "cat src/auth/retry.rs | head -50",
    "Answer with the summary only, in plain text, at most 240 words, and call no tool.",
    "Write it so that you could go on with the work from it alone, without asking again. Use these headings, leaving out \
     empty ones: Goal; Done; State; Files.",
];

/// More short summaries, written independently.
const OTHER_SUMMARIES: &[&str] = &[
    "Task: SHOP-4711, the login. Remaining: src/auth/retry.rs.",
    "Progress: src/auth/login.rs is read, E0308 is understood. Todo: src/auth/retry.rs.",
    "Status: E0308 in step_0 to step_21. Decisions: keep the signature.",
    "Goal: SHOP-4711. Errors: the build can't find step_3 (E0308). Next steps: let the caller convert.",
    "Next steps: we need to cap src/auth/retry.rs at 250 ms; we should leave src/legacy/session.rs alone.",
    "Decisions: I should keep the signature (user's wish). Files: src/auth/login.rs. Let me note: retry is at 250 ms.",
    "Files: src/auth/login.rs, src/auth/retry.rs\nOpen: SHOP-4711",
    "Done: nothing yet. Goal: SHOP-4711. Constraints: src/legacy/session.rs is off limits.",
    "Stand: SHOP-4711 offen, src/auth/retry.rs fehlt. Fehler: E0308.",
    "Erledigt: src/auth/login.rs gelesen. Nächste Schritte: Retry auf 250 ms begrenzen.",
    "But : SHOP-4711. Fichiers : src/auth/login.rs. À faire : retry de 250 ms.",
    "Hecho: src/auth/login.rs leído. Errores: E0308. Siguiente: src/auth/retry.rs.",
    "Feito: src/auth/login.rs lido. Erros: E0308. Próximos passos: src/auth/retry.rs.",
    "Fatto: letto src/auth/login.rs. Errori: E0308. Prossimi passi: src/auth/retry.rs.",
    "Сделано: прочитан src/auth/login.rs. Ошибки: E0308. Дальше: src/auth/retry.rs.",
    "已完成：阅读 src/auth/login.rs。错误：E0308。下一步：src/auth/retry.rs。",
    "完了：src/auth/login.rs を読んだ。エラー：E0308。今後：src/auth/retry.rs。",
    "완료: src/auth/login.rs 읽음. 오류: E0308. 다음: src/auth/retry.rs.",
    "Doel: SHOP-4711. Fouten: E0308. Volgende stap: src/auth/retry.rs.",
    "Cel: SHOP-4711. Błędy: E0308. Następne kroki: src/auth/retry.rs.",
    "Mål: SHOP-4711. Fel: E0308. Nästa steg: src/auth/retry.rs.",
    "Tujuan: SHOP-4711. Kesalahan: E0308. Langkah berikutnya: src/auth/retry.rs.",
];

#[test]
fn answers_that_are_no_summary_are_refused() {
    let (coding, chatting) = (coding(), chatting());
    let of_coding = NO_SUMMARIES.iter().chain(OTHER_NO_SUMMARIES).map(|text| (*text, coding.as_str()));
    let of_chats = NO_CHATS.iter().map(|text| (*text, chatting.as_str()));
    let taken: Vec<_> =
        of_coding.chain(of_chats).filter(|(text, material)| check(text, material).is_ok()).collect();
    let taken: Vec<&str> = taken.into_iter().map(|(text, _)| text).collect();
    assert!(taken.is_empty(), "{taken:#?}");
}

#[test]
fn short_summaries_are_taken_in_every_language() {
    let coding = coding();
    let refused: Vec<_> = SUMMARIES
        .iter()
        .chain(OTHER_SUMMARIES)
        .filter_map(|text| Some((check(text, &coding).err()?, text)))
        .collect();
    assert!(refused.is_empty(), "{refused:#?}");
}
