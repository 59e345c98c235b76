//! The list of the spans that a thread has entered and not left, with the innermost span last.

use std::cell::RefCell;

use tracer::__bridge::EnteredSpan;

use crate::span::RecordedSpan;

/// A span that a thread has entered and not left.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entered {
    /// The span's id in `tracing`.
    pub(crate) called: u64,
    /// The span's id in the trace, and its callsite's data.
    pub(crate) span: RecordedSpan,
    /// The data that are needed to record that the span is left; `None` if the entry was not recorded.
    pub(crate) entered: Option<EnteredSpan>,
}

thread_local! {
    static ENTERED: RefCell<Vec<Entered>> = const { RefCell::new(Vec::new()) };
}

/// Records that the calling thread enters a span. Records nothing if the thread's list of entered spans no longer
/// exists, as in a destructor of another thread-local: the exit could not be recorded either.
#[inline]
pub(crate) fn enter(called: u64, span: RecordedSpan) {
    let _ = ENTERED.try_with(|all| {
        if let Ok(mut all) = all.try_borrow_mut() {
            all.push(Entered { called, span, entered: span.kind.site.enter(span.id) });
        }
    });
}

/// Records that the calling thread leaves the span `called`, if the thread has entered it.
#[inline]
pub(crate) fn leave(called: u64) {
    let taken = ENTERED.try_with(|all| {
        let mut all = all.try_borrow_mut().ok()?;
        match all.pop()? {
            last if last.called == called => Some(last),
            last => {
                all.push(last);
                // Guards may be dropped in any order.
                all.iter().rposition(|entered| entered.called == called).map(|at| all.remove(at))
            }
        }
    });
    if let Ok(Some(Entered { span, entered: Some(entered), .. })) = taken {
        entered.leave(span.id);
    }
}

/// Returns the innermost span that the calling thread has entered and not left.
#[inline]
pub(crate) fn current() -> Option<Entered> {
    ENTERED.try_with(|all| all.try_borrow().ok()?.last().copied()).ok().flatten()
}
