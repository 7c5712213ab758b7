-- A checksum of each event (longhaul_store::event_checksum). Null for events that an earlier version wrote.
ALTER TABLE event ADD COLUMN checksum bigint;

-- Where logs change the view of earlier messages. A body begins with its kind.
CREATE INDEX event_view_edited ON event (session_no, seq) WHERE starts_with(body, '{"kind":"view-edited"');
CREATE INDEX event_view_restored ON event (session_no, seq) WHERE starts_with(body, '{"kind":"view-restored"');
