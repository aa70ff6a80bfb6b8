"""Ceph: its gateway (RGW) serves real S3, with one OSD or three."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from .base import HOST, Server, missing, program
from .process import Process, poll, run
from .web import Answer, answers, must, request, s3_headers

_PROGRAMS = ["ceph-mon", "ceph-osd", "radosgw", "radosgw-admin", "ceph", "ceph-authtool", "monmaptool"]
_CAPABILITIES = [word for part in ("mon", "osd", "mgr") for word in ("--cap", part, "allow *")]
_QUIET_S = 5.0
_GLOBAL = """
[global]
fsid = {fsid}
mon host = v2:{host}:{mon_port}/0
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
memstore device bytes = 1073741824
osd pool default size = {osds}
osd pool default min size = {min_size}
osd pool default pg num = 4
osd pool default pgp num = 4
osd pool default pg autoscale mode = off
osd crush chooseleaf type = 0
osd heartbeat interval = 1
osd heartbeat grace = 5
mon osd min down reporters = 1
mon allow pool size one = true
mon max pg per osd = 1000
mon data avail warn = 1
mon data avail crit = 1
"""
_GATEWAY = """
[client.rgw{gateway}]
rgw frontends = beast endpoint={host}:{port} tcp_nodelay=1
"""


class CephServer(Server):
    """One OSD and one gateway. All data is in memory."""

    name = "ceph"
    osds: ClassVar[int] = 1
    gateways: ClassVar[int] = 1
    access_key = "testing"
    secret_key = "testing-secret"
    region = "default"

    def __init__(self) -> None:
        super().__init__()
        self._parts: dict[str, Process] = {}

    @classmethod
    def available(cls) -> str | None:
        return missing("ceph (radosgw ceph-mon ceph-osd ceph-common)", *_PROGRAMS)

    def launch(self) -> None:
        self._parts.clear()
        self.ports = [self.free_port() for _ in range(self.gateways)]
        self._configure()
        monitor = self._run("ceph-mon", "-i", "a", part="mon")
        monitor.wait_until(lambda: "HEALTH" in self._tool("ceph", "--connect-timeout", "20", "health"))
        for osd in range(self.osds):
            self._format_osd(osd)
            self._run_osd(osd)
        self._wait_for_osds()
        keys = [f"--access-key={self.access_key}", f"--secret={self.secret_key}"]
        self._tool("radosgw-admin", "user", "create", "--uid=t", "--display-name=t", *keys)
        for gateway in range(self.gateways):
            self._run_gateway(gateway)
        for gateway in range(self.gateways):
            self._wait_for_gateway(gateway)

    @property
    def endpoints(self) -> list[str]:
        """The endpoint of each gateway."""
        return [f"http://{HOST}:{port}" for port in self.ports]

    @property
    def endpoint(self) -> str:
        """The endpoint of the first gateway."""
        return self.endpoints[0]

    def new_bucket(self, name: str) -> str:
        """Create a bucket if it does not exist, and return its name."""
        must(self.request("PUT", f"/{name}"), 200)
        return name

    def request(
        self,
        method: str,
        path: str,
        *,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        gateway: int = 0,
    ) -> Answer:
        """Send a signed request to a gateway and return the answer. `path` begins with the bucket."""
        signed = s3_headers(method, path, headers, access_key=self.access_key, secret_key=self.secret_key)
        return request(self.ports[gateway], method, path, body=body, headers=signed)

    def kill_osd(self, osd: int) -> None:
        """Kill an OSD with SIGKILL. The other OSDs take over after about 5 seconds, and requests wait until then."""
        self._kill(f"osd{osd}")

    def restart_osd(self, osd: int) -> None:
        """Start a killed OSD, and return when the other OSDs have filled it again.

        It starts empty, since its data was in memory.
        """
        self._format_osd(osd)
        self._run_osd(osd)
        self._wait_for_osds()
        self._wait_for_copies()

    def kill_gateway(self, gateway: int) -> None:
        """Kill a gateway with SIGKILL."""
        self._kill(f"gateway{gateway}")

    def restart_gateway(self, gateway: int) -> None:
        """Start a killed gateway, and return when it answers."""
        self._run_gateway(gateway)
        self._wait_for_gateway(gateway)

    def _configure(self) -> None:
        self._fsid = str(uuid.uuid4())
        mon_port = self.free_port()
        self._osd_ids = [str(uuid.uuid4()) for _ in range(self.osds)]
        values = {"host": HOST, "directory": self.directory, "fsid": self._fsid, "mon_port": mon_port}
        text = _GLOBAL.format(**values, osds=self.osds, min_size=(self.osds + 1) // 2)
        for gateway, port in enumerate(self.ports):
            text += _GATEWAY.format(gateway=gateway, host=HOST, port=port)
        self._file("ceph.conf").write_text(text)
        for directory in ("mon", "rgw"):
            self._file(directory).mkdir()
        keyring = str(self._file("keyring"))
        run([program("ceph-authtool"), "-C", "-g", "-n", "mon.", "--cap", "mon", "allow *", keyring])
        names = ["client.admin", *[f"osd.{osd}" for osd in range(self.osds)]]
        names += [f"client.rgw{gateway}" for gateway in range(self.gateways)]
        for name in names:
            run([program("ceph-authtool"), "-g", "-n", name, *_CAPABILITIES, keyring])
        monmap = str(self._file("monmap"))
        address = ["--addv", "a", f"[v2:{HOST}:{mon_port}]"]
        run([program("monmaptool"), "--create", "--fsid", self._fsid, *address, monmap])
        self._tool("ceph-mon", "--mkfs", "-i", "a", "--monmap", monmap, "--keyring", keyring)

    def _format_osd(self, osd: int) -> None:
        place = self._file(f"osd{osd}")
        if place.exists():
            for file in place.iterdir():
                file.unlink()
        else:
            place.mkdir()
            self._tool("ceph", "osd", "new", self._osd_ids[osd], str(osd))
        self._tool("ceph-osd", "-i", str(osd), "--mkfs", "--osd-uuid", self._osd_ids[osd])

    def _run_osd(self, osd: int) -> None:
        self._run("ceph-osd", "-i", str(osd), part=f"osd{osd}")

    def _run_gateway(self, gateway: int) -> None:
        self._run("radosgw", "-n", f"client.rgw{gateway}", part=f"gateway{gateway}")

    def _wait_for_osds(self) -> None:
        wanted = f"{self.osds} up"
        last = self._parts[f"osd{self.osds - 1}"]
        last.wait_until(lambda: wanted in self._tool("ceph", "osd", "stat"))

    def _wait_for_gateway(self, gateway: int) -> None:
        def serves() -> bool:
            return answers(self.ports[gateway])

        self._parts[f"gateway{gateway}"].wait_until(serves)

    def _wait_for_copies(self) -> None:
        """Wait until every object has `osds` copies.

        There is no Ceph manager to ask. While an OSD is being filled, other OSDs serve its objects ("pg_temp"). That
        starts a moment after the OSD is up, so wait until the list of these placement groups stays empty for a while.
        """
        quiet_since = time.monotonic()

        def filled() -> bool:
            nonlocal quiet_since
            if self._map()["pg_temp"]:
                quiet_since = time.monotonic()
            return time.monotonic() - quiet_since > _QUIET_S

        poll(filled, "no storage stands in for another")

    def _map(self) -> dict[str, Any]:
        return dict(json.loads(self._tool("ceph", "osd", "dump", "-f", "json")))

    def _kill(self, part: str) -> None:
        process = self._parts.pop(part)
        self.processes.remove(process)
        process.kill()

    def _run(self, name: str, *arguments: str, part: str) -> Process:
        command = [program(name), "--conf", str(self._file("ceph.conf")), "-f", *arguments]
        process = Process(command, log=self._file(f"{part}.log"), directory=self.directory)
        self._parts[part] = process
        self.processes.append(process)
        return process

    def _tool(self, name: str, *arguments: str) -> str:
        return run([program(name), "--conf", str(self._file("ceph.conf")), *arguments])

    def _file(self, name: str) -> Path:
        return self.directory / name


class CephCluster(CephServer):
    """Three OSDs that each have a copy of every object, and two gateways."""

    name = "ceph-cluster"
    osds = 3
    gateways = 2
