"""Routes that export and import memories and memory stores. The exported and imported files are streamed."""

from __future__ import annotations

from retentive.server.fields import FLAG, NAME, Field, choice, text
from retentive.server.handlers import transfers
from retentive.server.route import Route
from retentive.server.table.shared import ADMIN, DRY_RUN, PREFIX, STORE, WRITE

ARCHIVES = ("application/x-tar", "application/gzip")
TRANSFER_ROUTES = (
    Route(
        "GET",
        f"{STORE}/export",
        ADMIN,
        transfers.export_store,
        "stream:application/x-tar|application/gzip",
        "Export the memories and their history, or only the memories as plain files",
        query=(
            Field(
                "format",
                choice("tar", "tar.gz", "files"),
                "Format of the archive; `files` has the memories as plain files in its directory `memories`",
                default="tar",
            ),
            Field("notes", FLAG, "Export side records too, such as proposals", default=False),
        ),
        is_long=True,
    ),
    Route(
        "POST",
        f"{STORE}/import",
        WRITE,
        transfers.import_memories,
        "import_result",
        "Import the present memories of an export, or the files of any tar file, as one change",
        query=(
            PREFIX,
            Field("overwrite", FLAG, "Replace existing memories, which are kept otherwise", default=False),
            DRY_RUN,
            Field("source", text(), "Source of the change, such as `user` or `tool:name`"),
            Field("session", text(), "Session of the change"),
        ),
        upload=ARCHIVES,
        is_long=True,
    ),
    Route(
        "POST",
        "/v1/memory_store_imports",
        ADMIN,
        transfers.import_memory_store,
        "import_of_memory_store",
        "Import the memory store of an export with its ids, times and history",
        query=(Field("key", NAME, "Key of the memory store; default: the one in the export"),),
        upload=ARCHIVES,
        is_long=True,
    ),
)
