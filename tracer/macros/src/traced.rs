//! `#[traced]`: turns functions into functions whose calls are recorded.
//!
//! The body stays in its place, after a guard, so lifetimes, `impl Trait`, `?` and `return` keep their meaning. If
//! the returned value is recorded, the body moves into a closure that is called at once. The body of an asynchronous
//! function moves into a future that is polled inside a span, and so does an `async` block that a function returns
//! ([`returned_block`](crate::returned_block)). The added code does not need an `allow`, because a
//! program may forbid that.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens as _, quote, quote_spanned};
use syn::ext::IdentExt as _;
use syn::parse::{ParseStream, Parser as _};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned as _;
use syn::visit::Visit;
use syn::visit_mut::VisitMut;
use syn::{
    Attribute, Block, ExprAsync, FnArg, ImplItem, Item, Meta, Pat, ReturnType, Signature, Stmt, Token,
    TraitItem, Type,
};

use crate::call::{self, RecordContent};
use crate::returned_block::{change_returned_blocks, mentions, returns_future, warning};
use crate::scope::function_site;

/// The options of `#[traced]`: the data to record for each call.
#[derive(Clone, Debug, Default)]
struct Options {
    /// True to record nothing at all.
    nothing: bool,
    /// The names of the values that are not recorded, among the arguments and `ret`, the returned value; `None` if no
    /// values are recorded at all.
    values: Option<Vec<Ident>>,
    /// True if the options were given to the `impl`, `trait` or module that contains the function. Then it is no error
    /// if the function cannot be traced, or does not have the arguments that are left out.
    inherited: bool,
}

/// Returns the item with its functions traced.
pub(crate) fn expand(arguments: TokenStream, item: TokenStream) -> syn::Result<TokenStream> {
    let options = options.parse2(arguments)?;
    let mut item = syn::parse2::<Item>(item)?;
    let why = match &item {
        Item::Fn(_) => None,
        Item::Impl(_) | Item::Trait(_) => None,
        Item::Mod(module) if module.content.is_some() => None,
        Item::Mod(_) => Some("a module whose content is in another file"),
        Item::Verbatim(_) => Some("a function without a body"),
        _ => Some("an item other than a function, an `impl`, a `trait` or a `mod`"),
    };
    if let Some(why) = why {
        return Err(make_error(why, item.span()));
    }
    let inherited = !matches!(item, Item::Fn(_));
    trace_item(&Options { inherited, ..options }, &mut item)?;
    Ok(item.into_token_stream())
}

fn make_error(why: &str, at: Span) -> syn::Error {
    syn::Error::new(at, format!("{why} cannot be traced"))
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
                // `self`, a keyword, may be one of them.
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

/// Makes the functions of an item, and of the items in it, record their calls.
fn trace_item(options: &Options, item: &mut Item) -> syn::Result<()> {
    match item {
        Item::Fn(function) => {
            trace_function(options, &function.attrs, &function.sig, Some(&mut function.block))
        }
        Item::Impl(item) => item.items.iter_mut().try_for_each(|item| match item {
            ImplItem::Fn(method) if !has_own(&method.attrs) => {
                trace_function(options, &method.attrs, &method.sig, Some(&mut method.block))
            }
            _ => Ok(()),
        }),
        Item::Trait(item) => item.items.iter_mut().try_for_each(|item| match item {
            TraitItem::Fn(method) if !has_own(&method.attrs) => {
                trace_function(options, &method.attrs, &method.sig, method.default.as_mut())
            }
            _ => Ok(()),
        }),
        Item::Mod(module) => {
            let items = module.content.iter_mut().flat_map(|(_, items)| items);
            items.filter(|item| !has_own(attributes_of(item))).try_for_each(|item| trace_item(options, item))
        }
        _ => Ok(()),
    }
}

fn attributes_of(item: &Item) -> &[Attribute] {
    match item {
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        _ => &[],
    }
}

/// Returns whether an item has an attribute `#[traced]` of its own, which the compiler expands later.
fn has_own(attributes: &[Attribute]) -> bool {
    let is_own = |attribute: &Attribute| {
        attribute.path().segments.last().is_some_and(|segment| segment.ident == "traced")
    };
    attributes.iter().any(is_own)
}

/// Makes a function record its calls. Returns an error if the function cannot be traced. If the options are inherited
/// from the item that contains the function, leaves such a function unchanged instead.
fn trace_function(
    options: &Options,
    attributes: &[Attribute],
    signature: &Signature,
    body: Option<&mut Block>,
) -> syn::Result<()> {
    if options.nothing {
        return Ok(());
    }
    match (body, untraceable(signature, attributes)) {
        (Some(body), None) => trace(options, signature, attributes, body),
        (_, Some(why)) if !options.inherited => Err(make_error(why, signature.span())),
        _ => Ok(()),
    }
}

/// Returns the reason why a function cannot be traced, as the beginning of an error message; `None` if the function can
/// be traced.
fn untraceable(signature: &Signature, attributes: &[Attribute]) -> Option<&'static str> {
    let is_naked = |attribute: &Attribute| {
        let list = attribute.meta.require_list().map(|list| list.tokens.to_string()).unwrap_or_default();
        attribute.path().is_ident("naked") || (attribute.path().is_ident("unsafe") && list == "naked")
    };
    let is_foreign = |abi: &syn::Abi| abi.name.as_ref().is_none_or(|name| name.value() != "Rust");
    if signature.constness.is_some() {
        Some("a `const fn`, which may run in the compiler,")
    } else if attributes.iter().any(is_naked) {
        Some("a naked function, which has nothing but its instructions,")
    } else if signature.abi.as_ref().is_some_and(is_foreign) {
        Some("a function of a foreign ABI, out of which no panic may unwind,")
    } else {
        None
    }
}

/// Changes the body of a function so that each call is recorded.
fn trace(
    options: &Options,
    signature: &Signature,
    attributes: &[Attribute],
    body: &mut Block,
) -> syn::Result<()> {
    let values = match &options.values {
        Some(skipped) if options.inherited => Values::of(signature, attributes, skipped),
        Some(skipped) => Values::of(signature, attributes, skipped).check_arguments(signature, skipped)?,
        None => Values::default(),
    };
    let traced = if signature.asyncness.is_some() {
        asynchronous(&values, signature, body)
    } else {
        let (is_future, mut refused) = (returns_future(signature), Ok(()));
        let found = change_returned_blocks(body, is_future, &mut |block| {
            if let Err(error) = in_returned_block(&values, signature, block) {
                refused = Err(error);
            }
        });
        refused?;
        if is_future && found.others > 0 {
            let items = split_items(body).0.len();
            body.stmts.insert(items, syn::parse2(warning(signature))?);
        }
        if found.blocks > 0 {
            return Ok(());
        }
        // A future has no `Debug`.
        synchronous(&Values { returned: values.returned && !is_future, ..values }, signature, body)
    };
    *body = syn::parse2(quote_spanned!(body.brace_token.span.join()=> { #traced }))?;
    Ok(())
}

/// The values that the records of a call contain: the arguments with these names and, if `returned` is true, the value
/// that the function returns.
#[derive(Debug, Default)]
struct Values {
    arguments: Vec<Ident>,
    returned: bool,
}

/// The name of the value that a function returns, in records and in the options of `#[traced]`.
const RETURNED: &str = "ret";

impl Values {
    fn of(signature: &Signature, attributes: &[Attribute], skipped: &[Ident]) -> Values {
        let mut arguments = Names::of(signature).0;
        arguments.retain(|name| !skipped.contains(name));
        let is_value = match &signature.output {
            ReturnType::Default => false,
            ReturnType::Type(_, of) => !matches!(**of, Type::Never(_)),
        };
        // Within a closure, `Location::caller` would return another place.
        let tracks_caller = attributes.iter().any(|attribute| attribute.path().is_ident("track_caller"));
        let returned = is_value && !tracks_caller && !skipped.iter().any(|name| name == RETURNED);
        Values { arguments, returned }
    }

    /// Returns `self`, or an error if a name in `skipped` is neither an argument of the function nor `ret`.
    fn check_arguments(self, signature: &Signature, skipped: &[Ident]) -> syn::Result<Values> {
        let names = Names::of(signature).0;
        match skipped.iter().find(|&name| name != RETURNED && !names.contains(name)) {
            Some(name) => {
                let why = format!("there is no argument `{name}` to skip");
                Err(syn::Error::new(name.span(), why))
            }
            None => Ok(self),
        }
    }

    /// Returns the arguments of a call of `trace!` that records the function's arguments, such as
    /// `"a={:?} b={:?}", a, b`; `None` if there are none to record.
    fn of_arguments(&self) -> Option<TokenStream> {
        let names = self.arguments.iter().map(|name| format!("{}={{:?}}", name.unraw())).collect::<Vec<_>>();
        let (text, arguments) = (names.join(" "), &self.arguments);
        (!names.is_empty()).then(|| quote!(#text, #(#arguments),*))
    }
}

/// The names of a function's arguments.
#[derive(Debug, Default)]
struct Names(Vec<Ident>);

impl Names {
    fn of(signature: &Signature) -> Names {
        let mut names = Names::default();
        for input in &signature.inputs {
            match input {
                FnArg::Receiver(receiver) => names.0.push(receiver.self_token.into()),
                // An argument that is compiled under a condition may be absent.
                FnArg::Typed(argument) if argument.attrs.iter().any(|a| a.path().is_ident("cfg")) => {}
                FnArg::Typed(argument) => names.visit_pat(&argument.pat),
            }
        }
        names
    }
}

impl<'a> Visit<'a> for Names {
    fn visit_pat(&mut self, pattern: &'a Pat) {
        // In a pattern, a name that begins with a capital is that of a constant or of a type.
        let is_variable = |name: &Ident| !name.unraw().to_string().starts_with(char::is_uppercase);
        match pattern {
            Pat::Ident(name) if is_variable(&name.ident) => self.0.push(name.ident.clone()),
            _ => {}
        }
        syn::visit::visit_pat(self, pattern);
    }

    fn visit_expr(&mut self, _: &'a syn::Expr) {}
}

/// Returns the type that the function's signature names for the returned value, with `_` for each `impl Trait` in it;
/// `None` if the signature names no type.
fn returned_type(signature: &Signature) -> Option<Type> {
    struct Inferred;
    impl VisitMut for Inferred {
        fn visit_type_mut(&mut self, of: &mut Type) {
            match of {
                Type::ImplTrait(_) => *of = syn::parse_quote!(_),
                _ => syn::visit_mut::visit_type_mut(self, of),
            }
        }
    }
    let ReturnType::Type(_, of) = &signature.output else { return None };
    let mut of = (**of).clone();
    Inferred.visit_type_mut(&mut of);
    Some(of)
}

/// Separates the items with which a body begins from its other statements: added code goes after the items, as lints
/// require.
fn split_items(body: &Block) -> (&[Stmt], &[Stmt]) {
    let items = body.stmts.iter().take_while(|statement| matches!(statement, Stmt::Item(_))).count();
    body.stmts.split_at(items)
}

/// Returns the new body of a function that is not asynchronous: a guard that records the call, and then the statements
/// of `body`.
fn synchronous(values: &Values, signature: &Signature, body: &Block) -> TokenStream {
    let scope = crate::scope::expand_at(signature.ident.span(), values.of_arguments().unwrap_or_default());
    if !values.returned {
        let (items, statements) = split_items(body);
        return quote_spanned! {Span::mixed_site()=>
            #(#items)*
            let _scope = #scope;
            #(#statements)*
        };
    }
    let statements = &body.stmts;
    let value = Ident::new(RETURNED, Span::mixed_site());
    let of = returned_type(signature);
    let record = call::expand_as(RecordContent::Values, quote!("ret={:?}", #value));
    quote_spanned! {Span::mixed_site()=>
        let scope = #scope;
        let #value = ::tracer::__macro_support::call_once(move || -> #of { #(#statements)* });
        ::tracer::Scope::leave_with(scope, |ticks| #record);
        #value
    }
}

/// Returns the new body of an `async fn`: the statements of `body` in a span.
fn asynchronous(values: &Values, signature: &Signature, body: &Block) -> TokenStream {
    let of = match returned_type(signature) {
        None => quote!(()),
        // `!` cannot be named here, so this uses another type without values.
        Some(Type::Never(_)) => quote!(::core::convert::Infallible),
        Some(of) => of.into_token_stream(),
    };
    let is_never = matches!(&signature.output, ReturnType::Type(_, of) if matches!(**of, Type::Never(_)));
    let set_type = quote_spanned! {Span::mixed_site()=>
        // Sets the type of the body, which an `async` block cannot declare otherwise.
        if let ::core::option::Option::Some(never) = ::tracer::__macro_support::none::<#of>() {
            return never;
        }
    };
    in_span(values, signature, (&quote!(move), body), (&set_type, is_never))
}

/// Puts the statements of an `async` block that a function returns into a span.
fn in_returned_block(values: &Values, signature: &Signature, block: &mut ExprAsync) -> syn::Result<()> {
    // A block that captured more, or in another way, might not live long enough, or could not be sent.
    let captured = |name: &&Ident| block.capture.is_some() && mentions(&block.block, name);
    let arguments = values.arguments.iter().filter(captured).cloned().collect();
    let values = Values { arguments, returned: values.returned };
    let capture = block.capture.to_token_stream();
    let traced = in_span(&values, signature, (&capture, &block.block), (&TokenStream::new(), false));
    block.block = syn::parse2(quote_spanned!(block.block.brace_token.span.join()=> { #traced }))?;
    Ok(())
}

/// Returns code for the inside of an `async` block or function: it runs `body` in a span. `capture` is `move` if the
/// code of `body` captures by value. `first` is put before the statements of `body`. `is_never` says that `body` never
/// ends.
fn in_span(
    values: &Values,
    signature: &Signature,
    (capture, body): (&TokenStream, &Block),
    (first, is_never): (&TokenStream, bool),
) -> TokenStream {
    let (items, statements) = split_items(body);
    let site = function_site(signature.ident.span());
    let value = Ident::new(RETURNED, Span::mixed_site());
    let arguments = values.of_arguments().map(|arguments| call::expand_as(RecordContent::Values, arguments));
    let arguments = arguments.map(|record| {
        quote_spanned!(Span::mixed_site()=> ::tracer::__macro_support::AsyncCall::begin(&mut call, |ticks| #record);)
    });
    let mutable = arguments.as_ref().map(|_| quote!(mut));
    let returned = if values.returned {
        let record = call::expand_as(RecordContent::Values, quote!("ret={:?}", #value));
        quote_spanned!(Span::mixed_site()=> |ticks, #value| #record)
    } else {
        quote_spanned!(Span::mixed_site()=> |_, _| ())
    };
    let run = quote_spanned! {Span::mixed_site()=>
        ::tracer::__macro_support::AsyncCall::run(call, body, #returned).await
    };
    let run = if is_never { quote!(match #run {}) } else { run };
    quote_spanned! {Span::mixed_site()=>
        let #mutable call = ::tracer::__macro_support::AsyncCall::new(#site);
        #arguments
        let body = ::core::pin::pin!(async #capture {
            #(#items)*
            #first
            #(#statements)*
        });
        #run
    }
}
