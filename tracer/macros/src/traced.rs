//! `#[traced]`: from functions to functions whose calls are recorded.
//!
//! The body stays where it is, behind a guard: lifetimes, `impl Trait`, `?` and `return` mean what they meant.
//! Where the returned value is recorded, the body is moved into a closure that is called at once, and that of
//! an asynchronous function into a future that is polled inside of a span.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens as _, format_ident, quote, quote_spanned};
use syn::ext::IdentExt as _;
use syn::parse::{ParseStream, Parser as _};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned as _;
use syn::visit::Visit;
use syn::{
    Attribute, Block, FnArg, ImplItem, Item, Meta, Pat, ReturnType, Signature, Token, TraitItem, Type,
};

use crate::call::{self, RecordOf};
use crate::scope::function_site;

/// What is recorded of each call.
#[derive(Clone, Debug, Default)]
struct Options {
    /// Nothing at all.
    nothing: bool,
    /// The arguments and the returned value, but for these.
    values: Option<Vec<Ident>>,
}

/// Returns the item with its functions traced.
pub(crate) fn expand(arguments: TokenStream, item: TokenStream) -> syn::Result<TokenStream> {
    let options = options.parse2(arguments)?;
    let mut item = syn::parse2::<Item>(item)?;
    let why = match &item {
        Item::Fn(function) => untraceable(&function.sig, &function.attrs),
        Item::Impl(_) | Item::Trait(_) => None,
        Item::Mod(module) if module.content.is_some() => None,
        Item::Mod(_) => Some("a module whose content stands in another file"),
        Item::Verbatim(_) => Some("a function without a body"),
        _ => Some("what is neither a function nor an `impl`, a `trait` or a `mod`"),
    };
    if let Some(why) = why {
        return Err(syn::Error::new(item.span(), format!("{why} cannot be traced")));
    }
    trace_item(&options, &mut item)?;
    Ok(item.into_token_stream())
}

fn options(input: ParseStream) -> syn::Result<Options> {
    let mut options = Options::default();
    for option in Punctuated::<Meta, Token![,]>::parse_terminated(input)? {
        match &option {
            Meta::Path(path) if path.is_ident("args") => {
                options.values.get_or_insert_default();
            }
            Meta::Path(path) if path.is_ident("skip") => options.nothing = true,
            Meta::List(list) if list.path.is_ident("skip") => {
                // `self` is one.
                let names = |input: ParseStream| {
                    Punctuated::<Ident, Token![,]>::parse_terminated_with(input, Ident::parse_any)
                };
                options.values.get_or_insert_default().extend(list.parse_args_with(names)?);
            }
            other => {
                let why = "expected `args`, `skip` or `skip(argument, ..)`";
                return Err(syn::Error::new(other.span(), why));
            }
        }
    }
    Ok(options)
}

/// Traces the functions of an item, and of the items in it.
fn trace_item(options: &Options, item: &mut Item) -> syn::Result<()> {
    match item {
        Item::Fn(function) => {
            trace_function(options, &mut function.attrs, &function.sig, Some(&mut function.block))
        }
        Item::Impl(item) => item.items.iter_mut().try_for_each(|item| match item {
            ImplItem::Fn(method) => {
                trace_function(options, &mut method.attrs, &method.sig, Some(&mut method.block))
            }
            _ => Ok(()),
        }),
        Item::Trait(item) => item.items.iter_mut().try_for_each(|item| match item {
            TraitItem::Fn(method) => {
                trace_function(options, &mut method.attrs, &method.sig, method.default.as_mut())
            }
            _ => Ok(()),
        }),
        Item::Mod(module) => {
            let items = module.content.iter_mut().flat_map(|(_, items)| items);
            items.into_iter().try_for_each(|item| trace_inner_item(options, item))
        }
        _ => Ok(()),
    }
}

/// Traces an item of a module by its own attribute, if it has one, and by the module's otherwise.
fn trace_inner_item(options: &Options, item: &mut Item) -> syn::Result<()> {
    let attributes = match item {
        Item::Impl(item) => &mut item.attrs,
        Item::Trait(item) => &mut item.attrs,
        Item::Mod(item) => &mut item.attrs,
        other => return trace_item(options, other),
    };
    let own = take_own(attributes)?;
    trace_item(own.as_ref().unwrap_or(options), item)
}

/// Traces a function by its own attribute, if it has one, and by the one of what it is in otherwise. What
/// cannot be traced is left as it is.
fn trace_function(
    options: &Options,
    attributes: &mut Vec<Attribute>,
    signature: &Signature,
    body: Option<&mut Block>,
) -> syn::Result<()> {
    let own = take_own(attributes)?;
    match body {
        Some(body) if untraceable(signature, attributes).is_none() => {
            trace(own.as_ref().unwrap_or(options), signature, body)
        }
        _ => Ok(()),
    }
}

/// Takes the attribute `#[traced]` from a list of attributes; returns what it says, if it is there.
fn take_own(attributes: &mut Vec<Attribute>) -> syn::Result<Option<Options>> {
    let is_own = |attribute: &Attribute| {
        attribute.path().segments.last().is_some_and(|segment| segment.ident == "traced")
    };
    let Some(at) = attributes.iter().position(is_own) else { return Ok(None) };
    match attributes.remove(at).meta {
        Meta::List(list) => options.parse2(list.tokens).map(Some),
        _ => Ok(Some(Options::default())),
    }
}

/// Returns what makes a function one that cannot have a guard; `None` where it can.
fn untraceable(signature: &Signature, attributes: &[Attribute]) -> Option<&'static str> {
    let is_naked = |attribute: &Attribute| {
        let list = attribute.meta.require_list().map(|list| list.tokens.to_string()).unwrap_or_default();
        attribute.path().is_ident("naked") || (attribute.path().is_ident("unsafe") && list == "naked")
    };
    let is_foreign = |abi: &syn::Abi| abi.name.as_ref().is_none_or(|name| name.value() != "Rust");
    if signature.constness.is_some() {
        Some("a `const fn`, which may run in the compiler,")
    } else if signature.abi.as_ref().is_some_and(is_foreign) {
        Some("a function of a foreign ABI, which its callers know by its instructions,")
    } else if attributes.iter().any(is_naked) {
        Some("a naked function, which has nothing but its instructions,")
    } else {
        None
    }
}

/// Has each call of a function recorded.
fn trace(options: &Options, signature: &Signature, body: &mut Block) -> syn::Result<()> {
    if options.nothing {
        return Ok(());
    }
    let values = options.values.as_ref().map(|skipped| Values::of(signature, skipped)).transpose()?;
    let values = values.unwrap_or_default();
    let traced = if signature.asyncness.is_some() {
        asynchronous(&values, signature, body)
    } else {
        synchronous(&values, signature, body)
    };
    *body = syn::parse2(quote_spanned!(body.brace_token.span.join()=> { #traced }))?;
    Ok(())
}

/// The values of a call that are recorded.
#[derive(Debug, Default)]
struct Values {
    arguments: Vec<Ident>,
    returned: bool,
}

impl Values {
    fn of(signature: &Signature, skipped: &[Ident]) -> syn::Result<Values> {
        let mut names = Names::default();
        for input in &signature.inputs {
            match input {
                FnArg::Receiver(receiver) => names.0.push(receiver.self_token.into()),
                FnArg::Typed(argument) => names.visit_pat(&argument.pat),
            }
        }
        let returns = Ident::new("ret", Span::call_site());
        for name in skipped {
            if *name != returns && !names.0.contains(name) {
                return Err(syn::Error::new(
                    name.span(),
                    format!("there is no argument `{name}` to be skipped"),
                ));
            }
        }
        let is_value = match &signature.output {
            ReturnType::Default => false,
            ReturnType::Type(_, of) => !matches!(**of, Type::Never(_)),
        };
        let returned = is_value && !skipped.contains(&returns);
        names.0.retain(|name| !skipped.contains(name));
        Ok(Values { arguments: names.0, returned })
    }

    /// Returns the arguments of `trace!` for the values of the arguments; `None` where there are none.
    fn of_arguments(&self) -> Option<TokenStream> {
        let names = self.arguments.iter().map(|name| format!("{}={{:?}}", name.unraw())).collect::<Vec<_>>();
        let (text, arguments) = (names.join(" "), &self.arguments);
        (!names.is_empty()).then(|| quote!(#text, #(#arguments),*))
    }
}

/// The names that a pattern binds.
#[derive(Debug, Default)]
struct Names(Vec<Ident>);

impl<'a> Visit<'a> for Names {
    fn visit_pat(&mut self, pattern: &'a Pat) {
        if let Pat::Ident(name) = pattern {
            self.0.push(name.ident.clone());
        }
        syn::visit::visit_pat(self, pattern);
    }

    fn visit_expr(&mut self, _: &'a syn::Expr) {}
}

/// Returns the type that the body must have, where it can be written.
fn returned_type(signature: &Signature) -> Option<&Type> {
    struct FindsImpl(bool);
    impl<'a> Visit<'a> for FindsImpl {
        fn visit_type_impl_trait(&mut self, _: &'a syn::TypeImplTrait) {
            self.0 = true;
        }
    }
    let ReturnType::Type(_, of) = &signature.output else { return None };
    let mut finds = FindsImpl(false);
    finds.visit_type(of);
    (!finds.0).then_some(of)
}

/// Returns the body of a function behind a guard.
fn synchronous(values: &Values, signature: &Signature, body: &Block) -> TokenStream {
    let statements = &body.stmts;
    let arguments = values.of_arguments();
    let scope = crate::scope::expand(arguments.unwrap_or_default());
    if !values.returned {
        return quote_spanned! {Span::mixed_site()=>
            let _scope = #scope;
            #(#statements)*
        };
    }
    let value = format_ident!("ret", span = Span::mixed_site());
    let returns = returned_type(signature).map(|of| quote!(-> #of));
    let record = call::expand_as(RecordOf::Values, quote!("ret={:?}", #value));
    quote_spanned! {Span::mixed_site()=>
        let scope = #scope;
        #[allow(clippy::redundant_closure_call, clippy::blocks_in_conditions, reason = "`return` and `?` in it")]
        let #value = (move || #returns { #(#statements)* })();
        scope.leave_with(|ticks| #record);
        #value
    }
}

/// Returns the body of an asynchronous function inside of a span.
fn asynchronous(values: &Values, signature: &Signature, body: &Block) -> TokenStream {
    let statements = &body.stmts;
    let site = function_site();
    let arguments = values.of_arguments().map(|arguments| call::expand_as(RecordOf::Values, arguments));
    let typed = match &signature.output {
        ReturnType::Default => Some(quote!(())),
        _ => returned_type(signature).map(|of| quote!(#of)),
    };
    // Says of which type the body is, and is never run.
    let typed = typed.map(|of| {
        quote_spanned! {Span::mixed_site()=>
            #[allow(unreachable_code, clippy::diverging_sub_expression, clippy::empty_loop, reason = "never run")]
            if false {
                let never: #of = loop {};
                return never;
            }
        }
    });
    let value = format_ident!("ret", span = Span::mixed_site());
    let arguments = arguments.map(|record| quote_spanned!(Span::mixed_site()=> call.begin(|ticks| #record);));
    let record = values.returned.then(|| call::expand_as(RecordOf::Values, quote!("ret={:?}", #value)));
    quote_spanned! {Span::mixed_site()=>
        let mut call = ::tracer::__macro_support::AsyncCall::new(#site);
        #arguments
        let body = ::core::pin::pin!(async move { #typed #(#statements)* });
        call.run(body, |ticks, #value| { let _ = (ticks, &#value); #record }).await
    }
}
