local t = {}
for i = 1, 300 do t[i] = (i * 7919) % 1009 end
table.sort(t, function(a, b) return a < b end)
local parts = {}
for i, v in ipairs(t) do parts[#parts + 1] = string.format("%d:%s", i, tostring(v)) end
local text = table.concat(parts, ",")
local words = 0
for k, v in text:gmatch("(%d+):(%d+)") do words = words + tonumber(k) * tonumber(v) end
print(words, #text, (text:gsub("1", "x")):sub(1, 40))
local co = coroutine.wrap(function(n) for i = 1, n do coroutine.yield(i * i) end end)
local sum = 0
for _ = 1, 50 do sum = sum + co(50) end
local Point = setmetatable({}, { __call = function(c, x) return setmetatable({ x = x }, c) end })
Point.__index = Point
Point.__add = function(a, b) return Point(a.x + b.x) end
local p = Point(0)
for i = 1, 500 do p = p + Point(i) end
collectgarbage()
print(sum, p.x, load("return 2 ^ 10 // 3")(), math.floor(3.7), utf8.char(228, 8364))
