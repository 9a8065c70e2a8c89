"""Calls of clients that nobody here wrote, recorded and replayed as they go over the wire.

No sockets: a gateway, or whatever intercepts a client within its own process, brings a
:class:`~cortex_replay.engine.http.call.Call` and carries away a reply.
"""
