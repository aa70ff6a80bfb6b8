"""SQL statements that SQLite, PostgreSQL and MariaDB share. Each database has its own connection class."""
