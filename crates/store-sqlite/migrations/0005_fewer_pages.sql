-- Each commit writes every page that it touches as a whole, so that tables with fewer b-trees write less
-- (docs/decisions/0051-fewer-pages-per-commit.md).

-- Accepted messages. `id` is `session.no << 32 | number`: those of one session lie together, in order of acceptance.
-- Those that wait no more keep their row (without `body`) for the sake of `client_key`.
CREATE TABLE message (
    id         INTEGER PRIMARY KEY,
    queue_id   TEXT    NOT NULL,
    client_key TEXT,
    queued_ms  INTEGER NOT NULL,
    body       TEXT    NOT NULL,
    state      INTEGER NOT NULL DEFAULT 0 CHECK (state IN (0, 1, 2)) -- waiting, taken, removed
) STRICT;

INSERT INTO message (id, queue_id, client_key, queued_ms, body, state)
SELECT session_no << 32 | row_number() OVER (PARTITION BY session_no ORDER BY id),
       queue_id, client_key, queued_ms, body, state
FROM inbox;

-- No message up to this number waits: those that wait are found without an index.
ALTER TABLE session ADD COLUMN settled_messages INTEGER NOT NULL DEFAULT 0;
UPDATE session SET settled_messages = coalesce(
    (SELECT min(id) - 1 FROM message WHERE id BETWEEN no << 32 AND no << 32 | 4294967295 AND state = 0),
    (SELECT max(id) FROM message WHERE id BETWEEN no << 32 AND no << 32 | 4294967295),
    0) & 4294967295;

DROP TABLE inbox;
ALTER TABLE message RENAME TO inbox;
-- Few messages have a key; one without does not touch the index.
CREATE UNIQUE INDEX inbox_key ON inbox (client_key, id >> 32) WHERE client_key IS NOT NULL;

-- Pieces of answers that still stream, all sessions' in order of arrival. A piece with the index -1 says that its step is
-- settled; settled steps are deleted together, many at a time.
CREATE TABLE piece (
    id         INTEGER PRIMARY KEY,
    session_no INTEGER NOT NULL,
    step       TEXT    NOT NULL,
    idx        INTEGER NOT NULL,
    body       TEXT    NOT NULL
) STRICT;

INSERT INTO piece (session_no, step, idx, body) SELECT session_no, step, idx, body FROM chunk ORDER BY id;
DROP TABLE chunk;
ALTER TABLE piece RENAME TO chunk;

-- The hour of the last change orders sessions roughly; its index is written once an hour for each session.
DROP INDEX session_changed;
ALTER TABLE session ADD COLUMN changed_hour INTEGER NOT NULL DEFAULT 0;
UPDATE session SET changed_hour = updated_ms / 3600000;
CREATE INDEX session_changed ON session (changed_hour);
