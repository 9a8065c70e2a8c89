"""Recordings without a secret, full of what could be taken for one: hashes, ids, base64, examples of keys.

Everything comes from a seed. What a rule finds in here is a false hit.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import string
import uuid
from collections.abc import Callable
from random import Random
from typing import Any, Final
from urllib.parse import quote, urlencode

from tests.redact.kinds import ALNUM, BASE64, HEX, WORD, some
from tests.redact.planted import pieces_of

_WORDS: Final[list[str]] = re.findall(
    "[a-z]+",
    """the of and to in is that it for was on are with as be at one have this from by hot but some what there
    we can out other were all your when up use word how said an each she which do their time if will way
    about many then them would write like so these her long make thing see him two has look more day could
    go come did my sound no most number who over know water than call first people may down side been now
    find token key secret password credential bearer basic authorization header environment variable value
    request response stream message provider account storage task risk disk asking desk basket network
    latency throughput retries timeout configuration deployment container cluster replica certificate""",
)
_NAMES: Final[list[str]] = re.findall(
    "[a-z]+",
    """get set make parse render load store find user account token key secret session request response http
    client server cache index buffer stream chunk message handler factory manager provider config value""",
)
_ARGUMENTS: Final[list[str]] = re.findall(
    "[a-z_]+", "commit sha digest key id cache_key page_token public_key cursor"
)


def words(random: Random, count: int) -> str:
    return " ".join(random.choices(_WORDS, k=count))


def identifier(random: Random) -> str:
    parts = random.choices(_NAMES, k=random.randrange(2, 6))
    if random.random() < 0.2:
        parts.append(str(random.randrange(100)))
    way = random.randrange(4)
    if way == 0:
        return "_".join(parts)
    if way == 1:
        return "_".join(parts).upper()
    if way == 2:
        return parts[0] + "".join(part.title() for part in parts[1:])
    return "-".join(parts)


def prose(random: Random) -> str:
    sentences = [words(random, random.randrange(4, 25)).capitalize() for _ in range(random.randrange(3, 30))]
    return ". ".join(sentences) + "."


def hashes(random: Random) -> str:
    lines = []
    for _ in range(random.randrange(1, 20)):
        data = random.randbytes(8)
        kind = random.choice(["md5", "sha1", "sha256", "sha512", "blake2b"])
        lines.append(f"{hashlib.new(kind, data).hexdigest()}  {identifier(random)}.json")
    return "\n".join(lines)


def uuids(random: Random) -> str:
    made = [uuid.UUID(int=random.getrandbits(128), version=4) for _ in range(random.randrange(1, 30))]
    return random.choice([", ", "\n", " -> "]).join(
        str(one) if random.random() < 0.8 else one.hex for one in made
    )


def git_log(random: Random) -> str:
    return "\n".join(
        f"commit {some(random, HEX, 40)}\nAuthor: Jo <jo@example.com>\n\n    {words(random, 6)}\n"
        for _ in range(random.randrange(1, 8))
    )


def provider_ids(random: Random) -> str:
    made = [
        f"toolu_01{some(random, ALNUM, 22)}",
        f"call_{some(random, ALNUM, 24)}",
        f"msg_01{some(random, ALNUM, 22)}",
        f"chatcmpl-{some(random, ALNUM, 29)}",
        f"resp_{some(random, HEX, 48)}",
        f"req_{some(random, HEX, 32)}",
        f"fc_{some(random, HEX, 50)}",
        f"rs_{some(random, HEX, 50)}",
        f"run_{some(random, ALNUM, 24)}",
        f"thread_{some(random, ALNUM, 24)}",
        f"file-{some(random, ALNUM, 22)}",
        f"asst_{some(random, ALNUM, 24)}",
        f"fp_{some(random, HEX, 10)}",
        f"srvtoolu_{some(random, ALNUM, 24)}",
        f"gen-{random.randrange(10**9)}-{some(random, ALNUM, 20)}",
    ]
    return json.dumps({"ids": random.sample(made, k=random.randrange(2, 9)), "object": "list"})


def image(random: Random) -> str:
    data = base64.b64encode(b"\x89PNG\r\n\x1a\n" + random.randbytes(random.randrange(300, 6000))).decode()
    return f"![a picture](data:image/png;base64,{data})"


def base64_of_text(random: Random) -> str:
    data = prose(random).encode()
    encode = random.choice([base64.b64encode, base64.urlsafe_b64encode])
    text = encode(data).decode()
    if random.random() < 0.3:
        text = "\n".join(text[i : i + 76] for i in range(0, len(text), 76))
    return f"decoded from:\n{text}"


def signature(random: Random) -> str:
    thought = base64.b64encode(random.randbytes(random.randrange(200, 900))).decode()
    return json.dumps({"type": "thinking", "thinking": prose(random), "signature": thought})


def python_code(random: Random) -> str:
    lines = ["import os", "from dataclasses import dataclass", ""]
    for _ in range(random.randrange(3, 25)):
        name, other, third = (identifier(random).replace("-", "_") for _ in range(3))
        lines.append(
            random.choice(
                [
                    f"{name} = {other}({third})",
                    f'{name} = os.environ["{other.upper()}"]',
                    f"def {name}({other}: str, {third}: int = {random.randrange(99)}) -> None:",
                    f'    raise ValueError(f"{{{other}!r}} is no {third}")',
                    f"    return self.{name}.{other}[{third}]",
                    f"api_key = {other}({third})",
                    f"password = settings.{other}",
                    f"    token: str = field(default_factory={name})",
                    f'{name} = re.compile(r"\\b[A-Za-z0-9_]+\\.{other}\\s*=\\s*(\\d+)\\n")',
                    f'client = Client(api_key=os.getenv("{other.upper()}"), secret_key={third})',
                    f"@{name}",
                ]
            )
        )
    return "\n".join(lines)


def minified(random: Random) -> str:
    parts = []
    for _ in range(random.randrange(10, 120)):
        a, b, c = random.choices(string.ascii_lowercase, k=3)
        parts.append(
            random.choice(
                [
                    f"var {a}=function({b}){{return {c}.prototype.{identifier(random).replace('-', '')}}}",
                    f"!function({a},{b}){{{a}[{random.randrange(999)}]={b}.{c}}}(window,document)",
                    f'{a}.exports={{{b}:"#{some(random, HEX, 6)}",{c}:"{some(random, HEX, 20)}"}}',
                    f"Object.defineProperty({a},'__esModule',{{value:!0}})",
                    f'{a}&&{b}||({c}="\\u00{some(random, HEX, 2)}\\x{some(random, HEX, 2)}")',
                ]
            )
        )
    return ";".join(parts)


def css(random: Random) -> str:
    return "\n".join(
        f".{identifier(random).replace('_', '-')}-{random.choice(['sk-circle', 'pa-4', 'fc-red'])} "
        f"{{ color: #{some(random, HEX, 6)}; background: url(/static/{some(random, HEX, 20)}.png); }}"
        for _ in range(random.randrange(2, 15))
    )


def stack_trace(random: Random) -> str:
    lines = ["Traceback (most recent call last):"]
    for _ in range(random.randrange(2, 14)):
        path = "/".join(["", "srv", "app", *(identifier(random) for _ in range(3))])
        lines += [
            f'  File "{path}.py", line {random.randrange(2000)}, in {identifier(random)}',
            f"    at com.example.{identifier(random)}({identifier(random)}.java:{random.randrange(900)})",
        ]
    return "\n".join([*lines, f"KeyError: '{identifier(random)}' at 0x7f{some(random, HEX, 10)}"])


def schema(random: Random) -> str:
    properties: dict[str, dict[str, object]] = {
        identifier(random): {
            "type": random.choice(["string", "integer", "boolean"]),
            "description": words(random, 8),
            "pattern": random.choice(["^[A-Za-z0-9_-]{20,}$", "^sk-[a-zA-Z0-9]{48}$", "^\\d{4}-\\d{2}$"]),
        }
        for _ in range(random.randrange(1, 12))
    }
    properties["api_key"] = {"type": "string", "description": "The API key, as in the Authorization header."}
    properties["password"] = {"type": "string", "minLength": 12, "format": "password"}
    tool = {"type": "object", "properties": properties, "required": list(properties)[:2]}
    return json.dumps(tool, indent=random.choice([None, 2]))


def examples_of_keys(random: Random) -> str:
    shown = [
        "export OPENAI_API_KEY=sk-...",
        'client = OpenAI(api_key="YOUR_API_KEY")',
        "Authorization: Bearer YOUR_ACCESS_TOKEN_HERE",
        "Authorization: Bearer $TOKEN",
        "set ANTHROPIC_API_KEY to your key (it starts with sk-ant-)",
        "GITHUB_TOKEN=ghp_" + "x" * 36,
        "aws_access_key_id = AKIA" + "IOSFODNN7EXAMPLE",
        "sk-ant-api03-your-key-here-your-key-here",
        "postgres://user:password@localhost:5432/app",
        "postgresql://${DB_USER}:${DB_PASSWORD}@db:5432/app",
        "https://<user>:<token>@github.com/owner/repository.git",
        "curl -u username:password https://example.com",
        "password: {{ vault_password }}",
        "the token is stored in Keychain; the secret never leaves it",
        'api_key: "<paste the key of your project here>"',
        "SECRET_KEY_BASE: ${SECRET_KEY_BASE}",
        "Basic authentication, or Bearer tokens",
        f"-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE{some(random, BASE64, 86)}\n",
        "-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----",
        "hooks.slack.com/services/T00000000/B00000000/" + "X" * 24,
        "xoxb-your-token",
        "STRIPE_KEY=pk_test_" + some(random, ALNUM, 24),
        '"max_tokens": 4096, "next_page_token": "' + some(random, WORD, 40) + '"',
        '"idempotency_key": "' + str(uuid.UUID(int=random.getrandbits(128), version=4)) + '"',
        "cache_key=" + some(random, HEX, 32),
        'partition_key = "' + some(random, ALNUM, 24) + '"',
        "password_hash_algorithm: argon2id$v=19$m=65536,t=3,p=4",
    ]
    return "\n".join(random.sample(shown, k=random.randrange(2, 7)))


def urls(random: Random) -> str:
    made = []
    for _ in range(random.randrange(1, 10)):
        pairs = {
            "q": words(random, 4),
            "id": some(random, HEX, 24),
            "utm_source": "mail",
            "v": some(random, WORD, 11),
            "ref": some(random, ALNUM, 32),
        }
        made.append(
            f"https://{random.choice(['www', 'cdn', 'docs'])}.example.com:8443/{quote(words(random, 3))}/"
            f"{some(random, HEX, 40)}/index.html?{urlencode(pairs)}#L{random.randrange(999)}"
        )
    return "\n".join(made)


def logs(random: Random) -> str:
    return "\n".join(
        f"2026-11-{random.randrange(1, 29):02}T11:12:09.{random.randrange(10**6):06}Z "
        f"INFO trace_id={some(random, HEX, 32)} span_id={some(random, HEX, 16)} "
        f"request_id={uuid.UUID(int=random.getrandbits(128))} {identifier(random)}={random.random()} "
        f'etag="{some(random, HEX, 32)}" cf-ray={some(random, HEX, 16)}-FRA tokens={random.randrange(999)}'
        for _ in range(random.randrange(3, 25))
    )


def lock_file(random: Random) -> str:
    packages = {
        f"node_modules/@{identifier(random)}/{identifier(random)}": {
            "version": f"{random.randrange(20)}.{random.randrange(20)}.{random.randrange(20)}",
            "resolved": f"https://packages.example.com/{identifier(random)}/-/x-1.0.0.tgz",
            "integrity": "sha512-" + base64.b64encode(random.randbytes(64)).decode(),
        }
        for _ in range(random.randrange(1, 12))
    }
    sums = "\n".join(
        f"github.com/{identifier(random)} v1.{random.randrange(30)}.0 h1:"
        f"{base64.b64encode(random.randbytes(32)).decode()}"
        for _ in range(random.randrange(1, 12))
    )
    return json.dumps(packages, indent=2) + "\n" + sums


def nested_json(random: Random) -> str:
    path = "C:\\Users\\new\\table\\" + identifier(random)
    inner = json.dumps({"path": path, "text": prose(random) + '\n"x"'})
    return json.dumps({"body": json.dumps({"inner": inner, "ok": True})})


def numbers(random: Random) -> str:
    rows = [
        ",".join(f"{random.gauss(0, 1):.12f}" for _ in range(random.randrange(2, 12)))
        for _ in range(random.randrange(2, 20))
    ]
    return "\n".join(["a,b,c", *rows, some(random, string.digits, 200)])


def foreign(random: Random) -> str:
    letters = "春夏秋冬東西南北人口山川一二三四五、。ÄÖÜßéèêñ¿¡αβγδεζηθικλμ🙂🚀🔑абвгдежз"
    return " ".join(some(random, letters, random.randrange(1, 30)) for _ in range(random.randrange(5, 60)))


def infrastructure(random: Random) -> str:
    name = identifier(random).lower().replace("_", "-")
    return "\n".join(
        [
            f"image: registry.example.com/{name}@sha256:{some(random, HEX, 64)}",
            f"arn:aws:iam::{some(random, string.digits, 12)}:role/{name}-{some(random, HEX, 16)}",
            f"pod/{name}-{some(random, HEX, 10)}-{some(random, 'bcdfghjklmnp2456789', 5)} 1/1 Running",
            f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{some(random, BASE64, 43)} jo@laptop",
            f"Message-ID: <{some(random, ALNUM, 30)}@mail.example.com>",
            f"DKIM-Signature: v=1; a=rsa-sha256; b={some(random, BASE64, 80)}",
            f"x-amz-request-id: {some(random, ALNUM[26:], 16)}",
            f"secretKeyRef: {{name: {name}-credentials, key: password}}",
            f"/subscriptions/{uuid.UUID(int=random.getrandbits(128))}/resourceGroups/{name}",
            f"s3://{name}/{some(random, HEX, 2)}/{some(random, HEX, 62)}",
        ]
    )


def escapes(random: Random) -> str:
    return "\n".join(
        [
            r"\frac{\alpha}{\beta} \neq \sum_{i=1}^{n} \text{token}_i",
            r"Regex: ^\\u[0-9a-f]{4}\b|%[0-9A-F]{2}$ and \d+\.\d+",
            f"100%25 of {quote(prose(random))}",
            "".join(f"\\u{ord(c):04x}" for c in words(random, 20)),
            r"C:\Users\temp\new_folder\readme.txt; \\server\share\bin",
            f"printf('%02x%02x%s\\n', {identifier(random)}, 0x{some(random, HEX, 8)})",
        ]
    )


_LANGUAGES: Final = (
    "Der Schlüssel für den Zugang liegt beim Pförtner; das Kennwort wird jeden Monat geändert.",
    "La clé d'accès est conservée dans le coffre, et le mot de passe change chaque mois.",
    "La contraseña se guarda en la caja fuerte y el token caduca a los treinta días.",
    "Hasło jest przechowywane w sejfie, a klucz dostępu wygasa po trzydziestu dniach.",
    "Пароль хранится в сейфе, а ключ доступа истекает через тридцать дней.",
    "パスワードは金庫に保管され、アクセスキーは三十日で失効します。",
    "密码保存在保险箱中，访问密钥三十天后过期。",
    "كلمة المرور محفوظة في الخزنة وينتهي مفتاح الوصول بعد ثلاثين يوما.",
    "비밀번호는 금고에 보관되며 액세스 키는 삼십일 후에 만료됩니다.",
    "A senha fica no cofre e a chave de acesso expira em trinta dias.",
)


def languages(random: Random) -> str:
    return " ".join(random.choices(_LANGUAGES, k=random.randrange(2, 12)))


def other_code(random: Random) -> str:
    """Shell, SQL, Go, TypeScript, YAML, with the names of secrets all over and none in them."""
    name, other = identifier(random).replace("-", "_"), identifier(random).replace("-", "_")
    lines = [
        f"export {name.upper()}_TOKEN=$(cat /run/secrets/{other})",
        f'curl -H "Authorization: Bearer ${{{name.upper()}}}" https://api.example.com/v2/{other}',
        f"SELECT password_hash, api_key_id FROM {name} WHERE token_type = '{other}';",
        f'apiKey := os.Getenv("{name.upper()}_API_KEY")',
        f"const {{ accessToken, refreshToken }} = await {name}.{other}(clientSecret)",
        f"  password: !vault {name}",
        f"  - name: API_KEY\n    valueFrom: {{secretKeyRef: {{name: {other}, key: api-key}}}}",
        f"private readonly secretKey: string = this.{name}.{other}",
        f"if token != expected_token_for_{name}: raise Unauthorized",
        f"ENV GPG_KEY {some(random, HEX, 40).upper()}\nENV VERSION={random.randrange(99)}.1",
        f"git checkout {some(random, HEX, 40)} -- src/{name}/{other}.go",
        f"key={name}; token={other}; secret={name}_{random.randrange(99)}",
    ]
    return "\n".join(random.choices(lines, k=random.randrange(3, 14)))


def picture(random: Random) -> str:
    """As an API has it, without a word around it."""
    return base64.b64encode(b"\xff\xd8\xff\xe0" + random.randbytes(random.randrange(5000, 40000))).decode()


def paths_with_ids(random: Random) -> str:
    return "\n".join(
        f"/{random.choice(['v1', 'api', 'static'])}/{some(random, ALNUM, random.choice([8, 12, 20, 22]))}/"
        f"{identifier(random)}/{some(random, random.choice([HEX, WORD, ALNUM]), random.randrange(8, 44))}"
        for _ in range(random.randrange(3, 20))
    )


SOURCES: Final[tuple[Callable[[Random], str], ...]] = (
    *(prose, hashes, uuids, git_log, provider_ids, image, base64_of_text, signature, python_code, minified),
    *(css, stack_trace, schema, examples_of_keys, urls, logs, lock_file, nested_json, numbers, foreign),
    *(infrastructure, escapes, languages, other_code, picture, paths_with_ids),
)


def clean_fixture(random: Random) -> dict[str, Any]:
    """A recording with a few such texts in its places."""
    made = [random.choice(SOURCES)(random) for _ in range(3)]
    document: dict[str, Any] = {
        "request_match": {"model": "m", "prompt_hash": some(random, HEX, 64)},
        "request": {
            "system": words(random, 12),
            "messages": [
                {"role": "user", "content": made[0]},
                {"role": "tool", "content": made[1], "tool_call_id": f"toolu_01{some(random, ALNUM, 22)}"},
            ],
        },
        "response": {
            "text": made[2],
            "tool_calls": [
                {
                    "id": f"call_{some(random, ALNUM, 24)}",
                    "name": identifier(random),
                    "arguments": {random.choice(_ARGUMENTS): some(random, HEX, 40), "text": words(random, 9)},
                }
            ],
        },
        "meta": {"recorded_at": "2026-11-15T00:00:00Z", "blake3": some(random, HEX, 64)},
    }
    if random.random() < 0.4:
        document["stream"] = [
            {"at_ms": 3 * i, "delta": piece} for i, piece in enumerate(pieces_of(random, made[2]))
        ]
    return document
