"""One list of names: what a variable holds is known to the recorder, the gateway and ``scan`` alike."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from random import Random

import pytest

import cortex_replay
from cortex_replay.canonical import JsonValue
from cortex_replay.config import Redaction, Settings, known_secrets
from cortex_replay.redact.redactor import Redactor
from cortex_replay.secret_names.names import (
    CREDENTIAL_PARAMETERS,
    is_secret_field,
    is_secret_header,
    is_secret_setting,
    is_secret_variable,
)
from cortex_replay.secret_names.values import has_secret, is_plain, secrets_in
from tests.builder import StoreBuilder
from tests.redact.kinds import ALNUM, BASE64, some

SECRETS = re.findall(
    r"\S+",
    """
    API_KEY TOKEN SECRET PASSWORD PASSPHRASE APIKEY MY_APP_API_KEY API_KEY_2 API_KEY_PROD
    OPENAI_API_KEY ANTHROPIC_API_KEY ANTHROPIC_AUTH_TOKEN GEMINI_API_KEY MISTRAL_API_KEY
    AZURE_OPENAI_API_KEY AZURE_OPENAI_KEY AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN AWS_SECURITY_TOKEN
    AWS_BEARER_TOKEN_BEDROCK AZURE_CLIENT_SECRET AZURE_STORAGE_KEY AZURE_STORAGE_SAS_TOKEN
    AZURE_DEVOPS_EXT_PAT ARM_CLIENT_SECRET ARM_ACCESS_KEY GOOGLE_API_KEY GCP_SA_KEY GH_TOKEN
    GITHUB_TOKEN GITHUB_PAT GH_ENTERPRISE_TOKEN GITLAB_TOKEN CI_JOB_TOKEN CI_REGISTRY_PASSWORD
    BITBUCKET_APP_PASSWORD CIRCLE_TOKEN TRAVIS_API_TOKEN ACTIONS_RUNTIME_TOKEN
    ACTIONS_ID_TOKEN_REQUEST_TOKEN NPM_TOKEN NODE_AUTH_TOKEN npm_config__authToken
    YARN_NPM_AUTH_TOKEN TWINE_PASSWORD PYPI_API_TOKEN CARGO_REGISTRY_TOKEN GEM_HOST_API_KEY
    NUGET_API_KEY DOCKER_PASSWORD DOCKERHUB_TOKEN HF_TOKEN HUGGING_FACE_HUB_TOKEN WANDB_API_KEY
    REPLICATE_API_TOKEN PGPASSWORD MYSQL_PWD MYSQL_ROOT_PASSWORD POSTGRES_PASSWORD REDISCLI_AUTH
    REDIS_PASSWORD MONGO_INITDB_ROOT_PASSWORD DB_PASS DB_PASSWORD_2 SQLCMDPASSWORD SSHPASS
    VAULT_TOKEN CONSUL_HTTP_TOKEN NOMAD_TOKEN TF_TOKEN_app_terraform_io SNYK_TOKEN SONAR_TOKEN
    CODECOV_TOKEN DATADOG_API_KEY DD_APP_KEY NEW_RELIC_LICENSE_KEY SENTRY_AUTH_TOKEN
    STRIPE_SECRET_KEY STRIPE_KEY TWILIO_AUTH_TOKEN SENDGRID_API_KEY SLACK_BOT_TOKEN
    SLACK_SIGNING_SECRET DISCORD_TOKEN TELEGRAM_BOT_TOKEN CLOUDFLARE_API_TOKEN CF_API_KEY
    DIGITALOCEAN_ACCESS_TOKEN HEROKU_API_KEY FLY_API_TOKEN VERCEL_TOKEN NETLIFY_AUTH_TOKEN
    SECRET_KEY_BASE RAILS_MASTER_KEY DJANGO_SECRET_KEY FLASK_SECRET_KEY NEXTAUTH_SECRET JWT_SECRET
    SESSION_SECRET COOKIE_SECRET ENCRYPTION_KEY SIGNING_KEY PRIVATE_KEY SSH_PRIVATE_KEY DEPLOY_KEY
    SMTP_PASSWORD MAIL_PASSWORD LDAP_BIND_PASSWORD KEYSTORE_PASSWORD GPG_PASSPHRASE clientSecret
    dbPassword ConnectionStrings__Password TOKEN_PROD OP_SERVICE_ACCOUNT_TOKEN LANGCHAIN_API_KEY
    PINECONE_API_KEY BW_SESSION OP_SESSION_team FASTLANE_SESSION SPACESHIP_SESSION VAULT_SECRET_ID
    SMTP_PW LDAP_BINDPW ROOTPW MYSQLPASS
    """,
)

INNOCENT = re.findall(
    r"\S+",
    """
    TOKENIZERS_PARALLELISM KEYBOARD MAX_TOKENS MAX_OUTPUT_TOKENS PROMPT_TOKENS TOKEN_LIMIT
    TOKEN_COUNT MONKEY SSH_AUTH_SOCK SSH_AGENT_PID PASSWORD_STORE_DIR GPG_AGENT_INFO GPG_KEY GPG_TTY
    KEY_COUNT AUTHOR GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL PATH HOME PWD OLDPWD SHELL TERM USER LOGNAME
    LANG LC_ALL EDITOR PAGER DISPLAY XAUTHORITY HOSTNAME TMPDIR PYTHONPATH VIRTUAL_ENV NODE_ENV
    NODE_OPTIONS CI GITHUB_ACTIONS GITHUB_SHA GITHUB_REF GITHUB_REPOSITORY GITHUB_RUN_ID
    GITHUB_WORKSPACE GITLAB_CI BUILD_NUMBER AWS_REGION AWS_DEFAULT_REGION AWS_PROFILE
    AWS_SHARED_CREDENTIALS_FILE AWS_WEB_IDENTITY_TOKEN_FILE AWS_CONTAINER_CREDENTIALS_FULL_URI
    AZURE_CLIENT_ID AZURE_TENANT_ID GOOGLE_CLOUD_PROJECT PGHOST PGUSER PGDATABASE PGPASSFILE
    DATABASE_NAME DB_HOST CACHE_KEY SORT_KEY PARTITION_KEY PRIMARY_KEY PUBLIC_KEY
    STRIPE_PUBLISHABLE_KEY SONAR_PROJECT_KEY TOKEN_URL TOKEN_TTL SECRET_NAME SECRET_ARN
    PASSWORD_MIN_LENGTH API_KEY_HEADER AUTH_PROVIDER AUTH_ENABLED OAUTH_CLIENT_ID KEY_FILE
    SSL_CERT_FILE NEXT_PAGE_TOKEN EOS_TOKEN PASSENGER COMPASS BYPASS TURKEY HOTKEY SECRETARY
    LS_COLORS COLORTERM MAKEFLAGS DEBIAN_FRONTEND OMP_NUM_THREADS CUDA_VISIBLE_DEVICES TZ
    XDG_SESSION_ID XDG_SESSION_TYPE DESKTOP_SESSION SESSION_MANAGER TERM_SESSION_ID SECRET_ID
    """,
)


def value_for(name: str) -> str:
    """What nobody would guess, the same each time."""
    return some(Random(name), ALNUM, 24)


def test_there_are_enough_names() -> None:
    assert len(set(SECRETS)) >= 60
    assert len(set(INNOCENT)) >= 60


@pytest.mark.parametrize("name", SECRETS)
def test_a_variable_that_names_a_secret(name: str) -> None:
    """Its value is known to whoever records, and a command is not to have it."""
    value = value_for(name)

    assert known_secrets(Settings(), {name: value}) == [value]
    assert has_secret(name, value)


@pytest.mark.parametrize("name", INNOCENT)
def test_a_variable_that_names_none(name: str) -> None:
    """Whatever stands in it."""
    assert not is_secret_variable(name)
    assert known_secrets(Settings(), {name: value_for(name)}) == []
    assert not has_secret(name, value_for(name))


PLAIN = [
    *(
        "password",
        "true",
        "false",
        "test",
        "development",
        "production",
        "postgres",
        "mysql",
        "changeme",
        "none",
    ),
    *(
        "change-me",
        "your-api-key-here",
        "test-key",
        "not-needed",
        "lm-studio",
        "dummy",
        "admin123",
        "password1",
    ),
    *("Password", "DISABLED", "undefined", "12345678", "0", "1", "xxxxxxxx", "********", "${DB_PASSWORD}"),
    *(
        "$PASSWORD",
        "<your token>",
        "{{ password }}",
        "/run/secrets/db",
        "~/.ssh/id_rsa",
        "./key.pem",
        "C:\\keys\\a",
    ),
    *("/etc/gcloud/credentials.json", "https://vault.example.com/v1", "op://vault/item/field"),
    *("arn:aws:secretsmanager:eu-west-1:123456789012:secret:db", "sunshine", "administrator", "minioadmin"),
    *(
        "local-development-only",
        "",
        "   ",
        "secret",
        "supersecret",
        "/tmp/tmpab3d9x/key",
        "anonymous",
        "required",
    ),
]


@pytest.mark.parametrize("value", PLAIN)
@pytest.mark.parametrize("name", ["DB_PASSWORD", "TOKEN", "API_KEY", "OPENAI_API_KEY"])
def test_a_value_that_is_no_secret(name: str, value: str) -> None:
    """A word, a placeholder, a path or a switch is set apart, however it is called."""
    assert known_secrets(Settings(), {name: value, "OTHER": f'"{value}"'}) == []
    assert not has_secret(name, value)


def test_a_word_as_a_password_changes_no_tool() -> None:
    """A property of that name stays, and the recording is not refused."""
    redactor = Redactor(known_secrets(Settings(), {"DB_PASSWORD": "password", "SECRET": "development"}))
    tool: JsonValue = {
        "name": "login",
        "properties": {"password": {"type": "string", "description": "for development"}},
    }

    assert redactor.json(tool) == (tool, [])
    assert redactor.found_in(tool) == []
    assert redactor.left_in(tool) == []


HIDDEN = "s3cr3t" + "-Pa55"
INSIDE: list[tuple[str, str, str]] = [
    ("DATABASE_URL", f"postgres://u:{HIDDEN}@h/db", HIDDEN),
    ("REDIS_URL", f"redis://:{HIDDEN}@cache:6379/0", HIDDEN),
    ("PIP_INDEX_URL", f"https://ci:{HIDDEN}@packages.corp/simple", HIDDEN),
    ("HTTPS_PROXY", f"http://jo:{HIDDEN}@proxy.corp:8080", HIDDEN),
    ("ANYTHING", f"mysql://u:{HIDDEN.replace('-', '%2D')}@h/db", HIDDEN),
    ("DB", "postgres://u:s3cr3t" + "@h/db", "u:s3cr3t" + "@h"),
    ("SENTRY_DSN", f"https://{'0a1b2c3d4e5f6789' * 2}@o1.ingest.sentry.io/2", "0a1b2c3d4e5f6789" * 2),
    ("SLACK_WEBHOOK_URL", f"https://hooks.corp/x/{HIDDEN}", f"x/{HIDDEN}"),
    (
        "AZURE_STORAGE_CONNECTION_STRING",
        f"AccountName=x;AccountKey={HIDDEN}+/a==;EndpointSuffix=y",
        f"{HIDDEN}+/a==",
    ),
    ("ConnectionStrings__Default", f"Server=h;User Id=sa;Password={HIDDEN};Encrypt=true", HIDDEN),
    ("PG_CONNINFO", f"host=h user=u password={HIDDEN} dbname=d", HIDDEN),
    ("OTEL_EXPORTER_OTLP_HEADERS", f"api-key={HIDDEN},x-team=a", HIDDEN),
    ("ANTHROPIC_CUSTOM_HEADERS", f"Authorization: Bearer {HIDDEN}\nx-team: a", HIDDEN),
    ("JAVA_OPTS", f"-Xmx1g -Djavax.net.ssl.keyStorePassword={HIDDEN}", HIDDEN),
    ("AZURE_CREDENTIALS", json.dumps({"clientId": "x", "clientSecret": HIDDEN}), HIDDEN),
    ("DOCKER_AUTH_CONFIG", json.dumps({"auths": {"h": {"auth": HIDDEN}}}), HIDDEN),
    ("BASIC_AUTH", f"jo:{HIDDEN}", HIDDEN),
    ("AUTH_TOKEN", f"Bearer {HIDDEN}", HIDDEN),
    ("API_KEYS", f"{HIDDEN}-1, {HIDDEN}-2", f"{HIDDEN}-2"),
    ("API_KEY", f'  "{HIDDEN}"\n', HIDDEN),
    ("API_KEY", f"'{HIDDEN}'", HIDDEN),
    ("SECRET_KEY", f"/{HIDDEN.replace('-', '')}Zq8+x9/T0==", f"/{HIDDEN.replace('-', '')}Zq8+x9/T0=="),
]


@pytest.mark.parametrize(("name", "value", "secret"), INSIDE)
def test_a_secret_inside_a_value(name: str, value: str, secret: str) -> None:
    """It is found wherever it stands in a variable, and what stands around it is not needed."""
    redactor = Redactor(known_secrets(Settings(), {name: value}))

    assert secret in secrets_in(name, value)
    assert has_secret(name, value)
    assert redactor.left_in(f"it is {secret}, really") != []
    assert secret not in redactor.text(f"it is {secret}, really")[0]


@pytest.mark.parametrize("line_end", ["\n", "\\n", "\r\n"])
def test_a_key_file_in_a_variable(line_end: str) -> None:
    """Each of its lines is known, whether the line breaks are real or written out."""
    random = Random(3)
    fence = "-" * 5
    lines = [some(random, BASE64, 64) for _ in range(5)]
    text = line_end.join([f"{fence}BEGIN PRIVATE KEY{fence}", *lines, f"{fence}END PRIVATE KEY{fence}"])
    redactor = Redactor(known_secrets(Settings(), {"TLS_PEM": text}))

    assert all(redactor.text(f"a {line} b")[0] == "a [REDACTED:known-value] b" for line in lines)


def test_random_values_are_never_taken_for_words() -> None:
    """Of 4,000 base64 keys, of which some begin with a slash or a plus, each is known."""
    random = Random(5)
    values = [some(random, BASE64, 40) for _ in range(4000)]

    assert [value for value in values if is_plain(value)] == []
    assert [value for value in values if secrets_in("AWS_SECRET_ACCESS_KEY", value)[:1] != [value]] == []


def test_what_is_named_by_hand_counts_as_it_is() -> None:
    """Somebody who lists a variable in ``redaction.known_env`` has thought about it."""
    settings = Settings(redaction=Redaction(known_env=("CODENAME",)))

    assert known_secrets(settings, {"CODENAME": "bluebird"}) == ["bluebird"]


@pytest.mark.parametrize(
    "name", ["x-api-key", "Authorization", "api-key", "x-goog-api-key", "Cookie", "X-Auth-Token"]
)
def test_a_header_that_names_a_secret(name: str) -> None:
    assert is_secret_header(name)


@pytest.mark.parametrize(
    "name", ["content-type", "x-request-id", "x-ratelimit-remaining-tokens", "etag", "keep-alive"]
)
def test_a_header_that_names_none(name: str) -> None:
    assert not is_secret_header(name)


@pytest.mark.parametrize(
    "name",
    [
        "api_key",
        "apiKey",
        "client_secret",
        "password",
        "accessToken",
        "private_key",
        "pwd",
        "sessiontoken",
        "idToken",
        "github_token_2",
    ],
)
def test_a_field_that_names_a_secret(name: str) -> None:
    assert is_secret_field(name)
    assert is_secret_setting(name)
    assert is_secret_setting(name)


@pytest.mark.parametrize(
    "name", ["key", "cache_key", "next_page_token", "max_tokens", "author", "token_type", "keys"]
)
def test_a_field_that_names_none(name: str) -> None:
    assert not is_secret_field(name)


def test_a_url_that_is_a_secret_as_a_whole() -> None:
    """A webhook is one, whatever the variable is called; the address of a service is none."""
    path = "services/T0" + "A1B2C3D4/B0Z9Y8X7W6/" + "q1W2e3R4t5Y6u7I8o9P0a1S2"
    assert secrets_in("CHAT_API_KEY", f"https://hooks.example/{path}") == [path]
    assert secrets_in("CHAT_API_KEY", "https://auth.example/realms/production/tokens") == []
    assert secrets_in("CHAT_URL", f"https://hooks.example/{path}") == []


KNOWN_TO_ALL = """
import json, os, sys
from pathlib import Path
from cortex_replay.config import load_settings
from cortex_replay.redact.settings import redactor_for
from cortex_replay.engine.recording import RecordingAdapter
from cortex_replay.store import Store
from cortex_replay.misses.explanation import store_redactor
from cortex_replay.run import Run
from cortex_replay.testing import EchoAdapter

settings = load_settings(Path(), os.environ).settings
store = Store.open_or_create(Path("store"))
redactors = {
    "settings": redactor_for(settings, os.environ),
    "misses": store_redactor(store),
    "recorder": RecordingAdapter(EchoAdapter(), store)._run.redactor,
    "a run": Run(settings, "replay", store).redactor,
}
names = json.loads(sys.argv[1])
print(json.dumps({who: [n for n in names if not r.left_in(os.environ[n])] for who, r in redactors.items()}))
"""


def test_all_doors_know_the_same(tmp_path: Path) -> None:
    """Whoever makes a redactor, in a real process with these variables, has each value in it."""
    names = [name for name in SECRETS if name.isidentifier()]
    environment: Mapping[str, str] = {name: value_for(name) for name in names}
    done = subprocess.run(
        [sys.executable, "-c", KNOWN_TO_ALL, json.dumps(names)],
        env={"PATH": "/usr/bin:/bin", **environment},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    ignorant = {who: unknown for who, unknown in json.loads(done.stdout).items() if unknown}
    assert ignorant == {}


def test_scan_knows_what_the_recorder_knows(tmp_path: Path) -> None:
    """A value that was recorded by an older version is found by its name alone."""
    builder = StoreBuilder(tmp_path / "store")
    builder.add("Which one?", f"It is {'-'.join(value_for('PGPASSWORD'))}.")
    builder.add("And now?", f"It is {value_for('PGPASSWORD')}.")
    builder.write()
    done = subprocess.run(
        [Path(sys.executable).with_name("cortex-replay"), "scan", "--json", "store"],
        env={"PATH": "/usr/bin:/bin", **{name: value_for(name) for name in SECRETS}},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    report = json.loads(done.stdout)

    assert report["known_values"] == len(set(SECRETS))
    assert [(secret["place"], secret["rule"]) for secret in report["secrets"]] == [
        ("response.text", "known-value")
    ]


def test_nobody_makes_a_redactor_that_knows_nothing() -> None:
    """Each is made where :func:`known_secrets` is asked; a new one without it fails here."""
    package = Path(cortex_replay.__file__).parent
    made = [path for path in package.rglob("*.py") if re.search(r"\bRedactor\(", path.read_text())]
    ignorant = {
        path.relative_to(package).as_posix()
        for path in made
        if "known_secrets(" not in path.read_text() and path.parent.name != "redact"
    }

    # One looks at the variables themselves, the other for the one key that it has just sent.
    assert ignorant == {"run/environment.py", "adapters/http/relay.py"}


@pytest.mark.parametrize(
    ("name", "value", "parts"),
    [
        ("APP_SECRET", "p@ss!w0rd#One\np@ss!w0rd#Two", ["p@ss!w0rd#One", "p@ss!w0rd#Two"]),
        ("HTPASSWD_SECRET", "al:$apr1$8xk2$Kq9.zz/\r\nbo:$apr1$99$Kqzz\r\n", ["al:$apr1$8xk2$Kq9.zz/"]),
        ("SIGNING_SECRET", "a!B@c#D%9x" * 90, ["a!B@c#D%9x" * 90]),
        ("COOKIE", "sid=9f!3c.2b7a.E41d; " + 'pad="a b"; ' * 60, ["sid=9f!3c.2b7a.E41d"]),
    ],
)
def test_a_secret_of_several_lines_or_many_characters_is_known(
    name: str, value: str, parts: list[str]
) -> None:
    redactor = Redactor(known_secrets(Settings(), {name: value}))
    text, _ = redactor.text(f"It says {value}, really.")

    assert [part for part in parts if part in text] == []
    assert all(redactor.left_in(part) for part in parts)


def test_the_words_in_a_long_secret_are_no_secrets() -> None:
    value = "host: db.internal\nuser: administrator\npassword: Xk#92!mQz\n# do not commit this file\n"
    redactor = Redactor(known_secrets(Settings(), {"DB_CREDENTIALS": value}))

    assert redactor.text("host: db.internal, user: administrator")[1] == []
    assert "Xk#92!mQz" not in redactor.text("password: Xk#92!mQz")[0]


def test_the_parameters_that_take_no_part_in_a_key_never_change() -> None:
    """With another list, calls that are recorded would not be found any more."""
    names = "access_token api-key api_key apikey auth authorization client_secret key password secret sig"

    assert sorted(CREDENTIAL_PARAMETERS) == [*names.split(), "signature", "token"]
