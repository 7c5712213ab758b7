//! The word classes of Swedish, Turkish, Ukrainian, Vietnamese, Indonesian, Arabic and Hindi.

use super::LanguageLexicon;

/// The languages of this file.
pub(super) const SWEDISH: LanguageLexicon = LanguageLexicon {
    openers: "jag du vi ni han hon det den de en ett min mitt mina vår vårt våra din ditt dina detta denna dessa vem vad \
        vilken vilket vilka varför hur är blev och eller men eftersom att på av från med ja nej tack hej okej bra kanske \
        också mycket igår idag finns",
    auxiliaries: "är har hade kan kunde ska skulle måste bör blir blev",
    subordinators: "när innan efter medan tills varje",
    lead_ins: "snälla vänligen och också då alltid aldrig bara endast inte hädanefter",
    scope: "alltid, aldrig, varje, varenda, när du, när jag, innan du, efter att, från och med nu, från nu, från och med \
        idag, hädanefter, framöver, i fortsättningen, i framtiden, tills, endast, enbart, alla dina, i slutet av, i början \
        av, under inga omständigheter, utan mitt, utan min, istället för, i stället för, som standard, om du",
    first_person: "jag vi min mitt mina vår vårt våra mig oss",
    second_person: "du dig din ditt dina",
    change_cues: "nu, inte längre, istället, istället för, i stället för, från och med nu, från nu, från och med idag, \
        hädanefter, rättelse, ändrat, ändrad, ändring, flyttat, flyttad, flyttade, bytt, bytte, uppgraderat, uppgraderade, \
        migrerat, migrerade, gått över, gick över, är nu, ersätt, ersatt, glöm, nytt, hellre",
};

pub(super) const TURKISH: LanguageLexicon = LanguageLexicon {
    openers: "ben biz sen siz bu şu onlar benim bizim senin sizin bir ve veya ama fakat çünkü için ile gibi evet hayır \
        teşekkürler teşekkür merhaba tamam belki çok dün bugün nasıl neden nerede hangi güzel",
    auxiliaries: "değil olacak",
    subordinators: "eğer önce sonra",
    lead_ins: "lütfen ve ayrıca daima asla sadece yalnızca artık",
    scope: "her zaman, her seferinde, her defasında, her bir, daima, asla, hiçbir zaman, hiçbir koşulda, hiçbir şekilde, \
        bundan sonra, bundan böyle, bundan itibaren, şu andan itibaren, bugünden itibaren, artık, yalnızca, sadece, \
        gelecekte, varsayılan olarak, sormadan önce, yerine",
    first_person: "ben biz benim bizim bana bize",
    second_person: "sen sana seni senin siz size sizi sizin",
    change_cues: "artık, bundan sonra, bundan böyle, bundan itibaren, şu andan itibaren, bugünden itibaren, yerine, değişti, \
        değiştirdik, geçtik, taşındı, taşındık, yükselttik, güncelledik, unut, unutun, yeni, şimdi, düzeltme",
};

pub(super) const UKRAINIAN: LanguageLexicon = LanguageLexicon {
    openers: "я ми мій моя моє мої наш наша він вона воно вони це цей ця ці той та ті хто що який яка які чому як де є був \
        була було були у в на з зі до по про від за над під при для і й а але або тому так ні дякую привіт ок добре \
        чудово можливо може також ще дуже ти ви твій ваш вчора сьогодні мені мене нам нас",
    auxiliaries: "є був була було були буду буде будуть може можу можна",
    subordinators: "коли якщо перш перед після поки кожен кожна кожне кожну при в у для",
    lead_ins: "будь ласка і також потім завжди ніколи не лише тільки тепер надалі відтепер",
    scope: "кожен, кожна, кожне, кожну, кожній, кожного, завжди, ніколи, щоразу, кожного разу, коли ти, коли ви, якщо ти, \
        перш ніж, перед тим як, після того як, з цього моменту, з сьогоднішнього дня, відтепер, надалі, тепер, поки, лише, \
        тільки, виключно, усі твої, всі твої, у жодному разі, в жодному разі, без мого, за замовчуванням, замість",
    first_person: "я ми мій моя моє мої наш наша мені мене нам нас",
    second_person: "ти тебе тобі твій твоя твої ви вас вам ваш ваша ваші",
    change_cues: "тепер, більше не, замість, краще, виправлення, змінив, змінили, змінилося, перенесли, замінити, замінили, \
        перейшли на, перейшли з, оновили, оновилися, переїхали, забудь, забудьте, новий, нова, нове, відтепер, з цього моменту, з \
        сьогоднішнього дня",
};

pub(super) const VIETNAMESE: LanguageLexicon = LanguageLexicon {
    openers: "tôi mình chúng bạn họ nó đây đó này kia gì nào vì và hoặc nhưng nếu thì là có đã đang sẽ trong trên với của từ \
        vâng dạ cảm chào được rồi",
    auxiliaries: "là đã đang sẽ",
    subordinators: "khi nếu trước sau mỗi",
    lead_ins: "vui lòng xin hãy đừng luôn không chỉ và cũng",
    scope: "luôn, luôn luôn, không bao giờ, đừng bao giờ, mỗi khi, mỗi lần, mỗi, mọi, tất cả, từ nay, từ giờ, từ bây giờ, \
        kể từ bây giờ, từ hôm nay, kể từ hôm nay, trước khi, sau khi, chỉ, tuyệt đối, trừ khi, mặc định, thay vì",
    first_person: "tôi mình chúng",
    second_person: "bạn",
    change_cues: "không còn, từ nay, từ giờ, từ bây giờ, kể từ bây giờ, từ hôm nay, kể từ hôm nay, thay vì, thay vào đó, đã \
        chuyển sang, chuyển sang, nâng cấp lên, đã nâng cấp, đổi thành, bây giờ là, giờ là, quên, sửa lại, bây giờ",
};

pub(super) const INDONESIAN: LanguageLexicon = LanguageLexicon {
    openers: "saya aku kami kita anda kamu dia mereka ini itu sebuah yang atau tetapi tapi karena dengan untuk dari \
        adalah tidak terima halo baik mungkin juga sudah akan bisa siapa mengapa kenapa bagaimana",
    auxiliaries: "adalah sudah akan sedang",
    subordinators: "jika kalau ketika saat sebelum setelah setiap",
    lead_ins: "tolong mohon harap silakan jangan selalu hanya juga lalu kemudian",
    scope: "selalu, jangan pernah, tidak pernah, setiap, tiap kali, mulai sekarang, mulai hari ini, sejak sekarang, ke \
        depannya, selanjutnya, sebelum, setelah, hanya, kapan pun, kecuali, secara default, di masa depan, daripada",
    first_person: "saya aku kami kita",
    second_person: "kamu anda kalian",
    change_cues: "sekarang, tidak lagi, bukan lagi, mulai sekarang, mulai hari ini, sejak sekarang, sebagai gantinya, \
        koreksi, diubah, berubah, pindah ke, beralih ke, beralih dari, migrasi ke, ditingkatkan ke, memperbarui, diganti, \
        lupakan, baru",
};

pub(super) const ARABIC: LanguageLexicon = LanguageLexicon {
    openers: "أنا نحن هو هي هم أنت أنتم هذا هذه ذلك تلك من ما ماذا لماذا كيف أين متى هل كان كانت في على عن إلى مع أو لكن لأن \
        نعم شكرا مرحبا حسنا ربما أيضا قد لقد كنت إن أن ليس لا لم لن كل يوجد توجد",
    auxiliaries: "كان كانت يكون ليس قد",
    subordinators: "إذا عندما كلما قبل بعد قبل",
    lead_ins: "رجاء رجاءً الرجاء دائما دائماً أبدا أبداً فقط ثم أيضا يرجى",
    scope: "دائما, دائماً, أبدا, أبداً, كل مرة, كل, كلما, من الآن فصاعدا, من الآن فصاعداً, من الآن, ابتداء من الآن, ابتداءً من \
        الآن, ابتداء من اليوم, منذ الآن, من اليوم, قبل أن, بعد أن, فقط, مطلقا, مطلقاً, إطلاقا, إطلاقاً, حصرا, حصراً, جميع, عندما, ما لم, \
        مستقبلا, في المستقبل, بشكل افتراضي, تحت أي ظرف, بدلا من, بدلاً من",
    first_person: "أنا نحن",
    second_person: "أنت لك عليك منك",
    change_cues: "الآن, لم يعد, لم تعد, لم نعد, بدلا من, بدلاً من, من الآن فصاعدا, من الآن فصاعداً, من الآن, ابتداء من اليوم, من \
        اليوم, تصحيح, تغير, تغيرت, غيرنا, انتقلنا, تم الانتقال, حدثنا, ترقية, رقينا, استبدلنا, انس, أصبح, أصبحت, جديد, جديدة",
};

pub(super) const HINDI: LanguageLexicon = LanguageLexicon {
    openers: "मैं हम आप तुम तू वह वे यह ये मेरा मेरी मेरे हमारा हमारी हमारे और या लेकिन क्योंकि कि क्या क्यों कैसे कहाँ कब कौन हाँ \
        नहीं धन्यवाद शुक्रिया नमस्ते ठीक शायद भी बहुत कल आज इस उस इन",
    auxiliaries: "है हैं था थी थे हूँ",
    subordinators: "जब अगर यदि जब तक",
    lead_ins: "कृपया हमेशा कभी केवल सिर्फ सिर्फ़ फिर अब",
    scope: "हमेशा, सदा, कभी नहीं, कभी भी, कभी मत, कभी न, अब से, आगे से, आज से, हर बार, हर, प्रत्येक, सभी, जब भी, जब तक, केवल, \
        सिर्फ, सिर्फ़, से पहले, के बाद, किसी भी हालत में, भविष्य में, के बजाय, की जगह",
    first_person: "मैं हम मेरा मेरी मेरे हमारा हमारी हमारे मुझे हमें",
    second_person: "आप तुम तू आपको तुम्हें आपके तुम्हारे",
    change_cues: "अब, अब से, आगे से, आज से, अब नहीं, के बजाय, की जगह, बदल गया, बदल गई, बदला, बदल दिया, अपग्रेड, माइग्रेट, \
        शिफ्ट, भूल जाओ, भूल जाइए, भूल जाएं, सुधार, नया, नई",
};
