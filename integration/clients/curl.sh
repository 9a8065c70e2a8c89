#!/bin/sh
# Chat completions by curl, a line of JSON for each step.
set -eu

base=https://api.openai.com
[ "${CLIENT_ROAD:-}" != gateway ] || base=$CORTEX_REPLAY_GATEWAY/openai

ask() { # TEXT MORE
    curl --silent --show-error --fail-with-body --max-time 60 "$base/v1/chat/completions" \
        --header 'content-type: application/json' --header "authorization: Bearer ${OPENAI_API_KEY:-}" \
        --data "{\"model\": \"$CLIENT_MODEL\", \"max_tokens\": 16, \"messages\": [{\"role\": \"user\", \"content\": \"$1\"}]$2}"
}

tell() { # STEP FIELD TEXT MORE
    answer=$(ask "$3" "$4") || { printf '%s\n' "$answer"; exit 1; }
    printf '%s' "$answer" | STEP=$1 FIELD=$2 python3 -c '
import json, os, sys
print(json.dumps({"step": os.environ["STEP"], os.environ["FIELD"]: sys.stdin.read().splitlines()}))'
}

function='{"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}'
schema='{"type": "object", "properties": {"answer": {"type": "integer"}}, "required": ["answer"]}'
round=0
while [ "$round" -lt "${CLIENT_ROUNDS:-1}" ]; do
    tell curl.plain text Hello ""
    tell curl.stream pieces "Stream #unicode" ', "stream": true'
    tell curl.tool calls "#tool in Paris?" ", \"tools\": [{\"type\": \"function\", \"function\": $function}]"
    tell curl.structured parsed "#json" ", \"response_format\": {\"type\": \"json_schema\", \"json_schema\": {\"name\": \"answer\", \"schema\": $schema}}"
    round=$((round + 1))
done
