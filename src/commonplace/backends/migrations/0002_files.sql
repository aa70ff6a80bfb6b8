-- For memories that also lie as plain files: changes committed here whose files may not rest durably on disk yet.

CREATE TABLE intents (
    seq         INTEGER PRIMARY KEY,
    store       INTEGER NOT NULL,
    path        TEXT    NOT NULL
);
