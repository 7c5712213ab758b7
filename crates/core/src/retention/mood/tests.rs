use super::*;

#[test]
fn commands_with_a_scope_sound_like_orders_in_any_language() {
    let orders = [
        "Whenever you quote a price, round it to whole euros.",
        "Sign every reply with the initials KV.",
        "Before you touch the schema, ask Dana.",
        "From now on use spaces.",
        "Keep the tone formal, no jokes.",
        "HARD CONSTRAINT: the service speaks HTTP/1.1 only.",
        "Beende jede Antwort mit einer Zusammenfassung.",
        "Bevor du eine Datei löschst, frag mich.",
        "Termine im Format TT.MM.JJJJ angeben, und zwar immer.",
        "Avant de répondre, vérifie les sources.",
        "Désormais, signe chaque message par « KV ».",
        "Siempre que cites una cifra, indica la fuente.",
        "No incluyas mi nombre en ningún archivo.",
        "Antes de enviar, mostre o rascunho.",
        "D'ora in poi rispondi con elenchi puntati.",
        "Каждый ответ заканчивай вопросом.",
        "Прежде чем менять код, покажи план.",
        "每次回答都要附上来源。",
        "回答する前に必ず確認してください。",
        "Elke reactie eindig je met een vraag.",
        "Zawsze podawaj źródło.",
    ];
    for order in orders {
        assert!(order_score(order) >= ORDER_SCORE, "{}: {order}", order_score(order));
    }
}

#[test]
fn questions_and_talk_about_oneself_do_not() {
    let others = [
        "Can you answer in French?",
        "Did you always work in Paris?",
        "Why is the report always late?",
        "Is every page slow?",
        "Do you know if the job runs every night?",
        "What do you think about the tax table compared to the audit log?",
        "Kennst du jeden Ort hier?",
        "No idea.",
        "No, that is fine.",
        "No problem at all.",
        "No, thanks.",
        "Nein danke.",
        "Keine Ahnung.",
        "Kein Problem.",
        "Pas de problème.",
        "Sin problema.",
        "No lo sé.",
        "I'm going to try the podcast first.",
        "That's really cool!",
        "We had a big family and felt supported.",
        "Thanks, this is great.",
        "The weather was nice in Paris.",
        "Ich habe gestern den Zug verpasst.",
        "Je suis allé au marché.",
        "Gracias, está muy bien.",
        "Вчера я ходил в кино.",
        "你喜欢什么颜色吗？",
    ];
    for other in others {
        assert!(order_score(other) < ORDER_SCORE, "{}: {other}", order_score(other));
    }
}

#[test]
fn prohibitions_without_a_verb_are_orders() {
    let orders = [
        "No emojis.",
        "No tables, please.",
        "No jokes.",
        "- no print statements",
        "Please no emojis.",
        "Keine Emojis.",
        "Bitte keine Tabellen.",
        "Kein Smalltalk.",
        "Pas de tableaux.",
        "Pas d'emojis, merci.",
        "Sin emojis.",
        "Sem tabelas.",
        "Niente emoji.",
        "Nessuna tabella.",
        "Não uses tabelas.",
        "Без таблиц.",
        "Geen emoji's.",
        "Bez tabel.",
    ];
    for order in orders {
        assert!(order_score(order) >= ORDER_SCORE, "{}: {order}", order_score(order));
    }
}

#[test]
fn polite_questions_with_a_scope_are_orders() {
    let orders = [
        "Could you from now on write all SQL keywords in upper case?",
        "Would you mind always adding the ticket number at the top of each reply?",
        "Can you make sure you never mention prices?",
        "Can you please always end your replies with the word OVER?",
        "Will you keep every answer short?",
        "Könntest du mir bitte ab jetzt immer zuerst den Plan zeigen?",
        "Kannst du bitte nie Tabellen verwenden?",
        "Würden Sie bitte künftig auf Deutsch antworten?",
        "Peux-tu toujours répondre en français ?",
        "Pourriez-vous désormais éviter les tableaux ?",
        "Est-ce que tu peux toujours répondre en français ?",
        "¿Puedes responder siempre en español?",
        "¿Podrías a partir de ahora evitar las tablas?",
        "Puoi rispondere sempre in italiano?",
        "Você pode sempre responder em português?",
        "これからは箇条書きで答えてくれますか。",
        "앞으로는 표로 정리해 주시겠어요?",
    ];
    for order in orders {
        assert!(order_score(order) >= ORDER_SCORE, "{}: {order}", order_score(order));
    }
}

#[test]
fn log_levels_are_no_labels() {
    let lines = [
        "ERROR: connection to 10.0.0.7 refused",
        "INFO: started worker 3",
        "2026-03-01 12:00:07 WARN: slow query",
        "[DEBUG] 17: cache miss",
        "2026-03-01T12:00:07Z ERROR retry the request",
    ];
    for line in lines {
        assert!(!has_label(line), "{line}");
        assert!(order_score(line) < ORDER_SCORE, "{}: {line}", order_score(line));
    }
    for order in
        ["HARD CONSTRAINT: only Python 3.11", "WARNING: never touch prod", "CRITICAL: ask before a deploy"]
    {
        assert!(has_label(order) && order_score(order) >= ORDER_SCORE, "{order}");
    }
    assert!(order_score("ERROR messages must always go to stderr, never to stdout.") >= ORDER_SCORE);
}

#[test]
fn a_question_behind_a_label_is_no_order() {
    assert!(order_score_below_label("Is that right?") < ORDER_SCORE);
    assert!(order_score_below_label("No network.") >= ORDER_SCORE);
}

#[test]
fn the_more_signs_the_higher_the_score() {
    let clear = order_score("Before you answer, always check the date.");
    assert!(clear > order_score("Check the date."), "{clear}");
}

fn assert_orders(orders: &[&str]) {
    let lost: Vec<_> = orders
        .iter()
        .filter(|order| order_score(order) < ORDER_SCORE)
        .map(|order| (order_score(order), order))
        .collect();
    assert!(lost.is_empty(), "{lost:#?}");
}

fn assert_no_orders(others: &[&str]) {
    let found: Vec<_> = others
        .iter()
        .filter(|other| order_score(other) >= ORDER_SCORE)
        .map(|other| (order_score(other), other))
        .collect();
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn polite_wishes_are_orders() {
    assert_orders(&[
        "I'd like you to answer in German.",
        "I want all replies in French.",
        "I prefer metric units.",
        "It would be great if your answers were shorter.",
        "Please, answer in French.",
        "Bitte auf Deutsch antworten.",
        "Ich möchte, dass du Quellen nennst.",
        "Es wäre schön, wenn die Antworten kürzer wären.",
        "S'il te plaît, pas de tableaux.",
        "Je voudrais que tu cites tes sources.",
        "Por favor, responde en español.",
        "Me gustaría que respondieras con listas.",
        "Gostaria que citasses as fontes.",
        "Per favore, rispondi in italiano.",
        "Vorrei che tu citassi le fonti.",
        "Пожалуйста, отвечай по-русски.",
        "Я хочу, чтобы ты указывал источники.",
        "Ik wil graag dat je bronnen noemt.",
        "Chciałbym, żebyś podawał źródła.",
        "麻烦用中文回答。",
        "日本語でお願いします。",
        "한국어로 부탁드립니다.",
        "Short answers, please.",
    ]);
    assert_no_orders(&[
        "I want to see Rome.",
        "I'd like a coffee.",
        "Yes, please.",
        "Ja, bitte.",
        "Oui, s'il te plaît.",
        "Per the docs, the limit is five.",
        "Ich möchte nach Rom fahren.",
    ]);
}

#[test]
fn conditions_with_a_command_are_orders() {
    assert_orders(&[
        "If in doubt, ask.",
        "If you're unsure, say so.",
        "If a test fails then stop and report.",
        "Should a test fail, stop at once.",
        "Unless I say otherwise, write in English.",
        "Falls unklar, frag nach.",
        "Sollte ein Test fehlschlagen, brich ab.",
        "Si un test échoue, arrête-toi.",
        "Si falla una prueba, detente.",
        "Se um teste falhar, pare.",
        "Se un test fallisce, fermati.",
        "Если тест упал, остановись.",
        "Als een test faalt, stop dan.",
        "Jeśli test nie przejdzie, przerwij.",
        "如果测试失败，请停下。",
    ]);
    assert_no_orders(&["If so, great.", "If not, fine.", "For dinner, pasta.", "If that works, good."]);
}

#[test]
fn bare_prohibitions_are_orders() {
    assert_orders(&[
        "Absolutely no emojis.",
        "Not a single table.",
        "Zero emojis.",
        "Bloß keine Tabellen.",
        "Nicht auf main pushen.",
        "Bitte nichts löschen.",
        "Surtout pas de tableaux.",
        "Nada de tablas.",
        "Por favor, sin emojis.",
        "Nada de tabelas.",
        "Assolutamente niente tabelle.",
        "Никаких таблиц, пожалуйста.",
        "Niet naar main pushen.",
        "Absolutnie żadnych tabel.",
    ]);
    assert_no_orders(&[
        "Not one test failed.",
        "Nicht vorhanden.",
        "But no luck so far.",
        "Really no idea.",
        "And no tests failed.",
    ]);
}

#[test]
fn answers_that_are_obliged_to_something_are_orders() {
    assert_orders(&[
        "Answers must be short.",
        "All replies have to be in German.",
        "Die Antworten sollen kurz sein.",
        "Les réponses doivent être courtes.",
        "Las respuestas deben ser cortas.",
        "As respostas devem ser curtas.",
        "Le risposte devono essere brevi.",
        "Ответы должны быть краткими.",
        "Antwoorden moeten kort zijn.",
        "Odpowiedzi muszą być krótkie.",
        "Important: keep it short.",
        "Wichtig: antworte auf Deutsch.",
    ]);
    assert_no_orders(&["The answer was short.", "Note: the build failed.", "Your replies have helped me."]);
}

#[test]
fn a_leading_scope_or_clause_hides_no_command() {
    for order in [
        "From now on answer in French.",
        "From now on, answer in French.",
        "Od teraz odpowiadaj po polsku.",
        "A partir de ahora responde en francés.",
        "С этого момента отвечай по-французски.",
        "À partir de maintenant réponds en anglais.",
    ] {
        assert!(order_score(order) >= CLEAR_ORDER_SCORE + STANDING_SCORE, "{}: {order}", order_score(order));
    }
    assert_orders(&[
        "Also, cite the source.",
        "Okay, so use metric units.",
        "Claude, use British spelling.",
        "By the way, write dates as YYYY-MM-DD.",
        "One more thing: put prices in euros.",
        "Note: answer in French.",
        "Hey, stop using emojis.",
        "Übrigens, schreib Preise in Euro.",
        "Por cierto, escribe los precios en euros.",
        "Au fait, écris les prix en euros.",
        "Кстати, пиши цены в евро.",
    ]);
}

#[test]
fn an_article_is_no_auxiliary() {
    assert_orders(&[
        "Always cite a source.",
        "Write a test for each change.",
        "Add a comment where it surprises.",
    ]);
    assert_no_orders(&["Marie a compté les caisses hier.", "Paul a fait le tour du dépôt."]);
}

#[test]
fn a_scope_without_an_end_outweighs_a_task_of_today() {
    let task = "Check every crate of delivery 408, and tell me only if one is over 19 kilos.";
    for order in ["From now on answer in French.", "Always cite a source.", "Never use tables."] {
        assert!(order_score(order) > order_score(task) + 1, "{order}");
    }
}

#[test]
fn obligations_of_things_are_orders() {
    assert_orders(&[
        "Tests have to pass before a merge.",
        "Commits must be signed.",
        "No PR goes in without a review.",
        "No code may be merged before two people have read it.",
        "Every endpoint needs a test.",
        "Our migrations have to be reversible.",
        "Nothing ships without a review.",
        "The changelog must be updated with each change.",
        "Tests müssen vor dem Merge grün sein.",
        "Jeder Endpunkt braucht einen Test.",
        "Les tests doivent passer avant la fusion.",
        "Chaque module doit avoir un test.",
        "Los tests tienen que pasar antes de un merge.",
        "Os testes têm de passar antes do merge.",
        "I test devono passare prima del merge.",
        "Тесты должны проходить до слияния.",
        "Tests moeten slagen voor een merge.",
        "Testy muszą przechodzić przed scaleniem.",
        "Testerna måste gå igenom före en merge.",
        "Тести повинні проходити перед злиттям.",
        "每个接口都要有测试。",
        "すべてのテストは通らなければなりません。",
        "모든 테스트는 통과해야 합니다.",
    ]);
    assert_no_orders(&[
        "I have to leave at five.",
        "It must have been late.",
        "The night must have been cold.",
        "She has to work on Monday.",
        "Dinner should be ready.",
        "We have to go to Paris next week.",
        "Nobody came to the party.",
        "我今天不能来。",
    ]);
}

#[test]
fn wishes_for_all_and_polite_requests_are_orders() {
    assert_orders(&[
        "I want you to cite a source.",
        "I'd like every commit message to name the ticket.",
        "I want all tests to pass.",
        "I'd like every answer to end with a summary.",
        "Could you please stop using emojis?",
        "Would you mind answering in French?",
        "Would you mind adding the ticket number?",
        "Can you please avoid tables?",
        "Könntest du bitte aufhören, Emojis zu benutzen?",
        "Pourrais-tu arrêter d'utiliser des tableaux ?",
        "¿Podrías dejar de usar tablas?",
        "Você pode parar de usar tabelas?",
        "Puoi smettere di usare le tabelle?",
        "Ты можешь перестать использовать таблицы?",
        "Kun je stoppen met tabellen?",
        "Kan du sluta använda tabeller?",
        "能不能不要用表格？",
    ]);
    assert_no_orders(&[
        "Can you stop the server?",
        "Do you mind if I smoke?",
        "I want all of it.",
        "Could you please check the log?",
        "I'd like to see every museum in Rome.",
    ]);
}

#[test]
fn more_languages_have_orders_with_a_scope() {
    for order in [
        "Använd alltid tabbar.",
        "Från och med nu ska du svara på svenska.",
        "Pusha aldrig till main.",
        "Her zaman Türkçe cevap ver.",
        "Asla tablo kullanma.",
        "Bundan sonra kısa cevap ver.",
        "Завжди відповідай українською.",
        "Ніколи не видаляй файли.",
        "Luôn trả lời bằng tiếng Việt.",
        "Đừng bao giờ dùng bảng.",
        "Selalu jawab dalam bahasa Indonesia.",
        "Jangan pernah menghapus file.",
        "Mulai sekarang jawab singkat.",
        "أجب دائما بالعربية.",
        "لا تستخدم الجداول أبدا.",
        "من الآن فصاعدا أجب باختصار.",
        "हमेशा हिंदी में जवाब दो।",
        "अब से छोटे जवाब दीजिए।",
        "절대 main에 푸시하지 마세요.",
        "항상 한국어로 답해 주세요.",
        "絶対に表を使わないでください。",
        "绝对不要用表格。",
        "以后不要再用表格。",
    ] {
        assert!(order_score(order) >= CLEAR_ORDER_SCORE, "{}: {order}", order_score(order));
    }
    assert_orders(&[
        "Snälla, inga tabeller.",
        "Lütfen kısa cevap ver.",
        "Будь ласка, без таблиць.",
        "Vui lòng trả lời ngắn gọn.",
        "Tolong jawab singkat.",
        "من فضلك أجب بالعربية.",
        "कृपया हिंदी में जवाब दें।",
        "표는 쓰지 말아 주세요.",
        "표는 쓰지 마.",
        "짧게 부탁해요.",
        "表は使わないで。",
        "短くお願いします。",
        "不能用表格。",
        "每个函数都要有测试。",
    ]);
    assert_no_orders(&[
        "Jag gick till affären igår.",
        "Ben dün sinemaya gittim.",
        "Я ходив у кіно вчора.",
        "Tôi đi chợ hôm qua.",
        "Saya pergi ke pasar kemarin.",
        "أنا ذهبت إلى السوق أمس.",
        "الطقس جميل اليوم.",
        "मैं कल बाज़ार गया था।",
        "मौसम अच्छा है।",
        "오늘 날씨가 좋네요.",
        "今日は天気がいい。",
    ]);
}

#[test]
fn withdrawals_are_orders_and_news_are_none() {
    assert_orders(&[
        "French is no longer needed.",
        "You may use tables again.",
        "Forget the rule about tabs.",
        "You can stop adding a summary.",
        "Drop the summaries.",
        "You don't have to ask before you push.",
        "Du darfst wieder Tabellen benutzen.",
        "Du musst nicht mehr fragen.",
        "Les tableaux ne sont plus interdits.",
        "Ya no hace falta el resumen.",
        "不用再写总结了。",
    ]);
    assert_no_orders(&["The server is off.", "I don't eat meat anymore."]);
}
