"""The loggers of this package, and those of the HTTP client: what they write holds no secret.

At DEBUG, httpcore writes the headers of answers; at INFO, httpx writes URLs with their queries. A provider
may repeat a key in either. A filter of a logger is not asked for the loggers below it, so each of them gets
it here.
"""

from __future__ import annotations

import logging
from typing import Final

__all__ = ["guard_http_logs", "logger_of"]

_HTTP_LOGGERS: Final = (
    "httpx",
    "httpcore.connection",
    "httpcore.http11",
    "httpcore.http2",
    "httpcore.proxy",
    "httpcore.socks",
)


class _RedactingFilter(logging.Filter):
    """Redacts the text of a record, and of the exception that goes with it."""

    def filter(self, record: logging.LogRecord) -> bool:
        from cortex_replay.redact.process import process_redactor  # noqa: PLC0415 - few records are written

        redactor = process_redactor()
        try:
            text = record.getMessage()
        except (TypeError, ValueError):  # arguments that do not fit: logging itself would print them
            text = str(record.msg)
        record.msg, record.args = redactor.text(text)[0], None
        if record.exc_info:
            trace = logging.Formatter().formatException(record.exc_info)
            record.exc_text, record.exc_info = redactor.text(trace)[0], None
        return True


_FILTER: Final = _RedactingFilter()


def logger_of(name: str) -> logging.Logger:
    """The logger of a module."""
    logger = logging.getLogger(name)
    logger.addFilter(_FILTER)
    return logger


def guard_http_logs() -> None:
    """Redact what the HTTP client logs in this process; to be called by whoever makes calls with it."""
    for name in _HTTP_LOGGERS:
        logging.getLogger(name).addFilter(_FILTER)
