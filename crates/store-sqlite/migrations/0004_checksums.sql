-- A checksum of each event (longhaul_store::event_checksum). NULL for events that an earlier version wrote.
ALTER TABLE event ADD COLUMN checksum INTEGER;

-- Where logs change the view of earlier messages. A body begins with its kind; the body is not parsed here, so that a
-- damaged one hinders nothing.
CREATE INDEX event_view_edited ON event (id) WHERE substr(body, 1, 21) = '{"kind":"view-edited"';
CREATE INDEX event_view_restored ON event (id) WHERE substr(body, 1, 23) = '{"kind":"view-restored"';
