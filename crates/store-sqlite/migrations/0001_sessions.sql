-- One row per session. `no` is never given twice, so that it can be part of keys and epochs.
CREATE TABLE session (
    no         INTEGER PRIMARY KEY AUTOINCREMENT CHECK (no < 2147483648),
    id         TEXT    NOT NULL UNIQUE,
    title      TEXT,
    created_ms INTEGER NOT NULL,
    updated_ms INTEGER NOT NULL,
    last_seq   INTEGER NOT NULL,
    running    INTEGER NOT NULL CHECK (running IN (0, 1)),
    owner      TEXT,
    epoch      INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE INDEX session_changed ON session (updated_ms, no);

-- The logs. `id` is `session.no << 32 | seq`: one session's events lie together, in order, without a second
-- index. `body` is the event as JSON text, byte for byte as it was written.
CREATE TABLE event (
    id     INTEGER PRIMARY KEY,
    format INTEGER NOT NULL,
    epoch  INTEGER NOT NULL,
    at_ms  INTEGER NOT NULL,
    body   TEXT    NOT NULL,
    kind   TEXT GENERATED ALWAYS AS (body ->> '$.kind') VIRTUAL
) STRICT;

-- Pieces of answers that still stream; deleted in the transaction that appends the whole.
CREATE TABLE chunk (
    id         INTEGER PRIMARY KEY,
    session_no INTEGER NOT NULL REFERENCES session (no) ON DELETE CASCADE,
    step       TEXT    NOT NULL,
    idx        INTEGER NOT NULL,
    body       TEXT    NOT NULL,
    UNIQUE (session_no, step, idx)
) STRICT;

-- Accepted messages. Those that wait no more keep their row (without `body`) for the sake of `client_key`.
CREATE TABLE inbox (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    session_no INTEGER NOT NULL REFERENCES session (no) ON DELETE CASCADE,
    queue_id   TEXT    NOT NULL,
    client_key TEXT,
    queued_ms  INTEGER NOT NULL,
    body       TEXT    NOT NULL,
    state      INTEGER NOT NULL DEFAULT 0 CHECK (state IN (0, 1, 2)), -- waiting, taken, removed
    UNIQUE (session_no, queue_id),
    UNIQUE (session_no, client_key)
) STRICT;

CREATE INDEX inbox_waiting ON inbox (session_no, id) WHERE state = 0;

-- Which blobs a session's log names, and where first.
CREATE TABLE blob_ref (
    session_no INTEGER NOT NULL REFERENCES session (no) ON DELETE CASCADE,
    hash       TEXT    NOT NULL,
    bytes      INTEGER NOT NULL,
    first_seq  INTEGER NOT NULL,
    PRIMARY KEY (session_no, hash)
) STRICT, WITHOUT ROWID;
