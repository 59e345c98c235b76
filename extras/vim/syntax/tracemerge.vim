" Colours of merged traces: keys of any --time, kinds, functions, metadata. docs/trace-format.md describes the lines.
" Install: copy extras/vim/* to ~/.vim.
if exists("b:current_syntax")
  finish
endif

" The time and the thread: 16 hex digits and a dash, a time of the day, or seconds.
syntax match traceKey "^\(\x\{16}-\| *[0-9.+-]\+ \|\d\{4}-\d\d-\d\dT\S\+ \)\(\S\+\/\)\?\d\{8,}"
      \ nextgroup=traceMessage,traceEnter,traceLeave,traceStack,traceLock,traceMeta,traceLoss
syntax match traceMessage " [:|]" contained
syntax match traceEnter " >.*$" contained contains=tracePlace
syntax match traceLeave " <.*$" contained contains=tracePlace
syntax match traceStack " \^.*$" contained
syntax match traceLock " !.*$" contained
syntax match traceMeta " #.*$" contained
syntax match traceLoss " # \(lost\|damaged\|stall\|wait\)\>.*$" contained
syntax match tracePlace " at \S\+:\d\+$" contained
syntax match traceEscape "\\x\x\x"

highlight default link traceKey Comment
highlight default link traceMessage Delimiter
highlight default link traceEnter Function
highlight default link traceLeave Statement
highlight default link traceStack Special
highlight default link traceLock Type
highlight default link traceMeta PreProc
highlight default link traceLoss Error
highlight default link tracePlace Directory
highlight default link traceEscape SpecialChar

let b:current_syntax = "tracemerge"
