//! `derive(Capture)`: the implementation of `Capture` that copies values of a type unformatted, to be printed as
//! `derive(Debug)` prints them.
//!
//! `trace_format::capture::Capture` shows an example of the code.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::ext::IdentExt as _;
use syn::spanned::Spanned as _;
use syn::visit::Visit;
use syn::{Data, DeriveInput, Error, Fields, Generics, Index, Member, Type, TypePath, parse_quote};

/// Returns the implementation of `Capture` for a type.
pub(crate) fn expand(input: &DeriveInput) -> syn::Result<TokenStream> {
    let methods = match &input.data {
        Data::Struct(data) => Constructor::new(&input.ident, &data.fields)?.of_struct(is_packed(input)?),
        Data::Enum(data) => {
            let shapes =
                data.variants.iter().map(|variant| Constructor::new(&variant.ident, &variant.fields));
            of_enum(&input.ident, &shapes.collect::<syn::Result<Vec<_>>>()?)?
        }
        Data::Union(data) => {
            let problem = "a union cannot be captured: it is not known which of its fields is valid";
            return Err(Error::new(data.union_token.span, problem));
        }
    };
    ContainsItself::check(input)?;
    let Methods { signature, describe, size, write } = methods;
    let name = &input.ident;
    let generics = bounded(input);
    let (parameters, arguments, bounds) = generics.split_for_impl();
    Ok(quote! {
        #[automatically_derived]
        impl #parameters ::tracer::__macro_support::Capture<::tracer::__macro_support::by::Debug>
            for #name #arguments #bounds
        {
            const SIGNATURE: ::core::primitive::u32 = ::tracer::__macro_support::Signature::#signature.end();

            fn describe(__to: &mut ::std::vec::Vec<::core::primitive::u8>) {
                #describe
            }

            #[inline(always)]
            fn size(&self) -> ::core::primitive::usize {
                #size
            }

            #[inline(always)]
            fn write(&self, __to: &mut ::tracer::__macro_support::Cursor<'_>) {
                let _ = &__to;
                #write
            }
        }
    })
}

/// The parts of an implementation of `Capture` that differ from type to type: the chain of calls that makes the
/// signature, and the bodies of the functions.
struct Methods {
    signature: TokenStream,
    describe: TokenStream,
    size: TokenStream,
    write: TokenStream,
}

/// A struct, or a variant of an enum.
struct Constructor<'a> {
    ident: &'a Ident,
    /// The name of the struct or variant, as `Debug` prints it.
    name: String,
    kind: ConstructorKind,
    fields: Vec<ConstructorField<'a>>,
}

#[derive(Clone, Copy, PartialEq)]
enum ConstructorKind {
    Unit,
    Tuple,
    Named,
}

struct ConstructorField<'a> {
    member: Member,
    ty: &'a Type,
    /// The name of the variable that refers to the field in the bodies of the functions.
    binding: Ident,
}

impl<'a> Constructor<'a> {
    fn new(ident: &'a Ident, fields: &'a Fields) -> syn::Result<Constructor<'a>> {
        count(fields.len(), ident)?;
        let kind = match fields {
            // Debug does not show brackets around nothing.
            fields if fields.is_empty() => ConstructorKind::Unit,
            Fields::Named(_) => ConstructorKind::Named,
            Fields::Unnamed(_) | Fields::Unit => ConstructorKind::Tuple,
        };
        let fields = fields.iter().zip(0..).map(|(field, number)| ConstructorField {
            member: match &field.ident {
                Some(name) => Member::Named(name.clone()),
                None => Member::Unnamed(Index { index: number, span: Span::call_site() }),
            },
            ty: &field.ty,
            binding: Ident::new(&format!("__{number}"), Span::mixed_site()),
        });
        Ok(Constructor { ident, name: ident.unraw().to_string(), kind, fields: fields.collect() })
    }

    fn of_struct(&self, packed: bool) -> Methods {
        let signature = self.signature();
        let begin = Ident::new(&format!("of_{}", self.step()), Span::call_site());
        let pattern = self.pattern();
        let bind = if packed {
            // No reference to a field is allowed, so these are copies.
            let bindings: Vec<_> = self.fields.iter().map(|field| &field.binding).collect();
            quote!(let Self #pattern = *self; let (#(#bindings,)*) = (#(&#bindings,)*);)
        } else {
            quote!(let Self #pattern = self;)
        };
        let (sizes, write) = (self.sizes(), self.write());
        Methods {
            signature: quote!(#begin #signature),
            describe: self.describe(),
            size: quote!(#bind 0usize #sizes),
            write: quote!(#bind #write),
        }
    }

    fn step(&self) -> Ident {
        let name = match self.kind {
            ConstructorKind::Unit => "unit",
            ConstructorKind::Tuple => "tuple",
            ConstructorKind::Named => "named",
        };
        Ident::new(name, Span::call_site())
    }

    /// Returns the part of the signature for this struct or variant: the arguments of the step that names it, and a
    /// step for each of its fields. A signature is a chain of calls, its steps.
    fn signature(&self) -> TokenStream {
        let (name, count) = (&self.name, self.fields.len());
        let parts = self.fields.iter().map(|field| {
            let name = field.name().map(|name| quote!(.name(#name)));
            let capture = field.capture();
            quote!(#name.part(#capture::SIGNATURE))
        });
        if self.kind == ConstructorKind::Unit { quote!((#name)) } else { quote!((#name, #count) #(#parts)*) }
    }

    fn describe(&self) -> TokenStream {
        let (name, step) = (&self.name, self.step());
        let begin = quote!(::tracer::__macro_support::descriptor::#step);
        if self.kind == ConstructorKind::Unit {
            return quote!(#begin(__to, #name););
        }
        let count = self.fields.len() as u16;
        let parts = self.fields.iter().map(|field| {
            let name =
                field.name().map(|name| quote!(::tracer::__macro_support::descriptor::name(__to, #name);));
            let capture = field.capture();
            quote!(#name #capture::describe(__to);)
        });
        quote!(#begin(__to, #name, #count); #(#parts)*)
    }

    /// Returns a pattern that binds each field to its variable. It has braces, which match tuple structs as well.
    fn pattern(&self) -> TokenStream {
        let members = self.fields.iter().map(|field| &field.member);
        let bindings = self.fields.iter().map(|field| &field.binding);
        quote!({ #(#members: #bindings),* })
    }

    fn sizes(&self) -> TokenStream {
        self.fields
            .iter()
            .map(|field| field.call("size", None))
            .map(|size| quote!(.saturating_add(#size)))
            .collect()
    }

    fn write(&self) -> TokenStream {
        self.fields
            .iter()
            .map(|field| field.call("write", Some(quote!(__to))))
            .map(|write| quote!(#write;))
            .collect()
    }
}

impl ConstructorField<'_> {
    fn name(&self) -> Option<String> {
        match &self.member {
            Member::Named(name) => Some(name.unraw().to_string()),
            Member::Unnamed(_) => None,
        }
    }

    /// Returns the path `<Type as Capture<..>>` for the type of the field. The path has the position of that type, so
    /// the compiler's message points at it if the type does not implement `Capture`.
    fn capture(&self) -> TokenStream {
        let ty = self.ty;
        quote_spanned!(ty.span()=>
            <#ty as ::tracer::__macro_support::Capture<::tracer::__macro_support::by::Debug>>)
    }

    fn call(&self, method: &str, to: Option<TokenStream>) -> TokenStream {
        let (capture, binding) = (self.capture(), &self.binding);
        let method = Ident::new(method, Span::call_site());
        let to = to.map(|to| quote!(, #to));
        quote!(#capture::#method(#binding #to))
    }
}

fn of_enum(name: &Ident, shapes: &[Constructor<'_>]) -> syn::Result<Methods> {
    let count = count(shapes.len(), name)?;
    let number = shapes.len();
    let signatures = shapes.iter().map(|shape| {
        let (step, signature) = (shape.step(), shape.signature());
        quote!(.#step #signature)
    });
    let describe = shapes.iter().map(Constructor::describe);
    let sizes = shapes.iter().map(|shape| {
        let (name, pattern, sizes) = (shape.ident, shape.pattern(), shape.sizes());
        quote!(Self::#name #pattern => 2usize #sizes,)
    });
    let writes = shapes.iter().zip(0u16..).map(|(shape, index)| {
        let (name, pattern, write) = (shape.ident, shape.pattern(), shape.write());
        quote!(Self::#name #pattern => { __to.put(#index.to_le_bytes()); #write })
    });
    Ok(Methods {
        signature: quote!(variants(#number) #(#signatures)*),
        describe: quote!(::tracer::__macro_support::descriptor::variants(__to, #count); #(#describe)*),
        // A match of a reference needs an arm; a match of the value of an enum without variants does not.
        size: if shapes.is_empty() { quote!(match *self {}) } else { quote!(match self { #(#sizes)* }) },
        write: if shapes.is_empty() { quote!(match *self {}) } else { quote!(match self { #(#writes)* }) },
    })
}

fn count(count: usize, of: &Ident) -> syn::Result<u16> {
    let problem = "a type with more than 65535 fields or variants cannot be captured";
    u16::try_from(count).map_err(|_| Error::new(of.span(), problem))
}

fn is_packed(input: &DeriveInput) -> syn::Result<bool> {
    let mut packed = false;
    for repr in input.attrs.iter().filter(|attribute| attribute.path().is_ident("repr")) {
        repr.parse_nested_meta(|meta| {
            packed |= meta.path.is_ident("packed");
            if meta.input.peek(syn::token::Paren) {
                meta.input.parse::<proc_macro2::Group>()?;
            }
            Ok(())
        })?;
    }
    Ok(packed)
}

/// Returns the type's generics, with the bounds that `derive(Debug)` adds: on the parameters, and on the types of
/// fields that belong to a parameter, such as `T::Item`.
fn bounded(input: &DeriveInput) -> Generics {
    let parameters: Vec<_> = input.generics.type_params().map(|parameter| parameter.ident.clone()).collect();
    let mut bounds =
        Bounds { types: parameters.iter().map(|name| parse_quote!(#name)).collect(), parameters };
    if !bounds.parameters.is_empty() {
        bounds.visit_data(&input.data);
    }
    let mut generics = input.generics.clone();
    let clause = generics.make_where_clause();
    for ty in bounds.types {
        let bound = quote!(::tracer::__macro_support::Capture<::tracer::__macro_support::by::Debug>);
        clause.predicates.push(parse_quote!(#ty: #bound));
    }
    generics
}

/// A search for fields that contain the type itself. It compares names, so it misses the type under another name; the
/// compiler refuses that as well, but with a long message.
struct ContainsItself<'a> {
    name: &'a Ident,
    found: Option<Span>,
}

impl ContainsItself<'_> {
    fn check(input: &DeriveInput) -> syn::Result<()> {
        let mut search = ContainsItself { name: &input.ident, found: None };
        search.visit_data(&input.data);
        let problem = "a type that contains itself cannot be captured: its description has no end";
        search.found.map_or(Ok(()), |span| Err(Error::new(span, problem)))
    }
}

impl<'a> Visit<'a> for ContainsItself<'_> {
    fn visit_type_path(&mut self, path: &'a TypePath) {
        if let (None, Some(segment), 1) = (&path.qself, path.path.segments.first(), path.path.segments.len())
        {
            if segment.ident == *self.name || segment.ident == "Self" {
                self.found.get_or_insert(segment.ident.span());
            }
        }
        syn::visit::visit_type_path(self, path);
    }
}

/// A visitor that collects the types of fields that belong to a type parameter, such as `T::Item`, which need a bound.
struct Bounds {
    parameters: Vec<Ident>,
    types: Vec<TypePath>,
}

impl<'a> Visit<'a> for Bounds {
    fn visit_type_path(&mut self, path: &'a TypePath) {
        let first = match &path.qself {
            Some(of) => match &*of.ty {
                Type::Path(of) => of.path.get_ident(),
                _ => None,
            },
            None if path.path.segments.len() > 1 => path.path.segments.first().map(|segment| &segment.ident),
            None => None,
        };
        if first.is_some_and(|first| self.parameters.contains(first)) {
            self.types.push(path.clone());
        }
        syn::visit::visit_type_path(self, path);
    }
}
