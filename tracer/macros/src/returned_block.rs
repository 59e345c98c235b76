//! The `async` blocks whose futures a function returns. Such a block is traced like the body of an `async fn`.
//!
//! `async_trait` turns the `async` methods of a trait into such functions: their whole body is
//! `Box::pin(async move { .. })`.

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::{ToTokens as _, quote_spanned};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned as _;
use syn::visit_mut::VisitMut;
use syn::{
    Block, Expr, ExprAsync, ExprClosure, ExprIf, ExprReturn, GenericArgument, Ident, Item, Local, Macro, Pat,
    PathArguments, ReturnType, Signature, Stmt, Token, Type, TypeParamBound,
};

/// The numbers of the expressions whose values a function returns: of `async` blocks, and of others.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// The number of `async` blocks. All of them were changed.
    pub(crate) blocks: usize,
    /// The number of expressions that are not `async` blocks.
    pub(crate) others: usize,
}

/// Calls `change` with each `async` block of `body` that the function returns, alone or in a box. If `is_future` is
/// true (the function's signature says that it returns a future), methods may be called on the block, too. Returns how
/// many such blocks and how many other returned expressions there are.
pub(crate) fn change_returned_blocks(
    body: &mut Block,
    is_future: bool,
    change: &mut dyn FnMut(&mut ExprAsync),
) -> Found {
    let mut search = Search { is_future, change, found: Found::default() };
    search.visit_block_mut(body);
    search.block(body);
    search.found
}

/// The macros after which a function returns no value.
const DIVERGING: [&str; 4] = ["panic", "todo", "unimplemented", "unreachable"];

struct Search<'c> {
    is_future: bool,
    change: &'c mut dyn FnMut(&mut ExprAsync),
    found: Found,
}

/// Finds each `return` of the function itself, not those of closures, `async` blocks and items in its body.
impl VisitMut for Search<'_> {
    fn visit_expr_return_mut(&mut self, of: &mut ExprReturn) {
        match &mut of.expr {
            Some(value) => self.value(value, &mut []),
            None => self.found.others += 1,
        }
    }

    fn visit_expr_async_mut(&mut self, _: &mut ExprAsync) {}

    fn visit_expr_closure_mut(&mut self, _: &mut ExprClosure) {}

    fn visit_item_mut(&mut self, _: &mut Item) {}
}

impl Search<'_> {
    /// Searches a block whose value the function returns; see [`value`](Search::value).
    fn block(&mut self, block: &mut Block) {
        match block.stmts.split_last_mut() {
            Some((Stmt::Expr(value, None), before)) => self.value(value, before),
            // Each `return` was found before.
            Some((Stmt::Expr(Expr::Return(_), _), _)) => {}
            Some((Stmt::Macro(last), _)) if diverges(&last.mac) => {}
            _ => self.found.others += 1,
        }
    }

    /// Searches an expression whose value the function returns: calls `change` with each `async` block that may be that
    /// value, and counts these blocks and the other expressions. `before` has the statements before the expression in
    /// its block.
    fn value(&mut self, value: &mut Expr, before: &mut [Stmt]) {
        match value {
            Expr::Async(block) => {
                (self.change)(block);
                self.found.blocks += 1;
            }
            Expr::Call(call) if is_box(&call.func) && call.args.len() == 1 => {
                call.args.iter_mut().for_each(|value| self.value(value, before));
            }
            Expr::MethodCall(call) if self.is_future => self.value(&mut call.receiver, before),
            Expr::Paren(value) => self.value(&mut value.expr, before),
            Expr::Group(value) => self.value(&mut value.expr, before),
            Expr::Cast(value) => self.value(&mut value.expr, before),
            Expr::Block(value) => self.block(&mut value.block),
            Expr::Unsafe(value) => self.block(&mut value.block),
            Expr::If(ExprIf { then_branch, else_branch: Some((_, other)), .. }) => {
                self.block(then_branch);
                self.value(other, &mut []);
            }
            Expr::Match(value) => {
                value.arms.iter_mut().for_each(|arm| self.value(&mut arm.body, &mut []));
            }
            Expr::Return(_) => {}
            Expr::Macro(value) if diverges(&value.mac) => {}
            Expr::Path(name) => match name.path.get_ident().and_then(|name| variable(name, before)) {
                Some((value, before)) => self.value(value, before),
                None => self.found.others += 1,
            },
            _ => self.found.others += 1,
        }
    }
}

fn diverges(of: &Macro) -> bool {
    of.path.segments.last().is_some_and(|last| DIVERGING.iter().any(|name| last.ident == name))
}

/// Finds the last declaration of the variable `name` in `statements`. Returns the expression that initializes the
/// variable, and the statements before the declaration.
fn variable<'a>(name: &Ident, statements: &'a mut [Stmt]) -> Option<(&'a mut Expr, &'a mut [Stmt])> {
    let declares = |statement: &Stmt| match statement {
        Stmt::Local(Local { pat: Pat::Ident(pattern), init: Some(_), .. }) => pattern.ident == *name,
        _ => false,
    };
    let at = statements.iter().rposition(declares)?;
    let (before, from) = statements.split_at_mut(at);
    match from.first_mut()? {
        Stmt::Local(Local { init: Some(init), .. }) => Some((&mut init.expr, before)),
        _ => None,
    }
}

/// Returns whether `function` puts its argument into a box: `Box::pin`, `Box::new`, `Box::from` or `Pin::from`.
fn is_box(function: &Expr) -> bool {
    let Expr::Path(function) = function else { return false };
    let names: Vec<String> = function.path.segments.iter().map(|segment| segment.ident.to_string()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    matches!(names[..], [.., "Box", "pin" | "new"] | [.., "Pin", "from"] | [.., "Box", "from"])
}

/// Returns whether the signature of a function that is not an `async fn` names a future as the type of the returned
/// value: `impl Future`, a `dyn Future` in a `Box` or a `Pin`, `BoxFuture` or `LocalBoxFuture`.
pub(crate) fn returns_future(signature: &Signature) -> bool {
    let ReturnType::Type(_, of) = &signature.output else { return false };
    is_future(of)
}

fn is_future(of: &Type) -> bool {
    let has_future = |bounds: &Punctuated<TypeParamBound, Token![+]>| {
        bounds.iter().any(|bound| match bound {
            TypeParamBound::Trait(bound) => {
                bound.path.segments.last().is_some_and(|segment| segment.ident == "Future")
            }
            _ => false,
        })
    };
    match of {
        Type::ImplTrait(of) => has_future(&of.bounds),
        Type::TraitObject(of) => has_future(&of.bounds),
        Type::Paren(of) => is_future(&of.elem),
        Type::Group(of) => is_future(&of.elem),
        Type::Path(of) => of.path.segments.last().is_some_and(|last| match &last.arguments {
            PathArguments::AngleBracketed(arguments) if last.ident == "Pin" || last.ident == "Box" => {
                let is_it = |of: &GenericArgument| matches!(of, GenericArgument::Type(of) if is_future(of));
                arguments.args.iter().any(is_it)
            }
            _ => last.ident == "BoxFuture" || last.ident == "LocalBoxFuture",
        }),
        _ => false,
    }
}

/// Returns whether the block contains the identifier `name`. If `name` is an argument of the function, a block that
/// contains the name has captured the argument.
pub(crate) fn mentions(block: &Block, name: &Ident) -> bool {
    fn search(tokens: TokenStream, name: &Ident) -> bool {
        tokens.into_iter().any(|token| match token {
            TokenTree::Ident(ident) => ident == *name,
            TokenTree::Group(group) => search(group.stream(), name),
            _ => false,
        })
    }
    search(block.to_token_stream(), name)
}

/// Returns code that makes the compiler warn that the returned future is not traced. The code calls a deprecated
/// function, because a macro has no other way to warn with a stable compiler.
pub(crate) fn warning(signature: &Signature) -> TokenStream {
    let at = match &signature.output {
        ReturnType::Type(_, of) => of.span(),
        ReturnType::Default => signature.ident.span(),
    };
    quote_spanned! {Span::mixed_site().located_at(at)=>
        {
            #[deprecated(note = "`#[traced]` finds no `async` block that is the value of this function, so it does \
                not time the future: return `Box::pin(async move { .. })` or write `async fn`; `#[traced(skip)]` \
                leaves the function out, and `#[allow(deprecated)]` hides this warning")]
            const fn returned_future_is_not_traced() {}
            returned_future_is_not_traced();
        }
    }
}
