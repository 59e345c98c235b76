" Files of threads, and merged files.
autocmd BufRead,BufNewFile *.trace.[0-9]*,*.trace.merge setfiletype tracemerge
