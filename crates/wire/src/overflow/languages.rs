//! Overflow errors in other languages than English, recognised by the kinds of their words.
//!
//! Servers reword and translate their sentences, so there is no table of sentences here. A sentence means overflow if it
//! has a word for the context, the input or tokens, and a word of excess in the same language.

use std::sync::LazyLock;

use regex::Regex;

use super::{ReportedOverflow, patterns};

/// The words of one language, in lower case. Beginnings of words stand for all their endings.
struct OverflowVocabulary {
    /// Words for the context window.
    context: &'static [&'static str],
    /// Words for what is sent.
    input: &'static [&'static str],
    /// Words for the length of what is sent.
    length: &'static [&'static str],
    /// Words for tokens, and for characters that are counted like them.
    tokens: &'static [&'static str],
    /// Words for being above a limit.
    excess: &'static [&'static str],
    /// Words for being too long, which need no word for a length.
    too_long: &'static [&'static str],
    /// Words for a limit. Beside the context or a length they say enough.
    maximum: &'static [&'static str],
}

#[rustfmt::skip]
const VOCABULARIES: &[OverflowVocabulary] = &[
    // Chinese: Zhipu, DashScope, Spark, Hunyuan, Baidu
    OverflowVocabulary {
        context: &["上下文"],
        input: &["输入", "輸入", "提示", "prompt", "消息", "訊息", "对话", "對話", "内容", "內容", "文本", "请求", "請求", "问题"],
        length: &["长度", "長度"],
        tokens: &["token", "词元", "字数", "字數", "字符数"],
        excess: &["超过", "超過", "超出", "超限", "大于", "大於", "溢出", "达到上限", "超长", "超長", "过长", "過長", "太长", "太長", "太多", "过多"],
        too_long: &["超长", "超長", "过长", "過長", "太长", "太長"],
        maximum: &["最大", "上限", "最多", "最长", "限制"],
    },
    OverflowVocabulary {
        context: &["コンテキスト", "コンテクスト"],
        input: &["入力", "プロンプト", "メッセージ", "リクエスト"],
        length: &["長さ", "文字列長"],
        tokens: &["トークン", "文字数"],
        excess: &["超え", "超過", "上回", "長すぎ", "多すぎ", "大きすぎ"],
        too_long: &["長すぎ"],
        maximum: &["最大", "上限", "制限"],
    },
    OverflowVocabulary {
        context: &["컨텍스트", "문맥"],
        input: &["입력", "프롬프트", "메시지", "요청"],
        length: &["길이"],
        tokens: &["토큰", "글자 수"],
        excess: &["초과", "넘었", "넘습", "넘어", "너무 길", "너무 깁", "너무 많"],
        too_long: &["너무 길", "너무 깁"],
        maximum: &["최대", "한도", "제한", "상한"],
    },
    OverflowVocabulary {
        context: &["контекст"],
        input: &["запрос", "промпт", "сообщени", "входн"],
        length: &["длин"],
        tokens: &["токен"],
        excess: &["превыш", "слишком длин", "слишком больш", "слишком много", "больше допустим"],
        too_long: &["слишком длин"],
        maximum: &["максим", "лимит", "предел"],
    },
    // Spanish, and Portuguese where its words differ
    OverflowVocabulary {
        context: &["contexto"],
        input: &["entrada", "solicitud", "solicitação", "mensaje", "mensage", "petición", "prompt"],
        length: &["longitud", "comprimento", "tamaño"],
        tokens: &["token"],
        excess: &["excede", "excedi", "supera", "sobrepas", "ultrapass", "demasiado larg", "demasiados", "muito long"],
        too_long: &["demasiado larg", "muito long"],
        maximum: &["máxim", "límite", "limite"],
    },
    OverflowVocabulary {
        context: &["contexte"],
        input: &["requête", "entrée", "invite", "message", "prompt"],
        length: &["longueur"],
        tokens: &["token", "jeton"],
        excess: &["dépass", "excèd", "trop long", "trop de"],
        too_long: &["trop long"],
        maximum: &["maxim", "limite"],
    },
    OverflowVocabulary {
        context: &["kontext"],
        input: &["anfrage", "eingabe", "nachricht", "prompt"],
        length: &["länge", "laenge"],
        tokens: &["token"],
        excess: &["überschr", "ueberschr", "übersteig", "uebersteig", "zu lang", "zu groß", "zu viele"],
        too_long: &["zu lang"],
        maximum: &["maxim", "höchst", "grenze", "limit"],
    },
];

/// Words of errors about a rate, a budget or a key: a wait or a payment helps, a shorter request does not.
#[rustfmt::skip]
const OTHER_ERRORS: &[&str] = &[
    "每分钟", "每分鐘", "每秒", "每小时", "每天", "每日", "频率", "頻率", "速率", "限流", "额度", "額度", "配额", "配額", "余额", "餘額", "并发", "欠费", "过期", "有效期",
    "毎分", "分あたり", "秒あたり", "毎日", "レート", "クォータ", "有効期限",
    "분당", "초당", "하루", "할당량", "속도", "만료",
    "в минуту", "в секунду", "в час", "в сутки", "в день", "квот", "баланс", "истек", "истёк",
    "por minuto", "por segundo", "por hora", "por día", "por dia", "cuota", "saldo", "caduc", "expir",
    "par minute", "par seconde", "par heure", "par jour",
    "pro minute", "pro sekunde", "pro stunde", "pro tag", "kontingent", "guthaben", "abgelaufen",
];

/// Words for pictures and files, which have limits of their own.
#[rustfmt::skip]
const MEDIA: &[&str] = &[
    "图片", "图像", "圖片", "圖像", "文件", "檔案", "音频", "视频", "画像", "ファイル", "音声", "動画", "이미지", "파일",
    "изображ", "картин", "файл", "imagen", "archivo", "fichero", "image", "fichier", "bild", "datei", "pdf",
];

/// Words for the answer, for tools and for names, which have limits of their own, too. Beside a word for the context they
/// change nothing.
#[rustfmt::skip]
const OTHER_LIMITS: &[&str] = &[
    "max_tokens", "max_completion_tokens", "max_output_tokens", "max_new_tokens", "输出", "輸出", "最大生成", "出力", "출력",
    "工具", "函数", "函數", "名称", "名稱", "ツール", "関数", "도구", "함수",
    "инструмент", "функци", "herramienta", "función", "ferramenta", "função", "outil", "fonction", "werkzeug", "funktion",
    "вывод", "ответ", "salida", "respuesta", "saída", "sortie", "réponse", "ausgabe", "antwort",
];

/// Reports whether a text means overflow in one of the known languages.
pub(super) fn matches(text: &str) -> bool {
    let text = text.to_lowercase();
    !has(&text, OTHER_ERRORS) && sentences(&text).any(is_overflow)
}

fn has(text: &str, words: &[&str]) -> bool {
    words.iter().any(|word| text.contains(word))
}

/// Returns the sentences of a text. A full stop inside a number ends no sentence.
fn sentences(text: &str) -> impl Iterator<Item = &str> {
    text.split(['。', '！', '？', '!', '?', ';', '；', '\n']).flat_map(|sentence| sentence.split(". "))
}

fn is_overflow(sentence: &str) -> bool {
    !has(sentence, MEDIA) && VOCABULARIES.iter().any(|words| words.means_overflow(sentence))
}

impl OverflowVocabulary {
    fn means_overflow(&self, sentence: &str) -> bool {
        let (has_excess, has_maximum) = (has(sentence, self.excess), has(sentence, self.maximum));
        if has(sentence, self.context) {
            return has_excess || has_maximum;
        }
        let (is_input, has_tokens) = (has(sentence, self.input), has(sentence, self.tokens));
        let is_about_length = is_input && has(sentence, self.length);
        let says_excess = has_excess && has_tokens
            || is_about_length && (has_excess || has_maximum)
            || (is_input || has_tokens) && has(sentence, self.too_long);
        says_excess && !has(sentence, OTHER_LIMITS)
    }
}

/// A comparison of the input with the limit: `9004 > 9000`.
const COMPARISON: &str = r"<U>\s*[>＞]\s*<L>";

/// A limit in tokens. Other units, such as characters, tell nothing about the window.
const LIMIT: &str = r"(?:最大|上限|最多|限制|최대|한도|максим|лимит|máxim|maxim|límite|limit|grenze)[^\d]{0,40}<L>\s*[个個]?\s*(?:token|jeton|токен|トークン|토큰|词元)";

static COMPILED_NUMBERS: LazyLock<Vec<Regex>> =
    LazyLock::new(|| [COMPARISON, LIMIT].iter().filter_map(|pattern| patterns::compile(pattern)).collect());

/// Returns the numbers of the texts that mean overflow.
pub(super) fn numbers(texts: &[String]) -> ReportedOverflow {
    let texts = texts.iter().filter(|text| matches(text));
    let named = texts.flat_map(|text| COMPILED_NUMBERS.iter().filter_map(move |regex| regex.captures(text)));
    named.fold(ReportedOverflow::default(), |known, captures| {
        known.or(ReportedOverflow {
            used_tokens: patterns::captured_number(&captures, "used"),
            limit_tokens: patterns::captured_number(&captures, "limit"),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overflow_is_recognised_in_many_languages() {
        for text in [
            "Prompt 超长",
            "输入内容过长，超出模型最大上下文长度",
            "输入长度超过限制",
            "TokenLengthError: token 数量超过上限。对话历史+问题的字数太多，需要精简输入",
            "输入token数超过模型限制",
            "输入 token 数加 max_tokens 超过模型的上下文长度",
            "輸入內容過長",
            "入力トークン数が最大コンテキスト長を超えています",
            "プロンプトが長すぎます",
            "입력이 최대 컨텍스트 길이를 초과했습니다.",
            "프롬프트가 너무 깁니다",
            "Превышена максимальная длина контекста",
            "Запрос слишком длинный",
            "La longitud del contexto excede el máximo permitido",
            "O comprimento da entrada ultrapassa o limite",
            "Le prompt dépasse la longueur maximale du contexte",
            "Trop de jetons dans la requête",
            "Die Anfrage ist zu lang: maximale Kontextlänge überschritten",
        ] {
            assert!(matches(text), "{text}");
        }
    }

    #[test]
    fn ordinary_errors_in_these_languages_are_no_overflow() {
        for text in [
            "您的账户每分钟token数超过限制",
            "请求频率超过限制",
            "图片大小超过限制",
            "max_tokens 参数超出范围，最大为 8192",
            "输入参数 top_p 超出范围",
            "访问 token 超过有效期",
            "工具名称长度超过 64",
            "工具描述内容过长",
            "Die Beschreibung der Funktion in der Anfrage ist zu lang",
            "内容包含敏感词",
            "系统繁忙，请稍后再试",
            "tools 参数不支持",
            "1分あたりのトークン数の上限を超えました",
            "リクエスト数が上限を超えました",
            "画像が大きすぎます",
            "분당 토큰 한도를 초과했습니다",
            "Превышен лимит запросов",
            "Превышен лимит токенов в минуту",
            "Se ha superado el límite de solicitudes",
            "Limite de tokens por minuto excedido",
            "Trop de requêtes",
            "L'image dépasse la taille maximale de la requête",
            "Zu viele Anfragen",
            "Das Bild ist zu groß",
            // English has a table of its own.
            "max_tokens is too large: 100000. This model supports at most 16384 completion tokens",
            "prompt tokens are limited by your plan",
        ] {
            assert!(!matches(text), "{text}");
        }
    }

    #[test]
    fn numbers_need_a_comparison_or_a_limit_in_tokens() {
        let of = |text: &str| {
            let found = numbers(&[text.to_owned()]);
            (found.used_tokens, found.limit_tokens)
        };
        assert_eq!(of("输入长度超过限制，最大 9000 tokens"), (None, Some(9000)));
        assert_eq!(
            of("入力トークン数が最大コンテキスト長を超えています（9004 > 9000）"),
            (Some(9004), Some(9000))
        );
        assert_eq!(
            of("Le prompt dépasse la longueur maximale du contexte (9000 jetons)"),
            (None, Some(9000))
        );
        assert_eq!(of("输入内容过长，最大 20000 字符"), (None, None), "characters are no tokens");
        assert_eq!(of("图片大小超过限制 9004 > 9000"), (None, None));
    }
}
