//! The headings of a summary, in any form of mark-up and in common languages.

/// The headings that a summary is asked for, in order.
pub(in crate::plan::draft) const REQUESTED_HEADINGS: [&str; 8] =
    ["Goal", "Instructions and constraints", "Done", "Decisions", "State", "Files", "Errors", "Next steps"];

/// The beginnings of words in these headings and their translations. A heading is short, so one such word is enough.
const WORDS: [&[&str]; 17] = [
    // English.
    &[
        "goal",
        "objective",
        "task",
        "instruction",
        "constraint",
        "rule",
        "requirement",
        "done",
        "completed",
        "progress",
        "accomplish",
        "work",
        "decision",
        "state",
        "status",
        "file",
        "error",
        "problem",
        "issue",
        "next",
        "todo",
        "pending",
        "remaining",
        "open",
    ],
    // German.
    &[
        "ziel",
        "aufgabe",
        "anweisung",
        "vorgabe",
        "einschränkung",
        "regel",
        "erledigt",
        "fertig",
        "entscheidung",
        "stand",
        "zustand",
        "datei",
        "fehler",
        "nächste",
        "offen",
    ],
    // French.
    &[
        "objectif",
        "but",
        "consigne",
        "contrainte",
        "règle",
        "fait",
        "terminé",
        "réalisé",
        "décision",
        "état",
        "statut",
        "fichier",
        "erreur",
        "prochaine",
        "étapes",
        "suite",
    ],
    // Spanish.
    &[
        "objetivo",
        "meta",
        "instruccion",
        "restriccion",
        "regla",
        "hecho",
        "completado",
        "realizado",
        "decision",
        "estado",
        "archivo",
        "fichero",
        "error",
        "próximo",
        "siguiente",
        "pendiente",
    ],
    // Portuguese.
    &[
        "objetivo",
        "instruç",
        "restriç",
        "regra",
        "feito",
        "concluíd",
        "decis",
        "estado",
        "arquivo",
        "ficheiro",
        "erro",
        "próximo",
        "pendente",
    ],
    // Italian.
    &[
        "obiettivo",
        "scopo",
        "istruzioni",
        "vincol",
        "regol",
        "fatto",
        "completat",
        "decisioni",
        "stato",
        "file",
        "errori",
        "prossim",
        "passi",
    ],
    // Russian.
    &[
        "цель",
        "задача",
        "инструкци",
        "ограничени",
        "правил",
        "сделано",
        "выполнено",
        "готово",
        "решени",
        "состояние",
        "статус",
        "файл",
        "ошибк",
        "следующ",
        "дальше",
    ],
    // Chinese.
    &[
        "目标",
        "目的",
        "指令",
        "说明",
        "约束",
        "限制",
        "要求",
        "已完成",
        "完成",
        "决定",
        "决策",
        "状态",
        "现状",
        "文件",
        "错误",
        "问题",
        "下一步",
        "待办",
    ],
    // Japanese.
    &[
        "目標",
        "目的",
        "指示",
        "制約",
        "条件",
        "完了",
        "実施",
        "決定",
        "状態",
        "現状",
        "ファイル",
        "エラー",
        "次の",
        "今後",
    ],
    // Korean.
    &["목표", "지시", "제약", "완료", "결정", "상태", "파일", "오류", "다음"],
    // Dutch.
    &[
        "doel",
        "instructie",
        "beperking",
        "gedaan",
        "klaar",
        "besluit",
        "toestand",
        "bestand",
        "fout",
        "volgende",
    ],
    // Polish.
    &[
        "cel",
        "instrukcj",
        "ogranicze",
        "zrobion",
        "wykonan",
        "decyzj",
        "stan",
        "plik",
        "błęd",
        "błąd",
        "następn",
    ],
    // Swedish.
    &["mål", "instruktion", "begränsning", "klart", "beslut", "läge", "filer", "fel", "nästa"],
    // Turkish.
    &[
        "hedef", "amaç", "talimat", "kısıt", "tamamlan", "yapılan", "karar", "durum", "dosya", "hata",
        "sonraki",
    ],
    // Ukrainian.
    &[
        "мета",
        "завдання",
        "інструкці",
        "обмеженн",
        "зроблено",
        "виконано",
        "рішення",
        "стан",
        "файл",
        "помилк",
        "наступн",
    ],
    // Vietnamese.
    &[
        "mục tiêu",
        "chỉ dẫn",
        "ràng buộc",
        "đã làm",
        "hoàn thành",
        "quyết định",
        "trạng thái",
        "tệp",
        "lỗi",
        "bước tiếp",
    ],
    // Indonesian.
    &["tujuan", "instruksi", "batasan", "selesai", "keputusan", "berkas", "kesalahan", "langkah"],
];

/// The most words of a heading.
const MAX_WORDS: usize = 6;

/// The most bytes of a heading. In bytes, because a heading in a script without blanks is one word of few characters.
const MAX_BYTES: usize = 48;

/// A text divided into headings and the rest.
pub(super) struct HeadingOutline {
    /// The number of requested headings, or of others with their meaning.
    pub(super) headings: usize,
    /// The text below and beside the headings.
    pub(super) body: String,
}

impl HeadingOutline {
    pub(super) fn of(text: &str) -> Self {
        let mut outline = Self { headings: 0, body: String::new() };
        for line in text.lines().flat_map(segments) {
            match heading(line) {
                Some((title, rest)) => {
                    outline.headings += usize::from(is_requested(title));
                    // A label that was not asked for is content.
                    outline.body.push_str(if is_requested(title) { rest } else { line });
                }
                None => outline.body.push_str(line),
            }
            outline.body.push('\n');
        }
        outline
    }
}

/// Returns the pieces of a line that may each begin with a heading: `Goal: a; Done: b` has two.
fn segments(line: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = line;
    while let Some(at) = rest.char_indices().find_map(|(at, char)| {
        let is_end =
            matches!(char, ';' | '；' | '|' | '。') || char == '.' && rest[at + 1..].starts_with(' ');
        let after = rest.get(at + char.len_utf8()..)?;
        (is_end && label(after).is_some_and(|(title, _)| is_requested(title))).then_some(at + char.len_utf8())
    }) {
        found.push(&rest[..at]);
        rest = &rest[at..];
    }
    found.push(rest);
    found
}

/// Returns the title of a line and the text behind the title; `None` if the line has no title.
fn heading(line: &str) -> Option<(&str, &str)> {
    if let Some(found) = label(line) {
        return Some(found);
    }
    let bare = undecorated(line);
    let is_marked = line.trim_start().starts_with(['#', '*', '_', '【', '[', '<', '=', '■', '◆', '●']);
    // A short line is a title if it carries a mark or does not end like a sentence.
    let is_title = is_marked || !line.trim_end().ends_with(['.', '!', '?', '。', ',', ';']);
    (is_title && is_short(bare)).then_some((bare, ""))
}

/// Returns the short text before a colon or a similar mark, and the text behind the mark.
fn label(line: &str) -> Option<(&str, &str)> {
    let marks = [":", "：", "】", " - ", " – ", " — ", "|"];
    let (title, rest) = marks.iter().filter_map(|mark| line.split_once(mark)).min_by_key(|(title, _)| {
        // A mark at the beginning of a line is a bullet and not the end of a title.
        let is_blank = undecorated(title).is_empty();
        if is_blank { usize::MAX } else { title.len() }
    })?;
    let title = undecorated(title);
    is_short(title).then_some((title, rest))
}

fn is_short(title: &str) -> bool {
    !title.is_empty() && title.split_whitespace().count() <= MAX_WORDS && title.len() <= MAX_BYTES
}

/// Returns a title without marks, numbers and brackets around.
fn undecorated(title: &str) -> &str {
    title.trim_matches(|char: char| !char.is_alphabetic())
}

fn is_requested(title: &str) -> bool {
    let title = title.to_lowercase();
    let bare = without_accents(&title);
    let mut words = WORDS.iter().flat_map(|words| words.iter());
    is_short(&title)
        && words.any(|word| {
            if word.chars().any(crate::retention_report::facts::is_unspaced) {
                // Without blanks between words, every place of the title may be the beginning of one.
                return title.contains(word);
            }
            // A heading of several words is compared as a whole.
            word.contains(' ') && title.contains(word)
                || has_word_from(&title, word)
                || has_word_from(&bare, &without_accents(word))
        })
}

/// Returns whether a word of the text begins with `start`.
fn has_word_from(text: &str, start: &str) -> bool {
    text.split(|char: char| !char.is_alphanumeric()).any(|word| word.starts_with(start))
}

/// Returns a text as keyboards without accents write it.
fn without_accents(text: &str) -> String {
    let plain = text.chars().map(|char| match char {
        'á' | 'à' | 'â' | 'ã' | 'ä' => 'a',
        'é' | 'è' | 'ê' | 'ë' => 'e',
        'í' | 'ì' | 'î' | 'ï' => 'i',
        'ó' | 'ò' | 'ô' | 'õ' | 'ö' => 'o',
        'ú' | 'ù' | 'û' | 'ü' => 'u',
        'ç' => 'c',
        'ñ' => 'n',
        other => other,
    });
    plain.collect()
}
