//! The translation of the tokens of a `trace!` call into code that captures the call's arguments.

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens as _, quote, quote_spanned};
use syn::ext::IdentExt as _;
use syn::parse::{ParseStream, Parser as _};
use syn::{Expr, LitStr, Member, Token};

use crate::normalize::Normalized;

/// The content of the record that a call of a macro makes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RecordContent {
    /// A message.
    Message,
    /// A message, and the call stack in a record after it.
    MessageWithStack,
    /// Values that belong to another record, such as the arguments of a function that is entered. They have the ticks
    /// of that record, which are in the variable `ticks`.
    Values,
}

/// Returns the code for `trace!(..)`.
pub(crate) fn expand(input: TokenStream) -> TokenStream {
    expand_as(RecordContent::Message, input)
}

/// Returns the code that makes a record of arguments in the form of those of `trace!`; `of` says what the record
/// contains.
pub(crate) fn expand_as(of: RecordContent, input: TokenStream) -> TokenStream {
    match parse.parse2(input.clone()) {
        Ok(call) => call.captured(of).unwrap_or_else(|| formatted(of, &input)),
        // The format string is not a literal, or this is not a valid call: the compiler handles it, or explains the
        // error.
        Err(_) => formatted(of, &input),
    }
}

impl RecordContent {
    /// Returns the code that records the arguments in `captured` or, if the tracer cannot take them unformatted, the
    /// text in `message`.
    fn record(self, captured: &TokenStream, message: &TokenStream) -> TokenStream {
        match self {
            RecordContent::Message => quote_spanned! {Span::mixed_site()=>
                if !site.record(word, #captured) {
                    site.format(#captured, #message);
                }
            },
            RecordContent::MessageWithStack => {
                let message = RecordContent::Message.record(captured, message);
                quote!(#message ::tracer::__macro_support::record_stack_of_message(
                    ::tracer::__macro_support::Registers::here(),
                );)
            }
            RecordContent::Values => quote_spanned! {Span::mixed_site()=>
                if !site.record_at(ticks, word, #captured) {
                    site.format_at(ticks, #captured, #message);
                }
            },
        }
    }

    /// Returns the kind of the call's site, as the name of a variant of `SiteKind`.
    fn kind(self) -> Ident {
        let kind = match self {
            RecordContent::Message | RecordContent::MessageWithStack => "Message",
            RecordContent::Values => "Function",
        };
        Ident::new(kind, Span::mixed_site())
    }
}

/// A call of a macro whose format string is a literal.
struct LiteralCall {
    /// The literal as a token of the program: its position decides where the compiler looks up names in the literal.
    format: TokenTree,
    text: LitStr,
    arguments: Vec<Argument>,
}

/// An argument of a macro call, `value` or `name = value`.
struct Argument {
    name: Option<Ident>,
    value: Expr,
}

fn parse(input: ParseStream) -> syn::Result<LiteralCall> {
    let format: TokenTree = input.parse()?;
    let text = syn::parse2(format.to_token_stream())?;
    let mut arguments = Vec::new();
    while !input.is_empty() {
        input.parse::<Token![,]>()?;
        if input.is_empty() {
            break;
        }
        let mut name = None;
        if input.peek(Ident::peek_any) && input.peek2(Token![=]) && !input.peek2(Token![==]) {
            name = Some(Ident::parse_any(input)?);
            input.parse::<Token![=]>()?;
        }
        arguments.push(Argument { name, value: input.parse()? });
    }
    Ok(LiteralCall { format, text, arguments })
}

impl LiteralCall {
    /// Returns the code that captures the arguments; `None` if the call is not valid. Then the caller passes the call
    /// to `format_args!`, so that the compiler explains the mistake.
    fn captured(&self, of: RecordContent) -> Option<TokenStream> {
        let positional = self.arguments.iter().take_while(|argument| argument.name.is_none()).count();
        let names = self.arguments.iter().skip(positional);
        let names = names.map(|argument| Some(argument.name.as_ref()?.unraw().to_string()));
        let normalized = Normalized::new(&self.text.value(), positional, names.collect::<Option<_>>()?)?;

        let implicit = normalized.implicit.iter().map(|name| identifier(name, self.text.span()));
        let implicit = implicit.collect::<Option<Vec<_>>>()?;
        let given = self.arguments.iter().map(|argument| argument.value.to_token_stream());
        let values: Vec<_> = given.chain(implicit.iter().map(Ident::to_token_stream)).collect();
        let bindings: Vec<_> = values.iter().zip(0..).map(|(value, number)| binding(value, number)).collect();
        let references = values.iter().map(|value| quote_spanned!(ends(value).0=> &(#value)));
        let captures = normalized.values.iter().map(|(argument, by)| {
            let binding = bindings.get(*argument)?;
            let by = Ident::new(by, binding.span());
            Some(quote_spanned! {binding.span()=>
                ::tracer::__macro_support::Arg::<::tracer::__macro_support::by::#by, _>::new(#binding)
                    .__tracer_capture()
            })
        });
        let captures = tuple(captures.collect::<Option<_>>()?);
        let shown = self.arguments.iter().zip(&bindings).map(|(argument, binding)| argument.shown(binding));
        let format = &self.format;
        let message = quote!(::core::format_args!(#format #(, #shown)*));
        let record = of.record(&quote_spanned!(Span::mixed_site()=> &captured), &message);
        let record = quote_spanned! {Span::mixed_site()=>
            match (#(#references,)*) {
                (#(#bindings,)*) => {
                    let captured = #captures;
                    #record
                }
            };
        };
        let names = normalized.values.iter().map(|(argument, _)| self.name(*argument, &normalized.implicit));
        let names: Vec<String> = names.collect();
        let texts = Texts { template: &self.text.value(), format: &normalized.format, names: &names };
        Some(wrap_in_site_check(&of.kind(), &texts, &record))
    }

    /// Returns the name of the argument with this number: the given name or, if it has none, that of its variable or
    /// field. The result is empty if the argument is another expression. The numbers after the given arguments are
    /// those of `implicit`, the variables that the format string names.
    fn name(&self, argument: usize, implicit: &[String]) -> String {
        match self.arguments.get(argument) {
            Some(argument) => argument.name(),
            None => implicit.get(argument - self.arguments.len()).cloned().unwrap_or_default(),
        }
    }
}

impl Argument {
    /// Returns the name that the call gives to the argument; without a name, that of its variable or field, or an empty
    /// text if it is another expression.
    fn name(&self) -> String {
        self.name.as_ref().map_or_else(|| path_of(&self.value), |name| name.unraw().to_string())
    }

    /// Returns the argument as it is passed to `format_args!`: the variable `binding`, which refers to the value, in
    /// place of the value. The code has the position of the value, so the compiler's messages point at the user's own
    /// text.
    fn shown(&self, binding: &Ident) -> TokenStream {
        let value = quote_spanned!(ends(&self.value.to_token_stream()).0=> *#binding);
        match &self.name {
            Some(name) => quote!(#name = #value),
            None => value,
        }
    }
}

/// Returns the code for a call whose arguments are not captured: the message is formatted at the call. `format_args!`
/// gets all tokens of the call, and accepts or refuses them.
fn formatted(of: RecordContent, input: &TokenStream) -> TokenStream {
    let captured = quote_spanned!(Span::mixed_site()=> &::tracer::__macro_support::NotCaptured);
    let record = match of {
        RecordContent::Message => quote_spanned! {Span::mixed_site()=>
            site.format(#captured, ::core::format_args!(#input));
        },
        RecordContent::MessageWithStack => quote_spanned! {Span::mixed_site()=>
            site.format(#captured, ::core::format_args!(#input));
            ::tracer::__macro_support::record_stack_of_message(::tracer::__macro_support::Registers::here());
        },
        RecordContent::Values => quote_spanned! {Span::mixed_site()=>
            site.format_at(ticks, #captured, ::core::format_args!(#input));
        },
    };
    let template = literal_of(input).map_or_else(String::new, |text| text.value());
    wrap_in_site_check(&of.kind(), &Texts { template: &template, format: "", names: &[] }, &record)
}

/// The texts of a site: the format string of its call, the normalized format string, and the names of its arguments.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Texts<'a> {
    template: &'a str,
    format: &'a str,
    names: &'a [String],
}

/// Returns the string literal at the beginning of a call, if there is one.
fn literal_of(input: &TokenStream) -> Option<LitStr> {
    syn::parse2(input.clone().into_iter().next()?.into()).ok()
}

/// Returns a variable, or a field of one, as it is written; an empty text for any other expression.
fn path_of(value: &Expr) -> String {
    match value {
        Expr::Path(path) => path.path.get_ident().map_or_else(String::new, |ident| ident.unraw().to_string()),
        Expr::Field(field) => match (path_of(&field.base), &field.member) {
            (base, _) if base.is_empty() => base,
            (base, Member::Named(name)) => format!("{base}.{}", name.unraw()),
            (base, Member::Unnamed(index)) => format!("{base}.{}", index.index),
        },
        Expr::Reference(reference) => path_of(&reference.expr),
        _ => String::new(),
    }
}

/// Returns code that runs `record` if the site is on. The code in `record` may use the variables `site` and `word`.
fn wrap_in_site_check(kind: &Ident, texts: &Texts<'_>, record: &TokenStream) -> TokenStream {
    let site = site(kind, texts, Span::mixed_site());
    quote_spanned! {Span::mixed_site()=> {
        let site = #site;
        let word = site.word();
        if site.is_on(word) {
            #record
        }
    }}
}

/// Returns an expression whose value is the site of the call. The site's line is that of the span `at`: the line of the
/// macro's call if `at` is a span of the macro, or the line of a token of the program.
///
/// The items `__here` and `SITE` have a block of their own, because the user's expressions could see them otherwise.
/// The path of the function `__here` contains the name of the function that the call is in.
pub(crate) fn site(kind: &Ident, texts: &Texts<'_>, at: Span) -> TokenStream {
    let Texts { template, format, names } = texts;
    let mut joined = format!("{template}{format}");
    names.iter().for_each(|name| joined.extend([name.as_str(), "\0"]));
    let (template_len, format_len) = (template.len() as u32, format.len() as u32);
    let (line, column) = (quote_spanned!(at=> ::core::line!()), quote_spanned!(at=> ::core::column!()));
    quote_spanned! {Span::mixed_site()=>
        {
            fn __here() -> &'static ::core::primitive::str {
                ::core::any::type_name_of_val(&__here)
            }
            static SITE: ::tracer::__macro_support::Site = ::tracer::__macro_support::Site::new(
                ::tracer::__macro_support::Place {
                    texts: ::core::concat!(::core::module_path!(), ::core::file!()),
                    module_len: ::core::module_path!().len() as ::core::primitive::u32,
                    line: #line,
                    column: #column,
                    here: __here,
                },
                ::tracer::__macro_support::Call {
                    kind: ::tracer::__macro_support::SiteKind::#kind,
                    texts: #joined,
                    format_lens: [#template_len, #format_len],
                },
            );
            let site: &'static ::tracer::__macro_support::Site = &SITE;
            site
        }
    }
}

/// Returns the variable that refers to the value of an argument. The span of the variable is the end of the value:
/// together with a token at the value's beginning, the variable makes an expression that has the span of the value.
fn binding(value: &TokenStream, argument: usize) -> Ident {
    Ident::new(&format!("__{argument}"), ends(value).1)
}

/// Returns the positions of the first and the last token, as spans for names that the user's code cannot refer to.
fn ends(tokens: &TokenStream) -> (Span, Span) {
    let mut spans = tokens.clone().into_iter().map(|token| Span::mixed_site().located_at(token.span()));
    let first = spans.next().unwrap_or_else(Span::mixed_site);
    (first, spans.last().unwrap_or(first))
}

/// Returns the identifier for a name in a format string; `None` if the name cannot be an identifier.
fn identifier(name: &str, span: Span) -> Option<Ident> {
    let ident = Ident::parse_any.parse_str(name).ok()?;
    let is_word =
        syn::parse_str::<Ident>(name).is_ok() || matches!(name, "self" | "Self" | "super" | "crate");
    Some(if is_word { Ident::new(&ident.to_string(), span) } else { Ident::new_raw(name, span) })
}

/// The greatest number of elements of a tuple that implements `Arguments`.
const MAX_PARTS: usize = 12;

/// Returns a tuple of `parts`. If they are more than `MAX_PARTS`, the elements of the tuple are tuples of parts, nested
/// as deep as necessary.
fn tuple(mut parts: Vec<TokenStream>) -> TokenStream {
    while parts.len() > MAX_PARTS {
        parts = parts.chunks(MAX_PARTS).map(|chunk| quote!((#(#chunk,)*))).collect();
    }
    quote!((#(#parts,)*))
}
