"""Amazon's signature, by the cases that Amazon publishes and by what its own client sends."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from cortex_replay.adapters.http import AwsCredentials, AwsSigner
from cortex_replay.adapters.secret import ApiKey

SECRET = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
CREDENTIALS = AwsCredentials("AKIDEXAMPLE", ApiKey(SECRET))


@pytest.mark.parametrize(
    ("method", "target", "signature"),
    [
        ("GET", "/", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
        ("POST", "/", "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"),
        (
            "GET",
            "/?Param2=value2&Param1=value1",
            "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
        ),
    ],
    ids=["get-vanilla", "post-vanilla", "get-vanilla-query-order-key-case"],
)
def test_a_published_case_is_signed_as_published(method: str, target: str, signature: str) -> None:
    signer = AwsSigner(CREDENTIALS, "us-east-1", "service", lambda: datetime(2015, 8, 30, 12, 36, tzinfo=UTC))

    assert signer.sign(method, "example.amazonaws.com", target, b"") == {
        "x-amz-date": "20150830T123600Z",
        "authorization": "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, "
        f"SignedHeaders=host;x-amz-date, Signature={signature}",
    }


def test_a_call_is_signed_as_boto3_signs_it() -> None:
    """Captured from boto3 1.44.0: with a token of a session, a body, and an escape in the path."""
    credentials = CREDENTIALS._replace(session_token=ApiKey("tok"))
    signer = AwsSigner(credentials, "eu-west-1", now=lambda: datetime(2026, 11, 16, 0, 26, 4, tzinfo=UTC))
    body = (
        b'{"anthropic_version": "bedrock-2023-05-31", "max_tokens": 64, "system": "Be brief.", '
        b'"messages": [{"role": "user", "content": "Say hello."}]}'
    )
    path = "/model/us.anthropic.claude-sonnet-4-5-20250929-v1%3A0/invoke"

    signed = signer.sign("POST", "127.0.0.1:8711", path, body)

    assert signed["x-amz-security-token"] == "tok"
    assert signed["authorization"].endswith(
        "SignedHeaders=host;x-amz-date;x-amz-security-token, "
        "Signature=3ffa729d942261b7bd99ee797d45f335119b69c15399b6158e11d7d6a868e82d"
    )


def test_what_it_signs_with_is_not_shown() -> None:
    assert SECRET not in repr(CREDENTIALS)
