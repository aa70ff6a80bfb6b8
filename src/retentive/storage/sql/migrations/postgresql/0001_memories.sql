-- Memory stores, the present memories in them, and every version there was.
-- Times are microseconds since 1970, UTC. Paths and ids compare as bytes.

CREATE TABLE stores (
    no          BIGINT  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id          TEXT    COLLATE "C" NOT NULL UNIQUE,
    store_key   TEXT    COLLATE "C" UNIQUE,
    name        TEXT    NOT NULL,
    created_at  BIGINT  NOT NULL,
    revision    BIGINT  NOT NULL,     -- grows by one with every commit that changed the store
    memories    BIGINT  NOT NULL,     -- usage, kept with every change
    size_bytes  BIGINT  NOT NULL,
    last_at     BIGINT  NOT NULL,     -- time of the newest version: times in one store only grow
    seal        TEXT,                 -- what a layer that encrypts keeps with the store
    settings    TEXT,                 -- JSON of what differs from the defaults
    erased_at   BIGINT,               -- of an erased store nothing else is left
    erased_by   TEXT
) WITH (fillfactor = 50);             -- every write changes its row, in place if the page has room

CREATE TABLE memories (
    store       BIGINT  NOT NULL,
    path        TEXT    COLLATE "C" NOT NULL,
    id          TEXT    COLLATE "C" NOT NULL,
    version     TEXT    COLLATE "C" NOT NULL,  -- the newest version of it
    text_of     TEXT    COLLATE "C" NOT NULL,  -- the version whose row holds the present text
    size_bytes  BIGINT  NOT NULL,
    sha256      TEXT    NOT NULL,
    created_at  BIGINT  NOT NULL,
    updated_at  BIGINT  NOT NULL,
    seal        BYTEA,
    mark        TEXT,                 -- not used by servers
    PRIMARY KEY (store, path)
) {by_store};

CREATE TABLE versions (
    store       BIGINT  NOT NULL,
    id          TEXT    COLLATE "C" NOT NULL,  -- sorts by time within a store
    memory      TEXT    COLLATE "C" NOT NULL,
    operation   TEXT    NOT NULL,
    path        TEXT    COLLATE "C" NOT NULL,
    size_bytes  BIGINT,
    sha256      TEXT,
    actor       TEXT,
    created_at  BIGINT  NOT NULL,
    revision    BIGINT  NOT NULL,
    seal        BYTEA,                -- what a layer that encrypts keeps with the version
    redacted_at BIGINT,               -- then path, size, hash, seal and text are gone
    redacted_by TEXT,
    text_of     TEXT    COLLATE "C",  -- the version whose row holds the text; null for a deletion
    text        BYTEA,
    PRIMARY KEY (store, id)
) {by_store};
CREATE INDEX versions_by_memory ON versions (store, memory, id);

CREATE TABLE records (
    store       BIGINT  NOT NULL,
    kind        TEXT    COLLATE "C" NOT NULL,
    name        TEXT    COLLATE "C" NOT NULL,
    value       TEXT    NOT NULL,
    PRIMARY KEY (store, kind, name)
) {by_store};
