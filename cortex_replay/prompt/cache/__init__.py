"""What a prompt cache would do with a row of calls, and what that costs. `docs/cache.md` is the guide.

Pure: calls go in, with their blocks, sizes and times; what each reads, writes and pays afresh comes out.
Caches are kept per organisation; here all calls of a row are of one.
"""
