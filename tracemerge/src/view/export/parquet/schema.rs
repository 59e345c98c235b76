//! The columns of all tables: their names, their types, and where their values come from. Files have the columns in
//! this order, with the [version](VERSION) in their metadata. docs/formats.md lists the same columns; a test compares
//! both lists.
//!
//! All integers are signed numbers of 64 bits, and times are microseconds since 1970 in UTC, because every reader reads
//! these types without a setting. An unsigned number of 2^63 or more is written as a negative number, which is less by
//! 2^64.

use std::borrow::Cow;

pub(crate) use crate::file::parquet::{FILES_KEY, LAST_KEY, RUN_KEY, STATE_KEY, VERSION, VERSION_KEY};

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ColumnType {
    /// A signed integer of 64 bits, stored as the difference to the row before, because neighbouring rows have similar
    /// values.
    Integer,
    /// A signed integer of 64 bits, stored in a dictionary, because there are few different values.
    FewIntegers,
    /// Microseconds since 1970, in UTC.
    Time,
    /// A floating-point number of 32 bits.
    F32,
    /// A floating-point number of 64 bits.
    F64,
    /// A truth value.
    Bool,
    /// Text.
    Text,
}

/// The description of a column.
#[derive(Clone, Debug)]
pub(crate) struct ColumnSpec {
    /// The name of the column, which is unique in the table.
    pub name: Cow<'static, str>,
    /// The type of the column's values.
    pub of: ColumnType,
    /// Whether a row may have no value.
    pub is_optional: bool,
    /// The source of the column's values.
    pub source: Source,
}

/// The source of the value of a row in a column.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Source {
    /// The value is the number at this index among the numbers that every row has.
    Number(usize),
    /// The value is the number at this index among the numbers that a row may lack. A floating-point number is given by
    /// its bits, and `true` as 1.
    Optional(usize),
    /// The value is this property of the row's thread.
    OfThread(OfThread),
    /// The value is this property of the row's *subject*: of what many rows have in common, such as the site of a
    /// message.
    OfSubject(OfSubject),
    /// The value is the text at this index among the texts of the row.
    Text(usize),
    /// The value is that at this index among the values of the row's message.
    Value(usize),
}

/// A property of a thread, or of its process.
#[derive(Clone, Copy, Debug)]
pub(crate) enum OfThread {
    Pid,
    Tid,
    Label,
    Process,
    Host,
    Boot,
    Exe,
    Run,
    Root,
}

/// The number of properties of a thread.
pub(crate) const OF_THREAD: usize = OfThread::Root as usize + 1;

/// A property of a *subject*, which is what many rows have in common: the site of their messages, the function of their
/// calls, and so on.
#[derive(Clone, Copy, Debug)]
pub(crate) enum OfSubject {
    Kind,
    Level,
    Target,
    Module,
    File,
    Line,
    Function,
    Template,
    Table,
    Place,
    /// The place in the source where the awaited lock or condition was made.
    Made,
    /// The place in the source where the holder had acquired the lock, or where the awaited condition was notified.
    Since,
    Ending,
    Cause,
    /// The index of a value among the values of a message.
    Index,
    /// The name of a value of a message.
    Name,
    /// The type of a value of a message.
    Type,
}

/// The number of properties of a subject.
pub(crate) const OF_SUBJECT: usize = OfSubject::Type as usize + 1;

const fn column(name: &'static str, of: ColumnType, is_optional: bool, source: Source) -> ColumnSpec {
    ColumnSpec { name: Cow::Borrowed(name), of, is_optional, source }
}

const fn text(name: &'static str, is_optional: bool, source: Source) -> ColumnSpec {
    column(name, ColumnType::Text, is_optional, source)
}

/// The columns with which every table of `--format parquet` begins.
pub(super) const COMMON: [ColumnSpec; 6] = [
    column("record", ColumnType::Integer, false, Source::Number(0)),
    column("ticks", ColumnType::Integer, false, Source::Number(1)),
    column("time", ColumnType::Time, false, Source::Number(2)),
    column("pid", ColumnType::Integer, true, Source::OfThread(OfThread::Pid)),
    column("tid", ColumnType::Integer, false, Source::OfThread(OfThread::Tid)),
    text("thread", false, Source::OfThread(OfThread::Label)),
];

/// The columns that follow the common ones in the table of all records of `--format parquet`.
pub(super) const RECORDS: [ColumnSpec; 13] = [
    text("process", false, Source::OfThread(OfThread::Process)),
    text("kind", false, Source::OfSubject(OfSubject::Kind)),
    text("level", true, Source::OfSubject(OfSubject::Level)),
    text("target", true, Source::OfSubject(OfSubject::Target)),
    text("module", true, Source::OfSubject(OfSubject::Module)),
    text("file", true, Source::OfSubject(OfSubject::File)),
    column("line", ColumnType::Integer, true, Source::OfSubject(OfSubject::Line)),
    text("function", true, Source::OfSubject(OfSubject::Function)),
    text("template", true, Source::OfSubject(OfSubject::Template)),
    text("message", true, Source::Text(0)),
    text("fields", true, Source::Text(1)),
    text("table", true, Source::OfSubject(OfSubject::Table)),
    column("error_ns", ColumnType::Integer, true, Source::Optional(0)),
];

/// The columns of the table `records` of a data set.
pub(crate) static DATASET_RECORDS: [ColumnSpec; 19] = [
    column("wall", ColumnType::Time, false, Source::Number(0)),
    column("ticks", ColumnType::Integer, false, Source::Number(1)),
    text("host", true, Source::OfThread(OfThread::Host)),
    text("boot", true, Source::OfThread(OfThread::Boot)),
    column("pid", ColumnType::Integer, true, Source::OfThread(OfThread::Pid)),
    text("exe", true, Source::OfThread(OfThread::Exe)),
    text("run", true, Source::OfThread(OfThread::Run)),
    column("tid", ColumnType::Integer, false, Source::OfThread(OfThread::Tid)),
    text("thread", false, Source::OfThread(OfThread::Label)),
    text("kind", false, Source::OfSubject(OfSubject::Kind)),
    text("level", true, Source::OfSubject(OfSubject::Level)),
    text("target", true, Source::OfSubject(OfSubject::Target)),
    text("place", true, Source::OfSubject(OfSubject::Place)),
    text("template", true, Source::OfSubject(OfSubject::Template)),
    text("message", true, Source::Text(0)),
    text("function", true, Source::OfSubject(OfSubject::Function)),
    column("depth", ColumnType::FewIntegers, false, Source::Number(2)),
    column("span", ColumnType::Integer, true, Source::Optional(0)),
    column("record", ColumnType::Integer, false, Source::Number(3)),
];

/// The columns of the table `values` of a data set.
pub(crate) static DATASET_VALUES: [ColumnSpec; 18] = [
    column("wall", ColumnType::Time, false, Source::Number(0)),
    text("host", true, Source::OfThread(OfThread::Host)),
    text("boot", true, Source::OfThread(OfThread::Boot)),
    column("pid", ColumnType::Integer, true, Source::OfThread(OfThread::Pid)),
    text("exe", true, Source::OfThread(OfThread::Exe)),
    text("run", true, Source::OfThread(OfThread::Run)),
    column("tid", ColumnType::Integer, false, Source::OfThread(OfThread::Tid)),
    text("thread", false, Source::OfThread(OfThread::Label)),
    column("record", ColumnType::Integer, false, Source::Number(1)),
    text("template", true, Source::OfSubject(OfSubject::Template)),
    text("place", true, Source::OfSubject(OfSubject::Place)),
    column("index", ColumnType::Integer, true, Source::OfSubject(OfSubject::Index)),
    text("name", true, Source::OfSubject(OfSubject::Name)),
    text("type", true, Source::OfSubject(OfSubject::Type)),
    column("integer_value", ColumnType::Integer, true, Source::Optional(0)),
    column("float_value", ColumnType::F64, true, Source::Optional(1)),
    column("bool_value", ColumnType::Bool, true, Source::Optional(2)),
    text("text_value", true, Source::Text(0)),
];

/// The columns of the table `waits` of a data set.
pub(crate) static DATASET_WAITS: [ColumnSpec; 18] = [
    column("begin", ColumnType::Time, false, Source::Number(0)),
    column("end", ColumnType::Time, false, Source::Number(1)),
    text("host", true, Source::OfThread(OfThread::Host)),
    text("boot", true, Source::OfThread(OfThread::Boot)),
    column("pid", ColumnType::Integer, true, Source::OfThread(OfThread::Pid)),
    text("exe", true, Source::OfThread(OfThread::Exe)),
    text("run", true, Source::OfThread(OfThread::Run)),
    column("tid", ColumnType::Integer, false, Source::OfThread(OfThread::Tid)),
    text("thread", false, Source::OfThread(OfThread::Label)),
    text("kind", false, Source::OfSubject(OfSubject::Kind)),
    column("object", ColumnType::Integer, true, Source::Optional(0)),
    text("made", true, Source::OfSubject(OfSubject::Made)),
    text("place", true, Source::OfSubject(OfSubject::Place)),
    column("holder", ColumnType::Integer, true, Source::Optional(1)),
    text("since", true, Source::OfSubject(OfSubject::Since)),
    text("ending", true, Source::OfSubject(OfSubject::Ending)),
    text("cause", true, Source::OfSubject(OfSubject::Cause)),
    column("duration", ColumnType::Integer, false, Source::Number(2)),
];

/// The columns of the table `runs` of a data set.
pub(crate) static DATASET_RUNS: [ColumnSpec; 10] = [
    column("begin", ColumnType::Time, false, Source::Number(0)),
    column("end", ColumnType::Time, false, Source::Number(1)),
    text("host", true, Source::OfThread(OfThread::Host)),
    text("boot", true, Source::OfThread(OfThread::Boot)),
    column("pid", ColumnType::Integer, true, Source::OfThread(OfThread::Pid)),
    text("exe", true, Source::OfThread(OfThread::Exe)),
    text("run", true, Source::OfThread(OfThread::Run)),
    text("root", true, Source::OfThread(OfThread::Root)),
    column("records", ColumnType::Integer, false, Source::Number(2)),
    column("lost", ColumnType::Integer, false, Source::Number(3)),
];

/// The columns of the table `calls` of a data set.
pub(crate) static DATASET_CALLS: [ColumnSpec; 20] = [
    column("begin", ColumnType::Time, false, Source::Number(0)),
    column("end", ColumnType::Time, false, Source::Number(1)),
    column("ticks", ColumnType::Integer, false, Source::Number(2)),
    text("host", true, Source::OfThread(OfThread::Host)),
    text("boot", true, Source::OfThread(OfThread::Boot)),
    column("pid", ColumnType::Integer, true, Source::OfThread(OfThread::Pid)),
    text("exe", true, Source::OfThread(OfThread::Exe)),
    text("run", true, Source::OfThread(OfThread::Run)),
    column("tid", ColumnType::Integer, false, Source::OfThread(OfThread::Tid)),
    text("thread", false, Source::OfThread(OfThread::Label)),
    text("function", true, Source::OfSubject(OfSubject::Function)),
    text("place", true, Source::OfSubject(OfSubject::Place)),
    text("ending", false, Source::OfSubject(OfSubject::Kind)),
    column("call", ColumnType::Integer, false, Source::Number(3)),
    column("parent", ColumnType::Integer, true, Source::Optional(0)),
    column("depth", ColumnType::FewIntegers, false, Source::Number(4)),
    column("duration", ColumnType::Integer, false, Source::Number(5)),
    column("own", ColumnType::Integer, false, Source::Number(6)),
    column("waiting", ColumnType::Integer, false, Source::Number(7)),
    column("span", ColumnType::Integer, true, Source::Optional(1)),
];

/// The columns of the table `spans` of a data set.
pub(crate) static DATASET_SPANS: [ColumnSpec; 18] = [
    column("begin", ColumnType::Time, false, Source::Number(0)),
    column("end", ColumnType::Time, false, Source::Number(1)),
    text("host", true, Source::OfThread(OfThread::Host)),
    text("boot", true, Source::OfThread(OfThread::Boot)),
    column("pid", ColumnType::Integer, true, Source::OfThread(OfThread::Pid)),
    text("exe", true, Source::OfThread(OfThread::Exe)),
    text("run", true, Source::OfThread(OfThread::Run)),
    column("tid", ColumnType::Integer, false, Source::OfThread(OfThread::Tid)),
    text("thread", false, Source::OfThread(OfThread::Label)),
    text("name", false, Source::Text(0)),
    text("fields", true, Source::Text(1)),
    text("ending", false, Source::OfSubject(OfSubject::Kind)),
    column("span", ColumnType::Integer, false, Source::Number(2)),
    column("parent", ColumnType::Integer, true, Source::Optional(0)),
    column("duration", ColumnType::Integer, false, Source::Number(3)),
    column("busy", ColumnType::Integer, false, Source::Number(4)),
    column("idle", ColumnType::Integer, false, Source::Number(5)),
    column("polls", ColumnType::Integer, false, Source::Number(6)),
];

/// The columns of the table `losses` of a data set.
pub(crate) static DATASET_LOSSES: [ColumnSpec; 11] = [
    column("wall", ColumnType::Time, false, Source::Number(0)),
    column("ticks", ColumnType::Integer, false, Source::Number(1)),
    text("host", true, Source::OfThread(OfThread::Host)),
    text("boot", true, Source::OfThread(OfThread::Boot)),
    column("pid", ColumnType::Integer, true, Source::OfThread(OfThread::Pid)),
    text("exe", true, Source::OfThread(OfThread::Exe)),
    text("run", true, Source::OfThread(OfThread::Run)),
    column("tid", ColumnType::Integer, false, Source::OfThread(OfThread::Tid)),
    text("thread", false, Source::OfThread(OfThread::Label)),
    column("records", ColumnType::Integer, false, Source::Number(2)),
    text("reason", false, Source::Text(0)),
];

/// The columns of the table `clocks` of a data set.
pub(crate) static DATASET_CLOCKS: [ColumnSpec; 11] = [
    column("wall", ColumnType::Time, false, Source::Number(0)),
    column("ticks", ColumnType::Integer, false, Source::Number(1)),
    text("host", true, Source::OfThread(OfThread::Host)),
    text("boot", true, Source::OfThread(OfThread::Boot)),
    column("pid", ColumnType::Integer, true, Source::OfThread(OfThread::Pid)),
    text("exe", true, Source::OfThread(OfThread::Exe)),
    text("run", true, Source::OfThread(OfThread::Run)),
    column("tid", ColumnType::Integer, false, Source::OfThread(OfThread::Tid)),
    text("thread", false, Source::OfThread(OfThread::Label)),
    text("reading", false, Source::Text(0)),
    column("error_ns", ColumnType::Integer, true, Source::Optional(0)),
];
