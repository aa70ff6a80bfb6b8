-- Memory stores, all versions of their memories, and the records of each store.
-- Times are microseconds since 1970, UTC. Paths and ids compare as bytes.
-- `schema.py` replaces each word in braces by a word of the SQL dialect.

CREATE TABLE {if_new}retentive_schema (number INTEGER PRIMARY KEY);  -- except sqlite

CREATE TABLE {if_new}stores (
    no          {row_number},
    id          {id} NOT NULL UNIQUE,
    workspace   {word} NOT NULL,
    store_key   {name},
    name        {name} NOT NULL,
    created_at  {int} NOT NULL,
    seal        {text},           -- data of the encryption layer
    settings    {text},           -- JSON of the settings that differ from the defaults
    properties  {text},           -- JSON of name, description, metadata and times; null for the defaults
    token       {name},           -- newest commits through a database server, to look for a commit whose reply was lost
    erased_at   {int},            -- an erased store has only its id
    erased_by   {name},
    UNIQUE (workspace, store_key)
) {of_stores};

-- The truth: everything else about memories follows from their versions. The newest version of a store always stays.
-- If it is pruned, it has no memory any more, and only its id, revision and totals are left.
CREATE TABLE {if_new}versions (
    seq         INTEGER PRIMARY KEY,  -- only sqlite; grows with every version of the database
    store       {int} NOT NULL,
    id          {id} NOT NULL,    -- sorts by time within a store
    memory      {id} NOT NULL,
    operation   {id} NOT NULL,
    path        {name} NOT NULL,
    size_bytes  {int},
    sha256      {id},
    actor       {name},
    created_at  {int} NOT NULL,
    revision    {int} NOT NULL,   -- number of the commit, among the commits that added versions
    memories    {int} NOT NULL,   -- totals of the store after this version
    total_bytes {int} NOT NULL,
    seal        {bytes},          -- data of the encryption layer
    redacted_at {int},            -- redacted: path, size, hash, seal, provenance and text are removed
    redacted_by {name},
    provenance  {text},           -- JSON of the engine: origin and flags of the change
    text_of     {id},             -- version whose row has the text, if that is another (after a rename)
    pack        {id},             -- pack that has the text of this row, if it is not in the row itself
    text        {bytes}           -- last column, so that queries of the history do not read texts
    , PRIMARY KEY (store, id)     -- except sqlite
) {end};
CREATE UNIQUE INDEX versions_by_id ON versions (store, id);  -- only sqlite
CREATE INDEX {if_new}versions_by_memory ON versions (store, memory, id);
CREATE INDEX {if_new}versions_by_path ON versions (store, path, id);
CREATE INDEX {if_new}versions_by_text ON versions (store, text_of){of_renamed};  -- which versions still need a text

-- Superseded texts of one memory, compressed together (`packs.py`). The id is that of the first version in the pack.
CREATE TABLE {if_new}packs (
    store       {int} NOT NULL,
    id          {id} NOT NULL,
    data        {bytes} NOT NULL,
    PRIMARY KEY (store, id)
) {end};

-- Index of the newest version of the memory at each path.
CREATE TABLE {if_new}memories (
    store       {int} NOT NULL,
    path        {name} NOT NULL,
    newest      {id} NOT NULL,
    PRIMARY KEY (store, path)
) {by_path};

CREATE TABLE {if_new}records (
    store       {int} NOT NULL,
    kind        {word} NOT NULL,
    name        {word} NOT NULL,
    value       {text} NOT NULL,
    PRIMARY KEY (store, kind, name)
) {by_path};

-- Stamps (inode, size, times) of plain files that contain a version, and the newest version that is durable in files.
CREATE TABLE files (store INTEGER, path TEXT, version TEXT, stamp TEXT, PRIMARY KEY (store, path)) WITHOUT ROWID;  -- only sqlite
CREATE TABLE synced (seq INTEGER NOT NULL);  -- only sqlite
INSERT INTO synced (seq) VALUES (0);         -- only sqlite

-- Last, because the number says that all tables exist.
INSERT INTO retentive_schema (number) VALUES ({schema});  -- except sqlite
PRAGMA application_id = {application};                    -- only sqlite
PRAGMA user_version = {schema};                           -- only sqlite
