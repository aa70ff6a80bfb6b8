"""Export formats of other products. Each function yields the conversations, users or entities of an export.

Sources: help.openai.com, "How do I export my ChatGPT history?"; support.claude.com, "How can I export my Claude data?";
docs.mem0.ai, "Export Stored Memories"; docs.basicmemory.com, "Knowledge Format"; and from the repositories
thedotmack/claude-mem (scripts/export-memories.ts), modelcontextprotocol/servers (src/memory) and letta-ai/agent-file.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from datetime import UTC, datetime
from urllib.parse import quote

from retentive.storage.disk import expanded
from retentive.transfer.elsewhere import NOT_TEXT, Incoming, Node, documents, members
from retentive.transfer.import_files import MAX_FILE_BYTES

Row = tuple[datetime, str, str]  # sorted by time, then by id
_FIRST = datetime.min.replace(tzinfo=UTC)


def _said(who: str, at: datetime | None, text: str) -> str:
    when = "" if at is None else f", {at:%F %T}"
    return f"## {who}{when}\n\n{text.strip()}\n\n" if text.strip() else ""


def _bullet(text: str, remark: str = "") -> str:
    return "- " + text.strip().replace("\n", "\n  ") + (f" ({remark})" if remark else "") + "\n"


def _whole(folder: str, title: str, key: str, at: datetime | None, pieces: Iterable[str]) -> Iterator[Incoming]:
    if found := list(filter(None, pieces)):
        yield Incoming(folder, title, key, at, found)


def chatgpt(path: str) -> Iterator[Incoming]:
    """One memory per conversation: the branch that was shown last, without hidden messages and calls of tools."""
    for found in documents(path, r"(.*/)?conversations(-\d+)?\.json"):
        nodes, chain, seen = found["mapping"].object(), list[Node](), set[str]()
        name, at = found["current_node"].text() or ["", *nodes][-1], found["create_time"].time()
        while name:
            node = found["mapping"][name]
            if name in seen or name not in nodes:
                raise node.error("a message whose parents lead to the first one")
            seen.add(name)
            chain.append(node["message"])
            name = node["parent"].text()
        key = found["conversation_id"].text() or found["id"].text(None)
        yield from _whole("", found["title"].text(), key, at, map(_of_chatgpt, reversed(chain)))


def _of_chatgpt(message: Node) -> str:
    content, role = message["content"], message["author"]["role"].text("tool")
    is_hidden = message["metadata"]["is_visually_hidden_from_conversation"].value or message["weight"].value == 0
    is_text = content["content_type"].text() in {"text", "multimodal_text"}
    if role not in {"user", "assistant"} or is_hidden or not is_text or message["recipient"].text("all") != "all":
        return ""
    parts = (
        part.text() if isinstance(part.value, str) else part["text"].text() or f"[{part['content_type'].text()}]"
        for part in content["parts"].items()
    )
    return _said(role, message["create_time"].time(), "\n\n".join(filter(str.strip, parts)))


_SAID = ("text", "voice_note")
_MEMORIES = ("conversations_memory", "project_memories", "memory_files")


def claude(path: str) -> Iterator[Incoming]:
    """One memory per conversation and per project, and those that Claude keeps about the user and each project."""
    for found in documents(path, r"(.*/)?((conversations|projects|memories)(-\d+)?|(projects|memories)/[^/]+)\.json"):
        name, at = found["name"].text(), found["created_at"].time()
        if "chat_messages" in found:
            messages = map(_of_claude, found["chat_messages"].items())
            yield from _whole("", name, found["uuid"].text(None), at, messages)
        elif any(name in found for name in _MEMORIES):
            account, projects = found["account_uuid"].text(), found["project_memories"]
            texts = {"conversations": found["conversations_memory"]}
            texts |= {each: projects[each] for each in (projects.object() if projects.value else ())}
            texts |= {each["path"].text(None): each["content"] for each in found["memory_files"].items()}
            for each, text in texts.items():
                yield from _whole("memory", f"Memory of {each}", f"memory {account} {each}", None, [text.text()])
        elif "docs" in found:
            about = {"Description": found["description"], "Instructions": found["prompt_template"]}
            pieces = [_said(title, None, text.text()) for title, text in about.items()]
            pieces += (_said(each["filename"].text(), None, each["content"].text()) for each in found["docs"].items())
            yield from _whole("projects", name, found["uuid"].text(None), at, pieces)
        else:
            raise found.error("a conversation (chat_messages), a project (docs) or a memory (conversations_memory)")


def _of_claude(message: Node) -> str:
    said = (each["text"].text() for each in message["content"].items() if each["type"].value in _SAID)
    texts = list(filter(str.strip, said)) or [message["text"].text()]
    for file in [*message["attachments"].items(), *message["files"].items()]:
        texts.append(f"[{file['file_name'].text()}]\n\n{file['extracted_content'].text()}".strip())
    who = message["sender"].text(None).replace("human", "user")
    return _said(who, message["created_at"].time(), "\n\n".join(filter(None, texts)))


def mem0(path: str) -> Iterator[Incoming]:
    """One memory per user, agent, app or run, with a line for each of its memories, oldest first."""
    owners = defaultdict[tuple[str, str], list[Row]](list)
    for found in documents(path, r".*\.json"):
        for row in found["results"].items() if "results" in found else [found]:
            at, metadata = row["created_at"].time(), row["metadata"].value
            about = ["" if at is None else f"{at:%F}"]
            about += [NOT_TEXT.sub("?", json.dumps(metadata, ensure_ascii=False, sort_keys=True))] * bool(metadata)
            named = ((kind, row[f"{kind}_id"].text()) for kind in ("user", "agent", "app", "run"))
            owner = next((each for each in named if each[1]), ("user", "default"))
            if "memory" not in row:
                raise row.error("a memory of get_all, not of an export with another schema")
            text = _bullet(row["memory"].text(None), ", ".join(filter(None, about)))
            owners[owner].append((at or _FIRST, row["id"].text(None), text))
    for (kind, name), rows in owners.items():
        yield Incoming(f"{kind}s", name, f"{kind} {name}", None, [text for *_, text in sorted(rows)])


def basic_memory(path: str) -> Iterator[Incoming]:
    """Each note as it is, with its front matter, at its own path."""
    for name, raw in members(path, r".*\.md"):
        text = raw.read(MAX_FILE_BYTES).decode("utf-8", "surrogateescape")  # not UTF-8: the note is refused
        yield Incoming("", name, None, None, [text])


def server_memory(path: str) -> Iterator[Incoming]:
    """One memory per entity, with its observations and its relations to others."""
    entities = defaultdict[str, tuple[list[str], list[str]]](lambda: ([], []))
    for found in documents(path, r"(.*/)?memory[^/]*\.jsonl?"):
        for row in [*found["entities"].items(), *found["relations"].items()] if "entities" in found else [found]:
            kinds, lines = entities[row["from" if "relationType" in row else "name"].text(None)]
            if "relationType" in row:
                lines.append(_bullet(f"{row['relationType'].text(None)}: {row['to'].text(None)}"))
            else:
                kinds.append(row["entityType"].text(None))
                lines += (_bullet(each.text(None)) for each in row["observations"].items())
    for name, (kinds, lines) in entities.items():
        yield Incoming("".join(kinds[:1]), name, name, None, lines or ["No observations."])


def claude_mem(path: str) -> Iterator[Incoming]:
    """One memory per session, with its observations and summaries, from the database or an exported JSON file."""
    sessions = defaultdict[tuple[str, str], list[Row]](list)
    for found in _rows_of_claude_mem(expanded(path)):
        at, texts = found["created_at_epoch"].time(), {name: found[name].text() for name in _SUMMARY if name in found}
        key = found["memory_session_id"].text() or found["sdk_session_id"].text(None)
        if texts:
            named = (f"{name.replace('_', ' ').capitalize()}: {text}" for name, text in texts.items() if text)
            title, lines = "Summary", "".join(map(_bullet, named))
        else:
            title = f"{found['type'].text()}: {found['title'].text()}"
            facts = [_bullet(each.text()) for each in found["facts"].parsed().items()]
            narrative = (found[name].text().strip() for name in ("subtitle", "narrative", "text"))
            lines = "\n\n".join(filter(None, [*narrative, "".join(facts)])) or "No details."
        order = f"{bool(texts):d}{found['id'].value!s:>20}"
        sessions[found["project"].text(), key].append((at or _FIRST, order, _said(title, at, lines)))
    for (project, key), rows in sessions.items():
        first = min(rows)[0]
        yield from _whole(project, f"{project} {first:%F}", key, first, [text for *_, text in sorted(rows)])


_QUERIES = ("SELECT * FROM observations ORDER BY id", "SELECT * FROM session_summaries ORDER BY id")
_SUMMARY = ("request", "investigated", "learned", "completed", "next_steps", "notes")


def _rows_of_claude_mem(path: str) -> Iterator[Node]:
    path = os.path.join(path, "claude-mem.db") if os.path.isdir(path) else path
    name = os.path.basename(path)
    with open(path, "rb") as raw:
        is_database = raw.read(16) == b"SQLite format 3\0"
    if not is_database:
        for found in documents(path, ".*"):
            if "observations" not in found:
                raise found.error("the field observations")
            yield from (*found["observations"].items(), *found["summaries"].items())
        return
    try:
        with closing(sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True)) as database:
            database.row_factory, database.text_factory = sqlite3.Row, lambda data: data.decode("utf-8", "replace")
            database.execute("PRAGMA trusted_schema=OFF")
            tables = {row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            for query in _QUERIES:
                if (table := query.split()[3]) not in tables:  # a view could run for ever
                    raise Node(None, name).error(f"a table {table}")
                yield from (Node(dict(row), f"{name}: {table} {row['id']}") for row in database.execute(query))
    except sqlite3.Error as error:
        raise Node(None, name).error(f"a database of claude-mem ({error})") from None


def letta(path: str) -> Iterator[Incoming]:
    """One memory per memory block, conversation of an agent, and archive of passages."""
    archives = defaultdict[str, list[Row]](list)
    for found in documents(path, r".*\.(af|json)"):
        if "text" in found:
            row = found["created_at"].time() or _FIRST, found["id"].text(None), _bullet(found["text"].text(None))
            archives[found["archive_id"].text("passages")].append(row)
            continue
        shared = {each["id"].text(None): each for each in found["blocks"].items()}
        for agent in found["agents"].items() if "agents" in found else [found]:
            name, blocks = agent["name"].text(None), agent["core_memory"].items()
            for each in agent["block_ids"].items():
                if each.text(None) not in shared:
                    raise each.error("the id of a block")
                blocks.append(shared[each.text()])
            for block in blocks:
                label = block["label"].text(None)
                yield from _whole(name, label, f"{name} {label}", None, [block["value"].text(None)])
            messages = map(_of_letta, agent["messages"].items())
            yield from _whole(name, "messages", f"{name} messages", None, messages)
    for archive, rows in archives.items():
        yield Incoming("archival", archive, f"archive {archive}", None, [text for *_, text in sorted(rows)])


def _of_letta(message: Node) -> str:
    role, content = message["role"].text(None), message["content"]
    texts = [content.text()] if isinstance(content.value, str) else [each["text"].text() for each in content.items()]
    for call in message["tool_calls"].items():
        if call["function"]["name"].value == "send_message":  # how agents of MemGPT answer
            texts = [call["function"]["arguments"].parsed()["message"].text()]
    return _said(role, message["created_at"].time(), "\n\n".join(texts)) if role in {"user", "assistant"} else ""


_ALL = (chatgpt, claude, mem0, basic_memory, claude_mem, server_memory, letta)
FORMATS: Mapping[str, Callable[[str], Iterator[Incoming]]] = {each.__name__.replace("_", "-"): each for each in _ALL}
"""Formats of `retentive import --from`, with the function that reads an export."""
