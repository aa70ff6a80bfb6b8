"""Memory stores in SQL: one set of statements for SQLite, PostgreSQL and MariaDB."""
