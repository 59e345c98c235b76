//! `scope!`: the code that records that a function is entered and left, with values.

use proc_macro2::{Ident, Span, TokenStream};
use quote::quote_spanned;

use crate::call::{self, RecordContent, Texts};

/// Returns the code for `scope!(..)`: an expression whose value is the guard, which records the end of the function
/// when the guard is dropped.
pub(crate) fn expand(input: TokenStream) -> TokenStream {
    expand_at(Span::mixed_site(), input)
}

/// Returns the code for `scope!(..)` with a site on the line of `at`.
pub(crate) fn expand_at(at: Span, input: TokenStream) -> TokenStream {
    let site = function_site(at);
    if input.is_empty() {
        return quote_spanned! {Span::mixed_site()=> {
            let site = #site;
            if site.is_on(site.word()) { site.enter() } else { ::tracer::Scope::off() }
        }};
    }
    let values = call::expand_as(RecordContent::Values, input);
    quote_spanned! {Span::mixed_site()=> {
        let site = #site;
        if site.is_on(site.word()) {
            let (scope, ticks) = site.enter_with();
            #values
            scope
        } else {
            ::tracer::Scope::off()
        }
    }}
}

/// Returns an expression that is the site of the function in which the expression stands. The site's line is that of
/// `at`.
pub(crate) fn function_site(at: Span) -> TokenStream {
    call::site(&Ident::new("Function", Span::mixed_site()), &Texts::default(), at)
}
