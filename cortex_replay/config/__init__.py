"""Settings: what holds, where it came from, and the keys that no configuration may hold."""

from cortex_replay.config.caller import CallerSettings, Grant
from cortex_replay.config.key_rules import KeyRules, key_rules, key_rules_for
from cortex_replay.config.keys import key_for, key_origin, known_secrets, token_for
from cortex_replay.config.load import Configuration, load_settings
from cortex_replay.config.mcp import McpSettings, Policy
from cortex_replay.config.provider import ProviderSettings
from cortex_replay.config.remote import RemoteSettings
from cortex_replay.config.settings import Settings
from cortex_replay.config.store_remote import remote_settings_for
from cortex_replay.config.tables import Normaliser, Price, Redaction
from cortex_replay.providers import Kind

__all__ = [
    "CallerSettings",
    "Configuration",
    "Grant",
    "KeyRules",
    "Kind",
    "McpSettings",
    "Normaliser",
    "Policy",
    "Price",
    "ProviderSettings",
    "Redaction",
    "RemoteSettings",
    "Settings",
    "key_for",
    "key_origin",
    "key_rules",
    "key_rules_for",
    "known_secrets",
    "load_settings",
    "remote_settings_for",
    "token_for",
]
