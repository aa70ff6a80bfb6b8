-- For memories that also lie as plain files: all versions up to this one rest durably in the files too.

CREATE TABLE synced (
    seq         INTEGER NOT NULL
);
INSERT INTO synced (seq) VALUES (0);
