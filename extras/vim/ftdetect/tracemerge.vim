" Files of threads, and merged ones.
autocmd BufRead,BufNewFile *.trace.[0-9]*,*.trace.merge setfiletype tracemerge
