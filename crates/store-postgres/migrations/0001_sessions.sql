-- One row per process that has the store open, for as long as it renews its lease. The clock is the database's.
CREATE TABLE node (
    boot_id     text        PRIMARY KEY,
    address     text,
    since       timestamptz NOT NULL,
    lease_until timestamptz NOT NULL
);

-- One row per session. `no` is never given twice, so that it can be part of epochs.
-- `owner` is the node (node.boot_id) that has claimed it; it has the session as long as it lives. `writes` counts what
-- was written under the lease that is held: a write says which number it expects, so that one whose answer was lost
-- can be repeated and still happens once. `mail` counts what others did for its owner to see: messages, signals.
CREATE TABLE session (
    no         bigint  PRIMARY KEY GENERATED ALWAYS AS IDENTITY CHECK (no < 2147483648),
    id         text    COLLATE "C" NOT NULL UNIQUE,
    made_by    text    COLLATE "C" NOT NULL,
    title      text,
    created_ms bigint  NOT NULL,
    updated_ms bigint  NOT NULL,
    last_seq   bigint  NOT NULL,
    running    boolean NOT NULL,
    parked     boolean NOT NULL,
    owner      text    COLLATE "C",
    owner_name text,
    epoch      bigint  NOT NULL DEFAULT 0,
    writes     bigint  NOT NULL DEFAULT 0,
    mail       bigint  NOT NULL DEFAULT 0
) WITH (fillfactor = 70);

CREATE INDEX session_changed ON session (updated_ms DESC, no DESC);
CREATE INDEX session_running ON session (no) WHERE running;
CREATE INDEX session_owner ON session (owner) WHERE owner IS NOT NULL;

-- The logs. `body` is the event as JSON text, byte for byte as it was written. No foreign key: every row is written and
-- deleted under the lock of its session's row, and a check per event would cost more than the event.
CREATE TABLE event (
    session_no bigint  NOT NULL,
    seq        bigint  NOT NULL,
    format     integer NOT NULL,
    epoch      bigint  NOT NULL,
    at_ms      bigint  NOT NULL,
    body       text    NOT NULL,
    PRIMARY KEY (session_no, seq)
);

-- Pieces of answers that still stream; deleted in the transaction that appends the whole. No foreign key, as above.
CREATE TABLE chunk (
    no         bigint GENERATED ALWAYS AS IDENTITY,
    session_no bigint NOT NULL,
    step       text   COLLATE "C" NOT NULL,
    idx        bigint NOT NULL,
    body       text   NOT NULL,
    PRIMARY KEY (session_no, step, idx)
);

-- Accepted messages. Those that wait no more keep their row (without `body`) for the sake of `client_key`. `made_by`
-- is the call that accepted it, `ended_by` the one that removed it.
CREATE TABLE inbox (
    no         bigint   PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    session_no bigint   NOT NULL REFERENCES session (no) ON DELETE CASCADE,
    queue_id   text     COLLATE "C" NOT NULL,
    client_key text     COLLATE "C",
    made_by    text     COLLATE "C" NOT NULL,
    queued_ms  bigint   NOT NULL,
    body       text     NOT NULL,
    state      smallint NOT NULL DEFAULT 0 CHECK (state IN (0, 1, 2)), -- waiting, taken, removed
    ended_by   text     COLLATE "C",
    UNIQUE (session_no, queue_id),
    UNIQUE (session_no, client_key)
);

CREATE INDEX inbox_waiting ON inbox (session_no, no) WHERE state = 0;

-- Which blobs a session's log names, and where first.
CREATE TABLE blob_ref (
    session_no bigint NOT NULL REFERENCES session (no) ON DELETE CASCADE,
    hash       text   COLLATE "C" NOT NULL,
    bytes      bigint NOT NULL,
    first_seq  bigint NOT NULL,
    PRIMARY KEY (session_no, hash)
);

-- Requests that their senders may repeat: what was asked under a key, where the log was then, and the answer once there
-- is one. `begun_by` is the call that came first.
CREATE TABLE request (
    session_no bigint NOT NULL REFERENCES session (no) ON DELETE CASCADE,
    key        text   COLLATE "C" NOT NULL,
    begun_by   text   COLLATE "C" NOT NULL,
    what       text   NOT NULL,
    since_seq  bigint NOT NULL,
    at_ms      bigint NOT NULL,
    answer     text,
    PRIMARY KEY (session_no, key)
);

-- What waits for the owner of a session. `taken_by` is the write (epoch and number) that took it; it is kept until the
-- next one, for an owner whose answer was lost.
CREATE TABLE signal (
    no           bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    session_no   bigint NOT NULL REFERENCES session (no) ON DELETE CASCADE,
    sent_by      text   COLLATE "C" NOT NULL UNIQUE,
    body         text   NOT NULL,
    taken_epoch  bigint,
    taken_write  bigint
);

CREATE INDEX signal_waiting ON signal (session_no, no);
