create table t(a integer primary key, b text, c real);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 300) insert into t select i, 'row ' || i, i / 3.0 from n;
create index t_b on t(b);
select count(*), sum(a), round(avg(c), 3) from t where b like 'row 1%';
select a % 7 as k, group_concat(b) from t where a < 40 group by k order by k desc;
update t set b = upper(b) where a % 10 = 0; delete from t where a > 250;
select x.b, y.c from t x join t y on x.a = y.a + 1 where x.a < 5 order by 1;
select json_extract('{"a":[1,2,{"b":3}]}', '$.a[2].b'), strftime('%Y', 0, 'unixepoch'), hex(zeroblob(4));
pragma integrity_check;
