"""The secrets campaign: secrets of many kinds and encodings are planted in everything that is written.

A *group* (`groups.py`) sends planted secrets through some write paths, with real processes where a path is a
process. The judge then reads every byte that these left behind or printed. It shares no code with the
redactor.

    python -m tests.security.campaign          the table, in short
    CORTEX_REPLAY_TORTURE=1 python -m tests.security.campaign
"""
