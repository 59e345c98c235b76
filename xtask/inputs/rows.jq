[.rows[] | {id, n: (.name | ascii_downcase | length), t: (.tags | join("-")), s: (.v // 0 | tostring)}],
([range(200) | . * 3 % 7] | sort | group_by(.) | map(length)), (.rows | map(.name | test("^[a-zA-Z]+$")))
