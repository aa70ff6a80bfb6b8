"""The page of groups, and the rights of their members in the console."""

from __future__ import annotations

from support.console import Person
from support.http_api import Api

GROUPS = "/v1/organizations/groups"


def test_groups_are_made_changed_and_deleted(alone: Api) -> None:
    alone.place.opened.store("team a").create("/memories/notes/a.md", "one\n")
    person = Person(alone)
    fields = {"name": "docs", "members": "user:ann group:staff", "role": "write", "stores": "tema*", "paths": ""}
    person.submit("/console/people", "/people/create", **fields)
    (made,) = alone.get(GROUPS).body["data"]
    shown = person.get(f"/console/people/{made['id']}")
    assert "no memory store matches 'tema*' yet; did you mean 'team*'?" in shown.text
    assert made["members"] == ["user:ann", "group:staff"]
    key = person.submit("/console/keys", "/keys/create", name="k", stores="team-b", key=alone.key)
    assert "no memory store matches 'team-b' yet; did you mean 'team a'?" in key.text
    page, change = f"/console/people/{made['id']}", f"/people/{made['id']}/change"

    def changed(**given: str) -> dict[str, object]:
        person.post(f"{page}/change", {**person.get(page).form(change), "role": "read", **given})
        found: dict[str, object] = alone.get(f"{GROUPS}/{made['id']}").body
        return found

    assert changed(action="remove_grants", role="write", stores="tema*\n", paths="\n")["grants"] == []
    grants = [{"role": "read", "stores": ["team a"], "paths": ["/memories/notes"]}]
    assert changed(action="add_grants", stores="team a\n", paths="/memories/notes")["grants"] == grants
    assert changed(action="remove_members", member="user:ann")["members"] == ["group:staff"]
    assert changed(action="add_members", member="user:bob")["members"] == ["group:staff", "user:bob"]
    assert changed(action="add_members", member="group:<b>readers")["members"] == [
        "group:staff",
        "user:bob",
        "group:<b>readers",
    ]
    assert (
        "matches everybody"
        in person.post(
            f"{page}/change", {**person.get(page).form(change), "action": "add_members", "member": "user:*"}
        ).text
    )
    listed = person.get("/console/people")
    assert ("<b>readers" in listed.body, "/memories/notes" in listed.text) == (False, True)
    changed(action="delete")
    assert alone.get(GROUPS).body["data"] == []
    operations = {(each.operation, each.integration) for each in alone.place.opened.records.entries().items}
    assert {("group_created", "console"), ("group_changed", "console"), ("group_deleted", "console")} <= operations


def test_a_key_of_an_admin_of_some_stores_sees_no_sign_ins_of_its_principal(alone: Api) -> None:
    """Such an admin may name any principal."""
    limited, own = alone.with_key("admin", stores=("team-*",)), alone.with_key("read", principal="user:ann")
    body = {"name": "k", "stores": ["team-*"], "principal": {"type": "user_actor", "user_id": "ann"}}
    forged = Api(alone.url, limited.post("/v1/organizations/api_keys", body).body["api_key"], alone.place)
    people = Person(own), Person(own), Person(forged)
    seen = [person.get("/console/sessions").body.count('action="/console/sessions/end"') for person in people]
    assert seen == [3, 3, 1]


def test_findings_are_shown_of_the_stores_where_the_role_allows_it(alone: Api) -> None:
    for key in ("mine", "team"):
        alone.place.opened.store(key, name=f"of {key}").create("/memories/k.md", "key AKIAIOSFODNN7EXAMPLQ\n")
        Person(alone).get(f"/console/s/{key}/sensitive?scan=1")
    grants = [{"role": "admin", "stores": ["mine"]}, {"role": "read", "stores": ["team"]}]
    alone.post(GROUPS, {"name": "some", "members": ["user:ann"], "grants": grants})
    text = Person(alone.with_key(principal="user:ann")).get("/console/").text
    assert ("of team" in text, "1 of 2 stores scanned" in text) == (True, True)


def test_a_member_sees_what_its_groups_allow(alone: Api) -> None:
    """Pages and tabs of one store need a role there; an admin of stores has no page of the workspace."""
    team, other = (alone.place.opened.store(key) for key in ("team-a", "else"))
    for store in (team, other):
        store.create("/memories/notes/a.md", "one\n")
        store.create("/memories/MARKER.md", "MARKER\n")
    grants = [
        {"role": "write", "stores": ["team-*"], "paths": ["/memories/notes"]},
        {"role": "admin", "stores": ["mine-*"]},
    ]
    alone.post(GROUPS, {"name": "docs", "members": ["user:ann"], "grants": grants})
    alone.place.opened.store("mine-1")
    person = Person(alone.with_key(principal="user:ann"))
    listed = person.get("/console/").text
    assert ("team-a" in listed, "mine-1" in listed, "else" in listed.replace("elsewhere", "")) == (True, True, False)
    tree = person.get("/console/s/team-a/tree/").text
    assert ("notes" in tree, "MARKER" in tree) == (True, False)
    absent = person.get("/console/s/unknown/tree/")
    assert (person.get("/console/s/else/tree/").status, absent.status) == (404, 404)
    assert [person.get(f"/console/s/{key}/audit").status for key in ("team-a", "mine-1", "else")] == [403, 200, 404]
    assert [person.get(f"/console/{page}").status for page in ("keys", "people", "health")] == [403, 403, 200]
    assert "team-a" not in person.get("/console/health").text
    limited = Person(alone.with_key("admin", stores=("team-*",)))
    assert [limited.get(f"/console/{page}").status for page in ("keys", "people")] == [200, 403]
