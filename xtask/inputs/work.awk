@load "ordchr"
@load "filefuncs"
@load "fnmatch"
@load "readfile"
@load "rwarray"
@load "intdiv"
BEGIN {
    for (i = 65; i < 91; i++) text = text chr(i) ":" ord(chr(i)) " "
    print text
    print fnmatch("*.c", "main.c", 0), fnmatch("*.c", "main.h", 0)
    stat("work.awk", about); print about["name"], about["type"], about["size"]
    print length(readfile("work.awk"))
    for (i = 0; i < 200; i++) a[i] = (i * 7919) % 1009 "x"
    print writea("made.array", a); delete a; print reada("made.array", a), length(a), a[7]
    intdiv(1234567, 89, r); print r["quotient"], r["remainder"]
    n = split("the quick brown fox jumps over the lazy dog", w, " ")
    for (i = 1; i <= n; i++) { seen[w[i]]++; gsub(/o/, "0", w[i]); out = out toupper(w[i]) "-" }
    PROCINFO["sorted_in"] = "@ind_str_asc"
    for (k in seen) printf "%s=%d ", k, seen[k]
    print out, substr(out, 4, 9), sprintf("%5.2f|%x", 3.14159, 255)
}
