mod others;
mod overflows;

use super::*;
use others::OTHERS;
use overflows::OVERFLOWS;

/// Tokens used, and the limit.
type Numbers = (Option<u64>, Option<u64>);

const NONE: Numbers = (None, None);

#[test]
fn every_wording_is_recognised_with_its_numbers() {
    for (who, source, status, body, numbers) in OVERFLOWS {
        let found = recognise(*status, body).map(|overflow| (overflow.used_tokens, overflow.limit_tokens));
        assert_eq!(found, Some(*numbers), "{who} ({source}): {body}");
    }
}

#[test]
fn what_only_sounds_alike_is_not_overflow() {
    for (what, status, body) in OTHERS {
        assert_eq!(recognise(*status, body), None, "{what}: {body}");
    }
}

#[test]
fn every_pattern_compiles_and_is_needed_by_a_case() {
    let bodies: Vec<String> =
        OVERFLOWS.iter().flat_map(|case| ErrorBodyContents::read(case.3).texts).collect();
    for sentence in patterns::SENTENCES {
        let regex = patterns::compile(sentence).unwrap_or_else(|| panic!("{sentence}"));
        assert!(bodies.iter().any(|body| regex.is_match(body)), "no case for {sentence}");
    }
    for veto in patterns::VETOES {
        let regex = patterns::compile(veto).unwrap_or_else(|| panic!("{veto}"));
        let needed = |case: &&(_, Option<u16>, &str)| {
            regex.is_match(case.2) && patterns::matches(case.2) && case.1.is_none_or(|status| status < 429)
        };
        assert!(OTHERS.iter().any(|case| needed(&case)), "no case that {veto} alone decides");
    }
}

#[test]
fn nesting_is_followed_to_depth_eight_and_no_further() {
    let wrap = |times: usize| {
        (0..times).fold("prompt is too long".to_owned(), |inner, _| {
            serde_json::json!({ "error": inner }).to_string()
        })
    };
    assert!(recognise(Some(400), &wrap(3)).is_some());
    assert!(recognise(Some(400), &"{\"error\":".repeat(5_000)).is_none(), "no stack is lost on nonsense");
}
