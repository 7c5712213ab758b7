//! Our own export.

use std::collections::HashSet;

use bytes::Bytes;
use longhaul_core::event::{Event, EventBody, FORMAT, RunEnd, ViewOperation};
use longhaul_core::history::{History, closing_result};
use longhaul_core::message::{BlobRef, ToolStatus};
use serde::Deserialize;

use super::sink::{ImportSink, blob_ref, decode};
use super::{ImportError, ImportPosition, ImportedSession, lines, unreadable};
use crate::export::{ExportBlobLine, ExportHeader, KIND, VERSION, blob_refs};

pub(super) fn fits(line: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Kind {
        longhaul: String,
    }
    serde_json::from_slice::<Kind>(line).is_ok_and(|kind| kind.longhaul == KIND)
}

pub(super) fn read(bytes: &[u8]) -> Result<ImportedSession, ImportError> {
    let mut numbered = lines(bytes);
    let (number, first) = numbered.next().ok_or(ImportError::Empty)?;
    let header: ExportHeader =
        serde_json::from_slice(first).map_err(unreadable(ImportPosition::Line(number)))?;
    check(u64::from(header.version), u64::from(VERSION))?;
    let mut events = Vec::new();
    for (number, line) in numbered.by_ref().take(header.events) {
        events.push(event(line, ImportPosition::Line(number), events.len() as u64 + 1)?);
    }
    complete("events", events.len(), header.events)?;
    let blobs = numbered
        .map(|(number, line)| blob(line, ImportPosition::Line(number)))
        .collect::<Result<Vec<_>, _>>()?;
    complete("blobs", blobs.len(), header.blobs)?;
    finish(header, events, blobs)
}

fn check(found: u64, known: u64) -> Result<(), ImportError> {
    if found > known { Err(ImportError::Newer { found, known }) } else { Ok(()) }
}

fn complete(what: &'static str, found: usize, expected: usize) -> Result<(), ImportError> {
    if found == expected { Ok(()) } else { Err(ImportError::Incomplete { what, found, expected }) }
}

fn event(line: &[u8], place: ImportPosition, seq: u64) -> Result<Event, ImportError> {
    #[derive(Deserialize)]
    struct Version {
        format: u64,
    }
    // The format is read by itself first: an event of a newer format may have fields that would fail with a misleading
    // error.
    let version: Version = serde_json::from_slice(line).map_err(unreadable(place))?;
    check(version.format, u64::from(FORMAT))?;
    let event: Event = serde_json::from_slice(line).map_err(unreadable(place))?;
    let first = matches!(event.body, EventBody::SessionStarted { .. });
    if event.seq != seq {
        let reason = format!("event {} stands where event {seq} belongs", event.seq);
        return Err(ImportError::Entry { place, reason });
    }
    if first != (seq == 1) {
        return Err(entry_error(place, "a session begins once, with its first event"));
    }
    // A file is not trusted as the store is: an edit may only cover positions before its own.
    if let EventBody::ViewEdited(edit) = &event.body
        && edit
            .ops
            .iter()
            .map(ViewOperation::range)
            .any(|range| range.from == 0 || range.from > range.to || range.to >= seq)
    {
        return Err(entry_error(place, "an edit of the view covers what is not before it"));
    }
    Ok(event)
}

fn entry_error(place: ImportPosition, reason: &str) -> ImportError {
    ImportError::Entry { place, reason: reason.to_owned() }
}

fn blob(line: &[u8], place: ImportPosition) -> Result<(BlobRef, Bytes), ImportError> {
    let line: ExportBlobLine = serde_json::from_slice(line).map_err(unreadable(place))?;
    let content = decode(&line.data).map_err(|_| entry_error(place, "the content is not base64"))?;
    let blob = blob_ref(&content);
    // A blob is found by its hash, so wrong content would be served under the name of other content.
    if blob.hash != line.blob {
        return Err(entry_error(place, "the content does not have the hash it is named by"));
    }
    Ok((blob, content.into()))
}

/// Closes the run left open by the export: an import never continues by itself.
fn close(events: &mut Vec<Event>, sink: &mut ImportSink) -> Result<(), ImportError> {
    let history = History::fold(events.iter())
        .map_err(|error| entry_error(ImportPosition::Line(1), &error.to_string()))?;
    let calls = history.open_calls().iter().map(|open| EventBody::ToolFinished {
        result: closing_result(
            &open.call.call_id,
            ToolStatus::Interrupted,
            "[The session was exported while this call was open.]",
        ),
    });
    let run = history.open_run().map(|run| EventBody::RunFinished {
        run_id: run.id.clone(),
        reason: RunEnd::Cancelled,
        error: None,
    });
    let ends: Vec<EventBody> = calls.chain(run).collect();
    if !ends.is_empty() {
        sink.warn(None, "the session was exported in the middle of a run, which was closed");
    }
    let at = events.last().map_or(0, |event| event.at);
    for body in ends {
        events.push(Event { seq: events.len() as u64 + 1, at, format: FORMAT, body });
    }
    Ok(())
}

/// Finishes an import. An imported session is the root of a new lineage, without access to anything outside the file.
fn finish(
    header: ExportHeader,
    mut events: Vec<Event>,
    blobs: Vec<(BlobRef, Bytes)>,
) -> Result<ImportedSession, ImportError> {
    let mut sink = ImportSink::default();
    match events.first_mut().map(|event| &mut event.body) {
        None => return Err(ImportError::Empty),
        Some(EventBody::SessionStarted { forked_from, .. }) => {
            if let Some(lineage) = forked_from.take() {
                sink.warn(
                    ImportPosition::Line(2),
                    format!("the session was forked from {}; that link was cut", lineage.session_id),
                );
            }
        }
        Some(_) => {}
    }
    // The owner of the runtime chooses a session's agent; a file must not.
    for event in &mut events {
        if let EventBody::ModelSwitched { choice, .. } = &mut event.body {
            *choice = None;
        }
    }
    close(&mut events, &mut sink)?;
    let here: HashSet<&str> = blobs.iter().map(|(blob, _)| blob.hash.as_str()).collect();
    let missing_blobs: Vec<BlobRef> =
        blob_refs(&events).into_iter().filter(|blob| !here.contains(blob.hash.as_str())).collect();
    if !missing_blobs.is_empty() {
        sink.warn(
            None,
            format!("{} stored contents are not in the file and cannot be shown", missing_blobs.len()),
        );
    }
    Ok(ImportedSession {
        title: header.title,
        system_prompt: None,
        tools: None,
        events: events.into_iter().map(|event| (event.at, event.body)).collect(),
        blobs,
        missing_blobs,
        warnings: sink.warnings,
    })
}
