"""The steps that compare and set in Redis at once. Each answers what happened, and moves nothing unless it is "done".

A version is retired meta first, and no bucket gets a lifetime while the meta has none.
"""

# KEYS: live, meta. ARGV: the version as JSON, its day. Answers what happened, and what was live.
ADVANCE = """
local live = redis.call('GET', KEYS[1])
if live and cjson.decode(live)['day'] > ARGV[2] then return {'newer', live} end
local left = redis.call('TTL', KEYS[2])
if left == -2 then return {'gone', live or ''} end
if left ~= -1 then return {'retired', live or ''} end
redis.call('SET', KEYS[1], ARGV[1])
return {'done', live or ''}
"""

# KEYS: live, meta. ARGV: the id that must be live, the version to point to as JSON or nothing.
REPLACE = """
local live = redis.call('GET', KEYS[1])
if not live or cjson.decode(live)['id'] ~= ARGV[1] then return 'changed' end
if ARGV[2] == '' then redis.call('DEL', KEYS[1]) return 'done' end
local left = redis.call('TTL', KEYS[2])
if left == -2 then return 'gone' end
if left ~= -1 then return 'retired' end
redis.call('SET', KEYS[1], ARGV[2])
return 'done'
"""

# KEYS: live, meta, and buckets. ARGV: id, seconds for the meta, seconds for the buckets.
RETIRE = """
local live = redis.call('GET', KEYS[1])
if live and cjson.decode(live)['id'] == ARGV[1] then return 0 end
if #KEYS == 2 then return redis.call('EXPIRE', KEYS[2], ARGV[2]) end
if redis.call('TTL', KEYS[2]) == -1 then return 0 end
for place = 3, #KEYS do redis.call('EXPIRE', KEYS[place], ARGV[3]) end
return 1
"""

# KEYS: live, meta. ARGV: id.
FORGET = """
local live = redis.call('GET', KEYS[1])
if live and cjson.decode(live)['id'] == ARGV[1] then return 0 end
redis.call('DEL', KEYS[2])
return 1
"""
