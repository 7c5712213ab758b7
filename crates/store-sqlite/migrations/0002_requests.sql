-- Requests that their senders may repeat: what was asked under a key, where the log was then, and the answer once
-- there is one.
CREATE TABLE request (
    session_no INTEGER NOT NULL REFERENCES session (no) ON DELETE CASCADE,
    key        TEXT    NOT NULL,
    what       TEXT    NOT NULL,
    since_seq  INTEGER NOT NULL,
    at_ms      INTEGER NOT NULL,
    answer     TEXT,
    PRIMARY KEY (session_no, key)
) STRICT, WITHOUT ROWID;

-- Whether the session waits for a person after repeated failures.
ALTER TABLE session ADD COLUMN parked INTEGER NOT NULL DEFAULT 0 CHECK (parked IN (0, 1));
UPDATE session SET parked = 1
WHERE (SELECT kind FROM event WHERE event.id = (session.no << 32 | session.last_seq)) = 'parked';
