"""Checks the installed packages for known vulnerabilities with pip-audit: `make check NAME=audit`.

Without network, or with an index that has no advisories, it prints that nothing was checked and succeeds. A
vulnerability or another failure is an error.
"""

from __future__ import annotations

import json
import subprocess
import sys

UNREACHABLE = (
    "ConnectionError", "NameResolutionError", "Max retries exceeded", "ConnectTimeout", "ServiceError",
    "ReadTimeout", "ChunkedEncodingError", "requests.exceptions.JSONDecodeError",
)  # fmt: skip
"""Words that pip-audit prints if the service with the advisories cannot be reached, or gives no usable answer."""


def verdict(status: int, output: str, errors: str) -> tuple[int, str]:
    """Status of this program, and its text, for a run of pip-audit. Only a missing service is forgiven."""
    try:
        packages = json.loads(output)["dependencies"]
    except (ValueError, KeyError):
        if any(word in errors for word in UNREACHABLE):
            return 0, "pip-audit was NOT run: the service with the advisories cannot be reached or does not answer"
        return status or 1, errors
    checked = [each for each in packages if "skip_reason" not in each]
    found = [f"{each['name']} {each['version']}: {one['id']}" for each in checked for one in each["vulns"]]
    if not checked:
        return 0, f"pip-audit was NOT run: the index has no advisories about {len(packages)} packages"
    total = f"{len(checked)} of {len(packages)} packages were checked, {len(found)} vulnerabilities"
    return bool(found), "\n".join([*found, total])


def main() -> int:
    """Run pip-audit on the packages of this environment."""
    command = [sys.executable, "-m", "pip_audit", "--local", "--format", "json", "--timeout", "10"]
    done = subprocess.run(  # noqa: S603 - its own interpreter and constants
        [*command, "--progress-spinner", "off", "--skip-editable"], capture_output=True, text=True, check=False
    )
    status, text = verdict(done.returncode, done.stdout, done.stderr)
    print(text)
    return status


if __name__ == "__main__":
    sys.exit(main())
