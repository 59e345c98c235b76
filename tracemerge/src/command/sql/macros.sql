-- Questions that have a name. Numbers that end in _ns are nanoseconds; docs/guide.md describes each.

-- The calls of each function, as in `tracemerge report`: of a recursive function, the outermost calls have all time.
create or replace macro functions() as table
with recursive
-- Calls that begin before an earlier call of the function in the thread has ended may be inside of it.
ordered as (
    select host, run, tid, call, parent, function, place, begin,
        max("end") over (
            partition by host, run, tid, function, place order by call rows between unbounded preceding and 1 preceding
        ) as latest_end
    from calls
),
around as (
    select host, run, call, function, place, parent, false as met
    from ordered where parent is not null and latest_end >= begin
    union all
    select a.host, a.run, a.call, a.function, a.place, c.parent,
        c.function is not distinct from a.function and c.place is not distinct from a.place
    from around as a
    join calls as c on c.run = a.run and c.call = a.parent and c.host is not distinct from a.host
    where not a.met
),
inner_calls as (select distinct host, run, call from around where met)
select count(*) as calls,
    coalesce(sum(c.duration) filter (where i.call is null), 0)::bigint as total_ns,
    sum(c.own)::bigint as self_ns,
    min(c.duration) as min_ns,
    (sum(c.duration) // count(*))::bigint as average_ns,
    max(c.duration) as max_ns,
    quantile_disc(c.duration, 0.99) as p99_ns,
    c.function, c.place
from calls as c
left join inner_calls as i on i.run = c.run and i.call = c.call and i.host is not distinct from c.host
group by c.function, c.place
order by total_ns desc, c.function, c.place;

-- The slowest calls, each with the functions around it, of which the nearest 64 are named.
create or replace macro slowest_calls(n := 10) as table
with recursive
slowest as (select * from calls order by duration desc, begin, run, call limit n),
path as (
    select host, run, call, coalesce(function, '?') as names, parent, 1 as length from slowest
    union all
    select p.host, p.run, p.call, coalesce(c.function, '?') || ' > ' || p.names, c.parent, p.length + 1
    from path as p
    join calls as c on c.run = p.run and c.call = p.parent and c.host is not distinct from p.host
    where p.length < 64
),
whole as (
    select host, run, call, arg_max(names, length) as names, arg_max(parent is not null, length) as is_cut
    from path group by host, run, call
)
select s.duration as duration_ns, s.own as self_ns, s.begin, s.host, s.run, s.thread,
    if(w.is_cut, '… > ', '') || w.names as path, s.place
from slowest as s
join whole as w on w.run = s.run and w.call = s.call and w.host is not distinct from s.host
order by duration_ns desc, s.begin, s.run, s.call;

-- The longest times between two records of a thread, with both; of the threads whose label is like `which`.
create or replace macro gaps(which := '%', n := 10) as table
select ((epoch_us("end") - epoch_us(begin)) * 1000)::bigint as gap_ns, begin, "end", host, run, thread, last_record, next_record
from (
    select host, run, tid, thread, wall as "end", lag(wall) over w as begin,
        coalesce(message, function, kind) as next_record,
        lag(coalesce(message, function, kind)) over w as last_record
    from records where thread like which
    window w as (partition by host, run, tid order by record)
)
where begin is not null
order by gap_ns desc, begin, run, thread limit n;

-- The time from the last record of each thread to the last one of its run.
create or replace macro silences() as table
with last_records as (
    select host, run, tid, max_by(thread, record) as thread, max(wall) as last_seen, count(*) as records,
        arg_max(coalesce(message, function, kind), record) as last_record,
        bool_or(kind = 'end') as has_ended
    from records group by host, run, tid
)
select ((epoch_us(max(last_seen) over (partition by host, run)) - epoch_us(last_seen)) * 1000)::bigint as silent_ns,
    last_seen, has_ended, records, host, run, thread, last_record
from last_records
order by silent_ns desc, run, thread;

-- Who waited for whom: the waits for locks, conditions and words, by thread, object, and the thread that held the lock or
-- woke the waiting one; `tracemerge locks` has the same waits and times.
create or replace macro lock_waits() as table
with labels as (select host, run, tid, max_by(thread, ticks) as thread from records group by host, run, tid)
select count(*) as waits, sum(w.duration)::bigint as waited_ns, max(w.duration) as longest_ns,
    count(*) filter (where w.ending = 'open') as open,
    w.kind, w.object, w.thread as waiting, coalesce(l.thread, w.holder::varchar) as holder, w.place, w.since, w.made,
    w.host, w.run
from waits as w
left join labels as l on l.run = w.run and l.tid = w.holder and l.host is not distinct from w.host
where w.kind <> 'tracer'
group by all
order by waited_ns desc, w.run, w.kind, w.object, waiting, holder, w.place;

-- The spans of each name that spans of one name have opened, as in `tracemerge spans`.
create or replace macro span_names() as table
select count(*) as spans,
    quantile_disc(s.duration, 0.5) as wall_p50_ns,
    quantile_disc(s.duration, 0.99) as wall_p99_ns,
    max(s.duration) as wall_max_ns,
    max(s.busy) as busy_max_ns,
    max(s.idle) as idle_max_ns,
    sum(s.duration)::bigint as wall_total_ns,
    sum(s.polls)::bigint as polls,
    count(*) filter (where s.ending = 'cancelled') as cancelled,
    count(*) filter (where s.ending = 'open') as open,
    s.name, p.name as opened_by
from spans as s
left join spans as p on p.run = s.run and p.span = s.parent and p.host is not distinct from s.host
group by s.name, p.name
order by wall_total_ns desc, s.name, opened_by;

-- The slowest spans, as in `tracemerge spans --slow`.
create or replace macro slowest_spans(n := 10) as table
select s.duration as wall_ns, s.busy as busy_ns, s.idle as idle_ns, s.polls, s.name, s.span, s.fields, s.ending,
    s.begin, s.host, s.run, s.thread, s.parent, p.name as opened_by
from spans as s
left join spans as p on p.run = s.run and p.span = s.parent and p.host is not distinct from s.host
order by wall_ns desc, s.begin, s.run, s.span limit n;

-- The time of a span, divided among itself and the spans below it: a moment belongs to the innermost span that is open
-- then. Of several that a span has opened, it is the one that ends last, for which the others need not wait.
create or replace macro critical_path(id, which := '%') as table
with recursive
tree as (
    select host, run, span, parent, name, thread, begin, "end", 0 as level from spans where span = id and run like which
    union all
    select s.host, s.run, s.span, s.parent, s.name, s.thread,
        greatest(s.begin, t.begin), least(s."end", t."end"), t.level + 1
    from tree as t
    join spans as s on s.run = t.run and s.parent = t.span and s.host is not distinct from t.host
    where t.level < 64 and s.begin < t."end" and s."end" > t.begin
),
moments as (select host, run, begin as moment from tree union select host, run, "end" from tree),
slices as (
    select host, run, moment as begin, lead(moment) over (partition by host, run order by moment) as "end" from moments
),
-- Of each slice and span, the span below it.
below as (
    select s.host, s.run, s.begin, t.parent, arg_max(t.span, (t."end", t.span)) as span
    from slices as s
    join tree as t on t.run = s.run and t.host is not distinct from s.host and t.begin <= s.begin and t."end" >= s."end"
    where t.level > 0
    group by s.host, s.run, s.begin, t.parent
),
down as (
    select s.host, s.run, s.begin, s."end", t.span, 0 as level
    from slices as s
    join tree as t on t.run = s.run and t.host is not distinct from s.host and t.level = 0
    where s."end" is not null
    union all
    select d.host, d.run, d.begin, d."end", b.span, d.level + 1
    from down as d
    join below as b on b.run = d.run and b.begin = d.begin and b.parent = d.span and b.host is not distinct from d.host
),
innermost as (
    select host, run, begin, "end", arg_max(span, level) as span from down group by host, run, begin, "end"
),
marked as (
    select *, span is distinct from lag(span) over (partition by host, run order by begin) as is_new from innermost
),
numbered as (
    select *, sum(is_new::int) over (partition by host, run order by begin) as part from marked
)
select min(n.begin) as begin, ((epoch_us(max(n."end")) - epoch_us(min(n.begin))) * 1000)::bigint as duration_ns,
    t.name, n.span, t.level, n.host, n.run, t.thread
from numbered as n
join tree as t on t.run = n.run and t.span = n.span and t.host is not distinct from n.host
group by n.host, n.run, n.part, n.span, t.name, t.level, t.thread
order by n.host, n.run, begin;

-- The functions of two runs, or of two groups of runs whose names are like `earlier` and `later`: the largest change of
-- the time without the calls inside first.
create or replace macro before_and_after(earlier, later) as table
with sums as (
    select function, place,
        count(*) filter (where run like earlier) as calls_before,
        count(*) filter (where run like later) as calls_after,
        coalesce(sum(own) filter (where run like earlier), 0)::bigint as self_before_ns,
        coalesce(sum(own) filter (where run like later), 0)::bigint as self_after_ns,
        quantile_disc(duration, 0.5) filter (where run like earlier) as median_before_ns,
        quantile_disc(duration, 0.5) filter (where run like later) as median_after_ns
    from calls where run like earlier or run like later
    group by function, place
)
select calls_before, calls_after, self_before_ns, self_after_ns, self_after_ns - self_before_ns as change_ns,
    median_before_ns, median_after_ns, round(median_after_ns / median_before_ns, 2) as ratio, function, place
from sums
order by abs(change_ns) desc, function, place;

-- The messages of each template, and how many there are in each second of the runs that have them.
create or replace macro templates() as table
with counted as (
    select host, run, template, place, count(*) as messages, count(distinct tid) as threads, min(wall) as first, max(wall) as last
    from records where kind = 'message' and template is not null
    group by host, run, template, place
),
timed as (
    select c.*, epoch_us(r."end") - epoch_us(r.begin) as us
    from counted as c
    join runs as r on r.run = c.run and r.host is not distinct from c.host
)
select sum(messages)::bigint as messages, round(sum(messages) * 1e6 / nullif(sum(us), 0), 3) as per_second,
    sum(threads)::bigint as threads, min(first) as first, max(last) as last, template, place
from timed
group by template, place
order by messages desc, template, place;
