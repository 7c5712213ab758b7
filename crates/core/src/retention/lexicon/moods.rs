//! Words by which people ask, oblige and forbid, beside the imperative.

/// Marks of scope in Chinese and Japanese, which have no blanks between words, and in Korean, whose particles are
/// suffixes.
pub(crate) const UNSPACED_SCOPE: &str = "每次 每个 每個 每条 每條 每当 每當 每一 总是 總是 始终 始終 永远 永遠 从现在起 從現在起 从现在开始 今后 今後 以后 之前 \
    之后 任何 所有 一律 只用 只能 仅 毎回 常に いつも すべて 全て これから 以降 必ず 前に たびに だけ 항상 언제나 매번 모든 앞으로 마다 전에 반드시 절대 都要 绝对 絕對 一直 每天 每次都 从今以后 從今以後 不管 無論 无论 いつでも 絶対 今後は 毎日 매일 언제든 꼭 어떤 경우에도 결코";

/// Marks of a command or a prohibition in Chinese, Japanese and Korean.
pub(crate) const UNSPACED_COMMANDS: &str = "请 請 不要 别 別 勿 必须 必須 务必 務必 不得 不许 不許 禁止 应该 應該 要用 使用 ください 下さい しないで すること なさい \
    せよ 하세요 마세요 주세요 말고 써줘 해줘 금지 麻烦 麻煩 希望 劳驾 お願い 부탁 \
    不能 不可 不准 严禁 嚴禁 绝不 絕不 需要有 都要 一定要 改用 ないで ないこと てはいけ てはなら ではいけ なければ べき てほしい 欲しい 頼みます \
    말아 마라 말라 마십시오 십시오 바랍니다 바라요 해라 하라 해야 해주 주십시오 줘 할것 필수 안됩니다 안돼";

/// Marks of a question in Chinese, Japanese and Korean.
pub(crate) const UNSPACED_QUESTIONS: &str = "？ 吗 嗎 呢 ですか ますか でしょうか 까요 나요";

/// Phrases that make a question a request to the model.
pub(crate) const REQUEST_PHRASES: &str = "can you, could you, would you, will you, can we, could we, is it possible, kannst du, könntest du, \
    könnten sie, können sie, würdest du, würden sie, könnt ihr, könntet ihr, magst du, peux-tu, peux tu, pourrais-tu, \
    pourrais tu, pouvez-vous, pouvez vous, pourriez-vous, pourriez vous, tu peux, tu pourrais, vous pouvez, vous pourriez, \
    veux-tu, voulez-vous, puedes, podrías, puede, podría, podéis, podríais, quieres, te importaría, puoi, potresti, può, \
    potrebbe, potete, potreste, pode, podes, podem, poderia, poderias, poderiam, можешь, можете, мог бы, могла бы, могли \
    бы, мог бы ты, kun je, kan je, kunt u, kan u, zou je, zou u, wil je, wilt u, możesz, możecie, mógłbyś, mogłabyś, не мог бы ты, не могли бы вы, не затруднит, czy możesz, czy mógłbyś, czy mogłabyś, kan du, kan ni, skulle du kunna, vill du, чи можеш, чи \
    можете, чи міг би, можеш, можете, bạn có thể, có thể, bisakah kamu, bisakah anda, bisakah, bisa kamu, maukah kamu, هل يمكنك, هل \
    تستطيع, هل بإمكانك, क्या आप, क्या तुम";

/// Questions that ask for an action by its bother: "would you mind answering in French".
pub(crate) const MIND_REQUESTS: &str = "would you mind, do you mind, macht \
    es dir etwas aus, würde es dir etwas ausmachen, ça te dérangerait, ça te dérange, ça vous dérangerait, te molestaría, le \
    importaría, se importaria, importas-te, ti dispiacerebbe, le dispiacerebbe, vind je het erg, zou je het erg vinden, har du något \
    emot, czy miałbyś coś przeciwko, czy miałabyś coś przeciwko";

/// Phrases of scope that hold beyond the next answer. Other phrases of scope may be about one answer: "can you show me
/// only the last line".
pub(crate) const STANDING_SCOPES: &str = "from now on, from here on, always, never, whenever, every time, each time, going forward, in \
    future, in the future, by default, at all times, make sure, make certain, be sure, ensure, anytime, any time, ab jetzt, \
    ab sofort, von nun an, von jetzt an, immer, nie, niemals, stets, künftig, zukünftig, in zukunft, jedes mal, jedesmal, \
    grundsätzlich, standardmäßig, sicherstellen, darauf achten, toujours, jamais, désormais, dorénavant, à partir de \
    maintenant, à l'avenir, chaque fois, par défaut, t'assurer, vous assurer, siempre, nunca, jamás, a partir de ahora, de \
    ahora en adelante, en adelante, cada vez, por defecto, asegurarte, asegurarse, sempre, mai, da ora in poi, d'ora in \
    poi, d'ora in avanti, ogni volta, assicurarti, jamais, a partir de agora, de agora em diante, toda vez, всегда, \
    никогда, впредь, отныне, с этого момента, каждый раз, altijd, nooit, voortaan, vanaf nu, telkens, zawsze, nigdy, od \
    teraz, odtąd, za każdym razem, from today, from today on, starting today, starting now, as \
    of now, effective immediately, ab heute, à partir d'aujourd'hui, dès maintenant, desde ahora, desde hoy, a partir de hoy, desde \
    hoje, a partir de hoje, da oggi, a partire da ora, в дальнейшем, с сегодняшнего дня, с этого дня, ни в коем случае, vanaf vandaag, od dziś, od tej pory, daqui para a frente, a partir daqui, from here on out, mulai saat ini, mulai hari ini, \
    von heute an, ab morgen, from tomorrow, from today onwards, henceforth, à compter de maintenant, alltid, aldrig, från och med nu, från nu, hädanefter, framöver, i fortsättningen, her zaman, daima, asla, hiçbir zaman, bundan \
    sonra, bundan böyle, şu andan itibaren, bugünden itibaren, her seferinde, завжди, ніколи, відтепер, надалі, з цього моменту, \
    щоразу, luôn, luôn luôn, không bao giờ, đừng bao giờ, từ nay, từ giờ, từ bây giờ, kể từ bây giờ, tuyệt đối, selalu, jangan \
    pernah, mulai sekarang, sejak sekarang, ke depannya, دائما, دائماً, أبدا, أبداً, من الآن فصاعدا, من الآن فصاعداً, من الآن, ابتداء \
    من الآن, مطلقا, مطلقاً, हमेशा, सदा, कभी भी, कभी मत, कभी न, अब से, आगे से, हर बार";

/// Clauses that lead to what is said behind them: connectives, thanks, labels, and names of assistants.
pub(crate) const DISCOURSE_MARKERS: &str = "also, ok, okay, okay so, so, hey, hi, hello, oh, oh and, well, thanks, thank you, great, by the \
    way, btw, one more thing, another thing, one thing, note, please note, nota bene, plus, finally, lastly, again, reminder, \
    remember, important, in addition, additionally, besides, furthermore, fyi, ps, claude, chatgpt, gpt, gemini, qwen, copilot, \
    assistant, agent, übrigens, noch etwas, noch eins, außerdem, ausserdem, hinweis, wichtig, bitte beachten, danke, hallo, au \
    fait, de plus, en outre, aussi, encore une chose, autre chose, remarque, merci, bonjour, por cierto, además, otra cosa, una \
    cosa más, nota, importante, gracias, hola, a proposito, inoltre, un'altra cosa, grazie, ciao, a propósito, além disso, mais \
    uma coisa, outra coisa, obrigado, obrigada, olá, кстати, также, ещё, и ещё, ещё одно, важно, спасибо, привет, trouwens, ook, \
    let op, nog iets, bedankt, belangrijk, przy okazji, ponadto, jeszcze jedno, uwaga, ważne, dzięki, dziękuję, förresten, dessutom, en sak till, viktigt, tack, hej, \
    bu arada, ayrıca, önemli, not, teşekkürler, до речі, також, важливо, дякую, nhân tiện, ngoài ra, lưu ý, quan trọng, omong-omong, \
    penting, catatan, terima kasih, بالمناسبة, ملاحظة, مهم, شكرا, वैसे, ध्यान दें, महत्वपूर्ण, धन्यवाद";

/// Forms of a request in Chinese, Japanese and Korean questions.
pub(crate) const UNSPACED_REQUESTS: &str = "能不能 可不可以 可以 能否 请 請 くれますか くれませんか もらえますか もらえませんか いただけますか いただけませんか \
    주시겠 주실 줄래 介意";

/// Words that forbid the noun behind them.
pub(crate) const PROHIBITING_DETERMINERS: &str = "no zero kein keine keinen keinerlei pas aucun aucune sin ningún ninguna sem nenhum nenhuma niente nessun nessuno \
    nessuna без никаких geen bez żadnych żadnej żadne inga ingen inget жодних жодної ніяких";

/// Nouns behind such words in answers and remarks: "no problem", "keine Ahnung", "no lo sé".
pub(crate) const NO_PROHIBITIONS: &str = "problem problems worries worry idea clue thanks need way doubt luck wonder rush matter one longer kidding \
    question questions hurry chance biggie news reason surprise sign trace point big sweat ahnung sorge sorgen frage fragen \
    angst zeit lust wunder thema ding stress eile chance grund problème problèmes souci soucis panique mal tout idée doute \
    problema problemas duda embargo sé tengo puedo creo quiero veo tiene puede funciona va entiendo importa recuerdo \
    dúvida male problemi paura panico che di проблем сомнения idee probleem problemu wątpienia \
    fara problem aning проблем сумнівів";

/// Marks of a scope that holds beyond the next answer, in Chinese, Japanese and Korean.
pub(crate) const UNSPACED_STANDING: &str = "从现在 從現在 今后 今後 以后都 以後都 从今以后 從今以後 从今天 始终 始終 总是 總是 永远 永遠 绝对 絕對 一律 每次 不要再 これから \
    常に いつも 必ず 絶対 毎回 今日から 앞으로 항상 언제나 절대 반드시 매번 오늘부터 결코";

/// Words that a Chinese, Japanese or Korean sentence about somebody begins with. A mark such as "can't" then tells of
/// that person.
pub(crate) const UNSPACED_PERSONS: &str = "人 我 他 她 它 这 這 那 昨天 今天 私 僕 俺 彼 彼女 これ それ あれ 昨日 나는 나도 저는 저도 제가 내가 우리 그는 그녀 어제 오늘은 人は 人間は 子供は 子どもは 人类 孩子 사람은 사람들은 아이들은";

/// Marks that command only in a sentence about no person, because they also tell what somebody cannot or must do.
pub(crate) const UNSPACED_MODALS: &str =
    "不能 不可 应该 應該 需要有 都要 なければ べき 해야 欲しい てほしい 希望";

/// Phrases of obligation behind the thing that is obliged: "tests have to pass". The detection of rules in any text uses them
/// too.
pub(crate) const OBLIGATIONS: &str = "must, must not, mustn't, shall, shall not, have to, has to, need to, needs to, are to, should not, shouldn't, may not, may only, \
    may never, can only, cannot be, can't be, must never, must always, is required to, are required to, are not to, is not to, are \
    not allowed, is not allowed, are forbidden, is forbidden, is mandatory, are mandatory, is required, are required, musst, darfst nicht, darfst nie, darfst keine, darfst nur, \
    müssen, muss, \
    dürfen nicht, darf nicht, dürfen nur, darf nur, darf nie, darf niemals, dürfen nie, dürfen keine, darf keine, darf kein, sind \
    verboten, ist verboten, ist pflicht, sind pflicht, doivent, doit, dois, devez, ne dois, ne devez, ne doivent, ne doit, est interdit, sont interdits, sont \
    interdites, est obligatoire, sont obligatoires, a besoin d'un, ont besoin d'un, deben, debe, no deben, no debe, tienen que, tiene \
    que, necesita, necesitan, está prohibido, están prohibidos, están prohibidas, es obligatorio, son obligatorias, devem, deve, não \
    devem, não deve, têm de, tem de, têm que, tem que, precisam, precisa, é obrigatório, são proibidas, devono, deve, non devono, non \
    deve, ha bisogno di, hanno bisogno di, è obbligatorio, sono vietate, sono vietati, è vietato, должен, должна, должно, должны, не \
    должен, не должна, не должно, не должны, обязан, обязаны, обязательны, нужно, запрещены, запрещено, moeten, moet, mogen niet, mag niet, \
    mogen nooit, mag nooit, mogen alleen, is verplicht, zijn verboden, is verboden, muszą, musi, nie mogą, nie może, powinny, powinien, \
    powinna, są zabronione, jest obowiązkowy, måste, ska, skall, får inte, får aldrig, får bara, är förbjudet, är obligatoriskt, \
    повинен, повинна, повинно, повинні, мусить, мусять, мають, не можна, заборонено, phải, không được, cần phải, harus, wajib, tidak \
    boleh, dilarang, perlu, يجب أن, يجب, ينبغي أن, ينبغي, لا يجوز, ممنوع, لا بد, चाहिए, ज़रूरी, अनिवार्य, zorunlu, zorundadır, yasaktır, \
    gerekir, şarttır, olmalı, olmalıdır, geçmeli, içermeli, yapılmalı";

/// Verbs of commands that say how all of the work is done, beside the verbs of choice: "keep functions short".
pub(crate) const LASTING_VERBS: &str = "keep avoid stick limit halte halt vermeide vermeiden garde gardez évite évitez mantén \
    mantenga evita evite mantenha mantém mantieni mantenete держи держите избегай houd vermijd trzymaj unikaj håll undvik";

/// Pronouns of the model as the subject of an obligation: "you must not push".
pub(crate) const ADDRESSED_PERSONS: &str =
    "you du tu vous usted ustedes você ты вы jij je ty wy ni ти ви bạn kamu anda";

/// Words of obligation that also tell what is likely. They oblige answers and each one of a kind.
pub(crate) const WEAK_OBLIGATIONS: &str = "should need needs require requires get gets soll sollen sollte sollten braucht \
    brauchen bekommt bekommen devrait devraient reçoit lleva llevan debería deberían necessita deveria deveriam leva levam dovrebbe \
    dovrebbero следует нужен нужна нужны требует требуют zou zouden krijgt krijgen powinno potrzebuje wymaga bör behöver \
    потребує потрібен потрібна cần memerlukan membutuhkan";

/// The words for each one and for none, which make a statement about things a rule.
pub(crate) const EACH: &str = "every each all any no jede jeder jedes jeden jedem alle kein keine keinen chaque tout toute tous toutes aucun \
    aucune cada todo toda todos todas ningún ninguna nenhum nenhuma ogni tutti tutte nessun nessuna каждый каждая каждое каждую все \
    никакой elk elke iedere ieder geen każdy każda każde każdą wszystkie żaden żadna varje varenda alla ingen inget inga кожен кожна \
    кожне всі жоден mỗi mọi setiap semua كل جميع हर प्रत्येक सभी";

/// Words for "nobody" and "nothing". With a condition they make a rule: "nothing ships without a review".
pub(crate) const NONE_WORDS: &str = "nobody nothing none noone niemand nichts personne rien nadie nada ninguém nessuno niente nulla никто \
    ничего ничто niets nikt nic ingen inget ingenting ніхто ніщо";

/// Words that begin such a condition.
pub(crate) const NONE_CONDITIONS: &str = "without unless until before except ohne bevor außer sans avant sauf sin hasta salvo sem até senza finché без пока zonder \
     voordat tenzij bez dopóki utan innan до";

/// Words that ask to end a habit, with what they stand before. English has the verb in its form on "-ing" behind them.
pub(crate) const HABIT_ENDS: &str = "avoid, refrain from, aufhören, hör auf, vermeiden, vermeide, verzichten, lass das, unterlassen, arrêter de, arrêter \
    d', cesser de, éviter, évite, évitez, dejar de, dejes de, deja de, evitar, evita, evites, parar de, deixar de, pare de, evite, \
    smettere di, smetti di, smettila di, evitare, evita di, перестать, перестань, прекратить, избегать, избегай, stoppen met, \
    ophouden met, hou op met, vermijden, vermijd, przestać, przestań, unikać, unikaj, sluta, undvika, undvik, låta bli, перестати, \
    припинити, уникати, ngừng, tránh, berhenti, hindari, توقف عن, تجنب, बंद";

/// Verbs of permission and obligation behind a thing that is named as absent: "no code may be merged".
pub(crate) const MODAL_VERBS: &str = "may must shall should can darf dürfen soll sollen muss peut doit peuvent puede debe pueden pode deve podem \
    può deve mag moet mogen może musi mogą får ska måste може повинен";

/// Possessives of a team before a thing that is obliged.
pub(crate) const TEAM_POSSESSIVES: &str = "our unser unsere notre nos nuestro nuestra nuestros nuestras nosso nossa nossos nossas nostro \
    nostra nostri nostre наш наша наше наши ons onze nasz nasza nasze vår vårt våra";

/// Endings of Hindi imperatives, which stand at the end of a sentence.
pub(crate) const HINDI_COMMAND_ENDINGS: &[&str] =
    &["ें", "िए", "इए", "ओ", "ो", "एं", "एँ", "िएगा", "इएगा", "चाहिए"];

/// Hindi words that forbid or ask for what a sentence says.
pub(crate) const HINDI_COMMANDS: &str = "मत कृपया न";

/// Words that only tell of the past. A clause with one of them is no command that lasts.
pub(crate) const PAST_TIMES: &str = "yesterday ago gestern vorgestern avant-hier anoche anteayer ontem anteontem ieri вчера позавчера \
    gisteren eergisteren wczoraj przedwczoraj igår förrgår dün kemarin tadi barusan вчора أمس";

/// Words of Turkish that are no words of the other languages.
pub(crate) const TURKISH_WORDS: &str = "bir bu şu çok bugün için ile gibi önce sonra kadar değil siz onlar benim bana hiç daha bütün tüm şimdi artık geçen";

/// Turkish verbs of frequent commands, which stand at the end.
pub(crate) const TURKISH_COMMAND_VERBS: &str =
    "et yap ver yaz sor kullan ekle sil oku söyle anlat göster belirt kontrol bekle dur test";

/// Endings of Turkish verbs that tell and do not command: the past, the present, the evidential and the future.
pub(crate) const TURKISH_STATEMENT_ENDINGS: &str = "dı di du dü tı ti tu tü dım dim dum düm tım tim tum tüm dık dik duk dük tık tik tuk tük \
    dılar diler dular düler tılar tiler tular tüler yor yorum yoruz yorlar yordu mış miş muş müş mıştı mişti muştu müştü \
    acak ecek acağım eceğim acağız eceğiz";

/// Last words of Turkish statements without a verb.
pub(crate) const TURKISH_STATEMENT_WORDS: &str = "var yok değil güzel iyi kötü hazır";

/// Vietnamese words that command wherever they stand in a clause.
pub(crate) const VIETNAMESE_COMMAND_WORDS: &str = "hãy đừng vui xin nhớ luôn chỉ không phải cần nên";

/// Vietnamese phrases of time and aspect, which tell of something.
pub(crate) const VIETNAMESE_STATEMENT_PHRASES: &str = "đã, đang, sẽ, bị, vừa, hôm qua, tối qua, đêm qua, sáng nay, chiều nay, tuần trước, tháng \
    trước, năm ngoái, lúc, viết xong, làm xong";

/// Verbs of frequent Vietnamese commands. Verbs are an open class, but nothing else tells a Vietnamese command.
pub(crate) const VIETNAMESE_COMMAND_VERBS: &str = "dùng sử chạy trả viết ghi thêm giữ đặt sửa xóa xoá hỏi kiểm gửi tạo đọc mở nói báo dịch giải tóm bắt \
    kết tránh ngừng dừng liệt trích nêu cho chọn đổi thay bỏ tuyệt từ khi trước sau mỗi mọi nếu";

/// Words of Indonesian that are no words of the other languages.
pub(crate) const INDONESIAN_WORDS: &str = "untuk dengan ini itu tidak sudah belum telah sedang kemarin tadi minggu bulan malam pagi siang sejak \
    depan sekali karena saya kamu mereka adalah setiap selalu jangan tolong harus sangat lebih semua hanya setelah sebelum \
    satu tiga empat enam tujuh delapan sembilan sepuluh";

/// Verbs of frequent Indonesian commands without an ending of their own.
pub(crate) const INDONESIAN_COMMAND_VERBS: &str = "jawab pakai tulis hapus tanya periksa cek kirim buat baca buka simpan ubah ganti ringkas mulai akhiri \
    hindari berhenti beri tandai ingat jaga pilih kutip mulailah minta tunggu jalankan";

/// Indonesian phrases of time and aspect, which tell of something.
pub(crate) const INDONESIAN_STATEMENT_PHRASES: &str = "kemarin, tadi, barusan, sudah, telah, sedang, belum, akan, adalah, minggu lalu, bulan lalu, \
    tahun lalu, jam satu, jam dua, jam tiga, jam empat, jam lima";

/// Indonesian prepositions and conjunctions behind a demonstrative that belongs to the object of a command.
pub(crate) const INDONESIAN_PREPOSITIONS: &str =
    "untuk di ke dari pada dengan saat ketika setiap dalam sebagai dan atau sebelum setelah jika kalau agar";

/// Chinese words that contain a mark of a command as a part.
pub(crate) const CHINESE_COMPOUNDS: &str = "特别 特別 区别 區別 级别 級別 类别 類別 分别 分別 个别 個別 性别 性別 识别 識別 差别 差別 辨别 告别 离别 别人 別人 别的 別的 \
    别墅 别名 别处 申请 申請 请求 請求 邀请 邀請 请教 请假 想要 重要 主要 要是 要么 要不 只要 首要 必要 要求 要点 要點 概要 摘要 紀要 纪要 我要 他要 她要 们要 們要 需要 快要 \
    用户 用戶 用法 用途 用来 用來 用处 将来 將來 以前 以后 以後 以为 以為 以及 以来 以外 先生 先前 只是 只有 只好 对于 对不起 按钮 按鈕 将会 将在 将要 將會 用了 使用者 使用率";

/// Chinese words that stand before the verb of a command.
pub(crate) const CHINESE_PREVERBS: &str = "用 以 把 将 將 先 只 保持 避免 尽量 盡量 尽可能 統一 统一 记得 記得 记住 記住 注意 优先 優先 默认 默認 无需 無需 不必 不用 按 \
    遇到 每次 每当 每個 每个 直接给 直接回 直接用 直接写 始终 一律";

/// Chinese words that ask the assistant for something.
pub(crate) const CHINESE_REQUESTS: &str =
    "问我 問我 告诉我 告訴我 通知我 提醒我 给我看 給我看 征得我 经我 經我";

/// Last characters of Chinese statements.
pub(crate) const CHINESE_STATEMENT_ENDS: &str = "了 过 過 的 呢 啊 吧 着";

/// Chinese names of languages.
pub(crate) const LANGUAGE_NAMES_CHINESE: &str = "中文 英文 英语 英語 汉语 漢語 日语 日語 日文 法语 法語 德语 德語 韩语 韓語 俄语 俄語 西班牙语 简体 繁体 繁體";

/// Japanese characters of a time or a place before the particle "に".
pub(crate) const JAPANESE_TIMES: &str = "時日月年前後中週朝夜間上下内外分秒";

/// Endings of plain Korean commands.
pub(crate) const KOREAN_COMMAND_ENDS: &str = "해 봐 써 줘 려 둬 워 어 라 아 지켜 넣어";

/// Endings of Korean words beside a plain command: an object, a means, a condition or a frequency.
pub(crate) const KOREAN_COMMAND_SIGNS: &str =
    "을 를 로 만 전에 때마다 마다 매번 항상 먼저 때는 면 에게 나한테";

/// Korean syllables that contain the past.
pub(crate) const KOREAN_PAST_SYLLABLES: &str = "었았했됐났갔왔졌렸웠봤줬렀였랐켰쳤뒀";

/// Words for people and living things in general. What they have to do is a truth about life and not about the work.
pub(crate) const LIVING_BEINGS: &str = "people humans human mankind children kids child men women babies parents students pupils animals animal \
    dogs cats birds plants plant trees flowers menschen leute kinder eltern tiere pflanzen vögel gens hommes humains enfants \
    animaux plantes oiseaux gente personas humanos niños padres animales plantas pessoas crianças pais animais persone uomini \
    bambini animali piante люди человек дети животные растения mensen kinderen dieren planten ludzie człowiek dzieci zwierzęta \
    rośliny människor barn djur växter insanlar çocuklar hayvanlar bitkiler люди діти тварини orang anak-anak manusia hewan \
    tumbuhan الناس الأطفال البشر लोग बच्चे";

/// Endings of Russian, Ukrainian and Polish imperatives.
pub(crate) const SLAVIC_IMPERATIVE_ENDINGS: &str =
    "ай яй уй айте яйте уйте ируй йте ьте aj uj yj ajcie ujcie ijcie";

/// Nouns and adverbs with such an ending.
pub(crate) const SLAVIC_NOUNS: &str = "случай обычай урожай трамвай попугай лишай невзначай звичай випадай wczoraj dzisiaj tutaj raczej zwyczaj     rodzaj tramwaj obyczaj wujaj";
