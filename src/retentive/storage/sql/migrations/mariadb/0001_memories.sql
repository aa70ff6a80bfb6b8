-- Memory stores, the present memories in them, and every version there was.
-- Times are microseconds since 1970, UTC. All text is VARBINARY: bytes compare as bytes, without padding, and a path
-- of 1,034 bytes fits into a key, for which utf8mb4 would need four times as many.
-- IF NOT EXISTS, since this engine commits at every CREATE: what was interrupted is done again.

CREATE TABLE IF NOT EXISTS stores (
    no          BIGINT          NOT NULL AUTO_INCREMENT PRIMARY KEY,
    id          VARBINARY(64)   NOT NULL UNIQUE,
    store_key   VARBINARY(1100) UNIQUE,
    name        VARBINARY(1100) NOT NULL,
    created_at  BIGINT          NOT NULL,
    revision    BIGINT          NOT NULL,
    memories    BIGINT          NOT NULL,
    size_bytes  BIGINT          NOT NULL,
    last_at     BIGINT          NOT NULL,
    seal        VARBINARY(4000),
    settings    MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
    erased_at   BIGINT,
    erased_by   VARBINARY(1100)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

CREATE TABLE IF NOT EXISTS memories (
    store       BIGINT          NOT NULL,
    path        VARBINARY(1100) NOT NULL,
    id          VARBINARY(64)   NOT NULL,
    version     VARBINARY(64)   NOT NULL,
    text_of     VARBINARY(64)   NOT NULL,
    size_bytes  BIGINT          NOT NULL,
    sha256      VARBINARY(64)   NOT NULL,
    created_at  BIGINT          NOT NULL,
    updated_at  BIGINT          NOT NULL,
    seal        BLOB,
    mark        VARBINARY(200),
    PRIMARY KEY (store, path)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC {by_store};

CREATE TABLE IF NOT EXISTS versions (
    store       BIGINT          NOT NULL,
    id          VARBINARY(64)   NOT NULL,
    memory      VARBINARY(64)   NOT NULL,
    operation   VARBINARY(16)   NOT NULL,
    path        VARBINARY(1100) NOT NULL,
    size_bytes  BIGINT,
    sha256      VARBINARY(64),
    actor       VARBINARY(1100),
    created_at  BIGINT          NOT NULL,
    revision    BIGINT          NOT NULL,
    seal        BLOB,
    redacted_at BIGINT,
    redacted_by VARBINARY(1100),
    text_of     VARBINARY(64),
    text        LONGBLOB,
    PRIMARY KEY (store, id),
    INDEX versions_by_memory (store, memory, id)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC {by_store};

CREATE TABLE IF NOT EXISTS records (
    store       BIGINT          NOT NULL,
    kind        VARBINARY(200)  NOT NULL,
    name        VARBINARY(200)  NOT NULL,
    value       LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    PRIMARY KEY (store, kind, name)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC {by_store};
