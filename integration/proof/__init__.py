"""The figures of ``docs/proof.md``: what happens when processes are killed, power is lost, bits flip.

    python -m integration.proof                all of it, in about 20 minutes on two cores
    python -m integration.proof --only kills   one of them; the figures of others stay
    python -m integration.proof --short        in a few minutes, with fewer cases
    python -m integration.proof --long         with more cases

Planted bugs and flakiness take hours: those two publish what runs of theirs have kept in ``.proof/``.

Each module here is one proof: it makes rows, ours and those of others, of the same test.
"""
