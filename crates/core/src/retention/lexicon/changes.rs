//! Words by which people change, withdraw and allow what they said before.

/// Marks of a change in Chinese, Japanese and Korean.
pub(crate) const UNSPACED_CHANGES: &str = "改为 改成 改到 改用 现在 現在 不再 而不是 更正 更新 代わりに 変更 もう 新しい 今は 대신 변경 이제 새로운 \
    升级 升級 迁移 遷移 换成 換成 切换 切換 转到 轉到 从今天 從今天 不用再 アップグレード 移行 切り替え 切替 今日から 今後は ではなく 업그레이드 \
    마이그레이션 전환 바꿨 바뀌 오늘부터 더이상 대신에";

/// Cues of a change that are as common in talk about anything else: "a new recipe", "I'm actually thinking of it".
pub(crate) const CASUAL_CHANGE_CUES: &str = "now actually new latest wait change changes jetzt nun doch neu neue neuer neues lieber \
    maintenant plus nouveau nouvelle ahora mejor nuevo nueva agora melhor novo nova ora adesso meglio nuovo nuova \
    теперь лучше новый новая новое nu toch nieuw nieuwe liever teraz raczej nowy nowa nowe nytt hellre yeni şimdi тепер краще новий нова нове \
    sekarang baru الآن جديد جديدة अब नया नई";

/// Cues that announce a change only in a command or in the present. In the past they tell what happened: "we deployed on
/// Friday instead".
pub(crate) const REPORTED_CHANGE_CUES: &str = "instead, instead of, rather than, update, correction, switch, replace, replaces, \
    revise, after all, on second thought, was wrong, i would rather, i'd rather, anymore, any longer, deprecated, \
    stattdessen, statt, anstatt, korrektur, ändern, nicht richtig, war falsch, hinfällig, \
    plutôt, au lieu de, au lieu du, au lieu des, finalement, en fait, correction, changement, changer, plus, \
    en lugar de, en lugar del, en vez de, en vez del, corrección, cambio, cambia, en realidad, \
    em vez de, ao invés de, correção, mudança, na verdade, invece, invece di, al posto di, correzione, cambio, in realtà, \
    вместо, исправление, изменить, заменить, на самом деле, in plaats van, correctie, zamiast, poprawka, zmiana, \
    istället, istället för, i stället för, rättelse, ändring, ersätt, yerine, düzeltme, замість, виправлення, замінити, \
    thay vì, thay vào đó, sửa lại, sebagai gantinya, koreksi, بدلا من, بدلاً من, تصحيح, ترقية";

/// Nouns among the cues. Behind an article or a preposition they name a change that is known: "slow after the update".
pub(crate) const CHANGE_NOUNS: &str = "update change changes correction switch replacement korrektur changement correction corrección cambio \
    correção mudança correzione исправление correctie poprawka zmiana rättelse ändring düzeltme виправлення koreksi تصحيح ترقية";

/// Words before such a noun that name a change that is known, beside articles.
pub(crate) const BEFORE_CHANGE_NOUNS: &str = "a an any this that these those last latest new recent big small after before since with without by \
    during of in for nach vor seit mit bei ohne après avant depuis avec dernier dernière después antes desde tras con último \
    última depois após com dopo prima da ultimo ultima после до с перед sinds na met po przed od efter före";

/// Adverbs and words of the present of which a change in the past has none beside its target: "moved to Node 20".
pub(crate) const CHANGE_TARGETS: &str =
    "to from auf von nach zu zum à de para por al alla na с на к naar van z till från sang ke dari إلى من";

/// Subjects that change something themselves: "we switched".
pub(crate) const CHANGING_SUBJECTS: &str =
    "i we i've we've ich wir je j'ai nous nosotros yo мы я wij ik vi jag ми ben biz kami kita نحن हम";

/// Marks of a change in Chinese, Japanese and Korean that announce one in the past as well.
pub(crate) const UNSPACED_DONE_CHANGES: &str = "改为 改成 改到 改用 不再 而不是 升级 升級 迁移 遷移 换成 換成 切换 切換 转到 轉到 从今天 從今天 不用再 更新为 更新成 更新到 \
    变更为 變更為 アップグレード 移行 切り替え 切替 今日から 今後は ではなく 変更し 変更さ 変更に になりました に変わりました 업그레이드 마이그레이션 전환 바꿨 \
    바뀌 오늘부터 더이상 변경했 변경되 변경하";

/// Marks behind a noun of a change, which say only when something happened: "after the update".
pub(crate) const UNSPACED_AFTER: &str = "更新后,更新後,更新之后,更新之後,更新以后,变更后,变更之后,變更後,升级后,升级之后,升級後,迁移后,迁移之后,切换后,切换之后,更新の後,更新後,変更後,変更の後,アップグレード後,アップグレードの後,移行後,移行の後,切り替え後,업그레이드 후,변경 후,전환 후,마이그레이션 후";

/// Cues that only say from when on a statement holds. They take nothing back: "from now on ask before you push".
pub(crate) const ADDING_CHANGE_CUES: &str = "from now on, from here on, as of today, update, ab jetzt, ab sofort, von nun an, künftig, \
    désormais, dorénavant, à partir de maintenant, a partir de ahora, de ahora en adelante, a partir de agora, de agora em \
    diante, da ora in poi, d'ora in poi, отныне, с этого момента, voortaan, vanaf nu, od teraz, odtąd, from today, from today \
    on, from tomorrow, starting today, starting now, effective immediately, as of now, ab heute, ab morgen, à partir \
    d'aujourd'hui, dès aujourd'hui, dès maintenant, desde hoy, desde ahora, a partir de hoy, desde hoje, a partir de hoje, da \
    oggi, a partire da oggi, a partire da ora, с сегодняшнего дня, vanaf vandaag, od dziś, od dzisiaj, från och med nu, från \
    nu, från och med idag, hädanefter, artık, bundan sonra, bundan böyle, bundan itibaren, şu andan itibaren, bugünden \
    itibaren, відтепер, з цього моменту, з сьогоднішнього дня, từ nay, từ giờ, từ bây giờ, kể từ bây giờ, từ hôm nay, kể từ hôm \
    nay, bây giờ, mulai sekarang, mulai hari ini, sejak sekarang, من الآن فصاعدا, من الآن فصاعداً, من الآن, ابتداء من اليوم, من اليوم, \
    अब से, आगे से, आज से";

/// Phrases that name what a statement takes back.
pub(crate) const WITHDRAWALS: &str = "instead of, rather than, forget, statt, anstatt, vergiss, au lieu de, au lieu du, au lieu des, plutôt que, oublie, \
    oubliez, en lugar de, en lugar del, en vez de, en vez del, olvida, olvide, em vez de, ao invés de, esqueça, esquece, invece di, al posto di, \
    dimentica, вместо, забудь, забудьте, in plaats van, vergeet, zamiast, zapomnij, istället för, i stället för, yerine, замість, thay vì, daripada, بدلا من, \
    بدلاً من";

/// Words that begin the naming of what something is not: "the last column, not the first".
pub(crate) const CONTRASTS: &str =
    "not no nicht kein keine pas non não не niet geen nie inte değil не bukan ليس";

/// Verbs that take back what stands behind them: "forget the rule about tabs", "drop the summaries".
pub(crate) const FORGETTING_PHRASES: &str = "forget, forget about, drop the, drop my, drop that, scrap, scrap the, scratch, disregard, never \
    mind, nevermind, ditch, abandon, revoke, retract, lift the, do away with, get rid of, we dropped, we ditched, we abandoned, \
    i take back, i withdraw, i revoke, \
    vergiss, vergessen sie, vergesst, streich, streiche, verwirf, ich nehme zurück, oublie, oubliez, laisse tomber, laissez \
    tomber, abandonne, abandonnez, olvida, olvide, olvídate de, olvídese de, descarta, descarte, deja de lado, esquece, esqueça, \
    esqueçam, descarta, descarte, deixa de lado, dimentica, dimenticate, dimentichi, lascia perdere, lasciate perdere, scarta, \
    забудь, забудьте, забудь про, забудьте про, отменяю, отмени, отбрось, vergeet, laat vallen, schrap, zapomnij, zapomnij o, \
    zapomnijcie o, odpuść, porzuć, glöm, glöm bort, strunta i, slopa, unut, unutun, забудь про, забудьте про, скасовую, скасуй, \
    quên, bỏ qua, hãy quên, lupakan, abaikan, انس, تجاهل, भूल जाओ, भूल जाइए, भूल जाएं";

/// Verbs that take something back only if the object is a rule: "cancel the rule about tabs", "ignore what I said".
pub(crate) const REVOKING_VERBS: &str = "ignore cancel skip remove delete undo withdraw lift drop end lose ignoriere streiche \
    lösche ignore ignorez annule annulez supprime supprimez ignora cancela anula elimina quita remove ignora annulla cancella \
    togli игнорируй отмени удали убери negeer annuleer verwijder zignoruj anuluj usuń ignorera avbryt görmezden скасуй ігноруй \
    hủy xóa batalkan hapus abaikan ألغ تجاهل";

/// Nouns for an order, and words for its giving. They name no subject of their own.
pub(crate) const RULE_NOUNS: &str = "rule rules order orders instruction instructions constraint constraints requirement \
    requirements restriction restrictions ban prohibition limit policy convention guideline guidelines request said told asked \
    thing regel regeln anweisung vorgabe verbot beschränkung gesagt règle règles consigne consignes interdiction contrainte dit \
    regla reglas orden instrucción instrucciones prohibición restricción dije dicho regra regras ordem instrução instruções \
    proibição restrição disse regola regole istruzione istruzioni divieto vincolo detto правило правила указание запрет \
    ограничение сказал сказала говорил regels instructie verbod gezegd zasada zasadę zasady reguła regułę polecenie zakaz \
    mówiłem mówiłam regeln instruktion förbud sagt kural kuralı kuralını yasak правило вказівка заборона quy tắc aturan \
    perintah larangan القاعدة قاعدة नियम";

/// Phrases that release from an order, with the object behind them: "you don't have to ask before you push".
pub(crate) const RELEASING_PHRASES: &str = "you don't have to, you do not have to, you don't need to, you do not need to, you need not, you \
    needn't, no need to, no need for, there's no need to, there is no need to, don't bother with, you can stop, you may stop, you \
    can quit, you can drop, you can skip, you can leave out, you can omit, du musst nicht mehr, du musst nicht, du brauchst keine, \
    du brauchst keinen, du brauchst kein, du brauchst nicht, sie müssen nicht, sie brauchen keine, du kannst aufhören, tu n'as \
    plus besoin de, tu n'as pas besoin de, vous n'avez plus besoin de, vous n'avez pas besoin de, plus besoin de, pas besoin de, \
    tu peux arrêter de, vous pouvez arrêter de, inutile de, ya no hace falta, no hace falta, no hace falta que, ya no tienes que, \
    no tienes que, ya no necesitas, no es necesario que, puedes dejar de, puede dejar de, não precisa mais, já não precisas de, \
    você não precisa, não é preciso, não é mais preciso, pode parar de, podes parar de, pode deixar de, non devi più, non è più \
    necessario, non serve più, non c'è bisogno di, puoi smettere di, potete smettere di, больше не нужно, больше не надо, не \
    нужно больше, можешь больше не, можете больше не, можешь перестать, можете перестать, je hoeft niet meer, je hoeft geen, je \
    hoeft niet, u hoeft niet, je kunt stoppen met, je mag stoppen met, nie musisz już, nie musisz, już nie musisz, nie trzeba już, \
    możesz przestać, du behöver inte längre, du behöver inte, du kan sluta, більше не потрібно, більше не треба, можеш більше не, \
    можеш перестати, bạn không cần, không cần, bạn có thể ngừng, tidak perlu lagi, tidak perlu, kamu tidak perlu, kamu bisa \
    berhenti, لا داعي ل, لا حاجة ل, لم يعد عليك, अब ज़रूरत नहीं";

/// Pairs of words that say together that something has ended: "is no longer needed", "n'est plus nécessaire".
pub(crate) const CESSATIONS: &[(&str, &str)] = &[
    ("no", "longer"),
    ("not", "anymore"),
    ("not", "longer"),
    ("don't", "anymore"),
    ("doesn't", "anymore"),
    ("isn't", "anymore"),
    ("aren't", "anymore"),
    ("won't", "anymore"),
    ("needn't", "anymore"),
    ("didn't", "anymore"),
    ("nicht", "mehr"),
    ("nicht", "länger"),
    ("kein", "mehr"),
    ("keine", "mehr"),
    ("keinen", "mehr"),
    ("ne", "plus"),
    ("n'est", "plus"),
    ("n'ai", "plus"),
    ("n'avons", "plus"),
    ("n'utilise", "plus"),
    ("n'utilisons", "plus"),
    ("ya", "no"),
    ("já", "não"),
    ("não", "mais"),
    ("non", "più"),
    ("больше", "не"),
    ("больше", "нет"),
    ("niet", "meer"),
    ("niet", "langer"),
    ("geen", "meer"),
    ("już", "nie"),
    ("nie", "już"),
    ("inte", "längre"),
    ("inte", "mer"),
    ("більше", "не"),
    ("không", "nữa"),
    ("không", "còn"),
    ("tidak", "lagi"),
    ("bukan", "lagi"),
    ("artık", "değil"),
    ("artık", "yok"),
    ("artık", "gerekmiyor"),
    ("لم", "يعد"),
    ("لم", "تعد"),
    ("لم", "نعد"),
    ("अब", "नहीं"),
];

/// Words behind such a pair that make the pair a comparison: "nicht mehr als 50 Wörter".
pub(crate) const COMPARISONS: &str = "than als que di чем niż dan än ніж dari";

/// Words for what an order is no longer: needed, valid, in force.
pub(crate) const NEED_WORDS: &str = "needed required necessary need valid relevant apply applies hold holds wanted want mandatory compulsory \
    useful off void obsolete lifted gone over nötig notwendig erforderlich gültig gilt gelten brauche brauchst brauchen gewünscht \
    pflicht nécessaire nécessaires utile utiles valable valables obligatoire requis requise besoin valide necesario necesaria \
    necesarios necesarias falta hace hacen necesito válido válida vale aplica necessário necessária necessários necessárias \
    preciso precisa precisam precisamos válida obrigatório obrigatória necessaria necessari necessarie serve servono valido \
    vale valgono obbligatorio нужен нужна нужно нужны требуется требуются действует обязателен обязательно надо nodig vereist \
    geldig geldt verplicht potrzebny potrzebna potrzebne potrzebuję obowiązuje wymagany wymagana konieczne behövs nödvändigt \
    nödvändig gäller krävs gerekli gerek gerekmiyor geçerli потрібен потрібна потрібно потрібні діє треба cần thiết hiệu lực perlu \
    diperlukan dibutuhkan berlaku ضروري ضرورية مطلوب مطلوبة لازم ज़रूरी ज़रूरत आवश्यक";

/// Words for a prohibition that has ended: "tables are no longer forbidden".
pub(crate) const FORBIDDEN_WORDS: &str = "forbidden banned prohibited off-limits disallowed verboten untersagt tabu interdit interdite \
    interdits interdites prohibido prohibida prohibidos prohibidas proibido proibida proibidos proibidas vietato vietata vietati \
    vietate запрещено запрещены запрещён запрещена verboden zabroniony zabroniona zabronione förbjudet förbjuden förbjudna yasak \
    заборонено заборонені cấm dilarang ممنوع ممنوعة वर्जित";

/// Phrases behind an object that end an order about it: "the ban on tables is lifted".
pub(crate) const ENDED_PHRASES: &str = "is off, are off, is lifted, are lifted, is void, is obsolete, are obsolete, is cancelled, is canceled, is \
    withdrawn, is revoked, has ended, is history, kannst du vergessen, können sie vergessen, ist hinfällig, ist aufgehoben, ist \
    vom tisch, entfällt, entfallen, est levée, est levé, est annulée, est annulé, est caduque, queda anulada, queda anulado, queda \
    sin efecto, está cancelada, está cancelado, está anulada, está revogada, foi cancelada, foi revogada, è annullata, è \
    annullato, è revocata, decade, отменяется, отменено, отменены, снято, снят, is vervallen, vervalt, is opgeheven, zostaje \
    zniesiona, jest nieaktualna, jest nieaktualne, gäller inte, upphör, iptal, скасовано, скасовується, đã bị bãi bỏ, dibatalkan, \
    dicabut, ألغيت";

/// Phrases that allow something.
pub(crate) const PERMISSIONS: &str = "you may, you can, you could, you might, you're allowed to, you are allowed to, you're free to, you are free to, \
    feel free to, it's ok to, it's okay to, it is ok to, it is okay to, it's fine to, it is fine to, it's all right to, i allow, i \
    don't mind, go ahead and, is fine, are fine, is ok, are ok, is okay, are okay, is allowed, are allowed, is permitted, are \
    permitted, are welcome, du darfst, du kannst, darfst du, kannst du, sie dürfen, sie können, ihr dürft, ist erlaubt, sind \
    erlaubt, ist okay, sind okay, ist ok, sind ok, ist in ordnung, sind in ordnung, tu peux, vous pouvez, est permis, est permise, \
    sont permis, sont permises, est autorisé, sont autorisés, sont autorisées, puedes, puede usted, podéis, está permitido, están \
    permitidos, están permitidas, está bien, pode, podes, você pode, é permitido, são permitidas, são permitidos, puoi, potete, può \
    pure, è permesso, sono permessi, sono permesse, sono ammesse, можешь, можете, можно, разрешаю, разрешено, разрешены, je mag, u \
    mag, je kunt, je kan, mag je, is toegestaan, zijn toegestaan, możesz, możecie, wolno, jest dozwolone, są dozwolone, du får, ni \
    får, du kan, är tillåtet, är tillåtna, är okej, kullanabilirsin, kullanabilirsiniz, yapabilirsin, yapabilirsiniz, serbest, \
    можеш, дозволяю, дозволено, bạn có thể, được phép, kamu boleh, anda boleh, boleh, يمكنك, يجوز, مسموح, आप कर सकते";

/// Marks of a permission in Chinese, Japanese and Korean.
pub(crate) const UNSPACED_PERMISSIONS: &str =
    "可以 允许 允許 てもいい ていい ても構 てもかま 해도 써도 사용해도 허용";

/// Marks that something has ended, in Chinese, Japanese and Korean.
pub(crate) const UNSPACED_CESSATIONS: &str = "不再需要 不需要再 不用再 不必再 不需要 不必 用不着 取消 もう不要 不要になり 必要ありません 必要はありません もういりません 필요 없 필요없 안 해도";

/// Marks of a prohibition in Chinese, Japanese and Korean.
pub(crate) const UNSPACED_NEGATIONS: &str = "不要 不得 不能 不可 不许 不許 不准 别 別 勿 禁止 严禁 嚴禁 ないで しない ません 禁じ 厳禁 마세요 말아 말고 마라 말라 금지 않";

/// Words that limit a statement to one occasion: what holds "for now" takes back nothing.
pub(crate) const EXCEPTIONS: &str = "for now, this time, this once, just once, for today, just today, only today, here only, in this case, for this, diesmal, \
    dieses mal, ausnahmsweise, nur heute, nur hier, cette fois, pour l'instant, pour aujourd'hui, exceptionnellement, esta vez, por \
    ahora, por esta vez, desta vez, por agora, por enquanto, questa volta, per ora, per adesso, на этот раз, пока что, сейчас \
    только, deze keer, voor nu, voor deze keer, tym razem, na razie, den här gången, för tillfället, bu sefer, şimdilik, цього разу, \
    lần này, kali ini, untuk saat ini, هذه المرة, इस बार";

/// Words that set a statement beside earlier ones, and not in their place.
pub(crate) const ADDITIONS: &str = "also, too, as well, in addition, additionally, besides, on top of that, auch, außerdem, zusätzlich, ebenfalls, \
    ebenso, aussi, également, en plus, también, además, asimismo, também, além disso, igualmente, anche, inoltre, также, тоже, \
    кроме того, ook, bovendien, eveneens, też, także, również, också, även, ayrıca, також, теж, крім того, cũng, juga, أيضا, أيضاً, भी";

/// Conjunctions before what holds in place of what ended: "no longer npm but pnpm".
pub(crate) const REPLACING_CONJUNCTIONS: &str =
    "but sondern mais sino mas ma а но maar lecz ale tylko utan але nhưng tapi melainkan بل बल्कि";

/// Words between what was left and what came: "from npm to pnpm".
pub(crate) const SOURCES: &[(&str, &str)] = &[
    ("from", "to"),
    ("replaced", "with"),
    ("replace", "with"),
    ("swapped", "for"),
    ("swap", "for"),
    ("von", "auf"),
    ("von", "zu"),
    ("vom", "zum"),
    ("de", "à"),
    ("de", "a"),
    ("de", "para"),
    ("da", "a"),
    ("с", "на"),
    ("van", "naar"),
    ("z", "na"),
    ("från", "till"),
    ("з", "на"),
    ("từ", "sang"),
    ("dari", "ke"),
    ("من", "إلى"),
    ("से", "पर"),
];

/// Verbs that choose one of several things: "use tabs". A later choice takes the place of an earlier one.
pub(crate) const CHOOSING_VERBS: &str = "use using choose pick prefer target stick nutze benutze verwende nimm nutzt benutzt verwendet nutzen verwenden \
    benutzen utilise utilisez utiliser prends choisis usa usar utiliza utilizar use utilice usem utilize usare scegli используй \
    используйте использовать пиши бери gebruik gebruiken kies używaj używać użyj wybierz använd använda välj kullan kullanın \
    використовуй використовуйте dùng dung gunakan pakai استخدم استخدام";

/// Words for a return to what was before: "you may use tables again".
pub(crate) const RETURNS: &str = "again, wieder, à nouveau, de nouveau, otra vez, de nuevo, novamente, de novo, outra vez, di nuovo, \
    nuovamente, снова, опять, weer, opnieuw, znowu, znów, ponownie, igen, tekrar, yeniden, знову, lại, lagi, مجددا, مجدداً, फिर से, from \
    now on, now, jetzt, maintenant, ahora, agora, adesso, теперь, nu, teraz, тепер";

/// Things that are dropped by a command of the work, not from the rules: "drop the users table".
pub(crate) const DROPPED_THINGS: &str = "table tables column columns index indexes database databases schema schemas constraint \
    constraints view views collection collections row rows file files";
