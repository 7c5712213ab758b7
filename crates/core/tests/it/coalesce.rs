use longhaul_core::message::{BlobRef, MediaPart, Part};
use longhaul_core::queue::{QueuedMessage, coalesce};
use proptest::prelude::*;

use crate::text::any_text;

fn picture(name: &str) -> Part {
    let blob = BlobRef { hash: name.to_owned(), bytes: 1 };
    Part::Image(MediaPart { blob, media_type: "image/png".to_owned(), name: None, width: None, height: None })
}

fn part() -> impl Strategy<Value = Part> {
    prop_oneof![any_text().prop_map(Part::text), "[a-f0-9]{8}".prop_map(|name| picture(&name))]
}

fn messages() -> impl Strategy<Value = Vec<QueuedMessage>> {
    let parts = prop_oneof![
        proptest::collection::vec(part(), 0..4),
        "[a-f0-9]{8}".prop_map(|name| vec![picture(&name)]),
    ];
    proptest::collection::vec((parts, any::<u32>()), 0..12).prop_map(|messages| {
        let queued = |(index, (parts, at)): (usize, (Vec<Part>, u32))| {
            QueuedMessage::new(format!("q{index}"), u64::from(at), parts)
        };
        messages.into_iter().enumerate().map(queued).collect()
    })
}

/// What stands before a message, by its place and their number.
fn prefix(index: usize, count: usize) -> String {
    match (index, count) {
        (0, 2) => "First: ".to_owned(),
        (1, 2) => "Also: ".to_owned(),
        _ => format!("[{}]: ", index + 1),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(crate::cases(2_000)))]

    /// Taking the prefixes and separators away leaves every part, in order.
    #[test]
    fn every_part_stays_in_its_place(messages in messages()) {
        let (parts, meta) = coalesce(&messages);
        if messages.len() < 2 {
            prop_assert_eq!(parts, messages.first().map(|one| one.parts.clone()).unwrap_or_default());
            prop_assert_eq!(meta, None);
            return Ok(());
        }
        let mut rest = parts.into_iter();
        for (index, message) in messages.iter().enumerate() {
            if index > 0 {
                prop_assert_eq!(rest.next(), Some(Part::text("\n\n")));
            }
            prop_assert_eq!(rest.next(), Some(Part::text(prefix(index, messages.len()))));
            for part in &message.parts {
                prop_assert_eq!(rest.next(), Some(part.clone()));
            }
        }
        prop_assert_eq!(rest.next(), None);
    }

    #[test]
    fn the_metadata_names_all_messages(messages in messages()) {
        let (_, Some(meta)) = coalesce(&messages) else {
            prop_assert!(messages.len() < 2);
            return Ok(());
        };
        let ids: Vec<_> = messages.iter().map(|message| message.id.clone()).collect();
        prop_assert_eq!(meta.message_count, messages.len());
        prop_assert_eq!(meta.original_messages, ids);
        prop_assert_eq!(Some(meta.first_queued_at), messages.first().map(|message| message.queued_at));
        prop_assert_eq!(Some(meta.last_queued_at), messages.last().map(|message| message.queued_at));
    }

    #[test]
    fn a_picture_alone_is_prefix_and_picture(names in proptest::collection::vec("[a-f0-9]{8}", 2..9)) {
        let alone = |name: &String| QueuedMessage::new("q", 0, vec![picture(name)]);
        let (parts, _) = coalesce(&names.iter().map(alone).collect::<Vec<_>>());
        for (index, (name, pair)) in names.iter().zip(parts.chunks(3)).enumerate() {
            prop_assert_eq!(pair.first(), Some(&Part::text(prefix(index, names.len()))));
            prop_assert_eq!(pair.get(1), Some(&picture(name)));
        }
    }
}
