"""What is no secret stays: texts, lists and variables of ordinary projects."""

from __future__ import annotations

from typing import Any

import pytest

from cortex_replay.config import Settings, known_secrets
from cortex_replay.redact.redactor import Redactor

CLEAN: dict[str, Any] = {
    "the betas of a provider": {"text": '["token-efficient-tools-2025-02-19", "output-128k-2025-02-19"]'},
    "a server and a person": {"input": ["see http://localhost:8080", "bob@corp.io"]},
    "servers and persons": {"x": [{"u": "https://api.corp.io:8443"}, {"u": "ops@corp.io"}]},
    "a table": {"text": "name,url,mail\napi,https://api.corp.io:8443,ops@corp.io\n"},
    "a line of a table": {"text": "https://api.corp.io:8443;ops.team@corp.io"},
    "links": {"text": "[x](https://api.corp.io:8443)mailto:ops@corp.io"},
    "a key of a cache": {"text": "restored cache-key-d41d8cd98f00b204e9800998ecf8427e"},
    "a schema": {
        "properties": {"password": {"type": "string"}, "token": {"enum": ["auth_token", "api_key"]}}
    },
}


@pytest.mark.parametrize("document", CLEAN.values(), ids=CLEAN)
def test_a_text_without_a_secret_keeps_its_bytes(document: Any) -> None:
    assert Redactor().document(document) == (document, [])
    assert Redactor().found_in(document) == []


PASSWORDS = {
    "in one text": ["postgres://app:8443-xKq91zz@db.corp.io/app"],
    "over pieces": ["postgres://app:84", "43xKq91zz@db.corp.io/app"],
    "digits first": ["redis://cache.corp.io:5432", "xKq91zz@db.corp.io/0"],
    "letters after a port": ["https://bob:8080,xkqzvwjq@git.corp.io/x"],
    "of a server": ["https://bob:80,kX9!pQ@git.corp.io/x"],
    "a call": ['setenv("OPENAI_API_KEY", "' + "q8Zk3Lm0" + 'Xw7Rt5Vb2Nc9")'],
    "a call of another name": ['header("x-auth-token", "' + "q8Zk3Lm0" + 'Xw7Rt5Vb2Nc9")'],
}


@pytest.mark.parametrize("pieces", PASSWORDS.values(), ids=PASSWORDS)
def test_what_looks_like_it_and_is_a_secret_goes(pieces: list[str]) -> None:
    assert "REDACTED" in "".join(Redactor().pieces(pieces)[0])
    assert Redactor().found_in({"events": [{"delta": piece} for piece in pieces]})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("WEBHOOK_URL", "http://localhost:3000/webhooks"),
        ("WEBHOOK_URL", "https://app.corp.io/api/v1/webhooks/github"),
        ("CI_COMMIT_MESSAGE", "fix token: refresh_when_expired() and api_key: normalise_headers"),
        ("CI_COMMIT_MESSAGE", "auth: password=validate_min_length(12)"),
        ("TOKEN_SERVICE_PORT_8080_TCP_ADDR", "10.96.12.34"),
        ("SESSION_COOKIE_SAMESITE", "Lax-strict-1"),
        ("SALT_MASTER", "salt-master-01.corp.internal"),
        ("REDIS_STREAM_KEY", "events-stream"),
        ("S3_KEY", "uploads/2024/report.pdf"),
        ("ISSUE_KEY", "PROJ-12345"),
        ("I18N_KEY", "messages.en"),
        ("KEYS", "alpha,beta,gamma_delta"),
    ],
)
def test_a_variable_of_an_ordinary_project_holds_no_secret(name: str, value: str) -> None:
    assert known_secrets(Settings(), {name: value}) == []


@pytest.mark.parametrize(
    ("name", "value", "secret"),
    [
        ("SLACK_WEBHOOK_URL", "https://hooks.corp.io/services/T0ABCDE12/x9Kq2Lm4", "x9Kq2Lm4"),
        ("DSN", "Server=db;User=app;Password=Winter2024;", "Winter2024"),
        ("APP_CONFIG", "db:\n  password: Winter2024\n", "Winter2024"),
        ("S3_KEY", "x9Kq2Lm4Tz", "x9Kq2Lm4Tz"),
        ("LICENSE_KEY", "qzxkvjwpqzxk", "qzxkvjwpqzxk"),
        ("DB_PASSWORD", "acme_customer_service", "acme_customer_service"),
        ("DB_PASS", "acme_customer_service", "acme_customer_service"),
    ],
)
def test_a_variable_that_holds_one_still_does(name: str, value: str, secret: str) -> None:
    assert any(secret in known for known in known_secrets(Settings(), {name: value}))
