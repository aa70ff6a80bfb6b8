"""Ceph: its gateways (RGW) serve real S3."""

from __future__ import annotations

import uuid

from .base import HOST, Cluster, Process, missing, program, run
from .web import Answer, answers, must, request, s3_headers

OSDS, GATEWAYS = 3, 2
_CAPABILITIES = [word for part in ("mon", "osd", "mgr") for word in ("--cap", part, "allow *")]
_SETTINGS = """
[global]
fsid = {fsid}
mon host = v2:{host}:{port}/0
public addr = {host}
cluster addr = {host}
auth cluster required = cephx
auth service required = cephx
auth client required = cephx
keyring = {directory}/keyring
run dir = {directory}
admin socket =
log to file = false
log to stderr = true
err to stderr = true
mon data = {directory}/mon
osd data = {directory}/osd$id
rgw data = {directory}/rgw
osd objectstore = memstore
osd pool default size = 3
osd pool default min size = 2
osd pool default pg num = 4
osd pool default pgp num = 4
osd pool default pg autoscale mode = off
osd crush chooseleaf type = 0
osd heartbeat interval = 1
osd heartbeat grace = 5
mon osd min down reporters = 1
mon max pg per osd = 1000
mon data avail warn = 1
mon data avail crit = 1
"""
_GATEWAY = "[client.rgw{gateway}]\nrgw frontends = beast endpoint={host}:{port} tcp_nodelay=1\n"


class CephCluster(Cluster):
    """The parts mon, osd0 to osd2, gateway0 and gateway1. Each OSD has a copy of every object, in memory.

    If an OSD is killed, the others take over after about 5 seconds, and requests wait until then.
    """

    name = "ceph"
    access_key = "testing"
    secret_key = "testing-secret"

    @classmethod
    def available(cls) -> str | None:
        programs = ("ceph-mon", "ceph-osd", "radosgw", "radosgw-admin", "ceph", "ceph-authtool", "monmaptool")
        return missing("ceph (radosgw ceph-mon ceph-osd ceph-common)", *programs)

    def launch(self) -> None:
        self.ports = [self.free_port() for _ in range(GATEWAYS)]
        fsid, port = str(uuid.uuid4()), self.free_port()
        keyring, monmap = str(self.directory / "keyring"), str(self.directory / "monmap")
        text = _SETTINGS.format(host=HOST, port=port, directory=self.directory, fsid=fsid)
        text += "".join(_GATEWAY.format(gateway=each, host=HOST, port=self.ports[each]) for each in range(GATEWAYS))
        (self.directory / "ceph.conf").write_text(text)
        for part in ("mon", "rgw", *(f"osd{osd}" for osd in range(OSDS))):
            (self.directory / part).mkdir()
        names = ["client.admin", *(f"osd.{osd}" for osd in range(OSDS)), *(f"client.rgw{n}" for n in range(GATEWAYS))]
        run([program("ceph-authtool"), "-C", "-g", "-n", "mon.", "--cap", "mon", "allow *", keyring])
        for name in names:
            run([program("ceph-authtool"), "-g", "-n", name, *_CAPABILITIES, keyring])
        run([program("monmaptool"), "--create", "--fsid", fsid, "--addv", "a", f"[v2:{HOST}:{port}]", monmap])
        self._tool("ceph-mon", "--mkfs", "-i", "a", "--monmap", monmap, "--keyring", keyring)
        monitor = self._run("mon", "ceph-mon", "-i", "a")
        monitor.wait_until(lambda: "HEALTH" in self._tool("ceph", "--connect-timeout", "20", "health"))
        for osd in range(OSDS):
            own_id = str(uuid.uuid4())
            self._tool("ceph", "osd", "new", own_id, str(osd))
            self._tool("ceph-osd", "-i", str(osd), "--mkfs", "--osd-uuid", own_id)
            self._run(f"osd{osd}", "ceph-osd", "-i", str(osd))
        monitor.wait_until(lambda: f"{OSDS} up" in self._tool("ceph", "osd", "stat"))
        keys = [f"--access-key={self.access_key}", f"--secret={self.secret_key}"]
        self._tool("radosgw-admin", "user", "create", "--uid=t", "--display-name=t", *keys)
        for gateway in range(GATEWAYS):
            self.restart_gateway(gateway)

    def new_bucket(self, name: str) -> str:
        """Create a bucket if it does not exist, and return its name."""
        must(self.put(f"/{name}"), 200)
        return name

    def put(self, path: str, body: bytes = b"", *, gateway: int = 0) -> Answer:
        """Send a signed PUT request to a gateway and return the answer. `path` begins with the bucket."""
        signed = s3_headers("PUT", path, access_key=self.access_key, secret_key=self.secret_key)
        return request(self.ports[gateway], "PUT", path, body=body, headers=signed)

    def restart_gateway(self, gateway: int) -> None:
        """Start a gateway, and return when it answers."""
        process = self._run(f"gateway{gateway}", "radosgw", "-n", f"client.rgw{gateway}")
        process.wait_until(lambda: answers(self.ports[gateway]))

    def _run(self, part: str, name: str, *arguments: str) -> Process:
        return self.run_part(part, [program(name), "--conf", str(self.directory / "ceph.conf"), "-f", *arguments])

    def _tool(self, name: str, *arguments: str) -> str:
        return run([program(name), "--conf", str(self.directory / "ceph.conf"), *arguments])
