"""The scripts that the server of Redis or Valkey carries out, each an atomic step on one key.

A record is a string: its version as 16 digits, then the value. An index is a sorted set of names
by the microsecond at which they expire. A log is a list: first its state (the fence, the number of
the oldest entry that is kept, and whether it is closed), then the entries. A bucket is a string:
what is in it, and the microsecond of that.

The first change of each script is one that a full server refuses, so that it refuses all of it.
"""

from hashlib import sha1
from typing import Final

__all__ = [
    "ADD",
    "APPEND",
    "COUNT",
    "DELETE",
    "MEMBERS",
    "PUT",
    "READ",
    "REMOVE",
    "SEIZE",
    "TAKE",
    "VERSION_DIGITS",
    "Script",
]

VERSION_DIGITS: Final = 16
"""Microseconds since 1970 have as many until the year 2286."""


class Script:
    """A script with the digest by which servers know it.

    Args:
        parts: its text.
        is_repeatable: whether it does no harm if it runs twice.
    """

    def __init__(self, *parts: str, is_repeatable: bool = False) -> None:
        self.is_repeatable = is_repeatable
        self.source = "\n".join(parts).encode()
        self.digest = sha1(self.source, usedforsecurity=False).hexdigest().encode()


_NOW = """
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
"""

# A version is the time, so that it is not used again after the record is gone.
PUT: Final = Script(
    _NOW,
    """
    local old = tonumber(redis.call('GETRANGE', KEYS[1], 0, 15)) or 0
    local expected = tonumber(ARGV[3])
    if expected and expected ~= old then return {redis.call('GET', KEYS[1])} end
    local version = math.max(old + 1, now)
    redis.call('SET', KEYS[1], string.format('%016.0f', version) .. ARGV[1], 'PX', ARGV[2])
    return version
    """,
)

DELETE: Final = Script(
    """
    local old = tonumber(redis.call('GETRANGE', KEYS[1], 0, 15))
    if old and old ~= tonumber(ARGV[1]) then return {redis.call('GET', KEYS[1])} end
    return redis.call('DEL', KEYS[1])
    """
)

# Lua takes some thousands of arguments in one call, not more.
ADD: Final = Script(
    _NOW,
    """
    local expires = now + ARGV[1] * 1000
    for start = 2, #ARGV, 1000 do
        local pairs = {}
        for i = start, math.min(start + 999, #ARGV) do
            pairs[#pairs + 1] = expires
            pairs[#pairs + 1] = ARGV[i]
        end
        redis.call('ZADD', KEYS[1], unpack(pairs))
    end
    redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
    local latest = redis.call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')
    redis.call('PEXPIRE', KEYS[1], math.ceil((latest[2] - now) / 1000))
    """,
    is_repeatable=True,
)

REMOVE: Final = Script(
    _NOW,
    """
    local removed = 0
    for _, name in ipairs(ARGV) do
        local expires = redis.call('ZSCORE', KEYS[1], name)
        if expires then
            if tonumber(expires) > now then removed = removed + 1 end
            redis.call('ZREM', KEYS[1], name)
        end
    end
    return removed
    """,
)

MEMBERS: Final = Script(
    _NOW,
    """
    return redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. string.format('%.0f', now), '+inf',
        'LIMIT', 0, ARGV[1])
    """,
    is_repeatable=True,
)

COUNT: Final = Script(
    _NOW,
    "return redis.call('ZCOUNT', KEYS[1], '(' .. string.format('%.0f', now), '+inf')",
    is_repeatable=True,
)

_LOG = """
local key = KEYS[1]
local state = redis.call('LINDEX', key, 0)
local fence, first, last, is_closed = 0, 1, 0, false
if state then
    local a, b, c = string.match(state, '^(%d+) (%d+) (%d)$')
    fence, first, is_closed = tonumber(a), tonumber(b), c == '1'
    last = first + redis.call('LLEN', key) - 2
end
local function describe() return
    string.format('%.0f %.0f %d', fence, first, is_closed and 1 or 0)
end
"""

APPEND: Final = Script(
    _LOG,
    """
    local ttl, given, after = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
    local is_final, keep, topics = ARGV[4] == '1', tonumber(ARGV[5]), tonumber(ARGV[6])
    if (given and given < fence) or is_closed or (after and after ~= last) then
        return {fence, last, is_closed and 1 or 0}
    end

    if given then fence = given end
    is_closed = is_final
    local changed = describe()
    if not state then
        redis.call('RPUSH', key, changed)
    elseif changed ~= state then
        redis.call('LSET', key, 0, changed)
    end
    local begin = 7 + topics
    for start = begin, #ARGV, 1000 do
        redis.call('RPUSH', key, unpack(ARGV, start, math.min(start + 999, #ARGV)))
    end
    last = last + #ARGV - begin + 1
    local surplus = last - first + 1 - keep
    if keep > 0 and surplus > 0 then
        first = first + surplus
        redis.call('LTRIM', key, 1 + surplus, -1)
        redis.call('LPUSH', key, describe())
    end
    redis.call('PEXPIRE', key, ttl)
    for i = 7, 6 + topics do redis.call('PUBLISH', ARGV[i], '') end
    return last
    """,
)

READ: Final = Script(
    _LOG,
    """
    if not state then return false end
    local from = math.max(ARGV[1] + 1, first)
    local items = {}
    if from <= last then
        local to = math.min(from + ARGV[2] - 1, last)
        items = redis.call('LRANGE', key, from - first + 1, to - first + 1)
    end
    return {fence, last, is_closed and 1 or 0, from, items}
    """,
    is_repeatable=True,
)

SEIZE: Final = Script(
    _LOG,
    """
    if not state or is_closed or fence ~= tonumber(ARGV[1]) then return 0 end
    fence = fence + 1
    redis.call('LSET', key, 0, describe())
    return 1
    """,
)

# Only what was taken is written: the rest follows from the time. Numbers as in `backend_rules`.
TAKE: Final = Script(
    _NOW,
    """
    local cost, rate, burst = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
    local level = burst
    local kept = redis.call('GET', KEYS[1])
    if kept then
        local amount, at = string.match(kept, '^(%S+) (%S+)$')
        level = math.min(burst, amount + math.max(0, now - at) * rate / 1000000)
    end
    if cost > level + 1e-6 then
        if cost > burst or rate <= 0 then return 'inf' end
        return string.format('%.17g', (cost - level) / rate)
    end
    level = math.max(0, level - cost)
    local fills_in = 86400000
    if rate > 0 then fills_in = math.min(2^40, math.ceil((burst - level) / rate * 1000)) end
    redis.call('SET', KEYS[1], string.format('%.17g %.0f', level, now), 'PX',
        string.format('%.0f', math.max(1, fills_in)))
    return false
    """,
)
