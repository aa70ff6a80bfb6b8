"""Pages of the console: what they show, and what their forms do."""

from __future__ import annotations

import re

import pytest

from retentive import MemoryStore
from retentive.console.pages import history
from support.console import Person
from support.http_api import Api


def test_a_directory_lists_one_level_and_renders_its_index(person: Person, store: MemoryStore, at: str) -> None:
    store.create("/memories/index.md", "# Start *here*\n", actor="user:ann")
    page = person.get(f"{at}/tree/")
    assert "Start here" in page.text
    assert {f"{at}/m/b.txt", f"{at}/tree/notes"} <= set(page.links)
    assert f"{at}/m/notes/a.md" in person.get(f"{at}/tree/notes").links
    assert person.get(f"{at}/tree/b.txt").url.endswith("/m/b.txt")
    assert person.get(f"{at}/go?path=notes/a.md").url.endswith("/m/notes/a.md")


def test_the_views_of_a_memory(person: Person, at: str) -> None:
    rendered = person.get(f"{at}/m/notes/a.md")
    assert "<h2>Notes</h2>" in rendered.body
    assert "# Notes" not in rendered.text
    assert "# Notes" in person.get(f"{at}/m/notes/a.md?view=raw").text
    blame = person.get(f"{at}/m/notes/a.md?view=blame").text.partition("with their authors")[2]
    assert blame.index("session:s1") < blame.index("# Notes") < blame.index("session:s2 ")
    versions = person.get(f"{at}/m/notes/a.md?view=history")
    assert "r2 modified through python" in versions.text
    assert "plain" in person.get(f"{at}/m/b.txt").text


def test_past_states_and_links_that_stay(person: Person, store: MemoryStore, at: str) -> None:
    versions = store.versions("/memories/notes/a.md")
    past = person.get(f"{at}/m/notes/a.md?view=raw&at=r1")
    assert "two" in past.text
    assert "This is the past" in past.text
    assert "Edit" not in past.text.split("Restore")[0].split("r1")[-1]
    assert f"{at}/m/b.txt?at=r1" not in person.get(f"{at}/tree/?at=r1").links
    assert "two" in person.get(f"{at}/v/{versions[1].id}").text
    store.rename("/memories/notes/a.md", "/memories/c.md")
    assert person.get(f"{at}/id/{versions[0].memory_id}").url.endswith("/m/c.md")
    assert "The memory now" in person.get(f"{at}/m/notes/a.md").text
    store.delete("/memories/c.md")
    gone = person.get(f"{at}/id/{versions[0].memory_id}")
    assert ("/v/" in gone.url, "Its history is kept" in gone.text) == (True, True)


def test_a_difference_marks_words(person: Person, store: MemoryStore, at: str) -> None:
    new, old = (each.id for each in store.versions("/memories/notes/a.md"))
    for url in (
        f"{at}/change/r2",
        f"{at}/diff/{old}..{new}",
        f"{at}/by/session:s2",
        f"{at}/diff?old={new}&new={old}",
    ):
        page = person.get(url)
        assert "removed two" in page.text
        assert "added 2" in page.text
    store.write("/memories/b.txt", "plain words here\n", actor="user:ann")
    assert "<b>words here</b>" in person.get(f"{at}/change/r4?view=unified").body


def test_an_undo_shows_what_happens_and_then_does_it(person: Person, store: MemoryStore, at: str) -> None:
    preview = person.get(f"{at}/undo?actor=session:s2")
    assert "nothing has happened yet" in preview.text
    assert store.read("/memories/notes/a.md").split() == ["#", "Notes", "one", "2", "three"]
    done = person.submit(f"{at}/undo?actor=session:s2", "/undo")
    assert "undo of" in done.text
    assert store.read("/memories/notes/a.md").split() == ["#", "Notes", "one", "two", "three"]
    newest = store.versions("/memories/notes/a.md")[0]
    assert newest.provenance.integration == "console"
    again = person.submit(f"{at}/undo?change={newest.id}", "/undo")
    assert again.status == 200
    assert "2" in store.read("/memories/notes/a.md")


def test_an_undo_with_later_changes_asks_for_a_choice(person: Person, store: MemoryStore, at: str) -> None:
    preview = person.get(f"{at}/undo?change=r1")
    assert "1 memory was changed afterwards" in preview.text
    assert not [form for form in preview.forms if form[0] == "post" and form[1].endswith("/undo")]
    person.submit(f"{at}/undo?change=r1&mode=force", "/undo")
    assert [each.path for each in store.memories()] == ["/memories/b.txt"]


def test_a_change_during_the_preview_stops_the_undo(person: Person, store: MemoryStore, at: str) -> None:
    fields = person.get(f"{at}/undo?change=r3").form("/undo")
    store.write("/memories/b.txt", "other\n", actor="session:s3")
    answer = person.post(f"{at}/undo", fields)
    assert (answer.status, "changed while the preview was open" in answer.text) == (409, True)
    assert store.read("/memories/b.txt") == "other\n"


def test_an_edit_has_a_precondition(person: Person, store: MemoryStore, at: str) -> None:
    page = person.get(f"{at}/edit/notes/a.md")
    fields = page.form("/edit/")
    assert fields["text"] == store.read("/memories/notes/a.md")
    saved = person.post(f"{at}/edit/notes/a.md", {**fields, "text": fields["text"].replace("\n", "\r\n") + "four\r\n"})
    assert saved.url.endswith("/m/notes/a.md")
    assert store.read("/memories/notes/a.md").endswith("three\nfour\n")
    conflict = person.post(f"{at}/edit/notes/a.md", {**fields, "text": "# Mine\n\none\n2\nthree\n"})
    assert conflict.status == 409
    merged = conflict.form("/edit/")
    assert merged["text"] == "# Mine\n\none\n2\nthree\nfour\n"
    assert "four" in store.read("/memories/notes/a.md")
    person.post(f"{at}/edit/notes/a.md", merged)
    assert store.read("/memories/notes/a.md") == merged["text"]


@pytest.mark.parametrize("text", ["\n\nfirst lines are empty\n", "a\r\nb\r\n", "<b>&amp;\u202e\n", "no end"])
def test_a_text_survives_the_form(person: Person, store: MemoryStore, at: str, text: str) -> None:
    store.create("/memories/t.txt", text)
    page = person.get(f"{at}/edit/t.txt")
    typed = page.body.partition("<textarea")[2].partition(">\n")[2].partition("</textarea>")[0]
    assert typed.startswith("\n") == text.startswith("\n")
    person.post(f"{at}/edit/t.txt", {**page.form("/edit/"), "text": text.replace("\r\n", "\n").replace("\n", "\r\n")})
    assert store.read("/memories/t.txt") == text


def test_create_rename_and_delete(person: Person, store: MemoryStore, at: str) -> None:
    person.submit(f"{at}/new", "/new", path="/memories/new.md", text="hello\r\n")
    assert store.read("/memories/new.md") == "hello\n"
    taken = person.submit(f"{at}/new", "/new", path="/memories/new.md", text="x")
    assert (taken.status, store.read("/memories/new.md")) == (409, "hello\n")
    person.submit(f"{at}/move/new.md", "/move/", path="/memories/moved.md")
    assert store.read("/memories/moved.md") == "hello\n"
    person.submit(f"{at}/delete/moved.md", "/delete/")
    assert "/memories/moved.md" not in [each.path for each in store.memories()]


def test_an_actor_under_review_previews_changes_to_own_proposals(api: Api, store: MemoryStore, at: str) -> None:
    """The preview starts from the text that the actor proposed, also if the memory was renamed."""
    store.change_settings({"review": ["api_key:*"]})
    person = Person(api.with_key("read", "write"))
    person.submit(f"{at}/edit/b.txt", "/edit/", text="proposed\n")
    for url in ("restore?path=/memories/b.txt&to=r3", "undo?change=r3&mode=force"):
        preview = person.get(f"{at}/{url}")
        assert preview.status == 200, url
        assert "removed proposed" in preview.text
    person.submit(f"{at}/move/notes/a.md", "/move/", path="/memories/notes/moved.md")
    moved = person.get(f"{at}/restore?path=/memories&to=r1")
    assert moved.problems() == []
    assert "renamed from /memories/notes/moved.md" in moved.text
    person.submit(f"{at}/restore?path=/memories&to=r1", "/restore")
    assert "/v/" in person.get(f"{at}/m/b.txt").url
    assert store.read("/memories/b.txt") == "plain\n"


def test_a_writer_without_review_sees_the_activity_after_a_proposal(api: Api, store: MemoryStore, at: str) -> None:
    store.change_settings({"review": ["*"]})
    person = Person(api.with_key("read", "write"))
    for action, name in (("delete", "b.txt"), ("edit", "notes/a.md")):
        done = person.submit(f"{at}/{action}/{name}", f"/{action}/", text="proposed\n")
        assert (done.status, done.url.partition("?")[0].endswith("/activity")) == (200, True)
    assert [len(each.changes) for each in store.review.pending()] == [1, 1]


def test_a_level_of_the_tree_is_a_list(person: Person, store: MemoryStore, at: str) -> None:
    """Of the links to its entries, now and at a moment; the directories in it can be opened, too."""
    store.create("/memories/notes/deep/c.md", "")
    level = person.get(f"{at}/children/notes")
    assert level.links == [f"{at}/m/notes/a.md", f"{at}/tree/notes/deep"]
    assert level.body.count('class="chevron"') == 1
    assert f'hx-get="{at}/children/notes/deep"' in level.body
    assert person.get(f"{at}/children/notes?at=r1").links == [f"{at}/m/notes/a.md?at=r1"]
    assert person.get(f"{at}/children/unknown").status == 404
    assert person.get(f"{at}/tree/").body.count('class="chevron"') == 1
    assert person.get(f"{at}/tree/notes").body.count('class="chevron"') == 1


def test_a_review_accepts_and_refuses(person: Person, store: MemoryStore, at: str) -> None:
    store.change_settings({"review": ["session:new"]})
    for name in ("x", "y", "z"):
        store.create(f"/memories/{name}.md", f"{name}\n", actor="session:new")
    first = store.review.pending()[0]
    assert "3 waiting" in person.get("/console/").text
    assert "Review 3" in person.get(f"{at}/tree/").text
    page = person.get(f"{at}/review/{first.id}")
    assert "created /memories/x.md" in page.text
    fields = {"csrf": page.form("/decide")["csrf"]}
    following = person.post(f"{at}/decide", {**fields, "id": first.id, "decision": "accept"})
    assert following.url.endswith(store.review.pending()[0].id)
    assert store.read("/memories/x.md") == "x\n"
    left = [each.id for each in store.review.pending()]
    person.post(f"{at}/decide", {**fields, "id": left, "decision": "refuse"})
    assert store.review.pending() == []
    decided = [person.get(f"{at}/review/{each}") for each in (first.id, left[0])]  # addresses of decided ones stay
    assert "accepted this proposal" in decided[0].text
    assert "refused this proposal" in decided[1].text
    assert "/memories/y.md" not in [each.path for each in store.memories()]


def test_a_session_is_decided_at_once(person: Person, store: MemoryStore, at: str) -> None:
    """All differences are on one page, and only what it shows is decided."""
    store.change_settings({"review": ["session:*"]})
    for name, session in (("x", "new"), ("y", "new"), ("z", "other")):
        store.create(f"/memories/{name}.md", f"text {name}\n", actor=f"session:{session}")
    assert f"{at}/review?session=new" in person.get(f"{at}/review").links
    page = person.get(f"{at}/review?session=new")
    assert page.problems() == []
    assert [f"text {name}" in page.text for name in "xyz"] == [True, True, False]
    store.create("/memories/late.md", "late\n", actor="session:new")
    ids = re.findall(r'name="id" value="(prop_[0-9a-f]+)"', page.body.partition("<h2>Session")[2])
    person.post(f"{at}/decide", {"csrf": page.form("/decide")["csrf"], "id": ids, "decision": "accept"})
    assert [each.summary for each in store.review.pending()] == ["created /memories/z.md", "created /memories/late.md"]
    assert len(store.review.decisions()) == 2


def test_a_memory_is_promoted_to_another_store(person: Person, api: Api, store: MemoryStore, at: str) -> None:
    team = api.place.opened.store("promoted team")
    assert f"{at}/promote/notes/a.md" in person.get(f"{at}/m/notes/a.md").links
    opened = person.submit(f"{at}/promote/notes/a.md", "/promote/", to="promoted team", path="/memories/a.md")
    (waiting,) = team.review.pending()
    assert opened.url.endswith(f"/review/{waiting.id}")
    assert opened.problems() == []
    assert person.submit(f"{at}/promote/notes/a.md", "/promote/", to="unknown").status == 404
    team.review.accept(actor="user:ann")
    assert "Accepted by user:ann" in person.get(f"/console/s/{team.id}/m/a.md").text


def test_trust_shows_the_text_and_confirms_it(person: Person, store: MemoryStore, at: str) -> None:
    store.change_settings({"trust": {"session:*": "unconfirmed"}})
    page = person.get(f"{at}/trust")
    assert "/memories/notes/a.md" in page.text
    url = next(link for link in page.links if "/trust/confirm?" in link)
    shown = person.get(url)
    assert "# Notes" in shown.text
    store.edit("/memories/notes/a.md", "three", "3", actor="session:s3")
    late = person.post(f"{at}/trust/confirm", shown.form("/trust/confirm"))
    assert (late.status, "Nothing was confirmed" in late.text, " 3 " in late.text) == (409, True, True)
    assert store.trust.doubted() != []
    person.post(f"{at}/trust/confirm", late.form("/trust/confirm"))
    assert store.trust.doubted() == []
    store.change_settings({"quarantine": ["session:s1"]})
    hidden = person.get(f"{at}/trust/confirm?path=/memories/notes/a.md")
    assert (hidden.status, "# Notes" in hidden.text) == (200, True)
    assert "Quarantine session:s1 Hide or release memories" in person.get(f"{at}/trust").text


def test_a_redacted_version_has_no_text(person: Person, store: MemoryStore, at: str, api: Api) -> None:
    old = store.versions("/memories/notes/a.md")[1]
    person.submit(f"{at}/redact?version={old.id}", "/redact", typed="redact", key=api.key)
    assert "was redacted by" in person.get(f"{at}/v/{old.id}").text
    assert "redacted" in person.get(f"{at}/m/notes/a.md?view=history").text


def test_findings_name_kinds_and_never_values(person: Person, store: MemoryStore, at: str) -> None:
    store.change_settings({"sensitive": "off"})
    store.create("/memories/k.md", "key AKIAIOSFODNN7EXAMPLQ\n")
    page = person.get(f"{at}/sensitive?scan=1")
    assert "/memories/k.md" in page.text
    assert "AKIA" not in page.body


def test_keys_are_created_once_shown_and_revoked(person: Person, api: Api) -> None:
    made = person.submit("/console/keys", "/keys/create", name="ci", scope=["read"], key=api.key)
    text = next(word for word in made.text.split() if word.startswith("rtv_") and len(word) > 50)
    other = Person(api, text)
    assert other.get("/console/keys").status == 403
    record = next(each for each in api.place.keys.all() if each.name == "ci")
    csrf = person.get("/console/keys").form("/keys/create")["csrf"]
    person.post("/console/keys/archive", {"csrf": csrf, "id": record.id, "key": api.key})
    assert other.get("/console/").url.endswith("/console/login")


def test_usage_health_and_download(person: Person, store: MemoryStore, at: str) -> None:
    assert "Largest memories" in person.get(f"{at}/stats").text
    assert "The storage can be read" in person.get("/console/health").text
    version = store.versions("/memories/b.txt")[0]
    file = person.http.get(f"{at}/v/{version.id}/download")
    assert file.text == "plain\n"
    assert file.headers["content-type"] == "text/plain; charset=utf-8"
    assert file.headers["content-disposition"].startswith("attachment")
    assert file.headers["content-security-policy"].startswith("sandbox")


def test_activity_groups_and_filters(person: Person, at: str) -> None:
    page = person.get(f"{at}/activity")
    assert page.text.index("user:ann") < page.text.index("session:s2") < page.text.index("session:s1")
    filtered = person.get(f"{at}/activity?actor=session:*&path=notes/&operation=modified").text
    assert "session:s2" in filtered
    assert "user:ann through" not in filtered


def test_long_texts_are_shown_in_parts(person: Person, store: MemoryStore, at: str) -> None:
    store.create("/memories/long.txt", "".join(f"row {n}\n" for n in range(1, 5_001)))
    page = person.get(f"{at}/m/long.txt")
    assert "Lines 1 to 2,000 of 5,000" in page.text
    assert "row 2001" not in page.text
    following = next(each for each in page.links if "from=2001" in each)
    assert "row 4000" in person.get(following).text


@pytest.mark.parametrize(
    "path",
    ["/m/unknown.md", "/tree/unknown", "/v/memver_1", "/id/x", "/change/r999", "/diff/a..b", "/review/prop_1",
     "/nothing", "/erase?id=mem_x", "/redact?version=1", "/undo?change=r999", "/v/memver_1/download",
     "/undo?actor=user:nobody"],
)  # fmt: skip
def test_what_does_not_exist_is_a_page_too(person: Person, at: str, path: str) -> None:
    page = person.get(at + path)
    assert (page.status, page.headers["content-type"]) == (404, "text/html; charset=utf-8")


@pytest.mark.parametrize(
    "path", ["/undo?change=yesterday", "/undo?actor=user:ann&since=yesterday-ish",
             "/m//a", "/m/..%2fa", "/m/%2e%2e/a", "/undo", "/activity?since=never", "/activity?actor=x",
             "/tree/?at=never", "/m/b.txt?view=raw&from=0", "/undo?change=r1&mode=x", "/audit?verify=1&expect=x"]
)  # fmt: skip
def test_a_malformed_address_is_refused(person: Person, at: str, path: str) -> None:
    assert person.get(at + path).status in {400, 404}


def test_a_page_of_an_actor_looks_at_some_versions_and_offers_the_older_ones(
    person: Person, store: MemoryStore, at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        store.create(f"/memories/{number}", f"text {number}\n", actor="session:x" if number == 0 else "user:ann")
    monkeypatch.setattr(history, "LOOKED_AT", 3)
    first = person.get(f"{at}/by/session:x")
    assert "Nothing was changed in the versions that were looked at" in first.text
    older = next(link for link in first.links if link.startswith("?until="))
    second = person.get(f"{at}/by/session:x{older}")
    assert "text 0" in second.text
    assert "Look at changes until" in second.text
    assert person.get(f"{at}/by/session:x?until=x").status == 404
    monkeypatch.setattr(history, "FILES", 1)
    assert "Showing 1 of 3 memories" in person.get(f"{at}/by/user:ann").text
