//! The conversion of captured arguments to text: later than the call, but to the same text that `format!` would have
//! made.
//!
//! A [`SitePlan`] is made once per site, from its format string and its descriptor; it then renders any number of
//! payloads. It runs on the flusher and in `tracemerge`, never on a traced thread.
//!
//! A plan can make text in two ways. Most sites show their arguments in order, and most of these are numbers and text
//! with `{}`: for these there is the *fast* way, a list of steps that write into a buffer that is known to be long
//! enough. The *general* way handles all other sites and all values that a step cannot write; only the general way
//! reports errors.

mod composite;
mod digits;
mod fast;
mod field;
#[cfg(feature = "fast-floats")]
mod shortest;
#[cfg(test)]
mod tests;
mod value;

use std::fmt;

use fast::FastPlan;
use field::{Field, Size};
use value::ValueReader;

use crate::capture::descriptor::{self, DescriptorError, Scalar, Type};
use crate::locks;
use crate::template::{CountSpec, Piece, Position, Sign, Spec, Template, TemplateError, Trait};

/// The length of the longest rendered message, in bytes. Programs capture far less; the limit is for damaged
/// tables.
pub const MAX_MESSAGE: usize = 16 << 20;

/// A site that is ready to be rendered: its format string and types are parsed once.
#[derive(Clone, Debug)]
pub struct SitePlan {
    arguments: Box<[Type]>,
    /// The fields, each with the literal text before it.
    steps: Box<[(Box<[u8]>, Field)]>,
    /// The literal text after the last field.
    tail: Box<[u8]>,
    fast: Option<FastPlan>,
    /// Whether a message may begin like a lock message, although the site is not a lock; see [`locks`].
    may_look_like_lock: bool,
}

/// The reason why no plan can be made from a format string and a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PlanError {
    /// The format string cannot be parsed.
    Template(TemplateError),
    /// The descriptor cannot be parsed.
    Descriptor(DescriptorError),
    /// The format string refers to an argument of this index, which does not exist.
    NoArgument(usize),
    /// The argument of this index has a type that does not implement the trait of its placeholder, or that cannot be
    /// the width or precision for which the argument is used.
    Unformattable(usize),
    /// The format string has this width or precision, which is beyond 65,535.
    CountTooLarge(usize),
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlanError::Template(e) => e.fmt(f),
            PlanError::Descriptor(e) => write!(f, "not a descriptor of types: {e}"),
            PlanError::NoArgument(index) => {
                write!(f, "the format string refers to argument {index}, which does not exist")
            }
            PlanError::Unformattable(index) => {
                write!(f, "the type of argument {index} does not support its format")
            }
            PlanError::CountTooLarge(count) => write!(f, "the width or precision {count} is too large"),
        }
    }
}

impl std::error::Error for PlanError {}

impl From<TemplateError> for PlanError {
    fn from(e: TemplateError) -> PlanError {
        PlanError::Template(e)
    }
}

impl From<DescriptorError> for PlanError {
    fn from(e: DescriptorError) -> PlanError {
        PlanError::Descriptor(e)
    }
}

/// The reason why bytes are not the arguments of a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PayloadError {
    /// The bytes end within a value.
    Cut,
    /// Bytes follow the last argument.
    Excess,
    /// A `bool`, a `char`, a text or the number of a variant is invalid.
    NoValue,
    /// A width or precision is beyond 65,535.
    CountTooLarge,
    /// The message would be longer than [`MAX_MESSAGE`].
    TooLong,
}

impl fmt::Display for PayloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PayloadError::Cut => "the arguments end in the middle of a value",
            PayloadError::Excess => "there are bytes after the last argument",
            PayloadError::NoValue => "an argument has a value that is invalid for its type",
            PayloadError::CountTooLarge => "a width or precision is too large",
            PayloadError::TooLong => "the message would be too long",
        })
    }
}

impl std::error::Error for PayloadError {}

impl SitePlan {
    /// Returns the plan for a format string and the descriptor of its arguments.
    ///
    /// Placeholders without an index are numbered as `format_args!` numbers them; placeholders with names are not
    /// accepted. Cost: a few microseconds, and about fifty bytes of memory for each byte of `format` and `descriptor`.
    ///
    /// # Errors
    /// The format string or the descriptor is damaged, or they do not match each other.
    pub fn new(format: &str, descriptor: &[u8]) -> Result<SitePlan, PlanError> {
        let arguments = descriptor::parse(descriptor)?.into_boxed_slice();
        let mut template = Template::parse(format)?;
        template.resolve(arguments.len(), &mut Vec::new());
        let mut steps = Vec::new();
        let mut literal = Vec::new();
        for piece in template.pieces {
            match piece {
                Piece::Literal(text) => literal.extend(text.into_bytes()),
                Piece::Argument { position, spec } => {
                    let field = field(&position, &spec, &arguments)?;
                    steps.push((std::mem::take(&mut literal).into(), field));
                }
            }
        }
        let fast = FastPlan::new(&arguments, &steps, &literal);
        let first = steps.first().map_or(&literal[..], |(before, _)| before);
        let may_look_like_lock = locks::can_begin_like_lock_record(first, !steps.is_empty());
        Ok(SitePlan { arguments, steps: steps.into(), tail: literal.into(), fast, may_look_like_lock })
    }

    /// Marks the site as one of the tracer's locks: then its messages really are lock messages, and do not only begin
    /// like lock messages.
    pub(crate) fn is_lock_site(&mut self) {
        self.may_look_like_lock = false;
    }

    /// Returns whether `text`, a message of this site, begins like a lock message although the site is not a lock.
    #[inline(always)]
    pub(crate) fn begins_like_lock_record(&self, text: &[u8]) -> bool {
        self.may_look_like_lock && locks::begins_like_lock_record(text, false)
    }

    /// Appends the message for the captured arguments in `payload`, exactly as `format!` would make it, not escaped. On
    /// error, appends nothing.
    ///
    /// Cost: no allocation except for the message, unless there are more than 8 arguments.
    ///
    /// # Errors
    /// `payload` is not a payload that this site can write, for the reason in the error.
    pub fn render(&self, payload: &[u8], out: &mut Vec<u8>) -> Result<(), PayloadError> {
        let start = out.len();
        if let Some(fast) = &self.fast {
            if fast.render(self, payload, out).is_some() {
                return Ok(());
            }
            out.truncate(start);
        }
        let result = self.render_any(payload, out);
        if result.is_err() {
            out.truncate(start);
        }
        result
    }

    /// Writes the message to the beginning of `page` if the site has a fast plan that can write the message, and the
    /// message needs no escapes; returns the message's length in bytes. Otherwise, or if `page` is too short, returns
    /// `None`: then the written bytes have no meaning.
    #[inline(always)]
    pub(crate) fn write_plain(&self, payload: &[u8], page: &mut [u8]) -> Option<usize> {
        self.fast.as_ref()?.write_plain(payload, page)
    }

    fn render_any(&self, payload: &[u8], out: &mut Vec<u8>) -> Result<(), PayloadError> {
        let mut few = [&[][..]; 8];
        let mut many = Vec::new();
        let values = match few.get_mut(..self.arguments.len()) {
            Some(few) => few,
            None => {
                many.resize(self.arguments.len(), &[][..]);
                &mut many[..]
            }
        };
        let mut reader = ValueReader::new(payload);
        for (value, ty) in values.iter_mut().zip(&self.arguments) {
            *value = reader.bytes_of(ty)?;
        }
        reader.end()?;
        let start = out.len();
        for (literal, field) in &self.steps {
            out.extend_from_slice(literal);
            let value = self.arguments.get(field.argument).zip(values.get(field.argument));
            let (ty, value) = value.ok_or(PayloadError::Cut)?;
            field.render(ty, &mut ValueReader::new(value), values, out)?;
            if out.len() - start > MAX_MESSAGE {
                return Err(PayloadError::TooLong);
            }
        }
        out.extend_from_slice(&self.tail);
        Ok(())
    }
}

/// Returns the field for a placeholder of the template, after checking that the type of its argument allows the format.
fn field(position: &Position, spec: &Spec, arguments: &[Type]) -> Result<Field, PlanError> {
    let Position::Index(argument) = *position else { return Err(PlanError::NoArgument(arguments.len())) };
    let ty = arguments.get(argument).ok_or(PlanError::NoArgument(argument))?;
    let field = Field {
        argument,
        by: spec.by,
        hex: spec.debug_hex,
        plus: spec.sign == Some(Sign::Plus),
        alternate: spec.alternate,
        zero: spec.zero,
        fill: spec.fill.unwrap_or(' '),
        align: spec.align,
        width: size(&spec.width, arguments)?,
        precision: size(&spec.precision, arguments)?,
    };
    let formattable = match ty {
        Type::Scalar(scalar) => has_trait(*scalar, spec.by),
        _ => spec.by == Trait::Debug && field.width == Size::None,
    };
    if formattable { Ok(field) } else { Err(PlanError::Unformattable(argument)) }
}

fn size(count: &CountSpec, arguments: &[Type]) -> Result<Size, PlanError> {
    match *count {
        CountSpec::None => Ok(Size::None),
        CountSpec::Is(number) => match u16::try_from(number) {
            Ok(number) => Ok(Size::Is(number.into())),
            Err(_) => Err(PlanError::CountTooLarge(number)),
        },
        CountSpec::Index(index) => match arguments.get(index) {
            Some(Type::Scalar(Scalar::U64)) => Ok(Size::Argument(index)),
            Some(_) => Err(PlanError::Unformattable(index)),
            None => Err(PlanError::NoArgument(index)),
        },
        CountSpec::Name(_) | CountSpec::Star => Err(PlanError::NoArgument(arguments.len())),
    }
}

/// Returns whether std implements the formatting trait `by` for the type `scalar`.
fn has_trait(scalar: Scalar, by: Trait) -> bool {
    match scalar {
        Scalar::F32 | Scalar::F64 => {
            matches!(by, Trait::Display | Trait::Debug | Trait::LowerExp | Trait::UpperExp)
        }
        Scalar::Bool | Scalar::Char | Scalar::Str => matches!(by, Trait::Display | Trait::Debug),
        Scalar::Ip | Scalar::Socket => matches!(by, Trait::Display | Trait::Debug),
        Scalar::Void | Scalar::Duration => by == Trait::Debug,
        Scalar::Pointer32 | Scalar::Pointer64 => matches!(by, Trait::Pointer | Trait::Debug),
        _ => by != Trait::Pointer,
    }
}
