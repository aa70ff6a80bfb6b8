"""Memory stores in PostgreSQL and MariaDB."""
