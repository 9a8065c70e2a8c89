"""What is called a secret, and what is one: the one list for variables, headers, fields and settings.

The recorder, the gateway, ``scan``, the configuration and the environment of a command all ask here, so
that none of them knows a name that the others do not.
"""
