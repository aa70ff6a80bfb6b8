"""The gateway beside a plain reverse proxy: time to the first byte of a stream, and memory for 100 open streams.

Each is a process with uvicorn and httpx2, before an API that answers at once: `python benchmarks/gateway.py`
"""

from __future__ import annotations

import asyncio
import multiprocessing
import random
import socket
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

import retentive
from retentive.server.calls import ServedLocation
from retentive.server.options import ServeOptions
from retentive.server.serve import serve

COUNT, STREAMS = 300, 100
START = '{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","content":[]}}'
EVENTS = [f"event: message_start\ndata: {START}\n\n", *(['event: ping\ndata: {"type":"ping"}\n\n'] * 50)]
BODY: Any = {"model": "m", "max_tokens": 9, "stream": True, "tools": [{"type": "memory_20250818", "name": "memory"}]}
LIMITS = httpx2.Limits(max_connections=None)


def _serve(port: int, upstream: int | None) -> None:
    """Serve the API, or the proxy before it."""
    client = httpx2.AsyncClient(base_url=f"http://127.0.0.1:{upstream or port}", timeout=600, limits=LIMITS)

    async def answer(request: Request) -> StreamingResponse:
        body = await request.body()
        if upstream is not None:
            response = await client.send(client.build_request("POST", "/v1/messages", content=body), stream=True)
            return StreamingResponse(response.aiter_raw(), response.status_code, dict(response.headers))

        async def events() -> Any:
            for event in EVENTS:
                yield event
            await asyncio.sleep(60 if b'"hold"' in body else 0)

        return StreamingResponse(events(), media_type="text/event-stream")

    app = Starlette(routes=[Route("/v1/messages", answer, methods=["POST"])])
    uvicorn.run(app, port=port, log_level="error", access_log=False, timeout_keep_alive=75)


async def _first_byte(client: httpx2.AsyncClient, url: str, key: str, text: str, **more: int) -> tuple[float, Any]:
    """Return the milliseconds until the first byte, and the rest of the stream."""
    body = {**BODY, **more, "messages": [{"role": "user", "content": text}]}
    started, headers = time.perf_counter(), {"x-retentive-key": key, "x-api-key": "k"}
    response = await client.send(client.build_request("POST", url, json=body, headers=headers), stream=True)
    pieces = response.aiter_raw()
    await anext(pieces)
    return (time.perf_counter() - started) * 1_000, pieces


async def _main() -> None:
    ports = [random.randrange(20_000, 30_000) + number for number in range(3)]
    at = f"sqlite:///{tempfile.mkdtemp()}/memory.db"
    with retentive.open(at) as opened:
        opened.store("team")
        key = ServedLocation(opened).keys.create("app", scopes=("gateway",)).text
    upstream = f"http://127.0.0.1:{ports[0]}"
    options = ServeOptions(at, port=ports[2], gateway=True, gateway_upstream=upstream, request_log=False)
    jobs = partial(_serve, ports[0], None), partial(_serve, ports[1], ports[0]), partial(serve, options, on_start=print)
    processes = [multiprocessing.get_context("spawn").Process(target=job, daemon=True) for job in jobs]
    for process, port in zip(processes, ports, strict=True):
        process.start()
        while socket.socket().connect_ex(("127.0.0.1", port)):
            time.sleep(0.1)
    urls = (f"http://127.0.0.1:{ports[1]}/v1/messages", f"http://127.0.0.1:{ports[2]}/gateway/team/v1/messages")
    times: dict[str, list[float]] = {url: [] for url in urls}
    async with httpx2.AsyncClient(timeout=60, limits=LIMITS) as client:
        for number in range(2 * COUNT):  # in turns; the first half warms up
            for url in urls:
                ms, pieces = await _first_byte(client, url, key, f"{number} " + "word " * 2_000)
                times[url] += [ms] if number >= COUNT else []
                _ = [piece async for piece in pieces]
        for name, url, process in zip(("proxy", "gateway"), urls, processes[1:], strict=True):
            found, statm = sorted(times[url]), Path(f"/proc/{process.pid}/statm")
            before = int(statm.read_text().split()[1])
            held = [await _first_byte(client, url, key, f"held {number}", hold=1) for number in range(STREAMS)]
            mb = (int(statm.read_text().split()[1]) - before) / 256  # pages of 4 KB
            p50, p99 = found[COUNT // 2], found[COUNT * 99 // 100]
            print(f"{name}: first byte p50 {p50:.2f} ms, p99 {p99:.2f} ms; {len(held)} open streams {mb:.1f} MB")


if __name__ == "__main__":
    asyncio.run(_main())
