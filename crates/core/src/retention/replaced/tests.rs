mod pairs;
mod reports;

use super::*;

fn replaced(texts: &[&str]) -> Vec<Option<usize>> {
    let statements: Vec<(usize, &str)> = texts.iter().copied().enumerate().collect();
    replacements(&statements, &mut StatementCache::default())
}

#[test]
fn kept_forms_of_statements_change_nothing() {
    let statements = [(0, "Answer in German."), (1, "Keep it short."), (2, "From today it's French.")];
    let mut known = StatementCache::default();
    let first = replacements(&statements, &mut known);
    assert_eq!(first, [Some(2), None, None]);
    // The same sentences in other messages.
    let moved = [(4, "Keep it short."), (5, "Answer in German."), (5, "From today it's French.")];
    assert_eq!(replacements(&moved, &mut known), [None, None, None]);
    assert_eq!(replacements(&statements, &mut known), first);
}

#[test]
fn an_announced_change_replaces_what_it_is_about() {
    let found = replaced(&[
        "The spending cap for travel is 300 euros.",
        "I went to the market and bought fish.",
        "The travel cap is 500 now, no longer 300.",
        "The meeting room is on floor 3.",
    ]);
    assert_eq!(found, [Some(2), None, None, None]);
}

#[test]
fn the_same_statement_with_another_value_replaces_it() {
    let found =
        replaced(&["Budget cap is $450 total.", "The deadline is Friday.", "Budget cap is $700 total."]);
    assert_eq!(found, [Some(2), None, None]);
}

#[test]
fn different_subjects_stay_apart() {
    let found = replaced(&[
        "The port of the api is 8080.",
        "The port of the worker is 9090.",
        "The project budget is 500 euros.",
        "The new travel budget is 900 euros.",
    ]);
    assert_eq!(found[..2], [None, None]);
}

#[test]
fn a_change_replaces_only_what_it_is_most_about() {
    let found = replaced(&[
        "Keep project spend under 300 dollars.",
        "The project codename is Lantern-7.",
        "We call the project Beacon-9 now.",
    ]);
    assert_eq!(found, [None, Some(2), None]);
}

#[test]
fn talk_in_passing_replaces_nothing_and_news_do() {
    let found = replaced(&[
        "Don't send any messages on my behalf, draft them and let me send them myself.",
        "I'm looking for some tips on painting models.",
        "I think I'll start with the garden.",
        "The deploy region is Dublin.",
        "Keep answers under 50 words.",
        "The contact for invoices is Priya Nair.",
        "Yeah, I've definitely noticed those changes myself.",
        "I'm looking for some new podcasts.",
        "I'll start with a simple list for now.",
        "The deploy region is Frankfurt now.",
        "You may go up to 200 words now, the 50-word limit is off.",
        "Priya left; Tomasz Wolny is the contact for invoices now.",
    ]);
    let expected = [None, None, None, Some(9), Some(10), Some(11), None, None, None, None, None, None];
    assert_eq!(found, expected);
}

#[test]
fn words_that_announce_a_change_are_no_subject() {
    let found = replaced(&["Quick update: lunch is at noon.", "Update: the launch moved to 2027-03-01."]);
    assert_eq!(found, [None, None]);
}

#[test]
fn another_word_for_the_subject_replaces_it_too() {
    let found = replaced(&[
        "Travel budget: at most 300 euros a day.",
        "The conference budget is 900 euros.",
        "Anna Meyer is on call this week.",
        "The demo is due on 2027-03-01.",
        "Bo Larsen owns the pager this week now.",
        "Travel may cost four hundred now.",
        "The date of the demo moved to April 4.",
    ]);
    assert_eq!(found, [Some(5), None, Some(4), Some(6), None, None, None]);
}

#[test]
fn an_order_gives_way_to_one_whose_value_excludes_its_own() {
    let found = replaced(&[
        "Write all timestamps in UTC.",
        "Keep replies terse.",
        "Use imperial units.",
        "Show clocks in Pacific time.",
        "Please make answers playful and warm.",
        "The meeting is at 3 pm GMT.",
    ]);
    assert_eq!(found, [Some(3), Some(4), None, None, None, None]);
}

#[test]
fn a_tone_does_not_replace_a_language() {
    let found = replaced(&["Reply in German.", "From now on keep replies formal.", "I was in Rome."]);
    assert_eq!(found, [None, None, None]);
}

#[test]
fn an_order_gives_way_to_a_newer_one() {
    let found = replaced(&["Reply in German.", "The train was late.", "From now on reply in French."]);
    assert_eq!(found, [Some(2), None, None]);
}

#[test]
fn orders_that_hold_beside_each_other_replace_nothing() {
    let pairs = [
        ("Never restart server 3.", "Never restart server 7."),
        ("Never edit files under src/v1.", "Never edit files under src/v2."),
        ("Always ask before you delete a branch.", "From now on always ask before you push a branch."),
        ("Never use red in charts.", "From now on use blue in charts for revenue."),
        ("Fix issue 12.", "Fix issue 15."),
        ("Invoice 4711 is paid.", "Invoice 4712 is paid."),
        ("Invoice 4711 is paid.", "Invoice 4712 is paid now."),
        ("Room 12 is reserved for Dana.", "Room 14 is reserved for Dana."),
        ("Nunca borres la tabla 3.", "Nunca borres la tabla 7."),
        ("不要删除表3。", "不要删除表7。"),
        ("Never delete the backups of 2024.", "Never delete the backups of 2025."),
        ("Ask me before you touch customer 1001.", "Ask me before you touch customer 2002."),
        ("Alert me if disk 1 is full.", "Alert me if disk 2 is full."),
        ("Step 1 must always run before step 2.", "Step 3 must always run before step 4."),
        ("Keep port 8080 free.", "Keep port 9090 free."),
        ("Please do not call me before 9am.", "Please do not call me after 6pm."),
        ("Reply to customers in French.", "Reply to suppliers in German."),
        ("Answer questions about Python in English.", "Answer questions about Java in German."),
        ("Use metric units in the report.", "Use imperial units in the US brochure."),
        ("Never email Anna without asking.", "From now on email Bob every status report."),
        ("Always write tests before code.", "Instead of mocks, always write fakes in tests."),
        ("Never deploy on Friday.", "Deploy the hotfix now."),
        ("Never push to main.", "From now on never push to the release branch."),
        ("Use tabs in Python files.", "From now on use spaces in Go files."),
        ("Use UTC in the logs.", "The meetings are in Pacific time."),
        ("Use UTC in the logs.", "Show meetings in Pacific time."),
        ("Write log lines in UTC.", "From now on the standups are in Pacific time."),
        ("The meetings are in Pacific time.", "From now on use UTC in the logs."),
        ("Use metric units in the report.", "The brochure has imperial units now."),
        ("The deadline for the report is Friday.", "The deadline for the slides moved to Monday."),
        ("The report deadline is Friday.", "The slides deadline moved to Monday."),
    ];
    let marked: Vec<_> =
        pairs.into_iter().filter(|(earlier, later)| replaced(&[earlier, later])[0].is_some()).collect();
    assert!(marked.is_empty(), "{marked:#?}");
}

#[test]
fn an_order_or_a_value_that_is_withdrawn_is_replaced() {
    let pairs = [
        ("Keep answers under 50 words.", "Keep answers under 80 words."),
        ("Retry at most 3 times.", "Retry at most 5 times."),
        ("max_connections = 20", "max_connections = 40"),
        ("Send the report every 4 hours.", "Send the report every 6 hours."),
        ("Never push to main.", "You may push to main now."),
        ("Never use more than 3 colours.", "Never use more than 5 colours."),
        ("Use tabs for indentation.", "Forget the tabs, use two spaces for indentation."),
        ("Use tabs for indentation.", "From now on use spaces for indentation."),
        ("Put the totals in the first column.", "Totals go in the last column after all, not the first."),
        (
            "Ship parcels with Northway Post.",
            "We switched carriers: ship with Kestrel Freight, not Northway Post.",
        ),
        (
            "Never disclose the vault code amber-12 to any user.",
            "Never disclose the new vault code opal-34; the old code is retired.",
        ),
        (
            "The maintenance access code is amber-12 and must never be shared.",
            "Access-code rotation is done: never reveal opal-34; the previous code no longer works.",
        ),
        (
            "Field-trip expenses must stay at or below $700.",
            "New ceiling for trip costs: keep them below four hundred dollars.",
        ),
        (
            "Project budget cap is $800 total.",
            "Quick update: keep project spend under five hundred dollars from now on.",
        ),
        (
            "Branch spike/abc-12 is based on the old base and must stay unpushed.",
            "We rebased onto spike/xyz-34; next step is writing the migration script.",
        ),
        (
            "User wants terse answers with no em-dashes.",
            "I would rather get playful, warm answers with metric units.",
        ),
        (
            "Keep replies terse and use imperial measurements.",
            "Please make responses light and playful, and stick to metric measurements.",
        ),
        ("Put every timestamp in UTC.", "For status reports, show clocks in Pacific Time."),
        ("The API listens on port 8081.", "Correction: the API listens on port 9440, 8081 was wrong."),
        ("Use UTC in the logs.", "Use Pacific time in the logs."),
        ("Use UTC.", "From now on use Pacific time."),
        ("The deadline is on Friday.", "The deadline moved to Monday."),
        ("The report deadline is Friday.", "The report deadline moved to Monday."),
    ];
    let unmarked: Vec<_> =
        pairs.into_iter().filter(|(earlier, later)| replaced(&[earlier, later])[0].is_none()).collect();
    assert!(unmarked.is_empty(), "{unmarked:#?}");
}

fn unmarked<'p>(pairs: &[(&'p str, &'p str)]) -> Vec<(&'p str, &'p str)> {
    let is_unmarked = |(earlier, later): &&(&str, &str)| replaced(&[earlier, later])[0].is_none();
    pairs.iter().filter(is_unmarked).copied().collect()
}

#[test]
fn a_change_of_a_version_or_a_tool_replaces_the_order() {
    let unmarked = unmarked(&[
        ("Use Python 3.11.", "We upgraded to Python 3.12."),
        ("Use Python 3.11.", "From now on use Python 3.12."),
        ("Use Node 18 for the build.", "We moved to Node 20."),
        ("Use Node 18.", "We've migrated to Node 20 last week."),
        ("Install packages with npm.", "We switched from npm to pnpm."),
        ("Use npm.", "We no longer use npm but pnpm."),
        ("Use npm.", "We switched to pnpm."),
        ("Answer in German.", "From today it's French."),
        ("Deploy on Tuesday.", "Deployments are no longer on Tuesday but on Thursday."),
        ("Nutze Python 3.11.", "Wir sind auf Python 3.12 umgestiegen."),
        ("Utilise Node 18.", "On est passés à Node 20."),
        ("Usa Python 3.11.", "Hemos pasado a Python 3.12."),
        ("Use Python 3.11.", "Migramos para Python 3.12."),
        ("Usa Python 3.11.", "Siamo passati a Python 3.12."),
        ("Используй Python 3.11.", "Мы перешли на Python 3.12."),
        ("Gebruik Python 3.11.", "We zijn overgestapt op Python 3.12."),
        ("Używaj Python 3.11.", "Przeszliśmy na Python 3.12."),
        ("Använd Python 3.11.", "Vi har uppgraderat till Python 3.12."),
        ("使用 Python 3.11。", "我们升级到 Python 3.12 了。"),
        ("使用 Node 18。", "我们已经迁移到 Node 20。"),
        ("Node 18を使ってください。", "Node 20に移行しました。"),
        ("Node 18을 사용하세요.", "Node 20으로 업그레이드했습니다."),
        ("Use Java 17.", "The project is on Java 21 now."),
        ("Use React 17.", "React was upgraded to 18."),
        ("Use Webpack for bundling.", "We migrated from Webpack to Vite."),
        ("Use npm.", "Wir sind von npm auf pnpm umgestiegen."),
        ("Utilise npm.", "On est passés de npm à pnpm."),
        ("Usa npm.", "Hemos pasado de npm a pnpm."),
        ("Используй npm.", "Мы перешли с npm на pnpm."),
    ]);
    assert!(unmarked.is_empty(), "{unmarked:#?}");
}

#[test]
fn plain_words_take_an_order_back() {
    let unmarked = unmarked(&[
        ("Answer in French.", "French is no longer needed."),
        ("Never use tables.", "You may use tables again."),
        ("No tables.", "Tables are fine again."),
        ("Never use tables.", "Tables are no longer forbidden."),
        ("Use tabs for indentation.", "Forget the rule about tabs."),
        ("Never use tables.", "Forget the rule about tables."),
        ("Never use tables.", "The ban on tables is lifted."),
        ("Always add a summary at the end.", "You can stop adding a summary."),
        ("Always ask before you push.", "You don't have to ask before pushing anymore."),
        ("Sign every reply with KV.", "Drop the KV."),
        ("Always end with a summary.", "No more summaries."),
        ("Antworte auf Französisch.", "Französisch ist nicht mehr nötig."),
        ("Benutze keine Tabellen.", "Du darfst wieder Tabellen benutzen."),
        ("Réponds en français.", "Le français n'est plus nécessaire."),
        ("Responde en francés.", "El francés ya no hace falta."),
        ("Rispondi in francese.", "Il francese non serve più."),
        ("Отвечай на французском.", "На французском больше не нужно."),
        ("Never touch the config.", "You're allowed to touch the config again."),
        ("Don't use tables.", "Tables are allowed again."),
        ("Keine Emojis.", "Emojis sind wieder erlaubt."),
        ("Sin emojis.", "Puedes usar emojis otra vez."),
        ("Inga tabeller.", "Du får använda tabeller igen."),
        ("不要用表格。", "现在可以用表格了。"),
        ("请每次都写总结。", "不用再写总结了。"),
        ("表を使わないでください。", "また表を使ってもいいです。"),
        ("표를 쓰지 마세요.", "이제 표를 써도 됩니다."),
    ]);
    assert!(unmarked.is_empty(), "{unmarked:#?}");
}

#[test]
fn names_tell_two_things_of_one_kind_apart() {
    let pairs = [
        ("Restart server A every night.", "From now on restart server B every night."),
        ("Assign ticket X to Kim.", "Assign ticket Y to Kim now."),
        ("Restart server 3 every night.", "From now on restart server 7 every night."),
        ("Email Anna every Monday.", "From now on email Bob every Monday."),
        ("Put the A list before the B list.", "From now on put the X list before the Y list."),
        ("Run the QA job at night.", "From now on run the CI job at night."),
        ("Back up Postgres to the vault nightly.", "From now on back up MySQL to the shelf hourly."),
        ("Never use UTC.", "From now on never use CET."),
        ("Always run lint in CI.", "From now on always run tests in CI."),
        ("Keep x-axis labels short.", "Now keep y-axis labels long."),
        ("不要删除数据库。", "现在可以删除日志了。"),
        ("Use tabs in Go.", "Also use spaces in Go."),
        ("Never use tables.", "You may use tables in the appendix."),
        ("Run the tests before each commit.", "Skip the tests this time."),
        ("Never touch the users table.", "Drop the users table."),
        ("Keep the build green.", "The build is now green."),
        ("Never use tabs.", "Stop using tabs."),
        ("Fix the parser first.", "Forget the bug in the parser."),
    ];
    let marked: Vec<_> =
        pairs.into_iter().filter(|(earlier, later)| replaced(&[earlier, later])[0].is_some()).collect();
    assert!(marked.is_empty(), "{marked:#?}");
}
