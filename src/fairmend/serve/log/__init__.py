"""The decision log: every decision is on disk before it is answered, and rows cannot be rewritten.

`chain` says what makes a log tamper-evident, `writer` writes it, `store` reads it, `stores` holds
the databases, `audit` checks it, `person` shows and erases what is known of one person, `outcomes`
reads outcomes from a file.
"""

from fairmend.serve.log.audit import Verdict, export, verify
from fairmend.serve.log.chain import TABLES, LogBroken, LogKey, day_of, event
from fairmend.serve.log.store import EVER, LOGS, LogStore, LogTotals, Period, open_store
from fairmend.serve.log.writer import DecisionLog, Entry, LogUnavailable, Reply

__all__ = [
    "EVER",
    "LOGS",
    "TABLES",
    "DecisionLog",
    "Entry",
    "LogBroken",
    "LogKey",
    "LogStore",
    "LogTotals",
    "LogUnavailable",
    "Period",
    "Reply",
    "Verdict",
    "day_of",
    "event",
    "export",
    "open_store",
    "verify",
]
