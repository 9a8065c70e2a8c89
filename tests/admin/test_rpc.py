"""JSON-RPC 2.0 as its specification says, and what is ours beyond it."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import pytest
from hypothesis import given, strategies as st

from cortex_replay import errors
from cortex_replay.admin import METHOD, AdminError, Code
from cortex_replay.admin.callers import Caller
from cortex_replay.admin.rpc import MAX_BYTES, Method, Params, RpcDispatcher, unknown_caller
from cortex_replay.errors import Finding, InvalidRequest
from tests.admin.conftest import GRANTED, Noting, call, dispatcher_of
from tests.property.strategies import effort, json_values
from tests.waiting import until


async def subtract(params: Params, caller: Caller) -> Any:
    if isinstance(params, dict):
        params = [params["minuend"], params["subtrahend"]]
    assert params is not None
    return params[0] - params[1]  # type: ignore[operator]


async def total(params: Params, caller: Caller) -> Any:
    assert isinstance(params, list)
    return sum(params)


async def get_data(params: Params, caller: Caller) -> Any:
    return ["hello", 5]


async def nothing(params: Params, caller: Caller) -> Any:
    return None


SPECIFICATION: dict[str, Method] = {
    "subtract": subtract,
    "sum": total,
    "get_data": get_data,
    "update": nothing,
    "notify_hello": nothing,
    "notify_sum": nothing,
}


def told(message: object, dispatcher: RpcDispatcher | None = None, caller: Caller = GRANTED) -> Any:
    """The answer to a message, as plain JSON without what is ours in an error's data."""
    data = message if isinstance(message, bytes) else json.dumps(message).encode()
    answer = asyncio.run((dispatcher or RpcDispatcher(SPECIFICATION)).handle(data, caller))
    return None if answer is None else json.loads(answer)


def without_data(answer: Any) -> Any:
    for one in answer if isinstance(answer, list) else [answer]:
        if one is not None and "error" in one:
            one["error"].pop("data", None)
    return answer


def failure(code: int, message: str, id_: Any = None) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "error": {"code": code, "message": message}, "id": id_}


INVALID = failure(-32600, "Invalid Request")
PARSE = failure(-32700, "Parse error")


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        (
            b'{"jsonrpc": "2.0", "method": "subtract", "params": [42, 23], "id": 1}',
            {"jsonrpc": "2.0", "result": 19, "id": 1},
        ),
        (
            b'{"jsonrpc": "2.0", "method": "subtract", "params": [23, 42], "id": 2}',
            {"jsonrpc": "2.0", "result": -19, "id": 2},
        ),
        (
            b'{"jsonrpc":"2.0","method":"subtract","params":{"subtrahend":23,"minuend":42},"id":3}',
            {"jsonrpc": "2.0", "result": 19, "id": 3},
        ),
        (
            b'{"jsonrpc":"2.0","method":"subtract","params":{"minuend":42,"subtrahend":23},"id":4}',
            {"jsonrpc": "2.0", "result": 19, "id": 4},
        ),
        (b'{"jsonrpc": "2.0", "method": "update", "params": [1,2,3,4,5]}', None),
        (b'{"jsonrpc": "2.0", "method": "foobar"}', None),
        (b'{"jsonrpc": "2.0", "method": "foobar", "id": "1"}', failure(-32601, "Method not found", "1")),
        (b'{"jsonrpc": "2.0", "method": "foobar, "params": "bar", "baz]', PARSE),
        (b'{"jsonrpc": "2.0", "method": 1, "params": "bar"}', INVALID),
        (
            (
                b'[{"jsonrpc": "2.0", "method": "sum", "params": [1,2,4], "id": "1"},'
                b'{"jsonrpc": "2.0", "method"]'
            ),
            PARSE,
        ),
        (b"[]", INVALID),
        (b"[1]", [INVALID]),
        (b"[1,2,3]", [INVALID, INVALID, INVALID]),
        (
            (
                b'[{"jsonrpc": "2.0", "method": "sum", "params": [1,2,4], "id": "1"},'
                b'{"jsonrpc": "2.0", "method": "notify_hello", "params": [7]},'
                b'{"jsonrpc": "2.0", "method": "subtract", "params": [42,23], "id": "2"},'
                b'{"foo": "boo"},'
                b'{"jsonrpc": "2.0", "method": "foo.get", "params": {"name": "myself"}, "id": "5"},'
                b'{"jsonrpc": "2.0", "method": "get_data", "id": "9"}]'
            ),
            [
                {"jsonrpc": "2.0", "result": 7, "id": "1"},
                {"jsonrpc": "2.0", "result": 19, "id": "2"},
                INVALID,
                failure(-32601, "Method not found", "5"),
                {"jsonrpc": "2.0", "result": ["hello", 5], "id": "9"},
            ],
        ),
        (
            (
                b'[{"jsonrpc": "2.0", "method": "notify_sum", "params": [1,2,4]},'
                b'{"jsonrpc": "2.0", "method": "notify_hello", "params": [7]}]'
            ),
            None,
        ),
    ],
)
def test_the_examples_of_the_specification(sent: bytes, expected: Any) -> None:
    """Each of them."""
    assert expected == without_data(told(sent))


@pytest.mark.parametrize(
    "written",
    [
        "1",
        "0",
        "-7",
        "1.5",
        "1.0",
        "1e2",
        "-0",
        "123456789012345678901234567890",
        '"a"',
        '""',
        "null",
        '"\\u00e9"',
    ],
)
@pytest.mark.parametrize("is_batch", [False, True])
def test_an_id_comes_back_as_it_went(written: str, is_batch: bool) -> None:
    """To the letter, as far as numbers go."""
    sent = f'{{"jsonrpc":"2.0","method":"get_data","id":{written}}}'
    answer = asyncio.run(
        RpcDispatcher(SPECIFICATION).handle((f"[{sent}]" if is_batch else sent).encode(), GRANTED)
    )

    expected = written.replace("\\u00e9", "é")
    assert answer is not None
    assert f'"id":{expected}}}' in answer.decode()


@pytest.mark.parametrize("id_", [True, False, [], {}, [1]])
def test_an_id_that_cannot_be(id_: Any) -> None:
    """Is not repeated."""
    answer = told({"jsonrpc": "2.0", "method": "get_data", "id": id_})

    assert without_data(answer) == INVALID


@pytest.mark.parametrize(
    "message",
    [
        3,
        "x",
        None,
        {},
        {"method": "get_data", "id": 1},
        {"jsonrpc": 2.0, "method": "get_data", "id": 1},
        {"jsonrpc": "1.0", "method": "get_data", "id": 1},
        {"jsonrpc": "2.0", "id": 1},
        {"jsonrpc": "2.0", "method": None, "id": 1},
        {"jsonrpc": "2.0", "method": "get_data", "params": None, "id": 1},
        {"jsonrpc": "2.0", "method": "get_data", "params": 3, "id": 1},
    ],
)
def test_a_message_that_is_no_call(message: Any) -> None:
    """The id is there where it could be read; the reason is ours."""
    answer = told(message)

    assert answer["error"]["code"] == Code.INVALID_REQUEST
    assert answer["error"]["data"]["reason"]
    assert (answer["id"] == 1) is (isinstance(message, dict) and "id" in message)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff",
        b"\xef\xbb\xbf{}",
        b'{"a":1,"a":2}',
        b"[" * 200 + b"]" * 200,
        b'"\\ud800"',
        b"NaN",
        b"1e999",
        b"{} {}",
    ],
)
def test_what_is_not_json(data: bytes) -> None:
    """As strictly as a fixture is read."""
    assert told(data)["error"]["code"] == Code.PARSE_ERROR


def test_a_message_that_is_too_large() -> None:
    assert told(b" " * (MAX_BYTES + 1))["error"]["data"] == {"reason": f"larger than {MAX_BYTES} bytes"}


def test_a_batch_that_is_too_large() -> None:
    assert told([1] * 1001)["error"]["code"] == Code.INVALID_REQUEST


def rpc(params: Any, **more: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": METHOD, "params": params, "id": 1, **more}


def test_a_completion() -> None:
    """The fields in their order."""
    data = json.dumps(rpc(call())).encode()
    answer = asyncio.run(dispatcher_of().handle(data, GRANTED))

    assert answer == (
        b'{"jsonrpc":"2.0","result":{"content":"Hi.","model":"m-1","usage":'
        b'{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}},"id":1}'
    )


@pytest.mark.parametrize(
    ("params", "field"),
    [
        (["mine", "m-1", []], "params"),
        (call(provider=...), "provider"),
        (call(provider="nobody"), "provider"),
        (call(model="m-3"), "model"),
        (call(messages=[]), "messages"),
        (call(messages=[{"role": "tool", "content": "x"}]), "messages[0].role"),
        (call(messages=[{"role": "System", "content": "x"}]), "messages[0].role"),
        (call(messages=[{"role": "user", "content": "x"}, {"role": "user"}]), "messages[1].content"),
        (call(max_tokens=0), "max_tokens"),
        (call(max_tokens="1"), "max_tokens"),
        (call(temperature=2.1), "temperature"),
        (call(temperature=-0.1), "temperature"),
        (call(temperature=1e39), "temperature"),
        (call(system_prompt=3), "system_prompt"),
    ],
)
def test_parameters_that_cannot_be(params: Any, field: str) -> None:
    """Are named, and nothing is asked."""
    adapter = Noting()
    error = told(rpc(params), dispatcher_of(adapter))["error"]

    assert (error["code"], error["data"]) == (Code.INVALID_PARAMS, {"field": field})
    assert error["message"].startswith(f"Invalid params: {field}: ")
    assert adapter.asked == []


def test_parameters_that_are_missing() -> None:
    message = rpc(None)
    del message["params"]

    assert told(message, dispatcher_of())["error"]["data"] == {"field": "params"}


def test_a_notification_is_carried_out() -> None:
    """And not answered, whatever comes of it."""
    adapter = Noting()
    message = rpc(call())
    del message["id"]

    assert told(message, dispatcher_of(adapter)) is None
    assert len(adapter.asked) == 1
    assert told(message | {"params": {}}, dispatcher_of(adapter)) is None
    assert told(message, dispatcher_of(adapter), Caller("nobody")) is None
    assert len(adapter.asked) == 1


def test_a_batch_is_asked_at_once() -> None:
    """Up to a number, and answered in its order."""
    adapter = Noting(delay_s=0.01)
    answers = told([rpc(call()) | {"id": i} for i in range(40)], dispatcher_of(adapter))

    assert [answer["id"] for answer in answers] == list(range(40))
    assert adapter.most_at_once == 16


SECRET = "the prompt of somebody"


@pytest.mark.parametrize(
    ("error", "code", "data"),
    [
        (
            errors.NoFixture("m-1", "ab"),
            Code.NO_FIXTURE,
            {"model": "m-1", "prompt_hash": "ab", "exhausted": False},
        ),
        (
            errors.Upstream(429, SECRET, "slow_down"),
            Code.UPSTREAM_ERROR,
            {"status": 429, "type": "slow_down"},
        ),
        (errors.Upstream(500, SECRET, SECRET), Code.UPSTREAM_ERROR, {"status": 500}),
        (errors.Transport(SECRET), Code.UPSTREAM_ERROR, {"status": None}),
        (errors.ResponseParse(SECRET), Code.UPSTREAM_ERROR, {"status": None}),
        (errors.Timeout(5000), Code.TIMEOUT, {"timeout_ms": 5000}),
        (
            errors.TurnTooLate(5000, 60_000, 1),
            Code.RATE_LIMITED,
            {"limit": "provider", "retry_after_ms": 60_000},
        ),
        (errors.BudgetSpent("calls", 3), Code.RATE_LIMITED, {"limit": "run"}),
        (errors.StoreIo(SECRET), Code.INTERNAL_ERROR, {"error": "StoreIo"}),
        (
            errors.FixtureIntegrityFailed([Finding("missing", "a.json", SECRET)]),
            Code.INTERNAL_ERROR,
            {"error": "FixtureIntegrityFailed"},
        ),
        (InvalidRequest("max_tokens", "is required"), Code.INVALID_PARAMS, {"field": "max_tokens"}),
        (InvalidRequest("extra.n", "is odd"), Code.INVALID_PARAMS, {"field": "params"}),
        (ZeroDivisionError(SECRET), Code.INTERNAL_ERROR, None),
        (UnicodeEncodeError("utf-8", SECRET, 0, 1, SECRET), Code.INTERNAL_ERROR, None),
    ],
)
def test_what_a_caller_is_told_of_an_error(
    error: Exception, code: Code, data: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """A code and what can be acted on; nothing that a provider or a traceback said."""
    caplog.set_level(logging.DEBUG)
    answer = told(rpc(call()), dispatcher_of(Noting(error=error)))

    assert answer["error"]["code"] == code
    assert answer["error"].get("data") == data
    assert SECRET not in json.dumps(answer)
    assert SECRET not in caplog.text
    logged = [record for record in caplog.records if record.name.startswith("cortex_replay")]
    assert bool(logged) is (code == Code.INTERNAL_ERROR)


def test_a_result_that_is_no_json() -> None:
    """Is an internal error, not a broken line."""

    async def odd(params: Params, caller: Caller) -> Any:
        return object()

    assert told({"jsonrpc": "2.0", "method": "odd", "id": 1}, RpcDispatcher({"odd": odd}))["error"] == {
        "code": -32603,
        "message": "Internal error",
    }


@pytest.mark.parametrize(
    "error",
    [InvalidRequest("\ud800", "x"), AdminError(-1, "\ud800"), AdminError(-1, "x", {"odd": object()})],
)
def test_an_error_that_cannot_be_written(error: Exception) -> None:
    """Is written as far as it can be."""
    answer = told(rpc(call()), RpcDispatcher({METHOD: _raising(error)}))

    assert answer["id"] == 1
    assert answer["error"]["code"] in {-1, Code.INVALID_PARAMS}


def _raising(error: Exception) -> Method:
    async def method(params: Params, caller: Caller) -> Any:
        raise error

    return method


def test_somebody_unknown() -> None:
    """Is told so, as a call that was refused is."""
    assert json.loads(unknown_caller())["error"]["code"] == Code.PERMISSION_DENIED


def test_whoever_leaves_ends_the_calls_of_a_batch() -> None:
    """Nobody pays for an answer that nobody waits for."""
    begun: list[int] = []
    ended: list[int] = []

    async def slow(params: Params, caller: Caller) -> Any:
        begun.append(1)
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(1)

    async def scenario() -> None:
        data = json.dumps([{"jsonrpc": "2.0", "method": "slow", "id": i} for i in range(3)]).encode()
        task = asyncio.ensure_future(RpcDispatcher({"slow": slow}).handle(data, GRANTED))
        await until(lambda: len(begun) == 3)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(scenario())

    assert len(ended) == 3


messages = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.just("2.0") | json_values,
        "method": st.just(METHOD) | json_values,
        "params": st.fixed_dictionaries(
            {},
            optional={
                "provider": st.just("mine") | json_values,
                "model": st.just("m-1") | json_values,
                "messages": json_values
                | st.lists(
                    st.fixed_dictionaries(
                        {
                            "role": st.sampled_from(["user", "system", "assistant", "tool"]),
                            "content": json_values,
                        }
                    ),
                    max_size=3,
                ),
                "max_tokens": json_values,
                "temperature": json_values,
                "system_prompt": json_values,
            },
        )
        | json_values,
        "id": json_values,
    },
)


def answered(data: bytes) -> Any:
    answer = asyncio.run(dispatcher_of(Noting()).handle(data, GRANTED))
    return None if answer is None else json.loads(answer)


def is_blameless(answer: Any) -> bool:
    """No internal error; a caller's mistake is the caller's."""
    answers = answer if isinstance(answer, list) else [answer]
    return all(one is None or one.get("error", {}).get("code") != Code.INTERNAL_ERROR for one in answers)


@effort(300)
@given(st.binary(max_size=60))
def test_any_bytes_are_answered(data: bytes) -> None:
    assert is_blameless(answered(data))


@effort(300)
@given(messages | st.lists(messages, max_size=4) | json_values)
def test_any_message_is_answered(message: Any) -> None:
    """With a result or the caller's own mistake."""
    assert is_blameless(answered(json.dumps(message).encode()))
