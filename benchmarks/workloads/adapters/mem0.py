"""mem0 without inference: each part of a note is a memory, with the key of the note as its `run_id`.

No model runs. The embedding is a hash of the text, so its time is not that of a real embedding model.
"""

from __future__ import annotations

import hashlib
import importlib
from typing import TYPE_CHECKING

from workloads.adapters.base import Store, System

if TYPE_CHECKING:
    from collections.abc import Callable

SYSTEMS = (
    System(
        name="mem0, no inference",
        adapter="mem0",
        packages=("mem0ai>=2.2,<3",),
        durable="each commit (Qdrant's local mode on SQLite)",
        history="each change of a fact",
        precondition="none",
        is_shared=False,
    ),
)
DIMENSIONS = 32
USER = "workloads"
MOST = 100_000


class HashEmbedding:
    """Embedding without a model. The systems are compared as stores, not by their search."""

    config = None

    def embed(self, text: str, _memory_action: str | None = None) -> list[float]:
        """Vector of a text."""
        return [byte / 255 for byte in hashlib.sha256(text.encode()).digest()]

    def embed_batch(self, texts: list[str], _memory_action: str | None = None) -> list[list[float]]:
        """Vectors of texts."""
        return [self.embed(text) for text in texts]


class Mem0Store(Store):
    """Memories in a local Qdrant collection, their history in SQLite."""

    def __init__(self, folder: str) -> None:
        collection = {"path": f"{folder}/qdrant", "on_disk": True, "embedding_model_dims": DIMENSIONS}
        configuration = {
            "vector_store": {"provider": "qdrant", "config": collection},
            "history_db_path": f"{folder}/history.db",
        }
        self._memory = importlib.import_module("mem0").Memory.from_config(configuration)
        self._memory.embedding_model = HashEmbedding()

    def create(self, key: str, text: str) -> None:  # noqa: D102
        self._memory.add(text, user_id=USER, run_id=key, infer=False)

    def _parts(self, key: str) -> list[dict[str, str]]:
        found = self._memory.get_all(filters={"user_id": USER, "run_id": key}, top_k=MOST)["results"]
        return sorted(found, key=_created)

    def read(self, key: str) -> str | None:  # noqa: D102
        parts = [each["memory"].rstrip("\n") for each in self._parts(key)]
        return "\n".join(parts) if parts else None

    def append(self, key: str, line: str) -> None:  # noqa: D102
        self.create(key, line)

    def replace(self, key: str, text: str) -> None:  # noqa: D102
        first, *rest = self._parts(key)
        for each in rest:
            self._memory.delete(each["id"])
        self._memory.update(first["id"], text=text)

    def delete(self, key: str) -> None:  # noqa: D102
        self._memory.delete_all(user_id=USER, run_id=key)

    def names(self) -> list[str]:  # noqa: D102
        found = self._memory.get_all(filters={"user_id": USER}, top_k=MOST)["results"]
        return sorted({each["run_id"] for each in found})

    def amend(self, key: str, change: Callable[[str], str]) -> bool:  # noqa: D102
        self.replace(key, change(self.text(key)))
        return True

    def close(self) -> None:  # noqa: D102
        self._memory.close()
        self._memory.vector_store.client.close()


def _created(memory: dict[str, str]) -> str:
    return memory["created_at"]


def open_store(_system: str, folder: str, _address: str) -> Store:
    """Open the store in a folder."""
    return Mem0Store(folder)
