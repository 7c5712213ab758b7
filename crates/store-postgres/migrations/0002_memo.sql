-- View edits remembered for prefixes of conversations that nobody keeps. `used` counts uses, so that the greatest was
-- used last; what was not used for the longest time gives way.
CREATE TABLE memo (
    no    bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    key   bytea  NOT NULL UNIQUE CHECK (length(key) = 32),
    used  bigint NOT NULL,
    bytes bigint NOT NULL,
    body  text   NOT NULL
);

-- Covers the question of what has room.
CREATE INDEX memo_used ON memo (used, no) INCLUDE (bytes);
