"""Shards: rows in many places, counted by any scheduler, released in one.

The officer makes two keys (`make_keys`) and a request (`ShardRequest`). Each shard is counted by a process that has the
request and the key for counting (`count_shard`), and leaves a partial: private, encrypted, of no use without the key
for release. `Partials` is all of them as one source, for every function that fits, releases or counts.

What users name; it lives behind the door, in `private/partials`.
"""

from .private.partials import Partials, ShardRequest, count_shard
from .private.sealed import CountingKey, ReleaseKey, make_keys

__all__ = ["CountingKey", "Partials", "ReleaseKey", "ShardRequest", "count_shard", "make_keys"]
