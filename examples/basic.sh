#!/bin/sh
# First request of the memory tool documentation, with curl and a tool loop. `retentive exec` runs the tool calls: it
# reads one tool_use block per line and writes one tool_result block per line.
#
#   ANTHROPIC_API_KEY=... examples/basic.sh [LOCATION]        LOCATION of the memory, default ./memory
#
# Needs curl, python3 and retentive. Run it twice: the second time Claude finds its notes from the first run.
set -eu

url=${ANTHROPIC_BASE_URL:-https://api.anthropic.com}/v1/messages
: "${ANTHROPIC_API_KEY:?must be set}"
at=${1:-./memory}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cat > "$work/request.json" <<'JSON'
{
  "model": "claude-sonnet-5-5",
  "max_tokens": 2048,
  "messages": [
    {
      "role": "user",
      "content": "I'm working on a Python web scraper that keeps crashing with a timeout error. Here's the problematic function:\n\n```python\ndef fetch_page(url, retries=3):\n    for i in range(retries):\n        try:\n            response = requests.get(url, timeout=5)\n            return response.text\n        except requests.exceptions.Timeout:\n            if i == retries - 1:\n                raise\n            time.sleep(1)\n```\n\nPlease help me debug this."
    }
  ],
  "tools": [{"type": "memory_20250818", "name": "memory"}]
}
JSON

while :; do
    curl --silent --show-error --fail-with-body "$url" \
        --header "x-api-key: $ANTHROPIC_API_KEY" \
        --header "anthropic-version: 2023-06-01" \
        --header "content-type: application/json" \
        --data-binary "@$work/request.json" \
        --output "$work/reply.json" || { cat "$work/reply.json" >&2; exit 1; }

    # Print Claude's texts and calls, and save the calls, one per line.
    python3 - "$work" <<'PY'
import json, sys
work = sys.argv[1]
reply = json.load(open(f"{work}/reply.json", encoding="utf-8"))
with open(f"{work}/calls", "w", encoding="utf-8") as calls:
    for block in reply["content"]:
        if block["type"] == "text":
            print(block["text"])
        elif block["type"] == "tool_use":
            print(f"[{block['name']}] {json.dumps(block['input'])}")
            print(json.dumps(block), file=calls)
PY
    [ -s "$work/calls" ] || break

    retentive --at "$at" exec < "$work/calls" > "$work/results"

    # Append the reply and the results to the request.
    python3 - "$work" <<'PY'
import json, sys
work = sys.argv[1]
request, reply = (json.load(open(f"{work}/{name}.json", encoding="utf-8")) for name in ("request", "reply"))
results = [json.loads(line) for line in open(f"{work}/results", encoding="utf-8")]
request["messages"] += [
    {"role": "assistant", "content": reply["content"]},
    {"role": "user", "content": results},
]
json.dump(request, open(f"{work}/request.json", "w", encoding="utf-8"))
PY
done
