-- View edits remembered for prefixes of conversations that nobody keeps. `used` counts uses, so that the greatest was
-- used last; what was not used for the longest time gives way.
CREATE TABLE memo (
    no    INTEGER PRIMARY KEY,
    key   BLOB    NOT NULL UNIQUE CHECK (length(key) = 32),
    used  INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    body  TEXT    NOT NULL
) STRICT;

-- Covers the question of what has room.
CREATE INDEX memo_used ON memo (used, bytes);
