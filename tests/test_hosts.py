from __future__ import annotations

import pytest

from cortex_replay.hosts import host_of, normal_host


@pytest.mark.parametrize(
    ("spelled", "host"),
    [
        ("API.OpenAI.com.", "api.openai.com"),
        (b"api.openai.com", "api.openai.com"),
        ("api\u3002openai\uff0ecom", "api.openai.com"),
        ("ａｐｉ.openai.com", "api.openai.com"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("127.1", "127.0.0.1"),
        ("0x7f000001", "127.0.0.1"),
        ("2130706433", "127.0.0.1"),
        ("[::1]", "::1"),
        ("0:0:0:0:0:0:0:1", "::1"),
        ("::ffff:127.0.0.1", "127.0.0.1"),
        ("fe80::1%eth0", "fe80::1"),
        ("", ""),
    ],
)
def test_a_host_has_one_form(spelled: str | bytes, host: str) -> None:
    assert normal_host(spelled) == host
    assert normal_host(host) == host


@pytest.mark.parametrize(
    ("authority", "host"),
    [
        ("api.openai.com:443", "api.openai.com"),
        ("user:pass@API.openai.com", "api.openai.com"),
        ("a@b@api.openai.com:1", "api.openai.com"),
        ("[::1]:8080", "::1"),
        ("127.1:80", "127.0.0.1"),
    ],
)
def test_the_host_of_an_authority(authority: str, host: str) -> None:
    assert host_of(authority) == host
