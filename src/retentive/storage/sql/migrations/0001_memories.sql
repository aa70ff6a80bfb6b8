-- Memory stores, their present memories, and all versions.
-- Times are microseconds since 1970, UTC. Paths and ids compare as bytes.

CREATE TABLE {if_new}stores (
    no          {row_number},
    id          {id} NOT NULL UNIQUE,
    workspace   {word} NOT NULL,
    store_key   {name},
    name        {name} NOT NULL,
    created_at  {int} NOT NULL,
    revision    {int} NOT NULL,   -- number of commits that changed memories or history
    memories    {int} NOT NULL,   -- usage, updated with every change
    size_bytes  {int} NOT NULL,
    last_at     {int} NOT NULL,   -- time of the newest version; it never goes back
    seal        {text},           -- data of the encryption layer
    settings    {text},           -- JSON of the settings that differ from the defaults
    properties  {text},           -- JSON of name, description, metadata and times; null for the defaults
    erased_at   {int},            -- an erased store has only its id
    erased_by   {name},
    UNIQUE (workspace, store_key)
) {of_stores};

CREATE TABLE {if_new}memories (
    store       {int} NOT NULL,
    path        {name} NOT NULL,
    id          {id} NOT NULL,
    version     {id} NOT NULL,    -- newest version of the memory
    text_of     {id} NOT NULL,    -- version whose row has the present text (the row of a rename has none)
    size_bytes  {int} NOT NULL,
    sha256      {id} NOT NULL,
    created_at  {int} NOT NULL,
    updated_at  {int} NOT NULL,
    seal        {bytes},
    provenance  {text},           -- provenance of the newest version
    mark        {word},           -- inode, size and times of the memory's file; null on database servers
    PRIMARY KEY (store, path)
) {by_path} {by_store};

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
    revision    {int} NOT NULL,
    seal        {bytes},          -- data of the encryption layer
    redacted_at {int},            -- redacted: path, size, hash, seal, provenance and text are removed
    redacted_by {name},
    provenance  {text},           -- JSON of the engine: origin and flags of the change
    text_of     {id},             -- version whose row has the text; null for a deletion
    text        {bytes}           -- last column, so that queries of the history do not read texts
    , PRIMARY KEY (store, id)     -- except sqlite
) {end} {by_store};
CREATE UNIQUE INDEX versions_by_id ON versions (store, id);  -- only sqlite
CREATE INDEX {if_new}versions_by_memory ON versions (store, memory, id);

CREATE TABLE {if_new}records (
    store       {int} NOT NULL,
    kind        {word} NOT NULL,
    name        {word} NOT NULL,
    value       {text} NOT NULL,
    PRIMARY KEY (store, kind, name)
) {by_path} {by_store};

-- Number of the newest version that is durable in the files of a directory.
CREATE TABLE synced (seq INTEGER NOT NULL);  -- only sqlite
INSERT INTO synced (seq) VALUES (0);         -- only sqlite
