-- Memory stores, the present memories in them, and every version there was.
-- Times are microseconds since 1970, UTC. Paths compare as bytes.

CREATE TABLE stores (
    no          INTEGER PRIMARY KEY,
    id          TEXT    NOT NULL UNIQUE,
    store_key   TEXT    UNIQUE,
    name        TEXT    NOT NULL,
    created_at  INTEGER NOT NULL,
    revision    INTEGER NOT NULL,     -- grows by one with every commit that changed the store
    memories    INTEGER NOT NULL,     -- usage, kept with every change
    size_bytes  INTEGER NOT NULL,
    last_at     INTEGER NOT NULL,     -- time of the newest version: times in one store only grow
    seal        TEXT,                 -- what a layer that encrypts keeps with the store
    settings    TEXT,                 -- JSON of what differs from the defaults
    erased_at   INTEGER,              -- of an erased store nothing else is left
    erased_by   TEXT
);

CREATE TABLE memories (
    store       INTEGER NOT NULL,
    path        TEXT    NOT NULL,
    id          TEXT    NOT NULL,
    version     TEXT    NOT NULL,     -- the newest version of it
    text_of     TEXT    NOT NULL,     -- the version whose row holds the present text (a rename holds none)
    size_bytes  INTEGER NOT NULL,
    sha256      TEXT    NOT NULL,
    created_at  INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL,
    seal        BLOB,
    mark        TEXT,                 -- what a backend with copies elsewhere last saw of this memory's copy
    PRIMARY KEY (store, path)
) WITHOUT ROWID;

CREATE TABLE versions (
    seq         INTEGER PRIMARY KEY,  -- grows with every version in the database
    store       INTEGER NOT NULL,
    id          TEXT    NOT NULL,     -- sorts by time within a store
    memory      TEXT    NOT NULL,
    operation   TEXT    NOT NULL,
    path        TEXT    NOT NULL,
    size_bytes  INTEGER,
    sha256      TEXT,
    actor       TEXT,
    created_at  INTEGER NOT NULL,
    revision    INTEGER NOT NULL,
    seal        BLOB,                 -- what a layer that encrypts keeps with the version
    redacted_at INTEGER,              -- then path, size, hash, seal and text are gone
    redacted_by TEXT,
    text_of     TEXT,                 -- the version whose row holds the text; null for a deletion
    text        BLOB                  -- last in the row: reading history does not read texts
);
CREATE UNIQUE INDEX versions_by_id ON versions (store, id);
CREATE INDEX versions_by_memory ON versions (store, memory, id);

CREATE TABLE records (
    store       INTEGER NOT NULL,
    kind        TEXT    NOT NULL,
    name        TEXT    NOT NULL,
    value       TEXT    NOT NULL,
    PRIMARY KEY (store, kind, name)
) WITHOUT ROWID;

-- For memories that also lie as plain files: all versions up to this one rest durably in the files too.

CREATE TABLE synced (
    seq         INTEGER NOT NULL
);
INSERT INTO synced (seq) VALUES (0);
