use super::*;
use crate::attempt::{MAX_LENGTH_RETRIES, UnnamedRefusal};

fn exchange(upstreams: usize) -> Exchange {
    Exchange::new(ExchangeLimits { upstreams, retry: RetryPolicy::default() })
}

/// Returns an exchange whose request is on its way.
fn sent(upstreams: usize) -> Exchange {
    let mut exchange = exchange(upstreams);
    assert_eq!(exchange.handle(ExchangeInput::Begin), [ExchangeEffect::Prepare { upstream: 0 }]);
    assert_eq!(exchange.handle(ExchangeInput::Prepared { can_shorten: true }), [ExchangeEffect::Send]);
    exchange
}

/// Returns an exchange whose client receives an answer.
fn answering() -> Exchange {
    let mut exchange = sent(1);
    exchange.handle(ExchangeInput::Responded(answer()));
    exchange.handle(ExchangeInput::Relayed(RelayOutcome::stream()));
    exchange
}

fn answer() -> ResponseFacts {
    ResponseFacts { is_for_client: true, is_whole_answer: true, ..ResponseFacts::default() }
}

fn overflow() -> ResponseFacts {
    let overflow = OverflowFacts { is_said: true, ..OverflowFacts::default() };
    ResponseFacts {
        overflow: Some(overflow),
        is_refusal: true,
        is_for_client: true,
        ..ResponseFacts::default()
    }
}

fn truncated() -> ResponseFacts {
    let overflow = OverflowFacts { is_said: false, is_usable: true, is_truncation: true };
    ResponseFacts { overflow: Some(overflow), ..answer() }
}

/// An answer that broke off before its first word.
fn no_response(asked_ms: Option<u64>) -> ExchangeInput {
    ExchangeInput::NoResponse { failure: UpstreamFailure::Temporary, broke_off: true, asked_ms }
}

/// A refusal that names nothing, of a request that is so much larger than the accepted ones.
fn unnamed(refused_tokens: u64) -> ResponseFacts {
    ResponseFacts {
        is_refusal: true,
        is_for_client: true,
        unnamed_refusal: Some(UnnamedRefusal {
            refused_tokens,
            accepted_tokens: 10_000,
            window_tokens: 20_000,
            gives_no_reason: false,
        }),
        ..ResponseFacts::default()
    }
}

/// A refusal without any reason.
fn bare(refused_tokens: u64) -> ResponseFacts {
    let facts = unnamed(refused_tokens);
    let refusal = facts.unnamed_refusal.map(|sizes| UnnamedRefusal { gives_no_reason: true, ..sizes });
    ResponseFacts { unnamed_refusal: refusal, ..facts }
}

/// An error in the answer's place that may be gone a little later.
fn passing(asked_ms: Option<u64>) -> ResponseFacts {
    ResponseFacts { passing_failure: Some(PassingFailure { asked_ms }), ..ResponseFacts::default() }
}

fn broken(asked_ms: Option<u64>) -> ExchangeInput {
    ExchangeInput::StreamBroke(StreamBreak {
        is_joinable: true,
        ends_in_text: true,
        is_blank: false,
        asked_ms,
        now_ms: 0,
    })
}

#[test]
fn an_answer_goes_to_the_client_as_it_came() {
    let mut exchange = sent(1);
    assert_eq!(exchange.handle(ExchangeInput::Responded(answer())), [ExchangeEffect::Relay]);
    let outcome = RelayOutcome::Ready { is_stream: false, failure: None, lacks_path: false };
    let effects = exchange.handle(ExchangeInput::Relayed(outcome));
    assert_eq!(effects, [ExchangeEffect::NoteReachable(true), ExchangeEffect::Deliver]);
    assert!(exchange.is_over());
}

#[test]
fn a_refusal_for_length_is_answered_until_the_request_fits() {
    let mut exchange = sent(1);
    for _ in 0..MAX_LENGTH_RETRIES {
        assert_eq!(exchange.handle(ExchangeInput::Responded(overflow())), [ExchangeEffect::LowerOutput]);
        assert_eq!(exchange.handle(ExchangeInput::OutputLowered(false)), [ExchangeEffect::Shorten]);
        let effects = exchange.handle(ExchangeInput::Shortened(ShorteningOutcome::Shorter));
        assert_eq!(effects, [ExchangeEffect::DiscardResponse, ExchangeEffect::Send]);
    }
    assert!(!exchange.may_shorten());
    // The refusal may have another cause than the length, so a refused part is looked for.
    assert_eq!(exchange.handle(ExchangeInput::Responded(overflow())), [ExchangeEffect::OmitPart]);
    assert_eq!(exchange.handle(ExchangeInput::PartOmitted(false)), [ExchangeEffect::Relay]);
}

#[test]
fn a_suspected_truncation_costs_one_repetition_whose_count_is_learned() {
    let mut exchange = sent(1);
    assert_eq!(exchange.handle(ExchangeInput::Responded(truncated())), [ExchangeEffect::LowerOutput]);
    assert_eq!(exchange.handle(ExchangeInput::OutputLowered(false)), [ExchangeEffect::Shorten]);
    exchange.handle(ExchangeInput::Shortened(ShorteningOutcome::Shorter));
    let effects = exchange.handle(ExchangeInput::Responded(truncated()));
    assert_eq!(effects, [ExchangeEffect::LearnCount, ExchangeEffect::Relay]);
}

#[test]
fn a_doubtful_answer_is_better_than_none() {
    for outcome in [ShorteningOutcome::NothingLeft, ShorteningOutcome::Failed(UpstreamFailure::Final)] {
        let mut exchange = sent(1);
        exchange.handle(ExchangeInput::Responded(truncated()));
        exchange.handle(ExchangeInput::OutputLowered(false));
        let effects = exchange.handle(ExchangeInput::Shortened(outcome));
        assert_eq!(effects, [ExchangeEffect::ReportDoubt, ExchangeEffect::Relay]);
    }
}

#[test]
fn the_next_upstream_is_asked_only_where_it_may_do_better() {
    for (failure, expected) in [
        (
            UpstreamFailure::Unreachable,
            vec![ExchangeEffect::NoteReachable(false), ExchangeEffect::Prepare { upstream: 1 }],
        ),
        (
            UpstreamFailure::Temporary,
            vec![ExchangeEffect::NoteReachable(true), ExchangeEffect::Prepare { upstream: 1 }],
        ),
        (
            UpstreamFailure::Final,
            vec![ExchangeEffect::NoteReachable(true), ExchangeEffect::Fail(ExchangeFailure::Newest)],
        ),
    ] {
        let mut exchange = sent(2);
        let input = ExchangeInput::NoResponse { failure, broke_off: false, asked_ms: None };
        assert_eq!(exchange.handle(input), expected, "{failure:?}");
    }
}

/// A window without room for what must stay of a request.
fn too_small(window_tokens: u64) -> UpstreamFailure {
    UpstreamFailure::TooSmall { window_tokens }
}

#[test]
fn the_newest_message_is_cut_only_where_no_upstream_has_room_and_then_for_the_largest_window() {
    let mut exchange = exchange(3);
    exchange.handle(ExchangeInput::Begin);
    for (window_tokens, next) in [(4_000, 1), (9_000, 2), (8_000, 1)] {
        assert!(!exchange.may_cut_newest());
        let effects = exchange.handle(ExchangeInput::NotPrepared(too_small(window_tokens)));
        assert_eq!(
            effects,
            [ExchangeEffect::NoteReachable(true), ExchangeEffect::Prepare { upstream: next }]
        );
    }
    assert!(exchange.may_cut_newest());
    let effects = exchange.handle(ExchangeInput::NotPrepared(too_small(9_000)));
    assert_eq!(effects.last(), Some(&ExchangeEffect::Fail(ExchangeFailure::Newest)));
    assert!(exchange.is_over());

    assert!(sent(1).may_cut_newest(), "no other upstream is there to have room");
}

#[test]
fn an_upstream_with_room_that_fails_leaves_the_request_to_the_largest_of_the_others() {
    let mut exchange = exchange(2);
    exchange.handle(ExchangeInput::Begin);
    exchange.handle(ExchangeInput::NotPrepared(too_small(4_000)));
    assert_eq!(exchange.handle(ExchangeInput::Prepared { can_shorten: true }), [ExchangeEffect::Send]);
    let failed =
        ExchangeInput::NoResponse { failure: UpstreamFailure::Unreachable, broke_off: false, asked_ms: None };
    let effects = exchange.handle(failed);
    assert_eq!(effects, [ExchangeEffect::NoteReachable(false), ExchangeEffect::Prepare { upstream: 0 }]);
    assert!(exchange.may_cut_newest());
}

#[test]
fn a_refusal_for_length_goes_to_the_client_only_from_the_last_upstream() {
    let mut exchange = exchange(2);
    exchange.handle(ExchangeInput::Begin);
    // The client owns the conversation, so nothing is left out of it.
    exchange.handle(ExchangeInput::Prepared { can_shorten: false });
    assert_eq!(
        exchange.handle(ExchangeInput::Responded(overflow())),
        [
            ExchangeEffect::DiscardResponse,
            ExchangeEffect::NoteReachable(true),
            ExchangeEffect::Prepare { upstream: 1 },
        ]
    );
    exchange.handle(ExchangeInput::Prepared { can_shorten: false });
    assert_eq!(exchange.handle(ExchangeInput::Responded(overflow())), [ExchangeEffect::OmitPart]);

    let mut exchange = sent(2);
    exchange.handle(ExchangeInput::Responded(overflow()));
    exchange.handle(ExchangeInput::OutputLowered(false));
    let failed = ShorteningOutcome::Failed(too_small(4_000));
    let effects = exchange.handle(ExchangeInput::Shortened(failed));
    assert_eq!(effects.last(), Some(&ExchangeEffect::Prepare { upstream: 1 }));
}

#[test]
fn an_answer_that_breaks_off_at_once_is_asked_for_again_at_the_only_upstream() {
    let mut exchange = sent(1);
    let input = no_response(None);
    for ms in [1_000, 2_000, 4_000, 8_000, 16_000] {
        assert_eq!(exchange.handle(input), [ExchangeEffect::Wait { ms }]);
        assert_eq!(exchange.handle(ExchangeInput::WaitOver), [ExchangeEffect::Send]);
    }
    assert_eq!(exchange.handle(input).last(), Some(&ExchangeEffect::Fail(ExchangeFailure::Newest)));
    assert_eq!(sent(2).handle(input).last(), Some(&ExchangeEffect::Prepare { upstream: 1 }));
}

#[test]
fn an_upstream_without_the_path_gets_the_request_translated_once() {
    let lacks = RelayOutcome::Ready { is_stream: false, failure: None, lacks_path: true };
    let mut exchange = sent(1);
    exchange.handle(ExchangeInput::Responded(answer()));
    assert_eq!(exchange.handle(ExchangeInput::Relayed(lacks)), [ExchangeEffect::PrepareTranslated]);
    exchange.handle(ExchangeInput::Prepared { can_shorten: true });
    let failed =
        ExchangeInput::NoResponse { failure: UpstreamFailure::Unreachable, broke_off: false, asked_ms: None };
    assert_eq!(exchange.handle(failed).last(), Some(&ExchangeEffect::DeliverFirst));
    assert!(exchange.is_over());
}

#[test]
fn a_broken_answer_goes_on_once_the_outage_is_over() {
    let mut exchange = answering();
    let effects = exchange.handle(broken(Some(7_000)));
    assert_eq!(effects, [ExchangeEffect::LeaveStream, ExchangeEffect::Wait { ms: 7_000 }]);
    assert_eq!(exchange.handle(ExchangeInput::WaitOver), [ExchangeEffect::AskForRest]);
    let outage = |now_ms| ExchangeInput::Continued(ContinuationOutcome::Outage { asked_ms: None, now_ms });
    assert_eq!(exchange.handle(outage(8_000)), [ExchangeEffect::Wait { ms: 2_000 }]);
    exchange.handle(ExchangeInput::WaitOver);
    let started = ExchangeInput::Continued(ContinuationOutcome::Started { is_from_own_end: false });
    let effects = exchange.handle(started);
    assert_eq!(effects, [ExchangeEffect::GoOn { is_restart: false, is_last: false }]);
    exchange.handle(broken(None));
    exchange.handle(ExchangeInput::WaitOver);
    // The patience is 30 minutes.
    assert_eq!(exchange.handle(outage(30 * 60_000)), [ExchangeEffect::BreakOff]);
}

#[test]
fn an_outage_after_a_stop_is_waited_out_and_one_between_two_steps_is_an_error() {
    for (input, expected) in [
        (ExchangeInput::WindowFilled, ExchangeEffect::Wait { ms: 1_000 }),
        (ExchangeInput::HiddenCallsMade, ExchangeEffect::BreakOff),
    ] {
        let mut exchange = answering();
        exchange.handle(input);
        exchange.handle(ExchangeInput::RoomMadeForRest(true));
        let outage = ContinuationOutcome::Outage { asked_ms: None, now_ms: 5_000_000 };
        assert_eq!(exchange.handle(ExchangeInput::Continued(outage)), [expected], "{input:?}");
    }
}

#[test]
fn a_refused_rest_gets_shorter_and_ends_for_its_length_at_last() {
    let mut exchange = answering();
    let effects = exchange.handle(ExchangeInput::WindowFilled);
    assert_eq!(effects, [ExchangeEffect::LeaveStream, ExchangeEffect::MakeRoomForRest { refusals: 0 }]);
    let too_long = ExchangeInput::Continued(ContinuationOutcome::TooLong);
    for refusals in 1..=MAX_LENGTH_RETRIES {
        exchange.handle(ExchangeInput::RoomMadeForRest(true));
        let effects = exchange.handle(too_long);
        assert_eq!(effects, [ExchangeEffect::NoteRefusal, ExchangeEffect::MakeRoomForRest { refusals }]);
    }
    exchange.handle(ExchangeInput::RoomMadeForRest(true));
    assert_eq!(exchange.handle(too_long), [ExchangeEffect::EndForWindow]);
    assert!(exchange.is_window_exhausted());
}

#[test]
fn an_answer_is_compacted_three_times_and_continued_from_its_own_end_twelve_times() {
    for (is_from_own_end, most) in [(false, 3), (true, 12)] {
        let mut exchange = answering();
        for restart in 1..=most {
            exchange.handle(ExchangeInput::WindowFilled);
            exchange.handle(ExchangeInput::RoomMadeForRest(true));
            let started = ContinuationOutcome::Started { is_from_own_end };
            let effects = exchange.handle(ExchangeInput::Continued(started));
            let is_last = restart == most;
            assert_eq!(effects, [ExchangeEffect::GoOn { is_restart: true, is_last }], "{restart}");
        }
    }
}

#[test]
fn an_input_of_another_phase_changes_nothing() {
    let mut exchange = sent(1);
    assert_eq!(exchange.handle(ExchangeInput::WaitOver), []);
    assert_eq!(exchange.handle(ExchangeInput::Continued(ContinuationOutcome::Failed)), []);
    assert_eq!(exchange.handle(ExchangeInput::Responded(answer())), [ExchangeEffect::Relay]);
}

#[test]
fn an_error_in_the_answers_place_is_asked_about_again_and_told_at_last() {
    let mut exchange = sent(1);
    for ms in [1_000, 2_000, 4_000, 8_000, 16_000] {
        let effects = exchange.handle(ExchangeInput::Responded(passing(None)));
        assert_eq!(effects, [ExchangeEffect::DiscardResponse, ExchangeEffect::Wait { ms }]);
        assert_eq!(exchange.handle(ExchangeInput::WaitOver), [ExchangeEffect::Send]);
    }
    assert_eq!(exchange.handle(ExchangeInput::Responded(passing(None))), [ExchangeEffect::Relay]);
    assert_eq!(sent(2).handle(ExchangeInput::Responded(passing(None))), [ExchangeEffect::Relay]);
}

#[test]
fn a_wait_that_the_upstream_asks_for_is_kept_to_unless_it_is_long() {
    let wait = |asked_ms| sent(1).handle(ExchangeInput::Responded(passing(Some(asked_ms)))).pop();
    assert_eq!(wait(20_000), Some(ExchangeEffect::Wait { ms: 20_000 }));
    assert_eq!(wait(90_000), Some(ExchangeEffect::Relay), "the client has its `Retry-After`");
    assert_eq!(sent(1).handle(no_response(Some(30_000))), [ExchangeEffect::Wait { ms: 30_000 }]);
    let effects = sent(1).handle(no_response(Some(90_000)));
    assert_eq!(effects.last(), Some(&ExchangeEffect::Fail(ExchangeFailure::Newest)));
}

#[test]
fn a_collected_answer_that_broke_off_is_prepared_and_asked_for_again() {
    let mut exchange = sent(1);
    let broke = RelayOutcome::BrokeOff { failure: UpstreamFailure::Temporary, asked_ms: None };
    for ms in [1_000, 2_000, 4_000, 8_000, 16_000] {
        exchange.handle(ExchangeInput::Responded(answer()));
        assert_eq!(exchange.handle(ExchangeInput::Relayed(broke)), [ExchangeEffect::Wait { ms }]);
        assert_eq!(exchange.handle(ExchangeInput::WaitOver), [ExchangeEffect::Prepare { upstream: 0 }]);
        exchange.handle(ExchangeInput::Prepared { can_shorten: true });
    }
    exchange.handle(ExchangeInput::Responded(answer()));
    let effects = exchange.handle(ExchangeInput::Relayed(broke));
    assert_eq!(effects.last(), Some(&ExchangeEffect::Fail(ExchangeFailure::Newest)));
}

#[test]
fn a_refusal_that_a_part_does_not_explain_is_taken_for_an_overflow() {
    let mut exchange = sent(1);
    assert_eq!(exchange.handle(ExchangeInput::Responded(unnamed(12_000))), [ExchangeEffect::OmitPart]);
    assert_eq!(exchange.handle(ExchangeInput::PartOmitted(true)), [ExchangeEffect::Send]);
    for _ in 0..2 {
        assert_eq!(exchange.handle(ExchangeInput::Responded(unnamed(12_000))), [ExchangeEffect::Shorten]);
        let effects = exchange.handle(ExchangeInput::Shortened(ShorteningOutcome::Shorter));
        assert_eq!(effects, [ExchangeEffect::DiscardResponse, ExchangeEffect::Send]);
    }
    // Two smaller requests were refused as well, so the length is not the reason.
    assert_eq!(exchange.handle(ExchangeInput::Responded(unnamed(12_000))), [ExchangeEffect::OmitPart]);
    assert_eq!(exchange.handle(ExchangeInput::PartOmitted(false)), [ExchangeEffect::Relay]);
}

#[test]
fn a_large_request_is_made_shorter_before_several_results_are_left_out() {
    let first = |refused_tokens: u64, has_tried_singles: bool| {
        let facts = unnamed(refused_tokens);
        let sizes = facts.unnamed_refusal.map(|sizes| UnnamedRefusal { accepted_tokens: 0, ..sizes });
        ExchangeInput::Responded(ResponseFacts { unnamed_refusal: sizes, has_tried_singles, ..facts })
    };
    let mut exchange = sent(1);
    for _ in 0..2 {
        assert_eq!(exchange.handle(first(7_700, false)), [ExchangeEffect::OmitPart], "a single suspect");
        assert_eq!(exchange.handle(ExchangeInput::PartOmitted(true)), [ExchangeEffect::Send]);
    }
    for _ in 0..2 {
        assert_eq!(exchange.handle(first(7_700, true)), [ExchangeEffect::Shorten]);
        exchange.handle(ExchangeInput::Shortened(ShorteningOutcome::Shorter));
    }
    assert_eq!(
        exchange.handle(first(7_700, true)),
        [ExchangeEffect::OmitPart],
        "the length is not the reason"
    );

    let mut exchange = sent(1);
    exchange.handle(first(700, false));
    exchange.handle(ExchangeInput::PartOmitted(true));
    assert_eq!(
        exchange.handle(first(700, true)),
        [ExchangeEffect::OmitPart],
        "a short request fits every window"
    );
}

#[test]
fn a_refusal_without_suspects_is_an_overflow_only_if_the_request_has_grown() {
    for (refused_tokens, expected) in [(12_000, ExchangeEffect::Shorten), (10_100, ExchangeEffect::Relay)] {
        let mut exchange = sent(1);
        exchange.handle(ExchangeInput::Responded(unnamed(refused_tokens)));
        assert_eq!(exchange.handle(ExchangeInput::PartOmitted(false)), [expected]);
    }
    let mut exchange = sent(1);
    exchange.handle(ExchangeInput::Responded(unnamed(12_000)));
    exchange.handle(ExchangeInput::PartOmitted(false));
    let effects = exchange.handle(ExchangeInput::Shortened(ShorteningOutcome::NothingLeft));
    assert_eq!(effects, [ExchangeEffect::ReportDoubt, ExchangeEffect::OmitPart]);
    assert_eq!(exchange.handle(ExchangeInput::PartOmitted(false)), [ExchangeEffect::Relay]);
}

#[test]
fn a_refusal_without_a_reason_is_repeated_once_before_a_part_is_left_out() {
    let mut exchange = sent(2);
    let effects = exchange.handle(ExchangeInput::Responded(bare(12_000)));
    assert_eq!(effects, [ExchangeEffect::DiscardResponse, ExchangeEffect::Wait { ms: 1_000 }]);
    assert_eq!(
        exchange.handle(ExchangeInput::WaitOver),
        [ExchangeEffect::Send],
        "unchanged, and to the same upstream"
    );
    assert_eq!(exchange.handle(ExchangeInput::Responded(bare(12_000))), [ExchangeEffect::OmitPart]);
    exchange.handle(ExchangeInput::PartOmitted(true));
    let effects = exchange.handle(ExchangeInput::Responded(bare(12_000)));
    assert_eq!(effects, [ExchangeEffect::Shorten], "one repetition is enough");

    let retry = RetryPolicy { patience_ms: Some(0), ..RetryPolicy::default() };
    let mut exchange = Exchange::new(ExchangeLimits { upstreams: 1, retry });
    exchange.handle(ExchangeInput::Begin);
    exchange.handle(ExchangeInput::Prepared { can_shorten: true });
    assert_eq!(exchange.handle(ExchangeInput::Responded(bare(12_000))), [ExchangeEffect::OmitPart]);
}

#[test]
fn a_refusal_without_a_reason_is_suspected_of_the_length_only_near_the_window() {
    for (refused_tokens, expected) in [(16_000, ExchangeEffect::Shorten), (15_900, ExchangeEffect::OmitPart)]
    {
        let mut exchange = sent(1);
        exchange.handle(ExchangeInput::Responded(bare(refused_tokens)));
        exchange.handle(ExchangeInput::WaitOver);
        assert_eq!(exchange.handle(ExchangeInput::Responded(bare(refused_tokens))), [expected]);
    }
}
