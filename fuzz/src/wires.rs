//! What clients of the gateway send, and what passes through it.

use bytes::Bytes;
use longhaul_wire::chat::edit::ChatCodec;
use longhaul_wire::edit::{RenderOp, RequestEdit, WireCodec};
use longhaul_wire::messages::edit::MessagesCodec;
use longhaul_wire::responses::edit::ResponsesCodec;
use longhaul_wire::sse::{SseEvent, SseReader};

fn wire(sign: u8) -> &'static dyn WireCodec {
    match sign % 3 {
        0 => &ChatCodec,
        1 => &MessagesCodec,
        _ => &ResponsesCodec,
    }
}

/// The first byte says the dialect, the second what is changed.
pub(crate) fn body(data: &[u8]) {
    let [dialect, change, body @ ..] = data else { return };
    let wire = wire(*dialect);
    let body = Bytes::copy_from_slice(body);
    let Ok(envelope) = wire.parse_request(body) else { return };
    let text = |range: &std::ops::Range<usize>| {
        let bytes = envelope.bytes.get(range.clone());
        std::str::from_utf8(bytes.expect("a range lies inside")).expect("a range is whole characters")
    };
    let items: Vec<&str> = envelope.items.iter().map(text).collect();
    let _ = wire.fixed_content(&envelope);
    for (index, item) in items.iter().enumerate() {
        let (mut form, mut again) = (Vec::new(), b"x".to_vec());
        let read = wire.write_canonical_item(item, index, &mut form).is_ok();
        assert_eq!(read, wire.write_canonical_item(item, index, &mut again).is_ok());
        if read {
            assert_eq!(again.strip_prefix(b"x"), Some(form.as_slice()), "a form is added to what is there");
        }
    }
    let Ok(pieces) = wire.parse_segments(&items, 0) else { return };
    assert_eq!(pieces.len(), items.len(), "pieces of each item");
    assert_eq!(
        wire.render_request(&envelope, &RequestEdit::default()).as_deref(),
        Ok(&*envelope.bytes),
        "nothing was changed"
    );
    let count = items.len();
    let steps = [RenderOp::Say("A note.".to_owned()), RenderOp::Keep(count / 2..count)];
    let edited = RequestEdit {
        model: (change & 1 != 0).then(|| "other \"model\"".to_owned()),
        max_output: (change & 2 != 0).then_some(77),
        stream: (change & 4 != 0).then_some(true),
        include_usage: change & 8 != 0,
        steps: (change & 16 != 0 && count > 0).then(|| steps.to_vec()),
        ..RequestEdit::default()
    };
    if let Ok(rendered) = wire.render_request(&envelope, &edited) {
        let again = wire.parse_request(rendered).expect("what is written is read again");
        if let Some(model) = &edited.model {
            assert_eq!(&again.model, model);
        }
    }
}

/// The first byte says the dialect, the second how the body is cut and where another stream goes on.
pub(crate) fn stream(data: &[u8]) {
    let [dialect, cut, body @ ..] = data else { return };
    let wire = wire(*dialect);
    let (mut events, mut all) = (SseReader::default(), Vec::new());
    for piece in body.chunks(usize::from(*cut % 61) + 1) {
        events.feed(Bytes::copy_from_slice(piece));
        all.extend(std::iter::from_fn(|| events.next_event()));
    }
    let (mut watcher, mut splice, mut out) = (wire.stream_parser(), wire.stream_merger(), Vec::new());
    for (index, event) in all.iter().enumerate() {
        watcher.read(&SseEvent::parse(event));
        splice.pass_event(event, &mut out);
        if index == usize::from(*cut) {
            let said = splice.seen().text.clone();
            splice.begin_next_stream(&said);
        }
    }
    splice.end(3, &mut out);
    let _ = (watcher.seen().parts(), splice.seen().written_bytes());
    let _ = (wire.collect_answer(&all), wire.parse_answer(body));
}
