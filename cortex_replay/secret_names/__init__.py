"""What is called a secret, and what is one: the one list for variables, headers, fields and settings.

The recorder, the gateway, ``scan``, the configuration and the environment of a command all ask here, so
that none of them knows a name that the others do not.
"""

from cortex_replay.secret_names.names import (
    CREDENTIAL_PARAMETERS,
    KEY_HEADERS,
    SECRET_HEADERS,
    is_secret_field,
    is_secret_header,
    is_secret_setting,
    is_secret_variable,
)
from cortex_replay.secret_names.values import (
    SHORTEST_SECRET,
    has_secret,
    is_dummy,
    is_plain,
    secrets_in,
    secrets_in_header,
)
from cortex_replay.secret_names.wordlike import is_word, reads_like_words, spells_words

__all__ = [
    "CREDENTIAL_PARAMETERS",
    "KEY_HEADERS",
    "SECRET_HEADERS",
    "SHORTEST_SECRET",
    "has_secret",
    "is_dummy",
    "is_plain",
    "is_secret_field",
    "is_secret_header",
    "is_secret_setting",
    "is_secret_variable",
    "is_word",
    "reads_like_words",
    "secrets_in",
    "secrets_in_header",
    "spells_words",
]
